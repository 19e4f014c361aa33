"""A YAML file as data with positions: what the reader hands to the checks."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from iop.config.findings import Finding, Severity

Path = tuple[str | int, ...]
Position = tuple[int, int]
Tree: TypeAlias = "dict[str, Tree] | list[Tree] | str | int | float | bool | Odd | None"


@dataclass(frozen=True, slots=True)
class Odd:
    """A plain scalar that YAML 1.1 reads as something nobody meant: a date, base 60, octal, an underscored number."""

    text: str
    reading: str


def dotted(path: Path) -> str:
    """Write a path as people do: `nodes[0].providers[1].capacity`."""
    text = ""
    for part in path:
        text += f"[{part}]" if isinstance(part, int) else f".{part}" if text else part
    return text


@dataclass(frozen=True, slots=True)
class Document:
    """The tree (dict, list, str, int, float, bool, None, Odd), the line and column of each key and value, and the text
    of each unquoted scalar that YAML did not read as a string.
    """

    file: str
    data: Tree
    keys: Mapping[Path, Position] = field(default_factory=dict)
    values: Mapping[Path, Position] = field(default_factory=dict)
    plain: Mapping[Path, str] = field(default_factory=dict)

    def at(self, path: Path, *, key: bool = False) -> Position:
        """Line and column of the value (or key) at `path`, else of its nearest known parent."""
        table = self.keys if key else self.values
        if path in table:
            return table[path]
        for end in range(len(path) - 1, -1, -1):
            parent = path[:end]
            if parent in self.keys:
                return self.keys[parent]
            if parent in self.values:
                return self.values[parent]
        return (1, 1)

    def finding(
        self, severity: Severity, code: str, path: Path, message: str, hint: str = "", *, key: bool = False
    ) -> Finding:
        """Make a finding at `path`; `key=True` points at the key instead of its value."""
        line, column = self.at(path, key=key)
        return Finding(
            severity=severity,
            code=code,
            file=self.file,
            line=line,
            column=column,
            path=dotted(path),
            message=message,
            hint=hint,
        )


@dataclass(frozen=True, slots=True)
class View:
    """One place of a document, read tolerantly: what is missing or of another type is None or empty.

    The rules look through views, so that they find what they can in a file whose structure has faults elsewhere.
    """

    document: Document
    path: Path = ()
    data: Tree = None

    def child(self, name: str) -> "View":
        """The place under a key."""
        data = self.data.get(name) if isinstance(self.data, dict) else None
        return View(self.document, (*self.path, name), data)

    def items(self, name: str) -> list["View"]:
        """The entries of the list under a key."""
        child = self.child(name)
        entries = child.data if isinstance(child.data, list) else []
        return [View(self.document, (*child.path, index), entry) for index, entry in enumerate(entries)]

    def pairs(self, name: str) -> list[tuple[str, "View"]]:
        """The keys of the mapping under a key, each with its place."""
        child = self.child(name)
        return [(key, child.child(key)) for key in child.data] if isinstance(child.data, dict) else []

    def text(self, name: str) -> str | None:
        """The string under a key."""
        value = self.child(name).data
        return value if isinstance(value, str) else None

    def integer(self, name: str) -> int | None:
        """The integer under a key."""
        value = self.child(name).data
        return value if isinstance(value, int) and not isinstance(value, bool) else None

    def error(self, code: str, message: str, hint: str = "", *, key: bool = False) -> Finding:
        """An error at this place."""
        return self.document.finding("error", code, self.path, message, hint, key=key)

    def warning(self, code: str, message: str, hint: str = "", *, key: bool = False) -> Finding:
        """A warning at this place."""
        return self.document.finding("warning", code, self.path, message, hint, key=key)
