"""Read JSON lines: one object on each line, blank lines between them allowed.

A row is a line, numbered from 1, blank lines included. A block of lines goes through Arrow's
parser. Where Arrow refuses the block, or might have seen other lines than we do, Python's parser
takes its lines one by one and finds the bad ones. A line means the same both ways, so that one
person's broken line can't change what becomes of another's (tests/io/test_jsonl.py).

A JSON array, or an object spread over several lines, is not read: such files are refused whole,
and the message says what makes lines of them.
"""

import io
import json
import re
from collections.abc import Iterator
from itertools import product
from typing import Any

import pyarrow as pa
import pyarrow.json as pj

from bayesgram.errors import UsageError
from bayesgram.io.inputs import Source
from bayesgram.io.records import (
    TEXT_IS_LIST,
    TEXT_IS_OBJECT,
    BadRow,
    Chunk,
    Columns,
    as_bytes,
)
from bayesgram.io.streams import line_blocks, open_stream

NOT_JSON = "not valid JSON"
NOT_OBJECT = "not a JSON object (one object a line)"
TEXT_NOT_STRING = "the text is not a string"
USER_NOT_ID = "the user id is neither a string nor a whole number"
BY_NOT_VALUE = "the segment is neither a string nor a whole number"

_BLANK = b" \t\r\n"
_LINE_BREAKS = re.compile(rb"\n[ \t\r\n]*")
_OBJECT_BREAKS = re.compile(rb"\}[ \t\r]*\n[ \t\r\n]*\{")
_RETURNS_ALONE = re.compile(rb"\}[ \t]*\r[ \t\r]*\{")


class _IntegerDigits(str):
    """The digits of an integer; Python's own integers stop at 4,300 digits."""

    __slots__ = ()


def _parse_int(digits: str) -> _IntegerDigits:
    return _IntegerDigits("0" if digits == "-0" else digits)


_DECODER = json.JSONDecoder(parse_int=_parse_int)


def read_jsonl(source: Source, columns: Columns) -> Iterator[Chunk]:
    """Yield one chunk for each block of lines."""
    row = 1
    is_checked = False  # whether the keys of some object were looked at
    with open_stream(source, columns.dialect.encoding) as stream:
        for block in line_blocks(stream, source):
            if row == 1:
                _refuse_documents(source, block)
            is_checked = is_checked or _check_keys(source, block, columns)
            yield parse_block(block, columns, row, stream.position)
            row += block.count(b"\n")


def parse_block(block: bytes, columns: Columns, row: int = 1, position: int = 0) -> Chunk:
    """Parse a block of whole lines, the first of which is line `row`."""
    table = _parse_fast(block, columns)
    if table is None:
        return parse_lines(block, columns, row, position)
    rows: range | list[int] = range(row, row + len(table))
    if len(table) < block.count(b"\n") + (not block.endswith(b"\n")):
        rows = [row for row, _ in _lines(block, row)]
    return Chunk(
        _column(table, columns.text),
        None if columns.user is None else _column(table, columns.user),
        rows,
        position,
        by=None if columns.by is None else _column(table, columns.by),
    )


def parse_lines(block: bytes, columns: Columns, row: int = 1, position: int = 0) -> Chunk:
    """Parse the lines one by one, and set the bad ones aside."""
    good: list[tuple[int, list[bytes | None]]] = []
    bad: list[BadRow] = []
    for number, line in _lines(block, row):
        parsed = _parse_line(line, columns)
        if isinstance(parsed, str):
            bad.append((number, parsed))
        else:
            good.append((number, parsed))
    arrays = {
        name: pa.array([values[index] for _, values in good], pa.large_binary())
        for index, name in enumerate(columns.names)
    }
    return Chunk(
        arrays[columns.text],
        None if columns.user is None else arrays[columns.user],
        [number for number, _ in good],
        position,
        bad,
        None if columns.by is None else arrays[columns.by],
    )


def _parse_fast(block: bytes, columns: Columns) -> pa.Table | None:
    """Return the table that Arrow reads, or None unless every line is sure to be exactly one row.

    Arrow takes line breaks for blanks. Where all of them stand between "}" and "{", which no JSON
    value allows within itself, each line holds whole objects; as many rows as lines then means one
    object on each.
    """
    body = block.strip(_BLANK)
    breaks = len(_LINE_BREAKS.findall(body))
    if (
        not (body.startswith(b"{") and body.endswith(b"}"))
        or len(_OBJECT_BREAKS.findall(body)) != breaks
    ):
        return None
    for id_types in product((pa.string(), pa.int64()), repeat=len(columns.names) - 1):
        types = dict(zip(columns.names, (pa.string(), *id_types), strict=True))
        table = _read_with_arrow(body, pa.schema(types.items()))
        if table is not None and len(table) == breaks + 1:
            return table
    return None


def _read_with_arrow(body: bytes, schema: pa.Schema) -> pa.Table | None:
    try:
        return pj.read_json(
            io.BytesIO(body),
            read_options=pj.ReadOptions(use_threads=False, block_size=len(body) + 1),
            parse_options=pj.ParseOptions(
                explicit_schema=schema, unexpected_field_behavior="ignore"
            ),
        )
    except pa.ArrowException:  # its message quotes the row, so it ends here
        return None


def _column(table: pa.Table, name: str) -> pa.LargeBinaryArray:
    return as_bytes(table.column(name).combine_chunks())


def _parse_line(line: bytes, columns: Columns) -> list[bytes | None] | str:
    """Return the values of the columns in one line, or the reason why there are none.

    What Python can't parse may still be good for Arrow: a thousand nested brackets, or "-Inf" as a
    number.
    """
    value = _load(line)
    if value is None:
        table = _parse_fast(line, columns)
        if table is None:
            return NOT_JSON
        return [_column(table, name)[0].as_py() for name in columns.names]
    if not isinstance(value[0], dict):
        return NOT_OBJECT
    text, *ids = (value[0].get(name) for name in columns.names)
    for id_, reason in zip(ids, (USER_NOT_ID, BY_NOT_VALUE), strict=False):
        if not (id_ is None or isinstance(id_, str)):
            return reason
    if not (text is None or type(text) is str):
        reasons = ((list, TEXT_IS_LIST), (dict, TEXT_IS_OBJECT), (object, TEXT_NOT_STRING))
        return next(reason for kind, reason in reasons if isinstance(text, kind))
    return [_encode(value) for value in (text, *ids)]


def _load(line: bytes) -> tuple[Any] | None:
    """Return what a line holds, in a tuple; None if it is not JSON.

    Bytes that are not UTF-8 become lone surrogates, as do escaped ones.
    """
    try:
        return (_DECODER.decode(line.decode("utf-8", "surrogateescape")),)
    except (ValueError, RecursionError):
        return None


def _encode(value: str | None) -> bytes | None:
    """Return the bytes of a value; `clean` finds those of lone surrogates, which are not UTF-8."""
    return None if value is None else value.encode("utf-8", "surrogatepass")


def _lines(block: bytes, row: int) -> Iterator[tuple[int, bytes]]:
    """Yield the lines that are not blank, with their numbers."""
    return (
        (number, line) for number, line in enumerate(block.split(b"\n"), row) if line.strip(_BLANK)
    )


def _refuse_documents(source: Source, block: bytes) -> None:
    """Refuse a file that begins as one document, or that has no line ends but those of old Macs."""
    body = block.strip(_BLANK)
    first = body.partition(b"\n")[0].strip(_BLANK)
    if first.startswith(b"["):
        problem = "is one JSON array"
        command = "jq -c '.[]' OLD > NEW.jsonl"
    elif first == b"{":
        problem = "has objects spread over several lines"
        command = "jq -c . OLD > NEW.jsonl"
    elif b"\n" not in body and _RETURNS_ALONE.search(body):
        problem = "ends its lines with a carriage return alone"
        command = r"tr '\r' '\n' < OLD > NEW.jsonl"
    else:
        return
    raise UsageError(
        f"{source.name}: {problem}; one object a line is read. `{command}` makes such a file."
    )


def _check_keys(source: Source, block: bytes, columns: Columns) -> bool:
    """Refuse a first block in which no line has one of the keys.

    Returns:
        Whether any line of it is an object.
    """
    first: dict[str, Any] | None = None  # the first object
    seen: set[str] = set()
    for _, line in _lines(block, 1):
        value = _load(line)
        if value is None or not isinstance(value[0], dict):
            continue
        first = first if first is not None else value[0]
        seen.update(name for name in columns.names if name in value[0])
        if len(seen) == len(columns.names):
            columns.warn_about(source.name, list(first))
            return True
    if first is None:
        return False
    nested = {key: tuple(inner) for key, inner in first.items() if isinstance(inner, dict)}
    columns.check_present(
        source.name, list(dict.fromkeys([*first, *sorted(seen)])), found_in="keys", nested=nested
    )
    return True
