"""Gaussian calibration, against the curve written out."""

import math
from fractions import Fraction

import mpmath
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import log_ndtr

from bayesgram.errors import BayesgramError, UsageError
from bayesgram.privacy.accounting import DISCRETENESS
from bayesgram.privacy.budget import Budget
from bayesgram.privacy.calibration import GaussianNoise, calibrate_gaussian

UNITS = 1 << 30


def log_delta(epsilon, sigma):
    """log δ_Gauss(ε) = log(Φ(1/2σ − εσ) − e^ε Φ(−1/2σ − εσ))."""
    first, second = (
        log_ndtr(0.5 / sigma - epsilon * sigma),
        epsilon + log_ndtr(-0.5 / sigma - epsilon * sigma),
    )
    return first + math.log1p(-math.exp(second - first)) if second < first else -math.inf


@settings(deadline=None)
@given(st.floats(1e-3, 100), st.floats(1e-12, 1e-2), st.integers(1, 10**6))
def test_what_is_spent_is_at_most_the_budget_and_nearly_all_of_it(epsilon, delta, coordinates):
    """e^h δ_Gauss(ε − h) + e^ε τ, the last of which is below 1e-100."""
    noise = calibrate_gaussian(Budget(epsilon, delta), coordinates=coordinates, units=UNITS)
    eta = coordinates / (24 * (noise.multiplier * UNITS) ** 2)
    assert noise.total_variation >= eta * (1 - 1e-15)
    assert noise.slack == DISCRETENESS * noise.total_variation < 1e-9 * max(epsilon, delta)
    spent = math.exp(noise.slack + log_delta(epsilon - noise.slack, noise.multiplier))
    assert (
        delta * 0.999 < spent <= delta * (1 + 1e-10)
    )  # the formula as it is written here loses digits


@pytest.mark.parametrize(("epsilon", "multiplier"), [(0.1, 36.31), (0.2, 18.99), (1.0, 4.23)])
def test_known_multipliers_at_delta_1e_6(epsilon, multiplier):
    found = calibrate_gaussian(Budget(epsilon, 1e-6), coordinates=50_000, units=1 << 30)
    assert found.multiplier == pytest.approx(multiplier, abs=0.006)


@pytest.mark.parametrize("epsilon", [1e-5, 1e-4, 1e-3])
@pytest.mark.parametrize("delta", [1e-12, 1e-6, 0.01])
def test_tiny_epsilon_does_not_overspend(epsilon, delta):
    """Where the two terms of δ_Gauss nearly cancel, checked with 50 digits."""
    noise = calibrate_gaussian(Budget(epsilon, delta), coordinates=1, units=1 << 30)
    with mpmath.workdps(50):
        sigma, eps = mpmath.mpf(noise.multiplier), mpmath.mpf(epsilon)
        first = mpmath.ncdf(1 / (2 * sigma) - eps * sigma)
        spent = first - mpmath.exp(eps) * mpmath.ncdf(-1 / (2 * sigma) - eps * sigma)
        assert mpmath.exp(noise.slack) * spent <= delta


@pytest.mark.parametrize(
    ("epsilon", "delta"), [(100.0, 1e-5), (100.0, 0.5), (1e-5, 1e-30), (30.0, 1e-30)]
)
def test_the_corners_of_the_budget_can_be_calibrated(epsilon, delta):
    noise = calibrate_gaussian(Budget(epsilon, delta), coordinates=50_000, units=1 << 30)
    assert math.isfinite(noise.multiplier)
    assert noise.multiplier > 0


# A calibration is not believed, but checked


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 20.0])
@pytest.mark.parametrize("share", [0.9, 0.999, 0.99999])
def test_a_root_finder_that_is_a_little_wrong_is_refused_before_noise_is_drawn(
    monkeypatch, epsilon, share
):
    import dp_accounting

    right = dp_accounting.get_sigma_gaussian
    monkeypatch.setattr(dp_accounting, "get_sigma_gaussian", lambda *budget: share * right(*budget))
    calibrate_gaussian.cache_clear()
    with pytest.raises(
        BayesgramError, match=r"fails our own check, so nothing was released\. Please report it"
    ):
        calibrate_gaussian(Budget(epsilon, 1e-6), coordinates=1000, units=UNITS)


def test_a_thousandth_of_a_percent_more_noise_than_needed_is_not_refused(monkeypatch):
    import dp_accounting

    right = dp_accounting.get_sigma_gaussian
    monkeypatch.setattr(
        dp_accounting, "get_sigma_gaussian", lambda *budget: 1.00001 * right(*budget)
    )
    calibrate_gaussian.cache_clear()
    assert calibrate_gaussian(Budget(1.0, 1e-6), coordinates=1000, units=UNITS).multiplier > 4.22
    calibrate_gaussian.cache_clear()


def test_noise_on_a_coarse_grid_is_refused():
    """With B = 2¹⁰ a user's contribution has so few steps that the noise is not nearly continuous."""
    with pytest.raises(
        UsageError,
        match=r"^coordinates=50,000: too many for discrete noise at epsilon=1, delta=1e-06, which",
    ):
        calibrate_gaussian(Budget(1.0, 1e-6), coordinates=50_000, units=1 << 10)


shares = st.lists(st.floats(1e-6, 0.3), max_size=3)


@given(st.floats(0.01, 1e6), shares)
def test_the_parts_of_a_budget_add_up_to_no_more_than_the_whole(multiplier, taken):
    """Exactly, in fractions; and to hardly less. What is left after some shares is a share, too."""
    left = 1.0
    for share in taken:
        left -= share
    whole = GaussianNoise(multiplier, 0.0)
    parts = [whole.multiplier_for_share(share) for share in (*taken, left)]
    together = sum(1 / Fraction(part) ** 2 for part in parts)
    assert (
        (1 - Fraction(1, 10**12)) / Fraction(multiplier) ** 2
        < together
        <= 1 / Fraction(multiplier) ** 2
    )
    for share, part in zip((*taken, left), parts, strict=True):
        assert float(1 / Fraction(part) ** 2 * Fraction(multiplier) ** 2) == pytest.approx(share)
