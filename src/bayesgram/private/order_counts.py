"""Counts of the n-grams of one order, as if the vocabulary had no others.

`posterior` measures each order by itself: with queries, a clip norm and a share of the budget of
its own. Here a user's row is restricted to one order. What remains of a user is a function of that
user alone, so every bound on what one user adds holds for an order as it holds for all of them.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from bayesgram.arrays import Ids, Integers
from bayesgram.errors import UsageError
from bayesgram.kernels import kernel
from bayesgram.private.counts import Array, PrivateCounts, UserRows


@dataclass(frozen=True)
class OrderColumns:
    """Which columns of the counts belong to an order.

    The columns of counts are segments × n-grams of all orders, followed by segments × orders for
    the n-grams that the vocabulary does not list.

    Attributes:
        first: The first n-gram of the order.
        last: The last n-gram, plus 1.
        vocabulary_size: The number of n-grams of all orders.
        index: The place of the order among the orders.
        order_count: The number of orders.
        segment_count: The number of segments, 1 if there are none.
    """

    first: int
    last: int
    vocabulary_size: int
    index: int
    order_count: int
    segment_count: int

    @property
    def listed_size(self) -> int:
        """The number of columns of the n-grams of this order, in all segments."""
        return self.segment_count * (self.last - self.first)


@dataclass(frozen=True, eq=False, repr=False)
class OrderCounts(PrivateCounts):
    """Counts of one order: segments × its n-grams, then unlisted n-grams of each segment."""

    counts: PrivateCounts
    columns: OrderColumns
    vocabulary_size: int
    unlisted_size: int
    vocabulary_fingerprint: str | None = None

    def __repr__(self) -> str:
        return f"OrderCounts(private, over {self.vocabulary_size:,} n-grams)"

    def aggregate_all(
        self, measure: Callable[[UserRows], Array], merge: np.ufunc = np.add
    ) -> Array:
        """Measure the rows of this order of all users who have any, and merge the results."""
        select_and_measure = partial(_measure_order, measure=measure, columns=self.columns)
        return self.counts.aggregate_all(select_and_measure, merge)

    def metered_sum(
        self,
        compute: Callable[[PrivateCounts], Integers],
        *,
        share: float,
        share_left: float,
    ) -> Integers:
        """Return the exact sum of a query, as the counts of all orders limit and charge it."""
        return self.counts.metered_sum(
            lambda counts: compute(replace(self, counts=counts)),
            share=share,
            share_left=share_left,
        )

    def cached_sum(self, name: tuple[object, ...], compute: Callable[[], Integers]) -> Integers:
        """Return a sum over these users, which the counts of all orders may remember."""
        return self.counts.cached_sum(("order", self.columns, *name), compute)


def check_unlisted_columns(counts: PrivateCounts, sizes: Sequence[int]) -> None:
    """Refuse counts whose columns of unlisted n-grams are not one for each order and segment.

    Kernels trust that every column has a coordinate of its own: a column too many would be added to
    the coordinate of something else, beyond the norm that is clipped.

    Args:
        counts: Counts of all orders.
        sizes: How many n-grams each order has, in one segment.

    Raises:
        UsageError: If there are more of these columns, or fewer, and not none.
    """
    expected = counts.vocabulary_size // sum(sizes) * len(sizes)
    if counts.unlisted_size not in {0, expected}:
        raise UsageError(
            f"the counts have {counts.unlisted_size:,} columns for n-grams that the vocabulary does"
            f" not list, and must have {expected:,} (one for each order and segment) or none; count"
            " again with `bayesgram count`."
        )


def select_order(counts: PrivateCounts, sizes: Sequence[int], index: int) -> PrivateCounts:
    """Return the counts of one order; the counts themselves if there is only one.

    Args:
        counts: Counts of all orders.
        sizes: How many n-grams each order has, in one segment.
        index: Which order.
    """
    if len(sizes) == 1:
        return counts
    vocabulary_size = sum(sizes)
    segment_count = counts.vocabulary_size // vocabulary_size
    first = sum(sizes[:index])
    columns = OrderColumns(
        first, first + sizes[index], vocabulary_size, index, len(sizes), segment_count
    )
    unlisted_size = segment_count if counts.unlisted_size else 0
    return OrderCounts(counts, columns, columns.listed_size, unlisted_size)


# Runs where the users' rows are, which may be on other machines: a plain function, so that it can
# be pickled.
def _measure_order(
    rows: UserRows, measure: Callable[[UserRows], Array], columns: OrderColumns
) -> Array:
    kept, starts, ngrams, counts = _select_rows(
        rows.starts,
        rows.ngrams,
        rows.counts,
        columns.first,
        columns.last,
        columns.vocabulary_size,
        columns.index,
        columns.order_count,
        columns.segment_count,
    )
    meter = None if rows.meter is None else rows.meter.select(kept)
    return measure(UserRows(starts, ngrams, counts, meter=meter))


@kernel
def _select_rows(
    starts: Integers,
    ngrams: Ids,
    counts: Ids,
    first: int,
    last: int,
    vocabulary_size: int,
    index: int,
    order_count: int,
    segment_count: int,
) -> tuple[Integers, Integers, Ids, Ids]:
    """Return which users have rows of one order, and these rows, renumbered.

    Columns ascend before and after.
    """
    kept = np.empty(starts.size - 1, np.int64)
    listed = segment_count * vocabulary_size
    size = last - first
    selected_starts = np.zeros(starts.size, np.int64)
    selected_ngrams = np.empty(starts[-1] - starts[0], np.int32)
    selected_counts = np.empty(starts[-1] - starts[0], np.int32)
    users = 0
    written = 0
    for user in range(starts.size - 1):
        for at in range(starts[user], starts[user + 1]):
            column = ngrams[at]
            if column < listed:
                segment = column // vocabulary_size
                ngram = column - segment * vocabulary_size
                if not first <= ngram < last:
                    continue
                place = segment * size + ngram - first
            else:
                segment = (column - listed) // order_count
                if column - listed - segment * order_count != index:
                    continue
                place = segment_count * size + segment
            selected_ngrams[written] = place
            selected_counts[written] = counts[at]
            written += 1
        if written > selected_starts[users]:
            kept[users] = user
            users += 1
            selected_starts[users] = written
    return (
        kept[:users].copy(),
        selected_starts[: users + 1].copy(),
        selected_ngrams[:written].copy(),
        selected_counts[:written].copy(),
    )
