"""The privacy budget (ε, δ) for one unit, and what a printed ε is worth.

A `Budget` is for adding or removing everything that one user id wrote; it can be split into parts
that compose to it. A `Guarantee` says whether an ε is proved, estimated, or no promise at all.
"""

import math
from dataclasses import dataclass
from enum import Enum
from fractions import Fraction

from bayesgram.arguments import check_fields
from bayesgram.errors import UsageError

# Smaller ones leave nothing of the data, and calibration loses its digits; not measured.
MIN_EPSILON = 1e-5
MIN_DELTA = 1e-30
MAX_EPSILON = 100.0  # the largest value in the paper's figures; it protects nobody


class Guarantee(Enum):
    """What a printed ε is worth. It is printed wherever ε is printed.

    >>> [label.name for label in Guarantee]
    ['PROVED', 'EMPIRICAL', 'NONE']
    """

    PROVED = "holds for every pair of neighbouring datasets"
    EMPIRICAL = "noise set from this dataset's own sensitivity; not a DP guarantee"
    NONE = "no privacy guarantee; for comparison only"


@dataclass(frozen=True)
class Budget:
    """(ε, δ)-differential privacy for one unit.

    The unit is everything that one user id wrote, unless stated otherwise.

    >>> Budget(0.3, 1e-6).split(Fraction(2, 3), Fraction(1, 3))
    (Budget(epsilon=0.2, delta=6.666...e-07), Budget(epsilon=0.1, delta=3.333...e-07))
    """

    epsilon: float
    delta: float = 0.0

    def __post_init__(self) -> None:
        check_fields(self)
        if not (math.isfinite(self.epsilon) and MIN_EPSILON <= self.epsilon <= MAX_EPSILON):
            raise UsageError.for_argument(
                "epsilon",
                self.epsilon,
                f"give a number from {MIN_EPSILON:g} to {MAX_EPSILON:g}; 0.1 is strong, 1 "
                "is usual, more than 10 protects nobody.",
            )
        if not (math.isfinite(self.delta) and (self.delta == 0 or MIN_DELTA <= self.delta < 1)):
            raise UsageError.for_argument(
                "delta",
                self.delta,
                f"give 0, or a number from {MIN_DELTA:g} to below 1; far below 1/(number of "
                "users), 1e-7 is usual.",
            )

        for name in ("epsilon", "delta"):
            # A NumPy number may have 32 bits only, and noise would be calibrated for those.
            if type(getattr(self, name)) not in (int, float):
                object.__setattr__(self, name, float(getattr(self, name)))

    def split(self, *shares: Fraction) -> tuple["Budget", ...]:
        """Return parts that compose to this budget.

        Args:
            *shares: The share of each part; positive, and exactly 1 in all.

        Raises:
            UsageError: If the shares don't add up to 1, or one is not positive.
        """
        if sum(shares) != 1 or min(shares) <= 0:
            raise UsageError.for_argument(
                "shares", ", ".join(map(str, shares)), "must be positive and add up to 1."
            )
        epsilon = parse_decimal(self.epsilon)
        delta = parse_decimal(self.delta)
        return tuple(
            Budget(_round_down_decimal(epsilon * share), _round_down_decimal(delta * share))
            for share in shares
        )


def parse_decimal(value: float) -> Fraction:
    """Return the number that a person wrote: 0.1 is one tenth."""
    return Fraction(repr(float(value)))


def _round_down_decimal(value: Fraction) -> float:
    """Return the largest float that is not above: parts never add up to more than the whole."""
    nearest = float(value)
    return nearest if parse_decimal(nearest) <= value else math.nextafter(nearest, 0)
