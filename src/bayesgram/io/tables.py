"""Tables of other libraries as streams of Arrow batches, none loaded whole if it need not be.

    pyarrow, pandas, polars         tables, and Arrow readers, which give their rows once
    polars LazyFrame                computed in batches by its streaming engine
    DuckDB                          relations
    Ibis                            tables, of any backend
    datasets (Hugging Face)         a split, in memory or streamed

The libraries are recognised by the name of an object's package, and none is imported here. Only the
columns that are read are asked for. Errors are left to the caller, which replaces their texts.
"""

from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager
from typing import Any

import pyarrow as pa

from bayesgram.errors import BayesgramError, UsageError
from bayesgram.io.inputs import Source, library_of
from bayesgram.io.records import Columns

# Rows of a batch, where a library counts rows and not bytes. Not measured.
TABLE_ROWS = 4096


def read_in_same_thread(source: Source) -> bool:
    """Return whether a source must be read in the thread that made it, as SQLite's may be."""
    return source.table is not None and library_of(source.table) == "ibis"


@contextmanager
def open_table(
    source: Source, columns: Columns
) -> Iterator[tuple[pa.Schema, Iterable[pa.RecordBatch]]]:
    """Yield the schema of a table and its batches; they have the columns that are read.

    Raises:
        UsageError: If one of the columns is not there.
        BayesgramError: If the table can't be opened. The message shows nothing of its content.
    """
    try:
        reader = _open_reader(source, columns)
    except BayesgramError:
        raise
    except Exception as error:  # noqa: BLE001 - polars and pandas quote values in errors of many types
        kind = type(error).__name__
    else:
        with closing(reader):
            yield reader.schema, _require_unread(source, reader)
        return
    raise BayesgramError(
        f"{source.name}: can't be turned into an Arrow table ({kind}). Check that each column holds"
        " one type."
    )


def _open_reader(source: Source, columns: Columns) -> pa.RecordBatchReader:
    table: Any = source.table
    match library_of(table):
        case "duckdb":
            columns.check_present(source.name, table.columns)
            return _open_duckdb(table, columns)
        case "ibis":
            columns.check_present(source.name, table.columns)
            return open_ibis(table.select(*columns.names))
        case "datasets":
            return _open_dataset(source, columns)
        case "polars" if hasattr(table, "collect_schema") and hasattr(table, "collect"):
            columns.check_present(source.name, table.collect_schema().names())
            return _open_lazy(table.select(columns.names))
        case "polars" | "pandas":
            columns.check_present(source.name, list(table.columns))
            return pa.RecordBatchReader.from_stream(table[columns.names])
        case _:
            return pa.RecordBatchReader.from_stream(table)


def _require_unread(source: Source, reader: pa.RecordBatchReader) -> Iterator[pa.RecordBatch]:
    """Yield the batches; refuse an Arrow reader without rows.

    One that was read before gives nothing, and nobody would notice.
    """
    rows = 0
    for batch in reader:
        rows += len(batch)
        yield batch
    if rows == 0 and isinstance(source.table, pa.RecordBatchReader):
        raise UsageError(
            f"{source.name}: an Arrow reader without rows. A reader gives its rows once, so it was"
            " read before, or is empty. Make a new reader for each time that it is read, or give a"
            " table (reader.read_all())."
        )


def _open_duckdb(relation: Any, columns: Columns) -> pa.RecordBatchReader:  # noqa: ANN401 - an extra
    # As text, a name of a column is an expression: it stands in quotes.
    names = ['"' + name.replace('"', '""') + '"' for name in columns.names]
    selected = relation.project(", ".join(names))
    if not hasattr(selected, "to_arrow_reader"):  # DuckDB before 1.5
        return pa.RecordBatchReader.from_stream(selected)
    return selected.to_arrow_reader(TABLE_ROWS)


def open_ibis(table: Any) -> pa.RecordBatchReader:  # noqa: ANN401 - an extra
    """Return a reader of a table of Ibis."""
    backend = table.get_backend()
    if backend.name != "duckdb":
        return table.to_pyarrow_batches(chunk_size=TABLE_ROWS)
    # Ibis 12 asks DuckDB for batches by a name that DuckDB 2 has given up.
    try:
        return backend.con.sql(backend.compile(table)).to_arrow_reader(TABLE_ROWS)
    except Exception:  # noqa: BLE001 - of a library that is not imported here
        # Tables in memory (ibis.memtable) are made known to DuckDB only by this.
        return pa.RecordBatchReader.from_stream(table)


def _open_lazy(frame: Any) -> pa.RecordBatchReader:  # noqa: ANN401 - polars is not imported here
    """Return a reader of a polars LazyFrame, which is computed in batches."""
    if not hasattr(frame, "collect_batches"):  # an older polars
        return pa.RecordBatchReader.from_stream(frame.collect())
    schema = pa.RecordBatchReader.from_stream(frame.clear().collect()).schema
    frames = frame.collect_batches(chunk_size=TABLE_ROWS, lazy=True)
    return pa.RecordBatchReader.from_batches(schema, _batches_of(frames, schema))


def _batches_of(tables: Iterable[Any], schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    for table in tables:
        yield from pa.RecordBatchReader.from_stream(table, schema)


def _open_dataset(source: Source, columns: Columns) -> pa.RecordBatchReader:
    """Return a reader of a dataset of Hugging Face, whose own batches are of Arrow."""
    dataset: Any = source.table
    if dataset.features is None:
        raise UsageError(
            f"{source.name}: a streamed dataset that does not know its columns. Call"
            " dataset.cast(features) first, or give one that has features."
        )
    columns.check_present(source.name, dataset.column_names)
    tables = dataset.select_columns(columns.names).with_format("arrow").iter(TABLE_ROWS)
    all_fields = dataset.features.arrow_schema
    schema = pa.schema([all_fields.field(name) for name in columns.names])
    return pa.RecordBatchReader.from_batches(schema, _batches_of(tables, schema))
