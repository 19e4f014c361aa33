"""Texts of Windows' scheduled tasks. Not registered on a real Windows: their structure is checked by tests."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

from iop_release.errors import ReleaseError
from iop_release.services.templates_of import filled

LOCAL_SERVICE = "S-1-5-19"  # in every language of Windows


@dataclass(frozen=True)
class Task:
    """One task that starts at boot and runs `arguments` of cmd.exe as `user` (a name or a security id)."""

    description: str
    user: str
    root: str
    arguments: str

    def text(self) -> str:
        """The task's XML. Its description ends with a digest of the rest, by which a registered task is known."""
        plain = self._filled(self.description)
        return self._filled(f"{self.description}; definition {hashlib.sha256(plain.encode()).hexdigest()[:16]}")

    def _filled(self, description: str) -> str:
        values = {"description": description, "user": self.user, "root": self.root, "arguments": self.arguments}
        return filled("windows.xml", values)


def running(launcher: str) -> str:
    """cmd.exe's arguments for a batch file. Raises `ReleaseError` for a path that cmd.exe would change."""
    if any(char in launcher for char in '%"\r\n'):
        raise ReleaseError(f"a scheduled task cannot start {launcher!r}", "choose a plainer folder")
    return f'/d /c ""{launcher}""'


def mark_of(text: str) -> str:
    """The digest in a task's XML, as `Task.text` wrote it."""
    return text.partition("; definition ")[2][:16]
