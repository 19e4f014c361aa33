"""A browser page and everything it complains of."""

import contextlib
import socket
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path
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
    opened: set[str] = field(default_factory=set)
    #: a test in which the server goes away or refuses sets this
    may_fail_to_load: bool = False

    async def open(self, url: str) -> None:
        """Load the page."""
        self.opened.add(_host(url))
        await self.page.goto(url)

    async def sees(self, selector: str, text: Any) -> None:
        """Wait until the (first such) element holds the text (a part of it, or a pattern)."""
        await expect(self.page.locator(selector).first).to_contain_text(text, timeout=PATIENCE)

    async def hide(self, hidden: bool) -> None:
        """Tell the page that its tab is hidden, or shown."""
        await self.page.evaluate(
            """(hidden) => {
              Object.defineProperty(document, "hidden", { configurable: true, get: () => hidden });
              document.dispatchEvent(new Event("visibilitychange"));
            }""",
            hidden,
        )

    async def picture(self, path: Path) -> None:
        """Take a screenshot of the whole page."""
        await self.page.screenshot(path=path, full_page=True, animations="disabled")

    def check(self) -> None:
        """Fail on an error in the console, a violation of the policy, an exception or a request to elsewhere."""
        found = self.complaints
        # a test's last act is to stop its server, and the page asks it once a second
        if self.may_fail_to_load or not all(map(_listens, self.opened)):
            found = [text for text in found if not any(words in text for words in EXPECTED)]
        assert found == []
        assert [url for url in self.asked if _host(url) not in self.opened] == []


def _host(url: str) -> str:
    return url.split("/", 3)[2]


def _listens(host: str) -> bool:
    """True when somebody has the port. Nobody is called: a server of this very process would keep the connection."""
    name, _, port = host.rpartition(":")
    if not name:
        return True  # a file
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # closed connections do not count
        try:
            probe.bind((name, int(port)))
        except OSError:
            return True
    return False


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
