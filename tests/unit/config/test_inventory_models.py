"""iop.config.inventory_models: a model has one route."""

import pytest

from iop.config.inventory_models import Model

DIRECT = {"node": "n", "adapter": "cli", "target": "t"}


def test_a_model_has_providers_or_an_agent() -> None:
    """Both and neither are refused."""
    assert Model.model_validate({"id": "m", "direct": DIRECT}).direct is not None
    assert Model.model_validate({"id": "m", "providers": {"p": "x"}}).providers == {"p": "x"}
    for wrong in ({"id": "m"}, {"id": "m", "direct": DIRECT, "providers": {"p": "x"}}):
        with pytest.raises(ValueError, match="either providers or direct"):
            Model.model_validate(wrong)
