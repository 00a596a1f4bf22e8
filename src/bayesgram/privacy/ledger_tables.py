"""The tables of a ledger file, and how they are verified: formats, columns, hashes.

In: an SQLite connection.   Out: rows, if they are exactly what was written.   docs/ledger.md has the format.
Does not know what a reservation means (ledger.py), nor who may open the file (ledger_file.py).
"""

import hashlib
import json
import sqlite3
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

from bayesgram.errors import BayesgramError, UsageError
from bayesgram.privacy.ledger_file import damaged

FORMAT = 3
APPLICATION = 0x42474C44  # "BGLD", bytes 68 to 71 of the file

HEADER = """CREATE TABLE header (
    id INTEGER PRIMARY KEY CHECK (id = 1),
    format INTEGER NOT NULL,
    identity TEXT NOT NULL,
    population TEXT NOT NULL,
    epsilon TEXT NOT NULL,
    delta TEXT NOT NULL,
    created TEXT NOT NULL,
    genesis TEXT NOT NULL,
    last_number INTEGER NOT NULL,
    last_hash TEXT NOT NULL
) STRICT"""
ENTRIES = """CREATE TABLE entries (
    number INTEGER PRIMARY KEY,
    time TEXT NOT NULL,
    kind TEXT NOT NULL CHECK (kind IN ({kinds})),
    reservation INTEGER,
    inverse_variance TEXT NOT NULL,
    pure_epsilon TEXT NOT NULL,
    total_variation TEXT NOT NULL,{failure}
    description TEXT NOT NULL,
    previous TEXT NOT NULL,
    hash TEXT NOT NULL
) STRICT"""
TRIGGERS = (
    "CREATE TRIGGER entries_are_not_edited BEFORE UPDATE ON entries BEGIN SELECT RAISE(ABORT, 'append-only'); END",
    "CREATE TRIGGER entries_are_not_removed BEFORE DELETE ON entries BEGIN SELECT RAISE(ABORT, 'append-only'); END",
)
ENTRIES_OF = {  # by format
    1: ENTRIES.format(kinds="'reserved', 'published'", failure=""),
    2: ENTRIES.format(kinds="'reserved', 'published', 'converted'", failure=""),
    3: ENTRIES.format(kinds="'reserved', 'published', 'converted'", failure="\n    failure TEXT,"),
}
GENESIS_COLUMNS = ("format", "identity", "population", "epsilon", "delta", "created")
FAILURE = "failure"  # since format 3; of entries that are older, there is none, and their hash is without it
SPEND_COLUMNS = ("inverse_variance", "pure_epsilon", "total_variation", FAILURE)
ENTRY_COLUMNS = ("number", "time", "kind", "reservation", *SPEND_COLUMNS, "description", "previous")


def new_database(version: int) -> sqlite3.Connection:
    """The tables of a format, in memory."""
    connection = sqlite3.connect(":memory:", isolation_level=None)
    for statement in (
        f"PRAGMA application_id = {APPLICATION}",
        f"PRAGMA user_version = {version}",
        HEADER,
        ENTRIES_OF[version],
        *TRIGGERS,
    ):
        connection.execute(statement)
    return connection


def insert(connection: sqlite3.Connection, table: str, row: Mapping[str, Any]) -> None:
    """Add a row."""
    marks = ", ".join("?" * len(row))
    connection.execute(f"INSERT INTO {table} ({', '.join(row)}) VALUES ({marks})", [*row.values()])  # noqa: S608 - our own names


def check_format(connection: sqlite3.Connection, path: Path) -> int:
    """Ours, with exactly our tables, and sound as a database: its format, which is one we know."""
    (application,) = connection.execute("PRAGMA application_id").fetchone()
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    if application != APPLICATION:
        raise UsageError(f"{path}: is not a ledger.")
    if version > FORMAT:
        raise UsageError(f"{path}: is a ledger of format {version}; this bayesgram reads {FORMAT}. Use a newer one.")
    if version not in ENTRIES_OF:
        raise damaged(path, "it has no format")
    with closing(new_database(version)) as ours:
        if _schema(connection) != _schema(ours):
            raise damaged(path, "its tables were changed")
    (found,) = connection.execute("PRAGMA integrity_check(1)").fetchone()
    if "unable to get the page" in found:  # the disk's fault, which says nothing about what the ledger holds
        raise BayesgramError(f"{path}: the ledger could not be read ({found}).")
    if found != "ok":
        raise damaged(path, f"SQLite says: {found}")
    return int(version)


def _schema(connection: sqlite3.Connection) -> list[tuple[str, ...]]:
    return connection.execute("SELECT type, name, tbl_name, sql FROM sqlite_master ORDER BY name").fetchall()


def rows_of(connection: sqlite3.Connection, table: str, columns: tuple[str, ...]) -> list[dict[str, Any]]:
    """All rows of a table, in order."""
    found = connection.execute(f"SELECT {', '.join(columns)} FROM {table} ORDER BY 1")  # noqa: S608 - our own names
    return [dict(zip(columns, row, strict=True)) for row in found]


def columns_of(version: int) -> tuple[str, ...]:
    """The columns of the entries of a format."""
    return tuple(name for name in (*ENTRY_COLUMNS, "hash") if version >= 3 or name != FAILURE)


def entries_of(connection: sqlite3.Connection, version: int) -> list[dict[str, Any]]:
    """All entries, in order, as the newest format has them."""
    return [{FAILURE: None, **row} for row in rows_of(connection, "entries", columns_of(version))]


def check_chain(rows: list[dict[str, Any]], header: dict[str, Any], path: Path) -> None:
    """Every entry follows the one before, from the header's hash to the one that it says is the last."""
    previous = header["genesis"]
    for expected, row in enumerate(rows, start=1):
        if row["number"] != expected:
            raise damaged(path, f"entry {expected} is missing")
        if row["previous"] != previous or row["hash"] != hash_of_entry(row):
            raise damaged(path, f"entry {expected} was changed")
        previous = row["hash"]
    if (header["last_number"], header["last_hash"]) != (len(rows), previous):
        raise damaged(path, f"it should end with entry {header['last_number']}")


def canonical(value: Mapping[str, Any]) -> str:
    """JSON with sorted keys, no spaces and only ASCII: one text for one value."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False)


def hash_of(value: Mapping[str, Any]) -> str:
    """SHA-256 of a row as one JSON text."""
    return hashlib.sha256(canonical(value).encode("ascii")).hexdigest()


def hash_of_entry(row: Mapping[str, Any]) -> str:
    """The hash of an entry, by the columns of the format that it was written in."""
    return hash_of({name: row[name] for name in ENTRY_COLUMNS if name != FAILURE or row[name] is not None})
