"""Reading answers and event streams."""

import httpx
import pytest

from iop.admin.wire import AdminRefused, AdminUnreachable, read_events, read_object, unreachable


def answer(status, **more):
    """Make an answer that knows its request."""
    return httpx.Response(status, request=httpx.Request("GET", "http://h/status"), **more)


def test_events_are_read_and_comments_skipped():
    """Comments, an event without a space after the colon, and several data lines are all read right."""
    lines = [
        ": hello",
        "",
        "id: 4",
        "event: granted",
        'data: {"seq": 4}',
        "",
        "event:gap",
        'data:{"a":',
        "data: 1}",
        "",
    ]
    first, second = read_events(iter(lines))
    assert (first.id, first.type, first.data) == (4, "granted", {"seq": 4})
    assert (second.id, second.type, second.data) == (4, "gap", {"a": 1})


@pytest.mark.parametrize("data", ["no json", "[1]"])
def test_a_stream_of_something_else_is_said_so(data):
    """Data that cannot be an Edge's is an error in words, never a wrong event."""
    with pytest.raises(AdminUnreachable, match="event stream"):
        list(read_events(iter([f"data: {data}", ""])))


def test_a_half_event_at_the_end_is_no_event():
    """A stream cut inside an event yields nothing for it."""
    assert list(read_events(iter(["id: 1", 'data: {"seq": 1}']))) == []


def test_a_good_answer_is_its_object():
    """A 2xx JSON object comes back as it is."""
    assert read_object(answer(200, json={"schema": 1})) == {"schema": 1}


def test_an_error_object_is_a_refusal_with_its_code():
    """An error of iop's own keeps its words, status and code."""
    body = {"error": {"message": "needs the token", "type": "x", "param": None, "code": "invalid_api_key"}}
    with pytest.raises(AdminRefused, match="needs the token") as caught:
        read_object(answer(401, json=body))
    assert (caught.value.status, caught.value.code) == (401, "invalid_api_key")


def test_an_error_without_an_object_still_has_its_status():
    """A JSON error of another shape is a refusal that names the status."""
    with pytest.raises(AdminRefused, match="HTTP 500") as caught:
        read_object(answer(500, json={}))
    assert caught.value.code is None


@pytest.mark.parametrize("body", [{"text": "<html>"}, {"json": [1]}])
def test_something_that_is_not_iop_is_unreachable(body):
    """A page or a list from another server on that port is told as such."""
    with pytest.raises(AdminUnreachable, match="iop"):
        read_object(answer(200, **body))


def test_the_words_name_the_address_and_the_reason():
    """A failed connection names the address; a timeout says that no answer came."""
    assert "http://h" in str(unreachable("http://h", httpx.ConnectError("refused")))
    assert "in time" in str(unreachable("http://h", httpx.ReadTimeout("")))
