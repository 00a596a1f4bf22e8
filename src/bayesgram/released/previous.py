"""A release that another one follows: it must have kept its measurements, of n-grams that are still asked about.

In:  a release, or its folder.   Out: a `Previous`, and the chain of a card that follows it. All of it is public.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Union

import pyarrow as pa
import pyarrow.compute as pc

from bayesgram.errors import UsageError
from bayesgram.released.card import Card
from bayesgram.released.chain import Chain, Link, hashed
from bayesgram.released.measurements import NGRAM, Measurements
from bayesgram.released.release import Release


@dataclass(frozen=True, eq=False)
class Previous:
    """A release with measurements, and what it is called."""

    release: Release
    name: str = "a release"

    @classmethod
    def of(cls, given: "Union[Previous, Release, str, Path]") -> "Previous":
        """A release, or the folder that it is in."""
        if isinstance(given, Previous):
            return given
        if isinstance(given, Release):
            return cls(given)
        return cls(Release.load(given), Path(given).name or str(given))

    def check(self, ngrams: pa.LargeStringArray, tokenizer: str) -> None:
        """Refuse a release that nothing can be taken from, for these n-grams."""
        check_measured(self.release, self.name, ngrams, tokenizer)

    def followed_by(self, card: Card) -> dict[str, Any]:
        """The chain of a card that follows this release."""
        own = self.release.card
        links = () if own.chain is None else Chain.from_json(own.chain).links
        before = links[-1].hash if links else ""
        told = own.promised
        mine = Link(name=self.name, **told, hash=hashed(before, **told))
        return Chain((*links, mine), hashed(mine.hash, **card.promised)).to_json()


def check_measured(release: Release, name: str, ngrams: pa.LargeStringArray, tokenizer: str) -> Measurements:
    """The measurements of a release, if they tell something of these n-grams."""
    if release.measured is None:
        raise UsageError(
            f"{name}: keeps no noisy measurements (mechanism {release.card.mechanism}, {release.card.software}); only"
            " releases by posterior and gaussian since 0.2 do. Release again by posterior."
        )
    stated = release.card.vocabulary["tokenizer"]
    if stated != tokenizer:
        raise UsageError(
            f"{name}: was made with the tokenizer {stated!r}, the vocabulary with {tokenizer!r}, so their n-grams are"
            " not the same; give a vocabulary of the same tokenizer."
        )
    measured = release.measured.texts.filter(pa.array(release.measured.is_kind(NGRAM)))
    if not pc.any(pc.is_in(ngrams, measured)).as_py():
        raise UsageError(
            f"{name}: measured none of the {len(ngrams):,} n-grams of the vocabulary; is it about other text?"
        )
    return release.measured
