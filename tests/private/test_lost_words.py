"""The words of what clipping takes away: exact, within the bound, and a matter of one user at a time."""

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bayesgram.errors import UsageError
from bayesgram.private.clipping import (
    UNITS,
    ClippedWordsSpec,
    Coordinates,
    _clipped_mass_sum,
    clipped_mass_sum,
    clipped_sum,
)
from helpers import reference_paper
from helpers.hypothesis_profiles import examples
from helpers.remote_counts import ChunkedCounts
from helpers.strategies import matrices

norms = st.one_of(st.floats(1e-3, 1e3), st.sampled_from([1e-6, 1.0, 2.0, 5.0, 1e9]))
lost_norms = st.one_of(st.floats(0.05, 50), st.sampled_from([1e-6, 1e9]))


def asked_of(size, clipped_mass_norm, order=3):
    """Three words and the total of the n-grams but for the first, whose words nobody asks for."""
    words = np.column_stack([reference_paper.make_words(size, order, 0), np.full(size, 3)])
    words[0] = -1
    return ClippedWordsSpec(np.geomspace(0.3, 3, 4), words.astype(np.int32), clipped_mass_norm)


@settings(deadline=None)
@given(
    st.sampled_from([9, 2**31 - 1]).flatmap(
        lambda most: matrices(users=(1, 1), ngrams=(2, 6), largest=most)
    ),
    norms,
    lost_norms,
    st.sampled_from([0, 3]),
)
def test_the_lost_words_are_those_of_exact_arithmetic(matrix, clip_norm, clipped_mass_norm, order):
    """Truncated toward zero; a float loses digits where hardly anything is lost."""
    measured, asked = (
        reference_paper.make_coordinates(matrix.shape[1], order),
        asked_of(matrix.shape[1], clipped_mass_norm),
    )
    found = clipped_mass_sum(
        reference_paper.make_user_counts(matrix), measured, asked, clip_norm=clip_norm
    )
    exact, part = reference_paper.clipped_mass(matrix[0], measured, asked, clip_norm)
    doubt = 1e-13 / max(float(part), 1e-13)
    for unit, z in zip(found, exact, strict=True):
        assert float(z) * (1 - doubt) - 1 < unit <= float(z) * (1 + doubt)


hostile = st.lists(
    st.tuples(
        st.one_of(st.integers(1, 2**31 - 1), st.sampled_from([1, 2, 3, 4, 2**31 - 1])),
        st.one_of(st.floats(1e-6, 1e6), st.sampled_from([1e-30, 1.0, 1e30])),
        st.one_of(st.floats(1e-6, 1e6), st.sampled_from([1e-30, 1.0, 1e30])),
        st.integers(-1, 39),
    ),
    min_size=1,
    max_size=40,
)


@examples(300)
@given(
    hostile, st.sampled_from([1e-6, 1.0, 5.0, 1e9]), st.sampled_from([1e-6, 0.25, 1.0, 5.0, 1e9])
)
def test_no_user_moves_the_lost_words_by_more_than_the_bound(row, clip_norm, clipped_mass_norm):
    counts, shape, lost_shape, words = (np.array(column) for column in zip(*row, strict=True))
    measured = Coordinates(shape, np.zeros((shape.size, 0), np.int32))
    asked = ClippedWordsSpec(
        lost_shape, np.minimum(words, words.size - 1).astype(np.int32)[:, None], clipped_mass_norm
    )
    moved = clipped_mass_sum(
        reference_paper.make_user_counts(counts[None]), measured, asked, clip_norm=clip_norm
    )
    assert (moved >= 0).all()
    assert sum(int(k) ** 2 for k in moved) <= UNITS**2


def test_somebody_who_loses_more_than_the_norm_of_lost_words_moves_them_by_nearly_the_bound():
    """The bound is no larger than it has to be."""
    counts, measured = (
        reference_paper.make_user_counts(np.array([[0, 900, 30, 7]])),
        reference_paper.make_coordinates(4, 3),
    )
    moved = clipped_mass_sum(counts, measured, asked_of(4, 0.5), clip_norm=2.0)
    assert sum(int(k) ** 2 for k in moved) > (1 - 1e-8) * UNITS**2


@settings(deadline=None)
@given(matrices(users=(1, 5), ngrams=(2, 6), largest=50), st.sampled_from([0, 3]), lost_norms)
def test_who_is_within_the_clip_norm_loses_nothing(matrix, order, clipped_mass_norm):
    measured, asked = (
        reference_paper.make_coordinates(matrix.shape[1], order),
        asked_of(matrix.shape[1], clipped_mass_norm),
    )
    lengths = np.linalg.norm(
        reference_paper.append_word_counts(matrix, measured) / measured.shape, axis=1
    )
    largest = max(float(lengths.max()) * (1 + 1e-12), 1e-6)
    assert not clipped_mass_sum(
        reference_paper.make_user_counts(matrix), measured, asked, clip_norm=largest
    ).any()


def test_a_norm_that_is_the_clip_norm_is_within_it():
    plain = Coordinates(np.ones(2), np.zeros((2, 0), np.int32))
    asked = ClippedWordsSpec(np.ones(1), np.zeros((2, 1), np.int32), 100.0)
    counts = reference_paper.make_user_counts(np.array([[3, 4]]))
    assert clipped_mass_sum(counts, plain, asked, clip_norm=5.0).tolist() == [0]
    assert clipped_mass_sum(counts, plain, asked, clip_norm=2.5).tolist() == [
        int(7 * 0.5 / 100 * UNITS)
    ]


@settings(deadline=None)
@given(
    matrices(users=(2, 6), ngrams=(3, 6), largest=50),
    st.sampled_from([0.5, 2.0, 20.0]),
    lost_norms,
    st.data(),
)
def test_what_a_user_loses_depends_on_nobody_else(matrix, clip_norm, clipped_mass_norm, data):
    """Σ over users of what each loses alone, exactly, whoever comes before or after, and in whatever blocks."""
    measured = reference_paper.make_coordinates(matrix.shape[1], data.draw(st.sampled_from([0, 3])))
    public = (measured, asked_of(matrix.shape[1], clipped_mass_norm))
    alone = [
        clipped_mass_sum(
            reference_paper.make_user_counts(row[None]), *public, clip_norm=clip_norm
        ).tolist()
        for row in matrix
    ]
    counts = reference_paper.make_user_counts(
        matrix[data.draw(st.permutations(range(len(matrix))))]
    )
    cut = data.draw(st.integers(0, len(matrix)))
    together = np.sum(alone, axis=0).tolist()
    assert clipped_mass_sum(counts, *public, clip_norm=clip_norm).tolist() == together
    assert (
        clipped_mass_sum(ChunkedCounts(counts, (cut,)), *public, clip_norm=clip_norm).tolist()
        == together
    )


@settings(deadline=None)
@given(matrices(users=(1, 4), ngrams=(2, 6), largest=50), st.sampled_from([0.5, 2.0, 20.0]))
def test_what_is_kept_and_what_is_lost_are_together_what_people_wrote(matrix, clip_norm):
    """Where the norm of lost words is never reached: the total of the n-grams whose words are asked for."""
    size = matrix.shape[1]
    measured, asked = (
        reference_paper.make_coordinates(size, 3),
        replace(asked_of(size, 1e6), shape=np.ones(4)),
    )
    counts = reference_paper.make_user_counts(matrix)
    kept = clipped_sum(counts, measured, clip_norm=clip_norm) * measured.shape * (clip_norm / UNITS)
    lost = clipped_mass_sum(counts, measured, asked, clip_norm=clip_norm) * (
        asked.clip_norm / UNITS
    )
    assert kept[1:size].sum() + lost[3] == pytest.approx(
        matrix[:, 1:].sum(), abs=1e-3 * len(matrix) + 1e-6
    )


@settings(deadline=None)
@given(st.lists(st.integers(1, 9), min_size=1, max_size=9), st.floats(1, 2))
def test_where_rounding_goes_over_the_bound_lost_words_give_way(numbers, weight):
    """Weights that no vocabulary has: their squares are so small that a float keeps six digits of them."""
    counts, size = np.array(numbers, np.int32), len(numbers)
    plain, words = np.ones(size), np.arange(size, dtype=np.int32)[:, None]
    weights = np.full(size, weight * 1e-159)
    person = (np.array([0, size]), np.arange(size, dtype=np.int32), counts)
    limits, squares = np.full(1, UNITS), np.zeros(1, np.int64)
    moved = _clipped_mass_sum(
        *person,
        plain,
        np.zeros((size, 0), np.int32),
        1e-6,
        weights,
        words,
        1e-300,
        limits,
        squares,
    )
    assert squares[0] == sum(int(k) ** 2 for k in moved)
    assert sum(int(k) ** 2 for k in moved) <= UNITS**2
    assert sum(int(k) ** 2 for k in moved) > 0.9999 * UNITS**2


def test_rounding_does_go_over_the_bound_there():
    """What the test above is about: units as they would be if nothing gave way."""
    over = 0
    for weight in np.linspace(1, 2, 50):
        values = np.arange(1, 6) * (weight * 1e-159)
        units = (values * (UNITS / math.sqrt(float((values * values).sum())))).astype(np.int64)
        over += sum(int(k) ** 2 for k in units) > UNITS**2
    assert over > 10


@pytest.mark.parametrize("value", [1e-308, 0.0, -1.0, math.nan, math.inf, 1e-31, 1e31])
def test_a_shape_of_lost_words_whose_squares_would_overflow_is_refused(value):
    with pytest.raises(
        UsageError, match=r"^shape: holds a number that is not in 1e-30 … 1e\+30; squares of counts"
    ):
        ClippedWordsSpec(np.array([1.0, value]), np.zeros((2, 1), np.int32), 1.0)


@pytest.mark.parametrize("clipped_mass_norm", [0.0, -1.0, math.nan, math.inf, 1e-7, 1e10])
def test_a_norm_of_lost_words_that_is_none_is_refused(clipped_mass_norm):
    with pytest.raises(
        UsageError, match=rf"^clip_norm={clipped_mass_norm}: give a public number from 1e-6 to 1e9;"
    ):
        ClippedWordsSpec(np.ones(1), np.zeros((2, 1), np.int32), clipped_mass_norm)
