"""The library speaks of arguments; only the command line speaks of options."""

import ast
import re
from pathlib import Path

import pytest

import bayesgram
from bayesgram.cli.console import format_argument
from bayesgram.errors import Argument

SRC = Path(bayesgram.__file__).parent
OTHERS = (
    "cli/",
    "pages.py",
    "charts.py",
    "spark/session.py",
)  # the command line itself, style sheets, and Java's own options
LIBRARY = [
    path for path in SRC.glob("**/*.py") if not str(path.relative_to(SRC)).startswith(OTHERS)
]
A_COMMAND = re.compile(r"`bayesgram [^`]*`")
AN_OPTION = re.compile(r"(?<![\w`-])--[a-z]")


def said(tree):
    """Strings that a person may read: all but docstrings. The parts of an f-string are one."""
    skipped = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            skipped.add(node.value)
        elif isinstance(node, ast.JoinedStr):
            skipped.update(node.values)
            yield "".join(
                str(part.value) if isinstance(part, ast.Constant) else "…" for part in node.values
            )
    yield from (
        node.value
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and node not in skipped
    )


def test_messages_of_the_library_have_no_options():
    found = [
        f"{path.relative_to(SRC)}: {text}"
        for path in LIBRARY
        for text in said(ast.parse(path.read_text(encoding="utf-8")))
        if AN_OPTION.search(A_COMMAND.sub("", text))
    ]
    assert not found


@pytest.mark.parametrize(
    ("argument", "option"),
    [
        (Argument("by", "'x'"), "--by 'x'"),
        (Argument("segments"), "--segments"),
        (Argument("other", "True"), "--other"),
        (Argument("max_new", "0"), "--max-new 0"),
        (Argument("path"), "--output"),
        (Argument("format", "arpa"), "--format arpa"),
        (Argument("tokenizer", "x"), "--tokenizer x"),
        (Argument("day"), "`day`"),
        (Argument("day", "3"), "day=3"),
    ],
)
def test_arguments_become_options(argument, option):
    assert format_argument(argument) == option
