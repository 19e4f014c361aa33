"""A stand-in for the Codex CLI as a target, and what it was asked."""

import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from iop.link.messages import CliTarget

CAPTURES = Path(__file__).parent.parent / "captures" / "codex"
PROGRAM = (sys.executable, "-I", "-S", str(Path(__file__).with_name("codex_program.py")))

#: the beginning of every app-server transcript: up to a turn that has started
OPENING = (
    '> {"method": "initialize"}',
    '{"id":1,"result":{"userAgent":"iop/0.171.0"}}',
    '> {"method": "initialized"}',
    '> {"method": "thread/start"}',
    '{"id":2,"result":{"thread":{"id":"t1"}}}',
    '> {"method": "turn/start"}',
    '{"id":3,"result":{"turn":{"id":"u1","status":"inProgress"}}}',
)
COMPLETED = '{"method":"turn/completed","params":{"turn":{"id":"u1","status":"completed","error":null}}}'


def delta(text: str, item: str = "m1") -> str:
    """A line of an app-server transcript: text of a message."""
    return json.dumps({"method": "item/agentMessage/delta", "params": {"itemId": item, "delta": text}})


@dataclass(frozen=True)
class FakeCodex:
    """A stand-in in a folder of its own. `app_server` and `exec` are names of captures, or lines."""

    folder: Path
    app_server: str | Sequence[str] | None = None
    exec: str | Sequence[str] | None = None
    needs_login: bool = False

    def target(self, *further: str, **fields: Any) -> CliTarget:
        """Return the target `t`; `further` words belong to the operator's command."""
        env = {"FAKE_LOG": str(self.folder / "log"), **fields.pop("env", {})}
        for name, transcript in (("FAKE_APP_SERVER", self.app_server), ("FAKE_EXEC", self.exec)):
            if transcript is not None:
                env[name] = str(self._file(name, transcript))
        if self.needs_login:
            env["FAKE_LOGIN"] = str(self.login_file)
        return CliTarget(name="t", kind="codex", command=(*PROGRAM, *further), env=env, **fields)

    @property
    def login_file(self) -> Path:
        """Its presence means logged in."""
        return self.folder / "login"

    def log(self) -> list[dict[str, Any]]:
        """Return what it was asked, in order."""
        path = self.folder / "log"
        return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()] if path.exists() else []

    def got(self, method: str) -> list[dict[str, Any]]:
        """Return the messages of a method."""
        return [entry["got"] for entry in self.log() if entry.get("got", {}).get("method") == method]

    def _file(self, name: str, transcript: str | Sequence[str]) -> Path:
        if isinstance(transcript, str):
            return CAPTURES / f"{transcript}.jsonl"
        path = self.folder / f"{name}.jsonl"
        path.write_text("\n".join(transcript) + "\n", encoding="utf-8")
        return path
