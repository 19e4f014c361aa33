"""Start a playbook as make, fab and the tests do: `python playbooks/launch.py dev-runtime [OPTIONS]`.

Ansible refuses some surroundings in words that help nobody; this sets them right and says what it did.
"""

from __future__ import annotations

import locale
import os
import stat
import sys
from collections.abc import Callable
from pathlib import Path
from typing import NoReturn

ROOT = Path(__file__).resolve().parent.parent
LOCALES = ("C.UTF-8", "en_US.UTF-8")  # the second for systems that lack the first


def environment(given: dict[str, str], platform: str = sys.platform) -> dict[str, str]:
    """The variables that Ansible starts with: its config named, a UTF-8 locale, no settings of an outer make."""
    # the frameworks of macOS end a forked process that uses them; Ansible's workers are such processes
    forks = {"OBJC_DISABLE_INITIALIZE_FORK_SAFETY": "YES"} if platform == "darwin" else {}
    env = {name: value for name, value in given.items() if name not in ("MAKEFLAGS", "MAKELEVEL", "MFLAGS")}
    return {**forks, **env, "ANSIBLE_CONFIG": str(ROOT / "ansible.cfg"), "LC_ALL": _utf8(), "PYTHONUNBUFFERED": "1"}


def remarks(root: Path, get_blocking: Callable[[int], bool] = os.get_blocking) -> list[str]:
    """What is odd about the surroundings, in words."""
    found = []
    if root.stat().st_mode & stat.S_IWOTH:
        found.append(f"{root} is writable by everyone: a bare ansible-playbook ignores ansible.cfg there (chmod o-w)")
    if not all(get_blocking(number) for number in (1, 2)):
        found.append("the output was non-blocking, which Ansible refuses: made blocking")
    return found


def main(arguments: list[str]) -> NoReturn:
    """Replace this process by ansible-playbook."""
    if not arguments or arguments[0].startswith("-"):
        sys.exit("usage: python playbooks/launch.py PLAYBOOK [options of ansible-playbook]")
    for remark in remarks(ROOT):
        print(f"note: {remark}", file=sys.stderr)  # noqa: T201
    for number in (1, 2):
        os.set_blocking(number, True)
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    os.chdir(ROOT)
    playbook = str(Path("playbooks") / f"{arguments[0]}.yml")
    command = [sys.executable, "-m", "ansible", "playbook", playbook, *arguments[1:]]
    os.execve(sys.executable, command, environment(dict(os.environ)))  # noqa: S606 - this process becomes Ansible


def _utf8() -> str:
    for name in LOCALES:
        try:
            locale.setlocale(locale.LC_ALL, name)
        except locale.Error:
            continue
        return name
    return LOCALES[0]


if __name__ == "__main__":
    main(sys.argv[1:])
