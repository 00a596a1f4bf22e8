"""Counting with little memory: the same folder as with much."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from bayesgram.io import read_records
from bayesgram.private import counts as counting
from bayesgram.private import streaming
from bayesgram.private.counts import count, summarise_counts
from bayesgram.private.counts_io import load_counts, save_counts
from bayesgram.private.streaming import count_to_folder
from bayesgram.public.vocabulary import Vocabulary
from bayesgram.synthetic.population import Population
from bayesgram.text import ngrams

PLAIN = pa.schema({"user": pa.string(), "ngram": pa.int32(), "count": pa.int32()})
PEOPLE = Population(
    users=300, seed=5, batch_users=40
)  # a user's messages are in one batch, users in ten


@pytest.fixture(scope="module")
def vocabulary():
    return Vocabulary.from_public(list(PEOPLE.public_text(3_000)), order=(1, 2), size=500)


@pytest.mark.compiled
@pytest.mark.parametrize(
    ("pending", "bytes_per_row", "piece", "begun"),
    [
        (1 << 24, 48, 1 << 21, 8),
        (1 << 24, 10**9 // 300, 1 << 21, 8),
        (50, 10**9 // 1000, 20, 0),  # what is found is moved to disk while more is read
        (1 << 24, 48, 7, 0),
    ],
)
def test_what_waits_on_disk_gives_the_same_counts(
    tmp_path, vocabulary, monkeypatch, pending, bytes_per_row, piece, begun
):
    batches = list(PEOPLE.messages())
    batches += [batch.slice(0, 60) for batch in batches[:2]]  # users who come again, much later
    monkeypatch.setattr(counting, "MAX_PENDING", pending)
    monkeypatch.setattr(streaming, "BYTES_PER_OCCURRENCE", bytes_per_row)
    monkeypatch.setattr(streaming, "MIN_PENDING", 1)
    monkeypatch.setattr(streaming, "PIECE_SIZE", piece)
    monkeypatch.setattr(ngrams, "CHUNKS_BEGUN", begun)
    records = read_records(batches, text_column="text", user_column="user", skip_bad_rows=False)
    save_counts(count(batches, vocabulary), vocabulary, tmp_path / "more")
    told = count_to_folder(records, vocabulary, tmp_path / "streamed", memory=10**9)
    streamed, whole = (
        pq.read_table(tmp_path / name / "counts.parquet") for name in ("streamed", "more")
    )
    assert streamed.cast(PLAIN).equals(whole.cast(PLAIN))
    listed = np.count_nonzero(whole["ngram"].to_numpy() < len(vocabulary))
    assert (told.users, told.nonzeros) == (300, listed)
    assert told == summarise_counts(count(batches, vocabulary), vocabulary)
    assert listed < whole.num_rows
    assert load_counts(
        tmp_path / "streamed", vocabulary_size=len(vocabulary)
    ).vocabulary_fingerprint
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "more",
        "streamed",
    ]  # no scratch is left


class Growing(list):
    """A list to which another thread adds as soon as it was copied."""

    def copy(self):
        found = list(self)
        self.append(np.array([33], np.uint64))
        return found


def test_hashes_of_users_who_are_read_meanwhile_are_kept():
    """Text is read while earlier text is spilled: a user without a hash would get another's."""
    hashes = Growing([np.array([11], np.uint64), np.array([22], np.uint64)])
    assert streaming.merge_hashes(hashes).tolist() == [11, 22]
    assert np.concatenate(list(hashes)).tolist() == [11, 22, 33]
    assert streaming.merge_hashes(hashes).tolist() == [11, 22, 33]


def test_a_run_that_fails_leaves_nothing(tmp_path, vocabulary):
    def broken():
        yield from read_records(
            list(PEOPLE.messages())[:1], text_column="text", user_column="user", skip_bad_rows=False
        )
        raise RuntimeError

    with pytest.raises(RuntimeError):
        count_to_folder(broken(), vocabulary, tmp_path / "never", memory=10**9)
    assert list(Path(tmp_path).iterdir()) == []
