"""The simulator's service: ready line, port that is busy, stop."""

import socket

import aiohttp
import pytest

from iop.simulator.app import SimulatorSpec
from iop.transport.listening import PortBusy
from iop.wiring.simulator import SimulatorService

SPEC = SimulatorSpec(model="m", slots=1, tokens_per_second=100.0)


async def test_ready_line_names_the_real_port():
    """Port 0 becomes the port that answers; after the stop nothing listens there."""
    service = SimulatorService(SPEC, "127.0.0.1:0")
    try:
        name, _, address = (await service.start()).partition("=")
        assert name == "ready simulator"
        async with aiohttp.ClientSession() as http, http.get(f"http://{address}/stats") as response:
            assert response.status == 200
        await service.drain()
    finally:
        await service.stop()
    with socket.socket() as client:
        assert client.connect_ex(("127.0.0.1", int(address.rpartition(":")[2]))) != 0


async def test_a_busy_port_is_told():
    """A taken port is PortBusy, and the stop after it is clean."""
    with socket.create_server(("127.0.0.1", 0)) as other:
        service = SimulatorService(SPEC, f"127.0.0.1:{other.getsockname()[1]}")
        with pytest.raises(PortBusy):
            await service.start()
        await service.stop()
