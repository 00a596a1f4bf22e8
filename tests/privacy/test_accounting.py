"""Composition, against formulas written out, brute force, and dp-accounting."""

import itertools
import math
from dataclasses import replace
from fractions import Fraction

import mpmath
import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from scipy.special import log_ndtr

from bayesgram.errors import UsageError
from bayesgram.privacy.accounting import (
    Spend,
    composed_epsilon,
    digits_up,
    fits,
    gaussian_delta,
    gaussian_left,
    pure_left,
)
from bayesgram.privacy.budget import Budget
from bayesgram.privacy.calibration import calibrate_gaussian

UNITS = 1 << 30


def pure(*epsilons):
    return [Spend(pure_epsilon=epsilon) for epsilon in epsilons]


def log_delta(epsilon, sigma):
    """log δ_Gauss(ε) = log(Φ(1/2σ − εσ) − e^ε Φ(−1/2σ − εσ))."""
    first, second = log_ndtr(0.5 / sigma - epsilon * sigma), epsilon + log_ndtr(-0.5 / sigma - epsilon * sigma)
    return first + math.log1p(-math.exp(second - first)) if second < first else -math.inf


def exact_delta(epsilon, mu):
    """The same with 60 digits."""
    with mpmath.workdps(60):
        eps, m = mpmath.mpf(epsilon), mpmath.mpf(mu)
        return mpmath.ncdf(m / 2 - eps / m) - mpmath.exp(eps) * mpmath.ncdf(-m / 2 - eps / m)


def hockey_stick(epsilon, spends):
    """δ(ε) by brute force: the Gaussian's loss cut into cells (error below 1e-7 of δ), randomised responses next to it."""
    mu = math.sqrt(sum(spend.inverse_variance for spend in spends))
    edges = np.linspace(-12, 12, 480_001)
    losses, probabilities = mu**2 / 2 + mu * (edges[1:] + edges[:-1]) / 2, -np.diff(np.exp(log_ndtr(-edges)))
    for spend in spends:
        e = spend.pure_epsilon
        losses = np.concatenate([losses + e, losses - e])
        probabilities = np.concatenate([probabilities / (1 + math.exp(-e)), probabilities / (1 + math.exp(e))])
    over = losses > epsilon
    return float(probabilities[over] @ -np.expm1(epsilon - losses[over]))


# The Gaussian curve


@given(st.floats(-30, 30), st.floats(1e-7, 15))
@settings(deadline=None, max_examples=300)
def test_the_gaussian_curve_has_twelve_digits(epsilon, mu):
    expected = exact_delta(epsilon, mu)
    assume(expected > 1e-280)
    found = gaussian_delta(np.array([epsilon]), mu)[0]
    assert abs(found / expected - 1) < 1e-12


@given(st.floats(0.05, 1000), st.floats(1e-30, 0.5))
@settings(deadline=None)
def test_one_gaussian_never_spends_less_than_the_formula_and_hardly_more(sigma, delta):
    epsilon = composed_epsilon([Spend.gaussian(sigma)], delta)
    assert exact_delta(epsilon, 1 / mpmath.mpf(sigma)) <= delta
    less = epsilon * (1 - 1e-9) - 1e-10 / sigma  # the curve's slope is below 1/2: near ε = 0 its last digits show in ε
    if less > 0:
        assert exact_delta(less, 1 / mpmath.mpf(sigma)) > delta


@pytest.mark.parametrize(("sigma", "epsilon"), [(36.31, 0.1), (18.99, 0.2), (4.23, 1.0)])
def test_known_values_at_delta_1e_6(sigma, epsilon):
    found = composed_epsilon([Spend.gaussian(sigma)], 1e-6)
    assert found == pytest.approx(epsilon, rel=2e-3)
    assert log_delta(found, sigma) == pytest.approx(math.log(1e-6), abs=1e-8)


@pytest.mark.parametrize("count", [2, 3, 10])
def test_gaussians_compose_exactly(count):
    together = composed_epsilon([Spend.gaussian(36.31 * math.sqrt(count))] * count, 1e-6)
    assert together == pytest.approx(composed_epsilon([Spend.gaussian(36.31)], 1e-6), rel=1e-12)


def test_against_dp_accounting():
    from dp_accounting import get_epsilon_gaussian

    for sigma in (0.3, 1.0, 4.0, 36.31):
        expected = get_epsilon_gaussian(sigma, 1e-6)
        assert expected * (1 - 1e-9) <= composed_epsilon([Spend.gaussian(sigma)], 1e-6) <= expected * (1 + 1e-8)


# Total variation


@pytest.mark.parametrize(("sigma", "eta"), [(4.23, 1e-9), (4.23, 1e-8), (36.31, 1e-7), (1.0, 1e-10)])
def test_the_total_variation_is_paid_for_in_delta(sigma, eta):
    epsilon = composed_epsilon([Spend.gaussian(sigma, total_variation=eta)], 1e-6)
    total = math.exp(log_delta(epsilon, sigma)) + (1 + math.exp(epsilon)) * eta
    assert total <= 1e-6
    assert total == pytest.approx(1e-6, rel=1e-8)


def test_total_variations_add_up():
    halves = [Spend.gaussian(4.23 * math.sqrt(2), total_variation=1e-8)] * 2
    whole = Spend.gaussian(4.23, total_variation=2e-8)
    assert composed_epsilon(halves, 1e-6) == pytest.approx(composed_epsilon([whole], 1e-6), rel=1e-12)


def test_a_small_spend_fits_a_large_budget_although_the_slack_grows_with_epsilon():
    """(1 + e^20) η is far above δ, but what is (1, δ)-DP is (20, δ)-DP."""
    spend = Spend.gaussian(4.23, total_variation=1e-9)
    assert (1 + math.exp(20)) * 1e-9 > 0.4
    assert fits([spend], Budget(1.01, 1e-6))
    assert fits([spend], Budget(20, 1e-6))


@pytest.mark.parametrize("eta", [1e-10, 3e-10, 1e-9])
def test_what_fits_a_budget_fits_every_larger_one(eta):
    """Also where (1 + e^ε) η overtakes δ, next to a pure ε that zCDP is no help for."""
    spend = [Spend.gaussian(4.0, total_variation=eta), *pure(5.0)]
    epsilon = composed_epsilon(spend, 1e-6)
    assert epsilon < 7
    assert (1 + math.exp(2 * epsilon)) * eta > 1e-6
    assert all(fits(spend, Budget(epsilon * factor, 1e-6)) for factor in np.linspace(1, 2, 100).tolist())


@pytest.mark.parametrize(("sigma", "delta"), [(0.5, 1e-6), (4.23, 1e-6), (36.31, 1e-9)])
def test_noise_that_is_far_from_continuous_is_converted_by_zcdp(sigma, delta):
    from bayesgram.privacy.noise import opendp

    dp = opendp()
    space = dp.vector_domain(dp.atom_domain(T="i64")), dp.l2_distance(T="f64")
    curve = dp.c.make_zCDP_to_approxDP(dp.m.make_gaussian(*space, scale=sigma)).map(1.0)
    found = composed_epsilon([Spend.gaussian(sigma, total_variation=0.9)], delta)
    assert found == pytest.approx(curve.epsilon(delta=delta), rel=1e-6)
    assert found > composed_epsilon([Spend.gaussian(sigma)], delta)


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
    added = Spend(first, first, first) + Spend(second, second, second)
    exact = Fraction(repr(first)) + Fraction(repr(second))
    assert Fraction(repr(added.pure_epsilon)) >= exact > Fraction(repr(math.nextafter(added.pure_epsilon, 0)))
    assert added.inverse_variance == added.total_variation
    binary = Fraction(first) + Fraction(second)
    assert Fraction(added.inverse_variance) >= binary > Fraction(math.nextafter(added.inverse_variance, 0))


@pytest.mark.parametrize("epsilon", [0.3, 1.0, 7.0])
@pytest.mark.parametrize("delta", [0.0, 1e-6, 0.1])
def test_a_single_pure_release_costs_what_it_says(epsilon, delta):
    assert composed_epsilon(pure(epsilon), delta) == epsilon


@pytest.mark.parametrize(("epsilon", "count", "delta"), [(0.1, 12, 1e-6), (0.5, 4, 1e-3), (0.05, 100, 1e-6)])
def test_equal_pure_releases_against_the_optimal_composition(epsilon, count, delta):
    """Kairouz, Oh, Viswanath 2015: losses are (count − 2i) ε with binomial probabilities."""
    found = composed_epsilon(pure(*[epsilon] * count), delta)

    def exact(at):
        up = 1 / (1 + math.exp(-epsilon))
        terms = ((i, (count - 2 * i) * epsilon) for i in range(count + 1))
        return sum(
            math.comb(count, i) * up ** (count - i) * (1 - up) ** i * -math.expm1(at - loss)
            for i, loss in terms
            if loss > at
        )

    assert exact(found) <= delta
    assert exact(found * 0.99) > delta
    assert found < epsilon * count


# Both


MIXED = [
    [Spend.gaussian(4.0), *pure(0.5)],
    [Spend.gaussian(1.0), *pure(0.1, 0.3, 1.0)],
    [Spend.gaussian(20.0), Spend.gaussian(10.0), *pure(0.05, 0.05)],
    [Spend(0.04, 0.2), Spend(0.01, 0.7)],
]


@pytest.mark.parametrize("spends", MIXED)
@pytest.mark.parametrize("delta", [1e-3, 1e-6])
def test_mixed_spends_against_brute_force(spends, delta):
    epsilon = composed_epsilon(spends, delta)
    assert hockey_stick(epsilon, spends) <= delta * (1 + 1e-7)
    assert hockey_stick(epsilon * (1 - 1e-6), spends) > delta
    separate = composed_epsilon([replace(spend, pure_epsilon=0.0) for spend in spends], delta)
    assert epsilon < separate + sum(spend.pure_epsilon for spend in spends)


@pytest.mark.parametrize("spends", MIXED)
def test_mixed_spends_against_dp_accounting(spends):
    """At most its pessimistic estimate, which rounds each pure ε up to 1e-4."""
    from dp_accounting.pld import common
    from dp_accounting.pld import privacy_loss_distribution as pld

    together = pld.from_gaussian_mechanism(1 / math.sqrt(sum(spend.inverse_variance for spend in spends)))
    for spend in spends:
        if spend.pure_epsilon:
            parameters = common.DifferentialPrivacyParameters(spend.pure_epsilon, 0)
            together = together.compose(pld.from_privacy_parameters(parameters))
    theirs = together.get_epsilon_for_delta(1e-6)
    assert theirs - 1e-3 < composed_epsilon(spends, 1e-6) <= theirs


@pytest.mark.parametrize("seed", range(20))
def test_mixed_spends_are_rounded_up_where_hardly_any_digits_are_left(seed):
    """σ = 10⁶ next to pure ε around 1: an error in the sixteenth digit of a sum moves δ."""
    rng = np.random.default_rng(seed)
    parts = [round(part, 3) for part in rng.uniform(0.1, 3, 3).tolist()]
    found = composed_epsilon([Spend.gaussian(1e6), *pure(*parts)], 1e-12)
    with mpmath.workdps(60):
        exact = 0
        for signs in itertools.product([1, -1], repeat=3):
            signed = [sign * mpmath.mpf(repr(part)) for sign, part in zip(signs, parts, strict=True)]
            exact += exact_delta(mpmath.mpf(found) - sum(signed), 1e-6) * math.prod(
                1 / (1 + mpmath.exp(-e)) for e in signed
            )
        assert exact <= 1e-12
        assert exact > 1e-12 * (1 - 1e-4)


def test_many_pure_parts_on_a_grid_are_never_below_the_exact_sum():
    exact = composed_epsilon([Spend.gaussian(5.0), *pure(*[0.05] * 12)], 1e-6)
    gridded = composed_epsilon([Spend.gaussian(5.0), *pure(*[0.05] * 12, 1e-9)], 1e-6)
    assert exact < gridded < exact * 1.005


# Properties


spends = st.builds(
    Spend,
    inverse_variance=st.sampled_from([0.0, 1e-4, 0.01, 0.3, 2.0]),
    pure_epsilon=st.sampled_from([0.0, 0.01, 0.1, 0.25, 1.0, 3.0]),
)
deltas = st.sampled_from([0.0, 1e-12, 1e-7, 1e-6, 1e-3, 0.1, 0.5])


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
@settings(deadline=None)
def test_never_more_than_adding_up(before, delta):
    gaussian = composed_epsilon([Spend(spend.inverse_variance) for spend in before], delta)
    summed = gaussian + sum(spend.pure_epsilon for spend in before)
    assert composed_epsilon(before, delta) <= summed * (1 + 1e-12)


@given(st.lists(spends, max_size=10), st.sampled_from([1e-7, 1e-3]))
@settings(deadline=None)
def test_what_fits_is_what_composes_to_no_more(before, delta):
    epsilon = composed_epsilon(before, delta)
    assume(1e-5 < epsilon < 99)
    assert fits(before, Budget(epsilon, delta))
    assert not fits(before, Budget(epsilon * (1 - 1e-9), delta))


# Calibrated releases, and what is left


@pytest.mark.parametrize("epsilon", [1e-5, 1e-3, 0.01, 0.1, 0.2, 1 / 3, 0.5, 1, 2, 5, 8, 11])
@pytest.mark.parametrize("delta", [1e-12, 1e-9, 1e-7, 1e-6, 1e-5, 1e-3, 0.1])
def test_a_release_of_the_whole_budget_fits_an_empty_ledger(epsilon, delta):
    noise = calibrate_gaussian(Budget(epsilon, delta), coordinates=50_000, units=UNITS)
    eta = 50_000 / (24 * (noise.multiplier * UNITS) ** 2)
    spend = Spend.gaussian(noise.multiplier, total_variation=eta)
    assert fits([spend], Budget(epsilon, delta))
    assert composed_epsilon([spend], delta) <= epsilon
    assert not fits([spend, Spend.gaussian(noise.multiplier * 3)], Budget(epsilon, delta))


@pytest.mark.parametrize("epsilon", [20.0, 100.0])
def test_so_does_one_that_was_calibrated_by_zcdp(epsilon):
    noise = calibrate_gaussian(Budget(epsilon, 1e-6), coordinates=50_000, units=UNITS)
    assert noise.slack == 0
    eta = 50_000 / (24 * (noise.multiplier * UNITS) ** 2)
    assert (1 + math.exp(epsilon)) * eta > 1e-7
    assert fits([Spend.gaussian(noise.multiplier, total_variation=eta)], Budget(epsilon, 1e-6))


@pytest.mark.parametrize("spent", [[], [Spend.gaussian(10.0)], pure(0.5), [Spend.gaussian(6.0), *pure(0.1, 0.1)]])
def test_what_is_left_can_be_spent_and_hardly_more(spent):
    budget = Budget(1, 1e-6)
    for left, spend_of in (
        (gaussian_left(spent, budget), lambda e: Spend.gaussian(calibrated(e))),
        (pure_left(spent, budget), lambda e: Spend(pure_epsilon=e)),
    ):
        assert 0 < left <= 1
        assert fits([*spent, spend_of(left)], budget)
        assert not fits([*spent, spend_of(left * 1.011)], budget)


def calibrated(epsilon):
    return calibrate_gaussian(Budget(epsilon, 1e-6), coordinates=1, units=UNITS).multiplier


def test_nothing_is_left_of_a_spent_budget():
    assert pure_left(pure(0.7), Budget(1.0)) == 0.3
    assert gaussian_left(pure(0.7), Budget(1.0)) == 0  # δ = 0
    assert pure_left(pure(1.0), Budget(1.0)) == 0
    assert gaussian_left([Spend.gaussian(0.5)], Budget(1.0, 1e-6)) == 0


def test_infinite_where_delta_is_not_enough():
    assert composed_epsilon([Spend.gaussian(1e6)], 0.0) == math.inf
    assert composed_epsilon([], 0.0) == 0
    assert composed_epsilon([Spend.gaussian(1e-6)], 1e-6) == math.inf


def test_digits_are_rounded_up():
    assert [digits_up(value) for value in (0.12341, 1.0, 0.0, 1e-7, 0.99999)] == ["0.1235", "1", "0", "1e-07", "1"]


@pytest.mark.parametrize("value", [-0.1, math.nan, math.inf, True, "1"])
@pytest.mark.parametrize("name", ["inverse_variance", "pure_epsilon", "total_variation"])
def test_a_spend_has_finite_numbers(name, value):
    with pytest.raises(UsageError, match=rf"^{name}={value}: a spend has finite numbers from 0\.$"):
        Spend(**{"inverse_variance": 1.0, name: value})


def test_total_variation_belongs_to_a_gaussian():
    with pytest.raises(UsageError, match=r"belongs to Gaussian noise"):
        Spend(total_variation=1e-9)
    with pytest.raises(UsageError, match=r"^multiplier=0: a noise multiplier is a finite number above 0\.$"):
        Spend.gaussian(0)
