"""`plain_command`: run one command on a host as it is, in a single process.

Ansible's own command module is a program that is shipped, unpacked and compiled for each call, which costs a second of
processor time each; a deploy makes some fifty calls.
"""

from __future__ import annotations

import json
import shlex
from typing import Any

from ansible.plugins.action import ActionBase


class ActionModule(ActionBase):  # type: ignore[misc]  # ansible has no types
    """Arguments `argv` (list), `stdin` (text), `chdir`; the result has rc, stdout, stderr as with `command`."""

    _supports_check_mode = True

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        """Run the command; a check run skips it unless the task says `check_mode: false`."""
        _, given = self.validate_argument_spec(
            argument_spec={
                "argv": {"type": "list", "elements": "str", "required": True},
                "stdin": {"type": "str"},
                "chdir": {"type": "str"},
            }
        )
        result: dict[str, Any] = super().run(tmp, task_vars)
        if self._task.check_mode:
            return {**result, "skipped": True, "changed": False, "msg": "a check run does not run it"}
        command = f"{self._compute_environment_string()} {shlex.join(given['argv'])}".strip()
        text, folder = given["stdin"], given["chdir"]
        done = self._low_level_execute_command(
            command,
            in_data=None if text is None else text.encode(),
            chdir=None if folder is None else shlex.quote(folder),
        )
        rc, stdout, stderr = done["rc"], done["stdout"].rstrip("\r\n"), done["stderr"].rstrip("\r\n")
        result.update(rc=rc, stdout=stdout, stderr=stderr, changed=True, failed=rc != 0)
        if self._task.diff and stdout.startswith("{") and '"diff"' in stdout:
            result["diff"] = json.loads(stdout).get("diff", [])
        if rc != 0:
            result["msg"] = f"exit code {rc}: {shlex.join(given['argv'][:6])}"
        return result
