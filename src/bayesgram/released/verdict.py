"""What whoever decides about releases wants to know first: one line, made from their cards alone.

In:  names and cards.   Out: a verdict.   Does not know whether what a promise rests on holds (one id a person, settings
chosen without looking): the curator does, and the line says so.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from bayesgram.privacy.budget import Guarantee
from bayesgram.released.card import Card
from bayesgram.released.odds import odds_factor
from bayesgram.released.weakness import Grade

FIT, WEAK, UNFIT = "Fit to publish, if what it rests on holds", "Proved, but weak", "Not fit to publish"


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


def verdict(cards: Sequence[tuple[str, Card]]) -> str:
    """One line about all of them."""
    if len(cards) == 1:
        return f"{grade_of(cards[0][1])}: {reason(cards[0][1])}."
    sorted_ = {grade: [name for name, card in cards if grade_of(card) == grade] for grade in (FIT, WEAK, UNFIT)}
    listed = [f"{grade}: {', '.join(names)}." for grade, names in sorted_.items() if names]
    return " ".join([*listed, "Of those about the same people, ε and δ add up."])


def grade_of(card: Card) -> str:
    """Whether a release protects people, as far as its card can say."""
    if card.guarantee is not Guarantee.PROVED or card.grade is Grade.WORTHLESS:
        return UNFIT
    return WEAK if card.grade is Grade.WEAK else FIT


def reason(card: Card) -> str:
    """Why, with the numbers."""
    if card.guarantee is not Guarantee.PROVED:
        return f"nothing is proved of it ({card.claim})"
    factor = odds_factor(card.epsilon or 0.0)
    chance = ", but for δ" if card.delta else ""
    limit = f"odds about any one user change by a factor of {factor} at most{chance} ({card.claim})"
    return f"{limit}, and that protects nobody" if card.grade is Grade.WORTHLESS else limit
