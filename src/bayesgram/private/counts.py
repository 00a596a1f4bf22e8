"""Rows of (user, n-gram, count) as CSR arrays: brought together by user, sorted, and added up.

In:  rows in any order.   Out: where each user begins, ascending n-grams, counts ≥ 1.   Does not know who a user is.

What may be asked of counts per user, wherever they are: sums over users, or the largest of something.

A question is a function of some whole users (`Rows`) that gives an array; the answers for all users are merged by
`np.add` or `np.maximum`. So one machine and a cluster run the same kernels, and as sums of integers do not depend on
who was asked first, they give the same bits. Does not hold users: `UserCounts` and an engine's counts do.

Counts per user: users × 𝒱, sparse.

In:  records of users (text), or a Parquet file of (user, n-gram id, count).   Out: `UserCounts`.
All records of a user are merged, over all files, before anything else happens to them. Does not clip.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import pairwise
from typing import Any, NamedTuple, TypeVar, overload

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from bayesgram.arguments import checked
from bayesgram.arrays import Hashes, Ids, Integers
from bayesgram.cores import CORES, parallel_map
from bayesgram.errors import Argument, UsageError
from bayesgram.io import Records, read_records
from bayesgram.io.segments import Segments
from bayesgram.kernels import copy_part, inlined, kernel
from bayesgram.notebook import html
from bayesgram.private.public_row_check import PublicRowCheck
from bayesgram.public.vocabulary import Vocabulary
from bayesgram.text.strings import StringTable, hash_rows
from bayesgram.text.tokenizer import buffers

MAX_COUNT = np.iinfo(np.int32).max  # larger counts stay there: every mechanism clips far below
SHORT = 32  # rows that are sorted in the simplest way
DIGIT = 8  # bits by which longer ones are sorted at a time


def csr_rows(
    users: Ids, ngrams: Ids, counts: Ids, first: int, size: int
) -> tuple[Integers, Ids, Ids]:
    """CSR arrays of `size` users: bring a user's rows together, sort them, add up equal n-grams."""
    begins, keys = _by_user(users, ngrams, counts, first, size)
    longest, largest = int(np.diff(begins).max(initial=0)), int(ngrams.max(initial=0))
    return _merge(begins, keys, np.empty(longest, np.int64), largest)


@kernel
def _by_user(
    users: Ids, ngrams: Ids, counts: Ids, first: int, size: int
) -> tuple[Integers, Integers]:
    """Where the rows of each of `size` users begin, and all of their rows: n-gram above, count below."""
    begins = np.zeros(size + 1, np.int64)
    for user in users:
        if 0 <= user - first < size:
            begins[user - first + 1] += 1
    for user in range(size):
        begins[user + 1] += begins[user]
    fill = begins[:-1].copy()
    keys = np.empty(begins[-1], np.int64)
    for at in range(users.size):
        user = users[at] - first
        if 0 <= user < size:
            keys[fill[user]] = np.int64(ngrams[at]) << 32 | np.int64(counts[at])
            fill[user] += 1
    return begins, keys


@kernel
def _merge(
    begins: Integers, keys: Integers, spare: Integers, largest: int
) -> tuple[Integers, Ids, Ids]:
    """CSR arrays: sort each user's rows, and add up equal n-grams."""
    starts = np.zeros(begins.size, np.int64)
    merged_ngrams, merged_counts = np.empty(keys.size, np.int32), np.empty(keys.size, np.int32)
    bins = np.empty(1 << DIGIT, np.int64)
    written = 0
    for user in range(begins.size - 1):
        row = keys[begins[user] : begins[user + 1]]
        if row.size <= SHORT:
            _insertion_sort(row)
        elif not _ascending(row):
            _radix_sort(row, largest, spare, bins)
        for key in row:
            ngram = np.int32(key >> 32)
            number = key & 0xFFFFFFFF
            if written > starts[user] and merged_ngrams[written - 1] == ngram:
                merged_counts[written - 1] = min(merged_counts[written - 1] + number, MAX_COUNT)
            else:
                merged_ngrams[written] = ngram
                merged_counts[written] = number
                written += 1
        starts[user + 1] = written
    return starts, merged_ngrams[:written].copy(), merged_counts[:written].copy()


@kernel
def in_order(users: Ids, ngrams: Ids) -> bool:
    """Whether users ascend, and the n-grams of each."""
    for at in range(1, users.size):
        if users[at] < users[at - 1] or (
            users[at] == users[at - 1] and ngrams[at] <= ngrams[at - 1]
        ):
            return False
    return True


@inlined
def _insertion_sort(row: Integers) -> None:
    for at in range(1, row.size):
        key, place = row[at], at
        while place > 0 and row[place - 1] > key:
            row[place] = row[place - 1]
            place -= 1
        row[place] = key


@inlined
def _radix_sort(row: Integers, largest: int, spare: Integers, bins: Integers) -> None:
    """Sort by n-gram, a digit after the other from the lowest on; which of equal ones comes first does not matter."""
    shift, last = 32, (1 << DIGIT) - 1
    while largest:
        bins[:] = 0
        for key in row:
            bins[key >> shift & last] += 1
        begin = 0
        for digit in range(bins.size):
            begin, bins[digit] = begin + bins[digit], begin
        for key in row:
            spare[bins[key >> shift & last]] = key
            bins[key >> shift & last] += 1
        copy_part(spare, 0, row.size, row, 0)
        shift, largest = shift + DIGIT, largest >> DIGIT


@inlined
def _ascending(row: Integers) -> bool:
    for at in range(1, row.size):
        if row[at] < row[at - 1]:
            return False
    return True


@kernel
def are_csr(starts: Integers, ngrams: Ids, counts: Ids, users: int, vocabulary_size: int) -> bool:
    """Whether these are CSR arrays with ascending n-grams of the vocabulary and counts of 1 or more."""
    if (
        starts.size != users + 1
        or starts[0] != 0
        or starts[-1] != ngrams.size
        or counts.size != ngrams.size
    ):
        return False
    for user in range(users):
        last = -1
        if not 0 <= starts[user] <= starts[user + 1] <= ngrams.size:
            return False
        for at in range(starts[user], starts[user + 1]):
            if not last < ngrams[at] < vocabulary_size or counts[at] < 1:
                return False
            last = ngrams[at]
    return True


Array = TypeVar("Array", bound=NDArray[Any])


class Rows(NamedTuple):
    """Some users, whole: user u has `ngrams[starts[u] : starts[u + 1]]`, ascending. `starts` may begin anywhere."""

    starts: Integers
    ngrams: Ids
    counts: Ids
    users: pa.LargeBinaryArray | None = None  # ids, where they are known


NOBODY = Rows(
    np.zeros(1, np.int64),
    np.zeros(0, np.int32),
    np.zeros(0, np.int32),
    pa.array([], pa.large_binary()),
)


class OverUsers(ABC):
    """Counts of users over a vocabulary, of which only answers about all of them together can be had."""

    vocabulary_size: int

    @abstractmethod
    def over_users(self, measure: Callable[[Rows], Array], merge: np.ufunc = np.add) -> Array:
        """Ask all users, some at a time, and merge the answers."""

    @cached_property
    def totals(self) -> Integers:
        """c: how often each n-gram occurs over all users."""
        return self.over_users(partial(_totals, size=self.vocabulary_size))

    @cached_property
    def users_per_ngram(self) -> Integers:
        """N: how many users have each n-gram."""
        return self.over_users(partial(_users_per_ngram, size=self.vocabulary_size))


class PrivateCounts(OverUsers):
    """What a mechanism is given: counts as people wrote them, not yet bounded."""

    vocabulary_fingerprint: str | None  # None: made elsewhere, and does not say

    def once(self, name: tuple[object, ...], make: Callable[[], Integers]) -> Integers:  # noqa: ARG002
        """A sum over these users. A subclass may remember it by its name, where many releases share it (figures)."""
        return make()

    def check_vocabulary(self, size: int, fingerprint: str) -> None:
        """Refuse a vocabulary that these counts were not made with."""
        if self.vocabulary_size != size or self.vocabulary_fingerprint not in {None, fingerprint}:
            mine = (
                "unknown"
                if self.vocabulary_fingerprint is None
                else f"{self.vocabulary_fingerprint[:12]}…"
            )
            raise UsageError(
                f"the counts belong to the vocabulary {mine} of {self.vocabulary_size:,} n-grams, and this one is"
                f" {fingerprint[:12]}… of {size:,}; give the one the counts were made with, or count again."
            )


def in_blocks(rows: Rows, measure: Callable[[Rows], Array]) -> list[Array]:
    """The answers of runs of users, in order, asked on all cores: kernels release the GIL."""

    def block(users: tuple[int, int]) -> Array:
        first, last = users
        ids = None if rows.users is None else rows.users[first:last]
        return measure(Rows(rows.starts[first : last + 1], rows.ngrams, rows.counts, ids))

    return parallel_map(block, user_blocks(rows.starts, CORES))


def user_blocks(starts: Integers, blocks: int) -> list[tuple[int, int]]:
    """Runs of whole users with about as many nonzeros each."""
    edges = np.searchsorted(starts, np.linspace(0, starts[-1], blocks + 1))
    edges[0], edges[-1] = 0, starts.size - 1
    return [(int(first), int(last)) for first, last in pairwise(edges)]


def _totals(rows: Rows, size: int) -> Integers:
    part = slice(rows.starts[0], rows.starts[-1])
    return totals_of(rows.ngrams[part], rows.counts[part], size)


def _users_per_ngram(rows: Rows, size: int) -> Integers:
    return np.bincount(rows.ngrams[rows.starts[0] : rows.starts[-1]], minlength=size)


@kernel
def totals_of(ngrams: Ids, counts: Ids, vocabulary_size: int) -> Integers:
    """How often each n-gram occurs."""
    totals = np.zeros(vocabulary_size, np.int64)
    for at in range(ngrams.size):
        totals[ngrams[at]] += counts[at]
    return totals


PENDING = 1 << 24  # occurrences kept before they are merged

Triples = tuple[Ids, Ids, Ids]  # users, n-grams, counts


@dataclass(frozen=True, eq=False, repr=False)
class UserCounts(PrivateCounts):
    """A sparse matrix in CSR form; row u holds `ngrams[starts[u] : starts[u + 1]]`, ascending, with `counts` ≥ 1."""

    users: pa.LargeBinaryArray  # ids, distinct
    starts: Integers
    ngrams: Ids
    counts: Ids
    vocabulary_size: int
    vocabulary_fingerprint: str | None  # None: made elsewhere, and does not say

    def __post_init__(self) -> None:
        """One row a user, and each n-gram once in it: every bound on what one user adds rests on that."""
        distinct = pc.count_distinct(self.users).as_py() == len(self.users)
        if not distinct or not are_csr(
            self.starts, self.ngrams, self.counts, len(self.users), self.vocabulary_size
        ):
            raise UsageError(
                "these are not counts per user; make them with count(), load_counts() or user_counts()."
            )

    def __repr__(self) -> str:
        return f"UserCounts(private, over {self.vocabulary_size:,} n-grams)"

    def _repr_html_(self) -> str:
        """For notebooks: nothing of what was counted, nor of how many people."""
        return html(repr(self), [("note", "private: keep it where the text is kept")])

    def over_users(self, measure: Callable[[Rows], Array], merge: np.ufunc = np.add) -> Array:
        """Block by block on all cores."""
        merged: Array = merge.reduce(
            in_blocks(Rows(self.starts, self.ngrams, self.counts, self.users), measure)
        )
        return merged


@dataclass(frozen=True, eq=False, repr=False)
class SegmentedCounts:
    """Counts per user and segment: one row a user, whatever segments they are in, over segments × n-grams.

    N-gram i in segment s is column s·V + i. Not `PrivateCounts`: only a mechanism that knows of segments takes them.
    """

    flat: PrivateCounts  # over segments × n-grams
    segments: Segments

    def __repr__(self) -> str:
        return f"SegmentedCounts(private, over {len(self.segments)} segments and {self.vocabulary_size:,} n-grams)"

    @property
    def vocabulary_size(self) -> int:
        """V."""
        return self.flat.vocabulary_size // len(self.segments)

    def check_vocabulary(self, size: int, fingerprint: str) -> None:
        """Refuse a vocabulary that these counts were not made with."""
        PrivateCounts.check_vocabulary(self, size, fingerprint)  # type: ignore[arg-type]

    @property
    def vocabulary_fingerprint(self) -> str | None:
        """Of the vocabulary; None: made elsewhere, and does not say."""
        return self.flat.vocabulary_fingerprint

    def totals(self, segment: str | None = None) -> Integers:
        """How often each n-gram occurs in a segment, or in all of them together."""
        by_segment = self.flat.totals.reshape(len(self.segments), -1)
        summed: Integers = by_segment.sum(axis=0)
        return summed if segment is None else by_segment[self.segments.all_names.index(segment)]


def check_size(segments: Segments, vocabulary: Vocabulary) -> None:
    """Refuse more segments × n-grams than a number has room for."""
    if len(segments) * len(vocabulary) > MAX_COUNT:
        raise UsageError(
            f"{len(segments)} segments of {len(vocabulary):,} n-grams: at most {MAX_COUNT:,} numbers can be counted;"
            " use fewer segments, or a smaller vocabulary."
        )


def require_in_memory(counts: PrivateCounts, what: str | Argument) -> UserCounts:
    """The counts, where they are in this process's memory; what needs more than sums over users asks for that."""
    if not isinstance(counts, UserCounts):
        raise UsageError(
            what,
            ": looks at single users, which only the local engine can, in memory; leave ",
            Argument("engine", "spark"),
            " out, or read the counts with load_counts().",
        )
    return counts


@overload
def count(
    inputs: Any,  # noqa: ANN401
    vocabulary: Vocabulary,
    *,
    user_column: str = ...,
    text_column: str = ...,
    skip_bad_rows: bool = ...,
    allow_public: bool = ...,
) -> UserCounts: ...
@overload
def count(
    inputs: Any,  # noqa: ANN401
    vocabulary: Vocabulary,
    *,
    by: str,
    segments: Sequence[str],
    other: bool = ...,
    user_column: str = ...,
    text_column: str = ...,
    skip_bad_rows: bool = ...,
    allow_public: bool = ...,
) -> SegmentedCounts: ...
@checked
def count(
    inputs: Any,  # paths or tables, see bayesgram.io
    vocabulary: Vocabulary,
    *,
    by: str | None = None,
    segments: Sequence[str] | None = None,
    other: bool = False,
    user_column: str = "user",
    text_column: str = "text",
    skip_bad_rows: bool = False,
    allow_public: bool = False,
) -> UserCounts | SegmentedCounts:
    """Count the vocabulary's n-grams in every user's text: files, folders, globs or tables.

    `by` is a column that says which of the `segments` a row is in; `other` takes rows that are in none of them.
    Where the vocabulary knows its public rows, private rows that were among them are refused, unless
    `allow_public` is set (docs/promise.md).
    """
    listed = segments_asked(by, segments, other=other)
    rows: dict[str, Any] = {
        "user_column": user_column,
        "text_column": text_column,
        "skip_bad_rows": skip_bad_rows,
    }
    check = PublicRowCheck.of(vocabulary, allow_public=allow_public)
    records = read_records(inputs, segments=listed, **rows)
    found = count_records(records, vocabulary, segments=listed, check=check)
    check.finish()
    return found if listed is None else SegmentedCounts(found, listed)


def segments_asked(by: str | None, names: Sequence[str] | None, *, other: bool) -> Segments | None:
    """The segments, if any; a column without a list is refused, for the list must not come from private rows."""
    if by is not None and names is not None:
        return Segments.of(by, names, other=other)
    if by is not None:
        raise UsageError.for_argument(
            "by",
            repr(by),
            "name the ",
            Argument("segments"),
            " too, such as de and fr: the list is public, not read from rows.",
        )
    if names is not None or other:
        raise UsageError("segments: name the column that holds them too: say ", Argument("by"), ".")
    return None


def count_records(
    records: Iterable[Records],
    vocabulary: Vocabulary,
    *,
    cores: int = CORES,
    segments: Segments | None = None,
    check: PublicRowCheck | None = None,
) -> UserCounts:
    """Count the vocabulary's n-grams in every user's text; the order of files and rows does not matter.

    `check` gets the rows, and is left to the caller to finish.
    """
    names, waiting, runs, owners = (
        StringTable(),
        Occurrences(),
        [],
        UserSegmentIds(vocabulary, segments),
    )
    owned = ((batch.text, owners.of(names.add(*buffers(batch.user)), batch)) for batch in records)
    for found in vocabulary.matcher.match(
        owned, cores=cores, rows=None if check is None else check.private
    ):
        waiting.add(*owners.apart(*found))
        if waiting.size > PENDING:
            runs.append(_merged(*together(waiting.take())))
    triples = (
        np.concatenate(column)
        for column in zip(*runs, once(*together(waiting.take())), strict=True)
    )
    counts = user_counts(names.strings(), *triples, vocabulary_size=owners.columns)
    return _by_hash(counts, vocabulary.fingerprint)


class UserSegmentIds:
    """Who wrote a row, and in which segment, as one number while text is searched."""

    def __init__(self, vocabulary: Vocabulary, segments: Segments | None) -> None:
        if segments is not None:
            check_size(segments, vocabulary)
        self._size, self._segments = len(vocabulary), 0 if segments is None else len(segments)

    @property
    def columns(self) -> int:
        """Of the counts: n-grams, or segments × n-grams."""
        return self._size * max(self._segments, 1)

    def of(self, users: Ids, batch: Records) -> Ids:
        """User and segment of every row."""
        if batch.segment is None:
            return users
        if int(users.max(initial=0)) >= MAX_COUNT // self._segments:
            raise UsageError(
                f"{self._segments} segments: too many for so many users; at most {MAX_COUNT:,} pairs of a user and a"
                " segment can be counted. Use fewer segments."
            )
        return users * np.int32(self._segments) + batch.segment

    def apart(self, owners: Ids, ngrams: Ids) -> tuple[Ids, Ids]:
        """Users, and columns of the counts."""
        if not self._segments:
            return owners, ngrams
        users, segments = np.divmod(owners, np.int32(self._segments))
        return users, segments * np.int32(self._size) + ngrams


class Occurrences:
    """(user, n-gram) pairs that wait to be merged."""

    def __init__(self) -> None:
        self._parts: list[tuple[Ids, Ids]] = []
        self.size = 0

    def add(self, users: Ids, ngrams: Ids) -> None:
        """One occurrence each."""
        self._parts.append((users, ngrams))
        self.size += ngrams.size

    def take(self) -> list[tuple[Ids, Ids]]:
        """All of them, some at a time; none are left."""
        taken, self._parts, self.size = self._parts, [], 0
        return taken


def together(parts: Iterable[Sequence[Ids]]) -> tuple[Ids, Ids]:
    """The occurrences of several parts."""
    empty = np.zeros(0, np.int32)
    users, ngrams = (np.concatenate(column) for column in zip((empty, empty), *parts, strict=True))
    return users, ngrams


def once(users: Ids, ngrams: Ids) -> Triples:
    """Rows with a count of 1."""
    return users, ngrams, np.ones(users.size, np.int32)


def _merged(users: Ids, ngrams: Ids) -> Triples:
    """Ordered rows, with each n-gram of a user once."""
    starts, ngrams, counts = csr_rows(*once(users, ngrams), 0, int(users.max(initial=-1)) + 1)
    return np.repeat(np.arange(starts.size - 1, dtype=np.int32), np.diff(starts)), ngrams, counts


def user_counts(
    names: pa.LargeBinaryArray,
    users: Ids,
    ngrams: Ids,
    counts: Ids,
    *,
    first: int = 0,
    vocabulary_size: int,
    vocabulary_fingerprint: str | None = None,
) -> UserCounts:
    """Merge (user, n-gram, count) rows in any order; users without a row are left out.

    The names are those of the users from `first` on; rows of users who have no name here are left alone.
    """
    if in_order(
        users, ngrams
    ):  # as in a counts folder: no need to sort, nor for the memory to do it
        starts = np.searchsorted(users, np.arange(first, first + len(names) + 1, dtype=np.int32))
        ngrams, counts, starts = (
            *(column[starts[0] : starts[-1]] for column in (ngrams, counts)),
            starts - starts[0],
        )
    else:
        starts, ngrams, counts = csr_rows(users, ngrams, counts, first, len(names))
    present = np.flatnonzero(np.diff(starts))
    if present.size < len(names):
        names, starts = names.take(pa.array(present)), starts[np.append(present, -1)]
    return UserCounts(names, starts, ngrams, counts, vocabulary_size, vocabulary_fingerprint)


def whole_rows(rows: Rows, vocabulary_size: int) -> Rows:
    """The rows of some users, each with ascending n-grams; what comes twice is added up."""
    size = rows.starts.size - 1
    if are_csr(rows.starts, rows.ngrams, rows.counts, size, vocabulary_size):
        return rows
    owners = np.repeat(np.arange(size, dtype=np.int32), np.diff(rows.starts))
    return Rows(*csr_rows(owners, rows.ngrams, rows.counts, 0, size), rows.users)


def hash_order(names: pa.LargeBinaryArray, hashes: Hashes) -> Integers:
    """Users in order of the hashes of their ids; of equal hashes, the ids in byte order.

    The order is a function of the ids alone, so that a result does not tell how it was read; and about where a user
    comes in it is known before all users are.
    """
    order: Integers = np.argsort(hashes, kind="stable")
    same = np.flatnonzero(np.diff(hashes[order]) == 0)
    for value in np.unique(hashes[order][same]):  # none, but for somebody who looks for them
        tied = slice(*(np.searchsorted(hashes, value, side, order) for side in ("left", "right")))
        order[tied] = order[tied][pc.sort_indices(names.take(pa.array(order[tied]))).to_numpy()]
    return order


def _by_hash(counts: UserCounts, fingerprint: str) -> UserCounts:
    """The same counts with users in order of the hashes of their ids."""
    order = hash_order(counts.users, hash_rows(*buffers(counts.users)))
    sizes = np.diff(counts.starts)[order]
    starts = np.concatenate([[0], np.cumsum(sizes)])
    places = np.repeat(counts.starts[order] - starts[:-1], sizes) + np.arange(starts[-1])
    return UserCounts(
        counts.users.take(pa.array(order)),
        starts,
        counts.ngrams[places],
        counts.counts[places],
        counts.vocabulary_size,
        fingerprint,
    )


def without_user(counts: UserCounts, user: int) -> UserCounts:
    """The neighbour that lacks this row."""
    first, last = counts.starts[user : user + 2]
    return UserCounts(
        pa.concat_arrays([counts.users[:user], counts.users[user + 1 :]]),
        np.concatenate([counts.starts[:user], counts.starts[user + 1 :] - (last - first)]),
        np.concatenate([counts.ngrams[:first], counts.ngrams[last:]]),
        np.concatenate([counts.counts[:first], counts.counts[last:]]),
        counts.vocabulary_size,
        counts.vocabulary_fingerprint,
    )


def with_users(counts: UserCounts, rows: Sequence[tuple[Ids, Ids]]) -> UserCounts:
    """The dataset with more users, each an (ascending n-grams, counts) row; their ids are longer than anybody's."""
    longest = pc.max(pc.binary_length(counts.users)).as_py() or 0
    names = pa.array([b"+" * longest + b"+%d" % at for at in range(len(rows))], pa.large_binary())
    sizes = np.array([ngrams.size for ngrams, _ in rows], np.int64)
    return UserCounts(
        pa.concat_arrays([counts.users, names]),
        np.concatenate([counts.starts, counts.starts[-1] + np.cumsum(sizes)]),
        np.concatenate([counts.ngrams, *(ngrams for ngrams, _ in rows)]).astype(np.int32),
        np.concatenate([counts.counts, *(numbers for _, numbers in rows)]).astype(np.int32),
        counts.vocabulary_size,
        counts.vocabulary_fingerprint,
    )
