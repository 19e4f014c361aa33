"""Config files from disk (or as text) to checked models, with all findings at once. The only I/O of this package.

A file that the system cannot read raises UnreadableFile; everything that is wrong *in* a file is a finding.
"""

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Generic, TypeVar

from pydantic import BaseModel

from iop.config import check, files, tls_files
from iop.config.document import Document
from iop.config.findings import Finding, has_errors, in_order
from iop.config.models import ControlConfig, EdgeConfig, NodeConfig
from iop.config.source import decode, parse
from iop.config.structure import read_model

T = TypeVar("T", bound=BaseModel)
Rules = Callable[[Document], tuple[Finding, ...]]
#: findings on files that the config names; another account, or the service itself, may see those files otherwise
ON_DISK = frozenset({"token_file", "token_file_open", "tls_file", "tls_key_open"})


class UnreadableFile(Exception):
    """The system cannot read the file: missing, a folder, no permission. Commands end with exit code 2."""


@dataclass(frozen=True, slots=True)
class Loaded(Generic[T]):
    """A file that could be read. `config` is None when any finding is an error.

    `text` is the file as it is (byte-order mark and line ends kept), `sha256` the hash of its bytes, `source` its
    absolute path.
    """

    config: T | None
    findings: tuple[Finding, ...]
    text: str
    sha256: str
    source: str

    @property
    def ok(self) -> bool:
        """True when no finding is an error."""
        return self.config is not None

    @property
    def wrong_in_itself(self) -> bool:
        """True when an error is in the text, whoever reads it and wherever; files that it names do not count."""
        return has_errors(finding for finding in self.findings if finding.code not in ON_DISK)


def load_edge(path: Path) -> Loaded[EdgeConfig]:
    """Read and check edge.yaml. Raises UnreadableFile."""
    return _load(path, EdgeConfig, check.check_edge)


def load_node(path: Path) -> Loaded[NodeConfig]:
    """Read and check node.yaml. Raises UnreadableFile."""
    return _load(path, NodeConfig, check.check_node)


def load_control(path: Path) -> Loaded[ControlConfig]:
    """Read and check control.yaml. Raises UnreadableFile."""
    return _load(path, ControlConfig, check.check_control)


def read_edge(text: str, *, source: str) -> Loaded[EdgeConfig]:
    """Check the text of an edge.yaml as if it stood at the path `source`; relative paths are taken from its folder."""
    digest = hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
    config, findings = _check(text, source, Path(source), EdgeConfig, check.check_edge)
    return Loaded(config, findings, text, digest, source)


def _load(path: Path, model: type[T], rules: Rules) -> Loaded[T]:
    try:
        raw = path.read_bytes()
    except OSError as error:
        raise UnreadableFile(f"cannot read {path}: {error.strerror or error}") from error
    absolute = path.absolute()
    digest = hashlib.sha256(raw).hexdigest()
    text, findings = decode(raw, str(path))
    if text is None:
        return Loaded(None, findings, raw.decode("utf-8", "replace"), digest, str(absolute))
    config, findings = _check(text, str(path), absolute, model, rules)
    return Loaded(config, findings, text, digest, str(absolute))


def _check(text: str, shown: str, absolute: Path, model: type[T], rules: Rules) -> tuple[T | None, tuple[Finding, ...]]:
    document, findings = parse(text, shown)
    if document is None:
        return None, in_order(findings)
    folder = absolute.parent
    config, structure = read_model(document, model, lambda name: str(folder / name))
    on_disk = (*files.check_files(document, folder), *tls_files.check_tls_files(document, folder))
    everything = in_order((*findings, *structure, *rules(document), *on_disk))
    return (None if has_errors(everything) else config), everything
