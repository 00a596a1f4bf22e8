"""Documentation is code: transcripts are run, pages are complete, links lead somewhere."""

import doctest
import importlib.util
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import typer

from bayesgram.cli.app import app

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", ROOT / "CHANGELOG.md", *sorted((ROOT / "docs").glob("*.md"))]


def tool(name):
    spec = importlib.util.spec_from_file_location(name, ROOT / "tools" / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


COMMANDS = dict(tool("build_cli_docs").commands(typer.main.get_command(app)))
FLAGS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_is_explained(name):
    command = COMMANDS[name]
    assert f"Example: bayesgram {name} " in command.help
    assert all(parameter.help for parameter in command.params), name
    assert "--json" in [option for parameter in command.params for option in parameter.opts]
    assert f"## bayesgram {name}\n" in (ROOT / "docs" / "cli.md").read_text(encoding="utf-8")


def test_the_command_line_page_is_up_to_date():
    assert tool("build_cli_docs").page() == (ROOT / "docs" / "cli.md").read_text(encoding="utf-8"), (
        "run: python tools/build_cli_docs.py"
    )


def transcripts(page):
    """(command, expected output) of every console block."""
    for block in re.findall(r"```console\n(.*?)```", page.read_text(encoding="utf-8"), re.DOTALL):
        for part in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
            command, _, expected = part.partition("\n")
            yield command, expected


def test_the_transcript_of_the_readme_is_what_happens(tmp_path):
    environment = {**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}", "COLUMNS": "100"}
    for command, expected in transcripts(ROOT / "README.md"):
        done = subprocess.run(
            command, shell=True, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, (command, done.stderr)
        assert doctest.OutputChecker().check_output(expected, done.stdout, FLAGS), (command, done.stdout)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page):
    for target in re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", page.read_text(encoding="utf-8")):
        if "://" not in target:
            assert (page.parent / target).exists(), target


def test_every_test_that_the_promise_names_exists():
    page = (ROOT / "docs" / "promise.md").read_text(encoding="utf-8")
    tests = "\n".join(path.read_text(encoding="utf-8") for path in (ROOT / "tests").rglob("*.py"))
    named = re.findall(r"`(test_\w+)`", page)
    assert len(named) > 10
    for name in named:
        assert f"def {name}(" in tests, name


def test_every_erratum_is_listed_and_those_that_can_be_are_tested():
    page = (ROOT / "docs" / "errata.md").read_text(encoding="utf-8")
    tests = (ROOT / "tests" / "test_errata.py").read_text(encoding="utf-8")
    assert re.findall(r"^\| (E\d+) \|", page, re.MULTILINE) == [f"E{n}" for n in range(1, 18)]
    assert {int(n) for n in re.findall(r"def test_e(\d+)_", tests)} == set(range(1, 18))


def test_the_drawing_of_the_readme_lists_every_folder():
    page = (ROOT / "README.md").read_text(encoding="utf-8")
    for folder in (ROOT / "src" / "bayesgram").iterdir():
        if (folder / "__init__.py").exists():
            assert f"  {folder.name}/ " in page, folder.name
