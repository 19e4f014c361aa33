"""Builds the simulator process."""

from iop.simulator.app import Simulator, SimulatorSpec
from iop.transport.http_server import Listener, listen
from iop.transport.listening import join_address, split_address

#: seconds that open answers get at the end
STOP_WITHIN = 0.1


class SimulatorService:
    """Serves one simulated engine. Nothing of it is worth a drain: its end cuts what runs, as an engine's does."""

    def __init__(self, spec: SimulatorSpec, listen: str) -> None:
        self._host, self._port = split_address(listen)
        self._app = Simulator(spec).app()
        self._listener: Listener | None = None

    async def start(self) -> str:
        """Bind and return the ready line. Raises PortBusy."""
        self._listener = await listen(self._app, self._host, self._port, stop_within=STOP_WITHIN)
        return f"ready simulator={join_address(self._host, self._listener.port)}"

    async def drain(self) -> None:
        """Nothing to finish."""

    async def stop(self) -> None:
        """Close the port and cut what runs."""
        if self._listener is not None:
            await self._listener.close()
