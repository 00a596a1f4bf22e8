"""Releases of other tools in a ledger: (ε, δ) costs its pure ε and a failure probability δ."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bayesgram.errors import BayesgramError, UsageError
from bayesgram.privacy.accounting import (
    Allowance,
    Spend,
    fits,
    gaussian_delta,
    pure_mu_squared,
)
from bayesgram.privacy.budget import Budget
from bayesgram.privacy.ledger import Ledger
from bayesgram.privacy.unit import DEFAULT_UNIT
from helpers.ledger_files import SMALL_SPEND

WEIGHTS = st.lists(st.floats(0, 1), min_size=5, max_size=5).filter(lambda w: sum(w) > 0.1)


def hockey_stick(p, q, epsilon):
    """The smallest δ for which P(E) ≤ e^ε Q(E) + δ for every event E."""
    return float(np.maximum(p - math.exp(epsilon) * q, 0).sum())


def nearest_indistinguishable(p, q, epsilon):
    """The law of the proof: P cut to [e^−ε Q, e^ε Q], and what is missing or left over shared out."""
    low, high = math.exp(-epsilon) * q, math.exp(epsilon) * q
    near = np.clip(p, low, high)
    missing = 1 - near.sum()
    room = high - near if missing > 0 else near - low
    return near + missing * room / room.sum() if room.sum() > 0 else near


@given(WEIGHTS, WEIGHTS, st.floats(0.01, 3))
@settings(deadline=None)
def test_an_approximate_release_is_a_pure_one_that_may_fail(weights, others, epsilon):
    """docs/ledger.md, "Releases of other tools": P̃ is within δ of P, and ε from Q both ways."""
    p, q = (np.array(w) / sum(w) for w in (weights, others))
    delta = max(hockey_stick(p, q, epsilon), hockey_stick(q, p, epsilon))
    near = nearest_indistinguishable(p, q, epsilon)
    assert near.sum() == pytest.approx(1)
    assert np.abs(p - near).sum() / 2 <= delta + 1e-12
    assert hockey_stick(near, q, epsilon) <= 1e-12
    assert hockey_stick(q, near, epsilon) <= 1e-12


def true_delta(epsilon, tool_epsilon, tool_delta, mu):
    """δ of the worst (ε₀, δ₀)-DP release beside Gaussian noise of μ, at ε, in closed form.

    The worst one tells everything with probability δ₀, and is randomised response otherwise.
    """
    truth = math.exp(tool_epsilon) / (1 + math.exp(tool_epsilon))
    shifted = gaussian_delta(np.array([epsilon - tool_epsilon, epsilon + tool_epsilon]), mu)
    return tool_delta + (1 - tool_delta) * float(truth * shifted[0] + (1 - truth) * shifted[1])


@pytest.mark.parametrize(
    ("tool_epsilon", "tool_delta"), [(0.15, 1e-8), (0.05, 2.5e-7), (0.1, 1e-9)]
)
def test_the_worst_release_of_another_tool_beside_noise_stays_within_the_budget(
    tool_epsilon, tool_delta
):
    budget = Budget(1, 1e-6)
    charged = Spend.approximate(tool_epsilon, tool_delta)
    assert fits([charged], budget)
    limit = Allowance.of(1.0, 1e-6, failures=True).mu_squared
    rest = limit - pure_mu_squared(tool_epsilon)
    noise = Spend(rest * (1 - 1e-9))
    assert fits([charged, noise], budget)
    assert not fits([charged, Spend(rest * (1 + 1e-9))], budget)
    worst = true_delta(1.0, tool_epsilon, tool_delta, math.sqrt(noise.inverse_variance))
    assert worst <= 1e-6
    assert worst > tool_delta  # and the formula is one of both


def largest(allowed, high):
    """The largest number from 0 that is allowed, by halving."""
    low = 0.0
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if allowed(middle) else (low, middle)
    return low


@pytest.mark.parametrize("share", [0.05, 0.3, 0.6])
@pytest.mark.parametrize("opening", [1e-9, 1e-7])
def test_an_adversary_who_charges_by_what_was_seen_stays_within_the_budget(opening, share):
    """A tool, then noise, and then by the loss that came out: the worst tool that fits, or noise.

    With the rest of what may fail in either case.
    """
    budget = Budget(1, 1e-6)
    first = Spend.approximate(1e-5, opening)
    noise = Spend(share * largest(lambda v: fits([first, Spend(v)], budget), 1.0))
    mu = math.sqrt(noise.inverse_variance)
    grid = np.linspace(-9, 9, 20_001)  # of a normal variable
    weights = np.exp(-(grid**2) / 2)
    weights /= weights.sum()
    losses = mu * grid + mu**2 / 2
    left = 1 - losses
    tool = largest(lambda e: fits([first, noise, Spend.approximate(e, 1e-12)], budget), 1.0)
    failure = largest(
        lambda p: fits([first, noise, Spend.approximate(tool / 2, p)], budget), budget.delta
    )
    assert failure == pytest.approx(budget.delta / 4 - opening)
    more_noise = largest(lambda v: fits([first, noise, Spend(v, failure=failure)], budget), 1.0)
    truth = math.exp(tool) / (1 + math.exp(tool))
    by_tool = truth * gaussian_free(left - tool) + (1 - truth) * gaussian_free(left + tool)
    by_noise = gaussian_delta(left, math.sqrt(more_noise))
    best = failure + (1 - failure) * np.maximum(by_tool, by_noise)
    worst = opening + (1 - opening) * float(weights @ best)
    assert 0.8 * budget.delta < worst <= budget.delta * 1.0001  # the grid


def gaussian_free(epsilons):
    """δ(ε) of nothing more: what the loss so far exceeds ε by."""
    return np.maximum(-np.expm1(epsilons), 0.0)


def test_a_first_entry_that_is_chosen_after_a_release_is_not_covered_and_adds_up():
    """docs/ledger.md, "A release that was not checked adds up"."""
    budget = Budget(1, 1e-6)
    tool = 0.02
    made_already = Spend.approximate(tool, 0.0)
    opening = Spend.approximate(1e-5, 1e-12)  # sets a quarter of δ aside
    failure = budget.delta / 4
    truth = math.exp(tool) / (1 + math.exp(tool))
    losses, weights = np.array([tool, -tool]), np.array([truth, 1 - truth])

    def worst(epsilon, before):
        noise = largest(lambda v: fits([*before, Spend(v)], budget), 1.0)
        rest = largest(lambda v: fits([opening, *before, Spend(v)], budget), 1.0)
        left = epsilon - losses
        by_noise = gaussian_delta(left, math.sqrt(noise))
        by_failure = failure + (1 - failure) * gaussian_delta(left, math.sqrt(rest))
        return float(weights @ np.maximum(by_noise, by_failure))

    assert worst(1.0, [made_already]) > 1.002 * budget.delta  # charged, by what came out
    assert worst(1.0 + tool, []) <= budget.delta  # not charged: ε and δ add up


def test_a_cost_is_the_pure_epsilon_and_the_delta():
    assert Spend.approximate(0.5, 1e-8) == Spend(pure_epsilon=0.5, failure=1e-8)
    assert Spend.approximate(0.5, 0.0) == Spend(pure_epsilon=0.5)


# --- In a ledger ---


@pytest.fixture
def new_ledger(tmp_path):
    def create(delta=1e-6, name="app.ledger", **options):
        budget = Budget(1, delta)
        return Ledger.create(tmp_path / name, population="app users", budget=budget, **options)

    return create


def test_a_charge_is_an_entry_that_counts(new_ledger):
    ledger = new_ledger()
    assert ledger.charge(0.1, 1e-8, by="dashboard, other tool") == 1
    (entry,) = ledger.read().reservations
    assert entry.spend == Spend(pure_epsilon=0.1, failure=1e-8)
    assert entry.published
    assert entry.description == {
        "mechanism": "another tool",
        "epsilon": 0.1,
        "delta": 1e-8,
        "unit": DEFAULT_UNIT,
        "output": "dashboard, other tool",
    }
    assert ledger.read().spent_failure() == 1e-8
    assert 0.1 < ledger.read().spent_epsilon() < 1
    with pytest.raises(BayesgramError, match="Nothing was reserved"):
        ledger.charge(0.9, 0.0, by="another one")


def test_it_is_refused_where_nothing_was_set_aside_for_failures(new_ledger):
    ledger = new_ledger()
    ledger.reserve(SMALL_SPEND, {})
    before = ledger.path.read_bytes()
    with pytest.raises(BayesgramError) as caught:
        ledger.charge(0.1, 1e-12, by="dashboard")
    assert str(caught.value) == (
        "the budget of population 'app users' has no room for a failure probability of 1e-12 (δ of"
        " the release): its first entry can't fail, so all of its δ belongs to noise and none was"
        " set aside for failures. Charge the release to a new ledger before anything else; if that"
        " is for the same people, what both ledgers spend adds up. Or charge a release with δ = 0."
        " Nothing was recorded."
    )
    assert caught.value.exit_code == 1
    assert ledger.path.read_bytes() == before
    assert ledger.charge(0.1, 0.0, by="dashboard") == 2  # a pure one can't fail


def test_failures_of_tools_and_discoveries_share_a_quarter_of_delta(new_ledger):
    ledger = new_ledger()
    ledger.charge(0.01, 2e-7, by="dashboard")
    ledger.reserve(Spend(1e-6, failure=4e-8), {})  # as a discovery
    with pytest.raises(BayesgramError, match="of that is spent"):
        ledger.charge(0.01, 2e-8, by="dashboard")
    ledger.charge(0.01, 9e-9, by="dashboard")


def test_a_ledger_of_no_delta_takes_pure_releases_only(new_ledger):
    ledger = new_ledger(delta=0.0)
    with pytest.raises(BayesgramError, match="it has δ = 0"):
        ledger.charge(0.1, 1e-9, by="dashboard")
    ledger.charge(0.4, 0.0, by="dashboard")
    ledger.charge(0.6, 0.0, by="dashboard")
    assert ledger.read().spent_epsilon() == 1
    assert not fits([Spend.approximate(0.1, 1e-30)], Budget(1))


def test_a_charge_has_the_unit_of_the_ledger(new_ledger):
    ledger = new_ledger()
    ledger.charge(0.1, 1e-8, by="dashboard", unit="a post")
    with pytest.raises(UsageError, match="counts in another unit, 'a post'"):
        ledger.charge(0.1, 1e-8, by="dashboard")
    assert ledger.read().unit == "a post"


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"epsilon": 0.0}, "epsilon=0.0: give a number from"),
        ({"epsilon": 1e3}, "epsilon=1000.0: give a number from"),
        ({"delta": 1.0}, "delta=1.0: give 0, or a number"),
        ({"delta": -1e-9}, "delta=-1e-09: give 0, or a number"),
        ({"by": " "}, "by=' ': a name has 1 to 200 printable characters"),
        ({"by": "a\nb"}, "printable characters"),
        ({"unit": ""}, "printable characters"),
    ],
)
def test_what_can_not_be_charged(new_ledger, values, message):
    ledger = new_ledger()
    given_ = {"epsilon": 0.1, "delta": 1e-9, "by": "dashboard", **values}
    with pytest.raises(UsageError, match=message):
        ledger.charge(given_.pop("epsilon"), given_.pop("delta"), **given_)
    assert ledger.read().last_number == 0


# --- A period is a label ---


def test_a_period_is_kept_and_changes_nothing(new_ledger):
    with_period = new_ledger(period="2026")
    without = new_ledger(name="other.ledger")
    assert with_period.period == with_period.read().period == "2026"
    assert Ledger.open(with_period.path).period == "2026"
    assert without.period is None
    for ledger in (with_period, without):
        ledger.reserve(SMALL_SPEND, {})
    assert with_period.read().spent_epsilon() == without.read().spent_epsilon()
    with pytest.raises(UsageError, match="period=''"):
        new_ledger(name="third.ledger", period="")


# --- One way to give a budget ---


def test_a_ledger_takes_epsilon_and_delta_or_a_budget(tmp_path):
    ledger = Ledger.create(tmp_path / "a", population="app users", epsilon=1, delta=1e-6)
    assert ledger.budget == Budget(1, 1e-6)
    for wrong in (
        {},
        {"epsilon": 1},
        {"delta": 1e-6},
        {"epsilon": 1, "delta": 1e-6, "budget": Budget(1)},
        {"delta": 1e-6, "budget": Budget(1)},
    ):
        with pytest.raises(UsageError, match="give both, such as epsilon=1, delta=1e-6"):
            Ledger.create(tmp_path / "b", population="app users", **wrong)
    assert not (tmp_path / "b").exists()
