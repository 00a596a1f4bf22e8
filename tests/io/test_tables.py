import datetime as dt

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from bayesgram.errors import BayesgramError, UsageError
from bayesgram.io import read_records, records

USERS, TEXTS = ["a", "b", "c", "d"], ["w", "é", "", "z\0"]
ROWS = list(zip(USERS, TEXTS, strict=True))


def dictionary(values, kind):
    return pa.array(values, kind).dictionary_encode()


def message(read, table, error=BayesgramError, **options):
    with pytest.raises(error) as caught:
        read(table, **options)
    return str(caught.value)


TEXT_TYPES = [
    pa.string(),
    pa.large_string(),
    pa.string_view(),
    pa.binary(),
    pa.large_binary(),
    pa.binary_view(),
]
INTEGERS = [
    pa.int8(),
    pa.int16(),
    pa.int32(),
    pa.int64(),
    pa.uint8(),
    pa.uint16(),
    pa.uint32(),
    pa.uint64(),
]


@pytest.mark.parametrize("kind", TEXT_TYPES, ids=str)
def test_every_type_of_text(read, kind):
    table = pa.table({"user": pa.array(USERS, kind), "text": pa.array(TEXTS, kind)})
    assert read(table) == ROWS
    assert read(table[1:3]) == ROWS[1:3]
    if kind in {pa.string(), pa.large_string(), pa.binary(), pa.large_binary()}:
        encoded = pa.table({"user": dictionary(USERS, kind), "text": dictionary(TEXTS, kind)})
        assert read(encoded) == ROWS
        assert read(encoded[2:]) == ROWS[2:]


@pytest.mark.parametrize("kind", INTEGERS, ids=str)
def test_whole_numbers_are_users(read, kind):
    assert read(pa.table({"user": pa.array([0, 7], kind), "text": ["a", "b"]})) == [
        ("0", "a"),
        ("7", "b"),
    ]
    assert read(pa.table({"user": dictionary([0, 7], kind), "text": ["a", "b"]})) == [
        ("0", "a"),
        ("7", "b"),
    ]


def test_large_and_negative_whole_numbers(read):
    table = pa.table({"user": pa.array([2**64 - 1], pa.uint64()), "text": ["a"]})
    assert read(table) == [("18446744073709551615", "a")]
    assert read(pa.table({"user": [-5], "text": ["a"]})) == [("-5", "a")]


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        ([1.0], "double"),
        ([True], "bool"),
        ([dt.datetime(2020, 1, 1)], "timestamp[us]"),  # noqa: DTZ001
        ([["a"]], "list<item: string>"),
        ([{"k": 1}], "struct<k: int64>"),
        (dictionary([1.5], pa.float64()), "dictionary<values=double, indices=int32, ordered=0>"),
    ],
)
def test_other_types_are_refused(read, tmp_path, values, kind):
    table = pa.table({"user": values, "text": ["a"]})
    pq.write_table(table, tmp_path / "x.parquet")
    assert message(read, tmp_path / "x.parquet", UsageError).startswith(
        f"{tmp_path}/x.parquet: the user column "
    )
    assert message(read, table, UsageError) == (
        f"table 1: the user column 'user' holds {kind}; ids must be text or whole numbers. "
        "Cast the column to string or int64 first, or name the right one with `user_column`."
    )
    table = pa.table({"user": ["a"], "text": values})
    assert message(read, table, UsageError).startswith("table 1: the text column 'text' holds ")


def test_whole_numbers_are_no_text(read):
    assert message(read, pa.table({"user": ["a"], "text": [1]}), UsageError) == (
        "table 1: the text column 'text' holds int64; it must hold text. Name the right one with `text_column`."
    )


def test_a_missing_column_names_those_there_are(read, tmp_path):
    path = tmp_path / "reviews.parquet"
    pq.write_table(pa.table({"author": ["a"], "body": ["b"]}), path)
    assert message(read, path, UsageError, text="body") == (
        f"{path}: no column 'user'; the columns are 'author', 'body'. Name the right one with `user_column`."
    )
    assert message(read, path, UsageError, user="author") == (
        f"{path}: no column 'text'; the columns are 'author', 'body'. Name the right one with `text_column`."
    )
    wide = pa.table({f"c{n}": ["a"] for n in range(30)})
    assert "'c18', 'c19' and 10 more. Name" in message(read, wide, UsageError)
    assert "; there are no columns. Name" in message(read, pa.table({}), UsageError)


@pytest.mark.parametrize(
    "make", [pl.DataFrame, pl.LazyFrame, pd.DataFrame], ids=["polars", "lazy", "pandas"]
)
def test_a_missing_column_of_a_data_frame(read, make):
    assert message(read, make({"author": ["a"], "text": ["b"]}), UsageError) == (
        "table 1: no column 'user'; the columns are 'author', 'text'. Name the right one with `user_column`."
    )


def test_two_columns_of_one_name(read, tmp_path):
    table = pa.Table.from_arrays([pa.array(["a"])] * 3, names=["user", "text", "user"])
    pq.write_table(table, tmp_path / "x.parquet")
    said = "2 columns are called 'user'. Rename all but one."
    assert message(read, table, UsageError) == f"table 1: {said}"
    assert message(read, tmp_path / "x.parquet", UsageError).endswith(said)
    frame = pd.DataFrame([["a", "b", "c"]], columns=["user", "text", "user"])
    assert message(read, frame, UsageError) == f"table 1: {said}"


def test_text_and_user_must_differ(read):
    assert message(read, pa.table({"user": ["a"]}), UsageError, text="user") == (
        "text_column='user' and user_column='user': they must be two columns. Change `text_column` or `user_column`."
    )


def test_polars_and_pandas(read):
    frame = pl.DataFrame({"user": USERS, "text": TEXTS, "other": [[1]] * 4})
    assert read(frame) == ROWS
    assert read(frame.lazy()) == ROWS
    assert read(frame.with_columns(pl.col("user").cast(pl.Categorical))) == ROWS
    assert read(frame.slice(1, 2)) == ROWS[1:3]
    mixed = pd.DataFrame({"user": [1, 2, 3, 4], "text": TEXTS, "other": ["a", 1, 2.0, None]})
    assert read(mixed) == [(str(n), text) for n, text in enumerate(TEXTS, 1)]
    assert read(mixed.iloc[::2]) == [("1", "w"), ("3", "")]
    assert read(mixed[:0]) == []


def test_pandas_whole_numbers_with_gaps_are_floats_and_refused(read):
    frame = pd.DataFrame({"user": [1, np.nan], "text": ["a", "b"]})
    assert "holds double; ids must be text or whole numbers" in message(read, frame, UsageError)


def test_arrow_in_all_its_forms(read):
    table = pa.table({"user": USERS, "text": TEXTS})
    chunked = pa.concat_tables([table[:1], table[1:1], table[1:]])
    assert read(table.to_batches()[0].slice(1)) == ROWS[1:]
    assert read(table.to_reader(max_chunksize=1)) == ROWS
    assert read(chunked) == ROWS
    assert read([table, chunked]) == ROWS * 2


def test_nulls(read):
    table = pa.table({"user": ["a", "b"], "text": [None, "x"]})
    assert read(table) == [("a", ""), ("b", "x")]
    assert read(pa.table({"user": ["a"], "text": pa.nulls(1)})) == [("a", "")]
    nobody = pa.table({"user": pa.nulls(2), "text": ["a", "b"]})
    assert message(read, nobody).startswith("table 1: row 1: no user id. ")


def test_tables_that_do_not_convert_show_no_value(read):
    said = "can't be turned into an Arrow table ({}). Check that each column holds one type."
    frame = pd.DataFrame({"user": ["hidden", 3], "text": ["hidden", b"x"]})
    assert message(read, frame) == f"table 1: {said.format('ArrowTypeError')}"
    lazy = pl.LazyFrame({"user": ["hidden"], "text": ["a"]}).with_columns(
        pl.col("user").cast(pl.Int64)
    )
    assert message(read, lazy) == (
        "table 1: can't be read (InvalidOperationError). Check how it was made."
    )


def test_a_reader_that_fails_half_way_shows_no_value(read):
    schema = pa.schema({"user": pa.string(), "text": pa.string()})

    def batches():
        yield pa.record_batch({"user": ["a"], "text": ["b"]}, schema)
        raise ValueError("hidden")

    assert message(read, pa.RecordBatchReader.from_batches(schema, batches())) == (
        "table 1: can't be read (ArrowInvalid). Check how it was made."
    )


def test_parquet_streams_in_small_batches_with_right_rows(tmp_path, monkeypatch, read):
    monkeypatch.setattr("bayesgram.io.readers.BATCH_BYTES", 1 << 12)
    texts = [f"{n:04}" * 64 for n in range(500)]  # 256 bytes each
    users = [f"u{n}" for n in range(500)]
    users[333] = ""
    pq.write_table(
        pa.table({"user": users, "text": texts, "x.text": texts}),
        tmp_path / "x.parquet",
        row_group_size=90,
    )
    progress = []
    reader = read_records(
        tmp_path / "x.parquet",
        text_column="text",
        user_column="user",
        skip_bad_rows=True,
        on_progress=progress.append,
    )
    batches = list(reader)
    assert all(batch.text.nbytes <= 2 << 12 for batch in batches)
    assert len(batches) >= 500 * 256 // (1 << 12)
    assert [text for batch in batches for text in batch.text.to_pylist()] == [
        text.encode() for n, text in enumerate(texts) if n != 333
    ]
    assert next(batch.first_row for batch in batches if batch.first_row > 333) > 334
    assert len(progress) > 10
    assert sum(progress) == reader.size == (tmp_path / "x.parquet").stat().st_size
    with pytest.raises(BayesgramError, match=r": row 334: no user id\. "):
        read(tmp_path / "x.parquet")


def test_an_empty_parquet_file(read, tmp_path):
    pq.write_table(
        pa.table({"user": pa.array([], pa.string()), "text": pa.array([], pa.string())}),
        tmp_path / "x.pq",
    )
    assert read(tmp_path / "x.pq") == []


def test_dots_in_column_names(read, tmp_path):
    pq.write_table(pa.table({"a.b": ["t"], "a": [{"b": 1}], "user": ["u"]}), tmp_path / "x.parquet")
    assert read(tmp_path / "x.parquet", text="a.b") == [("u", "t")]


def test_large_tables_are_cut_by_rows_and_bytes():
    many = pa.table({"text": pa.array(np.arange(200_000)).cast(pa.string())})
    sizes = [len(batch) for batch in read_records(many, text_column="text", user_column=None)]
    assert sizes == [65_536, 65_536, 65_536, 3_392]
    long = pa.table({"text": ["x" * (5 << 18)] * 7 + ["y" * (17 << 18), "z"]})
    batches = list(read_records(long, text_column="text", user_column=None))
    assert [len(batch) for batch in batches] == [3, 3, 1, 1, 1]
    assert [batch.first_row for batch in batches] == [1, 4, 7, 8, 9]
    assert records.BATCH_BYTES == 4 << 20


# --- Tables of other libraries, and readers ---


def messages(rows=9000):
    numbers = range(rows)
    return pa.table({"user": [f"u{n % 7}" for n in numbers], "text": [f"t {n}" for n in numbers]})


def test_relations_of_duckdb(read):
    import duckdb

    connection = duckdb.connect()
    connection.register("rows", messages())
    relation = connection.sql('SELECT *, text AS "a ""b""", [1] AS l FROM rows')
    rows = list(zip(*messages().to_pydict().values(), strict=True))
    assert read(relation) == rows
    assert read(relation, text='a "b"') == rows  # a name of a column is no SQL
    assert read(relation) == rows  # and again
    assert "no column 'nope'; the columns are 'user', 'text'" in message(
        read, relation, UsageError, text="nope"
    )
    assert "holds list<" in message(read, relation, UsageError, user="l")
    failing = connection.sql("SELECT user, error('hidden') AS text FROM rows")
    assert message(read, failing) == (
        "table 1: can't be turned into an Arrow table (InvalidInputException). Check that each"
        " column holds one type."
    )
    assert read(relation) == rows  # the connection is free again
    bad = connection.sql(
        "SELECT CASE WHEN text = 't 5000' THEN '' ELSE user END AS user, text FROM rows"
    )
    with pytest.raises(BayesgramError, match=r"row 5001: no user id\. ") as caught:
        read(bad)
    assert read(relation) == rows  # also while the error is kept
    assert caught
    connection.close()


def test_a_connection_of_duckdb_is_no_table(read):
    import duckdb

    connection = duckdb.connect()
    assert message(read, connection, UsageError) == (
        "inputs: DuckDBPyConnection can't be read. Give a relation of it, such as"
        " connection.sql('SELECT …')."
    )
    connection.close()


def test_a_reader_gives_its_rows_once(read):
    reader = messages().to_reader()
    assert len(read(reader)) == 9000
    said = (
        "table 1: an Arrow reader without rows. A reader gives its rows once, so it was read before,"
        " or is empty. Make a new reader for each time that it is read, or give a table"
        " (reader.read_all())."
    )
    assert message(read, reader, UsageError) == said
    records = read_records(messages().to_reader(), text_column="text", user_column="user")
    assert sum(map(len, records)) == 9000
    with pytest.raises(UsageError, match="an Arrow reader without rows"):
        list(records)


def test_a_lazy_frame_is_computed_in_batches(monkeypatch):
    frame = pl.from_arrow(messages()).lazy().with_columns(pl.lit(1.5).alias("x"))
    monkeypatch.setattr(pl.LazyFrame, "collect", _collect_nothing(pl.LazyFrame.collect))
    records = read_records(frame, text_column="text", user_column="user")
    sizes = [len(batch) for batch in records]
    assert sum(sizes) == 9000
    assert max(sizes) <= 4096


def _collect_nothing(collect):
    """LazyFrame.collect, for frames without a row alone: the whole table is never made."""

    def checked(frame, **options):
        table = collect(frame, **options)
        assert len(table) == 0
        return table

    return checked


def test_datasets_of_hugging_face(read):
    import datasets

    dataset = datasets.Dataset(messages())
    rows = list(zip(*messages().to_pydict().values(), strict=True))
    streamed = dataset.to_iterable_dataset(num_shards=3)
    mapped = streamed.map(lambda row: {"said": row["text"].upper()})
    assert read(dataset) == rows
    assert read(dataset.select(range(10))) == rows[:10]
    assert read(streamed) == rows
    assert "no column 'body'" in message(read, dataset, UsageError, text="body")
    assert "does not know its columns" in message(read, mapped, UsageError)
    splits = datasets.DatasetDict({"train": dataset})
    assert "Give one split of it, such as dataset['train']" in message(read, splits, UsageError)


def test_uuids_are_the_text_that_databases_write(read):
    import uuid

    ids = [uuid.UUID(int=number << 90 | number) for number in range(1, 200)]
    table = pa.table(
        {
            "user": pa.array([each.bytes for each in ids], pa.uuid()),
            "text": ["t"] * len(ids),
        }
    )
    assert read(table.slice(7, 90)) == [(str(each), "t") for each in ids[7:97]]
    missing = pa.table({"user": pa.array([None], pa.uuid()), "text": ["t"]})
    assert "row 1: no user id" in message(read, missing)
