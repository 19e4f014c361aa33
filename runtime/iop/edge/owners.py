"""Which provider made which response: engines keep their own, so a request that continues one must go there."""

from collections import OrderedDict

#: responses that are remembered; of older ones their requests go to any provider, as if iop had never seen them
REMEMBERED = 16_384
#: characters of an id that is remembered; engines make ids of 20 to 60
LONGEST_ID = 256


class ResponseOwners:
    """The newest responses and their providers, at most `limit`."""

    def __init__(self, limit: int = REMEMBERED) -> None:
        self._limit = limit
        self._owners: OrderedDict[str, str] = OrderedDict()

    def note(self, response_id: str, provider_id: str) -> None:
        """A provider made this response."""
        if len(response_id) > LONGEST_ID:
            return
        self._owners[response_id] = provider_id
        self._owners.move_to_end(response_id)
        if len(self._owners) > self._limit:
            self._owners.popitem(last=False)

    def of(self, response_id: str | None) -> str | None:
        """Return the provider that made it; None when that is not known."""
        return None if response_id is None else self._owners.get(response_id)
