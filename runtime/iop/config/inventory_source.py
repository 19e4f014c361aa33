"""Where in the inventory's files a value stands, for messages: Ansible's own listing has no positions."""

from collections.abc import Iterator, Sequence
from pathlib import Path

import yaml

#: names of the model that are spelt otherwise in the files
_SPELT = {
    "alias": "node_alias",
    "platform": "node_platform",
    "arch": "node_arch",
    "root": "host_root",
    "env": "deploy_env",
}


def locate(folder: Path, loc: Sequence[int | str]) -> str:
    """`file:line:column` of the value at a pydantic location, as near as it can be found; else the folder."""
    keys = list(loc)
    files = sorted((folder / "group_vars").rglob("*.yml"))
    if keys[:1] == ["hosts"] and len(keys) > 2:
        files = sorted((folder / "host_vars").rglob("*.yml"))
        names = sorted({file.parent.name for file in files})
        order = _hosts_in_order(folder, names)
        number = keys[1]
        if isinstance(number, int) and number < len(order):
            files = [file for file in files if file.parent.name == order[number]]
        keys = keys[2:]
    for file in files:
        mark = _mark(file, keys)
        if mark is not None:
            return f"{file}:{mark.line + 1}:{mark.column + 1}"
    return str(folder)


def place_of(folder: Path, name: str) -> str:
    """`file:line:column` of a variable's name, where a file has it at its top; else the folder."""
    for file in sorted((*folder.rglob("*.yml"), *folder.rglob("*.yaml"))):
        try:
            node = yaml.compose(file.read_text(encoding="utf-8"), Loader=yaml.SafeLoader)
        except (OSError, UnicodeDecodeError, yaml.YAMLError):
            continue
        for key, _ in node.value if isinstance(node, yaml.MappingNode) else ():
            if key.value == name:
                return f"{file}:{key.start_mark.line + 1}:{key.start_mark.column + 1}"
    return str(folder)


def unreadable(folder: Path) -> list[str]:
    """`file:line:column: problem` of every file of the inventory that is no YAML or has a key twice.

    Ansible's message has no place.
    """
    found = []
    for file in sorted((*folder.rglob("*.yml"), *folder.rglob("*.yaml"))):
        try:
            node = yaml.compose(file.read_text(encoding="utf-8"), Loader=yaml.SafeLoader)
            found += [
                f"{file}:{key.start_mark.line + 1}:{key.start_mark.column + 1}: {key.value} stands here twice"
                for key in _twice(node)
            ]
        except yaml.MarkedYAMLError as error:
            mark = error.problem_mark
            place = f":{mark.line + 1}:{mark.column + 1}" if mark else ""
            found.append(f"{file}{place}: {error.problem or error}")
        except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
            found.append(f"{file}: {error}")
    return found


def environments(checkout: Path) -> list[str]:
    """The names of the environments that this checkout has."""
    return sorted(entry.name for entry in (checkout / "inventory").iterdir() if entry.is_dir())


def _hosts_in_order(folder: Path, fallback: list[str]) -> list[str]:
    try:
        tree = yaml.safe_load((folder / "hosts.yml").read_text(encoding="utf-8"))
        return list(tree["all"]["children"]["nodes"]["hosts"])
    except (OSError, yaml.YAMLError, KeyError, TypeError):
        return fallback


def _mark(file: Path, keys: Sequence[int | str]) -> yaml.Mark | None:
    """The position of the deepest part of the path that this file has, None when it lacks the first key."""
    try:
        node = yaml.compose(file.read_text(encoding="utf-8"), Loader=yaml.SafeLoader)
    except (OSError, yaml.YAMLError):
        return None
    found: yaml.Mark | None = None
    for key in keys:
        name = _SPELT.get(str(key), str(key)) if found is None else str(key)
        node = _child(node, name)
        if node is None:
            break
        found = node.start_mark
    return found


def _twice(node: yaml.Node | None) -> Iterator[yaml.ScalarNode]:
    """The keys of mappings that their mapping has before already."""
    if isinstance(node, yaml.MappingNode):
        seen = set()
        for key, value in node.value:
            if isinstance(key, yaml.ScalarNode):
                if key.value in seen:
                    yield key
                seen.add(key.value)
            yield from _twice(value)
    elif isinstance(node, yaml.SequenceNode):
        for one in node.value:
            yield from _twice(one)


def _child(node: yaml.Node | None, name: str) -> yaml.Node | None:
    if isinstance(node, yaml.MappingNode):
        return next((value for key, value in node.value if key.value == name), None)
    if isinstance(node, yaml.SequenceNode) and name.isdecimal() and int(name) < len(node.value):
        found: yaml.Node = node.value[int(name)]
        return found
    return None
