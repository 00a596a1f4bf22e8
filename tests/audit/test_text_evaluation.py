"""How a model does on held-out text, against loops that ask the model word by word."""

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import bayesgram as bg
from bayesgram.audit.text_evaluation import FrequencyBands, encode_texts, evaluate_model
from bayesgram.errors import BayesgramError, UsageError
from bayesgram.lm.language_model import LanguageModel
from bayesgram.text.tokenizer import Tokenizer
from helpers.hypothesis_profiles import examples
from helpers.reference_language_models import END, START, make_release

TABLE = {
    ("the",): 50.0, ("red",): 20.0, ("fish",): 30.0, ("fishes",): 8.0, ("éclair",): 9.0, ("éclairs",): 4.0, (END,): 40.0,
    (START, "the"): 20.0, ("the", "red"): 12.0, ("red", "fish"): 10.0, ("red", "fishes"): 3.0, ("the", "éclairs"): 4.0,
    ("fish", END): 9.0, ("the", "red", "fish"): 6.0, (START, "the", "red"): 5.0,
}  # fmt: skip
MODEL = LanguageModel.from_release(make_release(TABLE, tokenizer="words"))
WORDS = ["the", "red", "fish", "fishes", "éclair", "éclairs", "zebra", "ÉCLAIR", "Ωmega"]
KNOWN = {"the", "red", "fish", "fishes", "éclair", "éclairs"}
texts = st.lists(
    st.lists(st.sampled_from([*WORDS, ".", "!"]), max_size=8).map(" ".join), min_size=1, max_size=5
)
tied = st.builds(  # few words, few counts: many are as likely as others
    lambda table: LanguageModel.from_release(make_release(table, tokenizer="words")),
    st.dictionaries(
        st.lists(st.sampled_from(sorted(KNOWN)), min_size=2, max_size=3).map(tuple),
        st.sampled_from([1.0, 2.0]),
        min_size=3,
        max_size=20,
    ),
)


def rows(given_texts):
    return [pa.array([text.encode() for text in given_texts], pa.large_binary())]


def sentences(given_texts):
    return [words for text in given_texts for words in Tokenizer().sentences(text)]


def is_known(given_texts):
    return any(word in KNOWN for words in sentences(given_texts) for word in words)


def keystrokes(model, context, word):
    """Letter by letter: a suggestion costs a tap, and every word its space."""
    for letters in range(len(word)):
        suggested = model.predict(context, 3, typed=word[:letters])
        if word in [each.word for each in suggested]:
            return letters + 1
    return len(word) + 1


class Loops:
    """The definitions, word by word; `wanted` says which words count, and sentence ends do with `ends`."""

    def __init__(self, model, given_texts, wanted=lambda _: True, *, ends=True):
        self.scores, self.hits, self.typed, self.letters = [], [], 0, 0
        for words in sentences(given_texts):
            found = model.score_words(words)
            self.scores += [
                each
                for at, each in enumerate(found)
                if (wanted(words[at]) if at < len(words) else ends)
            ]
            for at, word in enumerate(words):
                if wanted(word):
                    best = [each.word for each in model.predict(words[:at], 3)]
                    self.hits.append([word in best[:1], word in best])
                    self.typed += keystrokes(model, words[:at], word)
                    self.letters += len(word) + 1

    def perplexity(self, *, known=False):
        logs = [each.log10 for each in self.scores if each.is_known or not known]
        return pytest.approx(10 ** -(sum(logs) / len(logs))) if logs else None

    def check(self, part):
        words = [each for each in self.scores if each.word != END]
        assert part.out_of_vocabulary == pytest.approx(
            sum(not each.is_known for each in words) / len(words)
        )
        assert part.accuracy_1 == pytest.approx(
            sum(first for first, _ in self.hits) / len(self.hits)
        )
        assert part.accuracy_3 == pytest.approx(
            sum(any_of for _, any_of in self.hits) / len(self.hits)
        )
        assert part.keystrokes_saved == pytest.approx(1 - self.typed / self.letters)


@given(texts.filter(is_known))
@examples(60)
def test_everything_against_loops(given_texts):
    loops = Loops(MODEL, given_texts)
    quality = evaluate_model(MODEL, {"": rows(given_texts)})
    loops.check(quality)
    assert quality.perplexity == loops.perplexity()
    assert quality.perplexity_known == loops.perplexity(known=True)
    only_words = [each for each in loops.scores if each.word != END]
    assert quality.coverage == pytest.approx(
        sum(each.order == 3 for each in only_words) / len(only_words)
    )
    assert quality.words == len(only_words)


@given(tied, texts)
@examples(60)
def test_equal_words_are_suggested_as_predict_does(model, given_texts):
    given_texts = [
        *given_texts,
        model.trie.words[int(model.trie.likeliest_words[-1])],
        model.predict([], 1)[0].word,
    ]
    loops = Loops(model, given_texts)
    quality = evaluate_model(model, {"": rows(given_texts)})
    loops.check(quality)
    assert quality.perplexity == loops.perplexity()


@given(st.lists(texts.filter(is_known), min_size=2, max_size=3))
@examples(30)
def test_each_text_by_itself(several):
    named = {f"text {at}": rows(given_texts) for at, given_texts in enumerate(several)}
    quality = evaluate_model(MODEL, named)
    assert [part.name for part in quality.by_text] == list(named)
    assert sum(part.share for part in quality.by_text) == pytest.approx(1)
    for part, given_texts in zip(quality.by_text, several, strict=True):
        loops = Loops(MODEL, given_texts)
        loops.check(part)
        assert part.perplexity == loops.perplexity()


@given(texts.filter(is_known), st.permutations(sorted(KNOWN)))
@examples(40)
def test_words_by_how_frequent_they_are(given_texts, order):
    """Bands of another model, which lacks a word that this one has."""
    others = set(order[1:])
    other = LanguageModel.from_counts(pa.array([f"{word} {word}" for word in order[1:]]), [1.0] * 5)
    quality = evaluate_model(
        MODEL,
        {"": rows(given_texts)},
        bands=FrequencyBands.from_texts(other, {"": rows(given_texts)}),
    )
    running = [word for words in sentences(given_texts) for word in words]
    known = [running.count(word) for word in running if word in others]
    bands = {
        word: fifth(known, running.count(word)) if word in others else "unknown" for word in running
    }
    assert [band.name for band in quality.by_frequency] == sorted(set(bands.values()))
    assert sum(band.share for band in quality.by_frequency) == pytest.approx(1)
    for band in quality.by_frequency:
        loops = Loops(
            MODEL, given_texts, lambda word, name=band.name: bands[word] == name, ends=False
        )
        loops.check(band)
        assert band.perplexity == loops.perplexity(known=True)
        least = min(running.count(word) for word in running if bands[word] == band.name) / len(
            running
        )
        assert band.least_share == (None if band.name == "unknown" else float(f"{least:.1e}"))


def fifth(counts, count):
    """The fifth of the known words that the middle of those with this count is in."""
    before, equal = sum(each > count for each in counts), counts.count(count)
    return f"fifth {1 + int(5 * (before + equal / 2) // len(counts))}"


def test_a_word_that_only_another_tokenizer_finds_is_rare():
    bands = FrequencyBands.from_texts(MODEL, {"": rows(["red red red the"])})
    data = np.frombuffer(b"redthefishzoo", np.uint8)
    assert bands.band_of_tokens(data, np.array([0, 3, 6, 10, 13], np.int32)).tolist() == [
        0,
        1,
        1,
        bands.unknown,
    ]


def test_letters_are_characters_not_bytes():
    given_rows = {"": rows(["Éclair the."])}
    found = encode_texts(MODEL, given_rows, FrequencyBands.from_texts(MODEL, given_rows))
    assert found.letters.tolist() == [6, 3, 0]


def test_progress_comes_to_its_end():
    told = []
    evaluate_model(MODEL, {"": rows(["the red fish"])}, on_progress=told.append)
    assert told == [1.0]


def test_from_python_with_paths_tables_and_names(tmp_path):
    (tmp_path / "a.txt").write_text("the red fish\n")
    MODEL.save(tmp_path / "model")
    table = pa.table({"body": ["The fish!", "zebra fish"]})
    found = bg.evaluate_text(
        {"kept": MODEL, "saved": tmp_path / "model"}, {"b": table}, text_column="body"
    )
    assert found["kept"] == found["saved"]
    assert found["kept"].by_text[0].out_of_vocabulary == 0.25
    several = bg.evaluate_text(
        {"kept": MODEL}, {"a": tmp_path / "a.txt", "b": pa.table({"text": ["zebra fish"]})}
    )["kept"]
    assert [(part.name, part.share) for part in several.by_text] == [("a", 0.6), ("b", 0.4)]
    assert bg.evaluate_text({"": MODEL}, tmp_path / "a.txt")[""].words == 3
    with pytest.raises(
        UsageError, match=r"^models=\{\}: nothing to judge; give one or more, such as"
    ):
        bg.evaluate_text({}, table)


def test_nothing_but_unknown_words():
    with pytest.raises(
        BayesgramError,
        match=r"^ours: knows no word of text 'b'; give text in the language of the model",
    ):
        evaluate_model(MODEL, {"a": rows(["the"]), "b": rows(["zzz yyy"])}, name="ours")


@pytest.mark.parametrize("text", ["", "...", "   "])
def test_no_words(text):
    with pytest.raises(
        BayesgramError, match=r"^the text has no words: there is nothing to predict\.$"
    ):
        evaluate_model(MODEL, {"": rows([text])})
