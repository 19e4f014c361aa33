"""A node put into an edge.yaml: every style of file, and nothing else changed."""

import json
import re

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from iop.config.append import CannotAppend, append_node
from iop.config.load import read_edge
from tests.fakes.config_files import EDGE

NEW = {"id": "attic-node", "alias": "attic", "token_sha256": "a" * 64}
EXAMPLE = ("providers:", "  - {id: attic}")
HEAD = "edge: {id: e}  # us\n"
TAIL = "models: []\n"
BLOCK = '  - id: attic-node\n    alias: attic\n    token_sha256: "' + "a" * 64 + '"\n'
EXAMPLE_LINES = "    # providers:\n    #   - {id: attic}\n"
FLOW = '{id: attic-node, alias: attic, token_sha256: "' + "a" * 64 + '"}'
QUOTED = json.dumps(NEW)

STYLES = {
    "usual": ("nodes:\n  - id: n1\n    alias: one\n", BLOCK + EXAMPLE_LINES, ""),
    "indentless": ("nodes:\n- id: n1\n", re.sub("(?m)^  ", "", BLOCK + EXAMPLE_LINES), ""),
    "wide": (
        "nodes:\n    -   id: n1\n",
        re.sub("(?m)^ {4}", " " * 8, BLOCK + EXAMPLE_LINES).replace("  - id", "    -   id", 1),
        "",
    ),
    "flow items": ("nodes:\n  - {id: n1}  # first\n", BLOCK + EXAMPLE_LINES, ""),
    "dash alone": ("nodes:\n  -\n    id: n1\n", BLOCK + EXAMPLE_LINES, ""),
    "comments below": (
        "nodes:\n  - id: n1\n    # of n1\n\n    # more of n1\n",
        BLOCK + EXAMPLE_LINES,
        "\n# of the models\n",
    ),
    "blank below": ("nodes:\n  - id: n1\n", BLOCK + EXAMPLE_LINES, "\n\n"),
    "block scalar": ("nodes:\n  - id: n1\n    x-note: |\n      a\n      b\n", BLOCK + EXAMPLE_LINES, ""),
    "alias last": ("x-a: &a [1]\nnodes:\n  - id: n1\n    x-b: *a\n", BLOCK + EXAMPLE_LINES, ""),
    "anchored": ("nodes: &all\n  - &one\n    id: n1\n", BLOCK + EXAMPLE_LINES, ""),
    "nested": ("nodes:\n  - id: n1\n    adapters:\n      cli:\n        enabled: true\n", BLOCK + EXAMPLE_LINES, ""),
    "empty value last": ("nodes:\n  - id: n1\n    alias:\n", BLOCK + EXAMPLE_LINES, ""),
    "empty": ("nodes: [", FLOW, "]  # none yet\n"),
    "empty with blank": ("nodes: [", FLOW, " ]\n"),
    "flow": ("nodes: [{id: n1}", f", {FLOW}", "]\n"),
    "flow lines": ("nodes: [\n  {id: n1},\n  {id: n2}", f",\n  {FLOW}", "\n]\n"),
    "flow lines, comma": ("nodes: [\n  {id: n1},  # one", f"\n  {FLOW},", "\n]\n"),
    "flow lines, comment": ("nodes: [\n  {id: n1}", f", {FLOW}", "  # one\n]\n"),
    "quoted": ('"nodes": [{"id": "n1"}', f", {QUOTED}", "]\n"),
}


@pytest.mark.parametrize("end", ["\n", "\r\n"], ids=["lf", "crlf"])
@pytest.mark.parametrize("mark", ["", "\ufeff"], ids=["plain", "bom"])
@pytest.mark.parametrize("style", STYLES)
def test_a_node_is_put_in_as_the_file_is_written(style, mark, end):
    """The new text stands where a person would write it, with the file's indentation, line ends and quotes."""
    before, added, after = (part.replace("\n", end) for part in STYLES[style])
    text = mark + HEAD.replace("\n", end) + before + after + TAIL.replace("\n", end)
    insertion = append_node(text, NEW, EXAMPLE)
    assert insertion.text == added
    assert insertion.into(text) == mark + HEAD.replace("\n", end) + before + added + after + TAIL.replace("\n", end)
    assert_only_one_more(text, insertion)


@pytest.mark.parametrize("tail", ["", "    # of n1", "\n...", "\n# end"])
def test_a_list_at_the_end_of_the_file(tail):
    """A missing last line end stays missing; an end mark and comments stay last."""
    text = f"{HEAD}{TAIL}nodes:\n  - id: n1{tail}"
    assert_only_one_more(text, append_node(text, NEW, EXAMPLE))


def test_a_whole_file_in_brackets():
    """JSON is YAML too, and stays JSON."""
    text = json.dumps({"edge": {"id": "e"}, "nodes": [{"id": "n1"}], "models": []}, indent=2)
    insertion = append_node(text, NEW, EXAMPLE)
    assert json.loads(insertion.into(text))["nodes"] == [{"id": "n1"}, NEW]


@pytest.mark.parametrize(
    "text",
    ["x-n: &n [{id: n1}]\nnodes: *n\n", "x-n: &n {nodes: []}\n<<: *n\n", "nodes: 5\n", "? [a]\n: 1\nnodes: []\n"],
)
def test_a_list_that_stands_elsewhere_is_refused(text):
    """What an alias or a merge brings in is not rewritten behind its owner's back."""
    with pytest.raises(CannotAppend):
        append_node(text, NEW)


@pytest.mark.parametrize(
    "value", ["on", "NO", "y", "1e3", "12:30", "a: b", "# x", "schöner Turm", 'say "hi"', "null", "1_0"]
)
def test_a_value_that_yaml_would_misread_is_quoted(value):
    """The alias comes back as the text that was given."""
    insertion = append_node(EDGE, {"id": "n2", "alias": value})
    assert yaml.safe_load(insertion.into(EDGE))["nodes"][-1]["alias"] == value


def assert_only_one_more(text, insertion):
    """The result is the old data and the new node; the old text is what is left without the insertion."""
    result = insertion.into(text)
    old, new = yaml.safe_load(text.removeprefix("\ufeff")), yaml.safe_load(result.removeprefix("\ufeff"))
    assert new == {**old, "nodes": [*old["nodes"], NEW]}
    assert result[: insertion.at] + result[insertion.at + len(insertion.text) :] == text
    assert read_edge(result, source="/cfg/edge.yaml").ok


nodes = st.lists(
    st.fixed_dictionaries(
        {"id": st.from_regex(r"\A[a-z]{1,6}\Z")},
        optional={
            "alias": st.sampled_from(["box", "a b", "yes", "multi\nline\n", "trailing  "]),
            "adapters": st.sampled_from([{"cli": {"enabled": False}}, {"openai_compat_instances": []}]),
            "x-more": st.recursive(
                st.sampled_from(["t", "", "a\n\nb\n\n", "# no", None, 1.5]),
                lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from("pqr"), inner, max_size=2),
                max_leaves=4,
            ),
        },
    ),
    max_size=3,
    unique_by=lambda node: node["id"],
)


@settings(max_examples=100, deadline=None)
@given(
    data=nodes,
    style=st.sampled_from([None, True, False]),
    indent=st.integers(2, 6),
    width=st.sampled_from([20, 200]),
    last=st.booleans(),
    end=st.sampled_from(["\n", "\r\n", "\r"]),
)
def test_whatever_a_yaml_writer_makes(data, style, indent, width, last, end):
    """Any nodes in any style of PyYAML's writer, the list in the middle or last."""
    whole = {"edge": {"id": "e"}, "nodes": data, "models": []}
    if last:
        whole = {"edge": {"id": "e"}, "models": [], "nodes": data}
    text = yaml.safe_dump(whole, default_flow_style=style, indent=indent, width=width, sort_keys=False).replace(
        "\n", end
    )
    assert_only_one_more(text, append_node(text, NEW, EXAMPLE))
