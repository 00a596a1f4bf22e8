"""Stream records out of files and tables.

In:  what `find_sources` finds.   Out: `Records` batches, whatever the format.
Does not let an error of a library through: their messages quote rows, ours name the file and the row number.
"""

import logging
from collections.abc import Callable, Iterator, Sequence
from typing import TypeAlias

import pyarrow as pa

from bayesgram.cores import read_ahead
from bayesgram.errors import BayesgramError
from bayesgram.files.columns import Columns
from bayesgram.files.jsonl import read_jsonl
from bayesgram.files.records import BadRows, Chunk, Records, clean
from bayesgram.files.segments import Segments
from bayesgram.files.sources import Inputs, Source, find_sources, refuse_own_tables
from bayesgram.files.streams import read_text
from bayesgram.files.tables import read_arrow, read_parquet, read_table

OnProgress: TypeAlias = Callable[[int], None]

_NAMES_SHOWN = 5

logger = logging.getLogger(__name__)


class RecordReader:
    """An iterable of `Records`. `bad_rows` fills while iterating; iterating again starts over.

    Logs which sources gave no record, once. If none did and `refuse_nothing` is set, the iteration ends with an error.
    """

    def __init__(
        self,
        sources: list[Source],
        columns: Columns,
        *,
        skip_bad_rows: bool,
        on_progress: OnProgress | None,
        refuse_nothing: bool = False,
        segments: Segments | None = None,
    ) -> None:
        self.sources = sources
        self.bad_rows = BadRows()
        self._columns = columns
        self._skip = skip_bad_rows
        self._on_progress = on_progress
        self._refuse_nothing = refuse_nothing
        self._segments = segments
        self._said = False

    @property
    def size(self) -> int:
        """Bytes of all files together: what the calls of on_progress add up to."""
        return sum(source.size or 0 for source in self.sources)

    def __iter__(self) -> Iterator[Records]:
        return read_ahead(self._records())

    def _records(self) -> Iterator[Records]:
        self.bad_rows.by_reason.clear()
        empty, skipped = list[str](), list[str]()
        for source in self.sources:
            reported, rows, bad = 0, 0, self.bad_rows.total
            for chunk in _guarded(source, _chunks(source, self._columns)):
                for records in clean(chunk, source.name, self.bad_rows, skip=self._skip, segments=self._segments):
                    rows += len(records)
                    yield records
                reported = self._report(reported, min(chunk.position, source.size or 0))
            self._report(reported, source.size or 0)
            if rows == 0:
                (empty if self.bad_rows.total == bad else skipped).append(source.name)
        if self._refuse_nothing and len(empty) + len(skipped) == len(self.sources):
            raise nothing_read(self.bad_rows)
        if not self._said:
            _say(empty, "no row in it.")
            _say(skipped, "every row was skipped.")
        self._said = True

    def _report(self, reported: int, position: int) -> int:
        if self._on_progress is not None and position > reported:
            self._on_progress(position - reported)
        return max(reported, position)


def read_records(
    inputs: Inputs,
    *,
    text_column: str,
    user_column: str | None,
    skip_bad_rows: bool = False,
    on_progress: OnProgress | None = None,
    refuse_nothing: bool = False,
    segments: Segments | None = None,
    warn_of_users: bool = False,
) -> RecordReader:
    """Read texts and, where `user_column` is given, who wrote them and, where there are any, in which segment.

    `on_progress` gets the bytes read since its last call. `skip_bad_rows` counts bad rows instead of failing;
    `refuse_nothing` fails if there is no other row. `warn_of_users` is for public text: a column that looks like
    user ids is logged.

    >>> table = pa.table({"author": [7, 8], "body": ["red fish", "blue fish"]})
    >>> for records in read_records(table, text_column="body", user_column="author"):
    ...     print(records.user.to_pylist(), records.text.to_pylist())
    [b'7', b'8'] [b'red fish', b'blue fish']
    """
    sources = find_sources(inputs, allow_plain_text=user_column is None)
    if user_column is None:
        refuse_own_tables(sources)
    by = None if segments is None else segments.by
    columns = Columns(text_column, user_column, by, warn_of_users)
    return RecordReader(
        sources,
        columns,
        skip_bad_rows=skip_bad_rows,
        on_progress=on_progress,
        refuse_nothing=refuse_nothing,
        segments=segments,
    )


def nothing_read(bad_rows: BadRows) -> BayesgramError:
    """That there is no row to work with, and why."""
    if bad_rows.by_reason:
        return BayesgramError(
            f"nothing was read: every row was skipped ({', '.join(bad_rows.by_reason)}). Mend the rows, or name the"
            " right columns with `text_column` and `user_column`."
        )
    return BayesgramError("nothing was read: the inputs hold no row. Check that they are the right ones.")


def _say(names: Sequence[str], problem: str) -> None:
    """One line for all of them."""
    if names:
        more = f" and {len(names) - _NAMES_SHOWN} more" if len(names) > _NAMES_SHOWN else ""
        logger.warning("%s%s: %s", ", ".join(names[:_NAMES_SHOWN]), more, problem)


def _chunks(source: Source, columns: Columns) -> Iterator[Chunk]:
    match source.format:
        case "parquet":
            return read_parquet(source, columns)
        case "arrow":
            return read_arrow(source, columns)
        case "jsonl":
            return read_jsonl(source, columns)
        case "csv" | "tsv":
            from bayesgram.files.delimited import read_delimited  # noqa: PLC0415 - kernels, which take 0.2 s

            return read_delimited(source, columns)
        case "text":
            return read_text(source)
        case "table":
            return read_table(source, columns)


def _guarded(source: Source, chunks: Iterator[Chunk]) -> Iterator[Chunk]:
    """Pass chunks on, and say in our own words what stops them.

    The new error is raised after the old one is gone, so that it carries no context to show.
    """
    while True:
        try:
            chunk = next(chunks)
        except StopIteration:
            return
        except BayesgramError:
            raise
        except (OSError, pa.ArrowException, ValueError) as error:
            problem = _explain(source, error)
        else:
            yield chunk
            continue
        raise problem


def _explain(source: Source, error: Exception) -> BayesgramError:
    match error:
        case FileNotFoundError():
            return BayesgramError(f"{source.name}: no longer there. Check that nothing moves the file meanwhile.")
        case PermissionError():
            return BayesgramError(f"{source.name}: permission denied. Check who may read the file.")
        case _ if source.path is None:
            return BayesgramError(f"{source.name}: can't be read ({type(error).__name__}). Check how it was made.")
        case _:
            kind = " ".join(filter(None, (source.compression, source.format)))
            return BayesgramError(
                f"{source.name}: can't be read as {kind}; the file is damaged or cut short. "
                "Copy it again, or write it anew."
            )
