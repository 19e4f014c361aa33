"""`report.md`: the evidence of a run for people. Everything in it follows from the history and pytest's outcomes."""

from collections.abc import Iterator, Mapping
from typing import Any

from smoke.history import Environment
from smoke.judgement import Judgement
from smoke.view import RoundView, final_load, maxima, provider_maxima


def lines(run: str, judgement: Judgement, outcomes: Mapping[str, str], line: str) -> Iterator[str]:
    """The lines of the report. Pure."""
    env = judgement.env
    if env.banner:
        yield from (env.banner, "")
    yield from (f"# Smoke of {env.env}, run {run}", "", f"**{line}**", "")
    if env.hosts:
        yield from ("Hosts: " + ", ".join(f"{name} at {address}" for name, address in env.hosts.items()) + ".", "")
    yield from _blockers(judgement)
    yield from _bursts(judgement)
    yield from _cases(judgement)
    yield from _tests(outcomes)
    yield from _versions(env, judgement.status)
    if env.command:
        yield from (f"Run by `{env.command}`, {env.runner}.", "")
    yield f"Judge the same records again: `python -m smoke.judge build/{env.env}-runtime/smoke/{run}`"


def _blockers(judgement: Judgement) -> Iterator[str]:
    if found := judgement.reasons:
        reasons = (f"- **{reason}** (first met by {case})" for reason, case in found.items())
        yield from ("## Blockers", "", *reasons, "")


def _bursts(judgement: Judgement) -> Iterator[str]:
    """Observed maxima of the capacity bursts, from the event log and from the status snapshots."""
    if not judgement.bursts:
        return
    total = judgement.env.capacity
    yield from (
        "## Capacity",
        "",
        "| burst | requests | in flight | queued | final | per provider | in snapshots | engines |",
    )
    yield "|---|---|---|---|---|---|---|---|"
    for view in judgement.bursts:
        top, waiting = maxima(view)
        peaks = "; ".join(f"{n} {p}/{view.env.capacities.get(n, 0)}" for n, p in provider_maxima(view).items())
        final = "/".join(str(number) for number in final_load(view))
        counted = "; ".join(f"{e.provider_id} {e.after['peak_offered']}" for e in view.engines) or "not simulators"
        yield (
            f"| {view.round.case} | {len(view.round.request_ids)} | {top}/{total} | {waiting} | {final} "
            f"| {peaks} | {_in_snapshots(view)} | {counted} |"
        )
    yield from (
        "",
        "`engines`: the most requests the simulated engine was ever offered at once, by its own counter.",
        "",
    )


def _in_snapshots(view: RoundView) -> str:
    totals = [snapshot.status["totals"] for snapshot in view.snapshots]
    top, waiting = max(t["in_flight"] for t in totals), max(t["queued"] for t in totals)
    return f"{top} in flight, {waiting} queued in {len(totals)} looks"


def _cases(judgement: Judgement) -> Iterator[str]:
    yield from ("## Cases", "")
    for case in judgement.cases.values():
        yield f"- {'proved' if case.ok else '**not proved**'}: {case.case}"
        yield from (f"  - {'ok' if v.ok else '**failed**'}: {v.name} ({_cell(v.detail)})" for v in case.verdicts)
        yield from (f"  - void round {round_id}: {_cell(reason)}" for round_id, reason in case.voids)
    yield ""


def _tests(outcomes: Mapping[str, str]) -> Iterator[str]:
    yield from ("## Tests", "", *(f"- {outcome}: {name}" for name, outcome in sorted(outcomes.items())), "")


def _versions(env: Environment, status: Mapping[str, Any] | None) -> Iterator[str]:
    """Who was asked: versions and releases as the Edge tells them."""
    if status is None:
        return
    edge, config = status["edge"], status["config"]
    yield from ("## Versions", "", "| what | version | release |", "|---|---|---|")
    yield f"| Edge {edge['id']} | {edge['version']} | {edge['release_id']} |"
    for node in status["nodes"]:
        yield f"| node {node['id']} | {node['version']} | {node['release_id']} |"
    yield from (
        "",
        f"Config generation {config['generation']}, sha256 {config['sha256']}; model {env.smoke_model}.",
        "",
    )


def _cell(text: str) -> str:
    return text.replace("\n", " ").replace("|", "/")[:300]
