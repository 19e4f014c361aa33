"""Field case B76: an asynchronous fixture that several tests share names its event loop."""

import ast
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def test_the_loops_are_pinned() -> None:
    """The settings name one scope for fixtures, so that another version of the plugin changes nothing."""
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["pytest"]["ini_options"]
    assert settings["asyncio_default_fixture_loop_scope"] == "function"


def test_a_shared_fixture_names_its_loop() -> None:
    """Its scope is that of its loop; without that word it would be bound to a loop that its second test is not on."""
    found = []
    for folder in ("tests", "smoke"):
        for path in sorted((ROOT / folder).rglob("*.py")):
            tree = ast.parse(path.read_text(encoding="utf-8"))
            found += [f"{path.relative_to(ROOT)}:{line}" for line in _unbound(tree)]
    assert found == []


def test_this_test_can_fail() -> None:
    """The look above sees what it should."""
    lines = []
    for words in (
        "",
        "(scope='session')",
        "(scope='module', loop_scope='session')",
        "(scope='module', loop_scope='module')",
    ):
        lines += [f"@pytest_asyncio.fixture{words}", "async def one(): ..."]
    assert _unbound(ast.parse("\n".join(lines))) == [4, 6]


def _unbound(tree: ast.AST) -> list[int]:
    functions = [node for node in ast.walk(tree) if isinstance(node, ast.AsyncFunctionDef)]
    return [node.lineno for node in functions if any(map(_differs, node.decorator_list))]


def _differs(decorator: ast.expr) -> bool:
    if not isinstance(decorator, ast.Call):
        return False
    words = {word.arg: getattr(word.value, "value", None) for word in decorator.keywords}
    return "scope" in words and words["scope"] != words.get("loop_scope", "function")
