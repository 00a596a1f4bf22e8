"""Pictures of rows: one line a mechanism, labelled where it ends, with its range over seeds as a band.

Colours and dashes belong to mechanisms and are the same in every picture; dashed means chosen by an oracle.
"""

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from statistics import median
from typing import Any

from bayesgram.charts import spread_out
from bayesgram.paper.harness import Method, Row

COLOURS = {
    Method.POSTERIOR: "#1b7f5c",
    Method.PAPER_TUNED: "#c9760a",
    Method.PAPER_BEST: "#c9760a",
    Method.PAPER_RANGE: "#8c3b00",
    Method.COROLLARY: "#c9760a",
    Method.AS_PRINTED: "#8c3b00",
    Method.LAPLACE: "#b3475b",
    Method.LAPLACE_BEST: "#b3475b",
    Method.LAPLACE_PUBLIC: "#7a5aa6",
    Method.LAPLACE_PUBLIC_BEST: "#7a5aa6",
    Method.PUBLIC: "#6d737c",
    Method.K_ADD_ONE: "#2f6fb0",
    Method.K_PUBLIC: "#53a7d8",
    Method.PRIVATE: "#222222",
}
ORACLE = "Line: median over seeds; band: smallest to largest. Dashed, *: chosen by looking at private data."
HEIGHT, LABEL = 380, 15  # pixels; the height of a label


@dataclass(frozen=True)
class Axis:
    """The horizontal axis."""

    name: str  # of the row's field
    title: str
    format: str = "~g"  # of d3


@dataclass(frozen=True)
class Mark:
    """One point of a line."""

    method: str
    x: float
    value: float
    low: float
    high: float


def marks(rows: Sequence[Row], axis: str) -> list[Mark]:
    """Median, smallest and largest over seeds, for each mechanism and place."""
    groups: dict[tuple[Method, float], list[Row]] = {}
    for row in rows:
        groups.setdefault((row.method, getattr(row, axis)), []).append(row)
    return [_mark(method, place, found) for (method, place), found in groups.items()]


def _mark(method: Method, place: float, rows: Sequence[Row]) -> Mark:
    lows = [row.value if row.low is None else row.low for row in rows]
    highs = [row.value if row.high is None else row.high for row in rows]
    return Mark(method.value, place, median(row.value for row in rows), min(lows), max(highs))


def log_domain(rows: Sequence[Row]) -> tuple[float, float]:
    """A little more than the values need, on a log scale; Algorithm 2 may leave it at the top, by far."""
    values = [row.value for row in rows if row.method != Method.PAPER_TUNED]
    margin = (max(values) / min(values)) ** 0.05
    return min(values) / margin, max(values) * margin * 1.2


def log_ticks(low: float, high: float) -> list[float]:
    """1, 2, 5, 10, … or, over a wide range, 1, 10, 100, …

    >>> log_ticks(0.02, 0.6), log_ticks(0.02, 30)
    ([0.02, 0.05, 0.1, 0.2, 0.5], [0.1, 1.0, 10.0])
    """
    steps = (1, 2, 5) if high / low < 300 else (1,)
    powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    ticks = [float(f"{step}e{power}") for power in powers for step in steps]
    return [tick for tick in ticks if low <= tick <= high]


@dataclass(frozen=True)
class Panel:
    """One set of axes."""

    rows: Sequence[Row]
    axis: Axis
    y_title: str
    domain: tuple[float, float] | None = None
    log: bool = True
    width: int = 430

    def draw(self) -> Any:  # noqa: ANN401 - Altair's charts share no useful base
        """Bands, lines, points and labels."""
        import altair as alt  # noqa: PLC0415 - 0.5 s

        points = marks(self.rows, self.axis.name)
        inside = [point for point in points if self._span[0] <= point.value <= self._span[1]]
        base, seen, names = (
            alt.Chart(alt.InlineData(values=values)).encode(x=self._x(points))
            for values in (
                [asdict(p) for p in points],
                [asdict(p) for p in inside],
                self._labels(points),
            )
        )
        colour, dash = by_method()
        layers = (
            base.mark_area(opacity=0.18, clip=True).encode(
                y=self._y("low"), y2="high:Q", color=colour
            ),
            base.mark_line(strokeWidth=2, clip=True).encode(
                y=self._y("value"), color=colour, strokeDash=dash
            ),
            seen.mark_point(filled=True, size=36, opacity=1).encode(
                y=self._y("value"), color=colour
            ),
            names.mark_text(align="left", dx=10, fontSize=11.5).encode(
                y=self._y("place"), text="text:N", color=colour
            ),
        )
        return alt.layer(*layers).properties(width=self.width, height=HEIGHT)

    @property
    def _span(self) -> tuple[float, float]:
        return self.domain or log_domain(self.rows)

    def _x(self, points: Sequence[Mark]) -> Any:  # noqa: ANN401
        import altair as alt  # noqa: PLC0415

        ticks = sorted({point.x for point in points})
        shown = alt.Axis(values=ticks, format=self.axis.format, labelOverlap="greedy", grid=False)
        return alt.X(
            "x:Q", title=self.axis.title, scale=alt.Scale(type="log", nice=False), axis=shown
        )

    def _y(self, field: str) -> Any:  # noqa: ANN401
        import altair as alt  # noqa: PLC0415

        scale = alt.Scale(type="log" if self.log else "linear", domain=list(self._span), nice=False)
        ticks = log_ticks(*self._span) if self.log else None
        axis = alt.Axis(
            gridOpacity=0.5, format="~g", **({"values": ticks} if ticks else {"tickCount": 6})
        )
        return alt.Y(f"{field}:Q", title=self.y_title, scale=scale, axis=axis)

    def _labels(self, points: Sequence[Mark]) -> list[dict[str, Any]]:
        """Each mechanism's name at the end of its line, moved up or down where two would overlap."""
        last = {point.method: point for point in sorted(points, key=lambda point: point.x)}
        right = max(point.x for point in points)
        ends = sorted(last.values(), key=lambda point: point.value)
        places = spread_out([self._pixel(point.value) for point in ends], LABEL, HEIGHT)
        outside = [
            f" ↑ {shown(point.value)}" if point.value > self._span[1] else "" for point in ends
        ]
        return [
            {
                "method": point.method,
                "text": point.method + beyond,
                "x": right,
                "place": self._value(place),
            }
            for point, beyond, place in zip(ends, outside, places, strict=True)
        ]

    def _pixel(self, value: float) -> float:
        """Height of a value above the bottom."""
        low, high = (math.log(end) if self.log else end for end in self._span)
        return min(((math.log(value) if self.log else value) - low) / (high - low), 1.0) * HEIGHT

    def _value(self, pixel: float) -> float:
        low, high = (math.log(end) if self.log else end for end in self._span)
        found = low + pixel / HEIGHT * (high - low)
        return math.exp(found) if self.log else found


def by_method() -> tuple[Any, Any]:
    """The colour and the dash of each mechanism, in every picture the same."""
    import altair as alt  # noqa: PLC0415

    methods = [method.value for method in Method]
    colours = alt.Scale(domain=methods, range=[COLOURS[method] for method in Method])
    dashes = alt.Scale(
        domain=methods, range=[[5, 3] if method.oracle else [1, 0] for method in Method]
    )
    return alt.Color("method:N", legend=None, scale=colours), alt.StrokeDash(
        "method:N", legend=None, scale=dashes
    )


def shown(value: float) -> str:
    """Three digits, or more before the point.

    >>> shown(0.13481), shown(1502.37), shown(5.27e19)
    ('0.135', '1,502', '5e19')
    """
    if value < 1_000:
        return f"{value:.3g}"
    return f"{value:,.0f}" if value < 1_000_000 else f"{value:.0e}".replace("e+", "e")


def titled(chart: Any, title: str, *notes: str) -> Any:  # noqa: ANN401
    """The chart with its title, its setting and how to read it."""
    import altair as alt  # noqa: PLC0415

    subtitle = alt.Title(
        title, subtitle=list(notes), anchor="start", offset=12, subtitleColor="#555"
    )
    return (
        chart.properties(title=subtitle)
        .configure_view(stroke=None)
        .configure_axis(titleFontWeight="normal")
    )


def of_users(setting: str, users: int) -> str:
    """The setting of a picture of some of the users."""
    return setting if f" {users:,} users" in setting else f"{setting}; here {users:,} of the users"


def side_by_side(*panels: Panel) -> Any:  # noqa: ANN401
    """Panels next to each other."""
    import altair as alt  # noqa: PLC0415

    return alt.hconcat(*(panel.draw() for panel in panels), spacing=24)


def dots(rows: Sequence[Row], *, x_title: str, beside: dict[str, float]) -> Any:  # noqa: ANN401
    """One line a mechanism, a dot on a log axis: for tables. `beside` are the paper's numbers, as rings."""
    import altair as alt  # noqa: PLC0415

    found = sorted(marks(rows, "vocabulary_size"), key=lambda mark: mark.value)
    usual = [mark.value for mark in found if mark.method != Method.PAPER_TUNED.value]
    end = 3 * max(*usual, *beside.values())
    values = [
        {
            "method": mark.method,
            "value": min(mark.value, end),
            "label": f"{'→ ' if mark.value > end else ''}{shown(mark.value)}",
        }
        for mark in found
    ]
    theirs = [
        {"method": mark.method, "value": beside[mark.method]}
        for mark in found
        if mark.method in beside
    ]
    y = alt.Y(
        "method:N", sort=[mark.method for mark in found], title=None, axis=alt.Axis(labelLimit=300)
    )
    ticks = alt.Axis(grid=False, format="~g", values=log_ticks(min(usual) / 2, end))
    scale = alt.Scale(type="log", domain=[min(usual) / 1.3, end], nice=False)
    x = alt.X("value:Q", title=x_title, scale=scale, axis=ticks)
    ours = alt.Chart(alt.InlineData(values=values)).encode(x=x, y=y)
    rings = alt.Chart(alt.InlineData(values=theirs)).encode(x=x, y=y)
    return (
        rings.mark_point(size=70, color="#999", strokeWidth=1.5)
        + rings.mark_text(align="left", dx=9, color="#888").encode(text="value:N")
        + ours.mark_point(filled=True, size=80, opacity=1).encode(color=by_method()[0])
        + ours.mark_text(align="left", dx=9, fontWeight="bold").encode(text="label:N")
    ).properties(width=460)
