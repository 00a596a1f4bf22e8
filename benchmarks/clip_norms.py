"""The clip norm that `posterior` chooses, against the best of a grid that looks at the answer.

    python benchmarks/clip_norms.py VOCAB [COUNTS ...] [--made-up] [--epsilons 0.05,0.2,1,8] [--runs 3]

COUNTS: counts folders or Parquet files of user, ngram, count, made with VOCAB. --made-up adds
extreme populations over the same n-grams: everybody writes one, everybody ten thousand, one percent
write half, those who write a lot write differently, and a thousand users only. Prints for each
population and ε the median KL with Λ chosen inside the budget, that of every Λ of the grid (which
gets the whole budget), and their ratio. Every Λ of the grid is run once, and those three that look
best as often as the chosen one.
"""

import argparse
from collections.abc import Iterator
from pathlib import Path
from statistics import median

import numpy as np
import pyarrow as pa

from bayesgram.arrays import Floats
from bayesgram.audit.evaluation import kl_divergence
from bayesgram.inference.noisy_counts import PublicNgrams
from bayesgram.mechanisms.posterior import Posterior
from bayesgram.planning.simulation import simulate_private_distribution
from bayesgram.privacy.budget import Budget
from bayesgram.private.counts import UserCounts
from bayesgram.private.counts_io import load_counts
from bayesgram.public.vocabulary import Vocabulary
from bayesgram.releases.card_sections import order_details

DELTA = 1e-7
CLIP_NORMS = (0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 64.0)


def crowd(
    vocabulary: Vocabulary,
    norm_histogram_sum: Floats,
    manners: list[Floats],
    which: Floats,
    seed: int,
) -> UserCounts:
    """Users who write so many n-grams each, in one of these manners."""
    rng = np.random.default_rng(seed)
    bounds = [np.cumsum(manner) for manner in manners]
    users, ngrams, counts = [], [], []
    for user, (amount, manner) in enumerate(
        zip(norm_histogram_sum.astype(int).tolist(), which.tolist(), strict=True)
    ):
        drawn = np.searchsorted(
            bounds[int(manner)], rng.random(max(amount, 1)) * bounds[int(manner)][-1]
        )
        own, times = np.unique(drawn, return_counts=True)
        users.append(np.full(own.size, user))
        ngrams.append(own)
        counts.append(times)
    sizes = [own.size for own in ngrams]
    return UserCounts(
        pa.array([str(user) for user in range(norm_histogram_sum.size)]).cast(pa.large_binary()),
        np.concatenate([[0], np.cumsum(sizes)]),
        np.concatenate(ngrams).astype(np.int32),
        np.concatenate(counts).astype(np.int32),
        len(vocabulary),
        vocabulary.fingerprint,
    )


def made_up_people(vocabulary: Vocabulary) -> Iterator[tuple[str, UserCounts]]:
    """Populations from one extreme to the other."""
    public, rng = PublicNgrams.of(vocabulary.by_order[-1][1]), np.random.default_rng(1)
    usual = simulate_private_distribution(public, 1.5, rng=rng)
    other = simulate_private_distribution(public, 1.5, rng=rng)
    heavy_user_norm = np.sqrt(usual * other)  # half way to another manner
    one = np.zeros(200_000)
    yield "everybody writes one n-gram", crowd(vocabulary, one + 1, [usual], one, 2)
    yield (
        "ten thousand n-grams each",
        crowd(vocabulary, np.full(1_000, 10_000.0), [usual], np.zeros(1_000), 3),
    )
    few = (np.arange(30_000) < 300).astype(float)
    yield "one percent write half", crowd(vocabulary, 10 + 980 * few, [usual], few * 0, 4)
    yield (
        "one percent write half, differently",
        crowd(vocabulary, 10 + 980 * few, [usual, heavy_user_norm], few, 5),
    )
    lengths = np.exp(1.2 * rng.standard_normal(100_000) + 1)
    yield (
        "long texts are written differently",
        crowd(vocabulary, lengths, [usual, heavy_user_norm], (lengths > 8) * 1.0, 6),
    )
    yield "a thousand users", crowd(vocabulary, np.full(1_000, 30.0), [usual], np.zeros(1_000), 7)


def loss(
    mechanism: Posterior, counts: UserCounts, vocabulary: Vocabulary, budget: Budget, runs: int
) -> tuple[float, float]:
    """The median KL of some runs, and Λ."""
    made = [mechanism.release(counts, vocabulary, budget, seed=seed) for seed in range(runs)]
    found = median(kl_divergence(counts.totals, each.probabilities) for each in made)
    return found, float(order_details(made[0].card.details)["clip_norm_used"])


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("vocab")
    parser.add_argument("counts", nargs="*")
    parser.add_argument("--made-up", action="store_true")
    parser.add_argument("--epsilons", default="0.05,0.2,1,8")
    parser.add_argument("--runs", type=int, default=3)
    options = parser.parse_args()
    vocabulary = Vocabulary.load(options.vocab)
    people = [
        (Path(path).stem, load_counts(path, vocabulary_size=len(vocabulary)).listed_only)
        for path in options.counts
    ]
    for name, counts in [*people, *(made_up_people(vocabulary) if options.made_up else ())]:
        public = kl_divergence(counts.totals, vocabulary.prior)
        for epsilon in map(float, options.epsilons.split(",")):
            budget = Budget(epsilon, DELTA)
            chosen, norm = loss(Posterior(), counts, vocabulary, budget, options.runs)
            grid = {
                norm: loss(Posterior(norm), counts, vocabulary, budget, 1)[0] for norm in CLIP_NORMS
            }
            likely = sorted(grid, key=lambda each: grid[each])[:3]
            grid |= {
                norm: loss(Posterior(norm), counts, vocabulary, budget, options.runs)[0]
                for norm in likely
            }
            best = min(likely, key=lambda each: grid[each])
            table = "  ".join(f"{norm:g}: {value:.4f}" for norm, value in grid.items())
            print(
                f"{name}, ε = {epsilon:g}: {chosen:.4f} with Λ = {norm:.3g}; the best of the grid {grid[best]:.4f} with"
                f" Λ = {best:g}, ratio {chosen / grid[best]:.3f}; public {public:.4f}   [{table}]",
                flush=True,
            )


if __name__ == "__main__":
    main()
