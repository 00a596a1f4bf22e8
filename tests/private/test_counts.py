"""Counts per user, against a dictionary."""

from collections import Counter
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bayesgram.errors import UsageError
from bayesgram.private import counts as module
from bayesgram.private.counts import (
    MAX_COUNT,
    UserCounts,
    add_users,
    build_user_counts,
    count,
    remove_user,
)
from bayesgram.public.vocabulary import Vocabulary
from bayesgram.text.tokenizer import Tokenizer
from helpers import reference_paper
from helpers.strategies import matrices

WORDS = ["a", "b", "c", "d", "zürich"]
VOCABULARY = Vocabulary(
    pa.array(["a b", "b c", "c a", "zürich a", "d d"], pa.large_string()),
    np.array([5, 4, 3, 2, 1]),
    2,
    Tokenizer(),
)

messages = st.lists(
    st.tuples(
        st.sampled_from(["u1", "u2", "ü3", "u1 ", "u10", "7"]),
        st.lists(st.sampled_from([*WORDS, ".", "unknown"]), max_size=8).map(" ".join),
    ),
    max_size=12,
)


def as_dict(counts):
    users = [name.decode() for name in counts.users.to_pylist()]
    rows = np.repeat(np.arange(len(users)), np.diff(counts.starts))
    return {
        (users[row], int(ngram)): int(number)
        for row, ngram, number in zip(rows, counts.ngrams, counts.counts, strict=True)
    }


def expected(rows):
    """{(user, column): count}; the last column is for bigrams that are not listed."""
    found = Counter()
    ids = {ngram: i for i, ngram in enumerate(VOCABULARY.ngrams.to_pylist())}
    for user, text in rows:
        for sentence in text.split("."):
            words = sentence.split()
            for pair in pairwise(words):
                found[user, ids.get(" ".join(pair), len(ids))] += 1
    return dict(found)


def table(rows):
    return pa.table(
        {"user": [user for user, _ in rows], "text": [text for _, text in rows]}, schema=SCHEMA
    )


SCHEMA = pa.schema({"user": pa.string(), "text": pa.string()})


@settings(deadline=None)
@given(messages)
def test_counts_are_those_of_a_dictionary(rows):
    assert as_dict(count(table(rows), VOCABULARY)) == expected(rows)


@settings(deadline=None)
@given(messages, st.randoms(use_true_random=False), st.integers(0, 12))
def test_a_user_s_records_are_merged_over_all_tables_in_any_order(rows, random, cut):
    shuffled = random.sample(rows, len(rows))
    whole = count(table(rows), VOCABULARY)
    parts = count([table(shuffled[:cut]), table(shuffled[cut:])], VOCABULARY)
    assert parts.users.to_pylist() == whole.users.to_pylist()
    for name in ("starts", "ngrams", "counts"):
        assert getattr(parts, name).tolist() == getattr(whole, name).tolist()


@settings(deadline=None)
@given(messages)
def test_merging_early_changes_nothing(rows):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "MAX_PENDING", 1)
        early = count([table(rows[:5]), table(rows[5:])], VOCABULARY)
    assert as_dict(early) == expected(rows)


def test_rows_are_ascending_and_nobody_is_empty():
    rows = [("b", "d d d"), ("a", "c a b c"), ("c", "nothing known"), ("d", "alone. d . a")]
    counts = count(table(rows), VOCABULARY)
    assert as_dict(counts) == expected(rows)
    assert counts.listed_only.users.to_pylist() == [b"a", b"b"]
    assert counts.listed_only.ngrams.tolist() == [0, 1, 2, 4]
    assert counts.listed_only.counts.tolist() == [1, 1, 1, 2]
    assert counts.totals.tolist() == [1, 1, 1, 0, 2]
    assert counts.users_per_ngram.tolist() == [1, 1, 1, 0, 1]


@given(
    st.lists(
        st.tuples(st.binary(min_size=1, max_size=3), st.integers(0, 3)),
        unique_by=lambda pair: pair[0],
    )
)
def test_users_are_in_order_of_their_hashes_and_then_of_their_ids(pairs):
    """Hashes that are equal are made up here; nobody has seen two ids with the same."""
    names = pa.array([name for name, _ in pairs], pa.large_binary())
    order = module.order_by_hash(names, np.array([value << 62 for _, value in pairs], np.uint64))
    assert [pairs[at] for at in order] == sorted(pairs, key=lambda pair: (pair[1], pair[0]))


@given(
    st.integers(0, 2**32 - 1),
    st.sampled_from([1, 200, 256, 257, 65_536, 70_000, 2**31 - 1]),
    st.integers(1, 300),
    st.booleans(),
)
def test_long_rows_are_sorted_and_merged(seed, vocabulary_size, most, ascending):
    """Also where they ascend already, as in counts that were sorted before."""
    random = np.random.default_rng(seed)
    owners = random.permutation(
        np.repeat(np.arange(3, dtype=np.int32), random.integers(0, most + 1, 3))
    )
    ngrams = random.integers(0, vocabulary_size, owners.size).astype(np.int32)
    if ascending:
        ngrams.sort()
    numbers = random.integers(1, 4, owners.size).astype(np.int32)
    sums = Counter()
    for owner, ngram, number in zip(
        owners.tolist(), ngrams.tolist(), numbers.tolist(), strict=True
    ):
        sums[f"u{owner}", ngram] += number
    names = pa.array([b"u0", b"u1", b"u2"], pa.large_binary())
    assert as_dict(
        build_user_counts(names, owners, ngrams, numbers, vocabulary_size=vocabulary_size)
    ) == dict(sums)


def test_absurd_counts_stay_at_the_limit():
    names = pa.array([b"a"], pa.large_binary())
    zeros, large = np.zeros(3, np.int32), np.full(3, 2_000_000_000, np.int32)
    assert build_user_counts(names, zeros, zeros, large, vocabulary_size=1).counts.tolist() == [
        MAX_COUNT
    ]


def test_nobody():
    counts = count(table([]), VOCABULARY)
    assert len(counts.users) == 0
    assert counts.totals.tolist() == [0] * 5


@pytest.mark.parametrize("as_frame", ["polars", "pandas", "arrow"])
def test_tables_of_other_libraries(as_frame):
    pandas = pytest.importorskip("pandas")
    polars = pytest.importorskip("polars")
    rows = [("a", "A b."), ("b", "b C!"), ("a", "a b")]
    make = {
        "polars": polars.from_arrow,
        "pandas": lambda t: pandas.DataFrame(t.to_pydict()),
        "arrow": lambda t: t,
    }
    counts = count(make[as_frame](table(rows)), VOCABULARY)
    assert as_dict(counts) == {("a", 0): 2, ("b", 1): 1}


def test_rows_that_are_not_one_a_user_are_refused():
    names = pa.array([b"a", b"a"], pa.large_binary())
    good = (np.array([0, 1, 2]), np.array([0, 0], np.int32), np.array([1, 1], np.int32))
    with pytest.raises(
        UsageError,
        match=r"^these are not counts per user; make them with count\(\), load_counts\(\)",
    ):
        UserCounts(names, *good, 1, None)
    distinct = pa.array([b"a", b"b"], pa.large_binary())
    UserCounts(distinct, *good, 1, None)
    for starts, ngrams, numbers in (
        ([0, 2, 2], [1, 0], [1, 1]),  # not ascending
        ([0, 2, 2], [0, 0], [1, 1]),  # twice
        ([0, 1, 2], [0, 2], [1, 1]),  # not in the vocabulary
        ([0, 1, 2], [0, 0], [1, 0]),  # no count
        ([0, 1], [0], [1]),  # a row too few
        ([0, -(10**12), 2], [0, 0], [1, 1]),  # rows that begin before the first
        ([0, 3, 2], [0, 0], [1, 1]),  # rows that end after the last
    ):
        with pytest.raises(UsageError):
            UserCounts(
                distinct,
                np.array(starts),
                np.array(ngrams, np.int32),
                np.array(numbers, np.int32),
                2,
                None,
            )


def test_counts_do_not_show_themselves():
    counts = count(table([("somebody", "a b")]), VOCABULARY)
    assert repr(counts) == "UserCounts(private, over 5 n-grams)"


@given(matrices(users=(1, 6)), st.data())
def test_a_neighbour_lacks_one_user_and_nothing_else(matrix, data):
    user = data.draw(st.integers(0, len(matrix) - 1))
    without = remove_user(reference_paper.make_user_counts(matrix), user)
    expected = reference_paper.make_user_counts(np.delete(matrix, user, axis=0))
    assert (without.starts.tolist(), without.ngrams.tolist(), without.counts.tolist()) == (
        expected.starts.tolist(),
        expected.ngrams.tolist(),
        expected.counts.tolist(),
    )
    assert without.users.to_pylist() == [
        f"u{at}".encode() for at in range(len(matrix)) if at != user
    ]


@given(matrices(users=(0, 6)), matrices(users=(0, 3)))
def test_new_users_come_last_under_ids_that_nobody_has(matrix, more):
    more = np.resize(more, (len(more), matrix.shape[1])) + np.eye(
        len(more), matrix.shape[1], dtype=np.int64
    )
    rows = [(np.flatnonzero(row).astype(np.int32), row[row > 0].astype(np.int32)) for row in more]
    both = add_users(reference_paper.make_user_counts(matrix), rows)
    expected = reference_paper.make_user_counts(np.concatenate([matrix, more]))
    assert (both.starts.tolist(), both.ngrams.tolist(), both.counts.tolist()) == (
        expected.starts.tolist(),
        expected.ngrams.tolist(),
        expected.counts.tolist(),
    )
    assert len(set(both.users.to_pylist())) == len(matrix) + len(more)
    assert both.totals.tolist() == (matrix.sum(axis=0) + more.sum(axis=0)).tolist()
