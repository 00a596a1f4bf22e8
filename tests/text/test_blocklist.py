"""Blocklists: which n-grams contain a blocked word, and files of words."""

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import bayesgram as bg
from bayesgram.choices import TokenizerKind
from bayesgram.lm.language_model import LanguageModel
from bayesgram.text.blocklist import Blocklist, built_in_phrases

WORDS = st.sampled_from(["red", "Blue", "fish", "ß", "don't", "a"])
PHRASES = st.lists(st.lists(WORDS, min_size=1, max_size=4).map(" ".join), max_size=5)


def contains(ngram, phrase):
    """Whether the tokens of a phrase stand in an n-gram, by looking at every place."""
    tokens, wanted = ngram.lower().split(" "), phrase.lower().split(" ")
    return any(tokens[at : at + len(wanted)] == wanted for at in range(len(tokens)))


@given(st.lists(st.lists(WORDS, min_size=1, max_size=6).map(" ".join), max_size=8), PHRASES)
def test_the_mask_is_that_of_looking_at_every_place(ngrams, phrases):
    tokenizer = bg.Tokenizer(TokenizerKind.WHITESPACE, lowercase=False)
    blocklist = Blocklist(tuple(phrases), built_in=False)
    mask = blocklist.mask(pa.array(ngrams, pa.large_string()), tokenizer)
    assert mask.tolist() == [any(contains(n, phrase) for phrase in phrases) for n in ngrams]


def test_text_is_cut_as_that_of_the_n_grams():
    blocklist = Blocklist(("Red-Fish!", "...", "DON’T"), built_in=False)
    ngrams = pa.array(["the red fish", "red", "don't go", "fish red"], pa.large_string())
    assert blocklist.mask(ngrams, bg.Tokenizer()).tolist() == [True, False, True, False]


def test_the_built_in_list_is_read_and_can_be_switched_off():
    words = built_in_phrases()
    assert len(words) > 20
    assert len(set(words)) == len(words)
    assert all(word.isalpha() and word.islower() for word in words)
    ngrams = pa.array([words[0], f"a {words[1]}", "a word"], pa.large_string())
    assert Blocklist().mask(ngrams, bg.Tokenizer()).tolist() == [True, True, False]
    assert not Blocklist(built_in=False).mask(ngrams, bg.Tokenizer()).any()


def test_the_stored_list_can_not_be_read_at_a_glance():
    from importlib.resources import files

    text = files("bayesgram.text").joinpath("blocked-words.txt").read_text()
    assert not any(word in text for word in built_in_phrases())


def test_a_file_has_comments_and_empty_lines(tmp_path):
    (tmp_path / "words.txt").write_text("\ufeff# a comment\n\n red fish \nblue\n", encoding="utf-8")
    blocklist = Blocklist.load(tmp_path / "words.txt", built_in=False)
    assert blocklist.phrases == ("red fish", "blue")
    assert repr(blocklist) == "Blocklist(2 phrases, built-in list: False)"
    assert len(Blocklist.load(tmp_path / "words.txt")) == 2 + len(built_in_phrases())


def test_files_that_are_none(tmp_path):
    with pytest.raises(bg.UsageError, match="the blocklist can't be read"):
        Blocklist.load(tmp_path / "none.txt")
    (tmp_path / "latin").write_bytes(b"caf\xe9\n")
    with pytest.raises(bg.UsageError, match="not in UTF-8; save it as UTF-8 text"):
        Blocklist.load(tmp_path / "latin")


# --- Vocabularies and models ---


def test_a_vocabulary_without_blocked_words_keeps_its_public_rows():
    text = pa.table({"text": ["the red fish swims in the large blue sea today"] * 2})
    blocklist = Blocklist(("red fish",), built_in=False)
    whole = bg.Vocabulary.from_public(text, block=Blocklist(built_in=False))
    vocabulary = bg.Vocabulary.from_public(text, block=blocklist)
    left_out = set(whole.ngrams.to_pylist()) - set(vocabulary.ngrams.to_pylist())
    assert left_out == {"red fish", "the red fish", "red fish swims"}
    assert vocabulary.public_rows is not None
    with pytest.raises(bg.BayesgramError, match="leaves out every n-gram"):
        bg.Vocabulary.from_public(
            pa.table({"text": ["red red"]}), order=1, block=Blocklist(("red",), built_in=False)
        )


@pytest.fixture(scope="module")
def model():
    ngrams = ["the red", "red fish", "the blue", "blue fish", "the red fish", "fish swim"]
    return LanguageModel.from_counts(pa.array(ngrams), [5.0, 4, 3, 2, 3, 2])


@pytest.mark.parametrize("phrase", ["red", "red fish", "fish", "the"])
def test_a_model_without_blocked_words_adds_up_to_one(model, phrase):
    blocklist = Blocklist((phrase,), built_in=False)
    blocked = model.block(blocklist)
    for context in ("", "the", "blue", "fish"):
        words = [*blocked.trie.words.to_list()]
        total = sum(10 ** blocked.score_words([*context.split(), word.decode()])[-2].log10
                    for word in words if word not in {b"<s>", b"</s>"})  # fmt: skip
        total += 10 ** blocked.score_words(context.split())[-1].log10
        assert total == pytest.approx(1, abs=1e-4)
    for order in range(1, blocked.order + 1):
        rows = [
            " ".join(blocked.trie.words[word] for word in row) for row in blocked.trie.ngrams(order)
        ]
        assert not blocklist.mask(pa.array(rows, pa.large_string()), model.tokenizer).any()
    assert model.block(Blocklist(("green",), built_in=False)) is model


def test_predictions_leave_blocked_words_out(model):
    words = [prediction.word for prediction in model.predict("the", 10)]
    assert words[0] == "red"
    block = Blocklist(("red",), built_in=False)
    without = [prediction.word for prediction in model.predict("the", 10, block=block)]
    assert without == [word for word in words if word != "red"]
    assert model.predict("the", 1, block=block)[0].word == without[0]
    phrase = Blocklist(("The Red",), built_in=False)
    assert "red" not in [prediction.word for prediction in model.predict("the", 10, block=phrase)]
    assert "red" in [prediction.word for prediction in model.predict("blue", 10, block=phrase)]
