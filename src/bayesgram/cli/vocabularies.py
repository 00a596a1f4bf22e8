"""A vocabulary that belongs to releases, checked once for all commands that take both."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from bayesgram.errors import UsageError

if TYPE_CHECKING:
    from bayesgram.public.vocabulary import Vocabulary
    from bayesgram.released.release import Release


def matching(vocab: Path, releases: "Sequence[tuple[str, Release]]") -> "Vocabulary":
    """The vocabulary, if all releases were made with it."""
    from bayesgram.public.vocabulary import Vocabulary

    vocabulary = Vocabulary.load(vocab)
    for name, release in releases:
        stated = release.card.vocabulary
        if stated["fingerprint"] != vocabulary.fingerprint:
            raise UsageError(
                f"{name}: was made with the vocabulary {stated['fingerprint'][:12]}…, and {vocab} is"
                f" {vocabulary.fingerprint[:12]}…; give the one it was made with, or leave --vocab out."
            )
        if stated.get("prior_fingerprint", vocabulary.prior_fingerprint) != vocabulary.prior_fingerprint:
            raise UsageError(
                f"{name}: was made with the n-grams of {vocab}, but with other public counts; give the vocabulary it"
                " was made with, or leave --vocab out."
            )
    return vocabulary
