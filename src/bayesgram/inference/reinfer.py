"""Infer a release again from its noisy measurements, with other public text, at no privacy cost.

In:  a release that stored its measurements, or the releases of all segments; a vocabulary.
Out: the same over that vocabulary.

N-grams are found by their text, order by order. N-grams that were measured are inferred as in any
release. N-grams that were not measured stand where public text has them, moved as their words were:

    log θ_i/π_i = Σ_w lift_w   over the words w of n-gram i,

where the lifts of words are fitted to the n-grams that were measured, by ridge regression. The
relative standard deviation of such an n-gram is 1.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, overload

import numpy as np
import pyarrow as pa

from bayesgram.arguments import check_arguments
from bayesgram.arrays import Bools, Floats
from bayesgram.inference.chaining import find_texts, restore_noisy_counts
from bayesgram.inference.hierarchy import infer_segments, merge_source_weights
from bayesgram.inference.model import Inferred, describe_models, describe_sources
from bayesgram.inference.noisy_counts import NoisyCounts, PublicNgrams
from bayesgram.inference.orders import infer_orders
from bayesgram.inference.quality import describe_quality, make_totals_comparable
from bayesgram.public.vocabulary import Vocabulary, public_distribution
from bayesgram.releases.card_sections import SOURCE_WEIGHTS_DETAIL
from bayesgram.releases.measurements import NGRAM, Measurements
from bayesgram.releases.previous import PreviousRelease, PreviousSegmentedRelease, open_previous
from bayesgram.releases.quality import QUALITY_DETAILS
from bayesgram.releases.release import Release
from bayesgram.releases.segmented import SegmentedRelease
from bayesgram.text.ngrams import ngram_tokens
from bayesgram.version import VERSION

# Number of iterations that fit the lifts of words. Chosen by hand; not measured against other
# values.
LIFT_ITERATIONS = 20

# Ridge of the lift of a word: the prior that a word is as in public text is worth so many n-grams
# of average weight. Chosen by hand; not measured against other values.
LIFT_RIDGE = 1.0


@overload
def infer(release: Release, vocabulary: Vocabulary) -> Release: ...
@overload
def infer(release: SegmentedRelease, vocabulary: Vocabulary) -> SegmentedRelease: ...
@overload
def infer(release: str | Path, vocabulary: Vocabulary) -> Release | SegmentedRelease: ...
@check_arguments
def infer(
    release: "Release | SegmentedRelease | str | Path", vocabulary: Vocabulary
) -> Release | SegmentedRelease:
    """Infer a release again, with the public counts of another vocabulary as the prior.

    Releases by segment are inferred together, as they were. This is post-processing: it costs no
    privacy, and the card keeps what the measurements cost.

    Args:
        release: A release that stored its noisy measurements, releases by segment, or a folder of
            either.
        vocabulary: The n-grams of the result, and the public text.

    Returns:
        A release, or releases by segment, over the vocabulary.

    Raises:
        UsageError: If the release stored no measurements, or none of these n-grams, or was made
            with another tokenizer.
    """
    previous = open_previous(release)
    if isinstance(previous, PreviousSegmentedRelease):
        return _infer_segmented_release(previous, vocabulary)
    return _infer_release(previous, vocabulary)


def _infer_release(previous: PreviousRelease, vocabulary: Vocabulary) -> Release:
    """Infer one release by itself."""
    measurements = previous.measurements_for(vocabulary.ngrams, vocabulary.tokenizer.name)
    measured = _MeasuredNgrams.from_measurements(measurements, vocabulary)
    noisy = measured.restore_noisy_counts(measurements)
    return measured.make_release(previous, infer_orders(noisy, measured.parts))


def _infer_segmented_release(
    previous: PreviousSegmentedRelease, vocabulary: Vocabulary
) -> SegmentedRelease:
    """Infer all people and every segment together."""
    tokenizer = vocabulary.tokenizer.name
    previous.check_compatible(previous.segments, vocabulary.ngrams, tokenizer)
    releases = [previous.previous_for(name) for name in previous.names]
    measurements = [release.measurements_for(vocabulary.ngrams, tokenizer) for release in releases]
    measured = _MeasuredNgrams.from_measurements(measurements[0], vocabulary)
    everyone, *segments = map(measured.restore_noisy_counts, measurements)
    joint = infer_segments(everyone, segments, measured.parts)
    source_count = len(vocabulary.source_names)
    inferred = [
        joint.everyone,
        *(merge_source_weights(segment, source_count) for segment in joint.segments),
    ]
    # All people have no share on their card.
    shares = [{}, *joint.describe_shares([part.order for part in measured.parts])]
    inferred_releases = [
        measured.make_release(replace(release, name=previous.name), orders, share)
        for release, orders, share in zip(releases, inferred, shares, strict=True)
    ]
    return SegmentedRelease.from_releases(inferred_releases, previous.segments)


@dataclass(frozen=True, eq=False)
class _MeasuredNgrams:
    """The n-grams of a vocabulary that a release measured.

    Attributes:
        vocabulary: The whole vocabulary.
        masks: For each order, which of its n-grams were measured.
        parts: The measured n-grams, for each order that has any.
    """

    vocabulary: Vocabulary
    masks: list[Bools]
    parts: list[Vocabulary]

    @classmethod
    def from_measurements(
        cls, measurements: Measurements, vocabulary: Vocabulary
    ) -> "_MeasuredNgrams":
        """Find the measured n-grams of a vocabulary."""
        masks = [_find_measured(measurements, part) for _, part in vocabulary.by_order]
        parts = [
            _select_measured(part, mask)
            for mask, (_, part) in zip(masks, vocabulary.by_order, strict=True)
            if mask.any()
        ]
        return cls(vocabulary, masks, parts)

    def restore_noisy_counts(self, measurements: Measurements) -> list[NoisyCounts]:
        """Return the noisy counts of the measured n-grams, by order."""
        return [restore_noisy_counts(measurements, part) for part in self.parts]

    def make_release(
        self,
        previous: PreviousRelease,
        inferred: list[Inferred],
        details: Mapping[str, Any] | None = None,
    ) -> Release:
        """Return a release over the whole vocabulary.

        Args:
            previous: The release that measured.
            inferred: The posterior of the measured n-grams, by order.
            details: More details for the card.
        """
        vocabulary = self.vocabulary
        by_order = {
            part.order: (posterior, part)
            for posterior, part in zip(inferred, self.parts, strict=True)
        }
        parts = [part for _, part in vocabulary.by_order]
        extended = [
            _extend_to_unmeasured(part, mask, by_order)
            for mask, part in zip(self.masks, parts, strict=True)
        ]
        by_name = {
            str(part.order): posterior for posterior, part in zip(extended, parts, strict=True)
        }
        card = replace(
            previous.release.card,
            **_describe_inference(previous, by_name, vocabulary, self.masks, details or {}),
            vocabulary=vocabulary.card_details,
            software=f"bayesgram {VERSION}",
        )
        return Release(
            vocabulary.ngrams,
            np.concatenate([posterior.theta for posterior in extended]),
            card,
            np.concatenate([posterior.deviation for posterior in extended]),
            None if vocabulary.origins is None else vocabulary.origins.discovered,
            previous.release.measurements,
        )


def _find_measured(measurements: Measurements, part: Vocabulary) -> Bools:
    mask: Bools = find_texts(part.ngrams, measurements.ngrams(part.order)[0]) >= 0
    return mask


def _select_measured(part: Vocabulary, mask: Bools) -> Vocabulary:
    return part if mask.all() else part.select(np.flatnonzero(mask))


def _extend_to_unmeasured(
    part: Vocabulary, mask: Bools, by_order: dict[int, tuple[Inferred, Vocabulary]]
) -> Inferred:
    """Return the posterior of all n-grams of one order, of which some or none were measured.

    Args:
        part: All n-grams of the order.
        mask: Which of them were measured.
        by_order: The posterior of measured n-grams, and these n-grams, of each order that has any.
    """
    if mask.all():
        return by_order[part.order][0]
    is_measured_order = part.order in by_order
    inferred, measured_part = by_order[part.order if is_measured_order else max(by_order)]
    public = PublicNgrams.of(part)
    prior = inferred.weights.weights @ public.sources
    theta = prior * np.exp(_predict_lifts(part.ngrams, inferred, measured_part))
    deviation = np.zeros_like(theta)
    if is_measured_order:
        # Measured n-grams together keep the mass that public text gives them.
        measured_mass = float(prior[mask].sum())
        theta[mask] = measured_mass * inferred.theta
        deviation[mask] = measured_mass * inferred.deviation
    deviation[~mask] = theta[~mask]
    mass = float(theta.sum())
    total = inferred.total
    if is_measured_order:
        total *= mass / float(theta[mask].sum())
    return replace(
        inferred,
        theta=theta / mass,
        deviation=deviation / mass,
        total=total,
        coverage=None,  # how often people write n-grams that were not measured is unknown
    )


def _predict_lifts(
    ngrams: pa.LargeStringArray, inferred: Inferred, measured_part: Vocabulary
) -> Floats:
    """Return log θ/π of n-grams as the sum of the lifts of their words.

    The lifts of words minimise Σ_i weight_i (log θ_i/π_i − Σ_w lift_w)² + ridge Σ_w lift_w² over
    the measured n-grams. A word that none of them has gets 0.

    Args:
        ngrams: N-grams, measured or not.
        inferred: The posterior of the measured n-grams.
        measured_part: The measured n-grams.
    """
    public = PublicNgrams.of(measured_part)
    prior = inferred.weights.weights @ public.sources
    lifts = np.log(inferred.theta / prior)
    weights = prior / float(prior.mean())
    word_lifts = np.zeros(public.word_total)
    diagonal = public.per_word(weights) + LIFT_RIDGE
    # Jacobi iterations. The step is divided by the number of words in an n-gram, because all of
    # them move at once.
    for _ in range(LIFT_ITERATIONS):
        residual = lifts - public.per_ngram(word_lifts)
        word_lifts += (public.per_word(weights * residual) - LIFT_RIDGE * word_lifts) / (
            diagonal * public.words.shape[1]
        )
    tokens = ngram_tokens(ngrams, measured_part.tokenizer)
    # The index −1 of an unknown word takes the 0 at the end.
    token_lifts = np.append(word_lifts, 0.0)[find_texts(tokens, measured_part.tokens)]
    ngram_lifts: Floats = token_lifts.reshape(len(ngrams), -1).sum(axis=1)
    return ngram_lifts


def _describe_inference(
    previous: PreviousRelease,
    inferred: dict[str, Inferred],
    vocabulary: Vocabulary,
    masks: list[Bools],
    details: Mapping[str, Any],
) -> dict[str, Any]:
    """Return the fields of the card that describe the inference; the others stay as they are.

    Args:
        previous: The release that measured.
        inferred: The posterior, by the name of the order.
        vocabulary: The vocabulary.
        masks: For each order, which n-grams were measured.
        details: More details for the card.
    """
    card = previous.release.card
    measurements = previous.release.measurements
    measured_count = 0 if measurements is None else int(measurements.kind_mask(NGRAM).sum())
    used_count = int(sum(mask.sum() for mask in masks))
    # What the first inference said of sources and of its quality does not hold for this one.
    stale = (SOURCE_WEIGHTS_DETAIL, *QUALITY_DETAILS)
    all_details = {name: value for name, value in card.details.items() if name not in stale}
    priors = {str(part.order): public_distribution(part.counts) for _, part in vocabulary.by_order}
    all_details |= {
        "model": describe_models(inferred),
        "expected_counts": {
            order: round(total, 1) for order, total in make_totals_comparable(inferred).items()
        },
        **describe_sources(vocabulary.source_names, inferred),
        **describe_quality(inferred, priors),
        **details,
    }
    inference = {
        "from": previous.name,
        "vocabulary": card.vocabulary["fingerprint"],
        "measured": used_count,
        "not_measured": len(vocabulary) - used_count,
        "ignored": measured_count - used_count,
        "public_text": vocabulary.source_names,
        # What the measurements were made from stays with them, whatever vocabulary they are read
        # with.
        "discoveries": [asdict(claim) for claim in card.discoveries],
        "made_from": [asdict(ingredient) for ingredient in card.ingredients],
    }
    return {"details": all_details, "inferred": inference, "command": None}
