"""Field case B60: what stands behind a program's name, on POSIX and behind Windows' shims."""

import pytest

from iop.adapters.cli.shims import Files, NotFoundError, resolve

NPM = r"""@ECHO off
GOTO start
:find_dp0
SET dp0=%~dp0
EXIT /b
:start
SETLOCAL
CALL :find_dp0

IF EXIST "%dp0%\node.exe" (
  SET "_prog=%dp0%\node.exe"
) ELSE (
  SET "_prog=node"
  SET PATHEXT=%PATHEXT:;.JS;=;%
)

endLocal & goto #_undefined_# 2>NUL || title %COMSPEC% & "%_prog%"  "%dp0%\node_modules\@openai\codex\bin\codex.js" %*
"""
OLD_NPM = r"""@IF EXIST "%~dp0\node.exe" (
  "%~dp0\node.exe"  "%~dp0\node_modules\@openai\codex\bin\codex.js" %*
) ELSE (
  @SETLOCAL
  @SET PATHEXT=%PATHEXT:;.JS;=;%
  node  "%~dp0\node_modules\@openai\codex\bin\codex.js" %*
)
"""
PNPM = r"""@SETLOCAL
@IF NOT DEFINED NODE_PATH (
  @SET "NODE_PATH=C:\p n\global\5\node_modules"
) ELSE (
  @SET "NODE_PATH=C:\p n\global\5\node_modules;%NODE_PATH%"
)
@IF EXIST "%~dp0\node.exe" (
  "%~dp0\node.exe"  "%~dp0\..\global\5\node_modules\@openai\codex\bin\codex.js" %*
) ELSE (
  @SET PATHEXT=%PATHEXT:;.JS;=;%
  node  "%~dp0\..\global\5\node_modules\@openai\codex\bin\codex.js" %*
)
"""
NATIVE = '@ECHO off\r\n"%dp0%\\node_modules\\tool\\bin\\tool.exe"   %*\r\n'
BIN = "C:\\Program Files\\np m"
NODE = "C:\\node js\\node.exe"
ENV = {"Path": f'C:\\none;"{BIN}";C:\\node js', "OTHER": "x"}
NPM_SCRIPT = BIN + r"\node_modules\@openai\codex\bin\codex.js"
PNPM_SCRIPT = r"C:\Program Files\global\5\node_modules\@openai\codex\bin\codex.js"


def windows(command, contents, env=ENV):
    """Resolve on a Windows with these files (path -> text)."""
    lowered = {path.lower(): text for path, text in contents.items()}
    files = Files(exists=lambda path: path.lower() in lowered, read=lambda path: lowered[path.lower()])
    return resolve(command, env, platform="win32", files=files)


@pytest.mark.parametrize(
    ("text", "script"),
    [(NPM, NPM_SCRIPT), (OLD_NPM, NPM_SCRIPT), (PNPM, PNPM_SCRIPT), (NPM.replace("\n", "\r\n"), NPM_SCRIPT)],
)
def test_shims_become_node_and_script(text, script):
    """The shims of npm and pnpm are read, not run; the words of the command follow as they are."""
    files = {BIN + "\\codex.cmd": text, BIN + "\\codex": "#!/bin/sh", NODE: ""}
    words = ("-c", 'x="a & b | c ^ %PATH%"\nd')
    assert windows(("codex", *words), files) == (NODE, script, *words)


def test_the_node_beside_the_shim_wins():
    """As in the shim itself."""
    files = {BIN + "\\codex.cmd": NPM, BIN + "\\node.exe": "", NODE: ""}
    assert windows(("codex",), files) == (BIN + "\\node.exe", NPM_SCRIPT)


def test_a_path_with_a_folder_is_taken_as_it_stands():
    """An absolute name, with or without its ending, is not looked for on PATH."""
    files = {"D:\\my tools\\codex.CMD": NPM, NODE: ""}
    expected = (NODE, r"D:\my tools\node_modules\@openai\codex\bin\codex.js")
    assert windows(("D:\\my tools\\codex.cmd",), files) == expected
    assert windows(("D:\\my tools\\codex",), files) == expected


def test_programs_are_preferred_to_shims():
    """An .exe needs no reading; a shim of an .exe is that .exe."""
    files = {BIN + "\\codex.cmd": NPM, BIN + "\\codex.exe": "", NODE: ""}
    assert windows(("codex", "x"), files) == (BIN + "\\codex.exe", "x")
    assert windows(("tool",), {BIN + "\\tool.cmd": NATIVE}) == (BIN + r"\node_modules\tool\bin\tool.exe",)


@pytest.mark.parametrize(
    ("files", "text"),
    [
        ({BIN + "\\codex.ps1": ""}, "only .*codex.ps1 was found: PowerShell scripts cannot be started without a shell"),
        ({BIN + "\\codex": "#!/bin/sh"}, "codex is not on PATH"),
        ({BIN + "\\codex.cmd": "@echo hello %*"}, "codex.cmd is a batch file that iop cannot start without a shell"),
        ({BIN + "\\codex.cmd": "@echo hello"}, "batch file"),
        ({BIN + "\\codex.bat": ""}, "batch file"),
        ({BIN + "\\codex.cmd": NPM}, "node is not on PATH"),
    ],
)
def test_what_cannot_be_started_is_told(files, text):
    """Each case says why, and nothing is ever given to a shell."""
    with pytest.raises(NotFoundError, match=text):
        windows(("codex",), files)


def test_posix(tmp_path):
    """On POSIX the program is found on the given PATH; a name with a folder counts from `cwd`."""
    program = tmp_path / "agent"
    program.write_text("#!/bin/sh\n")
    with pytest.raises(NotFoundError, match="not executable"):
        resolve(("./agent",), {}, cwd=str(tmp_path), platform="linux")
    program.chmod(0o755)
    assert resolve(("./agent", "-x"), {}, cwd=str(tmp_path), platform="linux") == ("./agent", "-x")
    assert resolve(("agent",), {"PATH": f"/none:{tmp_path}"}, platform="darwin") == (str(program),)
    with pytest.raises(NotFoundError, match=r"agent is not on PATH$"):
        resolve(("agent",), {"PATH": "/none"}, platform="linux")
    with pytest.raises(NotFoundError, match="does not exist"):
        resolve((str(tmp_path),), {}, platform="linux")
