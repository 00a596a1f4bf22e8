"""Attackers who see releases, or the answers of one run, or a secret's rank."""

import math

import numpy as np
import pytest
from scipy.stats import binom

from bayesgram.audit import attacks
from bayesgram.audit.likelihood_ratio import Neighbour
from bayesgram.errors import BayesgramError, UsageError
from bayesgram.mechanisms.gaussian import Gaussian
from bayesgram.mechanisms.laplace import Laplace
from bayesgram.mechanisms.posterior import Posterior
from bayesgram.paper.k_anonymity import KAnonymity
from bayesgram.privacy.budget import Budget
from helpers import attack_targets

ERROR = 1e-6
ONE = Budget(1.0, 1e-6)
TINY = Budget(1.0, 1e-10)  # one run says nothing at errors near 2 m δ


def small():
    return attack_targets.zipf_counts(users=100, size=12)


def black_box_finds(mechanism, budget=ONE, releases=400):
    target = attack_targets.make_target(mechanism, small(), budget)
    [finding] = attacks.black_box_attack(
        target, np.random.default_rng(2), error=ERROR, releases=releases, seeded=True
    )
    return finding


@pytest.mark.parametrize(
    "broken", [attack_targets.UnclippedGaussian(0.5), attack_targets.FixedNoiseGaussian(2.0)]
)
def test_releases_alone_give_broken_mechanisms_away(broken):
    finding = black_box_finds(broken)
    assert finding.refutes_claim
    assert finding.epsilon > 1.5
    assert finding.delta > 0.3


@pytest.mark.parametrize("mechanism", [Gaussian(2.0), Laplace(5), Posterior(2.0)])
def test_releases_of_what_is_proved_give_nothing_away(mechanism):
    finding = black_box_finds(mechanism, releases=80)
    assert not finding.refutes_claim
    assert finding.epsilon <= 1
    assert finding.sentence.startswith("from 40 releases of each: at least ε = ")


def test_the_neighbour_can_be_chosen():
    """Randomised response in disguise: noise so small that one release tells."""
    target = attack_targets.make_target(Laplace(1), 3 * np.eye(12, dtype=np.int64), Budget(20.0))
    added = Neighbour(
        "with a user who has one n-gram", row=(np.array([0], np.int32), np.array([1], np.int32))
    )
    [finding] = attacks.black_box_attack(
        target, np.random.default_rng(2), error=ERROR, releases=200, seeded=True, neighbour=added
    )
    assert not finding.refutes_claim  # ε = 20 is claimed
    assert 1 < finding.epsilon < 20
    with pytest.raises(
        UsageError, match=r"^releases=3: releases of each dataset is a whole number from 8"
    ):
        attacks.black_box_attack(target, np.random.default_rng(2), error=ERROR, releases=3)


@pytest.mark.parametrize(
    ("guesses", "right", "epsilon"), [(10, 8, 0.3), (100, 75, 1.0), (7, 7, 0.0), (5, 0, 2.0)]
)
def test_the_p_value_of_pure_epsilon_is_a_binomial_tail(guesses, right, epsilon):
    q = math.exp(epsilon) / (1 + math.exp(epsilon))
    assert attacks.one_run_p_value(1000, guesses, right, epsilon, 0.0) == pytest.approx(
        binom.sf(right - 1, guesses, q)
    )


def test_the_p_value_with_delta_is_that_of_the_paper():
    """α by trying every i; and the example of its Appendix D: 75 of 100 right, m = 1000, δ = 1e-4, 95%: ε ≥ 0.673."""
    for m, r, v, epsilon, delta in (
        (1000, 100, 75, 0.5, 1e-4),
        (50, 20, 15, 0.2, 1e-3),
        (10, 3, 3, 0.0, 1e-2),
    ):
        q = 1 / (1 + math.exp(-epsilon))
        alpha = max(
            (binom.cdf(v - 1, r, q) - binom.cdf(v - i - 1, r, q)) / i for i in range(1, v + 1)
        )
        expected = min(1, binom.sf(v - 1, r, q) + 2 * m * delta * alpha)
        assert attacks.one_run_p_value(m, r, v, epsilon, delta) == pytest.approx(expected)
    assert attacks.one_run_epsilon(1000, 100, 75, 1e-4, error=0.05) == pytest.approx(
        0.673, abs=5e-4
    )
    assert attacks.one_run_epsilon(1000, 100, 50, 1e-4, error=0.05) == 0


def test_the_p_value_bounds_what_happens_under_the_claim():
    """Randomised response that says all with probability δ: how often 20 guesses come out so well, in 200,000 runs."""
    rng, epsilon, delta, m = np.random.default_rng(3), 0.5, 0.01, 20
    right = rng.random((200_000, m)) < np.where(
        rng.random((200_000, m)) < delta, 1.0, 1 / (1 + math.exp(-epsilon))
    )
    found = right.sum(axis=1)
    for v in range(m + 1):
        seen = (found >= v).mean()
        assert (
            seen
            <= attacks.one_run_p_value(m, m, v, epsilon, delta)
            + 5 * math.sqrt(seen * (1 - seen) / found.size)
            + 5 / found.size
        )


def one_run_finds(mechanism, budget=TINY):
    target = attack_targets.make_target(
        mechanism, attack_targets.zipf_counts(users=300, size=400), budget
    )
    [finding] = attacks.one_run_attack(target, np.random.default_rng(5), error=ERROR)
    return finding


def test_canaries_of_one_run_catch_what_is_far_off():
    finding = one_run_finds(attack_targets.UnclippedGaussian(2.0))
    assert finding.refutes_claim
    assert finding.epsilon > 1.5
    assert one_run_finds(attack_targets.FixedNoiseGaussian(2.0)).refutes_claim


@pytest.mark.parametrize("mechanism", [Posterior(), Posterior(2.0), Gaussian(2.0), Laplace(10)])
def test_canaries_of_one_run_find_nothing_against_what_is_proved(mechanism):
    finding = one_run_finds(mechanism)
    assert not finding.refutes_claim
    assert "400 canaries in one run" in finding.sentence


def test_canaries_show_a_large_epsilon_as_large():
    assert 1 < one_run_finds(Gaussian(2.0), Budget(20.0, 1e-10)).epsilon < 20


def exposed(mechanism, budget, times=(1, 1000)):
    matrix = attack_targets.zipf_counts(users=300, size=400)
    matrix[:, 200:] = 0
    target = attack_targets.make_target(mechanism, matrix, budget)
    return attacks.measure_exposures(
        target, np.random.default_rng(6), repetitions=times, error=0.01, seeded=True
    )


def test_a_secret_that_does_not_show_has_the_exposure_of_chance():
    for found in exposed(Gaussian(1.0), attack_targets.CLAIM):
        assert found.low < 1.0 / math.log(2) < found.high
        assert found.max_bits == pytest.approx(math.log2(200), abs=0.1)


def test_a_secret_that_is_told_aloud_is_exposed_the_more_it_is_repeated():
    once, often = exposed(Laplace(1000), Budget(50.0))
    assert once.bits < 3
    assert often.bits > 4
    hidden, told = exposed(KAnonymity(1), None)  # no noise
    assert hidden.bits > 3
    assert told.bits > 3


def test_exposure_is_reported_and_not_judged():
    matrix = np.zeros((5, 40), np.int64)
    matrix[:, 0] = 1
    target = attack_targets.make_target(Laplace(10), matrix, Budget(0.5))
    findings = attacks.exposure_attack(target, np.random.default_rng(1), error=0.01, seeded=True)
    assert [finding.refutes_claim for finding in findings] == [False] * 4
    assert findings[1].neighbour == "with users who tell a secret 10×"
    assert findings[1].sentence.endswith("chance alone 1.44, at most 2.16 if the claim is true")
    with pytest.raises(BayesgramError, match="no secret can be planted"):
        attacks.comparable_ngrams(
            attack_targets.make_target(Laplace(10), np.ones((2, 5), np.int64), Budget(0.5))
        )
