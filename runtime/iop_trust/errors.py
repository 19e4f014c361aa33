"""The one error this package raises on purpose: a sentence for a person, and what to do next."""


class TrustError(Exception):
    """It cannot be done; `str(error)` is the whole message, the hint included. Never holds a secret."""

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(f"{message}\n  next: {hint}" if hint else message)
