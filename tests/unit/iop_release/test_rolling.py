"""iop_release.rolling: what a rolling deploy asks the Edge about one node."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from iop_release import rolling
from iop_release.admin import Admin
from tests.fakes.admin_port import AdminPort, admin_port, node, provider


class Clock:
    """Seconds that pass only when somebody sleeps."""

    def __init__(self) -> None:
        self.now = 0.0

    def sleep(self, seconds: float) -> None:
        """Let them pass."""
        self.now += seconds

    def time(self) -> float:
        """Now."""
        return self.now


@pytest.fixture
def port(tmp_path: Path) -> Iterator[AdminPort]:
    """An admin port that shows one idle node with one provider, and another node of the same model."""
    with admin_port(tmp_path) as port:
        port.status = {
            "nodes": [node("a"), node("b")],
            "provider_snapshots": [provider("pa", "a"), provider("pb", "b")],
        }
        yield port


@pytest.fixture
def admin(port: AdminPort) -> Admin:
    """Its client, with a clock of its own."""
    clock = Clock()
    return Admin(port.url, port.token_file, clock.sleep, clock.time)


def test_before(port: AdminPort, admin: Admin) -> None:
    """Identity, the models that nobody else serves, the providers that are not well, the holder of a lease."""
    assert rolling.before(admin, "a") == {
        "known": True,
        "connected": True,
        "instance_id": "i1",
        "release_id": "r1",
        "lease": "",
        "gaps": [],
        "away": [],
    }
    port.status["provider_snapshots"][1]["state"] = "down"
    assert rolling.before(admin, "a")["gaps"] == ["chat"]
    assert rolling.before(admin, "b")["away"] == ["pb"]
    assert rolling.before(admin, "b")["gaps"] == []
    assert rolling.before(admin, "c")["known"] is False


@pytest.mark.parametrize(
    ("reason", "holder"),
    [("release r2 (by iop-deploy)", "deploy"), ("new disk (by operator)", "other"), ("stopping", ""), (None, "other")],
)
def test_who_holds_the_lease(port: AdminPort, reason: str | None, holder: str) -> None:
    """The reason that status shows ends with who asked; a node that is stopping has no lease."""
    port.status["provider_snapshots"][0].update(state="draining", reason=reason)
    found = rolling.lease_of(port.status, "a")
    assert found == holder
    assert rolling.lease_of(port.status, "b") == ""


def test_drain_waits_for_pool_and_direct_work(port: AdminPort, admin: Admin) -> None:
    """The lease is taken, renewed while it waits, and given its full length when nothing runs."""
    busy = {"nodes": [node("a", direct=1)], "provider_snapshots": [provider("pa", "a", in_flight=2)]}
    idle = {"nodes": [node("a")], "provider_snapshots": [provider("pa", "a")]}
    port.after_looks = {1: busy, 30: idle}

    found = rolling.drain(admin, "a", lease_s=300, wait_s=60, reason="release r2")

    assert (found["idle"], found["running"], found["ours"]) == (True, {}, True)
    ask = {"lease_s": 300, "by": "iop-deploy", "reason": "release r2"}
    assert set(map(str, port.asked)) == {str(("PUT", "/nodes/a/drain", ask))}
    assert len(port.asked) == 3  # taken, renewed after five seconds, its full length at the end


def test_drain_gives_up_and_tells_what_runs(port: AdminPort, admin: Admin) -> None:
    """After its time it names what still runs."""
    port.status = {"nodes": [node("a", direct=1)], "provider_snapshots": [provider("pa", "a", in_flight=2)]}

    found = rolling.drain(admin, "a", lease_s=300, wait_s=10, reason="")

    assert (found["idle"], found["running"], found["seconds"]) == (False, {"pa": 2, "direct": 1}, 10.0)


def test_an_operators_lease_is_left_alone(port: AdminPort, admin: Admin) -> None:
    """A deploy waits under it and neither renews nor takes it; an operator renews it."""
    port.status["provider_snapshots"][0].update(state="draining", reason="new disk (by operator)")

    assert rolling.drain(admin, "a", lease_s=300, wait_s=1, reason="")["ours"] is False
    assert port.asked == []
    assert rolling.drain(admin, "a", lease_s=300, wait_s=1, reason="", by="operator")["ours"] is True
    admin.undrain("a")
    assert port.asked[-1] == ("DELETE", "/nodes/a/drain", None)


def test_gate_compares_identity(port: AdminPort, admin: Admin) -> None:
    """Connected, the wanted release, another instance; else it says what the Edge sees."""
    port.after_looks = {3: {"nodes": [node("a", release_id="r2", instance_id="i2")], "provider_snapshots": []}}

    good = rolling.gate(admin, "a", "r2", not_instance="i1", wait_s=60)
    same = rolling.gate(admin, "a", "r2", not_instance="i2", wait_s=2)
    port.status = {"nodes": [node("a", connected=False)], "provider_snapshots": []}
    gone = rolling.gate(admin, "a", "r2", not_instance=None, wait_s=2)
    unknown = rolling.gate(admin, "z", "r2", not_instance=None, wait_s=2)

    assert (good["ok"], good["attempts"], good["said"]) == (True, 3, "")
    assert (same["ok"], "with release r2, instance i2" in same["said"]) == (False, True)
    assert "sees node a offline" in gone["said"]
    assert "sees node z not at all" in unknown["said"]


def test_gate_outlasts_an_edge_that_is_away(admin: Admin, port: AdminPort) -> None:
    """Nothing answers: asked again until the time is over, and told."""
    away = Admin("http://127.0.0.1:1", port.token_file, admin.sleep, admin.clock)
    found = rolling.gate(away, "a", "r1", not_instance=None, wait_s=1)
    assert (found["ok"], found["attempts"] > 1) == (False, True)
    assert "answers nothing" in found["said"]


def test_check_waits_for_a_provider_and_tells_the_failure(port: AdminPort, admin: Admin) -> None:
    """503 is asked again, any other failure is final; a provider to skip and one without a model are left out."""
    port.status["provider_snapshots"] += [provider("dark", "a", models=[]), provider("down", "a")]
    port.answers = [503, 503, 200]
    good = rolling.check(admin, "a", wait_s=60, skip=["down"])
    port.answers = [502]
    bad = rolling.check(admin, "a", wait_s=60, skip=["down"])

    assert (good["ok"], good["checks"]["pa"]["attempts"], list(good["checks"])) == (True, 3, ["pa"])
    assert port.asked[0][2]["model"] == "chat"
    assert (bad["ok"], bad["said"]) == (False, "provider pa: 502: not now")
