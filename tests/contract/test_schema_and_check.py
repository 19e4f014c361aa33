"""The JSON Schema that editors use and `config check` say the same of the files that are shipped and of typos."""

import json
import re

import jinja2
import jsonschema
import pytest
import yaml

from iop.commands.inventory import derived
from iop.config.inventory import load_inventory
from iop.config.inventory_engines import KINDS
from iop.config.load import read_edge
from iop.config.models import EdgeConfig
from iop.config.schema import edge_schema
from tests.fakes import pages
from tests.fakes.config_files import EDGE, changed
from tests.fakes.config_keys import keys
from tests.fakes.edge_under_test import config

SCHEMA = edge_schema()
VALIDATOR = jsonschema.Draft202012Validator(SCHEMA)


def to_yaml(value, **options):
    """Ansible's filter of this name."""
    return yaml.dump(value, allow_unicode=True, **options)


def rendered(inventory, kind):
    """The edge.yaml that a deploy of an environment writes."""
    engine = jinja2.Environment(trim_blocks=True, keep_trailing_newline=True)  # as Ansible sets it
    engine.filters |= {"to_yaml": to_yaml, "regex_replace": lambda text, old, new: re.sub(old, new, text)}
    told = {"iop_env": derived(inventory), "engine_kind": kind}
    if kind == "external":
        told |= {"iop_engine_url": "http://127.0.0.1:8002/v1", "iop_engine_model": "a-model"}
    template = pages.text_of("playbooks/roles/preflight/templates/edge.yaml.j2").replace(
        "\\.", "\\\\."
    )  # as Ansible does
    return engine.from_string(template).render(**told)


def on_the_page():
    """The smallest edge.yaml of the configuration page."""
    page = pages.text_of("docs/reference/configuration.md").split("    # edge.yaml\n")[1].split("    # node.yaml")[0]
    return "\n".join(line[4:] for line in page.splitlines())


def accepts(text):
    """True when the schema accepts the file."""
    return VALIDATOR.is_valid(yaml.safe_load(text))


def test_the_schema_is_a_valid_schema():
    """The meta-schema of its draft accepts it."""
    VALIDATOR.check_schema(SCHEMA)


@pytest.mark.parametrize("target", ["dev", "local"])
def test_the_config_of_every_environment_passes(target):
    """What a deploy renders, for each kind of engine, has no finding at all, and the schema accepts it."""
    inventory = load_inventory(target, pages.ROOT)
    for kind in KINDS:
        text = rendered(inventory, kind)
        assert read_edge(text, source="/cfg/edge.yaml").findings == ()
        assert accepts(text), list(VALIDATOR.iter_errors(yaml.safe_load(text)))


@pytest.mark.parametrize("text", [EDGE, on_the_page(), json.dumps(config())], ids=["interface", "page", "tests"])
def test_the_smallest_files_pass(text):
    """The schema and the check accept the smallest complete files."""
    assert read_edge(text, source="/cfg/edge.yaml").ok
    assert accepts(text)


@pytest.mark.parametrize(
    "swap",
    [
        ("capacity: 3", "capcity: 3"),
        ("capacity: 3", "capacity: 0"),
        ("capacity: 3", 'capacity: "3"'),
        ("capacity: 3", "capacity: true"),
        ("capacity: 3", "capacity: 3.5"),
        ("capacity: 3", "capacity: 3, on_disconnect: stop"),
        ("category: local_inference", "category: local"),
        ("type: other", "type: vLLM"),
        ("edge: {id: edge-test}", "edge: {id: edge test}"),
        ("edge: {id: edge-test}", "edge: {id: edge-test}\nauthh: {}"),
        ("edge: {id: edge-test}", "edge: {id: edge-test}\nauth: {api_keys: [{name: a, sha256: secret}]}"),
        ("edge: {id: edge-test}", "edge: {id: edge-test}\nqueue: {max_wait: 90}"),
        ("edge: {id: edge-test}", "edge: {id: edge-test}\nqueue: {max_bytes: 5MB}"),
        ("edge: {id: edge-test}\n", ""),
        ("enabled: true, provider", "enabld: true, provider"),
        ("http://127.0.0.1:8002/v1", "127.0.0.1:8002"),
        ("http://127.0.0.1:8002/v1", "http://ann:pw@127.0.0.1:8002/v1"),
        ("{p1: engine-model}", "{}"),
        ("{p1: engine-model}", "{p1: engine-model}, direct: {node: n1, adapter: cli, target: echo}"),
        ("adapter: cli", "adapter: e1"),
    ],
)
def test_what_the_schema_can_see_it_refuses_as_the_check_does(swap):
    """Typos, wrong types and wrong values are red in an editor, and errors of the check."""
    text = changed(swap)
    assert not read_edge(text, source="/cfg/edge.yaml").ok
    assert not accepts(text)


def test_every_key_is_described():
    """A person in an editor reads what each key is for."""
    sections = [SCHEMA, *SCHEMA["$defs"].values()]
    silent = [f"{one['title']}.{key}" for one in sections for key, of in one["properties"].items() if not described(of)]
    assert silent == []


def described(key):
    """True when the key's own place in the schema has a description."""
    return len(key.get("description", "")) > 10


def test_every_default_is_told():
    """A key that may be left out has its default in the schema, as people write it."""
    sections = {one["title"]: one for one in (SCHEMA, *SCHEMA["$defs"].values())}
    for path, model, name in keys(EdgeConfig):
        field = model.model_fields[name]
        told = sections[model.__name__]["properties"][name]
        assert field.is_required() or "default" in told or field.default_factory is dict, path


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        ("simulator", {"mac-mlx-vllm": "cancel", "gx10-vllm": "cancel", "onexplayer-lemonade": "cancel_streams"}),
        ("own", {"mac-mlx-vllm": "cancel", "gx10-vllm": "cancel", "onexplayer-lemonade": "cancel_streams"}),
        ("llama", dict.fromkeys(("mac-mlx-vllm", "gx10-vllm", "onexplayer-lemonade"), "cancel_streams")),
    ],
)
def test_how_an_engine_is_left_is_the_inventorys_word_for_the_engines_that_it_declares(kind, expected):
    """`on_disconnect` is that of the inventory; what stands in for the declared engines is left carefully."""
    nodes = yaml.safe_load(rendered(load_inventory("dev", pages.ROOT), kind))["nodes"]
    assert {one["id"]: one.get("on_disconnect", "cancel") for node in nodes for one in node["providers"]} == expected
