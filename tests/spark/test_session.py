"""Where Spark finds its Java, and what is said if there is none."""

import os
import subprocess
import sys

import pytest

from bayesgram.errors import UsageError
from bayesgram.spark import session
from bayesgram.spark import session as sessions


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
