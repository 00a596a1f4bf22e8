"""What checks of all readers share: options that follow from the input, and a comparison with what
was expected.
"""

import zlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from bayesgram.errors import BayesgramError
from bayesgram.io import read_records, streams
from fuzz.mutations import SECRET
from fuzz.target import check_message, must

MARK = b"\xef\xbb\xbf"
BLOCKS = (
    *[1 << 16] * 6,
    64,
    7,
)  # the largest holds any input; Arrow leaks a block for every damaged .gz
ROWS = [
    ("ann", f"red fish {SECRET}"),
    ("bob", 'one, two, "three"\nfour'),
    (f"cy{SECRET}", "don't\tstop"),
    ("007", ""),
    ("é", "a\r\nb"),
    ("ann", "日本 \U0001f469 x"),
]

Row = tuple[bytes, bytes] | None  # user and text; None: a row that can't be used


@dataclass(frozen=True)
class Options:
    """How an input is read."""

    skip: bool
    user: str | None
    block: int
    ahead: bool  # in a thread of its own, as always but here, where that takes most of the time

    @classmethod
    def of(cls, data: bytes) -> "Options":
        """Any, but always the same for one input."""
        number = zlib.crc32(data)
        return cls(
            bool(number & 3),
            None if number & 12 == 0 else "user",
            BLOCKS[number >> 4 & 7],
            number >> 7 & 15 == 0,
        )

    def without_user(self) -> "Options":
        """The same for plain text."""
        return replace(self, user=None)


def read(path: Path, options: Options) -> tuple[list[tuple[bytes, bytes]], int]:
    """All rows, and how many were skipped."""
    usual, streams.BLOCK_BYTES = streams.BLOCK_BYTES, options.block
    try:
        reader = read_records(
            path, text_column="text", user_column=options.user, skip_bad_rows=options.skip
        )
        rows: list[tuple[bytes, bytes]] = []
        for records in reader if options.ahead else reader._records():
            users = records.text.to_pylist() if records.user is None else records.user.to_pylist()
            rows += zip(users, records.text.to_pylist(), strict=True)
        return rows, reader.bad_rows.total
    finally:
        streams.BLOCK_BYTES = usual


def compare(
    path: Path, options: Options, expected: Sequence[Row] | None, *, may_refuse: bool = False
) -> None:
    """Read a file, of which these are the rows; None: it must be refused."""
    refuses = expected is None or (None in expected and not options.skip)
    try:
        rows, bad = read(path, options)
    except BayesgramError as error:
        check_message(error)
        must(refuses or may_refuse, f"refused, though nothing is wrong with it: {error}")
        raise
    must(not refuses, "read, though it should be refused")
    good = [row for row in expected or () if row is not None]
    must(rows == good, "other rows than the slow reader's")
    must(bad == len(expected or ()) - len(good), "rows were lost in silence")


def row_of(user: bytes | None, text: bytes | None, options: Options) -> Row:
    """A row, if it can be used."""
    user, text = user or b"", text or b""
    try:
        text.decode()
        user.decode()
    except UnicodeDecodeError:
        return None
    return (text, text) if options.user is None else (user, text) if user else None


def is_foreign(data: bytes) -> bool:
    """Whether it may be refused whole for its first bytes, as another kind of file."""
    signs = (
        b"\xff\xfe",
        b"\xfe\xff",
        b"\x1f\x8b",
        b"(\xb5/\xfd",
        b"BZh",
        b"\xfd7zXZ",
        b"PK",
        b"PAR1",
        b"ARROW1",
        b"%PDF",
    )
    return data.startswith(signs) or b"\0" in data[:4]
