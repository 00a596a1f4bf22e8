"""The words of the current text in what is suggested, and capitals where they belong."""

from collections import Counter
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import bayesgram as bg
from bayesgram.errors import BayesgramError, UsageError
from bayesgram.lm.language_model import MAX_CACHED_WORDS, CaseCounter, LanguageModel
from bayesgram.text.tokenizer import Tokenizer
from helpers.hypothesis_profiles import examples
from helpers.reference_language_models import END, WORDS, all_probabilities, make_release, tables

FISH = {("red", "fish"): 8.0, ("blue", "fish"): 4.0, ("fish", "swim"): 6.0, ("don't", "swim"): 2.0}


def make_trie(table, tokenizer="words"):
    return LanguageModel.from_release(make_release(table, tokenizer=tokenizer))


@given(
    tables(),
    st.lists(st.sampled_from([*WORDS, "zzz"]), max_size=8),
    st.floats(0, 0.9),
    st.integers(1, 12),
)
@examples(60)
def test_predictions_are_the_best_of_the_mixture(table, context, weight, k):
    model = make_trie(table, "whitespace")
    names = [word.decode() for word in model.trie.words.to_list()]
    numbers = [
        model.trie.special[0],
        *(names.index(word) if word in names else model.trie.special[2] for word in context),
    ]
    expected = {
        names[n]: p
        for n, p in all_probabilities(model)(numbers).items()
        if n not in model.trie.special
    }
    for word in {*expected, *context} if weight else expected:
        share = context.count(word) / len(context) if context else 0.0
        expected[word] = (1 - weight) * expected.get(word, 0.0) + weight * share
    best = sorted(expected.items(), key=lambda item: (-item[1], item[0].encode()))[:k]
    found = model.predict(context, k, cache=weight)
    assert [each.probability for each in found] == pytest.approx([p for _, p in best], rel=1e-5)
    assert [each.word for each in found if each.probability > 1e-4] or not best or best[0][1] < 2e-4


def test_a_word_that_the_model_lacks_is_suggested_once_it_was_written():
    model = make_trie(FISH)
    assert "zanzibar" in [each.word for each in model.predict("I love Zanzibar. Red", 9, cache=0.3)]
    assert model.predict("I love Zanzibar. Red", 1, typed="Za", cache=0.1)[0].word == "zanzibar"
    assert model.predict("I love Zanzibar. Red", 1, typed="Za") == []
    assert model.predict("", 3, cache=0.5) == [(word, p * 0.5) for word, p in model.predict("", 3)]


def test_only_the_last_words_are_looked_at():
    model = make_trie(FISH)
    text = "zanzibar " + "red fish " * (MAX_CACHED_WORDS // 2)
    assert "zanzibar" not in [each.word for each in model.predict(text, 20, cache=0.5)]
    assert "zanzibar" in [
        each.word for each in model.predict(text[: -len("red fish ")], 20, cache=0.5)
    ]


@pytest.mark.parametrize("weight", [-0.1, 1.0, float("nan"), 7])
def test_a_share_out_of_range(weight):
    with pytest.raises(
        UsageError,
        match=r"^cache=.*: the share of the words of this text is from 0 to less than 1, such as 0\.15\.$",
    ):
        make_trie(FISH).predict("red", cache=weight)


def test_boundaries_in_a_text_are_no_words():
    model = make_trie(FISH, "whitespace")
    assert END not in [each.word for each in model.predict(["red"], 9, cache=0.5)]


@pytest.mark.parametrize("typed", ["don'", "Don’", "DON'", "don"])
def test_what_is_typed_is_folded_like_text(typed):
    assert make_trie(FISH).predict("", 1, typed=typed)[0].word == "don't"


def test_capitals_where_they_belong():
    model = make_trie(FISH)
    assert [model.predict(text, 1, typed=typed, capitals=True)[0].word for text, typed in [
        ("", "r"), ("", ""), ("Red", ""), ("Fish swim. ", ""), ("red", "F"), ("red", "FI"), ("Fish swim. ", "D"),
    ]] == ["red", "Fish", "fish", "Fish", "Fish", "FISH", "Don't"]  # fmt: skip
    kept = LanguageModel.from_counts(
        pa.array(["in Paris", "Paris is"]), [4, 3], Tokenizer(lowercase=False)
    )
    assert kept.predict("in", 1, capitals=True)[0].word == kept.predict("in", 1)[0].word == "Paris"
    assert kept.suggest("is in P", 1)[0].word == "Paris"


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("Red f", "fish"),
        ("red fish. B", "Blue"),
        ("RED fi", "fish"),
        ("Fish. Don’", "Don't"),
        ("red", "red"),
        ("red ", "fish"),
    ],
)
def test_a_keyboard_goes_on_with_what_is_typed(text, word):
    assert make_trie(FISH).suggest(text, 1)[0].word == word


def test_names_are_written_as_in_public_text(tmp_path):
    counter = CaseCounter(Tokenizer())
    counter.add(
        pa.array(
            [
                b"The RED fish? No, a red fish. We saw Red once; Fish swim. In Fish",
                b"so McFish and McFish",
                b"",
            ]
        )
    )
    assert counter.casing() == {"mcfish": "McFish"}
    assert counter.casing(["red"]) == {}
    model = replace(make_trie(FISH | {("mcfish", "swim"): 9.0}), casing=counter.casing())
    model.save(tmp_path / "model")
    read = LanguageModel.load(tmp_path / "model")
    assert read.casing == model.casing
    assert [read.suggest(text, 1)[0].word for text in ("m", "Fish. M", "so MC")] == [
        "McFish",
        "McFish",
        "MCFISH",
    ]
    assert read.predict("", 1, typed="m")[0].word == "mcfish"
    (tmp_path / "model" / "casing.json").write_text('{"a": 1}')
    with pytest.raises(BayesgramError, match=r"the model is damaged; export it again\.$"):
        LanguageModel.load(tmp_path / "model")
    with pytest.raises(
        UsageError,
        match=r"^tokenizer='whitespace': keeps case already; only lower-case words are cased\.$",
    ):
        CaseCounter(Tokenizer("whitespace"))


@given(st.lists(st.text(st.sampled_from("aAbB. "), max_size=30), max_size=4), st.integers(0, 3))
@settings(deadline=None)
def test_casing_is_the_most_frequent_spelling_inside_sentences(rows, cut):
    counter = CaseCounter(Tokenizer())
    for part in (rows[:cut], rows[cut:]):
        counter.add(pa.array([row.encode() for row in part], pa.large_binary()))
    seen = Counter(
        word
        for row in rows
        for sentence in Tokenizer(lowercase=False).sentences(row)
        for word in sentence[1:]
    )
    wanted = {}
    for word in {word.lower() for word in seen}:
        most = max(
            (count, spelled == word, spelled)
            for spelled, count in seen.items()
            if spelled.lower() == word
        )
        if most[0] > 1 and not most[1]:
            wanted[word] = most[2]
    assert counter.casing() == wanted


def test_emoji_and_emoticons_are_suggested():
    texts = ["see you :)", "see you :-)", "love you ❤️", "love it 👍🏽"] * 9
    vocabulary = bg.Vocabulary.from_public(
        pa.table({"text": texts}), order=(1, 2), size=99, tokenizer=Tokenizer("messages")
    )
    assert vocabulary.unreachable_count == 0
    model = LanguageModel.from_counts(vocabulary.ngrams, vocabulary.counts, vocabulary.tokenizer)
    assert {each.word for each in model.predict("See you", 3)} == {":)", ":-)", "❤"}
    assert model.suggest("Love it ", 1)[0].word == "👍🏽"
    assert model.predict("See you", 2, typed=":-")[0].word == ":-)"
    assert (
        bg.Vocabulary(
            pa.array(["a :D B"]), np.array([1]), 3, Tokenizer("messages")
        ).unreachable_count
        == 1
    )
    assert (
        bg.Vocabulary(
            pa.array(["a :D >;-P"]), np.array([1]), 3, Tokenizer("messages")
        ).unreachable_count
        == 0
    )
