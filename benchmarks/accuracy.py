"""Accuracy of every mechanism on given counts, and what the paper's γ costs.

    python benchmarks/accuracy.py COUNTS VOCAB [--runs 5] [--expected-users 978966] [--epsilons 0.1,0.2,1]

COUNTS: a counts folder or a Parquet file of user, ngram, count. VOCAB: vocab.parquet, of one source
or of several. Prints the median KL over runs with fresh noise, its range, and seconds. W and C
follow the paper (C = 1 below a million users, W = users/1000); S and ρ are those that suit the
Reddit trigrams best, found by looking at them: a demonstration, not a release. --clip-norms also
tries a grid of fixed Λ.
"""

import argparse
from collections.abc import Sequence
from statistics import median
from time import perf_counter

import numpy as np

from bayesgram.arrays import Floats
from bayesgram.audit.evaluation import kl_divergence
from bayesgram.mechanisms.base import (
    CountsMechanism,
    Outcome,
    Randomness,
    normalise_counts,
    require_budget,
)
from bayesgram.mechanisms.gaussian import Gaussian
from bayesgram.mechanisms.laplace import Laplace, LaplacePublic
from bayesgram.mechanisms.posterior import Posterior
from bayesgram.paper.algorithm_1 import Paper, paper_bounds
from bayesgram.paper.k_anonymity import KAnonymity
from bayesgram.privacy.budget import Budget
from bayesgram.private.clipping import UNITS, Coordinates, clipped_sum
from bayesgram.private.counts import UserCounts
from bayesgram.private.counts_io import load_counts
from bayesgram.public.vocabulary import Vocabulary, public_distribution

DELTA = 1e-7
CLIP_NORMS = (1.0, 1.4, 2.0, 2.8, 4.0, 5.7, 8.0, 16.0)


class Peer(Gaussian):
    """Makes something of the same noisy counts that `gaussian` has."""

    def estimate(
        self,
        counts: UserCounts,
        vocabulary: Vocabulary,
        budget: Budget | None,
        randomness: Randomness,
    ) -> Outcome:
        """Measure as `gaussian` does, then post-process."""
        noise = self.calibrate(vocabulary, require_budget(budget, self.name))
        ngrams = Coordinates(np.ones(len(vocabulary)), np.zeros((len(vocabulary), 0), np.int32))
        total = clipped_sum(counts, ngrams, clip_norm=self.clip_norm)
        noisy = randomness.noise.discrete_gaussian(total, scale=noise.multiplier * UNITS) * (
            self.clip_norm / UNITS
        )
        return Outcome(self.processed(noisy, noise.multiplier * self.clip_norm, vocabulary))

    def processed(self, noisy: Floats, deviation: float, vocabulary: Vocabulary) -> Floats:
        """θ from noisy counts."""
        raise NotImplementedError


class MultiplicativeWeights(Peer):
    """The public histogram, updated multiplicatively toward noisy counts that contradict it.

    (PMW style).

    Each round takes the n-grams whose noisy count is off by more than two noise deviations, moves
    them toward it by at most a factor e, and normalises.
    """

    def processed(self, noisy: Floats, deviation: float, vocabulary: Vocabulary) -> Floats:
        """Update the prior."""
        theta = public_distribution(vocabulary.counts)
        for _ in range(100):
            expected = noisy.sum() * theta
            wrong = np.abs(noisy - expected) > 2 * deviation
            ratio = np.log(np.maximum(noisy, deviation) / expected)
            theta = theta * np.exp(np.where(wrong, np.clip(ratio, -1, 1), 0))
            theta /= theta.sum()
        return theta


class JamesStein(Peer):
    """Empirical Bayes without public text: shrunk toward their mean as James and Stein do."""

    def processed(self, noisy: Floats, deviation: float, vocabulary: Vocabulary) -> Floats:  # noqa: ARG002
        """Shrink."""
        off = noisy - noisy.mean()
        part = max(0.0, 1 - (off.size - 3) * deviation**2 / float(off @ off))
        return normalise_counts(noisy.mean() + part * off)


def mechanisms(
    expected_users: int, epsilons: Sequence[float]
) -> list[tuple[str, CountsMechanism, Budget | None]]:
    """Those of the table."""
    bounds = paper_bounds(expected_users)
    posterior: list[tuple[str, CountsMechanism, Budget | None]] = [
        ("posterior", Posterior(), Budget(epsilon, DELTA)) for epsilon in epsilons
    ]
    return [
        *posterior,
        ("paper, S = 0.00032, ρ = 0.5", Paper(*bounds, slope=0.00032, rho=0.5), Budget(0.1, DELTA)),
        ("paper, S = 0.001, ρ = 0.9", Paper(*bounds, slope=0.001, rho=0.9), Budget(1.0, DELTA)),
        (f"laplace, W = {bounds[1]}", Laplace(bounds[1]), Budget(0.1)),
        ("laplace, W = 10", Laplace(10), Budget(0.1)),
        ("laplace, W = 10", Laplace(10), Budget(1.0)),
        ("laplace-public, W = 10", LaplacePublic(10), Budget(0.1)),
        ("gaussian, Λ = 4", Gaussian(4.0), Budget(0.1, DELTA)),
        ("gaussian, Λ = 4", Gaussian(4.0), Budget(0.2, DELTA)),
        ("gaussian, Λ = 4", Gaussian(4.0), Budget(1.0, DELTA)),
        *(("James–Stein, Λ = 4", JamesStein(4.0), Budget(epsilon, DELTA)) for epsilon in epsilons),
        *(
            ("multiplicative weights, Λ = 4", MultiplicativeWeights(4.0), Budget(epsilon, DELTA))
            for epsilon in epsilons
        ),
        ("k-anonymity, K = 50, add-one", KAnonymity(50), None),
        ("k-anonymity, K = 50, public", KAnonymity(50, "public"), None),  # type: ignore[arg-type]
    ]


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("counts")
    parser.add_argument("vocab")
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--expected-users", type=int, default=978_966)
    parser.add_argument("--epsilons", default="0.1,0.2,1")
    parser.add_argument(
        "--clip-norms", action="store_true", help="also try posterior at a grid of fixed Λ"
    )
    options = parser.parse_args()

    start = perf_counter()
    vocabulary = Vocabulary.load(options.vocab)
    counts = load_counts(options.counts, vocabulary_size=len(vocabulary)).listed_only
    print(
        f"read in {perf_counter() - start:.2f} s: {counts.ngrams.size:,} nonzeros over {len(vocabulary):,} n-grams"
    )
    public = kl_divergence(counts.totals, public_distribution(vocabulary.counts))
    print(f"{'mechanism':32} {'ε':>5} {'guarantee':>10} {'KL':>8} {'range':>17} {'seconds':>8}")
    print(f"{'public text alone':32} {0:5g} {'PROVED':>10} {public:8.4f}")
    epsilons = [float(each) for each in options.epsilons.split(",")]
    rows = mechanisms(options.expected_users, epsilons)
    if options.clip_norms:
        grid = [
            (f"posterior, Λ = {norm:g}", Posterior(norm), epsilon)
            for epsilon in epsilons
            for norm in CLIP_NORMS
        ]
        rows += [(name, mechanism, Budget(epsilon, DELTA)) for name, mechanism, epsilon in grid]
    for name, mechanism, budget in rows:
        found, seconds = [], []
        for _ in range(options.runs):
            start = perf_counter()
            release = mechanism.release(counts, vocabulary, budget)
            seconds.append(perf_counter() - start)
            found.append(kl_divergence(counts.totals, release.probabilities))
        epsilon = f"{budget.epsilon:5g}" if budget else "    –"
        spread = f"{min(found):.4f}–{max(found):.4f}"
        label = mechanism.guarantee.name
        print(
            f"{name:32} {epsilon} {label:>10} {median(found):8.4f} {spread:>17} {median(seconds):8.2f}",
            flush=True,
        )
    for slope in (0.00032, 0.001):
        statistics = Paper(*paper_bounds(options.expected_users)).statistics(
            counts, Randomness.from_seed(1)
        )
        statistics.user_shifts(slope)
        start = perf_counter()
        gamma = statistics.exact_gamma(slope)
        seconds_taken = perf_counter() - start
        per_nonzero = seconds_taken / counts.ngrams.size * 1e9
        print(
            f"γ at S = {slope:g}: {gamma:.5f} in {seconds_taken:.3f} s ({per_nonzero:.1f} ns a nonzero)",
            end="; ",
        )
        print(f"Claim 1: {statistics.bounded_gamma(slope):.3f}")


if __name__ == "__main__":
    main()
