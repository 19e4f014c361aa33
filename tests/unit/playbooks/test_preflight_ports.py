"""playbooks/roles/preflight: which ports a deploy needs for itself."""

from pathlib import Path

import jinja2
import pytest
import yaml

ROOT = Path(__file__).resolve().parents[3]
TASKS = yaml.safe_load((ROOT / "playbooks/roles/preflight/tasks/main.yml").read_text(encoding="utf-8"))


@pytest.mark.parametrize(("kind", "ports"), [("simulator", [18102]), ("llama", [18102]), ("external", []), ("own", [])])
def test_the_port_of_an_engine_is_ours_only_where_we_start_the_engine(kind: str, ports: list[int]) -> None:
    """An engine that somebody else runs holds its port by right, so its port is not among those that must be free."""
    (ask,) = (task for task in TASKS if task["name"] == "Ask the host for Python, venv, disk and ports")
    expression = ask["vars"]["preflight_own"].removeprefix("{{").removesuffix("}}")
    environment = jinja2.Environment(undefined=jinja2.StrictUndefined, autoescape=False)
    host = {"providers": [{"id": "gx10-vllm", "engine_port": 18102}]}
    assert list(environment.compile_expression(expression)(iop_host=host, engine_kind=kind)) == ports
