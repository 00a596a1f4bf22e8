"""What a ledger file holds at one moment, verified from its first byte to its last entry.

In:  a ledger file.   Out: `Contents`: the budget, every reservation, and what is left of it.   Changes nothing.
"""

import json
import sqlite3
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bayesgram.errors import BayesgramError
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
from bayesgram.privacy.ledger_file import connected, damaged
from bayesgram.privacy.ledger_tables import (
    APPLICATION,
    FORMAT,
    GENESIS_COLUMNS,
    SPEND_COLUMNS,
    check_chain,
    check_format,
    entries_of,
    hash_of,
    rows_of,
)
from bayesgram.privacy.unit import THESE_DATA, promise

WHAT_WAS_OTHER = {  # in older formats
    1: "whose rule did not cover releases chosen after seeing earlier ones",
    2: "which has no place for the failure probability of a discovery",
}


@dataclass(frozen=True)
class Entry:
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
class Contents:
    """A whole ledger at one moment, verified."""

    identity: str
    population: str
    budget: Budget
    created: str
    format: int
    made_with: int  # the format it had at first
    converted: int | None  # the entry that notes its first conversion, for a ledger of an older format
    reservations: tuple[Entry, ...]
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
        return promise(self.unit or THESE_DATA, budget.epsilon, budget.delta, subject)

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
        return (
            f"about ε = {gaussian:g} for a Gaussian release at δ = {self.budget.delta:g}, or {pure:g} for a pure-ε one"
        )


def read_ledger(path: str | Path) -> Contents:
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


def verified(connection: sqlite3.Connection, path: Path) -> Contents:
    """Everything, if every hash is right."""
    version = check_format(connection, path)
    columns = (*GENESIS_COLUMNS, "genesis", "last_number", "last_hash")
    headers = rows_of(connection, "header", columns)
    if len(headers) != 1:
        raise damaged(path, "its header is missing")
    header = headers[0]
    if header["genesis"] != hash_of({name: header[name] for name in GENESIS_COLUMNS}):
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
    return Contents(
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


def _reservations(rows: list[dict[str, Any]]) -> tuple[Entry, ...]:
    published = {row["reservation"] for row in rows if row["kind"] == "published"}
    return tuple(
        Entry(
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
