"""KL(p ‖ θ)."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bayesgram.audit.evaluation import kl_divergence
from bayesgram.errors import BayesgramError
from helpers import reference_paper

pairs = st.integers(1, 8).flatmap(
    lambda size: st.tuples(
        st.lists(st.integers(0, 1000), min_size=size, max_size=size).filter(any),
        st.lists(st.floats(0.01, 1), min_size=size, max_size=size),
    )
)


@given(pairs)
def test_kl(pair):
    counts, weights = pair
    theta = np.array(weights) / sum(weights)
    assert kl_divergence(np.array(counts), theta) == pytest.approx(
        reference_paper.kl(counts, theta), abs=1e-12
    )


@given(pairs)
def test_kl_of_the_truth_is_zero_and_no_other_is_below(pair):
    counts, weights = np.array(pair[0]), np.array(pair[1])
    assert kl_divergence(counts, counts / counts.sum()) == pytest.approx(0, abs=1e-12)
    assert kl_divergence(counts, weights / weights.sum()) >= -1e-12


def test_ruling_out_what_people_wrote_is_infinitely_bad():
    assert kl_divergence(np.array([1, 1]), np.array([1.0, 0.0])) == math.inf
    assert kl_divergence(np.array([1, 0]), np.array([1.0, 0.0])) == 0


def test_nobody():
    with pytest.raises(
        BayesgramError, match=r"^the private counts are empty: there is nothing to compare with\.$"
    ):
        kl_divergence(np.array([0, 0]), np.array([0.5, 0.5]))
