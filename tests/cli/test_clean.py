"""bayesgram clean, on what a killed run really leaves."""

import json
import signal
import subprocess
import time

import pytest

from helpers.commands import PROGRAM, bayesgram, expect_failure


def of_killed(folder):
    """Start a long run, and kill it when it has begun to write."""
    running = subprocess.Popen(
        [PROGRAM, "generate", "--users", "3000000", "-o", "made"],
        cwd=folder,
        stderr=subprocess.DEVNULL,
    )
    while running.poll() is None and not list(folder.glob(".made.unfinished-*/new/made")):
        time.sleep(0.05)
    return running


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "work").mkdir()
    (tmp_path / "tmp").mkdir()
    return tmp_path / "work"


def clean(folder, *arguments):
    done = bayesgram("clean", *arguments, "--json", cwd=folder, TMPDIR=str(folder.parent / "tmp"))
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)["found"]


def shown(folder):
    return bayesgram("clean", cwd=folder, TMPDIR=str(folder.parent / "tmp")).stdout


@pytest.mark.posix("SIGKILL")
def test_what_a_killed_run_left_is_shown_and_removed_and_a_live_one_let_alone(folder):
    running = of_killed(folder)
    try:
        (live,) = clean(folder, "--remove")
        assert (live["left"], live["removed"], live["state"]) == (False, None, "in use by a run")
    finally:
        running.send_signal(signal.SIGKILL)
        running.wait()
    assert "To remove what killed runs left, run the same command" in shown(folder)
    (row,) = clean(folder)
    assert (row["kind"], row["left"], row["removed"]) == ("unfinished output", True, None)
    assert len(list(folder.iterdir())) == 1
    (gone,) = clean(folder, str(folder), "--remove")
    assert gone["removed"] is True
    assert list(folder.iterdir()) == []
    assert clean(folder) == []


def test_other_hosts_are_cleaned_only_when_asked_and_the_old_output_comes_back(folder):
    left = folder / ".out.unfinished-a-container-1-abcd"
    (left / "replaced").mkdir(parents=True)
    (left / ".lock").touch()
    (left / "replaced" / "card.json").write_text("old")
    (folder.parent / "tmp" / ".bayesgram-scratch-a-container-1-abcd").mkdir()
    assert [row["state"] for row in clean(folder, "--remove")] == ["made on another machine"] * 2
    assert [row["removed"] for row in clean(folder, "--remove", "--any-host")] == [True, True]
    assert [path.name for path in folder.iterdir()] == ["out"]
    assert (folder / "out" / "card.json").read_text() == "old"
    assert "Nothing was left by killed runs." in shown(folder)


def test_what_is_no_folder_is_refused(folder):
    message = expect_failure("clean", "nowhere", cwd=folder, code=2, secret="\0")
    assert message == "error: nowhere: is not a folder; give those in which outputs were to appear."
