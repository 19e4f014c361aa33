"""The waits that the page on the one line tells are those of queueing theory."""

from math import factorial

from tests.fakes import pages

SLOTS = (3, 4, 3)  # of the dev environment's providers


def wait(slots, load):
    """Mean wait in line, in mean answers, of a line before `slots` that is offered `load` slots' worth (Erlang C)."""
    if load >= slots:
        return float("inf")
    last = load**slots / factorial(slots) * slots / (slots - load)
    return last / (sum(load**k / factorial(k) for k in range(slots)) + last) / (slots - load)


def test_the_table_is_right():
    """Each row: one line, lines by weight, lines in turn; two decimals, the last one cut off or rounded."""
    table = pages.rows(pages.text_of("docs/explanation/one-line.md"), "## What it is worth")[1:]
    total = sum(SLOTS)
    assert len(table) == 5
    for load, *told in table:
        offered = total * int(load.rstrip(" %")) / 100
        right = (
            wait(total, offered),
            sum(slots / total * wait(slots, offered * slots / total) for slots in SLOTS),
            sum(wait(slots, offered / len(SLOTS)) for slots in SLOTS) / len(SLOTS),
        )
        for text, value in zip(told, right, strict=True):
            if text == "grows without end":
                assert value == float("inf")
            else:
                assert abs(float(text) - value) < 0.01
