"""Which check fits which answer, and what each says."""

from dataclasses import dataclass

import pytest

from iop.adapters.openai_compat import checks


@dataclass
class Head:
    """What a check needs to know of an answer."""

    status: int = 200
    kind: str = "application/json"
    ends_with_connection: bool = False

    def header(self, name):
        """Return the content type."""
        assert name == "content-type"
        return self.kind


STREAM = "text/event-stream; charset=utf-8"
HALF = b'data: {"choices": []}\n\n'


@pytest.mark.parametrize(
    ("head", "stream", "body", "failure"),
    [
        (Head(), False, b"{", None),  # HTTP's own length was kept: what is inside is the engine's affair
        (Head(ends_with_connection=True), False, b"{", "broken"),
        (Head(ends_with_connection=True, kind="application/problem+json"), False, b"{}", None),
        (Head(ends_with_connection=True, kind="text/plain"), False, b"{", None),
        (Head(ends_with_connection=True), False, b"Not Found", "broken"),
        (Head(status=404, ends_with_connection=True), False, b"Not Found", None),
        (Head(status=404, ends_with_connection=True), False, b"", None),
        (Head(status=404, ends_with_connection=True), False, b' {"error": "no', "broken"),
        (Head(ends_with_connection=True), False, b"[" * 200_000, None),
        (Head(status=500), False, b"", "status"),
        (Head(status=503, kind=STREAM), True, b"", "status"),
        (Head(kind=STREAM), True, HALF, None),
        (Head(kind=STREAM, ends_with_connection=True), True, HALF, "broken"),
        (Head(kind="", ends_with_connection=True), True, HALF, "broken"),
        (Head(kind=STREAM), False, b'data: {"error": {"message": "x"}}\n\n', "error_event"),
        (Head(status=400, kind=STREAM), True, b"", None),
    ],
)
def test_verdicts(head, stream, body, failure):
    """Status, type and framing choose what is looked at."""
    check = checks.check_for(head, "chat.completions", stream=stream)
    check.feed(body)
    assert check.verdict().failure == failure


def test_very_long_json_is_not_kept(monkeypatch):
    """Beyond the bound an answer is taken as it comes, and memory stays bounded."""
    monkeypatch.setattr(checks, "MAX_KEPT", 10)
    check = checks.check_for(Head(ends_with_connection=True), "responses", stream=False)
    for _ in range(3):
        check.feed(b"{" * 6)
    assert check.verdict() == checks.COMPLETED
    assert len(check._kept) <= 10
