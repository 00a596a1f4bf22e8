"""Records: texts, who wrote them, and the rows that can't become one.

`Columns` says which columns are read and which types they may have. A format reader parses a file
into `Chunk`s, and `clean` makes batches of `Records` of them: large binary arrays of bounded size,
without the rows that can't be used. Nothing is parsed here.

Formal guarantee: whether a row is kept, and the bytes it gives, depend on that row alone.
"""

import codecs
import json
import logging
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
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

# --- How text files are read ---

UTF_8 = "utf-8"
# Encodings with one byte for each character: what a row becomes depends on its own bytes alone,
# which is not so where a byte may change the meaning of those after it.
_ONE_BYTE_ENCODINGS = re.compile(r"iso8859-[0-9]{1,2}|cp125[0-9]|koi8-[rtu]|mac-[a-z]+")
_TAB_NAMES = ("\\t", "tab")


@dataclass(frozen=True)
class Dialect:
    """How a text file is read, where its ending does not say so. Binary formats ignore it."""

    delimiter: str | None = None  # between the columns of CSV and TSV; None for that of the ending
    encoding: str = UTF_8

    def __post_init__(self) -> None:
        delimiter = self.delimiter
        if delimiter in _TAB_NAMES:
            delimiter = "\t"
            object.__setattr__(self, "delimiter", delimiter)
        if delimiter is not None and not _may_be_delimiter(delimiter):
            raise UsageError.for_argument(
                "delimiter",
                repr(delimiter),
                "give one character such as ';', '|' or '\\t' (a tab); not a letter, a digit, a"
                " space, a quote or a line break.",
            )
        object.__setattr__(self, "encoding", _check_encoding(self.encoding))


def _may_be_delimiter(text: str) -> bool:
    is_one_byte = len(text) == 1 and text.isascii()
    is_other_text = text.isalnum() or text in (" ", '"')
    return is_one_byte and not is_other_text and (text == "\t" or text.isprintable())


def _check_encoding(name: str) -> str:
    """Return Python's name of an encoding, if text in it can be read.

    >>> _check_encoding("Latin-1"), _check_encoding("UTF8")
    ('iso8859-1', 'utf-8')
    """
    try:
        encoding = codecs.lookup(name).name
    except (LookupError, ValueError):
        encoding = ""
    if encoding != UTF_8 and not _ONE_BYTE_ENCODINGS.fullmatch(encoding):
        raise UsageError.for_argument(
            "encoding",
            repr(name),
            "give utf-8, latin-1, cp1252 (Windows) or another encoding with one byte for each"
            " character. Convert any other file first: `iconv -f OTHER -t UTF-8 OLD > NEW`.",
        )
    return encoding


def guess_encoding(value: bytes) -> str | None:
    """Return the Western encoding that bytes which are not UTF-8 are probably in.

    It is a guess for a message; no file is read by it. In such text, letters with accents stand
    alone or in pairs.

    >>> guess_encoding("café".encode("latin-1")), guess_encoding("“café”".encode("cp1252"))
    ('latin-1', 'cp1252')
    >>> guess_encoding("café".encode()[:-1] + b"!") is None
    True
    """
    runs = re.findall(rb"[\x80-\xff]+", value)
    accents = b"".join(runs)
    if not runs or max(map(len, runs)) > 2 or any(_is_text_in(run, UTF_8) for run in runs):
        return None
    # Half a character of UTF-8, more likely, or bytes of no text at all.
    if not accents.strip(b"\xc2\xc3\xfe\xff"):
        return None
    if re.fullmatch(rb"[\xa0-\xff]+", accents):
        return "latin-1"
    return "cp1252" if _is_text_in(accents, "cp1252") else None


def _is_text_in(value: bytes, encoding: str) -> bool:
    try:
        value.decode(encoding)
    except UnicodeDecodeError:
        return False
    return True


READ_AS_USUAL = Dialect()

# --- Columns ---

# Where the names of columns come from: a schema, the keys of JSON objects, or a header row.
FoundIn: TypeAlias = Literal["schema", "keys", "header"]


@dataclass(frozen=True)
class Columns:
    """The names of the columns that are read."""

    text: str
    user: str | None  # None for public text
    by: str | None = None  # the column with segments, of private records
    warn_about_users: bool = False  # of public text: whether to log a column that may be user ids
    dialect: Dialect = READ_AS_USUAL  # how text files are read
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
        self,
        source: str,
        present: Sequence[str],
        *,
        found_in: FoundIn = "schema",
        nested: Mapping[str, Collection[str]] = MappingProxyType({}),
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
            nested: The columns that hold objects, with the names of their fields.
        """
        may_be_listed = (
            self.user is None or found_in == "schema" or any(name in present for name in self.names)
        )
        is_name = _is_column_name if found_in == "header" else _NAME.fullmatch
        listed = may_be_listed or all(map(is_name, present))
        for name in self.names:
            if name not in present:
                advice = self._advice(name) if listed else self._hidden_advice(name, found_in)
                if listed and (outer := _find_outer(name, nested)):
                    advice = [_unnest_advice(name, outer, found_in)]
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
        structs = [field for field in schema if pt.is_struct(field.type)]
        nested = {field.name: [inner.name for inner in field.type] for field in structs}
        self.check_present(source, schema.names, nested=nested)
        text_type = schema.field(self.text).type
        if not _is_text(text_type):
            flatten = _flatten_advice(self.text, text_type)
            raise UsageError(
                f"{source}: the text column {self.text!r} holds {_describe_type(text_type)}; it"
                f" must hold text. {flatten}",
                *self._advice(self.text, verb="name" if flatten else "Name"),
            )
        for name, role, values in ((self.user, "user", "ids"), (self.by, "segment", "segments")):
            if name is None:
                continue
            type_ = schema.field(name).type
            if not (_is_text(type_) or _is_uuid(type_) or pt.is_integer(_value_type(type_))):
                raise UsageError(
                    f"{source}: the {role} column {name!r} holds {_name_type(type_)};"
                    f" {values} must be text or"
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
        names = (self.dialect.delimiter or ",").join(self.names[::-1])
        spelling = (
            ", as the first row spells it; if the first row names no columns, put one before it"
            f" that does: {names}."
        )
        return [*advice[:-1], spelling]


def _find_outer(name: str, nested: Mapping[str, Collection[str]]) -> str | None:
    """Return the column with objects that have a missing column as a field, if there is one."""
    path, _, field_name = name.rpartition(".")
    for outer, fields in nested.items():
        if name in fields or (outer == path and field_name in fields):
            return outer
    return None


def _unnest_advice(name: str, outer: str, found_in: FoundIn) -> str:
    """Say how a field of nested objects becomes a column."""
    inner = name.removeprefix(f"{outer}.")
    if found_in == "keys":
        command = f"jq -c '. + {{{_jq_key(inner)}: {_jq_path(outer, inner)}}}' OLD > NEW.jsonl"
    else:
        command = f"frame.unnest({outer!r})"
    where = "" if found_in == "keys" else " in polars"
    return (
        f"It is a field of the nested column {outer!r}, and nested values are not read. Make it a"
        f" column first: `{command}`{where}."
    )


def _jq_key(name: str) -> str:
    return name if _NAME.fullmatch(name) else json.dumps(name)


def _jq_path(*names: str) -> str:
    """Return a path of jq.

    >>> _jq_path("message", "the text")
    '.message["the text"]'
    """
    parts = [f".{name}" if _NAME.fullmatch(name) else f"[{json.dumps(name)}]" for name in names]
    path = "".join(parts)
    return path if path.startswith(".") else f".{path}"


def _describe_type(type_: pa.DataType) -> str:
    if _is_list(type_):
        return f"lists ({type_})"
    return "nested values (a struct)" if pt.is_struct(type_) else _name_type(type_)


def _name_type(type_: pa.DataType) -> str:
    if not isinstance(type_, pa.BaseExtensionType):
        return str(type_)
    if type_.extension_name == "arrow.opaque":  # a type of a database that Arrow lacks
        return f"values of the type {type_.type_name} of {type_.vendor_name}"
    return {"arrow.json": "JSON"}.get(type_.extension_name, str(type_))


def _flatten_advice(name: str, type_: pa.DataType) -> str:
    """Say how lists and nested values become text; nothing for other types."""
    if _is_list(type_):
        column = f"pl.col({name!r}).list.join(' ')"
        return f"Join each list into one text first (`{column}` in polars), or "
    if pt.is_struct(type_):
        return f"Make its fields columns first (`frame.unnest({name!r})` in polars), or "
    return ""


def _is_list(type_: pa.DataType) -> bool:
    return any(is_kind(type_) for is_kind in (pt.is_list, pt.is_large_list, pt.is_fixed_size_list))


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

    A whole number becomes its decimal digits, so that 7 and "7" are the same user, and a UUID the
    text that all databases write for it.

    >>> as_bytes(pa.array([7, None])).to_pylist()
    [b'7', None]
    """
    if isinstance(array, pa.DictionaryArray):
        return as_bytes(array.dictionary).take(array.indices)
    if _is_uuid(array.type):
        return _format_uuids(cast("pa.FixedSizeBinaryArray", array.storage))
    if pt.is_integer(array.type):
        array = array.cast(pa.string())
    return cast("pa.LargeBinaryArray", array.cast(pa.large_binary()))


def _is_uuid(type_: pa.DataType) -> bool:
    return isinstance(type_, pa.BaseExtensionType) and type_.extension_name == "arrow.uuid"


def _format_uuids(array: pa.FixedSizeBinaryArray) -> pa.LargeBinaryArray:
    """Return 16 bytes each as 32 hexadecimal digits in five groups."""
    values = array.fill_null(bytes(16))
    raw = np.frombuffer(values.buffers()[1], np.uint8)[16 * values.offset :][: 16 * len(values)]
    halves = np.stack([raw >> 4, raw & 15], axis=1).reshape(len(values), 32)
    digits = np.frombuffer(b"0123456789abcdef", np.uint8)[halves]
    dash = np.full((len(values), 1), ord("-"), np.uint8)
    groups = np.split(digits, [8, 12, 16, 20], axis=1)
    text = np.hstack([part for group in groups for part in (group, dash)][:-1])
    offsets = np.arange(len(values) + 1, dtype=np.int64) * 36
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(text.tobytes())]
    texts = pa.LargeBinaryArray.from_buffers(pa.large_binary(), len(values), buffers)
    return cast("pa.LargeBinaryArray", pc.if_else(array.is_null(), None, texts))


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
TEXT_IS_LIST = "the text is a list, not a string"
TEXT_IS_OBJECT = "the text is a nested object, not a string"
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
    user_type: str | None = None  # what the column of users holds, where a column states its type

    def __len__(self) -> int:
        return len(self.text)


class UserIdTypes:
    """Which types the ids of users have had in the records that were read.

    Ids of another type than last week's are most likely other ids, and a series would take the same
    people for new ones.
    """

    def __init__(self) -> None:
        self._types: set[str | None] = set()

    def watch(self, records: Iterable[Records]) -> Iterator[Records]:
        """Yield the records, and note the type of the ids of each."""
        for batch in records:
            self._types.add(batch.user_type)
            yield batch

    @property
    def common(self) -> str | None:
        """The type of all ids; None if there were several, or files do not state it."""
        return next(iter(self._types)) if len(self._types) == 1 else None


def describe_user_type(type_: pa.DataType) -> str:
    """Return what a column of user ids holds.

    >>> describe_user_type(pa.int32()), describe_user_type(pa.string())
    ('whole numbers', 'text')
    """
    return "whole numbers" if pt.is_integer(_value_type(type_)) else "text"


@dataclass
class BadRows:
    """How many rows were skipped, and why; and how many of the others have no text.

    These are exact counts of private data: show them to its keeper only.
    """

    by_reason: dict[str, int] = field(default_factory=dict)
    without_text: int = 0  # rows that were read, and whose text is empty or missing

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
    user_type: str | None = None  # what the column of users holds, where a column states its type


def clean(
    chunk: Chunk,
    source: str,
    bad_rows: BadRows,
    *,
    skip: bool,
    segments: Segments | None = None,
    text_file: Columns | None = None,
) -> Iterator[Records]:
    """Yield the records of a chunk, without the rows that can't be used.

    Args:
        chunk: What a format reader parsed.
        source: Where it is from, for messages.
        bad_rows: Counts the rows that are skipped.
        skip: Whether to skip bad rows; else the first one is an error.
        segments: The segments that rows may be in.
        text_file: The columns of a text file, for which a message may advise an encoding or jq.
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
            *(() if text_file is None else _row_advice(reason, row, chunk, text_file)),
            ". Correct the row, or skip and count such rows with ",
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
    bad_rows.without_text += int(np.count_nonzero(_lengths(text) == 0))
    for start, stop in _batches(text):
        yield Records(
            text[start:stop],
            None if user is None else user[start:stop],
            source,
            rows[start],
            None if segment is None else segment[start:stop],
            chunk.user_type,
        )


def _row_advice(
    reason: str, row: int, chunk: Chunk, columns: Columns
) -> tuple[str | Argument, ...]:
    """Return what to do where a whole text file, most likely, has the problem of a row."""
    if reason in (TEXT_IS_LIST, TEXT_IS_OBJECT):
        path = _jq_path(columns.text)
        change = f'{path} |= join(" ")' if reason == TEXT_IS_LIST else f"{path} |= .FIELD"
        return (
            f". The column is {columns.text!r}. Name another one with ",
            Argument("text_column"),
            f", or make it text: `jq -c '{change}' OLD > NEW.jsonl`",
        )
    if reason not in (TEXT_NOT_UTF8, USER_NOT_UTF8):
        return ()
    array = chunk.user if reason == USER_NOT_UTF8 else chunk.text
    value = None if array is None else array[list(chunk.rows).index(row)].as_py()
    encoding = guess_encoding(_original_bytes(value or b""))
    if encoding is None:
        return ()
    return (
        f"; it looks like {'Latin-1' if encoding == 'latin-1' else 'Windows-1252'}. Say so with ",
        Argument("encoding", encoding),
        f", or convert the file: `iconv -f {encoding.upper().replace('-', '')} -t UTF-8 OLD > NEW`",
    )


def _original_bytes(value: bytes) -> bytes:
    """Return the bytes of a file that the reader of JSON has turned into lone surrogates."""
    try:
        return value.decode("utf-8", "surrogatepass").encode("utf-8", "surrogateescape")
    except UnicodeError:
        return value


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
    """Return whether all entries, none of which is null, are valid UTF-8.

    They are checked as one long text, which is several times as fast as one by one. It is valid if
    they are; and if it is, so are they, unless one begins in the middle of a character.
    """
    _, offset_buffer, data = array.buffers()
    if not len(array) or data is None:
        return True
    offsets = np.frombuffer(offset_buffer, np.int64)[array.offset :][: len(array) + 1]
    ends = pa.py_buffer(offsets[[0, -1]])
    text = pa.Array.from_buffers(pa.large_string(), 1, [None, ends, data])
    try:
        text.validate(full=True)
    except pa.ArrowInvalid:
        return False
    starts = offsets[: np.searchsorted(offsets, offsets[-1])]
    first_bytes = np.frombuffer(data, np.uint8)[starts]
    return not (first_bytes & 0xC0 == 0x80).any()  # later bytes of a character


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
