"""What the benchmark needs on a machine: found, built or installed, or told as missing with what to do."""

import os
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.bench.speed import installs, tools
from tests.bench.speed.installs import BY_PIP, install
from tests.bench.speed.peers import PEERS, haproxy, litellm, nginx, nginx_two_hops, sglang_router
from tests.bench.speed.place import Place
from tests.bench.speed.tools import NoTool, built


def _no_program(_name: str) -> None:
    return None


class Runs:
    """Stands for subprocess.run: remembers the commands; those with a word in `fail` end with 1."""

    def __init__(self, fail: str = "") -> None:
        self.fail = fail
        self.commands: list[list[str]] = []

    def __call__(self, command: Sequence[str], **_options: Any) -> "subprocess.CompletedProcess[str]":
        self.commands.append(list(command))
        if self.fail and self.fail in command:
            raise subprocess.CalledProcessError(1, list(command), "", "no such version\nno way to it")
        if "venv" in command:
            Path(command[-1]).mkdir(parents=True)
        return subprocess.CompletedProcess(list(command), 0, "", "")


def test_without_gcc_it_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No compiler: the message names the package, and nothing is built."""
    monkeypatch.setattr(shutil, "which", _no_program)
    with pytest.raises(NoTool, match="apt-get install -y gcc"):
        built(tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_a_program_is_built_again_only_when_its_source_is_newer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Programs that are newer than their sources are taken as they are, without a compiler."""
    monkeypatch.setattr(shutil, "which", _no_program)
    for name in ("engine", "load"):
        (tmp_path / name).write_text("", encoding="utf-8")
    assert built(tmp_path) == tools.Tools(tmp_path / "engine", tmp_path / "load")
    os.utime(tmp_path / "load", (0, 0))
    with pytest.raises(NoTool):
        built(tmp_path)


def test_a_peer_of_pip_gets_a_venv_of_its_own_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its exact version goes into build/bench/venvs/<name>, never into ours, and a second run installs nothing."""
    runs = Runs()
    monkeypatch.setattr(installs, "VENVS", tmp_path)
    monkeypatch.setattr(subprocess, "run", runs)
    for _ in range(2):
        assert install(["litellm", "iop", "direct"], lambda _text: None) == {}
    assert len(runs.commands) == 2
    assert runs.commands[1][0] == str(tmp_path / "litellm" / "bin" / "python")
    assert runs.commands[1][-1] == BY_PIP["litellm"]
    assert all("==" in wanted for wanted in BY_PIP.values())


def test_what_cannot_be_installed_is_told_with_its_reason(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A failing pip, and a program that only root could install: both are left out, the others are not."""
    monkeypatch.setattr(installs, "VENVS", tmp_path)
    monkeypatch.setattr(subprocess, "run", Runs(fail=BY_PIP["vllm-router"]))
    monkeypatch.setattr(shutil, "which", _no_program)
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    said: list[str] = []
    missing = install(["haproxy", "sglang-router", "vllm-router"], said.append)
    assert set(missing) == {"haproxy", "vllm-router"}
    assert missing["haproxy"] == "haproxy is missing: sudo apt-get install -y haproxy"
    assert missing["vllm-router"].endswith("ended with 1: no such version no way to it")
    assert not (tmp_path / "vllm-router" / "installed").exists()
    assert f"haproxy is left out: {missing['haproxy']}" in said


def test_as_root_apt_installs_the_program(monkeypatch: pytest.MonkeyPatch) -> None:
    """With root and apt it is installed, and no service of it starts."""
    runs = Runs()
    monkeypatch.setattr(subprocess, "run", runs)
    monkeypatch.setattr(shutil, "which", lambda name: None if name == "nginx" else f"/usr/bin/{name}")
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    assert install(["nginx-2hop"], lambda _text: None) == {}
    assert [command[1] for command in runs.commands] == ["update", "install"]


def _place(folder: Path, *, limited: bool) -> Place:
    engines = [f"http://127.0.0.1:{port}" for port in ((1, 2, 3) if limited else (1,))]
    return Place(9000, [9001, 9002, 9003], engines, [4, 3, 3] if limited else None, folder)


def test_limits_reach_those_who_have_them(tmp_path: Path) -> None:
    """4/3/3 stands in each peer's own words; without limits there is none of them."""
    words = {nginx: "max_conns=4", haproxy: "maxconn 4", litellm: "max_parallel_requests: 4"}
    for peer, word in words.items():
        for limited in (True, False):
            assert peer(_place(tmp_path, limited=limited))
            texts = [one.read_text(encoding="utf-8") for one in tmp_path.iterdir()]
            assert any(word in text for text in texts) is limited
            for one in tmp_path.iterdir():
                one.unlink()
    routed = sglang_router(_place(tmp_path, limited=True))
    assert routed is not None
    assert "--queue-size" in routed[0].argv
    assert nginx_two_hops(_place(tmp_path, limited=True)) is None


def test_every_peer_has_commands_for_one_engine(tmp_path: Path) -> None:
    """Each gives what is to be started, direct nothing; ours are two processes with an API key."""
    commands = {name: peer(_place(tmp_path, limited=False)) for name, peer in PEERS.items()}
    counts = {name: None if made is None else len(made) for name, made in commands.items()}
    assert counts == {**dict.fromkeys(PEERS, 1), "direct": 0, "nginx-2hop": 2, "iop": 2, "iop-logged": 2}
    assert "api_keys" in (tmp_path / "edge.yaml").read_text(encoding="utf-8")
