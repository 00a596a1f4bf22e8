"""A public model: its words, its folder, and what is refused."""

import json
import shutil

import numpy as np
import pyarrow as pa
import pytest

from bayesgram.errors import BayesgramError, UsageError
from bayesgram.lm.language_model import LanguageModel
from bayesgram.public.public_model import PublicModel, check_target, model_words
from bayesgram.public.vocabulary import Vocabulary
from bayesgram.text.tokenizer import Tokenizer

TEXTS = {
    "wiki": ["the red fish swims. the blue fish sleeps.", "the green fish swims in the sea."],
    "talk": ["i like the red fish", "you like the sea", "the the the"],
}
INPUTS = {name: pa.table({"text": rows}) for name, rows in TEXTS.items()}


def vocabulary_of(inputs=INPUTS, **choice):
    return Vocabulary.from_public(inputs, **{"order": [1, 2], "size": 8, **choice})


@pytest.fixture(scope="module")
def vocabulary():
    return vocabulary_of()


@pytest.fixture(scope="module")
def model(vocabulary):
    return PublicModel.from_public(vocabulary, INPUTS)


def same(ours, theirs):
    names = (
        "level_starts",
        "word",
        "first_child",
        "suffix",
        "log_probability",
        "log_backoff",
        "likeliest_words",
    )
    return all(
        np.array_equal(getattr(ours.trie, name), getattr(theirs.trie, name)) for name in names
    )


def test_words_are_the_unigrams_or_else_all_words_of_the_ngrams(vocabulary):
    words = [word.decode() for word in model_words(vocabulary).to_pylist()]
    assert words == sorted({"<s>", "</s>", "<unk>", *vocabulary.ngrams.to_pylist()[:8]})
    longer = vocabulary_of(order=2, size=3, tokenizer=Tokenizer(boundaries=True))
    words = [word.decode() for word in model_words(longer).to_pylist()]
    assert words == sorted({"<s>", "</s>", "<unk>", *" ".join(longer.ngrams.to_pylist()).split()})


def test_words_that_no_arpa_file_can_hold_are_unknown():
    strange = Vocabulary(
        pa.array(["a", "<UNK>", "<unk>", "x\0y", "<s>"], pa.large_string()),
        np.arange(5),
        1,
        Tokenizer("whitespace"),
    )
    assert model_words(strange).to_pylist() == [b"</s>", b"<s>", b"<unk>", b"a"]


def test_a_model_of_each_source(vocabulary, model):
    assert model.source_names == vocabulary.source_names == ["wiki", "talk"]
    assert model.order == 3
    assert model.tokenizer == vocabulary.tokenizer
    assert model["wiki"].predict("The red", 1)[0].word == "fish"
    assert "wiki, talk" in repr(model)
    for name, rows in TEXTS.items():
        alone = PublicModel.from_public(vocabulary_of(INPUTS[name]), INPUTS[name], order=2)
        assert alone.source_names == ["public"]
        assert alone["public"].perplexity(rows) < 30
    with pytest.raises(
        UsageError, match=r"source='news': this public model has wiki, talk; name one\."
    ):
        model["news"]


def test_a_longer_order_than_any_sentence_has_is_shortened():
    inputs = pa.table({"text": ["a", "b a", "c"]})
    assert (
        PublicModel.from_public(vocabulary_of(inputs, order=1), inputs, order=6).order == 4
    )  # <s> b a </s>


@pytest.mark.posix("files that are mapped and replaced")
def test_it_is_the_same_when_it_is_loaded(tmp_path, model):
    model.save(tmp_path / "public.model")
    loaded = PublicModel.load(tmp_path / "public.model")
    assert loaded.source_names == model.source_names
    assert loaded.tokenizer == model.tokenizer
    assert loaded.sizes == model.sizes
    assert all(same(loaded[name], model[name]) for name in TEXTS)
    assert same(LanguageModel.load(tmp_path / "public.model" / "source-1"), model["talk"])
    with pytest.raises(UsageError, match="exists already"):
        model.save(tmp_path / "public.model")
    model.save(tmp_path / "public.model", force=True)


@pytest.mark.parametrize("place", ["mine.txt", "source-0/mine.txt"])
def test_what_is_not_ours_is_not_replaced(tmp_path, model, place):
    model.save(tmp_path / "public.model")
    (tmp_path / "public.model" / place).write_text("mine")
    with pytest.raises(UsageError, match="holds files that are not ours"):
        model.save(tmp_path / "public.model", force=True)
    with pytest.raises(UsageError, match="holds files that are not ours"):
        check_target(tmp_path / "public.model", force=True)


def test_a_size_is_kept_by_each_source(vocabulary):
    words = len(model_words(vocabulary))
    small = PublicModel.from_public(vocabulary, INPUTS, size=words + 5)
    assert {sum(sizes) for sizes in small.sizes.values()} == {words + 5}
    with pytest.raises(
        UsageError, match=f"model_size={words}: the model keeps all of its {words} words; give"
    ):
        PublicModel.from_public(vocabulary, INPUTS, size=words)


def test_a_number_of_bytes_is_kept_by_each_source(vocabulary):
    text = {
        "wiki": TEXTS["wiki"] + [f"the fish {a} {b}" for a in TEXTS["talk"] for b in TEXTS["wiki"]],
        "talk": ["i like"],
    }
    inputs = {name: pa.table({"text": rows}) for name, rows in text.items()}
    whole = PublicModel.from_public(vocabulary, inputs)["wiki"].quantise()
    small = PublicModel.from_public(vocabulary, inputs, max_size=whole.size_on_disk - 40)
    assert small["wiki"].size_on_disk <= whole.size_on_disk - 40
    assert sum(small["wiki"].sizes) < sum(whole.sizes)
    with pytest.raises(UsageError, match="the smallest model of these"):
        PublicModel.from_public(vocabulary, inputs, max_size=100)


@pytest.mark.parametrize("order", [1, 7])
def test_orders_that_no_model_has(vocabulary, order):
    with pytest.raises(
        UsageError,
        match=r"model_order=.*: the order of a public model is a whole number from 2 to 6",
    ):
        PublicModel.from_public(vocabulary, INPUTS, order=order)


@pytest.mark.parametrize("order", [2.0, True])
def test_orders_that_are_none(vocabulary, order):
    with pytest.raises(
        UsageError, match=r"^order: takes a whole number, and a (float|bool) was given\.$"
    ):
        PublicModel.from_public(vocabulary, INPUTS, order=order)


def test_other_sources_than_those_of_the_vocabulary(vocabulary):
    with pytest.raises(
        UsageError, match="sources wiki: the vocabulary has wiki, talk; give its own"
    ):
        PublicModel.from_public(vocabulary, {"wiki": INPUTS["wiki"]})


def test_a_source_that_is_no_text(tmp_path, vocabulary, model):
    model["wiki"].save(tmp_path / "wiki.model")
    with pytest.raises(UsageError, match=r"source 'wiki': .*n-grams that were counted before"):
        PublicModel.from_public(vocabulary, {**INPUTS, "wiki": tmp_path / "wiki.model"})


def test_a_source_without_words(vocabulary):
    with pytest.raises(BayesgramError, match="source 'talk': has no words"):
        PublicModel.from_public(vocabulary, {**INPUTS, "talk": pa.table({"text": ["", "..."]})})


def test_a_saved_model_is_a_source_by_one_of_its_models(tmp_path, model):
    model.save(tmp_path / "public.model")
    with pytest.raises(
        UsageError, match="a public model holds a model of each of its sources; export the one"
    ):
        Vocabulary.from_public(tmp_path / "public.model", order=2)
    with pytest.raises(
        UsageError, match="a public model, which has a model of each of its sources; write one"
    ):
        LanguageModel.open(tmp_path / "public.model")
    made = Vocabulary.from_public(tmp_path / "public.model" / "source-0", order=2)
    assert "red fish" in made.ngrams.to_pylist()


def test_models_of_different_words_are_no_public_model(model):
    inputs = pa.table({"text": ["other words"]})
    other = PublicModel.from_public(vocabulary_of(inputs), inputs)["public"]
    with pytest.raises(
        UsageError, match="source 'b': the models of all sources have the same words"
    ):
        PublicModel({"a": model["wiki"], "b": other}, model.vocabulary)
    with pytest.raises(UsageError, match="has one or more"):
        PublicModel({}, model.vocabulary)


def change(about, **values):
    return lambda folder: (folder / "public.json").write_text(json.dumps({**about, **values}))


ABOUT = {"format": 1, "sources": ["wiki", "talk"]}
DAMAGES = {
    "no JSON": lambda folder: (folder / "public.json").write_text('{"format": 1,'),
    "a list": lambda folder: (folder / "public.json").write_text("[1]"),
    "no sources": lambda folder: (folder / "public.json").write_text('{"format": 1}'),
    "no format": lambda folder: (folder / "public.json").write_text(
        '{"sources": ["wiki", "talk"]}'
    ),
    "a strange format": change(ABOUT, format="new"),
    "text for sources": change(ABOUT, sources="ab"),
    "a number for a source": change(ABOUT, sources=["wiki", 1]),
    "none": change(ABOUT, sources=[]),
    "one name twice": change(ABOUT, sources=["wiki", "wiki"]),
    "a bad name": change(ABOUT, sources=["wiki", "../x"]),
    "one too many": change(ABOUT, sources=["wiki", "talk", "news"]),
    "far too many": change(ABOUT, sources=[f"s{n}" for n in range(21)]),
    "a folder is gone": lambda folder: shutil.rmtree(folder / "source-1"),
    "a file is gone": lambda folder: (folder / "source-1" / "records.npy").unlink(),
    "a file is cut": lambda folder: (folder / "source-1" / "records.npy").write_bytes(b"\x93NUMPY"),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_damaged_folders(tmp_path, model, damage):
    model.save(tmp_path / "public.model")
    DAMAGES[damage](tmp_path / "public.model")
    with pytest.raises(BayesgramError, match="damaged; ") as caught:
        PublicModel.load(tmp_path / "public.model")
    assert not isinstance(caught.value, UsageError)


def test_folders_of_others(tmp_path, model):
    model.save(tmp_path / "public.model")
    change(ABOUT, format=2)(tmp_path / "public.model")
    with pytest.raises(UsageError, match="is a public model of format 2; this bayesgram reads 1"):
        PublicModel.load(tmp_path / "public.model")
    with pytest.raises(UsageError, match=r"not a public model \(no public\.json\); make one with"):
        PublicModel.load(tmp_path)
