"""Standard deviations: each part by its formula, and the trust fitted to known errors."""

import math

import numpy as np
import pytest

from bayesgram.inference.deviations import (
    BURST,
    WIDENING,
    fit_trust,
    hidden_std,
    probability_std,
)
from bayesgram.inference.noisy_counts import Clipping
from helpers.synthetic_measurements import make_measured


def test_trust_in_what_is_expected_is_fitted_to_the_errors():
    """λ strays from E with deviation E/(t + c) for a known c; one standard error is a few percent of c here."""
    chance = np.random.default_rng(5)
    noise = np.full(100_000, 10.0)
    expected = 10 * np.exp(chance.uniform(-3, 1, noise.size))
    for trust in (0.5, 1.0, 2.0):
        truth = expected + hidden_std(expected, noise, trust) * chance.standard_normal(noise.size)
        judge = make_measured(truth + 2 * noise * chance.standard_normal(noise.size), 2 * noise)
        assert trust / 1.5 <= fit_trust(expected, noise, judge) <= trust * 1.2
    exact = make_measured(expected + 2 * noise * chance.standard_normal(noise.size), 2 * noise)
    assert fit_trust(expected, noise, exact) > 3


def test_the_parts_of_a_deviation_add_up_in_squares():
    theta = np.array([0.5, 1e-6])
    kept_std = np.array([0.01, 1e-7])
    clipping = Clipping(lost=0.5, unevenness=0.2, bias_rel_std=0.3)
    std = probability_std(theta, kept_std, 1e4, 0.05, clipping)
    frequent = 0.05**2 + 0.3**2 + BURST * 0.2 / 5000
    assert std[0] == pytest.approx(WIDENING * math.sqrt(0.01**2 + 0.25 * frequent))
    rare = 0.05**2 + 0.3**2 + BURST * 0.2  # less than one occurrence counts as one
    assert std[1] == pytest.approx(WIDENING * math.sqrt(1e-14 + 1e-12 * rare))
    nothing = Clipping(lost=0.0, unevenness=0.0, bias_rel_std=0.0)
    assert probability_std(theta, kept_std, 1e4, 0.0, nothing) == pytest.approx(WIDENING * kept_std)
