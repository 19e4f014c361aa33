"""`plain_command`: run one command on a host as it is, in a single process.

Ansible's own command module is a program that is shipped, unpacked and compiled for each call, which costs a second of
processor time each; a deploy makes some fifty calls.
"""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import Any

from ansible.plugins.action import ActionBase


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
        command = f"{self._compute_environment_string()} {shlex.join(given['argv'])}".strip()
        folder = given["chdir"]
        try:
            data = _input(given["stdin"], given["stdin_file"])
        except OSError as error:
            return {**result, "failed": True, "msg": f"cannot read {given['stdin_file']}: {error.strerror or error}"}
        done = self._low_level_execute_command(
            command,
            in_data=data,
            chdir=None if folder is None else shlex.quote(folder),
        )
        rc, stdout, stderr = done["rc"], done["stdout"].rstrip("\r\n"), done["stderr"].rstrip("\r\n")
        result.update(rc=rc, stdout=stdout, stderr=stderr, changed=True, failed=rc != 0)
        if self._task.diff and stdout.startswith("{") and '"diff"' in stdout:
            result["diff"] = json.loads(stdout).get("diff", [])
        if rc != 0:
            result["msg"] = f"exit code {rc}: {shlex.join(given['argv'][:6])}"
        return result


def _input(text: str | None, path: str | None) -> bytes | None:
    """Standard input. A file's content goes to the command as it is: no variable, log or result ever holds it."""
    if path is not None:
        return Path(path).read_bytes()
    return None if text is None else text.encode()
