"""What changed, as a picture: ratios with their intervals, and over several releases a line for each n-gram.

In:  a `Comparison`.   Out: an Altair chart. Draws the surest changes; computes nothing.
"""

from collections.abc import Sequence
from typing import Any

from bayesgram.charts import DATA, LINES, LOWERED
from bayesgram.released.comparison import Change, Comparison

MOST_MARKS, MOST_LINES = 30, 8
WIDTH, ROW, HEIGHT, LETTER = 420, 18, 320, 8
RATIO, SHARE = "times as often (95% interval)", "share of what people write (± 2 deviations; ▼: it goes on)"
TINY = 1e-12  # stands for a share of 0, which has no place on the axis


def moved(found: Comparison) -> Any:  # noqa: ANN401 - Altair's charts share no useful base
    """Two releases: ratios. More: lines, with the ratios beside them."""
    import altair as alt  # noqa: PLC0415 - 0.5 s

    subtitle = [found.explained, *found.notes]
    title = alt.Title(_title(found), subtitle=subtitle, anchor="start", offset=12, subtitleColor="#555")
    panels = [_ratios(found.changes[:MOST_MARKS])]
    if len(found.names) > 2 and found.changes:
        panels.insert(0, _lines(found))
    drawn = alt.hconcat(*panels, spacing=36, title=title).resolve_scale(color="independent")
    return drawn.configure_view(stroke=None).configure_axis(titleFontWeight="normal", labelLimit=260)


def _title(found: Comparison) -> str:
    if len(found.names) == 2:
        return f"What changed from {found.names[0]} to {found.names[1]}"
    return f"What changed over {len(found.names)} releases"


def _ratios(changes: Sequence[Change]) -> Any:  # noqa: ANN401
    """A row an n-gram: the ratio and where 95% of its posterior lie."""
    import altair as alt  # noqa: PLC0415

    rows = [
        {"ngram": change.ngram, "ratio": change.ratio, "low": change.low, "high": change.high, "rose": change.z >= 0}
        for change in changes
    ]
    x = alt.X("ratio:Q", title=RATIO, scale=alt.Scale(type="log"))
    y = alt.Y("ngram:N", title=None, sort=[change.ngram for change in changes])
    colour = alt.Color("rose:N", legend=None, scale=alt.Scale(domain=[True, False], range=[DATA, LOWERED]))
    base = alt.Chart(alt.InlineData(values=rows)).encode(y=y, color=colour)
    layers = [
        alt.Chart(alt.InlineData(values=[{"one": 1}])).mark_rule(color="#8a8f98", strokeDash=[4, 3]).encode(x="one:Q"),
        base.mark_rule(strokeWidth=2).encode(x=alt.X("low:Q", title=RATIO), x2="high:Q"),
        base.mark_point(filled=True, size=52, opacity=1).encode(x=x),
    ]
    return alt.layer(*layers).properties(width=WIDTH, height=max(ROW * len(rows), 40))


def _lines(found: Comparison) -> Any:  # noqa: ANN401
    """A line for each of the surest changes, over the releases as they were given."""
    import altair as alt  # noqa: PLC0415

    shown = found.discovered[:MOST_LINES].tolist()
    rows = [
        {"ngram": found.ngrams[row].as_py(), "release": name, "share": max(share, TINY)}
        | {"low": max(low, share / 4, TINY), "high": high, "beyond": low < max(share / 4, TINY)}
        for row in shown
        for name, share, low, high in _shares(found, row)
    ]
    room = max(map(len, found.names)) * len(found.names) < WIDTH / LETTER
    x = alt.X("release:N", title=None, sort=found.names, axis=alt.Axis(labelAngle=0 if room else -30))
    y = alt.Y("share:Q", title=SHARE, scale=alt.Scale(type="log", nice=False, padding=14))
    names = [found.ngrams[row].as_py() for row in shown]
    colour = alt.Color(
        "ngram:N", title=None, sort=names, scale=alt.Scale(domain=names, range=list(LINES[: len(names)])),
        legend=alt.Legend(orient="bottom", columns=2, labelLimit=200, symbolOpacity=1, symbolSize=50),
    )  # fmt: skip
    base = alt.Chart(alt.InlineData(values=rows)).encode(x=x, color=colour)
    whiskers = base.mark_rule(opacity=0.5).encode(y=alt.Y("low:Q", title=SHARE), y2="high:Q")
    arrows = base.transform_filter("datum.beyond").mark_point(shape="triangle-down", filled=True, size=40)
    layers = [whiskers, arrows.encode(y=alt.Y("low:Q", title=SHARE)), base.mark_line(point=True).encode(y=y)]
    return alt.layer(*layers).properties(width=WIDTH, height=HEIGHT)


def _shares(found: Comparison, row: int) -> list[tuple[str, float, float, float]]:
    """Name, share and its interval; a deviation that is not known is 0."""
    made = []
    for name, share, deviation in zip(found.names, found.shares[:, row], found.deviations[:, row], strict=True):
        reach = 2 * float(deviation) if deviation == deviation else 0.0  # noqa: PLR0124 - nan
        made.append((name, float(share), float(share) - reach, float(share) + reach))
    return made
