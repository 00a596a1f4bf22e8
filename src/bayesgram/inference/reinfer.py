"""Another posterior from the noisy measurements of a release, with other public text: nothing is spent again.

In:  a release that kept its measurements, or those of all segments, and a vocabulary.   Out: the same over that
vocabulary.
N-grams are found by their text, order by order. Those that were measured are inferred as ever; those that were not
stand where public text has them, moved as the words that they are made of were, and as unsure as public text is.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, overload

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from bayesgram.arguments import check_arguments
from bayesgram.arrays import Bools, Floats
from bayesgram.inference.chaining import measured_again, places
from bayesgram.inference.hierarchy import by_source, infer_segments
from bayesgram.inference.model import Inferred, describe_models, describe_sources
from bayesgram.inference.noisy_counts import NoisyCounts, PublicNgrams
from bayesgram.inference.orders import infer_orders
from bayesgram.public.vocabulary import Vocabulary
from bayesgram.releases.card_sections import SOURCE_WEIGHTS_DETAIL
from bayesgram.releases.measurements import NGRAM, Measurements
from bayesgram.releases.previous import PreviousRelease, PreviousSegmentedRelease, open_previous
from bayesgram.releases.quality import QUALITY_DETAILS
from bayesgram.releases.release import Release
from bayesgram.releases.segmented import SegmentedRelease
from bayesgram.version import VERSION

ROUNDS = 20  # of fitting words to lifts
RIDGE = 1.0  # n-grams of the usual weight that say a word is as public text has it


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
    """What a release's noisy measurements say, with the public counts of another vocabulary as the prior.

    Releases by segment are inferred together, as they were. Post-processing: it costs no privacy, and the card keeps
    what the measurements cost.
    """
    given = open_previous(release)
    return (
        _infer_segments(given, vocabulary)
        if isinstance(given, PreviousSegmentedRelease)
        else _infer(given, vocabulary)
    )


def _infer(given: PreviousRelease, vocabulary: Vocabulary) -> Release:
    """One release by itself."""
    measured = given.measurements_for(vocabulary.ngrams, vocabulary.tokenizer.name)
    asked = _Asked.of(measured, vocabulary)
    return asked.release(given, infer_orders(asked.measured(measured), asked.parts))


def _infer_segments(given: PreviousSegmentedRelease, vocabulary: Vocabulary) -> SegmentedRelease:
    """All people and every segment, the one as the prior of the others."""
    given.check_compatible(given.segments, vocabulary.ngrams, vocabulary.tokenizer.name)
    releases = [given.previous_for(name) for name in given.names]
    kept = [one.measurements_for(vocabulary.ngrams, vocabulary.tokenizer.name) for one in releases]
    asked = _Asked.of(kept[0], vocabulary)
    everyone, *segments = map(asked.measured, kept)
    found = infer_segments(everyone, segments, asked.parts)
    inferred = [
        found.everyone,
        *(by_source(one, len(vocabulary.source_names)) for one in found.segments),
    ]
    shares = [{}, *found.shares_told([part.order for part in asked.parts])]
    made = [
        asked.release(replace(one, name=given.name), orders, share)
        for one, orders, share in zip(releases, inferred, shares, strict=True)
    ]
    return SegmentedRelease.from_releases(made, given.segments)


@dataclass(frozen=True, eq=False)
class _Asked:
    """What was measured of a vocabulary's n-grams."""

    vocabulary: Vocabulary
    known: list[Bools]  # for each order: which n-grams
    parts: list[Vocabulary]  # these, of the orders that have any

    @classmethod
    def of(cls, measured: Measurements, vocabulary: Vocabulary) -> "_Asked":
        known = [_are_measured(measured, part) for _, part in vocabulary.by_order]
        pairs = zip(known, vocabulary.by_order, strict=True)
        return cls(
            vocabulary, known, [_taken(part, rows) for rows, (_, part) in pairs if rows.any()]
        )

    def measured(self, kept: Measurements) -> list[NoisyCounts]:
        """For inference."""
        return [measured_again(kept, part) for part in self.parts]

    def release(
        self, given: PreviousRelease, found: list[Inferred], more: Mapping[str, Any] | None = None
    ) -> Release:
        """What was inferred, over the whole vocabulary; `more` is told among the details."""
        vocabulary = self.vocabulary
        by_order = {
            part.order: (inferred, part) for inferred, part in zip(found, self.parts, strict=True)
        }
        pairs = zip(self.known, vocabulary.by_order, strict=True)
        placed = [_placed(part, rows, by_order) for rows, (_, part) in pairs]
        theta, deviation = (
            np.concatenate([getattr(each, name) for each in placed])
            for name in ("theta", "deviation")
        )
        by_name = {
            str(part.order): each
            for each, (_, part) in zip(placed, vocabulary.by_order, strict=True)
        }
        told = _told(given, by_name, vocabulary, self.known, more or {})
        card = replace(
            given.release.card,
            **told,
            vocabulary=vocabulary.card_details,
            software=f"bayesgram {VERSION}",
        )
        discovered = None if vocabulary.origins is None else vocabulary.origins.discovered
        return Release(
            vocabulary.ngrams, theta, card, deviation, discovered, given.release.measurements
        )


def _taken(part: Vocabulary, rows: Bools) -> Vocabulary:
    """The n-grams that were measured."""
    return part if rows.all() else part.select(np.flatnonzero(rows))


def _are_measured(measured: Measurements, part: Vocabulary) -> Bools:
    rows: Bools = places(part.ngrams, measured.ngrams(part.order)[0]) >= 0
    return rows


def _placed(
    part: Vocabulary, measured: Bools, by_order: dict[int, tuple[Inferred, Vocabulary]]
) -> Inferred:
    """The answer for all n-grams of one order, of which some or none were measured."""
    if measured.all():
        return by_order[part.order][0]
    nearest = part.order if part.order in by_order else max(by_order)
    inferred, teaching = by_order[nearest]
    public = PublicNgrams.of(part)
    prior = inferred.weights.weights @ public.sources
    theta = prior * np.exp(_lifts(part.ngrams, inferred, teaching))
    deviation = np.zeros_like(theta)
    if nearest == part.order:
        whole = float(prior[measured].sum())
        theta[measured], deviation[measured] = whole * inferred.theta, whole * inferred.deviation
    deviation[~measured] = theta[~measured]
    mass, total = float(theta.sum()), inferred.total
    if nearest == part.order:
        total *= mass / float(theta[measured].sum())
    return replace(inferred, theta=theta / mass, deviation=deviation / mass, total=total)


def _lifts(ngrams: pa.LargeStringArray, inferred: Inferred, teaching: Vocabulary) -> Floats:
    """Log θ/π of n-grams by their words, each of which lifts all that it is in; words that nobody asked about don't."""
    public = PublicNgrams.of(teaching)
    prior = inferred.weights.weights @ public.sources
    lifts, weights = np.log(inferred.theta / prior), prior / float(prior.mean())
    of_words, size = np.zeros(public.word_total), public.per_word(weights) + RIDGE
    for _ in range(ROUNDS):
        left = lifts - public.per_ngram(of_words)
        of_words += (public.per_word(weights * left) - RIDGE * of_words) / (
            size * public.words.shape[1]
        )
    tokens = pc.split_pattern(ngrams, " ").flatten()
    lifted = np.append(of_words, 0.0)[places(tokens, teaching.tokens)]
    total: Floats = lifted.reshape(len(ngrams), -1).sum(axis=1)
    return total


def _told(
    given: PreviousRelease,
    found: dict[str, Inferred],
    vocabulary: Vocabulary,
    known: list[Bools],
    more: Mapping[str, Any],
) -> dict[str, Any]:
    """What the card says of the inference: the rest is that of the release."""
    card, measured = given.release.card, given.release.measurements
    asked = 0 if measured is None else int(measured.kind_mask(NGRAM).sum())
    used = int(sum(rows.sum() for rows in known))
    numbers = {"measured": used, "not_measured": len(vocabulary) - used, "ignored": asked - used}
    # What the first inference said of sources and of its quality does not hold for this one.
    stale = (SOURCE_WEIGHTS_DETAIL, *QUALITY_DETAILS)
    details = {name: value for name, value in card.details.items() if name not in stale}
    details |= {
        "model": describe_models(found),
        "expected_counts": {order: round(each.total, 1) for order, each in found.items()},
        **describe_sources(vocabulary.source_names, found),
        **more,
    }
    inferred = {
        "from": given.name,
        "vocabulary": card.vocabulary["fingerprint"],
        **numbers,
        "public_text": vocabulary.source_names,
        # What the measurements themselves were made from stays with them, whatever vocabulary they are read with.
        "discoveries": [asdict(claim) for claim in card.discoveries],
        "made_from": [asdict(each) for each in card.ingredients],
    }
    return {"details": details, "inferred": inferred, "command": None}
