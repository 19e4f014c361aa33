"""The separate build checkout: exactly one commit of another checkout, and nothing else."""

from __future__ import annotations

from pathlib import Path

from iop_release.errors import ReleaseError
from iop_release.run import git


def sync(origin: Path, checkout: Path, *, dry_run: bool = False) -> dict[str, object]:
    """Make `checkout` the HEAD of `origin`, clean; no network. Raises `ReleaseError`.

    The result names the commit and the files of `origin` that are not committed, whose code is not deployed.
    `git clean` runs in `checkout` only, which must be a checkout that this function made.
    """
    commit = git(origin, "rev-parse", "HEAD")
    result: dict[str, object] = {
        "commit": commit,
        "describe": git(origin, "describe", "--always", "--tags"),
        "uncommitted": git(origin, "status", "--porcelain").splitlines(),
    }
    changed = not _is_clean_at(checkout, commit)
    if changed and not dry_run:
        _fetch(origin, checkout, commit)
    if checkout.is_dir() and not dry_run:
        git(checkout, "clean", "-ffdxq")  # caches of test runs too; they are no change
    return {"changed": changed, **result}


def _is_clean_at(checkout: Path, commit: str) -> bool:
    if not (checkout / ".git").is_dir():
        return False
    try:
        return git(checkout, "rev-parse", "HEAD") == commit and not git(checkout, "status", "--porcelain")
    except ReleaseError:
        return False


def _fetch(origin: Path, checkout: Path, commit: str) -> None:
    if checkout.exists() and not (checkout / ".git").is_dir():
        raise ReleaseError(f"{checkout} is not a checkout of ours", "move it away; the deploy makes it anew")
    checkout.mkdir(parents=True, exist_ok=True)
    git(checkout, "init", "-q")
    for left_over in (checkout / ".git").glob("*.lock"):  # of a run that was killed; the environment's lock is held
        left_over.unlink()
    # a shallow origin may be fetched from, and its tags name the release
    git(checkout, "fetch", "-q", "--force", "--update-shallow", "--tags", str(origin), "HEAD")
    git(checkout, "checkout", "-q", "--force", "--detach", commit)
