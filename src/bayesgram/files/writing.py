"""Publish a file or a folder whole or not at all.

What is written stands aside under a hidden name, is flushed to disk and takes its place by one rename; a run that
dies before leaves what was there untouched. Without force=True nothing that exists is replaced, not even something that
appears meanwhile; with force=True, a folder is replaced only if it holds exactly what would be written there.
"""

import ctypes
import errno
import os
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path, PurePath
from typing import NoReturn

from bayesgram.errors import BayesgramError, UsageError
from bayesgram.files.temporary import REPLACED, remove_abandoned, unfinished_folder

NEW = "new"
OUTPUT = "`path`"  # as most places are named
RENAME_NOREPLACE, RENAME_EXCHANGE = 1, 2  # of Linux's renameat2
PROBE = 1 << 16  # bytes that must find room before any work
FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}
FAILURES = {*FULL, errno.EIO, errno.EMFILE, errno.ENFILE}  # not the fault of whoever chose the place


published: list[Path] = []  # by this process, so far


def check_writable(
    path: str | Path,
    *,
    force: bool,
    contents: Iterable[str] | None = None,
    inputs: Iterable[str | Path] = (),
    room: int = PROBE,
    option: str = OUTPUT,
) -> Path:
    """The path, if it may be written and so many bytes find room: call it before the work, and before budget is spent.

    It is tried, not only looked at. `contents` are the names in a folder; a file has None. `inputs` must not be lost
    under the output. `option` is where the path was given.
    """
    for source in inputs:
        if Path(source).exists() and Path(path).resolve() in [Path(source).resolve(), *Path(source).resolve().parents]:
            raise UsageError(f"{path}: would replace the input {source}; choose another {option}.")
    target = _free(path, force=force, contents=contents, option=option)
    with _aside(target, option) as aside:
        probe = os.open(aside / "probe", os.O_WRONLY | os.O_CREAT, 0o600)
        try:
            _allocate(probe, room)
            os.fsync(probe)
        finally:
            os.close(probe)
    return target


def _allocate(descriptor: int, size: int) -> None:
    """Take room on disk, by writing where the system has no call for it; a byte is written in any case."""
    os.write(descriptor, b"\0")
    if hasattr(os, "posix_fallocate"):
        os.posix_fallocate(descriptor, 0, size)
    else:
        os.write(descriptor, bytes(min(size, PROBE)))


def _free(path: str | Path, *, force: bool, contents: Iterable[str] | None = None, option: str = OUTPUT) -> Path:
    """The path, if nothing stands there that may not be replaced. What killed runs left around it is removed first."""
    target = Path(os.path.abspath(path))  # noqa: PTH100 - resolve() would follow a link, and lose a trailing dot
    remove_abandoned(target.parent)
    if not target.parent.is_dir():
        _refuse_parent(path, target, option)
    if target.is_symlink() and not target.exists():
        raise UsageError(f"{path}: is a link to nowhere; choose another {option}.")
    if target.exists() and not force:
        raise UsageError(f"{path}: exists already; choose another {option}, or replace it with force=True.")
    if target.exists() and target.is_dir() != (contents is not None):
        raise UsageError(f"{path}: is a {'folder' if target.is_dir() else 'file'}; choose another {option}.")
    if target.is_dir() and _holds_others(target, set(contents or ())):
        raise UsageError(f"{path}: holds files that are not ours, so it is not replaced; choose another {option}.")
    return target


def _refuse_parent(path: str | Path, target: Path, option: str) -> NoReturn:
    """Nothing can be made within what is not there, or is a file."""
    above = next(each for each in target.parents if each.exists())
    if not above.is_dir():
        raise UsageError(f"{path}: {above} is a file, and no folder can be in it; choose another {option}.")
    raise UsageError(f"{path}: the folder {target.parent} does not exist; make it first.")


def _holds_others(folder: Path, contents: set[str]) -> bool:
    """Whether anything in a folder is neither of these, which may be files within folders, nor on the way to one."""
    on_the_way = {str(above) for name in contents for above in PurePath(name).parents}
    for entry in folder.rglob("*"):
        inside = entry.relative_to(folder)
        known = not contents.isdisjoint(map(str, (inside, *inside.parents)))
        if not known and not (str(inside) in on_the_way and entry.is_dir()):
            return True
    return False


@contextmanager
def write_file_atomically(path: str | Path, *, force: bool = False, option: str = OUTPUT) -> Iterator[Path]:
    """A path to write to, which becomes `path` when the block ends well; `option` is where it was given."""
    target = _free(path, force=force, option=option)
    with _aside(target, option) as aside:
        file = _new(aside, target)
        yield file
        _flush(file)
        if force:
            file.replace(target)
        else:
            _place_new_file(file, target)
        _flush_place(target)


@contextmanager
def write_folder_atomically(
    path: str | Path, *, contents: Iterable[str], force: bool = False, private: bool = False, option: str = OUTPUT
) -> Iterator[Path]:
    """A folder to fill with these contents, which becomes `path` when the block ends well."""
    target = _free(path, force=force, contents=contents, option=option)
    with _aside(target, option) as aside:
        folder = _new(aside, target)
        folder.mkdir()
        if private:
            folder.chmod(0o700)
        yield folder
        for file in [*folder.rglob("*"), folder]:
            _flush(file)
        if force and target.exists():
            _free(path, force=True, contents=contents, option=option)
            _replace_folder(folder, target, aside / REPLACED)
        else:
            folder.rename(target)  # refuses a folder that is not empty
        _flush_place(target)


def _new(aside: Path, target: Path) -> Path:
    """Where it is written: under its own name, which may be any, so in a folder by itself."""
    (aside / NEW).mkdir()
    return aside / NEW / target.name


def _replace_folder(folder: Path, target: Path, replaced: Path) -> None:
    """Swap the two at one stroke where the system can; else in two steps, taken back if the second fails."""
    if _renamed(folder, target, RENAME_EXCHANGE):
        return
    target.rename(replaced)
    folder.rename(target)


def _place_new_file(file: Path, target: Path) -> None:
    """Rename, but never over something that appeared meanwhile."""
    if _renamed(file, target, RENAME_NOREPLACE):
        return
    try:
        target.hardlink_to(file)  # has two names until what stands aside is removed
    except FileExistsError:
        raise
    except OSError:  # a file system without hard links
        if os.path.lexists(target):
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(target)) from None
        file.rename(target)


def _renamed(source: Path, target: Path, flags: int) -> bool:
    """Whether Linux could rename in this way; an error if the target is in the way."""
    renameat2 = getattr(ctypes.CDLL(None, use_errno=True), "renameat2", None) if sys.platform == "linux" else None
    here = -100  # AT_FDCWD: paths as they are
    if renameat2 is None:
        return False
    if renameat2(here, os.fsencode(source), here, os.fsencode(target), flags) == 0:
        return True
    if ctypes.get_errno() == errno.EEXIST:
        raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(target))
    return False


@contextmanager
def _aside(target: Path, option: str) -> Iterator[Path]:
    """A private folder beside the target (so that a rename suffices), gone when the block ends."""
    entered = None
    try:
        with unfinished_folder(target) as aside:
            entered = aside
            yield aside
    except OSError as error:
        raise _in_words(target, error, entered, option) from error


def _in_words(target: Path, error: OSError, aside: Path | None, option: str) -> BayesgramError:
    """What kept us from writing, for the person who can mend it."""
    why = "no reason is known: is there enough memory?" if error.errno is None else os.strerror(error.errno)
    if error.errno in {errno.EEXIST, errno.ENOTEMPTY}:
        return UsageError(f"{target}: appeared meanwhile and was not replaced; choose another {option}.")
    if aside is None and error.errno not in FAILURES:
        return UsageError(f"{target}: can't be written there ({why}); choose another {option}.")
    advice = "Free some space" if error.errno in FULL else "Mend that"
    left = f"what was begun is in {aside}" if aside and aside.exists() else "nothing was left behind"
    return BayesgramError(f"{target}: writing failed ({why}); {left}. {advice}, then run it again.")


def _flush(path: Path) -> None:
    """Fsync a file or a folder."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _flush_place(target: Path) -> None:
    """Fsync the folder in which something took its place. If that fails, it is there all the same, and we say so."""
    published.append(target)
    try:
        _flush(target.parent)
    except OSError as error:
        raise BayesgramError(
            f"{target}: is written, but the disk did not confirm it ({error.strerror}): a power failure may undo it;"
            " check the disk, then copy it or write it again with force=True."
        ) from error
