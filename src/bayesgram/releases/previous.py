"""A release that another one follows.

It must have kept its measurements, of n-grams that are still in the vocabulary. `open_previous`
takes a release, releases by segment, or the folder of either. All of it is public.
"""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from bayesgram.errors import Argument, UsageError
from bayesgram.io.segments import ALL, Segments
from bayesgram.releases import CARD_FILE
from bayesgram.releases.chain import Chain, start_chain
from bayesgram.releases.measurements import NGRAM, Measurements
from bayesgram.releases.provenance import printable_name
from bayesgram.releases.release import Release
from bayesgram.releases.segmented import SegmentedRelease, load_segment, read_segments


@dataclass(frozen=True, eq=False)
class PreviousRelease:
    """A release that another one follows, and its name."""

    release: Release
    name: str = "a release"

    @classmethod
    def open(cls, previous: "PreviousRelease | Release | str | Path") -> "PreviousRelease":
        """Open a release, or the folder that it is in."""
        if isinstance(previous, PreviousRelease):
            return previous
        if isinstance(previous, Release):
            return cls(previous)
        return cls(Release.load(previous), printable_name(previous))

    def measurements_for(self, ngrams: pa.LargeStringArray, tokenizer: str) -> Measurements:
        """Return its measurements, if some of these n-grams are among them."""
        if self.release.measurements is None:
            raise UsageError(
                f"{self.name}: keeps no noisy measurements (mechanism"
                f" {self.release.card.mechanism}, {self.release.card.software}); only releases by"
                " posterior and gaussian since 0.2 do. Release again by posterior."
            )
        stated = self.release.card.vocabulary["tokenizer"]
        if stated != tokenizer:
            raise UsageError(
                f"{self.name}: was made with the tokenizer {stated!r}, the vocabulary with"
                f" {tokenizer!r}, so their n-grams are not the same; give a vocabulary of the same"
                " tokenizer."
            )
        measurements = self.release.measurements
        measured_ngrams = measurements.texts.filter(pa.array(measurements.kind_mask(NGRAM)))
        if not pc.any(pc.is_in(ngrams, measured_ngrams)).as_py():
            raise UsageError(
                f"{self.name}: measured none of the {len(ngrams):,} n-grams of the vocabulary; is"
                " it about other text?"
            )
        return measurements

    @property
    def chain(self) -> Chain:
        """The chain of a release that follows this one."""
        card = self.release.card
        if card.chain is None:
            return start_chain(self.name, card.commitment)
        return Chain.from_json(card.chain).append(self.name, card.commitment)


@dataclass(frozen=True, eq=False)
class PreviousSegmentedRelease:
    """Releases by segment that others by segment follow.

    Each follows that of the same name; a new segment follows that of all people.

    Attributes:
        segments: The segments.
        load_release: Loads a release by the name of its segment, when it is needed: all of them at
            once are large.
        name: What messages call them.
    """

    segments: Segments
    load_release: Callable[[str], Release]
    name: str = "a release"

    @classmethod
    def open(cls, previous: "SegmentedRelease | str | Path") -> "PreviousSegmentedRelease":
        """Open releases by segment, or the folder that they are in."""
        if isinstance(previous, SegmentedRelease):
            return cls(previous.segments, previous.__getitem__)
        segments = read_segments(previous)
        return cls(
            segments, lambda name: load_segment(previous, segments, name), printable_name(previous)
        )

    @property
    def release(self) -> Release:
        """The release of all people."""
        return self.load_release(ALL)

    @property
    def names(self) -> tuple[str, ...]:
        """The names of all releases, `all` first."""
        return (ALL, *self.segments.all_names)

    def has_segment(self, segment: str) -> bool:
        """Return whether there is a release of this name."""
        return segment in self.names

    def previous_for(self, segment: str) -> PreviousRelease:
        """Return the release that a segment follows."""
        name = segment if self.has_segment(segment) else ALL
        return PreviousRelease(self.load_release(name), f"{self.name}/{name}")

    def check_compatible(
        self, segments: Segments, ngrams: pa.LargeStringArray, tokenizer: str
    ) -> None:
        """Refuse segments, n-grams or a tokenizer that can't follow these releases."""
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
                    f"{before.name}: is of another release than that of all people; get the folder"
                    " anew from where it was published."
                )

    def segment_changes(self, segments: Segments) -> dict[str, list[str]]:
        """Return which segments are new, and which are gone; empty if the lists are equal."""
        names = segments.all_names
        old_names = self.segments.all_names
        changes = {
            "new": [name for name in names if name not in old_names],
            "gone": [name for name in old_names if name not in names],
        }
        return changes if any(changes.values()) else {}


def open_previous(
    previous: PreviousRelease | PreviousSegmentedRelease | Release | SegmentedRelease | str | Path,
) -> PreviousRelease | PreviousSegmentedRelease:
    """Open what a release follows: a release, releases by segment, or the folder of either."""
    if isinstance(previous, PreviousSegmentedRelease):
        return previous
    if isinstance(previous, SegmentedRelease):
        return PreviousSegmentedRelease.open(previous)
    if isinstance(previous, str | Path):
        folder = Path(previous)
        if not (folder / CARD_FILE).is_file() and (folder / ALL / CARD_FILE).is_file():
            return PreviousSegmentedRelease.open(previous)
    return PreviousRelease.open(previous)
