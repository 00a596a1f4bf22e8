"""Which segments people are counted by: the values that a column may have, named in public.

In:  the name of a column and a list of its values, from whoever runs the command, never from private rows.
Out: the number of each row's segment. A value outside the list is "other" where that was asked for, or a bad row.
Does not read rows, and never shows a value that is not on the list.
"""

import os
import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from bayesgram.arrays import Ids
from bayesgram.errors import Argument, UsageError, unreadable

ALL, OTHER = "all", "other"  # folders of a release that are nobody's segment
MOST = 200
LONGEST = 100  # bytes of a name, which is that of a folder
FORBIDDEN = frozenset('/\\:*?"<>|')
SHOWN = 10
NOT_LISTED = -1


@dataclass(frozen=True)
class Segments:
    """A column and the values that it may have; all of it public."""

    by: str
    names: tuple[str, ...]
    other: bool = False  # whether rows with another value are counted, as one more segment

    def __post_init__(self) -> None:
        _check_names(self.names)

    @classmethod
    def from_names(cls, by: str, names: Sequence[str], *, other: bool = False) -> "Segments":
        """Of a list, which is not one text."""
        if isinstance(names, str):
            raise UsageError.for_argument(
                "segments", repr(names), "give a list of names, such as ['de', 'fr']."
            )
        return cls(by, tuple(names), other)

    @property
    def all_names(self) -> tuple[str, ...]:
        """Of every segment, in the order of their numbers."""
        return (*self.names, OTHER) if self.other else self.names

    def __len__(self) -> int:
        return len(self.all_names)

    def codes(self, values: pa.LargeBinaryArray) -> Ids:
        """The number of each value's segment; NOT_LISTED where it has none."""
        listed = pa.array([name.encode() for name in self.names], pa.large_binary())
        elsewhere = len(self.names) if self.other else NOT_LISTED
        codes: Ids = pc.index_in(values, listed).fill_null(elsewhere).to_numpy().astype(np.int32)
        return codes

    @property
    def fault(self) -> str:
        """Why a row has no segment; the value itself is not shown."""
        return "".join(map(str, self.fault_parts))

    @property
    def fault_parts(self) -> tuple[str | Argument, ...]:
        """The same as parts of an error."""
        listed = format_names(self.names)
        return (
            f"{self.by!r} is none of the segments ({listed}), and ",
            Argument("other"),
            " is not set",
        )

    def to_json(self) -> dict[str, object]:
        """Plain values, for meta.json and cards."""
        return {"by": self.by, "names": list(self.names), "other": self.other}


def format_names(names: Sequence[str]) -> str:
    """The first names, and how many more there are."""
    more = f" and {len(names) - SHOWN} more" if len(names) > SHOWN else ""
    return ", ".join(names[:SHOWN]) + more


def parse_names(text: str) -> list[str]:
    """The names in a list with commas, or in a file with one on each line.

    What looks like a path and is none is not taken for a segment: nobody would be in it.
    """
    file = Path(text)
    is_file = "," not in text and file.exists() and not file.is_dir()
    if not is_file and "," not in text and _looks_like_file(text):
        raise UsageError.for_argument(
            "segments",
            text,
            f"{('is a folder' if file.is_dir() else 'no such file')}. Name a file with "
            "one segment on each line, or the segments with commas between them; one alone "
            "has a comma after it.",
        )
    if not is_file:
        return [name.strip() for name in text.removesuffix(",").split(",")]
    try:
        lines = file.read_text(encoding="utf-8-sig").splitlines()
    except UnicodeDecodeError:
        raise UsageError(
            f"{text}: not a text file in UTF-8; write one segment on each line."
        ) from None
    except OSError as error:
        raise unreadable(file, error) from None
    return [line.strip() for line in lines if line.strip()]


def _looks_like_file(text: str) -> bool:
    """Whether it has a slash, or an ending as files have.

    >>> _looks_like_file("contries.txt"), _looks_like_file("lists/de"), _looks_like_file("St. Gallen")
    (True, True, False)
    """
    return (
        bool({"/", os.sep} & set(text))
        or re.fullmatch(r"\.[A-Za-z][A-Za-z0-9]{1,7}", Path(text).suffix) is not None
    )


def _check_names(names: Sequence[str]) -> None:
    """Refuse names that no row can have, and those that can't be folders side by side."""
    if not 1 <= len(names) <= MOST:
        raise UsageError(
            f"segments: {len(names)} names; give 1 to {MOST}. The rest can be one segment: say ",
            Argument("other", "True"),
            ".",
        )
    seen: dict[str, str] = {}
    for name in names:
        if not str(name).strip():
            raise UsageError(
                f"segments: {name!r} is no name; each segment is a value of the column, such as de."
            )
        _check_folder(name)
        folded = unicodedata.normalize("NFC", name).casefold()
        if folded in (ALL, OTHER):
            raise UsageError(
                f"segments: {name!r} is kept for {'all people' if folded == ALL else 'values outside the list'};"
                " leave it out",
                *(() if folded == ALL else (", and say ", Argument("other", "True"))),
                ", or rename the value.",
            )
        if folded in seen:
            same = (
                "twice"
                if seen[folded] == name
                else f"beside {seen[folded]!r}, which differs by case alone"
            )
            raise UsageError(f"segments: {name!r} is there {same}; name each segment once.")
        seen[folded] = name


def _check_folder(name: str) -> None:
    plain = name.isprintable() and not FORBIDDEN & set(name) and name.strip(" .") == name
    if not plain or len(name.encode("utf-8", "replace")) > LONGEST:
        raise UsageError(
            f"segments: {name!r} can't be the name of a folder; use up to {LONGEST} printable characters without"
            f" {' '.join(sorted(FORBIDDEN))}, not beginning or ending with a space or a dot."
        )
