"""`edge config check` and `edge config schema`: output and exit codes."""

import argparse
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from iop.commands.config_check import add_parsers
from tests.fakes.config_files import EDGE, changed

RUNTIME = str(Path(__file__).parents[3] / "runtime")


def _run(*argv: str) -> int:
    parser = argparse.ArgumentParser(prog="edge")
    parser.add_argument("--config")
    config = parser.add_subparsers(required=True).add_parser("config")
    add_parsers(config.add_subparsers(required=True))
    args = parser.parse_args(argv)
    code: int = args.run(args)
    return code


def _file(folder: Path, text: str) -> str:
    path = folder / "edge.yaml"
    path.write_text(text, encoding="utf-8")
    return str(path)


def test_a_clean_file_is_ok(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Exit 0 and one line with what the file holds."""
    name = _file(tmp_path, EDGE)
    assert _run("--config", name, "config", "check") == 0
    out = capsys.readouterr().out
    assert out.startswith(f"ok: {name} (1 node, 1 provider, 2 models, sha256 ")
    assert out.count("\n") == 1


def test_errors_are_told_with_their_place(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Exit 1, a line for each finding, then the verdict."""
    name = _file(tmp_path, changed(("capacity: 3", "capcity: 3"), ("provider: other", "provider: vllm")))
    assert _run("--config", name, "config", "check") == 1
    lines = capsys.readouterr().out.splitlines()
    assert any(line.startswith(f"{name}:10:") and "error unknown_key" in line for line in lines)
    assert lines[-1] == f"refused: {name} (2 errors, 1 warning)"


def test_warnings_pass(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Exit 0 with the warning shown."""
    name = _file(tmp_path, changed(("provider: other", "provider: vllm")))
    assert _run("--config", name, "config", "check") == 0
    first, last = capsys.readouterr().out.splitlines()
    assert "warning type_mismatch" in first
    assert last.startswith("ok: ")


def test_json_has_the_shape_of_the_interface(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """`ok` and `findings`, each with its eight fields."""
    name = _file(tmp_path, changed(("capacity: 3", "capacity: true")))
    assert _run("--config", name, "config", "check", "--json") == 1
    report = json.loads(capsys.readouterr().out)
    assert report["ok"] is False
    (finding,) = report["findings"]
    assert (finding["severity"], finding["code"], finding["file"], finding["line"]) == ("error", "wrong_type", name, 10)
    assert finding["path"] == "nodes[0].providers[0].capacity"
    assert set(finding) == {"severity", "code", "file", "line", "column", "path", "message", "hint"}


def test_unreadable_file_and_missing_option_are_usage(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Exit 2 with the reason on stderr and nothing on stdout."""
    assert _run("--config", str(tmp_path / "none.yaml"), "config", "check") == 2
    assert _run("config", "check") == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert "none.yaml: No such file" in err
    assert "--config FILE" in err


def test_schema_is_printed_without_a_config(capsys: pytest.CaptureFixture[str]) -> None:
    """`edge config schema` needs no file."""
    assert _run("config", "schema") == 0
    assert json.loads(capsys.readouterr().out)["required"] == ["edge", "nodes", "models"]


@pytest.mark.parametrize(
    ("text", "code"),
    [(changed(("id: n1\n", "id: n1\n    alias: Büro ☎\n")), 0), (changed(("capacity: 3", "cäpacity: 3")), 1)],
)
def test_the_locale_does_not_matter(text: str, code: int, tmp_path: Path) -> None:
    """Field case B52: with LC_ALL=C and UTF-8 mode off, a UTF-8 file is read and reported all the same."""
    name = _file(tmp_path, text)
    program = (
        "import argparse, sys\n"
        "from iop.commands.config_check import run_check\n"
        "sys.exit(run_check(argparse.Namespace(config=sys.argv[1], json=False)))\n"
    )
    env = {**os.environ, "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0", "LC_ALL": "C", "PYTHONPATH": RUNTIME}
    done = subprocess.run([sys.executable, "-c", program, name], env=env, capture_output=True, timeout=60, check=False)
    assert (done.returncode, done.stderr) == (code, b"")
    assert name.encode() in done.stdout
