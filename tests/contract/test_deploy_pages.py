"""The pages on inventory and playbooks name every key, variable, tag and playbook, and none that is not there."""

import re

import yaml

from iop.config.inventory import Inventory, Ports
from iop.config.inventory_hosts import CliTarget, Host, Provider
from iop.config.inventory_listing import CONNECTION
from iop.config.inventory_models import DirectRoute, Model
from tests.fakes import pages

INVENTORY = pages.text_of("docs/reference/inventory.md")
PLAYBOOKS = pages.text_of("docs/reference/playbooks.md")
FOLDER = pages.ROOT / "playbooks"
YAML = "".join(path.read_text(encoding="utf-8") for path in sorted(FOLDER.rglob("*.yml")))
#: what the inventory's reader calls otherwise, or finds by itself
SPELT = {field: key for key, field in CONNECTION.items()} | {
    "alias": "node_alias",
    "platform": "node_platform",
    "arch": "node_arch",
    "env": "deploy_env",
}
OWN = {"name", "cli_targets", "providers", "ports", "hosts", "models", "root", "edge_host", "control_host", "builder"}


def told(page, heading):
    """The keys in the first column of a section's tables."""
    return {key for row in pages.rows(page, heading)[1:] for key in re.findall(r"`([^`]+)`", row[0])}


def spelt(model, prefix=""):
    """A model's keys as the files have them."""
    return {f"{prefix}{SPELT.get(name, name)}" for name in model.model_fields if prefix or name not in OWN}


def test_every_key_of_the_inventory_is_told():
    """The page has each key that the inventory's reader takes, and in dotted form each key below a list."""
    shared = spelt(Inventory) | spelt(Ports, "ports.") | {"models[].id", "models[].providers"}
    assert set(Model.model_fields) == {"id", "providers", "direct"}
    assert (shared | spelt(DirectRoute, "models[].direct.")) - told(INVENTORY, "## The environment") == set()
    node = told(INVENTORY, "## A node")
    assert (spelt(Provider, "providers[].") | spelt(CliTarget, "cli_targets.*.")) - node == set()
    assert spelt(Host) - node - told(INVENTORY, "## How a host is reached") == set()


def test_every_key_that_is_shipped_is_told():
    """Each key of the shipped files, those that an example has commented out too, stands in the page."""
    keys = set()
    for path in (pages.ROOT / "inventory").rglob("*_vars/**/*.yml*"):
        text = path.read_text(encoding="utf-8")
        keys |= {key for key in yaml.safe_load(text) if not key.startswith("ansible_")}
        keys |= set(re.findall(r"^# ([a-z_]+): \S+$", text, re.MULTILINE))
    names = {re.split(r"[.\[]", span)[0] for span in pages.spans(INVENTORY)}
    assert {"node_id", "ssh_port", "keep_releases"} <= keys
    assert keys - names == set()


def test_every_playbook_and_tag_is_told():
    """Each playbook has its row; each tag of a playbook is in the table of tags."""
    books = {f"playbooks/{path.name}" for path in FOLDER.glob("*.yml")}
    assert told(PLAYBOOKS, "# Playbooks") >= books
    tags = set()
    for name in books:
        for found in re.findall(r"\btags: \[([^\]]*)\]", pages.text_of(name)):
            tags |= {tag.strip() for tag in found.split(",")}
    in_table = {span for row in pages.rows(PLAYBOOKS, "## Tags")[1:] for span in re.findall(r"`([a-z_]+)`", row[1])}
    assert in_table == tags - {"always"}


def test_every_variable_is_told():
    """The table has each variable that a playbook gives a default to on the spot, and none that no playbook reads."""
    in_table = {name for row in pages.rows(PLAYBOOKS, "## Variables")[1:] for name in re.findall(r"`(\w+)`", row[1])}
    playbooks = "".join(pages.text_of(f"playbooks/{path.name}") for path in FOLDER.glob("*.yml"))
    given = set(re.findall(r"\{\{ (\w+) \| default\(", playbooks)) | set(
        re.findall(r"when: (\w+) \| default", playbooks)
    )
    assert given - {"groups"} - in_table == set()
    assert len(in_table) > 15
    assert {name for name in in_table if not re.search(rf"\b{name}\b", YAML)} == set()
