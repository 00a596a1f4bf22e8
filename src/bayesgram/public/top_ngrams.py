"""The n-grams that a vocabulary gets: the most frequent ones of one source, or of several.

In:  the windows of each source, in text or in a list.
Out: the chosen n-grams in order, with their exact counts in every source.

Scores are compared as whole numbers, so that rounding decides no tie; of n-grams with equal scores,
the first in byte order, token by token, comes first.

With several sources, the score of an n-gram is the mean of c_k / N_k over the sources that have
n-grams of this order; N_k is how many source k has, repeats included. Take the n-grams that lead in
each source, and let `size` of them reach the score T. Then the chosen n-grams reach T as well, and
a mean of T needs c_k / N_k of T or more in some source. Such n-grams are few, and only they are
looked up in all sources: as many at a time as memory holds.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from math import lcm
from typing import Any, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from bayesgram.arrays import Floats, Ids, Integers
from bayesgram.errors import Argument, BayesgramError
from bayesgram.text.ngram_tables import (
    SortedWindows,
    WindowIndex,
    WindowTable,
    are_sortable,
    pack_keys,
    token_bits,
)
from bayesgram.text.ngrams import START, NgramCounter, distinct_orders, ngram_orders, ngram_tokens
from bayesgram.text.strings import StringTable
from bayesgram.text.tokenizer import Tokenizer, buffers

# Times `size`: how many n-grams are held before ties for the last place are broken by their tokens.
# Not measured.
MAX_TIES_FACTOR = 4

# Relative error of `approximate_scores`: far above that of a sum of twenty quotients.
ROUNDING_TOLERANCE = 1e-9

# Bytes that a candidate takes at most while it is looked up, and again for every 10 sources.
CANDIDATE_BYTES = 200

# Candidates that are looked up together at least, however little memory there is. Not measured.
MIN_BATCH_ROWS = 1000

# Times `size`: how many leaders of each source are taken, so that other n-grams seldom need to be
# looked for. Not measured.
LEADERS_FACTOR = 2

WindowCounts = tuple[Ids, Integers]
BigIntegers = NDArray[Any]  # whole numbers of any size


@dataclass(frozen=True, eq=False)
class CandidateWindows:
    """Windows that are looked up in every source.

    Attributes:
        rows: The windows, as token ids; a window may stand there twice.
        tokens: The number of tokens; ids are below it.
    """

    rows: Ids
    tokens: int

    @cached_property
    def index(self) -> WindowIndex:
        """An index that finds them in text; made only for sources that need it."""
        return WindowIndex(self.rows, np.arange(len(self.rows), dtype=np.int32), tokens=self.tokens)


class SourceWindows(Protocol):
    """All n-grams of one source."""

    def total(self, order: int) -> int:
        """Return how many n-grams of an order there are, repeats included."""

    def top(self, order: int, size: int) -> WindowCounts:
        """Return the `size` most frequent n-grams, or all if there are fewer, in any order."""

    def with_count(self, order: int, at_least: int) -> Iterator[Ids]:
        """Yield all n-grams that occur at least so often, each once, some at a time."""

    def count(self, wanted: CandidateWindows) -> Integers:
        """Return how often these occur; of equal windows, the second has a count of 0."""


@dataclass(frozen=True, eq=False)
class TextWindows:
    """The n-grams of text."""

    counter: NgramCounter

    @cached_property
    def tokens(self) -> pa.LargeBinaryArray:
        """The distinct tokens, once all text is read."""
        return self.counter.tokens.strings()

    def _excluded_start(self, order: int) -> int:
        """Return the id of <s> for order 1, of which it is no n-gram; −1 for other orders.

        A sentence's start is always known, so a model never predicts it.
        """
        if order > 1 or not self.counter.tokenizer.boundaries:
            return -1
        return int(pc.index(self.tokens, START.encode()).as_py())

    def total(self, order: int) -> int:
        """See `SourceWindows`."""
        return self.counter.count_windows(order)

    def top(self, order: int, size: int) -> WindowCounts:
        """See `SourceWindows`."""
        return _select_leaders(*self.top_with_ties(order, size), size)

    def top_with_ties(self, order: int, size: int) -> WindowCounts:
        """Return the most frequent windows and their counts, with a few ties for the last place."""
        bounds = self.counter.bounds(order)
        start = self._excluded_start(order)
        least = bounds.likely_count(size + 1) if bounds else 1  # one of them may be <s>
        rows, counts = _select_top(
            self.counter.tables(order, bounds, at_least=least), self.tokens, size, start
        )
        reached = int(counts.min()) if counts.size >= size else 1
        if reached < least:
            # Others may have as many. `size` windows reach this count, so no rarer ones are needed.
            rows, counts = _select_top(
                self.counter.tables(order, bounds, at_least=reached), self.tokens, size, start
            )
        return rows, counts

    def with_count(self, order: int, at_least: int) -> Iterator[Ids]:
        """See `SourceWindows`."""
        start = self._excluded_start(order)
        for table in self.counter.tables(order, self.counter.bounds(order), at_least=at_least):
            for rows, _ in table.entries(at_least=at_least):
                yield rows[rows[:, 0] != start]

    def count(self, wanted: CandidateWindows) -> Integers:
        """See `SourceWindows`."""
        ordered = self.counter.sorted_windows(wanted.rows.shape[1])
        if ordered is not None:
            return ordered.counts_of(wanted.rows)
        return self.counter.counts_of(wanted.index, len(wanted.rows))


@dataclass(frozen=True, eq=False)
class ListedWindows:
    """N-grams of a list with their counts: of a model, a release or another vocabulary."""

    by_order: dict[int, WindowCounts]

    @classmethod
    def from_ngrams(
        cls,
        ngrams: pa.LargeStringArray,
        counts: Integers,
        tokens: StringTable,
        tokenizer: Tokenizer,
    ) -> "ListedWindows":
        """Return distinct n-grams as token ids.

        Args:
            ngrams: The n-grams.
            counts: Their counts.
            tokens: The table of token ids; it gets new tokens.
            tokenizer: How the text of the n-grams was cut.
        """
        orders = ngram_orders(ngrams, tokenizer)
        by_order = {}
        for order in distinct_orders(orders):
            rows = np.flatnonzero((orders == order) & (counts > 0))
            words = ngram_tokens(ngrams.take(pa.array(rows)), tokenizer).cast(pa.large_binary())
            by_order[order] = tokens.add(*buffers(words)).reshape(-1, order), counts[rows]
        return cls(by_order)

    def _windows_of(self, order: int) -> WindowCounts:
        return self.by_order.get(order, (np.zeros((0, order), np.int32), np.zeros(0, np.int64)))

    def total(self, order: int) -> int:
        """See `SourceWindows`."""
        return int(self._windows_of(order)[1].sum())

    def top(self, order: int, size: int) -> WindowCounts:
        """See `SourceWindows`."""
        return _select_leaders(*self._windows_of(order), size)

    def with_count(self, order: int, at_least: int) -> Iterator[Ids]:
        """See `SourceWindows`."""
        rows, counts = self._windows_of(order)
        yield rows[counts >= at_least]

    def count(self, wanted: CandidateWindows) -> Integers:
        """See `SourceWindows`."""
        rows, counts = self._windows_of(wanted.rows.shape[1])
        wanted_counts = np.zeros(len(wanted.rows), np.int64)
        owners, numbers = _find_in_index(rows, wanted.index)
        wanted_counts[numbers] = counts[owners]
        return wanted_counts


@dataclass(frozen=True)
class NgramScore:
    """The score of an n-gram: Σ c_k / N_k over sources.

    Exact scores are whole numbers: multiplied by the least common multiple of all N_k.

    Attributes:
        totals: N_k of each source; 0 where it has no n-gram of the order.
    """

    totals: tuple[int, ...]

    @cached_property
    def _multiple(self) -> int:
        return lcm(*filter(None, self.totals))

    @property
    def max_bytes(self) -> int:
        """The number of bytes that hold every exact score."""
        return (self._multiple * len(self.totals)).bit_length() // 8 + 1

    def exact_scores(self, counts: Integers) -> BigIntegers:
        """Return the exact score of each n-gram; counts are K × V."""
        scores = np.zeros(counts.shape[1], object)
        for total, source_counts in zip(self.totals, counts, strict=True):
            if total:
                scores += source_counts.astype(object) * (self._multiple // total)
        return scores

    def approximate_scores(self, counts: Integers) -> Floats:
        """Return Σ c_k / N_k with a relative error below ROUNDING_TOLERANCE."""
        scores = np.zeros(counts.shape[1])
        for total, source_counts in zip(self.totals, counts, strict=True):
            scores += source_counts / max(total, 1)
        return scores

    def ranks(self, counts: Integers) -> Integers:
        """Return numbers that order n-grams as their exact scores do."""
        ranks: Integers = np.unique(self.exact_scores(counts), return_inverse=True)[1].astype(
            np.int64
        )
        return ranks

    def min_counts(self, counts: Integers, size: int) -> list[int]:
        """Return a count for each source; an n-gram below all of them is not among the first.

        `size` of the n-grams reach some score, and one that reaches it has a part of it in one
        source.

        Args:
            counts: The counts of any n-grams, K × V.
            size: How many n-grams are wanted.
        """
        if counts.shape[1] < size:
            return [1] * len(self.totals)
        first = np.argpartition(-self.approximate_scores(counts), size - 1)[:size]
        reached = min(self.exact_scores(counts[:, first]))
        sources = sum(total > 0 for total in self.totals)
        return [max(-(-reached * total // (self._multiple * sources)), 1) for total in self.totals]


def top_ngrams_of_text(
    counter: NgramCounter, order: int, size: int
) -> tuple[pa.LargeStringArray, Integers]:
    """Return the most frequent n-grams of one order of a text, in order, with their counts.

    Args:
        counter: The text.
        order: The number of tokens of an n-gram.
        size: How many n-grams are wanted.

    Raises:
        BayesgramError: If the text has no n-gram of this order.
    """
    text = TextWindows(counter)
    rows, counts = text.top_with_ties(order, size)
    if not counts.size:
        raise no_ngrams_error(order)
    top = _sort_top(rows, counts, text.tokens, size)
    return join_tokens(rows[top], text.tokens), counts[top]


def top_ngrams_of_sources(
    sources: Sequence[SourceWindows], tokens: StringTable, order: int, size: int, *, memory: int
) -> tuple[pa.LargeStringArray, Integers]:
    """Return the n-grams of one order with the highest mean frequency, in order.

    Args:
        sources: The n-grams of each source.
        tokens: The token ids of all sources.
        order: The number of tokens of an n-gram.
        size: How many n-grams are wanted.
        memory: The bytes that candidates may take.

    Returns:
        The n-grams, and their counts in each source (K × V).

    Raises:
        BayesgramError: If no source has an n-gram of this order.
    """
    strings = tokens.strings()
    score = NgramScore(tuple(source.total(order) for source in sources))
    if not any(score.totals):
        raise no_ngrams_error(order)
    batch_rows = max(
        memory // 2 // (CANDIDATE_BYTES + CANDIDATE_BYTES // 10 * len(sources)), MIN_BATCH_ROWS
    )
    leader_count = max(size, min(LEADERS_FACTOR * size, batch_rows // len(sources)))
    leaders = [source.top(order, leader_count) for source in sources]
    leading_rows = _distinct(np.concatenate([rows for rows, _ in leaders]), tokens)
    empty = TopK(score, strings, size, leading_rows[:0], np.zeros((len(sources), 0), np.int64))
    top_k = empty
    for first in range(0, len(leading_rows), batch_rows):
        rows = leading_rows[first : first + batch_rows]
        top_k = top_k.add(rows, _count_in_sources(sources, rows, tokens))
    least = score.min_counts(top_k.counts, size)
    are_complete = [
        _are_all_that_reach(source_leaders, count, leader_count)
        for source_leaders, count in zip(leaders, least, strict=True)
    ]
    if not all(are_complete):
        # Some n-gram that leads in no source may have a high mean: look at all that can.
        top_k = empty
        reaching = [
            [rows[counts >= count]] if is_complete else source.with_count(order, count)
            for source, (rows, counts), count, is_complete in zip(
                sources, leaders, least, are_complete, strict=True
            )
        ]
        for rows, origins in _batch_windows(reaching, batch_rows):
            counts = _count_in_sources(sources, rows, tokens)
            new = _select_new(counts, origins, least)
            top_k = top_k.add(rows[new], counts[:, new])
    rows, counts = top_k.result()
    return join_tokens(rows, strings), counts


@dataclass(frozen=True, eq=False)
class TopK:
    """N-grams that may be among the `size` first.

    Attributes:
        score: How n-grams are compared.
        tokens: The tokens, by id.
        size: How many n-grams are wanted.
        rows: The n-grams, as token ids.
        counts: Their counts in each source (K × V).
    """

    score: NgramScore
    tokens: pa.LargeBinaryArray
    size: int
    rows: Ids
    counts: Integers

    def add(self, rows: Ids, counts: Integers) -> "TopK":
        """Return these n-grams and others, without those that can't be among the first any more."""
        joined = replace(
            self, rows=np.concatenate([self.rows, rows]), counts=np.hstack([self.counts, counts])
        )
        candidates = joined.candidate_rows()
        if candidates.size > MAX_TIES_FACTOR * self.size:
            candidates = candidates[joined.sort(candidates)]
        return replace(joined, rows=joined.rows[candidates], counts=joined.counts[:, candidates])

    def result(self) -> WindowCounts:
        """Return the `size` first, in order, and their counts."""
        candidates = self.candidate_rows()
        top = candidates[self.sort(candidates)]
        return self.rows[top], self.counts[:, top]

    def candidate_rows(self) -> Integers:
        """Return the indices of those that may be among the first, by approximate scores."""
        scores = self.score.approximate_scores(self.counts)
        if scores.size <= self.size:
            return np.arange(scores.size)
        last = np.partition(scores, scores.size - self.size)[scores.size - self.size]
        return np.flatnonzero(scores >= last * (1 - ROUNDING_TOLERANCE))

    def sort(self, candidates: Integers) -> Integers:
        """Return which of these candidates are the first, in order, by exact scores."""
        ranks = self.score.ranks(self.counts[:, candidates])
        return _sort_top(self.rows[candidates], ranks, self.tokens, self.size)


def no_ngrams_error(order: int) -> BayesgramError:
    """Return the error that the public text has no n-gram of an order."""
    return BayesgramError(
        f"the public text has no n-gram of order {order}: give more text, or a smaller ",
        Argument("order"),
        ".",
    )


def _select_leaders(rows: Ids, counts: Integers, size: int) -> WindowCounts:
    """Return the `size` most frequent rows, in any order, and their counts."""
    if counts.size <= size:
        return rows, counts
    leaders = np.argpartition(-counts, size - 1)[:size]
    return rows[leaders], counts[leaders]


def _distinct(rows: Ids, tokens: StringTable) -> Ids:
    """Return every window once."""
    if are_sortable(rows.shape[1], len(tokens)):
        first = np.sort(np.unique(pack_keys(rows, token_bits(len(tokens))), return_index=True)[1])
        return rows[first]
    _, number = _find_in_index(rows, CandidateWindows(rows, len(tokens)).index)
    distinct: Ids = rows[number == np.arange(len(rows))]
    return distinct


def _find_in_index(rows: Ids, index: WindowIndex) -> tuple[Ids, Ids]:
    """Return which of these windows an index has, and their numbers in it."""
    stream = np.insert(rows, index.order, -1, axis=1).ravel()
    return index.find(
        stream,
        np.arange(1, len(rows) + 1) * (index.order + 1),
        np.arange(len(rows), dtype=np.int32),
    )


def _count_in_sources(sources: Sequence[SourceWindows], rows: Ids, tokens: StringTable) -> Integers:
    """Return how often each source has these windows (K × V); a repeated window has 0."""
    wanted = CandidateWindows(rows, len(tokens))
    return np.stack([source.count(wanted) for source in sources])


def _are_all_that_reach(leaders: WindowCounts, at_least: int, size: int) -> bool:
    """Return whether the `size` leaders of a source are all of its windows that reach a count.

    Where the last leader reaches it, other windows may have as many.
    """
    return leaders[1].size < size or int(leaders[1].min()) < at_least


def _batch_windows(
    by_source: Sequence[Iterable[Ids]], batch_rows: int
) -> Iterator[tuple[Ids, Ids]]:
    """Yield the windows of every source, and the number of the source, in batches of that size."""
    waiting: list[Ids] = []
    origins: list[int] = []
    for origin, parts in enumerate(by_source):
        for rows in parts:
            waiting.append(rows)
            origins.append(origin)
            if sum(map(len, waiting)) >= batch_rows:
                yield _concatenate(waiting, origins)
                waiting = []
                origins = []
    if any(map(len, waiting)):
        yield _concatenate(waiting, origins)


def _concatenate(parts: Sequence[Ids], origins: Sequence[int]) -> tuple[Ids, Ids]:
    lengths = [len(part) for part in parts]
    return np.concatenate(parts), np.repeat(np.array(origins, np.int32), lengths)


def _select_new(counts: Integers, origins: Ids, least: Sequence[int]) -> Integers:
    """Return which candidates no earlier source has yielded.

    Of equal candidates in one batch, the second has no counts and is not selected either.
    """
    reaches = counts >= np.array(least)[:, None]
    first_source = np.where(reaches.any(axis=0), reaches.argmax(axis=0), -1)
    return np.flatnonzero(first_source == origins)


def _select_top(
    tables: Iterable[WindowTable | SortedWindows],
    tokens: pa.LargeBinaryArray,
    size: int,
    start: int,
) -> WindowCounts:
    """Return the most frequent windows of tables that have none in common, and their counts."""
    top: WindowCounts | None = None
    for table in tables:
        least = table.count_reached_by(size + 1)
        if top and top[1].size >= size:
            least = max(least, int(top[1].min()))
        for rows, counts in table.entries(at_least=least):
            is_ngram = rows[:, 0] != start
            entries = rows[is_ngram], counts[is_ngram]
            top = _merge_top(top, entries, tokens, size) if top else entries
    return top or (np.zeros((0, 1), np.int32), np.zeros(0, np.int64))


def _merge_top(
    top: WindowCounts, others: WindowCounts, tokens: pa.LargeBinaryArray, size: int
) -> WindowCounts:
    """Return all rows that may still be among the `size` first, with ties for the last if few."""
    if not others[1].size:
        return top
    rows = np.concatenate([top[0], others[0]])
    counts = np.concatenate([top[1], others[1]])
    if counts.size > size:
        last = np.partition(counts, counts.size - size)[counts.size - size]
        reaching = np.flatnonzero(counts >= last)
        rows = rows[reaching]
        counts = counts[reaching]
    if counts.size > MAX_TIES_FACTOR * size:
        first = _sort_top(rows, counts, tokens, size)
        rows = rows[first]
        counts = counts[first]
    return rows, counts


def _sort_top(rows: Ids, counts: Integers, tokens: pa.LargeBinaryArray, size: int) -> Integers:
    """Return the indices of the `size` most frequent rows, in order.

    Of equal counts, those whose tokens come first in byte order are first.
    """
    used, places = np.unique(rows, return_inverse=True)
    rank = np.empty(used.size, np.int64)
    rank[pc.sort_indices(tokens.take(pa.array(used))).to_numpy()] = np.arange(used.size)
    ranks = rank[places.reshape(rows.shape)]
    order: Integers = np.lexsort([*ranks.T[::-1], -counts])[:size]
    return order


def join_tokens(rows: Ids, tokens: pa.LargeBinaryArray) -> pa.LargeStringArray:
    """Return windows as strings: their tokens, joined by spaces."""
    words = [tokens.take(pa.array(column)).cast(pa.large_string()) for column in rows.T]
    return pc.binary_join_element_wise(*words, pa.scalar(" ", pa.large_string()))
