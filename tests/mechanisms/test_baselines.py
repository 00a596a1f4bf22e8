"""Laplace, Laplace with public text, Gaussian, k-anonymity."""

import math

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bayesgram.errors import UsageError
from bayesgram.mechanisms.base import Randomness
from bayesgram.mechanisms.gaussian import Gaussian
from bayesgram.mechanisms.laplace import (
    Laplace,
    LaplacePublic,
    differences_to_public,
    fixed_point_one,
)
from bayesgram.paper.algorithm_1 import Paper
from bayesgram.paper.k_anonymity import KAnonymity
from bayesgram.privacy.budget import Budget, Guarantee
from bayesgram.privacy.calibration import calibrate_gaussian
from bayesgram.private.clipping import UNITS
from bayesgram.private.counts import UserCounts
from helpers import reference_paper
from helpers.recording_noise import record_queries
from helpers.strategies import matrices


def without(matrix, user):
    names = [f"u{i}" for i in range(len(matrix)) if i != user]
    return reference_paper.make_user_counts(np.delete(matrix, user, axis=0), names)


@settings(deadline=None)
@given(matrices(users=(1, 5), largest=9), st.integers(1, 12))
def test_one_user_moves_the_laplace_counts_by_at_most_w(matrix, max_total):
    vocabulary = reference_paper.make_vocabulary(np.ones(matrix.shape[1]))
    [(law, whole, scale)], _, _ = record_queries(
        Laplace(max_total), reference_paper.make_user_counts(matrix), vocabulary, Budget(0.3)
    )
    assert (law, scale) == ("laplace", pytest.approx(max_total / 0.3))
    assert scale >= max_total / 0.3
    for user in range(len(matrix)):
        [(_, less, same)], _, _ = record_queries(
            Laplace(max_total), without(matrix, user), vocabulary, Budget(0.3)
        )
        assert same == scale
        assert np.abs(whole - less).sum() <= max_total


@settings(deadline=None)
@given(matrices(users=(1, 5), largest=9), st.integers(1, 12), st.integers(0, 10**6))
def test_one_user_moves_the_public_differences_by_at_most_their_sensitivity(matrix, max_total, top):
    vocabulary = reference_paper.make_vocabulary([top, *range(matrix.shape[1] - 1)])
    mechanism = LaplacePublic(max_total)
    [(law, whole, scale)], _, _ = record_queries(
        mechanism, reference_paper.make_user_counts(matrix), vocabulary, Budget(0.3)
    )
    assert law == "laplace"
    for user in range(len(matrix)):
        [(_, less, same)], _, _ = record_queries(
            mechanism, without(matrix, user), vocabulary, Budget(0.3)
        )
        assert same == scale
        assert np.abs(whole - less).sum() <= scale * 0.3
    assert scale * 0.3 == pytest.approx(
        3 * max_total * fixed_point_one(max_total), rel=0.34
    )  # Σa is 0 or about B


@settings(deadline=None)
@given(matrices(users=(1, 5), largest=50), st.floats(0.5, 20))
def test_one_user_moves_the_gaussian_sum_by_at_most_its_units(matrix, clip_norm):
    vocabulary, budget = (
        reference_paper.make_vocabulary(np.ones(matrix.shape[1])),
        Budget(0.3, 1e-6),
    )
    [(law, whole, scale)], _, details = record_queries(
        Gaussian(clip_norm), reference_paper.make_user_counts(matrix), vocabulary, budget
    )
    noise = calibrate_gaussian(budget, coordinates=matrix.shape[1], units=UNITS)
    assert (law, scale) == ("gaussian", noise.multiplier * UNITS)
    assert (details["noise_multiplier"], details["epsilon_slack"]) == (
        noise.multiplier,
        noise.slack,
    )
    for user in range(len(matrix)):
        [(_, less, same)], _, _ = record_queries(
            Gaussian(clip_norm), without(matrix, user), vocabulary, budget
        )
        assert same == scale
        assert sum(int(k) ** 2 for k in whole - less) <= UNITS**2


@pytest.mark.parametrize("max_total", [1, 10, 978, 1_000_000])
def test_laplace_public_stays_within_64_bits_for_two_billion_users(max_total):
    one = fixed_point_one(max_total)
    total = max_total * 2**31
    assert total * one <= 2**62
    assert one >= 2**11
    extreme = differences_to_public(np.array([total, 0]), np.array([0, one]), one)
    assert extreme.tolist() == [total * one, -total * one, total * one]


def test_laplace_public_without_noise_gives_the_counts_back():
    matrix = np.array([[5, 3, 2, 0], [1, 0, 0, 0]])
    vocabulary = reference_paper.make_vocabulary([10**9, 1, 0, 12345])
    _, theta, _ = record_queries(
        LaplacePublic(20), reference_paper.make_user_counts(matrix), vocabulary, Budget(1.0)
    )
    assert theta == pytest.approx(np.array([6, 3, 2, 1]) / 12)  # the last one is a 0 set to 1


def test_the_run_key_is_fresh_every_time():
    assert len({Randomness.from_seed(None).key for _ in range(5)}) == 5


@pytest.mark.parametrize("value", [1.9, 2.0, True, "3", 0, -1, 10**7, None])
def test_bounds_must_be_whole_numbers(value):
    for make in (Laplace, LaplacePublic, lambda w: Paper(max_total=w)):
        with pytest.raises(UsageError) as caught:
            make(value)
        assert str(caught.value) == (
            f"max_total={value}: W, the most occurrences from a user, is a whole number from 1 to 1,000,000."
        )
    assert Laplace(np.int64(7)).settings() == {"max_total": 7}
    assert type(Laplace(np.int64(7)).max_total) is int


def test_laplace_noise_has_scale_w_over_epsilon():
    """The mean of |noise| over 4,000 n-grams is W/ε within 5 standard errors: wrong once in 10⁶ runs."""
    size, users_each, max_total, epsilon = 4000, 1000, 5, 0.5
    users = size * users_each // max_total
    names = pa.array([f"u{i}".encode() for i in range(users)], pa.large_binary())
    starts = np.arange(users + 1, dtype=np.int64) * max_total
    ngrams = (np.arange(users * max_total) % size).astype(np.int32)
    counts = UserCounts(names, starts, ngrams, np.ones(ngrams.size, np.int32), size, None)
    theta = (
        Laplace(max_total)
        .release(counts, reference_paper.make_vocabulary(np.ones(size)), Budget(epsilon))
        .probabilities
    )
    noise = (theta * size - 1) * users_each
    scale = max_total / epsilon
    assert abs(np.abs(noise).mean() - scale) < 5 * scale / math.sqrt(size)


def test_laplace_public_recovers_the_counts_when_noise_is_small():
    matrix = np.tile(np.array([3, 2, 1, 0]), (20_000, 1))
    counts, vocabulary = (
        reference_paper.make_user_counts(matrix),
        reference_paper.make_vocabulary([10, 20, 30, 40]),
    )
    for mechanism in (Laplace(6), LaplacePublic(6)):
        theta = mechanism.release(counts, vocabulary, Budget(100.0)).probabilities
        assert theta == pytest.approx([1 / 2, 1 / 3, 1 / 6, 0], abs=1e-3)


def test_gaussian_recovers_the_counts_when_noise_is_small():
    matrix = np.tile(np.array([3, 2, 1, 0]), (20_000, 1))
    counts, vocabulary = (
        reference_paper.make_user_counts(matrix),
        reference_paper.make_vocabulary([10, 20, 30, 40]),
    )
    theta = Gaussian(clip_norm=10.0).release(counts, vocabulary, Budget(100.0, 1e-6)).probabilities
    assert theta == pytest.approx([1 / 2, 1 / 3, 1 / 6, 0], abs=1e-3)


@pytest.mark.parametrize("mechanism", [Laplace(), LaplacePublic(), Gaussian()])
def test_proved_mechanisms_say_so_unless_seeded(mechanism):
    counts, vocabulary = (
        reference_paper.make_user_counts(np.eye(3, dtype=int)),
        reference_paper.make_vocabulary([1, 2, 3]),
    )
    assert mechanism.release(counts, vocabulary, Budget(1, 1e-6)).card.guarantee is Guarantee.PROVED
    seeded = mechanism.release(counts, vocabulary, Budget(1, 1e-6), seed=1).card
    assert seeded.guarantee is Guarantee.NONE
    assert seeded.statement == "seeded: not for publication (otherwise, this mechanism is PROVED)"


def test_laplace_spends_no_delta():
    counts, vocabulary = (
        reference_paper.make_user_counts(np.eye(3, dtype=int)),
        reference_paper.make_vocabulary([1, 2, 3]),
    )
    assert Laplace().release(counts, vocabulary, Budget(1, 1e-6)).card.delta == 0


def test_k_anonymity_add_one():
    matrix = np.array([[5, 1, 0], [5, 0, 0], [1, 0, 0]])
    assert KAnonymity(3).release(
        reference_paper.make_user_counts(matrix), reference_paper.make_vocabulary([1, 1, 1])
    ).probabilities == pytest.approx(np.array([12, 1, 1]) / 14)  # exactly K users are enough
    release = KAnonymity(2).release(
        reference_paper.make_user_counts(matrix), reference_paper.make_vocabulary([1, 1, 1])
    )
    assert release.probabilities == pytest.approx(np.array([12, 1, 1]) / 14)
    assert release.card.guarantee is Guarantee.NONE
    assert release.card.epsilon is None


def test_k_anonymity_public():
    matrix = np.array([[5, 1, 0], [5, 0, 0], [1, 0, 0]])
    release = KAnonymity(2, "public").release(
        reference_paper.make_user_counts(matrix), reference_paper.make_vocabulary([7, 1, 3])
    )
    hidden = 1 + 1  # one suppressed occurrence, and one so that nothing is ruled out
    assert release.probabilities == pytest.approx(
        np.array([11, hidden / 3, hidden * 2 / 3]) / (11 + hidden)
    )


@given(matrices(users=(1, 6)), st.integers(1, 4), st.sampled_from(["add-one", "public"]))
def test_k_anonymity_is_a_distribution_that_rules_nothing_out(matrix, k, suppressed):
    theta = (
        KAnonymity(k, suppressed)
        .release(
            reference_paper.make_user_counts(matrix),
            reference_paper.make_vocabulary(range(matrix.shape[1])),
        )
        .probabilities
    )
    assert theta.sum() == pytest.approx(1)
    assert (theta > 0).all()


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (
            lambda: KAnonymity(0),
            "k=0: K, the fewest users of an n-gram, is a whole number from 1 to 1,000,000,000.",
        ),
        (
            lambda: KAnonymity(1.5),
            "k=1.5: K, the fewest users of an n-gram, is a whole number from 1 to 1,000,000,000.",
        ),
        (lambda: KAnonymity(5, "away"), "suppressed='away': choose one of add-one, public."),
        (
            lambda: Gaussian(0.0),
            "clip_norm=0.0: give a public number from 1e-6 to 1e9; 4 is usual, and posterior chooses one if it is left out.",
        ),
        (
            lambda: Gaussian(math.inf),
            "clip_norm=inf: give a public number from 1e-6 to 1e9; 4 is usual, and posterior chooses one if it is left out.",
        ),
    ],
)
def test_bad_settings(make, message):
    with pytest.raises(UsageError) as caught:
        make()
    assert str(caught.value) == message


def test_k_anonymity_takes_no_budget():
    with pytest.raises(
        UsageError,
        match=r"^epsilon=1\.0: k-anonymity adds no noise and can't use it; leave it out\.$",
    ):
        KAnonymity().check_budget(Budget(1.0))


@pytest.mark.parametrize("mechanism", [Gaussian(), Paper()])
def test_a_delta_of_zero_is_refused(mechanism):
    with pytest.raises(UsageError) as caught:
        mechanism.check_budget(Budget(1.0))
    assert str(caught.value) == f"delta=0: {mechanism.name} needs a delta above 0; 1e-7 is usual."


def test_a_missing_budget_is_named():
    counts, vocabulary = (
        reference_paper.make_user_counts(np.eye(2, dtype=int)),
        reference_paper.make_vocabulary([1, 2]),
    )
    with pytest.raises(
        UsageError,
        match=r"^`epsilon` is missing: gaussian needs a budget; 0\.1 is strong, 1 is usual\.$",
    ):
        Gaussian().release(counts, vocabulary)


def test_counts_of_another_vocabulary_are_refused():
    counts = reference_paper.make_user_counts(np.eye(2, dtype=int), fingerprint="abcdef0123456789")
    vocabulary = reference_paper.make_vocabulary([1, 2])
    with pytest.raises(
        UsageError,
        match=r"^the counts belong to the vocabulary abcdef012345… of 2 n-grams, and this one is ",
    ):
        Laplace().release(counts, vocabulary, Budget(1))
