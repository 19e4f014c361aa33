"""A target that cannot be found is told with the option that helps."""

from pathlib import Path

import pytest

from smoke.target import TargetError, environment, find, known

ROOT = Path(__file__).resolve().parents[3]


def test_no_target_names_the_option_and_the_environments() -> None:
    """The message is a usage error's text."""
    with pytest.raises(TargetError, match=r"--target is missing: one of .*dev.*local"):
        find(None, None, ROOT)


def test_an_unknown_target_names_the_known_ones() -> None:
    """A path outside of inventory/ is no target either."""
    for name in ("nope", "../inventory/dev", ""):
        with pytest.raises(TargetError, match=r"--target .*: no such environment \(known: dev, "):
            find(name, None, ROOT)


def test_a_folder_that_is_not_there_names_the_option(tmp_path: Path) -> None:
    """`--inventory` takes `…/inventory/<name>`."""
    with pytest.raises(TargetError, match=r"--inventory .*: no such folder"):
        find(None, tmp_path / "inventory" / "x", ROOT)


def test_an_inventory_that_cannot_be_read_is_told_in_words(tmp_path: Path) -> None:
    """A folder without hosts is the inventory's own message behind the option."""
    folder = tmp_path / "inventory" / "empty"
    folder.mkdir(parents=True)
    (folder / "hosts.yml").write_text("all: {children: {nodes: {hosts: {}}}}\n", encoding="utf-8")
    (tmp_path / "ansible.cfg").write_text("[defaults]\n", encoding="utf-8")

    with pytest.raises(TargetError, match=r"--inventory .*: the group `nodes` has no hosts"):
        find(None, folder, ROOT)


def test_the_dev_environment_is_the_measure() -> None:
    """Three nodes, three providers with 3, 4 and 3 slots, the Mac with its CLI: all from the inventory."""
    declared = environment(find("dev", None, ROOT))

    assert declared.capacities == {"mac-mlx-vllm": 3, "gx10-vllm": 4, "onexplayer-lemonade": 3}
    assert set(declared.nodes) == {"mac-codex-node", "gx10-vllm-node", "onexplayer-lemonade-node"}
    assert declared.cli_nodes == ("mac-codex-node",)
    assert declared.cli_model == "codex"
    assert "dev" in known(ROOT)
