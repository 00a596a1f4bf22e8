"""Counts of windows of token numbers (n-grams) in text that is short: sorted, not hashed.

Keys are those of `windows`, of one number. NumPy sorts a million of them in the time that kernels take to hash them; of
more text most windows are rare, and to leave those out, as a sketch does, is faster. Nothing is compiled for it: so the
first vocabulary that somebody makes is there two seconds sooner. Does not know what a token is.
"""

from collections.abc import Iterable, Iterator

import numpy as np

from bayesgram.arrays import Hashes, Ids, Integers
from bayesgram.text.windows import bits_of, count_reached_by, entries_of, words_of

MOST_TOKENS = 1 << 21


def are_sortable(order: int, tokens: int) -> bool:
    """Whether a window of numbers below `tokens` is one number of 64 bits."""
    return words_of(order, bits_of(tokens)) == 1


def keys_of(rows: Ids, bits: int) -> Hashes:
    """The keys of windows, a row each."""
    keys = np.zeros(len(rows), np.uint64)
    for column in rows.T:
        keys = keys << np.uint64(bits) | column.astype(np.uint64)
    return keys


def _keys_in(ids: Ids, order: int, bits: int) -> Hashes:
    """The keys of all windows of a stream; what is below 0 interrupts a window."""
    if ids.size < order:
        return np.zeros(0, np.uint64)
    windows = np.lib.stride_tricks.sliding_window_view(ids, order)
    inside = np.logical_and.reduce([column >= 0 for column in windows.T])
    return keys_of(windows, bits)[inside]


class SortedWindows:
    """Counts of distinct windows of `order` numbers below `tokens`: a row each, its key and its count."""

    def __init__(self, streams: Iterable[Ids], order: int, *, tokens: int) -> None:
        self._order, self._bits = order, bits_of(tokens)
        keys = np.sort(np.concatenate([np.zeros(0, np.uint64), *(_keys_in(ids, order, self._bits) for ids in streams)]))
        first = np.flatnonzero(np.concatenate([[True], keys[1:] != keys[:-1]])[: keys.size])
        counts = np.diff(first, append=keys.size)
        self._rows = np.stack([keys[first], counts.astype(np.uint64)], axis=1)

    def __len__(self) -> int:
        return len(self._rows)

    def entries(self, *, at_least: int = 1) -> Iterator[tuple[Ids, Integers]]:
        """The windows with this count or more, and their counts."""
        yield entries_of(self._rows, self._order, self._bits, at_least)

    def count_reached_by(self, size: int) -> int:
        """See `WindowTable`."""
        return count_reached_by([self._rows], size)

    def counts_of(self, rows: Ids) -> Integers:
        """How often these windows occur; of windows that are there twice, the second has none."""
        keys, first = np.unique(keys_of(rows, self._bits), return_index=True)
        places = np.searchsorted(self._rows[:, 0], keys)
        known = places < len(self._rows)
        known[known] = self._rows[places[known], 0] == keys[known]
        counts = np.zeros(len(rows), np.int64)
        counts[first[known]] = self._rows[places[known], 1]
        return counts
