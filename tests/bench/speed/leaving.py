"""Clients that leave, and one that stays but does not read."""

import json
import socket
import time
from pathlib import Path
from statistics import median

from tests.bench.speed.place import KEY, MODEL
from tests.bench.speed.rig import Facts, Running, requests_of
from tests.bench.speed.session import Session

#: phase of a request -> options of the load tool; -a: leave after so many chunks, -A: after so many ms
PHASES = {
    "streaming": ("-s", 1, "-x", "n=400 d=20", "-a", 3),
    "waiting": ("-x", "hold=6000", "-A", 300),
    "before first chunk": ("-s", 1, "-x", "hold=6000 n=5", "-A", 300),
}
CLIENTS = 20
#: seconds after the clients have left in which this program takes no CPU from those who are measured
HANDS_OFF = 0.3


def cancel(session: Session, peer: Running, round_: int) -> None:
    """20 clients leave in each phase: when the engine sees it. `never`: it ran to its end all the same.

    Those that are in none of `seen`, `never` and `absent` did not come to leave: they had another end before.
    """
    for phase, options in PHASES.items():

        def act(options: tuple[object, ...] = options) -> Facts:
            rig = session.rig
            rig.idle()
            rig.ask("/reset")
            dump = rig.folder / "cancel"
            rig.shoot(peer, "-c", CLIENTS, "-n", CLIENTS, "-T", 12, "-D", dump, *options)
            time.sleep(HANDS_OFF)
            rig.idle(10.0)
            return _seen(dump, {one[0]: one for one in rig.ask("/log")})

        facts = session.quietly(act)
        seen = f"seen {facts['seen']} of {CLIENTS}, never {facts['never']}, absent {facts['absent']}"
        told = f"{phase}: {facts['p50_ms']}/{facts['max_ms']} ms, {seen}"
        session.record("cancel", peer, round_, told, phase=phase, **facts)
    session.rig.idle()


def _seen(dump: Path, log: dict[int, list[int]]) -> Facts:
    """Compare the clients' rows with the engine's log: ms from the client's close to the end of its run."""
    times, never, absent = [], 0, 0
    for one in requests_of(dump):
        if one["outcome"] != "a":
            continue
        if (run := log.get(one["id"])) is None:
            absent += 1
        elif not run[3]:
            never += 1
        else:
            times.append((run[2] - one["end"]) / 1e6)
    return {
        "seen": len(times), "never": never, "absent": absent,
        "p50_ms": round(median(times), 2) if times else None, "max_ms": round(max(times), 2) if times else None,
    }  # fmt: skip


def unseen(facts: Facts) -> int:
    """Of the clients of one phase: whose leaving the engine did not see.

    One that did not come to leave (refused, cut, or answered too soon) is one of them: it proves nothing.
    """
    return max(facts["never"] + facts["absent"], CLIENTS - facts["seen"])


def stalled(session: Session, peer: Running, round_: int) -> None:
    """One client opens a stream of 200 MB and reads nothing: what the peer swallows, and what others get meanwhile."""

    def act() -> Facts:
        rig = session.rig
        rig.idle()
        rig.ask("/reset")
        before = peer.memory()
        alone = rig.shoot(peer, "-c", 10, "-t", 1.5, "-T", 10)
        with _deaf_client(peer.port):
            time.sleep(2)
            early = peer.memory()
            beside = rig.shoot(peer, "-c", 10, "-t", 1.5, "-T", 10)
            late = peer.memory()
            blocked = bool(rig.ask("/stats")["concurrent"])
        time.sleep(1)
        rig.idle(5.0)
        return {
            "before_mb": before, "growth_mb": round(max(early, late) - before, 2), "rps_alone": alone["rps"],
            "rps_beside": beside["rps"], "bad": sum(one["n"] - one["ok"] for one in (alone, beside)),
            "reaches_engine": blocked,
        }  # fmt: skip

    facts = session.quietly(act)
    told = f"+{facts['growth_mb']:.1f} MB  others {facts['rps_alone']:.0f} -> {facts['rps_beside']:.0f} requests/s"
    session.record("slow", peer, round_, told, **facts)


def _deaf_client(port: int) -> socket.socket:
    """A client that has asked for 50,000 chunks of 4 kB and reads none."""
    prompt = {"role": "user", "content": "[[n=50000 sz=4000 d=0 id=77]]"}
    body = json.dumps({"model": MODEL, "stream": True, "messages": [prompt]}).encode()
    client = socket.create_connection(("127.0.0.1", port))
    client.sendall(
        b"POST /v1/chat/completions HTTP/1.1\r\nHost: bench\r\nContent-Type: application/json\r\n"
        b"Authorization: Bearer %s\r\nContent-Length: %d\r\n\r\n%s" % (KEY.encode(), len(body), body)
    )
    return client
