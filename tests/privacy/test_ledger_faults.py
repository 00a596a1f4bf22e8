"""Ledgers that meet what seldom happens: a disk that fails, SQLite's own errors, files of other users."""

import errno
import os
import sqlite3
from contextlib import closing

import numpy as np
import pytest

from bayesgram.errors import BayesgramError, UsageError
from bayesgram.privacy import ledger as module
from bayesgram.privacy import ledger_io
from bayesgram.privacy.accounting import Spend, gaussian_delta
from bayesgram.privacy.budget import Budget
from bayesgram.privacy.ledger import Ledger
from bayesgram.privacy.ledger_io import read_ledger
from helpers.ledger_files import LOCK_SUFFIX

SOME = Spend(pure_epsilon=0.05)


@pytest.fixture
def ledger(tmp_path):
    return Ledger.create(tmp_path / "app.ledger", population="app users", budget=Budget(1, 1e-6))


def test_a_ledger_that_could_not_be_written_is_not_there(tmp_path, monkeypatch):
    def full(_):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(BayesgramError, match=r"writing failed .*; nothing was left behind"):
        Ledger.create(tmp_path / "app.ledger", population="p", budget=Budget(1))
    assert not (tmp_path / "app.ledger").exists()


def error_of(action):
    with pytest.raises(sqlite3.Error) as caught:
        action()
    return caught.value


def read_only(path):
    with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as connection:
        connection.execute("UPDATE header SET population = 'x'")


def missing(path):
    with closing(sqlite3.connect(f"file:{path}/none?mode=rw", uri=True)):
        pass


def busy(path):
    with closing(sqlite3.connect(path)) as one, closing(sqlite3.connect(path, timeout=0)) as other:
        one.execute("BEGIN EXCLUSIVE")
        other.execute("BEGIN EXCLUSIVE")


def foreign(path):
    path.write_bytes(b"not a database" * 100)
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("SELECT * FROM header")


def unknown(path):
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("SELECT * FROM nowhere")


@pytest.mark.parametrize(
    ("action", "kind", "message"),
    [
        (read_only, UsageError, "can't be opened for writing"),
        (missing, UsageError, "can't be opened for writing"),
        (busy, BayesgramError, "another process has been writing"),
        (foreign, UsageError, "is not a ledger"),
        (unknown, BayesgramError, "the ledger could not be read or written"),
    ],
)
def test_what_sqlite_says_is_said_for_the_person_who_can_mend_it(ledger, action, kind, message):
    found = ledger_io.translate_sqlite_error(ledger.path, error_of(lambda: action(ledger.path)))
    assert type(found) is kind
    assert message in str(found)


@pytest.mark.parametrize("epsilon", ["-1.0", "nan", "much"])
def test_a_header_that_hashes_well_and_says_nonsense_is_refused(ledger, epsilon):
    with closing(sqlite3.connect(ledger.path)) as connection, connection:
        columns = ledger_io.GENESIS_COLUMNS
        row = connection.execute(f"SELECT {', '.join(columns)} FROM header").fetchone()
        header = dict(zip(columns, row, strict=True)) | {"epsilon": epsilon}
        genesis = ledger_io.hash_row(header)
        connection.execute(
            "UPDATE header SET epsilon = ?, genesis = ?, last_hash = ?", (epsilon, genesis, genesis)
        )
    with pytest.raises(BayesgramError, match="it holds something impossible"):
        read_ledger(ledger.path)


@pytest.mark.posix("owners")
def test_a_lock_of_another_user_keeps_its_rights(ledger, monkeypatch):
    lock = ledger.path.with_name(ledger.path.name + ".lock")
    lock.chmod(0o640)
    monkeypatch.setattr(os, "geteuid", lambda: os.getuid() + 1)
    ledger.reserve(SOME, {})
    assert lock.stat().st_mode & 0o777 == 0o640


def test_nothing_spent_has_no_delta():
    """μ = 0: both distributions are the same, so δ(ε) is 0 from ε = 0 on, and 1 − e^ε below."""
    epsilons = np.array([-2.0, -1e-9, 0.0, 1e-9, 5.0])
    assert gaussian_delta(epsilons, 0.0).tolist() == np.maximum(-np.expm1(epsilons), 0.0).tolist()


def test_a_journal_that_others_hold_open_in_another_mode_is_refused(ledger):
    """Somebody opened it with another program, in WAL mode, and still reads it: nothing is written."""
    with closing(sqlite3.connect(ledger.path)) as other:
        other.execute("PRAGMA journal_mode = WAL")
        other.execute("BEGIN")
        other.execute("SELECT * FROM header").fetchall()
        with pytest.raises(BayesgramError, match="another process has been writing"):
            ledger.reserve(SOME, {})
    assert read_ledger(ledger.path).reservations == ()


def test_where_sqlite_keeps_no_journal_on_disk_nothing_is_written(ledger, monkeypatch):
    """As in memory, where SQLite says so: a crash could leave half of an entry."""
    connect = sqlite3.connect
    monkeypatch.setattr(sqlite3, "connect", lambda *_, **more: connect("file::memory:", **more))
    with pytest.raises(
        BayesgramError, match=r"SQLite can't keep a journal beside it \(journal_mode is memory\)"
    ):
        ledger.reserve(SOME, {})


@pytest.mark.posix("a limit on the size of files")
def test_a_disk_that_does_not_take_an_entry_says_that_it_may_be_there(ledger):
    """The file may not grow as it must: SQLite finds out when it commits, and the entry is not there."""
    import resource

    size, (soft, hard) = ledger.path.stat().st_size, resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size + 4096, hard))
    try:
        with pytest.raises(
            BayesgramError,
            match=r"the disk did not take what was to be written, or did not confirm it",
        ):
            ledger.reserve(SOME, {"output": "x" * 9900})
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert read_ledger(ledger.path).reservations == ()
    assert ledger.reserve(SOME, {}) == 1


def test_somebody_who_reads_all_the_while_is_waited_for_and_then_named(ledger, monkeypatch):
    monkeypatch.setattr(ledger_io, "LOCK_TIMEOUT", 0.1)
    with closing(sqlite3.connect(ledger.path)) as other:
        other.execute("BEGIN")
        other.execute("SELECT * FROM header").fetchall()
        with pytest.raises(BayesgramError, match="another process has been writing"):
            ledger.reserve(SOME, {})
    assert read_ledger(ledger.path).reservations == ()


def test_a_page_that_the_disk_does_not_give_is_not_called_damage(ledger):
    class Unreadable(sqlite3.Connection):
        def execute(self, command, *more):
            if "integrity_check" in command:
                command = "SELECT 'Tree 2 page 2: unable to get the page. error code=266'"
            return super().execute(command, *more)

    with (
        closing(sqlite3.connect(ledger.path, factory=Unreadable)) as connection,
        pytest.raises(BayesgramError, match="the ledger could not be read") as caught,
    ):
        ledger_io.check_database(connection, ledger.path)
    assert "damaged" not in str(caught.value)


def test_a_ledger_is_made_also_where_its_lock_is_not(tmp_path, monkeypatch):
    """Whoever writes first makes it: a ledger that is there, reported as failed, would be made twice."""

    def refused(path):
        raise UsageError(f"{path}: no more files today.")

    with monkeypatch.context() as patch:
        patch.setattr(module, "open_lock_file", refused)
        ledger = Ledger.create(tmp_path / "a.ledger", population="p", budget=Budget(1))
    assert [path.name for path in tmp_path.iterdir()] == ["a.ledger"]
    assert ledger.reserve(Spend(pure_epsilon=0.1), {}) == 1
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "a.ledger",
        f"a.ledger{LOCK_SUFFIX}",
    ]
