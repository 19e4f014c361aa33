"""Log lines: one per record, UTC, text or JSON, no secrets."""

import io
import json
import logging
import re
from logging.handlers import RotatingFileHandler
from pathlib import Path

import pytest

from iop.wiring import logs
from iop.wiring.logs import configure, redact


def test_text_is_one_line_with_utc_time() -> None:
    """A record with line ends and a traceback is one text line that begins with a UTC time."""
    out = io.StringIO()
    configure("info", "text", stream=out)
    try:
        int("boom")
    except ValueError:
        logging.getLogger("iop.x").exception("two\nlines")
    lines = out.getvalue().splitlines()
    assert len(lines) == 1
    assert re.match(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z ERROR iop\.x two \| lines \| Traceback", lines[0])


def test_json_is_one_object_per_line() -> None:
    """A JSON line has at, level, logger and message, and a traceback where there was one."""
    out = io.StringIO()
    configure("info", "json", stream=out)
    logging.getLogger("iop.x").info("über %s", "alles")
    entry = json.loads(out.getvalue())
    assert entry.pop("at").endswith("Z")
    assert entry == {"level": "info", "logger": "iop.x", "message": "über alles"}


def test_levels_and_quiet_access_log() -> None:
    """Records below the level are dropped, and aiohttp's access lines always."""
    out = io.StringIO()
    configure("debug", "text", stream=out)
    logging.getLogger("aiohttp.access").info("GET /")
    logging.getLogger("iop.x").debug("seen")
    configure("warning", "text", stream=out)
    logging.getLogger("iop.x").info("dropped")
    assert [line.split(" ", 3)[3] for line in out.getvalue().splitlines()] == ["seen"]


@pytest.mark.parametrize(
    ("text", "clean"),
    [
        ("Authorization: Bearer abc.def", "Authorization: Bearer [redacted]"),
        ("{'Authorization': 'xyz'}", "{'Authorization': '[redacted]'}"),
        ("key sk-1234567890ab used", "key [redacted] used"),
        ("bearer tokens are refused", "bearer [redacted] are refused"),
        ("token_file missing", "token_file missing"),
    ],
)
def test_credentials_are_redacted(text: str, clean: str) -> None:
    """What looks like a credential never reaches a log line."""
    assert redact(text) == clean


def test_a_log_file_is_written_and_rotated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where nobody rotates stderr: five older files at most, and nothing on stderr."""
    path = tmp_path / "node.log"
    monkeypatch.setenv("IOP_LOG_FILE", str(path))
    monkeypatch.setattr(logs, "FILE_BYTES", 300)
    configure("info", "text")
    try:
        for number in range(60):
            logging.getLogger("iop.x").info("line %d", number)
    finally:
        _close()

    assert path.read_text(encoding="utf-8").rstrip().endswith("line 59")
    assert sorted(one.name for one in tmp_path.iterdir()) == ["node.log", *(f"node.log.{n}" for n in range(1, 6))]
    assert max(one.stat().st_size for one in tmp_path.iterdir()) <= 300


def test_a_log_file_that_cannot_be_written_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The process runs all the same, and logs to stderr."""
    monkeypatch.setenv("IOP_LOG_FILE", str(tmp_path / "none" / "x.log"))
    configure("info", "text")
    logging.getLogger("iop.x").info("still here")

    told = capsys.readouterr().err.splitlines()
    assert "cannot be written (No such file or directory); logging here" in told[0]
    assert told[1].endswith("still here")


def _close() -> None:
    """Let go of the file that `configure` opened."""
    root = logging.getLogger()
    for handler in root.handlers[:]:
        if isinstance(handler, RotatingFileHandler):
            root.removeHandler(handler)
            handler.close()


@pytest.mark.parametrize("form", ["text", "json"])
def test_fields_stand_beside_the_words(form: str) -> None:
    """In text as name=value, in JSON as keys, null included; what looks like a credential is replaced in both."""
    out = io.StringIO()
    configure("info", form, stream=out)
    fields = {"request_id": "r1", "status": 200, "key": None, "path": "/v1/models/sk-1234567890ab", "body": "prompt"}
    logging.getLogger("iop.x").info("request", extra={"fields": fields})
    (line,) = out.getvalue().splitlines()
    assert "prompt" not in line
    if form == "json":
        entry = json.loads(line)
        assert (entry["request_id"], entry["status"], entry["key"]) == ("r1", 200, None)
        assert entry["path"] == "/v1/models/[redacted]"
    else:
        assert line.endswith(" INFO iop.x request request_id=r1 path=/v1/models/[redacted] status=200")


@pytest.mark.parametrize("form", ["text", "json"])
def test_a_traceback_has_no_words_of_the_fault(form: str) -> None:
    """Kind and place are told, of causes and groups too; the words may quote a prompt. The system's own are kept."""
    out = io.StringIO()
    configure("info", form, stream=out)
    fault = ExceptionGroup("the answer", [OSError(24, "Too many open files", "/secret")])
    fault.__cause__ = KeyError("the prompt")
    logging.getLogger("iop.x").error("failed", exc_info=fault)
    (line,) = out.getvalue().splitlines()
    assert "builtins.KeyError" in line
    assert "which led to" in line
    assert "builtins.ExceptionGroup" in line
    assert "builtins.OSError: Too many open files" in line
    assert not re.search("the prompt|the answer|/secret", line)


def test_other_libraries_are_heard_from_warnings_on_and_in_one_line() -> None:
    """Their debug lines tell headers, and the rest of a warning tells objects."""
    out = io.StringIO()
    configure("debug", "text", stream=out)
    for name in ("httpcore.http11", "httpx", "asyncio", "aiohttp.client", "aiohttp.server", "anything.else"):
        logging.getLogger(name).debug("Authorization: Bearer x")
        logging.getLogger(name).info("GET /?key=x")
    logging.getLogger("asyncio").warning("Task exception was never retrieved\nfuture: <Task exception='prompt'>")
    (line,) = out.getvalue().splitlines()
    assert line.endswith("WARNING asyncio Task exception was never retrieved")


def test_controls_cannot_speak_to_a_terminal() -> None:
    """Escapes in the words of a line are written out."""
    out = io.StringIO()
    configure("info", "text", stream=out)
    logging.getLogger("iop.x").warning("node %s", "\x1b[2Jgone")
    assert out.getvalue().endswith("node \\x1b[2Jgone\n")
