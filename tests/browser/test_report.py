"""The smoke report in a real browser, opened from disk: its picture, its words without one, and nothing that acts."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import pytest
from playwright.async_api import Browser, expect

from smoke import page
from smoke.history import Record
from smoke.judgement import judge
from tests.browser.watched import PATIENCE, Watched, watched
from tests.fakes.smoke_dev import dev_burst, dev_cut
from tests.fakes.smoke_story import records, renamed

pytestmark = pytest.mark.asyncio(loop_scope="session")

LINE = "capacity 10/10 · queued max 1 · final 0/0 · 13 passed"
EVIL = "</script><img src=x onerror=\"document.title='acted'\"><!--\u2028\u202e"
SIZES = {"wide": (1280, 900), "phone": (390, 844), "narrow": (320, 700)}


def history() -> list[Record]:
    """A run with both bursts, and a round in which a node's link was cut."""
    chat, responses = records(dev_burst("capacity-chat")), records(dev_burst("capacity-responses"))
    return [*chat, *renamed(responses[1:], "r2"), *renamed(records(dev_cut())[1:], "r3")]


def written(folder: Path, found: list[Record]) -> str:
    """The address of the report of this history."""
    tests = {f"test_{name}": "passed" for name in ("capacity[chat]", "capacity[responses]", "models", "reachable")}
    path = folder / "report.html"
    path.write_text(page.html("20260131T120000-4711", judge(found), tests, LINE), encoding="utf-8")
    return path.as_uri()


async def check(look: Watched) -> None:
    """Nothing that the browser complains of, and nothing asked for but the file itself."""
    assert look.complaints == []
    assert look.asked == [look.page.url]


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("size", SIZES)
async def test_the_picture_is_drawn_and_fits(
    browser: Browser, tmp_path: Path, pictures: Path, size: str, scheme: str
) -> None:
    """Each round that is told has its picture, described in words; nothing sticks out, on a phone either."""
    width, height = SIZES[size]
    options: dict[str, Any] = {"viewport": {"width": width, "height": height}, "color_scheme": scheme}
    async with watched(browser, **options) as look:
        await look.open(written(tmp_path, history()))
        await expect(look.page.locator("svg path")).not_to_have_count(0, timeout=PATIENCE)
        first = look.page.locator("svg").first
        told = await first.locator("desc").text_content()
        assert told is not None
        assert told.startswith("At most 10 of 10 slots in use and 1 waiting; at the end 0 in use and 0 waiting.")
        assert "gx10-vllm at most 4 of 4" in told
        assert await look.page.locator("svg").count() == 3
        assert await look.page.evaluate("document.documentElement.scrollWidth") <= width
        await look.page.screenshot(path=pictures / f"report-{size}-{scheme}.png", full_page=size == "phone")
        await check(look)


async def test_one_who_waits_is_as_high_as_one_slot(browser: Browser, tmp_path: Path) -> None:
    """The plateau and the one in line are drawn to the same measure."""
    async with watched(browser) as look:
        await look.open(written(tmp_path, history()))
        boxes = await look.page.evaluate(
            "[...document.querySelector('svg').querySelectorAll('path[d$=Z]')].map((path) => path.getBBox().height)"
        )
        three_slots, *_, waiting = boxes
        assert three_slots / 3 == pytest.approx(waiting, abs=1.0)


async def test_without_scripts_the_words_and_numbers_are_there(browser: Browser, tmp_path: Path) -> None:
    """The document is whole without its picture, and says that one is missing."""
    async with watched(browser, java_script_enabled=False) as look:
        await look.open(written(tmp_path, history()))
        await expect(look.page.locator("noscript p").first).to_be_visible()
        await expect(look.page.locator("svg").first).to_be_hidden()
        await expect(look.page.locator("table").first).to_contain_text("gx10-vllm")
        await look.sees("h1", "proved")
        await check(look)


async def test_printed_it_is_dark_on_white_and_holds_the_picture(browser: Browser, tmp_path: Path) -> None:
    """Also for somebody whose screen is dark."""
    async with watched(browser, color_scheme="dark") as look:
        await look.open(written(tmp_path, history()))
        await look.page.emulate_media(media="print")
        paper = await look.page.evaluate("getComputedStyle(document.body).backgroundColor")
        fill = await look.page.evaluate("getComputedStyle(document.querySelector('svg path[d$=Z]')).fill")
        assert (paper, fill) == ("rgb(255, 255, 255)", "rgb(47, 107, 208)")
        await check(look)


async def test_names_do_nothing_in_a_browser(browser: Browser, tmp_path: Path) -> None:
    """A provider, a case, a release and an environment that would like to be markup are text, in the picture too."""
    text = msgspec.json.encode(history())
    for name in (b'"gx10-vllm"', b':"capacity-chat"', b'"rel"', b'"dev"'):
        text = text.replace(name, name[: name.index(b'"')] + json.dumps(EVIL).encode())
    found = msgspec.json.decode(text, type=list[Record])
    async with watched(browser) as look:
        await look.open(written(tmp_path, found))
        await expect(look.page.locator("svg path")).not_to_have_count(0, timeout=PATIENCE)
        assert await look.page.locator("img").count() == 0
        assert "acted" not in (await look.page.title())[:10]
        await look.sees("svg >> nth=0", "⟨U+202E⟩")
        await check(look)


async def test_the_policy_stops_what_is_not_its_own(browser: Browser, tmp_path: Path) -> None:
    """A script that somebody puts into the file does not run."""
    address = written(tmp_path, history())
    path = tmp_path / "report.html"
    text = path.read_text(encoding="utf-8").replace("</body>", "<script>document.title = 'acted'</script></body>")
    path.write_text(text, encoding="utf-8")
    async with watched(browser) as look:
        await look.open(address)
        assert "proved" in await look.page.title()
        assert any("Content Security Policy" in complaint for complaint in look.complaints)


async def test_a_void_or_blocked_run_is_a_document_too(browser: Browser, tmp_path: Path) -> None:
    """Without a round that counts there is no picture, and nothing is missing that the words promise."""
    view = dev_burst("capacity-chat")
    async with watched(browser) as look:
        await look.open(written(tmp_path, records(replace(view, events=view.events[:-1]))))
        await look.sees("h1", "not proved")
        await look.sees("main", "the event log is not whole")
        assert await look.page.locator("svg, noscript").count() == 0
        await check(look)
