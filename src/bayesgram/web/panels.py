"""What the parts of the page show: privacy cards, accuracy against ε, and suggested next words.

In:  items of the catalogue: released data and public text alone.
Out: plain values for JSON, and drawings. What is typed stays in memory for one answer: it is not
kept and not logged.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np
import pyarrow as pa

from bayesgram.arrays import Floats
from bayesgram.charts import Drawing, format_percent, printable
from bayesgram.privacy.budget import Guarantee
from bayesgram.releases.card import Card
from bayesgram.releases.card_sections import Grade, norm_histogram
from bayesgram.releases.intervals import probability_interval
from bayesgram.releases.segmented import is_all_people
from bayesgram.reports.explanation import estimate_people, publication_checks
from bayesgram.reports.pictures import ReleasePoint, draw_norms, draw_sources, draw_trade
from bayesgram.reports.views import SMALLEST_PROBABILITY, ReleaseView
from bayesgram.text.ngrams import START
from bayesgram.text.tokenizer import Tokenizer
from bayesgram.web.catalogue import PUBLIC, Catalogue, Item, Sort

# By which releases are ranked, the best first.
LABELS = tuple(Guarantee)
GRADES = (None, *Grade)

# --- Releases and their cards ---


def rank_releases(items: Sequence[Item]) -> list[int]:
    """Return the places of releases, the best first.

    First comes what is proved and protects, then what knows most of what people write. Of those
    that don't say how sure they are, a larger ε stands for more knowledge.
    """
    keys = [_rank_key(item.view) for item in items]
    return sorted(range(len(items)), key=lambda place: keys[place])


def _rank_key(view: ReleaseView) -> tuple[int, int, bool, float, float]:
    card = view.card
    accuracy_shares = view.orders[-1].accuracy_shares
    known_mass = sum(share.mass_share for share in accuracy_shares)  # within any of the factors
    return (
        LABELS.index(card.guarantee),
        GRADES.index(card.grade),
        not accuracy_shares,
        -known_mass,
        -(card.epsilon or 0.0),
    )


def summarize_release(item: Item) -> dict[str, Any]:
    """Return what the list of releases shows of one: its claim, size and orders."""
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
        "comparable": is_comparable(item),
        "plan": plan_start(item),
    }


def plan_start(item: Item) -> dict[str, float] | None:
    """Return what a plan of the next release starts with: what this one says of its people.

    Returns:
        Users and n-grams of the longest order by user, both from noisy numbers, with ε, δ and the
        number of n-grams; None where the card does not say how many users there are.
    """
    card = item.view.card
    estimate = estimate_people(card)
    order = str(max(item.tables))
    expected = card.details.get("expected_counts", {}).get(order)
    if estimate is None or estimate.is_hidden or expected is None or not card.epsilon:
        return None
    users = estimate.users * card.details.get("share", {}).get(order, 1.0)
    return {
        "users": _round_to(users, 2),
        "ngrams_a_user": _round_to(expected / users, 2),
        "epsilon": card.epsilon,
        "delta": card.delta or 0.0,
        "size": len(item.tables[max(item.tables)].index.ngrams),
    }


def _round_to(value: float, digits: int) -> float:
    return float(f"{value:.{digits}g}")


# --- Which releases are shown at first ---

MAX_COMPARED_NGRAMS = 2_000  # of each release, the most probable, that say how much releases differ


def default_places(items: Sequence[Item]) -> dict[str, Any]:
    """Return the places of the releases that each part of the page shows at first.

    Returns:
        - `release`: the best one with discovered n-grams, or the best one;
        - `differing`: the two that differ most. Most different are releases that are mostly noise,
          so releases that are proved, protect people and say how accurate they are come first;
        - `changed`: two whose changes can be told from noise, and that belong together.
    """
    ranking = rank_releases(items)
    discovered = [place for place in ranking if items[place].view.discovered]
    distances = _distances(items)
    proved = [
        place
        for place, item in enumerate(items)
        if item.view.card.guarantee is Guarantee.PROVED and item.view.card.grade is None
    ]
    accurate = [place for place in proved if items[place].view.release.probability_std is not None]
    candidates = (accurate, proved, range(len(items)))
    among = next((places for places in candidates if len(places) > 1), range(len(items)))
    differing = max(combinations(among, 2), key=lambda pair: distances[pair], default=(0,))
    return {
        "release": (discovered or ranking)[0],
        "differing": list(differing),
        "changed": list(_pair_of_changes(items, distances)),
    }


def is_comparable(item: Item) -> bool:
    """Return whether changes of a release can be told from noise: it keeps its measurements."""
    return item.view.release.measurements is not None


def _pair_of_changes(items: Sequence[Item], distances: Floats) -> tuple[int, int]:
    """Return the two comparable releases that belong together most closely, and differ most.

    Segments of one release, and releases of which one follows the other, belong together; then come
    releases by one mechanism with one vocabulary and ε.
    """
    places = [place for place, item in enumerate(items) if is_comparable(item)]
    pairs = [
        (first, second)
        for first, second in combinations(places, 2)
        if items[first].view.card.measured_hash != items[second].view.card.measured_hash
    ]
    return min(
        pairs,
        key=lambda pair: (
            _relation(items[pair[0]].view.card, items[pair[1]].view.card),
            -distances[pair],
        ),
        default=(0, min(1, len(items) - 1)),
    )


def _relation(first: Card, second: Card) -> int:
    """Return how closely two releases belong together; smaller is closer."""
    segments = [card.segment for card in (first, second)]
    if first.answers is not None and first.answers == second.answers and all(segments):
        return int(any(is_all_people(segment) for segment in segments if segment))
    if _follows(first, second) or _follows(second, first):
        return 0
    settings = [
        (card.mechanism, card.epsilon, card.delta, card.vocabulary["fingerprint"])
        for card in (first, second)
    ]
    return 2 if settings[0] == settings[1] else 3


def _follows(card: Card, earlier: Card) -> bool:
    links = [] if card.chain is None else card.chain["links"]
    return any(link["measured"] == earlier.measured_hash for link in links)


def _distances(items: Sequence[Item]) -> Floats:
    """Return the Jensen–Shannon divergence of each two releases, over their probable n-grams."""
    columns: dict[str, int] = {}
    rows = []
    for item in items:
        table = item.tables[max(item.tables)]
        best = table.orderings[Sort.PROBABILITY][:MAX_COMPARED_NGRAMS]
        ngrams = item.view.release.ngrams.take(pa.array(best)).to_pylist()
        places = [columns.setdefault(ngram, len(columns)) for ngram in ngrams]
        rows.append((places, item.view.release.probabilities[best]))
    probabilities = np.zeros((len(items), len(columns)))
    for row, (places, values) in zip(probabilities, rows, strict=True):
        row[places] = values
    probabilities /= np.maximum(probabilities.sum(axis=1, keepdims=True), SMALLEST_PROBABILITY)
    distances = np.zeros((len(items), len(items)))
    for first, second in combinations(range(len(items)), 2):
        one = probabilities[first]
        other = probabilities[second]
        middle = np.maximum((one + other) / 2, SMALLEST_PROBABILITY)
        distances[first, second] = sum(
            float(part @ np.log(np.maximum(part, SMALLEST_PROBABILITY) / middle)) / 2
            for part in (one, other)
        )
    return distances


def card_details(view: ReleaseView) -> dict[str, Any]:
    """Return the card of a release as the page shows it, in plain words."""
    card = view.card
    return {
        "name": view.shown_name,
        "guarantee": card.guarantee.name,
        "grade": card.grade,
        "warnings": card.warnings,
        "claim": card.claim,
        "contents": printable(view.contents),
        "people": printable(view.people),
        "accuracy": view.accuracy,
        "cost": printable(view.cost),
        "statement": printable(card.promise_sentence),
        "protects": printable(card.protects),
        "person": _printable_or_none(card.person_sentence) if _needs_person(card) else None,
        "meaning": [printable(sentence) for sentence in view.meaning],
        "not_covered": list(view.not_covered),
        "checks": [printable(check) for check in publication_checks([card])],
        "chain": _printable_or_none(card.chain_sentence),
        "made_from": [printable(str(ingredient)) for ingredient in card.ingredients],
        "inferred": card.reinference_sentence,
        "ledger": _ledger_sentence(card),
        "command": _printable_or_none(card.command),
        "vocabulary": card.vocabulary_sentence,
        "quality": card.quality_sentences,
        "segment": _printable_or_none(card.segment_sentence),
        "discovered": [vars(row) for row in view.discovered],
        "sources": card.sources_sentence,
        "clipping": view.clipping.sentence,
        "norms_caption": view.clipping.caption,
        "has_norms": bool(norm_histogram(card.details)),
        "facts": {printable(name): printable(value) for name, value in view.facts.items()},
    }


def _needs_person(card: Card) -> bool:
    """Return whether ε of the release is not already that of a person."""
    return bool(card.ledger) or not card.is_person


def _printable_or_none(text: str | None) -> str | None:
    return None if text is None else printable(text)


def _ledger_sentence(card: Card) -> str | None:
    if not card.ledger:
        return None
    population = printable(str(card.ledger["population"]))
    return f"charged to the population {population}, entry {card.ledger['entry']}"


def draw_card(view: ReleaseView, width: float) -> dict[str, Drawing]:
    """Draw what a card has pictures of: weights of sources, and the norms of users."""
    drawings = {}
    if view.sources:
        drawings["sources"] = draw_sources(view.sources, width=width, is_interactive=True)
    bins = norm_histogram(view.card.details)
    if bins:
        noise_std = view.clipping.noise_std
        drawings["norms"] = draw_norms(bins, noise_std, width=width, is_interactive=True)
    return drawings


# --- Accuracy against ε ---

LEARNT = "learnt"  # the measure of how far a release went from public text

# A measure below this for all releases would be drawn as a flat line at 0 and is offered last.
# Chosen by hand: half a percent, as shares are shown in whole percents.
MIN_INFORMATIVE_VALUE = 0.005


@dataclass(frozen=True)
class TradeMeasure:
    """Something that can be drawn against ε: its key in an address, and its name on the page."""

    key: str
    name: str

    @property
    def factor(self) -> float | None:
        """Within which factor something is known; None for how far a release went."""
        return None if self.key == LEARNT else float(self.key)


def trade_measures(items: Sequence[Item]) -> list[TradeMeasure]:
    """Return the measures that can be drawn of these releases, the most informative first.

    The factor of the report, 2, leads; a measure that is about 0 for all of them comes last.
    """
    factors = sorted(
        {share.factor for item in items for share in item.view.orders[-1].accuracy_shares},
        key=lambda factor: (factor != 2, factor),
    )
    measures = [
        TradeMeasure(f"{factor:g}", f"accuracy: share within a factor of {factor:g}")
        for factor in factors
    ]
    if any(item.view.public is not None for item in items):
        measures.append(TradeMeasure(LEARNT, "distance from public text"))
    return sorted(measures, key=lambda measure: not _is_informative(items, measure))


def _is_informative(items: Sequence[Item], measure: TradeMeasure) -> bool:
    return any((trade_value(item.view, measure) or 0.0) >= MIN_INFORMATIVE_VALUE for item in items)


def trade_value(view: ReleaseView, measure: TradeMeasure) -> float | None:
    """Return the value of a measure for the longest n-grams of a release; None if unknown."""
    longest = view.orders[-1]
    if measure.factor is not None:
        shares = longest.accuracy_shares
        masses = [share.mass_share for share in shares if share.factor == measure.factor]
        return masses[0] if masses else None
    if view.public is None:
        return None
    # KL(θ ‖ π): how much the release says that public text did not.
    theta = view.release.probabilities[longest.among]
    prior = view.public[longest.among]
    log_ratio = np.log(np.maximum(theta, SMALLEST_PROBABILITY)) - np.log(
        np.maximum(prior, SMALLEST_PROBABILITY)
    )
    return float(theta @ log_ratio)


def draw_trade_for(
    items: Sequence[Item], measure: TradeMeasure, width: float
) -> tuple[Drawing | None, list[str]]:
    """Draw a measure against ε; also return the names of releases that are not drawn.

    Args:
        items: The releases.
        measure: What is drawn.
        width: The width of the picture, in pixels.
    """
    points: list[ReleasePoint] = []
    left_out: list[str] = []
    for item in items:
        view = item.view
        value = trade_value(view, measure)
        if not view.card.epsilon or value is None:
            left_out.append(view.shown_name)
            continue
        words = f"{value:.3g} nats from public text"
        if measure.factor is not None:
            words = f"{format_percent(value)} of people's listed text"
        points.append(
            ReleasePoint(
                view.shown_name,
                view.card.epsilon,
                value,
                view.card.guarantee.name,
                f"{view.shown_name}, {view.card.claim}: {words}.",
            )
        )
    if not points:
        return None, left_out
    return draw_trade(points, is_share=measure.factor is not None, width=width), left_out


# --- Suggested next words ---


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
    """The words that one model suggests, under its name."""

    name: str
    words: list[Suggestion]


@dataclass(frozen=True)
class SuggestionTable:
    """The word that is being typed, and a column of suggestions for each model."""

    typed: str
    columns: list[Column]


def suggest(
    catalogue: Catalogue,
    text: str,
    how_many: int,
    *,
    cache: float = 0.0,
    items: Sequence[Item] | None = None,
) -> SuggestionTable:
    """Suggest the next words after a text: public text first, then the releases.

    Args:
        catalogue: What the page reads.
        text: What was typed; it is not kept.
        how_many: Words of each column.
        cache: How much the words of the text itself count.
        items: Which releases to ask; all without it.
    """
    split: dict[Tokenizer, tuple[list[list[str]], str]] = {}  # models of one tokenizer share it
    columns = []
    typed = ""
    chosen = catalogue.items if items is None else items
    models = [] if catalogue.public_model is None else [(PUBLIC, catalogue.public_model, None)]
    for name, model, item in [
        *models,
        *((item.view.shown_name, item.model, item) for item in chosen),
    ]:
        if model.tokenizer not in split:
            split[model.tokenizer] = model.tokenizer.split_unfinished(text)
        sentences, typed = split[model.tokenizer]
        predictions = model.suggest(
            text, how_many, cache=cache, capitals=False, block=catalogue.blocklist
        )
        written = model.capitalise(predictions, sentences, text[len(text) - len(typed) :])
        with_intervals = None if cache else item  # the intervals are about the release alone
        words = []
        for prediction, (word, probability) in zip(predictions, written, strict=True):
            low, high = _word_interval(with_intervals, sentences[-1], *prediction)
            added = model.tokenizer.text_added_by(sentences[-1], prediction.word)
            words.append(Suggestion(printable(word), probability, low, high, added))
        columns.append(Column(name, words))
    return SuggestionTable(printable(typed), columns)


Interval = tuple[float, float] | tuple[None, None]


def _word_interval(
    item: Item | None, context: list[str], word: str, probability: float
) -> Interval:
    """Return the interval of a word, from the longest n-gram in the release that ends with it."""
    if item is None or item.view.release.probability_std is None:
        return None, None
    before = [START, *context] if item.model.tokenizer.boundaries else context
    for order in sorted(item.tables, reverse=True):
        ngram = [*before[max(len(before) - order + 1, 0) :], word]
        row = item.tables[order].index.find(" ".join(ngram)) if len(ngram) == order else None
        if row is not None:
            return _scale_interval(item, row, probability)
    return None, None


def _scale_interval(item: Item, row: int, probability: float) -> Interval:
    released = float(item.view.release.probabilities[row])
    ends = probability_interval(item.view.release, row)
    if ends is None or released <= 0:
        return None, None
    return probability * ends[0] / released, min(probability * ends[1] / released, 1.0)
