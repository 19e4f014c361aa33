"""The `iop-simulator` command."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import iop
from iop.commands.simulator import main

RUNTIME = Path(iop.__file__).parents[1]
COMMAND = [sys.executable, "-m", "iop.commands.simulator"]
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(RUNTIME)}


def test_serve_prints_one_ready_line_and_ends_with_0():
    """`serve` says exactly one line on stdout and exits 0 on SIGTERM."""
    command = [*COMMAND, "serve", "--model", "m", "--slots", "2", "--tokens-per-second", "9"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=ENVIRONMENT) as process:
        try:
            assert process.stdout.readline().startswith("ready simulator=127.0.0.1:")
        finally:
            process.send_signal(signal.SIGTERM)
        assert process.stdout.read() == ""
        assert process.wait() == 0


def test_agent_answers_with_its_prompt():
    """`agent` reads stdin to its end and answers on stdout."""
    done = subprocess.run(
        [*COMMAND, "agent"], input="é hello".encode(), capture_output=True, env=ENVIRONMENT, check=True
    )
    assert done.stdout.decode() == "agent: é hello"


@pytest.mark.parametrize(
    "options",
    [
        ["serve"],
        ["serve", "--model", "m", "--slots", "0"],
        ["serve", "--model", "m", "--tokens-per-second", "0"],
        ["serve", "--model", "m", "--listen", "nowhere"],
        ["agent", "--delay", "-1"],
        [],
    ],
)
def test_wrong_usage_exits_2(options, capsys):
    """Missing and nonsensical options are usage errors."""
    with pytest.raises(SystemExit) as caught:
        main(options)
    assert caught.value.code == 2
    assert "usage: iop-simulator" in capsys.readouterr().err


@pytest.mark.parametrize("name", ["none", "empty"])
def test_unusable_key_file_exits_2(tmp_path, capsys, name):
    """A key file that is missing or empty is told by its name, never taken for "no key needed"."""
    (tmp_path / "empty").write_text("\n")
    assert main(["serve", "--model", "m", "--api-key-file", str(tmp_path / name)]) == 2
    assert name in capsys.readouterr().err


@pytest.mark.parametrize("option", ["--help", "--version"])
def test_help_and_version(option, capsys):
    """`--help` and `--version` print and exit 0."""
    with pytest.raises(SystemExit) as caught:
        main([option])
    assert caught.value.code == 0
    assert "iop" in capsys.readouterr().out
