"""How far releases are from private text, against ε, as inline SVG: dots with names that cover nothing.

In:  points.   Out: a drawing, as those of `drawings`. Computes nothing but places.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from unicodedata import east_asian_width

from markupsafe import Markup

from bayesgram.released.drawings import DOT, LINE, ROW, TEXT, WIDTH, LogAxis, short, svg

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
        return LogAxis.around(levels + ([self.public] if self.public else []), self.bottom, TOP + 2 * ROW)

    @cached_property
    def places(self) -> list[tuple[float, float]]:
        found: list[tuple[float, float]] = []
        for point in self.points:
            x = self.right if point.epsilon is None else self.across.at(point.epsilon)
            y = TOP if math.isinf(point.kl) else self.down.at(point.kl)
            beside = ((x + shift * APART, y) for shift in SHIFTS)
            free = (place for place in beside if all(math.dist(place, other) >= APART - 1 for other in found))
            found.append(next(free, (x, y)))
        return found

    @property
    def scales(self) -> Iterator[Markup]:
        heights = [(self.down.at(tick), f"{tick:g}") for tick in self.down.ticks]
        heights += [(TOP, "∞")] if any(math.isinf(point.kl) for point in self.points) else []
        for y, words in heights:
            yield LINE.format(self.left, y, self.right, y, "grid") + TEXT.format(52, y + 4, "end", "dimmed", words)
        ticks = [(self.across.at(tick), f"ε = {tick:g}") for tick in self.across.ticks]
        if any(point.epsilon is None for point in self.points):
            ticks = [tick for tick in ticks if any(point.epsilon for point in self.points)] + [(self.right, "no ε")]
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
            taken += [Box(self.left, self.right, y - 1, y + 1), Box.around(self.left + 4, y - 9, PUBLIC)]
        names = _names([short(point.name) for point in self.points], self.places, taken, self.bottom)
        for point, (x, y), (name, box) in zip(self.points, self.places, names, strict=True):
            height, side = (box.top + box.bottom) / 2, -1 if box.left < x else 1
            if abs(height - y) > LABEL / 3:
                yield LINE.format(x, y, x + 9 * side, height, "link")
            told = "∞" if math.isinf(point.kl) else f"{point.kl:.4g}"
            yield DOT.format(x, y, point.colour, f"{point.name}: {told}")
            yield TEXT.format(x + 10 * side, height + 4, "start" if side > 0 else "end", "name", name)


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
        free = (box for box in _beside(names[at], *places[at], bottom) if not any(map(box.touches, covered)))
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
            yield from (box for box in (right, left) if (box.left >= 56 and box.right <= WIDTH) or not step)
