"""The chart of language models over ε: perplexity, right suggestions, keystrokes saved.

Draws what it is given and computes nothing but places. The chart says on itself that it is not for
publication.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from statistics import mean
from typing import Literal

from bayesgram.audit.evaluation import DISCLOSURE
from bayesgram.audit.text_evaluation import EvaluatedModel, ModelFamily, group_families
from bayesgram.charts import (
    SERIES,
    Axis,
    Drawing,
    Key,
    Reference,
    Series,
    add_title,
    legend,
    linear_ticks,
    log_ticks,
    plot_xy,
    side_by_side,
    stack,
)
from bayesgram.errors import Argument, UsageError

# Chosen by eye.
PANEL_WIDTH = 330.0  # pixels
PANEL_HEIGHT = 280.0  # pixels
# Share of the axis left of the smallest ε, for the names of models without one.
NAME_ROOM = 0.3


@dataclass(frozen=True)
class ChartMeasure:
    """A measure of quality that has a panel of its own: its name, title and axis."""

    field: str  # of `TextQuality`
    title: str
    log: bool = False  # whether the axis is logarithmic
    text: int | None = None  # the number of one text; None: all together

    def value(self, model: EvaluatedModel) -> float:
        """Return the measured value of a model."""
        quality = model.quality if self.text is None else model.quality.by_text[self.text]
        return float(getattr(quality, self.field))

    def axis(self, models: Sequence[EvaluatedModel]) -> Axis:
        """Return an axis that holds a little more than the values, with room for a name."""
        values = [self.value(model) for model in models]
        scaled = [math.log(value) for value in values] if self.log else values
        margin = max(max(scaled) - min(scaled), 0.02 if self.log else 0.002) * 0.08
        low = min(scaled) - margin
        high = max(scaled) + 1.6 * margin
        if not self.log:
            return Axis.linear(low, high, self.title, format_tick=_format_share)
        ends = [math.exp(low), math.exp(high)]
        ticks = log_ticks(ends[0], ends[1])
        if len(ticks) < 3:  # a narrow range
            ticks = linear_ticks(ends[0], ends[1])
        return Axis.log(ends, self.title, margin=1, ticks=ticks)


def _format_share(share: float) -> str:
    return f"{100 * share:.3g}%"


MEASURES = (
    ChartMeasure("perplexity", "perplexity (lower is better)", log=True),
    ChartMeasure("accuracy_1", "first suggestion right"),
    ChartMeasure("keystrokes_saved", "keystrokes saved"),
)


def draw_quality_over_epsilon(models: Sequence[EvaluatedModel], *, same_words: bool) -> Drawing:
    """Draw three panels side by side: perplexity, first suggestions right, keystrokes saved.

    Args:
        models: A line is a family of models; a dotted line across is a model that claims no ε.
        same_words: Whether all models know the same words, so that perplexities compare.

    Returns:
        A drawing with a row of panels for each text.
    """
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
    rows = []
    for text, part in enumerate(models[0].quality.by_text):
        measures = [replace(measure, text=text) for measure in MEASURES]
        row = side_by_side([_panel(measure, models, families) for measure in measures])
        rows.append(add_title(row, part.name) if part.name else row)
    panels = stack(rows, 28)
    keys = [
        Key(family.label, SERIES[nth % len(SERIES)], _look(family))
        for nth, family in enumerate(families)
    ]
    drawing = stack([panels, legend(keys, panels.width)])
    return add_title(drawing, "Language models on held-out text", notes)


def _words_note(models: Sequence[EvaluatedModel], *, same_words: bool) -> str:
    """Say how many words are unknown, and whether perplexities compare."""
    unknown = sorted(model.quality.out_of_vocabulary for model in models)
    if same_words:
        return f"All models know the same words, and lack {unknown[0]:.1%} of those of the text."
    return (
        f"The models don't know the same words, and lack {unknown[0]:.1%} to {unknown[-1]:.1%}"
        " of those of the text: their perplexities don't compare."
    )


def _legend_note(models: Sequence[EvaluatedModel]) -> str:
    """Say what the lines and points mean, those that there are."""
    claims = [model.claim for model in models]
    meanings = {
        "Dotted: models that say no ε.": any(claim.epsilon is None for claim in claims),
        "Dashed: an ε that is not PROVED.": any(
            claim.guarantee not in ("", "PROVED") for claim in claims
        ),
        "Rings: an ε that protects little.": any(claim.grade for claim in claims),
    }
    return " ".join(meaning for meaning, is_needed in meanings.items() if is_needed)


def _look(family: ModelFamily) -> Literal["line", "dashed"]:
    return "line" if family.guarantee == "PROVED" else "dashed"


def _panel(
    measure: ChartMeasure, models: Sequence[EvaluatedModel], families: Sequence[ModelFamily]
) -> Drawing:
    """Draw one measure over ε; models without ε are dotted lines across, with their names."""
    epsilons = sorted({_epsilon(member) for family in families for member in family.members})
    series: list[Series] = []
    for nth, family in enumerate(families):
        colour = SERIES[nth % len(SERIES)]
        series.append(_mean_line(measure, family, colour))
        series += [
            Series(
                [_epsilon(member)],
                [measure.value(member)],
                colour=colour,
                look="none",
                dots="ring" if member.claim.grade else "dot",
                descriptions=[f"{member.name}: {measure.value(member):.4g}"],
            )
            for member in family.members
        ]
    without = [model for model in models if model.claim.epsilon is None]
    return plot_xy(
        series,
        Axis.log(_epsilon_axis_ends(epsilons), "ε", margin=1, ticks=epsilons),
        measure.axis(models),
        label=measure.title,
        width=PANEL_WIDTH,
        height=PANEL_HEIGHT,
        references=[
            Reference(measure.value(model), model.name, "start", "dotted") for model in without
        ],
    )


def _epsilon(model: EvaluatedModel) -> float:
    return model.claim.epsilon or 0.0


def _mean_line(measure: ChartMeasure, family: ModelFamily, colour: str) -> Series:
    """Return the line of a family; of several models with one ε it goes through the mean."""
    values: dict[float, list[float]] = {}
    for member in family.members:
        values.setdefault(_epsilon(member), []).append(measure.value(member))
    means = [mean(group) for group in values.values()]
    return Series(list(values), means, family.label, colour, _look(family), dots="none")


def _epsilon_axis_ends(epsilons: Sequence[float]) -> list[float]:
    """Return the ends of the axis of ε: room at the left for names, a little at the right."""
    low = math.log(min(epsilons))
    high = math.log(max(epsilons))
    width = max(high - low, 1.0)
    return [math.exp(low - NAME_ROOM * width), math.exp(high + 0.06 * width)]
