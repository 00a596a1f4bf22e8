"""What clipping would cost: KL over how unevenly text counts after clipping."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bayesgram.inference.design import (
    CLIPPING_RATE,
    CLIPPING_RATE_LONGER,
    NORMS,
    Distortion,
    NormHistogram,
    kept_share_by_bin,
)
from bayesgram.inference.noisy_counts import PublicNgrams
from helpers.hypothesis_profiles import examples


def ngrams(order):
    prior = np.full(30, 1 / 30)
    words = np.arange(30 * order, dtype=np.int32).reshape(30, order)
    return PublicNgrams(prior, 1e3 * prior, words, 30 * order, prior[None])


def people(users=1e6, middle=14, width=4.0):
    """Norms in a bell over the bins; whoever has a larger norm has written more."""
    bell = np.exp(-(((np.arange(NORMS.size) - middle) / width) ** 2) / 2)
    number = np.where(bell > 1e-3, users * bell / bell.sum(), 0.0)
    return NormHistogram(number, number * np.maximum(NORMS**1.5, 1.0))


@pytest.mark.parametrize("order", [1, 2, 3, 5])
def test_what_clipping_costs_goes_with_how_unevenly_text_counts(order):
    seen = people()
    clipped = Distortion.from_histogram(seen, ngrams(order))
    distinct = 30  # all of them: there is a lot of text
    rate = CLIPPING_RATE.get(order, CLIPPING_RATE_LONGER) + 0.5 * distinct / seen.written.sum()
    for clip_norm in (0.5, 2.0, 8.0, 32.0):
        kept = np.repeat(
            kept_share_by_bin(clip_norm),
            np.round(1e6 * seen.written / seen.written.sum()).astype(int),
        )
        assert clipped.kl(kept_share_by_bin(clip_norm)) == pytest.approx(
            rate * kept.var() / kept.mean() ** 2, rel=0.03
        )
        assert clipped.removed_share(kept_share_by_bin(clip_norm)) == pytest.approx(
            1 - kept.mean(), abs=0.01
        )


def test_rare_ngrams_are_moved_by_chance():
    """A list that is long for the text costs more: half of its distinct n-grams, over all."""
    few = people(users=10)
    prior = np.full(5000, 1 / 5000)
    words = np.arange(5000, dtype=np.int32)[:, None]
    long_list = PublicNgrams(prior, 1e3 * prior, words, 5000, prior[None])
    total = float(few.written.sum())
    distinct = 5000 * (1 - np.exp(-total / 5000))
    rate = Distortion.from_histogram(few, long_list).rate
    assert rate == pytest.approx(CLIPPING_RATE[1] + 0.5 * distinct / total)


@examples(30)
@given(st.floats(0.01, 1e4), st.floats(1.0, 8.0), st.integers(4, 24))
def test_the_cost_is_a_number_and_nothing_costs_nothing(norm, width, middle):
    clipped = Distortion.from_histogram(people(1e5, middle, width), ngrams(3))
    assert math.isfinite(clipped.kl(kept_share_by_bin(norm)))
    assert clipped.kl(kept_share_by_bin(norm)) >= 0
    assert clipped.kl(np.ones(NORMS.size)) == pytest.approx(0, abs=1e-12)


def bias_of(users, noise_std, clip_norm=4.0, seed=0):
    """The bias by clipping that a noisy histogram of so many users by bin states."""
    rng = np.random.default_rng(seed)
    largest = np.maximum(NORMS**1.5, 1.0)
    noisy = users + noise_std * rng.standard_normal(users.size)
    parts = 0.5 * users + noise_std * rng.standard_normal(users.size)
    return NormHistogram.from_noisy(noisy, parts, largest, noise_std).describe_clipping(clip_norm)


def test_users_whom_noise_hides_make_the_stated_bias_larger():
    """A few who write a lot, as in a power law, against people who are all alike."""
    bins = np.arange(NORMS.size)
    alike = 20_000 * np.exp(-0.5 * ((bins - 9) / 1.5) ** 2)
    few_write_most = np.where(bins < 9, alike, 20_000 * 0.6 ** (bins - 9.0))
    for seed in range(5):
        even = bias_of(alike, 30.0, seed=seed)
        uneven = bias_of(few_write_most, 30.0, seed=seed)
        assert uneven.bias_rel_std > 2 * even.bias_rel_std
        assert uneven.unevenness > even.unevenness


def test_where_noise_hides_everybody_the_bias_is_as_unknown_as_before():
    users = np.zeros(NORMS.size)
    users[8:10] = 1e5
    assert bias_of(users, 10.0).bias_rel_std >= 0.25
