"""Releases as arguments: a folder, a folder of them, or NAME=PATH; every release has a name of its own."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from bayesgram.cli import sources
from bayesgram.errors import UsageError

if TYPE_CHECKING:
    from bayesgram.released.release import Release


def load(given: Sequence[str]) -> "list[tuple[str, Release]]":
    """What was given, in order, each by its name."""
    from bayesgram.released.release import Release

    return [(name, Release.load(path)) for path, name in names(given).items()]


def names(given: Sequence[str]) -> dict[str, str]:
    """By path: the name that was given, or as little of the path as tells it from others; a path given twice is one."""
    from bayesgram.released.folders import release_folders, short_names

    found: dict[str, str] = {}
    for one in given:
        name, path = sources.split(one, "release")
        folders = release_folders(path)
        for folder in folders:
            own = f"{name}/{folder.name}" if name and len(folders) > 1 else name
            found[str(folder)] = own or found.get(str(folder), "")
    short = short_names(list(found))
    named = {path: name or short[path] for path, name in found.items()}
    for path, name in named.items():
        other = next(each for each, known in named.items() if known == name)
        if other != path:
            raise UsageError(f"{other} and {path}: both are called {name!r}; give one another name (NAME=PATH).")
    return named
