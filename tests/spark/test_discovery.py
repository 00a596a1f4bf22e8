"""Discovery on Spark: the same sums and, with a seed, the same files as on one machine, byte for byte."""

import json
import os
import signal

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from bayesgram.errors import BayesgramError
from bayesgram.io import read_records
from bayesgram.io.records import Columns
from bayesgram.mechanisms.discovery import discover
from bayesgram.privacy.budget import Budget
from bayesgram.privacy.ledger import Ledger
from bayesgram.private.candidates import ContributionBound, list_candidates, sum_candidates
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


@pytest.mark.parametrize("rounds", [1, 4])
def test_a_discovery_with_a_seed_is_that_of_one_machine_byte_for_byte(
    frame, private, vocabulary, tmp_path, rounds
):
    choice = {"rounds": rounds, "seed": 3, "max_new": 30}
    here = discover(private, vocabulary, BUDGET, **choice, **COLUMNS)
    text = engine.SparkPrivateText.from_dataframe(frame, **COLUMNS)
    there = discover(text, vocabulary, BUDGET, **choice)
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
    on_spark, run, private, vocabulary, tmp_path, monkeypatch
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
    for name, more in (("here", []), ("there", on_spark)):
        run("discover", *common, "--rounds", 1, "--seed", 5, "-o", name, *more)
    for file in ("ngrams.parquet", "vocab.parquet"):
        assert (tmp_path / "here" / file).read_bytes() == (
            tmp_path / "there" / file
        ).read_bytes(), file
    cards = [json.loads((tmp_path / name / "card.json").read_text()) for name in ("here", "there")]
    assert cards[0] | {"command": None} == cards[1] | {"command": None}
    run("ledger", "create", "book", "--population", "people", "--epsilon", 8, "--delta", 1e-3)
    charged = ["--rounds", 2, "--ledger", "book", "--unit", "a post", *on_spark]
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


def test_whoever_comes_twice_is_noticed():
    batches = [pa.table({"user": [name.encode()], "text": [b"zorp"]}) for name in "abca"]
    with pytest.raises(BayesgramError, match=r"^the text: the rows of a user are not together"):
        list(tasks.group_texts(batches))


# Several rounds


def user_lists(rows):
    """Lists of users as the tasks make them: (user, place, hash, order, n-gram)."""
    columns = zip(*rows, strict=True)
    names = ("user", "place", "hash", "order", "ngram")
    table = pa.table(dict(zip(names, columns, strict=True)))
    weights = pa.array(np.full(len(rows), -1.5, np.float32))
    return table.append_column("log_weight", weights).cast(LIST_SCHEMA)


LIST_SCHEMA = pa.schema(
    [
        ("user", pa.string()),
        ("place", pa.int32()),
        ("hash", pa.int64()),
        ("order", pa.int32()),
        ("ngram", pa.string()),
        ("log_weight", pa.float32()),
    ]
)
# Two texts with one hash; a hash that two people have; one that is the smallest of all.
COLLIDING = [
    ("ann", 0, 5, 1, "zorp"),
    ("ann", 1, 5, 1, "blink"),
    ("ann", 2, -(2**63), 2, "zorp blink"),
    ("bob", 0, 5, 1, "zorp"),
    ("bob", 1, 2**63 - 1, 1, "flimflam"),
]


@pytest.fixture
def colliding(spark, tmp_path):
    frame = spark.createDataFrame(user_lists(COLLIDING), tasks.LIST_ROWS)
    return engine.SparkLists.from_frame(engine.add_ties(frame), tmp_path)


def all_texts(lists):
    return lists.ngrams(np.arange(lists.blocks[-1][1])).to_pylist()


def run_round(lists, rounds, weights):
    """The sums of one round by any weights of all candidates."""
    blocks = lists.new_array_blocks("some weights")
    for block, (first, last) in enumerate(lists.blocks):
        blocks[block] = weights[first:last]
    return np.concatenate(list(rounds.sums(blocks)))


@pytest.mark.parametrize("block", [100, 1 << 22])
def test_sums_of_every_round_are_those_of_one_machine(
    frame, private, vocabulary, block, monkeypatch
):
    monkeypatch.setattr(engine, "BLOCK_CANDIDATES", block)
    public = PublicTextModel.from_vocabulary(vocabulary)
    text = engine.SparkPrivateText.from_dataframe(frame, **COLUMNS)
    rng = np.random.default_rng(11)
    with (
        list_candidates(
            read_records(private, **COLUMNS), public, [1, 2], 20, memory=1 << 28
        ) as here,
        text.lists(public, [1, 2], 20) as there,
    ):
        assert len(there.blocks) == -(-len(here) // block)
        assert all_texts(there) == here.ngrams(np.arange(len(here))).to_pylist()
        logs = [there.log_weights(number) for number in range(len(there.blocks))]
        assert np.concatenate(logs).tobytes() == here.log_weights(0).tobytes()
        chosen = np.flatnonzero(rng.random(len(here)) < 0.1)
        assert there.ngrams(chosen).to_pylist() == here.ngrams(chosen).to_pylist()
        assert there.ngrams(chosen[:0]).to_pylist() == []
        rounds = here.start_rounds(), there.start_rounds()
        for dropped in (0.0, 0.3, 0.8):  # what was dropped once has a weight again, and gets none
            weights = np.exp(rng.normal(0, 3, len(here)))
            weights[rng.random(len(here)) < dropped] = 0
            sums = [
                run_round(lists, asked, weights)
                for lists, asked in zip((here, there), rounds, strict=True)
            ]
            assert sums[0].any()
            assert sums[0].tolist() == sums[1].tolist()
        for lists, asked in zip((here, there), rounds, strict=True):  # nothing is left
            assert not run_round(lists, asked, np.zeros(len(here))).any()


def test_texts_with_the_same_hash_stay_two_on_spark(colliding):
    assert all_texts(colliding) == ["zorp blink", "blink", "zorp", "flimflam"]
    weights = np.array([3.0, 4.0, 12.0, 5.0])
    ann = UNITS / 13.0
    bob = UNITS / 13.0
    sums = run_round(colliding, colliding.start_rounds(), weights)
    assert sums == pytest.approx([3 * ann, 4 * ann, 12 * (ann + bob), 5 * bob], abs=2)


def test_rows_that_come_between_rounds_move_no_weight_to_another_candidate(
    spark, colliding, tmp_path
):
    """A table that grows while a discovery runs: its candidates have no number, and get nothing."""
    rounds = colliding.start_rounds()
    weights = np.array([3.0, 4.0, 12.0, 5.0])
    before = run_round(colliding, rounds, weights)
    late = [("cy", 0, 4, 1, "secret"), ("cy", 1, 2**63 - 1, 1, "flimflam")]
    grown = spark.createDataFrame(user_lists(COLLIDING + late), tasks.LIST_ROWS)
    colliding.frame = engine.add_ties(grown)
    after = run_round(colliding, rounds, weights)
    assert (after - before).tolist() == [0, 0, 0, UNITS]
    assert "secret" not in all_texts(colliding)


def test_on_spark_one_user_moves_every_round_by_b_at_most_and_nobody_else_at_all(spark, vocabulary):
    """Neighbours, with the same weight for the same text in each round: a function of its text."""
    rng = np.random.default_rng(3)
    said = [(f"u{user}", " ".join(rng.choice(NEW, 6))) for user in range(12)]
    eve = [("eve", " ".join(rng.permutation([*NEW, "evesown"]))), ("eve", "zorp evesown zorp")]
    public = PublicTextModel.from_vocabulary(vocabulary)
    sums = []
    for rows in (said + eve, said):
        df = spark.createDataFrame(rows, "user string, text string").repartition(3)
        with engine.SparkPrivateText.from_dataframe(df).lists(public, [1, 2], 9) as lists:
            texts, rounds = all_texts(lists), lists.start_rounds()
            sums.append([])
            for number in (1, 5):
                weights = [len(text) * number % 7 + len(set(text)) for text in texts]
                answer = run_round(lists, rounds, np.array(weights, np.float64))
                sums[-1].append(dict(zip(texts, answer.tolist(), strict=True)))
    for with_eve, others in zip(*sums, strict=True):
        moved = [value - others.get(text, 0) for text, value in with_eve.items()]
        assert 0 < sum(value**2 for value in moved) <= UNITS**2
        assert min(moved) == 0
        assert sum(value > 0 for value in moved) <= 9


def test_between_rounds_the_driver_gets_sums_and_no_texts(spark, frame, vocabulary, monkeypatch):
    """Texts come at the end, of what passes; a row of a user never comes."""
    brought, kind = [], type(spark.range(1))

    def noting(ask):
        def call(df, *arguments, **options):
            answer = ask(df, *arguments, **options)
            brought.append((df.columns, len(answer)))
            return answer

        return call

    for name in ("collect", "toArrow", "toPandas", "take", "toLocalIterator"):
        monkeypatch.setattr(kind, name, noting(getattr(kind, name)))
    text = engine.SparkPrivateText.from_dataframe(frame, **COLUMNS)
    found = discover(text, vocabulary, BUDGET, rounds=3, seed=3, open=True)
    (_, noted), numbered, *sums, (last, texts) = brought
    assert brought[0][0][0] == "reason"
    assert noted <= 2
    assert numbered[0] == ["hash", "tie", "log_weight"]
    assert [columns for columns, _ in sums] == [["hash", "tie", "sum"]] * 3
    assert last == ["hash", "tie", "ngram"]
    assert numbered[1] > texts == len(found) > 5


def test_a_task_that_is_killed_in_a_round_changes_nothing(colliding, tmp_path, monkeypatch):
    flag = tmp_path / "killed"
    weights = np.array([3.0, 4.0, 12.0, 5.0])
    before = run_round(colliding, colliding.start_rounds(), weights)
    plain = tasks.sum_round_units

    def killed_once(batches):
        for batch in plain(batches):
            yield batch
            if not flag.exists():
                flag.touch()
                os.kill(os.getpid(), signal.SIGKILL)

    monkeypatch.setattr(tasks, "sum_round_units", killed_once)
    after = run_round(colliding, colliding.start_rounds(), weights)
    assert flag.exists()
    assert after.tolist() == before.tolist()
