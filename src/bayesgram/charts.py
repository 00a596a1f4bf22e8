"""Charts as SVG: the one way in which every picture of the project is drawn.

Three places show pictures: files that commands write (`.svg` and `.png`), the report, and the page
of `bayesgram serve`. All of them use two kinds of chart from here, which draw what they are given
and compute nothing but places:

- `plot_xy`: lines with bands, points with intervals, and reference lines over two axes;
- `plot_rows`: one row a name, with a bar, a dot, an earlier value and an interval.

Charts are put together with `side_by_side`, `stack` and `add_title`. A `Drawing` becomes a fragment
of a page (`inline`, `to_tree`), a file that stands alone (`to_svg`), or a PNG (`to_png`).

Colours are CSS classes: within a page its variables decide (`page_variables`), a file has its own
stylesheet, and both follow dark mode. Every string goes through `Markup`, which escapes it: n-grams
are strings from the internet.

Why not a library: Altair with vl-convert is 95 MB installed and its pictures ignore the stylesheet
of the page, so that the report and the page had drawing code of their own, and the three drifted
apart. This module and resvg (1.4 MB, for PNG) replace all of them.
"""

import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from pathlib import Path
from typing import Any, Literal
from unicodedata import east_asian_width
from xml.etree import ElementTree as ET

from markupsafe import Markup

# --- Colours ---

# Name: colour in light mode, colour in dark mode. The first three say what an ε is worth, and
# nothing else may have them.
COLOURS = {
    "PROVED": ("#1b7f5c", "#4cc39a"),
    "EMPIRICAL": ("#d98c1f", "#e0a040"),
    "NONE": ("#8a8f98", "#8a8f98"),
    "blue": ("#2a62b8", "#86b2f2"),
    "red": ("#a8324a", "#ec7f93"),
    "purple": ("#7a4fa3", "#b795dc"),
    "teal": ("#0f8a9d", "#4fc3d4"),
    "brown": ("#8a6d3b", "#c9a86a"),
    "pink": ("#c2519b", "#e58cc6"),
    "ink": ("#1d2127", "#e8eaee"),
    "olive": ("#6b8e23", "#a5c55a"),
    "sky": ("#53a7d8", "#53a7d8"),
    "rust": ("#8c3b00", "#d9793a"),
}
GREYS = {
    "dim": ("#5d6470", "#a3aab6"),  # text beside the main thing
    "paper": ("#ffffff", "#16181c"),
    "line": ("#d9dde3", "#343941"),  # grids
    "mute": ("#b9bec6", "#5d6470"),  # links between marks
}
DATA = "blue"  # what is no label
LOWERED = "red"  # what fell, beside what rose in the colour of data
SERIES = ("blue", "red", "purple", "teal", "brown", "pink", "ink", "olive")

STYLE = """
svg text { fill: var(--ink); font-family: system-ui, sans-serif; font-size: 12px; \
unicode-bidi: isolate }
svg .dim { fill: var(--dim); font-size: 12px } svg .bold { font-weight: 600 }
svg .title { font-size: 15px; font-weight: 600 }
svg .halo { paint-order: stroke; stroke: var(--paper); stroke-width: 4px; stroke-linejoin: round }
svg .under { stroke: var(--paper); stroke-width: 5px }
svg .paper { fill: var(--paper) }
svg .grid { stroke: var(--line) } svg .link { stroke: var(--mute); stroke-width: 1.5px }
svg .reference { stroke: var(--dim); stroke-dasharray: 4 3 }
svg .reference.dotted { stroke-dasharray: 2 3 }
svg .whisker { fill: none; stroke: var(--ink); stroke-width: 1.5px }
svg .line { fill: none; stroke-width: 2px } svg .line.dashed { stroke-dasharray: 5 3 }
svg .line.dotted { stroke-dasharray: 2 3; stroke-width: 1.5px }
svg .band { opacity: .18 }
svg .public { fill: var(--paper); stroke: var(--dim); stroke-width: 1.5px }
""" + "".join(
    f"svg .dot.{name}, svg .bar.{name}, svg .band.{name}, svg .label.{name}"
    f" {{ fill: var(--{name}) }}\n"
    f"svg .line.{name}, svg .whisker.{name} {{ stroke: var(--{name}) }}\n"
    f"svg .ring.{name} {{ fill: var(--paper); stroke: var(--{name}); stroke-width: 2px }}\n"
    for name in COLOURS
)


def page_variables(*, is_dark: bool = False) -> str:
    """Return the CSS declarations of all colours, for the `:root` of a page.

    >>> page_variables()[:17]
    '--PROVED: #1b7f5c'
    """
    colours = {**COLOURS, **GREYS}
    return "; ".join(f"--{name}: {pair[is_dark]}" for name, pair in colours.items())


def _file_style() -> str:
    """Return the stylesheet of a file: without variables, which resvg does not know."""

    def resolve(*, is_dark: bool) -> str:
        colours = {**COLOURS, **GREYS}
        return re.sub(r"var\(--(\w+)\)", lambda name: colours[name[1]][is_dark], STYLE)

    dark = resolve(is_dark=True)
    return f"{resolve(is_dark=False)}@media (prefers-color-scheme: dark) {{{dark}}}\n"


# --- Elements ---

FONT_SIZE = 12.0
# Widths of letters as parts of the font size, those of a wide font (DejaVu Sans): a label may get
# more room than it needs, never less.
LETTER_WIDTHS = {
    **dict.fromkeys("iljI.,:;'|!()[] ’‘", 0.36),
    **dict.fromkeys('ftr-–“”"', 0.46),
    **dict.fromkeys("mwMW%@", 0.96),
}
USUAL_WIDTH = 0.62
CAPITAL_WIDTH = 0.72
FULL_WIDTH = 1.05  # Chinese, Japanese and Korean letters


def text_width(text: str, size: float = FONT_SIZE) -> float:
    """Estimate how wide a text is, in pixels; rather too wide than too narrow."""
    return size * sum(_letter_width(letter) for letter in text)


def _letter_width(letter: str) -> float:
    if east_asian_width(letter) in "WF":
        return FULL_WIDTH
    return LETTER_WIDTHS.get(letter, CAPITAL_WIDTH if letter.isupper() else USUAL_WIDTH)


def shorten(text: str, width: float) -> str:
    """Cut a text in the middle to fit a width: names often differ at their end alone.

    >>> shorten("the quick brown fox jumps over it", 120)
    'the quick… over it'
    """
    if text_width(text) <= width:
        return text
    for length in range(len(text) - 1, 1, -1):
        short = f"{text[: (length + 1) // 2]}…{text[len(text) - length // 2 :]}"
        if text_width(short) <= width:
            return short
    return "…"


def printable(text: str) -> str:
    """Replace characters that do not print, such as those that turn the direction of text, by �.

    >>> printable("a" + chr(0x202E) + "b")
    'a�b'
    """
    return "".join(letter if letter.isprintable() else "�" for letter in text)


def _element(tag: str, *children: Markup | str, **attributes: str | float | None) -> Markup:
    """Return an SVG element; in names of attributes _ stands for -, and `class_` is the class."""
    parts = Markup("")
    for name, value in attributes.items():
        if value is None or value == "":
            continue
        shown = f"{round(value, 1):g}" if isinstance(value, float) else printable(str(value))
        parts += Markup(' {}="{}"').format(name.rstrip("_").replace("_", "-"), shown)
    content = Markup("").join(
        child if isinstance(child, Markup) else printable(child) for child in children
    )
    if not children:
        return Markup("<{}{}/>").format(tag, parts)
    return Markup("<{}{}>{}</{}>").format(tag, parts, content, tag)


Anchor = Literal["start", "middle", "end"]


def _text(
    x: float, y: float, text: str, anchor: Anchor = "start", style: str = "", tooltip: str = ""
) -> Markup:
    title = [_element("title", tooltip)] if tooltip else []
    return _element("text", text, *title, x=float(x), y=float(y), text_anchor=anchor, class_=style)


def _line(x1: float, y1: float, x2: float, y2: float, style: str) -> Markup:
    return _element("line", x1=float(x1), y1=float(y1), x2=float(x2), y2=float(y2), class_=style)


Point = tuple[float, float]


def _path(points: Iterable[Point], style: str, tag: str = "polyline") -> Markup:
    places = " ".join(f"{round(x, 1):g},{round(y, 1):g}" for x, y in points)
    return _element(tag, points=places, class_=style)


def _dot(x: float, y: float, style: str, tooltip: str = "", radius: float = 4.5) -> Markup:
    title = [_element("title", tooltip)] if tooltip else []
    return _element("circle", *title, cx=float(x), cy=float(y), r=radius, class_=style)


def _rect(x: float, y: float, width: float, height: float, style: str) -> Markup:
    return _element(
        "rect",
        x=float(x), y=float(y), width=float(width), height=float(height), rx=1.5, class_=style,
    )  # fmt: skip


def _arrow(
    x: float, y: float, direction: Literal["left", "right", "down"], style: str = "whisker"
) -> Markup:
    """Return the tip of an arrow: the mark continues beyond the axis."""
    if direction == "down":
        points = [(x - 4, y - 5), (x, y), (x + 4, y - 5)]
    else:
        back = x + (5 if direction == "left" else -5)
        points = [(back, y - 4), (x, y), (back, y + 4)]
    return _path(points, f"{style} arrow")


def _mark(description: str, parts: Iterable[Markup], *, is_interactive: bool) -> Markup:
    """Return a group with a tooltip; if interactive, it can also be reached by keyboard."""
    content = Markup("").join(parts)
    if not description:
        return content
    title = _element("title", description)
    if not is_interactive:
        return _element("g", title, content)
    return _element(
        "g", title, content, class_="mark", tabindex="0", role="img", aria_label=description
    )


# --- Drawings ---


@dataclass(frozen=True)
class Drawing:
    """A picture in SVG, with its size in pixels and a label for people who cannot see it."""

    width: float
    height: float
    content: Markup
    label: str
    is_interactive: bool = False  # its marks can be reached by keyboard

    def inline(self) -> Markup:
        """Return an `<svg>` for a page, which has the stylesheet."""
        return _element(
            "svg",
            self.content,
            viewBox=f"0 0 {self.width:.0f} {self.height:.0f}",
            role="group" if self.is_interactive else "img",
            aria_label=self.label,
        )

    def to_tree(self) -> list[Any]:
        """Return the same as [tag, attributes, *children], for a page that allows no markup."""
        return _to_tree(ET.fromstring(self.inline()))  # noqa: S314 - our own markup

    def to_svg(self) -> str:
        """Return a file that stands alone and follows dark mode."""
        margin = 14
        width = f"{self.width + 2 * margin:.0f}"
        height = f"{self.height + 2 * margin:.0f}"
        content = _element("g", self.content, transform=f"translate({margin} {margin})")
        return str(
            _element(
                "svg",
                _element("style", Markup(_file_style())),  # noqa: S704 - ours alone
                _element("rect", width=width, height=height, class_="paper"),
                content,
                xmlns="http://www.w3.org/2000/svg",
                width=width,
                height=height,
                viewBox=f"0 0 {width} {height}",
                role="img",
                aria_label=self.label,
            )
        )

    def to_png(self) -> bytes:
        """Return the picture in light mode, with two pixels for each of its own.

        Text is in Open Sans, which comes with the package ttf-opensans, so that a machine without
        any font (a container) draws labels, too. Letters that it lacks are taken from the system.
        """
        import resvg_py  # noqa: PLC0415 - only where a PNG is written
        from ttf_opensans import OPENSANS_REGULAR, OPENSANS_SEMIBOLD  # noqa: PLC0415

        fonts = [str(font.path) for font in (OPENSANS_REGULAR, OPENSANS_SEMIBOLD)]
        return resvg_py.svg_to_bytes(
            svg_string=self.to_svg(),
            zoom=2,
            background="#ffffff",
            font_files=fonts,
            sans_serif_family="Open Sans",
        )

    def write(self, path: Path, kind: str) -> None:
        """Write a file of a kind: "svg" or "png"."""
        if kind == "png":
            path.write_bytes(self.to_png())
        else:
            path.write_text(self.to_svg(), encoding="utf-8", newline="\n")


def _to_tree(element: ET.Element) -> list[Any]:
    text = [element.text] if element.text else []
    return [element.tag, element.attrib, *text, *(_to_tree(child) for child in element)]


def save(drawing: Drawing, path: Path) -> list[Path]:
    """Write path.svg and path.png; they open offline."""
    targets = [path.with_suffix(".svg"), path.with_suffix(".png")]
    for target in targets:
        drawing.write(target, target.suffix[1:])
    return targets


def side_by_side(drawings: Sequence[Drawing], gap: float = 28) -> Drawing:
    """Put drawings next to each other, their tops in a line."""
    content = Markup("")
    x = 0.0
    for drawing in drawings:
        content += _element("g", drawing.content, transform=f"translate({x:.0f} 0)")
        x += drawing.width + gap
    height = max(drawing.height for drawing in drawings)
    return Drawing(x - gap, height, content, _join_labels(drawings))


def stack(drawings: Sequence[Drawing], gap: float = 20) -> Drawing:
    """Put drawings below each other."""
    content = Markup("")
    y = 0.0
    for drawing in drawings:
        content += _element("g", drawing.content, transform=f"translate(0 {y:.0f})")
        y += drawing.height + gap
    width = max(drawing.width for drawing in drawings)
    return Drawing(width, y - gap, content, _join_labels(drawings))


def _join_labels(drawings: Sequence[Drawing]) -> str:
    return "; ".join(dict.fromkeys(drawing.label for drawing in drawings if drawing.label))


def add_title(drawing: Drawing, title: str, notes: Sequence[str] = ()) -> Drawing:
    """Put a title and notes above a drawing, in as many lines as they need.

    Args:
        drawing: The drawing.
        title: The title, which also becomes the label.
        notes: Lines below the title; empty ones are left out.
    """
    width = max(drawing.width, 360.0)
    lines = [(line, "title", 20) for line in _wrap(title, width, size=16)]
    lines += [(line, "dim", 16) for note in notes if note for line in _wrap(note, width)]
    content = Markup("")
    y = -4.0
    for line, style, height in lines:
        y += height
        content += _text(0, y, line, style=style)
    y += 16
    content += _element("g", drawing.content, transform=f"translate(0 {y:.0f})")
    return replace(drawing, width=width, height=drawing.height + y, content=content, label=title)


def _wrap(text: str, width: float, size: float = FONT_SIZE) -> list[str]:
    lines = [""]
    for word in text.split():
        longer = f"{lines[-1]} {word}".strip()
        if lines[-1] and text_width(longer, size) > width:
            lines.append(word)
        else:
            lines[-1] = longer
    # A line that goes on ends with a space, so that whoever copies the text gets words.
    return [f"{line} " for line in lines[:-1]] + lines[-1:] if lines[0] else []


TITLE_LINE = 16.0  # pixels from one line of an axis title to the next


def _title_height(lines: Sequence[str]) -> float:
    return TITLE_LINE * len(lines) + 2 if lines else 0.0


def _axis_title(lines: Sequence[str], middle: float, top: float, width: float) -> list[Markup]:
    """Return the lines of a title below an axis: around its middle, and within the picture."""
    parts = []
    for nth, line in enumerate(lines):
        half = text_width(line) / 2
        x = max(min(middle, width - half), half)
        parts.append(_text(x, top + TITLE_LINE * nth, line, "middle", "dim"))
    return parts


# --- Numbers and axes ---


def format_number(value: float) -> str:
    """Write a number of an axis: thousands have commas, and what is tiny an exponent.

    >>> [format_number(value) for value in (0.05, 1e-5, 20000.0, 5e6)]
    ['0.05', '1e-5', '20,000', '5e6']
    """
    if value and not 1e-3 <= abs(value) < 1e6:
        mantissa, power = f"{value:.2e}".split("e")
        return f"{float(mantissa):g}e{int(power)}"
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"


# A probability below this is written as a bound: more zeros can't be counted at a glance.
SMALLEST_SHOWN_PROBABILITY = 1e-8


def format_probability(probability: float, digits: int = 3) -> str:
    """Write a probability in percent, without an exponent.

    Args:
        probability: From 0 to 1.
        digits: How many digits at most, after leading zeros.

    >>> [format_probability(value) for value in (0.0094, 0.25, 0.00012345, 3e-9, 0.0, 1.0)]
    ['0.94%', '25%', '0.0123%', '<0.000001%', '0%', '100%']
    """
    if 0 < probability < SMALLEST_SHOWN_PROBABILITY:
        return "<0.000001%"
    percent = 100 * probability
    if not percent:
        return "0%"
    decimals = max(digits - 1 - math.floor(math.log10(abs(percent))), 0)
    text = f"{percent:.{decimals}f}"
    return f"{text.rstrip('0').rstrip('.') if '.' in text else text}%"


def format_thousands(value: float) -> str:
    """Write a large number with k or M.

    >>> format_thousands(300.0), format_thousands(30_000), format_thousands(1.2e6)
    ('300', '30k', '1.2M')
    """
    for unit, letter in ((1e6, "M"), (1e3, "k")):
        if value >= unit:
            return f"{value / unit:.3g}{letter}"
    return f"{value:.3g}"


def format_percent(share: float) -> str:
    """Write a share for a person: 0% and 100% only where it is exactly that.

    >>> [format_percent(share) for share in (0.123, 0.0004, 0.9999, 1.0)]
    ['12%', '<1%', '>99%', '100%']
    """
    if 0 < share < 0.005 or 0.995 <= share < 1:
        return "<1%" if share < 0.5 else ">99%"
    return f"{100 * share:.0f}%"


BEYOND_GAP = 44.0  # pixels between the end of an axis and infinity; chosen by eye


@dataclass(frozen=True)
class Axis:
    """An axis: where each value goes. Made by `log`, `linear` or `categories`."""

    low: float
    high: float
    ticks: tuple[tuple[float, str], ...]  # values and their labels
    title: str = ""
    is_log: bool = False
    beyond: str = ""  # the label of infinity, which stands apart; without it there is no such place

    @classmethod
    def log(
        cls,
        values: Iterable[float],
        title: str = "",
        *,
        format_tick: Callable[[float], str] = format_number,
        margin: float = 1.6,
        ticks: Sequence[float] | None = None,
        most_ticks: int = 6,
        beyond: str = "",
        keep_outliers: bool = True,
    ) -> "Axis":
        """Make a logarithmic axis that holds values; 0 has no place on it and does not count.

        Args:
            values: What it has to hold; infinite values stand at `beyond`.
            title: What is measured.
            format_tick: Writes the labels of ticks.
            margin: The factor between the outermost values and the ends.
            ticks: Values to label, instead of 1, 2 and 5 times powers of ten.
            most_ticks: With more of them, powers of ten alone.
            beyond: The label of infinity, if there is such a place.
            keep_outliers: Whether the axis reaches to values that lie far from all others; if not,
                they are drawn at its end, as arrows.
        """
        positive = [value for value in values if 0 < value < math.inf]
        if not keep_outliers:
            positive = without_outliers(positive)
        low = min(positive, default=0.1) / margin
        high = max(positive, default=1.0) * margin
        shown = log_ticks(low, high, most_ticks) if ticks is None else ticks
        labels = tuple((tick, format_tick(tick)) for tick in shown)
        return cls(low, high, labels, title, is_log=True, beyond=beyond)

    @classmethod
    def linear(
        cls,
        low: float,
        high: float,
        title: str = "",
        *,
        format_tick: Callable[[float], str] = format_number,
        ticks: Sequence[float] | None = None,
    ) -> "Axis":
        """Make a linear axis; unless they are given, ticks are at round numbers.

        Args:
            low: The low end.
            high: The high end.
            title: What is measured.
            format_tick: Writes the labels of ticks.
            ticks: Values to label, instead of round numbers.
        """
        shown = linear_ticks(low, high) if ticks is None else ticks
        return cls(low, high, tuple((tick, format_tick(tick)) for tick in shown), title)

    @classmethod
    def categories(cls, names: Sequence[str], title: str = "") -> "Axis":
        """Make an axis of names: the first is at 0, the second at 1."""
        return cls(-0.5, len(names) - 0.5, tuple(enumerate(names)), title)

    def place(self, value: float, first: float, last: float) -> float:
        """Return where a value is between two pixels; what is outside stands at the end.

        Args:
            value: The value.
            first: The pixel of the low end.
            last: The pixel of the high end.
        """
        if self.beyond:
            if value == math.inf:
                return last
            last -= math.copysign(BEYOND_GAP, last - first)
        return first + (last - first) * min(max(self.part(value), 0.0), 1.0)

    def part(self, value: float) -> float:
        """Return which part of the axis lies below a value; below 0 or above 1 it is outside."""
        if not self.is_log:
            return (value - self.low) / (self.high - self.low)
        if value <= 0:
            return -math.inf
        return math.log(value / self.low) / math.log(self.high / self.low)

    def contains(self, value: float) -> bool:
        """Whether a value has a place of its own."""
        return self.low <= value <= self.high or (value == math.inf and bool(self.beyond))


# A value is an outlier of a logarithmic axis if the gap between it and the next value is wider than
# this share of the range that all others take, and wider than a factor of `MIN_OUTLIER_FACTOR`.
# At most one value in ten (rounded up) is an outlier at each end. Chosen by eye.
OUTLIER_GAP = 0.5
MIN_OUTLIER_FACTOR = 8.0


def without_outliers(values: Sequence[float]) -> list[float]:
    """Return positive values without those that would stretch a logarithmic axis.

    >>> without_outliers([0.03, 0.1, 0.4, 2.2, 136.0])
    [0.03, 0.1, 0.4, 2.2]
    >>> without_outliers([0.02, 0.1, 0.5, 3.0])
    [0.02, 0.1, 0.5, 3.0]
    >>> max(without_outliers([*(0.1 * n for n in range(1, 20)), 200.0, 500.0])) < 2
    True
    """
    logarithms = sorted(map(math.log, values))
    most = math.ceil(len(logarithms) / 10)
    last = len(logarithms) - _count_outliers(logarithms, most)
    first = _count_outliers([-value for value in reversed(logarithms[:last])], most)
    return sorted(values)[first:last]


def _count_outliers(logarithms: Sequence[float], most: int) -> int:
    """Return how many of the largest of ascending logarithms are outliers."""
    for count in range(most, 0, -1):
        inside = logarithms[:-count]
        if len(inside) < 3:
            continue
        gap = logarithms[-count] - inside[-1]
        span = inside[-1] - inside[0]
        if gap > max(OUTLIER_GAP * span, math.log(MIN_OUTLIER_FACTOR)):
            return count
    return 0


def log_ticks(low: float, high: float, most: int = 6) -> list[float]:
    """Return 1, 2 and 5 times powers of ten; fewer where those are many.

    Args:
        low: The low end of the axis.
        high: The high end of the axis.
        most: How many ticks at most.

    >>> log_ticks(0.02, 0.6), log_ticks(0.02, 30)
    ([0.02, 0.05, 0.1, 0.2, 0.5], [0.1, 1.0, 10.0])
    """
    powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    for steps in ((1, 2, 5), (1, 3), (1,)):
        ticks = [float(f"{step}e{power}") for power in powers for step in steps]
        inside = [tick for tick in ticks if low <= tick <= high]
        if len(inside) <= most:
            return inside
    return inside[:: math.ceil(len(inside) / most)]


def linear_ticks(low: float, high: float, most: int = 6) -> list[float]:
    """Return round numbers between two values.

    Args:
        low: The low end of the axis.
        high: The high end of the axis.
        most: How many ticks at most.

    >>> linear_ticks(0, 1), linear_ticks(0, 430)
    ([0.0, 0.2, 0.4, 0.6, 0.8, 1.0], [0.0, 100.0, 200.0, 300.0, 400.0])
    """
    span = high - low or 1.0
    power = 10.0 ** math.floor(math.log10(span / (most - 1)))
    sizes = (1, 2, 2.5, 5, 10)
    step = next(size * power for size in sizes if span / (size * power) <= most - 1 + 1e-9)
    first = math.ceil(low / step - 1e-9)
    last = math.floor(high / step + 1e-9)
    return [round(step * nth, 12) for nth in range(first, last + 1)]


# --- Labels that cover nothing ---


def spread_out(places: Sequence[float], gap: float, height: float) -> list[float]:
    """Move ascending places as little as needed to lie a gap apart, between 0 and the height.

    Args:
        places: Ascending places.
        gap: The distance that they must have.
        height: The largest place that is allowed.

    >>> spread_out([10, 11, 50], 10, 100)
    [5.5, 15.5, 50.0]
    """
    groups: list[list[float]] = []
    for place in places:
        groups.append([place])
        while (
            len(groups) > 1
            and _first_of(groups[-1], gap, height) < _last_of(groups[-2], gap, height) + gap
        ):
            groups[-2:] = [groups[-2] + groups[-1]]
    return [
        _first_of(group, gap, height) + nth * gap for group in groups for nth in range(len(group))
    ]


def _first_of(group: Sequence[float], gap: float, height: float) -> float:
    """Return where the first of a group goes: the group keeps the middle of its places."""
    extent = (len(group) - 1) * gap
    return max(min(sum(group) / len(group) - extent / 2, height - extent), 0.0)


def _last_of(group: Sequence[float], gap: float, height: float) -> float:
    return _first_of(group, gap, height) + (len(group) - 1) * gap


# Sizes in pixels, chosen by eye.
LABEL_HEIGHT = 15.0
HALO = 4.0  # left and right of a label
LABEL_GAP = 10.0  # between a dot and its label
DOT_SPACING = 11.0  # dots that would cover each other stand so far apart
# Where a dot may go that would cover another one, in units of DOT_SPACING, the nearest first.
DOT_SHIFTS = (0, 1, -1, 2, -2, 3, -3, 4, -4)


@dataclass(frozen=True)
class Box:
    """The rectangle that a label or a dot covers, in pixels."""

    left: float
    right: float
    top: float
    bottom: float

    @classmethod
    def around_text(cls, x: float, y: float, text: str) -> "Box":
        """Return the box of a text with its halo; it starts at x, and its middle is at y."""
        half = LABEL_HEIGHT / 2 - 0.1
        return cls(x - HALO, x + text_width(text) + HALO, y - half, y + half)

    def overlaps(self, other: "Box") -> bool:
        """Whether they share more than an edge."""
        across = self.left < other.right and other.left < self.right
        return across and self.top < other.bottom and other.top < self.bottom

    @property
    def middle(self) -> float:
        """The y coordinate of its middle."""
        return (self.top + self.bottom) / 2


def _separate_dots(dots: Sequence[Point]) -> list[Point]:
    """Move dots that would cover each other sideways."""
    placed: list[Point] = []
    for x, y in dots:
        shifted = ((x + shift * DOT_SPACING, y) for shift in DOT_SHIFTS)
        free = (
            place
            for place in shifted
            if all(math.dist(place, other) >= DOT_SPACING - 1 for other in placed)
        )
        placed.append(next(free, (x, y)))
    return placed


def _place_labels(
    names: Sequence[str], dots: Sequence[Point], covered: Sequence[Box], area: Box
) -> list[Box] | None:
    """Place names as near to their dots as there is room, right or left of them.

    From top to bottom, so that few lines cross. None if one of them finds no room.
    """
    occupied = [*covered, *(Box(x - 6, x + 6, y - 6, y + 6) for x, y in dots)]
    boxes: dict[int, Box] = {}
    for index in sorted(range(len(dots)), key=lambda at: (dots[at][1], dots[at][0])):
        places = _label_candidates(names[index], *dots[index], area)
        free = (box for box in places if not any(box.overlaps(other) for other in occupied))
        box = next(free, None)
        if box is None:
            return None
        boxes[index] = box
        occupied.append(box)
    return [boxes[index] for index in range(len(dots))]


def _label_candidates(name: str, x: float, y: float, area: Box) -> Iterator[Box]:
    """Yield places for a name beside its dot, the nearest first."""
    width = text_width(name)
    for step in range(int((area.bottom - area.top) / LABEL_HEIGHT) * 4 + 1):
        height = y + (step + 1) // 2 * LABEL_HEIGHT / 2 * (1 if step % 2 else -1)
        for start in (x + LABEL_GAP, x - LABEL_GAP - width):
            box = Box.around_text(start, height, name)
            inside_across = area.left <= start and start + width <= area.right
            inside_down = area.top <= height <= area.bottom - LABEL_HEIGHT / 2
            if inside_across and (inside_down or not step):
                yield box


# --- Legends ---

Look = Literal["line", "dashed", "dotted", "dot", "ring", "bar", "hollow", "public"]


@dataclass(frozen=True)
class Key:
    """An entry of a legend: what a colour and a look mean."""

    name: str
    colour: str
    look: Look = "line"


def legend(keys: Sequence[Key], width: float) -> Drawing:
    """Draw a legend, in as many lines as the width needs."""
    swatch = 30.0
    content = Markup("")
    x = 0.0
    y = 12.0
    for key in keys:
        name = shorten(key.name, width - swatch)
        needed = swatch + text_width(name)
        if x and x + needed > width:
            x = 0.0
            y += 18
        content += _swatch(key, x, y - 4)
        content += _text(x + swatch, y, name, tooltip="" if name == key.name else key.name)
        x += needed + 18
    return Drawing(width, y + 6, content, "")


def _swatch(key: Key, x: float, y: float) -> Markup:
    if key.look in ("dot", "ring", "public"):
        return _dot(x + 14, y, f"{key.look} {key.colour}")
    if key.look in ("bar", "hollow"):
        style = "bar" if key.look == "bar" else "ring"
        return _rect(x + 4, y - 5, 20, 10, f"{style} {key.colour}")
    dash = "" if key.look == "line" else key.look
    return _path([(x, y), (x + 24, y)], f"line {key.colour} {dash}".rstrip())


# --- Lines and points over two axes ---


@dataclass(frozen=True)
class Series:
    """Points that belong together: a line, or dots alone."""

    x: Sequence[float]
    y: Sequence[float]
    name: str = ""
    colour: str = DATA
    look: Literal["line", "dashed", "dotted", "none"] = "line"  # of the line
    dots: Literal["dot", "ring", "none"] = "dot"
    intervals: Sequence[tuple[float, float]] = ()  # of y, one for each point
    has_band: bool = False  # intervals are drawn as a band instead of as whiskers
    descriptions: Sequence[str] = ()  # tooltips, one for each point


@dataclass(frozen=True)
class Reference:
    """A horizontal line to compare with."""

    y: float
    name: str
    side: Literal["start", "end"] = "end"  # where the name stands
    look: Literal["dashed", "dotted"] = "dashed"


LabelMode = Literal["ends", "points", "none"]
MAX_SLANTED_WIDTH = 160.0  # pixels of a name at 30° below the axis; chosen by eye


def plot_xy(
    series: Sequence[Series],
    x_axis: Axis,
    y_axis: Axis,
    *,
    label: str,
    width: float = 720,
    height: float = 300,
    references: Sequence[Reference] = (),
    labels: LabelMode = "none",
    area_below: Series | None = None,
    is_interactive: bool = False,
) -> Drawing:
    """Draw lines and points over two axes.

    Args:
        series: What is drawn.
        x_axis: The horizontal axis.
        y_axis: The vertical axis; its title stands above it.
        label: What the picture shows, for people who cannot see it.
        width: Width of the whole picture, labels included, in pixels.
        height: Height between the axes, in pixels.
        references: Horizontal lines with names.
        labels: Where the names of the series stand: at the ends of lines, beside points, or
            nowhere (for a legend). Beside points they cover nothing; where they have no room,
            points have numbers, and the names are listed below.
        area_below: A line below which everything is shaded.
        is_interactive: Whether points can be reached by keyboard.

    Returns:
        The drawing. What lies outside the vertical axis is cut off; a label at the end of such a
        line says its value.
    """
    plane = _Plane.fit(series, x_axis, y_axis, width, height, labels)
    parts = plane.draw_axes()
    if area_below is not None:
        corners = [*plane.points(area_below), (plane.right, plane.bottom)]
        shape = [*corners, (plane.left, plane.bottom)]
        parts.append(_path(shape, f"band {area_below.colour}", "polygon"))
    for item in series:
        if item.has_band:
            parts.append(plane.draw_band(item))
    reference_lines, reference_names, covered = plane.draw_references(references)
    parts += reference_lines
    for item in series:
        if item.look != "none":
            parts += plane.draw_line(item)
    dots, places = plane.draw_points(series, is_interactive=is_interactive)
    leaders, names, below = plane.draw_labels(series, labels, places, covered)
    content = Markup("").join([*parts, *reference_names, *leaders, *dots, *names])
    drawing = Drawing(width, plane.full_height, content, label, is_interactive)
    if not below:
        return drawing
    return replace(
        stack([drawing, legend(below, width)], 8), label=label, is_interactive=is_interactive
    )


@dataclass(frozen=True)
class _Plane:
    """The rectangle between two axes, in pixels: turns values into places, and draws there."""

    x_axis: Axis
    y_axis: Axis
    left: float
    right: float
    top: float
    bottom: float
    width: float  # of the whole picture

    @classmethod
    def fit(
        cls,
        series: Sequence[Series],
        x_axis: Axis,
        y_axis: Axis,
        width: float,
        height: float,
        labels: LabelMode,
    ) -> "_Plane":
        ticks = [text for _, text in y_axis.ticks] + [y_axis.beyond]
        left = 10 + max(text_width(text) for text in ticks)
        right = width - 16
        if labels == "ends":
            right = (
                width
                - 14
                - max(text_width(item.name) + _excess_width(item, y_axis) for item in series)
            )
        title_lines = len(_wrap(y_axis.title, width))
        top = (6 + 16 * title_lines if title_lines else 8) + (6 if y_axis.beyond else 0)
        return cls(x_axis, y_axis, left, right, top, top + height, width)

    @property
    def full_height(self) -> float:
        labels = 22 if self._has_straight_labels else self._slanted_labels_height
        return self.bottom + labels + _title_height(self._x_title)

    @property
    def _x_title(self) -> list[str]:
        return _wrap(self.x_axis.title, self.width)

    def x(self, value: float) -> float:
        return self.x_axis.place(value, self.left, self.right)

    def y(self, value: float) -> float:
        return self.y_axis.place(value, self.bottom, self.top)

    def points(self, series: Series) -> list[Point]:
        """Return where points are; what lies outside the axis stays outside, to be cut off."""
        return [(self.x(x), self._unclamped_y(y)) for x, y in zip(series.x, series.y, strict=True)]

    def _unclamped_y(self, value: float) -> float:
        if value == math.inf:
            return self.y(value)
        # Far enough outside to be cut off, and near enough for SVG.
        part = min(max(self.y_axis.part(value), -50.0), 50.0)
        top = self.top + (BEYOND_GAP if self.y_axis.beyond else 0)
        return self.bottom + part * (top - self.bottom)

    # Axes

    def draw_axes(self) -> list[Markup]:
        heights = [(self.y(value), text) for value, text in self.y_axis.ticks]
        if self.y_axis.beyond:
            heights.append((self.top, self.y_axis.beyond))
        parts = []
        for y, text in heights:
            parts.append(_line(self.left, y, self.right, y, "grid"))
            parts.append(_text(self.left - 8, y + 4, text, "end", "dim"))
        parts += self._x_ticks()
        middle = (self.left + self.right) / 2
        top = self.full_height - _title_height(self._x_title)
        parts += _axis_title(self._x_title, middle, top + 12, self.width)
        for nth, line in enumerate(_wrap(self.y_axis.title, self.width)):
            parts.append(_text(0, 12 + TITLE_LINE * nth, line, "start", "dim"))
        return parts

    @property
    def _x_labels(self) -> list[tuple[float, str]]:
        labels = [(self.x(value), text) for value, text in self.x_axis.ticks]
        return labels + ([(self.right, self.x_axis.beyond)] if self.x_axis.beyond else [])

    @property
    def _has_categories(self) -> bool:
        return not self.x_axis.is_log and self.x_axis.low == -0.5

    @property
    def _has_straight_labels(self) -> bool:
        """Whether names of categories have room side by side; if not, they are drawn at 30°."""
        if not self._has_categories:
            return True
        available = (self.right - self.left) / len(self.x_axis.ticks)
        return all(text_width(text) < available - 8 for _, text in self.x_axis.ticks)

    @property
    def _slanted_labels_height(self) -> float:
        longest = max(text_width(shorten(text, MAX_SLANTED_WIDTH)) for _, text in self.x_axis.ticks)
        return 20 + longest / 2  # sin 30°

    def _x_ticks(self) -> list[Markup]:
        if not self._has_straight_labels:
            return [
                self._slanted_label(x, shorten(text, MAX_SLANTED_WIDTH))
                for x, text in self._x_labels
            ]
        parts = []
        free_from = -math.inf
        for x, text in reversed(self._x_labels):  # what is beyond is never left out
            half = text_width(text) / 2
            if -(x + half + 4) < free_from:
                continue
            parts.append(_text(x, self.bottom + 18, text, "middle", "dim"))
            free_from = -(x - half)
        return parts

    def _slanted_label(self, x: float, text: str) -> Markup:
        transform = f"translate({x:.1f} {self.bottom + 16:.1f}) rotate(-30)"
        return _element("text", text, transform=transform, text_anchor="end", class_="dim")

    # Marks

    def draw_line(self, series: Series) -> list[Markup]:
        dash = "" if series.look == "line" else f" {series.look}"
        pieces = _cut_line(self.points(series), self.top, self.bottom)
        style = f"line {series.colour}{dash}"
        return [_path(piece, style) for piece in pieces if len(piece) > 1]

    def draw_band(self, series: Series) -> Markup:
        lows = [self._unclamped_y(low) for low, _ in series.intervals]
        highs = [self._unclamped_y(high) for _, high in series.intervals]
        xs = [self.x(value) for value in series.x]
        outline = [*zip(xs, highs, strict=True), *reversed(list(zip(xs, lows, strict=True)))]
        inside = _cut_polygon(outline, self.top, self.bottom)
        return _path(inside, f"band {series.colour}", "polygon") if inside else Markup("")

    def draw_points(
        self, series: Sequence[Series], *, is_interactive: bool
    ) -> tuple[list[Markup], list[Point]]:
        """Return the points of all series, and the place of each that lies within the axis."""
        has_no_lines = all(item.look == "none" for item in series)
        shown = [
            (item, index)
            for item in series
            if item.dots != "none"
            for index, y in enumerate(item.y)
            if self.y_axis.contains(y)
        ]
        places = [(self.x(item.x[index]), self.y(item.y[index])) for item, index in shown]
        if has_no_lines:
            places = _separate_dots(places)
        parts = []
        for (item, index), (x, y) in zip(shown, places, strict=True):
            mark: list[Markup] = []
            if item.intervals and not item.has_band:
                mark += self._whisker(x, item.intervals[index], item.colour)
            mark.append(
                _dot(x, y, f"{item.dots} {item.colour}", radius=5.5 if has_no_lines else 4.0)
            )
            if is_interactive:
                mark.append(_element("circle", cx=x, cy=y, r=12.0, fill="transparent"))
            description = item.descriptions[index] if item.descriptions else ""
            parts.append(_mark(description, mark, is_interactive=is_interactive))
        return parts, places

    def _whisker(self, x: float, interval: tuple[float, float], colour: str) -> list[Markup]:
        low, high = interval
        style = f"whisker {colour}"
        parts = [_line(x, self.y(low), x, self.y(high), style)]
        parts.append(_line(x - 4, self.y(high), x + 4, self.y(high), style))
        if self.y_axis.contains(low):
            parts.append(_line(x - 4, self.y(low), x + 4, self.y(low), style))
        else:
            parts.append(_arrow(x, self.y(low), "down", style))
        return parts

    def draw_references(
        self, references: Sequence[Reference]
    ) -> tuple[list[Markup], list[Markup], list[Box]]:
        """Return lines across, their names above them, and the boxes that both cover."""
        ordered = sorted(references, key=lambda reference: self.y(reference.y), reverse=True)
        heights = [self.bottom - self.y(reference.y) + 9 for reference in ordered]
        spread = spread_out(heights, LABEL_HEIGHT, self.bottom - self.top + 12)
        lines: list[Markup] = []
        names: list[Markup] = []
        covered: list[Box] = []
        for reference, height in zip(ordered, spread, strict=True):
            y = self.y(reference.y)
            middle = self.bottom - height
            dots = " dotted" if reference.look == "dotted" else ""
            lines.append(_line(self.left, y, self.right, y, f"reference{dots}"))
            covered.append(Box(self.left, self.right, y - 1, y + 1))
            x = self.left + 4
            if reference.side == "end":
                x = self.right - text_width(reference.name)
            covered.append(Box.around_text(x, middle, reference.name))
            anchor: Anchor = reference.side
            at = self.right if anchor == "end" else x
            names.append(_text(at, middle + 4, reference.name, anchor, "dim halo"))
        return lines, names, covered

    # Labels

    def draw_labels(
        self,
        series: Sequence[Series],
        mode: LabelMode,
        places: Sequence[Point],
        covered: Sequence[Box],
    ) -> tuple[list[Markup], list[Markup], list[Key]]:
        """Return lines to names, names, and keys of names that have no room and stand below."""
        if mode == "ends":
            return [], self._labels_at_ends(series), []
        if mode == "none":
            return [], [], []
        names = [item.name for item in series]
        area = Box(self.left - 4, self.width, self.top, self.bottom)
        boxes = _place_labels(names, places, covered, area)
        if boxes is not None:
            return *self._labels_beside(names, places, boxes), []
        numbers = [str(nth + 1) for nth in range(len(names))]
        boxes = _place_labels(numbers, places, covered, area)
        leaders, labels = self._labels_beside(numbers, places, boxes) if boxes else ([], [])
        return (
            leaders,
            labels,
            [
                Key(f"{number} {item.name}", item.colour, "dot")
                for number, item in zip(numbers, series, strict=True)
            ],
        )

    def _labels_at_ends(self, series: Sequence[Series]) -> list[Markup]:
        """Return each name at the end of its line, up or down a little where two would overlap."""
        ends = sorted(
            ((self.bottom - self.y(item.y[-1]), item) for item in series if item.name),
            key=lambda end: end[0],
        )
        heights = spread_out([height for height, _ in ends], LABEL_HEIGHT, self.bottom - self.top)
        return [
            _text(
                self.right + 10,
                self.bottom - height + 4,
                item.name + _excess_text(item, self.y_axis),
                style=f"label {item.colour}",
            )
            for height, (_, item) in zip(heights, ends, strict=True)
        ]

    def _labels_beside(
        self, names: Sequence[str], places: Sequence[Point], boxes: Sequence[Box]
    ) -> tuple[list[Markup], list[Markup]]:
        leaders: list[Markup] = []
        texts: list[Markup] = []
        for name, (x, y), box in zip(names, places, boxes, strict=True):
            is_right = box.left > x
            edge = box.left + 2 if is_right else box.right - 2
            if abs(box.middle - y) > LABEL_HEIGHT / 3:
                leaders.append(_line(x, y, edge, box.middle, "link"))
            anchor: Anchor = "start" if is_right else "end"
            at = box.left + HALO if is_right else box.right - HALO
            texts.append(_text(at, box.middle + 4, name, anchor, "name halo"))
        return leaders, texts


def _excess_text(series: Series, axis: Axis) -> str:
    """Return the value of a line that ends above the axis, as the end of its name."""
    last = series.y[-1]
    return "" if last <= axis.high else f" (above: {format_number(last)})"


def _excess_width(series: Series, axis: Axis) -> float:
    return text_width(_excess_text(series, axis))


def _cut_line(points: Sequence[Point], top: float, bottom: float) -> list[list[Point]]:
    """Return the pieces of a line between two heights."""
    pieces: list[list[Point]] = [[]]
    for start, end in pairwise(points):
        inside = _cut_segment(start, end, top, bottom)
        if inside is None:
            continue
        if pieces[-1] and pieces[-1][-1] != inside[0]:
            pieces.append([])
        if not pieces[-1]:
            pieces[-1].append(inside[0])
        pieces[-1].append(inside[1])
    return pieces


def _cut_segment(start: Point, end: Point, top: float, bottom: float) -> tuple[Point, Point] | None:
    cut = _cut_polygon([start, end], top, bottom)
    return (cut[0], cut[1]) if len(cut) >= 2 else None


def _cut_polygon(points: Sequence[Point], top: float, bottom: float) -> list[Point]:
    """Cut a polygon at two heights (Sutherland and Hodgman)."""
    inside = list(points)
    for limit, sign in ((top, 1), (bottom, -1)):
        before = inside
        inside = []
        for index, (x, y) in enumerate(before):
            last_x, last_y = before[index - 1]
            was_in = sign * (last_y - limit) >= 0
            is_in = sign * (y - limit) >= 0
            if was_in != is_in and (len(points) > 2 or index):
                part = (limit - last_y) / (y - last_y)
                inside.append((last_x + part * (x - last_x), limit))
            if is_in:
                inside.append((x, y))
    return inside


# --- One row a name ---

# In pixels, chosen by eye.
ROW_HEIGHT = 20.0
BAR_HEIGHT = 13.0


@dataclass(frozen=True)
class Bar:
    """A bar that starts at 0, with a text beside it."""

    value: float
    text: str = ""
    is_hollow: bool = False
    colour: str = DATA


@dataclass(frozen=True)
class Row:
    """What is drawn beside a name; everything but the name may be left out."""

    name: str
    value: float | None = None  # a dot
    colour: str = DATA  # of the dot
    before: float | None = None  # an open dot, with a line to the value
    interval: tuple[float, float] | None = None
    bars: tuple[Bar, ...] = ()
    text: str = ""  # right of dots and interval
    description: str = ""  # a tooltip

    @property
    def height(self) -> float:
        """The height that the row needs, in pixels."""
        return ROW_HEIGHT if len(self.bars) < 2 else 8 + (BAR_HEIGHT + 3) * len(self.bars)


def plot_rows(
    groups: Mapping[str, Sequence[Row]],
    axis: Axis,
    *,
    label: str,
    width: float = 720,
    names_width: float = 190,
    text_room: float = 0,
    reference: float | None = None,
    is_interactive: bool = False,
) -> Drawing:
    """Draw one row a name, with bars, dots and intervals.

    Args:
        groups: Rows by heading; a heading that is empty is not drawn.
        axis: The axis of the values; without ticks it is not drawn.
        label: What the picture shows, for people who cannot see it.
        width: Width of the whole picture, in pixels.
        names_width: Room for names left of the axis, in pixels.
        text_room: Room for texts right of the axis, in pixels.
        reference: A value to compare with, as a dashed line.
        is_interactive: Whether rows can be reached by keyboard.
    """
    first = names_width + 10
    last = width - 10 - text_room
    column = _Column(axis, first, last, width, is_interactive=is_interactive)
    parts: list[Markup] = []
    y = 4.0
    for heading, rows in groups.items():
        if heading:
            parts.append(_text(first, y + 14, heading, style="dim halo"))
            y += ROW_HEIGHT
        for row in rows:
            parts.append(column.draw_row(row, y))
            y += row.height
    bottom = y + 4
    back: list[Markup] = []
    ticks = [*axis.ticks, *([(math.inf, axis.beyond)] if axis.beyond else [])]
    for value, text in ticks:
        x = column.x(value)
        back.append(_line(x, 0, x, bottom, "grid"))
        back.append(_text(x, bottom + 16, text, "middle", "dim"))
    if reference is not None:
        x = column.x(reference)
        back.append(_line(x, 0, x, bottom, "reference"))
    height = bottom + (22 if ticks else 2)
    title = _wrap(axis.title, width)
    back += _axis_title(title, (first + last) / 2, height + 12, width)
    height += _title_height(title)
    return Drawing(width, height, Markup("").join([*back, *parts]), label, is_interactive)


@dataclass(frozen=True)
class _Column:
    """The part right of the names, in pixels: turns values into places, and draws rows there."""

    axis: Axis
    first: float
    last: float
    width: float
    is_interactive: bool = field(kw_only=True)

    def x(self, value: float) -> float:
        return self.axis.place(value, self.first, self.last)

    def draw_row(self, row: Row, top: float) -> Markup:
        y = top + row.height / 2
        parts: list[Markup] = []
        if self.is_interactive:
            area = _element(
                "rect", x=0.0, y=top, width=float(self.width), height=row.height,
                fill="transparent",
            )  # fmt: skip
            parts.append(area)
        name = shorten(row.name, self.first - 12)
        tooltip = "" if name == row.name else row.name
        parts.append(_text(self.first - 10, y + 4, name, "end", tooltip=tooltip))
        parts += self._draw_bars(row, top)
        parts += self._draw_marks(row, y)
        return _mark(row.description, parts, is_interactive=self.is_interactive)

    def _draw_bars(self, row: Row, top: float) -> list[Markup]:
        parts: list[Markup] = []
        first = top + (3.5 if len(row.bars) < 2 else 5)
        for index, bar in enumerate(row.bars):
            y = first + index * (BAR_HEIGHT + 3)
            length = self.x(bar.value) - self.first
            style = "ring" if bar.is_hollow else "bar"
            parts.append(
                _rect(self.first, y, max(length, 0.0), BAR_HEIGHT, f"{style} {bar.colour}")
            )
            if bar.text and row.interval is None:
                parts.append(_text(self.first + length + 6, y + 11, bar.text, style="dim"))
        return parts

    def _draw_marks(self, row: Row, y: float) -> list[Markup]:
        parts: list[Markup] = []
        if row.before is not None and row.value is not None:
            parts.append(_line(self.x(row.before), y, self.x(row.value), y, "link"))
        if row.interval is not None:
            parts += self._draw_interval(row, *row.interval, y)
        if row.before is not None:
            parts += self._draw_value(row.before, y, "public")
        if row.value is not None:
            parts += self._draw_value(row.value, y, f"dot {row.colour}")
        if row.text and row.value is not None:
            values = [row.value, row.before or row.value, *(row.interval or ())]
            parts.append(_text(max(map(self.x, values)) + 10, y + 4, row.text, style="halo"))
        return parts

    def _draw_value(self, value: float, y: float, style: str) -> list[Markup]:
        """Draw a dot; an arrow where the value lies beyond the axis, as 0 does on a log axis."""
        if self.axis.contains(value):
            return [_dot(self.x(value), y, style)]
        is_below = value < self.axis.low
        if self.axis.is_log and value <= 0:
            return [_arrow(self.first, y, "left")]
        end = self.x(value)
        dot_x = end + 9 if is_below else end - 9
        return [_dot(dot_x, y, style), _arrow(end, y, "left" if is_below else "right")]

    def _draw_interval(self, row: Row, low: float, high: float, y: float) -> list[Markup]:
        """Draw a line with a cap at each end, or with an arrow where it continues."""
        start = self.x(low)
        end = self.x(high)
        parts = []
        if row.bars:  # a bar of any colour lies below
            parts.append(_line(start - 2, y, end + 2, y, "under"))
        parts.append(_line(start, y, end, y, "whisker"))
        if self.axis.part(high) > 1 + 1e-9:
            parts.append(_arrow(end, y, "right"))
        else:
            parts.append(_line(end, y - 4, end, y + 4, "whisker"))
        if self.axis.part(low) < -1e-9:
            parts.append(_arrow(start, y, "left"))
        else:
            parts.append(_line(start, y - 4, start, y + 4, "whisker"))
        if row.bars and row.bars[0].text:
            parts.append(_text(end + 8, y + 4, row.bars[0].text, style="dim"))
        return parts
