"""A further entry for the `nodes` list of an edge.yaml, put in as text so that every other byte stays as it is.

No YAML writer does that (the one that keeps comments still writes blanks, quotes and indentation anew), so the place is
taken from the parser's marks. Pure: text in, text out.
"""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import yaml

_LINE = re.compile(r"[^\r\n]*(?:\r\n|\r|\n|$)")
_COMMENT = re.compile(r"([ \t]*)#")
_PLAIN = re.compile(r"[A-Za-z][A-Za-z0-9_-]{0,39}")
_WORDS = frozenset({"y", "n", "yes", "no", "on", "off", "true", "false", "null"})


class CannotAppend(Exception):
    """The list stands there in a shape that text cannot be added to; the message says which."""


@dataclass(frozen=True, slots=True)
class Insertion:
    """`text` to put in before character `at` of the file."""

    at: int
    text: str

    def into(self, whole: str) -> str:
        """The file with the text put in."""
        return whole[: self.at] + self.text + whole[self.at :]


@dataclass(frozen=True, slots=True)
class _List:
    """The `nodes` list: first character behind its key, its events, and how key and list are written."""

    after_key: int
    events: tuple[yaml.Event, ...]
    quoted: bool

    @property
    def flow(self) -> bool:
        start = self.events[0]
        return isinstance(start, yaml.SequenceStartEvent) and bool(start.flow_style)

    @property
    def content_end(self) -> int:
        """The end of the last thing written in the list; in an empty one, behind its opening bracket."""
        for event in reversed(self.events[1:-1]):
            if isinstance(event, yaml.ScalarEvent | yaml.AliasEvent) or _is_bracket(event):
                return _end(event)
        return _end(self.events[0])


def append_node(text: str, entry: Mapping[str, str], example: Sequence[str] = ()) -> Insertion:
    """Find where a node goes and what it looks like there.

    `text` is a whole edge.yaml that passes `config check`; `entry` maps keys to strings; `example` are lines that stand
    as comments below it (left out where the list is written in brackets). Raises CannotAppend.
    """
    offset = len(text) - len(text.removeprefix("\ufeff"))
    place = _find(text[offset:])
    insertion = _in_flow(text[offset:], place, entry) if place.flow else _in_block(text[offset:], place, entry, example)
    return Insertion(insertion.at + offset, insertion.text)


def _find(text: str) -> _List:
    events = yaml.parse(text, Loader=yaml.SafeLoader)
    for event in events:
        if isinstance(event, yaml.MappingStartEvent):
            break
    while not isinstance(key := next(events), yaml.MappingEndEvent):
        value = tuple(_value(events))
        if isinstance(key, yaml.ScalarEvent) and key.value == "nodes":
            if not isinstance(value[0], yaml.SequenceStartEvent):
                raise CannotAppend("the list under nodes is not written out there")
            return _List(_end(key), value, quoted=key.style == '"')
        if not isinstance(key, yaml.ScalarEvent | yaml.AliasEvent):
            raise CannotAppend("a key of the file is no word")
    raise CannotAppend("the key nodes is not written out at the top of the file")


def _value(events: Iterator[yaml.Event]) -> Iterator[yaml.Event]:
    """The events of one value."""
    depth = 0
    for event in events:
        yield event
        depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
        if depth == 0:
            return


def _start(event: yaml.Event) -> int:
    assert event.start_mark is not None  # the parser sets both marks
    return int(event.start_mark.index)


def _end(event: yaml.Event) -> int:
    assert event.end_mark is not None
    return int(event.end_mark.index)


def _is_bracket(event: yaml.Event) -> bool:
    """True for the closing bracket of a flow collection (a block's end has no text of its own)."""
    return isinstance(event, yaml.CollectionEndEvent) and _end(event) > _start(event)


def _in_block(text: str, place: _List, entry: Mapping[str, str], example: Sequence[str]) -> Insertion:
    dash, key = _columns(text, place.after_key)
    at, end = _below(text, place.content_end, dash), _line_break(text, place.after_key)
    lines = [f"{name}: {_scalar(value)}" for name, value in entry.items()] + [f"# {line}".rstrip() for line in example]
    first, *rest = lines
    block = [" " * dash + "-" + " " * (key - dash - 1) + first, *(" " * key + line for line in rest)]
    if at and text[at - 1] not in "\r\n":  # the file's last line has no end
        return Insertion(at, "".join(end + line for line in block))
    return Insertion(at, "".join(line + end for line in block))


def _columns(text: str, after_key: int) -> tuple[int, int]:
    """Column of the dashes, and of what stands behind the first one (two further where that is on the next line)."""
    tokens = (token for token in yaml.scan(text, Loader=yaml.SafeLoader) if token.start_mark.index >= after_key)
    for token in tokens:
        if isinstance(token, yaml.BlockEntryToken):
            dash = token.start_mark
            break
    inner = next(token for token in tokens if not isinstance(token, yaml.BlockMappingStartToken))
    same_line = inner.start_mark.line == dash.line and isinstance(inner, yaml.KeyToken)
    return dash.column, inner.start_mark.column if same_line else dash.column + 2


def _below(text: str, content_end: int, dash: int) -> int:
    """The start of the line below the list: behind comments that are indented further than its dashes."""
    at = content_end
    if at == 0 or text[at - 1] not in "\r\n":  # a block scalar ends with its line
        at = _LINE.match(text, at).end()  # type: ignore[union-attr]  # the pattern matches everywhere
    look = at
    while look < len(text):
        line = _LINE.match(text, look)
        assert line is not None
        look = line.end()
        comment = _COMMENT.match(line[0])
        if comment is not None and len(comment[1]) > dash:
            at = look
        elif line[0].strip():
            break
    return at


def _line_break(text: str, near: int) -> str:
    found = re.compile(r"\r\n|\r|\n").search(text, near)
    return found[0] if found else "\n"


def _in_flow(text: str, place: _List, entry: Mapping[str, str]) -> Insertion:
    written = json.dumps(dict(entry), ensure_ascii=False) if place.quoted else _braces(entry)
    at, empty = place.content_end, len(place.events) == 2
    if empty:
        return Insertion(at, written)
    start = _line_start(text, _start(place.events[1]))
    indent = re.compile(r"[ \t]*").match(text, start)
    assert indent is not None
    own_line = indent.end() == _start(place.events[1])
    rest = re.compile(r"[ \t]*(,?)[ \t]*(#?)[^\r\n]*").match(text, at)
    assert rest is not None
    ends_line = re.compile(r"[ \t]*,?[ \t]*(#[^\r\n]*)?(?=[\r\n])").match(text, at)
    if not own_line or ends_line is None:
        return Insertion(at, f", {written}")
    fresh = f"{_line_break(text, at)}{indent[0]}{written}"
    if rest[1]:
        return Insertion(ends_line.end(), f"{fresh},")
    return Insertion(at, f", {written}" if rest[2] else f",{fresh}")


def _line_start(text: str, at: int) -> int:
    return max(text.rfind("\n", 0, at), text.rfind("\r", 0, at)) + 1


def _braces(entry: Mapping[str, str]) -> str:
    return "{" + ", ".join(f"{name}: {_scalar(value)}" for name, value in entry.items()) + "}"


def _scalar(value: str) -> str:
    """The string as YAML: plain where nothing can read it as something else, else in double quotes."""
    if _PLAIN.fullmatch(value) and value.lower() not in _WORDS:
        return value
    return json.dumps(value, ensure_ascii=False)
