"""Run the domain's tests against each mutant: `python -m tests.mutants.run [--walk] [word …]`.

Each mutant is made in a temporary copy. It must be killed: a test must fail. `--walk` judges by the stateful walk
alone; words choose mutants by their names. The exit code is the number of survivors.
"""

import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.mutants.catalogue import MUTANTS, Mutant

ROOT = Path(__file__).resolve().parents[2]
COPIED = ("runtime/iop", "tests/fakes", "tests/unit/domain")
TESTS = "tests/unit/domain"
WALKS = ("test_walk.py", "test_stateful.py")


def main(words: list[str]) -> int:
    """Judge each chosen mutant, one line each."""
    by_walk = "--walk" in words
    chosen = [m for m in MUTANTS if not (names := set(words) - {"--walk"}) or any(word in m.name for word in names)]
    survivors = 0
    for mutant in chosen:
        killer = judge(mutant, by_walk=by_walk)
        survivors += killer is None
        sys.stdout.write(f"{mutant.name}: {'SURVIVED' if killer is None else 'killed by ' + killer}\n")
        sys.stdout.flush()
    sys.stdout.write(f"{len(chosen) - survivors} of {len(chosen)} killed\n")
    return survivors


def judge(mutant: Mutant, *, by_walk: bool) -> str | None:
    """Return the first test that fails with this mutant; None when it survives."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for part in COPIED:
            shutil.copytree(ROOT / part, folder / part, ignore=shutil.ignore_patterns("__pycache__"))
        shutil.copy(ROOT / "pyproject.toml", folder)
        target = folder / mutant.file
        text = target.read_text(encoding="utf-8")
        assert text.count(mutant.before) == 1, f"{mutant.name}: its text stands {text.count(mutant.before)} times"
        target.write_text(text.replace(mutant.before, mutant.after), encoding="utf-8")
        if by_walk:
            return _first_failure(folder, f"{TESTS}/test_stateful.py")
        quick = _first_failure(folder, TESTS, *(f"--ignore={TESTS}/{walk}" for walk in WALKS))
        return quick or _first_failure(folder, *(f"{TESTS}/{walk}" for walk in reversed(WALKS)))


def _first_failure(folder: Path, *arguments: str) -> str | None:
    command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", "--tb=no", *arguments]
    environment = {**os.environ, "PYTHONPATH": str(folder / "runtime"), "PYTHONDONTWRITEBYTECODE": "1"}
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    if done.returncode == 0:
        return None
    failed = re.search(r"^(?:FAILED|ERROR) \S*/(test_\w+\.py\S*)", done.stdout, re.MULTILINE)
    if failed is None:
        raise SystemExit(f"the tests did not run:\n{done.stdout}{done.stderr}")
    return failed[1]


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
