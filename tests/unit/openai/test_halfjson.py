"""Any beginning of a JSON object can be ended so that it parses and carries a last member."""

import json

import pytest

from iop.openai.halfjson import completion

MEMBER = b'"error":{"code":"x"}'
WHOLE = [
    '{"id":"c1","choices":[{"index":0,"delta":{"content":"hé 模 😀 \\u00e9\\ud83d\\ude00\\n\\"q\\"\\\\"}}],"n":null}',
    '{ "a" : [ 1 , -2.5e+10 , true , false , null , [ ] , { } , [[1],[2,{"x":{}}]] ] , "b" : { "c" : "" } }',
    '{"\\u0061":-0.5E-3,"b\\\\":{"k":[{},{"z":1}],"y":"\\/"},"c":[1,[2,[3,[]]]]}',
    '{"e0":"\u0800\ufffd\u0fff","f0":"\U00010000\U0010ffff","ed":"\ud7ff"}',
]


@pytest.mark.parametrize("text", WHOLE)
def test_every_beginning_can_be_ended(text):
    """Cut at each byte, the completed text is UTF-8 JSON whose last member is ours."""
    whole = text.encode()
    for cut in range(1, len(whole)):
        half = whole[:cut]
        tail = completion(half, MEMBER)
        assert tail is not None, half
        assert json.loads((half + tail).decode())["error"] == {"code": "x"}, (half, tail)


@pytest.mark.parametrize(
    "text", ["", " ", "[DO", "[1", '"text', "12", "nul", "{}", '{"a":1}', "{'a", '{"a":tru!', "]", '{"a":+']
)
def test_what_is_no_open_object_is_left_alone(text):
    """Whole values, other values and what cannot become JSON are told by None."""
    assert completion(text.encode(), MEMBER) is None
