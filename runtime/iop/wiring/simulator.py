"""Builds the simulator process."""

from aiohttp import web

from iop.simulator.app import Simulator, SimulatorSpec
from iop.transport.listening import join_address, listening, split_address


class SimulatorService:
    """Serves one simulated engine. Nothing of it is worth a drain: its end cuts what runs, as an engine's does."""

    def __init__(self, spec: SimulatorSpec, listen: str) -> None:
        self._host, self._port = split_address(listen)
        self._runner: web.AppRunner = Simulator(spec).runner()

    async def start(self) -> str:
        """Bind and return the ready line. Raises PortBusy."""
        await self._runner.setup()
        with listening(self._host, self._port):
            await web.TCPSite(self._runner, self._host, self._port).start()
        return f"ready simulator={join_address(self._host, self._runner.addresses[0][1])}"

    async def drain(self) -> None:
        """Nothing to finish."""

    async def stop(self) -> None:
        """Close the port and cut what runs."""
        await self._runner.cleanup()
