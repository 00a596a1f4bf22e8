"""Rounded models: what they keep, what all words add up to, what it costs, and models that fit into so many bytes."""

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bayesgram.errors import UsageError
from bayesgram.lm.language_model import (
    SIZE_TOLERANCE,
    LanguageModel,
    fit_to_size,
    quantised_size,
)
from bayesgram.lm.pruning import pruned_layout
from bayesgram.lm.quantisation import build_codebook, find_nearest, quantise
from bayesgram.lm.trie import Trie, sum_contexts
from bayesgram.synthetic.population import Population
from bayesgram.text.ngrams import NgramCounter
from bayesgram.text.tokenizer import Tokenizer
from helpers.hypothesis_profiles import examples
from helpers.reference_language_models import make_release, tables


@pytest.fixture(scope="module")
def messages():
    return next(Population(users=600, seed=5).messages())["text"].cast(pa.large_binary())


@pytest.fixture(scope="module")
def table(messages):
    """The n-grams of half of the messages."""
    counter = NgramCounter((1, 2, 3, 4), Tokenizer())
    counter.add(messages[: len(messages) // 2])
    words = [token.decode() for token in counter.tokens.strings().to_pylist()]
    ngrams, counts = [], []
    for order in (1, 2, 3, 4):
        [windows] = counter.tables(order)
        for rows, found in windows.entries():
            ngrams += [" ".join(words[number] for number in row) for row in rows.tolist()]
            counts += found.tolist()
    return pa.array(ngrams, pa.large_string()), counts


@pytest.fixture(scope="module")
def model(table):
    return LanguageModel.from_counts(*table)


@given(tables(), st.integers(7, 14))
@examples(40)
def test_few_values_are_kept_as_they_are(table, bits):
    """A codebook that has room for every value has every value."""
    exact = LanguageModel.from_release(make_release(table)).trie
    rounded = quantise(exact, bits)
    assert np.array_equal(rounded.log_probability, exact.log_probability)
    assert np.abs(sum_contexts(rounded) - 1).max() < 1e-6
    assert exact.layout.probability_bits == 32
    assert rounded.layout.probability_bits == bits


@pytest.mark.parametrize(
    ("bits", "most", "on_average"),
    [(4, 0.25, 0.01), (6, 0.1, 3e-3), (8, 0.02, 5e-4), (12, 2e-3, 5e-5)],
)
def test_contexts_add_up_to_one_but_for_the_rounding_of_one_weight(model, bits, most, on_average):
    rounded = quantise(model.trie, bits)
    off = np.abs(sum_contexts(rounded) - 1)
    assert off[: rounded.nodes(1).stop].max() < 1e-6  # after nothing, and after any single word
    assert off.max() < most
    assert off.mean() < on_average
    assert rounded.log_probability.max() <= 0
    weight = np.abs(rounded.log_backoff - _exact_weights(rounded))
    assert (off <= 1.01 * (10**weight - 1) + 1e-6).all()


def _exact_weights(trie):
    """log10 of the back-off weights with which every context adds up to one."""
    p = 10 ** trie.log_probability.astype(float)
    longer = np.arange(1 + len(trie.words), p.size)
    left = 1 - np.bincount(trie.parents[longer], p[longer], trie.context_count)
    below = 1 - np.bincount(trie.parents[longer], p[trie.suffix[longer]], trie.context_count)
    return np.log10(np.concatenate([[1.0], (left / below)[1:]]))


def test_eight_bits_cost_next_to_nothing(model, messages):
    texts = messages[len(messages) // 2 :].cast(pa.large_string()).to_pylist()
    exact, rounded = model.perplexity(texts), model.quantise().perplexity(texts)
    assert rounded == pytest.approx(exact, rel=5e-3)
    assert model.quantise().size_on_disk < 0.75 * model.size_on_disk


@given(st.lists(st.floats(-90, 0, width=32), min_size=1, max_size=400), st.integers(1, 6))
def test_a_codebook_has_the_least_and_is_near_to_all(values, bits):
    values = np.array(values)
    book = build_codebook(values, 1 << bits)
    assert book.size == 1 << bits
    assert (np.diff(book) >= 0).all()
    assert book[0] == np.float32(values.min())
    found = book[find_nearest(book, values)]
    assert np.abs(found - values) == pytest.approx(
        np.abs(book[:, None] - values).min(axis=0), abs=1e-4
    )
    wide = (values.max() - values.min()) / max(1, (1 << bits) // 2 - 1)
    if bits > 2:
        assert np.abs(found - values).max() <= wide + 1e-4


@pytest.mark.parametrize("bits", [0, 3, 15, 32, 8.0, True, "8", None])
def test_bits_that_there_are_not(model, bits):
    with pytest.raises(
        UsageError, match=rf"^bits={bits}: of a probability is a whole number from 4 to 14\.$"
    ):
        model.quantise(bits)


@pytest.mark.parametrize("share", [0.02, 0.3, 0.5, 0.9])
def test_the_most_that_fits(table, model, share):
    words = model.sizes[0]

    def build(most):
        return LanguageModel.from_counts(*table, prune=most)

    smallest, whole = build(words + 1).quantise().size_on_disk, model.quantise().size_on_disk
    limit = int(smallest + share * (whole - smallest))
    found = fit_to_size(build, limit)
    another_order = 6_000  # its codebooks come all at once
    assert 0.97 * limit - another_order <= found.size_on_disk <= limit
    assert words < sum(found.sizes) < sum(model.sizes)
    assert np.abs(sum_contexts(found.trie) - 1).max() < 0.05


@pytest.mark.parametrize("bits", [4, 8, 14])
@pytest.mark.parametrize("share", [0.01, 0.4, 1.0])
def test_the_size_is_known_before_a_model_is_built(model, bits, share):
    words, ngrams = model.sizes[0], sum(model.sizes)
    size = max(int(share * ngrams), words + 1)
    pruned = model.prune(size)
    assert pruned_layout(model.trie, size) == pruned.trie.layout
    assert abs(quantised_size(pruned, bits) - pruned.quantise(bits).size_on_disk) <= SIZE_TOLERANCE


def test_links_that_are_known_are_those_that_are_found(model):
    pruned = model.prune(model.sizes[0] + sum(model.sizes[1:]) // 2).trie
    searched = Trie(pruned.words, pruned.layout, pruned.records, pruned.bases, pruned.codebooks)
    assert np.array_equal(pruned.suffix, searched.suffix)
    assert np.array_equal(pruned.parents, searched.parents)
    assert pruned.suffix.dtype == searched.suffix.dtype == pruned.parents.dtype


def test_what_fits_is_whole_and_what_can_not_is_refused(table, model):
    def build(most):
        return LanguageModel.from_counts(*table, prune=most)

    whole = model.quantise()
    assert fit_to_size(build, whole.size_on_disk).sizes == model.sizes
    smallest = build(model.sizes[0] + 1).quantise().size_on_disk
    assert sum(fit_to_size(build, smallest).sizes) == model.sizes[0] + 1
    with pytest.raises(
        UsageError,
        match=rf"^max_size=\d+KB: the smallest model of these {model.sizes[0]:,} words takes",
    ):
        fit_to_size(build, smallest - 1)
