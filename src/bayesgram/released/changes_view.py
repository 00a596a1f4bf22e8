"""What changed between releases, as pages tell it: the report and the page of `serve`.

In:  a `Comparison`.   Out: strings that print, and rows for two tables. Does not compare.
"""

from dataclasses import dataclass

from bayesgram.released.comparison import Change, Comparison

MOST_CHANGED = 15


@dataclass(frozen=True, eq=False)
class ChangesView:
    """What changed between the releases of a page, as it tells it."""

    found: Comparison

    @property
    def over(self) -> str:
        """Between which."""
        first, last = (printable(self.found.names[at]) for at in (0, -1))
        return f"from {first} to {last}" if len(self.found.names) == 2 else f"over {len(self.found.names)} releases"

    @property
    def tables(self) -> dict[str, list[tuple[Change, str, str]]]:
        """What rose and what fell, the surest first: the change, the n-gram, and between which releases."""
        made: dict[str, list[tuple[Change, str, str]]] = {"Rose": [], "Fell": []}
        for change in self.found.changes:
            made["Rose" if change.z >= 0 else "Fell"].append(self._row(change))
        return {name: rows[:MOST_CHANGED] for name, rows in made.items()}

    @property
    def notes(self) -> list[str]:
        """What must be said of the releases."""
        return [printable(note) for note in self.found.notes]

    def _row(self, change: Change) -> tuple[Change, str, str]:
        names = (printable(self.found.names[at]) for at in (change.first, change.second))
        return change, printable(change.ngram), " → ".join(names)


def printable(text: str) -> str:
    """Characters that do not print, such as those that turn the direction of text, become �.

    >>> printable("a" + chr(0x202E) + "b")
    'a�b'
    """
    return "".join(c if c.isprintable() else "�" for c in text)
