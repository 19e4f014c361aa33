"""YAML text to data with positions, refusing what YAML lets pass in silence. Pure: text in, Document and findings out.

Aliases and merge keys are supported within bounds (depth, number of values), so that no small file can grow large.
"""

import re
from collections.abc import Iterator

import yaml
from yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode

from iop.config.document import Document, Odd, Path, Position, Tree
from iop.config.findings import Finding

#: a hand-written config is some 10 KiB; the bounds keep a hostile one from costing seconds or memory
MAX_CHARS = 256 * 1024
MAX_VALUES = 10_000
MAX_DEPTH = 40

_TAG = "tag:yaml.org,2002:"
_NOT_PRINTABLE = re.compile("[^\t\n\r\x20-\x7e\x85\xa0-\ud7ff\ue000-\ufefe\uff00-\ufffd\U00010000-\U0010ffff]")
_DECIMAL = re.compile(r"[-+]?(0|[1-9][0-9]{0,17})")
_FLOAT = re.compile(r"[-+]?[0-9]{1,18}\.[0-9]{0,18}")


#: names from the file in PyYAML's messages; not a single character, nor its words for tokens: '<stream end>'
_NAMED = re.compile(r" '[^'<\\\\][^']+'")
_TOO_DEEP = f"the file nests deeper than {MAX_DEPTH} levels"
_TOO_MANY = f"the file holds more than {MAX_VALUES} values, aliases followed"


class _LargeYaml(yaml.MarkedYAMLError):
    """The file nests deeper than MAX_DEPTH or holds more than MAX_VALUES."""


class _Loader(yaml.SafeLoader):
    """PyYAML's safe composer with bounds on depth and number of nodes."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self._depth = 0
        self._nodes = 0

    def compose_node(self, parent: Node | None, index: int) -> Node | None:
        self._depth += 1
        self._nodes += 1
        if self._depth > MAX_DEPTH or self._nodes > 2 * MAX_VALUES:  # a key is a node, too
            problem = _TOO_DEEP if self._depth > MAX_DEPTH else _TOO_MANY
            raise _LargeYaml(problem=problem, problem_mark=self.get_mark())
        try:
            return super().compose_node(parent, index)
        finally:
            self._depth -= 1


def _position_of(text: str, index: int) -> Position:
    line = text.count("\n", 0, index) + 1
    return line, index - (text.rfind("\n", 0, index) + 1) + 1


class _Builder:
    """Walks the composed nodes once: data, positions, findings."""

    def __init__(self, file: str) -> None:
        self.file = file
        self.keys: dict[Path, Position] = {}
        self.values: dict[Path, Position] = {}
        self.plain: dict[Path, str] = {}
        self.findings: list[Finding] = []
        self.exhausted = False
        self._left = MAX_VALUES
        self._open: set[int] = set()

    def document(self, root: Node) -> Document:
        data = self.build(root, ())
        return Document(self.file, data, self.keys, self.values, self.plain)

    def build(self, node: Node, path: Path) -> Tree:
        position = _mark(node)
        self.values[path] = position
        self._left -= 1
        if self.exhausted or self._left < 0 or len(self._open) > MAX_DEPTH:
            self._give_up(path, position, _TOO_MANY if self._left < 0 else _TOO_DEEP)
            return None
        if id(node) in self._open:
            self._report("yaml_alias", path, position, "an alias refers to what it stands in", "write the value out")
            return None
        self._open.add(id(node))
        try:
            if isinstance(node, ScalarNode):
                return self._scalar(node, path)
            if isinstance(node, SequenceNode):
                self._check_tag(node, path, "seq")
                return [self.build(child, (*path, index)) for index, child in enumerate(node.value)]
            assert isinstance(node, MappingNode)
            self._check_tag(node, path, "map")
            return self._mapping(node, path)
        finally:
            self._open.discard(id(node))

    def _mapping(self, node: MappingNode, path: Path) -> dict[str, Tree]:
        result: dict[str, Tree] = {}
        own: dict[str, Position] = {}
        for key_node, value_node in node.value:
            if key_node.tag == _TAG + "merge":
                continue
            name = self._key(key_node, path)
            if name is None:
                continue
            inner = (*path, name)
            if name in own:
                first = own[name][0]
                message = f"the key {_clip(name)} stands here twice, first on line {first}"
                self._report("yaml_duplicate_key", inner, _mark(key_node), message, "keep one of the two")
                continue
            own[name] = self.keys[inner] = _mark(key_node)
            result[name] = self.build(value_node, inner)
        for key_node, value_node in self._merged(node, path):
            name = self._key(key_node, path)
            if name is not None and name not in result:
                self.keys[(*path, name)] = _mark(key_node)
                result[name] = self.build(value_node, (*path, name))
        return result

    def _merged(self, node: MappingNode, path: Path, depth: int = 0) -> Iterator[tuple[Node, Node]]:
        """The pairs that `<<` brings in: those of the mapping itself before those that it merges in turn."""
        for key_node, value_node in node.value:
            if depth:
                self._left -= 1
            if key_node.tag != _TAG + "merge":
                if depth:
                    yield key_node, value_node
                continue
            sources = value_node.value if isinstance(value_node, SequenceNode) else [value_node]
            for source in sources:
                if depth > MAX_DEPTH or self._left < 0:
                    self._give_up(path, _mark(key_node), _TOO_MANY if self._left < 0 else _TOO_DEEP)
                    return
                if not isinstance(source, MappingNode):
                    self._report("yaml_merge", path, _mark(key_node), "<< takes a mapping or a list of mappings", "")
                    return
                yield from self._merged(source, path, depth + 1)

    def _key(self, node: Node, path: Path) -> str | None:
        if not isinstance(node, ScalarNode):
            self._report("yaml_key", path, _mark(node), "a key must be a word, not a list or mapping", "")
            return None
        if node.tag == _TAG + "str":
            return str(node.value)
        if node.tag == _TAG + "value":
            return str(node.value)
        text = _clip(node.value)
        message = f"YAML reads the key {text} as {_kind(node.tag)}, not as text"
        self._report("quote_it", (*path, node.value), _mark(node), message, f'quote it: "{text}"')
        return None

    def _scalar(self, node: ScalarNode, path: Path) -> Tree:
        text: str = node.value
        if node.tag in {_TAG + "str", _TAG + "value", _TAG + "merge"}:
            return text
        quoted = node.style is not None
        if not quoted:
            self.plain[path] = text
        if node.tag == _TAG + "null":
            return None
        if node.tag == _TAG + "bool":
            return text.lower() in {"yes", "true", "on"}
        if node.tag == _TAG + "int":
            return int(text) if _DECIMAL.fullmatch(text) else Odd(text, _reading(text))
        if node.tag == _TAG + "float":
            return float(text) if _FLOAT.fullmatch(text) else Odd(text, "base 60" if ":" in text else "a number")
        if node.tag == _TAG + "timestamp":
            return Odd(text, "a date")
        self._check_tag(node, path, "str")
        return text

    def _check_tag(self, node: Node, path: Path, expected: str) -> None:
        if node.tag != _TAG + expected:
            self._report("yaml_tag", path, _mark(node), "a tag stands here", "quote a value that begins with !")

    def _give_up(self, path: Path, position: Position, message: str) -> None:
        """The file is over a bound: say so once and read no further."""
        if not self.exhausted:
            self._report("yaml_too_large", path, position, message, "")
        self.exhausted = True

    def _report(self, code: str, path: Path, position: Position, message: str, hint: str) -> None:
        at = Document(self.file, None, values={path: position})
        self.findings.append(at.finding("error", code, path, message, hint))


def _mark(node: Node) -> Position:
    return node.start_mark.line + 1, node.start_mark.column + 1


def _clip(text: str) -> str:
    return text if len(text) <= 40 else text[:37] + "..."


def _kind(tag: str) -> str:
    names = {"bool": "yes or no", "null": "nothing", "int": "a number", "float": "a number", "timestamp": "a date"}
    return names.get(tag.removeprefix(_TAG), "something else")


def _reading(text: str) -> str:
    if ":" in text:
        return "base 60"
    bare = text.lstrip("+-")
    if "_" in bare:
        return "a number with underscores"
    if bare.startswith("0x"):
        return "hexadecimal"
    if bare.startswith("0b"):
        return "binary"
    return "an octal number" if bare.startswith("0") else "a very large number"


def _yaml_error(text: str, file: str, error: yaml.YAMLError) -> Finding:
    mark = getattr(error, "problem_mark", None) or getattr(error, "context_mark", None)
    position = (mark.line + 1, mark.column + 1) if mark is not None else (1, 1)
    problem = str(getattr(error, "problem", None) or "the file is no YAML")
    context = getattr(error, "context", None)
    document = Document(file, None, values={(): position})
    if mark is not None and "\t" in _line_up_to(text, position):
        message = "a tab stands where YAML wants blanks"
        return document.finding("error", "yaml_tab", (), message, "indent with blanks only")
    if isinstance(error, _LargeYaml):
        return document.finding("error", "yaml_too_large", (), problem)
    # a secret that begins with * or ! is read as an alias or a tag, and named
    message = _NAMED.sub("", f"{problem}, {context}" if context else problem)
    return document.finding("error", "yaml_syntax", (), message, "check indentation, colons and quotes here and above")


def _line_up_to(text: str, position: Position) -> str:
    """The leading white space of the line and the character at the position."""
    lines = text.splitlines()
    line = lines[position[0] - 1] if position[0] <= len(lines) else ""
    indent = line[: len(line) - len(line.lstrip())]
    return indent + line[position[1] - 1 : position[1]]


def _characters(text: str, file: str) -> Finding | None:
    """The first character that has no place in a YAML file (NUL, control codes, a byte-order mark inside)."""
    match = _NOT_PRINTABLE.search(text)
    if match is None:
        return None
    document = Document(file, None, values={(): _position_of(text, match.start())})
    if match[0] == "\ufeff":
        hint = "delete it: files were probably joined here"
        return document.finding("error", "yaml_encoding", (), "a byte-order mark inside the file", hint)
    message = f"the character U+{ord(match[0]):04X} has no place in a config file"
    hint = "save the file as UTF-8" if match[0] == "\0" else "delete it"
    return document.finding("error", "yaml_encoding", (), message, hint)


def parse(text: str, file: str) -> tuple[Document | None, tuple[Finding, ...]]:
    """Read YAML text. The document is None when the text is no YAML mapping at all (the findings say why)."""
    text = text.removeprefix("\ufeff")
    start = Document(file, None, values={(): (1, 1)})
    if len(text) > MAX_CHARS:
        return None, (start.finding("error", "yaml_too_large", (), f"the file is longer than {MAX_CHARS // 1024} KiB"),)
    unfit = _characters(text, file)
    if unfit is not None:
        return None, (unfit,)
    loader = _Loader(text)
    try:
        root = loader.get_single_node()
    except yaml.YAMLError as error:
        return None, (_yaml_error(text, file, error),)
    finally:
        loader.dispose()
    if root is None:
        return None, (start.finding("error", "yaml_empty", (), "the file is empty"),)
    builder = _Builder(file)
    document = builder.document(root)
    if builder.exhausted:
        return None, tuple(builder.findings)
    if not isinstance(document.data, dict):
        builder.findings.append(document.finding("error", "wrong_type", (), "the file must be a mapping of keys"))
        return None, tuple(builder.findings)
    return document, tuple(builder.findings)


def decode(raw: bytes, file: str) -> tuple[str | None, tuple[Finding, ...]]:
    """Bytes of a file to text: UTF-8, with or without a byte-order mark, whatever the locale."""
    start = Document(file, None, values={(): (1, 1)})
    if raw.startswith((b"\xff\xfe", b"\xfe\xff")) or b"\0" in raw[:4]:
        message = "the file is UTF-16 or UTF-32, not UTF-8"
        return None, (start.finding("error", "yaml_encoding", (), message, "save it as UTF-8"),)
    try:
        return raw.decode("utf-8"), ()
    except UnicodeDecodeError as error:
        before = raw[: error.start].decode("utf-8")
        at = Document(file, None, values={(): _position_of(before, len(before))})
        message = f"the byte 0x{raw[error.start]:02X} is not UTF-8"
        return None, (at.finding("error", "yaml_encoding", (), message, "save the file as UTF-8"),)
