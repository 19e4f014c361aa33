"""What a release can be installed on: a platform and a Python minor, with their lock and their wheelhouse."""

from __future__ import annotations

import platform
import re
import sys
from dataclasses import dataclass

from iop_release.errors import ReleaseError

MINORS = ("3.11", "3.12", "3.13", "3.14")  # with a lock for each platform in runtime/locks
_GLIBC = (*(f"manylinux_2_{minor}" for minor in range(28, 4, -1)), "manylinux2014", "manylinux2010", "manylinux1")
#: per platform the wheel tags that it takes, best first; pip knows the older ones of macOS by itself
WHEEL_TAGS = {
    "linux-arm64": tuple(f"{one}_aarch64" for one in _GLIBC),
    "linux-x86_64": tuple(f"{one}_x86_64" for one in _GLIBC),
    "macos-arm64": ("macosx_11_0_arm64",),
    "windows-amd64": ("win_amd64",),
}
_SYSTEMS = {"Linux": "linux", "Darwin": "macos", "Windows": "windows"}
_MACHINES = {"x86_64": "x86_64", "AMD64": "amd64", "aarch64": "arm64", "arm64": "arm64"}
_NAME = re.compile(r"(?P<platform>[a-z0-9]+-[a-z0-9_]+)(?::|-py)(?P<minor>3\.[0-9]+)")


def platform_name() -> str:
    """This machine's platform: `linux-x86_64`, `linux-arm64`, `macos-arm64`, `windows-amd64`."""
    system = _SYSTEMS.get(platform.system(), platform.system().lower())
    return f"{system}-{_MACHINES.get(platform.machine(), platform.machine().lower())}"


def python_minor() -> str:
    """This Python: `3.11`."""
    return f"{sys.version_info[0]}.{sys.version_info[1]}"


@dataclass(frozen=True, order=True)
class Target:
    """One platform and one Python minor."""

    platform: str
    minor: str

    @staticmethod
    def here() -> Target:
        """This machine and this Python."""
        return Target(platform_name(), python_minor())

    @staticmethod
    def load(text: str) -> Target:
        """From `linux-arm64:3.12` (or the name, `linux-arm64-py3.12`). Raises `ReleaseError`."""
        found = _NAME.fullmatch(text)
        if found is None or found["platform"] not in WHEEL_TAGS:
            known = ", ".join(WHEEL_TAGS)
            raise ReleaseError(f"not a target: {text!r}", f"write PLATFORM:PYTHON, as linux-arm64:3.12, of {known}")
        return Target(found["platform"], found["minor"])

    @property
    def name(self) -> str:
        """`linux-arm64-py3.12`: the name of its lock in runtime/locks."""
        return f"{self.platform}-py{self.minor}"

    @property
    def lock(self) -> str:
        """Its lock in a built release."""
        return f"lock-{self.name}.txt"

    @property
    def wheelhouse(self) -> str:
        """Its wheelhouse in a built release."""
        return f"wheelhouse-{self.name}"

    @property
    def words(self) -> str:
        """For a person: `linux-arm64 with Python 3.12`."""
        return f"{self.platform} with Python {self.minor}"

    def pip_options(self) -> list[str]:
        """What makes pip choose wheels for this target on any machine."""
        tags = [f"--platform={tag}" for tag in WHEEL_TAGS[self.platform]]
        python = ["--implementation=cp", f"--python-version={self.minor}", f"--abi=cp{self.minor.replace('.', '')}"]
        return ["--only-binary=:all:", "--no-deps", "--require-hashes", *python, *tags]
