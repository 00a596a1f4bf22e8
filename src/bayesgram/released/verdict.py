"""What whoever decides about releases wants to know first: one paragraph, made from their cards alone.

In:  names and cards, and whether the page has private numbers.   Out: a verdict.
It can't know whether the conditions of a promise hold (one id a person, settings chosen without looking at private
text): the curator does, and the verdict says so.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from bayesgram.privacy.budget import Guarantee
from bayesgram.released.card import Card
from bayesgram.released.labels import unproved_sentence
from bayesgram.released.odds import odds_factor
from bayesgram.released.weakness import Grade

FIT = "May be published if the conditions below hold"
REVIEW = "May be published after a review, if the conditions below hold"
WEAK = "Proved, but weak"
UNFIT = "Must not be published"
PRIVATE = "This page has private numbers, so the page itself must not be published. What it reports on:"
UNREVIEWED = (
    "Nobody has reviewed the discovered strings yet, and many people can share a secret: decide about each of them"
    " first (bayesgram review)."
)
ONE_BUDGET = "Segments of one release, and what was inferred from its measurements again, share one budget."
ADD_UP = "ε and δ of releases about the same people add up."


@dataclass(frozen=True)
class CuratorStatements:
    """What the keeper of the data says of it; nothing here is checked, and nothing is known otherwise."""

    population: str | None = None  # whose text it is
    period: str | None = None  # from when

    @property
    def told(self) -> list[tuple[str, str]]:
        """What was said."""
        given = [("Population", self.population), ("Period", self.period)]
        return [(name, said) for name, said in given if said]


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
        sentences.append(f"{grade_of(cards[0][1])}: {reason(cards[0][1])}.")
    else:
        by_grade = {
            grade: [name for name, card in cards if grade_of(card) == grade] for grade in (FIT, REVIEW, WEAK, UNFIT)
        }
        sentences += [f"{grade}: {', '.join(names)}." for grade, names in by_grade.items() if names]
    if any(card.is_unreviewed and card.guarantee is Guarantee.PROVED for _, card in cards):
        sentences.append(UNREVIEWED)
    return " ".join([*sentences, *_budgets([card for _, card in cards])])


def grade_of(card: Card) -> str:
    """Whether a release protects people, as far as its card can say."""
    if card.guarantee is not Guarantee.PROVED or card.grade is Grade.WORTHLESS:
        return UNFIT
    if card.grade is Grade.WEAK:
        return WEAK
    return REVIEW if card.is_unreviewed else FIT


def reason(card: Card) -> str:
    """Why, with the numbers and the unit that they are for."""
    if card.guarantee is not Guarantee.PROVED:
        weakened = unproved_sentence(card.ingredients)
        return f"nothing is proved of it ({card.claim}){f'; it was {weakened}' if weakened else ''}"
    factor = odds_factor(card.epsilon or 0.0)
    about = "one user" if card.is_person else f"one unit ({card.unit_shown})"
    except_for = f", except with probability δ = {card.delta:g}" if card.delta else ""
    limit = f"nobody's odds about {about} change by more than a factor of {factor}{except_for} ({card.claim})"
    return f"{limit}, and that protects nobody" if card.grade is Grade.WORTHLESS else limit


def _budgets(cards: Sequence[Card]) -> list[str]:
    """How the budgets of several releases go together: what was made from the same noisy answers has one."""
    known = [card.budget_key for card in cards if card.budget_key is not None]
    sentences = [ONE_BUDGET] if len(known) > len(set(known)) else []
    budgets = len(set(known)) + len(cards) - len(known)
    return [*sentences, ADD_UP] if budgets > 1 else sentences
