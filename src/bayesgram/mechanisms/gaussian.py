"""Plain Gaussian counts, without public text as a prior.

Every user's counts are clipped in L2 and added up as integers, and get discrete Gaussian noise.
"""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from bayesgram.arguments import check_fields
from bayesgram.mechanisms.base import (
    CountsMechanism,
    Outcome,
    Randomness,
    normalise_counts,
    require_budget,
)
from bayesgram.privacy.accounting import Spend
from bayesgram.privacy.budget import Budget, Guarantee
from bayesgram.privacy.calibration import GaussianNoise, calibrate_gaussian
from bayesgram.privacy.constants import UNITS
from bayesgram.private.clipping import Coordinates, check_clip_norm, clipped_sum
from bayesgram.private.counts import PrivateCounts
from bayesgram.public.vocabulary import Vocabulary
from bayesgram.releases.measurements import NGRAM, MeasurementBlock, Measurements


@dataclass(frozen=True)
class Gaussian(CountsMechanism):
    """Plain Gaussian counts: c + N(0, (σΛ)²), every user's counts clipped to the L2 norm Λ.

    Attributes:
        clip_norm: Λ. No experiment chose the default.

    Example:
        >>> Gaussian(clip_norm=2).settings()
        {'clip_norm': 2.0}
    """

    name: ClassVar[str] = "gaussian"
    guarantee: ClassVar[Guarantee] = Guarantee.PROVED
    statement: ClassVar[str] = (
        "(ε, δ)-differential privacy, for every dataset: the noise follows public bounds alone."
    )

    clip_norm: float = 4.0

    def __post_init__(self) -> None:
        check_fields(self)
        object.__setattr__(self, "clip_norm", check_clip_norm(self.clip_norm))

    def calibrate(self, vocabulary: Vocabulary, budget: Budget) -> GaussianNoise:
        """Return the noise that the budget needs."""
        return calibrate_gaussian(budget, coordinates=len(vocabulary), units=UNITS)

    def spend(self, vocabulary: Vocabulary, budget: Budget) -> Spend:
        """Return the cost of one Gaussian measurement."""
        return self.calibrate(vocabulary, budget).spend

    def estimate(
        self,
        counts: PrivateCounts,
        vocabulary: Vocabulary,
        budget: Budget | None,
        randomness: Randomness,
    ) -> Outcome:
        """Clip, add noise and normalise. One user moves the integer sum by at most B in L2."""
        noise = self.calibrate(vocabulary, require_budget(budget, self.name))
        ngrams = Coordinates(np.ones(len(vocabulary)), np.zeros((len(vocabulary), 0), np.int32))
        exact = clipped_sum(counts, ngrams, clip_norm=self.clip_norm)
        noisy = randomness.noise.discrete_gaussian(exact, scale=noise.multiplier * UNITS)
        noisy_counts = noisy.astype(np.float64) * (self.clip_norm / UNITS)
        noise_std = np.full(len(vocabulary), noise.multiplier * self.clip_norm)
        block = MeasurementBlock(
            NGRAM, vocabulary.order, vocabulary.ngrams, noisy_counts, noise_std
        )
        return Outcome(
            normalise_counts(noisy_counts),
            {"noise_multiplier": noise.multiplier, "epsilon_slack": noise.slack},
            measurements=Measurements.from_blocks([block]),
        )
