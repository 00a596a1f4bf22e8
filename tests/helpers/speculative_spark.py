"""Count users on a cluster of two workers that runs a slow task twice: COUNTS VOCABULARY_SIZE
FOLDER.

FOLDER/attempts gets a line for each time a task is run: partition, attempt.
"""

import os
import re
import signal
import subprocess
import sys
import time
from contextlib import ExitStack
from pathlib import Path

import numpy as np

QUICK = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
SETTINGS = {
    "spark_ui_enabled": "false",
    "spark_driver_host": "127.0.0.1",
    "spark_driver_bindAddress": "127.0.0.1",
    "spark_driver_extraJavaOptions": QUICK,
    "spark_executor_memory": "512m",
    "spark_executor_cores": "1",
    "spark_executor_extraJavaOptions": QUICK,
    "spark_scheduler_minRegisteredResourcesRatio": "1.0",
    "spark_sql_shuffle_partitions": "3",
    "spark_sql_adaptive_enabled": "false",
    "spark_speculation": "true",
    "spark_speculation_interval": "100ms",
    "spark_speculation_multiplier": "1.01",
    "spark_speculation_quantile": "0.3",
    "spark_speculation_efficiency_enabled": "false",
    "spark_locality_wait": "0s",
}


def daemon(stack, log, kind, *arguments):
    """A part of the cluster, which ends with the block; the log that it writes."""
    import pyspark

    command = [
        f"{pyspark.__path__[0]}/bin/spark-class",
        f"org.apache.spark.deploy.{kind}",
        *arguments,
    ]
    environment = os.environ | {"SPARK_DAEMON_JAVA_OPTS": QUICK, "SPARK_DAEMON_MEMORY": "256m"}
    with log.open("w") as file:
        started = subprocess.Popen(
            command, env=environment, stdout=file, stderr=file, start_new_session=True
        )
    stack.callback(os.killpg, started.pid, signal.SIGKILL)
    return log


def waited_for(log, pattern):
    """What a daemon says once it is ready."""
    for _ in range(600):
        found = re.search(pattern, log.read_text())
        if found:
            return found[1]
        time.sleep(0.1)
    raise TimeoutError(log.read_text())


def slow_once(log):
    """How many users there are; the first attempt of the first task sleeps."""

    def ask(rows):
        from pyspark import TaskContext

        context = TaskContext.get()
        if context:
            with log.open("a") as file:
                file.write(f"{context.partitionId()} {context.attemptNumber()}\n")
            if context.partitionId() == 0 and context.attemptNumber() == 0:
                time.sleep(120)
        return np.array([rows.starts.size - 1])

    return ask


def main(counts, vocabulary_size, folder):
    """Start the cluster, ask, and print the answer."""
    from bayesgram.spark.counts import load_counts
    from bayesgram.spark.session import session, use_java

    with ExitStack() as stack:
        stack.enter_context(use_java())
        place = ("--port", "0", "--webui-port", "0")
        log = daemon(stack, folder / "master", "master.Master", "--host", "127.0.0.1", *place)
        url = waited_for(log, r"Starting Spark master at (\S+)")
        for host in ("127.0.0.1", "127.0.0.2"):
            room = ("--cores", "1", "--memory", "1g", "--work-dir", str(folder / f"work-{host}"))
            daemon(stack, folder / host, "worker.Worker", "--host", host, *place, *room, url)
        spark = stack.enter_context(session(url, **SETTINGS))
        found = load_counts(spark, counts, vocabulary_size=vocabulary_size)
        answer = found.aggregate(slow_once(folder / "attempts"))
        sys.stdout.write(f"{answer[0]}\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), Path(sys.argv[3]))
