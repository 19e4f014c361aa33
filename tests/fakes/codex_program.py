"""A stand-in for the Codex CLI, run as a program: it plays transcripts of the real one.

A transcript holds what the server said, line by line. `> {…}` waits for a message with the same method from the
client, `> {"id": …}` for an answer; `! exit N`, `! kill`, `! hang`, `! stderr TEXT`, `! stdout TEXT` (no line end) and
`! wait MILLISECONDS` do what they say. Steered by variables: FAKE_APP_SERVER and FAKE_EXEC are transcripts (none = that
way is not there), FAKE_LOG gets what was asked as JSON lines, FAKE_LOGIN is a file whose presence means logged in
(unset: no login needed).
"""

import json
import os
import signal
import sys
import time
from pathlib import Path


def log(**what: object) -> None:
    """Append to the log."""
    if "FAKE_LOG" in os.environ:
        with Path(os.environ["FAKE_LOG"]).open("a", encoding="utf-8") as file:
            file.write(json.dumps(what) + "\n")


def say(text: str) -> None:
    """Write to stdout at once."""
    sys.stdout.buffer.write(text.encode())
    sys.stdout.buffer.flush()


def logged_in() -> bool:
    """Whether the login file is there."""
    return "FAKE_LOGIN" not in os.environ or Path(os.environ["FAKE_LOGIN"]).exists()


def wait_for(wanted: dict[str, object] | None) -> None:
    """Read messages until one has the wanted method (an answer: the wanted id).

    Without one: until the end of stdin, which is the end of the program.
    """
    while line := sys.stdin.buffer.readline():
        message = json.loads(line)
        log(got=message)
        if message.get("method") == "account/read":
            known = logged_in()
            account = {"type": "chatgpt", "email": "a@example.com"} if known and "FAKE_LOGIN" in os.environ else None
            result = {"account": account, "requiresOpenaiAuth": "FAKE_LOGIN" in os.environ}
            say(json.dumps({"id": message["id"], "result": result}) + "\n")
        elif wanted is not None and all(message.get(key) == wanted.get(key) for key in ("method", *_key(wanted))):
            return
    log(ended="stdin")
    sys.exit(0)


def _key(wanted: dict[str, object]) -> tuple[str, ...]:
    return () if "method" in wanted else ("id",)


def play(name: str) -> None:
    """Play a transcript."""
    for line in Path(name).read_text(encoding="utf-8").splitlines():
        if line.startswith("> "):
            wait_for(json.loads(line[2:]))
        elif line.startswith("! "):
            act(*line[2:].split(" ", 1))
        else:
            say(line + "\n")


def act(what: str, rest: str = "") -> None:
    """Do what a line says."""
    match what:
        case "exit":
            sys.exit(int(rest))
        case "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        case "hang":
            time.sleep(600)
        case "wait":
            time.sleep(int(rest) / 1000)
        case "stdout":
            say(rest.encode().decode("unicode_escape"))
        case "stderr":
            sys.stderr.write(rest + "\n")
            sys.stderr.flush()


def main() -> None:
    """Be Codex."""
    words = sys.argv[1:]
    if "--version" in words:
        say("codex-cli 0.171.0\n")
    elif words[-2:] == ["login", "status"]:
        sys.stderr.write("Logged in using ChatGPT\n" if logged_in() else "Not logged in\n")
        sys.exit(0 if logged_in() else 1)
    elif words[-1:] == ["app-server"] and "FAKE_APP_SERVER" in os.environ:
        log(argv=words)
        play(os.environ["FAKE_APP_SERVER"])
        wait_for(None)
    elif "exec" in words and "FAKE_EXEC" in os.environ:
        log(argv=words, stdin=sys.stdin.buffer.read().decode())
        play(os.environ["FAKE_EXEC"])
    else:
        sys.exit(f"error: unrecognized subcommand {words[-1:]}")


main()
