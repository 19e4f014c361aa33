"""What a node leaves for its doctor."""

import logging

from iop.link.messages import CliTarget, NodeRuntimeConfig
from iop.node.memory import Memory, Remembered

RUNTIME = NodeRuntimeConfig(node_id="n1", cli_targets=(CliTarget(name="t", kind="codex", command=("codex",)),))
WHAT = Remembered(status="127.0.0.1:5", runtime=RUNTIME, user="me", environment={"PATH": "/bin"})


def test_what_is_kept_can_be_read(tmp_path):
    """The last one counts, each node id has its own, and only the owner may read it."""
    folder = tmp_path / "state"
    memory = Memory(folder, "n1")
    assert memory.read() is None
    memory.keep(Remembered(status="x", runtime=RUNTIME, user="me"))
    memory.keep(WHAT)
    assert memory.read() == WHAT
    assert Memory(folder, "n2").read() is None
    assert [(path.name, path.stat().st_mode & 0o777) for path in folder.iterdir()] == [("n1.last.json", 0o600)]


def test_what_cannot_be_kept_or_read_is_no_failure(tmp_path, caplog):
    """A folder that cannot be written is told in the log; a broken file is as none."""
    (tmp_path / "file").touch()
    with caplog.at_level(logging.WARNING):
        Memory(tmp_path / "file", "n1").keep(WHAT)
    assert "cannot be kept" in caplog.text
    (tmp_path / "n1.last.json").write_text("{broken")
    assert Memory(tmp_path, "n1").read() is None
