"""How Spark's time, shuffle and memory grow with the data.

`python benchmarks/spark.py --users 25000 50000 100000`.

Generates people, counts their trigrams on Spark (local[2] unless told otherwise), asks for a
clipped sum and for γ, and prints a table in Markdown. Bytes are those of Spark's own event log;
memory is that of the largest Python worker and of the JVM, looked up in /proc ten times a second
(Linux). Every size runs in a Spark of its own, after a small warm-up.
"""

import argparse
import json
import subprocess
import sys
import tempfile
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from bayesgram.inference.design import ClippingPlan
from bayesgram.inference.noisy_counts import PublicNgrams
from bayesgram.mechanisms.base import Randomness
from bayesgram.mechanisms.posterior import OrderDesign
from bayesgram.paper.algorithm_1 import Paper
from bayesgram.private.clipping import clipped_sum
from bayesgram.public.vocabulary import Vocabulary
from bayesgram.spark import counts as engine
from bayesgram.spark.session import session
from bayesgram.synthetic.population import Population, write_messages

COLUMNS = {
    "users": "{:,.0f}",
    "text_mb": "{:,.1f}",
    "nonzeros": "{:,.0f}",
    "vocab_s": "{:.1f}",
    "vocab_shuffle_mb": "{:.1f}",
    "count_s": "{:.1f}",
    "count_shuffle_mb": "{:.1f}",
    "shuffle_bytes_per_user": "{:,.0f}",
    "shuffle_bytes_per_nonzero": "{:.1f}",
    "sum_s": "{:.1f}",
    "gamma_s": "{:.1f}",
    "worker_mb": "{:,.0f}",
    "jvm_mb": "{:,.0f}",
}


def main() -> None:
    """A row for each size."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--users", type=int, nargs="+", default=[25_000, 50_000, 100_000])
    parser.add_argument("--size", type=int, default=50_000, help="of the vocabulary")
    parser.add_argument("--master", default="local[2]")
    parser.add_argument("--one", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        print(
            json.dumps(measured(Path(options.one), options.users[0], options.size, options.master))
        )
        return
    print(f"| {' | '.join(COLUMNS)} |\n|{'---:|' * len(COLUMNS)}")
    for users in options.users:
        with tempfile.TemporaryDirectory() as folder:
            words = [
                "--one",
                folder,
                "--users",
                str(users),
                "--size",
                str(options.size),
                "--master",
                options.master,
            ]
            done = subprocess.run(
                [sys.executable, __file__, *words], capture_output=True, text=True, check=True
            )
        row = json.loads(done.stdout)
        print(
            f"| {' | '.join(form.format(row[name]) for name, form in COLUMNS.items())} |",
            flush=True,
        )


def measured(folder: Path, users: int, size: int, master: str) -> dict[str, float]:
    """One size, in a Spark of its own."""
    people = Population(users=users)
    paths = [str(path) for path in write_messages(folder / "messages", people, files=4)]
    public = pa.Table.from_batches(list(Population(users=1, seed=8).public_text(200_000)))
    pq.write_table(public, folder / "public.parquet")
    vocabulary = Vocabulary.from_public(public, order=3, size=size)
    log = {"spark_eventLog_enabled": "true", "spark_eventLog_dir": folder.as_uri()}
    plain = {
        "spark_eventLog_compress": "false",
        "spark_eventLog_rolling_enabled": "false",
        "spark_ui_enabled": "false",
    }
    row: dict[str, float] = {"users": users, "text_mb": text_bytes(paths) / 1e6}
    with session(master, **log, **plain, spark_driver_memory="2g") as spark, peaks(row):
        messages = spark.read.parquet(*paths)
        engine.count(messages.limit(100), vocabulary).unpersist()
        engine.vocabulary(messages.limit(100), size=100)

        def timed(name: str, work: Callable[[], Any]) -> Any:
            spark.sparkContext.setJobDescription(name)
            start = time.perf_counter()
            result = work()
            row[f"{name}_s"] = time.perf_counter() - start
            return result

        timed("vocab", lambda: engine.vocabulary(messages, size=size))
        counts = timed("count", lambda: engine.count(messages, vocabulary))
        design = OrderDesign(PublicNgrams.of(vocabulary))
        coordinates = design.coordinates(ClippingPlan.fixed(2.0))
        timed("sum", lambda: clipped_sum(counts, coordinates, clip_norm=2.0))
        paper = Paper(max_count=1, max_total=100, slope=0.01)
        timed("gamma", lambda: paper.gamma(paper.statistics(counts, Randomness.from_seed(1))))
        row["nonzeros"] = counts.sizes()[1]
    shuffled = shuffled_bytes(
        next(path for path in folder.iterdir() if path.name.startswith(("local-", "app-")))
    )
    row |= {f"{name}_shuffle_mb": shuffled[name] / 1e6 for name in ("vocab", "count")}
    row["shuffle_bytes_per_user"] = shuffled["count"] / users
    row["shuffle_bytes_per_nonzero"] = shuffled["count"] / row["nonzeros"]
    return row


def text_bytes(paths: list[str]) -> int:
    """Bytes of text, without ids."""
    return sum(pq.read_table(path, columns=["text"]).nbytes for path in paths)


def shuffled_bytes(log: Path) -> dict[str, int]:
    """Bytes written to shuffle files, by the description of the job."""
    named: dict[int, str] = {}
    found: dict[str, int] = defaultdict(int)
    for line in log.read_text(encoding="utf-8").splitlines():
        event = json.loads(line)
        if event["Event"] == "SparkListenerJobStart":
            name = (event.get("Properties") or {}).get("spark.job.description", "")
            named |= {stage: name for stage in event["Stage IDs"] if stage not in named}
        if event["Event"] == "SparkListenerTaskEnd" and event.get("Task Metrics"):
            written = event["Task Metrics"]["Shuffle Write Metrics"]["Shuffle Bytes Written"]
            found[named.get(event["Stage ID"], "")] += written
    return found


@contextmanager
def peaks(row: dict[str, float]) -> Iterator[None]:
    """Note the most memory of a Python worker and of the JVM."""
    over = threading.Event()
    row |= {"worker_mb": 0.0, "jvm_mb": 0.0}

    def watch() -> None:
        while not over.wait(0.1):
            for name, mark in (("worker_mb", b"pyspark"), ("jvm_mb", b"java")):
                row[name] = max([row[name], *(resident(process) for process in with_word(mark))])

    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        yield
    finally:
        over.set()
        watcher.join()


def with_word(word: bytes) -> Iterator[Path]:
    """Processes started as Python with pyspark's worker, or as java."""
    for process in Path("/proc").glob("[0-9]*"):
        try:
            command = (process / "cmdline").read_bytes().split(b"\0")
        except OSError:
            continue
        java = command[0].endswith(b"java")
        if (
            java
            if word == b"java"
            else not java and any(part == b"pyspark.daemon" for part in command)
        ):
            yield process


def resident(process: Path) -> float:
    """Megabytes in memory."""
    try:
        return int((process / "statm").read_text().split()[1]) * 4096 / 1e6
    except (OSError, IndexError):
        return 0.0


if __name__ == "__main__":
    main()
