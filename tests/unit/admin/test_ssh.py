"""iop.admin.ssh: how the OpenSSH client is called."""

from pathlib import Path

from iop.admin.ssh import Door, door, environment
from tests.fakes.remote_inventory import remote


def test_host_keys_are_always_verified_and_nothing_is_asked() -> None:
    """Whatever the user's config says: strict checking, no questions, a connection of its own."""
    command = Door("box", "10.0.0.2", "me", 2222, Path("/c/ssh_config")).argv("-N")

    assert command[:3] == ["ssh", "-F", "/c/ssh_config"]
    for option in ("StrictHostKeyChecking=yes", "BatchMode=yes", "ControlPath=none"):
        assert command[command.index(option) - 1] == "-o"
    assert command[-7:] == ["-l", "me", "-p", "2222", "-N", "--", "10.0.0.2"]


def test_what_the_inventory_does_not_say_is_left_to_the_users_config() -> None:
    """No port, no account, no config: the command names none."""
    command = Door("box", "box").argv()

    assert not {"-F", "-l", "-p"} & set(command)
    assert command[-2:] == ["--", "box"]


def test_the_command_by_hand_is_the_same_door() -> None:
    """What a person is told to type reaches the same host in the same way."""
    assert Door("box", "10.0.0.2", "me", 2222, Path("/c")).by_hand == "ssh -F /c -p 2222 me@10.0.0.2"
    assert Door("box", "box").by_hand == "ssh box"


def test_a_door_is_what_the_inventory_says(tmp_path: Path) -> None:
    """Address, account, port and config of the host."""
    found = door(remote(tmp_path, ssh_config="build/lab/ssh_config", ssh_port=2200), "gx10")

    assert found == Door("gx10", "gx10.test", "lab", 2200, tmp_path / "build/lab/ssh_config")


def test_ssh_speaks_english_and_has_a_shell() -> None:
    """Its words are read, and its local command needs a shell that runs commands."""
    assert (environment()["LC_ALL"], environment()["SHELL"]) == ("C", "/bin/sh")
