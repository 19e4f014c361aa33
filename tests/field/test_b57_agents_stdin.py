"""Field case B57: an agent's stdin is the prompt and its end, never what the node was started with."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.fakes.agents import python
from tests.fakes.stack import Engine, answer_ok, chat, stack

SIZE = 5 * 1024 * 1024
READS_FIRST = "import sys; print(len(sys.stdin.buffer.read()), end='')"
PRINTS_FIRST = f"""import sys
sys.stdout.write('a' * {SIZE}); sys.stdout.flush()
sys.stdout.write(str(len(sys.stdin.buffer.read())))
"""
NEVER_READS = "print('done', end='')"


@pytest.fixture(params=["open pipe", "closed", "null"])
def own_stdin(request: pytest.FixtureRequest) -> Iterator[None]:
    """Give this process (the node) a stdin as a service manager, a shell or ssh would."""
    kept = os.dup(0)
    read_end, write_end = os.pipe()  # kept open: who reads it waits for ever
    null = os.open(os.devnull, os.O_RDONLY)
    if request.param == "closed":
        os.close(0)
    else:
        os.dup2(read_end if request.param == "open pipe" else null, 0)
    try:
        yield
    finally:
        os.dup2(kept, 0)
        for handle in (kept, read_end, write_end, null):
            os.close(handle)


async def test_b57_an_agent_that_reads_stdin_first_gets_its_end(tmp_path: Path, own_stdin: None) -> None:
    """Field case B57: with any stdin of the node, the agent reads exactly the prompt and then the end."""
    async with stack(tmp_path, Engine(answer_ok), agents={"agent": python(READS_FIRST)}) as s:
        answer = await s.post(chat("żółw", model="agent"))
        assert answer.json["choices"][0]["message"]["content"] == str(len("żółw".encode()))


@pytest.mark.parametrize("stream", [False, True])
async def test_b57_a_large_prompt_and_a_large_answer_cross(tmp_path: Path, stream: bool) -> None:
    """Field case B57: 5 MiB of prompt are written while the agent prints 5 MiB before it reads any of it."""
    async with stack(tmp_path, Engine(answer_ok), agents={"agent": python(PRINTS_FIRST)}) as s:
        answer = await s.post(chat("p" * SIZE, model="agent", stream=stream))
        assert answer.status == 200
        assert not answer.cut
        if stream:
            assert answer.body.endswith(b"data: [DONE]\n\n")
            assert SIZE + 7 <= answer.body.count(b"a") < SIZE + len(answer.body) // 10
        else:
            assert answer.json["choices"][0]["message"]["content"] == "a" * SIZE + str(SIZE)
        await s.idle()
        assert s.direct()["completed"] == 1


async def test_b57_an_agent_that_never_reads_its_prompt_is_no_failure(tmp_path: Path) -> None:
    """Field case B57: an agent may answer without reading a prompt that is larger than any pipe."""
    async with stack(tmp_path, Engine(answer_ok), agents={"agent": python(NEVER_READS)}) as s:
        answer = await s.post(chat("p" * SIZE, model="agent"))
        assert answer.json["choices"][0]["message"]["content"] == "done"
