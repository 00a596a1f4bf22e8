"""What a notebook shows of an object, and its rows as a table of Arrow, pandas or polars.

`html` makes HTML without a script of facts and rows. Each class decides itself what may be shown.
"""

from collections.abc import Iterable, Sequence
from html import escape
from importlib import import_module
from typing import Any

import pyarrow as pa

from bayesgram.errors import UsageError


class Tabular:
    """Something with rows, which can be had as a table."""

    def to_arrow(self) -> pa.Table:
        """Return the rows as a pyarrow table."""
        raise NotImplementedError

    def to_pandas(self) -> Any:  # noqa: ANN401 - of a library that need not be there
        """Return the rows as a pandas data frame."""
        _import_library("pandas")
        return self.to_arrow().to_pandas()

    def to_polars(self) -> Any:  # noqa: ANN401 - of a library that need not be there
        """Return the rows as a polars data frame."""
        return _import_library("polars").from_arrow(self.to_arrow())


def _import_library(name: str) -> Any:  # noqa: ANN401 - a module
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
    """Return HTML of a title, facts, and a table if there is one; everything is escaped.

    Args:
        title: The heading.
        facts: Names and values.
        columns: The headings of the table's columns; no table without any.
        rows: The cells of the table.

    >>> html("Fish", [("colour", "<red>")]).partition("<tr>")[2]
    '<th>colour</th><td style="text-align:left">&lt;red&gt;</td></tr></table></div>'
    """
    fact_rows = "".join(
        f"<tr>{_cell(name, 'th')}{_cell(value, 'td')}</tr>" for name, value in facts
    )
    head = "".join(_cell(column, "th") for column in columns)
    body = "".join(f"<tr>{''.join(_cell(value, 'td') for value in row)}</tr>" for row in rows)
    table = f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>" if columns else ""
    return f"<div><b>{escape(title)}</b><table>{fact_rows}</table>{table}</div>"


def _cell(text: str, kind: str) -> str:
    shown = escape(
        "".join(letter if letter.isprintable() else "\N{REPLACEMENT CHARACTER}" for letter in text)
    )
    return f"<th>{shown}</th>" if kind == "th" else f'<td style="text-align:left">{shown}</td>'
