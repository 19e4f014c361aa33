"""README.ko.md says what README.md says: the same commands, names, numbers, links and order."""

import re

import pytest

from tests.contract.test_operator_documents import LEFT_OVERS
from tests.fakes import pages

ENGLISH, KOREAN = pages.text_of("README.md"), pages.text_of("README.ko.md")
PICTURE = "연결된 노드 3개, 프로바이더 후보 3개, mac 노드는 CLI와 MLX 프로바이더 리소스를 함께 가집니다"
OTHER_LANGUAGE = {"README.md", "README.ko.md"}


def code(text):
    """The code blocks, fenced and indented, in order."""
    return re.findall(r"^```\w*\n(?:.*\n)*?```|(?:^ {4}.*\n)+", text, re.MULTILINE)


def prose(text):
    """The text without its code blocks."""
    for block in code(text):
        text = text.replace(block, "")
    return text


def outline(text):
    """Levels of the headings, and how many points and table rows follow each."""
    sections = re.split(r"^(#+) .*$", prose(text), flags=re.MULTILINE)
    levels, bodies = sections[1::2], sections[2::2]
    points, rows = (lambda body, mark=mark: len(re.findall(mark, body, re.MULTILINE)) for mark in (r"^- ", r"^\|"))
    return [(level, points(body), rows(body)) for level, body in zip(levels, bodies, strict=True)]


def numbers(text):
    """Ports and other numbers of three digits or more, wherever they stand."""
    return sorted(set(re.findall(r"\d{3,}", text)))


@pytest.mark.parametrize("what", [code, outline, numbers], ids=lambda what: what.__name__)
def test_both_have_the_same(what):
    """Code blocks, headings with points and rows, and numbers are equal, one for one."""
    assert what(KOREAN) == what(ENGLISH)
    assert len(what(ENGLISH)) > 5


def test_both_name_the_same_things():
    """Everything in backticks is the same, as often as in the other: ids, commands, variables."""
    assert sorted(re.findall(r"`[^`\n]+`", prose(KOREAN))) == sorted(re.findall(r"`[^`\n]+`", prose(ENGLISH)))


def test_both_lead_to_the_same_pages_and_to_each_other():
    """Links and pictures have the same targets in the same order, but for the link to the other language."""
    found = [re.findall(r"\]\(([^)]+)\)", prose(text)) for text in (ENGLISH, KOREAN)]
    assert (found[0].count("README.ko.md"), found[1].count("README.md")) == (1, 1)
    english, korean = ([link for link in links if link not in OTHER_LANGUAGE] for links in found)
    assert korean == english


def test_the_picture_of_the_environment_is_the_same():
    """The sentence about the dev environment stands there in Korean, with its three parts."""
    assert PICTURE in " ".join(KOREAN.split())


@pytest.mark.parametrize(
    "old",
    [
        "4노드 구성", "4 노드", "4개 노드", "4개의 노드", "노드 4개", "노드가 4개", "노드 네 개", "네 개의 노드",
        "네 노드", "4대의 노드", "노드 4대", "연결된 비후보", "연결됐지만 후보가 아닌 노드", "4-node",
    ],
)  # fmt: skip
def test_the_old_picture_is_found_in_korean_too(old):
    """What the old set-up was called in Korean is among what no page may say."""
    assert LEFT_OVERS.search(old)


@pytest.mark.parametrize("new", ["노드 3개", "연결된 노드 3개", "슬롯 4개", "노드 하나에 슬롯 4개", "gx10 노드 | 4 |"])
def test_the_new_picture_is_not_taken_for_the_old(new):
    """What is right may be said."""
    assert not LEFT_OVERS.search(new)
