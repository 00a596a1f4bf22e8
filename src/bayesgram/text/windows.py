"""Counts of windows of token numbers (n-grams), exactly, and a list of windows that is looked for in streams of them.

A window is its token numbers side by side in one or more 64-bit numbers, so it is its own key. Does not know what a
token is. Does not forget: memory is that of the distinct windows.
"""

from collections.abc import Iterator, Sequence

import numpy as np

from bayesgram.arrays import Hashes, Ids, Integers
from bayesgram.cores import CORES, on_cores
from bayesgram.kernels import inlined, kernel, mix, prefetch
from bayesgram.text.slots import AHEAD, AT_ONCE, Slots, hash_key, with_room

NARROW, WIDE = 21, 32  # bits of a token number in a key: less while there are less than two million tokens
PER_WORD, PER_WORD_WIDE = 64 // NARROW, 64 // WIDE
SLOTS_AT_ONCE = 1 << 20  # that are looked through for entries


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
    return hash_key(keys, row, word)


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


@inlined
def _key_at(window: np.uint64, ids: Ids, end: int, order: int, bits: int, keys: Hashes, row: int) -> np.uint64:
    """Write the key of the window that ends here, and give its hash; `window` is the last key, moved by one token."""
    if keys.shape[1] == 1:  # the usual case
        keys[row, 0] = window
        hashed = mix(window)
    else:
        hashed = _pack(ids, end + 1 - order, order, bits, keys, row)
    return hashed


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
            hashed = _key_at(window, ids, end, order, bits, keys, waiting)
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
        self._parts[part] = with_room(self._parts[part], self._sizes[part] + more)


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
        hashed = _key_at(window, ids, end, order, bits, key, 0)
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
        self._slots = with_room(_no_slots(self.order, self._bits), len(rows))
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
