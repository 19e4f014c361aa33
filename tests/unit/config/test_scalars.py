"""Durations, sizes, addresses, URLs, hashes."""

import pytest
from pydantic import TypeAdapter, ValidationError

from iop.config.scalars import (
    Address,
    Duration,
    DurationOrZero,
    Endpoint,
    Identifier,
    ModelId,
    Sha256,
    format_duration,
    format_size,
    parse_address,
    parse_duration,
    parse_size,
)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("500ms", 0.5), ("15s", 15.0), ("2m", 120.0), ("1h", 3600.0), ("1.5s", 1.5), ("0.1ms", 0.0001), ("0s", 0.0)],
)
def test_durations_are_read_as_seconds(text: str, seconds: float) -> None:
    """Each unit and decimals are read exactly."""
    assert parse_duration(text) == seconds


@pytest.mark.parametrize(
    "value", [15, 1.5, True, None, "15", "15 s", "s", "-1s", "1d", "1e3s", "15S", "1s\n", [], "\u0663s"]
)
def test_other_durations_are_refused(value: object) -> None:
    """Bare numbers, unknown units, signs and blanks are refused."""
    with pytest.raises(ValueError, match="duration"):
        parse_duration(value)


@pytest.mark.parametrize(
    ("text", "size"), [("1B", 1), ("1KiB", 1024), ("1.5MiB", 1572864), ("256MiB", 268435456), ("1GiB", 2**30)]
)
def test_sizes_are_read_as_bytes(text: str, size: int) -> None:
    """Each unit and decimals are read exactly."""
    assert parse_size(text) == size


@pytest.mark.parametrize("value", [1024, 0.5, False, "64", "64KB", "64MB", "64 KiB", "kib"])
def test_other_sizes_are_refused(value: object) -> None:
    """Bare numbers and decimal units are refused."""
    with pytest.raises(ValueError, match="size"):
        parse_size(value)


@pytest.mark.parametrize("text", ["500ms", "15s", "2m", "1h", "90s", "0s", "1500ms", "0.5ms"])
def test_durations_are_written_as_they_are_read(text: str) -> None:
    """Writing a duration and reading it again gives the same seconds."""
    assert parse_duration(format_duration(parse_duration(text))) == parse_duration(text)
    assert format_duration(120.0) == "2m"


@pytest.mark.parametrize("size", [0, 1, 1000, 1024, 65536, 2**30, 2**30 + 1])
def test_sizes_are_written_as_they_are_read(size: int) -> None:
    """Writing a size and reading it again gives the same bytes."""
    assert parse_size(format_size(size)) == size
    assert format_size(65536) == "64KiB"


@pytest.mark.parametrize(
    ("text", "host", "port", "loopback"),
    [
        ("127.0.0.1:0", "127.0.0.1", 0, True),
        ("127.9.9.9:80", "127.9.9.9", 80, True),
        ("localhost:18083", "localhost", 18083, True),
        ("[::1]:18083", "::1", 18083, True),
        ("0.0.0.0:65535", "0.0.0.0", 65535, False),
        ("[::]:1", "::", 1, False),
        ("mac.local:18084", "mac.local", 18084, False),
        ("192.168.1.7:18084", "192.168.1.7", 18084, False),
    ],
)
def test_addresses_are_read_and_written(text: str, host: str, port: int, loopback: bool) -> None:
    """Host and port are split, `str` joins them again, loopback is known."""
    address = parse_address(text)
    assert (address, str(address), address.is_loopback) == (Address(host, port), text, loopback)


@pytest.mark.parametrize(
    "value",
    ["18083", ":18083", "::1:18083", "[nope]:1", "h:65536", "h:", "h:-1", "a b:1", "http://h:1", 18083, None, "h:1\n"],
)
def test_other_addresses_are_refused(value: object) -> None:
    """A port alone, an IPv6 host without brackets, a URL and ports out of range are refused."""
    with pytest.raises(ValueError, match=r"address|port|IPv6"):
        parse_address(value)


def test_a_timeout_of_zero_is_refused_where_it_makes_no_sense() -> None:
    """0s is a grace, not a deadline."""
    assert TypeAdapter(DurationOrZero).validate_python("0s") == 0.0
    with pytest.raises(ValidationError):
        TypeAdapter(Duration).validate_python("0s")


@pytest.mark.parametrize(
    "url",
    [
        "ftp://h/v1",
        "127.0.0.1:8002/v1",
        "http://",
        "http://h:0/v1",
        "http://h:x/v1",
        "http://h/v1?a=b",
        "http://h/#a",
        "http://h/ v1",
    ],
)
def test_endpoints_are_http_urls(url: str) -> None:
    """Other schemes, missing hosts, queries and blanks are refused."""
    with pytest.raises(ValidationError):
        TypeAdapter(Endpoint).validate_python(url)


def test_a_url_with_a_password_is_refused_without_repeating_it() -> None:
    """The message says what is wrong and not what the password was."""
    with pytest.raises(ValidationError) as caught:
        TypeAdapter(Endpoint).validate_python("http://u:hunter2@h/v1")
    assert "hunter2" not in caught.value.errors(include_input=False)[0]["msg"]


@pytest.mark.parametrize("text", ["", "a" * 63, "A" * 64, "g" * 64, "a" * 65])
def test_a_hash_has_64_lower_case_hex_digits(text: str) -> None:
    """Anything else may be the secret itself and is refused."""
    with pytest.raises(ValidationError):
        TypeAdapter(Sha256).validate_python(text)


@pytest.mark.parametrize("text", ["", "a b", "a/b", "-a", ".", "ü", "a" * 129, "a\n"])
def test_ids_are_safe_in_urls_headers_and_file_names(text: str) -> None:
    """Slashes, blanks, other alphabets and very long ids are refused."""
    with pytest.raises(ValidationError):
        TypeAdapter(Identifier).validate_python(text)


def test_model_ids_may_have_slashes_and_colons() -> None:
    """Field case B35: org/model:tag is a usual model id; blanks are not."""
    assert TypeAdapter(ModelId).validate_python("org/Model-7B:q4") == "org/Model-7B:q4"
    with pytest.raises(ValidationError):
        TypeAdapter(ModelId).validate_python("two words")
