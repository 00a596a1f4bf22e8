"""Algorithm 2."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bayesgram.choices import ScoreSensitivity
from bayesgram.errors import UsageError
from bayesgram.mechanisms.base import Randomness
from bayesgram.paper.algorithm_1 import Paper
from bayesgram.paper.algorithm_2 import (
    Grid,
    TunedPaper,
    cross_entropy,
    largest_user_score,
    score_lipschitz,
    scoring_users,
    tune,
)
from bayesgram.privacy.budget import Budget
from bayesgram.private.clipping import user_keys
from helpers import reference_paper
from helpers.recording_noise import record_queries
from helpers.strategies import matrices

counts_and_logits = st.integers(1, 6).flatmap(
    lambda size: st.tuples(
        st.lists(st.integers(0, 50), min_size=size, max_size=size),
        st.lists(st.floats(-5, 5), min_size=size, max_size=size),
        st.lists(st.floats(-1, 1), min_size=size, max_size=size),
    )
)


@given(counts_and_logits)
def test_cross_entropy_is_equation_6(drawn):
    c, mu, _ = drawn
    normaliser = math.log(sum(math.exp(value) for value in mu))
    expected = -sum(count * (value - normaliser) for count, value in zip(c, mu, strict=True))
    assert cross_entropy(np.array(c), np.array(mu)) == pytest.approx(expected, abs=1e-9)


@given(counts_and_logits)
def test_the_corrected_lipschitz_constant_holds(drawn):
    c, mu, step = map(np.array, drawn)
    change = abs(cross_entropy(c, mu + step) - cross_entropy(c, mu))
    assert change <= score_lipschitz(c, ScoreSensitivity.CORRECTED) * np.linalg.norm(step) + 1e-9


@given(matrices(users=(1, 6)))
def test_the_largest_user_score_is_that_of_removing_each_scoring_user(matrix):
    mu = np.linspace(-1, 1, matrix.shape[1])
    whole = cross_entropy(matrix.sum(axis=0), mu)
    changes = [
        abs(whole - cross_entropy(np.delete(matrix, user, axis=0).sum(axis=0), mu))
        for user in range(len(matrix))
    ]
    found = largest_user_score(
        reference_paper.make_clipped_counts(matrix), mu, ScoreSensitivity.CORRECTED
    )
    assert found == pytest.approx(max(changes), abs=1e-9)


def test_the_split_is_a_coin_of_each_user_alone():
    """About 10%: the binomial tail makes this fail by chance once in 10⁶ runs (the key is fixed, so: never)."""
    matrix = np.ones((20_000, 1), np.int64)
    everybody = scoring_users(reference_paper.make_user_counts(matrix), key=3)
    assert abs(everybody.mean() - 0.1) < 4.9 * math.sqrt(0.09 / len(matrix))
    names = [f"u{i}" for i in range(len(matrix)) if i != 5]
    without = scoring_users(
        reference_paper.make_user_counts(np.delete(matrix, 5, axis=0), names), key=3
    )
    assert without.tolist() == np.delete(everybody, 5).tolist()
    assert (
        scoring_users(reference_paper.make_user_counts(matrix), key=4).tolist()
        != everybody.tolist()
    )


def test_tuning_finds_the_better_setting_when_the_gap_is_wide():
    """Private text differs from public: trusting it must win at ε = 100, where the noise is small."""
    matrix = np.tile(np.array([1, 1, 1, 0, 0, 0, 0, 0]), (3000, 1))
    counts, vocabulary = (
        reference_paper.make_user_counts(matrix),
        reference_paper.make_vocabulary([0, 0, 0, 9999, 9999, 9999, 9999, 9999]),
    )
    grid = Grid(slopes=(1.0,), rhos=(0.0, 1.0))
    chosen = tune(
        counts, vocabulary, 100.0, Randomness.from_seed(1), paper=Paper(max_total=10), grid=grid
    )
    assert (chosen.paper.slope, chosen.paper.rho) == (1.0, 1.0)


def slow_scores(matrix, scoring, prior, grid, max_count, kind):
    """q and |Δq| of every setting, from the paper's formulas, on dense matrices."""
    first, second = matrix[scoring], matrix[~scoring]
    c = first.sum(axis=0)
    scores, changes = [], []
    for slope in grid.slopes:
        gamma = max(
            reference_paper.removal_shift(second, user, slope, max_count)
            for user in range(len(second))
        )
        for rho in grid.rhos:
            mu = (
                rho * reference_paper.weighted_centred_log(second, slope, max_count)
                + (1 - rho) * prior
            )
            log_theta = mu - math.log(sum(math.exp(value) for value in mu))
            scores.append(-float((c * log_theta).sum()))
            if kind is ScoreSensitivity.PUBLISHED:
                changes.append(rho * math.sqrt(float((c**2).sum())) * gamma)
            else:
                steepness = math.sqrt(float((c**2).sum() + c.sum() ** 2 - 2 * c.sum() * c.min()))
                own = max(-float((row * log_theta).sum()) for row in first)
                changes.append(max(rho * steepness * gamma, own))
    return scores, max(changes)


@pytest.mark.parametrize("kind", list(ScoreSensitivity))
def test_scores_and_their_noise_are_those_of_algorithm_2(kind):
    """Also errata E3 (2|Δq|/ε), E9 (ε/3 and 2ε/3), E15 (one |Δq| for the whole grid)."""
    rng = np.random.default_rng(3)
    matrix = rng.integers(0, 3, (150, 12))
    counts, vocabulary = (
        reference_paper.make_user_counts(matrix),
        reference_paper.make_vocabulary(rng.integers(0, 99, 12)),
    )
    grid = Grid((0.003, 0.05, 1.0), (0.2, 0.9), kind)
    asked, _, details = record_queries(
        TunedPaper(Paper(max_count=2, max_total=1000), grid), counts, vocabulary, Budget(0.6, 1e-6)
    )
    (_, scores, noise), (_, mean, sigma) = asked
    scoring = scoring_users(counts, key=11)
    prior = reference_paper.centred_log(vocabulary.counts)
    expected, change = slow_scores(matrix, scoring, prior, grid, 2, kind)
    assert scores == pytest.approx(expected)
    assert noise == pytest.approx(2 * change / 0.2)
    best = int(np.argmin(expected))
    slope, rho = [(s, r) for s in grid.slopes for r in grid.rhos][best]
    assert (details["slope"], details["rho"]) == (slope, rho)
    rest = matrix[~scoring]
    assert mean == pytest.approx(
        rho * reference_paper.weighted_centred_log(rest, slope, 2) + (1 - rho) * prior
    )
    gamma = max(reference_paper.removal_shift(rest, user, slope, 2) for user in range(len(rest)))
    assert sigma == pytest.approx(rho * gamma * math.sqrt(2 * math.log(1.25e6)) / 0.4)
    assert 0 < scoring.mean() < 0.3


def test_the_split_is_not_the_subsampling():
    """Two coins from one key: who scores must not depend on the numbers that draw a user's W occurrences."""
    counts = reference_paper.make_user_counts(np.ones((50, 1), np.int64))
    subsampling = user_keys(counts, key=5) < np.uint64(2**64 // 10)
    assert scoring_users(counts, key=5).tolist() != subsampling.tolist()


@pytest.mark.parametrize("kind", list(ScoreSensitivity))
def test_the_whole_of_algorithm_2(kind):
    rng = np.random.default_rng(2)
    matrix = (rng.random((500, 40)) < 0.2).astype(np.int64)
    counts, vocabulary = (
        reference_paper.make_user_counts(matrix),
        reference_paper.make_vocabulary(rng.integers(0, 99, 40)),
    )
    release = TunedPaper(Paper(max_total=40), Grid((0.001, 0.1), (0.1, 0.9), kind)).release(
        counts, vocabulary, Budget(0.3, 1e-6)
    )
    settings = release.card.details
    assert settings["slope"] in {0.001, 0.1}
    assert settings["rho"] in {0.1, 0.9}
    assert settings["epsilon_tuning"] + settings["epsilon_release"] == pytest.approx(0.3)
    assert settings["epsilon_release"] == pytest.approx(0.2)
    assert release.card.epsilon == 0.3
    assert release.probabilities.sum() == pytest.approx(1)


def test_bad_grids():
    with pytest.raises(
        UsageError, match=r"^slopes=\(\): give at least one value to choose from\.$"
    ):
        Grid(slopes=())
    with pytest.raises(
        UsageError, match=r"^rho=2: ρ, the trust in private counts, is a number from 0 to 1\.$"
    ):
        Grid(rhos=(0.5, 2))
    with pytest.raises(
        UsageError, match=r"^score_sensitivity='x': choose one of published, corrected\.$"
    ):
        Grid(score_sensitivity="x")
