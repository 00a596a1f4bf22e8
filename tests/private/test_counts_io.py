"""Counts on disk."""

import json

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bayesgram.errors import BayesgramError, UsageError
from bayesgram.private import counts_io
from bayesgram.private.counts_io import load_counts, save_counts
from bayesgram.private.counts_on_disk import open_counts
from helpers import reference_paper
from helpers.hypothesis_profiles import examples
from helpers.modes import has_mode
from helpers.strategies import matrices


def same(first, second):
    return (
        first.users.to_pylist() == second.users.to_pylist()
        and all(
            getattr(first, n).tolist() == getattr(second, n).tolist()
            for n in ("starts", "ngrams", "counts")
        )
        and first.vocabulary_fingerprint == second.vocabulary_fingerprint
    )


@examples(30)
@given(matrices(users=(1, 6)), st.integers(1, 7))
def test_round_trip(tmp_path_factory, matrix, rows_at_once):
    matrix = matrix[matrix.sum(axis=1) > 0]
    vocabulary = reference_paper.make_vocabulary(range(matrix.shape[1]))
    counts = reference_paper.make_user_counts(matrix, fingerprint=vocabulary.fingerprint)
    folder = tmp_path_factory.mktemp("counts") / "c"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(counts_io, "ROWS_PER_WRITE", rows_at_once)
        save_counts(counts, vocabulary, folder)
    assert same(load_counts(folder, vocabulary_size=len(vocabulary)), counts)


def test_the_folder_is_private(tmp_path):
    vocabulary = reference_paper.make_vocabulary([1, 2])
    save_counts(
        reference_paper.make_user_counts(np.eye(2, dtype=int)), vocabulary, tmp_path / "counts"
    )
    assert has_mode(tmp_path / "counts", 0o700)


@pytest.mark.parametrize(
    "user_type",
    [
        pa.uint32(),
        pa.int64(),
        pa.string(),
        pa.large_string(),
        pa.dictionary(pa.int32(), pa.string()),
    ],
)
def test_a_file_made_elsewhere_is_merged_whatever_its_order(tmp_path, user_type):
    rows = [("7", 1, 2), ("8", 0, 1), ("7", 0, 1), ("8", 0, 5), ("7", 1, 1)]
    user = (
        pa.array([r[0] for r in rows]).cast(user_type)
        if not pa.types.is_dictionary(user_type)
        else pa.array([r[0] for r in rows]).dictionary_encode()
    )
    table = pa.table(
        {
            "count": pa.array([r[2] for r in rows], pa.uint16()),
            "ngram": [r[1] for r in rows],
            "user": user,
        }
    )
    pq.write_table(table, tmp_path / "c.parquet", row_group_size=2)
    counts = load_counts(tmp_path / "c.parquet", vocabulary_size=2)
    assert counts.users.to_pylist() == [b"7", b"8"]
    assert counts.starts.tolist() == [0, 2, 3]
    assert counts.ngrams.tolist() == [0, 1, 0]
    assert counts.counts.tolist() == [1, 3, 6]
    assert counts.vocabulary_fingerprint is None


def write(path, **columns):
    table = {"user": [1, 2, 3], "ngram": [0, 1, 0], "count": [1, 1, 1]} | columns
    pq.write_table(
        pa.table({name: value for name, value in table.items() if value is not None}), path
    )
    return path


@pytest.mark.parametrize(
    ("columns", "error", "message"),
    [
        (
            {"user": None},
            UsageError,
            "no column 'user'; counts have the columns 'user', 'ngram', 'count', this file has 'ngram', 'count'.",
        ),
        (
            {"user": [1, None, 3]},
            BayesgramError,
            "row 2: no user id. Every row of counts needs one.",
        ),
        (
            {"user": ["a", "", "b"]},
            BayesgramError,
            "row 2: no user id. Every row of counts needs one.",
        ),
        (
            {"user": [1.5, 2.5, 3.5]},
            UsageError,
            "the column 'user' is double; ids must be text or whole numbers.",
        ),
        (
            {"ngram": [0, 1, 9]},
            BayesgramError,
            "row 3: ngram is not in 0 … 1; an n-gram id is a row number of the vocabulary. Is it the right file?",
        ),
        (
            {"ngram": [0, -1, 0]},
            BayesgramError,
            "row 2: ngram is not in 0 … 1; an n-gram id is a row number of the vocabulary. Is it the right file?",
        ),
        (
            {"ngram": ["a", "b", "c"]},
            UsageError,
            "the column 'ngram' is string; an n-gram id is a row number of the vocabulary.",
        ),
        (
            {"count": [1, 0, 1]},
            BayesgramError,
            "row 2: count is not in 1 … 2147483647; a count is a whole number. Is it the right file?",
        ),
        (
            {"count": [1, None, 1]},
            BayesgramError,
            "row 2: count is not in 1 … 2147483647; a count is a whole number. Is it the right file?",
        ),
        (
            {"count": [2**40, 1, 1]},
            BayesgramError,
            "row 1: count is not in 1 … 2147483647; a count is a whole number. Is it the right file?",
        ),
        (
            {"count": [0.5, 1, 1]},
            UsageError,
            "the column 'count' is double; a count is a whole number.",
        ),
    ],
)
@pytest.mark.parametrize("read", [load_counts, open_counts])
def test_bad_files(tmp_path, read, columns, error, message):
    path = write(tmp_path / "bad.parquet", **columns)
    with pytest.raises(error) as caught:
        read(path, vocabulary_size=2)
    assert str(caught.value) == f"{path}: {message}"


def test_missing_and_foreign_folders(tmp_path):
    with pytest.raises(UsageError, match="no such counts; make them with `bayesgram count`"):
        load_counts(tmp_path / "none", vocabulary_size=2)
    (tmp_path / "empty").mkdir()
    with pytest.raises(UsageError, match=r"not a counts folder \(no meta\.json\)"):
        load_counts(tmp_path / "empty", vocabulary_size=2)
    (tmp_path / "text.parquet").write_text("not parquet")
    with pytest.raises(UsageError, match="not a Parquet file of counts"):
        load_counts(tmp_path / "text.parquet", vocabulary_size=2)


@pytest.mark.parametrize(
    ("number", "step"),
    [
        (1, "Count again with `bayesgram count`."),
        (2, "Count again with `bayesgram count`."),  # had no columns for unlisted n-grams
        (99, "Use a newer one."),
    ],
)
def test_another_format_is_refused_with_the_next_step(tmp_path, number, step):
    vocabulary = reference_paper.make_vocabulary([1, 2])
    save_counts(
        reference_paper.make_user_counts(np.eye(2, dtype=int)), vocabulary, tmp_path / "counts"
    )
    meta = tmp_path / "counts" / "meta.json"
    meta.write_text(json.dumps(json.loads(meta.read_text()) | {"format": number}))
    with pytest.raises(
        UsageError,
        match=rf"is a counts folder of format {number}; this bayesgram reads 3\. {step}$",
    ):
        load_counts(tmp_path / "counts", vocabulary_size=2)


def test_a_damaged_meta_is_refused(tmp_path):
    vocabulary = reference_paper.make_vocabulary([1, 2])
    save_counts(
        reference_paper.make_user_counts(np.eye(2, dtype=int)), vocabulary, tmp_path / "counts"
    )
    meta = tmp_path / "counts" / "meta.json"
    meta.write_text("{")
    with pytest.raises(BayesgramError, match=r"meta\.json is damaged"):
        load_counts(tmp_path / "counts", vocabulary_size=2)


def test_another_vocabulary_size_is_refused(tmp_path):
    save_counts(
        reference_paper.make_user_counts(np.eye(2, dtype=int)),
        reference_paper.make_vocabulary([1, 2]),
        tmp_path / "counts",
    )
    with pytest.raises(UsageError, match=r"counts over 2 n-grams, but the vocabulary has 3;"):
        load_counts(tmp_path / "counts", vocabulary_size=3)


def part_files(folder, matrix, vocabulary, parts, random):
    """A counts folder of several part files, as a cluster writes them, with each user's rows dealt out over all of them."""
    counts = reference_paper.make_user_counts(matrix, fingerprint=vocabulary.fingerprint)
    save_counts(counts, vocabulary, folder)
    (folder / "counts.parquet").unlink()
    (folder / "counts.parquet").mkdir()
    users, ngrams = np.nonzero(matrix)
    rows = list(zip(users.tolist(), ngrams.tolist(), matrix[users, ngrams].tolist(), strict=True))
    rows += [(user, ngram, 1) for user, ngram, _ in rows[:3]]  # and some come twice
    random.shuffle(rows)
    for number in range(parts):
        some = rows[number::parts]
        columns = {"user": [f"u{row[0]}" for row in some], "ngram": [row[1] for row in some]}
        types = {"user": pa.string(), "ngram": pa.int32(), "count": pa.int32()}
        table = pa.table({**columns, "count": [row[2] for row in some]}, schema=pa.schema(types))
        pq.write_table(
            table, folder / "counts.parquet" / f"part-{number}.parquet", row_group_size=3
        )
    return rows


@examples(40)
@given(
    matrices(users=(2, 6), ngrams=(2, 6), largest=9),
    st.integers(2, 5),
    st.randoms(use_true_random=False),
)
def test_users_are_merged_across_the_part_files_of_a_folder(
    tmp_path_factory, matrix, parts, random
):
    """Else one person would be clipped once for each file: k files, k times the contribution."""
    vocabulary = reference_paper.make_vocabulary(range(matrix.shape[1]))
    folder = tmp_path_factory.mktemp("counts") / "c"
    rows = part_files(folder, matrix, vocabulary, parts, random)
    expected = np.zeros_like(matrix)
    for user, ngram, count in rows:
        expected[user, ngram] += count
    loaded = load_counts(folder, vocabulary_size=len(vocabulary))
    ids = loaded.users.to_pylist()
    assert len(ids) == len(set(ids)) == (expected.sum(axis=1) > 0).sum()
    found = np.zeros_like(matrix)
    for at, user in enumerate(ids):
        row = slice(loaded.starts[at], loaded.starts[at + 1])
        assert (np.diff(loaded.ngrams[row]) > 0).all()  # each n-gram of a user once
        found[int(user[1:]), loaded.ngrams[row]] = loaded.counts[row]
    assert found.tolist() == expected.tolist()
