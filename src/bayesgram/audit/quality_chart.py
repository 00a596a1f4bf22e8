"""The chart of language models over ε: perplexity, right suggestions, keystrokes saved.

Draws what it is given and computes nothing but places. The chart says on itself that it is not for
publication.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from statistics import mean
from typing import Any

from bayesgram.audit.evaluation import DISCLOSURE
from bayesgram.audit.text_evaluation import EvaluatedModel, ModelFamily, group_families
from bayesgram.charts import LINES, spread_out
from bayesgram.errors import Argument, UsageError

WIDTH = 270  # of a panel, in pixels
HEIGHT = 280
LABEL_HEIGHT = 13  # pixels
NAME_ROOM = 0.3  # of the axis, left of the smallest ε: for the names of models without one
GREY = "#6d737c"


@dataclass(frozen=True)
class ChartMeasure:
    """What a panel shows."""

    field: str
    title: str
    log: bool = False
    text: int | None = None  # of one of the texts, or of all together

    def value(self, model: EvaluatedModel) -> float:
        """Return the measured value of a model."""
        quality = model.quality if self.text is None else model.quality.by_text[self.text]
        return float(getattr(quality, self.field))

    def to_axis(self, value: float) -> float:
        """Return a value as its axis has it."""
        return math.log(value) if self.log else value

    def from_axis(self, place: float) -> float:
        """Return the value at a place of its axis."""
        return math.exp(place) if self.log else place

    def domain(self, models: Sequence[EvaluatedModel]) -> list[float]:
        """Return the ends of the axis: a little more than the values need, room for a name."""
        scaled = [self.to_axis(self.value(model)) for model in models]
        margin = max(max(scaled) - min(scaled), 0.02 if self.log else 0.002) * 0.08
        return [self.from_axis(end) for end in (min(scaled) - margin, max(scaled) + 1.6 * margin)]


MEASURES = (
    ChartMeasure("perplexity", "perplexity (lower is better)", log=True),
    ChartMeasure("accuracy_1", "first suggestion right"),
    ChartMeasure("keystrokes_saved", "keystrokes saved"),
)


def draw_quality_over_epsilon(models: Sequence[EvaluatedModel], *, same_words: bool) -> Any:  # noqa: ANN401 - an Altair chart
    """Draw three panels side by side: perplexity, first suggestions right, keystrokes saved.

    Args:
        models: A line is a family of models; a dotted line across is a model that claims no ε.
        same_words: Whether all models know the same words, so that perplexities compare.

    Returns:
        An Altair chart, with a row of panels for each text.
    """
    import altair as alt  # noqa: PLC0415 - 0.5 s

    families = group_families(models)
    if not families:
        raise UsageError(
            Argument("plot"),
            ": none of these models says an ε; give a release, or a model folder made of one.",
        )
    notes = [
        _words_note(models, same_words=same_words),
        _legend_note(models),
        f"{DISCLOSURE[:1].upper()}{DISCLOSURE[1:]}.",
    ]
    texts = [part.name for part in models[0].quality.by_text]
    drawn = [
        _row(models, families, [replace(measure, text=at) for measure in MEASURES], name)
        for at, name in enumerate(texts)
    ]
    subtitle = [note for note in notes if note]
    title = alt.Title(
        "Language models on held-out text",
        subtitle=subtitle,
        anchor="start",
        offset=12,
        subtitleColor="#555",
    )
    return (
        alt.vconcat(*drawn, spacing=28, title=title)
        .configure_view(stroke=None)
        .configure_axis(titleFontWeight="normal")
        .configure_legend(orient="bottom", direction="vertical", labelLimit=420, title=None)
    )


def _row(
    models: Sequence[EvaluatedModel],
    families: Sequence[ModelFamily],
    measures: Sequence[ChartMeasure],
    name: str,
) -> Any:  # noqa: ANN401
    import altair as alt  # noqa: PLC0415

    panels = alt.hconcat(*(_panel(measure, models, families) for measure in measures), spacing=28)
    return panels.properties(title=alt.Title(name, anchor="start", fontSize=12)) if name else panels


def _words_note(models: Sequence[EvaluatedModel], *, same_words: bool) -> str:
    """How many words are unknown, and whether perplexities compare."""
    unknown = sorted(model.quality.out_of_vocabulary for model in models)
    if same_words:
        return f"All models know the same words, and lack {unknown[0]:.1%} of those of the text."
    return (
        f"The models don't know the same words, and lack {unknown[0]:.1%} to {unknown[-1]:.1%}"
        " of those of the text: their perplexities don't compare."
    )


def _legend_note(models: Sequence[EvaluatedModel]) -> str:
    """What the lines and points mean, those that there are."""
    claims = [model.claim for model in models]
    meanings = {
        "Dotted: models that say no ε.": any(claim.epsilon is None for claim in claims),
        "Dashed: an ε that is not PROVED.": any(
            claim.guarantee not in ("", "PROVED") for claim in claims
        ),
        "Rings: an ε that protects little.": any(claim.grade for claim in claims),
    }
    return " ".join(meaning for meaning, there in meanings.items() if there)


def _panel(
    measure: ChartMeasure, models: Sequence[EvaluatedModel], families: Sequence[ModelFamily]
) -> Any:  # noqa: ANN401
    import altair as alt  # noqa: PLC0415

    domain = measure.domain(models)
    scale = alt.Scale(type="log" if measure.log else "linear", domain=domain, nice=False)
    ticks = alt.Axis(format="~g" if measure.log else ".3~p", tickCount=6, gridOpacity=0.5)
    y = alt.Y("value:Q", title=measure.title, scale=scale, axis=ticks)
    epsilons = sorted(
        {
            member.claim.epsilon
            for family in families
            for member in family.members
            if member.claim.epsilon
        }
    )
    ends = _epsilon_axis_ends(epsilons)
    x = alt.X(
        "epsilon:Q",
        title="ε",
        scale=alt.Scale(type="log", domain=ends, nice=False),
        axis=alt.Axis(values=epsilons, format="~g", labelOverlap="greedy", grid=False),
    )
    colours = [LINES[at % len(LINES)] for at in range(len(families))]
    colour = alt.Color(
        "line:N", scale=alt.Scale(domain=[family.label for family in families], range=colours)
    )
    lines, dots = (
        alt.Chart(alt.InlineData(values=values)).encode(x=x, y=y, color=colour)
        for values in (_means(measure, families), _points(measure, families))
    )
    rules, names = _lines_across(measure, models, domain, ends[0], y)
    layers = [
        *rules,
        lines.transform_filter("datum.proved").mark_line(strokeWidth=2),
        lines.transform_filter("!datum.proved").mark_line(strokeWidth=2, strokeDash=[5, 3]),
        dots.transform_filter("!datum.graded").mark_point(filled=True, size=46, opacity=1),
        dots.transform_filter("datum.graded").mark_point(
            size=46, fill="white", strokeWidth=2, opacity=1
        ),
        *names,  # last, so that no line runs through them
    ]
    return alt.layer(*layers).properties(width=WIDTH, height=HEIGHT)


def _lines_across(
    measure: ChartMeasure,
    models: Sequence[EvaluatedModel],
    domain: Sequence[float],
    left: float,
    y: Any,  # noqa: ANN401
) -> tuple[list[Any], list[Any]]:
    """Draw models without ε: a dotted line each, with its name above the left end.

    Names move where two would overlap.
    """
    import altair as alt  # noqa: PLC0415

    without = sorted((model for model in models if model.claim.epsilon is None), key=measure.value)
    low, high = map(measure.to_axis, domain)
    heights = [
        (measure.to_axis(measure.value(model)) - low) / (high - low) * HEIGHT for model in without
    ]
    places = spread_out([height + LABEL_HEIGHT * 0.6 for height in heights], LABEL_HEIGHT, HEIGHT)
    named = [
        {
            "text": model.name,
            "value": measure.from_axis(low + place / HEIGHT * (high - low)),
            "epsilon": left,
        }
        for model, place in zip(without, places, strict=True)
    ]
    if not without:
        return [], []
    values = [{"value": measure.value(model)} for model in without]
    rules = (
        alt.Chart(alt.InlineData(values=values))
        .mark_rule(strokeDash=[2, 3], color=GREY)
        .encode(y=y)
    )
    names = alt.Chart(alt.InlineData(values=named)).encode(x="epsilon:Q", y=y, text="text:N")
    how: dict[str, Any] = {"align": "left", "dx": 3, "fontSize": 10.5}
    behind = names.mark_text(**how, color="white", stroke="white", strokeWidth=4)
    return [rules], [behind, names.mark_text(**how, color=GREY)]


def _points(measure: ChartMeasure, families: Sequence[ModelFamily]) -> list[dict[str, Any]]:
    """Every model."""
    return [
        {
            "line": family.label,
            "epsilon": member.claim.epsilon,
            "value": measure.value(member),
            "graded": bool(member.claim.grade),
        }
        for family in families
        for member in family.members
    ]


def _means(measure: ChartMeasure, families: Sequence[ModelFamily]) -> list[dict[str, Any]]:
    """What a line goes through: of several models of one family and ε, the mean."""
    values = []
    for family in families:
        proved = family.guarantee == "PROVED"
        for epsilon in dict.fromkeys(member.claim.epsilon for member in family.members):
            value = mean(
                measure.value(member)
                for member in family.members
                if member.claim.epsilon == epsilon
            )
            values.append(
                {"line": family.label, "epsilon": epsilon, "value": value, "proved": proved}
            )
    return values


def _epsilon_axis_ends(epsilons: Sequence[float]) -> list[float]:
    """The ends of the axis of ε: room at the left for names, a little at the right."""
    low = math.log(min(epsilons))
    high = math.log(max(epsilons))
    width = max(high - low, 1.0)
    return [math.exp(low - NAME_ROOM * width), math.exp(high + 0.06 * width)]
