"""Write a file or a folder whole or not at all, and make temporary folders that get removed.

An output is written in a hidden folder beside its target, flushed to disk, and takes its place by
one rename. A run that dies before that leaves what was there untouched. Missing parent folders are
made, and removed again if nothing took its place in them. Without force=True nothing
that exists is replaced, not even something that appears meanwhile. With force=True, a folder is
replaced only if it holds exactly what would be written there.

Hidden folders (unfinished outputs, and data that is spilled to disk) belong to a running process.
Each holds a lock file that is locked as long as its process lives. The system releases the lock
however the process ends, so a later run knows which folders were abandoned; no process number is
trusted (they are used again, and every container has its own). Only folders of the same user, made
on this machine, that nobody has locked are removed; what an unfinished output was about to replace
is put back first. Folders below the given ones are not searched.
"""

import errno
import logging
import os
import shutil
import socket
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path, PurePath

from bayesgram import system
from bayesgram.errors import Argument, BayesgramError, UsageError
from bayesgram.io.uris import local_path

OUTPUT = Argument("path")  # the parameter that names most outputs
PROBE_BYTES = 1 << 16  # that must find room on disk before any work; not measured

# Names of hidden folders: ".OUTPUT.unfinished-HOST-PROCESS-RANDOM" and
# ".bayesgram-scratch-HOST-PROCESS-RANDOM".
UNFINISHED_INFIX = ".unfinished-"
SPILL_PREFIX = ".bayesgram-scratch-"

# Names in a hidden folder.
LOCK = ".lock"
NEW = "new"  # the folder with the output that is being written
REPLACED = "replaced"  # what the output is about to replace

# How often to try to remove a folder to which other threads still write, or to make one that
# other processes take for an abandoned one.
ATTEMPTS = 20

DISK_FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}
# Errors that are not the fault of whoever chose the path.
SYSTEM_FAILURES = {*DISK_FULL, errno.EIO, errno.EMFILE, errno.ENFILE}

_log = logging.getLogger(__name__)

written_paths: list[Path] = []  # the outputs that this process has put in place, in order
_own_folders: dict[Path, "TemporaryFolder"] = {}  # the hidden folders of this process, by path
_locks: dict[Path, int] = {}  # descriptors of the locks that this process holds, by folder
_made_parents: list[Path] = []  # parents of outputs that are being written and did not exist


# --- Writing outputs ---


def check_writable(
    path: str | Path,
    *,
    force: bool,
    contents: Iterable[str] | None = None,
    inputs: Iterable[str | Path] = (),
    required_bytes: int = PROBE_BYTES,
    parameter: str | Argument = OUTPUT,
) -> Path:
    """Return the absolute path of an output, if it can be written; call this before the work.

    Writing is tried, not only looked at; where parent folders are missing, in the nearest one that
    exists. Call it before budget is spent.

    Args:
        path: Where the output is to be.
        force: Whether an output that exists may be replaced.
        contents: The names of everything in the output folder; None for a file.
        inputs: Files and folders that must not be lost under the output.
        required_bytes: How much must find room on disk.
        parameter: How a message names what was given as `path`.

    Raises:
        UsageError: If something is there that may not be replaced, or the folder can't be written.
        BayesgramError: If the disk is full or fails.
    """
    for source in inputs:
        file = local_path(source)
        if file is None or not file.exists():
            continue
        if Path(path).resolve() in [file.resolve(), *file.resolve().parents]:
            raise UsageError(
                f"{path}: would replace the input {file}; choose another ", parameter, "."
            )
    target = _check_target(path, force=force, contents=contents, parameter=parameter)
    with _staging_folder(_nearest_folder(target) / target.name, parameter) as staging:
        probe = os.open(staging / "probe", os.O_WRONLY | os.O_CREAT, 0o600)
        try:
            _allocate(probe, required_bytes)
            os.fsync(probe)
        finally:
            os.close(probe)
    return target


@contextmanager
def write_file_atomically(
    path: str | Path, *, force: bool = False, parameter: str | Argument = OUTPUT
) -> Iterator[Path]:
    """Yield a path to write to, which becomes `path` when the block ends without an error.

    Args:
        path: Where the file is to be.
        force: Whether a file that exists is replaced.
        parameter: How a message names what was given as `path`.
    """
    target = _check_target(path, force=force, parameter=parameter)
    with _staging_folder(target, parameter) as staging:
        file = _new_path(staging, target)
        yield file
        _flush(file)
        if force:
            file.replace(target)
        else:
            _place_new_file(file, target)
        _record_written(target)


@contextmanager
def write_folder_atomically(
    path: str | Path,
    *,
    contents: Iterable[str],
    force: bool = False,
    private: bool = False,
    parameter: str | Argument = OUTPUT,
) -> Iterator[Path]:
    """Yield a folder to fill, which becomes `path` when the block ends without an error.

    Args:
        path: Where the folder is to be.
        contents: The names of everything that may be in it. A folder with anything else is not
            replaced.
        force: Whether a folder that exists is replaced.
        private: Whether only this user may look into it (mode 0700).
        parameter: How a message names what was given as `path`.
    """
    target = _check_target(path, force=force, contents=contents, parameter=parameter)
    with _staging_folder(target, parameter) as staging:
        folder = _new_path(staging, target)
        folder.mkdir(mode=0o700 if private else 0o777)
        yield folder
        for file in [*folder.rglob("*"), folder]:
            _flush(file)
        if force and target.exists():
            _check_target(path, force=True, contents=contents, parameter=parameter)
            _replace_folder(folder, target, staging / REPLACED)
        else:
            folder.rename(target)  # refuses a folder that is not empty
        _record_written(target)


def _check_target(
    path: str | Path,
    *,
    force: bool,
    contents: Iterable[str] | None = None,
    parameter: str | Argument = OUTPUT,
) -> Path:
    """Return the absolute path, if nothing is there that may not be replaced.

    What killed runs left around it is removed first.
    """
    target = Path(os.path.abspath(path))  # noqa: PTH100 - resolve() would follow a link, and lose a trailing dot
    remove_abandoned(target.parent)
    ancestor = _nearest_folder(target)
    if not ancestor.is_dir():
        raise UsageError(
            f"{path}: {ancestor} is a file, and no folder can be in it; choose another ",
            parameter,
            ".",
        )
    if target.is_symlink() and not target.exists():
        raise UsageError(f"{path}: is a link to nowhere; choose another ", parameter, ".")
    if target.exists() and not force:
        raise UsageError(
            f"{path}: exists already; choose another ",
            parameter,
            ", or replace it with ",
            Argument("force", "True"),
            ".",
        )
    if target.exists() and target.is_dir() != (contents is not None):
        kind = "folder" if target.is_dir() else "file"
        raise UsageError(f"{path}: is a {kind}; choose another ", parameter, ".")
    if target.is_dir() and _has_other_contents(target, set(contents or ())):
        raise UsageError(
            f"{path}: holds files that are not ours, so it is not replaced; choose another ",
            parameter,
            ".",
        )
    return target


def _nearest_folder(target: Path) -> Path:
    """Return the nearest parent of an output that exists: a folder, a file or a dead link."""
    return next(parent for parent in target.parents if os.path.lexists(parent))


@contextmanager
def _parents_made(target: Path) -> Iterator[None]:
    """Make the missing parents of an output, and remove those that are empty in the end."""
    missing = [parent for parent in target.parents if not os.path.lexists(parent)]
    try:
        for folder in reversed(missing):
            folder.mkdir(exist_ok=True)
            _made_parents.append(folder)
            _flush(folder.parent)
        yield
    finally:
        _remove_empty(missing)


def _remove_empty(folders: Iterable[Path]) -> None:
    """Remove folders that this process made, the deepest first, unless something is in them."""
    for folder in folders:
        if folder in _made_parents:
            _made_parents.remove(folder)
            with suppress(OSError):
                folder.rmdir()


def _has_other_contents(folder: Path, contents: set[str]) -> bool:
    """Return whether anything in a folder is not one of `contents`, which may be paths.

    Whatever is in a folder of that name belongs to it, and so do the folders on the way to it.
    """
    ours = {PurePath(name) for name in contents}
    parents = {parent for name in ours for parent in name.parents}
    for entry in folder.rglob("*"):
        relative = entry.relative_to(folder)
        is_ours = not ours.isdisjoint((relative, *relative.parents))
        if not is_ours and not (relative in parents and entry.is_dir()):
            return True
    return False


@contextmanager
def _staging_folder(target: Path, parameter: str | Argument) -> Iterator[Path]:
    """Yield a private folder beside the target, so that a rename suffices, and remove it after."""
    staging = None
    try:
        with _parents_made(target), unfinished_folder(target) as folder:
            staging = folder
            yield folder
    except OSError as error:
        raise _writing_error(target, error, staging, parameter) from error


def _writing_error(
    target: Path, error: OSError, staging: Path | None, parameter: str | Argument
) -> BayesgramError:
    if error.errno is None:
        reason = "no reason is known: is there enough memory?"
    else:
        reason = os.strerror(error.errno)
    if error.errno in {errno.EEXIST, errno.ENOTEMPTY}:
        return UsageError(
            f"{target}: appeared meanwhile and was not replaced; choose another ", parameter, "."
        )
    if staging is None and error.errno not in SYSTEM_FAILURES:
        return UsageError(
            f"{target}: can't be written there ({reason}); choose another ", parameter, "."
        )
    advice = "Free some space" if error.errno in DISK_FULL else "Mend that"
    if error.errno == errno.EACCES and not system.CAN_REMOVE_OPEN_FILES:
        advice = "Close what has it open"
    if staging and staging.exists():
        leftovers = f"what was begun is in {staging}"
    else:
        leftovers = "nothing was left behind"
    return BayesgramError(
        f"{target}: writing failed ({reason}); {leftovers}. {advice}, then run it again."
    )


def _new_path(staging: Path, target: Path) -> Path:
    """Return where to write: the target's own name, which may be any, in a folder of its own."""
    (staging / NEW).mkdir()
    return staging / NEW / target.name


def _allocate(descriptor: int, size: int) -> None:
    """Take room on disk, by writing where the system has no call for it; always write a byte."""
    os.write(descriptor, b"\0")
    if hasattr(os, "posix_fallocate"):
        os.posix_fallocate(descriptor, 0, size)
    else:
        os.write(descriptor, bytes(min(size, PROBE_BYTES)))


def _replace_folder(folder: Path, target: Path, replaced: Path) -> None:
    """Swap two folders at once where the system can; else in two steps.

    If the second step fails, `TemporaryFolder.discard` takes the first one back.
    """
    if system.try_exchange(folder, target):
        return
    target.rename(replaced)
    folder.rename(target)


def _place_new_file(file: Path, target: Path) -> None:
    """Rename a file, but never over something that appeared meanwhile."""
    if system.try_rename_new(file, target):
        return
    try:
        target.hardlink_to(file)  # the file has two names until the hidden folder is removed
    except FileExistsError:
        raise
    except OSError:  # a file system without hard links
        if os.path.lexists(target):
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(target)) from None
        file.rename(target)


def _flush(path: Path) -> None:
    """Fsync a file or a folder."""
    system.flush(path)


def _record_written(target: Path) -> None:
    """Note that an output took its place, and fsync the folder in which it did.

    If that fails, the output is there all the same, and the error says so.
    """
    written_paths.append(target)
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


# --- Temporary folders of this process ---


@contextmanager
def unfinished_folder(target: Path) -> Iterator[Path]:
    """Yield a hidden folder beside a target, and remove it when the block ends."""
    with _hidden_folder(target.parent, f".{target.name}{UNFINISHED_INFIX}", target) as folder:
        yield folder


@contextmanager
def spill_folder(beside: Path | None = None) -> Iterator[Path]:
    """Yield a hidden folder for data that does not fit in memory, and remove it afterwards.

    Args:
        beside: The folder to make it in: private data stays on the disk that its owner chose.
            None is where the system keeps temporary files.
    """
    parent = Path(tempfile.gettempdir()) if beside is None else beside
    remove_abandoned(parent)
    is_made = False
    try:
        with _hidden_folder(parent, SPILL_PREFIX, None) as folder:
            is_made = True
            yield folder
    except OSError as error:
        if is_made:
            raise
        advice = "mend that"
        if not beside:
            advice += ", or let the variable TMPDIR name another folder"
        raise BayesgramError(
            f"{parent}: nothing can be spilled to disk there ({error.strerror}); {advice}."
        ) from error


def discard_own_folders() -> None:
    """Remove the hidden folders of this process, before it stops at a signal."""
    for hidden in list(_own_folders.values()):
        hidden.discard()
    _remove_empty(sorted(_made_parents, reverse=True))


@contextmanager
def _hidden_folder(parent: Path, prefix: str, target: Path | None) -> Iterator[Path]:
    """Yield a private folder (mode 0700), which `discard_own_folders` removes too."""
    host = socket.gethostname()
    folder, lock = _make_locked_folder(parent, f"{prefix}{host}-{os.getpid()}-")
    hidden = TemporaryFolder(folder, target, host)
    _own_folders[folder] = hidden
    _locks[folder] = lock
    try:
        yield folder
    finally:
        try:
            hidden.discard()
        finally:
            del _own_folders[folder]
            _release_lock(folder)


def _make_locked_folder(parent: Path, prefix: str) -> tuple[Path, int]:
    """Return a new folder and the descriptor of its lock file, which is locked."""
    for _ in range(ATTEMPTS):
        folder = Path(tempfile.mkdtemp(prefix=prefix, dir=parent))
        try:
            lock = os.open(folder / LOCK, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
        except (FileNotFoundError, FileExistsError):
            continue  # somebody took the empty folder for an abandoned one
        except OSError:
            folder.rmdir()
            raise
        if _try_lock(lock, folder / LOCK) is not FolderState.IN_USE:
            return folder, lock
        os.close(lock)
    raise OSError(0, "hidden folders are removed as soon as they are made")


# --- Hidden folders that may be abandoned ---


class FolderState(StrEnum):
    """Who uses a hidden folder, as far as is known."""

    ABANDONED = "left by a run that was killed"
    IN_USE = "in use by a run"
    ELSEWHERE = "made on another machine"
    UNKNOWN = "without a lock: made by an older version, or not by bayesgram"


@dataclass(frozen=True)
class TemporaryFolder:
    """A folder whose name says that it is a hidden folder of ours."""

    path: Path
    target: Path | None  # what an unfinished output was to become; None if it is for spilled data
    host: str  # the machine on which it was made

    @classmethod
    def from_path(cls, path: Path) -> "TemporaryFolder | None":
        """Return what the name of a folder says; None if it is not one of ours.

        >>> TemporaryFolder.from_path(Path("x/.out.unfinished-laptop-12-ab_c")).target.name
        'out'
        >>> TemporaryFolder.from_path(Path("x/.bayesgram-scratch-my-laptop-12-ab_c")).host
        'my-laptop'
        """
        name, infix, suffix = path.name.rpartition(UNFINISHED_INFIX)
        if infix:
            target_name = name[1:]
            if target_name and name[0] == ".":
                return cls(path, path.parent / target_name, _host_of(suffix))
            return None
        name, prefix, suffix = path.name.rpartition(SPILL_PREFIX)
        if prefix and not name:
            return cls(path, None, _host_of(suffix))
        return None

    @property
    def kind(self) -> str:
        """What the folder is for, in words."""
        return "scratch" if self.target is None else "unfinished output"

    def discard(self) -> None:
        """Remove the folder, but first put back what it was about to replace."""
        replaced = self.path / REPLACED
        if self.target is not None and replaced.exists() and not os.path.lexists(self.target):
            _put_back(replaced, self.target)
        path = self.path
        for _ in range(ATTEMPTS):
            path = _remove(path)
            if not path.exists():
                return
        _log.warning(
            "warning: %s: can't be removed, and may be private; `bayesgram clean` tries again.",
            path,
        )


def find_temporary_folders(folder: Path) -> list[TemporaryFolder]:
    """Return the hidden folders of this user in a folder, in order of their names."""
    try:
        paths = sorted(folder.iterdir())
    except OSError:
        return []
    candidates = map(TemporaryFolder.from_path, paths)
    return [hidden for hidden in candidates if hidden and system.is_folder_of_user(hidden.path)]


@contextmanager
def claim(hidden: TemporaryFolder, *, any_host: bool = False) -> Iterator[FolderState]:
    """Yield the state of a hidden folder; an abandoned one is locked while the block lasts.

    Args:
        hidden: A folder that `find_temporary_folders` found.
        any_host: Whether to look at a folder that was made on another machine, too.
    """
    if hidden.path in _own_folders:
        yield FolderState.IN_USE
        return
    if hidden.host != socket.gethostname() and not any_host:
        yield FolderState.ELSEWHERE
        return
    lock = _open_lock(hidden.path)
    if lock is None:
        yield FolderState.UNKNOWN
        return
    state = _try_lock(lock, hidden.path / LOCK)
    if state is not FolderState.ABANDONED:
        os.close(lock)
        yield state
        return
    _locks[hidden.path] = lock
    try:
        yield state
    finally:
        _release_lock(hidden.path)


def remove_abandoned(folder: Path) -> None:
    """Remove what killed runs of this user left in a folder; ignore what can't be removed."""
    for hidden in find_temporary_folders(folder):
        with suppress(OSError, BayesgramError), claim(hidden) as state:
            if state is FolderState.ABANDONED:
                hidden.discard()


def _host_of(suffix: str) -> str:
    """Return the host of "HOST-PROCESS-RANDOM"; a host may have hyphens."""
    return "-".join(suffix.split("-")[:-2])


def _open_lock(folder: Path) -> int | None:
    """Open the lock file of a folder; None if there is none.

    An empty folder gets one: its process was killed before that, or comes too late now and makes
    another folder.
    """
    try:
        is_empty = not any(folder.iterdir())
        creation_flags = os.O_CREAT | os.O_EXCL if is_empty else 0
        return system.open_without_following(folder / LOCK, os.O_RDWR | creation_flags)
    except OSError:
        return None


def _try_lock(lock: int, path: Path) -> FolderState:
    """Lock an open lock file, and return in which state that found the folder.

    Returns:
        ABANDONED if the lock was free, and is ours now; IN_USE if somebody else has it, or has
        removed the file; UNKNOWN where files can't be locked.
    """
    try:
        if not system.try_lock(lock, exclusive=True):
            return FolderState.IN_USE
    except OSError:
        return FolderState.UNKNOWN
    if not system.CAN_REMOVE_OPEN_FILES:
        return FolderState.ABANDONED
    try:
        is_same_file = os.path.samestat(os.fstat(lock), path.lstat())
    except FileNotFoundError:
        return FolderState.IN_USE
    return FolderState.ABANDONED if is_same_file else FolderState.IN_USE


def _release_lock(folder: Path) -> None:
    """Close the lock file of a folder, unless that was done before."""
    lock = _locks.pop(folder, None)
    if lock is not None:
        os.close(lock)


def _put_back(replaced: Path, target: Path) -> None:
    try:
        replaced.rename(target)
    except OSError as error:
        raise BayesgramError(
            f"{target}: what was there is kept in {replaced}, as it can't be moved back"
            f" ({error.strerror}); `bayesgram clean --remove` tries again."
        ) from error


def _remove(folder: Path) -> Path:
    """Try to remove a folder, and return the name under which it was left if that failed.

    The lock file goes last: a process that dies in between leaves a folder that is known to be
    abandoned, or an empty one. The folder is renamed before that: the process that made it a
    moment ago, and was taken for dead, must not find it unlocked.
    """
    with suppress(OSError):
        for entry in [entry for entry in folder.iterdir() if entry.name != LOCK]:
            if entry.is_dir() and not entry.is_symlink():
                shutil.rmtree(entry, ignore_errors=True)
            else:
                entry.unlink(missing_ok=True)
        if [entry.name for entry in folder.iterdir()] == [LOCK]:
            if not system.CAN_REMOVE_OPEN_FILES:
                _release_lock(folder)  # nothing private is left, so anybody may remove the rest
            with suppress(OSError):  # a disk that takes no new names: go on under the old one
                # No new name ends with a capital letter.
                folder = folder.rename(folder.with_name(f"{folder.name[:-1]}X"))
            (folder / LOCK).unlink(missing_ok=True)
        folder.rmdir()
    return folder
