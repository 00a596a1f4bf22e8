"""The posterior mechanism, the default: noisy counts, corrected by public text.

It asks at most three queries about private counts (`norm_histogram_query`, `clipped_mass_query`,
`counts_query`), each a value of one type, `Query`. `Posterior.run_queries` is a loop over them that
reads like the proof in docs/promise.md: an exact integer sum that one user moves by at most B,
discrete Gaussian noise, and a decoding that reads nothing but noisy answers and public text.
Everything after the queries is post-processing, in `inference`.
"""

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from bayesgram.arguments import check_fields
from bayesgram.arrays import Floats, Ids, Integers
from bayesgram.errors import Argument, UsageError
from bayesgram.inference.chaining import combine_with_previous, make_measurements
from bayesgram.inference.design import (
    ClippingPlan,
    FirstWords,
    NormHistogram,
    TypicalUser,
    choose_clipping,
    clipped_words,
    coordinate_count,
    first_word_groups,
    largest_amounts,
    shapes,
    typical,
)
from bayesgram.inference.mixing import dominant_source, fit_rough_weights
from bayesgram.inference.model import Inferred, describe_models, describe_sources
from bayesgram.inference.noisy_counts import ClippedMass, NoisyCounts, PublicNgrams
from bayesgram.inference.orders import infer_orders
from bayesgram.io.segments import Segments
from bayesgram.mechanisms.base import CountsMechanism, Outcome, Randomness, require_budget
from bayesgram.privacy.accounting import Spend
from bayesgram.privacy.budget import Budget, Guarantee
from bayesgram.privacy.calibration import GaussianNoise, calibrate_gaussian
from bayesgram.privacy.constants import (
    FIRST_WORD_GROUPS,
    FIRST_WORD_UNITS,
    HISTOGRAM_SHARE,
    NORM_EDGES,
    NORM_GROUPS,
    SOURCE_UNITS,
    UNITS,
    USER_UNITS,
)
from bayesgram.private.clipping import (
    ClippedWordsSpec,
    Coordinates,
    check_clip_norm,
    clipped_mass_sum,
    clipped_sum,
)
from bayesgram.private.counts import PrivateCounts
from bayesgram.private.norm_histogram import HistogramSpec, norm_histogram_sum
from bayesgram.public.vocabulary import Vocabulary
from bayesgram.releases.card import DRIFT_DETAIL
from bayesgram.releases.previous import PreviousRelease, PreviousSegmentedRelease, open_previous
from bayesgram.releases.release import Release
from bayesgram.releases.segmented import SegmentedRelease

if TYPE_CHECKING:
    from bayesgram.mechanisms.by_segment import BySegment


@dataclass(frozen=True)
class Posterior(CountsMechanism):
    """Noisy counts, corrected by public text: the default mechanism.

    Attributes:
        clip_norm: Λ, the L2 norm that a user's counts are clipped to; if it is None, a noisy
            histogram inside the budget chooses it.
        previous: A release that this one follows, as its prior. It is public.

    Example:
        >>> Posterior(clip_norm=4).settings()
        {'clip_norm': 4.0}
    """

    name: ClassVar[str] = "posterior"
    guarantee: ClassVar[Guarantee] = Guarantee.PROVED
    allows_several_orders: ClassVar[bool] = True
    statement: ClassVar[str] = (
        "(ε, δ)-differential privacy, for every dataset: the noise follows public bounds alone."
    )

    clip_norm: float | None = None
    previous: PreviousRelease | PreviousSegmentedRelease | None = None

    def __post_init__(self) -> None:
        check_fields(self)
        if self.clip_norm is not None:
            object.__setattr__(self, "clip_norm", check_clip_norm(self.clip_norm))

    def follow(
        self, previous: "PreviousRelease | Release | SegmentedRelease | str | Path | None"
    ) -> "Posterior":
        """Return this mechanism with an earlier release as its prior."""
        return self if previous is None else replace(self, previous=open_previous(previous))

    def check_inputs(self, data: PrivateCounts, vocabulary: Vocabulary) -> None:
        """Refuse counts of another vocabulary, and an earlier release that does not fit."""
        super().check_inputs(data, vocabulary)
        if isinstance(self.previous, PreviousSegmentedRelease):
            raise UsageError(
                f"{self.previous.name}: holds a release for each segment, and the counts are not"
                f" by segment; give the one of all people, {self.previous.name}/all, or count by"
                f" {self.previous.segments.by!r}."
            )
        if self.previous is not None:
            self.previous.measurements_for(vocabulary.ngrams, vocabulary.tokenizer.name)

    def by_segment(
        self, segments: Segments, on_progress: Callable[[float], None] = lambda _: None
    ) -> "BySegment":
        """Return the mechanism for counts by segment."""
        # `by_segment` imports this module.
        from bayesgram.mechanisms.by_segment import BySegment  # noqa: PLC0415

        if isinstance(self.previous, PreviousRelease):
            raise UsageError(
                f"{self.previous.name}: is one release, and the counts are by "
                f"{segments.by!r}; give the folder of a release by segment, which has `all` "
                "in it, or leave ",
                Argument("previous"),
                " out.",
            )
        return BySegment(self, segments, on_progress)

    def calibrate(self, vocabulary: Vocabulary, budget: Budget, segments: int = 0) -> GaussianNoise:
        """Return the noise of all queries together, for every coordinate that could be asked."""
        longest = vocabulary.by_order[-1][1]
        coordinates = coordinate_count(
            ngrams=len(vocabulary),
            orders=len(vocabulary.by_order),
            longest_order=longest.order,
            words=longest.word_ids[1],
            sources=len(vocabulary.source_names),
            segments=segments,
        )
        return calibrate_gaussian(budget, coordinates=coordinates, units=UNITS)

    def spend(self, vocabulary: Vocabulary, budget: Budget) -> Spend:
        """Return the cost of all queries together; their shares of 1/σ² add up to at most 1."""
        return self.calibrate(vocabulary, budget).spend

    def measure(
        self,
        counts: PrivateCounts,
        vocabulary: Vocabulary,
        budget: Budget | None,
        randomness: Randomness,
    ) -> tuple[list[NoisyCounts], dict[str, Any]]:
        """Ask private counts, and return noisy counts of every order and details for the card."""
        noise = self.calibrate(vocabulary, require_budget(budget, self.name))
        (noisy,), details = self.run_queries(
            counts, Design.from_vocabulary(vocabulary), noise, randomness
        )
        return noisy, details

    def run_queries(
        self, counts: PrivateCounts, design: "Design", noise: GaussianNoise, randomness: Randomness
    ) -> tuple[list[list[NoisyCounts]], dict[str, Any]]:
        """Ask the queries of a design in one budget.

        Formal guarantee: the shares of the queries that are asked add up to at most 1, and one user
        moves the exact sum of each by at most B in L2. So together they cost no more than one
        Gaussian mechanism of `noise.multiplier`.

        Args:
            counts: Private counts.
            design: What is measured. Public.
            noise: The noise of the whole budget.
            randomness: Where noise comes from.

        Returns:
            Noisy counts by order, of all people and then of each segment if the design has any;
            and details for the card.
        """
        plan = None if self.clip_norm is None else ClippingPlan.fixed(self.clip_norm)
        state = QueryState(design, noise, plan)
        for next_query in (norm_histogram_query, clipped_mass_query, counts_query):
            query = next_query(state)
            if query is None:  # not worth its share, by what is known so far
                continue
            multiplier = noise.multiplier_for_share(query.share)
            exact = query.exact_sum(counts)  # one user moves it by at most B in L2
            noisy = randomness.noise.discrete_gaussian(exact, scale=multiplier * UNITS)
            state = query.decode(noisy, multiplier)  # reads nothing private
        return state.groups, state.details

    def estimate(
        self,
        counts: PrivateCounts,
        vocabulary: Vocabulary,
        budget: Budget | None,
        randomness: Randomness,
    ) -> Outcome:
        """Measure noisy counts, combine them with the previous release, and infer."""
        noisy, details = self.measure(counts, vocabulary, budget, randomness)
        parts = [part for _, part in vocabulary.by_order]
        combined, drift = self._combine_with_previous(noisy, parts)
        outcome = describe_outcome(infer_orders(combined, parts), vocabulary, {**drift, **details})
        carried = None if self.previous is None else combined
        return replace(outcome, measurements=make_measurements(noisy, parts, carried))

    def _combine_with_previous(
        self, noisy: list[NoisyCounts], parts: list[Vocabulary]
    ) -> tuple[list[NoisyCounts], dict[str, Any]]:
        """Return noisy counts together with those of the previous release, and card details."""
        if self.previous is None:
            return noisy, {}
        combined, drifts = combine_with_previous(noisy, parts, self.previous.release)
        return combined, {DRIFT_DETAIL: {order: asdict(drift) for order, drift in drifts.items()}}


def describe_outcome(
    inferred: Sequence[Inferred], vocabulary: Vocabulary, details: dict[str, Any]
) -> Outcome:
    """Return what was inferred of every order as one outcome, with details for the card.

    Args:
        inferred: The posterior of every order, the longest last.
        vocabulary: The public vocabulary.
        details: What the card says besides.
    """
    by_order = dict(
        zip((str(part.order) for _, part in vocabulary.by_order), inferred, strict=True)
    )
    totals = {order: round(posterior.total, 1) for order, posterior in by_order.items()}
    theta = np.concatenate([posterior.theta for posterior in inferred])
    std = np.concatenate([posterior.deviation for posterior in inferred])
    model_details = {"model": describe_models(by_order), "expected_counts": totals}
    source_details = describe_sources(vocabulary.source_names, by_order)
    return Outcome(theta, {**model_details, **source_details, **details}, std)


# --- The queries ---


@dataclass(frozen=True, eq=False)
class QueryState:
    """What is known so far: public text, and noisy answers to earlier queries. Nothing private.

    Attributes:
        design: What is measured; the histogram may have updated its mixture of public sources.
        noise: The noise of the whole budget.
        plan: How counts are clipped; None until the histogram has chosen it.
        share_left: Share of the budget (of 1/σ²) that is left.
        clipped_mass: The noisy answer about the text that clipping removes, where it was asked.
        groups: Noisy counts by order, of all people and then of each segment.
        details: What the card says.
    """

    design: "Design"
    noise: GaussianNoise
    plan: ClippingPlan | None
    share_left: float = 1.0
    clipped_mass: ClippedMass | None = None
    groups: list[list[NoisyCounts]] = field(default_factory=list)
    details: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, eq=False)
class Query:
    """One question about private counts.

    Attributes:
        share: Its share of the budget (of 1/σ²).
        exact_sum: Returns integers, by public coordinates, that one user moves by at most
            B = UNITS in L2.
        decode: Takes the noisy integers and their noise multiplier, and returns what is known then.
    """

    share: float
    exact_sum: Callable[[PrivateCounts], Integers]
    decode: Callable[[Integers, float], QueryState]


def norm_histogram_query(state: QueryState) -> Query | None:
    """Ask how much users write, like which public source, and with which first words.

    The answer chooses the clipping plan. It is not asked where a clip norm was given.
    """
    design = state.design
    if state.plan is not None:
        return None

    def decode(noisy: Integers, multiplier: float) -> QueryState:
        users, totals, sources, first_words = design.histogram.split(noisy.astype(np.float64))
        noise_std = multiplier * UNITS / USER_UNITS
        histogram = NormHistogram.from_noisy(users, totals, design.histogram.largest, noise_std)
        weights = fit_rough_weights(sources, multiplier * UNITS / SOURCE_UNITS, design.parts[-1])
        updated = design if weights is None else design.with_source_weights(weights)
        plan = choose_clipping(
            histogram,
            updated.parts[-1],
            state.noise.multiplier * updated.noise_inflation,
            FirstWords(first_words, multiplier * UNITS / FIRST_WORD_UNITS, design.histogram.groups),
        )
        details = {
            "amount_multiplier": multiplier,
            "users_noise": noise_std,
            "norm_edges": NORM_EDGES.tolist(),
            "noisy_users_by_norm": [round(float(number), 1) for number in users],
        }
        return replace(
            state,
            design=updated,
            plan=plan,
            share_left=state.share_left - HISTOGRAM_SHARE,
            details={**state.details, **details},
        )

    return Query(
        share=HISTOGRAM_SHARE,
        exact_sum=lambda counts: norm_histogram_sum(counts, design.ngrams, design.histogram),
        decode=decode,
    )


def clipped_mass_query(state: QueryState) -> Query | None:
    """Ask for the words of the text that clipping removes, if the plan gives that a share."""
    design = state.design
    plan = _require_plan(state)
    if not plan.clipped_mass_share:
        return None
    coordinates = design.coordinates(plan)
    spec = design.clipped_words(plan)

    def decode(noisy: Integers, multiplier: float) -> QueryState:
        removed = noisy * (spec.clip_norm * spec.shape / UNITS)
        noise_std = spec.shape * spec.clip_norm * multiplier
        clipped_mass = ClippedMass(
            design.clipped_word_index,
            removed[:-1],
            noise_std[:-1],
            float(removed[-1]),
            float(noise_std[-1]),
        )
        return replace(
            state, clipped_mass=clipped_mass, share_left=state.share_left - plan.clipped_mass_share
        )

    return Query(
        share=plan.clipped_mass_share,
        exact_sum=lambda counts: clipped_mass_sum(
            counts, coordinates, spec, clip_norm=plan.clip_norm
        ),
        decode=decode,
    )


def counts_query(state: QueryState) -> Query:
    """Ask for the counts of n-grams, words and totals, with all that is left of the budget."""
    design = state.design
    plan = _require_plan(state)
    coordinates = design.coordinates(plan)

    def decode(noisy: Integers, multiplier: float) -> QueryState:
        details = {
            "clip_norm_used": plan.clip_norm,
            "noise_multiplier": multiplier,
            "epsilon_slack": state.noise.slack,
            **state.details,
        }
        if state.clipped_mass is not None:
            details["lost_multiplier"] = state.noise.multiplier_for_share(plan.clipped_mass_share)
            details["lost_norm"] = plan.clipped_mass_norm
        groups = design.decode_counts(noisy, coordinates, multiplier, plan.clip_norm)
        groups[0][-1] = replace(groups[0][-1], lost=state.clipped_mass)
        described = [plan.described(group, design.scales) for group in groups]
        return replace(state, groups=described, details=details, share_left=0.0)

    return Query(
        share=state.share_left,
        exact_sum=lambda counts: clipped_sum(counts, coordinates, clip_norm=plan.clip_norm),
        decode=decode,
    )


def _require_plan(state: QueryState) -> ClippingPlan:
    if state.plan is None:
        raise AssertionError("the histogram, which chooses the plan, comes first")
    return state.plan


# --- The design: what is measured ---


@dataclass(frozen=True, eq=False)
class Design:
    """What is measured: n-grams of every order, words of the longest, and the total of each order.

    All of it is public.

    Attributes:
        parts: Public n-grams by order, the longest last.
    """

    parts: list[PublicNgrams]

    @classmethod
    def from_vocabulary(cls, vocabulary: Vocabulary) -> "Design":
        """Return the design for a vocabulary."""
        return cls([PublicNgrams.of(part) for _, part in vocabulary.by_order])

    def with_source_weights(self, weights: Floats) -> "Design":
        """Return the same design with other weights of the public sources."""
        return replace(self, parts=[part.mixed(weights) for part in self.parts])

    @property
    def noise_inflation(self) -> float:
        """The noise of all people's n-grams, over that of a design without segments."""
        return 1.0

    @cached_property
    def scales(self) -> list[Floats]:
        """The shape of every order, and that of the words of the longest."""
        return shapes(self.parts)

    @cached_property
    def size(self) -> int:
        """The number of n-grams."""
        return sum(public.prior.size for public in self.parts)

    @property
    def longest_start(self) -> int:
        """The index of the first n-gram of the longest order."""
        return self.size - self.parts[-1].prior.size

    @cached_property
    def words(self) -> Ids:
        """The coordinate of each word of each n-gram of the longest order; −1 for other orders.

        There are none if the longest order is 1: unigrams are words already.
        """
        longest = self.parts[-1].words
        if longest.shape[1] == 1:
            return np.zeros((self.size, 0), np.int32)
        words = np.full((self.size, longest.shape[1]), -1, np.int32)
        words[self.longest_start :] = longest + self.size
        return words

    @cached_property
    def ngrams(self) -> Coordinates:
        """The coordinates of n-grams and words, by which the histogram computes a user's norm."""
        return Coordinates(np.concatenate(self.scales), self.words)

    @cached_property
    def histogram(self) -> HistogramSpec:
        """The bins of the norm histogram: only n-grams of the longest order count as text."""
        longest = self.parts[-1]
        source_count = len(longest.sources)
        sources = np.full(self.size, -1, np.int32)
        sources[self.longest_start :] = dominant_source(longest)
        first_words = np.full(self.size, -1, np.int32)
        first_words[self.longest_start :] = first_word_groups(longest)
        return HistogramSpec(
            edges=NORM_EDGES,
            largest=largest_amounts(typical(self.parts[-1:], self.scales[-2:-1])),
            sources=sources,
            source_count=source_count if source_count > 1 else 0,
            groups=NORM_GROUPS,
            first_words=first_words,
            first_word_count=FIRST_WORD_GROUPS,
        )

    def coordinates(self, plan: ClippingPlan) -> Coordinates:
        """Return the coordinates of n-grams, words, and the totals of the orders."""
        typical_users = [
            TypicalUser.of([public.prior], [scale])
            for public, scale in zip(self.parts, self.scales, strict=False)
        ]
        shape = np.concatenate([*self.scales, plan.total_shapes(typical_users)])
        sizes = [public.prior.size for public in self.parts]
        totals_start = shape.size - len(sizes)
        totals = np.repeat(np.arange(len(sizes), dtype=np.int32) + totals_start, sizes)
        words = np.ascontiguousarray(np.column_stack([self.words, totals]), np.int32)
        return Coordinates(shape, words)

    @cached_property
    def clipped_word_index(self) -> Integers:
        """The words that are asked about in the text that clipping removes."""
        return clipped_words(self.parts[-1])[0]

    def clipped_words(self, plan: ClippingPlan) -> ClippedWordsSpec:
        """Return what is asked about the text that clipping removes: words, then the total."""
        longest = self.parts[-1]
        word_index, shape = clipped_words(longest)
        typical_user = TypicalUser.of([longest.per_word(longest.prior)[word_index]], [shape])
        norm = plan.clipped_mass_norm
        total_shape = ClippingPlan(norm, norm).total_shape(typical_user)
        places = np.full(longest.word_total, -1, np.int32)
        places[word_index] = np.arange(word_index.size)
        words = np.full((self.size, longest.words.shape[1] + 1), -1, np.int32)
        total_column = np.full(len(longest.words), word_index.size)
        words[self.longest_start :] = np.column_stack([places[longest.words], total_column])
        return ClippedWordsSpec(np.append(shape, total_shape), words, norm)

    def decode_counts(
        self, noisy: Integers, coordinates: Coordinates, multiplier: float, clip_norm: float
    ) -> list[list[NoisyCounts]]:
        """Return Y = Z̃·Λ·s/B by order; the longest order has words, too.

        The noise of Y has the standard deviation s·Λ·σ.

        Args:
            noisy: Z̃, the noisy integers.
            coordinates: What they are of; s is their shape.
            multiplier: σ.
            clip_norm: Λ.
        """
        sizes = [public.prior.size for public in self.parts]
        edges = np.cumsum([*sizes, self.scales[-1].size])
        counts = np.split(noisy * (clip_norm * coordinates.shape / UNITS), edges)
        noise_std = np.split(coordinates.shape * clip_norm * multiplier, edges)
        word_counts, order_totals = counts[-2:]
        word_noise_std, total_noise_std = noise_std[-2:]
        by_order = [
            NoisyCounts(counts[order], noise_std[order], float(total), float(total_std))
            for order, (total, total_std) in enumerate(
                zip(order_totals, total_noise_std, strict=True)
            )
        ]
        if word_counts.size:
            by_order[-1] = replace(by_order[-1], word_counts=word_counts, word_noise=word_noise_std)
        return [by_order]
