"""The file of a ledger: locks, SQLite tables, hashes, and the verified contents.

`read_ledger` returns the `LedgerContents` of a file, verified from its first byte to its last
entry; `write_transaction` is how `Ledger` (in `ledger`) appends to it. docs/ledger.md describes
the file format. This module does not decide what may be spent.

Durability: a rollback journal and `synchronous = EXTRA`. No write-ahead log, so that a ledger is
one file, which can be copied when nobody writes and can lie on network disks. `FULL` is not
enough: it flushes the data, but a power loss could bring the journal back and undo a commit that
was already reported. `EXTRA` flushes the folder, too.

Locks: a lock file beside the ledger is held by one writer alone, or by several readers together.
SQLite's own locks are not enough: POSIX drops all locks that a process has on a file as soon as
any thread of the process closes that file. Then a reader takes the journal of a living writer for
that of a dead one, and undoes it. So nothing but SQLite opens the ledger file.
"""

import hashlib
import json
import os
import sqlite3
import time
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from bayesgram import system
from bayesgram.errors import BayesgramError, UsageError
from bayesgram.privacy.accounting import (
    Allowance,
    Spend,
    composed_epsilon,
    may_fail,
    remaining_for_discovery,
    remaining_gaussian_epsilon,
    remaining_pure_epsilon,
)
from bayesgram.privacy.budget import Budget
from bayesgram.privacy.unit import DEFAULT_UNIT, promise
from bayesgram.version import page_pointer

FORMAT = 4
APPLICATION_ID = 0x42474C44  # "BGLD", bytes 68 to 71 of the file

LOCK_TIMEOUT = 60.0  # seconds to wait for other processes that are writing; not measured
LOCK_POLL_INTERVAL = 0.01  # seconds between two attempts to get the lock; not measured


class OtherLockError(UsageError):
    """A ledger is locked in a way that this system does not see."""


# --- Contents ---


@dataclass(frozen=True)
class Reservation:
    """One reservation, with whether its release is known to have been published."""

    number: int
    time: str  # UTC, ISO 8601
    spend: Spend
    description: dict[str, Any]
    published: bool
    hash: str
    notes: tuple[dict[str, Any], ...] = ()  # of a series: what `Ledger.note` has added, in order

    @property
    def series(self) -> dict[str, Any] | None:
        """The public settings of the series that it pays for; None if it is one release."""
        series = self.description.get("series")
        return series if isinstance(series, dict) else None

    @property
    def series_token(self) -> str | None:
        """The token that the private state of the series must have; None if it is no series."""
        if self.series is None:
            return None
        tokens = [note["token"] for note in self.notes if "token" in note]
        return str(tokens[-1] if tokens else self.series["token"])

    @property
    def published_releases(self) -> set[int]:
        """The numbers of the releases of a series that are known to have been published."""
        return {int(note["published"]) for note in self.notes if "published" in note}

    @property
    def published_discoveries(self) -> set[int]:
        """The numbers of the discoveries of a series that are known to have been published."""
        name = "published_discovery"
        return {int(note[name]) for note in self.notes if name in note}

    @property
    def unit(self) -> str | None:
        """What one step of privacy protects, in the curator's words; None if the entry has none."""
        unit = self.description.get("unit")
        return unit if isinstance(unit, str) else None


@dataclass(frozen=True)
class LedgerContents:
    """Everything that a ledger holds at one moment, verified."""

    identity: str  # 32 random hexadecimal digits; copies of a ledger share it
    population: str
    budget: Budget
    created: str  # UTC, ISO 8601
    format: int
    reservations: tuple[Reservation, ...]
    last_number: int  # of the last entry; 0 if there is none
    last_hash: str  # of the last entry; of the header if there is none
    period: str | None = None  # a label; nothing depends on it

    @property
    def unit(self) -> str | None:
        """The unit of privacy by the first reservation that has one; None if none has."""
        units = (reservation.unit for reservation in self.reservations)
        return next((unit for unit in units if unit is not None), None)

    @property
    def promise(self) -> str:
        """What the whole budget means for a person."""
        subject = "Everything charged to this ledger together"
        unit = self.unit or DEFAULT_UNIT
        return promise(unit, self.budget.epsilon, self.budget.delta, subject)

    @property
    def spends(self) -> list[Spend]:
        """Everything that was ever reserved, published or not."""
        return [reservation.spend for reservation in self.reservations]

    def allowance(self, *more: Spend) -> Allowance:
        """Return what the reservations and `more` may add up to, for δ > 0."""
        return Allowance.of_budget(self.budget, failures=may_fail([*self.spends, *more]))

    def reservation(self, number: int) -> Reservation:
        """Return the reservation of this number; it must exist."""
        return next(each for each in self.reservations if each.number == number)

    def spent_epsilon(self) -> float:
        """Return ε of everything together at the ledger's δ, rounded up."""
        return composed_epsilon(self.spends, self.budget.delta)

    def remaining_gaussian_epsilon(self) -> float:
        """Return ε of the largest Gaussian release at the ledger's δ that fits, rounded down."""
        return remaining_gaussian_epsilon(self.spends, self.budget)

    def remaining_pure_epsilon(self) -> float:
        """Return ε of the largest pure-ε release that still fits, rounded down."""
        return remaining_pure_epsilon(self.spends, self.budget)

    def spent_failure(self) -> float:
        """Return the failure probability of everything together, rounded up."""
        return sum(self.spends, Spend()).failure

    def remaining_for_discovery(self) -> Allowance:
        """Return what a discovery may still take of each limit; zeros where none is possible."""
        return remaining_for_discovery(self.spends, self.budget)

    def describe_remaining(self) -> str:
        """Return in words what still fits."""
        gaussian = self.remaining_gaussian_epsilon()
        pure = self.remaining_pure_epsilon()
        if not gaussian and not pure:
            return "nothing"
        if self.budget.delta == 0:
            return f"ε = {pure:g} for a pure-ε release (as δ = 0, nothing else fits)"
        return (
            f"about ε = {gaussian:g} for a Gaussian release at δ = {self.budget.delta:g},"
            f" or {pure:g} for a pure-ε one"
        )


def read_ledger(path: str | Path) -> LedgerContents:
    """Return everything that a ledger file holds, verified.

    Raises:
        UsageError: If the file can't be opened, is no ledger, or has another format.
        BayesgramError: If the ledger was edited or damaged.
    """
    path = Path(path)
    with open_database(path) as connection:
        connection.execute("BEGIN")  # so that all that follows is read at one moment
        return read_verified(connection, path)


def is_ledger(path: Path) -> bool:
    """Return whether a file calls itself a ledger; it may still be a broken one."""
    try:
        with open_database(path) as connection:
            (application_id,) = connection.execute("PRAGMA application_id").fetchone()
    except OtherLockError:
        return True  # what reads it says why that is refused
    except BayesgramError:
        return False
    return bool(application_id == APPLICATION_ID)


def read_verified(connection: sqlite3.Connection, path: Path) -> LedgerContents:
    """Return the contents of an open ledger, if its tables and every hash are right."""
    check_database(connection, path)
    headers = read_rows(connection, "header", HEADER_COLUMNS)
    if len(headers) != 1:
        raise damaged_error(path, "its header is missing")
    header = headers[0]
    if header["genesis"] != hash_row({name: header[name] for name in GENESIS_COLUMNS}):
        raise damaged_error(path, "its header was changed")
    if header["format"] != FORMAT:
        raise _other_format_error(path, header["format"])
    entries = read_rows(connection, "entries", (*ENTRY_COLUMNS, "hash"))
    check_chain(entries, header, path)
    try:
        budget = Budget(float(header["epsilon"]), float(header["delta"]))
        reservations = _parse_reservations(entries)
    except (ValueError, TypeError) as error:
        raise damaged_error(path, f"it holds something impossible: {error}") from None
    return LedgerContents(
        identity=header["identity"],
        population=header["population"],
        budget=budget,
        created=header["created"],
        format=header["format"],
        reservations=reservations,
        last_number=header["last_number"],
        last_hash=header["last_hash"],
        period=header["period"],
    )


def _parse_reservations(entries: list[dict[str, Any]]) -> tuple[Reservation, ...]:
    notes: dict[int, list[dict[str, Any]]] = {}
    for entry in entries:
        if entry["kind"] == "published":
            notes.setdefault(entry["reservation"], []).append(json.loads(entry["description"]))
    reservations = tuple(
        Reservation(
            number=entry["number"],
            time=entry["time"],
            spend=Spend(*(float(entry[name]) for name in SPEND_COLUMNS)),
            description=dict(json.loads(entry["description"])),
            published=entry["number"] in notes,
            hash=entry["hash"],
            notes=tuple(notes.get(entry["number"], ())),
        )
        for entry in entries
        if entry["kind"] == "reserved"
    )
    # The notes of a series are its tokens, too: they say nothing about what was published.
    return tuple(
        replace(entry, published=bool(entry.published_releases or entry.published_discoveries))
        if entry.series
        else entry
        for entry in reservations
    )


# --- Tables and hashes ---

# The text of these statements is part of the format: a ledger must have exactly these tables. Of
# the kinds of entries, 'converted' is never written, and no entry lacks its failure probability:
# only drafts of format 3 had such entries, in ledgers that they had made from older formats.
HEADER_TABLE = """CREATE TABLE header (
    id INTEGER PRIMARY KEY CHECK (id = 1),
    format INTEGER NOT NULL,
    identity TEXT NOT NULL,
    population TEXT NOT NULL,
    epsilon TEXT NOT NULL,
    delta TEXT NOT NULL,
    period TEXT,
    created TEXT NOT NULL,
    genesis TEXT NOT NULL,
    last_number INTEGER NOT NULL,
    last_hash TEXT NOT NULL
) STRICT"""
ENTRIES_TABLE = """CREATE TABLE entries (
    number INTEGER PRIMARY KEY,
    time TEXT NOT NULL,
    kind TEXT NOT NULL CHECK (kind IN ('reserved', 'published', 'converted')),
    reservation INTEGER,
    inverse_variance TEXT NOT NULL,
    pure_epsilon TEXT NOT NULL,
    total_variation TEXT NOT NULL,
    failure TEXT,
    description TEXT NOT NULL,
    previous TEXT NOT NULL,
    hash TEXT NOT NULL
) STRICT"""
TRIGGERS = tuple(
    f"CREATE TRIGGER {name} BEFORE {event} ON entries BEGIN SELECT RAISE(ABORT, 'append-only'); END"
    for name, event in (
        ("entries_are_not_edited", "UPDATE"),
        ("entries_are_not_removed", "DELETE"),
    )
)
GENESIS_COLUMNS = (  # hashed
    "format",
    "identity",
    "population",
    "epsilon",
    "delta",
    "period",
    "created",
)
HEADER_COLUMNS = (*GENESIS_COLUMNS, "genesis", "last_number", "last_hash")
SPEND_COLUMNS = ("inverse_variance", "pure_epsilon", "total_variation", "failure")
ENTRY_COLUMNS = (  # hashed
    "number",
    "time",
    "kind",
    "reservation",
    *SPEND_COLUMNS,
    "description",
    "previous",
)


def create_database() -> sqlite3.Connection:
    """Return the empty tables of a ledger, in memory."""
    connection = sqlite3.connect(":memory:", isolation_level=None)
    for statement in (
        f"PRAGMA application_id = {APPLICATION_ID}",
        f"PRAGMA user_version = {FORMAT}",
        HEADER_TABLE,
        ENTRIES_TABLE,
        *TRIGGERS,
    ):
        connection.execute(statement)
    return connection


def insert_row(connection: sqlite3.Connection, table: str, row: Mapping[str, Any]) -> None:
    """Add a row, by the names of its columns, to a table."""
    marks = ", ".join("?" * len(row))
    connection.execute(
        f"INSERT INTO {table} ({', '.join(row)}) VALUES ({marks})",  # noqa: S608 - our own names
        [*row.values()],
    )


def read_rows(
    connection: sqlite3.Connection, table: str, columns: tuple[str, ...]
) -> list[dict[str, Any]]:
    """Return all rows of a table, in order of the first column."""
    rows = connection.execute(f"SELECT {', '.join(columns)} FROM {table} ORDER BY 1")  # noqa: S608 - our own names
    return [dict(zip(columns, row, strict=True)) for row in rows]


def check_database(connection: sqlite3.Connection, path: Path) -> None:
    """Refuse a database that is no ledger of this format, or that is not sound."""
    (application_id,) = connection.execute("PRAGMA application_id").fetchone()
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    if application_id != APPLICATION_ID:
        raise UsageError(f"{path}: is not a ledger.")
    if version < 1:
        raise damaged_error(path, "it has no format")
    if version != FORMAT:
        raise _other_format_error(path, version)
    with closing(create_database()) as empty:
        if _read_schema(connection) != _read_schema(empty):
            raise damaged_error(path, "its tables were changed")
    (finding,) = connection.execute("PRAGMA integrity_check(1)").fetchone()
    if "unable to get the page" in finding:
        # The disk failed, which says nothing about what the ledger holds.
        raise BayesgramError(f"{path}: the ledger could not be read ({finding}).")
    if finding != "ok":
        raise damaged_error(path, f"SQLite says: {finding}")


def _read_schema(connection: sqlite3.Connection) -> list[tuple[str, ...]]:
    return connection.execute(
        "SELECT type, name, tbl_name, sql FROM sqlite_master ORDER BY name"
    ).fetchall()


def check_chain(entries: list[dict[str, Any]], header: dict[str, Any], path: Path) -> None:
    """Check that every entry follows the one before, from the header's hash to the last one."""
    previous = header["genesis"]
    for expected, entry in enumerate(entries, start=1):
        if entry["number"] != expected:
            raise damaged_error(path, f"entry {expected} is missing")
        if entry["previous"] != previous or entry["hash"] != hash_entry(entry):
            raise damaged_error(path, f"entry {expected} was changed")
        previous = entry["hash"]
    if (header["last_number"], header["last_hash"]) != (len(entries), previous):
        raise damaged_error(path, f"it should end with entry {header['last_number']}")


def hash_entry(entry: Mapping[str, Any]) -> str:
    """Return the hash of an entry: of all its columns but the hash itself."""
    return hash_row({name: entry[name] for name in ENTRY_COLUMNS})


def hash_row(row: Mapping[str, Any]) -> str:
    """Return SHA-256 of a row as one JSON text."""
    return hashlib.sha256(canonical_json(row).encode("ascii")).hexdigest()


def canonical_json(value: Mapping[str, Any]) -> str:
    """Return JSON with sorted keys, no spaces and only ASCII: one text for one value."""
    return json.dumps(
        value, sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False
    )


# --- Opening the file ---


@contextmanager
def open_database(path: Path, *, exclusive: bool = False) -> Iterator[sqlite3.Connection]:
    """Connect to an existing file, which nobody else writes meanwhile.

    Args:
        path: The ledger file.
        exclusive: Whether nobody else may read meanwhile, either.

    Raises:
        UsageError: If the file can't be opened, or is no SQLite database.
        BayesgramError: If another process does not finish, or SQLite fails.
    """
    _check_file(path)
    with hold_lock(path, exclusive=exclusive), _translate_errors(path):
        # Never creates a file; one that can't be written is opened for reading.
        uri = f"{path.absolute().as_uri()}?mode=rw"
        with closing(
            sqlite3.connect(uri, uri=True, isolation_level=None, timeout=LOCK_TIMEOUT)
        ) as connection:
            connection.execute("PRAGMA trusted_schema = OFF")
            yield connection


@contextmanager
def write_transaction(path: Path) -> Iterator[sqlite3.Connection]:
    """Open a transaction that nobody else writes in.

    It is durable when the block has ended, and undone if the block fails.
    """
    with open_database(path, exclusive=True) as connection:
        (mode,) = connection.execute("PRAGMA journal_mode = DELETE").fetchone()
        if mode != "delete":
            raise BayesgramError(
                f"{path}: SQLite can't keep a journal beside it (journal_mode is {mode})."
            )
        connection.execute("PRAGMA synchronous = EXTRA")
        connection.execute("PRAGMA fullfsync = ON")  # matters on macOS only
        # Waits for others. Closing the connection undoes what is not committed.
        connection.execute("BEGIN IMMEDIATE")
        yield connection
        try:
            connection.execute("COMMIT")
        except sqlite3.OperationalError as error:
            if error.sqlite_errorname.startswith("SQLITE_BUSY"):
                raise
            raise BayesgramError(
                f"{path}: the disk did not take what was to be written, or did not confirm it"
                f" ({error}); if it was recorded all the same, it stays spent: see"
                f" `bayesgram ledger show {path}`."
            ) from None


def _check_file(path: Path) -> None:
    try:
        status = path.stat()
    except OSError as error:
        is_missing = isinstance(error, FileNotFoundError)
        hint = "; make it with: bayesgram ledger create" if is_missing else ""
        raise UsageError(f"{path}: the ledger can't be opened ({error.strerror}){hint}.") from None
    if not path.is_file():
        raise UsageError(f"{path}: is not a file; a ledger is one.")
    if status.st_nlink > 1:
        raise UsageError(
            f"{path}: has {status.st_nlink} names (hard links), which breaks SQLite; keep one of"
            " them."
        )


# --- Locks ---


@contextmanager
def hold_lock(path: Path, *, exclusive: bool) -> Iterator[None]:
    """Keep every other process, and every other thread of this one, from writing.

    Args:
        path: The ledger file.
        exclusive: Whether others may not read, either.

    Raises:
        BayesgramError: If others hold the lock for more than `LOCK_TIMEOUT` seconds.
    """
    if exclusive:
        descriptor: int | None = open_lock_file(path.resolve())
    else:
        descriptor = _open_existing_lock(path.resolve())
    if descriptor is None:
        yield
        return
    try:
        deadline = time.monotonic() + LOCK_TIMEOUT
        while not system.try_lock(descriptor, exclusive=exclusive):
            if time.monotonic() > deadline:
                raise _busy_error(path)
            time.sleep(LOCK_POLL_INTERVAL)
        _check_lock_kind(path)  # again: another system may have come at the same time
        yield
    finally:
        system.unlock(descriptor)  # also for a child that was forked meanwhile
        os.close(descriptor)


def open_lock_file(path: Path) -> int:
    """Open the lock file beside a ledger, and create it if there is none.

    Whoever may write the ledger may open its lock file.

    Args:
        path: The ledger file, without symbolic links.

    Returns:
        A file descriptor, for the caller to close.
    """
    _check_lock_kind(path)
    lock = _lock_path(path)
    status = path.stat()
    try:
        descriptor = system.open_without_following(lock, os.O_RDWR | os.O_CREAT)
    except OSError as error:
        raise _not_writable_error(path, f"{lock.name}: {error.strerror}") from None
    system.share_like(descriptor, status)
    return descriptor


def _open_existing_lock(path: Path) -> int | None:
    """Open the lock file to read; None where nobody has ever written with one."""
    _check_lock_kind(path)
    try:
        return system.open_without_following(_lock_path(path), os.O_RDONLY)
    except OSError:
        return None


# The suffix of the lock file names the kind of lock, so that it is known without reading the file,
# which Windows forbids while it is locked. The ledger itself says nothing of it, so a ledger can
# move to another system. Committing an entry flushes the folder, and so the lock file's name.
LOCK_SUFFIXES = {system.FLOCK: ".lock", system.PORTALOCKER: ".lock-portalocker"}


def _lock_path(path: Path, kind: str = system.LOCK_KIND) -> Path:
    return path.with_name(f"{path.name}{LOCK_SUFFIXES[kind]}")


def _check_lock_kind(path: Path) -> None:
    """Refuse a ledger that was written under another kind of lock, which would not be seen.

    A writer creates its own lock file before it looks the second time, so of two systems that
    come at the same moment at least one is refused.
    """
    for kind in LOCK_SUFFIXES:
        other = _lock_path(path.resolve(), kind)
        if kind != system.LOCK_KIND and os.path.lexists(other):
            raise OtherLockError(
                f"{path}: is used by a system that locks by {kind}, as {other.name} beside it says;"
                f" this one locks by {system.LOCK_KIND}, and neither sees the locks of the other."
                " Go on there. To use the ledger here alone from now on, remove"
                f" {other.name} while nobody uses the ledger ({page_pointer('systems')})."
            )


# --- Errors ---


@contextmanager
def _translate_errors(path: Path) -> Iterator[None]:
    try:
        yield
    except sqlite3.Error as error:
        raise translate_sqlite_error(path, error) from None
    except UnicodeDecodeError:  # of sqlite3, from a broken file
        raise damaged_error(path, "some of its text is none") from None


def translate_sqlite_error(path: Path, error: sqlite3.Error) -> BayesgramError:
    """Return what SQLite says as an error for the person who can mend it."""
    name = getattr(error, "sqlite_errorname", "")
    if name.startswith(("SQLITE_BUSY", "SQLITE_LOCKED")):
        return _busy_error(path)
    if name == "SQLITE_NOTADB":
        return UsageError(f"{path}: is not a ledger.")
    if name.startswith("SQLITE_READONLY") or name == "SQLITE_CANTOPEN":
        return _not_writable_error(path, error)
    if name.startswith("SQLITE_CORRUPT"):
        return damaged_error(path, f"SQLite says: {error}")
    return BayesgramError(f"{path}: the ledger could not be read or written ({error}).")


def damaged_error(path: Path, finding: str) -> BayesgramError:
    """Return the error for a ledger that is not what was written."""
    return BayesgramError(
        f"{path}: this ledger was edited or damaged and is refused ({finding}). Nothing can be"
        f" charged to it. What to do: {page_pointer('ledger')}."
    )


def _other_format_error(path: Path, version: int) -> UsageError:
    return UsageError(
        f"{path}: is a ledger of format {version}; this bayesgram reads {FORMAT}. What was charged"
        " to it still counts: go on with the version of bayesgram that made it, or make a new"
        " ledger for the same people with `bayesgram ledger create`, whose budget is reduced by"
        f" what this one has spent ({page_pointer('ledger')})."
    )


def _busy_error(path: Path) -> BayesgramError:
    return BayesgramError(
        f"{path}: another process has been writing for {LOCK_TIMEOUT:g} s; wait for it, then run it"
        " again."
    )


def _not_writable_error(path: Path, reason: object) -> UsageError:
    return UsageError(
        f"{path}: can't be opened for writing ({reason}); whoever makes releases must be able to"
        " write the ledger and its folder."
    )
