"""What a ledger notices: edits, flipped bytes, other files in its place."""

import random
import re
import shutil
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from bayesgram.errors import BayesgramError, UsageError
from bayesgram.privacy import ledger_io
from bayesgram.privacy.budget import Budget
from bayesgram.privacy.ledger import Ledger
from bayesgram.privacy.ledger_io import is_ledger, read_ledger
from helpers.ledger_files import SMALL_SPEND, edit_ledger


def test_tampering_with_nothing_is_not_noticed(used):
    edit_ledger(used.path, "SELECT 1")
    assert used.read().last_number == 5


LAST = "UPDATE header SET last_number = 4, last_hash = (SELECT hash FROM entries WHERE number = 4)"


@pytest.mark.parametrize(
    ("statements", "message"),
    [
        (["UPDATE entries SET pure_epsilon = '0.01' WHERE number = 3"], "entry 3 was changed"),
        (
            ["UPDATE entries SET time = '2020-01-01T00:00:00+00:00' WHERE number = 1"],
            "entry 1 was changed",
        ),
        (["UPDATE entries SET description = '{}' WHERE number = 4"], "entry 4 was changed"),
        (["UPDATE entries SET reservation = 3 WHERE number = 5"], "entry 5 was changed"),
        (["UPDATE entries SET kind = 'published' WHERE number = 3"], "entry 3 was changed"),
        (["UPDATE entries SET hash = 'x' WHERE number = 5"], "entry 5 was changed"),
        (["DELETE FROM entries WHERE number = 1"], "entry 1 is missing"),
        (["DELETE FROM entries WHERE number = 3"], "entry 3 is missing"),
        (["DELETE FROM entries WHERE number = 5"], "it should end with entry 5"),
        (["DELETE FROM entries"], "it should end with entry 5"),
        (
            [
                "DELETE FROM entries WHERE number = 3",
                "UPDATE entries SET number = number - 1 WHERE number > 3",
            ],
            "entry 3 was changed",
        ),
        (
            [
                "UPDATE entries SET number = 100 WHERE number = 1",
                "UPDATE entries SET number = 1 WHERE number = 2",
                "UPDATE entries SET number = 2 WHERE number = 100",
            ],
            "entry 1 was changed",
        ),
        (
            ["DELETE FROM entries WHERE number > 4", LAST, "UPDATE header SET last_number = 5"],
            "should end with entry 5",
        ),
        (["UPDATE header SET last_number = 6"], "it should end with entry 6"),
        (["UPDATE header SET epsilon = '10.0'"], "its header was changed"),
        (["UPDATE header SET delta = '0.1'"], "its header was changed"),
        (["UPDATE header SET population = 'others'"], "its header was changed"),
        (["UPDATE header SET genesis = 'x'"], "its header was changed"),
        (["DELETE FROM header"], "its header is missing"),
        (["CREATE TABLE more (x)"], "its tables were changed"),
        (
            ["CREATE TRIGGER t AFTER INSERT ON entries BEGIN DELETE FROM entries; END"],
            "its tables were changed",
        ),
        (["DROP TABLE entries"], "its tables were changed"),
        (["PRAGMA user_version = 0"], "it has no format"),
    ],
)
def test_edits_are_noticed_and_refused(used, statements, message):
    if "DROP TABLE entries" in statements:
        with sqlite3.connect(used.path) as connection:
            connection.execute("DROP TABLE entries")
        connection.close()
    else:
        edit_ledger(used.path, *statements)
    before = used.path.read_bytes()
    for refused in (
        lambda: Ledger.open(used.path),
        lambda: used.reserve(SMALL_SPEND, {}),
        lambda: used.complete(1),
    ):
        with pytest.raises(BayesgramError, match=message) as caught:
            refused()
        assert "edited or damaged and is refused" in str(caught.value)
    assert used.path.read_bytes() == before


def test_rows_can_not_be_edited_by_accident(used):
    connection = sqlite3.connect(used.path)
    for statement in ("UPDATE entries SET pure_epsilon = '0'", "DELETE FROM entries"):
        with pytest.raises(sqlite3.IntegrityError, match="append-only"):
            connection.execute(statement)
    connection.close()


def test_entries_of_another_ledger_are_noticed(used, tmp_path):
    other = Ledger.create(tmp_path / "b.ledger", population="app users", budget=Budget(1, 1e-6))
    other.reserve(SMALL_SPEND, {})
    edit_ledger(
        used.path,
        f"ATTACH '{other.path}' AS other",
        "DELETE FROM entries",
        "INSERT INTO entries SELECT * FROM other.entries",
        "UPDATE header SET last_number = 1, last_hash = (SELECT hash FROM entries)",
        "DETACH other",
    )
    with pytest.raises(BayesgramError, match="entry 1 was changed"):
        used.read()


def test_a_ledger_that_was_replaced_meanwhile_is_noticed(used, tmp_path):
    Ledger.create(
        tmp_path / "b.ledger", population="app users", budget=Budget(1, 1e-6)
    ).path.replace(used.path)
    with pytest.raises(BayesgramError, match="is another ledger than it was a moment ago"):
        used.reserve(SMALL_SPEND, {})


def test_flipped_and_missing_bytes_are_noticed(used, tmp_path):
    """Whatever is broken, either nothing that counts has changed or the file is refused; never another error."""
    whole, contents = used.path.read_bytes(), used.read()
    rng, copy, refused = random.Random(1), tmp_path / "copy", 0
    for _ in range(250):
        data = bytearray(whole)
        data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
        refused += not _same_or_refused(copy, bytes(data), contents)
    assert refused > 5  # most of the bytes are empty space
    text = [
        place
        for place in range(len(whole))
        if whole.startswith((b"out-3", b"0.05", b"app users"), place)
    ]
    assert text
    for place in text:
        data = bytearray(whole)
        data[place] ^= 1
        assert not _same_or_refused(copy, bytes(data), contents), place
    for length in [0, 1, 50, 100, 4096, 5000, 8192, len(whole) - 4096, len(whole) - 1]:
        assert not _same_or_refused(copy, whole[:length], contents), length


def _same_or_refused(copy, data, contents):
    copy.write_bytes(data)
    try:
        assert read_ledger(copy) == contents
    except BayesgramError:
        return False
    return True


@pytest.mark.parametrize(
    "data", [b"", b"hello, this is a text file\n" * 99, b"SQLite format 3\0" + bytes(100)]
)
def test_a_file_that_is_no_ledger(tmp_path, data):
    (tmp_path / "a").write_bytes(data)
    with pytest.raises(
        BayesgramError, match=r"a: (is not a ledger\.|this ledger was edited or damaged)"
    ):
        Ledger.open(tmp_path / "a")
    assert (tmp_path / "a").read_bytes() == data
    assert not is_ledger(tmp_path / "a")


def test_another_database_is_no_ledger(tmp_path):
    connection = sqlite3.connect(tmp_path / "a")
    connection.execute("CREATE TABLE entries (x)")
    connection.close()
    with pytest.raises(UsageError, match=r"a: is not a ledger\.$"):
        Ledger.open(tmp_path / "a")


OTHER_FORMAT = (
    r"app\.ledger: is a ledger of format {version}; this bayesgram reads 4\."
    r" What was charged to it still counts: go on with the version of bayesgram that made it, or make"
    r" a new ledger for the same people with `bayesgram ledger create`, whose budget is reduced by"
    r" what this one has spent \(`bayesgram docs ledger` or \S+/ledger\.html\)\.$"
)


@pytest.mark.parametrize("version", [1, 2, 3, 5])
def test_another_format_is_refused_and_what_it_spent_still_counts(used, version):
    edit_ledger(used.path, f"PRAGMA user_version = {version}")
    before = used.path.read_bytes()
    message = OTHER_FORMAT.format(version=version)
    with pytest.raises(UsageError, match=message):
        Ledger.open(used.path)
    with pytest.raises(UsageError, match=message):
        used.reserve(SMALL_SPEND, {})
    assert used.path.read_bytes() == before


def test_a_ledger_that_was_made_from_another_format_is_refused(used):
    """Drafts converted ledgers of older formats, whose headers keep the older number."""
    with closing(sqlite3.connect(used.path)) as connection, connection:
        connection.row_factory = sqlite3.Row
        header = dict(connection.execute("SELECT * FROM header").fetchone()) | {"format": 1}
        genesis = ledger_io.hash_row({name: header[name] for name in ledger_io.GENESIS_COLUMNS})
        connection.execute("UPDATE header SET format = 1, genesis = ?", (genesis,))
    with pytest.raises(UsageError, match=OTHER_FORMAT.format(version=1)):
        used.read()


def test_an_old_copy_of_the_whole_file_is_not_noticed(ledger, tmp_path):
    """docs/ledger.md says so; the last hash, written down elsewhere, shows it."""
    shutil.copy(ledger.path, tmp_path / "backup")
    ledger.reserve(SMALL_SPEND, {})
    kept = ledger.read().last_hash
    (tmp_path / "backup").replace(ledger.path)
    assert ledger.read().last_number == 0
    assert ledger.read().last_hash != kept


def test_the_program_in_the_docs_verifies_a_ledger(used):
    page = (Path(__file__).parents[2] / "docs" / "ledger.md").read_text(encoding="utf-8")
    (code,) = re.findall(r"```python\n(.*?)```", page, re.DOTALL)

    def verify():
        return subprocess.run(
            [sys.executable, "-c", code, used.path], capture_output=True, text=True, check=False
        )

    assert (verify().returncode, verify().stderr) == (0, "")
    edit_ledger(used.path, "UPDATE entries SET pure_epsilon = '0.01' WHERE number = 3")
    assert "AssertionError" in verify().stderr
