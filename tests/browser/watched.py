"""A browser page and everything it complains of."""

import contextlib
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Any

from playwright.async_api import Browser, BrowserContext, ConsoleMessage, Page, Request, expect

#: milliseconds, generous: the machine may be loaded
PATIENCE = 30_000
#: what the browser itself says about a request that failed: the test made it fail
EXPECTED = ("Failed to load resource",)


@dataclass
class Watched:
    """One page of one context. `complaints` is what must be empty at the end of a test."""

    context: BrowserContext
    page: Page
    complaints: list[str] = field(default_factory=list)
    asked: list[str] = field(default_factory=list)
    #: a test in which the server goes away or refuses sets this
    may_fail_to_load: bool = False

    async def open(self, url: str) -> None:
        """Load the page."""
        await self.page.goto(url)

    async def sees(self, selector: str, text: Any) -> None:
        """Wait until the element holds the text (a part of it, or a pattern)."""
        await expect(self.page.locator(selector)).to_contain_text(text, timeout=PATIENCE)

    def check(self) -> None:
        """Fail on an error in the console, a violation of the policy, an exception or a request to elsewhere."""
        found = self.complaints
        if self.may_fail_to_load:
            found = [text for text in found if not any(words in text for words in EXPECTED)]
        assert found == []
        here = self.page.url.split("/", 3)[2]
        assert [url for url in self.asked if not url.startswith("data:") and url.split("/", 3)[2] != here] == []


@contextlib.asynccontextmanager
async def watched(browser: Browser, **options: Any) -> AsyncIterator[Watched]:
    """A fresh context with one page in it; `options` are Playwright's (viewport, color_scheme, …)."""
    context = await browser.new_context(**{"viewport": {"width": 1280, "height": 900}, **options})
    page = await context.new_page()
    made = Watched(context, page)

    def console(message: ConsoleMessage) -> None:
        if message.type in {"error", "warning"}:
            made.complaints.append(f"console {message.type}: {message.text}")

    def asked(request: Request) -> None:
        made.asked.append(request.url)

    page.on("console", console)
    page.on("pageerror", lambda error: made.complaints.append(f"exception: {error}"))
    page.on("request", asked)
    try:
        yield made
    finally:
        await context.close()
