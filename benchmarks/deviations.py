"""Are the released standard deviations as large as the errors?

    python benchmarks/deviations.py COUNTS VOCAB [--epsilons 0.2,1,4] [--runs 5]

COUNTS: a counts folder or a Parquet file of user, ngram, count. Prints for each ε and order the mean
over runs with fresh noise of

- the share of n-grams whose true frequency (every occurrence counted) is within two stated
  deviations: of the first 200 and the first 2,000 by released rank, of all, and of those of the 200
  really most frequent whose count exceeds three deviations of noise;
- the root mean square of error over stated deviation of the first 200;
- the relative deviation that is stated of the first 200, and their relative error (rms);
- KL.
"""

import argparse

import numpy as np

from bayesgram.arrays import Floats
from bayesgram.audit.evaluation import kl_divergence
from bayesgram.inference.orders import infer_orders
from bayesgram.mechanisms.base import Randomness
from bayesgram.mechanisms.posterior import Posterior
from bayesgram.privacy.budget import Budget
from bayesgram.private.counts_io import load_counts
from bayesgram.public.vocabulary import Vocabulary

DELTA = 1e-7
COLUMNS = (
    ("first 200", ".1%"),
    ("first 2,000", ".1%"),
    ("all", ".1%"),
    ("true first 200", ".1%"),
    ("rms", ".2f"),
    ("stated", ".0%"),
    ("error", ".0%"),
    ("KL", ".4f"),
)


def judge(theta: Floats, std: Floats, totals: Floats, noise_std: Floats) -> list[float]:
    """Return the numbers of one order, in the order of COLUMNS."""
    truth = totals / totals.sum()
    z = (theta - truth) / std
    is_within = np.abs(z) <= 2
    ranked = np.argsort(-theta, kind="stable")
    first = ranked[:200]
    true_first = np.argsort(-truth, kind="stable")[:200]
    visible = true_first[totals[true_first] > 3 * noise_std[true_first]]
    return [
        is_within[first].mean(),
        is_within[ranked[:2000]].mean(),
        is_within.mean(),
        is_within[visible].mean() if visible.size else np.nan,
        np.sqrt((z[first] ** 2).mean()),
        np.sqrt(((std / theta)[first] ** 2).mean()),
        np.sqrt((((theta - truth) / theta)[first] ** 2).mean()),
        kl_divergence(totals, theta),
    ]


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("counts")
    parser.add_argument("vocab")
    parser.add_argument("--epsilons", default="0.2,1,4")
    parser.add_argument("--runs", type=int, default=5)
    options = parser.parse_args()
    vocabulary = Vocabulary.load(options.vocab)
    counts = load_counts(options.counts, vocabulary_size=len(vocabulary))
    totals = counts.totals.astype(np.float64)
    parts = [part for _, part in vocabulary.by_order]
    print("| ε | order |", " | ".join(name for name, _ in COLUMNS), "|")
    for epsilon in map(float, options.epsilons.split(",")):
        rows: dict[int, list[list[float]]] = {part.order: [] for part in parts}
        for _ in range(options.runs):
            noisy, _ = Posterior().measure(
                counts, vocabulary, Budget(epsilon, DELTA), Randomness.from_seed(None)
            )
            inferred = infer_orders(noisy, parts)
            for (place, part), measured, answer in zip(
                vocabulary.by_order, noisy, inferred, strict=True
            ):
                rows[part.order].append(
                    judge(answer.theta, answer.deviation, totals[place], measured.noise)
                )
        for order, values in rows.items():
            means = np.nanmean(values, axis=0)
            cells = [format(value, style) for value, (_, style) in zip(means, COLUMNS, strict=True)]
            print(f"| {epsilon:g} | {order} |", " | ".join(cells), "|", flush=True)


if __name__ == "__main__":
    main()
