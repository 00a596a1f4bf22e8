"""Why a ledger can't be charged, in words: what it holds, what was asked, and what can be done.

In:  a ledger's verified contents and a spend.   Out: an error, or None.   Does not read or write the file.

One population's budget in one SQLite file: what may be spent, and everything that was.

A release reserves its spend here before noise is drawn, and the reservation stays spent whatever happens afterwards.
Entries are only ever appended, each with the hash of the one before; whatever is read is verified first, in full, in
the same transaction. docs/ledger.md has the file format, and what a hash chain can't notice.

Does not know what a release is: it is given a `Spend` and a description.
"""

import logging
import math
import os
import secrets
import sqlite3
from collections.abc import Mapping
from contextlib import closing, suppress
from dataclasses import astuple, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from bayesgram.arguments import checked
from bayesgram.errors import Argument, BayesgramError, UsageError
from bayesgram.privacy.accounting import (
    ASIDE,
    Allowance,
    Spend,
    composed_epsilon,
    digits_up,
    fits,
    pure_mu_squared,
)
from bayesgram.privacy.budget import Budget
from bayesgram.privacy.ledger_io import (
    ENTRIES_OF,
    ENTRY_COLUMNS,
    FORMAT,
    TRIGGERS,
    Contents,
    canonical,
    columns_of,
    hash_of,
    hash_of_entry,
    insert,
    lock_file,
    new_database,
    read_ledger,
    verified,
    writing,
)
from bayesgram.privacy.noise import check_opendp
from bayesgram.privacy.unit import is_same


def refusal(
    contents: Contents, spend: Spend, description: Mapping[str, Any]
) -> BayesgramError | None:
    """Why nothing can be reserved, if so."""
    if "unit" in description and (refused := refusal_of_unit(contents, description["unit"])):
        return refused
    allowed = fits([*contents.spends, spend], contents.budget)
    return None if allowed else BayesgramError(_too_much(contents, spend))


def refusal_of_unit(contents: Contents, unit: str) -> UsageError | None:
    """(ε, δ) for one unit and for another don't add up."""
    if contents.unit is None or is_same(unit, contents.unit):
        return None
    return UsageError.for_argument(
        "unit",
        repr(unit),
        f"the ledger of population {contents.population!r} counts in another unit, "
        f"{contents.unit!r}: give ",
        Argument("unit", f'"{contents.unit}"'),
        " if that is what one user id of these data stands for, or use another ledger. "
        "Nothing was reserved.",
    )


def _too_much(contents: Contents, spend: Spend) -> str:
    if spend.failure > contents.left_for_discovery().failure:
        return refusal_of_discovery(contents, spend.failure)
    budget, together = (
        contents.budget,
        composed_epsilon([*contents.spends, spend], contents.budget.delta),
    )
    would_be = (
        f"it would be ε = {digits_up(together)}"
        if together < math.inf
        else "no ε would be enough at this δ"
    )
    return (
        f"the budget of population {contents.population!r} is ε = {budget.epsilon:g} at δ = {budget.delta:g};"
        f" ε = {digits_up(contents.spent_epsilon())} of it is spent, and with this release {would_be}."
        f" Left: {contents.left()}. Nothing was reserved.{_cost_of_failures(contents, spend)}"
        f"{_cost_of_pure(contents, spend)}"
    )


def refusal_of_discovery(contents: Contents, failure: float | None = None) -> str:
    """Why a discovery can't be charged, and what can be done."""
    budget, first = contents.budget, contents.spends[:1]
    if not budget.delta:
        why = "it has δ = 0, and a discovery needs a δ. Use a ledger of δ > 0."
    elif first and not first[0].failure:
        why = (
            "its first entry was no discovery, so all of its δ belongs to noise and none was set aside for the chance"
            " that a discovery publishes what only one person wrote. Go on without a discovery, or charge it to a new"
            " ledger before anything else; if that is for the same people, what both ledgers spend adds up."
        )
    elif (
        contents.spent_failure() < ASIDE * budget.delta
        and not contents.left_for_discovery().failure
    ):
        why = "nothing of it is left for noise."
    else:
        asked = (
            f"this one asks for {digits_up(failure)}: give it a smaller δ."
            if failure
            else "none is left."
        )
        why = (
            f"discoveries may fail with probability {ASIDE * budget.delta:g} together (a quarter of its δ),"
            f" {digits_up(contents.spent_failure())} of that is spent, and {asked}"
        )
    who = f"the budget of population {contents.population!r}"
    return f"{who} has no room for this discovery: {why} Nothing was reserved."


def _cost_of_failures(contents: Contents, spend: Spend) -> str:
    """Why there is less room beside discoveries."""
    budget = contents.budget
    if not (budget.delta and contents.allowance(spend).failure):
        return ""
    return (
        f" As its first entry is a discovery, a quarter of δ is set aside for failures, and noise has δ ="
        f" {(1 - ASIDE) * budget.delta:g} (docs/ledger.md)."
    )


def _cost_of_pure(contents: Contents, spend: Spend) -> str:
    """Why a Laplace release takes more of a ledger than its ε says."""
    if not (spend.pure_epsilon and contents.budget.delta):
        return ""
    mu, limit = math.sqrt(pure_mu_squared(spend.pure_epsilon)), contents.allowance(spend)
    return (
        f" A ledger of δ > 0 charges a pure-ε release as Gaussian DP: ε = {spend.pure_epsilon:g} costs μ = {mu:.3g},"
        f" and the whole budget is μ = {math.sqrt(limit.mu_squared):.3g}. posterior and gaussian cost what their ε"
        " says; a ledger of δ = 0 adds up ε (docs/ledger.md)."
    )


LONGEST_NAME = 200
LONGEST_DESCRIPTION = 10_000


@dataclass(frozen=True)
class Ledger:
    """A budget that belongs to a named population. Every call opens the file anew, so any process may use it."""

    path: Path
    identity: str
    population: str
    budget: Budget

    @classmethod
    @checked
    def create(cls, path: str | Path, *, population: str, budget: Budget) -> "Ledger":
        """A new file, readable by its owner only; never over something that exists."""
        check_population(population)
        _write_new(Path(path), _empty_ledger(population, budget))
        with suppress(UsageError):  # then whoever writes first makes it
            os.close(lock_file(Path(path).resolve()))
        return cls.open(path)

    @classmethod
    @checked
    def open(cls, path: str | Path) -> "Ledger":
        """An existing ledger, verified from its first byte to its last entry."""
        contents = read_ledger(path)
        return cls(Path(path).absolute(), contents.identity, contents.population, contents.budget)

    def read(self) -> Contents:
        """All of it, verified."""
        return self._same(read_ledger(self.path))

    def reserve(self, spend: Spend, description: Mapping[str, Any]) -> int:
        """Spend, durably, before noise is drawn: the number of the new entry.

        Refused if it would be too much, if its unit (`description["unit"]`) is another than that of the
        ledger, or if the installed OpenDP can't draw the noise (`check_opendp`).
        """
        text = _description(description)
        check_opendp()
        with writing(self.path) as connection:
            contents = self._current(connection)
            refused = refusal(contents, spend, description)
            number = (
                _append(connection, contents, "reserved", None, spend, text)
                if refused is None
                else 0
            )
        if refused is not None:
            raise refused
        return number

    def check(self, spend: Spend, description: Mapping[str, Any]) -> Contents:
        """What the ledger holds now, if `reserve` would not refuse this. Charges nothing."""
        contents = self.read()
        refused = refusal(contents, spend, description)
        if refused is not None:
            raise refused
        return contents

    def check_unit(self, unit: str) -> None:
        """To be asked before anything is read; `reserve` refuses another unit too."""
        refused = refusal_of_unit(self.read(), unit)
        if refused is not None:
            raise refused

    def check_discovery(self) -> Allowance:
        """What a discovery may still take, to be asked before any text is read; refused if there can be none.

        `reserve` refuses too: others may charge the ledger meanwhile.
        """
        contents = self.read()
        left = contents.left_for_discovery()
        if not left.failure:
            raise BayesgramError(refusal_of_discovery(contents))
        return left

    def as_charged(self, number: int) -> dict[str, Any]:
        """What the card of a release says of its entry, and of the budget that all entries share."""
        told = {"population": self.population, "ledger": self.identity, "entry": number}
        return {**told, "epsilon": self.budget.epsilon, "delta": self.budget.delta}

    def complete(self, number: int) -> None:
        """Note that the release of this reservation was published. It costs nothing and gives nothing back."""
        with writing(self.path) as connection:
            contents = self._current(connection)
            entry = next((entry for entry in contents.reservations if entry.number == number), None)
            if entry is None:
                raise UsageError.for_argument(
                    "number", number, f"no reservation of {self.path} has this number."
                )
            if entry.published:
                raise UsageError.for_argument(
                    "number",
                    number,
                    f"this reservation of {self.path} is marked as published already.",
                )
            _append(connection, contents, "published", number, Spend(), "{}")

    def _current(self, connection: sqlite3.Connection) -> Contents:
        """All of it, verified, in the newest format."""
        contents = self._same(verified(connection, self.path))
        return contents if contents.format == FORMAT else _convert(connection, contents, self.path)

    def _same(self, contents: Contents) -> Contents:
        if contents.identity != self.identity:
            raise BayesgramError(
                f"{self.path}: is another ledger than it was a moment ago; find out who replaced it."
            )
        return contents


def check_population(name: str) -> None:
    """A name is 1 to 200 printable characters, with no space around it."""
    if not (1 <= len(name) <= LONGEST_NAME and name.isprintable() and name == name.strip()):
        shown = ascii(name[:LONGEST_NAME])
        raise UsageError.for_argument(
            "population",
            shown,
            f"a name has 1 to {LONGEST_NAME} printable characters and no space around it; "
            "'app users 2025' would do.",
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
    genesis = hash_of(header)
    row = {"id": 1, **header, "genesis": genesis, "last_number": 0, "last_hash": genesis}
    with closing(new_database(FORMAT)) as connection:
        insert(connection, "header", row)
        return connection.serialize()


def _write_new(path: Path, data: bytes) -> None:
    """Write a file that did not exist, whole or not at all, flushed to disk."""
    if os.path.lexists(path):
        raise UsageError(
            f"{path}: exists already, and a ledger is never replaced; choose another name."
        )
    from bayesgram.io.atomic import write_file_atomically  # noqa: PLC0415 - loads Arrow, which only a new ledger needs

    with write_file_atomically(path, option="place") as aside:
        aside.touch(mode=0o600)
        aside.write_bytes(data)


# Appending


def _convert(connection: sqlite3.Connection, contents: Contents, path: Path) -> Contents:
    """To the newest format, in the transaction of whoever charges the ledger. Every entry and its hash stay."""
    columns = ", ".join(columns_of(contents.format))
    for statement in (
        "DROP TRIGGER entries_are_not_edited",
        "DROP TRIGGER entries_are_not_removed",
        "ALTER TABLE entries RENAME TO entries_before",
        ENTRIES_OF[FORMAT],
        f"INSERT INTO entries ({columns}) SELECT {columns} FROM entries_before",  # noqa: S608 - our own names
        "DROP TABLE entries_before",
        *TRIGGERS,
        f"PRAGMA user_version = {FORMAT}",
    ):
        connection.execute(statement)
    note = {"from_format": contents.format, "to_format": FORMAT}
    _append(connection, contents, "converted", None, Spend(), canonical(note))
    converted = verified(connection, path)
    logging.getLogger(__name__).info("note: %s: %s", path, converted.note)
    return converted


def _append(
    connection: sqlite3.Connection,
    contents: Contents,
    kind: str,
    reservation: int | None,
    spend: Spend,
    text: str,
) -> int:
    number = contents.last_number + 1
    values = (
        number,
        _now(),
        kind,
        reservation,
        *map(repr, astuple(spend)),
        text,
        contents.last_hash,
    )
    row = dict(zip(ENTRY_COLUMNS, values, strict=True))
    row["hash"] = hash_of_entry(row)
    insert(connection, "entries", row)
    connection.execute("UPDATE header SET last_number = ?, last_hash = ?", (number, row["hash"]))
    return number


def _description(description: Mapping[str, Any]) -> str:
    try:
        text = canonical(dict(description))
    except (TypeError, ValueError):
        raise UsageError("description: holds something that JSON has no word for.") from None
    if len(text) > LONGEST_DESCRIPTION:
        raise UsageError(
            f"description: has {len(text):,} characters; at most {LONGEST_DESCRIPTION:,} are kept."
        )
    return text


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")
