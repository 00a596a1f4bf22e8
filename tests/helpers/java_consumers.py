"""AOSP's dicttool and Lucene, where they are installed: they read what `export` writes.

Java 17 with its compiler runs the two small programs of `java/`. Lucene is Debian's package
`liblucene8-java` (any version: LUCENE_JARS names the jars); dicttool is in no package, so
DICTTOOL_JAR names its jar.
"""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

PROGRAMS = Path(__file__).parent / "java"
LUCENE = os.environ.get("LUCENE_JARS") or ":".join(
    str(path)
    for name in ("suggest", "core", "analyzers-common")
    for path in sorted(Path("/usr/share/java").glob(f"lucene-{name}-[0-9]*.jar"))
)
DICTTOOL = os.environ.get("DICTTOOL_JAR", "")
has_java = shutil.which("javac") is not None

needs_lucene = pytest.mark.skipif(
    not has_java or not LUCENE, reason="Lucene and a Java compiler are not installed"
)
needs_dicttool = pytest.mark.skipif(
    not has_java or not DICTTOOL, reason="DICTTOOL_JAR does not name AOSP's dicttool"
)


def read_with_lucene(path):
    """The suggestions of a file, with their weights."""
    rows = [line.split("\t") for line in _run("ReadSuggestions", LUCENE, path)]
    return {text: int(weight) for text, weight in rows}


def read_with_dicttool(path):
    """Of each word list the f of its words, and of its bigrams."""
    rows = [line.split("\t") for line in _run("ReadCombined", DICTTOOL, path)]
    words = {text: int(frequency) for text, first, frequency in rows if not first}
    pairs = {(first, text): int(frequency) for text, first, frequency in rows if first}
    return words, pairs


def make_dictionary(path, output):
    """What dicttool says when it makes a dictionary of a word list."""
    command = ["java", "-jar", DICTTOOL, "makedict", "-s", str(path), "-d", str(output)]
    done = subprocess.run(command, capture_output=True, encoding="utf-8", check=True)
    return done.stdout + done.stderr


def _run(program, jars, path):
    command = ["java", "-cp", jars, str(PROGRAMS / f"{program}.java"), str(path)]
    done = subprocess.run(command, capture_output=True, encoding="utf-8", check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.rstrip("\n").split("\n")
