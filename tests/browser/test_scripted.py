"""The page over an Edge that the test plays: hostile names, tokens, several Edges, large numbers, lost events."""

import asyncio
import re

import pytest
from playwright.async_api import expect

from tests.browser.scripted import ScriptedEdge, control_plane, dev, node, provider
from tests.browser.stories import bad_day
from tests.browser.watched import PATIENCE, Watched

pytestmark = pytest.mark.asyncio(loop_scope="session")
BAIT = "<img src=x onerror=alert(1)>"
BIDI = "\u202egnp.exe"


async def test_names_are_text_whatever_stands_in_them(look: Watched) -> None:
    """Markup in an alias, a reason, a model, a request id, an agent or a release is shown letter by letter."""
    bait = "<b/onclick=alert(1)>"  # a model id holds no blanks
    nodes = [node("n1", provider("p1", 1), alias=BAIT), *dev()]
    edge = ScriptedEdge(nodes, model=f"{bait}{BIDI}")
    edge.ask(*(f"{BAIT}{number}" for number in range(13)))
    edge.lose("n1")
    edge.do(edge.admission.drain("gx10-vllm-node", edge.now() + 60, f"{BAIT}\x07\x1b[31m", edge.now()))
    edge.releases = {"mac-codex-node": BAIT}
    edge.last_error = f"{BAIT}</ul><script>alert(2)</script>"
    async with control_plane(edge) as url:
        await look.open(url)
        await look.sees("#line .id", BAIT)
        await look.sees("#line .model", f"{bait}\u27e8U+202E\u27e9gnp.exe")
        await look.sees("#nodes", BAIT)
        await look.sees("#problems", f"{BAIT}\u27e8U+0007\u27e9\u27e8U+001B\u27e9[31m")
        await look.sees("#problems", "</ul><script>alert(2)</script>")
        await look.sees("#problems", f"mac-codex-node runs release {BAIT}")
        await look.sees("#events", f"{BAIT}12 waits for")
        await expect(look.page.locator("main :is(img, script, b[onclick])")).to_have_count(0)
        assert "\u202e" not in await look.page.locator("body").inner_text()


async def test_everything_that_is_wrong_is_said(look: Watched) -> None:
    """Each kind of trouble has its sentence, the worst first; broken law, anomalies and shrunk providers among them."""
    edge = bad_day()

    def spoil(status: dict) -> None:
        status["totals"]["received"] += 2
        status["anomalies"]["double_release"] = 1
        status["provider_snapshots"][0] |= {"capacity": 1, "over_by": 2}

    edge.status_changes = spoil
    async with control_plane(edge) as url:
        await look.open(url)
        for words in (
            "The law is broken: totals: received",
            "Must not happen, and did 1 time: double release",
            "gx10-vllm is down: its engine does not answer: GET /v1/models: connection refused",
            "attic-llama is offline",
            "Agent codex of mac-codex-node cannot run: not logged in: run codex login",
            "The last config was refused: nodes[1].providers[0].capacity",
            "onexplayer-lemonade is draining: it gets nothing new, what runs goes on: new battery (asked for by kim)",
            "cellar-node runs release 2026.11.02-4, the Edge 2026.11.30-1",
            "Turned away 3 times: mac-codex-node from 192.168.1.23 (duplicate_node",
            "mac-mlx-vllm holds 2 slots more than its capacity",
        ):
            await look.sees("#problems", words)
        levels = await look.page.locator("#problems li").evaluate_all("rows => rows.map((row) => row.dataset.level)")
        assert levels == sorted(levels, key=["bad", "away", "warn", "note"].index)
        await look.sees("#totals .law", "The law is broken")
        await expect(look.page.locator(".fill.over")).to_have_count(2)
        await look.sees(".provider:has-text('mac-mlx-vllm')", "3 of 1 in use, 2 over")


async def test_much_that_is_wrong_does_not_fill_the_screen(look: Watched) -> None:
    """Of forty lost providers the first are named, and how many more there are; a row each stays below."""
    edge = ScriptedEdge([node(f"n{number}", provider(f"p{number}", 1)) for number in range(40)])
    for number in range(40):
        edge.lose(f"n{number}")
    async with control_plane(edge) as url:
        await look.open(url)
        await look.sees("#verdict", "No provider takes work.")
        await expect(look.page.locator("#problems li")).to_have_count(13, timeout=PATIENCE)
        await look.sees("#problems", "and 28 more")
        await expect(look.page.locator(".provider")).to_have_count(40)


async def test_the_token_is_asked_for_and_kept_in_the_tab(look: Watched, monkeypatch: pytest.MonkeyPatch) -> None:
    """From beyond loopback the page asks for the token, says that one is wrong, keeps it in the tab, can forget it."""
    monkeypatch.setattr("iop.transport.callers.is_loopback", lambda _host: False)
    look.may_fail_to_load = True
    edge = ScriptedEdge(dev())
    async with control_plane(edge, accepts=lambda token: token == "s3cret") as url:
        await look.open(url)
        field = look.page.get_by_role("textbox", name="Token")
        await expect(field).to_be_focused(timeout=PATIENCE)
        await field.fill("wr\u00f6ng")
        await field.press("Enter")
        await look.sees("#ask-note", "ASCII only")
        await field.fill("wrong")
        await field.press("Enter")
        await look.sees("#ask-note", "does not know that token")
        await expect(look.page.locator("#main")).to_be_hidden()
        await field.fill("s3cret")
        await field.press("Enter")
        await look.sees("#fresh", "live")
        await look.sees("#verdict", "Idle")
        await expect(field).to_be_hidden()
        await look.page.reload()
        await look.sees("#verdict", "Idle")
        assert "s3cret" not in await look.page.content()
        assert not any("s3cret" in asked for asked in look.asked)
        await look.page.get_by_role("button", name="Forget the token").click()
        await expect(field).to_be_visible(timeout=PATIENCE)
        await expect(look.page.locator("#main")).to_be_hidden()


async def test_several_edges_have_a_choice_and_one_has_none(look: Watched) -> None:
    """The address says which Edge is shown; the choice works by keyboard, and an unreachable one is named as such."""
    first, second = (
        ScriptedEdge(dev(), edge_id="first"),
        ScriptedEdge([node("n1", provider("p1", 2))], edge_id="second"),
    )
    lost = ScriptedEdge(dev(), edge_id="lost")
    lost.away = "http://10.0.0.9:19093 refused"
    look.may_fail_to_load = True
    async with control_plane(first, second, lost) as url:
        await look.open(f"{url}#edge=second")
        await look.sees("#figures", "of 2")
        chooser = look.page.get_by_role("navigation", name="Edges")
        await expect(chooser.get_by_role("link")).to_have_text(
            ["first", "second", "lost not reachable"], timeout=PATIENCE
        )
        await expect(chooser.get_by_role("link", name="second")).to_have_attribute("aria-current", "page")
        await look.page.keyboard.press("Tab")
        await expect(chooser.get_by_role("link", name="first")).to_be_focused()
        await look.page.keyboard.press("Enter")
        await look.sees("#figures", "of 10")
        assert look.page.url.endswith("#edge=first")
        await chooser.get_by_role("link", name="lost").click()
        await look.sees("#notice", "Edge lost was never reached: http://10.0.0.9:19093 refused")
        await expect(look.page.locator("#main")).to_be_hidden()
    async with control_plane(first) as url:
        await look.open(url)
        await look.sees("#verdict", "Idle")
        await expect(look.page.locator("#chooser")).to_be_hidden()


async def test_ten_thousand_wait_and_a_thousand_events_a_second(look: Watched) -> None:
    """The page shows the first of them and how many more, knows what it cannot know, and keeps up with a storm."""
    edge = ScriptedEdge([node("n1", provider("p1", 500), provider("p2", 64))])
    edge.at(-30)
    edge.ask(*(f"r{number}" for number in range(10_564)))
    edge.at(0)
    async with control_plane(edge) as url:
        await look.open(url)
        await look.sees("#verdict", "Full: 10,000 requests wait in line.")
        await look.sees("#line", "came before the oldest event that is kept")
        await look.sees("#line .more", re.compile(r"and [\d,]+ more"))
        await look.sees(".provider:has-text('p1')", "500 of 500 in use")
        await look.sees(".provider:has-text('p1')", "a cell is 10 slots")
        elements = await look.page.locator("*").count()
        for _ in range(3):
            for number in range(500):  # an end and a grant each
                edge.end(next(iter(edge.leases)))
                if number % 100 == 99:
                    await asyncio.sleep(0.1)  # the pace of the storm, not a wait for a condition
        await look.sees("#verdict", "Full: 8,500 requests wait in line.")
        assert await look.page.locator("*").count() < elements + 200
        while edge.leases:
            edge.end(next(iter(edge.leases)))
            if len(edge.leases) % 100 == 0:
                await asyncio.sleep(0)
        await look.sees("#verdict", "Idle: 564 slots are free.")
        await look.sees("#line", "Nobody waits.")


async def test_lost_events_do_not_leave_ghosts_in_line(look: Watched) -> None:
    """A page that was hidden while more happened than the Edge keeps shows who waits now, and nobody else."""
    edge = ScriptedEdge([node("n1", provider("p1", 1))])
    edge.ask("runs", "ghost", "stays")
    async with control_plane(edge) as url:
        await look.open(url)
        await look.sees("#line", "ghost")
        await look.hide(True)
        edge.admission.abandon("ghost", edge.now())  # its event is among those that are lost
        for number in range(9000):
            edge.ask(f"passing-{number}")
            edge.do(edge.admission.abandon(f"passing-{number}", edge.now()))
        edge.ask("newest")
        await look.hide(False)
        await look.sees("#line ol", "newest")
        await look.sees("#line", "2 requests wait")
        await expect(look.page.locator("#line", has_text="ghost")).to_have_count(0)


async def test_events_of_an_earlier_edge_process_are_not_mixed_in(look: Watched) -> None:
    """When another process answers, its numbers may be higher than those already read; all is read anew."""
    edge = ScriptedEdge([node("n1", provider("p1", 1))])
    edge.ask("old-runs", "old-waits")
    async with control_plane(edge) as url:
        await look.open(url)
        await look.sees("#line", "old-waits")
        await look.sees("#events", "old-waits waits")
        streams = edge.feed
        edge.boot("second")
        edge.ask("new-runs", *(f"new-{number}" for number in range(40)))
        streams.close()
        await look.sees("#notice", "The Edge was started anew")
        await look.sees("#line .waiter", "new-0")
        await look.sees("#verdict", "Full: 40 requests wait in line.")
        await expect(look.page.locator("main", has_text="old-")).to_have_count(0)


async def test_the_box_leaves_changes_and_failures_only(look: Watched) -> None:
    """By keyboard: what happens all day goes away, what changed or failed stays; and again."""
    edge = bad_day()
    async with control_plane(edge) as url:
        await look.open(url)
        await look.sees("#events", "finished on")
        box = look.page.get_by_role("checkbox", name="only changes and failures")
        await box.focus()
        await look.page.keyboard.press("Space")
        await expect(look.page.locator("#events li", has_text="finished on")).to_have_count(0, timeout=PATIENCE)
        await look.sees("#events", "failed on")
        await look.sees("#events", "attic-llama is now offline")
        await look.page.keyboard.press("Space")
        await look.sees("#events", "finished on")


async def test_a_silent_control_plane_is_stale_without_any_failure(look: Watched) -> None:
    """Nothing fails, nothing comes: after some seconds the page's own clock says stale."""
    edge = ScriptedEdge(dev())
    edge.ask("one")
    async with control_plane(edge) as url:
        await look.open(url)
        await look.sees("#fresh", "live")
        held = asyncio.Event()
        await look.page.route("**/status", lambda route: held.wait())
        await look.sees("#fresh", "stale")
        await look.sees("#notice", re.compile("This is how it was .* ago"))
        held.set()
        await look.page.unroute("**/status")
        await look.sees("#fresh", "live")
