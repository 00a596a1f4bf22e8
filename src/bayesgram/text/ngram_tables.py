"""Count and find windows of token numbers (n-grams), exactly.

A window of `order` token numbers is packed into one or more 64-bit words, so it is its own key. The
tables here do not know what a token is. A token number below 0 in a stream ends a sentence: no
window crosses it.

- `WindowTable` counts windows of any number of streams in a hash table.
- `CountMinSketch` bounds their counts first. Most windows of real text occur once or twice, and a
  table of them all is far larger than the processor's cache. In the sketch windows share a cell by
  their hash, and a cell is never below the count of any of its windows. Only windows whose cell
  reaches the count that is asked for need a place in the table, where their counts are exact.
- `SortedWindows` counts the windows of short text by sorting. NumPy sorts a million keys in the
  time that kernels take to hash them, and nothing is compiled for it: the first vocabulary that
  somebody makes is there two seconds sooner. Of more text most windows are rare, and to leave those
  out, as the sketch does, is faster.
- `WindowIndex` finds the windows of a list in streams; `WindowNumbers` numbers new windows.
"""

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain

import numpy as np
from numpy.typing import NDArray

from bayesgram.arrays import Bools, Bytes, Hashes, Ids, Integers
from bayesgram.cores import CORES, parallel_map
from bayesgram.kernels import inlined, kernel, signed
from bayesgram.text.strings import BATCH_SIZE, Slots, grow_slots, hash_key, spread

Cells = Bytes | NDArray[np.uint16]

# Bits of a token number in a key: few as long as there are less than two million tokens.
NARROW = 21
WIDE = 32
PER_WORD = 64 // NARROW
PER_WORD_WIDE = 64 // WIDE

MOST_TOKENS = 1 << 21  # of text whose windows are sorted; see the module's docstring
# Windows that a core counts beside the table, in its cache; chosen from 2^12 to 2^17.
RECENT_BITS = 15
RECENT_WINDOWS = 1 << RECENT_BITS
CELLS_PER_PART = 1 << 19  # of a sketch, which stay in a processor's cache while they are counted
SLOTS_AT_ONCE = 1 << 20  # slots that are looked through for entries at once; not measured
CELLS_PER_ROW = 8  # cells of the sketch of a `WindowIndex`, for each window; not measured
GOLDEN = np.uint64(0x9E3779B97F4A7C15)  # an odd number without a pattern: 2⁶⁴ over the golden ratio


# --- Keys ---


def token_bits(tokens: int) -> int:
    """Return how many bits of a key hold a token number below `tokens`."""
    return WIDE if tokens >> NARROW else NARROW


def key_words(order: int, bits: int) -> int:
    """Return how many 64-bit words hold the key of a window."""
    return -(-order // (64 // bits))


def empty_slots(order: int, bits: int) -> Slots:
    """Return an empty hash table for windows of `order` tokens."""
    return np.zeros((1 << 9, key_words(order, bits) + 1), np.uint64)


def pack_keys(rows: Ids, bits: int) -> Hashes:
    """Return the keys of windows, one in each row, whose keys are one word."""
    keys = np.zeros(len(rows), np.uint64)
    for column in rows.T:
        keys = keys << np.uint64(bits) | column.astype(np.uint64)
    return keys


@inlined
def pack(ids: Ids, start: int, order: int, bits: int, keys: Hashes, row: int) -> None:
    """Write the window of ids[start : start + order] as the key keys[row]."""
    at = start
    stop = start + order
    word = 0
    while at < stop:
        value = np.uint64(0)
        end = min(at + (PER_WORD if bits == NARROW else PER_WORD_WIDE), stop)
        while at < end:
            value = value << np.uint64(bits) | np.uint64(ids[at])
            at += 1
        keys[row, word] = value
        word += 1


@inlined
def _unpack(slots: Slots, slot: int, bits: int, rows: Ids, row: int) -> None:
    """Write the token numbers of a slot's key to rows[row]."""
    order = rows.shape[1]
    per_word = PER_WORD if bits == NARROW else PER_WORD_WIDE
    mask = (np.uint64(1) << np.uint64(bits)) - np.uint64(1)
    for word in range(slots.shape[1] - 1):
        value = slots[slot, word]
        for at in range(min(order, (word + 1) * per_word) - 1, word * per_word - 1, -1):
            rows[row, at] = np.int64(value & mask)
            value >>= np.uint64(bits)


@kernel
def _shift_window(
    window: np.uint64, run: int, token: int, bits: int, order: int
) -> tuple[np.uint64, int]:
    """Move a window, whose key is one word, on by one token.

    Returns:
        The key, and how many tokens there are since the last number below 0.
    """
    mask = (np.uint64(1) << np.uint64(min(bits * order, 63))) - np.uint64(1)
    return (window << np.uint64(bits) | np.uint64(token)) & mask, (run + 1) * (token >= 0)


@inlined
def _write_key(
    window: np.uint64, run: int, ids: Ids, end: int, order: int, bits: int, keys: Hashes, row: int
) -> None:
    """Write the key of the window that ends at ids[end], if there is one, to keys[row].

    `window` is this key if keys are one word, which is the usual case.
    """
    if keys.shape[1] == 1:
        keys[np.uint64(row), 0] = window
    elif run >= order:
        pack(ids, end + 1 - order, order, bits, keys, row)


# --- Bounds on counts ---


class CountMinSketch:
    """Upper bounds on the counts of windows: no window occurs more often than its cell says.

    Windows are first put in order of the parts of the cells, each of which stays in the processor's
    cache while its windows are counted. A part is counted by one core, so that all cores share one
    set of cells.

    Args:
        order: Tokens in a window.
        tokens: All token numbers are below this.
        cells: How many cells there are, at least. With about as many as there are windows, or a
            few times less, most bounds are close.
        deep: Whether a cell counts up to 65535, rather than 255.
        cores: How many threads count.
    """

    def __init__(
        self, order: int, *, tokens: int, cells: int, deep: bool = False, cores: int = CORES
    ) -> None:
        self._order = order
        self._bits = token_bits(tokens)
        self._cores = cores
        # The upper bits of a hash are the number of a cell: there are as many as they can number.
        self.shift = 64 - max((cells - 1).bit_length(), 1)
        size = 1 << 64 - self.shift
        self.cells: Cells = np.zeros(size, np.uint16) if deep else np.zeros(size, np.uint8)
        self.most = int(np.iinfo(self.cells.dtype).max)  # the largest count of a cell

    def add(self, streams: Sequence[Ids]) -> None:
        """Count the windows of streams of token numbers."""
        words = key_words(self._order, self._bits)
        parts = max(self.cells.size // CELLS_PER_PART, 1)

        def sort_cells(ids: Ids) -> tuple[NDArray[np.uint32], Integers]:
            cells, _ = _cells_of(ids, self._order, self._bits, words, self.shift)
            return _sort_cells(cells, parts)

        sorted_cells = parallel_map(sort_cells, streams, cores=self._cores)

        def count(part: int) -> None:
            for cells, edges in sorted_cells:
                _count_cells(cells[edges[part] : edges[part + 1]], self.cells, self.most)

        parallel_map(count, range(parts), cores=self._cores)

    def keys_reaching(self, ids: Ids, at_least: int) -> tuple[Hashes, Ids]:
        """Return the keys of all windows whose cells reach a count, and where the windows end.

        The steps are kernels of their own. In one, the place of a key would be known only when the
        cell before has come from main memory, and references would be counted in the loop: it would
        take two to ten times as long.
        """
        words = key_words(self._order, self._bits)
        window_cells, ends = _cells_of(ids, self._order, self._bits, words, self.shift)
        ends = _ends_reaching(window_cells, ends, self.cells, min(at_least, self.most))
        return _keys_of(ids, ends, self._order, self._bits, words), ends

    def likely_count(self, size: int) -> int:
        """Return a count that `size` windows very likely reach.

        As many cells reach it, less what other windows add to a cell: their average, and its root.
        """
        histogram = _cell_histogram(self.cells, self.most)
        reached = np.cumsum(histogram[:0:-1])[::-1]  # cells with 1 or more, 2 or more …
        others = histogram @ np.arange(histogram.size) / self.cells.size
        return max(int(np.count_nonzero(reached >= size) - others - np.sqrt(others)), 1)


@inlined
def _cell_of(keys: Hashes, row: int, words: int, shift: int) -> np.uint64:
    """Return the cell of a key: the upper bits of a product, which is all the hash it needs."""
    hashed = keys[np.uint64(row), 0] * GOLDEN
    for word in range(1, words):
        hashed = (hashed ^ keys[row, word]) * GOLDEN
    return np.uint64(hashed >> np.uint64(shift))


@kernel
def _cells_of(
    ids: Ids, order: int, bits: int, words: int, shift: int
) -> tuple[NDArray[np.uint32], Ids]:
    """Return the cell of every window, and where the window ends.

    There is no branch that the processor could guess wrongly, here and in `_ends_reaching`.
    """
    key = np.zeros((1, words), np.uint64)
    cells = np.empty(ids.size + 1, np.uint32)
    ends = np.empty(ids.size + 1, np.int32)
    window = np.uint64(0)
    run = 0
    size = 0
    for end in range(ids.size):
        window, run = _shift_window(window, run, ids[end], bits, order)
        _write_key(window, run, ids, end, order, bits, key, 0)
        cells[np.uint64(size)] = _cell_of(key, 0, words, shift)
        ends[np.uint64(size)] = end
        size += int(run >= order)
    return cells[:size], ends[:size]


@kernel
def _ends_reaching(window_cells: NDArray[np.uint32], ends: Ids, cells: Cells, at_least: int) -> Ids:
    """Return the ends of the windows whose cells reach a count."""
    reaching = np.empty(ends.size + 1, np.int32)
    size = 0
    for row in range(ends.size):
        reaching[np.uint64(size)] = ends[row]
        size += int(cells[np.uint64(window_cells[row])] >= at_least)
    return reaching[:size]


@kernel
def _all_keys(ids: Ids, order: int, bits: int, words: int) -> Hashes:
    """Return the keys of all windows."""
    keys = np.empty((ids.size + 1, words), np.uint64)
    window = np.uint64(0)
    run = 0
    size = 0
    for end in range(ids.size):
        window, run = _shift_window(window, run, ids[end], bits, order)
        _write_key(window, run, ids, end, order, bits, keys, size)
        size += int(run >= order)
    return keys[:size]


@kernel
def _keys_of(ids: Ids, ends: Ids, order: int, bits: int, words: int) -> Hashes:
    """Return the keys of the windows that end at these places."""
    keys = np.empty((ends.size, words), np.uint64)
    for row in range(ends.size):
        pack(ids, ends[row] + 1 - order, order, bits, keys, row)
    return keys


@kernel
def _sort_cells(cells: NDArray[np.uint32], parts: int) -> tuple[NDArray[np.uint32], Integers]:
    """Return cells in order of their parts, and the edges of these."""
    edges = np.zeros(parts + 1, np.int64)
    for cell in cells:
        edges[np.uint64(cell) // np.uint64(CELLS_PER_PART) + np.uint64(1)] += 1
    for part in range(parts):
        edges[part + 1] += edges[part]
    next_rows = edges.copy()
    ordered = np.empty(cells.size, np.uint32)
    for cell in cells:
        cell_part = np.uint64(cell) // np.uint64(CELLS_PER_PART)
        row = next_rows[cell_part]
        ordered[np.uint64(row)] = cell
        next_rows[cell_part] = row + 1
    return ordered, edges


@kernel
def _count_cells(window_cells: NDArray[np.uint32], cells: Cells, most: int) -> None:
    """Count every window in its cell, up to `most`."""
    for row in range(window_cells.size):
        cell = np.uint64(window_cells[row])
        cells[cell] += cells[cell] < most


def _cell_histogram(cells: Cells, most: int) -> Integers:
    """Return how many cells have each count, from 0 to `most`."""
    histogram = np.zeros(most + 1, np.int64)
    for first in range(0, cells.size, SLOTS_AT_ONCE):
        histogram += np.bincount(cells[first : first + SLOTS_AT_ONCE], minlength=most + 1)
    return histogram


# --- Counts in a hash table ---


class WindowTable:
    """Counts of distinct windows. Every core counts the windows of its own part of the table.

    Args:
        order: Tokens in a window.
        tokens: All token numbers are below this.
        cores: How many threads count.
    """

    def __init__(self, order: int, *, tokens: int, cores: int = CORES) -> None:
        self.order = order
        self._bits = token_bits(tokens)
        self._cores = cores
        self._parts = [empty_slots(order, self._bits) for _ in range(cores)]
        self._sizes = [0] * cores  # windows in each part

    def __len__(self) -> int:
        return sum(self._sizes)

    @property
    def largest_size(self) -> int:
        """Bytes at the worst: a table that has just grown is a third full."""
        return 3 * len(self) * int(self._parts[0][0].nbytes)

    def add(
        self, streams: Sequence[Ids], bounds: CountMinSketch | None = None, *, at_least: int = 1
    ) -> None:
        """Count the windows of streams: all of them, or those whose bounds reach a count."""
        words = key_words(self.order, self._bits)

        def list_keys(ids: Ids) -> Hashes:
            if bounds is None:
                return _all_keys(ids, self.order, self._bits, words)
            return bounds.keys_reaching(ids, at_least)[0]

        def collect(core: int) -> list[tuple[Slots, Integers]]:
            recent = np.zeros((RECENT_WINDOWS, words + 1), np.uint64)
            entries_by_part = []
            for ids in streams[core :: self._cores]:
                entries = _combine_keys(list_keys(ids), recent)
                entries_by_part.append(_sort_by_part(entries, self._cores))
            entries = recent[recent[:, words] > 0]
            return [*entries_by_part, _sort_by_part(entries, self._cores)]

        collected = parallel_map(collect, range(self._cores), cores=self._cores)

        def count(part: int) -> None:
            for entries, edges in chain.from_iterable(collected):
                part_entries = entries[edges[part] : edges[part + 1]]
                self._reserve(part, len(part_entries))
                self._sizes[part] += _add_entries(part_entries, self._parts[part])

        parallel_map(count, range(self._cores), cores=self._cores)

    def merge(self, rows: Ids, counts: Integers) -> None:
        """Add windows that were counted before."""

        def add(part: int) -> None:
            for first in range(0, len(rows), BATCH_SIZE):
                batch = slice(first, first + BATCH_SIZE)
                self._reserve(part, len(rows[batch]))
                self._sizes[part] += _add_windows(
                    rows[batch], counts[batch], self._bits, self._parts[part], part, self._cores
                )

        parallel_map(add, range(self._cores), cores=self._cores)

    def entries(self, *, at_least: int = 1) -> Iterator[tuple[Ids, Integers]]:
        """Yield the windows with this count or more, and their counts, in any order, in batches."""
        for slots in self._parts:
            for first in range(0, len(slots), SLOTS_AT_ONCE):
                yield unpack_entries(
                    slots[first : first + SLOTS_AT_ONCE], self.order, self._bits, at_least
                )

    def partition(self, buckets: int) -> Iterator[tuple[Integers, Ids, Integers]]:
        """Yield (edges of buckets, windows in order of buckets, counts), a part at a time.

        Bucket b has the windows from edges[b] to edges[b + 1]. Equal windows of several tables are
        in the same bucket.
        """
        for slots in self._parts:
            yield _partition(slots, self.order, self._bits, buckets)

    def count_reached_by(self, size: int) -> int:
        """Return a count that `size` windows reach, if so many have one.

        It is the highest such count, but for very high ones (above 2¹⁶).
        """
        return count_reached_by(self._parts, size)

    def clear(self) -> None:
        """Remove all windows, but keep the memory."""
        for slots in self._parts:
            slots[:] = 0
        self._sizes = [0] * self._cores

    def widen_keys(self, tokens: int) -> "WindowTable":
        """Return the same table; or a new one with its counts, if more tokens need wider keys."""
        if token_bits(tokens) == self._bits:
            return self
        wide = WindowTable(self.order, tokens=tokens, cores=self._cores)
        for rows, counts in self.entries():
            wide.merge(rows, counts)
        return wide

    def _reserve(self, part: int, more: int) -> None:
        self._parts[part] = grow_slots(self._parts[part], self._sizes[part] + more)


def unpack_entries(slots: Slots, order: int, bits: int, at_least: int) -> tuple[Ids, Integers]:
    """Return the windows with this count or more, one in each row, and their counts."""
    entries = slots[slots[:, -1] >= at_least]
    rows = np.empty((len(entries), order), np.int32)
    mask = np.uint64((1 << bits) - 1)
    for at, (word, shift) in enumerate(_token_positions(order, bits)):
        rows[:, at] = entries[:, word] >> np.uint64(shift) & mask
    return rows, entries[:, -1].astype(np.int64)


def _token_positions(order: int, bits: int) -> Iterator[tuple[int, int]]:
    """Yield, for each token of a window, the word of the key that holds it, and its shift there."""
    per_word = 64 // bits
    for at in range(order):
        word = at // per_word
        yield word, (min(order, (word + 1) * per_word) - 1 - at) * bits


def count_reached_by(parts: Sequence[Slots], size: int) -> int:
    """Return a count that `size` windows reach; see `WindowTable.count_reached_by`."""
    histogram = np.sum([_count_histogram(slots, 1 << 16) for slots in parts], axis=0)
    reached = np.cumsum(histogram[:0:-1])[::-1]  # windows with 1 or more, 2 or more …
    return max(int(np.count_nonzero(reached >= size)), 1)


def _count_histogram(slots: Slots, most: int) -> Integers:
    """Return how many windows have each count; the last number is that of `most` or more."""
    histogram = np.zeros(most + 1, np.int64)
    for first in range(0, len(slots), SLOTS_AT_ONCE):
        values = slots[first : first + SLOTS_AT_ONCE, -1]
        counts = np.minimum(values, np.uint64(most)).astype(np.int64)
        histogram += np.bincount(counts, minlength=most + 1)
    return histogram


@inlined
def _part_of(keys: Hashes, row: int, words: int, parts: int) -> int:
    """Return the part of a table that a window belongs to, by the hash of its cell."""
    return signed(_cell_of(keys, row, words, 32) * np.uint64(parts) >> np.uint64(32))


@kernel
def _combine_keys(keys: Hashes, recent: Slots) -> Slots:
    """Return keys with how often they come: those that come again soon, only once.

    They are counted in `recent`, which stays in the processor's cache: a slot there holds the last
    key of its hash, and what it held before is returned. What is in `recent` at the end is not.
    """
    words = keys.shape[1]
    entries = np.empty((keys.shape[0] + 1, words + 1), np.uint64)
    size = 0
    for row in range(keys.shape[0]):
        slot = _cell_of(keys, row, words, 64 - RECENT_BITS)
        at = np.uint64(size)
        difference = np.uint64(0)
        for word in range(words):
            difference |= recent[slot, word] ^ keys[row, word]
            entries[at, word] = recent[slot, word]
            recent[slot, word] = keys[row, word]
        count = recent[slot, words]
        entries[at, words] = count
        size += int(difference != 0) & int(count > 0)
        recent[slot, words] = np.uint64(1) + (count if difference == 0 else np.uint64(0))
    return entries[:size]


@kernel
def _sort_by_part(entries: Slots, parts: int) -> tuple[Slots, Integers]:
    """Return windows and their counts in order of the parts, and the edges of these."""
    words = entries.shape[1] - 1
    edges = np.zeros(parts + 1, np.int64)
    for row in range(entries.shape[0]):
        edges[_part_of(entries, row, words, parts) + 1] += 1
    for part in range(parts):
        edges[part + 1] += edges[part]
    next_rows = edges.copy()
    ordered = np.empty(entries.shape, np.uint64)
    for row in range(entries.shape[0]):
        part = _part_of(entries, row, words, parts)
        for column in range(words + 1):
            ordered[next_rows[part], column] = entries[row, column]
        next_rows[part] += 1
    return ordered, edges


@kernel
def _add_entries(entries: Slots, slots: Slots) -> int:
    """Add windows with their counts, and return how many were new."""
    words = slots.shape[1] - 1
    mask = np.uint64(slots.shape[0] - 1)
    new = 0
    if words > 1:
        for row in range(entries.shape[0]):
            slot = hash_key(entries, row, words) & mask
            new += add_to_slot(entries, row, slot, entries[row, words], slots)
        return new
    # Most keys are one word. Without loops over words this takes half the time.
    for row in range(entries.shape[0]):
        key = entries[row, 0]
        slot = spread(key) & mask
        while slots[slot, 1] and slots[slot, 0] != key:
            slot = (slot + np.uint64(1)) & mask
        count = slots[slot, 1]
        slots[slot, 0] = key
        slots[slot, 1] = count + entries[row, 1]
        new += count == 0
    return new


@kernel
def _add_windows(
    rows: Ids, counts: Integers, bits: int, slots: Slots, part: int, parts: int
) -> int:
    """Add the windows of one part that were counted before, and return how many were new."""
    key = np.empty((1, slots.shape[1] - 1), np.uint64)
    mask = np.uint64(slots.shape[0] - 1)
    new = 0
    for row in range(counts.size):
        pack(rows[row], 0, rows.shape[1], bits, key, 0)
        if _part_of(key, 0, key.size, parts) == part:
            slot = hash_key(key, 0, key.size) & mask
            new += add_to_slot(key, 0, slot, counts[row], slots)
    return new


@kernel
def _partition(slots: Slots, order: int, bits: int, buckets: int) -> tuple[Integers, Ids, Integers]:
    """Return the edges of the buckets, and all windows and their counts in order of buckets."""
    words = slots.shape[1] - 1
    chosen = np.empty(slots.shape[0], np.uint16)  # the bucket of each slot's window
    edges = np.zeros(buckets + 1, np.int64)
    for slot in range(slots.shape[0]):
        if slots[slot, words]:
            middle_bits = hash_key(slots, slot, words) >> np.uint64(32) & np.uint64(0xFFFF)
            chosen[slot] = middle_bits * np.uint64(buckets) >> np.uint64(16)
            edges[chosen[slot] + 1] += 1
    edges = np.cumsum(edges)
    rows = np.empty((edges[-1], order), np.int32)
    counts = np.empty(edges[-1], np.int64)
    next_rows = edges.copy()
    for slot in range(slots.shape[0]):
        if slots[slot, words]:
            row = next_rows[chosen[slot]]
            next_rows[chosen[slot]] += 1
            _unpack(slots, slot, bits, rows, row)
            counts[row] = np.int64(slots[slot, words])
    return edges, rows, counts


@inlined
def find_slot(keys: Hashes, row: int, slot: np.uint64, slots: Slots) -> np.uint64:
    """Return the slot of a key, or the empty one where it would be, searching on from `slot`."""
    mask = np.uint64(slots.shape[0] - 1)
    words = slots.shape[1] - 1
    first = keys[row, 0]
    while True:
        if not slots[slot, words]:
            break
        if slots[slot, 0] == first and (words == 1 or _has_same_tail(keys, row, slot, slots)):
            break
        slot = (slot + np.uint64(1)) & mask
    return slot


@inlined
def _has_same_tail(keys: Hashes, row: int, slot: np.uint64, slots: Slots) -> bool:
    """Compare all words of two keys but the first."""
    for word in range(1, slots.shape[1] - 1):
        if slots[slot, word] != keys[row, word]:
            return False
    return True


@inlined
def fill_slot(keys: Hashes, row: int, slot: np.uint64, value: int, slots: Slots) -> None:
    """Write a key and its value to an empty slot."""
    for word in range(keys.shape[1]):
        slots[slot, word] = keys[row, word]
    slots[slot, keys.shape[1]] = value


@inlined
def add_to_slot(keys: Hashes, row: int, slot: np.uint64, number: int, slots: Slots) -> int:
    """Add to the count of a key, searching on from `slot`; return 1 if the key is new."""
    mask = np.uint64(slots.shape[0] - 1)
    words = slots.shape[1] - 1
    first = keys[row, 0]
    new = 0
    while True:
        count = slots[slot, words]
        if not count:
            for word in range(words):
                slots[slot, word] = keys[row, word]
            new = 1
            break
        if slots[slot, 0] == first and (words == 1 or _has_same_tail(keys, row, slot, slots)):
            break
        slot = (slot + np.uint64(1)) & mask
    slots[slot, words] = count + np.uint64(number)
    return new


# --- Counts by sorting ---


def are_sortable(order: int, tokens: int) -> bool:
    """Return whether the key of a window of token numbers below `tokens` is one word."""
    return key_words(order, token_bits(tokens)) == 1


class SortedWindows:
    """Counts of distinct windows of short text: sorted keys, and their counts.

    Args:
        streams: Token numbers.
        order: Tokens in a window.
        tokens: All token numbers are below this.
    """

    def __init__(self, streams: Iterable[Ids], order: int, *, tokens: int) -> None:
        self._order = order
        self._bits = token_bits(tokens)
        keys_of_streams = [_window_keys(ids, order, self._bits) for ids in streams]
        keys = np.sort(np.concatenate([np.zeros(0, np.uint64), *keys_of_streams]))
        first = np.flatnonzero(np.concatenate([[True], keys[1:] != keys[:-1]])[: keys.size])
        counts = np.diff(first, append=keys.size)
        self._slots = np.stack([keys[first], counts.astype(np.uint64)], axis=1)  # key, count

    def __len__(self) -> int:
        return len(self._slots)

    def entries(self, *, at_least: int = 1) -> Iterator[tuple[Ids, Integers]]:
        """Yield the windows with this count or more, and their counts."""
        yield unpack_entries(self._slots, self._order, self._bits, at_least)

    def count_reached_by(self, size: int) -> int:
        """Return a count that `size` windows reach; see `WindowTable.count_reached_by`."""
        return count_reached_by([self._slots], size)

    def counts_of(self, rows: Ids) -> Integers:
        """Return how often windows occur; of windows that are given twice, the second has 0."""
        keys, first = np.unique(pack_keys(rows, self._bits), return_index=True)
        slots = np.searchsorted(self._slots[:, 0], keys)
        is_known = slots < len(self._slots)
        is_known[is_known] = self._slots[slots[is_known], 0] == keys[is_known]
        counts = np.zeros(len(rows), np.int64)
        counts[first[is_known]] = self._slots[slots[is_known], 1]
        return counts


def _window_keys(ids: Ids, order: int, bits: int) -> Hashes:
    """Return the keys of all windows of a stream."""
    if ids.size < order:
        return np.zeros(0, np.uint64)
    windows = np.lib.stride_tricks.sliding_window_view(ids, order)
    is_whole = np.logical_and.reduce([column >= 0 for column in windows.T])
    return pack_keys(windows, bits)[is_whole]


# --- Numbers of windows ---


class WindowIndex:
    """Finds the windows of a list in streams of token numbers.

    Args:
        rows: The windows, one in each row.
        numbers: The number of each; of windows that are there twice, the first one's is found.
        tokens: All token numbers are below this.
    """

    def __init__(self, rows: Ids, numbers: Ids, *, tokens: int) -> None:
        self.order = rows.shape[1]
        self._numbers = numbers
        self._bits = token_bits(tokens)
        self._slots = grow_slots(empty_slots(self.order, self._bits), len(rows))
        self._size = _index_rows(rows, self._bits, self._slots)
        self._bounds = CountMinSketch(
            self.order, tokens=tokens, cells=CELLS_PER_ROW * len(rows), cores=1
        )
        self._bounds.add([np.insert(rows, self.order, -1, axis=1).ravel()])

    def __len__(self) -> int:
        return self._size

    def find(self, ids: Ids, ends: Integers, owners: Ids) -> tuple[Ids, Ids]:
        """Return (owner of the text, number) of every window of the list, in order.

        Args:
            ids: The token numbers of several texts, one after the other.
            ends: Text t is the stream before ends[t].
            owners: A number for each text.
        """
        keys, window_ends = self._bounds.keys_reaching(ids, 1)
        return _find_keys(keys, window_ends, ends, owners, self._numbers, self._slots)

    def marks(self, ids: Ids) -> Bools:
        """Return whether a window of the list ends at each place of a stream."""
        keys, window_ends = self._bounds.keys_reaching(ids, 1)
        return _mark_keys(keys, window_ends, ids.size, self._slots)


@kernel
def _index_rows(rows: Ids, bits: int, slots: Slots) -> int:
    """Store each row's number + 1; of equal rows, the first's. Return how many were stored."""
    key = np.empty((1, slots.shape[1] - 1), np.uint64)
    mask = np.uint64(slots.shape[0] - 1)
    stored = 0
    for row in range(rows.shape[0]):
        pack(rows[row], 0, rows.shape[1], bits, key, 0)
        slot = find_slot(key, 0, hash_key(key, 0, key.size) & mask, slots)
        if not slots[slot, key.size]:
            fill_slot(key, 0, slot, row + 1, slots)
            stored += 1
    return stored


@kernel
def _find_keys(
    keys: Hashes, window_ends: Ids, ends: Integers, owners: Ids, numbers: Ids, slots: Slots
) -> tuple[Ids, Ids]:
    """Return (owner, number) of each key of the list, in order; text t ends before ends[t]."""
    found_owners = np.empty(window_ends.size, np.int32)
    found_numbers = np.empty(window_ends.size, np.int32)
    mask = np.uint64(slots.shape[0] - 1)
    words = slots.shape[1] - 1
    size = 0
    text = 0
    for row in range(window_ends.size):
        slot = find_slot(keys, row, hash_key(keys, row, words) & mask, slots)
        value = slots[slot, words]
        if value:
            while ends[text] <= window_ends[row]:
                text += 1
            found_owners[size] = owners[text]
            found_numbers[size] = numbers[np.int64(value) - 1]
            size += 1
    return found_owners[:size].copy(), found_numbers[:size].copy()


@kernel
def _mark_keys(keys: Hashes, window_ends: Ids, size: int, slots: Slots) -> Bools:
    """Return which of `size` places are the end of a window of the list."""
    marks = np.zeros(size, np.bool_)
    mask = np.uint64(slots.shape[0] - 1)
    words = slots.shape[1] - 1
    for row in range(window_ends.size):
        slot = find_slot(keys, row, hash_key(keys, row, words) & mask, slots)
        marks[window_ends[row]] = slots[slot, words] > 0
    return marks


class WindowNumbers:
    """Numbers for distinct windows, in order of appearance.

    Numbers have 64 bits: there may be more windows than 2³¹.

    Args:
        order: Tokens in a window.
        tokens: All token numbers are below this.
    """

    def __init__(self, order: int, *, tokens: int) -> None:
        self.order = order
        self._bits = token_bits(tokens)
        self._slots = empty_slots(order, self._bits)
        self._size = 0

    def __len__(self) -> int:
        return self._size

    def add(self, rows: Ids) -> Integers:
        """Return the numbers of windows; new ones get the next."""
        numbers = np.empty(len(rows), np.int64)
        for first in range(0, len(rows), BATCH_SIZE):
            batch = slice(first, first + BATCH_SIZE)
            self._slots = grow_slots(self._slots, self._size + len(rows[batch]))
            self._size = _number_rows(
                rows[batch], self._bits, self._slots, self._size, numbers[batch]
            )
        return numbers

    def rows(self) -> Ids:
        """Return all windows; the row number is the window's number."""
        rows, values = unpack_entries(self._slots, self.order, self._bits, 1)
        ordered: Ids = np.empty_like(rows)
        ordered[values - 1] = rows
        return ordered


@kernel
def _number_rows(rows: Ids, bits: int, slots: Slots, size: int, numbers: Integers) -> int:
    """Write each row's number; new ones get the next, from `size` on. Return the new size."""
    key = np.empty((1, slots.shape[1] - 1), np.uint64)
    mask = np.uint64(slots.shape[0] - 1)
    for row in range(rows.shape[0]):
        pack(rows[row], 0, rows.shape[1], bits, key, 0)
        slot = find_slot(key, 0, hash_key(key, 0, key.size) & mask, slots)
        if not slots[slot, key.size]:
            size += 1
            fill_slot(key, 0, slot, size, slots)
        numbers[row] = np.int64(slots[slot, key.size]) - 1
    return size
