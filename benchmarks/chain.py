"""Weekly releases that follow one another.

What `--previous` is worth, on made-up people and on real halves.

    python benchmarks/chain.py drift [--weeks 52] [--users 100000] [--runs 1]
    python benchmarks/chain.py halves COUNTS VOCAB [--epsilon 0.1] [--runs 3]

drift: people who write bigrams, whose log-frequencies (against public text) drift by 1% of their
variance a week; or drift and change 5% of their words for good in week 9; or are other people every
week. ε = 1 and δ = 1e-7 for 52 weeks together: each has 1/52 of 1/σ². Prints the KL of the people's
true distribution of that week, chained and alone. halves: the users by turns in two halves; the
second half's release alone, and chained to the first half's.
"""

import argparse
import math
from collections.abc import Callable, Iterator
from dataclasses import replace
from statistics import median

import numpy as np
import pyarrow as pa

from bayesgram.arrays import Floats, Ids
from bayesgram.audit.evaluation import kl_divergence
from bayesgram.inference.reinfer import infer
from bayesgram.mechanisms.posterior import Posterior
from bayesgram.mechanisms.publish import release
from bayesgram.privacy.budget import Budget
from bayesgram.private.counts import UserCounts
from bayesgram.private.counts_io import load_counts
from bayesgram.public.vocabulary import Vocabulary
from bayesgram.releases.card_sections import order_details
from bayesgram.releases.release import Release
from bayesgram.text.tokenizer import Tokenizer

YEAR = Budget(1.0, 1e-7)
WEEKS = 52
SPREAD, WORD_SHARE = (
    0.8,
    0.4,
)  # of log-frequencies against public text, and the part of that variance of words
DRIFT = 0.01  # of the variance, a week
WORDS, NGRAMS = 600, 5000
SUDDEN_WEEK, SUDDEN_PART = 9, 0.05


def weekly_budget(weeks: int = WEEKS) -> Budget:
    """Return the ε at the year's δ of one of so many releases that share the year's 1/σ² evenly."""
    from bayesgram.privacy.accounting import Spend, composed_epsilon  # noqa: PLC0415
    from bayesgram.privacy.calibration import calibrate_gaussian  # noqa: PLC0415

    whole = calibrate_gaussian(YEAR, coordinates=NGRAMS, units=1 << 30)
    spend = Spend.gaussian(whole.multiplier * math.sqrt(weeks) * (1 + 1e-9))
    return Budget(composed_epsilon([spend], YEAR.delta), YEAR.delta)


class People:
    """Bigrams of Zipf's words.

    Each has a log-frequency against public text, of its words and of its own.
    """

    def __init__(self, seed: int) -> None:
        self.chance = np.random.default_rng(seed)
        rates = 1 / np.arange(1, WORDS + 1)
        pairs = np.unique(self.chance.choice(WORDS, (NGRAMS * 4, 2), p=rates / rates.sum()), axis=0)
        self.pairs: Ids = self.chance.permutation(pairs)[:NGRAMS].astype(np.int32)
        public = rates[self.pairs].prod(axis=1) * np.exp(
            self.chance.normal(0, 0.5, len(self.pairs))
        )
        ngrams = pa.array([f"w{a} w{b}" for a, b in self.pairs], pa.large_string())
        counts = np.maximum((public / public.sum() * 1e7).astype(np.int64), 1)
        self.vocabulary = Vocabulary(ngrams, counts, 2, Tokenizer())
        self.again()

    def again(self) -> None:
        """Other people."""
        self.of_words, self.own = self._fresh()

    def _fresh(self) -> tuple[Floats, Floats]:
        of_word, own = math.sqrt(WORD_SHARE / 2) * SPREAD, math.sqrt(1 - WORD_SHARE) * SPREAD
        return self.chance.normal(0, of_word, WORDS), self.chance.normal(0, own, len(self.pairs))

    def drift(self) -> None:
        """A week goes by."""
        for old, new in zip((self.of_words, self.own), self._fresh(), strict=True):
            old[:] = math.sqrt(1 - DRIFT) * old + math.sqrt(DRIFT) * new

    def change(self) -> None:
        """Some words are as frequent as others were, by a factor e² or so, for good."""
        which = self.chance.choice(WORDS, round(SUDDEN_PART * WORDS), replace=False)
        self.of_words[which] += self.chance.choice([-2.0, 2.0], which.size)

    @property
    def truth(self) -> Floats:
        """What they write."""
        found = self.vocabulary.prior * np.exp(self.of_words[self.pairs].sum(axis=1) + self.own)
        return found / float(found.sum())

    def counts(self, users: int) -> UserCounts:
        """A week's text: a log-normal number of bigrams each."""
        lengths = np.maximum(self.chance.lognormal(1.5, 1.0, users), 1).astype(np.int64)
        drawn = self.chance.choice(len(self.pairs), int(lengths.sum()), p=self.truth)
        keys, counts = np.unique(
            np.repeat(np.arange(users), lengths) * len(self.pairs) + drawn, return_counts=True
        )
        starts = np.searchsorted(keys, np.arange(users + 1) * len(self.pairs))
        names = pa.array([f"u{i}".encode() for i in range(users)], pa.large_binary())
        ngrams, times = (keys % len(self.pairs)).astype(np.int32), counts.astype(np.int32)
        return UserCounts(
            names, starts, ngrams, times, len(self.pairs), self.vocabulary.fingerprint
        )


STORIES: dict[str, Callable[[People, int], None]] = {
    "slow drift": lambda people, _: people.drift(),
    "sudden change": lambda people, week: (
        people.change() if week == SUDDEN_WEEK else people.drift()
    ),
    "no relation": lambda people, _: people.again(),
}


def weeks_of(
    story: str, weeks: int, users: int, seed: int
) -> Iterator[tuple[int, float, float, Release]]:
    """Week, KL chained, KL alone, and the chained release."""
    people, budget = People(seed), weekly_budget()
    previous: Release | None = None
    for week in range(1, weeks + 1):
        if week > 1:
            STORIES[story](people, week)
        counts = people.counts(users)
        made = release(
            counts,
            people.vocabulary,
            Posterior(),
            budget,
            seed=1000 * seed + week,
            previous=previous,
        )
        alone = _alone(made, people.vocabulary) if _shown(week) else made
        yield (
            week,
            *(float(kl_divergence(people.truth, each.probabilities)) for each in (made, alone)),
            made,
        )
        previous = made


def _shown(week: int) -> bool:
    """Whether a week is in the table."""
    return week <= 12 or week % 4 == 0


def _alone(made: Release, vocabulary: Vocabulary) -> Release:
    """The same noisy counts, without what was carried over: what the release would have been."""
    if made.measurements is None or made.measurements.carried is None:
        return made
    return infer(replace(made, measurements=replace(made.measurements, carried=None)), vocabulary)


def drift(story: str, weeks: int, users: int, runs: int) -> None:
    """A table."""
    found = [list(weeks_of(story, weeks, users, seed)) for seed in range(1, runs + 1)]
    print(f"\n{story}: {users:,} users, ε = {weekly_budget().epsilon:.4f} a week, {runs} runs\n")
    print("| week | chained | alone | over week 1 | drift | changed |\n|---|---|---|---|---|---|")
    for at in range(weeks):
        rows = [run[at] for run in found]
        chained, alone = (median(row[side] for row in rows) for side in (1, 2))
        ratio = median(run[at][1] / run[0][1] for run in found)
        if _shown(at + 1):
            print(f"| {at + 1} | {chained:.4f} | {alone:.4f} | {ratio:.2f} | {_told(rows[0][3])} |")


def _told(made: Release) -> str:
    """What a release says of the drift, in two columns."""
    told = made.card.details.get("drift", {}).get("2")
    return " | " if told is None else f"{told['drift']:.3f} | {told['changed']:.3f}"


def halves(counts: str, vocab: str, epsilon: float, runs: int) -> None:
    """The second half of the users, alone and after the first."""
    vocabulary = Vocabulary.load(vocab)
    every = load_counts(counts, vocabulary_size=len(vocabulary)).listed_only
    parts = [_part(every, side) for side in (0, 1)]
    truth = np.bincount(parts[1].ngrams, parts[1].counts, len(vocabulary))
    for run in range(runs):
        first, alone = (
            release(part, vocabulary, Posterior(), Budget(epsilon, 1e-7), seed=7 * run + at)
            for at, part in enumerate(parts)
        )
        chained = release(
            parts[1],
            vocabulary,
            Posterior(),
            Budget(epsilon, 1e-7),
            seed=7 * run + 1,
            previous=first,
        )
        own, both = (kl_divergence(truth, each.probabilities) for each in (alone, chained))
        norms = [order_details(each.card.details)["clip_norm_used"] for each in (first, alone)]
        print(
            f"alone {own:.4f}  chained {both:.4f}  ratio {both / own:.3f}  Λ {norms}  {chained.card.details['drift']}",
            flush=True,
        )


def _part(counts: UserCounts, side: int) -> UserCounts:
    """Every other user."""
    rows = np.arange(side, len(counts.users), 2)
    lengths = np.diff(counts.starts)[rows]
    starts = np.concatenate([[0], np.cumsum(lengths)])
    at = np.repeat(counts.starts[rows] - starts[:-1], lengths) + np.arange(starts[-1])
    users = counts.users.take(pa.array(rows))
    return UserCounts(
        users,
        starts,
        counts.ngrams[at],
        counts.counts[at],
        counts.vocabulary_size,
        counts.vocabulary_fingerprint,
    )


def main() -> None:
    """Parse and run."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("what", choices=["drift", "halves"])
    parser.add_argument("files", nargs="*")
    parser.add_argument("--weeks", type=int, default=WEEKS)
    parser.add_argument("--users", type=int, default=100_000)
    parser.add_argument("--runs", type=int, default=1)
    parser.add_argument("--epsilon", type=float, default=0.1)
    parser.add_argument("--stories", default=",".join(STORIES))
    given = parser.parse_args()
    if given.what == "halves":
        halves(*given.files, given.epsilon, given.runs)
    else:
        for story in given.stories.split(","):
            drift(story, given.weeks, given.users, given.runs)


if __name__ == "__main__":
    main()
