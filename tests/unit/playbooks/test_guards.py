"""playbooks/guards: one run at a time, and a Ctrl-C that ends a run although Python dropped it."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
HOLDER = """
import sys
sys.path.insert(0, {folder!r})
from pathlib import Path
from guards.run_lock import RunLock
lock = RunLock(Path(sys.argv[1]))
print(lock.take("dev-runtime", 0.2) or "taken", flush=True)
if len(sys.argv) > 2: sys.stdin.read()
"""
DEAF = """
import sys, time
sys.path.insert(0, {folder!r})
from guards import interrupt
from guards.pulse import Pulse
interrupt.AGAIN_EVERY_S = 0.2
guard = interrupt.Interrupt(at_end=lambda: print("report", flush=True))
guard.install()
if sys.argv[1] == "for-ever": interrupt.GIVE_UP_AFTER_S = 1.0
Pulse(guard.insist).watch("a task")
dropped = 0
while True:
    try:
        if not dropped: print("ready", flush=True)
        while True: time.sleep(0.01)
    except KeyboardInterrupt:
        dropped += 1
        if dropped == 2 and sys.argv[1] == "once":
            guard.since = None  # what Ansible does next is not interrupted again
            break
print("ended", flush=True)
"""


def _python(text: str, *arguments: str) -> "subprocess.Popen[str]":
    code = text.format(folder=str(ROOT / "playbooks"))
    return subprocess.Popen(
        [sys.executable, "-c", code, *arguments], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )


def test_one_run_at_a_time(tmp_path: Path) -> None:
    """The second one is told who has it; when that one is gone, however it ended, the lock is free."""
    lock = tmp_path / "build" / ".dev.lock"
    first = _python(HOLDER, str(lock), "stay")
    assert first.stdout is not None
    assert first.stdout.readline() == "taken\n"

    assert lock.stat().st_mode & 0o777 == 0o600  # who can open it can keep every run away

    second = _python(HOLDER, str(lock)).communicate()[0]
    assert f"dev-runtime (pid {first.pid}, since " in second
    assert "next: wait for its end, or stop it" in second

    first.kill()
    first.communicate()
    assert json.loads(lock.read_text(encoding="utf-8"))["pid"] == first.pid
    assert _python(HOLDER, str(lock)).communicate()[0] == "taken\n"


def test_a_lock_that_cannot_be_opened_stops_the_run(tmp_path: Path) -> None:
    """As where the checkout is another account's: the file is named, with what to do."""
    (tmp_path / "build").write_text("no folder")
    told = _python(HOLDER, str(tmp_path / "build" / ".dev.lock")).communicate()[0]
    assert "cannot be opened" in told
    assert "next: deploy as the account that owns this checkout" in told


def test_the_last_step_of_a_killed_run_is_waited_for(tmp_path: Path) -> None:
    """A holder that is gone while its lock is held: something that it began still works."""
    lock = tmp_path / ".dev.lock"
    first = _python(HOLDER, str(lock), "stay")
    assert first.stdout is not None
    first.stdout.readline()
    lock.write_text(json.dumps({"pid": 2**22 + 1, "what": "dev-runtime"}), encoding="utf-8")  # above any pid

    assert "the last step of a run that was killed" in _python(HOLDER, str(lock)).communicate()[0]
    first.communicate()


def test_an_interrupt_that_was_dropped_is_asked_again() -> None:
    """The first KeyboardInterrupt is lost; the run ends by the second, which nobody sent."""
    child = _python(DEAF, "once")
    assert child.stdout is not None
    child.stdout.readline()
    os.kill(child.pid, signal.SIGINT)
    assert child.communicate(timeout=30)[0] == "ended\n"
    assert child.returncode == 0


def test_a_run_that_hears_nothing_is_ended() -> None:
    """It still writes its report, and its exit code is Ansible's for an interrupt."""
    child = _python(DEAF, "for-ever")
    assert child.stdout is not None
    child.stdout.readline()
    os.kill(child.pid, signal.SIGINT)
    assert child.communicate(timeout=30)[0] == "report\n"
    assert child.returncode == 99


def test_a_run_that_nobody_reads_is_ended() -> None:
    """`make dev | head`: the reader is gone, nobody sent a signal."""
    child = _python(DEAF, "for-ever")
    assert child.stdout is not None
    child.stdout.readline()
    child.stdout.close()
    assert child.wait(timeout=30) == 99
    assert child.stdin is not None
    child.stdin.close()
