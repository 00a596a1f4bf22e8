"""The unit of privacy, in words, and what a promise about units is worth to a person.

A promise holds for adding or removing one *unit*: all rows with one id in the user column. Only
the curator knows what such an id stands for, so the curator says it. Where it is a person, (ε, δ)
is for a person. Where it is less, somebody who wrote k units lies k steps away from the data
without them, and the steps add up (group privacy):

    P₀(E) ≤ e^ε P₁(E) + δ ≤ … ≤ e^(kε) P_k(E) + δ (1 + e^ε + … + e^((k−1)ε)).

The same holds for all releases of a ledger together, whose (ε, δ) is for one unit.
"""

import math

from bayesgram.errors import UsageError

# What an id of the user column stands for where nobody says more.
DEFAULT_UNIT = "everything one user wrote in these data"
UNIT_EVER = "everything a user ever wrote"
# Both are the same promise: a user who is left out is left out of all data.
PERSON_UNITS = (DEFAULT_UNIT, UNIT_EVER)

MAX_UNIT_LENGTH = 200  # characters
EXAMPLE_UNIT_COUNTS = (2, 10)  # units of one person that `promise` shows the cost of
ROUND_UP = 1 + 1e-12  # more than floating point loses in a sum of exponentials
MAX_EXPONENT = 600.0  # e^600 is far below the largest float, and any δ is above 1 long before


def check_unit(unit: str) -> str:
    """Return the words of a unit unchanged, if a card can show them.

    Raises:
        UsageError: If they are not 1 to 200 printable characters with no space around them.
    """
    if not (1 <= len(unit) <= MAX_UNIT_LENGTH and unit.isprintable() and unit == unit.strip()):
        raise UsageError.for_argument(
            "unit",
            ascii(unit[:MAX_UNIT_LENGTH]),
            f"say in 1 to {MAX_UNIT_LENGTH} printable characters what one unit is; \"a user's "
            'week" or "a post" would do.',
        )
    return unit


def is_person(unit: str) -> bool:
    """Return whether a unit is all of a person's text, if the person has one id."""
    return _normalize(unit) in PERSON_UNITS


def is_same_unit(unit: str, other: str) -> bool:
    """Return whether two units can be charged to one ledger.

    >>> is_same_unit("A user's  week", "a user's week")
    True
    >>> is_same_unit(UNIT_EVER, DEFAULT_UNIT), is_same_unit("a post", UNIT_EVER)
    (True, False)
    """
    return _normalize(unit) == _normalize(other) or (is_person(unit) and is_person(other))


def group_privacy(epsilon: float, delta: float, units: int) -> tuple[float, float]:
    """Return (ε, δ) for k units together: (kε, δ Σ e^(iε), i < k), rounded up.

    Args:
        epsilon: ε for one unit.
        delta: δ for one unit.
        units: k, how many units one person has.

    >>> group_privacy(0.5, 0.0, 4)
    (2.0, 0.0)
    """
    if not delta:
        return units * epsilon, 0.0
    exponents = [i * epsilon for i in range(units)]
    if exponents[-1] >= MAX_EXPONENT:
        return units * epsilon, math.inf
    return units * epsilon, delta * math.fsum(map(math.exp, exponents)) * ROUND_UP


def promise(unit: str, epsilon: float, delta: float, subject: str = "This release") -> str:
    """Return what (ε, δ) for a unit means for a person, in a sentence or two.

    Args:
        unit: What one user id stands for.
        epsilon: ε for one unit.
        delta: δ for one unit.
        subject: What the promise is about.

    >>> print(promise(UNIT_EVER, 1.0, 1e-6))
    This release is (ε = 1, δ = 1e-06) for a person, who has one user id.
    >>> print(promise("a post", 0.2, 1e-7, "All of it"))
    All of it is (ε = 0.2, δ = 1e-07) for one unit: a post. A person who wrote k of them has k times
    the ε, and δ (1 + e^ε + … + e^((k−1)ε)): of 2, ε = 0.4 and δ = 2.222e-07; of 10, ε = 2 and δ =
    2.886e-06.
    """
    claim = f"{subject} is (ε = {epsilon:g}, δ = {delta:g})"
    if is_person(unit):
        return f"{claim} for a person, who has one user id."
    rule = "k times the ε" + (", and δ (1 + e^ε + … + e^((k−1)ε))" if delta else "")
    examples = "; ".join(
        f"of {units}, {_describe_cost(*group_privacy(epsilon, delta, units))}"
        for units in EXAMPLE_UNIT_COUNTS
    )
    return f"{claim} for one unit: {unit}. A person who wrote k of them has {rule}: {examples}."


def _describe_cost(epsilon: float, delta: float) -> str:
    # Loads SciPy, which no help text needs.
    from bayesgram.privacy.accounting import digits_up  # noqa: PLC0415

    if delta >= 1:
        return "no limit at all"
    return f"ε = {digits_up(epsilon)}" + (f" and δ = {digits_up(delta)}" if delta else "")


def _normalize(unit: str) -> str:
    return " ".join(unit.split()).lower()
