"""Wrong arguments from Python: our words, the argument's name, and nothing that somebody wrote."""

import inspect
import re

import numpy as np
import pyarrow as pa
import pytest

import bayesgram as bg
from bayesgram.arguments import check_arguments

PUBLIC = pa.table({"text": ["the red fish swims", "the blue fish sleeps"]})
PRIVATE = pa.table({"user": ["ann", "bob"], "text": ["The red fish!", "a red fish"]})
SECRET = "my secret text"


@pytest.fixture(scope="module")
def vocabulary():
    return bg.Vocabulary.from_public(PUBLIC, order=2, size=100)


@pytest.fixture(scope="module")
def counts(vocabulary):
    return bg.count(PRIVATE, vocabulary)


@pytest.fixture(scope="module")
def release(counts, vocabulary):
    return bg.release(counts, vocabulary, epsilon=1)


@pytest.mark.parametrize(
    "given",
    [
        SECRET,
        [SECRET],
        ["what is my secret text?"],
        [SECRET * 500],
        f"{SECRET}\0",
        f"{SECRET}/and more",
        f"{SECRET}.csv",
    ],
)
@pytest.mark.parametrize("door", ["count", "discover", "evaluate_text"])
def test_text_in_place_of_a_table_is_not_repeated(given, door, vocabulary, release):
    calls = {
        "count": lambda: bg.count(given, vocabulary),
        "discover": lambda: bg.discover(given, vocabulary, epsilon=1),
        "evaluate_text": lambda: bg.evaluate_text(
            {"ours": bg.lm.LanguageModel.from_release(release)}, given
        ),
    }
    with pytest.raises(bg.UsageError) as caught:
        calls[door]()
    assert "secret" not in str(caught.value)
    assert str(caught.value).startswith("inputs[0]: " if isinstance(given, list) else "inputs: ")
    assert caught.value.__context__ is None


def test_a_path_that_is_one_by_its_type_is_named(tmp_path, vocabulary):
    with pytest.raises(bg.UsageError, match=r"posts\.parquet: no such file"):
        bg.count(tmp_path / "posts.parquet", vocabulary)
    with pytest.raises(bg.UsageError, match=r"wiki\.txt: no such file"):
        bg.Vocabulary.from_public({"wiki": str(tmp_path / "wiki.txt")})


# ruff: noqa: ARG005 - not every call needs all three
WRONG = {
    "vocabulary: takes a Vocabulary, and a str was given; read it with Vocabulary.load(path).": lambda c, v, r: bg.count(PRIVATE, "vocab.parquet"),
    "user_column: takes a str, and an int was given.": lambda c, v, r: bg.count(PRIVATE, v, user_column=3),
    "counts: takes private counts, and a str was given; read it with load_counts(path).": lambda c, v, r: bg.release("counts", v, epsilon=1),
    "counts: takes private counts, and a Vocabulary was given.": lambda c, v, r: bg.release(v, c, epsilon=1),
    "mechanism='bayes': give one of 'posterior', 'gaussian', 'laplace', 'laplace-public', or a mechanism with settings such as Gaussian(clip_norm=2); those of the paper are in bayesgram.paper.": lambda c, v, r: bg.release(c, v, "bayes"),
    "mechanism: takes a mechanism or a str or None, and an int was given; give ε by its name: epsilon=1.": lambda c, v, r: bg.release(c, v, 1),
    "mechanism: takes a mechanism or a str or None, and a Budget was given; give ε and δ by their names, such as epsilon=1, delta=1e-7.": lambda c, v, r: bg.release(c, v, bg.Budget(1)),
    "mechanism: takes a mechanism or a str or None, and the class Posterior was given; make one with Posterior().": lambda c, v, r: bg.release(c, v, bg.Posterior),
    "budget: takes a Budget or None, and a float was given.": lambda c, v, r: bg.release(c, v, bg.Posterior(), 1.0),
    "ledger: takes a Ledger or None, and a str was given; read it with Ledger.open(path).": lambda c, v, r: bg.release(c, v, epsilon=1, ledger="x"),
    "seed: takes a whole number or None, and a bool was given.": lambda c, v, r: bg.release(c, v, epsilon=1, seed=True),
    "epsilon: takes a number or None, and a str was given.": lambda c, v, r: bg.release(c, v, epsilon="1"),
    "`epsilon` is missing: posterior needs a budget; 0.1 is strong, 1 is usual.": lambda c, v, r: bg.release(c, v),
    "`epsilon` is missing: discovery needs a budget; 0.1 is strong, 1 is usual.": lambda c, v, r: bg.discover(PRIVATE, v),
    "delta=1e-07: means nothing without epsilon; give both, or a budget.": lambda c, v, r: bg.release(c, v, delta=1e-7),
    "delta=1e-07: this mechanism needs none; leave it out.": lambda c, v, r: bg.release(c, v, bg.Laplace(), epsilon=1, delta=1e-7),
    "budget: holds ε and δ; give it, or epsilon and delta.": lambda c, v, r: bg.release(c, v, None, bg.Budget(1.0, 1e-7), epsilon=1),
    "orders: takes a list or None, and an int was given.": lambda c, v, r: bg.discover(PRIVATE, v, epsilon=1, orders=2),
    "max_new=0: the most n-grams that may come out is a whole number from 1 to 10,000,000.": lambda c, v, r: bg.discover(PRIVATE, v, epsilon=1, max_new=0),
    "order: takes a whole number or a list or None, and a float was given.": lambda c, v, r: bg.Vocabulary.from_public(PUBLIC, order=2.0),
    "clip_norm: takes a number or None, and a str was given.": lambda c, v, r: bg.Posterior(clip_norm="4"),
    "slope: takes a number, and a str was given.": lambda c, v, r: bg.paper.Paper(slope="1"),
    "slopes: takes a list, and an int was given.": lambda c, v, r: bg.paper.Grid(slopes=3),
    "paper: takes a Paper, and an int was given.": lambda c, v, r: bg.paper.TunedPaper(3),
    "path: takes a str or a Path, and an int was given.": lambda c, v, r: bg.Release.load(3),
    "release: takes a Release, and a Vocabulary was given.": lambda c, v, r: bg.lm.LanguageModel.from_release(v),
    "releases: takes a Release, and a str was given; read it with Release.load(path).": lambda c, v, r: bg.compare(r, "rel"),
    "releases: takes a Release, and None was given.": lambda c, v, r: bg.compare(None, r),
    "vocabulary: takes a Vocabulary or None, and a str was given; read it with Vocabulary.load(path).": lambda c, v, r: bg.compare(r, vocabulary="v"),
    "size: takes a whole number, or a list of whole numbers; give one such as 3.": lambda c, v, r: bg.Vocabulary.from_public(PUBLIC, size=["a"]),
    "theta: 1 probabilities for 2 private counts; give one for each n-gram.": lambda c, v, r: bg.kl_divergence([1, 2], [0.5]),
    "private_counts: takes a list of numbers from 0, one for each n-gram.": lambda c, v, r: bg.kl_divergence(["a"], [0.5]),
    "models: takes a dict, and a str was given.": lambda c, v, r: bg.evaluate_text(SECRET, PUBLIC),
    "adapt: missing a required argument: 'vocabulary'.": lambda c, v, r: bg.lm.adapt(3, r),
}  # fmt: skip


@pytest.mark.parametrize("message", WRONG)
def test_wrong_arguments(message, counts, vocabulary, release):
    with pytest.raises(bg.UsageError) as caught:
        WRONG[message](counts, vocabulary, release)
    assert str(caught.value) == message


def test_numbers_of_numpy_are_numbers(counts, vocabulary):
    made = bg.release(
        counts, vocabulary, epsilon=np.float64(1), delta=np.float32(1e-7), seed=np.int64(3)
    )
    assert (made.card.epsilon, type(made.card.delta)) == (1, float)
    assert bg.release(counts, vocabulary, epsilon=np.int64(1)).card.epsilon == 1
    for order, size in ((np.int64(2), np.int64(100)), (np.array([2]), np.array([100]))):
        assert (
            bg.Vocabulary.from_public(PUBLIC, order=order, size=size).fingerprint
            == vocabulary.fingerprint
        )


def test_lists_are_compared_as_arrays_are():
    assert bg.kl_divergence([1, 1], [0.25, 0.75]) == bg.kl_divergence(
        np.array([1, 1]), np.array([0.25, 0.75])
    )


@pytest.mark.parametrize("several", [True, False])
@pytest.mark.parametrize("library", ["polars", "pandas", "pyarrow"])
def test_a_column_is_no_table(library, several, vocabulary):
    module = pytest.importorskip(library)
    given = module.chunked_array([[SECRET]]) if library == "pyarrow" else module.Series([SECRET])
    with pytest.raises(
        bg.UsageError, match=r"^inputs: a (Series|ChunkedArray) is one column\. Give a table with"
    ) as caught:
        bg.count([given] if several else given, vocabulary)
    assert SECRET not in str(caught.value)


def test_a_release_has_its_ngrams(release, vocabulary):
    assert list(release) == release.ngrams.to_pylist()
    assert all(ngram in release for ngram in release)
    assert "no such thing" not in release
    assert list(bg.PublicModel.from_public(vocabulary, PUBLIC)) == ["public"]


def test_epsilon_alone_is_the_default_of_the_command_line(counts, vocabulary):
    short = bg.release(counts, vocabulary, epsilon=1, seed=7)
    long = bg.release(counts, vocabulary, bg.Posterior(), bg.Budget(1.0, 1e-7), seed=7)
    assert short.card == long.card
    assert np.array_equal(short.probabilities, long.probabilities)
    assert bg.release(counts, vocabulary, bg.Laplace(), epsilon=1).card.delta == 0
    found = bg.discover(PRIVATE, vocabulary, epsilon=1, delta=1e-6)
    assert (found.card.epsilon, found.card.delta) == (1, 1e-6)


@pytest.mark.parametrize(
    "name", [name for name in bg.__all__ if inspect.isfunction(getattr(bg, name))]
)
def test_every_public_function_checks_its_arguments(name):
    assert hasattr(getattr(bg, name), "__wrapped__"), f"decorate {name} with @check_arguments"


def test_hints_that_are_not_understood_exclude_nothing():
    @check_arguments
    def any_of(value: "list[int] | re.Pattern[str]", *others: int) -> object:
        return value, others

    assert any_of((1, 2), 3) == ((1, 2), (3,))
    with pytest.raises(bg.UsageError, match=r"^any_of: got an unexpected keyword argument 'size'"):
        any_of([], size=3)
