"""Ledgers that tests share: made anew, or edited past their triggers."""

import sqlite3

from bayesgram import system
from bayesgram.privacy import ledger_io
from bayesgram.privacy.accounting import Spend
from bayesgram.privacy.ledger import Ledger

LOCK_SUFFIX = ledger_io.LOCK_SUFFIXES[system.LOCK_KIND]  # of the lock file beside a ledger

_CREATED = {}  # bytes of a ledger, by its population and budget


def create_identical_ledger(path, *, population, budget):
    """A new ledger without a lock file; those of one population and budget are the same file, so
    that cards that name it are the same.
    """
    key = (population, budget)
    if key in _CREATED:
        path.write_bytes(_CREATED[key])
        return Ledger.open(path)
    made = Ledger.create(path, population=population, budget=budget)
    _CREATED[key] = path.read_bytes()
    path.with_name(f"{path.name}{LOCK_SUFFIX}").unlink()
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
