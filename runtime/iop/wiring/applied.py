"""What this Edge applied last, noted beside its config, so that a start can tell when the file is another one.

The note is `<config>.applied`: JSON with the SHA-256 of the text, the path it came from and the time. It holds no
secret, and the Edge runs without it too.
"""

import json
import logging
import os
from dataclasses import dataclass
from pathlib import Path

from iop.domain.times import iso_utc
from iop.edge.status import ConfigFacts

_log = logging.getLogger(__name__)

SUFFIX = ".applied"


@dataclass(frozen=True, slots=True)
class Applied:
    """One applied text: SHA-256 of its bytes, the absolute path it came from, the time as ISO text."""

    sha256: str
    source: str
    at: str


class AppliedNote:
    """The note beside the config file `config`."""

    def __init__(self, config: Path) -> None:
        self._config = config
        self._path = config.with_name(config.name + SUFFIX)

    def read(self) -> Applied | None:
        """The last note; None when there is none, or none that can be read."""
        try:
            told = json.loads(self._path.read_bytes())
            return Applied(str(told["sha256"]), str(told["source"]), str(told["at"]))
        except FileNotFoundError:
            return None
        except (OSError, ValueError, KeyError, TypeError) as error:
            _log.warning("%s cannot be read (%s); it is written anew", self._path, error)
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
        """Note what is in force now. A folder that cannot be written costs the note, never the config."""
        note = {"sha256": facts.sha256, "source": facts.source, "at": iso_utc(facts.applied_at)}
        fresh = self._path.with_name(f".{self._path.name}.{os.getpid()}")
        try:
            fresh.write_text(json.dumps(note) + "\n", encoding="utf-8")
            fresh.replace(self._path)
        except OSError as error:
            _log.warning("cannot write %s (%s): the next start cannot tell whether the file changed", self._path, error)
