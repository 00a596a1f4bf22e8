"""Numbers of windows of token numbers (n-grams): of a list that is looked for in streams, and of those that come.

Keys and slots are those of `windows`. Does not know what a token is.
"""

import numpy as np

from bayesgram.arrays import Bools, Hashes, Ids, Integers
from bayesgram.kernels import kernel, prefetch
from bayesgram.text.slots import AHEAD, BATCH_SIZE, Slots, hash_key, with_capacity
from bayesgram.text.windows import (
    CountMinSketch,
    bits_of,
    entries_of,
    keys_reaching,
    no_slots,
    pack,
    put_key,
    slot_of,
    words_of,
)

CELLS_PER_ROW = 8  # of a list of windows


@kernel
def _index_rows(rows: Ids, bits: int, slots: Slots) -> int:
    """Store each row's number, plus one; of equal rows, the first's. How many were stored."""
    key = np.empty((1, slots.shape[1] - 1), np.uint64)
    last = np.uint64(slots.shape[0] - 1)
    stored = 0
    for row in range(rows.shape[0]):
        pack(rows[row], 0, rows.shape[1], bits, key, 0)
        place = slot_of(key, 0, hash_key(key, 0, key.size) & last, slots)
        if not slots[place, key.size]:
            put_key(key, 0, place, row + 1, slots)
            stored += 1
    return stored


@kernel
def _number_rows(rows: Ids, bits: int, slots: Slots, size: int, numbers: Integers) -> int:
    """Write each row's number; new ones get the next, from `size` on. The new size."""
    key = np.empty((1, slots.shape[1] - 1), np.uint64)
    last = np.uint64(slots.shape[0] - 1)
    for row in range(rows.shape[0]):
        pack(rows[row], 0, rows.shape[1], bits, key, 0)
        place = slot_of(key, 0, hash_key(key, 0, key.size) & last, slots)
        if not slots[place, key.size]:
            size += 1
            put_key(key, 0, place, size, slots)
        numbers[row] = np.int64(slots[place, key.size]) - 1
    return size


class WindowNumbers:
    """Numbers for distinct windows of `order` numbers below `tokens`, in order of appearance.

    Numbers have 64 bits: there may be more windows than 2³¹.
    """

    def __init__(self, order: int, *, tokens: int) -> None:
        self.order, self._bits = order, bits_of(tokens)
        self._slots, self._size = no_slots(order, self._bits), 0

    def __len__(self) -> int:
        return self._size

    def add(self, rows: Ids) -> Integers:
        """The numbers of these windows; new ones get the next."""
        numbers = np.empty(len(rows), np.int64)
        for first in range(0, len(rows), BATCH_SIZE):
            some = slice(first, first + BATCH_SIZE)
            self._slots = with_capacity(self._slots, self._size + len(rows[some]))
            self._size = _number_rows(rows[some], self._bits, self._slots, self._size, numbers[some])
        return numbers

    def rows(self) -> Ids:
        """All windows; row number = number."""
        rows, numbers = entries_of(self._slots, self.order, self._bits, 1)
        ordered: Ids = np.empty_like(rows)
        ordered[numbers - 1] = rows
        return ordered


@kernel
def _find_keys(keys: Hashes, places: Ids, ends: Integers, owners: Ids, listed: Ids, slots: Slots) -> tuple[Ids, Ids]:
    """(owner, number) of each key of the list, in order; the stream of text t ends before ends[t]."""
    whose, found = np.empty(places.size, np.int32), np.empty(places.size, np.int32)
    first_slots = np.empty(AHEAD, np.uint64)
    last, words = np.uint64(slots.shape[0] - 1), slots.shape[1] - 1
    size = text = 0
    for first in range(0, places.size, AHEAD):
        rows = min(AHEAD, places.size - first)
        for row in range(rows):
            first_slots[row] = hash_key(keys, first + row, words) & last
            prefetch(slots, first_slots[row])
        for row in range(rows):
            number = slots[slot_of(keys, first + row, first_slots[row], slots), words]
            if number:
                while ends[text] <= places[first + row]:
                    text += 1
                whose[size], found[size] = owners[text], listed[np.int64(number) - 1]
                size += 1
    return whose[:size].copy(), found[:size].copy()


@kernel
def _mark_keys(keys: Hashes, places: Ids, size: int, slots: Slots) -> Bools:
    """Which of so many places have a key of the list."""
    marks, first_slots = np.zeros(size, np.bool_), np.empty(AHEAD, np.uint64)
    last, words = np.uint64(slots.shape[0] - 1), slots.shape[1] - 1
    for first in range(0, places.size, AHEAD):
        rows = min(AHEAD, places.size - first)
        for row in range(rows):
            first_slots[row] = hash_key(keys, first + row, words) & last
            prefetch(slots, first_slots[row])
        for row in range(rows):
            marks[places[first + row]] = slots[slot_of(keys, first + row, first_slots[row], slots), words] > 0
    return marks


class WindowIndex:
    """Finds the windows of a list (V × n token numbers, all below `tokens`) in streams of token numbers.

    Each has a number; of windows that are there twice, the first one's is found.
    """

    def __init__(self, rows: Ids, numbers: Ids, *, tokens: int) -> None:
        self.order, self._numbers = rows.shape[1], numbers
        self._bits = bits_of(tokens)
        self._slots = with_capacity(no_slots(self.order, self._bits), len(rows))
        self._size = _index_rows(rows, self._bits, self._slots)
        self._bounds = CountMinSketch(self.order, tokens=tokens, cells=CELLS_PER_ROW * len(rows), cores=1)
        self._bounds.add([np.insert(rows, self.order, -1, axis=1).ravel()])

    def __len__(self) -> int:
        return self._size

    def find(self, ids: Ids, ends: Integers, owners: Ids) -> tuple[Ids, Ids]:
        """(owner of the text, number) of every window, in order; text t is the stream up to ends[t]."""
        keys_like = self.order, self._bits, words_of(self.order, self._bits)
        keys, places = keys_reaching(ids, *keys_like, self._bounds.cells, self._bounds.shift, 1)
        return _find_keys(keys, places, ends, owners, self._numbers, self._slots)

    def marks(self, ids: Ids) -> Bools:
        """Whether a window of the list ends at each place of a stream."""
        keys_like = self.order, self._bits, words_of(self.order, self._bits)
        keys, places = keys_reaching(ids, *keys_like, self._bounds.cells, self._bounds.shift, 1)
        return _mark_keys(keys, places, ids.size, self._slots)
