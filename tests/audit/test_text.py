"""How a model does on held-out text, against loops that ask the model word by word."""

import math

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bayesgram.audit.text import encode, text_quality
from bayesgram.errors import BayesgramError
from bayesgram.released.language_model import LanguageModel
from bayesgram.text.tokens import Tokenizer
from language_models import END, START, release_of

TABLE = {
    ("the",): 50.0, ("red",): 20.0, ("fish",): 30.0, ("fishes",): 8.0, ("éclair",): 9.0, ("éclairs",): 4.0, (END,): 40.0,
    (START, "the"): 20.0, ("the", "red"): 12.0, ("red", "fish"): 10.0, ("red", "fishes"): 3.0, ("the", "éclairs"): 4.0,
    ("fish", END): 9.0, ("the", "red", "fish"): 6.0, (START, "the", "red"): 5.0,
}  # fmt: skip
MODEL = LanguageModel.from_release(release_of(TABLE, tokenizer="words"))
WORDS = ["the", "red", "fish", "fishes", "éclair", "éclairs", "zebra", "ÉCLAIR", "Ωmega"]
texts = st.lists(st.lists(st.sampled_from([*WORDS, ".", "!"]), max_size=8).map(" ".join), min_size=1, max_size=5)


def rows(given_texts):
    return [pa.array([text.encode() for text in given_texts], pa.large_binary())]


def sentences(given_texts):
    return [words for text in given_texts for words in Tokenizer().sentences(text)]


def keystrokes(context, word):
    """Letter by letter: a suggestion costs a tap, and every word its space."""
    for letters in range(len(word)):
        suggested = MODEL.predict(context, 3, typed=word[:letters])
        if word in [each.word for each in suggested]:
            return letters + 1
    return len(word) + 1


@given(texts.filter(lambda given_texts: any(sentences(given_texts))))
@settings(max_examples=60)
def test_everything_against_loops(given_texts):
    scores, hits, typed, letters = [], [], 0, 0
    for words in sentences(given_texts):
        scores += MODEL.score_words(words)
        for at, word in enumerate(words):
            best = [each.word for each in MODEL.predict(words[:at], 3)]
            hits.append([word in best[:1], word in best])
            typed += keystrokes(words[:at], word)
            letters += len(word) + 1
    quality = text_quality(MODEL, rows(given_texts))
    only_words = [each for each in scores if each.word != END]
    known = [each for each in scores if each.known]
    assert quality.perplexity == pytest.approx(10 ** -(sum(each.log10 for each in scores) / len(scores)))
    assert quality.perplexity_known == pytest.approx(10 ** -(sum(each.log10 for each in known) / len(known)))
    assert quality.out_of_vocabulary == pytest.approx(sum(not each.known for each in only_words) / len(only_words))
    assert quality.coverage == pytest.approx(sum(each.order == 3 for each in only_words) / len(only_words))
    assert quality.accuracy_1 == pytest.approx(sum(first for first, _ in hits) / len(hits))
    assert quality.accuracy_3 == pytest.approx(sum(any_of for _, any_of in hits) / len(hits))
    assert quality.keystrokes_saved == pytest.approx(1 - typed / letters)


def test_letters_are_characters_not_bytes():
    found = encode(MODEL, rows(["Éclair the."]))
    assert found.letters.tolist() == [6, 3, 0]


def test_a_sample_of_the_words_is_typed():
    many = rows(["the red fish. "] * 50)
    whole, part = text_quality(MODEL, many), text_quality(MODEL, many, sample=40)
    assert part.keystroke_words == 38  # every fourth of 150
    assert whole.keystroke_words == 150
    assert part.perplexity == whole.perplexity
    assert part.keystrokes_saved == pytest.approx(whole.keystrokes_saved, abs=0.1)


def test_nothing_but_unknown_words_is_finite():
    quality = text_quality(MODEL, rows(["zzz yyy"]))
    assert math.isfinite(quality.perplexity)
    assert quality.out_of_vocabulary == 1
    assert quality.keystrokes_saved == 0


@pytest.mark.parametrize("text", ["", "...", "   "])
def test_no_words(text):
    with pytest.raises(BayesgramError, match=r"^the text has no words: there is nothing to predict\.$"):
        text_quality(MODEL, rows([text]))
