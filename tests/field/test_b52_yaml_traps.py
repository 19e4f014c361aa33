"""Field case B52: YAML traps (duplicates, byte-order marks, tabs, …), whatever the locale is."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.fakes.config_files import EDGE, changed

ROOT = Path(__file__).parents[2]
BOM = b"\xef\xbb\xbf"
ALIAS = "id: n1\n    alias: Dachstübchen\n"
PROVIDER = "      - {id: p1, type: other, category: local_inference, adapter: e1, capacity: 3}\n"
#: name -> file, exit code, and code and line of the first error
TRAPS: dict[str, tuple[bytes, int, tuple[str, int] | None]] = {
    "two sections": (
        changed(("models:\n", f"    providers:\n{PROVIDER}models:\n")).encode(),
        1,
        ("yaml_duplicate_key", 11),
    ),
    "capacity twice": (changed(("capacity: 3", "capacity: 3, capacity: 4")).encode(), 1, ("yaml_duplicate_key", 10)),
    "two providers of one id": (changed((PROVIDER, PROVIDER * 2)).encode(), 1, ("duplicate_id", 11)),
    "BOM": (BOM + EDGE.encode(), 0, None),
    "CRLF": (EDGE.replace("\n", "\r\n").encode(), 0, None),
    "Notepad": (BOM + EDGE.replace("\n", "\r\n").encode(), 0, None),
    "BOM inside": (EDGE.encode() + BOM + b"x-more: 1\n", 1, ("yaml_encoding", 14)),
    "UTF-16": (EDGE.encode("utf-16"), 1, ("yaml_encoding", 1)),
    "UTF-16 without a mark": (EDGE.encode("utf-16-le"), 1, ("yaml_encoding", 1)),
    "a Windows code page": (changed(("id: n1\n", ALIAS)).encode("cp1252"), 1, ("yaml_encoding", 5)),
    "UTF-8": (changed(("id: n1\n", "id: n1\n    alias: Dachstübchen 屋根裏\n")).encode(), 0, None),
    "tab": (changed(("    adapters:\n", "\tadapters:\n")).encode(), 1, ("yaml_tab", 5)),
    "trailing NUL": (EDGE.encode() + b"\0", 1, ("yaml_encoding", 14)),
    "merge key": (
        changed(("edge: {", "x-base: &base {max_waiting: 3}\nqueue: {<<: *base}\nedge: {")).encode(),
        0,
        None,
    ),
    "merge of nothing": (changed(("edge: {", "queue: {<<: 5}\nedge: {")).encode(), 1, ("yaml_merge", 1)),
    "alias bomb": (
        (
            "x-a: &a [x,x,x,x,x,x,x,x,x,x]\n"
            + "".join(f"x-{n}: &{n} [{','.join([f'*{chr(ord(n) - 1)}'] * 10)}]\n" for n in "bcdefgh")
            + EDGE
        ).encode(),
        1,
        ("yaml_too_large", 1),
    ),
    "1 MiB": (b"# " + b"x" * 2**20 + b"\n" + EDGE.encode(), 1, ("yaml_too_large", 1)),
    "a word that is a number": (changed(("id: n1\n", "id: 0123\n")).encode(), 1, ("quote_it", 4)),
    "a word that is a bool": (changed(("id: edge-test", "id: off")).encode(), 1, ("quote_it", 1)),
    "a word that is a time": (changed(("id: edge-test", "id: 12:30:45")).encode(), 1, ("quote_it", 1)),
}
PROGRAM = """
import contextlib, io, json, sys
from iop.commands.edge import main
told = {}
for path in sys.argv[1:]:
    out = io.TextIOWrapper(io.BytesIO(), encoding=sys.stdout.encoding)
    with contextlib.redirect_stdout(out):
        code = main(["--config", path, "config", "check", "--json"])
    out.flush()
    told[path] = [code, json.loads(out.buffer.getvalue())["findings"]]
print(json.dumps(told))
"""


@pytest.mark.parametrize(
    "locale", [{"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}, {"LC_ALL": "C.UTF-8"}]
)
def test_b52_each_trap_has_its_exit_code_and_line(tmp_path: Path, locale: dict[str, str]) -> None:
    """Field case B52: what YAML lets pass in silence is refused with its line; what Windows writes is accepted."""
    paths = {}
    for number, (name, (raw, _, _)) in enumerate(TRAPS.items()):
        path = tmp_path / f"{number}.yaml"
        path.write_bytes(raw)
        paths[str(path)] = name
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, *paths],
        env={"PATH": os.environ["PATH"], "PYTHONPATH": str(ROOT / "runtime"), **locale},
        capture_output=True, timeout=120, check=True,
    )  # fmt: skip
    told = {paths[path]: outcome for path, outcome in json.loads(done.stdout).items()}
    wanted, found = {}, {}
    for name, (_, code, error) in TRAPS.items():
        wanted[name] = (code, error)
        errors = [(one["code"], one["line"]) for one in told[name][1] if one["severity"] == "error"]
        found[name] = (told[name][0], errors[0] if errors else None)
    assert found == wanted
