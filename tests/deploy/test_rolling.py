"""Rolling a fleet on loopback: under load, interrupted, with a release that is bad in three ways, and back.

The order is the order of one story, because a deploy costs a minute of both cores; every test says what it stands on.
"""

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from typing import Any, Self

import httpx
import openai
import pytest

from tests.deploy.conftest import Site
from tests.fakes.clone import LIMIT

VERSION = "runtime/iop/__init__.py"
NODE = "runtime/iop/commands/node.py"
FAULTS = """
def _fault(node: str) -> None:
    import os
    from iop.transport.engine_answer import EngineError
    from iop.transport.engine_http import EngineHttp

    if node == "gx10-vllm-node":
        raise SystemExit("it crashes")
    if node == "onexplayer-lemonade-node":
        os.environ["IOP_RELEASE_ID"] = "another"
    plain = EngineHttp.request

    async def refuse(self, method, *args, **more):
        if method == "POST":
            raise EngineError("unreachable", "no way")
        return await plain(self, method, *args, **more)

    EngineHttp.request = refuse


"""
IMPATIENT = "-e nodes_gate_wait=8 -e nodes_check_wait=8"


class Load:
    """A client of the official SDK that asks one request after the other in some threads, retries off."""

    def __init__(self, site: Site, threads: int = 2) -> None:
        self._client = openai.OpenAI(
            base_url=f"http://127.0.0.1:{site.base + 83}/v1", api_key="none", max_retries=0, timeout=120
        )
        self.answered = 0
        self.failed: list[str] = []
        self._end = threading.Event()
        self._threads = [threading.Thread(target=self._ask) for _ in range(threads)]

    def __enter__(self) -> Self:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._end.set()
        for thread in self._threads:
            thread.join()
        self._client.close()

    def _ask(self) -> None:
        while not self._end.wait(0.1):
            try:
                self._client.chat.completions.create(
                    model="local-chat", messages=[{"role": "user", "content": "Hello"}], max_tokens=8
                )
                self.answered += 1
            except openai.OpenAIError as error:
                self.failed.append(str(error))


def test_an_interrupted_roll_is_finished_under_load(site: Site, capsys: pytest.CaptureFixture[str]) -> None:
    """Ctrl-C and kill -9 in the middle of a roll; a second run is refused meanwhile; the next one finishes the roll.

    It finds a node that was left drained, one that was stopped and one that runs the old release, and while it rolls
    all three no request of a client without retries fails.
    """
    site.deployed()
    site.edit(VERSION, '__version__ = "', '__version__ = "9.')
    head = site.commit("another version")

    child = _start(site)
    _read_until(child, "TASK [source : Name the source]")
    second = site.make("dev")
    os.killpg(child.pid, signal.SIGINT)
    text = child.communicate(timeout=LIMIT)[0]

    assert second.code != 0
    assert "runs on this environment already" in second.text
    assert child.returncode != 0
    assert "interrupted. The next run repairs" in text
    assert _last_report(site)["outcome"] == "interrupted"
    assert site.edge_status()["totals"]["capacity"] == 10

    child = _start(site)
    _read_until(child, "TASK [nodes : Drain, and wait")
    os.killpg(child.pid, signal.SIGKILL)
    child.communicate()
    _forget(site, "onexplayer")

    with Load(site) as load:
        run = site.make("dev", "-e run_tests=false --tags nodes")

    with capsys.disabled():
        print(f"\n  rolling redeploy under load: {load.answered} answered, {len(load.failed)} failed")  # noqa: T201
    assert run.code == 0, run.text
    assert load.failed == []
    assert load.answered > 20
    status = site.edge_status()
    assert {one["release_id"].partition("-")[0] for one in (status["edge"], *status["nodes"])} == {head}
    assert [node["state"] for node in status["nodes"]] == ["connected"] * 3
    assert [one["idle"] for one in run.report["drains"]].count(True) >= 2
    assert all(one["ok"] for one in run.report["gates"] + run.report["checks"])
    assert "iop-deploy" not in json.dumps(status)


def test_a_busy_node_is_left_alone(site: Site) -> None:
    """Work on a node holds its restart up until drain_wait; then nothing was changed and the node takes work again."""
    site.deployed()
    before = site.pids()
    node_file = site.home / "hosts" / "gx10" / "shared" / "node.yaml"
    kept = node_file.read_text(encoding="utf-8")
    edited = f"{kept}# edited\n"
    node_file.write_text(edited, encoding="utf-8")  # a deploy would put it right, by a restart
    try:
        checked = site.make("dev", "--check --tags nodes --limit gx10")
        with Busy(site, "gx10-vllm"):
            run = site.make("dev", "-e run_tests=false --tags nodes --limit gx10 -e drain_wait=1s")
    finally:
        untouched = node_file.read_text(encoding="utf-8")
        node_file.write_text(kept, encoding="utf-8")
        node_file.chmod(0o600)

    assert checked.code == 0, checked.text
    assert "changed=2 " in checked.text.partition("PLAY RECAP")[2]  # the file and the node
    assert run.code != 0
    said = " ".join(run.text.split())
    assert 'gx10-vllm-node still runs {"gx10-vllm": 1} after drain_wait (1s)' in said
    assert "next: run it again later" in said
    assert untouched == edited
    assert site.pids() == before
    assert [node["state"] for node in site.edge_status()["nodes"]] == ["connected"] * 3


def test_an_older_commit_is_deployed_as_a_newer_one(site: Site) -> None:
    """`git checkout` of the commit before and `make dev`: every node is drained and replaced, no request fails.

    The engines go on, a second run changes nothing, both releases stay, and a rollback goes to the newer one.
    """
    proved = site.make("dev", "-e run_tests=false")  # only a whole run that ends well makes a release one to go back to
    assert proved.code == 0, proved.text
    branch, newer = site.git("branch", "--show-current"), site.git("rev-parse", "--short", "HEAD")
    before = site.pids()
    try:
        site.git("checkout", "-q", "--detach", "HEAD~1")
        older = site.git("rev-parse", "--short", "HEAD")
        with Load(site) as load:
            run = site.make("dev", "-e run_tests=false")
        again = site.make("dev", "-e run_tests=false --check")
    finally:
        site.git("checkout", "-q", branch)

    assert run.code == 0, run.text
    assert load.failed == []
    assert load.answered > 20
    assert _running(site) == {older}
    assert {name for name, pid in site.pids().items() if before[name] != pid} == {
        "mac.control", "mac.edge", "mac.node", "gx10.node", "onexplayer.node",
    }  # fmt: skip
    assert [one["host"] for one in run.report["gates"]] == ["gx10", "onexplayer", "mac"]
    assert "changed=0" in again.text.partition("PLAY RECAP")[2], again.text
    kept = {path.name.partition("-")[0] for path in (site.home / "hosts" / "gx10" / "releases").iterdir()}
    assert kept >= {older, newer}

    back = site.make("rollback")
    assert back.code == 0, back.text
    assert _running(site) == {newer}


def test_rollback_and_drain(site: Site) -> None:
    """All hosts run what they ran before, config included; the next deploy brings HEAD; a drained node is left out."""
    site.deployed()
    head = site.git("rev-parse", "--short", "HEAD")
    edge_yaml = site.home / "edge.yaml"
    kept = edge_yaml.read_text(encoding="utf-8")

    run = site.make("rollback")

    assert run.code == 0, run.text
    status = site.edge_status()
    ids = {one["release_id"] for one in (status["edge"], *status["nodes"])}
    assert len(ids) == 1
    assert not ids.pop().startswith(head)
    assert edge_yaml.read_text(encoding="utf-8") == kept  # the config was the same then
    assert status["totals"]["capacity"] == 10

    for state in ("drained", "undrained"):
        done = _playbook(site, "drain", "-e", "host=gx10", "-e", f"state={state}")
        assert done.returncode == 0, done.stdout
        states = {node["id"]: node["state"] for node in site.edge_status()["nodes"]}
        assert states["gx10-vllm-node"] == {"drained": "draining", "undrained": "connected"}[state]
        assert states["mac-codex-node"] == "connected"
    wrong = _playbook(site, "drain", "-e", "host=nobody", "-e", "state=drained")
    assert "give -e host=NAME (one of gx10, onexplayer, mac)" in " ".join(wrong.stdout.split())


@pytest.mark.parametrize(
    ("host", "said"),
    [
        # how fast it crashes decides who notices: its service manager, or the gate
        ("gx10", r"gx10\.node does not stay up|the Edge sees node gx10-vllm-node offline"),
        ("onexplayer", "with release another"),
        ("mac", "Each provider of the node answers, still drained: provider mac-mlx-vllm: 502"),
    ],
)
def test_a_bad_release_rolls_its_host_back(site: Site, bad: str, host: str, said: str) -> None:
    """A node that crashes, one with another id, one that does not answer: each goes back, the rest is untouched."""
    before = site.pids()

    run = site.make("dev", f"-e run_tests=false --tags nodes --limit {host} {IMPATIENT}")

    assert run.code != 0
    told = " ".join(run.text.split())
    assert re.search(said, told), told
    assert f"{host} was rolled back to" in told
    assert "next: fab logs" in told
    status = site.edge_status()
    assert all(bad not in node["release_id"] for node in status["nodes"])
    assert [node["state"] for node in status["nodes"]] == ["connected"] * 3
    after = site.pids()
    assert {name for name in after if after[name] != before[name]} == {f"{host}.node"}
    assert run.report["outcome"] == "failed"
    assert [one["host"] for one in run.report["rollbacks"]] == [host]
    assert (site.home / "admin.token").read_text(encoding="utf-8").strip() not in run.text + json.dumps(run.report)


class Busy:
    """A long stream from one provider, for as long as this is open."""

    def __init__(self, site: Site, provider: str) -> None:
        token = (site.home / "admin.token").read_text(encoding="utf-8").strip()
        self._client = httpx.Client(trust_env=False, timeout=60, headers={"Authorization": f"Bearer {token}"})
        self._url = f"http://127.0.0.1:{site.base + 93}/providers/{provider}/v1/chat/completions"
        self._parts = contextlib.ExitStack()

    def __enter__(self) -> None:
        message = {"role": "user", "content": "Hello"}
        body = {"model": "local-chat", "stream": True, "max_tokens": 100_000, "messages": [message]}
        self._parts.enter_context(self._client)
        answer = self._parts.enter_context(self._client.stream("POST", self._url, json=body))
        assert answer.status_code == 200
        self._chunks = answer.iter_raw()  # closes the connection when it is dropped
        next(self._chunks)

    def __exit__(self, *_: object) -> None:
        self._parts.close()


@pytest.fixture(scope="module")
def bad(site: Site) -> Iterator[str]:
    """HEAD is a commit whose nodes are bad, each in its own way; yields its id. The Edge runs the commit before it."""
    site.deployed()
    site.edit(NODE, "    return serve(\n", "    _fault(config.node.id)\n    return serve(\n")
    site.edit(NODE, "def _doctor(", f"{FAULTS.lstrip()}def _doctor(")
    yield site.commit("a bad node")
    site.git("reset", "-q", "--hard", "HEAD~1")


def _running(site: Site) -> set[str]:
    """The commits that the Edge and the nodes run."""
    status = site.edge_status()
    return {one["release_id"].partition("-")[0] for one in (status["edge"], *status["nodes"])}


def _start(site: Site) -> subprocess.Popen[str]:
    """`make dev`, in a process group of its own."""
    return subprocess.Popen(
        site.command("dev", "-e run_tests=false"),
        cwd=site.root,
        env=site.env,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )


def _read_until(child: subprocess.Popen[str], text: str) -> None:
    assert child.stdout is not None
    seen = ""
    while text not in seen:
        line = child.stdout.readline()
        assert line, seen
        seen += line


def _forget(site: Site, host: str) -> None:
    """Stop a host's node behind the deploy's back."""
    root = site.home / "hosts" / host
    command = [sys.executable, "-m", "iop_release", "remove", "--root", str(root), "--home", str(site.home)]
    done = subprocess.run([*command, "--service", f"{host}.node"], cwd=site.root / "runtime", env=site.env, check=False)
    assert done.returncode == 0


def _last_report(site: Site) -> dict[str, Any]:
    newest = max((site.home / "reports").iterdir(), key=lambda folder: folder.stat().st_mtime_ns)
    found: dict[str, Any] = json.loads((newest / "deploy.json").read_text(encoding="utf-8"))
    return found


def _playbook(site: Site, name: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "playbooks/launch.py", name, "-i", "inventory/local", *arguments]
    return subprocess.run(command, cwd=site.root, env=site.env, capture_output=True, text=True, check=False)
