"""docs/ledger.md, line by line: what a ledger allows holds for releases that are chosen after seeing earlier ones.

The adversary of a ledger looks at the privacy loss of the first release and then takes whatever serves best of all that the
ledger still allows. δ is computed on a grid of losses, not sampled.
"""

import math
from functools import cache

import mpmath
import numpy as np
import pytest
from scipy.special import log_ndtr, ndtr

from bayesgram.privacy.accounting import (
    DISCRETENESS,
    LOG_TAIL,
    Allowance,
    Spend,
    fits,
    gaussian_delta,
    pure_mu_squared,
)
from bayesgram.privacy.budget import Budget

pytestmark = pytest.mark.slow

STEP = 2e-3  # of the grid of losses


# Line 1: an ε-DP release is μ-GDP


@pytest.mark.parametrize("epsilon", [1e-3, 0.1, 0.5, 1.0, 3.0, 10.0, 40.0])
def test_the_trade_off_of_a_pure_release_is_nowhere_below_that_of_its_gaussian(epsilon):
    """f(α) = max(0, 1 − e^ε α, e^(−ε)(1 − α)) against Φ(Φ⁻¹(1 − α) − μ); they meet on the diagonal."""
    with mpmath.workdps(50):
        mu = mpmath.sqrt(pure_mu_squared(epsilon))
        middle = 1 / (1 + mpmath.exp(epsilon))
        for part in [*np.linspace(0.001, 0.999, 60).tolist(), 1e-9, 1 - 1e-9]:
            for alpha in (middle * part, middle + (1 - middle) * part):
                pure = max(0, 1 - mpmath.exp(epsilon) * alpha, mpmath.exp(-epsilon) * (1 - alpha))
                quantile = mpmath.sqrt(2) * mpmath.erfinv(1 - 2 * alpha)
                assert pure >= mpmath.ncdf(quantile - mu) - mpmath.mpf(10) ** -45, alpha
        assert mpmath.ncdf(mpmath.sqrt(2) * mpmath.erfinv(1 - 2 * middle) - mu) == pytest.approx(
            float(middle), rel=1e-9
        )


# Line 2: what is chosen along the way does not help


def gaussian_losses(mu):
    """The privacy loss of a Gaussian release in cells: N(μ²/2, μ²); each cell at its middle."""
    lowest, highest = mu**2 / 2 - 9 * mu, mu**2 / 2 + 9 * mu
    edges = np.arange(math.floor(lowest / STEP), math.ceil(highest / STEP) + 2)
    return (edges[1:] - 0.5) * STEP, np.diff(ndtr((edges * STEP - mu**2 / 2) / mu))


def pure_losses(epsilon, count):
    """Of `count` randomised responses: (count − 2i) ε with binomial probabilities."""
    up = 1 / (1 + math.exp(-epsilon))
    i = np.arange(count + 1)
    logs = [
        math.lgamma(count + 1) - math.lgamma(k + 1) - math.lgamma(count - k + 1)
        for k in range(count + 1)
    ]
    return (count - 2 * i) * epsilon, np.exp(
        np.array(logs) + (count - i) * math.log(up) + i * math.log1p(-up)
    )


def laplace_losses(epsilon, count):
    """Of `count` Laplace releases of one number: +ε with probability 1/2, −ε with e^(−ε)/2, between them a density."""
    steps = math.ceil(epsilon / STEP)
    losses = np.linspace(-epsilon, epsilon, 2 * steps + 1)
    # P(loss ≤ x) = e^((x − ε)/2)/2 for −ε ≤ x < ε; the mass of a cell is put at its upper end
    below = np.exp((losses - epsilon) / 2) / 2
    below[-1] = 1.0
    one = np.diff(below, prepend=0.0)
    many = one
    for _ in range(count - 1):
        many = np.convolve(many, one)
    return (np.arange(many.size) - count * steps) * (epsilon / steps), many


def hockey_stick(epsilons, losses, probabilities):
    """δ(ε) = E[(1 − e^(ε − loss))₊], for many ε."""
    excess = -np.expm1(np.minimum(epsilons[:, None] - losses, 0.0))
    return excess @ probabilities


def largest(allowed, low, high):
    """The largest number that is allowed, by halving."""
    for _ in range(40):
        middle = (low + high) / 2
        low, high = (middle, high) if allowed(middle) else (low, middle)
    return low


def best_second_release(budget, first, epsilons, losses_of):
    """δ at each of these ε by the best that a ledger still allows after `first`: one Gaussian, or k pure releases."""
    variance = largest(lambda v: fits([first, Spend(v)], budget), 0.0, 1e3)
    found = [
        gaussian_delta(epsilons, math.sqrt(variance))
        if variance > 0
        else np.maximum(-np.expm1(epsilons), 0)
    ]
    for count in (1, 2, 3, 5, 8, 12, 20, 40, 80):
        pure = largest(
            lambda e, k=count: fits([first, *[Spend(pure_epsilon=e)] * k], budget),
            0.0,
            budget.epsilon,
        )
        if pure > 0:
            found.append(hockey_stick(epsilons, *losses_of(pure, count)))
    return np.max(found, axis=0)


def adversary_delta(budget, share, losses_of):
    """The true δ(ε) of: a Gaussian release of a share of the budget, then, by its loss, the best that is allowed."""
    whole = largest(lambda v: fits([Spend(v)], budget), 0.0, 1e3)
    first = Spend(whole * share)
    losses, probabilities = gaussian_losses(math.sqrt(first.inverse_variance))
    return float(
        probabilities @ best_second_release(budget, first, budget.epsilon - losses, losses_of)
    )


@pytest.mark.parametrize("losses_of", [pure_losses, laplace_losses])
@pytest.mark.parametrize(
    ("budget", "share"), [(Budget(1, 1e-6), 0.05), (Budget(1, 1e-6), 0.3), (Budget(3, 1e-5), 0.1)]
)
def test_an_adversary_who_chooses_by_what_was_seen_stays_within_the_budget(
    budget, share, losses_of
):
    """Composed as if the sequence were fixed, the first of these gets δ = 4.1e-6 out of 1e-6 (3.0e-6 by Laplace noise)."""
    found = adversary_delta(budget, share, losses_of)
    assert 0.3 * budget.delta < found  # she does use what she is given
    assert found <= budget.delta * 1.001  # the grid


def test_three_rounds_of_choices_by_dynamic_programming():
    """Every split of μ² over three rounds, each a Gaussian or a randomised response by the loss so far: no gain."""
    budget = Budget(1, 1e-4)
    parts = 8
    unit = Allowance.of(1, 1e-4).mu_squared / parts
    losses = np.arange(-4.0, 6.0, STEP * 2)

    def after(round_, left):
        """δ at ε = 1 for each loss so far, with so many parts of μ² left."""
        best = np.maximum(-np.expm1(1 - losses), 0)
        if round_ == 3 or not left:
            return best
        for spent in range(1, left + 1):
            then = after(round_ + 1, left - spent)
            for added, probabilities in (
                gaussian_losses(math.sqrt(spent * unit)),
                response(spent * unit),
            ):
                values = np.interp(losses[:, None] + added, losses, then)
                best = np.maximum(best, values @ probabilities)
        return best

    start = after(0, parts)[np.searchsorted(losses, 0.0)]
    assert 0.97 * budget.delta < start < 1.03 * budget.delta  # the grid


def response(mu_squared):
    """A randomised response that costs this much."""
    return pure_losses(largest(lambda e: pure_mu_squared(e) <= mu_squared, 0.0, 20.0), 1)


# What may fail, beside the noise
#
# The worst that the conditions allow: with probability p the release of D′ is a word that D never says; else it is Gaussian.
# From D′ to D a loss is that of the noise plus log(1 − p), but for that word; from D to D′ it is that of the noise minus it.


@pytest.mark.parametrize("p", [1e-6, 1e-3, 0.1, 0.25])
def test_one_release_that_may_fail_costs_its_probability_and_a_little_of_epsilon(p):
    """On finite sets: Q = (1 − p) Q̃ + p R for any R. By Q̃ the pair is as far apart as it is; by Q, no more than claimed."""
    rng = np.random.default_rng(1)
    for _ in range(50):
        without, shared, alone = (rng.dirichlet(np.full(6, 0.5)) for _ in range(3))
        with_user = (1 - p) * shared + p * alone
        assert np.abs(with_user - shared).sum() / 2 <= p
        for epsilon in (0.0, 0.1, 1.0, 3.0):
            both = max(
                apart(without, shared, epsilon + math.log1p(-p)),
                apart(shared, without, epsilon + math.log1p(-p)),
            )
            assert apart(without, with_user, epsilon) <= both + 1e-15
            assert apart(with_user, without, epsilon) <= both + p + 1e-15
    assert -math.log1p(-p) <= 2 * p


def apart(first, second, epsilon):
    """The smallest δ with first(E) ≤ e^ε second(E) + δ for all E."""
    return float(np.maximum(first - math.exp(epsilon) * second, 0).sum())


def test_failures_that_are_chosen_by_what_was_seen_add_up_along_the_worst_path():
    """Two rounds on finite sets; the second may fail as the first one's output says."""
    rng = np.random.default_rng(2)
    for _ in range(100):
        size, first = 5, rng.uniform(0, 0.2)
        second = rng.uniform(0, 0.25 - first, size) * (rng.random(size) < 0.7)
        shared, alone = rng.dirichlet(np.ones(size)), rng.dirichlet(np.ones(size))
        then, then_alone = rng.dirichlet(np.ones(size), size), rng.dirichlet(np.ones(size), size)
        only_shared = shared[:, None] * then
        chosen = ((1 - first) * shared + first * alone)[:, None] * (
            (1 - second[:, None]) * then + second[:, None] * then_alone
        )
        most = first + second.max()
        assert np.abs(chosen - only_shared).sum() / 2 <= most + 1e-15
        assert (only_shared <= chosen * math.exp(2 * most) + 1e-15).all()


def trading(spends, budget):
    """A ledger that is not ours: noise may take what failures leave of δ, and failures what noise leaves."""
    curve = gaussian_delta(
        np.array([budget.epsilon]), math.sqrt(sum(spend.mu_squared for spend in spends))
    )[0]
    return curve + sum(spend.failure for spend in spends) <= budget.delta


def delta_of_who_trades(budget, share, allowed, opening):
    """The true δ, from D′ to D, of: a first release, then by its loss noise or failures, as much of each as is allowed."""
    whole = largest(lambda v: allowed([Spend(v, failure=opening)], budget), 0.0, 1e3)
    first = Spend(whole * share, failure=opening)
    losses, probabilities = gaussian_losses(math.sqrt(first.inverse_variance))
    left = budget.epsilon - losses - math.log1p(-opening)
    most = largest(lambda v: allowed([first, Spend(v)], budget), 0.0, 1e3)
    found = []
    for noise in (
        most,
        1e-12,
    ):  # all that is left of noise and then what may fail, or hardly any noise
        failure = largest(
            lambda p, v=noise: allowed([first, Spend(v, failure=p)], budget), 0.0, 1.0
        )
        found.append(
            failure + (1 - failure) * gaussian_delta(left - math.log1p(-failure), math.sqrt(noise))
        )
    return opening + (1 - opening) * float(probabilities @ np.max(found, axis=0))


@pytest.mark.parametrize("opening", [0.0, 1e-9], ids=["noise-first", "discovery-first"])
@pytest.mark.parametrize("share", [0.05, 0.3, 0.6])
def test_an_adversary_who_trades_failures_for_noise_stays_within_the_budget(share, opening):
    """After a low loss failures serve her best, after a high one noise: each has had its limit from the start."""
    budget = Budget(1, 1e-6)
    assert (
        0.97 * budget.delta
        < delta_of_who_trades(budget, share, fits, opening)
        <= budget.delta * 1.001
    )


def test_a_ledger_that_let_her_trade_would_be_broken():
    budget = Budget(1, 1e-6)
    assert 1.6 * budget.delta < delta_of_who_trades(budget, 0.6, trading, 1e-9)


def kernel(added, probabilities, step):
    """Weights of whole steps that take a value on a grid to its mean after a loss, between two points in proportion."""
    low = np.floor(added / step).astype(int)
    part, start = added / step - low, low.min()
    size = int(low.max() - start) + 2
    weights = np.bincount(low - start, probabilities * (1 - part), size)
    return start, weights + np.bincount(low - start + 1, probabilities * part, size)


def mean_after(then, added, probabilities, step):
    """E[then(loss + added)] at every point of the grid; beyond its ends nothing changes."""
    start, weights = kernel(added, probabilities, step)
    padded = np.pad(then, (max(-start, 0), max(start + weights.size, 1)), mode="edge")
    return np.correlate(padded[max(start, 0) :], weights, "valid")[: then.size]


@pytest.mark.parametrize("to_without", [True, False], ids=["removed", "added"])
@pytest.mark.parametrize(("epsilon", "delta", "least"), [(1.0, 1e-4, 0.97), (0.5, 0.1, 0.8)])
def test_three_rounds_of_choices_with_failures_by_dynamic_programming(
    epsilon, delta, least, to_without
):
    """Every split of μ² and of F over three rounds, each by the loss so far, as noise or as a randomised response."""
    parts, failing, step = 5, 2, 2 * STEP
    limit = Allowance.of(epsilon, delta, failures=True)
    losses = np.arange(-4.0, 6.0, step)
    costs = {spent: limit.mu_squared * spent / parts for spent in range(1, parts + 1)}
    steps = [(0, np.zeros(1), np.ones(1))]
    steps += [(spent, *gaussian_losses(math.sqrt(cost))) for spent, cost in costs.items()]
    steps += [(spent, *response(cost)) for spent, cost in costs.items()]

    @cache
    def after(round_, left, may_fail):
        """δ for each loss so far, with so many parts of μ² and of F left."""
        best = np.maximum(-np.expm1(epsilon - losses), 0)
        if round_ == 3:
            return best
        for spent, added, probabilities in (one for one in steps if one[0] <= left):
            for failed in range(may_fail + 1):
                p = limit.failure * failed / failing
                then = after(round_ + 1, left - spent, may_fail - failed)
                shift = math.log1p(-p) if to_without else -math.log1p(-p)
                mean = mean_after(then, added + shift, probabilities, step)
                best = np.maximum(best, p + (1 - p) * mean if to_without else mean)
        return best

    start = after(0, parts, failing)[np.searchsorted(losses, -1e-9)]
    assert start < 1.01 * delta  # the grid
    if to_without:
        assert start > least * delta  # she does use what she is given


# Lines 3 to 5: the noise is discrete


def density(k, s):
    return mpmath.exp(-(mpmath.mpf(k) ** 2) / (2 * s**2)) / (s * mpmath.sqrt(2 * mpmath.pi))


def rounded(k, s):
    """R(k) = Φ((k + ½)/s) − Φ((k − ½)/s), from the tail."""
    low, high = (abs(k) - mpmath.mpf(1) / 2) / s, (abs(k) + mpmath.mpf(1) / 2) / s
    return (mpmath.erfc(low / mpmath.sqrt(2)) - mpmath.erfc(high / mpmath.sqrt(2))) / 2


@pytest.mark.parametrize("s", [2, 3, 10, 1000])
def test_discrete_noise_is_within_a_factor_of_rounded_continuous_noise(s):
    """P(k) ≤ R(k)/(1 − 1/24s²) and R(k) ≤ N P(k) e^(k²/8s⁴), where N ≥ 1 makes the discrete densities add up to 1."""
    with mpmath.workdps(60):
        norm = 1 + 2 * sum(mpmath.exp(-2 * mpmath.pi**2 * s**2 * m**2) for m in range(1, 4))
        assert norm >= 1
        for k in {*range(6), *np.linspace(0, 30 * s, 40).astype(int).tolist()}:
            discrete, smooth = density(k, s) / norm, rounded(k, s)
            assert discrete <= smooth / (1 - mpmath.mpf(1) / (24 * s**2)), k
            assert smooth <= discrete * norm * mpmath.exp(
                mpmath.mpf(k) ** 2 / (8 * mpmath.mpf(s) ** 4)
            ), k


@pytest.mark.parametrize("size", [1, 2, 50, 10**4, 10**7])
@pytest.mark.parametrize("s", [2.0, 30.0, 1e8])
def test_the_factor_is_within_h_but_for_a_tail(size, s):
    """a + b ≤ 5,500 η, where ‖k/s‖ ≤ √V (1 + 1/2s) + 30 but with probability e^(−450)."""
    x = 1 / (24 * s**2)
    eta, norm = size * x, 2.01 * math.exp(-2 * math.pi**2 * s**2)
    radius = math.sqrt(size) * (1 + 1 / (2 * s)) + 30
    assert size * (x + x**2) + size * norm + radius**2 / (8 * s**2) <= DISCRETENESS * eta


@pytest.mark.parametrize("size", [1, 2, 10, 100, 3000])
def test_the_norm_of_a_gaussian_vector_leaves_that_radius_hardly_ever(size):
    radius = math.sqrt(size) + 30
    with mpmath.workdps(30):
        tail = mpmath.gammainc(mpmath.mpf(size) / 2, radius**2 / 2, regularized=True)
        assert mpmath.log(tail) <= LOG_TAIL


@pytest.mark.parametrize(("sigma", "epsilon"), [(4.0, 1.0), (1.0, 2.0), (0.5, 8.0)])
@pytest.mark.parametrize("units", [200, 1000])
def test_the_whole_bound_holds_for_discrete_noise(sigma, epsilon, units):
    """One coordinate, summed over all integers."""
    s = sigma * units
    k = np.arange(-12 * int(s) - units, 12 * int(s) + units)
    logs = -(k**2) / (2 * s**2)
    moved = -((k - units) ** 2) / (2 * s**2)
    delta = np.maximum(np.exp(logs) - np.exp(epsilon + moved), 0).sum() / np.exp(logs).sum()
    h = DISCRETENESS / (24 * s**2)
    bound = math.exp(h) * gaussian_delta(np.array([epsilon - h]), 1 / sigma)[0]
    assert delta <= bound
    assert delta == pytest.approx(math.exp(log_delta(epsilon, sigma)), rel=1e-3)


def log_delta(epsilon, sigma):
    first, second = (
        log_ndtr(0.5 / sigma - epsilon * sigma),
        epsilon + log_ndtr(-0.5 / sigma - epsilon * sigma),
    )
    return first + math.log1p(-math.exp(second - first))
