"""A sink that keeps what an adapter passes on."""

import asyncio
from collections.abc import Sequence


class KeptAnswer:
    """`status` and `headers` of the head (None before it), `pieces` of the body, `gate` to hold the reader up."""

    def __init__(self) -> None:
        self.status: int | None = None
        self.headers: dict[str, str] = {}
        self.pieces: list[bytes] = []
        self.gate = asyncio.Event()
        self.gate.set()

    @property
    def data(self) -> bytes:
        """The body so far."""
        return b"".join(self.pieces)

    async def head(self, status: int, headers: Sequence[tuple[str, str]]) -> None:
        """Keep the head; a second one is an error."""
        assert self.status is None
        self.status = status
        self.headers = dict(headers)

    def offer(self, data: bytes) -> memoryview | None:
        """Keep a piece, if the gate is open."""
        assert self.status is not None
        if not self.gate.is_set():
            return memoryview(data)
        self.pieces.append(data)
        return None

    async def body(self, data: bytes) -> None:
        """Keep a piece, once the gate is open."""
        assert self.status is not None
        await self.gate.wait()
        self.pieces.append(data)
