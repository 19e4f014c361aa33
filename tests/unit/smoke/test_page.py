"""report.html tells everything in its markup, first what was proved, and nothing that it names can act in it."""

import json
import re
from dataclasses import replace
from html.parser import HTMLParser
from typing import Any

import msgspec

from smoke import page
from smoke.history import Blocker, Record, Round
from smoke.judgement import judge
from tests.fakes.smoke_story import burst, engine, records

BANNER = "LOOPBACK, SIMULATED ENGINES: proves the software, not your machines"
LINE = "capacity 3/3 · queued max 1 · final 0/0 · 1 passed"


class Read(HTMLParser):
    """The document's elements and texts, as a browser reads them."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.texts: list[str] = []
        self.scripts: list[str] = []
        self._inside = ""
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        self.tags.append((tag, dict(attrs)))
        self._inside = tag

    def handle_data(self, data: str) -> None:
        if self._inside == "script":
            self.scripts.append(data)
        elif self._inside != "style" and data.strip():
            self.texts.append(data.strip())

    def handle_endtag(self, tag: str) -> None:
        self._inside = ""

    @property
    def words(self) -> str:
        return " ".join(self.texts)


def told(*more: Record, banner: str = BANNER, **changes: Any) -> Read:
    """The document of a good burst of an environment with these changes."""
    view = replace(burst().view(), engines=(engine("a", peak=1, runs=1), engine("b", peak=2, runs=3)))
    env, *rest = records(view)
    env = msgspec.structs.replace(env, banner=banner, command="pytest smoke/ --target test", **changes)
    return Read(page.html("run1", judge([env, *rest, *more]), {"test_x": "passed"}, LINE))


def test_first_of_all_the_banner_then_what_was_proved() -> None:
    """A report on simulated engines cannot be taken for one on machines."""
    found = told()

    assert found.texts[1:4] == [BANNER, "Smoke of test:", "proved"]  # [0] is the title
    assert "capacity 3/3 · queued max 1 · final 0/0 · 1 passed" in found.words
    assert told(banner="").texts[1] == "Smoke of test:"


def test_the_burst_is_told_in_a_sentence_in_numbers_and_as_data_of_its_picture() -> None:
    """Who sees no picture reads the same: the sentence, maxima per provider, each change."""
    found = told()

    assert "4 requests over 3 slots: 3 ran at once, 1 waited" in found.words
    assert "b 2 2 2" in found.words  # provider, slots, in flight, offered to its engine
    assert "0.30 1 2 1" in found.words  # full, and one in line
    [svg] = [attributes for tag, attributes in found.tags if tag == "svg"]
    data = json.loads(found.scripts[0])
    assert data[svg["data-round"]]["capacity"] == 3
    assert svg["role"] == "img"
    assert "3 ran at once" in str(svg["aria-label"])
    assert "The picture needs scripts. Its numbers follow." in found.words


def test_a_small_picture_promises_no_numbers() -> None:
    """Other rounds have a sentence and a picture only: without scripts nothing is announced that does not follow."""
    env, *first = records(burst().view())
    second: list[Any] = [msgspec.structs.replace(one, round_id="2") for one in first]
    second = [
        msgspec.structs.replace(one, kind="order", case="fifo") if isinstance(one, Round) else one for one in second
    ]
    both = page.html("run1", judge([env, *first, *second]), {}, LINE)
    burst_part, others = both.split("Other rounds")

    assert "The picture needs scripts. Its numbers follow." in burst_part
    assert "The picture needs scripts.<" in others


def test_verdicts_versions_tests_and_commands_are_told() -> None:
    """Everything that report.md has is there."""
    words = told().words

    for text in (
        "✓ ok exactly 1 queued", "Edge edge-test 1 rel", "node n2 1 rel", "Config generation 1, sha256 abc",
        "✓ passed test_x", "pytest smoke/ --target test", "python -m smoke.judge build/test-runtime/smoke/run1",
    ):  # fmt: skip
        assert text in words, text


def test_blockers_failures_and_void_rounds_stay_visible() -> None:
    """What went wrong is said in words, with its reason, and what failed is open."""
    blocked = told(Blocker(1.0, "reachable", "node n2 is offline"), Blocker(2.0, "fifo", "node n2 is offline"))
    assert blocked.texts[2:4] == ["Smoke of test:", "blocked"]
    assert blocked.words.count("node n2 is offline") == 1
    assert "(first met by reachable)" in blocked.words

    view = burst().view()
    failing = replace(view, requests=view.requests[1:])
    lost = msgspec.structs.replace(view.round, round_id="r0")
    more = [lost, *(msgspec.structs.replace(one, round_id="r0") for one in view.snapshots)]
    found = Read(page.html("run1", judge([*records(failing), *more]), {}, LINE))
    assert "not proved" in found.texts[2]
    assert "✗ failed all succeed 3 of 4" in found.words
    assert "the event log is not whole" in found.words
    assert ("details", {"open": ""}) in found.tags


def test_nothing_that_is_named_is_markup_or_script() -> None:
    """Names from hosts, reasons and texts are shown as they are; the document has its own elements only."""
    evil = '</script><img src=x onerror=alert(1)><!--\u2028\u202e"'
    found = told(Blocker(1.0, evil, evil), edge_id=evil, hosts={evil: evil}, smoke_model=evil, env=evil)
    text = msgspec.json.encode(records(burst().view()))
    for name in (b'"b"', b':"case"', b'"rel"'):  # a provider, a case, a release
        text = text.replace(name, name[: name.index(b'"')] + json.dumps(evil).encode())
    named = judge(msgspec.json.decode(text, type=list[Record]))
    drawn = Read(page.html(evil, named, {evil: evil}, evil))

    for one in (found, drawn):
        assert "img" not in {tag for tag, _ in one.tags}
        assert [tag for tag, _ in one.tags].count("script") == 3
        assert not [name for _, attributes in one.tags for name in attributes if name.startswith("on")]
    assert json.loads(drawn.scripts[0])["r1"]["providers"][1]["id"] == evil


def test_the_document_loads_nothing_and_runs_only_what_its_policy_names() -> None:
    """One file that opens from disk: no address but in text, hashes for its script and style."""
    found = told()
    tags = {tag for tag, _ in found.tags}
    [policy] = [str(a["content"]) for _, a in found.tags if a.get("http-equiv") == "Content-Security-Policy"]

    assert not tags & {"link", "img", "iframe", "object", "base", "form"}
    assert not [a for _, a in found.tags if {"src", "href", "style"} & a.keys()]
    assert "default-src 'none'" in policy
    assert len(re.findall(r"'sha256-[\w+/=]+'", policy)) == 3
    assert not re.search(r"url\(|@import", page.html("run1", judge(records(burst().view())), {}, LINE))


def test_a_run_without_a_burst_has_no_picture_and_no_script() -> None:
    """Blocked before anything could be sent: the document says why and needs nothing."""
    env = msgspec.structs.replace(records(burst().view())[0], banner=BANNER)
    found = Read(page.html("run1", judge([env, Blocker(1.0, "reachable", "gx10 is down")]), {}, LINE))

    assert not {"svg", "script"} & {tag for tag, _ in found.tags}
    assert "gx10 is down" in found.words
