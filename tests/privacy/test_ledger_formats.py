"""Ledgers of older formats: read as they are, converted when they are charged."""

import sqlite3
import subprocess
import sys
from contextlib import closing

import pytest

from bayesgram.errors import BayesgramError
from bayesgram.privacy import ledger_io
from bayesgram.privacy.accounting import composed_epsilon
from bayesgram.privacy.budget import Budget
from bayesgram.privacy.ledger import Ledger
from helpers.ledger_files import SMALL_SPEND, TENTH_SPEND, as_format, edit_ledger

OLD_NOTES = {
    1: "made with format 1, whose rule did not cover releases chosen after seeing earlier ones; ",
    2: "made with format 2, which has no place for the failure probability of a discovery; ",
}


def test_a_ledger_of_an_older_format_is_read_as_it_is(old):
    before = old.path.read_bytes()
    contents = old.read()
    assert contents.format == contents.made_with
    assert (contents.converted, contents.last_number) == (None, 5)
    assert (
        contents.note
        == OLD_NOTES[contents.format] + "it is converted when something is charged to it."
    )
    assert contents.spends == [SMALL_SPEND] * 4
    assert contents.spent_epsilon() == composed_epsilon([SMALL_SPEND] * 4, 1e-6)
    assert old.path.read_bytes() == before


def test_it_is_converted_with_a_note_when_it_is_charged(old, caplog):
    before = old.read()
    hashes = [entry.hash for entry in before.reservations]
    caplog.set_level("INFO", "bayesgram")
    assert old.reserve(SMALL_SPEND, {"output": "out-5"}) == 7
    contents = old.read()
    assert (contents.format, contents.converted, contents.last_number) == (3, 6, 7)
    assert [entry.hash for entry in contents.reservations][
        :4
    ] == hashes  # every entry stays what it was
    assert contents.reservations[1].published
    assert contents.note == OLD_NOTES[before.format] + "entry 6 notes its conversion."
    assert [record.message for record in caplog.records] == [f"note: {old.path}: {contents.note}"]
    assert old.reserve(SMALL_SPEND, {}) == 8  # once
    with (
        pytest.raises(sqlite3.IntegrityError, match="append-only"),
        closing(sqlite3.connect(old.path)) as connection,
    ):
        connection.execute("DELETE FROM entries")
    connection = sqlite3.connect(old.path)
    assert connection.execute("PRAGMA user_version").fetchone() == (3,)  # older versions refuse it
    noted = connection.execute(
        "SELECT description FROM entries WHERE kind = 'converted'"
    ).fetchall()
    assert noted == [(f'{{"from_format":{before.format},"to_format":3}}',)]
    connection.close()


def test_completing_converts_too(old):
    old.complete(1)
    assert old.read().converted == 6
    assert old.read().reservations[0].published


def test_a_ledger_that_was_converted_before_is_converted_again(used):
    """From format 1 to 2 by an earlier version, with its note, and now to 3 with another."""
    used.path.write_bytes(_converted_to_2(as_format(1, used.path)))
    twice = Ledger.open(used.path)
    note = twice.read().note
    assert (twice.read().format, twice.read().made_with, twice.read().converted) == (2, 1, 6)
    hashes = [entry.hash for entry in twice.read().reservations]
    assert twice.reserve(SMALL_SPEND, {}) == 8
    assert (twice.read().format, twice.read().converted, twice.read().note) == (3, 6, note)
    assert [entry.hash for entry in twice.read().reservations][:4] == hashes


def _converted_to_2(old):
    """The bytes after the conversion of 1 to 2, which added a kind of entries and a note of that kind."""
    contents, copy = old.read(), old.path.with_name("copy")
    with closing(sqlite3.connect(old.path)) as before, closing(ledger_io.new_database(2)) as after:
        for table in ("header", "entries"):
            before.row_factory = sqlite3.Row
            for row in before.execute(f"SELECT * FROM {table}").fetchall():
                ledger_io.insert(after, table, dict(row))
        note = {
            "number": 6,
            "time": "2026-01-01T00:00:00+00:00",
            "kind": "converted",
            "reservation": None,
        }
        note |= {"inverse_variance": "0.0", "pure_epsilon": "0.0", "total_variation": "0.0"}
        note |= {"description": '{"from_format":1,"to_format":2}', "previous": contents.last_hash}
        note["hash"] = ledger_io.hash_of(note)
        ledger_io.insert(after, "entries", note)
        after.execute("UPDATE header SET last_number = 6, last_hash = ?", (note["hash"],))
        copy.write_bytes(after.serialize())
    return copy.read_bytes()


def test_what_the_old_rule_allowed_too_much_is_said(tmp_path, caplog):
    """Ten times ε = 0.1 was exactly a budget of 1."""
    ledger = Ledger.create(tmp_path / "a.ledger", population="p", budget=Budget(1, 0.5))
    for _ in range(10):
        ledger.reserve(TENTH_SPEND, {})
    with closing(sqlite3.connect(ledger.path)) as connection:
        for name in ("entries_are_not_edited", "entries_are_not_removed"):
            connection.execute(f"DROP TRIGGER {name}")
        connection.execute("UPDATE header SET delta = '1e-06'")
        connection.commit()
    old = as_format(1, ledger.path)
    caplog.set_level("INFO", "bayesgram")
    with pytest.raises(BayesgramError, match=r"ε = 1\.748 of it is spent, and with this release"):
        old.reserve(SMALL_SPEND, {})
    contents = old.read()
    assert contents.note.endswith(
        "What was reserved under the old rule is together ε = 1.748 by the new one, more than its budget: nothing more can"
        " be charged."
    )
    assert contents.left() == "nothing"


@pytest.mark.parametrize(
    "statement", ["UPDATE entries SET pure_epsilon = '0' WHERE number = 2", "DROP TABLE entries"]
)
def test_a_damaged_ledger_of_an_older_format_is_not_converted(old, statement):
    edit_ledger(old.path, statement) if "UPDATE" in statement else _run(old.path, statement)
    before = old.path.read_bytes()
    with pytest.raises(BayesgramError, match="edited or damaged and is refused"):
        old.reserve(SMALL_SPEND, {})
    assert old.path.read_bytes() == before


def _run(path, statement):
    with closing(sqlite3.connect(path)) as connection:
        connection.execute(statement)


KILLED_CONVERSION = """if True:
    import os, signal, sqlite3, sys
    from pathlib import Path
    from bayesgram.privacy import ledger_io
    from bayesgram.privacy.ledger import Ledger, Spend

    class Doomed(sqlite3.Connection):
        left = None

        def execute(self, command, *more):
            if command.startswith("DROP TRIGGER entries_are_not_edited"):
                super().execute("PRAGMA cache_size = 1")  # so that half of it is on disk
                self.left = statements
            if self.left == 0:
                os.kill(os.getpid(), signal.SIGKILL)
            self.left = None if self.left is None else self.left - 1
            return super().execute(command, *more)

    connect, path = sqlite3.connect, Path(sys.argv[1])
    ledger_io.sqlite3.connect = lambda *given, **more: connect(*given, **{"factory": Doomed, **more})
    before = path.read_bytes()
    for statements in range(99):
        child = os.fork()
        if not child:
            Ledger.open(path).reserve(Spend(pure_epsilon=0.05), {})
            os._exit(0)
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        halfway = os.path.exists(sys.argv[1] + "-journal")
        contents = Ledger.open(path).read()
        print(code, halfway, contents.format, contents.last_number, path.read_bytes() == before)
        if code == 0:
            break
"""


def test_a_conversion_that_is_killed_did_not_happen(old):
    """Before any of its statements: the next one to come finds the ledger as it was, and at last converts it."""
    version = old.read().format
    command = [sys.executable, "-c", KILLED_CONVERSION, old.path]
    lines = subprocess.run(
        command, capture_output=True, text=True, check=True, timeout=60
    ).stdout.splitlines()
    *killed, last = [line.split() for line in lines]
    assert last == ["0", "False", "3", "7", "False"]
    assert len(killed) > 12
    assert {(code, *after) for code, _, *after in killed} == {("-9", str(version), "5", "True")}
    assert sum(halfway == "True" for _, halfway, *_ in killed) > 5


def test_a_header_of_a_format_that_was_not_there_is_refused(used):
    as_format(2, used.path)
    with closing(sqlite3.connect(used.path)) as connection, connection:
        connection.row_factory = sqlite3.Row
        header = dict(connection.execute("SELECT * FROM header").fetchone()) | {"format": 3}
        genesis = ledger_io.hash_of({name: header[name] for name in ledger_io.GENESIS_COLUMNS})
        connection.execute("UPDATE header SET format = 3, genesis = ?", (genesis,))
    with pytest.raises(BayesgramError, match="its header has another format"):
        used.read()
