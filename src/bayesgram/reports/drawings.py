"""Pictures of a report as inline SVG, in the colours of the page's stylesheet, so that they follow dark mode and print.

Draws what it is given; computes nothing but places. Every string goes through `Markup.format`, which escapes it:
n-grams are strings from the internet.

How far releases are from private text, against ε, as inline SVG: dots with names that cover nothing.

In:  points.   Out: a drawing, as those of `drawings`. Computes nothing but places.
"""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from unicodedata import east_asian_width

from markupsafe import Markup

from bayesgram.releases.card_sections import NormBin, SourceWeight
from bayesgram.releases.intervals import AccuracyShare

WIDTH = 720
ROW = 20
LABELS = 190  # room for n-grams, left of the axis
LONGEST = 27  # characters of a label
COLOURS = {
    "PROVED": "good",
    "EMPIRICAL": "half",
    "NONE": "mute",
}  # of labels; nothing else has these
DATA, HOLLOW = "full", "part"
BANDS = (1.0, 1.5, 2.0, 4.0, 8.0, 16.0)  # of weights over T

TEXT = Markup('<text x="{:.1f}" y="{:.1f}" text-anchor="{}" class="{}">{}</text>')
LINE = Markup('<line x1="{:.1f}" y1="{:.1f}" x2="{:.1f}" y2="{:.1f}" class="{}"/>')
DOT = Markup('<circle cx="{:.1f}" cy="{:.1f}" r="4.5" class="{}"><title>{}</title></circle>')
BAR = Markup('<rect x="{:.1f}" y="{:.1f}" width="{:.1f}" height="{:.1f}" rx="1.5" class="{}"/>')
ARROW = Markup(
    '<polyline points="{:.1f},{:.1f} {:.1f},{:.1f} {:.1f},{:.1f}" class="whisker"><title>{}</title></polyline>'
)
PATH = Markup('<polyline points="{}" class="line {}"><title>{}</title></polyline>')


@dataclass(frozen=True)
class Mark:
    """An n-gram on the axis of probabilities: where it is, where public text had it, how sure that is."""

    ngram: str
    after: float
    before: float | None = None
    interval: tuple[float, float] | None = None
    colour: str = DATA


@dataclass(frozen=True)
class Band:
    """How many discovered n-grams have a weight in a range, in units of the level T."""

    low: float
    high: float  # may be infinite
    ngrams: int


def found_bands(ratios: Iterable[float]) -> list[Band]:
    """Weights over T, sorted into bands; of those beyond the last that has some, nothing.

    >>> [band.ngrams for band in found_bands([1.1, 1.2, 2.5])]
    [2, 0, 1]
    """
    seen = list(ratios)
    bands = [
        Band(low, high, sum(low <= ratio < high for ratio in seen))
        for low, high in pairwise((*BANDS, math.inf))
    ]
    while bands and not bands[-1].ngrams:
        bands.pop()
    return bands


@dataclass(frozen=True)
class Trace:
    """A line on the unit square."""

    name: str
    x: list[float]
    y: list[float]
    colour: str


@dataclass(frozen=True)
class LogAxis:
    """Values on a logarithmic scale between two places of the drawing."""

    low: float
    high: float
    first: float
    last: float

    @classmethod
    def around(cls, values: Iterable[float], first: float, last: float) -> "LogAxis":
        """From a bit below the smallest to a bit above the largest; 0 has no place and does not count."""
        seen = [value for value in values if value > 0]
        return cls(min(seen, default=0.1) / 1.6, max(seen, default=1.0) * 1.6, first, last)

    def at(self, value: float) -> float:
        """The place of a value; what is beyond the ends stands at the end."""
        inside = min(max(value, self.low), self.high)
        share = math.log(inside / self.low) / math.log(self.high / self.low)
        return self.first + share * (self.last - self.first)

    @property
    def ticks(self) -> list[float]:
        """1, 2 and 5 times powers of ten; powers of ten alone where those are many."""
        powers = range(math.floor(math.log10(self.low)), math.ceil(math.log10(self.high)) + 1)
        fine = [step * 10.0**power for power in powers for step in (1, 2, 5)]
        coarse = [10.0**power for power in powers]
        shown = [tick for tick in fine if self.low <= tick <= self.high]
        return (
            shown if len(shown) <= 6 else [tick for tick in coarse if self.low <= tick <= self.high]
        )


def svg(height: float, title: str, parts: Iterable[Markup]) -> Markup:
    """A drawing with words for those who can't see it."""
    opening = Markup('<svg viewBox="0 0 {} {:.0f}" role="img" aria-label="{}">').format(
        WIDTH, height, title
    )
    return opening + Markup("").join(parts) + Markup("</svg>")


def short(text: str) -> str:
    """A label that fits.

    >>> short("the quick brown fox jumps over it")
    'the quick brown fox jumps …'
    """
    return text if len(text) <= LONGEST else text[: LONGEST - 1] + "…"


def percent(share: float) -> str:
    """A share for a person: 0% and 100% only where it is exactly that.

    >>> percent(0.123), percent(0.0004), percent(0.9999), percent(1.0)
    ('12%', '<1%', '>99%', '100%')
    """
    if 0 < share < 0.005 or 0.995 <= share < 1:
        return "<1%" if share < 0.5 else ">99%"
    return f"{100 * share:.0f}%"


def marks_drawing(title: str, marks: Sequence[Mark], level: float | None = None) -> Markup:
    """One row an n-gram: ○ public, ● released, a thin line from the one to the other, whiskers for the interval.

    A level that they had to exceed is dashed.
    """
    ends = [mark.interval for mark in marks if mark.interval]
    values = [mark.after for mark in marks] + [mark.before for mark in marks if mark.before]
    values += [high for _, high in ends] + [max(low, min(values) / 2) for low, _ in ends]
    values += [] if level is None else [level]
    axis = LogAxis.around(values, LABELS + 10, WIDTH - 10)
    bottom = len(marks) * ROW + 8
    parts = [LINE.format(axis.at(tick), 0, axis.at(tick), bottom, "grid") for tick in axis.ticks]
    form = ".0e" if level is None else "g"
    parts += [
        TEXT.format(axis.at(tick), bottom + 15, "middle", "dimmed", f"{tick:{form}}")
        for tick in axis.ticks
    ]
    if level is not None:
        parts.append(LINE.format(axis.at(level), 0, axis.at(level), bottom, "dashed"))
    for at, mark in enumerate(marks):
        parts += _mark_row(axis, mark, at * ROW + 14, form)
    return svg(bottom + 22, title, parts)


def _mark_row(axis: LogAxis, mark: Mark, y: float, form: str) -> list[Markup]:
    label = Markup('<text x="{}" y="{}" text-anchor="end">{}<title>{}</title></text>')
    parts = [label.format(LABELS, y + 4, short(mark.ngram), mark.ngram)]
    if mark.before is not None:
        parts.append(LINE.format(axis.at(mark.before), y, axis.at(mark.after), y, "link"))
    if mark.interval is not None:
        parts += _whisker(axis, mark.interval, y)
    if mark.before is not None:
        parts.append(_dot(axis, mark.before, y, "hollow", f"public: {mark.before:.2e}"))
    told = f"released: {mark.after:.2e}" if form == ".0e" else f"weight: {mark.after:.1f}"
    return [*parts, _dot(axis, mark.after, y, mark.colour, told)]


def _whisker(axis: LogAxis, ends: tuple[float, float], y: float) -> list[Markup]:
    """A line with a cap at each end, or with an arrow where it goes on below the axis."""
    low, high = (axis.at(end) for end in ends)
    parts = [
        LINE.format(low, y, high, y, "whisker"),
        LINE.format(high, y - 4, high, y + 4, "whisker"),
    ]
    below = ends[0] < axis.low
    return [
        *parts,
        _arrow(low, y, "goes on") if below else LINE.format(low, y - 4, low, y + 4, "whisker"),
    ]


def _dot(axis: LogAxis, value: float, y: float, colour: str, told: str) -> Markup:
    """A dot, or an arrow for 0, which has no place on the axis."""
    return DOT.format(axis.at(value), y, colour, told) if value > 0 else _arrow(axis.first, y, told)


def _arrow(x: float, y: float, told: str) -> Markup:
    return ARROW.format(x + 5, y - 4, x, y, x + 5, y + 4, told)


def norms_drawing(title: str, bins: Sequence[NormBin], doubt: float) -> Markup:
    """Bars of users by the norm of their counts; hollow ones are clipped. One that noise took below 0 is not drawn."""
    most = max([1.0, *(found.users for found in bins)])
    room = WIDTH - LABELS - 70
    parts: list[Markup] = []
    for at, found in enumerate(bins):
        y, length = at * ROW, room * max(found.users, 0) / most
        upper = "more" if math.isinf(found.high) else f"{found.high:.3g}"
        parts += [
            TEXT.format(LABELS - 60, y + 14, "end", "", f"{found.low:.3g} – {upper}"),
            BAR.format(LABELS - 50, y + 4, length, ROW - 6, HOLLOW if found.clipped else DATA),
            TEXT.format(
                LABELS - 44 + length, y + 14, "start", "dimmed", _users(found.users, doubt)
            ),
        ]
    return svg(len(bins) * ROW + 6, title, parts)


def _users(number: float, doubt: float) -> str:
    """No more digits than the noise leaves.

    >>> _users(1234.5, 27.0), _users(-3.0, 27.0)
    ('about 1,230', 'about 0')
    """
    step = 10 ** math.floor(math.log10(max(doubt, 1.0)))
    return f"about {round(max(number, 0) / step) * step:,.0f}"


def bands_drawing(title: str, by_order: Mapping[int, Sequence[Band]]) -> Markup:
    """A bar for every band of weights over T, order by order."""
    most = max([1, *(band.ngrams for bands in by_order.values() for band in bands)])
    room, y = WIDTH - LABELS - 90, 0
    parts: list[Markup] = []
    for order, bands in by_order.items():
        total = f"order {order}: {sum(band.ngrams for band in bands):,}"
        parts.append(TEXT.format(LABELS, y + 14, "start", "dimmed", total))
        y += ROW
        for band in bands:
            upper = "more" if math.isinf(band.high) else f"{band.high:g}"
            length = room * band.ngrams / most
            parts += [
                TEXT.format(LABELS - 10, y + 14, "end", "", f"{band.low:g} – {upper} × T"),
                BAR.format(LABELS, y + 4, length, ROW - 6, DATA),
                TEXT.format(LABELS + 6 + length, y + 15, "start", "dimmed", f"{band.ngrams:,}"),
            ]
            y += ROW
    return svg(y + 6, title, parts)


def known_drawing(title: str, known: Sequence[AccuracyShare]) -> Markup:
    """Two bars a factor: the share of n-grams, and of what people write."""
    room = WIDTH - LABELS - 60
    parts: list[Markup] = []
    for at, found in enumerate(known):
        y = at * 40
        parts.append(
            TEXT.format(LABELS - 10, y + 24, "end", "", f"within a factor of {found.factor:g}")
        )
        for down, share, colour in ((6, found.mass_share, DATA), (22, found.ngram_share, HOLLOW)):
            parts.append(BAR.format(LABELS, y + down, room * share, 12, colour))
            parts.append(
                TEXT.format(
                    LABELS + 6 + room * share, y + down + 10, "start", "dimmed", percent(share)
                )
            )
    return svg(len(known) * 40 + 6, title, parts)


def sources_drawing(title: str, by_order: Mapping[int, Sequence[SourceWeight]]) -> Markup:
    """A bar a source, hollow where it may be noise, with whiskers; of several orders the longest stands first."""
    room, y = WIDTH - LABELS - 90, 0
    parts: list[Markup] = []
    for order in sorted(by_order, reverse=True):
        if len(by_order) > 1:
            parts.append(TEXT.format(LABELS, y + 14, "start", "dimmed", f"order {order}"))
            y += ROW
        for source in by_order[order]:
            low, high = (LABELS + room * end for end in source.interval)
            parts += [
                TEXT.format(LABELS - 10, y + 14, "end", "", short(source.name)),
                BAR.format(
                    LABELS,
                    y + 4,
                    room * source.weight,
                    ROW - 6,
                    DATA if source.is_above_noise else HOLLOW,
                ),
                LINE.format(low - 2, y + 11, high + 2, y + 11, "halo"),
                LINE.format(low, y + 11, high, y + 11, "whisker"),
                *(LINE.format(end, y + 7, end, y + 15, "whisker") for end in (low, high)),
                TEXT.format(high + 8, y + 15, "start", "dimmed", source.percent_text),
            ]
            y += ROW
    return svg(y + 6, title, parts)


def square_drawing(title: str, traces: Sequence[Trace], axes: tuple[str, str]) -> Markup:
    """Lines on the unit square, with their names below."""
    left, side = 70, 300
    parts = [
        LINE.format(left, 10 + side * k / 4, left + side, 10 + side * k / 4, "grid")
        for k in range(5)
    ]
    parts += [
        TEXT.format(left - 8, 14 + side * (1 - k / 4), "end", "dimmed", f"{k / 4:g}")
        for k in range(5)
    ]
    parts += [
        TEXT.format(left + side * k / 4, 28 + side, "middle", "dimmed", f"{k / 4:g}")
        for k in range(5)
    ]
    parts.append(TEXT.format(left + side / 2, 46 + side, "middle", "dimmed", axes[0]))
    upright = Markup(
        '<text transform="translate(20 {}) rotate(-90)" text-anchor="middle" class="dimmed">{}</text>'
    )
    parts.append(upright.format(10 + side / 2, axes[1]))
    for at, trace in enumerate(traces):
        places = zip(trace.x, trace.y, strict=True)
        points = " ".join(f"{left + side * x:.1f},{10 + side * (1 - y):.1f}" for x, y in places)
        parts.append(PATH.format(points, trace.colour, trace.name))
        y = 72 + side + 18 * at
        parts.append(PATH.format(f"{left},{y - 4} {left + 24},{y - 4}", trace.colour, ""))
        parts.append(TEXT.format(left + 32, y, "start", "", trace.name))
    return svg(76 + side + 18 * len(traces), title, parts)


LABEL, TOP = 14, 14  # the height of a name in a plane, and where that begins
LETTER = 6.6  # the width of a letter in it, rather too large than too small
APART, SHIFTS = 10, (0, 1, -1, 2, -2, 3, -3)  # dots that would cover each other stand side by side
NO_EPSILON = 90  # from the end of the axis to what has no ε
PUBLIC = "public text alone"


@dataclass(frozen=True)
class Point:
    """A release on the plane of ε and KL."""

    name: str
    epsilon: float | None
    kl: float
    colour: str


def utility_drawing(title: str, points: Sequence[Point], public: float | None) -> Markup:
    """KL against ε, both logarithmic; dashed is public text alone.

    What is infinite stands above the axis, as ∞; what has no ε in a column of its own, to the right.
    """
    plane = _Plane(points, public)
    return svg(plane.bottom + 26, title, [*plane.scales, *plane.line, *plane.dots])


@dataclass(frozen=True)
class _Plane:
    """Points, and where they stand."""

    points: Sequence[Point]
    public: float | None
    left: float = 60
    right: float = WIDTH - 150

    @property
    def bottom(self) -> float:
        return max(250, TOP + LABEL * len(self.points))

    @cached_property
    def across(self) -> LogAxis:
        known = [point.epsilon for point in self.points if point.epsilon is not None]
        last = self.right if len(known) == len(self.points) else self.right - NO_EPSILON
        return LogAxis.around(known, self.left, last)

    @cached_property
    def down(self) -> LogAxis:
        levels = [point.kl for point in self.points if math.isfinite(point.kl)]
        return LogAxis.around(
            levels + ([self.public] if self.public else []), self.bottom, TOP + 2 * ROW
        )

    @cached_property
    def places(self) -> list[tuple[float, float]]:
        found: list[tuple[float, float]] = []
        for point in self.points:
            x = self.right if point.epsilon is None else self.across.at(point.epsilon)
            y = TOP if math.isinf(point.kl) else self.down.at(point.kl)
            beside = ((x + shift * APART, y) for shift in SHIFTS)
            free = (
                place
                for place in beside
                if all(math.dist(place, other) >= APART - 1 for other in found)
            )
            found.append(next(free, (x, y)))
        return found

    @property
    def scales(self) -> Iterator[Markup]:
        heights = [(self.down.at(tick), f"{tick:g}") for tick in self.down.ticks]
        heights += [(TOP, "∞")] if any(math.isinf(point.kl) for point in self.points) else []
        for y, words in heights:
            yield LINE.format(self.left, y, self.right, y, "grid") + TEXT.format(
                52, y + 4, "end", "dimmed", words
            )
        ticks = [(self.across.at(tick), f"ε = {tick:g}") for tick in self.across.ticks]
        if any(point.epsilon is None for point in self.points):
            ticks = [tick for tick in ticks if any(point.epsilon for point in self.points)] + [
                (self.right, "no ε")
            ]
        for x, words in ticks:
            yield TEXT.format(x, self.bottom + 18, "middle", "dimmed", words)

    @property
    def line(self) -> Iterator[Markup]:
        if self.public:
            y = self.down.at(self.public)
            yield LINE.format(self.left, y, self.right, y, "dashed")
            yield TEXT.format(self.left + 4, y - 5, "start", "dimmed name", PUBLIC)

    @property
    def dots(self) -> Iterator[Markup]:
        taken = [Box(x - 6, x + 6, y - 6, y + 6) for x, y in self.places]
        if self.public:
            y = self.down.at(self.public)
            taken += [
                Box(self.left, self.right, y - 1, y + 1),
                Box.around(self.left + 4, y - 9, PUBLIC),
            ]
        names = _names(
            [short(point.name) for point in self.points], self.places, taken, self.bottom
        )
        for point, (x, y), (name, box) in zip(self.points, self.places, names, strict=True):
            height, side = (box.top + box.bottom) / 2, -1 if box.left < x else 1
            if abs(height - y) > LABEL / 3:
                yield LINE.format(x, y, x + 9 * side, height, "link")
            told = "∞" if math.isinf(point.kl) else f"{point.kl:.4g}"
            yield DOT.format(x, y, point.colour, f"{point.name}: {told}")
            yield TEXT.format(
                x + 10 * side, height + 4, "start" if side > 0 else "end", "name", name
            )


@dataclass(frozen=True)
class Box:
    """What a name or a dot covers."""

    left: float
    right: float
    top: float
    bottom: float

    @classmethod
    def around(cls, x: float, y: float, text: str) -> "Box":
        """A text that starts at x, with y as its middle."""
        width = sum(12 if east_asian_width(c) in "WF" else LETTER for c in text)
        return cls(x, x + width, y - LABEL / 2 + 0.1, y + LABEL / 2 - 0.1)

    def touches(self, other: "Box") -> bool:
        """Whether they share more than an edge."""
        across = self.left < other.right and other.left < self.right
        return across and self.top < other.bottom and other.top < self.bottom


def _names(
    names: Sequence[str], places: Sequence[tuple[float, float]], taken: Sequence[Box], bottom: float
) -> list[tuple[str, Box]]:
    """Where the names go: as near to their dots as there is room, right of them or left; from top to bottom."""
    covered, found = list(taken), {}
    for at in sorted(range(len(places)), key=lambda at: places[at][1]):
        free = (
            box
            for box in _beside(names[at], *places[at], bottom)
            if not any(map(box.touches, covered))
        )
        found[at] = next(free, None) or next(_beside(names[at], *places[at], bottom))
        covered.append(found[at])
    return [(name, found[at]) for at, name in enumerate(names)]


def _beside(name: str, x: float, y: float, bottom: float) -> Iterator[Box]:
    """Places for a name beside its dot, the nearest first."""
    for step in range(int(bottom / LABEL) * 4):
        height = y + (step + 1) // 2 * LABEL / 2 * (1 if step % 2 else -1)
        right = Box.around(x + 10, height, name)
        left = Box.around(x - 10 - (right.right - right.left), height, name)
        if TOP <= height <= bottom - LABEL / 2 or not step:
            yield from (
                box for box in (right, left) if (box.left >= 56 and box.right <= WIDTH) or not step
            )
