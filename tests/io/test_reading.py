import bz2
import gzip
import lzma
import re
import subprocess
import threading
import traceback
from pathlib import Path
from tempfile import TemporaryDirectory

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bayesgram.errors import BayesgramError
from bayesgram.io import BadRows, read_records, readers, streams
from helpers.hypothesis_profiles import examples

ROWS = [("anna", "red fish"), ("bo", 'blue, "fish"\tand\nmore'), ("7", ""), ("é😀", "naïve\0text")]
PACKED = ("", ".gz", ".zst", ".bz2", ".xz")
TABULAR = [".parquet", ".pq", ".arrow", ".feather"] + [
    kind + packed
    for kind in (".jsonl", ".ndjson", ".json", ".csv", ".tsv", ".tab")
    for packed in PACKED
]
SKIP = "Correct the row, or skip and count such rows with skip_bad_rows=True."


def message(read, path, **options):
    with pytest.raises(BayesgramError) as caught:
        read(path, **options)
    return str(caught.value)


@pytest.mark.parametrize("ending", TABULAR)
def test_every_format_gives_the_same_records(put_rows, read, ending):
    path = put_rows(f"x{ending}", ROWS)
    assert read(path) == ROWS
    assert read(path, user=None) == [text for _, text in ROWS]


@pytest.mark.parametrize("ending", [".txt", ".text.gz", ".txt.zst"])
@pytest.mark.parametrize(
    ("data", "texts"),
    [
        (b"", []),
        (b"\n", [""]),
        (b"a\nb", ["a", "b"]),
        (b"a\r\nb\r\n", ["a", "b"]),
        (b"\xef\xbb\xbfa\n\n\xef\xbb\xbfb\r", ["a", "", "\ufeffb"]),
        (b"a\r\r\n\rb\0\r\r\n", ["a\r", "\rb\0\r"]),
    ],
)
def test_plain_text_has_a_record_on_each_line(put, read, ending, data, texts):
    assert read(put(f"x{ending}", data), user=None) == texts


@pytest.mark.parametrize("block", [1, 2, 3, 7, 1000])
def test_blocks_do_not_show_in_plain_text(put, read, monkeypatch, block):
    monkeypatch.setattr(streams, "BLOCK_BYTES", block)
    path = put("x.txt", "\ufeffab\r\n\r\nçé\n\rx\n".encode())
    assert read(path, user=None) == ["ab", "", "çé", "\rx"]


def test_bad_utf8_in_plain_text(put, read):
    path = put("x.txt", b"a\n\xff\nb\xc3\n")
    assert message(read, path, user=None) == f"{path}: row 2: the text is not valid UTF-8. {SKIP}"
    assert read(path, user=None, skip_bad_rows=True) == ["a"]


def test_rows_are_counted_in_their_own_file(put, read):
    first = put("a.jsonl", b'{"user":"a","text":"t"}\n' * 50)
    second = put("b.csv", b"user,text\n" + b"b,t\n" * 9 + b",t\n")
    third = put("c.jsonl", b'{"user":"a","text":"t"}\n\n{"user":"","text":"t"}\n')
    assert message(read, [first, second]) == f"{second}: row 10: no user id. {SKIP}"
    assert message(read, [first, third]) == f"{third}: row 3: no user id. {SKIP}"


def test_the_first_bad_row_is_named_whatever_its_reason(put, read):
    path = put("x.csv", b"user,text\na,b\n,b\nshort\na,\xff\n")
    assert message(read, path) == f"{path}: row 2: no user id. {SKIP}"
    path = put("x.jsonl", b'{"user":"a","text":"b"}\n{"user":"a","text":"\xff"}\n{\n')
    assert message(read, path) == f"{path}: row 2: the text is not valid UTF-8. {SKIP}"


def test_skipped_rows_are_counted_by_reason_and_again_on_a_second_pass(put):
    inputs = [
        put("x.csv", b"user,text\na,b\n,b\nshort\n1,2,3\n\xff,\xff\na,\xff\n"),
        put(
            "x.jsonl",
            b'{"user":null,"text":"a"}\n{"text":"a"}\n{\n3\n{"user":[]}\n{"user":1,"text":2}\n{"user":1}\n',
        ),
    ]
    reader = read_records(inputs, text_column="text", user_column="user", skip_bad_rows=True)
    assert reader.bad_rows == BadRows({})
    for _ in range(2):
        assert sum(len(batch) for batch in reader) == 2
        assert reader.bad_rows.total == 11
        assert reader.bad_rows.by_reason == {
            "no user id": 3,
            "the wrong number of columns": 2,
            "the user id is not valid UTF-8": 1,
            "the text is not valid UTF-8": 1,
            "not valid JSON": 1,
            "not a JSON object (one object a line)": 1,
            "the user id is neither a string nor a whole number": 1,
            "the text is not a string": 1,
        }


def test_without_users_no_row_needs_one(put, read):
    assert read(
        put("x.jsonl", b'{"user":null,"text":"a"}\n{"user":{},"text":"b"}\n'), user=None
    ) == ["a", "b"]


@pytest.mark.parametrize(
    "ending", [".jsonl", ".csv.gz", ".tsv.zst", ".csv.bz2", ".jsonl.xz", ".parquet", ".arrow"]
)
def test_progress_adds_up_to_the_size(put_rows, monkeypatch, ending):
    monkeypatch.setattr(streams, "BLOCK_BYTES", 2000)
    paths = [
        put_rows(f"{name}{ending}", [(f"u{n}", f"text {n * 7919}") for n in range(2000)])
        for name in "ab"
    ]
    progress = []
    reader = read_records(
        paths, text_column="text", user_column="user", on_progress=progress.append
    )
    rows = sum(len(batch) for batch in reader)
    assert rows == 4000
    assert min(progress) > 0
    assert sum(progress) == reader.size == sum(path.stat().st_size for path in paths)
    assert ending != ".jsonl" or len(progress) > 40


def test_a_large_file_streams(put, monkeypatch):
    """After the first batch, no more than a few blocks of the file have been read."""
    monkeypatch.setattr(streams, "BLOCK_BYTES", 10_000)
    for name, line in [("x.jsonl", b'{"user":"a","text":"b"}\n'), ("x.txt", b"some text\n")]:
        progress = []
        path = put(name, line * 50_000)
        user = "user" if name == "x.jsonl" else None
        reader = iter(
            read_records(path, text_column="text", user_column=user, on_progress=progress.append)
        )
        next(reader)
        assert len(next(reader)) < 2000
        assert sum(progress) <= 10_000 * (readers.BATCHES_AHEAD + 2)
        reader.close()


@pytest.mark.parametrize("ending", [".jsonl", ".csv", ".tsv.gz", ".parquet"])
def test_a_reader_may_be_left_half_way(put_rows, monkeypatch, ending):
    monkeypatch.setattr(streams, "BLOCK_BYTES", 1000)
    path = put_rows(f"x{ending}", [(f"u{n}", f"text {n * 7919}") for n in range(2000)])
    for _ in range(20):
        batches = iter(read_records(path, text_column="text", user_column="user"))
        assert len(next(batches)) > 0
        batches.close()


@pytest.mark.parametrize(
    "ending", [".jsonl.gz", ".jsonl.zst", ".csv.gz", ".tsv.zst", ".txt.gz", ".csv.bz2", ".jsonl.xz"]
)
@pytest.mark.parametrize("damage", ["cut", "empty", "other", "more"])
def test_damaged_files(put, put_rows, read, ending, damage):
    rows = [(f"u{n}", f"secret {n * 7919}") for n in range(3000)]
    path = put_rows(f"x{ending}", rows)
    data = path.read_bytes()
    path.write_bytes(
        {
            "cut": data[:-9],
            "empty": b"",
            "other": b"secret text, not compressed",
            "more": data + b"secret",
        }[damage]
    )
    said = message(read, path, user=None, skip_bad_rows=True)
    kind = {"j": "jsonl", "c": "csv", "t": "tsv" if "tsv" in ending else "text"}[ending[1]]
    assert said == (
        f"{path}: can't be read as {ending.rpartition('.')[2]} {kind}; the file is damaged or cut short. "
        "Copy it again, or write it anew."
    )


@examples(30)
@given(
    groups=st.lists(st.lists(st.text("ab\n", max_size=5), max_size=7), max_size=12),
    decoders=st.integers(1, 4),
    run_rows=st.integers(1, 20),
    run_bytes=st.sampled_from([1, 200, 1 << 20]),
    group_bytes=st.sampled_from([1, 1 << 20]),
)
def test_row_groups_decoded_side_by_side_come_in_order(
    groups, decoders, run_rows, run_bytes, group_bytes
):
    with pytest.MonkeyPatch.context() as patch, TemporaryDirectory() as folder:
        for name, value in (
            ("PARQUET_READERS", decoders),
            ("_RUN_ROWS", run_rows),
            ("_RUN_BYTES", run_bytes),
            ("_GROUP_BYTES", group_bytes),
        ):
            patch.setattr(readers, name, value)
        path = Path(folder, "x.parquet")
        schema = pa.schema({"user": pa.int64(), "text": pa.string()})
        with pq.ParquetWriter(path, schema) as writer:
            for number, texts in enumerate(groups):
                writer.write_table(pa.table({"user": [number] * len(texts), "text": texts}, schema))
        reported = []
        records = read_records(
            path, text_column="text", user_column="user", on_progress=reported.append
        )
        rows = [
            pair
            for batch in records
            for pair in zip(batch.user.to_pylist(), batch.text.to_pylist(), strict=True)
        ]
        size = path.stat().st_size
    expected = [(number, text) for number, texts in enumerate(groups) for text in texts]
    assert rows == [(str(number).encode(), text.encode()) for number, text in expected]
    assert sum(reported) == size


def test_who_stops_early_waits_for_no_more_than_what_was_begun(tmp_path, monkeypatch):
    monkeypatch.setattr(readers, "PARQUET_READERS", 2)
    monkeypatch.setattr(readers, "_RUN_ROWS", 1)
    path = tmp_path / "x.parquet"
    table = pa.table({"user": range(500), "text": [f"secret {number}" for number in range(500)]})
    pq.write_table(table, path, row_group_size=1)
    before = threading.active_count()
    batches = iter(read_records(path, text_column="text", user_column="user"))
    assert next(batches).text.to_pylist() == [b"secret 0"]
    batches.close()
    assert threading.active_count() == before


@pytest.mark.parametrize("keep", [0, 5, 200, -30])
@pytest.mark.parametrize("kind", ["parquet", "arrow"])
def test_damaged_tables(put_rows, read, kind, keep):
    path = put_rows(f"x.{kind}", ROWS)
    path.write_bytes(path.read_bytes()[:keep])
    assert message(read, path) == (
        f"{path}: can't be read as {kind}; the file is damaged or cut short. Copy it again, or write it anew."
    )


@pytest.mark.parametrize("decoders", [1, 3])
def test_garbage_in_parquet_pages(read, tmp_path, monkeypatch, decoders):
    monkeypatch.setattr(readers, "PARQUET_READERS", decoders)
    path = tmp_path / "x.parquet"
    pq.write_table(pa.table({"user": ["a"] * 99, "text": [f"secret {n}" for n in range(99)]}), path)
    data = bytearray(path.read_bytes())
    data[4:200] = b"\xff" * 196
    path.write_bytes(data)
    assert "can't be read as parquet; the file is damaged" in message(read, path)


@pytest.mark.parametrize("ending", [".gz", ".zst", ".bz2", ".xz"])
def test_two_compressed_streams_are_one_file(put, read, ending):
    first, second = (
        put(f"{n}.jsonl{ending}", b'{"user":"%d","text":"b"}\n' % n * 40_000).read_bytes()
        for n in (1, 2)
    )
    between = b"\0" * 70_000 if ending == ".xz" else b""
    path = put("x.jsonl", first + between + second + between)
    assert (
        read(path.rename(path.with_suffix(f".jsonl{ending}")))
        == [("1", "b")] * 40_000 + [("2", "b")] * 40_000
    )


@pytest.mark.parametrize("size", [1, 7, 1000])
def test_xz_is_read_in_pieces_of_any_size(tmp_path, monkeypatch, size):
    monkeypatch.setattr(streams, "_PACKED_BYTES", size)
    text = b"".join(b"%d some text\n" % n for n in range(2000))
    (tmp_path / "x").write_bytes(
        lzma.compress(text) + b"\0\0\0\0" + lzma.compress(b"") + lzma.compress(b"end")
    )
    with pa.OSFile(str(tmp_path / "x")) as disk:
        content = streams.XzContent(disk)
        assert b"".join(iter(lambda: content.read(333), b"")) == text + b"end"
        assert content.read(1) == b""


def test_an_arrow_file_of_several_batches(read, tmp_path):
    table = pa.table({"text": ["a", "b", "c"], "user": ["u", "", "w"]})
    with (
        pa.OSFile(str(tmp_path / "x.arrow"), "wb") as sink,
        pa.ipc.new_file(sink, table.schema) as file,
    ):
        file.write_table(table, max_chunksize=1)
    assert read(tmp_path / "x.arrow", skip_bad_rows=True) == [("u", "a"), ("w", "c")]
    assert message(read, tmp_path / "x.arrow") == f"{tmp_path}/x.arrow: row 2: no user id. {SKIP}"
    assert "no column 'who'; the columns are 'text', 'user'." in message(
        read, tmp_path / "x.arrow", user="who"
    )


UTF_16 = "holds text in UTF-16, which can't be read as {}. Save it as UTF-8: `iconv -f UTF-16 -t UTF-8 OLD > NEW`."
PACKED_AS = "holds {}, which can't be read as {}. Let its name say so: a compressed CSV file ends with .csv{}."
LINES = "; one object a line is read. `{}` makes such a file."
FOREIGN = [
    ("x.csv", "user,text\na,b\n".encode("utf-16"), UTF_16.format("csv")),
    ("x.csv", "user,text\na,b\n".encode("utf-16-le"), UTF_16.format("csv")),
    ("x.tsv.gz", "user\ttext\na\tb\n".encode("utf-16-be"), UTF_16.format("tsv")),
    ("x.jsonl", '{"user":"a","text":"b"}\n'.encode("utf-16-le"), UTF_16.format("jsonl")),
    ("x.jsonl", b"\xfe\xff" + '{"user":"a","text":"b"}\n'.encode("utf-16-be"), UTF_16.format("jsonl")),
    ("x.csv", gzip.compress(b"user,text\na,b\n", mtime=0), PACKED_AS.format("gzip", "csv", ".gz")),
    ("x.jsonl", bz2.compress(b'{"user":"a","text":"b"}'), PACKED_AS.format("bzip2", "jsonl", ".bz2")),
    ("x.csv", lzma.compress(b"user,text\na,b\n"), PACKED_AS.format("xz", "csv", ".xz")),
    ("x.csv", b"PK\x03\x04...", "holds a zip archive, or a workbook, which can't be read as csv. Unpack it first; save a workbook as CSV (UTF-8)."),
    ("x.json", b"PAR1...", "holds Parquet, which can't be read as jsonl. Let its name end with .parquet."),
    ("x.csv", b"user;text\na;b\n", "the names in its first row have semicolons between them, and the file is read with commas. Say so with delimiter=';'."),
    ("x.csv", b"sep=;\r\nuser;text\r\na;b\r\n", "the names in its first row have semicolons between them, and the file is read with commas. Say so with delimiter=';'."),
    ("x.csv", b"time;who;what\n1;a,c;b\n", "the names in its first row have semicolons between them, and the file is read with commas. Say so with delimiter=';'."),
    ("x.csv", b"user\ttext\na\tb\n", "the names in its first row have tabs between them, and the file is read with commas. Say so with delimiter='\\t'."),
    ("x.tab", b'"user","text"\na,b\n', "the names in its first row have commas between them, and the file is read with tabs. Say so with delimiter=','."),
    ("x.json", b'[{"user":"a","text":"b"}]', "is one JSON array" + LINES.format("jq -c '.[]' OLD > NEW.jsonl")),
    ("x.json.gz", b'\n [\n{"user":"a","text":"b"},\n{"user":"a","text":"b"}\n]\n', "is one JSON array" + LINES.format("jq -c '.[]' OLD > NEW.jsonl")),
    ("x.json", b'{\n  "user": "a",\n  "text": "b"\n}\n', "has objects spread over several lines" + LINES.format("jq -c . OLD > NEW.jsonl")),
    ("x.jsonl", b'{"user":"a","text":"b"}\r{"user":"c","text":"d"}\r', "ends its lines with a carriage return alone" + LINES.format(r"tr '\r' '\n' < OLD > NEW.jsonl")),
]  # fmt: skip


@pytest.mark.parametrize(("name", "data", "said"), FOREIGN)
@pytest.mark.parametrize("skip", [True, False])
def test_formats_that_people_have_are_named_with_the_next_step(put, read, name, data, said, skip):
    path = put(name, data)
    assert message(read, path, skip_bad_rows=skip) == f"{path}: {said}"


def test_the_commands_in_these_messages_work(put, read):
    path = put("x.csv", "user,text\na,é\n".encode("utf-16"))
    command = (
        re.search("`(.*)`", message(read, path))[1]
        .replace("OLD", str(path))
        .replace("NEW", str(path) + ".csv")
    )
    subprocess.run(command, shell=True, check=True)
    assert read(f"{path}.csv") == [("a", "é")]
    path = put("x.jsonl", b'{"user":"a","text":"b"}\r{"user":"c","text":"d"}\r')
    command = (
        re.search("`(.*)`", message(read, path))[1]
        .replace("OLD", str(path))
        .replace("NEW", str(path) + "-2")
    )
    subprocess.run(command, shell=True, check=True)
    assert read(f"{path}-2.jsonl") == [("a", "b"), ("c", "d")]


def test_carriage_returns_alone_in_plain_text_end_sentences_and_no_row(put, read):
    assert read(put("x.txt", b"a b\rc d\r"), user=None) == ["a b\rc d"]


def test_sources_that_give_no_record_are_named_in_one_line_each(put, caplog):
    good = put("good.csv", b"user,text\na,b\n")
    empty = [put(f"{n}.csv", b"user,text\n") for n in range(7)]
    bad = put("bad.jsonl", b"oops\n")
    reader = read_records(
        [good, *empty, bad], text_column="text", user_column="user", skip_bad_rows=True
    )
    assert sum(map(len, reader)) == 1
    shown = ", ".join(map(str, empty[:5]))
    assert caplog.messages == [
        f"{shown} and 2 more: no row in it.",
        f"{bad}: every row was skipped.",
    ]


def test_nothing_to_read_is_an_error_where_it_is_asked_for(put, caplog):
    empty, bad = put("empty.jsonl", b"\n"), put("bad.csv", b"user,text\n,x\nshort\n")
    arguments = {
        "text_column": "text",
        "user_column": "user",
        "skip_bad_rows": True,
        "require_rows": True,
    }
    with pytest.raises(BayesgramError) as caught:
        list(read_records([empty], **arguments))
    assert (
        str(caught.value)
        == "nothing was read: the inputs hold no row. Check that they are the right ones."
    )
    with pytest.raises(BayesgramError) as caught:
        list(read_records([empty, bad], **arguments))
    assert str(caught.value) == (
        "nothing was read: every row was skipped (no user id, the wrong number of columns). Correct the rows, or name the"
        " right columns with `text_column` and `user_column`."
    )
    assert caplog.messages == []
    assert list(read_records([empty, bad], **(arguments | {"require_rows": False}))) == []


@pytest.mark.parametrize("ending", [".jsonl", ".csv", ".parquet"])
def test_a_file_that_went_away(put_rows, ending):
    path = put_rows(f"x{ending}", ROWS)
    reader = read_records(path, text_column="text", user_column="user")
    path.unlink()
    with pytest.raises(BayesgramError) as caught:
        list(reader)
    assert (
        str(caught.value)
        == f"{path}: no longer there. Check that nothing moves the file meanwhile."
    )


def test_permission_denied(put_rows, read, monkeypatch):
    path = put_rows("x.jsonl", ROWS)

    def denied(*_):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(pa, "OSFile", denied)
    assert message(read, path) == f"{path}: permission denied. Check who may read the file."


SECRET = "my-5ecret"
LEAKS = [
    ("x.jsonl", f'{{"user": "{SECRET}", "text": "{SECRET}'),
    ("x.jsonl", f'{{"user": {{"{SECRET}": 1}}, "text": "{SECRET}"}}'),
    ("x.jsonl", f'{{"user": "{SECRET}", "text": ["{SECRET}"]}}'),
    ("x.jsonl", f'{{"user": null, "text": "{SECRET}"}}'),
    ("x.jsonl", f'{{"user": "{SECRET}", "text": "\\ud800"}}'),
    ("x.jsonl", f'["{SECRET}"]'),
    ("x.jsonl", f"{SECRET} \udcff"),
    ("x.csv", f"{SECRET}"),
    ("x.csv", f"{SECRET}\udcff"),
    ("x.csv", f"{SECRET},{SECRET},{SECRET}"),
    ("x.csv", f",{SECRET}"),
    ("x.csv", f"{SECRET},\udcff{SECRET}"),
    ("x.csv", f'a,"{SECRET}'),
    ("x.tsv", f"a\t{SECRET}\t{SECRET}"),
    ("x.csv.gz", f'a,"{SECRET}'),
]


def everything_said(error):
    """The message and all that a traceback or an error reporter can reach from it."""
    seen = []
    while error is not None:
        seen += [str(error), repr(error.args), *traceback.format_exception_only(error)]
        error = error.__cause__ or error.__context__
    return "\n".join(seen)


@pytest.mark.parametrize(("name", "row"), LEAKS)
def test_no_error_shows_text_or_users(put, read, name, row):
    header = {
        "jsonl": '{"user": "a", "text": "b"}\n',
        "csv": "user,text\na,b\n",
        "tsv": "user\ttext\na\tb\n",
    }
    start = header[name.split(".")[1]]
    path = put(name, (start + row + "\n").encode("utf-8", "surrogateescape"))
    with pytest.raises(BayesgramError) as caught:
        read(path)
    assert "row 2: " in str(caught.value)
    assert SECRET not in everything_said(caught.value)


def test_no_error_shows_a_table_or_a_headerless_file(put, read):
    inputs = [
        pa.table({"user": [SECRET, ""], "text": [SECRET, SECRET]}),
        pa.table({"user": [SECRET], "text": [SECRET.encode() + b"\xff"]}),
        put("x.csv", f"{SECRET},{SECRET}\n".encode()),
        put("y.csv", f"{SECRET}\udcff,{SECRET}\n".encode("utf-8", "surrogateescape")),
    ]
    for one in inputs:
        with pytest.raises(BayesgramError) as caught:
            read(one)
        assert SECRET not in everything_said(caught.value)


def test_a_chunk_of_bad_rows_only(put):
    inputs = [
        put("a.jsonl", b'{"user":"a","text":"b"}\n'),
        put("b.jsonl", b'{"user":null,"text":"x"}\n'),
    ]
    reader = read_records(inputs, text_column="text", user_column="user", skip_bad_rows=True)
    assert [batch.user.to_pylist() for batch in reader if len(batch)] == [[b"a"]]
    assert reader.bad_rows.total == 1


LATIN_1 = (
    "the text is not valid UTF-8; it looks like Latin-1. Say so with encoding=latin-1, or convert"
    f" the file: `iconv -f LATIN1 -t UTF-8 OLD > NEW`. {SKIP}"
)
WESTERN = [
    ("x.csv", "user,text\na,b\né,naïve\n"),
    ("x.tsv.gz", "user\ttext\na\tb\né\tnaïve\n"),
    ("x.jsonl", '{"user":"a","text":"b"}\n{"user":"é","text":"naïve"}\n'),
]


@pytest.mark.parametrize(("name", "text"), WESTERN)
def test_another_encoding_is_recognised_and_can_be_named(put, read, name, text):
    path = put(name, text.encode("latin-1"))
    assert read(path, encoding="latin-1") == [("a", "b"), ("é", "naïve")]
    texts = put(f"texts-{name}", text.replace("é", "e").encode("latin-1"))
    assert message(read, texts) == f"{texts}: row 2: {LATIN_1}"


def test_an_encoding_holds_for_plain_text_and_is_ignored_by_tables(put, put_rows, read):
    path = put("x.txt.gz", "naïve “quotes”\nb\n".encode("cp1252"))
    assert read(path, user=None, encoding="Windows-1252") == ["naïve “quotes”", "b"]
    assert "looks like Windows-1252. Say so with encoding=cp1252" in message(read, path, user=None)
    assert read(put_rows("x.parquet", ROWS), encoding="latin-1", delimiter=";") == ROWS


@pytest.mark.parametrize("block", [1, 2, 7, 1000])
def test_blocks_do_not_show_in_another_encoding(put, read, monkeypatch, block):
    monkeypatch.setattr(streams, "BLOCK_BYTES", block)
    path = put("x.csv", 'user,text\né,"naïve\nça"\nb,ü\n'.encode("latin-1"))
    assert read(path, encoding="latin-1") == [("é", "naïve\nça"), ("b", "ü")]


def test_bytes_that_an_encoding_lacks(put, read):
    path = put("x.txt", b"zanzibar \x81\n")
    assert message(read, path, user=None, encoding="cp1252") == (
        f"{path}: holds bytes that cp1252 does not have. Name the right `encoding`."
    )


@pytest.mark.parametrize("encoding", ["utf-16", "utf-7", "shift_jis", "rot13", "none", "a\0b", ""])
def test_encodings_in_which_a_row_depends_on_others_are_refused(put, read, encoding):
    path = put("x.txt", b"a\n")
    assert message(read, path, user=None, encoding=encoding).startswith(
        f"encoding={encoding!r}: give utf-8, latin-1, cp1252 (Windows) or another"
    )


@pytest.mark.parametrize("delimiter", [";", "|", "\t", "\\t", "tab", ":", "~"])
def test_any_delimiter_can_be_named(put, read, delimiter):
    mark = {"\\t": "\t", "tab": "\t"}.get(delimiter, delimiter)
    lines = [("user", "text"), ("a", '"b, ""c"""'), ("d", "e,f")]
    path = put("x.csv", "\r\n".join(mark.join(line) for line in lines).encode())
    assert read(path, delimiter=delimiter) == [("a", 'b, "c"'), ("d", "e,f")]


def test_a_line_that_names_the_delimiter_is_no_header(put, read):
    path = put("x.csv", b"sep=;\r\nuser;text\r\na;b\r\n")
    assert read(path, delimiter=";") == [("a", "b")]


@pytest.mark.parametrize("delimiter", ["", ";;", "a", "1", " ", '"', "\n", "\r", "é", "\0"])
def test_characters_that_can_not_separate_columns(put, read, delimiter):
    assert message(read, put("x.csv", b"user,text\n"), delimiter=delimiter).startswith(
        f"delimiter={delimiter!r}: give one character such as ';', '|' or '\\t' (a tab);"
    )


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ('["b"]', """the text is a list, not a string. The column is 'text'. Name another one with `text_column`, or make it text: `jq -c '.text |= join(" ")' OLD > NEW.jsonl`"""),
        ('{"x": "zanzibar"}', "the text is a nested object, not a string. The column is 'text'. Name another one with `text_column`, or make it text: `jq -c '.text |= .FIELD' OLD > NEW.jsonl`"),
    ],
)  # fmt: skip
def test_lists_and_objects_in_json_are_named_with_the_next_step(put, read, value, said):
    path = put("x.jsonl", f'{{"user":"a","text":{value}}}\n'.encode())
    assert message(read, path) == f"{path}: row 1: {said}. {SKIP}"


def test_a_field_of_nested_json_is_named_with_the_next_step(put, read):
    path = put("x.jsonl", b'{"user":"a","message":{"text":"zanzibar","lang":"en"}}\n')
    said = (
        f"{path}: no column {{!r}}; the columns are 'user', 'message'. It is a field of the nested"
        " column 'message', and nested values are not read. Make it a column first: `jq -c '. +"
        " {{text: .message.text}}' OLD > NEW.jsonl`."
    )
    assert message(read, path) == said.format("text")
    assert message(read, path, text="message.text") == said.format("message.text")


def test_lists_and_structs_in_tables_are_named_with_the_next_step(tmp_path, read):
    table = pa.table({"user": ["a"], "text": [["b", "c"]], "message": [{"body": "d"}]})
    pq.write_table(table, tmp_path / "x.parquet")
    path = tmp_path / "x.parquet"
    assert message(read, path).endswith(
        "the text column 'text' holds lists (list<element: string>); it must hold text. Join each"
        " list into one text first (`pl.col('text').list.join(' ')` in polars), or name the right"
        " one with `text_column`."
    )
    assert message(read, path, text="message").endswith(
        "holds nested values (a struct); it must hold text. Make its fields columns first"
        " (`frame.unnest('message')` in polars), or name the right one with `text_column`."
    )
    assert message(read, path, text="body").endswith(
        "It is a field of the nested column 'message', and nested values are not read. Make it a"
        " column first: `frame.unnest('message')` in polars."
    )


def test_rows_without_text_are_counted(put):
    inputs = [
        put("x.csv", b"user,text\na,\nb,c\n"),
        put(
            "x.jsonl",
            b'{"user":"a","text":null}\n{"user":"a","text":""}\n{"user":"a","text":" "}\n',
        ),
    ]
    reader = read_records(inputs, text_column="text", user_column="user")
    for _ in range(2):
        assert sum(map(len, reader)) == 5
        assert reader.bad_rows.without_text == 3
