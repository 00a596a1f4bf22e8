"""Batches of records, and the rows that can't become one.

In:  `Chunk`, what a format reader parsed.   Out: `Records`, clean and of bounded size.
Formal guarantee: whether a row is kept, and the bytes it gives, depend on that row alone.
Does not parse anything: the readers of the formats do.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias, cast

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from bayesgram.arrays import Ids
from bayesgram.errors import BayesgramError
from bayesgram.files.segments import NOT_LISTED, Segments

BATCH_ROWS = 65_536
BATCH_BYTES = 1 << 22

NO_USER = "no user id"
TEXT_NOT_UTF8 = "the text is not valid UTF-8"
USER_NOT_UTF8 = "the user id is not valid UTF-8"

BadRow: TypeAlias = tuple[int, str]
"""A row number from 1, and the reason why the row can't be used."""


@dataclass(frozen=True)
class Records:
    """Texts and, for private records, their users. Arrays may be slices: honour their offset."""

    text: pa.LargeBinaryArray  # valid UTF-8, no nulls
    user: pa.LargeBinaryArray | None  # as long as text; valid UTF-8, no nulls, none empty
    source: str
    first_row: int  # the row number, from 1, of the first record in its source
    segment: Ids | None = None  # the number of each row's segment, where there are any

    def __len__(self) -> int:
        return len(self.text)


@dataclass
class BadRows:
    """How many rows were skipped, and why. Exact counts of private data: show them to its keeper only."""

    by_reason: dict[str, int] = field(default_factory=dict)

    @property
    def total(self) -> int:
        """All skipped rows."""
        return sum(self.by_reason.values())

    def add(self, reason: str) -> None:
        """Count one row."""
        self.by_reason[reason] = self.by_reason.get(reason, 0) + 1


@dataclass(frozen=True)
class Chunk:
    """What a format reader hands over: arrays that may hold nulls and bytes that are not UTF-8."""

    text: pa.LargeBinaryArray
    user: pa.LargeBinaryArray | None
    rows: Sequence[int]  # the row number of each entry
    position: int = 0  # bytes of the source read so far
    bad: Sequence[BadRow] = ()  # rows that did not parse, and so are not in the arrays
    by: pa.LargeBinaryArray | None = None  # what says which segment a row is in


def clean(
    chunk: Chunk, source: str, bad_rows: BadRows, *, skip: bool, segments: Segments | None = None
) -> Iterator[Records]:
    """Drop and count the bad rows of a chunk, or refuse the first of them; yield the rest."""
    text = _without_nulls(chunk.text)
    user = None if chunk.user is None else _without_nulls(chunk.user)
    segment = None if segments is None or chunk.by is None else segments.codes(chunk.by)
    faults = _faults(text, user)
    if segments is not None and segment is not None:
        faults = dict.fromkeys(np.flatnonzero(segment == NOT_LISTED).tolist(), segments.fault) | faults
    bad = sorted([*chunk.bad, *((chunk.rows[index], reason) for index, reason in faults.items())])
    if bad and not skip:
        row, reason = bad[0]
        raise BayesgramError(
            f"{source}: row {row}: {reason}. Mend the row, or count and skip such rows with skip_bad_rows=True."
        )
    for _, reason in bad:
        bad_rows.add(reason)
    rows = chunk.rows
    if faults:
        kept = np.delete(np.arange(len(text)), list(faults)).tolist()
        places = pa.array(kept, pa.int64())
        text, user = text.take(places), None if user is None else user.take(places)
        segment = None if segment is None else segment[kept]
        rows = [rows[index] for index in kept]
    for start, stop in _cuts(text):
        users, codes = (None if each is None else each[start:stop] for each in (user, segment))
        yield Records(text[start:stop], users, source, rows[start], codes)


def _faults(text: pa.LargeBinaryArray, user: pa.LargeBinaryArray | None) -> dict[int, str]:
    """The entries that can't be used, each with one reason."""
    found = dict.fromkeys(_not_utf8(text), TEXT_NOT_UTF8)
    if user is not None:
        empty = np.flatnonzero(_lengths(user) == 0)
        found |= dict.fromkeys(_not_utf8(user), USER_NOT_UTF8)
        found |= dict.fromkeys(empty.tolist(), NO_USER)
    return found


def _without_nulls(array: pa.LargeBinaryArray) -> pa.LargeBinaryArray:
    return cast("pa.LargeBinaryArray", array.fill_null(b""))


def _lengths(array: pa.LargeBinaryArray) -> npt.NDArray[np.int64]:
    lengths: npt.NDArray[np.int64] = pc.binary_length(array).to_numpy(zero_copy_only=False)
    return lengths


def _not_utf8(array: pa.LargeBinaryArray, first: int = 0) -> list[int]:
    """Check a whole array at once; halve it, and halve it again, only to find the entries at fault."""
    if _is_utf8(array):
        return []
    if len(array) == 1:
        return [first]
    half = len(array) // 2
    return _not_utf8(array[:half], first) + _not_utf8(array[half:], first + half)


def _is_utf8(array: pa.LargeBinaryArray) -> bool:
    try:
        array.view(pa.large_string()).validate(full=True)
    except pa.ArrowInvalid:
        return False
    return True


def _cuts(text: pa.LargeBinaryArray) -> Iterator[tuple[int, int]]:
    """Where to cut so that no batch is too large; a single text above the limit is a batch of its own."""
    ends = np.cumsum(_lengths(text))
    start = 0
    while start < len(text):
        before = ends[start - 1] if start else 0
        stop = int(np.searchsorted(ends, before + BATCH_BYTES, side="right"))
        stop = max(start + 1, min(stop, start + BATCH_ROWS))
        yield start, stop
        start = stop
