"""What a budget allows, against formulas written out, 60 digits and dp-accounting.

Why it may be applied to releases that are chosen after seeing earlier ones is tested in test_adaptive.py.
"""

import math
from fractions import Fraction

import mpmath
import numpy as np
import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st
from scipy.special import log_ndtr

from bayesgram.errors import UsageError
from bayesgram.privacy import accounting
from bayesgram.privacy.accounting import (
    DISCRETENESS,
    MAX_RELEASES,
    SLACK_SHARE,
    Allowance,
    Spend,
    composed_epsilon,
    digits_up,
    fits,
    gaussian_delta,
    pure_epsilon_of,
    pure_mu_squared,
    remaining_gaussian_epsilon,
    remaining_pure_epsilon,
)
from bayesgram.privacy.budget import Budget
from bayesgram.privacy.calibration import calibrate_gaussian
from helpers.hypothesis_profiles import examples
from helpers.reference_paper import exact_delta

UNITS = 1 << 30


def pure(*epsilons):
    return [Spend(pure_epsilon=epsilon) for epsilon in epsilons]


def log_delta(epsilon, sigma):
    """log δ_Gauss(ε) = log(Φ(1/2σ − εσ) − e^ε Φ(−1/2σ − εσ))."""
    first, second = (
        log_ndtr(0.5 / sigma - epsilon * sigma),
        epsilon + log_ndtr(-0.5 / sigma - epsilon * sigma),
    )
    return first + math.log1p(-math.exp(second - first)) if second < first else -math.inf


# The Gaussian curve


@given(st.floats(-30, 30), st.floats(1e-7, 15))
@examples(300)
def test_the_gaussian_curve_has_twelve_digits(epsilon, mu):
    expected = exact_delta(epsilon, mu)
    assume(expected > 1e-280)
    found = gaussian_delta(np.array([epsilon]), mu)[0]
    assert abs(found / expected - 1) < 1e-12


@pytest.mark.parametrize(("sigma", "epsilon"), [(36.31, 0.1), (18.99, 0.2), (4.23, 1.0)])
def test_known_values_at_delta_1e_6(sigma, epsilon):
    found = composed_epsilon([Spend.gaussian(sigma)], 1e-6)
    assert found == pytest.approx(epsilon, rel=2e-3)
    assert log_delta(found, sigma) == pytest.approx(math.log(1e-6), abs=1e-7)


@given(st.floats(1e-4, 100), st.floats(1e-30, 0.5))
@settings(deadline=None)
def test_a_budget_allows_what_the_formula_does_and_hardly_less(epsilon, delta):
    allowed = mpmath.mpf(Allowance.of(epsilon, delta).mu_squared)
    slack = SLACK_SHARE * max(epsilon, delta)
    assert mpmath.exp(slack) * exact_delta(epsilon - slack, mpmath.sqrt(allowed)) < delta
    assert exact_delta(epsilon, mpmath.sqrt(allowed * (1 + mpmath.mpf(1e-7)))) > delta


@pytest.mark.parametrize("count", [2, 3, 10])
def test_gaussians_compose_exactly(count):
    together = composed_epsilon([Spend.gaussian(36.31 * math.sqrt(count))] * count, 1e-6)
    assert together == pytest.approx(composed_epsilon([Spend.gaussian(36.31)], 1e-6), rel=1e-12)


def test_against_dp_accounting():
    from dp_accounting import get_epsilon_gaussian

    for sigma in (0.3, 1.0, 4.0, 36.31):
        expected = get_epsilon_gaussian(sigma, 1e-6)
        assert expected <= composed_epsilon([Spend.gaussian(sigma)], 1e-6) <= expected * (1 + 1e-7)


# Pure ε


def test_pure_epsilons_add_up_as_they_are_written():
    assert composed_epsilon(pure(0.1, 0.2), 0.0) == 0.3
    assert composed_epsilon(pure(*[0.1] * 10), 0.0) == 1.0
    assert (Spend(pure_epsilon=0.1) + Spend(pure_epsilon=0.2)).pure_epsilon == 0.3
    assert fits(pure(0.1, 0.2), Budget(0.3))
    assert not fits(pure(0.1, 0.2), Budget(math.nextafter(0.3, 0)))
    assert not fits([*pure(0.1, 0.2), *pure(1e-300)], Budget(0.3))


@given(st.lists(st.floats(1e-5, 10), max_size=30))
def test_a_pure_sum_is_rounded_up_by_less_than_a_digit(epsilons):
    exact = sum(map(Fraction, map(repr, epsilons)))
    found = composed_epsilon(pure(*epsilons), 0.0)
    assert Fraction(repr(found)) >= exact
    assert found == 0 or Fraction(repr(math.nextafter(found, 0))) < exact


@given(st.floats(1e-5, 10), st.floats(1e-5, 10))
def test_adding_spends_rounds_up(first, second):
    added = Spend(first, first, first, first) + Spend(second, second, second, second)
    exact = Fraction(repr(first)) + Fraction(repr(second))
    assert (
        Fraction(repr(added.pure_epsilon))
        >= exact
        > Fraction(repr(math.nextafter(added.pure_epsilon, 0)))
    )
    assert added.inverse_variance == added.total_variation == added.failure
    binary = Fraction(first) + Fraction(second)
    assert (
        Fraction(added.inverse_variance)
        >= binary
        > Fraction(math.nextafter(added.inverse_variance, 0))
    )


@given(st.floats(1e-5, 100))
@settings(deadline=None)
def test_the_mu_of_a_pure_epsilon_is_that_of_the_formula_and_rounded_up(epsilon):
    with mpmath.workdps(60):
        at = 1 / (1 + mpmath.exp(mpmath.mpf(epsilon)))
        mu = 2 * mpmath.sqrt(2) * mpmath.erfinv(1 - 2 * at)
        assert mpmath.almosteq(mpmath.ncdf(-mu / 2), at, 1e-40)
        assert mu**2 < pure_mu_squared(epsilon) < mu**2 * (1 + mpmath.mpf(3e-11))


@pytest.mark.parametrize("epsilon", [1e-3, 0.1, 1.0, 7.0, 30.0])
def test_the_epsilon_of_a_mu_is_the_way_back(epsilon):
    assert pure_epsilon_of(pure_mu_squared(epsilon)) == pytest.approx(epsilon, rel=1e-9)


def test_a_budget_with_delta_charges_a_pure_release_as_gaussian_dp():
    """μ is about 1.25 ε, so a ledger of (1, 1e-6), whose μ is 0.237, has room for one of ε = 0.188."""
    assert remaining_pure_epsilon([], Budget(1, 1e-6)) == 0.188
    assert fits(pure(0.188), Budget(1, 1e-6))
    assert not fits(pure(0.19), Budget(1, 1e-6))
    assert remaining_pure_epsilon([], Budget(1)) == 1


# The discrete noise


def test_what_discreteness_may_cost_has_a_limit_of_its_own():
    allowed = Allowance.of(1.0, 1e-6)
    assert allowed.total_variation == pytest.approx(SLACK_SHARE / DISCRETENESS)
    assert fits([Spend(allowed.mu_squared, 0.0, allowed.total_variation)], Budget(1, 1e-6))
    assert not fits([Spend(1e-9, 0.0, math.nextafter(allowed.total_variation, 1))], Budget(1, 1e-6))
    halves = [Spend(1e-9, 0.0, allowed.total_variation * 0.6)] * 2
    assert fits(halves[:1], Budget(1, 1e-6))
    assert not fits(halves, Budget(1, 1e-6))
    assert remaining_gaussian_epsilon(halves, Budget(1, 1e-6)) == 0
    assert 1.1 < composed_epsilon(halves, 1e-6) < 1.3


def test_so_have_releases(monkeypatch):
    monkeypatch.setattr(accounting, "MAX_RELEASES", 3)
    tiny = Spend(1e-12)
    assert fits([tiny] * 3, Budget(1, 1e-6))
    assert not fits([tiny] * 4, Budget(1, 1e-6))
    assert composed_epsilon([tiny] * 4, 1e-6) == math.inf
    assert MAX_RELEASES == 10**6


# Properties


spends = st.builds(
    Spend,
    inverse_variance=st.sampled_from([0.0, 1e-4, 0.01, 0.3, 2.0]),
    pure_epsilon=st.sampled_from([0.0, 0.01, 0.1, 0.25, 1.0, 3.0]),
)
deltas = st.sampled_from([1e-12, 1e-7, 1e-6, 1e-3, 0.1, 0.5])


@given(st.lists(spends, max_size=15), spends, deltas)
@settings(deadline=None)
def test_one_spend_more_never_costs_less(before, more, delta):
    assert composed_epsilon([*before, more], delta) >= composed_epsilon(before, delta) * (1 - 1e-9)


@given(st.lists(spends, max_size=15), deltas, deltas)
@settings(deadline=None)
def test_a_smaller_delta_never_costs_less(before, first, second):
    low, high = sorted([first, second])
    assert composed_epsilon(before, low) >= composed_epsilon(before, high)


@given(st.lists(spends, max_size=15), deltas, st.randoms())
@settings(deadline=None)
def test_the_order_does_not_matter(before, delta, random):
    after = random.sample(before, len(before))
    assert composed_epsilon(after, delta) == composed_epsilon(before, delta)


@given(st.lists(spends, max_size=10), st.sampled_from([1e-7, 1e-3]))
@example(
    [Spend(1e-4, 0.01), Spend(0.3, 0.1)], 1e-3
)  # both round their last digits, and did it differently
@settings(deadline=None)
def test_what_fits_is_what_composes_to_no_more(before, delta):
    epsilon = composed_epsilon(before, delta)
    assume(1e-5 < epsilon < 99)
    assert fits(before, Budget(epsilon, delta))
    assert not fits(before, Budget(epsilon * (1 - 1e-8), delta))


# Calibrated releases, and what is left


@pytest.mark.parametrize(
    "epsilon", [1e-5, 1e-3, 0.01, 0.1, 0.2, 1 / 3, 0.5, 1, 2, 5, 8, 11, 20, 100]
)
@pytest.mark.parametrize("delta", [1e-30, 1e-12, 1e-9, 1e-7, 1e-6, 1e-5, 1e-3, 0.1])
def test_a_release_of_the_whole_budget_fits_an_empty_ledger(epsilon, delta):
    noise = calibrate_gaussian(Budget(epsilon, delta), coordinates=50_000, units=UNITS)
    eta = 50_000 / (24 * (noise.multiplier * UNITS) ** 2)
    spend = Spend.gaussian(noise.multiplier, total_variation=eta)
    assert fits([spend], Budget(epsilon, delta))
    assert composed_epsilon([spend], delta) <= epsilon
    assert not fits([spend, Spend.gaussian(noise.multiplier * 3)], Budget(epsilon, delta))


@pytest.mark.parametrize(
    "spent",
    [
        [],
        [Spend.gaussian(10.0)],
        pure(0.1),
        [Spend.gaussian(6.0), *pure(0.05, 0.05)],
        [Spend.gaussian(10.0, failure=1e-7), Spend.gaussian(20.0)],
    ],
)
def test_what_is_left_can_be_spent_and_hardly_more(spent):
    budget = Budget(1, 1e-6)
    for left, spend_of in (
        (remaining_gaussian_epsilon(spent, budget), lambda e: Spend.gaussian(calibrate(e))),
        (remaining_pure_epsilon(spent, budget), lambda e: Spend(pure_epsilon=e)),
    ):
        assert 0 < left <= 1
        assert fits([*spent, spend_of(left)], budget)
        assert not fits([*spent, spend_of(left * 1.011)], budget)


def calibrate(epsilon):
    return calibrate_gaussian(Budget(epsilon, 1e-6), coordinates=1, units=UNITS).multiplier


def test_nothing_is_left_of_a_spent_budget():
    assert remaining_pure_epsilon(pure(0.7), Budget(1.0)) == 0.3
    assert remaining_gaussian_epsilon(pure(0.7), Budget(1.0)) == 0  # δ = 0
    assert remaining_pure_epsilon(pure(1.0), Budget(1.0)) == 0
    assert remaining_gaussian_epsilon([Spend.gaussian(0.5)], Budget(1.0, 1e-6)) == 0


def test_after_gaussian_noise_nothing_is_left_of_a_budget_without_delta():
    """No pure ε describes Gaussian noise, however much of it there is."""
    spent = [Spend.gaussian(1e6)]
    assert remaining_pure_epsilon(spent, Budget(1.0)) == 0
    assert remaining_pure_epsilon([*spent, *pure(0.1)], Budget(10.0)) == 0
    assert not fits([*spent, *pure(1e-300)], Budget(10.0))
    assert remaining_pure_epsilon(spent, Budget(1.0, 1e-6)) > 0


def test_infinite_where_delta_is_not_enough():
    assert composed_epsilon([Spend.gaussian(1e6)], 0.0) == math.inf
    assert composed_epsilon([], 0.0) == 0
    assert composed_epsilon([Spend.gaussian(1e-6)], 1e-6) == math.inf


def test_digits_are_rounded_up():
    assert [digits_up(value) for value in (0.12341, 1.0, 0.0, 1e-7, 0.99999)] == [
        "0.1235",
        "1",
        "0",
        "1e-07",
        "1",
    ]


@pytest.mark.parametrize("value", [-0.1, math.nan, math.inf, True, "1"])
@pytest.mark.parametrize("name", ["inverse_variance", "pure_epsilon", "total_variation", "failure"])
def test_a_spend_has_finite_numbers(name, value):
    with pytest.raises(UsageError, match=rf"^{name}={value}: a spend has finite numbers from 0\.$"):
        Spend(**{"inverse_variance": 1.0, name: value})


def test_what_only_noise_has_belongs_to_noise():
    with pytest.raises(
        UsageError,
        match=r"^total_variation=1e-09: belongs to Gaussian noise; give inverse_variance too\.$",
    ):
        Spend(pure_epsilon=1.0, total_variation=1e-9)
    with pytest.raises(
        UsageError, match=r"^failure=1e-09: belongs to a release that has noise; give"
    ):
        Spend(failure=1e-9)
    for name in ("total_variation", "failure"):
        assert Spend.gaussian(2.0, **{name: 1e-9}) == Spend(0.25, **{name: 1e-9})


def test_a_multiplier_is_above_zero():
    with pytest.raises(
        UsageError, match=r"^multiplier=0: a noise multiplier is a finite number above 0\.$"
    ):
        Spend.gaussian(0)
