"""The vocabulary, against a Counter."""

from collections import Counter
from functools import cache

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bayesgram.errors import BayesgramError, UsageError
from bayesgram.public import top_ngrams
from bayesgram.public.vocabulary import Vocabulary
from bayesgram.synthetic.population import Population
from bayesgram.text import ngram_tables, ngrams
from bayesgram.text.tokenizer import Tokenizer

pytestmark = pytest.mark.usefixtures("sorted_and_hashed")
lines = st.lists(
    st.lists(st.sampled_from(["a", "b", "ab", "é", "b'a"]), max_size=9), min_size=1, max_size=6
)


def expected(texts, order, size):
    found = Counter(
        tuple(words[i : i + order]) for words in texts for i in range(len(words) - order + 1)
    )
    ranked = sorted(
        found.items(), key=lambda item: (-item[1], [token.encode() for token in item[0]])
    )
    return [(" ".join(ngram), count) for ngram, count in ranked[:size]]


@settings(deadline=None)
@given(lines, st.integers(1, 6), st.integers(1, 12))
def test_the_top_k_with_ties_broken_by_text(texts, order, size):
    table = pa.table({"text": [" ".join(words) for words in texts]})
    wanted = expected(texts, order, size)
    if not wanted:
        with pytest.raises(
            BayesgramError, match=f"^the public text has no n-gram of order {order}:"
        ):
            Vocabulary.from_public(table, order=order, size=size)
        return
    made = Vocabulary.from_public(table, order=order, size=size)
    assert list(zip(made.ngrams.to_pylist(), made.counts.tolist(), strict=True)) == wanted


def test_a_vocabulary_does_not_depend_on_the_order_of_its_text():
    texts = ["the red fish", "the blue fish", "a red fish swims", "the red fish"]
    made = [
        Vocabulary.from_public(pa.table({"text": t}), order=2, size=3) for t in (texts, texts[::-1])
    ]
    assert made[0].ngrams.equals(made[1].ngrams)
    assert made[0].fingerprint == made[1].fingerprint


def test_round_trip(tmp_path):
    made = Vocabulary.from_public(
        pa.table({"text": ["A b A b", "c d"]}),
        order=2,
        size=9,
        tokenizer=Tokenizer("words", lowercase=False),
    )
    made.save(tmp_path / "v.parquet")
    read = Vocabulary.load(tmp_path / "v.parquet")
    assert read.ngrams.equals(made.ngrams)
    assert read.counts.tolist() == made.counts.tolist()
    assert (read.order, read.tokenizer, read.fingerprint) == (
        2,
        Tokenizer("words", lowercase=False),
        made.fingerprint,
    )


def test_fingerprints_tell_tokenizers_orders_and_ngrams_apart():
    def fingerprint(ngrams, order, tokenizer):
        return Vocabulary(
            pa.array(ngrams, pa.large_string()), np.ones(len(ngrams), np.int64), order, tokenizer
        ).fingerprint

    words, characters = Tokenizer("words"), Tokenizer("characters")
    prints = {
        fingerprint(["a b", "c d"], 2, words),
        fingerprint(["c d", "a b"], 2, words),
        fingerprint(["a b", "c d"], 2, characters),
        fingerprint(["ab", "cd"], 1, words),
        fingerprint(["a", "bcd"], 1, words),
    }
    assert len(prints) == 5
    sliced = pa.array(["x", "a b", "c d"], pa.large_string())[1:]
    assert Vocabulary(sliced, np.ones(2, np.int64), 2, words).fingerprint in prints


def test_a_vocabulary_made_elsewhere_says_no_tokenizer(tmp_path):
    path = tmp_path / "v.parquet"
    pq.write_table(
        pa.table({"ngram": ["a b", "b c"], "count": pa.array([5, 0], pa.uint32())}), path
    )
    assert Vocabulary.load(path).tokenizer == Tokenizer("words")
    assert Vocabulary.load(path, tokenizer=Tokenizer("whitespace")).tokenizer == Tokenizer(
        "whitespace"
    )
    assert Vocabulary.load(path).order == 2


def test_a_tokenizer_that_contradicts_the_file_is_refused(tmp_path):
    path = tmp_path / "v.parquet"
    Vocabulary.from_public(pa.table({"text": ["a b c"]}), order=1, size=9).save(path)
    with pytest.raises(UsageError) as caught:
        Vocabulary.load(path, tokenizer=Tokenizer("whitespace"))
    assert str(caught.value) == (
        f"{path}: this vocabulary was made with the tokenizer 'words', not 'whitespace';"
        " leave `tokenizer` and `lowercase` out."
    )


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        (
            {"ngram": ["a"]},
            "no column 'count'; a vocabulary has the columns 'ngram' and 'count', this file has 'ngram'.",
        ),
        (
            {"ngram": ["a"], "count": [1.5]},
            "the column 'count' must hold whole numbers of 0 or more.",
        ),
        (
            {"ngram": ["a"], "count": [-1]},
            "the column 'count' must hold whole numbers of 0 or more.",
        ),
        (
            {"ngram": ["a", None], "count": [1, 1]},
            "the column 'ngram' must hold text without nulls.",
        ),
        ({"ngram": [1], "count": [1]}, "the column 'ngram' must hold text without nulls."),
        (
            {"ngram": pa.array([], pa.string()), "count": pa.array([], pa.int64())},
            "0 rows; a vocabulary has 1 to 100,000,000 n-grams.",
        ),
        (
            {"ngram": ["a b", "c"], "count": [1, 1]},
            "row 2 has 1 tokens and row 1 has 2; the n-grams of one order stand together, short ones first.",
        ),
        ({"ngram": ["a b", " c"], "count": [1, 1]}, "row 2 is not tokens joined by single spaces."),
    ],
)
def test_bad_files(tmp_path, columns, message):
    path = tmp_path / "v.parquet"
    pq.write_table(pa.table(columns), path)
    with pytest.raises(UsageError) as caught:
        Vocabulary.load(path)
    assert str(caught.value) == f"{path}: {message}"


def test_missing_and_foreign_files(tmp_path):
    with pytest.raises(UsageError, match=r"no such vocabulary; make one with `bayesgram vocab`\.$"):
        Vocabulary.load(tmp_path / "none.parquet")
    (tmp_path / "text").write_text("hello")
    with pytest.raises(
        UsageError, match=r"not a Parquet file; make a vocabulary with `bayesgram vocab`\.$"
    ):
        Vocabulary.load(tmp_path / "text")


@pytest.mark.parametrize("order", [0, 7, -1])
def test_bad_order(order):
    with pytest.raises(UsageError, match=rf"^order={order}: an n-gram has 1 to 6 tokens\.$"):
        Vocabulary.from_public(pa.table({"text": ["a"]}), order=order)


@pytest.mark.parametrize("size", [0, -5, 10**9])
def test_bad_size(size):
    with pytest.raises(
        UsageError, match=rf"^size={size}: a vocabulary has 1 to 100,000,000 n-grams\.$"
    ):
        Vocabulary.from_public(pa.table({"text": ["a"]}), order=1, size=size)


def test_public_counts_that_would_overflow_are_refused():
    ngrams = pa.array(["a", "b"], pa.large_string())
    with pytest.raises(
        UsageError,
        match=r"^the public counts must be 0 or more and add up to less than 2\^53; divide them",
    ):
        Vocabulary(ngrams, np.array([2**62, 2**62]), 1, Tokenizer())
    with pytest.raises(
        UsageError, match=r"^2 n-grams, 1 counts: a vocabulary has as many of both\.$"
    ):
        Vocabulary(ngrams, np.array([1]), 1, Tokenizer())


def test_capitals_that_are_never_found():
    ngrams = pa.array(["The fish", "the fish", "Ärger mit"], pa.large_string())
    assert Vocabulary(ngrams, np.ones(3, np.int64), 2, Tokenizer()).unreachable_count == 2
    assert (
        Vocabulary(
            ngrams, np.ones(3, np.int64), 2, Tokenizer("words", lowercase=False)
        ).unreachable_count
        == 0
    )


def test_several_orders_and_boundaries(tmp_path):
    text = pa.table({"text": ["A b. A c. A b."]})
    made = Vocabulary.from_public(
        text, order=(2, 1, 3), size=3, tokenizer=Tokenizer(boundaries=True)
    )
    assert made.ngrams.to_pylist() == [
        "</s>",
        "a",
        "b",
        "<s> a",
        "a b",
        "b </s>",
        "<s> a b",
        "a b </s>",
        "<s> a c",
    ]
    assert made.counts.tolist() == [3, 3, 2, 3, 2, 2, 2, 2, 1]
    assert (made.order, made.tokenizer.name) == (3, "words, boundaries")
    assert [(place, part.order, len(part)) for place, part in made.by_order] == [
        (slice(0, 3), 1, 3),
        (slice(3, 6), 2, 3),
        (slice(6, 9), 3, 3),
    ]
    assert made.prior == pytest.approx([4 / 11, 4 / 11, 3 / 11, 0.4, 0.3, 0.3, 3 / 8, 3 / 8, 2 / 8])
    made.save(tmp_path / "vocab.parquet")
    loaded = Vocabulary.load(tmp_path / "vocab.parquet")
    assert loaded.fingerprint == made.fingerprint
    assert loaded.tokenizer == made.tokenizer


def test_a_vocabulary_made_elsewhere_with_marks_has_boundaries(tmp_path):
    pq.write_table(pa.table({"ngram": ["<s> a", "a b"], "count": [2, 1]}), tmp_path / "v.parquet")
    assert Vocabulary.load(tmp_path / "v.parquet").tokenizer == Tokenizer(boundaries=True)
    pq.write_table(pa.table({"ngram": ["s a", "a b"], "count": [2, 1]}), tmp_path / "w.parquet")
    assert Vocabulary.load(tmp_path / "w.parquet").tokenizer == Tokenizer()


@pytest.mark.parametrize("ties", [0, 1, 4])
@pytest.mark.parametrize("slots", [64, 1 << 20])
def test_ties_for_the_last_place_go_by_the_order_of_tokens(monkeypatch, ties, slots):
    """However many there are, and wherever in the table they are found."""
    monkeypatch.setattr(top_ngrams, "MAX_TIES_FACTOR", ties)
    monkeypatch.setattr(ngram_tables, "SLOTS_AT_ONCE", slots)
    words = [f"{a}{b}" for a in "zyxwvut" for b in "qponmlk"]
    text = [{"text": f"{word} c. {word} c" if word < "u" else f"{word} c"} for word in words]
    made = Vocabulary.from_public(pa.Table.from_pylist(text), order=2, size=20)
    twice, once = (
        sorted(f"{word} c" for word in words if (word < "u") == both) for both in (True, False)
    )
    assert made.ngrams.to_pylist() == [*twice, *once][:20]
    assert made.counts.tolist() == [2] * len(twice) + [1] * (20 - len(twice))


def test_little_memory_gives_the_same_vocabulary(monkeypatch):
    text = list(Population(users=10, seed=1).public_text(3_000))
    whole = Vocabulary.from_public(
        text, order=(1, 2, 3), size=700, tokenizer=Tokenizer(boundaries=True)
    )
    monkeypatch.setattr(ngrams, "SMALLEST", 10_000)
    less = Vocabulary.from_public(
        text, order=(1, 2, 3), size=700, tokenizer=Tokenizer(boundaries=True), memory=1
    )
    assert less.fingerprint == whole.fingerprint
    assert less.counts.tolist() == whole.counts.tolist()


@cache
def public_batches():
    return list(Population(users=10, seed=2).public_text(1_500))


@cache
def expected_of_batches(order, size):
    texts = [text for batch in public_batches() for text in batch["text"].to_pylist()]
    return expected([words for text in texts for words in Tokenizer().sentences(text)], order, size)


@pytest.mark.parametrize("guess", [1, 3, 40, 10**6])
@pytest.mark.parametrize(
    ("cells", "memory", "repeats"),
    [(2, 1, 0), (2, 1, 10**9), (1 << 9, 1 << 30, 3), (1 << 22, 1, 0), (1 << 22, 1, 10**9)],
)
def test_the_top_is_exact_whatever_was_guessed_of_its_last_count(
    monkeypatch, guess, cells, memory, repeats
):
    """Guesses that are too high need a second look at the text; bounds of two cells keep nothing away.

    With little memory, text that is said to repeat itself is counted as it comes, and other text is spilled to disk.
    """
    monkeypatch.setattr(ngrams, "REPEATS", repeats)
    monkeypatch.setattr(ngrams, "DEEP", 1 if cells == 1 << 9 else 10**6)
    monkeypatch.setattr(ngram_tables.CountMinSketch, "likely_count", lambda *_: guess)
    monkeypatch.setattr(ngrams, "CELLS", cells)
    monkeypatch.setattr(ngrams, "SMALLEST", 10_000)
    for order, size in ((1, 30), (2, 400), (3, 10**6)):
        made = Vocabulary.from_public(public_batches(), order=order, size=size, memory=memory)
        found = list(zip(made.ngrams.to_pylist(), made.counts.tolist(), strict=True))
        assert found == expected_of_batches(order, size)


def test_what_is_rare_is_kept_out_of_the_table():
    """Words by Zipf's law, most windows once: the table behind the bounds is a small part of one of all windows."""
    numbers = np.minimum(np.random.default_rng(1).zipf(1.3, 400_000), 50_000).astype(np.int32)
    bounds = ngram_tables.CountMinSketch(3, tokens=50_001, cells=1 << 17)
    bounds.add([numbers])
    least = bounds.likely_count(100)
    tables = [ngram_tables.WindowTable(3, tokens=50_001) for _ in range(2)]
    tables[0].add([numbers])
    tables[1].add([numbers], bounds, at_least=least)
    assert tables[0].count_reached_by(100) >= least > 10
    assert len(tables[1]) < len(tables[0]) / 10


def test_what_is_not_utf8_is_refused(tmp_path):
    """Neither n-grams nor metadata: Arrow hands both out as a file has them."""
    raw = pa.array([b"a", b"b\xff"]).view(pa.string())
    pq.write_table(pa.table({"ngram": raw, "count": [2, 1]}), tmp_path / "v.parquet")
    with pytest.raises(UsageError, match=r"the column 'ngram' must hold text without nulls\.$"):
        Vocabulary.load(tmp_path / "v.parquet")
    table = pa.table({"ngram": ["a"], "count": [2]}).replace_schema_metadata(
        {b"bayesgram.tokenizer": b"wo\xb2ds"}
    )
    pq.write_table(table, tmp_path / "v.parquet")
    with pytest.raises(UsageError, match="not known to this bayesgram"):
        Vocabulary.load(tmp_path / "v.parquet")


def test_every_order_may_have_a_size_of_its_own():
    table = pa.table({"text": ["a b c a b", "b c d", "c d e f"]})
    sized = Vocabulary.from_public(table, order=[2, 1], size=[3, 5])
    assert [len(part) for _, part in sized.by_order] == [3, 5]
    for order, size in ((1, 3), (2, 5)):
        alone = Vocabulary.from_public(table, order=order, size=size)
        assert sized.by_order[order - 1][1].ngrams.to_pylist() == alone.ngrams.to_pylist()
    with pytest.raises(UsageError, match=r"size=3,4,5: 3 sizes for 2 orders"):
        Vocabulary.from_public(table, order=[1, 2], size=[3, 4, 5])
    with pytest.raises(UsageError, match=r"size=0: a vocabulary has 1 to"):
        Vocabulary.from_public(table, order=[1, 2], size=[3, 0])
