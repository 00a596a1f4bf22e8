"""`posterior` by country or language: all segments in one vector, one clip, one budget.

The door is that of `posterior`, with coordinates for segments × n-grams, for all people's n-grams, for words, and for
totals of each segment and of all. A user's whole vector, whatever segments they are in, is clipped to Λ, so that
adding or removing a user moves the sum by at most B (docs/promise.md). After the noise: what earlier releases of the
same segments carry over is joined to what was measured (`inference.measurement_files`); then `inference.segments`.
"""

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from bayesgram.arrays import Floats, Integers
from bayesgram.cores import parallel_map
from bayesgram.inference.chaining import join, kept
from bayesgram.inference.design import Choice
from bayesgram.inference.hierarchy import JointPosterior, by_source, infer_segments
from bayesgram.inference.noisy_counts import Measured, PublicNgrams
from bayesgram.io.segments import ALL, Segments
from bayesgram.mechanisms.base import Outcome, Randomness, made_release, need
from bayesgram.mechanisms.posterior import Design, Posterior, described
from bayesgram.privacy.accounting import Spend
from bayesgram.privacy.budget import Budget, Guarantee
from bayesgram.privacy.calibration import GaussianNoise
from bayesgram.private.clipping import UNITS, Coordinates, LostWords
from bayesgram.private.counts import SegmentedCounts
from bayesgram.private.norm_histogram import Bins
from bayesgram.public.vocabulary import Vocabulary
from bayesgram.releases.card import DRIFT_DETAIL, SEGMENT_CHANGES_DETAIL
from bayesgram.releases.previous import PreviousSegmentedRelease
from bayesgram.releases.segmented import SegmentedRelease

SEGMENT_PART = (
    0.5  # of the squared norm of what somebody writes in one segment; the rest is all people's
)


@dataclass(frozen=True, eq=False)
class SegmentedDesign(Design):
    """What is measured, all of it public: n-grams of each segment and of all people, words, and totals of each.

    Coordinates: segments × n-grams; then those of a design without segments, which all people have together; then
    the total of each segment and order.
    """

    number: int  # of segments

    @classmethod
    def by_segment(cls, vocabulary: Vocabulary, number: int) -> "SegmentedDesign":
        """The design for a vocabulary and so many segments."""
        return cls([PublicNgrams.of(part) for _, part in vocabulary.by_order], number)

    @cached_property
    def everyone(self) -> Design:
        """What is measured of all people."""
        return Design(self.parts)

    @property
    def noisier(self) -> float:
        """All people are measured by n-grams of their own, and by the sum over segments."""
        return float((1 - SEGMENT_PART + SEGMENT_PART / self.number) ** -0.5)

    @cached_property
    def ngrams(self) -> Coordinates:
        """N-grams and words, before totals have their weight."""
        return self._with_segments(self.everyone.ngrams, np.zeros(0))

    def coordinates(self, choice: Choice) -> Coordinates:
        """All of them; a segment's total has the weight of all people's."""
        one = self.everyone.coordinates(choice)
        return self._with_segments(one, one.shape[-len(self.parts) :])

    def _with_segments(self, one: Coordinates, totals: Floats) -> Coordinates:
        """The coordinates of all people and, before and after them, those of each segment."""
        ngrams, first = one.shape[: self.size], self.number * self.size
        of_segments, of_all = ngrams / np.sqrt(SEGMENT_PART), ngrams / np.sqrt(1 - SEGMENT_PART)
        shape = [
            np.tile(of_segments, self.number),
            of_all,
            one.shape[self.size :],
            np.tile(totals, self.number),
        ]
        columns = 1 + one.words.shape[1]
        words = np.empty((self.number, self.size, columns + (totals.size > 0)), np.int32)
        words[:, :, 0] = np.arange(first, first + self.size)
        words[:, :, 1:columns] = np.where(one.words < 0, -1, one.words + first)
        if totals.size:
            orders = np.repeat(np.arange(totals.size), [public.prior.size for public in self.parts])
            after = first + one.shape.size + totals.size * np.arange(self.number)
            words[:, :, columns] = after[:, None] + orders
        return Coordinates(np.concatenate(shape), words.reshape(first, -1))

    @cached_property
    def bins(self) -> Bins:
        """How users are sorted: whichever segment they write in."""
        one = self.everyone.bins
        return replace(
            one,
            kinds=np.tile(one.kinds, self.number),
            first_words=np.tile(one.first_words, self.number),
        )

    def lost_words(self, choice: Choice) -> LostWords:
        """Of all people together."""
        one = self.everyone.lost_words(choice)
        return replace(one, words=np.tile(one.words, (self.number, 1)))

    def as_measured(
        self, noisy: Integers, measured: Coordinates, sigma: float, clip_norm: float
    ) -> list[list[Measured]]:
        """Of all people, and then of each segment, by order."""
        first, orders = self.number * self.size, len(self.parts)
        whole = slice(first, noisy.size - self.number * orders)
        one = Coordinates(measured.shape[whole], measured.words[:0])
        groups = self.everyone.as_measured(noisy[whole], one, sigma, clip_norm)
        edges = np.cumsum([public.prior.size for public in self.parts])[:-1]
        for segment in range(self.number):
            own = slice(segment * self.size, (segment + 1) * self.size)
            after = slice(whole.stop + segment * orders, whole.stop + (segment + 1) * orders)
            counts, total = (
                noisy[some] * (clip_norm * measured.shape[some] / UNITS) for some in (own, after)
            )
            doubt, total_doubt = (measured.shape[some] * clip_norm * sigma for some in (own, after))
            columns = (
                np.split(counts, edges),
                np.split(doubt, edges),
                total.tolist(),
                total_doubt.tolist(),
            )
            groups.append([Measured(*values) for values in zip(*columns, strict=True)])
        return groups


@dataclass(frozen=True)
class BySegment:
    """`posterior` for counts by segment: a release for all people and one for each segment, in one budget."""

    posterior: Posterior
    segments: Segments
    on_progress: Callable[[float], None] = lambda _: None

    name: ClassVar[str] = Posterior.name
    guarantee: ClassVar[Guarantee] = Posterior.guarantee

    @property
    def previous(self) -> PreviousSegmentedRelease | None:
        """The releases by segment that these follow."""
        before = self.posterior.previous
        return before if isinstance(before, PreviousSegmentedRelease) else None

    @property
    def names(self) -> tuple[str, ...]:
        """Of all releases that come out."""
        return (ALL, *self.segments.all_names)

    def check_budget(self, budget: Budget | None) -> tuple[float | None, float | None]:
        """(ε, δ) of all segments together."""
        return self.posterior.check_budget(budget)

    def check_inputs(self, counts: SegmentedCounts, vocabulary: Vocabulary) -> None:
        """Counts and vocabulary belong together, and earlier releases are of use."""
        counts.check_vocabulary(len(vocabulary), vocabulary.fingerprint)
        if self.previous is not None:
            self.previous.check_compatible(
                self.segments, vocabulary.ngrams, vocabulary.tokenizer.name
            )

    def calibrated(self, vocabulary: Vocabulary, budget: Budget) -> GaussianNoise:
        """σ of all measurements together; coordinates of every segment count for the slack."""
        return self.posterior.calibrated(vocabulary, budget, len(self.segments))

    def spend(self, vocabulary: Vocabulary, budget: Budget) -> Spend:
        """What a ledger is charged, once for the whole."""
        return self.calibrated(vocabulary, budget).spend

    def measure(
        self,
        counts: SegmentedCounts,
        vocabulary: Vocabulary,
        budget: Budget | None,
        chance: Randomness,
    ) -> tuple[list[list[Measured]], dict[str, Any]]:
        """The door: noisy counts of all people and then of each segment, by order, and what the cards say of them."""
        design = SegmentedDesign.by_segment(vocabulary, len(self.segments))
        return self.posterior.measured(
            counts.flat, design, self.calibrated(vocabulary, need(budget, self.name)), chance
        )

    def release(
        self,
        counts: SegmentedCounts,
        vocabulary: Vocabulary,
        budget: Budget | None = None,
        *,
        seed: int | None = None,
    ) -> SegmentedRelease:
        """Go through the door once."""
        self.check_budget(budget)
        self.check_inputs(counts, vocabulary)
        chance = Randomness.make(seed)
        noisy, details = self.measure(counts, vocabulary, budget, chance)
        parts = [part for _, part in vocabulary.by_order]
        joined, told = self._joined(noisy, parts)
        found = infer_segments(joined[0], joined[1:], parts, self.on_progress, parallel_map)
        outcomes = self._outcomes(found, vocabulary, [{**drift, **details} for drift in told])
        made = []
        for name, outcome, own, both in zip(self.names, outcomes, noisy, joined, strict=True):
            measured = kept(own, parts, None if self.previous is None else both)
            outcome_with = replace(outcome, measured=measured)
            made.append(made_release(self._after(name), outcome_with, vocabulary, budget, chance))
        return SegmentedRelease.from_releases(made, self.segments)

    def _after(self, name: str) -> Posterior:
        """The mechanism of one release, which knows what that one follows."""
        return (
            self.posterior
            if self.previous is None
            else self.posterior.after(self.previous.previous_for(name))
        )

    def _joined(
        self, noisy: Sequence[list[Measured]], parts: Sequence[Vocabulary]
    ) -> tuple[list[list[Measured]], list[dict[str, Any]]]:
        """What was measured of each together with what earlier releases of it carry over, and what the cards say.

        A segment that is new has its own measurements alone; all people, its prior, know what they knew.
        """
        if self.previous is None:
            return list(noisy), [{} for _ in noisy]
        since = self.previous.segment_changes(self.segments)
        told: list[dict[str, Any]] = [
            {SEGMENT_CHANGES_DETAIL: since} if since else {} for _ in noisy
        ]
        joined, everyone = [], None
        for name, own, said in zip(self.names, noisy, told, strict=True):
            both = list(own)
            if self.previous.has_segment(name):
                both, drifts = join(own, parts, self.previous.previous_for(name).release, everyone)
                everyone = drifts if everyone is None else everyone
                said[DRIFT_DETAIL] = {order: asdict(drift) for order, drift in drifts.items()}
            joined.append(both)
        return joined, told

    def _outcomes(
        self, found: JointPosterior, vocabulary: Vocabulary, details: Sequence[dict[str, Any]]
    ) -> list[Outcome]:
        """Of all people, and then of each segment."""
        inferred = [
            found.everyone,
            *(by_source(one, len(vocabulary.source_names)) for one in found.segments),
        ]
        shares = [{}, *found.shares_told([part.order for _, part in vocabulary.by_order])]
        return [
            described(one, vocabulary, {**told, **share})
            for one, told, share in zip(inferred, details, shares, strict=True)
        ]
