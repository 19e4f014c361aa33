"""What this Edge applied last, noted as `<config>.applied`, so that a start can tell when the file is another one.

The note holds the SHA-256 of the text, the path it came from and the time.
"""

import logging
import os
from dataclasses import dataclass
from pathlib import Path

from iop.domain.times import iso_utc
from iop.edge.status import ConfigFacts
from iop.wiring.notes import Note, note_path

_log = logging.getLogger(__name__)

SUFFIX = ".applied"


@dataclass(frozen=True, slots=True)
class Applied:
    """One applied text: SHA-256 of its bytes, the absolute path it came from, the time as ISO text."""

    sha256: str
    source: str
    at: str


class AppliedNote:
    """The note of the config file `config`."""

    def __init__(self, config: Path) -> None:
        self._config = config
        path = note_path(config, SUFFIX, os.environ)
        self._note = Note(path, "the next start cannot tell whether the file changed")

    def read(self) -> Applied | None:
        """The last note; None when there is none, or none that can be read."""
        told = self._note.read()
        if told is None:
            return None
        try:
            return Applied(str(told["sha256"]), str(told["source"]), str(told["at"]))
        except KeyError as error:
            self._note.broken(error)
            return None

    def warn_if_other(self, starting: ConfigFacts) -> None:
        """Say so when the text that this start takes is not the one that was applied last."""
        last = self.read()
        if last is None or last.sha256 == starting.sha256:
            return
        _log.warning(
            "%s is not what was last applied: that was %s with sha256 %.12s at %s, this start takes sha256 %.12s. "
            "Nothing to do if the file was edited since; otherwise apply the other one again with config refresh",
            self._config, last.source, last.sha256, last.at, starting.sha256,
        )  # fmt: skip

    def write(self, facts: ConfigFacts) -> None:
        """Note what is in force now."""
        self._note.write({"sha256": facts.sha256, "source": facts.source, "at": iso_utc(facts.applied_at)})
