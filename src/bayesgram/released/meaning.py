"""What a card means for a person, in plain words and odds. Reads the card, nothing else.

Odds: (ε, δ)-DP compares the data with and without one user, so the odds that somebody is in the data change by at most
e^ε, up to δ. Between two texts that the same user could have written lie two such steps: e^(2ε).
"""

import math
from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal

from bayesgram.privacy.budget import Guarantee
from bayesgram.released.card import Card

LOOSE = 5.0  # ε from which a factor is hardly a limit: e⁵ = 148
NOT_COVERED = (
    "What is true of people in general: that a phrase is common, anybody could learn if you had never written a word.",
    "One person with several ids. Each id is protected by itself: k ids cost about k times the ε.",
    "Other releases about the same people. Their ε and δ add up, or less by a ledger.",
    "Those who hold the text, and whatever else they show: a score against private data, an exact number of users.",
    "A vocabulary or settings that were chosen by looking at the private text. Nobody can see that from the release.",
    "The time and memory that the run took.",
)
EMPIRICAL = (
    "Nothing for certain. ε = {epsilon} is the claim of the paper that this mechanism comes from. Its noise is set from"
    " this very dataset, so the noise itself tells who is there: docs/errata.md, E1."
)


def what_epsilon_means(card: Card) -> list[str]:
    """Sentences about ε and δ, for somebody who wonders whether to be in the data."""
    if card.epsilon is None:
        return ["No ε is claimed: this mechanism adds no noise. It is here to compare with."]
    if card.seeded:
        return ["Nothing. The noise was made from a seed, and whoever knows the seed can take it away again."]
    if card.guarantee is not Guarantee.PROVED:
        return [EMPIRICAL.format(epsilon=f"{card.epsilon:g}")]
    return [_epsilon(card.epsilon), _example(card.epsilon), _delta(card.delta or 0.0), _two_texts(card.epsilon)]


def not_covered(card: Card) -> tuple[str, ...]:
    """What the guarantee says nothing about; where there is none, that."""
    return NOT_COVERED if card.guarantee is Guarantee.PROVED else ("Everything: no bound is proved for this release.",)


def odds_factor(epsilon: float) -> str:
    """e^ε for a person, rounded up: it is a limit.

    >>> odds_factor(0.1), odds_factor(1.0), odds_factor(10.0), odds_factor(100.0)
    ('1.11', '2.72', '22,027', '2.7e+43')
    """
    factor = math.exp(epsilon)
    if factor >= 1e6:
        return f"{factor:.1e}"
    return f"{_rounded(factor, '0.01', ROUND_CEILING)}" if factor < 100 else f"{math.ceil(factor):,}"


def chance(delta: float) -> str:
    """δ as a chance.

    >>> chance(1e-7), chance(0.25), chance(1e-30)
    ('1 in 10,000,000', '1 in 4', '1 in 1e+30')
    """
    turns = 1 / delta
    return f"1 in {math.floor(turns * (1 + 1e-12)):,}" if turns < 1e12 else f"1 in {turns:.2g}"


def believed(before: float, epsilon: float) -> tuple[str, str]:
    """Where somebody who held a thing for so likely can be brought, in percent: down, and up.

    >>> believed(0.1, 1.0)
    ('3.9', '23.2')
    """
    odds = before / (1 - before)
    low, high = (odds * math.exp(step) / (1 + odds * math.exp(step)) for step in (-epsilon, epsilon))
    return str(_rounded(100 * low, "0.1", ROUND_FLOOR)), str(_rounded(100 * high, "0.1", ROUND_CEILING))


def _rounded(value: float, to: str, way: str) -> Decimal:
    return Decimal(value).quantize(Decimal(to), rounding=way)


def _epsilon(epsilon: float) -> str:
    factor = odds_factor(epsilon)
    loose = " That is hardly a limit." if epsilon >= LOOSE else ""
    return (
        f"ε = {epsilon:g}: whatever anybody knows, and whatever they conclude from this release, your part in it"
        f" changes the chance of that conclusion by at most a factor of e^ε = {factor}.{loose}"
    )


def _example(epsilon: float) -> str:
    low, high = believed(0.1, epsilon)
    return (
        "For example: somebody holds it for 10% likely that your text is in the data. After a look at this release,"
        f" however clever, they may hold it for {high}% likely at most, and {low}% at least."
    )


def _delta(delta: float) -> str:
    if delta == 0:
        return "δ = 0: this limit has no exception."
    return (
        f"δ = {delta:g}: on top of that factor, a chance may grow by up to {chance(delta)}. Loosely: that is how often"
        " the limit may fail."
    )


def _two_texts(epsilon: float) -> str:
    return (
        "Between two things that you could have written, the factor is at most"
        f" e^(2ε) = {odds_factor(2 * epsilon)}: taking one away and adding the other are two steps."
    )
