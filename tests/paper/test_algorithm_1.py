"""Algorithm 1 from end to end."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bayesgram.errors import UsageError
from bayesgram.paper.algorithm_1 import Paper, classical_sigma, paper_bounds, posterior_mean
from bayesgram.paper.sensitivity import Statistics
from bayesgram.privacy.budget import Budget, Guarantee
from helpers import reference_paper
from helpers.recording_noise import record_queries
from helpers.strategies import matrices


@settings(deadline=None)
@given(matrices(users=(1, 5)), st.floats(1e-3, 10), st.floats(0, 1))
def test_the_mean_is_that_of_corollary_1(matrix, slope, rho):
    statistics = Statistics(reference_paper.make_clipped_counts(matrix))
    prior = reference_paper.centred_log(range(matrix.shape[1]))
    found = posterior_mean(statistics, prior, slope=slope, rho=rho)
    expected = (
        rho * reference_paper.weighted_centred_log(matrix, slope, matrix.max(initial=1))
        + (1 - rho) * prior
    )
    assert found == pytest.approx(expected, abs=1e-12)


def test_sigma_is_that_of_corollary_1():
    sigma = classical_sigma(0.3, rho=0.5, budget=Budget(0.1, 1e-6))
    assert sigma == pytest.approx(0.5 * 0.3 * math.sqrt(2 * math.log(1.25e6)) / 0.1)


def test_the_released_logs_are_the_mean_plus_gaussian_noise():
    """Mean and spread of h − μ over 4,000 coordinates; each check fails by chance once in 10⁶ runs."""
    rng = np.random.default_rng(5)
    size = 4000
    matrix = (rng.random((50, size)) < 0.05).astype(np.int64)
    counts, vocabulary = (
        reference_paper.make_user_counts(matrix),
        reference_paper.make_vocabulary(rng.integers(0, 99, size)),
    )
    paper, budget = Paper(max_count=1, max_total=size, slope=0.02, rho=0.5), Budget(1.0, 1e-6)
    theta = paper.release(counts, vocabulary, budget).probabilities
    statistics = Statistics(reference_paper.make_clipped_counts(matrix, max_count=1))
    prior = reference_paper.centred_log(vocabulary.counts)
    sigma = classical_sigma(statistics.exact_gamma(0.02), rho=0.5, budget=budget)
    noise = np.log(theta) - posterior_mean(statistics, prior, slope=0.02, rho=0.5)
    z = (noise - noise.mean()) / sigma
    assert abs(z.std() - 1) < 4.9 / math.sqrt(2 * size)
    assert abs((z**3).mean()) < 4.9 * math.sqrt(15 / size)
    assert abs((z**4).mean() - 3) < 7 * math.sqrt(
        96 / size
    )  # skewed: 5 standard errors are not enough
    assert theta.sum() == pytest.approx(1)


def test_bound_asks_for_more_noise_than_exact():
    matrix = np.array([[1, 1, 0], [1, 0, 0], [0, 1, 1]])
    statistics = Statistics(reference_paper.make_clipped_counts(matrix))
    assert Paper(sensitivity="bound").gamma(statistics) > Paper(sensitivity="exact").gamma(
        statistics
    )


def test_the_card_says_that_epsilon_is_no_guarantee():
    release = Paper().release(
        reference_paper.make_user_counts(np.eye(3, dtype=int)),
        reference_paper.make_vocabulary([1, 2, 3]),
        Budget(1, 1e-6),
    )
    assert release.card.guarantee is Guarantee.EMPIRICAL
    assert release.card.statement.startswith("not a differential-privacy guarantee: ")
    assert "EMPIRICAL" in release.card.claim


@settings(deadline=None)
@given(matrices(users=(1, 5)), st.floats(1e-3, 10), st.floats(0.01, 1))
def test_the_noise_is_that_of_gamma(matrix, slope, rho):
    vocabulary, budget = reference_paper.make_vocabulary(range(matrix.shape[1])), Budget(0.4, 1e-6)
    paper = Paper(max_count=9, max_total=1000, slope=slope, rho=rho)
    [(law, _, scale)], _, _ = record_queries(
        paper, reference_paper.make_user_counts(matrix), vocabulary, budget
    )
    gamma = max(
        reference_paper.removal_shift(matrix, user, slope, 9) for user in range(len(matrix))
    )
    assert law == "real gaussian"
    assert scale == pytest.approx(rho * gamma * math.sqrt(2 * math.log(1.25e6)) / 0.4, abs=1e-5)


def test_extreme_settings_stay_finite():
    counts, vocabulary = (
        reference_paper.make_user_counts(np.eye(3, dtype=int)),
        reference_paper.make_vocabulary([1, 2, 3]),
    )
    theta = Paper(slope=1e-14).release(counts, vocabulary, Budget(100.0, 0.5)).probabilities
    assert theta == pytest.approx(
        np.sqrt([2, 3, 4]) / np.sqrt([2, 3, 4]).sum(), abs=1e-3
    )  # the prior, with ρ = ½


def test_seeded_runs_repeat_and_are_stamped():
    counts, vocabulary = (
        reference_paper.make_user_counts(np.eye(3, dtype=int)),
        reference_paper.make_vocabulary([1, 2, 3]),
    )
    first, second = (Paper().release(counts, vocabulary, Budget(1, 1e-6), seed=4) for _ in range(2))
    assert first.probabilities.tolist() == second.probabilities.tolist()
    assert first.card.seeded
    assert "seeded: not for publication" in str(first.card)
    assert first.card.guarantee is Guarantee.NONE
    unseeded = [
        Paper().release(counts, vocabulary, Budget(1, 1e-6)).probabilities.tolist()
        for _ in range(2)
    ]
    assert unseeded[0] != unseeded[1]


def test_paper_bounds_are_those_of_section_5():
    assert paper_bounds(999_999) == (1, 999)
    assert paper_bounds(1_000_000) == (10, 1000)
    assert paper_bounds(10) == (1, 1)


@pytest.mark.parametrize(
    ("knobs", "message"),
    [
        ({"slope": 0}, "slope=0: S is a number above 0; the paper tries 0.001 to 10000."),
        ({"slope": math.nan}, "slope=nan: S is a number above 0; the paper tries 0.001 to 10000."),
        ({"rho": 1.5}, "rho=1.5: ρ, the trust in private counts, is a number from 0 to 1."),
        ({"sensitivity": "guess"}, "sensitivity='guess': choose one of exact, bound."),
    ],
)
def test_bad_settings(knobs, message):
    with pytest.raises(UsageError) as caught:
        Paper(**knobs)
    assert str(caught.value) == message


def test_without_trust_in_private_counts_public_text_comes_out_and_nothing_else():
    """ρ = 0: no noise is drawn, and two populations that have nothing in common give the same bits."""
    vocabulary, budget = reference_paper.make_vocabulary([50, 20, 3, 0]), Budget(1.0, 1e-6)
    people = [np.array([[9, 0, 0, 0], [1, 1, 0, 0]]), np.array([[0, 0, 0, 7]])]
    asked = [
        record_queries(Paper(rho=0), reference_paper.make_user_counts(matrix), vocabulary, budget)
        for matrix in people
    ]
    assert [requests for requests, *_ in asked] == [[], []]
    one, two = (
        Paper(rho=0).release(reference_paper.make_user_counts(matrix), vocabulary, budget)
        for matrix in people
    )
    assert one.probabilities.tolist() == two.probabilities.tolist()
    assert one.probabilities == pytest.approx((np.array([50, 20, 3, 0]) + 1) / 77)
