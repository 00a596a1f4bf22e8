"""Plain Gaussian counts: clip every user's counts in L2, add them up as integers, add discrete Gaussian noise."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from bayesgram.arguments import check_fields
from bayesgram.mechanisms.base import Mechanism, Outcome, Randomness, need, normalised
from bayesgram.privacy.accounting import Spend
from bayesgram.privacy.budget import Budget, Guarantee
from bayesgram.privacy.calibration import GaussianNoise, calibrate_gaussian
from bayesgram.private.clipping import UNITS, Coordinates, check_clip_norm, clipped_sum
from bayesgram.private.counts import PrivateCounts
from bayesgram.public.vocabulary import Vocabulary
from bayesgram.releases.measurements import NGRAM, MeasurementBlock, Measurements


@dataclass(frozen=True)
class Gaussian(Mechanism):
    """c + N(0, (σΛ)²), with every user's counts clipped to the L2 norm Λ."""

    name: ClassVar[str] = "gaussian"
    guarantee: ClassVar[Guarantee] = Guarantee.PROVED
    statement: ClassVar[str] = (
        "(ε, δ)-differential privacy, for every dataset: the noise follows public bounds alone."
    )

    clip_norm: float = 4.0  # Λ

    def __post_init__(self) -> None:
        check_fields(self)
        object.__setattr__(self, "clip_norm", check_clip_norm(self.clip_norm))

    def calibrated(self, vocabulary: Vocabulary, budget: Budget) -> GaussianNoise:
        """How much noise the budget asks for."""
        return calibrate_gaussian(budget, coordinates=len(vocabulary), units=UNITS)

    def spend(self, vocabulary: Vocabulary, budget: Budget) -> Spend:
        """One Gaussian measurement."""
        return self.calibrated(vocabulary, budget).spend

    def distribution(
        self,
        counts: PrivateCounts,
        vocabulary: Vocabulary,
        budget: Budget | None,
        chance: Randomness,
    ) -> Outcome:
        """One user changes the integer sum by at most B in L2."""
        noise = self.calibrated(vocabulary, need(budget, self.name))
        ngrams = Coordinates(np.ones(len(vocabulary)), np.zeros((len(vocabulary), 0), np.int32))
        total = clipped_sum(counts, ngrams, clip_norm=self.clip_norm)
        noisy = chance.noise.discrete_gaussian(total, scale=noise.multiplier * UNITS)
        found = {"noise_multiplier": noise.multiplier, "epsilon_slack": noise.slack}
        counts_found = noisy.astype(np.float64) * (self.clip_norm / UNITS)
        doubt = np.full(len(vocabulary), noise.multiplier * self.clip_norm)
        block = MeasurementBlock(NGRAM, vocabulary.order, vocabulary.ngrams, counts_found, doubt)
        return Outcome(normalised(counts_found), found, measured=Measurements.from_blocks([block]))
