"""What changed, as a picture: ratios with their intervals, and over several releases a line for each n-gram.

In:  a `Comparison`.   Out: an Altair chart. Draws the surest changes; computes nothing.

Pictures of results. Draws what it is given; computes nothing.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from bayesgram.charts import COLOURS, DATA, FAINT, LINES, LOWERED
from bayesgram.comparison.comparison import Change, Comparison
from bayesgram.planning.plan import Plan
from bayesgram.releases.card_sections import SOURCE_WEIGHTS_DETAIL, NormBin, read_source_weights
from bayesgram.reports.views import ProbabilityChange

MOST_MARKS, MOST_LINES = 30, 8
WIDTH, ROW, HEIGHT, LETTER = 420, 18, 320, 8
RATIO, SHARE = (
    "times as often (95% interval)",
    "share of what people write (± 2 deviations; ▼: it goes on)",
)
TINY = 1e-12  # stands for a share of 0, which has no place on the axis


def draw_changes(found: Comparison) -> Any:  # noqa: ANN401 - Altair's charts share no useful base
    """Two releases: ratios. More: lines, with the ratios beside them."""
    import altair as alt  # noqa: PLC0415 - 0.5 s

    subtitle = [found.summary, *found.notes]
    title = alt.Title(
        _title(found), subtitle=subtitle, anchor="start", offset=12, subtitleColor="#555"
    )
    panels = [_ratios(found.changes[:MOST_MARKS])]
    if len(found.names) > 2 and found.changes:
        panels.insert(0, _lines(found))
    drawn = alt.hconcat(*panels, spacing=36, title=title).resolve_scale(color="independent")
    return drawn.configure_view(stroke=None).configure_axis(
        titleFontWeight="normal", labelLimit=260
    )


def _title(found: Comparison) -> str:
    if len(found.names) == 2:
        return f"What changed from {found.names[0]} to {found.names[1]}"
    return f"What changed over {len(found.names)} releases"


def _ratios(changes: Sequence[Change]) -> Any:  # noqa: ANN401
    """A row an n-gram: the ratio and where 95% of its posterior lie."""
    import altair as alt  # noqa: PLC0415

    rows = [
        {
            "ngram": change.ngram,
            "ratio": change.ratio,
            "low": change.low,
            "high": change.high,
            "rose": change.z >= 0,
        }
        for change in changes
    ]
    x = alt.X("ratio:Q", title=RATIO, scale=alt.Scale(type="log"))
    y = alt.Y("ngram:N", title=None, sort=[change.ngram for change in changes])
    colour = alt.Color(
        "rose:N", legend=None, scale=alt.Scale(domain=[True, False], range=[DATA, LOWERED])
    )
    base = alt.Chart(alt.InlineData(values=rows)).encode(y=y, color=colour)
    layers = [
        alt.Chart(alt.InlineData(values=[{"one": 1}]))
        .mark_rule(color="#8a8f98", strokeDash=[4, 3])
        .encode(x="one:Q"),
        base.mark_rule(strokeWidth=2).encode(x=alt.X("low:Q", title=RATIO), x2="high:Q"),
        base.mark_point(filled=True, size=52, opacity=1).encode(x=x),
    ]
    return alt.layer(*layers).properties(width=WIDTH, height=max(ROW * len(rows), 40))


def _lines(found: Comparison) -> Any:  # noqa: ANN401
    """A line for each of the surest changes, over the releases as they were given."""
    import altair as alt  # noqa: PLC0415

    shown = found.changed_rows[:MOST_LINES].tolist()
    rows = [
        {"ngram": found.ngrams[row].as_py(), "release": name, "share": max(share, TINY)}
        | {"low": max(low, share / 4, TINY), "high": high, "beyond": low < max(share / 4, TINY)}
        for row in shown
        for name, share, low, high in _shares(found, row)
    ]
    room = max(map(len, found.names)) * len(found.names) < WIDTH / LETTER
    x = alt.X(
        "release:N", title=None, sort=found.names, axis=alt.Axis(labelAngle=0 if room else -30)
    )
    y = alt.Y("share:Q", title=SHARE, scale=alt.Scale(type="log", nice=False, padding=14))
    names = [found.ngrams[row].as_py() for row in shown]
    colour = alt.Color(
        "ngram:N", title=None, sort=names, scale=alt.Scale(domain=names, range=list(LINES[: len(names)])),
        legend=alt.Legend(orient="bottom", columns=2, labelLimit=200, symbolOpacity=1, symbolSize=50),
    )  # fmt: skip
    base = alt.Chart(alt.InlineData(values=rows)).encode(x=x, color=colour)
    whiskers = base.mark_rule(opacity=0.5).encode(y=alt.Y("low:Q", title=SHARE), y2="high:Q")
    arrows = base.transform_filter("datum.beyond").mark_point(
        shape="triangle-down", filled=True, size=40
    )
    layers = [
        whiskers,
        arrows.encode(y=alt.Y("low:Q", title=SHARE)),
        base.mark_line(point=True).encode(y=y),
    ]
    return alt.layer(*layers).properties(width=WIDTH, height=HEIGHT)


def _shares(found: Comparison, row: int) -> list[tuple[str, float, float, float]]:
    """Name, share and its interval; a deviation that is not known is 0."""
    made = []
    for name, share, deviation in zip(
        found.names, found.shares[:, row], found.probability_std[:, row], strict=True
    ):
        reach = 2 * float(deviation) if deviation == deviation else 0.0  # noqa: PLR0124 - nan
        made.append((name, float(share), float(share) - reach, float(share) + reach))
    return made


MOST_FOUND = 15  # discovered n-grams of an order
BEYOND = 3.0  # times the largest finite KL: where an infinite one is drawn
ORACLE = "* S and ρ chosen by looking at the private text: flattered, and not publishable"


def comparison(rows: Sequence[dict[str, Any]], *, subtitle: str) -> Any:  # noqa: ANN401
    """KL of each release on a log axis, coloured by what its guarantee is worth, one panel for each ε.

    An infinite one stands at the right end, as an arrow.
    """
    import altair as alt  # noqa: PLC0415 - 0.5 s

    finite = [row["kl"] for row in rows if row["kl"] is not None]
    end, infinite = BEYOND * max(finite), len(finite) < len(rows)
    whole = alt.Scale(
        type="log", domain=[min(finite) / 1.3, 1.5 * end], nice=False
    )  # room for the dots at its ends
    values = [
        {
            **row,
            "panel": "no ε" if row["epsilon"] is None else f"ε = {row['epsilon']:g}",
            "public": rows[0]["kl"],
            "kl": end if row["kl"] is None else row["kl"],
            "label": _kl(row["kl"]),
            "infinite": row["kl"] is None,
        }
        for row in rows
    ]
    panels = list(dict.fromkeys(value["panel"] for value in values))
    chart = alt.Chart(alt.InlineData(values=values))
    base = chart.encode(
        x=alt.X(
            "kl:Q",
            title="KL(p || θ): distance to the private text (log scale; lower is better, dashed: public text alone)",
            scale=whole if infinite else alt.Scale(type="log"),
            axis=alt.Axis(grid=False),
        ),
        y=alt.Y("release:N", sort=None, title=None, axis=alt.Axis(labelLimit=300)),
    )
    colour = alt.Color(
        "guarantee:N",
        title=None,
        scale=alt.Scale(domain=list(COLOURS), range=list(COLOURS.values())),
    )
    shape = alt.Shape(
        "infinite:N",
        legend=None,
        scale=alt.Scale(domain=[False, True], range=["circle", "triangle-right"]),
    )
    dots = base.mark_point(filled=True, size=110, opacity=1).encode(color=colour, shape=shape)
    text = base.encode(text="label:N")
    behind = text.mark_text(
        align="left", dx=8, color="white", stroke="white", strokeWidth=4
    )  # no line runs through it
    labels = behind + text.mark_text(align="left", dx=8)
    public = chart.mark_rule(strokeDash=[4, 3], color="#999").encode(x="public:Q")
    return (
        (public + dots + labels)
        .properties(width=480)
        .facet(
            row=alt.Row(
                "panel:N",
                sort=panels,
                title=None,
                header=alt.Header(labelAngle=0, labelAlign="left"),
            )
        )
        .resolve_scale(y="independent")
        .properties(
            title=alt.Title(
                "How far each release is from the private text", subtitle=[subtitle, ORACLE]
            )
        )
        .configure_view(stroke=None)
    )


def _kl(value: float | None) -> str:
    """A label.

    >>> _kl(0.12345), _kl(76.5), _kl(None)
    ('0.123', '76', '∞')
    """
    if value is None:
        return "∞"
    return f"{value:.3f}" if value < 10 else f"{value:.0f}"


def norms(bins: Sequence[NormBin], *, subtitle: str) -> Any:  # noqa: ANN401
    """Users by the norm of their counts, and which of them are clipped."""
    import altair as alt  # noqa: PLC0415

    values = [
        {
            "norm": f"{found.low:.3g} – {found.high:.3g}",
            "users": max(found.users, 0),
            "part": "clipped" if found.clipped else "whole",
        }
        for found in bins
    ]
    return (
        alt.Chart(alt.InlineData(values=values))
        .mark_bar()
        .encode(
            x=alt.X("norm:N", sort=None, title="norm of a user's counts"),
            y=alt.Y("users:Q", title="users (noisy)"),
            color=alt.Color(
                "part:N",
                title=None,
                scale=alt.Scale(domain=["whole", "clipped"], range=[DATA, FAINT]),
            ),
        )
        .properties(
            width=480, height=240, title=alt.Title("How much users write", subtitle=subtitle)
        )
        .configure_view(stroke=None)
    )


def sources(weights: Mapping[str, Mapping[str, Mapping[str, float]]], *, subtitle: str) -> Any:  # noqa: ANN401
    """The weights of the public sources, with two standard deviations to each side."""
    import altair as alt  # noqa: PLC0415

    values = [
        {
            "source": each.name,
            "weight": each.weight,
            "low": each.interval[0],
            "high": each.interval[1],
            "label": each.percent_text,
        }
        for found in read_source_weights({SOURCE_WEIGHTS_DETAIL: weights}).values()
        for each in found
    ]
    base = alt.Chart(alt.InlineData(values=values)).encode(
        y=alt.Y("source:N", sort=None, title=None)
    )
    axis, scale = alt.Axis(format="%"), alt.Scale(domain=[0, 1])
    whole = base.mark_bar(color=DATA).encode(
        x=alt.X("weight:Q", title="weight", axis=axis, scale=scale)
    )
    doubt = base.mark_rule(color="#fff", strokeWidth=5).encode(x="low:Q", x2="high:Q")
    doubt += base.mark_rule(color="#222", strokeWidth=2).encode(x="low:Q", x2="high:Q")
    labels = base.mark_text(align="left", dx=8).encode(x="high:Q", text="label:N")
    title = alt.Title("Which public text people write like", subtitle=subtitle)
    return (whole + doubt + labels).properties(width=480, title=title).configure_view(stroke=None)


def moved(
    lifted: Sequence[ProbabilityChange], lowered: Sequence[ProbabilityChange], *, subtitle: str
) -> Any:  # noqa: ANN401
    """From public to released probability: one arrow an n-gram."""
    import altair as alt  # noqa: PLC0415

    values = [
        {"ngram": item.ngram, "before": item.before, "after": item.after, "way": way}
        for way, items in (("lifted by private text", lifted), ("lowered by private text", lowered))
        for item in items
    ]
    base = alt.Chart(alt.InlineData(values=values)).encode(
        y=alt.Y("ngram:N", sort=None, title=None, axis=alt.Axis(labelLimit=260))
    )
    scale = alt.Scale(type="log")
    lines = base.mark_rule(color="#b9bec6").encode(x=alt.X("before:Q", scale=scale), x2="after:Q")
    public = base.mark_point(filled=False, size=50, color="#555").encode(
        x=alt.X(
            "before:Q",
            scale=scale,
            title="probability (○ public, ● released)",
            axis=alt.Axis(format=".0e", values=[10.0**power for power in range(-9, 1)]),
        )
    )
    released = base.mark_point(filled=True, size=60, opacity=1).encode(
        x=alt.X("after:Q", scale=scale),
        color=alt.Color(
            "way:N",
            title=None,
            scale=alt.Scale(
                domain=["lifted by private text", "lowered by private text"], range=[DATA, LOWERED]
            ),
        ),
    )
    title = alt.Title("What private text changed", subtitle=subtitle)
    return (
        (lines + public + released).properties(width=480, title=title).configure_view(stroke=None)
    )


def found(
    ngrams: Sequence[tuple[str, int, float]],
    level: float,
    deviation: float,
    *,
    subtitle: str,
) -> Any:  # noqa: ANN401
    """Discovered n-grams (n-gram, order, noisy weight), the heaviest of each order, and how far they are above T."""
    import altair as alt  # noqa: PLC0415

    values: list[dict[str, Any]] = [
        {
            "ngram": ngram,
            "panel": _panel(order, ngrams),
            "times": weight / level,
            "low": max(weight - 2 * deviation, level / 2) / level,
            "high": (weight + 2 * deviation) / level,
            "beyond": weight - 2 * deviation < level / 2,
        }
        for order in sorted({order for _, order, _ in ngrams})
        for ngram, _, weight in [row for row in ngrams if row[1] == order][:MOST_FOUND]
    ]
    lows = [float(value["low"]) for value in values]
    chart = alt.Chart(alt.InlineData(values=values))
    base = chart.encode(y=alt.Y("ngram:N", sort=None, title=None, axis=alt.Axis(labelLimit=260)))
    scale, title = (
        alt.Scale(type="log", nice=False, domainMin=min(0.9, *lows)),
        "noisy weight over T (log scale; dashed: T; lines: two standard deviations; ◄: it goes on)",
    )
    axis = alt.Axis(values=[0.5, 1, 1.5, 2, 3, 5, 10, 20, 50, 100], format="~g", grid=False)
    doubt = base.mark_rule(color="#b9bec6").encode(
        x=alt.X("low:Q", scale=scale, title=title, axis=axis), x2="high:Q"
    )
    arrows = base.transform_filter("datum.beyond").mark_point(
        shape="triangle-left", filled=True, color="#8a8f98"
    )
    dots = base.mark_point(filled=True, size=60, opacity=1, color=COLOURS["PROVED"]).encode(
        x="times:Q"
    )
    threshold = chart.mark_rule(strokeDash=[4, 3], color="#999").encode(x=alt.datum(1))
    panels = list(dict.fromkeys(value["panel"] for value in values))
    header = alt.Header(labelAngle=0, labelAlign="left")
    return (
        (threshold + doubt + arrows.encode(x="low:Q") + dots)
        .properties(width=480)
        .facet(row=alt.Row("panel:N", sort=panels, title=None, header=header))
        .resolve_scale(y="independent")
        .properties(
            title=alt.Title("What many people write and public text lacks", subtitle=subtitle)
        )
        .configure_view(stroke=None)
    )


def planned(plan: Plan) -> Any:  # noqa: ANN401
    """Expected KL over ε, beside that of public text alone, and what would be known within a factor of 2."""
    import altair as alt  # noqa: PLC0415

    values = [
        {
            "epsilon": row.epsilon,
            "kl": row.kl,
            "low": row.kl_low,
            "high": row.kl_high,
            "known": row.known,
        }
        for row in plan.rows
    ]
    chart = alt.Chart(alt.InlineData(values=values)).properties(width=480, height=180)
    x = alt.X(
        "epsilon:Q",
        scale=alt.Scale(type="log"),
        title="ε: more is less private",
        axis=alt.Axis(grid=False),
    )
    named = (
        "expected KL (dashed: public text)"  # in all layers: where one has no title, none is drawn
    )
    y = alt.Y("kl:Q", scale=alt.Scale(type="log"), title=named)
    colour = COLOURS["PROVED"]
    spread = chart.mark_rule(color="#b9bec6", strokeWidth=3).encode(
        x=x, y=alt.Y("low:Q", title=named), y2="high:Q"
    )
    line = chart.mark_line(
        color=colour, point={"size": 60, "filled": True, "color": colour}
    ).encode(x=x)
    public = chart.mark_rule(strokeDash=[4, 3], color="#999").encode(
        y=alt.datum(plan.rows[0].public_kl)
    )
    share = alt.Y(
        "known:Q",
        title="known within a factor of 2",
        scale=alt.Scale(domain=[0, 1]),
        axis=alt.Axis(format="%"),
    )
    title = alt.Title(
        "What to expect of a release (simulated)",
        subtitle=[
            f"{plan.assumed.users:,.0f} made-up users",
            "Assumptions, not people: nothing private was read",
        ],
    )
    both = (spread + line.encode(y=y) + public) & line.encode(y=share)
    return both.properties(title=title).configure_view(stroke=None)


def _panel(order: int, ngrams: Sequence[tuple[str, int, float]]) -> str:
    """For example "order 2: 15 of 94"."""
    total = sum(each == order for _, each, _ in ngrams)
    return f"order {order}: {min(total, MOST_FOUND)} of {total:,}"
