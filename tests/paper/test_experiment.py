"""Perplexity against a slow, literal one."""

import math

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bayesgram.errors import BayesgramError
from bayesgram.paper.experiment import context_ids, perplexity
from bayesgram.public.vocabulary import Vocabulary
from bayesgram.text.tokenizer import Tokenizer

words = st.sampled_from("abcd")


def vocabulary_of(ngrams):
    return Vocabulary(
        pa.array(ngrams, pa.large_string()), np.ones(len(ngrams), np.int64), 3, Tokenizer()
    )


def literal(ngrams, counts, theta):
    """Word for word: every occurrence, its context, the n-grams that share it."""
    losses = []
    for ngram, number, p in zip(ngrams, counts, theta, strict=True):
        context = ngram.split()[:2]
        total = sum(
            q for other, q in zip(ngrams, theta, strict=True) if other.split()[:2] == context
        )
        losses += [-math.log(p / total)] * number
    return math.exp(sum(losses) / len(losses))


@given(st.data())
def test_it_is_the_literal_one(data):
    ngrams = data.draw(
        st.lists(st.tuples(words, words, words).map(" ".join), min_size=1, max_size=20, unique=True)
    )
    size = len(ngrams)
    counts = data.draw(st.lists(st.integers(0, 5), min_size=size, max_size=size).filter(any))
    weights = np.array(data.draw(st.lists(st.floats(0.01, 1), min_size=size, max_size=size)))
    theta = weights / weights.sum()
    found = perplexity(np.array(counts), theta, context_ids(vocabulary_of(ngrams)))
    assert found == pytest.approx(literal(ngrams, counts, theta))


def test_the_truth_is_best_and_equal_choices_count_themselves():
    context = context_ids(vocabulary_of(["a b c", "a b d", "b a c", "b a d", "b a a"]))
    counts = np.array([3, 1, 2, 2, 2])
    truth = counts / counts.sum()
    assert perplexity(counts, truth, context) < perplexity(counts, np.full(5, 0.2), context)
    assert perplexity(np.array([0, 0, 1, 1, 1]), np.full(5, 0.2), context) == pytest.approx(3)


def test_nobody_held_out():
    with pytest.raises(
        BayesgramError, match="nobody is held out, or they have no n-gram of the vocabulary"
    ):
        perplexity(np.zeros(2, np.int64), np.full(2, 0.5), np.zeros(2, np.int64))
