"""Salted hashes of long rows of text, and a uniform sample of them of bounded size.

`RowSample` takes rows as a tokenizer cut them, and keeps the smallest hashes of distinct rows.

Two rows have one hash if they have the same tokens, one after the other: case, punctuation and
white space count as much as they do for the tokenizer (not at all, for words). Rows are known by
64-bit hashes under a salt; no text is kept. Does not know which text is public and which is
private.
"""

import secrets
from threading import Lock

import numpy as np

from bayesgram.arrays import Bytes, Hashes, Ids, Integers
from bayesgram.choices import TokenizerKind
from bayesgram.kernels import kernel, mix, read_uint64

# Tokens in a row that is compared. Shorter rows ("happy birthday to you") are written by people
# who never saw one another; whoever writes the same eight words has copied them, as a rule.
LONG_ROW = 8
LONG_ROW_OF_CHARACTERS = 40  # where a token is one character: eight words of five

ALL = 2**64 - 1  # the limit of a sample that has every hash
_lock = Lock()  # for threads that add to a sample


def long_row(kind: TokenizerKind) -> int:
    """Return how many tokens a row needs to be compared with others."""
    return LONG_ROW_OF_CHARACTERS if kind is TokenizerKind.CHARACTERS else LONG_ROW


def new_salt() -> int:
    """Return 64 random bits from the operating system."""
    return secrets.randbits(64)


@kernel
def hash_long_rows(
    data: Bytes, offsets: Ids, row_ends: Integers, salt: Hashes, least: int
) -> Hashes:
    """Return the hashes of the rows with at least `least` tokens.

    Args:
        data: The bytes of all tokens, one after the other.
        offsets: Where each token begins; an empty one ends a sentence.
        row_ends: How many tokens the rows up to each one have.
        salt: One number.
        least: How many tokens that are not empty a row needs; 8 or more.
    """
    hashes = np.empty(row_ends.size, np.uint64)
    size = 0
    first = 0
    salted = mix(salt[0])
    for row in range(row_ends.size):
        last = row_ends[row]
        words = 0
        if last - first > least:  # the end of its last sentence is a token, too
            for token in range(first, last):
                words += int(offsets[token + 1] > offsets[token])
        elif last - first == 2:  # a token that is a whole row has the words between its spaces
            words = 1
            for at in range(offsets[first], offsets[first + 1]):
                words += int(data[at] == 0x20)
        if words >= least:
            start = offsets[first]
            end = offsets[last]
            value = salted ^ np.uint64(end - start)
            for at in range(start, end - 8, 8):
                # Each step is a bijection of `value` for any eight bytes; it is half of `mix`.
                value = (value ^ read_uint64(data, at)) * np.uint64(0xBF58476D1CE4E5B9)
                value ^= value >> np.uint64(29)
            hashes[size] = mix(mix(value ^ read_uint64(data, end - 8)) ^ salted)
            size += 1
        first = last
    return hashes[:size].copy()


class RowSample:
    """The smallest hashes of distinct long rows: a uniform sample of these rows (bottom-k).

    `limit` says how much of all rows it holds: every row whose hash is below it, and no other. So
    two samples under one salt can be compared exactly below the smaller of their limits, and what
    is below it is a uniform sample of both texts. The sample does not depend on the order of rows,
    nor on how often each comes.
    """

    def __init__(self, salt: int, *, least: int, capacity: int, limit: int = ALL) -> None:
        self.salt = salt
        self.least = least
        self.capacity = capacity
        self._limit = np.uint64(limit)
        self._hashes = np.zeros(0, np.uint64)  # sorted, distinct
        self._waiting: list[Hashes] = []
        self._waiting_size = 0

    def __repr__(self) -> str:
        return f"RowSample(rows of at least {self.least} tokens)"

    def __len__(self) -> int:
        return int(self.hashes.size)

    @property
    def limit(self) -> int:
        """Every row whose hash is below is in the sample."""
        with _lock:
            self._merge()
            return int(self._limit)

    @property
    def hashes(self) -> Hashes:
        """The hashes, sorted."""
        with _lock:
            self._merge()
            return self._hashes

    @property
    def sampling_rate(self) -> float:
        """The share of all distinct rows that is expected to be in the sample."""
        limit = self.limit
        return 1.0 if limit == ALL else limit / 2.0**64

    def add_rows(self, data: Bytes, offsets: Ids, row_ends: Integers) -> None:
        """Add the rows of a chunk as `Tokenizer.tokenize` gives them. It is safe in threads."""
        self.add(
            hash_long_rows(data, offsets, row_ends, np.array([self.salt], np.uint64), self.least)
        )

    def add(self, hashes: Hashes) -> None:
        """Add rows that were hashed under the same salt."""
        sampled = hashes[hashes < self._limit]
        with _lock:
            self._waiting.append(sampled)
            self._waiting_size += sampled.size
            if self._waiting_size > self.capacity:
                self._merge()

    def _merge(self) -> None:
        """Sort what waits into the sample, and drop what is beyond its capacity."""
        if not self._waiting:
            return
        merged = np.sort(np.concatenate([self._hashes, *self._waiting]))
        self._waiting.clear()
        self._waiting_size = 0
        is_first = np.ones(merged.size, np.bool_)
        is_first[1:] = merged[1:] != merged[:-1]
        merged = merged[is_first]
        merged = merged[: np.searchsorted(merged, self._limit)]
        if merged.size > self.capacity:
            self._limit = merged[self.capacity]
        self._hashes = merged[: self.capacity].copy()
