"""Vocabularies that belong to releases, checked once for all commands that take both."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from bayesgram.cli import console

if TYPE_CHECKING:
    from bayesgram.public.vocabulary import Vocabulary
    from bayesgram.released.release import Release

UNKNOWN = "{names}: made with another vocabulary, so without public text to compare with; give theirs too (--vocab)."


def matching(vocab: Path, releases: "Sequence[tuple[str, Release]]") -> "Vocabulary":
    """The vocabulary, if all releases were made with it."""
    from bayesgram.public.vocabulary import Vocabulary
    from bayesgram.released.release import check_vocabulary

    vocabulary = Vocabulary.load(vocab)
    for name, release in releases:
        check_vocabulary(release, vocabulary, name=name, given=str(vocab))
    return vocabulary


def belonging(paths: "Sequence[Path]", releases: "Sequence[tuple[str, Release]]") -> "list[Vocabulary]":
    """Those given, each of which belongs to a release; says which releases have none."""
    from bayesgram.public.vocabulary import Vocabulary
    from bayesgram.released.release import check_vocabulary, fits

    loaded = [Vocabulary.load(path) for path in paths]
    for path, vocabulary in zip(paths, loaded, strict=True):
        if not any(fits(release, vocabulary) for _, release in releases):
            check_vocabulary(releases[0][1], vocabulary, name=releases[0][0], given=str(path))
    without = [name for name, release in releases if not any(fits(release, each) for each in loaded)]
    if loaded and without:
        console.say(UNKNOWN.format(names=", ".join(without)))
    return loaded
