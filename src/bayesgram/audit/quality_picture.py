"""The picture of language models over ε: perplexity, first suggestions that are right, keystrokes saved.

Draws what it is given; computes nothing but places. A line is a family of models; a dotted line across is a model
that says no ε: public text, or a file that doesn't tell. Says on itself that it is not for publication.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from statistics import mean
from typing import Any

from bayesgram.audit.families import EvaluatedModel, Family, families
from bayesgram.audit.utility import DISCLOSURE
from bayesgram.charts import LINES, spread_out
from bayesgram.errors import UsageError

WIDTH, HEIGHT = 270, 280
LABEL = 13  # the height of one, in pixels
ROOM = 0.3  # of the axis, left of the smallest ε: for the names of models without one
GREY = "#6d737c"


@dataclass(frozen=True)
class Measure:
    """What a panel shows."""

    field: str
    title: str
    log: bool = False
    text: int | None = None  # of one of the texts, or of all together

    def of(self, judged: EvaluatedModel) -> float:
        """Its value."""
        found = judged.quality if self.text is None else judged.quality.by_text[self.text]
        return float(getattr(found, self.field))

    def scaled(self, value: float) -> float:
        """A value as its axis has it."""
        return math.log(value) if self.log else value

    def unscaled(self, place: float) -> float:
        """The value at a place of its axis."""
        return math.exp(place) if self.log else place

    def domain(self, judged: Sequence[EvaluatedModel]) -> list[float]:
        """A little more than the values need, and room for a name above the highest."""
        scaled = [self.scaled(self.of(each)) for each in judged]
        margin = max(max(scaled) - min(scaled), 0.02 if self.log else 0.002) * 0.08
        return [self.unscaled(end) for end in (min(scaled) - margin, max(scaled) + 1.6 * margin)]


MEASURES = (
    Measure("perplexity", "perplexity (lower is better)", log=True),
    Measure("accuracy_1", "first suggestion right"),
    Measure("keystrokes_saved", "keystrokes saved"),
)


def over_epsilon(judged: Sequence[EvaluatedModel], *, same_words: bool) -> Any:  # noqa: ANN401 - Altair's charts share no base
    """Three panels side by side; of several texts, a row for each."""
    import altair as alt  # noqa: PLC0415 - 0.5 s

    found = families(judged)
    if not found:
        raise UsageError("`plot`: none of these models says an ε; give a release, or a model folder made of one.")
    notes = [_of_words(judged, same_words=same_words), _key(judged), f"{DISCLOSURE[:1].upper()}{DISCLOSURE[1:]}."]
    texts = [part.name for part in judged[0].quality.by_text]
    drawn = [
        _row(judged, found, [replace(measure, text=at) for measure in MEASURES], name) for at, name in enumerate(texts)
    ]
    subtitle = [note for note in notes if note]
    title = alt.Title(
        "Language models on held-out text", subtitle=subtitle, anchor="start", offset=12, subtitleColor="#555"
    )
    return (
        alt.vconcat(*drawn, spacing=28, title=title)
        .configure_view(stroke=None)
        .configure_axis(titleFontWeight="normal")
        .configure_legend(orient="bottom", direction="vertical", labelLimit=420, title=None)
    )


def _row(judged: Sequence[EvaluatedModel], found: Sequence[Family], measures: Sequence[Measure], name: str) -> Any:  # noqa: ANN401
    import altair as alt  # noqa: PLC0415

    panels = alt.hconcat(*(_panel(measure, judged, found) for measure in measures), spacing=28)
    return panels.properties(title=alt.Title(name, anchor="start", fontSize=12)) if name else panels


def _of_words(judged: Sequence[EvaluatedModel], *, same_words: bool) -> str:
    """How many words are unknown, and whether perplexities compare."""
    unknown = sorted(each.quality.out_of_vocabulary for each in judged)
    if same_words:
        return f"All models know the same words, and lack {unknown[0]:.1%} of those of the text."
    return (
        f"The models don't know the same words, and lack {unknown[0]:.1%} to {unknown[-1]:.1%} of those of the text:"
        " their perplexities don't compare."
    )


def _key(judged: Sequence[EvaluatedModel]) -> str:
    """What the lines and points mean, those that there are."""
    claims = [each.claim for each in judged]
    meanings = {
        "Dotted: models that say no ε.": any(claim.epsilon is None for claim in claims),
        "Dashed: an ε that is not PROVED.": any(claim.guarantee not in ("", "PROVED") for claim in claims),
        "Rings: an ε that protects little.": any(claim.grade for claim in claims),
    }
    return " ".join(meaning for meaning, there in meanings.items() if there)


def _panel(measure: Measure, judged: Sequence[EvaluatedModel], found: Sequence[Family]) -> Any:  # noqa: ANN401
    import altair as alt  # noqa: PLC0415

    domain = measure.domain(judged)
    scale = alt.Scale(type="log" if measure.log else "linear", domain=domain, nice=False)
    ticks = alt.Axis(format="~g" if measure.log else ".3~p", tickCount=6, gridOpacity=0.5)
    y = alt.Y("value:Q", title=measure.title, scale=scale, axis=ticks)
    epsilons = sorted({each.claim.epsilon for family in found for each in family.members if each.claim.epsilon})
    ends = _ends(epsilons)
    x = alt.X(
        "epsilon:Q",
        title="ε",
        scale=alt.Scale(type="log", domain=ends, nice=False),
        axis=alt.Axis(values=epsilons, format="~g", labelOverlap="greedy", grid=False),
    )
    colours = [LINES[at % len(LINES)] for at in range(len(found))]
    colour = alt.Color("line:N", scale=alt.Scale(domain=[family.label for family in found], range=colours))
    lines, dots = (
        alt.Chart(alt.InlineData(values=values)).encode(x=x, y=y, color=colour)
        for values in (_means(measure, found), _points(measure, found))
    )
    rules, names = _across(measure, judged, domain, ends[0], y)
    layers = [
        *rules,
        lines.transform_filter("datum.proved").mark_line(strokeWidth=2),
        lines.transform_filter("!datum.proved").mark_line(strokeWidth=2, strokeDash=[5, 3]),
        dots.transform_filter("!datum.graded").mark_point(filled=True, size=46, opacity=1),
        dots.transform_filter("datum.graded").mark_point(size=46, fill="white", strokeWidth=2, opacity=1),
        *names,  # last, so that no line runs through them
    ]
    return alt.layer(*layers).properties(width=WIDTH, height=HEIGHT)


def _across(
    measure: Measure,
    judged: Sequence[EvaluatedModel],
    domain: Sequence[float],
    left: float,
    y: Any,  # noqa: ANN401
) -> tuple[list[Any], list[Any]]:
    """Models without ε: a dotted line each, and the name above its left end, moved where two would overlap."""
    import altair as alt  # noqa: PLC0415

    without = sorted((each for each in judged if each.claim.epsilon is None), key=measure.of)
    low, high = map(measure.scaled, domain)
    heights = [(measure.scaled(measure.of(each)) - low) / (high - low) * HEIGHT for each in without]
    places = spread_out([height + LABEL * 0.6 for height in heights], LABEL, HEIGHT)
    named = [
        {"text": each.name, "value": measure.unscaled(low + place / HEIGHT * (high - low)), "epsilon": left}
        for each, place in zip(without, places, strict=True)
    ]
    if not without:
        return [], []
    values = [{"value": measure.of(each)} for each in without]
    rules = alt.Chart(alt.InlineData(values=values)).mark_rule(strokeDash=[2, 3], color=GREY).encode(y=y)
    names = alt.Chart(alt.InlineData(values=named)).encode(x="epsilon:Q", y=y, text="text:N")
    how: dict[str, Any] = {"align": "left", "dx": 3, "fontSize": 10.5}
    behind = names.mark_text(**how, color="white", stroke="white", strokeWidth=4)
    return [rules], [behind, names.mark_text(**how, color=GREY)]


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


def _ends(epsilons: Sequence[float]) -> list[float]:
    """The ends of the axis of ε: room at the left for names, a little at the right."""
    low, high = math.log(min(epsilons)), math.log(max(epsilons))
    width = max(high - low, 1.0)
    return [math.exp(low - ROOM * width), math.exp(high + 0.06 * width)]
