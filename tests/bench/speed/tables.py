"""A run as Markdown: its goals, and a table per measure, medians over the quiet rounds with their ends."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from tests.bench.speed.judging import Part, Verdict
from tests.bench.speed.leaving import PHASES, unseen
from tests.bench.speed.processes import QUIET
from tests.bench.speed.summing import one_line
from tests.bench.speed.values import Pick, Row, Rows, Value

#: what a ratio is taken to, where it was measured
BESIDE = ("nginx-2hop", "haproxy", "sglang-router", "vllm-router")


@dataclass(frozen=True)
class Table:
    """Rows of one measure. Columns: (head, number, digits). `ratio`: the number whose ratio to others is told."""

    title: str
    test: str
    columns: Sequence[tuple[str, Pick, int]]
    keys: Mapping[str, object] = field(default_factory=dict)
    ratio: Pick | None = None
    texts: Sequence[tuple[str, Callable[[Sequence[Row]], str]]] = ()


def _bad(rows: Sequence[Row]) -> str:
    return str(sum(row["load"]["n"] - row["load"]["ok"] for row in rows))


def _answered(rows: Sequence[Row]) -> str:
    return f"{sum(row['load']['ok'] for row in rows)}/{sum(row['load']['n'] for row in rows)}"


def _peaks(rows: Sequence[Row]) -> str:
    return "/".join(str(max(one)) for one in zip(*(row["peaks"] for row in rows), strict=True))


def _never(rows: Sequence[Row]) -> str:
    return str(sum(unseen(row) for row in rows))


_BAD = (("without answer", _bad),)
_LINE = (("peaks", _peaks), ("answered", _answered))
_STREAM = (
    ("first token p50 ms", "load.ttft_ms.p50", 2), ("p99 ms", "load.ttft_ms.p99", 2),
    ("chunk p50 us", "load.transit_us.p50", 0), ("p99 us", "load.transit_us.p99", 0),
    ("CPU us/chunk", "cpu_us_chunk", 1),
)  # fmt: skip
_REQUEST = (
    ("requests/s", "load.rps", 0), ("p50 ms", "load.lat_ms.p50", 3), ("p99 ms", "load.lat_ms.p99", 2),
    ("CPU us/request", "cpu_us_request", 0),
)  # fmt: skip
TABLES: Sequence[Table] = (
    *(
        Table(f"JSON answers, {n} connection{'s' * (n > 1)}", "rps", _REQUEST, {"connections": n}, "load.rps", _BAD)
        for n in (1, 10, 64)
    ),
    Table("10 streams of 200 chunks without a pause", "stream0",
          (("chunks/s", "load.chunks_s", 0), ("CPU us/chunk", "cpu_us_chunk", 2)), {}, "load.chunks_s", _BAD),
    Table("64 streams of 100 chunks at 20 ms, one after the other", "stream20", _STREAM, {}, "load.ttft_ms.p50", _BAD),
    Table("64 streams of 100 chunks at 20 ms, all at once", "stream20burst", _STREAM, {}, "load.ttft_ms.p50", _BAD),
    Table("200 streams at 10 ms: 20,000 chunks/s, ideally in 2.2 s", "streamload",
          (("s", "load.wall_s", 2), *_STREAM[2:], ("CPU %", "cpu_percent", 0)), {}, "cpu_us_chunk", _BAD),
    Table("A request of 10 MB", "big_up",
          (("p50 ms", "load.lat_ms.p50", 1), ("CPU us/request", "cpu_us_request", 0)),
          {}, "load.lat_ms.p50", _BAD),
    Table("A stream of 50 MB", "big_down",
          (("MB/s", "load.mb_s", 0), ("CPU ms/MB", "cpu_ms_mb", 2), ("growth MB", "growth_mb", 1)),
          {}, "load.mb_s", _BAD),
    *(
        Table(f"A client leaves, {phase}: ms until the engine sees it", "cancel",
              (("p50 ms", "p50_ms", 2), ("slowest ms", "max_ms", 2)), {"phase": phase}, None,
              (("not seen", _never),))
        for phase in PHASES
    ),
    Table("Memory (PSS)", "mem",
          (("idle MB", "idle_mb", 1), ("KB per open stream", "kb_stream", 1)), {}, "idle_mb", _BAD),
    Table("One reader stalls on 200 MB", "slow",
          (("growth MB", "growth_mb", 1), ("others before, rps", "rps_alone", 0), ("meanwhile", "rps_beside", 0))),
    *(
        Table(f"{count} requests of 0.5 s, engines of 4/3/3", "bursts",
              (("s", "load.wall_s", 3), ("x ideal", "times_ideal", 4), ("places late", "places_late", 0)),
              {"count": count}, None, _LINE)
        for count in (11, 40, 200)
    ),
    Table("1000 requests of 20 ms from 200 clients, engines of 4/3/3", "turns",
          (("s", "load.wall_s", 3), ("x ideal", "times_ideal", 3)), {}, None, _LINE),
    Table("Ten clients leave the line", "left", (("left", "left", 0), ("dispatched all the same", "dispatched", 0))),
)  # fmt: skip


def page(rows: Rows, verdicts: Sequence[Verdict], facts: Mapping[str, str], versions: Mapping[str, str]) -> str:
    """All of it."""
    parts = [
        "# We beside others", "", *(f"- {name}: {fact}" for name, fact in facts.items()), "",
        one_line(verdicts), "", "## Goals", "",
        "Medians over the quiet rounds, in brackets the least and the most of them.", "", *goals(verdicts), "",
        "## Peers", "", *_grid(["peer", "version"], [[peer, known] for peer, known in versions.items()]), "",
        *_left_out(rows), "## Measures", "",
        f"Ratios are taken round by round. A round is quiet when other programs use less than {QUIET} cores in it.",
    ]  # fmt: skip
    for table in TABLES:
        if lines := _measure(rows, table):
            parts += ["", f"### {table.title}", "", *lines]
    return "\n".join(parts) + "\n"


def goals(verdicts: Sequence[Verdict]) -> list[str]:
    """The table that docs/explanation/performance.md shows."""
    return _grid(
        ["goal", "what", "measured", "mark", "rounds", ""],
        [
            [
                one.goal.name, f"{one.goal.measure}{f' ({one.goal.unit})' if one.goal.unit else ''}",
                " / ".join(cell(value, part.digits) for part, value in zip(one.goal.parts, one.values, strict=True)),
                " / ".join(mark(part) for part in one.goal.parts),
                str(min((value.rounds for value in one.values if value), default=0)),
                one.word if one.quiet else f"{one.word} (not quiet)",
            ]
            for one in verdicts
        ],
    )  # fmt: skip


def mark(part: Part) -> str:
    """As in `<= 2.5`."""
    return f"{'≥' if part.at_least else '≤'} {part.mark:g}"


def cell(value: Value | None, digits: int) -> str:
    """As in `1.03 (1.02 to 1.05)`."""
    if value is None:
        return "-"
    ends = f" ({value.low:,.{digits}f} to {value.high:,.{digits}f})" if value.rounds > 1 else ""
    return f"{value.value:,.{digits}f}{ends}"


def _measure(rows: Rows, table: Table) -> list[str]:
    beside = [one for one in BESIDE if table.ratio is not None and rows.of(table.test, one, **table.keys)]
    lines = []
    for peer in rows.peers():
        if not (own := rows.of(table.test, peer, **table.keys)):
            continue
        cells = [cell(rows.value(pick, table.test, peer, **table.keys), digits) for _, pick, digits in table.columns]
        ratios = [rows.ratio(table.ratio or "", table.test, (peer, one), **table.keys) for one in beside]
        quiet = sum(row.get("others_cores", 0.0) < QUIET for row in own)
        texts = [text(own) for _, text in table.texts]
        lines.append([peer, *cells, *(cell(one, 2) for one in ratios), *texts, f"{quiet} of {len(own)}"])
    named = next((head for head, pick, _ in table.columns if pick == table.ratio), "")
    heads = [head for head, _, _ in table.columns]
    heads += [f"{named}, x {one}" for one in beside] + [head for head, _ in table.texts]
    return _grid(["peer", *heads, "quiet rounds"], lines) if lines else []


def _left_out(rows: Rows) -> Iterable[str]:
    missing = [row for row in rows.rows if row["test"] == "left out" or "error" in row]
    for row in missing:
        of = f" of {row['test']}" if "error" in row else ""
        yield f"- {row['peer']} is left out{of}: {row.get('reason') or row['error']}"
    if missing:
        yield ""


def _grid(heads: Sequence[str], lines: Sequence[Sequence[str]]) -> list[str]:
    return [f"| {' | '.join(one)} |" for one in (heads, ["---"] * len(heads), *lines)]
