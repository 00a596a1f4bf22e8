"""Models mixed into one: against a slow reference, normalised, the same to KenLM."""

import math
from dataclasses import replace
from itertools import product

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

import bayesgram as bg
from bayesgram.errors import BayesgramError, UsageError
from bayesgram.lm.arpa import read_arpa, sum_contexts, write_arpa
from bayesgram.lm.interpolation import fit_mixture_weights, interpolate, maximise_likelihood
from bayesgram.lm.language_model import LanguageModel
from bayesgram.lm.packed import is_consistent
from bayesgram.text.tokenizer import Tokenizer
from helpers.hypothesis_profiles import examples
from helpers.reference_language_models import (
    END,
    START,
    UNKNOWN,
    all_probabilities,
    make_release,
    tables,
)

WORDS_OF_ARPA = ("a", "b", END, UNKNOWN)
TEXT = "red fish swim . blue fish swim . a cat"


def make_trie(table):
    return LanguageModel.from_release(make_release(table))


def names(model):
    return [word.decode() for word in model.trie.words.to_list()]


class Mixture:
    """Σ λ p_k, by loops over dictionaries: every model divides its <unk> among the words that others have."""

    def __init__(self, models, weights):
        self.models, self.weights = models, weights
        self.words = sorted(
            {word for model in models for word in names(model)} - {START}, key=str.encode
        )
        known = [set(names(model)) for model in models]
        single = [self._own(model, []) for model in models]
        expected = {}
        for word in self.words:
            given = [found[word] for found in single if word in found]
            expected[word] = min(given) if word == UNKNOWN else sum(given) / len(given)
        self.shares = []
        for words in known:
            part = {
                word: expected[word] for word in self.words if word not in words or word == UNKNOWN
            }
            self.shares.append({word: value / sum(part.values()) for word, value in part.items()})

    @staticmethod
    def _own(model, context):
        words = names(model)
        numbers = [words.index(word if word in words else UNKNOWN) for word in context]
        return {words[number]: p for number, p in all_probabilities(model)(numbers).items()}

    def part(self, at, context):
        """What one model says of all words after a context."""
        found = self._own(self.models[at], context)
        shares = self.shares[at]
        return {
            word: found[UNKNOWN] * shares[word] if word in shares else found[word]
            for word in self.words
        }

    def after(self, context):
        parts = [self.part(at, context) for at in range(len(self.models))]
        return {
            word: sum(weight * part[word] for weight, part in zip(self.weights, parts, strict=True))
            for word in self.words
        }


def overlap(models):
    return all(
        any(
            set(names(one)) & set(names(other)) - {START, END, UNKNOWN}
            for other in models
            if other is not one
        )
        for one in models
    )


def check(models, weights):
    """Every n-gram of the mixed model has the mixed probability, and every context adds up to one."""
    mixed, reference = interpolate(models, weights), Mixture(models, weights)
    words = names(mixed)
    assert {*words} == {*reference.words, START}
    assert is_consistent(mixed.trie.for_scoring)
    assert np.abs(sum_contexts(mixed.trie) - 1).max() < 1e-6
    wanted = {
        tuple(names(model)[n] for n in row)
        for model in models
        for o in range(1, model.order + 1)
        for row in model.trie.ngrams(o).tolist()
    }
    listed = {
        tuple(words[n] for n in row)
        for o in range(1, mixed.order + 1)
        for row in mixed.trie.ngrams(o).tolist()
    }
    assert listed == wanted
    for order in range(1, mixed.order + 1):
        nodes = range(mixed.trie.nodes(order).start, mixed.trie.nodes(order).stop)
        after = {}
        for node, row in zip(nodes, mixed.trie.ngrams(order).tolist(), strict=True):
            *context, last = (words[number] for number in row)
            found = after.setdefault(tuple(context), reference.after(context))
            assert math.fsum(found.values()) == pytest.approx(1, abs=1e-5)
            if last != START:
                assert 10 ** float(mixed.trie.log_probability[node]) == pytest.approx(
                    found[last], rel=2e-4
                )
    return mixed


@given(
    st.lists(tables(), min_size=2, max_size=3), st.lists(st.floats(0.01, 1), min_size=3, max_size=3)
)
@examples(60)
def test_mixed_is_what_the_definition_says(several, raw):
    models = [make_trie(table) for table in several]
    assume(overlap(models))
    weights = np.array(raw[: len(models)]) / sum(raw[: len(models)])
    check(models, weights)


def arpa_with_unknown(path, probabilities, after_unknown):
    """An ARPA file of order 2 that has n-grams with <unk>, as other tools write them."""
    words = dict(zip(WORDS_OF_ARPA, probabilities, strict=True))
    pairs = {(UNKNOWN, word): p for word, p in zip(WORDS_OF_ARPA, after_unknown, strict=True)} | {
        ("a", UNKNOWN): 0.6
    }
    left = (1 - 0.6) / (1 - words[UNKNOWN])
    lines = ["\\data\\", "ngram 1=5", f"ngram 2={len(pairs)}", "", "\\1-grams:", f"0\t{START}\t0"]
    lines += [
        f"{math.log10(p):.7f}\t{word}\t{math.log10(left) if word == 'a' else 0:.7f}"
        for word, p in words.items()
    ]
    lines += [
        "",
        "\\2-grams:",
        *(f"{math.log10(p):.7f}\t{' '.join(pair)}" for pair, p in pairs.items()),
        "",
        "\\end\\",
        "",
    ]
    path.write_text("\n".join(lines), encoding="utf-8")
    return read_arpa(path, tokenizer=Tokenizer("whitespace"))


def test_unknown_words_as_contexts_and_predictions(tmp_path):
    """A model of another tool may have n-grams with <unk>: they stand for the words that only others have."""
    foreign = arpa_with_unknown(tmp_path / "a.arpa", (0.5, 0.2, 0.1, 0.2), (0.1, 0.3, 0.2, 0.4))
    ours = make_trie({("a", "c"): 3.0, ("c", "b"): 2.0, ("c", "c"): 1.0, ("a", "b"): 1.0})
    mixed = check([foreign, ours], [0.7, 0.3])
    assert mixed.sizes[1] == 9


def test_order_of_models_and_scale_of_weights_change_nothing():
    one, two = (
        make_trie({("a", "b"): 3.0, ("b", "c", "a"): 1.0}),
        make_trie({("a", "b", "d"): 3.0, ("b", "c"): 1.0}),
    )
    mixed = [interpolate([one, two], [3, 1]), interpolate([two, one], [0.25, 0.75])]
    for sentence in product(("a", "b", "d", "zzz"), repeat=3):
        assert mixed[0].score(sentence) == pytest.approx(mixed[1].score(sentence), abs=1e-6)
    alone = interpolate([one, two], [1, 0])
    assert alone.sizes == one.sizes
    assert alone.score(["a", "b"]) == pytest.approx(one.score(["a", "b"]), abs=1e-6)


@given(tables())
@examples(20)
def test_a_model_mixed_with_itself_is_itself(table):
    model = make_trie(table)
    assume(len(model.trie.words) > 3)
    assume(
        max(table.values()) < 1e14 * min(table.values())
    )  # less is left for other words than 1 − Σp can tell
    mixed = interpolate([model, model], [0.3, 0.7])
    for sentence in ([], ["a"], ["a", "b", "é", "a"], ["zzz", "c", "𝒱"]):
        assert mixed.score(sentence) == pytest.approx(model.score(sentence), abs=1e-3)


def test_em_climbs_to_the_best_weights():
    rng = np.random.default_rng(5)
    likelihoods = rng.random((400, 2)) * [0.3, 1.0]
    weights = maximise_likelihood(likelihoods)
    at = {
        share: np.log(likelihoods @ [share, 1 - share]).mean() for share in np.linspace(0, 1, 201)
    }
    assert weights.sum() == pytest.approx(1)
    assert np.log(likelihoods @ weights).mean() >= max(at.values()) - 1e-7


def test_tuned_weights_find_the_text_they_are_tuned_by():
    near = LanguageModel.from_counts(
        pa.array(["red fish", "fish swim", "blue fish"]), [5, 5, 3], Tokenizer("whitespace")
    )
    far = LanguageModel.from_counts(
        pa.array(["green cat", "cat swim", "blue cat"]), [5, 5, 3], Tokenizer("whitespace")
    )
    rows = pa.array([b"red fish swim", b"blue fish swim"] * 5, pa.large_binary())
    weights = fit_mixture_weights([near, far], [rows])
    assert weights[0] > 0.9
    assert fit_mixture_weights([far, near], [rows]) == pytest.approx(weights[::-1], abs=1e-5)
    tuned = interpolate([near, far], weights)
    assert tuned.perplexity(["red fish swim"] * 2) < interpolate([near, far]).perplexity(
        ["red fish swim"] * 2
    )
    assert tuned.about["interpolated"][0]["weight"] == weights[0]


def test_weights_are_tuned_on_the_mixture_that_is_made():
    """With one model for each column: what EM sees is what the reference says of each word."""
    one, two = (
        make_trie({("a", "b"): 3.0, ("b", "c"): 1.0}),
        make_trie({("a", "d"): 3.0, ("d", "c"): 1.0}),
    )
    reference = Mixture([one, two], [0.5, 0.5])
    sentence = ["a", "d", "c", "b", "zzz", "a"]
    rows = []
    for at, word in enumerate([*sentence, END]):
        if word != "zzz":
            rows.append([reference.part(k, [START, *sentence[:at]])[word] for k in range(2)])
    found = fit_mixture_weights(
        [one, two], [pa.array([" ".join(sentence).encode()], pa.large_binary())]
    )
    assert found == pytest.approx(maximise_likelihood(np.array(rows)), abs=1e-4)


@pytest.mark.parametrize("weights", [[1], [1, 2, 3], [[1, 2]]])
def test_a_weight_for_each_model(weights):
    model = make_trie({("a", "b"): 1.0})
    with pytest.raises(UsageError, match=r"^weights: \d for 2 models; give one for each\.$"):
        interpolate([model, model], weights)


@pytest.mark.parametrize("weights", [[-1, 2], [0, 0], [math.nan, 1], [math.inf, 1]])
def test_weights_out_of_range(weights):
    model = make_trie({("a", "b"): 1.0})
    with pytest.raises(
        UsageError, match=r"^weights=[^:]*: each is a number from 0, and one is above 0\.$"
    ):
        interpolate([model, model], weights)


def test_models_that_cannot_be_mixed():
    model, other = make_trie({("a", "b"): 1.0}), LanguageModel.from_counts(pa.array(["a b"]), [1])
    with pytest.raises(
        UsageError,
        match=r"^the models cut text in different ways \(whitespace; words\); mix those of",
    ):
        interpolate([model, other])
    with pytest.raises(UsageError, match=r"^1 model: mixing takes two or more\.$"):
        interpolate([model])
    with pytest.raises(
        UsageError, match=r"^model 1 has no word in common with the others: they can't be about one"
    ):
        interpolate([model, make_trie({("x", "y"): 1.0})])
    with pytest.raises(
        BayesgramError, match=r"^the text to tune by has no words that a model knows; give other"
    ):
        fit_mixture_weights([model, model], [pa.array([b""], pa.large_binary())])


def test_boundaries_are_no_other_way_to_cut():
    one = LanguageModel.from_counts(pa.array(["a b"]), [1], Tokenizer(boundaries=True))
    two = LanguageModel.from_counts(pa.array(["a c"]), [1])
    assert interpolate([two, one]).tokenizer == Tokenizer(boundaries=True)


def test_names_of_all_models_are_written_as_the_first_one_says():
    one, two = make_trie({("a", "b"): 1.0}), make_trie({("a", "c"): 1.0})
    mixed = interpolate(
        [replace(one, casing={"a": "A"}), replace(two, casing={"a": "Á", "c": "C"})]
    )
    assert mixed.casing == {"a": "A", "c": "C"}


def test_kenlm_agrees(tmp_path):
    kenlm = pytest.importorskip("kenlm", reason="KenLM is not installed: it is built from source")
    one = make_trie({("a", "b", "c"): 3.0, ("b", "c", END): 1.0, (START, "a", "b"): 2.0})
    two = make_trie({("a", "b"): 3.0, ("b", "é"): 1.0, ("c",): 7.0, (START, "a"): 2.0})
    mixed = interpolate([one, two], [0.4, 0.6])
    write_arpa(mixed, tmp_path / "mixed.arpa")
    judged = kenlm.Model(str(tmp_path / "mixed.arpa"))
    for sentence in ([], ["a", "b", "c"], ["zzz", "a", "é"], ["c", "b", "é", "b", "c"]):
        theirs = [score for score, _, _ in judged.full_scores(" ".join(sentence))]
        assert [each.log10 for each in mixed.score_words(sentence)] == pytest.approx(
            theirs, abs=1e-5
        )
    assert read_arpa(tmp_path / "mixed.arpa").score(["a", "b"]) == mixed.score(["a", "b"])


def test_public_name():
    assert bg.lm.interpolate is interpolate
