"""A user who takes part in chosen weeks: within the claim, and caught where a rule is not kept."""

from dataclasses import replace
from statistics import NormalDist

import numpy as np
import pytest

from bayesgram.audit import runner
from bayesgram.audit.likelihood_ratio import NoiseQuery
from bayesgram.audit.series_attack import (
    HABITS,
    SERIES_ATTACKS,
    SeriesInMemory,
    SeriesTarget,
    answer_loss,
    loss_tail_bounds,
    make_settings,
    play_series,
    played_bounds,
    series_black_box_attack,
    series_likelihood_ratio_attack,
)
from bayesgram.choices import Attack
from bayesgram.errors import BayesgramError, UsageError
from bayesgram.mechanisms.posterior import Posterior
from bayesgram.mechanisms.series import DISCOVERIES, RELEASE, Series, SeriesSettings
from bayesgram.privacy.budget import Budget
from bayesgram.privacy.calibration import GaussianNoise
from bayesgram.privacy.ledger import Ledger
from bayesgram.privacy.noise import SeededNoise
from bayesgram.private.allowances import FULL_RELEASE, Allowances
from helpers import reference_paper
from helpers.attack_targets import zipf_counts

CLAIM = Budget(1.0, 1e-7)
ERROR = 0.001  # noise is from a seed, so an accident would be the same every time
EVERY_WEEK = "in every week"
SIZE = 12


def make_target(releases=12, full_releases=1, clip_norm=2.0):
    settings = make_settings(CLAIM, releases=releases, full_releases=full_releases)
    return SeriesTarget(
        reference_paper.make_user_counts(zipf_counts(users=20, size=SIZE)),
        reference_paper.make_vocabulary(10_000 // np.arange(1, SIZE + 1)),
        settings,
        clip_norm,
    )


def by_law(target):
    """The finding of the likelihood ratio for each habit."""
    rng = np.random.default_rng(1)
    found = series_likelihood_ratio_attack(
        target, [Attack.LIKELIHOOD_RATIO, Attack.SCALE], rng, error=ERROR
    )
    assert [finding.neighbour for finding in found[::2]] == [
        f"with a user who writes {habit}" for habit in HABITS
    ]
    return dict(zip(HABITS, found[::2], strict=True)), dict(zip(HABITS, found[1::2], strict=True))


def by_playing(target, habits, runs=80, error=ERROR):
    found = series_black_box_attack(
        target,
        np.random.default_rng(1),
        error=error,
        runs=runs,
        seeded=True,
        habits={habit: HABITS[habit] for habit in habits},
    )
    return dict(zip(habits, found, strict=True))


# --- Series as they are ---


@pytest.mark.parametrize("clip_norm", [None, 2.0])
@pytest.mark.parametrize(("releases", "full_releases"), [(12, 1), (24, 8)])
def test_a_user_of_chosen_weeks_gets_no_more_than_the_series_claims(
    releases, full_releases, clip_norm
):
    """Exact laws: the claim is used up by who writes always, or at the end, and never exceeded."""
    found, by_scale = by_law(make_target(releases, full_releases, clip_norm))
    assert not any(finding.refutes_claim for finding in found.values())
    for habit in (EVERY_WEEK, "a little, and then a lot at the end"):
        assert 0.99 < found[habit].epsilon <= 1
        assert 0.9e-7 < found[habit].delta <= 1e-7
    assert 0 < found["in the first week only"].epsilon < 0.7
    assert {finding.epsilon for finding in by_scale.values()} == {0.0}


def test_noisy_answers_of_whole_series_stay_below_the_claim():
    """Any bound of the three habits is wrong with a probability of at most 0.1%."""
    habits = ["in the first week only", EVERY_WEEK, [*HABITS][-1]]
    found = by_playing(make_target(), habits)
    assert not any(finding.refutes_claim for finding in found.values())
    assert 0.2 < found[EVERY_WEEK].epsilon < 1  # it is an attack, not a blind one
    assert found[EVERY_WEEK].samples == 80


# --- Planted bugs ---


def never_charge(self, places, costs):
    return self


def charge_a_half(self, places, costs, charge=Allowances.charge):
    return charge(self, places, costs // 2)


def noise_of_one_release(self, coordinates):
    """As if one release had the whole budget."""
    return GaussianNoise(self.noise.multiplier, 0.0)


@pytest.mark.parametrize(
    ("where", "name", "bug"),
    [
        (Allowances, "charge", never_charge),
        (Allowances, "charge", charge_a_half),
        (SeriesSettings, "release_noise", noise_of_one_release),
    ],
)
def test_rules_that_are_not_kept_are_caught_by_the_exact_law(monkeypatch, where, name, bug):
    monkeypatch.setattr(where, name, bug)
    found, _ = by_law(make_target(full_releases=4))
    assert found[EVERY_WEEK].refutes_claim
    assert found[EVERY_WEEK].epsilon > 1.2
    assert found[EVERY_WEEK].delta > 1e-6


def test_an_allowance_that_is_not_charged_is_caught_by_noisy_answers(monkeypatch):
    """80 series in each world; what is proved is wrong with a probability of at most 0.1%."""
    monkeypatch.setattr(Allowances, "charge", never_charge)
    finding = by_playing(make_target(), [EVERY_WEEK])[EVERY_WEEK]
    assert finding.refutes_claim
    assert finding.epsilon > 1.2
    assert finding.delta > 1e-4
    assert finding.sentence.startswith("from 40 series of each: at least δ = 0.0")


def test_whether_a_user_takes_part_in_this_week_does_not_change_the_noise(monkeypatch):
    """A planted bug: noise that follows the number of users shows by its scale alone."""
    begin = Series.begin

    def noise_by_users(self, counts, *others):
        begun = begin(self, counts, *others)
        wider = begun.noise.multiplier * (1 + 0.2 * (len(counts.users) % 2))
        begun.noise = replace(begun.noise, multiplier=wider)
        return begun

    monkeypatch.setattr(Series, "begin", noise_by_users)
    monkeypatch.setattr("bayesgram.audit.series_attack.SAMPLES", 4000)
    _, by_scale = by_law(make_target(releases=4))
    assert by_scale[EVERY_WEEK].refutes_claim


def test_queries_that_one_user_adds_are_refused(monkeypatch):
    measure = Posterior.measure

    def ask_more(self, counts, vocabulary, budget, randomness):
        if len(counts.counts.users) == 21:
            randomness.noise.discrete_gaussian(np.zeros(1, np.int64), scale=1.0)
        return measure(self, counts, vocabulary, budget, randomness)

    monkeypatch.setattr(Posterior, "measure", ask_more)
    with pytest.raises(BayesgramError, match="different kinds of noise"):
        by_law(make_target(releases=2))


# --- What is played ---


def test_a_played_series_is_a_real_one(tmp_path):
    """The same counts, the same answers: the state in memory is that of a series on disk."""
    target = make_target(releases=5, full_releases=2)
    in_memory = SeriesInMemory.of(target.settings)
    ledger = Ledger.create(tmp_path / "l", population="x", epsilon=1, delta=1e-7)
    on_disk = Series.create(
        tmp_path / "s", ledger=ledger, epsilon=1, delta=1e-7, releases=5, full_releases=2
    )
    for _ in range(3):
        used = []
        for series in (in_memory, on_disk):
            begun = series.begin(target.counts, target.vocabulary, "out")
            begun.counts.left[:] -= np.arange(20) * FULL_RELEASE // 100
            begun.finish()
            state = series.read_allowances(series.read_state(), RELEASE)
            key = series.read_key() if series is on_disk else state.key
            places = Allowances(key, state.high, state.low, state.used, state.active)
            _, users = places.with_users([target.counts.users])
            used.append((state.used[users].tolist(), state.active[users].tolist()))
        assert used[0] == used[1]
    assert in_memory.read_state().drawn(RELEASE) == 3
    with pytest.raises(AssertionError, match="only releases"):
        in_memory.write_state(in_memory.read_state(), {DISCOVERIES: Allowances(bytes(32))})


def test_the_loss_of_played_series_has_the_law_of_its_queries():
    """Normal, with mean μ²/2 with the user and −μ²/2 without, where μ is that of the queries."""
    target = make_target(releases=4)
    rng = np.random.default_rng(5)
    for takes_part, sign in ((True, 1), (False, -1)):
        losses = []
        for _ in range(150):
            noise = SeededNoise(int(rng.integers(2**62)))
            played = play_series(target, HABITS[EVERY_WEEK], noise, takes_part=takes_part)
            losses.append(played.loss)
        mu = np.sqrt(sum(float(pair.shift @ pair.shift) / pair.scale**2 for pair in played.pairs))
        law = NormalDist(sign * mu**2 / 2, mu)
        quantiles = np.sort([law.cdf(loss) for loss in losses])
        assert np.abs(quantiles - np.linspace(0, 1, 150)).max() < 0.16  # Kolmogorov, 1e-3


def test_the_loss_of_an_answer_is_the_ratio_of_two_densities():
    values, others, answer = np.array([3, -1]), np.array([1, 0]), np.array([2, 4])
    query = NoiseQuery("gaussian", True, values, 2.0, answer)
    other = NoiseQuery("gaussian", True, others, 3.0, answer)
    expected = sum(
        np.log(NormalDist(value, 2.0).pdf(seen) / NormalDist(second, 3.0).pdf(seen))
        for value, second, seen in zip(values, others, answer, strict=True)
    )
    assert answer_loss(query, other) == pytest.approx(expected)


def test_habits_say_when_and_how_much():
    settings = make_settings(CLAIM, releases=6, full_releases=2)
    written = {
        habit: [bool(amount(week, settings, 0.0)) for week in range(1, 7)]
        for habit, amount in HABITS.items()
    }
    assert written["in the first week only"] == [True] + [False] * 5
    assert written["in every other week"] == [True, False] * 3
    late = HABITS["a little, and then a lot at the end"]
    assert [late(week, settings, 0.0) for week in range(1, 7)] == [1, 1, 1, 1, 10**6, 10**6]
    adaptive = HABITS["a lot while the answers look as if they were there"]
    assert adaptive(3, settings, 0.1) > adaptive(3, settings, -0.1) > 0


def test_bounds_of_the_loss_hold_for_gaussian_noise():
    """The truth is known: what is proved at 99.9% is below it, and not by far."""
    rng = np.random.default_rng(2)
    mu = 1.5
    inside, outside = (rng.normal(sign * mu**2 / 2, mu, 2000) for sign in (1, -1))
    law = NormalDist()
    delta = law.cdf(mu / 2 - 1 / mu) - np.e * law.cdf(-mu / 2 - 1 / mu)
    found = played_bounds(inside, outside, CLAIM, error=ERROR)
    assert 0.3 * delta < found[0] < delta
    assert 3 < found[1] < 8
    nothing = played_bounds(np.zeros(100), np.zeros(100), CLAIM, error=ERROR)
    assert nothing == (0.0, 0.0)
    assert loss_tail_bounds(np.ones(9), -np.ones(9), CLAIM, error=ERROR) == (0.0, 0.0)


# --- The audit ---


def test_an_audit_of_a_series(tmp_path):
    found = runner.run_series_audit(
        make_target(releases=4), SERIES_ATTACKS, runs=10, seed=1, confidence=0.999
    )
    assert not found.refutes_claim
    assert found.mechanism == "posterior, a series of 4 releases"
    assert found.settings == {"clip_norm": 2.0, "releases": 4, "full_releases": 1}
    assert found.verdict.startswith("claimed ε = 1 at δ = 1e-07 (PROVED); no attack")
    assert len(found.findings) == 3 * len(HABITS)
    again = runner.run_series_audit(
        make_target(releases=4), SERIES_ATTACKS, runs=10, seed=1, confidence=0.999
    )
    assert again == found
    runner.save_audit(found, tmp_path / "out")
    assert runner.load_attacks(tmp_path / "out").mechanism == found.mechanism


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"attacks": [Attack.LEAKS]}, "can't attack a series; choose from likelihood-ratio"),
        ({"confidence": 1.0}, "from 0.5 to below 1"),
        ({"runs": 2}, "from 8"),
        ({"runs": 9, "attacks": [Attack.BLACK_BOX]}, "from 10"),
    ],
)
def test_what_no_audit_of_a_series_has(options, message):
    with pytest.raises(UsageError, match=message):
        runner.run_series_audit(make_target(releases=2), **options)


@pytest.mark.parametrize(
    ("budget", "numbers", "message"),
    [
        (Budget(1.0), (4, 2), "a delta above 0"),
        (CLAIM, (1, 1), "from 2 to 1,000"),
        (CLAIM, (4, 5), "from 1 to 4"),
        (CLAIM, (4, 0), "from 1 to 4"),
    ],
)
def test_settings_that_no_series_has(budget, numbers, message):
    releases, full_releases = numbers
    with pytest.raises(UsageError, match=message):
        make_settings(budget, releases=releases, full_releases=full_releases)


def test_counts_of_another_vocabulary_are_refused():
    target = make_target()
    with pytest.raises(UsageError):
        SeriesTarget(target.counts, reference_paper.make_vocabulary([3, 2]), target.settings)
