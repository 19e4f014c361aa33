"""docs/reference/edge-node-runtime-wire.md says what the code does: frames, messages, fields, states, codes, limits."""

import re
import typing
from pathlib import Path

import msgspec
import pytest

from iop.link import flow, frames, messages, session
from iop.node import dialer
from iop.transport import link as transport_link

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "edge-node-runtime-wire.md"
RECORDS = (
    messages.NodeRuntimeConfig,
    messages.CliTarget,
    messages.EngineInstance,
    messages.ProviderRuntime,
    messages.RunningWork,
    messages.AdapterInfo,
    messages.TargetInfo,
)
MESSAGES = typing.get_args(messages.Message)


def sections(level: str) -> dict[str, str]:
    """The page's sections of a heading level, by heading."""
    parts = re.split(rf"(?m)^{level} (.+)$", PAGE.read_text("utf-8"))
    return {head: re.split(r"(?m)^#", body)[0] for head, body in zip(parts[1::2], parts[2::2], strict=True)}


def rows(text: str) -> list[list[str]]:
    """The cells of a section's table rows, without head and rule, without backticks."""
    lines = [line for line in text.splitlines() if line.startswith("|")]
    return [[cell.strip(" `") for cell in line.strip("|").split("|")] for line in lines if not set(line) <= set("|- ")]


def direction(message: type) -> str:
    """Who may send the message, as the page says it."""
    sides = (message in session.FROM_EDGE, message in session.FROM_NODE)
    return {(True, True): "both ways", (True, False): "Edge to node", (False, True): "node to Edge"}[sides]


def fields(struct: type) -> list[list[str]]:
    """Field names and defaults, as the page says them."""
    found = []
    for item in msgspec.structs.fields(struct):
        if item.required:
            default = "required"
        else:
            value = item.default_factory() if item.default is msgspec.NODEFAULT else item.default
            default = msgspec.json.encode(value).decode()
        found.append([item.encode_name, default])
    return found


def snake(struct: type) -> str:
    """CliTarget -> cli_target."""
    return re.sub(r"(?<!^)(?=[A-Z])", "_", struct.__name__).lower()


@pytest.mark.parametrize("message", MESSAGES, ids=lambda message: message.__name__)
def test_message(message):
    """Each message has a section with its name, direction, fields and defaults, in the code's order."""
    text = sections("###")[f"{message.__struct_config__.tag} ({direction(message)})"]
    assert [row[:2] for row in rows(text)[1:]] == fields(message)


@pytest.mark.parametrize("record", RECORDS, ids=lambda record: record.__name__)
def test_record(record):
    """Each record inside messages has a section with its fields and defaults."""
    assert [row[:2] for row in rows(sections("###")[snake(record)])[1:]] == fields(record)


def test_nothing_else_is_listed():
    """The page lists no message or record that the code does not have."""
    listed = {heading.split(" ")[0] for heading in sections("###")}
    assert listed == {message.__struct_config__.tag for message in MESSAGES} | {snake(record) for record in RECORDS}


def test_frames_and_limits():
    """The numbers of the frame kinds, and every limit, are the code's."""
    table = rows(sections("##")["Frames"])
    kinds = {row[1]: int(row[0]) for row in table[1:3]}
    assert kinds == {"control": frames.CONTROL, "body": frames.BODY}
    places = (frames, flow, session, transport_link, dialer)
    limits = {row[0]: int(row[1]) for row in table[4:]}
    of_frames = {"MAX_HELLO", "MAX_CONTROL", "MAX_PIECE", "INITIAL_CREDIT", "GRANT_AT", "MAX_RUN"}
    assert set(limits) == of_frames | {"HELLO_WITHIN", "ANSWER_WITHIN"}
    for name, value in limits.items():
        assert value == next(getattr(place, name) for place in places if hasattr(place, name)), name


def test_codes_and_states():
    """Every code and state of the code is listed, and no other."""
    hints = {struct: typing.get_type_hints(struct) for struct in (*MESSAGES, *RECORDS)}
    codes = {row[0]: tuple(row[1].split(", ")) for row in rows(sections("##")["Codes"])[1:]}
    assert codes == {
        "turned_away.code": messages.TURNED_AWAY_CODES,
        "end.outcome": typing.get_args(hints[messages.End]["outcome"]),
        "end.failure": messages.FAILURES,
        "cancel.why": typing.get_args(hints[messages.Cancel]["why"]),
        "run.operation": typing.get_args(hints[messages.Run]["operation"]),
        "provider.on_disconnect": typing.get_args(hints[messages.ProviderRuntime]["on_disconnect"]),
        "adapter.type": typing.get_args(hints[messages.AdapterInfo]["type"]),
        "cli_target.kind": typing.get_args(hints[messages.CliTarget]["kind"]),
    }
    states = {row[0]: tuple(row[1].split(", ")) for row in rows(sections("##")["States"])[1:]}
    assert states == {"session": tuple(session.SessionState), "dialer": tuple(dialer.DialerState)}
    page = " ".join(PAGE.read_text("utf-8").split())
    assert f"The protocol number is {messages.PROTOCOL}." in page
    assert f"The oldest that is spoken is {messages.OLDEST_PROTOCOL}." in page
    assert f"today from {messages.OLDEST_PROTOCOL} to {messages.PROTOCOL}," in page
