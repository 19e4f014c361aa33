"""The top level of a body is read once; only the model's value is ever replaced."""

import json
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from iop.domain.errors import BadRequest
from iop.openai.request import engine_body, read_request

OBJECTS = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)


@pytest.mark.parametrize(
    ("body", "code"),
    [
        (b"", "invalid_json"),
        (b" \r\n", "invalid_json"),
        (b"hello", "invalid_json"),
        (b'{"model":"m"', "invalid_json"),
        (b'{"model":"m"}x', "invalid_json"),
        (b'{"model":"m",}', "invalid_json"),
        (b"{'model':'m'}", "invalid_json"),
        (b'{"model":"m","t":NaN}', "invalid_json"),
        (b'{"model":"m","t":[-Infinity]}', "invalid_json"),
        (b'{"model":"m","s":"\\ud800","t":NaN}', "invalid_json"),
        (b'{"model":"m","s":"\\ud800"', "invalid_json"),
        (b'{"model":"m","s":"\\ud800"} 1', "invalid_json"),
        (b'{"model":"m","s":"\\ud800","a" 1}', "invalid_json"),
        (b'{"model":"m","s":"\\ud800" "a":1}', "invalid_json"),
        (b'{"model":"m","s":"\\ud800",7:1}', "invalid_json"),
        (b'\xef\xbb\xbf{"model":"m"}', "invalid_json"),
        ('{"model":"m"}'.encode("utf-16"), "invalid_json"),
        (b'{"model":"m","s":"\xff"}', "invalid_json"),
        (b'{"model":"m","s":"a\x01"}', "invalid_json"),
        (b"[1]", "invalid_body"),
        (b' "text"', "invalid_body"),
        (b"null", "invalid_body"),
        (b"7", "invalid_body"),
        (b"[1", "invalid_json"),
        (b'{"model":"m","stream":"true"}', "invalid_body"),
        (b'{"model":"m","stream":1}', "invalid_body"),
        (b'{"model":"m","stream":[true]}', "invalid_body"),
        (b'{"model":"m\\ud800"}', "invalid_body"),
        (b"{}", "missing_model"),
        (b'{"stream":true}', "missing_model"),
        (b'{"model":null}', "missing_model"),
        (b'{"model":""}', "missing_model"),
        (b'{"model":42}', "missing_model"),
        (b'{"model":["m"]}', "missing_model"),
        (b'{"messages":[{"model":"deep"}]}', "missing_model"),
    ],
)
def test_unreadable_bodies_are_told_apart(body, code):
    """Each kind of bad body has its code (B32, B35), and none is anything but a BadRequest."""
    with pytest.raises(BadRequest) as caught:
        read_request(body)
    assert caught.value.code == code
    if code == "missing_model":
        assert caught.value.param == "model"


@pytest.mark.parametrize(
    "body",
    [
        b'{"model":"a","model":"b"}',
        b'{"model":"a","model":"a"}',
        b'{"model":"aa","x":1,"mod\\u0065l":"a"}',
        b'{"a":"x","model":"m","a":1}',
        b'{"a":1,"model":"m","a":12}',
        b'{"a":12,"model":"m","a":1}',
        b'{"s":"\\ud800","model":"a","model":"b"}',
        b'{"a":"\\",\\"model\\":\\"x\\",\\"b\\":[","model":"m","a":""}',
    ],
)
def test_a_key_twice_is_refused(body):
    """Two readings of one body are never possible: a repeated top-level key is a 400."""
    with pytest.raises(BadRequest, match="twice") as caught:
        read_request(body)
    assert caught.value.code == "invalid_body"


@pytest.mark.parametrize(
    ("body", "stream"),
    [
        (b'{"model":"m"}', False),
        (b'{"model":"m","stream":null}', False),
        (b'{"stream" : true , "model":"m"}', True),
        (b'{"model":"m","stream":false}', False),
    ],
)
def test_stream_is_read(body, stream):
    """`stream` is a boolean; absent and null mean false."""
    assert read_request(body).stream is stream


@pytest.mark.parametrize("model", ["org/name", "org/name:tag", "MiXed", "trailing ", "模型", 'quo"te\\', "tab\t"])
def test_model_is_the_exact_string(model):
    """B35: slash, case, blanks, unicode and escapes arrive as they were sent, in either spelling of JSON."""
    for ascii_only in (True, False):
        body = json.dumps({"model": model}, ensure_ascii=ascii_only).encode()
        assert read_request(body).model == model


def test_equal_names_keep_the_same_bytes_object():
    """A request whose engine model is the public one is not copied."""
    body = b' {"mod\\u0065l" : "\\u006d", "x": 1.0e+00 }\n'
    request = read_request(body)
    assert engine_body(request, "m") is body


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (b'{"model":"m","t":0.10,"u":"\\u00e9\\/"}', b'{"model":"E/1","t":0.10,"u":"\\u00e9\\/"}'),
        (
            b'\n{ "x" : [ {"model":"m"} ] ,\t"model" : "m" }\r\n',
            b'\n{ "x" : [ {"model":"m"} ] ,\t"model" : "E/1" }\r\n',
        ),
        (b'{"s":"a\\ud800b","model":"m","n":1E400}', b'{"s":"a\\ud800b","model":"E/1","n":1E400}'),
        (
            '{"é模":"\\ud800","model":"m","z":"模"}'.encode(),
            '{"é模":"\\ud800","model":"E/1","z":"模"}'.encode(),
        ),
        (
            b'{"n":' + b"9" * 6000 + b',"s":"\\udfff","model":"m"}',
            b'{"n":' + b"9" * 6000 + b',"s":"\\udfff","model":"E/1"}',
        ),
    ],
)
def test_only_the_model_changes(before, after):
    """B32, B34: unknown fields, odd numbers, escapes, lone surrogates and white space keep their bytes."""
    assert engine_body(read_request(before), "E/1") == after


def test_engine_name_is_written_as_json():
    """A quote or a non-ASCII letter in the engine's name cannot break the body."""
    body = engine_body(read_request(b'{"model":"m","a":1}'), 'x"é')
    assert json.loads(body) == {"model": 'x"é', "a": 1}


@pytest.mark.parametrize(
    ("value", "read"), [(b'"resp_1"', "resp_1"), (b"null", None), (b"7", None), (b'{"a":1}', None)]
)
def test_previous_response_id(value, read):
    """`previous_response_id` is read when it is a string and otherwise left to the engine."""
    assert read_request(b'{"model":"m","previous_response_id":' + value + b"}").previous_response_id == read


@pytest.mark.parametrize("opening", [b"[", b'{"a":'])
def test_nesting_is_bounded(opening):
    """500 levels are read, 501 refused, and 100,000 are refused without a RecursionError."""
    closing = b"]" if opening == b"[" else b"}"

    def body(levels: int) -> bytes:
        return b'{"model":"m","d":' + opening * (levels - 1) + b"1" + closing * (levels - 1) + b"}"

    assert read_request(body(500)).model == "m"
    surrogate = body(500).replace(b"1", b'"\\ud800"')
    assert engine_body(read_request(surrogate), "e") == surrogate.replace(b'"m"', b'"e"')
    for levels in (501, 1000, 100_000):
        with pytest.raises(BadRequest, match="nested deeper than 500"):
            read_request(body(levels))


def test_brackets_in_strings_are_not_nesting():
    """A prompt full of brackets is text."""
    body = json.dumps({"model": "m", "p": '[{"' * 2000, "q": [[]] * 2000}).encode()
    assert read_request(body).model == "m"


@pytest.mark.parametrize("tail", [b"", b',"s":"\\ud800"'])
def test_top_level_keys_are_bounded(tail):
    """A body of nothing but top-level keys is refused instead of walked."""
    body = b'{"model":"m",' + b",".join(b'"k%d":1' % n for n in range(3000)) + tail + b"}"
    with pytest.raises(BadRequest, match="top-level keys"):
        read_request(body)


def test_ten_megabytes_are_cheap():
    """B28: reading and splicing a 10 MB body takes no CPU time that others would notice (bound generous, 1 s)."""
    body = json.dumps({"model": "m", "messages": [{"role": "user", "content": "x" * 10_000_000}]}).encode()
    started = time.process_time()
    spliced = engine_body(read_request(body), "engine")
    assert time.process_time() - started < 1.0
    assert spliced == body.replace(b'"m"', b'"engine"', 1)


@settings(deadline=None, max_examples=60)
@given(extra=st.dictionaries(st.text(max_size=6), OBJECTS, max_size=5), ascii_only=st.booleans(), first=st.booleans())
def test_any_object_survives_the_splice(extra, ascii_only, first):
    """Whatever stands beside it, the spliced body differs in `model` only."""
    extra = {key: value for key, value in extra.items() if key not in {"model", "stream"}}
    whole = {"model": "m", **extra} if first else {**extra, "model": "m"}
    try:
        body = json.dumps(whole, ensure_ascii=ascii_only).encode()
    except UnicodeEncodeError:
        return
    request = read_request(body)
    assert json.loads(engine_body(request, "engine")) == {**json.loads(body), "model": "engine"}
