"""Read CSV and TSV as RFC 4180 has it, to the letter: a header row, quotes around fields, line breaks within quotes.

In:  a `Source`.   Out: chunks; row 1 is the first record after the header, blank lines are no records.
Does not guess types, delimiters or encodings: every value is bytes, the file is UTF-8.

A quote that a program left bare can join the rows of several people into one field, or a bare line end can cut one
person's row in two. A file that shows either is refused whole, also where bad rows are skipped, since no row of it can
be trusted. What shows it:

- bytes after a closing quote; a quote within a field that has none around it; a quote that is never closed;
- a line end, not within quotes, unlike the header's (a line feed with or without a carriage return; or, in files of old
  Macs, a carriage return alone);
- a row over several lines with the wrong number of columns (over one line, it is a bad row as any other);
- a user id, or a segment, of several lines;
- in TSV, a row over several lines each of which has as many columns as the header.

So of a TSV file in which nothing is quoted and every line has all columns, each line is a row, or the file is
refused. What nothing shows: in CSV (and in TSV with lines that lack columns), a field that begins with a bare quote,
where the very next quote stands at the end of the same column of a later row. The field is then one that RFC 4180
allows: text of several lines.
(tests/helpers/reference_delimited.py is a slow second reader, written from this page.)
"""

from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from bayesgram.arrays import Bools, Bytes, Integers
from bayesgram.errors import BayesgramError, UsageError
from bayesgram.io import streams
from bayesgram.io.inputs import Source, check_first_bytes
from bayesgram.io.records import Chunk, Columns
from bayesgram.io.streams import BYTE_ORDER_MARK, ByteStream, open_stream
from bayesgram.kernels import inlined, kernel, read_uint64

WRONG_COLUMNS = "the wrong number of columns"

_DELIMITERS = {"csv": ord(","), "tsv": ord("\t")}
_OTHERS = {";": "semicolons", "|": "bars", "\t": "tabs", ",": "commas"}
_QUOTE, _LINE_FEED, _RETURN, _TAB = ord('"'), ord("\n"), ord("\r"), ord("\t")
_ONES, _TOPS = np.uint64(0x0101010101010101), np.uint64(0x8080808080808080)
_QUOTES, _LINE_FEEDS, _RETURNS = (_ONES * np.uint64(byte) for byte in (_QUOTE, _LINE_FEED, _RETURN))

# What is wrong with the quotes or line ends of a file; _FINE is nothing.
_FINE, _OPEN, _AFTER, _STRAY, _LINE_END, _COLUMNS, _USER, _SEGMENT, _ROWS = range(9)
_JOINED = "so the rows of several people may have become one"
_PROBLEMS = {
    _OPEN: f"a quote that is never closed, {_JOINED}",
    _AFTER: f"bytes after a closing quote, {_JOINED}",
    _STRAY: "a quote within a field that has none around it, so the file's quotes can't be trusted",
    _LINE_END: "ends unlike the header row, so one row may have become two",
    _COLUMNS: f"the wrong number of columns over several lines, {_JOINED}",
    _USER: f"a user id of several lines, {_JOINED}",
    _SEGMENT: f"a segment of several lines, {_JOINED}",
    _ROWS: f"several lines that each have all columns, {_JOINED}",
}


def read_delimited(source: Source, columns: Columns) -> Iterator[Chunk]:
    """Yield one chunk for each block of the file."""
    delimiter = _DELIMITERS[source.format]
    with open_stream(source) as stream:
        rest = _Rest(source, stream)
        header = _read_header(rest, delimiter, columns)
        text, user, by = (
            -1 if name is None else header.index(name)
            for name in (columns.text, columns.user, columns.by)
        )
        while True:
            data = np.frombuffer(rest.data, np.uint8)
            values, texts, users, bys, good, used, problem = _parse(
                data, delimiter, rest.returns_alone, len(header), text, user, by, rest.ended
            )
            rows = range(rest.row, rest.row + good.size)
            yield Chunk(
                _array(values, texts),
                None if columns.user is None else _array(values, users),
                rows if good.all() else np.array(rows)[good].tolist(),
                stream.position,
                [(rows[index], WRONG_COLUMNS) for index in np.flatnonzero(~good)],
                None if columns.by is None else _array(values, bys),
            )
            rest.data, rest.row = rest.data[used:], rows.stop
            if problem != _FINE and (problem != _OPEN or rest.ended):
                raise rest.untrusted(problem)
            if rest.ended:
                break
            rest.grow()


class _Rest:
    """What is read and not yet parsed."""

    def __init__(self, source: Source, stream: ByteStream) -> None:
        self.source, self._stream = source, stream
        self.data, self.row, self.ended = (
            b"",
            0,
            False,
        )  # row: the number of the first in data; 0 is the header
        self.returns_alone = False  # whether rows end with a carriage return alone

    def grow(self) -> None:
        """Read a block, or more if a long row is waiting: it is parsed from its start each time."""
        room = streams.LINE_BYTES + 1 - len(self.data)
        if room <= 0:
            problem = f"longer than {streams.LINE_BYTES >> 20} MB, or a quote that is never closed"
            raise BayesgramError(
                f"{self.source.name}: {_place(self.row)}: {problem}. Mend the row."
            )
        block = self._stream.content.read(min(room, max(streams.BLOCK_BYTES, len(self.data))))
        self.data, self.ended = self.data + block, not block

    def untrusted(self, problem: int) -> BayesgramError:
        """Why the whole file is refused: what is wrong with the first row, or with the end of the one before it."""
        place = _place(self.row - (problem == _LINE_END))
        return BayesgramError(
            f"{self.source.name}: {place}: {_PROBLEMS[problem]}. The whole file is refused: write it anew with quotes"
            " as RFC 4180 has them, or as Parquet or JSON lines (docs/files.md)."
        )


def _place(row: int) -> str:
    return f"row {row}" if row else "the header row"


def _read_header(rest: _Rest, delimiter: int, columns: Columns) -> list[str]:
    """Take the column names off `rest`."""
    data, names, stop, problem = b"", [b""], 0, _FINE
    while (
        stop + 1 >= len(data) and not rest.ended and problem in (_FINE, _OPEN)
    ):  # 1: what follows a carriage return
        rest.grow()
        data = rest.data.removeprefix(BYTE_ORDER_MARK).lstrip(b"\r\n")
        names, stop, problem = _first_row(data, delimiter)
    check_first_bytes(rest.source, rest.data)
    if not data:
        raise BayesgramError(
            f"{rest.source.name}: has no header row. The first row must name the columns."
        )
    _refuse_other_delimiter(rest.source, data, names, columns)
    if problem != _FINE:
        raise rest.untrusted(problem)
    header = [name.decode(errors="replace") for name in names]
    if [name.encode() for name in header] != names:
        raise BayesgramError(
            f"{rest.source.name}: the header row is not valid UTF-8. Save it as UTF-8."
        )
    columns.check_present(rest.source.name, header, found_in="header")
    rest.data, rest.row = data[stop:], 1
    rest.returns_alone = rest.data.startswith(b"\r") and not rest.data.startswith(b"\r\n")
    return header


def _refuse_other_delimiter(
    source: Source, data: bytes, header: list[bytes], columns: Columns
) -> None:
    """Refuse a file whose names are parted by something else: to guess would be to trust a person's text."""
    wanted, own = (
        {name.encode(errors="replace") for name in columns.names},
        chr(_DELIMITERS[source.format]),
    )
    if wanted <= set(header):
        return
    for other, called in _OTHERS.items():
        if other == own:
            continue
        names, _, problem = _first_row(data, ord(other))
        if problem == _FINE and (wanted <= set(names) or len(names) > len(header) == 1):
            ending = {"\t": ".tsv", ",": ".csv"}.get(other)
            advice = f"Let its name end with {ending}" if ending else "Write it with commas or tabs"
            raise UsageError(
                f"{source.name}: the names in its first row have {called} between them, and .{source.format} is read"
                f" with {_OTHERS[own]}. {advice}, or write Parquet or JSON lines."
            )


def _first_row(data: bytes, delimiter: int) -> tuple[list[bytes], int, int]:
    """The fields, where the row stops, and what is wrong there."""
    source, out = np.frombuffer(data, np.uint8), np.empty(len(data), np.uint8)
    fields, at, more, problem = list[bytes](), 0, True, _FINE
    while more:
        at, end, problem = _copy_field(source, at, delimiter, out, 0)
        fields.append(out[:end].tobytes())
        more = problem == _FINE and at < len(data) and data[at] == delimiter
        at += more
    return fields, at, problem


def _array(values: Bytes, offsets: Integers) -> pa.LargeBinaryArray:
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(values)]
    return pa.LargeBinaryArray.from_buffers(pa.large_binary(), offsets.size - 1, buffers)


@inlined
def _ends_row(byte: int) -> bool:
    return byte in (_LINE_FEED, _RETURN)


@inlined
def _stops(byte: int, delimiter: int) -> bool:
    return byte in (delimiter, _LINE_FEED, _RETURN)


@inlined
def _has(eight: np.uint64, byte: np.uint64) -> np.uint64:
    """Not zero if one of eight bytes is this one; `byte` is eight of it."""
    other = eight ^ byte
    return (other - _ONES) & ~other & _TOPS


@kernel
def _plain(data: Bytes, at: int, delimiter: int) -> int:
    """Where the next byte is that can stop a field without quotes: eight bytes at a time, then one by one."""
    stop = _ONES * np.uint64(delimiter)
    while at + 8 <= data.size:
        eight = read_uint64(data, at)
        if (
            _has(eight, stop)
            | _has(eight, _QUOTES)
            | _has(eight, _LINE_FEEDS)
            | _has(eight, _RETURNS)
        ):
            break
        at += 8
    while at < data.size and not _stops(data[at], delimiter) and data[at] != _QUOTE:
        at += 1
    return at


@kernel
def _next_quote(data: Bytes, at: int) -> int:
    """Where the next quote is, or the end."""
    while at + 8 <= data.size and not _has(read_uint64(data, at), _QUOTES):
        at += 8
    while at < data.size and data[at] != _QUOTE:
        at += 1
    return at


@kernel
def _copy(data: Bytes, first: int, last: int, out: Bytes, end: int) -> int:
    size, source, target = np.uint64(last - first), np.uint64(first), np.uint64(end)
    for at in range(size):
        out[target + at] = data[source + at]
    return end + last - first


@kernel
def _copy_field(data: Bytes, at: int, delimiter: int, out: Bytes, end: int) -> tuple[int, int, int]:
    """Copy a field without its quotes; the positions after it and after its copy, and what is wrong there."""
    if at == data.size or data[at] != _QUOTE:
        stop = _plain(data, at, delimiter)
        return (
            stop,
            _copy(data, at, stop, out, end),
            _STRAY if stop < data.size and data[stop] == _QUOTE else _FINE,
        )
    while True:
        quote = _next_quote(data, at + 1)
        end = _copy(data, at + 1, quote, out, end)
        if quote == data.size:
            return quote, end, _OPEN
        at = quote + 1
        if at == data.size or data[at] != _QUOTE:
            return at, end, _FINE if at == data.size or _stops(data[at], delimiter) else _AFTER
        out[end] = _QUOTE
        end += 1


@kernel
def _after_line_ends(data: Bytes, at: int, returns_alone: bool, final: bool) -> tuple[int, int]:
    """Where a row begins, after blank lines; and what is wrong there. Stops before a line end that may go on."""
    while at < data.size and _ends_row(data[at]):
        last = at + 1 == data.size
        if data[at] == _RETURN and not returns_alone and last and not final:
            break
        alone = data[at] == _RETURN and not last and data[at + 1] != _LINE_FEED
        if (data[at] == _LINE_FEED) if returns_alone else alone:
            return at, _LINE_END
        at += 1 + (data[at] == _RETURN and not returns_alone and not last)
    return at, _FINE


@kernel
def _has_line_end(data: Bytes, first: int, last: int) -> bool:
    for at in range(first, last):
        if _ends_row(data[at]):
            return True
    return False


@kernel
def _looks_like_rows(data: Bytes, first: int, last: int, delimiter: int, width: int) -> bool:
    """Whether these are several lines, each with `width` columns as if there were no quotes; blank ones don't count."""
    lines, begin, delimiters = 0, first, 0
    for at in range(first, last + 1):
        if at == last or _ends_row(data[at]):
            if at > begin:
                if delimiters != width - 1:
                    return False
                lines += 1
            begin, delimiters = at + 1, 0
        elif data[at] == delimiter:
            delimiters += 1
    return lines > 1


@kernel
def _parse(  # noqa: C901, PLR0912 - one state machine
    data: Bytes,
    delimiter: int,
    returns_alone: bool,
    width: int,
    text: int,
    user: int,
    by: int,
    final: bool,
) -> tuple[Bytes, Integers, Integers, Integers, Bools, int, int]:
    """Parse the whole records of `data`; the last of them has no line end if `final`.

    Gives bytes, the offsets of texts, of users and of segments in them, for each record whether it has `width` fields
    (only such have values), where the first record begins that is not whole or has a problem, and the problem.
    """
    size, room = data.size, 2
    for at in range(size):
        room += _ends_row(data[at])
    values = np.empty((2 if by < 0 else 3) * size, np.uint8)  # texts, then users, then segments
    texts, users, bys = (
        np.zeros(room, np.int64),
        np.full(room, size, np.int64),
        np.full(room, 2 * size, np.int64),
    )
    good = np.zeros(room, np.bool_)
    at = records = kept = 0
    while True:
        at, problem = _after_line_ends(data, at, returns_alone, final)
        begin, fields, quoted, quoted_user, quoted_by = at, 0, False, False, False
        if at == size or problem != _FINE or _ends_row(data[at]):
            break
        text_end, user_end, by_end = texts[kept], users[kept], bys[kept]
        while True:  # values of other columns go where the next text goes, to be overwritten
            is_quoted = at < size and data[at] == _QUOTE
            place = user_end if fields == user else by_end if fields == by else text_end
            at, end, problem = _copy_field(data, at, delimiter, values, place)
            quoted = quoted or is_quoted
            if fields == text:
                text_end = end
            elif fields == user:
                user_end, quoted_user = end, is_quoted
            elif fields == by:
                by_end, quoted_by = end, is_quoted
            fields += 1
            if problem != _FINE or at == size or data[at] != delimiter:
                break
            at += 1
        if problem != _FINE or (at == size and not final):
            break
        if fields != width and quoted and _has_line_end(data, begin, at):
            problem = _COLUMNS
        elif fields == width and quoted_user and _has_line_end(values, users[kept], user_end):
            problem = _USER
        elif fields == width and quoted_by and _has_line_end(values, bys[kept], by_end):
            problem = _SEGMENT
        elif (
            quoted
            and delimiter == _TAB
            and width > 1
            and _looks_like_rows(data, begin, at, delimiter, width)
        ):
            problem = _ROWS
        if problem != _FINE:
            break
        if fields == width:
            good[records] = True
            kept += 1
            texts[kept], users[kept], bys[kept] = text_end, user_end, by_end
        records += 1
    return (
        values,
        texts[: kept + 1],
        users[: kept + 1],
        bys[: kept + 1],
        good[:records],
        begin,
        problem,
    )
