"""The last words of a deploy: what runs, what the smoke said, and what to try next."""

from pathlib import Path
from typing import Any

from jinja2 import Environment, StrictUndefined

ROOT = Path(__file__).resolve().parents[3]
TEXT = (ROOT / "playbooks" / "roles" / "proof" / "templates" / "next.txt.j2").read_text(encoding="utf-8")
HERE = {"name": "mac", "here": True}
FAR = {"name": "mac", "here": False, "ssh_config": "/c/ssh_config", "user": "u", "address": "10.0.0.2"}


def _rendered(host: dict[str, Any], **more: Any) -> str:
    env = {
        "env": "lab",
        "hosts": [host],
        "edge_host": "mac",
        "capacity": 10,
        "banner": "",
        "ports": {"openai": 18083},
        "openai_url": "http://127.0.0.1:18083/v1",
        "control_url": "http://127.0.0.1:18001",
        "edge_id": "e",
        "smoke_model": "local-chat",
    }
    engine = Environment(undefined=StrictUndefined, trim_blocks=True, autoescape=False)
    return engine.from_string(TEXT).render(iop_env=env, **{"proof_port_base": ""} | more)


def test_the_smokes_closing_line_is_shown() -> None:
    """As `plain_command` gives it: one text. Without a smoke there is no such line."""
    told = _rendered(
        HERE, proof_smoke={"stdout": "== 13 passed ==\ncapacity 10/10 · queued max 1 · final 0/0 · 13 passed"}
    )

    assert told.splitlines()[1] == "smoke: capacity 10/10 · queued max 1 · final 0/0 · 13 passed"
    assert "smoke:" not in _rendered(HERE, proof_smoke={"skipped": True})


def test_a_far_edge_is_reached_by_a_forward_first() -> None:
    """What listens on another host's loopback is not offered as if it were here."""
    far, here = _rendered(FAR, proof_smoke={}), _rendered(HERE, proof_smoke={})

    assert "ssh -F /c/ssh_config -N -L 18083:127.0.0.1:18083 mac" in far
    assert "u@10.0.0.2" in _rendered({**FAR, "ssh_config": None}, proof_smoke={})
    assert "ssh" not in here
    assert ("18001" in here, "18001" in far) == (True, False)


def test_moved_ports_are_named_for_the_next_commands() -> None:
    """Who moved the ports for one command is told what the others need to find them; nobody else is."""
    moved, usual = _rendered(HERE, proof_smoke={}, proof_port_base="30000"), _rendered(HERE, proof_smoke={})

    assert "Try next (with `. .venv/bin/activate` and `export IOP_PORT_BASE=30000`):\n" in moved
    assert "Try next (with `. .venv/bin/activate`):\n" in usual
