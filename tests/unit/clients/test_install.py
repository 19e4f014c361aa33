"""tests/clients/install.py: made once, then found; why it cannot be had."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
INSTALLER = ROOT / "tests" / "clients" / "install.py"
NPM = '#!/bin/sh\necho "$@" >>"{log}"\nmkdir -p node_modules\necho "{said}"\nexit {code}\n'


def _install(
    folder: Path, *, node: str | None = "v20.1.0", npm: int | None = 0, said: str = ""
) -> "subprocess.CompletedProcess[str]":
    """Run the installer with a node that says `node` and an npm that says `said` and exits with `npm`; None = it is
    missing.
    """
    programs = folder / "programs"
    programs.mkdir(exist_ok=True)
    scripts = {"node": node and f"#!/bin/sh\necho {node}\n", "npm": None}
    if npm is not None:
        scripts["npm"] = NPM.format(log=folder / "npm.log", code=npm, said=said)
    for name, text in scripts.items():
        (programs / name).unlink(missing_ok=True)
        if text:
            (programs / name).write_text(text)
            (programs / name).chmod(0o755)
    tools = folder / "tools"
    tools.mkdir(exist_ok=True)
    if not (tools / "mkdir").exists():
        (tools / "mkdir").symlink_to("/bin/mkdir")
    command = [sys.executable, str(INSTALLER), "--into", str(folder / "clients")]
    return subprocess.run(
        command, capture_output=True, text=True, check=False, env={"PATH": f"{programs}:{tools}"}, cwd=folder
    )


def test_the_clients_are_made_once(tmp_path: Path) -> None:
    """The first run asks npm for the locked versions, without scripts; the second asks nothing."""
    first, second = _install(tmp_path), _install(tmp_path)

    found = json.loads(first.stdout)
    assert (found["changed"], found["modules"]) == (True, str(tmp_path / "clients" / "node_modules"))
    assert json.loads(second.stdout) == {**found, "changed": False}
    (line,) = (tmp_path / "npm.log").read_text().splitlines()
    assert line.startswith(f"ci --prefix {tmp_path / 'clients'} ")
    assert "--ignore-scripts" in line
    locked = json.loads((tmp_path / "clients" / "package-lock.json").read_text())["packages"][""]["dependencies"]
    assert locked == json.loads((ROOT / "tests" / "clients" / "package.json").read_text())["dependencies"]


def test_another_node_makes_them_anew(tmp_path: Path) -> None:
    """What was made under one version of node is not taken for another's."""
    _install(tmp_path)
    assert json.loads(_install(tmp_path, node="v22.0.0").stdout)["changed"] is True


@pytest.mark.parametrize(
    ("node", "npm", "code", "reason"),
    [
        (None, 0, 3, "node is missing: install it (Debian: sudo apt-get install -y nodejs npm)"),
        ("v20.1.0", None, 3, "npm is missing: install it (Debian: sudo apt-get install -y nodejs npm)"),
        ("v18.13.0", 0, 3, "node v18.13.0 is older than v20"),
        ("v20.1.0", 7, 1, "npm ci failed"),
    ],
)
def test_what_cannot_be_had_is_told(tmp_path: Path, node: str | None, npm: int | None, code: int, reason: str) -> None:
    """No node, no npm, or too old ones: exit code 3 and what to do; a failed npm is 1, and is not taken for whole."""
    done = _install(tmp_path, node=node, npm=npm)

    assert (done.returncode, done.stdout) == (code, "")
    assert reason in done.stderr
    assert not (tmp_path / "clients" / ".complete").exists()


@pytest.mark.parametrize(
    ("said", "code"),
    [
        ("npm error code ENOTFOUND", 4),
        ("npm error code ECONNREFUSED", 4),
        ("npm error code E503", 4),
        ("npm error code EUSAGE the lock file does not fit", 1),
        ("npm error code E404", 1),
        ("npm error code EINTEGRITY", 1),
    ],
)
def test_a_registry_that_is_away_is_no_fault_of_ours(tmp_path: Path, said: str, code: int) -> None:
    """What the network or the registry did is exit code 4, whatever a lock file has wrong is 1."""
    done = _install(tmp_path, npm=1, said=said)

    assert (done.returncode, done.stdout) == (code, "")
    assert said in done.stderr
