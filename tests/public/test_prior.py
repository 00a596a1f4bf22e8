"""Equations 1, 2 and 4."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bayesgram.public.vocabulary import (
    centred_log,
    public_distribution,
    softmax,
    source_distributions,
)
from helpers import reference_paper

counts = st.lists(st.integers(0, 10**9), min_size=1, max_size=20)


@given(counts)
def test_centred_log(c):
    assert centred_log(np.array(c)) == pytest.approx(reference_paper.centred_log(c), abs=1e-9)


@given(st.lists(st.floats(-300, 300), min_size=1, max_size=10))
def test_softmax(h):
    total = sum(math.exp(value - max(h)) for value in h)
    assert softmax(np.array(h)) == pytest.approx([math.exp(value - max(h)) / total for value in h])


@given(counts)
def test_the_public_distribution_is_the_softmax_of_equation_1(c):
    assert public_distribution(np.array(c)) == pytest.approx(softmax(centred_log(np.array(c))))


def test_one_source_is_the_public_distribution():
    counts = np.array([7, 0, 2])
    assert source_distributions(counts[None], counts).tolist() == [
        public_distribution(counts).tolist()
    ]


def test_what_a_source_lacks_it_has_from_the_mixture():
    """One count for each n-gram, spread as the mixture is; nothing is 0, and each source adds up to 1."""
    by_source = np.array([[90, 10, 0], [0, 0, 5]])
    counts = np.array([43, 5, 48])
    mixture = (counts + 1) / (counts + 1).sum()
    found = source_distributions(by_source, counts)
    assert found == pytest.approx(
        (by_source + 3 * mixture) / (by_source.sum(axis=1, keepdims=True) + 3)
    )
    assert found.sum(axis=1) == pytest.approx(1)
    assert (found > 0).all()
