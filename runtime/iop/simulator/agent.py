"""A stand-in CLI agent: reads the prompt from stdin until EOF and answers with it, word by word."""

import time
from collections.abc import Callable, Iterator
from typing import BinaryIO

PREFIX = b"agent: "


def words(data: bytes) -> Iterator[bytes]:
    """Split into pieces that end after each space; joined they are `data`."""
    start = 0
    while start < len(data):
        end = data.find(b" ", start) + 1 or len(data)
        yield data[start:end]
        start = end


def answer(
    stdin: BinaryIO, stdout: BinaryIO, *, delay: float = 0.0, sleep: Callable[[float], None] = time.sleep
) -> None:
    """Write `agent: ` and the prompt: at once, or word by word with `delay` seconds before each."""
    text = PREFIX + stdin.read()
    for piece in words(text) if delay else (text,):
        sleep(delay)
        stdout.write(piece)
        stdout.flush()
