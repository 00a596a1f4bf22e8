"""Equations 1, 2 and 4."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import reference
from bayesgram.public.prior import centred_log, public_distribution, softmax

counts = st.lists(st.integers(0, 10**9), min_size=1, max_size=20)


@given(counts)
def test_centred_log(c):
    assert centred_log(np.array(c)) == pytest.approx(reference.centred_log(c), abs=1e-9)


@given(st.lists(st.floats(-300, 300), min_size=1, max_size=10))
def test_softmax(h):
    total = sum(math.exp(value - max(h)) for value in h)
    assert softmax(np.array(h)) == pytest.approx([math.exp(value - max(h)) / total for value in h])


@given(counts)
def test_the_public_distribution_is_the_softmax_of_equation_1(c):
    assert public_distribution(np.array(c)) == pytest.approx(softmax(centred_log(np.array(c))))
