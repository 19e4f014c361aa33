"""The catalogue of mutants keeps up with the machine; whether each is killed is the business of `make mutants`."""

from pathlib import Path

import pytest

from tests.mutants.catalogue import MUTANTS, Mutant

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_each_mutant_can_be_made(mutant: Mutant) -> None:
    """Its text stands exactly once in its file, and the change is still Python."""
    text = (ROOT / mutant.file).read_text(encoding="utf-8")
    assert text.count(mutant.before) == 1
    compile(text.replace(mutant.before, mutant.after), mutant.file, "exec")


def test_each_mutant_is_told_with_its_killer() -> None:
    """The page on the law lists them all, in the catalogue's order."""
    page = (ROOT / "docs/explanation/capacity-and-the-law.md").read_text(encoding="utf-8")
    rows = [line.split("|")[1].strip() for line in page.splitlines() if line.startswith("|") and "test_" in line]
    assert rows == [mutant.name for mutant in MUTANTS]
