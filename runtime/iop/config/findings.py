"""What a config check found: one frozen record per finding, with its place in the file and a next step."""

from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Literal

Severity = Literal["error", "warning"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One finding. `line` and `column` count from 1; `path` is like `nodes[0].providers[1].capacity`.

    Neither `message` nor `hint` ever repeats a secret.
    """

    severity: Severity
    code: str
    file: str
    line: int
    column: int
    path: str
    message: str
    hint: str = ""

    def __str__(self) -> str:
        where = f" {self.path}" if self.path else ""
        hint = f" ({self.hint})" if self.hint else ""
        text = f"{self.file}:{self.line}:{self.column}: {self.severity} {self.code}{where}: {self.message}{hint}"
        return "".join(c if c.isprintable() else repr(c)[1:-1] for c in text)

    def as_json(self) -> dict[str, str | int]:
        """The finding in the JSON shape of the interface page."""
        return asdict(self)


def in_order(findings: Iterable[Finding]) -> tuple[Finding, ...]:
    """Sort by place in the file, errors before warnings, each finding once."""
    unique = set(findings)
    return tuple(sorted(unique, key=lambda f: (f.file, f.line, f.column, f.severity, f.code, f.path, f.message)))


def has_errors(findings: Iterable[Finding]) -> bool:
    """True when any finding is an error; warnings do not fail a check."""
    return any(finding.severity == "error" for finding in findings)
