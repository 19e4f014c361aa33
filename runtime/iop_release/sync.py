"""The separate build checkout: exactly one commit of another checkout, and nothing else."""

from __future__ import annotations

from pathlib import Path

from iop_release.errors import ReleaseError
from iop_release.run import git


def sync(origin: Path, checkout: Path, ref: str = "HEAD", *, dry_run: bool = False) -> dict[str, object]:
    """Make `checkout` the commit that `ref` names in `origin`, clean. Raises `ReleaseError`.

    `HEAD`, or a tag, branch or commit that `origin` has, needs no network. `REMOTE/BRANCH` is first fetched into
    `origin` from that remote. Working tree and branches of `origin` stay as they are. The result names the commit and
    the files of `origin` that are not committed, whose code is not deployed. `git clean` runs in `checkout` only, which
    must be a checkout that this function made.
    """
    commit = _commit(origin, _fetched(origin, ref) if _remote(origin, ref) else ref)
    result: dict[str, object] = {
        "commit": commit,
        "describe": git(origin, "describe", "--always", "--tags", commit),
        "uncommitted": git(origin, "status", "--porcelain").splitlines(),
        "ref": ref,
    }
    changed = not _is_clean_at(checkout, commit)
    if changed and not dry_run:
        _fetch(origin, checkout, commit)
    if checkout.is_dir() and not dry_run:
        git(checkout, "clean", "-ffdxq")  # caches of test runs too; they are no change
    return {"changed": changed, **result}


def _remote(origin: Path, ref: str) -> bool:
    """Whether this names a branch of a remote, and not something that is here already."""
    return "/" in ref and ref.partition("/")[0] in git(origin, "remote").splitlines()


def _fetched(origin: Path, ref: str) -> str:
    """The remote-tracking branch `ref`, as its remote has it now."""
    remote, _, branch = ref.partition("/")
    full = f"refs/remotes/{remote}/{branch}"
    git(origin, "fetch", "-q", "--tags", remote, f"+refs/heads/{branch}:{full}")
    return full


def _commit(origin: Path, ref: str) -> str:
    try:
        return git(origin, "rev-parse", "--verify", "--quiet", "--end-of-options", f"{ref}^{{commit}}")
    except ReleaseError as error:
        what = (
            f"{origin} has no commit {ref!r}: it takes HEAD, a tag, branch or commit of this checkout, or REMOTE/BRANCH"
        )
        raise ReleaseError(what, "git fetch --tags, or another one: -e source_ref=origin/main") from error


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
    git(checkout, "fetch", "-q", "--force", "--update-shallow", "--tags", _ANY, str(origin), commit)
    git(checkout, "checkout", "-q", "--force", "--detach", commit)


# a commit by its id, which need not be the tip of a branch; the other side is a folder of this machine
_ANY = "--upload-pack=git -c uploadpack.allowAnySHA1InWant=true upload-pack"
