"""Clipping: its bounds, and that it looks at nobody else."""

import math
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import chisquare

from bayesgram.errors import UsageError
from bayesgram.kernels import AS_PYTHON
from bayesgram.private.clipping import (
    MAX_TOTAL,
    UNITS,
    Coordinates,
    _correct_rounding,
    clip,
    clipped_sum,
)
from helpers import reference_paper
from helpers.hypothesis_profiles import examples
from helpers.reference_paper import append_word_counts, make_coordinates
from helpers.remote_counts import ChunkedCounts
from helpers.strategies import matrices

bounds = {
    "max_count": st.integers(1, 5),
    "max_total": st.integers(1, 9),
    "key": st.integers(0, 2**64 - 1),
}


def dense(clipped):
    out = np.zeros((clipped.starts.size - 1, clipped.vocabulary_size), np.int64)
    rows = np.repeat(np.arange(len(out)), np.diff(clipped.starts))
    out[rows, clipped.ngrams] = clipped.counts
    return out


@settings(deadline=None)
@given(matrices(largest=9), st.fixed_dictionaries(bounds))
def test_no_entry_exceeds_c_and_no_row_exceeds_w(matrix, knobs):
    kept = dense(clip(reference_paper.make_user_counts(matrix), **knobs))
    clamped = np.minimum(matrix, knobs["max_count"])
    assert (kept <= clamped).all()
    assert kept.sum(axis=1).tolist() == np.minimum(clamped.sum(axis=1), knobs["max_total"]).tolist()


@settings(deadline=None)
@given(matrices(users=(1, 6), largest=9), st.fixed_dictionaries(bounds), st.integers(0, 5))
def test_what_is_kept_of_a_user_does_not_depend_on_others(matrix, knobs, user):
    user %= len(matrix)
    whole = dense(clip(reference_paper.make_user_counts(matrix), **knobs))
    alone = dense(
        clip(reference_paper.make_user_counts(matrix[user : user + 1], [f"u{user}"]), **knobs)
    )
    assert whole[user].tolist() == alone[0].tolist()


@pytest.mark.compiled
def test_every_set_of_occurrences_is_as_likely_as_any_other():
    """2 of 5 occurrences, 20,000 users: χ² over the 10 pairs; p < 10⁻⁶ fails (the key is fixed, so: never)."""
    users = 20_000
    clipped = clip(
        reference_paper.make_user_counts(np.ones((users, 5), np.int64)),
        max_count=1,
        max_total=2,
        key=1,
    )
    kept = [tuple(row) for row in np.argwhere(dense(clipped))[:, 1].reshape(users, 2)]
    seen = [kept.count(pair) for pair in combinations(range(5), 2)]
    assert sum(seen) == users
    assert chisquare(seen).pvalue > 1e-6


@pytest.mark.compiled
def test_repeated_occurrences_are_drawn_one_by_one():
    """3 of 8 occurrences of (6, 2): the mean kept of the first is 3 · 6/8, within 5 standard errors."""
    users = 20_000
    kept = dense(
        clip(
            reference_paper.make_user_counts(np.tile([6, 2], (users, 1))),
            max_count=9,
            max_total=3,
            key=2,
        )
    )
    variance = 3 * (6 / 8) * (2 / 8) * (8 - 3) / (8 - 1)
    assert abs(kept[:, 0].mean() - 2.25) < 5 * math.sqrt(variance / users)
    assert kept[:, 0].var() == pytest.approx(variance, rel=0.1)


def test_select_keeps_whole_users():
    matrix = np.array([[1, 2, 0], [0, 0, 3], [4, 0, 0]])
    chosen = reference_paper.make_clipped_counts(matrix).select(np.array([True, False, True]))
    assert dense(chosen).tolist() == [[1, 2, 0], [4, 0, 0]]


def test_a_heavy_user_is_quick():
    counts = reference_paper.make_user_counts(np.array([[2_000_000_000, 5]]))
    assert clip(counts, max_count=None, max_total=10, key=1).counts.sum() == 10


@pytest.mark.parametrize("max_total", [0, -3, MAX_TOTAL + 1])
def test_bad_bounds(max_total):
    with pytest.raises(UsageError) as caught:
        clip(
            reference_paper.make_user_counts(np.eye(2, dtype=int)),
            max_count=1,
            max_total=max_total,
            key=0,
        )
    assert str(caught.value) == (
        f"max_total={max_total}: W, the most occurrences from a user, is a whole number from 1 to 1,000,000."
    )


rows = st.lists(st.tuples(st.integers(1, 2**31 - 1), st.floats(1e-6, 1e6)), min_size=1, max_size=40)
norms = st.one_of(st.floats(1e-6, 1e9), st.sampled_from([1.0, 2.0, math.sqrt(2), 5.0]))


@examples(500)
@given(rows, norms)
def test_no_user_moves_the_fixed_point_sum_by_more_than_the_bound(row, clip_norm):
    counts, shape = np.array([c for c, _ in row], np.int64), np.array([s for _, s in row])
    nobody_s_words = Coordinates(shape, np.zeros((shape.size, 0), np.int32))
    z = clipped_sum(
        reference_paper.make_user_counts(counts[None]), nobody_s_words, clip_norm=clip_norm
    )
    assert (z >= 0).all()
    assert sum(int(k) ** 2 for k in z) <= UNITS**2


# As Python, less has to give way: each unit of it is a step.
@given(
    st.lists(st.integers(1, 9), min_size=1, max_size=9),
    st.floats(1, 1.000001 if AS_PYTHON else 1.0001),
    st.integers(0, 3),
)
def test_where_rounding_goes_over_the_bound_the_largest_give_way(numbers, over, spoken):
    """Not known to happen to real rows: the scale is made too large on purpose."""
    values, weights = np.array(numbers, np.int32), np.linspace(0.5, 2, len(numbers) + 3)
    own, said = np.arange(spoken) + values.size, np.zeros(weights.size, np.int64)
    said[own] = 2
    z = np.concatenate([values, said[own]]) * weights[: values.size + spoken]
    units = (z * (over * UNITS / math.sqrt((z * z).sum()))).astype(np.int64)
    total, length = np.zeros(weights.size, np.int64), sum(int(unit) ** 2 for unit in units)
    total[: units.size] = units
    places = np.arange(values.size, dtype=np.int32)
    _correct_rounding(
        places,
        values,
        said,
        own,
        weights,
        over * UNITS / math.sqrt((z * z).sum()),
        total,
        UNITS,
    )
    left = sum(int(unit) ** 2 for unit in total)
    assert left <= UNITS**2
    assert left == length or left + 2 * int(total.max()) + 1 > UNITS**2  # no more than needed
    assert (total[: units.size] <= units).all()


@settings(deadline=None)
@given(matrices(users=(1, 5), largest=50), norms, st.sampled_from([0, 2, 3]))
def test_the_clipped_sum_is_that_of_exact_arithmetic(matrix, clip_norm, order):
    measured = make_coordinates(matrix.shape[1], order)
    expected = np.zeros(measured.shape.size)
    for user in append_word_counts(matrix, measured):
        v = user / measured.shape
        length = math.sqrt(sum(value**2 for value in v))
        expected += v * min(1.0, clip_norm / length) if length else 0
    found = clipped_sum(reference_paper.make_user_counts(matrix), measured, clip_norm=clip_norm) * (
        clip_norm / UNITS
    )
    assert found == pytest.approx(expected, rel=1e-7, abs=len(matrix) * 1.01 * clip_norm / UNITS)


@settings(deadline=None)
@given(matrices(users=(1, 5), largest=50), norms, st.sampled_from([0, 2, 3]))
def test_removing_a_user_changes_the_integer_sum_by_that_user_s_z_alone(matrix, clip_norm, order):
    measured = make_coordinates(matrix.shape[1], order)
    whole = clipped_sum(reference_paper.make_user_counts(matrix), measured, clip_norm=clip_norm)
    for user in range(len(matrix)):
        rest = clipped_sum(
            reference_paper.make_user_counts(np.delete(matrix, user, axis=0)),
            measured,
            clip_norm=clip_norm,
        )
        assert sum(int(k) ** 2 for k in whole - rest) <= UNITS**2


@settings(deadline=None)
@given(matrices(users=(2, 6), largest=9), st.fixed_dictionaries(bounds), st.integers(0, 6))
def test_users_elsewhere_are_clipped_as_those_here_each_time_they_are_asked(matrix, knobs, cut):
    counts = reference_paper.make_user_counts(matrix)
    there = clip(ChunkedCounts(counts, (min(cut, len(matrix)),)), **knobs)
    here = clip(counts, **knobs)
    for _ in range(2):
        assert there.totals.tolist() == dense(here).sum(axis=0).tolist() == here.totals.tolist()
        assert there.users_per_ngram.tolist() == (dense(here) > 0).sum(axis=0).tolist()
    largest = [
        clipped.aggregate(lambda rows: rows.counts.max(initial=0), np.maximum)
        for clipped in (there, here)
    ]
    assert largest == [dense(here).max(initial=0)] * 2


def test_clipped_counts_do_not_show_what_they_hold():
    matrix = np.array([[3, 0, 1], [0, 9, 0]])
    knobs = {"max_count": 7, "max_total": 5, "key": 1}
    counts = reference_paper.make_user_counts(matrix)
    assert repr(clip(counts, **knobs)) == "ClippedCounts(private, C = 7, W = 5)"
    assert (
        repr(clip(ChunkedCounts(counts, ()), **knobs)) == "LazyClippedCounts(private, C = 7, W = 5)"
    )


@pytest.mark.parametrize("value", [1e-308, 0.0, -1.0, math.nan, math.inf, 1e-31, 1e31])
def test_a_shape_whose_squares_would_overflow_is_refused(value):
    """1e-308 made z = −2⁶³, whose square is 0 in 64 bits: nothing would have been noticed."""
    with pytest.raises(
        UsageError, match=r"^shape: holds a number that is not in 1e-30 … 1e\+30; squares of counts"
    ):
        Coordinates(np.array([1.0, value]), np.zeros((2, 0), np.int32))


@pytest.mark.parametrize("clip_norm", [0.0, -1.0, math.nan, math.inf, 1e-7, 1e10])
def test_a_clip_norm_that_is_none_is_refused(clip_norm):
    with pytest.raises(
        UsageError, match=rf"^clip_norm={clip_norm}: give a public number from 1e-6 to 1e9;"
    ):
        clipped_sum(
            reference_paper.make_user_counts(np.ones((1, 2), np.int64)),
            make_coordinates(2, 0),
            clip_norm=clip_norm,
        )


extreme = st.lists(
    st.tuples(
        st.sampled_from([1, 2, 2**16, 2**31 - 1]), st.sampled_from([1e-30, 1e-15, 1.0, 1e15, 1e30])
    ),
    min_size=1,
    max_size=12,
)


@given(extreme, st.sampled_from([1e-6, 1.0, 1e9]))
def test_the_bound_holds_at_the_edges_of_shape_count_and_norm(row, clip_norm):
    counts, shape = np.array([c for c, _ in row], np.int64), np.array([s for _, s in row])
    z = clipped_sum(
        reference_paper.make_user_counts(counts[None]),
        Coordinates(shape, np.zeros((shape.size, 0), np.int32)),
        clip_norm=clip_norm,
    )
    assert (z >= 0).all()
    assert sum(int(k) ** 2 for k in z) <= UNITS**2


@settings(deadline=None)
@given(
    matrices(users=(2, 6), ngrams=(3, 6), largest=50), norms, st.sampled_from([0, 3]), st.randoms()
)
def test_what_a_user_adds_to_the_sum_depends_on_nobody_else(matrix, clip_norm, order, random):
    """Σ over users of what each adds alone, exactly, whoever comes before or after."""
    measured = make_coordinates(matrix.shape[1], order)
    alone = [
        clipped_sum(reference_paper.make_user_counts(row[None]), measured, clip_norm=clip_norm)
        for row in matrix
    ]
    shuffled = random.sample(range(len(matrix)), len(matrix))
    together = clipped_sum(
        reference_paper.make_user_counts(matrix[shuffled]), measured, clip_norm=clip_norm
    )
    assert together.tolist() == sum(alone).tolist()


@settings(deadline=None)
@given(
    matrices(users=(1, 5), ngrams=(2, 5), largest=50), st.sampled_from([0.5, 2.0, 1e3]), st.data()
)
def test_words_that_are_not_measured_add_nothing(matrix, clip_norm, data):
    """−1 in place of a word: as if the n-gram had one word less."""
    counts, size = reference_paper.make_user_counts(matrix), matrix.shape[1]
    measured = np.array(data.draw(st.lists(st.booleans(), min_size=size, max_size=size)))
    shape = np.geomspace(0.5, 2, size + 2)
    both = np.stack([np.where(measured, size, -1), np.full(size, size + 1)], axis=1).astype(
        np.int32
    )
    found = clipped_sum(counts, Coordinates(shape, both), clip_norm=clip_norm)
    assert (found[size] == 0) == (matrix[:, measured].sum() == 0)
    if not measured.any():
        alone = clipped_sum(counts, Coordinates(shape, both[:, 1:]), clip_norm=clip_norm)
        assert found.tolist() == alone.tolist()
