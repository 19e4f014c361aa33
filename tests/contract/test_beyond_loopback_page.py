"""The commands of the page on TLS by hand do what it says."""

import asyncio
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from iop.config.load import load_control, load_edge, load_node
from iop.transport.tls import ClientTls, ServerTls, client_context, dial
from iop.transport.tls_server import serve_tls
from tests.fakes import pages

PAGE = pages.text_of("docs/how-to/beyond-loopback.md")
SECTION = re.compile(r"^## (\d)\. .*?$(.*?)(?=^## )", re.MULTILINE | re.DOTALL)


def blocks(section: str) -> list[str]:
    """The indented blocks of a section."""
    text = dict(SECTION.findall(PAGE))[section]
    return [
        re.sub(r"^    ", "", block, flags=re.MULTILINE)
        for block in re.findall(r"(?:^(?:    .*)?\n)+", text, re.MULTILINE)
        if block.strip()
    ]


async def _handshake(server: ServerTls, client: ClientTls) -> None:
    listening = await serve_tls(asyncio.Protocol, "127.0.0.1", 0, server)
    await dial(asyncio.Protocol, "127.0.0.1", listening.address[1], client)
    listening.close()
    await listening.wait_closed()


@pytest.mark.skipif(shutil.which("openssl") is None, reason="openssl is not installed")
def test_the_commands_and_files_work_together(tmp_path: Path) -> None:
    """Run in order they make files with which the page's three configs pass, and a pinned CA trusts the Edge."""
    shell = "set -e\n" + "\n".join((*blocks("1"), *blocks("2")))
    done = subprocess.run(["sh", "-c", shell], cwd=tmp_path, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0, done.stderr
    digest = done.stdout.strip().splitlines()[-1]
    edge = blocks("3")[0].replace("<printed above>", digest)
    (tmp_path / "edge.yaml").write_text("edge: {id: edge-test}\nmodels: []\n" + edge)
    (tmp_path / "node.yaml").write_text(blocks("4")[0])
    (tmp_path / "control.yaml").write_text(blocks("5")[-1])

    assert {f.code for f in load_edge(tmp_path / "edge.yaml").findings} == {"no_models", "no_providers"}
    assert load_node(tmp_path / "node.yaml").findings == ()
    assert load_control(tmp_path / "control.yaml").findings == ()
    pair = ServerTls(str(tmp_path / "edge.pem"), str(tmp_path / "edge.key"))
    asyncio.run(_handshake(pair, lambda: client_context(str(tmp_path / "ca.pem"))))
