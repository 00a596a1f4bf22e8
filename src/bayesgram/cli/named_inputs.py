"""Arguments with names: NAME=PATH is a source, a text, a model or a release with a name.

Also the releases and vocabularies that commands read, where several belong together.
"""

import glob
import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from bayesgram.cli import console
from bayesgram.errors import UsageError

if TYPE_CHECKING:
    from bayesgram.public.public_model import PublicModel
    from bayesgram.public.sources import OpenSource
    from bayesgram.public.vocabulary import Vocabulary
    from bayesgram.releases.release import Release

# --- NAME=PATH ---


def split_name(argument: str, kind: str) -> tuple[str, str]:
    """Split NAME=PATH; the name is empty if the argument is a path, which may have a = in it.

    Args:
        argument: What was typed.
        kind: What has the name ("source"), for messages.
    """
    from bayesgram.io.uris import is_uri
    from bayesgram.public.mixture import NAME_PATTERN, NAME_RULE

    if is_uri(argument):
        return "", argument
    name, equals, path = argument.partition("=")
    if not equals or "/" in name or not name:
        return "", argument
    argument_exists = _exists(argument)
    path_exists = _exists(path)
    if argument_exists and path_exists and NAME_PATTERN.fullmatch(name):
        relative = os.path.join(".", os.path.relpath(path))  # noqa: PTH118 - keeps ./
        raise UsageError(
            f"{argument}: there is a file of this name, and {path} is there too; write ./{argument}"
            f" for the first, and {name}={relative} for a {kind} called {name!r}."
        )
    if argument_exists:
        return "", argument
    if not NAME_PATTERN.fullmatch(name):
        raise UsageError(
            f"{argument}: {name!r} is no name of a {kind}; {NAME_RULE}. A path with = in it is"
            f" written ./{argument}."
        )
    if not path:
        raise UsageError(f"{argument}: names no file; give {name}=PATH.")
    if path.startswith("~") and not path_exists:
        path = os.path.expanduser(path)  # noqa: PTH111 - stays text
    return name, path


def _exists(path: str) -> bool:
    """Return whether a file has this path or matches this pattern."""
    from bayesgram.io.uris import is_uri

    try:
        return not is_uri(path) and (
            os.path.lexists(path) or (glob.has_magic(path) and bool(glob.glob(path)))  # noqa: PTH207
        )
    except (OSError, ValueError):
        return False


def paths_by_name(arguments: Sequence[str], kind: str) -> dict[str, list[str]]:
    """Return the path of each name; {"": paths} where no argument has a name.

    Args:
        arguments: What was typed: NAME=PATH all, or PATH all.
        kind: What has the names ("text"), for messages.
    """
    split = [(argument, *split_name(argument, kind)) for argument in arguments]
    named = [argument for argument, name, _ in split if name]
    unnamed = [argument for argument, name, _ in split if not name]
    if named and unnamed:
        raise UsageError(
            f"{named[0]} has a name and {unnamed[0]} has none; give every {kind} a name"
            " (NAME=PATH), or none of them."
        )
    if not named:
        return {"": [path for _, _, path in split]}
    paths: dict[str, list[str]] = {}
    for argument, name, path in split:
        if name in paths:
            raise UsageError(
                f"{argument}: the {kind} {name!r} has {paths[name][0]} already; several files of"
                f" one {kind} are a folder ({name}=folder) or a quoted pattern"
                f" ('{name}=folder/*.txt')."
            )
        paths[name] = [path]
    return paths


def source_paths(public: Sequence[str]) -> dict[str, list[str]]:
    """Return the paths of each public source; {"": paths} where none has a name."""
    from bayesgram.public.mixture import check_source_names

    paths = paths_by_name(public, "source")
    if "" not in paths:
        check_source_names(list(paths))
    return paths


def all_paths(sources: dict[str, list[str]]) -> list[str]:
    """Return the paths of all sources together."""
    return [path for paths in sources.values() for path in paths]


def model_names(arguments: Sequence[str]) -> dict[str, str]:
    """Return the name of each model by its path.

    That is NAME of NAME=PATH, or as little of the path as tells it from the others.
    """
    from bayesgram.releases.segmented import short_names

    names: dict[str, str] = {}
    for argument in arguments:
        name, path = split_name(argument, "model")
        if path in names:
            raise UsageError(f"{argument}: is given twice; give each once.")
        names[path] = name
    short = short_names(list(names))
    return {path: name or short[path] for path, name in names.items()}


# --- Releases ---


def release_names(arguments: Sequence[str], *, name_segments: bool = False) -> dict[str, str]:
    """Return the name of each release by its path, looking into folders of releases.

    That is NAME of NAME=PATH, or as little of the path as tells it from the others. A path that is
    given twice is one release.

    Args:
        arguments: What was typed.
        name_segments: Whether a segment keeps the name of its release: `countries/de`, not `de`.
    """
    from bayesgram.releases.segmented import find_release_folders, is_segment_folder, short_names

    given_names: dict[str, str] = {}
    for argument in arguments:
        name, path = split_name(argument, "release")
        folders = find_release_folders(path)
        for folder in folders:
            folder_name = f"{name}/{folder.name}" if name and len(folders) > 1 else name
            given_names[str(folder)] = folder_name or given_names.get(str(folder), "")
    segments = [path for path in given_names if name_segments and is_segment_folder(path)]
    short = short_names(list(given_names), with_parent=segments)
    names = {path: name or short[path] for path, name in given_names.items()}
    path_of_name: dict[str, str] = {}
    for path, name in names.items():
        other = path_of_name.setdefault(name, path)
        if other != path:
            raise UsageError(
                f"{other} and {path}: both are called {name!r}; give one another name (NAME=PATH)."
            )
    return names


def print_public_models(models: "Iterable[tuple[str, PublicModel | None]]") -> None:
    """Say from which public model the language model of each release starts.

    Args:
        models: The name of each release, and its public model if there is one.
    """
    names_of_model: dict[str, list[str]] = {}
    for name, public in models:
        model = "the release alone, without a public model: a rough model"
        if public is not None:
            sources = console.join_words(public.source_names)
            model = f"the public model ({sources}), corrected by the release"
        names_of_model.setdefault(model, []).append(name)
    for model, names in names_of_model.items():
        console.print_note(f"Language model of {console.join_words(names)}: {model}.")


# --- Vocabularies of releases ---


def load_vocabulary_of(path: Path, releases: "Sequence[tuple[str, Release]]") -> "Vocabulary":
    """Load a vocabulary with which all these releases were made; refuse any other."""
    from bayesgram.public.vocabulary import Vocabulary
    from bayesgram.releases.release import check_vocabulary

    vocabulary = Vocabulary.load(path)
    for name, release in releases:
        check_vocabulary(release, vocabulary, name=name, vocabulary_name=str(path))
    return vocabulary


def load_vocabularies_of(
    paths: Sequence[Path], releases: "Sequence[tuple[str, Release]]"
) -> "list[Vocabulary]":
    """Load vocabularies, and return those with which some of these releases were made.

    Notes say which vocabularies are left out, and which releases have none. A vocabulary of no
    release is refused where a release lacks its own: it was most likely meant for that release.
    """
    from bayesgram.public.vocabulary import Vocabulary
    from bayesgram.releases.release import check_vocabulary, is_made_with

    vocabularies = {path: Vocabulary.load(path) for path in paths}
    without_vocabulary = [
        (name, release)
        for name, release in releases
        if not any(is_made_with(release, vocabulary) for vocabulary in vocabularies.values())
    ]
    used: list[Vocabulary] = []
    for path, vocabulary in vocabularies.items():
        if any(is_made_with(release, vocabulary) for _, release in releases):
            used.append(vocabulary)
            continue
        if without_vocabulary:
            name, release = without_vocabulary[0]
            check_vocabulary(release, vocabulary, name=name, vocabulary_name=str(path))
        console.print_note(f"{path}: none of these releases was made with it; it is left out.")
    if used and without_vocabulary:
        names = ", ".join(name for name, _ in without_vocabulary)
        console.print_note(
            f"{names}: made with another vocabulary, so without public text to compare with; give"
            " theirs too (--vocab)."
        )
    return used


# --- Public sources of a vocabulary ---


def skipped_rows(sources: "Iterable[OpenSource]") -> dict[str, int]:
    """Return how many rows of all sources were skipped, by the reason."""
    total: dict[str, int] = {}
    for source in sources:
        bad_rows = getattr(source, "bad_rows", None)  # sources that are no text have none
        for reason, count in bad_rows.by_reason.items() if bad_rows else ():
            total[reason] = total.get(reason, 0) + count
    return total


def source_sizes(vocabulary: "Vocabulary") -> dict[str, dict[str, int]]:
    """Return what each source has of a vocabulary's n-grams, for JSON."""
    by_source = zip(vocabulary.source_names, vocabulary.counts_by_source, strict=True)
    return {
        name: {"ngrams": int((counts > 0).sum()), "total": int(counts.sum())}
        for name, counts in by_source
    }


def print_sources(vocabulary: "Vocabulary") -> None:
    """Print what each source has of a vocabulary's n-grams, if sources have names."""
    if not vocabulary.sources:
        return
    columns = ("source", "n-grams it has", "their total")
    rows = [
        (name, f"{sizes['ngrams']:,}", f"{sizes['total']:,}")
        for name, sizes in source_sizes(vocabulary).items()
    ]
    console.print_table("Sources", columns, rows, right=columns[1:])
