"""The privacy budget of one population: what may be spent, and everything that was.

A `Ledger` is one SQLite file. A release reserves its spend there before noise is drawn, and the
reservation stays spent whatever happens afterwards. Entries are only ever appended, each with the
hash of the one before; whatever is read is verified first, in full, in the same transaction
(`ledger_io`). docs/ledger.md has the rule of composition, its proof, and what a hash chain can't
notice.

A ledger does not know what a release is: it gets a `Spend` and a description.
"""

import math
import os
import secrets
import sqlite3
from collections.abc import Mapping
from contextlib import closing, suppress
from dataclasses import astuple, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NotRequired, TypedDict

from bayesgram.arguments import check_arguments
from bayesgram.errors import Argument, BayesgramError, UsageError
from bayesgram.privacy.accounting import (
    FAILURE_SHARE,
    Allowance,
    Spend,
    composed_epsilon,
    digits_up,
    fits,
    pure_mu_squared,
)
from bayesgram.privacy.budget import Budget
from bayesgram.privacy.ledger_io import (
    ENTRY_COLUMNS,
    FORMAT,
    LedgerContents,
    Reservation,
    canonical_json,
    create_database,
    hash_entry,
    hash_row,
    insert_row,
    open_lock_file,
    read_ledger,
    read_verified,
    write_transaction,
)
from bayesgram.privacy.noise import check_opendp
from bayesgram.privacy.unit import DEFAULT_UNIT, check_unit, is_same_unit
from bayesgram.version import page_pointer

MAX_NAME_LENGTH = 200  # characters of the name of a population
OTHER_TOOL = "another tool"  # what an entry of `charge` says in place of a mechanism
MAX_DESCRIPTION_LENGTH = 10_000  # characters of the JSON text of a description


class SeriesCharge(TypedDict):
    """What the card of a release says of the series that it belongs to."""

    identity: str
    release: int
    releases: int
    full_releases: int
    noise_multiplier: float  # σ of one Gaussian mechanism that costs as much as the whole series
    kind: str  # "release" or "discovery", which are numbered by themselves


class LedgerCharge(TypedDict):
    """What the card of a release says of its entry in a ledger, and of the shared budget."""

    population: str
    ledger: str
    entry: int
    epsilon: float
    delta: float
    series: NotRequired[SeriesCharge]


@dataclass(frozen=True, repr=False)
class Ledger:
    """A budget that belongs to a named population.

    Every call opens the file anew, so any number of processes and threads may use one ledger.

    Attributes:
        path: The file.
        identity: 32 random hexadecimal digits; copies of a ledger share them.
        population: The name of the people whom the budget is about.
        budget: What may be spent on them in all.
        period: A label such as "2026"; None if it has none. Nothing depends on it.

    Example:
        >>> from tempfile import TemporaryDirectory
        >>> with TemporaryDirectory() as folder:
        ...     path = Path(folder) / "app.ledger"
        ...     ledger = Ledger.create(path, population="app users", epsilon=1, delta=1e-6)
        ...     number = ledger.reserve(Spend(pure_epsilon=0.1), {"unit": "a user's week"})
        ...     print(number, ledger.read().describe_remaining())
        1 about ε = 0.837 for a Gaussian release at δ = 1e-06, or 0.16 for a pure-ε one
    """

    path: Path
    identity: str
    population: str
    budget: Budget
    period: str | None = None

    @classmethod
    @check_arguments
    def create(
        cls,
        path: str | Path,
        *,
        population: str,
        epsilon: float | None = None,
        delta: float | None = None,
        budget: Budget | None = None,
        period: str | None = None,
    ) -> "Ledger":
        """Make a new ledger file, which only its owner can read.

        Args:
            path: Where to write it; nothing may exist there.
            population: The name of the people whom the budget is about.
            epsilon: ε of everything that may be spent on them.
            delta: δ of the same; 0 allows pure-ε releases only.
            budget: Both, in place of `epsilon` and `delta`.
            period: A label such as "2026". Nothing renews when the period ends: a new period is a
                new ledger, and what both spend adds up for the same people.

        Raises:
            UsageError: If something exists at `path`, a name can't be shown, or the budget is given
                twice or not at all.
        """
        if budget is None and epsilon is not None and delta is not None:
            budget = Budget(epsilon, delta)
        elif budget is None or epsilon is not None or delta is not None:
            raise UsageError(
                "a ledger has an ε and a δ that are decided beforehand; give both, such as"
                " epsilon=1, delta=1e-6."
            )
        check_name("population", population, "app users 2025")
        if period is not None:
            check_name("period", period, "2026")
        _write_new_file(Path(path), _serialize_empty_ledger(population, budget, period))
        with suppress(UsageError):  # then whoever writes first makes the lock file
            os.close(open_lock_file(Path(path).resolve()))
        return cls.open(path)

    @classmethod
    @check_arguments
    def open(cls, path: str | Path) -> "Ledger":
        """Open an existing ledger, verified from its first byte to its last entry.

        Raises:
            UsageError: If there is no ledger at `path`, or one of another format.
            BayesgramError: If the ledger was edited or damaged.
        """
        contents = read_ledger(path)
        return cls(
            Path(path).absolute(),
            contents.identity,
            contents.population,
            contents.budget,
            contents.period,
        )

    def __repr__(self) -> str:
        budget = f"ε = {self.budget.epsilon:g}, δ = {self.budget.delta:g}"
        period = "" if self.period is None else f", {self.period}"
        return f"Ledger({self.population!r}{period}: {budget})"

    def _repr_html_(self) -> str:
        """Show the budget, what is left, and every reservation in a notebook."""
        from bayesgram.notebook import html  # noqa: PLC0415 - loads Arrow

        contents = self.read()
        facts = [
            ("Budget", f"ε = {self.budget.epsilon:g}, δ = {self.budget.delta:g}"),
            ("Spent", f"ε = {digits_up(contents.spent_epsilon())} at δ = {self.budget.delta:g}"),
            ("Left", contents.describe_remaining()),
            ("Promise", contents.promise),
        ]
        rows = [
            (
                str(entry.number),
                entry.time[:16].replace("T", " "),
                str(entry.description.get("mechanism", "–")),
                str(entry.description.get("epsilon", "–")),
                "published" if entry.published else "reserved",
                str(entry.description.get("output", "–")),
            )
            for entry in contents.reservations
        ]
        columns = ("entry", "time (UTC)", "mechanism", "ε", "state", "output")
        return html(repr(self), facts, columns, rows)

    def read(self) -> LedgerContents:
        """Return everything that the ledger holds now, verified."""
        return self._check_identity(read_ledger(self.path))

    def reserve(self, spend: Spend, description: Mapping[str, Any]) -> int:
        """Charge the budget, durably, before noise is drawn.

        Args:
            spend: What the release costs one user.
            description: What is released, as a JSON object; `description["unit"]` is its unit.

        Returns:
            The number of the new entry.

        Raises:
            BayesgramError: If it would be too much, or if the installed OpenDP can't draw the
                noise (`check_opendp`). Nothing was reserved.
            UsageError: If its unit is another than that of the ledger. Nothing was reserved.
        """
        description_text = _serialize_description(description)
        check_opendp()
        return self._reserve(spend, description, description_text)

    @check_arguments
    def charge(self, epsilon: float, delta: float, *, by: str, unit: str | None = None) -> int:
        """Record a release that another tool makes, before it is made.

        It costs its pure ε and, where δ is above 0, a failure probability δ. The latter fits only
        a ledger whose first entry may fail. A release that was made already can be recorded too;
        docs/ledger.md says when the budget covers it.

        Args:
            epsilon: ε of the release, for adding or removing one unit.
            delta: Its δ; 0 if it has none.
            by: Which release it is and which tool makes it, for people to read.
            unit: What one unit of privacy is, as in `release`; None for a user.

        Returns:
            The number of the new entry, which is marked as published.

        Raises:
            BayesgramError: If it would be too much. Nothing was recorded.
            UsageError: If a number or a text is not allowed, or the unit is another than that of
                the ledger. Nothing was recorded.
        """
        Budget(epsilon, delta)  # checks both numbers
        check_name("by", by, "dashboard, other tool")
        spend = Spend.approximate(epsilon, delta)
        description = {
            "mechanism": OTHER_TOOL,
            "epsilon": epsilon,
            "delta": delta,
            "unit": DEFAULT_UNIT if unit is None else check_unit(unit),
            "output": by,
        }
        number = self._reserve(spend, description, _serialize_description(description))
        self.complete(number)
        return number

    def _reserve(self, spend: Spend, description: Mapping[str, Any], description_text: str) -> int:
        with write_transaction(self.path) as connection:
            contents = self._read_within(connection)
            refusal = find_refusal(contents, spend, description)
            if refusal is None:
                number = _append_entry(
                    connection, contents, "reserved", None, spend, description_text
                )
        if refusal is not None:
            raise refusal
        return number

    def check(self, spend: Spend, description: Mapping[str, Any]) -> LedgerContents:
        """Return what the ledger holds now, if `reserve` would accept this. Charges nothing.

        Raises:
            BayesgramError: What `reserve` would raise.
        """
        contents = self.read()
        refusal = find_refusal(contents, spend, description)
        if refusal is not None:
            raise refusal
        return contents

    def check_unit(self, unit: str) -> None:
        """Refuse a unit that the ledger does not count in, before any text is read.

        `reserve` refuses another unit, too.
        """
        refusal = find_unit_refusal(self.read(), unit)
        if refusal is not None:
            raise refusal

    def check_discovery(self) -> Allowance:
        """Return what a discovery may still take, before any text is read.

        `reserve` checks it again: others may charge the ledger meanwhile.

        Raises:
            BayesgramError: If the ledger has no room for a discovery.
        """
        contents = self.read()
        remaining = contents.remaining_for_discovery()
        if not remaining.failure:
            raise BayesgramError(describe_discovery_refusal(contents))
        return remaining

    def charge_details(self, number: int) -> "LedgerCharge":
        """Return what the card of a release says of its entry and of the shared budget."""
        return {
            "population": self.population,
            "ledger": self.identity,
            "entry": number,
            "epsilon": self.budget.epsilon,
            "delta": self.budget.delta,
        }

    def complete(self, number: int) -> None:
        """Note that the release of a reservation was published.

        It costs nothing and gives nothing back.

        Raises:
            UsageError: If no reservation has this number, or it is published already.
        """
        with write_transaction(self.path) as connection:
            contents = self._read_within(connection)
            by_number = {entry.number: entry for entry in contents.reservations}
            reservation = by_number.get(number)
            if reservation is None:
                raise UsageError.for_argument(
                    "number", number, f"no reservation of {self.path} has this number."
                )
            if reservation.published:
                raise UsageError.for_argument(
                    "number",
                    number,
                    f"this reservation of {self.path} is marked as published already.",
                )
            _append_entry(connection, contents, "published", number, Spend(), "{}")

    def find_series(self, identity: str) -> Reservation:
        """Return the reservation of a series.

        Raises:
            UsageError: If no series of this identity was ever reserved here.
        """
        for reservation in self.read().reservations:
            if reservation.series is not None and reservation.series["identity"] == identity:
                return reservation
        raise UsageError(
            f"{self.path}: nothing was reserved here for this series; was the ledger replaced by an"
            " older copy, or did `bayesgram series create` fail? Then make a new series."
        )

    def note_token(self, number: int, *, before: str, token: str) -> None:
        """Note that the private state of a series has a new token, durably.

        Args:
            number: The number of the reservation of the series.
            before: The token that the ledger must have.
            token: The new one.

        Raises:
            BayesgramError: If the ledger has another token: somebody else went on with a copy of
                the series. Nothing was noted.
        """
        with write_transaction(self.path) as connection:
            contents = self._read_within(connection)
            current_token = contents.reservation(number).series_token
            if current_token == before:
                text = _serialize_description({"token": token})
                _append_entry(connection, contents, "published", number, Spend(), text)
        if current_token != before:
            raise BayesgramError(
                f"{self.path}: another process, or a copy of this series, has gone on with it"
                " meanwhile; nothing was released."
            )

    def note_published(self, number: int, release: int, *, discovery: bool = False) -> None:
        """Note that a release or a discovery of a series was published. It costs nothing.

        Args:
            number: The number of the reservation of the series.
            release: The number of the release, or of the discovery, in the series.
            discovery: Whether it is a discovery.
        """
        with write_transaction(self.path) as connection:
            contents = self._read_within(connection)
            reservation = contents.reservation(number)
            published = reservation.published_releases
            if discovery:
                published = reservation.published_discoveries
            if release not in published:
                name = "published_discovery" if discovery else "published"
                text = _serialize_description({name: release})
                _append_entry(connection, contents, "published", number, Spend(), text)

    def _read_within(self, connection: sqlite3.Connection) -> LedgerContents:
        return self._check_identity(read_verified(connection, self.path))

    def _check_identity(self, contents: LedgerContents) -> LedgerContents:
        if contents.identity != self.identity:
            raise BayesgramError(
                f"{self.path}: is another ledger than it was a moment ago; find out who replaced"
                " it."
            )
        return contents


def check_name(argument: str, name: str, example: str) -> None:
    """Refuse a name that is not 1 to 200 printable characters with no space around it."""
    if not (1 <= len(name) <= MAX_NAME_LENGTH and name.isprintable() and name == name.strip()):
        raise UsageError.for_argument(
            argument,
            ascii(name[:MAX_NAME_LENGTH]),
            f"a name has 1 to {MAX_NAME_LENGTH} printable characters and no space around it; "
            f"{example!r} would do.",
        )


# --- Refusals: what the ledger holds, what was asked for, and what can be done ---


def find_refusal(
    contents: LedgerContents, spend: Spend, description: Mapping[str, Any]
) -> BayesgramError | None:
    """Return why a spend can't be reserved, or None if it can.

    Args:
        contents: What the ledger holds.
        spend: What a release would cost.
        description: What would be released, with its unit if it has one.
    """
    if "unit" in description and (refusal := find_unit_refusal(contents, description["unit"])):
        return refusal
    is_allowed = fits([*contents.spends, spend], contents.budget)
    return None if is_allowed else BayesgramError(_describe_overspending(contents, spend))


def find_unit_refusal(contents: LedgerContents, unit: str) -> UsageError | None:
    """Return the refusal of a unit: (ε, δ) for one unit and for another don't add up."""
    if contents.unit is None or is_same_unit(unit, contents.unit):
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


def describe_discovery_refusal(contents: LedgerContents, failure: float | None = None) -> str:
    """Return why a discovery can't be charged, and what can be done.

    Args:
        contents: What the ledger holds.
        failure: The failure probability that was asked for, if one was.
    """
    budget = contents.budget
    first_spends = contents.spends[:1]
    if not budget.delta:
        reason = "it has δ = 0, and a discovery needs a δ. Use a ledger of δ > 0."
    elif first_spends and not first_spends[0].failure:
        reason = (
            "its first entry was no discovery, so all of its δ belongs to noise and none was set"
            " aside for the chance that a discovery publishes what only one person wrote. Go on"
            " without a discovery, or charge it to a new ledger before anything else; if that is"
            " for the same people, what both ledgers spend adds up."
        )
    elif (
        contents.spent_failure() < FAILURE_SHARE * budget.delta
        and not contents.remaining_for_discovery().failure
    ):
        reason = "nothing of it is left for noise."
    else:
        request = (
            f"this one asks for {digits_up(failure)}: give it a smaller δ."
            if failure
            else "none is left."
        )
        reason = (
            f"discoveries may fail with probability {FAILURE_SHARE * budget.delta:g} together (a"
            f" quarter of its δ), {digits_up(contents.spent_failure())} of that is spent, and"
            f" {request}"
        )
    return (
        f"the budget of population {contents.population!r} has no room for this discovery:"
        f" {reason} Nothing was reserved."
    )


def describe_charge_refusal(contents: LedgerContents, failure: float) -> str:
    """Return why the δ of another tool's release can't be charged, and what can be done.

    Args:
        contents: What the ledger holds.
        failure: δ of the release.
    """
    budget = contents.budget
    first_spends = contents.spends[:1]
    if not budget.delta:
        reason = "it has δ = 0. Use a ledger of δ > 0, or a release with δ = 0."
    elif first_spends and not first_spends[0].failure:
        reason = (
            "its first entry can't fail, so all of its δ belongs to noise and none was set aside"
            " for failures. Charge the release to a new ledger before anything else; if that is for"
            " the same people, what both ledgers spend adds up. Or charge a release with δ = 0."
        )
    else:
        reason = (
            f"failures may have probability {FAILURE_SHARE * budget.delta:g} together (a quarter of"
            f" its δ), and {digits_up(contents.spent_failure())} of that is spent. Give a smaller"
            " δ, if the release has one."
        )
    return (
        f"the budget of population {contents.population!r} has no room for a failure probability"
        f" of {digits_up(failure)} (δ of the release): {reason} Nothing was recorded."
    )


def _describe_overspending(contents: LedgerContents, spend: Spend) -> str:
    if spend.failure > contents.remaining_for_discovery().failure:
        is_discovery = spend.inverse_variance > 0
        describe = describe_discovery_refusal if is_discovery else describe_charge_refusal
        return describe(contents, spend.failure)
    budget = contents.budget
    total_epsilon = composed_epsilon([*contents.spends, spend], budget.delta)
    would_be = (
        f"it would be ε = {digits_up(total_epsilon)}"
        if total_epsilon < math.inf
        else "no ε would be enough at this δ"
    )
    return (
        f"the budget of population {contents.population!r} is ε = {budget.epsilon:g} at δ ="
        f" {budget.delta:g}; ε = {digits_up(contents.spent_epsilon())} of it is spent, and with"
        f" this release {would_be}. Left: {contents.describe_remaining()}. Nothing was reserved."
        f"{_explain_failure_share(contents, spend)}{_explain_pure_cost(contents, spend)}"
    )


def _explain_failure_share(contents: LedgerContents, spend: Spend) -> str:
    """Why noise has less room in a ledger with discoveries."""
    budget = contents.budget
    if not (budget.delta and contents.allowance(spend).failure):
        return ""
    return (
        " As its first entry may fail, a quarter of δ is set aside for failures, and noise"
        f" has δ = {(1 - FAILURE_SHARE) * budget.delta:g}"
        f" ({page_pointer('ledger')})."
    )


def _explain_pure_cost(contents: LedgerContents, spend: Spend) -> str:
    """Why a Laplace release takes more of a ledger than its ε says."""
    if not (spend.pure_epsilon and contents.budget.delta):
        return ""
    mu = math.sqrt(pure_mu_squared(spend.pure_epsilon))
    budget_mu = math.sqrt(contents.allowance(spend).mu_squared)
    return (
        " A ledger of δ > 0 charges a pure-ε release as Gaussian DP: ε ="
        f" {spend.pure_epsilon:g} costs μ = {mu:.3g}, and the whole budget is μ = {budget_mu:.3g}."
        " posterior and gaussian cost what their ε says; a ledger of δ = 0 adds up ε"
        f" ({page_pointer('ledger')})."
    )


# --- Writing ---


def _serialize_empty_ledger(population: str, budget: Budget, period: str | None) -> bytes:
    header = {
        "format": FORMAT,
        "identity": secrets.token_hex(16),
        "population": population,
        "epsilon": repr(float(budget.epsilon)),
        "delta": repr(float(budget.delta)),
        "period": period,
        "created": _now(),
    }
    genesis = hash_row(header)
    row = {"id": 1, **header, "genesis": genesis, "last_number": 0, "last_hash": genesis}
    with closing(create_database()) as connection:
        insert_row(connection, "header", row)
        return connection.serialize()


def _write_new_file(path: Path, data: bytes) -> None:
    """Write a file that did not exist, completely or not at all, flushed to disk."""
    if os.path.lexists(path):
        raise UsageError(
            f"{path}: exists already, and a ledger is never replaced; choose another name."
        )
    from bayesgram.io.atomic import write_file_atomically  # noqa: PLC0415 - loads Arrow, which only a new ledger needs

    with write_file_atomically(path, parameter="place") as temporary:
        temporary.touch(mode=0o600)
        temporary.write_bytes(data)


def _append_entry(
    connection: sqlite3.Connection,
    contents: LedgerContents,
    kind: str,
    reservation: int | None,
    spend: Spend,
    description: str,
) -> int:
    """Append an entry after the last one, and return its number."""
    number = contents.last_number + 1
    values = (
        number,
        _now(),
        kind,
        reservation,
        *map(repr, astuple(spend)),
        description,
        contents.last_hash,
    )
    entry = dict(zip(ENTRY_COLUMNS, values, strict=True))
    entry["hash"] = hash_entry(entry)
    insert_row(connection, "entries", entry)
    connection.execute("UPDATE header SET last_number = ?, last_hash = ?", (number, entry["hash"]))
    return number


def _serialize_description(description: Mapping[str, Any]) -> str:
    try:
        text = canonical_json(dict(description))
    except (TypeError, ValueError):
        raise UsageError("description: holds something that JSON has no word for.") from None
    if len(text) > MAX_DESCRIPTION_LENGTH:
        raise UsageError(
            f"description: has {len(text):,} characters; at most {MAX_DESCRIPTION_LENGTH:,} are"
            " kept."
        )
    return text


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")
