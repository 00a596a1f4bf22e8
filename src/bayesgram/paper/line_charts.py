"""Charts of result rows: one line for each method, labelled where it ends, with a band over seeds.

Colours and dashes belong to methods and are the same in every chart; dashed means chosen by an
oracle. Drawing functions take rows and return an Altair chart.
"""

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from statistics import median
from typing import Any

from bayesgram.charts import spread_out
from bayesgram.paper.harness import Method, ResultRow

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
LINE_NOTE = (
    "Line: median over seeds; band: smallest to largest."
    " Dashed, *: chosen by looking at private data."
)
HEIGHT = 380  # of a panel, in pixels
LABEL_HEIGHT = 15


@dataclass(frozen=True)
class Axis:
    """The horizontal axis."""

    name: str  # of the row's field
    title: str
    format: str = "~g"  # of d3


@dataclass(frozen=True)
class LinePoint:
    """One point of a line."""

    method: str
    x: float
    value: float
    low: float
    high: float


def line_points(rows: Sequence[ResultRow], axis: str) -> list[LinePoint]:
    """Return median, smallest and largest over seeds, for each method and position."""
    groups: dict[tuple[Method, float], list[ResultRow]] = {}
    for row in rows:
        groups.setdefault((row.method, getattr(row, axis)), []).append(row)
    return [_line_point(method, position, group) for (method, position), group in groups.items()]


def _line_point(method: Method, position: float, rows: Sequence[ResultRow]) -> LinePoint:
    lows = [row.value if row.low is None else row.low for row in rows]
    highs = [row.value if row.high is None else row.high for row in rows]
    return LinePoint(
        method.value, position, median(row.value for row in rows), min(lows), max(highs)
    )


def log_domain(rows: Sequence[ResultRow]) -> tuple[float, float]:
    """Return a little more than the values need, on a log scale.

    Algorithm 2 may leave it at the top, by far.
    """
    values = [row.value for row in rows if row.method != Method.PAPER_TUNED]
    margin = (max(values) / min(values)) ** 0.05
    return min(values) / margin, max(values) * margin * 1.2


def log_ticks(low: float, high: float) -> list[float]:
    """Return 1, 2, 5, 10, … or, over a wide range, 1, 10, 100, …

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

    rows: Sequence[ResultRow]
    axis: Axis
    y_title: str
    domain: tuple[float, float] | None = None
    log: bool = True
    width: int = 430

    def draw(self) -> Any:  # noqa: ANN401 - Altair's charts share no useful base
        """Draw bands, lines, points and labels."""
        import altair as alt  # noqa: PLC0415 - 0.5 s

        points = line_points(self.rows, self.axis.name)
        inside = [point for point in points if self._span[0] <= point.value <= self._span[1]]
        base, seen, names = (
            alt.Chart(alt.InlineData(values=values)).encode(x=self._x(points))
            for values in (
                [asdict(p) for p in points],
                [asdict(p) for p in inside],
                self._labels(points),
            )
        )
        colour, dash = method_scales()
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

    def _x(self, points: Sequence[LinePoint]) -> Any:  # noqa: ANN401
        import altair as alt  # noqa: PLC0415

        ticks = sorted({point.x for point in points})
        tick_axis = alt.Axis(
            values=ticks, format=self.axis.format, labelOverlap="greedy", grid=False
        )
        return alt.X(
            "x:Q", title=self.axis.title, scale=alt.Scale(type="log", nice=False), axis=tick_axis
        )

    def _y(self, field: str) -> Any:  # noqa: ANN401
        import altair as alt  # noqa: PLC0415

        scale = alt.Scale(type="log" if self.log else "linear", domain=list(self._span), nice=False)
        ticks = log_ticks(*self._span) if self.log else None
        axis = alt.Axis(
            gridOpacity=0.5, format="~g", **({"values": ticks} if ticks else {"tickCount": 6})
        )
        return alt.Y(f"{field}:Q", title=self.y_title, scale=scale, axis=axis)

    def _labels(self, points: Sequence[LinePoint]) -> list[dict[str, Any]]:
        """Return each method's name at the end of its line, moved where two would overlap."""
        last = {point.method: point for point in sorted(points, key=lambda point: point.x)}
        right = max(point.x for point in points)
        ends = sorted(last.values(), key=lambda point: point.value)
        places = spread_out([self._pixel(point.value) for point in ends], LABEL_HEIGHT, HEIGHT)
        outside = [
            f" ↑ {format_value(point.value)}" if point.value > self._span[1] else ""
            for point in ends
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
        """Return the height of a value above the bottom."""
        low, high = (math.log(end) if self.log else end for end in self._span)
        return min(((math.log(value) if self.log else value) - low) / (high - low), 1.0) * HEIGHT

    def _value(self, pixel: float) -> float:
        low, high = (math.log(end) if self.log else end for end in self._span)
        place = low + pixel / HEIGHT * (high - low)
        return math.exp(place) if self.log else place


def method_scales() -> tuple[Any, Any]:
    """Return the colour and the dash of each method, the same in every chart."""
    import altair as alt  # noqa: PLC0415

    methods = [method.value for method in Method]
    colours = alt.Scale(domain=methods, range=[COLOURS[method] for method in Method])
    dashes = alt.Scale(
        domain=methods, range=[[5, 3] if method.is_oracle else [1, 0] for method in Method]
    )
    return alt.Color("method:N", legend=None, scale=colours), alt.StrokeDash(
        "method:N", legend=None, scale=dashes
    )


def format_value(value: float) -> str:
    """Format with three digits, or more before the point.

    >>> format_value(0.13481), format_value(1502.37), format_value(5.27e19)
    ('0.135', '1,502', '5e19')
    """
    if value < 1_000:
        return f"{value:.3g}"
    return f"{value:,.0f}" if value < 1_000_000 else f"{value:.0e}".replace("e+", "e")


def add_title(chart: Any, title: str, *notes: str) -> Any:  # noqa: ANN401
    """Return the chart with its title, its setting and how to read it."""
    import altair as alt  # noqa: PLC0415

    subtitle = alt.Title(
        title, subtitle=list(notes), anchor="start", offset=12, subtitleColor="#555"
    )
    return (
        chart.properties(title=subtitle)
        .configure_view(stroke=None)
        .configure_axis(titleFontWeight="normal")
    )


def describe_users(setting: str, users: int) -> str:
    """Return the setting of a chart of some of the users."""
    return setting if f" {users:,} users" in setting else f"{setting}; here {users:,} of the users"


def side_by_side(*panels: Panel) -> Any:  # noqa: ANN401
    """Draw panels next to each other."""
    import altair as alt  # noqa: PLC0415

    return alt.hconcat(*(panel.draw() for panel in panels), spacing=24)


def draw_dots(rows: Sequence[ResultRow], *, x_title: str, published: dict[str, float]) -> Any:  # noqa: ANN401
    """Draw a table: one line for each method, with a dot on a log axis.

    Args:
        rows: Measured values.
        x_title: The title of the axis.
        published: The paper's own numbers, drawn as rings.
    """
    import altair as alt  # noqa: PLC0415

    points = sorted(line_points(rows, "vocabulary_size"), key=lambda point: point.value)
    in_scale = [point.value for point in points if point.method != Method.PAPER_TUNED.value]
    end = 3 * max(*in_scale, *published.values())
    values = [
        {
            "method": point.method,
            "value": min(point.value, end),
            "label": f"{'→ ' if point.value > end else ''}{format_value(point.value)}",
        }
        for point in points
    ]
    paper_values = [
        {"method": point.method, "value": published[point.method]}
        for point in points
        if point.method in published
    ]
    y = alt.Y(
        "method:N",
        sort=[point.method for point in points],
        title=None,
        axis=alt.Axis(labelLimit=300),
    )
    ticks = alt.Axis(grid=False, format="~g", values=log_ticks(min(in_scale) / 2, end))
    scale = alt.Scale(type="log", domain=[min(in_scale) / 1.3, end], nice=False)
    x = alt.X("value:Q", title=x_title, scale=scale, axis=ticks)
    ours = alt.Chart(alt.InlineData(values=values)).encode(x=x, y=y)
    rings = alt.Chart(alt.InlineData(values=paper_values)).encode(x=x, y=y)
    return (
        rings.mark_point(size=70, color="#999", strokeWidth=1.5)
        + rings.mark_text(align="left", dx=9, color="#888").encode(text="value:N")
        + ours.mark_point(filled=True, size=80, opacity=1).encode(color=method_scales()[0])
        + ours.mark_text(align="left", dx=9, fontWeight="bold").encode(text="label:N")
    ).properties(width=460)
