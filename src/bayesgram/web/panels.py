"""The privacy cards and what the releases trade for their ε, in the words of the report. Released data only.

The next words from every release side by side, with how sure each is.

What is typed stays in memory for one answer: it is not kept and not logged.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from bayesgram.privacy.budget import Guarantee
from bayesgram.releases.card import Card
from bayesgram.releases.card_sections import Grade, norm_histogram
from bayesgram.releases.intervals import probability_interval
from bayesgram.reports.views import SMALLEST, ReleaseView, printable
from bayesgram.text.ngrams import START
from bayesgram.text.tokenizer import Tokenizer
from bayesgram.web.catalogue import PUBLIC, Catalogue, Item

LABELS = tuple(Guarantee)  # the better, the earlier
GRADES = (None, *Grade)  # the worse, the later


def ranking(items: Sequence[Item]) -> list[int]:
    """Places from the best release on: first what is proved and protects, then what knows most of what people write.

    Of those that don't say how sure they are, a larger ε stands for more knowledge.
    """
    keys = [_worth(item.view) for item in items]
    return sorted(range(len(items)), key=lambda place: keys[place])


def _worth(view: ReleaseView) -> tuple[int, int, bool, float, float]:
    card, known = view.card, view.orders[-1].known
    mass = sum(each.mass_share for each in known)  # within any of the factors
    return (
        LABELS.index(card.guarantee),
        GRADES.index(card.grade),
        not known,
        -mass,
        -(card.epsilon or 0.0),
    )


def brief(item: Item) -> dict[str, Any]:
    """A release in a line."""
    card = item.view.card
    return {
        "name": item.view.shown_name,
        "mechanism": printable(card.mechanism),
        "guarantee": card.guarantee.name,
        "grade": card.grade,
        "claim": card.claim,
        "epsilon": card.epsilon,
        "delta": card.delta,
        "unit": None if card.is_person else printable(card.unit_text),
        "factor": item.view.factor,
        "orders": sorted(item.tables),
        "size": len(item.view.release.ngrams),
        "sorts": [str(sort) for sort in item.tables[max(item.tables)].sorts],
        "intervals": item.view.release.probability_std is not None,
    }


def full(view: ReleaseView) -> dict[str, Any]:
    """The card in plain words, and the histogram of norms."""
    card = view.card
    return {
        "name": view.shown_name,
        "guarantee": card.guarantee.name,
        "grade": card.grade,
        "warnings": card.warnings,
        "claim": card.claim,
        "statement": printable(card.promise_sentence),
        "protects": printable(card.protects),
        "person": None if card.person_sentence is None else printable(card.person_sentence),
        "meaning": view.meaning,
        "not_covered": list(view.not_covered),
        "assumes": list(card.assumptions),
        "composition": card.composition_sentence,
        "chain": None if card.chain_sentence is None else printable(card.chain_sentence),
        "made_from": [printable(str(each)) for each in card.ingredients],
        "inferred": card.reinference_sentence,
        "ledger": _ledger(card),
        "command": None if card.command is None else printable(card.command),
        "vocabulary": card.vocabulary_sentence,
        "segment": None if card.segment_sentence is None else printable(card.segment_sentence),
        "discovered": [vars(row) for row in view.discovered],
        "sources": card.sources_sentence,
        "source_weights": _sources(view),
        "clipping": view.clipping.sentence,
        "norms": _norms(card),
        "norm_doubt": view.clipping.doubt,
        "facts": {printable(name): printable(value) for name, value in view.facts.items()},
    }


def trade(item: Item) -> dict[str, Any]:
    """What an ε bought: how much is known within a factor, and how far the release went from public text."""
    view = item.view
    longest = view.orders[-1]
    return {
        "name": view.shown_name,
        "guarantee": view.card.guarantee.name,
        "claim": view.card.claim,
        "epsilon": view.card.epsilon,
        "order": longest.order,
        "known": [
            {"factor": known.factor, "ngrams": known.ngram_share, "mass": known.mass_share}
            for known in longest.known
        ],
        "learnt": _learnt(view),
    }


def _learnt(view: ReleaseView) -> float | None:
    """KL(θ ‖ π) of the longest n-grams: how much the release says that public text did not."""
    if view.public is None:
        return None
    among = view.orders[-1].among
    theta, prior = view.release.probabilities[among], view.public[among]
    logs = np.log(np.maximum(theta, SMALLEST)) - np.log(np.maximum(prior, SMALLEST))
    return float(theta @ logs)


def _sources(view: ReleaseView) -> list[dict[str, Any]]:
    """The weights of each order, the longest first."""
    return [
        {
            "order": order,
            "weights": [
                {
                    "name": source.name,
                    "weight": source.weight,
                    "ends": source.interval,
                    "shown": source.percent_text,
                    "clear": source.is_above_noise,
                }
                for source in sources
            ],
        }
        for order, sources in reversed(view.sources.items())
    ]


def _norms(card: Card) -> list[dict[str, Any]]:
    """Without infinity, which JSON lacks."""
    return [
        {
            "low": found.low,
            "high": None if math.isinf(found.high) else found.high,
            "users": found.users,
            "clipped": found.clipped,
        }
        for found in norm_histogram(card.details)
    ]


def _ledger(card: Card) -> str | None:
    if not card.ledger:
        return None
    return f"charged to the population {printable(str(card.ledger['population']))}, entry {card.ledger['entry']}"


@dataclass(frozen=True)
class Suggestion:
    """A next word; the interval is known where the n-gram that ends with it is in the release."""

    word: str
    probability: float
    low: float | None = None
    high: float | None = None
    adds: str | None = None  # a word piece: what it adds to the text


@dataclass(frozen=True)
class Column:
    """What one model suggests."""

    name: str
    words: list[Suggestion]


@dataclass(frozen=True)
class Answer:
    """The word being typed, and what every model would make of it."""

    typed: str
    columns: list[Column]


def suggest(
    catalogue: Catalogue,
    text: str,
    how_many: int,
    *,
    cache: float = 0.0,
    items: Sequence[Item] | None = None,
) -> Answer:
    """Public text first, then the releases asked for, or all; `cache` is how much the text's own words count."""
    cut: dict[Tokenizer, tuple[list[list[str]], str]] = {}
    columns, typed = [], ""
    asked = catalogue.items if items is None else items
    models = [] if catalogue.public_model is None else [(PUBLIC, catalogue.public_model, None)]
    for name, model, item in [
        *models,
        *((item.view.shown_name, item.model, item) for item in asked),
    ]:
        if model.tokenizer not in cut:
            cut[model.tokenizer] = model.tokenizer.split_unfinished(text)
        sentences, typed = cut[model.tokenizer]
        found = model.suggest(text, how_many, cache=cache, capitals=False)
        written = model.capitalise(found, sentences, text[len(text) - len(typed) :])
        surely = None if cache else item  # the intervals are about the release alone
        sure = [_sure(surely, sentences[-1], *each) for each in found]
        adds = [model.tokenizer.text_added_by(sentences[-1], each.word) for each in found]
        rows = zip(written, sure, adds, strict=True)
        words = [
            Suggestion(printable(word), likely, low, high, new)
            for (word, likely), (low, high), new in rows
        ]
        columns.append(Column(name, words))
    return Answer(printable(typed), columns)


def _sure(
    item: Item | None, context: list[str], word: str, probability: float
) -> tuple[float, float] | tuple[None, None]:
    """The interval of the longest n-gram in the release that ends with this word, relative to it."""
    if item is None or item.view.release.probability_std is None:
        return None, None
    before = [START, *context] if item.model.tokenizer.boundaries else context
    for order in sorted(item.tables, reverse=True):
        ngram = [*before[max(len(before) - order + 1, 0) :], word]
        row = item.tables[order].index.find(" ".join(ngram)) if len(ngram) == order else None
        if row is not None:
            return _scaled(item, row, probability)
    return None, None


def _scaled(item: Item, row: int, probability: float) -> tuple[float, float] | tuple[None, None]:
    released = float(item.view.release.probabilities[row])
    ends = probability_interval(item.view.release, row)
    if ends is None or released <= 0:
        return None, None
    return probability * ends[0] / released, min(probability * ends[1] / released, 1.0)
