"""iop.ops.picture: what a person sees."""

from dataclasses import replace

from rich.console import Console, RenderableType

from iop.admin.ssh_trouble import SshTrouble
from iop.ops import picture, report
from iop.ops.doctor import diagnose
from tests.fakes.ops_facts import RELEASE, well, with_host


def _text(shown: RenderableType) -> str:
    console = Console(width=140, record=True, file=None, quiet=False, force_terminal=False)
    with console.capture() as captured:
        console.print(shown, soft_wrap=True)
    return captured.get()


def test_status_shows_hosts_services_and_load() -> None:
    """Names, release, links, slots, and the totals."""
    text = _text(picture.status(report.status(well())))

    for words in ("edge-lab", RELEASE, "gx10.node running", "connected", "mac-p", "total"):
        assert words in text


def test_status_shows_what_is_lost() -> None:
    """A host's trouble in its row, the Edge's above, nothing deployed as such; markup in words is only words."""
    facts = with_host(well(), "gx10", trouble=SshTrouble("other", "no way [bold]in[/]", ""), services=())
    facts = with_host(facts, "mac", services=())
    text = _text(picture.status(report.status(replace(facts, control_trouble="silent"))))
    assert "no way [bold]in[/]" in text
    assert "not deployed" in text
    assert "Control Plane: silent" in text

    assert "Edge: nothing listens" in _text(
        picture.status(report.status(replace(facts, edge={}, edge_trouble="nothing listens")))
    )


def test_doctor_shows_findings_with_steps_and_the_slots_last() -> None:
    """One command a line, however long, to be copied."""
    facts = with_host(well(), "gx10", clock_off_s=600.0)
    text = _text(picture.doctor(report.diagnosis(facts, diagnose(facts))))

    assert "gx10: its clock is 10 min ahead" in text
    assert "  next: sudo timedatectl set-ntp true" in text
    assert text.strip().endswith("9 of 9 slots take work; 1 finding")


def test_words_of_others_do_not_steer_the_terminal() -> None:
    """A release or log that a host chose: no escape sequence gets through, and brackets neither vanish nor break."""
    told = report.status(well())
    told["hosts"][0]["release"] = "r1[/red]\x1b]0;owned\x07"
    told["providers"][0]["provider_id"] = "[bold]p"
    text = _text(picture.status(told))
    assert "r1[/red]" in text
    assert "[bold]p" in text
    assert "\x1b" not in text

    found = {"banner": "", "slots": {"ready": 0, "declared": 1}, "well": False}
    found["findings"] = [{"where": "gx10", "message": "its log ends:\n    \x1b[2Jgone", "step": "\x1b[8mhidden"}]
    text = _text(picture.doctor(found))
    assert "its log ends:\n    \ufffd[2Jgone" in text
    assert "\x1b" not in text
