"""Three engines of 4, 3 and 3 slots behind one address: who keeps to that, and how soon a free slot is used again."""

import math
import time

from tests.bench.speed.rig import CAPACITIES, Facts, Running
from tests.bench.speed.session import Session

BURSTS = (11, 40, 200)
HOLD_S = 0.5
TURNS, TURN_S, TURN_CLIENTS = 1000, 0.02, 200
LEAVERS = 10
SLOTS = sum(CAPACITIES)


def bursts(session: Session, peer: Running, round_: int) -> None:
    """So many requests of 0.5 s at once: peaks at the engines, answers, the time for all, and their order."""
    for count in BURSTS:

        def act(count: int = count) -> Facts:
            session.rig.ask_all("/reset")
            options = ("-c", count, "-n", count, "-g", 200, "-x", f"hold={HOLD_S * 1000:g}", "-T", 60)
            load = session.rig.shoot(peer, *options)
            time.sleep(0.3)
            ideal = math.ceil(count / SLOTS) * HOLD_S
            return {
                **_engines(session),
                "load": load,
                "ideal_s": ideal,
                "times_ideal": round(load["wall_s"] / ideal, 4),
            }

        facts = session.quietly(act)
        told = f"{count} x {HOLD_S:g} s: {_told(facts)}, {facts['places_late']} places late"
        session.record("bursts", peer, round_, told, count=count, **facts)


def turns(session: Session, peer: Running, round_: int) -> None:
    """1000 jobs of 20 ms from 200 clients: the time from a freed slot to its next job, a hundred times over."""

    def act() -> Facts:
        session.rig.ask_all("/reset")
        options = ("-c", TURN_CLIENTS, "-n", TURNS, "-x", f"hold={TURN_S * 1000:g}", "-T", 60)
        load = session.rig.shoot(peer, *options)
        ideal = TURNS * TURN_S / SLOTS
        return {**_engines(session), "load": load, "ideal_s": ideal, "times_ideal": round(load["wall_s"] / ideal, 4)}

    facts = session.quietly(act)
    session.record("turns", peer, round_, f"{TURNS} x 20 ms: {_told(facts)}", count=TURNS, **facts)


def left_in_line(session: Session, peer: Running, round_: int) -> None:
    """Ten clients wait behind ten that run, and leave: none of them may reach an engine."""

    def act() -> Facts:
        rig = session.rig
        rig.ask_all("/reset")
        blockers = rig.begin(peer, "-c", SLOTS, "-n", SLOTS, "-x", "hold=2000", "-T", 20)
        time.sleep(0.5)
        running = sum(one["total"] for one in rig.ask_all("/stats"))
        gone = rig.shoot(peer, "-c", LEAVERS, "-n", LEAVERS, "-x", "hold=300", "-A", 500, "-T", 20)
        held = rig.ended(blockers)
        time.sleep(1)
        begun = sum(one["total"] for one in rig.ask_all("/stats")) - running
        return {
            "left": gone["aborted"], "dispatched": begun, "running": running, "blockers_ok": held["ok"],
            "peaks": _peaks(session),
        }  # fmt: skip

    facts = session.quietly(act)
    told = f"{facts['left']} left the line, {facts['dispatched']} of them were dispatched all the same"
    session.record("left", peer, round_, told, **facts)


def _peaks(session: Session) -> list[int]:
    return [one["peak"] for one in session.rig.ask_all("/stats")]


def _engines(session: Session) -> Facts:
    """Peaks, and how many places a request was overtaken by: ids are in order of arrival, the log in order of start."""
    log = sorted((one for engine in session.rig.ask_all("/log") for one in engine), key=lambda one: one[1])
    late = max((place - one[0] for place, one in enumerate(log)), default=0)
    return {"peaks": _peaks(session), "places_late": late}


def _told(facts: Facts) -> str:
    load, peaks = facts["load"], "/".join(map(str, facts["peaks"]))
    return f"peaks {peaks}, {load['ok']}/{load['n']} answered, {facts['times_ideal']:.3f} x ideal"
