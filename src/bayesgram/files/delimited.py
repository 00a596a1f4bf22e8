"""Read CSV and TSV as RFC 4180 has it: a header row, quotes around fields, line breaks within quotes.

In:  a `Source`.   Out: chunks; row 1 is the first record after the header, blank lines are no records.
Does not guess types, delimiters or encodings: every value is bytes, the file is UTF-8.

Arrow parses the file, from a feed that mends two of its habits. It takes the end of the file for a closing
quote: a last row of our own, which no open quote can swallow unseen, tells the two apart. And it fails on a
row that has both too few fields and bytes that are not UTF-8: a mark stands for such bytes on their way in,
and becomes a byte that is not UTF-8 on the way out.
"""

import codecs
import io
import re
import secrets
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import closing
from typing import IO, Any, Literal, TypeAlias, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pv

from bayesgram.errors import BayesgramError
from bayesgram.files import streams
from bayesgram.files.columns import Columns, as_bytes
from bayesgram.files.records import BadRow, Chunk
from bayesgram.files.sources import Source
from bayesgram.files.streams import ByteStream, open_stream

WRONG_COLUMNS = "the wrong number of columns"

_DELIMITERS = {"csv": ",", "tsv": "\t"}
_ESCAPED = re.compile("[\udc80-\udcff]+")
_OnBadRow: TypeAlias = Callable[[pv.InvalidRow], Literal["skip"]]


def read_delimited(source: Source, columns: Columns) -> Iterator[Chunk]:
    """Yield one chunk for each block of the file."""
    header = _read_header(source)
    columns.require(source.name, header, listed=columns.user is None)
    with open_stream(source) as stream:
        yield from _Pass(source, columns, len(header)).chunks(stream)


def number_rows(count: int, next_row: int, dropped: list[int]) -> tuple[Sequence[int], int]:
    """The numbers of the next `count` good rows, and how many dropped ones come before the last of them.

    >>> number_rows(3, 10, [10, 12, 99])
    ([11, 13, 14], 2)
    """
    if not dropped:
        return range(next_row, next_row + count), 0
    good = np.arange(count)
    good_before = np.array(dropped) - next_row - np.arange(len(dropped))
    numbers = next_row + good + np.searchsorted(good_before, good, side="right")
    return numbers.tolist(), int((good_before < count).sum())


class _Feed(io.RawIOBase):
    """The file as UTF-8, with `mark` for bytes that are not, and `tail` after its end."""

    def __init__(self, stream: ByteStream, *, mark: str, tail: str) -> None:
        super().__init__()
        self.marked = False
        self._stream, self._mark, self._tail = stream, mark, tail
        self._decoder = codecs.getincrementaldecoder("utf-8")("surrogateescape")
        self._ready, self._ended = b"", False

    def readable(self) -> bool:
        """Return True: Arrow asks."""
        return True

    def read(self, size: int = -1) -> bytes:
        """Return `size` bytes, fewer only at the end."""
        size = size if size >= 0 else streams.BLOCK_BYTES
        while len(self._ready) < size and not self._ended:
            data = self._stream.content.read(size)
            self._ended = not data
            text = self._decoder.decode(data, final=self._ended) + (self._tail if self._ended else "")
            self._ready += self._encode(text)
        given, self._ready = self._ready[:size], self._ready[size:]
        return given

    def _encode(self, text: str) -> bytes:
        try:
            return text.encode()
        except UnicodeEncodeError:
            self.marked = True
            return _ESCAPED.sub(self._mark, text).encode()


class _Pass:
    """One pass over a file; keeps the row numbers while Arrow drops the rows of the wrong length."""

    def __init__(self, source: Source, columns: Columns, width: int) -> None:
        self._source, self._columns = source, columns
        self._mark, self._end = secrets.token_hex(16), secrets.token_hex(16)
        self._last_row = self._end + _DELIMITERS[source.format] * width  # one field too many: never a record
        self._closed = False
        self._open_row: int | None = None
        self._dropped: list[int] = []
        self._next_row = 1

    def chunks(self, stream: ByteStream) -> Iterator[Chunk]:
        """Yield the batches of Arrow, with row numbers and the rows it dropped."""
        feed = _Feed(stream, mark=self._mark, tail=f"\n{self._last_row}\n")
        with closing(_batches(feed, self._source, self._columns, self._drop)) as batches:
            while (batch := self._next(batches)) is not None:
                text = self._column(batch, self._columns.text, feed)
                user = None if self._columns.user is None else self._column(batch, self._columns.user, feed)
                rows, before = number_rows(len(batch), self._next_row, self._dropped)
                self._next_row += len(batch) + before
                yield Chunk(text, user, rows, stream.position, self._take(before))
        if not self._closed:
            row = self._open_row or self._next_row - 1
            raise BayesgramError(f"{self._source.name}: row {row}: a quote that is never closed. Mend the row.")
        nothing = pa.array([], pa.large_binary())
        yield Chunk(nothing, nothing, [], stream.position, self._take(len(self._dropped)))

    def _next(self, batches: Iterator[pa.RecordBatch]) -> pa.RecordBatch | None:
        try:
            return next(batches, None)
        except pa.ArrowInvalid as error:
            problem = _explain(self._source, str(error), self._next_row)
        raise problem

    def _drop(self, row: pv.InvalidRow) -> Literal["skip"]:
        """Note a row of the wrong length, or our own last row."""
        number = cast("int", row.number) - 1  # Arrow counts the header as row 1
        if row.text == self._last_row:
            self._closed = True
        elif self._end in row.text:
            self._open_row = number
        else:
            self._dropped.append(number)
        return "skip"

    def _take(self, count: int) -> list[BadRow]:
        taken, self._dropped = self._dropped[:count], self._dropped[count:]
        return [(row, WRONG_COLUMNS) for row in taken]

    def _column(self, batch: pa.RecordBatch, name: str, feed: _Feed) -> pa.LargeBinaryArray:
        """Put a byte that is not UTF-8 where the mark stands for such bytes."""
        column: Any = batch.column(name)
        return as_bytes(pc.replace_substring(column, self._mark, b"\xff") if feed.marked else column)


def _batches(
    feed: _Feed, source: Source, columns: Columns, on_bad_row: _OnBadRow
) -> Generator[pa.RecordBatch, None, None]:
    types = dict.fromkeys(columns.names, pa.large_binary())
    options = pv.ConvertOptions(include_columns=columns.names, column_types=types)
    with _open(feed, source, on_bad_row, options) as reader:
        yield from reader


def _read_header(source: Source) -> list[str]:
    """The column names, read by Arrow from the first block."""
    mark = secrets.token_hex(16)
    with open_stream(source) as stream:
        try:
            with _open(_Feed(stream, mark=mark, tail="\n"), source, lambda _: "skip") as reader:
                names = list[str](reader.schema.names)
        except pa.ArrowInvalid as error:
            problem = _explain(source, str(error), 1)
        else:
            if not any(mark in name for name in names):
                return names
            problem = BayesgramError(f"{source.name}: the header row is not valid UTF-8. Save it as UTF-8.")
    raise problem


def _open(
    feed: _Feed, source: Source, on_bad_row: _OnBadRow, convert: pv.ConvertOptions | None = None
) -> pv.CSVStreamingReader:
    delimiter = _DELIMITERS[source.format]
    return pv.open_csv(
        cast("IO[Any]", feed),
        pv.ReadOptions(use_threads=False, block_size=streams.BLOCK_BYTES),
        pv.ParseOptions(delimiter=delimiter, newlines_in_values=True, invalid_row_handler=on_bad_row),
        convert,
    )


def _explain(source: Source, message: str, row: int) -> BayesgramError:
    """Say what Arrow's message means, without the rows that it may quote."""
    if "Empty CSV file" in message:
        return BayesgramError(f"{source.name}: has no header row. The first row must name the columns.")
    if "straddling" in message:
        limit = f"{streams.BLOCK_BYTES >> 20} MB"
        return BayesgramError(
            f"{source.name}: row {row} or later: longer than {limit}, or a quote that is never closed. Mend the row."
        )
    return BayesgramError(f"{source.name}: can't be read as {source.format}. Check that the file is whole.")
