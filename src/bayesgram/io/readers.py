"""Read Parquet and Arrow files, and tables in memory.

In:  a `Source`.   Out: chunks of at most `BATCH_ROWS` rows; row 1 is the first row.
Does not load a whole file or row group: Parquet pages are decoded as they are needed. Of an Arrow file a record batch
is loaded, which whoever wrote it has cut.

Stream records out of files and tables.

In:  what `find_sources` finds.   Out: `Records` batches, whatever the format.
Does not let an error of a library through: their messages quote rows, ours name the file and the row number.
"""

import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any, TypeAlias

import pyarrow as pa
import pyarrow.parquet as pq

from bayesgram.cores import read_ahead
from bayesgram.errors import Argument, BayesgramError
from bayesgram.io.inputs import Inputs, Source, find_sources, refuse_own_tables
from bayesgram.io.jsonl import read_jsonl
from bayesgram.io.records import (
    BATCH_BYTES,
    BATCH_ROWS,
    BadRows,
    Chunk,
    Columns,
    Records,
    as_bytes,
    clean,
)
from bayesgram.io.segments import Segments
from bayesgram.io.streams import read_text

_READ_BUFFER = (
    1 << 20
)  # with a buffer, Parquet streams a column of a row group; without, it loads it whole


def read_parquet(source: Source, columns: Columns) -> Iterator[Chunk]:
    """Yield chunks of a Parquet file; its bytes count as read in proportion to its rows."""
    with pq.ParquetFile(str(source.path), buffer_size=_READ_BUFFER, pre_buffer=False) as file:
        columns.check_types(source.name, file.schema_arrow)
        batches = file.iter_batches(_batch_rows(file.metadata), columns=columns.names)
        bytes_per_row = (source.size or 0) / max(1, file.metadata.num_rows)
        yield from _table_chunks(batches, columns, bytes_per_row)


def read_arrow(source: Source, columns: Columns) -> Iterator[Chunk]:
    """Yield chunks of an Arrow file (Feather, version 2); its bytes count as read in proportion to its batches."""
    with pa.OSFile(str(source.path), "rb") as disk, pa.ipc.open_file(disk) as whole:
        schema, batches = whole.schema, whole.num_record_batches
    columns.check_types(source.name, schema)
    wanted = pa.ipc.IpcReadOptions(
        included_fields=[schema.get_field_index(name) for name in columns.names]
    )
    row, position = 1, 0
    with pa.OSFile(str(source.path), "rb") as disk, pa.ipc.open_file(disk, options=wanted) as file:
        for number in range(batches):
            for chunk in _table_chunks([_sound(file.get_batch(number))], columns, row=row):
                yield replace(chunk, position=position)
                row += len(chunk.text)
            position = (source.size or 0) * (number + 1) // batches


def _sound(batch: pa.RecordBatch) -> pa.RecordBatch:
    """The batch, if no value of it leads outside: Arrow takes the offsets in a file for right, and crashes if not.

    Whether the text is UTF-8 is looked at later, row by row.
    """
    for column in batch.columns:
        _as_binary(column).validate(full=True)
    return batch


def _as_binary(array: "pa.Array[Any]") -> "pa.Array[Any]":
    if isinstance(array, pa.DictionaryArray):
        return pa.DictionaryArray.from_arrays(
            array.indices, _as_binary(array.dictionary), safe=False
        )
    kinds = {
        pa.string(): pa.binary(),
        pa.large_string(): pa.large_binary(),
        pa.string_view(): pa.binary_view(),
    }
    return array.view(kinds[array.type]) if array.type in kinds else array


def read_table(source: Source, columns: Columns) -> Iterator[Chunk]:
    """Yield chunks of a table in memory, without a copy where its types allow."""
    batches = _stream(source, columns)
    columns.check_types(source.name, batches.schema)
    yield from _table_chunks(batches, columns)


def _table_chunks(
    batches: Iterable[pa.RecordBatch], columns: Columns, bytes_per_row: float = 0, *, row: int = 1
) -> Iterator[Chunk]:
    for batch in batches:
        for start in range(0, len(batch), BATCH_ROWS):
            part = batch.slice(start, BATCH_ROWS)
            rows = range(row, row + len(part))
            row += len(part)
            user, by = (
                None if name is None else as_bytes(part.column(name))
                for name in (columns.user, columns.by)
            )
            yield Chunk(
                as_bytes(part.column(columns.text)),
                user,
                rows,
                int(bytes_per_row * (row - 1)),
                by=by,
            )


def _batch_rows(metadata: pq.FileMetaData) -> int:
    """As many rows as hold about `BATCH_BYTES` of all columns in the row group with the longest rows.

    The size of the text column would do, but pyarrow ends the process when it is asked for that of a damaged file.
    """
    rows = BATCH_ROWS
    for group in (metadata.row_group(index) for index in range(metadata.num_row_groups)):
        if group.num_rows > 0:
            rows = min(rows, BATCH_BYTES * group.num_rows // max(1, group.total_byte_size))
    return max(1, rows)


def _stream(source: Source, columns: Columns) -> pa.RecordBatchReader:
    """Any table as Arrow batches."""
    try:
        return pa.RecordBatchReader.from_stream(_narrow(source, columns))
    except BayesgramError:
        raise
    except Exception as error:  # noqa: BLE001 - polars and pandas quote values in errors of many types
        kind = type(error).__name__
    raise BayesgramError(
        f"{source.name}: can't be turned into an Arrow table ({kind}). Check that each column holds one type."
    )


def _narrow(source: Source, columns: Columns) -> Any:  # noqa: ANN401 - a table of a library not imported here
    """Keep the columns that are read: a lazy table computes no others, and others may not convert at all."""
    table: Any = source.table
    library = type(table).__module__.partition(".")[0]
    if library not in ("pandas", "polars"):
        return table
    lazy = hasattr(table, "collect_schema") and hasattr(table, "collect")
    columns.check_present(
        source.name, table.collect_schema().names() if lazy else list(table.columns)
    )
    return table.select(columns.names).collect() if lazy else table[columns.names]


OnProgress: TypeAlias = Callable[[int], None]

_NAMES_SHOWN = 5

logger = logging.getLogger(__name__)


class RecordReader:
    """An iterable of `Records`. `bad_rows` fills while iterating; iterating again starts over.

    Logs which sources gave no record, once. If none did and `require_rows` is set, the iteration ends with an error.
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
        self._refuse_nothing = require_rows
        self._segments = segments
        self._said = False

    @property
    def size(self) -> int:
        """Bytes of all files together: what the calls of on_progress add up to."""
        return sum(source.size or 0 for source in self.sources)

    def __iter__(self) -> Iterator[Records]:
        return read_ahead(self._records())

    def _records(self) -> Iterator[Records]:
        self.bad_rows.by_reason.clear()
        empty, skipped = list[str](), list[str]()
        for source in self.sources:
            reported, rows, bad = 0, 0, self.bad_rows.total
            for chunk in _guarded(source, _chunks(source, self._columns)):
                for records in clean(
                    chunk, source.name, self.bad_rows, skip=self._skip, segments=self._segments
                ):
                    rows += len(records)
                    yield records
                reported = self._report(reported, min(chunk.position, source.size or 0))
            self._report(reported, source.size or 0)
            if rows == 0:
                (empty if self.bad_rows.total == bad else skipped).append(source.name)
        if self._refuse_nothing and len(empty) + len(skipped) == len(self.sources):
            raise no_rows_error(self.bad_rows)
        if not self._said:
            _say(empty, "no row in it.")
            _say(skipped, "every row was skipped.")
        self._said = True

    def _report(self, reported: int, position: int) -> int:
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
) -> RecordReader:
    """Read texts and, where `user_column` is given, who wrote them and, where there are any, in which segment.

    `on_progress` gets the bytes read since its last call. `skip_bad_rows` counts bad rows instead of failing;
    `require_rows` fails if there is no other row. `warn_about_users` is for public text: a column that looks like
    user ids is logged.

    >>> table = pa.table({"author": [7, 8], "body": ["red fish", "blue fish"]})
    >>> for records in read_records(table, text_column="body", user_column="author"):
    ...     print(records.user.to_pylist(), records.text.to_pylist())
    [b'7', b'8'] [b'red fish', b'blue fish']
    """
    sources = find_sources(inputs, allow_plain_text=user_column is None)
    if user_column is None:
        refuse_own_tables(sources)
    by = None if segments is None else segments.by
    columns = Columns(text_column, user_column, by, warn_about_users)
    return RecordReader(
        sources,
        columns,
        skip_bad_rows=skip_bad_rows,
        on_progress=on_progress,
        require_rows=require_rows,
        segments=segments,
    )


def no_rows_error(bad_rows: BadRows) -> BayesgramError:
    """That there is no row to work with, and why."""
    if bad_rows.by_reason:
        return BayesgramError(
            f"nothing was read: every row was skipped ({', '.join(bad_rows.by_reason)}). "
            "Mend the rows, or name the right columns with ",
            Argument("text_column"),
            " and ",
            Argument("user_column"),
            ".",
        )
    return BayesgramError(
        "nothing was read: the inputs hold no row. Check that they are the right ones."
    )


def _say(names: Sequence[str], problem: str) -> None:
    """One line for all of them."""
    if names:
        more = f" and {len(names) - _NAMES_SHOWN} more" if len(names) > _NAMES_SHOWN else ""
        logger.warning("%s%s: %s", ", ".join(names[:_NAMES_SHOWN]), more, problem)


def _chunks(source: Source, columns: Columns) -> Iterator[Chunk]:
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
            return read_text(source)
        case "table":
            return read_table(source, columns)


def _guarded(source: Source, chunks: Iterator[Chunk]) -> Iterator[Chunk]:
    """Pass chunks on, and say in our own words what stops them.

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
            problem = _explain(source, error)
        else:
            yield chunk
            continue
        raise problem


def _explain(source: Source, error: Exception) -> BayesgramError:
    match error:
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
