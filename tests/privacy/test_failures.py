"""A failure probability beside the noise: what a budget allows then, against formulas written out and 60 digits."""

import math
import random
import re
from fractions import Fraction
from pathlib import Path

import mpmath
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from bayesgram.privacy import accounting
from bayesgram.privacy.accounting import (
    DISCRETENESS,
    LOG_TAIL,
    MAX_RELEASES,
    SLACK_SHARE,
    Allowance,
    Spend,
    composed_epsilon,
    delta_bound,
    fits,
    remaining_failure,
    remaining_for_discovery,
    remaining_gaussian_epsilon,
    remaining_pure_epsilon,
)
from bayesgram.privacy.budget import Budget
from helpers.hypothesis_profiles import examples
from helpers.reference_paper import exact_delta


def failing(failure, inverse_variance=1e-6):
    return Spend(inverse_variance, failure=failure)


@given(st.floats(1e-4, 100), st.floats(1e-30, 0.5))
@settings(deadline=None)
def test_a_ledger_that_may_fail_allows_what_the_formula_does_and_hardly_less(epsilon, delta):
    """δ ≥ e^h δ_Gauss(ε − 2F − h) + n e^(ε − 2F) τ + F for F = δ/4, with 60 digits."""
    found = Allowance.of(epsilon, delta, failures=True)
    with mpmath.workdps(60):
        aside, slack = mpmath.mpf(delta) / 4, SLACK_SHARE * mpmath.mpf(max(epsilon, delta))
        left = mpmath.mpf(epsilon) - 2 * aside
        tail = MAX_RELEASES * mpmath.exp(left + LOG_TAIL)
        on_curve = mpmath.exp(slack) * exact_delta(left - slack, mpmath.sqrt(found.mu_squared))
        assert on_curve + tail + aside < delta
        assert (
            exact_delta(left, mpmath.sqrt(found.mu_squared * (1 + mpmath.mpf(1e-6)))) + aside
            > delta
        )
        assert found.failure == aside
    assert found.total_variation == Allowance.of(epsilon, delta).total_variation


@pytest.mark.parametrize(
    ("epsilon", "delta"), [(0.1, 1e-7), (1.0, 1e-6), (3.0, 1e-5), (20.0, 1e-30), (0.01, 0.5)]
)
def test_where_nothing_may_fail_all_of_the_budget_is_for_noise_to_the_last_digit(epsilon, delta):
    """Halving, as it has been since the second format."""
    found, slack = Allowance.of(epsilon, delta), SLACK_SHARE * max(epsilon, delta)
    low, high = 0.0, 4.0
    while low < (middle := (low + high) / 2) < high:
        low, high = (low, middle) if delta_bound(epsilon, middle, slack) > delta else (middle, high)
    assert found == Allowance(math.nextafter(high, 0), slack / DISCRETENESS * (1 - 1e-11), 0.0)
    assert fits([Spend(found.mu_squared)], Budget(epsilon, delta))
    assert not fits([Spend(high)], Budget(epsilon, delta))


def slowly_fits(spends, epsilon, delta, more=0):
    """Each sum exactly and each limit by its formula, with 60 digits; `more` is added to what was spent, in parts of it."""
    fails = spends[0].failure > 0
    with mpmath.workdps(60):
        aside, slack = (
            mpmath.mpf(delta) / 4 if fails else mpmath.mpf(0),
            SLACK_SHARE * mpmath.mpf(max(epsilon, delta)),
        )
        spent = {
            name: sum(Fraction(getattr(spend, name)) for spend in spends)
            for name in ("failure", "total_variation")
        }
        failure, variation = (
            mpmath.mpf(n.numerator) / n.denominator * (1 + more) for n in spent.values()
        )
        mu_squared = sum(
            mpmath.mpf(spend.inverse_variance)
            + 8 * mpmath.erfinv(mpmath.tanh(mpmath.mpf(spend.pure_epsilon) / 2)) ** 2
            for spend in spends
        ) * (1 + more)
        left = epsilon - 2 * aside - slack
        on_curve = mpmath.exp(slack) * exact_delta(left, mpmath.sqrt(mu_squared))
        return bool(
            failure <= aside and DISCRETENESS * variation <= slack and on_curve <= delta - aside
        )


spends_with_failures = st.builds(
    Spend,
    inverse_variance=st.sampled_from([1e-4, 1e-3, 0.01, 0.05, 0.3]),
    pure_epsilon=st.sampled_from([0.0, 0.0, 0.01, 0.1]),
    total_variation=st.sampled_from([0.0, 1e-20, 3e-14]),
    failure=st.sampled_from([0.0, 0.0, 1e-9, 4e-8, 2.5e-7, 1e-4, 0.01]),
)
budgets = st.builds(
    Budget,
    st.sampled_from([0.1, 0.3, 1.0, 2.0, 5.0]),
    st.sampled_from([1e-7, 1e-6, 1e-3, 0.1, 0.5]),
)


@given(st.lists(spends_with_failures, min_size=1, max_size=6), budgets)
@examples(200)
def test_what_fits_is_what_the_formulas_allow_and_hardly_less(spent, budget):
    if fits(spent, budget):
        assert slowly_fits(spent, budget.epsilon, budget.delta)
    elif (
        max(spend.failure for spend in spent) != budget.delta / 4
    ):  # exactly the limit, which `more` would exceed
        assert not slowly_fits(spent, budget.epsilon, budget.delta, more=mpmath.mpf(1e-6))


@given(st.lists(spends_with_failures, max_size=6), spends_with_failures, budgets)
@examples(60)
def test_after_one_spend_more_nothing_fits_that_did_not_fit_before(before, more, budget):
    after = [*before, more]
    assert fits(before, budget) or not fits(after, budget)
    for left in (remaining_gaussian_epsilon, remaining_pure_epsilon, remaining_failure):
        assert left(after, budget) <= left(before, budget)
    if before:  # nothing costs nothing, whatever comes
        assert composed_epsilon(after, budget.delta) >= composed_epsilon(before, budget.delta) * (
            1 - 1e-9
        )


@given(
    st.lists(spends_with_failures, min_size=1, max_size=6),
    st.sampled_from([1e-7, 1e-6, 1e-3, 0.1]),
    st.randoms(),
)
@example(
    [Spend(1e-4, 0, 1e-20), Spend(1e-4, 0, 1e-20), Spend(1e-4, 0, 3e-14)], 1e-7, random.Random(0)
)  # at its edge
@settings(deadline=None)
def test_the_first_spend_decides_and_the_order_of_the_others_does_not_matter(spent, delta, random):
    composed = composed_epsilon(spent, delta)
    others = random.sample(spent[1:], len(spent) - 1)
    assert composed_epsilon([spent[0], *others], delta) == pytest.approx(composed, rel=1e-9)
    if spent[0].failure == 0 and any(spend.failure for spend in others):
        assert composed == math.inf
    if 1e-5 < composed < 99:
        assert fits(spent, Budget(composed, delta))
        assert not fits(spent, Budget(composed * (1 - 1e-8), delta))


def test_failures_add_up_to_a_quarter_of_delta_and_no_more():
    budget = Budget(1, 1e-6)
    assert fits([failing(2.5e-7)], budget)
    assert not fits([failing(math.nextafter(2.5e-7, 1))], budget)
    assert composed_epsilon([failing(math.nextafter(2.5e-7, 1))], 1e-6) == math.inf
    assert fits([failing(5e-8)] * 4, budget)
    assert not fits([failing(5e-8)] * 6, budget)
    assert (
        remaining_gaussian_epsilon([failing(5e-8)] * 6, budget)
        == remaining_pure_epsilon([failing(5e-8)] * 6, budget)
        == 0
    )


def test_the_first_spend_decides_whether_anything_may_fail():
    budget = Budget(1, 1e-6)
    whole = Allowance.of(1.0, 1e-6).mu_squared
    assert fits([failing(1e-9), Spend(0.01)], budget)
    assert not fits([Spend(0.01), failing(1e-9)], budget)
    assert remaining_failure([Spend(1e-9)], budget) == 0
    assert fits([Spend(1e-6), Spend(whole - 1e-6)], budget)
    assert not fits([failing(1e-30), Spend(whole - 1e-6)], budget)
    assert (
        remaining_gaussian_epsilon([], budget) == 1
    )  # a release that comes first takes everything
    assert remaining_gaussian_epsilon([failing(1e-30, 1e-12)], budget) == 0.985


def test_the_table_of_what_discoveries_cost_is_right():
    page = (Path(__file__).parents[2] / "docs" / "ledger.md").read_text(encoding="utf-8")
    row = r"^\| ε = (\S+), δ = (\S+) \| (\S+) \| (\S+) \(\+(\S+)%\) \| (\S+) \| ε = (\S+) \|$"
    rows = [tuple(map(float, cells)) for cells in re.findall(row, page, re.MULTILINE)]
    assert len(rows) == 4
    for epsilon, delta, alone, beside, more, failure, left in rows:
        first, second = (
            Allowance.of(epsilon, delta, failures=failures).mu_squared ** -0.5
            for failures in (False, True)
        )
        assert (alone, beside) == (float(f"{first:.4g}"), float(f"{second:.4g}"))
        assert (more, failure) == (
            round(100 * (second / first - 1), 1),
            remaining_failure([], Budget(epsilon, delta)),
        )
        assert left == remaining_gaussian_epsilon([failing(1e-30, 1e-12)], Budget(epsilon, delta))


def test_nothing_may_fail_where_delta_is_zero():
    assert not fits([failing(1e-30)], Budget(1))
    assert composed_epsilon([failing(1e-30)], 0.0) == math.inf
    assert remaining_failure([], Budget(1)) == 0
    assert remaining_for_discovery([], Budget(1)) == Allowance(0.0, 0.0, 0.0)


@given(st.lists(st.floats(1e-12, 1e-7), max_size=5), st.sampled_from([1e-6, 3e-7, 0.1]))
@settings(deadline=None)
def test_what_is_left_for_failures_fits_to_the_last_digit(failures, delta):
    budget, spent = Budget(1, delta), [failing(failure) for failure in failures]
    left = remaining_failure(spent, budget)
    if not spent:
        assert left == delta / 4
    if left:
        assert fits([*spent, failing(left)], budget)
    assert not fits([*spent, failing(math.nextafter(left, 1) if left else 1e-15)], budget)


def test_so_does_all_that_is_left_for_a_discovery():
    budget, spent = Budget(1, 1e-6), [failing(1e-7, 0.01), Spend(0.002, 0.01, 1e-18)]
    left = remaining_for_discovery(spent, budget)
    rest = {
        "inverse_variance": left.mu_squared,
        "total_variation": left.total_variation,
        "failure": left.failure,
    }
    assert fits([*spent, Spend(**rest)], budget)
    for name, value in rest.items():
        assert not fits([*spent, Spend(**{**rest, name: value * (1 + 1e-12)})], budget), name
        full = Spend(**{"inverse_variance": 1e-9, "failure": 1e-12, name: value})
        assert remaining_for_discovery([*spent, full], budget) == Allowance(0.0, 0.0, 0.0), name


def test_after_a_million_releases_there_is_no_discovery(monkeypatch):
    monkeypatch.setattr(accounting, "MAX_RELEASES", 3)
    assert remaining_failure([failing(1e-9)] * 2, Budget(1, 1e-6)) > 0
    assert remaining_failure([failing(1e-9)] * 3, Budget(1, 1e-6)) == 0
