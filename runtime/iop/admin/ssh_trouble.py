"""Why ssh to a host failed, read out of what it said on stderr, and what to do about it."""

import re
import sys
from collections.abc import Mapping
from typing import Literal, NamedTuple

from iop.admin.ssh import Door

#: ssh's own exit code for its own failures
FAILED = 255

Kind = Literal["unreachable", "unknown_key", "changed_key", "denied", "port_busy", "config", "no_ssh", "other"]


class SshTrouble(Exception):
    """ssh to a host failed. `message` says what and where, `step` what to do about it."""

    def __init__(self, kind: Kind, message: str, step: str) -> None:
        super().__init__(f"{message}. {step}")
        self.kind = kind
        self.message = message
        self.step = step


class Reason(NamedTuple):
    """What ssh says (a regular expression), and what that means."""

    said: str
    kind: Kind
    message: str
    step: str


def trouble(host: Door, stderr: str, platform: str = sys.platform) -> SshTrouble:
    """Read why ssh failed out of what it said. What is not known is told in ssh's own last words."""
    reason = next((one for one in _REASONS if re.search(one.said, stderr)), _UNKNOWN)
    step = reason.step
    if platform == "darwin" and "No route to host" in stderr:
        step = f"{step}. {_LOCAL_NETWORK}"
    facts = _facts(host, stderr)
    return SshTrouble(reason.kind, reason.message.format_map(facts), step.format_map(facts))


def late(host: Door, seconds: float) -> SshTrouble:
    """The trouble of an ssh that was given up after so many seconds."""
    message = f"{host.name} ({host.address}) did not answer within {seconds:.0f} s"
    return SshTrouble("unreachable", message, _UP.format_map(_facts(host, "")))


def no_program() -> SshTrouble:
    """The trouble of a machine without an ssh client."""
    return SshTrouble(
        "no_ssh", "there is no `ssh` on PATH", "Install the OpenSSH client (apt-get install openssh-client)"
    )


def _facts(host: Door, stderr: str) -> Mapping[str, str]:
    offending = re.search(r"^Offending .*key in (\S+):\d+", stderr, re.MULTILINE)
    name = f"[{host.address}]:{host.port}" if host.port not in {None, 22} else host.address
    return {
        "name": host.name,
        "address": host.address,
        "user": host.user or "this user",
        "by_hand": host.by_hand,
        "said": _last_line(stderr) or "it said nothing",
        "forget": f"ssh-keygen{f' -f {offending[1]}' if offending else ''} -R '{name}'",
    }


def _last_line(stderr: str) -> str:
    lines = [line.strip() for line in stderr.splitlines() if line.strip() and not line.startswith("debug")]
    return lines[-1].rstrip(".") if lines else ""


_LOCAL_NETWORK = (
    "If other programs of this Mac reach it, macOS withholds the local network from this one: allow your terminal in "
    "System Settings > Privacy & Security > Local Network and start it anew"
)
_COMPARE = (
    "On {name} itself show its key: ssh-keygen -lf /etc/ssh/ssh_host_ed25519_key.pub (Windows: C:\\ProgramData\\ssh). "
)
_UP = "Is it up, and is its address right? Try: {by_hand}"
_START = (
    "Start it (Linux: systemctl enable --now ssh; macOS: System Settings > General > Sharing > Remote Login; "
    "Windows: Start-Service sshd), or correct `ssh_port`"
)
_UNKNOWN = Reason("", "other", "ssh to {name} ({address}) failed: {said}", "Try: {by_hand}")
#: the first match counts
_REASONS = (
    Reason(
        r"REMOTE HOST IDENTIFICATION HAS CHANGED|Host key for .* has changed",
        "changed_key",
        "{name} ({address}) shows a host key that is not the known one: it was installed anew, or it is not {name}",
        _COMPARE + "Only if that is the new one: {forget}, then {by_hand} and compare the fingerprint again",
    ),
    Reason(
        r"Host key verification failed|No \S+ host key is known",
        "unknown_key",
        "the host key of {name} ({address}) is not known here",
        _COMPARE + "Then here, once: {by_hand} and say yes if the fingerprint is the same",
    ),
    Reason(
        r"UNPROTECTED PRIVATE KEY FILE|bad permissions",
        "denied",
        "the private key for {name} is readable by others, so ssh does not use it",
        "chmod 600 the key file, then try: {by_hand}",
    ),
    Reason(
        r"Permission denied|Too many authentication failures|No supported authentication methods",
        "denied",
        "{name} ({address}) does not let {user} in by key: {said}",
        "Load the key (ssh-add) or put it there (ssh-copy-id), then try: {by_hand}",
    ),
    Reason(
        r"cannot listen to port|Address already in use|Could not request local forwarding",
        "port_busy",
        "a port of this machine was taken before ssh could forward it to {name}",
        "Run it again",
    ),
    Reason(
        r"Can't open user config file",
        "config",
        "the ssh configuration for {name} is not there: {said}",
        "`ssh_config` in the inventory names it; that of the lab is written by `make lab`",
    ),
    Reason(
        r"Bad configuration option|terminating, \d+ bad|Bad owner or permissions",
        "config",
        "the ssh configuration for {name} cannot be used: {said}",
        "Mend that file, then try: {by_hand}",
    ),
    Reason(
        r"Could not resolve hostname",
        "unreachable",
        "the address of {name} is not known: {said}",
        "Correct `address` in its connection.yml, or the name service",
    ),
    Reason(r"Connection refused", "unreachable", "no ssh server answers on {name} ({address}): {said}", _START),
    Reason(
        r"timed out|No route to host|Network is unreachable|Host is down|Timeout, server .* not responding",
        "unreachable",
        "{name} ({address}) cannot be reached: {said}",
        _UP,
    ),
    Reason(
        r"Connection closed|Connection reset|kex_exchange_identification|banner exchange|Broken pipe",
        "unreachable",
        "{name} ({address}) ended the connection: {said}",
        "It may still be starting, or turn away many logins at once: wait a little, then try: {by_hand}",
    ),
)
