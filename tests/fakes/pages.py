"""Reading the repository's Markdown in tests: links, headings, commands."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
_FENCE = re.compile(r"^(```|~~~)", re.MULTILINE)
_LINK = re.compile(r"(?<!!)\[[^\]]*\]\(([^)\s]+)\)")


def markdown() -> list[Path]:
    """Every page of the project."""
    folders = [path for name in ("docs", "agent-test") for path in (ROOT / name).rglob("*.md")]
    return sorted([*ROOT.glob("*.md"), *folders])


def text_of(name: str) -> str:
    """A file of the project, by its path from the root."""
    return (ROOT / name).read_text(encoding="utf-8")


def links(page: Path) -> list[str]:
    """Targets of the inline links of a page, code left out."""
    return _LINK.findall(re.sub(r"`[^`\n]*`", "", _prose(page)))


def anchors(page: Path) -> set[str]:
    """The anchors that a page's headings make, as GitHub spells them."""
    heads = re.findall(r"^#+ (.+)$", _prose(page), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", head.lower()).replace(" ", "-") for head in heads}


def commands(page: Path) -> Iterator[str]:
    """Command lines in the code of a page: indented or fenced, lines that go on joined, pipes and lists cut apart."""
    fenced = False
    code = []
    for line in page.read_text(encoding="utf-8").splitlines():
        if _FENCE.match(line):
            fenced = not fenced
        elif fenced or line.startswith("    "):
            code.append(line.strip())
    for line in "\n".join(code).replace("\\\n", " ").splitlines():
        plain = line.split("  #")[0]
        yield from (part.strip() for part in re.split(r"\|\|?|&&|; |\bdo\b", plain) if part.strip())


def spans(text: str) -> set[str]:
    """Everything that stands in backticks."""
    return set(re.findall(r"`([^`\n]+)`", text))


def rows(text: str, heading: str) -> list[list[str]]:
    """The rows of all tables below a heading, up to the next heading of its level or a higher one."""
    level = heading.split(" ", maxsplit=1)[0]
    start = text.index(f"{heading}\n") + len(heading)
    end = re.search(rf"^#{{1,{len(level)}}} ", text[start:], re.MULTILINE)
    section = text[start : start + end.start()] if end else text[start:]
    lines = [line for line in section.splitlines() if line.startswith("|") and not line.startswith("|---")]
    return [[cell.strip() for cell in re.split(r"(?<!\\)\|", line.strip("|"))] for line in lines]


def make_targets() -> set[str]:
    """The targets of the Makefile."""
    makefile = text_of("Makefile")
    return {name for line in re.findall(r"^([a-z][a-z -]*):(?!=)", makefile, re.MULTILINE) for name in line.split()}


def fab_tasks() -> set[str]:
    """The tasks of the fabfile."""
    tree = ast.parse(text_of("fabfile.py"))
    return {
        node.name
        for node in tree.body
        if isinstance(node, ast.FunctionDef) and any("task" in ast.unparse(mark) for mark in node.decorator_list)
    }


def _prose(page: Path) -> str:
    text = page.read_text(encoding="utf-8")
    return re.sub(r"^(```|~~~).*?^\1", "", text, flags=re.MULTILINE | re.DOTALL)
