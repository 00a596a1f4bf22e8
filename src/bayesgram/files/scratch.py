"""Arrays that wait on disk: what would not fit in memory is written in parts and read back part by part.

A scratch folder is private (mode 0700) and goes away with the process, also one that is told to stop.
"""

import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bayesgram.arrays import Integers
from bayesgram.cores import ahead
from bayesgram.files.writing import discarded

Columns = Sequence[NDArray[Any]]

ARRAYS_AT_ONCE = 64


@contextmanager
def scratch_folder(beside: Path | None = None) -> Iterator[Path]:
    """A folder in `beside` (private data stays on the disk that its owner chose), or where the system keeps such."""
    folder = Path(tempfile.mkdtemp(prefix=".bayesgram-scratch-", dir=beside))
    with discarded(folder, folder):
        yield folder


def append_columns(path: Path, columns: Columns) -> None:
    """Add columns to the end of a file."""
    with path.open("ab") as file:
        for column in columns:
            np.save(file, column)


def read_columns(path: Path, number: int) -> Iterator[list[NDArray[Any]]]:
    """Columns as they were added, so many at a time."""
    with path.open("rb") as file:
        while columns := [np.load(file) for _ in range(number) if file.peek(1)]:
            yield columns


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
    """Arrays that are gone through several times in the order they were added; those beyond `memory` bytes on disk."""

    def __init__(self, folder: Path | None, memory: int) -> None:
        self._path = folder and folder / "streams"
        self._memory, self._used = memory, 0
        self._kept: list[NDArray[Any]] = []
        self.size = 0  # numbers in all arrays

    def add(self, array: NDArray[Any]) -> None:
        """Add one array at the end."""
        self._kept.append(array)
        self.size += array.size
        self._used += array.nbytes
        if self._path and self._used > self._memory:
            append_columns(self._path, self._kept)
            self._kept, self._used = [], 0

    def __iter__(self) -> Iterator[list[NDArray[Any]]]:
        """All arrays, some at a time."""
        if self._path and self._path.exists():
            yield from ahead(read_columns(self._path, ARRAYS_AT_ONCE))
        for first in range(0, len(self._kept), ARRAYS_AT_ONCE):
            yield self._kept[first : first + ARRAYS_AT_ONCE]
