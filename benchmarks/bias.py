"""Whose language a release serves badly: released over true share, by how people differ from public text.

    python benchmarks/bias.py VOCAB COUNTS [--epsilons 0.1 1 8] [--runs 3]

N-grams are grouped by their true share over their public share. Of each group, the released share
is compared with the true one: 1 is right, less means that the release understates what these
n-grams are worth. The groups follow from private counts without noise, so the table of real people
is not for publication. `docs/bias.md` has a table of made-up people.
"""

import argparse
from pathlib import Path

import numpy as np

import bayesgram as bg

EDGES = (0.0, 1 / 4, 1 / 2, 2.0, 4.0, np.inf)  # of the true share over the public share
NAMES = ("under 1/4", "1/4 to 1/2", "1/2 to 2", "2 to 4", "over 4")
MIN_COUNT = 30  # occurrences, so that the true share of an n-gram is known well


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("vocab", type=Path)
    parser.add_argument("counts", type=Path)
    parser.add_argument("--epsilons", type=float, nargs="+", default=[0.1, 1, 8])
    parser.add_argument("--runs", type=int, default=3)
    options = parser.parse_args()
    vocabulary = bg.Vocabulary.load(options.vocab)
    counts = bg.load_counts(options.counts)
    totals = np.asarray(counts.totals)
    truth = totals / totals.sum()
    public = np.asarray(vocabulary.prior)
    group = np.digitize(truth / public, EDGES) - 1
    frequent = (totals >= MIN_COUNT) | (public * totals.sum() >= MIN_COUNT)
    print("| true share over public share | n-grams | part of what people write |", end="")
    print("".join(f" ε = {epsilon:g} |" for epsilon in options.epsilons))
    rows = {}
    for epsilon in options.epsilons:
        released = np.mean(
            [
                bg.release(counts, vocabulary, epsilon=epsilon).probabilities
                for _ in range(options.runs)
            ],
            axis=0,
        )
        for index in range(len(NAMES)):
            mask = (group == index) & frequent
            rows.setdefault(index, []).append(released[mask].sum() / truth[mask].sum())
    for index, name in enumerate(NAMES):
        mask = (group == index) & frequent
        ratios = "".join(f" {ratio:.2f} |" for ratio in rows[index])
        print(f"| {name} | {mask.sum():,} | {truth[mask].sum():.0%} |{ratios}")


if __name__ == "__main__":
    main()
