"""Exact hash tables for the hot loops: strings → numbers, and windows of numbers → numbers.

`StringTable` gives every distinct byte string a number (tokens, user ids); `WindowTable` gives every distinct window
of token numbers one (n-grams). Both compare what they stored, so that two different strings are never taken for one
another, whatever their hashes. Open addressing with linear probing; a table grows before a batch is added, so that
kernels never have to stop. Does not forget: memory is that of the distinct entries.
"""

from typing import TypeVar

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from bayesgram.arrays import Bytes, Hashes, Ids, Integers
from bayesgram.kernels import inlined, kernel, mix

Scalar = TypeVar("Scalar", bound=np.generic)

ABSENT = -1
_EMPTY = -1


@inlined
def hash_bytes(data: Bytes, start: int, end: int) -> np.uint64:
    """A 64-bit hash of some bytes (FNV-1a, then mixed)."""
    value = np.uint64(0xCBF29CE484222325)
    for at in range(start, end):
        value = (value ^ np.uint64(data[at])) * np.uint64(0x100000001B3)
    return mix(value)


@kernel
def hash_rows(data: Bytes, offsets: Integers) -> Hashes:
    """The hash of each row of an Arrow array: a function of its bytes alone."""
    found = np.empty(offsets.size - 1, np.uint64)
    for row in range(found.size):
        found[row] = hash_bytes(data, offsets[row], offsets[row + 1])
    return found


@kernel
def _intern(
    data: Bytes,
    offsets: Integers,
    known: Bytes,
    ends: Integers,
    hashes: Hashes,
    slots: Ids,
    size: int,
    add: bool,
) -> tuple[Ids, int]:
    """The number of each string; new strings are added, or are ABSENT; empty strings are ABSENT."""
    ids = np.empty(offsets.size - 1, np.int32)
    last = slots.size - 1
    for row in range(ids.size):
        start, end = offsets[row], offsets[row + 1]
        if start == end:
            ids[row] = ABSENT
            continue
        code = hash_bytes(data, start, end)
        slot = np.int64(code & np.uint64(last))
        while True:
            found = slots[slot]
            if found == _EMPTY:
                if add:
                    slots[slot] = found = size
                    hashes[size] = code
                    ends[size + 1] = ends[size] + end - start
                    known[ends[size] : ends[size + 1]] = data[start:end]
                    size += 1
                break
            if hashes[found] == code and _same(data, start, end, known, ends[found], ends[found + 1]):
                break
            slot = (slot + 1) & last
        ids[row] = found
    return ids, size


@inlined
def _same(data: Bytes, start: int, end: int, known: Bytes, known_start: int, known_end: int) -> bool:
    if end - start != known_end - known_start:
        return False
    for at in range(end - start):
        if data[start + at] != known[known_start + at]:
            return False
    return True


@kernel
def _place(hashes: Hashes, size: int, slots: Ids) -> None:
    """Fill empty slots with the first `size` entries."""
    last = slots.size - 1
    for entry in range(size):
        slot = np.int64(hashes[entry] & np.uint64(last))
        while slots[slot] != _EMPTY:
            slot = (slot + 1) & last
        slots[slot] = entry


class StringTable:
    """Numbers for distinct non-empty byte strings, in order of appearance."""

    def __init__(self) -> None:
        self._bytes = np.empty(1 << 12, np.uint8)
        self._ends = np.zeros(1 << 8, np.int64)  # string i is bytes[ends[i] : ends[i + 1]]
        self._hashes = np.empty(1 << 8, np.uint64)
        self._slots = np.full(1 << 9, _EMPTY, np.int32)
        self._size = 0

    def __len__(self) -> int:
        return self._size

    def add(self, data: Bytes, offsets: Integers) -> Ids:
        """The numbers of these strings; unknown ones get the next number, empty ones ABSENT."""
        self._reserve(offsets.size - 1, int(offsets[-1] - offsets[0]))
        ids, self._size = self._call(data, offsets, add=True)
        return ids

    def find(self, data: Bytes, offsets: Integers) -> Ids:
        """The numbers of these strings; ABSENT where unknown or empty."""
        return self._call(data, offsets, add=False)[0]

    def strings(self) -> pa.LargeBinaryArray:
        """All strings; row number = number."""
        offsets = self._ends[: self._size + 1].copy()
        data = self._bytes[: offsets[-1]].copy()
        return pa.LargeBinaryArray.from_buffers(
            pa.large_binary(), self._size, [None, pa.py_buffer(offsets), pa.py_buffer(data)]
        )

    def _call(self, data: Bytes, offsets: Integers, *, add: bool) -> tuple[Ids, int]:
        arrays = (self._bytes, self._ends, self._hashes, self._slots)
        found: tuple[Ids, int] = _intern(data, offsets, *arrays, self._size, add)
        return found

    def _reserve(self, strings: int, size: int) -> None:
        self._bytes = _grown(self._bytes, int(self._ends[self._size]) + size)
        self._ends = _grown(self._ends, self._size + strings + 1)
        self._hashes = _grown(self._hashes, self._size + strings)
        if 2 * (self._size + strings) > self._slots.size:
            self._slots = np.full(_power_of_two(2 * (self._size + strings)), _EMPTY, np.int32)
            _place(self._hashes, self._size, self._slots)


@inlined
def _hash_window(ids: Ids, start: int, order: int) -> np.uint64:
    value = np.uint64(0)
    for at in range(start, start + order):
        value = mix(value ^ np.uint64(ids[at])) + np.uint64(0x9E3779B97F4A7C15)
    return value


@inlined
def _probe(ids: Ids, start: int, order: int, rows: Ids, slots: Ids) -> np.int64:
    """The slot of a window: where it is, or the empty one where it would be."""
    last = np.int64(slots.size - 1)
    slot = np.int64(_hash_window(ids, start, order) & np.uint64(last))
    while True:
        found = slots[slot]
        if found == _EMPTY:
            return slot
        same = True
        for at in range(order):
            if rows[found, at] != ids[start + at]:
                same = False
                break
        if same:
            return slot
        slot = (slot + 1) & last


@kernel
def _count_windows(ids: Ids, order: int, rows: Ids, counts: Integers, slots: Ids, size: int) -> int:
    """Count each run of `order` known tokens; new windows are added."""
    run = 0
    for end in range(ids.size):
        run = run + 1 if ids[end] != ABSENT else 0
        if run < order:
            continue
        start = end + 1 - order
        slot = _probe(ids, start, order, rows, slots)
        if slots[slot] == _EMPTY:
            slots[slot] = size
            rows[size] = ids[start : end + 1]
            counts[size] = 0
            size += 1
        counts[slots[slot]] += 1
    return size


@kernel
def _add_rows(new: Ids, numbers: Integers, rows: Ids, counts: Integers, slots: Ids, size: int) -> int:
    """Add windows that were counted before."""
    for at in range(numbers.size):
        slot = _probe(new[at], 0, rows.shape[1], rows, slots)
        if slots[slot] == _EMPTY:
            slots[slot] = size
            rows[size] = new[at]
            counts[size] = 0
            size += 1
        counts[slots[slot]] += numbers[at]
    return size


@kernel
def hash_windows(rows: Ids) -> Hashes:
    """The hash of each window."""
    found = np.empty(rows.shape[0], np.uint64)
    for at in range(found.size):
        found[at] = mix(_hash_window(rows[at], 0, rows.shape[1]))
    return found


@kernel
def _find_windows(ids: Ids, order: int, rows: Ids, slots: Ids) -> tuple[Ids, Ids]:
    """The number of each known window, and where it ends."""
    found = np.empty(ids.size, np.int32)
    ends = np.empty(ids.size, np.int32)
    size = run = 0
    for end in range(ids.size):
        run = run + 1 if ids[end] != ABSENT else 0
        if run < order:
            continue
        number = slots[_probe(ids, end + 1 - order, order, rows, slots)]
        if number != _EMPTY:
            found[size] = number
            ends[size] = end
            size += 1
    return found[:size].copy(), ends[:size].copy()


@kernel
def _place_windows(rows: Ids, size: int, slots: Ids) -> None:
    last = slots.size - 1
    for entry in range(size):
        slot = np.int64(_hash_window(rows[entry], 0, rows.shape[1]) & np.uint64(last))
        while slots[slot] != _EMPTY:
            slot = (slot + 1) & last
        slots[slot] = entry


class WindowTable:
    """Counts of distinct windows of `order` token numbers, numbered in order of appearance."""

    def __init__(self, order: int) -> None:
        self.order = order
        self._rows = np.empty((1 << 8, order), np.int32)
        self._counts = np.empty(1 << 8, np.int64)
        self._slots = np.full(1 << 9, _EMPTY, np.int32)
        self._size = 0

    def __len__(self) -> int:
        return self._size

    @property
    def rows(self) -> Ids:
        """The windows; row number = number."""
        return self._rows[: self._size]

    @property
    def counts(self) -> Integers:
        """How often each was added."""
        return self._counts[: self._size]

    def add(self, ids: Ids) -> None:
        """Count the windows of a stream of token numbers; ABSENT interrupts a window."""
        self._reserve(max(ids.size + 1 - self.order, 0))
        self._size = _count_windows(ids, self.order, self._rows, self._counts, self._slots, self._size)

    def merge(self, rows: Ids, counts: Integers) -> None:
        """Add windows that were counted before."""
        self._reserve(len(rows))
        self._size = _add_rows(rows, counts, self._rows, self._counts, self._slots, self._size)

    def clear(self) -> None:
        """Forget all windows, but keep the room."""
        self._slots[:] = _EMPTY
        self._size = 0

    def _reserve(self, more: int) -> None:
        needed = self._size + more
        self._rows = _grown(self._rows, needed)
        self._counts = _grown(self._counts, needed)
        if 2 * needed > self._slots.size:
            self._slots = np.full(_power_of_two(2 * needed), _EMPTY, np.int32)
            _place_windows(self._rows, self._size, self._slots)

    def find(self, ids: Ids) -> tuple[Ids, Ids]:
        """The numbers of the known windows of a stream, in order, and the position of each one's last token."""
        found: tuple[Ids, Ids] = _find_windows(ids, self.order, self._rows, self._slots)
        return found


def _power_of_two(at_least: int) -> int:
    return 1 << max(at_least - 1, 1).bit_length()


def _grown(array: NDArray[Scalar], needed: int) -> NDArray[Scalar]:
    """The same entries with room for `needed`, at least doubled when it has to move."""
    if needed <= array.shape[0]:
        return array
    larger = np.empty((max(needed, 2 * array.shape[0]), *array.shape[1:]), array.dtype)
    larger[: array.shape[0]] = array
    return larger
