"""Bounds that are wrong no more often than they say."""

import math

import numpy as np
import pytest
from scipy.stats import binom

from bayesgram.audit.findings import (
    DetectionCounts,
    binomial_lower_bound,
    binomial_upper_bound,
    check_confidence,
    mean_lower_bound,
)
from bayesgram.errors import UsageError


@pytest.mark.parametrize(("wins", "tries"), [(1, 10), (7, 10), (499, 500), (3, 100_000)])
def test_clopper_pearson_is_where_the_binomial_tail_is_the_error(wins, tries):
    low, high = (
        binomial_lower_bound(wins, tries, error=1e-3),
        binomial_upper_bound(wins, tries, error=1e-3),
    )
    assert binom.sf(wins - 1, tries, low) == pytest.approx(1e-3)
    assert binom.cdf(wins, tries, high) == pytest.approx(1e-3)
    assert low < wins / tries < high


def test_rates_prove_no_more_than_is_true():
    """Randomised response at ε = 1 with known rates: the bounds are below the truth and come near it."""
    q = math.e / (1 + math.e)
    rates = DetectionCounts(round(q * 10**6), round((1 - q) * 10**6), 10**6)
    assert 0.98 < rates.epsilon_lower_bound(0.0, error=1e-6) < 1
    assert rates.delta_lower_bound(1.0, error=1e-6) == 0
    assert rates.delta_lower_bound(0.5, error=1e-6) == pytest.approx(
        q - math.exp(0.5) * (1 - q), rel=0.05
    )
    assert DetectionCounts(0, 10, 10).epsilon_lower_bound(0.0, error=0.1) == 0


def test_the_mean_is_below_the_bound_as_seldom_as_promised():
    """2,000 times at an error of 5%: a bound with that error fails more than 160 times once in 10⁷."""
    rng = np.random.default_rng(2)
    samples = rng.random((2000, 3000)) ** 20  # small, with rare large values; the mean is 1/21
    failed = sum(mean_lower_bound(row, 1.0, error=0.05) > 1 / 21 for row in samples)
    assert failed <= 160
    assert np.mean([mean_lower_bound(row, 1.0, error=0.05) for row in samples]) > 0.7 / 21


def test_larger_values_than_expected_count_as_expected():
    assert mean_lower_bound(np.array([0.0, 9.0] * 5000), 1.0, error=0.01) < 0.5


@pytest.mark.parametrize("value", [0.4, 1.0, float("nan")])
def test_what_is_no_confidence(value):
    with pytest.raises(
        UsageError, match=r"^confidence=.*: give a number from 0\.5 to below 1; 0\.99 is usual\.$"
    ):
        check_confidence(value)
