"""What rose and fell between releases, or between public text and a release, and how sure that is.

In:  releases, matched by their n-grams' strings.   Out: a `Comparison`: every n-gram that they have in common, with the
ratio of its rates and the false discovery rate at which it is a discovery. Releases are compared by their noisy
measurements (see `changes`), which also holds where one was the prior of the next; where there are none, by posteriors
and their deviations, and that is said. Post-processing: costs no privacy. Does not read private data.

A comparison for other programs: CSV, Parquet, JSON.

In:  a `Comparison`.   Out: a row for each n-gram that the releases have in common. Numbers of n-grams that noise hides
(`tested` is false) are empty.
"""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
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
    PooledRates,
    ReleaseCounts,
    clip_norm_drift,
    estimate_log_ratios,
    false_discovery_rates,
    fit_rates,
)
from bayesgram.errors import BayesgramError, UsageError
from bayesgram.io.atomic import write_file_atomically
from bayesgram.io.formats import GET_A_COPY
from bayesgram.privacy.budget import Guarantee
from bayesgram.releases.card import SEEDED
from bayesgram.releases.provenance import unproved_sentence
from bayesgram.releases.release import Release, VocabularyIdentity, check_vocabulary
from bayesgram.text.ngrams import distinct_orders, ngram_orders

DEFAULT_FDR = 0.1  # stated where nobody says otherwise
MAX_RELEASES = 60
PUBLIC_TEXT = "public text"
MIN_TOTAL_Z = 3.0  # noise deviations by which a total must exceed 0 for its order to be compared
POSTERIOR_UNITS = 1e6  # in which posteriors are counts
MAD_TO_STD = 1.4826  # of a normal distribution, over its median absolute deviation


class PublicDistribution(VocabularyIdentity, Protocol):
    """Public n-grams with their distribution: a `Vocabulary` is one."""

    @property
    def prior(self) -> Floats:
        """π, of each order by itself."""


@dataclass(frozen=True)
class Change:
    """An n-gram that changed: from one release to another its rate became `ratio` times what it was."""

    ngram: str
    order: int
    shares: tuple[float, ...]  # θ in every release
    first: (
        int  # the two releases between which it changed most clearly, in the order they were given
    )
    second: int
    ratio: float
    low: float  # 95% of the posterior lie between these
    high: float
    z: float
    fdr: float  # the smallest stated rate at which it is a discovery

    @property
    def description(self) -> str:
        """In words.

        >>> Change("a", 1, (0.1, 0.3), 0, 1, 2.94, 2.1, 3.91, 8.0, 1e-6).description
        'rose 2.9× (2.1–3.9)'
        >>> Change("a", 1, (0.1, 0.02), 0, 1, 0.2, 0.1, 0.25, -8.0, 1e-6).description
        'fell 5.0× (4.0–10.0)'
        """
        rose = self.z >= 0
        ends = (
            (self.ratio, self.low, self.high)
            if rose
            else (1 / self.ratio, 1 / self.high, 1 / self.low)
        )
        digits = 0 if ends[0] >= 9.95 else 1 if ends[0] >= 1.5 else 2
        middle, low, high = (f"{end:,.{digits}f}" for end in ends)
        return f"{'rose' if rose else 'fell'} {middle}× ({low}–{high})"


@dataclass(frozen=True, eq=False)
class Comparison:
    """All n-grams that releases have in common; nan where one was not tested."""

    names: list[str]
    ngrams: pa.LargeStringArray
    orders: Integers
    shares: Floats  # R × V: θ of every release
    probability_std: Floats  # R × V: of θ; nan where it is not known
    pairs: Integers  # 2 × V: between which releases an n-gram changed most clearly
    log_ratios: Floats
    log_ratio_std: Floats
    lows: Floats  # of the ratio
    highs: Floats
    z: Floats
    p_values: Floats
    fdrs: Floats
    fdr: float  # as stated
    drifts: dict[int, float]  # by order: how much most n-grams moved, relatively
    notes: list[str]
    measured: bool = False  # whether measurements were compared, and not posteriors

    @property
    def tested_count(self) -> int:
        """How many n-grams noise did not hide."""
        return int(np.isfinite(self.p_values).sum())

    @cached_property
    def changed_rows(self) -> Integers:
        """The rows of what changed, the surest first."""
        order = np.lexsort((-np.abs(self.z), self.p_values))
        found: Integers = order[self.fdrs[order] <= self.fdr]
        return found

    @cached_property
    def changes(self) -> list[Change]:
        """What changed, the surest first; of all of these, about as many as the stated rate says are chance."""
        return [self.change(int(row)) for row in self.changed_rows]

    def change(self, row: int) -> Change:
        """One n-gram."""
        ends = (
            np.exp(self.log_ratios[row]),
            self.lows[row],
            self.highs[row],
            self.z[row],
            self.fdrs[row],
        )
        first, second = self.pairs[:, row].tolist()
        own = self.ngrams[row].as_py(), int(self.orders[row]), tuple(self.shares[:, row].tolist())
        return Change(*own, first, second, *map(float, ends))

    @property
    def how_to_read(self) -> str:
        """What the numbers of a row are, and why they need not agree."""
        listed = "The false discovery rate decides what is listed, also where an interval (95%) includes 1."
        if not self.measured:
            return f"A change is the ratio of before and after, less what may be chance. {listed}"
        return (
            "Before and after are released numbers, drawn towards public text; the change is estimated from the noisy"
            f" counts, so the two may differ. {listed}"
        )

    @property
    def summary(self) -> str:
        """What was found and what it is worth, in words."""
        hidden = len(self.ngrams) - self.tested_count
        tests = f"{self.tested_count:,} n-grams were tested" + (
            f", noise hides {hidden:,} more" if hidden else ""
        )
        if not self.changed_rows.size:
            return f"Nothing is sure to have changed: {tests}, and none stands out (false discovery rate {self.fdr:g})."
        return (
            f"{self.changed_rows.size:,} changed: {tests}. False discovery rate {self.fdr:g}: of a list like this, at"
            f" most about {self.fdr:.0%} are there by chance."
        )


@check_arguments
def compare(
    *releases: Release,
    vocabulary: PublicDistribution | None = None,
    names: Sequence[str] | None = None,
    fdr: float = DEFAULT_FDR,
) -> Comparison:
    """What changed between two or more releases; or, with a vocabulary, between its public text and one release."""
    _check(releases, vocabulary, fdr)
    named = (
        list(names)
        if names is not None
        else [f"release {at}" for at in range(1, len(releases) + 1)]
    )
    if vocabulary is not None:
        check_vocabulary(releases[0], vocabulary, name=named[0])
        return _with_public_text(releases[0], vocabulary.prior, named[0], fdr)
    rows, notes = _matched(releases, named)
    matched = [_Matched(release, own) for release, own in zip(releases, rows, strict=True)]
    notes += _evidence_notes(releases, named)
    found, drifts = _by_order(matched, named, notes)
    shares, deviations = (
        np.array([getattr(each, what) for each in matched]) for what in ("shares", "deviations")
    )
    made = _compared(named, matched[0].ngrams, shares, deviations, found, drifts, fdr, notes)
    return replace(made, measured=all(release.measurements is not None for release in releases))


def _check(releases: Sequence[Release], vocabulary: PublicDistribution | None, fdr: float) -> None:
    """Refuse what can't be compared."""
    if not 0 < fdr < 1:
        raise UsageError.for_argument(
            "fdr",
            f"{fdr:g}",
            "a false discovery rate is between 0 and 1; 0.1 is usual, 0.01 is strict.",
        )
    if vocabulary is not None and len(releases) != 1:
        raise UsageError(
            f"{len(releases)} releases and a vocabulary: public text is compared with one release; leave the"
            " vocabulary out to compare releases with each other."
        )
    if vocabulary is None and not 2 <= len(releases) <= MAX_RELEASES:
        raise UsageError(
            f"{len(releases)} releases: give from 2 to {MAX_RELEASES}, or one and its vocabulary, to compare it with"
            " public text."
        )


@dataclass(frozen=True, eq=False)
class _Matched:
    """A release, and where in it the n-grams are that all have in common."""

    release: Release
    rows: Integers

    @cached_property
    def ngrams(self) -> pa.LargeStringArray:
        return self.release.ngrams.take(pa.array(self.rows))

    @cached_property
    def orders(self) -> Integers:
        return ngram_orders(self.ngrams)

    @property
    def shares(self) -> Floats:
        """θ."""
        return self.release.probabilities[self.rows]

    @property
    def deviations(self) -> Floats:
        """Of θ; nan where the mechanism does not say."""
        known = self.release.probability_std
        return np.full(self.rows.size, np.nan) if known is None else known[self.rows]

    def counts(self, order: int) -> ReleaseCounts | None:
        """The n-grams of an order as noisy counts; None where noise hides even their total."""
        among = self.orders == order
        if self.release.measurements is None:
            return ReleaseCounts(
                POSTERIOR_UNITS * self.shares[among],
                POSTERIOR_UNITS * self.deviations[among],
                POSTERIOR_UNITS,
            )
        texts, counts, noise = self.release.measurements.ngrams(order)
        total, doubt = self.release.measurements.total(order)
        if total < MIN_TOTAL_Z * doubt:
            return None
        places = pc.index_in(self.ngrams.filter(pa.array(among)), texts)
        if places.null_count:
            raise BayesgramError(
                f"a release has n-grams that it did not measure: it is damaged. {GET_A_COPY}"
            )
        rows = places.to_numpy().astype(np.int64)
        details = self.release.card.details
        sigma = details.get("noise_multiplier")
        clip_norm = details.get("clip_norm_used", self.release.card.settings.get("clip_norm"))
        return ReleaseCounts(
            counts[rows], noise[rows], total, noise[rows] / sigma if sigma else None, clip_norm
        )


def _matched(releases: Sequence[Release], names: Sequence[str]) -> tuple[list[Integers], list[str]]:
    """The rows of the n-grams that all have, release by release, and what must be said of that."""
    for (one, first), (other, second) in combinations(zip(names, releases, strict=True), 2):
        if _is_same(first, second):
            raise UsageError(
                f"{one} and {other}: are the same release, or two posteriors of it; give two that differ."
            )
        cuts = [release.card.vocabulary["tokenizer"] for release in (first, second)]
        if cuts[0] != cuts[1]:
            raise UsageError(
                f"{one} was cut by the tokenizer {cuts[0]!r} and {other} by {cuts[1]!r}, so that the same string is not"
                " the same n-gram; release both with one tokenizer."
            )
    common = np.ones(len(releases[0].ngrams), bool)
    places = [pc.index_in(releases[0].ngrams, release.ngrams) for release in releases]
    for place in places:
        common &= place.is_valid().to_numpy(zero_copy_only=False)
    if not common.any():
        raise UsageError(
            f"{', '.join(names)}: have no n-gram in common; compare releases of one vocabulary."
        )
    rows = [
        place.filter(pa.array(common)).to_numpy(zero_copy_only=False).astype(np.int64)
        for place in places
    ]
    number = int(common.sum())
    lacking = {
        name: len(release.ngrams) - number for name, release in zip(names, releases, strict=True)
    }
    said = [f"{missing:,} of {name}" for name, missing in lacking.items() if missing]
    return rows, [
        f"{number:,} n-grams are in common; {' and '.join(said)} are not compared."
    ] if said else []


def _is_same(one: Release, other: Release) -> bool:
    """By what was measured: the posteriors of two releases that noise hides are both public text."""
    if one.measurements is not None and other.measurements is not None:
        return one.measurements.digest == other.measurements.digest
    return one.card == other.card and np.array_equal(one.probabilities, other.probabilities)


def _evidence_notes(releases: Sequence[Release], names: Sequence[str]) -> list[str]:
    """What must be said of labels and of what releases do not tell; once for all of which it is true."""
    found: dict[str, list[str]] = {}
    for name, release in zip(names, releases, strict=True):
        for note in _notes_of(release):
            found.setdefault(note, []).append(name)
    return [f"{', '.join(named)}: {note}" for note, named in found.items()]


def _notes_of(release: Release) -> Iterator[str]:
    if release.card.seeded:
        yield f"{SEEDED}."
    elif (weakened := unproved_sentence(release.card.ingredients)) is not None:
        yield f"{release.card.label}; it was {weakened}."
    elif release.card.guarantee is not Guarantee.PROVED:
        yield f"{release.card.label}; the noise is not calibrated."
    if release.measurements is None and release.probability_std is None:
        yield (
            "nothing is told of the noise, which was guessed from how far most n-grams moved; the false discovery rate"
            " is not assured."
        )
    elif release.measurements is None:
        yield "no measurements, so that posteriors are compared; a past that releases share is not taken into account."


def _by_order(
    matched: Sequence[_Matched], names: Sequence[str], notes: list[str]
) -> tuple[list[tuple[Bools, PooledRates]], dict[int, float]]:
    """The rates of every order, and how much most n-grams moved; notes what noise hides and what clipping distorts."""
    found, drifts, norms = [], {}, 0.0
    for order in distinct_orders(matched[0].orders):
        counts = [each.counts(order) for each in matched]
        seen = [each for each in counts if each is not None]
        if len(seen) < len(counts):
            hidden = [name for name, each in zip(names, counts, strict=True) if each is None]
            notes.append(
                f"order {order}: noise hides even the total of {', '.join(hidden)}; it is not compared."
            )
            continue
        found.append((matched[0].orders == order, fit_rates(_with_guessed_noise(seen))))
        drifts[order] = found[-1][1].drift
        norms = max(norms, clip_norm_drift([each.clip_norm for each in seen]))
    if norms:
        notes.append(
            f"Their clip norms differ, which moves counts by about {norms:.0%}: only larger changes count."
        )
    return found, drifts


def _with_guessed_noise(counts: Sequence[ReleaseCounts]) -> list[ReleaseCounts]:
    """The same, with the noise of those that tell nothing of it as large as the rarer half of n-grams makes it seem."""
    shares = np.array([each.counts / each.total for each in counts])
    rare = shares.mean(axis=0) <= np.median(shares.mean(axis=0))
    made = []
    for at, each in enumerate(counts):
        if np.isfinite(each.noise_std).all() and (each.noise_std > 0).all():
            made.append(each)
            continue
        others = np.delete(shares, at, axis=0).mean(axis=0)
        guessed = MAD_TO_STD * float(np.median(np.abs(shares[at] - others)[rare]))
        floor = 1e-3 * float(np.median(shares[at])) + 1e-12
        made.append(
            ReleaseCounts(
                each.counts, np.full_like(each.counts, max(guessed, floor) * each.total), each.total
            )
        )
    return made


def _with_public_text(release: Release, prior: Floats, name: str, fdr: float) -> Comparison:
    """A release against public text, which is a text and has no noise: by the posterior and its deviations.

    The posterior is drawn to public text, so its distance from it is rather too small than too large.
    """
    if release.probability_std is None:
        raise UsageError(
            f"{name}: does not tell how sure it is of its numbers; make a release with posterior."
        )
    shares = np.array([prior, release.probabilities])
    sure = np.maximum(release.probability_std, 1e-9 * prior)
    noise = np.array([(1e-6 * sure) ** 2, sure**2])
    found = PooledRates(shares, noise, np.zeros_like(noise), 0.0, 0.0, prior)
    notes = (
        [] if release.card.guarantee is Guarantee.PROVED else _evidence_notes([release], [name])[:1]
    )
    everything: Bools = np.ones(prior.size, bool)
    deviations = np.array([np.zeros_like(prior), release.probability_std])
    return _compared(
        [PUBLIC_TEXT, name],
        release.ngrams,
        shares,
        deviations,
        [(everything, found)],
        {},
        fdr,
        notes,
        visible=everything,
    )


def _compared(
    names: list[str],
    ngrams: pa.LargeStringArray,
    shares: Floats,
    deviations: Floats,
    found: list[tuple[Bools, PooledRates]],
    drifts: dict[int, float],
    fdr: float,
    notes: list[str],
    *,
    visible: Bools | None = None,
) -> Comparison:
    """All orders together: the rate is that of one list."""
    size = len(ngrams)
    columns: dict[str, Any] = {name: np.full(size, np.nan) for name in _COLUMNS}
    pairs = np.zeros((2, size), np.int64)
    pairs[1] = len(names) - 1
    for among, rate in found:
        tested = rate.tested_mask if visible is None else visible[among]
        rows = np.flatnonzero(among)[tested]
        columns["p_values"][rows] = rate.p_values[tested]
        pairs[:, rows], columns["z"][rows] = _clearest(rate, tested)
        for name, values in _ratios(rate, tested, pairs[:, rows]).items():
            columns[name][rows] = values
    tested = np.isfinite(columns["p_values"])
    columns["fdrs"] = np.full(size, np.nan)
    columns["fdrs"][tested] = false_discovery_rates(columns["p_values"][tested])
    return Comparison(
        names,
        ngrams,
        ngram_orders(ngrams),
        shares,
        deviations,
        pairs,
        **columns,
        fdr=fdr,
        drifts=drifts,
        notes=notes,
    )


_COLUMNS = ("log_ratios", "log_ratio_std", "lows", "highs", "z", "p_values")


def _clearest(rate: PooledRates, tested: Bools) -> tuple[Integers, Floats]:
    """The two releases between which each n-gram differs most clearly, in standard deviations, and by how many."""
    places = list(combinations(range(len(rate.shares)), 2))
    scores = np.array([rate.z_between(*pair)[tested] for pair in places])
    best = np.abs(scores).argmax(axis=0) if scores.size else np.zeros(0, np.int64)
    return np.array(places).T[:, best], np.take_along_axis(scores, best[None, :], axis=0)[0]


def _ratios(rate: PooledRates, tested: Bools, pairs: Integers) -> dict[str, Floats]:
    """Log-ratios between the pair of each n-gram, by what changes are like among all that are tested."""
    made = {
        name: np.zeros(pairs.shape[1]) for name in ("log_ratios", "log_ratio_std", "lows", "highs")
    }
    for pair in np.unique(pairs, axis=1).T.tolist():
        own = (pairs == np.array(pair)[:, None]).all(axis=0)
        seen = estimate_log_ratios(
            rate.shares[pair][:, tested], rate.plugin_variances[pair][:, tested]
        )
        for name, values in zip(
            made, (seen.mean, seen.std, np.exp(seen.low), np.exp(seen.high)), strict=True
        ):
            made[name][own] = values[own]
    return made


CSV, PARQUET, JSON = SUFFIXES = (".csv", ".parquet", ".json")


def comparison_table(found: Comparison) -> pa.Table:
    """Every n-gram: its θ in each release, between which two it changed most clearly, by how much, how surely."""
    names = np.array(found.names, object)
    columns: dict[str, Any] = {"ngram": found.ngrams, "order": found.orders}
    columns |= {
        f"share {name}": share for name, share in zip(found.names, found.shares, strict=True)
    }
    columns |= {"from": names[found.pairs[0]], "to": names[found.pairs[1]]}
    numbers = {
        "ratio": np.exp(found.log_ratios),
        "ratio_low": found.lows,
        "ratio_high": found.highs,
        "log_ratio": found.log_ratios,
        "standard_deviation": found.log_ratio_std,
        "z": found.z,
        "p_value": found.p_values,
        "fdr": found.fdrs,
    }
    columns |= {
        name: pa.array(values, from_pandas=True) for name, values in numbers.items()
    }  # nan is null
    tested = np.isfinite(found.p_values)
    columns |= {
        "tested": tested,
        "changed": tested & (np.nan_to_num(found.fdrs, nan=1.0) <= found.fdr),
    }
    return pa.table(columns)


def comparison_json(found: Comparison) -> dict[str, Any]:
    """What was compared, and what changed, the surest first."""
    table = comparison_table(found).take(pa.array(found.changed_rows))
    return {
        "releases": found.names,
        "fdr": found.fdr,
        "in_common": len(found.ngrams),
        "tested": found.tested_count,
        "drift": {str(order): drift for order, drift in found.drifts.items()},
        "notes": found.notes,
        "changes": [
            {
                **{name: value for name, value in row.items() if name not in {"tested", "changed"}},
                "described": told,
            }
            for row, told in zip(
                table.to_pylist(), (change.description for change in found.changes), strict=True
            )
        ],
    }


def check_output_suffix(path: Path) -> None:
    """Refuse a name that does not say what to write."""
    if path.suffix.lower() not in SUFFIXES:
        raise UsageError.for_argument(
            "output",
            path,
            f"give a name that ends with {', '.join(SUFFIXES[:-1])} or {SUFFIXES[-1]}.",
        )


def save_comparison(found: Comparison, path: Path, *, force: bool = False) -> None:
    """Write what the name says: all n-grams, the surest changes first; as JSON what changed."""
    check_output_suffix(path)
    table = comparison_table(found)
    table = table.take(pa.array(np.argsort(np.nan_to_num(found.p_values, nan=2.0), kind="stable")))
    with write_file_atomically(path, force=force) as aside:
        if path.suffix.lower() == CSV:
            pacsv.write_csv(table, aside)
        elif path.suffix.lower() == PARQUET:
            pq.write_table(table, aside, compression="zstd")
        else:
            text = json.dumps(comparison_json(found), indent=2, ensure_ascii=False, allow_nan=False)
            aside.write_text(text + "\n", encoding="utf-8")
