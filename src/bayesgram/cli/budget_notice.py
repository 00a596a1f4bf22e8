"""What a command that fails or is stopped says about privacy budget.

Once a ledger has reserved budget for a release, the budget stays spent, whether the release comes
out or not. `release` and `discover` open a notice before they reserve, and close it when the
release is out. If the command ends in between, `app` adds the notice to its message. This module
neither reads nor writes a ledger.
"""

import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

if TYPE_CHECKING:
    from bayesgram.privacy.budget import Budget


@dataclass
class BudgetNotice:
    """One release that is charged to a ledger."""

    current: ClassVar["BudgetNotice | None"] = None  # of the command that is running

    ledger: Path
    budget: "Budget | None"
    output: Path
    output_before: os.stat_result | None  # of what --force is about to replace
    entry: int | None = None  # its number in the ledger, once budget is reserved

    @classmethod
    def open(cls, ledger: Path, budget: "Budget | None", output: Path) -> "BudgetNotice":
        """Expect that budget is reserved from here on.

        Args:
            ledger: The file of the ledger that is charged.
            budget: What the command may spend.
            output: Where the result goes.
        """
        cls.current = cls(ledger, budget, output, _status(output))
        return cls.current

    @classmethod
    def open_series(cls, series: Path, output: Path, kind: str = "release") -> "BudgetNotice":
        """Expect that users of a series are charged from here on.

        Args:
            series: The folder of the series.
            output: Where the result goes.
            kind: "release" or "discovery".
        """
        cls.current = SeriesNotice(series, None, output, _status(output), kind=kind)
        return cls.current

    @classmethod
    def close(cls) -> None:
        """Forget the notice: the release is out, and the ledger says so."""
        cls.current = None

    def set_entry(self, entry: int) -> None:
        """Note that the ledger has reserved budget, as this entry."""
        self.entry = entry

    @property
    def is_published(self) -> bool:
        """Whether the release stands in its place: a run may fail, or be stopped, after that."""
        now = _status(self.output)
        if now is None:
            return False
        return self.output_before is None or not os.path.samestat(now, self.output_before)

    @property
    def sentence(self) -> str:
        """What became of the budget; empty if none is reserved yet."""
        if self.entry is None:
            return ""
        entry = f"entry {self.entry} of {self.ledger}"
        if self.budget is not None:
            entry += f" (ε = {self.budget.epsilon:g}, δ = {self.budget.delta:g})"
        if self.is_published:
            return (
                f"the release is in {self.output}, and {entry} is spent for it; only the note that"
                " it was published may be missing there."
            )
        return f"the release is lost, and {entry} stays spent: {self._next_step}"

    @property
    def sentence_if_stopped(self) -> str:
        """The same for a process that is stopped by a signal.

        The ledger may have reserved budget, and `set_entry` was not called yet.
        """
        return self.sentence or (
            "no output was written. What the ledger has reserved stays spent: " + self._next_step
        )

    @property
    def _next_step(self) -> str:
        return f"see `bayesgram ledger show {self.ledger}`."


@dataclass
class SeriesNotice(BudgetNotice):
    """The same for a release of a series: `ledger` is its folder, `entry` the release's number."""

    kind: str = "release"  # or "discovery"

    @property
    def sentence(self) -> str:
        """What became of the release; empty if nobody is charged yet."""
        if self.entry is None:
            return ""
        if self.is_published:
            option = " --discovery" if self.kind == "discovery" else ""
            return (
                f"the {self.kind} is in {self.output}, as {self.kind} {self.entry} of"
                f" {self.ledger}; only the note that it was published may be missing: `bayesgram"
                f" series publish {self.ledger} {self.entry}{option}` writes it."
            )
        if self.kind == "discovery":
            return (
                "the discovery was not saved, and what its users were charged stays charged. If its"
                f" noise was drawn, the next discovery of the series has what it found:"
                f" {self._next_step}"
            )
        return (
            f"the release is lost, and what its users were charged stays charged: {self._next_step}"
        )

    @property
    def sentence_if_stopped(self) -> str:
        """The same for a process that is stopped by a signal."""
        return self.sentence or (
            f"no output was written. What users were charged stays charged: {self._next_step}"
        )

    @property
    def _next_step(self) -> str:
        return f"see `bayesgram series show {self.ledger}`."


def _status(path: Path) -> os.stat_result | None:
    try:
        return path.lstat()
    except OSError:
        return None
