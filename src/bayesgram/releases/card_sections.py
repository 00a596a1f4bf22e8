"""The sections of a card that explain numbers: ε and δ, source weights, and norms of users.

- ε and δ as numbers that a person can use; limits are rounded to the side on which they stay true.
- Weaknesses: plain words where a promise holds and protects little. They follow from ε, δ and a
  public bound on the number of users. Whether a promise is proved is for the card to say.
- Source weights: which public text people's text resembles, by the learnt weights of sources.
- The norm histogram: how much users write, from the noisy histogram that chose the clip norm.

All of it is computed from released data.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal
from enum import StrEnum
from itertools import pairwise
from typing import Any

from bayesgram.privacy.constants import ACTIVITY_EDGES

# --- ε, δ and beliefs as numbers for a person ---


def format_odds_factor(epsilon: float) -> str:
    """Return e^ε for a person to read, rounded up, as it is a limit.

    >>> [format_odds_factor(epsilon) for epsilon in (0.1, 1.0, 10.0, 14.0, 100.0)]
    ['1.11', '2.72', '22,027', '1.3e+06', '2.7e+43']
    """
    factor = math.exp(epsilon)
    if factor >= 1e6:
        return format_rounded_up(factor)
    if factor >= 100:
        return f"{math.ceil(factor):,}"
    return str(_round(factor, "0.01", ROUND_CEILING))


def format_rounded_up(value: float) -> str:
    """Return a number with two significant digits, never below the value.

    >>> [format_rounded_up(value) for value in (3.71e-07, 1202604.3, 0.5, 1e-7)]
    ['3.8e-07', '1.3e+06', '0.5', '1e-07']
    """
    exact = Decimal(repr(value))  # as a person would write it: 1e-7 is one ten-millionth
    last_digit = Decimal((0, (1,), exact.adjusted() - 1))
    return f"{float(exact.quantize(last_digit, rounding=ROUND_CEILING)):g}"


def format_chance(delta: float) -> str:
    """Return δ as a chance, never below it.

    >>> format_chance(1e-7), format_chance(0.25), format_chance(1e-30), format_chance(0.9)
    ('1 in 10,000,000', '1 in 4', '1 in 1e+30', '90%')
    """
    if delta > 0.5:
        return f"{_round(100 * delta, '1', ROUND_CEILING)}%"
    one_in = 1 / delta
    return f"1 in {math.floor(one_in * (1 + 1e-12)):,}" if one_in < 1e12 else f"1 in {one_in:.2g}"


def belief_bounds(before: float, epsilon: float) -> tuple[str, str]:
    """Return how far ε lets a belief move, in percent: down, and up.

    Args:
        before: The probability that somebody gave to a statement before the release.
        epsilon: The ε of the release.

    >>> belief_bounds(0.1, 1.0)
    ('3.9', '23.2')
    """
    odds = before / (1 - before)
    lower_odds = odds * math.exp(-epsilon)
    upper_odds = odds * math.exp(epsilon)
    lower = _round(100 * (lower_odds / (1 + lower_odds)), "0.1", ROUND_FLOOR)
    upper = _round(100 * (upper_odds / (1 + upper_odds)), "0.1", ROUND_CEILING)
    return str(lower), str(upper)


def _round(value: float, step: str, rounding: str) -> Decimal:
    return Decimal(value).quantize(Decimal(step), rounding=rounding)


def format_number(value: object) -> object:
    """Return a float with six digits, unless they would turn 0.9999999 into 1; others as they are.

    >>> format_number(0.1234567), format_number(0.9999999), format_number("words")
    ('0.123457', 0.9999999, 'words')
    """
    if not isinstance(value, float) or (f"{value:.6g}" in {"0", "1"} and value not in {0.0, 1.0}):
        return value
    return f"{value:.6g}"


# --- Promises that protect little ---

# docs/howto/choose-epsilon-and-delta.md says the same of the four limits. No experiment chose them.
#
# ε: e^ε is the factor by which odds may change. At ε = 4, even odds that somebody is in the data
# may become 54.6 to 1: from there on a promise is weak. At ε = 10 they may become 22,027 to 1:
# whoever guesses is as good as certain.
WEAK_EPSILON = 4.0
WORTHLESS_EPSILON = 10.0
# δ: a mechanism that shows everything about each user with a chance of δ, and nothing otherwise, is
# (0, δ)-DP. So δ is a chance that one person takes, and of n people n·δ are shown on average. A
# chance of 1 in 10,000 is weak for anybody, and at 1 in 100 nobody can rely on it.
WEAK_DELTA = 1e-4
WORTHLESS_DELTA = 1e-2
# With a bound n on the number of users, a δ above 0.1/n is weak: it may well happen to somebody. In
# users that may be shown, on average.
MAX_EXPECTED_EXPOSED = 0.1
# 1e-7 is no more than 0.1 / 1,000,000, whatever binary fractions make of that.
ROUNDING = 1 + 1e-9


class Grade(StrEnum):
    """How little a proved promise protects. A usual promise has no grade."""

    WEAK = "weak"
    WORTHLESS = "worthless"


@dataclass(frozen=True)
class Weakness:
    """Why a promise protects little, as a sentence."""

    grade: Grade
    reason: str

    def __str__(self) -> str:
        return f"{self.grade.capitalize()}: {self.reason}"


def find_weaknesses(
    epsilon: float, delta: float, expected_users: int | None = None, *, who: str = "a user"
) -> list[Weakness]:
    r"""Return what makes a promise weak: ε, δ, or both; an empty list for a usual promise.

    Args:
        epsilon: ε.
        delta: δ.
        expected_users: A public bound on the number of users; None if there is none.
        who: What the promise protects.

    >>> for weakness in find_weaknesses(100.0, 0.5):
    ...     print(weakness)
    Worthless: ε = 100 allows odds to change by a factor of 2.7e+43: PROVED, and it protects nobody.
    Worthless: δ = 0.5 allows everything about a user to be shown with a chance of 1 in 2: PROVED,
    and no protection.
    >>> print(find_weaknesses(4.0, 1e-7)[0])
    Weak: ε = 4 allows odds to change by a factor of 54.60: even odds that a user is in the data may
    become 54.60 to 1.
    >>> print(find_weaknesses(1.0, 1e-6, expected_users=1_000_000)[0])
    Weak: δ = 1e-06 allows everything about 1 of 1,000,000 users to be shown, on average; stay far
    below 1/(number of users), at most 1e-07 here.
    >>> find_weaknesses(1.0, 1e-7, expected_users=1_000_000)
    []
    """
    weaknesses = (_epsilon_weakness(epsilon, who), _delta_weakness(delta, expected_users, who))
    return [weakness for weakness in weaknesses if weakness is not None]


def worst_grade(weaknesses: Sequence[Weakness]) -> Grade | None:
    """Return the worst grade among weaknesses; None if there are none."""
    grades = {weakness.grade for weakness in weaknesses}
    return next((grade for grade in (Grade.WORTHLESS, Grade.WEAK) if grade in grades), None)


def _epsilon_weakness(epsilon: float, who: str) -> Weakness | None:
    if epsilon < WEAK_EPSILON:
        return None
    factor = format_odds_factor(epsilon)
    allowed = f"ε = {epsilon:g} allows odds to change by a factor of {factor}"
    if epsilon >= WORTHLESS_EPSILON:
        return Weakness(Grade.WORTHLESS, f"{allowed}: PROVED, and it protects nobody.")
    return Weakness(
        Grade.WEAK,
        f"{allowed}: even odds that {who} is in the data may become {factor} to 1.",
    )


def _delta_weakness(delta: float, expected_users: int | None, who: str) -> Weakness | None:
    """Say that δ is worthless, or too much for so many users, or too much for anybody."""
    personal = (
        f"δ = {format_number(delta)} allows everything about {who} to be shown with a chance of"
    )
    if delta >= WORTHLESS_DELTA:
        return Weakness(
            Grade.WORTHLESS, f"{personal} {format_chance(delta)}: PROVED, and no protection."
        )
    if expected_users is not None and delta * expected_users > MAX_EXPECTED_EXPOSED * ROUNDING:
        exposed = format_rounded_up(delta * expected_users)
        return Weakness(
            Grade.WEAK,
            f"δ = {format_number(delta)} allows everything about {exposed} of"
            f" {expected_users:,} {'users' if who == 'a user' else 'units'} to be shown, on"
            " average; stay far below 1/(number of users), at most"
            f" {MAX_EXPECTED_EXPOSED / expected_users:g} here.",
        )
    if delta >= WEAK_DELTA:
        return Weakness(
            Grade.WEAK, f"{personal} {format_chance(delta)}; stay far below 1/(number of users)."
        )
    return None


# --- Which public text people's text resembles ---

SOURCE_WEIGHTS_DETAIL = "source_weights"  # its name in the details of a card
# People's text hardly resembles a source of less weight; where sources are many, one of less than
# half of its equal share. Not measured.
SMALL_WEIGHT = 0.1
MAX_NAMED_SOURCES = 3  # sources of small weight that are listed by name
UNKNOWN_SOURCES = "Too noisy to say which public text people's text resembles."


@dataclass(frozen=True)
class SourceWeight:
    """The share of what people write that a public source explains, and its noise."""

    name: str
    weight: float
    std: float

    @property
    def is_above_noise(self) -> bool:
        """Whether the weight is at least three standard deviations above 0."""
        return self.std < self.weight / 3

    def is_small(self, limit: float) -> bool:
        """Return whether the weight is below a limit, and surely not far above it."""
        return self.weight < limit and self.weight + 2 * self.std <= 2 * limit

    @property
    def interval(self) -> tuple[float, float]:
        """Two standard deviations to each side, within 0 and 1."""
        return max(self.weight - 2 * self.std, 0.0), min(self.weight + 2 * self.std, 1.0)

    @property
    def percent_text(self) -> str:
        """The weight with two standard deviations, in percent.

        >>> SourceWeight("reviews", 0.604, 0.007).percent_text
        '60% ± 1'
        >>> SourceWeight("wiki", 0.002, 0.0001).percent_text
        '0% ± 1'
        """
        return f"{100 * self.weight:.0f}% ± {min(max(round(200 * self.std), 1), 100)}"


def read_source_weights(details: Mapping[str, Any]) -> dict[int, list[SourceWeight]]:
    """Return the sources of each order, the shortest order and the heaviest source first.

    Empty if there is only one source.
    """
    orders = details.get(SOURCE_WEIGHTS_DETAIL, {})
    return {order: _heaviest_first(orders[str(order)]) for order in sorted(map(int, orders))}


def sources_sentence(details: Mapping[str, Any]) -> str | None:
    """Say which public text people's text resembles, by its longest n-grams; None for one source.

    >>> weights = {"wiki": 0.06, "reviews": 0.6, "talk": 0.34}
    >>> values = {name: {"weight": weight, "deviation": 0.005} for name, weight in weights.items()}
    >>> sources_sentence({SOURCE_WEIGHTS_DETAIL: {"3": values}})
    "People's text resembles reviews (60% ± 1) and talk (34% ± 1), but hardly wiki (6%)."
    """
    by_order = read_source_weights(details)
    return _describe_sources(by_order[max(by_order)]) if by_order else None


def _heaviest_first(weights: Mapping[str, Mapping[str, float]]) -> list[SourceWeight]:
    sources = [
        SourceWeight(name, float(values["weight"]), float(values["deviation"]))
        for name, values in weights.items()
    ]
    return sorted(sources, key=lambda source: -source.weight)


def _describe_sources(sources: Sequence[SourceWeight]) -> str:
    limit = min(SMALL_WEIGHT, 1 / (2 * len(sources)))
    large = [source for source in sources if source.weight >= limit and source.is_above_noise]
    small = [source for source in sources if source.is_small(limit)]
    unsure = [source for source in sources if source not in large and source not in small]
    if not large and not small:
        return UNKNOWN_SOURCES
    sentence = "People's text"
    if large:
        names = join_words([f"{source.name} ({source.percent_text})" for source in large])
        sentence = f"People's text resembles {names}"
    if small:
        names = _name_small_sources(small)
        sentence += f", but hardly {names}" if large else f" hardly resembles {names}"
    if unsure:
        return f"{sentence}. {_describe_unsure_sources(unsure, [*large, *small])}"
    return f"{sentence}."


def _describe_unsure_sources(unsure: Sequence[SourceWeight], sure: Sequence[SourceWeight]) -> str:
    """Say what is known of unsure sources together, which is what the sure ones leave.

    Sources that resemble each other hide one another.
    """
    names = join_words([source.name for source in unsure])
    weight = sum(source.weight for source in unsure)
    if len(unsure) > 1 and sum(source.std for source in sure) < weight / 3:
        return f"Too noisy to tell {names} apart ({_percent(weight)} together)."
    return f"For {names} it is too noisy to say."


def _name_small_sources(sources: Sequence[SourceWeight]) -> str:
    if len(sources) > MAX_NAMED_SOURCES:
        weight = sum(source.weight for source in sources)
        return f"{len(sources)} others ({_percent(weight)} together)"
    return join_words([f"{source.name} ({_percent(source.weight)})" for source in sources])


def _percent(weight: float) -> str:
    """Return whole percent; 0% only where it is exactly that."""
    return "<1%" if 0 < weight < 0.005 else f"{100 * weight:.0f}%"


def join_words(words: Sequence[str]) -> str:
    """Return words as people list them.

    >>> join_words(["a"]), join_words(["a", "b"]), join_words(["a", "b", "c"])
    ('a', 'a and b', 'a, b and c')
    """
    return " and ".join([", ".join(words[:-1]), words[-1]] if len(words) > 1 else words)


# --- How each order was measured ---

# The noise of the whole release over what one unit can change: σ of one Gaussian mechanism that
# costs as much as all of its measurements together.
TOTAL_NOISE_DETAIL = "total_noise_multiplier"
BY_ORDER_DETAIL = "by_order"  # the name of the detail: clip norm, noise and histogram by order


def measured_orders(details: Mapping[str, Any]) -> list[int]:
    """Return the orders that a card says how they were measured, ascending."""
    return sorted(map(int, details.get(BY_ORDER_DETAIL, {})))


def order_details(details: Mapping[str, Any], order: int | None = None) -> Mapping[str, Any]:
    """Return how the n-grams of an order were measured, from the details of a card.

    Args:
        details: The details.
        order: The order; None for the longest.

    Returns:
        The clip norm, the noise and the histogram of norms; nothing if the card does not say.
    """
    by_order: Mapping[str, Mapping[str, Any]] = details.get(BY_ORDER_DETAIL, {})
    if not by_order:
        return {}
    return by_order.get(str(max(map(int, by_order)) if order is None else order), {})


def clip_norms_text(details: Mapping[str, Any]) -> str:
    """Return the clip norm, or those of several orders; "" if the card does not say.

    >>> clip_norms_text({"by_order": {"1": {"clip_norm_used": 4.0}, "2": {"clip_norm_used": 2.83}}})
    '4 (words), 2.83 (bigrams)'
    """
    orders = measured_orders(details)
    norms = [f"{order_details(details, order)['clip_norm_used']:.3g}" for order in orders]
    if len(norms) < 2:
        return "".join(norms)
    return ", ".join(
        f"{norm} ({order_name(order)})" for norm, order in zip(norms, orders, strict=True)
    )


WITHHELD_DETAIL = "withheld"  # of an order in a series: the share that allowances leave out


def withheld_text(details: Mapping[str, Any]) -> str:
    """Return how much text allowances left out of a release of a series, and whose; "" if of none.

    >>> seldom, often = [
    ...     {"text": 0.5, "text_std": 0.1, "share": share, "std": 0.01} for share in (0.02, 0.63)
    ... ]
    >>> unknown = {"text": 0.0, "text_std": 0.1, "share": 0.0, "std": None}
    >>> classes = [seldom, unknown, unknown, unknown, often]
    >>> withheld = {"share": 0.33, "std": 0.01, "by_activity": classes}
    >>> withheld_text({"by_order": {"2": {"withheld": withheld}}})
    'Allowances leave out 33% ± 2% of the bigrams: 2% ± 2% of the text of people who write in up to
    10% of the releases so far, 63% ± 2% in more than 75%.'
    """
    parts = []
    by_activity: list[tuple[str, str]] = []
    unknown: list[str] = []
    for order in measured_orders(details):
        withheld = order_details(details, order).get(WITHHELD_DETAIL)
        if withheld is None:
            continue
        if is_hidden_share(withheld):
            unknown.append(order_name(order))
            continue
        parts.append(f"{_share_text(withheld)} of the {order_name(order)}")
        by_activity = describe_activity(withheld.get("by_activity", ()))
    hidden = ""
    if unknown:
        hidden = (
            f"Noise is too large to say how much of the {join_words(unknown)} allowances leave out."
        )
    if not parts:
        return hidden
    sentence = f"Allowances leave out {', '.join(parts)}"
    if not by_activity:
        return " ".join(filter(None, [f"{sentence}.", hidden]))
    (share, where), *others = by_activity
    listed = [f"{share} of the text of people who write in {where}"]
    listed += [f"{share} in {where}" for share, where in others]
    return " ".join(filter(None, [f"{sentence}: {', '.join(listed)}.", hidden]))


def describe_activity(classes: Sequence[Mapping[str, float]]) -> list[tuple[str, str]]:
    """Return what allowances leave out of the text of users, and how often these write.

    Classes of which noise hides it are left out.

    Args:
        classes: By how often users write, in the order of ACTIVITY_EDGES.
    """
    edges = [f"{edge:.0%}" for edge in ACTIVITY_EDGES]
    names = [
        f"up to {edges[0]} of the releases so far",
        *(f"{low} to {high}" for low, high in pairwise(edges)),
        f"more than {edges[-1]}",
    ]
    return [
        (_share_text(values), name)
        for name, values in zip(names, classes, strict=False)
        if not is_hidden_share(values)
    ]


def is_hidden_share(values: Mapping[str, float]) -> bool:
    """Return whether noise hides a share that allowances leave out."""
    return values["std"] is None


def _share_text(values: Mapping[str, float]) -> str:
    share = min(max(values["share"], 0.0), 1.0)
    return f"{share:.0%} ± {2 * values['std']:.0%}"


def order_name(order: int, *, is_rows: bool = False) -> str:
    """Return what n-grams of an order are called.

    >>> [order_name(order) for order in (1, 2, 3, 4)]
    ['words', 'bigrams', 'trigrams', '4-grams']
    >>> order_name(1, is_rows=True)
    'rows'
    """
    if is_rows:
        return "rows"
    return {1: "words", 2: "bigrams", 3: "trigrams"}.get(order, f"{order}-grams")


# --- How much users write ---


@dataclass(frozen=True)
class NormBin:
    """About how many users have a norm from `low` to `high`; noisy, so it can be below 0."""

    low: float
    high: float
    users: float
    clipped: bool  # whether users in it are clipped


# How to read the histogram of a release of a series, whose users have limits.
LIMITED_NORMS_NOTE = (
    "A user whose allowance permits half a contribution is drawn at twice their size, as half a"
    " user: the clip norm keeps as much of their text as it would there."
)


def has_limited_norms(details: Mapping[str, Any]) -> bool:
    """Return whether the histogram is of users who have allowances.

    >>> has_limited_norms({"by_order": {"2": {"withheld": {"share": 0.0, "std": 0.1}}}})
    True
    """
    return any(
        WITHHELD_DETAIL in order_details(details, order) for order in measured_orders(details)
    )


def norm_histogram_noise_std(details: Mapping[str, Any], order: int | None = None) -> float:
    """Return the standard deviation of the number of users in a bin; 0 if there is no histogram."""
    return float(order_details(details, order).get("users_noise", 0.0))


def norm_histogram(details: Mapping[str, Any], order: int | None = None) -> list[NormBin]:
    """Return the bins from the first to the last with users in them, from the details of a card.

    The norm is that of a user's n-grams of one order; by default the longest.

    A bin has users in it if their number is above three standard deviations of the noise. The
    histogram is empty if the clip norm was given and not chosen by a histogram.
    """
    measured = order_details(details, order)
    edges = measured.get("norm_edges", [])
    users = measured.get("noisy_users_by_norm", [])
    if not edges:
        return []
    clip_norm = measured["clip_norm_used"]
    noise = 3 * norm_histogram_noise_std(details, order)
    bins = [
        NormBin(low, high, number, clipped=low >= clip_norm)
        for low, high, number in zip([0.0, *edges], [*edges, math.inf], users, strict=True)
    ]
    occupied = [position for position, norm_bin in enumerate(bins) if norm_bin.users > noise]
    return bins[occupied[0] : occupied[-1] + 1] if occupied else []
