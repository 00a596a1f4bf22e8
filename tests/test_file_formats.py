"""Every kind of file states one format number; a file that states anything else is refused.

One test writes each kind with the current code. Others change the number that it states, and check
that the error says what to do next.
"""

import json
import re
import shutil
import sqlite3
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from bayesgram import (
    Discovery,
    Ledger,
    PublicModel,
    Release,
    SegmentedRelease,
    Series,
    Vocabulary,
    load_counts,
)
from bayesgram.errors import BayesgramError, UsageError
from bayesgram.lm import LanguageModel
from helpers.commands import expect_failure, run_in_process

VERSIONING_PAGE = Path(__file__).parents[1] / "docs" / "versioning.md"
MISSING = object()
NONSENSE = "nonsense"
# What to do about a file of another format, or about one that is damaged.
NEXT_STEP = re.compile(
    r"Use a newer one|anew with this version|again with|export it again|audit again"
    r"|Get a copy|bayesgram docs ledger|Make .* again|count again|make (it|them) with"
    r"|[Mm]ake a new (one|series) with"
)

COMMANDS = (
    "generate --users 60 --sentences 300 --countries --seed 7 -o data",
    "vocab articles=data/articles.txt.gz --order 2 --size 30 -o vocab.parquet --model public-model",
    "count data/messages --vocab vocab.parquet -o counts",
    "count data/messages --vocab vocab.parquet --by country --segments de,fr --other -o counts-by",
    "ledger create --population everybody --epsilon 4 --delta 1e-5 app.ledger",
    "discover data/messages --vocab vocab.parquet --epsilon 1 --delta 1e-6 -o discovery",
    "release counts --vocab vocab.parquet --epsilon 1 --ledger app.ledger -o release",
    "release counts-by --vocab vocab.parquet --epsilon 1 -o release-by",
    "series create weekly.series --ledger app.ledger --epsilon 0.5 --delta 1e-6",
    "export release --format model -o model",
    "audit counts --vocab vocab.parquet --epsilon 1 --attacks likelihood-ratio -o audit",
)


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    """A folder with a file of every kind."""
    folder = tmp_path_factory.mktemp("formats")
    for command in COMMANDS:
        run(command)(folder)
    return folder


@pytest.fixture
def files(written, tmp_path):
    """A copy of it, to be changed."""
    return shutil.copytree(written, tmp_path / "files")


# --- Where a number stands ---


@dataclass(frozen=True)
class JsonNumber:
    """The key `format` of a JSON file."""

    file: str

    def read(self, folder):
        return json.loads((folder / self.file).read_text(encoding="utf-8"))["format"]

    def write(self, folder, number):
        path = folder / self.file
        document = json.loads(path.read_text(encoding="utf-8"))
        del document["format"]
        if number is not MISSING:
            document["format"] = number
        path.write_text(json.dumps(document), encoding="utf-8")


@dataclass(frozen=True)
class ParquetNumber:
    """A key of the metadata of a Parquet file."""

    file: str
    key: bytes

    def read(self, folder):
        return int(pq.read_schema(folder / self.file).metadata[self.key])

    def write(self, folder, number):
        table = pq.read_table(folder / self.file)
        metadata = dict(table.schema.metadata)
        del metadata[self.key]
        if number is not MISSING:
            metadata[self.key] = str(number).encode()
        pq.write_table(table.replace_schema_metadata(metadata), folder / self.file)


@dataclass(frozen=True)
class LedgerNumber:
    """SQLite's `user_version`, which is always a number: 0 where none was written."""

    file: str

    def read(self, folder):
        with closing(sqlite3.connect(folder / self.file)) as connection:
            return connection.execute("PRAGMA user_version").fetchone()[0]

    def write(self, folder, number):
        stored = number if isinstance(number, int) else 0
        with closing(sqlite3.connect(folder / self.file)) as connection:
            connection.execute(f"PRAGMA user_version = {stored}")


# --- Kinds of files ---


@dataclass(frozen=True)
class Kind:
    """One kind of file."""

    row: str  # its row of the table in docs/versioning.md
    noun: str  # as errors call it
    number: JsonNumber | ParquetNumber | LedgerNumber
    load: object  # from the folder that holds all files


def run(command):
    """Return a loader that runs a command, which reads the file."""
    return lambda folder: run_in_process(*command.split(), cwd=folder)


load_public_rows = run("count data/messages --vocab vocab.parquet -o again --force")
load_audit = run("report release --audit audit -o page.html --force")
load_counts_by_segment = run(
    "release counts-by --vocab vocab.parquet --epsilon 1 --seed 1 -o again --force"
)

KINDS = {
    "vocabulary": Kind(
        "vocabulary",
        "a vocabulary",
        ParquetNumber("vocab.parquet", b"bayesgram.format"),
        lambda folder: Vocabulary.load(folder / "vocab.parquet"),
    ),
    "public rows": Kind(
        "public rows",
        "a file of public rows",
        ParquetNumber("vocab.parquet.rows", b"bayesgram.rows"),
        load_public_rows,
    ),
    "counts": Kind(
        "counts",
        "a counts folder",
        JsonNumber("counts/meta.json"),
        lambda folder: load_counts(folder / "counts", vocabulary_size=30),
    ),
    "counts by segment": Kind(
        "counts", "a counts folder", JsonNumber("counts-by/meta.json"), load_counts_by_segment
    ),
    "release": Kind(
        "release",
        "a release",
        JsonNumber("release/card.json"),
        lambda folder: Release.load(folder / "release"),
    ),
    "release by segment": Kind(
        "release",
        "a release",
        JsonNumber("release-by/de/card.json"),
        lambda folder: SegmentedRelease.load(folder / "release-by"),
    ),
    "discovery": Kind(
        "discovery",
        "a discovery",
        JsonNumber("discovery/card.json"),
        lambda folder: Discovery.load(folder / "discovery"),
    ),
    "model": Kind(
        "model",
        "a model",
        JsonNumber("model/model.json"),
        lambda folder: LanguageModel.load(folder / "model"),
    ),
    "public model": Kind(
        "public model",
        "a public model",
        JsonNumber("public-model/public.json"),
        lambda folder: PublicModel.load(folder / "public-model"),
    ),
    "audit": Kind("audit", "an audit", JsonNumber("audit/audit.json"), load_audit),
    "series": Kind(
        "series",
        "a series",
        JsonNumber("weekly.series/series.json"),
        lambda folder: Series.open(folder / "weekly.series"),
    ),
    "ledger": Kind(
        "ledger",
        "a ledger",
        LedgerNumber("app.ledger"),
        lambda folder: Ledger.open(folder / "app.ledger").read(),
    ),
}


def read_table_of_numbers():
    page = VERSIONING_PAGE.read_text(encoding="utf-8")
    rows = re.findall(r"^\| ([a-z ]+?) +\| +(\d+) +\|", page, re.MULTILINE)
    return {kind: int(number) for kind, number in rows}


def test_the_page_about_versions_has_every_kind():
    assert read_table_of_numbers().keys() == {kind.row for kind in KINDS.values()}


@pytest.mark.parametrize("name", KINDS)
def test_what_is_written_states_its_number_and_is_read_again(files, name):
    kind = KINDS[name]
    number = kind.number.read(files)
    assert number == read_table_of_numbers()[kind.row]
    kind.load(files)
    kind.number.write(files, number)  # the file that the other tests change is read if it is right
    kind.load(files)


@pytest.mark.parametrize("name", KINDS)
@pytest.mark.parametrize("change", [-1, 1])
def test_another_number_is_refused_with_the_next_step(files, name, change):
    kind = KINDS[name]
    number = kind.number.read(files) + change
    kind.number.write(files, number)
    with pytest.raises(BayesgramError) as caught:
        kind.load(files)
    assert NEXT_STEP.search(str(caught.value)), str(caught.value)
    if change > 0:
        assert isinstance(caught.value, UsageError)
        still_counts = r"What was charged to it still counts: "
        step = still_counts if kind.row == "ledger" else r"Use a newer one\.$"
        assert re.search(
            rf": is {kind.noun} of format {number}; this bayesgram reads \d+\. {step}",
            str(caught.value),
        )


@pytest.mark.parametrize("name", KINDS)
@pytest.mark.parametrize("number", [0, MISSING, NONSENSE], ids=["0", "missing", "nonsense"])
def test_no_number_is_refused_with_the_next_step(files, name, number):
    kind = KINDS[name]
    if kind.row == "vocabulary" and number is MISSING:
        pytest.skip("a Parquet file that was made elsewhere may be a vocabulary, and has no number")
    kind.number.write(files, number)
    with pytest.raises(BayesgramError) as caught:
        kind.load(files)
    assert NEXT_STEP.search(str(caught.value)), str(caught.value)


def test_the_command_line_refuses_other_formats(files):
    KINDS["vocabulary"].number.write(files, 99)
    for command in ("count data/messages", "release counts --epsilon 1"):
        arguments = [*command.split(), "--vocab", "vocab.parquet", "-o", "out"]
        message = expect_failure(*arguments, cwd=files, code=2, secret="no secret")
        assert "vocab.parquet: is a vocabulary of format 99; this bayesgram reads 1." in message
        assert "Use a newer one." in message
