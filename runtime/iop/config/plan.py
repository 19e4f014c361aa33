"""What a refresh would do: the running config against a candidate, as a list of changes and of what needs a restart.

Entries of lists are matched by their id (or name), so order alone is no change. Values of secrets and of agents'
environment variables are never shown.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from iop.config.models import EdgeConfig

ChangeKind = Literal["added", "removed", "resized", "rerouted", "changed"]

_OPENED = "the socket is opened at start"
#: fields that are fixed for the life of the process, each with its reason; a prefix stands for all that is below it
RESTART_REASONS: tuple[tuple[str, str], ...] = (
    ("edge.id", "the id names this Edge in every status and answer for the life of the process"),
    ("listen.openai", _OPENED),
    ("listen.nodes", _OPENED),
    ("listen.admin", _OPENED),
    ("tls.openai", "certificates are read when the socket is opened"),
    ("tls.nodes", "certificates are read when the socket is opened"),
    ("tls.admin", "certificates are read when the socket is opened"),
    ("auth.admin_token_file", "the admin token is read at start"),
    ("http.allowed_hosts", "the accepted names are read when the sockets are opened"),
    ("link.dead_after", "the links' deadline is set when the link socket is opened"),
    ("link.insecure", "whether the link may leave loopback is decided when its socket is opened"),
)
_RESIZED = re.compile(r"nodes\[[^\]]*\]\.providers\[[^\]]*\]\.capacity")
_REROUTED = re.compile(r"models\[.*\]\.(providers(\[[^\]]*\])?|direct(\..*)?)")
_HIDDEN_KEYS = frozenset({"sha256", "token_sha256"})
_HIDDEN = "(hidden)"


@dataclass(frozen=True, slots=True)
class Change:
    """One difference. `path` is like `nodes[mac-codex-node].providers[mac-mlx-vllm].capacity`.

    `from_` and `to` are JSON values, written as the config does; None = not there.
    """

    kind: ChangeKind
    path: str
    from_: object
    to: object

    def as_json(self) -> dict[str, object]:
        """The change in the JSON shape of the interface page."""
        return {"kind": self.kind, "path": self.path, "from": self.from_, "to": self.to}


@dataclass(frozen=True, slots=True)
class RestartRequired:
    """A changed field that cannot be applied live, and why."""

    path: str
    reason: str

    def as_json(self) -> dict[str, str]:
        """The entry in the JSON shape of the interface page."""
        return {"path": self.path, "reason": self.reason}


@dataclass(frozen=True, slots=True)
class Plan:
    """Every difference, in the order of the file; `restart_required` repeats those that cannot be applied live."""

    changes: tuple[Change, ...]
    restart_required: tuple[RestartRequired, ...]


def plan(old: EdgeConfig, new: EdgeConfig) -> Plan:
    """Compare two checked configs."""
    changes = tuple(_walk("", old.model_dump(mode="json"), new.model_dump(mode="json")))
    restart = (RestartRequired(change.path, reason) for change in changes if (reason := _reason(change.path)))
    return Plan(changes, tuple(restart))


def _reason(path: str) -> str | None:
    for field, reason in RESTART_REASONS:
        if path == field or path.startswith((f"{field}.", f"{field}[")):
            return reason
    return None


def _walk(path: str, old: object, new: object) -> Iterator[Change]:
    if old == new:
        return
    olds, news = _named(path, old), _named(path, new)
    if olds is not None and news is not None:
        yield from _entries(path, olds, news)
    elif isinstance(old, dict) and isinstance(new, dict) and not path.endswith(".env"):
        for name in old:
            yield from _walk(f"{path}.{name}" if path else name, old[name], new[name])
    else:
        yield Change(_kind(path), path, _shown(path, old), _shown(path, new))


def _entries(path: str, olds: Mapping[str, Any], news: Mapping[str, Any]) -> Iterator[Change]:
    """Named entries: gone ones first, then new and changed ones in the order of the candidate."""
    for name, entry in olds.items():
        if name not in news:
            yield from _whole("removed", f"{path}[{name}]", entry)
    for name, entry in news.items():
        if name not in olds:
            yield from _whole("added", f"{path}[{name}]", entry)
        else:
            yield from _walk(f"{path}[{name}]", olds[name], entry)


def _whole(kind: ChangeKind, path: str, entry: object) -> Iterator[Change]:
    """An entry that came or went; a node's providers are told one by one."""
    if isinstance(entry, dict) and "providers" in entry and path.startswith("nodes["):
        providers = _named(path, entry["providers"]) or {}
        entry = {name: value for name, value in entry.items() if name != "providers"}
    else:
        providers = {}
    shown = _shown(path, entry)
    if kind == "added":
        yield Change(_kind(path, kind), path, None, shown)
    else:
        yield Change(_kind(path, kind), path, shown, None)
    for name, provider in providers.items():
        yield from _whole(kind, f"{path}.providers[{name}]", provider)


def _named(path: str, value: object) -> dict[str, Any] | None:
    """Entries by their name: a list of mappings with id or name, or a mapping whose keys people chose; else None."""
    if isinstance(value, dict):
        return value if path.endswith((".targets", ".providers")) else None
    if isinstance(value, list) and all(isinstance(entry, dict) for entry in value):
        return {entry.get("id") or entry["name"]: entry for entry in value}
    return None


def _kind(path: str, otherwise: ChangeKind = "changed") -> ChangeKind:
    if _RESIZED.fullmatch(path):
        return "resized"
    if _REROUTED.fullmatch(path):
        return "rerouted"
    return otherwise


def _shown(path: str, value: object) -> object:
    """The value without what must not be shown."""
    last = path.rsplit(".", 1)[-1]
    if last in _HIDDEN_KEYS and value is not None:
        return _HIDDEN
    if last == "env" and isinstance(value, dict):
        return dict.fromkeys(value, _HIDDEN)
    if isinstance(value, dict):
        return {name: _shown(f"{path}.{name}", inner) for name, inner in value.items()}
    return value
