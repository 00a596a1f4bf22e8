"""The picture of language models over ε: perplexity, first suggestions that are right, keystrokes saved.

Draws what it is given; computes nothing but places. A line is a family of models; a dotted line across is a model
that says no ε: public text, or a file that doesn't tell. Says on itself that it is not for publication.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import mean
from typing import Any

from bayesgram.audit.families import Family, Judged, families
from bayesgram.audit.utility import DISCLOSURE
from bayesgram.charts import spread_out
from bayesgram.errors import UsageError

WIDTH, HEIGHT = 270, 280
LABEL = 13  # the height of one, in pixels
ROOM = 0.3  # of the axis, left of the smallest ε: for the names of models without one
LINES = ["#1b7f5c", "#2f6fb0", "#c9760a", "#7a5aa6", "#b3475b", "#53a7d8", "#8c3b00", "#222222"]
GREY = "#6d737c"


@dataclass(frozen=True)
class Measure:
    """What a panel shows."""

    field: str
    title: str
    log: bool = False

    def of(self, judged: Judged) -> float:
        """Its value."""
        return float(getattr(judged.quality, self.field))


MEASURES = (
    Measure("perplexity", "perplexity (lower is better)", log=True),
    Measure("accuracy_1", "first suggestion right"),
    Measure("keystrokes_saved", "keystrokes saved"),
)


def over_epsilon(judged: Sequence[Judged], *, same_words: bool) -> Any:  # noqa: ANN401 - Altair's charts share no base
    """Three panels side by side."""
    import altair as alt  # noqa: PLC0415 - 0.5 s

    found = families(judged)
    if not found:
        raise UsageError("--plot: none of these models says an ε; give a release, or a model folder made of one.")
    unknown = sorted({f"{each.quality.out_of_vocabulary:.1%}" for each in judged})
    notes = [
        f"Words that a model lacks: {unknown[0]}."
        if same_words
        else f"Words that a model lacks: {' to '.join([unknown[0], unknown[-1]])}; perplexities of models that know"
        " other words don't compare.",
        "Dashed: an ε that is not PROVED; rings: one that protects little. Dotted: models that say no ε.",
        DISCLOSURE[:1].upper() + DISCLOSURE[1:] + ".",
    ]
    panels = [_panel(measure, judged, found) for measure in MEASURES]
    title = alt.Title(
        "Language models on held-out text", subtitle=notes, anchor="start", offset=12, subtitleColor="#555"
    )
    return (
        alt.hconcat(*panels, spacing=28, title=title)
        .configure_view(stroke=None)
        .configure_axis(titleFontWeight="normal")
        .configure_legend(orient="bottom", direction="vertical", labelLimit=420, title=None)
    )


def _panel(measure: Measure, judged: Sequence[Judged], found: Sequence[Family]) -> Any:  # noqa: ANN401
    import altair as alt  # noqa: PLC0415

    low, high = _domain([measure.of(each) for each in judged], log=measure.log)
    epsilons = sorted({each.claim.epsilon for family in found for each in family.members if each.claim.epsilon})
    left, right = _ends(epsilons)
    y = alt.Y(
        "value:Q",
        title=measure.title,
        scale=alt.Scale(type="log" if measure.log else "linear", domain=[low, high], nice=False),
        axis=alt.Axis(format="~g" if measure.log else ".3~p", tickCount=6, gridOpacity=0.5),
    )
    x = alt.X(
        "epsilon:Q",
        title="ε",
        scale=alt.Scale(type="log", domain=[left, right], nice=False),
        axis=alt.Axis(values=epsilons, format="~g", labelOverlap="greedy", grid=False),
    )
    colours = [LINES[at % len(LINES)] for at in range(len(found))]
    scale = alt.Scale(domain=[family.label for family in found], range=colours)
    colour = alt.Color("line:N", scale=scale)
    lines = alt.Chart(alt.InlineData(values=_means(measure, found))).encode(x=x, y=y, color=colour)
    dots = alt.Chart(alt.InlineData(values=_points(measure, found))).encode(x=x, y=y, color=colour)
    layers = [
        lines.transform_filter(alt.datum.proved == proved).mark_line(strokeWidth=2, strokeDash=dash)
        for proved, dash in ((True, [1, 0]), (False, [5, 3]))
    ]
    layers += [
        dots.transform_filter(alt.datum.graded == graded).mark_point(filled=True, size=46, opacity=1, **hollow)
        for graded, hollow in ((False, {}), (True, {"fill": "white", "strokeWidth": 1.8}))
    ]
    return alt.layer(*_across(measure, judged, (low, high), left, y), *layers).properties(width=WIDTH, height=HEIGHT)


def _across(
    measure: Measure,
    judged: Sequence[Judged],
    domain: tuple[float, float],
    left: float,
    y: Any,  # noqa: ANN401
) -> list[Any]:
    """Models without ε: a dotted line each, with the name above its left end, moved where two would overlap."""
    import altair as alt  # noqa: PLC0415

    without = sorted((each for each in judged if each.claim.epsilon is None), key=measure.of)
    if not without:
        return []
    low, high = (math.log(end) if measure.log else end for end in domain)
    heights = [
        ((math.log(measure.of(each)) if measure.log else measure.of(each)) - low) / (high - low) for each in without
    ]
    places = spread_out([height * HEIGHT + LABEL * 0.6 for height in heights], LABEL, HEIGHT)
    at = [low + place / HEIGHT * (high - low) for place in places]
    names = [
        {"text": each.name, "epsilon": left, "value": math.exp(place) if measure.log else place}
        for each, place in zip(without, at, strict=True)
    ]
    values = [{"value": measure.of(each), "name": each.name} for each in without]
    rules = alt.Chart(alt.InlineData(values=values)).mark_rule(strokeDash=[2, 3], color=GREY).encode(y=y)
    texts = alt.Chart(alt.InlineData(values=names)).mark_text(align="left", dx=3, color=GREY, fontSize=10.5)
    return [rules, texts.encode(x="epsilon:Q", y=y, text="text:N")]


def _points(measure: Measure, found: Sequence[Family]) -> list[dict[str, Any]]:
    """Every model."""
    return [
        {
            "line": family.label,
            "epsilon": each.claim.epsilon,
            "value": measure.of(each),
            "graded": bool(each.claim.grade),
        }
        for family in found
        for each in family.members
    ]


def _means(measure: Measure, found: Sequence[Family]) -> list[dict[str, Any]]:
    """What a line goes through: of several models of one family and ε, the mean."""
    values = []
    for family in found:
        proved = family.guarantee == "PROVED"
        for epsilon in dict.fromkeys(each.claim.epsilon for each in family.members):
            value = mean(measure.of(each) for each in family.members if each.claim.epsilon == epsilon)
            values.append({"line": family.label, "epsilon": epsilon, "value": value, "proved": proved})
    return values


def _domain(values: Sequence[float], *, log: bool) -> tuple[float, float]:
    """A little more than the values need, and room for a name above the highest."""
    low, high = (math.log(end) if log else end for end in (min(values), max(values)))
    margin = max(high - low, 0.02 if log else 0.002) * 0.08
    ends = low - margin, high + 1.6 * margin
    return (math.exp(ends[0]), math.exp(ends[1])) if log else ends


def _ends(epsilons: Sequence[float]) -> tuple[float, float]:
    """The ends of the axis of ε: room at the left for names, a little at the right."""
    low, high = math.log(min(epsilons)), math.log(max(epsilons))
    width = max(high - low, 1.0)
    return math.exp(low - ROOM * width), math.exp(high + 0.06 * width)
