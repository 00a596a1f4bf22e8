"""JSON of ours: an object that could be written again, or a ValueError."""

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from bayesgram.io.formats import MOST_LEVELS, read_json, read_parquet_table


def test_an_object_is_read(tmp_path):
    (tmp_path / "x.json").write_text('{"a": [1, {"b": "é"}]}', encoding="utf-8")
    assert read_json(tmp_path / "x.json") == {"a": [1, {"b": "é"}]}


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"[]",
        b"null",
        b'{"a": 1',
        b'{"a": "\\ud800"}',
        b'{"a": "\xff"}',
        b'{"a": ' + b"1" * 5000 + b"}",
        b'{"a": ' + b"[" * 100_000 + b"]" * 100_000 + b"}",
        b'{"a": ' + b"[" * MOST_LEVELS + b"]" * MOST_LEVELS + b"}",
    ],
)
def test_anything_else_is_not(tmp_path, content):
    (tmp_path / "x.json").write_bytes(content)
    with pytest.raises(ValueError):  # noqa: PT011 - whoever opens the file says what is wrong with it
        read_json(tmp_path / "x.json")


def test_as_many_levels_as_are_allowed(tmp_path):
    inner = MOST_LEVELS - 1
    (tmp_path / "x.json").write_bytes(b'{"a": ' + b"[" * inner + b"]" * inner + b"}")
    assert list(read_json(tmp_path / "x.json")) == ["a"]


def test_a_table_is_that_of_its_file_alone(tmp_path):
    folder = tmp_path / "year=2026"
    folder.mkdir()
    table = pa.table({"ngram": ["a b", None], "count": np.array([1, 2])}, metadata={"order": "2"})
    pq.write_table(table, folder / "x.parquet")
    found = read_parquet_table(folder / "x.parquet")
    assert found.equals(table, check_metadata=True)


def test_columns_of_one_name_are_refused(tmp_path):
    pq.write_table(pa.table([[1], [2]], names=["a", "a"]), tmp_path / "x.parquet")
    with pytest.raises(pa.ArrowInvalid):
        read_parquet_table(tmp_path / "x.parquet")
