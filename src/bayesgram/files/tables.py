"""Read Parquet and Arrow files, and tables in memory.

In:  a `Source`.   Out: chunks of at most `BATCH_ROWS` rows; row 1 is the first row.
Does not load a whole file or row group: Parquet pages are decoded as they are needed. Of an Arrow file a record batch
is loaded, which whoever wrote it has cut.
"""

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from bayesgram.errors import BayesgramError
from bayesgram.files.columns import Columns, as_bytes
from bayesgram.files.records import BATCH_BYTES, BATCH_ROWS, Chunk
from bayesgram.files.sources import Source

_READ_BUFFER = 1 << 20  # with a buffer, Parquet streams a column of a row group; without, it loads it whole


def read_parquet(source: Source, columns: Columns) -> Iterator[Chunk]:
    """Yield chunks of a Parquet file; its bytes count as read in proportion to its rows."""
    with pq.ParquetFile(str(source.path), buffer_size=_READ_BUFFER, pre_buffer=False) as file:
        columns.require_types(source.name, file.schema_arrow)
        batches = file.iter_batches(_batch_rows(file.metadata), columns=columns.names)
        bytes_per_row = (source.size or 0) / max(1, file.metadata.num_rows)
        yield from _chunks(batches, columns, bytes_per_row)


def read_arrow(source: Source, columns: Columns) -> Iterator[Chunk]:
    """Yield chunks of an Arrow file (Feather, version 2); its bytes count as read in proportion to its batches."""
    with pa.OSFile(str(source.path), "rb") as disk, pa.ipc.open_file(disk) as whole:
        schema, batches = whole.schema, whole.num_record_batches
    columns.require_types(source.name, schema)
    wanted = pa.ipc.IpcReadOptions(included_fields=[schema.get_field_index(name) for name in columns.names])
    row, position = 1, 0
    with pa.OSFile(str(source.path), "rb") as disk, pa.ipc.open_file(disk, options=wanted) as file:
        for number in range(batches):
            for chunk in _chunks([_sound(file.get_batch(number))], columns, row=row):
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
        return pa.DictionaryArray.from_arrays(array.indices, _as_binary(array.dictionary), safe=False)
    kinds = {pa.string(): pa.binary(), pa.large_string(): pa.large_binary(), pa.string_view(): pa.binary_view()}
    return array.view(kinds[array.type]) if array.type in kinds else array


def read_table(source: Source, columns: Columns) -> Iterator[Chunk]:
    """Yield chunks of a table in memory, without a copy where its types allow."""
    batches = _stream(source, columns)
    columns.require_types(source.name, batches.schema)
    yield from _chunks(batches, columns)


def _chunks(
    batches: Iterable[pa.RecordBatch], columns: Columns, bytes_per_row: float = 0, *, row: int = 1
) -> Iterator[Chunk]:
    for batch in batches:
        for start in range(0, len(batch), BATCH_ROWS):
            part = batch.slice(start, BATCH_ROWS)
            rows = range(row, row + len(part))
            row += len(part)
            user, by = (None if name is None else as_bytes(part.column(name)) for name in (columns.user, columns.by))
            yield Chunk(as_bytes(part.column(columns.text)), user, rows, int(bytes_per_row * (row - 1)), by=by)


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
    columns.require(source.name, table.collect_schema().names() if lazy else list(table.columns))
    return table.select(columns.names).collect() if lazy else table[columns.names]
