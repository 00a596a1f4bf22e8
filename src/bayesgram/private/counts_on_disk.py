"""Counts that stay on disk: every aggregate reads them anew, some complete users at a time.

`open_counts` takes a counts folder or a Parquet file of counts, and returns `CountsOnDisk`, which
mechanisms take in place of `UserCounts`. Memory is that of a few blocks of users, however many
users there are; one thread reads while others count. Sums of integers do not depend on where
blocks end, so they are those of counts in memory, bit for bit.

A user must not be taken for two: every bound on what one user adds rests on that. In a counts
folder users are in order of the hashes of their ids, so a hash that is not above the one before
shows a mistake, each time the counts are read. Of files in another order all hashes are compared
once, when they are opened. Where some are equal, the rows of a user may not be together (or two ids
have one hash), and the counts are loaded into memory after all.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from bayesgram.arguments import check_arguments
from bayesgram.arrays import Hashes, Ids, Integers
from bayesgram.cores import CORES, parallel_imap, read_ahead
from bayesgram.errors import BayesgramError, unreadable_error
from bayesgram.kernels import kernel
from bayesgram.private.counts import (
    NO_USERS,
    Array,
    PrivateCounts,
    SegmentedCounts,
    UserRows,
    merge_rows,
)
from bayesgram.private.counts_io import (
    CountsBatch,
    CountsLocation,
    load_location,
    locate_counts,
    locate_segmented_counts,
    read_segments,
)
from bayesgram.text.strings import hash_rows
from bayesgram.text.tokenizer import buffers

BLOCK_ROWS = 1 << 19  # rows of complete users that are measured together; not measured
# Blocks that wait or are measured: one thread reads no faster than a few measure.
BLOCKS_IN_MEMORY = min(CORES, 4) + 1

FileStamp = tuple[int, int, int, int]  # device, inode, size, time: changes when the file does


class UsersNotSortedError(BayesgramError):
    """Users are not in order of the hashes of their ids."""


@dataclass(frozen=True, eq=False, repr=False)
class CountsOnDisk(PrivateCounts):
    """Counts on disk, in which each user's rows are together. Only `open_counts` makes them."""

    location: CountsLocation
    row_count: int
    file_stamps: tuple[FileStamp, ...]  # from before the files were checked
    vocabulary_size: int
    vocabulary_fingerprint: str | None  # None for a file, which names no vocabulary
    is_sorted_by_hash: bool  # users are in order of the hashes of their ids
    unlisted_size: int = 0
    user_type: str | None = None

    def __repr__(self) -> str:
        return f"CountsOnDisk(private, over {self.vocabulary_size:,} n-grams)"

    def aggregate_all(
        self, measure: Callable[[UserRows], Array], merge: np.ufunc = np.add
    ) -> Array:
        """Measure all users, block by block on all cores as they are read, and merge the results.

        Raises:
            BayesgramError: If the files changed since they were opened.
        """
        size = self.vocabulary_size + self.unlisted_size
        merged: Array | None = None
        for result in parallel_imap(
            lambda block: measure(merge_rows(block, size)),
            read_ahead(self.read_blocks()),
            size=lambda block: block.ngrams.size,
            max_pending=(BLOCKS_IN_MEMORY - 1) * BLOCK_ROWS,
        ):
            merged = result if merged is None else merge(merged, result)
        self._check_unchanged()
        return measure(NO_USERS) if merged is None else merged

    def read_blocks(self) -> Iterator[UserRows]:
        """Read all users, each in one block; their n-grams may have any order, and come twice."""
        blocks = group_users(self.location.read_batches(self.row_count))
        if self.is_sorted_by_hash:
            blocks = _check_hash_order(blocks, self._changed_error())
        return _number_users(blocks)

    def read_users(self) -> Iterator[pa.LargeBinaryArray]:
        """Read the ids of all users, in the order of `read_blocks`, without their n-grams.

        Raises:
            BayesgramError: If the files changed since they were opened.
        """
        last = pa.array([], pa.large_binary())
        for ids, codes in self.location.read_user_codes(self.row_count):
            if not codes.size:
                continue
            users, _ = _merge_runs(*_take_runs(ids, codes))
            goes_on = len(last) and users[0] == last[0]
            last = users[-1:]
            yield users[1:] if goes_on else users
        self._check_unchanged()

    def _check_unchanged(self) -> None:
        """Check that what was read now is what was checked when the files were opened."""
        if read_file_stamps(self.location) != self.file_stamps:
            raise self._changed_error()

    def _changed_error(self) -> UsersNotSortedError:
        return UsersNotSortedError(
            f"{self.location.path}: the counts changed while they were read; run it again."
        )


@check_arguments
def open_counts(path: str | Path, *, vocabulary_size: int | None = None) -> PrivateCounts:
    """Open counts that stay on disk; they are loaded if a user's rows are not together.

    Reads everything once, so that a damaged file is refused before anything is spent. What is added
    up on the way is kept: how often each n-gram occurs.

    Args:
        path: A counts folder, or a Parquet file of counts.
        vocabulary_size: How many n-grams the vocabulary has. A folder knows its own.

    Raises:
        BayesgramError: If the counts are damaged.

    Example:
        >>> import bayesgram as bg
        >>> import pyarrow as pa
        >>> from tempfile import TemporaryDirectory
        >>> vocabulary = bg.Vocabulary.from_public(pa.table({"text": ["a b", "a c"]}), order=1)
        >>> counts = bg.count(pa.table({"user": ["ann"], "text": ["a b"]}), vocabulary)
        >>> with TemporaryDirectory() as folder:
        ...     bg.save_counts(counts, vocabulary, Path(folder) / "counts")
        ...     bg.release(bg.open_counts(Path(folder) / "counts"), vocabulary, epsilon=1, seed=1)
        Release(3 n-grams of order 1, ε = 1, δ = 1e-07 (NONE))
    """
    return _open_location(locate_counts(path, vocabulary_size))


def open_any_counts(
    path: str | Path, *, vocabulary_size: int | None = None
) -> PrivateCounts | SegmentedCounts:
    """Open counts like `open_counts`, also where people are counted by segment."""
    segments = read_segments(path)
    if segments is None:
        return open_counts(path, vocabulary_size=vocabulary_size)
    location = locate_segmented_counts(path, segments, vocabulary_size)
    return SegmentedCounts(_open_location(location), segments)


def _open_location(location: CountsLocation) -> PrivateCounts:
    file_stamps = read_file_stamps(location)
    counts = CountsOnDisk(
        location,
        location.count_rows(),
        file_stamps,
        location.vocabulary_size,
        location.fingerprint,
        is_sorted_by_hash=True,
        unlisted_size=location.unlisted_size,
        user_type=location.user_type,
    )
    try:
        counts.totals.setflags(write=False)
    except UsersNotSortedError:
        counts = replace(counts, is_sorted_by_hash=False)
        return counts if _has_distinct_users(counts) else load_location(location)
    return counts


def read_file_stamps(location: CountsLocation) -> tuple[FileStamp, ...]:
    """Return what changes when one of the files does."""
    return tuple(map(_read_stamp, location.files))


def _read_stamp(file: Path) -> FileStamp:
    try:
        status = file.stat()
    except OSError as error:
        raise unreadable_error(file, error) from None
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns


# --- One user, one block ---


def _check_hash_order(blocks: Iterable[UserRows], error: UsersNotSortedError) -> Iterator[UserRows]:
    """Pass blocks on while the hashes of ids ascend, so that nobody comes twice."""
    last = None
    for block in blocks:
        hashes = _hash_ids(block)
        if (last is not None and hashes[0] <= last) or (hashes[1:] <= hashes[:-1]).any():
            raise error
        last = hashes[-1]
        yield block


def _number_users(blocks: Iterable[UserRows]) -> Iterator[UserRows]:
    """Note in each block how many users came before it."""
    first = 0
    for block in blocks:
        yield block._replace(first=first)
        first += block.user_count


def _has_distinct_users(counts: CountsOnDisk) -> bool:
    """Return whether the hashes of all users' ids differ, so that nobody comes twice."""
    hashes = [np.zeros(0, np.uint64)]
    for block in read_ahead(counts.read_blocks()):
        hashes.append(_hash_ids(block))
        if not _is_distinct(hashes[-1]):  # no need to read on
            return False
    return _is_distinct(np.concatenate(hashes))


def _is_distinct(hashes: Hashes) -> bool:
    ordered = np.sort(hashes)
    return bool((ordered[1:] != ordered[:-1]).all())


def _hash_ids(block: UserRows) -> Hashes:
    return hash_rows(*buffers(block.users))


# --- Blocks of complete users ---


class UserRuns(NamedTuple):
    """Rows with each user's side by side; neighbouring runs are of different users.

    Run i is of `ids[i]`, starts at row `starts[i]`, and ends where the next one starts.
    """

    ids: pa.LargeBinaryArray
    starts: Integers
    ngrams: Ids
    counts: Ids

    def split_last(self) -> tuple["UserRuns", "UserRuns"]:
        """Return all runs but the last, and the last, which may go on in the next batch."""
        row = self.starts[-1]
        before = UserRuns(self.ids[:-1], self.starts[:-1], self.ngrams[:row], self.counts[:row])
        last = UserRuns(self.ids[-1:], self.starts[-1:] - row, self.ngrams[row:], self.counts[row:])
        return before, last


def group_users(batches: Iterable[CountsBatch]) -> Iterator[UserRows]:
    """Group rows into blocks of complete users, in order.

    Memory is that of `BLOCK_ROWS` rows, or of one user's rows.
    """
    pending: list[UserRuns] = []
    for batch in batches:
        if not batch.codes.size:
            continue
        runs = _find_runs(batch)
        starts_user = len(runs.ids) > 1 or bool(pending and runs.ids[0] != pending[-1].ids[-1])
        pending.append(runs)
        if starts_user and sum(part.ngrams.size for part in pending) >= BLOCK_ROWS:
            complete, last = pending.pop().split_last()
            yield _concatenate_runs([*pending, complete])
            pending = [last]
    if pending:
        yield _concatenate_runs(pending)


def _find_runs(batch: CountsBatch) -> UserRuns:
    ids, starts = _merge_runs(*_take_runs(batch.ids, batch.codes))
    return UserRuns(ids, starts, batch.ngrams, batch.counts)


def _take_runs(ids: pa.LargeBinaryArray, codes: Ids) -> tuple[pa.LargeBinaryArray, Integers]:
    """Return the id of each run of equal codes, and where it starts."""
    starts = _find_changes(codes)
    return ids.take(pa.array(codes[starts])), starts


def _merge_runs(ids: pa.LargeBinaryArray, starts: Integers) -> tuple[pa.LargeBinaryArray, Integers]:
    """Merge runs of one user that are side by side."""
    is_new = np.append(True, pc.not_equal(ids[1:], ids[:-1]).to_numpy(zero_copy_only=False))
    return (ids, starts) if is_new.all() else (ids.filter(pa.array(is_new)), starts[is_new])


def _concatenate_runs(runs: list[UserRuns]) -> UserRows:
    """Return runs, one after the other, as rows of users."""
    sizes = [part.ngrams.size for part in runs]
    firsts = np.cumsum([0, *sizes])
    starts = np.concatenate(
        [part.starts + first for part, first in zip(runs, firsts[:-1], strict=True)]
    )
    ids, starts = _merge_runs(pa.concat_arrays([part.ids for part in runs]), starts)
    ngrams = np.concatenate([part.ngrams for part in runs])
    counts = np.concatenate([part.counts for part in runs])
    return UserRows(np.append(starts, firsts[-1]), ngrams, counts, ids)


@kernel
def _find_changes(codes: Ids) -> Integers:
    """Return where a code differs from the one before, and 0."""
    size = 1
    for at in range(1, codes.size):
        size += codes[at] != codes[at - 1]
    starts = np.zeros(size, np.int64)
    written = 1
    for at in range(1, codes.size):
        if codes[at] != codes[at - 1]:
            starts[written] = at
            written += 1
    return starts
