"""N-grams in order, more of them than memory holds: runs are sorted and written, then merged.

In:  n-grams of one order as word numbers, each once, with their counts.   Out: the same, ascending word by word.
An n-gram is its word numbers side by side in one or more 64-bit numbers, so that it is its own key. Does not add up
n-grams that come twice: `text.ngrams` has counted them.
"""

from collections.abc import Iterator
from pathlib import Path

import numpy as np

from bayesgram.arrays import Hashes, Ids, Integers
from bayesgram.files.scratch import Column, spans
from bayesgram.kernels import kernel
from bayesgram.released.packed import bits_for

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
            self._runs.append(Run.written(self._folder, self._order, len(self._runs), *self._taken()))

    def _taken(self) -> Keyed:
        """What is in memory, in order; then nothing is."""
        waiting, self._waiting = self._waiting, []
        return _joined(waiting)

    def merged(self) -> Iterator[tuple[Ids, Integers]]:
        """All n-grams in order with their counts, some at a time."""
        if not self._waiting and not self._runs:
            return
        if self._runs and self._waiting:
            self._runs.append(Run.written(self._folder, self._order, len(self._runs), *self._taken()))
        for keys, counts in _merged(self._runs, self._rows) if self._runs else [self._taken()]:
            for first, last in spans(len(keys), self._rows):
                yield _rows(keys[first:last], self._order, self._bits), counts[first:last]


class Run:
    """N-grams in order on disk, of which the next ones are in memory."""

    def __init__(self, keys: Column, counts: Column) -> None:
        self._keys, self._counts, self._read = keys, counts, 0
        self.waiting: Keyed = keys.read(0, 0), counts.read(0, 0)

    @classmethod
    def written(cls, folder: Path, order: int, number: int, keys: Hashes, counts: Integers) -> "Run":
        """With these n-grams."""
        run = cls(
            Column(folder / f"keys-{order}-{number}", np.uint64, width=keys.shape[1]),
            Column(folder / f"counts-{order}-{number}", np.int64),
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
    keys, counts = np.concatenate([keys for keys, _ in parts]), np.concatenate([counts for _, counts in parts])
    order = np.argsort(keys[:, 0], kind="stable") if keys.shape[1] == 1 else np.lexsort(keys.T[::-1])
    return keys[order], counts[order]


@kernel
def _keys(rows: Ids, bits: int) -> Hashes:
    """The words of each n-gram side by side."""
    order, at_once = rows.shape[1], 64 // bits
    keys = np.zeros((rows.shape[0], (order + at_once - 1) // at_once), np.uint64)
    for row in range(rows.shape[0]):
        for at in range(order):
            keys[row, at // at_once] = keys[row, at // at_once] << np.uint64(bits) | np.uint64(rows[row, at])
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
