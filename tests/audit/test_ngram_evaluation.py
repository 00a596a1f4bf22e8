"""Coverage, error removed and top n-grams, against literal slow code."""

import math
from collections import Counter
from dataclasses import replace
from itertools import permutations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import bayesgram as bg
from bayesgram.audit.ngram_evaluation import (
    PrivateNgrams,
    count_listed,
    evaluate_release,
    share_in_top,
)
from bayesgram.errors import BayesgramError
from bayesgram.releases.quality import read_quality
from bayesgram.text.tokenizer import Tokenizer

WORDS = ["red", "blue", "fish", "swim", "in", "the", "deep", "sea", "and", "sing"]
SMALL_COUNTS = st.lists(st.integers(0, 3), min_size=1, max_size=5)


def make_texts(seed, rows=300):
    rng = np.random.default_rng(seed)
    weights = 1 / np.arange(1, len(WORDS) + 1)
    lengths = rng.integers(1, 9, rows)
    return [
        " ".join(rng.choice(WORDS, length, p=weights / weights.sum()))
        for length in lengths.tolist()
    ]


def to_batches(texts):
    return [pa.array([text.encode() for text in part], pa.large_binary()) for part in texts]


def count_slowly(texts, order):
    counts = Counter()
    for text in texts:
        words = text.split()
        counts.update(" ".join(words[at : at + order]) for at in range(len(words) - order + 1))
    return counts


def make_release():
    public = pa.table({"text": make_texts(1, 200)})
    vocabulary = bg.Vocabulary.from_public(public, order=[1, 2], size=[6, 25])
    texts = make_texts(2)
    users = [f"user {row % 50}" for row in range(len(texts))]
    counts = bg.count(pa.table({"user": users, "text": texts}), vocabulary)
    return bg.release(counts, vocabulary, epsilon=1, seed=1), vocabulary, counts, texts


@pytest.fixture(scope="module")
def made():
    return make_release()


def kl_slowly(counts, theta):
    total = sum(counts)
    pairs = zip(counts, theta, strict=True)
    return sum(n / total * math.log(n / total / q) for n, q in pairs if n)


def test_coverage_and_error_removed_are_those_of_slow_code(made):
    release, vocabulary, counts, texts = made
    private = PrivateNgrams.from_texts(
        to_batches([texts[:100], texts[100:]]), release.ngrams, release.orders, Tokenizer()
    )
    assert private.listed.tolist() == counts.totals.tolist()
    evaluations = evaluate_release("ours", release, private, vocabulary.prior)
    assert [evaluation.order for evaluation in evaluations] == [1, 2]
    for evaluation in evaluations:
        rows = np.flatnonzero(release.orders == evaluation.order)
        all_counts = count_slowly(texts, evaluation.order)
        listed = [all_counts[release.ngrams[row].as_py()] for row in rows.tolist()]
        assert evaluation.coverage == pytest.approx(sum(listed) / sum(all_counts.values()))
        assert evaluation.error_removed == pytest.approx(
            1
            - kl_slowly(listed, release.probabilities[rows])
            / kl_slowly(listed, vocabulary.prior[rows])
        )
        assert sorted(private.by_order[evaluation.order]) == sorted(all_counts.values())
        assert [top.size for top in evaluation.top] == [len(all_counts)]
        assert evaluation.top[0].listed == sum(count > 0 for count in listed)
        assert evaluation.estimate == read_quality(release.card.details)[evaluation.order]


def test_counts_alone_give_the_same_error_removed_and_nothing_else(made):
    release, vocabulary, counts, _ = made
    by_counts = evaluate_release(
        "ours", release, PrivateNgrams(counts.totals, {}), vocabulary.prior
    )
    assert [(found.coverage, found.top) for found in by_counts] == [(None, ()), (None, ())]
    assert all(found.error_removed is not None for found in by_counts)
    without = evaluate_release("ours", release, PrivateNgrams(counts.totals, {}), None)
    assert [found.error_removed for found in without] == [None, None]


def test_the_card_is_beside_it(made):
    release, vocabulary, counts, _ = made
    details = {
        "coverage": {"2": {"share": 0.5, "std": 0.01}},
        "quality": {"2": {"error_removed": 0.7, "known": 3.0, "known_mass": 0.5}},
    }
    card = replace(release.card, details={**release.card.details, **details})
    estimated = replace(release, card=card)
    first, second = evaluate_release(
        "ours", estimated, PrivateNgrams(counts.totals, {}), vocabulary.prior
    )
    assert (first.coverage_estimate, first.error_removed_estimate) == (None, None)
    assert second.to_json()["coverage_estimate"] == {"share": 0.5, "std": 0.01}
    assert second.to_json()["error_removed_estimate"] == 0.7


def test_a_release_that_rules_out_what_people_write(made):
    release, vocabulary, counts, _ = made
    theta = release.probabilities.copy()
    theta[np.argmax(counts.totals)] = 0.0
    zero = replace(release, probabilities=theta)
    found = evaluate_release("x", zero, PrivateNgrams(counts.totals, {}), vocabulary.prior)[0]
    assert found.error_removed == -math.inf
    assert found.to_json()["error_removed"] is None
    assert found.to_json()["is_infinite"]


def test_sentence_starts_are_no_words():
    tokenizer = Tokenizer(boundaries=True)
    ngrams = pa.array(["red", "</s>", "<s> red"], pa.large_string())
    texts = to_batches([["red fish", "red"]])
    private = PrivateNgrams.from_texts(texts, ngrams, np.array([1, 1, 2]), tokenizer)
    assert private.listed.tolist() == [2, 2, 2]
    assert sorted(private.by_order[1].tolist()) == [1, 2, 2]  # fish, red, </s>
    assert sorted(private.by_order[2].tolist()) == [1, 1, 1, 2]


def test_a_text_without_ngrams_is_refused():
    ngrams = pa.array(["red fish"], pa.large_string())
    with pytest.raises(BayesgramError, match="no n-gram of the orders of the release"):
        PrivateNgrams.from_texts(to_batches([["red", "... !"]]), ngrams, np.array([2]), Tokenizer())


def mean_over_tie_breaks(values, others, size):
    """The mean overlap over all orders of the n-grams, of each side by itself."""
    places = range(len(values))

    def tops(numbers):
        for shuffled in permutations(places):
            yield set(sorted(shuffled, key=lambda place: -numbers[place])[:size])

    overlaps = [len(a & b) / size for a in tops(values) for b in tops(others)]
    return sum(overlaps) / len(overlaps)


@given(
    pairs=st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3)), min_size=1, max_size=4),
    data=st.data(),
)
def test_shares_are_means_over_all_ways_to_break_ties(pairs, data):
    values, others = (np.array(column) for column in zip(*pairs, strict=True))
    size = data.draw(st.integers(1, len(pairs)))
    assert share_in_top(values, others, size) == pytest.approx(
        mean_over_tie_breaks(values.tolist(), others.tolist(), size)
    )


@given(listed=SMALL_COUNTS, others=SMALL_COUNTS, data=st.data())
def test_listed_are_counted_over_all_ways_to_break_ties(listed, others, data):
    counts = [(count, True) for count in listed if count]
    counts += [(count + 1, False) for count in others]
    counts = counts[:6]
    size = data.draw(st.integers(1, len(counts)))
    orders = [sorted(shuffled, key=lambda pair: -pair[0]) for shuffled in permutations(counts)]
    expected = sum(sum(is_listed for _, is_listed in order[:size]) for order in orders)
    found = count_listed(
        np.array([count for count, _ in counts]),
        np.array([count for count, is_listed in counts if is_listed] + [0, 0]),
        size,
    )
    assert found == pytest.approx(expected / len(orders))
