"""iop_release.build: wheel, wheelhouse, manifest, once per commit."""

from collections.abc import Sequence
from pathlib import Path

import pytest

from iop_release import build, wheels
from iop_release.errors import ReleaseError
from iop_release.manifest import Manifest
from iop_release.targets import Target
from tests.fakes.git_repository import commit

HERE = Target.here()
OTHER = Target("windows-amd64" if HERE.platform != "windows-amd64" else "linux-arm64", "3.12")
PIP = "pip-1-py3-none-any.whl"


class Tools:
    """Stands in for hatchling and pip: writes the files that they would, and counts."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.calls: list[str] = []
        self.epochs: list[str] = []
        self.offline = False
        monkeypatch.setattr(build, "run", self.run)
        monkeypatch.setattr(wheels, "run", self.run)

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
            if self.offline:
                raise ReleaseError("pip … failed with exit code 1:\nERROR: no network")
            (target / PIP).write_bytes(b"pip")
        return ""


@pytest.fixture
def tools(monkeypatch: pytest.MonkeyPatch) -> Tools:
    """The stand-ins, in place."""
    return Tools(monkeypatch)


def _source(tmp_path: Path, code: str) -> Path:
    source = tmp_path / "src"
    locks = {f"runtime__locks__{one.name}.txt": f"pip==1 # {PIP}\n# {one.name}\n" for one in (HERE, OTHER)}
    commit(source, code=code, **locks)
    return source


def test_a_commit_is_built_once(tmp_path: Path, tools: Tools) -> None:
    """The second build finds the first; its manifest lists every file with its hash."""
    source, dist, cache = _source(tmp_path, "one"), tmp_path / "dist", tmp_path / "cache"

    manifest, changed, notes = build.build(source, dist, cache)
    again, changed_again, _ = build.build(source, dist, cache)

    assert (changed, changed_again, notes) == (True, False, [])
    assert again == manifest
    assert tools.calls == ["pip", "hatchling"]
    assert manifest.release_id.startswith(manifest.commit[:7])
    assert set(manifest.files) == {manifest.wheel, HERE.lock, f"{HERE.wheelhouse}/{PIP}"}
    Manifest.load(dist / manifest.release_id).verify(dist / manifest.release_id)


def test_new_code_is_a_new_release_with_the_same_wheelhouse(tmp_path: Path, tools: Tools) -> None:
    """Another commit builds another release; the download is not repeated for the same lock."""
    source, dist, cache = _source(tmp_path, "one"), tmp_path / "dist", tmp_path / "cache"
    first, _, _ = build.build(source, dist, cache)
    commit(source, code="two")

    second, changed, _ = build.build(source, dist, cache)

    assert changed
    assert first.release_id != second.release_id
    assert tools.calls == ["pip", "hatchling", "hatchling"]
    assert sorted(path.name for path in dist.iterdir()) == sorted([first.release_id, second.release_id])


def test_a_damaged_release_is_built_again(tmp_path: Path, tools: Tools) -> None:
    """A file that is not what was built does not count as built, and half-made folders are no hindrance."""
    source, dist, cache = _source(tmp_path, "one"), tmp_path / "dist", tmp_path / "cache"
    manifest, _, _ = build.build(source, dist, cache)
    (dist / manifest.release_id / manifest.wheel).write_bytes(b"damaged")
    (dist / ".building").mkdir()

    again, changed, _ = build.build(source, dist, cache)

    assert changed
    assert again == manifest


def test_a_dry_run_foresees_the_release(tmp_path: Path, tools: Tools) -> None:
    """Before the build it gives a name that says so; afterwards the release's own."""
    source, dist = _source(tmp_path, "one"), tmp_path / "dist"

    before = build.foresee(source, dist)
    manifest, _, _ = build.build(source, dist, tmp_path / "cache")

    assert before["changed"] is True
    assert str(before["release_id"]).endswith("-unbuilt")
    assert build.foresee(source, dist) == {"changed": False, "release_id": manifest.release_id}


def test_a_platform_without_a_lock_is_named(tmp_path: Path) -> None:
    """The message names the missing lock and how to make it."""
    source = tmp_path / "src"
    commit(source, code="one")

    with pytest.raises(ReleaseError, match=r"(?s)no lock for .*make locks"):
        build.build(source, tmp_path / "dist", tmp_path / "cache")


def test_a_target_is_added_to_a_built_release(tmp_path: Path, tools: Tools) -> None:
    """The id stays: it tells code and locks. The zip of the platform holds what such a host needs, and no more."""
    source, dist, cache = _source(tmp_path, "one"), tmp_path / "dist", tmp_path / "cache"
    first, _, _ = build.build(source, dist, cache)
    wanted = build.Wanted((OTHER,))

    foreseen = build.foresee(source, dist, wanted)
    second, changed, _ = build.build(source, dist, cache, wanted)
    third, changed_again, _ = build.build(source, dist, cache, wanted)

    assert foreseen == {"changed": True, "release_id": first.release_id}
    assert build.foresee(source, dist, wanted)["changed"] is False
    assert (changed, changed_again, third) == (True, False, second)
    assert second.release_id == first.release_id
    assert second.targets == tuple(sorted((HERE.name, OTHER.name)))
    folder = dist / second.release_id
    second.verify(folder)
    inside = Manifest.load(folder / f"iop-node-{OTHER.platform}.zip")
    assert inside.targets == (OTHER.name,)
    assert second.zips.keys() == {OTHER.platform}
    assert tools.calls == ["pip", "hatchling", "pip"]


def test_all_at_once_gives_the_same_release(tmp_path: Path, tools: Tools) -> None:
    """Whatever the order of building, id, files and zips are the same to the byte."""
    source, wanted = _source(tmp_path, "one"), build.Wanted((HERE,), (OTHER,))
    bit_by_bit, cache = tmp_path / "a", tmp_path / "cache"
    build.build(source, bit_by_bit, cache)
    build.build(source, bit_by_bit, cache, build.Wanted((OTHER,)))

    first, _, _ = build.build(source, bit_by_bit, cache, wanted)
    second, _, _ = build.build(source, tmp_path / "b", tmp_path / "other-cache", wanted)

    assert first == second
    assert second.zips.keys() == {HERE.platform, OTHER.platform}


def test_without_a_network_what_may_lack_is_left_out(tmp_path: Path, tools: Tools) -> None:
    """The release is built for this machine, the note says what is not there and why; later it is added."""
    source, dist, cache = _source(tmp_path, "one"), tmp_path / "dist", tmp_path / "cache"
    first, _, _ = build.build(source, dist, cache)
    tools.offline = True

    same, changed, [note] = build.build(source, dist, cache, build.Wanted((), (OTHER,)))
    with pytest.raises(ReleaseError, match="no network"):
        build.build(source, dist, cache, build.Wanted((OTHER,)))
    tools.offline = False
    later, added, notes = build.build(source, dist, cache, build.Wanted((), (OTHER,)))

    assert (same, changed, added, notes) == (first, False, True, [])
    assert note == f"no artefact for {OTHER.words}: its wheels could not be fetched (ERROR: no network)"
    assert OTHER.name in later.targets


def test_a_lost_zip_is_made_again(tmp_path: Path, tools: Tools) -> None:
    """It is the same to the byte."""
    source, dist, cache = _source(tmp_path, "one"), tmp_path / "dist", tmp_path / "cache"
    manifest, _, _ = build.build(source, dist, cache, build.Wanted((OTHER,)))
    (dist / manifest.release_id / f"iop-node-{OTHER.platform}.zip").unlink()

    again, changed, _ = build.build(source, dist, cache, build.Wanted((OTHER,)))

    assert (again, changed) == (manifest, True)


def test_a_commit_that_cannot_be_built_says_what_comes_next(tmp_path: Path) -> None:
    """The builder's own words, where to look, and the next command; nothing is left in its place."""
    source = tmp_path / "src"
    commit(source, **{"pyproject.toml": "[build-system"})

    with pytest.raises(ReleaseError) as caught:
        build._wheel(source, tmp_path)

    text = str(caught.value)
    assert text.startswith(f"the commit cannot be built from {source}/pyproject.toml, and nothing was changed: ")
    assert text.splitlines()[-1].strip() == "next: correct it, commit, and run the deploy again"
