"""Counts on disk: a private folder (mode 0700) of counts.parquet and meta.json, or one Parquet file made elsewhere.

counts.parquet has `user`, `ngram` (id), `count`, each user's rows together; meta.json says which vocabulary. A file
made elsewhere needs the same three columns, in any order of rows. Where people are counted by segment, meta.json names
the segments, and n-gram i in segment s is the id s·V + i.
"""

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from bayesgram.arguments import checked
from bayesgram.arrays import Ids
from bayesgram.cores import read_ahead
from bayesgram.errors import Argument, BayesgramError, UsageError, unreadable
from bayesgram.io.atomic import write_folder_atomically
from bayesgram.io.formats import check_format, read_json
from bayesgram.io.records import as_bytes
from bayesgram.io.segments import Segments
from bayesgram.private.counts import (
    MAX_COUNT,
    SegmentedCounts,
    UserCounts,
    require_in_memory,
    user_blocks,
    user_counts,
)
from bayesgram.public.vocabulary import Vocabulary
from bayesgram.text.strings import StringTable
from bayesgram.text.tokenizer import buffers
from bayesgram.version import VERSION

FORMAT, WITHOUT_SEGMENTS = 2, 1
META, COUNTS = "meta.json", "counts.parquet"
CONTENTS = (META, COUNTS)
PARQUET = b"PAR1"  # as its files begin
ROWS_AT_ONCE = 1 << 20
TYPES = {
    "user": pa.dictionary(pa.int32(), pa.large_string()),
    "ngram": pa.int32(),
    "count": pa.int32(),
}
SCHEMA = pa.schema([pa.field(name, kind, nullable=False) for name, kind in TYPES.items()])
AS_WRITTEN: dict[str, Any] = {
    "compression": "zstd",
    "use_dictionary": ["user"],
    "column_encoding": {"ngram": "DELTA_BINARY_PACKED"},  # n-grams of a user ascend
    "write_statistics": False,
}
ROWS_READ = 1 << 20
COLUMNS = list(TYPES)
MEANING = {
    "ngram": "an n-gram id is a row number of the vocabulary",
    "count": "a count is a whole number",
}


@checked
def save_counts(
    counts: UserCounts | SegmentedCounts,
    vocabulary: Vocabulary,
    path: str | Path,
    *,
    force: bool = False,
) -> None:
    """Write a counts folder; it is private."""
    segments = counts.segments if isinstance(counts, SegmentedCounts) else None
    rows = counts.flat if isinstance(counts, SegmentedCounts) else counts
    with counts_folder(vocabulary, path, force=force, segments=segments) as write:
        write(require_in_memory(rows, "save_counts"))


@contextmanager
def counts_folder(
    vocabulary: Vocabulary,
    path: str | Path,
    *,
    force: bool = False,
    segments: Segments | None = None,
) -> Iterator[Callable[[UserCounts], None]]:
    """A counts folder to write to, some users at a time; it appears when the block ends well."""
    with (
        staged_counts(vocabulary, path, force=force, segments=segments) as file,
        pq.ParquetWriter(file, SCHEMA, **AS_WRITTEN) as writer,
    ):

        def write(counts: UserCounts) -> None:
            for first, last in user_blocks(counts.starts, counts.ngrams.size // ROWS_AT_ONCE + 1):
                writer.write_table(_table(counts, first, last))

        yield write


@contextmanager
def staged_counts(
    vocabulary: Vocabulary,
    path: str | Path,
    *,
    force: bool = False,
    segments: Segments | None = None,
) -> Iterator[Path]:
    """Where to write counts.parquet, a file or a folder of several; the counts folder appears when the block ends."""
    meta = {
        "format": WITHOUT_SEGMENTS if segments is None else FORMAT,
        "software": f"bayesgram {VERSION}",
        "vocabulary": {
            "fingerprint": vocabulary.fingerprint,
            "size": len(vocabulary),
            "order": vocabulary.order,
            "tokenizer": vocabulary.tokenizer.name,
        },
        **({} if segments is None else {"segments": segments.to_json()}),
    }
    with write_folder_atomically(path, contents=CONTENTS, force=force, private=True) as folder:
        yield folder / COUNTS
        (folder / META).write_text(json.dumps(meta, indent=2) + "\n", encoding="utf-8")


def _table(counts: UserCounts, first: int, last: int) -> pa.Table:
    rows = slice(counts.starts[first], counts.starts[last])
    codes = np.repeat(
        np.arange(last - first, dtype=np.int32), np.diff(counts.starts[first : last + 1])
    )
    users = pa.DictionaryArray.from_arrays(codes, counts.users[first:last].cast(pa.large_string()))
    return pa.table([users, counts.ngrams[rows], counts.counts[rows]], schema=SCHEMA)


class Batch(NamedTuple):
    """Some rows, checked: row r is of the user `ids[codes[r]]`. No id is empty; one may come twice among the ids."""

    ids: pa.LargeBinaryArray
    codes: Ids
    ngrams: Ids
    counts: Ids


@checked
def load_counts(
    path: str | Path, *, vocabulary_size: int | None = None
) -> UserCounts | SegmentedCounts:
    """Read all of a counts folder or a Parquet file of counts over a vocabulary of this size; a folder knows its own.

    Memory is 12 bytes a row and the users' ids, and 16 to 24 bytes more where the rows are not in order, as ours are.
    """
    segments = segments_of(path)
    if segments is None:
        return load_user_counts(path, vocabulary_size=vocabulary_size)
    return SegmentedCounts(load_address(find_flat(path, segments, vocabulary_size)), segments)


def load_user_counts(path: str | Path, *, vocabulary_size: int | None = None) -> UserCounts:
    """Read counts that are not by segment; others are refused."""
    return load_address(find_counts(path, vocabulary_size))


def load_address(address: "CountsAddress") -> UserCounts:
    """All rows, in memory."""
    names = StringTable()
    users, ngrams, counts = _room(address.path, address.rows())
    last = 0
    for batch in read_ahead(address.batches(users.size)):
        first, last = last, last + len(batch.codes)
        users[first:last] = names.add(*buffers(batch.ids))[batch.codes]
        ngrams[first:last], counts[first:last] = batch.ngrams, batch.counts
    return user_counts(
        names.strings(),
        users,
        ngrams,
        counts,
        vocabulary_size=address.vocabulary_size,
        vocabulary_fingerprint=address.fingerprint,
    )


@dataclass(frozen=True)
class CountsAddress:
    """Where counts are: one Parquet file or a folder of them, and what they say of their vocabulary."""

    path: str | Path  # as it was given
    file: Path
    vocabulary_size: int
    fingerprint: str | None

    @property
    def files(self) -> list[Path]:
        """The file or the parts of it, in order of their names."""
        return sorted(self.file.glob("*.parquet")) if self.file.is_dir() else [self.file]

    def rows(self) -> int:
        """How many rows the files say they have; their columns are right."""
        return sum(map(_rows_in, self.files))

    def batches(self, rows: int) -> Iterator[Batch]:
        """All rows, in order, checked; they are as many as the files say."""
        left = rows
        for file in self.files:
            for first_row, batch in _batches(file):
                left -= len(batch)
                if left < 0:
                    raise _damaged(file)
                yield _checked(file, first_row, batch, self.vocabulary_size)
        if left:
            raise _damaged(self.path)


def segments_of(path: str | Path) -> Segments | None:
    """The segments of a counts folder; None where people are not counted by segment, or where nothing can be read."""
    try:
        told = read_json(Path(path) / META)["segments"]
        return Segments(told["by"], tuple(map(str, told["names"])), bool(told["other"]))
    except (
        OSError,
        KeyError,
        TypeError,
        ValueError,
    ):  # whoever reads the counts says what is wrong with them
        return None


def find_counts(path: str | Path, vocabulary_size: int | None = None) -> CountsAddress:
    """Where counts are, and the vocabulary they say they were made with; none by segment."""
    segments = segments_of(path)
    if segments is not None:
        raise UsageError(
            f"{path}: counts by {segments.by!r}, which `bayesgram release` (by posterior, ",
            Argument("engine", "local"),
            ") and `bayesgram evaluate` take; for all else count again without ",
            Argument("by"),
            ".",
        )
    return _found(path, vocabulary_size)


def find_flat(
    path: str | Path, segments: Segments, vocabulary_size: int | None = None
) -> CountsAddress:
    """Where counts by segment are, as counts over segments × n-grams."""
    address = _found(path, vocabulary_size)
    return replace(address, vocabulary_size=address.vocabulary_size * len(segments))


def _found(path: str | Path, vocabulary_size: int | None) -> CountsAddress:
    folder = Path(path)
    if not folder.exists():
        raise UsageError(f"{path}: no such counts; make them with `bayesgram count`.")
    if folder.is_dir():
        return CountsAddress(path, folder / COUNTS, *_vocabulary(folder, vocabulary_size))
    if vocabulary_size is None:
        raise UsageError(
            f"{path}: does not say how large its vocabulary is; give vocabulary_size=len(vocabulary)."
        )
    return CountsAddress(path, folder, vocabulary_size, None)


def _vocabulary(folder: Path, vocabulary_size: int | None) -> tuple[int, str]:
    """The size and the fingerprint of the vocabulary that a counts folder says it was made with."""
    try:
        meta = read_json(folder / META)
        check_format(folder, "a counts folder", meta["format"], FORMAT)
        size, fingerprint = _stated(meta["vocabulary"])
        _check_segments(folder, meta)
    except FileNotFoundError:
        raise UsageError(
            f"{folder}: not a counts folder (no meta.json); make one with `bayesgram count`."
        ) from None
    except OSError as error:
        raise unreadable(folder / META, error) from None
    except UsageError:
        raise
    except (KeyError, TypeError, ValueError):
        raise BayesgramError(
            f"{folder}: meta.json is damaged; count again with `bayesgram count`."
        ) from None
    if vocabulary_size not in {None, size}:
        raise UsageError(
            f"{folder}: counts over {size:,} n-grams, but the vocabulary has {vocabulary_size:,};"
            " give the vocabulary the counts were made with."
        )
    return size, fingerprint


def _stated(vocabulary: dict[str, Any]) -> tuple[int, str]:
    """What meta.json tells of a vocabulary."""
    size, fingerprint = vocabulary["size"], vocabulary["fingerprint"]
    if type(size) is not int or not isinstance(fingerprint, str):
        raise TypeError("a size is a whole number, a fingerprint is a text")
    return size, fingerprint


def _check_segments(folder: Path, meta: dict[str, Any]) -> None:
    """Segments are named, and well, in their own format and only there."""
    if (meta["format"] == FORMAT) != (segments_of(folder) is not None):
        raise ValueError("a format without its segments")


def _rows_in(file: Path) -> int:
    """How many rows a file has, whose columns are right."""
    try:
        with pq.ParquetFile(file) as opened:
            schema, rows = opened.schema_arrow, opened.metadata.num_rows
            names = schema.names
    except (pa.ArrowException, OSError, ValueError) as error:
        if isinstance(error, OSError) and error.errno is not None:
            raise unreadable(file, error) from None
        raise _no_table(file) from None
    missing = [name for name in COLUMNS if name not in names]
    if missing:
        raise UsageError(
            f"{file}: no column {missing[0]!r}; counts have the columns 'user', 'ngram', 'count', this file has"
            f" {', '.join(map(repr, names))}."
        )
    repeated = [name for name in COLUMNS if names.count(name) > 1]
    if repeated:
        raise UsageError(f"{file}: two columns are called {repeated[0]!r}; rename one of them.")
    kind = _kind(schema.field("user").type)
    if not (pa.types.is_integer(kind) or _is_text(kind)):
        raise UsageError(f"{file}: the column 'user' is {kind}; ids must be text or whole numbers.")
    for name, meaning in MEANING.items():
        if not pa.types.is_integer(schema.field(name).type):
            raise UsageError(
                f"{file}: the column {name!r} is {schema.field(name).type}; {meaning}."
            )
    return int(rows)


def _no_table(file: Path) -> BayesgramError:
    """What was written as Parquet is damaged; other files are no counts."""
    with file.open("rb") as opened:
        written = opened.read(len(PARQUET)) == PARQUET or (file.parent / META).is_file()
    if written:
        return BayesgramError(
            f"{file}: is damaged or cut short; copy it again, or count again with `bayesgram count`."
        )
    return UsageError(
        f"{file}: not a Parquet file of counts (columns user, ngram, count); make one with `bayesgram count`."
    )


def _kind(type_: pa.DataType) -> pa.DataType:
    return type_.value_type if pa.types.is_dictionary(type_) else type_


def _is_text(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))


def _room(path: str | Path, rows: int) -> tuple[Ids, Ids, Ids]:
    """Room for three columns of what a file says are its rows."""
    try:
        users, ngrams, counts = (np.empty(rows, np.int32) for _ in range(3))
    except (MemoryError, ValueError):
        raise BayesgramError(
            f"{path}: says that it has more rows than memory can hold; it is damaged, or needs a larger machine."
        ) from None
    return users, ngrams, counts


def _batches(file: Path) -> Iterator[tuple[int, pa.RecordBatch]]:
    """The rows, some at a time, with the number of the first, from 1; ids as numbers of a dictionary."""
    try:
        yield from _read_batches(file)
    except OSError as error:
        problem = _damaged(file) if error.errno is None else unreadable(file, error)
    except (pa.ArrowException, ValueError):
        problem = _damaged(file)
    else:
        return
    raise problem  # outside, so that it carries no message of Arrow's, which may quote a value


def _read_batches(file: Path) -> Iterator[tuple[int, pa.RecordBatch]]:
    kind = _kind(pq.read_schema(file).field("user").type)
    named = ["user"] if _is_text(kind) else None
    with pq.ParquetFile(
        file, read_dictionary=named, pre_buffer=False
    ) as opened:  # else it would hold the whole file
        first_row = 1
        for batch in opened.iter_batches(ROWS_READ, columns=COLUMNS):
            yield first_row, batch
            first_row += len(batch)


def _damaged(path: str | Path) -> BayesgramError:
    return BayesgramError(f"{path}: the file is damaged; count again with `bayesgram count`.")


def _checked(file: Path, first_row: int, batch: pa.RecordBatch, vocabulary_size: int) -> Batch:
    """The rows in the types of the kernels, which trust them."""
    return Batch(
        *_users(file, first_row, batch["user"]),
        _whole_numbers(file, first_row, batch["ngram"], "ngram", 0, vocabulary_size - 1),
        _whole_numbers(file, first_row, batch["count"], "count", 1, int(MAX_COUNT)),
    )


def _users(file: Path, first_row: int, users: "pa.Array[Any]") -> tuple[pa.LargeBinaryArray, Ids]:
    """Ids, and which of them is that of each row."""
    if not pa.types.is_dictionary(users.type):
        users = users.dictionary_encode()
    try:
        users.validate(full=True)  # Arrow itself does not ask whether an id is there, and is text
    except pa.ArrowException:
        raise _damaged(file) from None
    ids = as_bytes(users.dictionary).fill_null(b"")
    codes: Ids = users.indices.cast(pa.int32()).fill_null(-1).to_numpy(zero_copy_only=False)
    missing = np.append(
        pc.equal(pc.binary_length(ids), 0).to_numpy(zero_copy_only=False), True
    )  # of no id, the last
    if users.indices.null_count or missing[:-1].any():
        row = int(np.argmax(missing[codes]))
        if missing[codes[row]]:
            raise BayesgramError(
                f"{file}: row {first_row + row}: no user id. Every row of counts needs one."
            )
    return ids, codes


def _whole_numbers(
    file: Path, first_row: int, column: "pa.Array[Any]", name: str, low: int, high: int
) -> Ids:
    """A column of whole numbers in [low, high]; the values themselves are never shown."""
    found = pc.min_max(column).as_py()
    if len(column) and (column.null_count or found["min"] < low or found["max"] > high):
        inside = pc.and_(pc.greater_equal(column, low), pc.less_equal(column, high))
        bad = pc.index(pc.fill_null(inside, False), False).as_py()
        raise BayesgramError(
            f"{file}: row {first_row + bad}: {name} is not in {low} … {high}; {MEANING[name]}. Is it the right file?"
        )
    return np.asarray(column.cast(pa.int32()))
