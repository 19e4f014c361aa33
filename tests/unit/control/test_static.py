"""The page's files as they lie in the package."""

import re

import pytest
from hatchling.builders.wheel import WheelBuilder

from iop.control import static
from tests.fakes.pages import ROOT

PAGE = static.read_page()
SCRIPTS = sorted(name for name in PAGE if name.endswith(".js"))


def test_the_page_is_whole_and_small():
    """Each file is there with its type, is one that a person can read, and is loaded by another one."""
    assert {"index.html", "page.css", "page.js", "drawing.js", "icon.svg"} <= set(PAGE)
    assert {name for name, file in PAGE.items() if file.body.count(b"\n") >= 300} == set()
    everything = b"".join(file.body for file in PAGE.values()).decode()
    assert {name for name in PAGE if name != "index.html" and f"/{name}" not in everything} == set()


def test_nothing_of_elsewhere_and_nothing_inline():
    """No address of another server, no script, style or handler in the markup: the policy would refuse them."""
    for name, file in PAGE.items():
        text = file.body.decode().replace("http://www.w3.org/", "")
        assert "://" not in text, name
        assert "@import" not in text, name
    index = PAGE["index.html"].body.decode()
    assert re.findall(r"\s(?:style|on\w+)=|<style|javascript:", index) == []
    assert re.findall(r"<script(?![^>]*\ssrc=)", index) == []


@pytest.mark.parametrize("name", SCRIPTS)
def test_no_script_makes_markup_of_text(name):
    """Names that hosts, configs and requests chose are set as text; nothing writes HTML or runs a string."""
    text = PAGE[name].body.decode()
    assert (
        re.findall(r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\b|new Function|srcdoc", text) == []
    )


def test_the_drawing_is_a_plain_script_that_can_stand_inside_a_page():
    """It is shared with the smoke report, which carries its text in a script element."""
    text = PAGE["drawing.js"].body.decode()
    assert re.findall(r"^\s*(?:import|export)\b|</script|<!--", text, re.MULTILINE) == []
    assert "globalThis.iopDrawing =" in text


def test_a_release_contains_the_page():
    """The wheel that is built and installed on hosts has each of the files."""
    wheel = {file.distribution_path for file in WheelBuilder(str(ROOT)).recurse_included_files()}
    assert {f"iop/control/page/{name}" for name in PAGE} <= wheel


def test_an_installation_without_the_page_says_so(monkeypatch, tmp_path):
    """What is missing is told at the start, not to the first person who looks."""
    (tmp_path / "page").mkdir()
    monkeypatch.setattr(static, "files", lambda _package: tmp_path)
    with pytest.raises(FileNotFoundError, match=r"index\.html is missing"):
        static.read_page()
