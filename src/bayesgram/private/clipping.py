"""Bound what one user can contribute: in L2 norm for Gaussian noise, in counts for Laplace noise.

In:  counts per user, users × 𝒱.   Out: exact integer sums of clipped users, or clipped counts.

What remains of a user is a function of that user alone (and of a key), so that nobody's presence
changes what anybody else contributes. The bounds are public; this module does not choose them, and
adds no noise.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import overload

import numpy as np
import pyarrow as pa

from bayesgram.arrays import Bools, Floats, Hashes, Ids, Integers
from bayesgram.errors import UsageError, check_int
from bayesgram.kernels import inlined, kernel, longest_row, mix
from bayesgram.privacy.constants import ACTIVITY_CLASSES, UNITS
from bayesgram.private.counts import (
    MAX_COUNT,
    AggregateCounts,
    Array,
    PrivateCounts,
    UserCounts,
    UserRows,
    map_user_blocks,
)
from bayesgram.text.strings import hash_rows
from bayesgram.text.tokenizer import buffers

# The largest shape, and one over the smallest. Counts are below 2³¹, so the squares of counts over
# a shape add up to far less than the largest float.
LARGEST_SHAPE = 1e30

# The text of a user that an allowance leaves out is measured up to so many times what is kept.
# Chosen by hand: somebody who counts for less than a tenth is rare where allowances are paced.
MAX_WITHHELD = 9.0

# --- Clipping in L2: sums for Gaussian noise ---


def check_clip_norm(clip_norm: float) -> float:
    """Return `clip_norm` unchanged.

    Raises:
        UsageError: If it is not between 1e-6 and 1e9.
    """
    if not (math.isfinite(clip_norm) and 1e-6 <= clip_norm <= 1e9):
        raise UsageError.for_argument(
            "clip_norm",
            clip_norm,
            "give a public number from 1e-6 to 1e9; 4 is usual, and posterior chooses one "
            "if it is left out.",
        )
    return float(clip_norm)


def check_shape(shape: Floats) -> None:
    """Refuse a shape over which squares of counts would overflow a float."""
    if not ((shape >= 1 / LARGEST_SHAPE) & (shape <= LARGEST_SHAPE)).all():  # NaN is neither
        raise UsageError(
            f"shape: holds a number that is not in {1 / LARGEST_SHAPE:g} … {LARGEST_SHAPE:g};"
            " squares of counts over it would leave what a float can hold. Is the public text what"
            " it should be?"
        )


@dataclass(frozen=True, eq=False)
class Coordinates:
    """The vector that a user contributes: counts of n-grams, then of their words, over a shape.

    All of it is public.

    Attributes:
        shape: s > 0 for every coordinate, n-grams first. The noise of a coordinate is proportional
            to it.
        words: Columns × n, the coordinates that each column of the counts adds to beside its own,
            such as those of its words; −1 for none, columns × 0 where nothing else is measured.
        total: The coordinate of a user's total, which the text that allowances leave out is
            measured by.
        withheld: Where users have allowances (`private.allowances`), the first of the last
            2·ACTIVITY_CLASSES coordinates: how much text of each class of users allowances leave
            out, and how much they do not. −1 elsewhere.
    """

    shape: Floats
    words: Ids
    total: int = -1
    withheld: int = -1

    def __post_init__(self) -> None:
        check_shape(self.shape)

    @property
    def without_withheld(self) -> "Coordinates":
        """The coordinates without those of the text that allowances leave out."""
        if self.withheld < 0:
            return self
        return Coordinates(self.shape[: self.withheld], self.words)

    @property
    def cache_key(self) -> tuple[bytes | int, ...]:
        """The contents, which identify the coordinates."""
        return self.shape.tobytes(), self.words.tobytes(), self.total, self.withheld


def clipped_sum(counts: PrivateCounts, coordinates: Coordinates, *, clip_norm: float) -> Integers:
    """Return Σ z over users, with z = counts/shape clipped to the L2 norm Λ.

    z is in units of Λ/B, rounded toward zero.

    Formal guarantee: adding or removing one user moves the sum by at most B = UNITS in L2, exactly,
    in integers; and by no more than the limit of that user, where users have limits (`Meter`).

    Args:
        counts: Private counts.
        coordinates: The vector that a user contributes.
        clip_norm: Λ.
    """
    measure = partial(
        _clipped_sum_of_rows, coordinates=coordinates, clip_norm=check_clip_norm(clip_norm)
    )
    return counts.cached_sum(
        ("sum", clip_norm, *coordinates.cache_key),
        lambda: _aggregate_columns(counts, len(coordinates.words), measure),
    )


def _aggregate_columns(
    counts: PrivateCounts, columns: int, measure: Callable[[UserRows], Integers]
) -> Integers:
    """Measure all columns of the counts, or their listed n-grams alone, as coordinates have them.

    Kernels trust that every column has a coordinate.
    """
    if columns >= counts.vocabulary_size + counts.unlisted_size:
        return counts.aggregate_all(measure)
    if columns == counts.vocabulary_size:
        return counts.aggregate(measure)
    raise AssertionError("the coordinates are of another vocabulary than the counts")


@dataclass(frozen=True, eq=False)
class ClippedWordsSpec:
    """What is asked about the text that clipping removes: counts of words over a shape.

    All of it is public.

    Attributes:
        shape: s > 0 for every word.
        words: V × n, the coordinate of each word of each n-gram; −1 where it has none.
        clip_norm: The clip norm of these words.
    """

    shape: Floats
    words: Ids
    clip_norm: float

    def __post_init__(self) -> None:
        check_shape(self.shape)
        check_clip_norm(self.clip_norm)

    @property
    def cache_key(self) -> tuple[bytes, bytes, float]:
        """The contents, which identify the question."""
        return self.shape.tobytes(), self.words.tobytes(), self.clip_norm


def clipped_mass_sum(
    counts: PrivateCounts, coordinates: Coordinates, spec: ClippedWordsSpec, *, clip_norm: float
) -> Integers:
    """Return Σ over users of the words that `clipped_sum` removes, clipped to a norm of its own.

    `clipped_sum` removes 1 − Λ/norm of the counts of a user whose norm is above Λ.

    Formal guarantee: adding or removing one user moves the sum by at most B = UNITS in L2, exactly,
    in integers; and by no more than the limit of that user, where users have limits (`Meter`).

    Args:
        counts: Private counts.
        coordinates: The vector that `clipped_sum` clips.
        spec: The words that are asked about, and their clip norm.
        clip_norm: Λ of `clipped_sum`.
    """
    measure = partial(
        _clipped_mass_of_rows,
        coordinates=coordinates,
        spec=spec,
        clip_norm=check_clip_norm(clip_norm),
    )
    return counts.cached_sum(
        ("lost", clip_norm, *spec.cache_key, *coordinates.cache_key),
        lambda: _aggregate_columns(counts, len(coordinates.words), measure),
    )


# These two functions run where the users' rows are, which may be on other machines. They are plain
# functions, so that they can be pickled.
def _clipped_sum_of_rows(rows: UserRows, coordinates: Coordinates, clip_norm: float) -> Integers:
    squares = np.zeros(rows.user_count, np.int64)
    total = _clipped_sum(
        rows.starts,
        rows.ngrams,
        rows.counts,
        1 / coordinates.shape,
        coordinates.words,
        clip_norm,
        rows.norm_limits(),
        squares,
        coordinates.total,
        coordinates.withheld,
        rows.activity_classes(),
    )
    rows.record_squares(squares)
    return total


def _clipped_mass_of_rows(
    rows: UserRows, coordinates: Coordinates, spec: ClippedWordsSpec, clip_norm: float
) -> Integers:
    squares = np.zeros(rows.user_count, np.int64)
    total = _clipped_mass_sum(
        rows.starts,
        rows.ngrams,
        rows.counts,
        1 / coordinates.shape,
        coordinates.words,
        clip_norm,
        1 / spec.shape,
        spec.words,
        spec.clip_norm,
        rows.norm_limits(),
        squares,
    )
    rows.record_squares(squares)
    return total


@kernel
def _clipped_sum(
    starts: Integers,
    ngrams: Ids,
    counts: Ids,
    weights: Floats,
    words: Ids,
    clip_norm: float,
    limits: Integers,
    squared_norms: Integers,
    total_place: int,
    withheld_place: int,
    activity: Ids,
) -> Integers:
    """Return Σ z over users, and write Σ z² of each; `weights` are 1/shape."""
    total = np.zeros(weights.size, np.int64)
    word_counts = np.zeros(weights.size, np.int64)
    touched = np.empty(longest_row(starts) * words.shape[1] + 2, np.int64)
    for user in range(starts.size - 1):
        first = starts[user]
        last = starts[user + 1]
        distinct = _count_words(ngrams, counts, first, last, words, word_counts, touched)
        squares = _sum_squares(ngrams, counts, first, last, weights) + _sum_squares_of_words(
            word_counts, touched, distinct, weights
        )
        limit = limits[user]
        if withheld_place >= 0 and word_counts[total_place] > 0:
            place = withheld_place + ACTIVITY_CLASSES + activity[user]
            word_counts[place] = word_counts[total_place]
            touched[distinct] = place
            distinct += 1
            squares += (word_counts[place] * weights[place]) ** 2
        norm = math.sqrt(squares)
        scale = _limited_scale(norm, clip_norm, limit)
        if withheld_place >= 0 and 0 < scale < UNITS / max(norm, clip_norm):
            # The limit removes more than the clip norm does: so much of the total.
            removed = UNITS / max(norm, clip_norm) / scale - 1
            withheld = np.int64(min(removed, MAX_WITHHELD) * word_counts[total_place])
            if withheld > 0:
                place = withheld_place + activity[user]
                word_counts[place] = withheld
                touched[distinct] = place
                distinct += 1
                squares += (withheld * weights[place]) ** 2
                scale = _limited_scale(math.sqrt(squares), clip_norm, limit)
        length = np.int64(0)
        # Unsigned indices save the check for places that are counted from the end.
        for at in range(np.uint64(first), np.uint64(last)):
            place = np.uint64(ngrams[at])
            unit = np.int64(counts[at] * weights[place] * scale)
            total[place] += unit
            length += unit * unit
        for at in range(distinct):
            place = np.uint64(touched[at])
            unit = np.int64(word_counts[place] * weights[place] * scale)
            total[place] += unit
            length += unit * unit
        if length > limit * limit:
            length = _correct_rounding(
                ngrams[first:last],
                counts[first:last],
                word_counts,
                touched[:distinct],
                weights,
                scale,
                total,
                limit,
            )
        squared_norms[user] = length
        for at in range(distinct):
            word_counts[touched[at]] = 0
    return total


@inlined
def _limited_scale(norm: float, clip_norm: float, limit: int) -> float:
    """Return B/max(norm, Λ), or less where the scaled norm would be above the user's limit."""
    scale = UNITS / max(norm, clip_norm)
    if limit < UNITS and norm > 0:
        scale = min(scale, limit / norm)
    return scale


@kernel
def _clipped_mass_sum(
    starts: Integers,
    ngrams: Ids,
    counts: Ids,
    weights: Floats,
    words: Ids,
    clip_norm: float,
    clipped_weights: Floats,
    clipped_words: Ids,
    clipped_norm: float,
    limits: Integers,
    squared_norms: Integers,
) -> Integers:
    """Return Σ z over users of the words that clipping removes, from users above the clip norm.

    It writes Σ z² of each user.
    """
    total = np.zeros(clipped_weights.size, np.int64)
    word_counts = np.zeros(clipped_weights.size, np.int64)
    norm_word_counts = np.zeros(weights.size, np.int64)
    touched = np.empty(longest_row(starts) * max(words.shape[1], clipped_words.shape[1]), np.int64)
    for user in range(starts.size - 1):
        first = starts[user]
        last = starts[user + 1]
        norm = user_norm(ngrams, counts, first, last, weights, words, norm_word_counts, touched)
        if norm <= clip_norm:
            continue
        removed = 1 - clip_norm / norm
        distinct = _count_words(ngrams, counts, first, last, clipped_words, word_counts, touched)
        squares = _sum_squares_of_words(word_counts, touched, distinct, clipped_weights)
        limit = limits[user]
        norm_of_words = math.sqrt(squares)
        scale = UNITS * removed / max(removed * norm_of_words, clipped_norm)
        if limit < UNITS and norm_of_words > 0:
            scale = min(scale, limit / norm_of_words)
        length = np.int64(0)
        for at in range(distinct):
            place = np.uint64(touched[at])
            unit = np.int64(word_counts[place] * clipped_weights[place] * scale)
            total[place] += unit
            length += unit * unit
        if length > limit * limit:
            length = _correct_rounding(
                ngrams[:0],
                counts[:0],
                word_counts,
                touched[:distinct],
                clipped_weights,
                scale,
                total,
                limit,
            )
        squared_norms[user] = length
        for at in range(distinct):
            word_counts[touched[at]] = 0
    return total


@kernel
def _correct_rounding(
    ngrams: Ids,
    counts: Ids,
    word_counts: Integers,
    touched: Integers,
    weights: Floats,
    scale: float,
    total: Integers,
    limit: int,
) -> np.int64:
    """Correct one user's contribution to `total`, whose Σ z² rounding pushed over the limit².

    Returns:
        Σ z² after the correction.
    """
    places = np.concatenate((ngrams.astype(np.int64), touched))
    values = np.concatenate((counts.astype(np.int64), word_counts[touched]))
    units = (values * weights[places] * scale).astype(np.int64)
    for at in range(places.size):
        total[places[at]] -= units[at]
    length = enforce_norm_bound(units, limit)
    for at in range(places.size):
        total[places[at]] += units[at]
    return length


@kernel
def enforce_norm_bound(units: Integers, limit: int) -> np.int64:
    """Lower the largest entries one by one until Σ units² ≤ limit², in integers.

    Formal guarantee: afterwards the L2 norm of `units` is at most `limit`, which is B = UNITS or
    less. Floating-point rounding can only have pushed it a little over, so that few entries change.

    Returns:
        Σ units².
    """
    length = np.int64(0)
    for unit in units:
        length += unit * unit
    while length > limit * limit:
        largest = np.argmax(units)
        length -= 2 * units[largest] - 1
        units[largest] -= 1
    return length


@inlined
def user_norm(
    ngrams: Ids,
    counts: Ids,
    first: int,
    last: int,
    weights: Floats,
    words: Ids,
    word_counts: Integers,
    touched: Integers,
) -> float:
    """Return ‖counts/shape‖₂ of a user, words included; `word_counts` is zeros before and after."""
    distinct = _count_words(ngrams, counts, first, last, words, word_counts, touched)
    squares = _sum_squares(ngrams, counts, first, last, weights) + _sum_squares_of_words(
        word_counts, touched, distinct, weights
    )
    for at in range(distinct):
        word_counts[touched[at]] = 0
    return math.sqrt(squares)


@inlined
def _count_words(
    ngrams: Ids,
    counts: Ids,
    first: int,
    last: int,
    words: Ids,
    word_counts: Integers,
    touched: Integers,
) -> int:
    """Count a user's words in `word_counts`, list them in `touched`, and return their number.

    `word_counts` must be zeros before. A user's n-grams are ascending, so the words come in the
    same order wherever the user's rows came from.
    """
    size = 0
    order = words.shape[1]
    for at in range(first, last if order else first):
        for k in range(order):
            word = words[ngrams[at], k]
            if word < 0:
                continue
            if not word_counts[word]:
                touched[size] = word
                size += 1
            word_counts[word] += counts[at]
    return size


@inlined
def _sum_squares(ngrams: Ids, counts: Ids, first: int, last: int, weights: Floats) -> float:
    """Return Σ (count·weight)² of a user's n-grams.

    It adds up two sums, so that one addition need not wait for the other.
    """
    even = odd = 0.0
    for at in range(first, last - 1, 2):
        first_at = np.uint64(at)
        second_at = np.uint64(at + 1)
        first_value = counts[first_at] * weights[np.uint64(ngrams[first_at])]
        second_value = counts[second_at] * weights[np.uint64(ngrams[second_at])]
        even += first_value * first_value
        odd += second_value * second_value
    if (last - first) % 2:
        value = counts[last - 1] * weights[ngrams[last - 1]]
        even += value * value
    return even + odd


@inlined
def _sum_squares_of_words(
    word_counts: Integers, touched: Integers, distinct: int, weights: Floats
) -> float:
    squares = 0.0
    for at in range(distinct):
        value = word_counts[touched[at]] * weights[touched[at]]
        squares += value * value
    return squares


# --- Clipping of counts: C of each n-gram and W in all (Algorithm 1, lines 1–3; §4.3) ---

MAX_TOTAL = 1_000_000  # the largest W: drawing W occurrences takes memory for W numbers
Csr = tuple[Integers, Ids, Ids]  # where the rows of users start, their n-grams, and their counts


class Clipped(AggregateCounts):
    """Counts of which no entry exceeds `max_count` (C) and no row sum `max_total` (W).

    Only `clip` makes them.
    """

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

    def aggregate(self, measure: Callable[[UserRows], Array], merge: np.ufunc = np.add) -> Array:
        """Merge the answers of blocks of users, computed on all cores."""
        merged: Array = merge.reduce(self.blocks(measure))
        return merged

    def blocks(self, measure: Callable[[UserRows], Array]) -> list[Array]:
        """Return the answers of blocks of users, in order."""
        return map_user_blocks(UserRows(self.starts, self.ngrams, self.counts), measure)

    def select(self, users: Bools) -> "ClippedCounts":
        """Return the rows of some users."""
        sizes = np.diff(self.starts)
        rows = np.repeat(users, sizes)
        starts = np.concatenate([[0], np.cumsum(sizes[users])])
        bounds = (self.vocabulary_size, self.max_count, self.max_total)
        return ClippedCounts(starts, self.ngrams[rows], self.counts[rows], *bounds)


@dataclass(frozen=True, eq=False, repr=False)
class LazyClippedCounts(Clipped):
    """Clipped counts of rows that are elsewhere: each query clips every user anew, the same way."""

    counts: PrivateCounts
    vocabulary_size: int
    max_count: int
    max_total: int
    key: int

    def aggregate(self, measure: Callable[[UserRows], Array], merge: np.ufunc = np.add) -> Array:
        """Clip every user where their rows are, and merge the answers."""
        clipped_first = partial(_measure_clipped, measure, self.max_count, self.max_total, self.key)
        return self.counts.aggregate(clipped_first, merge)


def _measure_clipped(
    measure: Callable[[UserRows], Array], max_count: int, max_total: int, key: int, rows: UserRows
) -> Array:
    keys = id_keys(rows.users, key=key)
    return measure(
        UserRows(*_clip(rows.starts, rows.ngrams, rows.counts, max_count, max_total, keys))
    )


def user_keys(counts: UserCounts, *, key: int) -> Hashes:
    """Return a number for each user, which depends on the user's id and the run's key alone."""
    return id_keys(counts.users, key=key)


def id_keys(users: pa.LargeBinaryArray, *, key: int) -> Hashes:
    """Return a number for each of these ids, which depends on the id and the key alone."""
    return mix_all(hash_rows(*buffers(users)), np.uint64(key))


@kernel
def mix_all(values: Hashes, key: np.uint64) -> Hashes:
    """Replace 64-bit numbers by keyed hashes of them, in place, and return them."""
    for at in range(values.size):
        values[at] = mix(mix(values[at] ^ key) + key)
    return values


def check_max_count(value: int) -> int:
    """Return C unchanged, if it is a whole number from 1 to `MAX_COUNT`."""
    return check_int("max_count", value, 1, MAX_COUNT, "C, the most of one n-gram from a user,")


def check_max_total(value: int) -> int:
    """Return W unchanged, if it is a whole number from 1 to `MAX_TOTAL`."""
    return check_int("max_total", value, 1, MAX_TOTAL, "W, the most occurrences from a user,")


@overload
def clip(
    counts: UserCounts, *, max_count: int | None, max_total: int, key: int
) -> ClippedCounts: ...


@overload
def clip(counts: PrivateCounts, *, max_count: int | None, max_total: int, key: int) -> Clipped: ...


def clip(counts: PrivateCounts, *, max_count: int | None, max_total: int, key: int) -> Clipped:
    """Clip every user's counts: entries to C, then rows to W.

    Of a row that is above W, W occurrences are drawn without replacement.

    Args:
        counts: Private counts.
        max_count: C, the largest count of one n-gram; None for no limit.
        max_total: W, the largest number of occurrences.
        key: Seeds the drawing.
    """
    largest = MAX_COUNT if max_count is None else check_max_count(max_count)
    max_total = check_max_total(max_total)
    if not isinstance(counts, UserCounts):
        return LazyClippedCounts(counts, counts.vocabulary_size, largest, max_total, key)
    listed = counts.listed_only
    csr = _clip(
        listed.starts, listed.ngrams, listed.counts, largest, max_total, user_keys(listed, key=key)
    )
    return ClippedCounts(*csr, listed.vocabulary_size, largest, max_total)


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
    """Draw `size` of the row's occurrences, every set equally likely (Floyd's algorithm)."""
    total = row.sum()
    chosen = {np.int64(-1)}  # Numba can't type an empty set
    state = key
    for last in range(total - size, total):
        state += np.uint64(0x9E3779B97F4A7C15)
        place = np.int64(mix(state) % np.uint64(last + 1))
        chosen.add(np.int64(last) if place in chosen else place)
    places = np.array(list(chosen))
    places.sort()
    sample = np.zeros_like(row)
    entry = 0
    end = row[0]
    for place in places[1:]:
        while place >= end:
            entry += 1
            end += row[entry]
        sample[entry] += 1
    return sample
