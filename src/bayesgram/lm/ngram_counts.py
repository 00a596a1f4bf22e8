"""All n-grams of a text with their counts, on disk: order by order, and each order sorted.

In go the n-grams of each order, in any order; out comes `NgramCounts`, whose columns are read some
rows at a time. The place of an n-gram is its position in its order. Its children (itself and one
word more) stand together in the next order, sorted by word, as in a `Trie`; its suffix is the same
n-gram without its first word. What is needed of a suffix stands anywhere in the order below: it is
looked up in parts of that order, one after the other (`io.spill`).

More n-grams than memory holds are sorted by `NgramSorter`: runs are sorted and written, then
merged.

Memory: `batch_rows` n-grams are worked on at a time, and `part_rows` of the order below are looked
up; the words are always all in memory.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import cached_property, partial
from itertools import count
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import DTypeLike, NDArray

from bayesgram.arrays import Hashes, Ids, Integers
from bayesgram.errors import BayesgramError
from bayesgram.io.spill import (
    Lookup,
    SpillableColumn,
    partitioned_lookup,
    partitioned_reduce,
    spans,
)
from bayesgram.kernels import kernel
from bayesgram.lm.packed import Words, bits_for
from bayesgram.lm.trie import MAX_NODES, find_special

# Bytes that an n-gram takes at most, counted by hand from the arrays.
BATCH_ROW_BYTES = 256  # while it is worked on
PART_ROW_BYTES = 64  # while others look it up
MIN_ROWS = 1 << 14  # worked on at a time, however little memory there is; not measured
# Each column may keep this part of the memory, 1/256, and is written to disk when it has more: a
# good many columns that are small enough stay in memory. Not measured.
MAX_COLUMNS = 256
MAX_PARTS = 256  # files that are open at a time: far below what systems allow

CountedRows = tuple[Ids, Integers]  # n-grams of an order as rows of word ids, and their counts
KeyedCounts = tuple[Hashes, Integers]  # n-grams as sortable keys, a row each, and their counts


# --- Counts ---


class ContextBlock(NamedTuple):
    """Some contexts of an order, and all their children in the next."""

    contexts: tuple[int, int]  # a range of places
    nodes: tuple[int, int]  # the range of their children, as places in the next order
    children: Integers  # how many children each context has

    @property
    def parents(self) -> Integers:
        """The context of every child, counted from the first of the block."""
        return np.repeat(np.arange(self.children.size), self.children)


@dataclass(frozen=True, eq=False)
class CountLevel:
    """The n-grams of one order, as columns on disk."""

    word: SpillableColumn  # the last word
    counts: SpillableColumn
    suffix: SpillableColumn  # its place in the order below
    children: SpillableColumn  # how many there are in the next order; empty for the longest

    @property
    def size(self) -> int:
        """The number of n-grams."""
        return self.word.size


@dataclass(frozen=True, eq=False)
class NgramCounts:
    """Every n-gram of a text with its count."""

    words: Words
    folder: Path  # where columns are written
    memory: int  # bytes
    levels: list[CountLevel] = field(default_factory=list)  # of order 1, 2, …; the first: all words
    _column_numbers: Iterator[int] = field(default_factory=count)

    @classmethod
    def from_orders(
        cls, words: Words, orders: Iterable[Iterable[CountedRows]], folder: Path, memory: int
    ) -> "NgramCounts":
        """Sort and link the n-grams of a text.

        Args:
            words: The words.
            orders: Of order 1, 2, …: the n-grams, each once and in any order, some at a time.
                Orders that have none are left out.
            folder: Where columns are written.
            memory: The bytes to work with.
        """
        counts = cls(words, folder, memory)
        rows = counts.new_column(np.int32, width=1)
        for order, parts in enumerate(orders, start=1):
            if order == 1:
                counts._add_words(parts, rows)
            else:
                rows = counts._add_order(order, parts, rows)
        return counts

    @property
    def batch_rows(self) -> int:
        """How many n-grams are worked on at a time."""
        return max(self.memory // BATCH_ROW_BYTES, MIN_ROWS)

    def part_rows(self, order: int) -> int:
        """Return how many n-grams of an order are in memory while others look them up."""
        most_parts_rows = -(-self.levels[order - 1].size // MAX_PARTS)
        return max(self.memory // PART_ROW_BYTES, MIN_ROWS, most_parts_rows)

    @property
    def order(self) -> int:
        """The number of words in the longest n-grams."""
        return len(self.levels)

    @property
    def size(self) -> int:
        """The number of n-grams."""
        return sum(level.size for level in self.levels)

    @property
    def is_empty(self) -> bool:
        """Whether the text has no words."""
        return self.order < 2

    @cached_property
    def start_word(self) -> int:
        """The id of <s>, which begins a sentence."""
        return find_special(self.words).start

    @cached_property
    def start_ranges(self) -> list[tuple[int, int]]:
        """Which n-grams of each order begin with <s>: a range of places, as they are sorted."""
        ranges = [(self.start_word, self.start_word + 1)]
        for level in self.levels[:-1]:
            first, last = ranges[-1]
            before = _sum_range(level.children, (0, first), self.batch_rows)
            inside = _sum_range(level.children, (first, last), self.batch_rows)
            ranges.append((before, before + inside))
        return ranges

    def new_column(self, kind: DTypeLike, *, width: int | None = None) -> SpillableColumn:
        """Return an empty column on disk."""
        path = self.folder / f"column-{next(self._column_numbers)}"
        return SpillableColumn(path, kind, width=width, kept_bytes=self.memory // MAX_COLUMNS)

    def blocks(self, order: int, max_rows: int | None = None) -> Iterator[ContextBlock]:
        """Yield all n-grams of an order from 2 with their contexts.

        Args:
            order: The order of the n-grams.
            max_rows: How many n-grams a block has at most, unless they are those of one context.
        """
        max_rows = max_rows or self.batch_rows
        children = self.levels[order - 2].children
        context = node = 0
        while context < children.size:
            batch = children.read(context, min(context + max_rows, children.size))
            sizes = batch.astype(np.int64)
            ends = np.cumsum(sizes)
            context_count = max(int(np.searchsorted(ends, max_rows, side="right")), 1)
            next_context = context + context_count
            next_node = node + int(ends[context_count - 1])
            yield ContextBlock((context, next_context), (node, next_node), sizes[:context_count])
            context = next_context
            node = next_node

    def lookup_at_suffixes(self, order: int, values: SpillableColumn) -> Iterator[NDArray[Any]]:
        """Yield, for each block of an order's n-grams, the values of their suffixes.

        Args:
            order: The order of the n-grams.
            values: A value for each n-gram of the order below.
        """
        part_rows = self.part_rows(order - 1)
        suffix = self.levels[order - 1].suffix
        places = (suffix.read(*block.nodes) for block in self.blocks(order))

        def load_part(number: int) -> Lookup:
            first = number * part_rows
            last = min(first + part_rows, values.size)
            return partial(_take_from, values.read(first, last), first)

        return partitioned_lookup(
            places, np.arange(0, values.size, part_rows), load_part, self.folder
        )

    def reduce_to_suffixes(
        self,
        order: int,
        values: Iterable[NDArray[Any]],
        *,
        combine: np.ufunc,
        initial: NDArray[Any],
    ) -> Iterator[NDArray[Any]]:
        """Combine the values of an order's n-grams that have the same suffix.

        Args:
            order: The order of the n-grams.
            values: Their values, `batch_rows` at a time.
            combine: How values are put together.
            initial: The value of an n-gram that is nobody's suffix, as an array of one.

        Yields:
            A value for each n-gram of the order below, `batch_rows` at a time.
        """
        size = self.levels[order - 2].size
        suffix = self.levels[order - 1].suffix
        pairs = zip(suffix.spans(self.batch_rows), values, strict=True)
        part_rows = self.part_rows(order - 1)
        return partitioned_reduce(
            pairs, size, part_rows, combine=combine.at, nothing=initial, folder=self.folder
        )

    # --- Building ---

    def _new_level(self) -> CountLevel:
        return CountLevel(
            word=self.new_column(np.int32),
            counts=self.new_column(np.int64),
            suffix=self.new_column(np.int32),
            children=self.new_column(np.int32),
        )

    def _add_words(self, parts: Iterable[CountedRows], rows: SpillableColumn) -> None:
        """Add order 1: all words, and how often they occur."""
        counts = np.zeros(len(self.words), np.int64)
        for part_rows, part_counts in parts:
            counts[part_rows[:, 0]] = part_counts
        ids = np.arange(len(self.words))
        level = self._new_level()
        level.word.add(ids)
        level.counts.add(counts)
        level.suffix.add(np.zeros(len(self.words), np.int32))
        rows.add(ids[:, None])
        self.levels.append(level)

    def _add_order(
        self, order: int, parts: Iterable[CountedRows], shorter_rows: SpillableColumn
    ) -> SpillableColumn:
        """Add the n-grams of the next order, sorted.

        Returns:
            The n-grams as rows of words, which those of the order after need.
        """
        sorter = NgramSorter(
            self.folder, order, word_count=len(self.words), max_rows=self.batch_rows
        )
        for part_rows, part_counts in parts:
            sorter.add(part_rows, part_counts)
        rows = self.new_column(np.int32, width=order)
        level = self._new_level()
        for sorted_rows, sorted_counts in sorter.merge():
            rows.add(sorted_rows)
            level.word.add(sorted_rows[:, -1])
            level.counts.add(sorted_counts)
        if level.size and order == self.order + 1:
            if self.size + level.size > MAX_NODES:
                raise BayesgramError(
                    f"{self.size + level.size:,} n-grams: a model holds {MAX_NODES:,};"
                    " give less text, or a smaller order."
                )
            for child_counts in _count_all_children(shorter_rows, rows, self.batch_rows):
                self.levels[-1].children.add(child_counts)
            self.levels.append(level)
            for suffixes in self._find_suffixes(order):
                level.suffix.add(suffixes)
        shorter_rows.remove()
        return rows

    def _find_suffixes(self, order: int) -> Iterator[Integers]:
        """Yield the places of the suffixes of an order's n-grams.

        They are children of the suffix of the n-gram's context.
        """
        level = self.levels[order - 1]
        shorter = self.levels[order - 2]
        if order == 2:
            return level.word.spans(self.batch_rows)
        word_count = len(self.words)
        targets = (
            np.repeat(shorter.suffix.read(*block.contexts).astype(np.int64), block.children)
            * word_count
            + level.word.read(*block.nodes)
            for block in self.blocks(order)
        )
        parts = [
            block
            for block in self.blocks(order - 1, self.part_rows(order - 1))
            if block.children.any()
        ]

        def load_part(number: int) -> Lookup:
            block = parts[number]
            words = shorter.word.read(*block.nodes)
            keys = (block.contexts[0] + block.parents) * word_count + words
            return partial(_find_in, keys, block.nodes[0])

        part_starts = np.array([block.contexts[0] for block in parts]) * word_count
        return partitioned_lookup(targets, part_starts, load_part, self.folder)


def _take_from(values: NDArray[Any], first: int, places: Integers) -> NDArray[Any]:
    """Return the values at these places; `values` are those from place `first` on."""
    selected: NDArray[Any] = values[places - first]
    return selected


def _find_in(keys: Integers, first: int, targets: Integers) -> Integers:
    """Return the places of keys that are all there; `keys` ascend from place `first` on."""
    return first + np.searchsorted(keys, targets)


def _sum_range(numbers: SpillableColumn, places: tuple[int, int], batch_rows: int) -> int:
    start, end = places
    return sum(
        int(numbers.read(start + first, start + last).sum())
        for first, last in spans(end - start, batch_rows)
    )


def _count_all_children(
    contexts: SpillableColumn, rows: SpillableColumn, batch_rows: int
) -> Iterator[Integers]:
    """Yield how many n-grams each context has; both are sorted, and every context is there."""
    batch = rows.read(0, min(batch_rows, rows.size))
    batch_start = 0
    at = 0  # in the batch of n-grams
    for context_batch in contexts.spans(batch_rows):
        counts = np.zeros(len(context_batch), np.int64)
        context = 0
        while batch_start < rows.size:
            at, context = _count_children(context_batch, batch, counts, at, context)
            if at < len(batch):
                break  # the context of the next one comes later
            batch_start += len(batch)
            at = 0
            batch = rows.read(batch_start, min(batch_start + batch_rows, rows.size))
        yield counts


@kernel
def _count_children(
    contexts: Ids, rows: Ids, counts: Integers, at: int, context: int
) -> tuple[int, int]:
    """Count n-grams from `at` on, until they or the contexts end; return where that is in both."""
    while at < len(rows):
        while context < len(contexts) and not _begins_with(rows[at], contexts[context]):
            context += 1
        if context == len(contexts):
            break
        counts[context] += 1
        at += 1
    return at, context


@kernel
def _begins_with(ngram: Ids, context: Ids) -> bool:
    for at in range(context.size):
        if ngram[at] != context[at]:
            return False
    return True


# --- Sorting ---


class NgramSorter:
    """Sorts n-grams of one order, each of which comes once, word by word.

    An n-gram is its word ids side by side in one or more 64-bit integers, so that it is its own
    key.

    Args:
        folder: Where runs are written.
        order: The order of the n-grams.
        word_count: How many words there are.
        max_rows: How many n-grams are in memory at a time.
    """

    def __init__(self, folder: Path, order: int, *, word_count: int, max_rows: int) -> None:
        self._folder = folder
        self._order = order
        self._max_rows = max_rows
        self._word_bits = max(bits_for(word_count - 1), 1)
        self._pending: list[KeyedCounts] = []
        self._runs: list[SortedRun] = []

    def add(self, rows: Ids, counts: Integers) -> None:
        """Add some n-grams with their counts."""
        self._pending.append((_pack_keys(rows, self._word_bits), counts))
        if sum(len(counts) for _, counts in self._pending) >= self._max_rows:
            self._write_run()

    def merge(self) -> Iterator[CountedRows]:
        """Yield all n-grams in order with their counts, some at a time."""
        if not self._pending and not self._runs:
            return
        if self._runs and self._pending:
            self._write_run()
        parts = _merge_runs(self._runs, self._max_rows) if self._runs else [self._take_pending()]
        for keys, counts in parts:
            for first, last in spans(len(keys), self._max_rows):
                rows = _unpack_keys(keys[first:last], self._order, self._word_bits)
                yield rows, counts[first:last]

    def _write_run(self) -> None:
        keys, counts = self._take_pending()
        name = f"{self._order}-{len(self._runs)}"
        key_column = SpillableColumn(self._folder / f"keys-{name}", np.uint64, width=keys.shape[1])
        count_column = SpillableColumn(self._folder / f"counts-{name}", np.int64)
        key_column.add(keys)
        count_column.add(counts)
        self._runs.append(SortedRun(key_column, count_column))

    def _take_pending(self) -> KeyedCounts:
        """Return what is in memory, in order; then nothing is."""
        pending = self._pending
        self._pending = []
        return _sort_parts(pending)


class SortedRun:
    """N-grams in order on disk, of which the next ones are in memory."""

    def __init__(self, keys: SpillableColumn, counts: SpillableColumn) -> None:
        self._keys = keys
        self._counts = counts
        self._read_count = 0
        self.buffer: KeyedCounts = keys.read(0, 0), counts.read(0, 0)

    @property
    def has_more(self) -> bool:
        """Whether some n-grams are still on disk alone."""
        return self._read_count < self._keys.size

    def fill(self, rows: int) -> None:
        """Read some n-grams if none are in memory and there are more.

        The files are removed at the end.
        """
        if len(self.buffer[0]) or not self.has_more:
            return
        first = self._read_count
        self._read_count = min(first + rows, self._keys.size)
        keys = self._keys.read(first, self._read_count)
        self.buffer = keys, self._counts.read(first, self._read_count)
        if not self.has_more:
            self._keys.remove()
            self._counts.remove()

    def take(self, last: Hashes | None) -> KeyedCounts:
        """Return those in memory up to a key, or all of them."""
        keys, counts = self.buffer
        size = len(keys) if last is None else _count_up_to(keys, last)
        self.buffer = keys[size:], counts[size:]
        return keys[:size], counts[:size]


def _merge_runs(runs: list[SortedRun], max_rows: int) -> Iterator[KeyedCounts]:
    """Yield the n-grams of all runs in order.

    At each step, those that no run has smaller ones of on disk.
    """
    rows_per_run = max(max_rows // len(runs), 1)
    while True:
        for run in runs:
            run.fill(rows_per_run)
        buffer_ends = [run.buffer[0][-1] for run in runs if run.has_more]
        last = min(buffer_ends, key=lambda key: tuple(key.tolist())) if buffer_ends else None
        keys, counts = _sort_parts([run.take(last) for run in runs])
        if not len(keys):
            return
        yield keys, counts


def _sort_parts(parts: list[KeyedCounts]) -> KeyedCounts:
    keys = np.concatenate([part_keys for part_keys, _ in parts])
    counts = np.concatenate([part_counts for _, part_counts in parts])
    if keys.shape[1] == 1:
        order = np.argsort(keys[:, 0], kind="stable")
    else:
        order = np.lexsort(keys.T[::-1])
    return keys[order], counts[order]


@kernel
def _pack_keys(rows: Ids, bits: int) -> Hashes:
    """Put the words of each n-gram side by side, as many in an integer as fit."""
    order = rows.shape[1]
    words_per_key = 64 // bits
    keys = np.zeros((rows.shape[0], (order + words_per_key - 1) // words_per_key), np.uint64)
    for row in range(rows.shape[0]):
        for at in range(order):
            shifted = keys[row, at // words_per_key] << np.uint64(bits)
            keys[row, at // words_per_key] = shifted | np.uint64(rows[row, at])
    return keys


@kernel
def _unpack_keys(keys: Hashes, order: int, bits: int) -> Ids:
    """Return the words of each n-gram."""
    rows = np.empty((keys.shape[0], order), np.int32)
    words_per_key = 64 // bits
    mask = (1 << bits) - 1
    for row in range(keys.shape[0]):
        for part in range(keys.shape[1]):
            key = keys[row, part]
            last = min(order, (part + 1) * words_per_key) - 1
            for at in range(last, part * words_per_key - 1, -1):
                rows[row, at] = np.int64(key & np.uint64(mask))
                key >>= np.uint64(bits)
    return rows


@kernel
def _count_up_to(keys: Hashes, last: Hashes) -> int:
    """Return how many keys, which ascend, are not above this one."""
    low = 0
    high = keys.shape[0]
    while low < high:
        middle = (low + high) // 2
        is_above = False
        for part in range(last.size):
            if keys[middle, part] != last[part]:
                is_above = keys[middle, part] > last[part]
                break
        if is_above:
            high = middle
        else:
            low = middle + 1
    return low
