"""The running config and its replacement."""

import asyncio
from dataclasses import replace
from pathlib import PurePath

import pytest

from iop.config.load import read_edge
from iop.config.pool import pool_spec
from iop.edge.refresh import RefreshAsk, Refresher, RefreshPorts

SOURCE = "/abs/edge.yaml"
TEXT = """\
edge: {id: edge-test}
nodes:
  - id: n1
    adapters:
      openai_compat_instances:
        - {name: e1, enabled: true, provider: other, endpoint: "http://127.0.0.1:8002/v1"}
        - {name: e2, enabled: true, provider: other, endpoint: "http://127.0.0.1:8003/v1"}
    providers:
      - {id: p1, type: other, category: local_inference, adapter: e1, capacity: 3}
      - {id: p2, type: other, category: local_inference, adapter: e2, capacity: 4}
  - {id: n2}
models:
  - {id: m, providers: {p1: engine-model}}
"""
RESIZED = TEXT.replace("capacity: 3", "capacity: 5")
BAD = TEXT.replace("capacity: 3", "capacty: 3").replace("adapter: e2", "adapter: nope")
RESTART = RESIZED + "listen: {openai: 127.0.0.1:1}\n"
KEYS = {"mode", "generation", "new_generation", "changes", "restart_required", "findings", "nodes"}


class FakeEdge:
    """Records what a refresh does; `deaf` nodes do not acknowledge."""

    def __init__(self, connected=("n1", "n2"), deaf=()):
        self.connected, self.deaf = connected, deaf
        self.pools, self.pushed, self.awaited = [], [], []

    def ports(self):
        return RefreshPorts(
            self._take_over, self.connected.__contains__, self.pushed.append, self._acknowledged, lambda: {"p1": 9}
        )

    def _take_over(self, config):
        self.pools.append(pool_spec(config))

    async def _acknowledged(self, node_id, generation, within):
        self.awaited.append((node_id, generation))
        await asyncio.sleep(0)
        return node_id not in self.deaf


def make(edge, text=TEXT):
    """Make the refresher of an Edge that started with `text` at time 50."""
    return Refresher(read_edge(text, source=SOURCE), edge.ports(), lambda: 50.0)


def ask(text, mode="apply", expect=None):
    """Make the question."""
    return RefreshAsk(mode, text, SOURCE, expect)


async def test_a_dry_run_plans_and_changes_nothing():
    """The plan tells the change; pool, nodes, generation and facts stay."""
    edge = FakeEdge()
    refresher = make(edge)
    facts = refresher.facts
    reply = await refresher.refresh(ask(RESIZED, "dry-run"))
    assert reply.status == 200
    assert set(reply.body) == KEYS
    assert (reply.body["mode"], reply.body["generation"], reply.body["new_generation"]) == ("dry-run", 1, None)
    (change,) = reply.body["changes"]
    assert (change["kind"], change["from"], change["to"], change["over_by"]) == ("resized", 3, 5, 4)
    assert "capacity" in change["path"]
    assert (edge.pools, edge.pushed, refresher.facts) == ([], [], facts)


async def test_an_apply_swaps_pushes_and_reports_acknowledgements():
    """The pool gets the new capacity, the generation grows by one, and each connected node's answer is told."""
    edge = FakeEdge(deaf=("n2",))
    refresher = make(edge)
    reply = await refresher.refresh(ask(RESIZED))
    assert reply.status == 200
    assert (reply.body["generation"], reply.body["new_generation"], refresher.generation) == (1, 2, 2)
    assert [spec.capacity for spec in edge.pools[0].providers] == [5, 4]
    assert refresher.config.nodes[0].providers[0].capacity == 5
    assert reply.body["nodes"] == [{"id": "n1", "acknowledged": True}, {"id": "n2", "acknowledged": False}]
    assert edge.awaited == [("n1", 2), ("n2", 2)]


async def test_only_connected_nodes_are_waited_for():
    """A node that is away gets its config when it comes, and nobody waits for it."""
    edge = FakeEdge(connected=("n2",))
    reply = await make(edge).refresh(ask(RESIZED))
    assert reply.body["nodes"] == [{"id": "n2", "acknowledged": True}]
    assert edge.pushed == [["n2"]]


async def test_an_identical_file_is_nothing_to_do():
    """No new generation, no push, no pool change."""
    edge = FakeEdge()
    refresher = make(edge)
    reply = await refresher.refresh(ask(TEXT))
    assert (reply.status, reply.body["changes"], reply.body["new_generation"]) == (200, [], None)
    assert (edge.pools, edge.pushed, refresher.generation) == ([], [], 1)


async def test_another_text_with_the_same_meaning_is_remembered():
    """A comment makes no new generation, but status tells the file that holds now."""
    refresher = make(FakeEdge())
    before = refresher.facts.sha256
    await refresher.refresh(ask(TEXT + "# a comment\n"))
    assert refresher.generation == 1
    assert refresher.facts.sha256 != before


async def test_findings_refuse_and_are_remembered():
    """All findings come back; the running config stays; status tells the first with its place."""
    edge = FakeEdge()
    refresher = make(edge)
    reply = await refresher.refresh(ask(BAD))
    assert reply.status == 422
    assert len([entry for entry in reply.body["findings"] if entry["severity"] == "error"]) >= 2
    assert (edge.pools, refresher.generation) == ([], 1)
    assert refresher.facts.last_error is not None
    assert refresher.facts.last_error.startswith(f"{SOURCE}:")
    await refresher.refresh(ask(TEXT))
    assert refresher.facts.last_error is None


async def test_a_refused_dry_run_leaves_no_trace():
    """A dry-run changes nothing, `last_error` included."""
    refresher = make(FakeEdge())
    reply = await refresher.refresh(ask(BAD, "dry-run"))
    assert reply.status == 422
    assert refresher.facts.last_error is None


async def test_restart_required_applies_nothing():
    """One field that needs a restart holds back everything, and is named with its reason."""
    edge = FakeEdge()
    refresher = make(edge)
    reply = await refresher.refresh(ask(RESTART))
    assert reply.status == 200
    (entry,) = reply.body["restart_required"]
    assert entry["path"] == "listen.openai"
    assert entry["reason"]
    assert reply.body["new_generation"] is None
    assert (edge.pools, edge.pushed, refresher.generation) == ([], [], 1)
    assert "listen.openai" in (refresher.facts.last_error or "")


@pytest.mark.parametrize("mode", ["dry-run", "apply"])
async def test_a_moved_generation_is_refused(mode):
    """Whoever planned against generation 7 does not overwrite generation 1."""
    edge = FakeEdge()
    refresher = make(edge)
    reply = await refresher.refresh(ask(RESIZED, mode, expect=7))
    assert reply.status == 409
    assert reply.body["findings"][-1]["code"] == "generation_mismatch"
    assert (edge.pools, refresher.generation, refresher.facts.last_error) == ([], 1, None)
    assert (await refresher.refresh(ask(RESIZED, mode, expect=1))).status == 200


async def test_a_removed_provider_is_still_described():
    """While it drains, status can tell what it was; when it comes back it is declared again."""
    refresher = make(FakeEdge())
    gone = "\n".join(line for line in TEXT.splitlines() if "id: p2" not in line)
    await refresher.refresh(ask(gone))
    assert refresher.retired["p2"].adapter == "e2"
    await refresher.refresh(ask(TEXT))
    assert refresher.retired == {}


async def test_a_relative_source_is_taken_from_the_running_configs_folder():
    """A short name is no fault: it stands beside what runs."""
    refresher = make(FakeEdge())
    folder = PurePath(refresher.facts.source).parent
    await refresher.refresh(RefreshAsk("apply", TEXT.replace("capacity: 3", "capacity: 4"), "next.yaml"))
    assert refresher.facts.source == str(folder / "next.yaml")


def test_an_edge_cannot_start_with_errors():
    """A config with errors never becomes the running one."""
    with pytest.raises(ValueError, match="errors"):
        make(FakeEdge(), BAD)


async def test_a_reload_reads_the_last_applied_source_again(tmp_path):
    """What stands in the file now is applied; each applied text is told to whoever notes it."""
    path = tmp_path / "edge.yaml"
    path.write_text(TEXT)
    refresher, noted = make(FakeEdge()), []
    refresher.on_applied = noted.append
    await refresher.refresh(RefreshAsk("apply", TEXT, str(path)))
    path.write_text(RESIZED)
    reply = await refresher.reload()
    assert (reply.status, reply.body["new_generation"]) == (200, 2)
    assert [(facts.generation, facts.source) for facts in noted] == [(1, str(path)), (2, str(path))]


@pytest.mark.parametrize(
    "make_bad", [lambda p: p.unlink(), lambda p: p.write_bytes(b"\xff\xfee\0"), lambda p: p.write_text(BAD)]
)
async def test_a_reload_of_a_bad_file_changes_nothing(tmp_path, make_bad):
    """Gone, another encoding, errors: refused, told, and the running config stays."""
    path = tmp_path / "edge.yaml"
    path.write_text(TEXT)
    edge = FakeEdge()
    refresher = make(edge)
    await refresher.refresh(RefreshAsk("apply", TEXT, str(path)))
    make_bad(path)
    reply = await refresher.reload()
    assert reply.status == 422
    assert (edge.pools, refresher.generation) == ([], 1)
    assert str(path) in (refresher.facts.last_error or "")


@pytest.mark.parametrize(("mode", "waits"), [("apply", True), ("dry-run", False)])
async def test_an_apply_waits_until_granted_work_is_on_its_way(mode, waits):
    """Admission takes over after that moment, and judges the generation that runs then; a plan needs no such moment."""
    edge, log = FakeEdge(), []

    async def settled():
        await asyncio.sleep(0)
        log.append(len(edge.pools))

    ports = replace(edge.ports(), settled=settled)
    refresher = Refresher(read_edge(TEXT, source=SOURCE), ports, lambda: 50.0)
    assert (await refresher.refresh(ask(RESIZED, mode, expect=1))).status == 200
    assert log == [0] * waits
    assert len(edge.pools) == waits
