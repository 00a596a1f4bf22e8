"""A release that another one follows: it must have kept its measurements, of n-grams that are still asked about.

In:  a release, or its folder.   Out: a `Previous`, and the chain of a card that follows it. All of it is public.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

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
    def of(cls, given: "Previous | Release | str | Path") -> "Previous":
        """A release, or the folder that it is in."""
        if isinstance(given, Previous):
            return given
        if isinstance(given, Release):
            return cls(given)
        name = Path(given).resolve().name or str(given)
        return cls(Release.load(given), "".join(each if each.isprintable() else "�" for each in name))

    def measured_for(self, ngrams: pa.LargeStringArray, tokenizer: str) -> Measurements:
        """Its measurements, if they tell something of these n-grams."""
        if self.release.measured is None:
            raise UsageError(
                f"{self.name}: keeps no noisy measurements (mechanism {self.release.card.mechanism},"
                f" {self.release.card.software}); only releases by posterior and gaussian since 0.2 do. Release again"
                " by posterior."
            )
        stated = self.release.card.vocabulary["tokenizer"]
        if stated != tokenizer:
            raise UsageError(
                f"{self.name}: was made with the tokenizer {stated!r}, the vocabulary with {tokenizer!r}, so their"
                " n-grams are not the same; give a vocabulary of the same tokenizer."
            )
        measured = self.release.measured
        if not pc.any(pc.is_in(ngrams, measured.texts.filter(pa.array(measured.is_kind(NGRAM))))).as_py():
            raise UsageError(
                f"{self.name}: measured none of the {len(ngrams):,} n-grams of the vocabulary; is it about other text?"
            )
        return measured

    def followed_by(self, card: Card) -> dict[str, Any]:
        """The chain of a card that follows this release."""
        own = self.release.card
        links = () if own.chain is None else Chain.from_json(own.chain).links
        before = links[-1].hash if links else ""
        told = own.promised
        mine = Link(name=self.name, **told, hash=hashed(before, **told))
        return Chain((*links, mine), hashed(mine.hash, **card.promised)).to_json()
