"""Gaussian calibration, against the curve written out."""

import math

import mpmath
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import log_ndtr

from bayesgram.privacy.budget import Budget
from bayesgram.privacy.calibration import calibrate_gaussian


def log_delta(epsilon, sigma):
    """log δ_Gauss(ε) = log(Φ(1/2σ − εσ) − e^ε Φ(−1/2σ − εσ))."""
    first, second = log_ndtr(0.5 / sigma - epsilon * sigma), epsilon + log_ndtr(-0.5 / sigma - epsilon * sigma)
    return first + math.log1p(-math.exp(second - first)) if second < first else -math.inf


@settings(deadline=None)
@given(st.floats(1e-3, 10), st.floats(1e-12, 1e-3), st.integers(1, 10**6))
def test_what_is_spent_is_at_most_the_budget_and_nearly_all_of_it(epsilon, delta, coordinates):
    units = 1 << 30
    noise = calibrate_gaussian(Budget(epsilon, delta), coordinates=coordinates, units=units)
    spent = math.exp(log_delta(epsilon, noise.multiplier))
    slack = (1 + math.exp(epsilon)) * coordinates / (24 * (noise.multiplier * units) ** 2) if noise.slack else 0.0
    assert slack <= noise.slack * (1 + 1e-9)
    assert spent + slack <= delta
    if noise.slack:
        assert spent > delta * 0.98


@pytest.mark.parametrize(("epsilon", "multiplier"), [(0.1, 36.31), (0.2, 18.99), (1.0, 4.23)])
def test_known_multipliers_at_delta_1e_6(epsilon, multiplier):
    found = calibrate_gaussian(Budget(epsilon, 1e-6), coordinates=50_000, units=1 << 30)
    assert found.multiplier == pytest.approx(multiplier, abs=0.006)


@pytest.mark.parametrize("epsilon", [20.0, 50.0, 100.0])
def test_huge_epsilon_falls_back_to_zcdp(epsilon):
    noise = calibrate_gaussian(Budget(epsilon, 1e-6), coordinates=50_000, units=1 << 30)
    assert noise.slack == 0
    assert log_delta(epsilon, noise.multiplier) <= math.log(1e-6)


@pytest.mark.parametrize("epsilon", [1e-5, 1e-4, 1e-3])
@pytest.mark.parametrize("delta", [1e-12, 1e-6, 0.01])
def test_tiny_epsilon_does_not_overspend(epsilon, delta):
    """Where the two terms of δ_Gauss nearly cancel, checked with 50 digits."""
    noise = calibrate_gaussian(Budget(epsilon, delta), coordinates=1, units=1 << 30)
    with mpmath.workdps(50):
        sigma, eps = mpmath.mpf(noise.multiplier), mpmath.mpf(epsilon)
        first = mpmath.ncdf(1 / (2 * sigma) - eps * sigma)
        spent = first - mpmath.exp(eps) * mpmath.ncdf(-1 / (2 * sigma) - eps * sigma)
        assert spent + noise.slack <= delta


@pytest.mark.parametrize(("epsilon", "delta"), [(100.0, 1e-5), (100.0, 0.5), (1e-5, 1e-30), (30.0, 1e-30)])
def test_the_corners_of_the_budget_can_be_calibrated(epsilon, delta):
    noise = calibrate_gaussian(Budget(epsilon, delta), coordinates=50_000, units=1 << 30)
    assert math.isfinite(noise.multiplier)
    assert noise.multiplier > 0
