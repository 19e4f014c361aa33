"""Nothing lost and nothing twice: each request's events as an account that must balance, and what its engines saw."""

from collections import Counter, defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from tests.bench.record import Answer, Event
from tests.bench.verdict import Finding
from tests.bench.view import EdgeLife, View

_Facts = Mapping[str, Any]


@dataclass
class Account:
    """One request in one Edge's log."""

    granted: int = 0
    returned: int = 0
    completed: int = 0
    over: bool = False  # it has had its end
    holds: set[str] = field(default_factory=set)  # providers that hold a slot for it, granted
    adopted: Counter[str] = field(default_factory=Counter)
    waits: bool = False
    direct: bool = False


def lost_and_twice(run: View) -> list[Finding]:
    """Hold the logs of all Edges, the answers and what went to the engines against each other."""
    found: list[Finding] = []
    books = [(life, _book(life, found)) for life in run.lives]
    for number, (life, book) in enumerate(books):
        is_last = number == len(books) - 1
        if life.killed_at is None:
            found += _left_open(book, life, "at the end" if is_last else "when its Edge ended in order")
    found += _in_two_lives(books)
    found += _answers(run, [book for _, book in books])
    return found + _runs(run, [book for _, book in books])


def _book(life: EdgeLife, found: list[Finding]) -> dict[str, Account]:
    book: dict[str, Account] = defaultdict(Account)
    expected = 1
    for one in life.events:
        event = one.event
        if event["type"] == "gap" or event["seq"] != expected:
            found.append(Finding("log", one.t, f"events {expected} to {event['seq']} were lost for the reader"))
        expected = event["seq"] + 1
        if event["request_id"] is not None and (wrong := _enter(book[event["request_id"]], one)):
            found.append(Finding("twice" if "twice" in wrong else "lost", one.t, f"{event['request_id']}: {wrong}"))
    return book


def _enter(account: Account, one: Event) -> str | None:
    """Enter an event into its account; returns what is wrong with it."""
    return _ENTRIES.get(one.event["type"], _other)(account, one.event)


def _other(_account: Account, _event: _Facts) -> str | None:
    return None


def _queued(account: Account, _event: _Facts) -> str | None:
    account.waits = True
    return "in line twice, or after its end" if account.over or account.holds else None


def _granted(account: Account, event: _Facts) -> str | None:
    wrong = f"granted twice ({event['provider_id']})" if account.holds or account.direct or account.over else None
    account.waits = False
    account.granted += 1
    if event["type"] == "granted":
        account.holds.add(event["provider_id"])
    else:
        account.direct = True
    return wrong


def _adopted(account: Account, event: _Facts) -> str | None:
    account.adopted[event["provider_id"]] += 1
    return None


def _returned(account: Account, event: _Facts) -> str | None:
    if event["provider_id"] not in account.holds:
        return f"returned by {event['provider_id']}, which did not have it"
    account.holds.discard(event["provider_id"])
    account.returned += 1
    account.waits = True
    return None


def _ended(account: Account, event: _Facts) -> str | None:
    provider = event["provider_id"]
    if provider in account.holds:
        account.holds.discard(provider)
    elif account.adopted[provider]:
        account.adopted[provider] -= 1
        return None
    else:
        return f"ended twice at {provider}, or without a slot"
    account.over = True
    account.completed += event["outcome"] == "completed"
    return None


def _direct_ended(account: Account, event: _Facts) -> str | None:
    if not account.direct:
        return "a direct end without a beginning, or ended twice"
    account.direct, account.over = False, True
    account.completed += event["outcome"] == "completed"
    return None


def _left_line(account: Account, event: _Facts) -> str | None:
    wrong = f"{event['type']} though it was running or over: ended twice" if account.holds or account.over else None
    account.waits, account.over = False, True
    return wrong


_ENTRIES: dict[str, Callable[[Account, _Facts], str | None]] = {
    "queued": _queued, "granted": _granted, "direct_started": _granted, "adopted": _adopted, "returned": _returned,
    "ended": _ended, "direct_ended": _direct_ended, "refused": _left_line, "expired": _left_line,
    "abandoned": _left_line,
}  # fmt: skip


def _left_open(book: dict[str, Account], life: EdgeLife, when: str) -> list[Finding]:
    last = life.events[-1].t if life.events else life.began
    return [
        Finding("lost", last, f"{name}: {_state(one)} {when}")
        for name, one in book.items()
        if one.holds or one.waits or one.direct or +one.adopted
    ]


def _state(one: Account) -> str:
    return f"still held by {', '.join(sorted(one.holds))}" if one.holds else "still waiting" if one.waits else "running"


def _in_two_lives(books: list[tuple[EdgeLife, dict[str, Account]]]) -> list[Finding]:
    seen: Counter[str] = Counter()
    for _, book in books:
        seen.update(name for name, one in book.items() if one.granted)
    return [Finding("twice", 0.0, f"{name}: granted by two Edges") for name, count in seen.items() if count > 1]


def _answers(run: View, books: list[dict[str, Account]]) -> list[Finding]:
    """A whole answer comes from work that completed, and an id is answered once."""
    completed: Counter[str] = Counter()
    for book in books:
        completed.update({name: one.completed for name, one in book.items()})
    found = []
    for answer in run.answers:
        if answer.outcome != "answered" or run.tail_is_lost(answer):
            continue
        if completed[answer.request_id] != 1:
            words = f"{answer.request_id}: answered, but {completed[answer.request_id]} times completed in the log"
            found.append(Finding("lost", answer.ended, words))
    names = Counter(answer.request_id for answer in run.answers)
    return found + [Finding("twice", 0.0, f"{name}: two ends") for name, count in names.items() if count > 1]


def _runs(run: View, books: list[dict[str, Account]]) -> list[Finding]:
    """What went to engines: once per engine, and to another one only after it was given back."""
    given: Counter[str] = Counter()
    returned: Counter[str] = Counter()
    for book in books:
        for name, one in book.items():
            given[name] += one.granted
            returned[name] += one.returned
    answers: dict[str, Answer] = {one.request_id: one for one in run.answers}
    times: dict[str, list[str]] = defaultdict(list)
    last: dict[str, float] = {}
    for one in run.offered:
        times[one.request_id].append(one.provider)
        last[one.request_id] = one.t
    found = []
    for name, providers in times.items():
        if len(providers) > len(set(providers)):
            found.append(Finding("twice", last[name], f"{name}: sent to engines {providers}"))
        answer = answers.get(name)
        slack = int(answer is not None and run.tail_is_lost(answer))
        if len(providers) > given[name] + slack or len(providers) > returned[name] + 1 + slack:
            words = (
                f"{name}: sent to engines {providers}, granted {given[name]}, returned {returned[name]} times: twice"
            )
            found.append(Finding("twice", last[name], words))
    return found
