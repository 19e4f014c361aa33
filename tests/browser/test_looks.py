"""How the page looks and reads: narrow and wide, light and dark, and what axe-core finds. Look at its pictures, too."""

import os
from pathlib import Path

import pytest
from axe_playwright_python.async_playwright import Axe
from playwright.async_api import Browser, expect

from tests.browser.scripted import control_plane
from tests.browser.stories import bad_day, busy_day
from tests.browser.watched import PATIENCE, watched
from tests.cluster.harness import ROOT

pytestmark = pytest.mark.asyncio(loop_scope="session")
STORIES = {"busy": busy_day, "bad": bad_day}
RULES = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]


@pytest.mark.parametrize("story", STORIES)
@pytest.mark.parametrize(("width", "scheme"), [(360, "light"), (360, "dark"), (1440, "light"), (1440, "dark")])
async def test_it_fits_and_reads_everywhere(
    browser: Browser, pictures: Path, story: str, width: int, scheme: str
) -> None:
    """On a phone and a wide screen, light and dark: nothing is cut off sideways, and axe-core finds no fault."""
    options = {"viewport": {"width": width, "height": 900}, "color_scheme": scheme, "reduced_motion": "reduce"}
    async with control_plane(STORIES[story]()) as url, watched(browser, **options, bypass_csp=True) as look:
        await look.open(url)
        await look.sees("#fresh", "live")
        await look.sees("#timeline desc", "At most")
        wide = await look.page.evaluate("document.documentElement.scrollWidth")
        assert wide <= width
        found = await Axe().run(look.page, options={"runOnly": RULES})
        assert found.violations_count == 0, found.generate_report()
        await look.picture(pictures / f"{story}-{width}-{scheme}.png")
        look.check()


async def test_a_screen_reader_finds_its_way(browser: Browser) -> None:
    """Landmarks, one heading per part in order, the picture in words, and one polite voice for what changes."""
    async with control_plane(busy_day()) as url, watched(browser) as look:
        await look.open(url)
        await look.sees("#fresh", "live")
        for role in ("banner", "main", "contentinfo"):
            await expect(look.page.get_by_role(role)).to_have_count(1)
        heads = await look.page.get_by_role("heading", level=2).all_inner_texts()
        assert heads == ["Now", "Providers", "Line", "Last 3 minutes", "Nodes", "Events", "Totals"]
        picture = look.page.get_by_role("img", name="The last 3 minutes")
        await expect(picture).to_have_count(1, timeout=PATIENCE)
        await look.sees(
            "#timeline desc", "At most 10 of 10 slots in use and 4 waiting; at the end 10 in use and 4 waiting."
        )
        voices = look.page.locator("[aria-live], [role=status], [role=alert]")
        assert await voices.evaluate_all("all => all.map((one) => one.id)") == ["said", "ask-note"]
        await look.sees("#said", "All providers are ready. Requests are waiting.")
        look.check()


async def test_the_picture_of_the_readme(browser: Browser, pictures: Path) -> None:
    """Ten of ten and some waiting, as the README shows it; IOP_README_PICTURE=1 makes that file anew."""
    again = os.environ.get("IOP_README_PICTURE") == "1"
    path = ROOT / "docs" / "images" / "page.png" if again else pictures / "readme.png"
    async with control_plane(busy_day()) as url, watched(browser, viewport={"width": 1200, "height": 1000}) as look:
        await look.open(url)
        await look.sees("#fresh", "live")
        await look.sees("#verdict", "Full: 4 requests wait in line.")
        await look.sees("#events", "waits for local-chat")
        await look.sees("#timeline desc", "at most 4 of 4")
        end = await look.page.locator("#time").bounding_box()
        assert end is not None
        size = {"x": 0, "y": 0, "width": 1200, "height": end["y"] + end["height"] + 12}
        await look.page.screenshot(path=path, animations="disabled", clip=size)
        look.check()
    assert 10_000 < path.stat().st_size < 200_000
