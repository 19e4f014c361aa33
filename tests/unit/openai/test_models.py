"""The list of models."""

from openai.pagination import SyncPage
from openai.types import Model

from iop.openai.models import model_list, model_object


def test_list_is_openais():
    """B26, B35: the SDK's own types read it; ids keep order and spelling; there is nothing beside it."""
    listed = model_list(["org/name", "Org/name"], 7)
    page = SyncPage[Model].model_validate(listed)
    assert [(each.id, each.created, each.owned_by) for each in page.data] == [
        ("org/name", 7, "iop"),
        ("Org/name", 7, "iop"),
    ]
    assert set(listed) == {"object", "data"}
    assert model_object("Org/name", 7) == listed["data"][1]


def test_codex_gets_an_empty_catalog_beside_it():
    """B26: asked with client_version, the same list has a top-level `models`, without invented metadata."""
    assert model_list(["m"], 7, for_codex=True) == {**model_list(["m"], 7), "models": []}
