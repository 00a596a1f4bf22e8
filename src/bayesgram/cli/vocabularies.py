"""A vocabulary that belongs to releases, checked once for all commands that take both."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from bayesgram.public.vocabulary import Vocabulary
    from bayesgram.released.release import Release


def matching(vocab: Path, releases: "Sequence[tuple[str, Release]]") -> "Vocabulary":
    """The vocabulary, if all releases were made with it."""
    from bayesgram.public.vocabulary import Vocabulary
    from bayesgram.released.release import check_vocabulary

    vocabulary = Vocabulary.load(vocab)
    for name, release in releases:
        check_vocabulary(release, vocabulary, name=name, given=str(vocab))
    return vocabulary
