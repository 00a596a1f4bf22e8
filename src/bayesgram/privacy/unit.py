"""What one unit of privacy is, in words, and what a promise about units is worth to a person.

A promise holds for adding or removing one *unit*: all rows with one id in the user column. Only the curator knows what
such an id stands for, so the curator says it. Where it is a person, (ε, δ) is for a person. Where it is less, somebody
who wrote k units lies k steps away from the data without them, and the steps add up (group privacy):

    P₀(E) ≤ e^ε P₁(E) + δ ≤ … ≤ e^(kε) P_k(E) + δ (1 + e^ε + … + e^((k−1)ε)).

The same holds for all releases of a ledger together, whose (ε, δ) is for one unit. Reads words and two numbers.
"""

import math

from bayesgram.errors import UsageError

THESE_DATA = (
    "everything one user wrote in these data"  # what the user column says, where nobody says more
)
EVER = "everything a user ever wrote"
PERSONS = (THESE_DATA, EVER)  # the same promise: a user who is left out is left out of all data
LONGEST = 200
SHOWN = (2, 10)  # units of one person, as examples
UP = 1 + 1e-12  # more than floating point loses


def check_unit(unit: str) -> str:
    """The words, if a card can show them: 1 to 200 printable characters, with no space around them."""
    if not (1 <= len(unit) <= LONGEST and unit.isprintable() and unit == unit.strip()):
        shown = ascii(unit[:LONGEST])
        raise UsageError.for_argument(
            "unit",
            shown,
            f"say in 1 to {LONGEST} printable characters what one unit is; \"a user's "
            'week" or "a post" would do.',
        )
    return unit


def is_person(unit: str) -> bool:
    """Whether a unit is all of a person's text, if the person has one id."""
    return _plain(unit) in PERSONS


def is_same(unit: str, other: str) -> bool:
    """Whether two units can be charged to one ledger.

    >>> is_same("A user's  week", "a user's week"), is_same(EVER, THESE_DATA), is_same("a post", EVER)
    (True, True, False)
    """
    return _plain(unit) == _plain(other) or (is_person(unit) and is_person(other))


def of_group(epsilon: float, delta: float, units: int) -> tuple[float, float]:
    """(ε, δ) for so many units together: (kε, δ Σ e^(iε), i < k), rounded up.

    >>> of_group(0.5, 0.0, 4)
    (2.0, 0.0)
    """
    if not delta:
        return units * epsilon, 0.0
    steps = [i * epsilon for i in range(units)]
    return units * epsilon, delta * math.fsum(map(math.exp, steps)) * UP if steps[
        -1
    ] < 600 else math.inf


def promise(unit: str, epsilon: float, delta: float, subject: str = "This release") -> str:
    """What (ε, δ) for a unit means for a person, in a sentence or two.

    >>> print(promise(EVER, 1.0, 1e-6))
    This release is (ε = 1, δ = 1e-06) for a person, who has one user id.
    >>> print(promise("a post", 0.2, 1e-7, "All of it"))
    All of it is (ε = 0.2, δ = 1e-07) for one unit: a post. A person who wrote k of them has k times the ε, and δ (1 +
    e^ε + … + e^((k−1)ε)): of 2, ε = 0.4 and δ = 2.222e-07; of 10, ε = 2 and δ = 2.886e-06.
    """
    claim = f"{subject} is (ε = {epsilon:g}, δ = {delta:g})"
    if is_person(unit):
        return f"{claim} for a person, who has one user id."
    rule = "k times the ε" + (", and δ (1 + e^ε + … + e^((k−1)ε))" if delta else "")
    examples = "; ".join(
        f"of {units}, {_cost(*of_group(epsilon, delta, units))}" for units in SHOWN
    )
    return f"{claim} for one unit: {unit}. A person who wrote k of them has {rule}: {examples}."


def _cost(epsilon: float, delta: float) -> str:
    from bayesgram.privacy.accounting import digits_up  # noqa: PLC0415 - SciPy, which the help of a command can do without

    if delta >= 1:
        return "no limit at all"
    return f"ε = {digits_up(epsilon)}" + (f" and δ = {digits_up(delta)}" if delta else "")


def _plain(unit: str) -> str:
    return " ".join(unit.split()).lower()
