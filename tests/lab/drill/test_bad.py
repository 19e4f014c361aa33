"""A release, a host, a disk, a Python or a clock that is bad: told in words, repaired by the next run."""

import json
import re
import zipfile

import pytest

from tests.lab.drill.case import GX10, NODES_ONLY, Drill, until

pytestmark = pytest.mark.drill
NODE = "runtime/iop/commands/node.py"
# a Python that says it is an old one, or that it lacks venv; what judges it is the real helper
STUB = r"""#!/usr/bin/python3
import importlib.util, runpy, sys
if {old}:
    sys.version_info = (3, 9, 2, "final", 0)
else:
    plain = importlib.util.find_spec
    importlib.util.find_spec = lambda name, *more: None if name == "venv" else plain(name, *more)
sys.argv = sys.argv[1:]
if sys.argv[0] == "-":
    exec(compile(sys.stdin.read(), "stdin", "exec"), {{"__name__": "__main__"}})
else:
    runpy.run_path(sys.argv[0], run_name="__main__")
"""


def test_bad_release(drill: Drill) -> None:
    """It crashes at its start: rolled back, the others untouched, exit code not 0; the next good commit repairs."""
    good = drill.site.edge_status()["nodes"][0]["release_id"]
    drill.site.edit(NODE, "    return serve(\n", '    raise SystemExit("it crashes")\n    return serve(\n')
    drill.site.commit("a bad release")
    text = drill.refused("-e", "run_tests=false")
    drill.said = "a node that crashes at its start: rolled back, nobody else rolled; the next commit repaired it"

    assert f"gx10 was rolled back to {good}, which the Edge sees again" in text
    assert "it crashes" in text
    assert "next: fab logs gx10; correct the commit" in text
    drill.untouched("gx10.node", "mac.edge", "mac.control")
    assert {one["release_id"] for one in drill.site.edge_status()["nodes"]} == {good}
    drill.site.git("checkout", "-q", "HEAD~1", "--", NODE)
    drill.site.commit("a good release")
    drill.repaired("-e", "run_tests=false")


def test_build_failure(drill: Drill) -> None:
    """A commit that cannot be built changes nothing; the same command after its correction is a deploy again."""
    drill.site.edit("pyproject.toml", "[build-system]", "[build-system")
    drill.site.commit("cannot be built")
    try:
        text = drill.refused(*NODES_ONLY)
    finally:
        drill.site.git("reset", "-q", "--hard", "HEAD~1")
    drill.said = "the build fails: said why, nothing was changed"

    assert "pyproject.toml" in text
    drill.repaired(*NODES_ONLY)
    drill.untouched()


def test_disk_full(drill: Drill) -> None:
    """No room on one host: refused before anything is changed."""
    drill.lab.fill("gx10")
    text = drill.refused(*NODES_ONLY)
    drill.lab.unfill("gx10")
    drill.said = "no byte left on gx10: refused with the numbers, nothing was changed"

    assert "/srv/iop has 0 MiB free; a deploy needs" in text
    drill.untouched()
    drill.whole()


@pytest.mark.parametrize("kind", ["old", "without_venv"])
def test_wrong_python(drill: Drill, kind: str) -> None:
    """The interpreter that the inventory names cannot carry a release: said what it is and what is needed."""
    stub = STUB.format(old=kind == "old")
    drill.lab.exec(
        "gx10",
        "sh",
        "-c",
        'printf %s "$1" >/usr/local/bin/python-stub; chmod 755 /usr/local/bin/python-stub',
        "sh",
        stub,
    )
    name = "inventory/lab/host_vars/gx10/connection.yml"
    drill.site.edit(name, "python: /usr/bin/python3", "python: /usr/local/bin/python-stub")
    text = drill.refused(*GX10)
    drill.site.git("checkout", "-q", name)
    drill.said = f"gx10's Python is {kind.replace('_', ' ')}: named with what is needed, nothing was changed"

    assert ("is Python 3.9.2; iop needs 3.11 or newer" if kind == "old" else "has no venv module") in text
    drill.untouched()
    drill.whole()


def test_wrong_platform(drill: Drill) -> None:
    """A release carried by hand that is for another platform, or damaged on its way: refused by the host, in words."""
    folder = drill.site.home / "dist" / drill.site.releases()["edge"]
    whole = next(folder.glob("iop-node-linux-*.zip"))
    helpers = (drill.site.home / "helper").glob("*.pyz")
    helper = max(helpers, key=lambda path: path.stat().st_mtime_ns).name
    with zipfile.ZipFile(whole) as archive:
        files = {name: archive.read(name) for name in archive.namelist()}
    told = json.loads(files["manifest.json"])
    told.update(release_id="foreign", targets=["windows-amd64-py3.13"])
    foreign = drill.folder / "foreign.zip"
    with zipfile.ZipFile(foreign, "w") as archive:
        archive.writestr("manifest.json", json.dumps(told))
    damaged = drill.folder / "damaged.zip"
    damaged.write_bytes(whole.read_bytes()[:100_000])
    for path, said in ((foreign, "it was built for"), (damaged, "did not arrive whole: copy it here again")):
        drill.send("gx10", path)
        stage = f"/usr/bin/python3 ~/.cache/iop/{helper} stage --root /srv/iop --dist /tmp/{path.name}"
        done = drill.lab.ssh("gx10", stage)
        drill.keep(f"{path.stem}.txt", done.out + done.err)
        path.unlink()
        assert done.code == 1, done
        assert said in done.err
        assert "Traceback" not in done.err
    drill.said = "a zip for Windows, and half a zip: the host refused both and staged nothing"
    drill.untouched()
    drill.whole()


def test_clock_off(drill: Drill) -> None:
    """A host two hours ahead: the deploy tells it and works."""
    drill.lab.clock("gx10", "+2h")
    drill.forget("gx10")
    run = drill.repaired(*GX10)
    drill.said = "gx10 two hours ahead: deployed, with a warning"

    told = " ".join(run.text.split())
    assert re.search(r"clock is 7\d\d\d seconds ahead of that of the machine that deploys", told), told
    assert "clock" in {one["code"] for one in drill.doctor()["findings"]}


def test_drain_ends_by_itself(drill: Drill) -> None:
    """A drain that nobody ends is a lease: when it is over the node takes work, and a deploy has nothing to do."""
    run = drill.playbook("drain", "-e", "host=gx10", "-e", "state=drained", "-e", "lease=5s")
    assert run.code == 0, run.text
    until(lambda: drill.node("gx10")["state"] == "connected")
    drill.said = "a drain that nobody ended: over with its lease"

    assert drill.repaired(*GX10).changed == 0
    drill.untouched()


def test_wrong_token(drill: Drill) -> None:
    """A node with another token is turned away: the doctor says so, and the next deploy puts the right one back."""
    script = "echo wrong >/srv/iop/shared/tokens/node.token; systemctl restart iop-node"
    assert drill.lab.exec("gx10", "sh", "-c", f"ls /srv/iop/shared/tokens; {script}").code == 0
    until(lambda: drill.node("gx10")["state"] == "offline")
    until(lambda: any("token" in one["code"] for one in drill.doctor()["findings"]), drill.doctor)
    drill.said = "gx10's token was changed: the doctor named it, the deploy put it right"

    drill.repaired("-e", "run_tests=false", "--tags", "trust,nodes", "--limit", "gx10")
    drill.untouched("gx10.node")


def test_process_that_ignores_term(drill: Drill) -> None:
    """A node that cannot end: systemd kills it when its time is over, and the deploy goes on."""
    drill.forget("gx10")
    with drill.slow("ExecStop") as go_on, drill.begin(*GX10) as begun:
        until(lambda: drill.unit_state() == "deactivating")
        drill.lab.exec("gx10", "kill", "-STOP", str(drill.before["gx10.node"]))
        go_on()
        run = begun.end()
    assert run.code == 0, run.text
    drill.whole()
    drill.said = "a node that stands still: drained, killed by systemd when its time was over, replaced"
    drill.untouched("gx10.node")
