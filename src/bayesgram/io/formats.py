"""What files of ours have in common: JSON objects, Parquet tables, and a format number.

Each kind of file has one current format number (docs/versioning.md has the table). A file of any
other format is refused instead of being misread, and so is a damaged one. Nothing is converted.
"""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from bayesgram.errors import BayesgramError, UsageError, unreadable_error

# Levels of objects in objects: ours have five, and a thousand would end Python's stack.
MOST_LEVELS = 20
GET_A_COPY = (
    "Get a copy of it from where it is kept or was published: to make it again would spend budget"
    " again."
)


def read_json(path: Path) -> dict[str, Any]:
    """Return the JSON object that a file holds.

    Raises:
        ValueError: If it holds anything else, or text that could not be written again.
    """
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except RecursionError:
        value = None
    if not isinstance(value, dict) or _levels_exceed(value, MOST_LEVELS):
        raise ValueError("not a JSON object of ours")
    json.dumps(value, ensure_ascii=False).encode()  # half a character, as "\ud800" is, has no bytes
    return value


def _levels_exceed(value: object, most: int) -> bool:
    level = [value]
    for _ in range(most):
        children = [
            part.values() if isinstance(part, dict) else part
            for part in level
            if isinstance(part, dict | list)
        ]
        level = [part for parts in children for part in parts]
    return bool(level)


def read_parquet_table(path: Path) -> pa.Table:
    """Return the table of a Parquet file.

    pq.read_table does the same, but also takes folders like x=1 for columns, and loads
    pyarrow.dataset and, where it is installed, pandas: 0.3 s.

    Raises:
        pyarrow.ArrowInvalid: If two columns have the same name.
    """
    with pq.ParquetFile(path) as file:
        if len(set(file.schema_arrow.names)) < len(file.schema_arrow):
            raise pa.ArrowInvalid("two columns have the same name")
        return file.read()


@contextmanager
def explain_damage(file: Path, kind: str) -> Iterator[None]:
    """Replace errors in the block by one that says which published file is damaged.

    Args:
        file: The file that the block reads.
        kind: What it belongs to: "release", "discovery".
    """
    try:
        yield
    except UsageError:
        raise
    except MemoryError:
        raise BayesgramError(
            f"{file}: out of memory while reading the {kind}, or the file is damaged. Use a machine"
            " with more memory, or get another copy of it."
        ) from None
    except (OSError, pa.ArrowException, ValueError, KeyError, TypeError) as error:
        if isinstance(error, OSError) and error.errno is not None:
            raise unreadable_error(file, error) from None
        raise BayesgramError(f"{file}: the {kind} is damaged. {GET_A_COPY}") from None


def check_format(
    path: str | Path,
    kind: str,
    number: object,
    current: int,
    *,
    remake: str = "Make it anew with this version.",
) -> int:
    """Return the format number that a file states, if it is the current one of its kind.

    Args:
        path: The file or folder, for the message.
        kind: What it is, with an article.
        number: The number that it states.
        current: The number of the only format that this version reads.
        remake: What to do about a file of an older format.

    Raises:
        ValueError: If the file states no whole number from 1: it is damaged.
        UsageError: If it states another number; the message says what to do.

    >>> check_format("counts", "a counts folder", 1, current=1)
    1
    """
    if type(number) is not int or number < 1:  # True is none
        raise ValueError(f"format={number!r}: a format is a whole number from 1")
    if number != current:
        step = "Use a newer one." if number > current else remake
        raise UsageError(
            f"{path}: is {kind} of format {number}; this bayesgram reads {current}. {step}"
        )
    return number
