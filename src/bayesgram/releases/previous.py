"""A release that another one follows: it must have kept its measurements, of n-grams that are still asked about.

In:  a release, or its folder.   Out: a `PreviousRelease`, and the chain of a card that follows it. All of it is public.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from bayesgram.errors import Argument, UsageError
from bayesgram.io.segments import ALL, Segments
from bayesgram.releases.chain import Chain, start_chain
from bayesgram.releases.measurements import NGRAM, Measurements
from bayesgram.releases.provenance import printable_name
from bayesgram.releases.release import CARD_FILE, Release
from bayesgram.releases.segmented import SegmentedRelease, load_segment, read_segments


@dataclass(frozen=True, eq=False)
class PreviousRelease:
    """A release with measurements, and what it is called."""

    release: Release
    name: str = "a release"

    @classmethod
    def open(cls, given: "PreviousRelease | Release | str | Path") -> "PreviousRelease":
        """A release, or the folder that it is in."""
        if isinstance(given, PreviousRelease):
            return given
        if isinstance(given, Release):
            return cls(given)
        return cls(Release.load(given), printable_name(given))

    def measurements_for(self, ngrams: pa.LargeStringArray, tokenizer: str) -> Measurements:
        """Its measurements, if they tell something of these n-grams."""
        if self.release.measurements is None:
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
        measured = self.release.measurements
        if not pc.any(
            pc.is_in(ngrams, measured.texts.filter(pa.array(measured.kind_mask(NGRAM))))
        ).as_py():
            raise UsageError(
                f"{self.name}: measured none of the {len(ngrams):,} n-grams of the vocabulary; is it about other text?"
            )
        return measured

    @property
    def chain(self) -> Chain:
        """The chain of a release that follows this one."""
        card = self.release.card
        if card.chain is None:
            return start_chain(self.name, card.commitment)
        return Chain.from_json(card.chain).append(self.name, card.commitment)


@dataclass(frozen=True, eq=False)
class PreviousSegmentedRelease:
    """Releases by segment that others by segment follow: each that of the same name, a new one that of all people."""

    segments: Segments
    load_release: Callable[
        [str], Release
    ]  # by name, when it is needed: all of them at once are large
    name: str = "a release"

    @classmethod
    def open(cls, given: "SegmentedRelease | str | Path") -> "PreviousSegmentedRelease":
        """Releases by segment, or the folder that they are in."""
        if isinstance(given, SegmentedRelease):
            return cls(given.segments, given.__getitem__)
        segments = read_segments(given)
        return cls(
            segments, lambda name: load_segment(given, segments, name), printable_name(given)
        )

    @property
    def release(self) -> Release:
        """That of all people."""
        return self.load_release(ALL)

    @property
    def names(self) -> tuple[str, ...]:
        """Of all releases."""
        return (ALL, *self.segments.all_names)

    def has_segment(self, segment: str) -> bool:
        """Whether there is one of all people, or of this segment."""
        return segment in self.names

    def previous_for(self, segment: str) -> PreviousRelease:
        """What a segment follows."""
        own = segment if self.has_segment(segment) else ALL
        return PreviousRelease(self.load_release(own), f"{self.name}/{own}")

    def check_compatible(
        self, segments: Segments, ngrams: pa.LargeStringArray, tokenizer: str
    ) -> None:
        """Refuse what segments can't follow."""
        if self.segments.by != segments.by:
            raise UsageError(
                f"{self.name}: is by {self.segments.by!r}, the counts are by "
                f"{segments.by!r}; give a release by the same column, or leave ",
                Argument("previous"),
                " out.",
            )
        answers = self.release.card.answers
        for name in self.names:
            before = self.previous_for(name)
            before.measurements_for(ngrams, tokenizer)
            if before.release.card.answers != answers:
                raise UsageError(
                    f"{before.name}: is of another release than that of all people; get the folder anew from where it"
                    " was published."
                )

    def segment_changes(self, segments: Segments) -> dict[str, list[str]]:
        """Which segments are new, and which are gone; nothing where the lists are the same."""
        new, old = segments.all_names, self.segments.all_names
        found = {"new": _without(new, old), "gone": _without(old, new)}
        return found if any(found.values()) else {}


def open_previous(
    given: "PreviousRelease | PreviousSegmentedRelease | Release | SegmentedRelease | str | Path",
) -> PreviousRelease | PreviousSegmentedRelease:
    """What a release follows: a release, releases by segment, or the folder of either."""
    if isinstance(given, PreviousSegmentedRelease):
        return given
    if isinstance(given, SegmentedRelease):
        return PreviousSegmentedRelease.open(given)
    if (
        isinstance(given, str | Path)
        and not (Path(given) / CARD_FILE).is_file()
        and (Path(given) / ALL / CARD_FILE).is_file()
    ):
        return PreviousSegmentedRelease.open(given)
    return PreviousRelease.open(given)


def _without(names: Sequence[str], others: Sequence[str]) -> list[str]:
    return [name for name in names if name not in others]
