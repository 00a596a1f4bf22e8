"""The certified mechanism: spend the budget on counts, then be as Bayesian as you like. The default.

The door: shape, clip, fixed point, exact integer sum, discrete Gaussian noise (docs/promise.md proves it). A few
percent of the budget measure how much users write, so that the clip norm Λ fits them. Everything after the noise is
post-processing, in `inference`.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from bayesgram.arrays import Floats, Integers
from bayesgram.inference.measured import Measured, PublicNgrams
from bayesgram.inference.measuring import HISTOGRAM_SHARE, NORM_EDGES, best_clip_norm, shapes
from bayesgram.inference.posterior import infer
from bayesgram.mechanisms.base import Mechanism, Outcome, Randomness, need
from bayesgram.privacy.accounting import Spend
from bayesgram.privacy.budget import Budget, Guarantee
from bayesgram.privacy.calibration import GaussianNoise, calibrate_gaussian
from bayesgram.private.clip import UNITS, Coordinates, check_clip_norm, clipped_sum, norm_histogram
from bayesgram.private.over_users import PrivateCounts
from bayesgram.public.prior import public_distribution
from bayesgram.public.vocabulary import Vocabulary


@dataclass(frozen=True)
class Posterior(Mechanism):
    """Noisy counts with public text as their prior."""

    name: ClassVar[str] = "posterior"
    guarantee: ClassVar[Guarantee] = Guarantee.PROVED
    several_orders: ClassVar[bool] = True
    statement: ClassVar[str] = (
        "(ε, δ)-differential privacy at the level of a user, for every dataset: the noise follows public bounds alone."
    )

    clip_norm: float | None = None  # Λ; None: chosen by a noisy histogram, inside the budget

    def __post_init__(self) -> None:
        if self.clip_norm is not None:
            object.__setattr__(self, "clip_norm", check_clip_norm(self.clip_norm))

    def calibrated(self, vocabulary: Vocabulary, budget: Budget) -> GaussianNoise:
        """σ of the histogram and the counts together: all their coordinates count for the slack."""
        longest = vocabulary.parts[-1][1]
        words = longest.words[1] if longest.order > 1 else 0
        return calibrate_gaussian(budget, coordinates=len(vocabulary) + words + NORM_EDGES.size + 1, units=UNITS)

    def spend(self, vocabulary: Vocabulary, budget: Budget) -> Spend:
        """1/σ² of both measurements, which add up to that of the whole."""
        return self.calibrated(vocabulary, budget).spend

    def distribution(
        self, counts: PrivateCounts, vocabulary: Vocabulary, budget: Budget | None, chance: Randomness
    ) -> Outcome:
        """Measure, then infer."""
        noisy, details = self.measure(counts, vocabulary, budget, chance)
        parts = [part for _, part in vocabulary.parts]
        found = [infer(measured, public_ngrams(part)) for measured, part in zip(noisy, parts, strict=True)]
        totals = {str(part.order): round(each.total, 1) for each, part in zip(found, parts, strict=True)}
        models = ", ".join(dict.fromkeys(each.model for each in found))
        theta, deviation = (np.concatenate([getattr(each, name) for each in found]) for name in ("theta", "deviation"))
        return Outcome(theta, {"model": models, "expected_counts": totals, **details}, deviation)

    def measure(
        self, counts: PrivateCounts, vocabulary: Vocabulary, budget: Budget | None, chance: Randomness
    ) -> tuple[list[Measured], dict[str, Any]]:
        """The door: noisy counts of every order, and what the card says of them."""
        parts = [public_ngrams(part) for _, part in vocabulary.parts]
        measured = coordinates(*parts)
        whole = self.calibrated(vocabulary, need(budget, self.name))
        clip_norm, sigma = self.clip_norm, whole.multiplier
        details: dict[str, Any] = {"epsilon_slack": whole.slack}
        if clip_norm is None:
            histogram_sigma, sigma = whole.split(HISTOGRAM_SHARE)
            users = _noisy_users(norm_histogram(counts, measured, NORM_EDGES), histogram_sigma, chance)
            longest = measured.shape[vocabulary.parts[-1][0]]
            clip_norm = best_clip_norm(users, parts[-1], longest, sigma)
            details |= {"histogram_multiplier": histogram_sigma, "norm_edges": NORM_EDGES.tolist()}
            details |= {"noisy_users_by_norm": [round(float(number), 1) for number in users]}
        total = clipped_sum(counts, measured, clip_norm=clip_norm)  # every user within B
        noisy = chance.noise.discrete_gaussian(total, scale=sigma * UNITS)  # the line that spends the budget
        found = {"clip_norm_used": clip_norm, "noise_multiplier": sigma, **details}
        return as_measured(noisy, measured, sigma, clip_norm, parts), found


def public_ngrams(vocabulary: Vocabulary) -> PublicNgrams:
    """π, α and the words of every n-gram."""
    words, total = vocabulary.words
    prior = public_distribution(vocabulary.counts)
    return PublicNgrams(prior, vocabulary.counts.astype(np.float64), words, total)


def coordinates(*parts: PublicNgrams) -> Coordinates:
    """The n-grams of every order, and the words of the longest, in one vector."""
    longest, size = parts[-1], sum(public.prior.size for public in parts)
    order = longest.words.shape[1]
    shape = np.concatenate(shapes(parts))
    if order == 1:
        return Coordinates(shape, np.zeros((size, 0), np.int32))
    words = np.full((size, order), -1, np.int32)
    words[-len(longest.words) :] = longest.words + size
    return Coordinates(shape, words)


def as_measured(
    noisy: Integers, measured: Coordinates, sigma: float, clip_norm: float, parts: Sequence[PublicNgrams]
) -> list[Measured]:
    """Y = Z̃·Λ·s/B, with noise of standard deviation s·Λ·σ, for each order; the longest has its words, too."""
    counts, noise = noisy * (clip_norm * measured.shape / UNITS), measured.shape * clip_norm * sigma
    edges = np.cumsum([public.prior.size for public in parts])
    found = [Measured(*both) for both in zip(np.split(counts, edges), np.split(noise, edges), strict=True)]
    words = found.pop()  # nothing, for unigrams
    if words.counts.size:
        found[-1] = replace(found[-1], word_counts=words.counts, word_noise=words.noise)
    return found


def _noisy_users(histogram: Integers, sigma: float, chance: Randomness) -> Floats:
    """How many users have which norm: each user is one entry, B units of it."""
    noisy = chance.noise.discrete_gaussian(histogram * UNITS, scale=sigma * UNITS)
    counts: Floats = noisy.astype(np.float64) / UNITS
    return counts
