"""The segments that people are counted by: values that a column may have, listed in public.

`Segments` is the name of a column and a list of its values, which come from whoever runs the
command, never from private rows. It gives the number of each row's segment. A value outside the
list is in the segment "other" where that was asked for, or makes a bad row. No message shows a
value that is not on the list.
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
from bayesgram.errors import Argument, UsageError, unreadable_error

# Folders of a release by segment that are not named by a value of the column.
ALL = "all"
OTHER = "other"

MOST = 200  # segments
LONGEST = 100  # bytes of a name, which is that of a folder
FORBIDDEN = frozenset('/\\:*?"<>|')  # characters that the name of a folder can't have
SHOWN = 10  # names in a message
NOT_LISTED = -1  # the number of the segment of a value that is not on the list


@dataclass(frozen=True)
class Segments:
    """A column and the values that it may have; all of it public."""

    by: str  # the name of the column
    names: tuple[str, ...]  # its values
    other: bool = False  # whether rows with another value are counted, as one more segment

    def __post_init__(self) -> None:
        _check_names(self.names)

    @classmethod
    def from_names(cls, by: str, names: Sequence[str], *, other: bool = False) -> "Segments":
        """Return the segments of a list; one string is refused."""
        if isinstance(names, str):
            raise UsageError.for_argument(
                "segments", repr(names), "give a list of names, such as ['de', 'fr']."
            )
        return cls(by, tuple(names), other)

    @property
    def all_names(self) -> tuple[str, ...]:
        """The names of all segments, in the order of their numbers."""
        return (*self.names, OTHER) if self.other else self.names

    def __len__(self) -> int:
        return len(self.all_names)

    def codes(self, values: pa.LargeBinaryArray) -> Ids:
        """Return the number of each value's segment; NOT_LISTED where it has none."""
        listed = pa.array([name.encode() for name in self.names], pa.large_binary())
        default = len(self.names) if self.other else NOT_LISTED
        codes: Ids = pc.index_in(values, listed).fill_null(default).to_numpy().astype(np.int32)
        return codes

    @property
    def bad_row_reason(self) -> str:
        """Why a row has no segment; the value itself is not shown."""
        return "".join(map(str, self.bad_row_reason_parts))

    @property
    def bad_row_reason_parts(self) -> tuple[str | Argument, ...]:
        """The same, as parts of an error."""
        listed = format_names(self.names)
        return (
            f"{self.by!r} is none of the segments ({listed}), and ",
            Argument("other"),
            " is not set",
        )

    def to_json(self) -> dict[str, object]:
        """Return plain values, for meta.json and cards."""
        return {"by": self.by, "names": list(self.names), "other": self.other}


def format_names(names: Sequence[str]) -> str:
    """Return the first names, and how many more there are."""
    more = f" and {len(names) - SHOWN} more" if len(names) > SHOWN else ""
    return ", ".join(names[:SHOWN]) + more


def parse_names(text: str) -> list[str]:
    """Return the names in a list with commas, or in a file with one on each line.

    What looks like a path and is none is refused, not taken for a segment: nobody would be in it.
    """
    file = Path(text)
    is_file = "," not in text and file.exists() and not file.is_dir()
    if not is_file and "," not in text and _looks_like_file(text):
        raise UsageError.for_argument(
            "segments",
            text,
            f"{'is a folder' if file.is_dir() else 'no such file'}. Name a file with one segment on"
            " each line, or the segments with commas between them; one alone has a comma after it.",
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
        raise unreadable_error(file, error) from None
    return [line.strip() for line in lines if line.strip()]


def _looks_like_file(text: str) -> bool:
    """Return whether a text has a slash, or an ending as files have.

    >>> [_looks_like_file(text) for text in ("contries.txt", "lists/de", "St. Gallen")]
    [True, True, False]
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
            meaning = "all people" if folded == ALL else "values outside the list"
            raise UsageError(
                f"segments: {name!r} is kept for {meaning}; leave it out",
                *(() if folded == ALL else (", and say ", Argument("other", "True"))),
                ", or rename the value.",
            )
        if folded in seen:
            where = f"beside {seen[folded]!r}, which differs by case alone"
            if seen[folded] == name:
                where = "twice"
            raise UsageError(f"segments: {name!r} is there {where}; name each segment once.")
        seen[folded] = name


def _check_folder(name: str) -> None:
    """Refuse a name that can't be the name of a folder."""
    is_plain = name.isprintable() and not FORBIDDEN & set(name) and name.strip(" .") == name
    if not is_plain or len(name.encode("utf-8", "replace")) > LONGEST:
        raise UsageError(
            f"segments: {name!r} can't be the name of a folder; use up to {LONGEST} printable"
            f" characters without {' '.join(sorted(FORBIDDEN))}, not beginning or ending with a"
            " space or a dot."
        )
