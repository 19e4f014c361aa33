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


def _real(checkout: Path, name: str) -> None:
    """An environment with a host that has an address; its playbook fails, as with a host that cannot be reached."""
    folder = checkout / "inventory" / name / "host_vars" / "gx10"
    folder.mkdir(parents=True)
    (folder / "connection.yml").write_text("# a host\naddress: 192.0.2.1\n", encoding="utf-8")
    (checkout / "playbooks").mkdir(exist_ok=True)
    program = "import sys\nprint(' '.join(sys.argv[1:]))\nsys.exit(4)\n"
    (checkout / "playbooks" / "launch.py").write_text(program, encoding="utf-8")


def test_a_host_that_cannot_be_reached_is_not_called_stopped(tmp_path: Path) -> None:
    """Also where nothing was deployed from here; `make clean` then removes nothing and says what to do."""
    _real(tmp_path, "dev")
    assert _down(tmp_path, "dev").returncode == 1
    (tmp_path / "build" / "dev-runtime" / "trust").mkdir(parents=True)

    done = _down(tmp_path, "--all", "--purge")
    assert (done.returncode, "purge=here" in done.stdout, "stopped" in done.stdout) == (1, True, False)
    assert done.stderr == (
        "dev: not everything was stopped, see above; build/dev-runtime was kept. next: once every host can be reached "
        "run it again, or give up on them: rm -rf build/dev-runtime\n"
    )
    assert (tmp_path / "build" / "dev-runtime" / "trust").is_dir()


def test_a_lab_that_is_off_runs_nothing(tmp_path: Path) -> None:
    """Its hosts are not asked; `make clean` removes what was kept of it here."""
    _real(tmp_path, "lab")
    (tmp_path / "build" / "lab-runtime").mkdir(parents=True)

    done = _down(tmp_path, "lab")
    assert (done.returncode, done.stdout) == (
        0,
        "lab: its hosts are off, and nothing runs on them\nstopped: nothing was running\n",
    )
    assert _down(tmp_path, "--all", "--purge").returncode == 0
    assert not (tmp_path / "build").exists()


def test_clean_switches_a_lab_off(tmp_path: Path) -> None:
    """What is on its hosts goes with them."""
    _real(tmp_path, "lab")
    for name in ("lab", "lab-runtime"):
        (tmp_path / "build" / name).mkdir(parents=True)
    script = tmp_path / "tests" / "lab" / "lab.sh"
    script.parent.mkdir(parents=True)
    script.write_text("#!/bin/sh\necho lab $1\n", encoding="utf-8")
    script.chmod(0o755)

    done = _down(tmp_path, "--all", "--purge")
    assert (done.returncode, "lab down" in done.stdout) == (0, True)
    assert not (tmp_path / "build").exists()
