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
from bayesgram.files.writing import discarded

Columns = Sequence[NDArray[Any]]


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
        while file.peek(1):
            yield [np.load(file) for _ in range(number)]


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

    def parts(self, number: int) -> Iterator[list[NDArray[Any]]]:
        """The columns of a bucket, as they were added."""
        if self._paths[number].exists():
            yield from read_columns(self._paths[number], self._columns)
