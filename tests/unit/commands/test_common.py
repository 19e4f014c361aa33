"""What all commands share."""

from collections.abc import Callable

import pytest

from iop import __version__
from iop.commands import control, edge, node, simulator
from iop.commands.common import CommandParser, add_serve_options, release_id, version_text


def test_release_id(monkeypatch: pytest.MonkeyPatch) -> None:
    """The release id is the environment's, and `dev` without one."""
    monkeypatch.delenv("IOP_RELEASE_ID", raising=False)
    assert release_id() == "dev"
    monkeypatch.setenv("IOP_RELEASE_ID", "v1-abc")
    assert release_id() == "v1-abc"
    assert version_text() == f"iop {__version__} (release v1-abc)"


def test_options(capsys: pytest.CaptureFixture[str]) -> None:
    """A serve command has a log level and format with defaults; a wrong value is a usage error with code 2."""
    parser = CommandParser()
    add_serve_options(parser)
    options = parser.parse_args([])
    assert (options.log_level, options.log_format) == ("info", "text")
    with pytest.raises(SystemExit) as usage:
        parser.parse_args(["--log-format", "xml"])
    assert usage.value.code == 2
    with pytest.raises(SystemExit) as done:
        parser.parse_args(["--version"])
    assert done.value.code == 0
    assert __version__ in capsys.readouterr().out


@pytest.mark.parametrize(
    ("main", "path"),
    [
        *((edge.main, path) for path in ("serve", "config", "config check", "config refresh", "config schema")),
        (node.main, "serve"),
        (control.main, "serve"),
        *((simulator.main, path) for path in ("serve", "agent")),
    ],
)
@pytest.mark.parametrize(("option", "text"), [("--help", "usage:"), ("--version", f"iop {__version__}")])
def test_every_command_has_help_and_version(
    main: Callable[[list[str]], int], path: str, option: str, text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Sub-commands know both options too, without any other argument."""
    with pytest.raises(SystemExit) as done:
        main([*path.split(), option])
    assert done.value.code == 0
    assert text in capsys.readouterr().out
