"""What attack results prove, at a stated chance of error.

In:  wins and losses, or samples of a bounded number.   Out: one-sided bounds that are wrong with at most the given
probability, whatever the law behind them. Does not correct for many tests: callers divide their error among them.
"""

import math
from dataclasses import dataclass

import numpy as np
from scipy.special import betaincinv

from bayesgram.arrays import Floats
from bayesgram.errors import UsageError


def check_confidence(confidence: float) -> float:
    """The confidence, if it is one."""
    if not 0.5 <= confidence < 1:
        raise UsageError(f"confidence={confidence}: give a number from 0.5 to below 1; 0.99 is usual.")
    return confidence


def at_least(wins: float, tries: int, *, error: float) -> float:
    """A lower bound on the chance of a win (Clopper and Pearson 1934).

    >>> round(at_least(50, 100, error=0.025), 4), at_least(0, 100, error=0.025)
    (0.3983, 0.0)
    """
    return 0.0 if wins <= 0 else float(betaincinv(wins, tries - wins + 1, error))


def at_most(wins: float, tries: int, *, error: float) -> float:
    """An upper bound on the chance of a win.

    >>> round(at_most(50, 100, error=0.025), 4), at_most(100, 100, error=0.025)
    (0.6017, 1.0)
    """
    return 1.0 if wins >= tries else float(betaincinv(wins + 1, tries - wins, 1 - error))


@dataclass(frozen=True)
class Rates:
    """How often an attack said "this user is in": when it was so (hits) and when it was not (alarms)."""

    hits: int
    alarms: int
    tries: int  # of each

    def delta_at_least(self, epsilon: float, *, error: float) -> float:
        """A lower bound on δ at this ε: P(hit) ≤ e^ε P(alarm) + δ."""
        hit, alarm = self._bounds(error)
        return max(0.0, hit - math.exp(epsilon) * alarm)

    def epsilon_at_least(self, delta: float, *, error: float) -> float:
        """A lower bound on ε at this δ."""
        hit, alarm = self._bounds(error)
        return max(0.0, math.log((hit - delta) / alarm)) if hit > delta else 0.0

    def _bounds(self, error: float) -> tuple[float, float]:
        return at_least(self.hits, self.tries, error=error / 2), at_most(self.alarms, self.tries, error=error / 2)


def mean_at_least(samples: Floats, largest: float, *, error: float) -> float:
    """A lower bound on the mean of numbers from 0, those above `largest` being counted as `largest`.

    The empirical Bernstein bound (Maurer and Pontil 2009, Theorem 4): close when most samples are small. `largest` must
    not come from these samples.
    """
    size, log = samples.size, math.log(2 / error)
    held = np.minimum(samples, largest)
    slack = math.sqrt(2 * float(held.var(ddof=1)) * log / size) + 7 * largest * log / (3 * (size - 1))
    return max(0.0, float(held.mean()) - slack)
