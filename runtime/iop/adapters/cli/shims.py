"""Finding the program behind a name, without a shell: on Windows also behind the shims that npm and pnpm install."""

import os
import re
import shutil
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PureWindowsPath

_DIRECT = (".exe", ".com")
_BATCH = (".cmd", ".bat")
_PROG = "%_prog%"
_WORD = re.compile(r'"([^"]*)"|(\S+)')
#: the shim's own folder, as npm (`%dp0%`) and pnpm (`%~dp0`) write it; it may be followed by one more backslash
_FOLDER = re.compile(r"%(?:~dp0|dp0%)\\?", re.IGNORECASE)


class NotFoundError(Exception):
    """There is no program of that name that can be started; the text says why and is for people."""


@dataclass(frozen=True, slots=True)
class Files:
    """How the resolver looks at files; another system's can be given in tests."""

    exists: Callable[[str], bool] = os.path.isfile
    read: Callable[[str], str] = lambda path: Path(path).read_text(encoding="utf-8", errors="replace")


def resolve(
    command: Sequence[str],
    env: Mapping[str, str],
    *,
    cwd: str | None = None,
    platform: str = sys.platform,
    files: Files = Files(),
) -> tuple[str, ...]:
    """Return `command` with its first word replaced by what can be started as it is: a program, or node + script.

    Raises NotFoundError. The name is looked for in `env`'s PATH, one with a folder in it as it stands.
    """
    if platform != "win32":
        return (_posix(command[0], env, cwd), *command[1:])
    found = _windows(command[0], env, files)
    lowered = found.lower()
    if lowered.endswith(_BATCH):
        return (*_behind_shim(found, env, files), *command[1:])
    return (found, *command[1:])


def _posix(name: str, env: Mapping[str, str], cwd: str | None) -> str:
    if "/" in name:
        place = Path(cwd or ".") / name
        if not place.is_file():
            raise NotFoundError(f"{name} does not exist")
        if not os.access(place, os.X_OK):
            raise NotFoundError(f"{name} is not executable by this user")
        return name
    found = shutil.which(name, path=env.get("PATH", os.defpath))
    if found is None:
        raise NotFoundError(f"{name} is not on PATH")
    return found


def _windows(name: str, env: Mapping[str, str], files: Files) -> str:
    asked = PureWindowsPath(name)
    has_folder = len(asked.parts) > 1
    folders = [""] if has_folder else _get(env, "PATH").split(";")
    places = [
        str(PureWindowsPath(folder.strip('"')) / asked) if folder else name
        for folder in folders
        if folder or has_folder
    ]
    known = (*_DIRECT, *_BATCH)
    endings = ("",) if asked.suffix.lower() in known else known
    for place in places:
        for ending in endings:
            if files.exists(place + ending):
                return place + ending
    scripts = [place for place in places if files.exists(f"{place}.ps1")]
    if scripts:
        message = f"only {scripts[0]}.ps1 was found: PowerShell scripts cannot be started without a shell"
        raise NotFoundError(
            f"{message}; install the .cmd shim beside it (npm does) or name the program in cli_commands"
        )
    raise NotFoundError(f"{name} does not exist" if has_folder else f"{name} is not on PATH")


def _behind_shim(shim: str, env: Mapping[str, str], files: Files) -> tuple[str, ...]:
    """Read what a shim starts from its last line that passes the arguments on (`%*`)."""
    folder = PureWindowsPath(shim).parent
    for line in reversed(files.read(shim).splitlines()):
        before, passes_on, _ = line.partition("%*")
        if not passes_on:
            continue
        words = [quoted or bare for quoted, bare in _WORD.findall(before.rpartition("&")[2])]
        words = [_expanded(word, folder) for word in words if word.lower() != "@"]
        if len(words) == 1 and words[0].lower().endswith(_DIRECT):
            return (words[0],)
        if len(words) >= 2 and words[-1].lower().endswith((".js", ".cjs", ".mjs")):
            return (_interpreter(words[-2], folder, env, files), words[-1])
        break
    raise NotFoundError(
        f"{shim} is a batch file that iop cannot start without a shell; name the program in cli_commands"
    )


def _expanded(word: str, folder: PureWindowsPath) -> str:
    if not _FOLDER.match(word):
        return word
    parts = (*folder.parts, *PureWindowsPath(_FOLDER.sub("", word, count=1)).parts)
    kept: list[str] = []
    for part in parts:
        if part == "..":
            kept.pop()
        else:
            kept.append(part)
    return str(PureWindowsPath(*kept))


def _interpreter(word: str, folder: PureWindowsPath, env: Mapping[str, str], files: Files) -> str:
    beside = str(folder / "node.exe")
    if word == _PROG or PureWindowsPath(word).stem.lower() == "node":
        return beside if files.exists(beside) else _windows("node", env, files)
    return _windows(word, env, files)


def _get(env: Mapping[str, str], name: str) -> str:
    """Windows knows its variables by names whose case does not count."""
    return next((value for key, value in env.items() if key.upper() == name), "")
