"""Builds a node from node.yaml."""

import logging
import os
import platform
import signal
import sys
import uuid
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path

import msgspec

from iop import __version__
from iop.adapters.cli.adapter import CliAdapter
from iop.adapters.cli.readiness import user
from iop.adapters.cli.trees import end_orphans
from iop.adapters.contract import Adapter
from iop.adapters.openai_compat.adapter import OpenAICompat
from iop.config.models import NodeConfig
from iop.link.messages import CliTarget, EngineInstance, Hello, NodeRuntimeConfig
from iop.node.dialer import Dialer
from iop.node.memory import Memory, Remembered
from iop.node.service import Identity, NodeParts, NodeService
from iop.node.status import StopToken
from iop.transport.tls import client_context

_log = logging.getLogger(__name__)


class HostAdapters:
    """Builds adapters with what only this host knows: key files and programs, found from node.yaml's folder."""

    def __init__(self, folder: Path, cli_commands: Mapping[str, tuple[str, ...]]) -> None:
        self._folder = folder
        self._cli_commands = cli_commands

    def cli(self, targets: tuple[CliTarget, ...]) -> Adapter:
        """Build the CLI adapter; `cli_commands` of node.yaml replaces a target's command."""
        return CliAdapter(tuple(self.resolve(target) for target in targets))

    def engine(self, instance: EngineInstance) -> Adapter:
        """Build an engine's adapter. Raises OSError when its key file cannot be read, ValueError when it is empty."""
        return OpenAICompat(instance, api_key=self._api_key(instance))

    def resolve(self, target: CliTarget) -> CliTarget:
        """Return the target as it runs here: relative paths of program and `cwd` count from node.yaml's folder.

        A bare program name is left to PATH. Without `cwd` it runs in that folder, so that arguments count from there.
        """
        command = self._cli_commands.get(target.name, target.command)
        return msgspec.structs.replace(
            target,
            command=(self._program(command[0]), *command[1:]),
            cwd=str(self._folder / (target.cwd or "")),
        )

    def _program(self, name: str) -> str:
        has_folder = "/" in name or "\\" in name
        return str(self._folder / name) if has_folder else name

    def _api_key(self, instance: EngineInstance) -> str | None:
        if instance.api_key_file is None:
            return None
        path = self._folder / instance.api_key_file
        key = read_secret(path)
        if not key:
            raise ValueError(f"the API key file {path} is empty")
        return key


def build_node(config: NodeConfig, *, folder: Path, release_id: str) -> NodeService:
    """Build the node process of `config`, whose file stands in `folder`. Needs a running loop.

    Agents that a killed node process has left running on this host are ended first. Starting it raises OSError when a
    named `state_dir` cannot be written.
    """
    node_id = config.node.id
    address = config.edge.addr
    token_file = config.node.token_file
    ca_file = config.edge.ca_file
    tls = partial(client_context, ca_file) if ca_file is not None else None  # read at each dial
    cli_commands = {name: tuple(command) for name, command in config.cli_commands.items()}
    end_orphans()

    def dialer(hello: Callable[[], Hello], service: NodeService) -> Dialer:
        return Dialer(address=(address.host, address.port), hello=hello, handler=service, tls=tls)

    return NodeService(
        NodeParts(
            identity=Identity(
                node_id=node_id,
                instance_id=uuid.uuid4().hex,
                version=__version__,
                release_id=release_id,
                platform=f"{sys.platform}-{platform.machine().lower()}",
            ),
            factory=HostAdapters(folder, cli_commands),
            dialer=dialer,
            edge_address=str(address),
            read_token=lambda: read_secret(Path(token_file)) if token_file is not None else None,
            status_listen=(config.status_listen.host, config.status_listen.port),
            make_stop_token=lambda: _stop_token(config, folder),
            remember=partial(_remember, Memory(state_folder(config, folder), node_id)),
            # not os.kill: on Windows that ends the process at once instead of telling it
            request_stop=lambda: signal.raise_signal(signal.SIGTERM),
        )
    )


def _remember(memory: Memory, status: str, runtime: NodeRuntimeConfig) -> None:
    telling = {name: os.environ[name] for name in ("HOME", "PATH") if name in os.environ}
    memory.keep(Remembered(status=status, runtime=runtime, user=user(), environment=telling))


def read_secret(path: Path) -> str:
    """Read a token or key file: UTF-8, surrounding blanks taken off. Raises OSError, its text without the contents."""
    try:
        return path.read_text(encoding="utf-8").strip()
    except UnicodeDecodeError:
        raise OSError(f"{path} is not a text file") from None


def state_folder(config: NodeConfig, folder: Path) -> Path:
    """Return where the node keeps its state: `state_dir`, else `state/` beside node.yaml."""
    return Path(config.state_dir) if config.state_dir is not None else folder / "state"


def _stop_token(config: NodeConfig, folder: Path) -> StopToken | None:
    try:
        return StopToken.make(state_folder(config, folder), config.node.id)
    except OSError as error:
        if config.state_dir is not None:
            raise
        _log.warning("no stop token (%s): POST /stop is not available; set state_dir to a folder of this user", error)
        return None
