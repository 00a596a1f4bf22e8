"""N-grams in order, more of them than memory holds: runs are sorted and written, then merged.

In:  n-grams of one order as word numbers, each once, with their counts.   Out: the same, ascending word by word.
An n-gram is its word numbers side by side in one or more 64-bit numbers, so that it is its own key. Does not add up
n-grams that come twice: `text.ngrams` has counted them.

Every n-gram of a text with its count, on disk: order by order, and each order sorted.

In:  the n-grams of each order, in any order.   Out: `Counts`, whose columns are gone through some rows at a time.
An n-gram is its place in its order. The children of one (itself and one word more) stand together in the next order,
sorted by word, as in a `Trie`; its suffix is the same n-gram without its first word. What is needed of a suffix stands
anywhere in the order below: it is looked up in parts of that order, which are taken one by one (`files.scratch`).

Memory: `rows` n-grams are worked on at a time, and `part_rows` of the order below; the words are all there, always.
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
from bayesgram.lm.trie import MOST_NODES, find_special

Keyed = tuple[Hashes, Integers]  # keys, a row each, and counts


class SortedRows:
    """Sorts n-grams; `rows` of them are in memory at a time."""

    def __init__(self, folder: Path, order: int, *, words: int, rows: int) -> None:
        self._folder, self._order, self._rows = folder, order, rows
        self._bits = max(bits_for(words - 1), 1)
        self._waiting: list[Keyed] = []
        self._runs: list[Run] = []

    def add(self, rows: Ids, counts: Integers) -> None:
        """Take some n-grams."""
        self._waiting.append((_keys(rows, self._bits), counts))
        if sum(len(counts) for _, counts in self._waiting) >= self._rows:
            self._runs.append(
                Run.written(self._folder, self._order, len(self._runs), *self._taken())
            )

    def _taken(self) -> Keyed:
        """What is in memory, in order; then nothing is."""
        waiting, self._waiting = self._waiting, []
        return _joined(waiting)

    def merged(self) -> Iterator[tuple[Ids, Integers]]:
        """All n-grams in order with their counts, some at a time."""
        if not self._waiting and not self._runs:
            return
        if self._runs and self._waiting:
            self._runs.append(
                Run.written(self._folder, self._order, len(self._runs), *self._taken())
            )
        for keys, counts in _merged(self._runs, self._rows) if self._runs else [self._taken()]:
            for first, last in spans(len(keys), self._rows):
                yield _rows(keys[first:last], self._order, self._bits), counts[first:last]


class Run:
    """N-grams in order on disk, of which the next ones are in memory."""

    def __init__(self, keys: SpillableColumn, counts: SpillableColumn) -> None:
        self._keys, self._counts, self._read = keys, counts, 0
        self.waiting: Keyed = keys.read(0, 0), counts.read(0, 0)

    @classmethod
    def written(
        cls, folder: Path, order: int, number: int, keys: Hashes, counts: Integers
    ) -> "Run":
        """With these n-grams."""
        run = cls(
            SpillableColumn(folder / f"keys-{order}-{number}", np.uint64, width=keys.shape[1]),
            SpillableColumn(folder / f"counts-{order}-{number}", np.int64),
        )
        run._keys.add(keys)
        run._counts.add(counts)
        return run

    @property
    def has_more(self) -> bool:
        """Whether some are still on disk alone."""
        return self._read < self._keys.size

    def fill(self, rows: int) -> None:
        """Have some in memory, if there are more."""
        if not len(self.waiting[0]) and self.has_more:
            first, self._read = self._read, min(self._read + rows, self._keys.size)
            self.waiting = self._keys.read(first, self._read), self._counts.read(first, self._read)
            if not self.has_more:
                self._keys.remove()
                self._counts.remove()

    def take(self, last: Hashes | None) -> Keyed:
        """Those in memory up to a key, or all of them."""
        keys, counts = self.waiting
        size = len(keys) if last is None else _how_many_up_to(keys, last)
        self.waiting = keys[size:], counts[size:]
        return keys[:size], counts[:size]


def _merged(runs: list[Run], rows: int) -> Iterator[Keyed]:
    """What all runs have, in order. What may be given is what no run has more before on disk."""
    share = max(rows // len(runs), 1)
    while True:
        for run in runs:
            run.fill(share)
        ends = [run.waiting[0][-1] for run in runs if run.has_more]
        last = min(ends, key=lambda key: tuple(key.tolist())) if ends else None
        found = _joined([run.take(last) for run in runs])
        if not len(found[0]):
            return
        yield found


def _joined(parts: list[Keyed]) -> Keyed:
    """All of these in order."""
    keys, counts = (
        np.concatenate([keys for keys, _ in parts]),
        np.concatenate([counts for _, counts in parts]),
    )
    order = (
        np.argsort(keys[:, 0], kind="stable") if keys.shape[1] == 1 else np.lexsort(keys.T[::-1])
    )
    return keys[order], counts[order]


@kernel
def _keys(rows: Ids, bits: int) -> Hashes:
    """The words of each n-gram side by side."""
    order, at_once = rows.shape[1], 64 // bits
    keys = np.zeros((rows.shape[0], (order + at_once - 1) // at_once), np.uint64)
    for row in range(rows.shape[0]):
        for at in range(order):
            keys[row, at // at_once] = keys[row, at // at_once] << np.uint64(bits) | np.uint64(
                rows[row, at]
            )
    return keys


@kernel
def _rows(keys: Hashes, order: int, bits: int) -> Ids:
    """The words again."""
    rows, at_once, mask = np.empty((keys.shape[0], order), np.int32), 64 // bits, (1 << bits) - 1
    for row in range(keys.shape[0]):
        for word in range(keys.shape[1]):
            key = keys[row, word]
            for at in range(min(order, (word + 1) * at_once) - 1, word * at_once - 1, -1):
                rows[row, at] = np.int64(key & np.uint64(mask))
                key >>= np.uint64(bits)
    return rows


@kernel
def _how_many_up_to(keys: Hashes, last: Hashes) -> int:
    """How many keys, which ascend, are not above this one."""
    low, high = 0, keys.shape[0]
    while low < high:
        middle = (low + high) // 2
        above = False
        for word in range(last.size):
            if keys[middle, word] != last[word]:
                above = keys[middle, word] > last[word]
                break
        if above:
            high = middle
        else:
            low = middle + 1
    return low


ROW_BYTES = 256  # that an n-gram takes while it is worked on, at the most
PART_ROW_BYTES = 64  # that an n-gram takes while others look it up
FEWEST_ROWS = 1 << 14
MOST_COLUMNS = 256  # that are small enough to stay in memory, a good many
MOST_PARTS = 256  # files that are open at a time

Part = tuple[Ids, Integers]  # some n-grams of an order as word numbers, and how often each occurs


class Block(NamedTuple):
    """Some contexts of an order, and all their children in the next: two ranges, and how many each context has."""

    contexts: tuple[int, int]
    nodes: tuple[int, int]
    children: Integers

    @property
    def parents(self) -> Integers:
        """The context of every child, counted from the first of the block."""
        return np.repeat(np.arange(self.children.size), self.children)


@dataclass(frozen=True, eq=False)
class Level:
    """The n-grams of one order."""

    word: SpillableColumn  # the last one
    counts: SpillableColumn
    suffix: SpillableColumn  # its place in the order below
    children: SpillableColumn  # how many there are in the next order; empty for the longest

    @property
    def size(self) -> int:
        """How many n-grams there are."""
        return self.word.size


@dataclass(frozen=True, eq=False)
class Counts:
    """Every n-gram of a text; `levels` begin with order 1, which has all words."""

    words: Words
    folder: Path
    memory: int
    levels: list[Level] = field(default_factory=list)
    _numbers: Iterator[int] = field(default_factory=count)

    @classmethod
    def of(
        cls, words: Words, found: Iterable[Iterable[Part]], folder: Path, memory: int
    ) -> "Counts":
        """From the n-grams of each order, from 1, each once and in any order; orders that have none are left out."""
        text = cls(words, folder, memory)
        rows = text.column(np.int32, width=1)
        for order, parts in enumerate(found, start=1):
            if order == 1:
                text._add_words(parts, rows)
            else:
                rows = text._add_order(order, parts, rows)
        return text

    @property
    def rows(self) -> int:
        """How many n-grams are worked on at a time."""
        return max(self.memory // ROW_BYTES, FEWEST_ROWS)

    def part_rows(self, order: int) -> int:
        """How many n-grams of an order are in memory while others look them up."""
        return max(
            self.memory // PART_ROW_BYTES,
            FEWEST_ROWS,
            -(-self.levels[order - 1].size // MOST_PARTS),
        )

    @property
    def order(self) -> int:
        """The number of words in the longest n-grams."""
        return len(self.levels)

    @property
    def size(self) -> int:
        """How many n-grams there are."""
        return sum(level.size for level in self.levels)

    @property
    def is_empty(self) -> bool:
        """Whether the text has no words."""
        return self.order < 2

    @cached_property
    def start(self) -> int:
        """The place of <s> among the words."""
        return find_special(self.words)[0]

    @cached_property
    def begin_with_start(self) -> list[tuple[int, int]]:
        """Which n-grams of each order begin with <s>: a range, as they are sorted."""
        found = [(self.start, self.start + 1)]
        for level in self.levels[:-1]:
            before, inside = (
                _total(level.children, span, self.rows) for span in ((0, found[-1][0]), found[-1])
            )
            found.append((before, before + inside))
        return found

    def column(self, kind: DTypeLike, *, width: int | None = None) -> SpillableColumn:
        """A new one on disk."""
        path = self.folder / f"column-{next(self._numbers)}"
        return SpillableColumn(path, kind, width=width, kept_bytes=self.memory // MOST_COLUMNS)

    def blocks(self, order: int, rows: int | None = None) -> Iterator[Block]:
        """All n-grams of an order from 2 with their contexts: so many at a time, or those of one context."""
        rows, children = rows or self.rows, self.levels[order - 2].children
        context = node = 0
        while context < children.size:
            sizes = children.read(context, min(context + rows, children.size)).astype(np.int64)
            ends = np.cumsum(sizes)
            taken = max(int(np.searchsorted(ends, rows, side="right")), 1)
            ended = node + int(ends[taken - 1])
            yield Block((context, context + taken), (node, ended), sizes[:taken])
            context, node = context + taken, ended

    def of_suffixes(self, order: int, values: SpillableColumn) -> Iterator[NDArray[Any]]:
        """What the suffixes of an order's n-grams have, a block of them at a time."""
        rows, suffix = self.part_rows(order - 1), self.levels[order - 1].suffix
        asked = (suffix.read(*block.nodes) for block in self.blocks(order))

        def part(number: int) -> Lookup:
            first = number * rows
            return partial(_values_at, values.read(first, min(first + rows, values.size)), first)

        return partitioned_lookup(asked, np.arange(0, values.size, rows), part, self.folder)

    def to_suffixes(
        self,
        order: int,
        brought: Iterable[NDArray[Any]],
        *,
        combine: np.ufunc,
        nothing: NDArray[Any],
    ) -> Iterator[NDArray[Any]]:
        """What the n-grams of an order bring to those of the one below, `rows` of these at a time."""
        below, suffix = self.levels[order - 2].size, self.levels[order - 1].suffix
        pairs = zip(suffix.spans(self.rows), brought, strict=True)
        rows = self.part_rows(order - 1)
        return partitioned_reduce(
            pairs, below, rows, combine=combine.at, nothing=nothing, folder=self.folder
        )

    def _add_words(self, parts: Iterable[Part], rows: SpillableColumn) -> None:
        """Order 1: all words, in their order, and how often they occur."""
        counts, numbers = np.zeros(len(self.words), np.int64), np.arange(len(self.words))
        for found, own in parts:
            counts[found[:, 0]] = own
        level = self._level()
        level.word.add(numbers)
        level.counts.add(counts)
        level.suffix.add(np.zeros(len(self.words), np.int32))
        rows.add(numbers[:, None])
        self.levels.append(level)

    def _level(self) -> Level:
        return Level(
            self.column(np.int32),
            self.column(np.int64),
            self.column(np.int32),
            self.column(np.int32),
        )

    def _add_order(
        self, order: int, parts: Iterable[Part], shorter: SpillableColumn
    ) -> SpillableColumn:
        """The n-grams of the next order, sorted; as rows of words, which those of the order after need."""
        ordered = SortedRows(self.folder, order, words=len(self.words), rows=self.rows)
        for found, counts in parts:
            ordered.add(found, counts)
        rows, level = self.column(np.int32, width=order), self._level()
        for found, counts in ordered.merged():
            rows.add(found)
            level.word.add(found[:, -1])
            level.counts.add(counts)
        if level.size and order == self.order + 1:
            if self.size + level.size > MOST_NODES:
                raise BayesgramError(
                    f"{self.size + level.size:,} n-grams: a model holds {MOST_NODES:,}; give less text, or a smaller"
                    " order."
                )
            for sizes in _numbers_of_children(shorter, rows, self.rows):
                self.levels[-1].children.add(sizes)
            self.levels.append(level)
            for suffixes in self._suffixes(order):
                level.suffix.add(suffixes)
        shorter.remove()
        return rows

    def _suffixes(self, order: int) -> Iterator[Integers]:
        """Where the suffixes of an order's n-grams stand: the suffix of its context has them as children."""
        level, contexts = self.levels[order - 1], self.levels[order - 2]
        if order == 2:
            return level.word.spans(self.rows)
        words = len(self.words)
        asked = (
            np.repeat(contexts.suffix.read(*block.contexts).astype(np.int64), block.children)
            * words
            + level.word.read(*block.nodes)
            for block in self.blocks(order)
        )
        parts = [
            block
            for block in self.blocks(order - 1, self.part_rows(order - 1))
            if block.children.any()
        ]

        def part(number: int) -> Lookup:
            block = parts[number]
            keys = (block.contexts[0] + block.parents) * words + contexts.word.read(*block.nodes)
            return partial(_places_of, keys, block.nodes[0])

        edges = np.array([block.contexts[0] for block in parts]) * words
        return partitioned_lookup(asked, edges, part, self.folder)


def _values_at(values: NDArray[Any], first: int, places: Integers) -> NDArray[Any]:
    """What n-grams at these places have; `values` are those from `first` on."""
    found: NDArray[Any] = values[places - first]
    return found


def _places_of(keys: Integers, first: int, wanted: Integers) -> Integers:
    """Where n-grams with these keys stand, which are all there; `keys` are those from place `first` on, ascending."""
    return first + np.searchsorted(keys, wanted)


def _total(numbers: SpillableColumn, span: tuple[int, int], rows: int) -> int:
    """Σ of a range."""
    return sum(
        int(numbers.read(span[0] + first, span[0] + last).sum())
        for first, last in spans(span[1] - span[0], rows)
    )


def _numbers_of_children(
    contexts: SpillableColumn, rows: SpillableColumn, at_once: int
) -> Iterator[Integers]:
    """How many n-grams there are with each context, where both are sorted and every context is there."""
    longer, at, first = rows.read(0, min(at_once, rows.size)), 0, 0
    for some in contexts.spans(at_once):
        sizes, reached = np.zeros(len(some), np.int64), 0
        while first < rows.size:
            at, reached = _count_children(some, longer, sizes, at, reached)
            if at < len(longer):
                break  # the next one's context comes later
            first, at = first + len(longer), 0
            longer = rows.read(first, min(first + at_once, rows.size))
        yield sizes


@kernel
def _count_children(
    contexts: Ids, longer: Ids, sizes: Integers, at: int, context: int
) -> tuple[int, int]:
    """Count n-grams from one on, until they or the contexts are at an end; where that is in both."""
    while at < len(longer):
        while context < len(contexts) and not _begins_with(longer[at], contexts[context]):
            context += 1
        if context == len(contexts):
            break
        sizes[context] += 1
        at += 1
    return at, context


@kernel
def _begins_with(ngram: Ids, context: Ids) -> bool:
    for at in range(context.size):
        if ngram[at] != context[at]:
            return False
    return True
