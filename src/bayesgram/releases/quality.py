"""How good a release is, in sentences: what it covers, what it learnt, and how sure it is.

In:  the details of a card. `coverage`, `quality` and `std_parts` are computed from noisy counts by
     the mechanism, so they are as public as the release; other mechanisms and older releases lack
     them, and then nothing is said.
Out: sentences that the card, the terminal, the report and the page show, and the numbers behind
     them (`read_quality`).

- **Coverage** is the share of people's n-grams of one order that the vocabulary lists. Its ± is
  two standard deviations, the half-width of a 95% interval.
- **Error removed** is 1 − KL(people ‖ release)/KL(people ‖ public text), over listed n-grams.
- **Known** is the expected number of n-grams whose released probability is within a factor of 2 of
  the truth (`intervals.probability_within_factor`).
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from bayesgram.releases.card_sections import join_words, order_name
from bayesgram.releases.intervals import INTERVAL_STDS, KNOWN_FACTOR

# Names of details, each by order as text.
COVERAGE_DETAIL = "coverage"  # `share` and `std`, or None where it is unknown
ROWS_DETAIL = "rows"  # whether an n-gram is a whole row
QUALITY_DETAIL = "quality"  # `error_removed`, `known` and `known_mass`
STD_PARTS_DETAIL = "std_parts"  # `noise`, `shrinkage` and `clipping`
QUALITY_DETAILS = (COVERAGE_DETAIL, QUALITY_DETAIL, STD_PARTS_DETAIL)

# Below this coverage, surely, a release says nothing about most of what people write, and a longer
# list is worth more than a larger ε. Chosen by hand.
LOW_COVERAGE = 0.3
# Below this share of the error removed, a release is called public text. Chosen by hand: the
# smallest share that is shown as a whole percent.
MIN_ERROR_REMOVED = 0.01
# Half-width of the 95% interval of coverage from which on nothing is known. Chosen by hand.
MAX_HALF_WIDTH = 0.5
RANKED_FIRST = 200  # n-grams that the parts of the deviation are averaged over

DEVIATIONS_TARGET = "Standard deviations are for what people wrote, every occurrence counted."
PUBLIC_TEXT = "the release is public text: noise hides what people write"
ESTIMATED = "an estimated "
STD_PARTS = ("noise", "shrinkage", "clipping")  # causes of a deviation, as the card names them


# --- Numbers ---


@dataclass(frozen=True)
class Coverage:
    """The estimated share of people's n-grams that the vocabulary lists."""

    share: float
    std: float

    @property
    def half_width(self) -> float:
        """Half of the 95% interval."""
        return INTERVAL_STDS * self.std

    @property
    def is_low(self) -> bool:
        """Whether the share is surely below `LOW_COVERAGE`."""
        return self.share + self.half_width < LOW_COVERAGE

    @property
    def is_hidden(self) -> bool:
        """Whether noise leaves most of the range from 0 to 1 possible."""
        return self.half_width >= MAX_HALF_WIDTH

    @property
    def percent_text(self) -> str:
        """The share and its half-width in percent, never ± 0%; a bound where ± leaves 0 to 100%.

        >>> Coverage(0.173, 0.009).percent_text
        '17% ± 2%'
        >>> Coverage(0.173, 0.0001).percent_text
        '17% ± less than 1%'
        >>> Coverage(0.001, 0.0001).percent_text
        'less than 1%'
        >>> Coverage(0.95, 0.07).percent_text, Coverage(0.1, 0.1).percent_text
        ('at least 81%', 'at most 30%')
        """
        is_near_end = format_percent(self.share) not in {f"{n}%" for n in range(1, 100)}
        if is_near_end and self.half_width < 0.01:
            return format_percent(self.share)
        low = self.share - self.half_width
        high = self.share + self.half_width
        if low > 0 and high > 1:
            return f"at least {format_percent(low)}"
        if low < 0:
            return f"at most {format_percent(min(high, 1.0))}"
        half_width = "less than 1%"
        if self.half_width >= 0.005:
            half_width = f"{100 * self.half_width:.0f}%"
        return f"{format_percent(self.share)} ± {half_width}"


@dataclass(frozen=True)
class OrderQuality:
    """What a card says of the n-grams of one order; None where it does not say.

    Attributes:
        order: The number of tokens.
        coverage: The share of people's n-grams that the vocabulary lists.
        is_coverage_unknown: Whether the card says that nobody measured the coverage.
        error_removed: The estimated share of public text's error that the release removes.
        known: The expected number of n-grams within a factor of 2 of the truth.
        known_mass: The share of people's listed text that these make up.
        is_rows: Whether an n-gram is a whole row.
    """

    order: int
    coverage: Coverage | None = None
    is_coverage_unknown: bool = False
    error_removed: float | None = None
    known: float | None = None
    known_mass: float | None = None
    is_rows: bool = False

    @property
    def name(self) -> str:
        """What its n-grams are called."""
        return order_name(self.order, is_rows=self.is_rows)


def read_quality(details: Mapping[str, Any]) -> dict[int, OrderQuality]:
    """Return what the details of a card say about the quality of each order, short ones first.

    Empty if they say nothing.
    """
    coverages = details.get(COVERAGE_DETAIL, {})
    qualities = details.get(QUALITY_DETAIL, {})
    by_order = {}
    for order in sorted({*map(int, coverages), *map(int, qualities)}):
        coverage = coverages.get(str(order))
        values = qualities.get(str(order), {})
        by_order[order] = OrderQuality(
            order,
            None
            if coverage is None
            else Coverage(float(coverage["share"]), float(coverage["std"])),
            is_coverage_unknown=str(order) in coverages and coverage is None,
            error_removed=values.get("error_removed"),
            known=values.get("known"),
            known_mass=values.get("known_mass"),
            is_rows=bool(details.get(ROWS_DETAIL)),
        )
    return by_order


# --- Sentences ---


def describe_quality(details: Mapping[str, Any]) -> list[str]:
    """Return everything that is said of the quality: summary, advice and deviations."""
    others = (coverage_advice(details), deviations_sentence(details))
    return [*summary_sentences(details), *(sentence for sentence in others if sentence)]


def summary_sentences(details: Mapping[str, Any]) -> list[str]:
    """Say how much the vocabulary covers and the release learnt.

    It is one sentence where there is one order. For several, each sentence has all orders.

    >>> details = {
    ...     "coverage": {"2": {"share": 0.173, "std": 0.009}},
    ...     "quality": {"2": {"error_removed": 0.8, "known": 2104.2, "known_mass": 0.41}},
    ... }
    >>> print(*summary_sentences(details))
    The vocabulary covers 17% ± 2% of people's bigrams; on those, the release removes an estimated
    80% of public text's error; 2,100 n-grams are known within a factor of 2.
    """
    qualities = [*read_quality(details).values()]
    if len(qualities) == 1:
        return [_summarise_order(qualities[0])]
    sentences = [describe_coverage(qualities), *_summarise_learnt(qualities)]
    return [sentence for sentence in sentences if sentence]


def coverage_advice(details: Mapping[str, Any]) -> str | None:
    """Say what to do where the vocabulary surely covers little; None where it does not."""
    orders = [
        quality.name
        for quality in read_quality(details).values()
        if quality.coverage is not None and quality.coverage.is_low
    ]
    if not orders:
        return None
    return (
        f"Most of people's {join_words(orders)} are not in the vocabulary, and the release says"
        " nothing about them. Make a larger vocabulary (bayesgram vocab), take public text that is"
        " nearer to what people write, or find n-grams that public text lacks (bayesgram"
        " discover)."
    )


def deviations_sentence(details: Mapping[str, Any]) -> str | None:
    """Say what the deviations are for, and what they are made of; None if the card does not.

    >>> parts = {"noise": 0.12, "shrinkage": 0.2, "clipping": 0.08}
    >>> print(deviations_sentence({"std_parts": {"2": parts}}))
    Standard deviations are for what people wrote, every occurrence counted. For the 200 bigrams
    that the release ranks first, they are 12% of the probability by noise, 20% by shrinkage and 8%
    by clipping.
    """
    by_order = details.get(STD_PARTS_DETAIL, {})
    if not by_order:
        return None
    orders = sorted(map(int, by_order))
    percents = [
        [format_percent(by_order[str(order)][name]) for name in STD_PARTS] for order in orders
    ]
    first, *others = percents
    noise, shrinkage, clipping = first
    parts = (
        f"{noise} of the probability by noise, {shrinkage} by shrinkage and {clipping} by clipping"
    )
    is_rows = bool(details.get(ROWS_DETAIL))
    ngrams = order_name(orders[0], is_rows=is_rows)
    if others:
        ngrams = "n-grams of each order"
        more = zip(others, orders[1:], strict=True)
        parts = "; ".join(
            [
                f"{parts} ({order_name(orders[0])})",
                *(f"{join_words(shares)} ({order_name(order)})" for shares, order in more),
            ]
        )
    return (
        f"{DEVIATIONS_TARGET} For the {RANKED_FIRST} {ngrams} that the release ranks first, they"
        f" are {parts}."
    )


def format_percent(share: float) -> str:
    """Return a share in whole percent; 0% and 100% only where it is exactly that.

    >>> [format_percent(share) for share in (0.0, 0.004, 0.173, 0.997, 1.0, 1.5, 1e9)]
    ['0%', 'less than 1%', '17%', 'more than 99%', '100%', '150%', 'more than 1,000%']
    """
    if 0 < share < 0.005:
        return "less than 1%"
    if 0.995 <= share < 1:
        return "more than 99%"
    if share > 10:
        return "more than 1,000%"
    return f"{100 * share:.0f}%"


def _summarise_order(quality: OrderQuality) -> str:
    ngrams = quality.name
    learnt = _describe_learnt(quality)
    if quality.is_coverage_unknown:
        unknown = _describe_unknown_coverage(ngrams)
        return f"{unknown} On those that it lists, {learnt}." if learnt else unknown
    if quality.coverage is None:
        return f"On the listed {ngrams}, {learnt}."
    if quality.coverage.is_hidden:
        hidden = _describe_hidden_coverage(ngrams)
        return f"{hidden} On those that it lists, {learnt}." if learnt else hidden
    covered = f"The vocabulary covers {quality.coverage.percent_text} of people's {ngrams}"
    return f"{covered}; on those, {learnt}." if learnt else f"{covered}."


def _describe_learnt(quality: OrderQuality) -> str:
    """Say what the release knows beyond public text; empty where the card does not say."""
    if quality.error_removed is None or quality.known is None:
        return ""
    if quality.error_removed < MIN_ERROR_REMOVED:
        return PUBLIC_TEXT
    return (
        f"the release removes {_format_estimate(quality.error_removed)} of public text's"
        f" error; {_format_known(quality.known)} known within a factor of {KNOWN_FACTOR:g}"
    )


def describe_coverage(qualities: Sequence[OrderQuality]) -> str:
    """Say how much of each order the vocabulary covers; empty where the card does not say.

    >>> covered = [OrderQuality(n, Coverage(share, 0.01)) for n, share in ((1, 0.9), (2, 0.6))]
    >>> print(describe_coverage([*covered, OrderQuality(3, Coverage(0.5, 1.0))]))
    The vocabulary covers 90% ± 2% of people's words and 60% ± 2% of bigrams. Noise hides how much
    of people's trigrams the vocabulary covers.
    """
    shares = [
        f"{quality.coverage.percent_text} of {quality.name}"
        for quality in qualities
        if quality.coverage is not None and not quality.coverage.is_hidden
    ]
    hidden = [
        quality.name
        for quality in qualities
        if quality.coverage is not None and quality.coverage.is_hidden
    ]
    unknown = [quality.name for quality in qualities if quality.is_coverage_unknown]
    sentences = []
    if shares:
        shares[0] = shares[0].replace(" of ", " of people's ")
        sentences.append(f"The vocabulary covers {join_words(shares)}.")
    if hidden:
        sentences.append(_describe_hidden_coverage(join_words(hidden)))
    if unknown:
        sentences.append(_describe_unknown_coverage(join_words(unknown)))
    return " ".join(sentences)


def _describe_unknown_coverage(ngrams: str) -> str:
    return (
        f"How much of people's {ngrams} the vocabulary covers is unknown: the counts were made"
        " elsewhere."
    )


def _describe_hidden_coverage(ngrams: str) -> str:
    return f"Noise hides how much of people's {ngrams} the vocabulary covers."


def _summarise_learnt(qualities: Sequence[OrderQuality]) -> list[str]:
    """Say what the release knows beyond public text of several orders, where the card says it."""
    learnt = []
    known = []
    nothing_learnt = []
    for quality in qualities:
        if quality.error_removed is None or quality.known is None:
            continue
        ngrams = quality.name
        if quality.error_removed < MIN_ERROR_REMOVED:
            nothing_learnt.append(ngrams)
            continue
        learnt.append((_format_estimate(quality.error_removed), ngrams))
        known.append(_format_number_of(quality.known, ngrams))
    sentences = []
    if learnt:
        (share, ngrams), *others = learnt
        shares = [
            f"{share} of public text's error on listed {ngrams}",
            *(
                f"{other_share.removeprefix(ESTIMATED)} on {other_ngrams}"
                for other_share, other_ngrams in others
            ),
        ]
        sentences += [
            f"The release removes {join_words(shares)}.",
            f"Known within a factor of {KNOWN_FACTOR:g}: {join_words(known)}.",
        ]
    if nothing_learnt:
        sentences.append(f"For {join_words(nothing_learnt)}, {PUBLIC_TEXT}.")
    return sentences


def _format_estimate(share: float) -> str:
    """Return an estimated share in whole percent.

    >>> _format_estimate(0.8), _format_estimate(0.999)
    ('an estimated 80%', 'an estimated 99% or more')
    """
    percent = format_percent(share)
    return ESTIMATED + ("99% or more" if percent.startswith("more than") else percent)


def _format_known(known: float) -> str:
    """Return an expected number of n-grams with two digits, and its verb.

    >>> [_format_known(known) for known in (0.2, 1.3, 7.6, 2104.2, 123456.0)]
    ['no n-gram is', '1 n-gram is', '8 n-grams are', '2,100 n-grams are', '120,000 n-grams are']
    """
    number = _format_number_of(known, "n-grams")
    return f"{number} are" if number.endswith("s") else f"{number} is"


def _format_number_of(known: float, plural: str) -> str:
    """Return an expected number of something with two digits.

    >>> [_format_number_of(known, "words") for known in (0.2, 1.3, 2104.2)]
    ['no word', '1 word', '2,100 words']
    """
    if known < 100:
        rounded = round(known)
    else:
        step = 10 ** (math.floor(math.log10(known)) - 1)
        rounded = round(known / step) * step
    if rounded > 1:
        return f"{rounded:,} {plural}"
    return f"{rounded or 'no'} {plural.removesuffix('s')}"


# --- Checking card.json ---

_ORDERS = tuple("123456")
_LARGEST = 1e15  # no number here is larger


def has_valid_quality(details: Mapping[str, Any]) -> bool:
    """Return whether the three details have numbers in their ranges, where they are given."""
    coverage = details.get(COVERAGE_DETAIL, {})
    if not _is_by_order(coverage):
        return False
    known_coverage = [values for values in coverage.values() if values is not None]
    if not all(_has_numbers(values, {"share": 1.0, "std": _LARGEST}) for values in known_coverage):
        return False
    limits_by_detail = {
        QUALITY_DETAIL: {"error_removed": 1.0, "known": _LARGEST, "known_mass": 1.0},
        STD_PARTS_DETAIL: dict.fromkeys(STD_PARTS, _LARGEST),
    }
    return all(
        _is_by_order(details.get(detail, {}))
        and all(_has_numbers(values, limits) for values in details.get(detail, {}).values())
        for detail, limits in limits_by_detail.items()
    )


def _is_by_order(values: object) -> bool:
    return isinstance(values, dict) and all(order in _ORDERS for order in values)


def _has_numbers(values: object, limits: Mapping[str, float]) -> bool:
    """Return whether there is a number from 0 to its limit under each name."""
    if not isinstance(values, dict):
        return False
    return all(
        isinstance(values.get(name), int | float)
        and not isinstance(values[name], bool)
        and 0 <= values[name] <= limit
        for name, limit in limits.items()
    )
