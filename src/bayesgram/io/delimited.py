"""Read CSV and TSV exactly as RFC 4180 defines them.

There is a header row, fields may have quotes around them, and line breaks may be within quotes. Row
1 is the first record after the header, and blank lines are no records. Types, delimiters and
encodings are not guessed: every value is bytes, the delimiter is a comma in CSV and a tab in TSV or
what the caller says, and so is the encoding, UTF-8 if nothing is said.

A quote that a program left bare can join the rows of several people into one field, and a bare line
end can cut one person's row in two. A file that shows either is refused whole, also where bad rows
are skipped, since no row of it can be trusted. What shows it:

- bytes after a closing quote; a quote within a field that has none around it; a quote that is never
  closed;
- a line end, not within quotes, unlike the header's (a line feed with or without a carriage return;
  or, in files of old Macs, a carriage return alone);
- a row over several lines with the wrong number of columns (over one line, it is a bad row as any
  other);
- a user id, or a segment, of several lines;
- in TSV, a row over several lines each of which has as many columns as the header.

So of a TSV file in which nothing is quoted and every line has all columns, each line is a row, or
the file is refused. What nothing shows: in CSV (and in TSV with lines that lack columns), a field
that begins with a bare quote, where the very next quote stands at the end of the same column of a
later row. The field is then one that RFC 4180 allows: text of several lines.

tests/helpers/reference_delimited.py is a slow second reader, written from this page.
"""

import re
from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from bayesgram.arrays import Bools, Bytes, Integers
from bayesgram.errors import Argument, BayesgramError, UsageError
from bayesgram.io import streams
from bayesgram.io.inputs import Source, check_first_bytes
from bayesgram.io.records import Chunk, Columns
from bayesgram.io.streams import BYTE_ORDER_MARK, ByteStream, open_stream
from bayesgram.kernels import inlined, kernel, read_uint64
from bayesgram.version import page_pointer

WRONG_COLUMNS = "the wrong number of columns"

_DELIMITERS = {"csv": ",", "tsv": "\t"}
_DELIMITER_NAMES = {";": "semicolons", "|": "bars", "\t": "tabs", ",": "commas"}
_QUOTE = ord('"')
_LINE_FEED = ord("\n")
_RETURN = ord("\r")
_TAB = ord("\t")

# For looking at eight bytes at once: the lowest and the highest bit of each, and eight of a byte.
_ONES = np.uint64(0x0101010101010101)
_TOPS = np.uint64(0x8080808080808080)
_QUOTES = _ONES * np.uint64(_QUOTE)
_LINE_FEEDS = _ONES * np.uint64(_LINE_FEED)
_RETURNS = _ONES * np.uint64(_RETURN)

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
    delimiter = ord(columns.dialect.delimiter or _DELIMITERS[source.format])
    with open_stream(source, columns.dialect.encoding) as stream:
        rest = _UnparsedData(source, stream)
        header = _read_header(rest, delimiter, columns)
        text = header.index(columns.text)
        user = -1 if columns.user is None else header.index(columns.user)
        by = -1 if columns.by is None else header.index(columns.by)
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
            rest.data = rest.data[used:]
            rest.row = rows.stop
            if problem != _FINE and (problem != _OPEN or rest.ended):
                raise rest.refusal(problem)
            if rest.ended:
                break
            rest.grow()


class _UnparsedData:
    """What is read and not yet parsed."""

    def __init__(self, source: Source, stream: ByteStream) -> None:
        self.source = source
        self._stream = stream
        self.data = b""
        self.row = 0  # the number of the first row in `data`; 0 is the header
        self.ended = False  # whether the whole file is read
        self.returns_alone = False  # whether rows end with a carriage return alone

    def grow(self) -> None:
        """Read a block, or more if a long row is waiting: it is parsed from its start each time."""
        max_bytes = streams.LINE_BYTES + 1 - len(self.data)
        if max_bytes <= 0:
            problem = f"longer than {streams.LINE_BYTES >> 20} MB, or a quote that is never closed"
            raise BayesgramError(
                f"{self.source.name}: {_place(self.row)}: {problem}. Correct the row."
            )
        block = self._stream.content.read(min(max_bytes, max(streams.BLOCK_BYTES, len(self.data))))
        self.data += block
        self.ended = not block

    def refusal(self, problem: int) -> BayesgramError:
        """Return why the whole file is refused.

        Something is wrong with the first row of `data`, or with the end of the one before it.
        """
        place = _place(self.row - (problem == _LINE_END))
        return BayesgramError(
            f"{self.source.name}: {place}: {_PROBLEMS[problem]}. The whole file is refused: write"
            " it anew with quotes as RFC 4180 has them, or as Parquet or JSON lines"
            f" ({page_pointer('files')})."
        )


def _place(row: int) -> str:
    return f"row {row}" if row else "the header row"


def _read_header(rest: _UnparsedData, delimiter: int, columns: Columns) -> list[str]:
    """Take the header row off `rest`, and return the column names."""
    data = b""
    names = [b""]
    stop = 0
    problem = _FINE
    # One byte more than the row must be there: what follows a carriage return.
    while stop + 1 >= len(data) and not rest.ended and problem in (_FINE, _OPEN):
        rest.grow()
        data = rest.data.removeprefix(BYTE_ORDER_MARK).lstrip(b"\r\n")
        # A line of spreadsheets that names the delimiter stands above the header.
        data = re.sub(rb"\Asep=%b\r?\n" % re.escape(bytes([delimiter])), b"", data)
        names, stop, problem = _parse_first_row(data, delimiter)
    check_first_bytes(rest.source, rest.data)
    if not data:
        raise BayesgramError(
            f"{rest.source.name}: has no header row. The first row must name the columns."
        )
    _refuse_other_delimiter(rest.source, data, names, chr(delimiter), columns)
    if problem != _FINE:
        raise rest.refusal(problem)
    header = [name.decode(errors="replace") for name in names]
    if [name.encode() for name in header] != names:
        raise BayesgramError(
            f"{rest.source.name}: the header row is not valid UTF-8. Save the file as UTF-8, or"
            " name its encoding, such as ",
            Argument("encoding", "latin-1"),
            ".",
        )
    columns.check_present(rest.source.name, header, found_in="header")
    rest.data = data[stop:]
    rest.row = 1
    rest.returns_alone = rest.data.startswith(b"\r") and not rest.data.startswith(b"\r\n")
    return header


def _refuse_other_delimiter(
    source: Source, data: bytes, header: list[bytes], delimiter: str, columns: Columns
) -> None:
    """Refuse a file whose names are separated by something else.

    To guess the delimiter would be to trust a person's text.
    """
    wanted = {name.encode(errors="replace") for name in columns.names}
    if wanted <= set(header):
        return
    for other, other_name in _DELIMITER_NAMES.items():
        if other == delimiter:
            continue
        names, _, problem = _parse_first_row(data, ord(other))
        if problem == _FINE and (wanted <= set(names) or len(names) > len(header) == 1):
            expected = _DELIMITER_NAMES.get(delimiter, repr(delimiter))
            raise UsageError(
                f"{source.name}: the names in its first row have {other_name} between them, and the"
                f" file is read with {expected}. Say so with ",
                Argument("delimiter", repr(other)),
                ".",
            )


def _parse_first_row(data: bytes, delimiter: int) -> tuple[list[bytes], int, int]:
    """Return the fields, where the row stops, and what is wrong there."""
    source = np.frombuffer(data, np.uint8)
    out = np.empty(len(data), np.uint8)
    fields: list[bytes] = []
    at = 0
    more = True
    problem = _FINE
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
def _contains(eight: np.uint64, byte: np.uint64) -> np.uint64:
    """Return a number that is not zero if one of eight bytes is this one; `byte` is eight of it."""
    other = eight ^ byte
    return (other - _ONES) & ~other & _TOPS


@kernel
def _find_field_end(data: Bytes, at: int, delimiter: int) -> int:
    """Return where the next byte is that can stop a field without quotes, or the end.

    Eight bytes are looked at at a time, then one by one.
    """
    delimiters = _ONES * np.uint64(delimiter)
    while at + 8 <= data.size:
        eight = read_uint64(data, at)
        if (
            _contains(eight, delimiters)
            | _contains(eight, _QUOTES)
            | _contains(eight, _LINE_FEEDS)
            | _contains(eight, _RETURNS)
        ):
            break
        at += 8
    while at < data.size and not _stops(data[at], delimiter) and data[at] != _QUOTE:
        at += 1
    return at


@kernel
def _find_quote(data: Bytes, at: int) -> int:
    """Return where the next quote is, or the end."""
    while at + 8 <= data.size and not _contains(read_uint64(data, at), _QUOTES):
        at += 8
    while at < data.size and data[at] != _QUOTE:
        at += 1
    return at


@kernel
def _copy(data: Bytes, first: int, last: int, out: Bytes, end: int) -> int:
    """Copy data[first:last] to out[end:], and return where the copy ends."""
    size = np.uint64(last - first)
    source = np.uint64(first)
    target = np.uint64(end)
    for at in range(size):
        out[target + at] = data[source + at]
    return end + last - first


@kernel
def _copy_field(data: Bytes, at: int, delimiter: int, out: Bytes, end: int) -> tuple[int, int, int]:
    """Copy a field without its quotes.

    Returns:
        The positions after the field and after its copy, and what is wrong there.
    """
    if at == data.size or data[at] != _QUOTE:
        stop = _find_field_end(data, at, delimiter)
        is_stray = stop < data.size and data[stop] == _QUOTE
        return stop, _copy(data, at, stop, out, end), _STRAY if is_stray else _FINE
    while True:
        quote = _find_quote(data, at + 1)
        end = _copy(data, at + 1, quote, out, end)
        if quote == data.size:
            return quote, end, _OPEN
        at = quote + 1
        if at == data.size or data[at] != _QUOTE:
            return at, end, _FINE if at == data.size or _stops(data[at], delimiter) else _AFTER
        out[end] = _QUOTE
        end += 1


@kernel
def _skip_line_ends(data: Bytes, at: int, returns_alone: bool, final: bool) -> tuple[int, int]:
    """Return where a row begins, after blank lines, and what is wrong there.

    A line end that may go on in the next block is not skipped.
    """
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
    """Return whether these are several lines, each with `width` columns if quotes are ignored.

    Blank lines don't count.
    """
    lines = 0
    begin = first
    delimiters = 0
    for at in range(first, last + 1):
        if at == last or _ends_row(data[at]):
            if at > begin:
                if delimiters != width - 1:
                    return False
                lines += 1
            begin = at + 1
            delimiters = 0
        elif data[at] == delimiter:
            delimiters += 1
    return lines > 1


@kernel
def _parse(  # noqa: C901, PLR0912, PLR0915 - one state machine
    data: Bytes,
    delimiter: int,
    returns_alone: bool,
    width: int,
    text: int,
    user: int,
    by: int,
    final: bool,
) -> tuple[Bytes, Integers, Integers, Integers, Bools, int, int]:
    """Parse the complete records of `data`.

    Args:
        data: The bytes; a record begins at the first.
        delimiter: The byte between fields.
        returns_alone: Whether rows end with a carriage return alone.
        width: How many columns there are.
        text: The column with texts.
        user: The column with user ids, or −1.
        by: The column with segments, or −1.
        final: Whether the file ends here, so that the last record needs no line end.

    Returns:
        Bytes; the offsets of texts, of users and of segments in them; for each record whether it
        has `width` fields (only such have values); where the first record begins that is not
        complete or has a problem; and the problem.
    """
    size = data.size
    max_records = 2
    for at in range(size):
        max_records += _ends_row(data[at])
    values = np.empty((2 if by < 0 else 3) * size, np.uint8)  # texts, then users, then segments
    texts = np.zeros(max_records, np.int64)
    users = np.full(max_records, size, np.int64)
    bys = np.full(max_records, 2 * size, np.int64)
    good = np.zeros(max_records, np.bool_)
    at = records = kept = 0
    while True:
        at, problem = _skip_line_ends(data, at, returns_alone, final)
        begin = at
        fields = 0
        quoted = quoted_user = quoted_by = False
        if at == size or problem != _FINE or _ends_row(data[at]):
            break
        text_end = texts[kept]
        user_end = users[kept]
        by_end = bys[kept]
        while True:  # values of other columns go where the next text goes, to be overwritten
            is_quoted = at < size and data[at] == _QUOTE
            place = user_end if fields == user else by_end if fields == by else text_end
            at, end, problem = _copy_field(data, at, delimiter, values, place)
            quoted = quoted or is_quoted
            if fields == text:
                text_end = end
            elif fields == user:
                user_end = end
                quoted_user = is_quoted
            elif fields == by:
                by_end = end
                quoted_by = is_quoted
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
            texts[kept] = text_end
            users[kept] = user_end
            bys[kept] = by_end
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
