"""From where on strings are published: σ, S and T against slow, literal references."""

import math
import re
from fractions import Fraction

import mpmath
import numpy as np
import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st
from scipy.optimize import minimize
from scipy.stats import norm

from bayesgram.errors import UsageError
from bayesgram.privacy.accounting import Allowance, fits, remaining_for_discovery
from bayesgram.privacy.budget import Budget
from bayesgram.privacy.thresholds import (
    SPLITS,
    TAIL_FACTOR,
    _calibrate_multiplier,
    calibrate_rounds,
    calibrate_threshold,
    failure_bound,
)
from bayesgram.private.clipping import UNITS
from helpers.hypothesis_profiles import examples

MOST, SMALLEST = 100, 0.02  # as the door has them
budgets = st.builds(Budget, st.floats(0.05, 8), st.floats(1e-12, 1e-4))


def one(budget, **others):
    return calibrate_threshold(
        budget, max_candidates=MOST, min_weight=SMALLEST, units=UNITS, **others
    )


def several(budget, rounds=10, **others):
    return calibrate_rounds(budget, rounds=rounds, max_candidates=MOST, units=UNITS, **others)


def deviation(threshold, rounds):
    """σ of the mean of all rounds, of the noise that is drawn."""
    return threshold.scale / math.sqrt(rounds) / UNITS


def gaussian_delta(epsilon, sigma):
    """δ_Gauss(ε) of a multiplier, with 40 digits."""
    if sigma == math.inf:
        return 0.0
    with mpmath.workdps(40):
        sigma, epsilon = mpmath.mpf(sigma), mpmath.mpf(epsilon)
        below = mpmath.ncdf(1 / (2 * sigma) - epsilon * sigma)
        return float(below - mpmath.exp(epsilon) * mpmath.ncdf(-1 / (2 * sigma) - epsilon * sigma))


# What only one user lifts over S: Σ Q((T − S − wᵢ)/σ), the worst weights by brute force


def published(weights, gap, unit):
    return float(norm.sf(gap - unit * np.asarray(weights)).sum())


@st.composite
def weights(draw, most, smallest, whole):
    """Weights that a user may have: at most so many, none below the smallest, Σ w² ≤ a²."""
    size = draw(st.integers(1, max(1, min(most, math.floor(whole / smallest**2)))))
    kind = draw(st.sampled_from(["alike", "one heavy", "any"]))
    if kind == "alike":
        return np.full(size, math.sqrt(whole / size))
    if kind == "one heavy":
        rest = np.full(size - 1, smallest)
        return np.append(rest, math.sqrt(max(whole - (rest**2).sum(), 0.0)))
    raw = np.array(draw(st.lists(st.floats(0, 1), min_size=size, max_size=size))) ** 2
    spare = max(whole - size * smallest**2, 0.0)
    return np.sqrt(smallest**2 + spare * raw / max(raw.sum(), 1e-9))


@examples(150)
@given(
    st.data(),
    st.integers(1, 300),
    st.floats(0.01, 0.4),
    st.floats(0.02, 3),
    st.floats(0, 8),
    st.floats(0, 1),
)
def test_no_weights_publish_more_than_the_bound(data, most, smallest, unit, beyond, part):
    gap, whole = 2 + unit + beyond, smallest**2 + part * (1 - smallest**2)
    own = data.draw(weights(most, smallest, whole))
    assume((own**2).sum() <= whole * (1 + 1e-12))
    bound = failure_bound(np.array([0.0, whole]), gap, unit, most, smallest)
    assert bound[0] == 0.0
    assert published(own, gap, unit) <= bound[1]


@pytest.mark.parametrize(
    ("gap", "unit", "most"), [(6.2, 0.21, 100), (6.0, 0.6, 100), (5.0, 1.5, 20), (3.3, 1.2, 5)]
)
def test_an_optimiser_finds_none_either_and_comes_close(gap, unit, most):
    """Squares that add up to 1, moved uphill from many starts."""
    rng, smallest = np.random.default_rng(5), 0.02
    bound = float(failure_bound(np.ones(1), gap, unit, most, smallest)[0])
    best = 0.0
    for _ in range(6):
        size = int(rng.integers(1, min(most, 12) + 1))

        def randomness(logits, size=size):
            shares = np.exp(logits - logits.max())
            squares = smallest**2 + (1 - size * smallest**2) * shares / shares.sum()
            return -math.log(published(np.sqrt(squares), gap, unit))

        found = minimize(
            randomness, rng.normal(0, 2, size), method="Nelder-Mead", options={"maxiter": 800}
        )
        best = max(best, math.exp(-found.fun))
    alike = max(published(np.full(k, k**-0.5), gap, unit) for k in range(1, most + 1))
    assert max(best, alike) <= bound
    assert max(best, alike) >= 0.5 * bound  # a line in place of the envelope costs little


@given(st.integers(1, 300), st.floats(0.02, 3), st.floats(0, 8))
def test_more_that_is_one_s_own_or_more_candidates_publish_no_less(most, unit, beyond):
    squares = np.linspace(0, 1, 50)
    bound = failure_bound(squares, 2 + unit + beyond, unit, most, 0.02)
    assert (np.diff(bound) >= 0).all()
    assert (
        failure_bound(squares, 2 + unit + beyond, unit, most + 1, 0.02) >= bound * (1 - 1e-12)
    ).all()
    assert (failure_bound(squares, 2.5 + unit + beyond, unit, most, 0.02) <= bound).all()


# The whole: one round


def test_known_values_of_one_round():
    threshold = one(Budget(1.0, 1e-7))
    assert threshold.multiplier == pytest.approx(4.68, abs=0.01)
    assert threshold.level == pytest.approx(29.35, abs=0.01)
    assert threshold.floor == pytest.approx(0.02 / 1.02 * threshold.level, rel=1e-9)


@examples(2)
@given(budgets, st.integers(0, 2**32))
def test_whatever_is_in_common_one_round_is_within_its_budget(budget, seed):
    """u has b² in common with others' sums that reach S, and any weights below S; noise of the scale that is drawn."""
    threshold, rng = one(budget), np.random.default_rng(seed)
    sigma = deviation(threshold, 1)
    gap = (threshold.level - threshold.floor) / sigma
    tried = [np.full(k, k**-0.5) for k in (1, 2, 5, 30, MOST)]
    tried += [
        np.append(np.full(k, SMALLEST), math.sqrt(1 - k * SMALLEST**2)) for k in (1, 10, MOST - 1)
    ]
    tried += [
        w / np.linalg.norm(w) for w in (rng.dirichlet(np.full(MOST, 0.1)) + 1e-3 for _ in range(5))
    ]
    for own in tried:
        for count in {0, 1, len(own) // 2, len(own)}:
            alone, common = own[:count], math.sqrt((own[count:] ** 2).sum())
            noise = gaussian_delta(budget.epsilon, sigma / common if common > 0 else math.inf)
            own_part = published(alone[alone >= SMALLEST], gap, 1 / sigma)
            assert noise + own_part <= budget.delta
            assert own_part <= threshold.failure
    assert gaussian_delta(budget.epsilon, sigma) <= budget.delta


def test_t_is_hardly_higher_than_it_must_be():
    """With T lower by 2% the worst user is beyond the budget."""
    budget = Budget(1.0, 1e-7)
    threshold = one(budget)
    sigma, gap = deviation(threshold, 1), (threshold.level - threshold.floor) * 0.98
    worst = max(
        gaussian_delta(budget.epsilon, sigma / math.sqrt(b))
        + failure_bound(np.array([1 - b]), gap / sigma, 1 / sigma, MOST, SMALLEST)[0]
        for b in np.linspace(0.01, 0.999, 60)
    )
    assert worst > budget.delta


# Several rounds


def test_known_values_of_rounds():
    threshold = several(Budget(1.0, 1e-7))
    assert threshold.level == pytest.approx(30.345, abs=0.01)
    assert threshold.floor == 0.0


@examples(40)
@given(budgets, st.integers(1, 100))
def test_rounds_are_within_their_budget(budget, rounds):
    """m Q((T − 1)/σ) for the noise that is drawn, with 30 digits, and the Gaussian curve of all rounds together."""
    threshold = several(budget, rounds)
    sigma = deviation(threshold, rounds)
    with mpmath.workdps(30):
        randomness = MOST * float(mpmath.ncdf(-(mpmath.mpf(threshold.level) - 1) / sigma))
    assert randomness <= threshold.failure
    assert randomness >= threshold.failure * 0.99999
    assert gaussian_delta(budget.epsilon, sigma) + threshold.failure <= budget.delta


# Budgets that leave nothing


@pytest.mark.parametrize("calibrate", [one, several])
@pytest.mark.parametrize(
    ("epsilon", "delta"),
    [(0.002, 0.001), (0.001, 0.001), (1e-5, 0.999), (0.5, 0.9), (math.nextafter(1e-3, 0), 5e-4)],
)
def test_an_epsilon_that_is_not_above_two_delta_is_refused_by_name(calibrate, epsilon, delta):
    asked = re.escape(
        f"epsilon={epsilon:g}: a discovery with delta={delta:g} needs an epsilon above 2·delta"
    )
    with pytest.raises(
        UsageError, match=f"^{asked} = .*; give a larger epsilon or a smaller delta"
    ):
        calibrate(Budget(epsilon, delta))


@pytest.mark.parametrize("rounds", [1, 10, 100])
@pytest.mark.parametrize(
    ("epsilon", "delta"),
    [
        (math.nextafter(1e-3, 1), 5e-4),  # just above 2δ
        (1e-3 * (1 + 1e-9), 5e-4),
        (1e-5, 1e-30),
        (1e-5, 4.9999e-6),
        (100.0, 0.999),
        (100.0, 1e-30),
        (2.0, 0.999),
        (1.5, 0.999),
    ],
)
def test_at_the_edges_there_is_a_threshold_or_a_clear_refusal(rounds, epsilon, delta):
    there_is_a_threshold_or_a_refusal(Budget(epsilon, delta), rounds)


def there_is_a_threshold_or_a_refusal(budget, rounds):
    try:
        threshold = one(budget) if rounds == 1 else several(budget, rounds)
    except UsageError as refused:
        assert re.match(r"(epsilon|delta)=.*; give a ", str(refused))  # noqa: PT017 - either will do
        return
    assert budget.epsilon > 2 * budget.delta
    assert 0 < threshold.failure < budget.delta
    assert 0 <= threshold.floor < threshold.level < math.inf
    assert threshold.scale * math.sqrt(rounds) * 40 <= 2**62 * (1 + 1e-3)  # noisy sums have 64 bits


@examples(60)
@given(st.floats(math.log(1e-5), math.log(100)), st.floats(0.01, 40), st.sampled_from([2, 10, 100]))
def test_of_any_epsilon_and_delta_there_is_a_threshold_or_a_clear_refusal(
    log_epsilon, ratio, rounds
):
    """Never another error: ε from far below 2δ to far above."""
    epsilon = min(max(math.exp(log_epsilon), 1e-5), 100.0)
    there_is_a_threshold_or_a_refusal(Budget(epsilon, min(epsilon / 2 * ratio, 0.999)), rounds)
    there_is_a_threshold_or_a_refusal(
        Budget(epsilon, min(max(epsilon / 2 / 10**ratio, 1e-30), 0.999)), rounds
    )


@examples(8)
@given(st.floats(math.log(1e-5), math.log(100)), st.floats(0.5, 1.5))
def test_of_one_round_too(log_epsilon, ratio):
    epsilon = min(max(math.exp(log_epsilon), 1e-5), 100.0)
    there_is_a_threshold_or_a_refusal(Budget(epsilon, min(epsilon / 2 * ratio, 0.999)), 1)


# Two rounds by numerical integration: u's weight follows the noise on what is u's alone


GRID = np.linspace(-60, 60, 12_001)
STEP = GRID[1] - GRID[0]


def two_rounds(sigma, level, cut, first, low, high):
    """What comes out of D and of D′ of two rounds, one candidate that others have and one of u's alone.

    u gives `first` = (shared, own) in round 1. If the own candidate's noise there exceeds `cut`, u gives `high` in round 2,
    else `low`. The shared one's noisy mean is always seen, the own one only if its mean exceeds the level. Out: densities of
    the shared one's mean (with D′; with D while the own one is not seen; with D whatever becomes of it), P(own one seen).
    """
    spread = sigma * math.sqrt(2)  # of a round
    noise = np.linspace(-9, 9, 4001) * spread
    randomness = norm.pdf(noise, scale=spread) * (noise[1] - noise[0])
    absent, anyhow, seen = np.zeros(GRID.size), np.zeros(GRID.size), 0.0
    for chosen, gives in ((noise > cut, high), (noise <= cut, low)):
        beyond = norm.sf((2 * level - first[1] - gives[1] - noise[chosen]) / spread)
        law = norm.pdf(GRID, loc=(first[0] + gives[0]) / 2, scale=sigma)
        absent += law * (randomness[chosen] * (1 - beyond)).sum()
        anyhow += law * randomness[chosen].sum()
        seen += float((randomness[chosen] * beyond).sum())
    return norm.pdf(GRID, scale=sigma), absent, anyhow, seen


def in_norm(angle):
    return math.cos(angle), math.sin(angle)


angles = st.floats(0, math.pi / 2)


@examples(60)
@given(
    st.floats(0.4, 4), st.floats(0.2, 3), st.floats(-3, 3), angles, angles, angles, st.floats(0, 2)
)
def test_two_rounds_are_private_whatever_the_noise_on_one_s_own_makes_a_user_do(
    sigma, above, cut, first, low, high, epsilon
):
    level = 1 + above * sigma
    p = float(norm.sf(above))
    without, absent, _, seen = two_rounds(
        sigma, level, cut * sigma, in_norm(first), in_norm(low), in_norm(high)
    )
    assert seen <= p * (1 + 1e-6)
    added = np.maximum(absent - math.exp(epsilon) * without, 0).sum() * STEP + seen
    removed = np.maximum(without - math.exp(epsilon) * absent, 0).sum() * STEP
    assert max(added, removed) <= gaussian_delta(epsilon, sigma) + p + 1e-6


def test_in_several_rounds_what_is_published_is_no_mixture_with_what_it_would_be_without_failures():
    """The argument M(D) ≥ (1 − p) M̃ is for one round alone: given what came out, a failure was far likelier here."""
    p = float(norm.sf(1.0))
    _, absent, anyhow, seen = two_rounds(
        1.0, 2.0, 2.0, in_norm(0.2), in_norm(0.0), in_norm(math.pi / 2)
    )
    assert seen <= p
    assert (absent / np.maximum(anyhow, 1e-300))[np.abs(GRID) < 5].min() < 1 - 1.5 * p


# The noise that is drawn


@given(budgets, st.sampled_from([1, 2, 10, 77]))
@example(Budget(1.0, 1e-7), None)
@examples(30)
def test_what_is_charged_is_the_noise_that_is_drawn(budget, rounds):
    threshold = one(budget) if rounds is None else several(budget, rounds)
    rounds = rounds or 1
    inverse = rounds * (Fraction(UNITS) / Fraction(threshold.scale)) ** 2
    variation = rounds * MOST / (24 * Fraction(threshold.scale) ** 2)
    assert (
        inverse <= Fraction(threshold.spend.inverse_variance) <= inverse * (1 + Fraction(1, 10**12))
    )
    assert variation <= Fraction(threshold.spend.total_variation) * (1 + Fraction(1, 10**12))
    assert threshold.spend.failure == threshold.failure
    part = math.ldexp(math.frexp(threshold.scale)[0], 12)
    assert part == int(part)  # a short number


def discrete(scale, rounds):
    """The law of the sum of so many discrete Gaussians, by convolution."""
    reach = math.ceil(12 * scale)
    single = np.exp(-(np.arange(-reach, reach + 1) ** 2) / (2 * scale**2))
    law = single / single.sum()
    for _ in range(rounds - 1):
        law = np.convolve(law, single / single.sum())
    return law


@pytest.mark.parametrize("rounds", [1, 2, 5, 10])
@pytest.mark.parametrize("scale", [2.0, 3.7, 12.0])
def test_the_tail_of_discrete_noise_is_that_of_continuous_noise_one_step_before(scale, rounds):
    """P(noise ≥ t) ≤ Q((t − 1)/s√R): sums of a falling density are below its integral, from one step before."""
    law = discrete(scale, rounds)
    middle = law.size // 2
    for steps in range(1, int(7 * scale * math.sqrt(rounds))):
        tail = law[middle + steps :].sum()
        assert tail <= norm.sf((steps - 1) / (scale * math.sqrt(rounds))) * TAIL_FACTOR


# K, ledgers, budgets that won't do


@pytest.mark.parametrize("calibrate", [one, several])
def test_fewer_people_than_k_can_t_reach_the_level(calibrate):
    plain = calibrate(Budget(1.0, 1e-7))
    assert calibrate(Budget(1.0, 1e-7), at_least=500).level == 499.0
    assert calibrate(Budget(1.0, 1e-7), at_least=3) == plain
    raised = calibrate(Budget(1.0, 1e-7), at_least=500)
    assert (raised.multiplier, raised.failure, raised.scale) == (
        plain.multiplier,
        plain.failure,
        plain.scale,
    )


@pytest.mark.parametrize(
    ("calibrate", "budget"),
    [
        (one, Budget(1.0, 1e-7)),
        (several, Budget(1.0, 1e-7)),
        (several, Budget(0.1, 1e-6)),
        (several, Budget(8.0, 1e-9)),
    ],
)
def test_a_discovery_of_the_whole_budget_fits_a_fresh_ledger_once(calibrate, budget):
    left = remaining_for_discovery([], budget)
    threshold = calibrate(budget, allowance=left)
    assert fits([threshold.spend], budget)
    assert not fits([threshold.spend, threshold.spend], budget)
    assert threshold.level <= 1.1 * calibrate(budget).level + 1


@pytest.mark.parametrize("calibrate", [one, several])
def test_what_a_ledger_leaves_is_not_exceeded(calibrate):
    left = Allowance(0.01, 1e-10, 1e-9)
    threshold = calibrate(Budget(1.0, 1e-7), allowance=left)
    assert threshold.failure <= 1e-9
    assert threshold.spend.inverse_variance <= 0.01


@pytest.mark.parametrize("calibrate", [one, several])
def test_where_nothing_is_left_there_is_no_threshold(calibrate):
    with pytest.raises(UsageError, match="leaves no threshold for 100 candidates"):
        calibrate(Budget(1.0, 1e-7), allowance=Allowance(0.0, 0.0, 0.0))
    with pytest.raises(UsageError, match="leaves no threshold"):
        calibrate(Budget(1.0, 1e-7), allowance=Allowance(0.01, 1e-10, 0.0))


def test_splits_leave_something_for_both():
    assert all(0 < split < 1 for split in SPLITS)


def test_no_noise_is_enough_for_an_epsilon_far_below_zero():
    assert _calibrate_multiplier(-1.0, 1e-9, 0.0) == math.inf
