"""Publish a file or a folder whole or not at all.

What is written stands aside under a hidden name, is flushed to disk and takes its place by one rename; a run that
dies before leaves what was there untouched. Without `force` nothing that exists is replaced, not even something that
appears meanwhile; with `force`, a folder is replaced only if it holds exactly what would be written there.
"""

import ctypes
import errno
import os
import shutil
import socket
import sys
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from bayesgram.errors import BayesgramError, UsageError

REPLACED = "replaced"
RENAME_EXCHANGE = 2  # of Linux's renameat2
_unfinished: dict[Path, Path] = {}  # folders of this process that stand aside, and what they will be


def discard_unfinished() -> None:
    """Remove what stands aside: for a process that is told to stop."""
    for aside, target in list(_unfinished.items()):
        _discard(aside, target)


def _discard(aside: Path, target: Path) -> None:
    """Remove what stands aside, but first put back what it was about to replace."""
    if (aside / REPLACED).exists() and not target.exists():
        (aside / REPLACED).rename(target)
    shutil.rmtree(aside, ignore_errors=True)


def check_free(
    path: str | Path, *, force: bool, contents: Iterable[str] | None = None, inputs: Iterable[str | Path] = ()
) -> Path:
    """The path, if it may be written: call it before the work, so that nobody waits for a refusal.

    `contents` are the names in a folder; a file has None. `inputs` must not be lost under the output.
    """
    target = Path(os.path.abspath(path))  # noqa: PTH100 - resolve() would follow a link, and lose a trailing dot
    if not target.parent.is_dir():
        raise UsageError(f"{path}: the folder {target.parent} does not exist; make it first.")
    if target.is_symlink() and not target.exists():
        raise UsageError(f"{path}: is a link to nowhere; choose another --output.")
    if target.exists() and not force:
        raise UsageError(f"{path}: exists already; choose another --output, or replace it with --force.")
    if target.exists() and target.is_dir() != (contents is not None):
        raise UsageError(f"{path}: is a {'folder' if target.is_dir() else 'file'}; choose another --output.")
    if target.is_dir() and {entry.name for entry in target.iterdir()} - set(contents or ()):
        raise UsageError(f"{path}: holds files that are not ours, so it is not replaced; choose another --output.")
    for source in inputs:
        if Path(source).exists() and target.resolve() in [Path(source).resolve(), *Path(source).resolve().parents]:
            raise UsageError(f"{path}: would replace the input {source}; choose another --output.")
    return target


@contextmanager
def publish_file(path: str | Path, *, force: bool = False) -> Iterator[Path]:
    """A path to write to, which becomes `path` when the block ends well."""
    target = check_free(path, force=force)
    with _aside(target) as aside:
        file = aside / target.name
        yield file
        _flush(file)
        if force:
            file.replace(target)
        else:
            _place_new_file(file, target)
        _flush(target.parent)


@contextmanager
def publish_folder(
    path: str | Path, *, contents: Iterable[str], force: bool = False, private: bool = False
) -> Iterator[Path]:
    """A folder to fill with these contents, which becomes `path` when the block ends well."""
    target = check_free(path, force=force, contents=contents)
    with _aside(target) as aside:
        folder = aside / target.name
        folder.mkdir()
        if private:
            folder.chmod(0o700)
        yield folder
        for file in [*folder.rglob("*"), folder]:
            _flush(file)
        if force and target.exists():
            check_free(path, force=True, contents=contents)
            _replace_folder(folder, target, aside / REPLACED)
        else:
            folder.rename(target)  # refuses a folder that is not empty
        _flush(target.parent)


def _replace_folder(folder: Path, target: Path, replaced: Path) -> None:
    """Swap the two at one stroke where the system can; else in two steps, which `_discard` takes back if need be."""
    renameat2 = getattr(ctypes.CDLL(None), "renameat2", None) if sys.platform == "linux" else None
    here = -100  # AT_FDCWD: paths as they are
    if renameat2 and renameat2(here, os.fsencode(folder), here, os.fsencode(target), RENAME_EXCHANGE) == 0:
        return
    target.rename(replaced)
    folder.rename(target)


def _place_new_file(file: Path, target: Path) -> None:
    """Rename, but never over something that appeared meanwhile."""
    try:
        target.hardlink_to(file)
    except FileExistsError:
        raise
    except OSError:  # a file system without hard links
        file.rename(target)


@contextmanager
def _aside(target: Path) -> Iterator[Path]:
    """A private folder beside the target (so that a rename suffices), gone when the block ends."""
    prefix = f".{target.name}.unfinished-{socket.gethostname()}-"
    try:
        _remove_stale(target, prefix)
        aside = Path(tempfile.mkdtemp(prefix=f"{prefix}{os.getpid()}-", dir=target.parent))
    except OSError as error:
        raise UsageError(f"{target}: can't be written there ({error.strerror}); choose another --output.") from None
    try:
        with discarded(aside, target):
            yield aside
    except OSError as error:
        if error.errno in {errno.EEXIST, errno.ENOTEMPTY}:
            raise UsageError(f"{target}: appeared meanwhile and was not replaced; choose another --output.") from None
        raise BayesgramError(
            f"{target}: writing failed ({error.strerror}); nothing was left behind. Free some space, then run it again."
        ) from error


@contextmanager
def discarded(aside: Path, target: Path) -> Iterator[None]:
    """Remove a folder at the end, however this process ends (but for kill -9)."""
    _unfinished[aside] = target
    try:
        yield
    finally:
        _discard(aside, target)
        del _unfinished[aside]


def _remove_stale(target: Path, prefix: str) -> None:
    """Remove what killed processes of this machine left aside for the same target."""
    for stale in target.parent.iterdir():
        number = stale.name.removeprefix(prefix).partition("-")[0]
        if stale.name.startswith(prefix) and number.isdigit() and not _is_alive(int(number)):
            _discard(stale, target)


def _is_alive(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def _flush(path: Path) -> None:
    """Fsync a file or a folder."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
