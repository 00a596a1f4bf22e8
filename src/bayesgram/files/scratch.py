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


class Buckets:
    """Rows of a few columns, dealt out to numbered files; every file can be read by itself."""

    def __init__(self, folder: Path, name: str, *, buckets: int, columns: int) -> None:
        self._paths = [folder / f"{name}-{number}" for number in range(buckets)]
        self._columns = columns

    def __len__(self) -> int:
        return len(self._paths)

    def add(self, bucket: Integers, columns: Columns) -> None:
        """Append each row to the file of its bucket; rows of a bucket keep their order."""
        bucket = bucket.astype(np.min_scalar_type(len(self._paths)))  # small numbers are sorted without comparing
        order = np.argsort(bucket, kind="stable")
        edges = np.searchsorted(bucket[order], np.arange(len(self._paths) + 1))
        self.add_dealt(edges, [column[order] for column in columns])

    def add_dealt(self, edges: Integers, columns: Columns) -> None:
        """Append rows that are in order of their buckets: bucket b has the rows from edges[b] to edges[b + 1]."""
        for path, (first, last) in zip(self._paths, pairwise(edges), strict=True):
            if last > first:
                with path.open("ab") as file:
                    for column in columns:
                        np.save(file, column[first:last])

    def parts(self, number: int) -> Iterator[list[NDArray[Any]]]:
        """The columns of a bucket, as they were added."""
        path = self._paths[number]
        if path.exists():
            with path.open("rb") as file:
                while file.peek(1):
                    yield [np.load(file) for _ in range(self._columns)]
