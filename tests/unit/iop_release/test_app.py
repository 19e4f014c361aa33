"""iop_release.app: the helper as one file, run by whatever Python a host has."""

import json
import shutil
import subprocess
from pathlib import Path

import pytest

from iop_release import app

PYTHONS = sorted(
    {
        str(path.resolve())
        for minor in ("3.8", "3.9", "3.10", "3.11", "3.12", "3.13", "3.14")
        for path in (
            *Path.home().glob(f".pyenv/versions/{minor}.*/bin/python"),
            *(Path(found) for found in (shutil.which(f"python{minor}", path="/usr/bin:/usr/local/bin"),) if found),
        )
    }
)


def _run(python: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([python, "-I", *arguments], capture_output=True, text=True, check=False, cwd="/", timeout=120)


def test_it_has_the_same_bytes_each_time(tmp_path: Path) -> None:
    """Its name is that of its content; it is written once, and again when it was damaged."""
    path, new = app.write(tmp_path / "a")
    again, new_again = app.write(tmp_path / "a")
    elsewhere, _ = app.write(tmp_path / "b")

    assert (new, new_again, again) == (True, False, path)
    assert path.name == elsewhere.name
    assert path.read_bytes() == elsewhere.read_bytes()
    path.write_bytes(b"damaged")
    assert app.write(tmp_path / "a") == (path, True)
    assert path.read_bytes() == elsewhere.read_bytes()


@pytest.mark.parametrize("python", PYTHONS)
def test_any_python_of_a_host_runs_it(tmp_path: Path, python: str) -> None:
    """It works from 3.9 on, and says in words which Python is too old for iop; never a traceback."""
    path, _ = app.write(tmp_path)
    minor = int(_run(python, "-c", "import sys; print(sys.version_info[1])").stdout)

    done = _run(python, str(path), "preflight", "--home", str(tmp_path / "home"), "--json")

    assert "Traceback" not in done.stderr
    if minor < 9:
        assert done.returncode == 1
        assert "; iop needs 3.11 or newer" in done.stderr
        return
    codes = [finding["code"] for finding in json.loads(done.stdout)["findings"]]
    assert ("python" in codes) == (minor < 11)
    assert done.returncode == (1 if codes else 0)
    status = _run(python, str(path), "prune", "--root", str(tmp_path / "host"), "--json")
    assert json.loads(status.stdout) == {"changed": False, "removed": []}


def test_its_texts_are_in_it(tmp_path: Path) -> None:
    """The service definitions, which are files of the package, are found in the zip."""
    path, _ = app.write(tmp_path)
    program = (
        "import sys; sys.path.insert(0, sys.argv[1]); from iop_release.services.registration import SYSTEMS, NodeHost\n"
        "print(*[len(NodeHost('n', name).service()) > 100 for name in SYSTEMS])"
    )

    done = _run(PYTHONS[-1], "-c", program, str(path))

    assert done.stdout.split() == ["True"] * 3, done.stderr
