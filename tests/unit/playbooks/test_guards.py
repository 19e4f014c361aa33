"""playbooks/guards: one run at a time, and a Ctrl-C that ends a run although Python dropped it."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from iop_release import processes

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
COMMANDED = """
import multiprocessing, os, signal, subprocess, sys, time
sys.path.insert(0, {folder!r})
from guards import interrupt
interrupt.LEAVE_S = tuple((number, 0.3 if number != signal.SIGKILL else 20) for number, _ in interrupt.LEAVE_S)
COMMAND = "import signal, sys, time\\nfor one in sys.argv[1:]: signal.signal(int(one), signal.SIG_IGN)\\n"
COMMAND += "print('up', flush=True)\\ntime.sleep(120)"
def worker(pipe):  # as Ansible's
    os.setsid()
    def pass_on(number, frame):
        signal.signal(number, signal.SIG_DFL)
        os.killpg(0, number)
    signal.signal(signal.SIGINT, pass_on)
    with subprocess.Popen([sys.executable, "-c", COMMAND, *sys.argv[1:]], stdout=subprocess.PIPE) as child:
        child.stdout.readline()
        pipe.send(child.pid)
def main():
    def to_workers(number, frame):  # as Ansible's, which hears of SIGINT
        signal.signal(number, signal.SIG_DFL)
        os.kill(child.pid, number)
        raise KeyboardInterrupt
    signal.signal(signal.SIGINT, to_workers)
    guard = interrupt.Interrupt()
    guard.install()
    here, there = multiprocessing.Pipe()
    child = multiprocessing.get_context("fork").Process(target=worker, args=(there,))
    child.start()
    command = here.recv()
    try:
        print(command, flush=True)
        while True: time.sleep(0.01)
    except KeyboardInterrupt:
        guard.end_commands()
        print("ended", flush=True)
main()
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


@pytest.mark.parametrize("asked", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
@pytest.mark.parametrize("ignored", [[], [signal.SIGINT], [signal.SIGINT, signal.SIGTERM]])
def test_no_command_outlives_its_run(asked: signal.Signals, ignored: list[signal.Signals]) -> None:
    """Its worker has passed SIGINT on and is gone; who does not care is ended before the run's last word."""
    run = _python(COMMANDED, *(str(int(one)) for one in ignored))
    assert run.stdout is not None
    command = int(run.stdout.readline())
    os.kill(run.pid, asked)
    assert run.communicate(timeout=60)[0] == "ended\n"
    found = processes.read(command)
    assert found is None or "-c" not in found.argv


def test_a_step_of_tests_says_how_far_they_are(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By the last percentage that pytest wrote in this step; after three minutes, once, with the way around them."""
    monkeypatch.syspath_prepend(str(ROOT / "playbooks"))
    from guards.pulse import Pulse

    pulse = Pulse(lambda: None)
    pulse.tests_log = tmp_path / "tests.log"
    assert pulse._line(10) == "  … 10 s: \n"

    pulse.tests_log.write_text("bringing up nodes...\n")
    assert pulse._line(10) == f"  … 10 s: the tests are starting ({tmp_path}/tests.log)\n"
    pulse.tests_log.write_text("..... [  4%]\n..... [ 61%]\n...")
    assert pulse._line(170) == f"  … 170 s: 61% of the tests are through ({tmp_path}/tests.log)\n"
    assert "-e run_tests=false deploys without the tests" in pulse._line(180)
    assert "run_tests" not in pulse._line(190)

    old = time.time() - 60
    os.utime(pulse.tests_log, (old, old))
    assert pulse._line(30) == "  … 30 s: \n"  # a step without tests
