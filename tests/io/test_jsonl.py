import json

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from bayesgram.errors import BayesgramError, UsageError
from bayesgram.io import jsonl, streams
from bayesgram.io.jsonl import (
    NOT_JSON,
    NOT_OBJECT,
    TEXT_NOT_STRING,
    USER_NOT_ID,
    parse_block,
    parse_lines,
)
from bayesgram.io.records import Columns

BOTH = Columns("text", "user")
TEXT = Columns("text", None)

SCALARS = [
    *[
        '""',
        '"a"',
        '"7"',
        '"é"',
        '"\\u00e9"',
        '"\\n\\"\\\\\\/"',
        '"\\ud83d\\ude00"',
        '"\\u0000"',
        '"{}"',
        '"}\\n{"',
    ],
    *[
        '"\\ud800"',
        '"\\udc00"',
        '"\\udcc3\\udca9"',
        '"\\ud800\\u0041"',
        '"\\x"',
        '"\\u12"',
        '"\t"',
        '"\x7f"',
        '"\0"',
    ],
    *[
        "0",
        "-0",
        "7",
        "-7",
        "07",
        "1.0",
        "1.",
        "1e2",
        "1e400",
        "-",
        "+1",
        "9223372036854775808",
        "LONG",
    ],
    *[
        "null",
        "true",
        "false",
        "NaN",
        "-NaN",
        "Inf",
        "-Inf",
        "Infinity",
        "-Infinity",
        "nul",
        "",
        "'a'",
        "/*x*/1",
    ],
    *[
        '"2020-01-01T00:00:00"',
        '"2020-01-01"',
        "[" * 3000 + "]" * 3000,
        "[" * 40 + "]" * 40,
        "\xa01",
        "\ufeff1",
    ],
]
values = st.recursive(
    st.sampled_from(SCALARS),
    lambda inner: (
        st.lists(inner, max_size=3).map(lambda items: f"[{','.join(items)}]")
        | st.lists(st.tuples(st.sampled_from(['"user"', '"x"']), inner), max_size=2).map(
            lambda items: "{" + ",".join(f"{key}:{value}" for key, value in items) + "}"
        )
    ),
    max_leaves=4,
)
good_values = st.sampled_from(['"a"', '"é"', '"\\ud83d\\ude00"', "null", '"2020-01-01"'])
keys = st.sampled_from(['"user"', '"text"', '"\\u0075ser"', '"x"', '"User"', '""', '"\ud800"'])
blanks = st.sampled_from(["", "", " ", "\t", "\r", " \r", "\x0b", "\ufeff"])


@st.composite
def objects(draw, value=values):
    members = draw(st.lists(st.tuples(keys, value), max_size=4))
    colon, comma = draw(st.sampled_from([(":", ","), (" : ", " , "), (":", ",\r")]))
    return "{" + comma.join(f"{key}{colon}{content}" for key, content in members) + "}"


@st.composite
def lines(draw):
    line = draw(
        objects(good_values)
        | objects(good_values)
        | objects()
        | values
        | st.lists(objects(good_values), max_size=3).map("".join)
        | st.sampled_from(
            [
                "",
                '{"x":[{}',
                "{}]}",
                '{"user":',
                '"a"}',
                '{"text":"',
                '"}',
                "{}\0{}",
                "{} {",
                "} {}",
            ]
        )
    )
    line = line.replace("LONG", "1" * 5000).replace("DEEP", "[" * 3000 + "]" * 3000)
    raw = (draw(blanks) + line + draw(blanks)).encode("utf-8", "surrogatepass")
    if draw(st.integers(0, 9)) == 0:
        at = draw(st.integers(0, len(raw)))
        raw = (
            raw[:at]
            + draw(st.sampled_from([b"\xff", b"\xc3", b"\xed\xa0\x80", b"\0", b"\r"]))
            + raw[at:]
        )
    return raw


tame_lines = st.builds(
    '{{"user":{},"x":{},"text":{}}}'.format,
    good_values,
    st.sampled_from(
        ["0", "NaN", "-Inf", '"\xff{}"', '[{"user":1}]', "[" * 40 + "]" * 40, "1" * 30]
    ),
    good_values,
).map(lambda line: line.encode("latin-1" if "\xff" in line else "utf-8"))


def outcome(chunk):
    """What both ways must share; bytes that are not UTF-8 differ, and are all bad rows in the end."""
    user = None if chunk.user is None else [readable(value) for value in chunk.user.to_pylist()]
    return (
        [readable(value) for value in chunk.text.to_pylist()],
        user,
        list(chunk.rows),
        list(chunk.bad),
    )


def readable(value):
    try:
        return None if value is None else value.decode()
    except UnicodeDecodeError:
        return UnicodeDecodeError


@given(
    st.lists(lines(), max_size=6) | st.lists(tame_lines | st.just(b""), max_size=6),
    st.sampled_from([b"\n", b"\r\n"]),
    st.booleans(),
    st.sampled_from([BOTH, TEXT]),
)
@example([b"{}{}", b'{"user":', b'"a"}'], b"\n", True, BOTH)
@example([b"", b"{}"], b"\n", False, BOTH)
@example([b"{}{}", b"{}\0{}", b"{}"], b"\n", True, BOTH)
@example([b'{"user":null,"user":"b"}', b'{"user":"b","user":null}'], b"\n", True, BOTH)
@example([b'{"x":' + b"[" * 3000 + b"]" * 3000 + b',"user":"a"}'], b"\n", True, BOTH)
@example([b'{"x":-Inf,"user":7}', b'{"x":Infinity,"user":-0}'], b"\n", True, BOTH)
@settings(deadline=None)  # a shared machine may stall
def test_both_ways_agree_and_no_line_depends_on_another(some, newline, ended, columns):
    block = newline.join(some) + (newline if ended else b"")
    by_block = outcome(parse_block(block, columns))
    assert by_block == outcome(parse_lines(block, columns))
    alone = [outcome(parse_block(line, columns, row)) for row, line in enumerate(some, 1)]
    for part, index in zip(by_block, range(4), strict=True):
        if part is not None:
            assert part == [entry for one in alone for entry in one[index]]


def test_clean_blocks_take_the_fast_way(monkeypatch):
    monkeypatch.setattr(jsonl, "parse_lines", None)
    block = b'{"user":"a","text":"NaN, Information }\\n{","x":[{},{"user":3}]}\n\r\n \n{"text":null,"user":"b"}\r\n{}'
    assert outcome(parse_block(block, BOTH)) == (
        ["NaN, Information }\n{", None, None],
        ["a", "b", None],
        [1, 4, 5],
        [],
    )
    assert outcome(parse_block(b'{"user":7}\n{"user":-0}\n', BOTH))[1] == ["7", "0"]
    assert outcome(parse_block(b'{"text":"t"}\n', TEXT)) == (["t"], None, [1], [])


def test_mixed_ids_huge_ids_and_the_last_of_equal_keys():
    block = b'{"user":7}\n{"user":"7"}\n{"user":%d}\n{"user":1,"user":"z"}\n' % 10**30
    assert outcome(parse_block(block, BOTH))[1] == ["7", "7", "1" + "0" * 30, "z"]


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ('{"user": "a"', NOT_JSON),
        ('{"user": "a"} {"user": "b"}', NOT_JSON),
        ("hello", NOT_JSON),
        ("[1]", NOT_OBJECT),
        ("null", NOT_OBJECT),
        ('{"user": 1.0}', USER_NOT_ID),
        ('{"user": true}', USER_NOT_ID),
        ('{"user": ["a"]}', USER_NOT_ID),
        ('{"user": "a", "text": 3}', TEXT_NOT_STRING),
        ('{"user": "a", "text": true}', TEXT_NOT_STRING),
    ],
)
def test_why_a_line_is_bad(put, read, line, reason):
    path = put("x.jsonl", f'{{"user":"a","text":"b"}}\n\n{line}\n'.encode())
    with pytest.raises(BayesgramError) as caught:
        read(path)
    assert str(caught.value) == (
        f"{path}: row 3: {reason}. Correct the row, or skip and count such rows with skip_bad_rows=True."
    )


def test_lines_longer_than_a_block_and_row_numbers_across_blocks(put, read, monkeypatch):
    monkeypatch.setattr(streams, "BLOCK_BYTES", 64)
    rows = [(f"u{n}", "x" * (n * 37 % 400)) for n in range(40)]
    data = [json.dumps({"user": user, "text": text}) for user, text in rows]
    path = put("x.jsonl", "\n\n".join(data).encode())
    assert read(path) == rows
    data[30] = "{"
    path = put("x.jsonl", "\n\n".join(data).encode())
    with pytest.raises(BayesgramError, match=r": row 61: not valid JSON\."):
        read(path)
    assert read(path, skip_bad_rows=True) == rows[:30] + rows[31:]


def test_a_line_too_long_for_memory(put, read, monkeypatch):
    monkeypatch.setattr(streams, "BLOCK_BYTES", 1 << 10)
    monkeypatch.setattr(streams, "LINE_BYTES", 1 << 20)
    path = put(
        "x.jsonl", b'{"user":"a","text":"b"}\n{"user":"a","text":"' + b"x" * (1 << 21) + b'"}'
    )
    with pytest.raises(BayesgramError) as caught:
        read(path)
    assert str(caught.value) == f"{path}: row 2: longer than 1 MB. Split the row."


@pytest.mark.parametrize("data", [b"", b"\n\r\n  \n", b"\xef\xbb\xbf"])
def test_an_empty_file_has_no_records(put, read, data):
    assert read(put("x.jsonl", data)) == []


def test_byte_order_mark_and_missing_newline(put, read):
    path = put("x.jsonl", b'\xef\xbb\xbf{"user":"a","text":"b"}\r\n{"user":"c","text":"d"}')
    assert read(path) == [("a", "b"), ("c", "d")]


def test_missing_text_is_empty(put, read):
    assert read(put("x.jsonl", b'{"user":1}\n{"user":2,"text":null}\n{"user":3,"text":"t"}')) == [
        ("1", ""),
        ("2", ""),
        ("3", "t"),
    ]


@pytest.mark.parametrize(
    ("missing", "data"),
    [
        ("user", b'{"author":"a","text":"b"}\n{"zip":1}'),
        ("text", b'oops\n{"author":"a","user":"b"}\n{"x":3}'),
    ],
)
def test_a_key_that_no_line_has_is_a_missing_column(put, read, missing, data):
    path = put("x.jsonl", data)
    with pytest.raises(UsageError) as caught:
        read(path, skip_bad_rows=True)
    present = {"user": "'author', 'text'", "text": "'author', 'user'"}[missing]
    assert str(caught.value) == (
        f"{path}: no column '{missing}'; the columns are {present}. Name the right one with `{missing}_column`."
    )
