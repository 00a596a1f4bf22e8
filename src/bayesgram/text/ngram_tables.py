"""Counts of windows of token numbers (n-grams), exactly.

A window is its token numbers side by side in one or more 64-bit numbers, so it is its own key. Does not know what a
token is.

Most windows of real text occur once or twice, and a table of them all is far larger than the processor's cache. So
there are `Bounds` first: a small array of counts where windows share a cell by their hash, which is never below the
count of any of them. Only windows whose cell reaches what is asked for need a place in a table, and their counts there
are exact.

Counts of windows of token numbers (n-grams) in text that is short: sorted, not hashed.

Keys are those of `windows`, of one number. NumPy sorts a million of them in the time that kernels take to hash them; of
more text most windows are rare, and to leave those out, as a sketch does, is faster. Nothing is compiled for it: so the
first vocabulary that somebody makes is there two seconds sooner. Does not know what a token is.

Numbers of windows of token numbers (n-grams): of a list that is looked for in streams, and of those that come.

Keys and slots are those of `windows`. Does not know what a token is.
"""

from collections.abc import Iterable, Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from bayesgram.arrays import Bools, Bytes, Hashes, Ids, Integers
from bayesgram.cores import CORES, parallel_map
from bayesgram.kernels import inlined, kernel, prefetch
from bayesgram.text.strings import AHEAD, BATCH_SIZE, Slots, hash_key, with_capacity

Cells = Bytes | NDArray[np.uint16]

NARROW, WIDE = (
    21,
    32,
)  # bits of a token number in a key: less while there are less than two million tokens
PER_WORD, PER_WORD_WIDE = 64 // NARROW, 64 // WIDE
SLOTS_AT_ONCE = 1 << 20  # that are looked through for entries
GOLDEN = np.uint64(0x9E3779B97F4A7C15)  # an odd number without a pattern: 2⁶⁴ over the golden ratio


@inlined
def pack(ids: Ids, start: int, order: int, bits: int, keys: Hashes, row: int) -> None:
    """Write a window's token numbers as a key."""
    at, stop, word = start, start + order, 0
    while at < stop:
        value = np.uint64(0)
        end = min(at + (PER_WORD if bits == NARROW else PER_WORD_WIDE), stop)
        while at < end:
            value = value << np.uint64(bits) | np.uint64(ids[at])
            at += 1
        keys[row, word] = value
        word += 1


@inlined
def _unpack(slots: Slots, place: int, bits: int, rows: Ids, row: int) -> None:
    order, per_word = rows.shape[1], PER_WORD if bits == NARROW else PER_WORD_WIDE
    mask = (np.uint64(1) << np.uint64(bits)) - np.uint64(1)
    for word in range(slots.shape[1] - 1):
        value = slots[place, word]
        for at in range(min(order, (word + 1) * per_word) - 1, word * per_word - 1, -1):
            rows[row, at] = np.int64(value & mask)
            value >>= np.uint64(bits)


@kernel
def _in_part(hashed: np.uint64, part: int, parts: int) -> bool:
    """Whether a window belongs to this part of a table: by the top of its hash; buckets and slots go by lower bits."""
    return bool((hashed >> np.uint64(32)) * np.uint64(parts) >> np.uint64(32) == np.uint64(part))


@inlined
def slot_of(keys: Hashes, row: int, place: np.uint64, slots: Slots) -> np.uint64:
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
def put_key(keys: Hashes, row: int, place: np.uint64, number: int, slots: Slots) -> None:
    """Fill an empty slot."""
    for word in range(keys.shape[1]):
        slots[place, word] = keys[row, word]
    slots[place, keys.shape[1]] = number


@inlined
def add_key(keys: Hashes, row: int, place: np.uint64, number: int, slots: Slots) -> int:
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
def _moved(window: np.uint64, run: int, token: int, bits: int, order: int) -> tuple[np.uint64, int]:
    """A key of one number, moved by one token, and how many tokens there are since the last one that interrupts."""
    mask = (np.uint64(1) << np.uint64(min(bits * order, 63))) - np.uint64(1)
    return (window << np.uint64(bits) | np.uint64(token)) & mask, (run + 1) * (token >= 0)


@inlined
def _write_key(
    window: np.uint64, run: int, ids: Ids, end: int, order: int, bits: int, keys: Hashes, row: int
) -> None:
    """Write the key of the window that ends here, if there is one; `window` is its key if that is one number."""
    if keys.shape[1] == 1:  # the usual case
        keys[np.uint64(row), 0] = window
    elif run >= order:
        pack(ids, end + 1 - order, order, bits, keys, row)


@inlined
def _cell(keys: Hashes, row: int, shift: int) -> np.uint64:
    """The cell of a window: the upper bits of a product, which is all the hash it needs."""
    hashed = keys[np.uint64(row), 0] * GOLDEN
    for word in range(1, keys.shape[1]):
        hashed = (hashed ^ keys[row, word]) * GOLDEN
    return np.uint64(hashed >> np.uint64(shift))


@kernel
def _bound_windows(
    ids: Ids, order: int, bits: int, words: int, cells: Cells, shift: int, most: int
) -> None:
    """Count every window in its cell, up to `most`. There is no branch to guess, here and in `keys_reaching`."""
    key, window, run = np.zeros((1, words), np.uint64), np.uint64(0), 0
    for end in range(ids.size):
        window, run = _moved(window, run, ids[end], bits, order)
        _write_key(window, run, ids, end, order, bits, key, 0)
        cell = _cell(key, 0, shift)
        cells[cell] += (run >= order) & (cells[cell] < most)


def _add_cells(cells: Cells, more: Cells) -> None:
    """Add counts to cells, up to the most that these can hold; `more` is used up."""
    np.invert(cells, out=cells)  # what there is room for
    np.minimum(more, cells, out=more)
    np.invert(cells, out=cells)
    np.add(cells, more, out=cells)


def _how_full(cells: Cells, most: int) -> Integers:
    """How many cells have each count, from 0 to `most`."""
    found = np.zeros(most + 1, np.int64)
    for first in range(0, cells.size, SLOTS_AT_ONCE):
        found += np.bincount(cells[first : first + SLOTS_AT_ONCE], minlength=most + 1)
    return found


@kernel
def keys_reaching(
    ids: Ids, order: int, bits: int, words: int, cells: Cells, shift: int, at_least: int
) -> tuple[Hashes, Ids]:
    """The keys of all windows whose cells reach a count, and where the windows end."""
    keys, ends = np.empty((ids.size + 1, words), np.uint64), np.empty(ids.size + 1, np.int32)
    window, run, size = np.uint64(0), 0, 0
    for end in range(ids.size):
        window, run = _moved(window, run, ids[end], bits, order)
        _write_key(window, run, ids, end, order, bits, keys, size)
        ends[np.uint64(size)] = end
        size += (run >= order) & (cells[_cell(keys, size, shift)] >= at_least)
    return keys[:size], ends[:size]


@kernel
def _count_keys(keys: Hashes, slots: Slots, part: int, parts: int) -> int:
    """Count the keys of one part; how many were new."""
    rows, places = np.empty(AHEAD, np.int64), np.empty(AHEAD, np.uint64)
    last = np.uint64(slots.shape[0] - 1)
    new = waiting = 0
    for row in range(keys.shape[0]):
        hashed = hash_key(keys, row, keys.shape[1])
        rows[waiting], places[waiting] = row, hashed & last
        waiting += _in_part(hashed, part, parts)
        if waiting == AHEAD or row == keys.shape[0] - 1:
            for at in range(waiting):
                prefetch(slots, places[at])
            for at in range(waiting):
                new += add_key(keys, rows[at], places[at], 1, slots)
            waiting = 0
    return new


@kernel
def _add_windows(
    rows: Ids, counts: Integers, bits: int, slots: Slots, part: int, parts: int
) -> int:
    """Add the windows of one part that were counted before; how many were new."""
    key = np.empty((1, slots.shape[1] - 1), np.uint64)
    last = np.uint64(slots.shape[0] - 1)
    new = 0
    for row in range(counts.size):
        pack(rows[row], 0, rows.shape[1], bits, key, 0)
        hashed = hash_key(key, 0, key.size)
        if _in_part(hashed, part, parts):
            new += add_key(key, 0, hashed & last, counts[row], slots)
    return new


def entries_of(slots: Slots, order: int, bits: int, at_least: int) -> tuple[Ids, Integers]:
    """The windows with this count or more, and their counts."""
    entries = slots[slots[:, -1] >= at_least]
    rows, mask = np.empty((len(entries), order), np.int32), np.uint64((1 << bits) - 1)
    for at, (word, shift) in enumerate(_places(order, bits)):
        rows[:, at] = entries[:, word] >> np.uint64(shift) & mask
    return rows, entries[:, -1].astype(np.int64)


def _places(order: int, bits: int) -> Iterator[tuple[int, int]]:
    """For each token of a window: which 64-bit number of its key holds it, and how far left it stands there."""
    per_word = 64 // bits
    for at in range(order):
        word = at // per_word
        yield word, (min(order, (word + 1) * per_word) - 1 - at) * bits


def _how_often(slots: Slots, most: int) -> Integers:
    """How many windows have each count, up to `most` or more."""
    found = np.zeros(most + 1, np.int64)
    for first in range(0, len(slots), SLOTS_AT_ONCE):
        counts = np.minimum(slots[first : first + SLOTS_AT_ONCE, -1], np.uint64(most)).astype(
            np.int64
        )
        found += np.bincount(counts, minlength=most + 1)
    return found


def count_reached_by(parts: Sequence[Slots], size: int) -> int:
    """A count that `size` windows reach, if so many have one: the highest such, but for very high ones."""
    numbers = np.sum([_how_often(slots, 1 << 16) for slots in parts], axis=0)
    reached = np.cumsum(numbers[:0:-1])[::-1]  # how many have 1 or more, 2 or more ...
    return max(int(np.count_nonzero(reached >= size)), 1)


@kernel
def _partitioned(
    slots: Slots, order: int, bits: int, buckets: int
) -> tuple[Integers, Ids, Integers]:
    """All windows and their counts in order of buckets, and where each bucket begins and ends."""
    words = slots.shape[1] - 1
    chosen, edges = np.empty(slots.shape[0], np.uint16), np.zeros(buckets + 1, np.int64)
    for place in range(slots.shape[0]):
        if slots[place, words]:
            hashed = hash_key(slots, place, words)
            chosen[place] = (hashed >> np.uint64(32) & np.uint64(0xFFFF)) * np.uint64(
                buckets
            ) >> np.uint64(16)
            edges[chosen[place] + 1] += 1
    edges = np.cumsum(edges)
    rows, counts, fill = (
        np.empty((edges[-1], order), np.int32),
        np.empty(edges[-1], np.int64),
        edges.copy(),
    )
    for place in range(slots.shape[0]):
        if slots[place, words]:
            at = fill[chosen[place]]
            fill[chosen[place]] += 1
            _unpack(slots, place, bits, rows, at)
            counts[at] = np.int64(slots[place, words])
    return edges, rows, counts


class CountMinSketch:
    """No window occurs more often than its bound says. Every core counts some streams in cells of its own.

    With about as many `cells` as there are windows, or a few times less, most bounds are close. A cell counts up to
    `most`: 255, or 65535 if it is deep.
    """

    def __init__(
        self, order: int, *, tokens: int, cells: int, deep: bool = False, cores: int = CORES
    ) -> None:
        self._order, self._bits = order, bits_of(tokens)
        self.shift = 64 - max(
            (cells - 1).bit_length(), 1
        )  # as many cells as upper bits of a hash can number
        size = 1 << 64 - self.shift
        self._cells: list[Cells] = [
            np.zeros(size, np.uint16) if deep else np.zeros(size, np.uint8) for _ in range(cores)
        ]
        self.most = int(np.iinfo(self._cells[0].dtype).max)

    @classmethod
    def none(cls) -> "CountMinSketch":
        """Any window may occur any number of times."""
        bounds = cls(1, tokens=0, cells=1, cores=1)
        bounds.cells[:] = bounds.most
        return bounds

    @property
    def cells(self) -> Cells:
        """How often the windows of a cell occur together, up to `most`."""
        while len(self._cells) > 1:
            _add_cells(self._cells[0], self._cells.pop())
        return self._cells[0]

    def add(self, streams: Sequence[Ids]) -> None:
        """Count the windows of streams of numbers; what is below 0 interrupts a window."""
        words, cores = words_of(self._order, self._bits), len(self._cells)

        def count(core: int) -> None:
            for ids in streams[core::cores]:
                _bound_windows(
                    ids, self._order, self._bits, words, self._cells[core], self.shift, self.most
                )

        parallel_map(count, range(cores), cores=cores)

    def likely_count(self, size: int) -> int:
        """A count that `size` windows very likely reach: what as many cells do, less what others add to a cell."""
        full = _how_full(self.cells, self.most)
        reached = np.cumsum(full[:0:-1])[::-1]
        others = (
            full @ np.arange(full.size) / self.cells.size
        )  # on average, and give or take its root
        return max(int(np.count_nonzero(reached >= size) - others - np.sqrt(others)), 1)


class WindowTable:
    """Counts of distinct windows of `order` numbers below `tokens`. Every core counts the windows of its own part."""

    def __init__(self, order: int, *, tokens: int, cores: int = CORES) -> None:
        self.order, self._bits, self._cores = order, bits_of(tokens), cores
        self._parts = [no_slots(order, self._bits) for _ in range(cores)]
        self._sizes = [0] * cores

    def __len__(self) -> int:
        return sum(self._sizes)

    @property
    def largest_size(self) -> int:
        """Bytes at the worst: a table that has just grown is a third full."""
        return 3 * len(self) * int(self._parts[0][0].nbytes)

    def add(self, streams: Sequence[Ids], bounds: CountMinSketch, *, at_least: int = 1) -> None:
        """Count the windows of streams whose bounds reach a count; what is below 0 interrupts a window."""
        keys_like = self.order, self._bits, words_of(self.order, self._bits)
        asked = bounds.cells, bounds.shift, min(at_least, bounds.most)
        keys = parallel_map(
            lambda ids: keys_reaching(ids, *keys_like, *asked), streams, cores=self._cores
        )

        def count(part: int) -> None:
            for some, _ in keys:
                self._reserve(part, len(some))
                self._sizes[part] += _count_keys(some, self._parts[part], part, self._cores)

        parallel_map(count, range(self._cores), cores=self._cores)

    def merge(self, rows: Ids, counts: Integers) -> None:
        """Add windows that were counted before."""

        def add(part: int) -> None:
            for first in range(0, len(rows), BATCH_SIZE):
                some = slice(first, first + BATCH_SIZE)
                self._reserve(part, len(rows[some]))
                arguments = self._bits, self._parts[part], part, self._cores
                self._sizes[part] += _add_windows(rows[some], counts[some], *arguments)

        parallel_map(add, range(self._cores), cores=self._cores)

    def entries(self, *, at_least: int = 1) -> Iterator[tuple[Ids, Integers]]:
        """The windows with this count or more, and their counts, in any order, some at a time."""
        for slots in self._parts:
            for first in range(0, len(slots), SLOTS_AT_ONCE):
                yield entries_of(
                    slots[first : first + SLOTS_AT_ONCE], self.order, self._bits, at_least
                )

    def partitioned(self, buckets: int) -> Iterator[tuple[Integers, Ids, Integers]]:
        """All windows and their counts in order of buckets, and the edges of the buckets, a part at a time."""
        for slots in self._parts:
            yield _partitioned(slots, self.order, self._bits, buckets)

    def count_reached_by(self, size: int) -> int:
        """A count that `size` windows reach, if so many have one: the highest such, but for very high ones."""
        return count_reached_by(self._parts, size)

    def clear(self) -> None:
        """Forget all windows, but keep the room."""
        for slots in self._parts:
            slots[:] = 0
        self._sizes = [0] * self._cores

    def with_keys_for(self, tokens: int) -> "WindowTable":
        """The same table; or a new one with its counts, where more tokens need wider keys."""
        if bits_of(tokens) == self._bits:
            return self
        wide = WindowTable(self.order, tokens=tokens, cores=self._cores)
        for rows, counts in self.entries():
            wide.merge(rows, counts)
        return wide

    def _reserve(self, part: int, more: int) -> None:
        self._parts[part] = with_capacity(self._parts[part], self._sizes[part] + more)


def bits_of(tokens: int) -> int:
    """Bits of a token number in a key."""
    return WIDE if tokens >> NARROW else NARROW


def no_slots(order: int, bits: int) -> Slots:
    """An empty table for keys of so many tokens."""
    return np.zeros((1 << 9, words_of(order, bits) + 1), np.uint64)


def words_of(order: int, bits: int) -> int:
    """64-bit numbers that hold a key."""
    return -(-order // (64 // bits))


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
        keys = np.sort(
            np.concatenate(
                [np.zeros(0, np.uint64), *(_keys_in(ids, order, self._bits) for ids in streams)]
            )
        )
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
            self._size = _number_rows(
                rows[some], self._bits, self._slots, self._size, numbers[some]
            )
        return numbers

    def rows(self) -> Ids:
        """All windows; row number = number."""
        rows, numbers = entries_of(self._slots, self.order, self._bits, 1)
        ordered: Ids = np.empty_like(rows)
        ordered[numbers - 1] = rows
        return ordered


@kernel
def _find_keys(
    keys: Hashes, places: Ids, ends: Integers, owners: Ids, listed: Ids, slots: Slots
) -> tuple[Ids, Ids]:
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
            marks[places[first + row]] = (
                slots[slot_of(keys, first + row, first_slots[row], slots), words] > 0
            )
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
        self._bounds = CountMinSketch(
            self.order, tokens=tokens, cells=CELLS_PER_ROW * len(rows), cores=1
        )
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
