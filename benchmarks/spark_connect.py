"""Large vocabularies on Spark: how they reach the tasks, classic and over Spark Connect.

    python benchmarks/spark_connect.py --sizes 50000 1000000 6000000

One Java is a classic session and a Spark Connect server. For each size of a vocabulary, the same
rows are counted on both, and added up. Printed are the bytes of the packed vocabulary where it
travels in functions, the seconds to pack it (and to upload it), those of a first and a second run,
the peak memory of a Python worker so far, and whether the sums are those of one machine.
"""

import argparse
import resource
import socket
import sys
import time
import warnings
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from bayesgram.arrays import Integers
from bayesgram.private.counts import count as count_here
from bayesgram.public.vocabulary import Vocabulary
from bayesgram.spark import counts as engine
from bayesgram.spark import tasks
from bayesgram.spark.session import session
from bayesgram.spark.sharing import share
from bayesgram.text.tokenizer import Tokenizer

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROWS = 20_000
WORDS = 3_000


def make_vocabulary(size: int) -> Vocabulary:
    """Make so many different trigrams of WORDS words."""
    rng = np.random.default_rng(1)
    numbers = np.sort(rng.choice(WORDS**3, size, replace=False))
    words = [
        pa.array([f"word{number}" for number in range(WORDS)], pa.large_string()).take(
            pa.array(numbers // WORDS**place % WORDS)
        )
        for place in (2, 1, 0)
    ]
    ngrams = pc.binary_join_element_wise(*words, pa.scalar(" ", pa.large_string()))
    return Vocabulary(ngrams, np.ones(size, np.int64), 3, Tokenizer())


def make_rows(vocabulary: Vocabulary) -> pa.Table:
    """Make rows of 2,000 people who write n-grams of the vocabulary."""
    rng = np.random.default_rng(2)
    texts = vocabulary.ngrams.take(pa.array(rng.integers(0, len(vocabulary), ROWS)))
    users = [f"u{number}" for number in rng.integers(0, 2_000, ROWS)]
    return pa.table({"user": users, "text": texts.cast(pa.string())})


def peak_memory(spark: "SparkSession") -> float:
    """Return the largest memory of a Python worker so far, in MB."""

    def task(batches: tasks.Batches) -> tasks.Batches:
        for _ in batches:
            peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
            yield pa.RecordBatch.from_pydict({"peak": pa.array([peak])})

    rows = spark.range(64, numPartitions=8).mapInArrow(task, "peak double").collect()
    return max(row[0] for row in rows)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sizes", type=int, nargs="+", default=[50_000, 1_000_000])
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    settings = {
        "spark_ui_enabled": "false",
        "spark_driver_memory": "4g",
        "spark_plugins": "org.apache.spark.sql.connect.SparkConnectPlugin",
        "spark_connect_grpc_binding_address": "127.0.0.1",
        "spark_connect_grpc_binding_port": str(port),
    }
    with session("local[2]", **settings) as classic, session(f"sc://127.0.0.1:{port}") as connect:
        for size in options.sizes:
            vocabulary = make_vocabulary(size)
            rows = make_rows(vocabulary)
            expected = count_here(rows, vocabulary).totals
            for name, spark in (("classic", classic), ("connect", connect)):
                measure(name, spark, vocabulary, rows, expected)


def measure(
    name: str, spark: "SparkSession", vocabulary: Vocabulary, rows: pa.Table, expected: Integers
) -> None:
    """Count twice, and print a line."""
    frame = spark.createDataFrame(rows)
    plain = Vocabulary(vocabulary.ngrams, vocabulary.counts, 3, vocabulary.tokenizer)
    start = time.perf_counter()
    shared = share(spark, plain)
    shared_seconds = time.perf_counter() - start
    seconds = []
    for _ in range(2):
        start = time.perf_counter()
        counts = engine.count(frame, vocabulary, allow_public=True)
        same = bool((counts.totals == expected).all())
        seconds.append(time.perf_counter() - start)
        counts.unpersist()
    place = "a file" if shared.packed is None else f"{len(shared.packed) / 1e6:.1f} MB in functions"
    sys.stdout.write(
        f"{name}: V = {len(vocabulary):,}; {place}, packed in {shared_seconds:.1f} s; counted in"
        f" {seconds[0]:.1f} s, {seconds[1]:.1f} s; worker {peak_memory(spark):,.0f} MB; same sums:"
        f" {same}\n"
    )
    sys.stdout.flush()


if __name__ == "__main__":
    main()
