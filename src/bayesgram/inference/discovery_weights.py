"""Where users put their weight in the next round of a discovery: to what is on its way over the level T.

In:  the noisy mean of the rounds so far, and what public text expects.   Out: log weights, and what is dropped.
After the part t of all rounds a candidate that will just pass stands at about tT, give or take σ√t. What is far below
is hopeless, what is far above passes by itself. Reads noisy answers and public text, never a user.
"""

from dataclasses import dataclass

import numpy as np

from bayesgram.arrays import Bools, Floats, Singles

LAG = 0.3  # standard deviations by which a candidate may be behind and still is on its way
WIDTH = 0.9  # of a bell to its left, in standard deviations
EASE = 1.5  # log weight that is taken from a candidate for each σ that it is ahead
BELIEF = 0.25  # power of the public weight, once something is known
NEGLIGIBLE = 2.0  # log weight at which a candidate is dropped
LOWEST = -300.0  # log weight of what passes by itself


@dataclass(frozen=True)
class RoundSchedule:
    """σ of the mean of all rounds, and what it must exceed."""

    deviation: float
    level: float

    def plan_round(self, mean: Floats, part: float, public: Singles) -> tuple[Floats, Bools]:
        """Log weights for the next round, and which candidates stay.

        `mean` is the noisy sum so far over the number of all rounds, `part` how many of these are over.
        """
        noise = self.deviation * np.sqrt(part)
        ahead = mean - (part * self.level - LAG * noise)
        behind = (np.minimum(ahead, 0.0) / (WIDTH * noise)) ** 2 / 2
        logs = BELIEF * public - behind - EASE * np.maximum(ahead, 0.0) / self.deviation
        return np.maximum(logs, LOWEST), behind <= NEGLIGIBLE
