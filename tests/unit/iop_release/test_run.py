"""iop_release.run: programs run to their end."""

import subprocess
import sys
from pathlib import Path

import pytest

from iop_release.errors import ReleaseError
from iop_release.run import git, run


def test_output_is_returned_and_failure_tells_its_words() -> None:
    """Success gives stdout; failure gives exit code and stderr; a missing program names its package."""
    assert run([sys.executable, "-c", "print('out')"]) == "out\n"
    with pytest.raises(ReleaseError, match="exit code 3:\nwhy"):
        run([sys.executable, "-c", "import sys; sys.stderr.write('why'); sys.exit(3)"])
    with pytest.raises(ReleaseError, match="apt-get install -y no-such-program"):
        run(["no-such-program"])


def test_git_ignores_the_repository_of_a_hook(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """GIT_DIR of a surrounding hook does not redirect our git."""
    subprocess.run(["git", "init", "-q", str(tmp_path)], check=True)
    monkeypatch.setenv("GIT_DIR", "/nowhere")

    assert git(tmp_path, "rev-parse", "--show-toplevel") == str(tmp_path.resolve())
