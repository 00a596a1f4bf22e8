"""What a notebook shows, and rows as tables of other libraries."""

import shutil

import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import bayesgram as bg
from bayesgram import notebook

PUBLIC = {
    "books": pa.table(
        {"text": ["the red fish swims", "the blue fish sleeps", "thank you so much"]}
    ),
    "talk": pa.table({"text": ["the red fish swims", "thank you so"]}),
}
PRIVATE = pa.table(
    {"user": ["ann", "bob", "eve"], "text": ["The red fish!", "a red fish", "my <b>secret</b>"]}
)


@pytest.fixture(scope="module")
def vocabulary():
    return bg.Vocabulary.from_public(PUBLIC, order=[1, 3], size=100)


@pytest.fixture(scope="module")
def counts(vocabulary):
    return bg.count(PRIVATE, vocabulary)


@pytest.fixture(scope="module")
def release(counts, vocabulary):
    return bg.release(counts, vocabulary, epsilon=1, seed=3)


def test_short_reprs(counts, vocabulary, release):
    assert repr(counts) == f"UserCounts(private, over {len(vocabulary)} n-grams)"
    assert (
        repr(vocabulary)
        == f"Vocabulary({len(vocabulary)} n-grams of order 1, 3, words, books and talk)"
    )
    assert (
        repr(release)
        == f"Release({len(vocabulary)} n-grams of order 1, 3, ε = 1, δ = 1e-07 (NONE))"
    )
    assert repr(release.card) == "Card(posterior, ε = 1, δ = 1e-07 (NONE))"
    assert repr(bg.lm.LanguageModel.from_release(release)).startswith("LanguageModel(order 3, ")


def test_html_is_escaped_and_holds_nothing_private(counts, vocabulary, release):
    found = bg.discover(PRIVATE, vocabulary, epsilon=1)
    shown = [
        counts,
        vocabulary,
        release,
        release.card,
        bg.lm.LanguageModel.from_release(release),
        found,
    ]
    pages = [each._repr_html_() for each in shown]
    assert all(page.startswith("<div>") and page.endswith("</div>") for page in pages)
    assert not [
        page for page in pages for private in ("ann", "secret", "<script") if private in page
    ]
    assert not [
        letter for letter in counts._repr_html_().replace(repr(counts), "") if letter.isdigit()
    ]
    hostile = notebook.html("<script>", [("<a>", "\u202e</td>")], ("<th>",), [("&",)])
    assert "<script>" not in hostile
    assert "<a>" not in hostile
    assert "\u202e" not in hostile


def test_counts_show_no_number_of_users(vocabulary):
    many = pa.table({"user": [str(n) for n in range(50)], "text": ["the red fish"] * 50})
    few = many.slice(0, 20)
    shown = {
        (repr(each), each._repr_html_())
        for each in (bg.count(many, vocabulary), bg.count(few, vocabulary))
    }
    assert len(shown) == 1


def test_top_is_of_one_order(release):
    best = release.top(2)
    assert [each.ngram.count(" ") for each in best] == [2, 2]
    assert (
        best[0].probability
        >= best[1].probability
        >= max(each.probability for each in release.top(100)[2:])
    )
    assert {" " in each.ngram for each in release.top(3, order=1)} == {False}
    with pytest.raises(
        bg.UsageError, match=r"^order=2: the release has .* n-grams of order 1, 3\.$"
    ):
        release.top(3, order=2)
    with pytest.raises(
        bg.UsageError, match=r"^k=0: the number of n-grams is a whole number from 1"
    ):
        release.top(0)


def test_an_ngram_is_cut_as_text_is(release):
    found = release["Thank you so!"]
    assert found.ngram == "thank you so"
    assert found == release["thank you so"]
    assert found.standard_deviation > 0
    assert "thank you so" in release
    assert "my secret text" not in release
    assert 3 not in release
    with pytest.raises(bg.UsageError) as caught:
        release["my secret text"]
    assert "secret" not in str(caught.value)


def test_rows_as_tables(release, vocabulary, tmp_path):
    release.save(tmp_path / "out")
    assert release.to_arrow() == bg.Release.load(tmp_path / "out").to_arrow()
    assert isinstance(release.to_pandas(), pd.DataFrame)
    assert isinstance(release.to_polars(), pl.DataFrame)
    assert (
        release.to_pandas()["ngram"].tolist()
        == release.to_polars()["ngram"].to_list()
        == release.ngrams.to_pylist()
    )
    assert vocabulary.to_polars().columns == ["ngram", "count", "count_books", "count_talk"]


def test_a_library_that_is_not_there(release, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "polars", None)
    with pytest.raises(
        bg.UsageError, match=r"^polars is not installed; pip install polars, or use to_arrow\(\)\.$"
    ):
        release.to_polars()


def test_counts_say_themselves_how_large_their_vocabulary_is(counts, vocabulary, tmp_path):
    bg.save_counts(counts, vocabulary, tmp_path / "counts")
    assert bg.load_counts(tmp_path / "counts").vocabulary_size == len(vocabulary)
    shutil.copy(tmp_path / "counts" / "counts.parquet", tmp_path / "rows.parquet")
    with pytest.raises(
        bg.UsageError, match=r"does not say how large its vocabulary is; give vocabulary_size=len\("
    ):
        bg.load_counts(tmp_path / "rows.parquet")
    with pytest.raises(bg.UsageError, match="no such counts"):
        bg.load_counts(tmp_path / "none")
