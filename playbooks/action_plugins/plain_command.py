"""`plain_command`: run one command on a host as it is, in a single process.

Ansible's own command module is a program that is shipped, unpacked and compiled for each call, which costs a second of
processor time each; a deploy makes some fifty calls.
"""

from __future__ import annotations

import base64
import json
import re
import shlex
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ansible.plugins.action import ActionBase

_ERROR = re.compile(r"(?:^|\n)error: (.*)\Z", re.DOTALL)  # the helper's last words
NO_JSON = 65  # the exit code that is told where the helper ended well and its answer cannot be read


class ActionModule(ActionBase):  # type: ignore[misc]  # ansible has no types
    """Arguments `argv` (list), `stdin` (text) or `stdin_file` (a path on the machine that Ansible runs on), `chdir`.

    The result has rc, stdout, stderr as with `command`.
    """

    _supports_check_mode = True

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        """Run the command; a check run skips it unless the task says `check_mode: false`."""
        _, given = self.validate_argument_spec(
            argument_spec={
                "argv": {"type": "list", "elements": "str", "required": True},
                "stdin": {"type": "str"},
                "stdin_file": {"type": "str"},
                "chdir": {"type": "str"},
            }
        )
        result: dict[str, Any] = super().run(tmp, task_vars)
        if self._task.check_mode:
            return {**result, "skipped": True, "changed": False, "msg": "a check run does not run it"}
        try:
            data = _input(given["stdin"], given["stdin_file"])
        except OSError as error:
            return {**result, "failed": True, "msg": f"cannot read {given['stdin_file']}: {error.strerror or error}"}
        done = self.started(given["argv"], data, given["chdir"])
        rc, stdout, stderr = done["rc"], done["stdout"].rstrip("\r\n"), done["stderr"].rstrip("\r\n")
        if "--json" in given["argv"]:
            stdout = json_alone(stdout)
            if any("iop_release" in word for word in given["argv"][:3]):
                stdout, stderr = told_apart(rc, stdout, stderr)
                if odd := no_json(rc, stdout, stderr):
                    host = self._task.delegate_to or (task_vars or {}).get("inventory_hostname", "the host")
                    text = f"{host}: {shlex.join(given['argv'][:4])} {odd}"
                    return {**result, "rc": rc or NO_JSON, "stdout": "", "stderr": text, "msg": text, "failed": True}
        result.update(rc=rc, stdout=stdout, stderr=stderr, changed=True, failed=rc != 0)
        if self._task.diff and stdout.startswith("{") and '"diff"' in stdout:
            result["diff"] = json.loads(stdout).get("diff", [])
        if rc != 0:
            result["msg"] = _why(stdout, stderr) or f"exit code {rc}: {shlex.join(given['argv'][:6])}"
        return result

    def started(self, argv: Sequence[str], data: bytes | None = None, chdir: str | None = None) -> dict[str, Any]:
        """Run it with `data` as its input and the task's environment; the result has rc, stdout and stderr."""
        found: dict[str, Any]
        if getattr(self._connection._shell, "_IS_WINDOWS", False):  # noqa: SLF001 - as Ansible itself asks
            environment: dict[str, Any] = {}
            self._compute_environment_string(environment)
            command = windows_command(argv, environment, chdir, with_input=data is not None)
            found = self._low_level_execute_command(command, in_data=data and base64.b64encode(data))
            return found
        command = f"{self._compute_environment_string()} {shlex.join(argv)}".strip()
        found = self._low_level_execute_command(
            command, in_data=data, chdir=None if chdir is None else shlex.quote(chdir)
        )
        return found


def json_alone(stdout: str) -> str:
    """The JSON object without what the account's shell says first (a greeting in `.bashrc`)."""
    _, found, rest = stdout.replace("\r\n", "\n").partition("\n{")
    return f"{{{rest}" if found and not stdout.startswith("{") else stdout


def told_apart(rc: int, stdout: str, stderr: str) -> tuple[str, str]:
    """Output and errors. Without input Ansible gives a command a terminal, where both arrive as one."""
    return ("", stdout) if rc != 0 and _ERROR.search(stdout) and not _ERROR.search(stderr) else (stdout, stderr)


def no_json(rc: int, stdout: str, stderr: str) -> str:
    """What is odd about the helper's answer, and what to do; empty for a JSON object, and for an error that is told."""
    try:
        if isinstance(json.loads(stdout or "null"), dict):
            return ""
    except ValueError:
        pass
    if rc != 0 and not stdout:
        return ""
    lines = (stdout or stderr or "(nothing)").splitlines()
    came = "\n".join(f"  | {_printable(line)[:200]}" for line in lines[:6])
    return (
        f"ended with exit code {rc} and answered with something else than its JSON:\n{came}\n"
        f"  next: run it there by hand (ssh). Where these lines come from the account's shell (.bashrc, a profile, a "
        f"banner), let them be printed for a person's terminal only; else say it to the project"
    )


def _printable(text: str) -> str:
    return "".join(char if char.isprintable() else char.encode("unicode_escape").decode() for char in text)


def _input(text: str | None, path: str | None) -> bytes | None:
    """Standard input. A file's content goes to the command as it is: no variable, log or result ever holds it."""
    if path is not None:
        return Path(path).read_bytes()
    return None if text is None else text.encode()


def windows_command(argv: Sequence[str], environment: Mapping[str, str], chdir: str | None, *, with_input: bool) -> str:
    """The command as one that means the same to cmd and to PowerShell, whichever the ssh server starts.

    PowerShell garbles quotes in a program's arguments and reads standard input itself, as text in a code page. So the
    program is started by .NET with a command line that is quoted here, and its input travels in base64.
    """
    lines = [
        "$ErrorActionPreference = 'Stop'",
        "$start = New-Object System.Diagnostics.ProcessStartInfo",
        f"$start.FileName = {_literal(argv[0])}",
        f"$start.Arguments = {_literal(subprocess.list2cmdline(argv[1:]))}",
        "$start.UseShellExecute = $false",
        *(f"$start.EnvironmentVariables[{_literal(key)}] = {_literal(str(environment[key]))}" for key in environment),
        *([f"$start.WorkingDirectory = {_literal(chdir)}"] if chdir is not None else []),
        *(["$start.RedirectStandardInput = $true"] if with_input else []),
        "$program = [System.Diagnostics.Process]::Start($start)",
        *(_FEED if with_input else []),
        "$program.WaitForExit()",
        "exit $program.ExitCode",
    ]
    script = base64.b64encode("\n".join(lines).encode("utf-16-le")).decode()
    return f"powershell -NoProfile -NonInteractive -ExecutionPolicy Unrestricted -EncodedCommand {script}"


def _literal(text: str) -> str:
    """A string of PowerShell, in which nothing is replaced; it takes four other characters for a quote, too."""
    for quote in "'\u2018\u2019\u201a\u201b":
        text = text.replace(quote, quote * 2)
    return f"'{text}'"


_FEED = [
    "$bytes = [System.Convert]::FromBase64String((@($input) -join ''))",
    "$program.StandardInput.BaseStream.Write($bytes, 0, $bytes.Length)",
    "$program.StandardInput.Close()",
]


def _why(stdout: str, stderr: str) -> str:
    """The reason in the words of our own helper: its error, or `said` in its JSON."""
    found = _ERROR.search(stderr)
    if found:
        return found[1].strip()
    try:
        told = json.loads(stdout)
    except ValueError:
        return ""
    return str(told.get("said", "")) if isinstance(told, dict) else ""
