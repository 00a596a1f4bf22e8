"""Ledgers that tests share: edited past their triggers, and written as older versions did."""

import sqlite3
from contextlib import closing

from bayesgram.privacy import ledger_io
from bayesgram.privacy.accounting import Spend
from bayesgram.privacy.ledger import Ledger

_CREATED = {}  # bytes of a ledger, by its population and budget


def create_identical_ledger(path, *, population, budget):
    """A new ledger; those of one population and budget are the same file, so that cards that name it are the same."""
    key = (population, budget)
    if key in _CREATED:
        path.write_bytes(_CREATED[key])
        return Ledger.open(path)
    made = Ledger.create(path, population=population, budget=budget)
    _CREATED[key] = path.read_bytes()
    return made


SMALL_SPEND = Spend(pure_epsilon=0.05)
TENTH_SPEND = Spend(pure_epsilon=0.1)


def edit_ledger(path, *statements):
    """Edit the file with SQL, past the triggers, leaving the tables as they were."""
    names = [line.split()[2] for line in ledger_io.TRIGGERS]
    connection = sqlite3.connect(path)
    connection.executescript(
        ";".join([*(f"DROP TRIGGER {name}" for name in names), *statements, *ledger_io.TRIGGERS])
        + ";"
    )
    connection.close()


def as_format(version, path):
    """What was written then: the tables of that format, and a header and entries hashed under it."""
    connection = sqlite3.connect(path, isolation_level=None)
    connection.row_factory = sqlite3.Row
    header = dict(connection.execute("SELECT * FROM header").fetchone())
    rows = [dict(row) for row in connection.execute("SELECT * FROM entries ORDER BY number")]
    connection.close()
    header["format"] = version
    header["genesis"] = header["last_hash"] = ledger_io.hash_of(
        {name: header[name] for name in ledger_io.GENESIS_COLUMNS}
    )
    for row in rows:
        assert row.pop("failure") in {None, "0.0"}
        row["previous"] = header["last_hash"]
        row["hash"] = header["last_hash"] = ledger_io.hash_of(
            {k: v for k, v in row.items() if k != "hash"}
        )
    path.unlink()
    with closing(ledger_io.new_database(version)) as made:
        ledger_io.insert(made, "header", header)
        for row in rows:
            ledger_io.insert(made, "entries", row)
        path.write_bytes(made.serialize())
    return Ledger.open(path)
