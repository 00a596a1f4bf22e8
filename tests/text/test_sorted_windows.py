"""Windows of short text, sorted: against a Counter, and against those that are hashed."""

from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bayesgram.text.ngram_tables import (
    NARROW,
    WIDE,
    SortedWindows,
    WindowTable,
    are_sortable,
)
from helpers.hypothesis_profiles import examples

streams = st.lists(
    st.lists(st.integers(-2, 4), max_size=12).map(lambda ids: np.array(ids, np.int32)), max_size=4
)


def counted(streams, order):
    """Window → count, one by one."""
    rows = [
        tuple(ids[at : at + order].tolist())
        for ids in streams
        for at in range(ids.size - order + 1)
    ]
    return Counter(row for row in rows if min(row) >= 0)


def as_dict(table, at_least=1):
    pairs = [
        pair
        for rows, counts in table.entries(at_least=at_least)
        for pair in zip(rows.tolist(), counts, strict=True)
    ]
    return {tuple(row): int(count) for row, count in pairs}


@examples(200)
@given(streams, st.integers(1, 3), st.integers(1, 4), st.integers(1, 9))
def test_what_is_counted(streams, order, at_least, size):
    found, expected = SortedWindows(streams, order, tokens=5), counted(streams, order)
    assert as_dict(found) == expected
    assert len(found) == len(expected)
    assert as_dict(found, at_least) == {
        row: count for row, count in expected.items() if count >= at_least
    }
    hashed = WindowTable(order, tokens=5, cores=1)
    hashed.add(streams)
    assert found.count_reached_by(size) == hashed.count_reached_by(size)


@examples(200)
@given(streams, st.lists(st.tuples(*[st.integers(0, 4)] * 2), max_size=8))
def test_what_is_asked_for_and_only_the_first_of_equal_ones(streams, asked):
    expected, found = counted(streams, 2), SortedWindows(streams, 2, tokens=5)
    rows = np.array(asked, np.int32).reshape(-1, 2)
    answers = found.counts_of(rows).tolist()
    assert answers == [
        expected[row] if row not in asked[:at] else 0 for at, row in enumerate(asked)
    ]


@pytest.mark.parametrize(
    ("order", "tokens", "fits"),
    [
        (3, 2**NARROW - 1, True),
        (4, 10, False),
        (2, 2**NARROW, True),
        (3, 2**NARROW, False),
        (1, 2**31, True),
    ],
)
def test_which_windows_are_one_number(order, tokens, fits):
    assert are_sortable(order, tokens) == fits


def test_the_largest_numbers_are_told_apart():
    for tokens, order in ((2**NARROW, 3), (2 ** (WIDE - 1), 2)):
        last = tokens - 1
        ids = np.array([last] * order + [-1] + [last] * (order - 1) + [last - 1], np.int32)
        assert as_dict(SortedWindows([ids], order, tokens=last)) == counted([ids], order)
