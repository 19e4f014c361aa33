"""S02: a provider references an enabled adapter instance of its own node; anything else is a config error."""

import pytest

from iop.config.load import read_edge
from tests.fakes.config_files import EDGE, changed

SECOND_NODE = """\
  - id: n2
    adapters:
      openai_compat_instances:
        - {name: e2, enabled: true, provider: other, endpoint: "http://127.0.0.1:8003/v1"}
models:
"""


@pytest.mark.parametrize(
    ("swap", "code", "words"),
    [
        (("name: e1, enabled: true", "name: e1, enabled: false"), "disabled_adapter", "not enabled"),
        (("adapter: e1", "adapter: nowhere"), "unknown_adapter", "no adapter nowhere"),
        (("adapter: e1", "adapter: e2"), "foreign_adapter", "of the node n2"),
        (("adapter: e1", "adapter: cli"), "unknown_adapter", "CLI adapter"),
        (("adapter: e1", "adapter: E1"), "unknown_adapter", "no adapter E1"),
    ],
)
def test_s02_anything_but_an_enabled_adapter_of_the_node_is_an_error(
    swap: tuple[str, str], code: str, words: str
) -> None:
    """S02: disabled, missing, another node's, the CLI adapter: each is refused at the provider's line."""
    loaded = read_edge(changed(("models:\n", SECOND_NODE), swap), source="/cfg/edge.yaml")
    assert not loaded.ok
    assert loaded.config is None
    (finding,) = loaded.findings
    assert (finding.severity, finding.code, finding.line) == ("error", code, 10)
    assert finding.path == "nodes[0].providers[0].adapter"
    assert words in finding.message


def test_s02_an_enabled_adapter_passes() -> None:
    """S02: only enabled adapter references pass, and they do."""
    assert read_edge(EDGE, source="/cfg/edge.yaml").findings == ()


def test_s02_adapter_names_are_per_node() -> None:
    """S02: two nodes may use the same adapter name; each provider means its own node's."""
    second = EDGE[EDGE.index("  - id: n1") : EDGE.index("models:")].replace("n1", "n2").replace("p1", "p2")
    assert read_edge(changed(("models:\n", second + "models:\n")), source="/cfg/edge.yaml").ok
    disabled = second.replace("e1, enabled: true", "e1, enabled: false")
    loaded = read_edge(changed(("models:\n", disabled + "models:\n")), source="/cfg/edge.yaml")
    assert [finding.code for finding in loaded.findings] == ["disabled_adapter"]
