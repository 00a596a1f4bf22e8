"""Hidden folders that belong to a running process: outputs that are not whole yet, and what is spilled to disk.

Each holds a lock file, locked as long as its process lives: the system takes the lock back however the process ends,
so a later run knows what a killed one left, and no process number is trusted (they are used again, and every container
has its own). Removed are only folders of the same user, made on this machine, that nobody has locked; what an
unfinished output was about to replace is put back first.

Does not look into folders below those it is asked about.
"""

import fcntl
import logging
import os
import shutil
import socket
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from bayesgram.errors import BayesgramError

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
        return cls(path, path.parent / name[1:], host) if mark == UNFINISHED and name[1:] and name[0] == "." else None

    @property
    def kind(self) -> str:
        """In words."""
        return "scratch" if self.target is None else "unfinished output"

    def discard(self) -> None:
        """Remove the folder, but first put back what it was about to replace."""
        if self.target is not None and (self.path / REPLACED).exists() and not os.path.lexists(self.target):
            _put_back(self.path / REPLACED, self.target)
        left = self.path
        for _ in range(ATTEMPTS):
            left = _remove(left)
            if not left.exists():
                return
        _log.warning("warning: %s: can't be removed, and may be private; `bayesgram clean` tries again.", left)


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
            with suppress(OSError):  # of a disk that takes no names any more: rather removed than renamed
                folder = folder.rename(folder.with_name(f"{folder.name[:-1]}X"))  # a letter that no new name has
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
        advice = "mend that" if beside else "mend that, or let the variable TMPDIR name another folder"
        raise BayesgramError(f"{parent}: nothing can be spilled to disk there ({error.strerror}); {advice}.") from error


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
        except (FileNotFoundError, FileExistsError):  # somebody took the empty folder for a dead one
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
        named = [hidden for path in sorted(folder.iterdir()) if (hidden := TemporaryFolder.named(path))]
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
        yield {True: State.LEFT, False: State.IN_USE, None: State.UNKNOWN}[_take(lock, hidden.path / LOCK)]
    finally:
        os.close(lock)


def _opened_lock(folder: Path) -> int | None:
    """The lock file of a folder, open; None if there is none.

    An empty folder gets one: its process was killed before that, or comes too late now and makes another folder.
    """
    try:
        new = not any(folder.iterdir())
        return os.open(folder / LOCK, os.O_RDWR | os.O_NOFOLLOW | (os.O_CREAT | os.O_EXCL if new else 0), 0o600)
    except OSError:
        return None


def remove_abandoned(folder: Path) -> None:
    """Remove what killed runs of this user left in a folder; what can't be removed stays, and stops nobody."""
    for hidden in found_in(folder):
        with suppress(OSError, BayesgramError), claimed(hidden) as state:
            if state is State.LEFT:
                hidden.discard()
