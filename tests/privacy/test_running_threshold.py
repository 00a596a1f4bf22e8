"""Levels of a sum that goes on run after run, against exact computation for worst-case users.

The law of a running sum is computed on a fine grid of sums, by convolution. Budgets are larger than
real ones, so that the probabilities that matter are far above the errors of the grid.
"""

import math
from itertools import product

import numpy as np
import pytest
from scipy.signal import fftconvolve
from scipy.stats import norm

from bayesgram.errors import UsageError
from bayesgram.privacy.accounting import Allowance
from bayesgram.privacy.thresholds import calibrate_running_sums, largest_running_sum

UNITS = 1 << 30
STEP = 1 / 40  # of the grid, in B


def threshold(multiplier=3.0, runs=5, full_runs=2, candidates=4, failure=1e-3, at_least=1):
    return calibrate_running_sums(
        multiplier,
        runs=runs,
        full_runs=full_runs,
        max_candidates=candidates,
        units=UNITS,
        failure=failure,
        at_least=at_least,
    )


def test_levels_are_those_of_the_union_bound():
    """p = Σ_t mt·Q((T_t − C_t)/(σ₁√t)), each run an equal part, to nine digits and never more."""
    runs, full_runs, candidates, failure = 52, 8, 100, 2.5e-8
    levels = threshold(30.0, runs, full_runs, candidates, failure)
    parts = []
    for run, level in enumerate(levels.levels, 1):
        largest = math.sqrt(run * min(run, full_runs))
        parts.append(
            candidates * run * norm.sf((level - largest) / (levels.multiplier * math.sqrt(run)))
        )
    assert sum(parts) <= failure
    assert parts == pytest.approx([failure / runs] * runs, rel=1e-6)


def test_noise_is_at_least_what_was_asked_for_and_levels_are_of_what_is_drawn():
    drawn = threshold(multiplier=3.123456789)
    assert drawn.multiplier >= 3.123456789
    assert drawn.scale >= drawn.multiplier * UNITS
    assert drawn.scale == pytest.approx(drawn.multiplier * UNITS, rel=1e-12)
    # Few binary digits, so that a multiple of the scale by an integer is exact.
    mantissa = math.frexp(drawn.scale)[0]
    assert (mantissa * 2**12).is_integer()
    assert drawn.noise_std(4) == 2 * drawn.multiplier


def test_fewer_people_than_asked_for_can_not_reach_the_level():
    plain = threshold(runs=6)
    raised = threshold(runs=6, at_least=20)
    for run, (low, high) in enumerate(zip(plain.levels, raised.levels, strict=True), 1):
        assert high == max(low, 19 * largest_running_sum(run, 2))


def test_running_sums_of_all_runs_fit_in_64_bits():
    """Noise of 40 standard deviations of the last sum, and what all earlier runs have left."""
    largest = (1 << 62) / (40 * UNITS * math.sqrt(900))
    assert threshold(multiplier=largest * 0.999, runs=900).noise_std(900) * UNITS * 40 < 1 << 62
    with pytest.raises(UsageError, match="900 discoveries does not fit in 64 bits"):
        threshold(multiplier=largest * 1.001, runs=900)


# --- One user alone: does anything come out that only this user wrote? ---


class Grid:
    """Sums from −`reach` to `reach`, in units of B, and the law of one run's noise."""

    def __init__(self, multiplier, runs):
        self.reach = 12 * multiplier * math.sqrt(runs) + runs
        half = int(self.reach / STEP)
        self.sums = np.arange(-half, half + 1) * STEP
        width = int(10 * multiplier / STEP)
        self.kernel = norm.pdf(np.arange(-width, width + 1) * STEP, scale=multiplier) * STEP
        self.kernel /= self.kernel.sum()

    def start(self):
        law = np.zeros(self.sums.size)
        law[self.sums.size // 2] = 1.0
        return law

    def add(self, law, contribution):
        """The law after a run in which so much was added."""
        shifted = np.interp(self.sums - contribution, self.sums, law, left=0.0, right=0.0)
        return np.maximum(fftconvolve(shifted, self.kernel, mode="same"), 0.0)

    def value_before(self, value, contribution):
        """The expected value of a function of the sum after a run in which so much is added."""
        padded = np.concatenate(
            [
                np.full(self.kernel.size // 2, value[0]),
                value,
                np.full(self.kernel.size // 2, value[-1]),
            ]
        )
        expected = fftconvolve(padded, self.kernel[::-1], mode="valid")
        return np.interp(self.sums + contribution, self.sums, expected)


@pytest.mark.parametrize(("runs", "full_runs"), [(1, 1), (3, 1), (5, 2), (6, 6)])
def test_the_best_strategy_of_one_user_stays_below_the_failure_probability(runs, full_runs):
    """The user sees the noisy sum of a candidate of their own, and adds B, B/√2 or nothing.

    Backward induction over the sum and what is left of the allowance gives the largest probability
    that it ever exceeds a level. All m candidates of each of the runs could do that.
    """
    candidates, failure = 4, 1e-2
    levels = threshold(3.0, runs, full_runs, candidates, failure)
    grid = Grid(levels.multiplier, runs)
    halves = 2 * full_runs  # of the allowance
    value = {left: np.zeros(grid.sums.size) for left in range(halves + 1)}
    first_value = []
    for run in range(runs, 0, -1):
        is_above = grid.sums > levels.levels[run - 1]
        after = {left: np.where(is_above, 1.0, value[left]) for left in value}
        value = {
            left: np.max(
                [
                    grid.value_before(after[left - used], math.sqrt(used / 2))
                    for used in range(min(left, 2) + 1)
                ],
                axis=0,
            )
            for left in after
        }
        # A candidate that appears in this run has the noise of the runs before, and no text in them.
        law = grid.start()
        for _ in range(run - 1):
            law = grid.add(law, 0.0)
        first_value.append(float(law @ value[halves]))
    total = sum(candidates * chance for chance in first_value)
    assert total <= 1.02 * failure  # 2% is more than the error of the grid, where one run is exact
    # The bound is not vacuous: a user who may cross in one run only is near that run's part of it.
    if runs == 1:
        assert total >= 0.9 * failure


# --- Many people: does the run in which a phrase comes out say whether one user wrote it? ---


def published_in(levels, grid, others, own, *, is_mine, catch_up=True):
    """P(published in run t), and last P(never), for a phrase that others write from some run on.

    Args:
        levels: The levels.
        grid: The grid of sums.
        others: What others add in each run; they begin at the first that is above 0.
        own: What the user adds in each run.
        is_mine: Whether the user is there. Then the phrase exists from the user's first run on.
        catch_up: Whether a phrase that comes late gets the noise of the runs before it.
    """
    own = own if is_mine else np.zeros(len(others))
    exists = np.maximum.accumulate((np.asarray(others) > 0) | (np.asarray(own) > 0))
    law = grid.start()
    chances = []
    for run, (level, added) in enumerate(
        zip(levels.levels, np.asarray(others) + np.asarray(own), strict=True)
    ):
        law = grid.add(law, added) if exists[run] or catch_up else law
        is_above = (grid.sums > level) & exists[run]
        chances.append(float(law[is_above].sum()))
        law = np.where(is_above, 0.0, law)
    return np.array([*chances, float(law.sum())])


def hockey_stick(p, q, epsilon):
    return float(np.maximum(p - math.exp(epsilon) * q, 0.0).sum())


EPSILON, DELTA, RUNS, FULL = 1.0, 0.02, 4, 2
HABITS = {
    "one run": [0, 1, 0, 0],
    "another run": [0, 0, 0, 1],
    "the first runs": [1, 1, 0, 0],
    "all runs": [math.sqrt(FULL / RUNS)] * RUNS,
    "first and last": [1, 0, 0, 1],
}


def calibrated():
    """Levels and noise for (EPSILON, DELTA), as a series has them."""
    limit = Allowance.of(EPSILON, DELTA, failures=True)
    multiplier = math.sqrt(FULL / limit.mu_squared)
    return threshold(multiplier, RUNS, FULL, candidates=1, failure=limit.failure)


def distances(catch_up):
    """The largest hockey-stick divergence over habits and what others write, in both directions."""
    levels = calibrated()
    grid = Grid(levels.multiplier, RUNS)
    largest = 0.0
    for own, begin, heat in product(HABITS.values(), range(RUNS), (0.2, 0.5, 0.9, 1.1)):
        others = np.zeros(RUNS)
        others[begin:] = heat * levels.levels[-1] / (RUNS - begin)
        laws = [
            published_in(levels, grid, others, own, is_mine=is_mine, catch_up=catch_up)
            for is_mine in (True, False)
        ]
        for p, q in (laws, laws[::-1]):
            largest = max(largest, hockey_stick(p, q, EPSILON))
    return largest


def test_when_a_phrase_comes_out_tells_nobody_apart():
    """Exact laws of the run of publication with and without a user, for all habits and crowds."""
    assert 0 < distances(catch_up=True) <= DELTA


def test_without_the_noise_of_earlier_runs_late_phrases_give_users_away():
    """What goes wrong if a late candidate has only the noise of its own runs."""
    assert distances(catch_up=False) > 5 * DELTA
