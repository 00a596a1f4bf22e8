"""Many threads and processes at one ledger, and some that die."""

import subprocess
import sys

import pytest

from bayesgram.errors import BayesgramError, UsageError
from bayesgram.privacy import ledger as module
from bayesgram.privacy import ledger_io
from bayesgram.privacy.accounting import Spend, composed_epsilon, fits
from bayesgram.privacy.budget import Budget
from bayesgram.privacy.ledger import Ledger
from bayesgram.privacy.ledger_io import is_ledger, read_ledger
from helpers.ledger_files import SMALL_SPEND

pytestmark = pytest.mark.slow

LONGEST = 300  # seconds, on a machine that has much else to do


def test_threads_of_one_process_never_overspend_whatever_else_they_do_with_the_file(ledger):
    """POSIX drops SQLite's locks when any thread closes the file, which the last of these do all the time."""
    code = """if True:
        import shutil, sys, threading
        from bayesgram.errors import BayesgramError
        from bayesgram.privacy.ledger import Ledger, Spend
        from bayesgram.privacy.ledger_io import is_ledger

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
        subprocess.Popen(
            [sys.executable, "-c", code, ledger.path], stdout=subprocess.PIPE, text=True
        )
        for _ in range(2)
    ]
    numbers = [
        int(line)
        for process in started
        for line in process.communicate(timeout=LONGEST)[0].splitlines()
    ]
    room = next(n for n in range(99) if not fits([Spend.gaussian(20.0)] * (n + 1), ledger.budget))
    assert sorted(numbers) == list(range(1, room + 1))
    assert read_ledger(ledger.path).last_number == room


@pytest.mark.posix("modes")
def test_the_lock_is_open_to_whoever_may_write_the_ledger(used):
    used.path.chmod(0o660)
    used.reserve(SMALL_SPEND, {})
    lock = used.path.with_name("app.ledger.lock")
    assert lock.stat().st_mode & 0o777 == 0o660
    assert lock.read_bytes() == b""
    assert not is_ledger(lock)


@pytest.mark.posix("the name of the lock file")
def test_a_lock_that_is_a_link_is_refused(used, tmp_path):
    (tmp_path / "elsewhere").write_text("mine")
    used.path.with_name("app.ledger.lock").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(
        UsageError, match=r"can't be opened for writing \(app\.ledger\.lock: Too many levels"
    ):
        used.reserve(SMALL_SPEND, {})


def test_a_lock_that_is_held_is_waited_for_and_then_given_up(used, monkeypatch):
    monkeypatch.setattr(ledger_io, "LOCK_TIMEOUT", 0.1)
    for refused in (lambda: used.reserve(SMALL_SPEND, {}), used.read):
        with (
            ledger_io.hold_lock(used.path, exclusive=True),
            pytest.raises(BayesgramError, match=r"writing for 0\.1 s; wait for it"),
        ):
            refused()
    with ledger_io.hold_lock(used.path, exclusive=False):
        assert used.read().last_number == 5  # readers read together
    assert used.reserve(SMALL_SPEND, {}) == 6


CHILDREN = """if True:
    import os, random, select, signal, sys, time
    import scipy.special  # once, and not in every child
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


@pytest.mark.posix("fork")
def test_fifty_processes_never_overspend(ledger):
    """Room for 7: exactly 7 of 50 get it, each its own number, and the chain is whole."""
    ledger.reserve(Spend.gaussian(4.5), {})
    room = next(
        n
        for n in range(60)
        if composed_epsilon([Spend.gaussian(4.5), *[Spend.gaussian(40.0)] * (n + 1)], 1e-6) > 1
    )
    assert 2 < room < 50
    done = subprocess.run(
        [sys.executable, "-c", RACE, ledger.path],
        capture_output=True,
        text=True,
        check=True,
        timeout=LONGEST,
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
    rounds, halfway, told, start = 0, 0, b"", time.monotonic()
    Ledger.open(sys.argv[1]).reserve(Spend(pure_epsilon=1e-5), {"process": os.getpid()})
    once = max(time.monotonic() - start, 0.005)
    while rounds < 50 or (told.count(b"\\n") < 20 or not halfway) and time.monotonic() < start + 100:
        children = [fork(reserve) for _ in range(2)]
        time.sleep(random.uniform(0.3, 4) * once)
        for child in children:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
        rounds += 1
        halfway += os.path.exists(sys.argv[1] + "-journal")
        Ledger.open(sys.argv[1])
        told += os.read(read, 1 << 16) if select.select([read], [], [], 0)[0] else b""
        if told.count(b"\\n") < rounds / 2:  # a busy machine: they are killed too early
            once *= 1.05
    print(rounds, halfway, flush=True)
    sys.stdout.write(told.decode())
"""
)


@pytest.mark.posix("fork")
def test_killed_processes_leave_every_reported_reservation(tmp_path):
    """100 processes killed at random instants, and more until enough was told and one was killed in the middle.

    After each pair the ledger opens, and nothing that was told is lost.
    """
    ledger = Ledger.create(tmp_path / "app.ledger", population="p", budget=Budget(100))
    command = [sys.executable, "-c", KILL, ledger.path, "1"]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=LONGEST)
    numbers, *lines = done.stdout.splitlines()
    rounds, halfway = map(int, numbers.split())
    told = [tuple(map(int, line.split())) for line in lines]
    recorded = {
        entry.number: entry.description["process"]
        for entry in read_ledger(ledger.path).reservations
    }
    assert halfway > 0  # some were killed in the middle of a transaction
    assert len(told) > 10
    assert all(recorded[number] == process for number, process in told)
    # The first one; and who was killed between the commit and the word: spent all the same.
    assert len(recorded) - len(told) <= 2 * rounds + 1
    assert ledger.reserve(SMALL_SPEND, {}) == len(recorded) + 1


@pytest.mark.posix("SIGKILL")
def test_a_process_that_dies_before_the_commit_has_reserved_nothing(used):
    """Killed with the journal on disk and pages half written: the next one to come undoes it."""
    code = """if True:
        import os, signal, sys
        from pathlib import Path
        from bayesgram.privacy import ledger_io
        with ledger_io.write_transaction(Path(sys.argv[1])) as connection:
            connection.execute("PRAGMA cache_size = 1")
            for number in range(6, 56):
                row = (number, "", "reserved", None, "0.0", "0.0", "0.0", "0.0", "x" * 9000, "", "")
                connection.execute("INSERT INTO entries VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)", row)
            os.kill(os.getpid(), signal.SIGKILL)
    """
    before = used.path.stat().st_size
    done = subprocess.run(
        [sys.executable, "-c", code, used.path], capture_output=True, text=True, check=False
    )
    assert done.returncode == -9, done.stderr
    assert used.path.with_name("app.ledger-journal").stat().st_size > 0
    assert used.path.stat().st_size > before
    assert used.read().last_number == 5
    assert used.path.stat().st_size == before
    assert used.reserve(SMALL_SPEND, {}) == 6


def test_commits_are_flushed_to_disk_and_so_is_the_folder(used, monkeypatch):
    """FULL would leave a moment in which a power loss brings the journal back."""
    seen = []

    def watch(*arguments):
        number = append(*arguments)
        connection = arguments[0]
        seen.extend(
            connection.execute(f"PRAGMA {name}").fetchone()[0]
            for name in ("synchronous", "journal_mode")
        )
        return number

    append = module._append_entry
    monkeypatch.setattr(module, "_append_entry", watch)
    used.reserve(SMALL_SPEND, {})
    assert seen == [3, "delete"]  # EXTRA
