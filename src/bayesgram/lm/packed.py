"""The packed arrays of a language model: its words and its n-grams as bits.

This is how a model is stored, mapped into memory and searched. `Words` are distinct byte strings in
byte order; the id of a word is its row. `Layout` says how wide the fields of each order are, and
`PackedTrie` is what kernels search.

Each order has the last words of its n-grams, which are searched, and beside them as many records:
log10 p, log10 of the backoff weight, and where the children begin; all without gaps. A word takes
as many bits as the largest id needs. Values are single-precision numbers (32 bits) or indices into
a codebook of the order (fewer bits); those of single words are always exact. Child offsets are
counted from a base that 64 neighbours share. The words of order 1 are their own places, and the
longest n-grams have no backoff weight and no children. Orders that have children end with one more
record, which says where the last children end. Nothing says which n-gram is the suffix of another:
`search` finds it.

A place is the position of an n-gram within its order; its node is the same counted over all orders.
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
from bayesgram.kernels import kernel, mix, read_uint64, signed
from bayesgram.text.strings import LONG, string_key
from bayesgram.text.tokenizer import buffers

Ends: TypeAlias = NDArray[np.uint32]
Codes: TypeAlias = NDArray[np.uint32]  # indices into a codebook, or the bits of 32-bit floats

MAX_WORD_BYTES = 2**32 - 1  # bytes of all words together, as ends have 32 bits
LOOKUP_BATCH = 256  # words that are looked up together; not measured
FLOAT_BITS = 32  # width of a value that is stored as a single-precision number
BLOCK = 64  # neighbouring n-grams whose child offsets share a base; part of the file format
# Largest log10 of a backoff weight in a model file: real weights stay below 20, and the product of
# five of these is still a finite number.
MAX_LOG_BACKOFF = 50.0
# Fields that are unpacked together: they stay in the processor's cache. Not measured.
UNPACK_BATCH = 1 << 15
PADDING = 8  # bytes after the last record: a field is read as part of eight bytes


# --- Words ---


@dataclass(frozen=True, eq=False)
class Words:
    """Distinct byte strings in byte order, end to end; the id of a word is its row.

    The hash table that finds words is made when it is first needed: eight bytes a word, and a few
    milliseconds for a hundred thousand.

    >>> words = Words.from_array(pa.array([b"fish", b"red", b"rest"], pa.large_binary()))
    >>> len(words), words[1], words.find_one(b"rest"), words.find_one(b"blue")
    (3, 'red', 2, -1)
    >>> words.prefix_id_range("re")
    (1, 3)
    """

    data: Bytes
    ends: Integers | Ends  # row i ends at ends[i + 1]; ends[0] is 0

    def __len__(self) -> int:
        return self.ends.size - 1

    def __getitem__(self, word_id: int) -> str:
        return self._bytes(word_id).decode()

    @classmethod
    def from_array(cls, words: pa.LargeBinaryArray) -> "Words":
        """Return the words of an array of distinct strings that are in byte order already."""
        data, ends = buffers(words)
        return cls.from_buffers(data[ends[0] : ends[-1]].copy(), ends - ends[0])

    @classmethod
    def from_buffers(cls, data: Bytes, ends: Integers | Ends) -> "Words":
        """Return the words with ends of 32 bits, as models keep them.

        Raises:
            BayesgramError: If there are more bytes than a model holds.
        """
        if data.size > MAX_WORD_BYTES:
            raise BayesgramError(
                f"words of {data.size:,} bytes: a model holds {MAX_WORD_BYTES:,};"
                " use a smaller vocabulary."
            )
        return cls(data, ends.astype(np.uint32, copy=False))

    def to_list(self) -> list[bytes]:
        """Return all words in the order of their ids, as bytes."""
        content = self.data.tobytes()
        return [content[start:end] for start, end in pairwise(self.ends.tolist())]

    def is_sorted_utf8(self) -> bool:
        """Whether these are distinct valid texts in byte order, so that each of them is found."""
        ends = self.ends.astype(np.int64)
        has_valid_ends = (
            ends.size > 0
            and ends[0] == 0
            and ends[-1] == self.data.size
            and (ends[1:] >= ends[:-1]).all()
        )
        if not has_valid_ends:
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
        ascending = pc.less(texts[:-1].cast(pa.large_binary()), texts[1:].cast(pa.large_binary()))
        return bool(pc.all(ascending, min_count=0).as_py())

    def find(self, data: Bytes, ends: Integers | Ids) -> Ids:
        """Return the ids of byte strings that stand end to end; −1 where a string is not known."""
        ids: Ids = _find_words(data, ends, self.data, self.ends, self._slots)
        return ids

    def find_one(self, word: bytes) -> int:
        """Return the id of one string, or −1, by binary search: no hash table is made."""
        place = bisect_left(range(len(self)), word, key=self._bytes)
        return place if place < len(self) and self._bytes(place) == word else -1

    def prefix_id_range(self, prefix: str) -> tuple[int, int]:
        """Return the range of ids of the words that begin with a prefix."""
        encoded = np.frombuffer(prefix.encode(), np.uint8)
        low, high = prefix_range(encoded, 0, encoded.size, self.data, self.ends, 0, len(self))
        return int(low), int(high)

    @cached_property
    def _slots(self) -> Ids:
        slots: Ids = _fill_slots(self.data, self.ends)
        return slots

    def _bytes(self, word_id: int) -> bytes:
        return bytes(self.data.data[int(self.ends[word_id]) : int(self.ends[word_id + 1])])


@kernel
def _compare(
    data: Bytes, start: int, end: int, other: Bytes, other_start: int, other_end: int
) -> int:
    """Compare two strings in byte order: −1, 0 or 1."""
    for at in range(min(end - start, other_end - other_start)):
        if data[start + at] != other[other_start + at]:
            return -1 if data[start + at] < other[other_start + at] else 1
    if end - start == other_end - other_start:
        return 0
    return -1 if end - start < other_end - other_start else 1


@kernel
def _fill_slots(words: Bytes, word_ends: Integers | Ends) -> Ids:
    """Return a hash table of word ids, half full; −1 is an empty slot."""
    slots = np.full(2 * word_ends.size, -1, np.int32)
    for word_id in range(word_ends.size - 1):
        first, second = string_key(
            words, signed(word_ends[word_id]), signed(word_ends[word_id + 1])
        )
        slot = _first_slot(_key_hash(first, second), slots.size)
        while slots[slot] >= 0:
            slot = slot + 1 if slot + 1 < slots.size else 0
        slots[slot] = word_id
    return slots


@kernel
def _key_hash(first: np.uint64, second: np.uint64) -> np.uint64:
    """Hash the key of a string."""
    return mix(mix(first) ^ second)


@kernel
def _first_slot(hashed: np.uint64, slot_count: int) -> int:
    """Return where the search for a hash begins: its upper half, scaled to the table."""
    return signed(((hashed >> np.uint64(32)) * np.uint64(slot_count)) >> np.uint64(32))


@kernel
def _find_words(
    data: Bytes, ends: Integers | Ids, words: Bytes, word_ends: Integers | Ends, slots: Ids
) -> Ids:
    """Look words up in batches.

    First all hashes of a batch, then all searches, so that no search waits for a hash.
    """
    ids = np.empty(ends.size - 1, np.int32)
    keys = np.empty((LOOKUP_BATCH, 2), np.uint64)
    first_slots = np.empty(LOOKUP_BATCH, np.int64)
    for begin in range(0, ids.size, LOOKUP_BATCH):
        count = min(LOOKUP_BATCH, ids.size - begin)
        for at in range(count):
            first, second = string_key(data, signed(ends[begin + at]), signed(ends[begin + at + 1]))
            keys[at, 0] = first
            keys[at, 1] = second
            first_slots[at] = _first_slot(_key_hash(first, second), slots.size)
        for at in range(count):
            start = signed(ends[begin + at])
            end = signed(ends[begin + at + 1])
            first = keys[at, 0]
            second = keys[at, 1]
            slot = first_slots[at]
            while slots[slot] >= 0:
                known_start = signed(word_ends[slots[slot]])
                known_end = signed(word_ends[slots[slot] + 1])
                if known_end - known_start == end - start:
                    known_first, known_second = string_key(words, known_start, known_end)
                    is_same_key = known_first == first and known_second == second
                    if is_same_key and (
                        second < LONG
                        or _compare(data, start, end, words, known_start, known_end) == 0
                    ):
                        break
                slot = slot + 1 if slot + 1 < slots.size else 0
            ids[begin + at] = slots[slot]
    return ids


@kernel
def prefix_range(
    prefix: Bytes,
    start: int,
    end: int,
    words: Bytes,
    word_ends: Integers | Ends,
    low: int,
    high: int,
) -> tuple[int, int]:
    """Return the range of words within [low, high) that begin with prefix[start:end].

    Args:
        prefix: Bytes that hold the prefix.
        start: Where the prefix begins in them.
        end: Where it ends.
        words: The bytes of all words, which are sorted.
        word_ends: Where each word ends, after a 0.
        low: The first word to look at.
        high: The end of the words to look at.
    """
    range_low = low
    range_high = high
    for side in range(2):
        first = low
        last = high
        while first < last:
            middle = (first + last) // 2
            word_start = signed(word_ends[middle])
            cut = min(signed(word_ends[middle + 1]), word_start + end - start)
            order = _compare(words, word_start, cut, prefix, start, end)
            if order < 0 or (order == 0 and side == 1):
                first = middle + 1
            else:
                last = middle
        if side == 0:
            range_low = first
        else:
            range_high = first
    return range_low, range_high


# --- Layout ---

# Columns of a layout table (`Layout.table`), which has a row for each order. Starts and offsets are
# in bits: of words and records from the beginning of `records`, of fields from that of a record.
(
    WORDS_START,  # where the last words of the order's n-grams begin
    WORD_BITS,  # width of a word; 0 for order 1
    RECORDS_START,  # where the records begin
    RECORD_BITS,  # width of a record
    PROBABILITY_BITS,  # width of log10 p, the first field of a record
    BACKOFF_OFFSET,
    BACKOFF_BITS,
    CHILD_OFFSET,
    CHILD_BITS,
    BASES_START,  # index into `bases`
    PROBABILITY_CODEBOOK,  # index into `codebooks`
    BACKOFF_CODEBOOK,  # index into `codebooks`
) = range(12)
LAYOUT_COLUMNS = 12


@dataclass(frozen=True)
class Layout:
    """How wide the fields of every order are: what it takes to find a record."""

    sizes: tuple[int, ...]  # n-grams of each order, from 1
    probability_bits: int  # of log10 p, from order 2 on
    backoff_bits: int  # of log10 of backoff weights, from order 2 on
    child_bits: tuple[int, ...]  # of each order but the longest

    @property
    def order(self) -> int:
        """The number of words in the longest n-grams."""
        return len(self.sizes)

    @property
    def level_starts(self) -> Integers:
        """Where the nodes of each order begin, the root first; and where they end."""
        return np.concatenate([[0], np.cumsum([1, *self.sizes])]).astype(np.int64)

    def table(self) -> Integers:
        """Return a row of the columns above for each order from 0.

        Row 0 says how large the arrays are: the bits of all records, and the numbers of bases and
        codebook values.
        """
        word_bits = bits_for(self.sizes[0] - 1)
        table = np.zeros((self.order + 1, LAYOUT_COLUMNS), np.int64)
        start = base = codebook = 0
        for order, size in enumerate(self.sizes, start=1):
            row = table[order]
            is_longest = order == self.order
            is_words = order == 1
            row[WORDS_START] = start
            row[WORD_BITS] = 0 if is_words else word_bits
            row[RECORDS_START] = start + _round_up_to_bytes(row[WORD_BITS] * size)
            row[PROBABILITY_BITS] = FLOAT_BITS if is_words else self.probability_bits
            row[BACKOFF_OFFSET] = row[PROBABILITY_BITS]
            row[BACKOFF_BITS] = 0 if is_longest else FLOAT_BITS if is_words else self.backoff_bits
            row[CHILD_OFFSET] = row[BACKOFF_OFFSET] + row[BACKOFF_BITS]
            row[CHILD_BITS] = 0 if is_longest else self.child_bits[order - 1]
            row[RECORD_BITS] = row[CHILD_OFFSET] + row[CHILD_BITS]
            row[PROBABILITY_CODEBOOK] = codebook
            if row[PROBABILITY_BITS] != FLOAT_BITS:
                codebook += 1 << row[PROBABILITY_BITS]
            row[BACKOFF_CODEBOOK] = codebook
            if row[BACKOFF_BITS] not in (0, FLOAT_BITS):
                codebook += 1 << row[BACKOFF_BITS]
            row[BASES_START] = base
            if not is_longest:
                base += size // BLOCK + 1
            record_count = size if is_longest else size + 1
            start = row[RECORDS_START] + _round_up_to_bytes(row[RECORD_BITS] * record_count)
        table[0, [WORDS_START, BASES_START, PROBABILITY_CODEBOOK]] = start, base, codebook
        return table

    def probability_codebook_starts(self) -> list[int]:
        """Return where the codebooks of probabilities begin."""
        return [
            int(row[PROBABILITY_CODEBOOK])
            for row in self.table()[1:]
            if row[PROBABILITY_BITS] != FLOAT_BITS
        ]

    def array_sizes(self) -> tuple[int, int, int]:
        """Return the bytes of records, the number of bases, and that of codebook values."""
        totals = self.table()[0, [WORDS_START, BASES_START, PROBABILITY_CODEBOOK]].tolist()
        record_bits, base_count, value_count = totals
        return record_bits // 8 + PADDING, base_count, value_count


def _round_up_to_bytes(bits: int) -> int:
    return -(-int(bits) // 8) * 8


def bits_for(number: int) -> int:
    """Return how many bits it takes to write any number from 0 to this one.

    >>> [bits_for(number) for number in (0, 1, 2, 255, 256)]
    [0, 1, 2, 8, 9]
    """
    return int(number).bit_length()


def child_offset_bits(first_child: Integers) -> int:
    """Return how many bits it takes to say, from the bases, where children begin and end."""
    starts = np.arange(0, first_child.size, BLOCK)
    return bits_for(int((np.maximum.reduceat(first_child, starts) - first_child[starts]).max()))


class PackedTrie(NamedTuple):
    """The arrays of a model that kernels search."""

    level_starts: Integers  # order k has the nodes from level_starts[k] on; order 0 is the root
    layout: Integers  # see `Layout.table`
    records: Bytes
    bases: Codes
    codebooks: Singles  # one after the other
    special: Ids  # the ids of <s>, </s> and <unk>, at the indices below
    likeliest_words: Ids  # best first
    large_contexts: Ids  # nodes with many children, ascending
    likeliest_children: Ids  # a row for each of these: places of its likeliest children, best first


START_WORD, END_WORD, UNKNOWN_WORD = range(3)  # indices into `PackedTrie.special`


# --- Reading single fields, in kernels ---


@kernel
def bit_mask(bits: int) -> np.uint64:
    """Return a number with as many ones."""
    return (np.uint64(1) << np.uint64(bits)) - np.uint64(1)


@kernel
def read_bits(records: Bytes, at: int, mask: np.uint64) -> np.uint64:
    """Return the field of up to 57 bits that begins at a bit."""
    return (read_uint64(records, at >> 3) >> np.uint64(at & 7)) & mask


@kernel
def float_from_bits(code: np.uint64) -> np.float32:
    """Return the single-precision number with these 32 bits."""
    return np.uint32(code).view(np.float32)


@kernel
def log_probability_at(place: int, row: Integers, records: Bytes, codebooks: Singles) -> float:
    """Return log10 p of an n-gram."""
    start = row[RECORDS_START] + place * row[RECORD_BITS]
    code = read_bits(records, start, bit_mask(row[PROBABILITY_BITS]))
    return float(
        float_from_bits(code)
        if row[PROBABILITY_BITS] == FLOAT_BITS
        else codebooks[row[PROBABILITY_CODEBOOK] + signed(code)]
    )


@kernel
def log_backoff_at(place: int, row: Integers, records: Bytes, codebooks: Singles) -> float:
    """Return log10 of the backoff weight of a context."""
    start = row[RECORDS_START] + place * row[RECORD_BITS] + row[BACKOFF_OFFSET]
    code = read_bits(records, start, bit_mask(row[BACKOFF_BITS]))
    return float(
        float_from_bits(code)
        if row[BACKOFF_BITS] == FLOAT_BITS
        else codebooks[row[BACKOFF_CODEBOOK] + signed(code)]
    )


@kernel
def word_at(place: int, row: Integers, records: Bytes) -> int:
    """Return the last word of an n-gram of order 2 or more."""
    start = row[WORDS_START] + place * row[WORD_BITS]
    return signed(read_bits(records, start, bit_mask(row[WORD_BITS])))


@kernel
def first_child_at(place: int, row: Integers, records: Bytes, bases: Codes) -> int:
    """Return where the children of a context begin in the next order.

    Those of the context before it end there.
    """
    start = row[RECORDS_START] + place * row[RECORD_BITS] + row[CHILD_OFFSET]
    offset = read_bits(records, start, bit_mask(row[CHILD_BITS]))
    return signed(bases[row[BASES_START] + place // BLOCK]) + signed(offset)


# --- Packing ---


@dataclass(frozen=True, eq=False)
class LevelArrays:
    """The n-grams of one order as plain arrays."""

    word: Ids  # the last word of each
    probabilities: Codes  # log10 p
    backoffs: Codes  # log10 of backoff weights; empty for the longest
    # Places in the next order, and where the last children end; empty for the longest.
    first_child: Integers


def pack_levels(layout: Layout, levels: list[LevelArrays]) -> tuple[Bytes, Codes]:
    """Return the records and the bases of all orders."""
    record_bytes, base_count, _ = layout.array_sizes()
    records = np.zeros(record_bytes, np.uint8)
    bases = np.zeros(base_count, np.uint32)
    for row, level in zip(layout.table()[1:], levels, strict=True):
        pack_rows(row, 0, level, records, bases)
    return records, bases


def pack_rows(row: Integers, start: int, level: LevelArrays, records: Bytes, bases: Codes) -> None:
    """Write some n-grams of an order, from a place on.

    Args:
        row: The order's row of the layout table.
        start: The place of the first of these n-grams.
        level: The n-grams. `first_child` has one entry more: of the next n-gram, or the end.
        records: Where they are written.
        bases: Where the bases of child offsets are written.
    """
    word_start = row[WORDS_START] + start * row[WORD_BITS]
    record_start = row[RECORDS_START] + start * row[RECORD_BITS]
    record_bits = row[RECORD_BITS]
    _put_fields(records, word_start, row[WORD_BITS], row[WORD_BITS], level.word)
    _put_fields(records, record_start, record_bits, row[PROBABILITY_BITS], level.probabilities)
    backoff_bits = row[BACKOFF_BITS] if level.backoffs.size else 0
    backoff_start = record_start + row[BACKOFF_OFFSET]
    _put_fields(records, backoff_start, record_bits, backoff_bits, level.backoffs)
    places = start + np.arange(level.first_child.size)
    base_index = row[BASES_START] + places // BLOCK
    begins_block = places % BLOCK == 0
    bases[base_index[begins_block]] = level.first_child[begins_block]
    offsets = level.first_child - bases[base_index]
    _put_fields(records, record_start + row[CHILD_OFFSET], record_bits, row[CHILD_BITS], offsets)


def float_bits(values: Singles) -> Codes:
    """Return single-precision numbers as their bits."""
    return np.ascontiguousarray(values, np.float32).view(np.uint32)


def _put_fields(
    records: Bytes, first: int, distance: int, bits: int, values: Integers | Ids | Codes
) -> None:
    """Write fields at equal distances into bits that are 0, or that hold the same already.

    Every eighth field begins at the same bit of its byte, `distance` bytes after the last, so these
    are written together.
    """
    for phase in range(8 if bits else 0):
        begin = int(first) + phase * int(distance)
        phase_values = values[phase::8].astype(np.uint64)
        shift = begin & 7
        for byte in range((shift + int(bits) + 7) // 8):
            shifted = (phase_values << np.uint64(shift)) >> np.uint64(8 * byte)
            lowest_bytes = shifted.astype(np.uint8)
            records[(begin >> 3) + byte :: distance][: phase_values.size] |= lowest_bytes


# --- Unpacking whole orders ---


def _read_fields(records: Bytes, first: int, distance: int, bits: int, size: int) -> Codes:
    """Read fields of up to 32 bits at equal distances.

    As `read_bits`, but without a kernel that must be loaded.
    """
    fields = np.empty(size, np.uint32)
    mask = np.uint64((1 << int(bits)) - 1)
    eight_byte_windows: NDArray[np.uint64] = np.ndarray(
        records.size - PADDING + 1, "<u8", records, strides=(1,)
    )
    for start in range(0, size, UNPACK_BATCH):
        at = int(first) + int(distance) * np.arange(start, min(start + UNPACK_BATCH, size))
        shifted = eight_byte_windows[at >> 3] >> (at & 7).astype(np.uint64)
        fields[start : start + at.size] = shifted & mask
    return fields


def _decode(codes: Codes, bits: int, codebook: Singles) -> Singles:
    return codes.view(np.float32) if bits == FLOAT_BITS else codebook[codes]


def unpack_words(row: Integers, size: int, records: Bytes) -> Ids:
    """Return the last word of every n-gram of an order from 2."""
    words = _read_fields(records, row[WORDS_START], row[WORD_BITS], row[WORD_BITS], size)
    return words.view(np.int32)


def unpack_probabilities(
    row: Integers, first: int, last: int, records: Bytes, codebooks: Singles
) -> Singles:
    """Return log10 p of the n-grams from place `first` to `last` of an order."""
    start = row[RECORDS_START] + first * row[RECORD_BITS]
    bits = row[PROBABILITY_BITS]
    codes = _read_fields(records, start, row[RECORD_BITS], bits, last - first)
    return _decode(codes, bits, codebooks[row[PROBABILITY_CODEBOOK] :])


def unpack_backoffs(row: Integers, size: int, records: Bytes, codebooks: Singles) -> Singles:
    """Return log10 of the backoff weight of every n-gram of an order below the longest."""
    start = row[RECORDS_START] + row[BACKOFF_OFFSET]
    bits = row[BACKOFF_BITS]
    codes = _read_fields(records, start, row[RECORD_BITS], bits, size)
    return _decode(codes, bits, codebooks[row[BACKOFF_CODEBOOK] :])


def unpack_children(row: Integers, size: int, records: Bytes, bases: Codes) -> Integers:
    """Return where the children of every n-gram of an order begin, and where the last ones end."""
    start = row[RECORDS_START] + row[CHILD_OFFSET]
    offsets = _read_fields(records, start, row[RECORD_BITS], row[CHILD_BITS], size + 1)
    order_bases = bases[row[BASES_START] :][: size // BLOCK + 1].astype(np.int64)
    return np.repeat(order_bases, BLOCK)[: size + 1] + offsets


# --- Checking ---


def is_consistent(packed: PackedTrie) -> bool:
    """Whether a packed trie can be searched safely.

    No record leads outside, words ascend after each context, and exact values are log10 p ≤ 0.
    """
    sizes = np.diff(packed.level_starts).tolist()
    longest = packed.layout.shape[0] - 1
    for order, row in enumerate(packed.layout[1:], start=1):
        if row[PROBABILITY_BITS] == FLOAT_BITS:
            logs = unpack_probabilities(row, 0, sizes[order], packed.records, packed.codebooks)
            if not ((logs > -np.inf) & (logs <= 0)).all():
                return False
        if order < longest and row[BACKOFF_BITS] == FLOAT_BITS:
            backoffs = unpack_backoffs(row, sizes[order], packed.records, packed.codebooks)
            if not ((backoffs > -np.inf) & (backoffs <= MAX_LOG_BACKOFF)).all():
                return False
        if order < longest and not _has_ascending_children(order, sizes, packed):
            return False
    return True


def _has_ascending_children(order: int, sizes: list[int], packed: PackedTrie) -> bool:
    """Whether every context has its own run of the next order, in which words ascend."""
    starts = unpack_children(packed.layout[order], sizes[order], packed.records, packed.bases)
    child_count = sizes[order + 1]
    if starts[0] != 0 or starts[-1] != child_count or not (starts[:-1] <= starts[1:]).all():
        return False
    words = unpack_words(packed.layout[order + 1], child_count, packed.records)
    begins_run = np.zeros(child_count + 1, np.bool_)
    begins_run[starts] = True
    ascends = (words[:-1] < words[1:]) | begins_run[1:child_count]
    return bool((words < sizes[1]).all() and ascends.all())
