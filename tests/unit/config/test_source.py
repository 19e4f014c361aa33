"""YAML text to data: what YAML lets pass in silence is refused with its line (field case B52)."""

from typing import Any

import pytest

from iop.config.document import Odd
from iop.config.source import MAX_CHARS, MAX_DEPTH, MAX_VALUES, decode, parse


def _data(text: str) -> Any:
    document, findings = parse(text, "f.yaml")
    assert findings == ()
    assert document is not None
    return document.data


def _codes(text: str) -> list[tuple[str, int]]:
    return [(finding.code, finding.line) for finding in parse(text, "f.yaml")[1]]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a: 1\na: 2\n", [("yaml_duplicate_key", 2)]),
        ("a: {b: 1, c: 2, b: 3}\nd: 1\nd: 1", [("yaml_duplicate_key", 1), ("yaml_duplicate_key", 3)]),
        ('a: 1\n"a": 2\n', [("yaml_duplicate_key", 2)]),
        ("a:\n\tb: 1\n", [("yaml_tab", 2)]),
        ("a:\n  - b\n\t- c\n", [("yaml_tab", 3)]),
        ("a: [1\nb: 2\n", [("yaml_syntax", 2)]),
        ("a: 1\n b: 2\n", [("yaml_syntax", 2)]),
        ("a: b: c\n", [("yaml_syntax", 1)]),
        ('a: "open\nb: 1\n', [("yaml_syntax", 3)]),
        ("a: *nobody\n", [("yaml_syntax", 1)]),
        ("a: 1\n---\nb: 2\n", [("yaml_syntax", 2)]),
        ("a: 1\n...\n%BAD\n", [("yaml_syntax", 4)]),
        ("", [("yaml_empty", 1)]),
        ("# nothing\n", [("yaml_empty", 1)]),
        ("- a\n", [("wrong_type", 1)]),
        ("just text\n", [("wrong_type", 1)]),
        ("~\n", [("wrong_type", 1)]),
        ("a: 1\nb: \0\n", [("yaml_encoding", 2)]),
        ("a: 1\n\0", [("yaml_encoding", 2)]),
        ("a: 1\n\ufeffb: 2\n", [("yaml_encoding", 2)]),
        ("a: \x07\n", [("yaml_encoding", 1)]),
        ("a: \ud800\n", [("yaml_encoding", 1)]),
        ("on: 1\n", [("quote_it", 1)]),
        ("a:\n  1: x\n  ~: y\n  2026-01-02: z\n", [("quote_it", 2), ("quote_it", 3), ("quote_it", 4)]),
        ("? [a, b]\n: 1\n", [("yaml_key", 1)]),
        ("a: !!python/object:os.system x\n", [("yaml_tag", 1)]),
        ("a: !custom {b: 1}\n", [("yaml_tag", 1)]),
        ("a: !!set {b}\n", [("yaml_tag", 1)]),
        ("a: &x [*x]\n", [("yaml_alias", 1)]),
        ("<<: 1\n", [("yaml_merge", 1)]),
        ("a: &a {<<: *a}\n", [("yaml_too_large", 1)]),
    ],
)
def test_faults_are_named_with_their_line(text: str, expected: list[tuple[str, int]]) -> None:
    """Field case B52: each trap has its code and its line."""
    assert _codes(text) == expected


@pytest.mark.parametrize("text", ["\ufeffa: 1\nb: 2\n", "a: 1\r\nb: 2\r\n", "\ufeffa: 1\r\nb: 2\r\n", "a: 1\rb: 2"])
def test_byte_order_mark_and_windows_line_ends_are_accepted(text: str) -> None:
    """Field case B52: a file saved by Notepad reads as any other."""
    assert _data(text) == {"a": 1, "b": 2}


def test_positions_count_from_one_and_point_at_key_and_value() -> None:
    """Key and value each have their line and column."""
    document, _ = parse("a: 1\nb:\r\n  - c: x\n", "f.yaml")
    assert document is not None
    assert document.keys[("b", 0, "c")] == (3, 5)
    assert document.values[("b", 0, "c")] == (3, 8)
    assert document.values[("b", 0)] == (3, 5)


@pytest.mark.parametrize(
    ("scalar", "value"),
    [
        ("3", 3),
        ("-3", -3),
        ("1.5", 1.5),
        ("true", True),
        ("off", False),
        ("~", None),
        ("", None),
        ("text", "text"),
        ("'3'", "3"),
        ('"on"', "on"),
        ("!!str 3", "3"),
        ("127.0.0.1:0", "127.0.0.1:0"),
        ("=", "="),
    ],
)
def test_scalars_are_what_yaml_says(scalar: str, value: object) -> None:
    """Plain numbers, booleans and texts are read as YAML reads them."""
    data = _data(f"a: {scalar}\n")
    assert data == {"a": value}
    assert type(data["a"]) is type(value)


@pytest.mark.parametrize(
    ("scalar", "reading"),
    [
        ("010", "an octal number"),
        ("0x10", "hexadecimal"),
        ("0b1", "binary"),
        ("1_000", "a number with underscores"),
        ("1:30", "base 60"),
        ("1:30.5", "base 60"),
        ("2026-01-02", "a date"),
        (".inf", "a number"),
        ("9" * 5000, "a very large number"),
    ],
)
def test_surprises_of_yaml_1_1_keep_their_text(scalar: str, reading: str) -> None:
    """What YAML 1.1 reads as something nobody meant is kept apart, with its text."""
    assert _data(f"a: {scalar}\n") == {"a": Odd(scalar, reading)}


def test_aliases_and_merge_keys_are_supported() -> None:
    """Own keys win over merged ones; of several merged mappings the first one wins."""
    text = "x-a: &a {k: 1, l: 2}\nx-b: &b {l: 3, m: 4}\nc: {<<: [*a, *b], k: 0}\nd: *a\n"
    data = _data(text)
    assert data["c"] == {"k": 0, "l": 2, "m": 4}
    assert data["d"] == {"k": 1, "l": 2}


def _bomb(pattern: str) -> str:
    lines = ["a0: &a0 [x, x]" if pattern == "[*{0}, *{0}]" else "a0: &a0 {x: 1}"]
    lines += [f"a{i}: &a{i} {pattern.format(f'a{i - 1}')}" for i in range(1, 36)]
    return "\n".join(lines) + "\n"


@pytest.mark.parametrize("pattern", ["[*{0}, *{0}]", "{{<<: [*{0}, *{0}]}}"])
def test_alias_bombs_are_bounded(pattern: str) -> None:
    """Field case B52: 36 lines that would grow to 2^36 values are refused."""
    assert [code for code, _ in _codes(_bomb(pattern))] == ["yaml_too_large"]


def test_large_and_deep_files_are_refused() -> None:
    """Length, number of values and depth have bounds."""
    assert _codes("a: " + "x" * MAX_CHARS) == [("yaml_too_large", 1)]
    assert _codes("a: [" + "x," * MAX_VALUES + "]\n") == [("yaml_too_large", 1)]
    assert _codes("a: " + "[" * (MAX_DEPTH + 1) + "]" * (MAX_DEPTH + 1)) == [("yaml_too_large", 1)]


def test_a_long_chain_of_aliases_is_too_deep() -> None:
    """Depth counts through aliases: what no line nests deeply may still be deep."""
    chain = ["a0: &a0 [x]"] + [f"a{i}: &a{i} [*a{i - 1}]" for i in range(1, 100)]
    assert _codes("\n".join(chain) + "\n") == [("yaml_too_large", 1)]


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-16-be", "utf-32"])
def test_other_encodings_are_refused(encoding: str) -> None:
    """Field case B52: a UTF-16 file is refused with its line, whatever its byte order."""
    text, findings = decode("edge: {id: x}\n".encode(encoding), "f.yaml")
    assert text is None
    assert [(f.code, f.line) for f in findings] == [("yaml_encoding", 1)]


def test_a_byte_that_is_not_utf8_is_named_with_its_line() -> None:
    """A Latin-1 umlaut is refused where it stands."""
    text, findings = decode("a: ä\nb: ".encode() + b"\xfc\n", "f.yaml")
    assert text is None
    assert [(f.code, f.line, f.column) for f in findings] == [("yaml_encoding", 2, 4)]


def test_utf8_is_kept_as_it_is() -> None:
    """Decoding keeps byte-order mark and line ends, so that the hash of text and file agree."""
    raw = b"\xef\xbb\xbfa: \xc3\xa4\r\n"
    assert decode(raw, "f.yaml") == ("\ufeffa: ä\r\n", ())
