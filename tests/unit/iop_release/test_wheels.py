"""iop_release.wheels: a wheelhouse holds exactly what its lock names."""

from collections.abc import Sequence
from pathlib import Path

import pytest

from iop_release import wheels
from iop_release.errors import ReleaseError
from iop_release.targets import Target

TARGET = Target("linux-arm64", "3.12")
NAME = "pip-1-py3-none-any.whl"


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """A checkout with a lock of one wheel."""
    lock = tmp_path / "src" / wheels.LOCKS / f"{TARGET.name}.txt"
    lock.parent.mkdir(parents=True)
    lock.write_text(f"pip==1 --hash=sha256:00  # {NAME}\n", encoding="utf-8")
    return tmp_path / "src"


class Pip:
    """Stands in for pip: puts these files into the folder that it is given."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *names: str) -> None:
        self.names, self.calls = names, list[list[str]]()
        monkeypatch.setattr(wheels, "run", self.run)

    def run(self, command: Sequence[str], *, folder: Path) -> str:
        self.calls.append(list(command))
        assert folder.joinpath(command[-1]).samefile(command[-1]), "the lock is found from where pip runs"
        for name in self.names:
            (Path(command[command.index("-d") + 1]) / name).write_bytes(b"wheel")
        return ""


def test_wheels_are_downloaded_once_per_lock(tmp_path: Path, source: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The options are those of the target; the second call finds them, another lock does not."""
    pip = Pip(monkeypatch, NAME)

    monkeypatch.chdir(tmp_path)  # paths may be relative
    house = wheels.wheelhouse(Path("src"), TARGET, Path("cache"))
    again = wheels.wheelhouse(source, TARGET, tmp_path / "cache")
    lock = wheels.lock_of(source, TARGET)
    lock.write_text(lock.read_text(encoding="utf-8").replace("00", "11"), encoding="utf-8")
    other = wheels.wheelhouse(source, TARGET, tmp_path / "cache", patient=False)

    assert house == again != other
    assert [path.name for path in house.iterdir()] == [NAME]
    assert len(pip.calls) == 2
    assert "--platform=manylinux_2_28_aarch64" in pip.calls[0]
    assert ("--retries=1" in pip.calls[0], "--retries=1" in pip.calls[1]) == (False, True)


@pytest.mark.parametrize("names", [(), (NAME, "more-1-py3-none-any.whl")])
def test_other_wheels_than_the_locked_are_refused(
    tmp_path: Path, source: Path, monkeypatch: pytest.MonkeyPatch, names: tuple[str, ...]
) -> None:
    """Neither a lacking nor a further file becomes a wheelhouse."""
    Pip(monkeypatch, *names)

    with pytest.raises(ReleaseError, match=r"are not those of linux-arm64-py3\.12\.txt"):
        wheels.wheelhouse(source, TARGET, tmp_path / "cache")
    assert not list((tmp_path / "cache").glob("*/wheelhouse*"))


def test_a_target_without_a_lock_is_named(tmp_path: Path, source: Path) -> None:
    """The message says which lock is missing."""
    with pytest.raises(ReleaseError, match=r"(?s)no lock for windows-amd64 with Python 3\.15: .*make locks"):
        wheels.lock_of(source, Target("windows-amd64", "3.15"))
