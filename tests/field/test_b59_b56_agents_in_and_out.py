"""Field cases B56 and B59: what goes into an agent and what comes out of it, through the whole stack."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.fakes.agents import python
from tests.fakes.codex import COMPLETED, OPENING, FakeCodex, delta
from tests.fakes.stack import Engine, answer_ok, chat, stack

DUMP = python(
    "import json, sys; print(json.dumps({'argv': sys.argv, 'stdin': sys.stdin.buffer.read().decode()}), end='')"
)
PROMPTS = [
    "--help",
    "-c x=y",
    "--dangerously-bypass-approvals-and-sandbox",
    "---\ntitle",
    "- [ ] task",
    "'single' \"double\" `id` $(id) %PATH% & | ^ !",
    "first\r\nsecond\n\nlast\n",
    "żółw 漢 🙂 \u2028",
    "x" * 200 * 1024,
]


def codex_entry(codex: FakeCodex) -> dict[str, Any]:
    """The stand-in as an entry of `cli.targets`."""
    target = codex.target()
    return {"kind": "codex", "command": list(target.command), "env": target.env}


async def test_b59_prompts_arrive_byte_for_byte_and_not_in_argv(tmp_path: Path) -> None:
    """Field case B59: options, quotes, expansions, line ends, 200 KiB: stdin is the prompt, argv always the same."""
    async with stack(tmp_path, Engine(answer_ok), agents={"agent": DUMP}) as s:
        for prompt in PROMPTS:
            answer = await s.post(chat(prompt, model="agent"))
            dumped = json.loads(answer.json["choices"][0]["message"]["content"])
            assert dumped == {"argv": ["-c"], "stdin": prompt}
        answer = await s.post(chat("a\0b", model="agent"))
        assert (answer.status, answer.json["error"]["code"]) == (400, "invalid_body")


@pytest.mark.parametrize("way", ["app_server", "exec"])
async def test_b59_prompts_of_codex(tmp_path: Path, way: str) -> None:
    """Field case B59: the same for Codex, by either way."""
    codex = FakeCodex(tmp_path, **{way: f"{way}_ok"})
    async with stack(tmp_path, Engine(answer_ok), agents={"codex": codex_entry(codex)}) as s:
        for prompt in PROMPTS:
            assert (await s.post(chat(prompt, model="codex"))).status == 200
    if way == "exec":
        runs = codex.log()
        assert [run["stdin"] for run in runs] == PROMPTS
        assert all(run["argv"] == runs[0]["argv"] for run in runs)
    else:
        assert [turn["params"]["input"][0]["text"] for turn in codex.got("turn/start")] == PROMPTS
        assert [entry["argv"] for entry in codex.log() if "argv" in entry] == [["app-server"]] * (len(PROMPTS) + 1)


@pytest.mark.parametrize(
    ("size", "stream"),
    [(70 * 1024, False), (1024 * 1024, False), (4 * 1024 * 1024, False), (70 * 1024, True), (1024 * 1024, True)],
)
async def test_b56_long_lines_of_codex(tmp_path: Path, size: int, stream: bool) -> None:
    """Field case B56: one long event among noise, the last one without a line end (20 MiB: see the unit test)."""
    lines = [*OPENING, "noise \x1b[31m", delta("x" * size), "[1, 2]", f"! stdout {COMPLETED}", "! wait 1"]
    codex = FakeCodex(tmp_path, app_server=[*lines, "! exit 0"])
    async with stack(tmp_path, Engine(answer_ok), agents={"codex": codex_entry(codex)}) as s:
        answer = await s.post(chat(model="codex", stream=stream))
        assert answer.status == 200
        assert not answer.cut
        assert size <= answer.body.count(b"x") < size + 10
        await s.idle()
        assert s.direct()["completed"] == 1


async def test_b56_a_line_above_the_cap(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Field case B56: above the cap the client gets the reason, and Codex is gone."""
    monkeypatch.setattr("iop.adapters.cli.jsonl.MAX_LINE", 100_000)
    codex = FakeCodex(tmp_path, app_server=[*OPENING, delta("x" * 200_000), "! hang"])
    async with stack(tmp_path, Engine(answer_ok), agents={"codex": codex_entry(codex)}) as s:
        answer = await s.post(chat(model="codex"))
        assert (answer.status, answer.json["error"]["code"]) == (502, "agent_failed")
        assert "a line of more than 100000 bytes" in answer.json["error"]["message"]
        await s.idle()
