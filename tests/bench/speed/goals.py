"""The goals as data: what is measured, how it follows from the rows of a run, and the mark it is held to. Pure."""

from collections.abc import Callable, Iterable, Sequence

from tests.bench.speed.capacity import BURSTS, LEAVERS, SLOTS
from tests.bench.speed.judging import Goal, Kind, Part
from tests.bench.speed.leaving import PHASES, unseen
from tests.bench.speed.rig import CAPACITIES
from tests.bench.speed.values import Row, Rows, Value, worst

OURS, TWO_HOPS, DIRECT = "iop", "nginx-2hop", "direct"
RUST = ("sglang-router", "vllm-router")
Compute = Callable[[Rows], Value | None]


def _ratio(pick: str, test: str, beside: str = TWO_HOPS, **keys: object) -> Compute:
    return lambda rows: rows.ratio(pick, test, (OURS, beside), **keys)


def _added(pick: str, test: str) -> Compute:
    return lambda rows: rows.added(pick, test, (OURS, DIRECT))


def _own(pick: str, test: str, **keys: object) -> Compute:
    return lambda rows: rows.value(pick, test, OURS, **keys)


def _beside_rust(pick: str, test: str) -> Compute:
    return lambda rows: worst(rows.ratio(pick, test, (OURS, one)) for one in RUST)


def _total(numbers: Iterable[float]) -> Value | None:
    """A sum over all rounds, noisy ones too: a count has no noise."""
    known = list(numbers)
    return Value(sum(known), min(known), max(known), len(known)) if known else None


def limited(rows: Rows) -> list[Row]:
    """Ours before engines with limits."""
    return [row for test in ("bursts", "turns", "left") for row in rows.of(test, OURS)]


def _over(rows: Rows) -> Value | None:
    """Requests at an engine beyond its slots, at the worst moment of each row."""
    peaks = [row["peaks"] for row in limited(rows)]
    return _total(sum(max(0, most - slots) for most, slots in zip(one, CAPACITIES, strict=True)) for one in peaks)


def answered(rows: Rows) -> list[tuple[int, int]]:
    """(answered, asked) of each row of ours in which every request is to be answered, whatever the row is about."""
    loads = [row["load"] for row in rows.rows if row.get("peer") == OURS and "error" not in row and "load" in row]
    found = [(load["ok"], load["n"]) for load in loads if "n" in load]
    found += [(sum(row["answers"].values()), len(row["answers"])) for row in rows.of("features", OURS)]
    # those behind whom others leave the line: they hold the slots, and stay
    found += [(row["blockers_ok"], SLOTS) for row in rows.of("left", OURS)]
    # those beside the reader that stalls: the row keeps the number of the bad ones alone
    return found + [(0, row["bad"]) for row in rows.of("slow", OURS)]


def _unanswered(rows: Rows) -> Value | None:
    """Requests without a whole answer, a round that failed being one; None as long as the line was not tried."""
    tried = {(row["test"], row["count"]) for row in limited(rows) if "count" in row}
    if not {("bursts", count) for count in BURSTS} <= tried:
        return None
    failed = sum(row.get("peer") == OURS and "error" in row for row in rows.rows)
    return _total([failed, *(wanted - whole for whole, wanted in answered(rows))])


def _unseen(rows: Rows) -> Value | None:
    """Clients that were to leave and whose leaving the engine did not see, in any phase."""
    if any(not rows.of("cancel", OURS, phase=phase) for phase in PHASES):
        return None
    return _total(unseen(row) for row in rows.of("cancel", OURS))


def _dispatched(rows: Rows) -> Value | None:
    """Requests that reached an engine after their client had left the line, or that were not let wait there at all."""
    return _total(row["dispatched"] + max(0, LEAVERS - row["left"]) for row in rows.of("left", OURS))


def _leaving(pick: str) -> Compute:
    return lambda rows: worst(rows.value(pick, "cancel", OURS, phase=phase) for phase in PHASES)


def _makespan(rows: Rows) -> Value | None:
    return worst(rows.value("times_ideal", "bursts", OURS, count=count) for count in BURSTS)


def _late(rows: Rows) -> Value | None:
    return worst(rows.value("places_late", "bursts", OURS, count=count) for count in BURSTS)


def _others(row: Row) -> float | None:
    return row["rps_beside"] / row["rps_alone"] if row["rps_alone"] else None


def _peaks(rows: Rows) -> str:
    found = [row["peaks"] for row in limited(rows)]
    return "/".join(str(max(one)) for one in zip(*found, strict=True))


def _answers(rows: Rows) -> str:
    found = answered(rows)
    return f"{sum(whole for whole, _ in found)}/{sum(wanted for _, wanted in found)}"


def _least(compute: Compute, mark: float, digits: int = 2) -> Part:
    return Part(compute, mark, at_least=True, digits=digits)


def _most(compute: Compute, mark: float, digits: int = 2) -> Part:
    return Part(compute, mark, digits=digits)


def _json(beside: str, pick: str = "load.rps", connections: int = 64) -> Compute:
    return _ratio(pick, "rps", beside, connections=connections)


def _count(compute: Compute) -> Part:
    return Part(compute, 0, counted=True, digits=0)


MUST: Kind = "correctness"
TOLD: Kind = "speed"
FIRST, WAY = "load.ttft_ms", "load.transit_us"
#: (word in the line, what is measured, kind, unit, numbers with their marks, how it is shown instead of them)
GOALS: Sequence[Goal] = (
    Goal("never-over", "requests at an engine beyond its slots", MUST, "", (_count(_over),), _peaks),
    Goal("answered", "requests of all measures without a whole answer", MUST, "", (_count(_unanswered),), _answers),
    Goal("left-behind", "clients that were to leave: not seen by the engine; dispatched after they left the line", MUST,
         "", (_count(_unseen), _count(_dispatched))),
    Goal("cancel", "client leaves, until the engine sees it, worst of three phases: median; slowest of a round, as the "
         "median over the rounds", MUST, "ms", (_most(_leaving("p50_ms"), 2.5), _most(_leaving("max_ms"), 5.0))),
    Goal("burst", "11, 40, 200 jobs of 0.5 s on 10 slots, over the ideal", TOLD, "x", (_most(_makespan, 1.005, 4),)),
    Goal("hand-over", "1000 jobs of 20 ms on 10 slots, over the ideal", TOLD, "x",
         (_most(_own("times_ideal", "turns"), 1.04, 3),)),
    Goal("order", "places in line that a request was overtaken by", TOLD, "places", (_most(_late, SLOTS - 1, 0),)),
    Goal("json", "JSON requests/s, 64 connections, over nginx two-hop", TOLD, "x", (_least(_json(TWO_HOPS), 0.5),)),
    Goal("json/rust", "the same over sglang-router, vllm-router (one hop each)", TOLD, "x",
         tuple(_least(_json(one), 1.0) for one in RUST)),
    Goal("json/litellm", "the same over litellm", TOLD, "x", (_least(_json("litellm"), 120, 0),)),
    Goal("p50", "median latency at 1 connection, over nginx two-hop", TOLD, "x",
         (_most(_json(TWO_HOPS, "load.lat_ms.p50", 1), 1.6),)),
    Goal("cpu", "CPU per request, 64 connections, over nginx two-hop", TOLD, "x",
         (_most(_json(TWO_HOPS, "cpu_us_request"), 2.0),)),
    Goal("cpu/chunk", "CPU per chunk at 20,000 chunks/s, over nginx two-hop", TOLD, "x",
         (_most(_ratio("cpu_us_chunk", "streamload"), 1.2),)),
    Goal("first-token", "added time to the first token, 64 streams: p50, p99", TOLD, "ms",
         (_most(_added(f"{FIRST}.p50", "stream20"), 0.35), _most(_added(f"{FIRST}.p99", "stream20"), 0.7))),
    Goal("first-token/rust", "time to the first token over that of the Rust routers: p50, p99", TOLD, "x",
         (_most(_beside_rust(f"{FIRST}.p50", "stream20"), 1.0), _most(_beside_rust(f"{FIRST}.p99", "stream20"), 1.0))),
    Goal("transit", "way of a chunk, over nginx two-hop: p50, p99", TOLD, "x",
         (_most(_ratio(f"{WAY}.p50", "stream20"), 1.0), _most(_ratio(f"{WAY}.p99", "stream20"), 1.0))),
    Goal("memory", "Edge and Node, idle", TOLD, "MB", (_most(_own("idle_mb", "mem"), 60, 0),)),
    Goal("per-stream", "memory per open stream, of a thousand", TOLD, "KB", (_most(_own("kb_stream", "mem"), 20, 1),)),
    Goal("stalled", "growth while one reader stalls on 200 MB", TOLD, "MB", (_most(_own("growth_mb", "slow"), 4, 1),)),
    Goal("beside-it", "requests/s of the others meanwhile, over those before", TOLD, "x",
         (_least(lambda rows: rows.value(_others, "slow", OURS), 0.95),)),
    Goal("10-MB", "added time of a request of 10 MB", TOLD, "ms", (_most(_added("load.lat_ms.p50", "big_up"), 50, 0),)),
    Goal("50-MB", "a stream of 50 MB: MB/s over nginx two-hop", TOLD, "x",
         (_least(_ratio("load.mb_s", "big_down"), 1.0),)),
    Goal("50-MB-growth", "growth meanwhile", TOLD, "MB", (_most(_own("growth_mb", "big_down"), 5, 1),)),
)  # fmt: skip
