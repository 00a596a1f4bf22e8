"""The file of a ledger: who may open it when, and what SQLite says in words for the person who can mend it.

Durability: a rollback journal (not WAL: then the ledger is one file, which can be copied when nobody writes and lies on
network disks) and synchronous=EXTRA (FULL flushes the data, but a power loss could bring the journal back, and undo a
commit that was already reported; EXTRA flushes the folder too).

Locks: a lock file beside the ledger is held by who writes alone, or by those who read together. SQLite's own locks are
not enough: POSIX drops all that a process has on a file as soon as any thread of it closes that file, and then a reader
takes the journal of a living writer for that of a dead one, and undoes it. So nothing here opens the file but SQLite.
"""

import fcntl
import os
import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path

from bayesgram.errors import BayesgramError, UsageError

WAIT = 60.0  # seconds for others who are writing
RETRY = 0.01  # seconds between two looks at the lock


@contextmanager
def connected(path: Path, *, alone: bool = False) -> Iterator[sqlite3.Connection]:
    """A connection to an existing file, which nobody writes meanwhile; SQLite's errors become ours."""
    _check_file(path)
    with locked(path, alone=alone), _in_our_words(path):
        uri = f"{path.absolute().as_uri()}?mode=rw"  # never creates; a file that can't be written is opened for reading
        with closing(sqlite3.connect(uri, uri=True, isolation_level=None, timeout=WAIT)) as connection:
            connection.execute("PRAGMA trusted_schema = OFF")
            yield connection


@contextmanager
def _in_our_words(path: Path) -> Iterator[None]:
    try:
        yield
    except sqlite3.Error as error:
        raise in_words(path, error) from None
    except UnicodeDecodeError:  # of sqlite3, from a broken file
        raise damaged(path, "some of its text is none") from None


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


def in_words(path: Path, error: sqlite3.Error) -> BayesgramError:
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
    return BayesgramError(f"{path}: another process has been writing for {WAIT:g} s; wait for it, then run it again.")


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
def locked(path: Path, *, alone: bool) -> Iterator[None]:
    """Nobody else writes, no process and no other thread of this one; alone, nobody else reads either."""
    descriptor = lock_file(path.resolve()) if alone else _existing_lock(path.resolve())
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


def lock_file(path: Path) -> int:
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
