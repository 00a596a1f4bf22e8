"""Hidden folders: whose they are, and what is removed. Real processes, killed for real."""

import os
import signal
import socket
import subprocess
import sys
import threading

import pytest

from bayesgram import system
from bayesgram.errors import BayesgramError
from bayesgram.io import atomic
from bayesgram.io.atomic import (
    FolderState,
    TemporaryFolder,
    claim,
    find_temporary_folders,
    remove_abandoned,
    spill_folder,
    unfinished_folder,
    write_file_atomically,
)
from helpers.modes import has_mode

HOLDER = """
import sys, time
from pathlib import Path
from bayesgram.io.atomic import spill_folder, unfinished_folder
with spill_folder(Path(sys.argv[1])) as scratch, unfinished_folder(Path(sys.argv[1], "out")) as aside:
    (scratch / "words").write_text("private")
    print(flush=True)
    time.sleep(600)
"""


@pytest.fixture
def holder(tmp_path):
    """A live process with scratch and an unfinished output."""
    with subprocess.Popen(
        [sys.executable, "-c", HOLDER, tmp_path], stdout=subprocess.PIPE
    ) as process:
        process.stdout.readline()
        yield process
        process.kill()


def states(folder):
    found = []
    for each in find_temporary_folders(folder):
        with claim(each) as state:
            found.append(state)
    return found


@pytest.mark.posix("SIGKILL")
def test_what_a_live_process_uses_stays_and_what_a_killed_one_left_goes(tmp_path, holder):
    assert states(tmp_path) == [FolderState.IN_USE] * 2
    remove_abandoned(tmp_path)
    assert states(tmp_path) == [FolderState.IN_USE] * 2
    holder.send_signal(signal.SIGKILL)
    holder.wait()
    assert states(tmp_path) == [FolderState.ABANDONED] * 2
    with spill_folder(tmp_path) as scratch:
        assert [path.name for path in tmp_path.iterdir()] == [scratch.name]
    assert list(tmp_path.iterdir()) == []


def left(folder, name, *, host=None, lock=True):
    """A folder as a killed process leaves it."""
    path = folder / f"{name}{host or socket.gethostname()}-1-abc_"
    path.mkdir()
    if lock:
        (path / atomic.LOCK).touch()
    return path


def test_what_was_to_be_replaced_is_put_back_unless_something_new_is_there(tmp_path):
    for name in ("lost", "there"):
        (left(tmp_path, f".{name}.unfinished-") / "replaced").write_text("old")
    (tmp_path / "there").write_text("new")
    remove_abandoned(tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["lost", "there"]
    assert (tmp_path / "lost").read_text() == "old"
    assert (tmp_path / "there").read_text() == "new"


def test_a_name_that_can_not_be_put_back_is_kept_and_told(tmp_path, monkeypatch):
    kept = left(tmp_path, ".out.unfinished-") / "replaced"
    kept.write_text("old")

    def refuse(*_):
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(atomic.Path, "rename", refuse)
    with pytest.raises(
        BayesgramError, match=r"what was there is kept in .*replaced, as it can't be moved back"
    ):
        TemporaryFolder.from_path(kept.parent).discard()
    assert kept.read_text() == "old"


def test_what_can_not_be_removed_is_told(tmp_path, monkeypatch, caplog):
    monkeypatch.setattr(atomic, "_remove", lambda folder: folder)
    with (
        pytest.raises(BayesgramError, match=r"what was begun is in .*\.out\.unfinished-"),
        write_file_atomically(tmp_path / "out"),
    ):
        raise OSError(28, "No space left on device")
    assert "can't be removed, and may be private; `bayesgram clean` tries again." in caplog.text


def test_what_is_not_known_to_be_dead_is_not_touched(tmp_path):
    elsewhere = left(tmp_path, ".bayesgram-scratch-", host="another")
    unknown = left(tmp_path, ".a.unfinished-", lock=False)
    (unknown / "something").touch()
    (tmp_path / ".b.unfinished-file").touch()
    (tmp_path / ".c.unfinished-link").symlink_to(elsewhere)
    (tmp_path / ".unfinished-x").mkdir()
    before = sorted(tmp_path.rglob("*"))
    remove_abandoned(tmp_path)
    assert sorted(tmp_path.rglob("*")) == before
    assert states(tmp_path) == [FolderState.UNKNOWN, FolderState.ELSEWHERE]


def test_an_empty_folder_without_a_lock_is_dead(tmp_path):
    """A process was killed between making the folder and its lock, or between removing them."""
    left(tmp_path, ".bayesgram-scratch-", lock=False)
    remove_abandoned(tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_who_comes_too_late_to_lock_a_new_folder_finds_none(tmp_path, monkeypatch):
    """An empty folder was taken for a dead one: its maker must not get a lock in what is being removed."""
    folder, unlink, late = left(tmp_path, ".out.unfinished-", lock=False), atomic.Path.unlink, []

    def then_lock(path, **more):
        unlink(path, **more)
        with pytest.raises(FileNotFoundError):
            os.open(folder / atomic.LOCK, os.O_RDWR | os.O_CREAT | os.O_EXCL)
        late.append(path.name)

    monkeypatch.setattr(atomic.Path, "unlink", then_lock)
    remove_abandoned(tmp_path)
    assert late == [atomic.LOCK]
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(("call", "times"), [("rename", 100), ("unlink", 1)])
def test_a_folder_goes_also_where_names_can_t_be_changed_or_the_lock_only_later(
    tmp_path, monkeypatch, call, times
):
    left(tmp_path, ".out.unfinished-")
    real, failures = getattr(atomic.Path, call), iter(range(times))

    def failing(path, *more, **named):
        if next(failures, None) is not None:
            raise OSError(5, "Input/output error")
        return real(path, *more, **named)

    monkeypatch.setattr(atomic.Path, call, failing)
    remove_abandoned(tmp_path)
    assert list(tmp_path.iterdir()) == []
    assert next(failures, None) != 0  # it failed


@pytest.mark.posix("owners")
def test_another_user_is_let_alone(tmp_path, monkeypatch):
    left(tmp_path, ".bayesgram-scratch-")
    monkeypatch.setattr(os, "getuid", lambda: 12345)
    assert find_temporary_folders(tmp_path) == []


def test_makers_and_removers_at_the_same_time_take_nothing_from_each_other(tmp_path):
    """Whoever makes a folder has it until the end, however many look for dead ones meanwhile."""
    stop, lost = threading.Event(), []

    def remove():
        while not stop.is_set():
            remove_abandoned(tmp_path)

    def make(number):
        for _ in range(50):
            with unfinished_folder(tmp_path / str(number)) as folder:
                (folder / "mine").touch()
                if not (folder / "mine").exists():
                    lost.append(folder)

    removers = [threading.Thread(target=remove) for _ in range(2)]
    makers = [threading.Thread(target=make, args=(number,)) for number in range(3)]
    for thread in removers + makers:
        thread.start()
    for thread in makers:
        thread.join()
    stop.set()
    for thread in removers:
        thread.join()
    assert not lost
    remove_abandoned(tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_what_other_threads_still_write_to_goes_too(tmp_path, monkeypatch):
    real, calls = atomic._remove, []

    def late(folder):
        calls.append(folder)
        if len(calls) < 3:
            (folder / f"late-{len(calls)}").touch()
            return folder
        return real(folder)

    monkeypatch.setattr(atomic, "_remove", late)
    with spill_folder(tmp_path):
        pass
    assert list(tmp_path.iterdir()) == []


def test_where_files_can_not_be_locked_nothing_is_removed(tmp_path, monkeypatch):
    def unsupported(*_, **__):
        raise OSError(95, "Operation not supported")

    left(tmp_path, ".bayesgram-scratch-")
    monkeypatch.setattr(system, "try_lock", unsupported)
    with spill_folder(tmp_path) as folder:
        assert folder.exists()
        assert states(tmp_path) == [FolderState.UNKNOWN, FolderState.IN_USE] or states(
            tmp_path
        ) == [
            FolderState.IN_USE,
            FolderState.UNKNOWN,
        ]
    assert states(tmp_path) == [FolderState.UNKNOWN]


def test_scratch_that_can_not_be_made_is_told_with_the_next_step(tmp_path, monkeypatch):
    monkeypatch.setattr(atomic.tempfile, "tempdir", str(tmp_path / "no"))
    with pytest.raises(
        BayesgramError,
        match=r"no: nothing can be spilled to disk there \(No such file or directory\); .*TMPDIR",
    ):
        spill_folder().__enter__()


@pytest.mark.parametrize("mask", [0o000, 0o022, 0o077], ids=oct)
@pytest.mark.parametrize(
    "make",
    [spill_folder, lambda place: unfinished_folder(place / "out")],
    ids=["spill", "output"],
)
def test_nobody_else_can_look_into_a_hidden_folder(tmp_path, make, mask):
    """It holds private text, or unfinished counts: whatever mode new files have by default."""
    before = os.umask(mask)
    try:
        with make(tmp_path) as folder:
            assert has_mode(folder, 0o700)
    finally:
        os.umask(before)
