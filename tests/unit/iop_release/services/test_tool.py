"""iop_release.services.tool: calling the system's tools."""

import os
import sys
from pathlib import Path

import pytest

from iop_release.errors import ReleaseError
from iop_release.services import tool


def test_output_and_code_come_back() -> None:
    """Both streams and the exit code, with stdin closed and English messages asked for."""
    code = (
        "import os,sys; print(sys.stdin.read() or 'empty', os.environ['LC_ALL']); sys.stderr.write('oh'); sys.exit(3)"
    )
    done = tool.call([sys.executable, "-c", code])
    assert (done.code, done.out, done.err, done.text) == (3, "empty C\n", "oh", "oh")


def test_a_tool_that_is_not_there() -> None:
    """Named, with where to look."""
    with pytest.raises(ReleaseError, match=r"(?s)no-such-tool is not on this host.*service_manager"):
        tool.call(["no-such-tool"])


def test_a_tool_that_hangs(tmp_path: Path) -> None:
    """It is ended and named."""
    with pytest.raises(ReleaseError, match="did not end within"):
        tool.call([sys.executable, "-c", "import signal; signal.pause()"], timeout=0.2)


def test_sudo_is_asked_by_others_than_root(monkeypatch: pytest.MonkeyPatch) -> None:
    """Root needs none; Windows has none; everybody else calls sudo so that it never asks."""
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    assert tool.as_root() == ()
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    assert tool.as_root() == ("sudo", "-n")
    monkeypatch.delattr(os, "geteuid")
    assert tool.as_root() == ()
