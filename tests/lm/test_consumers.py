"""Releases for keyboards, search boxes, spell checkers and hubs, read as their programs do."""

import json
import os
import re
import shutil
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest

from bayesgram.errors import BayesgramError, UsageError
from bayesgram.lm import consumers
from helpers.reference_language_models import make_release

WORDS = {"the": 60.0, "fish": 30.0, "don't": 5.0, "paris": 3.0, "a,b": 1.0, "x=y": 1.0, "👩‍👧": 2.0}
PAIRS = {"the fish": 20.0, "the paris": 2.0, "fish a,b": 1.0}


@pytest.fixture
def release():
    table = {(word,): count for word, count in WORDS.items()}
    table |= {tuple(pair.split()): count for pair, count in PAIRS.items()}
    return make_release(table)


def read_combined(path):
    """Words with f and bigrams, by the rules of AOSP's CombinedInputOutput and sample."""
    header, *lines = path.read_text(encoding="utf-8").splitlines()
    assert re.fullmatch(r"dictionary=[^:]+(:[^=]+=[^:]+)*", header)
    assert all(len(field.split("=")) == 2 for field in header.split(","))
    words = {}
    for line in lines:
        match = re.fullmatch(r"( word|  bigram)=([^,=\s]+),f=([1-9]\d{0,2})", line)
        assert match, line
        assert int(match[3]) <= 255
        if match[1] == " word":
            assert match[2] not in words
            bigrams = {}
            words[match[2]] = (int(match[3]), bigrams)
        else:
            bigrams[match[2]] = int(match[3])
    assert all(second in words for _, pairs in words.values() for second in pairs)
    return header, words


def test_a_word_list_has_words_and_bigrams_on_the_published_scale(release, tmp_path):
    path = tmp_path / "en.combined"
    written = consumers.write_aosp(release, path, casing={"paris": "Paris"})
    header, words = read_combined(path)
    assert "ε 1" in header
    assert "PROVED" in header
    assert list(words) == ["the", "fish", "don't", "Paris", "👩‍👧"]
    total = sum(WORDS.values())
    assert words["the"][0] == round(255 + np.log(60 / total) / np.log(1.15))
    assert words["the"][1] == {
        "fish": round(255 + np.log(20 / 60) / np.log(1.15)),
        "Paris": round(255 + np.log(2 / 60) / np.log(1.15)),
    }
    assert written == consumers.Written(7, 3)


def test_suggestions_have_whole_weights(release, tmp_path):
    consumers.write_suggest(release, tmp_path / "s.tsv")
    lines = [line.split("\t") for line in (tmp_path / "s.tsv").read_text().splitlines()]
    assert {text: int(weight) for text, weight in lines} == {**WORDS, **PAIRS}
    program = consumers.SuggestFormat.ELASTICSEARCH
    consumers.write_suggest(release, tmp_path / "s.jsonl", for_program=program)
    documents = [json.loads(line) for line in (tmp_path / "s.jsonl").read_text().splitlines()]
    assert documents == [{"suggest": {"input": [text], "weight": int(n)}} for text, n in lines]


@pytest.mark.skipif(not shutil.which("hunspell"), reason="hunspell is not installed")
def test_hunspell_accepts_the_words_and_corrects_others(release, tmp_path):
    consumers.write_hunspell(release, tmp_path / "d", casing={"paris": "Paris"})
    typed = "the\nfish\ndon't\nParis\nfihs\n"
    done = subprocess.run(
        ["hunspell", "-a", "-i", "utf-8", "-d", str(tmp_path / "d" / "en")],
        input=typed, capture_output=True, text=True, check=True, encoding="utf-8",
    )  # fmt: skip
    answers = [line for line in done.stdout.splitlines()[1:] if line]
    assert answers[:4] == ["*"] * 4
    assert answers[4].startswith("& fihs")
    assert "fish" in answers[4]


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
        capture_output=True, text=True, check=True, env={**os.environ, "HF_HUB_OFFLINE": "1"},
    )  # fmt: skip
    loaded = json.loads(done.stdout)
    rows = [(row["ngram"], row["probability"]) for name in loaded for row in loaded[name]]
    assert rows == list(zip(release.ngrams.to_pylist(), release.probabilities, strict=True))
    readme = (tmp_path / "hub" / "README.md").read_text(encoding="utf-8")
    assert release.card.claim in readme


def test_bad_requests_are_refused(release, tmp_path):
    with pytest.raises(UsageError, match="standard deviations"):
        consumers.write_suggest(release, tmp_path / "s.tsv", min_count=3)
    with pytest.raises(UsageError, match="must be a language"):
        consumers.write_aosp(release, tmp_path / "x", locale="e n")
    with pytest.raises(UsageError, match="needs words"):
        consumers.write_aosp(make_release({("a", "b"): 1.0}), tmp_path / "x")
    assert not list(tmp_path.iterdir())


def test_min_count_is_less_two_deviations(release, tmp_path):
    std = release.probabilities * 0.25  # so half of each count is left
    known = replace(release, probability_std=std)
    consumers.write_suggest(known, tmp_path / "s.tsv", min_count=10)
    assert (tmp_path / "s.tsv").read_text() == "the\t60\nfish\t30\nthe fish\t20\n"
    with pytest.raises(BayesgramError, match="no n-gram has a count of 1000 or more"):
        consumers.write_suggest(known, tmp_path / "t.tsv", min_count=1000)
