"""Arguments with names: NAME=PATH is a source, a text or a model with a name; what has no name is one of them."""

import glob
import os
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from bayesgram.cli import console
from bayesgram.errors import UsageError

if TYPE_CHECKING:
    from bayesgram.public.vocabulary import Vocabulary


def by_name(public: Sequence[str]) -> dict[str, list[str]]:
    """The paths of each source; {"": paths} where none has a name."""
    from bayesgram.public.sources import check_names

    found = paths_by_name(public, "source")
    if "" not in found:
        check_names(list(found))
    return found


def paths_by_name(arguments: Sequence[str], what: str) -> dict[str, list[str]]:
    """The same for whatever has names."""
    given = [(one, *split(one, what)) for one in arguments]
    plain, named = ([one for one, name, _ in given if bool(name) == wanted] for wanted in (False, True))
    if plain and named:
        raise UsageError(
            f"{named[0]} has a name and {plain[0]} has none; give every {what} a name (NAME=PATH), or none of them."
        )
    if not named:
        return {"": [path for _, _, path in given]}
    found: dict[str, list[str]] = {}
    for one, name, path in given:
        if name in found:
            raise UsageError(
                f"{one}: the {what} {name!r} has {found[name][0]} already; several files of one {what} are a folder"
                f" ({name}=folder) or a quoted pattern ('{name}=folder/*.txt')."
            )
        found[name] = [path]
    return found


def split(one: str, what: str) -> tuple[str, str]:
    """The name and the path of an argument; no name, if it is a path that has a = in it."""
    from bayesgram.public.sources import NAME, NAMES

    name, equals, path = one.partition("=")
    if not equals or "/" in name or not name:
        return "", one
    whole, rest = _is_there(one), _is_there(path)
    if whole and rest and NAME.fullmatch(name):
        raise UsageError(
            f"{one}: there is a file of this name, and {path} is there too; write ./{one} for the first, and"
            f" {name}={os.path.join('.', os.path.relpath(path))} for a {what} called {name!r}."  # noqa: PTH118 - keeps ./
        )
    if whole:
        return "", one
    if not NAME.fullmatch(name):
        raise UsageError(f"{one}: {name!r} is no name of a {what}; {NAMES}. A path with = in it is written ./{one}.")
    if not path:
        raise UsageError(f"{one}: names no file; give {name}=PATH.")
    return name, path if rest or not path.startswith("~") else os.path.expanduser(path)  # noqa: PTH111 - stays text


def _is_there(path: str) -> bool:
    """Whether something has this path, or matches it."""
    try:
        return "://" not in path and (os.path.lexists(path) or (glob.has_magic(path) and bool(glob.glob(path))))  # noqa: PTH207
    except (OSError, ValueError):
        return False


def paths(sources: dict[str, list[str]]) -> list[str]:
    """What all sources read."""
    return [path for given in sources.values() for path in given]


def skipped_rows(sources: Iterable[Any]) -> dict[str, int]:
    """How many rows of all sources were skipped, and why."""
    total: dict[str, int] = {}
    for source in sources:
        for reason, rows in source.bad_rows.by_reason.items() if hasattr(source, "bad_rows") else ():
            total[reason] = total.get(reason, 0) + rows
    return total


def told(vocabulary: "Vocabulary") -> dict[str, dict[str, int]]:
    """What each source has of a vocabulary, for JSON."""
    rows = zip(vocabulary.source_names, vocabulary.by_source, strict=True)
    return {name: {"ngrams": int((counts > 0).sum()), "total": int(counts.sum())} for name, counts in rows}


def show(vocabulary: "Vocabulary") -> None:
    """The same for people, if there are sources with names."""
    if vocabulary.sources:
        columns = ("source", "n-grams it has", "their total")
        rows = [(name, f"{own['ngrams']:,}", f"{own['total']:,}") for name, own in told(vocabulary).items()]
        console.print_table("Sources", columns, rows, right=columns[1:])
