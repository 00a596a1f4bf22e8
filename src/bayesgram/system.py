"""What depends on the operating system: locks, renames, flushing, owners and the list of signals.

POSIX systems lock files with `flock`. Elsewhere (Windows) the library portalocker takes its place;
its shared locks need pywin32. Both kinds are released by the system however a process ends, but
neither sees the locks of the other, so systems that share a file must use the same kind:
`LOCK_KIND` names it. docs/systems.md says what is promised on which system.

Locks of Windows forbid others to read what is locked, so a lock file holds nothing.
"""

import ctypes
import errno
import os
import signal
import stat
import sys
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from types import ModuleType

fcntl: ModuleType | None
try:
    fcntl = import_module("fcntl")
except ImportError:  # Windows
    fcntl = None

FLOCK = "flock"
PORTALOCKER = "portalocker"
LOCK_KIND = PORTALOCKER if fcntl is None else FLOCK

# Whether a file that is open can be removed, and a folder with such a file renamed.
CAN_REMOVE_OPEN_FILES = fcntl is not None

# Flags that a system may lack. O_BINARY exists on Windows alone: bytes stay as they are.
NO_FOLLOW = getattr(os, "O_NOFOLLOW", 0)
CLOSE_ON_EXEC = getattr(os, "O_CLOEXEC", 0)
BINARY = getattr(os, "O_BINARY", 0)

# Flags of Linux's renameat2, and its value for "relative to the working directory".
RENAME_NOREPLACE = 1
RENAME_EXCHANGE = 2
AT_FDCWD = -100

# The signals that end a command in order; Windows has no SIGHUP, but SIGBREAK (Ctrl-Break).
STOP_SIGNALS = tuple(
    getattr(signal, name)
    for name in ("SIGINT", "SIGTERM", "SIGHUP", "SIGBREAK")
    if hasattr(signal, name)
)


# --- Locks ---


def try_lock(descriptor: int, *, exclusive: bool) -> bool:
    """Lock an open lock file if nobody holds it, and return whether that was possible.

    Args:
        descriptor: Of the lock file.
        exclusive: Whether nobody else may hold the lock, not even shared.

    Raises:
        OSError: If files can't be locked there.
    """
    if fcntl is not None:
        operation = fcntl.LOCK_EX if exclusive else fcntl.LOCK_SH
        try:
            fcntl.flock(descriptor, operation | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True
    import portalocker  # noqa: PLC0415 - installed where there is no flock

    kind = portalocker.LockFlags.EXCLUSIVE if exclusive else portalocker.LockFlags.SHARED
    try:
        portalocker.lock(descriptor, kind | portalocker.LockFlags.NON_BLOCKING)
    except portalocker.AlreadyLocked:
        return False
    except (portalocker.LockException, ImportError) as error:
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK)) from error
    return True


def unlock(descriptor: int) -> None:
    """Release a lock, also for a child that was forked meanwhile."""
    if fcntl is not None:
        fcntl.flock(descriptor, fcntl.LOCK_UN)
        return
    import portalocker  # noqa: PLC0415 - installed where there is no flock

    with suppress(portalocker.LockException):  # closing the file releases it, too
        portalocker.unlock(descriptor)


def open_without_following(path: Path, flags: int, mode: int = 0o600) -> int:
    """Open a file, and return its descriptor, unless its name is a symbolic link.

    Where the system can't refuse links itself, the name is looked at just before.

    Raises:
        OSError: If it is a link, or can't be opened.
    """
    if not NO_FOLLOW and path.is_symlink():
        raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), str(path))
    return os.open(path, flags | NO_FOLLOW | CLOSE_ON_EXEC | BINARY, mode)


# --- Permissions and owners ---


def share_like(descriptor: int, status: os.stat_result) -> None:
    """Give a file of this user the group and permissions of another; no more than POSIX has."""
    if sys.platform == "win32" or not hasattr(os, "geteuid"):
        return
    if os.fstat(descriptor).st_uid != os.geteuid():
        return
    with suppress(OSError):  # a group that this user is not in
        os.fchown(descriptor, -1, status.st_gid)
        os.fchmod(descriptor, status.st_mode & 0o666)


def is_folder_of_user(path: Path) -> bool:
    """Return whether a path is a folder, no link, of this user; of anybody where none is known."""
    try:
        status = path.lstat()
    except OSError:
        return False
    is_own = not hasattr(os, "getuid") or status.st_uid == os.getuid()
    return stat.S_ISDIR(status.st_mode) and is_own


# --- Flushing and renaming ---


def flush(path: Path) -> None:
    """Fsync a file or a folder; a folder only where the system can open one."""
    flags = os.O_RDONLY
    if not hasattr(os, "O_DIRECTORY"):
        if path.is_dir():
            return
        flags = os.O_RDWR | BINARY  # Windows flushes only what it may write
    descriptor = os.open(path, flags)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def try_exchange(source: Path, target: Path) -> bool:
    """Swap two names at once, and return whether the system can."""
    return _try_renameat2(source, target, RENAME_EXCHANGE)


def try_rename_new(source: Path, target: Path) -> bool:
    """Rename, but never over something that exists, and return whether the system can.

    Raises:
        FileExistsError: If the target exists.
    """
    return _try_renameat2(source, target, RENAME_NOREPLACE)


def _try_renameat2(source: Path, target: Path, flags: int) -> bool:
    if sys.platform != "linux" or fcntl is None:
        return False
    renameat2 = getattr(ctypes.CDLL(None, use_errno=True), "renameat2", None)
    if renameat2 is None:
        return False
    if renameat2(AT_FDCWD, os.fsencode(source), AT_FDCWD, os.fsencode(target), flags) == 0:
        return True
    if ctypes.get_errno() == errno.EEXIST:
        raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(target))
    return False
