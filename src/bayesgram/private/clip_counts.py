"""Bound what one user can contribute, in counts: C of each n-gram and W in all.

In:  UserCounts, users × 𝒱.   Out: Clipped counts (Algorithm 1, lines 1–3; §4.3), in memory or whenever they are asked.
What is kept of a user is a function of that user alone (and of a key), so nobody's presence moves anybody else.
Does not choose the bounds: they are public. Bounds on the L2 norm are in `private.clip`.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import overload

import numpy as np
import pyarrow as pa

from bayesgram.arrays import Bools, Hashes, Ids, Integers
from bayesgram.errors import whole_number
from bayesgram.kernels import kernel, mix
from bayesgram.private.counts import UserCounts
from bayesgram.private.csr import MAX_COUNT
from bayesgram.private.over_users import Array, OverUsers, PrivateCounts, Rows, in_blocks
from bayesgram.text.strings import hash_rows
from bayesgram.text.tokens import buffers

MAX_TOTAL = 1_000_000  # drawing W occurrences takes memory for W numbers
Csr = tuple[Integers, Ids, Ids]


class Clipped(OverUsers):
    """Counts of which no entry exceeds `max_count` (C) and no row sum `max_total` (W). Only `clip` makes them."""

    max_count: int
    max_total: int

    def __repr__(self) -> str:
        return f"{type(self).__name__}(private, C = {self.max_count}, W = {self.max_total})"


@dataclass(frozen=True, eq=False, repr=False)
class ClippedCounts(Clipped):
    """Clipped counts in memory."""

    starts: Integers
    ngrams: Ids
    counts: Ids
    vocabulary_size: int
    max_count: int
    max_total: int

    def over_users(self, measure: Callable[[Rows], Array], merge: np.ufunc = np.add) -> Array:
        """Block by block on all cores."""
        merged: Array = merge.reduce(self.blocks(measure))
        return merged

    def blocks(self, measure: Callable[[Rows], Array]) -> list[Array]:
        """The answers of runs of users, in order."""
        return in_blocks(Rows(self.starts, self.ngrams, self.counts), measure)

    def select(self, users: Bools) -> "ClippedCounts":
        """The chosen users' rows."""
        sizes = np.diff(self.starts)
        rows = np.repeat(users, sizes)
        starts = np.concatenate([[0], np.cumsum(sizes[users])])
        bounds = (self.vocabulary_size, self.max_count, self.max_total)
        return ClippedCounts(starts, self.ngrams[rows], self.counts[rows], *bounds)


@dataclass(frozen=True, eq=False, repr=False)
class LazyClippedCounts(Clipped):
    """Counts that are elsewhere: every user is clipped anew, and the same way, each time that all are asked."""

    counts: PrivateCounts
    vocabulary_size: int
    max_count: int
    max_total: int
    key: int

    def over_users(self, measure: Callable[[Rows], Array], merge: np.ufunc = np.add) -> Array:
        """Ask clipped users."""
        clipped_first = partial(_measure_clipped, measure, self.max_count, self.max_total, self.key)
        return self.counts.over_users(clipped_first, merge)


def _measure_clipped(measure: Callable[[Rows], Array], max_count: int, max_total: int, key: int, rows: Rows) -> Array:
    keys = id_keys(rows.users, key=key)
    return measure(Rows(*_clip(rows.starts, rows.ngrams, rows.counts, max_count, max_total, keys)))


def user_keys(counts: UserCounts, *, key: int) -> Hashes:
    """A number for each user that depends on the user's id and the run's key, and on nobody else."""
    return id_keys(counts.users, key=key)


def id_keys(users: pa.LargeBinaryArray, *, key: int) -> Hashes:
    """A number for each of these ids."""
    return mix_all(hash_rows(*buffers(users)), np.uint64(key))


@kernel
def mix_all(values: Hashes, key: np.uint64) -> Hashes:
    """Keyed hash of 64-bit numbers."""
    for at in range(values.size):
        values[at] = mix(mix(values[at] ^ key) + key)
    return values


def check_max_count(value: int) -> int:
    """C, if it is one."""
    return whole_number("max_count", value, 1, MAX_COUNT, "C, the most of one n-gram from a user,")


def check_max_total(value: int) -> int:
    """W, if it is one."""
    return whole_number("max_total", value, 1, MAX_TOTAL, "W, the most occurrences from a user,")


@overload
def clip(counts: UserCounts, *, max_count: int | None, max_total: int, key: int) -> ClippedCounts: ...


@overload
def clip(counts: PrivateCounts, *, max_count: int | None, max_total: int, key: int) -> Clipped: ...


def clip(counts: PrivateCounts, *, max_count: int | None, max_total: int, key: int) -> Clipped:
    """Entries to C, then rows to W by drawing W of a user's occurrences without replacement."""
    largest = MAX_COUNT if max_count is None else check_max_count(max_count)
    max_total = check_max_total(max_total)
    if not isinstance(counts, UserCounts):
        return LazyClippedCounts(counts, counts.vocabulary_size, largest, max_total, key)
    csr = _clip(counts.starts, counts.ngrams, counts.counts, largest, max_total, user_keys(counts, key=key))
    return ClippedCounts(*csr, counts.vocabulary_size, largest, max_total)


@kernel
def _clip(
    starts: Integers,
    ngrams: Ids,
    counts: Ids,
    max_count: int,
    max_total: int,
    keys: Hashes,
) -> Csr:
    kept_starts = np.zeros_like(starts)
    kept_ngrams = np.empty_like(ngrams)
    kept_counts = np.empty_like(counts)
    written = 0
    for user in range(starts.size - 1):
        row = np.minimum(counts[starts[user] : starts[user + 1]], max_count).astype(np.int64)
        if row.sum() > max_total:
            row = _subsample(row, max_total, keys[user])
        for at in range(row.size):
            if row[at]:
                kept_ngrams[written] = ngrams[starts[user] + at]
                kept_counts[written] = row[at]
                written += 1
        kept_starts[user + 1] = written
    return kept_starts, kept_ngrams[:written].copy(), kept_counts[:written].copy()


@kernel
def _subsample(row: Integers, size: int, key: np.uint64) -> Integers:
    """`size` of the row's occurrences, each set of them as likely as any other (Floyd's algorithm)."""
    total = row.sum()
    chosen = {np.int64(-1)}  # Numba can't type an empty set
    state = key
    for last in range(total - size, total):
        state += np.uint64(0x9E3779B97F4A7C15)
        place = np.int64(mix(state) % np.uint64(last + 1))
        chosen.add(np.int64(last) if place in chosen else place)
    places = np.array(list(chosen))
    places.sort()
    kept = np.zeros_like(row)
    entry, end = 0, row[0]
    for place in places[1:]:
        while place >= end:
            entry += 1
            end += row[entry]
        kept[entry] += 1
    return kept
