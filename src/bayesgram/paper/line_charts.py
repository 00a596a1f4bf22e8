"""Pictures of rows: one line a mechanism, labelled where it ends, with its range over seeds as a band.

Colours and dashes belong to mechanisms and are the same in every picture; dashed means chosen by an oracle.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import median

from bayesgram import charts
from bayesgram.charts import Drawing, Series, format_number, log_ticks
from bayesgram.paper.harness import Method, Row

COLOURS = {
    Method.POSTERIOR: "PROVED",
    Method.PAPER_TUNED: "EMPIRICAL",
    Method.PAPER_BEST: "EMPIRICAL",
    Method.PAPER_RANGE: "rust",
    Method.COROLLARY: "EMPIRICAL",
    Method.AS_PRINTED: "rust",
    Method.LAPLACE: "red",
    Method.LAPLACE_BEST: "red",
    Method.LAPLACE_PUBLIC: "purple",
    Method.LAPLACE_PUBLIC_BEST: "purple",
    Method.PUBLIC: "NONE",
    Method.K_ADD_ONE: "blue",
    Method.K_PUBLIC: "sky",
    Method.PRIVATE: "ink",
}
ORACLE = "Line: median over seeds; band: smallest to largest. Dashed, *: chosen by looking at private data."
HEIGHT = 380  # pixels, of a panel between its axes


@dataclass(frozen=True)
class PanelAxis:
    """The horizontal axis of a panel."""

    name: str  # of the row's field
    title: str
    format_tick: Callable[[float], str] = format_number


@dataclass(frozen=True)
class LinePoint:
    """One point of a line."""

    method: str
    x: float
    value: float
    low: float
    high: float


def marks(rows: Sequence[Row], axis: str) -> list[LinePoint]:
    """Median, smallest and largest over seeds, for each mechanism and place."""
    groups: dict[tuple[Method, float], list[Row]] = {}
    for row in rows:
        groups.setdefault((row.method, getattr(row, axis)), []).append(row)
    return [_mark(method, place, found) for (method, place), found in groups.items()]


def _mark(method: Method, place: float, rows: Sequence[Row]) -> LinePoint:
    lows = [row.value if row.low is None else row.low for row in rows]
    highs = [row.value if row.high is None else row.high for row in rows]
    return LinePoint(method.value, place, median(row.value for row in rows), min(lows), max(highs))


def log_domain(rows: Sequence[Row]) -> tuple[float, float]:
    """A little more than the values need, on a log scale; Algorithm 2 may leave it at the top, by far."""
    values = [row.value for row in rows if row.method != Method.PAPER_TUNED]
    margin = (max(values) / min(values)) ** 0.05
    return min(values) / margin, max(values) * margin * 1.2


@dataclass(frozen=True)
class Panel:
    """One set of axes."""

    rows: Sequence[Row]
    axis: PanelAxis
    y_title: str
    domain: tuple[float, float] | None = None
    log: bool = True
    width: int = 430  # pixels between the axes
    extra: Sequence[Series] = ()  # lines without names

    def draw(self) -> Drawing:
        """Draw bands, lines and points; each mechanism's name is at the end of its line."""
        points = marks(self.rows, self.axis.name)
        low, high = self.domain or log_domain(self.rows)
        if self.log:
            ticks = log_ticks(low, high, most=7)
            y_axis = charts.Axis.log([low, high], self.y_title, margin=1, ticks=ticks)
        else:
            y_axis = charts.Axis.linear(low, high, self.y_title)
        places = sorted({point.x for point in points})
        x_axis = charts.Axis.log(
            places, self.axis.title, margin=1, ticks=places, format_tick=self.axis.format_tick
        )
        series = method_lines(points)
        names = max(charts.text_width(line.name) for line in series)
        return charts.plot_xy(
            [*series, *self.extra],
            x_axis,
            y_axis,
            label=self.y_title,
            width=self.width + names + 60,
            height=HEIGHT,
            labels="ends",
        )


def method_lines(points: Sequence[LinePoint]) -> list[Series]:
    """Return a line for each mechanism, in the colour and dash that it has in every picture."""
    lines = []
    for method in Method:
        ordered = sorted((p for p in points if p.method == method.value), key=lambda p: p.x)
        if not ordered:
            continue
        lines.append(
            Series(
                [point.x for point in ordered],
                [point.value for point in ordered],
                method.value,
                COLOURS[method],
                "dashed" if method.oracle else "line",
                intervals=[(point.low, point.high) for point in ordered],
                has_band=True,
                descriptions=[
                    f"{method.value}, {point.x:g}: {shown(point.value)}" for point in ordered
                ],
            )
        )
    return lines


def shown(value: float) -> str:
    """Three digits, or more before the point.

    >>> shown(0.13481), shown(1502.37), shown(5.27e19)
    ('0.135', '1,502', '5e19')
    """
    if value < 1_000:
        return f"{value:.3g}"
    return f"{value:,.0f}" if value < 1_000_000 else f"{value:.0e}".replace("e+", "e")


def titled(chart: Drawing, title: str, *notes: str) -> Drawing:
    """Return the chart with its title, its setting and how to read it."""
    return charts.add_title(chart, title, notes)


def of_users(setting: str, users: int) -> str:
    """The setting of a picture of some of the users."""
    return setting if f" {users:,} users" in setting else f"{setting}; here {users:,} of the users"


def _dot_label(point: LinePoint, end: float, published: float | None) -> str:
    beyond = "> " if point.value > end else ""
    paper = "" if published is None else f" (paper: {published:g})"
    return f"{beyond}{shown(point.value)}{paper}"


def side_by_side(*panels: Panel) -> Drawing:
    """Draw panels next to each other."""
    return charts.side_by_side([panel.draw() for panel in panels])


def dots(rows: Sequence[Row], *, x_title: str, beside: dict[str, float]) -> Drawing:
    """Draw one line a mechanism, a dot on a log axis: for tables.

    Args:
        rows: The results.
        x_title: What was measured.
        beside: The paper's numbers, by mechanism, as open dots.
    """
    points = sorted(marks(rows, "vocabulary_size"), key=lambda point: point.value)
    usual = [point.value for point in points if point.method != Method.PAPER_TUNED.value]
    end = 3 * max(*usual, *beside.values())
    table = [
        charts.Row(
            point.method,
            min(point.value, end),
            COLOURS[Method(point.method)],
            before=beside.get(point.method),
            text=_dot_label(point, end, beside.get(point.method)),
        )
        for point in points
    ]
    low = min(*usual, *beside.values())
    axis = charts.Axis.log([low / 1.3, end], x_title, margin=1)
    return charts.plot_rows({"": table}, axis, label=x_title, names_width=260, text_room=120)
