"""The ledger: what it allows, and which files it takes."""

import os
import shutil
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

from bayesgram import system
from bayesgram.errors import BayesgramError, UsageError
from bayesgram.privacy import ledger_io
from bayesgram.privacy.accounting import Spend, composed_epsilon
from bayesgram.privacy.budget import Budget
from bayesgram.privacy.calibration import calibrate_gaussian
from bayesgram.privacy.ledger import Ledger
from bayesgram.privacy.ledger_io import LOCK_SUFFIXES, is_ledger, read_ledger
from bayesgram.version import page_pointer
from helpers.ledger_files import LOCK_SUFFIX, SMALL_SPEND, TENTH_SPEND
from helpers.modes import has_mode

OTHER_LOCK = next(suffix for suffix in LOCK_SUFFIXES.values() if suffix != LOCK_SUFFIX)


def test_a_new_ledger_is_empty_and_private(ledger):
    contents = ledger.read()
    assert (contents.population, contents.budget) == ("app users", Budget(1, 1e-6))
    assert (contents.reservations, contents.last_number, contents.spent_epsilon()) == ((), 0, 0)
    assert has_mode(ledger.path, 0o600)
    assert sorted(path.name for path in ledger.path.parent.iterdir()) == [
        "app.ledger",
        f"app.ledger{LOCK_SUFFIX}",
    ]
    assert is_ledger(ledger.path)


def test_reservations_add_up_until_the_budget_is_spent(tmp_path):
    """Ten tenths are one, exactly, and nothing more."""
    ledger = Ledger.create(tmp_path / "a.ledger", population="app users", budget=Budget(1))
    assert [ledger.reserve(TENTH_SPEND, {}) for _ in range(10)] == list(range(1, 11))
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
    spend = Spend.gaussian(
        noise.multiplier, total_variation=50_000 / (24 * (noise.multiplier * (1 << 30)) ** 2)
    )
    count = 0
    with pytest.raises(
        BayesgramError, match=r"Left: about ε = 0\.\d+ for a Gaussian release at δ = 1e-06"
    ) as caught:
        while True:
            ledger.reserve(spend, {})
            count += 1
    assert count == 20
    left = float(str(caught.value).split("Left: about ε = ")[1].split()[0])
    assert 0 < left < 0.2
    smaller = calibrate_gaussian(Budget(left, 1e-6), coordinates=50_000, units=1 << 30)
    ledger.reserve(Spend.gaussian(smaller.multiplier, total_variation=spend.total_variation), {})
    assert 0.999 < ledger.read().spent_epsilon() <= 1


@pytest.mark.parametrize(
    ("epsilon", "delta"), [(0.1, 1e-7), (1.0, 1e-6), (1 / 3, 1e-9), (20.0, 1e-6)]
)
def test_a_release_of_everything_fits_an_empty_ledger_once(tmp_path, epsilon, delta):
    budget = Budget(epsilon, delta)
    ledger = Ledger.create(tmp_path / "a.ledger", population="p", budget=budget)
    noise = calibrate_gaussian(budget, coordinates=50_000, units=1 << 30)
    spend = Spend.gaussian(
        noise.multiplier, total_variation=50_000 / (24 * (noise.multiplier * (1 << 30)) ** 2)
    )
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
        " μ = 0.237. posterior and gaussian cost what their ε says; a ledger of δ = 0 adds up ε"
        f" ({page_pointer('ledger')})."
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
    assert contents.spent_epsilon() == composed_epsilon([SMALL_SPEND] * 4, 1e-6)


@pytest.mark.parametrize(
    ("number", "message"),
    [(2, "marked as published already"), (5, "no reservation"), (9, "no reser")],
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
        ledger.reserve(SMALL_SPEND, description)
    assert ledger.read().last_number == 0


@pytest.mark.parametrize("name", ["", " ", "a\n", "a\x1b[2J", "x" * 201, " a", "a\u202e", "\ud800"])
def test_bad_population_names(tmp_path, name):
    with pytest.raises(
        UsageError, match=r"^population=.* a name has 1 to 200 printable characters"
    ) as caught:
        Ledger.create(tmp_path / "a.ledger", population=name, budget=Budget(1))
    assert str(caught.value).isprintable()
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("name", ["p", "x" * 200, "Nutzer der App – Zürich, 2025", "用户"])
def test_good_population_names(tmp_path, name):
    Ledger.create(tmp_path / "a.ledger", population=name, budget=Budget(1))
    assert read_ledger(tmp_path / "a.ledger").population == name


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
    file = tmp_path / "file"
    file.touch()
    with pytest.raises(UsageError, match=r"/file is a file, and no folder can be in it; choose"):
        Ledger.create(file / "a.ledger", population="p", budget=Budget(1))
    file.unlink()
    with pytest.raises(
        UsageError,
        match=r"can't be opened \(No such file or directory\); make it with: bayesgram ledger",
    ):
        Ledger.open(tmp_path / "a.ledger")
    with pytest.raises(UsageError, match=r"is not a file; a ledger is one\.$"):
        Ledger.open(tmp_path)
    with pytest.raises(UsageError, match=r"can't be written there"):
        Ledger.create("/proc/a.ledger", population="p", budget=Budget(1))
    assert not list(tmp_path.iterdir())


def test_odd_paths(tmp_path):
    path = tmp_path / "50% of #1? é &mode=memory.ledger"
    Ledger.create(path, population="p", budget=Budget(1)).reserve(SMALL_SPEND, {})
    assert read_ledger(path).last_number == 1
    assert sorted(entry.name for entry in tmp_path.iterdir()) == [
        path.name,
        f"{path.name}{LOCK_SUFFIX}",
    ]


def test_hard_links_are_refused_and_symbolic_ones_followed(used):
    link = used.path.parent / "link"
    link.symlink_to(used.path.name)
    assert Ledger.open(link).reserve(SMALL_SPEND, {}) == 6
    (used.path.parent / "hard").hardlink_to(used.path)
    with pytest.raises(
        UsageError, match=r"has 2 names \(hard links\), which breaks SQLite; keep one of them\.$"
    ):
        used.reserve(SMALL_SPEND, {})


def test_a_ledger_in_wal_mode_goes_back_to_one_file(used):
    connection = sqlite3.connect(used.path)
    connection.execute("PRAGMA journal_mode = WAL")
    connection.close()
    used.reserve(SMALL_SPEND, {})
    assert sorted(path.name for path in used.path.parent.iterdir()) == [
        "app.ledger",
        f"app.ledger{LOCK_SUFFIX}",
    ]
    assert used.read().last_number == 6


def test_a_busy_ledger_is_waited_for_and_then_given_up(used, monkeypatch):
    monkeypatch.setattr(ledger_io, "LOCK_TIMEOUT", 0.2)
    other = sqlite3.connect(used.path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    with pytest.raises(
        BayesgramError, match=r"another process has been writing for 0\.2 s; wait for it"
    ):
        used.reserve(SMALL_SPEND, {})
    assert used.read().last_number == 5  # reading goes on
    other.execute("ROLLBACK")
    other.close()
    assert used.reserve(SMALL_SPEND, {}) == 6


def test_a_full_disk_reserves_nothing(used, monkeypatch):
    connected = sqlite3.connect

    def small(*arguments, **options):
        connection = connected(*arguments, **options)
        (pages,) = connection.execute("PRAGMA page_count").fetchone()
        connection.execute(f"PRAGMA max_page_count = {pages}")
        return connection

    monkeypatch.setattr(
        ledger_io, "check_database", lambda *_: None
    )  # it makes a database of its own
    monkeypatch.setattr(ledger_io.sqlite3, "connect", small)
    with pytest.raises(
        BayesgramError, match=r"could not be read or written \(database or disk is full\)"
    ):
        used.reserve(SMALL_SPEND, {"x": "y" * 9000})
    monkeypatch.undo()
    assert used.read().last_number == 5


@pytest.mark.posix("owners")
@pytest.mark.skipif(
    not hasattr(os, "geteuid") or os.geteuid() != 0, reason="needs root, to become somebody else"
)
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
            from bayesgram.privacy import ledger as module
            from bayesgram.privacy.ledger import *
            module.check_opendp = lambda: None  # looks into that folder, too
            os.setuid(65534)
            ledger = Ledger.open(sys.argv[1])
            print(ledger.read().last_number)
            try:
                ledger.reserve(Spend(pure_epsilon=0.1), {})
            except UsageError as error:
                print(error)
        """
        done = subprocess.run(
            [sys.executable, "-c", code, folder / "app.ledger"],
            capture_output=True,
            text=True,
            check=True,
        )
        assert done.stdout.startswith("5\n")
        assert "app.ledger: can't be opened for writing (" in done.stdout
        assert (
            "whoever makes releases must be able to write the ledger and its folder." in done.stdout
        )
        assert read_ledger(folder / "app.ledger").last_number == 5
    finally:
        shutil.rmtree(folder)


def test_a_ledger_that_is_locked_in_another_way_is_refused(used, tmp_path):
    other = tmp_path / f"app.ledger{OTHER_LOCK}"
    other.touch()
    for refused in (used.read, lambda: used.reserve(SMALL_SPEND, {}), lambda: used.complete(1)):
        with pytest.raises(UsageError, match=r"neither sees the locks of the other.* Go on there"):
            refused()
    assert is_ledger(used.path)  # so that `ledger list` says what is wrong with it
    other.unlink()
    assert used.read().last_number == 5


def test_locks_of_two_kinds_that_come_at_the_same_time_do_not_both_write(used, monkeypatch):
    """A second look, under the lock, sees a lock file that appeared meanwhile."""
    other = used.path.with_name(f"app.ledger{OTHER_LOCK}")
    try_lock = system.try_lock

    def lock_late(descriptor, *, exclusive):
        other.touch()
        return try_lock(descriptor, exclusive=exclusive)

    monkeypatch.setattr(system, "try_lock", lock_late)
    with pytest.raises(UsageError, match="neither sees the locks of the other"):
        used.reserve(SMALL_SPEND, {})
    monkeypatch.undo()
    other.unlink()
    assert used.read().last_number == 5
