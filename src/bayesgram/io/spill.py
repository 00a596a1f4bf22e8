"""Arrays that are spilled to disk: what does not fit in memory is written and read back in parts.

The folder (`atomic.spill_folder`) is private, and goes away with the process or with a later run.

- `SpillBuckets`, `SpillStreams`: rows and token numbers that are always written to files, or once
  they are too many for memory.
- `SpillableChunks`, `SpillableArrays`, `SpillableColumn`: in memory, or in files.
- `partitioned_lookup` and `partitioned_reduce` are for tables that are too large to be in memory:
  they distribute what is looked up, or added, to parts of the table, and take one part at a time.
"""

import errno
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from io import BufferedReader, BufferedWriter
from itertools import accumulate, pairwise
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from numpy.lib.format import (
    header_data_from_array_1_0,
    read_array_header_1_0,
    read_magic,
    write_array_header_1_0,
)
from numpy.typing import DTypeLike, NDArray

from bayesgram.arrays import Ids, Integers
from bayesgram.cores import read_ahead

ColumnArrays = Sequence[NDArray[Any]]  # as many arrays as there are columns, all of one length
# Returns the values of some keys.
Lookup = Callable[[Integers], NDArray[Any]]
# Changes an array at places, of which some may be equal, by amounts: as `np.add.at` does.
Reducer = Callable[[NDArray[Any], Integers, NDArray[Any]], None]

# Arrays of a stream that are written to disk, read from there or counted at once, at most, and
# their bytes: a sixteenth of what may stay in memory, up to this, or a single array. Not measured.
ARRAYS_AT_ONCE = 32
GROUP_BYTES = 1 << 24


def append_columns(path: Path, columns: ColumnArrays) -> None:
    """Append columns to a file."""
    with path.open("ab") as file:
        _write_columns(file, columns)


def _write_columns(file: BufferedWriter, columns: ColumnArrays) -> None:
    for column in columns:
        write_array_header_1_0(file, header_data_from_array_1_0(column))
        file.write(np.ascontiguousarray(column).data)  # np.save would not say why it fails


def read_columns(path: Path, number: int) -> Iterator[list[NDArray[Any]]]:
    """Yield columns as they were added, `number` at a time."""
    with path.open("rb") as file:
        while columns := [_read_column(file) for _ in range(number) if file.peek(1)]:
            yield columns


def _read_column(file: BufferedReader) -> NDArray[Any]:
    read_magic(file)
    shape, _, kind = read_array_header_1_0(file)
    column = np.empty(shape, kind)
    _fill(column, file)
    return column


def _fill(array: NDArray[Any], file: BufferedReader) -> None:
    """Fill an array from a file. A file that is too short is an error, not a silent loss."""
    if file.readinto(array.data) != array.nbytes:
        raise OSError(errno.EIO, os.strerror(errno.EIO), file.name)


class SpillBuckets:
    """Rows of a few columns in numbered files (buckets), each of which can be read by itself.

    Args:
        folder: Where the files are.
        name: What their names begin with.
        buckets: How many there are.
        columns: How many columns a row has.
    """

    def __init__(self, folder: Path, name: str, *, buckets: int, columns: int) -> None:
        self._paths = [folder / f"{name}-{number}" for number in range(buckets)]
        self._columns = columns

    def __len__(self) -> int:
        return len(self._paths)

    def add(self, edges: Integers, columns: ColumnArrays) -> None:
        """Append rows in order of their buckets; bucket b has edges[b] to edges[b + 1]."""
        for path, (first, last) in zip(self._paths, pairwise(edges), strict=True):
            if last > first:
                append_columns(path, [column[first:last] for column in columns])

    def add_to(self, number: int, columns: ColumnArrays) -> None:
        """Append rows to one bucket."""
        append_columns(self._paths[number], columns)

    def drain(self, number: int) -> Iterator[list[NDArray[Any]]]:
        """Yield the columns of a bucket, as they were added; then the bucket is empty."""
        if self._paths[number].exists():
            yield from read_columns(self._paths[number], self._columns)
            self._paths[number].unlink()


class SpillableChunks:
    """Rows of a few columns, added and read a chunk at a time, in memory or in a file.

    Args:
        path: The file that holds them, which need not exist; None keeps them in memory.
        columns: How many columns a chunk has.
    """

    def __init__(self, path: Path | None, *, columns: int) -> None:
        self._path = path
        self._columns = columns
        self._kept: list[ColumnArrays] = []

    def add(self, columns: ColumnArrays) -> None:
        """Add a chunk at the end."""
        if self._path is None:
            self._kept.append(columns)
        else:
            append_columns(self._path, columns)

    def __iter__(self) -> Iterator[ColumnArrays]:
        """Yield all chunks, in the order in which they were added."""
        if self._path is None:
            yield from self._kept
        elif self._path.exists():
            yield from read_columns(self._path, self._columns)

    def drain(self) -> Iterator[ColumnArrays]:
        """Yield all chunks in order, and remove each from memory; at the end there is none."""
        self._kept.reverse()
        while self._kept:
            yield self._kept.pop()
        if self._path is not None:
            yield from self
            self.remove()

    def remove(self) -> None:
        """Remove all chunks."""
        self._kept = []
        if self._path is not None:
            self._path.unlink(missing_ok=True)


class SpillableArrays:
    """Arrays numbered from 0 that may be replaced one by one: in memory, or each in a file.

    An array that was read from a file is the caller's own; one in memory is not copied.

    Args:
        path: What the names of the files begin with; None keeps the arrays in memory.
    """

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self._kept: dict[int, NDArray[Any]] = {}

    def __setitem__(self, number: int, array: NDArray[Any]) -> None:
        if self._path is None:
            self._kept[number] = array
            return
        with self._file(self._path, number).open("wb") as file:
            _write_columns(file, [array])

    def __getitem__(self, number: int) -> NDArray[Any]:
        if self._path is None:
            return self._kept[number]
        with self._file(self._path, number).open("rb") as file:
            return _read_column(file)

    @staticmethod
    def _file(path: Path, number: int) -> Path:
        return path.with_name(f"{path.name}-{number}")


class SpillableColumn:
    """Numbers of one type, or rows of them: appended, and read from any place.

    Args:
        path: The file that holds them, once they are many.
        kind: Their type.
        width: How many numbers a row has; None for plain numbers.
        kept_bytes: How much is kept in memory before there is a file.
    """

    def __init__(
        self, path: Path, kind: DTypeLike, *, width: int | None = None, kept_bytes: int = 0
    ) -> None:
        self._path = path
        self._kind = np.dtype(kind)
        self._row_shape = () if width is None else (width,)
        # None as soon as there is a file.
        self._kept: NDArray[Any] | None = np.empty((0, *self._row_shape), kind)
        self._kept_bytes = kept_bytes
        self.size = 0

    def add(self, values: NDArray[Any]) -> None:
        """Append rows."""
        self.size += len(values)
        added = np.ascontiguousarray(values, self._kind)
        if self._kept is not None and self._kept.nbytes + added.nbytes <= self._kept_bytes:
            self._kept = np.concatenate([self._kept, added])
            return
        with self._path.open("ab") as file:
            if self._kept is not None:
                file.write(self._kept.data)
                self._kept = None
            file.write(added.data)

    def read(self, first: int, last: int) -> NDArray[Any]:
        """Return a copy of the rows from `first` to `last`."""
        if self._kept is not None:
            return self._kept[first:last].copy()
        values = np.empty((last - first, *self._row_shape), self._kind)
        with self._path.open("rb") as file:
            file.seek(first * values[:1].nbytes if last > first else 0)
            _fill(values, file)
        return values

    def spans(self, rows: int) -> Iterator[NDArray[Any]]:
        """Yield all rows, `rows` at a time."""
        return (self.read(*span) for span in spans(self.size, rows))

    def remove(self) -> None:
        """Remove the file, if there is one."""
        if self._kept is None:
            self._path.unlink()


def spans(size: int, rows: int) -> Iterator[tuple[int, int]]:
    """Yield (first, last) of ranges of `rows` that cover `size`.

    >>> list(spans(5, 2))
    [(0, 2), (2, 4), (4, 5)]
    """
    return ((first, min(first + rows, size)) for first in range(0, size, rows))


def partitioned_lookup(
    keys: Iterable[Integers],
    edges: Integers,
    open_part: Callable[[int], Lookup],
    folder: Path,
) -> Iterator[NDArray[Any]]:
    """Yield the values of keys, block by block, from a table of which one part is open at a time.

    Args:
        keys: Blocks of keys.
        edges: Part p of the table has the keys from edges[p] up to edges[p + 1].
        open_part: Is called with the number of a part, and returns its lookup.
        folder: Where to spill, if there is more than one part.
    """
    if edges.size == 1:
        yield from map(open_part(0), keys)
        return
    with TemporaryDirectory(dir=folder) as name:
        parts_path = Path(name, "parts")
        keys_by_part = SpillBuckets(Path(name), "keys", buckets=edges.size, columns=1)
        values_by_part = SpillBuckets(Path(name), "values", buckets=edges.size, columns=1)
        for block in keys:
            parts = (np.searchsorted(edges, block, side="right") - 1).astype(np.uint16)
            order = np.argsort(parts, kind="stable")
            part_edges = np.searchsorted(parts[order], np.arange(edges.size + 1))
            keys_by_part.add(part_edges, [block[order]])
            append_columns(parts_path, [parts])
        for part in range(edges.size):
            look_up = open_part(part)
            for (block,) in keys_by_part.drain(part):
                values_by_part.add_to(part, [look_up(block)])
            no_values = look_up(np.zeros(0, np.int64))
            del look_up  # closes this part before the next is opened
        blocks = (parts for (parts,) in read_columns(parts_path, 1))
        yield from restore_order(blocks, values_by_part, no_values)


def restore_order(
    blocks: Iterable[NDArray[Any]], values_by_part: SpillBuckets, no_values: NDArray[Any]
) -> Iterator[NDArray[Any]]:
    """Yield values that were looked up part by part in the order of the keys, block by block.

    Args:
        blocks: For each block of keys, the part of the table that each key went to.
        values_by_part: A bucket for each part; its chunks are those of the blocks that had keys of
            this part, in order.
        no_values: An empty array of the type of the values.
    """
    chunks_by_part = [values_by_part.drain(part) for part in range(len(values_by_part))]
    for parts in blocks:
        chunks = (next(chunks_by_part[part])[0] for part in np.unique(parts))
        values = np.concatenate([no_values, *chunks])
        ordered = np.empty_like(values)
        ordered[np.argsort(parts, kind="stable")] = values
        yield ordered


def partitioned_reduce(
    updates: Iterable[tuple[Integers, NDArray[Any]]],
    size: int,
    rows: int,
    *,
    combine: Reducer,
    nothing: NDArray[Any],
    folder: Path,
) -> Iterator[NDArray[Any]]:
    """Yield what each of `size` places has after all updates, `rows` places at a time.

    Args:
        updates: Pairs of places and amounts.
        size: How many places there are.
        rows: How many places are in memory at once.
        combine: Changes an array at places by amounts.
        nothing: What a place has before any update, as an array of one element.
        folder: Where to spill, if not all places are in memory at once.
    """
    if size <= rows:
        totals = np.repeat(nothing, size)
        for places, amounts in updates:
            combine(totals, places, amounts)
        yield totals
        return
    with TemporaryDirectory(dir=folder) as name:
        part_count = -(-size // rows)
        updates_by_part = SpillBuckets(Path(name), "updates", buckets=part_count, columns=2)
        for places, amounts in updates:
            parts = (places // rows).astype(np.uint16)
            order = np.argsort(parts, kind="stable")
            part_edges = np.searchsorted(parts[order], np.arange(part_count + 1))
            updates_by_part.add(part_edges, [places[order], amounts[order]])
        for part, (first, last) in enumerate(spans(size, rows)):
            totals = np.repeat(nothing, last - first)
            for places, amounts in updates_by_part.drain(part):
                combine(totals, places - first, amounts)
            yield totals


class SpillStreams:
    """Arrays of numbers that are iterated several times: the first in memory, others on disk.

    Arrays that come from disk share a double buffer: they are valid until the next-but-one
    iteration.

    Args:
        folder: Where the file is; None keeps everything in memory.
        max_bytes: How many bytes of arrays stay in memory if there is a folder, about.
    """

    def __init__(self, folder: Path | None, *, max_bytes: int) -> None:
        self._path = folder and folder / "streams"
        self._max_bytes = max_bytes
        self._group_bytes = min(GROUP_BYTES, max_bytes // 16)
        self._kept: list[Ids] = []
        self.kept_bytes = 0  # of the arrays that are in memory to stay
        self._waiting: list[Ids] = []  # to be written to disk together
        self._waiting_bytes = 0
        self._on_disk: list[int] = []  # the lengths of the arrays in the file

    @property
    def size(self) -> int:
        """How many numbers all arrays have."""
        return sum(self._on_disk) + (self.kept_bytes + self._waiting_bytes) // 4

    @property
    def exceeds_memory(self) -> bool:
        """Whether arrays are on disk, or wait to be written there."""
        return bool(self._waiting or self._on_disk)

    def add(self, array: Ids) -> None:
        """Append an array. It stays in memory until the next one is added, at least."""
        if self._path is None or self.kept_bytes + array.nbytes <= self._max_bytes:
            self._kept.append(array)
            self.kept_bytes += array.nbytes
            return
        if len(self._waiting) == ARRAYS_AT_ONCE or self._waiting_bytes > self._group_bytes:
            self._write_waiting(self._path)
        self._waiting.append(array)
        self._waiting_bytes += array.nbytes

    def _write_waiting(self, path: Path) -> None:
        with path.open("ab") as file:
            for array in self._waiting:
                file.write(array.data)
        self._on_disk += map(len, self._waiting)
        self._waiting = []
        self._waiting_bytes = 0

    def sample(self, size: int) -> list[Ids]:
        """Return arrays with about so many numbers, from all parts of what is in memory."""
        arrays = [*self._kept, *self._waiting]
        return arrays[:: max((self.kept_bytes + self._waiting_bytes) // 4 // size, 1)]

    def take(self) -> list[Ids]:
        """Remove all arrays and return them; none of them may be on disk."""
        if self._on_disk:
            raise AssertionError("arrays are on disk")
        taken = [*self._kept, *self._waiting]
        self._kept = []
        self._waiting = []
        self.kept_bytes = self._waiting_bytes = 0
        return taken

    def __iter__(self) -> Iterator[list[Ids]]:
        """Yield all arrays, in lists of a few."""
        yield from read_ahead(self._from_disk())
        arrays = [*self._kept, *self._waiting]
        first = 0
        for lengths in _group_lengths(list(map(len, arrays)), self._group_bytes // 4):
            yield arrays[first : first + len(lengths)]
            first += len(lengths)

    def _from_disk(self) -> Iterator[list[Ids]]:
        if not self._path or not self._on_disk:
            return
        # The older buffer is filled next, while the caller still uses the newer one.
        older = np.empty(0, np.int32)
        newer = np.empty(0, np.int32)
        with self._path.open("rb") as file:
            for lengths in _group_lengths(self._on_disk, self._group_bytes // 4):
                edges = [0, *accumulate(lengths)]
                if edges[-1] > older.size:
                    older = np.empty(edges[-1], np.int32)
                older, newer = newer, older
                _fill(newer[: edges[-1]], file)
                yield [newer[start:end] for start, end in pairwise(edges)]


def _group_lengths(lengths: Sequence[int], size: int) -> Iterator[list[int]]:
    """Yield the lengths of arrays that are used at once: of `size` numbers, or a single one."""
    group: list[int] = []
    for length in lengths:
        is_full = sum(group) + length > size or len(group) == ARRAYS_AT_ONCE
        if group and is_full:
            yield group
            group = []
        group.append(length)
    if group:
        yield group
