"""`python tether.py COMMAND …`: run a command until standard input ends.

Whoever starts this holds the other end of that pipe. When that process is gone, killed or not, the pipe ends and so
does the command: on every system, without a signal that only some have. Runs as a file: standard library only.
"""

import os
import subprocess
import sys
import threading

#: seconds for an orderly end
ORDERLY_S = 2.0


def main(command: list[str]) -> int:
    """Run the command; its exit code, or 127 when there is no such program."""
    try:
        child = subprocess.Popen(command, stdin=subprocess.DEVNULL)  # noqa: S603 - the caller's own command
    except OSError as error:
        print(f"tether: {error}", file=sys.stderr)  # noqa: T201 - a program of its own
        return 127
    threading.Thread(target=_end_with_stdin, args=(child,), daemon=True).start()
    return child.wait()


def _end_with_stdin(child: "subprocess.Popen[bytes]") -> None:
    while os.read(0, 4096):
        pass
    child.terminate()
    try:
        child.wait(ORDERLY_S)
    except subprocess.TimeoutExpired:
        child.kill()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
