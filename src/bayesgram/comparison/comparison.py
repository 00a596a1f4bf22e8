"""What rose and fell between releases, or between public text and a release, and how sure that is.

In:  releases, matched by the strings of their n-grams.   Out: a `Comparison`: every n-gram and word
that they have in common, with the ratio of its rates, a 95% interval, and the false discovery rate
at which it is listed; and the same as a table, CSV, Parquet or JSON.

Releases are compared by their noisy measurements (`statistics`), never by their posteriors:
measurements have known, independent noise, also where one release was the prior of the next. A
release without measurements is refused. Post-processing: costs no privacy. Does not read private
data.

What a row shows always agrees, for every row and in every format:

- *before* and *after* are measured shares, and the ratio is one over the other;
- the ratio lies inside the interval;
- a listed row has an interval that excludes 1, so it lies on the side (rose, fell) that the ratio
  says.

Released probabilities θ are not shown: they are drawn to public text, each on its own, so that
their ratio is not an estimate of the change.
"""

import json
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pacsv
import pyarrow.parquet as pq

from bayesgram.arguments import check_arguments
from bayesgram.arrays import Bools, Floats, Integers
from bayesgram.comparison.statistics import (
    CONFIDENCE,
    NoisyShares,
    RatioIntervals,
    ReleaseCounts,
    clip_norm_std,
    critical_misfit,
    false_discovery_rates,
    histogram_dispersion,
    mean_dispersion,
    misfit_p_values,
    noisy_shares,
    ratio_intervals,
)
from bayesgram.errors import BayesgramError, UsageError
from bayesgram.io.atomic import write_file_atomically
from bayesgram.io.formats import GET_A_COPY
from bayesgram.notebook import html
from bayesgram.privacy.budget import Guarantee
from bayesgram.releases.card import SEEDED
from bayesgram.releases.card_sections import norm_histogram, order_details, order_name
from bayesgram.releases.measurements import NGRAM, WORD, MeasurementBlock, Measurements
from bayesgram.releases.provenance import unproved_sentence
from bayesgram.releases.release import Release, VocabularyIdentity, check_vocabulary
from bayesgram.text.ngrams import distinct_orders, ngram_orders

# The false discovery rate where nobody says otherwise; a convention.
DEFAULT_FDR = 0.1

# The most releases of one comparison: a year of weeks, and some more.
MAX_RELEASES = 60

PUBLIC_TEXT = "public text"

# Logarithm of the largest factor of an interval around a ratio to public text: it stays a number.
MAX_LOG_INTERVAL = 300.0

# Noise deviations by which a total must exceed 0 for its order to be compared. Shares of a total
# that may be 0 mean nothing, and (1) in `statistics` needs its relative error to be small.
MIN_TOTAL_Z = 5.0

# Words are counted over all n-grams that contain them, so that one user adds more to them at once:
# the dispersion of words is so many times the mean of n-grams. Measured medians: commit authors 1.1
# to 1.3, Reddit 1.1 to 1.2, film reviews 1.1 to 1.5, made-up people 1.1 to 1.9.
WORD_DISPERSION = 1.3

# Clip norms named one by one for so many releases; of more, the smallest and the largest are named.
MAX_NORMS_NAMED = 4


class PublicDistribution(VocabularyIdentity, Protocol):
    """Public n-grams with their distribution: a `Vocabulary` is one."""

    @property
    def prior(self) -> Floats:
        """π, of each order by itself."""


# --- The result ---


@dataclass(frozen=True)
class Change:
    """An n-gram or word whose rate in one release is `ratio` times that in another.

    Attributes:
        ngram: Its text.
        kind: "ngram" or "word".
        order: The order of the n-gram; for a word, that of the n-grams that it was counted in.
        shares: Measured shares in every release; of public text and of a posterior if these were
            compared.
        first: Index of the release *before*.
        second: Index of the release *after*; of more than two, these two differ most clearly.
        ratio: After over before.
        low: Lower end of its 95% interval, 0 if there is none.
        high: Upper end, infinite if there is none.
        z: How many standard deviations the data are from no change; positive if it rose.
        fdr: The smallest false discovery rate at which it is listed.
    """

    ngram: str
    kind: str
    order: int
    shares: tuple[float, ...]
    first: int
    second: int
    ratio: float
    low: float
    high: float
    z: float
    fdr: float

    @property
    def is_word(self) -> bool:
        """Whether it is a word, and no n-gram."""
        return self.kind == WORD

    @property
    def is_rise(self) -> bool:
        """Whether it rose."""
        return self.ratio > 1

    @property
    def description(self) -> str:
        """The change in words.

        >>> shares = (0.1, 0.3)
        >>> Change("a", "ngram", 1, shares, 0, 1, 2.94, 2.1, 3.91, z=8, fdr=1e-6).description
        'rose 2.9× (2.1–3.9)'
        >>> shares = (0.1, 0.001)
        >>> Change("a", "ngram", 1, shares, 0, 1, 0.01, 0, 0.12, z=-8, fdr=1e-6).description
        'fell at least 8.3×'
        """
        if self.low <= 1 <= self.high:
            high = "∞" if math.isinf(self.high) else _format_ratio(self.high)
            return f"unclear ({_format_ratio(self.low)}–{high}×)"
        verb, ends = "rose", (self.low, self.ratio, self.high)
        if not self.is_rise:
            verb, ends = "fell", (1 / self.high, 1 / self.ratio, _inverse(self.low))
        low, middle, high = (_format_factor(end) for end in ends)
        return (
            f"{verb} at least {low}×" if math.isinf(ends[2]) else f"{verb} {middle}× ({low}–{high})"
        )


def _inverse(value: float) -> float:
    return 1 / value if value else math.inf


def _format_factor(factor: float) -> str:
    """Return a factor above 1 with two digits, or as many as distinguish it from 1.

    Rounding keeps the order of numbers, so that an estimate is never shown outside its interval.

    >>> [_format_factor(factor) for factor in (1.0042, 1.234, 2.94, 12.3, 1234.5)]
    ['1.004', '1.23', '2.9', '12', '1,200']
    """
    if math.isinf(factor):
        return "∞"
    if factor < 1.495:
        digits = max(2, math.ceil(-math.log10(max(factor - 1, 1e-9))))
        return f"{factor:.{digits}f}"
    if factor < 9.95:
        return f"{factor:.1f}"
    step = 10 ** max(0, math.floor(math.log10(factor)) - 1)
    return f"{round(factor / step) * step:,.0f}"


def _format_ratio(ratio: float) -> str:
    """Return any ratio with two digits.

    >>> [_format_ratio(ratio) for ratio in (0.0, 0.041, 0.82, 1.21, 12.3)]
    ['0', '0.041', '0.82', '1.21', '12']
    """
    return f"{ratio:.2g}" if ratio < 1 else _format_factor(ratio)


@dataclass(frozen=True, eq=False, repr=False)
class Comparison:
    """All n-grams and words that releases have in common.

    Attributes:
        names: What the releases are called.
        ngrams: Texts of n-grams, then of words.
        orders: Their orders.
        word_mask: Which of them are words.
        shares: R × V, measured shares; never negative.
        share_std: R × V, standard deviations of their noise.
        pairs: 2 × V, the two releases between which each changed most clearly.
        intervals: Ratios between these two, with 95% intervals.
        z: Standard deviations from no change, positive if it rose.
        p_values: nan where noise hides an n-gram, so that it is not tested.
        fdrs: The smallest false discovery rate at which each is listed; nan where it is not tested.
        fdr: The stated false discovery rate.
        notes: What must be said of the releases, clipping first.
        is_measured: Whether measurements were compared, and not a posterior with public text.
    """

    names: list[str]
    ngrams: pa.LargeStringArray
    orders: Integers
    word_mask: Bools
    shares: Floats
    share_std: Floats
    pairs: Integers
    intervals: RatioIntervals
    z: Floats
    p_values: Floats
    fdrs: Floats
    fdr: float
    notes: list[str]
    is_measured: bool = True

    def __repr__(self) -> str:
        compared = " and ".join([", ".join(self.names[:-1]), self.names[-1]])
        return f"Comparison({compared}: {self.changed_rows.size:,} changes, FDR {self.fdr:g})"

    def _repr_html_(self) -> str:
        """Show what changed, the surest first, in a notebook."""
        rows = [
            (
                change.ngram,
                f"{change.shares[change.first]:.3%}",
                f"{change.shares[change.second]:.3%}",
                change.description,
            )
            for change in map(self.change, self.changed_rows[:10].tolist())
        ]
        columns = ("n-gram", "before", "after", "change")
        return html("Comparison", [("Summary", self.summary)], columns, rows)

    @property
    def tested_mask(self) -> Bools:
        """Which rows noise does not hide."""
        return np.isfinite(self.p_values)

    @property
    def tested_count(self) -> int:
        """How many n-grams and words noise does not hide."""
        return int(self.tested_mask.sum())

    @cached_property
    def changed_rows(self) -> Integers:
        """The rows of what changed, the surest first."""
        order = np.lexsort((-np.abs(self.z), self.p_values))
        rows: Integers = order[self.fdrs[order] <= self.fdr]
        return rows

    @cached_property
    def changes(self) -> list[Change]:
        """What changed, the surest first; on average at most the stated rate of them is chance."""
        return [self.change(int(row)) for row in self.changed_rows]

    def change(self, row: int) -> Change:
        """Return one row, listed or not."""
        first, second = self.pairs[:, row].tolist()
        return Change(
            ngram=self.ngrams[row].as_py(),
            kind=WORD if self.word_mask[row] else NGRAM,
            order=int(self.orders[row]),
            shares=tuple(self.shares[:, row].tolist()),
            first=first,
            second=second,
            ratio=float(self.intervals.ratio[row]),
            low=float(self.intervals.low[row]),
            high=float(self.intervals.high[row]),
            z=float(self.z[row]),
            fdr=float(self.fdrs[row]),
        )

    @property
    def how_to_read(self) -> str:
        """What the numbers of a row are."""
        shares = (
            "Before and after are measured shares: noisy counts divided by their total."
            if self.is_measured
            else "Before is public text. After is the release, which starts from public text."
        )
        return (
            f"{shares} The change is their ratio, with its {CONFIDENCE:.0%} interval in brackets."
            ' "At least" means that noise hides how small the smaller share is.'
        )

    @property
    def summary(self) -> str:
        """What was found and what it is worth, in words."""
        tests = self._count_words(self.tested_mask, "tested", always=True)
        hidden = len(self.ngrams) - self.tested_count
        if hidden:
            tests += f", noise hides {hidden:,} more"
        if not self.changed_rows.size:
            return (
                f"Nothing is sure to have changed: {tests}, and none stands out"
                f" (false discovery rate {self.fdr:g})."
            )
        listed = np.zeros(len(self.ngrams), bool)
        listed[self.changed_rows] = True
        return (
            f"{self._count_words(listed, 'changed')}: {tests}. False discovery rate {self.fdr:g}:"
            f" of a list like this, at most about {self.fdr:.0%} are there by chance."
        )

    def _count_words(self, mask: Bools, verb: str, *, always: bool = False) -> str:
        """Return "12 n-grams and 3 words changed"."""
        words = int((mask & self.word_mask).sum())
        ngrams = int(mask.sum()) - words
        parts = [f"{ngrams:,} n-gram{'s' if ngrams != 1 else ''}"]
        if words or (always and self.word_mask.any()):
            parts.append(f"{words:,} word{'s' if words != 1 else ''}")
        were = "were " if always else ""
        return f"{' and '.join(parts)} {were}{verb}"


# --- Comparing ---


@check_arguments
def compare(
    *releases: Release,
    vocabulary: PublicDistribution | None = None,
    names: Sequence[str] | None = None,
    fdr: float = DEFAULT_FDR,
) -> Comparison:
    """Return what changed between two or more releases, or between public text and one release.

    Args:
        releases: Releases that keep their noisy measurements (`posterior`, `gaussian`), in the
            order of time or of segments; one if there is a vocabulary.
        vocabulary: The vocabulary of the release: its public text is compared with the release.
        names: What the releases are called.
        fdr: The false discovery rate: at most about so much of the list is chance.

    Returns:
        Every n-gram and word that the releases have in common.

    Raises:
        UsageError: If the releases can't be compared, for instance because one has no measurements.
    """
    _check(releases, vocabulary, fdr)
    named = (
        list(names)
        if names is not None
        else [f"release {at}" for at in range(1, len(releases) + 1)]
    )
    if vocabulary is not None:
        check_vocabulary(releases[0], vocabulary, name=named[0])
        return _compare_with_public_text(releases[0], vocabulary.prior, named[0], fdr)
    rows, notes = _match_rows(releases, named)
    _require_measurements(releases, named)
    matched = [_Matched(release, own) for release, own in zip(releases, rows, strict=True)]
    notes = [*_clipping_notes(releases, named), *notes, *_release_notes(releases, named)]
    blocks = _comparable_blocks(matched, named, notes)
    return _judge(named, blocks, fdr, notes)


def _check(releases: Sequence[Release], vocabulary: PublicDistribution | None, fdr: float) -> None:
    """Refuse numbers of releases and rates that mean nothing."""
    if not 0 < fdr < 1:
        raise UsageError.for_argument(
            "fdr",
            f"{fdr:g}",
            "a false discovery rate is between 0 and 1; 0.1 is usual, 0.01 is strict.",
        )
    if vocabulary is not None and len(releases) != 1:
        raise UsageError(
            f"{len(releases)} releases and a vocabulary: public text is compared with one release;"
            " leave the vocabulary out to compare releases with each other."
        )
    if vocabulary is None and not 2 <= len(releases) <= MAX_RELEASES:
        raise UsageError(
            f"{len(releases)} releases: give from 2 to {MAX_RELEASES}, or one and its vocabulary,"
            " to compare it with public text."
        )


def _require_measurements(releases: Sequence[Release], names: Sequence[str]) -> None:
    """Refuse releases without measurements: nothing says which differences are noise."""
    lacking = [
        f"{name} ({release.card.mechanism})"
        for name, release in zip(names, releases, strict=True)
        if release.measurements is None
    ]
    if lacking:
        raise UsageError(
            f"{', '.join(lacking)}: no measurements, so that changes can't be told from noise and"
            " have no intervals; compare releases by posterior or gaussian, which keep their"
            " noisy measurements."
        )


def _match_rows(
    releases: Sequence[Release], names: Sequence[str]
) -> tuple[list[Integers], list[str]]:
    """Return the rows of the n-grams that all releases have, and notes about the others."""
    for (one, first), (other, second) in combinations(zip(names, releases, strict=True), 2):
        if _is_same(first, second):
            raise UsageError(
                f"{one} and {other}: are the same release, or two posteriors of it; give two that"
                " differ."
            )
        tokenizers = [release.card.vocabulary["tokenizer"] for release in (first, second)]
        if tokenizers[0] != tokenizers[1]:
            raise UsageError(
                f"{one} was cut by the tokenizer {tokenizers[0]!r} and {other} by"
                f" {tokenizers[1]!r}, so that the same string is not the same n-gram; release both"
                " with one tokenizer."
            )
    is_common = np.ones(len(releases[0].ngrams), bool)
    places = [pc.index_in(releases[0].ngrams, release.ngrams) for release in releases]
    for place in places:
        is_common &= place.is_valid().to_numpy(zero_copy_only=False)
    if not is_common.any():
        raise UsageError(
            f"{', '.join(names)}: have no n-gram in common; compare releases of one vocabulary."
        )
    rows = [
        place.filter(pa.array(is_common)).to_numpy(zero_copy_only=False).astype(np.int64)
        for place in places
    ]
    number = int(is_common.sum())
    lacking = [
        f"{len(release.ngrams) - number:,} of {name}"
        for name, release in zip(names, releases, strict=True)
        if len(release.ngrams) > number
    ]
    if not lacking:
        return rows, []
    note = (
        f"{number:,} n-grams are in common; {' and '.join(lacking)} are not compared. Shares are"
        " of those in common."
    )
    return rows, [note]


def _is_same(one: Release, other: Release) -> bool:
    """Compare by measurements: two posteriors that are mostly noise may both be public text."""
    if one.measurements is not None and other.measurements is not None:
        return one.measurements.digest == other.measurements.digest
    return one.card == other.card and np.array_equal(one.probabilities, other.probabilities)


# --- Notes about the releases ---


def _clip_norm(release: Release, order: int) -> float | None:
    """Return the clip norm of an order on the card; None if there is none."""
    measured = order_details(release.card.details, order)
    clip_norm = measured.get("clip_norm_used", release.card.settings.get("clip_norm"))
    return float(clip_norm) if isinstance(clip_norm, int | float) else None


def _clipped_user_share(release: Release, order: int) -> float | None:
    """Return the noisy share of users that are clipped; None if there is no histogram of norms."""
    bins = norm_histogram(release.card.details, order)
    users = sum(max(norm_bin.users, 0.0) for norm_bin in bins)
    if not users:
        return None
    return sum(max(norm_bin.users, 0.0) for norm_bin in bins if norm_bin.clipped) / users


def _clipping_notes(releases: Sequence[Release], names: Sequence[str]) -> list[str]:
    """Say how counts of each order are clipped, and what differing clip norms mean."""
    orders = sorted({int(order) for release in releases for order in set(release.orders.tolist())})
    norms_text = {order: _describe_clip_norms(releases, names, order) for order in orders}
    norms_text = {order: text for order, text in norms_text.items() if text}
    if not norms_text:
        return []
    clipped = "Counts are clipped, so rates are of text up to a norm for each user"
    if len(set(norms_text.values())) == 1:
        notes = [f"{clipped}: {next(iter(norms_text.values()))}."]
    else:
        by_order = [
            f"{order_name(order).capitalize()}: {text}." for order, text in norms_text.items()
        ]
        notes = [" ".join([f"{clipped}.", *by_order])]
    allowances = [clip_norm_std(_clip_norms(releases, order)) for order in norms_text]
    largest = max(allowances)
    if largest:
        about = "at most about" if len(set(allowances)) > 1 else "about"
        notes.append(
            f"Their clip norms differ, which moves ratios by {about} {largest:.0%}: intervals"
            " allow for it. Release both with the same clip norm to see smaller changes."
        )
    return notes


def _clip_norms(releases: Sequence[Release], order: int) -> list[float]:
    """Return the clip norms of an order, where they are known."""
    clip_norms = (_clip_norm(release, order) for release in releases)
    return [clip_norm for clip_norm in clip_norms if clip_norm is not None]


def _describe_clip_norms(releases: Sequence[Release], names: Sequence[str], order: int) -> str:
    """Return the clip norm of an order in each release; empty where none is known."""
    known = _clip_norms(releases, order)
    if len(known) > MAX_NORMS_NAMED:
        return f"from {min(known):.3g} to {max(known):.3g} in these releases"
    parts = []
    for name, release in zip(names, releases, strict=True):
        clip_norm = _clip_norm(release, order)
        if clip_norm is not None:
            share = _clipped_user_share(release, order)
            above = "" if share is None else f" (about {share:.0%} of users write more)"
            parts.append(f"{clip_norm:.3g} in {name}{above}")
    return ", ".join(parts)


def _release_notes(releases: Sequence[Release], names: Sequence[str]) -> list[str]:
    """Return what must be said of labels; once for all releases of which it is true."""
    names_by_note: dict[str, list[str]] = {}
    for name, release in zip(names, releases, strict=True):
        for note in _label_notes(release):
            names_by_note.setdefault(note, []).append(name)
    return [f"{', '.join(named)}: {note}" for note, named in names_by_note.items()]


def _label_notes(release: Release) -> Iterator[str]:
    if release.card.seeded:
        yield f"{SEEDED}."
    elif (reason := unproved_sentence(release.card.ingredients)) is not None:
        yield f"{release.card.label}; it was {reason}."
    elif release.card.guarantee is not Guarantee.PROVED:
        yield f"{release.card.label}; the noise is not calibrated."


# --- From releases to noisy shares ---


@dataclass(frozen=True, eq=False)
class _Matched:
    """A release, and the rows of the n-grams that all releases have in common."""

    release: Release
    rows: Integers

    @cached_property
    def measurements(self) -> Measurements:
        if self.release.measurements is None:
            raise AssertionError("releases without measurements are refused")
        return self.release.measurements

    @cached_property
    def ngrams(self) -> pa.LargeStringArray:
        return self.release.ngrams.take(pa.array(self.rows))

    def noise_multiplier(self, order: int) -> float:
        """Return σ of the counts of an order."""
        details = self.release.card.details
        try:
            return float((order_details(details, order) or details)["noise_multiplier"])
        except (KeyError, TypeError, ValueError) as error:
            raise BayesgramError(
                f"a card does not say how its noise was made: it is damaged. {GET_A_COPY}"
            ) from error

    def dispersion(self, order: int) -> float | None:
        """Return the dispersion d of n-grams by the histogram of norms; None where there is none.

        By segment, norms are of all segments together, so that they do not tell that of one.
        """
        card = self.release.card
        details = order_details(card.details, order)
        clip_norm = _clip_norm(self.release, order)
        if card.segment is not None or clip_norm is None or not details.get("norm_edges"):
            return None
        _, counts, noise_std = self.measurements.ngrams(order)
        noise_multiplier = self.noise_multiplier(order)
        return histogram_dispersion(
            counts,
            noise_std / noise_multiplier,
            noise_multiplier=noise_multiplier,
            norm_edges=np.array(details["norm_edges"], float),
            users=np.array(details["noisy_users_by_norm"], float),
            users_std=float(details["users_noise"]),
            clip_norm=clip_norm,
        )

    def ngram_counts(self, order: int, texts: pa.LargeStringArray) -> ReleaseCounts:
        """Return noisy counts of n-grams of an order.

        Shares are of the n-grams that are compared. If the release has no others, their total was
        measured; otherwise the total without the others, or the sum of these, whichever has less
        noise.
        """
        measured_texts, counts, noise_std = self.measurements.ngrams(order)
        total, total_std = self.measurements.total(order)
        rows = _find(texts, measured_texts)
        if rows.size < counts.size:
            is_other = np.ones(counts.size, bool)
            is_other[rows] = False
            sum_std = float(np.linalg.norm(noise_std[rows]))
            rest_std = math.hypot(total_std, float(np.linalg.norm(noise_std[is_other])))
            if sum_std < rest_std:
                total, total_std = float(counts[rows].sum()), sum_std
            else:
                total, total_std = total - float(counts[is_other].sum()), rest_std
        return self._release_counts(
            order, counts[rows], noise_std[rows], (total, total_std), self.dispersion(order)
        )

    def word_counts(self, order: int, texts: pa.LargeStringArray) -> ReleaseCounts:
        """Return noisy counts of words in n-grams of an order, which have so many words each."""
        block = self.words
        if block is None:
            raise AssertionError("words are compared where all releases have them")
        rows = _find(texts, block.texts)
        total, total_std = self.measurements.total(order)
        totals = (order * total, order * total_std)
        dispersion = self.dispersion(order)
        if dispersion is not None:
            _, ngram_counts, noise_std = self.measurements.ngrams(order)
            max_user_count = noise_std / self.noise_multiplier(order)
            dispersion = WORD_DISPERSION * mean_dispersion(dispersion, ngram_counts, max_user_count)
        return self._release_counts(
            order, block.counts[rows], block.noise_std[rows], totals, dispersion
        )

    @cached_property
    def words(self) -> MeasurementBlock | None:
        return self.measurements.block(WORD, self.measurements.ngram_orders[-1])

    def _release_counts(
        self,
        order: int,
        counts: Floats,
        noise_std: Floats,
        total: tuple[float, float],
        dispersion: float | None,
    ) -> ReleaseCounts:
        return ReleaseCounts(
            counts,
            noise_std,
            *total,
            max_user_count=noise_std / self.noise_multiplier(order),
            dispersion=dispersion,
            clip_norm=_clip_norm(self.release, order),
        )


def _find(texts: pa.LargeStringArray, among: pa.LargeStringArray) -> Integers:
    """Return where texts are; refuse a release that did not measure what it released."""
    places = pc.index_in(texts, among)
    if places.null_count:
        raise BayesgramError(
            f"a release has n-grams that it did not measure: it is damaged. {GET_A_COPY}"
        )
    rows: Integers = places.to_numpy().astype(np.int64)
    return rows


@dataclass(frozen=True, eq=False)
class _Block:
    """N-grams of one order, or words, in all releases; `noisy` is None if a total is hidden."""

    texts: pa.LargeStringArray
    order: int
    is_word: bool
    noisy: NoisyShares | None


def _comparable_blocks(
    matched: Sequence[_Matched], names: Sequence[str], notes: list[str]
) -> list[_Block]:
    """Return the n-grams of every order, then words; note what is not compared."""
    ngrams = matched[0].ngrams
    orders = ngram_orders(ngrams, matched[0].release.tokenizer)
    blocks = []
    for order in distinct_orders(orders):
        texts = ngrams.filter(pa.array(orders == order))
        counts = [each.ngram_counts(order, texts) for each in matched]
        hidden = [
            name
            for name, each in zip(names, counts, strict=True)
            if each.total < MIN_TOTAL_Z * each.total_std
        ]
        if hidden:
            notes.append(
                f"Order {order}: noise hides even the total of {', '.join(hidden)}; it is not"
                " compared."
            )
        blocks.append(_Block(texts, order, False, None if hidden else noisy_shares(counts)))
    words = _word_block(matched, blocks, notes)
    return blocks if words is None else [*blocks, words]


def _word_block(
    matched: Sequence[_Matched], blocks: Sequence[_Block], notes: list[str]
) -> _Block | None:
    """Return the words of the longest n-grams; None if they can't be compared."""
    longest = blocks[-1]
    word_blocks = [each.words for each in matched if each.words is not None]
    if longest.noisy is None or longest.order == 1 or len(word_blocks) < len(matched):
        return None
    # A word is counted in the n-grams that a release lists, so other n-grams make other counts.
    if any(
        each.measurements.ngrams(longest.order)[1].size != len(longest.texts)
        or each.measurements.ngram_orders[-1] != longest.order
        for each in matched
    ):
        notes.append(
            "Words are not compared: the releases have different n-grams to count them in."
        )
        return None
    texts = word_blocks[0].texts
    counts = [each.word_counts(longest.order, texts) for each in matched]
    return _Block(texts, longest.order, True, noisy_shares(counts))


# --- Tests and intervals ---


def _judge(names: list[str], blocks: Sequence[_Block], fdr: float, notes: list[str]) -> Comparison:
    """Test all n-grams and words as one list."""
    results = [_judge_block(block, len(names)) for block in blocks]
    sizes = [len(block.texts) for block in blocks]
    intervals = RatioIntervals(
        *(
            np.concatenate([getattr(result.intervals, name) for result in results])
            for name in ("ratio", "low", "high", "misfit")
        )
    )
    p_values = np.concatenate([result.p_values for result in results])
    return Comparison(
        names=names,
        ngrams=pa.concat_arrays([block.texts.cast(pa.large_string()) for block in blocks]),
        orders=np.repeat([block.order for block in blocks], sizes),
        word_mask=np.repeat([block.is_word for block in blocks], sizes),
        shares=np.concatenate([result.shares for result in results], axis=1),
        share_std=np.concatenate([result.share_std for result in results], axis=1),
        pairs=np.concatenate([result.pairs for result in results], axis=1),
        intervals=intervals,
        z=_z_scores(intervals),
        p_values=p_values,
        fdrs=_false_discovery_rates(intervals, p_values),
        fdr=fdr,
        notes=notes,
    )


@dataclass(frozen=True, eq=False)
class _BlockResult:
    """What is known of the n-grams of one order, or of words."""

    shares: Floats
    share_std: Floats
    pairs: Integers
    intervals: RatioIntervals
    p_values: Floats


def _judge_block(block: _Block, release_count: int) -> _BlockResult:
    """Return shares, intervals and p-values; nan if a total is hidden or an n-gram untested."""
    size = len(block.texts)
    if block.noisy is None:
        unknown = np.full(size, np.nan)
        unknown_shares = np.full((release_count, size), np.nan)
        anything = RatioIntervals(unknown, np.zeros(size), np.full(size, np.inf), unknown)
        pairs = np.tile([[0], [release_count - 1]], size)
        return _BlockResult(unknown_shares, unknown_shares, pairs, anything, unknown)
    pairs = block.noisy.clearest_pairs
    intervals = ratio_intervals(block.noisy.select(pairs), critical_misfit(release_count))
    p_values = misfit_p_values(intervals.misfit, release_count)
    return _BlockResult(
        block.noisy.positive_shares,
        np.sqrt(block.noisy.noise_var),
        pairs,
        intervals,
        np.where(block.noisy.tested_mask, p_values, np.nan),
    )


def _false_discovery_rates(intervals: RatioIntervals, p_values: Floats) -> Floats:
    """Return the rate at which each is listed; never if its interval contains 1."""
    is_tested = np.isfinite(p_values)
    excludes_one = (intervals.low > 1) | (intervals.high < 1)
    fdrs = np.full(p_values.size, np.nan)
    fdrs[is_tested] = false_discovery_rates(p_values[is_tested], excludes_one[is_tested])
    return fdrs


def _z_scores(intervals: RatioIntervals) -> Floats:
    """Return the square root of S(1), with the sign of the change."""
    z: Floats = np.sqrt(intervals.misfit) * np.where(intervals.ratio < 1, -1.0, 1.0)
    return z


def _compare_with_public_text(release: Release, prior: Floats, name: str, fdr: float) -> Comparison:
    """Compare the posterior of a release with public text, which has no noise.

    The deviation of θ is mostly relative (clipping, shrinkage), so that logarithms are compared:
    with d the deviation over θ, z = log(θ/π)/d, and the interval of the ratio is θ/π·exp(± 1.96 d).
    The posterior is drawn to public text, so its distance from it is rather too small than too
    large.
    """
    if release.probability_std is None:
        raise UsageError(
            f"{name}: does not tell how sure it is of its numbers; make a release with posterior."
        )
    theta = release.probabilities
    ratios = theta / prior
    log_std = np.maximum(release.probability_std / theta, 1e-9)
    misfit = (np.log(ratios) / log_std) ** 2
    factors = np.exp(np.minimum(math.sqrt(critical_misfit(2)) * log_std, MAX_LOG_INTERVAL))
    size = prior.size
    intervals = RatioIntervals(ratios, ratios / factors, ratios * factors, misfit)
    p_values = misfit_p_values(misfit, 2)
    return Comparison(
        names=[PUBLIC_TEXT, name],
        ngrams=release.ngrams,
        orders=release.orders,
        word_mask=np.zeros(size, bool),
        shares=np.array([prior, theta]),
        share_std=np.array([np.zeros(size), release.probability_std]),
        pairs=np.tile([[0], [1]], size),
        intervals=intervals,
        z=_z_scores(intervals),
        p_values=p_values,
        fdrs=_false_discovery_rates(intervals, p_values),
        fdr=fdr,
        notes=[*_clipping_notes([release], [name]), *_release_notes([release], [name])],
        is_measured=False,
    )


# --- Tables and files ---

CSV, PARQUET, JSON = SUFFIXES = (".csv", ".parquet", ".json")


def comparison_table(comparison: Comparison) -> pa.Table:
    """Return a row for every n-gram and word, listed or not.

    Columns: `kind` (ngram or word), `ngram`, `order`; `share NAME` and `noise NAME` of each
        release, the measured share and the standard deviation of its noise; `from` and `to`, the
        two releases that the rest is about; `ratio`, `ratio_low` (0: no lower end), `ratio_high`
        (infinite: no upper end), `log_ratio`, `z`; `p_value` and `fdr`, empty where noise hides an
        n-gram (`tested` is false); `changed`, whether it is listed.
    """
    names = np.array(comparison.names, object)
    intervals = comparison.intervals
    kinds = np.where(comparison.word_mask, WORD, NGRAM)
    columns: dict[str, Any] = {
        "kind": pa.array(kinds.tolist(), pa.string()),
        "ngram": comparison.ngrams,
        "order": comparison.orders,
    }
    for name, shares, std in zip(
        comparison.names, comparison.shares, comparison.share_std, strict=True
    ):
        columns[f"share {name}"] = pa.array(shares, from_pandas=True)
        columns[f"noise {name}"] = pa.array(std, from_pandas=True)
    columns["from"] = names[comparison.pairs[0]]
    columns["to"] = names[comparison.pairs[1]]
    with np.errstate(divide="ignore"):
        log_ratio = np.log(intervals.ratio)
    numbers = {
        "ratio": intervals.ratio,
        "ratio_low": intervals.low,
        "ratio_high": intervals.high,
        "log_ratio": log_ratio,
        "z": comparison.z,
        "p_value": comparison.p_values,
        "fdr": comparison.fdrs,
    }
    for name, values in numbers.items():
        columns[name] = pa.array(values, from_pandas=True)  # nan is null
    columns["tested"] = comparison.tested_mask
    columns["changed"] = np.nan_to_num(comparison.fdrs, nan=2.0) <= comparison.fdr
    return pa.table(columns)


def comparison_json(comparison: Comparison) -> dict[str, Any]:
    """Return what was compared, and what changed, the surest first.

    A `ratio_high` of null is an interval without an upper end.
    """
    rows = comparison_table(comparison).take(pa.array(comparison.changed_rows)).to_pylist()
    changes = []
    for row, change in zip(rows, comparison.changes, strict=True):
        values = {
            name: None if isinstance(value, float) and not math.isfinite(value) else value
            for name, value in row.items()
            if name not in {"tested", "changed"}
        }
        changes.append({**values, "described": change.description})
    return {
        "releases": comparison.names,
        "fdr": comparison.fdr,
        "confidence": CONFIDENCE,
        "in_common": len(comparison.ngrams),
        "words_in_common": int(comparison.word_mask.sum()),
        "tested": comparison.tested_count,
        "summary": comparison.summary,
        "notes": comparison.notes,
        "changes": changes,
    }


def check_output_suffix(path: Path) -> None:
    """Refuse a name that does not say what to write."""
    if path.suffix.lower() not in SUFFIXES:
        raise UsageError.for_argument(
            "output",
            path,
            f"give a name that ends with {', '.join(SUFFIXES[:-1])} or {SUFFIXES[-1]}.",
        )


def save_comparison(comparison: Comparison, path: Path, *, force: bool = False) -> None:
    """Write all n-grams and words, the surest changes first; as JSON what changed.

    Args:
        comparison: What changed.
        path: A file whose name ends with .csv, .parquet or .json.
        force: Whether to replace a file.
    """
    check_output_suffix(path)
    table = comparison_table(comparison)
    order = np.argsort(np.nan_to_num(comparison.p_values, nan=2.0), kind="stable")
    table = table.take(pa.array(order))
    with write_file_atomically(path, force=force) as aside:
        if path.suffix.lower() == CSV:
            pacsv.write_csv(table, aside)
        elif path.suffix.lower() == PARQUET:
            pq.write_table(table, aside, compression="zstd")
        else:
            text = json.dumps(
                comparison_json(comparison), indent=2, ensure_ascii=False, allow_nan=False
            )
            aside.write_text(text + "\n", encoding="utf-8", newline="\n")
