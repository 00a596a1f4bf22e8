"""What a command that fails or is stopped has to say about budget: whether some is spent, by which entry, and for what.

In: what `release` notes as it goes on.   Out: a sentence for the end of a message.   Does not read or write a ledger.
"""

import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from bayesgram.privacy.budget import Budget


@dataclass
class Charge:
    """One release that is charged to a ledger."""

    ledger: Path
    budget: "Budget | None"
    output: Path
    before: os.stat_result | None  # of what --force is about to replace
    entry: int | None = None  # its number, once it is reserved

    def reserved(self, entry: int) -> None:
        """The budget is spent from here on."""
        self.entry = entry

    @property
    def is_published(self) -> bool:
        """Whether the release stands in its place, by what is there now: a run may fail, or be stopped, after that."""
        now = _status(self.output)
        return now is not None and (self.before is None or not os.path.samestat(now, self.before))


_begun: list[Charge] = []  # at most one, until it is done


def begin(ledger: Path, budget: "Budget | None", output: Path) -> Charge:
    """From here on budget may be spent."""
    _begun[:] = [Charge(ledger, budget, output, _status(output))]
    return _begun[0]


def done() -> None:
    """The release is out and the ledger says so: nothing is left to tell."""
    _begun.clear()


def told() -> str:
    """What to say of budget that is spent; nothing if none is."""
    return "".join(_sentence(charge) for charge in _begun if charge.entry is not None)


def told_at_once() -> str:
    """The same, for a process that is stopped at any instant: the ledger may have reserved, and not told us yet."""
    return told() or "".join(
        f"no output was written. What the ledger has reserved stays spent: {_look(charge)}" for charge in _begun
    )


def _sentence(charge: Charge) -> str:
    entry = f"entry {charge.entry} of {charge.ledger}"
    spent = "" if charge.budget is None else f" (ε = {charge.budget.epsilon:g}, δ = {charge.budget.delta:g})"
    if charge.is_published:
        return (
            f"the release is in {charge.output}, and {entry}{spent} is spent for it; only the note that it was"
            " published may be missing there."
        )
    return f"the release is lost, and {entry}{spent} stays spent: {_look(charge)}"


def _look(charge: Charge) -> str:
    return f"see `bayesgram ledger show {charge.ledger}`."


def _status(path: Path) -> os.stat_result | None:
    try:
        return path.lstat()
    except OSError:
        return None
