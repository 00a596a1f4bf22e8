"""How much users write, by their norm: exact, within the bound, and a matter of one user at a time."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bayesgram.private.clipping import UNITS, Coordinates
from bayesgram.private.norm_histogram import (
    SOURCE_UNITS,
    TOTAL_UNITS,
    USER_UNITS,
    HistogramSpec,
    norm_histogram_sum,
)
from helpers import reference_paper
from helpers.hypothesis_profiles import examples
from helpers.remote_counts import ChunkedCounts
from helpers.strategies import matrices

EDGES = np.array([0.5, 1.0, 2.0, 8.0, 64.0])
LARGEST = np.array([1.0, 2.0, 4.0, 16.0, 256.0, 2.0**20])
HALF_OCTAVES = 2.0 ** np.arange(-2, 12.5, 0.5)


def powers(size, order):
    """Shapes that are powers of two: nothing is rounded on the way to a bin."""
    shape = 2.0 ** (np.arange(size + (3 if order else 0)) % 5 - 2)
    return Coordinates(shape, reference_paper.make_words(size, order, size))


def dominant_source(size, first, number):
    """Those before the first don't count; the others are of one kind after the other."""
    sources = np.arange(size, dtype=np.int32) % max(number, 1)
    sources[:first] = -1
    return sources


def asked(counts, measured, first, number=0):
    """Fresh arrays each time: whoever is asked first must not change what others are asked."""
    sources = dominant_source(measured.words.shape[0], first, number)
    bins = HistogramSpec(EDGES.copy(), LARGEST.copy(), sources, number)
    before = bins.cache_key
    found = norm_histogram_sum(counts, measured, bins)
    assert bins.cache_key == before
    return found.tolist()


def test_the_units_of_a_user_and_of_their_text_are_together_within_the_bound():
    squares = sum(units**2 for units in (USER_UNITS, TOTAL_UNITS, SOURCE_UNITS))
    assert 0.98 * UNITS**2 < squares <= UNITS**2


@settings(deadline=None)
@given(
    st.sampled_from([1, 50, 2**31 - 1]).flatmap(lambda most: matrices(users=(0, 6), largest=most)),
    st.sampled_from([0, 3]),
    st.integers(0, 6),
    st.integers(0, 4),
)
def test_the_amounts_are_those_of_exact_arithmetic(matrix, order, first, number):
    """In fractions; `first` may be anywhere, so that shorter n-grams count for the norm alone."""
    measured = powers(matrix.shape[1], order)
    bins = HistogramSpec(EDGES, LARGEST, dominant_source(matrix.shape[1], first, number), number)
    expected = reference_paper.norm_histogram(matrix, measured, bins)
    counts = reference_paper.make_user_counts(matrix)
    assert asked(counts, measured, first, number) == expected


hostile = st.lists(
    st.tuples(
        st.one_of(st.integers(1, 2**31 - 1), st.sampled_from([1, 2**31 - 1])),
        st.one_of(st.floats(1e-6, 1e6), st.sampled_from([1e-30, 1.0, 1e30])),
    ),
    max_size=40,
)
largest_amounts = st.one_of(st.floats(1e-3, 1e12), st.sampled_from([1e-300, 1.0, 1e300, np.inf]))


@examples(300)
@given(hostile, largest_amounts, st.integers(0, 40), st.integers(0, 20))
def test_no_user_moves_the_amounts_by_more_than_the_bound(row, most, first, number):
    """Also somebody who wrote nothing, and two billion of everything."""
    counts, shape = np.array([[c for c, _ in row]], np.int64), np.array([s for _, s in row])
    measured = Coordinates(shape, np.zeros((shape.size, 0), np.int32))
    size = HALF_OCTAVES.size + 1
    bins = HistogramSpec(
        HALF_OCTAVES, np.full(size, most), dominant_source(shape.size, first, number), number
    )
    moved = norm_histogram_sum(reference_paper.make_user_counts(counts), measured, bins)
    assert sum(int(k) ** 2 for k in moved) <= UNITS**2
    users, totals, sources = np.split(moved, np.cumsum(bins.sizes)[:-1])
    assert sorted(users.tolist()) == [0] * (size - 1) + [USER_UNITS]
    assert (sources >= 0).all()
    assert sources.sum() <= SOURCE_UNITS
    assert (totals >= 0).all()
    assert (totals[users == 0] == 0).all()


@settings(deadline=None)
@given(
    matrices(users=(2, 6), ngrams=(3, 6), largest=50),
    st.sampled_from([0, 3]),
    st.integers(0, 3),
    st.integers(0, 3),
    st.integers(0, 6),
    st.randoms(),
)
def test_what_a_user_adds_to_the_amounts_depends_on_nobody_else(
    matrix, order, first, number, cut, random
):
    """Σ over users of what each adds alone, exactly, whoever comes before or after, and in whatever blocks."""
    measured = reference_paper.make_coordinates(matrix.shape[1], order)
    alone = [
        asked(reference_paper.make_user_counts(row[None]), measured, first, number)
        for row in matrix
    ]
    shuffled = random.sample(range(len(matrix)), len(matrix))
    counts = reference_paper.make_user_counts(matrix[shuffled])
    together = np.sum(alone, axis=0).tolist()
    assert asked(counts, measured, first, number) == together
    assert (
        asked(ChunkedCounts(counts, (min(cut, len(matrix)),)), measured, first, number) == together
    )


def test_a_norm_on_an_edge_belongs_to_the_bin_above():
    edges, largest = np.array([1.0, 2.0, 4.0]), np.full(4, 2.0)
    measured = Coordinates(np.ones(1), np.zeros((1, 0), np.int32))
    bins = HistogramSpec(edges, largest, np.zeros(1, np.int32), 0)
    found = [
        norm_histogram_sum(reference_paper.make_user_counts(np.array([[n]])), measured, bins)
        for n in (0, 1, 2, 3, 4, 5)
    ]
    assert [np.flatnonzero(each[:4]).tolist() for each in found] == [[0], [1], [2], [2], [3], [3]]
    half, all_of_it = TOTAL_UNITS // 2, TOTAL_UNITS
    assert [each[4:].max() for each in found] == [
        0,
        half,
        all_of_it,
        all_of_it,
        all_of_it,
        all_of_it,
    ]


@pytest.mark.parametrize(("first", "expected"), [(0, 1.0), (1, 0.75), (2, 0.25), (3, 0.0)])
def test_only_the_longest_ngrams_are_written(first, expected):
    counts, measured = (
        reference_paper.make_user_counts(np.array([[1, 2, 1]])),
        Coordinates(np.ones(3), np.zeros((3, 0), np.int32)),
    )
    bins = HistogramSpec(np.array([1.0]), np.array([4.0, 4.0]), dominant_source(3, first, 0), 0)
    assert norm_histogram_sum(counts, measured, bins).tolist() == [
        0,
        USER_UNITS,
        0,
        int(TOTAL_UNITS * expected),
    ]


def test_what_is_written_is_shared_out_among_kinds():
    """Also for somebody who wrote nothing that counts."""
    counts, measured = (
        reference_paper.make_user_counts(np.array([[1, 2, 1]])),
        Coordinates(np.ones(3), np.zeros((3, 0), np.int32)),
    )
    for sources, expected in (
        ([0, 1, 0], [0.5, 0.5, 0]),
        ([-1, 2, 2], [0, 0, 1]),
        ([-1, -1, -1], [0, 0, 0]),
    ):
        bins = HistogramSpec(np.array([1.0]), np.array([4.0, 4.0]), np.array(sources, np.int32), 3)
        assert norm_histogram_sum(counts, measured, bins)[4:].tolist() == [
            int(SOURCE_UNITS * each) for each in expected
        ]
