"""The reference pages are complete: keys, defaults, findings, errors, routes, events, fields, verbs, exit codes."""

import argparse
import re
from dataclasses import fields
from typing import Any, get_args

import pytest

from iop.commands import config_refresh, control, edge, node, simulator
from iop.config.models import ControlConfig, EdgeConfig, NodeConfig
from iop.control.app import build_app
from iop.control.views import Views
from iop.domain import errors, snapshots
from iop.domain.effects import EffectType
from iop.edge.admin_routes import build_admin_app
from iop.edge.feed import DirectType, Event
from iop.edge.registry import TurnedAwayEntry
from iop.edge.status import ConfigFacts, EdgeFacts
from iop.openai.paths import METHODS
from iop.simulator.slots import Stats
from iop.transport.hosts import HostRule
from iop.wiring.edge import CHECKS
from iop_release import cli as release
from tests.fakes import pages
from tests.fakes.config_keys import keys

CONFIGURATION = pages.text_of("docs/reference/configuration.md")
HTTP = pages.text_of("docs/reference/http-api.md")
STATUS = pages.text_of("docs/reference/status-and-events.md")
CODES = pages.text_of("docs/reference/exit-codes.md")
CLI = pages.text_of("docs/reference/cli.md")


def default_text(model, name):
    """A default as the page writes it."""
    field = model.model_fields[name]
    if field.is_required():
        return "required"
    value = field.get_default(call_default_factory=True)
    if value is None:
        return "none"
    told: Any = model.model_construct(**{name: value}).model_dump(mode="json", include={name}, warnings=False)[name]
    return {True: "`true`", False: "`false`"}[told] if isinstance(told, bool) else f"`{told}`"


@pytest.mark.parametrize(
    ("heading", "model"),
    [("## edge.yaml", EdgeConfig), ("## node.yaml", NodeConfig), ("## control.yaml", ControlConfig)],
)
def test_every_config_key_and_its_default_are_told(heading, model):
    """The tables of keys are the models: no key is missing, none is made up, defaults are the code's."""
    told = {
        key: row[1]
        for row in pages.rows(CONFIGURATION, heading)
        for key in re.findall(r"`([^`]+)`", row[0])
        if row[0] != "key"
    }
    assert told == {path: default_text(section, name) for path, section, name in keys(model)}


def test_what_is_called_without_effect_has_none():
    """A key that the page calls "without effect in this release" is read nowhere outside the config's own package."""
    idle = [row[0].strip("`") for row in pages.rows(CONFIGURATION, "## edge.yaml") if "without effect in" in row[2]]
    code = "".join(
        path.read_text(encoding="utf-8")
        for path in sorted((pages.ROOT / "runtime" / "iop").rglob("*.py"))
        if path.parent.name != "config"
    )
    read = {key for key, _, name in keys(EdgeConfig) if re.search(rf"\.{name}\b", code)}
    assert {"queue.max_waiting", "drain_timeout"} <= read
    assert set(idle) & read == set()


def test_the_pages_name_what_is_legacy_and_what_gates():
    """The reference says it as the schema does (S01)."""
    by_key = {row[0]: row[2] for row in pages.rows(CONFIGURATION, "## edge.yaml")}
    assert "never a gate" in by_key["`nodes[].runtime.concurrency`"]
    assert "the admission source" in by_key["`nodes[].providers[].capacity`"]


def test_every_finding_is_told():
    """The table of findings has each code that the checks can give, with its severities."""
    found = {}
    for path in sorted((pages.ROOT / "runtime" / "iop" / "config").glob("*.py")):
        source = path.read_text(encoding="utf-8")
        for severity, code in re.findall(r"\b(error|warning)\(\s*\"([a-z_]+)\"", source):
            found.setdefault(code, set()).add(severity)
        for severity, code in re.findall(r"\"(error|warning)\",\s*\"([a-z_]+)\"", source):
            if code not in {"error", "warning"}:
                found.setdefault(code, set()).add(severity)
        chosen = " ".join(re.findall(r"\bcode = .*", source))
        reported = re.findall(r"_report\(\s*\"([a-z_]+)\"", source)
        for code in [*reported, *re.findall(r"\"([a-z]+(?:_[a-z]+)+)\"", chosen)]:
            found.setdefault(code, set()).add("error")
    told = {row[0].strip("`"): set(row[1].split(", ")) for row in pages.rows(CONFIGURATION, "## Findings")[1:]}
    assert told == found


def test_every_error_code_is_told_with_its_status_and_type():
    """The table of errors is the outline of `iop.domain.errors`."""
    outline = re.findall(r"^ {6}(\w+) +(\d{3}) +([a-z_ ]+)$", errors.__doc__, re.MULTILINE)
    wanted = {(status, getattr(errors, name).type, code) for name, status, codes in outline for code in codes.split()}
    told = {(row[0], row[1], row[2].strip("`")) for row in pages.rows(HTTP, "## Errors")[1:]}
    assert len(outline) == 11
    assert told == wanted


def test_every_route_is_told():
    """The page names each route of the OpenAI port, the admin port and the Control Plane."""
    told = {span for span in pages.spans(HTTP) if re.match(r"(GET|POST|PUT|DELETE) /", span)}
    public = {f"{method} {path}" for path, methods in METHODS.items() for method in methods if method != "HEAD"}
    apps = build_admin_app(None, HostRule()), build_app(Views([]), HostRule())  # only their routes are looked at
    routes = [(route.method, route.resource.canonical) for app in apps for route in app.router.routes()]
    others = {f"{method} {path}" for method, path in routes if method not in {"HEAD", "*"}}
    checks = {f"POST /providers/{{id}}/v1/{path}" for path in CHECKS}
    assert len(others) > 10
    assert (public | others | checks) - told == set()


def test_every_event_type_is_told():
    """The table of events has each type that admission, the direct route and the feed make."""
    told = {row[0].strip("`") for row in pages.rows(STATUS, "## Events")[1:]}
    assert told == {kind.value for kind in EffectType} | {*get_args(DirectType), "gap"}


def test_every_field_of_an_event_is_told():
    """The page names each key of an event's data."""
    assert set(Event(1, 0.0, "queued").data()) - pages.spans(STATUS) == set()


@pytest.mark.parametrize(
    ("record", "prefix"),
    [
        (EdgeFacts, "edge."),
        (ConfigFacts, "config."),
        (snapshots.Totals, ""),
        (snapshots.ProviderSnapshot, ""),
        (snapshots.ModelSnapshot, ""),
        (snapshots.Anomalies, ""),
        (TurnedAwayEntry, ""),
    ],
)
def test_every_field_of_the_status_is_told(record, prefix):
    """The page names each key of the status records."""
    assert {f"{prefix}{field.name}" for field in fields(record)} - pages.spans(STATUS) == set()


def test_every_state_is_told():
    """The page names each state of a node and of a provider."""
    states = {*map(str, snapshots.ProviderState), *map(str, snapshots.NodeState)}
    assert states - pages.spans(STATUS) == set()


def test_the_simulators_counters_are_told():
    """The page names what `GET /stats` tells."""
    assert all(f'"{field.name}"' in HTTP for field in fields(Stats))


def test_every_exit_code_is_told():
    """The table of exit codes has each code, once."""
    wanted = sorted(value for name, value in vars(config_refresh).items() if name.startswith("EXIT_"))
    assert (
        [int(row[0]) for row in pages.rows(CODES, "# Exit codes") if row[0].isdigit()] == wanted == [0, 1, 2, 3, 4, 5]
    )


def verbs(parser, path=""):
    """Every (verb, option) below a parser; verbs without an option too."""
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for name, inner in action.choices.items():
                yield f"{path} {name}".strip(), None
                yield from verbs(inner, f"{path} {name}".strip())
        else:
            yield from ((path, option) for option in action.option_strings if option.startswith("--"))


@pytest.mark.parametrize(
    ("program", "parser"),
    [
        ("edge", edge._parser()),
        ("iop-node", node._parser()),
        ("iop-control", control._parser()),
        ("iop-simulator", simulator._parser()),
    ],
    ids=["edge", "iop-node", "iop-control", "iop-simulator"],
)
def test_every_verb_and_option_is_told(program, parser):
    """The page of commands names each verb in its program's section, and each option somewhere."""
    section = CLI[CLI.index(f"## {program}\n") :].split("\n## ")[0]
    for verb, option in verbs(parser):
        if option is None:
            assert verb == "config" or re.search(rf"`{program}( --config F)? {verb}\b", section), verb
        else:
            assert option in CLI, option


def test_every_helper_target_and_task_is_told():
    """The page of commands names the release helper's verbs, make targets, fab tasks and the inventory's options."""
    assert {name for name, *_ in release._COMMANDS} - pages.spans(CLI) == set()
    assert {name for name in pages.make_targets() if f"`make {name}`" not in CLI} == set()
    assert {name for name in pages.fab_tasks() if f"`fab {name}" not in CLI} == set()
    options = re.findall(r"addoption\(\s*\"(--[a-z-]+)\"", pages.text_of("smoke/conftest.py"))
    assert len(options) >= 2
    assert {option for option in ("--operator", *options) if option not in CLI} == set()
