"""The `edge` command line."""

import os
from pathlib import Path

import pytest

from iop.commands import edge


def test_help_and_version(capsys: pytest.CaptureFixture[str]) -> None:
    """`--help` and `--version` exit 0 and say something."""
    for option in ("--help", "--version"):
        with pytest.raises(SystemExit) as exited:
            edge.main([option])
        assert exited.value.code == 0
    assert "iop" in capsys.readouterr().out


@pytest.mark.parametrize("argv", [[], ["serve", "--log-level", "loud"], ["config"], ["--config", "x"], ["serve"]])
def test_usage_errors_exit_2(argv: list[str]) -> None:
    """What cannot be understood, or has no config, is a usage error."""
    try:
        code = edge.main(argv)
    except SystemExit as exited:
        code = int(exited.code or 0)
    assert code == 2


def test_an_unreadable_file_exits_2(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A file that is not there is told by name."""
    assert edge.main(["--config", str(tmp_path / "none.yaml"), "serve"]) == 2
    assert "none.yaml" in capsys.readouterr().err


def test_a_wrong_config_starts_nothing_and_says_where(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """`serve` with findings exits 1, names file:line:column, and makes no token."""
    path = tmp_path / "edge.yaml"
    path.write_text("edge: {id: e}\nnodes: []\nmodels: []\nqueu: {}\n")

    assert edge.main(["--config", str(path), "serve"]) == 1
    captured = capsys.readouterr()
    assert f"{path}:4:1" in captured.err
    assert captured.out == ""
    assert list(tmp_path.iterdir()) == [path]


def test_config_check_is_part_of_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """`edge --config F config check` works from this parser."""
    path = tmp_path / "edge.yaml"
    path.write_text("edge: {id: e}\nnodes: []\nmodels: []\n")

    assert edge.main(["--config", str(path), "config", "check"]) == 0
    assert "ok:" in capsys.readouterr().out


def test_a_passed_socket_that_cannot_be_used_starts_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A name that is no listener of the Edge: exit 1, one line, and nothing of the environment is left."""
    path = tmp_path / "edge.yaml"
    path.write_text("edge: {id: e}\nnodes: []\nmodels: []\n")
    with pytest.MonkeyPatch.context() as patch:
        for name, value in {"LISTEN_PID": str(os.getpid()), "LISTEN_FDS": "1", "LISTEN_FDNAMES": "web"}.items():
            patch.setenv(name, value)
        assert edge.main(["--config", str(path), "serve"]) == 1
        assert not [name for name in os.environ if name.startswith("LISTEN_")]
    assert "passed as 'web'" in capsys.readouterr().err
