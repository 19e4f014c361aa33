"""iop_release.build: wheel, wheelhouse, manifest, once per commit."""

from collections.abc import Sequence
from pathlib import Path

import pytest

from iop_release import build
from iop_release.errors import ReleaseError
from iop_release.manifest import Manifest
from tests.fakes.git_repository import commit


class Tools:
    """Stands in for hatchling and pip: writes the files that they would, and counts."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.calls: list[str] = []
        self.epochs: list[str] = []
        monkeypatch.setattr(build, "run", self.run)

    def run(self, command: Sequence[str], *, folder: Path, env: dict[str, str] | None = None) -> str:
        """Write a wheel, or a wheelhouse with pip in it."""
        self.calls.append(command[2])
        target = Path(command[command.index("-d") + 1])
        if command[2] == "hatchling":
            assert env is not None
            self.epochs.append(env["SOURCE_DATE_EPOCH"])
            (target / "iop_runtime-0.1.0-py3-none-any.whl").write_bytes((folder / "code").read_bytes())
        else:
            assert "--require-hashes" in command
            (target / "pip-1-py3-none-any.whl").write_bytes(b"pip")
        return ""


@pytest.fixture
def tools(monkeypatch: pytest.MonkeyPatch) -> Tools:
    """The stand-ins, in place."""
    return Tools(monkeypatch)


def _source(tmp_path: Path, code: str) -> Path:
    source = tmp_path / "src"
    commit(source, code=code, **{f"runtime__locks__{build.platform_name()}.txt": "pip==1\n"})
    return source


def test_a_commit_is_built_once(tmp_path: Path, tools: Tools) -> None:
    """The second build finds the first; its manifest lists every file with its hash."""
    source, dist, cache = _source(tmp_path, "one"), tmp_path / "dist", tmp_path / "cache"

    manifest, changed = build.build(source, dist, cache)
    again, changed_again = build.build(source, dist, cache)

    assert (changed, changed_again) == (True, False)
    assert again == manifest
    assert tools.calls == ["hatchling", "pip"]
    assert manifest.release_id.startswith(manifest.commit[:7])
    assert set(manifest.files) == {manifest.wheel, "lock.txt", f"{manifest.wheelhouse}/pip-1-py3-none-any.whl"}
    Manifest.load(dist / manifest.release_id).verify(dist / manifest.release_id)


def test_new_code_is_a_new_release_with_the_same_wheelhouse(tmp_path: Path, tools: Tools) -> None:
    """Another commit builds another release; the download is not repeated for the same lock."""
    source, dist, cache = _source(tmp_path, "one"), tmp_path / "dist", tmp_path / "cache"
    first, _ = build.build(source, dist, cache)
    commit(source, code="two")

    second, changed = build.build(source, dist, cache)

    assert changed
    assert first.release_id != second.release_id
    assert tools.calls == ["hatchling", "pip", "hatchling"]
    assert sorted(path.name for path in dist.iterdir()) == sorted([first.release_id, second.release_id])


def test_a_damaged_release_is_built_again(tmp_path: Path, tools: Tools) -> None:
    """A file that is not what was built does not count as built, and half-made folders are no hindrance."""
    source, dist, cache = _source(tmp_path, "one"), tmp_path / "dist", tmp_path / "cache"
    manifest, _ = build.build(source, dist, cache)
    (dist / manifest.release_id / manifest.wheel).write_bytes(b"damaged")
    (dist / ".building").mkdir()

    again, changed = build.build(source, dist, cache)

    assert changed
    assert again == manifest


def test_a_dry_run_foresees_the_release(tmp_path: Path, tools: Tools) -> None:
    """Before the build it gives a name that says so; afterwards the release's own."""
    source, dist = _source(tmp_path, "one"), tmp_path / "dist"

    before = build.foresee(source, dist)
    manifest, _ = build.build(source, dist, tmp_path / "cache")

    assert before["changed"] is True
    assert str(before["release_id"]).endswith("-unbuilt")
    assert build.foresee(source, dist) == {"changed": False, "release_id": manifest.release_id}


def test_a_platform_without_a_lock_is_named(tmp_path: Path) -> None:
    """The message names the missing lock and how to make it."""
    source = tmp_path / "src"
    commit(source, code="one")

    with pytest.raises(ReleaseError, match=r"(?s)no lock for this machine.*make locks"):
        build.build(source, tmp_path / "dist", tmp_path / "cache")
