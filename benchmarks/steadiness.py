"""How KL falls with the number of users and with ε: steadily, or with cliffs?

    python benchmarks/steadiness.py COUNTS VOCAB [VOCAB ...] [--epsilons 0.1,1] [--runs 3] [-o docs/images]

COUNTS: a counts folder or a Parquet file of user, ngram, count. Several vocabularies must hold the
same n-grams (one source, then several). Draws users from COUNTS, a factor of about 2 apart, and
makes a release of each part; prints the median KL to what all users wrote, that of public text and
that of `laplace` at its best W, and draws steadiness.svg.
"""

import argparse
from pathlib import Path
from statistics import median
from typing import Any, Literal

import numpy as np
import pyarrow as pa

from bayesgram.audit.evaluation import kl_divergence
from bayesgram.charts import SERIES, Axis, Drawing, Key, Series, legend, plot_xy, stack
from bayesgram.mechanisms.base import CountsMechanism
from bayesgram.mechanisms.laplace import Laplace
from bayesgram.mechanisms.posterior import Posterior
from bayesgram.privacy.budget import Budget
from bayesgram.private.counts import UserCounts
from bayesgram.private.counts_io import load_counts
from bayesgram.public.vocabulary import Vocabulary

DELTA = 1e-7
BOUNDS = (1, 3, 10, 30)  # W of the Laplace mechanism
USERS = (1_000, 3_000, 6_000, 10_000, 20_000, 30_000, 60_000, 100_000, 200_000, 500_000, 1_000_000)


def some_of(counts: UserCounts, users: int, seed: int) -> UserCounts:
    """So many users, drawn at random."""
    number = len(counts.users)
    chosen = np.zeros(number, bool)
    chosen[np.random.default_rng(seed).permutation(number)[:users]] = True
    sizes = np.diff(counts.starts)
    rows = np.repeat(chosen, sizes)
    starts = np.concatenate([[0], np.cumsum(sizes[chosen])])
    bounds = (counts.vocabulary_size, counts.vocabulary_fingerprint)
    return UserCounts(
        counts.users.filter(pa.array(chosen)),
        starts,
        counts.ngrams[rows],
        counts.counts[rows],
        *bounds,
    )


def picture(rows: list[dict[str, Any]]) -> Drawing:
    """KL against the number of users, a line for each kind of release; dashes are other ε."""
    looks: list[Literal["line", "dashed", "dotted"]] = ["line", "dashed", "dotted"]
    epsilons = list(dict.fromkeys(row["epsilon"] for row in rows))
    series = []
    for colour, release in zip(SERIES, dict.fromkeys(row["release"] for row in rows), strict=False):
        for look, epsilon in zip(looks, epsilons, strict=False):
            line = [r for r in rows if r["release"] == release and r["epsilon"] == epsilon]
            name = f"{release}, ε = {epsilon:g}"
            users = [row["users"] for row in line]
            series.append((Series(users, [row["kl"] for row in line], name, colour, look), look))
    users = Axis.log([row["users"] for row in rows], "users", margin=1)
    kl = Axis.log([row["kl"] for row in rows], "KL to what all users wrote", margin=1.1)
    chart = plot_xy([one for one, _ in series], users, kl, label="KL against users", height=340)
    keys = [Key(one.name, one.colour, look) for one, look in series]
    return stack([chart, legend(keys, chart.width)])


def main() -> None:
    """Print the table and draw it."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("counts")
    parser.add_argument("vocab", nargs="+")
    parser.add_argument("--epsilons", default="0.1,1")
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("-o", "--output", type=Path)
    options = parser.parse_args()
    vocabularies = [Vocabulary.load(path) for path in options.vocab]
    counts = load_counts(options.counts, vocabulary_size=len(vocabularies[0])).listed_only
    truth, rows = counts.totals, []

    def loss(
        mechanism: CountsMechanism, vocabulary: Vocabulary, budget: Budget, users: int
    ) -> float:
        made = [
            mechanism.release(some_of(counts, users, seed), vocabulary, budget, seed=seed)
            for seed in range(options.runs)
        ]
        return median(kl_divergence(truth, each.probabilities) for each in made)

    for epsilon in map(float, options.epsilons.split(",")):
        for users in [number for number in USERS if number < len(counts.users)] + [
            len(counts.users)
        ]:
            found = {
                "laplace, best W": min(
                    loss(Laplace(w), vocabularies[0], Budget(epsilon), users) for w in BOUNDS
                )
            }
            for vocabulary in vocabularies:
                name = f"sources: {len(vocabulary.source_names)}"
                found[f"public text, {name}"] = kl_divergence(truth, vocabulary.prior)
                found[f"posterior, {name}"] = loss(
                    Posterior(), vocabulary, Budget(epsilon, DELTA), users
                )
            rows += [
                {"users": users, "epsilon": epsilon, "release": name, "kl": value}
                for name, value in found.items()
            ]
            told = ", ".join(f"{name} {value:.4f}" for name, value in found.items())
            print(f"ε = {epsilon:g}, {users:,} users: {told}", flush=True)
    if options.output:
        picture(rows).write(options.output / "steadiness.svg", "svg")


if __name__ == "__main__":
    main()
