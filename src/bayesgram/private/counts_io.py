"""Counts on disk: writing and reading counts folders, and Parquet files made elsewhere.

A counts folder is private (mode 0700) and holds counts.parquet and meta.json. counts.parquet has
the columns `user`, `ngram` (an id) and `count`, with each user's rows together; it may be a folder
of parts. meta.json has the format, the vocabulary and, where people are counted by segment, the
segments: n-gram i in segment s is the id s·V + i then. The ids from V on (S·V with S segments) are
n-grams that the vocabulary does not list, by order; meta.json says of how many orders.

A Parquet file that was made elsewhere needs the same three columns; its rows may have any order.
`load_counts` reads everything into memory; `counts_on_disk` leaves it on disk.
"""

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from bayesgram.arguments import check_arguments
from bayesgram.arrays import Ids
from bayesgram.cores import read_ahead
from bayesgram.errors import Argument, BayesgramError, UsageError, unreadable_error
from bayesgram.io.atomic import write_folder_atomically
from bayesgram.io.formats import check_format, read_json
from bayesgram.io.records import as_bytes
from bayesgram.io.segments import Segments
from bayesgram.private.counts import (
    MAX_COUNT,
    SegmentedCounts,
    UserCounts,
    build_user_counts,
    require_in_memory,
    split_users,
)
from bayesgram.public.vocabulary import Vocabulary
from bayesgram.text.ngrams import MAX_ORDER
from bayesgram.text.strings import StringTable
from bayesgram.text.tokenizer import buffers
from bayesgram.version import VERSION

FORMAT = 3
META_FILE = "meta.json"
USER_TYPES = ("text", "whole numbers")  # of user ids, where files state them
COUNTS_FILE = "counts.parquet"
FOLDER_FILES = (META_FILE, COUNTS_FILE)
PARQUET_MAGIC = b"PAR1"  # the first bytes of a Parquet file

COLUMN_TYPES = {
    "user": pa.dictionary(pa.int32(), pa.large_string()),
    "ngram": pa.int32(),
    "count": pa.int32(),
}
COLUMNS = list(COLUMN_TYPES)
SCHEMA = pa.schema([pa.field(name, type_, nullable=False) for name, type_ in COLUMN_TYPES.items()])
COLUMN_MEANINGS = {
    "ngram": "an n-gram id is a row number of the vocabulary",
    "count": "a count is a whole number",
}
PARQUET_OPTIONS: dict[str, Any] = {
    "compression": "zstd",
    "use_dictionary": ["user"],
    "column_encoding": {"ngram": "DELTA_BINARY_PACKED"},  # n-grams of a user ascend
    "write_statistics": False,
}
ROWS_PER_WRITE = 1 << 20  # not measured
ROWS_PER_READ = 1 << 20  # not measured


# --- Writing ---


@check_arguments
def save_counts(
    counts: UserCounts | SegmentedCounts,
    vocabulary: Vocabulary,
    path: str | Path,
    *,
    force: bool = False,
) -> None:
    """Write a counts folder, which is private.

    Args:
        counts: Counts in memory.
        vocabulary: The vocabulary that they were counted with.
        path: Where the folder is made.
        force: Whether a counts folder that exists there is replaced.

    Example:
        >>> import bayesgram as bg
        >>> from tempfile import TemporaryDirectory
        >>> vocabulary = bg.Vocabulary.from_public(pa.table({"text": ["a b", "a c"]}), order=1)
        >>> counts = bg.count(pa.table({"user": ["ann"], "text": ["a b"]}), vocabulary)
        >>> with TemporaryDirectory() as folder:
        ...     bg.save_counts(counts, vocabulary, Path(folder) / "counts")
        ...     bg.load_counts(Path(folder) / "counts")
        UserCounts(private, over 3 n-grams)
    """
    if isinstance(counts, SegmentedCounts):
        segments: Segments | None = counts.segments
        segment_count = len(counts.segments)
        flat = counts.flat
    else:
        segments = None
        segment_count = 1
        flat = counts
    unlisted = flat.unlisted_size // segment_count
    with open_counts_writer(
        vocabulary,
        path,
        force=force,
        segments=segments,
        unlisted=unlisted,
        user_type=lambda: flat.user_type,
    ) as write:
        write(require_in_memory(flat, "save_counts"))


@contextmanager
def open_counts_writer(
    vocabulary: Vocabulary,
    path: str | Path,
    *,
    force: bool = False,
    segments: Segments | None = None,
    unlisted: int = 0,
    user_type: Callable[[], str | None] = lambda: None,
) -> Iterator[Callable[[UserCounts], None]]:
    """Yield a function that writes some users; the counts folder appears when the block ends well.

    Args:
        vocabulary: The vocabulary that the counts are made with.
        path: Where the folder is made.
        force: Whether a counts folder that exists there is replaced.
        segments: The segments that are counted by, if any.
        unlisted: How many columns a segment has for n-grams that are not listed.
        user_type: Returns the type of all user ids, if it is known, once all users are written.
    """
    with (
        stage_counts_folder(
            vocabulary,
            path,
            force=force,
            segments=segments,
            unlisted=unlisted,
            user_type=user_type,
        ) as file,
        pq.ParquetWriter(file, SCHEMA, **PARQUET_OPTIONS) as writer,
    ):

        def write(counts: UserCounts) -> None:
            blocks = counts.ngrams.size // ROWS_PER_WRITE + 1
            for first, last in split_users(counts.starts, blocks):
                writer.write_table(_make_table(counts, first, last))

        yield write


@contextmanager
def stage_counts_folder(
    vocabulary: Vocabulary,
    path: str | Path,
    *,
    force: bool = False,
    segments: Segments | None = None,
    unlisted: int = 0,
    user_type: Callable[[], str | None] = lambda: None,
) -> Iterator[Path]:
    """Yield where to write counts.parquet; the counts folder appears when the block ends well.

    It may become a file, or a folder of several. The arguments are those of `open_counts_writer`.
    """
    meta: dict[str, Any] = {
        "format": FORMAT,
        "software": f"bayesgram {VERSION}",
        "vocabulary": {
            "fingerprint": vocabulary.fingerprint,
            "size": len(vocabulary),
            "order": vocabulary.order,
            "tokenizer": vocabulary.tokenizer.name,
        },
        "unlisted": unlisted,
        "segments": None if segments is None else segments.to_json(),
    }
    with write_folder_atomically(path, contents=FOLDER_FILES, force=force, private=True) as folder:
        yield folder / COUNTS_FILE
        meta["user_type"] = user_type()
        (folder / META_FILE).write_text(
            json.dumps(meta, indent=2) + "\n", encoding="utf-8", newline="\n"
        )


def _make_table(counts: UserCounts, first: int, last: int) -> pa.Table:
    rows = slice(counts.starts[first], counts.starts[last])
    codes = np.repeat(
        np.arange(last - first, dtype=np.int32), np.diff(counts.starts[first : last + 1])
    )
    users = pa.DictionaryArray.from_arrays(codes, counts.users[first:last].cast(pa.large_string()))
    return pa.table([users, counts.ngrams[rows], counts.counts[rows]], schema=SCHEMA)


# --- Reading into memory ---


@check_arguments
def load_counts(
    path: str | Path, *, vocabulary_size: int | None = None
) -> UserCounts | SegmentedCounts:
    """Read all of a counts folder, or of a Parquet file of counts.

    Memory is 12 bytes a row and the users' ids, and 16 to 24 bytes a row more where rows are not
    in order, as they are in a counts folder.

    Args:
        path: The folder or file.
        vocabulary_size: How many n-grams the vocabulary has. A folder knows its own.

    Example:
        >>> import bayesgram as bg
        >>> from tempfile import TemporaryDirectory
        >>> vocabulary = bg.Vocabulary.from_public(pa.table({"text": ["a b", "a c"]}), order=1)
        >>> counts = bg.count(pa.table({"user": ["ann"], "text": ["a b"]}), vocabulary)
        >>> with TemporaryDirectory() as folder:
        ...     bg.save_counts(counts, vocabulary, Path(folder) / "counts")
        ...     bg.load_counts(Path(folder) / "counts")
        UserCounts(private, over 3 n-grams)
    """
    segments = read_segments(path)
    if segments is None:
        return load_user_counts(path, vocabulary_size=vocabulary_size)
    location = locate_segmented_counts(path, segments, vocabulary_size)
    return SegmentedCounts(load_location(location), segments)


def load_user_counts(path: str | Path, *, vocabulary_size: int | None = None) -> UserCounts:
    """Read counts that are not by segment; others are refused."""
    return load_location(locate_counts(path, vocabulary_size))


def load_location(location: "CountsLocation") -> UserCounts:
    """Read all rows of a location into memory."""
    names = StringTable()
    users, ngrams, counts = _allocate_columns(location.path, location.count_rows())
    last = 0
    for batch in read_ahead(location.read_batches(users.size)):
        first = last
        last = first + len(batch.codes)
        users[first:last] = names.add(*buffers(batch.ids))[batch.codes]
        ngrams[first:last] = batch.ngrams
        counts[first:last] = batch.counts
    return build_user_counts(
        names.strings(),
        users,
        ngrams,
        counts,
        vocabulary_size=location.vocabulary_size,
        vocabulary_fingerprint=location.fingerprint,
        unlisted_size=location.unlisted_size,
        user_type=location.user_type,
    )


def _allocate_columns(path: str | Path, rows: int) -> tuple[Ids, Ids, Ids]:
    """Return three columns for as many rows as a file claims to have."""
    try:
        users, ngrams, counts = (np.empty(rows, np.int32) for _ in range(3))
    except (MemoryError, ValueError):
        raise BayesgramError(
            f"{path}: says that it has more rows than memory can hold; it is damaged, or needs a"
            " larger machine."
        ) from None
    return users, ngrams, counts


# --- Where counts are, and their rows batch by batch ---


class CountsBatch(NamedTuple):
    """Some rows, checked: row r is of the user `ids[codes[r]]`."""

    ids: pa.LargeBinaryArray  # none is empty; one may come twice
    codes: Ids
    ngrams: Ids
    counts: Ids


@dataclass(frozen=True)
class CountsLocation:
    """Where counts are: one Parquet file or a folder of them, and which vocabulary they name."""

    path: str | Path  # as it was given
    file: Path
    vocabulary_size: int
    fingerprint: str | None  # None for a file, which names no vocabulary
    unlisted_size: int = 0  # columns after the n-grams; none for a file, which does not say
    user_type: str | None = None  # what the column of users held, where that is known

    @property
    def column_count(self) -> int:
        """How many ids there are: n-grams, and then those that the vocabulary does not list."""
        return self.vocabulary_size + self.unlisted_size

    @property
    def files(self) -> list[Path]:
        """The file, or its parts in order of their names."""
        return sorted(self.file.glob("*.parquet")) if self.file.is_dir() else [self.file]

    def count_rows(self) -> int:
        """Return how many rows the files claim to have, after checking their columns."""
        return sum(map(_count_rows, self.files))

    def read_batches(self, rows: int) -> Iterator[CountsBatch]:
        """Read all rows, in order, and check them.

        Args:
            rows: How many rows the files claim to have.

        Raises:
            BayesgramError: If a row can't be right, or the files have more or fewer rows.
        """
        remaining = rows
        for file in self.files:
            for first_row, batch in _read_file(file):
                remaining -= len(batch)
                if remaining < 0:
                    raise _damaged_error(file)
                yield _check_batch(file, first_row, batch, self.column_count)
        if remaining:
            raise _damaged_error(self.path)

    def read_user_codes(self, rows: int) -> Iterator[tuple[pa.LargeBinaryArray, Ids]]:
        """Read whose rows they are, in order: ids, and the number of the id of each row.

        Args:
            rows: How many rows the files claim to have.

        Raises:
            BayesgramError: As of `read_batches`.
        """
        remaining = rows
        for file in self.files:
            for first_row, batch in _read_file(file, ["user"]):
                remaining -= len(batch)
                if remaining < 0:
                    raise _damaged_error(file)
                yield _check_users(file, first_row, batch["user"])
        if remaining:
            raise _damaged_error(self.path)


def read_segments(path: str | Path) -> Segments | None:
    """Return the segments of a counts folder.

    None if people are not counted by segment, or if nothing can be read: whoever reads the counts
    says what is wrong with them.
    """
    try:
        segments = read_json(Path(path) / META_FILE)["segments"]
        return Segments(segments["by"], tuple(map(str, segments["names"])), bool(segments["other"]))
    except (OSError, KeyError, TypeError, ValueError):
        return None


def locate_counts(path: str | Path, vocabulary_size: int | None = None) -> CountsLocation:
    """Return where counts are, and the vocabulary that they name; not by segment.

    Raises:
        UsageError: If there are none, they are by segment, or they are over another vocabulary.
    """
    segments = read_segments(path)
    if segments is not None:
        raise UsageError(
            f"{path}: counts by {segments.by!r}, which `bayesgram release` (by posterior, ",
            Argument("engine", "local"),
            ") and `bayesgram evaluate` take; for all else count again without ",
            Argument("by"),
            ".",
        )
    return _locate(path, vocabulary_size)


def locate_segmented_counts(
    path: str | Path, segments: Segments, vocabulary_size: int | None = None
) -> CountsLocation:
    """Return where counts by segment are, as counts over segments × n-grams.

    Args:
        path: A counts folder.
        segments: Its segments.
        vocabulary_size: How many n-grams the vocabulary has. A folder knows its own.
    """
    location = _locate(path, vocabulary_size)
    return replace(
        location,
        vocabulary_size=location.vocabulary_size * len(segments),
        unlisted_size=location.unlisted_size * len(segments),
    )


def _locate(path: str | Path, vocabulary_size: int | None) -> CountsLocation:
    folder = Path(path)
    if not folder.exists():
        raise UsageError(f"{path}: no such counts; make them with `bayesgram count`.")
    if folder.name == COUNTS_FILE and (folder.parent / META_FILE).is_file():
        # The file of a counts folder, which says what the ids beyond the vocabulary are.
        folder = folder.parent
    if folder.is_dir():
        return CountsLocation(path, folder / COUNTS_FILE, *_read_meta(folder, vocabulary_size))
    if vocabulary_size is None:
        raise UsageError(
            f"{path}: does not say how large its vocabulary is; give"
            " vocabulary_size=len(vocabulary)."
        )
    return CountsLocation(path, folder, vocabulary_size, None)


def _read_meta(folder: Path, vocabulary_size: int | None) -> tuple[int, str, int, str | None]:
    """Return what a counts folder says of its vocabulary, and of its users.

    Returns:
        The size and fingerprint of the vocabulary; of how many orders unlisted n-grams were
        counted; and the type of the user ids, if it is known.
    """
    try:
        meta = read_json(folder / META_FILE)
        check_format(
            folder,
            "a counts folder",
            meta["format"],
            FORMAT,
            remake="Count again with `bayesgram count`.",
        )
        size, fingerprint = _parse_vocabulary(meta["vocabulary"])
        unlisted = _parse_unlisted(meta["unlisted"])
        _check_segments(folder, meta["segments"])
        user_type = _parse_user_type(meta.get("user_type"))
    except FileNotFoundError:
        raise UsageError(
            f"{folder}: not a counts folder (no meta.json); make one with `bayesgram count`."
        ) from None
    except OSError as error:
        raise unreadable_error(folder / META_FILE, error) from None
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
    return size, fingerprint, unlisted, user_type


def _check_segments(folder: Path, segments: object) -> None:
    if segments is not None and read_segments(folder) is None:
        raise ValueError("segments that are not named, or not well")


def _parse_vocabulary(vocabulary: dict[str, Any]) -> tuple[int, str]:
    size = vocabulary["size"]
    fingerprint = vocabulary["fingerprint"]
    if type(size) is not int or not isinstance(fingerprint, str):
        raise TypeError("a size is a whole number, a fingerprint is a text")
    return size, fingerprint


def _parse_user_type(user_type: object) -> str | None:
    if user_type is None or user_type in USER_TYPES:
        return user_type
    raise ValueError("user ids are text or whole numbers")


def _parse_unlisted(unlisted: object) -> int:
    if type(unlisted) is not int or not 0 <= unlisted <= MAX_ORDER:
        raise TypeError(f"unlisted n-grams are of 0 to {MAX_ORDER} orders")
    return unlisted


def _count_rows(file: Path) -> int:
    """Return how many rows a file claims to have, after checking its columns."""
    try:
        with pq.ParquetFile(file) as table:
            schema = table.schema_arrow
            rows = table.metadata.num_rows
            names = schema.names
    except (pa.ArrowException, OSError, ValueError) as error:
        if isinstance(error, OSError) and error.errno is not None:
            raise unreadable_error(file, error) from None
        raise _not_parquet_error(file) from None
    missing = [name for name in COLUMNS if name not in names]
    if missing:
        raise UsageError(
            f"{file}: no column {missing[0]!r}; counts have the columns 'user', 'ngram', 'count',"
            f" this file has {', '.join(map(repr, names))}."
        )
    repeated = [name for name in COLUMNS if names.count(name) > 1]
    if repeated:
        raise UsageError(f"{file}: two columns are called {repeated[0]!r}; rename one of them.")
    id_type = _value_type(schema.field("user").type)
    if not (pa.types.is_integer(id_type) or _is_text(id_type)):
        raise UsageError(
            f"{file}: the column 'user' is {id_type}; ids must be text or whole numbers."
        )
    for name, meaning in COLUMN_MEANINGS.items():
        if not pa.types.is_integer(schema.field(name).type):
            raise UsageError(
                f"{file}: the column {name!r} is {schema.field(name).type}; {meaning}."
            )
    return int(rows)


def _not_parquet_error(file: Path) -> BayesgramError:
    """Return the error for a file that Parquet can't read: it is damaged, or no counts at all."""
    with file.open("rb") as content:
        has_magic = content.read(len(PARQUET_MAGIC)) == PARQUET_MAGIC
    if has_magic or (file.parent / META_FILE).is_file():
        return BayesgramError(
            f"{file}: is damaged or cut short; copy it again, or count again with `bayesgram"
            " count`."
        )
    return UsageError(
        f"{file}: not a Parquet file of counts (columns user, ngram, count); make one with"
        " `bayesgram count`."
    )


def _value_type(type_: pa.DataType) -> pa.DataType:
    return type_.value_type if pa.types.is_dictionary(type_) else type_


def _is_text(type_: pa.DataType) -> bool:
    return bool(pa.types.is_string(type_) or pa.types.is_large_string(type_))


def _read_file(
    file: Path, columns: Sequence[str] = COLUMNS
) -> Iterator[tuple[int, pa.RecordBatch]]:
    """Read rows, some at a time, with the number of the first, from 1; ids are a dictionary."""
    try:
        yield from _read_file_unchecked(file, columns)
    except OSError as error:
        failure = _damaged_error(file) if error.errno is None else unreadable_error(file, error)
    except (pa.ArrowException, ValueError):
        failure = _damaged_error(file)
    else:
        return
    # Raised out here, so that it carries no message of Arrow's, which may quote a value.
    raise failure


def _read_file_unchecked(
    file: Path, columns: Sequence[str]
) -> Iterator[tuple[int, pa.RecordBatch]]:
    id_type = _value_type(pq.read_schema(file).field("user").type)
    dictionaries = ["user"] if _is_text(id_type) else None
    # With `pre_buffer`, the whole file would be in memory.
    with pq.ParquetFile(file, read_dictionary=dictionaries, pre_buffer=False) as table:
        first_row = 1
        for batch in table.iter_batches(ROWS_PER_READ, columns=list(columns)):
            yield first_row, batch
            first_row += len(batch)


def _damaged_error(path: str | Path) -> BayesgramError:
    return BayesgramError(f"{path}: the file is damaged; count again with `bayesgram count`.")


def _check_batch(
    file: Path, first_row: int, batch: pa.RecordBatch, column_count: int
) -> CountsBatch:
    """Return rows in the types of the kernels, which trust them."""
    return CountsBatch(
        *_check_users(file, first_row, batch["user"]),
        _check_integers(file, first_row, batch["ngram"], "ngram", 0, column_count - 1),
        _check_integers(file, first_row, batch["count"], "count", 1, int(MAX_COUNT)),
    )


def _check_users(
    file: Path, first_row: int, users: "pa.Array[Any]"
) -> tuple[pa.LargeBinaryArray, Ids]:
    """Return ids, and the number of the id of each row."""
    if not pa.types.is_dictionary(users.type):
        users = users.dictionary_encode()
    try:
        # Arrow itself does not check that the dictionary has the id of a row, and that it is text.
        users.validate(full=True)
    except pa.ArrowException:
        raise _damaged_error(file) from None
    ids = as_bytes(users.dictionary).fill_null(b"")
    codes: Ids = users.indices.cast(pa.int32()).fill_null(-1).to_numpy(zero_copy_only=False)
    is_empty = pc.equal(pc.binary_length(ids), 0).to_numpy(zero_copy_only=False)
    is_missing = np.append(is_empty, True)  # the last is for rows without an id, whose code is -1
    if users.indices.null_count or is_empty.any():
        row = int(np.argmax(is_missing[codes]))
        if is_missing[codes[row]]:
            raise BayesgramError(
                f"{file}: row {first_row + row}: no user id. Every row of counts needs one."
            )
    return ids, codes


def _check_integers(
    file: Path, first_row: int, column: "pa.Array[Any]", name: str, low: int, high: int
) -> Ids:
    """Return a column of whole numbers in [low, high]; an error never shows the values."""
    extremes = pc.min_max(column).as_py()
    if len(column) and (column.null_count or extremes["min"] < low or extremes["max"] > high):
        is_inside = pc.and_(pc.greater_equal(column, low), pc.less_equal(column, high))
        bad = pc.index(pc.fill_null(is_inside, False), False).as_py()
        raise BayesgramError(
            f"{file}: row {first_row + bad}: {name} is not in {low} … {high};"
            f" {COLUMN_MEANINGS[name]}. Is it the right file?"
        )
    return np.asarray(column.cast(pa.int32()))
