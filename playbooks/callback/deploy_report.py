"""Evidence of each run: `build/<env>-runtime/reports/<run>/{deploy.json,junit.xml}`, on failure and Ctrl-C too.

Also holds the environment's lock, says every ten seconds that a long task is still at work, and ends a run on Ctrl-C.
"""

from __future__ import annotations

import atexit
import json
import os
import subprocess
import sys
import time
from datetime import datetime, timezone
from pathlib import Path
from typing import Any, NoReturn
from xml.etree import ElementTree as ET

from ansible import context
from ansible.plugins.callback import CallbackBase

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "runtime"), str(ROOT / "playbooks")]  # this checkout's code, whatever is installed

from guards.away import Away  # noqa: E402 - after the path above
from guards.fleet import Fleet  # noqa: E402
from guards.interrupt import Interrupt  # noqa: E402
from guards.junit import junit  # noqa: E402
from guards.pulse import Pulse  # noqa: E402
from guards.run_lock import RunLock  # noqa: E402
from guards.switches import wrong  # noqa: E402

from iop.config.inventory_engines import KINDS  # noqa: E402
from iop.config.inventory_source import environments, unreadable  # noqa: E402

DOCUMENTATION = """
name: deploy_report
type: notification
short_description: writes a report of each run, and shows that a long task is at work
description: [JSON and JUnit files in the environment's reports folder.]
"""

CHANGING = ("dev-runtime", "rollback", "drain", "uninstall", "bootstrap")  # playbooks of which one runs at a time
NO_REPORT = ("uninstall",)  # it may remove the folder that the report would be in


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
        self._told: dict[str, list[dict[str, Any]]] = {"drain": [], "gate": [], "check": [], "rollback": []}
        self._written = False
        self._lock: RunLock | None = None
        self._away = Away()
        self._fleet = Fleet()
        self._variables: Any = None
        self._interrupt = Interrupt(at_end=self._on_exit)
        self._pulse = Pulse(self._interrupt.insist)

    def v2_playbook_on_start(self, playbook: Any) -> None:  # noqa: ANN401 - ansible's class
        """Know which playbook this is; name what Ansible does not: the place of bad YAML, the known environments."""
        self._playbook = Path(playbook._file_name).stem  # noqa: SLF001 - the only place where ansible has it
        self._interrupt.install()
        atexit.register(self._on_exit)
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
        facts = self._variables = play.get_variable_manager()
        inventory = facts._inventory  # noqa: SLF001 - as above
        hosts = inventory.get_hosts()
        if not hosts:
            return
        found = facts.get_vars(play=play, host=hosts[0])
        if reasons := wrong(self._playbook, facts.extra_vars, found, KINDS):
            self._stop_here(reasons)
        self._env = str(found.get("deploy_env", ""))
        checkout = Path(str(found.get("inventory_dir", "."))).parent.parent
        self._checkout = str(checkout)
        self._check = bool(found.get("ansible_check_mode"))
        self._alone(checkout / "build" / f".{self._env}.lock")
        run = f"{self._started.strftime('%Y%m%dT%H%M%SZ')}-{self._playbook}-{os.getpid()}"
        if not self._check:
            self._fleet.begin(run, checkout)
        home = checkout / "build" / f"{self._env}-runtime"
        self._folder, self._pulse.tests_log = home / "reports" / run, home / "tests.log"

    def v2_playbook_on_task_start(self, task: Any, is_conditional: bool) -> None:  # noqa: ANN401, ARG002, FBT001
        """A step begins."""
        self._steps.append({"name": task.get_name(), "at": _now(), "began": time.monotonic(), "hosts": {}})
        self._pulse.watch(task.get_name())

    def v2_runner_on_ok(self, result: Any) -> None:  # noqa: ANN401
        """A host is done with the step."""
        self._note(result, "changed" if result._result.get("changed") else "ok")  # noqa: SLF001
        self._note_release(result)
        self._note_told(result)

    def v2_runner_on_failed(self, result: Any, ignore_errors: bool = False) -> None:  # noqa: ANN401, FBT001, FBT002
        """A host failed."""
        self._note(result, "ignored" if ignore_errors else "failed")
        self._note_told(result)

    def v2_runner_item_on_ok(self, result: Any) -> None:  # noqa: ANN401
        """One round of a loop is done."""
        self._note_told(result)

    def v2_runner_item_on_failed(self, result: Any) -> None:  # noqa: ANN401
        """One round of a loop failed."""
        self._note_told(result)

    def v2_runner_retry(self, result: Any) -> None:  # noqa: ANN401
        """A wait goes on: say for whom."""
        left = _json_of(result).get("running")
        if isinstance(left, dict) and left:
            text = ", ".join(f"{name} {count}" for name, count in left.items())
            self._display.display(f"  … still running on {result._host.get_name()}: {text}")  # noqa: SLF001

    def v2_runner_on_unreachable(self, result: Any) -> None:  # noqa: ANN401
        """A host is away."""
        self._note(result, "unreachable")
        if self._variables is not None:
            host = self._host_of(result)
            facts = self._variables.get_vars(host=host)
            self._away.note(host.get_name(), str(result._result.get("msg", "")), facts)  # noqa: SLF001

    def v2_runner_on_skipped(self, result: Any) -> None:  # noqa: ANN401
        """A host skips the step."""
        self._note(result, "skipped")

    def v2_playbook_on_stats(self, stats: Any) -> None:  # noqa: ANN401
        """The end, good or bad: write the report. A check run leaves nothing behind."""
        self._pulse.stop()
        self._fleet.let_go()
        self._write_report({host: stats.summarize(host) for host in sorted(stats.processed)})
        if self._away.text():
            self._display.display(f"\n{self._away.text()}")
        told = getattr(stats, "custom", {}).get("_run", {}).get("next_steps")
        if told:
            self._display.display(f"\n{told}")

    def _host_of(self, result: Any) -> Any:  # noqa: ANN401
        """The host that the step ran on: that which it was delegated to, if any."""
        name = (result._result.get("_ansible_delegated_vars") or {}).get("ansible_delegated_host")  # noqa: SLF001
        return self._variables._inventory.get_host(name or result._host.get_name()) or result._host  # noqa: SLF001

    def _alone(self, lock: Path) -> None:
        """Hold the environment for this run; end here where another run has it."""
        if self._check or self._playbook not in CHANGING:
            return
        self._lock = RunLock(lock)
        reason = self._lock.take(self._playbook)
        if reason:
            self._stop_here([reason])

    def _stop_here(self, reasons: list[str]) -> NoReturn:
        """End the run before its first step."""
        self._hopeless = True
        for reason in reasons:
            self._display.error(reason, wrap_text=False)
        sys.exit(1)

    def _on_exit(self) -> None:
        """The run ended without its last word: Ctrl-C, or an error of Ansible's own."""
        self._interrupt.end_commands()
        self._fleet.let_go()
        if self._written or self._folder is None or self._check:
            return
        self._write_report({})
        if self._interrupt.since is not None and self._playbook in CHANGING:
            text = "interrupted. The next run repairs what was begun; a drained node takes work again by itself."
            os.write(2, f"{text}\n".encode())

    def _write_report(self, summary: dict[str, dict[str, int]]) -> None:
        if self._folder is None or self._check or self._playbook in NO_REPORT or self._written:
            return
        self._written = True
        report = self._report(summary)
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            (self._folder / "deploy.json").write_text(json.dumps(report, indent=2) + "\n", encoding="utf-8")
            ET.ElementTree(junit(report)).write(self._folder / "junit.xml", encoding="utf-8")
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
        told = _json_of(result)
        if "steps" not in told:
            return
        entry = self._releases.setdefault(result._host.get_name(), {"before": told["current"], "services": {}})  # noqa: SLF001
        entry["after"] = told["release"]
        entry["services"].update({step["name"]: step["action"] for step in told["steps"]})

    def _note_told(self, result: Any) -> None:  # noqa: ANN401
        """What the helper tells of drains, gates, checks, rollbacks and holds; it has no secrets."""
        told = _json_of(result)
        if told.get("what") in ("hold", "let_go"):
            host = self._host_of(result)
            self._fleet.note(host.get_name(), told, self._variables.get_vars(host=host))
        if told.get("what") not in self._told:
            return
        kept = {name: told[name] for name in _KEPT if name in told}
        self._told[told["what"]].append({"host": result._host.get_name(), **kept})  # noqa: SLF001

    def _report(self, summary: dict[str, dict[str, int]]) -> dict[str, Any]:
        failed = any(one["failures"] or one["unreachable"] for one in summary.values())
        now = datetime.now(timezone.utc)  # noqa: UP017
        return {
            "playbook": self._playbook,
            "environment": self._env,
            "commit": _commit(self._checkout),
            "started_at": self._started.isoformat(timespec="seconds"),
            "seconds": round((now - self._started).total_seconds(), 1),
            "outcome": "failed" if failed else "ok" if summary else "interrupted",
            "changed": sum(one["changed"] for one in summary.values()),
            "releases": self._releases,
            "drains": self._told["drain"],
            "gates": self._told["gate"],
            "checks": self._told["check"],
            "rollbacks": self._told["rollback"],
            "summary": summary,
            "steps": [{name: step[name] for name in ("name", "at", "hosts")} for step in self._steps],
        }


_KEPT = ("ok", "idle", "seconds", "attempts", "running", "said", "checks", "release", "current", "changed")


def _json_of(result: Any) -> dict[str, Any]:  # noqa: ANN401
    """The JSON object that our helper printed; empty for anything else."""
    text = result._result.get("stdout", "")  # noqa: SLF001
    if not (isinstance(text, str) and text.startswith("{")):
        return {}
    try:
        found = json.loads(text)
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def _now() -> str:
    return datetime.now(timezone.utc).isoformat(timespec="milliseconds")  # noqa: UP017


def _commit(checkout: str) -> str:
    done = subprocess.run(  # noqa: S603 - git of the path
        ["git", "-C", checkout, "rev-parse", "HEAD"],  # noqa: S607
        capture_output=True,
        text=True,
        check=False,
    )
    return done.stdout.strip()
