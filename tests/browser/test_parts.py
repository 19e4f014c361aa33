"""The page's parts that decide something, each alone in the browser: the line, the history, the words, the drawing."""

from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio
from playwright.async_api import Browser, Page

from tests.browser.scripted import ScriptedEdge, control_plane, dev
from tests.browser.watched import watched

pytestmark = pytest.mark.asyncio(loop_scope="session")


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def page(browser: Browser) -> AsyncIterator[Page]:
    """A page that has the modules at hand, for all tests of this module."""
    async with control_plane(ScriptedEdge(dev())) as url, watched(browser, bypass_csp=True) as look:
        await look.open(url)
        await look.sees("#fresh", "live")
        yield look.page
        look.check()


async def line(page: Page, *events: tuple[str, str, int]) -> list[Any]:
    """Who waits after these events (type, request id, second): id, second since which, taken back or not."""
    told = [{"type": kind, "request_id": id_, "model": "m", "seq": n} for n, (kind, id_, _) in enumerate(events, 1)]
    times = [at for _, _, at in events]
    found: list[Any] = await page.evaluate(
        """async ([events, times]) => {
          const { Line } = await import("/page/line.js");
          const line = new Line();
          events.forEach((event, i) => line.apply(event, times[i]));
          const first = line.first(100).map(({ id, since, back }) => [id, since, back]);
          if (first.length !== line.size) throw new Error("size");
          return first;
        }""",
        [told, times],
    )
    return found


async def test_the_line_is_in_order_of_arrival(page: Page) -> None:
    """Who came first is first; who got a slot, gave up or waited in vain is gone."""
    assert await line(page, ("queued", "a", 1), ("queued", "b", 2), ("queued", "c", 3), ("granted", "a", 4)) == [
        ["b", 2, False],
        ["c", 3, False],
    ]
    gone = [("queued", id_, n) for n, id_ in enumerate("abcd")]
    assert await line(page, *gone, ("expired", "a", 9), ("abandoned", "b", 9), ("refused", "c", 9)) == [["d", 3, False]]


async def test_who_was_sent_back_has_its_old_place(page: Page) -> None:
    """A returned request waits since it first came, also when it got its slot at once; ended ones are forgotten."""
    story = [("queued", "a", 1), ("queued", "b", 2), ("granted", "a", 5), ("granted", "x", 3), ("queued", "c", 6)]
    back = [("returned", "a", 7), ("returned", "x", 8)]
    assert await line(page, *story, *back) == [["a", 1, True], ["b", 2, False], ["x", 3, True], ["c", 6, False]]
    assert await line(page, ("granted", "a", 1), ("ended", "a", 2), ("granted", "a", 5), ("returned", "a", 6)) == [
        ["a", 5, True]
    ]


async def test_two_requests_with_one_id_are_two(page: Page) -> None:
    """A client may send the same id twice; the earlier one is taken to be meant."""
    assert await line(page, ("queued", "a", 1), ("queued", "a", 2), ("granted", "a", 3)) == [["a", 2, False]]


async def history(page: Page, steps: list[list[Any]], to: float) -> dict[str, Any]:
    """The drawing's data after steps [method, arguments…] of a History."""
    found: dict[str, Any] = await page.evaluate(
        """async ([steps, to]) => {
          const { History } = await import("/page/history.js");
          const history = new History();
          for (const [method, ...args] of steps) history[method](...args);
          return history.data([{ id: "p", capacity: 3 }, { id: "q", capacity: 2 }], 5, to);
        }""",
        [steps, to],
    )
    return found


def event(kind: str, provider: str, used: int, queued: int = 0) -> dict[str, Any]:
    """What the history reads of an event."""
    load = {"capacity": 5, "in_flight": used, "queued": queued}
    return {"type": kind, "provider_id": provider, "provider": load, "totals": load}


async def test_the_history_knows_what_was_before_its_first_event(page: Page) -> None:
    """The first event of a provider says what it had before, too; that is told of the time before it."""
    data = await history(page, [["apply", event("granted", "p", 1), 100], ["apply", event("ended", "q", 1), 101]], 110)
    assert [(point["at"], point["inFlight"]) for point in data["points"]] == [
        (100, {"p": 1, "q": 2}),
        (101, {"p": 1, "q": 1}),
    ]
    assert (data["from"], data["to"], data["capacity"]) == (-70, 110, 5)


async def test_a_peak_within_one_bucket_is_kept(page: Page) -> None:
    """Many events within a quarter of a second cost two points: the fullest moment, and the last."""
    steps = [["apply", event("granted", "p", used, 7 - used), 100 + used / 100] for used in (1, 2, 3)]
    steps += [["apply", event("ended", "p", used), 100.1 + (3 - used) / 100] for used in (2, 1, 0)]
    points = (await history(page, steps, 110))["points"]
    assert [(point["inFlight"], point["queued"]) for point in points] == [({"p": 3}, 6), ({"p": 0}, 0)]


async def test_old_buckets_go_but_the_one_that_still_holds(page: Page) -> None:
    """Hours of events leave three minutes of points, and one before them that says what held when they begin."""
    steps = [["apply", event("granted", "p", 1 + second % 2), second] for second in range(0, 3600, 10)]
    points = (await history(page, steps, 3600))["points"]
    assert points[0]["at"] <= 3600 - 180
    assert len(points) < 25


async def test_what_was_guessed_is_replaced_by_what_happened(page: Page) -> None:
    """While no events come the looks are all there is; when the events are read after all, they are right."""
    status = {
        "provider_snapshots": [{"provider_id": "p", "in_flight": 3}, {"provider_id": "q", "in_flight": 0}],
        "totals": {"capacity": 5, "queued": 2},
    }
    steps = [["apply", event("granted", "p", 1), 100], ["see", status, 105, True], ["see", status, 106, True]]
    guessed = (await history(page, steps, 110))["points"]
    assert [point["at"] for point in guessed] == [100, 105, 106]
    steps += [["resume"], ["apply", event("granted", "p", 2), 104.5], ["apply", event("granted", "p", 3), 105.5]]
    points = (await history(page, steps, 110))["points"]
    assert [(point["at"], point["inFlight"]["p"]) for point in points] == [(100, 1), (104.5, 2), (105.5, 3)]


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (-1, "0.0 s"),
        (12.34, "12.3 s"),
        (59.96, "1 min 0 s"),
        (125, "2 min 5 s"),
        (12_000, "3 h 20 min"),
        (200_000, "2 d 7 h"),
    ],
)
async def test_durations_in_words(page: Page, seconds: float, words: str) -> None:
    """Each length has a form that is read at a glance."""
    assert await page.evaluate("async (s) => (await import('/page/words.js')).lasting(s)", seconds) == words


@pytest.mark.parametrize(
    ("given", "shown"),
    [
        ("plain-name_1", "plain-name_1"),
        ("a\u202eb\u200b", "a\u27e8U+202E\u27e9b\u27e8U+200B\u27e9"),
        ("\x1b[2J\n", "\u27e8U+001B\u27e9[2J\u27e8U+000A\u27e9"),
        ("\U000e0041", "\u27e8U+E0041\u27e9"),
        ("e" + "\u0301" * 40, "e" + "\u0301" * 3),
        ("x" * 100, "x" * 80 + "\u2026"),
        ("\ud55c\uad6d\uc5b4 \U0001f600", "\ud55c\uad6d\uc5b4 \U0001f600"),
        (None, ""),
    ],
)
async def test_names_from_elsewhere_are_harmless(page: Page, given: str | None, shown: str) -> None:
    """What steers a terminal or turns the text around becomes visible; what is long is cut; other scripts stay."""
    assert await page.evaluate("(text) => iopDrawing.plain(text)", given) == shown


async def draw(page: Page, data: dict[str, Any], **options: Any) -> list[str]:
    """Draw alone; return the texts in the picture."""
    texts: list[str] = await page.evaluate(
        """([data, options]) => {
          const svg = document.createElementNS("http://www.w3.org/2000/svg", "svg");
          document.body.append(svg);
          iopDrawing.timeline(svg, data, options);
          const wrong = svg.outerHTML.match(/NaN|undefined|Infinity/);
          if (wrong) throw new Error(svg.outerHTML);
          const texts = [...svg.children].filter(({ tagName }) => tagName !== "path").map((one) => one.textContent);
          svg.remove();
          return texts.filter(Boolean);
        }""",
        [data, options],
    )
    return texts


async def test_the_drawing_tells_itself_in_words(page: Page) -> None:
    """Title, description, axis, legend and capacity are text; the numbers in them are those of the data."""
    data = {
        "from": 0, "to": 12, "capacity": 10, "providers": [{"id": "a", "capacity": 6}, {"id": "b", "capacity": 4}],
        "points": [
            {"at": 1, "inFlight": {"a": 6, "b": 3}, "queued": 0}, {"at": 2, "inFlight": {"a": 6, "b": 4}, "queued": 1},
            {"at": 9, "inFlight": {}, "queued": 0},
        ],
    }  # fmt: skip
    texts = await draw(page, data, width=600, height=240)
    assert texts[0] == "Slots in use and waiting, over time"
    assert texts[1] == (
        "At most 10 of 10 slots in use and 1 waiting; at the end 0 in use and 0 waiting. "
        "a at most 6 of 6, b at most 4 of 4."
    )
    assert {"0 s", "10 s", "a", "b", "waiting", "capacity 10"} <= set(texts)


ONE = [{"id": "a", "capacity": 2}]
MANY = [{"id": f"p{n}", "capacity": 1} for n in range(60)]
FAR = [{"at": -5, "inFlight": {"a": 9}, "queued": 9}, {"at": 2e6, "queued": 1}]


@pytest.mark.parametrize(
    "data",
    [
        {"from": 0, "to": 10, "capacity": 0, "providers": [], "points": []},
        {"from": 5, "to": 5, "capacity": 1, "providers": ONE, "points": [{"at": 5, "inFlight": {"a": 1}, "queued": 0}]},
        {"from": 0, "to": 1e6, "capacity": 2, "providers": ONE, "points": FAR},
        {"from": 0, "to": 9, "capacity": 2, "providers": MANY, "points": [{"at": 1, "queued": 0, "capacity": 3}]},
    ],
    ids=["nothing", "no time", "over capacity, long, out of range", "many providers"],
)
async def test_the_drawing_bears_odd_data(page: Page, data: dict[str, Any]) -> None:
    """Nothing, no time, more than capacity, points beyond the axis, dozens of providers: there is always a picture."""
    assert (await draw(page, data, width=300, height=200))[0] == "Slots in use and waiting, over time"
