"""N-grams that the vocabulary does not list: counts of them, and what must not see them."""

import json
import pickle
from collections import Counter
from dataclasses import replace
from functools import partial

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import bayesgram as bg
from bayesgram.audit.attacks import user_with_most_counts, win_rates
from bayesgram.audit.findings import AuditTarget
from bayesgram.errors import BayesgramError
from bayesgram.io import read_records
from bayesgram.io.segments import Segments
from bayesgram.mechanisms.base import Randomness
from bayesgram.mechanisms.gaussian import Gaussian
from bayesgram.paper.algorithm_1 import Paper
from bayesgram.paper.algorithm_2 import Grid, tune
from bayesgram.paper.harness import CachedCounts, load_data
from bayesgram.privacy.budget import Budget
from bayesgram.private import counts as counting
from bayesgram.private import streaming
from bayesgram.private import unlisted as unlisted_module
from bayesgram.private.clipping import clip
from bayesgram.private.counts import (
    MAX_COUNT,
    SegmentedCounts,
    UserCounts,
    UserRows,
    UserSegmentIds,
    add_users,
    count,
    coverage_by_order,
    keep_listed,
    remove_user,
    summarise_counts,
)
from bayesgram.private.counts_io import load_counts, save_counts
from bayesgram.private.counts_on_disk import CountsOnDisk, open_any_counts, open_counts
from bayesgram.private.streaming import count_to_folder
from bayesgram.private.unlisted import UnlistedTotals
from bayesgram.public.vocabulary import Vocabulary
from bayesgram.text import tokenizer as tokenizer_module
from bayesgram.text.ngrams import NgramCounter, NgramMatcher
from bayesgram.text.tokenizer import Tokenizer
from helpers.hostile_text import TOKENIZER_CASES, hostile_text, plain_text, to_rows
from helpers.hypothesis_profiles import examples
from helpers.recording_noise import CLIPPING_PLANS, fixed_clipping_plan, record_measurement
from helpers.remote_counts import ChunkedCounts

WORDS = ["a", "b", "c", "<s>", "</s>", "unknown", "."]
TOKENIZERS = [
    Tokenizer(kind, lowercase, boundaries=boundaries)
    for kind, lowercase in TOKENIZER_CASES
    for boundaries in (False, True)
    if kind != "rows"  # of these see test_row_candidates.py
]
# `<s>` alone is no n-gram of a text, but a list may hold it; an n-gram may stand there twice, or
# never be found.
ENTRIES = {
    1: ["a", "b", "<s>", "</s>", "a", "zzz", "é"],
    2: ["a b", "b a", "<s> a", "a </s>", "a b", "<s> <s>", "</s> a", "zzz a"],
    3: ["a b a", "<s> a b", "b a </s>", "a a a"],
}
words_text = st.lists(st.sampled_from(WORDS), max_size=12).map(" ".join)
any_text = st.one_of(words_text, plain_text, hostile_text)
lists = st.lists(st.sampled_from([1, 2, 3]), min_size=1, max_size=3, unique=True).flatmap(
    lambda orders: st.tuples(
        *(st.lists(st.sampled_from(ENTRIES[order]), min_size=1) for order in sorted(orders))
    ).map(lambda parts: [ngram for part in parts for ngram in part])
)
people = st.lists(
    st.tuples(
        st.sampled_from(["ann", "bob", "cy", "dée"]), any_text, st.sampled_from(["de", "fr"])
    ),
    max_size=8,
)


def make_vocabulary(listed, tokenizer):
    counts = np.arange(len(listed), 0, -1)
    return Vocabulary(
        pa.array(listed, pa.large_string()), counts, len(listed[-1].split(" ")), tokenizer
    )


def windows(texts, orders, tokenizer):
    """How many n-grams of each order are counted in public text of these rows."""
    counter = NgramCounter(orders, tokenizer)
    counter.add(to_rows(texts))
    return [counter.count_windows(order) for order in orders]


def count_listed(texts, vocabulary):
    """Each n-gram's occurrences, by the matcher."""
    rows = [(to_rows(texts), np.zeros(len(texts), np.int32))]
    return Counter(ngram for _, found in vocabulary.matcher.match(rows) for ngram in found.tolist())


def literal(rows, vocabulary, segments=None):
    """{(user, column): count}: unlisted n-grams are those of public text, less the listed ones."""
    ngrams = vocabulary.ngrams.to_pylist()
    orders = [part.order for _, part in vocabulary.by_order]
    names = segments or [None]
    sums = Counter()
    for user, segment in {(user, segment if segments else None) for user, _, segment in rows}:
        texts = [row[1] for row in rows if row[0] == user and segment in {None, row[2]}]
        found = count_listed(texts, vocabulary)
        place = names.index(segment)
        for ngram, number in found.items():
            sums[user, place * len(ngrams) + ngram] += number
        for at, order in enumerate(orders):
            listed = sum(
                number
                for ngram, number in found.items()
                if len(ngrams[ngram].split(" ")) == order
                and not (vocabulary.tokenizer.boundaries and ngrams[ngram] == "<s>")
            )
            total = windows(texts, orders, vocabulary.tokenizer)[at]
            assert total >= listed
            column = len(names) * len(ngrams) + place * len(orders) + at
            sums[user, column] += total - listed
    return {key: number for key, number in sums.items() if number}


def as_dict(counts):
    users = np.repeat(np.arange(len(counts.users)), np.diff(counts.starts))
    return {
        (counts.users[int(user)].as_py().decode(), int(ngram)): int(number)
        for user, ngram, number in zip(users, counts.ngrams, counts.counts, strict=True)
    }


def table(rows):
    columns = zip(*rows, strict=True) if rows else ([], [], [])
    names = ("user", "text", "country")
    return pa.table(
        {name: pa.array(column, pa.string()) for name, column in zip(names, columns, strict=True)}
    )


def same_arrays(first, second):
    assert first.users.to_pylist() == second.users.to_pylist()
    for name in ("starts", "ngrams", "counts"):
        assert getattr(first, name).tolist() == getattr(second, name).tolist()
    assert first.vocabulary_size == second.vocabulary_size
    assert first.unlisted_size == second.unlisted_size


# --- Counting ---


@examples(120)
@given(
    st.lists(any_text, max_size=6),
    lists,
    st.sampled_from(TOKENIZERS),
    st.sampled_from([1, 30, 1 << 20]),
)
@example(["<s> a", "a <s>"], ["<s>", "a"], Tokenizer("whitespace", boundaries=True), 1)
@example(["", "a", "", ""], ["a", "a a"], Tokenizer(boundaries=True), 1 << 20)
def test_listed_and_unlisted_ngrams_of_a_row_are_all_of_public_text(
    texts, listed, tokenizer, chunk
):
    matcher = NgramMatcher(pa.array(listed, pa.large_string()), tokenizer)
    owners = np.arange(len(texts), dtype=np.int32)
    sums = np.zeros((len(texts), len(matcher.orders)), np.int64)
    found = np.zeros_like(sums)

    def add_unlisted(rows, numbers):
        assert (numbers >= 0).all()
        np.add.at(sums, rows, numbers)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tokenizer_module, "CHUNK_BYTES", chunk)
        with_unlisted = list(matcher.match([(to_rows(texts), owners)], add_unlisted=add_unlisted))
        plain = list(matcher.match([(to_rows(texts), owners)]))
    assert [tuple(map(np.ndarray.tolist, pair)) for pair in with_unlisted] == [
        tuple(map(np.ndarray.tolist, pair)) for pair in plain
    ]
    for rows, ngrams in plain:
        for row, ngram in zip(rows.tolist(), ngrams.tolist(), strict=True):
            if not (tokenizer.boundaries and listed[ngram] == "<s>"):
                found[row, matcher.orders.index(len(listed[ngram].split(" ")))] += 1
    for row, text in enumerate(texts):
        assert (sums + found)[row].tolist() == windows([text], matcher.orders, tokenizer)


@examples(80)
@given(people, lists, st.sampled_from(TOKENIZERS), st.integers(0, 8), st.booleans())
def test_counts_are_those_of_public_text_of_each_user(rows, listed, tokenizer, cut, early):
    vocabulary = make_vocabulary(listed, tokenizer)
    with pytest.MonkeyPatch.context() as patch:
        if early:
            patch.setattr(counting, "MAX_PENDING", 1)
            patch.setattr(unlisted_module, "MIN_CAPACITY", 1)
            patch.setattr(tokenizer_module, "CHUNK_BYTES", 1)
        counts = count([table(rows[:cut]), table(rows[cut:])], vocabulary)
        by_segment = count(table(rows), vocabulary, by="country", segments=["de", "fr"])
    assert as_dict(counts) == literal(rows, vocabulary)
    assert counts.unlisted_size == len(vocabulary.by_order)
    assert as_dict(by_segment.flat) == literal(rows, vocabulary, ["de", "fr"])
    assert by_segment.flat.unlisted_size == 2 * len(vocabulary.by_order)
    assert by_segment.vocabulary_size == len(vocabulary)


def test_a_user_without_a_listed_ngram_is_kept_and_one_without_any_ngram_is_not():
    vocabulary = make_vocabulary(["a b"], Tokenizer())
    rows = [("ann", "a b c", ""), ("bob", "x y", ""), ("cy", "a. b", ""), ("dan", "", "")]
    counts = count(table(rows), vocabulary)
    assert as_dict(counts) == {("ann", 0): 1, ("ann", 1): 1, ("bob", 1): 1}
    assert as_dict(counts.listed_only) == {("ann", 0): 1}
    summary = summarise_counts(counts, vocabulary)
    assert (summary.users, summary.users_without_ngrams, summary.nonzeros) == (1, 1, 1)


@examples(60)
@given(
    st.lists(
        st.lists(
            st.tuples(
                st.integers(0, 2**31 - 1) | st.integers(0, 40),
                st.lists(st.integers(0, 2**40), min_size=2, max_size=2),
            ),
            max_size=30,
        ),
        max_size=4,
    ),
    st.sampled_from([1, 2, 1024]),
)
def test_totals_are_those_of_a_dictionary_however_the_table_grows(batches, capacity):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(unlisted_module, "MIN_CAPACITY", capacity)
        totals = UnlistedTotals(2)
        expected = {}
        for batch in batches:
            owners = np.array([owner for owner, _ in batch], np.int32)
            totals.add(owners, np.array([pair for _, pair in batch], np.int64).reshape(-1, 2))
            for owner, pair in batch:
                sums = expected.setdefault(owner, [0, 0])
                expected[owner] = [sums[0] + pair[0], sums[1] + pair[1]]
        owners, numbers = totals.take()
        taken = dict(zip(owners.tolist(), numbers.tolist(), strict=True))
        assert len(taken) == owners.size
        assert taken == {owner: pair for owner, pair in expected.items() if any(pair)}
        assert totals.take()[0].size == 0


def test_absurd_totals_stay_at_the_limit():
    vocabulary = make_vocabulary(["a", "a b"], Tokenizer())
    owners = UserSegmentIds(vocabulary, Segments("country", ("de", "fr")))
    totals = owners.new_unlisted_totals()
    for _ in range(2):
        totals.add(np.array([7], np.int32), np.array([[0, 2**31 - 2]]))
    users, columns, counts = owners.unlisted_rows(totals)
    assert (users.tolist(), columns.tolist()) == ([3], [2 * 2 + 1 * 2 + 1])
    assert counts.tolist() == [MAX_COUNT]


# --- Streaming ---


def many_rows():
    rng = np.random.default_rng(3)
    texts = ["a b a", "b a. unknown a b", "x y z", "a", "", "<s> a b </s>"]
    return [
        (f"u{rng.integers(60)}", str(rng.choice(texts)), str(rng.choice(["de", "fr"])))
        for _ in range(400)
    ]


@pytest.mark.parametrize("segments", [None, Segments("country", ("fr", "de"))], ids=["all", "by"])
@pytest.mark.parametrize("piece", [7, 1 << 19])
def test_a_folder_has_the_same_bytes_whatever_memory_there_is(
    tmp_path, monkeypatch, segments, piece
):
    vocabulary = make_vocabulary(["a", "b", "a b", "b a"], Tokenizer(boundaries=True))
    rows = many_rows()
    monkeypatch.setattr(streaming, "MIN_PENDING", 1)
    monkeypatch.setattr(streaming, "PIECE_SIZE", piece)
    monkeypatch.setattr(tokenizer_module, "CHUNK_BYTES", 200)
    options = {"text_column": "text", "user_column": "user", "segments": segments}
    summaries = []
    for name, memory in (("small", 100), ("large", 10**9)):
        batches = [table(rows[first : first + 50]) for first in range(0, len(rows), 50)]
        summaries.append(
            count_to_folder(
                read_records(batches, **options),
                vocabulary,
                tmp_path / name,
                memory=memory,
                segments=segments,
            )
        )
    for file in ("counts.parquet", "meta.json"):
        assert (tmp_path / "small" / file).read_bytes() == (tmp_path / "large" / file).read_bytes()
    chosen = {} if segments is None else {"by": "country", "segments": segments.names}
    whole = count(table(rows), vocabulary, **chosen)
    save_counts(whole, vocabulary, tmp_path / "whole")
    streamed = load_counts(tmp_path / "small")
    if segments is not None:
        assert json.loads((tmp_path / "small" / "meta.json").read_text())["unlisted"] == 2
        whole_flat, streamed_flat = whole.flat, streamed.flat
    else:
        whole_flat, streamed_flat = whole, streamed
    same_arrays(streamed_flat, whole_flat)
    names = None if segments is None else list(segments.names)
    assert as_dict(streamed_flat) == literal(rows, vocabulary, names)
    assert summaries[0] == summaries[1] == summarise_counts(whole, vocabulary)
    assert 0 < summaries[0].users_without_ngrams < summaries[0].users
    tables = [pq.read_table(tmp_path / name / "counts.parquet") for name in ("small", "whole")]
    plain = [[column.to_pylist() for column in each.columns] for each in tables]
    assert plain[0] == plain[1]


# --- Who must not see them ---


@pytest.fixture(scope="module")
def vocabulary():
    return make_vocabulary(["a", "b", "c", "zzz", "a b", "b a"], Tokenizer())


@pytest.fixture(scope="module")
def counts(vocabulary):
    return count(table([*many_rows(), ("nobody", "x y z. y", "de")]), vocabulary)


def without_unlisted(counts):
    """The same by a plain search: rows of listed n-grams alone."""
    rows = [(key, number) for key, number in as_dict(counts).items()]
    listed = [row for row in rows if row[0][1] < counts.vocabulary_size]
    users = list(dict.fromkeys(user for (user, _), _ in listed))
    sizes = [sum(user == name for (user, _), _ in listed) for name in users]
    return UserCounts(
        pa.array([user.encode() for user in users], pa.large_binary()),
        np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64),
        np.array([ngram for (_, ngram), _ in listed], np.int32),
        np.array([number for _, number in listed], np.int32),
        counts.vocabulary_size,
        counts.vocabulary_fingerprint,
    )


def describe_rows(rows):
    """Users and columns that a measure sees: how many, the sums, and whether all are listed."""
    part = slice(rows.starts[0], rows.starts[-1])
    sums = np.bincount(rows.ngrams[part], rows.counts[part], 20).astype(np.int64)
    users = rows.starts.size - 1
    assert rows.users is None or len(rows.users) == users
    empty = np.count_nonzero(np.diff(rows.starts) == 0)
    lengths = 0 if rows.users is None else sum(map(len, rows.users.to_pylist()))
    return np.append(sums, [users, empty, lengths])


def test_aggregates_are_those_of_counts_without_unlisted_columns(counts, vocabulary, tmp_path):
    plain = without_unlisted(counts)
    same_arrays(counts.listed_only, plain)
    assert plain.listed_only is plain
    assert len(plain.users) < len(counts.users)
    save_counts(counts, vocabulary, tmp_path / "counts")
    on_disk = open_counts(tmp_path / "counts")
    assert isinstance(on_disk, CountsOnDisk)
    remote = ChunkedCounts(counts, (3, 11, 40))
    for each in (counts, on_disk, remote, load_counts(tmp_path / "counts")):
        assert each.unlisted_size == 2
        assert each.aggregate(describe_rows).tolist() == plain.aggregate(describe_rows).tolist()
        assert each.aggregate(describe_rows, np.maximum)[: len(vocabulary)].any()
        assert each.totals.tolist() == plain.totals.tolist()
        assert each.users_per_ngram.tolist() == plain.users_per_ngram.tolist()
        seen = each.aggregate_all(describe_rows)
        expected = np.bincount(counts.ngrams, counts.counts, 20).astype(np.int64)
        assert seen[:20].tolist() == expected.tolist()
        assert seen[20:22].tolist() == [len(counts.users), 0]
    assert plain.aggregate_all(describe_rows).tolist() == plain.aggregate(describe_rows).tolist()


@examples(60)
@given(people, lists, st.integers(0, 6))
def test_rows_are_kept_as_a_plain_search_keeps_them(rows, listed, first):
    """Also where the rows of the first users were cut off."""
    counts = count(table(rows), make_vocabulary(listed, Tokenizer()))
    first = min(first, len(counts.users))
    some = UserRows(counts.starts[first:], counts.ngrams, counts.counts, counts.users[first:])
    kept = keep_listed(some, counts.vocabulary_size)
    names = set(counts.users[first:].to_pylist())
    expected = {
        (user, ngram): number
        for (user, ngram), number in as_dict(counts).items()
        if ngram < counts.vocabulary_size and user.encode() in names
    }
    found = UserCounts(kept.users, *kept[:3], counts.vocabulary_size, None)
    assert as_dict(found) == expected
    assert not np.count_nonzero(np.diff(kept.starts) == 0)
    assert keep_listed(some._replace(users=None), counts.vocabulary_size).users is None


def test_nothing_is_copied_where_there_are_no_unlisted_columns(counts):
    plain = counts.listed_only
    seen = []
    plain.aggregate(lambda rows: np.array([seen.append(rows.ngrams) is None]))
    assert all(ngrams is plain.ngrams for ngrams in seen)


def test_what_goes_to_executors_can_be_pickled(counts):
    class Sent(ChunkedCounts):
        def aggregate_all(self, measure, merge=np.add):
            return super().aggregate_all(pickle.loads(pickle.dumps(measure)), merge)

    sent = Sent(counts, (5,))
    assert sent.totals.tolist() == counts.totals.tolist()
    vocabulary = make_vocabulary(["a", "b", "c", "zzz", "a b", "b a"], Tokenizer())
    assert summarise_counts(sent, vocabulary) == summarise_counts(counts, vocabulary)


def test_neighbours_keep_all_columns(counts):
    less = remove_user(counts, 3)
    assert less.unlisted_size == 2
    name = counts.users[3].as_py().decode()
    assert as_dict(less) == {
        key: number for key, number in as_dict(counts).items() if key[0] != name
    }
    row = np.array([0, 7], np.int32), np.array([5, 6], np.int32)
    more = add_users(counts, [row])
    assert more.unlisted_size == 2
    assert more.aggregate_all(describe_rows)[7] == counts.aggregate_all(describe_rows)[7] + 6


def test_clipping_the_paper_and_audits_see_listed_ngrams_alone(counts, tmp_path):
    vocabulary = make_vocabulary(["a", "b", "c", "zzz", "a b", "b a"], Tokenizer())
    plain = without_unlisted(counts)
    for each in (counts, ChunkedCounts(counts, (4,))):
        clipped = clip(each, max_count=3, max_total=4, key=5)
        expected = clip(plain, max_count=3, max_total=4, key=5)
        assert clipped.totals.tolist() == expected.totals.tolist()
    chosen = [
        tune(
            each,
            vocabulary,
            1.0,
            Randomness.from_seed(1),
            paper=Paper(max_total=10),
            grid=Grid(),
        )
        for each in (counts, plain)
    ]
    assert chosen[0].paper == chosen[1].paper
    assert chosen[0].others.clipped.totals.tolist() == chosen[1].others.clipped.totals.tolist()
    same_arrays(CachedCounts.from_counts(counts), plain)
    target = AuditTarget(Gaussian(), counts, vocabulary, Budget(1.0, 1e-6))
    same_arrays(target.counts, plain)
    attacked = partial(win_rates, vocabulary=vocabulary, mechanism=Gaussian(), pairs=20, seed=1)
    budgets = [Budget(1.0, 1e-6)]
    assert attacked(counts, budgets=budgets) == attacked(plain, budgets=budgets)
    assert user_with_most_counts(plain) < len(plain.users)
    one_order = make_vocabulary(["a", "b"], Tokenizer())
    one_order.save(tmp_path / "vocab.parquet")
    unigrams = count(table(many_rows()), one_order)
    save_counts(unigrams, one_order, tmp_path / "counts")
    same_arrays(
        load_data(tmp_path / "counts", tmp_path / "vocab.parquet").counts, unigrams.listed_only
    )


@pytest.mark.parametrize("mechanism", [Gaussian(), Paper()], ids=lambda each: each.name)
def test_mechanisms_that_do_not_ask_for_them_release_the_same_bits(mechanism):
    vocabulary = make_vocabulary(["a", "b", "c", "zzz"], Tokenizer())
    counts = count(table([*many_rows(), ("nobody", "x y z. y", "de")]), vocabulary)
    first, second = (
        bg.release(each, vocabulary, mechanism, Budget(20.0, 1e-6), seed=4)
        for each in (counts, without_unlisted(counts))
    )
    assert first.probabilities.tobytes() == second.probabilities.tobytes()


@pytest.mark.parametrize("by", [None, "country"])
@pytest.mark.parametrize("listed", [["a", "b", "c", "zzz"], ["a", "b", "a b", "b a"]], ids=str)
def test_amounts_are_those_of_listed_ngrams_alone(listed, by):
    """Somebody who wrote no listed n-gram is in no bin; the counts of `posterior` differ."""
    vocabulary = make_vocabulary(listed, Tokenizer())
    segments = {} if by is None else {"by": by, "segments": ["de", "fr"]}
    counts = count(table([*many_rows(), ("nobody", "x y z. y", "de")]), vocabulary, **segments)
    if by is None:
        mechanism, plain = bg.Posterior(), without_unlisted(counts)
    else:
        mechanism = bg.Posterior().by_segment(counts.segments)
        plain = SegmentedCounts(without_unlisted(counts.flat), counts.segments)
        for segment in (None, "de", "fr"):
            assert counts.totals(segment).tolist() == plain.totals(segment).tolist()
    with fixed_clipping_plan(CLIPPING_PLANS["lost words and counts"]):
        asked, others = (
            record_measurement(mechanism, each, vocabulary, Budget(1.0, 1e-6))[0]
            for each in (counts, plain)
        )
    is_same = [
        (one == other).all() for (_, one, _), (_, other, _) in zip(asked, others, strict=True)
    ]
    assert len(is_same) == 3 * len(vocabulary.by_order)
    assert all(is_same[::3])
    assert not any(is_same[2::3])


@pytest.mark.parametrize("by", [None, "country"])
def test_columns_that_no_order_has_are_refused_before_anything_is_spent(vocabulary, by, tmp_path):
    """A column too many would be added to the place of something else."""
    segments = {} if by is None else {"by": by, "segments": ["de", "fr"]}
    counts = count(table(many_rows()), vocabulary, **segments)
    flat = counts if by is None else counts.flat
    ledger = bg.Ledger.create(tmp_path / "a.ledger", population="p", budget=Budget(5.0, 1e-6))
    for unlisted_size in (flat.unlisted_size + 1, flat.unlisted_size * 2):
        wrong = replace(flat, unlisted_size=unlisted_size)
        wrong = wrong if by is None else replace(counts, flat=wrong)
        with pytest.raises(BayesgramError, match=r"must have [24] \(one for each order"):
            bg.release(
                wrong,
                vocabulary,
                bg.Posterior(),
                Budget(1.0, 1e-6),
                ledger=ledger,
                output=tmp_path / "out",
            )
    assert ledger.read().last_number == 0


# --- Files ---


def test_folders_say_how_many_columns_are_unlisted(counts, vocabulary, tmp_path):
    save_counts(counts, vocabulary, tmp_path / "counts")
    same_arrays(load_counts(tmp_path / "counts"), counts)
    file = tmp_path / "counts" / "meta.json"
    meta = json.loads(file.read_text())
    assert (meta["format"], meta["unlisted"]) == (3, 2)
    file.write_text(json.dumps(meta | {"unlisted": 1}))
    for read in (load_counts, open_counts):
        with pytest.raises(BayesgramError, match="ngram is not in 0 … 6"):
            read(tmp_path / "counts")
    for wrong in (-1, 7, True, "2", None, 1.0):
        file.write_text(json.dumps(meta | {"unlisted": wrong}))
        with pytest.raises(BayesgramError, match=r"meta\.json is damaged"):
            load_counts(tmp_path / "counts")
    del meta["unlisted"]
    file.write_text(json.dumps(meta))
    with pytest.raises(BayesgramError, match=r"meta\.json is damaged"):
        load_counts(tmp_path / "counts")
    save_counts(counts.listed_only, vocabulary, tmp_path / "listed")
    same_arrays(load_counts(tmp_path / "listed"), counts.listed_only)


def test_the_file_of_a_counts_folder_is_read_as_the_folder(counts, vocabulary, tmp_path):
    save_counts(counts, vocabulary, tmp_path / "counts")
    for size in (None, len(vocabulary)):
        again = load_counts(tmp_path / "counts" / "counts.parquet", vocabulary_size=size)
        same_arrays(again, counts)
        assert again.vocabulary_fingerprint == vocabulary.fingerprint
    (tmp_path / "alone").mkdir()
    counts_file = tmp_path / "alone" / "counts.parquet"
    counts_file.write_bytes((tmp_path / "counts" / "counts.parquet").read_bytes())
    with pytest.raises(BayesgramError, match="ngram is not in 0 … 5"):
        load_counts(counts_file, vocabulary_size=len(vocabulary))


def test_folders_by_segment_have_the_columns_of_every_segment(vocabulary, tmp_path):
    counts = count(table(many_rows()), vocabulary, by="country", segments=["de", "fr"])
    save_counts(counts, vocabulary, tmp_path / "counts")
    assert json.loads((tmp_path / "counts" / "meta.json").read_text())["unlisted"] == 2
    for read in (load_counts, open_any_counts):
        again = read(tmp_path / "counts")
        assert again.flat.unlisted_size == 4
        assert coverage_by_order(again, vocabulary) == coverage_by_order(counts, vocabulary)
        assert again.totals("fr").tolist() == counts.totals("fr").tolist()


# --- Coverage ---


@examples(60)
@given(people, lists, st.sampled_from(TOKENIZERS))
@example([("ann", "a b. c", "de")], ["<s>", "a", "<s> a"], Tokenizer(boundaries=True))
def test_coverage_is_the_share_of_all_ngrams_of_public_text(rows, listed, tokenizer):
    vocabulary = make_vocabulary(listed, tokenizer)
    orders = [part.order for _, part in vocabulary.by_order]
    texts = [text for _, text, _ in rows]
    found = count_listed(texts, vocabulary)
    expected = {}
    for order, total in zip(orders, windows(texts, orders, tokenizer), strict=True):
        numbers = [
            number
            for ngram, number in found.items()
            if len(listed[ngram].split(" ")) == order
            and not (tokenizer.boundaries and listed[ngram] == "<s>")
        ]
        if total:
            expected[order] = sum(numbers) / total
    counts = count(table(rows), vocabulary)
    by_segment = count(table(rows), vocabulary, by="country", segments=["de", "fr"])
    assert coverage_by_order(counts, vocabulary) == expected
    assert coverage_by_order(by_segment, vocabulary) == expected
    assert coverage_by_order(counts.listed_only, vocabulary) == {}
    summary = summarise_counts(counts, vocabulary)
    assert summary.coverage == expected
    assert summary.users == len(counts.listed_only.users)
    assert summary.users + summary.users_without_ngrams == len(counts.users)
    assert summary.nonzeros == counts.listed_only.ngrams.size
    assert summarise_counts(counts.listed_only, vocabulary).unlisted == {}
