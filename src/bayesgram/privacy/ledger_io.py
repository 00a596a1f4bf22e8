"""The file of a ledger: who may open it when, and what SQLite says in words for the person who can mend it.

Durability: a rollback journal (not WAL: then the ledger is one file, which can be copied when nobody writes and lies on
network disks) and synchronous=EXTRA (FULL flushes the data, but a power loss could bring the journal back, and undo a
commit that was already reported; EXTRA flushes the folder too).

Locks: a lock file beside the ledger is held by who writes alone, or by those who read together. SQLite's own locks are
not enough: POSIX drops all that a process has on a file as soon as any thread of it closes that file, and then a reader
takes the journal of a living writer for that of a dead one, and undoes it. So nothing here opens the file but SQLite.

The tables of a ledger file, and how they are verified: formats, columns, hashes.

In: an SQLite connection.   Out: rows, if they are exactly what was written.   docs/ledger.md has the format.
Does not know what a reservation means (ledger.py), nor who may open the file (ledger_file.py).

What a ledger file holds at one moment, verified from its first byte to its last entry.

In:  a ledger file.   Out: `LedgerContents`: the budget, every reservation, and what is left of it.   Changes nothing.
"""

import fcntl
import hashlib
import json
import os
import sqlite3
import time
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bayesgram.errors import BayesgramError, UsageError
from bayesgram.privacy.accounting import (
    Allowance,
    Spend,
    composed_epsilon,
    digits_up,
    discovery_left,
    fits,
    gaussian_left,
    may_fail,
    pure_left,
)
from bayesgram.privacy.budget import Budget
from bayesgram.privacy.unit import DEFAULT_UNIT, promise

WAIT = 60.0  # seconds for others who are writing
RETRY = 0.01  # seconds between two looks at the lock


@contextmanager
def connected(path: Path, *, alone: bool = False) -> Iterator[sqlite3.Connection]:
    """A connection to an existing file, which nobody writes meanwhile; SQLite's errors become ours."""
    _check_file(path)
    with locked(path, alone=alone), _in_our_words(path):
        uri = f"{path.absolute().as_uri()}?mode=rw"  # never creates; a file that can't be written is opened for reading
        with closing(
            sqlite3.connect(uri, uri=True, isolation_level=None, timeout=WAIT)
        ) as connection:
            connection.execute("PRAGMA trusted_schema = OFF")
            yield connection


@contextmanager
def _in_our_words(path: Path) -> Iterator[None]:
    try:
        yield
    except sqlite3.Error as error:
        raise translate_sqlite_error(path, error) from None
    except UnicodeDecodeError:  # of sqlite3, from a broken file
        raise damaged(path, "some of its text is none") from None


def _check_file(path: Path) -> None:
    try:
        status = path.stat()
    except OSError as error:
        hint = (
            "; make it with: bayesgram ledger create"
            if isinstance(error, FileNotFoundError)
            else ""
        )
        raise UsageError(f"{path}: the ledger can't be opened ({error.strerror}){hint}.") from None
    if not path.is_file():
        raise UsageError(f"{path}: is not a file; a ledger is one.")
    if status.st_nlink > 1:
        raise UsageError(
            f"{path}: has {status.st_nlink} names (hard links), which breaks SQLite; keep one of them."
        )


def translate_sqlite_error(path: Path, error: sqlite3.Error) -> BayesgramError:
    """What SQLite says, for the person who can mend it."""
    name = getattr(error, "sqlite_errorname", "")
    if name.startswith(("SQLITE_BUSY", "SQLITE_LOCKED")):
        return _busy(path)
    if name == "SQLITE_NOTADB":
        return UsageError(f"{path}: is not a ledger.")
    if name.startswith("SQLITE_READONLY") or name == "SQLITE_CANTOPEN":
        return _not_writable(path, error)
    if name.startswith("SQLITE_CORRUPT"):
        return damaged(path, f"SQLite says: {error}")
    return BayesgramError(f"{path}: the ledger could not be read or written ({error}).")


def _busy(path: Path) -> BayesgramError:
    return BayesgramError(
        f"{path}: another process has been writing for {WAIT:g} s; wait for it, then run it again."
    )


def _not_writable(path: Path, why: object) -> UsageError:
    return UsageError(
        f"{path}: can't be opened for writing ({why}); whoever makes releases must be able to write the ledger and its"
        " folder."
    )


def damaged(path: Path, what: str) -> BayesgramError:
    """A ledger that is not what was written."""
    return BayesgramError(
        f"{path}: this ledger was edited or damaged and is refused ({what}). Nothing can be charged to it;"
        " docs/ledger.md says what to do."
    )


@contextmanager
def writing(path: Path) -> Iterator[sqlite3.Connection]:
    """A transaction that nobody else writes in; durable when the block has ended, undone if it fails."""
    with connected(path, alone=True) as connection:
        (mode,) = connection.execute("PRAGMA journal_mode = DELETE").fetchone()
        if mode != "delete":
            raise BayesgramError(
                f"{path}: SQLite can't keep a journal beside it (journal_mode is {mode})."
            )
        connection.execute("PRAGMA synchronous = EXTRA")
        connection.execute("PRAGMA fullfsync = ON")  # matters on macOS only
        connection.execute(
            "BEGIN IMMEDIATE"
        )  # waits; closing the connection undoes what is not committed
        yield connection
        try:
            connection.execute("COMMIT")
        except sqlite3.OperationalError as error:
            if error.sqlite_errorname.startswith("SQLITE_BUSY"):
                raise
            raise BayesgramError(
                f"{path}: the disk did not take what was to be written, or did not confirm it ({error}); if it was"
                f" recorded all the same, it stays spent: see `bayesgram ledger show {path}`."
            ) from None


@contextmanager
def locked(path: Path, *, alone: bool) -> Iterator[None]:
    """Nobody else writes, no process and no other thread of this one; alone, nobody else reads either."""
    descriptor = open_lock_file(path.resolve()) if alone else _existing_lock(path.resolve())
    if descriptor is None:
        yield
        return
    try:
        give_up = time.monotonic() + WAIT
        while not _is_mine(descriptor, fcntl.LOCK_EX if alone else fcntl.LOCK_SH):
            if time.monotonic() > give_up:
                raise _busy(path)
            time.sleep(RETRY)
        yield
    finally:
        fcntl.flock(descriptor, fcntl.LOCK_UN)  # also for a child that was forked meanwhile
        os.close(descriptor)


def _lock_of(path: Path) -> Path:
    return path.with_name(f"{path.name}.lock")


def _existing_lock(path: Path) -> int | None:
    """A descriptor of the lock file, for who may only read; None where nobody has ever written with one."""
    try:
        return os.open(_lock_of(path), os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        return None


def open_lock_file(path: Path) -> int:
    """A descriptor of the lock file beside a ledger, which whoever may write the ledger may open."""
    lock, status = _lock_of(path), path.stat()
    try:
        descriptor = os.open(lock, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise _not_writable(path, f"{lock.name}: {error.strerror}") from None
    if os.fstat(descriptor).st_uid == os.geteuid():
        with suppress(OSError):  # a group that this user is not in
            os.fchown(descriptor, -1, status.st_gid)
            os.fchmod(descriptor, status.st_mode & 0o666)
    return descriptor


def _is_mine(descriptor: int, kind: int) -> bool:
    try:
        fcntl.flock(descriptor, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


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
        raise UsageError(
            f"{path}: is a ledger of format {version}; this bayesgram reads {FORMAT}. Use a newer one."
        )
    if version not in ENTRIES_OF:
        raise damaged(path, "it has no format")
    with closing(new_database(version)) as ours:
        if _schema(connection) != _schema(ours):
            raise damaged(path, "its tables were changed")
    (found,) = connection.execute("PRAGMA integrity_check(1)").fetchone()
    if (
        "unable to get the page" in found
    ):  # the disk's fault, which says nothing about what the ledger holds
        raise BayesgramError(f"{path}: the ledger could not be read ({found}).")
    if found != "ok":
        raise damaged(path, f"SQLite says: {found}")
    return int(version)


def _schema(connection: sqlite3.Connection) -> list[tuple[str, ...]]:
    return connection.execute(
        "SELECT type, name, tbl_name, sql FROM sqlite_master ORDER BY name"
    ).fetchall()


def rows_of(
    connection: sqlite3.Connection, table: str, columns: tuple[str, ...]
) -> list[dict[str, Any]]:
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
        if row["previous"] != previous or row["hash"] != hash_entry(row):
            raise damaged(path, f"entry {expected} was changed")
        previous = row["hash"]
    if (header["last_number"], header["last_hash"]) != (len(rows), previous):
        raise damaged(path, f"it should end with entry {header['last_number']}")


def canonical(value: Mapping[str, Any]) -> str:
    """JSON with sorted keys, no spaces and only ASCII: one text for one value."""
    return json.dumps(
        value, sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False
    )


def hash_row(value: Mapping[str, Any]) -> str:
    """SHA-256 of a row as one JSON text."""
    return hashlib.sha256(canonical(value).encode("ascii")).hexdigest()


def hash_entry(row: Mapping[str, Any]) -> str:
    """The hash of an entry, by the columns of the format that it was written in."""
    return hash_row(
        {name: row[name] for name in ENTRY_COLUMNS if name != FAILURE or row[name] is not None}
    )


WHAT_WAS_OTHER = {  # in older formats
    1: "whose rule did not cover releases chosen after seeing earlier ones",
    2: "which has no place for the failure probability of a discovery",
}


@dataclass(frozen=True)
class Reservation:
    """One reservation, with whether its release is known to have been published."""

    number: int
    time: str  # UTC, ISO 8601
    spend: Spend
    description: dict[str, Any]
    published: bool
    hash: str

    @property
    def unit(self) -> str | None:
        """Whom one step of privacy protects, as its curator said it; entries of earlier versions don't say."""
        found = self.description.get("unit")
        return found if isinstance(found, str) else None


@dataclass(frozen=True)
class LedgerContents:
    """A whole ledger at one moment, verified."""

    identity: str
    population: str
    budget: Budget
    created: str
    format: int
    made_with: int  # the format it had at first
    converted: (
        int | None
    )  # the entry that notes its first conversion, for a ledger of an older format
    reservations: tuple[Reservation, ...]
    last_number: int
    last_hash: str

    @property
    def note(self) -> str | None:
        """What the keeper of a ledger of an older format should know."""
        if self.made_with == FORMAT:
            return None
        when = "it is converted when something is charged to it"
        if self.converted:
            when = f"entry {self.converted} notes its conversion"
        over = (
            f" What was reserved under the old rule is together ε = {digits_up(self.spent_epsilon())} by the new one,"
            " more than its budget: nothing more can be charged."
            if self.converted and not fits(self.spends, self.budget)
            else ""
        )
        return f"made with format {self.made_with}, {WHAT_WAS_OTHER[self.made_with]}; {when}.{over}"

    @property
    def unit(self) -> str | None:
        """What the first entry that says so calls one unit of privacy; None if none does."""
        return next((entry.unit for entry in self.reservations if entry.unit is not None), None)

    @property
    def promise(self) -> str:
        """What the whole budget means for a person."""
        budget, subject = self.budget, "Everything charged to this ledger together"
        return promise(self.unit or DEFAULT_UNIT, budget.epsilon, budget.delta, subject)

    @property
    def spends(self) -> list[Spend]:
        """Everything that was ever reserved."""
        return [entry.spend for entry in self.reservations]

    def allowance(self, *more: Spend) -> Allowance:
        """What its spends and these may add up to, for δ > 0."""
        return Allowance.of_budget(self.budget, failures=may_fail([*self.spends, *more]))

    def spent_epsilon(self) -> float:
        """ε of everything together at the ledger's δ, rounded up."""
        return composed_epsilon(self.spends, self.budget.delta)

    def left_gaussian(self) -> float:
        """ε of the largest Gaussian release at the ledger's δ that still fits, rounded down."""
        return gaussian_left(self.spends, self.budget)

    def left_pure(self) -> float:
        """ε of the largest pure-ε release that still fits, rounded down."""
        return pure_left(self.spends, self.budget)

    def spent_failure(self) -> float:
        """The failure probability of everything together, rounded up."""
        return sum(self.spends, Spend()).failure

    def left_for_discovery(self) -> Allowance:
        """What a discovery may still take of each limit; nothing of any where there can be none."""
        return discovery_left(self.spends, self.budget)

    def left(self) -> str:
        """What still fits, in words."""
        gaussian, pure = self.left_gaussian(), self.left_pure()
        if not gaussian and not pure:
            return "nothing"
        if self.budget.delta == 0:
            return f"ε = {pure:g} for a pure-ε release (as δ = 0, nothing else fits)"
        return f"about ε = {gaussian:g} for a Gaussian release at δ = {self.budget.delta:g}, or {pure:g} for a pure-ε one"


def read_ledger(path: str | Path) -> LedgerContents:
    """All that a ledger file holds, verified; anything wrong is an error."""
    path = Path(path)
    with connected(path) as connection:
        connection.execute("BEGIN")  # one moment for all that follows
        return verified(connection, path)


def is_ledger(path: Path) -> bool:
    """Whether a file says of itself that it is a ledger (it may still be a broken one)."""
    try:
        with connected(path) as connection:
            (application,) = connection.execute("PRAGMA application_id").fetchone()
    except BayesgramError:
        return False
    return bool(application == APPLICATION)


def verified(connection: sqlite3.Connection, path: Path) -> LedgerContents:
    """Everything, if every hash is right."""
    version = check_format(connection, path)
    columns = (*GENESIS_COLUMNS, "genesis", "last_number", "last_hash")
    headers = rows_of(connection, "header", columns)
    if len(headers) != 1:
        raise damaged(path, "its header is missing")
    header = headers[0]
    if header["genesis"] != hash_row({name: header[name] for name in GENESIS_COLUMNS}):
        raise damaged(path, "its header was changed")
    if not 1 <= header["format"] <= version:
        raise damaged(path, "its header has another format")
    rows = entries_of(connection, version)
    check_chain(rows, header, path)
    try:
        budget = Budget(float(header["epsilon"]), float(header["delta"]))
        reservations = _reservations(rows)
    except (ValueError, TypeError) as error:
        raise damaged(path, f"it holds something impossible: {error}") from None
    return LedgerContents(
        header["identity"],
        header["population"],
        budget,
        header["created"],
        version,
        header["format"],
        next((row["number"] for row in rows if row["kind"] == "converted"), None),
        reservations,
        header["last_number"],
        header["last_hash"],
    )


def _reservations(rows: list[dict[str, Any]]) -> tuple[Reservation, ...]:
    published = {row["reservation"] for row in rows if row["kind"] == "published"}
    return tuple(
        Reservation(
            row["number"],
            row["time"],
            Spend(*(float(row[name]) for name in SPEND_COLUMNS if row[name] is not None)),
            dict(json.loads(row["description"])),
            row["number"] in published,
            row["hash"],
        )
        for row in rows
        if row["kind"] == "reserved"
    )
