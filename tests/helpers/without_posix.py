"""Run the command line, or tests, as if POSIX were missing.

This is a simulation of Windows on Linux, as far as Python's own modules reach. `remove_posix` hides
what Windows lacks, and lets calls behave as they do there:

- no fcntl, fork, owners, SIGHUP, O_DIRECTORY, O_NOFOLLOW, and no permissions;
- a rename never replaces anything; a file that is open, or mapped, can't be removed, renamed or
  replaced, nor can the folder that it is in; a folder can't be opened;
- only what may be written can be flushed;
- text is read and written as cp1252, with CRLF, where the call states neither.

Not simulated: the paths of Windows, its locks (portalocker uses flock here, but our code takes the
way to portalocker), and what libraries do in C and Rust.

As a program, for the fork server, it runs the command line, with standard output in cp1252, too.
With the variable BAYESGRAM_WITHOUT_POSIX, all tests run like this (tests/conftest.py), and so do
the commands that they start (helpers/commands.py), with standard output in UTF-8.
"""

import builtins
import errno
import importlib
import io
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

ENCODING = "cp1252"
# Those that find a system call by its name when they are loaded, as they do not on Windows.
LOADED_BEFORE = ("pandas", "polars", "portalocker")
MODULES = ("fcntl", "grp", "pty", "pwd", "resource", "syslog", "termios", "tty")
OS_NAMES = (
    *("chown", "chroot", "copy_file_range", "ctermid", "eventfd", "fchdir", "fchmod", "fchown"),
    *("fdatasync", "fork", "forkpty", "fpathconf", "fstatvfs", "getegid", "geteuid", "getgid"),
    *("getgrouplist", "getgroups", "getloadavg", "getpgid", "getpgrp", "getpriority", "getresgid"),
    *("getresuid", "getsid", "getuid", "getxattr", "initgroups", "killpg", "lchown", "lockf"),
    *("memfd_create", "mkfifo", "mknod", "nice", "openpty", "pathconf", "pidfd_open", "pipe2"),
    *("posix_fadvise", "posix_fallocate", "posix_spawn", "posix_spawnp", "pread", "preadv"),
    *("pwrite", "pwritev", "readv", "register_at_fork", "sched_getaffinity", "sched_yield"),
    *("sendfile", "setegid", "seteuid", "setgid", "setgroups", "setpgid", "setpriority", "setsid"),
    *("setuid", "setxattr", "splice", "statvfs", "sync", "sysconf", "tcgetpgrp", "ttyname"),
    *("uname", "wait", "wait3", "wait4", "waitid", "writev"),
    *("O_CLOEXEC", "O_DIRECTORY", "O_DSYNC", "O_NOFOLLOW", "O_NONBLOCK", "O_PATH", "O_SYNC"),
)
SIGNALS = {"SIGINT", "SIGTERM", "SIGABRT", "SIGFPE", "SIGILL", "SIGSEGV"}

# The calls that are changed, as they were.
rename, replace, unlink, mkdir = os.rename, os.replace, os.unlink, os.mkdir
open_descriptor, fsync, open_file = os.open, os.fsync, io.open


def remove_posix():
    """Hide what Windows lacks from everything that is imported or called from here on."""
    for name in LOADED_BEFORE:
        importlib.import_module(name)
    for name in MODULES:
        sys.modules[name] = None
    for name in OS_NAMES:
        if hasattr(os, name):
            delattr(os, name)
    for name in [name for name in vars(signal) if name.startswith("SIG") and name[3].isalpha()]:
        if name not in SIGNALS:
            delattr(signal, name)
    subprocess.Popen.kill = subprocess.Popen.terminate
    shutil._use_fd_functions = False  # they need dir_fd
    shutil._USE_CP_SENDFILE = False
    tempfile.TemporaryFile = tempfile.NamedTemporaryFile  # the first is removed while it is open
    os.rename, os.replace, os.unlink, os.remove = rename_new, replace_file, remove, remove
    os.open, os.fsync, os.mkdir, os.chmod = open_plain, flush_writable, make_folder, change_mode
    io.open = builtins.open = open_text
    if os.environ.get("WITHOUT_HARD_LINKS"):  # as FAT is
        os.link = refuse_link


def refuse(path, code=errno.EACCES):
    raise OSError(code, os.strerror(code), str(path))


def refuse_link(source, target, **_):
    refuse(target, errno.EPERM)


def is_in_use(path):
    """Whether this process has a file open or mapped, or one in this folder."""
    used = set()
    for descriptor in Path("/proc/self/fd").iterdir():
        try:
            used.add(descriptor.readlink())
        except OSError:  # the one that lists them
            continue
    with open_file("/proc/self/maps", encoding="utf-8") as lines:
        used |= {Path(line.split(maxsplit=5)[5].rstrip("\n")) for line in lines if "/" in line}
    path = Path(path).parent.resolve() / Path(path).name
    return any(file == path or path in file.parents for file in used)


def rename_new(source, target):
    if os.path.lexists(target):
        refuse(target, errno.EEXIST)
    if is_in_use(source):
        refuse(source)
    rename(source, target)


def replace_file(source, target):
    if Path(target).is_dir() or is_in_use(source) or is_in_use(target):
        refuse(target)
    replace(source, target)


def remove(path, *, dir_fd=None):
    assert dir_fd is None
    if is_in_use(path):
        refuse(path)
    unlink(path)


def open_plain(path, flags, mode=0o777, *, dir_fd=None):
    assert dir_fd is None
    if Path(path).is_dir():
        refuse(path)
    return open_descriptor(path, flags, mode | 0o666)


def flush_writable(descriptor):
    with open_file(f"/proc/self/fdinfo/{descriptor}", encoding="ascii") as file:
        fields = file.read().split()
    if int(fields[fields.index("flags:") + 1], 8) & os.O_ACCMODE == os.O_RDONLY:
        refuse(descriptor, errno.EBADF)
    fsync(descriptor)


def make_folder(path, mode=0o777, *, dir_fd=None):
    assert dir_fd is None
    mkdir(path)


def change_mode(path, mode, *, dir_fd=None, follow_symlinks=True):
    """Change nothing: only "read only" could be changed."""


def open_text(
    file, mode="r", buffering=-1, encoding=None, errors=None, newline=None, *more, **named
):
    if "b" not in mode:
        encoding = ENCODING if encoding in {None, "locale"} else encoding
        newline = "\r\n" if newline is None and set(mode) & set("wax+") else newline
    return open_file(file, mode, buffering, encoding, errors, newline, *more, **named)


if __name__ == "__main__":
    remove_posix()
    if not os.environ.get("BAYESGRAM_WITHOUT_POSIX"):
        for stream in (sys.stdout, sys.stderr):
            stream.reconfigure(encoding=ENCODING, errors="strict", newline="\r\n")
    from bayesgram import system
    from bayesgram.cli.app import main

    assert system.LOCK_KIND == system.PORTALOCKER
    main()
