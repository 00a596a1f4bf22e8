"""Several orders released together against each order alone.

KL by order, over ε and the size of the vocabulary.

    python benchmarks/orders.py POSTS NAME=PUBLIC [NAME=PUBLIC ...] [--sizes 1000,10000,50000] [--orders 1,2,3]
        [--epsilons 0.02,0.1,1,8] [--runs 3] [--only noise,apart,budget]

POSTS: Parquet with a column `text`, a row is a user. PUBLIC: a file for `bayesgram vocab`. A size
is the most n-grams of each order. Prints for each size, ε and order the median KL of some runs, and
the range of the first of:

    together   one release of all orders
    noise      the same noisy counts, each order inferred by itself: what inferring them together is worth
    apart      a release of this order alone; as many of them as there are orders cost what the one release does
    budget     a release of this order alone, which gets the whole budget: what the other orders cost

and their ratios, where below 1 is better together. `public` is public text alone, the floor. Seeds
are those of the runs, so what is left out with --only can be measured later.
"""

import argparse
from collections.abc import Iterator, Sequence
from pathlib import Path
from statistics import median
from time import perf_counter

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from scipy.optimize import brentq

from bayesgram.arrays import Floats
from bayesgram.audit.evaluation import kl_divergence
from bayesgram.inference.orders import infer_orders
from bayesgram.mechanisms.base import Randomness
from bayesgram.mechanisms.posterior import Posterior
from bayesgram.privacy.budget import Budget
from bayesgram.private.counts import UserCounts, build_user_counts, count
from bayesgram.public.vocabulary import Vocabulary
from bayesgram.text.tokenizer import Tokenizer

DELTA = 1e-7
WAYS = ("together", "noise", "apart", "budget")
RATIOS = ("to noise", "to apart", "to budget")
HEADINGS = ("size", "ε", "order", "n-grams", "public", *WAYS, *RATIOS, "range together", "seconds")
LAYOUT = "{:>9} {:>5} {:>5} {:>9} {:>8} {:>8} {:>8} {:>8} {:>8} {:>9} {:>9} {:>9} {:>17} {:>7}"


def counted(posts: Path, vocabulary: Vocabulary) -> UserCounts:
    """The n-grams of every post."""
    text = pq.read_table(posts, columns=["text"])["text"]
    return count(pa.table({"user": pa.array(map(str, range(len(text)))), "text": text}), vocabulary)


def of_order(counts: UserCounts, place: slice, part: Vocabulary) -> UserCounts:
    """The counts of one order, as if no other had been counted."""
    users = np.repeat(np.arange(len(counts.users), dtype=np.int32), np.diff(counts.starts))
    own = (counts.ngrams >= place.start) & (counts.ngrams < place.stop)
    rows = users[own], counts.ngrams[own] - np.int32(place.start), counts.counts[own]
    return build_user_counts(
        counts.users, *rows, vocabulary_size=len(part), vocabulary_fingerprint=part.fingerprint
    )


def share_of(budget: Budget, part: Vocabulary, orders: int) -> Budget:
    """The budget with which as many releases together spend what one does with the whole.

    1/σ² adds up.
    """

    def beyond(log_epsilon: float) -> float:
        own = Posterior().calibrate(part, Budget(float(np.exp(log_epsilon)), budget.delta))
        return float(np.log(own.multiplier / whole))

    whole = Posterior().calibrate(part, budget).multiplier * np.sqrt(orders)
    least, most = np.log([budget.epsilon / (2 * orders), budget.epsilon])
    return Budget(float(np.exp(brentq(beyond, least, most, xtol=1e-3))), budget.delta)


class Comparison:
    """One vocabulary and the posts counted with it."""

    def __init__(self, posts: Path, vocabulary: Vocabulary, ways: Sequence[str]) -> None:
        self.vocabulary, self.ways = vocabulary, ways
        self.counts = counted(posts, vocabulary)
        self.parts = [part for _, part in vocabulary.by_order]
        self.totals = [self.counts.totals[place] for place, _ in vocabulary.by_order]
        self.alone = [of_order(self.counts, place, part) for place, part in vocabulary.by_order]

    @property
    def public(self) -> list[float]:
        """KL of public text, by order."""
        return self._judged(self.vocabulary.prior[place] for place, _ in self.vocabulary.by_order)

    def run(self, epsilon: float, seed: int) -> dict[str, list[float]]:
        """KL by order, each way."""
        budget = Budget(epsilon, DELTA)
        noisy, _ = Posterior().measure(
            self.counts, self.vocabulary, budget, Randomness.from_seed(seed)
        )
        found = {"together": self._judged(each.theta for each in infer_orders(noisy, self.parts))}
        if "noise" in self.ways:
            each = (
                infer_orders([one], [part])[0] for one, part in zip(noisy, self.parts, strict=True)
            )
            found["noise"] = self._judged(inferred.theta for inferred in each)
        if "apart" in self.ways:
            found["apart"] = self._alone(
                seed, [share_of(budget, part, len(self.parts)) for part in self.parts]
            )
        if "budget" in self.ways:
            found["budget"] = self._alone(seed, [budget] * len(self.parts))
        return found

    def _alone(self, seed: int, budgets: list[Budget]) -> list[float]:
        each = zip(self.alone, self.parts, budgets, strict=True)
        made = (
            Posterior().release(counts, part, budget, seed=seed) for counts, part, budget in each
        )
        return self._judged(release.probabilities for release in made)

    def _judged(self, distributions: Iterator[Floats]) -> list[float]:
        return [
            kl_divergence(total, theta)
            for total, theta in zip(self.totals, distributions, strict=True)
        ]


def report(comparison: Comparison, size: int, epsilon: float, runs: int) -> None:
    """A line for each order."""
    start = perf_counter()
    found = [comparison.run(epsilon, seed) for seed in range(runs)]
    seconds = (perf_counter() - start) / runs
    for at, (part, public) in enumerate(zip(comparison.parts, comparison.public, strict=True)):
        losses = {way: [each[way][at] for each in found] for way in found[0]}
        middle = {way: median(values) for way, values in losses.items()}
        cells = [f"{middle[way]:.4f}" if way in middle else "" for way in WAYS]
        ratios = [
            f"{middle['together'] / middle[way]:.3f}" if way in middle else "" for way in WAYS[1:]
        ]
        spread = f"{min(losses['together']):.4f}–{max(losses['together']):.4f}"
        row = [
            f"{size:,}",
            f"{epsilon:g}",
            part.order,
            f"{len(part):,}",
            f"{public:.4f}",
            *cells,
            *ratios,
            spread,
        ]
        print(LAYOUT.format(*row, f"{seconds:.1f}"), flush=True)


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("posts", type=Path)
    parser.add_argument("public", nargs="+")
    parser.add_argument("--sizes", default="1000,10000,50000")
    parser.add_argument("--orders", default="1,2,3")
    parser.add_argument("--epsilons", default="0.02,0.1,1,8")
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument(
        "--only", default=",".join(WAYS[1:]), help="less than all of these is faster"
    )
    options = parser.parse_args(arguments)
    orders = [int(order) for order in options.orders.split(",")]
    sources = dict(each.split("=", 1) for each in options.public)
    print(LAYOUT.format(*HEADINGS))
    for size in map(int, options.sizes.split(",")):
        tokenizer = Tokenizer(boundaries=True)
        vocabulary = Vocabulary.from_public(sources, order=orders, size=size, tokenizer=tokenizer)
        comparison = Comparison(options.posts, vocabulary, options.only.split(","))
        for epsilon in map(float, options.epsilons.split(",")):
            report(comparison, size, epsilon, options.runs)


if __name__ == "__main__":
    main()
