"""iop.ops.report: facts as plain data for `--json`."""

import json
from dataclasses import replace

from iop.admin.ssh_trouble import SshTrouble
from iop.ops.doctor import diagnose
from iop.ops.report import diagnosis, status, unusable
from tests.fakes.ops_facts import RELEASE, well, with_host


def test_status_has_hosts_links_and_providers() -> None:
    """What is shown is what the Edge and the hosts said; it is JSON."""
    found = status(well())

    assert json.loads(json.dumps(found)) == found
    assert (found["well"], found["kind"], found["edge"]["id"]) == (True, "remote", "edge-lab")
    host = found["hosts"][0]
    assert (host["name"], host["release"], host["connected"]) == ("gx10", RELEASE, True)
    assert [one["provider_id"] for one in found["providers"]] == ["gx10-p", "onexplayer-p", "mac-p"]


def test_well_means_everything() -> None:
    """A lost host, a stopped service, a missing provider or an Edge that is away is not well."""
    lost = SshTrouble("unreachable", "gone", "look")
    stopped = ({"name": "mac.edge", "state": "stopped", "pid": None, "release": RELEASE},)
    facts = well()
    for broken in (
        with_host(facts, "gx10", trouble=lost),
        with_host(facts, "mac", services=stopped),
        replace(facts, edge={**facts.edge, "provider_snapshots": facts.edge["provider_snapshots"][1:]}),
        replace(facts, edge={}, edge_trouble="nothing listens"),
    ):
        assert status(broken)["well"] is False
    assert status(with_host(facts, "gx10", trouble=lost))["hosts"][0]["trouble"] == "gone"


def test_a_diagnosis_counts_slots_and_keeps_findings() -> None:
    """Well is no finding and every slot."""
    facts = well()
    assert diagnosis(facts, diagnose(facts))["slots"] == {"ready": 9, "declared": 9}
    assert diagnosis(facts, diagnose(facts))["well"] is True

    late = with_host(facts, "gx10", clock_off_s=600.0)
    found = diagnosis(late, diagnose(late))
    assert (found["well"], [one["code"] for one in found["findings"]]) == (False, ["clock"])


def test_an_unusable_inventory_is_a_finding() -> None:
    """The one thing that can be said is what is wrong with it."""
    found = unusable("dev", "gx10 has no address")

    assert found["well"] is False
    assert found["findings"][0]["message"] == "gx10 has no address"
    assert "fab doctor --target dev" in found["findings"][0]["step"]
