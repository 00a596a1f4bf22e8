import csv
import io

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bayesgram.errors import BayesgramError, UsageError
from bayesgram.files import read_records, streams
from bayesgram.files.delimited import number_rows


def message(read, path, **options):
    with pytest.raises(BayesgramError) as caught:
        read(path, **options)
    return str(caught.value)


def test_quotes_line_breaks_and_stray_quotes(put, read):
    path = put("x.csv", b'user,text,n\r\na,"x, ""y""\r\nz",1\r\n\r\nb,5" disk,2\r\n"c","",3')
    assert read(path) == [("a", 'x, "y"\r\nz'), ("b", '5" disk'), ("c", "")]


def test_tab_separated_with_quotes(put, read):
    assert read(put("x.tsv", b'user\ttext\na\t"x\ty"\nb\tx,y\n')) == [("a", "x\ty"), ("b", "x,y")]


def test_values_are_never_guessed(put, read):
    path = put("x.csv", b"user,text\n007,NA\n7,null\n2020-01-01,\n1.0,true\nNaN,a\0b\n")
    assert read(path) == [("007", "NA"), ("7", "null"), ("2020-01-01", ""), ("1.0", "true"), ("NaN", "a\0b")]


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
    assert message(read, path) == f"{path}: the header row is not valid UTF-8. Save it as UTF-8."


def test_two_columns_of_one_name(put, read):
    path = put("x.csv", b"user,text,text,x,x\n1,2,3,4,5\n")
    assert message(read, path) == f"{path}: 2 columns are called 'text'. Rename all but one."
    assert read(put("y.csv", b"user,text,x,x\n1,2,3,4\n")) == [("1", "2")]


def test_a_missing_column_shows_no_row_of_a_file_without_header(put, read):
    path = put("x.csv", b"alice,my secret\n")
    with pytest.raises(UsageError) as caught:
        read(path)
    assert str(caught.value) == (
        f"{path}: no column 'text' in the header row (names not shown: without a header row they would be a "
        "person's text). Name the right one with --text-column."
    )
    assert message(read, path, user=None) == (
        f"{path}: no column 'text'; the columns are 'alice', 'my secret'. Name the right one with --text-column."
    )


@pytest.mark.parametrize("row", [b"x", b"x,y,z", b"x\xff", b'"x\xff\n"', b"\xff\xfe,\xfd,"])
def test_the_wrong_number_of_columns(put, read, row):
    path = put("x.csv", b"user,text\na,b\n\nc,d\n" + row + b"\ne,f\n")
    assert message(read, path) == (
        f"{path}: row 3: the wrong number of columns. Mend the row, or count and skip such rows with --skip-bad-rows."
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
    assert message(read, path, skip_bad_rows=skip) == f"{path}: row 2: a quote that is never closed. Mend the row."


def test_a_row_longer_than_a_block(put, read, monkeypatch):
    monkeypatch.setattr(streams, "BLOCK_BYTES", 1 << 20)
    good = b"u,t\n" * 400_000
    path = put("x.csv", b"user,text\n" + good + b'u,"' + good)
    assert message(read, path) == (
        f"{path}: row 400001 or later: longer than 1 MB, or a quote that is never closed. Mend the row."
    )


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


@given(st.lists(st.integers(0, 1), max_size=40), st.lists(st.integers(0, 10), max_size=6), st.integers(1, 50))
def test_rows_are_numbered_as_if_none_were_dropped(is_bad, sizes, first):
    """`dropped` may run ahead of the batch, as Arrow's parser does."""
    good = [first + index for index, bad in enumerate(is_bad) if not bad]
    dropped = [first + index for index, bad in enumerate(is_bad) if bad]
    numbered, next_row = [], first
    for size in [*sizes, len(good)]:
        count = min(size, len(good) - len(numbered))
        rows, before = number_rows(count, next_row, dropped)
        numbered += rows
        dropped, next_row = dropped[before:], next_row + count + before
    assert numbered == good


cells = st.text(st.sampled_from('ab é,"\n\r\t😀\0'), max_size=6)


@given(st.lists(st.tuples(cells.filter(bool), cells), min_size=1, max_size=8), st.integers(64, 200))
@settings(deadline=None)  # a shared machine may stall
def test_what_python_writes_is_read_back(tmp_path_factory, rows, block):
    out = io.StringIO(newline="")
    csv.writer(out).writerows([("user", "text"), *rows])
    path = tmp_path_factory.mktemp("csv") / "x.csv"
    path.write_bytes(out.getvalue().encode())
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(streams, "BLOCK_BYTES", block)
        found = [
            (user.decode(), text.decode())
            for records in read_records(path, text_column="text", user_column="user")
            for user, text in zip(records.user.to_pylist(), records.text.to_pylist(), strict=True)
        ]
    assert found == rows
