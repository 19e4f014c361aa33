"""What all commands share."""

import argparse

import pytest

from iop import __version__
from iop.commands.common import add_serve_options, add_version_option, release_id, version_text


def test_release_id(monkeypatch: pytest.MonkeyPatch) -> None:
    """The release id is the environment's, and `dev` without one."""
    monkeypatch.delenv("IOP_RELEASE_ID", raising=False)
    assert release_id() == "dev"
    monkeypatch.setenv("IOP_RELEASE_ID", "v1-abc")
    assert release_id() == "v1-abc"
    assert version_text() == f"iop {__version__} (release v1-abc)"


def test_options(capsys: pytest.CaptureFixture[str]) -> None:
    """A serve command has a log level and format with defaults; a wrong value is a usage error with code 2."""
    parser = argparse.ArgumentParser()
    add_serve_options(parser)
    add_version_option(parser)
    options = parser.parse_args([])
    assert (options.log_level, options.log_format) == ("info", "text")
    with pytest.raises(SystemExit) as usage:
        parser.parse_args(["--log-format", "xml"])
    assert usage.value.code == 2
    with pytest.raises(SystemExit) as done:
        parser.parse_args(["--version"])
    assert done.value.code == 0
    assert __version__ in capsys.readouterr().out
