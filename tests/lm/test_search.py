"""Packed n-grams against plain ones: the same words, children, suffixes, scores and suggestions, however wide they are.

The plain side is dictionaries and loops over what `build_trie` was given.
"""

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bayesgram.lm import search
from bayesgram.lm.packed import BLOCK, Layout, Words, bits_for, child_offset_bits
from bayesgram.lm.quantisation import quantise
from bayesgram.lm.search import SENTENCE_END
from bayesgram.lm.trie import LIKELIEST_WORDS, build_trie
from helpers.hypothesis_profiles import examples
from helpers.reference_tries import ReferenceTrie, make_trie, make_word_list, models


@given(models)
@examples(40)
def test_what_is_unpacked_is_what_was_packed(made):
    trie, plain, levels = made
    for order, rows in enumerate(levels, start=1):
        assert np.array_equal(trie.ngrams(order), rows)
        nodes = trie.nodes(order)
        assert trie.log_probability[nodes].tolist() == [
            plain.log[tuple(row)] for row in rows.tolist()
        ]
        if order < trie.order:
            assert trie.log_backoff[nodes].tolist() == [
                plain.backoff[tuple(row)] for row in rows.tolist()
            ]
        if order > 1:
            suffixes = trie.suffix[nodes] - trie.nodes(order - 1).start
            assert np.array_equal(levels[order - 2][suffixes], rows[:, 1:])
            parents = trie.parents[nodes] - trie.nodes(order - 1).start
            assert np.array_equal(levels[order - 2][parents], rows[:, :-1])
    assert trie.first_child[0] == 1
    assert trie.first_child[-1] == trie.level_starts[-1] == trie.word.size


@given(models, st.integers(0, 10**6))
@examples(40)
def test_walks_are_those_of_the_dictionaries(made, seed):
    trie, plain, levels = made
    rng = np.random.default_rng(seed)
    seen = levels[-1][rng.integers(0, len(levels[-1]), 40)].ravel()
    noise = rng.integers(SENTENCE_END, len(trie.words), seen.size)
    stream = np.where(rng.random(seen.size) < 0.7, seen, noise).astype(np.int32)
    scores, orders, states = trie.score(stream)
    right = plain.walk(stream.tolist(), trie.special)
    assert scores.tolist() == pytest.approx([score for score, _, _ in right], abs=1e-12)
    assert orders.tolist() == [order for _, order, _ in right]
    for at, (_, _, context) in enumerate(right):
        order = len(context)
        assert tuple(trie.ngrams(order)[states[at] - trie.nodes(order).start]) == context


def test_a_long_walk_is_that_of_its_sentences():
    trie, _, levels = make_trie(3, 4, 50, 900)
    rng = np.random.default_rng(1)
    sentences = [
        np.append(levels[-1][rng.integers(0, len(levels[-1]), size)].ravel(), SENTENCE_END).astype(
            np.int32
        )
        for size in rng.integers(1, 200, 60)
    ]
    whole = trie.score(np.concatenate(sentences))
    for kind, parts in enumerate(zip(*map(trie.score, sentences), strict=True)):
        assert np.array_equal(whole[kind], np.concatenate(parts))
    assert whole[0].size > 10 * search.SCORE_BATCH


@given(models, st.integers(0, 10**6), st.sampled_from([1, 3, 7, 1000]))
@examples(40)
def test_the_best_are_those_of_the_dictionaries(made, seed, how_many):
    trie, plain, levels = made
    rng = np.random.default_rng(seed)
    for _ in range(4):
        before = levels[-1][rng.integers(0, len(levels[-1]))][: rng.integers(1, trie.order)]
        context = plain.context(before.tolist())
        state = trie.find_state(before)
        low, high = np.sort(rng.integers(0, len(trie.words) + 1, 2)).tolist()
        for among in (None, (low, high)):
            words = set(range(*(among or (0, len(trie.words))))) - set(trie.special)
            found, scores = trie.predict(state, how_many, among)
            right = plain.best(context, words, how_many)
            assert scores.tolist() == pytest.approx([score for _, score in right], abs=1e-12)
            exact = {word: plain.score(context, word)[0] for word in found.tolist()}
            assert list(exact.values()) == pytest.approx(scores.tolist(), abs=1e-12)
            assert set(found.tolist()) <= words
            assert len(exact) == found.size == len(right)


def test_more_words_are_asked_for_than_are_ranked():
    """When the likeliest words all stand after the context, the others are looked through."""
    words = make_word_list(3 * LIKELIEST_WORDS)
    numbers = np.arange(len(words), dtype=np.int32)
    rng = np.random.default_rng(2)
    logs = np.sort(-6 * rng.random(len(words)))[::-1]
    likely = np.argsort(-logs, kind="stable")[: LIKELIEST_WORDS + 50].astype(np.int32)
    rows = np.unique(np.stack([np.full(likely.size, 7, np.int32), likely], axis=1), axis=0)
    seen = np.full(len(rows), -9.0)
    trie = build_trie([numbers[:, None], rows], words, [logs, seen], [np.full(len(words), -1.0)])
    found, scores = trie.predict(8, 5)
    others = np.setdiff1d(numbers, [*likely, *trie.special])
    right = others[np.argsort(-logs[others].astype(np.float32), kind="stable")][:5]
    assert found.tolist() == right.tolist()
    assert scores.tolist() == pytest.approx((logs[right] - 1).tolist(), abs=1e-6)


@pytest.mark.parametrize("how_many", [1, 3, 40, 64, 100, 700])
def test_after_a_large_context_the_likeliest_are_known(how_many):
    """With the likeliest children kept and without: the same words, also where more are asked for than are kept."""
    rng = np.random.default_rng(how_many)
    words = make_word_list(2500)
    numbers = np.arange(len(words), dtype=np.int32)
    rows = [
        np.stack([np.full(size, at), rng.permutation(len(words))[:size]], axis=1)
        for at, size in ((5, 1500), (9, 700))
    ]
    longer = np.insert(rows[1], 0, 5, axis=1)
    second = np.unique(np.concatenate([*rows, longer[:, :-1], longer[:, 1:]]), axis=0).astype(
        np.int32
    )
    levels = [numbers[:, None], second, np.unique(longer, axis=0).astype(np.int32)]
    logs = [np.round(-5 * rng.random(len(level)), 1) for level in levels]
    trie = build_trie(levels, words, logs, [-rng.random(len(level)) for level in levels[:2]])
    assert trie.for_prediction.large_contexts.size == 3
    for model in (trie, quantise(trie)):
        for state in (
            6,
            10,
            model.find_state(np.array([5, 9], np.int32)),
            0,
            1 + model.special.start,
        ):
            plain = search.predict_words(state, how_many, 0, len(words), model.for_scoring)
            assert [each.tolist() for each in model.predict(state, how_many)] == [
                each.tolist() for each in plain
            ]


@given(models, st.integers(4, 14))
@examples(20)
def test_a_quantised_model_has_the_same_ngrams_and_walks_by_its_own_values(made, bits):
    trie, _, levels = made
    smaller = quantise(trie, bits)
    for order, rows in enumerate(levels, start=1):
        assert np.array_equal(smaller.ngrams(order), rows)
    logs = [
        smaller.log_probability[smaller.nodes(order)].astype(float)
        for order in range(1, trie.order + 1)
    ]
    weights = [
        smaller.log_backoff[smaller.nodes(order)].astype(float) for order in range(1, trie.order)
    ]
    plain = ReferenceTrie(levels, logs, weights)
    stream = levels[-1][:50].ravel()
    right = [score for score, _, _ in plain.walk(stream.tolist(), trie.special)]
    assert smaller.score(stream)[0].tolist() == pytest.approx(right, abs=1e-12)


# How wide it all is


@given(st.lists(st.integers(0, 5000), min_size=1, max_size=300))
def test_children_are_told_from_their_base_in_as_few_bits_as_it_takes(counts):
    first = np.concatenate([[0], np.cumsum(counts)])
    spans = [first[at : at + BLOCK].max() - first[at] for at in range(0, first.size, BLOCK)]
    assert child_offset_bits(first) == int(max(spans)).bit_length()


def test_a_layout_without_gaps():
    layout = Layout((1000, 5000, 70_000), 8, 10, (9, 11))
    words = bits_for(999)
    bits = 1001 * (32 + 32 + 9), 5000 * words, 5001 * (8 + 10 + 11), 70_000 * words, 70_000 * 8
    records, bases, values = layout.array_sizes()
    assert records == sum(-(-each // 8) for each in bits) + 8
    assert bases == 1000 // BLOCK + 1 + 5000 // BLOCK + 1
    assert values == 256 + 1024 + 256


# Words

texts = st.one_of(
    st.text(min_size=1, max_size=40), st.sampled_from(["a" * size for size in range(1, 40)])
)


@given(st.lists(texts, min_size=1, max_size=60), st.lists(texts, max_size=60))
def test_words_are_found_and_others_are_not(known, others):
    encoded = sorted({text.encode() for text in known if text.isprintable()} | {b"x"})
    words = Words.from_array(pa.array(encoded, pa.large_binary()))
    asked = [*encoded, *(text.encode() for text in others if text.isprintable())]
    found = words.find(np.frombuffer(b"".join(asked), np.uint8), np.cumsum([0, *map(len, asked)]))
    assert found.tolist() == [encoded.index(text) if text in encoded else -1 for text in asked]
    assert words.is_sorted_utf8()
    assert words.to_list() == encoded
    for text in asked[:10]:
        prefix = text.decode()[:2]
        low, high = words.prefix_id_range(prefix)
        assert encoded[low:high] == [each for each in encoded if each.startswith(prefix.encode())]


def test_words_out_of_order_are_seen():
    for names in ([b"b", b"a"], [b"a", b"a"], [b"\xff"]):
        data, ends = (
            np.frombuffer(b"".join(names), np.uint8),
            np.cumsum([0, *map(len, names)]).astype(np.uint32),
        )
        assert not Words(data, ends).is_sorted_utf8()
