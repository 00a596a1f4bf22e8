"""Property tests explore: `make explore` reaches every test, also those that name a number of
examples.
"""

import ast
import os
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import settings

from helpers import hypothesis_profiles
from helpers.hypothesis_profiles import EXPLORE_VARIABLE, example_count, examples, explored_examples

TESTS = Path(__file__).parent
FIXED_BY_HAND = {"max_examples", "derandomize", "register_profile", "load_profile"}


def names_in(path):
    """Arguments, attributes and names in a module that would fix its examples by hand."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.keyword):
            yield node.arg
        elif isinstance(node, ast.Attribute):
            yield node.attr


def test_no_test_fixes_its_examples_by_hand():
    modules = [
        path
        for path in TESTS.rglob("*.py")
        if path.name not in {"hypothesis_profiles.py", Path(__file__).name}
    ]
    assert len(modules) > 100
    assert not {
        str(path.relative_to(TESTS)): found
        for path in modules
        if (found := FIXED_BY_HAND & set(names_in(path)))
    }


def test_what_fixes_examples_is_seen(tmp_path):
    (tmp_path / "test_some.py").write_text(
        "from hypothesis import settings\n@settings(max_examples=3)\ndef test(): ...\n"
    )
    assert "max_examples" in set(names_in(tmp_path / "test_some.py"))


@pytest.mark.parametrize(
    ("variable", "fixed", "count"),
    [
        ("", 150, 150),
        ("", 2, 2),
        ("2000", 2, 2000),
        ("2000", 100, 2000),
        ("2000", 150, 3000),
        ("3000", 300, 9000),
    ],
)
def test_how_many_examples(variable, fixed, count, monkeypatch):
    monkeypatch.setenv(EXPLORE_VARIABLE, variable)
    assert example_count(fixed) == count
    assert examples(fixed).max_examples == count


@pytest.mark.parametrize("text", ["99", "0", "-5", "1e4", "1000001", "many", "²²²"])
def test_what_is_no_number_of_examples(text, monkeypatch):
    monkeypatch.setenv(EXPLORE_VARIABLE, text)
    with pytest.raises(
        ValueError,
        match=f"^{EXPLORE_VARIABLE}='{text}': a whole number from 100 to 1000000 is needed",
    ):
        explored_examples()


PROPERTIES = """
from hypothesis import given, settings, strategies as st
from helpers.hypothesis_profiles import examples

def note(name, value):
    with open(__file__ + "." + name, "a") as file:
        print(value, file=file)

@examples(3)
@given(st.integers(0, 2**60))
def test_three(value):
    note("three", value)

@given(st.integers(0, 2**60))
def test_usual(value):
    note("usual", value)

@settings(deadline=None)
@given(st.integers(0, 2**60))
def test_settings(value):
    note("settings", value)

@examples(120)
@given(st.integers(0, 2**60))
def test_broken(value):
    note("broken", value)
    assert value < 1000
"""


def run_properties(folder, explored):
    """The examples of each property, in the order in which they were drawn, and what pytest
    printed.
    """
    folder.mkdir()
    (folder / "test_properties.py").write_text(PROPERTIES)
    (folder / "conftest.py").write_text(
        "from helpers.hypothesis_profiles import load_profile\nload_profile()\n"
    )
    environment = {**os.environ, "PYTHONPATH": str(TESTS), EXPLORE_VARIABLE: explored}
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-c", os.devnull, "--rootdir", ".", "."],
        cwd=folder, env=environment, capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    drawn = {
        path.suffix[1:]: path.read_text().splitlines()
        for path in folder.glob("test_properties.py.*")
    }
    return drawn, done.stdout


def test_examples_are_the_same_each_time_unless_they_are_explored(tmp_path):
    """A real run of pytest, in which the profile is loaded by conftest.py and test modules are
    imported after it.
    """
    once, output = run_properties(tmp_path / "once", "")
    again, _ = run_properties(tmp_path / "again", "")
    assert once == again
    assert [len(once[name]) for name in ("three", "usual", "settings")] == [3, 100, 100]
    assert "1 failed, 3 passed" in output
    first, output = run_properties(tmp_path / "first", "500")
    second, _ = run_properties(tmp_path / "second", "500")
    for name in ("three", "usual", "settings"):
        assert len(first[name]) == len(second[name]) == 500
        assert first[name] != second[name]
    assert "@reproduce_failure(" in output
    assert "1 failed, 3 passed" in output


def test_this_run_has_the_profile_that_the_environment_asks_for():
    assert settings.default.derandomize == (explored_examples() is None)
    assert settings.default.max_examples == example_count(hypothesis_profiles.DEFAULT_EXAMPLES)
