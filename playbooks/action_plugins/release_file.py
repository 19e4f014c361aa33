"""`release_file`: put a file of this machine on a host, where it is not there with the same content; or take it away.

Nothing needs to be on the host but Python. The file is sent under another name, verified, and moved into place.
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

from ansible.errors import AnsibleActionFail
from ansible.plugins.action import ActionBase

# The host's Python reads it from its input: `look PATH SHA256 MODE DRY`, then `place TEMPORARY PATH SHA256 MODE`;
# or `drop PATTERN DRY`.
_PROGRAM = r"""
import glob, hashlib, json, os, sys


def digest(path):
    found = hashlib.sha256()
    try:
        with open(path, "rb") as file:
            for block in iter(lambda: file.read(1 << 20), b""):
                found.update(block)
    except OSError:
        return None
    return found.hexdigest()


def look(path, wanted, mode, dry):
    path = os.path.abspath(os.path.expanduser(path))
    same = digest(path) == wanted
    if same and os.name == "posix" and dry == "no":
        os.chmod(path, int(mode, 8))
    if not same and dry == "no":
        os.makedirs(os.path.dirname(path), 0o700, exist_ok=True)
    return {"same": same, "path": path, "temporary": "%s.%d.new" % (path, os.getpid())}


def place(temporary, path, wanted, mode):
    if digest(temporary) != wanted:
        os.unlink(temporary)
        return {"problem": "what arrived is not what was sent"}
    os.chmod(temporary, int(mode, 8))
    os.replace(temporary, path)
    return {}


def drop(pattern, dry):
    found = glob.glob(os.path.expanduser(pattern))
    for path in found if dry == "no" else ():
        os.unlink(path)
    folder = os.path.dirname(os.path.expanduser(pattern))
    if found and dry == "no" and not os.listdir(folder):
        os.rmdir(folder)
    return {"dropped": found}


os.umask(0o077)
try:
    told = {"look": look, "place": place, "drop": drop}[sys.argv[1]](*sys.argv[2:])
except OSError as error:
    told = {"problem": str(error)}
print(json.dumps(told))
"""


class ActionModule(ActionBase):  # type: ignore[misc]  # ansible has no types
    """Arguments `src` (here), `dest` (there, `~` is the home), `mode` (0600), `python` (the host's, Ansible's own by
    default) and `tool` (false): a tool of the deploy is put there in a check run too, and is no change. With `state:
    absent`, `dest` may be a pattern; the folder goes with its last file.

    The result has `dest` (without `~`), `sha256` and `changed`; with `state: absent` the files that were `dropped`.
    """

    _supports_check_mode = True

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        """Put the file; a check run tells whether it would."""
        _, given = self.validate_argument_spec(
            argument_spec={
                "src": {"type": "path"},
                "dest": {"type": "str", "required": True},
                "mode": {"type": "str", "default": "0600"},
                "python": {"type": "str", "default": (task_vars or {}).get("ansible_python_interpreter", "python3")},
                "tool": {"type": "bool", "default": False},
                "state": {"type": "str", "default": "present", "choices": ["present", "absent"]},
            },
            required_if=[("state", "present", ["src"])],
        )
        result: dict[str, Any] = super().run(tmp, task_vars)
        if given["state"] == "absent":
            dry = "yes" if self._task.check_mode and not given["tool"] else "no"
            told = self._host(given["python"], "drop", given["dest"], dry)
            return {**result, **told, "changed": bool(told["dropped"]) and not given["tool"]}
        source = Path(given["src"])
        if not source.is_file():
            raise AnsibleActionFail(f"{source} is not there on this machine")
        wanted, mode = _sha256(source), given["mode"]
        dry = self._task.check_mode and not given["tool"]
        there = self._host(given["python"], "look", given["dest"], wanted, mode, "yes" if dry else "no")
        if not there["same"] and not dry:
            self._connection.put_file(str(source), there["temporary"])
            self._host(given["python"], "place", there["temporary"], there["path"], wanted, mode)
        result.update(dest=there["path"], sha256=wanted, changed=not there["same"] and not given["tool"])
        return result

    def _host(self, python: str, *arguments: str) -> dict[str, Any]:
        """Run a step of the program on the host. Raises `AnsibleActionFail`."""
        plain = self._shared_loader_obj.action_loader.get(
            "plain_command",
            task=self._task,
            connection=self._connection,
            play_context=self._play_context,
            loader=self._loader,
            templar=self._templar,
            shared_loader_obj=self._shared_loader_obj,
        )
        done = plain.started([python, "-", *arguments], _PROGRAM.encode())
        try:
            told: dict[str, Any] = json.loads(done["stdout"].strip().splitlines()[-1])
        except (ValueError, IndexError):
            said = (done["stderr"] or done["stdout"]).strip()[-1000:]
            hint = f"next: name a Python of the host as `python` in its connection.yml ({python} was tried)"
            raise AnsibleActionFail(
                f"the host's Python does not answer, exit code {done['rc']}: {said}\n  {hint}"
            ) from None
        if "problem" in told:
            raise AnsibleActionFail(f"{arguments[1]} cannot be put on the host: {told['problem']}")
        return told


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
