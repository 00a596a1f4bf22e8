"""The two columns that are read: which they are, which types they may have, and their bytes.

In:  column names and Arrow arrays of many types.   Out: large binary arrays.
Does not look at single values: `records` finds the rows that can't be used.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, cast

import pyarrow as pa
import pyarrow.types as pt

from bayesgram.errors import UsageError

_NAME = re.compile("[A-Za-z_][A-Za-z0-9_]{0,31}")
_NAMES_SHOWN = 20


@dataclass(frozen=True)
class Columns:
    """The names of the text column and, for private records, of the user column."""

    text: str
    user: str | None

    def __post_init__(self) -> None:
        if self.text == self.user:
            raise UsageError(
                f"text_column={self.text!r} and user_column={self.user!r}: they must be two columns. "
                "Change `text_column` or `user_column`."
            )

    @property
    def names(self) -> list[str]:
        """The names of the columns to read."""
        return [self.text] if self.user is None else [self.text, self.user]

    def require(self, source: str, present: Sequence[str], *, from_rows: bool = False) -> None:
        """Refuse a table without one of the columns, or with two of a name.

        The message lists the columns, but names that were read `from_rows` of private data only if they look like
        names: a file without a header row would show what a person wrote.
        """
        are_names = any(name in present for name in self.names) or all(map(_NAME.fullmatch, present))
        listed = self.user is None or not from_rows or are_names
        for name in self.names:
            if name not in present:
                raise UsageError(f"{source}: no column {name!r}{_those(present, listed)} {self._advice(name)}")
            if list(present).count(name) > 1:
                raise UsageError(
                    f"{source}: {list(present).count(name)} columns are called {name!r}. Rename all but one."
                )

    def require_types(self, source: str, schema: pa.Schema) -> None:
        """Refuse text that is not text, and user ids that are neither text nor whole numbers."""
        self.require(source, schema.names)
        text = schema.field(self.text).type
        if not _is_text(text):
            raise UsageError(
                f"{source}: the text column {self.text!r} holds {text}; it must hold text. {self._advice(self.text)}"
            )
        if self.user is None:
            return
        user = schema.field(self.user).type
        if not (_is_text(user) or pt.is_integer(_value_type(user))):
            raise UsageError(
                f"{source}: the user column {self.user!r} holds {user}; ids must be text or whole numbers. "
                f"Cast the column to string or int64 first, or {self._advice(self.user).lower()}"
            )

    def _advice(self, name: str) -> str:
        return f"Name the right one with `{'text' if name == self.text else 'user'}_column`."


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
        return " (what stands for names is not shown: it looks like a person's text)."
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
