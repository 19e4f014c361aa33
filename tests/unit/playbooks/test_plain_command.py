"""playbooks/action_plugins/plain_command.py: what a Windows host is told to start.

Not run on real Windows: the script is read back here, and the command line in it by the rules of its C runtime.
"""

import base64
import importlib.util
import re
import shlex
import subprocess
from pathlib import Path
from types import ModuleType

import pytest

PLUGIN = Path(__file__).resolve().parents[3] / "playbooks" / "action_plugins" / "plain_command.py"
QUOTES = "'\u2018\u2019\u201a\u201b"
HARD = [
    "plain",
    "",
    "two words",
    'say "hi"',
    "it's",
    "a\\b",
    "C:\\Program Files\\iop\\",
    '\\\\server\\share "x"\\',
    "100%PATH%",
    "$env:PATH $(whoami)",
    "a&b|c<d>e^f!g",
    "; rm -rf /",
    "`tick`",
    "\u2018curly\u2019 \u201aquotes\u201b",
    "tab\tand\nline",
    "Überstraße 東京",
    "{'name': [1, 2]}",
]


@pytest.fixture(scope="module")
def plugin() -> ModuleType:
    """The plugin as a module; Ansible loads it by its path, too."""
    spec = importlib.util.spec_from_file_location("plain_command", PLUGIN)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _script(command: str) -> str:
    """The PowerShell in a command, which is made of characters that mean nothing to any shell."""
    assert re.fullmatch(r"[A-Za-z0-9 =+/-]+", command)
    return base64.b64decode(command.rpartition(" ")[2]).decode("utf-16-le")


def _value(script: str, name: str) -> str:
    """What a literal of PowerShell holds: nothing is replaced in it, and two quotes of a kind are one."""
    text = rf"(?:{'|'.join(quote * 2 for quote in QUOTES)}|[^{QUOTES}])*"
    found = re.search(rf"^{re.escape(name)} = '({text})'$", script, re.MULTILINE)
    assert found, f"{name} is no single literal in:\n{script}"
    return re.sub(rf"([{QUOTES}])\1", r"\1", found[1])


def _split(line: str) -> list[str]:
    """As the C runtime of Windows makes arguments of a command line."""
    found: list[str] = []
    place = 0
    while place < len(line):
        if line[place] in " \t":
            place += 1
            continue
        text, quoted = "", False
        while place < len(line) and (quoted or line[place] not in " \t"):
            slashes = re.match(r"\\*", line[place:]).end()  # type: ignore[union-attr]  # it always matches
            place += slashes
            if place < len(line) and line[place] == '"':
                text += "\\" * (slashes // 2)
                if slashes % 2:
                    text += '"'
                else:
                    quoted = not quoted
                place += 1
            else:
                text += "\\" * slashes
                if place < len(line) and (quoted or line[place] not in " \t"):
                    text += line[place]
                    place += 1
        found.append(text)
    return found


@pytest.mark.parametrize("argument", HARD)
def test_an_argument_arrives_as_it_is(plugin: ModuleType, argument: str) -> None:
    """Whatever it holds, the program gets it whole, and the ones beside it too."""
    command = plugin.windows_command(["C:\\Py 3\\python.exe", "-c", argument, "last"], {}, None, with_input=False)
    script = _script(command)

    assert _value(script, "$start.FileName") == "C:\\Py 3\\python.exe"
    assert _split(_value(script, "$start.Arguments")) == ["-c", argument, "last"]


def test_the_reader_of_this_test_knows_the_rules() -> None:
    """The examples of the documentation of the C runtime."""
    assert _split('"a b c" d e') == ["a b c", "d", "e"]
    assert _split('"ab\\"c" "\\\\" d') == ['ab"c', "\\", "d"]
    assert _split('a\\\\\\b d"e f"g h') == ["a\\\\\\b", "de fg", "h"]
    assert _split('a\\\\\\"b c d') == ['a\\"b', "c", "d"]
    assert _split('a\\\\\\\\"b c" d e') == ["a\\\\b c", "d", "e"]


@pytest.mark.parametrize("value", HARD)
def test_environment_and_folder_arrive(plugin: ModuleType, value: str) -> None:
    """They are given to the program that is started, not to the shell."""
    script = _script(plugin.windows_command(["x"], {"NAME": value}, value, with_input=False))

    assert _value(script, "$start.EnvironmentVariables['NAME']") == value
    assert _value(script, "$start.WorkingDirectory") == value


def test_input_is_fed_and_the_exit_code_is_the_programs(plugin: ModuleType) -> None:
    """The program's own input is only taken over when there is some to give."""
    without = _script(plugin.windows_command(["x"], {}, None, with_input=False))
    fed = _script(plugin.windows_command(["x"], {}, None, with_input=True))

    assert "RedirectStandardInput" not in without
    assert fed.index("RedirectStandardInput = $true") < fed.index("::Start(") < fed.index("FromBase64String")
    assert fed.splitlines()[-1] == without.splitlines()[-1] == "exit $program.ExitCode"


def test_posix_gets_what_a_shell_takes_apart() -> None:
    """The words of the other quoting, by a real shell."""
    words = [word for word in HARD if word]
    done = subprocess.run(
        ["/bin/sh", "-c", f"printf '%s\\0' {shlex.join(words)}"], capture_output=True, text=True, check=True
    )
    assert done.stdout.split("\0")[:-1] == words


@pytest.mark.parametrize("before", ["", "Welcome to gx10\n", "two\r\nlines\r\n"])
def test_what_the_shell_says_first_is_not_the_answer(plugin: ModuleType, before: str) -> None:
    """A greeting in the account's `.bashrc` comes before the helper's JSON; an answer without one stays as it is."""
    answer = '{\n  "changed": false,\n  "inner": [\n{}]\n}'
    assert plugin.json_alone(before + answer) == answer
    assert plugin.json_alone("no JSON at all") == "no JSON at all"


@pytest.mark.parametrize(
    ("rc", "stdout", "stderr"),
    [(0, '{"changed": false}', "warning"), (1, '{"findings": []}', ""), (1, "", "error: no")],
)
def test_an_answer_of_the_helper_is_one(plugin: ModuleType, rc: int, stdout: str, stderr: str) -> None:
    """A JSON object, whatever the exit code; or no output and the reason on stderr."""
    assert plugin.no_json(rc, stdout, stderr) == ""


@pytest.mark.parametrize(
    ("rc", "stdout", "shown"),
    [
        (0, "", "  | (nothing)"),
        (0, "Welcome\x1b[2J\n[1, 2]", "  | Welcome\\x1b[2J\n  | [1, 2]"),
        (1, "Traceback (most recent call last):\n  …", "  | Traceback (most recent call last):"),
        (0, '{"cut": ', '  | {"cut": '),
    ],
)
def test_any_other_answer_is_shown_with_what_to_do(plugin: ModuleType, rc: int, stdout: str, shown: str) -> None:
    """The first lines that came, made harmless, and the next step."""
    told = plugin.no_json(rc, stdout, "")
    assert f"exit code {rc}" in told
    assert shown in told
    assert "next: run it there by hand" in told


def test_an_error_that_came_by_a_terminal_is_an_error(plugin: ModuleType) -> None:
    """Where both streams arrive as one, what the helper says on stderr is found there, and not taken for its answer."""
    assert plugin.told_apart(1, "hello\r\nerror: no\r\n  next: x", "") == ("", "hello\r\nerror: no\r\n  next: x")
    assert plugin.told_apart(1, '{"findings": []}', "") == ('{"findings": []}', "")
    assert plugin.told_apart(0, "error: of somebody", "") == ("error: of somebody", "")
    assert plugin.told_apart(1, "error: a", "error: b") == ("error: a", "error: b")
