"""One population's budget in one SQLite file: what may be spent, and everything that was.

A release reserves its spend here before noise is drawn, and the reservation stays spent whatever happens afterwards.
Entries are only ever appended, each with the hash of the one before; whatever is read is verified first, in full, in
the same transaction. docs/ledger.md has the file format, and what a hash chain can't notice.

Does not know what a release is: it is given a `Spend` and a description.

Durability: a rollback journal (not WAL: then the ledger is one file, which can be copied when nobody writes and lies on
network disks) and synchronous=EXTRA (FULL flushes the data, but a power loss could bring the journal back, and undo a
commit that was already reported; EXTRA flushes the folder too).

Locks: a lock file beside the ledger is held by who writes alone, or by those who read together. SQLite's own locks are
not enough: POSIX drops all that a process has on a file as soon as any thread of it closes that file, and then a reader
takes the journal of a living writer for that of a dead one, and undoes it. So nothing here opens the file but SQLite.
"""

import fcntl
import hashlib
import json
import logging
import math
import os
import secrets
import sqlite3
import time
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from dataclasses import astuple, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from bayesgram.errors import BayesgramError, UsageError
from bayesgram.privacy.accounting import (
    Allowance,
    Spend,
    composed_epsilon,
    digits_up,
    fits,
    gaussian_left,
    pure_left,
    pure_mu_squared,
)
from bayesgram.privacy.budget import Budget

FORMAT = 2
APPLICATION = 0x42474C44  # "BGLD", bytes 68 to 71 of the file
WAIT = 60.0  # seconds for others who are writing
RETRY = 0.01  # seconds between two looks at the lock
LONGEST_NAME = 200
LONGEST_DESCRIPTION = 10_000

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
    total_variation TEXT NOT NULL,
    description TEXT NOT NULL,
    previous TEXT NOT NULL,
    hash TEXT NOT NULL
) STRICT"""
TRIGGERS = (
    "CREATE TRIGGER entries_are_not_edited BEFORE UPDATE ON entries BEGIN SELECT RAISE(ABORT, 'append-only'); END",
    "CREATE TRIGGER entries_are_not_removed BEFORE DELETE ON entries BEGIN SELECT RAISE(ABORT, 'append-only'); END",
)
ENTRIES_OF = {  # by format
    1: ENTRIES.format(kinds="'reserved', 'published'"),
    2: ENTRIES.format(kinds="'reserved', 'published', 'converted'"),
}
GENESIS_COLUMNS = ("format", "identity", "population", "epsilon", "delta", "created")
SPEND_COLUMNS = ("inverse_variance", "pure_epsilon", "total_variation")
ENTRY_COLUMNS = ("number", "time", "kind", "reservation", *SPEND_COLUMNS, "description", "previous")


@dataclass(frozen=True)
class Entry:
    """One reservation, with whether its release is known to have been published."""

    number: int
    time: str  # UTC, ISO 8601
    spend: Spend
    description: dict[str, Any]
    published: bool
    hash: str


@dataclass(frozen=True)
class Contents:
    """A whole ledger at one moment, verified."""

    identity: str
    population: str
    budget: Budget
    created: str
    format: int
    converted: int | None  # the entry that notes it, for a ledger of an older format
    reservations: tuple[Entry, ...]
    last_number: int
    last_hash: str

    @property
    def note(self) -> str | None:
        """What the keeper of a ledger of an older format should know."""
        if self.format < FORMAT:
            when = "it is converted when something is charged to it"
        elif self.converted:
            when = f"entry {self.converted} notes its conversion"
        else:
            return None
        spent = self.spent_epsilon()
        over = (
            f" What was reserved under the old rule is together ε = {digits_up(spent)} by the new one, more than its"
            " budget: nothing more can be charged."
            if self.format == FORMAT and not fits(self.spends, self.budget)
            else ""
        )
        return f"made with format 1, whose rule did not cover releases chosen after seeing earlier ones; {when}.{over}"

    @property
    def spends(self) -> list[Spend]:
        """Everything that was ever reserved."""
        return [entry.spend for entry in self.reservations]

    def spent_epsilon(self) -> float:
        """ε of everything together at the ledger's δ, rounded up."""
        return composed_epsilon(self.spends, self.budget.delta)

    def left_gaussian(self) -> float:
        """ε of the largest Gaussian release at the ledger's δ that still fits, rounded down."""
        return gaussian_left(self.spends, self.budget)

    def left_pure(self) -> float:
        """ε of the largest pure-ε release that still fits, rounded down."""
        return pure_left(self.spends, self.budget)

    def left(self) -> str:
        """What still fits, in words."""
        gaussian, pure = self.left_gaussian(), self.left_pure()
        if not gaussian and not pure:
            return "nothing"
        if self.budget.delta == 0:
            return f"ε = {pure:g} for a pure-ε release (as δ = 0, nothing else fits)"
        return (
            f"about ε = {gaussian:g} for a Gaussian release at δ = {self.budget.delta:g}, or {pure:g} for a pure-ε one"
        )


@dataclass(frozen=True)
class Ledger:
    """A budget that belongs to a named population. Every call opens the file anew, so any process may use it."""

    path: Path
    identity: str
    population: str
    budget: Budget

    @classmethod
    def create(cls, path: str | Path, *, population: str, budget: Budget) -> "Ledger":
        """A new file, readable by its owner only; never over something that exists."""
        check_population(population)
        _write_new(Path(path), _empty_ledger(population, budget))
        os.close(_lock_file(Path(path).resolve()))
        return cls.open(path)

    @classmethod
    def open(cls, path: str | Path) -> "Ledger":
        """An existing ledger, verified from its first byte to its last entry."""
        contents = read_ledger(path)
        return cls(Path(path).absolute(), contents.identity, contents.population, contents.budget)

    def read(self) -> Contents:
        """All of it, verified."""
        return self._same(read_ledger(self.path))

    def reserve(self, spend: Spend, description: Mapping[str, Any]) -> int:
        """Spend, durably, before noise is drawn: the number of the new entry. Refused if it would be too much."""
        text = _description(description)
        with _writing(self.path) as connection:
            contents = self._current(connection)
            allowed = fits([*contents.spends, spend], contents.budget)
            number = _append(connection, contents, "reserved", None, spend, text) if allowed else 0
        if not allowed:
            raise BayesgramError(_refusal(contents, spend))
        return number

    def complete(self, number: int) -> None:
        """Note that the release of this reservation was published. It costs nothing and gives nothing back."""
        with _writing(self.path) as connection:
            contents = self._current(connection)
            entry = next((entry for entry in contents.reservations if entry.number == number), None)
            if entry is None:
                raise UsageError(f"number={number}: no reservation of {self.path} has this number.")
            if entry.published:
                raise UsageError(f"number={number}: this reservation of {self.path} is marked as published already.")
            _append(connection, contents, "published", number, Spend(), "{}")

    def _current(self, connection: sqlite3.Connection) -> Contents:
        """All of it, verified, in the newest format."""
        contents = self._same(_verified(connection, self.path))
        return contents if contents.format == FORMAT else _convert(connection, contents, self.path)

    def _same(self, contents: Contents) -> Contents:
        if contents.identity != self.identity:
            raise BayesgramError(f"{self.path}: is another ledger than it was a moment ago; find out who replaced it.")
        return contents


def read_ledger(path: str | Path) -> Contents:
    """All that a ledger file holds, verified; anything wrong is an error."""
    path = Path(path)
    with _connected(path) as connection:
        connection.execute("BEGIN")  # one moment for all that follows
        return _verified(connection, path)


def is_ledger(path: Path) -> bool:
    """Whether a file says of itself that it is a ledger (it may still be a broken one)."""
    try:
        with _connected(path) as connection:
            (application,) = connection.execute("PRAGMA application_id").fetchone()
    except BayesgramError:
        return False
    return bool(application == APPLICATION)


def check_population(name: str) -> None:
    """A name is 1 to 200 printable characters, with no space around it."""
    if not (1 <= len(name) <= LONGEST_NAME and name.isprintable() and name == name.strip()):
        shown = ascii(name[:LONGEST_NAME])
        raise UsageError(
            f"population={shown}: a name has 1 to {LONGEST_NAME} printable characters and no space around it;"
            " 'app users 2025' would do."
        )


def _refusal(contents: Contents, spend: Spend) -> str:
    budget, together = contents.budget, composed_epsilon([*contents.spends, spend], contents.budget.delta)
    would_be = f"it would be ε = {digits_up(together)}" if together < math.inf else "no ε would be enough at this δ"
    return (
        f"the budget of population {contents.population!r} is ε = {budget.epsilon:g} at δ = {budget.delta:g};"
        f" ε = {digits_up(contents.spent_epsilon())} of it is spent, and with this release {would_be}."
        f" Left: {contents.left()}. Nothing was reserved.{_cost_of_pure(spend, budget)}"
    )


def _cost_of_pure(spend: Spend, budget: Budget) -> str:
    """Why a Laplace release takes more of a ledger than its ε says."""
    if not (spend.pure_epsilon and budget.delta):
        return ""
    mu, limit = math.sqrt(pure_mu_squared(spend.pure_epsilon)), Allowance.of(budget.epsilon, budget.delta)
    return (
        f" A ledger of δ > 0 charges a pure-ε release as Gaussian DP: ε = {spend.pure_epsilon:g} costs μ = {mu:.3g},"
        f" and the whole budget is μ = {math.sqrt(limit.mu_squared):.3g}. posterior and gaussian cost what their ε"
        " says; a ledger of δ = 0 adds up ε (docs/ledger.md)."
    )


# Making


def _empty_ledger(population: str, budget: Budget) -> bytes:
    """The bytes of a new ledger file."""
    header = {
        "format": FORMAT,
        "identity": secrets.token_hex(16),
        "population": population,
        "epsilon": repr(float(budget.epsilon)),
        "delta": repr(float(budget.delta)),
        "created": _now(),
    }
    genesis = _hash(header)
    row = {"id": 1, **header, "genesis": genesis, "last_number": 0, "last_hash": genesis}
    with closing(_new_database(FORMAT)) as connection:
        _insert(connection, "header", row)
        return connection.serialize()


def _new_database(version: int) -> sqlite3.Connection:
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


def _write_new(path: Path, data: bytes) -> None:
    """Write a file that did not exist, whole or not at all, flushed to disk."""
    if os.path.lexists(path):
        raise UsageError(f"{path}: exists already, and a ledger is never replaced; choose another name.")
    from bayesgram.files.writing import publish_file  # noqa: PLC0415 - loads Arrow, which only a new ledger needs

    with publish_file(path) as aside:
        aside.touch(mode=0o600)
        aside.write_bytes(data)


# Reading


@contextmanager
def _connected(path: Path, *, alone: bool = False) -> Iterator[sqlite3.Connection]:
    """A connection to an existing file, which nobody writes meanwhile; SQLite's errors become ours."""
    _check_file(path)
    with _locked(path, alone=alone), _in_our_words(path):
        uri = f"{path.absolute().as_uri()}?mode=rw"  # never creates; a file that can't be written is opened for reading
        with closing(sqlite3.connect(uri, uri=True, isolation_level=None, timeout=WAIT)) as connection:
            connection.execute("PRAGMA trusted_schema = OFF")
            yield connection


@contextmanager
def _in_our_words(path: Path) -> Iterator[None]:
    try:
        yield
    except sqlite3.Error as error:
        raise _in_words(path, error) from None
    except UnicodeDecodeError:  # of sqlite3, from a broken file
        raise _damaged(path, "some of its text is none") from None


def _check_file(path: Path) -> None:
    try:
        status = path.stat()
    except OSError as error:
        hint = "; make it with: bayesgram ledger create" if isinstance(error, FileNotFoundError) else ""
        raise UsageError(f"{path}: the ledger can't be opened ({error.strerror}){hint}.") from None
    if not path.is_file():
        raise UsageError(f"{path}: is not a file; a ledger is one.")
    if status.st_nlink > 1:
        raise UsageError(f"{path}: has {status.st_nlink} names (hard links), which breaks SQLite; keep one of them.")


def _in_words(path: Path, error: sqlite3.Error) -> BayesgramError:
    """What SQLite says, for the person who can mend it."""
    name = getattr(error, "sqlite_errorname", "")
    if name.startswith(("SQLITE_BUSY", "SQLITE_LOCKED")):
        return _busy(path)
    if name == "SQLITE_NOTADB":
        return UsageError(f"{path}: is not a ledger.")
    if name.startswith("SQLITE_READONLY") or name == "SQLITE_CANTOPEN":
        return _not_writable(path, error)
    if name.startswith("SQLITE_CORRUPT"):
        return _damaged(path, f"SQLite says: {error}")
    return BayesgramError(f"{path}: the ledger could not be read or written ({error}).")


def _busy(path: Path) -> BayesgramError:
    return BayesgramError(f"{path}: another process has been writing for {WAIT:g} s; wait for it, then run it again.")


def _not_writable(path: Path, why: object) -> UsageError:
    return UsageError(
        f"{path}: can't be opened for writing ({why}); whoever makes releases must be able to write the ledger and its"
        " folder."
    )


def _damaged(path: Path, what: str) -> BayesgramError:
    return BayesgramError(
        f"{path}: this ledger was edited or damaged and is refused ({what}). Nothing can be charged to it;"
        " docs/ledger.md says what to do."
    )


def _verified(connection: sqlite3.Connection, path: Path) -> Contents:
    """Everything, if every hash is right."""
    version = _check_format(connection, path)
    columns = (*GENESIS_COLUMNS, "genesis", "last_number", "last_hash")
    headers = _rows(connection, "header", columns)
    if len(headers) != 1:
        raise _damaged(path, "its header is missing")
    header = headers[0]
    if header["genesis"] != _hash({name: header[name] for name in GENESIS_COLUMNS}):
        raise _damaged(path, "its header was changed")
    rows = _rows(connection, "entries", (*ENTRY_COLUMNS, "hash"))
    _check_chain(rows, header, path)
    try:
        budget = Budget(float(header["epsilon"]), float(header["delta"]))
        reservations = _reservations(rows)
    except (ValueError, TypeError) as error:
        raise _damaged(path, f"it holds something impossible: {error}") from None
    return Contents(
        header["identity"],
        header["population"],
        budget,
        header["created"],
        version,
        next((row["number"] for row in rows if row["kind"] == "converted"), None),
        reservations,
        header["last_number"],
        header["last_hash"],
    )


def _check_format(connection: sqlite3.Connection, path: Path) -> int:
    """Ours, with exactly our tables, and sound as a database: its format, which is one we know."""
    (application,) = connection.execute("PRAGMA application_id").fetchone()
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    if application != APPLICATION:
        raise UsageError(f"{path}: is not a ledger.")
    if version > FORMAT:
        raise UsageError(f"{path}: is a ledger of format {version}; this bayesgram reads {FORMAT}. Use a newer one.")
    if version not in ENTRIES_OF:
        raise _damaged(path, "it has no format")
    with closing(_new_database(version)) as ours:
        if _schema(connection) != _schema(ours):
            raise _damaged(path, "its tables were changed")
    (found,) = connection.execute("PRAGMA integrity_check(1)").fetchone()
    if "unable to get the page" in found:  # the disk's fault, which says nothing about what the ledger holds
        raise BayesgramError(f"{path}: the ledger could not be read ({found}).")
    if found != "ok":
        raise _damaged(path, f"SQLite says: {found}")
    return int(version)


def _schema(connection: sqlite3.Connection) -> list[tuple[str, ...]]:
    return connection.execute("SELECT type, name, tbl_name, sql FROM sqlite_master ORDER BY name").fetchall()


def _rows(connection: sqlite3.Connection, table: str, columns: tuple[str, ...]) -> list[dict[str, Any]]:
    found = connection.execute(f"SELECT {', '.join(columns)} FROM {table} ORDER BY 1")  # noqa: S608 - our own names
    return [dict(zip(columns, row, strict=True)) for row in found]


def _check_chain(rows: list[dict[str, Any]], header: dict[str, Any], path: Path) -> None:
    previous = header["genesis"]
    for expected, row in enumerate(rows, start=1):
        if row["number"] != expected:
            raise _damaged(path, f"entry {expected} is missing")
        if row["previous"] != previous or row["hash"] != _hash({name: row[name] for name in ENTRY_COLUMNS}):
            raise _damaged(path, f"entry {expected} was changed")
        previous = row["hash"]
    if (header["last_number"], header["last_hash"]) != (len(rows), previous):
        raise _damaged(path, f"it should end with entry {header['last_number']}")


def _reservations(rows: list[dict[str, Any]]) -> tuple[Entry, ...]:
    published = {row["reservation"] for row in rows if row["kind"] == "published"}
    return tuple(
        Entry(
            row["number"],
            row["time"],
            Spend(*(float(row[name]) for name in SPEND_COLUMNS)),
            dict(json.loads(row["description"])),
            row["number"] in published,
            row["hash"],
        )
        for row in rows
        if row["kind"] == "reserved"
    )


# Appending


@contextmanager
def _writing(path: Path) -> Iterator[sqlite3.Connection]:
    """A transaction that nobody else writes in; durable when the block has ended, undone if it fails."""
    with _connected(path, alone=True) as connection:
        (mode,) = connection.execute("PRAGMA journal_mode = DELETE").fetchone()
        if mode != "delete":
            raise BayesgramError(f"{path}: SQLite can't keep a journal beside it (journal_mode is {mode}).")
        connection.execute("PRAGMA synchronous = EXTRA")
        connection.execute("PRAGMA fullfsync = ON")  # matters on macOS only
        connection.execute("BEGIN IMMEDIATE")  # waits; closing the connection undoes what is not committed
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
def _locked(path: Path, *, alone: bool) -> Iterator[None]:
    """Nobody else writes, no process and no other thread of this one; alone, nobody else reads either."""
    descriptor = _lock_file(path.resolve()) if alone else _existing_lock(path.resolve())
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


def _lock_file(path: Path) -> int:
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


def _convert(connection: sqlite3.Connection, contents: Contents, path: Path) -> Contents:
    """To the newest format, in the transaction of whoever charges the ledger. Every entry and its hash stay."""
    for statement in (
        "DROP TRIGGER entries_are_not_edited",
        "DROP TRIGGER entries_are_not_removed",
        "ALTER TABLE entries RENAME TO entries_before",
        ENTRIES_OF[FORMAT],
        "INSERT INTO entries SELECT * FROM entries_before",
        "DROP TABLE entries_before",
        *TRIGGERS,
        f"PRAGMA user_version = {FORMAT}",
    ):
        connection.execute(statement)
    note = {"from_format": contents.format, "to_format": FORMAT}
    _append(connection, contents, "converted", None, Spend(), _canonical(note))
    converted = _verified(connection, path)
    logging.getLogger(__name__).info("note: %s: %s", path, converted.note)
    return converted


def _append(
    connection: sqlite3.Connection, contents: Contents, kind: str, reservation: int | None, spend: Spend, text: str
) -> int:
    number = contents.last_number + 1
    values = (number, _now(), kind, reservation, *map(repr, astuple(spend)), text, contents.last_hash)
    row = dict(zip(ENTRY_COLUMNS, values, strict=True))
    row["hash"] = _hash(row)
    _insert(connection, "entries", row)
    connection.execute("UPDATE header SET last_number = ?, last_hash = ?", (number, row["hash"]))
    return number


def _insert(connection: sqlite3.Connection, table: str, row: Mapping[str, Any]) -> None:
    marks = ", ".join("?" * len(row))
    connection.execute(f"INSERT INTO {table} ({', '.join(row)}) VALUES ({marks})", [*row.values()])  # noqa: S608 - our own names


def _description(description: Mapping[str, Any]) -> str:
    try:
        text = _canonical(dict(description))
    except (TypeError, ValueError):
        raise UsageError("description: holds something that JSON has no word for.") from None
    if len(text) > LONGEST_DESCRIPTION:
        raise UsageError(f"description: has {len(text):,} characters; at most {LONGEST_DESCRIPTION:,} are kept.")
    return text


def _canonical(value: Mapping[str, Any]) -> str:
    """JSON with sorted keys, no spaces and only ASCII: one text for one value."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False)


def _hash(value: Mapping[str, Any]) -> str:
    return hashlib.sha256(_canonical(value).encode("ascii")).hexdigest()


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")
