"""Which rows were given as public text: a sample of their hashes, in a file beside the vocabulary.

In:  long rows of public text, hashed.   Out: vocab.parquet.rows, which `count` and `discover` read.

It is there so that private text which was given as public text is noticed. It is never part of a
release, a discovery, a model or a report, and a vocabulary works without it.
"""

import logging
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from bayesgram.errors import Argument, BayesgramError, UsageError
from bayesgram.io.atomic import write_file_atomically
from bayesgram.io.formats import check_format, read_parquet_table
from bayesgram.text.row_hashes import ALL, RowSample, long_row, new_salt
from bayesgram.text.tokenizer import Tokenizer

SUFFIX = ".rows"
FORMAT = 1
FORMAT_KEY = b"bayesgram.rows"  # the key of the format's number: what a file of ours has

# Hashes that are kept of public rows: 1 MiB. Text of up to 131,072 distinct long rows is kept
# whole. Of 100 million rows one in 763 is kept, and so a private text that is all in them is
# noticed from some 10,000 distinct long rows on (`private.public_row_check.MIN_SAMPLED_MATCHES`).
CAPACITY = 1 << 17

logger = logging.getLogger(__name__)


def rows_path(vocabulary: str | Path) -> Path:
    """Return where the rows of a vocabulary's public text are: beside it.

    >>> rows_path("data/vocab.parquet").name
    'vocab.parquet.rows'
    """
    path = Path(vocabulary)
    return path.with_name(path.name + SUFFIX)


def new_row_sample(tokenizer: Tokenizer) -> RowSample:
    """Return an empty sample of public rows, under a new salt."""
    return RowSample(new_salt(), least=long_row(tokenizer.kind), capacity=CAPACITY)


def check_rows_path(vocabulary: str | Path) -> None:
    """Refuse a vocabulary's path if a file that is not ours is where its rows belong."""
    path = rows_path(vocabulary)
    if path.exists() and _read_table(path) is None:
        raise UsageError(
            f"{path}: is no file of public rows, and would be replaced by one; choose another ",
            Argument("path"),
            ".",
        )


@contextmanager
def save_rows_on_success(
    rows: RowSample | None, vocabulary: str | Path, fingerprint: str
) -> Iterator[None]:
    """Write the rows of a vocabulary; they take their place when the block ends well.

    A file of earlier rows is replaced: it belongs to the vocabulary that is replaced. Without rows
    (public n-grams that were counted before) it is removed.
    """
    check_rows_path(vocabulary)
    path = rows_path(vocabulary)
    if rows is None:
        yield
        path.unlink(missing_ok=True)
        return
    with write_file_atomically(path, force=True) as temporary:
        # If private text was given as public text, these are hashes of it.
        temporary.touch(0o600)
        _write(rows, temporary, fingerprint)
        yield


def _write(rows: RowSample, file: Path, fingerprint: str) -> None:
    metadata = {
        FORMAT_KEY: str(FORMAT),
        b"bayesgram.fingerprint": fingerprint,
        b"bayesgram.salt": f"{rows.salt:016x}",
        b"bayesgram.limit": f"{rows.limit:016x}",
        b"bayesgram.least": str(rows.least),
    }
    table = pa.table({"hash": pa.array(rows.hashes)}).replace_schema_metadata(metadata)
    pq.write_table(table, file, compression="none", use_dictionary=False)  # hashes don't compress


def load_rows(vocabulary: str | Path, fingerprint: str) -> RowSample | None:
    """Return the rows of a vocabulary's public text; None if there is no file, or another's.

    Raises:
        BayesgramError: If the file is damaged.
        UsageError: If a newer version wrote it.

    """
    path = rows_path(vocabulary)
    if not path.is_file():
        return None
    if not os.access(path, os.R_OK):
        logger.warning(
            "warning: %s: may not be read by you, so private rows are not compared with public"
            " ones.",
            path,
        )
        return None
    table = _read_table(path)
    if table is None:
        raise _damage_error(path)
    metadata = table.schema.metadata
    try:
        check_format(path, "a file of public rows", int(metadata[FORMAT_KEY]), FORMAT)
        owner = metadata[b"bayesgram.fingerprint"].decode()
        salt = int(metadata[b"bayesgram.salt"], 16)
        limit = int(metadata[b"bayesgram.limit"], 16)
        least = int(metadata[b"bayesgram.least"])
        hashes = table["hash"].combine_chunks()
    except UsageError:
        raise
    except (KeyError, ValueError):
        raise _damage_error(path) from None
    are_hashes = hashes.type == pa.uint64() and not hashes.null_count and len(hashes) <= CAPACITY
    if not are_hashes or not 0 <= salt <= ALL or not 0 <= limit <= ALL or least < 1:
        raise _damage_error(path)
    if owner != fingerprint:
        return None
    rows = RowSample(salt, least=least, capacity=CAPACITY, limit=limit)
    rows.add(hashes.to_numpy(zero_copy_only=False).astype(np.uint64))
    return rows


def _read_table(path: Path) -> pa.Table | None:
    """Return the table of a file of public rows; None for any other file."""
    try:
        table = read_parquet_table(path)
    except (pa.ArrowException, OSError, ValueError):
        return None
    return table if FORMAT_KEY in (table.schema.metadata or {}) else None


def _damage_error(path: Path) -> BayesgramError:
    return BayesgramError(
        f"{path}: the file of public rows is damaged. Make the vocabulary again with"
        " `bayesgram vocab`; or remove the file, and private rows are not compared with public"
        " ones."
    )
