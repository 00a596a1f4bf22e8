"""The readers of tables, against slow ones that read one byte or one line at a time.

No silent loss: what is read and what is counted as bad is all there is, and a file that the slow
reader reads is not refused. Which options are used (skip bad rows, a user column, the size of
blocks) follows from the input itself.
"""

import bz2
import gzip
import lzma
from collections.abc import Iterator

from fuzz.columns import (
    check_arrow,
    check_parquet,
    made_arrow,
    made_parquet,
    mutated_arrow,
    mutated_parquet,
)
from fuzz.delimited import check_delimited, made_delimited
from fuzz.lines import (
    check_gz,
    check_jsonl,
    check_packed,
    check_text,
    check_zst,
    compressed_zst,
    made_jsonl,
    made_text,
    mutated_packed,
)
from fuzz.target import Target


def targets() -> Iterator[Target]:
    """All readers of tables."""
    yield Target(
        "csv",
        180,
        lambda: made_delimited(","),
        lambda data, folder: check_delimited(data, folder, "csv", 44),
    )
    yield Target(
        "tsv",
        80,
        lambda: made_delimited("\t"),
        lambda data, folder: check_delimited(data, folder, "tsv", 9),
    )
    yield Target("jsonl", 100, made_jsonl, check_jsonl)
    yield Target("text", 80, made_text, check_text)
    yield Target(
        "gz",
        40,
        lambda: [gzip.compress(each, mtime=0) for each in made_text()],
        check_gz,
        mutated_packed,
    )
    yield Target(
        "zst", 20, lambda: [compressed_zst(each) for each in made_text()], check_zst, mutated_packed
    )
    yield Target(
        "bz2",
        15,
        lambda: [bz2.compress(each) for each in made_text()],
        lambda *it: check_packed(*it, "bz2"),
        mutated_packed,
    )
    yield Target(
        "xz",
        15,
        lambda: [lzma.compress(each) for each in made_text()],
        lambda *it: check_packed(*it, "xz"),
        mutated_packed,
    )
    yield Target("arrow", 25, made_arrow, check_arrow, mutated_arrow)
    yield Target("parquet", 25, made_parquet, check_parquet, mutated_parquet)
