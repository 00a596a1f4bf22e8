"""How probable it is that a probability is within a factor of the truth, against slow references."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bayesgram.releases.intervals import accuracy_share, probability_within_factor

POSITIVE = st.floats(1e-300, 1e300)


def integrate(probability, std, factor, steps=100_000):
    """Integrate the density of the Gamma distribution over log x, by the midpoint rule."""
    shape = (probability / std) ** 2
    scale = std**2 / probability
    low, high = math.log(probability / factor), math.log(probability * factor)
    width = (high - low) / steps
    log_x = low + width * (np.arange(steps) + 0.5)
    # The density of log x: x times that of x.
    log_density = (
        shape * log_x - np.exp(log_x) / scale - math.lgamma(shape) - shape * math.log(scale)
    )
    return float(np.exp(log_density).sum() * width)


@pytest.mark.parametrize("probability", [1e-9, 0.003, 0.7])
@pytest.mark.parametrize("relative_std", [0.05, 0.4, 1.0, 3.0])
@pytest.mark.parametrize("factor", [1.1, 2.0, 4.0])
def test_within_a_factor_is_the_integral_of_a_gamma_density(probability, relative_std, factor):
    std = relative_std * probability
    within = probability_within_factor(np.array([probability]), np.array([std]), factor)
    assert within[0] == pytest.approx(integrate(probability, std, factor), abs=1e-7)


def test_within_a_factor_is_the_share_of_draws():
    rng = np.random.default_rng(1)
    p = np.array([0.2, 0.01, 1e-6])
    std = p * [0.3, 0.8, 2.0]
    truth = rng.gamma((p / std) ** 2, std**2 / p, (200_000, 3))
    share = ((truth >= p / 2) & (truth <= 2 * p)).mean(axis=0)
    assert probability_within_factor(p, std, 2.0) == pytest.approx(share, abs=0.005)


def test_what_is_exact_is_within_any_factor_and_0_is_within_none():
    p = np.array([0.0, 0.0, 0.5, 0.5])
    std = np.array([0.0, 0.1, 0.0, 1e-9])
    assert probability_within_factor(p, std, 1.1).tolist() == [1.0, 0.0, 1.0, 1.0]


@given(p=POSITIVE, std=POSITIVE, factor=st.floats(1.0, 1e6), other=st.floats(1.0, 1e6))
def test_it_is_a_probability_and_grows_with_the_factor(p, std, factor, other):
    small, large = sorted([factor, other])
    first, second = (
        probability_within_factor(np.array([p]), np.array([std]), each)[0]
        for each in (small, large)
    )
    assert 0 <= first <= second + 1e-12 <= 1 + 1e-12


def test_shares_are_expectations():
    p = np.array([0.5, 0.3, 0.2])
    std = p * [0.0, 0.2, 10.0]
    # Errors are expected to be 0.7 of the stated deviations.
    within = [1.0, *(integrate(p[at], 0.7 * std[at], 2.0) for at in (1, 2))]
    share = accuracy_share(2.0, p, std)
    assert share.ngram_share == pytest.approx(sum(within) / 3, abs=1e-6)
    assert share.mass_share == pytest.approx(float(p @ within), abs=1e-6)
