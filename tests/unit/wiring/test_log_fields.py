"""The allow-list of log fields, and how they are written."""

import logging

import msgspec
import pytest

from iop.wiring.log_fields import FIELDS, MAX_TEXT, fields_of, logfmt, visible


def _record(fields: object) -> logging.LogRecord:
    record = logging.LogRecord("iop.x", logging.INFO, "", 0, "request", None, None)
    record.fields = fields
    return record


def test_only_listed_names_of_their_type_are_written() -> None:
    """A name that nobody listed, or a value of another type, is dropped: so no object can bring its insides along."""
    given = {"status": 200, "authorization": "Bearer x", "body": "prompt", "model": ["m"], "path": b"/x", "stream": 1}
    assert fields_of(_record(given)) == {"status": 200}
    assert fields_of(_record("status")) == {}
    assert fields_of(logging.LogRecord("iop.x", logging.INFO, "", 0, "words", None, None)) == {}


def test_a_listed_field_may_be_none_and_comes_in_the_order_of_the_list() -> None:
    """JSON has all that apply to the line; the order is the same for each line."""
    given = dict.fromkeys(reversed(FIELDS), None)
    assert list(fields_of(_record(given))) == list(FIELDS)


def test_a_long_text_is_cut() -> None:
    """A client cannot fill the disk with one name."""
    told = fields_of(_record({"model": "m" * 100_000}))["model"]
    assert told == "m" * MAX_TEXT + "…"


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("local-chat", "model=local-chat"),
        ("two words", 'model="two words"'),
        ('a" outcome="completed', r'model="a\" outcome=\"completed"'),
        ("a\nINFO fake", r'model="a\\x0aINFO fake"'),
        ("\x1b[31mred\x9b0m", r'model="\\x1b[31mred\\x9b0m"'),
        ("back\u202eward\u2028", r'model="back\\u202eward\\u2028"'),
        ("half \ud800", r'model="half \\ud800"'),
        ("", 'model=""'),
        ("모델", "model=모델"),
    ],
)
def test_a_clients_text_cannot_end_a_field_or_a_line(text: str, told: str) -> None:
    """What is no plain word is a JSON string; controls, line ends and direction marks are written out."""
    assert logfmt(fields_of(_record({"model": text}))) == told
    assert len(told.splitlines()) == 1


def test_numbers_and_truths_are_plain() -> None:
    """None is left out."""
    assert logfmt({"status": 200, "stream": True, "key": None, "queue_ms": 0}) == "status=200 stream=true queue_ms=0"


def test_what_is_visible_stays() -> None:
    """Letters of every script pass; JSON can carry what is left."""
    assert visible("über 모델 😀") == "über 모델 😀"
    assert msgspec.json.encode(visible("\udfff\x00")).decode() == r'"\\udfff\\x00"'
