"""iop.config.inventory_engines: honest words about what stands behind the providers."""

from pathlib import Path

import pytest

from iop.config.inventory_engines import DEPLOYED_FILE, KINDS, deployed_kind, loopback_banner


def test_only_simulators_are_called_simulated() -> None:
    """Each kind has a line of its own; all say loopback, and none claims the user's machines."""
    lines = {kind: loopback_banner(kind) for kind in KINDS}

    assert [kind for kind, line in lines.items() if "SIMULATED ENGINES" in line] == ["simulator"]
    assert all(line.startswith("LOOPBACK, ") and line.endswith("not your machines") for line in lines.values())
    assert len(set(lines.values())) == len(KINDS)


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ('{"kind": "llama"}', "llama"),
        ('{"kind": "external"}', "external"),
        ('{"kind": "steam"}', None),
        ('{"kind": ["llama"]}', None),
        ("[]", None),
        ("{", None),
    ],
)
def test_what_was_deployed_is_read(tmp_path: Path, text: str, kind: str | None) -> None:
    """A kind that is known counts, anything else is as good as no file."""
    assert deployed_kind(tmp_path) is None
    (tmp_path / DEPLOYED_FILE).write_text(text, encoding="utf-8")

    assert deployed_kind(tmp_path) == kind
