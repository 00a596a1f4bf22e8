"""Do intervals of `compare` hold the true ratios, and is its false discovery rate kept?

    python benchmarks/compare.py [--laws 5] [--pairs 8] [--users 20000] [--size 3000] [--epsilon 1]
        [--only TEXT] [--reddit FOLDER] [--commits FILE --public FILE] [--reviews FILE --public
        FILE]

Made-up people: n-grams follow Zipf's law, people write log-normal amounts and repeat themselves (a
share of what they write is something that they have written before, in the week before too if they
are the same people). Every week is measured by `posterior` at ε. A *law* is a random pair of
distributions; its true rates, for text counted up to the clip norm, are those of POPULATION times
as many people. Several pairs of weeks are drawn from each law.

Real text: halves of Reddit's posts (the true ratio is 1), and groups of commit authors or of film
reviews by the words that they use (the truth is the realised ratio of clipped counts).

It prints a table, as means over pairs: how many n-grams are tested; the share whose 95% interval
holds the true ratio (of clipped counts; of counts as written; of clipped counts for n-grams above
10 noise deviations, for all n-grams whether tested or not, and for those that are listed); the
median width of intervals as a factor, of those with two ends, and the share without; how many are
listed; the false discovery proportion of the whole list with its standard error (a discovery is
false if the true ratio is 1 or on the other side of 1); and which share of the tested n-grams that
changed by a factor of 1.3 or more is found. Every second row is about words.
"""

import argparse
import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

import bayesgram as bg
from bayesgram.arrays import Bools, Floats, Ids, Integers
from bayesgram.comparison import statistics
from bayesgram.comparison.comparison import WORD_DISPERSION
from bayesgram.inference.design import ClippingPlan
from bayesgram.inference.noisy_counts import NoisyCounts, PublicNgrams
from bayesgram.kernels import kernel
from bayesgram.mechanisms.base import Randomness
from bayesgram.mechanisms.posterior import OrderDesign, Posterior
from bayesgram.privacy.budget import Budget
from bayesgram.privacy.constants import UNITS
from bayesgram.private.clipping import Coordinates, clipped_sum
from bayesgram.private.counts import UserCounts, build_user_counts
from bayesgram.public.vocabulary import Vocabulary
from bayesgram.releases.card_sections import order_details
from bayesgram.text.tokenizer import Tokenizer

DELTA = 1e-7
MEDIAN, SPREAD = 8.0, 1.2  # n-grams a user and week, log-normal
MOST = 2000
POPULATION = 20  # times as many people give the true rates
CHANGED = 0.03  # of the n-grams change where a little changes
FACTORS = (1.3, 1.6, 2.0, 3.0)  # by which they rise or fall
LARGE_SPREAD = 0.7  # standard deviation of log-ratios where a lot changes; every n-gram does
FDR = 0.1
CLEAR = 1.3  # a ratio that power is about
VISIBLE = 10.0  # noise deviations

# --- Made-up people ---


@kernel
def repeat_some(
    draws: Ids,
    ends: Integers,
    chances: Floats,
    places: Floats,
    last: Ids,
    last_ends: Integers,
    share: float,
) -> Ids:
    """Replace a share of what people write by something that they have written before."""
    out = draws.copy()
    for user in range(ends.size - 1):
        old = last_ends[user + 1] - last_ends[user]
        for at in range(ends[user], ends[user + 1]):
            earlier = at - ends[user] + old
            if earlier and chances[at] < share:
                place = int(places[at] * earlier)
                if place < old:
                    out[at] = last[last_ends[user] + place]
                else:
                    out[at] = out[ends[user] + place - old]
    return out


@dataclass(frozen=True, eq=False)
class Week:
    """What everybody wrote, one user after the other."""

    ngrams: Ids
    ends: Integers

    @classmethod
    def draw(
        cls,
        shares: Floats,
        users: int,
        repeats: float,
        rng: np.random.Generator,
        last: "Week | None" = None,
    ) -> "Week":
        """Draw a week of these people, who remember what they wrote in the last one."""
        amounts = np.clip(MEDIAN * np.exp(SPREAD * rng.standard_normal(users)), 1, MOST)
        ends = np.concatenate([[0], np.cumsum(amounts.astype(np.int64))])
        draws = np.searchsorted(np.cumsum(shares)[:-1], rng.random(int(ends[-1]))).astype(np.int32)
        if last is None:
            last = cls(np.zeros(0, np.int32), np.zeros(users + 1, np.int64))
        chances, places = rng.random((2, draws.size))
        written = repeat_some(draws, ends, chances, places, last.ngrams, last.ends, repeats)
        return cls(written, ends)

    def counts(self, vocabulary: Vocabulary) -> UserCounts:
        """Return what the mechanism takes."""
        users = np.repeat(np.arange(self.ends.size - 1, dtype=np.int32), np.diff(self.ends))
        names = pa.array([b"%d" % user for user in range(self.ends.size - 1)], pa.large_binary())
        return build_user_counts(
            names,
            users,
            self.ngrams,
            np.ones(users.size, np.int32),
            vocabulary_size=len(vocabulary),
            vocabulary_fingerprint=vocabulary.fingerprint,
        )


def zipf_vocabulary(size: int, rng: np.random.Generator) -> tuple[Vocabulary, Floats]:
    """Return public text, and what people write: each n-gram e^N(0, 0.8²) times as often."""
    public = 1 / np.arange(1, size + 1)
    private = public * np.exp(0.8 * rng.standard_normal(size))
    ngrams = pa.array([f"a{at} b{at % 97}" for at in range(size)], pa.large_string())
    counts = np.round(1e6 * public / public.sum()).astype(np.int64)
    return Vocabulary(ngrams, counts, 2, Tokenizer()), private / private.sum()


def change_some(shares: Floats, rng: np.random.Generator) -> Floats:
    """Let some n-grams rise or fall; the others keep their shares exactly."""
    is_changed = rng.random(shares.size) < CHANGED
    factors = rng.choice(FACTORS, shares.size) ** rng.choice([-1, 1], shares.size)
    after = np.where(is_changed, shares * factors, shares)
    mass = after[is_changed].sum()
    if mass:
        after[is_changed] *= shares[is_changed].sum() / mass
    return after


def change_all(shares: Floats, rng: np.random.Generator) -> Floats:
    """Let every n-gram rise or fall."""
    after = shares * np.exp(LARGE_SPREAD * rng.standard_normal(shares.size))
    return after / after.sum()


def change_phrase(shares: Floats, rng: np.random.Generator, before: float) -> tuple[Floats, Floats]:
    """One n-gram triples from a share."""
    row = int(rng.integers(shares.size // 10, shares.size))
    pair = []
    for share in (before, 3 * before):
        shifted = shares / (shares.sum() - shares[row]) * (1 - share)
        shifted[row] = share
        pair.append(shifted)
    return pair[0], pair[1]


@dataclass(frozen=True)
class Setting:
    """A kind of pair of weeks."""

    name: str
    change: str = "nothing"  # "nothing", "little", "lot", or the share of a phrase that triples
    same_people: bool = False
    clip_norms: tuple[float | None, float | None] = (None, None)
    users: tuple[float, float] = (1.0, 1.0)  # of --users
    repeats: float = 0.5
    epsilon: float = 1.0  # of --epsilon


SETTINGS = (
    Setting("nothing changes, same people", same_people=True),
    Setting("nothing changes, other people"),
    Setting("nothing changes, a quarter of the people", users=(1.0, 0.25)),
    Setting("nothing changes, clip norm 4 given", clip_norms=(4.0, 4.0)),
    Setting("nothing changes, clip norms 2 and 8", clip_norms=(2.0, 8.0)),
    Setting("nothing changes, heavy repeaters", repeats=0.9),
    Setting("nothing changes, nobody repeats", repeats=0.0),
    Setting("a little changes, same people", "little", same_people=True),
    Setting("a little changes, other people", "little"),
    Setting("a little changes, epsilon 8", "little", epsilon=8.0),
    Setting("a lot changes, same people", "lot", same_people=True),
    Setting("a lot changes, other people", "lot"),
    Setting("a lot changes, a quarter of the people", "lot", users=(1.0, 0.25)),
    Setting("a lot changes, clip norm 4 given", "lot", clip_norms=(4.0, 4.0)),
    Setting("a lot changes, clip norms 2 and 8", "lot", clip_norms=(2.0, 8.0)),
    Setting("a lot changes, heavy repeaters", "lot", repeats=0.9),
    Setting("a lot changes, epsilon 8", "lot", epsilon=8.0),
    Setting("a phrase triples from 0.1%", "0.001"),
    Setting("a phrase triples from 0.03%", "0.0003"),
)

# --- Measuring, and exact sums ---


@dataclass(frozen=True, eq=False)
class Measured:
    """A release's noisy counts, and how they were clipped."""

    noisy: NoisyCounts
    details: Mapping[str, Any]  # of its one order
    coordinates: Coordinates

    @classmethod
    def draw(
        cls,
        counts: UserCounts,
        vocabulary: Vocabulary,
        epsilon: float,
        seed: int,
        clip_norm: float | None,
    ) -> "Measured":
        """Measure by `posterior`, with seeded noise."""
        (noisy,), details = Posterior(clip_norm).measure(
            counts, vocabulary, Budget(epsilon, DELTA), Randomness.from_seed(seed)
        )
        measured = order_details(details)
        unit = measured["clip_norm_used"] * measured["noise_multiplier"]
        word_noise = np.zeros(0) if noisy.word_noise is None else noisy.word_noise
        noise_std = [noisy.noise, [noisy.unlisted_noise], word_noise, [noisy.total_noise]]
        # Only the shape of the coordinates follows the plan; which columns add to which does not.
        design = OrderDesign(PublicNgrams.of(vocabulary))
        columns = design.coordinates(ClippingPlan.fixed(measured["clip_norm_used"])).words
        return cls(noisy, measured, Coordinates(np.concatenate(noise_std) / unit, columns))

    @property
    def word_count(self) -> int:
        """The number of words that were measured."""
        return 0 if self.noisy.word_counts is None else self.noisy.word_counts.size

    def exact_counts(self, counts: UserCounts, clip_norm: float | None = None) -> list[Floats]:
        """Return clipped counts of n-grams and of words, without noise."""
        norm = self.details["clip_norm_used"] if clip_norm is None else clip_norm
        units = clipped_sum(counts, self.coordinates, clip_norm=norm)
        sums = units * (norm * self.coordinates.shape / UNITS)
        size = self.noisy.counts.size
        return [sums[:size], sums[size + 1 : -1]]

    def release_counts(self, *, words: bool) -> statistics.ReleaseCounts:
        """Return what `compare` makes of it."""
        noisy, details = self.noisy, self.details
        sigma = details["noise_multiplier"]
        dispersion = None
        if "norm_edges" in details:
            dispersion = statistics.histogram_dispersion(
                noisy.counts,
                noisy.noise / sigma,
                noise_multiplier=sigma,
                norm_edges=np.array(details["norm_edges"]),
                users=np.array(details["noisy_users_by_norm"]),
                users_std=details["users_noise"],
                clip_norm=details["clip_norm_used"],
            )
        clip_norm = details["clip_norm_used"]
        if not words:
            return statistics.ReleaseCounts(
                noisy.counts, noisy.noise, noisy.total, noisy.total_noise, noisy.noise / sigma,
                dispersion, clip_norm,
            )  # fmt: skip
        if noisy.word_counts is None or noisy.word_noise is None:
            raise ValueError("unigrams have no words")
        if dispersion is not None:
            dispersion = WORD_DISPERSION * statistics.mean_dispersion(
                dispersion, noisy.counts, noisy.noise / sigma
            )
        order = self.coordinates.words.shape[1] - 1
        return statistics.ReleaseCounts(
            noisy.word_counts, noisy.word_noise, order * noisy.total, order * noisy.total_noise,
            noisy.word_noise / sigma, dispersion, clip_norm,
        )  # fmt: skip


@dataclass(eq=False)
class Law:
    """Two distributions, and the true rates of people who follow them."""

    setting: Setting
    users: int
    size: int
    seed: int
    truths: dict[float, list[Floats]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        rng = np.random.default_rng([self.seed, 1])
        self.vocabulary, self.before = zipf_vocabulary(self.size, rng)
        change = self.setting.change
        self.after = self.before
        if change == "little":
            self.after = change_some(self.before, rng)
        elif change == "lot":
            self.after = change_all(self.before, rng)
        elif change != "nothing":
            self.before, self.after = change_phrase(self.before, rng, float(change))

    def weeks(self, rng: np.random.Generator, users: Sequence[int]) -> list[Week]:
        """Draw two weeks."""
        repeats = self.setting.repeats
        first = Week.draw(self.before, users[0], repeats, rng)
        last = first if self.setting.same_people else None
        return [first, Week.draw(self.after, users[1], repeats, rng, last)]

    def law_ratios(self) -> list[Floats]:
        """Return the ratios of the probabilities that people draw from, of n-grams and words."""
        words = PublicNgrams.of(self.vocabulary).words
        sums = [
            np.bincount(words.ravel(), np.repeat(shares, words.shape[1]))
            for shares in (self.before, self.after)
        ]
        exact = [self.after / self.before, sums[1] / sums[0]]
        # What did not change is exactly 1, and not 1 + 1e-16.
        return [np.where(np.abs(ratios - 1) < 1e-9, 1.0, ratios) for ratios in exact]

    def true_ratios(self, measured: Measured, clip_norm: float) -> list[Floats]:
        """Return the ratios of rates up to a clip norm, of n-grams and of words."""
        if self.setting.change == "nothing":
            return [np.ones(self.size), np.ones(measured.word_count)]
        if clip_norm not in self.truths:
            rng = np.random.default_rng([self.seed, 2])
            sums: list[list[Floats]] = []
            for _ in range(POPULATION):
                weeks = self.weeks(rng, (self.users, self.users))
                sums.append(
                    [
                        part
                        for week in weeks
                        for part in measured.exact_counts(week.counts(self.vocabulary), clip_norm)
                    ]
                )
            first, first_words, second, second_words = (
                np.sum([row[column] for row in sums], axis=0) for column in range(4)
            )
            self.truths[clip_norm] = [ratio(first, second), ratio(first_words, second_words)]
        return self.truths[clip_norm]


def ratio(first: Floats, second: Floats) -> Floats:
    """Return the ratio of shares; nan where neither is there."""
    with np.errstate(divide="ignore", invalid="ignore"):
        shares: Floats = (second / second.sum()) / (first / first.sum())
    return shares


# --- Judging ---


def judge(
    measured: Sequence[Measured],
    truths: Sequence[Floats],
    laws: Sequence[Floats] | None = None,
    written: Sequence[Floats] | None = None,
) -> list[dict[str, float]]:
    """Compare two releases with the true ratios; n-grams and words are one list, as in `compare`.

    Args:
        measured: Two releases.
        truths: Ratios of rates of text counted up to the clip norm, of n-grams and of words.
        laws: Ratios of the probabilities that people draw from, which decide what is a false
            discovery and what is to be found; by default `truths`.
        written: Ratios of rates as written.

    Returns:
        Numbers about n-grams, and about words.
    """
    shares = [
        statistics.noisy_shares([each.release_counts(words=words) for each in measured])
        for words in (False, True)
    ]
    critical_value = statistics.critical_misfit(2)
    intervals = [statistics.ratio_intervals(each, critical_value) for each in shares]
    is_tested = np.concatenate([each.tested_mask for each in shares])
    p_values = np.concatenate([statistics.misfit_p_values(each.misfit, 2) for each in intervals])
    excludes_one = np.concatenate([(each.low > 1) | (each.high < 1) for each in intervals])
    rates = np.ones(p_values.size)
    rates[is_tested] = statistics.false_discovery_rates(
        p_values[is_tested], excludes_one[is_tested]
    )
    is_listed = np.split(rates <= FDR, [truths[0].size])
    rows = [
        judge_kind(
            shares[kind],
            intervals[kind],
            is_listed[kind],
            truths[kind],
            truths[kind] if laws is None else laws[kind],
            None if written is None else written[kind],
        )
        for kind in (0, 1)
    ]
    false_count = sum(row["false"] for row in rows)
    rows[0]["proportion"] = false_count / max(sum(row["listed"] for row in rows), 1)
    rows[1]["proportion"] = math.nan  # it is about the whole list
    return rows


def judge_kind(
    shares: statistics.NoisyShares,
    intervals: statistics.RatioIntervals,
    is_listed: Bools,
    truth: Floats,
    law: Floats,
    written: Floats | None,
) -> dict[str, float]:
    """Return numbers about n-grams or words of one comparison."""
    is_known = ~np.isnan(truth)
    judged = shares.tested_mask & is_known
    is_false = is_listed & is_known & ((law == 1) | ((law > 1) != (intervals.ratio > 1)))
    precision = 1 / shares.noise_var
    pooled_z = (precision * shares.shares).sum(axis=0) / np.sqrt(precision.sum(axis=0))
    held = (intervals.low * (1 - 1e-9) <= truth) & (truth <= intervals.high * (1 + 1e-9))

    def coverage(of: Bools, among: Bools) -> float:
        return float(of[among].mean()) if among.any() else math.nan

    held_as_written = math.nan
    if written is not None:
        inside = (intervals.low * (1 - 1e-9) <= written) & (written <= intervals.high * (1 + 1e-9))
        held_as_written = coverage(inside, judged)
    has_ends = (intervals.low > 0) & np.isfinite(intervals.high)
    widths = np.log(intervals.high[judged & has_ends] / intervals.low[judged & has_ends])
    with np.errstate(divide="ignore"):
        is_clear = judged & (np.abs(np.log(law)) > math.log(CLEAR))
    return {
        "tested": float(shares.tested_mask.sum()),
        "coverage": coverage(held, judged),
        "written": held_as_written,
        "all": coverage(held, is_known),
        "visible": coverage(held, judged & (pooled_z > VISIBLE)),
        "width": float(np.median(widths)) if widths.size else math.nan,
        "open": coverage(~has_ends, judged),
        "listed": float(is_listed.sum()),
        "held": float((held & is_listed & is_known).sum()),
        "false": float(is_false.sum()),
        "found": float((is_listed & is_clear).sum()),
        "clear": float(is_clear.sum()),
    }


Rows = tuple[list[dict[str, float]], list[dict[str, float]]]  # of n-grams, and of words


def add_rows(by_kind: Rows, rows: Sequence[dict[str, float]]) -> None:
    """Add what was found in one pair."""
    for kind, row in zip(by_kind, rows, strict=True):
        kind.append(row)


def print_row(name: str, rows: Sequence[dict[str, float]]) -> None:
    """Print means over pairs."""
    means = {key: float(np.nanmean([row[key] for row in rows])) for key in rows[0]}
    totals = {key: sum(row[key] for row in rows) for key in ("listed", "held", "found", "clear")}
    proportions = np.array([row["proportion"] for row in rows])
    error = proportions.std(ddof=1) / math.sqrt(len(rows)) if len(rows) > 1 else math.nan
    held = f"{totals['held'] / totals['listed']:.0%}" if totals["listed"] else "–"
    power = f"{totals['found'] / totals['clear']:.1%}" if totals["clear"] else "–"
    rate = "" if math.isnan(means["proportion"]) else f"{means['proportion']:.1%} ± {error:.1%}"
    cells = [
        name,
        f"{means['tested']:,.0f}",
        f"{means['coverage']:.1%}",
        f"{means['written']:.1%}",
        f"{means['visible']:.1%}",
        f"{means['all']:.1%}",
        held,
        f"×{math.exp(means['width']):.1f}",
        f"{means['open']:.0%}",
        f"{means['listed']:.1f}",
        rate,
        power,
    ]
    print("| " + " | ".join(cells).replace("nan%", "–") + " |", flush=True)


def print_head() -> None:
    """Print the heads of the columns."""
    heads = (
        "",
        "tested",
        "intervals hold the ratio",
        "as written",
        "of the visible",
        "of all",
        "of the listed",
        "width",
        "open",
        "listed",
        "false discoveries",
        "found",
    )
    print("| " + " | ".join(heads) + " |\n" + "|---" * len(heads) + "|", flush=True)


def run_made_up(setting: Setting, options: argparse.Namespace) -> None:
    """Print the rows of a setting: n-grams, then words."""
    by_kind: Rows = ([], [])
    users = [int(options.users * part) for part in setting.users]
    for number in range(options.laws):
        law = Law(setting, options.users, options.size, options.first_seed + number)
        for pair in range(options.pairs):
            rng = np.random.default_rng([law.seed, 3, pair])
            measured = [
                Measured.draw(
                    week.counts(law.vocabulary),
                    law.vocabulary,
                    setting.epsilon * options.epsilon,
                    1000 * law.seed + 2 * pair + at,
                    setting.clip_norms[at],
                )
                for at, week in enumerate(law.weeks(rng, users))
            ]
            # Where clip norms differ, the truth is that of a norm between them.
            norms = [each.details["clip_norm_used"] for each in measured]
            truths = law.true_ratios(measured[0], math.sqrt(norms[0] * norms[1]))
            written = law.true_ratios(measured[0], 1e6)
            add_rows(by_kind, judge(measured, truths, law.law_ratios(), written))
    print_row(setting.name, by_kind[0])
    print_row(f"{setting.name}: words", by_kind[1])


# --- Real text ---

FIX = r"\b(fix|fixes|fixed|bug|bugs)\b"
DOCS = r"\b(docs?|documentation|typos?|readme|translat\w+|grammar)\b"
SERIES = r"\b(episodes?|series|season|tv|television)\b"
FRIGHT = r"\b(horror|scary|zombies?|gore|creepy|vampires?)\b"


def run_groups(
    name: str,
    vocabulary: Vocabulary,
    groups: dict[str, UserCounts],
    options: argparse.Namespace,
) -> None:
    """Print rows for all pairs of real groups: is the realised ratio of clipped counts covered?"""
    names = list(groups)
    for first, second in [(a, b) for at, a in enumerate(names) for b in names[at + 1 :]]:
        by_kind: Rows = ([], [])
        for seed in range(options.pairs):
            measured = [
                Measured.draw(groups[group], vocabulary, options.epsilon, 2 * seed + at, None)
                for at, group in enumerate((first, second))
            ]
            exact = [
                each.exact_counts(groups[group])
                for each, group in zip(measured, (first, second), strict=True)
            ]
            truths = [ratio(first, second) for first, second in zip(*exact, strict=True)]
            add_rows(by_kind, judge(measured, truths))
        print_row(f"{name}: {first} / {second}", by_kind[0])
        print_row(f"{name}: {first} / {second}: words", by_kind[1])


def count_groups(
    table: pa.Table, vocabulary: Vocabulary, group_of_row: Callable[[pa.Table], Any]
) -> dict[str, UserCounts]:
    """Count n-grams of each group of users."""
    table = table.set_column(
        table.schema.get_field_index("user"), "user", table["user"].cast(pa.string())
    )
    groups = np.asarray(group_of_row(table))
    return {
        str(name): bg.count(table.filter(pa.array(groups == name)), vocabulary)
        for name in sorted(set(groups.tolist()))
    }


def matches(table: pa.Table, pattern: str) -> Bools:
    """Return which texts match a pattern."""
    found: Bools = pc.match_substring_regex(
        pc.utf8_lower(table["text"]), pattern.replace(r"\b(", r"\b(?:")
    ).to_numpy(zero_copy_only=False)
    return found


def commit_groups(table: pa.Table) -> Any:
    """Name each author's group by the words in a third of their messages."""
    _, users = np.unique(table["user"].to_numpy(zero_copy_only=False), return_inverse=True)
    messages = np.bincount(users)
    fixes = (np.bincount(users, matches(table, FIX)) / messages)[users]
    docs = (np.bincount(users, matches(table, DOCS)) / messages)[users]
    return np.where(
        (fixes >= docs) & (fixes > 0.3), "fixers", np.where(docs > 0.3, "writers", "others")
    )


def review_groups(table: pa.Table) -> Any:
    """Name each review's group by what it is about."""
    return np.where(
        matches(table, FRIGHT), "horror", np.where(matches(table, SERIES), "series", "films")
    )


def bigrams(public: str, size: int) -> Vocabulary:
    """Return the most frequent bigrams of public text."""
    return bg.Vocabulary.from_public(pq.read_table(public).select(["text"]), order=2, size=size)


def run_reddit(folder: str, options: argparse.Namespace) -> None:
    """Print the rows of random halves of random posts: the true ratio is 1."""
    table = pq.read_table(f"{folder}/reddit/counts.parquet")
    vocabulary = Vocabulary.load(f"{folder}/wikipedia/vocabulary.parquet")
    users, ngrams, counts = (table[name].to_numpy() for name in ("user", "ngram", "count"))
    by_kind: Rows = ([], [])
    for seed in range(options.pairs):
        rng = np.random.default_rng(seed)
        half_of_user = rng.permutation(int(users.max()) + 1) % max(
            2, int(users.max()) // options.reddit_users
        )
        halves = []
        for half in range(2):
            mask = half_of_user[users] == half
            _, own = np.unique(users[mask], return_inverse=True)
            names = pa.array(
                [b"%d" % user for user in range(int(own.max()) + 1)], pa.large_binary()
            )
            halves.append(
                build_user_counts(
                    names,
                    own.astype(np.int32),
                    ngrams[mask].astype(np.int32),
                    counts[mask].astype(np.int32),
                    vocabulary_size=len(vocabulary),
                    vocabulary_fingerprint=vocabulary.fingerprint,
                )
            )
        measured = [
            Measured.draw(half, vocabulary, options.epsilon, 2 * seed + at, None)
            for at, half in enumerate(halves)
        ]
        word_count = measured[0].word_count
        add_rows(by_kind, judge(measured, [np.ones(len(vocabulary)), np.ones(word_count)]))
    print_row(f"Reddit, halves of {options.reddit_users:,}", by_kind[0])
    print_row(f"Reddit, halves of {options.reddit_users:,}: words", by_kind[1])


def chosen_settings(only: str) -> Iterator[Setting]:
    """Yield the settings whose name matches."""
    for setting in SETTINGS:
        if re.search(only, setting.name):
            yield setting


def main() -> None:
    """Print a row for every kind of pair."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--laws", type=int, default=5)
    parser.add_argument("--pairs", type=int, default=8, help="of each law, or of real groups")
    parser.add_argument("--users", type=int, default=20_000)
    parser.add_argument("--size", type=int, default=3_000)
    parser.add_argument("--epsilon", type=float, default=1.0)
    parser.add_argument("--first-seed", type=int, default=1000)
    parser.add_argument("--only", default="", help="a pattern of the settings' names")
    parser.add_argument("--reddit", help="a folder with reddit/counts.parquet and wikipedia/")
    parser.add_argument("--reddit-users", type=int, default=200_000, help="of each half")
    parser.add_argument("--commits", help="messages: user, text")
    parser.add_argument("--reviews", help="reviews: text")
    parser.add_argument("--public", help="public text for bigrams")
    parser.add_argument("--bigrams", type=int, default=20_000)
    options = parser.parse_args()
    print_head()
    if options.reddit:
        run_reddit(options.reddit, options)
    if options.commits:
        vocabulary = bigrams(options.public, options.bigrams)
        groups = count_groups(pq.read_table(options.commits), vocabulary, commit_groups)
        run_groups("commits", vocabulary, groups, options)
    if options.reviews:
        vocabulary = bigrams(options.public, options.bigrams)
        reviews = pq.read_table(options.reviews).select(["text"])
        reviews = reviews.append_column("user", pa.array(np.arange(reviews.num_rows)))
        run_groups("reviews", vocabulary, count_groups(reviews, vocabulary, review_groups), options)
    if not (options.reddit or options.commits or options.reviews):
        for setting in chosen_settings(options.only):
            run_made_up(setting, options)


if __name__ == "__main__":
    main()
