"""The test for changes, on counts whose truth is known."""

import numpy as np
import pytest
from scipy import stats

from bayesgram.comparison.statistics import (
    CAPPED_SQUARE_MEAN,
    CAPPED_SQUARE_STD,
    MAX_SCORE,
    ReleaseCounts,
    clip_norm_drift,
    estimate_log_ratios,
    false_discovery_rates,
    fit_rates,
)

SIZE = 1500


def week(shares, *, total=3e5, jump=3.0, sigma=4.0, burst=None, clip_norm=4.0, rng):
    """Noisy counts: bursts of one user, Poisson many, and Gaussian noise of σ times the most that one user adds."""
    most = np.full(shares.size, jump) * (shares / shares.mean()) ** 0.25
    burst = most / 2 if burst is None else burst
    exact = burst * rng.poisson(total * shares / burst)
    noise = sigma * most
    return ReleaseCounts(
        exact + noise * rng.standard_normal(shares.size), noise, total, most, clip_norm
    )


@pytest.fixture
def zipf():
    shares = 1 / np.arange(1, SIZE + 1)
    return shares / shares.sum()


def discoveries(found, fdr=0.1):
    rows = np.flatnonzero(found.tested_mask)
    return rows[false_discovery_rates(found.p_values[rows]) <= fdr]


def test_the_middle_of_a_normal_distribution_is_what_the_fit_expects():
    middle = [
        stats.norm.expect(lambda z, power=power: np.minimum(z**2, MAX_SCORE**2) ** power)
        for power in (1, 2)
    ]
    assert pytest.approx(middle[0], rel=1e-6) == CAPPED_SQUARE_MEAN
    assert pytest.approx(np.sqrt(middle[1] - middle[0] ** 2), rel=1e-6) == CAPPED_SQUARE_STD


def test_of_two_releases_the_test_is_the_z_test_of_two_shares(zipf):
    rng = np.random.default_rng(1)
    found = fit_rates([week(zipf, rng=rng), week(zipf, rng=rng)])
    z = (found.shares[1] - found.shares[0]) / np.sqrt(found.variances.sum(axis=0))
    np.testing.assert_allclose(found.z_between(0, 1), z)
    np.testing.assert_allclose(found.p_values, 2 * stats.norm.sf(np.abs(z)), rtol=1e-9)
    np.testing.assert_allclose(np.abs(found.z_scores), np.abs([z, z]), rtol=1e-6)


def test_of_three_releases_it_is_the_chi_square_of_one_rate(zipf):
    rng = np.random.default_rng(2)
    found = fit_rates([week(zipf, rng=rng) for _ in range(3)])
    row = 40
    weights = 1 / found.variances[:, row]
    mean = (weights * found.shares[:, row]).sum() / weights.sum()
    statistic = (weights * (found.shares[:, row] - mean) ** 2).sum()
    assert found.p_values[row] == pytest.approx(stats.chi2.sf(statistic, 2), rel=1e-3)


@pytest.mark.parametrize("releases", [2, 4])
def test_without_a_change_z_is_standard_normal_and_hardly_anything_is_discovered(zipf, releases):
    """60 pairs, or 30 of four, at a stated rate of 10%: more would happen once in 10⁶ runs."""
    rng, wrong, scores = np.random.default_rng(3), 0, []
    for _ in range(60 if releases == 2 else 30):
        found = fit_rates([week(zipf, rng=rng) for _ in range(releases)])
        wrong += bool(discoveries(found).size)
        scores.append(found.z_between(0, 1)[found.tested_mask])
    assert wrong <= stats.binom.isf(1e-6, 60 if releases == 2 else 30, 0.1)
    assert 0.95 < np.std(np.concatenate(scores)) < 1.01


def test_people_who_repeat_themselves_are_no_change(zipf):
    """Large counts vary by who wrote what far more than by noise: with noise alone, the list would be long."""
    rng = np.random.default_rng(4)
    pair = [week(zipf, total=3e7, burst=2.9, rng=rng) for _ in range(2)]
    found = fit_rates(pair)
    assert found.sampling_factor > 0.3
    assert discoveries(found).size <= 2
    alone = np.abs(pair[1].counts - pair[0].counts) / np.hypot(pair[0].noise_std, pair[1].noise_std)
    assert (alone > 5).sum() > 50


def test_what_people_add_is_never_thought_to_vary_more_than_it_can(zipf):
    rng = np.random.default_rng(5)
    found = fit_rates([week(zipf, total=3e7, burst=100.0, rng=rng) for _ in range(2)])
    assert found.sampling_factor <= 1
    assert found.drift > 0.001  # what is more than that is drift


def test_changes_are_found_and_most_of_what_is_found_changed(zipf):
    rng, proportions, power = np.random.default_rng(6), [], []
    for _ in range(30):
        factors = np.where(rng.random(SIZE) < 0.05, rng.choice([1 / 3, 3], SIZE), 1.0)
        after = zipf * factors
        found = fit_rates(
            [week(zipf, total=1e6, rng=rng), week(after / after.sum(), total=2e6, rng=rng)]
        )
        rows = discoveries(found)
        proportions.append((factors[rows] == 1).mean())
        clear = (factors != 1) & (zipf > 3e-4)
        power.append(np.isin(np.flatnonzero(clear), rows).mean())
    assert np.mean(proportions) < 0.1 + 4 * np.std(proportions) / np.sqrt(30)
    assert np.mean(power) > 0.9


def test_a_phrase_that_takes_much_does_not_make_all_others_fall(zipf):
    """The scale is that of the middle: one n-gram of a tenth of everything leaves the others where they were."""
    rng = np.random.default_rng(7)
    after = zipf.copy()
    after[30] = 0.1
    found = fit_rates(
        [week(zipf, total=3e6, rng=rng), week(after / after.sum(), total=3e6, rng=rng)]
    )
    rows = discoveries(found)
    assert 30 in rows
    assert rows.size <= 5


def test_clipping_that_takes_more_of_frequent_ones_is_no_change(zipf):
    rng = np.random.default_rng(8)
    kept = zipf**0.97
    found = fit_rates([week(zipf, total=3e6, rng=rng), week(kept / kept.sum(), total=3e6, rng=rng)])
    assert discoveries(found).size <= 5
    assert found.drift < 0.01


def test_clip_norms_that_differ_make_small_changes_unsure(zipf):
    assert (
        clip_norm_drift([4.0, 4.0])
        == clip_norm_drift([None, None])
        == clip_norm_drift([None, 3.0])
        == 0
    )
    assert clip_norm_drift([2.0, 8.0, 4.0]) == pytest.approx(0.1)
    rng = np.random.default_rng(9)
    after = zipf.copy()
    after[0] *= 1.1
    pair = [week(shares, total=3e7, rng=rng) for shares in (zipf, after / after.sum())]
    assert 0 in discoveries(fit_rates(pair))
    pair[1] = ReleaseCounts(
        pair[1].counts, pair[1].noise_std, pair[1].total, pair[1].max_user_count, 16.0
    )
    assert 0 not in discoveries(fit_rates(pair))


def test_few_ngrams_are_tested_with_the_bound(zipf):
    rng = np.random.default_rng(10)
    few = zipf[:5] / zipf[:5].sum()
    found = fit_rates([week(few, rng=rng), week(few, rng=rng)])
    assert (found.sampling_factor, found.drift) == (1.0, 0.0)


@pytest.mark.parametrize(
    "p_values", [[], [0.2], [0.01, 0.02, 0.03, 0.5, 0.001], [1.0, 1.0], [0.0, 0.04, 0.9]]
)
def test_discoveries_are_those_of_benjamini_and_hochberg(p_values):
    q = false_discovery_rates(np.array(p_values))
    for fdr in (0.01, 0.05, 0.1, 0.3):
        ranked = sorted(p_values)
        passing = [k for k, p in enumerate(ranked, start=1) if p <= fdr * k / len(p_values)]
        largest = ranked[max(passing) - 1] if passing else -1.0
        assert (q <= fdr + 1e-12).tolist() == [p <= largest for p in p_values]


def test_intervals_of_ratios_hold_the_truth(zipf):
    """Whatever the signal is: 95% of those that changed, and no fewer than 90%, where shares are hidden too."""
    rng = np.random.default_rng(11)
    truth = np.where(rng.random(SIZE) < 0.5, 0.0, rng.normal(0, 0.8, SIZE))
    noise = zipf / rng.choice([1.0, 3.0, 10.0, 50.0], SIZE)
    shares = np.array([zipf, zipf * np.exp(truth)]) + noise * rng.standard_normal((2, SIZE))
    found = estimate_log_ratios(shares, np.array([noise**2, noise**2]))
    changed = truth != 0
    held = ((found.low <= truth) & (truth <= found.high))[changed]
    assert 0.9 < held.mean() < 0.99
    clear = changed & (noise < zipf / 20)
    np.testing.assert_allclose(found.mean[clear], truth[clear], atol=0.3)
    error = (found.mean - truth)[clear] / found.std[clear]
    assert 0.8 < np.std(error) < 1.2


def test_the_largest_of_many_ratios_that_are_noise_is_not_believed():
    rng = np.random.default_rng(12)
    shares = 1 + 0.2 * rng.standard_normal((2, 2000))
    found = estimate_log_ratios(shares, np.full((2, 2000), 0.04))
    raw = np.abs(np.log(np.maximum(shares[1], 0.1) / np.maximum(shares[0], 0.1))).max()
    assert np.abs(found.mean).max() < raw / 3


def test_no_ngrams_have_no_ratios():
    assert estimate_log_ratios(np.zeros((2, 0)), np.zeros((2, 0))).mean.size == 0
