"""Where Spark finds its Java or its server, and what is said if there is none."""

import os
import socket
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import typer

from bayesgram.cli import options
from bayesgram.errors import BayesgramError, UsageError
from bayesgram.public.vocabulary import Vocabulary
from bayesgram.spark import session
from bayesgram.spark import session as sessions
from helpers import commands


def test_without_java_or_pyspark_there_is_one_clear_error(monkeypatch):
    monkeypatch.setattr(session, "system_java_version", lambda: 11)
    monkeypatch.setattr(session, "bundled_java", lambda: None)
    with pytest.raises(
        UsageError, match=r"^Spark needs Java 17 or newer, and the one found is 11; pip install"
    ):
        session.use_java().__enter__()
    monkeypatch.setitem(sys.modules, "pyspark.sql", None)
    with pytest.raises(
        UsageError,
        match=r"^engine=spark: pyspark is not installed; pip install 'bayesgram\[spark\]'",
    ):
        sessions.session().__enter__()


@pytest.mark.skipif(os.name != "posix", reason="the script is for a shell")
def test_the_java_of_the_wheel_is_called_without_the_module_it_lacks(monkeypatch):
    monkeypatch.setattr(session, "system_java_version", lambda: None)
    monkeypatch.setattr(session, "bundled_java", lambda: "/bin/echo")
    before = os.environ.get("JAVA_HOME")
    with session.use_java():
        script = f"{os.environ['JAVA_HOME']}/bin/java"
        words = [script, "-cp", "a b", "--add-modules=jdk.incubator.vector", "--add-opens=x", "*"]
        assert (
            subprocess.run(words, capture_output=True, text=True, check=True).stdout
            == "-cp a b --add-opens=x *\n"
        )
    assert os.environ.get("JAVA_HOME") == before


# Spark Connect

SECRET = "hunter2-is-secret"


def refused(address, **variables):
    """What is said when a session can't be had."""
    with pytest.MonkeyPatch.context() as patch:
        for name, value in variables.items():
            patch.setenv(name, value)
        with pytest.raises(BayesgramError) as caught:
            sessions.session(address).__enter__()
    error = caught.value
    assert error.__context__ is None or error.__suppress_context__
    assert SECRET not in f"{error!r} {error}"
    return error


@pytest.fixture
def closed_port():
    with socket.socket() as probe:  # bound, but nobody listens
        probe.bind(("127.0.0.1", 0))
        yield probe.getsockname()[1]


def test_where_no_server_answers_that_is_said_at_once_and_without_the_token(closed_port):
    pytest.importorskip("grpc")
    place = f"sc://127.0.0.1:{closed_port}"
    message = (
        f"{place}/;…: no Spark Connect server answers there. Is it running, and are host, port"
        " (15002 if it is left out) and use_ssl right?"
    )
    url = f"{place}/;token={SECRET}"
    assert str(refused(url)) == f"master={message}"
    assert str(refused(None, SPARK_REMOTE=url)) == f"SPARK_REMOTE {message}"
    assert str(refused(url, SPARK_REMOTE="sc://elsewhere")) == f"master={message}"


def test_what_listens_without_being_a_server_is_no_server():
    pytest.importorskip("grpc")
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]

        def hang_up():
            listener.accept()[0].close()

        thread = threading.Thread(target=hang_up, daemon=True)
        thread.start()
        assert "no Spark Connect server answers there" in str(refused(f"sc://127.0.0.1:{port}"))
        thread.join(timeout=10)


def test_a_server_that_is_silent_is_not_waited_for(monkeypatch):
    pytest.importorskip("grpc")
    monkeypatch.setattr(session, "CONNECT_SECONDS", 0.3)
    with socket.create_server(("127.0.0.1", 0)) as listener:  # takes the call, and says nothing
        port = listener.getsockname()[1]
        assert "no Spark Connect server answers there" in str(refused(f"sc://127.0.0.1:{port}"))


def test_a_server_that_opens_no_session_is_told_from_none():
    grpc = pytest.importorskip("grpc")
    server = grpc.server(ThreadPoolExecutor(1))  # of other services than Spark's
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    try:
        message = str(refused(f"sc://127.0.0.1:{port}/;user_id=me;x={SECRET}"))
        invalid = str(refused(f"sc://127.0.0.1:{port}/;session_id={SECRET}"))
    finally:
        server.stop(None)
    assert message == (
        f"master=sc://127.0.0.1:{port}/;…: a server answers, but opens no session. Check the token,"
        " and that its Spark is 4.0 or newer; its own log says more."
    )
    assert invalid.startswith(f"master=sc://127.0.0.1:{port}/;…: Spark could not do it (")


@pytest.mark.parametrize(
    "wrong", ["sc://", "sc:/h", "SC:h", "sc://h:port", "sc://h/path", "sc://h:1:2"]
)
def test_what_is_no_address_is_refused_without_its_token(wrong):
    pytest.importorskip("grpc")
    error = refused(f"{wrong}/;token={SECRET}")
    assert isinstance(error, UsageError)
    assert "is no address of a Spark Connect server; one is sc://HOST, sc://HOST:PORT" in str(error)


def test_spark_connect_that_is_not_installed_is_one_clear_error(monkeypatch):
    monkeypatch.setitem(sys.modules, "pyspark.sql.connect.client", None)
    assert str(refused("sc://localhost")) == (
        "pyspark with Spark Connect is not installed; pip install 'bayesgram[spark]'."
    )


@pytest.mark.parametrize(
    ("address", "shown"),
    [
        ("sc://h", "sc://h"),
        ("sc://h:443/;use_ssl=true", "sc://h:443/;…"),
        (f"sc://h;token={SECRET}", "sc://h;…"),
        (f"SC://h:443/;user_id=me;token={SECRET}", "SC://h:443/;…"),
        (f"sc:/h;token={SECRET}", "sc:/h;…"),
        (f"sc://me:{SECRET}@h:443/", "sc://…@h:443/"),
        (f"sc://h/?token={SECRET}", "sc://h/?…"),
        (f"sc://h/token={SECRET}", "sc://h/token=…"),
        ("local[2,4]", "local[2,4]"),
        ("k8s://https://h:443", "k8s://https://h:443"),
        ("spark://a:7077,b:7077", "spark://a:7077,b:7077"),
    ],
)
def test_addresses_are_shown_without_what_may_be_secret(address, shown):
    assert session.redact_address(address) == shown


def test_a_token_is_in_no_message_card_or_log(tmp_path, closed_port, monkeypatch):
    """The command is noted on a card, which is published."""
    pytest.importorskip("grpc")
    monkeypatch.chdir(tmp_path)
    url = f"sc://127.0.0.1:{closed_port}/;token={SECRET}"
    Vocabulary.from_public(pa.table({"text": ["red fish"]}), order=1, size=2).save("v.parquet")
    pq.write_table(pa.table({"user": ["ann"], "text": ["red"]}), "p.parquet")
    count = ["count", "p.parquet", "--vocab", "v.parquet", "-o", "c"]
    for more, code in ((["--engine", "spark", "--master", url], 1), (["--master", url], 2)):
        message = commands.expect_failure(*count, *more, cwd=tmp_path, code=code, secret=SECRET)
        assert f"--master sc://127.0.0.1:{closed_port}/;…: " in message
    assert not Path("c").exists()
    typed = []

    def note(context: typer.Context, master: options.Master = None):
        typed.append(options.typed_command(context))

    app = typer.Typer()
    app.command()(note)
    app(["--master", url], prog_name="note", standalone_mode=False)
    assert typed == [f"bayesgram note --master 'sc://127.0.0.1:{closed_port}/;…'"]


def test_settings_that_a_server_refuses_are_left_alone():
    pytest.importorskip("pyspark")
    from pyspark.errors import AnalysisException

    def refuse(message):
        def work():
            raise AnalysisException(message)

        return session.run_if_supported(work)

    assert session.run_if_supported(lambda: 7) == 7
    for condition in ("NOT_SUPPORTED_WITH_SERVERLESS", "CONFIG_NOT_AVAILABLE"):
        assert refuse(f"[{condition}] Not on this compute. SQLSTATE: 0A000") is None
    with pytest.raises(BayesgramError, match="AnalysisException"):
        refuse("[TABLE_OR_VIEW_NOT_FOUND] secret")


def test_tasks_without_this_package_are_said_to_be_so():
    def work():
        raise RuntimeError("ModuleNotFoundError: No module named 'bayesgram'\n")

    with pytest.raises(BayesgramError, match="the Python of Spark's tasks lacks bayesgram, or"):
        session.run_spark(work)
