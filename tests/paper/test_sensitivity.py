"""γ, against deleting each user for real; Claim 1 repaired, against γ."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bayesgram.errors import UsageError
from bayesgram.paper.sensitivity import Statistics, weights
from bayesgram.private.clipping import clip
from helpers import reference_paper
from helpers.hypothesis_profiles import examples
from helpers.remote_counts import ChunkedCounts
from helpers.strategies import matrices

slopes = st.one_of(st.floats(1e-4, 1e4), st.sampled_from([0.001, 0.25, 0.5, 1.0, 2.0, 10.0]))


@examples(300)
@given(matrices(), slopes)
def test_user_shifts_are_those_of_deleting_each_user(matrix, slope):
    max_count = int(matrix.max(initial=1))
    found = Statistics(reference_paper.make_clipped_counts(matrix)).user_shifts(slope)
    expected = [
        reference_paper.removal_shift(matrix, user, slope, max_count) for user in range(len(matrix))
    ]
    assert found == pytest.approx(expected, rel=1e-9, abs=1e-7)


@examples(300)
@given(matrices(users=(1, 6)), slopes)
def test_the_repaired_bound_is_never_below_gamma(matrix, slope):
    statistics = Statistics(reference_paper.make_clipped_counts(matrix))
    assert (
        statistics.bounded_gamma(slope) >= statistics.exact_gamma(slope) - 1e-7
    )  # √ of rounding errors


@given(matrices(users=(1, 4)), st.floats(1e-3, 10))
def test_weights_follow_equation_5(matrix, slope):
    users = (matrix > 0).sum(axis=0)
    expected = [reference_paper.weight(n, slope, 3) for n in users]
    assert weights(users, slope=slope, max_count=3).tolist() == pytest.approx(expected)


def test_gamma_of_nobody_is_zero():
    assert (
        Statistics(reference_paper.make_clipped_counts(np.zeros((0, 3), np.int64))).exact_gamma(1.0)
        == 0
    )


def test_many_users_are_shared_among_threads():
    rng = np.random.default_rng(1)
    matrix = rng.poisson(0.3, (400, 30)).clip(max=3)
    found = Statistics(reference_paper.make_clipped_counts(matrix, max_count=3)).user_shifts(0.01)
    picked = [0, 1, 199, 200, 201, 399]
    assert found[picked] == pytest.approx(
        [reference_paper.removal_shift(matrix, user, 0.01, 3) for user in picked]
    )


def test_users_elsewhere_have_the_same_gamma_and_no_shift_of_their_own():
    matrix = np.random.default_rng(3).poisson(0.5, (20, 6)).clip(max=3)
    counts, bounds = (
        reference_paper.make_user_counts(matrix),
        {"max_count": 3, "max_total": 99, "key": 1},
    )
    here, there = (
        Statistics(clip(each, **bounds)) for each in (counts, ChunkedCounts(counts, (7, 11)))
    )
    assert there.exact_gamma(0.1) == pytest.approx(here.exact_gamma(0.1), rel=1e-12)
    assert here.exact_gamma(0.1) == here.user_shifts(0.1).max()
    with pytest.raises(
        UsageError, match="a shift for every user is made on one machine only; ask for exact_gamma"
    ):
        there.user_shifts(0.1)
