"""The house rules that no library checks: sizes, purity, import-time effects, one test file per module."""

import ast
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = ("runtime/iop", "runtime/iop_release", "runtime/iop_trust")
PURE = ("domain", "link", "openai")
MAX_FILE, MAX_TEST_FILE, MAX_BODY, MAX_PARAMETERS = 300, 500, 50, 6
BROAD_EXCEPT_ALLOWED = {"runtime/iop/transport/http_border.py", "runtime/iop/wiring/serve.py"}
TASK_ALLOWED = {"runtime/iop/transport/tasks.py"}

#: file -> reason; empty is the aim
TOO_LONG_ALLOWED: dict[str, str] = {}
#: modules without a test file of their own -> reason
UNTESTED_ALLOWED: dict[str, str] = {}


def _tracked() -> list[Path]:
    """Files git knows or would add: ignored ones (build, .venv) are nobody's business here."""
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    names = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout.split("\0")
    return sorted(path for name in names if name and (path := ROOT / name).is_file())


def _modules() -> list[Path]:
    return sorted(p for package in PACKAGES for p in (ROOT / package).rglob("*.py"))


def _rel(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def _faults(path: Path) -> Iterator[str]:
    text = path.read_text(encoding="utf-8")
    tree = ast.parse(text)
    rel = _rel(path)
    lines = text.count("\n")
    if lines > MAX_FILE and rel not in TOO_LONG_ALLOWED:
        yield f"{rel}:1: {lines} lines, at most {MAX_FILE}"
    if path.name == "__init__.py" and path.parent.name not in {"iop", "iop_release", "iop_trust"} and text.strip():
        yield f"{rel}:1: a package __init__ is empty"
    yield from (f"{rel}:{s.lineno}: import-time effect" for s in tree.body if not _is_definition(s))
    for node in ast.walk(tree):
        yield from (f"{rel}:{what}" for what in _node_faults(node, rel))


def _is_definition(node: ast.stmt) -> bool:
    if isinstance(node, ast.Expr):
        return isinstance(node.value, ast.Constant)
    if isinstance(node, ast.If):  # `if __name__ == "__main__"`, `if TYPE_CHECKING`, `if sys.platform == ...`
        return any(word in ast.dump(node.test) for word in ("__name__", "TYPE_CHECKING", "platform"))
    kinds = (ast.Import, ast.ImportFrom, ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Assign, ast.AnnAssign)
    return isinstance(node, kinds)


def _node_faults(node: ast.AST, rel: str) -> Iterator[str]:
    pure = rel.startswith(tuple(f"runtime/iop/{floor}/" for floor in PURE))
    if isinstance(node, ast.Global):
        yield f"{node.lineno}: global statement"
    if isinstance(node, ast.ImportFrom) and any(a.name == "*" for a in node.names):
        yield f"{node.lineno}: star import"
    if pure and isinstance(node, ast.AsyncFunctionDef | ast.Await | ast.AsyncFor | ast.AsyncWith):
        yield f"{node.lineno}: async on a pure floor"
    if isinstance(node, ast.ExceptHandler) and rel not in BROAD_EXCEPT_ALLOWED and _is_broad(node):
        yield f"{node.lineno}: broad except that does not re-raise"
    if isinstance(node, ast.Attribute) and _starts_a_task(node) and rel not in TASK_ALLOWED:
        yield f"{node.lineno}: a task outside of TaskSet"
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
        yield from _function_faults(node)


def _starts_a_task(node: ast.Attribute) -> bool:
    in_a_group = isinstance(node.value, ast.Name) and node.value.id == "group"  # asyncio.TaskGroup() as group
    return node.attr in {"create_task", "ensure_future"} and not in_a_group


def _is_broad(node: ast.ExceptHandler) -> bool:
    names = {getattr(node.type, "id", None)} if node.type is not None else {"BaseException"}
    if not names & {"Exception", "BaseException"}:
        return False
    last = node.body[-1]
    return not (isinstance(last, ast.Raise) and last.exc is None)


def _function_faults(node: ast.FunctionDef | ast.AsyncFunctionDef) -> Iterator[str]:
    documented = ast.get_docstring(node) is not None and len(node.body) > 1
    first = node.body[1].lineno if documented else node.body[0].lineno
    body = (node.end_lineno or first) - first + 1
    if body > MAX_BODY:
        yield f"{node.lineno}: the body of {node.name} has {body} lines, at most {MAX_BODY}"
    names = [a.arg for a in (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs)]
    count = len([n for n in names if n not in {"self", "cls"}])
    if count > MAX_PARAMETERS:
        yield f"{node.lineno}: {node.name} has {count} parameters, at most {MAX_PARAMETERS}"


@pytest.mark.parametrize("path", _modules(), ids=_rel)
def test_module_keeps_the_house_rules(path: Path) -> None:
    """Each module is short, effect-free at import and keeps broad excepts and tasks to their places."""
    assert list(_faults(path)) == []


def test_every_module_has_its_test_file() -> None:
    """tests/unit mirrors the packages: iop/a/b.py is tested by tests/unit/a/test_b.py."""
    missing = []
    for path in _modules():
        rel = _rel(path)
        if path.name in {"__init__.py", "__main__.py"} or rel in UNTESTED_ALLOWED:
            continue
        parts = path.relative_to(ROOT / "runtime").parts
        folder = ROOT / "tests" / "unit" / Path(*(parts[1:-1] if parts[0] == "iop" else parts[:-1]))
        if not (folder / f"test_{path.stem}.py").exists():
            missing.append(rel)

    assert missing == []


def test_test_files_stay_short_and_say_what_they_prove() -> None:
    """Test files have at most 500 lines and every test has a docstring of its own."""
    faults = []
    for path in sorted((ROOT / "tests").rglob("test_*.py")):
        text = path.read_text(encoding="utf-8")
        if text.count("\n") > MAX_TEST_FILE:
            faults.append(f"{_rel(path)}: {text.count(chr(10))} lines")
        tests = (
            n
            for n in ast.walk(ast.parse(text))
            if isinstance(n, ast.FunctionDef | ast.AsyncFunctionDef) and n.name.startswith("test_")
        )
        faults += [f"{_rel(path)}:{n.lineno}: {n.name} has no docstring" for n in tests if not ast.get_docstring(n)]

    assert faults == []


def test_the_top_level_holds_the_eight_entries() -> None:
    """The card's top level: seven folders and pyproject.toml, no ninth entry but root files and hidden ones."""
    folders = {path.relative_to(ROOT).parts[0] for path in _tracked() if len(path.relative_to(ROOT).parts) > 1}
    visible = {name for name in folders if not name.startswith(".")}

    assert visible == {"runtime", "playbooks", "inventory", "smoke", "tests", "docs", "agent-test"}
    assert (ROOT / "pyproject.toml").is_file()


def test_nothing_committed_names_a_machine_or_a_registry() -> None:
    """No path of a developer's machine and no host of a package registry stands in the repository."""
    registries = ["pypi." + "org", "pythonhosted" + ".org", "npmjs" + ".org"]
    words = ["/wo" + "rk/main", ".." + "/shared", ".libr" + "ary/", *registries]
    hits = []
    for path in _tracked():
        text = path.read_bytes().decode("utf-8", errors="replace")
        hits += [f"{_rel(path)}: {word}" for word in words if word in text]

    assert hits == []
