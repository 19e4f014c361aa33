"""`report.html`: the evidence of a run in one file that opens from disk. Its numbers are text, its picture is drawn.

Everything in it follows from the history and pytest's outcomes. It loads nothing: script and style are inlined and
named by their hashes in its policy, and the drawing is the one of the Control Plane's page.
"""

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from importlib.resources import files
from typing import Any

from smoke.history import Environment
from smoke.judgement import CaseResult, Judgement
from smoke.markup import Element, document, el, in_script, policy, raw
from smoke.timeline import Timeline, timeline
from smoke.view import RoundView, final_load, maxima, provider_maxima, story

#: the burst is the picture; what else was drawn stands smaller below the cases
_LARGE, _SMALL = "large", "small"


def html(run: str, judgement: Judgement, outcomes: Mapping[str, str], line: str) -> str:
    """The text of the document. Pure but for the files of this checkout that it inlines."""
    drawn = {view.round.round_id: data for view in judgement.rounds if (data := timeline(view)) is not None}
    style = _file("smoke", "report.css")
    scripts = [_file("iop.control", "page/drawing.js"), _file("smoke", "report.js")] if drawn else []
    head = el(
        "head",
        el("meta", charset="utf-8"),
        el("meta", http_equiv="Content-Security-Policy", content=policy(scripts, [style])),
        el("meta", name="viewport", content="width=device-width, initial-scale=1"),
        el("meta", name="color-scheme", content="light dark"),
        el("title", f"Smoke of {judgement.env.env}: {_state(judgement, outcomes)[1]}"),
        raw("style", style),
    )
    body = el(
        "body",
        _banner(judgement.env),
        el("main", *_parts(run, judgement, outcomes, line, drawn)),
        raw("script", in_script(drawn), type="application/json", id="rounds") if drawn else None,
        *(raw("script", text) for text in scripts),
    )
    return document(el("html", head, body, lang="en"))


def _parts(
    run: str, judgement: Judgement, outcomes: Mapping[str, str], line: str, drawn: Mapping[str, Timeline]
) -> Iterator[Element]:
    yield _header(run, judgement, outcomes, line)
    yield from _blockers(judgement)
    large = {view.round.round_id for view in judgement.pictured}
    yield from (_figure(view, drawn, _LARGE) for view in judgement.pictured)
    yield _cases(judgement)
    others = [view for view in judgement.rounds if view.round.round_id not in large and view.round.round_id in drawn]
    if others:
        yield _section("Other rounds", el("div", *(_figure(view, drawn, _SMALL) for view in others), class_="others"))
    yield from _voids(judgement)
    yield from _tests(outcomes)
    yield from _versions(judgement)
    yield _how(run, judgement.env)


# --- what was proved -------------------------------------------------------------------------------------------------


def _banner(env: Environment) -> Element | None:
    return el("p", env.banner, class_="banner", role="note") if env.banner else None


def _header(run: str, judgement: Judgement, outcomes: Mapping[str, str], line: str) -> Element:
    kind, word = _state(judgement, outcomes)
    env = judgement.env
    facts = [
        ("environment", env.env),
        ("Edge", env.edge_id),
        ("started", _when(env.at)),
        ("slots", f"{env.capacity} = " + " + ".join(f"{slots} {name}" for name, slots in env.capacities.items())),
        ("model", env.smoke_model),
    ]
    facts += [("hosts", ", ".join(f"{name} at {address}" for name, address in env.hosts.items()))] if env.hosts else []
    return el(
        "header",
        el("h1", f"Smoke of {env.env}: ", el("span", word, class_=kind)),
        el("p", *_spaced([el("span", part) for part in line.split(" · ")]), class_="line"),
        el("dl", *(el("div", el("dt", name), el("dd", text)) for name, text in facts), class_="facts"),
        el("p", "Run ", el("code", run), class_="quiet"),
    )


def _state(judgement: Judgement, outcomes: Mapping[str, str]) -> tuple[str, str]:
    if judgement.blockers:
        return "bad", "blocked"
    if not judgement.ok or "failed" in outcomes.values():
        return "bad", "not proved"
    return "good", "proved"


def _blockers(judgement: Judgement) -> Iterator[Element]:
    if found := judgement.reasons:
        items = [el("li", el("strong", reason), f" (first met by {case})") for reason, case in found.items()]
        told = "What was not there. It fails the run and is no fault of the software."
        yield _section("Blockers", el("p", told), el("ul", *items), class_="blockers")


# --- the picture -----------------------------------------------------------------------------------------------------


def _figure(view: RoundView, drawn: Mapping[str, Timeline], size: str) -> Element:
    title = f"{view.round.case}: slots in use and waiting, over time"
    data = drawn.get(view.round.round_id)
    follow = " Its numbers follow." if size == _LARGE else ""
    svg = el("svg", data_round=view.round.round_id, data_title=title, class_=size, role="img", aria_label=story(view))
    return el(
        "figure",
        el("figcaption", el("h2" if size == _LARGE else "h3", view.round.case), el("p", story(view))),
        svg if data is not None else None,
        el("noscript", el("p", f"The picture needs scripts.{follow}")) if data is not None else None,
        *(_numbers(view, data) if size == _LARGE else ()),
        class_=size,
    )


def _numbers(view: RoundView, data: Timeline | None) -> Iterator[Element]:
    peaks, engines = provider_maxima(view), {engine.provider_id: engine for engine in view.engines}
    rows = [[name, str(slots), str(peaks[name])] for name, slots in view.env.capacities.items()]
    for row in rows if engines else ():  # simulators count for themselves
        row.append(str(engines[row[0]].after["peak_offered"]) if row[0] in engines else "not told")
    top, waiting = maxima(view)
    final = "/".join(map(str, final_load(view)))
    yield _table(
        f"Maxima of {view.round.case}, from the event log: {top} in flight, {waiting} waiting, {final} at the end",
        ["provider", "slots", "in flight", *(["offered to its engine"] if engines else [])],
        rows,
    )
    if data is not None:
        yield el("details", el("summary", "Every change, as numbers"), _changes(view, data))


def _changes(view: RoundView, data: Timeline) -> Element:
    names = list(view.env.capacities)
    rows = [
        [f"{point['at']:.2f}", *(str(point["inFlight"].get(name, 0)) for name in names), str(point["queued"])]
        for point in data["points"]
    ]
    return _table("Load from each moment on", ["seconds", *names, "waiting"], rows)


# --- the rest --------------------------------------------------------------------------------------------------------


def _cases(judgement: Judgement) -> Element:
    return _section("Cases", *(_case(case) for case in judgement.cases.values()))


def _case(case: CaseResult) -> Element:
    good = sum(verdict.ok for verdict in case.verdicts)
    told = f"{good} of {len(case.verdicts)} verdicts" if case.verdicts else "no round that counts"
    void = f", {len(case.voids)} void" if case.voids else ""
    summary = el("summary", _mark(case.ok, "proved", "not proved"), f" {case.case} ", el("small", told + void))
    rows = [
        el("li", _mark(one.ok, "ok", "failed"), f" {one.name} ", el("span", one.detail, class_="quiet"))
        for one in case.verdicts
    ]
    return el("details", summary, el("ul", *rows), **({} if case.ok else {"open": ""}))


def _voids(judgement: Judgement) -> Iterator[Element]:
    rows = [[case.case, round_id, reason] for case in judgement.cases.values() for round_id, reason in case.voids]
    if rows:
        told = "A void round proves nothing: it is neither pass nor failure, and was repeated."
        yield _section("Void rounds", el("p", told), _table("Void rounds", ["case", "round", "reason"], rows))


def _tests(outcomes: Mapping[str, str]) -> Iterator[Element]:
    if outcomes:
        rows = [el("li", _mark(what == "passed", what, what), f" {name}") for name, what in sorted(outcomes.items())]
        yield _section("Tests", el("ul", *rows, class_="tests"))


def _versions(judgement: Judgement) -> Iterator[Element]:
    status: Mapping[str, Any] | None = judgement.status
    if status is None:
        return
    edge, config = status["edge"], status["config"]
    who = [(f"Edge {edge['id']}", edge), *((f"node {node['id']}", node) for node in status["nodes"])]
    rows = [[name, str(one["version"]), str(one["release_id"])] for name, one in who]
    told = f"Config generation {config['generation']}, sha256 {config['sha256']}"
    yield _section("Versions", _table("Who was asked", ["what", "version", "release"], rows), el("p", told))


def _how(run: str, env: Environment) -> Element:
    again = f"python -m smoke.judge build/{env.env}-runtime/smoke/{run}"
    commands = [("Run by", env.command), ("Judge the same records again", again)]
    parts = [el("p", f"{what}: ", el("code", command)) for what, command in commands if command]
    return _section("How it was run", *parts, el("p", env.runner, class_="quiet") if env.runner else None)


def _section(title: str, *children: Element | None, **attributes: str) -> Element:
    return el("section", el("h2", title), *children, **attributes)


def _table(caption: str, head: list[str], rows: list[list[str]]) -> Element:
    top = el("thead", el("tr", *(el("th", name, scope="col") for name in head)))
    body = [el("tr", el("th", first, scope="row"), *(el("td", text) for text in rest)) for first, *rest in rows]
    return el("div", el("table", el("caption", caption), top, el("tbody", *body)), class_="wide")


def _mark(ok: bool, good: str, bad: str) -> Element:  # noqa: FBT001 - which of the two words
    return el("b", ("✓ " if ok else "✗ ") + (good if ok else bad), class_="good" if ok else "bad")


def _spaced(parts: list[Element]) -> Iterator[Element | str]:
    for number, part in enumerate(parts):
        yield from ((" · ", part) if number else (part,))


def _when(at: float) -> str:
    return f"{datetime.fromtimestamp(at, UTC):%Y-%m-%d %H:%M:%S} UTC"


def _file(package: str, name: str) -> str:
    return files(package).joinpath(name).read_text(encoding="utf-8")
