"""The JSON Schema of edge.yaml, for editors. It tells shapes; references and safety are `config check`'s."""

from typing import Any

from iop.config.models import EdgeConfig


def edge_schema() -> dict[str, Any]:
    """JSON Schema (draft 2020-12) of edge.yaml."""
    # serialization mode writes the defaults as people write them: 2m, 256MiB, 127.0.0.1:18083
    schema = EdgeConfig.model_json_schema(mode="serialization")
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **schema}
