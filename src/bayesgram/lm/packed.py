"""The words of a model: distinct byte strings in byte order, numbered by their rows.

In:  byte strings end to end.   Out: their numbers, and the range of those that begin with a prefix.
What is stored can be memory-mapped. The table that finds words is made when some are asked for: eight bytes a word, and
a few milliseconds for a hundred thousand. Does not know what a word means.

The n-grams of a model as bits, the way they are stored, mapped into memory and searched.

In:  word numbers, children and values of every order.   Out: `Packed`, and the same numbers back.
Each order has the last words of its n-grams, which are searched, and beside them as many records: log10 p, log10 of
the back-off weight, and where the children begin; all without gaps. A word takes as many bits as the largest number
needs. Values are single-precision numbers (32 bits) or
numbers in a codebook of the order (fewer); those of single words are always exact. Children are counted from a base
that 64 neighbours share. The words of order 1 are their places, and the longest n-grams have no back-off and no
children. Orders that have children end with one more record, for where the last children end. Nothing says which
n-gram is the suffix of another: `search` finds it.
"""

from bisect import bisect_left
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import NamedTuple, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from bayesgram.arrays import Bytes, Ids, Integers, Singles
from bayesgram.errors import BayesgramError
from bayesgram.kernels import kernel, read_uint64, signed
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
        if not (
            ends.size
            and ends[0] == 0
            and ends[-1] == self.data.size
            and (ends[1:] >= ends[:-1]).all()
        ):
            return False
        texts = pa.Array.from_buffers(
            pa.large_string(),
            len(self),
            [None, pa.py_buffer(ends), pa.py_buffer(np.ascontiguousarray(self.data))],
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
def _compare(
    data: Bytes, start: int, end: int, other: Bytes, other_start: int, other_end: int
) -> int:
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
        first, second = string_key(
            known, signed(known_ends[number]), signed(known_ends[number + 1])
        )
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
def _find_words(
    data: Bytes, ends: Integers | Ids, known: Bytes, known_ends: Integers | Ends, slots: Ids
) -> Ids:
    """Some at a time: first where the search for each begins, then the search, which waits for none of that."""
    numbers = np.empty(ends.size - 1, np.int32)
    keys, places = np.empty((BATCH_SIZE, 2), np.uint64), np.empty(BATCH_SIZE, np.int64)
    for begin in range(0, numbers.size, BATCH_SIZE):
        count = min(BATCH_SIZE, numbers.size - begin)
        for at in range(count):
            first, second = string_key(data, signed(ends[begin + at]), signed(ends[begin + at + 1]))
            keys[at, 0], keys[at, 1], places[at] = (
                first,
                second,
                _slot(key_hash(first, second), slots.size),
            )
        for at in range(count):
            start, end = signed(ends[begin + at]), signed(ends[begin + at + 1])
            first, second, place = keys[at, 0], keys[at, 1], places[at]
            while slots[place] >= 0:
                begun, ended = (
                    signed(known_ends[slots[place]]),
                    signed(known_ends[slots[place] + 1]),
                )
                if ended - begun == end - start:
                    known_first, known_second = string_key(known, begun, ended)
                    same = known_first == first and known_second == second
                    if same and (
                        second < LONG or _compare(data, start, end, known, begun, ended) == 0
                    ):
                        break
                place = place + 1 if place + 1 < slots.size else 0
            numbers[begin + at] = slots[place]
    return numbers


@kernel
def prefix_range(
    prefix: Bytes,
    start: int,
    end: int,
    known: Bytes,
    known_ends: Integers | Ends,
    low: int,
    high: int,
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


Codes: TypeAlias = NDArray[np.uint32]

EXACT = 32  # bits of a value that is the number itself
BLOCK = 64  # neighbours whose children are counted from one base
MOST_BACKOFF = 50.0  # log10: of real weights none has 20, and five of these are still a number
AT_ONCE = 1 << 15  # fields that are unpacked together: they stay in the processor's cache
PADDING = 8  # bytes after the last record: a field is read as part of eight bytes

# What a row of `Packed.layout` says of an order
(
    WORDS,
    WORD_BITS,
    PACKED_START,
    RECORD,
    VALUE_BITS,
    BACKOFF,
    BACKOFF_BITS,
    CHILD,
    CHILD_BITS,
    BASE,
    VALUE_BOOK,
    BACKOFF_BOOK,
) = range(12)


class Packed(NamedTuple):
    """What kernels search."""

    level_starts: (
        Integers  # nodes of order k: level_starts[k] to level_starts[k + 1]; order 0 is the root
    )
    layout: Integers  # a row for each order from 0, of which the first says nothing
    records: Bytes
    bases: Codes
    codebooks: Singles  # one after the other
    special: Ids  # the numbers of <s>, </s> and <unk>
    ranked: Ids  # the likeliest words, best first
    large: Ids  # contexts with many children, ascending
    likeliest: Ids  # a row for each of these: the places of its likeliest children, best first


@dataclass(frozen=True)
class Layout:
    """How wide everything is: what it takes to find a record."""

    sizes: tuple[int, ...]  # n-grams of each order, from 1
    value_bits: int  # of log10 p, from order 2 on
    backoff_bits: int  # of log10 back-off weights, from order 2 on
    child_bits: tuple[int, ...]  # of each order but the longest

    @property
    def order(self) -> int:
        """The number of words in the longest n-grams."""
        return len(self.sizes)

    @property
    def level_starts(self) -> Integers:
        """Where the nodes of each order begin, the root first; and where they end."""
        return np.concatenate([[0], np.cumsum([1, *self.sizes])]).astype(np.int64)

    def rows(self) -> Integers:
        """What kernels need to know."""
        word_bits = bits_for(self.sizes[0] - 1)
        rows = np.zeros((self.order + 1, 12), np.int64)
        start = base = book = 0
        for order, size in enumerate(self.sizes, start=1):
            row, longest, words = rows[order], order == self.order, order == 1
            row[WORDS], row[BASE] = start, base
            row[WORD_BITS] = 0 if words else word_bits
            row[VALUE_BITS] = EXACT if words else self.value_bits
            row[BACKOFF_BITS] = 0 if longest else EXACT if words else self.backoff_bits
            row[CHILD_BITS] = 0 if longest else self.child_bits[order - 1]
            row[PACKED_START] = start + _whole_bytes(row[WORD_BITS] * size)
            row[BACKOFF] = row[VALUE_BITS]
            row[CHILD] = row[BACKOFF] + row[BACKOFF_BITS]
            row[RECORD] = row[CHILD] + row[CHILD_BITS]
            row[VALUE_BOOK] = book
            book += 0 if row[VALUE_BITS] == EXACT else 1 << row[VALUE_BITS]
            row[BACKOFF_BOOK] = book
            book += 0 if row[BACKOFF_BITS] in (0, EXACT) else 1 << row[BACKOFF_BITS]
            start = row[PACKED_START] + _whole_bytes(row[RECORD] * (size + (not longest)))
            base += 0 if longest else size // BLOCK + 1
        rows[0, [WORDS, BASE, VALUE_BOOK]] = start, base, book  # how much there is in all
        return rows

    def value_books(self) -> list[int]:
        """Where the codebooks of probabilities begin."""
        rows = self.rows()[1:]
        return [int(row[VALUE_BOOK]) for row in rows if row[VALUE_BITS] != EXACT]

    def array_sizes(self) -> tuple[int, int, int]:
        """Bytes of records, number of bases, number of values in codebooks."""
        bits, bases, values = self.rows()[0, [WORDS, BASE, VALUE_BOOK]].tolist()
        return bits // 8 + PADDING, bases, values


def _whole_bytes(bits: int) -> int:
    """As many bits, or up to seven more."""
    return -(-int(bits) // 8) * 8


def bits_for(number: int) -> int:
    """How many bits it takes to write any number from 0 to this one.

    >>> [bits_for(number) for number in (0, 1, 2, 255, 256)]
    [0, 1, 2, 8, 9]
    """
    return int(number).bit_length()


def child_bits(first_child: Integers) -> int:
    """How many bits it takes to say where the children of nodes begin (and the last ones end), from their bases."""
    starts = np.arange(0, first_child.size, BLOCK)
    return bits_for(int((np.maximum.reduceat(first_child, starts) - first_child[starts]).max()))


@dataclass(frozen=True, eq=False)
class Level:
    """The n-grams of one order, unpacked."""

    word: Ids
    values: Codes  # log10 p: places in a codebook, or the bits of single-precision numbers
    backoffs: Codes  # the same; empty for the longest
    first_child: (
        Integers  # places among the next order, and where the last ones end; empty for the longest
    )


def packed_arrays(layout: Layout, levels: list[Level]) -> tuple[Bytes, Codes]:
    """The records and the bases."""
    size, bases_size, _ = layout.array_sizes()
    records, bases = np.zeros(size, np.uint8), np.zeros(bases_size, np.uint32)
    rows = layout.rows()
    for row, level in zip(rows[1:], levels, strict=True):
        pack(row, 0, level.word, level.values, level.backoffs, level.first_child, records, bases)
    return records, bases


def as_codes(values: Singles) -> Codes:
    """Single-precision numbers as their bits."""
    return np.ascontiguousarray(values, np.float32).view(np.uint32)


@kernel
def mask_of(bits: int) -> np.uint64:
    """As many ones."""
    return (np.uint64(1) << np.uint64(bits)) - np.uint64(1)


@kernel
def read_bits(records: Bytes, at: int, mask: np.uint64) -> np.uint64:
    """The field that begins at a bit, of up to 57."""
    return (read_uint64(records, at >> 3) >> np.uint64(at & 7)) & mask


@kernel
def value_at(place: int, row: Integers, records: Bytes, codebooks: Singles) -> float:
    """log10 p of an n-gram."""
    code = read_bits(records, row[PACKED_START] + place * row[RECORD], mask_of(row[VALUE_BITS]))
    return float(
        as_number(code) if row[VALUE_BITS] == EXACT else codebooks[row[VALUE_BOOK] + signed(code)]
    )


@kernel
def backoff_at(place: int, row: Integers, records: Bytes, codebooks: Singles) -> float:
    """log10 of the back-off weight of a context."""
    code = read_bits(
        records, row[PACKED_START] + place * row[RECORD] + row[BACKOFF], mask_of(row[BACKOFF_BITS])
    )
    return float(
        as_number(code)
        if row[BACKOFF_BITS] == EXACT
        else codebooks[row[BACKOFF_BOOK] + signed(code)]
    )


@kernel
def as_number(code: np.uint64) -> np.float32:
    """The number with these 32 bits."""
    return np.uint32(code).view(np.float32)


@kernel
def word_at(place: int, row: Integers, records: Bytes) -> int:
    """The last word of an n-gram of order 2 or more."""
    return signed(read_bits(records, row[WORDS] + place * row[WORD_BITS], mask_of(row[WORD_BITS])))


@kernel
def first_child_at(place: int, row: Integers, records: Bytes, bases: Codes) -> int:
    """Where the children of a context begin among the next order; those of the one before end there."""
    field = read_bits(
        records, row[PACKED_START] + place * row[RECORD] + row[CHILD], mask_of(row[CHILD_BITS])
    )
    return signed(bases[row[BASE] + place // BLOCK]) + signed(field)


def _put_fields(
    records: Bytes, first: int, distance: int, bits: int, values: Integers | Ids | Codes
) -> None:
    """Write fields at equal distances into bits that are 0, or that hold the same already.

    Every eighth begins at the same bit of its byte, `distance` bytes after the last: so they are written together.
    """
    for phase in range(8 if bits else 0):
        begin, some = int(first) + phase * int(distance), values[phase::8].astype(np.uint64)
        shift = begin & 7
        for byte in range((shift + int(bits) + 7) // 8):
            bits_there = (some << np.uint64(shift)) >> np.uint64(8 * byte)
            records[(begin >> 3) + byte :: distance][: some.size] |= bits_there.astype(
                np.uint8
            )  # its lowest byte


def pack(
    row: Integers,
    start: int,
    word: Ids,
    values: Codes,
    backoffs: Codes,
    first_child: Integers,
    records: Bytes,
    bases: Codes,
) -> None:
    """Write n-grams of an order from one place on; where children begin is said of one place more, the next or last."""
    field = row[PACKED_START] + start * row[RECORD]
    _put_fields(records, row[WORDS] + start * row[WORD_BITS], row[WORD_BITS], row[WORD_BITS], word)
    _put_fields(records, field, row[RECORD], row[VALUE_BITS], values)
    _put_fields(
        records,
        field + row[BACKOFF],
        row[RECORD],
        row[BACKOFF_BITS] if backoffs.size else 0,
        backoffs,
    )
    places = start + np.arange(first_child.size)
    base, begins = row[BASE] + places // BLOCK, places % BLOCK == 0
    bases[base[begins]] = first_child[begins]
    _put_fields(
        records, field + row[CHILD], row[RECORD], row[CHILD_BITS], first_child - bases[base]
    )


def _fields(records: Bytes, first: int, distance: int, bits: int, size: int) -> Codes:
    """Fields of up to 32 bits at equal distances, all of them: `read_bits`, without a kernel that must be loaded."""
    found, mask = np.empty(size, np.uint32), np.uint64((1 << int(bits)) - 1)
    eights: NDArray[np.uint64] = np.ndarray(
        records.size - PADDING + 1, "<u8", records, strides=(1,)
    )
    for start in range(0, size, AT_ONCE):
        at = int(first) + int(distance) * np.arange(start, min(start + AT_ONCE, size))
        found[start : start + at.size] = (eights[at >> 3] >> (at & 7).astype(np.uint64)) & mask
    return found


def _numbers(codes: Codes, bits: int, codebook: Singles) -> Singles:
    """What codes stand for."""
    return codes.view(np.float32) if bits == EXACT else codebook[codes]


def unpack_words(row: Integers, size: int, records: Bytes) -> Ids:
    """The last word of every n-gram of an order from 2."""
    return _fields(records, row[WORDS], row[WORD_BITS], row[WORD_BITS], size).view(np.int32)


def unpack_values(
    row: Integers, first: int, last: int, records: Bytes, codebooks: Singles
) -> Singles:
    """log10 p of a run of n-grams of an order."""
    begin, bits = row[PACKED_START] + first * row[RECORD], row[VALUE_BITS]
    return _numbers(
        _fields(records, begin, row[RECORD], bits, last - first), bits, codebooks[row[VALUE_BOOK] :]
    )


def unpack_backoffs(row: Integers, size: int, records: Bytes, codebooks: Singles) -> Singles:
    """log10 back-off weight of every n-gram of an order below the longest."""
    begin, bits = row[PACKED_START] + row[BACKOFF], row[BACKOFF_BITS]
    return _numbers(
        _fields(records, begin, row[RECORD], bits, size), bits, codebooks[row[BACKOFF_BOOK] :]
    )


def unpack_children(row: Integers, size: int, records: Bytes, bases: Codes) -> Integers:
    """Where the children of every n-gram of an order begin among the next, and where the last ones end."""
    fields = _fields(
        records, row[PACKED_START] + row[CHILD], row[RECORD], row[CHILD_BITS], size + 1
    )
    return (
        np.repeat(bases[row[BASE] :][: size // BLOCK + 1].astype(np.int64), BLOCK)[: size + 1]
        + fields
    )


def is_consistent(packed: Packed) -> bool:
    """Whether the records lead nowhere outside, words ascend after each context, and exact values are log10 p ≤ 0."""
    sizes, longest = np.diff(packed.level_starts).tolist(), packed.layout.shape[0] - 1
    for order, row in enumerate(packed.layout[1:], start=1):
        if row[VALUE_BITS] == EXACT:
            values = unpack_values(row, 0, sizes[order], packed.records, packed.codebooks)
            if not ((values > -np.inf) & (values <= 0)).all():
                return False
        if order < longest and row[BACKOFF_BITS] == EXACT:
            backoffs = unpack_backoffs(row, sizes[order], packed.records, packed.codebooks)
            if not ((backoffs > -np.inf) & (backoffs <= MOST_BACKOFF)).all():
                return False
        if order < longest and not _children_ascend(order, sizes, packed):
            return False
    return True


def _children_ascend(order: int, sizes: list[int], packed: Packed) -> bool:
    """Whether every context has its own run of the next order, in which words ascend."""
    starts = unpack_children(packed.layout[order], sizes[order], packed.records, packed.bases)
    children = sizes[order + 1]
    if starts[0] != 0 or starts[-1] != children or not (starts[:-1] <= starts[1:]).all():
        return False
    words = unpack_words(packed.layout[order + 1], children, packed.records)
    begins = np.zeros(children + 1, np.bool_)
    begins[starts] = True
    return bool((words < sizes[1]).all() and ((words[:-1] < words[1:]) | begins[1:children]).all())
