"""Traces of an implementation: repeated noise, the input's grid, time."""

import numpy as np
import pytest

from bayesgram.audit import attacks
from bayesgram.audit.likelihood_ratio import NoiseQuery, record_transcript
from bayesgram.mechanisms.gaussian import Gaussian
from bayesgram.mechanisms.laplace import Laplace
from bayesgram.mechanisms.posterior import Posterior
from bayesgram.paper.algorithm_1 import Paper
from bayesgram.privacy.budget import Budget
from bayesgram.privacy.noise import ExactNoise, NoiseSource, SeededNoise
from helpers import attack_targets

ERROR = 1e-6


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    monkeypatch.setattr(attacks, "TIMING_SECONDS", 0.1)


def found(mechanism, make_noise=ExactNoise, budget=attack_targets.CLAIM, size=500):
    target = attack_targets.make_target(
        mechanism, attack_targets.zipf_counts(users=40, size=size), budget
    )
    return attacks.leaks_attack(
        target, np.random.default_rng(1), error=ERROR, make_noise=make_noise
    )


class Correlated(ExactNoise):
    """A third of the noise's variance is the same in every run."""

    def discrete_gaussian(self, values, *, scale):
        common = SeededNoise(3).discrete_gaussian(
            np.zeros(values.size, np.int64), scale=0.6 * scale
        )
        return super().discrete_gaussian(values, scale=0.8 * scale) + common


class OnAGrid(NoiseSource):
    """Floating-point noise rounded to multiples of 16: the low bits of the input shine through."""

    seeded = True

    def discrete_laplace(self, values, *, scale):
        return values + 16 * SeededNoise(5).discrete_laplace(
            np.zeros(values.size, np.int64), scale=scale / 16
        )

    def discrete_gaussian(self, values, *, scale):
        return values + 16 * SeededNoise(5).discrete_gaussian(
            np.zeros(values.size, np.int64), scale=scale / 16
        )


@pytest.mark.parametrize(
    ("mechanism", "budget"),
    [
        (Posterior(), attack_targets.CLAIM),
        (Gaussian(), attack_targets.CLAIM),
        (Laplace(100), Budget(0.1)),
        (Paper(), attack_targets.CLAIM),
    ],
    ids=lambda value: getattr(value, "name", ""),
)
def test_real_noise_leaves_no_trace(mechanism, budget):
    repeats, bits, time = found(mechanism, budget=budget)
    assert (repeats.refutes_claim, bits.refutes_claim, time.refutes_claim) == (False, False, False)
    assert repeats.sentence == "two runs gave unrelated noise"
    seen = (
        "not looked at: there are none to hide"
        if mechanism.name == "paper"
        else "do not show the input's grid"
    )
    assert bits.sentence.endswith(seen)
    assert "reported, not judged" in time.sentence


def test_a_reused_seed_is_caught():
    repeats, _, _ = found(Gaussian(), lambda: SeededNoise(7))
    assert repeats.refutes_claim
    assert repeats.sentence == "two runs gave the same noise twice"
    [inside] = found(attack_targets.FixedNoiseGaussian())
    assert inside.refutes_claim


def test_correlated_noise_is_caught():
    """Over 2,000 n-grams a correlation of 0.36 is 16 standard deviations, and 5 are needed."""
    repeats, _, _ = found(Gaussian(), Correlated, size=2000)
    assert repeats.refutes_claim
    assert "correlated by" in repeats.sentence


def test_noise_on_a_coarse_grid_is_caught():
    question = NoiseQuery("gaussian", True, np.zeros(2000, np.int64), 1e9, np.zeros(2000, np.int64))
    assert attacks.check_low_bits(question, OnAGrid(), error=ERROR).refutes_claim
    assert not attacks.check_low_bits(question, ExactNoise(), error=ERROR).refutes_claim


def test_little_noise_repeats_itself_honestly():
    """On one n-gram with noise near 0, two runs agree by chance: that proves nothing."""
    target = attack_targets.make_target(Laplace(1), np.array([[1]]), Budget(10.0))
    first, second = (
        record_transcript(target, target.counts, SeededNoise(seed), 1) for seed in (1, 2)
    )
    assert (first[0].answer == second[0].answer).all()
    assert not attacks.check_repeats(first, second, error=ERROR).refutes_claim


def test_nobody_can_not_be_timed():
    target = attack_targets.make_target(Gaussian(), np.zeros((0, 50), np.int64))
    assert len(attacks.leaks_attack(target, np.random.default_rng(1), error=ERROR)) == 2


def test_a_slower_run_shows():
    clocks = np.linspace(1, 1.1, 20)
    found, low, high = attacks.relative_difference(clocks * 1.5, clocks[::-1] * 1.0)
    assert low < 0.5 < high
    assert found == pytest.approx(0.5, abs=0.01)
    assert low > 0.4
