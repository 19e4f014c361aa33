"""Every key of edge.yaml is live or needs a restart, and a refresh says which: no change is passed over in silence."""

import copy
import re

import pytest

from iop.config.models import EdgeConfig
from iop.config.plan import RESTART_REASONS, plan
from tests.fakes.config_keys import keys

SHA, OTHER_SHA = "a" * 64, "b" * 64
PAIR = {"cert": "/c.pem", "key": "/k.pem"}
FULL = {
    "edge": {"id": "e"},
    "auth": {
        "api_keys": [{"name": "ann", "sha256": SHA, "models": ["m"], "max_waiting": 1}],
        "admin_token_file": "/admin.token",
    },
    "tls": {name: dict(PAIR) for name in ("openai", "nodes", "admin")},
    "nodes": [
        {
            "id": "n1",
            "token_file": "/n1.token",
            "runtime": {"concurrency": 1},
            "adapters": {
                "cli": {"enabled": True, "targets": {"echo": {"kind": "text", "command": ["echo"]}}},
                "openai_compat_instances": [
                    {"name": "e1", "enabled": True, "provider": "vllm", "endpoint": "http://127.0.0.1:1/v1"}
                ],
            },
            "providers": [
                {"id": "p1", "type": "vllm", "category": "local_inference", "adapter": "e1", "capacity": 3},
            ],
        }
    ],
    "models": [
        {"id": "m", "providers": {"p1": "engine-m"}},
        {"id": "agent", "direct": {"node": "n1", "adapter": "cli", "target": "echo"}},
    ],
}
#: a value that differs from FULL and from the default, by the key's last word; a whole path where that is not enough
OTHER = {
    **dict.fromkeys(("id", "name", "alias", "node", "target", "adapter", "provider"), "other"),
    **dict.fromkeys(("openai", "nodes", "admin"), "127.0.0.1:7"),
    **dict.fromkeys(("admin_token_file", "token_file", "api_key_file", "cert", "key", "cwd"), "/other"),
    **dict.fromkeys(("sha256", "token_sha256"), OTHER_SHA),
    **dict.fromkeys(("max_bytes", "max_body"), "7KiB"),
    **dict.fromkeys(("max_wait", "offline_grace", "keepalive_after", "write_timeout", "idle_timeout"), "7s"),
    **dict.fromkeys(("answer_timeout", "dead_after", "every", "drain_timeout", "wedge_after", "timeout"), "7s"),
    **dict.fromkeys(("max_waiting", "capacity", "concurrency"), 7),
    "auth.api_keys[].models": ["other"],
    "models": [],
    "allowed_hosts": ["other"],
    "insecure": True,
    "enabled": False,
    "kind": "codex",
    "type": "other",
    "command": ["other"],
    "env": {"A": "b"},
    "endpoint": "http://127.0.0.1:2/v1",
    "on_disconnect": "finish",
    "providers": {"p1": "other"},
}
#: keys that allow one value only: nothing to change
FIXED = {"nodes[].providers[].category", "models[].direct.adapter"}
#: keys by which entries of a list are matched: another value is another entry
NAMES = ("nodes[].id", "nodes[].providers[].id", "models[].id", "auth.api_keys[].name")
NAMES = (*NAMES, "nodes[].adapters.openai_compat_instances[].name")
KINDS = {
    "nodes[].providers[].capacity": "resized",
    "models[].providers": "rerouted",
    "models[].direct.node": "rerouted",
    "models[].direct.target": "rerouted",
}
KEYS = [path for path, *_ in keys(EdgeConfig) if path not in FIXED]


def changed_at(path):
    """FULL with another value at a key."""
    data = copy.deepcopy(FULL)
    *sections, name = path.split(".")
    here = data
    for section in sections:
        if section == "*":
            here = next(iter(here.values()))
            continue
        here = here.setdefault(section.removesuffix("[]"), {})
        if section.endswith("[]"):
            here = here[1] if path.startswith("models[].direct") else here[0]
    here[name] = OTHER[path] if path in OTHER else OTHER[name]
    return EdgeConfig.model_validate(data)


def needs_restart(path):
    """True when the table of fields that need a restart has this key, or a section around it."""
    return any(path == field or path.startswith(f"{field}.") for field, _ in RESTART_REASONS)


@pytest.mark.parametrize("path", KEYS)
def test_a_change_of_a_key_is_planned(path):
    """The plan tells exactly this key, by the right kind, and whether it needs a restart."""
    found = plan(EdgeConfig.model_validate(FULL), changed_at(path))
    kinds = [change.kind for change in found.changes]
    if path in NAMES:
        assert kinds[0] == "removed"
        assert kinds.count("removed") == kinds.count("added") == len(kinds) / 2
    else:
        (change,) = found.changes
        assert change.kind == KINDS.get(path, "changed")
        shape = re.sub(r"\[[^\]]*\]", "[]", change.path).replace("targets[]", "targets.*")
        assert shape.removesuffix("[]") == path
    assert bool(found.restart_required) == needs_restart(path)


def test_every_field_of_the_restart_table_exists():
    """The table names keys and sections of the schema only."""
    paths = [path for path, *_ in keys(EdgeConfig)]
    for field, reason in RESTART_REASONS:
        assert any(path == field or path.startswith(f"{field}.") for path in paths), field
        assert reason
