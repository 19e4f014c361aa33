"""The one error this package raises on purpose: a sentence for a person, and what to do next."""


class ReleaseError(Exception):
    """A step cannot be done; `str(error)` is the whole message, the hint included."""

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(f"{message}\n  {hint}" if hint else message)
