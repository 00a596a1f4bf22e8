"""Releases, discoveries and comparisons as pages show them: tables, pictures and sentences.

In:  a release, a discovery or a comparison, and public text's distribution where it is known.
Out: views, which the template of the report and the page of `bayesgram serve` read.

Everything is computed from what was published and from public numbers (post-processing, so it is
free and may be published). Reads no private data.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from markupsafe import Markup

from bayesgram.arrays import Bools, Floats, Integers
from bayesgram.charts import DATA, LOWERED, format_percent, printable
from bayesgram.comparison.comparison import Change, Comparison
from bayesgram.releases.card import Card
from bayesgram.releases.card_sections import (
    BY_ORDER_DETAIL,
    LIMITED_NORMS_NOTE,
    SOURCE_WEIGHTS_DETAIL,
    SourceWeight,
    format_odds_factor,
    has_limited_norms,
    join_words,
    measured_orders,
    norm_histogram,
    norm_histogram_noise_std,
    order_details,
    order_name,
    read_source_weights,
)
from bayesgram.releases.intervals import (
    KNOWN_FACTOR,
    AccuracyShare,
    accuracy_shares,
    probability_interval,
)
from bayesgram.releases.quality import QUALITY_DETAILS, read_quality
from bayesgram.releases.release import Release
from bayesgram.reports import pictures
from bayesgram.reports.explanation import (
    describe_accuracy,
    describe_contents,
    describe_cost,
    describe_people,
    estimate_people,
    explain_epsilon,
    list_not_covered,
)
from bayesgram.reports.pictures import NgramMark, WeightBand, weight_bands
from bayesgram.text.ngrams import distinct_orders

SMALLEST_PROBABILITY = np.finfo(np.float64).tiny  # stands for 0, which has no logarithm

# Rows of tables and pictures; chosen by eye.
MAX_CHANGED_NGRAMS = 12  # n-grams lifted most, and as many lowered most
MAX_FREQUENT = 15  # the most frequent n-grams, and rows of pictures
MAX_DISCOVERED = 40  # discovered n-grams
MAX_CHANGES = 15  # what rose between releases, and as many that fell

# Details that are drawn or said in sentences, and so are not among the settings.
EXPLAINED_DETAILS = (SOURCE_WEIGHTS_DETAIL, BY_ORDER_DETAIL, *QUALITY_DETAILS)


# --- What a release says that public text did not ---


@dataclass(frozen=True)
class ProbabilityChange:
    """An n-gram with its probability before (public) and after (released)."""

    ngram: str
    before: float
    after: float
    row: int  # its id

    def mark(self) -> NgramMark:
        """Return it as a row of a picture."""
        return NgramMark(self.ngram, self.after, self.before)


def largest_changes(
    release: Release, before: Floats, *, how_many: int, among: Bools | None = None
) -> tuple[list[ProbabilityChange], list[ProbabilityChange]]:
    """Return the n-grams lifted and lowered most: largest θ log(θ/π) and π log(π/θ).

    Args:
        release: Its probabilities are θ.
        before: π, the probabilities of public text.
        how_many: N-grams of each list, at most.
        among: Which n-grams to look at, such as those of one order; all without it.
    """
    rows = np.arange(before.size) if among is None else np.flatnonzero(among)
    old = before[rows]
    new = release.probabilities[rows]
    log_ratio = np.log(np.maximum(new, SMALLEST_PROBABILITY)) - np.log(
        np.maximum(old, SMALLEST_PROBABILITY)
    )
    lifted = np.argsort(-new * log_ratio, kind="stable")
    lowered = np.argsort(old * log_ratio, kind="stable")

    def to_changes(places: Integers) -> list[ProbabilityChange]:
        return [
            ProbabilityChange(
                release.ngrams[row].as_py(),
                float(before[row]),
                float(release.probabilities[row]),
                row,
            )
            for row in rows[places[:how_many]].tolist()
        ]

    return to_changes(lifted[log_ratio[lifted] > 0]), to_changes(lowered[log_ratio[lowered] < 0])


# --- Comparisons ---


@dataclass(frozen=True, eq=False)
class ChangesView:
    """What changed between the releases of a page."""

    comparison: Comparison

    @property
    def title(self) -> str:
        """Which releases are compared, as the end of a heading."""
        names = self.comparison.names
        if len(names) == 2:
            return f"from {printable(names[0])} to {printable(names[1])}"
        return f"over {len(names)} releases"

    @property
    def summary(self) -> str:
        """What changed and what was tested, in short sentences."""
        return pictures.summarize_changes(self.comparison)

    @property
    def tables(self) -> dict[str, list[tuple[Change, str, str]]]:
        """What rose and fell, the surest first: change, text, and between which releases."""
        titles = ("Rose", "Fell", "Words that rose", "Words that fell")
        tables: dict[str, list[tuple[Change, str, str]]] = {title: [] for title in titles}
        for change in self.comparison.changes:
            names = (self.comparison.names[at] for at in (change.first, change.second))
            row = (change, printable(change.ngram), " → ".join(map(printable, names)))
            tables[titles[2 * change.is_word + (not change.is_rise)]].append(row)
        return {title: rows[:MAX_CHANGES] for title, rows in tables.items()}

    @property
    def notes(self) -> list[str]:
        """What a reader must know about the releases that are compared."""
        return [printable(note) for note in self.comparison.notes]


# --- N-grams of one order ---


@dataclass(frozen=True)
class NgramRow:
    """A row of a table: an n-gram with its public and its released probability."""

    ngram: str
    before: float | None  # in public text
    after: float  # in the release
    interval: tuple[float, float] | None
    discovered: bool = False  # not in public text

    @property
    def is_clear(self) -> bool | None:
        """Whether public text's number lies outside the interval; None if that is not known."""
        if self.interval is None or self.before is None:
            return None
        return not self.interval[0] <= self.before <= self.interval[1]

    @property
    def change(self) -> str:
        """How many times as frequent as in public text it is, as × or ÷.

        >>> NgramRow("a", 0.01, 0.02, None).change, NgramRow("a", 0.02, 0.01, None).change
        ('× 2', '÷ 2')
        >>> NgramRow("a", 0.0, 0.01, None).change, NgramRow("a", 0.01, 0.0, None).change
        ('from 0', 'to 0')
        """
        if self.before is None or self.before == self.after:
            return "× 1" if self.before else "–"
        if not self.before or not self.after:
            return "to 0" if self.before else "from 0"
        times = self.after / self.before
        return f"× {_format_factor(times)}" if times >= 1 else f"÷ {_format_factor(1 / times)}"

    def mark(self, colour: str) -> NgramMark:
        """Return it as a row of a picture."""
        return NgramMark(self.ngram, self.after, self.before, self.interval, colour)


def _format_factor(factor: float) -> str:
    """Format a factor of at least 1 with three digits, or more before the point.

    >>> _format_factor(4.9876), _format_factor(2372.1)
    ('4.99', '2,370')
    """
    rounded = float(f"{factor:.3g}")
    return f"{rounded:,.0f}" if rounded >= 1000 else f"{rounded:g}"


@dataclass(frozen=True, eq=False)
class OrderView:
    """What a release says about its n-grams of one order."""

    release: Release
    public: Floats | None  # probabilities of public text
    order: int
    among: Bools  # which n-grams of the release have this order

    @property
    def size(self) -> int:
        """Number of n-grams of this order."""
        return int(self.among.sum())

    @property
    def ngrams_name(self) -> str:
        """What n-grams of this order are called."""
        return order_name(self.order, is_rows=self.release.card.is_of_rows)

    @property
    def known_share(self) -> AccuracyShare | None:
        """What is expected to lie within a factor of 2; None where the release does not say."""
        shares = [share for share in self.accuracy_shares if share.factor == KNOWN_FACTOR]
        return shares[0] if shares else None

    @cached_property
    def largest_changes(self) -> tuple[list[NgramRow], list[NgramRow]] | None:
        """The n-grams lifted and lowered most, where public text is known."""
        if self.public is None:
            return None
        lifted, lowered = largest_changes(
            self.release, self.public, how_many=MAX_CHANGED_NGRAMS, among=self.among
        )
        return [self._row(item.row) for item in lifted], [self._row(item.row) for item in lowered]

    @property
    def no_change_is_clear(self) -> bool:
        """Whether public text lies inside the interval of each of `largest_changes`."""
        rows = [row for side in self.largest_changes or () for row in side]
        return bool(rows) and all(row.is_clear is False for row in rows)

    @cached_property
    def most_frequent(self) -> list[NgramRow]:
        """The most probable n-grams of the release, the most probable first."""
        rows = np.flatnonzero(self.among)
        best = np.argsort(-self.release.probabilities[rows], kind="stable")[:MAX_FREQUENT]
        return [self._row(row) for row in rows[best].tolist()]

    @cached_property
    def accuracy_shares(self) -> list[AccuracyShare]:
        """The shares of n-grams, and of what people write, expected to lie within each factor."""
        return accuracy_shares(self.release, self.among)

    @property
    def changes_drawing(self) -> Markup:
        """The n-grams lifted (blue) and lowered (red) most."""
        lifted, lowered = self.largest_changes or ([], [])
        marks = [row.mark(DATA) for row in lifted] + [row.mark(LOWERED) for row in lowered]
        label = "Public and released probability of the n-grams that differ most"
        return pictures.draw_probabilities(label, marks).inline()

    @property
    def most_frequent_drawing(self) -> Markup:
        """The most probable n-grams, with intervals where they are known."""
        marks = [row.mark(self.release.card.guarantee.name) for row in self.most_frequent]
        label = "Released probability of the most frequent n-grams, with its interval"
        return pictures.draw_probabilities(label, marks).inline()

    @property
    def accuracy_drawing(self) -> Markup:
        """The shares that are expected to lie within each factor."""
        return pictures.draw_accuracy(self.accuracy_shares).inline()

    def _row(self, row: int) -> NgramRow:
        return NgramRow(
            printable(self.release.ngrams[row].as_py()),
            None if self.public is None else float(self.public[row]),
            float(self.release.probabilities[row]),
            probability_interval(self.release, row),
        )


# --- Releases and discoveries ---


@dataclass(frozen=True)
class DiscoveredRow:
    """A discovered n-gram in a table."""

    ngram: str
    order: int
    value: float  # its probability in a release, or its noisy weight in a discovery
    interval: tuple[float, float] | None


class CardView:
    """What a card says of a release or a discovery."""

    name: str  # as its folder was given

    @property
    def card(self) -> Card:
        """The card that everything is read from; subclasses have it."""
        raise NotImplementedError

    @property
    def shown_name(self) -> str:
        """The name, without characters that do not print."""
        return printable(self.name)

    @property
    def unit(self) -> str:
        """Whom or what the promise is about."""
        return self.card.protects

    @property
    def factor(self) -> str:
        """e^ε rounded up where it is proved, a dash otherwise."""
        is_limit = self.card.guarantee.name == "PROVED" and self.card.epsilon is not None
        return format_odds_factor(self.card.epsilon or 0.0) if is_limit else "–"

    @property
    def contents(self) -> str:
        """What it is."""
        return describe_contents(self.card)

    @property
    def people(self) -> str:
        """About how many people it is."""
        return describe_people(self.card)

    @property
    def people_count(self) -> str:
        """About how many people, for a table; a dash where it is not known."""
        estimate = estimate_people(self.card)
        if estimate is None or estimate.is_hidden:
            return "–"
        return f"about {estimate.rounded_users:,.0f}"

    @property
    def accuracy(self) -> list[str]:
        """How good it is, in short; empty where its card does not say."""
        return describe_accuracy(self.card)

    @property
    def cost(self) -> str:
        """What it costs in privacy."""
        return describe_cost(self.card)

    @property
    def meaning(self) -> list[str]:
        """What ε and δ mean, in plain sentences."""
        return explain_epsilon(self.card)

    @property
    def not_covered(self) -> tuple[str, ...]:
        """What the guarantee says nothing about."""
        return list_not_covered(self.card)

    @property
    def facts(self) -> dict[str, str]:
        """Mechanism, settings, vocabulary and software, for engineers."""
        card = self.card
        facts = {"mechanism": card.mechanism}
        facts |= _format_settings(card.settings) | _format_settings(card.details)
        facts["vocabulary"] = card.vocabulary_sentence
        facts["tokenizer"] = str(card.vocabulary["tokenizer"])
        if card.chain_sentence:
            facts["chain"] = card.chain_sentence
        if card.reinference_sentence:
            facts["inferred"] = card.reinference_sentence
        facts["fingerprint"] = str(card.vocabulary["fingerprint"])
        facts["software"] = card.software
        return facts


@dataclass(frozen=True, eq=False)
class DiscoveryView(CardView):
    """A discovery: n-grams, heaviest first, with noisy weights above the threshold T."""

    name: str
    discovery_card: Card
    ngrams: Sequence[str]
    orders: Integers
    weights: Floats
    level: float  # T
    deviation: float  # standard deviation of the noise of a weight

    @property
    def card(self) -> Card:
        """The card of the discovery."""
        return self.discovery_card

    @property
    def contents(self) -> str:
        """What it is, with the number of n-grams."""
        is_rows = self.card.is_of_rows
        ngrams = join_words([order_name(order, is_rows=is_rows) for order in self.by_order])
        return (
            f"A list of {len(self.ngrams):,} {ngrams} that many people write and that public text"
            " lacks."
        )

    @property
    def by_order(self) -> dict[int, int]:
        """How many were discovered, of the orders that were searched."""
        searched = self.card.settings.get("orders", distinct_orders(self.orders))
        return {int(order): int((self.orders == order).sum()) for order in searched}

    @cached_property
    def heaviest(self) -> list[DiscoveredRow]:
        """The first of them; an interval is two standard deviations to each side."""
        columns = zip(self.ngrams, self.orders.tolist(), self.weights.tolist(), strict=True)
        reach = 2 * self.deviation
        rows = [
            DiscoveredRow(printable(ngram), order, weight, (weight - reach, weight + reach))
            for ngram, order, weight in columns
        ]
        return rows[:MAX_DISCOVERED]

    @property
    def bands(self) -> dict[int, list[WeightBand]]:
        """How many of each order are how far above T."""
        return {
            order: weight_bands(self.weights[self.orders == order] / self.level)
            for order in self.by_order
        }

    @property
    def bands_drawing(self) -> Markup:
        """How far above T they are, by order."""
        return pictures.draw_weight_bands(self.bands).inline()

    @property
    def weights_drawing(self) -> Markup:
        """The heaviest n-grams with their intervals, and the threshold T."""
        marks = _discovered_marks(self.heaviest, self.card)
        label = "Noisy weight of the heaviest, with its interval"
        return pictures.draw_weights(label, marks, self.level).inline()


@dataclass(frozen=True, eq=False)
class ReleaseView(CardView):
    """A release as the report and the page show it.

    Attributes:
        name: Its name, as it was given.
        release: The release.
        public: Probabilities in public text by row of the release, if the vocabulary was given.
    """

    name: str
    release: Release
    public: Floats | None = None

    @property
    def card(self) -> Card:
        """The card of the release."""
        return self.release.card

    @cached_property
    def discovered(self) -> list[DiscoveredRow]:
        """The most probable n-grams that people's own text added to the vocabulary."""
        release = self.release
        if release.discovered_mask is None:
            return []
        rows = np.flatnonzero(release.discovered_mask)
        best = np.argsort(-release.probabilities[rows], kind="stable")[:MAX_DISCOVERED]
        orders = release.orders
        return [
            DiscoveredRow(
                printable(release.ngrams[row].as_py()),
                int(orders[row]),
                float(release.probabilities[row]),
                probability_interval(release, row),
            )
            for row in rows[best].tolist()
        ]

    @property
    def discovered_drawing(self) -> Markup:
        """The most probable of them, with intervals where they are known."""
        marks = _discovered_marks(self.discovered, self.card)
        label = "Released probability of the discovered n-grams, with its interval"
        return pictures.draw_probabilities(label, marks).inline()

    @cached_property
    def orders(self) -> list[OrderView]:
        """One view for each length of n-grams, short ones first."""
        orders = self.release.orders
        return [
            OrderView(self.release, self.public, order, orders == order)
            for order in distinct_orders(orders)
        ]

    @property
    def quality(self) -> list[str]:
        """How good the release is, in sentences; empty where its mechanism does not say."""
        return self.card.quality_sentences

    @property
    def known_mass(self) -> str:
        """Of what people write in the longest n-grams, how much should lie within a factor of 2."""
        known = self.orders[-1].known_share
        return "–" if known is None else format_percent(known.mass_share)

    @property
    def covered_share(self) -> str:
        """Which share of people's longest n-grams the vocabulary lists; a dash if unknown."""
        qualities = [*read_quality(self.card.details).values()]
        coverage = qualities[-1].coverage if qualities else None
        return "–" if coverage is None or coverage.is_hidden else coverage.percent_text

    @cached_property
    def sources(self) -> dict[int, list[SourceWeight]]:
        """The learnt weights of each order; nothing where public text is one source."""
        return read_source_weights(self.card.details)

    @property
    def sources_table(self) -> dict[str, list[str]]:
        """The weights of each source by order, the heaviest in the longest n-grams first."""
        by_order = [
            {source.name: source.percent_text for source in sources}
            for sources in self.sources.values()
        ]
        names = dict.fromkeys(name for weights in reversed(by_order) for name in weights)
        return {name: [weights.get(name, "–") for weights in by_order] for name in names}

    @property
    def sources_drawing(self) -> Markup:
        """The weights of the sources, the longest n-grams first."""
        return pictures.draw_sources(self.sources).inline()

    @property
    def clipping(self) -> "ClippingView":
        """How many users wrote more than one user may add."""
        return ClippingView(self.card)


def _discovered_marks(rows: Sequence[DiscoveredRow], card: Card) -> list[NgramMark]:
    return [
        NgramMark(row.ngram, row.value, None, row.interval, card.guarantee.name)
        for row in rows[:MAX_FREQUENT]
    ]


@dataclass(frozen=True)
class ClippingView:
    """The noisy histogram of norms on the card, in words and as a picture.

    Where there are several orders, it is that of the longest n-grams.
    """

    card: Card

    @property
    def sentence(self) -> str:
        """How many users were clipped, or why that is unknown."""
        details = self.card.details
        orders = measured_orders(details)
        clipped = {order: _clipped_user_percent(details, order) for order in orders}
        if not orders or clipped[orders[-1]] is None:
            return self._unknown_sentence
        limit = order_details(details)["clip_norm_used"]
        sentence = (
            f"About {clipped[orders[-1]]} of the users write more {self._longest_name} than one"
            f" user may contribute. Their counts are scaled down to a size (norm) of {limit:.3g};"
            " all others count in full."
        )
        if len(orders) > 1:
            others = [_describe_order_clipping(details, order) for order in orders[:-1]]
            sentence += f" The limits of shorter n-grams are {join_words(others)}."
        return (
            f"{sentence} Each bar has noise of about {self.noise_std:,.0f} users. The histogram is"
            " part of the release, and its ε includes it."
        )

    @property
    def caption(self) -> str:
        """What the picture shows."""
        orders = measured_orders(self.card.details)
        ngrams = self._longest_name if orders else "counts"
        caption = (
            f"Number of users (noisy) by the size of their {ngrams}: the square root of the sum of"
            " squared counts. Users in full bars count in full; hollow bars are scaled down."
        )
        if has_limited_norms(self.card.details):
            caption += f" {LIMITED_NORMS_NOTE}"
        return caption

    @property
    def _longest_name(self) -> str:
        """What the longest n-grams are called."""
        longest = measured_orders(self.card.details)[-1]
        return order_name(longest, is_rows=self.card.is_of_rows)

    @property
    def _unknown_sentence(self) -> str:
        if "norm_edges" in order_details(self.card.details):
            return "Noise hides how much users write: there are too few users for this ε."
        settings = self.card.settings
        bounds = [
            f"{name} = {settings[name]:g}"
            for name in ("clip_norm", "max_count", "max_total")
            if settings.get(name) is not None
        ]
        if not bounds:
            return "This mechanism does not limit what one user contributes."
        return (
            "Not measured. The limit for one user was given"
            f" ({', '.join(bounds)}), so no budget was spent on measuring."
        )

    @property
    def noise_std(self) -> float:
        """Standard deviation of the number of users in each bar."""
        return norm_histogram_noise_std(self.card.details)

    @property
    def drawing(self) -> Markup | None:
        """The number of users by the norm of their counts; None where it was not measured."""
        bins = norm_histogram(self.card.details)
        return pictures.draw_norms(bins, self.noise_std).inline() if bins else None


def _clipped_user_percent(details: Mapping[str, Any], order: int) -> str | None:
    """Return the noisy share of users who are clipped; None where it was not measured."""
    bins = norm_histogram(details, order)
    users = sum(max(norm_bin.users, 0.0) for norm_bin in bins)
    if not users:
        return None
    clipped = sum(max(norm_bin.users, 0.0) for norm_bin in bins if norm_bin.clipped)
    return format_percent(clipped / users)


def _describe_order_clipping(details: Mapping[str, Any], order: int) -> str:
    limit = order_details(details, order)["clip_norm_used"]
    percent = _clipped_user_percent(details, order)
    users = "" if percent is None else f" (about {percent} of the users write more)"
    return f"{limit:.3g} for {order_name(order)}{users}"


# --- Settings ---


def _format_settings(values: dict[str, Any]) -> dict[str, str]:
    """Format settings and details that fit in a line; histograms and weights are drawn instead."""
    return {
        name.replace("_", " "): format_setting(value)
        for name, value in values.items()
        if not isinstance(value, list) and value is not None and name not in EXPLAINED_DETAILS
    }


def format_setting(value: object) -> str:
    """Format a setting or a detail as a person reads it."""
    if isinstance(value, dict):
        return ", ".join(f"{name}: {format_setting(part)}" for name, part in value.items())
    if value is None:
        return "–"
    return f"{value:.6g}" if isinstance(value, float) else str(value)
