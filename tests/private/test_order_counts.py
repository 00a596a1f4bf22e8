"""Counts of one order: the rows of a literal reading, and users who stay whole and apart."""

import pickle

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from bayesgram.private.clipping import UNITS, Coordinates, clipped_sum
from bayesgram.private.counts import UserCounts
from bayesgram.private.order_counts import OrderCounts, select_order
from helpers import reference_paper
from helpers.hypothesis_profiles import examples
from helpers.remote_counts import ChunkedCounts


@st.composite
def layouts(draw):
    """Sizes of the orders, the number of segments, and dense rows with unlisted columns."""
    sizes = draw(st.lists(st.integers(1, 3), min_size=2, max_size=3))
    segment_count = draw(st.integers(1, 3))
    columns = segment_count * (sum(sizes) + len(sizes))
    users = draw(st.integers(0, 4))
    entry = st.sampled_from([0, 0, 1, 2, 50, 2**31 - 1])
    numbers = draw(st.lists(entry, min_size=users * columns, max_size=users * columns))
    return sizes, segment_count, np.array(numbers, np.int64).reshape(users, columns)


def make_counts(sizes, segment_count, matrix, unlisted=True):
    """Counts of segments × n-grams, then of segments × orders where unlisted n-grams are known."""
    listed = segment_count * sum(sizes)
    matrix = matrix if unlisted else matrix[:, :listed]
    names = pa.array([b"u%d" % user for user in range(len(matrix))], pa.large_binary())
    return UserCounts(
        names,
        *reference_paper.to_csr(matrix),
        listed,
        None,
        unlisted_size=matrix.shape[1] - listed,
    )


def literal(sizes, segment_count, matrix, index, unlisted=True):
    """Dense rows of one order, column by column."""
    size = sum(sizes)
    order_count = len(sizes)
    columns = [
        segment * size + sum(sizes[:index]) + ngram
        for segment in range(segment_count)
        for ngram in range(sizes[index])
    ]
    if unlisted:
        columns += [
            segment_count * size + segment * order_count + index for segment in range(segment_count)
        ]
    return matrix[:, columns]


def collect_rows(counts, *, listed_only=False):
    """Every user's row as pairs of column and count, users in any order."""
    seen = []

    def measure(rows):
        for first, last in zip(rows.starts[:-1], rows.starts[1:], strict=True):
            columns = rows.ngrams[first:last].tolist()
            assert columns == sorted(set(columns))  # each once, ascending: kernels rely on it
            seen.append(list(zip(columns, rows.counts[first:last].tolist(), strict=True)))
        return np.array([rows.starts.size - 1])

    aggregate = counts.aggregate if listed_only else counts.aggregate_all
    assert aggregate(measure).tolist() == [len(seen)]
    return sorted(seen)


def expected_rows(matrix):
    """The same of dense rows; users who have nothing are left out."""
    rows = [[(at, int(number)) for at, number in enumerate(row) if number] for row in matrix]
    return sorted(row for row in rows if row)


SPLIT = ([1, 1], 1, np.array([[3, 0, 4, 5], [0, 2, 0, 0], [0, 0, 6, 0]]))
BESIDE = ([1, 2, 1], 2, np.arange(1, 15)[None])


@examples(150)
@given(layouts(), st.booleans())
@example(SPLIT, True)
@example(BESIDE, True)
@example(BESIDE, False)
def test_a_user_s_row_of_an_order_is_that_of_a_literal_reading(layout, unlisted):
    """One row for each user who wrote any, with what they wrote of this order and nothing else."""
    sizes, segment_count, matrix = layout
    counts = make_counts(*layout, unlisted)
    cuts = tuple(range(1, len(matrix)))
    for each in (counts, ChunkedCounts(counts, cuts)):
        for index, size in enumerate(sizes):
            selected = select_order(each, sizes, index)
            assert selected.vocabulary_size == segment_count * size
            assert selected.unlisted_size == (segment_count if unlisted else 0)
            rows = literal(*layout, index, unlisted)
            assert collect_rows(selected) == expected_rows(rows)
            listed = rows[:, : segment_count * size]
            assert collect_rows(selected, listed_only=True) == expected_rows(listed)


@examples(100)
@given(layouts(), st.floats(0.3, 30))
@example(SPLIT, 1.0)
@example(BESIDE, 1.0)
def test_one_user_moves_the_clipped_sum_of_an_order_by_at_most_its_units(layout, clip_norm):
    """Exactly, in integers; whatever of the order is listed or not, in however many segments."""
    sizes, segment_count, matrix = layout
    for index, size in enumerate(sizes):
        columns = segment_count * (size + 1)
        coordinates = reference_paper.make_coordinates(columns, 2)

        def measure(rows, index=index, coordinates=coordinates):
            counts = make_counts(sizes, segment_count, rows)
            return clipped_sum(select_order(counts, sizes, index), coordinates, clip_norm=clip_norm)

        whole = measure(matrix)
        for user in range(len(matrix)):
            less = measure(np.delete(matrix, user, axis=0))
            assert sum(int(units) ** 2 for units in whole - less) <= UNITS**2


def test_one_order_is_the_counts_themselves():
    counts = make_counts([3], 2, np.ones((2, 8), np.int64))
    assert select_order(counts, [3], 0) is counts


def test_an_order_says_nothing_about_people_and_can_be_sent_to_them():
    class SentCounts(ChunkedCounts):
        def aggregate_all(self, measure, merge=np.add):
            return super().aggregate_all(pickle.loads(pickle.dumps(measure)), merge)

    counts = make_counts(*BESIDE)
    selected = select_order(counts, BESIDE[0], 1)
    assert repr(selected) == "OrderCounts(private, over 4 n-grams)"
    sent = select_order(SentCounts(counts, ()), BESIDE[0], 1)
    assert sent.totals.tolist() == selected.totals.tolist() == [2, 3, 6, 7]


def test_sums_of_different_orders_are_remembered_apart():
    class RememberingCounts(ChunkedCounts):
        def cached_sum(self, name, compute):
            if name not in remembered:
                remembered[name] = compute()
            return remembered[name]

    remembered = {}
    counts = RememberingCounts(make_counts([2, 2], 1, np.array([[1, 2, 3, 4, 0, 0]])), ())
    coordinates = Coordinates(np.ones(3), np.zeros((3, 0), np.int32))
    sums = [
        clipped_sum(select_order(counts, [2, 2], index), coordinates, clip_norm=8.0).tolist()
        for index in (0, 1, 0)
    ]
    assert sums[0] == sums[2] == [UNITS // 8, UNITS // 4, 0]
    assert sums[1] == [3 * UNITS // 8, UNITS // 2, 0]
    assert len(remembered) == 2
    assert isinstance(select_order(counts, [2, 2], 0), OrderCounts)


@pytest.mark.parametrize("columns", [3, 5])
def test_coordinates_have_the_columns_that_they_measure_and_no_others(columns):
    """Three listed n-grams and two unlisted columns: measured without the latter, or with both."""
    matrix = np.array([[1, 2, 0, 9, 0], [0, 3, 1, 0, 7], [0, 0, 0, 5, 5]])
    counts = make_counts([1, 2], 1, matrix)
    coordinates = Coordinates(np.ones(5), np.zeros((columns, 0), np.int32))
    alone = reference_paper.make_user_counts(matrix[:, :columns])
    expected = clipped_sum(alone, coordinates, clip_norm=2.0)
    assert clipped_sum(counts, coordinates, clip_norm=2.0).tolist() == expected.tolist()
    assert expected.any()


def test_coordinates_of_another_vocabulary_are_never_measured():
    counts = make_counts([1, 2], 1, np.ones((1, 5), np.int64))
    for columns in (2, 4):
        coordinates = Coordinates(np.ones(5), np.zeros((columns, 0), np.int32))
        with pytest.raises(AssertionError, match="of another vocabulary than the counts"):
            clipped_sum(counts, coordinates, clip_norm=2.0)
