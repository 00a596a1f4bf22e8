"""Plans: what a release would be worth, from public numbers and assumptions."""

import numpy as np
import pytest

from bayesgram.errors import UsageError
from bayesgram.inference.noisy_counts import PublicNgrams
from bayesgram.planning.simulation import Assumptions, simulate, simulate_private_distribution


def bigrams(size, words=40):
    counts = 1e6 / np.arange(1, size + 1)
    pairs = np.random.default_rng(3).integers(0, words, (size, 2)).astype(np.int32)
    prior = counts / counts.sum()
    return PublicNgrams(prior, counts, pairs, words, prior[None])


def expected(assumed, multiplier=5.0, public=None, seed=1):
    return simulate(public or bigrams(600), assumed, multiplier=multiplier, seed=seed)


def test_more_users_and_less_noise_help():
    few, many = (expected(Assumptions(users, 8.0)) for users in (1e4, 1e6))
    assert many.kl < few.kl < few.public_kl
    assert expected(Assumptions(1e5, 8.0), 4.0).kl < expected(Assumptions(1e5, 8.0), 40.0).kl


def test_where_noise_hides_everything_the_answer_is_public_text():
    hidden = expected(Assumptions(100, 1.0, difference=0.5), 1000.0)
    assert hidden.model == "public"
    assert hidden.kl == pytest.approx(hidden.public_kl)


def test_the_difference_is_what_public_text_lacks():
    public = bigrams(1000)
    same = simulate_private_distribution(public, 0.0, rng=np.random.default_rng(1))
    np.testing.assert_allclose(same, public.prior)
    close, far = (
        expected(Assumptions(1e4, 8.0, difference=much), public=public).public_kl
        for much in (0.5, 2.0)
    )
    assert close < 0.5 < far


def test_heavy_writers_are_clipped():
    even, uneven = (expected(Assumptions(1e6, 8.0, unevenness=much)) for much in (0.0, 2.0))
    assert even.clipped_share in {0.0, 1.0}
    assert 0 < uneven.clipped_share < 1
    assert uneven.clip_norm > 0


def test_unigrams():
    level = np.full(50, 0.02)
    unigrams = PublicNgrams(
        level, 500 * level, np.arange(50, dtype=np.int32)[:, None], 50, level[None]
    )
    alone = simulate(unigrams, Assumptions(1e5, 5.0), multiplier=5.0, seed=1)
    assert alone.kl < alone.public_kl


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"users": 99}, "users=99: give a number from 100 to 1e+10."),
        ({"ngrams_a_user": float("nan")}, "ngrams_a_user=nan: give a number from 0.1 to 1e+06."),
        ({"difference": 5}, "difference=5: give a number from 0 to 4."),
        ({"unevenness": -1}, "unevenness=-1: give a number from 0 to 3."),
    ],
)
def test_assumptions_have_ranges(changed, words):
    with pytest.raises(UsageError) as error:
        Assumptions(**{"users": 1e5, "ngrams_a_user": 8.0, **changed})
    assert str(error.value) == words
