"""The JSON Schema of edge.yaml."""

import json

from iop.config.schema import edge_schema

SCHEMA = edge_schema()


def test_the_schema_is_json_and_names_its_draft() -> None:
    """Editors get plain JSON with the draft in it."""
    assert json.loads(json.dumps(SCHEMA)) == SCHEMA
    assert SCHEMA["$schema"].endswith("2020-12/schema")


def test_required_keys_are_those_of_the_interface() -> None:
    """edge, nodes and models are required, and only they."""
    assert SCHEMA["required"] == ["edge", "nodes", "models"]


def test_unknown_keys_are_refused_and_the_escape_hatch_is_open() -> None:
    """Every section is closed but for x- keys."""
    for section in (SCHEMA, *SCHEMA["$defs"].values()):
        assert section["additionalProperties"] is False
        assert "^x-" in section["patternProperties"]


def test_defaults_are_written_as_people_write_them() -> None:
    """Durations, sizes and addresses are texts with units."""
    queue = SCHEMA["$defs"]["Queue"]["properties"]
    assert (queue["max_wait"]["default"], queue["max_bytes"]["default"]) == ("2m", "256MiB")
    assert SCHEMA["$defs"]["Listen"]["properties"]["admin"]["default"] == "127.0.0.1:19093"
