"""The files of a run for people, and how many runs are kept."""

import re
import shutil
from collections.abc import Mapping
from pathlib import Path

from smoke import page, report
from smoke.judgement import Judgement

#: runs whose folders stay; older ones are removed when a new run begins
KEPT_RUNS = 20
_RUN = re.compile(r"\d{8}T\d{6}-\d+")


def write(folder: Path, judgement: Judgement, outcomes: Mapping[str, str], line: str) -> Path:
    """Write `report.md` and `report.html` into the run's folder; return the latter. Raises OSError."""
    text = "\n".join(report.lines(folder.name, judgement, outcomes, line)) + "\n"
    (folder / "report.md").write_text(text, encoding="utf-8")
    path = folder / "report.html"
    path.write_text(page.html(folder.name, judgement, outcomes, line), encoding="utf-8")
    return path


def prune(parent: Path, keep: int = KEPT_RUNS) -> list[str]:
    """Remove the oldest run folders but `keep`; return their names. What no run has made is left alone."""
    runs = sorted(one.name for one in parent.iterdir() if _RUN.fullmatch(one.name) and not one.is_symlink())
    gone = runs[:-keep] if keep else runs
    for name in gone:
        shutil.rmtree(parent / name, ignore_errors=True)
    return gone
