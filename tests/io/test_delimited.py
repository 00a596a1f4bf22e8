import csv
import io
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bayesgram.errors import BayesgramError, UsageError
from bayesgram.io import streams
from bayesgram.io.delimited import WRONG_COLUMNS, read_delimited
from bayesgram.io.inputs import find_sources
from bayesgram.io.records import Columns
from helpers.hypothesis_profiles import examples
from helpers.reference_delimited import (
    AFTER,
    COLUMNS,
    LINE_END,
    OPEN,
    ROWS,
    STRAY,
    USER,
    error_message,
    expected_rows,
    read_slowly,
)


def message(read, path, **options):
    with pytest.raises(BayesgramError) as caught:
        read(path, **options)
    return str(caught.value)


@pytest.fixture(scope="module")
def parse(tmp_path_factory):
    """parse(bytes, block) gives {row: (user, text), or the reason why it is bad}, and the error that ends it."""
    folder = tmp_path_factory.mktemp("parse")

    def all_rows(data, block, name="x.csv"):
        path = folder / name
        path.write_bytes(data)
        (source,) = find_sources(path, allow_plain_text=False)
        rows, error = {}, None
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(streams, "BLOCK_BYTES", block)
            try:
                for chunk in read_delimited(source, Columns("text", "user")):
                    chunk.text.validate(full=True)
                    chunk.user.validate(full=True)
                    records = zip(chunk.user.to_pylist(), chunk.text.to_pylist(), strict=True)
                    found = [*zip(chunk.rows, records, strict=True), *chunk.bad]
                    assert sorted(row for row, _ in found) == [
                        len(rows) + n for n in range(1, len(found) + 1)
                    ]
                    rows |= dict(found)
            except BayesgramError as caught:
                error = str(caught).removeprefix(f"{path}: ")
        return rows, error

    return all_rows


def test_quotes_and_line_breaks(put, read):
    path = put("x.csv", b'user,text,n\r\na,"x, ""y""\r\nz",1\r\n\r\nb,"5"" disk",2\n"c","",3')
    assert read(path) == [("a", 'x, "y"\r\nz'), ("b", '5" disk'), ("c", "")]


@pytest.mark.parametrize("skip", [True, False])
@pytest.mark.parametrize(
    ("name", "rows", "row", "problem"),
    [
        ("x.tsv", b'alice\t"hello\nbob\tmy secret\ncarol\t"well" she said\n', 2, AFTER),
        ("x.tsv", b'alice\t"hello\nbob\tmy secret\n', 2, OPEN),
        ("x.tsv", b'alice\t"hello\nbob\tmy secret\ncarol\tworld"\n', 2, ROWS),
        ("x.tsv", b'alice\t"hello\r\n\r\nbob\tworld"\r\n', 2, ROWS),
        ("x.tsv", b'alice\t"hello\nbob"\tmy secret\n', 2, COLUMNS),
        ("x.tsv", b'alice\thi\n"bob\tmy secret\ncarol"\thi\n', 3, USER),
        ("x.tsv", b'alice\thi\nbob\t5" disk\n', 3, STRAY),
        ("x.csv", b'alice,"hello\nbob,my secret\ncarol,"well" she said\n', 2, AFTER),
        ("x.csv", b'alice,"she said \\"hi\\""\n', 2, AFTER),
        ("x.csv", b'alice,"hi" \n', 2, AFTER),
        ("x.csv", b'alice, "hi"\n', 2, STRAY),
        ("x.csv", b'alice,hi"\n', 2, STRAY),
        ("x.csv", b'alice,"hello\nbob","my secret"\n', 2, COLUMNS),
        ("x.csv", b'"alice\nbob",hi\n', 2, USER),
        ("x.csv", b"alice,hi\rbob,my secret\n", 2, LINE_END),
    ],
)
def test_a_file_whose_rows_may_be_joined_is_refused_whole(
    put, read, name, rows, row, problem, skip
):
    header = b"user\ttext\nanna\thi\n" if name == "x.tsv" else b"user,text\nanna,hi\n"
    path = put(name, header + rows)
    assert message(read, path, skip_bad_rows=skip) == f"{path}: {error_message(row, problem)}"


def test_what_no_reader_can_see(put, read):
    """In CSV, a bare quote at the start of a field and the next at its end in a later row: legal text of two lines."""
    assert read(put("x.csv", b'user,text\nalice,"hello\nbob,world"\n')) == [
        ("alice", "hello\nbob,world")
    ]


def test_several_lines_in_tab_separated_text(put, read):
    rows = b'user\ttext\na\t"x\ny"\nb\t"x\ty\nz\tx"\nc\t"\n"\n"d"\t"e"\n'
    assert read(put("x.tsv", rows)) == [("a", "x\ny"), ("b", "x\ty\nz\tx"), ("c", "\n"), ("d", "e")]
    assert read(put("one.tsv", b'text\n"a\nb"\n'), user=None) == ["a\nb"]


@pytest.mark.parametrize("header", [b'"user"x,text', b'us"er,text', b'"user,text'])
def test_a_header_with_bare_quotes(put, read, header):
    problem = {b'"user"x': AFTER, b'us"er': STRAY, b'"user': OPEN}[header.removesuffix(b",text")]
    path = put("x.csv", header + b"\na,b\n")
    assert message(read, path) == f"{path}: {error_message(0, problem)}"


@pytest.mark.parametrize(
    ("end", "other"), [(b"\n", b"\r"), (b"\r\n", b"\r"), (b"\r", b"\n"), (b"\r", b"\r\n")]
)
@pytest.mark.parametrize("block", [1, 2, 5, 100])
def test_one_file_has_one_kind_of_line_end(parse, end, other, block):
    rows = {1: (b"a", b"b"), 2: (b"c", b"d")}
    data = end.join([b"user,text", b"a,b", b"c,d" + other + b"e,f", b"g,h"])
    assert parse(data, block) == (rows, error_message(2, LINE_END))
    assert parse(b"user,text" + end + end + other + b"a,b", block) == (
        {},
        error_message(0, LINE_END),
    )
    assert parse(b"user,text\na,b\r\nc,d\n\r\n", block) == (rows, None)
    assert parse(b"user,text\na,b\r\nc,d\r", block) == (rows, None)  # nothing comes after it


def test_tab_separated_with_quotes(put, read):
    assert read(put("x.tsv", b'user\ttext\na\t"x\ty"\nb\tx,y\n')) == [("a", "x\ty"), ("b", "x,y")]


def test_values_are_never_guessed(put, read):
    path = put("x.csv", b"user,text\n007,NA\n7,null\n2020-01-01,\n1.0,true\nNaN,a\0b\n")
    assert read(path) == [
        ("007", "NA"),
        ("7", "null"),
        ("2020-01-01", ""),
        ("1.0", "true"),
        ("NaN", "a\0b"),
    ]


def test_byte_order_mark(put, read):
    assert read(put("x.csv", b"\xef\xbb\xbfuser,text\na,b\n")) == [("a", "b")]


@pytest.mark.parametrize("data", [b"user,text", b"user,text\n", b"user,text\r\n\r\n"])
def test_a_header_alone_has_no_records(put, read, data):
    assert read(put("x.csv", data)) == []


@pytest.mark.parametrize("data", [b"", b"\n\n", b"\xef\xbb\xbf"])
@pytest.mark.parametrize("name", ["x.csv", "x.tsv.zst"])
def test_no_header_row(put, read, name, data):
    path = put(name, data)
    assert message(read, path) == f"{path}: has no header row. The first row must name the columns."


def test_a_header_that_is_not_utf8(put, read):
    path = put("x.csv", b"user,text,stra\xdfe\na,b,c\n")
    assert (
        message(read, path)
        == f"{path}: the header row is not valid UTF-8. Save the file as UTF-8, or name its encoding, such as encoding=latin-1."
    )


def test_two_columns_of_one_name(put, read):
    path = put("x.csv", b"user,text,text,x,x\n1,2,3,4,5\n")
    assert message(read, path) == f"{path}: 2 columns are called 'text'. Rename all but one."
    assert read(put("y.csv", b"user,text,x,x\n1,2,3,4\n")) == [("1", "2")]


def test_a_missing_column_shows_no_row_of_a_file_without_header(put, read):
    path = put("x.csv", b"alice,my secret\n")
    with pytest.raises(UsageError) as caught:
        read(path)
    assert str(caught.value) == (
        f"{path}: no column 'text' (what stands for names is not shown: it may be a person's text). Name the right one with"
        " `text_column`, as the first row spells it; if the first row names no columns, put one before it that does:"
        " user,text."
    )
    for row in ("alice,hello", "user 5551234 id,text to alice", "user αλ id,message"):
        assert "may be a person's text" in message(read, put("words.csv", f"{row}\n".encode()))
    assert message(read, put("spaces.csv", b"User ID,Message\n")) == (
        f"{path.parent}/spaces.csv: no column 'text'; the columns are 'User ID', 'Message'."
        " Name the right one with `text_column`."
    )
    assert message(read, put("named.csv", b"author,body_text\n")) == (
        f"{path.parent}/named.csv: no column 'text'; the columns are 'author', 'body_text'."
        " Name the right one with `text_column`."
    )
    assert message(read, put("half.csv", b"who wrote it,text\n")) == (
        f"{path.parent}/half.csv: no column 'user'; the columns are 'who wrote it', 'text'."
        " Name the right one with `user_column`."
    )
    assert message(read, path, user=None) == (
        f"{path}: no column 'text'; the columns are 'alice', 'my secret'. Name the right one with `text_column`."
    )


@pytest.mark.parametrize("row", [b"x", b"x,y,z", b"x\xff", b'"x\xff"', b"\xff\xfe,\xfd,"])
def test_the_wrong_number_of_columns(put, read, row):
    path = put("x.csv", b"user,text\na,b\n\nc,d\n" + row + b"\ne,f\n")
    assert message(read, path) == (
        f"{path}: row 3: the wrong number of columns. Correct the row, or skip and count such rows with skip_bad_rows=True."
    )
    assert read(path, skip_bad_rows=True) == [("a", "b"), ("c", "d"), ("e", "f")]


@pytest.mark.parametrize(
    ("row", "reason"),
    [
        (b",text", "no user id"),
        (b'"",text', "no user id"),
        (b"e,x\xffy", "the text is not valid UTF-8"),
        (b"e,\xc3", "the text is not valid UTF-8"),
        (b"\xed\xa0\x80,x", "the user id is not valid UTF-8"),
    ],
)
def test_bad_values_after_dropped_rows(put, read, row, reason):
    path = put("x.csv", b"user,text\nbad\na,b\n1,2,3\n" + row + b"\nbad\nz,\xc3\xa9\n")
    assert message(read, path).startswith(f"{path}: row 1: the wrong number of columns. ")
    assert read(path, skip_bad_rows=True) == [("a", "b"), ("z", "é")]
    path = put("y.csv", b"user,text\na,b\n\n" + row + b"\nbad\n")
    assert message(read, path).startswith(f"{path}: row 2: {reason}. ")


@pytest.mark.parametrize("tail", [b'c,"d\ne,f\n', b'c,"', b'c,"d""', b'"c,d\ne,f\n', b'"'])
@pytest.mark.parametrize("skip", [True, False])
def test_a_quote_that_is_never_closed(put, read, tail, skip):
    path = put("x.csv", b"user,text\na,b\n" + tail)
    assert message(read, path, skip_bad_rows=skip) == f"{path}: {error_message(2, OPEN)}"


@pytest.mark.compiled
@pytest.mark.parametrize("block", [1000, 1 << 19, 1 << 23])
@pytest.mark.parametrize("row", [b"u,%s", b'u,"%s"', b'"u%s",'])
@pytest.mark.parametrize("end", [b"", b"\n", b"\r\nv,t\n"])
def test_the_longest_row_and_a_longer_one(parse, monkeypatch, block, row, end):
    limit = 1 << 20
    monkeypatch.setattr(streams, "LINE_BYTES", limit)
    start = b"user,text\n" + b"u,t\n" * 1000
    whole = row % (b"x" * (limit + 2 - len(row)))
    rows, error = parse(start + whole + end, block)
    assert (error, len(rows)) == (None, 1002 if b"v" in end else 1001)
    assert sum(map(len, rows[1001])) == limit - 1 - row.count(b'"')
    rows, error = parse(start + whole.replace(b"x", b"xx", 1) + end, block)
    assert error == "row 1001: longer than 1 MB, or a quote that is never closed. Correct the row."
    assert rows == dict.fromkeys(range(1, 1001), (b"u", b"t"))


def test_a_header_that_never_ends(put, read, monkeypatch):
    assert message(read, path := put("x.csv", b'user,"text\na,b\n')) == (
        f"{path}: {error_message(0, OPEN)}"
    )
    monkeypatch.setattr(streams, "LINE_BYTES", 1 << 20)
    assert message(read, path := put("x.csv", b"x" * (1 << 21))) == (
        f"{path}: the header row: longer than 1 MB, or a quote that is never closed. Correct the row."
    )


def test_quoted_names_and_blank_lines_before_them(put, read):
    path = put("x.csv", b'\xef\xbb\xbf\r\n\n"us""er",x,"the\r\ntext",""\r\na,b,c,d\n')
    assert read(path, user='us"er', text="the\r\ntext") == [("a", "c")]


def test_one_column(put, read):
    assert read(put("x.csv", b'text\na\n\n""\n"b""c"\n'), user=None) == ["a", "", 'b"c']


def test_a_bad_row_before_an_open_quote_is_named_first(put, read):
    path = put("x.csv", b'user,text\na\nb,"')
    assert message(read, path).startswith(f"{path}: row 1: the wrong number of columns. ")


@pytest.mark.parametrize("end", [b"\n", b"\r\n", b"\r"])
@pytest.mark.parametrize("block", [1, 2, 3, 7, 64, 1000])
def test_every_line_end_in_every_place(parse, end, block):
    data = end.join(
        [b"user,text", b"a,b", b"", b"short", b'"c","\r""\n"', b'"d""",""""', b"1,2,3", b"g,"]
    )
    rows = [
        (b"a", b"b"),
        WRONG_COLUMNS,
        (b"c", b'\r"\n'),
        (b'd"', b'"'),
        WRONG_COLUMNS,
        (b"g", b""),
    ]
    for tail in (b"", end, end + end):
        assert parse(data + tail, block) == (dict(enumerate(rows, 1)), None)


def test_row_numbers_across_blocks(put, read, monkeypatch):
    monkeypatch.setattr(streams, "BLOCK_BYTES", 200)
    rows = [b"u%d,t\xc3\xa9%d" % (n, n) for n in range(1, 301)]
    rows[6] = rows[250] = rows[299] = b"short"
    good = [(f"u{n}", f"té{n}") for n in range(1, 301) if n not in {7, 251, 300}]
    path = put("x.csv", b"user,text\n" + b"\n".join(rows))
    assert read(path, skip_bad_rows=True) == good
    rows[6] = b"u7,t"
    path = put("x.csv", b"user,text\n" + b"\n".join(rows))
    assert message(read, path).startswith(f"{path}: row 251: the wrong number of columns.")
    rows[250], rows[280] = b"u,t", b"u281,\xff"
    path = put("x.csv", b"user,text\n" + b"\n".join(rows))
    assert message(read, path).startswith(f"{path}: row 281: the text is not valid UTF-8.")
    rows[280] = b"u,t"
    path = put("x.csv", b"user,text\n" + b"\n".join(rows))
    assert message(read, path).startswith(f"{path}: row 300: the wrong number of columns.")


DELIMITERS = {"x.csv": ",", "x.tsv": "\t"}
formats = st.sampled_from(list(DELIMITERS))
cells = st.text(st.sampled_from('ab é,"\n\r\t😀\0'), max_size=6)
ids = st.text(st.sampled_from('ab é,"\t😀\0'), max_size=6)
blocks = st.integers(1, 200)


@given(
    st.lists(st.tuples(ids, cells), min_size=1, max_size=8),
    blocks,
    formats,
    # With a line end of its own choice, csv.writer of Python 3.11 leaves other line ends within fields unquoted.
    st.sampled_from(
        [(csv.QUOTE_MINIMAL, "\r\n"), *((csv.QUOTE_ALL, end) for end in ("\r\n", "\n", "\r"))]
    ),
)
@examples(200)  # a shared machine may stall
def test_what_python_writes_is_read_back(parse, rows, block, name, style):
    out = io.StringIO(newline="")
    quoting, end = style
    csv.writer(out, delimiter=DELIMITERS[name], quoting=quoting, lineterminator=end).writerows(
        [("user", "text"), *rows]
    )
    found, error = parse(out.getvalue().encode(), block, name)
    written = {row: (user.encode(), text.encode()) for row, (user, text) in enumerate(rows, 1)}
    if error is None or name == "x.csv":
        assert (found, error) == (written, None)
    else:  # each line of a text has a tab: the price of seeing joined rows
        assert error == error_message(len(found) + 1, ROWS)
        assert re.search("[\r\n][^\r\n]*\t", rows[len(found)][1])


hostile = st.lists(
    st.sampled_from(
        [b"a", b'"', b'"', b"\t", b",", b"\n", b"\r", b"\r\n", b"\xff", b'",', b'\n"b,"']
    )
)
hostile_bytes = hostile.map(b"".join)


@given(hostile_bytes, blocks, formats, st.sampled_from([b"\n", b"\r\n", b"\r"]))
@examples(700)
def test_hostile_bytes_are_read_as_the_page_says(parse, body, block, name, end):
    data = DELIMITERS[name].encode().join([b"user", b"text"]) + end + body
    assert parse(data, block, name) == expected_rows(data, DELIMITERS[name])


@given(hostile_bytes, blocks)
@examples(150)
def test_a_hostile_header_is_read_as_the_page_says(parse, rest, block):
    """Blank lines, stray bytes after the names, and a third column that may be anything."""
    data = b"\xef\xbb\xbf\r\n\nuser,text," + rest
    rows, error = read_slowly(data)
    found, said = parse(data, block)
    if said is not None and said.startswith("the header row is not valid UTF-8. "):
        return
    assert said == error
    assert len(found) == len(rows)


@given(hostile_bytes, formats)
@examples(200)
def test_in_a_file_that_is_not_refused_each_row_means_what_it_means_alone(parse, body, name):
    header = DELIMITERS[name].encode().join([b"user", b"text"]) + b"\n"
    rows, _ = read_slowly(header + body, DELIMITERS[name])
    found, _ = parse(header + body, 100, name)
    for number, (_, row) in enumerate(rows, 1):
        assert parse(header + row, 100, name) == ({1: found[number]}, None)


unquoted = st.text(st.sampled_from('ab ,""'), max_size=4)


@given(
    st.integers(2, 4).flatmap(
        lambda width: st.lists(st.lists(unquoted, min_size=width, max_size=width), min_size=1)
    )
)
@examples(250)
def test_of_a_tsv_file_without_quoting_each_line_is_a_row_or_it_is_refused(parse, rows):
    header = ["user", "text", "x", "y"][: len(rows[0])]
    found, error = parse(
        "".join("\t".join(row) + "\n" for row in [header, *rows]).encode(), 100, "x.tsv"
    )
    if error is None:
        assert len(found) == len(rows)
    for number, record in found.items():  # also those before the row that shows it
        bare = tuple(value.replace('"', "").encode() for value in rows[number - 1][:2])
        assert (
            record == WRONG_COLUMNS or tuple(value.replace(b'"', b"") for value in record) == bare
        )


@given(
    st.binary(max_size=60)
    | st.lists(st.sampled_from(b'a",\n\r\xc3\xa9\xff\0'), max_size=60).map(bytes),
    blocks,
)
@examples(150)
def test_the_size_of_blocks_changes_nothing(parse, body, block):
    assert parse(b"user,text\n" + body, block) == parse(b"user,text\n" + body, 1 << 20)
