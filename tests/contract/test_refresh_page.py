"""The refresh contract page says what the code does."""

import re
from pathlib import Path

from iop.commands import config_refresh
from iop.config.plan import RESTART_REASONS

PAGE = (Path(__file__).parents[2] / "docs" / "reference" / "edge-config-runtime-refresh.md").read_text(encoding="utf-8")


def rows(heading):
    """Read the table below a heading as pairs of its first two columns."""
    section = PAGE.split(f"\n## {heading}\n")[1].split("\n## ")[0]
    return [tuple(cell.strip() for cell in line.strip("|").split("|")) for line in section.splitlines() if "|" in line]


def test_the_page_names_every_field_that_needs_a_restart_with_its_reason():
    """The table of fields and reasons is the code's."""
    told = {
        (field, reason) for fields, reason in rows("Restart required")[2:] for field in re.findall(r"`([^`]+)`", fields)
    }
    assert told == set(RESTART_REASONS)


def test_the_page_names_every_exit_code():
    """The table of exit codes has each code of the command, once."""
    codes = {value for name, value in vars(config_refresh).items() if name.startswith("EXIT_")}
    told = [int(row[0]) for row in rows("Command") if row[0].isdigit()]
    assert sorted(codes) == told


def test_the_page_says_where_capacity_lives():
    """Provider capacity is the admission source, node-wide concurrency is legacy metadata."""
    assert "`nodes[].runtime.concurrency` is legacy/compat metadata" in PAGE
