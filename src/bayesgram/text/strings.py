"""Numbers for byte strings (tokens, user ids): every distinct string gets one, exactly.

`StringTable` compares the strings that it stores, so that two different strings are never taken for
one another, whatever their hashes. It forgets nothing: its memory is that of the distinct strings.

The hash tables of all hot loops (also those of `ngram_tables`) are arrays of slots, with open
addressing and linear probing. A slot is a key of one or more 64-bit words, and last a value, which
is 0 if the slot is empty. A table grows before a batch is added, so that kernels never have to
stop.
"""

from typing import NamedTuple, TypeVar

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from bayesgram.arrays import Bytes, Hashes, Ids, Integers
from bayesgram.errors import BayesgramError
from bayesgram.kernels import copy_part, inlined, kernel, mix, read_uint64

Scalar = TypeVar("Scalar", bound=np.generic)
Offsets = Integers | Ids
Slots = Hashes  # two-dimensional: a row is a slot, the key and then the value

EMPTY = -1  # the number of an empty string: the end of a sentence
UNKNOWN = -2  # the number of a string that is not in the table
MOST_STRINGS = (1 << 31) - 2  # numbers have 32 bits, and windows of them need one more number
BATCH_SIZE = 1 << 13  # entries for which a table makes room at once; not measured
LOOKUP_BATCH = 64  # strings whose keys are computed before the first is looked up; not measured

SLOT_BYTES = 24  # of the slots of a `StringTable`: two words of the key, and the value
READ_BYTES = 16  # that the key of a short string is read from
SHORT = 15  # bytes of a string that fit in a key
LONG = np.uint64(0xFF << 56)  # the second word of the key of a longer string


class LookupResult(NamedTuple):
    """The numbers of strings, and a copy of those that are UNKNOWN."""

    numbers: Ids
    unknown: Integers  # the rows of UNKNOWN strings
    data: Bytes  # their bytes, one after the other
    offsets: Integers  # where each of them begins in `data`


class StringTable:
    """Numbers for distinct non-empty byte strings, in order of appearance.

    Strings are rows of Arrow arrays or tokens of a scanner: bytes, and where each begins and ends.
    """

    def __init__(self) -> None:
        self._bytes = np.empty(1 << 12, np.uint8)
        self._ends = np.zeros(1 << 8, np.int64)  # string i is bytes[ends[i] : ends[i + 1]]
        self._slots = np.zeros((1 << 9, 3), np.uint64)  # two words of the key, number + 1
        self._size = 0

    def __len__(self) -> int:
        return self._size

    def find(self, data: Bytes, offsets: Offsets) -> Ids:
        """Return the numbers of strings, UNKNOWN or EMPTY. Threads may call it side by side."""
        return _find_strings(_readable(data), offsets, self._bytes, self._ends, self._slots)

    def look_up(self, data: Bytes, offsets: Offsets) -> LookupResult:
        """Do the same, and copy the unknown strings, so that `add_unknown` can add them later."""
        numbers = self.find(data, offsets)
        return LookupResult(numbers, *_unknown_strings(numbers, data, offsets))

    def frozen(self) -> "StringTable":
        """Return the table as it is now, for threads that look up while this one gets more.

        Only the slots are copied: what is stored never changes, and never moves within its array.
        """
        table = StringTable()
        table._bytes = self._bytes
        table._ends = self._ends
        table._slots = self._slots.copy()
        table._size = self._size
        return table

    @property
    def slots_bytes(self) -> int:
        """Bytes of the slots, which are what `frozen` copies."""
        return int(self._slots.nbytes)

    def add_unknown(self, result: LookupResult) -> Ids:
        """Add the UNKNOWN strings of a lookup, and return the numbers of all its strings.

        The lookup may have been in a table that was `frozen` earlier.
        """
        result.numbers[result.unknown] = self.add(result.data, result.offsets)
        return result.numbers

    def add(self, data: Bytes, offsets: Offsets) -> Ids:
        """Return the numbers of strings; unknown ones get the next number, empty ones EMPTY."""
        numbers = np.empty(offsets.size - 1, np.int32)
        # Few at a time: most strings are known, and need no room.
        for first in range(0, numbers.size, BATCH_SIZE):
            batch = offsets[first : first + BATCH_SIZE + 1]
            self._reserve(batch.size - 1, int(batch[-1] - batch[0]))
            self._size = _add_strings(
                _readable(data),
                batch,
                numbers[first:],
                self._bytes,
                self._ends,
                self._slots,
                self._size,
            )
            if self._size > MOST_STRINGS:  # two users, or two tokens, would become one
                raise BayesgramError(
                    f"more than {MOST_STRINGS:,} distinct tokens or user ids:"
                    " cut the input into parts with fewer."
                )
        return numbers

    def strings(self) -> pa.LargeBinaryArray:
        """Return all strings; the row number is the string's number."""
        offsets = self._ends[: self._size + 1].copy()
        data = self._bytes[: offsets[-1]].copy()
        return pa.LargeBinaryArray.from_buffers(
            pa.large_binary(), self._size, [None, pa.py_buffer(offsets), pa.py_buffer(data)]
        )

    def hashes(self, first: int = 0) -> Hashes:
        """Return the hashes of the strings from number `first` on."""
        return hash_rows(self._bytes, self._ends[first : self._size + 1])

    def _reserve(self, strings: int, size: int) -> None:
        """Make room for so many more strings, which have so many bytes."""
        self._bytes = _with_room(self._bytes, int(self._ends[self._size]) + size)
        self._ends = _with_room(self._ends, self._size + strings + 1)
        self._slots = grow_slots(self._slots, self._size + strings)


def _readable(data: Bytes) -> Bytes:
    """Return the bytes, of which kernels may read 16 at once."""
    if data.size >= READ_BYTES:
        return data
    padded = np.concatenate([data, np.zeros(READ_BYTES, np.uint8)])
    padded.setflags(write=data.flags.writeable)
    return padded


def _with_room(array: NDArray[Scalar], needed: int) -> NDArray[Scalar]:
    """Return the same entries with room for `needed`, at least doubled when they have to move."""
    if needed <= array.shape[0]:
        return array
    larger = np.empty(max(needed, 2 * array.shape[0]), array.dtype)
    larger[: array.shape[0]] = array
    return larger


@kernel
def _unknown_strings(
    numbers: Ids, data: Bytes, offsets: Offsets
) -> tuple[Integers, Bytes, Integers]:
    """Return the rows of UNKNOWN strings, and a copy of these strings."""
    unknown = 0
    size = 0
    for row in range(numbers.size):
        if numbers[row] == UNKNOWN:
            unknown += 1
            size += offsets[row + 1] - offsets[row]
    rows = np.empty(unknown, np.int64)
    copied = np.empty(size, np.uint8)
    starts = np.zeros(unknown + 1, np.int64)
    at = 0
    for row in range(numbers.size):
        if numbers[row] == UNKNOWN:
            rows[at] = row
            start = offsets[row]
            end = offsets[row + 1]
            copy_part(data, start, end, copied, starts[at])
            starts[at + 1] = starts[at] + end - start
            at += 1
    return rows, copied, starts


# --- Slots of hash tables ---


@kernel
def spread(value: np.uint64) -> np.uint64:
    """Spread 64 bits as far as slots need it, with half of the work of `mix`."""
    product = value * np.uint64(0x9E3779B97F4A7C15)
    return product ^ product >> np.uint64(32)


@inlined
def hash_key(keys: Hashes, row: int, words: int) -> np.uint64:
    """Hash a key; the lowest bits of the hash are the slot where the search for it begins."""
    hashed = spread(keys[row, 0])
    for word in range(1, words):
        hashed = spread(hashed ^ keys[row, word])
    return hashed


def grow_slots(slots: Slots, entries: int) -> Slots:
    """Return the same table, grown until it is at most two thirds full with so many entries."""
    while 3 * entries > 2 * slots.shape[0]:
        old_size = slots.shape[0]
        slots = _append_empty_slots(slots)
        _rehash(slots, old_size)
    return slots


def _append_empty_slots(slots: Slots) -> Slots:
    """Return the table with as many empty slots after it.

    Slots are the beginning of an array of zeros with room for more, which takes no memory until it
    is written: so most tables grow in place, and there is seldom an old one beside a new one.
    """
    size, columns = slots.shape
    allocated = slots if slots.base is None else slots.base
    if allocated.shape[0] == size:
        try:
            allocated = np.zeros((8 * size, columns), np.uint64)
        except MemoryError:  # where memory that is not used counts as well
            allocated = np.zeros((2 * size, columns), np.uint64)
        allocated[:size] = slots
    return allocated[: 2 * size]


@kernel
def _rehash(slots: Slots, old_size: int) -> None:
    """Move the entries of a table that was doubled to where they belong now.

    Beginning after an empty slot, each entry is taken out and put in again. Between its new slot
    and the one where the search for it begins there are only entries that were moved already, so
    no later step opens a gap in its way.
    """
    words = slots.shape[1] - 1
    mask = np.uint64(slots.shape[0] - 1)
    entry = np.empty((1, words + 1), np.uint64)
    start = 0
    while slots[start, words]:
        start += 1
    for step in range(old_size):
        old_slot = (start + step) & (old_size - 1)
        if not slots[old_slot, words]:
            continue
        for column in range(words + 1):
            entry[0, column] = slots[old_slot, column]
        slots[old_slot, words] = 0
        slot = hash_key(entry, 0, words) & mask
        while slots[slot, words]:
            slot = (slot + np.uint64(1)) & mask
        for column in range(words + 1):
            slots[slot, column] = entry[0, column]


# --- Hashes and keys of strings ---


@inlined
def hash_bytes(data: Bytes, start: int, end: int) -> np.uint64:
    """Return a 64-bit hash of data[start:end] (FNV-1a, then mixed)."""
    value = np.uint64(0xCBF29CE484222325)
    for at in range(start, end):
        value = (value ^ np.uint64(data[at])) * np.uint64(0x100000001B3)
    return mix(value)


@kernel
def hash_rows(data: Bytes, offsets: Integers) -> Hashes:
    """Return the hash of each row of an Arrow array: a function of its bytes alone."""
    hashes = np.empty(offsets.size - 1, np.uint64)
    for row in range(hashes.size):
        hashes[row] = hash_bytes(data, offsets[row], offsets[row + 1])
    return hashes


@kernel
def _low_bytes(number: int) -> np.uint64:
    """Return a mask of the lowest `number` bytes, 0 to 8."""
    half = np.uint64(4 * number)
    return (np.uint64(1) << half << half) - np.uint64(1)


@inlined
def string_key(data: Bytes, start: int, end: int) -> tuple[np.uint64, np.uint64]:
    """Return the key of a string, two words.

    A string of up to 15 bytes is its own key, with its length in the top byte. A longer one has a
    hash, and LONG. Keys of different short strings differ; only equal keys of long strings need
    another look.
    """
    size = end - start
    first = np.uint64(size)
    second = np.uint64(0)
    if size > SHORT:
        for at in range(start, end - 8, 8):
            first = mix(first ^ read_uint64(data, at))
        first = mix(first ^ read_uint64(data, end - 8))
        second = LONG
    elif start + 16 <= data.size:
        length = np.uint64(size) << np.uint64(56)
        first = read_uint64(data, start) & _low_bytes(min(size, 8))
        second = read_uint64(data, start + 8) & _low_bytes(max(size - 8, 0)) | length
    else:
        first = np.uint64(0)
        second = np.uint64(size) << np.uint64(56)
        for index in range(min(size, 8)):
            first |= np.uint64(data[start + index]) << np.uint64(8 * index)
        for index in range(8, size):
            second |= np.uint64(data[start + index]) << np.uint64(8 * index - 64)
    return first, second


@inlined
def _plain_key(data: Bytes, start: int, end: int) -> tuple[np.uint64, np.uint64]:
    """Return the key of a string as `string_key` does, but without a branch.

    The second word is LONG or more, and the first means nothing, if the string is longer than 15
    bytes, or so near the end of the array that 16 bytes can't be read. The array has 16 or more.

    Without branches Numba sees that the array need not be counted as in use and released again for
    every string. These two locked additions took two thirds of the time of a lookup.
    """
    size = end - start
    last = data.size - READ_BYTES
    place = min(start, last)
    is_plain = (size <= SHORT) & (start <= last) | (size == 0)
    length = np.uint64(size if is_plain else 0xFF) << np.uint64(56)
    first = read_uint64(data, place) & _low_bytes(min(size, 8))
    second = read_uint64(data, place + 8) & _low_bytes(min(max(size - 8, 0), 7)) | length
    return first, second


@kernel
def _key_hash(first: np.uint64, second: np.uint64) -> np.uint64:
    """Hash the key of a string, as `hash_key` does."""
    return spread(spread(first) ^ second)


# --- Lookup of strings ---


@inlined
def _is_stored_as(
    data: Bytes, start: int, end: int, value: np.uint64, stored: Bytes, ends: Integers
) -> bool:
    """Compare a string with the stored one of a slot's value (its number + 1), byte by byte."""
    number = np.int64(value)
    stored_start = ends[number - 1]
    if ends[number] - stored_start != end - start:
        return False
    for index in range(end - start):
        if data[start + index] != stored[stored_start + index]:
            return False
    return True


@inlined
def _find_string_slot(
    first: np.uint64,
    second: np.uint64,
    slot: np.uint64,
    data: Bytes,
    start: int,
    end: int,
    stored: Bytes,
    ends: Integers,
    slots: Slots,
) -> np.uint64:
    """Return the slot of a string, or the empty one where it would be, searching on from `slot`."""
    mask = np.uint64(slots.shape[0] - 1)
    while True:
        value = slots[slot, 2]
        if not value:
            break
        same_key = slots[slot, 0] == first and slots[slot, 1] == second
        if same_key and (second < LONG or _is_stored_as(data, start, end, value, stored, ends)):
            break
        slot = (slot + np.uint64(1)) & mask
    return slot


@kernel
def _find_strings(
    data: Bytes, offsets: Offsets, stored: Bytes, ends: Integers, slots: Slots
) -> Ids:
    """Return the number of each string; UNKNOWN, or EMPTY."""
    numbers = np.empty(offsets.size - 1, np.int32)
    unsettled = np.empty(LOOKUP_BATCH, np.int64)
    mask = np.uint64(slots.shape[0] - 1)
    for begin in range(0, numbers.size, LOOKUP_BATCH):
        # Most strings are short, and in the slot where the search begins: they are settled
        # without a branch, so that the processor never guesses one wrongly.
        unsettled_size = 0
        for row in range(begin, min(begin + LOOKUP_BATCH, numbers.size)):
            at = np.uint64(row)
            first, second = _plain_key(data, offsets[at], offsets[at + np.uint64(1)])
            slot = _key_hash(first, second) & mask
            value = np.int64(slots[slot, 2])
            differs = slots[slot, 0] ^ first | slots[slot, 1] ^ second | np.uint64(second >= LONG)
            numbers[at] = EMPTY if second == 0 else value - 1 - int(value == 0)
            unsettled[np.uint64(unsettled_size)] = row
            is_settled = int(value == 0) & int(second < LONG) | int(differs == 0)
            unsettled_size += 1 - is_settled
        for row in unsettled[:unsettled_size]:
            start = offsets[row]
            end = offsets[row + 1]
            if start < end:
                first, second = string_key(data, start, end)
                slot = _key_hash(first, second) & mask
                slot = _find_string_slot(first, second, slot, data, start, end, stored, ends, slots)
                value = np.int64(slots[slot, 2])
                numbers[row] = value - 1 if value else UNKNOWN
    return numbers


@kernel
def _add_strings(
    data: Bytes,
    offsets: Offsets,
    numbers: Ids,
    stored: Bytes,
    ends: Integers,
    slots: Slots,
    size: int,
) -> int:
    """Write the number of each string, or EMPTY; new ones get the next, from `size` on.

    Returns:
        The new size of the table.
    """
    mask = np.uint64(slots.shape[0] - 1)
    previous_first = np.uint64(0)  # the key of an empty string
    previous_second = np.uint64(0)
    for row in range(offsets.size - 1):
        start = offsets[row]
        end = offsets[row + 1]
        first, second = _plain_key(data, start, end)
        if second >= LONG:
            first, second = string_key(data, start, end)
        is_same = first == previous_first and second == previous_second and second < LONG
        previous_first = first
        previous_second = second
        if not second:
            numbers[row] = EMPTY
            continue
        if is_same:
            numbers[row] = numbers[row - 1]  # users often write several texts in a row
            continue
        slot = _find_string_slot(
            first, second, _key_hash(first, second) & mask, data, start, end, stored, ends, slots
        )
        if not slots[slot, 2]:
            ends[size + 1] = ends[size] + end - start
            copy_part(data, start, end, stored, ends[size])
            size += 1
            slots[slot, 0] = first
            slots[slot, 1] = second
            slots[slot, 2] = size
        numbers[row] = np.int64(slots[slot, 2]) - 1
    return size
