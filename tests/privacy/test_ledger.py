"""The ledger: what it allows, what it notices, and what it survives."""

import math
import os
import random
import re
import shutil
import sqlite3
import subprocess
import sys
from contextlib import closing
from fractions import Fraction
from pathlib import Path

import pytest

from bayesgram.errors import BayesgramError, UsageError
from bayesgram.privacy import ledger as module
from bayesgram.privacy import ledger_file, ledger_tables
from bayesgram.privacy.accounting import Allowance, Spend, composed_epsilon, fits
from bayesgram.privacy.budget import Budget
from bayesgram.privacy.calibration import calibrate_gaussian
from bayesgram.privacy.ledger import Ledger, is_ledger, read_ledger

SOME = Spend(pure_epsilon=0.05)
TENTH = Spend(pure_epsilon=0.1)


@pytest.fixture
def ledger(tmp_path):
    return Ledger.create(tmp_path / "app.ledger", population="app users", budget=Budget(1, 1e-6))


@pytest.fixture(scope="module")
def once(tmp_path_factory):
    """Four reservations, the second of them published: five entries."""
    path = tmp_path_factory.mktemp("once") / "app.ledger"
    ledger = Ledger.create(path, population="app users", budget=Budget(1, 1e-6))
    for number in range(1, 5):
        ledger.reserve(SOME, {"mechanism": "laplace", "output": f"out-{number}"})
    ledger.complete(2)
    return path


@pytest.fixture
def used(once, tmp_path):
    return Ledger.open(shutil.copy(once, tmp_path / "app.ledger"))


# What it allows


def test_a_new_ledger_is_empty_and_private(ledger):
    contents = ledger.read()
    assert (contents.population, contents.budget) == ("app users", Budget(1, 1e-6))
    assert (contents.reservations, contents.last_number, contents.spent_epsilon()) == ((), 0, 0)
    assert ledger.path.stat().st_mode & 0o777 == 0o600
    assert sorted(path.name for path in ledger.path.parent.iterdir()) == ["app.ledger", "app.ledger.lock"]
    assert is_ledger(ledger.path)


def test_reservations_add_up_until_the_budget_is_spent(tmp_path):
    """Ten tenths are one, exactly, and nothing more."""
    ledger = Ledger.create(tmp_path / "a.ledger", population="app users", budget=Budget(1))
    assert [ledger.reserve(TENTH, {}) for _ in range(10)] == list(range(1, 11))
    with pytest.raises(BayesgramError) as caught:
        ledger.reserve(Spend(pure_epsilon=1e-5), {})
    assert str(caught.value) == (
        "the budget of population 'app users' is ε = 1 at δ = 0; ε = 1 of it is spent, and with this release it would be"
        " ε = 1.001. Left: nothing. Nothing was reserved."
    )
    assert caught.value.exit_code == 1
    assert ledger.read().last_number == 10


def test_gaussian_releases_compose_better_than_their_sum(ledger):
    """20 releases of ε = 0.2 are worth 1, not 4; the refusal says what is left, and that fits."""
    noise = calibrate_gaussian(Budget(0.2, 1e-6), coordinates=50_000, units=1 << 30)
    spend = Spend.gaussian(noise.multiplier, total_variation=50_000 / (24 * (noise.multiplier * (1 << 30)) ** 2))
    count = 0
    with pytest.raises(BayesgramError, match=r"Left: about ε = 0\.\d+ for a Gaussian release at δ = 1e-06") as caught:
        while True:
            ledger.reserve(spend, {})
            count += 1
    assert count == 20
    left = float(str(caught.value).split("Left: about ε = ")[1].split()[0])
    assert 0 < left < 0.2
    smaller = calibrate_gaussian(Budget(left, 1e-6), coordinates=50_000, units=1 << 30)
    ledger.reserve(Spend.gaussian(smaller.multiplier, total_variation=spend.total_variation), {})
    assert 0.999 < ledger.read().spent_epsilon() <= 1


@pytest.mark.parametrize(("epsilon", "delta"), [(0.1, 1e-7), (1.0, 1e-6), (1 / 3, 1e-9), (20.0, 1e-6)])
def test_a_release_of_everything_fits_an_empty_ledger_once(tmp_path, epsilon, delta):
    budget = Budget(epsilon, delta)
    ledger = Ledger.create(tmp_path / "a.ledger", population="p", budget=budget)
    noise = calibrate_gaussian(budget, coordinates=50_000, units=1 << 30)
    spend = Spend.gaussian(noise.multiplier, total_variation=50_000 / (24 * (noise.multiplier * (1 << 30)) ** 2))
    assert ledger.reserve(spend, {}) == 1
    with pytest.raises(BayesgramError, match="Nothing was reserved"):
        ledger.reserve(Spend.gaussian(noise.multiplier * 10), {})


def test_a_refusal_says_what_a_pure_release_costs(ledger):
    with pytest.raises(BayesgramError) as caught:
        ledger.reserve(Spend(pure_epsilon=0.5), {})
    assert str(caught.value) == (
        "the budget of population 'app users' is ε = 1 at δ = 1e-06; ε = 0 of it is spent, and with this release it would be"
        " ε = 2.878. Left: about ε = 1 for a Gaussian release at δ = 1e-06, or 0.188 for a pure-ε one. Nothing was reserved."
        " A ledger of δ > 0 charges a pure-ε release as Gaussian DP: ε = 0.5 costs μ = 0.624, and the whole budget is"
        " μ = 0.237. posterior and gaussian cost what their ε says; a ledger of δ = 0 adds up ε (docs/ledger.md)."
    )
    assert ledger.read().last_number == 0


def test_gaussian_noise_can_not_be_charged_where_delta_is_zero(tmp_path):
    ledger = Ledger.create(tmp_path / "a.ledger", population="p", budget=Budget(1))
    with pytest.raises(
        BayesgramError,
        match=r"no ε would be enough at this δ\. Left: ε = 1 for a pure-ε release \(as δ = 0, nothing else fits\)",
    ):
        ledger.reserve(Spend.gaussian(1e6), {})


def test_a_reservation_stays_spent_and_is_told_from_a_published_one(used):
    contents = read_ledger(used.path)
    assert [(entry.number, entry.published) for entry in contents.reservations] == [
        (1, False),
        (2, True),
        (3, False),
        (4, False),
    ]
    assert contents.reservations[2].description == {"mechanism": "laplace", "output": "out-3"}
    assert contents.last_number == 5
    assert contents.spent_epsilon() == composed_epsilon([SOME] * 4, 1e-6)


@pytest.mark.parametrize(
    ("number", "message"), [(2, "marked as published already"), (5, "no reservation"), (9, "no reser")]
)
def test_only_an_open_reservation_can_be_completed(used, number, message):
    with pytest.raises(UsageError, match=message):
        used.complete(number)
    assert used.read().last_number == 5


def test_a_spend_is_kept_to_its_last_digit(ledger):
    spend = Spend(1 / 300, (0.1 + 0.2) / 3, 1e-17 / 3, 1e-7 / 3)
    ledger.reserve(spend, {})
    assert read_ledger(ledger.path).spends == [spend]


@pytest.mark.parametrize("description", [{"x": float("nan")}, {"x": object()}, {"x": "y" * 10_001}])
def test_descriptions_are_short_json(ledger, description):
    with pytest.raises(UsageError, match=r"^description: "):
        ledger.reserve(SOME, description)
    assert ledger.read().last_number == 0


@pytest.mark.parametrize("name", ["", " ", "a\n", "a\x1b[2J", "x" * 201, " a", "a\u202e", "\ud800"])
def test_bad_population_names(tmp_path, name):
    with pytest.raises(UsageError, match=r"^population=.* a name has 1 to 200 printable characters") as caught:
        Ledger.create(tmp_path / "a.ledger", population=name, budget=Budget(1))
    assert str(caught.value).isprintable()
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("name", ["p", "x" * 200, "Nutzer der App – Zürich, 2025", "用户"])
def test_good_population_names(tmp_path, name):
    Ledger.create(tmp_path / "a.ledger", population=name, budget=Budget(1))
    assert read_ledger(tmp_path / "a.ledger").population == name


# What it notices


def tamper(path, *statements):
    """Edit the file with SQL, past the triggers, leaving the tables as they were."""
    names = [line.split()[2] for line in ledger_tables.TRIGGERS]
    connection = sqlite3.connect(path)
    connection.executescript(
        ";".join([*(f"DROP TRIGGER {name}" for name in names), *statements, *ledger_tables.TRIGGERS]) + ";"
    )
    connection.close()


def test_tampering_with_nothing_is_not_noticed(used):
    tamper(used.path, "SELECT 1")
    assert used.read().last_number == 5


LAST = "UPDATE header SET last_number = 4, last_hash = (SELECT hash FROM entries WHERE number = 4)"


@pytest.mark.parametrize(
    ("statements", "message"),
    [
        (["UPDATE entries SET pure_epsilon = '0.01' WHERE number = 3"], "entry 3 was changed"),
        (["UPDATE entries SET time = '2020-01-01T00:00:00+00:00' WHERE number = 1"], "entry 1 was changed"),
        (["UPDATE entries SET description = '{}' WHERE number = 4"], "entry 4 was changed"),
        (["UPDATE entries SET reservation = 3 WHERE number = 5"], "entry 5 was changed"),
        (["UPDATE entries SET kind = 'published' WHERE number = 3"], "entry 3 was changed"),
        (["UPDATE entries SET hash = 'x' WHERE number = 5"], "entry 5 was changed"),
        (["DELETE FROM entries WHERE number = 1"], "entry 1 is missing"),
        (["DELETE FROM entries WHERE number = 3"], "entry 3 is missing"),
        (["DELETE FROM entries WHERE number = 5"], "it should end with entry 5"),
        (["DELETE FROM entries"], "it should end with entry 5"),
        (
            ["DELETE FROM entries WHERE number = 3", "UPDATE entries SET number = number - 1 WHERE number > 3"],
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
        (["CREATE TRIGGER t AFTER INSERT ON entries BEGIN DELETE FROM entries; END"], "its tables were changed"),
        (["DROP TABLE entries"], "its tables were changed"),
        (["PRAGMA user_version = 0"], "it has no format"),
        (["PRAGMA user_version = 1"], "its tables were changed"),
    ],
)
def test_edits_are_noticed_and_refused(used, statements, message):
    if "DROP TABLE entries" in statements:
        with sqlite3.connect(used.path) as connection:
            connection.execute("DROP TABLE entries")
        connection.close()
    else:
        tamper(used.path, *statements)
    before = used.path.read_bytes()
    for refused in (lambda: Ledger.open(used.path), lambda: used.reserve(SOME, {}), lambda: used.complete(1)):
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
    other.reserve(SOME, {})
    tamper(
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
    Ledger.create(tmp_path / "b.ledger", population="app users", budget=Budget(1, 1e-6)).path.replace(used.path)
    with pytest.raises(BayesgramError, match="is another ledger than it was a moment ago"):
        used.reserve(SOME, {})


def test_flipped_and_missing_bytes_are_noticed(used, tmp_path):
    """Whatever is broken, either nothing that counts has changed or the file is refused; never another error."""
    whole, contents = used.path.read_bytes(), used.read()
    rng, copy, refused = random.Random(1), tmp_path / "copy", 0
    for _ in range(250):
        data = bytearray(whole)
        data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
        refused += not _same_or_refused(copy, bytes(data), contents)
    assert refused > 5  # most of the bytes are empty space
    text = [place for place in range(len(whole)) if whole.startswith((b"out-3", b"0.05", b"app users"), place)]
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


@pytest.mark.parametrize("data", [b"", b"hello, this is a text file\n" * 99, b"SQLite format 3\0" + bytes(100)])
def test_a_file_that_is_no_ledger(tmp_path, data):
    (tmp_path / "a").write_bytes(data)
    with pytest.raises(BayesgramError, match=r"a: (is not a ledger\.|this ledger was edited or damaged)"):
        Ledger.open(tmp_path / "a")
    assert (tmp_path / "a").read_bytes() == data
    assert not is_ledger(tmp_path / "a")


def test_another_database_is_no_ledger(tmp_path):
    connection = sqlite3.connect(tmp_path / "a")
    connection.execute("CREATE TABLE entries (x)")
    connection.close()
    with pytest.raises(UsageError, match=r"a: is not a ledger\.$"):
        Ledger.open(tmp_path / "a")


def test_a_newer_format_is_refused(used):
    tamper(used.path, "PRAGMA user_version = 4")
    with pytest.raises(UsageError, match=r"is a ledger of format 4; this bayesgram reads 3\. Use a newer one\.$"):
        used.reserve(SOME, {})


def test_an_old_copy_of_the_whole_file_is_not_noticed(ledger, tmp_path):
    """docs/ledger.md says so; the last hash, written down elsewhere, shows it."""
    shutil.copy(ledger.path, tmp_path / "backup")
    ledger.reserve(SOME, {})
    kept = ledger.read().last_hash
    (tmp_path / "backup").replace(ledger.path)
    assert ledger.read().last_number == 0
    assert ledger.read().last_hash != kept


@pytest.mark.parametrize("version", [1, 2, 3, "converted"])
def test_the_program_in_the_docs_verifies_a_ledger(used, version):
    page = (Path(__file__).parents[2] / "docs" / "ledger.md").read_text(encoding="utf-8")
    (code,) = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    if version != 3:
        as_format(1 if version == 1 else 2, used.path)
    if version == "converted":
        used = Ledger.open(used.path)
        used.reserve(SOME, {})
        assert (used.read().format, used.read().made_with) == (3, 2)

    def verify():
        return subprocess.run([sys.executable, "-c", code, used.path], capture_output=True, text=True, check=False)

    assert (verify().returncode, verify().stderr) == (0, "")
    tamper(used.path, "UPDATE entries SET pure_epsilon = '0.01' WHERE number = 3")
    assert "AssertionError" in verify().stderr


# Files


def test_a_ledger_is_never_made_over_something(used):
    before = used.path.read_bytes()
    with pytest.raises(UsageError, match="exists already, and a ledger is never replaced"):
        Ledger.create(used.path, population="p", budget=Budget(1))
    link = used.path.parent / "link"
    link.symlink_to("nowhere")
    with pytest.raises(UsageError, match="exists already"):
        Ledger.create(link, population="p", budget=Budget(1))
    assert used.path.read_bytes() == before


def test_missing_things(tmp_path):
    with pytest.raises(UsageError, match=r"the folder .*/none does not exist; make it first\.$"):
        Ledger.create(tmp_path / "none" / "a.ledger", population="p", budget=Budget(1))
    with pytest.raises(
        UsageError, match=r"can't be opened \(No such file or directory\); make it with: bayesgram ledger"
    ):
        Ledger.open(tmp_path / "a.ledger")
    with pytest.raises(UsageError, match=r"is not a file; a ledger is one\.$"):
        Ledger.open(tmp_path)
    with pytest.raises(UsageError, match=r"can't be written there"):
        Ledger.create("/proc/a.ledger", population="p", budget=Budget(1))
    assert not list(tmp_path.iterdir())


def test_odd_paths(tmp_path):
    path = tmp_path / "50% of #1? é &mode=memory.ledger"
    Ledger.create(path, population="p", budget=Budget(1)).reserve(SOME, {})
    assert read_ledger(path).last_number == 1
    assert sorted(entry.name for entry in tmp_path.iterdir()) == [path.name, f"{path.name}.lock"]


def test_hard_links_are_refused_and_symbolic_ones_followed(used):
    link = used.path.parent / "link"
    link.symlink_to(used.path.name)
    assert Ledger.open(link).reserve(SOME, {}) == 6
    (used.path.parent / "hard").hardlink_to(used.path)
    with pytest.raises(UsageError, match=r"has 2 names \(hard links\), which breaks SQLite; keep one of them\.$"):
        used.reserve(SOME, {})


def test_a_ledger_in_wal_mode_goes_back_to_one_file(used):
    connection = sqlite3.connect(used.path)
    connection.execute("PRAGMA journal_mode = WAL")
    connection.close()
    used.reserve(SOME, {})
    assert sorted(path.name for path in used.path.parent.iterdir()) == ["app.ledger", "app.ledger.lock"]
    assert used.read().last_number == 6


def test_a_busy_ledger_is_waited_for_and_then_given_up(used, monkeypatch):
    monkeypatch.setattr(ledger_file, "WAIT", 0.2)
    other = sqlite3.connect(used.path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    with pytest.raises(BayesgramError, match=r"another process has been writing for 0\.2 s; wait for it"):
        used.reserve(SOME, {})
    assert used.read().last_number == 5  # reading goes on
    other.execute("ROLLBACK")
    other.close()
    assert used.reserve(SOME, {}) == 6


def test_a_full_disk_reserves_nothing(used, monkeypatch):
    connected = sqlite3.connect

    def small(*arguments, **options):
        connection = connected(*arguments, **options)
        (pages,) = connection.execute("PRAGMA page_count").fetchone()
        connection.execute(f"PRAGMA max_page_count = {pages}")
        return connection

    monkeypatch.setattr(module, "check_format", lambda *_: ledger_tables.FORMAT)  # it makes a database of its own
    monkeypatch.setattr(ledger_file.sqlite3, "connect", small)
    with pytest.raises(BayesgramError, match=r"could not be read or written \(database or disk is full\)"):
        used.reserve(SOME, {"x": "y" * 9000})
    monkeypatch.undo()
    assert used.read().last_number == 5


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to become somebody else")
@pytest.mark.parametrize("folder_mode", [0o755, 0o777])
def test_who_may_only_read_can_show_but_not_reserve(used, folder_mode, tmp_path_factory):
    folder = Path("/tmp") / f"ledger-test-{os.getpid()}-{folder_mode:o}"
    folder.mkdir()
    try:
        shutil.copy(used.path, folder / "app.ledger")
        (folder / "app.ledger").chmod(0o644)
        folder.chmod(folder_mode)
        code = """if True:
            import os, sys
            import scipy.special  # while the folder of Python's packages may be read
            from bayesgram.privacy.ledger import *
            os.setuid(65534)
            ledger = Ledger.open(sys.argv[1])
            print(ledger.read().last_number)
            try:
                ledger.reserve(Spend(pure_epsilon=0.1), {})
            except UsageError as error:
                print(error)
        """
        done = subprocess.run(
            [sys.executable, "-c", code, folder / "app.ledger"], capture_output=True, text=True, check=True
        )
        assert done.stdout.startswith("5\n")
        assert "app.ledger: can't be opened for writing (" in done.stdout
        assert "whoever makes releases must be able to write the ledger and its folder." in done.stdout
        assert read_ledger(folder / "app.ledger").last_number == 5
    finally:
        shutil.rmtree(folder)


# Formats


def as_format(version, path):
    """What was written then: the tables of that format, and a header and entries hashed under it."""
    connection = sqlite3.connect(path, isolation_level=None)
    connection.row_factory = sqlite3.Row
    header = dict(connection.execute("SELECT * FROM header").fetchone())
    rows = [dict(row) for row in connection.execute("SELECT * FROM entries ORDER BY number")]
    connection.close()
    header["format"] = version
    header["genesis"] = header["last_hash"] = ledger_tables.hash_of(
        {name: header[name] for name in ledger_tables.GENESIS_COLUMNS}
    )
    for row in rows:
        assert row.pop("failure") in {None, "0.0"}
        row["previous"] = header["last_hash"]
        row["hash"] = header["last_hash"] = ledger_tables.hash_of({k: v for k, v in row.items() if k != "hash"})
    path.unlink()
    with closing(ledger_tables.new_database(version)) as made:
        ledger_tables.insert(made, "header", header)
        for row in rows:
            ledger_tables.insert(made, "entries", row)
        path.write_bytes(made.serialize())
    return Ledger.open(path)


OLD_NOTES = {
    1: "made with format 1, whose rule did not cover releases chosen after seeing earlier ones; ",
    2: "made with format 2, which has no place for the failure probability of a discovery; ",
}


@pytest.fixture(params=[1, 2])
def old(used, request):
    return as_format(request.param, used.path)


def test_a_ledger_of_an_older_format_is_read_as_it_is(old):
    before = old.path.read_bytes()
    contents = old.read()
    assert contents.format == contents.made_with
    assert (contents.converted, contents.last_number) == (None, 5)
    assert contents.note == OLD_NOTES[contents.format] + "it is converted when something is charged to it."
    assert contents.spends == [SOME] * 4
    assert contents.spent_epsilon() == composed_epsilon([SOME] * 4, 1e-6)
    assert old.path.read_bytes() == before


def test_it_is_converted_with_a_note_when_it_is_charged(old, caplog):
    before = old.read()
    hashes = [entry.hash for entry in before.reservations]
    caplog.set_level("INFO", "bayesgram")
    assert old.reserve(SOME, {"output": "out-5"}) == 7
    contents = old.read()
    assert (contents.format, contents.converted, contents.last_number) == (3, 6, 7)
    assert [entry.hash for entry in contents.reservations][:4] == hashes  # every entry stays what it was
    assert contents.reservations[1].published
    assert contents.note == OLD_NOTES[before.format] + "entry 6 notes its conversion."
    assert [record.message for record in caplog.records] == [f"note: {old.path}: {contents.note}"]
    assert old.reserve(SOME, {}) == 8  # once
    with pytest.raises(sqlite3.IntegrityError, match="append-only"), closing(sqlite3.connect(old.path)) as connection:
        connection.execute("DELETE FROM entries")
    connection = sqlite3.connect(old.path)
    assert connection.execute("PRAGMA user_version").fetchone() == (3,)  # older versions refuse it
    noted = connection.execute("SELECT description FROM entries WHERE kind = 'converted'").fetchall()
    assert noted == [(f'{{"from_format":{before.format},"to_format":3}}',)]
    connection.close()


def test_completing_converts_too(old):
    old.complete(1)
    assert old.read().converted == 6
    assert old.read().reservations[0].published


def test_a_ledger_that_was_converted_before_is_converted_again(used):
    """From format 1 to 2 by an earlier version, with its note, and now to 3 with another."""
    used.path.write_bytes(_converted_to_2(as_format(1, used.path)))
    twice = Ledger.open(used.path)
    note = twice.read().note
    assert (twice.read().format, twice.read().made_with, twice.read().converted) == (2, 1, 6)
    hashes = [entry.hash for entry in twice.read().reservations]
    assert twice.reserve(SOME, {}) == 8
    assert (twice.read().format, twice.read().converted, twice.read().note) == (3, 6, note)
    assert [entry.hash for entry in twice.read().reservations][:4] == hashes


def _converted_to_2(old):
    """The bytes after the conversion of 1 to 2, which added a kind of entries and a note of that kind."""
    contents, copy = old.read(), old.path.with_name("copy")
    with closing(sqlite3.connect(old.path)) as before, closing(ledger_tables.new_database(2)) as after:
        for table in ("header", "entries"):
            before.row_factory = sqlite3.Row
            for row in before.execute(f"SELECT * FROM {table}").fetchall():
                ledger_tables.insert(after, table, dict(row))
        note = {"number": 6, "time": "2026-01-01T00:00:00+00:00", "kind": "converted", "reservation": None}
        note |= {"inverse_variance": "0.0", "pure_epsilon": "0.0", "total_variation": "0.0"}
        note |= {"description": '{"from_format":1,"to_format":2}', "previous": contents.last_hash}
        note["hash"] = ledger_tables.hash_of(note)
        ledger_tables.insert(after, "entries", note)
        after.execute("UPDATE header SET last_number = 6, last_hash = ?", (note["hash"],))
        copy.write_bytes(after.serialize())
    return copy.read_bytes()


def test_what_the_old_rule_allowed_too_much_is_said(tmp_path, caplog):
    """Ten times ε = 0.1 was exactly a budget of 1."""
    ledger = Ledger.create(tmp_path / "a.ledger", population="p", budget=Budget(1, 0.5))
    for _ in range(10):
        ledger.reserve(TENTH, {})
    with closing(sqlite3.connect(ledger.path)) as connection:
        for name in ("entries_are_not_edited", "entries_are_not_removed"):
            connection.execute(f"DROP TRIGGER {name}")
        connection.execute("UPDATE header SET delta = '1e-06'")
        connection.commit()
    old = as_format(1, ledger.path)
    caplog.set_level("INFO", "bayesgram")
    with pytest.raises(BayesgramError, match=r"ε = 1\.748 of it is spent, and with this release"):
        old.reserve(SOME, {})
    contents = old.read()
    assert contents.note.endswith(
        "What was reserved under the old rule is together ε = 1.748 by the new one, more than its budget: nothing more can"
        " be charged."
    )
    assert contents.left() == "nothing"


@pytest.mark.parametrize("statement", ["UPDATE entries SET pure_epsilon = '0' WHERE number = 2", "DROP TABLE entries"])
def test_a_damaged_ledger_of_an_older_format_is_not_converted(old, statement):
    tamper(old.path, statement) if "UPDATE" in statement else _run(old.path, statement)
    before = old.path.read_bytes()
    with pytest.raises(BayesgramError, match="edited or damaged and is refused"):
        old.reserve(SOME, {})
    assert old.path.read_bytes() == before


def _run(path, statement):
    with closing(sqlite3.connect(path)) as connection:
        connection.execute(statement)


KILLED_CONVERSION = """if True:
    import os, signal, sqlite3, sys
    from pathlib import Path
    from bayesgram.privacy import ledger_file
    from bayesgram.privacy.ledger import Ledger, Spend

    class Doomed(sqlite3.Connection):
        left = None

        def execute(self, command, *more):
            if command.startswith("DROP TRIGGER entries_are_not_edited"):
                super().execute("PRAGMA cache_size = 1")  # so that half of it is on disk
                self.left = statements
            if self.left == 0:
                os.kill(os.getpid(), signal.SIGKILL)
            self.left = None if self.left is None else self.left - 1
            return super().execute(command, *more)

    connect, path = sqlite3.connect, Path(sys.argv[1])
    ledger_file.sqlite3.connect = lambda *given, **more: connect(*given, **{"factory": Doomed, **more})
    before = path.read_bytes()
    for statements in range(99):
        child = os.fork()
        if not child:
            Ledger.open(path).reserve(Spend(pure_epsilon=0.05), {})
            os._exit(0)
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        halfway = os.path.exists(sys.argv[1] + "-journal")
        contents = Ledger.open(path).read()
        print(code, halfway, contents.format, contents.last_number, path.read_bytes() == before)
        if code == 0:
            break
"""


def test_a_conversion_that_is_killed_did_not_happen(old):
    """Before any of its statements: the next one to come finds the ledger as it was, and at last converts it."""
    version = old.read().format
    command = [sys.executable, "-c", KILLED_CONVERSION, old.path]
    lines = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60).stdout.splitlines()
    *killed, last = [line.split() for line in lines]
    assert last == ["0", "False", "3", "7", "False"]
    assert len(killed) > 12
    assert {(code, *after) for code, _, *after in killed} == {("-9", str(version), "5", "True")}
    assert sum(halfway == "True" for _, halfway, *_ in killed) > 5


def test_a_header_of_a_format_that_was_not_there_is_refused(used):
    as_format(2, used.path)
    with closing(sqlite3.connect(used.path)) as connection, connection:
        connection.row_factory = sqlite3.Row
        header = dict(connection.execute("SELECT * FROM header").fetchone()) | {"format": 3}
        genesis = ledger_tables.hash_of({name: header[name] for name in ledger_tables.GENESIS_COLUMNS})
        connection.execute("UPDATE header SET format = 3, genesis = ?", (genesis,))
    with pytest.raises(BayesgramError, match="its header has another format"):
        used.read()


# Discoveries: a failure probability beside the noise


FOUND = Spend.gaussian(40.0, total_variation=1e-20, failure=1e-7)


def test_a_ledger_that_begins_with_a_discovery_sets_a_quarter_of_its_delta_aside(ledger):
    assert ledger.check_discovery() == Allowance.of(1.0, 1e-6, failures=True)
    assert ledger.reserve(FOUND, {"mechanism": "discover"}) == 1
    ledger.reserve(Spend.gaussian(50.0), {})
    assert ledger.reserve(FOUND, {}) == 3
    contents = ledger.read()
    assert contents.spends == [FOUND, Spend.gaussian(50.0), FOUND]
    assert contents.spent_failure() == 2e-7
    left = ledger.check_discovery()
    assert left == contents.left_for_discovery()
    assert left.failure == float(Fraction(2.5e-7) - Fraction(2e-7))
    with pytest.raises(BayesgramError) as caught:
        ledger.reserve(FOUND, {})
    assert str(caught.value) == (
        "the budget of population 'app users' has no room for this discovery: discoveries may fail with probability 2.5e-07"
        " together (a quarter of its δ), 2e-07 of that is spent, and this one asks for 1e-07: give it a smaller δ. Nothing"
        " was reserved."
    )
    assert ledger.reserve(Spend.gaussian(1 / math.sqrt(left.mu_squared * 0.5), failure=left.failure), {}) == 4
    with pytest.raises(BayesgramError, match=r"2\.5e-07 of that is spent, and none is left\. Nothing was"):
        ledger.check_discovery()
    ledger.reserve(Spend.gaussian(50.0), {})  # noise goes on


def test_what_is_left_for_a_discovery_can_be_charged_whole_and_no_more(ledger):
    ledger.reserve(FOUND, {})
    left = ledger.check_discovery()
    ledger.reserve(Spend(left.mu_squared, 0.0, left.total_variation, left.failure), {})
    with pytest.raises(
        BayesgramError, match=r"Nothing was reserved\. As its first entry is a discovery, a quarter of δ"
    ):
        ledger.reserve(Spend(1e-12), {})
    assert ledger.read().left() == "nothing"


def test_a_discovery_is_refused_where_the_first_entry_was_none_and_nothing_is_stored(used):
    before = used.path.read_bytes()
    for refused in (used.check_discovery, lambda: used.reserve(FOUND, {})):
        with pytest.raises(BayesgramError) as caught:
            refused()
        assert str(caught.value) == (
            "the budget of population 'app users' has no room for this discovery: its first entry was no discovery, so all"
            " of its δ belongs to noise and none was set aside for the chance that a discovery publishes what only one"
            " person wrote. Go on without a discovery, or charge it to a new ledger before anything else; if that is for"
            " the same people, what both ledgers spend adds up. Nothing was reserved."
        )
        assert caught.value.exit_code == 1
    assert used.path.read_bytes() == before
    assert (used.read().last_number, used.read().spends) == (5, [SOME] * 4)


def test_it_is_refused_also_where_somebody_else_came_first(ledger):
    assert ledger.check_discovery().failure == 2.5e-7
    Ledger.open(ledger.path).reserve(SOME, {})
    with pytest.raises(BayesgramError, match="its first entry was no discovery"):
        ledger.reserve(FOUND, {})
    assert ledger.read().spends == [SOME]


def test_it_is_refused_where_delta_is_zero_or_nothing_is_left_for_noise(tmp_path, ledger):
    pure = Ledger.create(tmp_path / "a.ledger", population="p", budget=Budget(1))
    for refused in (pure.check_discovery, lambda: pure.reserve(FOUND, {})):
        with pytest.raises(BayesgramError, match=r"it has δ = 0, and a discovery needs a δ\. Use a ledger of δ > 0\."):
            refused()
    ledger.reserve(Spend(ledger.check_discovery().mu_squared, failure=1e-9), {})
    with pytest.raises(BayesgramError, match=r"nothing of it is left for noise\. Nothing was reserved\."):
        ledger.check_discovery()


def test_the_whole_budget_as_noise_is_too_much_for_a_discovery(ledger):
    """Where nothing may fail it fits to the last digit; a quarter of δ is 1.4% of σ."""
    whole = Allowance.of(1.0, 1e-6).mu_squared
    with pytest.raises(BayesgramError, match=r"would be ε = 1\.015.*noise has δ = 7\.5e-07 \(docs/ledger\.md\)\.$"):
        ledger.reserve(Spend(whole, failure=1e-9), {})
    assert ledger.reserve(Spend(whole), {}) == 1


def test_a_converted_ledger_keeps_the_choice_of_its_first_entry(old, tmp_path):
    with pytest.raises(BayesgramError, match="its first entry was no discovery"):
        old.reserve(FOUND, {})
    assert old.read().spends == [SOME] * 4


@pytest.mark.parametrize("version", [1, 2])
def test_an_empty_ledger_of_an_older_format_takes_a_discovery(ledger, version):
    old = as_format(version, ledger.path)
    assert old.check_discovery().failure == 2.5e-7
    assert old.reserve(FOUND, {}) == 2
    assert old.read().spends == [FOUND]


@pytest.mark.parametrize("failure", ["'0.0'", "NULL", "'1e-08'"])
def test_an_edited_failure_is_noticed(ledger, failure):
    ledger.reserve(FOUND, {})
    tamper(ledger.path, f"UPDATE entries SET failure = {failure}")
    with pytest.raises(BayesgramError, match="entry 1 was changed"):
        ledger.read()


@pytest.mark.parametrize("failure", ["'0.0'", "'1e-08'"])
def test_so_is_one_of_an_entry_that_is_older_than_the_column(old, failure):
    old.complete(1)
    tamper(old.path, f"UPDATE entries SET failure = {failure} WHERE number = 2")
    with pytest.raises(BayesgramError, match="entry 2 was changed"):
        old.read()


# Many threads and processes


def test_threads_of_one_process_never_overspend_whatever_else_they_do_with_the_file(ledger):
    """POSIX drops SQLite's locks when any thread closes the file, which the last of these do all the time."""
    code = """if True:
        import shutil, sys, threading
        from bayesgram.errors import BayesgramError
        from bayesgram.privacy.ledger import Ledger, Spend, is_ledger

        path, done = sys.argv[1], threading.Event()

        def reserve():
            for _ in range(20):
                try:
                    print(Ledger.open(path).reserve(Spend.gaussian(20.0), {}), flush=True)
                except BayesgramError as error:
                    if "Nothing was reserved" not in str(error):
                        print("failed", error, flush=True)

        def meddle():
            while not done.is_set():
                is_ledger(Ledger.open(path).path)
                open(path, "rb").close()
                shutil.copy(path, path + ".copy")

        workers = [threading.Thread(target=reserve) for _ in range(3)]
        others = [threading.Thread(target=meddle) for _ in range(2)]
        [thread.start() for thread in workers + others]
        [thread.join() for thread in workers]
        done.set()
    """
    started = [
        subprocess.Popen([sys.executable, "-c", code, ledger.path], stdout=subprocess.PIPE, text=True) for _ in range(2)
    ]
    numbers = [int(line) for process in started for line in process.communicate(timeout=60)[0].splitlines()]
    room = next(n for n in range(99) if not fits([Spend.gaussian(20.0)] * (n + 1), ledger.budget))
    assert sorted(numbers) == list(range(1, room + 1))
    assert read_ledger(ledger.path).last_number == room


def test_the_lock_is_open_to_whoever_may_write_the_ledger(used):
    used.path.chmod(0o660)
    used.reserve(SOME, {})
    lock = used.path.with_name("app.ledger.lock")
    assert lock.stat().st_mode & 0o777 == 0o660
    assert lock.read_bytes() == b""
    assert not is_ledger(lock)


def test_a_lock_that_is_a_link_is_refused(used, tmp_path):
    (tmp_path / "elsewhere").write_text("mine")
    used.path.with_name("app.ledger.lock").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(UsageError, match=r"can't be opened for writing \(app\.ledger\.lock: Too many levels"):
        used.reserve(SOME, {})


def test_a_lock_that_is_held_is_waited_for_and_then_given_up(used, monkeypatch):
    monkeypatch.setattr(ledger_file, "WAIT", 0.1)
    for refused in (lambda: used.reserve(SOME, {}), used.read):
        with (
            ledger_file.locked(used.path, alone=True),
            pytest.raises(BayesgramError, match=r"writing for 0\.1 s; wait for it"),
        ):
            refused()
    with ledger_file.locked(used.path, alone=False):
        assert used.read().last_number == 5  # readers read together
    assert used.reserve(SOME, {}) == 6


CHILDREN = """if True:
    import os, random, signal, sys, time
    from bayesgram.errors import BayesgramError
    from bayesgram.privacy.ledger import Ledger, Spend

    def fork(work):
        child = os.fork()
        if child:
            return child
        try:
            work()
        finally:
            os._exit(3)
"""

RACE = (
    CHILDREN
    + """
    def reserve():
        start.read(1)  # until everybody is there
        try:
            number = Ledger.open(sys.argv[1]).reserve(Spend.gaussian(40.0), {"process": os.getpid()})
        except BayesgramError as error:
            os._exit(7 if "Nothing was reserved" in str(error) else 4)
        print(number, flush=True)
        os._exit(0)

    read, write = os.pipe()
    start = open(read, "rb", buffering=0)
    children = [fork(reserve) for _ in range(50)]
    os.write(write, bytes(50))
    print("codes", *[os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children])
"""
)


def test_fifty_processes_never_overspend(ledger):
    """Room for 7: exactly 7 of 50 get it, each its own number, and the chain is whole."""
    ledger.reserve(Spend.gaussian(4.5), {})
    room = next(
        n for n in range(60) if composed_epsilon([Spend.gaussian(4.5), *[Spend.gaussian(40.0)] * (n + 1)], 1e-6) > 1
    )
    assert 2 < room < 50
    done = subprocess.run(
        [sys.executable, "-c", RACE, ledger.path], capture_output=True, text=True, check=True, timeout=60
    )
    *numbers, codes = done.stdout.splitlines()
    assert sorted(codes.split()[1:]) == ["0"] * room + ["7"] * (50 - room), done.stderr
    assert sorted(map(int, numbers)) == list(range(2, room + 2))
    contents = read_ledger(ledger.path)
    assert contents.last_number == room + 1
    assert contents.spent_epsilon() <= 1
    assert len({entry.description["process"] for entry in contents.reservations[1:]}) == room


KILL = (
    CHILDREN
    + """
    random.seed(int(sys.argv[2]))

    def reserve():
        while True:
            number = Ledger.open(sys.argv[1]).reserve(Spend(pure_epsilon=1e-5), {"process": os.getpid()})
            os.write(write, b"%d %d\\n" % (number, os.getpid()))  # the noise would be drawn now

    read, write = os.pipe()
    halfway, start = 0, time.monotonic()
    Ledger.open(sys.argv[1]).reserve(Spend(pure_epsilon=1e-5), {"process": os.getpid()})
    once = max(time.monotonic() - start, 0.005)  # longer on a busy machine
    for _ in range(50):
        children = [fork(reserve) for _ in range(2)]
        time.sleep(random.uniform(0.3, 4) * once)
        for child in children:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
        halfway += os.path.exists(sys.argv[1] + "-journal")
        Ledger.open(sys.argv[1])
    os.close(write)
    print(halfway, flush=True)
    with open(read) as told:
        sys.stdout.write(told.read())
"""
)


def test_killed_processes_leave_every_reported_reservation(tmp_path):
    """100 processes killed at random instants; after each pair the ledger opens, and nothing that was told is lost."""
    ledger = Ledger.create(tmp_path / "app.ledger", population="p", budget=Budget(100))
    command = [sys.executable, "-c", KILL, ledger.path, "1"]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
    halfway, *lines = done.stdout.splitlines()
    told = [tuple(map(int, line.split())) for line in lines]
    recorded = {entry.number: entry.description["process"] for entry in read_ledger(ledger.path).reservations}
    assert int(halfway) > 0  # some were killed in the middle of a transaction
    assert len(told) > 10
    assert all(recorded[number] == process for number, process in told)
    assert len(recorded) - len(told) <= 101  # the first one; killed between the commit and the word: spent all the same
    assert ledger.reserve(SOME, {}) == len(recorded) + 1


def test_a_process_that_dies_before_the_commit_has_reserved_nothing(used):
    """Killed with the journal on disk and pages half written: the next one to come undoes it."""
    code = """if True:
        import os, signal, sys
        from pathlib import Path
        from bayesgram.privacy import ledger_file
        with ledger_file.writing(Path(sys.argv[1])) as connection:
            connection.execute("PRAGMA cache_size = 1")
            for number in range(6, 56):
                row = (number, "", "reserved", None, "0.0", "0.0", "0.0", "0.0", "x" * 9000, "", "")
                connection.execute("INSERT INTO entries VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)", row)
            os.kill(os.getpid(), signal.SIGKILL)
    """
    before = used.path.stat().st_size
    done = subprocess.run([sys.executable, "-c", code, used.path], capture_output=True, text=True, check=False)
    assert done.returncode == -9, done.stderr
    assert used.path.with_name("app.ledger-journal").stat().st_size > 0
    assert used.path.stat().st_size > before
    assert used.read().last_number == 5
    assert used.path.stat().st_size == before
    assert used.reserve(SOME, {}) == 6


def test_commits_are_flushed_to_disk_and_so_is_the_folder(used, monkeypatch):
    """FULL would leave a moment in which a power loss brings the journal back."""
    seen = []

    def watch(*arguments):
        number = append(*arguments)
        connection = arguments[0]
        seen.extend(connection.execute(f"PRAGMA {name}").fetchone()[0] for name in ("synchronous", "journal_mode"))
        return number

    append = module._append
    monkeypatch.setattr(module, "_append", watch)
    used.reserve(SOME, {})
    assert seen == [3, "delete"]  # EXTRA
