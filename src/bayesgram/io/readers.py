"""Stream records out of files, databases and tables, whatever their format.

`read_records` finds the sources of its inputs, and gives a `RecordReader`, an iterable of batches
of `Records`. No error of a library comes through: their messages quote rows, ours name the file and
the row number.

The readers of Parquet and Arrow are here; `jsonl`, `delimited` and `streams` have those of JSON
lines, CSV, TSV and plain text, `warehouses` has that of databases, and `tables` those of the tables
of other libraries. Each yields `Chunk`s of at most `BATCH_ROWS` rows, and
row 1 is the first row.

What is in memory at once: a Parquet file is decoded page by page. With eight cores or more, row
groups of up to 32 MB are decoded whole, several of them at the same time. An Arrow file is read one
record batch at a time; its writer chose how large a batch is.
"""

import logging
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from bayesgram.cores import CORES, read_ahead
from bayesgram.errors import Argument, BayesgramError
from bayesgram.io.inputs import (
    TEXT_FORMATS,
    Inputs,
    Source,
    find_sources,
    refuse_own_schema,
    refuse_own_tables,
)
from bayesgram.io.jsonl import read_jsonl
from bayesgram.io.records import (
    BATCH_BYTES,
    BATCH_ROWS,
    UTF_8,
    BadRows,
    Chunk,
    Columns,
    Dialect,
    Records,
    as_bytes,
    clean,
    describe_user_type,
)
from bayesgram.io.segments import Segments
from bayesgram.io.streams import read_text
from bayesgram.io.tables import open_table, read_in_same_thread

OnProgress: TypeAlias = Callable[[int], None]  # called with the bytes read since its last call

_NAMES_SHOWN = 5  # of files, in a message
# Bytes. With a buffer, Parquet streams a column of a row group; without, it loads it whole.
_READ_BUFFER = 1 << 20

# Batches that are read while the others are searched: counting stops the search for a while.
# `vocab` of 1 GB on two cores took 5.7 s with 4, and 6.3 s with 1; 12 were no better.
BATCHES_AHEAD = 4

# Threads that decode Parquet: one decodes half a gigabyte a second, which eight cores count.
PARQUET_READERS = min(max(CORES // 4, 1), 4)
# Row groups that are decoded together by one of several threads: as much as a few batches.
_RUN_BYTES = 2 * BATCH_BYTES
_RUN_ROWS = 2 * BATCH_ROWS
_GROUP_BYTES = 8 * BATCH_BYTES  # a larger row group is decoded page by page, in one thread

logger = logging.getLogger(__name__)


class RecordReader:
    """An iterable of `Records`.

    `bad_rows` fills while iterating; iterating again starts over. Sources that gave no record are
    logged once. If none gave one and `require_rows` is set, the iteration ends with an error.
    """

    def __init__(
        self,
        sources: list[Source],
        columns: Columns,
        *,
        skip_bad_rows: bool,
        on_progress: OnProgress | None,
        require_rows: bool = False,
        segments: Segments | None = None,
    ) -> None:
        self.sources = sources
        self.bad_rows = BadRows()
        self._columns = columns
        self._skip = skip_bad_rows
        self._on_progress = on_progress
        self._require_rows = require_rows
        self._segments = segments
        self._has_logged = False
        # What the rows of each source that is no file added up to when it was read first.
        self._sums: dict[str, RowSums] = {}

    @property
    def size(self) -> int:
        """Bytes of all files together: what the calls of `on_progress` add up to.

        Those of databases come on top.
        """
        return sum(source.size or 0 for source in self.sources)

    @property
    def has_known_size(self) -> bool:
        """Whether no source is a database, whose size isn't known before it is read."""
        return all(source.uri is None for source in self.sources)

    def __iter__(self) -> Iterator[Records]:
        if any(read_in_same_thread(source) for source in self.sources):
            return self._records()
        return read_ahead(self._records(), depth=BATCHES_AHEAD)

    def _records(self) -> Iterator[Records]:
        self.bad_rows.by_reason.clear()
        self.bad_rows.without_text = 0
        empty: list[str] = []  # sources without a row
        skipped: list[str] = []  # sources of which every row was skipped
        for source in self.sources:
            reported = 0
            rows = 0
            bad_before = self.bad_rows.total
            sums = RowSums()
            # However the reading ends, a connection is free again.
            with closing(_explain_errors(source, _read_chunks(source, self._columns))) as chunks:
                for chunk in chunks:
                    for records in clean(
                        chunk,
                        source.name,
                        self.bad_rows,
                        skip=self._skip,
                        segments=self._segments,
                        text_file=self._columns if source.format in TEXT_FORMATS else None,
                    ):
                        rows += len(records)
                        yield records
                    if source.path is None:
                        sums.add(chunk)
                    position = min(chunk.position, source.size or 0)
                    reported = self._report(reported, sums.sizes if source.uri else position)
            self._report(reported, source.size or 0)
            if self._sums.setdefault(source.name, sums) != sums:
                raise _changed_error(source)
            if rows == 0:
                has_bad_rows = self.bad_rows.total > bad_before
                (skipped if has_bad_rows else empty).append(source.name)
        if self._require_rows and len(empty) + len(skipped) == len(self.sources):
            raise no_rows_error(self.bad_rows)
        if not self._has_logged:
            _log_sources(empty, "no row in it.")
            _log_sources(skipped, "every row was skipped.")
        self._has_logged = True

    def _report(self, reported: int, position: int) -> int:
        """Report the bytes up to `position`, and return up to where they are reported now."""
        if self._on_progress is not None and position > reported:
            self._on_progress(position - reported)
        return max(reported, position)


def read_records(
    inputs: Inputs,
    *,
    text_column: str,
    user_column: str | None,
    skip_bad_rows: bool = False,
    on_progress: OnProgress | None = None,
    require_rows: bool = False,
    segments: Segments | None = None,
    warn_about_users: bool = False,
    delimiter: str | None = None,
    encoding: str = UTF_8,
) -> RecordReader:
    """Read texts, and who wrote them.

    Args:
        inputs: Files, folders, patterns, URIs of databases, and tables.
        text_column: The column with the texts.
        user_column: The column with user ids; None for public text.
        skip_bad_rows: Whether to skip and count rows that can't be used, instead of failing.
        on_progress: Is called with the bytes that were read since its last call.
        require_rows: Whether to fail if there is no row, or every row is skipped.
        segments: The column with the segment of each row, and the values that it may have.
        warn_about_users: For public text: whether to log a column that looks like user ids.
        delimiter: What separates the columns of CSV and TSV files, if not commas and tabs.
        encoding: That of text files (CSV, TSV, JSON lines, plain text): UTF-8, or one with one byte
            for each character, such as latin-1.

    >>> table = pa.table({"author": [7, 8], "body": ["red fish", "blue fish"]})
    >>> for records in read_records(table, text_column="body", user_column="author"):
    ...     print(records.user.to_pylist(), records.text.to_pylist())
    [b'7', b'8'] [b'red fish', b'blue fish']
    """
    sources = find_sources(inputs, allow_plain_text=user_column is None)
    if user_column is None:
        refuse_own_tables(sources)
    by = None if segments is None else segments.by
    dialect = Dialect(delimiter, encoding)
    columns = Columns(text_column, user_column, by, warn_about_users, dialect)
    return RecordReader(
        sources,
        columns,
        skip_bad_rows=skip_bad_rows,
        on_progress=on_progress,
        require_rows=require_rows,
        segments=segments,
    )


def no_rows_error(bad_rows: BadRows) -> BayesgramError:
    """Return the error that there is no row to work with, and why."""
    if bad_rows.by_reason:
        return BayesgramError(
            f"nothing was read: every row was skipped ({', '.join(bad_rows.by_reason)}). "
            "Correct the rows, or name the right columns with ",
            Argument("text_column"),
            " and ",
            Argument("user_column"),
            ".",
        )
    return BayesgramError(
        "nothing was read: the inputs hold no row. Check that they are the right ones."
    )


def _log_sources(names: Sequence[str], problem: str) -> None:
    """Log a problem of several sources in one line."""
    if names:
        more = f" and {len(names) - _NAMES_SHOWN} more" if len(names) > _NAMES_SHOWN else ""
        logger.warning("%s%s: %s", ", ".join(names[:_NAMES_SHOWN]), more, problem)


def _read_chunks(source: Source, columns: Columns) -> Iterator[Chunk]:  # noqa: PLR0911 - one for each format
    match source.format:
        case "parquet":
            return read_parquet(source, columns)
        case "arrow":
            return read_arrow(source, columns)
        case "jsonl":
            return read_jsonl(source, columns)
        case "csv" | "tsv":
            from bayesgram.io.delimited import read_delimited  # noqa: PLC0415 - kernels, which take 0.2 s

            return read_delimited(source, columns)
        case "text":
            return read_text(source, columns.dialect.encoding)
        case "table":
            return read_table(source, columns)
        case "database":
            return read_database(source, columns)


def _explain_errors(source: Source, chunks: Iterator[Chunk]) -> Generator[Chunk, None, None]:
    """Yield chunks, and replace errors of libraries by our own.

    The new error is raised after the old one is gone, so that it carries no context to show.
    """
    while True:
        try:
            chunk = next(chunks)
        except StopIteration:
            return
        except BayesgramError:
            raise
        except (OSError, pa.ArrowException, ValueError) as error:
            problem = _reading_error(source, error)
        except Exception as error:
            if source.table is None:
                raise
            problem = _reading_error(source, error)
        else:
            yield chunk
            continue
        raise problem


def _reading_error(source: Source, error: Exception) -> BayesgramError:
    match error:
        case MemoryError():
            return BayesgramError(
                f"{source.name}: out of memory while reading it. Give the command less with ",
                Argument("memory", "200MB"),
                ", or use a machine with more memory. (A damaged file can ask for too much, too.)",
            )
        case FileNotFoundError():
            return BayesgramError(
                f"{source.name}: no longer there. Check that nothing moves the file meanwhile."
            )
        case PermissionError():
            return BayesgramError(f"{source.name}: permission denied. Check who may read the file.")
        case _ if source.path is None:
            return BayesgramError(
                f"{source.name}: can't be read ({type(error).__name__}). Check how it was made."
            )
        case _:
            kind = " ".join(filter(None, (source.compression, source.format)))
            return BayesgramError(
                f"{source.name}: can't be read as {kind}; the file is damaged or cut short. "
                "Copy it again, or write it anew."
            )


def _changed_error(source: Source) -> BayesgramError:
    return BayesgramError(
        f"{source.name}: gave other rows when it was read again. It changed meanwhile, or its query"
        " does not give the same rows every time (LIMIT without ORDER BY, a random sample). Write"
        " the rows to a table or a Parquet file first, and read that."
    )


@dataclass
class RowSums:
    """What the rows of a source add up to, in whatever order they come."""

    rows: int = 0
    sizes: int = 0  # bytes of all values
    values: int = 0  # the sum of these bytes

    def add(self, chunk: Chunk) -> None:
        """Add the rows of a chunk."""
        self.rows += len(chunk.text)
        for array in (chunk.text, chunk.user):
            if array is not None and len(array):
                size, value = _sum_bytes(array)
                self.sizes += size
                self.values += value


def _sum_bytes(array: pa.LargeBinaryArray) -> tuple[int, int]:
    """Return how many bytes an array holds, and their sum."""
    array = array.fill_null(b"")  # what stands for a null may be any bytes
    _, offset_buffer, data = array.buffers()
    offsets = np.frombuffer(offset_buffer, np.int64)[array.offset :][: len(array) + 1]
    if data is None:
        return 0, 0
    used = np.frombuffer(data, np.uint8)[offsets[0] : offsets[-1]]
    return len(used), int(used.sum(dtype=np.uint64))


# --- Parquet, Arrow, databases and tables in memory ---


def read_parquet(source: Source, columns: Columns) -> Iterator[Chunk]:
    """Yield chunks of a Parquet file; its bytes count as read in proportion to its rows."""
    with pa.OSFile(str(source.path), "rb") as disk, _open_parquet(disk) as file:
        columns.check_types(source.name, file.schema_arrow)
        bytes_per_row = (source.size or 0) / max(1, file.metadata.num_rows)
        runs = _small_runs(file.metadata) if PARQUET_READERS > 1 else []
        if runs:
            # However the reading ends, no thread reads any more when the file is closed.
            with closing(_read_runs(disk, file.metadata, runs, columns.names)) as batches:
                yield from _table_chunks(batches, columns, bytes_per_row)
        else:
            batches = file.iter_batches(_batch_rows(file.metadata), columns=columns.names)
            yield from _table_chunks(batches, columns, bytes_per_row)


def _open_parquet(disk: pa.OSFile, metadata: pq.FileMetaData | None = None) -> pq.ParquetFile:
    return pq.ParquetFile(disk, metadata=metadata, buffer_size=_READ_BUFFER, pre_buffer=False)


def _small_runs(metadata: pq.FileMetaData) -> list[list[int]]:
    """Return runs of row groups that are decoded together; none if a row group is too large."""
    runs: list[list[int]] = []
    run_rows = run_bytes = 0
    for number in range(metadata.num_row_groups):
        group = metadata.row_group(number)
        is_small = group.num_rows <= _RUN_ROWS and 0 < group.total_byte_size <= _GROUP_BYTES
        if group.num_rows and not is_small:
            return []
        run_rows += group.num_rows
        run_bytes += group.total_byte_size
        if not runs or run_rows > _RUN_ROWS or run_bytes > _RUN_BYTES:
            runs.append([])
            run_rows = group.num_rows
            run_bytes = group.total_byte_size
        runs[-1].append(number)
    return runs


def _read_runs(
    disk: pa.OSFile, metadata: pq.FileMetaData, runs: list[list[int]], names: list[str]
) -> Generator[pa.RecordBatch, None, None]:
    """Yield the batches of runs of row groups, in order; several are decoded side by side."""
    rows = _batch_rows(metadata)

    def read_run(groups: list[int]) -> list[pa.RecordBatch]:
        # A file object of its own for each thread; they share the open file, whose reads say where.
        with _open_parquet(disk, metadata) as file:
            batches = file.iter_batches(rows, row_groups=groups, columns=names, use_threads=False)
            return list(batches)

    pending: deque[Future[list[pa.RecordBatch]]] = deque()
    with ThreadPoolExecutor(PARQUET_READERS) as pool:
        try:
            for groups in runs:
                pending.append(pool.submit(read_run, groups))
                if len(pending) > PARQUET_READERS:
                    yield from pending.popleft().result()
            while pending:
                yield from pending.popleft().result()
        finally:
            for run in pending:
                run.cancel()


def read_arrow(source: Source, columns: Columns) -> Iterator[Chunk]:
    """Yield chunks of an Arrow file (Feather, version 2).

    Its bytes count as read in proportion to its batches.
    """
    with pa.OSFile(str(source.path), "rb") as disk, pa.ipc.open_file(disk) as file:
        schema = file.schema
        batches = file.num_record_batches
    columns.check_types(source.name, schema)
    fields = [schema.get_field_index(name) for name in columns.names]
    options = pa.ipc.IpcReadOptions(included_fields=fields)
    row = 1
    position = 0
    with pa.OSFile(str(source.path), "rb") as disk, pa.ipc.open_file(disk, options=options) as file:
        for number in range(batches):
            batch = file.get_batch(number)
            _check_offsets(batch)
            for chunk in _table_chunks([batch], columns, row=row):
                yield replace(chunk, position=position)
                row += len(chunk.text)
            position = (source.size or 0) * (number + 1) // batches


def _check_offsets(batch: pa.RecordBatch) -> None:
    """Refuse a batch with a value that leads outside of it.

    Arrow takes the offsets in a file for right, and crashes if they are not. Whether the text is
    UTF-8 is looked at later, row by row.
    """
    for column in batch.columns:
        _view_as_binary(column).validate(full=True)


def _view_as_binary(array: "pa.Array[Any]") -> "pa.Array[Any]":
    if isinstance(array, pa.DictionaryArray):
        return pa.DictionaryArray.from_arrays(
            array.indices, _view_as_binary(array.dictionary), safe=False
        )
    binary_types = {
        pa.string(): pa.binary(),
        pa.large_string(): pa.large_binary(),
        pa.string_view(): pa.binary_view(),
    }
    return array.view(binary_types[array.type]) if array.type in binary_types else array


def read_table(source: Source, columns: Columns) -> Iterator[Chunk]:
    """Yield chunks of a table in memory, without a copy where its types allow."""
    with open_table(source, columns) as (schema, batches):
        _check_schema(source, columns, schema)
        yield from _table_chunks(batches, columns)


def read_database(source: Source, columns: Columns) -> Iterator[Chunk]:
    """Yield chunks of a table or a query of a database."""
    from bayesgram.io import warehouses  # noqa: PLC0415 - only databases need it

    if source.uri is None:
        raise AssertionError("a database has a URI")
    batches = warehouses.read_database(source.uri, columns, partial(_check_schema, source, columns))
    return _table_chunks(batches, columns)


def _check_schema(source: Source, columns: Columns, schema: pa.Schema) -> None:
    """Refuse columns of other types, and for public text a table of ours."""
    if columns.user is None:
        refuse_own_schema(source.name, schema, columns.text)
    columns.check_types(source.name, schema)


def _table_chunks(
    batches: Iterable[pa.RecordBatch], columns: Columns, bytes_per_row: float = 0, *, row: int = 1
) -> Iterator[Chunk]:
    for batch in batches:
        for start in range(0, len(batch), BATCH_ROWS):
            part = batch.slice(start, BATCH_ROWS)
            users = None if columns.user is None else part.column(columns.user)
            rows = range(row, row + len(part))
            row += len(part)
            yield Chunk(
                as_bytes(part.column(columns.text)),
                None if users is None else as_bytes(users),
                rows,
                int(bytes_per_row * (row - 1)),
                by=None if columns.by is None else as_bytes(part.column(columns.by)),
                user_type=None if users is None else describe_user_type(users.type),
            )


def _batch_rows(metadata: pq.FileMetaData) -> int:
    """Return how many rows hold about `BATCH_BYTES`, in the row group with the longest rows.

    All columns count. The size of the text column would do, but pyarrow ends the process when it
    is asked for that of a damaged file.
    """
    rows = BATCH_ROWS
    for group in (metadata.row_group(index) for index in range(metadata.num_row_groups)):
        if group.num_rows > 0:
            rows = min(rows, BATCH_BYTES * group.num_rows // max(1, group.total_byte_size))
    return max(1, rows)
