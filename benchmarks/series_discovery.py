"""Discoveries of a series, whose weights add up, beside discoveries that each stand alone.

In:  nothing; people and public text are made up.
Out: how many n-grams are found by weeks 4, 12, 26 and 52, for the same total budget; and which part
of what one discovery on the text of each quarter finds is found by the series, and how many weeks
earlier.

    python benchmarks/series_discovery.py --users 100000 --runs 3
    python benchmarks/series_discovery.py --gains 0 0.25 0.5 1

People write in a share of the weeks that is their own. They write phrases that no public list has,
half of them new words and half pairs of public words, by Zipf's law. Half of what a person writes
is taken from a few favourites. Frequencies drift slowly, and a fifth of the phrases rise and fall
in some weeks of the year. Some people also have a secret, which nobody else writes; it must never
come out.

- *series*: one run every week (`running_discovery.add_run`).
- *weekly*: one discovery of ten rounds every week, with 1/52 of the budget: the union so far.
- *quarterly*: one discovery of ten rounds on the text of 13 weeks, with 1/4 of the budget.

All have the same Gaussian budget in total (a share of that of ε = 1, δ = 1e-7) and the same total
failure probability.
"""

import argparse
import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from time import perf_counter

import numpy as np
import pyarrow as pa

from bayesgram.arrays import Floats, Integers
from bayesgram.inference import discovery_weights
from bayesgram.io import read_records
from bayesgram.mechanisms.discovery import DEFAULT_ROUNDS, DiscoveryMechanism, Settings
from bayesgram.mechanisms.running_discovery import add_run
from bayesgram.mechanisms.series import DEFAULT_COORDINATES, SeriesSettings
from bayesgram.privacy.accounting import Allowance
from bayesgram.privacy.budget import Budget
from bayesgram.privacy.constants import MAX_CANDIDATES
from bayesgram.privacy.noise import SeededNoise
from bayesgram.privacy.pacing import pace
from bayesgram.private.allowances import (
    FULL_RELEASE,
    SHARE_STEPS,
    Allowances,
    norm_limits,
    query_costs,
)
from bayesgram.private.candidates import CandidateLists, list_candidates_with_users
from bayesgram.private.running_candidates import RunningCandidates
from bayesgram.public.candidate_weights import PublicTextModel
from bayesgram.public.vocabulary import Vocabulary
from bayesgram.text.tokenizer import Tokenizer

WEEKS = 52
QUARTER = 13
SHOWN_WEEKS = (4, 12, 26, 52)
BUDGET = Budget(1.0, 1e-7)
MEMORY = 4 << 30
PUBLIC_WORDS = 3_000
FAVOURITES = 10  # phrases of a person
WEEKLY_DRIFT = 0.06  # standard deviation of the change of a log-frequency in a week
SECRETS = 1_000  # people who have one


def make_words(rng: np.random.Generator, count: int) -> list[str]:
    """Return distinct words of two to four syllables."""
    consonants = list("bcdfghjklmnprstvwz")
    vowels = list("aeiou")
    words: set[str] = set()
    while len(words) < count:
        syllables = rng.choice(consonants, 4), rng.choice(vowels, 4)
        words.add("".join(map("".join, zip(*syllables, strict=True)))[: 2 * rng.integers(2, 5)])
    return sorted(words)


class World:
    """Made-up people, their phrases, and public text that has none of them."""

    def __init__(self, users: int, phrases: int, amount: float, seed: int) -> None:
        self.rng = rng = np.random.default_rng(seed)
        words = make_words(rng, PUBLIC_WORDS + phrases // 2)
        rng.shuffle(words)
        public, new_words = words[:PUBLIC_WORDS], words[PUBLIC_WORDS:]
        counts = np.maximum(10**7 / np.arange(3, 3 + PUBLIC_WORDS), 1).astype(np.int64)
        firsts, seconds = rng.integers(0, PUBLIC_WORDS, (2, phrases))
        pairs = [f"{public[a]} {public[b]}" for a, b in zip(firsts, seconds, strict=True)]
        distinct = list(dict.fromkeys(pairs))
        listed = distinct[phrases // 2 : phrases // 2 + 200]
        self.vocabulary = Vocabulary(
            pa.array([*public, *listed], pa.large_string()),
            np.append(counts, np.full(len(listed), 50)),
            2,
            Tokenizer(),
        )
        texts = [*distinct[: phrases // 2], *new_words]
        rng.shuffle(texts)
        self.secrets = {f"secret{number:04}" for number in range(SECRETS)}
        self.texts = pa.array([*texts, *sorted(self.secrets)], pa.string())
        self.size = len(texts)
        self.users = users
        self.logs = -np.log(np.arange(1, self.size + 1) + 2.7)
        self.drift = rng.normal(0, 0.3, self.size)
        self.is_seasonal = rng.random(self.size) < 0.2
        self.peak = rng.uniform(-5, WEEKS + 5, self.size)
        self.width = rng.uniform(2, 6, self.size)
        self.rise = rng.uniform(1.5, 4, self.size)
        self.activity = rng.beta(0.4, 1.6, users)
        self.typical = rng.lognormal(math.log(amount), 0.8, users)
        start = np.exp(self.logs)
        self.favourites = self._draw(start, users * FAVOURITES).reshape(users, FAVOURITES)

    def _draw(self, rates: Floats, count: int) -> Integers:
        cumulative = np.cumsum(rates)
        return np.searchsorted(cumulative, self.rng.random(count) * cumulative[-1])

    def write_week(self, week: int) -> pa.Table:
        """Return the rows of a week: a user and a phrase."""
        rng = self.rng
        self.drift += rng.normal(0, WEEKLY_DRIFT, self.size)
        season = self.rise * np.exp(-(((week - self.peak) / self.width) ** 2) / 2)
        rates = np.exp(self.logs + self.drift + np.where(self.is_seasonal, season - 1.5, 0.0))
        active = rng.random(self.users) < self.activity
        amounts = np.where(
            active, np.ceil(self.typical * rng.lognormal(0, 0.5, self.users)), 0
        ).astype(np.int64)
        users = np.repeat(np.arange(self.users), amounts)
        phrases = self._draw(rates, users.size)
        favourite = self.favourites[users, rng.integers(0, FAVOURITES, users.size)]
        phrases = np.where(rng.random(users.size) < 0.5, favourite, phrases)
        owners = np.flatnonzero(active[:SECRETS])
        users = np.concatenate([users, owners])
        phrases = np.concatenate([phrases, self.size + owners])
        return pa.table({"user": users, "text": self.texts.take(pa.array(phrases))})


@contextmanager
def list_text(
    table: pa.Table, public: PublicTextModel, orders: Sequence[int]
) -> Iterator[tuple[CandidateLists, pa.LargeBinaryArray]]:
    """Yield users' lists of candidates, and the users."""
    records = read_records(table, user_column="user", text_column="text")
    with list_candidates_with_users(
        records, public, orders, MAX_CANDIDATES, memory=MEMORY
    ) as listed:
        yield listed


class ListedText:
    """Text whose candidates are listed already."""

    def __init__(self, lists: CandidateLists) -> None:
        self._lists = lists

    @contextmanager
    def lists(self, *_: object) -> Iterator[CandidateLists]:
        """Yield the lists."""
        yield self._lists


def make_mechanism(settings: Settings, share: float, parts: int) -> DiscoveryMechanism:
    """Return a discovery of one part of as many, which together take a share of the budget."""
    limit = Allowance.of_budget(BUDGET, failures=True)
    part = Allowance(limit.mu_squared * share / parts, limit.total_variation, limit.failure / parts)
    return DiscoveryMechanism(settings, BUDGET, settings.calibrate(BUDGET, part))


def discover_alone(
    mechanism: DiscoveryMechanism, lists: CandidateLists, public: PublicTextModel, seed: int
) -> set[str]:
    """Return what one discovery finds."""
    ngrams, _ = mechanism.measure(
        ListedText(lists),  # type: ignore[arg-type]
        public,
        SeededNoise(seed),
        lambda: None,
    )
    return set(ngrams.to_pylist())


class SeriesOfDiscoveries:
    """What `discover --series` does week after week, without files."""

    def __init__(self, share: float, full: int, seed: int) -> None:
        self.settings = SeriesSettings(
            BUDGET.epsilon,
            BUDGET.delta,
            WEEKS,
            full,
            DEFAULT_COORDINATES // 10,
            discovery_share=share,
        )
        self.threshold = self.settings.running_threshold()
        self.candidates = RunningCandidates(bytes(32))
        self.allowances = Allowances(bytes(32))
        self.noise = SeededNoise(seed)

    def add(self, week: int, lists: CandidateLists, users: pa.LargeBinaryArray) -> None:
        """Make the discovery of a week."""
        allowances, places = self.allowances.with_users([users])
        allowed = pace(
            allowances.used[places],
            allowances.active[places],
            number=week,
            releases=WEEKS,
            full_releases=self.settings.full_releases,
        )
        self.candidates, squares = add_run(
            self.candidates,
            lists,
            norm_limits(allowed, SHARE_STEPS),
            week,
            self.threshold,
            self.noise,
        )
        costs = query_costs(squares, SHARE_STEPS)
        contributed = costs > 0
        self.allowances = allowances.charge(places[contributed], costs[contributed])
        if self.allowances.used.max() > self.settings.full_releases * FULL_RELEASE:
            raise AssertionError("a user has used more than the allowance")

    @property
    def found(self) -> dict[str, int]:
        """What was found, and in which week."""
        found = self.candidates.found
        return dict(zip(found.ngrams.to_pylist(), found.found_in.tolist(), strict=True))


@dataclass
class Outcome:
    """What one run of the year found.

    Attributes:
        series: By name, the week in which each n-gram was found.
        weekly: The same of weekly discoveries.
        quarterly: What the discovery of each quarter found.
        secrets: How many secrets came out, anywhere.
        candidates: How many candidates the series has at the end.
        seconds: What the runs of the first series took, without reading text.
    """

    series: dict[str, dict[str, int]]
    weekly: dict[str, int]
    quarterly: list[set[str]]
    secrets: int
    candidates: int
    seconds: float


def run_year(
    world: World,
    names: dict[str, Callable[[], SeriesOfDiscoveries]],
    share: float,
    seed: int,
    *,
    alone: bool,
) -> Outcome:
    """Make all discoveries of a year on the same text.

    Args:
        world: The people.
        names: The series to compare, by name; each is made by a call.
        share: The share of the budget that weekly and quarterly discoveries take.
        seed: Of the noise.
        alone: Whether weekly and quarterly discoveries are made, too.
    """
    settings = Settings.for_vocabulary(world.vocabulary, rounds=DEFAULT_ROUNDS)
    public = PublicTextModel.from_vocabulary(world.vocabulary)
    every_week = make_mechanism(settings, share, WEEKS)
    every_quarter = make_mechanism(settings, share, WEEKS // QUARTER)
    series = {name: make() for name, make in names.items()}
    weekly: dict[str, int] = {}
    quarterly = []
    tables = []
    seconds = 0.0
    for week in range(1, WEEKS + 1):
        tables.append(world.write_week(week))
        with list_text(tables[-1], public, settings.orders) as (lists, users):
            for number, one in enumerate(series.values()):
                start = perf_counter()
                one.add(week, lists, users)
                seconds += 0.0 if number else perf_counter() - start
            if alone:
                found = discover_alone(every_week, lists, public, 1000 * seed + week)
                weekly = dict.fromkeys(found, week) | weekly
        if alone and week % QUARTER == 0:
            text = pa.concat_tables(tables[-QUARTER:])
            with list_text(text, public, settings.orders) as (lists, _):
                quarterly.append(discover_alone(every_quarter, lists, public, 2000 * seed + week))
    found_by = {name: one.found for name, one in series.items()}
    everything = [*found_by.values(), weekly, *quarterly]
    secrets = sum(len(world.secrets & set(found)) for found in everything)
    candidates = len(next(iter(series.values())).candidates)
    return Outcome(found_by, weekly, quarterly, secrets, candidates, seconds)


def count_by(found: dict[str, int]) -> list[int]:
    """Return how many were found by each of the weeks that are shown."""
    return [sum(week <= shown for week in found.values()) for shown in SHOWN_WEEKS]


def print_rows(title: str, rows: Sequence[Sequence[int]]) -> None:
    """Print the mean and the range over runs, for each week."""
    cells = [f"{np.mean(column):7.0f} ({min(column)}–{max(column)})" for column in zip(*rows)]  # noqa: B905
    print(f"{title:24}" + "".join(f"{cell:>24}" for cell in cells), flush=True)


def print_quarters(series: dict[str, int], outcome: Outcome) -> None:
    """Print, for each quarter, what the series finds of what its discovery finds, and when."""
    for number, found in enumerate(outcome.quarterly, 1):
        end = QUARTER * number
        weeks = np.array([series[ngram] for ngram in found if ngram in series])
        in_time = weeks[weeks <= end]
        new = set(found).difference(*outcome.quarterly[: number - 1])
        ahead = np.array([end - series[ngram] for ngram in new & set(series)])
        ahead = ahead[ahead >= 0]
        earlier = f"{ahead.mean():.1f} weeks earlier" if ahead.size else "none earlier"
        print(
            f"  quarter {number}: finds {len(found)}, {len(new)} of them for the first time; the"
            f" series has {in_time.size / len(found):.0%} of it by then and"
            f" {weeks.size / len(found):.0%} by week {WEEKS}; of those found for the first time"
            f" it has {ahead.size / max(len(new), 1):.0%} by then, {earlier}; it has"
            f" {sum(week <= end for week in series.values())} in all",
            flush=True,
        )


def main() -> None:
    """Run what was asked for."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--users", type=int, default=100_000)
    parser.add_argument("--phrases", type=int, default=40_000)
    parser.add_argument("--amount", type=float, default=6.0, help="phrases in a week, median")
    parser.add_argument("--share", type=float, default=0.99, help="of the budget")
    parser.add_argument("--full", type=int, nargs="+", default=[8], help="k")
    parser.add_argument("--gains", type=float, nargs="+", help="values of EVIDENCE_GAIN")
    parser.add_argument("--runs", type=int, default=1)
    options = parser.parse_args()
    usual = discovery_weights.EVIDENCE_GAIN
    gains = options.gains or [usual]
    outcomes = []
    for seed in range(1, options.runs + 1):
        world = World(options.users, options.phrases, options.amount, seed)
        names = {
            f"series, k = {full}" + (f", gain {gain:g}" if options.gains else ""): (full, gain)
            for full in options.full
            for gain in gains
        }
        makers = {
            name: lambda full=full, gain=gain: _WithGain(options.share, full, seed, gain)  # noqa: B023
            for name, (full, gain) in names.items()
        }
        outcomes.append(run_year(world, makers, options.share, seed, alone=not options.gains))
        outcome = outcomes[-1]
        print(
            f"run {seed}: {outcome.candidates:,} candidates, {outcome.secrets} secrets found,"
            f" {outcome.seconds:.0f} s of the first series",
            flush=True,
        )
    print(f"{'found by week':24}" + "".join(f"{week:>24}" for week in SHOWN_WEEKS))
    for name in outcomes[0].series:
        print_rows(name, [count_by(outcome.series[name]) for outcome in outcomes])
    if not options.gains:
        print_rows("weekly", [count_by(outcome.weekly) for outcome in outcomes])
        for name in outcomes[0].series:
            for outcome in outcomes:
                both = set(outcome.weekly) & set(outcome.series[name])
                print(f"{name}: has {len(both)} of the {len(outcome.weekly)} of weekly discoveries")
                print_quarters(outcome.series[name], outcome)


class _WithGain(SeriesOfDiscoveries):
    """A series with another EVIDENCE_GAIN."""

    def __init__(self, share: float, full: int, seed: int, gain: float) -> None:
        super().__init__(share, full, seed)
        self._gain = gain

    def add(self, week: int, lists: CandidateLists, users: pa.LargeBinaryArray) -> None:
        """Make the discovery of a week."""
        before = discovery_weights.EVIDENCE_GAIN
        discovery_weights.EVIDENCE_GAIN = self._gain
        try:
            super().add(week, lists, users)
        finally:
            discovery_weights.EVIDENCE_GAIN = before


if __name__ == "__main__":
    main()
