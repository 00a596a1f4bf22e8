"""Where a word stands among suggestions, against lists of them: prefix by prefix, word by word."""

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bayesgram.lm.packed import Words
from bayesgram.lm.quantisation import quantise
from bayesgram.lm.search import NEVER_SUGGESTED, rank_words
from bayesgram.lm.trie import LIKELIEST_CHILDREN, LIKELIEST_WORDS, build_trie
from helpers.hypothesis_profiles import examples
from helpers.reference_tries import add_prefixes_and_suffixes, make_word_list, models

NAMES = [
    "a",
    "ab",
    "abc",
    "abcd",
    "abé",
    "abéé",
    "b",
    "ba",
    "é",
    "éa",
    "ééé",
    "𝒱",
    "𝒱a",
    "𝒱ab",
    "z",
    "za",
    "zb",
    "zc",
]


def literal(trie, state, word, most):
    """The rank among the first `most`, and the letters typed: lists of suggestions, letter by letter."""
    if word == trie.special[2]:
        return most, NEVER_SUGGESTED
    name = trie.words[word]
    listed = trie.predict(state, most)[0].tolist()
    rank = listed.index(word) if word in listed else most
    for letters in range(len(name)):
        among = trie.words.prefix_id_range(name[:letters]) if letters else None
        if word in trie.predict(state, most, among)[0].tolist():
            return rank, letters
    return rank, NEVER_SUGGESTED


def ranked(trie, states, words, most):
    found = rank_words(
        np.array(states, np.int32),
        np.array(words, np.int32),
        most,
        trie.words.data,
        trie.words.ends,
        trie.for_prediction,
    )
    return list(zip(*(each.tolist() for each in found), strict=True))


def small_model(seed, order, ngrams):
    """Words that begin alike, in letters of one byte to four, and few different values: ties everywhere."""
    rng = np.random.default_rng(seed)
    words = Words.from_array(
        pa.array(
            sorted(name.encode() for name in [*NAMES, "<s>", "</s>", "<unk>"]), pa.large_binary()
        )
    )
    levels = add_prefixes_and_suffixes(
        np.unique(rng.integers(0, len(words), (ngrams, order)), axis=0).astype(np.int32), len(words)
    )
    logs = [-rng.integers(1, 4, len(rows)).astype(float) for rows in levels]
    backoffs = [-rng.integers(0, 2, len(rows)).astype(float) for rows in levels[:-1]]
    return build_trie(levels, words, logs, backoffs)


@given(st.integers(0, 10**6), st.integers(2, 4), st.integers(1, 60), st.sampled_from([1, 2, 3, 5]))
@examples(60)
def test_words_stand_where_the_lists_have_them_ties_included(seed, order, ngrams, most):
    trie = small_model(seed, order, ngrams)
    rng = np.random.default_rng(seed)
    states = np.sort(rng.integers(0, trie.context_count, 4)).tolist()
    pairs = [
        (state, word)
        for state in states
        for word in range(len(trie.words))
        if word not in trie.special[:2]
    ]
    assert ranked(trie, *zip(*pairs, strict=True), most) == [
        literal(trie, *pair, most) for pair in pairs
    ]


@given(models, st.integers(0, 10**6))
@examples(30)
def test_any_model_exact_and_rounded(made, seed):
    trie = made[0]
    rng = np.random.default_rng(seed)
    pairs = [
        (rng.integers(0, trie.context_count), rng.integers(0, len(trie.words))) for _ in range(8)
    ]
    pairs = [(int(state), int(word)) for state, word in pairs if word not in trie.special[:2]] or [
        (0, trie.special[2])
    ]
    for model in (trie, quantise(trie)):
        assert ranked(model, *zip(*pairs, strict=True), 3) == [
            literal(model, *pair, 3) for pair in pairs
        ]


@pytest.mark.parametrize("most", [3, LIKELIEST_CHILDREN + 6])
def test_after_large_contexts(most):
    """Whether the likeliest that are kept are enough or not."""
    rng = np.random.default_rng(most)
    words = make_word_list(2500)
    rows = [
        np.stack([np.full(size, at), rng.permutation(len(words))[:size]], axis=1)
        for at, size in ((5, 1500), (9, 700))
    ]
    second = np.unique(np.concatenate(rows), axis=0).astype(np.int32)
    logs = [np.round(-3 * rng.random(size), 1) for size in (len(words), len(second))]
    levels = [np.arange(len(words), dtype=np.int32)[:, None], second]
    trie = build_trie(levels, words, logs, [-rng.random(len(words))])
    assert trie.for_prediction.large_contexts.size == 2
    likely = np.argsort(-logs[0])[:20].tolist()
    wanted = sorted(
        {*likely, *trie.predict(6, 90)[0].tolist(), *trie.predict(10, 5)[0].tolist()}
        - set(trie.special)
    )
    pairs = [(state, word) for state in (0, 6, 10) for word in wanted]
    assert ranked(trie, *zip(*pairs, strict=True), most) == [
        literal(trie, *pair, most) for pair in pairs
    ]


def test_words_beyond_those_that_are_ranked():
    """All words alike: the first in byte order are suggested, and the last stand behind more than are ranked."""
    words = make_word_list(LIKELIEST_WORDS + 2000)
    numbers = np.arange(len(words), dtype=np.int32)
    pair = np.array([[7, 8]], np.int32)
    trie = build_trie(
        [numbers[:, None], pair],
        words,
        [np.full(len(words), -4.0), np.array([-4.0])],
        [np.zeros(len(words))],
    )
    wanted = [8, 3, 4, 5, 6, len(words) - 1]
    pairs = [(8, word) for word in wanted] + [(0, word) for word in wanted]
    assert ranked(trie, *zip(*pairs, strict=True), 3) == [literal(trie, *pair, 3) for pair in pairs]
