"""playbooks/guards/fleet.py: a run lets go of the hosts that it held."""

import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest

from iop_release.hold import path_of
from tests.fakes import fake_ssh

ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture
def fleet(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """A run that has begun, with the hosts' home in the test's folder."""
    for name in ("IOP_RUN", "IOP_RUN_HOLDER", "IOP_RUN_KEY"):
        monkeypatch.setenv(name, "")
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.syspath_prepend(str(ROOT / "playbooks"))
    from guards.fleet import Fleet, own_key

    fleet = Fleet()
    fleet.begin("run 1", tmp_path / "checkout")
    (tmp_path / "checkout" / "runtime").symlink_to(ROOT / "runtime")
    assert os.environ["IOP_RUN"] == "run 1"
    assert os.environ["IOP_RUN_HOLDER"].endswith(f":{tmp_path}/checkout")
    assert os.environ["IOP_RUN_KEY"].endswith(own_key(tmp_path / "checkout" / "build"))
    return fleet


def _hold(tmp_path: Path, run: str) -> tuple[Path, dict[str, Any]]:
    """A hold on the host, and what the helper told of it."""
    root = tmp_path / "root"
    path = path_of(root, tmp_path)
    path.parent.mkdir(parents=True, exist_ok=True)
    told = {"run": run, "holder": "h", "key": "k", "since": 1, "until": 2, "lease_s": 1}
    path.write_text(json.dumps(told))
    end = {
        "program": [sys.executable, str(ROOT / "none.pyz")],
        "arguments": ["let-go", "--root", str(root), "--run-id", run],
    }
    return path, {"what": "hold", "let_go": end}


def test_a_host_of_this_machine_is_let_go(fleet: Any, tmp_path: Path) -> None:
    """Once the run ends nothing of the hold is left; a second end has nothing to do."""
    path, told = _hold(tmp_path, "run 1")
    fleet.note("mac", told, {"reached_by": "local"})
    fleet.let_go()
    assert not path.exists()
    fleet.let_go()


def test_a_host_that_was_let_go_is_not_asked_again(fleet: Any, tmp_path: Path) -> None:
    """Uninstalling removes the helper there, and lets go before."""
    path, told = _hold(tmp_path, "run 1")
    fleet.note("mac", told, {"reached_by": "local"})
    fleet.note("mac", {"what": "let_go"}, {})
    fleet.let_go()
    assert path.exists()


def test_a_remote_host_is_let_go_by_ssh(fleet: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By the environment's own ssh configuration, with the helper that is there; one that is away holds nobody up."""
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}{os.pathsep}{os.environ['PATH']}")
    folder = fake_ssh.install(tmp_path / "bin", {"gx10.test": "ok", "away.test": "refused"})
    _, told = _hold(tmp_path, "run 1")
    fleet.note("gx10", told, {"address": "gx10.test", "user": "lab", "ssh_config": "build/lab/ssh_config"})
    fleet.note("mac", told, {"address": "away.test"})

    fleet.let_go()

    said = [" ".join(map(str, call)) for call in fake_ssh.calls(folder)]
    mine = next(line for line in said if "gx10.test" in line)
    assert f"-F {tmp_path}/checkout/build/lab/ssh_config" in mine
    assert "none.pyz let-go --root" in mine


def test_each_checkout_has_a_key_of_its_own(fleet: Any, tmp_path: Path) -> None:
    """Made once, and another one elsewhere."""
    from guards.fleet import own_key

    first = own_key(tmp_path / "a" / "build")
    assert own_key(tmp_path / "a" / "build") == first
    assert own_key(tmp_path / "b" / "build") != first
