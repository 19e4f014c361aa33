"""iop_release.services.templates_of: filling in the texts."""

import pytest

from iop_release.services.templates_of import filled


def test_a_value_that_is_missing_is_an_error() -> None:
    """A forgotten value never becomes text of a definition."""
    with pytest.raises(KeyError):
        filled("linux.socket", {})
