"""Spark Connect: what it lacks is not used, large objects arrive, and the page's commands run."""

import os
import pickle
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from bayesgram.errors import BayesgramError
from bayesgram.mechanisms.discovery import discover
from bayesgram.mechanisms.gaussian import Gaussian
from bayesgram.mechanisms.publish import release
from bayesgram.privacy.budget import Budget
from bayesgram.private.counts import count
from bayesgram.public.discovered_ngrams import Discovery
from bayesgram.public.vocabulary import Vocabulary
from bayesgram.spark import session, sharing

pytest.importorskip("pyspark", reason="pyspark is not installed: pip install 'bayesgram[spark]'")
pytest.importorskip("grpc", reason="Spark Connect needs pip install 'bayesgram[spark]'")

from bayesgram.spark import counts as engine
from bayesgram.spark.discovery import SparkPrivateText

ROOT = Path(__file__).parents[2]
BUDGET = Budget(4.0, 1e-4)
# What a client of Spark Connect does not have, or what works on one kind of session alone.
MISSING = r"sparkContext|SparkContext|\.rdd\b|\._(jvm|jsc|sc|jdf)\b|sql import functions|Broadcast"


@pytest.fixture(scope="module")
def remote(server):
    with session.session(server) as made:
        yield made


@pytest.fixture(scope="module")
def rows():
    """What 200 people wrote of a few words, half of which are public."""
    rng = np.random.default_rng(6)
    words = ["the", "red", "fish", "zorp", "blink"]
    texts = [" ".join(rng.choice(words, rng.integers(1, 9))) for _ in range(600)]
    return pa.table({"user": [f"u{n}" for n in rng.integers(0, 200, 600)], "text": texts})


@pytest.fixture(scope="module")
def vocabulary():
    public = pa.table({"text": ["the red fish", "red fish the", "fish the red"]})
    return Vocabulary.from_public(public, order=[1, 2], size=9)


@pytest.fixture(scope="module")
def words(vocabulary):
    return vocabulary.by_order[0][1]


def test_nothing_that_connect_lacks_is_used():
    sources = sorted((ROOT / "src" / "bayesgram" / "spark").glob("*.py"))
    assert len(sources) > 6
    for file in sources:
        code = re.sub(r'"""[\s\S]*?"""', "", file.read_text(encoding="utf-8"))
        assert not re.findall(MISSING, code), file


def test_a_session_that_keeps_nothing_gives_the_same(
    remote, rows, words, vocabulary, monkeypatch, tmp_path
):
    """Serverless Spark refuses to keep DataFrames and to change most settings."""
    from pyspark.errors import AnalysisException

    refusals = []

    def refuse(condition):
        def call(*_arguments, **_options):
            refusals.append(condition)
            raise AnalysisException(f"[{condition}] Not on serverless compute. SQLSTATE: 0A000")

        return call

    for name in ("persist", "cache", "unpersist"):
        monkeypatch.setattr(type(remote.range(1)), name, refuse("NOT_SUPPORTED_WITH_SERVERLESS"))
    monkeypatch.setattr(type(remote.conf), "set", refuse("CONFIG_NOT_AVAILABLE"))
    frame = remote.createDataFrame(rows).repartition(3)
    counts = engine.count(frame, words)
    here, there = (
        release(each, words, Gaussian(), BUDGET, seed=2) for each in (count(rows, words), counts)
    )
    counts.unpersist()
    assert here.probabilities.tobytes() == there.probabilities.tobytes()
    text = SparkPrivateText.from_dataframe(frame)
    for name, inputs in (("here", rows), ("there", text)):
        found = discover(inputs, vocabulary, BUDGET, rounds=2, seed=3, open=True)
        assert "zorp" in found.ngrams.to_pylist()
        found.save(tmp_path / name)
    first, second = (tmp_path / name / "ngrams.parquet" for name in ("here", "there"))
    assert first.read_bytes() == second.read_bytes()
    assert set(refusals) == {"NOT_SUPPORTED_WITH_SERVERLESS", "CONFIG_NOT_AVAILABLE"}


def test_large_objects_are_files_of_a_remote_session_and_the_plan_stays_small(
    classic, remote, rows, vocabulary, monkeypatch
):
    value = {"much": np.arange(1 << 18)}  # 2 MB
    monkeypatch.setattr(sharing, "MAX_INLINE_BYTES", 1 << 20)
    assert sharing.share(classic, value).packed is not None
    shared = sharing.share(remote, value)
    assert shared.packed is None

    def task(batches):
        for batch in batches:
            again = shared.value is shared.value  # unpacked once
            total = int(shared.value["much"].sum()) if again else -1
            yield pa.RecordBatch.from_pydict({"total": pa.array([total] * len(batch))})

    answers = remote.range(6, numPartitions=3).mapInArrow(task, "total long").collect()
    assert {row.total for row in answers} == {sum(range(1 << 18))}
    monkeypatch.setattr(sharing, "MAX_INLINE_BYTES", 0)
    totals = engine.count(remote.createDataFrame(rows), vocabulary).totals
    assert totals.tolist() == count(rows, vocabulary).totals.tolist()


def test_a_worker_keeps_the_last_objects_alone(monkeypatch):
    unpacked = []
    loads = pickle.loads
    monkeypatch.setattr(sharing.Shared, "_unpacked", sharing.OrderedDict())
    monkeypatch.setattr(sharing.pickle, "loads", lambda packed: unpacked.append(1) or loads(packed))
    one, two, three = (sharing.Shared(str(n), pickle.dumps([n])) for n in range(3))
    assert [each.value for each in (one, two, one, one, two)] == [[0], [1], [0], [0], [1]]
    assert len(unpacked) == 2
    assert [three.value, one.value] == [[2], [0]]
    assert len(unpacked) == 4  # the one that was used least recently had to go
    assert len(sharing.Shared._unpacked) == sharing.MAX_UNPACKED


def test_the_variable_of_spark_names_the_server(server, monkeypatch):
    monkeypatch.setenv("SPARK_REMOTE", server)
    with session.session() as made:
        assert session.is_remote(made)
        assert made.range(3).count() == 3


def test_commands_leave_no_rows_on_the_server(
    classic, server, rows, words, vocabulary, run, tmp_path, monkeypatch
):
    """It goes on when they end, and would keep what is persisted."""
    monkeypatch.chdir(tmp_path)
    pq.write_table(rows, "private.parquet")
    vocabulary.save("v.parquet")
    words.save("words.parquet")
    spark = ["--engine", "spark", "--master", server]
    kept = classic.sparkContext._jsc.getPersistentRDDs().size()
    common = ["--vocab", "words.parquet", *spark]
    run("count", "private.parquet", *common, "-o", "counts", "--allow-public")
    budget = ["--epsilon", 4, "--delta", 1e-4]
    run("release", "counts", *common, "--mechanism", "gaussian", *budget, "-o", "out")
    common = ["--vocab", "v.parquet", *spark]
    run("discover", "private.parquet", *common, *budget, "--rounds", 2, "-o", "found")
    assert classic.sparkContext._jsc.getPersistentRDDs().size() == kept
    assert Discovery.load(tmp_path / "found").card.settings["rounds"] == 2


def test_a_task_that_refuses_a_row_says_why(remote):
    """The error of the task comes over Connect as it is, without its traceback."""
    rows = [("ann", 0, 3), ("bob", 7, 1)]
    df = remote.createDataFrame(rows, "user string, ngram long, count long")
    with pytest.raises(BayesgramError) as caught:
        engine.counts_from_rows(df, vocabulary_size=2).totals  # noqa: B018
    assert str(caught.value) == (
        "the counts: a ngram is not in 0 … 1; an n-gram id is a row number of the vocabulary. Are"
        " they the right ones?"
    )
    assert caught.value.__context__ is None


def test_the_commands_of_the_page_run_as_they_stand(rows, tmp_path, free_port):
    """A server that is started as the page says, in a Java of its own."""
    page = (ROOT / "docs" / "spark.md").read_text(encoding="utf-8")
    section = page.partition("## Spark Connect and serverless Spark")[2]
    commands = section.split("```")[1]
    assert commands.count("15002") == 1
    commands = commands.replace("15002", str(free_port)).replace(
        "start-connect-server.sh", f"$START --conf spark.connect.grpc.binding.port={free_port}"
    )
    commands = commands.replace("$START", "start-connect-server.sh")
    public = pa.table({"text": ["the red fish", "red fish the"] * 4})
    pq.write_table(public, tmp_path / "public.parquet")
    pq.write_table(rows, tmp_path / "private.parquet")
    bin_folder = str(Path(sys.executable).parent)
    environment = os.environ | {
        "PATH": f"{bin_folder}:{os.environ['PATH']}",
        "PYSPARK_PYTHON": sys.executable,
        "SPARK_PID_DIR": str(tmp_path),
        "SPARK_LOG_DIR": str(tmp_path / "log"),
        "SPARK_IDENT_STRING": "test",
        "SPARK_SUBMIT_OPTS": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    }
    environment.pop("SPARK_REMOTE", None)
    stop = "$SPARK_HOME/sbin/stop-connect-server.sh"
    assert stop in commands
    # The server needs some seconds to listen; a person would wait for it, too.
    wait = f"for _ in $(seq 600); do (: </dev/tcp/127.0.0.1/{free_port}) 2>/dev/null && break; sleep 0.1; done"
    commands = commands.replace("\nexport", f"\n{wait}\nexport", 1)
    script = f"set -e\ntrap '{stop}' EXIT\n{commands.replace(stop, ':')}"
    done = subprocess.run(
        ["bash", "-c", script],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        timeout=500,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert {"counts.parquet", "meta.json"} <= {
        path.name for path in (tmp_path / "counts").iterdir()
    }
