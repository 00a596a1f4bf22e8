"""Models, releases, vocabularies and lists as public sources, against slow and literal references."""

import gzip
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bayesgram.errors import BayesgramError, UsageError
from bayesgram.io import read_records
from bayesgram.lm.arpa import write_arpa
from bayesgram.lm.language_model import LanguageModel
from bayesgram.public.sources import CountedNgrams
from bayesgram.public.vocabulary import Vocabulary
from bayesgram.text.tokenizer import Tokenizer
from helpers.hypothesis_profiles import examples
from helpers.reference_language_models import make_release
from helpers.source_texts import (
    count_ngrams,
    make_table,
    select_ngrams,
    several_texts,
    words,
    write_parquet,
)

TABLE = {
    ("a", "b"): 6.0,
    ("b", "a"): 3.0,
    ("b", "<unk>"): 2.0,
    ("<s>", "a"): 4.0,
    ("a", "</s>"): 3.0,
    ("c", "b"): 1.0,
}


def arpa_probabilities(path):
    """What an ARPA file says of its n-grams, line by line: their contexts times themselves."""
    logs, order = {}, 0
    for line in path.read_text().splitlines():
        if line.endswith("-grams:"):
            order = int(line[1])
        elif order and line and line != "\\end\\":
            words_ = line.split()[1 : order + 1]
            logs[tuple(words_)] = float(line.split()[0])
    logs["<s>",] = logs["</s>",]
    return {
        ngram: 10 ** sum(logs[ngram[:end]] for end in range(1, len(ngram) + 1)) for ngram in logs
    }


@pytest.mark.parametrize("boundaries", [False, True])
@pytest.mark.parametrize("kind", ["model.arpa", "model.arpa.gz", "model"])
def test_a_model_counts_as_its_joint_probabilities(tmp_path, boundaries, kind):
    model = LanguageModel.from_release(make_release(TABLE, tokenizer="words"))
    write_arpa(model, tmp_path / "model.arpa")
    if kind == "model":
        model.save(tmp_path / kind)
    elif kind != "model.arpa":
        write_arpa(model, tmp_path / kind)
    wanted = {
        " ".join(ngram): round(probability * 10**8)
        for ngram, probability in arpa_probabilities(tmp_path / "model.arpa").items()
        if "<unk>" not in ngram
        and ngram != ("<s>",)
        and (boundaries or not {"<s>", "</s>"} & set(ngram))
    }
    made = Vocabulary.from_public(
        {"model": str(tmp_path / kind)},
        order=(1, 2),
        size=99,
        tokenizer=Tokenizer(boundaries=boundaries),
    )
    assert dict(zip(made.ngrams.to_pylist(), made.counts.tolist(), strict=True)) == pytest.approx(
        wanted, abs=1
    )
    assert made.source_names == ["model"]
    assert ("<s> a" in wanted) == boundaries


def test_a_release_and_a_vocabulary_beside_text(tmp_path, caplog):
    release = make_release({("a",): 3.0, ("z",): 1.0, ("a", "z"): 1.0}, tokenizer="words")
    release.save(tmp_path / "out")
    write_parquet(tmp_path / "v.parquet", ngram=["a", "q", "a", "<s> a"], count=[5, 5, 90, 10])
    given_ = {
        "text": make_table([["a", "b"], ["b", "a"]]),
        "last": tmp_path / "out",
        "other": str(tmp_path / "v.parquet"),
    }
    made = Vocabulary.from_public(given_, order=(1, 2), size=9)
    assert made.ngrams.to_pylist() == ["a", "b", "q", "z", "a z", "a b", "b a"]
    assert made.counts_by_source.tolist() == [
        [2, 2, 0, 0, 0, 1, 1],
        [75_000_000, 0, 0, 25_000_000, 10**8, 0, 0],
        [5, 0, 5, 0, 0, 0, 0],
    ]
    assert caplog.text == ""
    replace(release, card=replace(release.card, seeded=True)).save(tmp_path / "seeded")
    Vocabulary.from_public({**given_, "last": tmp_path / "seeded"}, order=1)
    assert "made from seeded (ε = 1, δ = 1e-07, NONE): nothing is proved of a result" in caplog.text


def test_sources_that_are_cut_otherwise_are_refused(tmp_path):
    make_release({("a",): 1.0}, tokenizer="whitespace").save(tmp_path / "out")
    Vocabulary.from_public(make_table([["a"]]), order=1, tokenizer=Tokenizer(boundaries=True)).save(
        tmp_path / "v.parquet"
    )
    LanguageModel.from_release(make_release(TABLE, tokenizer="words, case kept")).save(
        tmp_path / "model"
    )
    for name, theirs in (
        ("out", "whitespace"),
        ("v.parquet", "words, boundaries"),
        ("model", "words, case kept"),
    ):
        with pytest.raises(UsageError) as caught:
            Vocabulary.from_public(
                {"text": make_table([["a"]]), "other": str(tmp_path / name)}, order=1
            )
        assert str(caught.value).startswith(
            f"{tmp_path / name}: was made with the tokenizer '{theirs}', and this vocabulary is made with 'words';"
        )


def test_text_with_columns_like_a_vocabulary_is_text(tmp_path):
    write_parquet(tmp_path / "v.parquet", ngram=["x"], count=[1], body=["a b"])
    assert Vocabulary.from_public(
        tmp_path / "v.parquet", order=1, text_column="body"
    ).ngrams.to_pylist() == ["a", "b"]
    assert Vocabulary.from_public(tmp_path / "v.parquet", order=1).ngrams.to_pylist() == ["x"]


def test_a_model_among_the_files_of_a_source_is_refused(tmp_path):
    write_arpa(LanguageModel.from_release(make_release(TABLE)), tmp_path / "m.arpa")
    (tmp_path / "a.txt").write_text("a b\n")
    with pytest.raises(UsageError, match="is a source by itself; give each a name of its own"):
        Vocabulary.from_public({"x": [str(tmp_path / "a.txt"), str(tmp_path / "m.arpa")]}, order=1)


@examples(50)
@given(several_texts, st.integers(1, 3), st.integers(1, 12), st.data())
def test_lists_and_text_are_chosen_from_alike(sources, order, size, data):
    """Whether a source is text, or a list of all its n-grams."""
    counted = [count_ngrams(sentences, order, boundaries=False) for sentences in sources]
    wanted = select_ngrams(counted, size)
    if any(not any(own[ngram] for ngram in wanted) for own in counted):
        return
    opened = {}
    for number, (own, sentences) in enumerate(zip(counted, sources, strict=True)):
        ngrams = pa.array(map(" ".join, own), pa.large_string())
        as_list = data.draw(st.booleans())
        text = read_records(make_table(sentences), text_column="text", user_column=None)
        opened[f"s{number}"] = (
            CountedNgrams(ngrams, np.array([*own.values()]), Path("x")) if as_list else text
        )
    made = Vocabulary.from_sources(opened, order=order, size=size, tokenizer=Tokenizer())
    assert made.ngrams.to_pylist() == [" ".join(ngram) for ngram in wanted]
    assert made.counts_by_source.tolist() == [[own[ngram] for ngram in wanted] for own in counted]


# A list that is there already


@examples(50)
@given(several_texts, st.lists(st.lists(words, min_size=1, max_size=3), min_size=1, max_size=9))
def test_a_list_is_counted_in_its_order(sources, listed):
    ngrams = sorted([" ".join(ngram) for ngram in listed], key=lambda ngram: ngram.count(" "))
    wanted = [
        [
            count_ngrams(sentences, ngram.count(" ") + 1, boundaries=False)[tuple(ngram.split())]
            * (ngram not in ngrams[:at])
            for at, ngram in enumerate(ngrams)
        ]
        for sentences in sources
    ]
    given_ = {f"s{number}": make_table(sentences) for number, sentences in enumerate(sources)}
    if not all(map(any, wanted)):
        with pytest.raises(BayesgramError, match="has none of the"):
            Vocabulary.from_list(ngrams, given_)
        return
    made = Vocabulary.from_list(ngrams, given_)
    assert made.ngrams.to_pylist() == ngrams
    assert made.counts_by_source.tolist() == wanted


def test_lists_in_files_and_vocabularies(tmp_path):
    text, ngrams = make_table([["a", "b", "a"]]), ["b", "a", "a b"]
    (tmp_path / "list.txt").write_bytes(b"b\r\na\r\na b\r\n")
    (tmp_path / "list.csv").write_text("more,ngram\n1,b\n2,a\n3,a b\n")
    (tmp_path / "list.tsv.gz").write_bytes(gzip.compress(b"ngram\tx\nb\t\na\t\na b\t\n"))
    write_parquet(tmp_path / "list.parquet", ngram=ngrams)
    known = Vocabulary.from_list(ngrams, text, tokenizer=Tokenizer("whitespace"))
    known.save(tmp_path / "v.parquet")
    lists = [
        ngrams,
        pa.array(ngrams),
        *(tmp_path / f"list.{ending}" for ending in ("txt", "csv", "tsv.gz", "parquet")),
    ]
    for listed in [*lists, tmp_path / "v.parquet", known]:
        made = Vocabulary.from_list(listed, {"x": text})
        assert made.ngrams.to_pylist() == ngrams
        assert made.counts.tolist() == [1, 2, 1]
        own = listed is known or listed == tmp_path / "v.parquet"
        assert made.tokenizer == Tokenizer("whitespace" if own else "words")
        assert (made.fingerprint == known.fingerprint) == own
    looked_up = Vocabulary.from_list(
        ngrams[1:], {"v": tmp_path / "v.parquet"}, tokenizer=Tokenizer("whitespace")
    )
    assert looked_up.counts.tolist() == [2, 1]
    assert Vocabulary.from_list(["<s> a"], text).tokenizer.boundaries
    with pytest.raises(
        UsageError, match=r"^tokenizer: the vocabulary has its own, 'whitespace'; leave it out\.$"
    ):
        Vocabulary.from_list(known, text, tokenizer=Tokenizer())


@pytest.mark.parametrize(
    ("listed", "message"),
    [
        ([], "the list: 0 n-grams; a vocabulary has 1 to 100,000,000, and no nulls."),
        (["a", None], "the list: 2 n-grams; a vocabulary has 1 to 100,000,000, and no nulls."),
        (["a b", "c"], "the list: row 2 has 1 tokens and row 1 has 2; "),
        (["a", ""], "the list: row 2 is not tokens joined by single spaces."),
        (["a b c d e f g"], "order=7: an n-gram has 1 to 6 tokens."),
    ],
)
def test_bad_lists(listed, message):
    with pytest.raises(UsageError) as caught:
        Vocabulary.from_list(listed, make_table([["a"]]))
    assert str(caught.value).startswith(message)


def test_bad_list_files(tmp_path):
    (tmp_path / "list.csv").write_text("word\nb\n")
    with pytest.raises(
        UsageError,
        match=r"no column 'ngram'; the columns are 'word'\. A list has its n-grams in the",
    ):
        Vocabulary.from_list(tmp_path / "list.csv", make_table([["a"]]))
    with pytest.raises(UsageError, match="no column 'ngram'"):
        Vocabulary.from_list(
            write_parquet(tmp_path / "list.parquet", word=["a"]), make_table([["a"]])
        )
    (tmp_path / "list.txt").write_text("")
    with pytest.raises(BayesgramError, match="nothing was read"):
        Vocabulary.from_list(tmp_path / "list.txt", make_table([["a"]]))
