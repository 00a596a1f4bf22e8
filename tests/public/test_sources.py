"""Vocabularies of several public sources, against slow and literal references."""

from fractions import Fraction

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bayesgram.errors import BayesgramError, UsageError
from bayesgram.public import top_ngrams
from bayesgram.public.mixture import SourceCounts, mix_counts
from bayesgram.public.vocabulary import Vocabulary
from bayesgram.synthetic.population import Population
from bayesgram.text import ngrams as text_ngrams
from bayesgram.text.tokenizer import Tokenizer
from helpers.hypothesis_profiles import examples
from helpers.source_texts import (
    count_ngrams,
    make_table,
    mix_counts_exactly,
    select_ngrams,
    several_texts,
    write_parquet,
)

pytestmark = pytest.mark.usefixtures("sorted_and_hashed")


@examples(60)
@given(
    several_texts,
    st.integers(1, 3),
    st.integers(1, 12),
    st.booleans(),
    st.sampled_from([0, 1000]),
    st.integers(0, 4),
)
def test_the_n_grams_with_the_highest_mean_frequency(
    sources, order, size, boundaries, memory, ties
):
    """Exactly, however few candidates are looked up at a time."""
    counted = [count_ngrams(sentences, order, boundaries=boundaries) for sentences in sources]
    wanted = select_ngrams(counted, size)
    given_ = {f"s{number}": make_table(sentences) for number, sentences in enumerate(sources)}
    lacking = [k for k, own in enumerate(counted) if not any(own[ngram] for ngram in wanted)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(top_ngrams, "MAX_TIES_FACTOR", ties)
        patch.setattr(top_ngrams, "MIN_BATCH_ROWS", 1 if memory == 0 else 1000)
        if lacking:
            with pytest.raises(BayesgramError):
                Vocabulary.from_public(
                    given_, order=order, size=size, tokenizer=Tokenizer(boundaries=boundaries)
                )
            return
        made = Vocabulary.from_public(
            given_,
            order=order,
            size=size,
            tokenizer=Tokenizer(boundaries=boundaries),
            memory=memory,
        )
    assert made.ngrams.to_pylist() == [" ".join(ngram) for ngram in wanted]
    assert made.counts_by_source.tolist() == [[own[ngram] for ngram in wanted] for own in counted]
    exact = mix_counts_exactly(made.counts_by_source.tolist())
    assert all(
        abs(count - value) <= Fraction(501, 1000)
        for count, value in zip(made.counts.tolist(), exact, strict=True)
    )


def test_one_source_is_chosen_from_as_ever():
    text = make_table([["a", "b", "a"], ["b", "a"]])
    plain, named = (
        Vocabulary.from_public(given_, order=(1, 2), size=3) for given_ in (text, {"x": text})
    )
    assert plain.sources == ()
    assert plain.source_names == ["public"]
    assert plain.counts_by_source.tolist() == [plain.counts.tolist()]
    assert named.source_names == ["x"]
    assert named.counts.tolist() == named.sources[0].counts.tolist() == plain.counts.tolist()
    assert named.ngrams.equals(plain.ngrams)
    assert named.fingerprint == plain.fingerprint
    assert named.prior_fingerprint != plain.prior_fingerprint


def test_round_trip(tmp_path):
    made = Vocabulary.from_public(
        {
            "wiki": make_table([["a", "b", "c"]] * 9),
            "talk-1.x_": make_table([["b", "c"], ["c", "d"]]),
        },
        order=(1, 2),
        size=9,
    )
    made.save(tmp_path / "v.parquet")
    read = Vocabulary.load(tmp_path / "v.parquet")
    assert read.source_names == ["wiki", "talk-1.x_"]
    assert read.counts_by_source.tolist() == made.counts_by_source.tolist()
    assert read.counts.tolist() == made.counts.tolist()
    assert (read.fingerprint, read.prior_fingerprint) == (made.fingerprint, made.prior_fingerprint)
    for (place, part), (_, loaded) in zip(made.by_order, read.by_order, strict=True):
        assert part.counts.tolist() == made.counts[place].tolist() == loaded.counts.tolist()
        assert part.counts_by_source.tolist() == made.counts_by_source[:, place].tolist()


# Files


def test_a_file_made_elsewhere_needs_ngrams_and_a_column_for_each_source(tmp_path):
    """`count` follows from them, whatever the file says."""
    columns = {
        "ngram": ["a", "b", "a b"],
        "count_x": [6, 2, 0],
        "count_y": pa.array([0, 2, 5], pa.uint16()),
    }
    for more in ({}, {"count": [7, 7, 7]}, {"count": ["not", "a", "number"]}):
        read = Vocabulary.load(write_parquet(tmp_path / "v.parquet", **columns, **more))
        assert read.counts_by_source.tolist() == [[6, 2, 0], [0, 2, 5]]
        assert read.counts.tolist() == [
            4,
            6,
            5,
        ]  # 10 (6/8 + 0)/2, 10 (2/8 + 1)/2; only y has bigrams
    assert read.tokenizer == Tokenizer()


def test_a_single_column_is_a_source_with_a_name(tmp_path):
    read = Vocabulary.load(write_parquet(tmp_path / "v.parquet", ngram=["a", "b"], count_x=[6, 2]))
    assert read.source_names == ["x"]
    assert read.counts.tolist() == [6, 2]


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"count_x": [1.5]}, "the column 'count_x' must hold whole numbers of 0 or more."),
        ({"count_x": [-1]}, "the column 'count_x' must hold whole numbers of 0 or more."),
        (
            {"count_x": pa.array([None], pa.int64())},
            "the column 'count_x' must hold whole numbers of 0 or more.",
        ),
        ({"count_x": [True]}, "the column 'count_x' must hold whole numbers of 0 or more."),
        ({"count_x": ["1"]}, "the column 'count_x' must hold whole numbers of 0 or more."),
        (
            {"count_x": [2**53]},
            "the column 'count_x' must add up to less than 2^53; divide all counts.",
        ),
        (
            {"count_x": pa.array([2**64 - 1], pa.uint64())},
            "the column 'count_x' must add up to less than 2^53; divide all counts.",
        ),
        ({"count_x": [0]}, "the source 'x' has none of the n-grams; leave its column out."),
        *(
            (
                {f"count_{name}": [1]},
                f"the columns count_NAME are the counts of sources. source {name!r}: a name has 1 to 32 letters",
            )
            for name in ("", "a b", "é", "a/b", "a=b", "x" * 33, "\x1b[31m", "../x", "a\n")
        ),
        (
            {f"count_s{number}": [1] for number in range(21)},
            "the columns count_NAME are the counts of sources. 21 sources: a vocabulary has 1 to 20; join some of them.",
        ),
    ],
)
def test_bad_columns(tmp_path, columns, message):
    path = write_parquet(tmp_path / "v.parquet", ngram=["a"], **columns)
    with pytest.raises(UsageError) as caught:
        Vocabulary.load(path)
    assert str(caught.value).startswith(f"{path}: {message}")


def test_columns_that_are_there_twice(tmp_path):
    for names in (
        ["ngram", "count_x", "count_x"],
        ["ngram", "ngram", "count_x"],
        ["ngram", "count_x", "count"] * 2,
    ):
        columns = [pa.array(["a"]) if name == "ngram" else pa.array([1]) for name in names]
        pq.write_table(pa.table(columns, names=names), tmp_path / "v.parquet")
        with pytest.raises(UsageError, match=r"2 columns are called '\w+'; rename all but one\.$"):
            Vocabulary.load(tmp_path / "v.parquet")


def test_counts_that_together_are_too_many(tmp_path):
    columns = {f"count_{number}": [2**51] for number in range(4)}
    with pytest.raises(UsageError, match=r"add up to less than 2\^53; divide them all\.$"):
        Vocabulary.load(write_parquet(tmp_path / "v.parquet", ngram=["a"], **columns))


def test_sources_that_do_not_fit():
    words_ = pa.array(["a", "b"], pa.large_string())
    with pytest.raises(
        UsageError,
        match=r"^the counts are not the mixture of the sources; use Vocabulary\.from_source_counts",
    ):
        Vocabulary(words_, np.array([1, 2]), 1, Tokenizer(), (SourceCounts("x", np.array([2, 1])),))
    with pytest.raises(UsageError, match=r"^source 'x': 2 n-grams, 1 counts\.$"):
        Vocabulary.from_source_counts(words_, [SourceCounts("x", np.array([2]))], 1, Tokenizer())
    with pytest.raises(UsageError, match=r"^source 'x': public counts must be 0 or more\.$"):
        Vocabulary.from_source_counts(
            words_, [SourceCounts("x", np.array([2, -2]))], 1, Tokenizer()
        )
    twice = [SourceCounts("x", np.array([2, 1]))] * 2
    with pytest.raises(UsageError, match=r"^source 'x': two sources have this name;"):
        Vocabulary.from_source_counts(words_, twice, 1, Tokenizer())


@settings(deadline=None)
@given(st.data(), st.integers(1, 20), st.integers(1, 9))
def test_the_mixture_is_its_definition_and_each_order_is_by_itself(data, sources, size):
    numbers = st.lists(
        st.sampled_from([0, 0, 1, 2, 7, 10**6, 10**13]), min_size=size, max_size=size
    )
    counts = np.array([data.draw(numbers) for _ in range(sources)])
    orders = np.sort(data.draw(st.lists(st.integers(1, 2), min_size=size, max_size=size)))
    found = mix_counts(counts, orders)
    for order in np.unique(orders):
        exact = mix_counts_exactly(counts[:, orders == order].tolist())
        for count, value in zip(found[orders == order].tolist(), exact, strict=True):
            assert abs(count - value) <= Fraction(1, 2) + value / 10**14


def test_fingerprints_tell_names_and_counts_of_sources_apart():
    def prior(*sources):
        made = [SourceCounts(name, np.array(counts)) for name, counts in sources]
        return Vocabulary.from_source_counts(
            pa.array(["a", "b"], pa.large_string()), made, 1, Tokenizer()
        ).prior_fingerprint

    prints = [
        prior(("x", [1, 2])),
        prior(("y", [1, 2])),
        prior(("x", [1, 2]), ("y", [1, 2])),
        prior(("y", [1, 2]), ("x", [1, 2])),
        prior(("x", [1, 2]), ("y", [2, 4])),
        Vocabulary(
            pa.array(["a", "b"], pa.large_string()), np.array([1, 2]), 1, Tokenizer()
        ).prior_fingerprint,
    ]
    assert len(set(prints)) == len(prints)


# Choosing


def test_a_large_source_does_not_drown_a_small_one():
    """One sentence beside thousands: each of its n-grams is frequent where it is."""
    large = make_table([["the", f"w{number % 300}", "is"] for number in range(20_000)])
    made = Vocabulary.from_public(
        {"large": large, "small": make_table([["so", "it", "is"]])}, order=2, size=3
    )
    assert made.ngrams.to_pylist() == ["it is", "so it", "the w0"]
    assert made.counts_by_source.tolist() == [[0, 0, 67], [1, 1, 0]]
    assert made.counts.tolist() == [17, 17, 34]  # 69 (0 + 1/2) / 2, and 69 · 1/2


def test_no_tie_is_decided_by_rounding():
    """1/10 + 2/10 is 3/10, and more than that in floating point."""
    x = make_table([["a"]] * 3 + [["b"]] * 1 + [["c"]] * 6)
    y = make_table([["b"]] * 2 + [["d"]] * 8)
    made = Vocabulary.from_public({"x": x, "y": y}, order=1, size=3)
    assert made.ngrams.to_pylist() == ["d", "c", "a"]
    assert Vocabulary.from_public({"y": y, "x": x}, order=1, size=4).ngrams.to_pylist() == [
        "d",
        "c",
        "a",
        "b",
    ]


def test_twenty_sources_and_no_more():
    texts_ = {f"s{number}": make_table([["a", "b", f"w{number}"]]) for number in range(21)}
    with pytest.raises(
        UsageError, match=r"^21 sources: a vocabulary has 1 to 20; join some of them\.$"
    ):
        Vocabulary.from_public(texts_, order=1)
    del texts_["s20"]
    made = Vocabulary.from_public(texts_, order=(1, 2), size=100)
    assert made.counts_by_source.shape == (20, 2 + 20 + 1 + 20)
    assert made.ngrams[:2].to_pylist() == ["a", "b"]


def test_little_memory_gives_the_same_vocabulary(monkeypatch):
    """Text and tables are spilled to disk, and candidates are looked up a few at a time."""
    given_ = {
        f"s{seed}": list(Population(users=10, seed=seed).public_text(300 * seed))
        for seed in (1, 2, 5)
    }
    choice = {"order": (1, 2, 3), "size": 500, "tokenizer": Tokenizer(boundaries=True)}
    whole = Vocabulary.from_public(given_, **choice)
    monkeypatch.setattr(text_ngrams, "SMALLEST", 10_000)
    monkeypatch.setattr(top_ngrams, "MIN_BATCH_ROWS", 100)
    less = Vocabulary.from_public(given_, **choice, memory=1)
    assert (less.fingerprint, less.prior_fingerprint) == (
        whole.fingerprint,
        whole.prior_fingerprint,
    )


def test_a_source_that_lacks_an_order_is_left_out_of_it():
    made = Vocabulary.from_public(
        {"x": make_table([["a", "b"]] * 3), "y": make_table([["b"], ["c"]])}, order=(1, 2), size=9
    )
    assert made.ngrams.to_pylist() == ["b", "a", "c", "a b"]  # 1/2 + 1/2, 1/2, 1/2
    assert made.counts_by_source.tolist() == [[3, 3, 0, 3], [1, 0, 1, 0]]
    assert made.counts.tolist() == [4, 2, 2, 3]


def test_a_source_without_an_ngram_is_refused_by_name():
    full = make_table([["a", "b", "c"]])
    with pytest.raises(
        BayesgramError,
        match=r"^source 'y': has not a single n-gram of order 2, 3; give it more text",
    ):
        Vocabulary.from_public({"x": full, "y": make_table([["a"], ["b"]])}, order=(2, 3))
    with pytest.raises(
        BayesgramError, match=r"^source 'y': has none of the 1 n-grams of the vocabulary; "
    ):
        Vocabulary.from_public(
            {"x": full, "y": make_table([["d", "e", "f", "g"]])}, order=1, size=1
        )


@pytest.mark.parametrize("names", [{}, {"": 1}, {"a b": 1}, {7: 1}, {"a/b": 1}, {"a=b": 1}])
def test_bad_names(names):
    with pytest.raises(UsageError, match=r"(?i)name"):
        Vocabulary.from_public({name: make_table([["a"]]) for name in names}, order=1)


def test_a_source_given_twice_is_noticed(caplog, tmp_path):
    (tmp_path / "a.txt").write_text("the red fish\n")
    (tmp_path / "b.txt").write_text("a blue fish\n")
    a, b = str(tmp_path / "a.txt"), str(tmp_path / "b.txt")
    Vocabulary.from_public({"x": a, "y": b}, order=1)
    assert caplog.text == ""
    Vocabulary.from_public({"x": [a, b], "y": b}, order=1)
    assert "b.txt is read for two sources, x and y: it counts for both." in caplog.text
    caplog.clear()
    Vocabulary.from_public({"x": a, "y": make_table([["the", "red", "fish"]])}, order=1)
    assert "the sources x and y have equal counts for every n-gram" in caplog.text
