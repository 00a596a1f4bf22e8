"""A year in one budget: a series with allowances beside releases that each pay for everybody.

In:  public text with n-grams and counts (a vocabulary).
Out: for several populations, by week: the KL of a release of a series over that of a release with
the noise of 52 releases in the same budget, the share of the text that allowances leave out as it
is and as it is measured, and what two deviations cover.

    python benchmarks/series.py vocab.parquet --users 50000 --weeks 1 4 12 28 44 52
    python benchmarks/series.py --pacing

People are made up: each week some of them write, with amounts that differ between people and weeks.
What people write differs from public text by a log-normal factor for each n-gram, and people who
write much differ from the others by one more. In the weeks that are not named, noise is drawn and
allowances are charged, but nothing is inferred.

`--pacing` compares rules of pacing by amounts alone, which takes seconds.
"""

import argparse
import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa

from bayesgram.mechanisms.base import Randomness
from bayesgram.mechanisms.posterior import Posterior
from bayesgram.mechanisms.series import SeriesSettings
from bayesgram.privacy.budget import Budget
from bayesgram.privacy.noise import SeededNoise
from bayesgram.private import allowances
from bayesgram.private.allowances import FULL_RELEASE, AllowedCounts, pace
from bayesgram.private.counts import UserCounts, build_user_counts
from bayesgram.public.vocabulary import Vocabulary

WEEKS = 52
EPSILON = 1.0
DELTA = 1e-7
BUDGET = Budget(EPSILON, DELTA)
DIFFERENCE_STD = 0.7  # of the logarithm of an n-gram's frequency, over public text
HEAVY_STD = 0.5  # of the same, between people who write much and the others


class Population:
    """Made-up people: whether they write in a week, and how many n-grams.

    Attributes:
        name: What it is called in the tables.
        users: How many people there are.
        amount: How many n-grams a person writes in a week, in the median.
    """

    def __init__(self, name: str, users: int, seed: int, amount: float = 4.5) -> None:
        self.name = name
        self.users = users
        self.rng = np.random.default_rng(seed)
        rng = self.rng
        self.typical = rng.lognormal(math.log(amount), 1.0, users)
        if name == "always":
            self.activity = np.ones(users)
        elif name == "a month":
            self.activity = np.full(users, 4 / WEEKS)
        elif name == "irregular":
            self.activity = rng.beta(0.4, 1.6, users)
        elif name == "few write most":
            self.activity = np.clip(0.05 * rng.pareto(1.2, users), 0, 1)
            self.typical *= 1 + 8 * self.activity
        else:  # people who come and go
            start = rng.integers(-10, WEEKS, users)
            self.begin, self.end = start, start + rng.geometric(0.1, users)
            self.activity = np.full(users, 0.8)

    def week(self, number: int) -> np.ndarray:
        """Return how many n-grams each person writes in a week."""
        active = self.rng.random(self.users) < self.activity
        if self.name == "come and go":
            active &= (number >= self.begin) & (number < self.end)
        amounts = self.typical * self.rng.lognormal(0, 0.7, self.users)
        return np.where(active, np.ceil(amounts), 0).astype(np.int64)

    @property
    def heavy(self) -> np.ndarray:
        """Who writes much: a fifth of the people."""
        yearly = self.typical * self.activity
        return yearly > np.quantile(yearly, 0.8)


NAMES = ("always", "a month", "irregular", "few write most", "come and go")


def write_text(
    population: Population, amounts: np.ndarray, thetas: tuple[np.ndarray, np.ndarray]
) -> tuple[UserCounts, np.ndarray]:
    """Return the counts of a week, and how often each n-gram was written."""
    rng = population.rng
    size = thetas[0].size
    users = np.repeat(np.arange(population.users, dtype=np.int32), amounts)
    heavy = population.heavy[users]
    ngrams = np.empty(users.size, np.int32)
    for who, theta in ((~heavy, thetas[0]), (heavy, thetas[1])):
        ngrams[who] = np.searchsorted(np.cumsum(theta), rng.random(int(who.sum()))).clip(
            0, size - 1
        )
    active = np.flatnonzero(amounts)
    places = np.zeros(population.users, np.int32)
    places[active] = np.arange(active.size)
    ids = pa.array([str(user).encode() for user in active], pa.large_binary())
    ones = np.ones(users.size, np.int32)
    counts = build_user_counts(
        ids, places[users], ngrams, ones, vocabulary_size=size, vocabulary_fingerprint=None
    )
    return counts, np.bincount(ngrams, minlength=size)


def kl(truth: np.ndarray, theta: np.ndarray) -> float:
    """Return KL(truth ‖ theta)."""
    p = truth / truth.sum()
    kept = p > 0
    return float((p[kept] * np.log(p[kept] / theta[kept])).sum())


def run(
    vocabulary: Vocabulary,
    name: str,
    users: int,
    full: int,
    weeks: list[int],
    seed: int,
    amount: float,
) -> list[dict[str, float]]:
    """Return a row for each week that is named."""
    rng = np.random.default_rng(seed)
    public = vocabulary.counts / vocabulary.counts.sum()
    light = public * np.exp(rng.normal(0, DIFFERENCE_STD, public.size))
    heavy = light * np.exp(rng.normal(0, HEAVY_STD, public.size))
    thetas = (light / light.sum(), heavy / heavy.sum())
    population = Population(name, users, seed, amount)
    settings = SeriesSettings(EPSILON, DELTA, WEEKS, full, 10**7)
    in_series = settings.release_noise(10**5)
    alone = replace(in_series, multiplier=settings.noise.multiplier * math.sqrt(WEEKS))
    used = np.zeros(users, np.int64)
    active = np.zeros(users, np.int32)
    rows = []
    for week in range(1, WEEKS + 1):
        amounts = population.week(week)
        who = np.flatnonzero(amounts)
        counts, truth = write_text(population, amounts, thetas)
        allowed = pace(used[who], active[who], number=week, releases=WEEKS, full_releases=full)
        metered = AllowedCounts(counts, allowed.copy())
        seeded = Randomness(SeededNoise(seed * 1000 + week), 1)
        posterior = Posterior(series_noise=in_series)
        if week in weeks:
            outcome = posterior.estimate(metered, vocabulary, BUDGET, seeded)
        else:
            posterior.measure(metered, vocabulary, BUDGET, seeded)
        used[who] += allowed - metered.left
        active[who] += 1
        if week not in weeks:
            continue
        plain = Posterior(series_noise=alone).estimate(
            AllowedCounts(counts, np.full(who.size, FULL_RELEASE)), vocabulary, BUDGET, seeded
        )
        share = truth / truth.sum()
        top = np.argsort(-outcome.theta)[:200]
        covered = np.abs(outcome.theta - share)[top] <= 2 * outcome.std[top]
        withheld = outcome.details["by_order"][str(vocabulary.order)]["withheld"]
        rows.append(
            {
                "week": week,
                "kl": kl(truth, outcome.theta),
                "ratio": kl(truth, outcome.theta) / kl(truth, plain.theta),
                "plain": kl(truth, plain.theta),
                "public": kl(truth, public),
                "withheld": withheld["share"],
                "std": withheld["std"],
                "covered": float(covered.mean()),
                "used": float(used.max() / FULL_RELEASE),
            }
        )
    return rows


def compare_pacing() -> None:
    """Print the noise over what is kept, for rules of pacing and populations: mean and worst week."""
    users = 20_000
    print("population      k  no pacing      (0.1, 0.5)     (0.1, 1)       (0.5, 1)")
    for name in NAMES:
        weeks = [Population(name, users, 1)]
        amounts = np.array([weeks[0].week(week) for week in range(WEEKS)])
        norms = np.minimum(np.sqrt(amounts) / 4, 1.0)
        for full in (4, 8, 16):
            cells = []
            for prior in (None, (0.1, 0.5), (0.1, 1.0), (0.5, 1.0)):
                used = np.zeros(users, np.int64)
                active = np.zeros(users, np.int32)
                kept = []
                for week in range(WEEKS):
                    if prior is None:
                        allowed = np.clip(full * FULL_RELEASE - used, 0, FULL_RELEASE)
                    else:
                        allowances.PRIOR_ACTIVITY, allowances.PRIOR_RELEASES = prior
                        allowed = pace(
                            used, active, number=week + 1, releases=WEEKS, full_releases=full
                        )
                    part = np.minimum(norms[week], np.sqrt(allowed / FULL_RELEASE))
                    kept.append(part.sum() / max(norms[week].sum(), 1e-9))
                    used += (part**2 * FULL_RELEASE).astype(np.int64)
                    active += norms[week] > 0
                noise = math.sqrt(full / WEEKS) / np.maximum(kept, 1e-3)
                cells.append(f"{np.exp(np.log(noise).mean()):.2f} / {noise.max():.2f}")
            print(f"{name:14} {full:3}  " + "  ".join(f"{cell:13}" for cell in cells))


def main() -> None:
    """Run what was asked for."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("vocabulary", nargs="?", type=Path)
    parser.add_argument("--pacing", action="store_true")
    parser.add_argument("--users", type=int, default=50_000)
    parser.add_argument("--amount", type=float, default=4.5)
    parser.add_argument("--full", type=int, nargs="+", default=[8])
    parser.add_argument("--weeks", type=int, nargs="+", default=[1, 4, 12, 28, 44, 52])
    parser.add_argument("--people", nargs="+", choices=NAMES, default=NAMES)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    if options.pacing:
        compare_pacing()
        return
    vocabulary = Vocabulary.load(options.vocabulary)
    for name in options.people:
        for full in options.full:
            print(f"{name}, k = {full}, {options.users:,} people")
            for row in run(
                vocabulary, name, options.users, full, options.weeks, options.seed, options.amount
            ):
                print(
                    "  " + "  ".join(f"{key} {value:.3g}" for key, value in row.items()), flush=True
                )


if __name__ == "__main__":
    main()
