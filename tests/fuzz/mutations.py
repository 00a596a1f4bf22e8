"""Change inputs so that they become wrong in the ways files go wrong, and in those somebody would
choose.

In:  a `Random`, and bytes, a JSON value or columns.   Out: bytes, the same for the same `Random`.
Does not know any format of ours: `readers`, `tables`, `models`, `ledgers` and `pages` say what is
plausible there.
"""

import io
import json
import math
from collections.abc import Callable, Sequence
from random import Random

import pyarrow as pa
import pyarrow.parquet as pq

LONGEST = 6_000  # bytes of an input: more is slower, and seldom different
SECRET = "Zq§9"  # stands in every private text and user id; no message may hold it

TOKENS = [
    *(
        b"",
        b"\0",
        b"\n",
        b"\r",
        b"\r\n",
        b"\n\n",
        b" ",
        b"\t",
        b"\x0b",
        b"\x1a",
        b'"',
        b'""',
        b"'",
        b"\\",
        b",",
        b";",
    ),
    *(
        b"\xef\xbb\xbf",
        b"\xff\xfe",
        b"\xff",
        b"\xc3",
        b"\xed\xa0\x80",
        b"\xf4\x90\x80\x80",
        b"\xc0\x80",
        b"\xe2\x80\xa8",
    ),
    *(
        b"0",
        b"-1",
        b"1",
        b"7",
        b"1e400",
        b"-1e400",
        b"1e-400",
        b"NaN",
        b"nan",
        b"inf",
        b"-inf",
        b"Infinity",
        b"0x10",
    ),
    *(
        b"2147483648",
        b"-2147483649",
        b"9223372036854775808",
        b"18446744073709551616",
        b"1" * 400,
        b"1_000",
        b"1.5",
    ),
    *(
        b"null",
        b"true",
        b"{}",
        b"[]",
        b"[" * 40,
        b"[" * 3000 + b"]" * 3000,
        b'{"a":' * 1500,
        b"{",
        b"}",
        b":",
        b"<s>",
    ),
    *(
        b"</s>",
        b"<unk>",
        b"\\data\\",
        b"\\end\\",
        b"\\1-grams:",
        "é".encode(),
        "\u0301".encode(),
        "İ".encode(),
    ),
    *(
        "日本".encode(),
        "\u200d".encode(),
        "\U0001f469".encode(),
        "\u2028".encode(),
        "\ufeff".encode(),
        b"x" * 500,
    ),
]
RAW_JSON = [  # what json.dumps does not write
    *(
        "1e400",
        "-1e400",
        "1e-400",
        "NaN",
        "-NaN",
        "Infinity",
        "-Inf",
        "07",
        "1.",
        "-0",
        "1" * 5000,
        "0." + "1" * 400,
    ),
    *(
        "[" * 3000 + "]" * 3000,
        '{"a":' * 1500 + "1" + "}" * 1500,
        '"\\ud800"',
        '"\\udc80"',
        '"\\x"',
        "'a'",
        "",
        "nul",
    ),
]
JSON_VALUES = [
    *(
        None,
        True,
        False,
        0,
        -1,
        1,
        2,
        7,
        1.5,
        -0.0,
        1e308,
        5e-324,
        2**31,
        2**63,
        2**64,
        -(2**63) - 1,
        10**30,
    ),
    *(
        "",
        "a",
        "7",
        "é",
        "\ud800",
        "\0",
        "a b",
        "<s> a",
        SECRET,
        "x" * 300,
        "PROVED",
        "words",
        "nothing such",
        "1e400",
    ),
    *(
        [],
        {},
        [[]],
        [None],
        [1, "a"],
        {"": None},
        {"a": {"b": []}},
        {"1": 1.0},
        {"1": "x"},
        {"x": 1},
    ),
]
_MARK = "\x01raw{}\x01"


def mutated(
    random: Random, data: bytes, others: Sequence[bytes] = (), tokens: Sequence[bytes] = TOKENS
) -> bytes:
    """One to some changes at random places."""
    changes = min(1 + int(random.expovariate(0.7)), 8)
    for _ in range(changes):
        data = random.choice(_CHANGES)(random, data, others or (data,), tokens)[:LONGEST]
    return data


def _part(random: Random, data: bytes, longest: int = 40) -> tuple[int, int]:
    start = random.randint(0, len(data))
    return start, min(len(data), start + random.randint(0, longest))


def _flip(random: Random, data: bytes, others: Sequence[bytes], tokens: Sequence[bytes]) -> bytes:
    if not data:
        return data
    changed, at = bytearray(data), random.randrange(len(data))
    changed[at] ^= 1 << random.randrange(8)
    return bytes(changed)


def _set(random: Random, data: bytes, others: Sequence[bytes], tokens: Sequence[bytes]) -> bytes:
    if not data:
        return data
    changed, at = bytearray(data), random.randrange(len(data))
    changed[at] = random.choice((0, 1, 0x7F, 0x80, 0xFF, 10, 13, 34, random.randrange(256)))
    return bytes(changed)


def _delete(random: Random, data: bytes, others: Sequence[bytes], tokens: Sequence[bytes]) -> bytes:
    start, stop = _part(random, data)
    return data[:start] + data[stop:]


def _insert(random: Random, data: bytes, others: Sequence[bytes], tokens: Sequence[bytes]) -> bytes:
    at = random.randint(0, len(data))
    return data[:at] + random.choice(tokens) + data[at:]


def _replace(
    random: Random, data: bytes, others: Sequence[bytes], tokens: Sequence[bytes]
) -> bytes:
    start, stop = _part(random, data, 12)
    return data[:start] + random.choice(tokens) + data[stop:]


def _repeat(random: Random, data: bytes, others: Sequence[bytes], tokens: Sequence[bytes]) -> bytes:
    start, stop = _part(random, data)
    return data[:stop] + data[start:stop] * random.choice((1, 1, 2, 3, 30)) + data[stop:]


def _splice(random: Random, data: bytes, others: Sequence[bytes], tokens: Sequence[bytes]) -> bytes:
    other = random.choice(others)
    start, stop = _part(random, other, len(other))
    at = random.randint(0, len(data))
    return data[:at] + other[start:stop] + data[at + (stop - start) * random.randint(0, 1) :]


def _cut(random: Random, data: bytes, others: Sequence[bytes], tokens: Sequence[bytes]) -> bytes:
    return (
        data[: random.randint(0, len(data))]
        if random.random() < 0.3
        else data[: -random.randint(1, 9)]
    )


def _lines(random: Random, data: bytes, others: Sequence[bytes], tokens: Sequence[bytes]) -> bytes:
    """Move, drop or repeat a line, or end some lines in another way."""
    lines = data.split(b"\n")
    at = random.randrange(len(lines))
    match random.randrange(4):
        case 0:
            del lines[at]
        case 1:
            lines.insert(random.randrange(len(lines)), lines[at])
        case 2:
            lines[at] += b"\r"
        case _:
            random.shuffle(lines)
    return b"\n".join(lines)


def _number(random: Random, data: bytes, others: Sequence[bytes], tokens: Sequence[bytes]) -> bytes:
    """Replace a run of digits by another number."""
    places = [at for at, byte in enumerate(data[:2000]) if 48 <= byte <= 57]
    if not places:
        return data
    start = stop = random.choice(places)
    while stop < len(data) and 48 <= data[stop] <= 57:
        stop += 1
    number = random.choice(
        (
            b"0",
            b"1",
            b"2",
            b"9",
            b"-3",
            b"99999999999",
            b"1e9",
            b"1e-9",
            b"0.5",
            b"%d" % (stop - start),
        )
    )
    return data[:start] + number + data[stop:]


_CHANGES: list[Callable[[Random, bytes, Sequence[bytes], Sequence[bytes]], bytes]] = [
    *(
        _flip,
        _set,
        _delete,
        _insert,
        _insert,
        _replace,
        _replace,
        _repeat,
        _splice,
        _cut,
        _lines,
        _number,
    ),
]


def mutated_json(random: Random, value: object) -> bytes:
    """The value with other parts, as text; sometimes the text is changed too."""
    text = json.dumps(value)
    for _ in range(random.choice((1, 1, 1, 2, 4))):
        value = _changed_value(random, json.loads(text))
        text = json.dumps(
            value,
            ensure_ascii=random.random() < 0.5 or "\\ud8" in text,
            indent=random.choice((None, 1)),
        )
    for number, raw in enumerate(RAW_JSON):
        text = text.replace(json.dumps(_MARK.format(number)), raw)
    data = text.encode("utf-8", "surrogatepass")
    return mutated(random, data) if random.random() < 0.1 else data


def _changed_value(random: Random, value: object) -> object:
    """Replace, drop, move or wrap one part, anywhere inside."""
    holder = {"": value}
    place: list[tuple[dict | list, object]] = [(holder, "")]
    stack: list[object] = [value]
    while stack:
        part = stack.pop()
        keys = (
            list(part)
            if isinstance(part, dict)
            else range(len(part))
            if isinstance(part, list)
            else []
        )
        place += [(part, key) for key in keys]
        stack += [part[key] for key in keys]
    inside, key = random.choice(place)
    match random.randrange(10):
        case 0 | 1:
            del inside[key]
        case 2:
            inside[key] = [inside[key]]
        case 3 if isinstance(inside, dict):
            inside[random.choice((f"{key} ", str(key).upper(), "", "\0", "x"))] = inside.pop(key)
        case 4:
            other, at = random.choice(place)
            if at in other if isinstance(other, dict) else at < len(other):
                inside[key] = json.loads(json.dumps(other[at]))
        case 5 | 6:
            inside[key] = _MARK.format(random.randrange(len(RAW_JSON)))
        case 7 if isinstance(inside[key], (int, float)) and not isinstance(inside[key], bool):
            inside[key] = random.choice(
                (-inside[key], inside[key] + 1, str(inside[key]), float(inside[key]), 0)
            )
        case _:
            inside[key] = json.loads(json.dumps(random.choice(JSON_VALUES)))
    return holder.get("")


_STRINGS = [
    "a",
    "b",
    "a b",
    "b a",
    "a b c",
    "",
    " ",
    "é",
    "\0",
    f"u{SECRET}",
    "7",
    "007",
    "x" * 300,
    " a",
    "a  b",
    "<s> a",
]
_NUMBERS = [0, 1, 2, 3, 7, -1, 2**31 - 1, 2**31, 2**53, 2**63 - 1]
_FLOATS = [0.0, 0.5, 1.0, 0.25, -0.5, math.nan, math.inf, 1e-9, 5e-324, 1e308]
TYPES: list[tuple[pa.DataType, Sequence[object]]] = [
    *(
        (kind, _STRINGS)
        for kind in (
            pa.string(),
            pa.large_string(),
            pa.string_view(),
            pa.dictionary(pa.int32(), pa.string()),
        )
    ),
    *(
        (kind, [text.encode() for text in _STRINGS] + [b"\xff"])
        for kind in (pa.binary(), pa.large_binary(), pa.binary(1))
    ),
    *(
        (kind, _NUMBERS)
        for kind in (
            pa.int8(),
            pa.int16(),
            pa.int32(),
            pa.int64(),
            pa.uint8(),
            pa.uint32(),
            pa.uint64(),
        )
    ),
    *((kind, _FLOATS) for kind in (pa.float16(), pa.float32(), pa.float64())),
    (pa.decimal128(10, 2), [1, 2]),
    (pa.bool_(), [True, False]),
    (pa.null(), [None]),
    (pa.timestamp("ms"), [0, 1]),
    (pa.date32(), [0]),
    (pa.list_(pa.string()), [["a"], []]),
    (pa.list_(pa.int64()), [[1], []]),
    (pa.struct([("user", pa.string()), ("x", pa.int64())]), [{"user": "a", "x": 1}]),
    (pa.map_(pa.string(), pa.int64()), [[("a", 1)]]),
    (pa.dictionary(pa.int8(), pa.int64()), [1, 2]),
]


def mutated_table(
    random: Random, columns: dict[str, pa.Array], metadata: dict[str, Sequence[str]]
) -> bytes:
    """A Parquet file of these columns in which some are missing, of another type, or have other
    values.
    """
    named = [*columns.items()]
    for _ in range(random.choice((0, 1, 1, 1, 2))):
        named = _changed_columns(random, named)
    rows = min((len(column) for _, column in named), default=0)
    rows = random.choice((rows, rows, rows, random.randint(0, rows)))
    table = pa.table([column[:rows] for _, column in named], names=[name for name, _ in named])
    said = {key: random.choice(values) for key, values in metadata.items() if random.random() < 0.7}
    table = table.replace_schema_metadata(said or None)
    data = parquet(random, table)
    return mutated(random, data) if random.random() < 0.4 else data


def _is_utf8(column: pa.Array) -> bool:
    try:
        column.validate(full=True)
    except pa.ArrowInvalid:
        return False
    return True


def _changed_columns(
    random: Random, named: list[tuple[str, pa.Array]]
) -> list[tuple[str, pa.Array]]:
    at = random.randrange(len(named) + 1)
    name, column = named[at] if at < len(named) else ("more", pa.array(range(4)))
    match random.randrange(7):
        case 0:
            return named[:at] + named[at + 1 :]
        case 1:
            name = random.choice(
                (f"{name} ", name.upper(), "", "é\0", random.choice(named)[0] if named else "x")
            )
        case 2 | 3:
            if pa.types.is_string(column.type) and not _is_utf8(
                column
            ):  # changed before: Python has no words for it
                return named
            values = column.to_pylist()
            some = random.choice((_NUMBERS, _STRINGS, _FLOATS, [None], values or [None]))
            for _ in range(random.choice((1, 1, 3))):
                values[random.randrange(len(values) or 1) :][:1] = []
                values.insert(random.randint(0, len(values)), random.choice(some))
            column = _array(values, column.type)
            if (
                pa.types.is_string(column.type) and random.random() < 0.2
            ):  # not UTF-8: Arrow does not look
                raw = [
                    value and value.encode() + random.choice((b"", b"\xff", b"\xc3"))
                    for value in column.to_pylist()
                ]
                column = pa.array(raw, pa.binary()).view(pa.string())
        case 4:
            column = pa.concat_arrays([column, column]) if len(column) < 200 else column
        case _:
            kind, values = random.choice(TYPES)
            column = _array(
                [
                    random.choice((*values, None))
                    if random.random() < 0.1
                    else random.choice(values)
                    for _ in column
                ],
                kind,
            )
    return [*named[:at], (name, column), *named[at + 1 :]]


def _array(values: list[object], kind: pa.DataType) -> pa.Array:
    """The values in this type, or another that holds them."""
    for wanted in (kind, None):
        try:
            return pa.array(values, wanted)
        except (pa.ArrowException, TypeError, OverflowError, ValueError):
            continue
    return pa.array([str(value) for value in values])


def parquet(random: Random, table: pa.Table) -> bytes:
    """The bytes of a Parquet file, written in one of the ways that files are."""
    out = io.BytesIO()
    pq.write_table(
        table,
        out,
        compression=random.choice(("none", "none", "snappy", "zstd")),
        row_group_size=random.choice((None, 1, 2, 3)),
        use_dictionary=random.random() < 0.5,
        version=random.choice(("1.0", "2.4", "2.6")),
        data_page_version=random.choice(("1.0", "2.0")),
        store_schema=random.random() < 0.7,
        write_statistics=random.random() < 0.5,
    )
    return out.getvalue()
