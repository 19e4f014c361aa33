"""iop_release.services.contract: what a service is."""

from pathlib import Path

import pytest

from iop_release.errors import ReleaseError
from iop_release.services.contract import Service

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


@pytest.mark.parametrize("data", [{}, {"name": "x"}, {**DATA, "colour": "red"}, {"argv": ["x"]}])
def test_what_is_no_service_is_refused(data: dict[str, object]) -> None:
    """Missing and unknown keys are refused in words."""
    with pytest.raises(ReleaseError, match="not a service"):
        Service.load(data)
