"""Arrays that wait on disk: what would not fit in memory is written in parts and read back part by part.

A scratch folder (`files/hidden.py`) is private, and goes away with the process or with a later run.
"""

import errno
import os
from collections.abc import Iterator, Sequence
from io import BufferedReader
from itertools import accumulate, pairwise
from pathlib import Path
from typing import Any

import numpy as np
from numpy.lib.format import header_data_from_array_1_0, read_array_header_1_0, read_magic, write_array_header_1_0
from numpy.typing import NDArray

from bayesgram.arrays import Ids, Integers
from bayesgram.cores import ahead

Columns = Sequence[NDArray[Any]]

ARRAYS_AT_ONCE = 32


def append_columns(path: Path, columns: Columns) -> None:
    """Add columns to the end of a file."""
    with path.open("ab") as file:
        for column in columns:
            write_array_header_1_0(file, header_data_from_array_1_0(column))
            file.write(np.ascontiguousarray(column).data)  # np.save would not say why it fails


def read_columns(path: Path, number: int) -> Iterator[list[NDArray[Any]]]:
    """Columns as they were added, so many at a time."""
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
    """Read as much as the array holds; less would be a loss in silence."""
    if file.readinto(array.data) != array.nbytes:
        raise OSError(errno.EIO, os.strerror(errno.EIO), file.name)


class Buckets:
    """Rows of a few columns, dealt out to numbered files; every file can be read by itself."""

    def __init__(self, folder: Path, name: str, *, buckets: int, columns: int) -> None:
        self._paths = [folder / f"{name}-{number}" for number in range(buckets)]
        self._columns = columns

    def __len__(self) -> int:
        return len(self._paths)

    def add(self, edges: Integers, columns: Columns) -> None:
        """Append rows that are in order of their buckets: bucket b has those from edges[b] to edges[b + 1]."""
        for path, (first, last) in zip(self._paths, pairwise(edges), strict=True):
            if last > first:
                append_columns(path, [column[first:last] for column in columns])

    def taken(self, number: int) -> Iterator[list[NDArray[Any]]]:
        """The columns of a bucket, as they were added; then the bucket is empty."""
        if self._paths[number].exists():
            yield from read_columns(self._paths[number], self._columns)
            self._paths[number].unlink()


class Streams:
    """Arrays of numbers that are gone through several times, in memory or on disk.

    Use what is given before asking for more: what comes from disk is overwritten by what comes after the next.
    """

    def __init__(self, folder: Path | None) -> None:
        self._path = folder and folder / "streams"
        self._kept: list[Ids] = []
        self.kept_bytes = 0
        self.on_disk: list[int] = []  # lengths of arrays

    @property
    def size(self) -> int:
        """Numbers in all arrays."""
        return sum(self.on_disk) + self.kept_bytes // 4

    def add(self, array: Ids) -> None:
        """Add one array at the end."""
        self._kept.append(array)
        self.kept_bytes += array.nbytes

    def clear(self) -> None:
        """Forget those in memory."""
        self._kept, self.kept_bytes = [], 0

    def to_disk(self) -> None:
        """Move all to disk."""
        if self._path:
            with self._path.open("ab") as file:
                for array in self._kept:
                    file.write(array.data)
            self.on_disk += [array.size for array in self._kept]
            self.clear()

    def __iter__(self) -> Iterator[list[Ids]]:
        """All arrays, some at a time."""
        yield from ahead(self._from_disk())
        for first in range(0, len(self._kept), ARRAYS_AT_ONCE):
            yield self._kept[first : first + ARRAYS_AT_ONCE]

    def _from_disk(self) -> Iterator[list[Ids]]:
        if not self._path or not self.on_disk:
            return
        rooms = [np.empty(0, np.int32) for _ in range(2)]
        with self._path.open("rb") as file:
            for first in range(0, len(self.on_disk), ARRAYS_AT_ONCE):
                edges = [0, *accumulate(self.on_disk[first : first + ARRAYS_AT_ONCE])]
                rooms = [rooms[1], rooms[0] if edges[-1] <= rooms[0].size else np.empty(edges[-1], np.int32)]
                _fill(rooms[1][: edges[-1]], file)
                yield [rooms[1][start:end] for start, end in pairwise(edges)]
