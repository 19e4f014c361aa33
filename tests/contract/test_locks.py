"""runtime/locks: for each platform and Python that we name, every dependency has a wheel that such a host takes."""

import re
import tomllib
from pathlib import Path

import pytest
from packaging.markers import default_environment
from packaging.requirements import Requirement
from packaging.tags import Tag, compatible_tags, cpython_tags, mac_platforms
from packaging.utils import canonicalize_name, parse_wheel_filename

from iop_release.targets import MINORS, WHEEL_TAGS, Target

ROOT = Path(__file__).resolve().parents[2]
LOCKS = ROOT / "runtime" / "locks"
LINE = re.compile(r"(?P<name>[\w.-]+)==(?P<version>\S+) --hash=sha256:[0-9a-f]{64}  # (?P<wheel>\S+\.whl)")
TARGETS = [Target(platform, minor) for platform in WHEEL_TAGS for minor in MINORS]
MARKERS = {
    "linux-arm64": {"sys_platform": "linux", "platform_machine": "aarch64", "platform_system": "Linux"},
    "linux-x86_64": {"sys_platform": "linux", "platform_machine": "x86_64", "platform_system": "Linux"},
    "macos-arm64": {"sys_platform": "darwin", "platform_machine": "arm64", "platform_system": "Darwin"},
    "windows-amd64": {"sys_platform": "win32", "platform_machine": "AMD64", "platform_system": "Windows"},
}


def _tags(target: Target) -> set[Tag]:
    platforms = list(WHEEL_TAGS[target.platform])
    if target.platform == "macos-arm64":
        platforms = list(mac_platforms((11, 0), "arm64"))
    version = tuple(map(int, target.minor.split(".")))
    abi = f"cp{target.minor.replace('.', '')}"
    return {*cpython_tags(version, [abi], platforms), *compatible_tags(version, abi, platforms)}


def _locked(target: Target) -> dict[str, tuple[str, str]]:
    lines = (LOCKS / f"{target.name}.txt").read_text(encoding="utf-8").splitlines()
    found = [LINE.fullmatch(line) for line in lines]
    assert all(found), "every line is name==version --hash --# wheel"
    return {canonicalize_name(one["name"]): (one["version"], one["wheel"]) for one in found if one}


def test_there_is_a_lock_for_each_target_and_no_other() -> None:
    """Platforms and Pythons in the code are those of the folder."""
    assert {path.stem for path in LOCKS.glob("*.txt")} == {target.name for target in TARGETS}


@pytest.mark.parametrize("target", TARGETS, ids=lambda target: target.name)
def test_every_locked_wheel_fits_its_target(target: Target) -> None:
    """Name and version are those of the line, and one of the wheel's tags is one that the host takes."""
    takes = _tags(target)
    for name, (version, wheel) in _locked(target).items():
        wheel_name, wheel_version, _, tags = parse_wheel_filename(wheel)
        assert (wheel_name, str(wheel_version)) == (name, version)
        assert tags & takes, f"{wheel} does not fit {target.words}"


@pytest.mark.parametrize("target", TARGETS, ids=lambda target: target.name)
def test_every_dependency_is_locked(target: Target) -> None:
    """What pyproject.toml asks for on such a host is there in a version that it allows, and pip to install it with."""
    locked = _locked(target)
    environment = {**default_environment(), **MARKERS[target.platform], "python_version": target.minor}
    wanted = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["dependencies"]
    for requirement in map(Requirement, [*wanted, *(LOCKS / "installer.in").read_text().splitlines()]):
        if requirement.marker is None or requirement.marker.evaluate(environment):
            assert requirement.specifier.contains(locked[canonicalize_name(requirement.name)][0]), requirement
        else:
            assert canonicalize_name(requirement.name) not in locked
