"""Arguments of Ansible tasks against the documented options of their modules.

ansible-lint does not look at the arguments of modules that are written in PowerShell: a misspelt option passes it.
`ansible-doc` tells the options, and Ansible's own validator judges. As a program, `python -m tests.fakes.task_arguments
COLLECTIONS` fetches the collection `ansible.windows` (2 MB of the 51 MB wheel `ansible`) into that folder.
"""

import json
import os
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Iterator
from pathlib import Path

import yaml
from ansible.module_utils.common.arg_spec import ArgumentSpecValidator

#: types that the validator knows; any other is taken as it is
_TYPES = {"str", "list", "dict", "bool", "int", "float", "path", "raw", "jsonarg", "json", "bytes", "bits"}
_INSIDE = "ansible_collections/ansible/windows/"


def faults(files: list[Path], prefix: str, collections: Path | None = None) -> list[str]:
    """What is wrong with the tasks of modules whose names begin with `prefix`, as `file: task: module: fault`."""
    found = [(file, task, name) for file in files for task in tasks(file) for name in task if name.startswith(prefix)]
    docs = documented(sorted({name for _, _, name in found}), collections)
    return [
        f"{file.name}: {task.get('name')}: {name}: {fault}"
        for file, task, name in found
        for fault in judged(task[name], docs[name]["doc"]["options"])
    ]


def tasks(file: Path) -> Iterator[dict]:
    """All tasks of a playbook or a task file, those in blocks too; none of a file that holds something else."""
    content = yaml.safe_load(file.read_text(encoding="utf-8"))
    for entry in content if isinstance(content, list) else ():
        yield from _below(entry)


def _below(entry: dict) -> Iterator[dict]:
    nested = ("pre_tasks", "tasks", "post_tasks", "handlers", "block", "rescue", "always")
    if not any(key in entry for key in nested):
        yield entry
    for key in nested:
        for one in entry.get(key) or []:
            yield from _below(one)


def documented(modules: list[str], collections: Path | None = None) -> dict:
    """What `ansible-doc` says of these modules."""
    if not modules:
        return {}
    env = {**os.environ, "ANSIBLE_COLLECTIONS_PATH": str(collections)} if collections else dict(os.environ)
    command = [sys.executable, "-m", "ansible", "doc", "-t", "module", "-j", *modules]
    done = subprocess.run(command, capture_output=True, text=True, check=True, env={**env, "LC_ALL": "C.UTF-8"})
    return json.loads(done.stdout)


def judged(arguments: object, options: dict) -> list[str]:
    """Faults of one task's arguments; a value with a template in it may be anything, its name must be right."""
    given = arguments if isinstance(arguments, dict) else {}
    spec = _spec(options)
    for name, value in given.items():
        if name in spec and "{{" in str(value):
            spec[name] = {"type": "raw", "aliases": spec[name].get("aliases", [])}
    return ArgumentSpecValidator(spec).validate(given).error_messages


def _spec(options: dict) -> dict:
    spec = {}
    for name, told in (options or {}).items():
        one = {key: told[key] for key in ("required", "choices", "elements", "aliases") if key in told}
        one["type"] = told["type"] if told.get("type", "str") in _TYPES else "raw"
        one["choices"] = list(one["choices"]) if one.get("choices") else None
        if told.get("suboptions"):
            one["options"] = _spec(told["suboptions"])
        spec[name] = {key: value for key, value in one.items() if value is not None}
    return spec


def fetch(into: Path) -> None:
    """Put the collection below `into`, unless it is there."""
    if (into / _INSIDE).is_dir():
        return
    with tempfile.TemporaryDirectory() as folder:
        command = [
            sys.executable,
            "-m",
            "pip",
            "download",
            "-q",
            "--no-deps",
            "--only-binary=:all:",
            "-d",
            folder,
            "ansible",
        ]
        subprocess.run(command, check=True)
        with zipfile.ZipFile(next(Path(folder).glob("ansible-*.whl"))) as wheel:
            names = [name for name in wheel.namelist() if name.startswith(_INSIDE)]
            wheel.extractall(folder, names)
        (into / _INSIDE).parent.mkdir(parents=True, exist_ok=True)
        shutil.move(Path(folder) / _INSIDE, into / _INSIDE)


if __name__ == "__main__":
    fetch(Path(sys.argv[1]))
