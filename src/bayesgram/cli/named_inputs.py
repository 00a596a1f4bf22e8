"""Arguments with names: NAME=PATH is a source, a text or a model with a name; what has no name is one of them.

Releases as arguments: a folder, a folder of them, or NAME=PATH; every release has a name of its own.

Vocabularies that belong to releases, checked once for all commands that take both.
"""

import glob
import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bayesgram.cli import console
from bayesgram.errors import UsageError

if TYPE_CHECKING:
    from bayesgram.public.vocabulary import Vocabulary
    from bayesgram.releases.release import Release


def by_name(public: Sequence[str]) -> dict[str, list[str]]:
    """The paths of each source; {"": paths} where none has a name."""
    from bayesgram.public.mixture import check_source_names

    found = paths_by_name(public, "source")
    if "" not in found:
        check_source_names(list(found))
    return found


def paths_by_name(arguments: Sequence[str], what: str) -> dict[str, list[str]]:
    """The same for whatever has names."""
    given = [(one, *split(one, what)) for one in arguments]
    plain, named = (
        [one for one, name, _ in given if bool(name) == wanted] for wanted in (False, True)
    )
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
    from bayesgram.public.mixture import NAME_PATTERN, NAME_RULE

    name, equals, path = one.partition("=")
    if not equals or "/" in name or not name:
        return "", one
    whole, rest = _is_there(one), _is_there(path)
    if whole and rest and NAME_PATTERN.fullmatch(name):
        raise UsageError(
            f"{one}: there is a file of this name, and {path} is there too; write ./{one} for the first, and"
            f" {name}={os.path.join('.', os.path.relpath(path))} for a {what} called {name!r}."  # noqa: PTH118 - keeps ./
        )
    if whole:
        return "", one
    if not NAME_PATTERN.fullmatch(name):
        raise UsageError(
            f"{one}: {name!r} is no name of a {what}; {NAME_RULE}. A path with = in it is written ./{one}."
        )
    if not path:
        raise UsageError(f"{one}: names no file; give {name}=PATH.")
    return name, path if rest or not path.startswith("~") else os.path.expanduser(path)  # noqa: PTH111 - stays text


def _is_there(path: str) -> bool:
    """Whether something has this path, or matches it."""
    try:
        return "://" not in path and (
            os.path.lexists(path) or (glob.has_magic(path) and bool(glob.glob(path)))  # noqa: PTH207
        )
    except (OSError, ValueError):
        return False


def paths(sources: dict[str, list[str]]) -> list[str]:
    """What all sources read."""
    return [path for given in sources.values() for path in given]


def skipped_rows(sources: Iterable[Any]) -> dict[str, int]:
    """How many rows of all sources were skipped, and why."""
    total: dict[str, int] = {}
    for source in sources:
        for reason, rows in (
            source.bad_rows.by_reason.items() if hasattr(source, "bad_rows") else ()
        ):
            total[reason] = total.get(reason, 0) + rows
    return total


def told(vocabulary: "Vocabulary") -> dict[str, dict[str, int]]:
    """What each source has of a vocabulary, for JSON."""
    rows = zip(vocabulary.source_names, vocabulary.counts_by_source, strict=True)
    return {
        name: {"ngrams": int((counts > 0).sum()), "total": int(counts.sum())}
        for name, counts in rows
    }


def show(vocabulary: "Vocabulary") -> None:
    """The same for people, if there are sources with names."""
    if vocabulary.sources:
        columns = ("source", "n-grams it has", "their total")
        rows = [
            (name, f"{own['ngrams']:,}", f"{own['total']:,}")
            for name, own in told(vocabulary).items()
        ]
        console.print_table("Sources", columns, rows, right=columns[1:])


def load(given: Sequence[str]) -> "list[tuple[str, Release]]":
    """What was given, in order, each by its name."""
    from bayesgram.releases.release import Release

    return [(name, Release.load(path)) for path, name in names(given).items()]


def names(given: Sequence[str]) -> dict[str, str]:
    """By path: the name that was given, or as little of the path as tells it from others; a path given twice is one."""
    from bayesgram.releases.segmented import find_release_folders, short_names

    found: dict[str, str] = {}
    for one in given:
        name, path = split(one, "release")
        folders = find_release_folders(path)
        for folder in folders:
            own = f"{name}/{folder.name}" if name and len(folders) > 1 else name
            found[str(folder)] = own or found.get(str(folder), "")
    short = short_names(list(found))
    named = {path: name or short[path] for path, name in found.items()}
    for path, name in named.items():
        other = next(each for each, known in named.items() if known == name)
        if other != path:
            raise UsageError(
                f"{other} and {path}: both are called {name!r}; give one another name (NAME=PATH)."
            )
    return named


UNKNOWN = "{names}: made with another vocabulary, so without public text to compare with; give theirs too (--vocab)."
UNUSED = "{path}: none of these releases was made with it; it is left out."


def matching(vocab: Path, releases: "Sequence[tuple[str, Release]]") -> "Vocabulary":
    """The vocabulary, if all releases were made with it."""
    from bayesgram.public.vocabulary import Vocabulary
    from bayesgram.releases.release import check_vocabulary

    vocabulary = Vocabulary.load(vocab)
    for name, release in releases:
        check_vocabulary(release, vocabulary, name=name, given=str(vocab))
    return vocabulary


def belonging(
    paths: "Sequence[Path]", releases: "Sequence[tuple[str, Release]]"
) -> "list[Vocabulary]":
    """Those given that belong to releases; says which are left out, and which releases have none.

    One that is nobody's is refused where a release lacks its own: it was most likely meant for that release.
    """
    from bayesgram.public.vocabulary import Vocabulary
    from bayesgram.releases.release import check_vocabulary, is_made_with

    loaded = {path: Vocabulary.load(path) for path in paths}
    lacking = [
        (name, release)
        for name, release in releases
        if not any(is_made_with(release, v) for v in loaded.values())
    ]
    used = [
        path
        for path, vocabulary in loaded.items()
        if any(is_made_with(release, vocabulary) for _, release in releases)
    ]
    for path, vocabulary in loaded.items():
        if path in used:
            continue
        if lacking:
            name, release = lacking[0]
            check_vocabulary(release, vocabulary, name=name, given=str(path))
        console.say(UNUSED.format(path=path))
    if used and lacking:
        console.say(UNKNOWN.format(names=", ".join(name for name, _ in lacking)))
    return [loaded[path] for path in used]
