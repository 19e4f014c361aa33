"""schtasks and taskkill as programs on PATH, and as much of cmd.exe as a launcher needs: real processes.

`FAKE_TASKS` names the folder: `<task>.xml` is a registered task, `<task>.pid` the process of its cmd.exe, `calls` every
call. `/End` kills cmd.exe and leaves what it started, `taskkill /T` a process with its children.
"""

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

HOME = Path(os.environ["FAKE_TASKS"])


def refuse(text):
    """What the tool says, with its one exit code."""
    sys.stderr.write(f"ERROR: {text}\n")
    return 1


def schtasks(words):
    """/Query, /Create, /Run, /End."""
    options = dict(zip(words[1::2], words[2::2], strict=False))
    name = options.get("/TN")
    if words[0] == "/Query" and name is None:
        return 0
    task, pid = HOME / f"{name}.xml", HOME / f"{name}.pid"
    if words[0] == "/Create":
        task.write_text(Path(options["/XML"]).read_text(encoding="utf-16"), encoding="utf-8")
        return 0
    if not task.is_file():
        return refuse("The system cannot find the file specified.")
    if words[0] == "/Query":
        sys.stdout.write(task.read_text(encoding="utf-8"))
    elif words[0] == "/Run":
        command = [sys.executable, "-S", "-E", __file__, "cmd", launcher(task)]
        child = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        pid.write_text(str(child.pid))
        os._exit(0)  # it lives on
    elif words[0] == "/End":
        if not pid.is_file():
            return refuse("There is no running instance of the task.")
        end(int(pid.read_text()))
        pid.unlink()
    return 0


def launcher(task):
    """The batch file that a task's arguments name."""
    text = re.search(r"<Arguments>(.*)</Arguments>", task.read_text(encoding="utf-8"))[1]
    text = text.replace("&quot;", '"').replace("&amp;", "&")
    return re.fullmatch(r'/d /c ""(.+)""', text)[1].replace("\\", "/")


def cmd(words):
    """A launcher, line by line. The file is read again for each line, as cmd.exe does."""
    env = {"PATH": os.environ["PATH"], "SystemRoot": "C:\\Windows"}
    at, code = 0, 0
    while at < len(lines := Path(words[0]).read_bytes().decode("utf-8").split("\r\n")):
        line = lines[at]
        at += 1
        if line == "goto again":
            at = lines.index(":again")
        elif line == "if %ERRORLEVEL% EQU 0 exit /b 0":
            if code == 0:
                return 0
        elif line.startswith("ping "):
            time.sleep(5)
        elif line.startswith("set "):
            key, _, value = line[5:-1].partition("=")
            env[key] = value.replace("%%", "%")
        elif line.startswith('"'):
            command, _, output = line.replace("%%", "%").partition(" >> ")
            with Path(output.removesuffix(" 2>&1").strip('"')).open("ab") as out:
                code = subprocess.run(arguments(command), env=env, stdout=out, stderr=out, check=False).returncode
    return code


def arguments(command):
    """A line whose every word is in quotes; a backslash counts before a quote only."""
    found = re.findall(r'"((?:[^"\\]|\\+(?!")|\\\\)*)"', command)
    return [re.sub(r"(\\+)$", lambda tail: tail[1][: len(tail[1]) // 2], one) for one in found]


def end(pid):
    """Kill one process."""
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        return


def taskkill(words):
    """`/PID N /T /F`."""
    pid = int(words[1])
    children = Path(f"/proc/{pid}/task/{pid}/children")
    for child in children.read_text().split() if children.is_file() else ():
        end(int(child))
    if not Path(f"/proc/{pid}").exists():
        sys.stderr.write(f'ERROR: The process "{pid}" not found.\n')
        return 128
    end(pid)
    return 0


if __name__ == "__main__":
    if sys.argv[1] != "cmd":
        with (HOME / "calls").open("a") as calls:
            calls.write(" ".join(sys.argv[1:]) + "\n")
    sys.exit({"schtasks": schtasks, "taskkill": taskkill, "cmd": cmd}[sys.argv[1]](sys.argv[2:]))
