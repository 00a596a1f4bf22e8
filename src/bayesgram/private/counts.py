"""Counts per user: users × 𝒱, sparse.

In:  records of users (text), or a Parquet file of (user, n-gram id, count).   Out: `UserCounts`.
All records of a user are merged, over all files, before anything else happens to them. Does not clip.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, overload

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from bayesgram.arguments import checked
from bayesgram.arrays import Hashes, Ids, Integers
from bayesgram.cores import CORES
from bayesgram.errors import UsageError
from bayesgram.files import Records, read_records
from bayesgram.files.segments import Segments
from bayesgram.notebook import html
from bayesgram.private.csr import MAX_COUNT, are_csr, csr_rows, in_order
from bayesgram.private.over_users import Array, PrivateCounts, Rows, in_blocks
from bayesgram.private.public_row_check import PublicRowCheck
from bayesgram.public.vocabulary import Vocabulary
from bayesgram.text.strings import StringTable, hash_rows
from bayesgram.text.tokens import buffers

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
        if not distinct or not are_csr(self.starts, self.ngrams, self.counts, len(self.users), self.vocabulary_size):
            raise UsageError("these are not counts per user; make them with count(), load_counts() or user_counts().")

    def __repr__(self) -> str:
        return f"UserCounts(private, over {self.vocabulary_size:,} n-grams)"

    def _repr_html_(self) -> str:
        """For notebooks: nothing of what was counted, nor of how many people."""
        return html(repr(self), [("note", "private: keep it where the text is kept")])

    def over_users(self, measure: Callable[[Rows], Array], merge: np.ufunc = np.add) -> Array:
        """Block by block on all cores."""
        merged: Array = merge.reduce(in_blocks(Rows(self.starts, self.ngrams, self.counts, self.users), measure))
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


def require_in_memory(counts: PrivateCounts, what: str) -> UserCounts:
    """The counts, where they are in this process's memory; what needs more than sums over users asks for that."""
    if not isinstance(counts, UserCounts):
        raise UsageError(
            f"{what}: looks at single users, which only the local engine can, in memory; leave engine=spark out, or"
            " read the counts with load_counts()."
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
    inputs: Any,  # paths or tables, see bayesgram.files
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
    rows: dict[str, Any] = {"user_column": user_column, "text_column": text_column, "skip_bad_rows": skip_bad_rows}
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
        raise UsageError(
            f"by={by!r}: name the `segments` too, such as de and fr: the list is public, not read from rows."
        )
    if names is not None or other:
        raise UsageError("segments: name the column that holds them too: say `by`.")
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
    names, waiting, runs, owners = StringTable(), Occurrences(), [], UserSegmentIds(vocabulary, segments)
    owned = ((batch.text, owners.of(names.add(*buffers(batch.user)), batch)) for batch in records)
    for found in vocabulary.matcher.match(owned, cores=cores, rows=None if check is None else check.private):
        waiting.add(*owners.apart(*found))
        if waiting.size > PENDING:
            runs.append(_merged(*together(waiting.take())))
    triples = (np.concatenate(column) for column in zip(*runs, once(*together(waiting.take())), strict=True))
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
    if in_order(users, ngrams):  # as in a counts folder: no need to sort, nor for the memory to do it
        starts = np.searchsorted(users, np.arange(first, first + len(names) + 1, dtype=np.int32))
        ngrams, counts, starts = (*(column[starts[0] : starts[-1]] for column in (ngrams, counts)), starts - starts[0])
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
