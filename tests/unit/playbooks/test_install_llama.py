"""playbooks/roles/engines/files/install_llama.py: where things lie, and why they cannot be had."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
INSTALLER = ROOT / "playbooks" / "roles" / "engines" / "files" / "install_llama.py"
#: stands in front of pip: a module of that name that says this and exits 1
PIP = "import sys\nprint({said!r})\nsys.exit(1)\n"


def _install(folder: Path, *arguments: str, said: str = "") -> "subprocess.CompletedProcess[str]":
    """Run the installer in a project that wants one package; its pip says `said` and fails."""
    (folder / "pyproject.toml").write_text('[project]\noptional-dependencies = {engines = ["some-engine==1"]}\n')
    (folder / "path" / "pip").mkdir(parents=True, exist_ok=True)
    (folder / "path" / "pip" / "__init__.py").touch()
    (folder / "path" / "pip" / "__main__.py").write_text(PIP.format(said=said))
    command = [sys.executable, str(INSTALLER), "--project", str(folder), "--into", str(folder / "engines"), *arguments]
    env = {"PYTHONPATH": str(folder / "path"), "PATH": "/usr/bin:/bin"}
    return subprocess.run(command, capture_output=True, text=True, check=False, env=env)


def test_a_dry_run_tells_the_places_and_makes_nothing(tmp_path: Path) -> None:
    """Python, launcher and model are named, the model only on request."""
    done = _install(tmp_path, "--dry-run", "--with-model")
    found = json.loads(done.stdout)

    assert found["changed"] is True
    assert Path(found["python"]).is_relative_to(tmp_path / "engines")
    assert found["model"].endswith("/SmolLM2-135M-Instruct.Q4_1.gguf")
    assert json.loads(_install(tmp_path, "--dry-run").stdout)["model"] is None
    assert not (tmp_path / "engines").exists()


@pytest.mark.parametrize(
    ("said", "code", "reason"),
    [
        ("ERROR: No matching distribution found for some-engine==1", 3, "there is no build of some-engine==1 for "),
        ("WARNING: Retrying (Retry(total=4\nERROR: No matching distribution found for x", 4, "could not be reached"),
        ("ERROR: HTTP error 503 while getting it", 4, "could not be reached for some-engine==1"),
        ("ReadTimeoutError: read timed out", 4, "could not be reached"),
        ("ERROR: no space left on device", 1, "no space left on device"),
    ],
)
def test_what_cannot_be_had_is_told(tmp_path: Path, said: str, code: int, reason: str) -> None:
    """No build for this system is exit code 3, an index that is away 4, everything else 1; nothing half made is taken
    for whole.
    """
    done = _install(tmp_path, said=said)

    assert (done.returncode, done.stdout) == (code, "")
    assert reason in done.stderr
    assert list((tmp_path / "engines").rglob(".complete")) == []
    assert _install(tmp_path, said=said).returncode == code
