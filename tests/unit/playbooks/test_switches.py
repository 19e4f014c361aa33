"""playbooks/guards/switches.py: what is given with -e is meant, or the run does not begin."""

import re
from pathlib import Path
from typing import Any

import pytest

from iop.config.inventory_engines import KINDS
from tests.fakes import pages

ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture
def switches(monkeypatch: pytest.MonkeyPatch) -> Any:
    """The module, as the report callback imports it."""
    monkeypatch.syspath_prepend(str(ROOT / "playbooks"))
    from guards import switches

    return switches


@pytest.mark.parametrize("value", ["true", "Yes", "ON", "1", "false", "no", "Off", "0", True, False, 0, 1, "{{ x }}"])
def test_words_that_ansible_takes_for_yes_or_no_pass(switches: Any, value: object) -> None:
    """In any case, as text or as JSON's own values; a template is not known yet."""
    assert switches.wrong("dev-runtime", {"require_remote": value}, {}, KINDS) == []


@pytest.mark.parametrize("value", ["perhaps", "", "treu", 2, None, [], 1.5])
@pytest.mark.parametrize("name", ["require_remote", "run_tests", "take_over", "allow_capacity_gap", "cut_direct"])
def test_a_switch_that_is_no_yes_or_no_is_refused(switches: Any, name: str, value: object) -> None:
    """It is named with the words that it takes; from the inventory, too."""
    said = f"{name}={value} is neither yes nor no; next: give it one of true, yes, on, 1 or false, no, off, 0"
    assert switches.wrong("rollback", {name: value}, {}, KINDS) == [said]
    assert switches.wrong("rollback", {}, {name: value}, KINDS) == [said]


def test_purge_is_a_switch_of_bootstrap_alone(switches: Any) -> None:
    """Uninstalling takes `here` as well, and checks it itself."""
    assert switches.wrong("uninstall", {"purge": "here"}, {}, KINDS) == []
    assert len(switches.wrong("bootstrap", {"purge": "here", "power": "x"}, {}, KINDS)) == 2


def test_an_engine_kind_and_a_name_that_are_none_are_refused(switches: Any) -> None:
    """With what there is; a name of the user's own passes."""
    given = {"engine_kind": "ollama", "require_remot": "true", "my_own": "perhaps"}
    assert switches.wrong("dev-runtime", given, {}, KINDS) == [
        "-e require_remot=…: there is no such variable; next: write require_remote",
        "engine_kind=ollama is unknown; next: choose one of simulator, llama, external, own",
    ]


def test_every_variable_of_the_page_is_known(switches: Any) -> None:
    """Each has its place, and what the playbooks read as a switch is one."""
    page = pages.text_of("docs/reference/playbooks.md")
    told = {name for row in pages.rows(page, "## Variables")[1:] for name in re.findall(r"`(\w+)`", row[1])}
    assert told == switches.SWITCHES | switches.OTHERS
    yaml = "".join(path.read_text(encoding="utf-8") for path in (ROOT / "playbooks").rglob("*.yml"))
    read = set(re.findall(r"\b(\w+) \| default\(\w+\) \| bool", yaml))
    assert "run_tests" in read
    assert read == switches.SWITCHES | switches.SWITCHES_OF["bootstrap"]
