"""Documentation is code: transcripts are run, pages are complete, links lead somewhere."""

import contextlib
import doctest
import gzip
import importlib.util
import os
import re
import shlex
import shutil
import sqlite3
import subprocess
import sys
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import typer
import yaml

import bayesgram
from bayesgram.cli.app import build_app
from bayesgram.io.uris import parse_uri
from bayesgram.releases.card_sections import belief_bounds, format_odds_factor
from helpers import commands, databases, postgres

ROOT = Path(__file__).parent.parent
DOCS = sorted((ROOT / "docs").rglob("*.md"))
PAGES = [
    *(ROOT / name for name in ("README.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md")),
    *DOCS,
]


def tool(name):
    spec = importlib.util.spec_from_file_location(name, ROOT / "tools" / f"{name}.py")
    module = sys.modules[name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


COMMANDS = dict(tool("build_cli_docs").commands(typer.main.get_command(build_app())))
FLAGS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_is_explained(name):
    command = COMMANDS[name]
    assert f"Example: bayesgram {name} " in command.help
    assert all(parameter.help for parameter in command.params), name
    assert "--json" in [option for parameter in command.params for option in parameter.opts]
    assert f"## bayesgram {name}\n" in (ROOT / "docs" / "cli.md").read_text(encoding="utf-8")


def test_the_command_line_page_is_up_to_date():
    assert tool("build_cli_docs").build_page() == (ROOT / "docs" / "cli.md").read_text(
        encoding="utf-8"
    ), "run: python tools/build_cli_docs.py"


def blocks(page):
    """(language, text) of every code block, from top to bottom."""
    return re.findall(
        r"^ *```(\w*)\n(.*?)^ *```$", page.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE
    )


def transcripts(page):
    """(command, expected output) of every console block; and scripts and the commands of other
    blocks, whatever they say.
    """
    for language, block in blocks(page):
        if language == "bash":  # a script, which prints whatever it prints
            yield block, None
            continue
        for part in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
            command, _, expected = part.replace("\\\n", " ").partition("\n")
            yield command, expected
        if not language:
            yield from ((command, None) for command in commands_in(block))


TRANSCRIPTS = [
    "README.md",
    "docs/tutorial.md",
    "docs/keyboard.md",
    "docs/howto/choose-epsilon-and-delta.md",
    "docs/howto/choose-public-text.md",
    "docs/howto/discover.md",
    "docs/howto/publish-queries.md",
    "docs/howto/ship-everywhere.md",
    "docs/howto/what-changed.md",
    "docs/howto/publish-by-country.md",
    "docs/howto/publish-every-week.md",
]


@pytest.mark.parametrize("page", TRANSCRIPTS)
def test_the_transcript_is_what_happens(tmp_path, page):
    for command, expected in transcripts(ROOT / page):
        if "\n" in command:
            run_script(command, tmp_path)
            continue
        name, *arguments = shlex.split(command)
        assert name == "bayesgram"
        assert not set("$*?<>|;&`") & set(command), "a shell would read this otherwise"
        if expected is None:
            if arguments[0] != "serve":  # which would not end
                commands.run_in_process(*smaller(arguments), cwd=tmp_path)
            continue
        done = commands.bayesgram(*arguments, cwd=tmp_path, COLUMNS="100")
        assert done.returncode == 0, (command, done.stderr)
        assert is_as_shown(expected, done.stdout), (command, done.stdout)


def run_script(script, folder):
    """Run a script in which `bayesgram` is ours."""
    path = os.pathsep.join([str(commands.PROGRAM.parent), os.environ["PATH"]])
    environment = {**os.environ, "PATH": path}
    done = subprocess.run(
        ["bash", "-euc", script], cwd=folder, env=environment, capture_output=True, check=False
    )
    assert done.returncode == 0, done.stderr.decode()


def is_as_shown(expected, printed):
    """Whether a command printed what a page shows, but for numbers: noise changes them."""
    return doctest.OutputChecker().check_output(mask(expected), mask(printed), FLAGS)


def mask(text):
    """The text with 0 for every number."""
    return re.sub(r"\d+(?:[.,]\d+)*(?:e[+-]?\d+)?", "0", text)


def test_numbers_of_a_transcript_may_differ_and_words_may_not():
    assert is_as_shown("Left: ε = 1.5 (12,000 users)\n...\n", "Left: ε = 0.3 (7 users)\nmore\n")
    assert not is_as_shown("Left: ε = 1.5 (12,000 users)\n", "Left: ε = none (7 users)\n")
    assert not is_as_shown("covers: 7% of words\n", "covers: 7 of words\n")


HOW_TO = sorted((ROOT / "docs" / "howto").glob("*.md"))
SMALLER = {
    "--users": 300,
    "--sentences": 1500,
    "--size": 300,
}  # the commands are as written, the numbers smaller


def smaller(words):
    """The same command with smaller numbers."""
    words = (
        [*words, "--sentences", "1500"]
        if words[0] == "generate" and "--sentences" not in words
        else words
    )
    for option, number in SMALLER.items():
        if option in words:
            words[words.index(option) + 1] = str(min(int(words[words.index(option) + 1]), number))
    return words


@pytest.fixture(scope="module")
def own_files(tmp_path_factory):
    """What a reader of the how-to pages has: public text of several kinds, private messages, and
    what is made of them.
    """
    folder = tmp_path_factory.mktemp("own")
    commands.run_in_process(
        "generate", "--users", 300, "--sentences", 1500, "-o", "data", cwd=folder
    )
    lines = gzip.decompress((folder / "data" / "chat.txt.gz").read_bytes()).decode().splitlines()
    (folder / "wiki").mkdir()
    shutil.copy(folder / "data" / "articles.txt.gz", folder / "wiki" / "a.txt.gz")
    (folder / "lines.txt").write_text("\n".join(lines[:300]), encoding="utf-8")
    (folder / "public-held-out.txt").write_text("\n".join(lines[300:400]), encoding="utf-8")
    texts = pa.table({"text": lines})
    for name in ("wiki/b.parquet", "imdb.parquet", "held-out.parquet"):
        pq.write_table(texts, folder / name)
    shutil.move(folder / "data" / "messages", folder / "messages")
    shutil.rmtree(folder / "data")
    return folder


@pytest.fixture(scope="module")
def made(own_files, tmp_path_factory):
    """What the tutorial ends with, for pages that begin there."""
    folder = tmp_path_factory.mktemp("made")
    commands.run_in_process(
        "vocab",
        own_files / "lines.txt",
        "--order",
        3,
        "--size",
        300,
        "-o",
        "vocab.parquet",
        cwd=folder,
    )
    commands.run_in_process(
        "count", own_files / "messages", "--vocab", "vocab.parquet", "-o", "counts", cwd=folder
    )
    (folder / "results").mkdir()
    return folder


BEGIN_WHERE_THE_TUTORIAL_ENDS = {
    "tune.md",
    "ledger-in-a-team.md",
    "after-a-failed-run.md",
    "delete-counts.md",
    "warehouses.md",
}


def as_a_shell_reads(command, folder):
    """The words of a command, with patterns expanded as a shell does."""
    told = subprocess.run(
        ["bash", "-c", f"printf '%s\\0' {command}"], capture_output=True, cwd=folder, check=True
    )
    return [word.decode() for word in told.stdout.split(b"\0")[:-1]]


def tables_of(folder):
    """What the databases of the how-to pages hold: messages of people, and public text."""
    messages = pa.concat_tables(
        [pq.read_table(path) for path in sorted((folder / "messages").glob("*.parquet"))]
    ).select(["user", "text"])
    rows = range(len(messages))
    messages = messages.append_column(
        "country", pa.array([("de", "fr", "it")[n % 3] for n in rows])
    )
    messages = messages.append_column("sent", pa.array([f"2026-0{1 + n % 2}-15" for n in rows]))
    return {"messages": messages, "articles": pq.read_table(folder / "imdb.parquet")}


@pytest.fixture
def prepare_databases(tmp_path, monkeypatch):
    """Make the databases that a page reads, once its files are there."""
    with contextlib.ExitStack() as stack:

        def prepare(page):
            if page not in ("duckdb.md", "postgresql.md", "warehouses.md"):
                return
            tables = tables_of(tmp_path)
            (tmp_path / "february.sql").write_text(
                "SELECT \"user\", text FROM messages WHERE sent >= '2026-02-01';\n"
            )
            if page == "duckdb.md":
                path = databases.make_duckdb(tmp_path / "chat.duckdb", **tables)
                with duckdb.connect(path) as connection:
                    connection.execute("ALTER TABLE messages ALTER sent TYPE DATE")
            elif page == "warehouses.md":
                connection = stack.enter_context(contextlib.closing(sqlite3.connect("chat.sqlite")))
                connection.execute('CREATE TABLE messages ("user" TEXT, text TEXT)')
                columns = [column.to_pylist() for column in tables["messages"].columns[:2]]
                rows = zip(*columns, strict=True)
                connection.executemany("INSERT INTO messages VALUES (?, ?)", rows)
                connection.commit()
            elif not postgres.is_available():
                pytest.skip("no PostgreSQL server is installed")
            else:
                server = stack.enter_context(postgres.running_server())
                for name, table in tables.items():
                    databases.fill_postgres(server, name, table)
                for name in ("PGHOST", "PGUSER", "PGPASSWORD"):
                    monkeypatch.setenv(name, server.environment[name])
                monkeypatch.setenv("CHAT_DB", "postgresql:///chat")

        monkeypatch.chdir(tmp_path)
        yield prepare


def test_uris_of_the_pages_are_read():
    """Also those that no test can run."""
    shown = set()
    for page in HOW_TO:
        text = page.read_text(encoding="utf-8")
        shown |= set(re.findall(r"['`]((?:[a-z]+://|adbc\+)[^'`\s]+[?&]table=\w+)['`]", text))
    assert len(shown) > 12
    for uri in shown:
        assert parse_uri(uri, {}).table


@pytest.mark.parametrize("page", HOW_TO, ids=lambda page: page.name)
def test_a_how_to_page_runs_as_written_from_top_to_bottom(
    page, own_files, made, tmp_path, prepare_databases
):
    shutil.copytree(own_files, tmp_path, dirs_exist_ok=True)
    prepare_databases(page.name)
    if page.name in BEGIN_WHERE_THE_TUTORIAL_ENDS:
        shutil.copytree(made, tmp_path, dirs_exist_ok=True)
    shown = [] if "```console" in page.read_text(encoding="utf-8") else list(shown_commands(page))
    for command in shown:
        commands.run_in_process(*smaller(as_a_shell_reads(command, tmp_path)[1:]), cwd=tmp_path)
    assert shown or f"docs/howto/{page.name}" in TRANSCRIPTS, (
        "its transcript is run by another test"
    )


def shown_commands(page):
    """Every command that a page shows."""
    for language, block in blocks(page):
        if language in {"", "console"}:
            yield from commands_in(block)


def commands_in(block):
    """Every line that begins with bayesgram, with the lines that continue it."""
    for line in block.replace("\\\n", " ").splitlines():
        words = line.strip().removeprefix("$ ")
        if words.startswith("bayesgram ") and "…" not in words and "..." not in words:
            yield words.partition(" #")[0]


@pytest.mark.parametrize(
    "page", [page for page in PAGES if page.name != "cli.md"], ids=lambda page: page.name
)
def test_commands_have_the_options_that_are_shown(page):
    for shown in shown_commands(page):
        words = shlex.split(shown)[1:]
        name = " ".join(words[:2]) if " ".join(words[:2]) in COMMANDS else words[0]
        context = COMMANDS[name].make_context(
            name, words[len(name.split()) :], resilient_parsing=False
        )
        assert context.command is COMMANDS[name], (
            shown
        )  # an unknown option or a missing one would have raised


def test_the_readme_fits_a_screen():
    lines = (ROOT / "README.md").read_text(encoding="utf-8").splitlines()
    assert len(lines) <= 200
    assert [line for line in lines if len(line) > 100] == []


# Written by `make bench`, from the code, from the planted bugs; and one that has its own rewrite.
GENERATED = {"benchmarks.md", "cli.md", "planted-bugs.md", "inference.md"}


@pytest.mark.parametrize(
    "page", [page for page in DOCS if page.name not in GENERATED], ids=lambda page: page.name
)
def test_lines_of_prose_are_short(page):
    """Tables, pictures and code can't be wrapped."""
    block = re.compile(r"^ *```.*?^ *```$", re.DOTALL | re.MULTILINE)
    lines = block.sub("", page.read_text(encoding="utf-8")).splitlines()
    long = [line.lstrip() for line in lines if len(line) > 100]
    assert [line for line in long if not line.startswith(("|", "![", "<", "`"))] == []


@pytest.mark.parametrize(
    "page", [page for page in DOCS if page.name != "index.md"], ids=lambda page: page.name
)
def test_a_page_begins_with_what_the_reader_has_at_its_end(page):
    first = page.read_text(encoding="utf-8").split("\n\n")[1]
    assert re.match(r"At the end of this (page|tutorial),? (you|your)", first), first


def test_the_evaluation_counts_its_points():
    page = (ROOT / "docs" / "evaluation.md").read_text(encoding="utf-8")
    points = re.findall(r"^\| (\d)\.\d .+? \| (yes|partly|no) \|", page, re.MULTILINE)
    table = re.findall(r"^\| (\d) .+? \| (\d) \| (\d) \| (\d) \|$", page, re.MULTILINE)
    assert len(table) == 9
    for section, *counts in table:
        expected = [points.count((section, status)) for status in ("yes", "partly", "no")]
        assert list(map(int, counts)) == expected, section
    sums = [str(sum(status == each for _, status in points)) for each in ("yes", "partly", "no")]
    assert "| together | **{}** | **{}** | **{}** |".format(*sums) in page


def menu(entries):
    """The pages that a part of mkdocs.yml lists."""
    for entry in entries:
        (target,) = entry.values()
        yield from [target] if isinstance(target, str) else menu(target)


def test_every_page_is_in_the_menu_once():
    listed = list(menu(yaml.safe_load((ROOT / "mkdocs.yml").read_text(encoding="utf-8"))["nav"]))
    assert sorted(listed) == [str(page.relative_to(ROOT / "docs")) for page in DOCS], (
        "add the page to mkdocs.yml"
    )


def test_every_public_name_is_in_the_reference():
    page = (ROOT / "docs" / "api.md").read_text(encoding="utf-8")
    named = re.findall(r"^::: (\S+)$", page, re.MULTILINE)
    for target in named:
        resolve(target)
    packages = (bayesgram, bayesgram.lm, bayesgram.paper)
    public = {getattr(package, name) for package in packages for name in package.__all__}
    assert public <= {resolve(target) for target in named}


def resolve(path):
    """The function or class of a dotted name."""
    module, _, name = path.rpartition(".")
    try:
        return getattr(importlib.import_module(module), name)
    except ModuleNotFoundError:
        return getattr(resolve(module), name)


def test_every_function_on_the_map_of_the_code_exists():
    page = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    named = re.findall(r"`(bayesgram\.[\w.]+)`", page)
    assert len(named) > 30
    for path in named:
        folder = ROOT / "src" / path.replace(".", "/")
        assert folder.is_dir() or folder.with_suffix(".py").exists() or callable(resolve(path)), (
            path
        )
    for path in re.findall(r"`(bayesgram/[\w./]+|tests/[\w./]+|docs/[\w./]+|tools/[\w./]+)`", page):
        assert (ROOT / path).exists() or (ROOT / "src" / path).exists(), path


def test_the_odds_of_the_how_to_are_those_of_a_report():
    page = (ROOT / "docs" / "howto" / "choose-epsilon-and-delta.md").read_text(encoding="utf-8")
    rows = re.findall(
        r"^\| ([\d.]+) \| ([\d.,]+) \| ([\d.]+)% to ([\d.]+)% \| ([\d.]+)% to ([\d.]+)%",
        page,
        re.MULTILINE,
    )
    assert len(rows) == 6
    for epsilon, factor, *ends in rows:
        assert factor == format_odds_factor(float(epsilon))
        told = [*belief_bounds(0.1, float(epsilon)), *belief_bounds(0.5, float(epsilon))]
        assert [float(end) for end in ends] == pytest.approx(
            [float(end) for end in told], abs=0.051
        )


def test_the_odds_of_the_guarantee_are_the_same():
    page = (ROOT / "docs" / "guarantee.md").read_text(encoding="utf-8")
    rows = re.findall(
        r"^\| ([\d.]+) \| ([\d.,]+) \| ([\d.]+)% and ([\d.]+)% \|", page, re.MULTILINE
    )
    assert len(rows) == 6
    for epsilon, factor, *ends in rows:
        assert factor == format_odds_factor(float(epsilon))
        assert [float(end) for end in ends] == pytest.approx(
            [float(end) for end in belief_bounds(0.5, float(epsilon))], abs=0.051
        )


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page):
    for target in re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", page.read_text(encoding="utf-8")):
        if "://" not in target:
            assert (page.parent / target).exists(), target


PROOFS = [ROOT / "docs" / "promise.md", ROOT / "docs" / "ledger.md"]


@pytest.mark.parametrize("page", PROOFS, ids=lambda page: page.name)
def test_every_test_that_a_proof_names_exists(page):
    files = list((ROOT / "tests").rglob("*.py"))
    tests = "\n".join(path.read_text(encoding="utf-8") for path in files)
    text = page.read_text(encoding="utf-8")
    named = re.findall(r"`(test_\w+)`", text)
    assert len(named) > 10
    for name in named:
        assert f"def {name}(" in tests, name
    for name in re.findall(r"`(test_\w+\.py)`", text):
        assert name in {path.name for path in files}, name


def test_every_planted_bug_stands_beside_a_line_of_a_proof():
    planted = {path.stem for path in (ROOT / "tests" / "mutants").glob("*.patch")}
    pages = "\n".join(page.read_text(encoding="utf-8") for page in PROOFS)
    named = set(re.findall(r"`([a-z]+(?:-[a-z0-9]+){2,})`", pages))
    assert len(planted) >= 30
    assert planted <= named, sorted(planted - named)
    killed = set(
        re.findall(
            r"`([a-z]+-[a-z0-9-]+)`",
            " ".join(re.findall(r"\*Kills:\*((?:\s|,|`[a-z0-9-]+`)+)", pages)),
        )
    )
    assert killed <= planted, sorted(killed - planted)


def test_the_page_of_planted_bugs_has_them_all():
    page = (ROOT / "docs" / "planted-bugs.md").read_text(encoding="utf-8")
    listed = re.findall(r"^\| `([\w-]+)` \| (.+) \| `(\w+)` \|$", page, re.MULTILINE)
    planted = {mutant.name: mutant.sentence for mutant in tool("mutants").mutants()}
    assert {name: sentence for name, sentence, _ in listed} == planted
    tests = "\n".join(path.read_text(encoding="utf-8") for path in (ROOT / "tests").rglob("*.py"))
    assert all(f"def {test}(" in tests for *_, test in listed)


def test_a_line_of_a_proof_names_its_test():
    """Numbered lines under a proof: all but those that refer to another say which test fails
    without them.
    """
    for page in PROOFS:
        text = page.read_text(encoding="utf-8")
        lines = re.findall(r"^\d\. .*?(?=^\d\. |^#|\Z)", text, re.MULTILINE | re.DOTALL)
        assert len(lines) > 5
        for line in lines:
            assert "*Test:*" in line or "as above" in line, line[:80]


def test_every_erratum_is_listed_and_those_that_can_be_are_tested():
    page = (ROOT / "docs" / "errata.md").read_text(encoding="utf-8")
    tests = (ROOT / "tests" / "test_errata.py").read_text(encoding="utf-8")
    assert re.findall(r"^\| (E\d+) \|", page, re.MULTILINE) == [f"E{n}" for n in range(1, 18)]
    assert {int(n) for n in re.findall(r"def test_e(\d+)_", tests)} == set(range(1, 18))
