"""Language models from releases: what they are made of, how they score, what they predict."""

import json
import math
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import bayesgram as bg
from bayesgram.errors import BayesgramError, UsageError
from bayesgram.lm.arpa import sum_contexts
from bayesgram.lm.language_model import LanguageModel
from bayesgram.text.tokenizer import Tokenizer
from helpers.hypothesis_profiles import examples
from helpers.reference_language_models import (
    END,
    START,
    UNKNOWN,
    WORDS,
    ReferenceModel,
    all_probabilities,
    make_release,
    tables,
)

FISH = {
    ("red", "fish", "swim"): 8.0,
    ("blue", "fish", "swim"): 4.0,
    ("the", "red", "fish"): 6.0,
    ("fish", "swim", "fast"): 2.0,
}
SENTENCES = [
    [],
    ["a"],
    ["zzz"],
    ["a", "b", "é", "a"],
    ["𝒱", "x\u2028y", "q\u0085", "zzz", "c"] * 4,
    ["<s>", "</s>", "<unk>"],
]


def ids(model, words):
    return [model.trie.words.to_list().index(word.encode()) for word in words]


@given(tables())
@examples(60)
def test_every_context_adds_up_to_one(table):
    model = LanguageModel.from_release(make_release(table))
    assert np.abs(sum_contexts(model.trie) - 1).max() < 1e-6
    after = all_probabilities(model)
    contexts = [
        [],
        ids(model, [START]),
        *({tuple(ids(model, ngram[:-1])) for ngram in table if len(ngram) > 1}),
    ]
    for context in contexts:
        assert math.fsum(after(context).values()) == pytest.approx(1, abs=1e-6)


@given(tables())
@examples(60)
def test_scores_are_those_of_the_definition(table):
    model, literal = LanguageModel.from_release(make_release(table)), ReferenceModel(table)
    assert [word.decode() for word in model.trie.words.to_list()] == literal.words
    for sentence in SENTENCES:
        words = [UNKNOWN if word in (START, END) else word for word in sentence]
        assert model.score(sentence) == pytest.approx(literal.score(words), abs=1e-4)
        assert sum(each.log10 for each in model.score_words(sentence)) == pytest.approx(
            model.score(sentence)
        )


@given(tables(), st.lists(st.sampled_from([*WORDS, "zzz"]), max_size=4), st.integers(1, 12))
@examples(60)
def test_predictions_are_the_best_of_all_words(table, context, k):
    model = LanguageModel.from_release(make_release(table))
    numbers = [
        model.trie.special[0],
        *(
            ids(model, [w])[0]
            if w.encode() in model.trie.words.to_list()
            else model.trie.special[2]
            for w in context
        ),
    ]
    scores = all_probabilities(model)(numbers)
    words = [number for number in scores if number not in model.trie.special]
    best = sorted(words, key=lambda number: (-scores[number], number))[:k]
    found = model.predict(context, k)
    assert [each.probability for each in found] == pytest.approx(
        [scores[number] for number in best], rel=1e-6
    )
    assert len({each.word for each in found}) == len(found)
    for each in found:
        assert each.probability == pytest.approx(scores[ids(model, [each.word])[0]], rel=1e-6)


def test_many_words_are_predicted_in_order_of_probability_and_of_bytes():
    """More words than are looked through one by one; many of them equally likely."""
    words = [f"w{number}" for number in range(1500)]
    table = {(a, b): 1.0 + (at % 3) for at, (a, b) in enumerate(pairwise(words))}
    model = LanguageModel.from_release(make_release(table))
    for context, typed in (
        ([], ""),
        (["w7"], ""),
        (["w7"], "w2"),
        (["zzz"], "w14"),
        ([], "w1234"),
        ([], "none"),
    ):
        numbers = [
            model.trie.special[0],
            *(
                ids(model, [word])[0] if word in words else model.trie.special[2]
                for word in context
            ),
        ]
        scores = all_probabilities(model)(numbers)
        names = [word.decode() for word in model.trie.words.to_list()]
        right = [n for n in scores if n not in model.trie.special and names[n].startswith(typed)]
        best = sorted(right, key=lambda number: (-scores[number], number))[:9]
        assert [each.word for each in model.predict(context, 9, typed=typed)] == [
            names[number] for number in best
        ]


def test_a_full_stop_begins_a_new_sentence():
    table = {
        ("hello",): 9.0,
        ("thank",): 9.0,
        ("you",): 19.0,
        (START, "hello"): 8.0,
        ("hello", "you"): 8.0,
        ("thank", "you"): 8.0,
    }
    model = LanguageModel.from_release(make_release(table, tokenizer="words"))
    assert model.predict("Hello", 1)[0].word == "you"
    assert model.predict("", 1)[0].word == model.predict("Hello you. ", 1)[0].word == "hello"
    assert model.predict("well, THANK", 1)[0].word == "you"
    spelled = LanguageModel.from_counts(pa.array(["h i", "i h"]), [5, 1], Tokenizer("characters"))
    assert spelled.predict("H", 1)[0].word == "i"


def test_without_boundaries_ends_have_a_fixed_probability_and_starts_only_the_words():
    model = LanguageModel.from_release(make_release(FISH))
    end = model.score_words([])
    assert [(each.word, each.order) for each in end] == [(END, 1)]
    assert end[0].log10 == pytest.approx(math.log10(0.05))
    assert model.score_words(["red"])[0].order == 1


def test_measured_lower_orders_are_used_in_the_common_scale():
    """E(h) = 100 and E(hw) = 10: the context keeps nine tenths for other words."""
    table = {("a",): 100.0, ("b",): 50.0, ("a", "b"): 10.0}
    model = LanguageModel.from_release(make_release(table))
    assert 10 ** model.score_words(["a", "b"])[1].log10 == pytest.approx(0.1, rel=1e-3)


def test_several_orders_need_their_totals():
    with pytest.raises(
        UsageError,
        match=r"^the card doesn't say expected_counts, so orders can't be compared; release again\.$",
    ):
        LanguageModel.from_release(make_release({("a",): 1.0, ("a", "b"): 1.0}, totals=False))
    one, two = (
        LanguageModel.from_release(make_release(FISH, totals=totals)) for totals in (True, False)
    )
    assert one.score(["red", "fish"]) == pytest.approx(
        two.score(["red", "fish"]), abs=1e-5
    )  # one order has its own scale


def test_words_alone_make_no_model():
    with pytest.raises(
        UsageError,
        match=r"^a language model needs n-grams of two words or more; make the vocabulary without `order`: by default"
        r" it has words, pairs and triples\.$",
    ):
        LanguageModel.from_release(make_release({("a",): 1.0}))


def test_rows_that_no_arpa_file_can_hold_are_left_out():
    table = {
        ("a", "b"): 1.0,
        ("a", START): 1.0,
        (END, "a"): 1.0,
        ("a", UNKNOWN): 1.0,
        ("<UNK>", "a"): 1.0,
        ("n\0", "a"): 1.0,
    }
    model = LanguageModel.from_release(make_release(table))
    assert [word.decode() for word in model.trie.words.to_list()] == [END, START, UNKNOWN, "a", "b"]
    assert model.sizes == [5, 1]
    assert LanguageModel.from_counts(pa.array(["a b", "b c"]), [1.0, 0.0]).sizes == [
        5,
        1,
    ]  # nothing at all: no n-gram


def test_perplexity_against_a_loop():
    model = LanguageModel.from_release(make_release(FISH, tokenizer="words"))
    texts = ["The red fish swim! Blue fish swim fast.", "", "A cat."]
    scores = [
        each.log10
        for text in texts
        for words in Tokenizer().sentences(text)
        for each in model.score_words(words)
    ]
    assert len(scores) == 4 + 1 + 4 + 1 + 2 + 1
    assert model.perplexity(texts) == pytest.approx(10 ** (-sum(scores) / len(scores)))
    assert model.score(texts[0]) == pytest.approx(sum(scores[:10]))
    with pytest.raises(UsageError, match=r"^texts: no words in them; give some text\.$"):
        model.perplexity("")


@pytest.mark.parametrize("k", [0, -1, True, 2.5, 1001])
def test_k_out_of_range(k):
    told = (
        rf"k={k}: the number of predictions is a whole number from 1 to 1,000"
        if type(k) is int
        else "k: takes a .*"
    )
    with pytest.raises(UsageError, match=rf"^{told}\.$"):
        LanguageModel.from_release(make_release(FISH)).predict([], k)


@given(tables())
@examples(15)
def test_round_trip_through_a_folder(tmp_path_factory, table):
    folder = tmp_path_factory.mktemp("models") / "model"
    model = LanguageModel.from_release(make_release(table))
    model.save(folder)
    read = LanguageModel.load(folder)
    assert read.tokenizer == model.tokenizer
    assert read.about == model.about
    assert [read.score(sentence) for sentence in SENTENCES] == [
        model.score(sentence) for sentence in SENTENCES
    ]
    assert read.predict(["a"], 5) == model.predict(["a"], 5)
    assert (
        repr(read)
        == repr(model)
        == f"LanguageModel(order {model.order}, {sum(model.sizes):,} n-grams)"
    )


def test_a_model_says_what_it_is_worth(tmp_path):
    LanguageModel.from_release(make_release(FISH)).save(tmp_path / "model")
    about = json.loads((tmp_path / "model" / "model.json").read_text(encoding="utf-8"))
    assert about["about"]["claim"] == "ε = 1, δ = 1e-07 (PROVED)"
    assert about["ngrams"] == LanguageModel.load(tmp_path / "model").sizes


def test_release_folders_model_folders_and_nothing_else(tmp_path):
    release = make_release(FISH)
    release.save(tmp_path / "out")
    LanguageModel.from_release(release).save(tmp_path / "model")
    opened = [
        LanguageModel.open(tmp_path / name).score(["red", "fish"]) for name in ("out", "model")
    ]
    assert opened[0] == opened[1]
    (tmp_path / "empty").mkdir()
    with pytest.raises(
        UsageError,
        match=r"not a model folder \(no model\.json\); make one with `bayesgram export --format model`\.$",
    ):
        LanguageModel.open(tmp_path / "empty")
    with pytest.raises(
        UsageError, match=r"no such file; give a release folder, a model folder or an ARPA file\.$"
    ):
        LanguageModel.open(tmp_path / "nowhere")


@pytest.mark.parametrize("damage", ["json", "format", "missing", "kind", "cut"])
def test_damaged_files(tmp_path, damage):
    folder = tmp_path / "model"
    LanguageModel.from_release(make_release(FISH)).save(folder)
    if damage == "json":
        (folder / "model.json").write_text("[]")
    elif damage == "format":
        (folder / "model.json").write_text(
            (folder / "model.json").read_text().replace('"format": 2', '"format": "two"')
        )
    elif damage == "missing":
        (folder / "bases.npy").unlink()
    elif damage == "kind":
        np.save(folder / "bases.npy", np.load(folder / "bases.npy").astype(np.int64))
    else:
        (folder / "records.npy").write_bytes((folder / "records.npy").read_bytes()[:-4])
    with pytest.raises(BayesgramError, match="damaged"):
        LanguageModel.load(folder)


def test_public_name():
    assert bg.lm.LanguageModel is LanguageModel
