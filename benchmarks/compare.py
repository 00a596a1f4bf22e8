"""Does `compare` keep its false discovery rate, and what does it find?

    python benchmarks/compare.py [--pairs 200] [--users 20000] [--size 3000] [--epsilon 1] [--fdr 0.1] [--jobs 2]

Makes up pairs of weeks: people whose words follow Zipf's law, who write log-normal amounts and
repeat themselves (every other n-gram is one that they have written before), the same people in both
weeks or other ones. Each week is measured by `posterior` at ε, and compared. In some pairs nothing
changes; in others some n-grams rise or fall by a factor. Prints the mean false discovery proportion
with its standard error, in how many pairs there is any discovery although nothing changed, the
power by how frequent an n-gram is, and how often a phrase that triples is found.
"""

import argparse
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa

from bayesgram.arrays import Bools, Floats, Ids
from bayesgram.comparison.statistics import (
    PooledRates,
    ReleaseCounts,
    false_discovery_rates,
    fit_rates,
)
from bayesgram.kernels import kernel
from bayesgram.mechanisms.base import Randomness
from bayesgram.mechanisms.posterior import Posterior
from bayesgram.privacy.budget import Budget
from bayesgram.private.counts import UserCounts, build_user_counts
from bayesgram.public.vocabulary import Vocabulary
from bayesgram.text.tokenizer import Tokenizer

DELTA = 1e-7
REPEATS = 0.5  # of what somebody writes is what they have written before
MEDIAN, SPREAD = 8.0, 1.2  # n-grams a user and week, log-normal
MOST = 2000
CHANGED = 0.03  # of the n-grams, where some change
FACTORS = (1.3, 1.6, 2.0, 3.0)  # by which they rise or fall
BANDS = (1e-5, 1e-4, 3e-4, 1e-3, 1e-2, 1.0)  # of shares, for power


@kernel
def written(
    draws: Ids, ends: Ids, repeats: Floats, which: Floats, before: Ids, before_ends: Ids
) -> Ids:
    """What people write.

    Now and then one of their earlier n-grams, of this week or of the one before.
    """
    out = draws.copy()
    for user in range(ends.size - 1):
        old = before_ends[user + 1] - before_ends[user]
        for at in range(ends[user], ends[user + 1]):
            earlier = at - ends[user] + old
            if earlier and repeats[at] < REPEATS:
                place = int(which[at] * earlier)
                out[at] = (
                    before[before_ends[user] + place]
                    if place < old
                    else out[ends[user] + place - old]
                )
    return out


@dataclass(frozen=True, eq=False)
class Week:
    """What everybody wrote, one user after the other."""

    ngrams: Ids
    ends: Ids

    @classmethod
    def of(
        cls, shares: Floats, users: int, rng: np.random.Generator, before: "Week | None" = None
    ) -> "Week":
        """A week of these people, who remember what they wrote the week before."""
        norm_histogram_sum = np.clip(
            MEDIAN * np.exp(SPREAD * rng.standard_normal(users)), 1, MOST
        ).astype(np.int32)
        ends = np.concatenate([[0], np.cumsum(norm_histogram_sum)]).astype(np.int32)
        draws = rng.choice(shares.size, int(ends[-1]), p=shares).astype(np.int32)
        last = before or cls(np.zeros(0, np.int32), np.zeros(users + 1, np.int32))
        chances = rng.random((2, draws.size))
        return cls(written(draws, ends, chances[0], chances[1], last.ngrams, last.ends), ends)

    def counts(self, vocabulary: Vocabulary) -> UserCounts:
        """As the mechanism takes them."""
        users = np.repeat(np.arange(self.ends.size - 1, dtype=np.int32), np.diff(self.ends))
        names = pa.array([b"%d" % user for user in range(self.ends.size - 1)], pa.large_binary())
        bounds = {
            "vocabulary_size": len(vocabulary),
            "vocabulary_fingerprint": vocabulary.fingerprint,
        }
        return build_user_counts(names, users, self.ngrams, np.ones(users.size, np.int32), **bounds)


def zipf_vocabulary(size: int, rng: np.random.Generator) -> tuple[Vocabulary, Floats]:
    """Public text, and what people really write: each n-gram e^N(0, 0.8²) times as often."""
    public = 1 / np.arange(1, size + 1)
    private = public * np.exp(0.8 * rng.standard_normal(size))
    ngrams = pa.array([f"a{at} b{at % 97}" for at in range(size)], pa.large_string())
    counts = np.round(1e6 * public / public.sum()).astype(np.int64)
    return Vocabulary(ngrams, counts, 2, Tokenizer()), private / private.sum()


def changed(shares: Floats, rng: np.random.Generator) -> tuple[Floats, Bools]:
    """Some n-grams rise or fall."""
    moved = rng.random(shares.size) < CHANGED
    factors = rng.choice(FACTORS, shares.size) ** rng.choice([-1, 1], shares.size)
    after = np.where(moved, shares * factors, shares)
    return after / after.sum(), moved


def with_share(shares: Floats, row: int, share: float) -> Floats:
    """One n-gram has this share, the others the rest."""
    found = shares / (shares.sum() - shares[row]) * (1 - share)
    found[row] = share
    return found


def measured(
    week: Week, vocabulary: Vocabulary, epsilon: float, seed: int, clip_norm: float | None = None
) -> ReleaseCounts:
    """A week through the door."""
    counts = week.counts(vocabulary)
    randomness = Randomness.from_seed(seed)
    (noisy,), details = Posterior(clip_norm).measure(
        counts, vocabulary, Budget(epsilon, DELTA), randomness
    )
    most = noisy.noise / details["noise_multiplier"]
    return ReleaseCounts(noisy.counts, noisy.noise, noisy.total, most, details["clip_norm_used"])


@dataclass(frozen=True)
class Setting:
    """A kind of pair."""

    name: str
    change: str = "none"  # "none", "some", or SHARE>SHARE of one phrase
    same_people: bool = True
    clip_norms: tuple[float | None, float | None] = (None, None)
    users: tuple[float, float] = (1.0, 1.0)  # of --users


SETTINGS = (
    Setting("nothing changes, same people"),
    Setting("nothing changes, other people", same_people=False),
    Setting("nothing changes, clip norms 2 and 8", clip_norms=(2.0, 8.0)),
    Setting("nothing changes, half the people", same_people=False, users=(1.0, 0.5)),
    Setting("3% change, same people", "some"),
    Setting("3% change, other people", "some", same_people=False),
    Setting("a phrase: 0.1% to 0.3%", "0.001>0.003"),
    Setting("a phrase: 0.03% to 0.1%", "0.0003>0.001"),
    Setting("a phrase: 0.03% to 0.09%", "0.0003>0.0009"),
)


def pair(
    setting: Setting, options: argparse.Namespace, seed: int
) -> tuple[PooledRates, Floats, Floats, Bools]:
    """Two weeks compared; the shares in both, and which n-grams really changed."""
    rng = np.random.default_rng(seed)
    vocabulary, before = zipf_vocabulary(options.size, rng)
    after, moved = before, np.zeros(before.size, bool)
    if setting.change == "some":
        after, moved = changed(before, rng)
    elif ">" in setting.change:
        row = int(rng.integers(options.size // 10, options.size))
        before, after = (
            with_share(before, row, float(share)) for share in setting.change.split(">")
        )
        moved[row] = True
    users = [int(options.users * part) for part in setting.users]
    first = Week.of(before, users[0], rng)
    second = Week.of(after, users[1], rng, first if setting.same_people else None)
    noisy = [
        measured(week, vocabulary, options.epsilon, 2 * seed + at, setting.clip_norms[at])
        for at, week in enumerate((first, second))
    ]
    return fit_rates(noisy), before, after, moved


def judged(setting: Setting, options: argparse.Namespace, seed: int) -> dict[str, Any]:
    """What was found in a pair."""
    found, before, after, moved = pair(setting, options, seed)
    q = np.ones(moved.size)
    q[found.tested_mask] = false_discovery_rates(found.p_values[found.tested_mask])
    discovered = q <= options.fdr
    bands = np.digitize(np.sqrt(before * after), BANDS)
    number, wrong = int(discovered.sum()), int((discovered & ~moved).sum())
    return {
        "discoveries": number,
        "wrong": wrong,
        "proportion": wrong / max(number, 1),
        "power": [(int((discovered & moved & (bands == band)).sum()), int((moved & (bands == band)).sum()))
                  for band in range(1, len(BANDS))],
        "sampling": found.sampling_factor,
        "drift": found.drift,
        "tested": int(found.tested_mask.sum()),
        "spread": float(np.std(found.z_between(0, 1)[found.tested_mask & ~moved])),
    }  # fmt: skip


def lines(setting: Setting, rows: list[dict[str, Any]]) -> Iterator[str]:
    """What is said of a kind of pair."""
    proportions = np.array([row["proportion"] for row in rows])
    error = proportions.std(ddof=1) / np.sqrt(proportions.size) if proportions.size > 1 else 0.0
    mean = {
        name: np.mean([row[name] for row in rows])
        for name in ("discoveries", "sampling", "drift", "tested", "spread")
    }
    yield (
        f"{setting.name}: false discovery proportion {proportions.mean():.3f} ± {error:.3f},"
        f" any wrong in {np.mean([row['wrong'] > 0 for row in rows]):.1%}, {mean['discoveries']:.2f} discoveries"
        f" of {mean['tested']:.0f} tested; κ {mean['sampling']:.2f}, τ {mean['drift']:.3f},"
        f" deviation of z {mean['spread']:.3f}"
    )
    power = np.sum([row["power"] for row in rows], axis=0)
    shown = [
        f"{low:g}–{high:g}: {right}/{number} ({right / number:.0%})"
        for low, high, (right, number) in zip(BANDS[:-1], BANDS[1:], power, strict=True)
        if number
    ]
    if shown:
        yield "    found, by share: " + ", ".join(shown)


def main() -> None:
    """Print what is found in every kind of pair."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--pairs", type=int, default=200)
    parser.add_argument("--users", type=int, default=20_000)
    parser.add_argument("--size", type=int, default=3_000)
    parser.add_argument("--epsilon", type=float, default=1.0)
    parser.add_argument("--fdr", type=float, default=0.1)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--only", default="", help="settings whose name has this in it")
    options = parser.parse_args()
    with ProcessPoolExecutor(options.jobs) as pool:
        for setting in SETTINGS:
            if options.only in setting.name:
                rows = list(pool.map(partial(judged, setting, options), range(options.pairs)))
                print("\n".join(lines(setting, rows)), flush=True)


if __name__ == "__main__":
    main()
