"""A redeploy of everything under load: nodes, Edge and Control Plane are replaced, and no request fails."""

import asyncio

from tests.lab.rolling import Rolling, verdict
from tests.lab.site import LabSite


def test_a_redeploy_of_everything_under_load_fails_nobody(site: LabSite) -> None:
    """Each request gets its whole answer from one run of an engine; `make lab-rolling` does more of it."""
    before = site.pids()

    result = asyncio.run(Rolling(site).run([()]))

    assert verdict(result, restarts=1) == [], result.last_line()
    changed = {name for name, pid in site.pids().items() if before[name] != pid}
    assert changed == {"mac.edge", "mac.control", "mac.node", "gx10.node", "onexplayer.node"}
