"""The words of a model: distinct byte strings in byte order, numbered by their rows.

In:  byte strings end to end.   Out: their numbers, and the range of those that begin with a prefix.
What is stored can be memory-mapped. The table that finds words is made when some are asked for: eight bytes a word, and
a few milliseconds for a hundred thousand. Does not know what a word means.
"""

from bisect import bisect_left
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from bayesgram import kernels
from bayesgram.arrays import Bytes, Ids, Integers
from bayesgram.errors import BayesgramError
from bayesgram.kernels import kernel, signed
from bayesgram.text.strings import LONG, key_hash, string_key

Ends: TypeAlias = NDArray[np.uint32]
MOST_BYTES = 2**32 - 1  # of all words together
BATCH_SIZE = 256  # words that are looked up together


@dataclass(frozen=True, eq=False)
class Words:
    """Distinct byte strings in byte order, end to end; number = row."""

    data: Bytes
    ends: Integers | Ends  # of row i, at i + 1; the first is 0

    def __len__(self) -> int:
        return self.ends.size - 1

    def __getitem__(self, number: int) -> str:
        return self._bytes(number).decode()

    @classmethod
    def narrow(cls, data: Bytes, ends: Integers | Ends) -> "Words":
        """The same words with ends of 32 bits, as models keep them."""
        if data.size > MOST_BYTES:
            raise BayesgramError(
                f"words of {data.size:,} bytes: a model holds {MOST_BYTES:,}; use a smaller vocabulary."
            )
        return cls(data, ends.astype(np.uint32, copy=False))

    def all(self) -> list[bytes]:
        """Every word."""
        whole, ends = self.data.tobytes(), self.ends.tolist()
        return [whole[start:end] for start, end in pairwise(ends)]

    def are_in_order(self) -> bool:
        """Whether these are distinct texts in byte order, so that each of them is found."""
        ends = self.ends.astype(np.int64)
        if not (ends.size and ends[0] == 0 and ends[-1] == self.data.size and (ends[1:] >= ends[:-1]).all()):
            return False
        texts = pa.Array.from_buffers(
            pa.large_string(), len(self), [None, pa.py_buffer(ends), pa.py_buffer(np.ascontiguousarray(self.data))]
        )
        try:
            texts.validate(full=True)
        except pa.ArrowInvalid:
            return False
        ordered = pc.less(texts[:-1].cast(pa.large_binary()), texts[1:].cast(pa.large_binary()))
        return bool(pc.all(ordered, min_count=0).as_py())

    @cached_property
    def _slots(self) -> Ids:
        slots: Ids = _fill_slots(self.data, self.ends)
        return slots

    def find(self, data: Bytes, ends: Integers | Ids) -> Ids:
        """The numbers of these strings; −1 where they are not known."""
        if kernels.interpreted():  # there are few of them: not worth a table
            whole, bounds = data.tobytes(), ends.tolist()
            return np.array([self.number(whole[start:end]) for start, end in pairwise(bounds)], np.int32)
        numbers: Ids = _find_words(data, ends, self.data, self.ends, self._slots)
        return numbers

    def number(self, word: bytes) -> int:
        """That of one string, by halving: no table is made."""
        place = bisect_left(range(len(self)), word, key=self._bytes)
        return place if place < len(self) and self._bytes(place) == word else -1

    def _bytes(self, number: int) -> bytes:
        return bytes(self.data.data[int(self.ends[number]) : int(self.ends[number + 1])])

    def starting_with(self, prefix: str) -> tuple[int, int]:
        """The words that begin so: a range of numbers."""
        given = np.frombuffer(prefix.encode(), np.uint8)
        low, high = prefix_range(given, 0, given.size, self.data, self.ends, 0, len(self))
        return int(low), int(high)


@kernel
def _compare(data: Bytes, start: int, end: int, other: Bytes, other_start: int, other_end: int) -> int:
    """Byte order: −1, 0 or 1."""
    for at in range(min(end - start, other_end - other_start)):
        if data[start + at] != other[other_start + at]:
            return -1 if data[start + at] < other[other_start + at] else 1
    if end - start == other_end - other_start:
        return 0
    return -1 if end - start < other_end - other_start else 1


@kernel
def _fill_slots(known: Bytes, known_ends: Integers | Ends) -> Ids:
    """A hash table of word numbers, half full; −1 is empty."""
    slots = np.full(2 * known_ends.size, -1, np.int32)
    for number in range(known_ends.size - 1):
        first, second = string_key(known, signed(known_ends[number]), signed(known_ends[number + 1]))
        place = _slot(key_hash(first, second), slots.size)
        while slots[place] >= 0:
            place = place + 1 if place + 1 < slots.size else 0
        slots[place] = number
    return slots


@kernel
def _slot(hashed: np.uint64, slots: int) -> int:
    """Where the search for a hash begins: its upper half, scaled to the table."""
    return signed(((hashed >> np.uint64(32)) * np.uint64(slots)) >> np.uint64(32))


@kernel
def _find_words(data: Bytes, ends: Integers | Ids, known: Bytes, known_ends: Integers | Ends, slots: Ids) -> Ids:
    """Some at a time: first where the search for each begins, then the search, which waits for none of that."""
    numbers = np.empty(ends.size - 1, np.int32)
    keys, places = np.empty((BATCH_SIZE, 2), np.uint64), np.empty(BATCH_SIZE, np.int64)
    for begin in range(0, numbers.size, BATCH_SIZE):
        count = min(BATCH_SIZE, numbers.size - begin)
        for at in range(count):
            first, second = string_key(data, signed(ends[begin + at]), signed(ends[begin + at + 1]))
            keys[at, 0], keys[at, 1], places[at] = first, second, _slot(key_hash(first, second), slots.size)
        for at in range(count):
            start, end = signed(ends[begin + at]), signed(ends[begin + at + 1])
            first, second, place = keys[at, 0], keys[at, 1], places[at]
            while slots[place] >= 0:
                begun, ended = signed(known_ends[slots[place]]), signed(known_ends[slots[place] + 1])
                if ended - begun == end - start:
                    known_first, known_second = string_key(known, begun, ended)
                    same = known_first == first and known_second == second
                    if same and (second < LONG or _compare(data, start, end, known, begun, ended) == 0):
                        break
                place = place + 1 if place + 1 < slots.size else 0
            numbers[begin + at] = slots[place]
    return numbers


@kernel
def prefix_range(
    prefix: Bytes, start: int, end: int, known: Bytes, known_ends: Integers | Ends, low: int, high: int
) -> tuple[int, int]:
    """The words in [low, high) that begin with prefix[start:end]."""
    found_low, found_high = low, high
    for side in range(2):
        first, last = low, high
        while first < last:
            middle = (first + last) // 2
            begun = signed(known_ends[middle])
            cut = min(signed(known_ends[middle + 1]), begun + end - start)
            order = _compare(known, begun, cut, prefix, start, end)
            if order < 0 or (order == 0 and side == 1):
                first = middle + 1
            else:
                last = middle
        if side == 0:
            found_low = first
        else:
            found_high = first
    return found_low, found_high
