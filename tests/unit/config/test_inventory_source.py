"""iop.config.inventory_source: where a value of the inventory stands."""

from pathlib import Path

import pytest

from iop.config.inventory_source import environments, locate, place_of, unreadable


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """An inventory of two hosts."""
    for name in ("a", "b"):
        (tmp_path / "host_vars" / name).mkdir(parents=True)
        (tmp_path / "host_vars" / name / "node.yml").write_text(
            f"node_id: {name}\nproviders:\n  - id: p-{name}\n    capacity: four\n", encoding="utf-8"
        )
    (tmp_path / "group_vars").mkdir()
    (tmp_path / "group_vars" / "all.yml").write_text("edge_id: x\nports:\n  admin: zero\n", encoding="utf-8")
    (tmp_path / "hosts.yml").write_text("all: {children: {nodes: {hosts: {b: , a: }}}}\n", encoding="utf-8")
    return tmp_path


@pytest.mark.parametrize(
    ("loc", "where"),
    [
        (("ports", "admin"), "group_vars/all.yml:3:10"),
        (("hosts", 0, "providers", 0, "capacity"), "host_vars/b/node.yml:4:15"),
        (("hosts", 1, "providers", 0, "capacity"), "host_vars/a/node.yml:4:15"),
        (("hosts", 1, "providers", 0, "engine_port"), "host_vars/a/node.yml:3:5"),
    ],
)
def test_a_value_is_found_in_its_file(folder: Path, loc: tuple[int | str, ...], where: str) -> None:
    """File, line and column of the value, or of its nearest parent when it is missing; hosts in the deploy's order."""
    assert locate(folder, loc) == f"{folder}/{where}"


def test_what_cannot_be_found_is_the_folder(folder: Path) -> None:
    """A missing variable and an unreadable file lead to the folder."""
    (folder / "group_vars" / "all.yml").write_text("a: [", encoding="utf-8")

    assert locate(folder, ("edge_id",)) == str(folder)
    assert locate(folder, ()) == str(folder)


def test_every_file_that_is_no_yaml_is_named_with_its_place(folder: Path) -> None:
    """Syntax has line and column, bytes that are no text have the file; a good inventory has nothing."""
    assert unreadable(folder) == []

    (folder / "group_vars" / "all.yml").write_text("edge_id: x\nports: [1\nb: 2\n", encoding="utf-8")
    (folder / "host_vars" / "a" / "node.yml").write_bytes(b"node_id: \xff\n")
    first, second = unreadable(folder)

    assert first.startswith(f"{folder}/group_vars/all.yml:3:2: ")
    assert second.startswith(f"{folder}/host_vars/a/node.yml: ")


def test_a_key_that_stands_twice_is_named_with_its_place(folder: Path) -> None:
    """At the top, below another key and in a list; the same key in two mappings is none."""
    text = "ports:\n  admin: 1\n  admin: 2\nmodels:\n  - id: a\n  - id: b\n    id: c\nports: 3\n"
    (folder / "group_vars" / "all.yml").write_text(text, encoding="utf-8")

    places = [("3:3", "admin"), ("7:5", "id"), ("8:1", "ports")]
    file = folder / "group_vars" / "all.yml"
    assert unreadable(folder) == [f"{file}:{place}: {key} stands here twice" for place, key in places]


def test_environments_are_the_folders(tmp_path: Path) -> None:
    """Files beside them are none."""
    for name in ("local", "dev"):
        (tmp_path / "inventory" / name).mkdir(parents=True)
    (tmp_path / "inventory" / "README").touch()

    assert environments(tmp_path) == ["dev", "local"]


def test_the_name_of_a_variable_is_found(folder: Path) -> None:
    """File, line and column in whichever file has it at its top; what no file has leads to the folder."""
    assert place_of(folder, "ports") == f"{folder}/group_vars/all.yml:2:1"
    assert place_of(folder, "providers") == f"{folder}/host_vars/a/node.yml:2:1"
    assert place_of(folder, "capacity") == str(folder)
