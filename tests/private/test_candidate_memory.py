"""Discovery within little memory: the same candidates, sums and lists, whether they are spilled to disk or not."""

import numpy as np
import pyarrow as pa
import pytest

from bayesgram.errors import BayesgramError
from bayesgram.files import read_records
from bayesgram.mechanisms.discovery import discover
from bayesgram.privacy.budget import Budget
from bayesgram.privacy.ledger import Ledger
from bayesgram.private import candidate_sums, streaming, user_text
from bayesgram.private.candidate_lists import list_candidates
from bayesgram.private.candidate_sums import Bound, sum_candidates
from bayesgram.private.clip import UNITS
from bayesgram.public.novelty import PublicText
from bayesgram.public.vocabulary import Vocabulary
from bayesgram.text import ngrams, tokens
from bayesgram.text.tokens import Tokenizer

FOUND = Bound(most=20, smallest=UNITS // 50, floor=1)
ORDERS = (1, 2, 3)


def read(table):
    return read_records(table, text_column="text", user_column="user")


@pytest.fixture(scope="module")
def vocabulary():
    return Vocabulary.from_public(pa.table({"text": ["w1 w2 w3 w4 w1 w2"]}), order=[1, 2, 3], size=50)


@pytest.fixture(scope="module")
def private():
    """A thousand people, and one who writes more than all of them."""
    rng = np.random.default_rng(3)
    users = np.append(rng.integers(0, 1000, 3000), np.full(2000, 1000))
    texts = [" ".join(f"w{word}" for word in rng.zipf(1.3, rng.integers(1, 15)) % 5000) for _ in users]
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

    monkeypatch.setattr(tokens, "CHUNK_BYTES", 1 << 13)
    monkeypatch.setattr(user_text, "SMALLEST", 2000)
    monkeypatch.setattr(streaming, "PIECE", 3000)
    monkeypatch.setattr(candidate_sums, "SMALLEST_TABLE", 20_000)
    monkeypatch.setattr(streaming.Partitioned, "spill", counting("text", streaming.Partitioned.spill))
    monkeypatch.setattr(candidate_sums, "spill", counting("sums", ngrams.spill))
    return spilled


def test_sums_are_the_same_spilled_or_not(private, vocabulary, crowded):
    public = PublicText.of(vocabulary)
    here = sum_candidates(read(private), public, ORDERS, FOUND, memory=1 << 30)
    assert crowded == {"text": 0, "sums": 0}
    there = sum_candidates(read(private), public, ORDERS, FOUND, memory=1)
    assert min(crowded.values()) > 3
    assert len(here.sums) > 1000
    assert (there.ngrams.to_pylist(), there.sums.tolist()) == (here.ngrams.to_pylist(), here.sums.tolist())
    above = sum_candidates(read(private), public, ORDERS, Bound(20, UNITS // 50, UNITS), memory=1)
    kept = np.flatnonzero(here.sums >= UNITS)
    assert 0 < kept.size < len(here.sums)
    assert (above.ngrams.to_pylist(), above.sums.tolist()) == (
        here.ngrams.take(kept).to_pylist(),
        here.sums[kept].tolist(),
    )


def test_lists_are_the_same_when_text_waits_on_disk(private, vocabulary, crowded):
    public = PublicText.of(vocabulary)
    here = list_candidates(read(private), public, ORDERS, 20, memory=1 << 30)
    assert not crowded["text"]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(user_text, "BYTES_PER_ROW", 1 << 20)
        there = list_candidates(read(private), public, ORDERS, 20, memory=1 << 30)
    assert crowded["text"] > 3
    everything = np.arange(here.logs.size)
    assert there.ngrams(everything).to_pylist() == here.ngrams(everything).to_pylist()
    for name in ("starts", "candidates", "logs"):
        assert getattr(there, name).tobytes() == getattr(here, name).tobytes(), name


def test_lists_that_memory_does_not_hold_are_refused_before_anything_is_spent(private, vocabulary, tmp_path):
    book = Ledger.create(tmp_path / "book", population="people", budget=Budget(8.0, 1e-3))
    with pytest.raises(BayesgramError, match=r"more than `memory` holds; give more, or ask in one round: rounds=1\."):
        discover(private, vocabulary, Budget(1.0, 1e-5), memory=1 << 20, ledger=book)
    assert not book.read().spends


def test_one_user_with_very_many_ngrams(vocabulary):
    """More than a user gives: the same ones, however the text is shared out among rows and in whatever order."""
    words = np.random.default_rng(1).permutation(300_000).astype(str)
    rows = [" ".join(f"q{word}" for word in some) for some in np.array_split(words, 30)]
    cut = Tokenizer("whitespace")
    public = PublicText.of(Vocabulary(vocabulary.ngrams, vocabulary.counts, 3, cut))
    found = []
    for texts in (rows, rows[::-1]):
        table = pa.table({"user": ["ann"] * len(texts), "text": texts})
        found.append(sum_candidates(read(table), public, ORDERS, FOUND, memory=1))
    assert found[0].ngrams.to_pylist() == found[1].ngrams.to_pylist()
    assert found[0].sums.tolist() == found[1].sums.tolist()
    assert 0 < len(found[0].sums) <= FOUND.most
    assert sum(int(units) ** 2 for units in found[0].sums) <= UNITS**2
