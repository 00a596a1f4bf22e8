"""The posterior mechanism, the default: noisy counts, corrected by public text.

Of the n-grams of each order it asks at most three queries about private counts
(`norm_histogram_query`, `clipped_mass_query`, `counts_query`), each a value of one type, `Query`.
Every order has a clip norm of its own and the same share of the budget. `Posterior.run_queries` is
a loop over orders and queries that reads like the proof in docs/promise.md: an exact integer sum
that one user moves by at most B, discrete Gaussian noise, and a decoding that reads nothing but
noisy answers and public text. Everything after the queries is post-processing, in `inference`.
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
    NOT_WITHHELD_RATIO,
    UNLISTED_RATIO,
    WITHHELD_RATIO,
    ClippingPlan,
    NormHistogram,
    TypicalUser,
    choose_clipping,
    clipped_words,
    coordinate_count,
    max_amounts,
    order_shapes,
)
from bayesgram.inference.mixing import dominant_source, fit_rough_weights
from bayesgram.inference.model import Inferred, describe_models, describe_sources
from bayesgram.inference.noisy_counts import (
    ClippedMass,
    NoisyCounts,
    PublicNgrams,
    WithheldShare,
)
from bayesgram.inference.orders import infer_orders
from bayesgram.inference.quality import describe_quality, make_totals_comparable
from bayesgram.io.segments import Segments
from bayesgram.mechanisms.base import CountsMechanism, Outcome, Randomness, require_budget
from bayesgram.privacy.accounting import Spend
from bayesgram.privacy.budget import Budget, Guarantee
from bayesgram.privacy.calibration import GaussianNoise, calibrate_gaussian
from bayesgram.privacy.constants import (
    ACTIVITY_CLASSES,
    HISTOGRAM_SHARE,
    NORM_EDGES,
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
from bayesgram.private.order_counts import check_unlisted_columns, select_order
from bayesgram.public.vocabulary import Vocabulary, public_distribution
from bayesgram.releases.card import DRIFT_DETAIL
from bayesgram.releases.card_sections import BY_ORDER_DETAIL, TOTAL_NOISE_DETAIL
from bayesgram.releases.previous import PreviousRelease, PreviousSegmentedRelease, open_previous
from bayesgram.releases.quality import ROWS_DETAIL
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
        series_noise: The noise of a release of a series, which was paid for before
            (`mechanisms.series`); None if the budget decides.

    Example:
        >>> Posterior(clip_norm=4).settings()
        {'clip_norm': 4.0}
    """

    name: ClassVar[str] = "posterior"
    guarantee: ClassVar[Guarantee] = Guarantee.PROVED
    allows_several_orders: ClassVar[bool] = True
    statement: ClassVar[str] = (
        "(ε, δ)-differential privacy, for every dataset: the noise follows public settings and"
        " earlier noisy answers alone."
    )

    clip_norm: float | None = None
    previous: PreviousRelease | PreviousSegmentedRelease | None = None
    series_noise: GaussianNoise | None = None

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
        self.check_no_series()
        check_unlisted_columns(data, [len(part) for _, part in vocabulary.by_order])
        if isinstance(self.previous, PreviousSegmentedRelease):
            raise UsageError(
                f"{self.previous.name}: holds a release for each segment, and the counts are not"
                f" by segment; give the one of all people, {self.previous.name}/all, or count by"
                f" {self.previous.segments.by!r}."
            )
        if self.previous is not None:
            self.previous.measurements_for(vocabulary.ngrams, vocabulary.tokenizer.name)

    def check_no_series(self) -> None:
        """Refuse noise that was set by hand: only a release of a series sets it."""
        if self.series_noise is not None:
            raise UsageError(
                "series_noise: is set by releases of a series alone; leave it out, and give ",
                Argument("series"),
                " to release.",
            )

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
        if self.series_noise is not None:
            return self.series_noise
        parts = [PublicNgrams.of(part) for _, part in vocabulary.by_order]
        coordinates = coordinate_count(parts, segments)
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
        designs = [
            OrderDesign(PublicNgrams.of(part), has_allowances=self.series_noise is not None)
            for _, part in vocabulary.by_order
        ]
        (noisy,), details = self.run_queries(counts, designs, noise, randomness)
        return noisy, details

    def run_queries(
        self,
        counts: PrivateCounts,
        designs: "Sequence[OrderDesign]",
        noise: GaussianNoise,
        randomness: Randomness,
    ) -> tuple[list[list[NoisyCounts]], dict[str, Any]]:
        """Ask the queries of all orders in one budget, which they share evenly.

        Formal guarantee: the shares of the queries that are asked add up to at most 1, and one user
        moves the exact sum of each by at most B in L2. So together they cost no more than one
        Gaussian mechanism of `noise.multiplier`.

        Args:
            counts: Private counts.
            designs: What is measured of each order. Public.
            noise: The noise of the whole budget.
            randomness: Where noise comes from.

        Returns:
            Noisy counts by order, of all people and then of each segment if the designs have any;
            and details for the card.
        """
        plan = None if self.clip_norm is None else ClippingPlan.fixed(self.clip_norm)
        states = []
        for index, design in enumerate(designs):
            order_counts = select_order(counts, [each.size for each in designs], index)
            state = QueryState(design, noise, plan, share_left=1 / len(designs))
            orders_left = (len(designs) - 1 - index) / len(designs)
            for next_query in (norm_histogram_query, clipped_mass_query, counts_query):
                query = next_query(state)
                if query is None:  # not worth its share, by what is known so far
                    continue
                multiplier = noise.multiplier_for_share(query.share)
                exact = order_counts.metered_sum(  # one user moves it by at most B in L2
                    query.exact_sum,
                    share=query.share,
                    share_left=state.share_left + orders_left,
                )
                noisy = randomness.noise.discrete_gaussian(exact, scale=multiplier * UNITS)
                state = query.decode(noisy, multiplier)  # reads nothing private
            states.append(state)
        groups = [
            list(by_order) for by_order in zip(*(state.groups for state in states), strict=True)
        ]
        if not counts.unlisted_size:
            groups = [[replace(part, unlisted=None) for part in group] for group in groups]
        details = {str(state.design.order): state.details for state in states}
        return groups, {
            TOTAL_NOISE_DETAIL: noise.multiplier,
            "epsilon_slack": noise.slack,
            BY_ORDER_DETAIL: details,
        }

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
    comparable_totals = make_totals_comparable(by_order)
    totals = {order: round(total, 1) for order, total in comparable_totals.items()}
    priors = {str(part.order): public_distribution(part.counts) for _, part in vocabulary.by_order}
    theta = np.concatenate([posterior.theta for posterior in inferred])
    std = np.concatenate([posterior.deviation for posterior in inferred])
    model_details = {"model": describe_models(by_order), "expected_counts": totals}
    source_details = describe_sources(vocabulary.source_names, by_order)
    quality_details = describe_quality(by_order, priors)
    if vocabulary.tokenizer.is_rows:
        quality_details[ROWS_DETAIL] = True
    return Outcome(theta, {**model_details, **source_details, **quality_details, **details}, std)


# --- The queries ---


@dataclass(frozen=True, eq=False)
class QueryState:
    """What is known of an order so far: public text, and noisy answers. Nothing private.

    Attributes:
        design: What is measured; the histogram may have updated its mixture of public sources.
        noise: The noise of the whole budget.
        plan: How counts are clipped; None until the histogram has chosen it.
        share_left: Share of the budget (of 1/σ²) that is left for this order.
        clipped_mass: The noisy answer about the text that clipping removes, where it was asked.
        groups: Noisy counts, of all people and then of each segment.
        details: What the card says of this order.
    """

    design: "OrderDesign"
    noise: GaussianNoise
    plan: ClippingPlan | None
    share_left: float
    clipped_mass: ClippedMass | None = None
    groups: list[NoisyCounts] = field(default_factory=list)
    details: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, eq=False)
class Query:
    """One question about private counts of one order.

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
    """Ask how much users write, and like which public source.

    The answer chooses the clipping plan. It is not asked where a clip norm was given.
    """
    design = state.design
    if state.plan is not None:
        return None
    share = HISTOGRAM_SHARE * state.share_left

    def decode(noisy: Integers, multiplier: float) -> QueryState:
        users, totals, sources = design.histogram.split(noisy.astype(np.float64))
        noise_std = multiplier * UNITS / USER_UNITS
        histogram = NormHistogram.from_noisy(users, totals, design.histogram.largest, noise_std)
        weights = fit_rough_weights(sources, multiplier * UNITS / SOURCE_UNITS, design.public)
        updated = design if weights is None else design.with_source_weights(weights)
        plan = choose_clipping(
            histogram,
            updated.public,
            state.noise.multiplier_for_share(state.share_left) * updated.noise_inflation,
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
            share_left=state.share_left - share,
            details={**state.details, **details},
        )

    return Query(
        share=share,
        exact_sum=lambda counts: norm_histogram_sum(counts, design.ngrams, design.histogram),
        decode=decode,
    )


def clipped_mass_query(state: QueryState) -> Query | None:
    """Ask for the words of the text that clipping removes, if the plan gives that a share."""
    design = state.design
    plan = _require_plan(state)
    if not plan.clipped_mass_share:
        return None
    # The plan's share is of what the order had before the histogram.
    share = plan.clipped_mass_share * state.share_left / (1 - HISTOGRAM_SHARE)
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
        details = {"lost_multiplier": multiplier, "lost_norm": plan.clipped_mass_norm}
        return replace(
            state,
            clipped_mass=clipped_mass,
            share_left=state.share_left - share,
            details={**state.details, **details},
        )

    return Query(
        share=share,
        exact_sum=lambda counts: clipped_mass_sum(
            counts, coordinates, spec, clip_norm=plan.clip_norm
        ),
        decode=decode,
    )


def counts_query(state: QueryState) -> Query:
    """Ask for the counts of n-grams, words and totals, with all that is left for the order."""
    design = state.design
    plan = _require_plan(state)
    coordinates = design.counts_coordinates(plan)

    def decode(noisy: Integers, multiplier: float) -> QueryState:
        details = {
            "clip_norm_used": plan.clip_norm,
            "noise_multiplier": multiplier,
            **state.details,
        }
        measured = coordinates.without_withheld
        groups = design.decode_counts(
            noisy[: measured.shape.size], measured, multiplier, plan.clip_norm
        )
        groups[0] = replace(groups[0], lost=state.clipped_mass)
        described = [plan.annotate(group, design.ngram_shape) for group in groups]
        if coordinates.withheld >= 0:
            units = plan.clip_norm * coordinates.shape[coordinates.withheld :]
            withheld = WithheldShare.from_noisy(
                noisy[coordinates.withheld :] * units / UNITS, multiplier * units, groups[0]
            )
            described = [withheld.annotate(group) for group in described]
            details["withheld"] = withheld.to_json()
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
class OrderDesign:
    """What is measured of one order: n-grams, their words, and totals. All of it is public.

    The columns of the counts are the n-grams, and one more for all n-grams of this order that the
    vocabulary does not list. The coordinates are these columns, the words (for order 1 there are
    none: unigrams are words), and the total of the listed n-grams.

    Attributes:
        public: Public n-grams of the order.
        has_allowances: Whether users have allowances, so that the text that these leave out is
            measured, by coordinates after all others.
    """

    public: PublicNgrams
    has_allowances: bool = field(default=False, kw_only=True)

    def with_source_weights(self, weights: Floats) -> "OrderDesign":
        """Return the same design with other weights of the public sources."""
        return replace(self, public=self.public.mixed(weights))

    @property
    def order(self) -> int:
        """The number of words of an n-gram."""
        return int(self.public.words.shape[1])

    @property
    def noise_inflation(self) -> float:
        """The noise of all people's n-grams, over that of a design without segments."""
        return 1.0

    @property
    def ngram_shape(self) -> Floats:
        """The shape of the n-grams."""
        return self._shapes[0]

    @cached_property
    def _shapes(self) -> tuple[Floats, Floats]:
        return order_shapes(self.public)

    @property
    def size(self) -> int:
        """The number of n-grams."""
        return int(self.public.prior.size)

    @cached_property
    def _word_columns(self) -> Ids:
        """Each word of each n-gram, by its number; V × 0 where there are no words."""
        if self.order == 1:
            return np.zeros((self.size, 0), np.int32)
        return np.ascontiguousarray(self.public.words, np.int32)

    @cached_property
    def ngrams(self) -> Coordinates:
        """The coordinates of n-grams and words, by which the histogram computes a user's norm."""
        return Coordinates(np.concatenate(self._shapes), self._word_columns + np.int32(self.size))

    @cached_property
    def histogram(self) -> HistogramSpec:
        """The bins of the norm histogram."""
        source_count = len(self.public.sources)
        return HistogramSpec(
            edges=NORM_EDGES,
            largest=max_amounts(self.public, self.ngram_shape),
            sources=dominant_source(self.public),
            source_count=source_count if source_count > 1 else 0,
        )

    def coordinates(self, plan: ClippingPlan) -> Coordinates:
        """Return the coordinates: n-grams, unlisted n-grams, words, and the total."""
        ngram_shape, word_shape = self._shapes
        total_shape = plan.total_shape(TypicalUser.from_rates([self.public.prior], [ngram_shape]))
        shape = np.concatenate(
            [ngram_shape, [UNLISTED_RATIO * total_shape], word_shape, [total_shape]]
        )
        words = np.full((self.size + 1, self._word_columns.shape[1] + 1), -1, np.int32)
        words[: self.size, :-1] = self._word_columns + np.int32(self.size + 1)
        words[: self.size, -1] = shape.size - 1
        return Coordinates(shape, words)

    def total_place(self, coordinates: Coordinates) -> int:
        """Return the coordinate of the total of all people."""
        return coordinates.shape.size - 1

    def counts_coordinates(self, plan: ClippingPlan) -> Coordinates:
        """Return the coordinates of the counts, and of the text that allowances leave out."""
        coordinates = self.coordinates(plan)
        if not self.has_allowances:
            return coordinates
        total = self.total_place(coordinates)
        ratios = np.repeat((WITHHELD_RATIO, NOT_WITHHELD_RATIO), ACTIVITY_CLASSES)
        return Coordinates(
            np.concatenate([coordinates.shape, ratios * coordinates.shape[total]]),
            coordinates.words,
            total=total,
            withheld=coordinates.shape.size,
        )

    @cached_property
    def clipped_word_index(self) -> Integers:
        """The words that are asked about in the text that clipping removes."""
        return clipped_words(self.public)[0]

    def clipped_words(self, plan: ClippingPlan) -> ClippedWordsSpec:
        """Return what is asked about the text that clipping removes: words, then the total."""
        public = self.public
        word_index, shape = clipped_words(public)
        user = TypicalUser.from_rates([public.per_word(public.prior)[word_index]], [shape])
        norm = plan.clipped_mass_norm
        total_shape = ClippingPlan(norm, norm).total_shape(user)
        places = np.full(public.word_total, -1, np.int32)
        places[word_index] = np.arange(word_index.size)
        words = np.full((self.size + 1, self.order + 1), -1, np.int32)
        words[: self.size, :-1] = places[public.words]
        words[: self.size, -1] = word_index.size
        return ClippedWordsSpec(np.append(shape, total_shape), words, norm)

    def decode_counts(
        self, noisy: Integers, coordinates: Coordinates, multiplier: float, clip_norm: float
    ) -> list[NoisyCounts]:
        """Return Y = Z̃·Λ·s/B, whose noise has the standard deviation s·Λ·σ.

        Args:
            noisy: Z̃, the noisy integers.
            coordinates: What they are of; s is their shape.
            multiplier: σ.
            clip_norm: Λ.

        Returns:
            Noisy counts of all people, and then of each segment.
        """
        counts = noisy * (clip_norm * coordinates.shape / UNITS)
        noise_std = coordinates.shape * clip_norm * multiplier
        size = self.size
        decoded = NoisyCounts(
            counts[:size],
            noise_std[:size],
            float(counts[-1]),
            float(noise_std[-1]),
            unlisted=float(counts[size]),
            unlisted_noise=float(noise_std[size]),
        )
        if self.order > 1:
            decoded = replace(
                decoded,
                word_counts=counts[size + 1 : -1],
                word_noise=noise_std[size + 1 : -1],
            )
        return [decoded]
