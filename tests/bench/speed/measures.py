"""What is asked of every peer in turn: requests, streams, bodies, memory."""

import subprocess
import time
from collections.abc import Callable

from tests.bench.speed.rig import Facts, Running, requests_of
from tests.bench.speed.session import Session

Measure = Callable[[Session, Running, int], None]


def features(session: Session, peer: Running, round_: int) -> None:
    """Chat and Responses, whole and streamed: whether it answers at all."""
    asked = {
        "chat": (),
        "chat stream": ("-s", 1, "-x", "n=5"),
        "responses": ("-p", "/v1/responses"),
        "responses stream": ("-p", "/v1/responses", "-s", 1, "-x", "n=5"),
    }
    outcomes: dict[str, bool] = {}
    for name, options in asked.items():
        dump = session.rig.folder / "features"
        session.rig.shoot(peer, "-c", 1, "-T", 8, "-D", dump, *options)
        outcomes[name] = [one["outcome"] for one in requests_of(dump)] == ["o"]
    told = " · ".join(f"{name}: {'yes' if whole else 'no'}" for name, whole in outcomes.items())
    session.record("features", peer, round_, told, answers=outcomes, boot_s=peer.boot_s)


def requests(session: Session, peer: Running, round_: int) -> None:
    """Whole JSON answers, as fast as so many clients get them."""
    for count in session.connections:
        facts = session.shot(peer, "-c", count, "-t", session.seconds, "-T", 20)
        load = facts["load"]
        told = (
            f"c={count:<3} {load['rps']:9.0f} requests/s  p50 {load['lat_ms']['p50']:.3f} ms  {_cpu(facts, 'request')}"
        )
        session.record("rps", peer, round_, told, connections=count, **facts)


def unpaced(session: Session, peer: Running, round_: int) -> None:
    """10 streams of 200 chunks with no pause between them."""
    facts = session.shot(peer, "-c", 10, "-s", 1, "-x", "n=200 d=0", "-t", session.seconds, "-T", 20)
    told = f"{facts['load']['chunks_s']} chunks/s  {_cpu(facts, 'chunk')}"
    session.record("stream0", peer, round_, told, **facts)


def spread(session: Session, peer: Running, round_: int) -> None:
    """64 streams of 100 chunks at 20 ms, which begin one after the other."""
    _paced(session, peer, round_, "stream20", 5300)


def at_once(session: Session, peer: Running, round_: int) -> None:
    """The same, all beginning at once."""
    _paced(session, peer, round_, "stream20burst", 0)


def _paced(session: Session, peer: Running, round_: int, test: str, apart_us: int) -> None:
    facts = session.shot(peer, "-c", 64, "-s", 1, "-g", apart_us, "-x", "n=100 d=20", "-T", 30)
    first, way = facts["load"]["ttft_ms"], facts["load"]["transit_us"]
    told = f"first token {first['p50']:.2f}/{first['p99']:.2f} ms  chunk {way['p50']:.0f}/{way['p99']:.0f} us"
    session.record(test, peer, round_, told, **facts)


def loaded(session: Session, peer: Running, round_: int) -> None:
    """200 streams at 10 ms: 20,000 chunks/s for 2.2 s."""
    facts = session.shot(peer, "-c", 200, "-s", 1, "-g", 1000, "-x", "n=200 d=10", "-T", 40)
    told = f"{facts['load']['wall_s']:.2f} s (ideal 2.2)  {_cpu(facts, 'chunk')}  {facts['cpu_percent']:.0f} % CPU"
    session.record("streamload", peer, round_, told, **facts)


def large_request(session: Session, peer: Running, round_: int) -> None:
    """A request of 10 MB, as a picture makes it, eight times."""
    facts = session.shot(peer, "-c", 1, "-n", 8, "-b", 10_000_000, "-T", 30)
    told = f"10 MB up {facts['load']['lat_ms']['p50']:.1f} ms"
    session.record("big_up", peer, round_, told, **facts)


def large_stream(session: Session, peer: Running, round_: int) -> None:
    """A stream of 50 MB, twice, and what the peer grows by."""

    def act() -> Facts:
        before, used = peer.memory(), sum(peer.cpu())
        load = session.rig.begin(peer, "-c", 1, "-n", 2, "-s", 1, "-x", "n=12500 sz=4000", "-T", 30)
        peak = _peak(peer, load, every=0.03)
        result = session.rig.ended(load)
        megabytes = max(1.0, result["bytes"] / 1e6)
        cpu = round(1e3 * (sum(peer.cpu()) - used) / megabytes, 3)
        return {"load": result, "cpu_ms_mb": cpu, "before_mb": before, "growth_mb": round(max(0.0, peak - before), 2)}

    facts = session.quietly(act)
    told = f"50 MB down {facts['load']['mb_s']:.0f} MB/s  +{facts['growth_mb']:.1f} MB"
    session.record("big_down", peer, round_, told, **facts)


def memory(session: Session, peer: Running, round_: int) -> None:
    """What it holds after its start, and per open stream with a thousand of them."""
    idle = peer.memory()
    load = session.rig.begin(peer, "-c", 1000, "-s", 1, "-g", 2000, "-x", "n=16 d=500", "-T", 40)
    time.sleep(2.5)
    peak, most = 0.0, 0
    while load.poll() is None:
        peak, most = max(peak, peer.memory()), max(most, session.rig.ask("/stats")["concurrent"])
        time.sleep(0.4)
    result = session.rig.ended(load)
    each = round((peak - idle) * 1024 / 1000, 2)
    told = f"idle {idle:.1f} MB  {each:.1f} KB/stream  {result['ok']}/1000 whole"
    session.record(
        "mem",
        peer,
        round_,
        told,
        idle_mb=idle,
        open_mb=peak,
        after_mb=peer.memory(),
        kb_stream=each,
        most=most,
        load=result,
    )


def _peak(peer: Running, load: "subprocess.Popen[bytes]", every: float) -> float:
    """The most memory that a peer had until the load tool ended."""
    most = 0.0
    while load.poll() is None:
        most = max(most, peer.memory())
        time.sleep(every)
    return most


def _cpu(facts: Facts, of: str) -> str:
    count = max(1, facts["load"]["ok" if of == "request" else "chunks"])
    split = " + ".join(f"{1e6 * one / count:.1f}" for one in facts["cpu_split"])
    return f"CPU {split or '0'} us/{of}"
