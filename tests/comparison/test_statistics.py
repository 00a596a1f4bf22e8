"""Ratios of rates, on counts whose truth is known."""

import math
from decimal import Decimal, localcontext

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from bayesgram.comparison import statistics
from bayesgram.comparison.statistics import (
    CAPPED_SQUARE_MEAN,
    CAPPED_SQUARE_STD,
    MAX_SCORE,
    NoisyShares,
    ReleaseCounts,
    clip_norm_std,
    critical_misfit,
    false_discovery_rates,
    histogram_dispersion,
    limit_dispersion,
    mean_dispersion,
    misfit,
    misfit_p_values,
    noisy_shares,
    ratio_intervals,
)

SIZE = 1500
CRITICAL = 3.841458820694124


@pytest.fixture
def zipf():
    shares = 1 / np.arange(1, SIZE + 1)
    return shares / shares.sum()


def week(
    shares, *, total=3e5, jump=3.0, sigma=4.0, burst=1.5, clip_norm=4.0, given=False, rng=None
):
    """Noisy counts: people who add D to a count, Poisson many, and Gaussian noise; d is `burst`."""
    max_user_count = np.full(shares.size, jump) * (shares / shares.mean()) ** 0.25
    added = limit_dispersion(burst, max_user_count)
    exact = added * rng.poisson(total * shares / added)
    noise_std = sigma * max_user_count
    counts = exact + noise_std * rng.standard_normal(shares.size)
    dispersion = burst if given else None
    return ReleaseCounts(
        counts, noise_std, total, 1e-4 * total, max_user_count, dispersion, clip_norm
    )


def discoveries(shares, fdr=0.1):
    pairs = shares.clearest_pairs
    number = len(shares.shares)
    intervals = ratio_intervals(shares.select(pairs), critical_misfit(number))
    rows = np.flatnonzero(shares.tested_mask)
    excludes_one = (intervals.low > 1) | (intervals.high < 1)
    p_values = misfit_p_values(intervals.misfit, number)
    return rows[false_discovery_rates(p_values[rows], excludes_one[rows]) <= fdr]


# --- S(r) and its inversion, against the equations ---


def reference_misfit(shares, noise_var, sampling_scale, relative_var, ratio):
    """S(r) of one n-gram by equation (2), with 50 digits and 300 rounds."""
    with localcontext() as context:
        context.prec = 50
        x, noise, scale, relative = (
            [Decimal(float(value)) for value in values]
            for values in (shares, noise_var, sampling_scale, relative_var)
        )
        times = [Decimal(1), Decimal(ratio)]

        def variances(rates):
            return [noise[k] + scale[k] * rates[k] + relative[k] * rates[k] ** 2 for k in range(2)]

        def fit(values, v):
            numerator = sum(times[k] * values[k] / v[k] for k in range(2))
            return max(numerator / sum(times[k] ** 2 / v[k] for k in range(2)), Decimal(0))

        counted = [max(value, Decimal(0)) for value in x]
        v = variances(counted)
        for _ in range(300):
            v = variances([times[k] * fit(counted, v) for k in range(2)])
        rate = fit(x, v)
        squares = sum((x[k] - times[k] * rate) ** 2 / v[k] for k in range(2))
        return float(squares - sum(min(x[k], Decimal(0)) ** 2 / v[k] for k in range(2)))


def random_shares(seed, size):
    """Shares of all kinds: hidden, clear, negative, with little and much chance."""
    rng = np.random.default_rng(seed)
    noise = np.exp(rng.normal(-8, 0.5, (2, size)))
    rates = noise * np.exp(rng.uniform(-2, 5, (2, size)))
    scale = noise * np.exp(rng.uniform(-5, -0.7, (2, size)))
    shares = rates + np.sqrt(noise**2 + scale * rates) * rng.standard_normal((2, size))
    return NoisyShares(shares, noise**2, scale, np.array([[0.01**2], [0.02**2]]))


def test_the_misfit_is_that_of_the_equation():
    shares = random_shares(1, 60)
    for ratio in (1e-3, 0.2, 1.0, 3.0, 1e4):
        found = misfit(shares, ratio)
        for row in range(60):
            parts = (shares.shares, shares.noise_var, shares.sampling_scale)
            expected = reference_misfit(
                *(part[:, row] for part in parts), shares.relative_var[:, 0], ratio
            )
            if expected < 30:  # which p-values and ends of intervals depend on
                assert found[row] == pytest.approx(max(expected, 0.0), rel=1e-3, abs=1e-4)


def test_where_nothing_is_negative_it_is_the_statistic_of_fieller():
    shares = NoisyShares(
        np.array([[3.0], [5.0]]), np.array([[0.5], [0.2]]), np.zeros((2, 1)), np.zeros((2, 1))
    )
    for ratio in (0.5, 1.0, 2.0):
        expected = (5 - ratio * 3) ** 2 / (0.2 + ratio**2 * 0.5)
        assert misfit(shares, ratio)[0] == pytest.approx(expected, rel=1e-12)
    assert misfit(shares, 0.0)[0] == pytest.approx(25 / 0.2)
    assert misfit(shares, math.inf)[0] == pytest.approx(9 / 0.5)


def test_an_interval_is_all_ratios_that_the_test_accepts():
    """Brute force: on a fine grid of ratios, S is small exactly inside the interval."""
    shares = random_shares(2, 400)
    found = ratio_intervals(shares, CRITICAL)
    for ratio in np.exp(np.linspace(-12, 12, 481)):
        inside = misfit(shares, ratio) <= CRITICAL
        close = np.isclose(ratio, found.low, rtol=1e-6) | np.isclose(ratio, found.high, rtol=1e-6)
        expected = (found.low <= ratio) & (ratio <= found.high)
        assert ((inside == expected) | close).all()


finite = st.floats(-1e3, 1e3)
positive = st.floats(1e-3, 1e3)


@st.composite
def pairs_of_shares(draw):
    size = draw(st.integers(1, 5))

    def table(values):
        return np.array(draw(st.lists(values, min_size=2 * size, max_size=2 * size))).reshape(2, -1)

    noise = table(positive)
    return NoisyShares(
        table(finite) * noise,
        noise**2,
        table(st.floats(0, 1e3)) * noise,
        np.array(draw(st.lists(st.floats(0, 1), min_size=2, max_size=2))).reshape(2, 1),
    )


@given(pairs_of_shares(), st.integers(2, 6))
def test_no_row_contradicts_itself(pair, release_count):
    """The estimate is inside; p < 0.05 exactly if 1 is outside, on the other side of it."""
    critical_value = critical_misfit(release_count)
    found = ratio_intervals(pair, critical_value)
    p_values = misfit_p_values(found.misfit, release_count)
    assert ((found.low <= found.ratio) & (found.ratio <= found.high)).all()
    assert (found.low >= 0).all()
    np.testing.assert_allclose(
        found.ratio, pair.positive_shares[1] / pair.positive_shares[0], rtol=1e-12
    )
    excludes_one = (found.low > 1) | (found.high < 1)
    borderline = np.abs(found.misfit - critical_value) < 1e-6
    np.testing.assert_array_equal(excludes_one | borderline, (p_values < 0.05) | borderline)
    assert ((found.ratio > 1) == (found.low > 1))[excludes_one].all()
    listed = false_discovery_rates(p_values, excludes_one) <= 0.9
    assert not (listed & ~excludes_one).any()


@given(pairs_of_shares())
def test_the_other_way_round_intervals_are_turned(pair):
    turned = ratio_intervals(NoisyShares(*(part[::-1] for part in vars(pair).values())), CRITICAL)
    found = ratio_intervals(pair, CRITICAL)
    np.testing.assert_allclose(turned.misfit, found.misfit, rtol=1e-6, atol=1e-9)
    with np.errstate(divide="ignore"):
        np.testing.assert_allclose(turned.ratio, 1 / found.ratio, rtol=1e-9)


@given(st.floats(-60, 60), positive)
def test_shares_that_are_shown_are_means_of_truncated_normal_distributions(z, noise):
    shares = NoisyShares(
        np.full((2, 1), z * noise), np.full((2, 1), noise**2), np.zeros((2, 1)), np.zeros((2, 1))
    )
    shown = shares.positive_shares[0, 0] / noise
    assert shown > 0
    expected = z + math.exp(stats.norm.logpdf(z) - stats.norm.logcdf(z)) if z > -15 else 1 / -z
    assert shown == pytest.approx(expected, rel=1e-2)


def test_the_estimate_can_not_leave_the_interval():
    """The proof in `positive_shares`: a share adds at most 0.64 to S, a negative one 2."""
    z = np.concatenate([-np.geomspace(1e-3, 1e3, 400), np.geomspace(1e-3, 1e3, 400), [0.0]])
    shares = NoisyShares(np.tile(z, (2, 1)), np.ones((2, z.size)), *(np.zeros((2, z.size)),) * 2)
    added = (z - shares.positive_shares[0]) ** 2 - np.minimum(z, 0) ** 2
    assert added[z >= 0].max() == pytest.approx(2 / math.pi)
    assert added.max() < 2.001
    assert 2 / math.pi + 2.001 < CRITICAL


# --- Chance ---


@pytest.mark.parametrize("burst", [0.8, 2.0])
def test_intervals_cover_known_ratios(zipf, burst):
    """12 pairs of 1,500 n-grams that all changed; outside these bounds once in 10⁶ seeds."""
    rng = np.random.default_rng(11)
    truth = np.exp(rng.normal(0, 0.8, SIZE))
    after = zipf * truth
    truth, after = truth / after.sum(), after / after.sum()
    covered, tested = [], []
    for _ in range(12):
        first, second = (
            week(shares, total=total, burst=burst, given=True, rng=rng)
            for shares, total in ((zipf, 3e5), (after, 6e5))
        )
        shares = noisy_shares([first, second])
        found = ratio_intervals(shares, CRITICAL)
        covered.append((found.low <= truth) & (truth <= found.high))
        tested.append(shares.tested_mask)
    number = np.concatenate(tested).sum()
    low, high = stats.binom.interval(1 - 1e-6, number, 0.95) / number
    held = np.concatenate(covered)[np.concatenate(tested)].mean()
    assert (
        low - 0.01 < held < high + 0.015
    )  # a normal limit, and negative counts widen some intervals
    assert np.concatenate(covered).mean() > 0.945


def test_where_noise_hides_an_ngram_its_interval_is_wide():
    shares = NoisyShares(
        np.array([[0.3, 40.0, 0.2], [0.1, 0.0, 40.0]]),
        np.ones((2, 3)),
        np.zeros((2, 3)),
        np.zeros((2, 1)),
    )
    found = ratio_intervals(shares, CRITICAL)
    assert (found.low[0], found.high[0]) == (0.0, math.inf)
    assert found.low[1] == 0
    assert 1 / 30 < found.high[1] < 1 / 15  # it fell at least 15 times: 40 over 2 deviations
    assert 15 < found.low[2] < 30
    assert found.high[2] == math.inf


def test_without_a_change_p_values_are_uniform_and_hardly_anything_is_listed(zipf):
    """40 pairs, or 30 of four, at a stated rate of 10%: more would happen once in 10⁶ runs."""
    for releases, runs in ((2, 40), (4, 30)):
        rng, wrong, p_values = np.random.default_rng(3), 0, []
        for _ in range(runs):
            shares = noisy_shares([week(zipf, given=True, rng=rng) for _ in range(releases)])
            wrong += bool(discoveries(shares).size)
            pair = shares.select(shares.clearest_pairs)
            p_values.append(misfit_p_values(misfit(pair, 1.0), releases)[shares.tested_mask])
        assert wrong <= stats.binom.isf(1e-6, runs, 0.1)
        assert 0.03 < (np.concatenate(p_values) < 0.05).mean() < 0.06


def test_changes_are_found_and_most_of_what_is_found_changed(zipf):
    rng, proportions, power = np.random.default_rng(6), [], []
    for _ in range(20):
        is_changed = rng.random(SIZE) < 0.05
        after = np.where(is_changed, zipf * rng.choice([1 / 3, 3], SIZE), zipf)
        after[~is_changed] *= (1 - after[is_changed].sum()) / after[~is_changed].sum()
        is_changed = np.abs(np.log(after / zipf)) > 0.5
        weeks = [week(zipf, total=1e6, rng=rng), week(after, total=2e6, rng=rng)]
        rows = discoveries(noisy_shares(weeks))
        wrong = ~is_changed[rows] & (np.abs(np.log(after / zipf))[rows] < 1e-9)
        proportions.append(wrong.mean() if rows.size else 0.0)
        clear = is_changed & (zipf > 6e-4)
        power.append(np.isin(np.flatnonzero(clear), rows).mean())
    assert np.mean(proportions) < 0.1 + 4 * np.std(proportions) / math.sqrt(20)
    assert np.mean(power) > 0.9


# --- Dispersion ---


def test_the_middle_of_a_normal_distribution_is_what_learning_expects():
    moments = [
        stats.norm.expect(lambda z, power=power: np.minimum(z**2, MAX_SCORE**2) ** power)
        for power in (1, 2)
    ]
    assert pytest.approx(moments[0], rel=1e-6) == CAPPED_SQUARE_MEAN
    assert pytest.approx(math.sqrt(moments[1] - moments[0] ** 2), rel=1e-6) == CAPPED_SQUARE_STD


def test_the_histogram_of_norms_gives_the_dispersion_of_clipped_counts():
    """Literally: users one by one, their clipped counts, and the mean of Σ g²/Σ g."""
    rng = np.random.default_rng(4)
    clip_norm, size = 4.0, 50
    shape = rng.uniform(0.5, 1.5, size)
    written = rng.poisson(np.exp(rng.normal(-2, 1.2, (4000, 1))), (4000, size))
    written = written * rng.integers(1, 4, (4000, size))
    norms = np.linalg.norm(written / shape, axis=1)
    kept = written * np.minimum(1, clip_norm / np.maximum(norms, 1e-9))[:, None]
    counts = kept.sum(axis=0)
    max_user_count = shape * clip_norm
    weights = 1 / max_user_count**2
    expected = ((kept**2).sum(axis=0) @ weights) / (counts @ weights)
    edges = 2.0 ** np.arange(-2, 12.5, 0.5)
    users = np.bincount(np.digitize(norms, edges), minlength=edges.size + 1).astype(float)
    users[0] = 0.0  # nobody who writes has a norm below 1/1.5; users without any n-gram are here

    def dispersion(counts, noise_multiplier, users_std):
        return histogram_dispersion(
            counts,
            max_user_count,
            noise_multiplier=noise_multiplier,
            norm_edges=edges,
            users=users,
            users_std=users_std,
            clip_norm=clip_norm,
        )

    exact = dispersion(counts, 0.0, 0.0)
    assert mean_dispersion(exact, counts, max_user_count) == pytest.approx(expected, rel=0.02)
    assert dispersion(counts, 5.0, 9.0) > exact
    assert dispersion(np.zeros(size), 5.0, 9.0) == math.inf
    assert mean_dispersion(math.inf, -counts, max_user_count) == math.inf


def test_no_user_adds_more_than_the_limit():
    max_user_count = np.array([0.5, 2.0, 50.0])
    for dispersion in (0.1, 1.0, 1e6):
        limited = limit_dispersion(dispersion, max_user_count)
        assert (limited <= np.minimum(dispersion, max_user_count)).all()
        assert (limited >= np.minimum(dispersion, max_user_count) / 2).all()
    np.testing.assert_array_equal(limit_dispersion(math.inf, max_user_count), max_user_count)


def test_without_a_histogram_people_who_repeat_themselves_are_no_change(zipf):
    """Large counts vary by who wrote what far more than by noise alone."""
    rng = np.random.default_rng(4)
    pair = [week(zipf, total=3e7, burst=4.0, rng=rng) for _ in range(2)]
    shares = noisy_shares(pair)
    true = limit_dispersion(4.0, pair[0].max_user_count)
    learnt = shares.sampling_scale[0] * 3e7
    assert (learnt > 0.95 * true).all()
    assert (learnt < 1.5 * true).all()
    assert discoveries(shares).size <= 2
    alone = np.abs(pair[1].counts - pair[0].counts) / np.hypot(pair[0].noise_std, pair[1].noise_std)
    assert (alone > 5).sum() > 50


def test_what_is_learnt_is_never_more_than_one_user_can_add(zipf):
    """Where all n-grams changed, counts stray further than they can by chance."""
    rng = np.random.default_rng(5)
    after = zipf * np.exp(rng.normal(0, 1, SIZE))
    pair = [week(shares, total=3e7, rng=rng) for shares in (zipf, after / after.sum())]
    np.testing.assert_allclose(
        noisy_shares(pair).sampling_scale[0] * 3e7, pair[0].max_user_count, rtol=0.02
    )


def test_few_ngrams_are_tested_with_the_bound(zipf):
    rng = np.random.default_rng(10)
    few = zipf[:5] / zipf[:5].sum()
    pair = [week(few, rng=rng), week(few, rng=rng)]
    np.testing.assert_allclose(noisy_shares(pair).sampling_scale[0] * 3e5, pair[0].max_user_count)


def test_a_given_dispersion_is_kept_beside_one_that_is_learnt(zipf):
    rng = np.random.default_rng(12)
    pair = [week(zipf, given=True, rng=rng), week(zipf, rng=rng)]
    np.testing.assert_allclose(
        noisy_shares(pair).sampling_scale[0] * 3e5, limit_dispersion(1.5, pair[0].max_user_count)
    )


def test_clip_norms_that_differ_make_small_changes_unsure(zipf):
    assert clip_norm_std([4.0, 4.0]) == clip_norm_std([None, None]) == clip_norm_std([None, 3]) == 0
    assert clip_norm_std([2.0, 8.0, 4.0]) == pytest.approx(0.16)
    rng = np.random.default_rng(9)
    after = zipf.copy()
    after[0] *= 1.1
    after /= after.sum()
    same = [week(shares, total=3e7, given=True, rng=rng) for shares in (zipf, after)]
    assert 0 in discoveries(noisy_shares(same))
    other = week(after, total=3e7, given=True, clip_norm=16.0, rng=rng)
    assert 0 not in discoveries(noisy_shares([same[0], other]))


# --- Many releases and many n-grams ---


@pytest.mark.parametrize("releases", [3, 5, 12])
def test_p_values_of_several_releases_are_those_of_the_studentized_range(releases):
    z = np.array([0.5, 1.5, 2.5, 3.5])
    expected = stats.studentized_range.sf(math.sqrt(2) * z, releases, np.inf)
    np.testing.assert_allclose(misfit_p_values(z**2, releases), expected, rtol=2e-4)
    assert misfit_p_values(np.array([critical_misfit(releases)]), releases)[0] == pytest.approx(
        0.05
    )
    far = misfit_p_values(np.array([30.0, 37.0]) ** 2, releases)
    pairs = releases * (releases - 1) / 2
    np.testing.assert_allclose(far, pairs * 2 * stats.norm.sf([30.0, 37.0]), rtol=0.02)


def test_of_two_releases_it_is_the_chi_square_of_one_degree():
    z = np.array([0.1, 2.0, 20.0])
    np.testing.assert_allclose(misfit_p_values(z**2, 2), stats.chi2.sf(z**2, 1), rtol=1e-9)
    assert critical_misfit(2) == pytest.approx(CRITICAL, rel=1e-8)


def test_of_several_releases_the_two_that_differ_most_are_chosen():
    shares = NoisyShares(
        np.array([[5.0, 5.0], [5.0, 9.0], [9.0, 5.0], [6.0, 4.0]]),
        np.ones((4, 2)),
        np.zeros((4, 2)),
        np.zeros((4, 1)),
    )
    assert shares.clearest_pairs.T.tolist() == [[0, 2], [1, 3]]
    assert shares.select(shares.clearest_pairs).shares.tolist() == [[5.0, 9.0], [9.0, 4.0]]


@pytest.mark.parametrize(
    "p_values", [[], [0.2], [0.01, 0.02, 0.03, 0.5, 0.001], [1.0, 1.0], [0.0, 0.04, 0.9]]
)
def test_discoveries_are_those_of_benjamini_and_hochberg_below_5_percent(p_values):
    values = np.array(p_values)
    q = false_discovery_rates(values, values < 0.05)
    for fdr in (0.01, 0.05, 0.1, 0.3):
        ranked = sorted(p for p in p_values if p < 0.05)
        passing = [k for k, p in enumerate(ranked, start=1) if p <= fdr * k / len(p_values)]
        largest = ranked[max(passing) - 1] if passing else -1.0
        assert (q <= fdr + 1e-12).tolist() == [p <= largest for p in p_values]


def test_the_fit_has_converged(monkeypatch):
    shares = random_shares(7, 500)
    found = misfit(shares, 2.0)
    monkeypatch.setattr(statistics, "FIT_ROUNDS", 200)
    expected = misfit(shares, 2.0)
    matters = expected < 30  # which p-values and ends of intervals depend on
    np.testing.assert_allclose(found[matters], expected[matters], rtol=1e-3, atol=1e-6)


def test_no_ngrams_have_no_intervals():
    empty = NoisyShares(*(np.zeros((2, 0)),) * 4)
    assert ratio_intervals(empty, CRITICAL).ratio.size == 0
    assert false_discovery_rates(np.zeros(0), np.zeros(0, bool)).size == 0
