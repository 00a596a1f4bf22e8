"""What a proved (ε, δ) is worth: plain words where a promise holds and protects little.

In:  ε, δ, and a public bound on the number of users where there is one.   Out: sentences, each with a grade.
Numbers in, words out: does not ask whether the promise is proved (a card does), and reads nothing else.

Where the lines are drawn, and why there (docs/howto/choose-epsilon-and-delta.md says the same):

ε: e^ε is the factor by which odds may change. At ε = 4, even odds that somebody is in the data may become 54.6 to 1:
from there on a promise is weak. At ε = 10 they may become 22,027 to 1: whoever guesses is as good as certain.
δ: a mechanism that shows everything about each user with a chance of δ, and nothing otherwise, is (0, δ)-DP. So δ is a
chance that one person takes, and of n people n·δ are shown on average. A chance of 1 in 10,000 is weak for anybody,
and at 1 in 100 nobody can rely on it. With a bound n, a δ above 0.1/n is weak: that it happens to somebody is
then to be reckoned with.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from bayesgram.released.odds import chance, odds_factor, two_digits_up

WEAK_EPSILON, WORTHLESS_EPSILON = 4.0, 10.0
WEAK_DELTA, WORTHLESS_DELTA = 1e-4, 1e-2
MOST_USERS = 10**11  # nobody has more; a bound is not the place for a typing error
SHARE = 0.1  # of one user: how many may be shown, on average
ROUNDING = 1 + 1e-9  # 1e-7 is no more than 0.1 / 1,000,000, whatever binary fractions make of that


class Grade(StrEnum):
    """How little a promise protects. A usual one has none."""

    WEAK = "weak"
    WORTHLESS = "worthless"


@dataclass(frozen=True)
class Weakness:
    """Why a promise protects little, in a sentence."""

    grade: Grade
    reason: str

    def __str__(self) -> str:
        return f"{self.grade.capitalize()}: {self.reason}"


def weaknesses(
    epsilon: float, delta: float, expected_users: int | None = None, *, who: str = "a user"
) -> list[Weakness]:
    r"""What is wrong with ε, and with δ; nothing for a usual promise. `who` is what the promise protects.

    >>> print(*weaknesses(100.0, 0.5), sep="\n")
    Worthless: ε = 100 allows odds to change by a factor of 2.7e+43: PROVED, and it protects nobody.
    Worthless: δ = 0.5 allows everything about a user to be shown with a chance of 1 in 2: PROVED, and no protection.
    >>> print(*weaknesses(4.0, 1e-6, expected_users=1_000_000), sep="\n")
    Weak: ε = 4 allows odds to change by a factor of 54.60: even odds that a user is in the data may become 54.60 to 1.
    Weak: δ = 1e-06 allows everything about 1 of 1,000,000 users to be shown, on average; stay far below 1/(number of
    users), at most 1e-07 here.
    >>> weaknesses(1.0, 1e-7, expected_users=1_000_000)
    []
    """
    found = (_of_epsilon(epsilon, who), _of_delta(delta, expected_users, who))
    return [each for each in found if each is not None]


def worst(found: Sequence[Weakness]) -> Grade | None:
    """The grade of the whole: that of its weakest part."""
    grades = {each.grade for each in found}
    return next((grade for grade in (Grade.WORTHLESS, Grade.WEAK) if grade in grades), None)


def _of_epsilon(epsilon: float, who: str) -> Weakness | None:
    if epsilon < WEAK_EPSILON:
        return None
    allowed = f"ε = {epsilon:g} allows odds to change by a factor of {odds_factor(epsilon)}"
    if epsilon >= WORTHLESS_EPSILON:
        return Weakness(Grade.WORTHLESS, f"{allowed}: PROVED, and it protects nobody.")
    return Weakness(
        Grade.WEAK, f"{allowed}: even odds that {who} is in the data may become {odds_factor(epsilon)} to 1."
    )


def _of_delta(delta: float, expected_users: int | None, who: str) -> Weakness | None:
    """One sentence: that δ is worthless, or too much for so many users, or too much for anybody."""
    personal = f"δ = {_shown(delta)} allows everything about {who} to be shown with a chance of"
    if delta >= WORTHLESS_DELTA:
        return Weakness(Grade.WORTHLESS, f"{personal} {chance(delta)}: PROVED, and no protection.")
    if expected_users is not None and delta * expected_users > SHARE * ROUNDING:
        return Weakness(
            Grade.WEAK,
            f"δ = {_shown(delta)} allows everything about {two_digits_up(delta * expected_users)} of"
            f" {expected_users:,} {'users' if who == 'a user' else 'units'} to be shown, on average; stay far below"
            f" 1/(number of users), at most"
            f" {SHARE / expected_users:g} here.",
        )
    if delta >= WEAK_DELTA:
        return Weakness(Grade.WEAK, f"{personal} {chance(delta)}; stay far below 1/(number of users).")
    return None


def _shown(delta: float) -> str:
    """Six digits, unless they would make 1 of 0.9999999."""
    return repr(delta) if f"{delta:g}" == "1" else f"{delta:g}"
