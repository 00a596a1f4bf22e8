"""The columns that are read: which they are, which types they may have, and their bytes.

In:  column names and Arrow arrays of many types.   Out: large binary arrays.
Does not look at single values: `records` finds the rows that can't be used.

Batches of records, and the rows that can't become one.

In:  `Chunk`, what a format reader parsed.   Out: `Records`, clean and of bounded size.
Formal guarantee: whether a row is kept, and the bytes it gives, depend on that row alone.
Does not parse anything: the readers of the formats do.
"""

import logging
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias, cast

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from bayesgram.arrays import Ids
from bayesgram.errors import Argument, BayesgramError, UsageError
from bayesgram.io.segments import NOT_LISTED, Segments

_NAME = re.compile("[A-Za-z_][A-Za-z0-9_]{0,31}")
# Words that name columns; whoever wrote just these shows nothing of themselves.
_WORD = (
    "account|at|author|body|channel|client|comment|content|count|country|created|customer|date|day|"
    "from|group|id|index|key|label|lang|language|line|member|message|messages|msg|name|number|"
    "person|post|posts|region|row|segment|sender|source|subject|text|texts|thread|time|timestamp|"
    "title|to|topic|tweet|type|uid|user|userid|username|users|value|writer"
)
_USUAL = re.compile(rf"({_WORD})([ _.-]({_WORD}))*")
_NAMES_SHOWN = 20

# Columns that say who wrote a row, in lower case, with _ between words; docs/files.md lists them.
USER_COLUMNS = frozenset(
    (
        *("account", "account_id", "author", "author_id", "client_id", "customer", "customer_id"),
        *("device_id", "email", "handle", "member", "member_id", "nickname", "person_id"),
        *("profile_id", "screen_name", "sender", "sender_id", "uid", "user", "user_id"),
        *("user_name", "userid", "username", "writer"),
    )
)

logger = logging.getLogger(__name__)

FoundIn: TypeAlias = Literal["schema", "keys", "header"]


@dataclass(frozen=True)
class Columns:
    """The names of the text column and, for private records, of the user column and of the one with segments."""

    text: str
    user: str | None
    by: str | None = None
    warn_about_users: bool = False  # of public text: about a column that looks like user ids
    _warned_of: set[str] = field(default_factory=set, compare=False, repr=False)

    def __post_init__(self) -> None:
        if self.text == self.user:
            raise UsageError(
                Argument("text_column", repr(self.text)),
                " and ",
                Argument("user_column", repr(self.user)),
                ": they must be two columns. Change ",
                Argument("text_column"),
                " or ",
                Argument("user_column"),
                ".",
            )
        if self.by is not None and self.by in (self.text, self.user):
            raise UsageError.for_argument(
                "by",
                repr(self.by),
                f"is the {('text' if self.by == self.text else 'user')} column too; segments "
                "need a column of their own. Change ",
                Argument("by"),
                ".",
            )

    @property
    def names(self) -> list[str]:
        """The names of the columns to read."""
        return [name for name in (self.text, self.user, self.by) if name is not None]

    def check_present(
        self, source: str, present: Sequence[str], *, found_in: FoundIn = "schema"
    ) -> None:
        """Refuse a table without one of the columns, or with two of a name.

        The message lists the columns. Those of private data that stand in a header row are listed only if they are
        words that name columns, or one of them is as it should be: a file without a header row would show what a
        person wrote. Keys of JSON are listed if they look like names.
        """
        is_public = (
            self.user is None or found_in == "schema" or any(name in present for name in self.names)
        )
        listed = is_public or all(
            map(_is_usual if found_in == "header" else _NAME.fullmatch, present)
        )
        for name in self.names:
            if name not in present:
                advice = self._advice(name) if listed else self._hidden_advice(name, found_in)
                raise UsageError(f"{source}: no column {name!r}{_those(present, listed)} ", *advice)
            if list(present).count(name) > 1:
                raise UsageError(
                    f"{source}: {list(present).count(name)} columns are called {name!r}. Rename all but one."
                )
        self.warn_about(source, present)

    def warn_about(self, source: str, present: Sequence[str]) -> None:
        """Say that a public table has a column that looks like user ids; once for each name."""
        for name in present if self.warn_about_users else ():
            if name in self.names or name in self._warned_of or not looks_like_users(name):
                continue
            self._warned_of.add(name)
            logger.warning(
                "warning: %s: the column %r looks like user ids. If these rows are private text, no"
                " release with this vocabulary is private.",
                *(source, name),
            )

    def check_types(self, source: str, schema: pa.Schema) -> None:
        """Refuse text that is not text, and user ids that are neither text nor whole numbers."""
        self.check_present(source, schema.names)
        text = schema.field(self.text).type
        if not _is_text(text):
            raise UsageError(
                f"{source}: the text column {self.text!r} holds {text}; it must hold text. ",
                *self._advice(self.text),
            )
        for name, what, values in ((self.user, "user", "ids"), (self.by, "segment", "segments")):
            if name is None:
                continue
            kind = schema.field(name).type
            if not (_is_text(kind) or pt.is_integer(_value_type(kind))):
                raise UsageError(
                    f"{source}: the {what} column {name!r} holds {kind}; {values} must be text or whole numbers. "
                    "Cast the column to string or int64 first, or ",
                    *self._advice(name, verb="name"),
                )

    def _advice(self, name: str, *, verb: str = "Name") -> list[str | Argument]:
        parameters = {self.text: "text_column", self.user: "user_column", self.by: "by"}
        return [f"{verb} the right one with ", Argument(parameters[name]), "."]

    def _hidden_advice(self, name: str, found_in: FoundIn) -> list[str | Argument]:
        """For whoever has to look at the file."""
        advice = self._advice(name)
        if found_in != "header":
            return advice
        names = ",".join(self.names[::-1])
        spelling = (
            ", as the first row spells it; if the first row names no columns, put one before it"
            f" that does: {names}."
        )
        return [*advice[:-1], spelling]


def _is_usual(name: str) -> bool:
    """Whether a name is made of words that name columns.

    >>> _is_usual("User ID"), _is_usual("body_text"), _is_usual("alice")
    (True, True, False)
    """
    return _USUAL.fullmatch(name.strip().lower()) is not None


def looks_like_users(name: str) -> bool:
    """Whether a column's name says that it holds user ids.

    >>> looks_like_users("User ID"), looks_like_users("author"), looks_like_users("users_online")
    (True, True, False)
    """
    return re.sub("[ .-]+", "_", name.strip().lower()) in USER_COLUMNS


def as_bytes(array: "pa.Array[Any]") -> pa.LargeBinaryArray:
    """The values as bytes; a whole number becomes its decimal digits, so 7 and "7" are the same user.

    >>> as_bytes(pa.array([7, None])).to_pylist()
    [b'7', None]
    """
    if isinstance(array, pa.DictionaryArray):
        return as_bytes(array.dictionary).take(array.indices)
    if pt.is_integer(array.type):
        array = array.cast(pa.string())
    return cast("pa.LargeBinaryArray", array.cast(pa.large_binary()))


def _those(present: Sequence[str], listed: bool) -> str:
    if not listed:
        return " (what stands for names is not shown: it may be a person's text)."
    shown = ", ".join(repr(name) for name in present[:_NAMES_SHOWN])
    more = f" and {len(present) - _NAMES_SHOWN} more" if len(present) > _NAMES_SHOWN else ""
    return f"; the columns are {shown}{more}." if present else "; there are no columns."


def _value_type(type_: pa.DataType) -> pa.DataType:
    return type_.value_type if isinstance(type_, pa.DictionaryType) else type_


def _is_text(type_: pa.DataType) -> bool:
    kinds = (
        pt.is_string,
        pt.is_large_string,
        pt.is_string_view,
        pt.is_binary,
        pt.is_large_binary,
        pt.is_binary_view,
        pt.is_null,
    )
    return any(is_kind(_value_type(type_)) for is_kind in kinds)


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
        faults = (
            dict.fromkeys(np.flatnonzero(segment == NOT_LISTED).tolist(), segments.fault) | faults
        )
    bad = sorted([*chunk.bad, *((chunk.rows[index], reason) for index, reason in faults.items())])
    if bad and not skip:
        row, reason = bad[0]
        raise BayesgramError(
            f"{source}: row {row}: ",
            *([reason] if segments is None or reason != segments.fault else segments.fault_parts),
            ". Mend the row, or count and skip such rows with ",
            Argument("skip_bad_rows", "True"),
            ".",
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
