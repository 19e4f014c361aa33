"""What comes from hosts and histories is never markup and never script."""

import html
import json
import re

import pytest

from smoke.markup import document, el, in_script, policy, raw

EVIL = "</script><script>alert(1)</script><!-- \" ' & \u2028 <b>"


def test_text_and_attributes_are_escaped() -> None:
    """Neither a child nor an attribute can open an element or leave its quotes."""
    text = document(el("p", EVIL, el("b", "x"), EVIL, data_name=EVIL, class_="c"))

    found = re.fullmatch(r'<!doctype html>\n<p data-name="[^"]*" class="c">([^<]*)<b>x</b>([^<]*)</p>\n', text)
    assert found is not None
    assert found[1] == found[2] == html.escape(EVIL.replace("\u2028", "⟨U+2028⟩"), quote=False)


def test_invisible_characters_are_shown() -> None:
    """Control characters and marks that turn text around cannot disguise a name; ordinary letters stay."""
    text = document(el("p", "a\x00\x1b[31m\u202egnp.exe\u200b\ud800", "höchst 中文\n"))

    assert text == ("<!doctype html>\n<p>a⟨U+0000⟩⟨U+001B⟩[31m⟨U+202E⟩gnp.exe⟨U+200B⟩⟨U+D800⟩höchst 中文\n</p>\n")


@pytest.mark.parametrize("text", [EVIL, "<!--<script>", "\u2028\u2029", "]]>", "&lt;"])
def test_data_in_a_script_says_the_same_and_ends_nothing(text: str) -> None:
    """The data can be read back, and holds no character that HTML or a script could stumble over."""
    told = in_script({text: [text]})

    assert not re.search("[<>&\u2028\u2029]", told)
    assert json.loads(told) == {text: [text]}


def test_our_own_script_stands_as_it_is() -> None:
    """`raw` changes nothing, so that the hash of the policy is that of the text."""
    assert document(raw("script", "if (a < b && c) {}")) == "<!doctype html>\n<script>if (a < b && c) {}</script>\n"


def test_the_policy_allows_exactly_these_texts() -> None:
    """A known hash, and no way to load anything."""
    told = policy(["alert('Hello, world.');"], [""])

    assert "script-src 'sha256-qznLcsROx4GACP2dm0UCKCzCG+HiZ1guq6ZZDob/Tng='" in told
    assert told.startswith("default-src 'none'; ")
    assert "unsafe" not in told
