"""Evidence of each run: `build/<env>-runtime/reports/<run>/{deploy.json,junit.xml}`, on failure too.

Also says every ten seconds that a long task is still at work, for Ansible prints nothing while a task runs.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from datetime import datetime, timezone
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

from ansible import context
from ansible.plugins.callback import CallbackBase

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "runtime"))  # this checkout's code, whatever is installed

from iop.config.inventory_source import environments, unreadable  # noqa: E402 - after the path above

DOCUMENTATION = """
name: deploy_report
type: notification
short_description: writes a report of each run, and shows that a long task is at work
description: [JSON and JUnit files in the environment's reports folder.]
"""

STILL_EVERY = 10.0  # seconds of silence after which a line says what is still running


class CallbackModule(CallbackBase):  # type: ignore[misc]  # ansible has no types
    """Ansible's hooks; each is called in the main process."""

    CALLBACK_VERSION = 2.0
    CALLBACK_TYPE = "notification"
    CALLBACK_NAME = "deploy_report"
    CALLBACK_NEEDS_ENABLED = True

    def __init__(self) -> None:
        super().__init__()
        self._started = datetime.now(timezone.utc)  # noqa: UP017 - Ansible's Python may be older than ours
        self._folder: Path | None = None
        self._env = self._checkout = self._playbook = ""
        self._check = self._hopeless = False
        self._steps: list[dict[str, Any]] = []
        self._releases: dict[str, dict[str, Any]] = {}
        self._pulse = _Pulse()

    def v2_playbook_on_start(self, playbook: Any) -> None:  # noqa: ANN401 - ansible's class
        """Know which playbook this is; name what Ansible does not: the place of bad YAML, the known environments."""
        self._playbook = Path(playbook._file_name).stem  # noqa: SLF001 - the only place where ansible has it
        for folder in map(Path, context.CLIARGS.get("inventory") or ()):
            found = unreadable(folder) if folder.is_dir() else []
            if not folder.exists():
                found = [f"no environment {folder.name!r} (known: {', '.join(environments(ROOT))})"]
            for line in found:
                self._display.error(line, wrap_text=False)
            self._hopeless = self._hopeless or bool(found)

    def v2_playbook_on_play_start(self, play: Any) -> None:  # noqa: ANN401
        """Know the environment, from the inventory in use."""
        if self._folder is not None or self._hopeless:
            return
        facts = play.get_variable_manager()
        inventory = facts._inventory  # noqa: SLF001 - as above
        hosts = inventory.get_hosts()
        if not hosts:
            return
        found = facts.get_vars(play=play, host=hosts[0])
        self._env = str(found.get("deploy_env", ""))
        checkout = Path(str(found.get("inventory_dir", "."))).parent.parent
        self._checkout = str(checkout)
        self._check = bool(found.get("ansible_check_mode"))
        run = self._started.strftime("%Y%m%dT%H%M%SZ")
        self._folder = checkout / "build" / f"{self._env}-runtime" / "reports" / f"{run}-{self._playbook}-{os.getpid()}"

    def v2_playbook_on_task_start(self, task: Any, is_conditional: bool) -> None:  # noqa: ANN401, ARG002, FBT001
        """A step begins."""
        self._steps.append({"name": task.get_name(), "began": time.monotonic(), "hosts": {}})
        self._pulse.watch(task.get_name())

    def v2_runner_on_ok(self, result: Any) -> None:  # noqa: ANN401
        """A host is done with the step."""
        self._note(result, "changed" if result._result.get("changed") else "ok")  # noqa: SLF001
        self._note_release(result)

    def v2_runner_on_failed(self, result: Any, ignore_errors: bool = False) -> None:  # noqa: ANN401, FBT001, FBT002
        """A host failed."""
        self._note(result, "ignored" if ignore_errors else "failed")

    def v2_runner_on_unreachable(self, result: Any) -> None:  # noqa: ANN401
        """A host is away."""
        self._note(result, "unreachable")

    def v2_runner_on_skipped(self, result: Any) -> None:  # noqa: ANN401
        """A host skips the step."""
        self._note(result, "skipped")

    def v2_playbook_on_stats(self, stats: Any) -> None:  # noqa: ANN401
        """The end, good or bad: write the report. A check run leaves nothing behind."""
        self._pulse.stop()
        self._write_report(stats)
        told = getattr(stats, "custom", {}).get("_run", {}).get("next_steps")
        if told:
            self._display.display(f"\n{told}")

    def _write_report(self, stats: Any) -> None:  # noqa: ANN401
        if self._folder is None or self._check or self._playbook == "uninstall":
            return
        summary = {host: stats.summarize(host) for host in sorted(stats.processed)}
        report = self._report(summary)
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            (self._folder / "deploy.json").write_text(json.dumps(report, indent=2) + "\n", encoding="utf-8")
            ET.ElementTree(_junit(report)).write(self._folder / "junit.xml", encoding="utf-8")
        except OSError as error:
            self._display.warning(f"no report: {error}")
            return
        self._display.display(f"report: {self._folder}")

    def _note(self, result: Any, outcome: str) -> None:  # noqa: ANN401
        if not self._steps:
            return
        step = self._steps[-1]
        fields = result._result  # noqa: SLF001 - ansible's way to the values
        entry = {"outcome": outcome, "seconds": round(time.monotonic() - step["began"], 2)}
        if outcome in ("failed", "unreachable"):
            entry["message"] = str(fields.get("msg", ""))[:4000]
        if fields.get("attempts"):
            entry["attempts"] = fields["attempts"]
        step["hosts"][result._host.get_name()] = entry  # noqa: SLF001

    def _note_release(self, result: Any) -> None:  # noqa: ANN401
        """Activations tell the release before and after, and what became of each service."""
        text = result._result.get("stdout", "")  # noqa: SLF001
        if not (isinstance(text, str) and text.startswith("{") and '"steps"' in text):
            return
        told = json.loads(text)
        entry = self._releases.setdefault(result._host.get_name(), {"before": told["current"], "services": {}})  # noqa: SLF001
        entry["after"] = told["release"]
        entry["services"].update({step["name"]: step["action"] for step in told["steps"]})

    def _report(self, summary: dict[str, dict[str, int]]) -> dict[str, Any]:
        failed = any(one["failures"] or one["unreachable"] for one in summary.values())
        now = datetime.now(timezone.utc)  # noqa: UP017
        return {
            "playbook": self._playbook,
            "environment": self._env,
            "commit": _commit(self._checkout),
            "started_at": self._started.isoformat(timespec="seconds"),
            "seconds": round((now - self._started).total_seconds(), 1),
            "outcome": "failed" if failed else "ok",
            "changed": sum(one["changed"] for one in summary.values()),
            "releases": self._releases,
            "summary": summary,
            "steps": [{"name": step["name"], "hosts": step["hosts"]} for step in self._steps],
        }


class _Pulse:
    """One thread that writes a line while a task takes long. It holds no lock, because Ansible forks beside it."""

    def __init__(self) -> None:
        self._name = ""
        self._since = time.monotonic()
        self._end = threading.Event()
        self._thread: threading.Thread | None = None

    def watch(self, name: str) -> None:
        self._name, self._since = name, time.monotonic()
        if self._thread is None and os.environ.get("IOP_QUIET") is None:
            self._thread = threading.Thread(target=self._run, daemon=True)
            self._thread.start()

    def stop(self) -> None:
        self._end.set()

    def _run(self) -> None:
        told = self._since
        while not self._end.wait(1.0):
            now = time.monotonic()
            if now - max(self._since, told) >= STILL_EVERY:
                told = now
                os.write(2, f"  … {now - self._since:.0f} s: {self._name}\n".encode())


def _commit(checkout: str) -> str:
    done = subprocess.run(  # noqa: S603 - git of the path
        ["git", "-C", checkout, "rev-parse", "HEAD"],  # noqa: S607
        capture_output=True,
        text=True,
        check=False,
    )
    return done.stdout.strip()


def _junit(report: dict[str, Any]) -> ET.Element:
    suite = ET.Element("testsuite", name=f"{report['playbook']} {report['environment']}")
    failures = 0
    for step in report["steps"]:
        for host, entry in step["hosts"].items():
            case = ET.SubElement(suite, "testcase", classname=host, name=step["name"], time=str(entry["seconds"]))
            if entry["outcome"] in ("failed", "unreachable"):
                failures += 1
                ET.SubElement(case, "failure", message=entry["outcome"]).text = entry.get("message", "")
            elif entry["outcome"] == "skipped":
                ET.SubElement(case, "skipped")
    suite.set("tests", str(len(suite)))
    suite.set("failures", str(failures))
    return suite
