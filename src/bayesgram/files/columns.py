"""The columns that are read: which they are, which types they may have, and their bytes.

In:  column names and Arrow arrays of many types.   Out: large binary arrays.
Does not look at single values: `records` finds the rows that can't be used.
"""

import logging
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias, cast

import pyarrow as pa
import pyarrow.types as pt

from bayesgram.errors import UsageError

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
    warn_of_users: bool = False  # of public text: about a column that looks like user ids
    _warned_of: set[str] = field(default_factory=set, compare=False, repr=False)

    def __post_init__(self) -> None:
        if self.text == self.user:
            raise UsageError(
                f"text_column={self.text!r} and user_column={self.user!r}: they must be two columns. "
                "Change `text_column` or `user_column`."
            )
        if self.by is not None and self.by in (self.text, self.user):
            raise UsageError(
                f"by={self.by!r}: is the {'text' if self.by == self.text else 'user'} column too; segments need a"
                " column of their own. Change `by`."
            )

    @property
    def names(self) -> list[str]:
        """The names of the columns to read."""
        return [name for name in (self.text, self.user, self.by) if name is not None]

    def require(self, source: str, present: Sequence[str], *, found_in: FoundIn = "schema") -> None:
        """Refuse a table without one of the columns, or with two of a name.

        The message lists the columns. Those of private data that stand in a header row are listed only if they are
        words that name columns, or one of them is as it should be: a file without a header row would show what a
        person wrote. Keys of JSON are listed if they look like names.
        """
        is_public = self.user is None or found_in == "schema" or any(name in present for name in self.names)
        listed = is_public or all(map(_is_usual if found_in == "header" else _NAME.fullmatch, present))
        for name in self.names:
            if name not in present:
                advice = self._advice(name) if listed else self._hidden_advice(name, found_in)
                raise UsageError(f"{source}: no column {name!r}{_those(present, listed)} {advice}")
            if list(present).count(name) > 1:
                raise UsageError(
                    f"{source}: {list(present).count(name)} columns are called {name!r}. Rename all but one."
                )
        self.warn_about(source, present)

    def warn_about(self, source: str, present: Sequence[str]) -> None:
        """Say that a public table has a column that looks like user ids; once for each name."""
        for name in present if self.warn_of_users else ():
            if name in self.names or name in self._warned_of or not looks_like_users(name):
                continue
            self._warned_of.add(name)
            logger.warning(
                "warning: %s: the column %r looks like user ids. If these rows are private text, no"
                " release with this vocabulary is private.",
                *(source, name),
            )

    def require_types(self, source: str, schema: pa.Schema) -> None:
        """Refuse text that is not text, and user ids that are neither text nor whole numbers."""
        self.require(source, schema.names)
        text = schema.field(self.text).type
        if not _is_text(text):
            raise UsageError(
                f"{source}: the text column {self.text!r} holds {text}; it must hold text. {self._advice(self.text)}"
            )
        for name, what, values in ((self.user, "user", "ids"), (self.by, "segment", "segments")):
            if name is None:
                continue
            kind = schema.field(name).type
            if not (_is_text(kind) or pt.is_integer(_value_type(kind))):
                raise UsageError(
                    f"{source}: the {what} column {name!r} holds {kind}; {values} must be text or whole numbers. "
                    f"Cast the column to string or int64 first, or {_lower_first(self._advice(name))}"
                )

    def _advice(self, name: str) -> str:
        arguments = {self.text: "text_column", self.user: "user_column", self.by: "by"}
        return f"Name the right one with `{arguments[name]}`."

    def _hidden_advice(self, name: str, found_in: FoundIn) -> str:
        """For whoever has to look at the file."""
        advice = self._advice(name)
        if found_in != "header":
            return advice
        names = ",".join(self.names[::-1])
        return (
            f"{advice[:-1]}, as the first row spells it; if the first row names no columns, put one before it that"
            f" does: {names}."
        )


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


def _lower_first(sentence: str) -> str:
    return sentence[0].lower() + sentence[1:]


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
