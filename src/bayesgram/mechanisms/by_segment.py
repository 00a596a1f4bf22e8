"""`posterior` by country or language: all segments in one vector, one clip, one budget.

The queries are those of `posterior`, order by order, with coordinates for segments × n-grams, for
all people's n-grams, for words, and for totals of each segment and of all. A user's vector,
whatever segments they are in, is clipped to Λ as one, so that adding or removing a user moves the
sum by at most B (docs/promise.md). After the noise, the measurements of earlier releases of the
same segments are combined with the new ones (`inference.chaining`); then `inference.hierarchy`
infers all segments.
"""

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from bayesgram.arrays import Floats, Ids, Integers
from bayesgram.cores import parallel_map
from bayesgram.inference.chaining import combine_with_previous, make_measurements
from bayesgram.inference.design import ClippingPlan
from bayesgram.inference.hierarchy import JointPosterior, infer_segments, merge_source_weights
from bayesgram.inference.noisy_counts import NoisyCounts, PublicNgrams
from bayesgram.io.segments import ALL, Segments
from bayesgram.mechanisms.base import (
    NO_STATEMENTS,
    Mechanism,
    Outcome,
    Randomness,
    Reserve,
    Statements,
    make_release,
    require_budget,
    reserve_nothing,
)
from bayesgram.mechanisms.posterior import OrderDesign, Posterior, describe_outcome
from bayesgram.privacy.accounting import Spend
from bayesgram.privacy.budget import Budget, Guarantee
from bayesgram.privacy.calibration import GaussianNoise
from bayesgram.privacy.constants import SEGMENT_SHARE, UNITS
from bayesgram.private.clipping import ClippedWordsSpec, Coordinates
from bayesgram.private.counts import SegmentedCounts
from bayesgram.private.norm_histogram import HistogramSpec
from bayesgram.private.order_counts import check_unlisted_columns
from bayesgram.public.vocabulary import Vocabulary
from bayesgram.releases.card import DRIFT_DETAIL, SEGMENT_CHANGES_DETAIL
from bayesgram.releases.previous import PreviousSegmentedRelease
from bayesgram.releases.release import max_release_bytes
from bayesgram.releases.segmented import SegmentedRelease, folder_contents


@dataclass(frozen=True)
class BySegment(Mechanism[SegmentedCounts, SegmentedRelease]):
    """`posterior` for counts by segment: a release for all people and for each, in one budget.

    Attributes:
        posterior: The mechanism for all people.
        segments: The public list of segments.
        on_progress: Called with the share of the segments that is done.
    """

    name: ClassVar[str] = Posterior.name
    guarantee: ClassVar[Guarantee] = Posterior.guarantee

    posterior: Posterior
    segments: Segments
    on_progress: Callable[[float], None] = lambda _: None

    @property
    def previous(self) -> PreviousSegmentedRelease | None:
        """The releases by segment that these follow."""
        previous = self.posterior.previous
        return previous if isinstance(previous, PreviousSegmentedRelease) else None

    @property
    def names(self) -> tuple[str, ...]:
        """The names of all releases that come out."""
        return (ALL, *self.segments.all_names)

    def check_budget(self, budget: Budget | None) -> tuple[float | None, float | None]:
        """Return (ε, δ) of all segments together."""
        return self.posterior.check_budget(budget)

    def check_inputs(self, data: SegmentedCounts, vocabulary: Vocabulary) -> None:
        """Refuse counts that are not over the vocabulary, and earlier releases that do not fit."""
        data.check_vocabulary(len(vocabulary), vocabulary.fingerprint)
        self.posterior.check_no_series()
        check_unlisted_columns(data.flat, [len(part) for _, part in vocabulary.by_order])
        if self.previous is not None:
            self.previous.check_compatible(
                self.segments, vocabulary.ngrams, vocabulary.tokenizer.name
            )

    def calibrate(self, vocabulary: Vocabulary, budget: Budget) -> GaussianNoise:
        """Return the noise of all queries together, over the coordinates of every segment."""
        return self.posterior.calibrate(vocabulary, budget, len(self.segments))

    def spend(self, vocabulary: Vocabulary, budget: Budget) -> Spend:
        """Return what a ledger is charged, once for all segments."""
        return self.calibrate(vocabulary, budget).spend

    def output_contents(self) -> tuple[str, ...]:
        """Return the names of the folders of all segments, and of the list of them."""
        return tuple(folder_contents(self.segments))

    def output_size(self, vocabulary: Vocabulary) -> int:
        """Return how many bytes all releases take at most."""
        return (1 + len(self.segments)) * max_release_bytes(vocabulary.ngrams)

    def measure(
        self,
        counts: SegmentedCounts,
        vocabulary: Vocabulary,
        budget: Budget | None,
        randomness: Randomness,
    ) -> tuple[list[list[NoisyCounts]], dict[str, Any]]:
        """Return noisy counts by order, of all people and each segment, and card details."""
        designs = [
            SegmentedDesign(
                PublicNgrams.of(part),
                len(self.segments),
                has_allowances=self.posterior.series_noise is not None,
            )
            for _, part in vocabulary.by_order
        ]
        noise = self.calibrate(vocabulary, require_budget(budget, self.name))
        return self.posterior.run_queries(counts.flat, designs, noise, randomness)

    def draw(
        self,
        data: SegmentedCounts,
        vocabulary: Vocabulary,
        budget: Budget | None,
        randomness: Randomness,
        *,
        statements: Statements = NO_STATEMENTS,
        reserve: Reserve = reserve_nothing,
    ) -> SegmentedRelease:
        """Read private counts, draw noise once, and return a release for all and for each."""
        charge = reserve()
        noisy, details = self.measure(data, vocabulary, budget, randomness)
        parts = [part for _, part in vocabulary.by_order]
        combined, drift_details = self._combine_with_previous(noisy, parts)
        joint = infer_segments(combined[0], combined[1:], parts, self.on_progress, parallel_map)
        all_details = [{**drift, **details} for drift in drift_details]
        outcomes = self._describe_outcomes(joint, vocabulary, all_details)
        releases = []
        for number, name in enumerate(self.names):
            carried = None if self.previous is None else combined[number]
            measurements = make_measurements(noisy[number], parts, carried)
            releases.append(
                make_release(
                    self._mechanism_of(name),
                    replace(outcomes[number], measurements=measurements),
                    vocabulary,
                    budget,
                    randomness,
                    statements,
                    charge,
                )
            )
        return SegmentedRelease.from_releases(releases, self.segments)

    def _mechanism_of(self, name: str) -> Posterior:
        """Return the mechanism of one release, which knows what that one follows."""
        if self.previous is None:
            return self.posterior
        return self.posterior.follow(self.previous.previous_for(name))

    def _combine_with_previous(
        self, noisy: Sequence[list[NoisyCounts]], parts: Sequence[Vocabulary]
    ) -> tuple[list[list[NoisyCounts]], list[dict[str, Any]]]:
        """Return noisy counts, combined with those of earlier releases, and card details.

        A new segment has its own measurements alone; its prior, all people, has those of earlier
        releases.
        """
        if self.previous is None:
            return list(noisy), [{} for _ in noisy]
        changes = self.previous.segment_changes(self.segments)
        all_combined = []
        all_details: list[dict[str, Any]] = []
        drift_of_all = None
        for name, measured in zip(self.names, noisy, strict=True):
            combined = list(measured)
            details: dict[str, Any] = {SEGMENT_CHANGES_DETAIL: changes} if changes else {}
            if self.previous.has_segment(name):
                before = self.previous.previous_for(name).release
                combined, drifts = combine_with_previous(measured, parts, before, drift_of_all)
                drift_of_all = drifts if drift_of_all is None else drift_of_all
                details[DRIFT_DETAIL] = {order: asdict(drift) for order, drift in drifts.items()}
            all_combined.append(combined)
            all_details.append(details)
        return all_combined, all_details

    def _describe_outcomes(
        self, joint: JointPosterior, vocabulary: Vocabulary, details: Sequence[dict[str, Any]]
    ) -> list[Outcome]:
        """Return the outcome of all people, and then of each segment."""
        source_count = len(vocabulary.source_names)
        inferred = [
            joint.everyone,
            *(merge_source_weights(posterior, source_count) for posterior in joint.segments),
        ]
        orders = [part.order for _, part in vocabulary.by_order]
        shares = [{}, *joint.describe_shares(orders)]
        return [
            describe_outcome(posterior, vocabulary, {**segment_details, **share})
            for posterior, segment_details, share in zip(inferred, details, shares, strict=True)
        ]


@dataclass(frozen=True, eq=False)
class SegmentedDesign(OrderDesign):
    """What is measured of one order by segment: n-grams and totals of each segment and of all.

    All of it is public. The columns of the counts are segments × n-grams, and then the unlisted
    n-grams of each segment. The coordinates are these columns; the n-grams, words and total of all
    people together; and the total of each segment.

    Attributes:
        segment_count: The number of segments.
    """

    segment_count: int

    @property
    def noise_inflation(self) -> float:
        """The noise of all people's n-grams, over that of a design without segments.

        All people are measured by coordinates of their own, and by the sum over segments.
        """
        return float((1 - SEGMENT_SHARE + SEGMENT_SHARE / self.segment_count) ** -0.5)

    @cached_property
    def ngrams(self) -> Coordinates:
        """The coordinates of n-grams and words, by which the histogram computes a user's norm."""
        of_all = super().ngrams
        listed = self.segment_count * self.size
        shape = self._with_segment_ngrams(of_all.shape, unlisted=0)
        return Coordinates(shape, self._word_rows([of_all.words + np.int32(listed)], listed))

    def coordinates(self, plan: ClippingPlan) -> Coordinates:
        """Return all coordinates; a segment's total has the weight of all people's."""
        of_all = super().coordinates(plan)
        columns = self.segment_count * (self.size + 1)
        shape_of_all = np.delete(of_all.shape, self.size)
        shape = self._with_segment_ngrams(
            shape_of_all, self.segment_count, float(of_all.shape[self.size])
        )
        totals = np.full(self.segment_count, of_all.shape[-1])
        # All people have no coordinate for unlisted n-grams: they are added up over segments.
        words = of_all.words[: self.size] + np.int32(columns - 1)
        segment_totals = np.arange(self.segment_count, dtype=np.int32) + np.int32(shape.size)
        by_segment = np.repeat(segment_totals, self.size)[:, None]
        return Coordinates(
            np.concatenate([shape, totals]), self._word_rows([words, by_segment], columns)
        )

    def total_place(self, coordinates: Coordinates) -> int:
        """Return the coordinate of the total of all people, before those of the segments."""
        return coordinates.shape.size - self.segment_count - 1

    def _with_segment_ngrams(
        self, shape: Floats, unlisted: int, unlisted_shape: float = 1.0
    ) -> Floats:
        """Return the shape of the columns of all segments, and then that of all people."""
        ngram_shape = shape[: self.size]
        return np.concatenate(
            [
                np.tile(ngram_shape / np.sqrt(SEGMENT_SHARE), self.segment_count),
                np.full(unlisted, unlisted_shape),
                ngram_shape / np.sqrt(1 - SEGMENT_SHARE),
                shape[self.size :],
            ]
        )

    def _word_rows(self, parts: Sequence[Ids], columns: int) -> Ids:
        """Return the coordinates that each column adds to beside its own.

        Args:
            parts: Coordinates of words and totals, for each n-gram or for each n-gram of each
                segment.
            columns: How many columns there are; those after the n-grams add to nothing else.
        """
        listed = self.segment_count * self.size
        ngrams_of_all = np.arange(columns, columns + self.size, dtype=np.int32)[:, None]
        wide = [
            part if len(part) == listed else np.tile(part, (self.segment_count, 1))
            for part in (ngrams_of_all, *parts)
        ]
        rows = np.full((columns, sum(part.shape[1] for part in wide)), -1, np.int32)
        rows[:listed] = np.column_stack(wide)
        return rows

    @cached_property
    def histogram(self) -> HistogramSpec:
        """The bins of the norm histogram, whichever segment users write in."""
        of_all = super().histogram
        return replace(of_all, sources=np.tile(of_all.sources, self.segment_count))

    def clipped_words(self, plan: ClippingPlan) -> ClippedWordsSpec:
        """Return the question about the text that clipping removes, of all people together."""
        of_all = super().clipped_words(plan)
        ngram_words = np.tile(of_all.words[: self.size], (self.segment_count, 1))
        unlisted_words = np.full((self.segment_count, ngram_words.shape[1]), -1, np.int32)
        return replace(of_all, words=np.concatenate([ngram_words, unlisted_words]))

    def decode_counts(
        self, noisy: Integers, coordinates: Coordinates, multiplier: float, clip_norm: float
    ) -> list[NoisyCounts]:
        """Return noisy counts of all people and then of each segment."""
        counts = noisy * (clip_norm * coordinates.shape / UNITS)
        noise_std = coordinates.shape * clip_norm * multiplier
        listed = self.segment_count * self.size
        columns = listed + self.segment_count
        total_place = counts.size - self.segment_count - 1
        words = slice(columns + self.size, total_place)
        everyone = NoisyCounts(
            counts[columns : columns + self.size],
            noise_std[columns : columns + self.size],
            float(counts[total_place]),
            float(noise_std[total_place]),
            unlisted=float(counts[listed:columns].sum()),
            unlisted_noise=float(np.linalg.norm(noise_std[listed:columns])),
        )
        if self.order > 1:
            everyone = replace(everyone, word_counts=counts[words], word_noise=noise_std[words])
        groups = [everyone]
        for segment in range(self.segment_count):
            ngrams = slice(segment * self.size, (segment + 1) * self.size)
            total = total_place + 1 + segment
            groups.append(
                NoisyCounts(
                    counts[ngrams],
                    noise_std[ngrams],
                    float(counts[total]),
                    float(noise_std[total]),
                    unlisted=float(counts[listed + segment]),
                    unlisted_noise=float(noise_std[listed + segment]),
                )
            )
        return groups
