"""Counts of n-grams per user: a sparse matrix, users × vocabulary.

`count` reads users' text and returns `UserCounts` (in memory) or `SegmentedCounts`. All records of
a user are merged, over all files, before anything else happens to them. Clipping comes later
(`clipping`).

Mechanisms take `PrivateCounts`, of which only aggregates over all users can be had: a *measure* is
a function of some complete users (`UserRows`) that returns an array, and the arrays of all users
are merged by `np.add` or `np.maximum`. So one machine and a cluster run the same kernels. As sums
of integers do not depend on the order of users, both return the same bits.

Counts also hold how many n-grams a user wrote that the vocabulary does not list, for each of its
orders: columns after those of the n-grams. `PrivateCounts.aggregate` leaves them out, and
`aggregate_all` does not.

The kernels at the end bring rows of (user, n-gram, count) into CSR form: rows come in any order,
and leave with ascending n-grams and counts ≥ 1, one run of rows a user.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from itertools import pairwise
from typing import Any, NamedTuple, TypeVar, overload

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from bayesgram.arguments import check_arguments
from bayesgram.arrays import Hashes, Ids, Integers
from bayesgram.cores import CORES, parallel_map
from bayesgram.errors import Argument, UsageError
from bayesgram.io import Records, read_records
from bayesgram.io.records import UserIdTypes
from bayesgram.io.segments import Segments
from bayesgram.kernels import copy_part, inlined, kernel
from bayesgram.notebook import html
from bayesgram.privacy.constants import UNITS
from bayesgram.private.public_row_check import PublicRowCheck
from bayesgram.private.unlisted import UnlistedTotals
from bayesgram.public.vocabulary import Vocabulary
from bayesgram.text.ngrams import START
from bayesgram.text.strings import StringTable, hash_rows
from bayesgram.text.tokenizer import buffers

MAX_COUNT = np.iinfo(np.int32).max  # larger counts stay there: every mechanism clips far below

# Occurrences (user, n-gram) that wait in memory before `count_records` merges them; not measured.
MAX_PENDING = 1 << 24

INSERTION_SORT_ROWS = 32  # users with no more rows than this are sorted by insertion; not measured
RADIX_BITS = 8  # bits of an n-gram id by which longer rows are sorted at a time; not measured

Array = TypeVar("Array", bound=NDArray[Any])
CountRows = tuple[Ids, Ids, Ids]  # users, n-grams, counts


# --- What mechanisms take: aggregates over users ---


@dataclass(frozen=True, eq=False)
class Meter:
    """How much each user may contribute to a sum, and how much they did (`private.allowances`).

    Attributes:
        limits: The largest L2 norm of the contribution of each user, at most `UNITS`.
        squares: Written by the kernels: the squared L2 norm that each user contributed.
        activity: The class of each user by how often they write.
        numbers: The places of the users of some rows in these arrays.
    """

    limits: Integers
    squares: Integers
    activity: Ids
    numbers: Integers

    def select(self, kept: Integers) -> "Meter":
        """Return the meter of some of the users of these rows."""
        return replace(self, numbers=self.numbers[kept])


class UserRows(NamedTuple):
    """Some users, each complete: user u has `ngrams[starts[u] : starts[u + 1]]`, ascending."""

    starts: Integers  # may begin anywhere in `ngrams`
    ngrams: Ids
    counts: Ids
    users: pa.LargeBinaryArray | None = None  # ids, where they are known
    first: int = 0  # the number of the first user among all, in the order in which they are read
    meter: Meter | None = None  # where contributions are limited for each user

    @property
    def user_count(self) -> int:
        """How many users there are."""
        return self.starts.size - 1

    def norm_limits(self) -> Integers:
        """Return the largest norm that each user may contribute: B, unless a meter says less."""
        if self.meter is None:
            return np.full(self.user_count, UNITS)
        return self.meter.limits[self.meter.numbers]

    def activity_classes(self) -> Ids:
        """Return the class of each user by how often they write; 0 without a meter."""
        if self.meter is None:
            return np.zeros(self.user_count, np.int32)
        return self.meter.activity[self.meter.numbers]

    def record_squares(self, squares: Integers) -> None:
        """Note the squared norm that each user contributed, where it is metered."""
        if self.meter is not None:
            self.meter.squares[self.meter.numbers] = squares


NO_USERS = UserRows(
    np.zeros(1, np.int64),
    np.zeros(0, np.int32),
    np.zeros(0, np.int32),
    pa.array([], pa.large_binary()),
)


class AggregateCounts(ABC):
    """Counts of users over a vocabulary, of which only aggregates over all users can be had."""

    vocabulary_size: int

    @abstractmethod
    def aggregate(self, measure: Callable[[UserRows], Array], merge: np.ufunc = np.add) -> Array:
        """Measure all users, some at a time, and merge the results.

        Args:
            measure: A function of some complete users that returns an array.
            merge: How the arrays of different users are merged: `np.add` or `np.maximum`.
        """

    @cached_property
    def totals(self) -> Integers:
        """c: how often each n-gram occurs over all users."""
        return self.aggregate(partial(_sum_counts, size=self.vocabulary_size))

    @cached_property
    def users_per_ngram(self) -> Integers:
        """N: how many users have each n-gram."""
        return self.aggregate(partial(_count_users, size=self.vocabulary_size))


class PrivateCounts(AggregateCounts):
    """What mechanisms take: counts as people wrote them, not yet bounded."""

    vocabulary_fingerprint: str | None  # None for counts made elsewhere that don't name one
    # Columns from `vocabulary_size` on: n-grams that the vocabulary does not list, of the k-th of
    # its K orders in column V + k (by segment, S·V + s·K + k). 0 where nobody counted them.
    unlisted_size: int = 0
    user_type: str | None = None  # what the column of users held, where that is known

    def aggregate(self, measure: Callable[[UserRows], Array], merge: np.ufunc = np.add) -> Array:
        """Measure all users who have an n-gram of the vocabulary, and merge the results.

        `measure` sees these n-grams alone.

        Args:
            measure: A function of some complete users that returns an array.
            merge: How the arrays of different users are merged: `np.add` or `np.maximum`.
        """
        if not self.unlisted_size:
            return self.aggregate_all(measure, merge)
        return self.aggregate_all(partial(_measure_listed, measure, self.vocabulary_size), merge)

    @abstractmethod
    def aggregate_all(
        self, measure: Callable[[UserRows], Array], merge: np.ufunc = np.add
    ) -> Array:
        """Measure all users who have any row, and all columns, and merge the results.

        Args:
            measure: A function of some complete users that returns an array. N-grams from
                `vocabulary_size` on are those that the vocabulary does not list.
            merge: How the arrays of different users are merged: `np.add` or `np.maximum`.
        """

    def metered_sum(
        self,
        compute: Callable[["PrivateCounts"], Integers],
        *,
        share: float,  # noqa: ARG002
        share_left: float,  # noqa: ARG002
    ) -> Integers:
        """Return the exact sum of a query.

        Counts whose users have an allowance (`private.allowances`) limit what each user
        contributes, and charge it. Others have nothing to charge.

        Args:
            compute: Returns the sum over the counts that it is given.
            share: The share of the budget (of 1/σ²) that the query takes.
            share_left: What is left of it for the queries of this order, this one included.
        """
        return compute(self)

    def cached_sum(self, name: tuple[object, ...], compute: Callable[[], Integers]) -> Integers:  # noqa: ARG002
        """Return a sum over these users.

        A subclass may remember it by its name, where many releases share it (as in the figures of
        the paper).
        """
        return compute()

    def check_vocabulary(self, size: int, fingerprint: str) -> None:
        """Refuse a vocabulary that these counts were not made with.

        Args:
            size: How many n-grams the vocabulary has.
            fingerprint: The hash that identifies it.

        Raises:
            UsageError: If the counts belong to another vocabulary.
        """
        _check_vocabulary(self.vocabulary_size, self.vocabulary_fingerprint, size, fingerprint)


def _check_vocabulary(
    counts_size: int, counts_fingerprint: str | None, size: int, fingerprint: str
) -> None:
    if counts_size == size and counts_fingerprint in {None, fingerprint}:
        return
    shown = "unknown" if counts_fingerprint is None else f"{counts_fingerprint[:12]}…"
    raise UsageError(
        f"the counts belong to the vocabulary {shown} of {counts_size:,} n-grams, and this one is"
        f" {fingerprint[:12]}… of {size:,}; give the one the counts were made with, or count again."
    )


# A plain function, so that it can be pickled: it runs where the users' rows are.
def _measure_listed(
    measure: Callable[[UserRows], Array], vocabulary_size: int, rows: UserRows
) -> Array:
    return measure(keep_listed(rows, vocabulary_size))


def keep_listed(rows: UserRows, vocabulary_size: int) -> UserRows:
    """Return the same users without what the vocabulary does not list.

    Users who have nothing else are left out.

    Args:
        rows: Some users, each complete.
        vocabulary_size: How many n-grams are listed.
    """
    kept, starts, ngrams, counts = _keep_listed(
        rows.starts, rows.ngrams, rows.counts, vocabulary_size
    )
    users = rows.users
    if users is not None and kept.size < len(users):
        users = users.take(pa.array(kept))
    meter = None if rows.meter is None else rows.meter.select(kept)
    return UserRows(starts, ngrams, counts, users, meter=meter)


@kernel
def _keep_listed(
    starts: Integers, ngrams: Ids, counts: Ids, vocabulary_size: int
) -> tuple[Integers, Integers, Ids, Ids]:
    """Return which users have listed n-grams, and their CSR arrays."""
    ends = np.empty(starts.size - 1, np.int64)
    users = 0
    size = 0
    for user in range(ends.size):
        # N-grams ascend: those that are not listed come last, and are few.
        end = starts[user + 1]
        while end > starts[user] and ngrams[end - 1] >= vocabulary_size:
            end -= 1
        ends[user] = end
        users += end > starts[user]
        size += end - starts[user]
    kept = np.empty(users, np.int64)
    kept_starts = np.zeros(users + 1, np.int64)
    kept_ngrams = np.empty(size, np.int32)
    kept_counts = np.empty(size, np.int32)
    users = 0
    size = 0
    for user in range(ends.size):
        if ends[user] == starts[user]:
            continue
        for at in range(starts[user], ends[user]):
            kept_ngrams[size] = ngrams[at]
            kept_counts[size] = counts[at]
            size += 1
        kept[users] = user
        kept_starts[users + 1] = size
        users += 1
    return kept, kept_starts, kept_ngrams, kept_counts


def _sum_counts(rows: UserRows, size: int) -> Integers:
    part = slice(rows.starts[0], rows.starts[-1])
    return sum_by_ngram(rows.ngrams[part], rows.counts[part], size)


def _count_users(rows: UserRows, size: int) -> Integers:
    return np.bincount(rows.ngrams[rows.starts[0] : rows.starts[-1]], minlength=size)


@kernel
def sum_by_ngram(ngrams: Ids, counts: Ids, vocabulary_size: int) -> Integers:
    """Return how often each n-gram of the vocabulary occurs."""
    totals = np.zeros(vocabulary_size, np.int64)
    for at in range(ngrams.size):
        totals[ngrams[at]] += counts[at]
    return totals


def map_user_blocks(rows: UserRows, measure: Callable[[UserRows], Array]) -> list[Array]:
    """Measure blocks of users on all cores, in order; kernels release the GIL."""

    def measure_block(block: tuple[int, int]) -> Array:
        first, last = block
        ids = None if rows.users is None else rows.users[first:last]
        starts = rows.starts[first : last + 1]
        return measure(UserRows(starts, rows.ngrams, rows.counts, ids, first))

    return parallel_map(measure_block, split_users(rows.starts, CORES))


def split_users(starts: Integers, blocks: int) -> list[tuple[int, int]]:
    """Split users into blocks of complete users with about as many rows each.

    Returns:
        The first user of each block, and the last plus 1.
    """
    edges = np.searchsorted(starts, np.linspace(0, starts[-1], blocks + 1))
    edges[0] = 0
    edges[-1] = starts.size - 1
    return [(int(first), int(last)) for first, last in pairwise(edges)]


# --- Counts in memory ---


@dataclass(frozen=True, eq=False, repr=False)
class UserCounts(PrivateCounts):
    """Counts of users in memory, as a sparse matrix in CSR form.

    Row u holds `ngrams[starts[u] : starts[u + 1]]`, ascending, with `counts` ≥ 1. Nothing of them
    is shown, not even the number of users.

    Attributes:
        users: The ids, which are distinct.
        starts: Where the row of each user begins, and where the last one ends.
        ngrams: The n-grams of all users, by their row in the vocabulary. Numbers from
            `vocabulary_size` on are those that it does not list; `listed_only` is without them.
        counts: How often the user wrote each.
        vocabulary_size: The number of n-grams of the vocabulary.
        vocabulary_fingerprint: Which vocabulary it is; None for counts made elsewhere.
        unlisted_size: The number of columns for n-grams that are not listed.
        user_type: What the column of users held, "text" or "whole numbers", where that is known.

    Example:
        >>> import bayesgram as bg
        >>> vocabulary = bg.Vocabulary.from_public(pa.table({"text": ["a b", "a c"]}), order=1)
        >>> bg.count(pa.table({"user": ["ann"], "text": ["a b"]}), vocabulary)
        UserCounts(private, over 3 n-grams)
    """

    users: pa.LargeBinaryArray
    starts: Integers
    ngrams: Ids
    counts: Ids
    vocabulary_size: int
    vocabulary_fingerprint: str | None
    unlisted_size: int = 0
    user_type: str | None = None

    def __post_init__(self) -> None:
        """Check that a user has one row, and each n-gram once in it.

        Every bound on what one user adds rests on that.
        """
        is_distinct = pc.count_distinct(self.users).as_py() == len(self.users)
        if not is_distinct or not is_valid_csr(
            self.starts,
            self.ngrams,
            self.counts,
            len(self.users),
            self.vocabulary_size + self.unlisted_size,
        ):
            raise UsageError(
                "these are not counts per user; make them with count(), load_counts() or"
                " build_user_counts()."
            )

    def __repr__(self) -> str:
        return f"UserCounts(private, over {self.vocabulary_size:,} n-grams)"

    def _repr_html_(self) -> str:
        """For notebooks: shows nothing of what was counted, nor of how many people."""
        return html(repr(self), [("note", "private: keep it where the text is kept")])

    @cached_property
    def listed_only(self) -> "UserCounts":
        """The same counts of the vocabulary's n-grams alone, and of users who wrote one of them.

        For whoever reads the arrays: nothing there is counted that the vocabulary does not list.
        """
        if not self.unlisted_size:
            return self
        rows = keep_listed(
            UserRows(self.starts, self.ngrams, self.counts, self.users), self.vocabulary_size
        )
        return UserCounts(
            self.users if rows.users is None else rows.users,
            rows.starts,
            rows.ngrams,
            rows.counts,
            self.vocabulary_size,
            self.vocabulary_fingerprint,
        )

    def aggregate_all(
        self, measure: Callable[[UserRows], Array], merge: np.ufunc = np.add
    ) -> Array:
        """Measure all users, block by block on all cores, and merge the results."""
        rows = UserRows(self.starts, self.ngrams, self.counts, self.users)
        merged: Array = merge.reduce(map_user_blocks(rows, measure))
        return merged


@dataclass(frozen=True, eq=False, repr=False)
class SegmentedCounts:
    """Counts per user and segment: one row a user, whatever segments they are in.

    N-gram i in segment s is column s·V + i of `flat`, and what the vocabulary does not list follows
    them all: of the k-th of K orders, column S·V + s·K + k. These are no `PrivateCounts`: only a
    mechanism that knows of segments takes them.

    Attributes:
        flat: Counts over segments × n-grams.
        segments: The segments, which are public.

    Example:
        >>> import bayesgram as bg
        >>> vocabulary = bg.Vocabulary.from_public(pa.table({"text": ["a b", "a c"]}), order=1)
        >>> texts = pa.table({"user": ["ann"], "text": ["a b"], "country": ["de"]})
        >>> bg.count(texts, vocabulary, by="country", segments=["de", "fr"])
        SegmentedCounts(private, over 2 segments and 3 n-grams)
    """

    flat: PrivateCounts
    segments: Segments

    def __repr__(self) -> str:
        return (
            f"SegmentedCounts(private, over {len(self.segments)} segments and"
            f" {self.vocabulary_size:,} n-grams)"
        )

    @property
    def vocabulary_size(self) -> int:
        """V: how many n-grams the vocabulary has."""
        return self.flat.vocabulary_size // len(self.segments)

    @property
    def vocabulary_fingerprint(self) -> str | None:
        """The fingerprint of the vocabulary; None for counts made elsewhere without one."""
        return self.flat.vocabulary_fingerprint

    def check_vocabulary(self, size: int, fingerprint: str) -> None:
        """Refuse a vocabulary that these counts were not made with."""
        _check_vocabulary(self.vocabulary_size, self.vocabulary_fingerprint, size, fingerprint)

    def totals(self, segment: str | None = None) -> Integers:
        """Return how often each n-gram occurs in a segment, or in all of them together."""
        by_segment = self.flat.totals.reshape(len(self.segments), -1)
        totals: Integers = (
            by_segment.sum(axis=0)
            if segment is None
            else by_segment[self.segments.all_names.index(segment)]
        )
        return totals


def require_in_memory(counts: PrivateCounts, caller: str | Argument) -> UserCounts:
    """Return counts that are in this process's memory, for what needs more than aggregates.

    Args:
        counts: Counts of any kind.
        caller: What needs them, for the message.

    Raises:
        UsageError: If the counts are elsewhere.
    """
    if not isinstance(counts, UserCounts):
        raise UsageError(
            caller,
            ": looks at single users, which only the local engine can, in memory; leave ",
            Argument("engine", "spark"),
            " out, or read the counts with load_counts().",
        )
    return counts


# --- Counting text ---


@overload
def count(
    inputs: Any,  # noqa: ANN401
    vocabulary: Vocabulary,
    *,
    user_column: str = ...,
    text_column: str = ...,
    skip_bad_rows: bool = ...,
    allow_public: bool = ...,
    delimiter: str | None = ...,
    encoding: str = ...,
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
    delimiter: str | None = ...,
    encoding: str = ...,
) -> SegmentedCounts: ...
@check_arguments
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
    delimiter: str | None = None,
    encoding: str = "utf-8",
) -> UserCounts | SegmentedCounts:
    """Count the vocabulary's n-grams in every user's text.

    Args:
        inputs: Files, folders, globs or tables.
        vocabulary: The n-grams to count.
        by: A column that says which of the `segments` a row is in.
        segments: The names of the segments, which are public.
        other: Whether rows of no listed segment are a segment of their own, not an error.
        user_column: The column of user ids.
        text_column: The column of text.
        skip_bad_rows: Whether rows that can't be used are skipped, not an error.
        allow_public: Whether private rows may be rows of the public text that the vocabulary was
            made from. They are refused otherwise, where the vocabulary knows its public rows
            (docs/promise.md).
        delimiter: What separates the columns of CSV and TSV files, if not commas and tabs.
        encoding: That of text files, such as "latin-1".

    Returns:
        The counts; by segment, if `by` is given.

    Raises:
        UsageError: If an argument, or a row, can't be used. The message has the place of a row, and
            nothing of its content.

    Example:
        >>> import bayesgram as bg
        >>> vocabulary = bg.Vocabulary.from_public(pa.table({"text": ["a b", "a c"]}), order=1)
        >>> bg.count(pa.table({"user": ["ann"], "text": ["a b"]}), vocabulary)
        UserCounts(private, over 3 n-grams)
    """
    segment_list = parse_segments(by, segments, other=other)
    check = PublicRowCheck.from_vocabulary(vocabulary, allow_public=allow_public)
    records = read_records(
        inputs,
        segments=segment_list,
        user_column=user_column,
        text_column=text_column,
        skip_bad_rows=skip_bad_rows,
        delimiter=delimiter,
        encoding=encoding,
    )
    counts = count_records(records, vocabulary, segments=segment_list, check=check)
    check.finish()
    return counts if segment_list is None else SegmentedCounts(counts, segment_list)


def parse_segments(by: str | None, names: Sequence[str] | None, *, other: bool) -> Segments | None:
    """Return the segments that the arguments of `count` name, if any.

    Raises:
        UsageError: If a column is given without a list of segments, which must not come from
            private rows; or a list without a column.
    """
    if by is not None and names is not None:
        return Segments.from_names(by, names, other=other)
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
    """Count the vocabulary's n-grams in every user's text.

    The order of files and rows does not matter.

    Args:
        records: The text of all users.
        vocabulary: The n-grams to count.
        cores: How many cores search text.
        segments: The segments to count by, if any; the columns are segments × n-grams then.
        check: Gets all rows; the caller finishes it.
    """
    names = StringTable()
    pending = Occurrences()
    merged: list[CountRows] = []
    owners = UserSegmentIds(vocabulary, segments)
    unlisted = owners.new_unlisted_totals()
    types = UserIdTypes()
    texts = (
        (batch.text, owners.encode(names.add(*buffers(batch.user)), batch))
        for batch in types.watch(records)
    )
    sample = None if check is None else check.private
    for matches in vocabulary.matcher.match(
        texts, cores=cores, rows=sample, add_unlisted=unlisted.add
    ):
        pending.add(*owners.decode(*matches))
        if pending.size > MAX_PENDING:
            merged.append(_merge_occurrences(*concatenate_occurrences(pending.take())))
    last = unit_counts(*concatenate_occurrences(pending.take()))
    parts = [*merged, last, owners.unlisted_rows(unlisted)]
    columns = (np.concatenate(column) for column in zip(*parts, strict=True))
    counts = build_user_counts(
        names.strings(),
        *columns,
        vocabulary_size=owners.column_count,
        unlisted_size=owners.unlisted_size,
        user_type=types.common,
    )
    return _sort_by_hash(counts, vocabulary.fingerprint)


class UserSegmentIds:
    """Who wrote a row, and in which segment, as one number while text is searched."""

    def __init__(self, vocabulary: Vocabulary, segments: Segments | None) -> None:
        self._vocabulary_size = len(vocabulary)
        self._order_count = len(vocabulary.by_order)
        self._segment_count = 0 if segments is None else len(segments)
        if segments is not None and self.column_count + self.unlisted_size > MAX_COUNT:
            raise UsageError(
                f"{len(segments)} segments of {len(vocabulary):,} n-grams: at most {MAX_COUNT:,}"
                " numbers can be counted; use fewer segments, or a smaller vocabulary."
            )

    @property
    def column_count(self) -> int:
        """Columns of the counts: n-grams, or segments × n-grams."""
        return self._vocabulary_size * max(self._segment_count, 1)

    @property
    def unlisted_size(self) -> int:
        """Columns after them, for n-grams that are not listed: orders, or segments × orders."""
        return self._order_count * max(self._segment_count, 1)

    def encode(self, users: Ids, batch: Records) -> Ids:
        """Return user and segment of every row, as one number."""
        if batch.segment is None:
            return users
        if int(users.max(initial=0)) >= MAX_COUNT // self._segment_count:
            raise UsageError(
                f"{self._segment_count} segments: too many for so many users; at most"
                f" {MAX_COUNT:,} pairs of a user and a segment can be counted. Use fewer segments."
            )
        return users * np.int32(self._segment_count) + batch.segment

    def decode(self, owners: Ids, ngrams: Ids) -> tuple[Ids, Ids]:
        """Return users, and columns of the counts, of encoded numbers and n-grams."""
        if not self._segment_count:
            return owners, ngrams
        users, segments = np.divmod(owners, np.int32(self._segment_count))
        return users, segments * np.int32(self._vocabulary_size) + ngrams

    def new_unlisted_totals(self) -> UnlistedTotals:
        """Return a place to add up what is not listed, by encoded number and order."""
        return UnlistedTotals(self._order_count)

    def unlisted_rows(self, totals: UnlistedTotals) -> CountRows:
        """Take totals, and return them as rows of counts."""
        owners, numbers = totals.take()
        places, orders = np.nonzero(numbers)
        users = owners[places]
        columns = self.column_count + orders
        if self._segment_count:
            users, segments = np.divmod(users, np.int32(self._segment_count))
            columns += segments * self._order_count
        counts = np.minimum(numbers[places, orders], MAX_COUNT)
        return users, columns.astype(np.int32), counts.astype(np.int32)


class Occurrences:
    """Pairs of a user and an n-gram that wait to be merged."""

    def __init__(self) -> None:
        self._parts: list[tuple[Ids, Ids]] = []
        self.size = 0

    def add(self, users: Ids, ngrams: Ids) -> None:
        """Add one occurrence for each pair."""
        self._parts.append((users, ngrams))
        self.size += ngrams.size

    def take(self) -> list[tuple[Ids, Ids]]:
        """Return all parts, and leave none."""
        parts = self._parts
        self._parts = []
        self.size = 0
        return parts


def concatenate_occurrences(parts: Iterable[Sequence[Ids]]) -> tuple[Ids, Ids]:
    """Return users and n-grams of several parts, of which there may be none."""
    empty = np.zeros(0, np.int32)
    users, ngrams = (np.concatenate(column) for column in zip((empty, empty), *parts, strict=True))
    return users, ngrams


def unit_counts(users: Ids, ngrams: Ids) -> CountRows:
    """Return rows with a count of 1."""
    return users, ngrams, np.ones(users.size, np.int32)


def _merge_occurrences(users: Ids, ngrams: Ids) -> CountRows:
    """Return rows in order of users and n-grams, with each n-gram of a user once."""
    user_count = int(users.max(initial=-1)) + 1
    starts, ngrams, counts = build_csr(*unit_counts(users, ngrams), 0, user_count)
    return np.repeat(np.arange(user_count, dtype=np.int32), np.diff(starts)), ngrams, counts


def build_user_counts(
    names: pa.LargeBinaryArray,
    users: Ids,
    ngrams: Ids,
    counts: Ids,
    *,
    first: int = 0,
    vocabulary_size: int,
    vocabulary_fingerprint: str | None = None,
    unlisted_size: int = 0,
    user_type: str | None = None,
) -> UserCounts:
    """Merge rows of (user, n-gram, count) in any order; users without a row are left out.

    Args:
        names: The ids of the users from `first` on.
        users: The number of the user of each row; rows of users without a name are left alone.
        ngrams: The n-gram of each row.
        counts: The count of each row.
        first: The number of the first user who has a name.
        vocabulary_size: How many n-grams there are.
        vocabulary_fingerprint: Which vocabulary it is, if that is known.
        unlisted_size: How many columns follow, for n-grams that the vocabulary does not list.
        user_type: What the column of users held, if that is known.
    """
    if is_sorted(users, ngrams):
        # As in a counts folder: no need to sort, nor for the memory to do it.
        starts = np.searchsorted(users, np.arange(first, first + len(names) + 1, dtype=np.int32))
        ngrams = ngrams[starts[0] : starts[-1]]
        counts = counts[starts[0] : starts[-1]]
        starts = starts - starts[0]
    else:
        starts, ngrams, counts = build_csr(users, ngrams, counts, first, len(names))
    present = np.flatnonzero(np.diff(starts))
    if present.size < len(names):
        names = names.take(pa.array(present))
        starts = starts[np.append(present, -1)]
    return UserCounts(
        names,
        starts,
        ngrams,
        counts,
        vocabulary_size,
        vocabulary_fingerprint,
        unlisted_size,
        user_type,
    )


# --- Order of users ---


def order_by_hash(names: pa.LargeBinaryArray, hashes: Hashes) -> Integers:
    """Return users in order of the hashes of their ids; of equal hashes, the ids in byte order.

    The order is a function of the ids alone, so that a result does not tell how it was read. And
    about where a user comes in it is known before all users are.
    """
    order: Integers = np.argsort(hashes, kind="stable")
    equal = np.flatnonzero(np.diff(hashes[order]) == 0)
    for value in np.unique(hashes[order][equal]):  # none, but for somebody who looks for them
        first = np.searchsorted(hashes, value, "left", order)
        last = np.searchsorted(hashes, value, "right", order)
        tied = order[first:last]
        order[first:last] = tied[pc.sort_indices(names.take(pa.array(tied))).to_numpy()]
    return order


def _sort_by_hash(counts: UserCounts, fingerprint: str) -> UserCounts:
    """Return the same counts with users in order of the hashes of their ids."""
    order = order_by_hash(counts.users, hash_rows(*buffers(counts.users)))
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
        counts.unlisted_size,
        counts.user_type,
    )


# --- Coverage: how much of what people wrote the vocabulary lists ---


@dataclass(frozen=True)
class CountSummary:
    """How much was counted. Private: exact.

    Attributes:
        users: Users who wrote an n-gram of the vocabulary.
        nonzeros: Pairs of a user and an n-gram of the vocabulary that they wrote.
        users_without_ngrams: Users who wrote n-grams of its orders, but none that it lists.
        listed: For each order, how many of the n-grams that people wrote are listed.
        unlisted: For each order, how many are not; nothing where nobody counted them.
    """

    users: int
    nonzeros: int
    users_without_ngrams: int
    listed: dict[int, int]
    unlisted: dict[int, int]

    @property
    def coverage(self) -> dict[int, float]:
        """The share of people's n-grams that is listed, for each order.

        An order is left out if nobody wrote an n-gram of it, or if unlisted ones were not counted.
        """
        return {
            order: self.listed[order] / (self.listed[order] + unlisted)
            for order, unlisted in self.unlisted.items()
            if self.listed[order] + unlisted
        }


class SummaryMeasure:
    """Measures of a `CountSummary`, to be added up over users.

    Args:
        vocabulary: The vocabulary of the counts.
        unlisted_size: How many columns of the counts are for n-grams that are not listed.
        segment_count: How many segments people are counted by; 1 if they are not.
    """

    def __init__(self, vocabulary: Vocabulary, unlisted_size: int, segment_count: int = 1) -> None:
        self._orders = [part.order for _, part in vocabulary.by_order]
        self._has_unlisted = unlisted_size > 0
        places = np.repeat(
            np.arange(len(self._orders)), [len(part) for _, part in vocabulary.by_order]
        ).astype(np.int32)
        if vocabulary.tokenizer.boundaries:
            # The start of a sentence is given, never predicted: <s> alone is no n-gram of a text.
            places[pc.equal(vocabulary.ngrams, START).to_numpy(zero_copy_only=False)] = -1
        # A partial of a plain function, so that it can be pickled.
        self.measure = partial(
            _measure_summary,
            places=places,
            order_count=len(self._orders),
            listed_size=segment_count * len(vocabulary),
        )

    def summary(self, measured: Integers) -> CountSummary:
        """Return the summary of what was added up over all users."""
        users, nonzeros, users_without, *sums = measured.tolist()
        order_count = len(self._orders)
        return CountSummary(
            users,
            nonzeros,
            users_without,
            dict(zip(self._orders, sums[:order_count], strict=True)),
            dict(zip(self._orders, sums[order_count:], strict=True)) if self._has_unlisted else {},
        )


def _measure_summary(rows: UserRows, places: Ids, order_count: int, listed_size: int) -> Integers:
    return _summarise_rows(rows.starts, rows.ngrams, rows.counts, places, order_count, listed_size)


@kernel
def _summarise_rows(
    starts: Integers, ngrams: Ids, counts: Ids, places: Ids, order_count: int, listed_size: int
) -> Integers:
    """Return users, nonzeros, users without listed n-grams, and sums by order: listed, unlisted.

    Args:
        starts: Where each user's rows start.
        ngrams: Columns: n-grams, from `listed_size` on those that are not listed.
        counts: The count of each.
        places: For each n-gram of the vocabulary, the place of its order; −1 to leave it out.
        order_count: How many orders there are.
        listed_size: Segments × n-grams.
    """
    summary = np.zeros(3 + 2 * order_count, np.int64)
    for user in range(starts.size - 1):
        has_listed = starts[user] < starts[user + 1] and ngrams[starts[user]] < listed_size
        summary[0 if has_listed else 2] += starts[user] < starts[user + 1]
        for at in range(starts[user], starts[user + 1]):
            if ngrams[at] >= listed_size:
                place = (ngrams[at] - listed_size) % order_count
                summary[3 + order_count + place] += counts[at]
                continue
            summary[1] += 1
            place = places[ngrams[at] % places.size]
            if place >= 0:
                summary[3 + place] += counts[at]
    return summary


def summarise_counts(
    counts: PrivateCounts | SegmentedCounts, vocabulary: Vocabulary
) -> CountSummary:
    """Return how much was counted, over all segments together. Private: exact.

    Args:
        counts: Private counts.
        vocabulary: The vocabulary that they were counted with.
    """
    if isinstance(counts, SegmentedCounts):
        flat = counts.flat
        segment_count = len(counts.segments)
    else:
        flat = counts
        segment_count = 1
    measure = SummaryMeasure(vocabulary, flat.unlisted_size, segment_count)
    return measure.summary(flat.aggregate_all(measure.measure))


def coverage_by_order(
    counts: PrivateCounts | SegmentedCounts, vocabulary: Vocabulary
) -> dict[int, float]:
    """Return the share of people's n-grams that the vocabulary lists, for each order.

    Private: exact. By segment, this is over all segments together.

    Args:
        counts: Private counts.
        vocabulary: The vocabulary that they were counted with.

    Returns:
        Shares by order. An order of which nobody wrote an n-gram is left out; there is none at all
        for counts made elsewhere, where n-grams that are not listed were not counted.

    Example:
        >>> import bayesgram as bg
        >>> vocabulary = bg.Vocabulary.from_public(pa.table({"text": ["a b", "a c"]}), order=1)
        >>> counts = bg.count(pa.table({"user": ["ann"], "text": ["a b x y"]}), vocabulary)
        >>> coverage_by_order(counts, vocabulary)
        {1: 0.5}
    """
    return summarise_counts(counts, vocabulary).coverage if _has_unlisted(counts) else {}


def _has_unlisted(counts: PrivateCounts | SegmentedCounts) -> bool:
    flat = counts.flat if isinstance(counts, SegmentedCounts) else counts
    return flat.unlisted_size > 0


# --- Neighbouring datasets ---


def remove_user(counts: UserCounts, user: int) -> UserCounts:
    """Return the neighbouring dataset that lacks one user."""
    first, last = counts.starts[user : user + 2]
    return UserCounts(
        pa.concat_arrays([counts.users[:user], counts.users[user + 1 :]]),
        np.concatenate([counts.starts[:user], counts.starts[user + 1 :] - (last - first)]),
        np.concatenate([counts.ngrams[:first], counts.ngrams[last:]]),
        np.concatenate([counts.counts[:first], counts.counts[last:]]),
        counts.vocabulary_size,
        counts.vocabulary_fingerprint,
        counts.unlisted_size,
    )


def add_users(counts: UserCounts, rows: Sequence[tuple[Ids, Ids]]) -> UserCounts:
    """Return the dataset with more users.

    Args:
        counts: The dataset.
        rows: Of each new user, ascending n-grams and their counts. The new ids are longer than
            anybody's.
    """
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
        counts.unlisted_size,
    )


# --- CSR arrays ---


def merge_rows(rows: UserRows, vocabulary_size: int) -> UserRows:
    """Return the rows of some users with ascending n-grams; equal ones are added up."""
    size = rows.starts.size - 1
    if is_valid_csr(rows.starts, rows.ngrams, rows.counts, size, vocabulary_size):
        return rows
    owners = np.repeat(np.arange(size, dtype=np.int32), np.diff(rows.starts))
    return UserRows(*build_csr(owners, rows.ngrams, rows.counts, 0, size), rows.users, rows.first)


def build_csr(
    users: Ids, ngrams: Ids, counts: Ids, first: int, size: int
) -> tuple[Integers, Ids, Ids]:
    """Bring each user's rows together, sort them, and add up equal n-grams.

    Args:
        users: The number of the user of each row.
        ngrams: The n-gram of each row.
        counts: The count of each row.
        first: The number of the first user that is wanted.
        size: How many users are wanted; rows of others are left alone.

    Returns:
        Where the rows of each user start and the last ones end, their n-grams, and their counts.
    """
    starts, keys = _group_by_user(users, ngrams, counts, first, size)
    longest = int(np.diff(starts).max(initial=0))
    largest = int(ngrams.max(initial=0))
    return _sort_and_merge(starts, keys, np.empty(longest, np.int64), largest)


@kernel
def _group_by_user(
    users: Ids, ngrams: Ids, counts: Ids, first: int, size: int
) -> tuple[Integers, Integers]:
    """Return where each user's rows start, and the rows as keys: n-gram above, count below."""
    starts = np.zeros(size + 1, np.int64)
    for user in users:
        if 0 <= user - first < size:
            starts[user - first + 1] += 1
    for user in range(size):
        starts[user + 1] += starts[user]
    fill = starts[:-1].copy()
    keys = np.empty(starts[-1], np.int64)
    for at in range(users.size):
        user = users[at] - first
        if 0 <= user < size:
            keys[fill[user]] = np.int64(ngrams[at]) << 32 | np.int64(counts[at])
            fill[user] += 1
    return starts, keys


@kernel
def _sort_and_merge(
    key_starts: Integers, keys: Integers, spare: Integers, largest: int
) -> tuple[Integers, Ids, Ids]:
    """Sort each user's keys, and add up equal n-grams."""
    starts = np.zeros(key_starts.size, np.int64)
    merged_ngrams = np.empty(keys.size, np.int32)
    merged_counts = np.empty(keys.size, np.int32)
    bins = np.empty(1 << RADIX_BITS, np.int64)
    written = 0
    for user in range(key_starts.size - 1):
        row = keys[key_starts[user] : key_starts[user + 1]]
        if row.size <= INSERTION_SORT_ROWS:
            _insertion_sort(row)
        elif not _is_ascending(row):
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


@inlined
def _insertion_sort(row: Integers) -> None:
    for at in range(1, row.size):
        key = row[at]
        place = at
        while place > 0 and row[place - 1] > key:
            row[place] = row[place - 1]
            place -= 1
        row[place] = key


@inlined
def _radix_sort(row: Integers, largest: int, spare: Integers, bins: Integers) -> None:
    """Sort by n-gram, digit by digit from the lowest on; the order of equal ones is free."""
    shift = 32
    last = (1 << RADIX_BITS) - 1
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
        shift += RADIX_BITS
        largest = largest >> RADIX_BITS


@inlined
def _is_ascending(row: Integers) -> bool:
    for at in range(1, row.size):
        if row[at] < row[at - 1]:
            return False
    return True


@kernel
def is_sorted(users: Ids, ngrams: Ids) -> bool:
    """Return whether users ascend, and the n-grams of each user strictly."""
    for at in range(1, users.size):
        if users[at] < users[at - 1] or (
            users[at] == users[at - 1] and ngrams[at] <= ngrams[at - 1]
        ):
            return False
    return True


@kernel
def is_valid_csr(
    starts: Integers, ngrams: Ids, counts: Ids, users: int, vocabulary_size: int
) -> bool:
    """Return whether these are CSR arrays of `users` users.

    N-grams must be in the vocabulary and ascend for each user; counts must be 1 or more.
    """
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
