"""Models and providers by id, of the config in force."""

from pathlib import Path
from typing import Any

import yaml

from iop.config.load import load_edge
from iop.config.models import ApiKey, EdgeConfig
from iop.edge.lookup import Lookup
from tests.fakes.edge_under_test import config


def _loaded(folder: Path, **changes: Any) -> EdgeConfig:
    path = folder / "edge.yaml"
    path.write_text(yaml.safe_dump(config(**changes)), encoding="utf-8")
    loaded = load_edge(path)
    assert loaded.config is not None, loaded.findings
    return loaded.config


def test_ids_are_found_and_others_are_not(tmp_path: Path) -> None:
    """A model of the pool, a direct one, a provider, and names that nobody has."""
    lookup, known = Lookup(), _loaded(tmp_path)
    model, agent = lookup.model(known, "m", None), lookup.model(known, "agent", None)

    assert model is not None
    assert agent is not None
    assert (model.id, agent.id) == ("m", "agent")
    assert lookup.model(known, "p1", None) is None
    provider = lookup.provider(known, "p1")
    assert provider is not None
    assert provider.adapter == "e1"
    assert lookup.provider(known, "m") is None
    assert lookup.engine_model(known, "m", "p1") == "engine-m"
    assert lookup.engine_model(known, "agent", "p1") is None
    assert lookup.engine_model(known, "m", "p2") is None


def test_a_key_sees_its_own_models_only(tmp_path: Path) -> None:
    """A key with a list of models finds no other; one without a list finds all."""
    lookup, known = Lookup(), _loaded(tmp_path)
    narrow = ApiKey(name="narrow", sha256="0" * 64, models=("agent",))
    wide = ApiKey(name="wide", sha256="0" * 64)

    assert lookup.model(known, "m", narrow) is None
    assert lookup.model(known, "agent", narrow) is not None
    assert lookup.model(known, "m", wide) is not None


def test_another_config_is_indexed_anew(tmp_path: Path) -> None:
    """After a refresh the new names are found and the old ones are not."""
    lookup, known = Lookup(), _loaded(tmp_path)
    assert lookup.model(known, "m", None) is not None

    other = _loaded(tmp_path, models=[{"id": "n", "providers": {"p1": "engine-n"}}])

    assert lookup.model(other, "m", None) is None
    assert lookup.engine_model(other, "n", "p1") == "engine-n"
