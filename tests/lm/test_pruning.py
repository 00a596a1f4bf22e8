"""Entropy pruning against its definition: rebuild the model without an n-gram and compare, word by word."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bayesgram.errors import UsageError
from bayesgram.lm.arpa import sum_contexts
from bayesgram.lm.estimate import estimate
from bayesgram.lm.language_model import LanguageModel
from bayesgram.lm.pruning import compute_worth, select_ngrams
from helpers.hypothesis_profiles import examples
from helpers.reference_language_models import make_release, tables


def trie_of(table):
    release = make_release(table)
    totals = np.array(
        [release.card.details["expected_counts"][str(order)] for order in release.orders]
    )
    return estimate(release.ngrams, release.probabilities * totals, release.tokenizer)


def literal_worth(trie, node):
    """p(h) Σ_w P(w|h) log (P(w|h) / P'(w|h)), where P' lacks the n-gram and is normalised anew."""
    p = 10 ** trie.log_probability.astype(float)
    context = int(trie.parents[node])
    children = range(trie.first_child[context], trie.first_child[context + 1])
    kept = [child for child in children if child != node]
    alpha = (1 - sum(p[c] for c in children)) / (1 - sum(p[trie.suffix[c]] for c in children))
    later = (1 - sum(p[c] for c in kept)) / (1 - sum(p[trie.suffix[c]] for c in kept))
    lower = p[trie.suffix[node]]
    unseen = 1 - sum(p[trie.suffix[c]] for c in children)  # of the lower order's mass
    change = p[node] * math.log(p[node] / (later * lower)) + alpha * unseen * math.log(
        alpha / later
    )
    start, end, _ = trie.special
    often, at = 1.0, context
    while at:
        often *= p[1 + end] if at == 1 + start else p[at]
        at = int(trie.parents[at])
    return often * change


@given(tables())
@examples(40)
def test_worth_is_the_relative_entropy_that_is_lost(table):
    trie = trie_of(table)
    worth = compute_worth(trie)
    for node in range(1 + len(trie.words), trie.word.size):
        assert worth[node] == pytest.approx(literal_worth(trie, node), rel=1e-6, abs=1e-12)
    assert (worth >= -1e-12).all()


@given(tables(), st.integers(0, 30))
@examples(60)
def test_exactly_the_target_with_all_contexts_and_suffixes(table, extra):
    whole = trie_of(table)
    size = len(whole.words) + 1 + extra
    masks = select_ngrams(whole, size)
    kept = {
        tuple(row)
        for order, mask in enumerate(masks, start=1)
        for row in whole.ngrams(order)[mask].tolist()
    }
    assert len(kept) == min(size, whole.word.size - 1)
    for ngram in kept:
        assert len(ngram) == 1 or {ngram[:-1], ngram[1:]} <= kept


@given(tables(), st.integers(0, 10))
@examples(40)
def test_a_pruned_model_adds_up_to_one_and_knows_all_words(table, extra):
    release = make_release(table)
    whole = LanguageModel.from_release(release)
    size = len(whole.trie.words) + 1 + extra
    small = LanguageModel.from_release(release, prune=size)
    assert sum(small.sizes) == min(size, sum(whole.sizes))
    assert small.sizes[0] == whole.sizes[0]
    assert np.abs(sum_contexts(small.trie) - 1).max() < 1e-6
    assert math.isfinite(small.score(["a", "zzz", "é"]))


def test_the_least_useful_goes_first():
    """ "b" after "a" says what the words say already, "d" after "c" does not."""
    table = {
        ("a",): 100.0,
        ("b",): 100.0,
        ("c",): 100.0,
        ("d",): 100.0,
        ("a", "b"): 25.0,
        ("c", "d"): 90.0,
    }
    small = LanguageModel.from_release(make_release(table), prune=8)
    assert [each.order for each in small.score_words(["a", "b", "c", "d"])][:4] == [1, 1, 1, 2]


def test_too_small_a_target():
    with pytest.raises(
        UsageError, match=r"^prune=5: a model of 5 words keeps 6 n-grams or more\.$"
    ):
        LanguageModel.from_release(make_release({("a", "b"): 1.0, ("b", "a"): 1.0}), prune=5)
