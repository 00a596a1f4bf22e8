"""Read tables and queries of databases as a stream of Arrow batches.

In:  a `DatabaseUri`, and the columns to read.
Out: Arrow record batches of those columns, of bounded size, in whatever order the database has.

DuckDB, PostgreSQL and other drivers of ADBC are asked in standard SQL; Ibis writes the SQL of all
other databases. Only the columns that are read are selected. Nothing is written: DuckDB files are
opened read-only, PostgreSQL is read in a read-only transaction, and a query is the inner part of a
SELECT, where a database takes nothing that changes it.

No error of a driver comes through, because they quote rows, queries and connection strings: ours
have the kind of the error and a URI without what is secret.
"""

import os
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import ExitStack, suppress
from importlib import import_module
from pathlib import Path
from typing import Any, Protocol, cast
from urllib.parse import parse_qsl, urlsplit

import pyarrow as pa

from bayesgram.cores import CORES
from bayesgram.errors import BayesgramError, UsageError
from bayesgram.io.atomic import spill_folder
from bayesgram.io.records import Columns
from bayesgram.io.tables import TABLE_ROWS, open_ibis
from bayesgram.io.uris import (
    DatabaseUri,
    missing_driver_error,
    quote_name,
    quote_table,
)

POSTGRESQL_BATCH_BYTES = 1 << 22  # the driver's own default is 16 MiB
# What DuckDB may use beside --memory; what a query sorts beyond that is spilled to disk. A scan of
# 6 million rows (434 MB) then took 180 MB in all, and 480 MB with DuckDB's own limit.
DUCKDB_MEMORY = "128MB"
DUCKDB_THREADS = 4  # the most; each needs memory of its own

# What SQLSTATE says, by its first characters, and the next step. The longest match counts.
_SQL_STATES = {
    "08": ("the connection failed", "Check the host and the port, then run it again."),
    "28": (
        "the server refused the user or the password",
        "Give them as the page about PostgreSQL says (bayesgram docs postgresql).",
    ),
    "3D": ("there is no such database", "Check the name after the host."),
    "42501": (
        "permission denied",
        "Let the user read it (GRANT SELECT), or connect as another one.",
    ),
    "42P01": ("there is no such table", "Check its name, case included, and its schema."),
    "42703": ("the query names a column that is not there", "Correct the query."),
    "42601": ("the query is not correct SQL", "Run it in the database's own client, alone."),
    "0A": ("the query can't stand inside a SELECT", "Give a query that only reads."),
    "57014": ("the query was cancelled, or took too long", "Allow it more time."),
    "57P": ("the server ended the connection", "Check the server, then run it again."),
}
_DUCKDB_ERRORS = {
    "CatalogException": (
        "there is no such table, view or function",
        "Check its name, and its schema, as in table=main.messages.",
    ),
    "BinderException": ("the query names a column that is not there", "Correct the query."),
    "ParserException": ("the query is not correct SQL", "Run it in DuckDB itself, alone."),
    "ConnectionException": (
        "this process has the file open with other settings",
        "Give a relation of that connection instead, such as connection.table('messages').",
    ),
    "OutOfMemoryException": (
        "the query needs more memory than it gets",
        "Write its result to a table first, in DuckDB itself.",
    ),
}
_OPENING = "opening"
_ASKING = "asking"
_READING = "reading"


class _Database(Protocol):
    """A connection to one database."""

    def schema(self) -> pa.Schema:
        """Return all columns of the table or the query, without reading its rows."""

    def batches(self, names: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """Yield these columns of all rows."""

    def is_lost(self) -> bool:
        """Return whether the connection no longer works; False where that can't be known."""


def read_database(
    uri: DatabaseUri, columns: Columns, check_schema: Callable[[pa.Schema], None]
) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a table or a query.

    Each call connects anew, and the connection ends with the iteration.

    Args:
        uri: What to read.
        columns: The columns to select.
        check_schema: Refuses columns that can't be read, before any row is.

    Raises:
        UsageError: If the file, the table or a column does not exist, or a driver is missing.
        BayesgramError: If the database refuses, or fails half-way.
    """
    reading = _Reading(uri, columns, check_schema)
    batches = reading.batches()
    try:
        while True:
            try:
                batch = next(batches, None)
            except (BayesgramError, MemoryError):
                raise
            except Exception as error:  # noqa: BLE001 - drivers have errors of many types
                problem = reading.explain(error)
            else:
                if batch is None:
                    return
                yield batch
                continue
            raise problem  # here the driver's error is gone, so that no context of it is shown
    finally:
        batches.close()


class _Reading:
    """One pass over a database, which knows how far it has come when an error is explained."""

    def __init__(
        self, uri: DatabaseUri, columns: Columns, check_schema: Callable[[pa.Schema], None]
    ) -> None:
        self._uri = uri
        self._columns = columns
        self._check_schema = check_schema
        self._stage = _OPENING
        self._is_lost = False

    def batches(self) -> Generator[pa.RecordBatch, None, None]:
        """Yield the batches; errors are those of the driver."""
        with ExitStack() as stack:
            database = _OPENERS[self._uri.interface](self._uri, stack)
            self._stage = _ASKING
            self._check_schema(database.schema())
            try:
                for batch in database.batches(self._columns.names):
                    self._stage = _READING
                    yield batch
            except Exception:
                self._is_lost = database.is_lost()
                raise

    def explain(self, error: Exception) -> BayesgramError:
        """Return our error for that of a driver, without its text."""
        name = self._uri.name
        if isinstance(error, ImportError):
            return missing_driver_error(self._uri)
        kind = type(error).__name__
        state = _sql_state(error)
        where = f"{kind}, SQLSTATE {state}" if state else kind
        problem, advice = _describe(self._uri, error, state)
        if self._is_lost:
            return BayesgramError(
                f"{name}: the connection was lost while rows were read ({where}). Nothing was"
                " kept. Check the server and the network, then run it again."
            )
        if problem and self._stage != _READING:
            usage = state[:2] not in ("08", "57")
            return (UsageError if usage else BayesgramError)(
                f"{name}: {problem} ({where}). {advice}"
            )
        if self._stage == _OPENING:
            return BayesgramError(
                f"{name}: can't connect ({where}). {_connecting_advice(self._uri)}"
            )
        half_way = " half-way" if self._stage == _READING else ""
        return BayesgramError(
            f"{name}: reading failed{half_way} ({where}). Nothing was kept. Run the query in the"
            " database's own client to see why; its message is not shown here, because it may"
            " quote rows."
        )


def _sql_state(error: Exception) -> str:
    """Return the five characters that standard SQL has for an error; nothing if there are none."""
    state = getattr(error, "sqlstate", None)
    return state if isinstance(state, str) and len(state) == 5 and state.isalnum() else ""


def _describe(uri: DatabaseUri, error: Exception, state: str) -> tuple[str, str]:
    """Return what an error of a driver means and the next step; two empty texts if not known."""
    if uri.interface == "duckdb":
        return _DUCKDB_ERRORS.get(type(error).__name__, ("", ""))
    if uri.interface == "ibis" and type(error).__name__ == "TableNotFound":
        return _SQL_STATES["42P01"]
    prefixes = sorted((prefix for prefix in _SQL_STATES if state.startswith(prefix)), key=len)
    return _SQL_STATES[prefixes[-1]] if prefixes else ("", "")


def _connecting_advice(uri: DatabaseUri) -> str:
    if uri.interface == "duckdb":
        return (
            "Check that it is a DuckDB database, that this DuckDB is as new as the one that wrote"
            " it, and that no other program has it open for writing."
        )
    driver = f", that the driver {uri.driver!r} is installed" if uri.interface == "adbc" else ""
    return (
        f"Check the address, the names in it{driver}, and that a user and a password are given"
        f" (bayesgram docs {'postgresql' if uri.interface == 'postgresql' else 'warehouses'}). The"
        " driver's message is not shown, because it may quote them."
    )


def _closing(resource: Any) -> Callable[[], None]:  # noqa: ANN401 - of any driver
    """Return what closes a resource, even if its connection is broken by then."""

    def close() -> None:
        with suppress(Exception):
            resource.close()

    return close


# --- Standard SQL: DuckDB and ADBC ---


def _select(uri: DatabaseUri, columns: str) -> str:
    """Return the SQL that selects columns of a table or a query."""
    if uri.query is None:
        return f"SELECT {columns} FROM {quote_table(uri.table)}"  # noqa: S608 - quoted
    # The query may end with a comment, so the bracket stands on a line of its own.
    return f"SELECT {columns} FROM (\n{uri.query}\n) AS bayesgram_rows"  # noqa: S608 - who runs us wrote it


def _select_names(uri: DatabaseUri, names: Sequence[str]) -> str:
    return _select(uri, ", ".join(map(quote_name, names)))


class _DuckDB:
    def __init__(self, uri: DatabaseUri, stack: ExitStack) -> None:
        self._uri = uri
        uri.check_file()
        duckdb = import_module("duckdb")
        scratch = stack.enter_context(spill_folder(_writable_folder(uri)))
        self._connection: Any = duckdb.connect(
            str(uri.path or ":memory:"),
            read_only=uri.path is not None,
            config={
                "memory_limit": DUCKDB_MEMORY,
                "threads": min(CORES, DUCKDB_THREADS),
                "temp_directory": str(scratch / "duckdb"),  # made where something is spilled
                "autoinstall_known_extensions": "false",  # nothing is downloaded unasked
            },
        )
        stack.callback(_closing(self._connection))
        # It would stand among our own lines.
        self._connection.execute("SET enable_progress_bar = false")

    def schema(self) -> pa.Schema:
        query = f"{_select(self._uri, '*')} LIMIT 0"
        return cast("pa.Schema", self._connection.sql(query).to_arrow_table().schema)

    def batches(self, names: Sequence[str]) -> Iterator[pa.RecordBatch]:
        relation = self._connection.sql(_select_names(self._uri, names))
        yield from relation.to_arrow_reader(TABLE_ROWS)

    def is_lost(self) -> bool:
        return False


def _writable_folder(uri: DatabaseUri) -> Path | None:
    """Return the folder of a DuckDB file, whose rows stay on its disk; None if nobody may write."""
    folder = None if uri.path is None else uri.path.resolve().parent
    return folder if folder is not None and os.access(folder, os.W_OK) else None


class _Adbc:
    """A database that an ADBC driver reaches."""

    def __init__(self, uri: DatabaseUri, stack: ExitStack) -> None:
        self._uri = uri
        self._connection = self._connect(uri)
        stack.callback(_closing(self._connection))
        self._stack = stack

    def _connect(self, uri: DatabaseUri) -> Any:  # noqa: ANN401 - an extra
        try:  # a Python package that brings the driver, or else one that the system has
            package = import_module(f"adbc_driver_{uri.driver}.dbapi")
        except ImportError:
            manager = import_module("adbc_driver_manager.dbapi")
            return manager.connect(driver=uri.driver, uri=uri.connection)
        return package.connect(uri.connection)

    def schema(self) -> pa.Schema:
        with self._cursor() as cursor:
            # The driver of SQLite knows the type of a column by its values alone.
            rows = 1000 if self._uri.driver == "sqlite" else 0
            cursor.execute(f"{_select(self._uri, '*')} LIMIT {rows}")
            with cursor.fetch_record_batch() as reader:
                return cast("pa.Schema", reader.schema)

    def batches(self, names: Sequence[str]) -> Iterator[pa.RecordBatch]:
        with self._cursor() as cursor:
            cursor.execute(_select_names(self._uri, names))
            with cursor.fetch_record_batch() as reader:
                yield from reader

    def _cursor(self) -> Any:  # noqa: ANN401 - an extra
        return self._connection.cursor()

    def is_lost(self) -> bool:
        """Ask for something trivial: an error of the stream says nothing about the connection."""
        try:
            self._connection.rollback()
            with self._connection.cursor() as cursor:
                cursor.execute("SELECT 1")
                cursor.fetchone()
        except Exception:  # noqa: BLE001 - of any driver
            return True
        return False


class _PostgreSql(_Adbc):
    def __init__(self, uri: DatabaseUri, stack: ExitStack) -> None:
        super().__init__(uri, stack)
        with self._cursor() as cursor:  # the driver has begun a transaction
            cursor.execute("SET TRANSACTION READ ONLY")

    def _cursor(self) -> Any:  # noqa: ANN401 - an extra
        cursor = super()._cursor()
        size = {"adbc.postgresql.batch_size_hint_bytes": str(POSTGRESQL_BATCH_BYTES)}
        cursor.adbc_statement.set_options(**size)
        return cursor


# --- Ibis ---


class _Ibis:
    def __init__(self, uri: DatabaseUri, stack: ExitStack) -> None:
        self._backend = _connect_ibis(uri)
        if hasattr(self._backend, "disconnect"):
            stack.callback(self._disconnect)
        if uri.query is None:
            *outer, name = uri.table
            database = tuple(outer) if len(outer) > 1 else "".join(outer)
            self._table = self._backend.table(name, database=database or None)
        else:
            self._table = self._backend.sql(uri.query)

    def _disconnect(self) -> None:
        with suppress(Exception):
            self._backend.disconnect()

    def schema(self) -> pa.Schema:
        return cast("pa.Schema", self._table.schema().to_pyarrow())

    def batches(self, names: Sequence[str]) -> Iterator[pa.RecordBatch]:
        yield from open_ibis(self._table.select(*names))

    def is_lost(self) -> bool:
        return False


def _connect_ibis(uri: DatabaseUri) -> Any:  # noqa: ANN401 - an extra
    ibis = import_module("ibis")
    if uri.driver == "snowflake":
        # Ibis would create functions in the database otherwise.
        return ibis.connect(uri.connection, create_object_udfs=False)
    if uri.driver == "databricks":  # for which Ibis has no URI; it looks for the token itself
        parts = urlsplit(uri.connection)
        return ibis.databricks.connect(
            server_hostname=parts.hostname,
            http_path=parts.path or None,
            **dict(parse_qsl(parts.query)),
        )
    return ibis.connect(uri.connection)


_OPENERS: dict[str, Callable[[DatabaseUri, ExitStack], _Database]] = {
    "duckdb": _DuckDB,
    "postgresql": _PostgreSql,
    "adbc": _Adbc,
    "ibis": _Ibis,
}
