"""Counts that stay on disk give what counts in memory give, bit for bit, wherever blocks and files end."""

import os
from functools import partial
from itertools import chain, pairwise
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bayesgram import Budget, Gaussian, Laplace, LaplacePublic, Posterior
from bayesgram.errors import BayesgramError, UsageError
from bayesgram.paper import KAnonymity, Paper
from bayesgram.paper.algorithm_2 import TunedPaper
from bayesgram.private import counts_io, counts_on_disk
from bayesgram.private.clipping import ClippedWordsSpec, clip, clipped_mass_sum, clipped_sum
from bayesgram.private.counts import MAX_COUNT
from bayesgram.private.counts_io import CountsBatch, load_counts, save_counts
from bayesgram.private.counts_on_disk import CountsOnDisk, group_users, open_counts
from bayesgram.private.norm_histogram import HistogramSpec, norm_histogram_sum
from bayesgram.text.strings import hash_rows
from bayesgram.text.tokenizer import buffers
from helpers import reference_paper
from helpers.hypothesis_profiles import examples

pytestmark = pytest.mark.slow

SIZE = 4
NAMES = [
    "a",
    "b",
    "7",
    "77",
    "ß",
    "user-12",
    "user-0000000000000000000001",
    "user-0000000000000000000002",
]
ORDERS = ["by hash", "together", "parts by hash", "scattered"]
COUNT = st.sampled_from([1, 1, 2, 9, MAX_COUNT])
ROWS = st.lists(st.tuples(st.integers(0, SIZE - 1), COUNT), min_size=1, max_size=9)


def hash_row(name):
    return int(hash_rows(*buffers(pa.array([name.encode()], pa.large_binary())))[0])


def by_hash(row):
    return hash_row(row[0])


@st.composite
def row_files(draw):
    """Rows of hostile users, dealt out over part files; and whether the rows of each user are surely together."""
    people = draw(st.dictionaries(st.sampled_from(NAMES), ROWS, max_size=6))
    rows = [(name, ngram, count) for name, own in people.items() for ngram, count in own]
    order = draw(st.sampled_from(ORDERS))
    if order == "by hash":
        rows.sort(key=by_hash)
    elif order != "together":
        rows = draw(st.permutations(rows))
    cuts = sorted(draw(st.lists(st.integers(0, len(rows)), max_size=3)))
    files = [rows[first:last] for first, last in zip([0, *cuts], [*cuts, len(rows)], strict=True)]
    if order == "parts by hash":
        files = [sorted(file, key=by_hash) for file in files]
    flat = [name for file in files for name, _, _ in file]
    changes = sum(one != other for one, other in pairwise(flat))
    return files, changes == max(len(set(flat)) - 1, 0)


def write(folder, files, row_group):
    """A counts folder of several part files."""
    save_counts(
        reference_paper.make_user_counts(np.eye(SIZE, dtype=int)),
        reference_paper.make_vocabulary(range(SIZE)),
        folder,
    )
    (folder / "counts.parquet").unlink()
    (folder / "counts.parquet").mkdir()
    for number, rows in enumerate(files):
        columns = dict(
            zip(
                ("user", "ngram", "count"),
                zip(*rows, strict=True) if rows else ((), (), ()),
                strict=True,
            )
        )
        types = pa.schema({"user": pa.string(), "ngram": pa.int32(), "count": pa.int32()})
        table = pa.table({name: list(values) for name, values in columns.items()}, schema=types)
        pq.write_table(
            table, folder / "counts.parquet" / f"part-{number}.parquet", row_group_size=row_group
        )
    return folder


MEASURED = reference_paper.make_coordinates(SIZE, 2)
LOST = ClippedWordsSpec(np.array([0.5, 1.0, 2.0]), reference_paper.make_words(SIZE, 2, 0), 1.5)
KINDS = np.array([0, 1, -1, 0], np.int32)
BINS = HistogramSpec(
    np.array([1.0, 8.0]),
    np.array([1.0, 5.0, 50.0]),
    KINDS,
    2,
)


def largest_of(rows):
    """The most that a user has of each n-gram: answers that are merged by their maximum."""
    largest = np.zeros(SIZE, np.int64)
    part = slice(rows.starts[0], rows.starts[-1])
    np.maximum.at(largest, rows.ngrams[part], rows.counts[part])
    return largest


QUESTIONS = {
    "totals": lambda counts: counts.totals,
    "users": lambda counts: counts.users_per_ngram,
    "clipped": lambda counts: clipped_sum(counts, MEASURED, clip_norm=2.0),
    "lost": lambda counts: clipped_mass_sum(counts, MEASURED, LOST, clip_norm=0.5),
    "amounts": lambda counts: norm_histogram_sum(counts, MEASURED, BINS),
    "drawn": lambda counts: clip(counts, max_count=None, max_total=3, key=5).totals,
    "largest": lambda counts: counts.aggregate(largest_of, np.maximum),
}


@pytest.fixture(autouse=True)
def small(monkeypatch):
    monkeypatch.setattr(counts_on_disk, "BLOCK_ROWS", 3)


@examples(60)
@given(row_files(), st.integers(1, 7), st.integers(1, 7), st.integers(1, 5))
def test_sums_over_stored_users_are_those_in_memory_bit_for_bit(
    tmp_path_factory, made, group, batch, block
):
    files, together = made
    folder = write(tmp_path_factory.mktemp("counts") / "c", files, group)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(counts_io, "ROWS_PER_READ", batch)
        patch.setattr(counts_on_disk, "BLOCK_ROWS", block)
        here, there = load_counts(folder), open_counts(folder)
        assert (
            isinstance(there, CountsOnDisk) == together
        )  # a user who is not together is never streamed
        if together:
            blocks = [block.users.to_pylist() for block in there.read_blocks()]
            users = [batch.to_pylist() for batch in there.read_users()]
            assert [*chain(*users)] == [*chain(*blocks)]
        for name, ask in QUESTIONS.items():
            expected, found = ask(here), ask(there)
            assert found.dtype == expected.dtype, name
            assert found.tolist() == expected.tolist(), name


@examples(150)
@given(st.lists(st.lists(st.integers(0, 7), max_size=6), max_size=8), st.integers(1, 6))
def test_every_user_is_in_one_block(runs, block):
    """Whose rows are together; ids that come twice in a dictionary are one user."""
    ids = pa.array([b"a", b"b", b"c", b"d"] * 2, pa.large_binary())
    batches = [
        CountsBatch(ids, *(np.array(sorted(own, key=lambda code: code % 4), np.int32),) * 3)
        for own in runs
    ]
    flat = [code % 4 for batch in batches for code in batch.codes.tolist()]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(counts_on_disk, "BLOCK_ROWS", block)
        blocks = list(group_users(batches))
    expected = [at for at in range(len(flat)) if not at or flat[at] != flat[at - 1]]
    firsts = np.cumsum([0, *(some.ngrams.size for some in blocks)]).tolist()
    found = [
        first + start
        for some, first in zip(blocks, firsts, strict=False)
        for start in some.starts[:-1].tolist()
    ]
    assert found == expected
    assert [name for some in blocks for name in some.users.to_pylist()] == [
        b"abcd"[flat[at] :][:1] for at in expected
    ]
    assert [ngram % 4 for some in blocks for ngram in some.ngrams.tolist()] == flat
    assert all(some.starts[-1] == some.ngrams.size == some.counts.size for some in blocks)


def test_users_of_counts_that_changed_are_not_read(tmp_path):
    folder = write(tmp_path / "c", [[("a", 0, 9), ("b", 1, 9)]], 1)
    counts = open_counts(folder)
    [file] = (folder / "counts.parquet").iterdir()
    os.utime(file, ns=(1, 1))
    with pytest.raises(BayesgramError, match="changed while they were read"):
        list(counts.read_users())
    file.unlink()
    with pytest.raises(BayesgramError, match="damaged"):
        list(counts.read_users())


def test_a_block_is_no_larger_than_it_must_be():
    one = CountsBatch(
        pa.array([b"a", b"b"], pa.large_binary()), *(np.repeat(np.array([0, 1], np.int32), 2),) * 3
    )
    other = CountsBatch(
        pa.array([b"c"], pa.large_binary()), *(np.zeros(4, np.int32),) * 3
    )  # a batch that is one user
    assert [block.ngrams.size for block in group_users([one, other, one, other])] == [2, 2, 6, 2, 4]


def crowd(folder, seed=3):
    """60 users over a vocabulary of 40 bigrams, in a counts folder."""
    rng = np.random.default_rng(seed)
    vocabulary = reference_paper.make_vocabulary(range(40, 0, -1))
    matrix = rng.poisson(0.4, (60, 40)) * rng.integers(1, 9, (60, 1))
    matrix[0] += 1
    names = sorted((f"user-{number}" for number in range(60)), key=hash_row)
    counts = reference_paper.make_user_counts(
        matrix[matrix.sum(axis=1) > 0], names[: (matrix.sum(axis=1) > 0).sum()]
    )
    save_counts(counts, vocabulary, folder)
    return vocabulary


@pytest.mark.parametrize(
    "mechanism",
    [
        Posterior(),
        Posterior(clip_norm=2.0),
        Gaussian(),
        Laplace(),
        LaplacePublic(),
        KAnonymity(k=3),
        Paper(rho=0.4),
    ],
    ids=lambda mechanism: mechanism.name,
)
def test_releases_are_the_same(tmp_path, mechanism):
    vocabulary = crowd(tmp_path / "c")
    budget = (
        None
        if mechanism.name == "k-anonymity"
        else Budget(1.0, 0.0 if "laplace" in mechanism.name else 1e-7)
    )
    here, there = load_counts(tmp_path / "c"), open_counts(tmp_path / "c", vocabulary_size=40)
    assert isinstance(there, CountsOnDisk)
    one, other = (mechanism.release(counts, vocabulary, budget, seed=4) for counts in (here, there))
    assert one.probabilities.tobytes() == other.probabilities.tobytes()
    assert one.card == other.card


def test_what_splits_users_says_how_to_read_them(tmp_path):
    vocabulary = crowd(tmp_path / "c")
    with pytest.raises(
        UsageError, match=r"^mechanism=paper-tuned: looks at single users.* load_counts\(\)\.$"
    ):
        TunedPaper().release(open_counts(tmp_path / "c"), vocabulary, Budget(1.0, 1e-7))


def test_nothing_private_is_shown(tmp_path):
    crowd(tmp_path / "c")
    assert repr(open_counts(tmp_path / "c")) == "CountsOnDisk(private, over 40 n-grams)"


def test_two_ids_of_one_hash_are_compared_in_memory(tmp_path, monkeypatch):
    crowd(tmp_path / "c")
    expected = load_counts(tmp_path / "c")
    monkeypatch.setattr(
        counts_on_disk, "hash_rows", lambda _, offsets: np.zeros(offsets.size - 1, np.uint64)
    )
    found = open_counts(tmp_path / "c")
    assert not isinstance(found, CountsOnDisk)
    assert found.users_per_ngram.tolist() == expected.users_per_ngram.tolist()


def test_a_user_who_comes_again_after_somebody_of_the_same_hash_is_merged(tmp_path, monkeypatch):
    """Each user is a block here, so that equal hashes meet at the edges of blocks alone."""
    monkeypatch.setattr(counts_on_disk, "BLOCK_ROWS", 1)
    monkeypatch.setattr(counts_io, "ROWS_PER_READ", 1)
    monkeypatch.setattr(
        counts_on_disk, "_hash_ids", lambda block: np.ones(len(block.users), np.uint64)
    )
    folder = write(tmp_path / "c", [[("a", 0, 9), ("b", 1, 9), ("a", 2, 9)]], 1)
    found = open_counts(folder)
    assert not isinstance(found, CountsOnDisk)
    assert sorted(found.users.to_pylist()) == [b"a", b"b"]
    measured, expected = reference_paper.make_coordinates(SIZE, 0), load_counts(folder)
    assert clipped_sum(found, measured, clip_norm=1.0).tolist() == (
        clipped_sum(expected, measured, clip_norm=1.0).tolist()
    )


@pytest.mark.parametrize("together", ["by hash", "by name"])
def test_counts_that_change_while_they_are_checked_are_not_used(tmp_path, monkeypatch, together):
    """Another file takes the place of the one that was read, once all ids were compared."""
    names = sorted(NAMES, key=hash_row if together == "by hash" else None)
    folder = write(tmp_path / "c", [[(name, 1, 1) for name in names]], 3)
    other = write(tmp_path / "d", [[(name, 1, 1) for name in [*names[:-1], names[0]]]], 3)
    part, replacement = (next((each / "counts.parquet").iterdir()) for each in (folder, other))
    compare, check = counts_on_disk._has_distinct_users, CountsOnDisk._check_unchanged

    def replaced(check_first, *arguments):
        found = check_first(*arguments)
        part.write_bytes(replacement.read_bytes())
        return found

    monkeypatch.setattr(counts_on_disk, "_has_distinct_users", partial(replaced, compare))
    if together == "by hash":
        monkeypatch.setattr(CountsOnDisk, "_check_unchanged", lambda self: replaced(check, self))
    counts = open_counts(folder)
    assert isinstance(counts, CountsOnDisk)
    monkeypatch.undo()
    with pytest.raises(BayesgramError, match=r"/c: the counts changed while they were read"):
        _ = counts.users_per_ngram


@pytest.mark.parametrize("together", ["by hash", "by name"])
def test_counts_that_change_after_they_were_checked_are_not_used(tmp_path, together):
    """Else somebody's rows could come to lie in two places, and count as two users."""
    key = hash_row if together == "by hash" else None
    names = sorted(NAMES, key=key)
    folder = write(tmp_path / "c", [[(name, 1, 1) for name in names]], 3)
    counts = open_counts(folder)
    assert isinstance(counts, CountsOnDisk)
    part = next((folder / "counts.parquet").iterdir())
    before = part.stat()
    swapped = [names[1], names[0], *names[2:]]
    write(tmp_path / "d", [[(name, 1, 1) for name in swapped]], 3)
    part.write_bytes(next((tmp_path / "d" / "counts.parquet").iterdir()).read_bytes())
    os.utime(part, ns=(before.st_atime_ns, before.st_mtime_ns + 1))
    with pytest.raises(
        BayesgramError, match=r"/c: the counts changed while they were read; run it again\.$"
    ):
        _ = counts.users_per_ngram


def test_counts_that_vanish_are_said_to(tmp_path):
    crowd(tmp_path / "c")
    counts = open_counts(tmp_path / "c")
    (tmp_path / "c" / "counts.parquet").unlink()
    with pytest.raises(BayesgramError, match=r"counts\.parquet"):
        _ = counts.users_per_ngram


def test_a_folder_knows_the_size_of_its_vocabulary_and_a_file_does_not(tmp_path):
    crowd(tmp_path / "c")
    assert (
        load_counts(tmp_path / "c").vocabulary_size
        == open_counts(tmp_path / "c").vocabulary_size
        == 40
    )
    plain = tmp_path / "plain.parquet"
    plain.write_bytes(Path(tmp_path / "c" / "counts.parquet").read_bytes())
    for read in (load_counts, open_counts):
        with pytest.raises(
            UsageError,
            match=r"plain\.parquet: does not say how large its vocabulary is; give vocab",
        ):
            read(plain)
    ask = partial(clipped_sum, coordinates=reference_paper.make_coordinates(40, 2), clip_norm=2.0)
    assert (
        ask(open_counts(plain, vocabulary_size=40)).tolist()
        == ask(load_counts(tmp_path / "c")).tolist()
    )
