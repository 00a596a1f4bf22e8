"""All people and every segment of them: the posterior of all is the prior of each, and they agree.

In:  noisy counts of all people and of each segment, by order, and public text.   Out: θ of all and of each segment.

All people are measured twice, by n-grams of their own and as the sum over segments: both together, by their
precision, give the posterior of all. It is the prior of each segment, beside public text itself, which a segment may
be more like: small segments shrink to all people, and one without a signal has their answer. Then all are made to
agree: for each order θ_all = Σ share·θ exactly, with the shares that are told beside.
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

Tell = Callable[[float], None]  # which share of the work is done
Each = Callable[..., Iterable[list[Inferred]]]  # `map`, or one that has several cores


@dataclass(frozen=True, eq=False)
class JointPosterior:
    """What is inferred of all people, and of each segment, by order."""

    everyone: list[Inferred]
    segments: list[list[Inferred]]
    shares: Floats  # segments × orders: of what people write, as far as clipping leaves it

    def shares_told(self, orders: Sequence[int]) -> list[dict[str, Any]]:
        """What the card of each segment says of its share, by order."""
        names = [str(order) for order in orders]
        return [{"share": dict(zip(names, own, strict=True))} for own in self.shares.tolist()]


def infer_segments(
    everyone: Sequence[NoisyCounts],
    segments: Sequence[Sequence[NoisyCounts]],
    parts: Sequence[Vocabulary],
    tell: Tell = lambda _: None,
    each: Each = map,
) -> JointPosterior:
    """The posterior of all and of every segment, by order; `parts` are the n-grams of each."""
    summed = [with_sum(whole, [one[at] for one in segments]) for at, whole in enumerate(everyone)]
    publics = [PublicNgrams.of(part) for part in parts]
    vectors = [compute_word_vectors(public) for public in publics]
    all_found = infer_orders(summed, parts, publics, vectors)
    priors = [prior_of(found, public) for found, public in zip(all_found, publics, strict=True)]
    done = count(1)

    def inferred(noisy: Sequence[NoisyCounts]) -> list[Inferred]:
        one = infer_orders(noisy, parts, priors, vectors)
        tell(next(done) / len(segments))
        return one

    found = list(each(inferred, segments))
    by_order = [
        agreeing(whole, [one[at] for one in found], prior)
        for at, (whole, prior) in enumerate(zip(all_found, priors, strict=True))
    ]
    moved = [list(orders) for orders in zip(*(orders for orders, _ in by_order), strict=True)]
    return JointPosterior(all_found, moved, np.column_stack([shares for _, shares in by_order]))


def with_sum(whole: NoisyCounts, segments: Sequence[NoisyCounts]) -> NoisyCounts:
    """All people by n-grams of their own and by the sum over segments, whose noise is independent of it."""
    count, noise = _combined(
        (whole.counts, whole.noise),
        (
            np.sum([one.counts for one in segments], axis=0),
            np.sqrt(np.sum([one.noise**2 for one in segments], axis=0)),
        ),
    )
    summed, doubt = (
        sum(one.total for one in segments),
        sum(one.total_noise**2 for one in segments) ** 0.5,
    )
    total, total_noise = _combined(
        (np.array(whole.total), np.array(whole.total_noise)), (np.array(summed), np.array(doubt))
    )
    return replace(
        whole, counts=count, noise=noise, total=float(total), total_noise=float(total_noise)
    )


def _combined(one: tuple[Floats, Floats], other: tuple[Floats, Floats]) -> tuple[Floats, Floats]:
    """Two measurements of the same, with their standard deviations, by precision."""
    first, second = one[1] ** -2.0, other[1] ** -2.0
    return (first * one[0] + second * other[0]) / (first + second), (first + second) ** -0.5


def prior_of(found: Inferred, public: PublicNgrams) -> PublicNgrams:
    """What is known of a segment before it is looked at: all people; and it may lean to any source of public text.

    Each source is there twice: moved by what all people taught, and as it is. With the weights that all people have,
    the moved ones add up to their posterior (of what clipping leaves, as that is what is measured).
    """
    weights = found.weights.weights
    moved = public.sources * (found.kept / (weights @ public.sources))
    masses = moved.sum(axis=1)
    made = replace(
        public,
        prior=found.kept,
        sources=np.vstack([moved / masses[:, None], public.sources]),
        weights=np.concatenate([weights * masses, np.zeros(weights.size)]),
        learnt=True,
        on_one_core=True,
    )
    made.__dict__["pieces"] = public.pieces  # does not depend on the prior
    return made


def agreeing(
    everyone: Inferred, segments: Sequence[Inferred], prior: PublicNgrams
) -> tuple[list[Inferred], Floats]:
    """One order of all segments such that θ_all = Σ share·θ, and the shares.

    Shares begin as those of the expected counts; then each n-gram is multiplied alike in all segments, as far as
    needed, which moves them least in KL, and shares follow. Segments that have the prior have the answer of all.
    """
    totals = np.array([max(one.total, 1.0) for one in segments])
    shares = totals / totals.sum()
    unseen: Bools = np.array([np.array_equal(one.theta, prior.prior) for one in segments])
    if unseen.all():
        return [_like(everyone, one) for one in segments], shares
    seen = [
        (one, share)
        for one, share, not_seen in zip(segments, shares, unseen, strict=True)
        if not not_seen
    ]
    mixed = np.sum([share * one.theta for one, share in seen], axis=0)
    factors = everyone.theta * float(shares[~unseen].sum()) / mixed
    found = []
    for at, one in enumerate(segments):
        if unseen[at]:
            found.append(_like(everyone, one))
            continue
        moved = one.theta * factors
        mass = float(moved.sum())
        shares[at] *= mass
        found.append(replace(one, theta=moved / mass, deviation=one.deviation * factors / mass))
    return found, shares


def _like(everyone: Inferred, segment: Inferred) -> Inferred:
    """The answer of all people; of a segment that may be any, nothing is known but that."""
    return replace(
        segment, theta=everyone.theta, deviation=np.maximum(everyone.deviation, everyone.theta)
    )


def by_source(segment: Sequence[Inferred], number: int) -> list[Inferred]:
    """A source is there as all people moved it and as it is: both together are its weight."""
    return [replace(one, weights=_added(one.weights, number)) for one in segment]


def _added(weights: Weights, number: int) -> Weights:
    both = weights.weights[:number] + weights.weights[number:]
    return replace(
        weights,
        weights=both,
        deviations=np.hypot(weights.deviations[:number], weights.deviations[number:]),
    )
