"""The index leads to every page, the README's commands are there, and troubleshooting knows every error and state."""

import re
from urllib.parse import urlsplit

from iop.domain import errors, snapshots
from iop.edge.links import _MESSAGES
from tests.fakes import pages

INDEX = pages.ROOT / "docs" / "README.md"
TROUBLE = pages.text_of("docs/how-to/troubleshoot.md")


def targets(page):
    """The pages that a page links to."""
    paths = [urlsplit(link).path for link in pages.links(page) if not urlsplit(link).scheme]
    return {(page.parent / path).resolve() for path in paths if path.endswith(".md")}


def test_every_page_is_reached_from_the_index():
    """Whoever starts at docs/README.md and follows links comes to every page of docs/; the README names the index."""
    seen, open_ends = set(), {INDEX}
    while open_ends:
        page = open_ends.pop()
        seen.add(page)
        open_ends |= targets(page) - seen
    docs = {page for page in pages.markdown() if page.is_relative_to(INDEX.parent)}
    assert docs - seen == set()
    assert INDEX in targets(pages.ROOT / "README.md")


def test_the_index_itself_names_each_page():
    """Tutorials, how-tos, reference and explanation are one link away; decisions have an index of their own."""
    folders = ("tutorials", "how-to", "reference", "explanation")
    wanted = {page for page in pages.markdown() if page.parent.name in folders}
    assert len(wanted) > 30
    assert wanted - targets(INDEX) == set()


def test_the_decisions_are_in_their_index():
    """Each decision has its row."""
    folder = INDEX.parent / "decisions"
    assert {page for page in pages.markdown() if page.parent == folder} - targets(folder / "README.md") == {
        folder / "README.md"
    }


def test_the_files_that_the_readme_runs_exist():
    """What a command of the README names by path is a file of the project, or made below build/."""
    words = {word for command in pages.commands(pages.ROOT / "README.md") for word in command.split()}
    paths = {word for word in words if (pages.ROOT / word.partition("/")[0]).is_dir() and "/" in word}
    assert {"playbooks/dev-runtime.yml", "smoke/"} <= paths
    assert {path for path in paths if not path.startswith("build/") and not (pages.ROOT / path).exists()} == set()


def test_troubleshooting_knows_every_code_and_state():
    """Each error code, each reason to turn a node away and each state of a provider that is not `ready` has its row."""
    outline = re.findall(r"^ {6}\w+ +\d{3} +([a-z_ ]+)$", errors.__doc__, re.MULTILINE)
    codes = {code for line in outline for code in line.split()}
    assert len(codes) > 15
    assert codes - pages.spans(TROUBLE) == set()
    assert {code for code in _MESSAGES if f"turned this node away: {code}" not in TROUBLE} == set()
    assert {state.value for state in snapshots.ProviderState} - {"ready"} - pages.spans(TROUBLE) == set()


def test_every_picture_is_there_and_said_in_words():
    """Each picture of a page is a file beside it, with a text for those who do not see it."""
    found = [
        (page, text, target)
        for page in pages.markdown()
        for text, target in re.findall(r"!\[([^\]]*)\]\(([^)]+)\)", page.read_text(encoding="utf-8"))
    ]
    assert found
    assert [
        f"{page}: {target}" for page, text, target in found if not text or not (page.parent / target).is_file()
    ] == []


def test_contributing_names_each_suite():
    """Each make target that tests has its row for those who change something."""
    told = pages.spans(pages.text_of("CONTRIBUTING.md"))
    suites = {name for name in pages.make_targets() if name.startswith("test")}
    assert len(suites) > 5
    assert {name for name in suites if f"make {name}" not in told} == set()
