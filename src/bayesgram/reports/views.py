"""What a release says that public text did not: post-processing, so free and publishable.

What changed between releases, as pages tell it: the report and the page of `serve`.

In:  a `Comparison`.   Out: strings that print, and rows for two tables. Does not compare.

Releases and discoveries as a page tells them: the numbers of a table, the marks of a drawing, sentences.

In:  a release or a discovery, and public text's distribution where it is known.   Out: views that a template reads.
Computes from what was published and public numbers; does not read private data, and writes no HTML of its own.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from markupsafe import Markup

from bayesgram.arrays import Bools, Floats, Integers
from bayesgram.comparison.comparison import Change, Comparison
from bayesgram.releases.card import Card
from bayesgram.releases.card_sections import (
    SOURCE_WEIGHTS_DETAIL,
    SourceWeight,
    format_odds_factor,
    norm_histogram,
    norm_histogram_noise_std,
    read_source_weights,
)
from bayesgram.releases.intervals import AccuracyShare, accuracy_shares, probability_interval
from bayesgram.releases.release import Release
from bayesgram.reports import drawings
from bayesgram.reports.drawings import COLOURS, DATA, Band, Mark, found_bands, percent
from bayesgram.reports.explanation import not_covered, what_epsilon_means
from bayesgram.text.ngrams import distinct_orders

SMALLEST = np.finfo(np.float64).tiny  # stands for a probability of 0, which has no logarithm


@dataclass(frozen=True)
class ProbabilityChange:
    """An n-gram with its probability before (public) and after (released)."""

    ngram: str
    before: float
    after: float
    row: int  # its id


def largest_changes(
    release: Release, before: Floats, *, how_many: int, among: Bools | None = None
) -> tuple[list[ProbabilityChange], list[ProbabilityChange]]:
    """The n-grams lifted and lowered most: those with the largest parts θ log(θ/π) and π log(π/θ).

    `among`: of these n-grams only, such as those of one order.
    """
    rows = np.arange(before.size) if among is None else np.flatnonzero(among)
    old, new = before[rows], release.probabilities[rows]
    ratio = np.log(np.maximum(new, SMALLEST)) - np.log(np.maximum(old, SMALLEST))
    lifted = np.argsort(-new * ratio, kind="stable")
    lowered = np.argsort(old * ratio, kind="stable")

    def first(places: Integers) -> list[ProbabilityChange]:
        return [_moved(release, before, int(row)) for row in rows[places[:how_many]]]

    return first(lifted[ratio[lifted] > 0]), first(lowered[ratio[lowered] < 0])


def _moved(release: Release, before: Floats, row: int) -> ProbabilityChange:
    return ProbabilityChange(
        release.ngrams[row].as_py(), float(before[row]), float(release.probabilities[row]), row
    )


MOST_CHANGED = 15


@dataclass(frozen=True, eq=False)
class ChangesView:
    """What changed between the releases of a page, as it tells it."""

    found: Comparison

    @property
    def over(self) -> str:
        """Between which."""
        first, last = (printable(self.found.names[at]) for at in (0, -1))
        return (
            f"from {first} to {last}"
            if len(self.found.names) == 2
            else f"over {len(self.found.names)} releases"
        )

    @property
    def tables(self) -> dict[str, list[tuple[Change, str, str]]]:
        """What rose and what fell, the surest first: the change, the n-gram, and between which releases."""
        made: dict[str, list[tuple[Change, str, str]]] = {"Rose": [], "Fell": []}
        for change in self.found.changes:
            made["Rose" if change.z >= 0 else "Fell"].append(self._row(change))
        return {name: rows[:MOST_CHANGED] for name, rows in made.items()}

    @property
    def notes(self) -> list[str]:
        """What must be said of the releases."""
        return [printable(note) for note in self.found.notes]

    def _row(self, change: Change) -> tuple[Change, str, str]:
        names = (printable(self.found.names[at]) for at in (change.first, change.second))
        return change, printable(change.ngram), " → ".join(names)


def printable(text: str) -> str:
    """Characters that do not print, such as those that turn the direction of text, become �.

    >>> printable("a" + chr(0x202E) + "b")
    'a�b'
    """
    return "".join(c if c.isprintable() else "�" for c in text)


MOST_MOVED, MOST_FREQUENT, MOST_FOUND = 12, 15, 40


@dataclass(frozen=True)
class Row:
    """An n-gram in a table."""

    ngram: str
    before: float | None
    after: float
    interval: tuple[float, float] | None
    discovered: bool = False  # not in public text

    @property
    def clear(self) -> bool | None:
        """Whether public text's number lies outside the interval."""
        if self.interval is None or self.before is None:
            return None
        return not self.interval[0] <= self.before <= self.interval[1]


@dataclass(frozen=True, eq=False)
class OrderView:
    """What a release says about its n-grams of one order."""

    release: Release
    public: Floats | None
    order: int
    among: Bools

    @property
    def size(self) -> int:
        """How many n-grams."""
        return int(self.among.sum())

    @cached_property
    def moved(self) -> tuple[list[Row], list[Row]] | None:
        """Lifted and lowered most, where public text is known."""
        if self.public is None:
            return None
        lifted, lowered = largest_changes(
            self.release, self.public, how_many=MOST_MOVED, among=self.among
        )
        return [self._row(item) for item in lifted], [self._row(item) for item in lowered]

    @cached_property
    def frequent(self) -> list[Row]:
        """The most probable n-grams."""
        rows = np.flatnonzero(self.among)
        best = rows[np.argsort(-self.release.probabilities[rows], kind="stable")[:MOST_FREQUENT]]
        return [self._row_of(int(row)) for row in best]

    @cached_property
    def known(self) -> list[AccuracyShare]:
        """How many n-grams are known within a factor."""
        return accuracy_shares(self.release, self.among)

    @property
    def moved_drawing(self) -> Markup:
        """Both, one row an n-gram."""
        lifted, lowered = self.moved or ([], [])
        marks = [_mark(row, DATA) for row in lifted] + [_mark(row, "bad") for row in lowered]
        return drawings.marks_drawing(
            "Public and released probability of the n-grams that moved most", marks
        )

    @property
    def frequent_drawing(self) -> Markup:
        """With intervals, where they are known."""
        marks = [_mark(row, _colour(self.release.card)) for row in self.frequent]
        return drawings.marks_drawing(
            "Released probability of the most frequent n-grams, with its interval", marks
        )

    @property
    def known_drawing(self) -> Markup:
        """Shares within a factor."""
        return drawings.known_drawing("How much is known within a factor", self.known)

    def _row(self, item: ProbabilityChange) -> Row:
        return Row(
            printable(item.ngram),
            item.before,
            item.after,
            probability_interval(self.release, item.row),
        )

    def _row_of(self, row: int) -> Row:
        before = None if self.public is None else float(self.public[row])
        ngram = printable(self.release.ngrams[row].as_py())
        return Row(
            ngram,
            before,
            float(self.release.probabilities[row]),
            probability_interval(self.release, row),
        )


@dataclass(frozen=True)
class FoundRow:
    """A discovered n-gram in a table."""

    ngram: str
    order: int
    value: float  # its probability in a release, or its noisy weight in a discovery
    interval: tuple[float, float] | None


class CardView:
    """What a card says of a release or a discovery, as the page tells it."""

    name: str  # as its folder was given

    @property
    def card(self) -> Card:
        """What it says of itself."""
        raise NotImplementedError

    @property
    def shown_name(self) -> str:
        """The name, without what does not print."""
        return printable(self.name)

    @property
    def unit(self) -> str:
        """Whom or what the promise is about."""
        return self.card.protects

    @property
    def factor(self) -> str:
        """e^ε, where it is a limit."""
        proved = self.card.guarantee.name == "PROVED" and self.card.epsilon is not None
        return format_odds_factor(self.card.epsilon or 0.0) if proved else "–"

    @property
    def meaning(self) -> list[str]:
        """ε and δ in words."""
        return what_epsilon_means(self.card)

    @property
    def not_covered(self) -> tuple[str, ...]:
        """What it says nothing about."""
        return not_covered(self.card)


@dataclass(frozen=True, eq=False)
class DiscoveryView(CardView):
    """A discovery, as the page tells it: n-grams, heaviest first, with noisy weights above the level T."""

    name: str
    told: Card
    ngrams: Sequence[str]
    orders: Integers
    weights: Floats
    level: float
    deviation: float

    @property
    def card(self) -> Card:
        """What the discovery says of itself."""
        return self.told

    @property
    def by_order(self) -> dict[int, int]:
        """How many were found, of the orders that were searched."""
        searched = self.card.settings.get("orders", distinct_orders(self.orders))
        return {int(order): int((self.orders == order).sum()) for order in searched}

    @cached_property
    def heaviest(self) -> list[FoundRow]:
        """The first of them; the interval is two standard deviations to each side."""
        columns = zip(self.ngrams, self.orders.tolist(), self.weights.tolist(), strict=True)
        doubt = 2 * self.deviation
        rows = [
            FoundRow(printable(ngram), order, weight, (weight - doubt, weight + doubt))
            for ngram, order, weight in columns
        ]
        return rows[:MOST_FOUND]

    @property
    def bands(self) -> dict[int, list[Band]]:
        """How many of each order are how far above T."""
        return {
            order: found_bands(self.weights[self.orders == order] / self.level)
            for order in self.by_order
        }

    @property
    def bands_drawing(self) -> Markup:
        """Bars by order."""
        return drawings.bands_drawing(
            "How far above the level T the discovered n-grams are", self.bands
        )

    @property
    def drawing(self) -> Markup:
        """The heaviest with their intervals, and T."""
        colour = _colour(self.card)
        marks = [
            Mark(row.ngram, row.value, None, row.interval, colour)
            for row in self.heaviest[:MOST_FREQUENT]
        ]
        return drawings.marks_drawing(
            "Noisy weight of the heaviest, with its interval", marks, level=self.level
        )

    @property
    def facts(self) -> dict[str, str]:
        """What an engineer asks for."""
        return _facts(self.card)


@dataclass(frozen=True, eq=False)
class ReleaseView(CardView):
    """A release, as the page tells it."""

    name: str  # as its folder was given
    release: Release
    public: Floats | None = None  # π, where the vocabulary was given

    @property
    def card(self) -> Card:
        """What the release says of itself."""
        return self.release.card

    @cached_property
    def discovered(self) -> list[FoundRow]:
        """The most probable of the n-grams that people's own text added to the vocabulary."""
        release = self.release
        rows = (
            np.flatnonzero(release.discovered_mask)
            if release.discovered_mask is not None
            else np.empty(0, np.int64)
        )
        best = rows[np.argsort(-release.probabilities[rows], kind="stable")[:MOST_FOUND]].tolist()
        orders = release.orders
        return [
            FoundRow(
                printable(release.ngrams[row].as_py()),
                int(orders[row]),
                float(release.probabilities[row]),
                probability_interval(release, row),
            )
            for row in best
        ]

    @property
    def discovered_drawing(self) -> Markup:
        """With intervals, where they are known."""
        colour = _colour(self.card)
        marks = [
            Mark(row.ngram, row.value, None, row.interval, colour)
            for row in self.discovered[:MOST_FREQUENT]
        ]
        return drawings.marks_drawing(
            "Released probability of the discovered n-grams, with its interval", marks
        )

    @cached_property
    def orders(self) -> list[OrderView]:
        """One a length of n-grams, short ones first."""
        orders = self.release.orders
        return [
            OrderView(self.release, self.public, n, orders == n) for n in distinct_orders(orders)
        ]

    @property
    def known_mass(self) -> str:
        """Of what people write in the longest n-grams, how much is known within a factor of 2."""
        found = next((known for known in self.orders[-1].known if known.factor == 2), None)
        return "–" if found is None else percent(found.mass_share)

    @property
    def facts(self) -> dict[str, str]:
        """What an engineer asks for."""
        return _facts(self.card)

    @cached_property
    def sources(self) -> dict[int, list[SourceWeight]]:
        """The learnt weights of each order; nothing where public text is one source."""
        return read_source_weights(self.card.details)

    @property
    def sources_table(self) -> dict[str, list[str]]:
        """The weights of each source, an order a column, the heaviest in the longest n-grams first."""
        orders = [
            {source.name: source.percent_text for source in sources}
            for sources in self.sources.values()
        ]
        names = dict.fromkeys(name for shown in reversed(orders) for name in shown)
        return {name: [shown.get(name, "–") for shown in orders] for name in names}

    @property
    def sources_drawing(self) -> Markup:
        """A bar a source, the longest n-grams first."""
        return drawings.sources_drawing("Weights of the public sources", self.sources)

    @property
    def clipping(self) -> "Clipping":
        """How many users wrote more than one user may add."""
        return Clipping(self.card)


@dataclass(frozen=True)
class Clipping:
    """The noisy histogram of norms on the card, in words and as a picture."""

    card: Card

    @property
    def sentence(self) -> str:
        """How many, or why nobody knows."""
        bins = norm_histogram(self.card.details)
        if not bins:
            return self._unknown
        users = [max(found.users, 0.0) for found in bins]
        clipped = sum(number for number, found in zip(users, bins, strict=True) if found.clipped)
        limit, share = self.card.details["clip_norm_used"], clipped / sum(users)
        return (
            f"About {percent(share)} of the users who are seen here write more than one user may add"
            f" (norm Λ = {limit:.3g}); their counts are scaled down to it. The others count in full. The numbers are"
            f" noisy, by about {self.doubt:,.0f} users a bar: the histogram is part of the release and inside its ε."
        )

    @property
    def _unknown(self) -> str:
        if "norm_edges" in self.card.details:
            return "Noise hides how much users write: there are too few of them for this ε."
        bounds = {
            name: self.card.settings[name]
            for name in ("clip_norm", "max_count", "max_total")
            if self._has(name)
        }
        if not bounds:
            return "Nobody's counts are bounded by this mechanism."
        given = ", ".join(f"{name} = {value:g}" for name, value in bounds.items())
        return f"Not measured: the bound on what one user adds was given ({given}), so no budget was spent to look."

    def _has(self, name: str) -> bool:
        return self.card.settings.get(name) is not None

    @property
    def doubt(self) -> float:
        """Standard deviation of each bar."""
        return norm_histogram_noise_std(self.card.details)

    @property
    def drawing(self) -> Markup | None:
        """Users by norm."""
        bins = norm_histogram(self.card.details)
        return (
            drawings.norms_drawing("Users by the norm of their counts", bins, self.doubt)
            if bins
            else None
        )


def _mark(row: Row, colour: str) -> Mark:
    return Mark(row.ngram, row.after, row.before, row.interval, colour)


def _colour(card: Card) -> str:
    return COLOURS[card.guarantee.name]


def _facts(card: Card) -> dict[str, str]:
    """Mechanism, settings, vocabulary and software."""
    told = {"mechanism": card.mechanism, **_plain(card.settings), **_plain(card.details)}
    told |= {"vocabulary": card.vocabulary_sentence, "tokenizer": str(card.vocabulary["tokenizer"])}
    told |= {
        name: said
        for name, said in (("chain", card.chain_sentence), ("inferred", card.reinference_sentence))
        if said
    }
    return {**told, "fingerprint": str(card.vocabulary["fingerprint"]), "software": card.software}


def _plain(values: dict[str, Any]) -> dict[str, str]:
    """Settings and details that fit in a line; histograms and weights are drawn instead."""
    drawn = {
        name
        for name, value in values.items()
        if isinstance(value, list) or value is None or name == SOURCE_WEIGHTS_DETAIL
    }
    short = {name: value for name, value in values.items() if name not in drawn}
    return {name.replace("_", " "): plain_number(value) for name, value in short.items()}


def plain_number(value: object) -> str:
    """A setting or a detail as a person reads it."""
    if isinstance(value, dict):
        return ", ".join(f"{name}: {plain_number(each)}" for name, each in value.items())
    if value is None:
        return "–"
    return f"{value:.6g}" if isinstance(value, float) else str(value)
