"""Read and check the file of a vocabulary: `ngram`, `count`, and `count_NAME` for each source.

In:  a Parquet file, of `bayesgram vocab` or made elsewhere.   Out: its table, and checked columns.
"""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from bayesgram.arrays import Integers
from bayesgram.choices import TokenizerKind
from bayesgram.errors import Argument, UsageError, unreadable_error
from bayesgram.io.formats import check_format, read_parquet_table
from bayesgram.public.mixture import check_source_names
from bayesgram.text.ngrams import END, START, check_order, ngram_orders
from bayesgram.text.tokenizer import Tokenizer

FORMAT = 1
SOURCE_COUNT_PREFIX = "count_"  # and the name of a source: its column
MAX_SIZE = 100_000_000  # n-grams; row numbers have 32 bits
MAX_TOTAL = 2**53  # of all counts: floats hold every whole number below
MODEL_SUFFIX = ".model"  # of the public model beside a vocabulary


def default_model_path(vocabulary: str | Path) -> Path:
    """Return where `bayesgram vocab` writes the public model of a vocabulary: beside it.

    >>> default_model_path("data/vocab.parquet").name
    'vocab.parquet.model'
    """
    path = Path(vocabulary)
    return path.with_name(path.name + MODEL_SUFFIX)


def tokenizer_from_schema(schema: pa.Schema) -> Tokenizer | None:
    """Return the tokenizer that a file names; None for a file made elsewhere."""
    name = (schema.metadata or {}).get(b"bayesgram.tokenizer")
    return Tokenizer.from_name(name.decode(errors="replace")) if name else None


def source_columns(names: Sequence[str]) -> list[str]:
    """Return the names of the columns that hold the counts of sources."""
    return [name for name in names if name.startswith(SOURCE_COUNT_PREFIX)]


def check_format_number(path: str | Path, number: bytes) -> None:
    """Refuse a vocabulary of another format."""
    try:
        check_format(path, "a vocabulary", int(number), FORMAT)
    except UsageError:
        raise
    except ValueError:
        raise UsageError(
            f"{path}: its metadata is damaged; make the vocabulary again with `bayesgram vocab`."
        ) from None


def read_table(path: Path) -> pa.Table:
    """Return the table of a vocabulary file.

    Raises:
        UsageError: If it can't be read, or has no n-grams.
    """
    try:
        table = read_parquet_table(path)
        names = table.column_names  # text, if it is a vocabulary
    except FileNotFoundError:
        raise UsageError(f"{path}: no such vocabulary; make one with `bayesgram vocab`.") from None
    except (pa.ArrowException, OSError, ValueError) as error:
        if isinstance(error, OSError) and error.errno is not None:
            raise unreadable_error(path, error) from None
        _refuse_repeats(path)
        raise UsageError(
            f"{path}: not a Parquet file; make a vocabulary with `bayesgram vocab`."
        ) from None
    if "ngram" not in names:
        raise UsageError(
            f"{path}: no column 'ngram'; a vocabulary has the columns 'ngram' and 'count', this"
            f" file has {', '.join(map(repr, names))}."
        )
    return table


def _refuse_repeats(path: Path) -> None:
    """Refuse two columns of a name, if that is why a file can't be read."""
    try:
        names = pq.read_schema(path).names
    except (pa.ArrowException, OSError, ValueError):
        return
    for name in names:
        if names.count(name) > 1:
            raise UsageError(
                f"{path}: {names.count(name)} columns are called {name!r}; rename all but one."
            )


def read_ngrams(
    path: str | Path, table: pa.Table, tokenizer: Tokenizer | None
) -> tuple[pa.LargeStringArray, Tokenizer]:
    """Return the n-grams of a file, and its tokenizer.

    Args:
        path: The file, for messages.
        table: Its table.
        tokenizer: The tokenizer to use if the file names none; else it must be the same.

    Raises:
        UsageError: If the file has another tokenizer, or does not hold text.
    """
    # Files made elsewhere have no number.
    check_format_number(path, (table.schema.metadata or {}).get(b"bayesgram.format", b"1"))
    column = table["ngram"]
    stated = tokenizer_from_schema(table.schema)
    if tokenizer and stated and stated.kind is TokenizerKind.FILE:
        # The vocabulary has the name and the hash of a tokenizer file; the caller gives the file.
        stated = stated.with_definition_of(tokenizer)
        tokenizer = replace(tokenizer, boundaries=stated.boundaries)
    if tokenizer and stated and tokenizer != stated:
        raise UsageError(
            f"{path}: this vocabulary was made with the tokenizer {stated.name!r}, not"
            f" {tokenizer.name!r}; ",
            *(
                ["give its file"]
                if stated.digest
                else ["leave ", Argument("tokenizer"), " and ", Argument("lowercase"), " out"]
            ),
            ".",
        )
    if not (
        pa.types.is_string(column.type) or pa.types.is_large_string(column.type)
    ) or not _is_text(column):
        raise UsageError(f"{path}: the column 'ngram' must hold text without nulls.")
    is_rows = (stated or tokenizer or Tokenizer()).is_rows
    if not (0 if is_rows else 1) <= table.num_rows <= MAX_SIZE:
        raise UsageError(
            f"{path}: {table.num_rows} rows; a vocabulary has 1 to {MAX_SIZE:,} n-grams."
        )
    ngrams = column.combine_chunks().cast(pa.large_string())
    return ngrams, stated or detect_boundaries(tokenizer or Tokenizer(), ngrams)


def detect_boundaries(tokenizer: Tokenizer, ngrams: pa.LargeStringArray) -> Tokenizer:
    """Return the tokenizer; with boundaries, if n-grams that were made elsewhere have them."""
    if tokenizer.is_rows or not _has_boundaries(ngrams):
        return tokenizer
    return replace(tokenizer, boundaries=True)


def check_columns(path: str | Path, names: Sequence[str]) -> None:
    """Refuse a table without counts, and sources that have invalid or equal names."""
    sources = source_columns(names)
    if not sources and "count" not in names:
        raise UsageError(
            f"{path}: no column 'count'; a vocabulary has the columns 'ngram' and 'count', this"
            f" file has {', '.join(map(repr, names))}."
        )
    try:
        check_source_names([name.removeprefix(SOURCE_COUNT_PREFIX) for name in sources])
    except UsageError as error:
        raise UsageError(
            f"{path}: the columns {SOURCE_COUNT_PREFIX}NAME are the counts of sources. {error}"
        ) from None


def read_counts(path: str | Path, table: pa.Table, name: str) -> Integers:
    """Return a column of counts.

    Raises:
        UsageError: If it holds anything but whole numbers of 0 or more that add up to below 2^53.
    """
    column = table[name]
    if (
        not pa.types.is_integer(column.type)
        or column.null_count
        or (pc.min(column).as_py() or 0) < 0
    ):
        raise UsageError(f"{path}: the column {name!r} must hold whole numbers of 0 or more.")
    if (pc.max(column).as_py() or 0) >= MAX_TOTAL:
        raise UsageError(
            f"{path}: the column {name!r} must add up to less than 2^53; divide all counts."
        )
    counts: Integers = column.combine_chunks().cast(pa.int64()).to_numpy(zero_copy_only=False)
    return counts


def _is_text(column: "pa.ChunkedArray[Any]") -> bool:
    """Return whether a column has no nulls and is valid UTF-8, which Arrow does not check."""
    try:
        column.validate(full=True)
    except pa.ArrowInvalid:
        return False
    return not column.null_count


def _has_boundaries(ngrams: pa.LargeStringArray) -> bool:
    """Return whether a vocabulary made elsewhere marks where sentences begin or end."""
    return bool(
        pc.any(pc.or_(pc.starts_with(ngrams, f"{START} "), pc.ends_with(ngrams, f" {END}"))).as_py()
    )


def check_ngrams(path: str | Path, ngrams: pa.LargeStringArray, tokenizer: Tokenizer) -> int:
    """Return the highest order of n-grams.

    Args:
        path: The file, for messages.
        ngrams: The n-grams.
        tokenizer: How their text was cut.

    Raises:
        UsageError: If one is not tokens joined by single spaces, or orders are not ascending.
    """
    orders = ngram_orders(ngrams, tokenizer)
    back = np.flatnonzero(np.diff(orders) < 0)
    if back.size:
        row = int(back[0]) + 1
        raise UsageError(
            f"{path}: row {row + 1} has {orders[row]} tokens and row {row} has {orders[row - 1]};"
            " the n-grams of one order stand together, short ones first."
        )
    empty = pc.index(pc.match_substring_regex(ngrams, "^ |  | $|^$"), True).as_py()
    if empty >= 0:
        raise UsageError(f"{path}: row {empty + 1} is not tokens joined by single spaces.")
    return check_order(int(orders[-1])) if orders.size else 1
