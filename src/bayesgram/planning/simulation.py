"""Simulated releases: what a release would be worth, before anything is spent.

In:  public n-grams (the most frequent ones of a vocabulary), a few assumptions about the people,
     and the budget of one release.
Out: the KL to expect, that of public text alone, and how much would be known.

The people are invented: everybody writes from one distribution, π e^d with d normal, part of it
shared by all n-grams of a word. How much they write is log-normal. Noise is added as the mechanism
adds it, and the same inference runs. What clipping distorts is not simulated but charged as the
mechanism predicts it. Reads no private data and spends nothing: the noise is not privacy noise.

The page asks here for one release after the other; `plan.py` adds several releases, segments and
ledgers.
"""

import hashlib
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from typing import Any

import numpy as np

from bayesgram.arrays import Floats
from bayesgram.errors import UsageError
from bayesgram.inference.design import (
    NORMS,
    PART_NOISE_RATIO,
    ClippingPlan,
    Distortion,
    NormHistogram,
    TypicalUser,
    choose_clipping,
    clipping_kl,
    coordinate_count,
    max_amounts,
    order_shapes,
)
from bayesgram.inference.model import infer
from bayesgram.inference.noisy_counts import NoisyCounts, PublicNgrams
from bayesgram.privacy.budget import Budget
from bayesgram.privacy.calibration import GaussianNoise, calibrate_gaussian
from bayesgram.privacy.constants import HISTOGRAM_SHARE, NORM_EDGES, UNITS, USER_UNITS
from bayesgram.public.vocabulary import Vocabulary
from bayesgram.releases.intervals import KNOWN_FACTOR, accuracy_share

# Share of the variance of d that all n-grams of a word have in common. Estimated by the inference
# from Reddit posts, with Wikipedia as public text; not tuned.
WORD_SHARE = 0.4

# Number of groups of users; all users of a group write the same number of n-grams. Not measured
# against other numbers.
USER_GROUPS = 400

# Smallest and largest value of every assumption. Wide limits that keep the simulation finite; no
# experiment chose them.
RANGES = {
    "users": (100.0, 1e10),
    "ngrams_a_user": (0.1, 1e6),
    "unevenness": (0.0, 3.0),
    "difference": (0.0, 4.0),
}

# Largest number of n-grams of an order that a plan simulates: more take too long to wait for.
# Chosen by hand.
MAX_NGRAMS = 100_000

# Smallest number, where the vocabulary has as many: fewer show nothing. Chosen by hand.
MIN_NGRAMS = 10

# Largest number of simulated releases for one ε. Chosen by hand.
MAX_DRAWS = 10


@dataclass(frozen=True)
class Assumptions:
    """What a curator assumes about the people who write, from public knowledge.

    Attributes:
        users: How many people write.
        ngrams_a_user: N-grams of the vocabulary that a user writes, on average.
        unevenness: Standard deviation of the logarithm of what users write; 0 if all write the
            same amount.
        difference: Standard deviation of the logarithm of private over public frequencies; 1.8
            is what Reddit posts have against Wikipedia.
    """

    users: float
    ngrams_a_user: float
    unevenness: float = 1.2
    difference: float = 1.8

    def __post_init__(self) -> None:
        for name, (low, high) in RANGES.items():
            value = getattr(self, name)
            if not (math.isfinite(value) and low <= value <= high):
                raise UsageError.for_argument(
                    name, f"{value:g}", f"give a number from {low:g} to {high:g}."
                )


@dataclass(frozen=True)
class SimulatedRelease:
    """How one simulated release came out, for its longest n-grams.

    Attributes:
        kl: KL divergence from what the people write to the release, in nats.
        public_kl: The same for public text alone: what there is to win.
        known_share: Share of what people write whose probability is expected to lie within a
            factor of 2 of what the release would give.
        clip_norm: The clip norm that the mechanism would choose.
        clipped_share: Share of the users whose norm is above it.
        model: The model that the inference chose; "public" if noise hides everything.
    """

    kl: float
    public_kl: float
    known_share: float
    clip_norm: float
    clipped_share: float
    model: str

    def to_json(self) -> dict[str, Any]:
        """Return the values by the names that the page reads."""
        return {
            "kl": self.kl,
            "public_kl": self.public_kl,
            "known": self.known_share,
            "clip_norm": self.clip_norm,
            "clipped": self.clipped_share,
            "model": self.model,
        }


def simulate(
    public: PublicNgrams, assumptions: Assumptions, *, multiplier: float, seed: int
) -> SimulatedRelease:
    """Simulate one release about invented people.

    Args:
        public: The public n-grams of one order.
        assumptions: How many people there are, and what they write.
        multiplier: σ over the sensitivity, as the budget of this order would have it.
        seed: Decides what people write and the noise.
    """
    ngram_shape, word_shape = order_shapes(public)
    rng = np.random.default_rng(seed)  # a plan hides nobody: there is nobody in it
    private = simulate_private_distribution(public, assumptions.difference, rng=rng)
    ngrams_per_user = _ngrams_by_user_group(assumptions)
    # Only users who write anything are in the data, and they write at least one n-gram.
    user = TypicalUser.from_rates([private, public.per_word(private)], [ngram_shape, word_shape])
    norms = user.norm(np.maximum(ngrams_per_user, 1))
    max_ngrams = max_amounts(public, ngram_shape)
    histogram = _norm_histogram(norms, ngrams_per_user, max_ngrams, assumptions.users)
    plan = _choose_clipping(public, histogram, max_ngrams, multiplier, rng)
    sigma = multiplier / math.sqrt(1 - HISTOGRAM_SHARE - plan.clipped_mass_share)
    unclipped = ngrams_per_user * np.minimum(1, plan.clip_norm / norms)
    unclipped_share = float(unclipped.mean()) / assumptions.ngrams_a_user
    expected_count = assumptions.users * assumptions.ngrams_a_user
    written = rng.poisson(expected_count * private).astype(np.float64)
    written[0] += written.sum() == 0  # where nobody writes, there is no distribution to compare
    total_shape = plan.total_shape(TypicalUser.from_rates([public.prior], [ngram_shape]))
    noisy_counts = _add_noise(
        written * unclipped_share,
        public,
        [ngram_shape, word_shape, total_shape],
        plan.clip_norm * sigma,
        rng,
    )
    answer = infer(plan.annotate(noisy_counts, ngram_shape), public)
    noise_kl = _kl(written, answer.theta)
    public_kl = _kl(written, public.prior)
    # Clipping distorts only what the release learnt beyond public text.
    learnt_share = max(1 - noise_kl / max(public_kl, 1e-9), 0.0)
    distortion_kl = clipping_kl(Distortion.from_histogram(histogram, public), plan, noise_kl)
    return SimulatedRelease(
        kl=noise_kl + learnt_share * distortion_kl,
        public_kl=public_kl,
        known_share=accuracy_share(KNOWN_FACTOR, answer.theta, answer.deviation).mass_share,
        clip_norm=plan.clip_norm,
        clipped_share=float((norms > plan.clip_norm).mean()),
        model=answer.model,
    )


def simulate_private_distribution(
    public: PublicNgrams, difference: float, *, rng: np.random.Generator
) -> Floats:
    """Draw the distribution that all invented people write from: π e^d, normalised.

    A word that is frequent among them lifts all of its n-grams.

    Args:
        public: The public n-grams, with their prior π.
        difference: Standard deviation of d.
        rng: Where d is drawn from.
    """
    word_effects = public.per_ngram(rng.standard_normal(public.word_total)) / math.sqrt(
        public.words.shape[1]
    )
    ngram_effects = rng.standard_normal(public.prior.size)
    weights = public.prior * np.exp(
        difference
        * (math.sqrt(WORD_SHARE) * word_effects + math.sqrt(1 - WORD_SHARE) * ngram_effects)
    )
    private: Floats = weights / weights.sum()
    return private


def _ngrams_by_user_group(assumptions: Assumptions) -> Floats:
    """Return how many n-grams a user of each group writes: log-normal, with the assumed mean."""
    from scipy.special import ndtri  # noqa: PLC0415 - 0.1 s

    ngrams_per_user: Floats = np.exp(
        assumptions.unevenness * ndtri((np.arange(USER_GROUPS) + 0.5) / USER_GROUPS)
    )
    ngrams_per_user *= assumptions.ngrams_a_user / float(ngrams_per_user.mean())
    return ngrams_per_user


def _norm_histogram(
    norms: Floats, ngrams_per_user: Floats, max_ngrams: Floats, users: float
) -> NormHistogram:
    """Return users and n-grams by norm, as the mechanism would count them without noise.

    Args:
        norms: The norm of a user of each group.
        ngrams_per_user: How many n-grams that user writes.
        max_ngrams: The most that counts of a user, by bin.
        users: How many users there are.
    """
    bins = np.searchsorted(NORM_EDGES, norms, side="right")
    user_counts = np.zeros(NORMS.size)
    ngram_counts = np.zeros(NORMS.size)
    np.add.at(user_counts, bins, users / norms.size)
    counted = np.minimum(ngrams_per_user, max_ngrams[bins])
    np.add.at(ngram_counts, bins, counted * (users / norms.size))
    return NormHistogram(user_counts, ngram_counts)


def _choose_clipping(
    public: PublicNgrams,
    histogram: NormHistogram,
    max_ngrams: Floats,
    multiplier: float,
    rng: np.random.Generator,
) -> ClippingPlan:
    """Choose the clip norm and the rest from a noisy histogram, as the mechanism would."""
    noise_std = multiplier / math.sqrt(HISTOGRAM_SHARE) * UNITS / USER_UNITS
    noisy_users = histogram.users + noise_std * rng.standard_normal(NORMS.size)
    written_noise = PART_NOISE_RATIO * noise_std * rng.standard_normal(NORMS.size)
    noisy_written = histogram.written / max_ngrams + written_noise
    noisy_histogram = NormHistogram.from_noisy(noisy_users, noisy_written, max_ngrams, noise_std)
    return choose_clipping(noisy_histogram, public, multiplier)


def _add_noise(
    counts: Floats,
    public: PublicNgrams,
    scales: Sequence[Any],
    noise: float,
    rng: np.random.Generator,
) -> NoisyCounts:
    """Add noise to counts, to their total, and to the counts of their words.

    Args:
        counts: What is left of the counts after clipping.
        public: The n-grams that they belong to.
        scales: The shapes s of the noise of n-grams, of words (empty for unigrams), and of the
            total.
        noise: Λσ; each value gets noise of s Λσ.
        rng: Where the noise is drawn from.
    """
    shape, word_shape, total_shape = scales
    total = float(counts.sum() + noise * total_shape * rng.standard_normal())
    noisy = counts + noise * shape * rng.standard_normal(counts.size)
    if not word_shape.size:
        return NoisyCounts(noisy, noise * shape, total, noise * total_shape)
    words = public.per_word(counts) + noise * word_shape * rng.standard_normal(word_shape.size)
    return NoisyCounts(noisy, noise * shape, total, noise * total_shape, words, noise * word_shape)


def _kl(counts: Floats, theta: Floats) -> float:
    """Return KL(p ‖ θ) with p the normalised counts."""
    occurs = counts > 0
    p = counts[occurs] / counts.sum()
    return float((p * np.log(p / theta[occurs])).sum())


@dataclass(frozen=True)
class PlanRequest:
    """A release that somebody would like to make.

    Attributes:
        assumptions: What is assumed about the people.
        budget: The budget of this one release.
        size: Number of n-grams of each order; the most frequent ones are taken.
    """

    assumptions: Assumptions
    budget: Budget
    size: int

    def __post_init__(self) -> None:
        if self.budget.delta == 0:
            raise UsageError.for_argument(
                "delta", "0", "the mechanism needs a delta above 0, such as 1e-7."
            )


@dataclass(frozen=True, eq=False)
class Planner:
    """Simulates releases of the most frequent n-grams of a vocabulary."""

    vocabulary: Vocabulary

    @property
    def vocabulary_size(self) -> int:
        """Number of n-grams of the order that the vocabulary has most of."""
        return max(len(part) for _, part in self.vocabulary.by_order)

    @property
    def max_size(self) -> int:
        """Largest number of n-grams of an order that a plan can have."""
        return min(MAX_NGRAMS, self.vocabulary_size)

    @cached_property
    def min_size(self) -> int:
        """Smallest number of n-grams of an order that a plan can have."""
        return min(MIN_NGRAMS, self.max_size)

    def check_size(self, size: int) -> None:
        """Check that a plan can have so many n-grams of each order.

        Raises:
            UsageError: If there are too few or too many.
        """
        if not self.min_size <= size <= self.max_size:
            raise UsageError.for_argument(
                "size",
                size,
                f"give a number of n-grams from {self.min_size:,} to {self.max_size:,}.",
            )

    def simulate(self, request: PlanRequest, draw: int) -> SimulatedRelease:
        """Simulate one release.

        Args:
            request: The release.
            draw: Number of the simulation, from 0. One draw has the same people whatever the
                budget, so that budgets can be compared.

        Raises:
            UsageError: If the size or the draw is out of range.
        """
        self.check_size(request.size)
        if not 0 <= draw < MAX_DRAWS:
            raise UsageError.for_argument("draw", draw, f"give a number from 0 to {MAX_DRAWS - 1}.")
        noise = self.calibrate_noise(request.budget, request.size)
        parts = self.public_ngrams(request.size)
        return simulate(
            parts[-1],
            request.assumptions,
            multiplier=noise.multiplier_for_share(1 / len(parts)),
            seed=_make_seed(request, draw),
        )

    def calibrate_noise(self, budget: Budget, size: int) -> GaussianNoise:
        """Return the noise that `posterior` adds to a release of this budget and size."""
        coordinates = coordinate_count(self.public_ngrams(size))
        return calibrate_gaussian(budget, coordinates=coordinates, units=UNITS)

    @cached_property
    def public_ngrams(self) -> Callable[[int], list[PublicNgrams]]:
        """The most frequent n-grams of each order, by their number; the last few are cached."""
        return lru_cache(4)(self._select_public_ngrams)

    def _select_public_ngrams(self, size: int) -> list[PublicNgrams]:
        parts = [
            PublicNgrams.of(_select_most_frequent(part, size))
            for _, part in self.vocabulary.by_order
        ]
        return [replace(public, on_one_core=True) for public in parts]


def _make_seed(request: PlanRequest, draw: int) -> int:
    """Return the seed of a draw: it does not depend on the budget."""
    people = request.assumptions
    # This very text is hashed, so that the same plan has the same numbers in every version.
    text = (
        f"Assumed(users={people.users!r}, ngrams_a_user={people.ngrams_a_user!r},"
        f" unevenness={people.unevenness!r}, difference={people.difference!r})"
        f" {request.size} {draw}"
    )
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8])


def _select_most_frequent(part: Vocabulary, size: int) -> Vocabulary:
    return part.select(np.sort(np.argsort(-part.counts, kind="stable")[:size]))
