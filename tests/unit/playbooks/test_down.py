"""playbooks/down.py: what it says when there is nothing to stop."""

import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]


def _down(checkout: Path, *arguments: str) -> "subprocess.CompletedProcess[str]":
    (checkout / "playbooks").mkdir(parents=True, exist_ok=True)
    (checkout / "inventory" / "local").mkdir(parents=True, exist_ok=True)
    script = shutil.copy(ROOT / "playbooks" / "down.py", checkout / "playbooks")
    return subprocess.run([sys.executable, script, *arguments], capture_output=True, text=True, check=False)


def test_what_does_not_run_is_not_called_stopped(tmp_path: Path) -> None:
    """An environment that was never deployed here."""
    done = _down(tmp_path, "local")

    assert (done.returncode, done.stdout) == (0, "stopped: nothing was running\n")


def test_a_misspelt_environment_is_refused(tmp_path: Path) -> None:
    """It would look like success while the real one runs on."""
    done = _down(tmp_path, "locl")

    assert done.returncode == 2
    assert done.stderr == "no environment 'locl' (known: local)\n"
