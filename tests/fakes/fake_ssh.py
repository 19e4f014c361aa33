"""A stand-in for the OpenSSH client: its options, exit codes and words; the far side is this machine.

`install(folder, {address: behaviour})` puts it on a PATH of the test's own. Behaviours: `ok`, `silent` (connects and
never answers), `busy-once` (the first try finds its port taken), `refuses-forwards`, `ends` (ends after the forwards
stand), or the name of one of `WORDS`.
"""

import json
import os
import socket
import stat
import subprocess
import sys
import threading
import time
from pathlib import Path

#: what OpenSSH 9.2 says before it exits with 255; recorded from the real one
WORDS = {
    "unknown-key": "No ED25519 host key is known for {host} and you have requested strict checking.\n"
    "Host key verification failed.",
    "changed-key": "@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@\n"
    "@    WARNING: REMOTE HOST IDENTIFICATION HAS CHANGED!     @\n"
    "@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@\n"
    "Offending ED25519 key in /home/me/.ssh/known_hosts:7\n"
    "Host key for {host} has changed and you have requested strict checking.\n"
    "Host key verification failed.",
    "denied": "{user}@{host}: Permission denied (publickey).",
    "no-route": "ssh: connect to host {host} port 22: No route to host",
    "timed-out": "ssh: connect to host {host} port 22: Connection timed out",
    "refused": "ssh: connect to host {host} port 22: Connection refused",
    "no-name": "ssh: Could not resolve hostname {host}: Name or service not known",
    "closed": "kex_exchange_identification: Connection closed by remote host\nConnection closed by {host} port 22",
    "no-config": "Can't open user config file {config}: No such file or directory",
    "bad-config": "{config}: line 3: Bad configuration option: colour\n"
    "{config}: terminating, 1 bad configuration options",
    "odd": "muxclient: something nobody has seen",
}
WITH_VALUE = "BbcDEeFIiJLlmOopQRSWw"


def install(folder: Path, behaviours: dict[str, str]) -> Path:
    """Make `folder/ssh` and return the folder, for the front of PATH; each call is kept in `folder/calls.jsonl`."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "behaviours.json").write_text(json.dumps(behaviours), encoding="utf-8")
    program = folder / "ssh"
    program.write_text(f'#!/bin/sh\nexec {sys.executable} {__file__} {folder} "$@"\n', encoding="utf-8")
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    return folder


def calls(folder: Path) -> list[list[str]]:
    """The arguments of every call so far."""
    file = folder / "calls.jsonl"
    return [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()] if file.exists() else []


def main(folder: Path, arguments: list[str]) -> int:
    """Behave."""
    with (folder / "calls.jsonl").open("a", encoding="utf-8") as file:
        file.write(json.dumps(arguments) + "\n")
    options, host, command = parse(arguments)
    behaviour = json.loads((folder / "behaviours.json").read_text(encoding="utf-8"))[host]
    if behaviour in WORDS:
        facts = {"host": host, "user": options.get("-l", ["me"])[0], "config": options.get("-F", ["none"])[0]}
        return fail(WORDS[behaviour].format_map(facts))
    if behaviour == "silent":
        time.sleep(3600)
    if "-N" not in options:
        return subprocess.run(["/bin/sh", "-c", command], check=False).returncode
    if behaviour == "busy-once" and len(calls(folder)) == 1:
        return busy(options["-L"][0].split(":")[1])
    return forward(options, behaviour)


def parse(arguments: list[str]) -> tuple[dict[str, list[str]], str, str]:
    """Options with their values, the destination, the command as the far shell gets it."""
    options: dict[str, list[str]] = {}
    rest = list(arguments)
    while rest and rest[0] != "--":
        option = rest.pop(0)
        options.setdefault(option, []).extend([rest.pop(0)] if option[1] in WITH_VALUE else [])
    return options, rest[1], " ".join(rest[2:])


def forward(options: dict[str, list[str]], behaviour: str) -> int:
    """Listen, say so by the local command, and pass connections on."""
    settings = dict(one.split("=", 1) for one in options["-o"])
    assert settings["ExitOnForwardFailure"] == "yes"
    for one in options["-L"]:
        here, port, there, target = one.split(":")
        listener = socket.socket()
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind((here, int(port)))
        except OSError:
            return busy(port)
        listener.listen()
        words = "administratively prohibited: open failed" if behaviour == "refuses-forwards" else None
        threading.Thread(target=serve, args=(listener, (there, int(target)), words), daemon=True).start()
    subprocess.run([os.environ["SHELL"], "-c", settings["LocalCommand"]], check=True)
    if behaviour == "ends":
        return fail(f"Timeout, server {settings.get('HostName', 'there')} not responding.")
    threading.Event().wait()
    return 0


def serve(listener: socket.socket, target: tuple[str, int], refusal: str | None) -> None:
    """Accept for ever."""
    while True:
        near, _ = listener.accept()
        try:
            if refusal:
                raise ConnectionRefusedError
            far = socket.create_connection(target)
        except OSError:
            say(f"channel 3: open failed: {refusal or 'connect failed: Connection refused'}")
            near.close()
            continue
        for source, sink in ((near, far), (far, near)):
            threading.Thread(target=pump, args=(source, sink), daemon=True).start()


def pump(source: socket.socket, sink: socket.socket) -> None:
    """Copy one direction to its end."""
    try:
        while data := source.recv(65536):
            sink.sendall(data)
        sink.shutdown(socket.SHUT_WR)
    except OSError:
        source.close()
        sink.close()


def busy(port: str) -> int:
    """The port of this machine is taken."""
    return fail(
        f"bind [127.0.0.1]:{port}: Address already in use\n"
        f"channel_setup_fwd_listener_tcpip: cannot listen to port: {port}\nCould not request local forwarding."
    )


def fail(words: str) -> int:
    """Say it and return ssh's exit code for its own failures."""
    say(words)
    return 255


def say(words: str) -> None:
    """On stderr, as ssh does: with carriage returns."""
    sys.stderr.write(words.replace("\n", "\r\n") + "\r\n")
    sys.stderr.flush()


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), sys.argv[2:]))
