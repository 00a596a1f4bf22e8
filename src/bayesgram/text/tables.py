"""Exact hash tables for the hot loops: strings → numbers, and windows of numbers → numbers.

`StringTable` gives every distinct byte string a number (tokens, user ids); `WindowTable` counts every distinct window
of token numbers (n-grams), and `WindowIndex` finds those of a list. All compare what they stored, so that two different
strings are never taken for one another, whatever their hashes. Open addressing with linear probing; kernels ask for the
memory of some dozens of entries before they look at the first, as waiting for it would be most of their time. A table
grows before a batch is added, so that kernels never have to stop.
Does not forget: memory is that of the distinct entries.
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple, TypeVar

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from bayesgram.arrays import Bytes, Hashes, Ids, Integers
from bayesgram.cores import CORES, on_cores
from bayesgram.kernels import inlined, kernel, mix, prefetch

Scalar = TypeVar("Scalar", bound=np.generic)
Offsets = Integers | Ids
Slots = Hashes  # two-dimensional: a row is a key of one or more numbers, and last what belongs to it, 0 if it is empty

EMPTY = -1  # the number of an empty string: the end of a sentence
UNKNOWN = -2  # of a string that is not in the table
AT_ONCE = 1 << 13  # entries for which room is made when more are added
SLOTS_AT_ONCE = 1 << 20  # that are looked through for entries
AHEAD = 64  # entries that are asked for before the first is looked at
LONG = np.uint64(1 << 63)
SHORT = 7  # bytes that fit in a tag


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


@inlined
def _eight_bytes(data: Bytes, start: int) -> np.uint64:
    """Eight bytes as a number; compiled to a single load."""
    at = np.uint64(start)
    value = np.uint64(0)
    for place in range(8):
        value |= np.uint64(data[at + np.uint64(place)]) << np.uint64(8 * place)
    return value


@inlined
def _tag(data: Bytes, start: int, end: int) -> np.uint64:
    """What a string is known by: itself, with its length in the top byte, if it has up to 7 bytes; or a LONG hash.

    Tags of different short strings differ; only equal tags of long strings need another look.
    """
    size = end - start
    if size <= SHORT:
        value = np.uint64(0)
        if start + 8 <= data.size:
            value = _eight_bytes(data, start) & ((np.uint64(1) << np.uint64(8 * size)) - np.uint64(1))
        else:
            for place in range(size):
                value |= np.uint64(data[start + place]) << np.uint64(8 * place)
        return value | np.uint64(size) << np.uint64(56)
    value = np.uint64(size)
    for at in range(start, end - 8, 8):
        value = mix(value ^ _eight_bytes(data, at))
    return mix(value ^ _eight_bytes(data, end - 8)) | LONG


@inlined
def _is_known(data: Bytes, start: int, end: int, found: np.uint64, known: Bytes, ends: Integers) -> bool:
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
    tag: np.uint64, place: np.uint64, data: Bytes, start: int, end: int, known: Bytes, ends: Integers, slots: Slots
) -> np.uint64:
    """Where a string is, or the empty slot where it would be, searching on from a place."""
    last = np.uint64(slots.shape[0] - 1)
    while True:
        found = slots[place, 1]
        if not found:
            break
        if slots[place, 0] == tag and (tag < LONG or _is_known(data, start, end, found, known, ends)):
            break
        place = (place + np.uint64(1)) & last
    return place


@kernel
def _find_strings(data: Bytes, offsets: Offsets, known: Bytes, ends: Integers, slots: Slots) -> Ids:
    """The number of each string; UNKNOWN, or EMPTY."""
    numbers = np.empty(offsets.size - 1, np.int32)
    tags, places = np.empty(AHEAD, np.uint64), np.empty(AHEAD, np.uint64)
    last = np.uint64(slots.shape[0] - 1)
    for first in range(0, numbers.size, AHEAD):
        rows = min(AHEAD, numbers.size - first)
        for row in range(rows):
            tag = _tag(data, offsets[first + row], offsets[first + row + 1])
            place = mix(tag) & last
            tags[row], places[row] = tag, place
            prefetch(slots, place)
        for row in range(rows):
            start, end = offsets[first + row], offsets[first + row + 1]
            place = _slot_of_string(tags[row], places[row], data, start, end, known, ends, slots)
            found = np.int64(slots[place, 1])
            numbers[first + row] = EMPTY if start == end else found - 1 if found else UNKNOWN
    return numbers


@kernel
def _add_strings(
    data: Bytes, offsets: Offsets, numbers: Ids, known: Bytes, ends: Integers, slots: Slots, size: int
) -> int:
    """Write the number of each string, or EMPTY; new ones get the next, from `size` on. The new size."""
    last, before = np.uint64(slots.shape[0] - 1), np.uint64(0)
    for row in range(offsets.size - 1):
        start, end = offsets[row], offsets[row + 1]
        if start == end:
            numbers[row], before = EMPTY, np.uint64(0)
            continue
        tag = _tag(data, start, end)
        if tag == before and _is_known(data, start, end, np.uint64(numbers[row - 1] + 1), known, ends):
            numbers[row] = numbers[row - 1]  # users often write several texts in a row
            continue
        before = tag
        place = _slot_of_string(tag, mix(tag) & last, data, start, end, known, ends, slots)
        if not slots[place, 1]:
            ends[size + 1] = ends[size] + end - start
            known[ends[size] : ends[size + 1]] = data[start:end]
            size += 1
            slots[place, 0], slots[place, 1] = tag, size
        numbers[row] = np.int64(slots[place, 1]) - 1
    return size


@kernel
def _unknown_strings(numbers: Ids, data: Bytes, offsets: Offsets) -> tuple[Integers, Bytes, Integers]:
    """Where strings are UNKNOWN, and a copy of them."""
    count = size = 0
    for row in range(numbers.size):
        if numbers[row] == UNKNOWN:
            count += 1
            size += offsets[row + 1] - offsets[row]
    places, bounds, copied = np.empty(count, np.int64), np.zeros(count + 1, np.int64), np.empty(size, np.uint8)
    at = 0
    for row in range(numbers.size):
        if numbers[row] == UNKNOWN:
            places[at] = row
            bounds[at + 1] = bounds[at] + offsets[row + 1] - offsets[row]
            copied[bounds[at] : bounds[at + 1]] = data[offsets[row] : offsets[row + 1]]
            at += 1
    return places, copied, bounds


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
        self._slots = np.zeros((1 << 9, 2), np.uint64)  # tag, number + 1
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
        for first in range(0, numbers.size, AT_ONCE):  # few at a time: most are known, and need no room
            some = offsets[first : first + AT_ONCE + 1]
            self._reserve(some.size - 1, int(some[-1] - some[0]))
            arrays = self._bytes, self._ends, self._slots
            self._size = _add_strings(data, some, numbers[first:], *arrays, self._size)
        return numbers

    def strings(self) -> pa.LargeBinaryArray:
        """All strings; row number = number."""
        offsets = self._ends[: self._size + 1].copy()
        data = self._bytes[: offsets[-1]].copy()
        return pa.LargeBinaryArray.from_buffers(
            pa.large_binary(), self._size, [None, pa.py_buffer(offsets), pa.py_buffer(data)]
        )

    def _reserve(self, strings: int, size: int) -> None:
        self._bytes = _grown(self._bytes, int(self._ends[self._size]) + size)
        self._ends = _grown(self._ends, self._size + strings + 1)
        self._slots = _with_room(self._slots, self._size + strings)


NARROW, WIDE = 21, 32  # bits of a token number in a key: less while there are less than two million tokens
PER_WORD, PER_WORD_WIDE = 64 // NARROW, 64 // WIDE


@inlined
def _hash_key(keys: Hashes, row: int, words: int) -> np.uint64:
    hashed = mix(keys[row, 0])
    for word in range(1, words):
        hashed = mix(hashed ^ keys[row, word])
    return hashed


@inlined
def _pack(ids: Ids, start: int, order: int, bits: int, keys: Hashes, row: int) -> np.uint64:
    """Write a window's token numbers as a key, and give its hash."""
    at, stop, word = start, start + order, 0
    while at < stop:
        value = np.uint64(0)
        end = min(at + (PER_WORD if bits == NARROW else PER_WORD_WIDE), stop)
        while at < end:
            value = value << np.uint64(bits) | np.uint64(ids[at])
            at += 1
        keys[row, word] = value
        word += 1
    return _hash_key(keys, row, word)


@inlined
def _unpack(slots: Slots, place: int, bits: int, rows: Ids, row: int) -> None:
    order, per_word = rows.shape[1], PER_WORD if bits == NARROW else PER_WORD_WIDE
    mask = (np.uint64(1) << np.uint64(bits)) - np.uint64(1)
    for word in range(slots.shape[1] - 1):
        value = slots[place, word]
        for at in range(min(order, (word + 1) * per_word) - 1, word * per_word - 1, -1):
            rows[row, at] = np.int64(value & mask)
            value >>= np.uint64(bits)


@inlined
def _in_part(hashed: np.uint64, part: int, parts: int) -> bool:
    """Whether a window belongs to this part of a table: by the upper half of its hash, as slots go by the lower."""
    return bool((hashed >> np.uint64(32)) * np.uint64(parts) >> np.uint64(32) == np.uint64(part))


@inlined
def _slot_of(keys: Hashes, row: int, place: np.uint64, slots: Slots) -> np.uint64:
    """Where a key is, or the empty slot where it would be, searching on from a place."""
    last, words = np.uint64(slots.shape[0] - 1), slots.shape[1] - 1
    first = keys[row, 0]
    while True:
        if not slots[place, words]:
            break
        if slots[place, 0] == first and (words == 1 or _same_rest(keys, row, place, slots)):
            break
        place = (place + np.uint64(1)) & last
    return place


@inlined
def _same_rest(keys: Hashes, row: int, place: np.uint64, slots: Slots) -> bool:
    for word in range(1, slots.shape[1] - 1):
        if slots[place, word] != keys[row, word]:
            return False
    return True


@inlined
def _add_key(keys: Hashes, row: int, place: np.uint64, number: int, slots: Slots) -> int:
    """Add to the count of a key, searching on from a place; 1 if the key is new."""
    last, words = np.uint64(slots.shape[0] - 1), slots.shape[1] - 1
    first, new = keys[row, 0], 0
    while True:
        count = slots[place, words]
        if not count:
            for word in range(words):
                slots[place, word] = keys[row, word]
            new = 1
            break
        if slots[place, 0] == first and (words == 1 or _same_rest(keys, row, place, slots)):
            break
        place = (place + np.uint64(1)) & last
    slots[place, words] = count + np.uint64(number)
    return new


@kernel
def _count_windows(ids: Ids, order: int, bits: int, slots: Slots, part: int, parts: int) -> int:
    """Count the windows of one part; how many were new."""
    words = slots.shape[1] - 1
    keys, places = np.empty((AHEAD, words), np.uint64), np.empty(AHEAD, np.uint64)
    last, window = np.uint64(slots.shape[0] - 1), np.uint64(0)
    mask = (np.uint64(1) << np.uint64(min(bits * order, 63))) - np.uint64(1)
    new = waiting = run = 0
    for end in range(ids.size):
        run = run + 1 if ids[end] >= 0 else 0
        window = (window << np.uint64(bits) | np.uint64(ids[end])) & mask
        if run >= order:
            if words == 1:  # the usual case: the last key, moved by one token
                keys[waiting, 0] = window
                hashed = mix(window)
            else:
                hashed = _pack(ids, end + 1 - order, order, bits, keys, waiting)
            if _in_part(hashed, part, parts):
                place = hashed & last
                places[waiting] = place
                prefetch(slots, place)
                waiting += 1
        if waiting == AHEAD or end == ids.size - 1:
            for at in range(waiting):
                new += _add_key(keys, at, places[at], 1, slots)
            waiting = 0
    return new


@kernel
def _add_windows(rows: Ids, counts: Integers, bits: int, slots: Slots, part: int, parts: int) -> int:
    """Add the windows of one part that were counted before; how many were new."""
    key = np.empty((1, slots.shape[1] - 1), np.uint64)
    last = np.uint64(slots.shape[0] - 1)
    new = 0
    for row in range(counts.size):
        hashed = _pack(rows[row], 0, rows.shape[1], bits, key, 0)
        if _in_part(hashed, part, parts):
            new += _add_key(key, 0, hashed & last, counts[row], slots)
    return new


@kernel
def _entries(slots: Slots, order: int, bits: int, at_least: int) -> tuple[Ids, Integers]:
    """The windows with this count or more, and their counts."""
    words = slots.shape[1] - 1
    size = 0
    for place in range(slots.shape[0]):
        size += slots[place, words] >= at_least
    rows, counts = np.empty((size, order), np.int32), np.empty(size, np.int64)
    at = 0
    for place in range(slots.shape[0]):
        if slots[place, words] >= at_least:
            _unpack(slots, place, bits, rows, at)
            counts[at] = np.int64(slots[place, words])
            at += 1
    return rows, counts


@kernel
def _how_often(slots: Slots, most: int) -> Integers:
    """How many windows have each count, up to `most` or more."""
    found = np.zeros(most + 1, np.int64)
    for place in range(slots.shape[0]):
        found[min(slots[place, slots.shape[1] - 1], np.uint64(most))] += 1
    return found


@kernel
def _dealt(slots: Slots, order: int, bits: int, buckets: int) -> tuple[Integers, Ids, Integers]:
    """All windows and their counts in order of buckets, and where each bucket begins and ends.

    Buckets go by a hash of the tokens, not of the key: it stays when keys become wide.
    """
    words = slots.shape[1] - 1
    row, key = np.empty((1, order), np.int32), np.empty((1, (order + 1) // 2), np.uint64)
    chosen, edges = np.empty(slots.shape[0], np.uint16), np.zeros(buckets + 1, np.int64)
    for place in range(slots.shape[0]):
        if slots[place, words]:
            _unpack(slots, place, bits, row, 0)
            hashed = _pack(row[0], 0, order, WIDE, key, 0)
            chosen[place] = (hashed >> np.uint64(48)) * np.uint64(buckets) >> np.uint64(16)
            edges[chosen[place] + 1] += 1
    edges = np.cumsum(edges)
    rows, counts, fill = np.empty((edges[-1], order), np.int32), np.empty(edges[-1], np.int64), edges.copy()
    for place in range(slots.shape[0]):
        if slots[place, words]:
            at = fill[chosen[place]]
            fill[chosen[place]] += 1
            _unpack(slots, place, bits, rows, at)
            counts[at] = np.int64(slots[place, words])
    return edges, rows, counts


class WindowTable:
    """Counts of distinct windows of `order` token numbers. Every core counts the windows of its own part."""

    def __init__(self, order: int, *, cores: int = CORES) -> None:
        self.order = order
        self._cores = cores
        self._start(NARROW)

    def _start(self, bits: int) -> None:
        self._bits = bits
        self._parts = [_no_slots(self.order, bits) for _ in range(self._cores)]
        self._sizes = [0] * self._cores

    def __len__(self) -> int:
        return sum(self._sizes)

    @property
    def largest_size(self) -> int:
        """Bytes at the worst: a table that has just grown is a third full."""
        return 3 * len(self) * int(self._parts[0][0].nbytes)

    def add(self, streams: Sequence[Ids], *, tokens: int) -> None:
        """Count the windows of streams of numbers below `tokens`; what is below 0 interrupts a window."""
        self._make_wide_for(tokens)

        def count(part: int) -> None:
            for ids in streams:
                self._reserve(part, ids.size)
                arguments = self.order, self._bits, self._parts[part], part, self._cores
                self._sizes[part] += _count_windows(ids, *arguments)

        on_cores(count, range(self._cores), cores=self._cores)

    def merge(self, rows: Ids, counts: Integers) -> None:
        """Add windows that were counted before."""
        self._make_wide_for(int(rows.max(initial=0)) + 1)

        def add(part: int) -> None:
            for first in range(0, len(rows), AT_ONCE):
                some = slice(first, first + AT_ONCE)
                self._reserve(part, len(rows[some]))
                arguments = self._bits, self._parts[part], part, self._cores
                self._sizes[part] += _add_windows(rows[some], counts[some], *arguments)

        on_cores(add, range(self._cores), cores=self._cores)

    def entries(self, *, at_least: int = 1) -> Iterator[tuple[Ids, Integers]]:
        """The windows with this count or more, and their counts, in any order, some at a time."""
        for slots in self._parts:
            for first in range(0, len(slots), SLOTS_AT_ONCE):
                yield _entries(slots[first : first + SLOTS_AT_ONCE], self.order, self._bits, at_least)

    def dealt(self, buckets: int) -> Iterator[tuple[Integers, Ids, Integers]]:
        """All windows and their counts in order of buckets, and the edges of the buckets, a part at a time."""
        for slots in self._parts:
            yield _dealt(slots, self.order, self._bits, buckets)

    def count_reached_by(self, size: int) -> int:
        """A count that `size` windows reach, if so many have one: the highest such, but for very high ones."""
        numbers = np.sum([_how_often(slots, 1 << 16) for slots in self._parts], axis=0)
        reached = np.cumsum(numbers[:0:-1])[::-1]  # how many have 1 or more, 2 or more ...
        return max(int(np.count_nonzero(reached >= size)), 1)

    def clear(self) -> None:
        """Forget all windows, but keep the room."""
        for slots in self._parts:
            slots[:] = 0
        self._sizes = [0] * self._cores

    def _make_wide_for(self, tokens: int) -> None:
        """Where numbers need more bits than a key has for them, write all keys anew."""
        if _bits(tokens) > self._bits:
            narrow = list(self.entries())
            self._start(WIDE)
            for rows, counts in narrow:
                self.merge(rows, counts)

    def _reserve(self, part: int, more: int) -> None:
        self._parts[part] = _with_room(self._parts[part], self._sizes[part] + more)


@kernel
def _index_rows(rows: Ids, bits: int, slots: Slots) -> int:
    """Store each row's number, plus one; of equal rows, the first's. How many were stored."""
    key = np.empty((1, slots.shape[1] - 1), np.uint64)
    last = np.uint64(slots.shape[0] - 1)
    stored = 0
    for row in range(rows.shape[0]):
        hashed = _pack(rows[row], 0, rows.shape[1], bits, key, 0)
        place = _slot_of(key, 0, hashed & last, slots)
        if not slots[place, key.size]:
            stored += _add_key(key, 0, place, row + 1, slots)
    return stored


@kernel
def _find_windows(
    ids: Ids, ends: Integers, owners: Ids, listed: Ids, order: int, bits: int, slots: Slots
) -> tuple[Ids, Ids]:
    """(owner, number) of each window of the list, in order; the stream of text t ends before ends[t]."""
    whose, found = np.empty(ids.size, np.int32), np.empty(ids.size, np.int32)
    key = np.empty((1, slots.shape[1] - 1), np.uint64)
    last, window = np.uint64(slots.shape[0] - 1), np.uint64(0)
    mask = (np.uint64(1) << np.uint64(min(bits * order, 63))) - np.uint64(1)
    size = run = text = 0
    for end in range(ids.size):
        run = run + 1 if ids[end] >= 0 else 0
        window = (window << np.uint64(bits) | np.uint64(ids[end])) & mask
        if run < order:
            continue
        if key.size == 1:
            key[0, 0] = window
            hashed = mix(window)
        else:
            hashed = _pack(ids, end + 1 - order, order, bits, key, 0)
        row = slots[_slot_of(key, 0, hashed & last, slots), key.size]
        if row:
            while ends[text] <= end:
                text += 1
            whose[size], found[size] = owners[text], listed[np.int64(row) - 1]
            size += 1
    return whose[:size].copy(), found[:size].copy()


class WindowIndex:
    """Finds the windows of a list (V × n token numbers, all below `tokens`) in streams of token numbers.

    Each has a number; of windows that are there twice, the first one's is found.
    """

    def __init__(self, rows: Ids, numbers: Ids, *, tokens: int) -> None:
        self.order, self._numbers = rows.shape[1], numbers
        self._bits = _bits(tokens)
        self._slots = _with_room(_no_slots(self.order, self._bits), len(rows))
        self._size = _index_rows(rows, self._bits, self._slots)

    def __len__(self) -> int:
        return self._size

    def find(self, ids: Ids, ends: Integers, owners: Ids) -> tuple[Ids, Ids]:
        """(owner of the text, number) of every window, in order; text t is the stream up to ends[t]."""
        return _find_windows(ids, ends, owners, self._numbers, self.order, self._bits, self._slots)


def _bits(tokens: int) -> int:
    return WIDE if tokens >> NARROW else NARROW


def _no_slots(order: int, bits: int) -> Slots:
    """An empty table for keys of so many tokens."""
    words = -(-order // (64 // bits))
    return np.zeros((1 << 9, words + 1), np.uint64)


def _with_room(slots: Slots, entries: int) -> Slots:
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
        place = _hash_key(entry, 0, words) & last
        while slots[place, words]:
            place = (place + np.uint64(1)) & last
        for column in range(words + 1):
            slots[place, column] = entry[0, column]


def _grown(array: NDArray[Scalar], needed: int) -> NDArray[Scalar]:
    """The same entries with room for `needed`, at least doubled when it has to move."""
    if needed <= array.shape[0]:
        return array
    larger = np.empty(max(needed, 2 * array.shape[0]), array.dtype)
    larger[: array.shape[0]] = array
    return larger
