"""Control messages to JSON bytes and back."""

from typing import Any

import msgspec

from iop.link.errors import WireError
from iop.link.messages import Message


class Codec:
    """Encodes and decodes control messages. Holds no state of the link."""

    def __init__(self) -> None:
        self._encoder = msgspec.json.Encoder()
        self._decoder: msgspec.json.Decoder[Message] = msgspec.json.Decoder(Message)

    def encode(self, message: Message) -> bytes:
        """JSON bytes of `message`. Lone surrogates (undecodable bytes of a program's output) become `?`."""
        try:
            return self._encoder.encode(message)
        except UnicodeEncodeError:
            return self._encoder.encode(_without_surrogates(msgspec.to_builtins(message)))

    def decode(self, payload: bytes) -> Message:
        """The message in `payload`. Unknown fields are ignored. Raises WireError on anything else."""
        try:
            return self._decoder.decode(payload)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
            raise WireError(f"not a message of this protocol: {error}") from error


def _without_surrogates(value: Any) -> Any:  # noqa: ANN401 - JSON-like builtins of any shape
    match value:
        case str():
            return value.encode("utf-8", "replace").decode("utf-8")
        case dict():
            return {_without_surrogates(key): _without_surrogates(item) for key, item in value.items()}
        case list() | tuple():
            return [_without_surrogates(item) for item in value]
        case _:
            return value
