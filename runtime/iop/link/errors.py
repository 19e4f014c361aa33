"""Failures of the link."""


class WireError(Exception):
    """The peer sent what the protocol does not allow; the link must be closed. The text is fit for a log line."""
