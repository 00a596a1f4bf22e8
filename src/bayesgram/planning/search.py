"""The smallest ε that reaches a target: of a public list, in few simulations.

Accuracy grows with ε, nearly steadily, as the simulated people stay the same; so the place is looked for by halving.
"""

from bisect import bisect_left
from collections.abc import Callable
from typing import Protocol, TypeVar

STEPS = (10, 11, 12, 13, 14, 15, 16, 18, 20, 22, 24, 26, 28, 30, 33, 36, 40, 45, 50, 55, 60, 70, 80, 90)  # of a decade
DECADES = (0.01, 0.1, 1.0, 10.0)


class HasEpsilon(Protocol):
    """A row of a plan."""

    @property
    def epsilon(self) -> float:
        """Of all releases together."""


Row = TypeVar("Row", bound=HasEpsilon)


def candidates(largest: float) -> list[float]:
    """About 24 values a decade from 0.01 up to the largest, and that itself.

    >>> candidates(0.0123), len(candidates(10.0))
    ([0.01, 0.011, 0.012, 0.0123], 73)
    """
    found = [round(decade * step / 10, 3) for decade in DECADES for step in STEPS]
    return [*(epsilon for epsilon in found if epsilon < largest), largest]


def first_that_reaches(
    reached: Callable[[Row], bool], row_of: Callable[[float], Row], largest: float
) -> tuple[float | None, list[Row]]:
    """The smallest candidate that reaches it, None if the largest doesn't; and all rows that were made, by ε."""
    wanted = candidates(largest)
    rows: dict[float, Row] = {}

    def is_enough(epsilon: float) -> bool:
        rows[epsilon] = row_of(epsilon)
        return reached(rows[epsilon])

    found = None
    if is_enough(largest):
        found = wanted[bisect_left(wanted, True, hi=len(wanted) - 1, key=is_enough)]
    return found, [rows[epsilon] for epsilon in sorted(rows)]
