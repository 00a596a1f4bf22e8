"""Releases for keyboards, search boxes, spell checkers and hubs, read as their programs do."""

import ctypes
import itertools
import json
import os
import shutil
import subprocess
import sys
import tempfile
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from bayesgram.errors import BayesgramError, UsageError
from bayesgram.lm import consumers
from bayesgram.privacy.budget import Guarantee
from bayesgram.text.blocklist import Blocklist
from helpers.consumer_formats import read_combined, read_completions, read_dic, read_lucene
from helpers.hypothesis_profiles import examples
from helpers.java_consumers import (
    make_dictionary,
    needs_dicttool,
    needs_lucene,
    read_with_dicttool,
    read_with_lucene,
)
from helpers.reference_language_models import make_release

WORDS = {"the": 60.0, "fish": 30.0, "don't": 5.0, "paris": 3.0, "a,b": 1.0, "x=y": 1.0, "👩‍👧": 2.0}
PAIRS = {"the fish": 20.0, "the paris": 2.0, "fish a,b": 1.0}
ELASTICSEARCH = consumers.SuggestFormat.ELASTICSEARCH

# Whatever a tokenizer may leave in a word: no white space, but all else.
HOSTILE = st.text(
    st.one_of(
        st.sampled_from(list(",=:/\\#'’.-_\"\t\0\x1e\x1f\u200d\u200c\u202e\ufeff😀👍🏽אب漢éßİ")),
        st.characters(exclude_categories=["Cs", "Zs", "Zl", "Zp"], exclude_characters="\n\r"),
    ),
    min_size=1,
    max_size=120,
).filter(lambda word: not any(letter.isspace() for letter in word))


@pytest.fixture
def release():
    return release_of(WORDS, PAIRS)


def release_of(words, pairs=(), **others):
    table = {(word,): count for word, count in words.items()}
    table |= {tuple(pair.split(" ")): count for pair, count in dict(pairs).items()}
    return make_release(table, **others)


def open_hunspell():
    """The library of Hunspell; None where there is none."""
    try:
        library = ctypes.CDLL("libhunspell-1.7.so.0")
    except OSError:
        return None
    library.Hunspell_create.restype = ctypes.c_void_p
    library.Hunspell_create.argtypes = [ctypes.c_char_p, ctypes.c_char_p]
    library.Hunspell_spell.argtypes = [ctypes.c_void_p, ctypes.c_char_p]
    library.Hunspell_destroy.argtypes = [ctypes.c_void_p]
    return library


HUNSPELL = open_hunspell()
needs_hunspell = pytest.mark.skipif(
    HUNSPELL is None or not shutil.which("hunspell"), reason="hunspell is not installed"
)


def hunspell_rejects(folder, words):
    """The words that Hunspell calls wrong. Its program would cut them at punctuation first."""
    paths = [bytes(folder / f"en.{ending}") for ending in ("aff", "dic")]
    dictionary = HUNSPELL.Hunspell_create(*paths)
    try:
        return [word for word in words if not HUNSPELL.Hunspell_spell(dictionary, word.encode())]
    finally:
        HUNSPELL.Hunspell_destroy(dictionary)


# --- AOSP ---


def test_a_word_list_has_words_and_bigrams_on_the_published_scale(release, tmp_path):
    path = tmp_path / "en.combined"
    written = consumers.write_aosp(release, path, casing={"paris": "Paris"})
    header, words = read_combined(path)
    assert header == (
        "dictionary=main:en,locale=en,description=Bayesgram release; ε 1; δ 1e-07 (PROVED),"
        "date=0,version=1"
    )
    assert list(words) == ["the", "fish", "don't", "Paris", "👩‍👧"]
    total = sum(WORDS.values())
    assert words["the"][0] == round(255 + np.log(60 / total) / np.log(1.15))
    assert words["the"][1] == {
        "fish": round(255 + np.log(20 / 60) / np.log(1.15)),
        "Paris": round(255 + np.log(2 / 60) / np.log(1.15)),
    }
    assert written == consumers.Written(ngrams=7, unwritable=3)


def test_a_bigram_goes_with_its_words_and_is_not_called_unwritable(release, tmp_path):
    path = tmp_path / "en.combined"
    written = consumers.write_aosp(release, path, block=Blocklist(("paris",)))
    _, words = read_combined(path)
    assert "paris" not in words
    assert list(words["the"][1]) == ["fish"]
    assert written == consumers.Written(ngrams=5, unwritable=3)


def test_a_bigram_makes_no_word_less_likely(tmp_path):
    release = release_of({"the": 50.0, "fish": 10.0}, {"fish the": 0.1, "the fish": 20.0})
    consumers.write_aosp(release, tmp_path / "en.combined")
    _, words = read_combined(tmp_path / "en.combined")
    assert words["fish"][1]["the"] == words["the"][0]
    assert words["the"][1]["fish"] > words["fish"][0]


def test_a_word_has_as_many_bigrams_as_a_dictionary_holds(tmp_path, monkeypatch):
    monkeypatch.setattr(consumers, "AOSP_MAX_BIGRAMS", 2)
    pairs = {"the fish": 20.0, "the paris": 9.0, "the don't": 8.0}
    written = consumers.write_aosp(release_of(WORDS, pairs), tmp_path / "en.combined")
    _, words = read_combined(tmp_path / "en.combined")
    assert list(words["the"][1]) == ["fish", "paris"]
    assert written == consumers.Written(ngrams=7, unwritable=3)


@needs_dicttool
def test_dicttool_reads_and_compiles_a_word_list(tmp_path):
    words = {**WORDS, "#tag": 2.0, "'": 1.0, "ünïcödé": 1.0, "אב": 1.0, "x" * 47: 1.0}
    pairs = {**PAIRS, "fish the": 0.1, "#tag 👩‍👧": 1.0, "אב ünïcödé": 0.5}
    path = tmp_path / "en.combined"
    consumers.write_aosp(release_of(words, pairs), path, casing={"paris": "Paris"})
    _, ours = read_combined(path)
    theirs, their_pairs = read_with_dicttool(path)
    assert theirs == {word: frequency for word, (frequency, _) in ours.items()}
    assert their_pairs == {
        (word, second): frequency
        for word, (_, after) in ours.items()
        for second, frequency in after.items()
    }
    said = make_dictionary(path, tmp_path / "main_en.dict")
    assert "superior" not in said
    assert "Ignoring" not in said
    assert (tmp_path / "main_en.dict").stat().st_size > 100


def test_a_cased_spelling_that_is_another_word_is_not_used(tmp_path):
    path = tmp_path / "en.combined"
    release = release_of({"us": 3.0, "US": 2.0, "paris": 1.0})
    consumers.write_aosp(release, path, casing={"us": "US", "paris": "Paris"})
    assert list(read_combined(path)[1]) == ["us", "US", "Paris"]


def test_sentence_boundaries_are_no_words(tmp_path):
    table = {("</s>",): 5.0, ("fish",): 9.0, ("<s>", "fish"): 4.0, ("fish", "</s>"): 4.0}
    release = make_release(table, tokenizer="whitespace, boundaries")
    consumers.write_aosp(release, tmp_path / "en.combined")
    assert read_combined(tmp_path / "en.combined")[1].keys() == {"fish"}
    consumers.write_suggest(release, tmp_path / "s.tsv")
    assert read_lucene(tmp_path / "s.tsv") == {"fish": 9}


@given(st.dictionaries(HOSTILE, st.floats(0.001, 1e12), min_size=1, max_size=12))
@examples(60)
def test_hostile_words_give_valid_files(words):
    names = list(words)
    pairs = {f"{first} {second}": 1.0 for first, second in itertools.pairwise(names)}
    release = release_of(words, pairs)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for write, file, read in (
            (consumers.write_aosp, "en.combined", lambda path: read_combined(path)[1]),
            (consumers.write_suggest, "s.tsv", read_lucene),
            (
                lambda *of: consumers.write_suggest(*of, for_program=ELASTICSEARCH),
                "s.jsonl",
                read_completions,
            ),
        ):
            try:
                written = write(release, folder / file)
            except BayesgramError as error:
                assert "no n-gram is left to write" in str(error)  # noqa: PT017 - the other branch goes on
                continue
            entries = read(folder / file)
            if file.startswith("s."):
                assert written.ngrams == len(entries)
                assert written.ngrams + written.unwritable == len(release)
                assert entries.keys() <= {*words, *pairs}
            else:
                assert entries.keys() <= set(words)
                followers = sum(len(after) for _, after in entries.values())
                assert written.ngrams == len(entries) + followers
                assert written.ngrams + written.unwritable == len(release)


# --- Suggestions ---


def test_suggestions_have_whole_weights(release, tmp_path):
    consumers.write_suggest(release, tmp_path / "s.tsv")
    weights = read_lucene(tmp_path / "s.tsv")
    assert weights == {**WORDS, **PAIRS}
    assert list(weights.values()) == sorted(weights.values(), reverse=True)
    consumers.write_suggest(release, tmp_path / "s.jsonl", for_program=ELASTICSEARCH)
    assert read_completions(tmp_path / "s.jsonl") == weights


def test_a_row_is_one_suggestion(tmp_path):
    rows = make_release({("weather in berlin",): 5.0, ("rome",): 2.0}, tokenizer="rows")
    consumers.write_suggest(rows, tmp_path / "s.tsv")
    assert read_lucene(tmp_path / "s.tsv") == {"weather in berlin": 5, "rome": 2}
    consumers.write_hub(rows, tmp_path / "hub")
    assert (tmp_path / "hub" / "rows.parquet").is_file()


@needs_lucene
def test_lucene_reads_every_suggestion(tmp_path):
    rows = {'say "hi", ok': 9.0, "#tag": 8.0, "a\u2028b": 7.0, "👩‍👧 ok": 6.0, "שלום": 5.0}
    rows |= {"x" * 3000: 4.0, "much": 3e12, "and/or\\": 3.0, " space": 2.0, "\ufeffmark": 0.2}
    path = tmp_path / "s.tsv"
    consumers.write_suggest(
        make_release({(row,): n for row, n in rows.items()}, tokenizer="rows"), path
    )
    assert read_with_lucene(path) == read_lucene(path)
    assert read_lucene(path).keys() == rows.keys()


# --- Hunspell ---


@needs_hunspell
def test_hunspell_accepts_the_words_and_corrects_others(release, tmp_path):
    written = consumers.write_hunspell(release, tmp_path / "d", casing={"paris": "Paris"})
    assert written == consumers.Written(ngrams=6, unwritable=1)  # emoji are no words to it
    words = read_dic(tmp_path / "d" / "en.dic")
    assert words == ["the", "fish", "don't", "Paris", "a,b", "x=y"]
    wrong = ["fihs", "paris", "tthe"]
    assert hunspell_rejects(tmp_path / "d", [*words, *wrong]) == wrong
    done = subprocess.run(
        ["hunspell", "-a", "-i", "utf-8", "-d", str(tmp_path / "d" / "en")],
        input="fihs\n",
        capture_output=True,
        check=True,
        encoding="utf-8",
    )
    assert "& fihs 1 0: fish" in done.stdout
    assert hunspell_rejects(tmp_path / "d", ["don’t", "Paris", "PARIS", "Fish", "dont"]) == ["dont"]
    listed = subprocess.run(
        ["hunspell", "-l", "-i", "utf-8", "-d", str(tmp_path / "d" / "en")],
        input="The fish, the Paris. don’t dont fihs 12\n",
        capture_output=True,
        check=True,
        encoding="utf-8",
    )
    assert listed.stdout.split() == ["dont", "fihs"]
    affixes = (tmp_path / "d" / "en.aff").read_text(encoding="utf-8")
    assert affixes.startswith("# Made from a Bayesgram release: ε = 1, δ = 1e-07 (PROVED)\n")


@needs_hunspell
@given(st.sets(HOSTILE, min_size=1, max_size=300))
@examples(15)
def test_hunspell_accepts_every_word_that_is_written(words):
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name) / "d"
        try:
            written = consumers.write_hunspell(release_of(dict.fromkeys(words, 1.0)), folder)
        except BayesgramError as error:
            assert "no n-gram is left to write" in str(error)  # noqa: PT017 - the other branch goes on
            return
        entries = read_dic(folder / "en.dic")
        assert set(entries) <= words
        assert written.ngrams + written.unwritable == len(words)
        assert hunspell_rejects(folder, entries) == []


# --- Hub ---


def test_the_hub_folder_opens_offline_row_by_row(release, tmp_path):
    pytest.importorskip("datasets")
    consumers.write_hub(release, tmp_path / "hub")
    script = (
        "import json,sys,datasets\n"
        "print(json.dumps({c: datasets.load_dataset(sys.argv[1], c, split='train',"
        " cache_dir=sys.argv[2]).to_list() for c in ('unigrams', 'bigrams')}))"
    )
    done = subprocess.run(
        [sys.executable, "-c", script, str(tmp_path / "hub"), str(tmp_path / "cache")],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "HF_HUB_OFFLINE": "1"},
    )
    loaded = json.loads(done.stdout)
    rows = [(row["ngram"], row["probability"]) for name in loaded for row in loaded[name]]
    assert rows == list(zip(release.ngrams.to_pylist(), release.probabilities, strict=True))
    readme = (tmp_path / "hub" / "README.md").read_text(encoding="utf-8")
    assert release.card.claim in readme


@pytest.mark.parametrize("locale", ["no", "en_US", "zh-Hant"])
def test_the_head_of_a_dataset_card_is_yaml(release, tmp_path, locale):
    consumers.write_hub(release, tmp_path / "hub", locale=locale)
    _, head, body = (tmp_path / "hub" / "README.md").read_text(encoding="utf-8").split("---\n", 2)
    assert yaml.safe_load(head) == {
        "language": [locale[:2]],  # unquoted, Norway's would be the value false
        "license": "unknown",
        "size_categories": ["n<1K"],
        "tags": ["differential-privacy", "n-grams"],
        "configs": [
            {"config_name": name, "data_files": f"{name}.parquet"}
            for name in ("unigrams", "bigrams")
        ],
    }
    assert "left out" not in body


def test_a_dataset_card_says_what_discoveries_cost_and_what_is_left_out(release, tmp_path):
    claim = {"epsilon": 2.0, "delta": 1e-8, "guarantee": "PROVED", "reviewed": True}
    vocabulary = {**release.card.vocabulary, "discovered": 3, "discoveries": [claim]}
    discovered = replace(release, card=replace(release.card, vocabulary=vocabulary))
    consumers.write_hub(discovered, tmp_path / "hub", block=Blocklist(("paris",)))
    readme = (tmp_path / "hub" / "README.md").read_text(encoding="utf-8")
    assert "3 discovered at ε = 2, δ = 1e-08 (PROVED), which adds up with this release" in readme
    assert "The publisher left out 2 of the 10 n-grams of the release" in readme
    consumers.write_aosp(discovered, tmp_path / "en.combined")
    assert "cost more; see card.json" in read_combined(tmp_path / "en.combined")[0]


def test_a_dataset_card_claims_no_more_than_the_card(release, tmp_path):
    card = replace(release.card, guarantee=Guarantee.NONE, seeded=True)
    consumers.write_hub(replace(release, card=card), tmp_path / "hub")
    readme = (tmp_path / "hub" / "README.md").read_text(encoding="utf-8")
    assert "PROVED" not in readme
    assert f"The label is **{card.label}**" in readme
    consumers.write_aosp(replace(release, card=card), tmp_path / "en.combined")
    assert "(NONE" in read_combined(tmp_path / "en.combined")[0]


# --- All ---


def test_min_count_is_less_two_deviations(release, tmp_path):
    std = release.probabilities * 0.25  # so half of each count is left
    known = replace(release, probability_std=std)
    consumers.write_suggest(known, tmp_path / "s.tsv", min_count=10)
    assert (tmp_path / "s.tsv").read_text() == "the\t60\nfish\t30\nthe fish\t20\n"
    with pytest.raises(BayesgramError) as caught:
        consumers.write_suggest(known, tmp_path / "t.tsv", min_count=1000)
    assert str(caught.value) == (
        "no n-gram has a count of 1000 or more, less two deviations; lower `min_count`."
    )


def test_a_probability_of_zero_has_a_deviation(release, tmp_path):
    probabilities = release.probabilities.copy()
    probabilities[release.ngrams.index("paris").as_py()] = 0.0
    known = replace(
        release, probabilities=probabilities, probability_std=np.full(len(release), 1e-6)
    )
    consumers.write_suggest(known, tmp_path / "s.tsv", min_count=0)
    assert "paris" not in read_lucene(tmp_path / "s.tsv")


@pytest.mark.parametrize("name", ["aosp", "suggest", "hunspell", "hub"])
def test_an_existing_output_is_kept_unless_forced(release, tmp_path, name):
    write = getattr(consumers, f"write_{name}")
    path = tmp_path / "output"
    write(release, path)
    with pytest.raises(UsageError, match="exists already"):
        write(release, path)
    write(release, path, force=True)
    assert [file.name for file in tmp_path.iterdir()] == ["output"]


def test_bad_requests_are_refused(release, tmp_path):
    requests = [
        (
            lambda: consumers.write_suggest(release, tmp_path / "s.tsv", min_count=3),
            (
                "min_count=3: needs standard deviations, which the mechanism posterior does not state;"
                " leave it out."
            ),
        ),
        (
            lambda: consumers.write_aosp(release, tmp_path / "x", locale="e n"),
            "locale='e n': must be a language such as en, or with a region, en_US.",
        ),
        (
            lambda: consumers.write_aosp(make_release({("a", "b"): 1.0}), tmp_path / "x"),
            (
                "the release has 1 n-grams of order 2, and this format needs words; release a vocabulary"
                " of orders 1 and 2 (`bayesgram vocab --orders 1,2`)."
            ),
        ),
    ]
    rows = make_release({("weather in berlin",): 1.0}, tokenizer="rows")
    requests += [
        (
            lambda write=write: write(rows, tmp_path / "x"),
            (
                "the release has whole rows, and this format needs words; export rows as suggest,"
                " hub, tsv, jsonl, parquet or model."
            ),
        )
        for write in (consumers.write_aosp, consumers.write_hunspell)
    ]
    for request, message in requests:
        with pytest.raises(UsageError) as caught:
            request()
        assert str(caught.value) == message
    assert not list(tmp_path.iterdir())
