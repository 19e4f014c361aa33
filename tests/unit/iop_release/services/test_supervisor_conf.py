"""iop_release.services.supervisor_conf: the files that supervisord reads."""

import configparser
import os
import shlex
import tempfile
from pathlib import Path

import pytest

from iop_release.errors import ReleaseError
from iop_release.services import supervisor_conf as conf
from iop_release.services.contract import Service


def _read(text: str) -> configparser.RawConfigParser:
    parser = configparser.RawConfigParser(inline_comment_prefixes=(";",))
    parser.read_string(text)
    return parser


def test_a_program_keeps_blanks_and_percent_signs() -> None:
    """Paths with blanks and percent signs survive supervisor's quoting and its expansions."""
    argv = ("/a b/100%/python", "-m", "x", "it's")
    text = conf.program_text(Service("mac.edge", argv, {"A": "50%"}), Path("/logs/100%.log"))
    section = _read(text)["program:mac.edge"]

    assert tuple(shlex.split(section["command"] % {})) == argv
    assert section["environment"] % {} == 'A="50%"'
    assert section["stdout_logfile"] % {} == "/logs/100%.log"
    assert (section["autostart"], section["stdout_logfile_backups"]) == ("false", "5")


@pytest.mark.parametrize(
    "service", [Service("x", ("a\nb",)), Service("x", ("a ;b",)), Service("x", ("a",), {"E": '"'})]
)
def test_what_supervisor_cannot_hold_is_refused(service: Service) -> None:
    """Text that would become a comment, another key or a broken value is refused, not mangled."""
    with pytest.raises(ReleaseError, match="cannot hold"):
        conf.program_text(service, Path("/log"))


def test_the_daemon_listens_privately() -> None:
    """The socket is the owner's alone, and programs are included from beside the file."""
    parser = _read(conf.daemon_text(Path("/home/b"), Path("/tmp/x/supervisor.sock")))

    assert parser["unix_http_server"]["chmod"] == "0600"
    assert parser["include"]["files"] == "programs/*.conf"
    assert parser["supervisorctl"]["serverurl"] == "unix:///tmp/x/supervisor.sock"


def test_the_socket_folder_is_short_and_per_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """However deep the checkout or the temp folder lie, the socket's path fits; two environments do not share it."""
    deep = tmp_path.joinpath(*["deep" * 8] * 6)
    one, two = conf.socket_folder(deep / "dev-runtime"), conf.socket_folder(deep / "local-runtime")
    monkeypatch.setattr(tempfile, "tempdir", str(deep))

    assert one != two
    assert len(bytes(conf.socket_folder(deep) / "supervisor.sock")) < 104


def test_a_private_folder_is_ours_alone(tmp_path: Path) -> None:
    """It is made 0700 and tightened when open; a link in its place is refused."""
    folder = tmp_path / "iop-1"
    conf.make_private(folder)
    folder.chmod(0o755)
    conf.make_private(folder)
    link = tmp_path / "iop-2"
    link.symlink_to(folder)

    assert folder.stat().st_mode & 0o777 == 0o700
    assert folder.stat().st_uid == os.getuid()
    with pytest.raises((ReleaseError, FileExistsError)):
        conf.make_private(link)
