"""The drill's fixture: one case with its evidence in build/lab-drill/<case>/, and the table at the end."""

import shutil
import time
from collections.abc import Generator, Iterator
from pathlib import Path

import pytest

from tests.lab.drill.case import Drill
from tests.lab.lab import ROOT
from tests.lab.site import LabSite

EVIDENCE = ROOT / "build" / "lab-drill"
ROWS = pytest.StashKey[dict[str, list[str]]]()


@pytest.fixture
def drill(site: LabSite, request: pytest.FixtureRequest) -> Iterator[Drill]:
    """A case on the site that all cases share; whatever it did, every fault is undone and what was seen is kept."""
    name = request.node.name.removeprefix("test_").replace("[", "-").replace("]", "")
    folder = EVIDENCE / name
    shutil.rmtree(folder, ignore_errors=True)
    case = Drill(site, name, folder)
    row = [name, "", "", "no"]
    request.config.stash.setdefault(ROWS, {})[request.node.nodeid] = row
    try:
        yield case
    finally:
        site.lab.repair()
        site.git("reset", "-q", "--hard")
        case.mended()
        case.keep("edge-after.json", site.edge_status())
        case.doctor()
        row[1:3] = [case.said or "-", f"{time.monotonic() - case.began:.0f}"]


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item,
    call: pytest.CallInfo[None],
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Note whether the case went well."""
    report = yield
    row = item.config.stash.get(ROWS, {}).get(item.nodeid)
    if row is not None and report.when == "call":
        row[3] = "yes" if report.passed else "no"
    return report


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """The table: case, what happened, seconds, ok."""
    rows = list(config.stash.get(ROWS, {}).values())
    if not rows:
        return
    lines = [["case", "what happened", "seconds", "ok"], *rows]
    widths = [max(len(line[column]) for line in lines) for column in range(4)]
    text = "\n".join("  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)) for line in lines)
    terminalreporter.section("drill")
    terminalreporter.write_line(text)
    _write(EVIDENCE / "summary.txt", text)


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text + "\n", encoding="utf-8")
