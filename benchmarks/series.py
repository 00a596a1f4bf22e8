"""A year in one budget: a chain of releases of a series beside a chain of separate releases.

Out: for four habits of writing, by week, KL(what people would write ‖ release) of the series, and
that over the KL of a chain at the same total (ε = 1 and δ = 1e-7 for 52 weeks, each with 1/52 of
1/σ²); the share of the text that allowances leave out; and how many of the first 200 n-grams two
deviations cover.

    python benchmarks/series.py year [--habits rare steady] [--full 4 8] [--runs 3] [--amount 4.5]
    python benchmarks/series.py commits MESSAGES VOCAB [--weeks 12] [--runs 3]
    python benchmarks/series.py pacing

`year`: people are made up (`chain.People`: 5,000 bigrams whose log-frequencies drift by 1% of their
variance a week). Both chains are made by `bayesgram.release` with `previous`, from the same counts,
and the series by a real series with a real ledger.

| habit | who writes in a week |
|---|---|
| rare | each person writes in 4 of 52 weeks |
| irregular | a fifth of the people: how often, and how much, is heavy-tailed |
| different | as irregular, and the most active fifth write differently |
| steady | everybody, and everybody alike |

`commits`: messages of real people are dealt into weeks at random. What people write in a week is the
reference. `pacing`: rules of pacing by amounts alone, which takes seconds.
"""

import argparse
import math
import tempfile
from collections.abc import Iterator
from pathlib import Path
from statistics import median

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from chain import WEEKS, YEAR, People, weekly_budget

from bayesgram import count
from bayesgram.audit.evaluation import kl_divergence
from bayesgram.mechanisms.posterior import Posterior
from bayesgram.mechanisms.publish import release
from bayesgram.mechanisms.series import Series
from bayesgram.planning.series_plan import plan_series
from bayesgram.privacy import pacing
from bayesgram.privacy.budget import Budget
from bayesgram.privacy.constants import FULL_RELEASE
from bayesgram.privacy.ledger import Ledger
from bayesgram.privacy.pacing import pace
from bayesgram.private.counts import UserCounts, build_user_counts
from bayesgram.public.vocabulary import Vocabulary
from bayesgram.releases.card_sections import WITHHELD_DETAIL, order_details
from bayesgram.releases.release import Release

SHOWN = (1, 4, 12, 26, 52)
RARE_WEEKS = 4
ACTIVE_SHARE = 0.2  # of the people, who are "active"
ACTIVE_STD = 0.5  # of log-frequencies of active people, against the others
TOP = 200
COMMITS_FULL = 4  # k for commits: with 12 weeks, half of the authors write in one of them
HABITS = ("rare", "irregular", "different", "steady")


# --- Made-up people ---


class Crowd:
    """People with a habit: who writes in a week, how many n-grams, and which.

    Attributes:
        users: How many people there are.
        people: What they write, which drifts.
    """

    def __init__(self, habit: str, users: int, seed: int, amount: float) -> None:
        self.habit = habit
        self.users = users
        self.people = People(seed)
        self.rng = np.random.default_rng(seed + 1_000_000)
        rng = self.rng
        if habit == "rare":
            order = rng.random((users, WEEKS)).argsort(axis=1)
            self.writes = order < RARE_WEEKS
            self.typical = np.full(users, amount)
        elif habit == "steady":
            self.writes = np.ones((users, WEEKS), np.bool_)
            self.typical = np.full(users, amount)
        else:
            self.activity = rng.beta(0.4, 1.6, users)  # a fifth, in the mean
            self.writes = rng.random((users, WEEKS)) < self.activity[:, None]
            self.typical = rng.lognormal(math.log(amount), 1.0, users)
        yearly = self.typical * self.writes.sum(axis=1)
        self.is_active = yearly > np.quantile(yearly, 1 - ACTIVE_SHARE)
        self.lift = rng.normal(0, ACTIVE_STD, len(self.people.vocabulary))

    @property
    def advised_full_releases(self) -> int:
        """The k that a plan advises for such people."""
        activity = float(self.writes.mean())
        sigma = float(np.std(np.log(self.typical)))
        unevenness = math.hypot(sigma, self.week_sigma)
        planned = plan_series(
            self.people.vocabulary,
            users=activity * self.users,
            ngrams_a_user=float(self.typical.mean()) * math.exp(self.week_sigma**2 / 2),
            unevenness=unevenness,
            activity=activity,
            epsilon=YEAR.epsilon,
            delta=YEAR.delta,
            releases=WEEKS,
        )
        return planned.full_releases

    @property
    def week_sigma(self) -> float:
        """The standard deviation of the logarithm of amounts from week to week."""
        return 1.0 if self.habit in {"rare", "steady"} else 0.7

    def amounts(self, week: int) -> np.ndarray:
        """Return how many n-grams each person writes in a week, from 1."""
        amounts = self.typical * self.rng.lognormal(0, self.week_sigma, self.users)
        return np.where(self.writes[:, week - 1], np.maximum(amounts, 1), 0).astype(np.int64)

    def week(self, week: int) -> tuple[UserCounts, np.ndarray]:
        """Return the counts of a week, and the distribution that they are drawn from."""
        if week > 1:
            self.people.drift()
        amounts = self.amounts(week)
        usual = self.people.truth
        thetas = [usual, usual]
        if self.habit == "different":
            active = usual * np.exp(self.lift)
            thetas[1] = active / active.sum()
        ngrams = np.empty(int(amounts.sum()), np.int32)
        writers = np.repeat(np.arange(self.users, dtype=np.int32), amounts)
        truth = np.zeros(usual.size)
        for group, theta in enumerate(thetas):
            places = np.flatnonzero(self.is_active[writers] == group)
            ngrams[places] = self.rng.choice(usual.size, places.size, p=theta)
            truth += theta * places.size / writers.size
        return make_counts(writers, ngrams, self.people.vocabulary), truth


def make_counts(writers: np.ndarray, ngrams: np.ndarray, vocabulary: Vocabulary) -> UserCounts:
    """Return the counts of those who have written something."""
    active, places = np.unique(writers, return_inverse=True)
    ids = pa.array([f"u{user}".encode() for user in active], pa.large_binary())
    return build_user_counts(
        ids,
        places.astype(np.int32),
        ngrams,
        np.ones(ngrams.size, np.int32),
        vocabulary_size=len(vocabulary),
        vocabulary_fingerprint=vocabulary.fingerprint,
    )


# --- Two chains ---


def make_chains(
    weeks: Iterator[UserCounts], vocabulary: Vocabulary, budget: Budget, full: int, total: int
) -> Iterator[tuple[Release, Release]]:
    """Yield the release of a series and the separate one, week by week, each with its chain."""
    in_series: Release | None = None
    separate: Release | None = None
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        ledger = Ledger.create(
            folder / "year.ledger", population="people", epsilon=YEAR.epsilon, delta=YEAR.delta
        )
        series = Series.create(
            folder / "weekly.series",
            ledger=ledger,
            epsilon=YEAR.epsilon,
            delta=YEAR.delta,
            releases=total,
            full_releases=full,
        )
        for week, counts in enumerate(weeks, 1):
            in_series = release(
                counts,
                vocabulary,
                Posterior(),
                series=series,
                output=folder / f"week-{week}",
                previous=in_series,
            )
            separate = release(
                counts, vocabulary, Posterior(), budget, seed=week, previous=separate
            )
            yield in_series, separate


def coverage(made: Release, reference: np.ndarray) -> float:
    """Return the share of the first n-grams, as released, that two deviations cover."""
    top = np.argsort(-made.probabilities)[:TOP]
    error = np.abs(made.probabilities - reference)[top]
    return float((error <= 2 * made.probability_std[top]).mean())


def compare_year(crowd: Crowd, full: int, last: int) -> list[dict[str, float]]:
    """Return a row for each week that is shown."""
    truths = []

    def weeks() -> Iterator[UserCounts]:
        for week in range(1, last + 1):
            counts, truth = crowd.week(week)
            truths.append(truth)
            yield counts

    rows = []
    vocabulary = crowd.people.vocabulary
    chains = make_chains(weeks(), vocabulary, weekly_budget(), full, WEEKS)
    for week, (in_series, separate) in enumerate(chains, 1):
        if week not in SHOWN and week != last:
            continue
        truth = truths[-1]
        ours, theirs = (
            float(kl_divergence(truth, made.probabilities)) for made in (in_series, separate)
        )
        details = order_details(in_series.card.details)
        rows.append(
            {
                "week": week,
                "kl": ours,
                "chain": theirs,
                "ratio": ours / theirs,
                "withheld": details[WITHHELD_DETAIL]["share"],
                "clip_norm": details["clip_norm_used"],
                "chain_clip_norm": order_details(separate.card.details)["clip_norm_used"],
                "covered": coverage(in_series, truth),
                "chain_covered": coverage(separate, truth),
            }
        )
        print("   ", "  ".join(f"{key} {value:.3g}" for key, value in rows[-1].items()), flush=True)
    return rows


# --- Real people ---


def compare_commits(messages: Path, vocab: Path, weeks: int, full: int, seed: int) -> None:
    """Print the same for messages of real people, dealt into weeks at random."""
    table = pq.read_table(messages, columns=["user", "text"])
    vocabulary = Vocabulary.load(vocab)
    week_of = np.random.default_rng(seed).integers(1, weeks + 1, len(table))
    references = []

    def parts() -> Iterator[UserCounts]:
        for week in range(1, weeks + 1):
            counts = count(table.filter(pa.array(week_of == week)), vocabulary)
            written = np.bincount(counts.ngrams, counts.counts, minlength=len(vocabulary) + 9)
            references.append(written[: len(vocabulary)])
            yield counts

    budget = weekly_budget(weeks)
    chains = make_chains(parts(), vocabulary, budget, full, weeks)
    for week, (in_series, separate) in enumerate(chains, 1):
        ratios = []
        for rows, _ in vocabulary.by_order:
            reference = references[-1][rows] / references[-1][rows].sum()
            kls = [
                float(kl_divergence(reference, made.probabilities[rows]))
                for made in (in_series, separate)
            ]
            ratios.append(f"{kls[0]:.4g} / {kls[1]:.4g} = {kls[0] / kls[1]:.3f}")
        print(f"  week {week}:", "   ".join(ratios), flush=True)


# --- Pacing, by amounts alone ---


def compare_pacing(users: int = 20_000) -> None:
    """Print the noise over the share of text that is kept, and how unevenly it is kept.

    Beside separate releases, and other priors of how often people write, there is one who knows in
    which releases everybody will write.
    """
    for habit in HABITS:
        crowd = Crowd(habit, users, 1, amount=20)
        amounts = np.array([crowd.amounts(week) for week in range(1, WEEKS + 1)])
        for clip_norm in (4, 6, 8, 12):
            print(f"{habit}, clip norm {clip_norm}: noise / kept in weeks {SHOWN}, unevenness")
            _print_pacing("separate", crowd, amounts, clip_norm, WEEKS)
            for full in (1, 2, 4, 8, 16):
                for prior in (0.1, 0.2, 0.3) if full == 4 else (0.1,):
                    pacing.PRIOR_ACTIVITY = prior
                    _print_pacing(f"k = {full}, {prior}", crowd, amounts, clip_norm, full)
                pacing.PRIOR_ACTIVITY = 0.1
                _print_pacing(f"k = {full}, known", crowd, amounts, clip_norm, full, known=True)


def _print_pacing(
    name: str,
    crowd: Crowd,
    amounts: np.ndarray,
    clip_norm: float,
    full: int,
    *,
    known: bool = False,
) -> None:
    norms = np.sqrt(amounts)
    used = np.zeros(crowd.users, np.int64)
    active = np.zeros(crowd.users, np.int32)
    expected_activity = pacing.expected_activity
    costs, uneven = [], []
    for week in range(WEEKS):
        if known:
            to_come = crowd.writes[:, week + 1 :].sum(axis=1) / max(WEEKS - week - 1, 1)
            pacing.expected_activity = lambda *_, to_come=to_come: to_come
        allowed = pace(used, active, number=week + 1, releases=WEEKS, full_releases=full)
        limit = clip_norm * np.sqrt(allowed / FULL_RELEASE)
        part = np.minimum(1.0, limit / np.maximum(norms[week], 1e-9))
        text = amounts[week] / amounts[week].sum()
        kept = float(text @ part)
        costs.append(clip_norm * math.sqrt(full / WEEKS) / max(kept, 1e-3))
        uneven.append(float(text @ part**2) / kept**2 - 1)
        used += ((norms[week] * part / clip_norm) ** 2 * FULL_RELEASE).astype(np.int64)
        active += norms[week] > 0
    pacing.expected_activity = expected_activity
    cells = "  ".join(f"{costs[week - 1]:.2f}" for week in SHOWN)
    print(f"  {name:14} {cells}   mean {np.mean(costs):.2f}  unevenness {np.mean(uneven):.2f}")


def main() -> None:
    """Run what was asked for."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("what", choices=("year", "commits", "pacing"))
    parser.add_argument("files", nargs="*", type=Path)
    parser.add_argument("--habits", nargs="+", choices=HABITS, default=HABITS)
    parser.add_argument("--users", type=int, default=100_000)
    parser.add_argument("--amount", type=float, default=20, help="in a week, in the median")
    parser.add_argument("--weeks", type=int)
    parser.add_argument("--full", type=int, nargs="+", help="k; as `plan --series` advises")
    parser.add_argument("--runs", type=int, default=1)
    options = parser.parse_args()
    if options.what == "pacing":
        compare_pacing()
        return
    for full in options.full or [None]:
        if options.what == "commits":
            for seed in range(1, options.runs + 1):
                print(f"commits, k = {full}, run {seed}")
                compare_commits(*options.files, options.weeks or 12, full or COMMITS_FULL, seed)
            continue
        for habit in options.habits:
            runs = []
            for seed in range(1, options.runs + 1):
                crowd = Crowd(habit, options.users, seed, options.amount)
                used = full or crowd.advised_full_releases
                print(f"{habit}, k = {used}, {options.users:,} people, run {seed}")
                runs.append(compare_year(crowd, used, options.weeks or WEEKS))
            medians = [
                f"week {rows[0]['week']}: {median(row['ratio'] for row in rows):.3f}"
                for rows in zip(*runs, strict=True)
            ]
            print(f"  {habit}, medians:", ", ".join(medians), flush=True)


if __name__ == "__main__":
    main()
