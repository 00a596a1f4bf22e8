"""What clipping would cost: from amounts alone, and from the words that people begin with."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bayesgram.inference.design import (
    DRIFT_RATES,
    FIRST_WORD_GROUPS,
    FIRST_WORDS_TRUST,
    NORM_GROUPS,
    NORMS,
    PRIOR_RATE,
    FirstWords,
    NormHistogram,
    assign_first_word_groups,
    choose_clipping,
    estimate_distortion,
    kept_share_by_bin,
)
from bayesgram.inference.noisy_counts import PublicNgrams
from helpers.hypothesis_profiles import examples

POSITIONS = np.log(NORMS)


def trigrams(size=3000, words=300):
    prior = 1 / np.arange(1, size + 1)
    prior /= prior.sum()
    chosen = np.random.default_rng(0).integers(0, words, (size, 3)).astype(np.int32)
    return PublicNgrams(prior, 1e6 * prior, chosen, words, prior[None])


def people(users=1e6, middle=14, width=4.0):
    """Norms in a bell over the bins; whoever has a larger norm has written more."""
    bell = np.exp(-(((np.arange(NORMS.size) - middle) / width) ** 2) / 2)
    number = np.where(bell > 1e-3, users * bell / bell.sum(), 0.0)
    return NormHistogram(number, number * np.maximum(NORMS**1.5, 1.0))


def shares_of(seen, slopes, noise=1e-6):
    """Openings of people whose share of each begins at the same and goes up or down with the logarithm of the norm."""
    middle = float(seen.written @ POSITIONS) / float(seen.written.sum())
    by_bin = (1 + np.outer(POSITIONS - middle, slopes)) / FIRST_WORD_GROUPS
    shares = np.zeros((NORM_GROUPS.max() + 1, FIRST_WORD_GROUPS))
    np.add.at(shares, NORM_GROUPS, seen.users[:, None] * by_bin)
    return FirstWords(shares, noise, NORM_GROUPS)


def found(seen, first_words=None):
    return estimate_distortion(seen, trigrams(), first_words)


def test_openings_are_about_as_frequent_as_one_another_and_a_matter_of_the_first_word():
    public = trigrams()
    first_words = assign_first_word_groups(public)
    rates = np.bincount(first_words, public.prior, FIRST_WORD_GROUPS)
    assert rates == pytest.approx(1 / FIRST_WORD_GROUPS, rel=0.15)
    for word in range(20):
        assert len(set(first_words[public.words[:, 0] == word].tolist())) <= 1


def test_people_who_write_like_one_another_lose_little_and_those_who_do_not_lose_more():
    seen, slopes = people(), np.resize([1.0, -1.0], FIRST_WORD_GROUPS)
    left = kept_share_by_bin(2.0)
    none, some, much = (
        found(seen, shares_of(seen, slope * slopes)).kl(left) for slope in (0.0, 0.05, 0.2)
    )
    assert none < found(seen).kl(left) / 5
    assert 2 * none < some < much / 4


def test_a_known_drift_is_charged_by_its_distance_between_all_text_and_what_is_left():
    """The χ² of first words is computed here from the shares themselves; rates go with it, as far as they are believed."""
    seen, left = people(), np.exp(-POSITIONS)
    found_rates, distances = [], []
    for slope in (0.05, 0.1, 0.2):
        slopes = slope * np.resize([1.0, -1.0], FIRST_WORD_GROUPS)
        means = [
            float(each @ POSITIONS) / float(each.sum())
            for each in (seen.written, seen.written * left)
        ]
        distances.append(float(((means[0] - means[1]) ** 2 * slopes**2).mean()))
        found_rates.append(found(seen, shares_of(seen, slopes)).rate)
    powers = np.diff(np.log(found_rates)) / np.diff(np.log(distances))
    assert powers == pytest.approx(FIRST_WORDS_TRUST, abs=0.1)


def test_what_clipping_costs_goes_with_how_unevenly_text_counts():
    seen = people()
    clipped = found(seen)
    for clip_norm in (0.5, 2.0, 8.0, 32.0):
        kept = np.repeat(
            kept_share_by_bin(clip_norm),
            np.round(1e6 * seen.written / seen.written.sum()).astype(int),
        )
        assert clipped.kl(kept_share_by_bin(clip_norm)) == pytest.approx(
            clipped.rate * kept.var() / kept.mean() ** 2, rel=0.03
        )


def test_where_noise_hides_openings_people_are_as_usual():
    seen = people(users=1000)
    shares = shares_of(seen, np.zeros(FIRST_WORD_GROUPS), noise=1e6)
    for clip_norm in (0.5, 4.0):
        left = kept_share_by_bin(clip_norm)
        assert found(seen, shares).kl(left) == pytest.approx(found(seen).kl(left), rel=0.3)


def test_what_is_usual_is_charged_where_nothing_was_asked():
    seen = people(users=1e9)  # so many that chance moves nothing
    assert found(seen).rate == pytest.approx(PRIOR_RATE, rel=0.15)


@examples(30)
@given(
    st.floats(0.01, 1e4),
    st.floats(1.0, 8.0),
    st.integers(4, 24),
    st.integers(0, 1000),
    st.floats(0.1, 1e6),
)
def test_whatever_was_measured_the_cost_is_a_number_and_nothing_costs_nothing(
    norm, width, middle, seed, noise
):
    seen, chance = people(1e5, middle, width), np.random.default_rng(seed)
    shares = chance.standard_normal((NORM_GROUPS.max() + 1, FIRST_WORD_GROUPS)) * noise
    clipped = found(seen, FirstWords(shares, noise, NORM_GROUPS))
    assert math.isfinite(clipped.kl(kept_share_by_bin(norm)))
    assert clipped.kl(kept_share_by_bin(norm)) >= 0
    assert clipped.kl(np.ones(NORMS.size)) == pytest.approx(0, abs=1e-12)


def test_by_chance_few_people_who_write_half_cost_more_than_many():
    """Manner is the same: what is lost of few stands for much."""
    left = kept_share_by_bin(1.0)
    few, many = people(users=1e3), people(users=1e6)
    alike = [
        found(each, shares_of(each, np.zeros(FIRST_WORD_GROUPS))).kl(left) for each in (few, many)
    ]
    assert alike[0] > 2 * alike[1]


def test_people_who_write_like_one_another_are_clipped_further():
    seen, public, slopes = people(), trigrams(), np.resize([1.0, -1.0], FIRST_WORD_GROUPS)
    alike, unlike = (
        choose_clipping(seen, public, 1.0, shares_of(seen, slope * slopes)) for slope in (0.0, 0.3)
    )
    assert alike.clip_norm < unlike.clip_norm


def test_a_rate_far_beyond_the_usual_is_possible():
    assert DRIFT_RATES[-1] / DRIFT_RATES[0] > 1000
