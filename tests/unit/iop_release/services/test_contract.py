"""iop_release.services.contract: what a service is."""

from pathlib import Path

import pytest

from iop_release.errors import ReleaseError
from iop_release.services.contract import Service, split_address

DATA = {
    "name": "mac.edge",
    "argv": ["{release}/bin/python", "-X", "iop-release={release}"],
    "env": {"HERE": "{release}"},
}


def test_a_service_knows_its_release() -> None:
    """The placeholder becomes the release's folder everywhere, and the release id reaches the process."""
    ready = Service.load(DATA).resolved(Path("/r/1"), "1")

    assert ready.argv == ("/r/1/bin/python", "-X", "iop-release=/r/1")
    assert ready.env == {"HERE": "/r/1", "IOP_RELEASE_ID": "1"}


def test_the_digest_is_everything_that_matters(tmp_path: Path) -> None:
    """Release, arguments and the content of watched files change it; nothing else does."""
    config = tmp_path / "c"
    service = Service.load({**DATA, "watch": [str(config)]})
    release = Path("/r/1")
    missing = service.resolved(release, "1").digest
    config.write_text("a", encoding="utf-8")
    first = service.resolved(release, "1").digest

    assert first != missing
    assert service.resolved(release, "1").digest == first
    assert service.resolved(Path("/r/2"), "2").digest != first
    config.write_text("b", encoding="utf-8")
    assert service.resolved(release, "1").digest != first


@pytest.mark.parametrize(
    "data",
    [
        {},
        {"name": "x"},
        {**DATA, "colour": "red"},
        {"argv": ["x"]},
        {**DATA, "listeners": {"openai": "18083"}},
        {**DATA, "listeners": ["127.0.0.1:1"]},
    ],
)
def test_what_is_no_service_is_refused(data: dict[str, object]) -> None:
    """Missing and unknown keys are refused in words."""
    with pytest.raises(ReleaseError, match="not a service"):
        Service.load(data)


def test_listeners_are_a_part_of_the_service() -> None:
    """They stay when a release is filled in, and another address is another service."""
    service = Service.load({**DATA, "listeners": {"openai": "127.0.0.1:18083", "nodes": "[::1]:18084"}})
    moved = Service.load({**DATA, "listeners": {"openai": "127.0.0.1:18093", "nodes": "[::1]:18084"}})

    assert service.resolved(Path("/r/1"), "1").listeners == {"openai": "127.0.0.1:18083", "nodes": "[::1]:18084"}
    assert service.digest != moved.digest
    assert [split_address(one) for one in service.listeners.values()] == [("127.0.0.1", 18083), ("::1", 18084)]
