"""Populations to attack, and mechanisms that are broken on purpose."""

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from bayesgram.audit.findings import AuditTarget
from bayesgram.mechanisms.base import Randomness
from bayesgram.mechanisms.gaussian import Gaussian
from bayesgram.mechanisms.posterior import Posterior
from bayesgram.privacy.budget import Budget
from bayesgram.privacy.noise import NoiseSource, SeededNoise
from helpers import reference_paper

CLAIM = Budget(0.1, 1e-6)


def zipf_counts(users=2000, size=600, seed=3):
    """Users × n-grams: frequencies fall as 1/rank, and a few users write far more than others."""
    rng = np.random.default_rng(seed)
    shares = 1 / np.arange(1, size + 1)
    lengths = np.minimum(rng.pareto(1.2, users) * 3 + 1, 400).astype(int)
    matrix = np.zeros((users, size), np.int64)
    for user, length in enumerate(lengths):
        np.add.at(matrix[user], rng.choice(size, length, p=shares / shares.sum()), 1)
    return matrix


def make_target(mechanism, matrix=None, budget=CLAIM):
    matrix = zipf_counts() if matrix is None else matrix
    public = 10_000 // np.arange(1, matrix.shape[1] + 1)
    return AuditTarget(
        mechanism,
        reference_paper.make_user_counts(matrix),
        reference_paper.make_vocabulary(public),
        budget,
    )


class ScaledNoise(NoiseSource):
    """Less noise than was asked for."""

    seeded = True

    def __init__(self, inner, part):
        self.inner, self.part = inner, part

    def discrete_laplace(self, values, *, scale):
        return self.inner.discrete_laplace(values, scale=scale * self.part)

    def discrete_gaussian(self, values, *, scale):
        return self.inner.discrete_gaussian(values, scale=scale * self.part)


class UndernoisedGaussian(Gaussian):
    """Noise too small by 20%."""

    def estimate(self, counts, vocabulary, budget, randomness):
        return super().estimate(
            counts,
            vocabulary,
            budget,
            Randomness(ScaledNoise(randomness.noise, 0.8), randomness.key),
        )


class UnclippedGaussian(Gaussian):
    """Forgets to clip: adds up whole counts, in the units of clipped ones."""

    def estimate(self, counts, vocabulary, budget, randomness):
        wide = Gaussian(clip_norm=1e6)
        stretched = ScaledNoise(randomness.noise, self.clip_norm / wide.clip_norm)
        return wide.estimate(counts, vocabulary, budget, Randomness(stretched, randomness.key))


class FixedNoiseGaussian(Gaussian):
    """Uses the same noise every time."""

    def estimate(self, counts, vocabulary, budget, randomness):
        return super().estimate(
            counts, vocabulary, budget, Randomness(SeededNoise(7), randomness.key)
        )


class ScaledNoiseAtQuery(ScaledNoise):
    """Less noise than was asked for, at one question of several."""

    def __init__(self, inner, part, question):
        super().__init__(inner, part)
        self.left = question

    def discrete_gaussian(self, values, *, scale):
        self.left -= 1
        part = self.part if self.left == -1 else 1.0
        return self.inner.discrete_gaussian(values, scale=scale * part)


class UndernoisedPosterior(Posterior):
    """Noise of one of its questions is too small, by far: each has a small share of the budget."""

    question = 0

    def measure(self, counts, vocabulary, budget, randomness):
        noise = ScaledNoiseAtQuery(randomness.noise, 0.1, self.question)
        return super().measure(counts, vocabulary, budget, Randomness(noise, randomness.key))


def write_counts_and_vocabulary(folder, *, users, size, names):
    """A zipf's counts and vocabulary as files; users' ids begin with `names`."""
    matrix = zipf_counts(users=users, size=size)
    owners, ngrams = matrix.nonzero()
    table = {
        "user": [f"{names}-{user}" for user in owners],
        "ngram": ngrams,
        "count": matrix[owners, ngrams],
    }
    pq.write_table(pa.table(table), folder / "counts.parquet")
    reference_paper.make_vocabulary(10_000 // np.arange(1, size + 1)).save(folder / "vocab.parquet")
