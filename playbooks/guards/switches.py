"""What is given with `-e`, looked at before the first step: a word that Ansible would take for false is no answer."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from iop.config.inventory_names import nearest

TRUE, FALSE = ("true", "yes", "on", "1"), ("false", "no", "off", "0")
#: variables that are switches, in every playbook
SWITCHES = frozenset({
    "allow_capacity_gap",
    "cut_direct",
    "engines_must_answer",
    "overwrite_config",
    "require_remote",
    "restart_engines",
    "run_smoke",
    "run_tests",
    "take_over",
})  # fmt: skip
#: those of one playbook
SWITCHES_OF = {"bootstrap": frozenset({"power", "purge"})}
#: the other variables of the playbooks; docs/reference/playbooks.md tells what they take
OTHERS = frozenset({
    "drain_wait",
    "engine_kind",
    "engine_model",
    "engine_url",
    "host",
    "lease",
    "nodes_check_wait",
    "nodes_gate_wait",
    "power",
    "purge",
    "reason",
    "release_id",
    "source_ref",
    "state",
})  # fmt: skip


def wrong(playbook: str, given: Mapping[str, Any], facts: Mapping[str, Any], kinds: tuple[str, ...]) -> list[str]:
    """What cannot be meant, a line each: `given` with `-e`, `facts` the variables of a host, which may be switches too.

    `kinds` are what `engine_kind` takes.
    """
    known = SWITCHES | OTHERS
    found = [
        f"-e {name}=…: there is no such variable; next: write {near}"
        for name in given
        if name not in known and (near := nearest(name, known))
    ]
    for name in sorted(SWITCHES | SWITCHES_OF.get(playbook, frozenset())):
        value = given.get(name, facts.get(name, False))
        if not _is_switch(value):
            words = f"{', '.join(TRUE)} or {', '.join(FALSE)}"
            found.append(f"{name}={value} is neither yes nor no; next: give it one of {words}")
    kind = given.get("engine_kind", facts.get("engine_kind", kinds[0]))
    if kind not in kinds and "{{" not in str(kind):
        found.append(f"engine_kind={kind} is unknown; next: choose one of {', '.join(kinds)}")
    return found


def _is_switch(value: object) -> bool:
    if isinstance(value, str):
        return value.lower() in TRUE + FALSE or "{{" in value  # a template is known when the step comes
    return isinstance(value, int) and value in (0, 1)
