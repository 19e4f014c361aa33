"""iop_release.edits: an edit of the live config by hand."""

from pathlib import Path

import pytest

from iop_release.edits import CANDIDATE, DEPLOYED, LIVE, edited


@pytest.mark.parametrize(
    ("live", "deployed", "found"),
    [
        (None, None, False),  # fresh
        ("old\n", "old\n", False),  # as deployed
        ("new\n", "old\n", False),  # a deploy was interrupted between its two files
        ("mine\n", "old\n", True),
        ("mine\n", None, True),
        ("old\r\n", "old\n", True),
    ],
)
def test_an_edit_is_what_no_deploy_wrote(tmp_path: Path, live: str | None, deployed: str | None, found: bool) -> None:
    """Neither the last deploy's text nor the next one's: somebody edited it."""
    for name, text in ((LIVE, live), (CANDIDATE, "new\n"), (DEPLOYED, deployed)):
        if text is not None:
            (tmp_path / name).write_bytes(text.encode())

    assert bool(edited(tmp_path)) is found


def test_the_edit_is_shown_as_a_diff(tmp_path: Path) -> None:
    """The diff goes from what was deployed to what stands there."""
    (tmp_path / DEPLOYED).write_text("a: 1\nb: 2\n", encoding="utf-8")
    (tmp_path / LIVE).write_text("a: 1\nb: 3\n", encoding="utf-8")

    assert edited(tmp_path).splitlines()[-2:] == ["-b: 2", "+b: 3"]
