"""Where users put their weight in the next round of a discovery.

Noisy sums and public weights say which candidates are on their way over the level T; users give
more weight to those. Nothing here reads private text: only noisy answers and public text.

- `RoundSchedule` is for the rounds of one discovery. After a part t of all rounds a candidate that
  will just pass stands at about tT, give or take σ√t. What is far below is hopeless and dropped;
  what is far above passes by itself.
- `RunningSchedule` is for the runs of a series, which have no end in sight: nothing is dropped.
"""

from dataclasses import dataclass

import numpy as np

from bayesgram.arrays import Bools, Floats, Singles

# The constants of `RoundSchedule` were chosen by benchmarks/discovery_constants.py.
LAG = 0.3  # standard deviations by which a candidate may be behind and still is on its way
WIDTH = 0.9  # width of a bell to the left of that, in standard deviations
EASE = 1.5  # log weight that is taken from a candidate for each σ that it is ahead
BELIEF = 0.25  # power of the public weight, once something is known
NEGLIGIBLE = 2.0  # log weight at which a candidate is dropped
LOWEST = -300.0  # log weight of what passes by itself

# In a series: log weight that a candidate gains for each standard deviation that its noisy sum is
# above 0, up to so many. Chosen by benchmarks/series_discovery.py.
EVIDENCE_GAIN = 0.5
MOST_EVIDENCE = 5.0


@dataclass(frozen=True)
class RoundSchedule:
    """How weights of the rounds of one discovery follow from noisy sums.

    Attributes:
        deviation: σ of the mean of all rounds.
        level: T, which that mean must exceed.
    """

    deviation: float
    level: float

    def plan_round(self, mean: Floats, part: float, public: Singles) -> tuple[Floats, Bools]:
        """Return log weights for the next round, and which candidates stay.

        Args:
            mean: The noisy sum so far over the number of all rounds.
            part: How much of all rounds is over.
            public: Log weights by public text.
        """
        noise = self.deviation * np.sqrt(part)
        ahead = mean - (part * self.level - LAG * noise)
        behind = (np.minimum(ahead, 0.0) / (WIDTH * noise)) ** 2 / 2
        logs = BELIEF * public - behind - EASE * np.maximum(ahead, 0.0) / self.deviation
        return np.maximum(logs, LOWEST), behind <= NEGLIGIBLE


@dataclass(frozen=True)
class RunningSchedule:
    """How weights of the next run of a series follow from noisy running sums.

    Attributes:
        noise_std: The standard deviation of the noise of one run, in units of B.
        runs: How many runs are over.
    """

    noise_std: float
    runs: int

    def log_weights(self, sums: Floats, public: Singles) -> Floats:
        """Return log weights for the next run.

        Args:
            sums: The noisy running sums, in units of B.
            public: Log weights by public text.
        """
        if not self.runs:
            return public.astype(np.float64)
        evidence = sums / (self.noise_std * np.sqrt(self.runs))
        logs: Floats = BELIEF * public + EVIDENCE_GAIN * np.clip(evidence, 0.0, MOST_EVIDENCE)
        return logs
