"""Counts that are damaged, or say something else than they hold: refused, and nothing of them is shown."""

import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from bayesgram.errors import BayesgramError, UsageError
from bayesgram.private.counts_io import load_counts, save_counts
from bayesgram.private.counts_on_disk import open_counts
from helpers import reference_paper

CORPUS = Path(__file__).parent.parent / "fuzz" / "corpus" / "counts"
DAMAGED = "the file is damaged; count again with `bayesgram count`."


@pytest.mark.parametrize("read", [load_counts, open_counts])
@pytest.mark.parametrize(
    "name",
    [
        "other-number-of-rows-than-it-says",  # memory that nobody had written to was taken for counts
        "columns-of-different-lengths",
        "page-cut-short",
        "zstd-damaged",
        "an-id-that-is-not-there",  # of a dictionary; -2 would have been somebody else's
    ],
)
def test_rows_that_are_not_there_are_not_made_up(read, name):
    with pytest.raises(BayesgramError) as caught:
        read(CORPUS / name, vocabulary_size=7)
    assert str(caught.value) == f"{CORPUS / name}: {DAMAGED}"
    assert caught.value.__suppress_context__ or caught.value.__context__ is None


@pytest.mark.parametrize("read", [load_counts, open_counts])
def test_an_id_that_is_not_utf8_is_damage(tmp_path, read):
    users = pa.array([b"ann", b"secret\xff"]).view(pa.string())
    pq.write_table(
        pa.table({"user": users, "ngram": [0, 1], "count": [1, 1]}), tmp_path / "c.parquet"
    )
    with pytest.raises(BayesgramError, match=DAMAGED) as caught:
        read(tmp_path / "c.parquet", vocabulary_size=2)
    assert "secret" not in str(caught.value)


def test_two_columns_of_one_name(tmp_path):
    columns = [pa.array(["a"]), pa.array(["b"]), pa.array([0]), pa.array([1])]
    pq.write_table(
        pa.table(columns, names=["user", "user", "ngram", "count"]), tmp_path / "c.parquet"
    )
    with pytest.raises(UsageError, match=r"two columns are called 'user'; rename one of them\.$"):
        load_counts(tmp_path / "c.parquet", vocabulary_size=2)


def test_more_rows_than_memory_holds(tmp_path, monkeypatch):
    path = tmp_path / "c.parquet"
    pq.write_table(pa.table({"user": ["a"], "ngram": [0], "count": [1]}), path)

    monkeypatch.setattr("bayesgram.private.counts_io._count_rows", lambda _: 1 << 60)
    with pytest.raises(
        BayesgramError,
        match=r"more rows than memory can hold; it is damaged, or needs a larger mach",
    ):
        load_counts(path, vocabulary_size=2)


@pytest.mark.parametrize("size", ["a", "2", 2.0, True, None, [2], float("inf")])
@pytest.mark.parametrize("name", ["size", "fingerprint"])
def test_a_meta_of_other_types(tmp_path, name, size):
    save_counts(
        reference_paper.make_user_counts(np.eye(2, dtype=int)),
        reference_paper.make_vocabulary([1, 2]),
        tmp_path / "counts",
    )
    meta = json.loads((tmp_path / "counts" / "meta.json").read_text())
    meta["vocabulary"][name] = size if name == "size" else [size]
    (tmp_path / "counts" / "meta.json").write_text(json.dumps(meta))
    with pytest.raises(
        BayesgramError, match=r"meta\.json is damaged; count again with `bayesgram count`\.$"
    ):
        load_counts(tmp_path / "counts", vocabulary_size=2)
