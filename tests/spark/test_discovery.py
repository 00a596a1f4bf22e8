"""Discovery on Spark: the same sums and, with a seed, the same files as on one machine, byte for byte."""

import json
import os
import signal

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from bayesgram.errors import BayesgramError, UsageError
from bayesgram.io import read_records
from bayesgram.io.records import Columns
from bayesgram.mechanisms.discovery import discover
from bayesgram.privacy.budget import Budget
from bayesgram.privacy.ledger import Ledger
from bayesgram.private.candidates import ContributionBound, sum_candidates
from bayesgram.private.clipping import UNITS
from bayesgram.public.candidate_weights import PublicTextModel
from bayesgram.public.vocabulary import Vocabulary
from bayesgram.spark import tasks
from bayesgram.text.tokenizer import Tokenizer
from helpers.row_data import PUBLIC as ROW_PUBLIC

pyspark = pytest.importorskip(
    "pyspark", reason="pyspark is not installed: pip install 'bayesgram[spark]'"
)

from bayesgram.spark import discovery as engine  # noqa: E402
from bayesgram.spark.frames import TextFrame, text_from_columns  # noqa: E402

KNOWN = ["the", "a", "red", "blue", "fish", "swims", "café", "don't", "so", "of"]
NEW = ["zorp", "blink", "naïve", "Ωmega", "東京", "hunter2", "flimflam"]
BUDGET = Budget(4.0, 1e-4)
EVERYTHING = ContributionBound(max_candidates=7, min_units=int(0.02 * UNITS), min_sum=1)
COLUMNS = {"user_column": "who", "text_column": "body"}


@pytest.fixture(scope="module")
def private():
    """Rows of 300 people in a shuffled order, one of whom writes a quarter of everything."""
    rng = np.random.default_rng(7)
    users = [
        f"u{number}" if rng.random() < 0.75 else "heavy" for number in rng.integers(0, 300, 1500)
    ]
    share = np.append(np.full(len(KNOWN), 1.0), np.geomspace(1, 0.05, len(NEW)))
    words = np.array([*KNOWN, *NEW])
    texts = [" ".join(rng.choice(words, rng.integers(0, 9), p=share / share.sum())) for _ in users]
    return pa.table({"who": users, "body": texts})


@pytest.fixture(scope="module")
def vocabulary():
    rng = np.random.default_rng(8)
    rows = pa.table({"text": [" ".join(rng.choice(KNOWN, 8)) for _ in range(40)]})
    return Vocabulary.from_public(rows, order=[1, 2, 3], size=40)


@pytest.fixture(scope="module")
def frame(spark, private):
    return spark.createDataFrame(private.to_pylist()).repartition(4)


def same(there, here):
    assert len(here.sums) > 15
    assert there.ngrams.to_pylist() == here.ngrams.to_pylist()
    assert (there.sums.dtype, there.sums.tobytes()) == (here.sums.dtype, here.sums.tobytes())


@pytest.mark.parametrize(
    "tokenizer", [Tokenizer(boundaries=True), Tokenizer("characters")], ids=str
)
def test_candidates_and_sums_are_those_of_one_machine(frame, private, tokenizer):
    text = pa.table({"text": ["the red fish swims", "a blue fish"]})
    public = PublicTextModel.from_vocabulary(
        Vocabulary.from_public(text, order=[1, 2, 3], size=9, tokenizer=tokenizer)
    )
    there = engine.SparkPrivateText(
        [text_from_columns(frame, Columns("body", "who"))], skip_bad_rows=False
    )
    for orders, bound in (
        ([1, 2, 3], EVERYTHING),
        ([2], ContributionBound(2, int(0.02 * UNITS), UNITS)),
    ):
        here = sum_candidates(
            read_records(private, **COLUMNS), public, orders, bound, memory=1 << 24
        )
        same(there.sums(public, orders, bound), here)


def test_rows_and_sums_are_those_of_one_machine(spark):
    """Rows with spaces, weighed by a model of their words on every executor."""
    rng = np.random.default_rng(9)
    texts = [" ".join(rng.choice([*KNOWN, *NEW], 3)) for _ in range(60)]
    rows = {
        "who": [f"u{number}" for number in rng.integers(0, 50, 400)],
        "body": [texts[at] for at in rng.integers(0, 60, 400)],
    }
    frame = spark.createDataFrame(pa.table(rows).to_pylist()).repartition(3)
    there = engine.SparkPrivateText(
        [text_from_columns(frame, Columns("body", "who"))], skip_bad_rows=False
    )
    here = sum_candidates(
        read_records(pa.table(rows), **COLUMNS), ROW_PUBLIC, [1], EVERYTHING, memory=1 << 24
    )
    assert any(" " in row for row in here.ngrams.to_pylist())
    same(there.sums(ROW_PUBLIC, [1], EVERYTHING), here)


def test_candidates_below_the_floor_stay_where_they_are(spark, frame, vocabulary, monkeypatch):
    """The driver gets the sums of what many people wrote, and no text of a few."""
    seen, kind = [], type(spark.range(1))

    def noting(ask):
        def call(df, *arguments, **options):
            found = ask(df, *arguments, **options)
            if "ngram" in df.columns:
                seen.append(found)
            return found

        return call

    for name in ("collect", "toArrow", "toPandas"):
        monkeypatch.setattr(kind, name, noting(getattr(kind, name)))
    there = engine.SparkPrivateText(
        [text_from_columns(frame, Columns("body", "who"))], skip_bad_rows=False
    )
    floor = 3 * UNITS
    found = there.sums(
        PublicTextModel.from_vocabulary(vocabulary),
        [1, 2],
        ContributionBound(7, int(0.02 * UNITS), floor),
    )
    (table,) = seen
    assert len(table) == len(found.sums) > 5
    assert min(table["sum"].to_pylist()) >= floor


def test_a_discovery_with_a_seed_is_that_of_one_machine_byte_for_byte(
    frame, private, vocabulary, tmp_path
):
    here = discover(private, vocabulary, BUDGET, rounds=1, seed=3, max_new=30, **COLUMNS)
    there = discover(
        engine.SparkPrivateText.from_dataframe(frame, **COLUMNS),
        vocabulary,
        BUDGET,
        rounds=1,
        seed=3,
        max_new=30,
    )
    assert len(here) > 5
    here.save(tmp_path / "here")
    there.save(tmp_path / "there")
    files = sorted(path.name for path in (tmp_path / "here").iterdir())
    assert {"card.json", "ngrams.parquet", "vocab.parquet"} <= set(files)
    for name in files:
        assert (tmp_path / "here" / name).read_bytes() == (
            tmp_path / "there" / name
        ).read_bytes(), name


def test_a_task_that_is_killed_changes_nothing(frame, private, vocabulary, tmp_path):
    public, flag = PublicTextModel.from_vocabulary(vocabulary), tmp_path / "killed"
    plain = text_from_columns(frame, Columns("body", "who"))

    def read(batches, bad_rows):
        for number, records in enumerate(tasks.read_columns(batches, bad_rows)):
            if number == 1 and not flag.exists():
                flag.touch()
                os.kill(os.getpid(), signal.SIGKILL)
            yield records

    there = engine.SparkPrivateText([TextFrame(plain.frame, read)], skip_bad_rows=False).sums(
        public, [1, 2], EVERYTHING
    )
    assert flag.exists()
    same(
        there,
        sum_candidates(
            read_records(private, **COLUMNS), public, [1, 2], EVERYTHING, memory=1 << 24
        ),
    )


def test_commands_give_the_same_files_and_the_ledger_is_charged(
    spark, run, private, vocabulary, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    vocabulary.save("vocab.parquet")
    pq.write_table(private[:700], "one.parquet", row_group_size=100)
    rows = "".join(f'{row["who"]},"{row["body"]}"\n' for row in private[700:].to_pylist())
    (tmp_path / "two.csv").write_text(f"who,body\n{rows}")
    common = [
        "one.parquet",
        "two.csv",
        "--text-column",
        "body",
        "--user-column",
        "who",
        "--vocab",
        "vocab.parquet",
    ]
    common += ["--epsilon", 4, "--delta", 1e-4]
    for name, more in (("here", []), ("there", ["--engine", "spark"])):
        run("discover", *common, "--rounds", 1, "--seed", 5, "-o", name, *more)
    for file in ("ngrams.parquet", "vocab.parquet"):
        assert (tmp_path / "here" / file).read_bytes() == (
            tmp_path / "there" / file
        ).read_bytes(), file
    cards = [json.loads((tmp_path / name / "card.json").read_text()) for name in ("here", "there")]
    assert cards[0] | {"command": None} == cards[1] | {"command": None}
    run("ledger", "create", "book", "--population", "people", "--epsilon", 8, "--delta", 1e-3)
    with pytest.raises(
        UsageError, match=r"^on Spark users are asked in one round; say rounds=1, or use engine="
    ):
        run("discover", *common, "--ledger", "book", "-o", "more", "--engine", "spark")
    assert not Ledger.open("book").read().spends
    charged = ["--rounds", 1, "--ledger", "book", "--unit", "a post", "--engine", "spark"]
    run("discover", *common, *charged, "-o", "more")
    (entry,) = Ledger.open("book").read().reservations
    assert entry.published
    assert (
        entry.unit == json.loads((tmp_path / "more" / "card.json").read_text())["unit"] == "a post"
    )


def test_bad_rows_are_refused_without_text_or_left_out(spark, vocabulary):
    rows = [("ann", "zorp secret"), (None, "hidden"), ("", "hidden"), ("bob", "zorp")]
    df = spark.createDataFrame(rows, "user string, text string")
    public = PublicTextModel.from_vocabulary(vocabulary)
    text = engine.SparkPrivateText(
        [text_from_columns(df, Columns("text", "user"))], skip_bad_rows=True
    )
    assert text.sums(public, [1], EVERYTHING).ngrams.to_pylist() == ["secret", "zorp"]
    with pytest.raises(
        BayesgramError, match=r"^a row or more can't be used: no user id\. Correct them"
    ) as caught:
        discover(engine.SparkPrivateText.from_dataframe(df), vocabulary, BUDGET, rounds=1)
    assert "hidden" not in str(caught.value)
    with pytest.raises(BayesgramError, match=r"^nothing was read"):
        empty = engine.SparkPrivateText.from_dataframe(df.filter("user = ''"), skip_bad_rows=True)
        discover(empty, vocabulary, BUDGET, rounds=1)


def test_several_rounds_are_refused(vocabulary):
    with pytest.raises(UsageError, match="one round"):
        engine.SparkPrivateText([], skip_bad_rows=False).lists(
            PublicTextModel.from_vocabulary(vocabulary), [1], 9
        )


def test_whoever_comes_twice_is_noticed():
    batches = [pa.table({"user": [name.encode()], "text": [b"zorp"]}) for name in "abca"]
    with pytest.raises(BayesgramError, match=r"^the text: the rows of a user are not together"):
        list(tasks.group_texts(batches))
