"""The hash tables against Python's dict."""

from collections import Counter
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bayesgram.text.tables import ABSENT, StringTable, WindowTable, hash_rows
from bayesgram.text.tokens import buffers

SAME_FNV_HASH = [
    (b"8yn0iYCKYHlIj4-BwPqk", b"GReLUrM4wMqfg9yzV3KQ"),
    (b"gMPflVXtwGDXbIhP73TX", b"LtHf1prlU1bCeYZEdqWf"),
]

strings = st.one_of(
    st.binary(max_size=3),
    st.text("ab", max_size=6).map(str.encode),  # prefixes of one another
    st.sampled_from([b"", b"\0", b"\0\0", b"x" * 5000, *sum(SAME_FNV_HASH, ())]),
)
batches = st.lists(st.tuples(st.booleans(), st.lists(strings, max_size=30)), max_size=8)


def flat(values):
    """Bytes and offsets that do not start at 0, as those of a slice."""
    return buffers(pa.array([b"before", *values], pa.large_binary())[1:])


def numbered(known, values, *, add):
    """What the table should answer: numbers in order of appearance."""
    if add:
        for value in values:
            if value:
                known.setdefault(value, len(known))
    return [known.get(value, ABSENT) for value in values]


@settings(max_examples=150, deadline=None)
@given(batches)
def test_strings_are_numbered_like_a_dict(batches):
    table, known = StringTable(), {}
    for add, values in batches:
        found = (table.add if add else table.find)(*flat(values))
        assert found.tolist() == numbered(known, values, add=add)
        assert len(table) == len(known)
        assert table.strings().to_pylist() == list(known)


def test_strings_keep_their_numbers_while_the_table_grows():
    rng = np.random.default_rng(3)
    table, known = StringTable(), {}
    for size in (1, 255, 256, 1, 257, 5000, 20_000):
        values = [b"%x" % value for value in rng.integers(0, 30_000, size)]
        assert table.add(*flat(values)).tolist() == numbered(known, values, add=True)
    everything = [b"%x" % value for value in range(31_000)]
    assert table.find(*flat(everything)).tolist() == numbered(known, everything, add=False)
    assert table.strings().to_pylist() == list(known)
    assert table.add(*flat(list(known))).tolist() == list(range(len(known)))
    assert len(table) == len(known)


@pytest.mark.parametrize("size", range(250, 262))
def test_a_table_is_right_around_the_size_at_which_it_grows(size):
    values = [b"%d" % value for value in range(size)]
    at_once, one_by_one = StringTable(), StringTable()
    assert at_once.add(*flat(values)).tolist() == list(range(size))
    assert [int(one_by_one.add(*flat([value]))[0]) for value in values] == list(range(size))
    for table in (at_once, one_by_one):
        assert table.find(*flat([*values, b"unknown"])).tolist() == [*range(size), ABSENT]
        assert table.strings().to_pylist() == values


@pytest.mark.parametrize(("one", "other"), SAME_FNV_HASH)
def test_two_strings_with_the_same_hash_are_two_strings(one, other):
    assert len(set(hash_rows(*flat([one, other])).tolist())) == 1
    table = StringTable()
    table.add(*flat([one]))
    assert table.find(*flat([other, one])).tolist() == [ABSENT, 0]
    assert table.add(*flat([other, one, other])).tolist() == [1, 0, 1]
    table.add(*flat([b"%d" % value for value in range(1000)]))  # moves all entries
    assert table.find(*flat([other, one])).tolist() == [1, 0]


def test_finding_adds_nothing():
    table = StringTable()
    assert table.find(*flat([b"a", b""])).tolist() == [ABSENT, ABSENT]
    assert len(table) == 0
    assert table.strings().to_pylist() == []


def test_the_strings_of_a_table_do_not_change_when_it_does():
    table = StringTable()
    table.add(*flat([b"a", b"bc"]))
    before = table.strings()
    table.add(*flat([b"d" * 10_000]))
    assert before.to_pylist() == [b"a", b"bc"]


@settings(max_examples=100, deadline=None)
@given(st.lists(strings, max_size=20))
def test_a_hash_depends_on_the_bytes_alone(values):
    hashes = hash_rows(*flat(values)).tolist()
    assert hashes == [int(hash_rows(*flat([value]))[0]) for value in values]
    same_fnv = dict(SAME_FNV_HASH)
    assert len(set(hashes)) == len({same_fnv.get(value, value) for value in values})


def windows_of(ids, order):
    """(window, position of its last token) of every run without ABSENT."""
    windows = [(tuple(ids[end + 1 - order : end + 1]), end) for end in range(order - 1, len(ids))]
    return [(window, end) for window, end in windows if ABSENT not in window]


def check_windows(table, counts):
    assert list(map(tuple, table.rows.tolist())) == list(counts)
    assert table.counts.tolist() == list(counts.values())
    assert len(table) == len(counts)


@pytest.mark.parametrize("order", range(1, 7))
@settings(max_examples=40, deadline=None)
@given(
    streams=st.lists(
        st.tuples(st.booleans(), st.lists(st.integers(ABSENT, 3) | st.sampled_from([2**31 - 1, 0]), max_size=40)),
        max_size=6,
    )
)
def test_windows_are_counted_and_found_like_a_counter(order, streams):
    table, counts = WindowTable(order), Counter()
    for add, stream in streams:
        ids = np.array(stream, np.int32)
        if add:
            table.add(ids)
            counts.update(window for window, _ in windows_of(stream, order))
        numbers = {window: number for number, window in enumerate(counts)}
        expected = [(numbers[window], end) for window, end in windows_of(stream, order) if window in numbers]
        found, ends = table.find(ids)
        assert list(zip(found.tolist(), ends.tolist(), strict=True)) == expected
        check_windows(table, counts)


@pytest.mark.parametrize("order", [1, 2, 6])
def test_windows_keep_their_numbers_while_the_table_grows(order):
    rng = np.random.default_rng(order)
    table, counts = WindowTable(order), Counter()
    for size in (1, 255, 256, 300, 10_000, 10_000):
        stream = rng.integers(ABSENT, 3000 if order == 1 else 60 // order, size).astype(np.int32)
        table.add(stream)
        counts.update(window for window, _ in windows_of(stream.tolist(), order))
    check_windows(table, counts)
    assert len(counts) > 600
    apart = np.hstack([table.rows, np.full((len(table), 1), ABSENT, np.int32)]).ravel()
    found, ends = table.find(apart)
    assert found.tolist() == list(range(len(table)))
    assert ends.tolist() == list(range(order - 1, apart.size, order + 1))


@pytest.mark.parametrize("size", range(250, 262))
def test_a_window_table_is_right_around_the_size_at_which_it_grows(size):
    stream = np.arange(size, dtype=np.int32)
    at_once, one_by_one = WindowTable(1), WindowTable(1)
    at_once.add(stream)
    for start, end in pairwise(range(size + 1)):
        one_by_one.add(stream[start:end])
    for table in (at_once, one_by_one):
        check_windows(table, Counter((value,) for value in range(size)))
        assert table.find(np.array([size, size - 1], np.int32))[0].tolist() == [size - 1]


def test_a_window_does_not_run_from_one_batch_into_the_next():
    table = WindowTable(2)
    table.add(np.array([1], np.int32))
    table.add(np.array([2], np.int32))
    assert len(table) == 0
