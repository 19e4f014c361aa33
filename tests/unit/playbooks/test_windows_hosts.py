"""What a deploy runs on a Windows host: the helper in the host's own Python, and nothing that only POSIX has."""

import re
from pathlib import Path

import pytest

from tests.fakes.task_arguments import tasks

ROLES = Path(__file__).resolve().parents[3] / "playbooks" / "roles"
#: roles whose tasks run on the host of every node; the Edge's and the Control Plane's host is no Windows
ON_EVERY_HOST = ("engines", "iop", "nodes", "preflight", "prune", "release", "service", "trust")
HELPER = re.compile(r"\{\{ (iop_(helper|put|put_config|edge_helper)|nodes_(put|edge_helper)|release_stage_words)\b")
#: these act on the machine that Ansible runs on, whichever host they are for
HERE = {"set_fact", "fail", "debug", "assert", "include_tasks", "include_role", "meta", "set_stats", "pause"}
LOOSE = {"name", "register", "vars", "when", "loop", "loop_control", "environment", "changed_when", "failed_when"}
LOOSE |= {"check_mode", "delegate_to", "run_once", "until", "retries", "delay", "tags", "no_log", "ignore_unreachable"}
LOOSE |= {"ignore_errors", "notify", "listen", "block", "rescue", "always", "throttle"}


def _strangers(task: dict) -> list[str]:
    """Parts of a task that a Windows host may not have."""
    local = task.get("delegate_to") == "localhost"
    modules = [key for key in task if key not in LOOSE]
    found = [name for name in modules if name.removeprefix("ansible.builtin.") not in HERE]
    if local:
        return []
    if found == ["plain_command"]:
        argv = task["plain_command"]["argv"]
        return [] if HELPER.match(str(argv)) else [str(argv)]
    return [name for name in found if name != "release_file"]


@pytest.mark.parametrize("role", ON_EVERY_HOST)
def test_every_host_runs_the_helper_alone(role: str) -> None:
    """A task that runs another program says where: on localhost."""
    files = sorted((ROLES / role / "tasks").glob("*.yml"))
    assert files
    found = [
        f"{file.name}: {task.get('name')}: {stranger}"
        for file in files
        if (role, file.name) != ("preflight", "config.yml")  # of the Edge
        for task in tasks(file)
        for stranger in _strangers(task)
    ]
    assert found == []
