"""What is dropped from a discovery takes everything with it that contains it."""

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from bayesgram.public.discovered_ngrams import Discovery, contains_any
from bayesgram.public.vocabulary import Vocabulary, extend_vocabulary
from bayesgram.releases.provenance import DiscoveryClaim
from bayesgram.text.tokenizer import Tokenizer

WORDS = ["art", "start", "a", "typos", "fix"]
NGRAM = st.lists(st.sampled_from(WORDS), min_size=1, max_size=3).map(tuple)


def contains(ngram, other):
    """Literally: whether some run of tokens is the other."""
    return any(ngram[first : first + len(other)] == other for first in range(len(ngram)))


def strings(ngrams):
    return pa.array([" ".join(ngram) for ngram in ngrams], pa.large_string())


def discovery_of(public, found):
    """A discovery, of which only the n-grams and the vocabulary matter here."""
    public, found = (
        sorted(ngrams, key=lambda ngram: (len(ngram), ngram)) for ngrams in (public, found)
    )
    plain = Vocabulary(strings(public), np.arange(1, len(public) + 1), 3, Tokenizer())
    claim = DiscoveryClaim(1.0, 1e-7, "PROVED")
    logs = np.full(len(found), -3.0)
    weights = np.arange(len(found), dtype=float)
    return Discovery(
        strings(found),
        weights,
        logs,
        1.0,
        None,
        extend_vocabulary(plain, strings(found), logs, claim),
    )


@given(st.lists(NGRAM), st.lists(NGRAM))
def test_containing_is_decided_token_by_token(ngrams, others):
    expected = [any(contains(ngram, other) for other in others) for ngram in ngrams]
    assert contains_any(strings(ngrams), strings(others), Tokenizer()).tolist() == expected


@given(st.sets(NGRAM), st.sets(NGRAM, min_size=1), st.data())
def test_dropping_takes_what_contains_it_and_leaves_what_was_public(public, found, data):
    every_order = {("x",) * order for order in (1, 2, 3)}
    public, found = public | every_order, found - public
    discovery = discovery_of(public, found)
    ngrams = [tuple(ngram.split()) for ngram in discovery.ngrams.to_pylist()]
    rows = np.array(
        data.draw(st.lists(st.booleans(), min_size=len(ngrams), max_size=len(ngrams))), bool
    )
    dropped = [ngram for ngram, stays in zip(ngrams, rows, strict=True) if not stays]
    expected = [ngram for ngram in ngrams if not any(contains(ngram, other) for other in dropped)]
    kept = discovery.keep(rows)
    assert kept.ngrams.to_pylist() == [" ".join(ngram) for ngram in expected]
    assert kept.weights.tolist() == [float(ngrams.index(ngram)) for ngram in expected]
    listed = {tuple(ngram.split()) for ngram in kept.vocabulary.ngrams.to_pylist()}
    assert listed == public | set(expected)
    names = np.array(kept.vocabulary.ngrams.to_pylist())[kept.vocabulary.origins.discovered]
    assert {tuple(name.split()) for name in names} == set(expected)


def test_the_example_of_the_documentation():
    found = [
        ("typos",),
        ("art",),
        ("start",),
        ("fix", "typos"),
        ("please", "fix", "typos"),
        ("the", "start"),
    ]
    discovery = discovery_of([("x",), ("public", "typos"), ("x", "x", "x")], found)
    names = discovery.ngrams.to_pylist()

    def left(*dropped):
        return discovery.keep(np.array([name not in dropped for name in names]))

    assert left("typos").ngrams.to_pylist() == ["art", "start", "the start"]
    assert "public typos" in left("typos").vocabulary.ngrams.to_pylist()
    assert left("fix typos").ngrams.to_pylist() == ["art", "start", "typos", "the start"]
    assert left("art").ngrams.to_pylist() == [
        "start",
        "typos",
        "fix typos",
        "the start",
        "please fix typos",
    ]
    assert left().ngrams.to_pylist() == names
