"""A plain socket client: bytes out, bytes in, nothing interpreted."""

import asyncio
import ssl as tls


async def raw(host: str, port: int, data: bytes, *, shut: bool = False, ssl: tls.SSLContext | None = None) -> bytes:
    """Send `data` (then shut the sending side down if `shut`) and return everything until the server closes."""
    reader, writer = await asyncio.open_connection(host, port, ssl=ssl)
    try:
        writer.write(data)
        await writer.drain()
        if shut:
            writer.write_eof()
        return await asyncio.wait_for(reader.read(), 20)
    finally:
        writer.close()


def request(path: str, body: bytes = b"", *, method: str = "POST", headers: tuple[str, ...] = ()) -> bytes:
    """Return the bytes of a request that closes its connection."""
    lines = [
        f"{method} {path} HTTP/1.1",
        "Host: 127.0.0.1",
        "Connection: close",
        f"Content-Length: {len(body)}",
        *headers,
    ]
    return ("\r\n".join(lines) + "\r\n\r\n").encode() + body
