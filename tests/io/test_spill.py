"""What is spilled to disk comes back as it was, and tables that are asked in parts answer as whole ones do."""

import tempfile
from itertools import chain
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from bayesgram.io import spill
from bayesgram.io.spill import (
    SpillableColumn,
    SpillStreams,
    partitioned_lookup,
    partitioned_reduce,
)
from helpers.hypothesis_profiles import examples

blocks = st.lists(st.lists(st.integers(0, 39), max_size=9), min_size=1, max_size=6).map(
    lambda rows: [np.array(row, np.int64) for row in rows]
)


@pytest.fixture(scope="module")
def folder():
    with tempfile.TemporaryDirectory() as name:
        yield Path(name)


@given(
    st.lists(arrays(np.int32, st.integers(0, 9)), max_size=20),
    st.sampled_from([0, 40, 400]),
    st.integers(1, 4),
    st.sampled_from([1, 50, 1 << 24]),
)
@examples(100)
def test_streams_come_back_as_they_were_and_only_the_first_stay_in_memory(
    folder, streams, max_bytes, at_once, waiting_bytes
):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(spill, "ARRAYS_AT_ONCE", at_once)
        patch.setattr(spill, "GROUP_BYTES", waiting_bytes)
        spilled = SpillStreams(Path(tempfile.mkdtemp(dir=folder)), max_bytes=max_bytes)
        for stream in streams:
            spilled.add(stream)
            assert spilled.kept_bytes <= max_bytes
        assert spilled.size == sum(map(len, streams))
        for _ in range(2):
            lists = [[stream.tolist() for stream in some] for some in spilled]
            assert all(0 < len(some) <= at_once for some in lists)
            assert sorted(chain.from_iterable(lists)) == sorted(map(np.ndarray.tolist, streams))
        sampled = [stream.tolist() for stream in spilled.sample(10)]
        assert all(stream in map(np.ndarray.tolist, streams) for stream in sampled)
        assert bool(sampled) == bool(streams)


@given(
    st.lists(arrays(np.int32, st.tuples(st.integers(0, 5), st.just(3))), max_size=5),
    st.sampled_from([0, 40, 1 << 20]),
    st.data(),
)
@examples(60)
def test_a_column_is_what_was_added(folder, parts, kept, data):
    column = SpillableColumn(
        Path(tempfile.mkdtemp(dir=folder)) / "x", np.int32, width=3, kept_bytes=kept
    )
    whole = np.concatenate([np.zeros((0, 3), np.int32), *parts])
    for part in parts:
        column.add(part)
    first, last = sorted(data.draw(st.tuples(*[st.integers(0, len(whole))] * 2)))
    assert column.size == len(whole)
    assert np.array_equal(column.read(first, last), whole[first:last])
    column.read(0, column.size)[:] = -1  # the caller's own
    assert np.array_equal(np.concatenate([whole[:0], *column.spans(2)]), whole)
    column.remove()


def test_a_column_that_lost_rows_is_an_error(tmp_path):
    column = SpillableColumn(tmp_path / "x", np.int64)
    column.add(np.arange(5))
    (tmp_path / "x").write_bytes(b"short")
    with pytest.raises(OSError, match="Input/output error"):
        column.read(0, 5)


@given(blocks, st.sets(st.integers(1, 39), max_size=5))
@examples(60)
def test_parts_of_a_table_answer_as_the_whole(folder, asked, inner):
    table, edges = np.random.default_rng(1).random(40), np.array([0, *sorted(inner)])
    opened = []

    def part(number):
        opened.append(number)
        first, last = [*edges, 40][number : number + 2]
        return lambda keys: table[first:last][keys - first]

    found = list(partitioned_lookup(asked, edges, part, folder))
    assert all(map(np.array_equal, found, [table[keys] for keys in asked]))
    assert len(found) == len(asked)
    assert opened == list(range(edges.size))


@given(blocks, st.sampled_from([1, 7, 39, 40, 99]))
@examples(60)
def test_what_is_brought_in_parts_adds_up(folder, brought, rows):
    pairs = [(places, places * 3 + 1) for places in brought]
    sums, most = np.zeros(40, np.int64), np.full(40, -5)
    for places, amounts in pairs:
        np.add.at(sums, places, amounts)
        np.maximum.at(most, places, amounts)
    for right, combine, nothing in (
        (sums, np.add.at, np.zeros(1, np.int64)),
        (most, np.maximum.at, np.full(1, -5)),
    ):
        found = list(
            partitioned_reduce(
                iter(pairs), 40, rows, combine=combine, nothing=nothing, folder=folder
            )
        )
        assert np.array_equal(np.concatenate(found), right)
        assert all(part.size <= rows for part in found)
