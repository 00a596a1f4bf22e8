"""Bound what one user can contribute.

In:  UserCounts, users × 𝒱.   Out: ClippedCounts (C and W: Algorithm 1, lines 1–3; §4.3), or an exact integer sum of
L2-clipped users (the Gaussian mechanism).
What is kept of a user is a function of that user alone (and of a key), so nobody's presence moves anybody else.
Does not choose the bounds: they are public.
"""

import math
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property, partial
from os import cpu_count

import numpy as np

from bayesgram.arrays import Bools, Floats, Hashes, Ids, Integers
from bayesgram.errors import whole_number
from bayesgram.kernels import kernel, mix
from bayesgram.private.counts import MAX_COUNT, UserCounts, totals_of, user_blocks
from bayesgram.text.tables import hash_rows
from bayesgram.text.tokens import buffers

MAX_TOTAL = 1_000_000  # drawing W occurrences takes memory for W numbers
UNITS = 1 << 30  # B: the clip norm in fixed point; squares still fit in 64 bits

Csr = tuple[Integers, Ids, Ids]


@dataclass(frozen=True, eq=False, repr=False)
class ClippedCounts:
    """Counts of which no entry exceeds `max_count` (C) and no row sum `max_total` (W). Only `clip` makes them."""

    starts: Integers
    ngrams: Ids
    counts: Ids
    vocabulary_size: int
    max_count: int
    max_total: int

    @cached_property
    def totals(self) -> Integers:
        """c: how often each n-gram occurs over all users."""
        return totals_of(self.ngrams, self.counts, self.vocabulary_size)

    @cached_property
    def users_per_ngram(self) -> Integers:
        """N: how many users have each n-gram, after clipping."""
        return np.bincount(self.ngrams, minlength=self.vocabulary_size)

    def __repr__(self) -> str:
        return f"ClippedCounts(private, C = {self.max_count}, W = {self.max_total})"

    def select(self, users: Bools) -> "ClippedCounts":
        """The chosen users' rows."""
        sizes = np.diff(self.starts)
        rows = np.repeat(users, sizes)
        starts = np.concatenate([[0], np.cumsum(sizes[users])])
        bounds = (self.vocabulary_size, self.max_count, self.max_total)
        return ClippedCounts(starts, self.ngrams[rows], self.counts[rows], *bounds)


def user_keys(counts: UserCounts, *, key: int) -> Hashes:
    """A number for each user that depends on the user's id and the run's key, and on nobody else."""
    return mix_all(hash_rows(*buffers(counts.users)), np.uint64(key))


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


def clip(counts: UserCounts, *, max_count: int | None, max_total: int, key: int) -> ClippedCounts:
    """Entries to C, then rows to W by drawing W of a user's occurrences without replacement."""
    largest = MAX_COUNT if max_count is None else check_max_count(max_count)
    max_total = check_max_total(max_total)
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


@dataclass(frozen=True, eq=False)
class Coordinates:
    """What is measured of a user: counts of n-grams and, after them, of the words they are made of, over a shape.

    All public. `words` is V × 0 where words are not measured, and −1 where those of an n-gram are not.
    """

    shape: Floats  # s > 0, for n-grams and then words: the noise of a coordinate is proportional to it
    words: Ids  # V × n: the coordinate of each word of each n-gram

    @property
    def content(self) -> tuple[bytes, bytes]:
        """Both arrays, to tell one set of coordinates from another."""
        return self.shape.tobytes(), self.words.tobytes()


def clipped_sum(counts: UserCounts, measured: Coordinates, *, clip_norm: float) -> Integers:
    """Σ over users of z, where z = counts/shape, clipped to the L2 norm Λ, in units of Λ/B, truncated toward zero.

    Formal guarantee: adding or removing one user moves the sum by at most B = UNITS in L2, exactly, in integers.
    """
    summed = partial(_clipped_sum, shape=measured.shape, words=measured.words, clip_norm=clip_norm)
    return counts.once(("sum", clip_norm, *measured.content), lambda: _over_users(counts, summed))


def norm_histogram(counts: UserCounts, measured: Coordinates, edges: Floats) -> Integers:
    """How many users have a norm ‖counts/shape‖₂ below each edge and not below the one before, and above the last.

    Formal guarantee: adding or removing one user changes one entry by one.
    """
    summed = partial(_norm_histogram, shape=measured.shape, words=measured.words, edges=edges)
    return counts.once(("norms", edges.tobytes(), *measured.content), lambda: _over_users(counts, summed))


def _over_users(counts: UserCounts, summed: Callable[[Integers, Ids, Ids], Integers]) -> Integers:
    """A sum over users, block by block on all cores: of integers, so the same whatever the blocks are."""

    def block(first: int, last: int) -> Integers:
        return summed(counts.starts[first : last + 1], counts.ngrams, counts.counts)

    blocks = user_blocks(counts.starts, cpu_count() or 1)
    with ThreadPoolExecutor(len(blocks)) as pool:  # the kernels release the GIL
        total: Integers = np.sum(list(pool.map(block, *zip(*blocks, strict=True))), axis=0)
    return total


@kernel
def _clipped_sum(starts: Integers, ngrams: Ids, counts: Ids, shape: Floats, words: Ids, clip_norm: float) -> Integers:
    total = np.zeros(shape.size, np.int64)
    scratch = np.zeros(shape.size, np.int64)
    for user in range(starts.size - 1):
        rows = slice(starts[user], starts[user + 1])
        places, values = _expanded(ngrams[rows], counts[rows], words, scratch)
        units = fixed_point(values, shape[places], clip_norm)
        for at in range(places.size):
            total[places[at]] += units[at]
    return total


@kernel
def _norm_histogram(starts: Integers, ngrams: Ids, counts: Ids, shape: Floats, words: Ids, edges: Floats) -> Integers:
    found = np.zeros(edges.size + 1, np.int64)
    scratch = np.zeros(shape.size, np.int64)
    for user in range(starts.size - 1):
        rows = slice(starts[user], starts[user + 1])
        places, values = _expanded(ngrams[rows], counts[rows], words, scratch)
        found[np.searchsorted(edges, norm(values / shape[places]), side="right")] += 1
    return found


@kernel
def _expanded(ngrams: Ids, counts: Ids, words: Ids, scratch: Integers) -> tuple[Integers, Integers]:
    """A user's coordinates and counts: the n-grams as they are, then their words, ascending. `scratch` is zeros."""
    order = words.shape[1]
    places = np.empty(ngrams.size * (1 + order), np.int64)
    size = ngrams.size
    for at in range(ngrams.size):
        places[at] = ngrams[at]
        for k in range(order):
            word = words[ngrams[at], k]
            if word < 0:
                continue
            if not scratch[word]:
                places[size] = word
                size += 1
            scratch[word] += counts[at]
    places = places[:size]
    places[ngrams.size :].sort()  # a fixed order: the norm is summed the same way wherever the user's rows came from
    values = np.empty(size, np.int64)
    for at in range(size):
        values[at] = counts[at] if at < ngrams.size else scratch[places[at]]
    scratch[places[ngrams.size :]] = 0
    return places, values


@kernel
def norm(values: Floats) -> float:
    """‖values‖₂, summed in order."""
    squares = 0.0
    for value in values:
        squares += value * value
    return math.sqrt(squares)


@kernel
def fixed_point(counts: Integers, shape: Floats, clip_norm: float) -> Integers:
    """One user's z with Σ z² ≤ B², checked in integers: where rounding pushed it over, the largest entry gives way."""
    values = counts / shape
    scale = UNITS / max(norm(values), clip_norm)
    units = np.empty(values.size, np.int64)
    length = 0
    for at in range(values.size):
        units[at] = min(int(values[at] * scale), UNITS)
        length += units[at] * units[at]
    while length > UNITS * UNITS:
        largest = np.argmax(units)
        length -= 2 * units[largest] - 1
        units[largest] -= 1
    return units
