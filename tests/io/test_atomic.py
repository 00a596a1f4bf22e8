"""Publishing whole or not at all, where the other tests of it (released/test_release.py) do not look."""

import errno
import os

import pytest

from bayesgram import system
from bayesgram.errors import BayesgramError, UsageError
from bayesgram.io import atomic
from bayesgram.io.atomic import check_writable, write_file_atomically, write_folder_atomically


def names(folder):
    return sorted(path.name for path in folder.iterdir())


@pytest.mark.parametrize("name", ["new", "replaced", ".lock", "probe"])
def test_an_output_may_have_any_name_and_is_still_not_half_there(tmp_path, name):
    with (
        pytest.raises(RuntimeError),
        write_folder_atomically(tmp_path / name, contents=["a"]) as folder,
    ):
        (folder / "a").write_text("half")
        raise RuntimeError
    assert names(tmp_path) == []
    for text in ("old", "new"):
        with write_folder_atomically(tmp_path / name, contents=["a"], force=True) as folder:
            (folder / "a").write_text(text)
    assert (tmp_path / name / "a").read_text() == "new"
    assert names(tmp_path) == [name]


@pytest.mark.skipif(not hasattr(os, "posix_fallocate"), reason="needs posix_fallocate")
def test_a_place_is_tried_and_nothing_is_left_there(tmp_path, monkeypatch):
    check_writable(tmp_path / "out", force=False)
    assert names(tmp_path) == []
    asked = []
    monkeypatch.setattr(os, "posix_fallocate", lambda *arguments: asked.append(arguments[2]))
    check_writable(tmp_path / "out", force=False, required_bytes=12345)
    assert asked == [12345]


@pytest.mark.skipif(not hasattr(os, "posix_fallocate"), reason="needs posix_fallocate")
@pytest.mark.parametrize(
    ("number", "code", "message"),
    [
        (
            errno.ENOSPC,
            1,
            r"writing failed \(No space left on device\); nothing was left behind\. Free some space, then",
        ),
        (
            errno.EIO,
            1,
            r"writing failed \(Input/output error\); nothing was left behind\. Mend that, then run it again",
        ),
    ],
)
def test_a_disk_without_room_is_noticed_before_any_work(
    tmp_path, monkeypatch, number, code, message
):
    def refuse(*_):
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(os, "posix_fallocate", refuse)
    with pytest.raises(BayesgramError, match=message) as caught:
        check_writable(tmp_path / "out", force=False)
    assert caught.value.exit_code == code
    assert names(tmp_path) == []


def test_a_place_that_is_closed_is_wrong_use(tmp_path, monkeypatch):
    def refuse(*_, **__):
        raise PermissionError(errno.EACCES, "Permission denied")

    monkeypatch.setattr("tempfile.mkdtemp", refuse)
    with pytest.raises(
        UsageError,
        match=r"out: can't be written there \(Permission denied\); choose another `path`\.",
    ):
        check_writable(tmp_path / "out", force=False)


def unsupported(*_):
    raise OSError(errno.EPERM, "Operation not permitted")


@pytest.mark.parametrize("links", [True, False])
def test_a_new_file_takes_its_place_on_every_system(tmp_path, monkeypatch, links):
    monkeypatch.setattr(system.sys, "platform", "another")
    if not links:
        monkeypatch.setattr(atomic.Path, "hardlink_to", unsupported)
    with write_file_atomically(tmp_path / "file") as file:
        file.write_text("ours")
    assert (tmp_path / "file").read_text() == "ours"
    with (
        pytest.raises(UsageError, match="appeared meanwhile"),
        write_file_atomically(tmp_path / "other") as file,
    ):
        file.write_text("ours")
        (tmp_path / "other").write_text("theirs")
    assert (tmp_path / "other").read_text() == "theirs"
    assert names(tmp_path) == ["file", "other"]


def test_a_new_file_has_one_name(tmp_path):
    with write_file_atomically(tmp_path / "file") as file:
        file.write_text("ours")
    assert (tmp_path / "file").stat().st_nlink == 1


def test_what_is_in_its_place_but_not_confirmed_is_told_so(tmp_path, monkeypatch):
    real = atomic._flush

    def refuse(path):
        if path == tmp_path:
            raise OSError(errno.EIO, "Input/output error")
        real(path)

    monkeypatch.setattr(atomic, "_flush", refuse)
    with (
        pytest.raises(BayesgramError, match="file: is written, but the disk did not confirm it"),
        write_file_atomically(tmp_path / "file") as file,
    ):
        file.write_text("ours")
    assert (tmp_path / "file").read_text() == "ours"


def test_missing_parents_are_made_by_writing_and_not_by_the_check(tmp_path):
    target = tmp_path / "a" / "b" / "out"
    assert check_writable(target, force=False, contents=("x",)) == target
    assert list(tmp_path.iterdir()) == []
    with write_folder_atomically(target, contents=("x",)) as folder:
        (folder / "x").touch()
    assert (target / "x").exists()
    with write_file_atomically(tmp_path / "c" / "file") as file:
        file.write_text("x")
    assert [path.name for path in (tmp_path / "c").iterdir()] == ["file"]


def test_parents_of_an_output_that_failed_are_removed_unless_somebody_uses_them(tmp_path):
    def fail(name):
        with pytest.raises(ZeroDivisionError), write_file_atomically(tmp_path / name / "out"):
            if name == "used/b":
                (tmp_path / "used" / "other").touch()
            raise ZeroDivisionError

    fail("a/b")
    fail("used/b")
    assert [path.name for path in tmp_path.rglob("*")] == ["used", "other"]


def test_a_parent_can_be_no_file_and_no_link_to_nowhere(tmp_path):
    (tmp_path / "file").touch()
    (tmp_path / "link").symlink_to("nowhere")
    for name in ("file", "link"):
        with pytest.raises(UsageError, match=f"{name} is a file, and no folder can be in it"):
            check_writable(tmp_path / name / "a" / "out", force=False)
