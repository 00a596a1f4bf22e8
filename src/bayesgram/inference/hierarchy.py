"""Infer all people and every segment together, so that the segments add up to all people.

In:  noisy counts of all people and of each segment, by order, and public text.
Out: θ of all people and of each segment, and the share of each segment.

1. All people are measured twice, by coordinates of their own and by the sum over segments. Both are
   averaged by their precision, and give θ of all people.
2. θ of all people is the prior of each segment. Public text is a second prior, which a segment may
   be more like. A small segment is shrunk towards all people, and a segment without a signal is
   inferred to be like them.
3. Segments are then moved so that, for each order,

       θ_all = Σ_s share_s · θ_s

   holds exactly, with shares that the cards state.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import count
from typing import Any

import numpy as np

from bayesgram.arrays import Bools, Floats
from bayesgram.inference.mixing import Weights
from bayesgram.inference.model import Inferred
from bayesgram.inference.noisy_counts import NoisyCounts, PublicNgrams
from bayesgram.inference.orders import infer_orders
from bayesgram.inference.pooling import compute_word_vectors
from bayesgram.public.vocabulary import Vocabulary

# Called with the share of the segments that is done.
OnProgress = Callable[[float], None]

# `map`, or a function like it that uses several cores.
MapFunction = Callable[..., Iterable[list[Inferred]]]


@dataclass(frozen=True, eq=False)
class JointPosterior:
    """The posterior of all people and of each segment.

    Attributes:
        everyone: Of all people, by order.
        segments: Of each segment, by order.
        shares: Segments × orders: the share of each segment in the text that clipping keeps.
    """

    everyone: list[Inferred]
    segments: list[list[Inferred]]
    shares: Floats

    def describe_shares(self, orders: Sequence[int]) -> list[dict[str, Any]]:
        """Return what the card of each segment says of its share, by order."""
        names = [str(order) for order in orders]
        return [
            {"share": dict(zip(names, segment_shares, strict=True))}
            for segment_shares in self.shares.tolist()
        ]


def infer_segments(
    everyone: Sequence[NoisyCounts],
    segments: Sequence[Sequence[NoisyCounts]],
    parts: Sequence[Vocabulary],
    on_progress: OnProgress = lambda _: None,
    map_function: MapFunction = map,
) -> JointPosterior:
    """Infer all people and every segment, and make them agree.

    Args:
        everyone: Noisy counts of all people, by order.
        segments: Noisy counts of each segment, by order.
        parts: The n-grams of each order.
        on_progress: Called with the share of the segments that is done.
        map_function: Infers the segments one after the other, or on several cores.
    """
    with_sums = [
        combine_with_segment_sum(of_all, [segment[index] for segment in segments])
        for index, of_all in enumerate(everyone)
    ]
    publics = [PublicNgrams.of(part) for part in parts]
    vectors = [compute_word_vectors(public) for public in publics]
    inferred_all = infer_orders(with_sums, parts, publics, vectors)
    priors = [
        make_segment_prior(inferred, public)
        for inferred, public in zip(inferred_all, publics, strict=True)
    ]
    done_counter = count(1)

    def infer_segment(noisy: Sequence[NoisyCounts]) -> list[Inferred]:
        inferred = infer_orders(noisy, parts, priors, vectors)
        on_progress(next(done_counter) / len(segments))
        return inferred

    inferred_segments = list(map_function(infer_segment, segments))
    reconciled_orders = []
    share_columns = []
    for index, (inferred, prior) in enumerate(zip(inferred_all, priors, strict=True)):
        of_order = [segment[index] for segment in inferred_segments]
        reconciled, shares = reconcile_segments(inferred, of_order, prior)
        reconciled_orders.append(reconciled)
        share_columns.append(shares)
    by_segment = [list(orders) for orders in zip(*reconciled_orders, strict=True)]
    return JointPosterior(inferred_all, by_segment, np.column_stack(share_columns))


def combine_with_segment_sum(everyone: NoisyCounts, segments: Sequence[NoisyCounts]) -> NoisyCounts:
    """Return all people's counts, averaged with the sum over segments.

    The noise of the two is independent, so the precisions add up.
    """
    counts, noise_std = _average_by_precision(
        everyone.counts,
        everyone.noise,
        np.sum([segment.counts for segment in segments], axis=0),
        np.sqrt(np.sum([segment.noise**2 for segment in segments], axis=0)),
    )
    total, total_std = _average_by_precision(
        np.array(everyone.total),
        np.array(everyone.total_noise),
        np.array(sum(segment.total for segment in segments)),
        np.array(sum(segment.total_noise**2 for segment in segments) ** 0.5),
    )
    return replace(
        everyone, counts=counts, noise=noise_std, total=float(total), total_noise=float(total_std)
    )


def _average_by_precision(
    first: Floats, first_std: Floats, second: Floats, second_std: Floats
) -> tuple[Floats, Floats]:
    """Return the average of two measurements of the same, and its standard deviation."""
    first_precision = first_std**-2.0
    second_precision = second_std**-2.0
    precision = first_precision + second_precision
    average = (first_precision * first + second_precision * second) / precision
    return average, precision**-0.5


def make_segment_prior(everyone: Inferred, public: PublicNgrams) -> PublicNgrams:
    """Return the prior of a segment: all people, and any source of public text.

    Each source of public text is there twice: moved by what was learnt of all people, and as it is.
    The moved ones, with all people's weights, add up to all people's posterior. It is the posterior
    of the text that clipping keeps, because that is what is measured of a segment.
    """
    weights = everyone.weights.weights
    moved = public.sources * (everyone.kept / (weights @ public.sources))
    moved_sums = moved.sum(axis=1)
    prior = replace(
        public,
        prior=everyone.kept,
        sources=np.vstack([moved / moved_sums[:, None], public.sources]),
        weights=np.concatenate([weights * moved_sums, np.zeros(weights.size)]),
        learnt=True,
        on_one_core=True,
    )
    # Pieces do not depend on the prior: they need not be computed again for every segment.
    prior.__dict__["pieces"] = public.pieces
    return prior


def reconcile_segments(
    everyone: Inferred, segments: Sequence[Inferred], prior: PublicNgrams
) -> tuple[list[Inferred], Floats]:
    """Move one order of all segments such that θ_all = Σ share·θ, and return the shares as well.

    Shares begin as those of the expected counts. Each n-gram then gets the same factor in all
    segments, which is the smallest change in KL divergence, and the shares follow. Segments that
    are inferred to be like the prior get θ of all people instead.

    Args:
        everyone: The posterior of all people.
        segments: The posterior of each segment.
        prior: The prior of the segments.
    """
    # A segment without a signal may have a total of 0 or less; it counts as one n-gram.
    totals = np.array([max(segment.total, 1.0) for segment in segments])
    shares = totals / totals.sum()
    is_prior: Bools = np.array([np.array_equal(segment.theta, prior.prior) for segment in segments])
    if is_prior.all():
        return [_copy_everyone(everyone, segment) for segment in segments], shares
    weighted = [
        share * segment.theta
        for segment, share, skip in zip(segments, shares, is_prior, strict=True)
        if not skip
    ]
    mixture = np.sum(weighted, axis=0)
    factors = everyone.theta * float(shares[~is_prior].sum()) / mixture
    reconciled = []
    for i, segment in enumerate(segments):
        if is_prior[i]:
            reconciled.append(_copy_everyone(everyone, segment))
            continue
        moved = segment.theta * factors
        moved_sum = float(moved.sum())
        shares[i] *= moved_sum
        deviation = segment.deviation * factors / moved_sum
        reconciled.append(replace(segment, theta=moved / moved_sum, deviation=deviation))
    return reconciled, shares


def _copy_everyone(everyone: Inferred, segment: Inferred) -> Inferred:
    """Return all people's θ for a segment that showed no signal of its own.

    How far it may be from all people is in its deviation already (`model.estimate_difference`).
    """
    difference = segment.deviation / segment.theta * everyone.theta
    deviation = np.hypot(everyone.deviation, difference)
    return replace(segment, theta=everyone.theta, deviation=deviation)


def merge_source_weights(segment: Sequence[Inferred], source_count: int) -> list[Inferred]:
    """Add up both weights of each source, which is there twice in the prior of a segment."""
    return [
        replace(inferred, weights=_add_halves(inferred.weights, source_count))
        for inferred in segment
    ]


def _add_halves(weights: Weights, source_count: int) -> Weights:
    moved_std = weights.deviations[:source_count]
    public_std = weights.deviations[source_count:]
    return replace(
        weights,
        weights=weights.weights[:source_count] + weights.weights[source_count:],
        deviations=np.hypot(moved_std, public_std),
    )
