"""What the card of a release means for people: ε and δ in plain words, and a verdict.

Two readers are served: somebody whose text may be in the data (`explain_epsilon`,
`list_not_covered`), and whoever decides whether a release may be published (`verdict`). Both are
answered from cards alone.

(ε, δ)-DP compares the data with and without one user: P(E) ≤ e^ε P′(E) + δ for every event E, both
ways round. For δ = 0 that is a limit on odds. For δ > 0 a release tells no more about which of the
two datasets it was than an answer which is the truth with probability δ, and has odds within e^ε
otherwise (Kairouz, Oh, Viswanath: The Composition Theorem for Differential Privacy). Between two
texts that one user could have written lie two such steps, and the bounds multiply:
P(E) ≤ e^ε (e^ε P″(E) + δ) + δ = e^(2ε) P″(E) + (1 + e^ε) δ.

A card can't tell whether the conditions of a promise hold (one id a person, settings chosen without
looking at private text): the curator knows, and the verdict says so.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from bayesgram.privacy.budget import Guarantee
from bayesgram.releases.card import Card
from bayesgram.releases.card_sections import (
    Grade,
    belief_bounds,
    format_chance,
    format_odds_factor,
    format_rounded_up,
)
from bayesgram.releases.provenance import DISCOVERY_MECHANISM, unproved_sentence
from bayesgram.version import page_pointer

# --- What ε and δ mean ---

NOT_COVERED = (
    (
        "What is true of people in general: that a phrase is common, anybody could learn if you had"
        " never written a word."
    ),
    (
        "One person with several ids. Each is protected by itself: k ids cost k times the ε, and at"
        " least k times the δ."
    ),
    "Other releases about the same people. Their ε and δ add up, or less by a ledger.",
    (
        "Those who hold the text, and whatever else they show: a score against private data, an"
        " exact number of users."
    ),
    (
        "A vocabulary or settings that were chosen by looking at the private text. Nobody can see"
        " that from the release."
    ),
    "The time and memory that the run took.",
)
SHARED_STRINGS = (
    "A string that many people share, such as the number of a support line or a password that"
    " everybody was given: it is discovered like any other word."
)
EMPIRICAL = (
    "Nothing for certain. ε = {epsilon} is the claim of the paper that this mechanism comes from."
    " Its noise is set from this very dataset, so the noise itself tells who is there:"
    f" {page_pointer('errata')}, E1."
)


def explain_epsilon(card: Card) -> list[str]:
    """Return sentences about ε and δ, for somebody who wonders whether to be in the data."""
    if card.epsilon is None:
        return ["No ε is claimed: this mechanism adds no noise. It is here to compare with."]
    if card.seeded:
        sentence = "Nothing. The noise was made from a seed, and whoever knows the seed can take it"
        return [f"{sentence} away again."]
    weakened = unproved_sentence(card.ingredients)
    if weakened is not None:
        return [f"Nothing. It was {weakened}."]
    if card.guarantee is not Guarantee.PROVED:
        return [EMPIRICAL.format(epsilon=f"{card.epsilon:g}")]
    delta = card.delta or 0.0
    subject = _Subject.from_card(card)
    return [
        _explain_factor(card.epsilon, delta, subject),
        _give_example(card.epsilon, delta, subject),
        _explain_delta(delta, subject),
        _explain_two_texts(card.epsilon, delta, subject),
    ]


def list_not_covered(card: Card) -> tuple[str, ...]:
    """Return what the guarantee says nothing about; where there is no guarantee, that."""
    if card.guarantee is not Guarantee.PROVED:
        return ("Everything: no bound is proved for this release.",)
    if card.discoveries_sentence or card.mechanism == DISCOVERY_MECHANISM:
        return (*NOT_COVERED, SHARED_STRINGS)
    return NOT_COVERED


@dataclass(frozen=True)
class _Subject:
    """What a promise is about, in the words of its sentences: a person's text, or less."""

    presence: str  # whose presence changes little
    text: str  # what is in the data or not
    everything: str  # what would be shown at worst
    two_contents: str  # between which contents there are two steps

    @classmethod
    def from_card(cls, card: Card) -> "_Subject":
        if card.is_person:
            return cls(
                "your part in it",
                "your text",
                "everything you wrote",
                "two things that you could have written",
            )
        unit = f"one unit ({card.unit_text})"
        return cls(f"{unit} in it or not", unit, f"everything in {unit}", f"two contents of {unit}")


def _explain_factor(epsilon: float, delta: float, subject: _Subject) -> str:
    return (
        f"ε = {epsilon:g}: whatever anybody knows, and whatever they conclude from this release,"
        f" {subject.presence} changes the chance of that conclusion by at most a factor of"
        f" e^ε = {format_odds_factor(epsilon)}{', plus δ' if delta else ''}."
    )


def _give_example(epsilon: float, delta: float, subject: _Subject) -> str:
    low, high = belief_bounds(0.1, epsilon)
    return (
        f"For example{', δ left aside' if delta else ''}: somebody holds it for 10% likely that"
        f" {subject.text} is in the data. After a look at this release, however clever, they may"
        f" hold it for {high}% likely at most, and {low}% at least."
    )


def _explain_delta(delta: float, subject: _Subject) -> str:
    if delta == 0:
        return "δ = 0: this limit has no exception."
    return (
        f"δ = {delta:g}: on top of that factor, the chance of a conclusion may grow by up to"
        f" {format_chance(delta)}. At worst it is as if, with that chance,"
        f" {subject.everything} were shown, and the limit held otherwise."
    )


def _explain_two_texts(epsilon: float, delta: float, subject: _Subject) -> str:
    factor = format_odds_factor(2 * epsilon)
    steps = "taking one away and adding the other are two steps"
    if delta == 0:
        return f"Between {subject.two_contents}, the factor is at most e^(2ε) = {factor}: {steps}."
    added = (1 + math.exp(epsilon)) * delta
    void = " A chance can't grow by 1 or more, so this is no limit." if added >= 1 else ""
    return (
        f"Between {subject.two_contents}, the factor is at most e^(2ε) = {factor}, plus"
        f" (1 + e^ε)δ = {format_rounded_up(added)}: {steps}.{void}"
    )


# --- Whether a release may be published ---

FIT = "May be published if the conditions below hold"
REVIEW = "May be published after a review, if the conditions below hold"
WEAK = "Proved, but weak"
UNFIT = "Must not be published"
PRIVATE = (
    "This page has private numbers, so the page itself must not be published. What it reports on:"
)
UNREVIEWED = (
    "Nobody has reviewed the discovered strings yet, and many people can share a secret: decide"
    " about each of them first (bayesgram review)."
)
ONE_BUDGET = (
    "Segments of one release, and what was inferred from its measurements again, share one budget."
)
ADD_UP = "ε and δ of releases about the same people add up."


@dataclass(frozen=True)
class CuratorStatements:
    """What the keeper of the data says of it; nothing here is checked."""

    population: str | None = None  # whose text it is
    period: str | None = None  # from when

    @property
    def items(self) -> list[tuple[str, str]]:
        """The names and texts of the statements that were made."""
        statements = [("Population", self.population), ("Period", self.period)]
        return [(name, text) for name, text in statements if text]


def verdict(cards: Sequence[tuple[str, Card]], *, private: bool = False) -> str:
    """Say whether releases and discoveries may be published, as far as their cards can tell.

    Args:
        cards: The name and the card of each.
        private: Whether the page that shows the verdict has numbers computed from private data.

    Returns:
        Some sentences: a verdict for each grade, why, and how budgets add up.
    """
    sentences = [PRIVATE] if private else []
    if len(cards) == 1:
        card = cards[0][1]
        sentences.append(f"{grade_release(card)}: {explain_grade(card)}.")
    else:
        for grade in (FIT, REVIEW, WEAK, UNFIT):
            names = [name for name, card in cards if grade_release(card) == grade]
            if names:
                sentences.append(f"{grade}: {', '.join(names)}.")
    if any(card.is_unreviewed and card.guarantee is Guarantee.PROVED for _, card in cards):
        sentences.append(UNREVIEWED)
    return " ".join([*sentences, *_explain_budgets([card for _, card in cards])])


def grade_release(card: Card) -> str:
    """Return whether a release protects people, as far as its card can say."""
    if card.guarantee is not Guarantee.PROVED or card.grade is Grade.WORTHLESS:
        return UNFIT
    if card.grade is Grade.WEAK:
        return WEAK
    return REVIEW if card.is_unreviewed else FIT


def explain_grade(card: Card) -> str:
    """Return why, with the numbers and the unit that they are for."""
    if card.guarantee is not Guarantee.PROVED:
        weakened = unproved_sentence(card.ingredients)
        return f"nothing is proved of it ({card.claim}){f'; it was {weakened}' if weakened else ''}"
    factor = format_odds_factor(card.epsilon or 0.0)
    about = "one user" if card.is_person else f"one unit ({card.unit_text})"
    exception = f", except with probability δ = {card.delta:g}" if card.delta else ""
    limit = (
        f"nobody's odds about {about} change by more than a factor of {factor}{exception}"
        f" ({card.claim})"
    )
    return f"{limit}, and that protects nobody" if card.grade is Grade.WORTHLESS else limit


def _explain_budgets(cards: Sequence[Card]) -> list[str]:
    """How budgets of several releases add up: those from the same noisy answers have one."""
    keys = [card.budget_key for card in cards if card.budget_key is not None]
    sentences = [ONE_BUDGET] if len(keys) > len(set(keys)) else []
    budgets = len(set(keys)) + len(cards) - len(keys)
    return [*sentences, ADD_UP] if budgets > 1 else sentences
