"""Hidden folders that belong to a running process: outputs that are not whole yet, and what is spilled to disk.

Each holds a lock file, locked as long as its process lives: the system takes the lock back however the process ends,
so a later run knows what a killed one left, and no process number is trusted (they are used again, and every container
has its own). Removed are only folders of the same user, made on this machine, that nobody has locked; what an
unfinished output was about to replace is put back first.

Does not look into folders below those it is asked about.

Publish a file or a folder whole or not at all.

What is written stands aside under a hidden name, is flushed to disk and takes its place by one rename; a run that
dies before leaves what was there untouched. Without force=True nothing that exists is replaced, not even something that
appears meanwhile; with force=True, a folder is replaced only if it holds exactly what would be written there.
"""

import ctypes
import errno
import fcntl
import logging
import os
import shutil
import socket
import stat
import sys
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path, PurePath
from typing import NoReturn

from bayesgram.errors import Argument, BayesgramError, UsageError

LOCK = ".lock"
REPLACED = "replaced"
UNFINISHED, SCRATCH = ".unfinished-", ".bayesgram-scratch-"
ATTEMPTS = 20  # at removing what other threads still write to; at making a folder that others take for a dead one

_log = logging.getLogger(__name__)
_held: dict[Path, "TemporaryFolder"] = {}  # of this process


class State(StrEnum):
    """Whose a hidden folder is, as far as can be told."""

    LEFT = "left by a run that was killed"
    IN_USE = "in use by a run"
    ELSEWHERE = "made on another machine"
    UNKNOWN = "without a lock: made by an older version, or not by bayesgram"


@dataclass(frozen=True)
class TemporaryFolder:
    """A folder whose name says that it is one of ours."""

    path: Path
    target: Path | None  # what an unfinished output was to become; scratch has none
    host: str

    @classmethod
    def named(cls, path: Path) -> "TemporaryFolder | None":
        """What a name says.

        >>> TemporaryFolder.named(Path("x/.out.unfinished-laptop-12-ab_c")).target.name
        'out'
        >>> TemporaryFolder.named(Path("x/.bayesgram-scratch-my-laptop-12-ab_c")).host
        'my-laptop'
        """
        name, mark, rest = path.name.rpartition(UNFINISHED)
        if not mark:
            name, mark, rest = path.name.rpartition(SCRATCH)
        host = "-".join(rest.split("-")[:-2])
        if mark == SCRATCH and not name:
            return cls(path, None, host)
        return (
            cls(path, path.parent / name[1:], host)
            if mark == UNFINISHED and name[1:] and name[0] == "."
            else None
        )

    @property
    def kind(self) -> str:
        """In words."""
        return "scratch" if self.target is None else "unfinished output"

    def discard(self) -> None:
        """Remove the folder, but first put back what it was about to replace."""
        if (
            self.target is not None
            and (self.path / REPLACED).exists()
            and not os.path.lexists(self.target)
        ):
            _put_back(self.path / REPLACED, self.target)
        left = self.path
        for _ in range(ATTEMPTS):
            left = _remove(left)
            if not left.exists():
                return
        _log.warning(
            "warning: %s: can't be removed, and may be private; `bayesgram clean` tries again.",
            left,
        )


def _put_back(replaced: Path, target: Path) -> None:
    try:
        replaced.rename(target)
    except OSError as error:
        raise BayesgramError(
            f"{target}: what was there is kept in {replaced}, as it can't be moved back ({error.strerror});"
            " `bayesgram clean --remove` tries again."
        ) from error


def _remove(folder: Path) -> Path:
    """Try to, and say under which name it was left.

    The lock goes last: who dies in between leaves a folder that is known to be dead, or an empty one. Under another
    name: who made the folder a moment ago, and was taken for dead, must not find it unlocked.
    """
    with suppress(OSError):
        for entry in [entry for entry in folder.iterdir() if entry.name != LOCK]:
            if entry.is_dir() and not entry.is_symlink():
                shutil.rmtree(entry, ignore_errors=True)
            else:
                entry.unlink(missing_ok=True)
        if [entry.name for entry in folder.iterdir()] == [LOCK]:
            with suppress(
                OSError
            ):  # of a disk that takes no names any more: rather removed than renamed
                folder = folder.rename(
                    folder.with_name(f"{folder.name[:-1]}X")
                )  # a letter that no new name has
            (folder / LOCK).unlink(missing_ok=True)
        folder.rmdir()
    return folder


@contextmanager
def unfinished_folder(target: Path) -> Iterator[Path]:
    """A hidden folder beside a target, gone when the block ends."""
    with _hidden_folder(target.parent, f".{target.name}{UNFINISHED}", target) as folder:
        yield folder


@contextmanager
def scratch_folder(beside: Path | None = None) -> Iterator[Path]:
    """A folder in `beside` (private data stays on the disk that its owner chose), or where the system keeps such."""
    parent = Path(tempfile.gettempdir()) if beside is None else beside
    remove_abandoned(parent)
    entered = False
    try:
        with _hidden_folder(parent, SCRATCH, None) as folder:
            entered = True
            yield folder
    except OSError as error:
        if entered:
            raise
        advice = (
            "mend that" if beside else "mend that, or let the variable TMPDIR name another folder"
        )
        raise BayesgramError(
            f"{parent}: nothing can be spilled to disk there ({error.strerror}); {advice}."
        ) from error


@contextmanager
def _hidden_folder(parent: Path, mark: str, target: Path | None) -> Iterator[Path]:
    """A private folder (mode 0700) that goes away with this process, also one that is told to stop."""
    host = socket.gethostname()
    folder, lock = _locked_folder(parent, f"{mark}{host}-{os.getpid()}-")
    hidden = _held[folder] = TemporaryFolder(folder, target, host)
    try:
        yield folder
    finally:
        try:
            hidden.discard()
        finally:
            del _held[folder]
            os.close(lock)


def discard_held() -> None:
    """Remove the hidden folders of this process: for one that is told to stop."""
    for hidden in list(_held.values()):
        hidden.discard()


def _locked_folder(parent: Path, prefix: str) -> tuple[Path, int]:
    """A new folder, and the descriptor of its locked lock."""
    for _ in range(ATTEMPTS):
        folder = Path(tempfile.mkdtemp(prefix=prefix, dir=parent))
        try:
            lock = os.open(folder / LOCK, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
        except (
            FileNotFoundError,
            FileExistsError,
        ):  # somebody took the empty folder for a dead one
            continue
        except OSError:
            folder.rmdir()
            raise
        if _take(lock, folder / LOCK) is not False:
            return folder, lock
        os.close(lock)
    raise OSError(0, "hidden folders are removed as soon as they are made")


def _take(lock: int, path: Path) -> bool | None:
    """Lock an open lock file: whether nobody else has it, and it is still there; None where files can't be locked."""
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        return None
    try:
        return os.path.samestat(os.fstat(lock), path.lstat())
    except FileNotFoundError:
        return False


def found_in(folder: Path) -> list[TemporaryFolder]:
    """The hidden folders of this user in a folder, in order of their names."""
    try:
        named = [
            hidden for path in sorted(folder.iterdir()) if (hidden := TemporaryFolder.named(path))
        ]
    except OSError:
        return []
    return [hidden for hidden in named if _is_own_folder(hidden.path)]


def _is_own_folder(path: Path) -> bool:
    try:
        status = path.lstat()
    except OSError:
        return False
    return stat.S_ISDIR(status.st_mode) and status.st_uid == os.getuid()


@contextmanager
def claimed(hidden: TemporaryFolder, *, any_host: bool = False) -> Iterator[State]:
    """What is known of a hidden folder; while the block lasts, one that was left is nobody else's."""
    if hidden.path in _held:
        yield State.IN_USE
        return
    if hidden.host != socket.gethostname() and not any_host:
        yield State.ELSEWHERE
        return
    lock = _opened_lock(hidden.path)
    if lock is None:
        yield State.UNKNOWN
        return
    try:
        yield {True: State.LEFT, False: State.IN_USE, None: State.UNKNOWN}[
            _take(lock, hidden.path / LOCK)
        ]
    finally:
        os.close(lock)


def _opened_lock(folder: Path) -> int | None:
    """The lock file of a folder, open; None if there is none.

    An empty folder gets one: its process was killed before that, or comes too late now and makes another folder.
    """
    try:
        new = not any(folder.iterdir())
        return os.open(
            folder / LOCK, os.O_RDWR | os.O_NOFOLLOW | (os.O_CREAT | os.O_EXCL if new else 0), 0o600
        )
    except OSError:
        return None


def remove_abandoned(folder: Path) -> None:
    """Remove what killed runs of this user left in a folder; what can't be removed stays, and stops nobody."""
    for hidden in found_in(folder):
        with suppress(OSError, BayesgramError), claimed(hidden) as state:
            if state is State.LEFT:
                hidden.discard()


NEW = "new"
OUTPUT = Argument("path")  # as most places are named
RENAME_NOREPLACE, RENAME_EXCHANGE = 1, 2  # of Linux's renameat2
PROBE = 1 << 16  # bytes that must find room before any work
FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}
FAILURES = {
    *FULL,
    errno.EIO,
    errno.EMFILE,
    errno.ENFILE,
}  # not the fault of whoever chose the place


published: list[Path] = []  # by this process, so far


def check_writable(
    path: str | Path,
    *,
    force: bool,
    contents: Iterable[str] | None = None,
    inputs: Iterable[str | Path] = (),
    room: int = PROBE,
    option: str | Argument = OUTPUT,
) -> Path:
    """The path, if it may be written and so many bytes find room: call it before the work, and before budget is spent.

    It is tried, not only looked at. `contents` are the names in a folder; a file has None. `inputs` must not be lost
    under the output. `option` is where the path was given.
    """
    for source in inputs:
        if Path(source).exists() and Path(path).resolve() in [
            Path(source).resolve(),
            *Path(source).resolve().parents,
        ]:
            raise UsageError(
                f"{path}: would replace the input {source}; choose another ", option, "."
            )
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


def _free(
    path: str | Path,
    *,
    force: bool,
    contents: Iterable[str] | None = None,
    option: str | Argument = OUTPUT,
) -> Path:
    """The path, if nothing stands there that may not be replaced. What killed runs left around it is removed first."""
    target = Path(os.path.abspath(path))  # noqa: PTH100 - resolve() would follow a link, and lose a trailing dot
    remove_abandoned(target.parent)
    if not target.parent.is_dir():
        _refuse_parent(path, target, option)
    if target.is_symlink() and not target.exists():
        raise UsageError(f"{path}: is a link to nowhere; choose another ", option, ".")
    if target.exists() and not force:
        raise UsageError(
            f"{path}: exists already; choose another ",
            option,
            ", or replace it with ",
            Argument("force", "True"),
            ".",
        )
    if target.exists() and target.is_dir() != (contents is not None):
        raise UsageError(
            f"{path}: is a {'folder' if target.is_dir() else 'file'}; choose another ", option, "."
        )
    if target.is_dir() and _holds_others(target, set(contents or ())):
        raise UsageError(
            f"{path}: holds files that are not ours, so it is not replaced; choose another ",
            option,
            ".",
        )
    return target


def _refuse_parent(path: str | Path, target: Path, option: str | Argument) -> NoReturn:
    """Nothing can be made within what is not there, or is a file."""
    above = next(each for each in target.parents if each.exists())
    if not above.is_dir():
        raise UsageError(
            f"{path}: {above} is a file, and no folder can be in it; choose another ", option, "."
        )
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
def write_file_atomically(
    path: str | Path, *, force: bool = False, option: str | Argument = OUTPUT
) -> Iterator[Path]:
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
    path: str | Path,
    *,
    contents: Iterable[str],
    force: bool = False,
    private: bool = False,
    option: str | Argument = OUTPUT,
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
    renameat2 = (
        getattr(ctypes.CDLL(None, use_errno=True), "renameat2", None)
        if sys.platform == "linux"
        else None
    )
    here = -100  # AT_FDCWD: paths as they are
    if renameat2 is None:
        return False
    if renameat2(here, os.fsencode(source), here, os.fsencode(target), flags) == 0:
        return True
    if ctypes.get_errno() == errno.EEXIST:
        raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(target))
    return False


@contextmanager
def _aside(target: Path, option: str | Argument) -> Iterator[Path]:
    """A private folder beside the target (so that a rename suffices), gone when the block ends."""
    entered = None
    try:
        with unfinished_folder(target) as aside:
            entered = aside
            yield aside
    except OSError as error:
        raise _in_words(target, error, entered, option) from error


def _in_words(
    target: Path, error: OSError, aside: Path | None, option: str | Argument
) -> BayesgramError:
    """What kept us from writing, for the person who can mend it."""
    why = (
        "no reason is known: is there enough memory?"
        if error.errno is None
        else os.strerror(error.errno)
    )
    if error.errno in {errno.EEXIST, errno.ENOTEMPTY}:
        return UsageError(
            f"{target}: appeared meanwhile and was not replaced; choose another ", option, "."
        )
    if aside is None and error.errno not in FAILURES:
        return UsageError(f"{target}: can't be written there ({why}); choose another ", option, ".")
    advice = "Free some space" if error.errno in FULL else "Mend that"
    left = (
        f"what was begun is in {aside}" if aside and aside.exists() else "nothing was left behind"
    )
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
            f"{target}: is written, but the disk did not confirm it ({error.strerror}): "
            "a power failure may undo it; check the disk, then copy it or write it again "
            "with ",
            Argument("force", "True"),
            ".",
        ) from error
