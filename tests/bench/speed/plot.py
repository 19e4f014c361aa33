"""A run as a picture: how far each goal is from its mark, and what the peers need. SVG by hand: it takes no library."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from html import escape

from tests.bench.speed.judging import Part, Verdict
from tests.bench.speed.values import Pick, Rows, Value

WIDTH, LABELS, NUMBERS, LINE = 900, 220, 190, 22
SPAN = WIDTH - LABELS - NUMBERS
GOOD, BAD, GREY, INK, OURS = "#2a7f62", "#c0392b", "#9aa5b1", "#1f2933", "#2f6fb0"
BARS: Sequence[tuple[str, str, Pick, dict[str, object]]] = (
    ("JSON requests/s, 64 connections: more is better", "rps", "load.rps", {"connections": 64}),
    ("ms to the first token, 64 streams: less is better", "stream20", "load.ttft_ms.p50", {}),
    ("MB, idle: less is better", "mem", "idle_mb", {}),
)


@dataclass
class Canvas:
    """Lines of a picture from top to bottom; `y` is the middle of the present one."""

    y: float = 16.0
    shapes: list[str] = field(default_factory=list)

    def text(self, x: float, text: str, *, anchor: str = "start", weight: str = "normal", colour: str = INK) -> None:
        """Write on the present line."""
        self.shapes.append(
            f'<text x="{x:.1f}" y="{self.y + 4:.1f}" text-anchor="{anchor}" font-weight="{weight}" '
            f'fill="{colour}">{escape(text)}</text>'
        )

    def bar(self, x1: float, x2: float, colour: str, height: float = 12.0, opacity: float = 1.0) -> None:
        """A bar on the present line."""
        self.shapes.append(
            f'<rect x="{min(x1, x2):.1f}" y="{self.y - height / 2:.1f}" width="{max(1.0, abs(x2 - x1)):.1f}" '
            f'height="{height:g}" fill="{colour}" fill-opacity="{opacity:g}"/>'
        )

    def upright(self, x: float, top: float) -> None:
        """A line from `top` down to the present line."""
        self.shapes.append(
            f'<line x1="{x:.1f}" x2="{x:.1f}" y1="{top:.1f}" y2="{self.y - LINE / 2:.1f}" stroke="{INK}" '
            f'stroke-dasharray="3 3"/>'
        )

    def next(self, lines: float = 1.0) -> None:
        """Go down."""
        self.y += LINE * lines

    def svg(self) -> str:
        """All of it."""
        height = self.y + LINE / 2
        head = (
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{height:.0f}" font-family="sans-serif" '
        )
        return "\n".join(
            [f'{head}font-size="12">', '<rect width="100%" height="100%" fill="white"/>', *self.shapes, "</svg>\n"]
        )


def picture(rows: Rows, verdicts: Sequence[Verdict]) -> str:
    """The SVG's text."""
    canvas = Canvas()
    _goals(canvas, verdicts)
    for title, test, pick, keys in BARS:
        values = [(peer, rows.value(pick, test, peer, **keys)) for peer in rows.peers()]
        if known := [(peer, value) for peer, value in values if value is not None and peer != "direct"]:
            _bars(canvas, title, known)
    return canvas.svg()


def needed(part: Part, value: float) -> float:
    """How much of a mark is needed: 1 is the mark, less is better, whichever way the mark is meant."""
    if part.at_least:
        return part.mark / value if value > 0 else math.inf
    if part.mark == 0:
        return math.inf if value > 0 else 0.0
    return value / part.mark


def _goals(canvas: Canvas, verdicts: Sequence[Verdict]) -> None:
    """A bar per number, a tenth of its mark at the left end, ten times at the right, with its ends as a thin bar."""
    canvas.text(0, "What is needed of each mark: left of the line is reached (scale 0.1 to 10)", weight="bold")
    canvas.next()
    top = canvas.y - LINE / 2
    for verdict in verdicts:
        for number, (part, value) in enumerate(zip(verdict.goal.parts, verdict.values, strict=True)):
            if value is None:
                continue
            canvas.text(LABELS - 8, verdict.goal.name if number == 0 else "", anchor="end")
            colour = GOOD if part.holds(value) else BAD
            canvas.bar(_place(1.0), _place(needed(part, value.value)), colour)
            canvas.bar(_place(needed(part, value.low)), _place(needed(part, value.high)), INK, 3, 0.6)
            canvas.text(WIDTH - NUMBERS + 8, _numbers(part, value, verdict.goal.unit), colour=colour)
            canvas.next()
    canvas.upright(_place(1.0), top)
    canvas.next()


def _bars(canvas: Canvas, title: str, values: Sequence[tuple[str, Value]]) -> None:
    """A bar per peer on one scale, from nothing to the most."""
    canvas.text(0, title, weight="bold")
    canvas.next()
    most = max(value.high for _, value in values) or 1.0
    for peer, value in values:
        canvas.text(LABELS - 8, peer, anchor="end")
        canvas.bar(LABELS, LABELS + SPAN * value.value / most, OURS if peer.startswith("iop") else GREY)
        canvas.bar(LABELS + SPAN * value.low / most, LABELS + SPAN * value.high / most, INK, 3, 0.6)
        canvas.text(WIDTH - NUMBERS + 8, f"{value.value:,.0f}" if value.value >= 100 else f"{value.value:.2f}")
        canvas.next()
    canvas.next()


def _place(share: float) -> float:
    """Where a share of a mark is on the scale, which is logarithmic and ends at 0.1 and 10."""
    exponent = math.log10(min(10.0, max(0.1, share)))
    return LABELS + SPAN * (exponent + 1) / 2


def _numbers(part: Part, value: Value, unit: str) -> str:
    way = "≥" if part.at_least else "≤"
    return f"{value.value:.{part.digits}f}{f' {unit}' if unit else ''}, mark {way} {part.mark:g}"
