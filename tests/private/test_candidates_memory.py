"""Discovery within little memory: the same candidates, sums and lists, whether they are spilled to disk or not."""

import tempfile

import numpy as np
import pyarrow as pa
import pytest

from bayesgram.io import read_records
from bayesgram.io.spill import SpillableColumn
from bayesgram.mechanisms.base import Randomness
from bayesgram.mechanisms.discovery import discover
from bayesgram.privacy.budget import Budget
from bayesgram.privacy.ledger import Ledger
from bayesgram.privacy.noise import SeededNoise
from bayesgram.private import candidates, streaming
from bayesgram.private.candidates import (
    CandidateRounds,
    ContributionBound,
    list_candidates,
    sum_candidates,
)
from bayesgram.private.clipping import UNITS
from bayesgram.public.candidate_weights import PublicTextModel
from bayesgram.public.vocabulary import Vocabulary
from bayesgram.text import ngram_tables, ngrams, tokenizer
from bayesgram.text.tokenizer import Tokenizer
from helpers.discovery_data import candidate_texts_and_logs, candidates_by_user, sum_weights

# Thousands of candidates: minutes each where kernels run as Python. `test_candidates.py` runs the
# same kernels on less text.
pytestmark = [pytest.mark.slow, pytest.mark.compiled]

FOUND = ContributionBound(max_candidates=20, min_units=UNITS // 50, min_sum=1)
ORDERS = (1, 2, 3)


def read(table):
    return read_records(table, text_column="text", user_column="user")


@pytest.fixture(scope="module")
def vocabulary():
    return Vocabulary.from_public(
        pa.table({"text": ["w1 w2 w3 w4 w1 w2"]}), order=[1, 2, 3], size=50
    )


@pytest.fixture(scope="module")
def private():
    """A thousand people, and one who writes more than all of them."""
    rng = np.random.default_rng(3)
    users = np.append(rng.integers(0, 1000, 3000), np.full(2000, 1000))
    texts = [
        " ".join(f"w{word}" for word in rng.zipf(1.3, rng.integers(1, 15)) % 5000) for _ in users
    ]
    return pa.table({"user": users.astype(str), "text": texts})


@pytest.fixture
def crowded(monkeypatch):
    """Text and sums go to disk often; how often each did is counted."""
    spilled = {"text": 0, "sums": 0}

    def counting(name, function):
        def call(*arguments):
            spilled[name] += 1
            return function(*arguments)

        return call

    monkeypatch.setattr(tokenizer, "CHUNK_BYTES", 1 << 13)
    monkeypatch.setattr(streaming, "MIN_PENDING", 2000)
    monkeypatch.setattr(streaming, "PIECE_SIZE", 3000)
    monkeypatch.setattr(candidates, "MIN_TABLE_BYTES", 20_000)
    monkeypatch.setattr(
        streaming.UserPartitions, "spill", counting("text", streaming.UserPartitions.spill)
    )
    monkeypatch.setattr(candidates, "spill", counting("sums", ngrams.spill))
    return spilled


def test_sums_are_the_same_spilled_or_not(private, vocabulary, crowded):
    public = PublicTextModel.from_vocabulary(vocabulary)
    here = sum_candidates(read(private), public, ORDERS, FOUND, memory=1 << 30)
    assert crowded == {"text": 0, "sums": 0}
    there = sum_candidates(read(private), public, ORDERS, FOUND, memory=1)
    assert min(crowded.values()) > 3
    assert len(here.sums) > 1000
    assert (there.ngrams.to_pylist(), there.sums.tolist()) == (
        here.ngrams.to_pylist(),
        here.sums.tolist(),
    )
    above = sum_candidates(
        read(private), public, ORDERS, ContributionBound(20, UNITS // 50, UNITS), memory=1
    )
    kept = np.flatnonzero(here.sums >= UNITS)
    assert 0 < kept.size < len(here.sums)
    assert (above.ngrams.to_pylist(), above.sums.tolist()) == (
        here.ngrams.take(kept).to_pylist(),
        here.sums[kept].tolist(),
    )


def all_of(lists):
    """Candidates, weights and everybody's lists, in their order."""
    texts, logs = candidate_texts_and_logs(lists)
    return texts, logs.tobytes(), candidates_by_user(lists)


def test_lists_are_the_same_when_text_waits_on_disk(private, vocabulary, crowded):
    public = PublicTextModel.from_vocabulary(vocabulary)
    with list_candidates(read(private), public, ORDERS, 20, memory=1 << 30) as lists:
        here = all_of(lists)
    assert not crowded["text"]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(streaming, "BYTES_PER_OCCURRENCE", 1 << 20)
        with list_candidates(read(private), public, ORDERS, 20, memory=1 << 30) as lists:
            there = all_of(lists)
    assert crowded["text"] > 3
    assert there == here


@pytest.fixture
def many_blocks(monkeypatch):
    """Lists on disk are in small chunks, and their candidates in many blocks."""
    monkeypatch.setattr(candidates, "PAIRS_PER_CHUNK", 700)
    monkeypatch.setattr(candidates, "MIN_BLOCK_CANDIDATES", 300)


@pytest.mark.parametrize("share", [0.0, 0.4, 0.95])
def test_lists_that_memory_does_not_hold_are_the_same_on_disk(
    private, vocabulary, many_blocks, share
):
    """However many of them were in memory before: numbers, weights, lists, and sums in every round."""
    public, rng = PublicTextModel.from_vocabulary(vocabulary), np.random.default_rng(6)
    with list_candidates(read(private), public, ORDERS, 20, memory=1 << 30) as here:
        pairs = sum(map(len, candidates_by_user(here)))
        needed = candidates.CANDIDATE_BYTES * len(here) + candidates.PAIR_BYTES * pairs
        memory = int(share * needed)
    with (
        list_candidates(read(private), public, ORDERS, 20, memory=needed) as here,
        list_candidates(read(private), public, ORDERS, 20, memory=memory) as there,
    ):
        assert all_of(there) == all_of(here)
        assert (len(here.blocks), here.on_disk) == (1, False)
        assert there.on_disk
        assert len(there.blocks) > 3 or share > 0  # on disk there may be one block, too
        asked = CandidateRounds(here), CandidateRounds(there)
        weights = rng.random(len(here))
        for _ in range(4):
            sums = []
            for lists, rounds in zip((here, there), asked, strict=True):
                blocks = lists.new_array_blocks("weights")
                for number, (first, last) in enumerate(lists.blocks):
                    blocks[number] = weights[first:last]
                sums.append(np.concatenate(list(rounds.sums(blocks))))
            assert sums[0].any()
            assert (sums[0] == sums[1]).all()
            assert not sums[0][weights == 0].any()
            weights = np.where(
                rng.random(weights.size) < 0.4, 0.0, weights * rng.random(weights.size)
            )
        everything = np.ones(len(here))
        assert (
            sum_weights(there, everything) == sum_weights(here, everything)
        ).all()  # others may begin again


class Noted(SeededNoise):
    """Notes what it is asked for, one number after the other."""

    def __init__(self):
        super().__init__(9)
        self.asked = []

    def discrete_gaussian(self, values, *, scale):
        self.asked += values.tolist()
        return super().discrete_gaussian(values, scale=scale)


def test_a_discovery_finds_the_same_on_disk_with_the_same_noise_for_each_candidate(
    private, vocabulary, many_blocks, monkeypatch
):
    found = []
    for memory in (1 << 30, 1):
        noise = Noted()
        monkeypatch.setattr(
            Randomness, "from_seed", classmethod(lambda cls, _seed, noise=noise: cls(noise, 5))
        )
        discovery = discover(
            private, vocabulary, Budget(8.0, 1e-3), rounds=4, memory=memory, open=True
        )
        found.append((noise.asked, discovery.ngrams.to_pylist(), discovery.weights.tolist()))
    assert len(found[0][1]) > 20
    assert found[0] == found[1]


def test_lists_that_memory_does_not_hold_are_no_reason_to_refuse(private, vocabulary, tmp_path):
    """A refusal would say how much people wrote that nobody has published."""
    book = Ledger.create(tmp_path / "book", population="people", budget=Budget(8.0, 1e-3))
    discover(
        private, vocabulary, Budget(1.0, 1e-5), memory=1, ledger=book, output=tmp_path / "found"
    )
    assert len(book.read().spends) == 1


def test_nothing_is_left_on_disk(private, vocabulary, tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    for memory in (1 << 30, 1):
        with list_candidates(
            read(private), PublicTextModel.from_vocabulary(vocabulary), ORDERS, 20, memory=memory
        ) as lists:
            sum_weights(lists, np.ones(len(lists)))
            assert list(tmp_path.iterdir())
        assert not list(tmp_path.iterdir())


def test_two_windows_with_the_same_hash_stay_two(private, vocabulary, many_blocks, monkeypatch):
    """Windows are compared token by token: a hash says in which order they are numbered, and no more."""
    monkeypatch.setattr(
        candidates, "hash_windows", lambda rows, _hashes: np.zeros(len(rows), np.uint64)
    )
    public = PublicTextModel.from_vocabulary(vocabulary)
    with list_candidates(read(private), public, ORDERS, 20, memory=1 << 30) as lists:
        here = all_of(lists)
    with list_candidates(read(private), public, ORDERS, 20, memory=1) as lists:
        assert all_of(lists) == here
    assert len(set(here[0])) == len(here[0]) > 1000


class Far(SpillableColumn):
    """Numbers its rows as if there had been 2³² before them."""

    def __init__(self, *arguments, **options):
        super().__init__(*arguments, **options)
        self.size = 1 << 32


def test_there_may_be_more_candidates_than_32_bits_can_number(
    private, vocabulary, many_blocks, monkeypatch
):
    """None gets another's number, in the table of windows and in users' lists."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            ngram_tables, "grow_slots", lambda slots, _entries: slots
        )  # no room for those before
        numbers = ngram_tables.WindowNumbers(2, tokens=100)
        numbers._size = 1 << 32
        added = numbers.add(np.array([[1, 2], [3, 4], [1, 2]], np.int32))
    assert added.tolist() == [1 << 32, (1 << 32) + 1, 1 << 32]
    public = PublicTextModel.from_vocabulary(vocabulary)
    with list_candidates(read(private), public, ORDERS, 20, memory=1) as lists:
        near = candidates_by_user(lists)
    monkeypatch.setattr(candidates, "SpillableColumn", Far)
    with list_candidates(read(private), public, ORDERS, 20, memory=1) as lists:
        assert candidates_by_user(lists) == [[number + (1 << 32) for number in own] for own in near]


def test_one_user_with_very_many_ngrams(vocabulary):
    """More than a user gives: the same ones, however the text is shared out among rows and in whatever order."""
    words = np.random.default_rng(1).permutation(300_000).astype(str)
    rows = [" ".join(f"q{word}" for word in some) for some in np.array_split(words, 30)]
    cut = Tokenizer("whitespace")
    public = PublicTextModel.from_vocabulary(
        Vocabulary(vocabulary.ngrams, vocabulary.counts, 3, cut)
    )
    found = []
    for texts in (rows, rows[::-1]):
        table = pa.table({"user": ["ann"] * len(texts), "text": texts})
        found.append(sum_candidates(read(table), public, ORDERS, FOUND, memory=1))
    assert found[0].ngrams.to_pylist() == found[1].ngrams.to_pylist()
    assert found[0].sums.tolist() == found[1].sums.tolist()
    assert 0 < len(found[0].sums) <= FOUND.max_candidates
    assert sum(int(units) ** 2 for units in found[0].sums) <= UNITS**2
