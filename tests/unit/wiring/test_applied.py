"""The note of what was applied last."""

import json
import logging
import os
from pathlib import Path

import pytest
import yaml

from iop.edge.status import ConfigFacts
from iop.wiring.applied import Applied, AppliedNote
from tests.fakes.edge_under_test import config, edge_under_test

FACTS = ConfigFacts(3, "a" * 64, "/cfg/next.yaml", 0.0)


def test_a_note_is_read_back_and_holds_no_more(tmp_path: Path) -> None:
    """It stands beside the config, tells hash, source and time, and leaves no half-written file."""
    note = AppliedNote(tmp_path / "edge.yaml")
    assert note.read() is None
    note.write(FACTS)
    assert note.read() == Applied("a" * 64, "/cfg/next.yaml", "1970-01-01T00:00:00.000Z")
    assert [path.name for path in tmp_path.iterdir()] == ["edge.yaml.applied"]
    assert set(json.loads((tmp_path / "edge.yaml.applied").read_text())) == {"sha256", "source", "at"}


def test_only_another_text_is_worth_a_warning(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """No note and the same text are silent; another text is named with what was applied."""
    note = AppliedNote(tmp_path / "edge.yaml")
    note.warn_if_other(FACTS)
    note.write(FACTS)
    note.warn_if_other(FACTS)
    assert caplog.text == ""
    note.warn_if_other(ConfigFacts(1, "b" * 64, str(tmp_path / "edge.yaml"), 0.0))
    assert "edge.yaml is not what was last applied: that was /cfg/next.yaml with sha256 aaaaaaaaaaaa" in caplog.text
    assert "sha256 bbbbbbbbbbbb" in caplog.text


@pytest.mark.parametrize("text", ["", "{", "[]", '{"sha256": "a"}'])
def test_a_broken_note_is_none(tmp_path: Path, text: str, caplog: pytest.LogCaptureFixture) -> None:
    """What cannot be read is said once and replaced."""
    (tmp_path / "edge.yaml.applied").write_text(text)
    note = AppliedNote(tmp_path / "edge.yaml")
    assert note.read() is None
    assert "cannot be read" in caplog.text
    note.write(FACTS)
    assert note.read() is not None


def test_a_note_that_cannot_be_written_is_a_warning(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """The Edge goes on without it."""
    AppliedNote(tmp_path / "gone" / "edge.yaml").write(FACTS)
    assert [record.levelno for record in caplog.records] == [logging.WARNING]
    assert "cannot write" in caplog.text


async def test_a_restart_with_another_file_is_told(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """A start after an applied refresh from elsewhere warns; the same file started again does not."""
    async with edge_under_test(tmp_path):
        pass
    async with edge_under_test(tmp_path) as edge:
        assert "last applied" not in caplog.text
        text = yaml.safe_dump(
            config(wedge_after="90s", listen=dict(edge.core.config.model_dump(mode="json")["listen"]))
        )
        body = {"mode": "apply", "config": text, "source": str(tmp_path / "next.yaml")}
        headers = {"Authorization": f"Bearer {edge.core.token}"}
        answer = await edge.session.post(edge.url("/config/refresh", "admin"), json=body, headers=headers)
        assert (await answer.json())["new_generation"] == 2
    async with edge_under_test(tmp_path):
        assert f"that was {tmp_path}{os.sep}next.yaml" in caplog.text
