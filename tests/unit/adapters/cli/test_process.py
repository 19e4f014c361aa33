"""One run of a CLI program: pipes that never block each other, and an end that leaves nothing behind."""

import asyncio
import gc
import os
import threading
import uuid
from pathlib import Path

import pytest
import uvloop

from iop.adapters.cli.process import READ_BUFFER, STDERR_TAIL, AgentProcess, CommandLine
from iop.adapters.cli.trees import tree_for
from tests.fakes.agents import STUBBORN_TREE, living, python
from tests.fakes.until import until

MEBIBYTE = 1024 * 1024


def start(program, prompt=b"", *, grace=2.0, cwd=None, **env):
    """Return the context of one run."""
    command = CommandLine(argv=python(program), env={**os.environ, **env}, cwd=cwd)
    return AgentProcess(command, tree_for("linux"), prompt=prompt, grace=grace)


async def read_all(process):
    """Read stdout to its end."""
    parts = []
    while data := await process.read():
        parts.append(data)
    return b"".join(parts)


async def outcome(program, prompt=b"", **options):
    """Run to the end; return output, exit code and the last line of stderr."""
    async with asyncio.timeout(60), start(program, prompt, **options) as process:
        return await read_all(process), await process.wait(), process.last_error_line()


async def test_prompt_in_answer_out():
    """The prompt arrives whole, followed by EOF; output, exit code and stderr come back."""
    program = (
        "import sys; sys.stdout.buffer.write(sys.stdin.buffer.read()[::-1]); "
        "print('a\\nlast \\n\\n', file=sys.stderr); sys.exit(3)"
    )
    assert await outcome(program, "é!".encode()) == ("é!".encode()[::-1], 3, "last")


@pytest.mark.parametrize(
    "prompt", [b"--help", b"-c x=y", b"---\ntitle", b"$(id) %PATH% 'q' \"d\"", b"a\nb", b"x" * 200_000, b"a\0b"]
)
async def test_nothing_of_the_prompt_is_in_argv(prompt):
    """Field case B59: the prompt goes by stdin, byte for byte; the command line is the same for all."""
    program = "import sys; sys.stdout.buffer.write(repr(sys.argv[1:]).encode() + sys.stdin.buffer.read())"
    output, code, _ = await outcome(program, prompt)
    assert (output, code) == (b"[]" + prompt, 0)


async def test_large_prompt_against_large_output():
    """Field case B57: five mebibytes each way, the output first, block nobody."""
    program = (
        "import sys; sys.stdout.write('x' * 5242880); sys.stdout.flush(); n = len(sys.stdin.buffer.read()); print(n)"
    )
    output, code, _ = await outcome(program, bytes(5 * MEBIBYTE))
    assert code == 0
    assert output.lstrip(b"x").strip() == b"5242880"


async def test_an_agent_that_never_reads_its_prompt():
    """A program may ignore its stdin; nothing is left open by that."""
    output, code, _ = await outcome("print('hi')", bytes(5 * MEBIBYTE))
    assert (output.strip(), code) == (b"hi", 0)


async def test_output_comes_as_it_is_written():
    """A piece is readable before the program goes on."""
    program = "import sys; print('one', flush=True); sys.stdin.read(); import time; time.sleep(600)"
    async with asyncio.timeout(60), start(program) as process:
        assert (await process.read()).strip() == b"one"


async def test_back_pressure():
    """A program is made to wait when nobody reads, and loses nothing when somebody does."""
    program = "import sys; sys.stdout.write('x' * 20_000_000)"
    async with asyncio.timeout(60), start(program) as process:
        await until(lambda: process._pipes._held >= READ_BUFFER)
        await asyncio.sleep(0.1)
        assert process._pipes._held < 2 * READ_BUFFER + MEBIBYTE
        assert len(await read_all(process)) == 20_000_000


async def test_slow_reader_after_the_programs_end():
    """What was written before the end is read after it, however late."""
    async with asyncio.timeout(60), start("import sys; sys.stdout.write('x' * 300_000)") as process:
        await until(process._pipes.exited.is_set)
        await asyncio.sleep(0.8)
        assert len(await read_all(process)) == 300_000


async def test_stderr_is_bounded():
    """Only the end of stderr is kept."""
    program = "import sys; sys.stderr.write('e' * 500_000 + '\\nthe end\\n')"
    async with asyncio.timeout(60), start(program) as process:
        await read_all(process)
        await process.wait()
        assert process.last_error_line() == "the end"
        assert len(process._pipes.stderr) <= STDERR_TAIL


async def test_a_child_that_holds_stdout_does_not_hold_the_answer():
    """When the program itself has ended, something that it left behind is not waited for, and is ended too."""
    marker = f"IOP_TEST_{uuid.uuid4().hex}"
    left_behind = "subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)'])"
    program = f"import subprocess, sys; {left_behind}; print('done')"
    assert await outcome(program, **{marker: "1"}) == (b"done\n", 0, "")
    assert list(living(marker)) == []


@pytest.mark.parametrize("leader_lives", [True, False])
async def test_the_whole_tree_is_gone(leader_lives):
    """Field case B55: children that ignore SIGTERM are gone at the end, whether their starter still lives or not."""
    marker = f"IOP_TEST_{uuid.uuid4().hex}"
    program = STUBBORN_TREE + ("time.sleep(600)" if leader_lives else "time.sleep(0.1)")
    async with asyncio.timeout(60), start(program, grace=0.3, **{marker: "1"}) as process:
        assert (await process.read()).strip() == b"up"
        assert len(list(living(marker))) >= 2
    assert list(living(marker)) == []
    assert process._pipes.exited.is_set()


async def test_cancelled_twice():
    """Leaving by cancellation ends the tree; a second cancellation only makes it quicker."""
    marker = f"IOP_TEST_{uuid.uuid4().hex}"
    up = asyncio.Event()

    async def run():
        async with start(STUBBORN_TREE + "time.sleep(600)", grace=600.0, **{marker: "1"}) as process:
            await process.read()
            up.set()
            await process.read()

    async with asyncio.timeout(60):
        task = asyncio.ensure_future(run())
        await up.wait()
        task.cancel()
        await asyncio.sleep(0.05)
        assert not task.done()
        task.cancel()
        await asyncio.wait([task])
    assert task.cancelled()
    assert list(living(marker)) == []


@pytest.mark.parametrize(
    "command",
    [
        CommandLine(argv=("/no/such/program",), env={}),
        CommandLine(argv=("/",), env={}),
        CommandLine(argv=python(""), env={}, cwd="/no/such/folder"),
        CommandLine(argv=("a\0b",), env={}),
    ],
)
async def test_what_cannot_be_started(command):
    """A wrong command or folder is an error of the start."""
    with pytest.raises((OSError, ValueError)):
        async with AgentProcess(command, tree_for("linux"), prompt=b""):
            pass


async def test_a_look_at_a_busy_host_does_not_hold_up_the_loop():
    """Each look at the tree lasts until the loop has turned meanwhile; on the loop itself it never would."""
    loop, tree = asyncio.get_running_loop(), tree_for("linux")
    alive, end, held_up = tree.alive, tree.end, []

    def slowly(look, *words, **named):
        turned = threading.Event()
        loop.call_soon_threadsafe(turned.set)
        held_up.append(not turned.wait(5.0))
        return look(*words, **named)

    tree.alive = lambda: slowly(alive)
    tree.end = lambda *, force: slowly(end, force=force)
    command = CommandLine(argv=python("import time; print('up', flush=True); time.sleep(600)"), env=os.environ)
    async with asyncio.timeout(60), AgentProcess(command, tree, prompt=b"") as process:
        await process.read()
    assert held_up
    assert not any(held_up)


def open_handles():
    """Count this process's file handles."""
    return len(list(Path("/proc/self/fd").iterdir()))


async def test_file_handles_are_given_back():
    """Ten runs leave no handle open."""
    await outcome("pass")
    gc.collect()
    before = open_handles()
    for _ in range(10):
        await outcome("print(1)", b"x")
    assert open_handles() <= before


@pytest.mark.parametrize(
    "case",
    [
        test_prompt_in_answer_out,
        test_large_prompt_against_large_output,
        test_an_agent_that_never_reads_its_prompt,
        test_back_pressure,
        test_a_child_that_holds_stdout_does_not_hold_the_answer,
        test_cancelled_twice,
    ],
)
def test_the_same_on_the_loop_of_production(case):
    """Pipes and processes of uvloop are not asyncio's: what depends on them holds there too."""
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(case())
