"""What a notebook shows of an object, and its rows as a table of a person's choice.

In:  facts and rows that may be shown.   Out: HTML without a script; tables of Arrow, pandas, polars.
Does not decide what may be shown: each class does.
"""

from collections.abc import Iterable, Sequence
from html import escape
from importlib import import_module
from typing import Any

import pyarrow as pa

from bayesgram.errors import UsageError


class Tabular:
    """What has rows."""

    def to_arrow(self) -> pa.Table:
        """The rows as a table of pyarrow."""
        raise NotImplementedError

    def to_pandas(self) -> Any:  # noqa: ANN401 - of a library that need not be there
        """The rows as a data frame of pandas."""
        _library("pandas")
        return self.to_arrow().to_pandas()

    def to_polars(self) -> Any:  # noqa: ANN401 - of a library that need not be there
        """The rows as a data frame of polars."""
        return _library("polars").from_arrow(self.to_arrow())


def _library(name: str) -> Any:  # noqa: ANN401 - a module
    try:
        return import_module(name)
    except ImportError:
        raise UsageError(
            f"{name} is not installed; pip install {name}, or use to_arrow()."
        ) from None


def html(
    title: str,
    facts: Iterable[tuple[str, str]],
    columns: Sequence[str] = (),
    rows: Sequence[Sequence[str]] = (),
) -> str:
    """A title, facts, and a table if there is one; everything is escaped.

    >>> html("Fish", [("colour", "<red>")])
    '<div><b>Fish</b><table><tr><th>colour</th><td style="text-align:left">&lt;red&gt;</td></tr></table></div>'
    """
    told = "".join(f"<tr>{_cell(name, 'th')}{_cell(value, 'td')}</tr>" for name, value in facts)
    head = "".join(_cell(column, "th") for column in columns)
    body = "".join(f"<tr>{''.join(_cell(value, 'td') for value in row)}</tr>" for row in rows)
    listed = (
        f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>" if columns else ""
    )
    return f"<div><b>{escape(title)}</b><table>{told}</table>{listed}</div>"


def _cell(text: str, kind: str) -> str:
    shown = escape(
        "".join(letter if letter.isprintable() else "\N{REPLACEMENT CHARACTER}" for letter in text)
    )
    return f"<th>{shown}</th>" if kind == "th" else f'<td style="text-align:left">{shown}</td>'
