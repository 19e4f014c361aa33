"""The documents agree: one picture of the environment, no left-over of the old one, links and commands that exist."""

import re
import shlex
import tomllib
from pathlib import Path
from urllib.parse import urlsplit

import pytest
import yaml

from iop.config.inventory import load_inventory
from iop.config.inventory_picture import operator_yaml, picture_line
from tests.fakes import pages

PICTURE = "3 connected nodes, 3 provider candidates, the mac node has CLI + MLX provider resource"
OPERATOR_DOCUMENTS = (
    *(
        f"agent-test/dev/{name}"
        for name in (
            "inventory.yaml",
            "rules.md",
            "deploy.md",
            "edge-smoke.md",
            "node-smoke.md",
            "platform-common-smoke.md",
        )
    ),
    *(f"agent-test/local/{name}" for name in ("edge-smoke.md", "node-smoke.md", "platform-common-smoke.md")),
    "docs/edge-local-dev-guide.md",
    "docs/reference/edge-node-runtime-wire.md",
    "docs/reference/edge-config-runtime-refresh.md",
)
LEFT_OVERS = re.compile(
    r"4-node|\b4 nodes|four nodes|mac-mlx-vllm-node|node-mac-mlx-vllm|connected non-candidate"
    # the same in Korean, for README.ko.md: 4 nodes, in digits and words; connected, but no candidate
    r"|(?:(?<!\d)4|네)\s?(?:개|대)?의?\s?노드|노드[가는이]?\s?(?:4|네)\s?(?:개|대)|비후보|후보가 아닌",
    re.IGNORECASE,
)
#: the page for those who come from the old picture, and the line that recognises it
LEFT_OVERS_ALLOWED = {"docs/how-to/migrate.md", "runtime/iop_release/preflight.py"}
SCANNED = ("docs", "agent-test", "inventory", "playbooks", "smoke", "runtime")
ROOT_FILES = (
    "README.md",
    "README.ko.md",
    "CONTRIBUTING.md",
    "CHANGELOG.md",
    "Makefile",
    "fabfile.py",
    "ansible.cfg",
    "pyproject.toml",
)


@pytest.fixture(scope="module")
def inventory():
    """The dev environment; Ansible reads it, which takes a second."""
    return load_inventory("dev", pages.ROOT)


def plain(name):
    """A document's text with line ends and comment marks inside sentences taken out."""
    return " ".join(re.sub(r"^# ", "", pages.text_of(name), flags=re.MULTILINE).split())


@pytest.mark.parametrize("name", OPERATOR_DOCUMENTS)
def test_every_operator_document_shows_the_picture(name):
    """Each document that an operator reads exists and says the same sentence about the environment."""
    assert PICTURE in plain(name)


def test_the_picture_is_that_of_the_inventory(inventory):
    """The sentence, and the operators' inventory, are made from inventory/dev (`make operator-inventory`)."""
    assert picture_line(inventory) == PICTURE
    assert pages.text_of("agent-test/dev/inventory.yaml") == operator_yaml(inventory)


def test_the_target_shape_of_the_mac_is_in_the_inventory():
    """The operators' inventory has one mac node with CLI and MLX provider, and ten slots in all."""
    tree = yaml.safe_load(pages.text_of("agent-test/dev/inventory.yaml"))
    (mac,) = (host for host in tree["hosts"] if host["name"] == "mac")
    assert (mac["node_id"], mac["cli_targets"]) == ("mac-codex-node", ["codex"])
    assert [(p["id"], p["type"], p["capacity"]) for p in mac["providers"]] == [("mac-mlx-vllm", "vllm-mlx", 3)]
    assert tree["expected"] == {"connected_nodes": 3, "provider_candidates": 3, "capacity": 10, "burst": 11}


def scanned_files():
    """Every text file that a user or operator meets, by its path from the root."""
    for folder in SCANNED:
        for path in sorted((pages.ROOT / folder).rglob("*")):
            if path.is_file() and "__pycache__" not in path.parts and path.suffix not in {".pyc", ".png"}:
                yield path.relative_to(pages.ROOT).as_posix()
    yield from ROOT_FILES


def test_nothing_is_left_of_the_old_picture():
    """No file speaks of four nodes or of the Mac's second node, but the page and the line that recognise it."""
    found = [
        f"{name}:{number}: {line.strip()[:80]}"
        for name in scanned_files()
        if name not in LEFT_OVERS_ALLOWED
        for number, line in enumerate(pages.text_of(name).splitlines(), 1)
        if LEFT_OVERS.search(line)
    ]
    assert found == []


def test_the_old_picture_is_recognised_where_it_may_be_named():
    """The allowed files do name it: an entry that is no longer needed goes."""
    assert all(LEFT_OVERS.search(pages.text_of(name)) for name in LEFT_OVERS_ALLOWED)


def test_relative_links_lead_somewhere():
    """Each relative link in each page names a file that exists, and a heading that it has."""
    broken = []
    for page in pages.markdown():
        for link in pages.links(page):
            parts = urlsplit(link)
            if parts.scheme:
                continue
            target = (page.parent / parts.path).resolve() if parts.path else page
            if not target.exists() or (parts.fragment and parts.fragment not in pages.anchors(target)):
                broken.append(f"{page.relative_to(pages.ROOT)}: {link}")
    assert broken == []


def test_the_paths_that_pages_name_exist():
    """A file or folder of the project in backticks is there, so that a page does not outlive what it points to."""
    tops = ("runtime/", "tests/", "playbooks/", "inventory/", "smoke/", "docs/", "agent-test/", ".ci/")
    missing = [
        f"{page.relative_to(pages.ROOT)}: {span}"
        for page in pages.markdown()
        for span in sorted(pages.spans(page.read_text(encoding="utf-8")))
        if span.startswith(tops) and re.fullmatch(r"[\w./-]+", span) and not (pages.ROOT / span).exists()
    ]
    assert missing == []


def test_every_page_can_be_found():
    """Each page is linked from another one."""
    linked = {
        (page.parent / urlsplit(link).path).resolve()
        for page in pages.markdown()
        for link in pages.links(page)
        if not urlsplit(link).scheme and urlsplit(link).path
    }
    assert set(pages.markdown()) - linked == set()


SCRIPTS = set(tomllib.loads(pages.text_of("pyproject.toml"))["project"]["scripts"])
HOSTS = {path.name for path in (pages.ROOT / "inventory" / "dev" / "host_vars").iterdir()}
PORTS = {18001, 18083, 18084, 19093, 28001, 28083, 28084, 28093}


def _is_host(words):
    """Whether a task that wants a host is given one of ours, or the word that stands for one."""
    of_a_host = words[0] in {"logs", "drain", "undrain"}
    return not of_a_host or (len(words) > 1 and words[1] in {"HOST", *HOSTS})


def fault(command):
    """What is wrong with a command line of a page, or None."""
    words = [word for word in shlex.split(command) if not re.fullmatch(r"[A-Z_]+=.*", word)]
    program, rest = Path(words[0]).name, words[1:]
    if program == "make":
        targets = [word for word in rest if re.fullmatch(r"[a-z][a-z-]*", word)]
        return None if targets and set(targets) <= pages.make_targets() else f"no such target: {command}"
    if program == "ansible-playbook":
        return None if all((pages.ROOT / word).is_file() for word in rest if word.endswith(".yml")) else command
    if program == "pytest":
        return None if (pages.ROOT / rest[0]).exists() else f"no such folder: {command}"
    if program == "fab":
        return None if rest and rest[0] in pages.fab_tasks() and _is_host(rest) else f"no such task or host: {command}"
    return None if program in SCRIPTS else f"no such program: {command}"


#: the commands that are ours to judge
COMMAND = re.compile(r"^(make|ansible-playbook|pytest|fab|(build/\S+/bin/)?(edge|iop-[a-z]+))( |$)")


@pytest.mark.parametrize("page", [page.relative_to(pages.ROOT).as_posix() for page in pages.markdown()])
def test_the_commands_of_a_page_exist(page):
    """Make targets, playbooks, fab tasks, folders and programs in a page's code are there."""
    found = [line for line in pages.commands(pages.ROOT / page) if COMMAND.match(line)]
    assert [wrong for line in found if (wrong := fault(line)) is not None] == []


@pytest.mark.parametrize("page", [page.relative_to(pages.ROOT).as_posix() for page in pages.markdown()])
def test_the_ports_of_a_page_are_those_of_an_environment(page):
    """Addresses of iop's own ports in a page are those of the dev or the local inventory."""
    found = {int(port) for port in re.findall(r"127\.0\.0\.1:(\d{5})", pages.text_of(page))}
    assert found - PORTS - {11434, 28000} == set()


def test_the_readme_names_the_four_uses_word_for_word():
    """The two commands and the four uses stand in the README as they are typed."""
    lines = {line.strip().split("  ")[0] for line in pages.text_of("README.md").splitlines()}
    uses = {
        "make dev",
        "make test",
        "ansible-playbook playbooks/dev-runtime.yml",
        "pytest smoke/ --target dev",
        "fab status",
    }
    assert uses <= lines


def test_the_python_of_the_pages_compiles_and_names_what_is_deployed(inventory):
    """Each Python example is valid, talks to the dev OpenAI port and asks for a deployed model."""
    models = {model.id for model in inventory.models}
    examples = [
        code
        for page in pages.markdown()
        for code in re.findall(r"```python\n(.*?)```", page.read_text(encoding="utf-8"), re.DOTALL)
    ]
    assert len(examples) >= 2
    for code in examples:
        compile(code, "example", "exec")
        assert f'base_url="{inventory.openai_url}"' in code
        assert set(re.findall(r'model="([^"]+)"', code)) <= models


def test_every_dependency_has_its_line_and_its_reason():
    """Each package of pyproject.toml stands in the page of dependencies."""
    project = tomllib.loads(pages.text_of("pyproject.toml"))["project"]
    wanted = [*project["dependencies"], *(one for extra in project["optional-dependencies"].values() for one in extra)]
    names = {re.split(r"[<>=;\[ ]", one)[0].lower() for one in wanted}
    page = pages.text_of("docs/explanation/dependencies.md")
    told = {row[0].lower() for row in pages.rows(page, "# Dependencies") if len(row) == 2 and row[1]}
    assert names - told == set()
