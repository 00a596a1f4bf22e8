import os
import re
from pathlib import Path

import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from bayesgram.errors import BayesgramError, UsageError
from bayesgram.io import Source, find_sources, list_unread

TABLES = ".parquet, .pq, .arrow, .feather, .jsonl, .ndjson, .json, .csv, .tsv, .tab (from .jsonl on also with .gz, .zst, .bz2, .xz)"
ALL = TABLES.replace(".tab", ".tab, .txt, .text")


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in [
        "b.csv",
        "a.parquet",
        "sub/c.jsonl.gz",
        "notes.md",
        "_temp/d.csv",
        ".git/e.csv",
        ".f.csv",
        "_g.csv",
    ]:
        path = tmp_path / "data" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"12345")
    return tmp_path / "data"


def names(inputs, *, allow_plain_text=True):
    return [source.name for source in find_sources(inputs, allow_plain_text=allow_plain_text)]


def refused(inputs, *, allow_plain_text=True):
    with pytest.raises(UsageError) as caught:
        find_sources(inputs, allow_plain_text=allow_plain_text)
    return str(caught.value)


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("x.parquet", ("parquet", None)),
        ("x.PQ", ("parquet", None)),
        ("x.jsonl", ("jsonl", None)),
        ("x.ndjson.gz", ("jsonl", "gz")),
        ("x.json.zst", ("jsonl", "zst")),
        ("x.csv", ("csv", None)),
        ("x.y.Csv.GZ", ("csv", "gz")),
        ("x.tsv", ("tsv", None)),
        ("x.tab.zst", ("tsv", "zst")),
        ("x.txt", ("text", None)),
        ("x.text.gz", ("text", "gz")),
        ("x.csv.bz2", ("csv", "bz2")),
        ("x.jsonl.XZ", ("jsonl", "xz")),
        ("x.arrow", ("arrow", None)),
        ("x.feather", ("arrow", None)),
    ],
)
def test_the_ending_names_format_and_compression(tmp_path, name, kind):
    path = tmp_path / name
    path.write_bytes(b"123")
    [source] = find_sources(path, allow_plain_text=True)
    assert (source.format, source.compression) == kind
    assert (source.name, source.size) == (str(path), 3)


def test_a_folder_gives_its_readable_files_sorted_without_hidden_ones(folder):
    assert names("data") == ["data/a.parquet", "data/b.csv", "data/sub/c.jsonl.gz"]


def test_patterns(folder):
    assert names("data/*.csv") == ["data/b.csv"]
    assert names("data/**/*") == ["data/a.parquet", "data/b.csv", "data/sub/c.jsonl.gz"]
    assert names(str(folder / "**" / "*.gz")) == [str(folder / "sub/c.jsonl.gz")]
    assert names("data/_*.csv") == ["data/_g.csv"]


def test_a_file_whose_name_looks_like_a_pattern_is_a_file(folder):
    (folder / "x[1].csv").write_bytes(b"")
    assert names("data/x[1].csv") == ["data/x[1].csv"]


def test_the_order_given_is_kept(folder):
    assert names(["data/sub", folder / "a.parquet"]) == [
        "data/sub/c.jsonl.gz",
        str(folder / "a.parquet"),
    ]


def test_tables_are_numbered_and_not_shown():
    tables = [
        pa.table({"text": ["hidden"]}),
        pa.record_batch({"text": ["hidden"]}),
        pa.table({"text": ["hidden"]}).to_reader(),
        pl.DataFrame({"text": ["hidden"]}),
        pl.LazyFrame({"text": ["hidden"]}),
        pd.DataFrame({"text": ["hidden"]}),
    ]
    sources = find_sources(tables, allow_plain_text=False)
    assert [source.name for source in sources] == [f"table {n}" for n in range(1, 7)]
    assert sources[0] == Source("table 1", "table")
    assert "hidden" not in repr(sources)
    for table in tables:
        assert len(find_sources(table, allow_plain_text=False)) == 1


def test_no_such_file(folder):
    assert refused(Path("data/z.csv")) == (
        "data/z.csv: no such file. Check the path; a pattern such as 'data/*.parquet' works too."
    )


@pytest.mark.posix("a named pipe")
def test_a_pipe_is_no_file(folder):
    os.mkfifo(folder / "pipe.csv")
    assert refused("data/pipe.csv").startswith("data/pipe.csv: not a file or folder. ")


def test_a_link_to_nothing(folder):
    (folder / "link.csv").symlink_to(folder / "gone")
    assert refused("data").startswith("data/link.csv: no such file. ")


@pytest.mark.parametrize(
    ("name", "reason"), [("x" * 300 + ".csv", "File name too long"), ("\0", "not a valid path")]
)
def test_a_path_that_cannot_be_looked_at(folder, name, reason):
    with pytest.raises(BayesgramError) as caught:
        find_sources(Path(name), allow_plain_text=True)
    assert (
        str(caught.value) == f"{name}: can't be read: {reason}. Check the path and its permissions."
    )


def test_unknown_ending(folder):
    assert (
        refused("data/notes.md")
        == f"data/notes.md: unknown file ending. The endings that are read: {ALL}."
    )
    (folder / "x.parquet.gz").write_bytes(b"")
    assert refused("data/x.parquet.gz", allow_plain_text=False) == (
        f"data/x.parquet.gz: unknown file ending. Unpack it first. The endings that are read: {TABLES}."
    )


@pytest.mark.parametrize("given", ["empty", "data/*.tsv", "data/*.md"])
def test_a_folder_or_pattern_without_readable_files(folder, given):
    (folder.parent / "empty").mkdir()
    assert (
        refused(Path(given))
        == f"{given}: holds no file that can be read. The endings that are read: {ALL}."
    )


def test_plain_text_has_no_users(folder):
    (folder / "t.txt.gz").write_bytes(b"")
    assert refused(["data/b.csv", "data/t.txt.gz"], allow_plain_text=False) == (
        "data/t.txt.gz: plain text has no user column; give a table with one row for each text and its user, "
        "or leave the file out with a pattern such as 'folder/*.parquet'."
    )
    assert "plain text has no user column" in refused("data", allow_plain_text=False)
    assert "data/t.txt.gz" in names("data")


def test_one_file_twice(folder):
    message = "data/b.csv: named twice, first as {}; it would count double. Name it once."
    assert refused(["data/b.csv", "data/b.csv"]) == message.format("data/b.csv")
    assert refused([folder / "b.csv", "data"]) == message.format(folder / "b.csv")
    (folder.parent / "link.csv").symlink_to(folder / "b.csv")
    assert refused(["link.csv", "data/*.csv"]) == message.format("link.csv")


def test_one_table_twice():
    table = pa.table({"text": ["a"]})
    assert refused([table, table]).startswith("table 2: named twice, first as table 1; ")


def test_nothing_to_read():
    assert (
        refused([])
        == "inputs=[]: nothing to read. Name at least one file, folder, pattern or table."
    )


@pytest.mark.parametrize("value", [7, [None], [{"text": "hidden"}], b"data"])
def test_what_is_neither_path_nor_table(value):
    kind = re.match(r"inputs: (\w+) can't be read\. Give a path, or a table", refused(value))
    assert kind is not None
    assert kind[1] in {"int", "NoneType", "dict"}


def test_a_folder_that_cannot_be_listed(folder, monkeypatch):
    def denied(path):
        raise PermissionError(13, "Permission denied", os.fspath(path))

    monkeypatch.setattr(os, "scandir", denied)
    with pytest.raises(BayesgramError) as caught:
        find_sources("data", allow_plain_text=True)
    assert str(caught.value) == (
        "data: the folder can't be read: Permission denied. Check its permissions."
    )


@pytest.mark.parametrize(
    ("name", "advice"),
    [
        ("x.zip", "Unpack it first."),
        ("x.tar.gz", "Unpack it first."),
        ("x.arrow.zst", "Unpack it first."),
        ("x.XLSX", "Save the sheet as CSV (UTF-8)."),
        ("x.sqlite", "Export the table as CSV or Parquet."),
        ("x.docx", "Save it as plain text."),
        ("Posts.gz", "Let its name say what is compressed, such as Posts.csv.gz."),
    ],
)
def test_endings_that_people_have_come_with_the_next_step(folder, name, advice):
    (folder / name).write_bytes(b"")
    assert refused(f"data/{name}").startswith(
        f"data/{name}: unknown file ending. {advice} The endings that are read: "
    )


LEFT_OUT = "(names that begin with . or _ are left out; the endings that are read: {})."


def test_what_a_folder_holds_and_is_not_read_is_said_in_one_line(folder, caplog):
    names("data")
    shown = "data/.f.csv, data/.git/, data/_g.csv, data/_temp/, data/notes.md"
    assert caplog.messages == [f"data: not read: {shown} {LEFT_OUT.format(ALL)}"]
    assert list_unread(["data", "data/b.csv", "s3://bucket/x"]) == shown.split(", ")
    caplog.clear()
    for number in range(4):
        (folder / f"{number}.bak").write_bytes(b"")
    (folder / "link").symlink_to(folder / "sub")  # it might lead back here
    names("data", allow_plain_text=False)
    shown = "data/.f.csv, data/.git/, data/0.bak, data/1.bak, data/2.bak and 5 more"
    assert caplog.messages == [f"data: not read: {shown} {LEFT_OUT.format(TABLES)}"]
    assert "data/link/" in list_unread(["data"])


def test_what_a_pattern_matches_and_is_not_read_is_said(folder, caplog):
    names("data/*")
    assert caplog.messages == [
        f"data/*: not read: data/_g.csv, data/_temp/, data/notes.md, data/sub/ {LEFT_OUT.format(ALL)}"
    ]
    caplog.clear()
    names(["data/*.csv", "data/_*.csv", "data/a.parquet"])
    assert caplog.messages == [f"data/*.csv: not read: data/_g.csv {LEFT_OUT.format(ALL)}"]
    caplog.clear()
    names("data/**/*.gz")
    assert caplog.messages == []
