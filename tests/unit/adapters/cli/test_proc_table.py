"""Reading the table of processes."""

import os

from iop.adapters.cli.proc_table import MARK, ProcTable


def add(root, pid, *, parent=1, group=1, state="S", started=5, mark=None, name="a b) (c"):
    """Add a process to a table in a folder."""
    folder = root / str(pid)
    folder.mkdir(parents=True)
    rest = " ".join(["0"] * 16)
    (folder / "stat").write_text(f"{pid} ({name}) {state} {parent} {group} {rest} {started} 0\n")
    if mark is not None:
        (folder / "environ").write_bytes(f"A=1\0{MARK}={mark}\0B=2\0".encode())


def test_a_tree_is_group_mark_and_descent(tmp_path):
    """Members are found by any of three ways; the dead are none, and strangers are not."""
    add(tmp_path, 10, group=10)
    add(tmp_path, 11, parent=10, group=11)
    add(tmp_path, 12, parent=11, group=12)
    add(tmp_path, 20, group=20, mark="o/run")
    add(tmp_path, 30, group=30, mark="o/other")
    add(tmp_path, 40, group=10, state="Z")
    (tmp_path / "50").mkdir()
    (tmp_path / "sys").mkdir()
    assert ProcTable(tmp_path).tree("o/run", 10) == {10, 11, 12, 20}


def test_what_is_older_than_a_run_is_not_asked_for_its_mark(tmp_path, monkeypatch):
    """A host has hundreds of processes; only those that began with the run or after it can carry its mark."""
    add(tmp_path, 5, started=99, mark="o/run")
    add(tmp_path, 10, group=10, started=100)
    add(tmp_path, 20, group=20, started=100, mark="o/run")
    add(tmp_path, 30, group=30, started=101)
    asked = []
    table = ProcTable(tmp_path)
    mark = table.mark
    monkeypatch.setattr(table, "mark", lambda pid: asked.append(pid) or mark(pid))
    assert table.tree("o/run", 10, since=100) == {10, 20}
    assert sorted(asked) == [20, 30]


def test_this_process():
    """The real table knows this process, with any name and start."""
    table = ProcTable()
    entry = table.entry(os.getpid())
    assert (entry.pid, entry.parent, entry.group) == (os.getpid(), os.getppid(), os.getpgrp())
    assert entry.lives
    assert os.getpid() in table.living()
    assert table.owner() == table.owner()


def test_orphans(tmp_path):
    """A mark whose owner is gone, or whose pid is somebody else's by now, is an orphan's; others are left alone."""
    (tmp_path / "self" / "ns").mkdir(parents=True)
    (tmp_path / "self" / "ns" / "pid").symlink_to("pid:[77]")
    add(tmp_path, 5, started=100)
    add(tmp_path, 10, mark="77-5-100/live")
    add(tmp_path, 11, mark="77-5-99/reused")
    add(tmp_path, 12, mark="77-6-100/gone")
    add(tmp_path, 13, mark="78-6-100/of another container")
    add(tmp_path, 14, mark="odd")
    assert sorted(ProcTable(tmp_path).orphans()) == [(11, "77-5-99/reused"), (12, "77-6-100/gone")]


def test_no_table(tmp_path):
    """Where there is no /proc there is nothing to see."""
    table = ProcTable(tmp_path / "none")
    assert not table.exists
    assert table.living() == {}
    assert list(table.orphans()) == []
    assert table.owner().endswith("-0")
