"""iop_release.targets: platforms and Pythons that a release can be installed on."""

import platform
import sys

import pytest

from iop_release.errors import ReleaseError
from iop_release.targets import Target, platform_name


@pytest.mark.parametrize(
    ("system", "machine", "name"),
    [
        ("Linux", "x86_64", "linux-x86_64"),
        ("Linux", "aarch64", "linux-arm64"),
        ("Darwin", "arm64", "macos-arm64"),
        ("Windows", "AMD64", "windows-amd64"),
        ("FreeBSD", "riscv64", "freebsd-riscv64"),
    ],
)
def test_a_machine_is_named_as_its_locks_are(
    system: str, machine: str, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What Python calls system and processor is brought to one spelling."""
    monkeypatch.setattr(platform, "system", lambda: system)
    monkeypatch.setattr(platform, "machine", lambda: machine)

    assert platform_name() == name


def test_a_target_has_its_names() -> None:
    """Both spellings are read; lock and wheelhouse carry the name."""
    target = Target.load("linux-arm64:3.12")

    assert Target.load(target.name) == target == Target("linux-arm64", "3.12")
    assert (target.lock, target.wheelhouse) == ("lock-linux-arm64-py3.12.txt", "wheelhouse-linux-arm64-py3.12")
    assert target.words == "linux-arm64 with Python 3.12"
    assert Target.here().minor == f"3.{sys.version_info.minor}"


@pytest.mark.parametrize("text", ["", "linux-arm64", "linux-arm64:2.7", "plan9-x86:3.12", "linux-arm64:3.12; rm"])
def test_what_is_no_target_is_refused(text: str) -> None:
    """The message shows how to write one."""
    with pytest.raises(ReleaseError, match=r"(?s)not a target.*linux-arm64:3\.12"):
        Target.load(text)


def test_pip_is_told_the_target() -> None:
    """Nothing is left for pip to find out from the machine that it runs on."""
    options = Target("windows-amd64", "3.13").pip_options()

    assert {"--platform=win_amd64", "--python-version=3.13", "--abi=cp313", "--no-deps", "--require-hashes"} <= {
        *options
    }
