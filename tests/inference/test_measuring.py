"""How counts are to be measured, from noisy amounts and public text alone."""

import json
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bayesgram.inference.design import (
    CLIP_NORMS,
    CLIPPED_MASS_SHARE,
    DIFFERENCE_VAR,
    NORM_EDGES,
    NORMS,
    ClippingPlan,
    NoiseCost,
    NormHistogram,
    TypicalUser,
    choose_clipping,
    kept_share_by_bin,
    max_amounts,
    noise_shape,
    order_shapes,
)
from bayesgram.inference.model import refine_total
from bayesgram.inference.noisy_counts import Clipping, NoisyCounts, PublicNgrams, WithheldShare
from helpers.hypothesis_profiles import examples


def trigrams(size=3000, words=300, seed=0):
    chance = np.random.default_rng(seed)
    prior = 1 / np.arange(1, size + 1)
    prior /= prior.sum()
    return PublicNgrams(
        prior,
        1e6 * prior,
        chance.integers(0, words, (size, 3)).astype(np.int32),
        words,
        prior[None],
    )


def typical(public):
    rates = [public.prior, public.per_word(public.prior)]
    return TypicalUser.from_rates(rates, order_shapes(public))


def people(norm_histogram_sum, users, public):
    """Amounts, without noise, of so many users who write that much each."""
    places = np.searchsorted(
        NORM_EDGES, typical(public).norm(np.array(norm_histogram_sum)), side="right"
    )
    number, written = np.zeros(NORMS.size), np.zeros(NORMS.size)
    for place, amount, count in zip(places, norm_histogram_sum, users, strict=True):
        number[place] += count
        written[place] += count * amount
    return NormHistogram(number, written)


@given(st.floats(1.0, 1e6), st.floats(1e-3, 1e3), st.floats(0.0, 1.0))
def test_amount_and_norm_are_each_other_s_inverse(amount, once, again):
    someone = TypicalUser(once, again)
    assert float(someone.amount(someone.norm(np.array(amount)))) == pytest.approx(amount)


def test_the_norm_of_made_up_people_is_what_is_typical():
    public = trigrams()
    scales = order_shapes(public)
    chance = np.random.default_rng(1)
    counts = chance.poisson(40 * public.prior, (2000, public.prior.size))
    words = np.array([public.per_word(row.astype(float)) for row in counts])
    norms = np.sqrt(
        ((counts / scales[0]) ** 2).sum(axis=1) + ((words / scales[1]) ** 2).sum(axis=1)
    )
    assert np.sqrt((norms**2).mean()) == pytest.approx(
        float(typical(public).norm(np.array(40.0))), rel=0.05
    )


def test_bins_of_noise_are_empty_and_amounts_are_those_measured_or_usual():
    largest = max_amounts(trigrams(), order_shapes(trigrams())[0])
    users, parts = np.zeros(NORMS.size), np.zeros(NORMS.size)
    users[10], parts[10] = 1e6, 3e5  # well known
    users[12], parts[12] = 29.0, 29.0  # noise, at 10 a bin
    users[14], parts[14] = 46.0, -500.0  # hardly known
    users[18], parts[18] = 44.0, 44.0  # may be noise, as there is nobody beside them
    users[11], parts[11] = 31.0, 10.0  # beside others
    norm_histogram = NormHistogram.from_noisy(users, parts, largest, 10.0)
    expected = [1e6, 31.0, 0.0, 46.0, 0.0]
    assert norm_histogram.users[[10, 11, 12, 14, 18]] == pytest.approx(expected, abs=1e-3)
    assert norm_histogram.written[10] == pytest.approx(3e5 * largest[10], rel=1e-3)
    assert norm_histogram.written[12] == 0
    assert 0 < norm_histogram.written[14] < 0.4 * 46 * largest[14]


@pytest.mark.parametrize("sigma", [0.5, 5.0, 50.0])
def test_the_choice_is_the_best_of_all_by_its_own_costs(sigma):
    public = trigrams()
    norm_histogram = people([3.0, 30.0, 3000.0], [1e5, 1e4, 100.0], public)
    found = choose_clipping(norm_histogram, public, sigma)
    assert found.clip_norm in CLIP_NORMS
    assert found.heavy_user_norm >= found.clip_norm
    assert found.clipped_mass_share in (0.0, CLIPPED_MASS_SHARE)
    assert found.histogram is norm_histogram
    more_noise = choose_clipping(norm_histogram, public, 30 * sigma)
    assert more_noise.clip_norm <= found.clip_norm


def test_nobody_is_measured_plainly():
    assert choose_clipping(
        NormHistogram(np.zeros(NORMS.size), np.zeros(NORMS.size)), trigrams(), 5.0
    ) == ClippingPlan.fixed(1.0)


def test_where_everybody_writes_alike_little_is_gained_by_a_small_norm():
    """All people have one norm: whatever Λ is below it, signal over noise is the same, and less clipping costs less."""
    public = trigrams()
    norm_histogram = people([50.0], [1e5], public)
    norm = NORMS[np.flatnonzero(norm_histogram.users)[0]]
    assert choose_clipping(norm_histogram, public, 5.0).clip_norm >= norm / 2


def test_noise_costs_less_the_more_signal_there_is():
    costs = [
        NoiseCost.from_public(trigrams()).kl(1.0, signal) for signal in (0.0, 1.0, 1e3, 1e5, 1e7)
    ]
    assert costs == sorted(costs, reverse=True)
    assert costs[0] <= DIFFERENCE_VAR / 2 + 1e-9
    assert costs[-1] < 0.01


@pytest.mark.parametrize(("noise", "total"), [(1.0, 1e3), (10.0, 1e5), (0.5, 1e6)])
def test_the_cost_of_noise_is_that_of_made_up_people_who_are_believed_as_far_as_is_best(
    noise, total
):
    """E ½ Σ θ (d̂ − d)² where d is normal and d̂ its best linear estimate from d + noise, by drawing all of them."""
    public, rng = trigrams(), np.random.default_rng(2)
    costs = []
    for _ in range(200):
        drawn = np.sqrt(DIFFERENCE_VAR) * rng.standard_normal(public.prior.size)
        theta = public.prior * np.exp(drawn - DIFFERENCE_VAR / 2)
        variance = (noise_shape(public.prior) * noise / (theta * total)) ** 2
        norm_histogram = drawn + np.sqrt(variance) * rng.standard_normal(drawn.size)
        costs.append(
            float(
                (
                    theta
                    * (DIFFERENCE_VAR / (DIFFERENCE_VAR + variance) * norm_histogram - drawn) ** 2
                ).sum()
            )
            / 2
        )
    expected = NoiseCost.from_public(public).kl(noise, total)
    assert np.mean(costs) == pytest.approx(expected, rel=0.15)


@examples(20)
@given(st.integers(0, 1000), st.floats(0.3, 8.0))
def test_clipping_leaves_of_single_n_grams_what_their_scale_says(seed, clip_norm):
    """Everybody writes one n-gram: min(1, Λs) is left of it, exactly."""
    scale = np.random.default_rng(seed).uniform(0.1, 3, 20)
    users = np.zeros(NORMS.size)
    users[8] = 100.0
    left = NormHistogram(users, users).kept_share_by_rarity(clip_norm, scale)
    assert left == pytest.approx(np.minimum(1, clip_norm * scale))


def test_clipping_of_long_texts_hardly_depends_on_one_n_gram():
    users = np.zeros(NORMS.size)
    users[18] = 100.0
    left = NormHistogram(users, 1000 * users).kept_share_by_rarity(4.0, np.array([0.1, 1.0, 10.0]))
    assert left == pytest.approx(4 / NORMS[18], rel=0.05)


def test_what_clipping_does_to_all_is_a_mean_and_its_unevenness():
    users = np.zeros(NORMS.size)
    users[6], users[16] = 10.0, 30.0
    clip_norm = float(NORMS[6])
    found = NormHistogram(users, users).describe_clipping(clip_norm)
    parts = np.repeat(kept_share_by_bin(clip_norm)[[6, 16]], [10, 30])
    assert found.lost == pytest.approx(1 - parts.mean())
    assert found.unevenness == pytest.approx((parts.std() / parts.mean()) ** 2)


@examples(30)
@given(st.floats(0.01, 1e4))
def test_clipping_leaves_of_a_bin_what_it_leaves_of_users_spread_over_it(clip_norm):
    """Against the mean over many users of norms even in log; a bin is half an octave around its middle."""
    spread = 2.0 ** ((np.arange(20_000) + 0.5) / 40_000 - 0.25)
    expected = [np.minimum(1, clip_norm / (middle * spread)).mean() for middle in NORMS]
    assert kept_share_by_bin(clip_norm) == pytest.approx(expected, rel=1e-6)


def test_shapes_spend_the_same_whatever_the_prior_and_stay_within_bounds():
    prior = np.array([0.999, 1e-3 - 1e-12, 1e-12])
    shape = noise_shape(prior)
    assert (shape**2 * prior).sum() == pytest.approx(1)
    assert shape[0] / shape[2] < 5  # what public text hardly has makes nobody's text long


def test_the_longest_total_has_the_weight_that_its_amount_asks_for():
    users = np.zeros(NORMS.size)
    users[12] = 1000.0
    norm_histogram = NormHistogram(users, 3 * users)
    heavy_user_norm = float(NORMS[12])
    someone = TypicalUser(1.0, 0.0)
    plain = ClippingPlan(1.0, heavy_user_norm)
    known = ClippingPlan(1.0, heavy_user_norm, histogram=norm_histogram)
    assert plain.total_shape(someone) == pytest.approx(heavy_user_norm / 0.1)
    assert known.total_shape(someone) == pytest.approx(3 / (0.1 * heavy_user_norm))


def test_a_total_that_noise_hides_is_taken_from_the_counts():
    chance = np.random.default_rng(2)
    prior = trigrams().prior
    noise = np.full(prior.size, 3.0)
    counts = 1e4 * prior + noise * chance.standard_normal(prior.size)
    hidden = refine_total(NoisyCounts(counts, noise, -5e4, 1e5), prior)
    assert hidden.total == pytest.approx(1e4, rel=0.2)
    assert hidden.total_noise < 1e4
    known = refine_total(NoisyCounts(counts, noise, 1.3e4, 10.0), prior)
    assert known.total == pytest.approx(1.3e4, rel=0.01)
    assert known.total_noise <= 10.0
    assert math.isfinite(refine_total(NoisyCounts(0 * counts, noise, 0.0, 1.0), prior).total)


def test_the_tail_that_noise_hides_is_extrapolated():
    """Log-normal norms, noise of 100 users a bin: the few who write most are about as many as there are."""
    public = trigrams()
    largest = max_amounts(public, order_shapes(public)[0])
    bins = np.arange(NORMS.size)
    noise_std = 100.0
    for seed in range(5):
        chance = np.random.default_rng(seed)
        users = 20_000 * np.exp(-0.5 * ((bins - 9) / 2.5) ** 2)
        noisy = users + noise_std * chance.standard_normal(bins.size)
        parts = 0.4 * users + 75 * chance.standard_normal(bins.size)
        histogram = NormHistogram.from_noisy(noisy, parts, largest, noise_std)
        hidden = histogram.users == 0
        expected = float((0.4 * users * largest)[hidden].sum())
        tail = histogram.tail_weights @ histogram.tails
        assert histogram.tail_weights.sum() == pytest.approx(1)
        assert 0.3 < tail.sum() / expected < 6
        assert not tail[~hidden].any()
        before = NormHistogram(histogram.users, histogram.written).describe_clipping(4.0)
        assert histogram.describe_clipping(4.0).unevenness > before.unevenness


def test_few_bins_above_the_noise_have_no_tail():
    public = trigrams()
    largest = max_amounts(public, order_shapes(public)[0])
    users = np.zeros(NORMS.size)
    users[8:10] = 1e5
    histogram = NormHistogram.from_noisy(users, 0.4 * users, largest, 10.0)
    assert not histogram.tails.any()


# --- What allowances leave out ---


def withheld(numbers, noise, rng=None, total=1e5):
    """What is stated of noisy numbers: by class what was left out, and then what was not."""
    numbers, noise = np.array(numbers, float), np.array(noise, float)
    kept = NoisyCounts(np.zeros(1), np.ones(1), total, noise[-1])
    if rng is not None:
        numbers = numbers + noise * rng.standard_normal(numbers.size)
    return WithheldShare.from_noisy(numbers, noise, kept)


def test_a_share_that_is_left_out_is_stated_only_where_noise_is_small():
    left_out = [100, 0, 0, 0, 9000]
    kept = [9000, 5, 0, 0, 9000]
    stated = withheld(left_out + kept, [100] * 10, total=18005)
    seldom, *others, often = stated.by_activity
    assert stated.share == pytest.approx(9100 / (9100 + 18005))
    assert often.share == pytest.approx(0.5)
    assert often.std == pytest.approx(100 * math.hypot(0.5, 0.5) / 18000)
    assert seldom.share == pytest.approx(100 / 9100)
    assert all(math.isinf(each.std) and each.share == 0 for each in others)
    text = [each.text for each in stated.by_activity]
    assert sum(text) == pytest.approx(1)
    assert often.text == pytest.approx(18000 / 27105)
    assert stated.to_json()["by_activity"][1]["std"] is None
    assert json.loads(json.dumps(stated.to_json())) == stated.to_json()


@pytest.mark.parametrize("size", [0.5, 1, 2, 3, 5, 10, 40])
def test_what_is_stated_of_noisy_shares_is_right_wherever_it_is_stated(size):
    """Nobody is limited. Where a share is stated, two deviations cover the truth, 0.

    Chosen by the share itself, the stated ones would be those that noise made large. A normal
    variable is beyond 4 deviations once in 16,000; of 2,000 × 6 at most 15 may be, which fails by
    chance once in 10⁹. The seed is fixed.
    """
    rng = np.random.default_rng(7)
    noise = np.array([300.0] * 5 + [200.0] * 5)
    kept = size * 300.0 * np.array([10.0, 0, 0, 0, 3])
    beyond_two = beyond_four = count = 0
    for _ in range(2000):
        stated = withheld([*np.zeros(5), *kept], noise, rng, total=float(kept.sum()))
        for each in (stated, *stated.by_activity):
            if math.isfinite(each.std):
                count += 1
                beyond_two += abs(each.share) > 2 * each.std
                beyond_four += abs(each.share) > 4 * each.std
    assert beyond_two <= 0.07 * count + 5
    assert beyond_four <= 15
    assert count > 1000 or size < 2


def test_where_noise_hides_what_is_left_out_deviations_assume_some():
    hidden = WithheldShare(0.0, math.inf)
    noisy = NoisyCounts(np.zeros(1), np.ones(1), 10.0, 1.0, clipping=Clipping(0.1, 0.2, 0.05))
    clipping = hidden.annotate(noisy).clipping
    assert clipping.bias_rel_std > 0.1
    assert clipping.lost == 0.1
    known = WithheldShare(0.1, 0.01).annotate(noisy).clipping
    assert known.bias_rel_std < 0.055
