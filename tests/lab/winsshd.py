"""An sshd that is itself a Windows process; its shell is cmd.exe, the default of Windows' OpenSSH.

`winsshd.py PORT HOST_KEY AUTHORIZED_KEYS`, run by a Windows Python (see windows.sh).
"""

import asyncio
import sys

import asyncssh


async def run(process: asyncssh.SSHServerProcess) -> None:
    """One command, or a shell; its exit code is the session's."""
    child = await asyncio.create_subprocess_shell(
        process.command or "cmd.exe",
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    await process.redirect(stdin=child.stdin, stdout=child.stdout, stderr=child.stderr)
    code = await child.wait()
    await process.stdout.drain()
    process.exit(code)


async def main(port: str, host_key: str, authorized_keys: str) -> None:
    """Serve until ended."""
    await asyncssh.listen(
        "0.0.0.0",
        int(port),
        server_host_keys=[host_key],
        authorized_client_keys=authorized_keys,
        process_factory=run,
        sftp_factory=True,
        encoding=None,
    )
    await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:4]))
