"""Which n-grams a vocabulary gets: the most frequent of one source, or of several by the mean of their frequencies.

In:  the windows of each source, in text or in a list.   Out: the chosen n-grams in order, with their exact counts in
every source. What is compared is whole numbers, so no tie is decided by rounding; of equal n-grams the first in byte
order, token by token, comes first.

Several sources. An n-gram's worth is the mean of c_k / N_k over the sources that have n-grams of this order; N_k is
how many source k has, repeats included. The n-grams that lead in each source have some worth; say `size` of them reach
T. Then the chosen ones reach T as well, and what has a mean of T has c_k / N_k of T or more in some source. Such
n-grams are few, and only they are looked up in all sources: as many at a time as memory holds.
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
from bayesgram.text.ngrams import START, NgramCounter, distinct_orders, ngram_orders
from bayesgram.text.strings import StringTable
from bayesgram.text.tokenizer import buffers

MAX_TIES_FACTOR = 4  # times as many n-grams as are asked for wait for the order of their tokens
ROUNDING_TOLERANCE = 1e-9  # far above what rounding does to a sum of twenty quotients
CANDIDATE_BYTES = 200  # that a candidate takes while it is looked up, at the most, and as many bytes again for 10 sources
MIN_BATCH_ROWS = 1000  # that are looked up together
LEADERS_FACTOR = (
    2  # times as many leaders as are asked for: then other n-grams seldom need be looked for
)

WindowCounts = tuple[Ids, Integers]
BigIntegers = NDArray[Any]  # whole numbers of any size


@dataclass(frozen=True, eq=False)
class CandidateWindows:
    """Windows of numbers below `tokens` that are asked for in every source; some may stand there twice."""

    rows: Ids
    tokens: int

    @cached_property
    def index(self) -> WindowIndex:
        """Finds them in text; it is made for sources that need it."""
        return WindowIndex(self.rows, np.arange(len(self.rows), dtype=np.int32), tokens=self.tokens)


class SourceWindows(Protocol):
    """All n-grams of one source."""

    def total(self, order: int) -> int:
        """How many n-grams of an order there are, repeats included."""

    def top(self, order: int, size: int) -> WindowCounts:
        """The `size` most frequent ones, in any order, and their counts; all, if there are fewer."""

    def with_count(self, order: int, at_least: int) -> Iterator[Ids]:
        """All that occur so often, some at a time, each once."""

    def count(self, wanted: CandidateWindows) -> Integers:
        """How often these occur; of equal ones, the second has none."""


@dataclass(frozen=True, eq=False)
class TextWindows:
    """The n-grams of text."""

    counter: NgramCounter

    @cached_property
    def tokens(self) -> pa.LargeBinaryArray:
        """The distinct tokens, once all text is read."""
        return self.counter.tokens.strings()

    def _start(self, order: int) -> int:
        """The number of <s>, which is no n-gram of order 1: a sentence's start is given, never predicted."""
        if order > 1 or not self.counter.tokenizer.boundaries:
            return -1
        return int(pc.index(self.tokens, START.encode()).as_py())

    def total(self, order: int) -> int:
        """See `SourceWindows`."""
        return self.counter.count_windows(order)

    def top(self, order: int, size: int) -> WindowCounts:
        """See `SourceWindows`."""
        return _leading(*self.top_with_ties(order, size), size)

    def top_with_ties(self, order: int, size: int) -> WindowCounts:
        """The most frequent windows, and those that tie for the last place if they are few; and their counts."""
        bounds, start = self.counter.bounds(order), self._start(order)
        least = bounds.likely_count(size + 1) if bounds else 1  # one of them may be <s>
        rows, counts = _best(
            self.counter.tables(order, bounds, at_least=least), self.tokens, size, start
        )
        reached = int(counts.min()) if counts.size >= size else 1
        if (
            reached < least
        ):  # others may have as many; as `size` do reach this count, no more need be looked at
            rows, counts = _best(
                self.counter.tables(order, bounds, at_least=reached), self.tokens, size, start
            )
        return rows, counts

    def with_count(self, order: int, at_least: int) -> Iterator[Ids]:
        """See `SourceWindows`."""
        start = self._start(order)
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
        cls, ngrams: pa.LargeStringArray, counts: Integers, tokens: StringTable
    ) -> "ListedWindows":
        """Distinct n-grams in the numbers of these tokens, which get new ones."""
        orders, by_order = ngram_orders(ngrams), {}
        for order in distinct_orders(orders):
            rows = np.flatnonzero((orders == order) & (counts > 0))
            words = (
                pc.split_pattern(ngrams.take(pa.array(rows)), " ").flatten().cast(pa.large_binary())
            )
            by_order[order] = tokens.add(*buffers(words)).reshape(-1, order), counts[rows]
        return cls(by_order)

    def _of(self, order: int) -> WindowCounts:
        return self.by_order.get(order, (np.zeros((0, order), np.int32), np.zeros(0, np.int64)))

    def total(self, order: int) -> int:
        """See `SourceWindows`."""
        return int(self._of(order)[1].sum())

    def top(self, order: int, size: int) -> WindowCounts:
        """See `SourceWindows`."""
        return _leading(*self._of(order), size)

    def with_count(self, order: int, at_least: int) -> Iterator[Ids]:
        """See `SourceWindows`."""
        rows, counts = self._of(order)
        yield rows[counts >= at_least]

    def count(self, wanted: CandidateWindows) -> Integers:
        """See `SourceWindows`."""
        rows, counts = self._of(wanted.rows.shape[1])
        found = np.zeros(len(wanted.rows), np.int64)
        owners, numbers = _found_in(rows, wanted.index)
        found[numbers] = counts[owners]
        return found


@dataclass(frozen=True)
class NgramScore:
    """Σ c_k / N_k over sources, as a whole number: times the least common multiple of all N_k."""

    totals: tuple[int, ...]

    @cached_property
    def _multiple(self) -> int:
        return lcm(*filter(None, self.totals))

    @property
    def max_bytes(self) -> int:
        """As many bytes hold every worth."""
        return (self._multiple * len(self.totals)).bit_length() // 8 + 1

    def exact_scores(self, counts: Integers) -> BigIntegers:
        """The worth of each n-gram (counts are K × V)."""
        worth = np.zeros(counts.shape[1], object)
        for total, own in zip(self.totals, counts, strict=True):
            if total:
                worth += own.astype(object) * (self._multiple // total)
        return worth

    def approximate_scores(self, counts: Integers) -> Floats:
        """The same without the factor, to within ROUGHLY of itself."""
        worth = np.zeros(counts.shape[1])
        for total, own in zip(self.totals, counts, strict=True):
            worth += own / max(total, 1)
        return worth

    def ranks(self, counts: Integers) -> Integers:
        """Numbers that order n-grams as their worth does."""
        ranks: Integers = np.unique(self.exact_scores(counts), return_inverse=True)[1].astype(
            np.int64
        )
        return ranks

    def min_counts(self, counts: Integers, size: int) -> list[int]:
        """A count for each source, such that an n-gram that is below all of them is not among the `size` first.

        `counts` are of any n-grams: `size` of them reach some worth, and a part of it in one source.
        """
        if counts.shape[1] < size:
            return [1] * len(self.totals)
        first = np.argpartition(-self.approximate_scores(counts), size - 1)[:size]
        reached, sources = (
            min(self.exact_scores(counts[:, first])),
            sum(total > 0 for total in self.totals),
        )
        return [max(-(-reached * total // (self._multiple * sources)), 1) for total in self.totals]


def top_ngrams_of_text(
    counter: NgramCounter, order: int, size: int
) -> tuple[pa.LargeStringArray, Integers]:
    """The most frequent n-grams of one order as strings, with their counts, in order."""
    text = TextWindows(counter)
    rows, counts = text.top_with_ties(order, size)
    if not counts.size:
        raise no_ngrams_error(order)
    places = _first(rows, counts, text.tokens, size)
    return join_tokens(rows[places], text.tokens), counts[places]


def top_ngrams_of_sources(
    sources: Sequence[SourceWindows], tokens: StringTable, order: int, size: int, *, memory: int
) -> tuple[pa.LargeStringArray, Integers]:
    """The n-grams of one order with the highest mean frequency, in order, with their counts in each source (K × V)."""
    strings, worth = tokens.strings(), NgramScore(tuple(source.total(order) for source in sources))
    if not any(worth.totals):
        raise no_ngrams_error(order)
    most_rows = max(
        memory // 2 // (CANDIDATE_BYTES + CANDIDATE_BYTES // 10 * len(sources)), MIN_BATCH_ROWS
    )
    wide = max(size, min(LEADERS_FACTOR * size, most_rows // len(sources)))
    leaders = [source.top(order, wide) for source in sources]
    known = _distinct(np.concatenate([rows for rows, _ in leaders]), tokens)
    nobody = TopK(worth, strings, size, known[:0], np.zeros((len(sources), 0), np.int64))
    top_k = nobody
    for first in range(0, len(known), most_rows):
        rows = known[first : first + most_rows]
        top_k = top_k.add(rows, _counts_in(sources, rows, tokens))
    least = worth.min_counts(top_k.counts, size)
    whole = [_are_all(led, count, wide) for led, count in zip(leaders, least, strict=True)]
    if not all(whole):
        top_k = nobody
        reaching = [
            [rows[own >= count]] if complete else source.with_count(order, count)
            for source, (rows, own), count, complete in zip(
                sources, leaders, least, whole, strict=True
            )
        ]
        for rows, origins in _gathered(reaching, most_rows):
            counts = _counts_in(sources, rows, tokens)
            new = _not_before(counts, origins, least)
            top_k = top_k.add(rows[new], counts[:, new])
    rows, counts = top_k.result()
    return join_tokens(rows, strings), counts


@dataclass(frozen=True, eq=False)
class TopK:
    """N-grams that may be among the `size` first, with their counts in each source (K × V)."""

    score: NgramScore
    tokens: pa.LargeBinaryArray
    size: int
    rows: Ids
    counts: Integers

    def add(self, rows: Ids, counts: Integers) -> "TopK":
        """With others; without those that can't be among the first any more, and few that tie for the last place."""
        joined = replace(
            self, rows=np.concatenate([self.rows, rows]), counts=np.hstack([self.counts, counts])
        )
        kept = joined.candidate_rows()
        if kept.size > MAX_TIES_FACTOR * self.size:
            kept = kept[joined.sort(kept)]
        return replace(joined, rows=joined.rows[kept], counts=joined.counts[:, kept])

    def result(self) -> WindowCounts:
        """The `size` first, in order."""
        kept = self.candidate_rows()
        places = kept[self.sort(kept)]
        return self.rows[places], self.counts[:, places]

    def candidate_rows(self) -> Integers:
        """Where those are that may be among the first, as far as rounded numbers tell."""
        roughly = self.score.approximate_scores(self.counts)
        if roughly.size <= self.size:
            return np.arange(roughly.size)
        last = np.partition(roughly, roughly.size - self.size)[roughly.size - self.size]
        return np.flatnonzero(roughly >= last * (1 - ROUNDING_TOLERANCE))

    def sort(self, kept: Integers) -> Integers:
        """Where the first of these are, exactly."""
        return _first(
            self.rows[kept], self.score.ranks(self.counts[:, kept]), self.tokens, self.size
        )


def no_ngrams_error(order: int) -> BayesgramError:
    """That there is nothing to choose from."""
    return BayesgramError(
        f"the public text has no n-gram of order {order}: give more text, or a smaller ",
        Argument("order"),
        ".",
    )


def _leading(rows: Ids, counts: Integers, size: int) -> WindowCounts:
    """The `size` most frequent rows, in any order, and their counts."""
    if counts.size <= size:
        return rows, counts
    places = np.argpartition(-counts, size - 1)[:size]
    return rows[places], counts[places]


def _distinct(rows: Ids, tokens: StringTable) -> Ids:
    """Every window once."""
    if are_sortable(rows.shape[1], len(tokens)):
        first = np.sort(np.unique(pack_keys(rows, token_bits(len(tokens))), return_index=True)[1])
        return rows[first]
    _, number = _found_in(rows, CandidateWindows(rows, len(tokens)).index)
    distinct: Ids = rows[number == np.arange(len(rows))]
    return distinct


def _found_in(rows: Ids, index: WindowIndex) -> tuple[Ids, Ids]:
    """Which of these windows an index has, and their numbers in it."""
    stream = np.insert(rows, index.order, -1, axis=1).ravel()
    return index.find(
        stream,
        np.arange(1, len(rows) + 1) * (index.order + 1),
        np.arange(len(rows), dtype=np.int32),
    )


def _counts_in(sources: Sequence[SourceWindows], rows: Ids, tokens: StringTable) -> Integers:
    """How often each source has these windows (K × V); of windows that are there twice, the second has none."""
    wanted = CandidateWindows(rows, len(tokens))
    return np.stack([source.count(wanted) for source in sources])


def _are_all(leaders: WindowCounts, at_least: int, size: int) -> bool:
    """Whether the `size` leaders of a source are all that reach a count; others may have as many as the last one."""
    return leaders[1].size < size or int(leaders[1].min()) < at_least


def _gathered(by_source: Sequence[Iterable[Ids]], most_rows: int) -> Iterator[tuple[Ids, Ids]]:
    """The windows of every source, and the number of the source, about `most_rows` at a time."""
    waiting: list[Ids] = []
    origins: list[int] = []
    for origin, parts in enumerate(by_source):
        for rows in parts:
            waiting.append(rows)
            origins.append(origin)
            if sum(map(len, waiting)) >= most_rows:
                yield _together(waiting, origins)
                waiting, origins = [], []
    if any(map(len, waiting)):
        yield _together(waiting, origins)


def _together(parts: Sequence[Ids], origins: Sequence[int]) -> tuple[Ids, Ids]:
    return np.concatenate(parts), np.repeat(
        np.array(origins, np.int32), [len(part) for part in parts]
    )


def _not_before(counts: Integers, origins: Ids, least: Sequence[int]) -> Integers:
    """Which candidates no earlier source has brought; where equal ones stand side by side, the second has no counts."""
    enough = counts >= np.array(least)[:, None]
    found = np.where(
        enough.any(axis=0), enough.argmax(axis=0), -1
    )  # the first source that brings it
    return np.flatnonzero(found == origins)


def _best(
    tables: Iterable[WindowTable | SortedWindows],
    tokens: pa.LargeBinaryArray,
    size: int,
    start: int,
) -> WindowCounts:
    """The most frequent windows of tables that have none in common, and their counts."""
    best: WindowCounts | None = None
    for table in tables:
        least = table.count_reached_by(size + 1)
        if best and best[1].size >= size:
            least = max(least, int(best[1].min()))
        for rows, counts in table.entries(at_least=least):
            told = rows[:, 0] != start
            found = rows[told], counts[told]
            best = _race(*best, *found, tokens, size) if best else found
    return best or (np.zeros((0, 1), np.int32), np.zeros(0, np.int64))


def _race(
    rows: Ids,
    counts: Integers,
    more: Ids,
    their_counts: Integers,
    tokens: pa.LargeBinaryArray,
    size: int,
) -> WindowCounts:
    """All rows that may still be among the `size` first; those that tie for the last place too, if they are few."""
    if not their_counts.size:
        return rows, counts
    rows, counts = np.concatenate([rows, more]), np.concatenate([counts, their_counts])
    if counts.size > size:
        kept = np.flatnonzero(
            counts >= np.partition(counts, counts.size - size)[counts.size - size]
        )
        rows, counts = rows[kept], counts[kept]
    if counts.size > MAX_TIES_FACTOR * size:
        kept = _first(rows, counts, tokens, size)
        rows, counts = rows[kept], counts[kept]
    return rows, counts


def _first(rows: Ids, counts: Integers, tokens: pa.LargeBinaryArray, size: int) -> Integers:
    """Where the `size` most frequent rows stand, in order; of equal counts, those whose tokens come first."""
    used, places = np.unique(rows, return_inverse=True)
    rank = np.empty(used.size, np.int64)
    rank[pc.sort_indices(tokens.take(pa.array(used))).to_numpy()] = np.arange(used.size)
    ranks = rank[places.reshape(rows.shape)]
    order: Integers = np.lexsort([*ranks.T[::-1], -counts])[:size]
    return order


def join_tokens(rows: Ids, tokens: pa.LargeBinaryArray) -> pa.LargeStringArray:
    """Windows as strings."""
    words = [tokens.take(pa.array(column)).cast(pa.large_string()) for column in rows.T]
    return pc.binary_join_element_wise(*words, pa.scalar(" ", pa.large_string()))
