"""What a card means for a person, in plain words and odds. Reads the card, nothing else.

(ε, δ)-DP compares the data with and without one user: P(E) ≤ e^ε P′(E) + δ for every event E, both ways round. For
δ = 0 that is a limit on odds. For δ > 0 a release tells no more about which of the two datasets it was than an answer
which is the truth with probability δ, and has odds within e^ε otherwise (Kairouz, Oh, Viswanath: The Composition
Theorem for Differential Privacy). Between two texts that one user could have written lie two such steps, and the
bounds multiply: P(E) ≤ e^ε (e^ε P″(E) + δ) + δ = e^(2ε) P″(E) + (1 + e^ε) δ.
"""

import math
from dataclasses import dataclass

from bayesgram.privacy.budget import Guarantee
from bayesgram.released.card import Card
from bayesgram.released.labels import unproved_sentence
from bayesgram.released.odds import believed, chance, odds_factor, two_digits_up
from bayesgram.released.origins import DISCOVERY

NOT_COVERED = (
    "What is true of people in general: that a phrase is common, anybody could learn if you had never written a word.",
    "One person with several ids. Each is protected by itself: k ids cost k times the ε, and at least k times the δ.",
    "Other releases about the same people. Their ε and δ add up, or less by a ledger.",
    "Those who hold the text, and whatever else they show: a score against private data, an exact number of users.",
    "A vocabulary or settings that were chosen by looking at the private text. Nobody can see that from the release.",
    "The time and memory that the run took.",
)
SHARED = (
    "A string that many people share, such as the number of a support line or a password that everybody was given: it"
    " is discovered like any other word."
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
    weakened = unproved_sentence(card.ingredients)
    if weakened is not None:
        return [f"Nothing. It was {weakened}."]
    if card.guarantee is not Guarantee.PROVED:
        return [EMPIRICAL.format(epsilon=f"{card.epsilon:g}")]
    epsilon, delta, whose = card.epsilon, card.delta or 0.0, _Subject.of(card)
    return [
        _epsilon(epsilon, delta, whose),
        _example(epsilon, delta, whose),
        _delta(delta, whose),
        _two_texts(epsilon, delta, whose),
    ]


def not_covered(card: Card) -> tuple[str, ...]:
    """What the guarantee says nothing about; where there is none, that."""
    if card.guarantee is not Guarantee.PROVED:
        return ("Everything: no bound is proved for this release.",)
    return (*NOT_COVERED, SHARED) if card.discovered or card.mechanism == DISCOVERY else NOT_COVERED


@dataclass(frozen=True)
class _Subject:
    """What a promise is about, in the words of its sentences: a person's text, or less."""

    part: str  # whose presence changes little
    text: str  # what is in the data or not
    everything: str  # what would be shown at worst
    two: str  # between which contents there are two steps

    @classmethod
    def of(cls, card: Card) -> "_Subject":
        if card.is_person:
            return cls("your part in it", "your text", "everything you wrote", "two things that you could have written")
        unit = f"one unit ({card.unit_shown})"
        return cls(f"{unit} in it or not", unit, f"everything in {unit}", f"two contents of {unit}")


def _epsilon(epsilon: float, delta: float, whose: _Subject) -> str:
    return (
        f"ε = {epsilon:g}: whatever anybody knows, and whatever they conclude from this release, {whose.part}"
        f" changes the chance of that conclusion by at most a factor of e^ε = {odds_factor(epsilon)}"
        f"{', plus δ' if delta else ''}."
    )


def _example(epsilon: float, delta: float, whose: _Subject) -> str:
    low, high = believed(0.1, epsilon)
    return (
        f"For example{', δ left aside' if delta else ''}: somebody holds it for 10% likely that {whose.text} is in the"
        f" data. After a look at this release, however clever, they may hold it for {high}% likely at most, and {low}%"
        " at least."
    )


def _delta(delta: float, whose: _Subject) -> str:
    if delta == 0:
        return "δ = 0: this limit has no exception."
    return (
        f"δ = {delta:g}: on top of that factor, the chance of a conclusion may grow by up to {chance(delta)}. At worst"
        f" it is as if, with that chance, {whose.everything} were shown, and the limit held otherwise."
    )


def _two_texts(epsilon: float, delta: float, whose: _Subject) -> str:
    factor, steps = odds_factor(2 * epsilon), "taking one away and adding the other are two steps"
    if delta == 0:
        return f"Between {whose.two}, the factor is at most e^(2ε) = {factor}: {steps}."
    more = (1 + math.exp(epsilon)) * delta
    void = " A chance can't grow by 1 or more, so this is no limit." if more >= 1 else ""
    return (
        f"Between {whose.two}, the factor is at most e^(2ε) = {factor}, plus"
        f" (1 + e^ε)δ = {two_digits_up(more)}: {steps}.{void}"
    )
