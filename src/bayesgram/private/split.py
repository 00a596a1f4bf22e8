"""Hold out people for evaluation: all rows of a person go to one of two files.

In:  private text with user ids, in any format that is read.   Out: two Parquet files, both private.

Which file a person goes to follows from a keyed hash of the user id alone. So it does not depend on
the order of the rows, on other people or on how the text is spread over files, and a later split
with the same seed and share puts everybody where they were. Rows are streamed.
"""

import hashlib
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from bayesgram.arguments import check_arguments
from bayesgram.arrays import Bools
from bayesgram.errors import Argument, BayesgramError, UsageError, check_int
from bayesgram.io import Records, read_records
from bayesgram.io.atomic import check_writable, write_file_atomically

DEFAULT_SHARE = 0.1  # of the people; one in ten is usual
MAX_SEED = 2**63 - 1
_HASH_BYTES = 8


@dataclass(frozen=True, repr=False)
class SplitSummary:
    """How many rows a split wrote. The numbers are exact and private."""

    train_rows: int
    held_out_rows: int

    def __repr__(self) -> str:
        """Show no exact number."""
        return "SplitSummary(private: train_rows, held_out_rows)"


@check_arguments
def split(
    inputs: Any,  # noqa: ANN401 - paths or tables, see bayesgram.io
    output: str | Path,
    held_out_output: str | Path,
    *,
    held_out: float = DEFAULT_SHARE,
    user_column: str = "user",
    text_column: str = "text",
    seed: int = 0,
    skip_bad_rows: bool = False,
    force: bool = False,
    delimiter: str | None = None,
    encoding: str = "utf-8",
) -> SplitSummary:
    """Hold out some people for evaluation. Both files are as private as the text itself.

    Args:
        inputs: Private text: files, folders, globs or tables.
        output: The Parquet file for the rows to release from.
        held_out_output: The Parquet file for the rows to evaluate with.
        held_out: The share of the people to hold out, between 0 and 1.
        user_column: The column of user ids, in the inputs and in both files.
        text_column: The column of text, in the inputs and in both files.
        seed: Another seed holds out other people.
        skip_bad_rows: Whether to skip rows that can't be read instead of refusing the input.
        force: Whether files that exist are replaced.
        delimiter: What separates the columns of CSV and TSV files, if not commas and tabs.
        encoding: That of text files, such as "latin-1".
    """
    check_share(held_out)
    check_outputs(output, held_out_output, force=force, inputs=_paths(inputs))
    records = read_records(
        inputs,
        text_column=text_column,
        user_column=user_column,
        skip_bad_rows=skip_bad_rows,
        require_rows=True,
        delimiter=delimiter,
        encoding=encoding,
    )
    return split_records(
        records,
        output,
        held_out_output,
        held_out=held_out,
        columns=(user_column, text_column),
        seed=seed,
        force=force,
    )


def split_records(
    records: Iterable[Records],
    output: str | Path,
    held_out_output: str | Path,
    *,
    held_out: float,
    columns: tuple[str, str],
    seed: int = 0,
    force: bool = False,
) -> SplitSummary:
    """Split rows that are being read.

    Args:
        records: Private rows with their users.
        output: The Parquet file for the rows to release from.
        held_out_output: The Parquet file for the rows to evaluate with.
        held_out: The share of the people to hold out.
        columns: The names of the columns for user ids and text.
        seed: Another seed holds out other people.
        force: Whether files that exist are replaced.

    Raises:
        BayesgramError: If all people would be on one side.
    """
    check_share(held_out)
    key = _key(seed)
    schema = pa.schema([(name, pa.large_string()) for name in columns])
    row_counts = np.zeros(2, np.int64)
    with ExitStack() as files:
        writers = [
            files.enter_context(_open_parquet(path, schema, force=force, argument=argument))
            for path, argument in ((output, "output"), (held_out_output, "held_out_output"))
        ]
        for batch in records:
            is_held_out = held_out_mask(batch.user, held_out, key)
            table = pa.table([batch.user, batch.text], names=list(columns)).cast(schema)
            for side, mask in enumerate((~is_held_out, is_held_out)):
                if mask.any():
                    writers[side].write_table(table.filter(pa.array(mask)))
                    row_counts[side] += mask.sum()
        if not row_counts.all():
            raise BayesgramError(
                "all people are on one side. There are too few of them, or an earlier split with"
                " the same ",
                Argument("seed"),
                " chose them. Give another ",
                Argument("seed"),
                " or ",
                Argument("held_out"),
                ", or more people's text.",
            )
    return SplitSummary(int(row_counts[0]), int(row_counts[1]))


def check_share(share: float) -> float:
    """Return a share of people, if it is one.

    Raises:
        UsageError: If it is not between 0.001 and 0.999.
    """
    if not 0.001 <= share <= 0.999:
        raise UsageError.for_argument(
            "held_out", f"{share:g}", "hold out a share from 0.1% to 99.9%, such as 10%."
        )
    return share


def check_outputs(
    output: str | Path,
    held_out_output: str | Path,
    *,
    force: bool,
    inputs: Iterable[str | Path] = (),
) -> None:
    """Refuse files that can't be written, before anything is read.

    Args:
        output: The file for the rows to release from.
        held_out_output: The file for the rows to evaluate with.
        force: Whether files that exist are replaced.
        inputs: What is read, which must not be replaced.
    """
    names = list(inputs)
    check_writable(output, force=force, inputs=names, parameter=Argument("output"))
    check_writable(
        held_out_output, force=force, inputs=names, parameter=Argument("held_out_output")
    )
    if Path(output).resolve() == Path(held_out_output).resolve():
        raise UsageError(f"{output}: is named for both files; name two files.")


def held_out_mask(users: pa.LargeBinaryArray | None, share: float, key: bytes) -> Bools:
    """Return which rows belong to people who are held out.

    Args:
        users: The user id of each row.
        share: The share of people to hold out.
        key: The key of the hash.
    """
    if users is None:
        raise UsageError("split: the rows have no user ids; name the column with user_column.")
    encoded = users.dictionary_encode()  # each person of the batch is hashed once
    limit = int(share * 2.0 ** (8 * _HASH_BYTES))
    is_held_out = np.array(
        [_hash(user, key) < limit for user in encoded.dictionary.to_pylist()], np.bool_
    )
    mask: Bools = is_held_out[encoded.indices.to_numpy(zero_copy_only=False)]
    return mask


def _key(seed: int) -> bytes:
    check_int("seed", seed, 0, MAX_SEED, "a seed")
    return f"bayesgram split {seed}".encode()


def _hash(user: bytes, key: bytes) -> int:
    digest = hashlib.blake2b(user, digest_size=_HASH_BYTES, key=key).digest()
    return int.from_bytes(digest, "big")


@contextmanager
def _open_parquet(
    path: str | Path, schema: pa.Schema, *, force: bool, argument: str
) -> Iterator[pq.ParquetWriter]:
    """Yield a writer for a file that only its owner can read."""
    with write_file_atomically(path, force=force, parameter=Argument(argument)) as temporary:
        temporary.touch(0o600)
        with pq.ParquetWriter(temporary, schema, compression="zstd") as writer:
            yield writer


def _paths(inputs: Any) -> list[str | Path]:  # noqa: ANN401 - paths or tables
    several = inputs if isinstance(inputs, list | tuple) else [inputs]
    return [path for path in several if isinstance(path, str | Path)]
