"""How well a release covers, learns and ranks what people write, beside its card's estimates.

In:  a release, private counts or the private text, and public text's distribution.
Out: a `ReleaseEvaluation` for each order.

Everything is computed from private data without noise, so it is itself a disclosure (see
`evaluation.DISCLOSURE`).

- **Coverage** is the share of all n-grams of the private text that the vocabulary lists, every
  occurrence counted. It needs the text: counts know of listed n-grams only.
- **Error removed** is 1 − KL(people ‖ release)/KL(people ‖ public text), over listed n-grams.
- **Top n-grams**: how many of the n-grams that people write most are listed; and which share of
  the listed ones that people write most is among as many that the release, or public text, ranks
  first. Ties are broken at random, and the numbers are expectations over that.
"""

from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from bayesgram.arrays import Floats, Integers
from bayesgram.audit.evaluation import kl_divergence
from bayesgram.errors import BayesgramError
from bayesgram.releases.quality import Coverage, OrderQuality, read_quality
from bayesgram.releases.release import Release
from bayesgram.text.ngrams import NgramCounter, NgramMatcher, add_marks, distinct_orders
from bayesgram.text.tokenizer import Tokenizer

TOP_SIZES = (100, 1_000, 20_000)  # n-grams that people write most; chosen by hand

# --- What people wrote ---


@dataclass(frozen=True, eq=False)
class PrivateNgrams:
    """How often each n-gram occurs in the private text, with or without those not listed.

    Attributes:
        listed: Occurrences by row of the release.
        by_order: Occurrences of all distinct n-grams of an order, in no order; empty if only
            listed n-grams were counted.
    """

    listed: Integers
    by_order: dict[int, Integers]

    @classmethod
    def from_texts(
        cls,
        texts: Iterable[pa.LargeBinaryArray],
        ngrams: pa.LargeStringArray,
        orders: Integers,
        tokenizer: Tokenizer,
    ) -> "PrivateNgrams":
        """Count all n-grams of a text, and those of a list.

        Args:
            texts: Rows of valid UTF-8.
            ngrams: The list.
            orders: The order of each of them.
            tokenizer: Cuts the text; that of the list.
        """
        counter = NgramCounter(distinct_orders(orders), tokenizer)
        matcher = NgramMatcher(ngrams, tokenizer)
        listed = np.zeros(len(ngrams), np.int64)
        for batch in texts:
            counter.add(batch)
            owners = np.zeros(len(batch), np.int32)
            for _, rows in matcher.match([(batch, owners)]):
                listed += np.bincount(rows, minlength=len(ngrams))
        by_order = {order: _count_all(counter, order) for order in distinct_orders(orders)}
        if not any(counts.size for counts in by_order.values()):
            raise BayesgramError(
                "the private text has no n-gram of the orders of the release: there is nothing to"
                " compare with."
            )
        return cls(listed, by_order)


def _count_all(counter: NgramCounter, order: int) -> Integers:
    """Return how often each distinct n-gram of an order occurs; <s> alone is none."""
    counts = [np.zeros(0, np.int64)]
    start = add_marks(counter.tokens)[0] if counter.tokenizer.boundaries else None
    for table in counter.tables(order):
        for rows, row_counts in table.entries():
            is_ngram = np.ones(len(rows), np.bool_) if order > 1 else rows[:, 0] != start
            counts.append(row_counts[is_ngram].astype(np.int64))
    return np.concatenate(counts)


# --- How good a release is for it ---


@dataclass(frozen=True)
class TopNgrams:
    """How well the n-grams that people write most are listed and ranked.

    Attributes:
        size: How many n-grams: those that people write most.
        listed: How many of these the vocabulary lists.
        ranked: How many listed n-grams are compared: `size`, or all that people write.
        release_share: The share of the listed ones that people write most which is among as many
            that the release ranks first; None if people write none of them.
        public_share: The same for public text alone; None if it is not known.
    """

    size: int
    listed: float
    ranked: int
    release_share: float | None
    public_share: float | None


@dataclass(frozen=True)
class ReleaseEvaluation:
    """The exact quality of a release for one order, and what its card estimates.

    Attributes:
        release: The name of the release.
        order: The number of tokens.
        coverage: The share of people's n-grams that the vocabulary lists; None without the text.
        error_removed: The share of public text's error that the release removes. Below 0 if the
            release is worse; None if public text is not known or has no error.
        estimate: What the card says; None if it does not.
        top: The n-grams that people write most; empty without the text.
        is_rows: Whether an n-gram is a whole row.
    """

    release: str
    order: int
    coverage: float | None
    error_removed: float | None
    estimate: OrderQuality | None
    top: tuple[TopNgrams, ...] = ()
    is_rows: bool = False

    @property
    def coverage_estimate(self) -> Coverage | None:
        """The coverage that the card estimates."""
        return None if self.estimate is None else self.estimate.coverage

    @property
    def error_removed_estimate(self) -> float | None:
        """The share of public text's error that the card estimates to be removed."""
        return None if self.estimate is None else self.estimate.error_removed

    def to_json(self) -> dict[str, Any]:
        """Return plain values; an error removed that is −∞ is None, and `is_infinite` says so."""
        coverage = self.coverage_estimate
        is_infinite = self.error_removed == -np.inf
        return {
            "release": self.release,
            "order": self.order,
            "coverage": self.coverage,
            "coverage_estimate": None if coverage is None else asdict(coverage),
            "error_removed": None if is_infinite else self.error_removed,
            "is_infinite": is_infinite,
            "error_removed_estimate": self.error_removed_estimate,
            "top": [asdict(top) for top in self.top],
        }


def evaluate_release(
    name: str, release: Release, private: PrivateNgrams, public: Floats | None
) -> list[ReleaseEvaluation]:
    """Judge a release by what people wrote, for each order that they wrote.

    Args:
        name: What the release is called.
        release: The release.
        private: What people wrote.
        public: The probabilities of public text by row of the release; None if not known.
    """
    estimates = read_quality(release.card.details)
    orders = release.orders
    evaluations = []
    for order in distinct_orders(orders):
        rows = orders == order
        listed = private.listed[rows]
        all_counts = private.by_order.get(order, np.zeros(0, np.int64))
        if not listed.any() and not all_counts.size:
            continue
        prior = None if public is None else public[rows]
        evaluations.append(
            ReleaseEvaluation(
                name,
                order,
                coverage=float(listed.sum() / all_counts.sum()) if all_counts.size else None,
                error_removed=_error_removed(listed, release.probabilities[rows], prior),
                estimate=estimates.get(order),
                top=_evaluate_top(all_counts, listed, release.probabilities[rows], prior),
                is_rows=release.tokenizer.is_rows,
            )
        )
    return evaluations


def _error_removed(listed: Integers, theta: Floats, public: Floats | None) -> float | None:
    """Return 1 − KL(people ‖ θ)/KL(people ‖ public); −∞ if θ rules out what people wrote."""
    if public is None or not listed.any():
        return None
    public_kl = kl_divergence(listed, public)
    if not 0 < public_kl < np.inf:
        return None
    return 1 - kl_divergence(listed, theta) / public_kl


def _evaluate_top(
    all_counts: Integers, listed: Integers, theta: Floats, public: Floats | None
) -> tuple[TopNgrams, ...]:
    """Judge the top 100, 1,000 and 20,000; all n-grams where there are fewer."""
    sizes = dict.fromkeys(min(size, all_counts.size) for size in TOP_SIZES)
    written = int(np.count_nonzero(listed))
    evaluated = []
    for size in sizes:
        if not size:
            continue
        ranked = min(size, written)
        evaluated.append(
            TopNgrams(
                size,
                count_listed(all_counts, listed, size),
                ranked,
                share_in_top(listed, theta, ranked) if ranked else None,
                share_in_top(listed, public, ranked) if ranked and public is not None else None,
            )
        )
    return tuple(evaluated)


def count_listed(all_counts: Integers, listed: Integers, size: int) -> float:
    """Return how many of the n-grams that people write most are listed.

    Of n-grams that occur as often as the last of them, each is one of them with the same
    probability, and the number is an expectation.

    Args:
        all_counts: Occurrences of all n-grams.
        listed: Occurrences of those that are listed, which are among them, or 0.
        size: How many n-grams; at most as many as there are.

    >>> count_listed(np.array([9, 5, 5, 1]), np.array([5, 9, 0]), 2)
    1.5
    """
    threshold, tied_share = _threshold(all_counts, size)
    above = int((listed > threshold).sum())
    tied = int((listed == threshold).sum())
    return above + tied * tied_share


def share_in_top(values: Integers, others: Floats | Integers, size: int) -> float:
    """Return the share of the largest values whose other value is among as many largest ones.

    Ties are broken at random, each side by itself, and the share is an expectation.

    Args:
        values: A number for each n-gram.
        others: Another number for each.
        size: How many are largest.

    >>> share_in_top(np.array([9, 5, 5, 1]), np.array([0.4, 0.3, 0.1, 0.2]), 2)
    0.75
    """
    weights = _top_weights(values, size) * _top_weights(others, size)
    return float(weights.sum() / size)


def _top_weights(values: Floats | Integers, size: int) -> Floats:
    """Return how probable it is that each value is among the largest, ties broken at random."""
    threshold, tied_share = _threshold(values, size)
    weights: Floats = np.where(values == threshold, tied_share, values > threshold)
    return weights


def _threshold(values: Floats | Integers, size: int) -> tuple[float, float]:
    """Return the smallest of the largest values, and the share of its ties that are among them."""
    threshold = np.partition(values, values.size - size)[values.size - size]
    above = int((values > threshold).sum())
    return threshold, (size - above) / int((values == threshold).sum())
