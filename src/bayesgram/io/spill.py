"""Arrays that are spilled to disk: what would not fit in memory is written in parts and read back part by part.

A scratch folder (`files/temporary.py`) is private, and goes away with the process or with a later run. Where a table is
too large to be asked at any place, `partitioned_lookup` and `partitioned_reduce` deal out what is asked, or brought, to parts of it, and
take one part at a time. `Chunks` and `ArrayBlocks` are for what is either in memory or on disk as a whole.
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

Columns = Sequence[NDArray[Any]]
Answering = Callable[[Integers], NDArray[Any]]
Combining = Callable[[NDArray[Any], Integers, NDArray[Any]], None]

ARRAYS_AT_ONCE = 32


def append_columns(path: Path, columns: Columns) -> None:
    """Add columns to the end of a file."""
    with path.open("ab") as file:
        _write_columns(file, columns)


def _write_columns(file: BufferedWriter, columns: Columns) -> None:
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


class SpillBuckets:
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

    def add_to(self, number: int, columns: Columns) -> None:
        """Append rows to one bucket."""
        append_columns(self._paths[number], columns)

    def taken(self, number: int) -> Iterator[list[NDArray[Any]]]:
        """The columns of a bucket, as they were added; then the bucket is empty."""
        if self._paths[number].exists():
            yield from read_columns(self._paths[number], self._columns)
            self._paths[number].unlink()


class Chunks:
    """Rows of a few columns, added a chunk at a time and read in that order: in memory, or in a file.

    Args:
        path: The file that holds them, which need not exist; None keeps them in memory.
        columns: How many columns a chunk has.
    """

    def __init__(self, path: Path | None, *, columns: int) -> None:
        self._path, self._columns = path, columns
        self._kept: list[Columns] = []

    def add(self, columns: Columns) -> None:
        """Add a chunk at the end."""
        if self._path is None:
            self._kept.append(columns)
        else:
            append_columns(self._path, columns)

    def __iter__(self) -> Iterator[Columns]:
        """All chunks, in the order in which they were added."""
        if self._path is None:
            yield from self._kept
        elif self._path.exists():
            yield from read_columns(self._path, self._columns)

    def taken(self) -> Iterator[Columns]:
        """The same; memory holds no chunk any longer than its reader, and at the end there is none."""
        self._kept.reverse()
        while self._kept:
            yield self._kept.pop()
        if self._path is not None:
            yield from self
            self.remove()

    def remove(self) -> None:
        """Forget all chunks."""
        self._kept = []
        if self._path is not None:
            self._path.unlink(missing_ok=True)


class ArrayBlocks:
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


class Column:
    """Numbers of one kind, or rows of them: added at the end, read from any place; a file once they are many."""

    def __init__(
        self, path: Path, kind: DTypeLike, *, width: int | None = None, kept_bytes: int = 0
    ) -> None:
        self._path, self._kind, self._row = path, np.dtype(kind), () if width is None else (width,)
        self._kept: NDArray[Any] | None = np.empty(
            (0, *self._row), kind
        )  # as long as there is no file
        self._kept_bytes = kept_bytes
        self.size = 0

    def add(self, values: NDArray[Any]) -> None:
        """Add rows at the end."""
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
        """The rows of a range: the caller's own."""
        if self._kept is not None:
            return self._kept[first:last].copy()
        values = np.empty((last - first, *self._row), self._kind)
        with self._path.open("rb") as file:
            file.seek(first * values[:1].nbytes if last > first else 0)
            _fill(values, file)
        return values

    def spans(self, rows: int) -> Iterator[NDArray[Any]]:
        """All rows, so many at a time."""
        return (self.read(*span) for span in spans(self.size, rows))

    def remove(self) -> None:
        """Take its room back."""
        if self._kept is None:
            self._path.unlink()


def spans(size: int, rows: int) -> Iterator[tuple[int, int]]:
    """Ranges of so many that cover `size`.

    >>> list(spans(5, 2))
    [(0, 2), (2, 4), (4, 5)]
    """
    return ((first, min(first + rows, size)) for first in range(0, size, rows))


def partitioned_lookup(
    asked: Iterable[Integers], edges: Integers, opened: Callable[[int], Answering], folder: Path
) -> Iterator[NDArray[Any]]:
    """The answers to keys, block by block and in the order in which they are asked.

    `opened` gives part p of a table, which answers keys from edges[p] up to edges[p + 1]; one part is open at a time.
    """
    if edges.size == 1:
        yield from map(opened(0), asked)
        return
    with TemporaryDirectory(dir=folder) as name:
        parts = Path(name, "parts")
        questions, answers = (
            SpillBuckets(Path(name), kind, buckets=edges.size, columns=1)
            for kind in ("asked", "told")
        )
        for keys in asked:
            part = (np.searchsorted(edges, keys, side="right") - 1).astype(np.uint16)
            order = np.argsort(part, kind="stable")
            questions.add(np.searchsorted(part[order], np.arange(edges.size + 1)), [keys[order]])
            append_columns(parts, [part])
        for number in range(edges.size):
            answer = opened(number)
            for (keys,) in questions.taken(number):
                answers.add_to(number, [answer(keys)])
            nothing = answer(np.zeros(0, np.int64))
            del answer
        yield from restore_order((part for (part,) in read_columns(parts, 1)), answers, nothing)


def restore_order(
    asked: Iterable[NDArray[Any]], answers: SpillBuckets, nothing: NDArray[Any]
) -> Iterator[NDArray[Any]]:
    """Answers that were found part by part, back in the order of the questions, block by block.

    Args:
        asked: For each block of questions, the part of the table that each question went to.
        answers: A bucket for each part; its chunks are those of the blocks that asked this part, in order.
        nothing: The answers to no questions, which say what kind of numbers answers are.
    """
    told = [answers.taken(number) for number in range(len(answers))]
    for part in asked:
        found = np.concatenate([nothing, *(next(told[number])[0] for number in np.unique(part))])
        block = np.empty_like(found)
        block[np.argsort(part, kind="stable")] = found
        yield block


def partitioned_reduce(
    brought: Iterable[tuple[Integers, NDArray[Any]]],
    size: int,
    rows: int,
    *,
    combine: Combining,
    nothing: NDArray[Any],
    folder: Path,
) -> Iterator[NDArray[Any]]:
    """What each of `size` places has, some places at a time: `nothing`, combined with all that is brought to it.

    `combine` changes an array at places, of which some may be equal, by amounts: as `np.add.at` does.
    """
    if size <= rows:
        found = np.repeat(nothing, size)
        for places, amounts in brought:
            combine(found, places, amounts)
        yield found
        return
    with TemporaryDirectory(dir=folder) as name:
        parts = -(-size // rows)
        waiting = SpillBuckets(Path(name), "brought", buckets=parts, columns=2)
        for places, amounts in brought:
            part = (places // rows).astype(np.uint16)
            order = np.argsort(part, kind="stable")
            waiting.add(
                np.searchsorted(part[order], np.arange(parts + 1)), [places[order], amounts[order]]
            )
        for number, (first, last) in enumerate(spans(size, rows)):
            found = np.repeat(nothing, last - first)
            for places, amounts in waiting.taken(number):
                combine(found, places - first, amounts)
            yield found


class SpillStreams:
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
        yield from read_ahead(self._from_disk())
        for first in range(0, len(self._kept), ARRAYS_AT_ONCE):
            yield self._kept[first : first + ARRAYS_AT_ONCE]

    def _from_disk(self) -> Iterator[list[Ids]]:
        if not self._path or not self.on_disk:
            return
        rooms = [np.empty(0, np.int32) for _ in range(2)]
        with self._path.open("rb") as file:
            for first in range(0, len(self.on_disk), ARRAYS_AT_ONCE):
                edges = [0, *accumulate(self.on_disk[first : first + ARRAYS_AT_ONCE])]
                rooms = [
                    rooms[1],
                    rooms[0] if edges[-1] <= rooms[0].size else np.empty(edges[-1], np.int32),
                ]
                _fill(rooms[1][: edges[-1]], file)
                yield [rooms[1][start:end] for start, end in pairwise(edges)]
