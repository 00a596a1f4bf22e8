"""Records: texts, who wrote them, and the rows that can't become one.

`Columns` says which columns are read and which types they may have. A format reader parses a file
into `Chunk`s, and `clean` makes batches of `Records` of them: large binary arrays of bounded size,
without the rows that can't be used. Nothing is parsed here.

Formal guarantee: whether a row is kept, and the bytes it gives, depend on that row alone.
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

_NAME = re.compile("[A-Za-z_][A-Za-z0-9_]{0,31}")  # a key of JSON that looks like a name
# Words that name columns; whoever wrote just these shows nothing of themselves.
_WORD = (
    "account|at|author|body|channel|client|comment|content|count|country|created|customer|date|day|"
    "from|group|id|index|key|label|lang|language|line|member|message|messages|msg|name|number|"
    "person|post|posts|region|row|segment|sender|source|subject|text|texts|thread|time|timestamp|"
    "title|to|topic|tweet|type|uid|user|userid|username|users|value|writer"
)
_COLUMN_NAME = re.compile(rf"({_WORD})([ _.-]({_WORD}))*")
_NAMES_SHOWN = 20  # of columns, in a message

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

# Where the names of columns come from: a schema, the keys of JSON objects, or a header row.
FoundIn: TypeAlias = Literal["schema", "keys", "header"]


@dataclass(frozen=True)
class Columns:
    """The names of the columns that are read."""

    text: str
    user: str | None  # None for public text
    by: str | None = None  # the column with segments, of private records
    warn_about_users: bool = False  # of public text: whether to log a column that may be user ids
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
                f"is the {'text' if self.by == self.text else 'user'} column too; segments need a"
                " column of their own. Change ",
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

        The message lists the columns. Those of private data that stand in a header row are listed
        only if they are words that name columns, or one of them is as it should be: a file without
        a header row would show what a person wrote. Keys of JSON are listed if they look like
        names.

        Args:
            source: What is read, for the message.
            present: The names of the columns that there are.
            found_in: Where these names come from.
        """
        may_be_listed = (
            self.user is None or found_in == "schema" or any(name in present for name in self.names)
        )
        is_name = _is_column_name if found_in == "header" else _NAME.fullmatch
        listed = may_be_listed or all(map(is_name, present))
        for name in self.names:
            if name not in present:
                advice = self._advice(name) if listed else self._hidden_advice(name, found_in)
                raise UsageError(
                    f"{source}: no column {name!r}{_describe_columns(present, listed)} ", *advice
                )
            count = list(present).count(name)
            if count > 1:
                raise UsageError(
                    f"{source}: {count} columns are called {name!r}. Rename all but one."
                )
        self.warn_about(source, present)

    def warn_about(self, source: str, present: Sequence[str]) -> None:
        """Log that a public table has a column that looks like user ids; once for each name."""
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
        text_type = schema.field(self.text).type
        if not _is_text(text_type):
            raise UsageError(
                f"{source}: the text column {self.text!r} holds {text_type}; it must hold text. ",
                *self._advice(self.text),
            )
        for name, role, values in ((self.user, "user", "ids"), (self.by, "segment", "segments")):
            if name is None:
                continue
            type_ = schema.field(name).type
            if not (_is_text(type_) or pt.is_integer(_value_type(type_))):
                raise UsageError(
                    f"{source}: the {role} column {name!r} holds {type_}; {values} must be text or"
                    " whole numbers. Cast the column to string or int64 first, or ",
                    *self._advice(name, verb="name"),
                )

    def _advice(self, name: str, *, verb: str = "Name") -> list[str | Argument]:
        parameters = {self.text: "text_column", self.user: "user_column", self.by: "by"}
        return [f"{verb} the right one with ", Argument(parameters[name]), "."]

    def _hidden_advice(self, name: str, found_in: FoundIn) -> list[str | Argument]:
        """Return advice for whoever has to look at the file, as its names are not shown."""
        advice = self._advice(name)
        if found_in != "header":
            return advice
        names = ",".join(self.names[::-1])
        spelling = (
            ", as the first row spells it; if the first row names no columns, put one before it"
            f" that does: {names}."
        )
        return [*advice[:-1], spelling]


def _is_column_name(name: str) -> bool:
    """Return whether a name is made of words that name columns.

    >>> _is_column_name("User ID"), _is_column_name("body_text"), _is_column_name("alice")
    (True, True, False)
    """
    return _COLUMN_NAME.fullmatch(name.strip().lower()) is not None


def looks_like_users(name: str) -> bool:
    """Return whether a column's name says that it holds user ids.

    >>> looks_like_users("User ID"), looks_like_users("author"), looks_like_users("users_online")
    (True, True, False)
    """
    return re.sub("[ .-]+", "_", name.strip().lower()) in USER_COLUMNS


def as_bytes(array: "pa.Array[Any]") -> pa.LargeBinaryArray:
    """Return values as bytes.

    A whole number becomes its decimal digits, so that 7 and "7" are the same user.

    >>> as_bytes(pa.array([7, None])).to_pylist()
    [b'7', None]
    """
    if isinstance(array, pa.DictionaryArray):
        return as_bytes(array.dictionary).take(array.indices)
    if pt.is_integer(array.type):
        array = array.cast(pa.string())
    return cast("pa.LargeBinaryArray", array.cast(pa.large_binary()))


def _describe_columns(present: Sequence[str], listed: bool) -> str:
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


# --- Batches of records ---

# The largest batch of records. Not measured.
BATCH_ROWS = 65_536
BATCH_BYTES = 1 << 22  # of text

# Why a row can't be used.
NO_USER = "no user id"
TEXT_NOT_UTF8 = "the text is not valid UTF-8"
USER_NOT_UTF8 = "the user id is not valid UTF-8"

BadRow: TypeAlias = tuple[int, str]  # its number, from 1, and the reason why it can't be used


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
    """How many rows were skipped, and why.

    These are exact counts of private data: show them to its keeper only.
    """

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
    """What a format reader parsed: arrays that may hold nulls and bytes that are not UTF-8."""

    text: pa.LargeBinaryArray
    user: pa.LargeBinaryArray | None
    rows: Sequence[int]  # the row number of each entry
    position: int = 0  # bytes of the source read so far
    bad: Sequence[BadRow] = ()  # rows that did not parse, and so are not in the arrays
    by: pa.LargeBinaryArray | None = None  # the column with the segment of each row


def clean(
    chunk: Chunk, source: str, bad_rows: BadRows, *, skip: bool, segments: Segments | None = None
) -> Iterator[Records]:
    """Yield the records of a chunk, without the rows that can't be used.

    Args:
        chunk: What a format reader parsed.
        source: Where it is from, for messages.
        bad_rows: Counts the rows that are skipped.
        skip: Whether to skip bad rows; else the first one is an error.
        segments: The segments that rows may be in.
    """
    text = _without_nulls(chunk.text)
    user = None if chunk.user is None else _without_nulls(chunk.user)
    segment = None if segments is None or chunk.by is None else segments.codes(chunk.by)
    reasons = _find_bad_entries(text, user)
    if segments is not None and segment is not None:
        unlisted = np.flatnonzero(segment == NOT_LISTED).tolist()
        reasons = dict.fromkeys(unlisted, segments.bad_row_reason) | reasons
    bad = sorted([*chunk.bad, *((chunk.rows[index], reason) for index, reason in reasons.items())])
    if bad and not skip:
        row, reason = bad[0]
        reason_parts: tuple[str | Argument, ...] = (reason,)
        if segments is not None and reason == segments.bad_row_reason:
            reason_parts = segments.bad_row_reason_parts
        raise BayesgramError(
            f"{source}: row {row}: ",
            *reason_parts,
            ". Mend the row, or count and skip such rows with ",
            Argument("skip_bad_rows", "True"),
            ".",
        )
    for _, reason in bad:
        bad_rows.add(reason)
    rows = chunk.rows
    if reasons:
        good = np.delete(np.arange(len(text)), list(reasons)).tolist()
        indices = pa.array(good, pa.int64())
        text = text.take(indices)
        user = None if user is None else user.take(indices)
        segment = None if segment is None else segment[good]
        rows = [rows[index] for index in good]
    for start, stop in _batches(text):
        yield Records(
            text[start:stop],
            None if user is None else user[start:stop],
            source,
            rows[start],
            None if segment is None else segment[start:stop],
        )


def _find_bad_entries(
    text: pa.LargeBinaryArray, user: pa.LargeBinaryArray | None
) -> dict[int, str]:
    """Return the entries that can't be used, each with one reason."""
    reasons = dict.fromkeys(_not_utf8(text), TEXT_NOT_UTF8)
    if user is not None:
        empty = np.flatnonzero(_lengths(user) == 0)
        reasons |= dict.fromkeys(_not_utf8(user), USER_NOT_UTF8)
        reasons |= dict.fromkeys(empty.tolist(), NO_USER)
    return reasons


def _without_nulls(array: pa.LargeBinaryArray) -> pa.LargeBinaryArray:
    return cast("pa.LargeBinaryArray", array.fill_null(b""))


def _lengths(array: pa.LargeBinaryArray) -> npt.NDArray[np.int64]:
    lengths: npt.NDArray[np.int64] = pc.binary_length(array).to_numpy(zero_copy_only=False)
    return lengths


def _not_utf8(array: pa.LargeBinaryArray, first: int = 0) -> list[int]:
    """Return the entries that are not valid UTF-8, counted from `first`.

    The whole array is checked at once, and halved only to find the entries at fault.
    """
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


def _batches(text: pa.LargeBinaryArray) -> Iterator[tuple[int, int]]:
    """Yield (start, stop) of batches; a single text above the limit is a batch of its own."""
    ends = np.cumsum(_lengths(text))
    start = 0
    while start < len(text):
        batch_start = ends[start - 1] if start else 0
        stop = int(np.searchsorted(ends, batch_start + BATCH_BYTES, side="right"))
        stop = max(start + 1, min(stop, start + BATCH_ROWS))
        yield start, stop
        start = stop
