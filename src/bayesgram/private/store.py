"""Counts on disk: a private folder (mode 0700) of counts.parquet and meta.json, or one Parquet file made elsewhere.

counts.parquet has `user`, `ngram` (id), `count`, each user's rows together; meta.json says which vocabulary. A file
made elsewhere needs the same three columns, in any order of rows.
"""

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from bayesgram.arguments import checked
from bayesgram.arrays import Ids
from bayesgram.cores import ahead
from bayesgram.errors import BayesgramError, UsageError, unreadable
from bayesgram.files.columns import as_bytes
from bayesgram.files.formats import check_format, read_json
from bayesgram.files.writing import publish_folder
from bayesgram.private.counts import MAX_COUNT, UserCounts, user_counts
from bayesgram.private.over_users import user_blocks
from bayesgram.public.vocabulary import Vocabulary
from bayesgram.text.strings import EMPTY, StringTable
from bayesgram.text.tokens import buffers
from bayesgram.version import VERSION

FORMAT = 1
META, COUNTS = "meta.json", "counts.parquet"
CONTENTS = (META, COUNTS)
ROWS_AT_ONCE = 1 << 20
TYPES = {"user": pa.dictionary(pa.int32(), pa.large_string()), "ngram": pa.int32(), "count": pa.int32()}
SCHEMA = pa.schema([pa.field(name, kind, nullable=False) for name, kind in TYPES.items()])
AS_WRITTEN: dict[str, Any] = {
    "compression": "zstd",
    "use_dictionary": ["user"],
    "column_encoding": {"ngram": "DELTA_BINARY_PACKED"},  # n-grams of a user ascend
    "write_statistics": False,
}
ROWS_READ = 1 << 20
COLUMNS = list(TYPES)
MEANING = {"ngram": "an n-gram id is a row number of the vocabulary", "count": "a count is a whole number"}


@checked
def save_counts(counts: UserCounts, vocabulary: Vocabulary, path: str | Path, *, force: bool = False) -> None:
    """Write a counts folder; it is private."""
    with counts_folder(vocabulary, path, force=force) as write:
        write(counts)


@contextmanager
def counts_folder(
    vocabulary: Vocabulary, path: str | Path, *, force: bool = False
) -> Iterator[Callable[[UserCounts], None]]:
    """A counts folder to write to, some users at a time; it appears when the block ends well."""
    with (
        unwritten_counts(vocabulary, path, force=force) as file,
        pq.ParquetWriter(file, SCHEMA, **AS_WRITTEN) as writer,
    ):

        def write(counts: UserCounts) -> None:
            for first, last in user_blocks(counts.starts, counts.ngrams.size // ROWS_AT_ONCE + 1):
                writer.write_table(_table(counts, first, last))

        yield write


@contextmanager
def unwritten_counts(vocabulary: Vocabulary, path: str | Path, *, force: bool = False) -> Iterator[Path]:
    """Where to write counts.parquet, a file or a folder of several; the counts folder appears when the block ends."""
    meta = {
        "format": FORMAT,
        "software": f"bayesgram {VERSION}",
        "vocabulary": {
            "fingerprint": vocabulary.fingerprint,
            "size": len(vocabulary),
            "order": vocabulary.order,
            "tokenizer": vocabulary.tokenizer.name,
        },
    }
    with publish_folder(path, contents=CONTENTS, force=force, private=True) as folder:
        yield folder / COUNTS
        (folder / META).write_text(json.dumps(meta, indent=2) + "\n", encoding="utf-8")


def _table(counts: UserCounts, first: int, last: int) -> pa.Table:
    rows = slice(counts.starts[first], counts.starts[last])
    codes = np.repeat(np.arange(last - first, dtype=np.int32), np.diff(counts.starts[first : last + 1]))
    users = pa.DictionaryArray.from_arrays(codes, counts.users[first:last].cast(pa.large_string()))
    return pa.table([users, counts.ngrams[rows], counts.counts[rows]], schema=SCHEMA)


@checked
def load_counts(path: str | Path, *, vocabulary_size: int | None = None) -> UserCounts:
    """Read a counts folder or a Parquet file of counts over a vocabulary of this size; a folder says it itself.

    Memory is 12 bytes a row and the users' ids, and 16 to 24 bytes more where the rows are not in order, as ours are.
    """
    vocabulary_size = stated_size(path) if vocabulary_size is None else vocabulary_size
    place, fingerprint = find_counts(path, vocabulary_size)
    files = sorted(place.glob("*.parquet")) if place.is_dir() else [place]
    names = StringTable()
    users, ngrams, counts = _room(path, sum(map(_rows_in, files)))
    last = 0
    for file in files:
        for first_row, batch in ahead(_batches(file)):
            first, last = last, last + len(batch)
            if last > users.size:
                raise _damaged(file)
            users[first:last] = _users(file, first_row, batch["user"], names)
            for column, name, bounds in (
                (ngrams, "ngram", (0, vocabulary_size - 1)),
                (counts, "count", (1, MAX_COUNT)),
            ):
                column[first:last] = _whole_numbers(file, first_row, batch[name], name, *bounds)
    if last < users.size:
        raise _damaged(path)
    return user_counts(
        names.strings(),
        users,
        ngrams,
        counts,
        vocabulary_size=vocabulary_size,
        vocabulary_fingerprint=fingerprint,
    )


def stated_size(path: str | Path) -> int:
    """The size of the vocabulary that a counts folder was made with; a file made elsewhere does not say."""
    folder = _there(path)
    if not folder.is_dir():
        raise UsageError(f"{path}: does not say how large its vocabulary is; give vocabulary_size=len(vocabulary).")
    return _made_with(folder)[0]


def find_counts(path: str | Path, vocabulary_size: int) -> tuple[Path, str | None]:
    """The Parquet file (or a folder of them), and the vocabulary it says it was made with."""
    folder = _there(path)
    if not folder.is_dir():
        return folder, None
    size, fingerprint = _made_with(folder)
    if size != vocabulary_size:
        raise UsageError(
            f"{folder}: counts over {size:,} n-grams, but the vocabulary has {vocabulary_size:,};"
            " give the vocabulary the counts were made with."
        )
    return folder / COUNTS, fingerprint


def _there(path: str | Path) -> Path:
    if not Path(path).exists():
        raise UsageError(f"{path}: no such counts; make them with `bayesgram count`.")
    return Path(path)


def _made_with(folder: Path) -> tuple[int, str]:
    """The size and the fingerprint of the vocabulary that a counts folder says it was made with."""
    try:
        meta = read_json(folder / META)
        check_format(folder, "a counts folder", meta["format"], FORMAT)
        return _stated(meta["vocabulary"])
    except FileNotFoundError:
        raise UsageError(f"{folder}: not a counts folder (no meta.json); make one with `bayesgram count`.") from None
    except OSError as error:
        raise unreadable(folder / META, error) from None
    except UsageError:
        raise
    except (KeyError, TypeError, ValueError):
        raise BayesgramError(f"{folder}: meta.json is damaged; count again with `bayesgram count`.") from None


def _stated(vocabulary: dict[str, Any]) -> tuple[int, str]:
    """What meta.json tells of a vocabulary."""
    size, fingerprint = vocabulary["size"], vocabulary["fingerprint"]
    if type(size) is not int or not isinstance(fingerprint, str):
        raise TypeError("a size is a whole number, a fingerprint is a text")
    return size, fingerprint


def _rows_in(file: Path) -> int:
    """How many rows a file has, whose columns are right."""
    try:
        with pq.ParquetFile(file) as opened:
            schema, rows = opened.schema_arrow, opened.metadata.num_rows
            names = schema.names
    except (pa.ArrowException, OSError, ValueError) as error:
        if isinstance(error, OSError) and error.errno is not None:
            raise unreadable(file, error) from None
        raise UsageError(f"{file}: not a readable Parquet file of counts (columns user, ngram, count).") from None
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
            raise UsageError(f"{file}: the column {name!r} is {schema.field(name).type}; {meaning}.")
    return int(rows)


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
    with pq.ParquetFile(file, read_dictionary=["user"] if _is_text(kind) else None) as opened:
        first_row = 1
        for batch in opened.iter_batches(ROWS_READ, columns=COLUMNS):
            yield first_row, batch
            first_row += len(batch)


def _damaged(path: str | Path) -> BayesgramError:
    return BayesgramError(f"{path}: the file is damaged; count again with `bayesgram count`.")


def _users(file: Path, first_row: int, users: "pa.Array[Any]", names: StringTable) -> Ids:
    """The numbers of these ids; new ones get one."""
    if not pa.types.is_dictionary(users.type):
        users = users.dictionary_encode()
    try:
        users.validate(full=True)  # Arrow itself does not ask whether an id is there, and is text
    except pa.ArrowException:
        raise _damaged(file) from None
    known = names.add(*buffers(as_bytes(users.dictionary).fill_null(b"")))
    codes = users.indices.fill_null(-1).to_numpy(zero_copy_only=False)
    numbers: Ids = np.append(known, np.int32(EMPTY))[codes]  # of no id at all, the last
    if numbers.min(initial=0) == EMPTY:
        row = first_row + int(np.argmax(numbers == EMPTY))
        raise BayesgramError(f"{file}: row {row}: no user id. Every row of counts needs one.")
    return numbers


def _whole_numbers(file: Path, first_row: int, column: "pa.Array[Any]", name: str, low: int, high: int) -> Ids:
    """A column of whole numbers in [low, high]; the values themselves are never shown."""
    inside = pc.and_(pc.greater_equal(column, low), pc.less_equal(column, high))
    bad = pc.index(pc.fill_null(inside, False), False).as_py()
    if bad >= 0:
        raise BayesgramError(
            f"{file}: row {first_row + bad}: {name} is not in {low} … {high}; {MEANING[name]}. Is it the right file?"
        )
    return np.asarray(column.cast(pa.int32()))
