"""Is a release ever worse than public text?

    python benchmarks/never_worse.py VOCAB COUNTS [COUNTS ...] [--users 1000,5000] [--epsilons 0.05,0.2]
        [--runs 20]

COUNTS: counts folders or Parquet files of user, ngram, count, made with VOCAB. Draws so many users
at random for each run, releases with fresh noise, and prints for each population, number of users
and ε: how many runs have a larger KL than public text, the largest KL over that of public text, and
how many runs chose public text itself. KL is summed over orders.
"""

import argparse
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa

from bayesgram.audit.evaluation import kl_divergence
from bayesgram.mechanisms.posterior import Posterior
from bayesgram.privacy.budget import Budget
from bayesgram.private.counts import UserCounts
from bayesgram.private.counts_io import load_counts
from bayesgram.public.vocabulary import Vocabulary

DELTA = 1e-7


def draw_users(counts: UserCounts, number: int, rng: np.random.Generator) -> UserCounts:
    """Return the counts of some users, drawn at random."""
    users = np.sort(rng.choice(len(counts.users), min(number, len(counts.users)), replace=False))
    sizes = np.diff(counts.starts)[users]
    starts = np.concatenate([[0], np.cumsum(sizes)])
    rows = np.repeat(counts.starts[users] - starts[:-1], sizes) + np.arange(starts[-1])
    return UserCounts(
        counts.users.take(pa.array(users)),
        starts,
        counts.ngrams[rows],
        counts.counts[rows],
        counts.vocabulary_size,
        counts.vocabulary_fingerprint,
    )


def kl_ratios(
    counts: UserCounts, vocabulary: Vocabulary, users: int, epsilon: float, runs: int
) -> Iterator[tuple[float, bool]]:
    """Yield KL over that of public text, and whether public text was chosen, for each run."""
    for seed in range(runs):
        drawn = draw_users(counts, users, np.random.default_rng(seed))
        release = Posterior().release(drawn, vocabulary, Budget(epsilon, DELTA))
        kl = 0.0
        public_kl = 0.0
        for rows, _ in vocabulary.by_order:
            totals = drawn.totals[rows]
            if totals.any():
                kl += kl_divergence(totals, release.probabilities[rows])
                public_kl += kl_divergence(totals, vocabulary.prior[rows])
        yield kl / public_kl, release.card.details["model"] == "public"


def main() -> None:
    """Print a line for each population, number of users and ε."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("vocab")
    parser.add_argument("counts", nargs="+")
    parser.add_argument("--users", default="1000,5000")
    parser.add_argument("--epsilons", default="0.05,0.2")
    parser.add_argument("--runs", type=int, default=20)
    options = parser.parse_args()
    vocabulary = Vocabulary.load(options.vocab)
    print("| people | users | ε | worse than public | largest KL over public | public chosen |")
    for path in options.counts:
        counts = load_counts(path, vocabulary_size=len(vocabulary)).listed_only
        for users in map(int, options.users.split(",")):
            for epsilon in map(float, options.epsilons.split(",")):
                ratios, is_public = zip(
                    *kl_ratios(counts, vocabulary, users, epsilon, options.runs), strict=True
                )
                worse = sum(ratio > 1 for ratio in ratios)
                print(
                    f"| {Path(path).stem} | {users:,} | {epsilon:g} | {worse} of {len(ratios)} |"
                    f" {max(ratios):.4f} | {sum(is_public)} |",
                    flush=True,
                )


if __name__ == "__main__":
    main()
