"""Run the command line as if POSIX were missing: a program for the fork server.

A simulation of Windows on Linux, as far as Python's own modules reach. `remove_posix` hides what
Windows lacks, and lets calls behave as they do there:

- no fcntl, fork, owners, SIGHUP, O_DIRECTORY, O_NOFOLLOW, and no mode but "read only";
- a rename never replaces anything; a file that is open, or mapped, can't be removed, renamed or
  replaced, nor can the folder that it is in; a folder can't be opened;
- only what may be written can be flushed;
- text that states neither is read and written as cp1252, with CRLF, also on standard output.

Not simulated: the paths of Windows, its locks (portalocker uses flock here, but this is what takes
portalocker's way through our code), and what libraries do in C and Rust.
"""

import builtins
import errno
import importlib
import io
import os
import shutil
import signal
import sys
import tempfile
from pathlib import Path

ENCODING = "cp1252"
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
SIGNALS = {"SIGINT", "SIGTERM", "SIGABRT", "SIGFPE", "SIGILL", "SIGSEGV", "SIGBREAK"}


def remove_posix():
    """Hide what Windows lacks from everything that is imported or called from here on."""
    importlib.import_module("portalocker")  # as its own way to lock needs fcntl here
    for name in MODULES:
        sys.modules[name] = None
    for name in OS_NAMES:
        if hasattr(os, name):
            delattr(os, name)
    for name in [name for name in vars(signal) if name.startswith("SIG") and name[3].isalpha()]:
        if name not in SIGNALS:
            delattr(signal, name)
    shutil._use_fd_functions = False  # they need dir_fd
    _change_files()
    _change_text()


def _refuse(path, code=errno.EACCES):
    raise OSError(code, os.strerror(code), str(path))


def _is_in_use(path):
    """Whether this process has a file open or mapped, or one in this folder."""
    used = set()
    for descriptor in Path("/proc/self/fd").iterdir():
        try:
            used.add(descriptor.readlink())
        except OSError:  # the one that lists them
            continue
    with real_open("/proc/self/maps", encoding="utf-8") as lines:
        used |= {Path(line.split(maxsplit=5)[5].rstrip("\n")) for line in lines if "/" in line}
    path = Path(path).parent.resolve() / Path(path).name
    return any(file == path or path in file.parents for file in used)


real_open = io.open


def _change_files():
    rename, replace, unlink, link = os.rename, os.replace, os.unlink, os.link
    mkdir, open_file, fsync = os.mkdir, os.open, os.fsync

    def rename_new(source, target):
        if os.path.lexists(target):
            _refuse(target, errno.EEXIST)
        if _is_in_use(source):
            _refuse(source)
        rename(source, target)

    def replace_file(source, target):
        if Path(target).is_dir() or _is_in_use(source) or _is_in_use(target):
            _refuse(target)
        replace(source, target)

    def remove_closed(path, *, dir_fd=None):
        assert dir_fd is None
        if _is_in_use(path):
            _refuse(path)
        unlink(path)

    def open_plain(path, flags, mode=0o777, *, dir_fd=None):
        assert dir_fd is None
        if Path(path).is_dir():
            _refuse(path)
        return open_file(path, flags, mode | 0o666)

    def flush_writable(descriptor):
        fields = real_open(f"/proc/self/fdinfo/{descriptor}", encoding="ascii").read().split()
        if int(fields[fields.index("flags:") + 1], 8) & os.O_ACCMODE == os.O_RDONLY:
            _refuse(descriptor, errno.EBADF)
        fsync(descriptor)

    os.rename, os.replace, os.unlink, os.remove = (
        rename_new,
        replace_file,
        remove_closed,
        remove_closed,
    )
    os.open, os.fsync = open_plain, flush_writable
    tempfile.TemporaryFile = tempfile.NamedTemporaryFile  # the other is removed while it is open
    os.mkdir = lambda path, mode=0o777, *, dir_fd=None: mkdir(path)
    os.chmod = lambda path, mode, **_: None  # no more than "read only" could change
    if os.environ.get("WITHOUT_HARD_LINKS"):  # such as FAT
        os.link = lambda *_, **__: _refuse("link", errno.EPERM)
    else:
        os.link = link


def _change_text():
    """Text is cp1252 with CRLF where nothing else is said."""

    def open_text(
        file, mode="r", buffering=-1, encoding=None, errors=None, newline=None, *more, **named
    ):
        if "b" not in mode:
            encoding = ENCODING if encoding in {None, "locale"} else encoding
            newline = "\r\n" if newline is None and set(mode) & set("wax+") else newline
        return real_open(file, mode, buffering, encoding, errors, newline, *more, **named)

    io.open = builtins.open = open_text
    for stream in (sys.stdout, sys.stderr):
        stream.reconfigure(encoding=ENCODING, errors="strict", newline="\r\n")


if __name__ == "__main__":
    remove_posix()
    from bayesgram import system
    from bayesgram.cli.app import main

    assert system.LOCK_KIND == system.PORTALOCKER
    main()
