"""The pictures of releases, discoveries, comparisons and plans, drawn with `bayesgram.charts`.

The same functions draw for the report, for the page of `bayesgram serve` and for files. They take
numbers that others computed, and choose axes, colours and words.

Green, orange and grey say what the ε of a release is worth (`charts.COLOURS`); all other numbers
are blue, and red where something fell.
"""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, Literal

import numpy as np
from markupsafe import Markup

from bayesgram.arrays import Bools
from bayesgram.charts import (
    DATA,
    LOWERED,
    SERIES,
    Axis,
    Bar,
    Drawing,
    Key,
    Reference,
    Row,
    Series,
    add_title,
    format_number,
    format_percent,
    format_probability,
    legend,
    plot_rows,
    plot_xy,
    stack,
    text_width,
    without_outliers,
)
from bayesgram.comparison.comparison import Comparison
from bayesgram.planning.plan import Plan
from bayesgram.releases.card_sections import (
    SOURCE_WEIGHTS_DETAIL,
    NormBin,
    SourceWeight,
    order_name,
    read_source_weights,
)
from bayesgram.releases.intervals import AccuracyShare

WIDTH = 720.0  # pixels, of pictures in a report and of most files
NO_AXIS = ()  # ticks of bars that have their values beside them
LABEL_KEYS = [
    Key("PROVED: ε is a guarantee", "PROVED", "dot"),
    Key("EMPIRICAL: ε is a claim", "EMPIRICAL", "dot"),
    Key("NONE: no guarantee", "NONE", "dot"),
]

# --- N-grams with their probability or weight ---


@dataclass(frozen=True)
class NgramMark:
    """An n-gram with a value, the value of public text, and an interval where it is known."""

    ngram: str
    value: float
    before: float | None = None
    interval: tuple[float, float] | None = None
    colour: str = DATA


def draw_probabilities(label: str, marks: Sequence[NgramMark]) -> Drawing:
    """Draw n-grams on a logarithmic axis: open dots are public text, full ones the release."""
    return _draw_ngrams(label, marks, format_probability, format_probability, "released")


def draw_weights(label: str, marks: Sequence[NgramMark], threshold: float) -> Drawing:
    """Draw discovered n-grams with their noisy weight; the threshold is a dashed line.

    Args:
        label: What the picture shows, for people who cannot see it.
        marks: The n-grams.
        threshold: T, the weight that all of them exceed.
    """
    return _draw_ngrams(
        label, marks, format_number, lambda value: f"{value:.1f}", "weight", threshold
    )


def _draw_ngrams(
    label: str,
    marks: Sequence[NgramMark],
    format_tick: Callable[[float], str],
    format_value: Callable[[float], str],
    name: str,
    threshold: float | None = None,
) -> Drawing:
    intervals = [mark.interval for mark in marks if mark.interval]
    values = [mark.value for mark in marks]
    values += [mark.before for mark in marks if mark.before]
    lowest = min(values, default=0.0) / 2  # an interval that goes on to 0 must not stretch the axis
    values += [high for _, high in intervals] + [max(low, lowest) for low, _ in intervals]
    values += [] if threshold is None else [threshold]
    rows = []
    for mark in marks:
        description = f"{mark.ngram}: {name} {format_value(mark.value)}"
        if mark.before is not None:
            description += f", public text {format_value(mark.before)}"
        rows.append(
            Row(
                mark.ngram,
                mark.value,
                mark.colour,
                mark.before,
                mark.interval,
                description=description,
            )
        )
    axis = Axis.log(values, format_tick=format_tick, keep_outliers=False)
    return plot_rows({"": rows}, axis, label=label, reference=threshold)


# --- Bars ---

WEIGHT_BANDS = (1.0, 1.5, 2.0, 4.0, 8.0, 16.0)  # edges, in units of the threshold T


@dataclass(frozen=True)
class WeightBand:
    """How many discovered n-grams have a weight in a range, in units of the threshold T."""

    low: float
    high: float  # may be infinite
    ngrams: int


def weight_bands(ratios: Iterable[float]) -> list[WeightBand]:
    """Sort weights over T into bands; empty bands above the highest weight are left out.

    >>> [band.ngrams for band in weight_bands([1.1, 1.2, 2.5])]
    [2, 0, 1]
    """
    values = list(ratios)
    bands = [
        WeightBand(low, high, sum(low <= ratio < high for ratio in values))
        for low, high in pairwise((*WEIGHT_BANDS, math.inf))
    ]
    while bands and not bands[-1].ngrams:
        bands.pop()
    return bands


def draw_weight_bands(by_order: Mapping[int, Sequence[WeightBand]]) -> Drawing:
    """Draw a bar for every band of weights over T, order by order."""
    groups = {
        f"{order_name(order)}: {sum(band.ngrams for band in bands):,}": [
            Row(
                f"{_format_range(band.low, band.high)} × T",
                bars=(Bar(band.ngrams, f"{band.ngrams:,}"),),
            )
            for band in bands
        ]
        for order, bands in by_order.items()
    }
    most = max((band.ngrams for bands in by_order.values() for band in bands), default=1)
    return plot_rows(
        groups,
        Axis.linear(0, max(most, 1), ticks=NO_AXIS),
        label="How far the discovered n-grams are above the threshold T",
        text_room=80,
    )


def _format_range(low: float, high: float) -> str:
    return f"{low:.3g} or more" if math.isinf(high) else f"{low:.3g} – {high:.3g}"


def draw_norms(
    bins: Sequence[NormBin],
    noise_std: float,
    *,
    width: float = WIDTH,
    is_interactive: bool = False,
) -> Drawing:
    """Draw users by the norm of their counts, noisy; hollow bars are clipped.

    Args:
        bins: Users by norm, noisy.
        noise_std: Standard deviation of the number of users in a bin.
        width: In pixels.
        is_interactive: Whether bars can be reached by keyboard.
    """
    rows = []
    for norm_bin in bins:
        users = max(norm_bin.users, 0.0)  # noise may take a bin below 0
        text = _format_users(users, noise_std)
        norm = _format_range(norm_bin.low, norm_bin.high)
        effect = "scaled down" if norm_bin.clipped else "counted in full"
        bar = Bar(users, text, is_hollow=norm_bin.clipped)
        description = f"Size of the user's counts {norm}: {text} users, {effect}."
        rows.append(Row(norm, bars=(bar,), description=description))
    most = max([1.0, *(norm_bin.users for norm_bin in bins)])
    return plot_rows(
        {"": rows},
        Axis.linear(0, most, ticks=NO_AXIS),
        label="Number of users by the size of their counts (norm)",
        width=width,
        names_width=110,
        text_room=120,
        is_interactive=is_interactive,
    )


def _format_users(users: float, noise_std: float) -> str:
    """Format a noisy number of users with no more digits than the noise leaves.

    >>> _format_users(1234.5, 27.0)
    'about 1,230'
    """
    step = 10 ** math.floor(math.log10(max(noise_std, 1.0)))
    return f"about {round(users / step) * step:,.0f}"


def draw_accuracy(shares: Sequence[AccuracyShare]) -> Drawing:
    """Draw two bars a factor: the share of what people write, and of the n-grams (hollow)."""
    rows = [
        Row(
            f"within a factor of {share.factor:g}",
            bars=(
                Bar(share.mass_share, format_percent(share.mass_share)),
                Bar(share.ngram_share, format_percent(share.ngram_share), is_hollow=True),
            ),
        )
        for share in shares
    ]
    label = "How much of the release is expected to be accurate within a factor"
    return plot_rows({"": rows}, Axis.linear(0, 1, ticks=NO_AXIS), label=label, text_room=50)


def draw_sources(
    by_order: Mapping[int, Sequence[SourceWeight]],
    *,
    width: float = WIDTH,
    is_interactive: bool = False,
) -> Drawing:
    """Draw the weights of public sources, the longest n-grams first; hollow ones may be noise.

    Args:
        by_order: The weights of the sources, by the order of the n-grams.
        width: In pixels.
        is_interactive: Whether bars can be reached by keyboard.
    """
    groups = {
        order_name(order) if len(by_order) > 1 else "": [
            Row(
                source.name,
                interval=source.interval,
                bars=(
                    Bar(source.weight, source.percent_text, is_hollow=not source.is_above_noise),
                ),
                description=f"{source.name}, {order_name(order)}: {source.percent_text}.",
            )
            for source in by_order[order]
        ]
        for order in sorted(by_order, reverse=True)
    }
    return plot_rows(
        groups,
        Axis.linear(0, 1, ticks=NO_AXIS),
        label="Weights of the public sources",
        width=width,
        names_width=min(180, width * 0.32),
        text_room=80,
        is_interactive=is_interactive,
    )


# --- Releases over ε ---

PUBLIC_TEXT = "public text alone"
EPSILON_TITLE = "ε (smaller is more private)"
EXPECTED_TITLE = "expected distance from people's text (KL), smaller is better"


@dataclass(frozen=True)
class ReleasePoint:
    """A release in a picture that has ε on its horizontal axis."""

    name: str
    epsilon: float | None
    value: float  # may be infinite
    colour: str
    description: str = ""


def draw_utility(points: Sequence[ReleasePoint], public_kl: float | None) -> Drawing:
    """Draw KL against ε, both logarithmic, beside public text alone.

    An infinite KL stands above the axis, as ∞, and so does one that lies far above all others,
    with its value beside its name. What has no ε stands in a column of its own, to the right.
    """
    finite = [point.value for point in points if math.isfinite(point.value)]
    levels = without_outliers([*finite, *([public_kl] if public_kl else [])])
    highest = max(levels, default=0.0)
    series = [
        Series(
            [math.inf if point.epsilon is None else point.epsilon],
            [point.value if point.value <= highest else math.inf],
            f"{point.name} ({_format_kl(point.value)})"
            if highest < point.value < math.inf
            else point.name,
            point.colour,
            look="none",
            descriptions=[
                f"{point.name}: {'∞' if math.isinf(point.value) else f'{point.value:.4g}'}"
            ],
        )
        for point in points
    ]
    epsilons = [point.epsilon for point in points if point.epsilon is not None]
    x_axis = Axis.log(
        epsilons,
        format_tick=lambda epsilon: f"ε = {epsilon:g}",
        ticks=None if epsilons else (),
        beyond="no ε" if len(epsilons) < len(points) else "",
    )
    above = [point.value for point in points if point.value > highest]
    top = "∞" if any(map(math.isinf, above)) else "higher"
    # The name of the reference stands where fewer dots are.
    middle = math.sqrt(x_axis.low * x_axis.high)
    left_dots = sum(epsilon < middle for epsilon in epsilons)
    side: Literal["start", "end"] = "start" if 2 * left_dots <= len(points) else "end"
    y_axis = Axis.log(levels, beyond=top if above else "")
    return plot_xy(
        series,
        x_axis,
        y_axis,
        label="Distance from the private text (KL) against ε, smaller is better",
        height=max(240, 15 * len(points) + 30),
        references=[Reference(public_kl, PUBLIC_TEXT, side)] if public_kl else [],
        labels="points",
    )


def draw_trade(points: Sequence[ReleasePoint], *, is_share: bool, width: float = WIDTH) -> Drawing:
    """Draw what each ε bought, for the page.

    Args:
        points: Releases that have an ε.
        is_share: Whether the values are shares of what people write; otherwise they are nats.
        width: The width of the picture, in pixels.
    """
    ordered = sorted(points, key=lambda point: point.epsilon or 0.0)
    series = [
        Series(
            [point.epsilon or 0.0],
            [point.value],
            point.name,
            point.colour,
            look="none",
            descriptions=[point.description],
        )
        for point in ordered
    ]
    if is_share:
        title = "share of the listed text, higher is better"
        y_axis = Axis.linear(0, 1, title, format_tick=format_percent)
    else:
        y_axis, series = _distance_axis(series)
    x_axis = Axis.log([point.epsilon or 0.0 for point in points], EPSILON_TITLE)
    return plot_xy(
        series, x_axis, y_axis,
        label="Accuracy against ε", width=width, labels="points", is_interactive=True,
    )  # fmt: skip


def _distance_axis(series: Sequence[Series]) -> tuple[Axis, list[Series]]:
    """Return a linear axis of distances from 0 on; one that is far above all others stands beyond.

    Returns:
        The axis, and the series with such distances moved there.
    """
    values = [value for item in series for value in item.y]
    most = max(without_outliers([value for value in values if value > 0]), default=1.0)
    axis = Axis.linear(0, 1.05 * most, "distance from public text (KL), in nats")
    if max(values) <= axis.high:
        return axis, list(series)
    moved = [
        item
        if item.y[0] <= axis.high
        else replace(item, y=[math.inf], name=f"{item.name} ({item.y[0]:.2g})")
        for item in series
    ]
    return replace(axis, beyond="higher"), moved


@dataclass(frozen=True)
class ExpectedKl:
    """The KL divergence that simulated releases have at an ε: its mean, and the two ends."""

    epsilon: float
    mean: float
    low: float
    high: float

    @property
    def description(self) -> str:
        """The text of the point, for a tooltip."""
        spread = f", {self.low:.2g} to {self.high:.2g}" if self.low < self.high else ""
        return f"ε = {self.epsilon:.3g}: KL about {self.mean:.2g}{spread}."


def draw_expected_kl(
    expected: Sequence[ExpectedKl],
    public_kl: float,
    *,
    width: float = WIDTH,
    height: float = 240,
    is_interactive: bool = False,
) -> Drawing:
    """Draw the expected KL over ε; whiskers span the simulated releases.

    Args:
        expected: The points, by ε.
        public_kl: KL divergence of public text alone, drawn as a dashed line.
        width: In pixels.
        height: In pixels.
        is_interactive: Whether points show their text when they are pointed at or focused.
    """
    line = Series(
        [point.epsilon for point in expected],
        [point.mean for point in expected],
        colour="PROVED",
        intervals=[(point.low, point.high) for point in expected],
        descriptions=[point.description for point in expected],
    )
    levels = [value for point in expected for value in (point.mean, point.low, point.high)]
    return plot_xy(
        [line],
        Axis.log([point.epsilon for point in expected], EPSILON_TITLE),
        Axis.log([*levels, public_kl], EXPECTED_TITLE),
        label="Expected distance (KL) against ε",
        width=width,
        height=height,
        references=[Reference(public_kl, PUBLIC_TEXT)] if public_kl > 0 else [],
        is_interactive=is_interactive,
    )


# --- Attacks ---

ALARMS = "false alarms: the attack says “in” about a user who is not in the data"
MISSES = "misses: the attack says “out” about a user who is in the data"


def draw_attack_curves(curves: Sequence[Series], forbidden: Series | None = None) -> Drawing:
    """Draw false alarms against misses of attacks; everything below `forbidden` is shaded."""
    width = 460.0
    plane = plot_xy(
        curves,
        Axis.linear(0, 1, ALARMS),
        Axis.linear(0, 1, MISSES),
        label="Errors of the strongest attacks",
        width=width,
        height=380,
        area_below=forbidden,
    )
    keys = [
        Key(curve.name, curve.colour, "line" if curve.look == "none" else curve.look)
        for curve in curves
    ]
    legend_width = max(width, *(40 + text_width(key.name) for key in keys))
    below = stack([legend([key], legend_width) for key in keys], 0)
    return replace(stack([plane, below], 10), label=plane.label)


# --- Files: what changed ---

# How much fits into a picture; chosen by eye.
MAX_CHANGES = 30  # rows
MAX_LINES = 8  # n-grams that have a line over several releases; no more than `charts.SERIES`
RATIO = "times as often as before (95% interval, log scale)"
SHARE = "measured share (95% interval for the noise, log scale)"
SMALLEST_SHARE = 1e-12  # stands for a share of 0, which has no place on the axis


def draw_changes(comparison: Comparison) -> Drawing:
    """Draw the surest changes: ratios, and over more than two releases a line an n-gram."""
    panels = [_draw_ratios(comparison)] if comparison.changes else []
    if len(comparison.names) > 2 and comparison.changes:
        panels.insert(0, _draw_shares(comparison))
    if len(comparison.names) == 2:
        title = f"What changed from {comparison.names[0]} to {comparison.names[1]}"
    else:
        title = f"What changed over {len(comparison.names)} releases"
    nothing = Drawing(WIDTH, 0, Markup(""), "")
    return add_title(stack(panels or [nothing], 24), title, [summarize_changes(comparison)])


def summarize_changes(comparison: Comparison) -> str:
    """Say in short sentences what changed, what was tested, and how much of the list is chance."""
    tested = _count_texts(comparison, comparison.tested_mask)
    hidden = len(comparison.ngrams) - comparison.tested_count
    noise = f" Noise hides {hidden:,} more." if hidden else ""
    rate = f"false discovery rate {comparison.fdr:g}"
    if not comparison.changes:
        return f"No change is certain ({rate}). {tested} were tested.{noise}"
    changed_mask = np.zeros(len(comparison.ngrams), np.bool_)
    changed_mask[comparison.changed_rows] = True
    return (
        f"{_count_texts(comparison, changed_mask)} changed. {tested} were tested.{noise} At most"
        f" about {comparison.fdr:.0%} of the listed changes are there by chance ({rate})."
    )


def _count_texts(comparison: Comparison, mask: Bools) -> str:
    """Return how many n-grams and words there are: "12 n-grams and 3 words"."""
    words = int((mask & comparison.word_mask).sum())
    ngrams = int(mask.sum()) - words
    counts = [(ngrams, "n-gram"), (words, "word")]
    shown = [f"{count:,} {name}{'' if count == 1 else 's'}" for count, name in counts if count]
    return " and ".join(shown) or "0 n-grams"


def _draw_ratios(comparison: Comparison) -> Drawing:
    """Draw a row for each n-gram or word: its ratio and the 95% interval.

    Intervals may reach far: the axis holds the ratios, and an interval that leaves it is an arrow.
    """
    changes = comparison.changes[:MAX_CHANGES]
    names = comparison.names
    rows = [
        Row(
            f"{change.ngram} (word)" if change.is_word else change.ngram,
            change.ratio,
            DATA if change.is_rise else LOWERED,
            interval=(change.low, change.high),
            text=change.description
            if len(names) == 2
            else f"{change.description}, from {names[change.first]} to {names[change.second]}",
            description=f"{change.ngram}: {change.description}",
        )
        for change in changes
    ]
    ratios = [change.ratio for change in changes if 0 < change.ratio < math.inf]
    inner = without_outliers([*ratios, 1.0])
    reach = [end for change in changes for end in (change.low, change.high)]
    near = [end for end in reach if min(inner) / 3 <= end <= 3 * max(inner)]
    axis = Axis.log([*inner, *near], RATIO, margin=1.15)
    text_room = max((text_width(row.text) for row in rows), default=0.0) + 12
    return plot_rows(
        {"": rows}, axis, label=RATIO, names_width=170, text_room=text_room, reference=1
    )


def _draw_shares(comparison: Comparison) -> Drawing:
    """Draw a line for each of the surest changes, over the releases in their order."""
    names = comparison.names
    series = []
    for nth, row in enumerate(comparison.changed_rows[:MAX_LINES].tolist()):
        shares = [max(float(share), SMALLEST_SHARE) for share in comparison.shares[:, row]]
        stds = comparison.share_std[:, row].tolist()
        intervals = [
            (share - 2 * std, share + 2 * std) for share, std in zip(shares, stds, strict=True)
        ]
        series.append(
            Series(
                range(len(names)),
                shares,
                comparison.ngrams[row].as_py(),
                SERIES[nth],
                intervals=intervals,
                descriptions=[
                    f"{comparison.ngrams[row].as_py()}, {name}: {format_probability(share)}"
                    for name, share in zip(names, shares, strict=True)
                ],
            )
        )
    values = [share for line in series for share in line.y]
    # Whiskers that reach far below the smallest share end in an arrow, and do not stretch the axis.
    ends = [end for line in series for end in zip(*line.intervals, strict=True)]
    flat = [value for end in ends for value in end]
    axis = Axis.log(
        [*values, *(max(value, min(values) / 4) for value in flat)],
        SHARE,
        format_tick=format_probability,
        margin=1.1,
        keep_outliers=False,
    )
    plane = plot_xy(series, Axis.categories(names), axis, label=SHARE, width=WIDTH, height=260)
    keys = [Key(line.name, line.colour) for line in series]
    return replace(stack([plane, legend(keys, WIDTH)], 10), label=SHARE)


# --- Files: results of a demo, of discoveries and of plans ---

MAX_DISCOVERED = 15  # n-grams of an order in a picture; chosen by eye
WEIGHT_TITLE = (
    "weight, as a multiple of the threshold T (log scale); only n-grams above T, the dashed line,"
    " are published"
)
ORACLE = (
    "* Its settings were chosen by looking at the private text. Nobody could publish this release."
)
KL_TITLE = "distance from the private text (KL divergence, log scale; smaller is better)"


def draw_comparison(rows: Sequence[dict[str, Any]], *, subtitle: str) -> Drawing:
    """Draw the KL of each release, by ε, in the colour of its label.

    An infinite KL stands at the right end, as ∞.
    """
    groups: dict[str, list[Row]] = {}
    for row in rows:
        heading = "no ε (no guarantee)" if row["epsilon"] is None else f"ε = {row['epsilon']:g}"
        kl = math.inf if row["kl"] is None else row["kl"]
        text = _format_kl(kl)
        mark = Row(
            row["release"], kl, row["guarantee"], text=text, description=f"{row['release']}: {text}"
        )
        groups.setdefault(heading, []).append(mark)
    kls = [row["kl"] for row in rows if row["kl"] is not None]
    has_infinite = len(kls) < len(rows)
    axis = Axis.log(
        kls,
        KL_TITLE,
        margin=1.3,
        beyond="∞" if has_infinite else "",
        keep_outliers=False,
    )
    chart = plot_rows(
        groups, axis, label="KL of each release", names_width=260, text_room=50,
        reference=rows[0]["kl"],
    )  # fmt: skip
    present = {row["guarantee"] for row in rows}
    keys = [key for key in LABEL_KEYS if key.colour in present]
    keys.append(Key("public text alone", "NONE", "dashed"))
    drawing = stack([chart, legend(keys, WIDTH)], 12)
    return add_title(drawing, "How far each release is from the private text", [subtitle, ORACLE])


def _format_kl(value: float) -> str:
    """Format a KL divergence as the text beside its mark.

    >>> _format_kl(0.12345), _format_kl(76.5), _format_kl(math.inf)
    ('0.123', '76', '∞')
    """
    if math.isinf(value):
        return "∞"
    return f"{value:.3f}" if value < 10 else f"{value:.0f}"


def draw_norms_file(bins: Sequence[NormBin], *, subtitle: str) -> Drawing:
    """Draw users by the norm of their counts, and which of them are clipped."""
    digits = max((norm_bin.users for norm_bin in bins), default=1.0) / 100  # two or three of them
    keys = [Key("counted in full", DATA, "bar"), Key("scaled down (clipped)", DATA, "hollow")]
    drawing = stack([draw_norms(bins, digits), legend(keys, WIDTH)])
    note = (
        "Number of users (noisy) by the size of their counts. The size is the square root of the"
        " sum of squared counts: who writes four n-grams once each has a size of 2."
    )
    return add_title(drawing, "How much users write", [subtitle, note])


def draw_sources_file(
    weights: Mapping[str, Mapping[str, Mapping[str, float]]], *, subtitle: str
) -> Drawing:
    """Draw the weights of the public sources, with two standard deviations to each side."""
    drawing = draw_sources(read_source_weights({SOURCE_WEIGHTS_DETAIL: weights}))
    note = "Share of each public source in the mixture that is closest to people's text (± 95%)."
    return add_title(drawing, "Which public text is closest to people's text", [subtitle, note])


def draw_changed_ngrams(
    lifted: Sequence[NgramMark], lowered: Sequence[NgramMark], *, subtitle: str
) -> Drawing:
    """Draw n-grams from their public to their released probability.

    Args:
        lifted: N-grams that the release makes likelier.
        lowered: N-grams that it makes less likely.
        subtitle: Which release it is.
    """
    marks = [replace(mark, colour=DATA) for mark in lifted]
    marks += [replace(mark, colour=LOWERED) for mark in lowered]
    keys = [
        Key("public text", "NONE", "public"),
        Key("release: more frequent than in public text", DATA, "dot"),
        Key("release: less frequent", LOWERED, "dot"),
    ]
    chart = draw_probabilities("Public and released probability", marks)
    drawing = stack([chart, legend(keys, WIDTH)], 8)
    title = "Where the release differs most from public text"
    return add_title(drawing, title, [subtitle, "Probability of each n-gram, log scale."])


def draw_discoveries(
    ngrams: Sequence[tuple[str, int, float]],
    threshold: float,
    noise_std: float,
    *,
    subtitle: str,
) -> Drawing:
    """Draw the heaviest discovered n-grams of each order, and how far they are above T.

    Args:
        ngrams: N-gram, order and noisy weight, heaviest first.
        threshold: T, the weight that all of them exceed.
        noise_std: Standard deviation of the noise of a weight.
        subtitle: What was searched.
    """
    groups: dict[str, list[Row]] = {}
    for order in sorted({order for _, order, _ in ngrams}):
        of_order = [row for row in ngrams if row[1] == order]
        shown = of_order[:MAX_DISCOVERED]
        groups[f"{order_name(order)}: {len(shown)} of {len(of_order):,}"] = [
            Row(
                ngram,
                weight / threshold,
                "PROVED",
                interval=(
                    (weight - 2 * noise_std) / threshold,
                    (weight + 2 * noise_std) / threshold,
                ),
                description=f"{ngram}: weight {weight:.1f}",
            )
            for ngram, _, weight in shown
        ]
    rows = [row for group in groups.values() for row in group]
    ends = [row.interval for row in rows if row.interval]
    values = [high for _, high in ends] + [max(low, 0.5) for low, _ in ends]
    axis = Axis.log([*values, 0.9], WEIGHT_TITLE, margin=1.05, keep_outliers=False)
    ticks = tuple((tick, f"{tick:g}") for tick in (0.5, 1, 1.5, 2, 3, 5, 10, 20, 50, 100))
    axis = replace(axis, ticks=tuple(tick for tick in ticks if axis.contains(tick[0])))
    chart = plot_rows(groups, axis, label="Weights of discovered n-grams", reference=1)
    notes = [subtitle, "Lines are 95% intervals for the noise. An arrow means that it continues."]
    return add_title(chart, "N-grams that many people write and public text lacks", notes)


def draw_plan(plan: Plan) -> Drawing:
    """Draw the expected KL, and the share expected to lie within a factor of 2, over ε."""
    width = 540.0
    expected = [ExpectedKl(row.epsilon, row.kl, row.kl_low, row.kl_high) for row in plan.rows]
    kl = draw_expected_kl(expected, plan.rows[0].public_kl, width=width, height=180)
    epsilons = [row.epsilon for row in plan.rows]
    known_share = plot_xy(
        [Series(epsilons, [row.known_share for row in plan.rows], colour="PROVED")],
        Axis.log(epsilons, EPSILON_TITLE),
        Axis.linear(
            0,
            1,
            "share of people's text that is accurate within a factor of 2",
            format_tick=format_percent,
        ),
        label="Share that is expected to be accurate within a factor of 2",
        width=width,
        height=180,
    )
    note = (
        f"Simulated with {plan.assumptions.users:,.0f} made-up users; no private data was read and"
        " no budget was spent."
    )
    return add_title(stack([kl, known_share]), "What to expect of a release", [note])
