"""How many n-grams are within two released standard deviations of what people wrote?

    python benchmarks/deviations.py COUNTS VOCAB [--epsilons 0.1,1,4] [--runs 3]

COUNTS: a counts folder or a Parquet file of user, ngram, count. Prints the mean share over runs
with fresh noise, by fifths of the released frequency (what a reader of the release can see) and by
fifths of the private one.
"""

import argparse

import numpy as np

from bayesgram.arrays import Floats
from bayesgram.mechanisms.posterior import Posterior
from bayesgram.privacy.budget import Budget
from bayesgram.private.counts_io import load_counts
from bayesgram.public.vocabulary import Vocabulary

DELTA = 1e-7


def by_fifths(within: Floats, frequency: Floats) -> Floats:
    """The share of each fifth of the n-grams, most frequent first."""
    fifths = np.array_split(np.argsort(-frequency, kind="stable"), 5)
    return np.array([within[rows].mean() for rows in fifths])


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("counts")
    parser.add_argument("vocab")
    parser.add_argument("--epsilons", default="0.1,1,4")
    parser.add_argument("--runs", type=int, default=3)
    options = parser.parse_args()
    vocabulary = Vocabulary.load(options.vocab)
    counts = load_counts(options.counts, vocabulary_size=len(vocabulary))
    truth = counts.totals / counts.totals.sum()
    for epsilon in map(float, options.epsilons.split(",")):
        released, private = [], []
        for _ in range(options.runs):
            made = Posterior().release(counts, vocabulary, Budget(epsilon, DELTA))
            within = (np.abs(made.probabilities - truth) <= 2 * made.probability_std).astype(
                np.float64
            )
            released.append(by_fifths(within, made.probabilities))
            private.append(by_fifths(within, truth))
        for name, shares in (("released", released), ("private", private)):
            told = " | ".join(f"{100 * share:.1f}%" for share in np.mean(shares, axis=0))
            print(f"ε = {epsilon:g}, by fifths of the {name} frequency | {told}", flush=True)


if __name__ == "__main__":
    main()
