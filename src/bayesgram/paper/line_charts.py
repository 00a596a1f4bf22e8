"""Charts of result rows: one line for each method, labelled where it ends, with a band over seeds.

Colours and dashes belong to methods and are the same in every chart; dashed means chosen by an
oracle. Drawing functions take rows and return a `charts.Drawing`.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import median

from bayesgram import charts
from bayesgram.charts import Drawing, Series, format_number, log_ticks
from bayesgram.paper.harness import Method, ResultRow

# Green and orange are those of the labels PROVED and EMPIRICAL.
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
LINE_NOTE = (
    "Line: median over seeds; band: smallest to largest."
    " Dashed, *: chosen by looking at private data."
)
HEIGHT = 380  # of a panel, in pixels; chosen by eye


@dataclass(frozen=True)
class PanelAxis:
    """The horizontal axis of a panel."""

    name: str  # of the row's field
    title: str
    format_tick: Callable[[float], str] = format_number


@dataclass(frozen=True)
class LinePoint:
    """A point of a line: the median over seeds, between the smallest and the largest value."""

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


@dataclass(frozen=True)
class Panel:
    """One chart of lines with its axes; several of them may stand side by side."""

    rows: Sequence[ResultRow]
    axis: PanelAxis
    y_title: str
    domain: tuple[float, float] | None = None
    log: bool = True
    width: int = 430  # pixels between the axes
    extra: Sequence[Series] = ()  # lines without names

    def draw(self) -> Drawing:
        """Draw bands, lines and points; each method's name is at the end of its line."""
        points = line_points(self.rows, self.axis.name)
        low, high = self.domain or log_domain(self.rows)
        if self.log:
            ticks = log_ticks(low, high, most=7)
            y_axis = charts.Axis.log([low, high], self.y_title, margin=1, ticks=ticks)
        else:
            y_axis = charts.Axis.linear(low, high, self.y_title)
        positions = sorted({point.x for point in points})
        x_axis = charts.Axis.log(
            positions, self.axis.title, margin=1, ticks=positions, format_tick=self.axis.format_tick
        )
        series = _method_lines(points)
        names_width = max(charts.text_width(line.name) for line in series)
        return charts.plot_xy(
            [*series, *self.extra],
            x_axis,
            y_axis,
            label=self.y_title,
            width=self.width + names_width + 60,
            height=HEIGHT,
            labels="ends",
        )


def _method_lines(points: Sequence[LinePoint]) -> list[Series]:
    """Return a line for each method, in the colour and dash that it has in every chart."""
    lines = []
    for method in Method:
        ordered = sorted(
            (point for point in points if point.method == method.value), key=lambda point: point.x
        )
        if not ordered:
            continue
        lines.append(
            Series(
                [point.x for point in ordered],
                [point.value for point in ordered],
                method.value,
                COLOURS[method],
                "dashed" if method.is_oracle else "line",
                intervals=[(point.low, point.high) for point in ordered],
                has_band=True,
                descriptions=[
                    f"{method.value}, {point.x:g}: {format_value(point.value)}" for point in ordered
                ],
            )
        )
    return lines


def format_value(value: float) -> str:
    """Format with three digits, or more before the point.

    >>> format_value(0.13481), format_value(1502.37), format_value(5.27e19)
    ('0.135', '1,502', '5e19')
    """
    if value < 1_000:
        return f"{value:.3g}"
    return f"{value:,.0f}" if value < 1_000_000 else f"{value:.0e}".replace("e+", "e")


def add_title(chart: Drawing, title: str, *notes: str) -> Drawing:
    """Return the chart with its title, its setting and how to read it."""
    return charts.add_title(chart, title, notes)


def describe_users(setting: str, users: int) -> str:
    """Return the setting of a chart of some of the users."""
    return setting if f" {users:,} users" in setting else f"{setting}; here {users:,} of the users"


def side_by_side(*panels: Panel) -> Drawing:
    """Draw panels next to each other."""
    return charts.side_by_side([panel.draw() for panel in panels])


def draw_dots(rows: Sequence[ResultRow], *, x_title: str, published: dict[str, float]) -> Drawing:
    """Draw a table: one line for each method, with a dot on a log axis.

    Args:
        rows: Measured values.
        x_title: The title of the axis.
        published: The paper's own numbers, drawn as rings.
    """
    points = sorted(line_points(rows, "vocabulary_size"), key=lambda point: point.value)
    in_scale = [point.value for point in points if point.method != Method.PAPER_TUNED.value]
    end = 3 * max(*in_scale, *published.values())
    table = [
        charts.Row(
            point.method,
            min(point.value, end),
            COLOURS[Method(point.method)],
            before=published.get(point.method),
            text=_dot_label(point, end, published.get(point.method)),
        )
        for point in points
    ]
    low = min(*in_scale, *published.values())
    axis = charts.Axis.log([low / 1.3, end], x_title, margin=1)
    return charts.plot_rows({"": table}, axis, label=x_title, names_width=260, text_room=120)


def _dot_label(point: LinePoint, end: float, published: float | None) -> str:
    beyond = "> " if point.value > end else ""
    paper = "" if published is None else f" (paper: {published:g})"
    return f"{beyond}{format_value(point.value)}{paper}"
