"""Simulated releases: what a release would be worth, before anything is spent.

In:  public n-grams (the most frequent ones of a vocabulary), a few assumptions about the people,
     and the budget of one release.
Out: the KL to expect, that of public text alone, and how much would be known.

The people are made up: everybody writes from one distribution, π e^d with d normal, part of it
shared by all n-grams of a word. How much they write is log-normal. Noise is added as the mechanism
adds it, and the same inference runs. What clipping distorts is not simulated but charged as the
mechanism predicts it. Reads no private data and spends nothing: the noise is not privacy noise.
The page and `bayesgram plan` both ask here; several releases and ledgers are the matter of plan.py.
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
    ClippingPlan,
    NormHistogram,
    TypicalUser,
    choose_clipping,
    clipping_cost,
    coordinate_count,
    distortion_of,
    largest_amounts,
    shapes,
    typical,
)
from bayesgram.inference.model import infer
from bayesgram.inference.noisy_counts import NoisyCounts, PublicNgrams
from bayesgram.privacy.budget import Budget
from bayesgram.privacy.calibration import GaussianNoise, calibrate_gaussian
from bayesgram.privacy.constants import HISTOGRAM_SHARE, NORM_EDGES, UNITS, USER_UNITS
from bayesgram.public.vocabulary import Vocabulary
from bayesgram.releases.intervals import accuracy_share

# Share of the variance of d that belongs to words: what pooling found on Reddit posts against
# Wikipedia.
WORD_SHARE = 0.4
FACTOR = 2.0  # within which a probability is called known
USER_GROUPS = 400  # users of a group write the same amount; not measured
RANGES = {
    "users": (100.0, 1e10),
    "ngrams_a_user": (0.1, 1e6),
    "unevenness": (0.0, 3.0),
    "difference": (0.0, 4.0),
}


@dataclass(frozen=True)
class Assumed:
    """What a curator believes about the people, from public knowledge."""

    users: float
    ngrams_a_user: float  # of the vocabulary, on average
    unevenness: float = (
        1.2  # standard deviation of the logarithm of what users write; 0: all the same
    )
    difference: float = (
        1.8  # standard deviation of log private/public frequencies; 1.8: as Reddit from Wikipedia
    )

    def __post_init__(self) -> None:
        for name, (low, high) in RANGES.items():
            value = getattr(self, name)
            if not (math.isfinite(value) and low <= value <= high):
                raise UsageError.for_argument(
                    name, f"{value:g}", f"give a number from {low:g} to {high:g}."
                )


@dataclass(frozen=True)
class Expected:
    """How one simulated release came out, for its longest n-grams."""

    kl: float
    public_kl: float  # of public text alone: what there is to win
    known: float  # share of what people write whose probability the release would say within a factor of 2
    clip_norm: float
    clipped: float  # share of the users
    model: str


def simulate(
    parts: Sequence[PublicNgrams], assumed: Assumed, *, multiplier: float, seed: int
) -> Expected:
    """One release of made-up people; `multiplier` is the σ of the whole budget."""
    public, scales = parts[-1], shapes(parts)
    rng = np.random.default_rng(seed)  # a plan hides nobody: there is nobody in it
    private = made_up(public, assumed.difference, rng=rng)
    amounts = _norm_histogram_sum(assumed)
    norms = _someone(parts, private, scales).norm(
        np.maximum(amounts, 1)
    )  # whoever writes, writes one
    people = _people(parts, scales, norms, amounts, assumed.users)
    choice = _choice(parts, scales, people, multiplier, rng)
    sigma = multiplier / math.sqrt(1 - HISTOGRAM_SHARE - choice.clipped_mass_share)
    kept = float((amounts * np.minimum(1, choice.clip_norm / norms)).mean()) / assumed.ngrams_a_user
    written = rng.poisson(assumed.users * assumed.ngrams_a_user * private).astype(np.float64)
    written[0] += written.sum() == 0
    total_shape = choice.total_shape(TypicalUser.of([public.prior], scales[-2:-1]))
    measured = _measured(
        written * kept, public, [*scales[-2:], total_shape], choice.clip_norm * sigma, rng
    )
    if choice.norm_histogram is not None:
        measured = replace(measured, clipping=choice.norm_histogram.clipping(choice.clip_norm))
    found = infer(measured, public)
    noise, public_kl = _kl(written, found.theta), _kl(written, public.prior)
    shown = max(1 - noise / max(public_kl, 1e-9), 0.0)  # what noise hides is not distorted
    return Expected(
        kl=noise + shown * clipping_cost(distortion_of(people, public), choice, noise),
        public_kl=public_kl,
        known=accuracy_share(FACTOR, found.theta, found.deviation).mass_share,
        clip_norm=choice.clip_norm,
        clipped=float((norms > choice.clip_norm).mean()),
        model=found.model,
    )


def made_up(public: PublicNgrams, difference: float, *, rng: np.random.Generator) -> Floats:
    """Π e^d, normalised; words that are hot lift all of their n-grams."""
    shared = public.per_ngram(rng.standard_normal(public.word_total)) / math.sqrt(
        public.words.shape[1]
    )
    own = rng.standard_normal(public.prior.size)
    weights = public.prior * np.exp(
        difference * (math.sqrt(WORD_SHARE) * shared + math.sqrt(1 - WORD_SHARE) * own)
    )
    private: Floats = weights / weights.sum()
    return private


def _norm_histogram_sum(assumed: Assumed) -> Floats:
    """How many n-grams the users of each group write: equal groups, log-normal, with the mean that is assumed."""
    from scipy.special import ndtri  # noqa: PLC0415 - 0.1 s

    amounts: Floats = np.exp(
        assumed.unevenness * ndtri((np.arange(USER_GROUPS) + 0.5) / USER_GROUPS)
    )
    amounts *= assumed.ngrams_a_user / float(amounts.mean())
    return amounts


def _someone(
    parts: Sequence[PublicNgrams], private: Floats, scales: Sequence[Floats]
) -> TypicalUser:
    """One of these people."""
    rates = [*(public.prior for public in parts[:-1]), private, parts[-1].per_word(private)]
    return TypicalUser.of(rates, scales)


def _people(
    parts: Sequence[PublicNgrams],
    scales: Sequence[Floats],
    norms: Floats,
    amounts: Floats,
    users: float,
) -> NormHistogram:
    """How much they write, by their norm, as far as it counts."""
    largest, bins = _largest(parts, scales), np.searchsorted(NORM_EDGES, norms, side="right")
    number, written = np.zeros(NORMS.size), np.zeros(NORMS.size)
    np.add.at(number, bins, users / norms.size)
    np.add.at(written, bins, np.minimum(amounts, largest[bins]) * (users / norms.size))
    return NormHistogram(number, written)


def _largest(parts: Sequence[PublicNgrams], scales: Sequence[Floats]) -> Floats:
    return largest_amounts(typical(parts[-1:], scales[-2:-1]))


def _choice(
    parts: Sequence[PublicNgrams],
    scales: Sequence[Floats],
    people: NormHistogram,
    multiplier: float,
    rng: np.random.Generator,
) -> ClippingPlan:
    """Λ and the rest as the mechanism would choose them: from noisy amounts of people whose manner is as usual."""
    largest = _largest(parts, scales)
    noise = multiplier / math.sqrt(HISTOGRAM_SHARE) * UNITS / USER_UNITS
    noisy = people.users + noise * rng.standard_normal(NORMS.size)
    noisy_written = people.written / largest + 0.75 * noise * rng.standard_normal(NORMS.size)
    return choose_clipping(
        NormHistogram.from_noisy(noisy, noisy_written, largest, noise), parts[-1], multiplier
    )


def _measured(
    counts: Floats,
    public: PublicNgrams,
    scales: Sequence[Any],
    noise: float,
    rng: np.random.Generator,
) -> NoisyCounts:
    """Counts with noise s·Λ·σ, their total and the words of the n-grams with theirs."""
    shape, word_shape, total_shape = scales
    total = float(counts.sum() + noise * total_shape * rng.standard_normal())
    noisy = counts + noise * shape * rng.standard_normal(counts.size)
    if not word_shape.size:
        return NoisyCounts(noisy, noise * shape, total, noise * total_shape)
    words = public.per_word(counts) + noise * word_shape * rng.standard_normal(word_shape.size)
    return NoisyCounts(noisy, noise * shape, total, noise * total_shape, words, noise * word_shape)


def _kl(counts: Floats, theta: Floats) -> float:
    """KL(p ‖ θ), p = counts, normalised."""
    norm_histogram = counts > 0
    p = counts[norm_histogram] / counts.sum()
    return float((p * np.log(p / theta[norm_histogram])).sum())


MOST_NGRAMS = 100_000  # of an order: more take too long to wait for
MOST_DRAWS = 10


@dataclass(frozen=True)
class PlanRequest:
    """What somebody would like to release."""

    assumed: Assumed
    budget: Budget
    size: int  # n-grams of each order

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
    def longest_list(self) -> int:
        """How many n-grams the vocabulary has of the order of which it has most."""
        return max(len(part) for _, part in self.vocabulary.by_order)

    @property
    def largest(self) -> int:
        """How many n-grams of an order can be planned with."""
        return min(MOST_NGRAMS, self.longest_list)

    @cached_property
    def smallest(self) -> int:
        """Below, there is nothing to learn from."""
        return min(10, self.largest)

    def check_size(self, size: int) -> None:
        """Refuse what can't be simulated."""
        if not self.smallest <= size <= self.largest:
            raise UsageError.for_argument(
                "size",
                size,
                f"give a number of n-grams from {self.smallest:,} to {self.largest:,}.",
            )

    def expect(self, request: PlanRequest, draw: int) -> Expected:
        """One simulated release; a draw is the same people whatever the budget, so that budgets can be compared."""
        self.check_size(request.size)
        if not 0 <= draw < MOST_DRAWS:
            raise UsageError.for_argument(
                "draw", draw, f"give a number from 0 to {MOST_DRAWS - 1}."
            )
        noise = self.noise(request.budget, request.size)
        seed = int.from_bytes(
            hashlib.sha256(f"{request.assumed} {request.size} {draw}".encode()).digest()[:8]
        )
        return simulate(
            self._parts(request.size), request.assumed, multiplier=noise.multiplier, seed=seed
        )

    def noise(self, budget: Budget, size: int) -> GaussianNoise:
        """What a release of this budget adds."""
        parts = self._parts(size)
        longest = parts[-1]
        coordinates = coordinate_count(
            ngrams=sum(part.prior.size for part in parts),
            orders=len(parts),
            longest_order=longest.words.shape[1],
            words=longest.word_total,
            sources=len(longest.sources),
        )
        return calibrate_gaussian(budget, coordinates=coordinates, units=UNITS)

    @cached_property
    def _parts(self) -> Callable[[int], list[PublicNgrams]]:
        return lru_cache(4)(self._cut)

    def _cut(self, size: int) -> list[PublicNgrams]:
        found = [
            PublicNgrams.of(_most_frequent(part, size)) for _, part in self.vocabulary.by_order
        ]
        return [replace(public, on_one_core=True) for public in found]


def _most_frequent(part: Vocabulary, size: int) -> Vocabulary:
    return part.select(np.sort(np.argsort(-part.counts, kind="stable")[:size]))
