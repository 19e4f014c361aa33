"""The smallest config files of the interface page, and a way to ask what a changed one is found to be."""

from iop.config.findings import Finding
from iop.config.load import read_edge

EDGE = """\
edge: {id: edge-test}
listen: {openai: 127.0.0.1:0, nodes: 127.0.0.1:0, admin: 127.0.0.1:0}
nodes:
  - id: n1
    adapters:
      cli: {enabled: true, targets: {echo: {kind: text, command: [python3, /abs/agent.py]}}}
      openai_compat_instances:
        - {name: e1, enabled: true, provider: other, endpoint: "http://127.0.0.1:8002/v1"}
    providers:
      - {id: p1, type: other, category: local_inference, adapter: e1, capacity: 3}
models:
  - {id: m, providers: {p1: engine-model}}
  - {id: agent, direct: {node: n1, adapter: cli, target: echo}}
"""
NODE = """\
node: {id: n1}
edge: {addr: "127.0.0.1:18084"}
"""
CONTROL = """\
listen: 127.0.0.1:18001
edges: [{id: edge-test, admin_url: "http://127.0.0.1:19093"}]
"""


def changed(*swaps: tuple[str, str], text: str = EDGE) -> str:
    """The text with each swap made; a swap whose left side is not there is a mistake of the test."""
    for old, new in swaps:
        assert old in text, old
        text = text.replace(old, new)
    return text


def found(text: str) -> tuple[Finding, ...]:
    """The findings of an edge.yaml with this text."""
    return read_edge(text, source="/cfg/edge.yaml").findings


def codes(text: str) -> list[tuple[str, int]]:
    """Code and line of each finding, in the order of the file."""
    return [(finding.code, finding.line) for finding in found(text)]
