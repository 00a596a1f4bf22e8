"""Read CSV and TSV as RFC 4180 has it: a header row, quotes around fields, line breaks within quotes.

In:  a `Source`.   Out: chunks; row 1 is the first record after the header, blank lines are no records.
A record ends at a line feed, a carriage return or both. A field is quoted if its first byte is a quote; other stray
quotes are bytes like any other. Python's csv module reads the same (tests/files/test_delimited.py), but for a quote
that is never closed: an error here, whatever follows it.
Does not guess types, delimiters or encodings: every value is bytes, the file is UTF-8.
"""

from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from bayesgram.arrays import Bools, Bytes, Integers
from bayesgram.errors import BayesgramError
from bayesgram.files import streams
from bayesgram.files.columns import Columns
from bayesgram.files.records import Chunk
from bayesgram.files.sources import Source
from bayesgram.files.streams import BYTE_ORDER_MARK, ByteStream, open_stream
from bayesgram.kernels import inlined, kernel

WRONG_COLUMNS = "the wrong number of columns"

_DELIMITERS = {"csv": ord(","), "tsv": ord("\t")}
_QUOTE, _LINE_FEED, _RETURN = ord('"'), ord("\n"), ord("\r")


def read_delimited(source: Source, columns: Columns) -> Iterator[Chunk]:
    """Yield one chunk for each block of the file."""
    delimiter = _DELIMITERS[source.format]
    with open_stream(source) as stream:
        rest = _Rest(source.name, stream)
        header = _read_header(rest, delimiter)
        columns.require(source.name, header, from_rows=True)
        text, user = header.index(columns.text), -1 if columns.user is None else header.index(columns.user)
        while True:
            data = np.frombuffer(rest.data, np.uint8)
            values, texts, users, good, used, is_open = _parse(data, delimiter, len(header), text, user, rest.ended)
            rows = range(rest.row, rest.row + good.size)
            yield Chunk(
                _array(values, texts),
                None if columns.user is None else _array(values, users),
                rows if good.all() else np.array(rows)[good].tolist(),
                stream.position,
                [(rows[index], WRONG_COLUMNS) for index in np.flatnonzero(~good)],
            )
            rest.data, rest.row = rest.data[used:], rows.stop
            if rest.ended:
                break
            rest.grow()
        if is_open:
            raise rest.error("a quote that is never closed")


class _Rest:
    """What is read and not yet parsed."""

    def __init__(self, name: str, stream: ByteStream) -> None:
        self.name, self._stream = name, stream
        self.data, self.row, self.ended = b"", 0, False  # row: the number of the first in data; 0 is the header

    def grow(self) -> None:
        """Read a block, or more if a long row is waiting: it is parsed from its start each time."""
        room = streams.LINE_BYTES + 1 - len(self.data)
        if room <= 0:
            raise self.error(f"longer than {streams.LINE_BYTES >> 20} MB, or a quote that is never closed")
        block = self._stream.content.read(min(room, max(streams.BLOCK_BYTES, len(self.data))))
        self.data, self.ended = self.data + block, not block

    def error(self, problem: str) -> BayesgramError:
        """What is wrong with the first row."""
        row = f"row {self.row}" if self.row else "the header row"
        return BayesgramError(f"{self.name}: {row}: {problem}. Mend the row.")


def _read_header(rest: _Rest, delimiter: int) -> list[str]:
    """Take the column names off `rest`."""
    data, names, stop, is_open = b"", [b""], 0, False
    while stop == len(data) and not rest.ended:
        rest.grow()
        data = rest.data.removeprefix(BYTE_ORDER_MARK).lstrip(b"\r\n")
        names, stop, is_open = _first_row(data, delimiter)
    if not data:
        raise BayesgramError(f"{rest.name}: has no header row. The first row must name the columns.")
    if is_open:
        raise rest.error("a quote that is never closed")
    rest.data, rest.row = data[stop:], 1
    try:
        return [name.decode() for name in names]
    except UnicodeDecodeError:  # it quotes the row, so it ends here
        pass
    raise BayesgramError(f"{rest.name}: the header row is not valid UTF-8. Save it as UTF-8.")


def _first_row(data: bytes, delimiter: int) -> tuple[list[bytes], int, bool]:
    """The fields, where the row stops, and whether a quote is open there."""
    source, out = np.frombuffer(data, np.uint8), np.empty(len(data), np.uint8)
    fields, at, more, is_open = list[bytes](), 0, True, False
    while more:
        at, end, is_open = _copy_field(source, at, delimiter, out, 0)
        fields.append(out[:end].tobytes())
        more = at < len(data) and data[at] == delimiter
        at += more
    return fields, at, is_open


def _array(values: Bytes, offsets: Integers) -> pa.LargeBinaryArray:
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(values)]
    return pa.LargeBinaryArray.from_buffers(pa.large_binary(), offsets.size - 1, buffers)


@inlined
def _ends_row(byte: int) -> bool:
    return byte in (_LINE_FEED, _RETURN)


@kernel
def _copy_field(data: Bytes, at: int, delimiter: int, out: Bytes, end: int) -> tuple[int, int, bool]:
    """Copy a field without its quotes; the positions after it and after its copy, and whether a quote is open."""
    if at < data.size and data[at] == _QUOTE:
        at += 1
        while True:
            while at < data.size and data[at] != _QUOTE:
                out[end] = data[at]
                at, end = at + 1, end + 1
            if at == data.size:
                return at, end, True
            at += 1
            if at == data.size or data[at] != _QUOTE:
                break
            out[end] = _QUOTE
            at, end = at + 1, end + 1
    while at < data.size and data[at] != delimiter and not _ends_row(data[at]):
        out[end] = data[at]
        at, end = at + 1, end + 1
    return at, end, False


@kernel
def _parse(  # noqa: C901 - one state machine
    data: Bytes, delimiter: int, width: int, text: int, user: int, final: bool
) -> tuple[Bytes, Integers, Integers, Bools, int, bool]:
    """Parse the whole records of `data`; the last of them has no line end if `final`.

    Gives bytes, the offsets of texts and of users in them, for each record whether it has `width` fields (only such
    have a text and a user), where the first record that is not whole begins, and whether a quote is open in it.
    """
    size, room = data.size, 2
    for at in range(size):
        room += _ends_row(data[at])
    values = np.empty(2 * size, np.uint8)  # texts, and from the middle on users
    texts, users, good = np.zeros(room, np.int64), np.full(room, size, np.int64), np.zeros(room, np.bool_)
    at = records = kept = 0
    while True:
        while at < size and _ends_row(data[at]):  # a blank line, or the second half of a line end
            at += 1
        begin, fields, is_open = at, 0, False
        if at == size:
            break
        text_end, user_end = texts[kept], users[kept]
        while True:  # values of other columns go where the next text goes, to be overwritten
            at, end, is_open = _copy_field(data, at, delimiter, values, user_end if fields == user else text_end)
            if fields == text:
                text_end = end
            elif fields == user:
                user_end = end
            fields += 1
            if at == size or data[at] != delimiter:
                break
            at += 1
        if is_open or (at == size and not final):
            break
        if fields == width:
            good[records] = True
            kept += 1
            texts[kept], users[kept] = text_end, user_end
        records += 1
    return values, texts[: kept + 1], users[: kept + 1], good[:records], begin, is_open
