"""What the Edge says of its own HTTP ports."""

import json

import pytest

from iop import __version__
from iop.edge.description import description


@pytest.mark.parametrize("port", ["openai", "admin"])
def test_a_document_is_whole(port):
    """It has this code's version, and no reference into it leads nowhere."""
    text = description(port).decode()
    document = json.loads(text)
    assert (document["openapi"], document["info"]["version"]) == ("3.1.0", __version__)
    for reference in (part.partition('"')[0] for part in text.split('"$ref":"#/')[1:]):
        found = document
        for name in reference.split("/"):
            found = found[name]
        assert found


def test_both_ports_tell_errors_in_the_same_shape():
    """What they share is written once."""
    ports = [json.loads(description(port))["components"] for port in ("openai", "admin")]
    for kind in ("responses", "headers", "parameters"):
        assert ports[0][kind] == ports[1][kind]
    assert [set(port["securitySchemes"]) for port in ports] == [{"apiKey"}, {"adminToken"}]
