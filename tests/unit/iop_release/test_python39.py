"""iop_release runs on hosts before anything is installed: old syntax, standard library only."""

import ast
from pathlib import Path

import iop_release

FOLDER = Path(iop_release.__file__).parent


def test_the_helper_parses_on_python_3_9() -> None:
    """No module needs newer syntax, and annotations are never evaluated."""
    for path in FOLDER.rglob("*.py"):
        text = path.read_text(encoding="utf-8")
        ast.parse(text, str(path), feature_version=(3, 9))
        if " | None" in text:
            assert "from __future__ import annotations" in text, path
