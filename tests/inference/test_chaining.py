"""What is carried over from the release before: averaged by precision, as far as people have not drifted."""

import math
from dataclasses import replace

import numpy as np
import pytest

from bayesgram.inference.chaining import (
    CHANGE_GRID,
    MIN_KEPT_SHARE,
    CountPairs,
    PreviousCounts,
    average_counts,
    combine_counts,
    fit_drift,
)
from bayesgram.inference.noisy_counts import NoisyCounts, PublicNgrams

SIZE = 3000


def public(size=SIZE):
    """Pairs of words; the frequent ones first."""
    prior = 1 / np.arange(10.0, size + 10)
    prior /= prior.sum()
    words = np.stack([np.arange(size) % 100, np.arange(size) // 100 % 100], axis=1).astype(np.int32)
    return PublicNgrams(prior, prior * 1e6, words, 100, prior[None])


def world(chance, *, drift=0.0, changed=0.0, factor=2.0, total=1e6, noise=0.3):
    """Two weeks: what is true now, Measured now, and PreviousCounts from before; λ moved by `drift`, some by a factor."""
    about = public()
    before = total * about.prior * np.exp(chance.normal(0, 0.5, SIZE))
    now = factor * before * np.exp(chance.normal(0, drift, SIZE) if drift else np.zeros(SIZE))
    moved = chance.random(SIZE) < changed
    now = np.where(moved, now * np.exp(chance.choice([-2.0, 2.0], SIZE)), now)
    scale = noise * np.sqrt(before.mean() * before)
    written = chance.poisson(now)
    measured = NoisyCounts(
        written + 2 * scale * chance.standard_normal(SIZE),
        2 * scale,
        float(now.sum()),
        total / 1000,
    )
    carried = PreviousCounts(
        before + scale * chance.standard_normal(SIZE),
        scale,
        before,
        float(before.sum()),
        has_same_ngrams=True,
    )
    return now, measured, carried, about


def test_without_drift_it_is_the_mean_by_precision_and_has_its_noise():
    now, measured, carried, about = world(np.random.default_rng(1))
    both, told = combine_counts(measured, carried, about)
    assert told.drift <= 0.03
    assert told.changed < 0.02
    assert told.information == pytest.approx(2.0, rel=0.1)  # as much as this week again
    errors = (both.counts - now) / both.noise
    assert errors.std() == pytest.approx(1, abs=0.08)  # 3,000 of them: 1.3% is one standard error
    assert (
        both.noise < measured.noise
    ).mean() > 0.99  # where the weeks contradict each other, it is larger


@pytest.mark.parametrize("drift", [0.1, 0.3])
def test_drift_is_learnt_and_the_noise_stays_honest(drift):
    now, measured, carried, about = world(np.random.default_rng(2), drift=drift, noise=0.05)
    both, told = combine_counts(measured, carried, about)
    assert drift / 1.6 < told.drift < 1.6 * drift
    errors = (both.counts - now) / both.noise
    assert np.sqrt(np.mean(errors**2)) == pytest.approx(1, abs=0.15)
    assert np.mean((both.counts - now) ** 2) <= np.mean((measured.counts - now) ** 2)


def test_what_has_changed_is_taken_as_it_is_now():
    now, measured, carried, about = world(np.random.default_rng(3), changed=0.05, noise=0.05)
    both, told = combine_counts(measured, carried, about)
    assert 0.03 < told.changed < 0.1
    far = np.abs(now / (2 * carried.expected) - 1) > 0.5
    clear = far & (np.abs(now - 2 * carried.expected) > 8 * measured.noise)
    assert clear.sum() > 50
    assert np.allclose(
        both.counts[clear], measured.counts[clear], atol=0.5 * measured.noise[clear].max()
    )
    errors = (both.counts - now) / both.noise
    assert np.sqrt(np.mean(errors**2)) < 1.25


def test_where_nothing_is_alike_any_more_this_week_stays_as_it_is():
    chance = np.random.default_rng(4)
    _, measured, carried, about = world(chance, noise=0.05)
    mixed = chance.permutation(SIZE)
    other = replace(
        carried,
        counts=carried.counts[mixed],
        expected=carried.expected[mixed],
        noise_std=carried.noise_std[mixed],
    )
    both, told = combine_counts(measured, other, about)
    assert told.changed > 0.5 or told.drift > 0.5
    clear = measured.counts > 5 * measured.noise
    assert np.abs((both.counts - measured.counts) / measured.noise)[clear].mean() < 0.3


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("noise", [0.01, 0.05, 0.3])
def test_of_other_people_nothing_is_carried(seed, noise):
    """Both stray from public text, but not together: measurements stay to the last bit."""
    chance = np.random.default_rng(seed)
    _, measured, _, about = world(chance, noise=noise)
    _, _, others, _ = world(chance, noise=noise)
    both, told = combine_counts(measured, others, about)
    assert np.array_equal(both.counts, measured.counts)
    assert told.information == 1


def test_n_grams_that_are_new_are_as_measured():
    _, measured, carried, about = world(np.random.default_rng(5))
    new = np.arange(SIZE) % 7 == 0
    expected = np.where(new, 0.0, carried.expected)
    known = replace(
        carried,
        noise_std=np.where(new, np.inf, carried.noise_std),
        expected=expected,
        has_same_ngrams=False,
    )
    both, _ = combine_counts(measured, known, about)
    assert np.allclose(both.counts[new], measured.counts[new])
    assert np.allclose(both.noise[new], measured.noise[new])
    assert (both.noise[~new] < measured.noise[~new]).mean() > 0.99
    assert both.total == measured.total


def test_a_week_in_which_nobody_writes_leaves_what_was_known():
    _, measured, carried, about = world(np.random.default_rng(6))
    silent = replace(
        measured, counts=measured.noise * np.random.default_rng(7).standard_normal(SIZE), total=0.0
    )
    both, _ = combine_counts(silent, carried, about)
    assert np.isfinite(both.counts).all()
    assert (both.noise > 0).all()
    assert both.total >= 2 * both.total_noise * 0.999


def literal(pairs, drifts, likely):
    """Row by row, by the definition."""
    means, deviations = [], []
    for i in range(pairs.counts.size):
        values = []
        for drift, weight in zip(drifts, likely[:, i], strict=True):
            kept = 1 - drift**2 / (2 * pairs.log_ratio_var)
            own, trust, then = 1 / (pairs.noise_std[i] ** 2 + pairs.expected[i]), 0.0, 0.0
            if kept >= MIN_KEPT_SHARE:
                new = pairs.log_ratio_var * (1 - kept**2) * pairs.expected[i] ** 2
                trust = kept**2 / (pairs.previous_std[i] ** 2 + new)
                then = (
                    pairs.public_expected[i]
                    + (pairs.previous_counts[i] - pairs.public_expected[i]) / kept
                )
            values.append(
                (weight, (own * pairs.counts[i] + trust * then) / (own + trust), 1 / (own + trust))
            )
        mean = sum(weight * value for weight, value, _ in values)
        means.append(mean)
        deviations.append(
            math.sqrt(sum(weight * (var + (value - mean) ** 2) for weight, value, var in values))
        )
    return means, deviations


def test_the_average_is_that_of_the_definition():
    chance = np.random.default_rng(8)
    pairs = CountPairs(*(chance.uniform(1, 9, 50) for _ in range(6)), log_ratio_var=0.5)
    found = fit_drift(pairs, [np.arange(50) < 30, np.arange(50) >= 30])
    assert np.allclose(found.probabilities.sum(axis=0), 1)
    assert found.drifts.tolist() == [found.drift, *CHANGE_GRID]
    means, deviations = average_counts(pairs, found)
    expected, spread = literal(pairs, found.drifts, found.probabilities)
    assert np.allclose(means, expected)
    assert np.allclose(deviations, spread)
