"""The paper's own attack: win rates, their ceiling, and erratum E13 at a small size."""

import math

import numpy as np
import pytest
from scipy.special import ndtr

from bayesgram.audit.attacks import (
    PosteriorWithoutInference,
    make_sampler,
    membership_attack,
    user_with_most_counts,
    win_rate_ceiling,
    win_rates,
)
from bayesgram.errors import BayesgramError, UsageError
from bayesgram.mechanisms.base import Randomness
from bayesgram.mechanisms.gaussian import Gaussian
from bayesgram.mechanisms.laplace import Laplace, LaplacePublic
from bayesgram.mechanisms.posterior import Posterior
from bayesgram.paper.algorithm_1 import AsPrinted, Paper
from bayesgram.privacy.budget import Budget
from bayesgram.privacy.noise import SeededNoise
from helpers import attack_targets, reference_paper

FIVE = Budget(5.0, 1e-6)


def rates(mechanism, budgets, pairs=300, matrix=None):
    target = attack_targets.make_target(mechanism, matrix, budgets[0])
    return win_rates(
        target.counts, target.vocabulary, mechanism, budgets, pairs=pairs, seed=4, error=1e-6
    )


def population():
    """Zipf, with one user whose many n-grams are shared: removing them moves the mean, and hardly γ."""
    return attack_targets.zipf_counts(users=1500, size=300)


def test_algorithm_1_as_printed_passes_the_ceiling_and_corollary_1_does_not():
    """Errata E2 and E13: the paper's curve shows noise too small for its mean, not a better ε."""
    settings = {"max_total": 300, "slope": 3e-4}
    [printed] = rates(AsPrinted(**settings), [FIVE], matrix=population())
    [repaired] = rates(Paper(**settings), [FIVE], matrix=population())
    assert printed.ceiling == repaired.ceiling == pytest.approx(0.7477, abs=1e-4)
    assert printed.low > printed.ceiling
    assert printed.rate > 0.95
    assert repaired.low <= repaired.ceiling
    assert repaired.rate < printed.rate


def test_the_win_rate_of_gaussian_noise_along_one_coordinate_is_the_ceiling():
    """One user whose clipped counts are the whole difference, and an attack that looks there: Φ(d/√2)."""
    matrix = np.zeros((50, 2), np.int64)
    matrix[:, 1] = 1_000_000
    matrix[0] = [1_000_000, 0]
    matrix[0, 0] = 2_000_000  # the most counts, all on the first n-gram
    [rate] = rates(Gaussian(1e6), [Budget(4.0, 1e-2)], pairs=1000, matrix=matrix)
    assert rate.rate > 0.8
    assert abs(rate.rate - rate.ceiling) < 0.05
    assert rate.low < rate.rate < rate.high


def test_rates_grow_with_epsilon_and_stay_under_the_ceiling_for_what_is_proved():
    for mechanism in (Laplace(50), LaplacePublic(50), Gaussian(2.0)):
        budgets = [Budget(epsilon, 1e-6) for epsilon in (0.1, 20.0)]
        weak, strong = rates(mechanism, budgets, pairs=100)
        assert weak.rate < strong.rate + 0.15
        assert all(rate.low <= rate.ceiling for rate in (weak, strong))
        assert [rate.epsilon for rate in (weak, strong)] == [0.1, 20.0]


def test_a_tie_is_half_a_win():
    [rate] = rates(Paper(rho=0.0), [FIVE], pairs=10)  # no private part: no noise, the same output
    assert (rate.wins, rate.rate) == (5.0, 0.5)


@pytest.mark.parametrize(
    "mechanism",
    [
        Paper(slope=0.1),
        AsPrinted(slope=0.1),
        Laplace(3),
        LaplacePublic(3),
        Gaussian(),
        Posterior(2.0),
        PosteriorWithoutInference(2.0),
    ],
)
def test_samples_are_those_of_the_mechanism(mechanism):
    target = attack_targets.make_target(
        mechanism, attack_targets.zipf_counts(users=50, size=20), FIVE
    )
    arguments = target.counts, target.vocabulary
    short = make_sampler(mechanism, *arguments, 3)(FIVE, SeededNoise(8))
    whole = mechanism.estimate(*arguments, FIVE, Randomness(SeededNoise(8), 3)).theta
    assert short.tolist() == whole.tolist()


def test_ceilings():
    vocabulary = reference_paper.make_vocabulary([3, 2, 1])
    assert win_rate_ceiling(Laplace(1), vocabulary, Budget(math.log(3))) == pytest.approx(0.75)
    assert win_rate_ceiling(Paper(), vocabulary, FIVE) == pytest.approx(
        ndtr(5 / math.sqrt(2 * math.log(1.25e6)) / math.sqrt(2))
    )
    multiplier = Gaussian().calibrate(vocabulary, FIVE).multiplier
    assert win_rate_ceiling(Gaussian(), vocabulary, FIVE) == pytest.approx(
        ndtr(1 / multiplier / math.sqrt(2))
    )


def test_the_attack_says_what_it_found():
    rng = np.random.default_rng(1)
    [finding] = membership_attack(
        attack_targets.make_target(AsPrinted(max_total=300, slope=3e-4), population(), FIVE),
        rng,
        error=1e-6,
        pairs=200,
    )
    assert finding.refutes_claim
    assert "of 200 pairs; if the claim is true, at most 0.748" in finding.sentence
    [finding] = membership_attack(
        attack_targets.make_target(Gaussian(), population(), FIVE), rng, error=1e-6, pairs=50
    )
    assert not finding.refutes_claim


def test_who_has_the_most_counts():
    assert (
        user_with_most_counts(reference_paper.make_user_counts(np.array([[1, 1], [0, 3], [2, 0]])))
        == 1
    )
    with pytest.raises(
        BayesgramError, match=r"^the private counts are empty: there is nobody to look for\.$"
    ):
        user_with_most_counts(reference_paper.make_user_counts(np.zeros((0, 2), np.int64)))
    with pytest.raises(UsageError, match=r"^pairs=0: "):
        rates(Gaussian(), [FIVE], pairs=0)
