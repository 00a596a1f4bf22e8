"""Start Spark for a command, and say in our own words what goes wrong in it.

Spark's own messages may quote rows, so its log is off in a session made here; a person with a session of their own
decides about its log themselves.
"""

import os
import re
import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeVar

from bayesgram.engines.java import java_home
from bayesgram.errors import BayesgramError, UsageError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Result = TypeVar("Result")
SETTINGS = {
    "spark.log.level": "OFF",  # tracebacks of tasks would be printed
    "spark.ui.showConsoleProgress": "false",
}


@contextmanager
def session(master: str | None = None, **settings: str) -> "Iterator[SparkSession]":
    """The Spark session of this process, or a new one that ends with the block.

    `master` is Spark's (local[4], yarn, spark://host:7077, k8s://…); without it, that of spark-defaults.conf, or this
    machine. Settings are Spark's as well, with _ for the dots: spark_executor_memory="8g".
    """
    sessions = _pyspark()
    active = sessions.getActiveSession()
    if active is not None:
        yield active
        return
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)  # the tasks need this package, too
    builder = sessions.builder.appName("bayesgram")
    for name, value in (SETTINGS | {name.replace("_", "."): value for name, value in settings.items()}).items():
        builder = builder.config(name, value)
    with java_home():  # as long as the session lives: a local cluster starts its executors later
        started = builder.master(master) if master else builder
        spark = explained(started.getOrCreate, f"master={master}: " if master else "")
        try:
            yield spark
        finally:
            spark.stop()


def explained(work: Callable[[], Result], place: str = "") -> Result:
    """Do the work, and let no error of Spark through; errors that this package raised in a task come out as they are.

    The new error is raised after the old one is gone, so that it carries no context to show.
    """
    try:
        with without_warnings():
            return work()
    except BayesgramError:
        raise
    except Exception as error:  # noqa: BLE001 - Spark, Py4J and pandas have many kinds
        problem = _in_our_words(error, place)
    raise problem


@contextmanager
def without_warnings() -> Iterator[None]:
    """Spark warns of the installed pandas, which it wants to see and we don't use."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def _in_our_words(error: Exception, place: str) -> BayesgramError:
    found = re.findall(r"bayesgram\.errors\.(BayesgramError|UsageError): (.*)", str(error))
    if found:
        kind, message = found[-1]
        return {"BayesgramError": BayesgramError, "UsageError": UsageError}[kind](message)
    return BayesgramError(
        f"{place}Spark could not do it ({type(error).__name__}). Check master, paths and memory; Spark's own log says"
        " more, and may quote private data."
    )


def _pyspark() -> Any:  # noqa: ANN401 - the class SparkSession
    try:
        from pyspark.sql import SparkSession  # noqa: PLC0415 - an extra
    except ImportError:
        raise UsageError(
            "engine=spark: pyspark is not installed; pip install 'bayesgram[spark]', or use engine=local."
        ) from None
    return SparkSession
