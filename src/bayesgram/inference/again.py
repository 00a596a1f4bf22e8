"""Another posterior from the noisy measurements of a release, with other public text: nothing is spent again.

In:  a release that kept its measurements, and a vocabulary.   Out: a release over that vocabulary.
N-grams are found by their text, order by order. Those that were measured are inferred as ever; those that were not
stand where public text has them, moved as the words that they are made of were, and as unsure as public text is.
"""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from bayesgram.arguments import checked
from bayesgram.arrays import Bools, Floats
from bayesgram.inference.keeping import measured_again, places
from bayesgram.inference.measured import PublicNgrams
from bayesgram.inference.orders import infer_orders
from bayesgram.inference.posterior import Inferred, sources_told
from bayesgram.public.vocabulary import Vocabulary
from bayesgram.released.measurements import NGRAM, Measurements
from bayesgram.released.previous import Previous
from bayesgram.released.release import Release
from bayesgram.version import VERSION

ROUNDS = 20  # of fitting words to lifts
RIDGE = 1.0  # n-grams of the usual weight that say a word is as public text has it


@checked
def infer(release: "Release | str | Path", vocabulary: Vocabulary) -> Release:
    """What a release's noisy measurements say, with the public counts of another vocabulary as the prior.

    Post-processing: it costs no privacy, and the card keeps what the measurements cost.
    """
    given = Previous.of(release)
    measured = given.measured_for(vocabulary.ngrams, vocabulary.tokenizer.name)
    known = [_are_measured(measured, part) for _, part in vocabulary.parts]
    pairs = zip(known, vocabulary.parts, strict=True)
    asked = [_taken(part, rows) for rows, (_, part) in pairs if rows.any()]
    found = infer_orders([measured_again(measured, part) for part in asked], asked)
    by_order = {part.order: (inferred, part) for inferred, part in zip(found, asked, strict=True)}
    placed = [_placed(part, rows, by_order) for rows, (_, part) in zip(known, vocabulary.parts, strict=True)]
    theta, deviation = (np.concatenate([getattr(each, name) for each in placed]) for name in ("theta", "deviation"))
    by_name = {str(part.order): each for each, (_, part) in zip(placed, vocabulary.parts, strict=True)}
    told = _told(given, measured, by_name, vocabulary, known)
    card = replace(given.release.card, **told, vocabulary=vocabulary.described, software=f"bayesgram {VERSION}")
    discovered = None if vocabulary.origins is None else vocabulary.origins.discovered
    return Release(vocabulary.ngrams, theta, card, deviation, discovered, measured)


def _taken(part: Vocabulary, rows: Bools) -> Vocabulary:
    """The n-grams that were measured."""
    return part if rows.all() else part.taken(np.flatnonzero(rows))


def _are_measured(measured: Measurements, part: Vocabulary) -> Bools:
    rows: Bools = places(part.ngrams, measured.ngrams(part.order)[0]) >= 0
    return rows


def _placed(part: Vocabulary, measured: Bools, by_order: dict[int, tuple[Inferred, Vocabulary]]) -> Inferred:
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
        of_words += (public.per_word(weights * left) - RIDGE * of_words) / (size * public.words.shape[1])
    tokens = pc.split_pattern(ngrams, " ").flatten()
    lifted = np.append(of_words, 0.0)[places(tokens, teaching.tokens)]
    total: Floats = lifted.reshape(len(ngrams), -1).sum(axis=1)
    return total


def _told(
    given: Previous, measured: Measurements, found: dict[str, Inferred], vocabulary: Vocabulary, known: list[Bools]
) -> dict[str, Any]:
    """What the card says of the inference: the rest is that of the release."""
    card = given.release.card
    asked, used = int(measured.is_kind(NGRAM).sum()), int(sum(rows.sum() for rows in known))
    numbers = {"measured": used, "not_measured": len(vocabulary) - used, "ignored": asked - used}
    details = {name: value for name, value in card.details.items() if name != "source_weights"}
    details |= {
        "model": ", ".join(dict.fromkeys(each.model for each in found.values())),
        "expected_counts": {order: round(each.total, 1) for order, each in found.items()},
        **sources_told(vocabulary.source_names, found),
    }
    inferred = {"from": given.name, "vocabulary": card.vocabulary["fingerprint"], **numbers}
    return {"details": details, "inferred": {**inferred, "public_text": vocabulary.source_names}, "command": None}
