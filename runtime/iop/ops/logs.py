"""The logs of a host's services, where its service manager keeps them."""

import base64
from collections.abc import Sequence

from iop.config.inventory import Inventory
from iop.ops.shell import Shell

#: prints the last lines of files and, asked to, follows them: the same on every system. What a terminal would obey is
#: written out, as the journal does: a log holds what strangers sent
_FOLLOWER = """
import glob, os, sys, time
pattern, lines, follow = sys.argv[1], int(sys.argv[2]), sys.argv[3] == 'follow'
files = sorted(glob.glob(pattern))
if not files:
    sys.exit('no log at ' + pattern)
places = {}
def plain(text):
    return ''.join(c if c == '\\t' or c.isprintable() else c.encode('unicode_escape').decode() for c in text)
def show(name, text):
    if text:
        sys.stdout.write(''.join('%s | %s\\n' % (os.path.basename(name)[:-4], plain(one)) for one in text.splitlines()))
        sys.stdout.flush()
for name in files:
    with open(name, encoding='utf-8', errors='replace') as file:
        text = file.read()
        places[name] = file.tell()
    show(name, '\\n'.join(text.splitlines()[-lines:]))
while follow:
    time.sleep(0.5)
    for name in files:
        if os.path.getsize(name) < places[name]:
            places[name] = 0
        with open(name, encoding='utf-8', errors='replace') as file:
            file.seek(places[name])
            show(name, file.read())
            places[name] = file.tell()
"""
TAIL_LINES = 15


def command(inventory: Inventory, name: str, services: Sequence[str], lines: int, *, follow: bool = False) -> list[str]:
    """What shows the logs of these services of a host (none = all) when run there."""
    shell = Shell(inventory, name)
    if shell.host.service_manager == "systemd":
        units = [part for one in services for part in ("-u", unit(one))] or ["-u", "iop-*"]
        return ["journalctl", *units, "-n", str(lines), "-o", "short-iso", "--no-pager", *(["-f"] if follow else [])]
    folder = inventory.host_root(name) / "shared" / "logs"
    stem = services[0] if len(services) == 1 else "*"
    pattern, mode = str(folder / f"{stem}.log"), "follow" if follow else "once"
    # in one line and without a quote that some shell would read
    program = f"import base64;exec(base64.b64decode('{base64.b64encode(_FOLLOWER.encode()).decode()}'))"
    return [shell.python, "-I", "-u", "-c", program, pattern, str(lines), mode]


def tail(inventory: Inventory, name: str, service: str) -> str:
    """The end of one service's log; its host's words where there is none. Raises `SshTrouble`."""
    ran = Shell(inventory, name).run(command(inventory, name, [service], TAIL_LINES))
    return (ran.stdout or ran.stderr).strip()


def unit(service: str) -> str:
    """The systemd unit of a service: `gx10.node` is iop-node, `gx10-vllm.engine` is iop-engine-gx10-vllm."""
    owner, _, kind = service.rpartition(".")
    return f"iop-engine-{owner}" if kind == "engine" else f"iop-{kind}"
