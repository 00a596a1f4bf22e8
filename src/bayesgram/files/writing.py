"""Publish a file or a folder whole or not at all.

What is written stands aside under a hidden name, is flushed to disk and takes its place by one rename; a run that
dies before leaves what was there untouched. Does not replace anything unless told to.
"""

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from bayesgram.errors import BayesgramError, UsageError


def check_free(path: str | Path, *, force: bool, marker: str | None = None) -> Path:
    """The path, if it may be written: call it before the work, so that nobody waits for a refusal.

    With `force`, a file replaces a file, and a folder only one that has the marker: a slip deletes nothing.
    """
    target = Path(path)
    if target.exists() and not force:
        raise UsageError(f"{target}: exists already; choose another --output, or replace it with --force.")
    if target.exists() and target.is_dir() != (marker is not None):
        raise UsageError(f"{target}: is a {'folder' if target.is_dir() else 'file'}; choose another --output.")
    if target.is_dir() and not (target / str(marker)).exists():
        raise UsageError(f"{target}: has no {marker}, so it is not a folder to replace; choose another --output.")
    if not target.absolute().parent.is_dir():
        raise UsageError(f"{target}: the folder {target.absolute().parent} does not exist; make it first.")
    return target


@contextmanager
def publish_file(path: str | Path, *, force: bool = False) -> Iterator[Path]:
    """A path to write to, which becomes `path` when the block ends well."""
    target = check_free(path, force=force)
    with _aside(target) as aside:
        file = aside / target.name
        yield file
        _flush(file)
        file.replace(target)
        _flush(target.absolute().parent)


@contextmanager
def publish_folder(path: str | Path, *, marker: str, force: bool = False, mode: int = 0o755) -> Iterator[Path]:
    """A folder to fill, marker file included, which becomes `path` when the block ends well."""
    target = check_free(path, force=force, marker=marker)
    with _aside(target) as aside:
        folder = aside / target.name
        folder.mkdir()
        folder.chmod(mode)
        yield folder
        for file in [*folder.rglob("*"), folder]:
            _flush(file)
        if target.exists():
            target.rename(aside / "replaced")
        folder.rename(target)
        _flush(target.absolute().parent)


@contextmanager
def _aside(target: Path) -> Iterator[Path]:
    """A private folder beside the target (so that a rename suffices), gone when the block ends."""
    try:
        aside = Path(tempfile.mkdtemp(prefix=f".{target.name}-", dir=target.absolute().parent))
    except OSError as error:
        raise UsageError(f"{target}: can't be written there ({error.strerror}); choose another --output.") from None
    try:
        yield aside
    except OSError as error:
        raise BayesgramError(
            f"{target}: writing failed ({error.strerror}); nothing was left behind. Free some space, then run it again."
        ) from error
    finally:
        shutil.rmtree(aside, ignore_errors=True)


def _flush(path: Path) -> None:
    """Fsync a file or a folder."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
