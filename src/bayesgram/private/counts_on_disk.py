"""Counts that stay on disk: every question reads them anew, some whole users at a time.

In:  a counts folder or a Parquet file of counts.   Out: `CountsOnDisk`, which mechanisms take in place of `UserCounts`.
Memory is that of a few blocks of users, however many users there are; one thread reads while others count. Sums of
integers do not depend on where blocks end, so they are those of counts in memory, bit for bit.

A user must not be taken for two: every bound on what one user adds rests on that. Ours are in order of the hashes of
their ids, so that a hash which is not above the one before tells, each time they are read. Of files in another order
all hashes are compared once, when they are opened. Where some are equal, the rows of a user may not be together (or
two ids have one hash), and the counts are loaded into memory after all.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from bayesgram.arguments import checked
from bayesgram.arrays import Hashes, Ids, Integers
from bayesgram.cores import CORES, read_ahead, streamed
from bayesgram.errors import BayesgramError, unreadable
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
    Batch,
    CountsLocation,
    load_location,
    locate_counts,
    locate_segmented_counts,
    read_segments,
)
from bayesgram.text.strings import hash_rows
from bayesgram.text.tokenizer import buffers

BLOCK_ROWS = 1 << 19  # of whole users that are measured together
BLOCKS = (
    min(CORES, 4) + 1
)  # that wait or are measured: one thread reads no faster than a few measure

Stamp = tuple[int, int, int, int]  # of a file: who wrote to it meanwhile changes it


class UsersNotSortedError(BayesgramError):
    """Users are not in order of the hashes of their ids."""


@dataclass(frozen=True, eq=False, repr=False)
class CountsOnDisk(PrivateCounts):
    """Counts on disk, in which each user's rows are together. Only `open_counts` makes them."""

    address: CountsLocation
    rows: int
    file_states: tuple[Stamp, ...]
    vocabulary_size: int
    vocabulary_fingerprint: str | None
    by_hash: bool  # users are in order of the hashes of their ids

    def __repr__(self) -> str:
        return f"CountsOnDisk(private, over {self.vocabulary_size:,} n-grams)"

    def aggregate(self, measure: Callable[[UserRows], Array], merge: np.ufunc = np.add) -> Array:
        """Block by block on all cores, as they are read."""
        size = self.vocabulary_size
        merged: Array | None = None
        for answer in streamed(
            lambda block: measure(merge_rows(block, size)),
            read_ahead(self.blocks()),
            size=lambda block: block.ngrams.size,
            room=(BLOCKS - 1) * BLOCK_ROWS,
        ):
            merged = answer if merged is None else merge(merged, answer)
        self._check_unchanged()
        return measure(NO_USERS) if merged is None else merged

    def blocks(self) -> Iterator[UserRows]:
        """All users, each in one block; their n-grams may be in any order, and come twice."""
        blocks = whole_users(self.address.batches(self.rows))
        return _in_order(blocks, self._changed()) if self.by_hash else blocks

    def _check_unchanged(self) -> None:
        """What was checked when the files were opened is what was read now."""
        if read_file_stamps(self.address) != self.file_states:
            raise self._changed()

    def _changed(self) -> UsersNotSortedError:
        return UsersNotSortedError(
            f"{self.address.path}: the counts changed while they were read; run it again."
        )


@checked
def open_counts(path: str | Path, *, vocabulary_size: int | None = None) -> PrivateCounts:
    """Counts that are read when they are asked about, or that are in memory where a user's rows are not together.

    Reads everything once, so that a damaged file is refused before anything is spent. What is added up on the way is
    kept: how often each n-gram occurs.
    """
    return _opened(locate_counts(path, vocabulary_size))


def open_any_counts(
    path: str | Path, *, vocabulary_size: int | None = None
) -> PrivateCounts | SegmentedCounts:
    """The same, also where people are counted by segment."""
    segments = read_segments(path)
    if segments is None:
        return open_counts(path, vocabulary_size=vocabulary_size)
    return SegmentedCounts(
        _opened(locate_segmented_counts(path, segments, vocabulary_size)), segments
    )


def _opened(address: CountsLocation) -> PrivateCounts:
    file_states = read_file_stamps(address)
    counts = CountsOnDisk(
        address,
        address.rows(),
        file_states,
        address.vocabulary_size,
        address.fingerprint,
        by_hash=True,
    )
    try:
        counts.totals.setflags(write=False)
    except UsersNotSortedError:
        counts = replace(counts, by_hash=False)
        return counts if _are_together(counts) else load_location(address)
    return counts


def read_file_stamps(address: CountsLocation) -> tuple[Stamp, ...]:
    """What changes when one of the files does."""
    return tuple(map(_file_state, address.files))


def _file_state(file: Path) -> Stamp:
    try:
        found = file.stat()
    except OSError as error:
        raise unreadable(file, error) from None
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns


def _in_order(blocks: Iterable[UserRows], problem: UsersNotSortedError) -> Iterator[UserRows]:
    """The same blocks, in which the hashes of ids ascend: so nobody comes twice."""
    last = None
    for block in blocks:
        hashes = _hashes(block)
        if (last is not None and hashes[0] <= last) or (hashes[1:] <= hashes[:-1]).any():
            raise problem
        last = hashes[-1]
        yield block


def _are_together(counts: CountsOnDisk) -> bool:
    """Whether the hashes of the ids of all users differ, so that nobody comes twice."""
    hashes = [np.zeros(0, np.uint64)]
    for block in read_ahead(counts.blocks()):
        hashes.append(_hashes(block))
        if not _differ(hashes[-1]):  # no need to read on
            return False
    return _differ(np.concatenate(hashes))


def _differ(hashes: Hashes) -> bool:
    ordered = np.sort(hashes)
    return bool((ordered[1:] != ordered[:-1]).all())


def _hashes(block: UserRows) -> Hashes:
    return hash_rows(*buffers(block.users))


class Runs(NamedTuple):
    """Rows with each user's side by side: run i is of `ids[i]`, begins at `starts[i]`, and ends where the next begins.

    Neighbours are different users.
    """

    ids: pa.LargeBinaryArray
    starts: Integers
    ngrams: Ids
    counts: Ids

    def cut(self) -> tuple["Runs", "Runs"]:
        """All runs but the last, and the last, which may go on."""
        row = self.starts[-1]
        before = Runs(self.ids[:-1], self.starts[:-1], self.ngrams[:row], self.counts[:row])
        return before, Runs(
            self.ids[-1:], self.starts[-1:] - row, self.ngrams[row:], self.counts[row:]
        )


def whole_users(batches: Iterable[Batch]) -> Iterator[UserRows]:
    """Blocks of whole users, in order; memory is that of BLOCK_ROWS, or of one user's rows."""
    waiting: list[Runs] = []
    for batch in batches:
        if not batch.codes.size:
            continue
        runs = _runs_of(batch)
        begins = len(runs.ids) > 1 or bool(
            waiting and runs.ids[0] != waiting[-1].ids[-1]
        )  # whether somebody does
        waiting.append(runs)
        if begins and sum(some.ngrams.size for some in waiting) >= BLOCK_ROWS:
            whole, last = waiting.pop().cut()
            yield _block([*waiting, whole])
            waiting = [last]
    if waiting:
        yield _block(waiting)


def _runs_of(batch: Batch) -> Runs:
    starts = _changes(batch.codes)
    return Runs(
        *_merged(batch.ids.take(pa.array(batch.codes[starts])), starts), batch.ngrams, batch.counts
    )


def _merged(ids: pa.LargeBinaryArray, starts: Integers) -> tuple[pa.LargeBinaryArray, Integers]:
    """Runs of one user that are side by side are one."""
    new = np.append(True, pc.not_equal(ids[1:], ids[:-1]).to_numpy(zero_copy_only=False))
    return (ids, starts) if new.all() else (ids.filter(pa.array(new)), starts[new])


def _block(runs: list[Runs]) -> UserRows:
    """Runs one after the other as rows of users."""
    sizes = [some.ngrams.size for some in runs]
    firsts = np.cumsum([0, *sizes])
    starts = np.concatenate(
        [some.starts + first for some, first in zip(runs, firsts[:-1], strict=True)]
    )
    ids, starts = _merged(pa.concat_arrays([some.ids for some in runs]), starts)
    ngrams, counts = (
        np.concatenate(columns) for columns in zip(*(some[2:] for some in runs), strict=True)
    )
    return UserRows(np.append(starts, firsts[-1]), ngrams, counts, ids)


@kernel
def _changes(codes: Ids) -> Integers:
    """Where a code differs from the one before, and the first."""
    size = 1
    for at in range(1, codes.size):
        size += codes[at] != codes[at - 1]
    starts = np.zeros(size, np.int64)
    address = 1
    for at in range(1, codes.size):
        if codes[at] != codes[at - 1]:
            starts[address] = at
            address += 1
    return starts
