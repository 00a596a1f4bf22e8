"""Algorithm 2."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import reference
from bayesgram.errors import UsageError
from bayesgram.mechanisms.base import Randomness
from bayesgram.mechanisms.choices import ScoreSensitivity
from bayesgram.mechanisms.paper import Paper
from bayesgram.mechanisms.tuning import (
    Grid,
    TunedPaper,
    cross_entropy,
    held_out,
    largest_user_score,
    lipschitz,
    tune,
)
from bayesgram.privacy.budget import Budget
from strategies import matrices

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
    assert change <= lipschitz(c, ScoreSensitivity.CORRECTED) * np.linalg.norm(step) + 1e-9


@given(matrices(users=(1, 6)))
def test_the_largest_user_score_is_that_of_removing_each_scoring_user(matrix):
    mu = np.linspace(-1, 1, matrix.shape[1])
    whole = cross_entropy(matrix.sum(axis=0), mu)
    changes = [
        abs(whole - cross_entropy(np.delete(matrix, user, axis=0).sum(axis=0), mu)) for user in range(len(matrix))
    ]
    found = largest_user_score(reference.clipped(matrix), mu, ScoreSensitivity.CORRECTED)
    assert found == pytest.approx(max(changes), abs=1e-9)


def test_the_split_is_a_coin_of_each_user_alone():
    """About 10%: the binomial tail makes this fail by chance once in 10⁶ runs (the key is fixed, so: never)."""
    matrix = np.ones((20_000, 1), np.int64)
    everybody = held_out(reference.user_counts(matrix), key=3)
    assert abs(everybody.mean() - 0.1) < 4.9 * math.sqrt(0.09 / len(matrix))
    names = [f"u{i}" for i in range(len(matrix)) if i != 5]
    without = held_out(reference.user_counts(np.delete(matrix, 5, axis=0), names), key=3)
    assert without.tolist() == np.delete(everybody, 5).tolist()
    assert held_out(reference.user_counts(matrix), key=4).tolist() != everybody.tolist()


def test_tuning_finds_the_better_setting_when_the_gap_is_wide():
    """Private text differs from public: trusting it must win at ε = 100, where the noise is small."""
    matrix = np.tile(np.array([1, 1, 1, 0, 0, 0, 0, 0]), (3000, 1))
    counts, vocabulary = reference.user_counts(matrix), reference.vocabulary([0, 0, 0, 9999, 9999, 9999, 9999, 9999])
    grid = Grid(slopes=(1.0,), rhos=(0.0, 1.0))
    chosen = tune(counts, vocabulary, 100.0, Randomness.make(1), paper=Paper(max_total=10), grid=grid)
    assert (chosen.paper.slope, chosen.paper.rho) == (1.0, 1.0)


@pytest.mark.parametrize("kind", list(ScoreSensitivity))
def test_the_whole_of_algorithm_2(kind):
    rng = np.random.default_rng(2)
    matrix = (rng.random((500, 40)) < 0.2).astype(np.int64)
    counts, vocabulary = reference.user_counts(matrix), reference.vocabulary(rng.integers(0, 99, 40))
    release = TunedPaper(Paper(max_total=40), Grid((0.001, 0.1), (0.1, 0.9), kind)).release(
        counts, vocabulary, Budget(0.3, 1e-6)
    )
    settings = release.card.settings
    assert settings["slope"] in {0.001, 0.1}
    assert settings["rho"] in {0.1, 0.9}
    assert settings["epsilon_tuning"] + settings["epsilon_release"] == pytest.approx(0.3)
    assert settings["epsilon_release"] == pytest.approx(0.2)
    assert release.card.epsilon == 0.3
    assert release.probabilities.sum() == pytest.approx(1)


def test_bad_grids():
    with pytest.raises(UsageError, match=r"^slopes=\(\): give at least one value to choose from\.$"):
        Grid(slopes=())
    with pytest.raises(UsageError, match=r"^score_sensitivity='x': choose one of published, corrected\.$"):
        Grid(score_sensitivity="x")
