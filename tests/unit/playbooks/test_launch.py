"""playbooks/launch.py: the surroundings that Ansible starts with (B69)."""

import importlib.util
from pathlib import Path

import pytest

LAUNCH = Path(__file__).resolve().parents[3] / "playbooks" / "launch.py"


@pytest.mark.parametrize(("platform", "expected"), [("darwin", "YES"), ("linux", None)])
def test_a_mac_lets_workers_fork(platform: str, expected: str | None) -> None:
    """On macOS alone: without the variable its frameworks end a forked worker that asks the name service."""
    spec = importlib.util.spec_from_file_location("launch", LAUNCH)
    assert spec is not None
    assert spec.loader is not None
    launch = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(launch)

    found = launch.environment({"PATH": "/usr/bin", "MAKEFLAGS": "-j"}, platform)

    assert found.get("OBJC_DISABLE_INITIALIZE_FORK_SAFETY") == expected
    assert found["PATH"] == "/usr/bin"
    assert "MAKEFLAGS" not in found
