"""Vocabularies that belong to releases, checked once for all commands that take both."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from bayesgram.cli import console

if TYPE_CHECKING:
    from bayesgram.public.vocabulary import Vocabulary
    from bayesgram.released.release import Release

UNKNOWN = "{names}: made with another vocabulary, so without public text to compare with; give theirs too (--vocab)."
UNUSED = "{path}: none of these releases was made with it; it is left out."


def matching(vocab: Path, releases: "Sequence[tuple[str, Release]]") -> "Vocabulary":
    """The vocabulary, if all releases were made with it."""
    from bayesgram.public.vocabulary import Vocabulary
    from bayesgram.released.release import check_vocabulary

    vocabulary = Vocabulary.load(vocab)
    for name, release in releases:
        check_vocabulary(release, vocabulary, name=name, given=str(vocab))
    return vocabulary


def belonging(paths: "Sequence[Path]", releases: "Sequence[tuple[str, Release]]") -> "list[Vocabulary]":
    """Those given that belong to releases; says which are left out, and which releases have none.

    One that is nobody's is refused where a release lacks its own: it was most likely meant for that release.
    """
    from bayesgram.public.vocabulary import Vocabulary
    from bayesgram.released.release import check_vocabulary, fits

    loaded = {path: Vocabulary.load(path) for path in paths}
    lacking = [(name, release) for name, release in releases if not any(fits(release, v) for v in loaded.values())]
    used = [path for path, vocabulary in loaded.items() if any(fits(release, vocabulary) for _, release in releases)]
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
