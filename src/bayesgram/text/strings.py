"""What the hash tables of the hot loops share: slots with open addressing and linear probing, and how they grow.

A slot is a key of one or more 64-bit numbers, and last what belongs to it, which is 0 if the slot is empty. Kernels ask
for the memory of some dozens of slots before they look at the first, as waiting for it would be most of their time. A
table grows before a batch is added, so that kernels never have to stop. Does not know what keys mean.

Numbers for byte strings, exactly: every distinct string has one (tokens, user ids).

What is stored is compared, so that two different strings are never taken for one another, whatever their hashes.
Does not forget: memory is that of the distinct strings.
"""

from typing import NamedTuple, TypeVar

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from bayesgram.arrays import Bytes, Hashes, Ids, Integers
from bayesgram.errors import BayesgramError
from bayesgram.kernels import copy_part, eight_bytes, inlined, kernel, mix, prefetch
from bayesgram.text.tokenizer import buffers

Slots = Hashes  # two-dimensional: a row is a slot

AHEAD = 64  # slots that are asked for before the first is looked at
BATCH_SIZE = 1 << 13  # entries for which room is made when more are added


@inlined
def hash_key(keys: Hashes, row: int, words: int) -> np.uint64:
    """Where the search for a key begins, before it is cut to the size of the table."""
    hashed = mix(keys[row, 0])
    for word in range(1, words):
        hashed = mix(hashed ^ keys[row, word])
    return hashed


def with_capacity(slots: Slots, entries: int) -> Slots:
    """The same table, grown in place until it is at most two thirds full with so many entries."""
    while 3 * entries > 2 * slots.shape[0]:
        before = slots.shape[0]
        slots = _doubled(slots)
        _spread(slots, before)
    return slots


def _doubled(slots: Slots) -> Slots:
    """The table with as many empty slots after it.

    Slots are the beginning of an array of zeros with room for more, which is no memory until it is written: so most
    tables grow where they are, and there is seldom an old one beside a new one.
    """
    size, columns = slots.shape
    whole = slots if slots.base is None else slots.base
    if whole.shape[0] == size:
        try:
            whole = np.zeros((8 * size, columns), np.uint64)
        except MemoryError:  # where room that is not used counts as well
            whole = np.zeros((2 * size, columns), np.uint64)
        whole[:size] = slots
    return whole[: 2 * size]


@kernel
def _spread(slots: Slots, before: int) -> None:
    """Move the entries of a table that was doubled to where they belong now.

    Beginning after an empty slot, each is taken out and put in again: between its place of now and where the search for
    it begins there are only entries that were moved already, so no later step opens a gap in its way.
    """
    words, last = slots.shape[1] - 1, np.uint64(slots.shape[0] - 1)
    entry = np.empty((1, words + 1), np.uint64)
    start = 0
    while slots[start, words]:
        start += 1
    for step in range(before):
        at = (start + step) & (before - 1)
        if not slots[at, words]:
            continue
        for column in range(words + 1):
            entry[0, column] = slots[at, column]
        slots[at, words] = 0
        place = hash_key(entry, 0, words) & last
        while slots[place, words]:
            place = (place + np.uint64(1)) & last
        for column in range(words + 1):
            slots[place, column] = entry[0, column]


Scalar = TypeVar("Scalar", bound=np.generic)
Offsets = Integers | Ids

EMPTY = -1  # the number of an empty string: the end of a sentence
UNKNOWN = -2  # of a string that is not in the table
MOST_STRINGS = (1 << 31) - 2  # numbers have 32 bits, and windows of them need one more number
LONG = np.uint64(0xFF << 56)
SHORT = 15  # bytes that fit in a key


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
def _low_bytes(number: int) -> np.uint64:
    """A mask of so many bytes, 0 to 8."""
    half = np.uint64(4 * number)
    return (np.uint64(1) << half << half) - np.uint64(1)


@inlined
def string_key(data: Bytes, start: int, end: int) -> tuple[np.uint64, np.uint64]:
    """What a string is known by: itself, with its length in the top byte, if it has up to 15 bytes; or a LONG hash.

    Keys of different short strings differ; only equal keys of long strings need another look.
    """
    size = end - start
    first, second = np.uint64(size), np.uint64(0)
    if size > SHORT:
        for at in range(start, end - 8, 8):
            first = mix(first ^ eight_bytes(data, at))
        first, second = mix(first ^ eight_bytes(data, end - 8)), LONG
    elif start + 16 <= data.size:
        first = eight_bytes(data, start) & _low_bytes(min(size, 8))
        second = eight_bytes(data, start + 8) & _low_bytes(max(size - 8, 0)) | np.uint64(
            size
        ) << np.uint64(56)
    else:
        first, second = np.uint64(0), np.uint64(size) << np.uint64(56)
        for place in range(min(size, 8)):
            first |= np.uint64(data[start + place]) << np.uint64(8 * place)
        for place in range(8, size):
            second |= np.uint64(data[start + place]) << np.uint64(8 * place - 64)
    return first, second


@kernel
def key_hash(first: np.uint64, second: np.uint64) -> np.uint64:
    """Where the search for a key begins: as `hash_key` has it."""
    return mix(mix(first) ^ second)


@inlined
def _is_known(
    data: Bytes, start: int, end: int, found: np.uint64, known: Bytes, ends: Integers
) -> bool:
    """Whether a string is the one with this number less one, byte by byte."""
    number = np.int64(found)
    begun = ends[number - 1]
    if ends[number] - begun != end - start:
        return False
    for at in range(end - start):
        if data[start + at] != known[begun + at]:
            return False
    return True


@inlined
def _slot_of_string(
    first: np.uint64,
    second: np.uint64,
    place: np.uint64,
    data: Bytes,
    start: int,
    end: int,
    known: Bytes,
    ends: Integers,
    slots: Slots,
) -> np.uint64:
    """Where a string is, or the empty slot where it would be, searching on from a place."""
    last = np.uint64(slots.shape[0] - 1)
    while True:
        found = slots[place, 2]
        if not found:
            break
        same = slots[place, 0] == first and slots[place, 1] == second
        if same and (second < LONG or _is_known(data, start, end, found, known, ends)):
            break
        place = (place + np.uint64(1)) & last
    return place


@kernel
def _find_strings(data: Bytes, offsets: Offsets, known: Bytes, ends: Integers, slots: Slots) -> Ids:
    """The number of each string; UNKNOWN, or EMPTY."""
    numbers = np.empty(offsets.size - 1, np.int32)
    firsts, seconds, places = (
        np.empty(AHEAD, np.uint64),
        np.empty(AHEAD, np.uint64),
        np.empty(AHEAD, np.uint64),
    )
    unsettled = np.empty(AHEAD, np.int64)
    last = np.uint64(slots.shape[0] - 1)
    for begin in range(0, numbers.size, AHEAD):
        rows, left = min(AHEAD, numbers.size - begin), 0
        for row in range(rows):
            at = np.uint64(row)
            start, end = offsets[np.uint64(begin + row)], offsets[np.uint64(begin + row + 1)]
            firsts[at], seconds[at] = string_key(data, start, end)
            places[at] = key_hash(firsts[at], seconds[at]) & last
            prefetch(slots, places[at])
        for row in range(
            rows
        ):  # most are short, and where they are looked for first: no branch, so none is guessed
            at = np.uint64(row)
            place, second = places[at], seconds[at]
            number = np.int64(slots[place, 2])
            differs = (
                slots[place, 0] ^ firsts[at] | slots[place, 1] ^ second | np.uint64(second >= LONG)
            )
            numbers[np.uint64(begin + row)] = (
                EMPTY if second == 0 else number - 1 - int(number == 0)
            )
            unsettled[np.uint64(left)] = row
            left += 1 - (int(number == 0) | int(differs == 0))
        for row in unsettled[:left]:
            start, end = offsets[begin + row], offsets[begin + row + 1]
            if start < end:
                place = _slot_of_string(
                    firsts[row], seconds[row], places[row], data, start, end, known, ends, slots
                )
                number = np.int64(slots[place, 2])
                numbers[begin + row] = number - 1 if number else UNKNOWN
    return numbers


@kernel
def _add_strings(
    data: Bytes,
    offsets: Offsets,
    numbers: Ids,
    known: Bytes,
    ends: Integers,
    slots: Slots,
    size: int,
) -> int:
    """Write the number of each string, or EMPTY; new ones get the next, from `size` on. The new size."""
    last = np.uint64(slots.shape[0] - 1)
    first_before = second_before = np.uint64(0)  # the key of an empty string
    for row in range(offsets.size - 1):
        start, end = offsets[row], offsets[row + 1]
        first, second = string_key(data, start, end)
        again = first == first_before and second == second_before and second < LONG
        first_before, second_before = first, second
        if not second:
            numbers[row] = EMPTY
            continue
        if again:
            numbers[row] = numbers[row - 1]  # users often write several texts in a row
            continue
        place = _slot_of_string(
            first, second, key_hash(first, second) & last, data, start, end, known, ends, slots
        )
        if not slots[place, 2]:
            ends[size + 1] = ends[size] + end - start
            copy_part(data, start, end, known, ends[size])
            size += 1
            slots[place, 0], slots[place, 1], slots[place, 2] = first, second, size
        numbers[row] = np.int64(slots[place, 2]) - 1
    return size


def _unknown_strings(
    numbers: Ids, data: Bytes, offsets: Offsets
) -> tuple[Integers, Bytes, Integers]:
    """Where strings are UNKNOWN, and a copy of them."""
    places = np.flatnonzero(numbers == UNKNOWN)
    kind = pa.binary() if offsets.dtype == np.int32 else pa.large_binary()
    strings = pa.Array.from_buffers(
        kind, numbers.size, [None, pa.py_buffer(offsets), pa.py_buffer(data)]
    )
    return places, *buffers(strings.take(pa.array(places)).cast(pa.large_binary()))


class Found(NamedTuple):
    """The numbers of strings, and a copy of those that are UNKNOWN."""

    numbers: Ids
    unknown: Integers  # where they are
    data: Bytes
    offsets: Integers


class StringTable:
    """Numbers for distinct non-empty byte strings, in order of appearance.

    Strings are rows of Arrow arrays or tokens of a scanner: bytes, and where each begins and ends.
    """

    def __init__(self) -> None:
        self._bytes = np.empty(1 << 12, np.uint8)
        self._ends = np.zeros(1 << 8, np.int64)  # string i is bytes[ends[i] : ends[i + 1]]
        self._slots = np.zeros((1 << 9, 3), np.uint64)  # key, number + 1
        self._size = 0

    def __len__(self) -> int:
        return self._size

    def find(self, data: Bytes, offsets: Offsets) -> Ids:
        """The numbers of these strings; UNKNOWN or EMPTY where they have none. Threads may call it side by side."""
        return _find_strings(data, offsets, self._bytes, self._ends, self._slots)

    def look_up(self, data: Bytes, offsets: Offsets) -> Found:
        """The same, with what `complete` needs to add the unknown ones later."""
        numbers = self.find(data, offsets)
        return Found(numbers, *_unknown_strings(numbers, data, offsets))

    def complete(self, found: Found) -> Ids:
        """The numbers that were found, where UNKNOWN strings were added and got the next ones."""
        found.numbers[found.unknown] = self.add(found.data, found.offsets)
        return found.numbers

    def add(self, data: Bytes, offsets: Offsets) -> Ids:
        """The numbers of these strings; unknown ones get the next number, empty ones EMPTY."""
        numbers = np.empty(offsets.size - 1, np.int32)
        for first in range(
            0, numbers.size, BATCH_SIZE
        ):  # few at a time: most are known, and need no room
            some = offsets[first : first + BATCH_SIZE + 1]
            self._reserve(some.size - 1, int(some[-1] - some[0]))
            arrays = self._bytes, self._ends, self._slots
            self._size = _add_strings(data, some, numbers[first:], *arrays, self._size)
            if self._size > MOST_STRINGS:  # two users, or two tokens, would become one
                raise BayesgramError(
                    f"more than {MOST_STRINGS:,} distinct tokens or user ids: cut the input into parts with fewer."
                )
        return numbers

    def strings(self) -> pa.LargeBinaryArray:
        """All strings; row number = number."""
        offsets = self._ends[: self._size + 1].copy()
        data = self._bytes[: offsets[-1]].copy()
        return pa.LargeBinaryArray.from_buffers(
            pa.large_binary(), self._size, [None, pa.py_buffer(offsets), pa.py_buffer(data)]
        )

    def hashes(self, first: int = 0) -> Hashes:
        """The hashes of the strings from this number on."""
        return hash_rows(self._bytes, self._ends[first : self._size + 1])

    def _reserve(self, strings: int, size: int) -> None:
        self._bytes = _grown(self._bytes, int(self._ends[self._size]) + size)
        self._ends = _grown(self._ends, self._size + strings + 1)
        self._slots = with_capacity(self._slots, self._size + strings)


def _grown(array: NDArray[Scalar], needed: int) -> NDArray[Scalar]:
    """The same entries with room for `needed`, at least doubled when it has to move."""
    if needed <= array.shape[0]:
        return array
    larger = np.empty(max(needed, 2 * array.shape[0]), array.dtype)
    larger[: array.shape[0]] = array
    return larger
