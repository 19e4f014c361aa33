"""Made-up rows of a benchmark run, in which every goal is reached."""

from collections.abc import Callable
from typing import Any

from tests.bench.speed.leaving import CLIENTS, PHASES

Row = dict[str, Any]
ROUNDS = 5


def _load(n: int = 100, ok: int | None = None, **facts: Any) -> Row:
    return {"n": n, "ok": n if ok is None else ok, **facts}


def _each(round_: int) -> list[Row]:
    """What every round holds, peer by peer."""
    drift = 1 + round_ / 10  # of the machine: it hits all alike
    speeds = {"direct": 100_000, "nginx-2hop": 30_000, "sglang-router": 17_000, "vllm-router": 16_000, "litellm": 130}
    rows: list[Row] = [
        {"test": "rps", "peer": peer, "connections": 64, "load": _load(rps=speed / drift), "cpu_us_request": 30 * drift}
        for peer, speed in {**speeds, "iop": 18_000}.items()
    ]
    rows += [
        {"test": "rps", "peer": peer, "connections": 1, "load": _load(lat_ms={"p50": slow * drift})}
        for peer, slow in {"nginx-2hop": 0.1, "iop": 0.15}.items()
    ]
    firsts = {"direct": 0.1, "nginx-2hop": 0.3, "sglang-router": 0.5, "vllm-router": 0.8, "iop": 0.4}
    rows += [
        {"test": "stream20", "peer": peer, "load": _load(ttft_ms=_ends(first), transit_us=_ends(60))}
        for peer, first in firsts.items()
    ]
    rows += [
        {"test": "streamload", "peer": peer, "load": _load(), "cpu_us_chunk": 20} for peer in ("nginx-2hop", "iop")
    ]
    rows += [
        {"test": "big_up", "peer": peer, "load": _load(lat_ms={"p50": slow})}
        for peer, slow in {"direct": 7, "iop": 40}.items()
    ]
    rows += [
        {"test": "big_down", "peer": peer, "load": _load(mb_s=500), "growth_mb": 1.0} for peer in ("nginx-2hop", "iop")
    ]
    rows += [
        {
            "test": "cancel",
            "peer": "iop",
            "phase": phase,
            "seen": CLIENTS,
            "never": 0,
            "absent": 0,
            "p50_ms": 1.9,
            "max_ms": 2.3,
        }
        for phase in PHASES
    ]
    full = {"peer": "iop", "peaks": [4, 3, 3], "times_ideal": 1.003, "places_late": 6}
    rows += [{"test": "bursts", "count": count, "load": _load(count), **full} for count in (11, 40, 200)]
    rows += [{"test": "turns", "count": 1000, "load": _load(1000), **full}]
    rows += [{"test": "left", "peer": "iop", "left": 10, "dispatched": 0, "blockers_ok": 10, "peaks": [4, 3, 3]}]
    rows += [{"test": "slow", "peer": "iop", "growth_mb": 1.0, "rps_alone": 1000, "rps_beside": 990, "bad": 0}]
    return [{**row, "round": round_, "others_cores": 0.0} for row in rows]


def _ends(p50: float) -> Row:
    return {"p50": p50, "p99": p50 * 1.5}


def healthy() -> list[Row]:
    """Five quiet rounds; memory and features once."""
    memory = {"test": "mem", "peer": "iop", "round": 0, "idle_mb": 39, "kb_stream": 13.5, "load": _load(1000)}
    answers = dict.fromkeys(("chat", "chat stream", "responses", "responses stream"), True)
    features = {"test": "features", "peer": "iop", "round": 0, "answers": answers}
    return [memory, features, *(row for round_ in range(ROUNDS) for row in _each(round_))]


def spoiled(test: str, spoil: Callable[[Row], object], *, peer: str = "iop", rounds: int = ROUNDS) -> list[Row]:
    """The same with the rows of a measure changed, in as many rounds."""
    rows = healthy()
    for row in rows:
        if row["test"] == test and row["peer"] == peer and row["round"] < rounds:
            spoil(row)
    return rows
