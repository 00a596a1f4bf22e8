"""What it gains to release segments together.

KL of each segment, together with the others and alone, at the same ε.

Made-up people: what all write is that of a made-up crowd; a segment writes it with words and
n-grams that are exp(sd · N(0, 1)) times as likely, or with 5 n-grams of its own that are 20 times
as likely (sd −1). People write log-normal amounts, and some of them in two segments. Judged by KL(q
‖ θ), q the distribution that the segment's people draw from, so chance in what they wrote is a part
of the error of both. "alone" is `posterior` on the people of that segment and what they wrote
there, with all of ε for it.

    python benchmarks/segments.py [--users 50000] [--size 5000] [--runs 1] [--epsilons 0.5,1,2]
    python benchmarks/segments.py --large     # 200 segments × 50,000 n-grams, and a week after them: time and memory
"""

import argparse
import sys
import tempfile
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path

import numpy as np
import pyarrow as pa
from measure import run

import bayesgram as bg
from bayesgram.io.segments import Segments
from bayesgram.private.counts import SegmentedCounts, build_user_counts
from bayesgram.private.counts_io import save_counts
from bayesgram.synthetic.crowd import Crowd

SHARES = {"half": 0.5, "a quarter": 0.25, "a tenth": 0.1, "a tenth more": 0.1, "1 in 20": 0.05}
FEW, TIMES = 5, 20.0  # n-grams of a segment that alone differ, and by how much
FEW_DIFFER = -1.0  # in place of a spread
SPREADS = {
    "few n-grams differ": FEW_DIFFER,
    "identical": 0.0,
    "alike": 0.3,
    "different": 0.5,
    "very different": 2.0,
}
ABROAD = 0.1  # of people write in a second segment, too
MEDIAN, SPREAD = 12.0, 1.2  # n-grams of a user
LARGE = 50_000  # n-grams


@dataclass(frozen=True, eq=False)
class People:
    """Counts by segment, and the distribution that each segment draws from."""

    counts: SegmentedCounts
    truth: np.ndarray  # segments × n-grams
    shares: np.ndarray


def made_up(
    vocabulary: bg.Vocabulary,
    everyone: np.ndarray,
    shares: np.ndarray,
    spread: float,
    users: int,
    seed: int,
) -> People:
    """So many people whose segments differ by this much."""
    rng = np.random.default_rng(seed)
    words, number = vocabulary.word_ids
    truth = []
    for _ in shares:
        by_word = rng.normal(0, 1 / np.sqrt(2 * words.shape[1]), number)[words].sum(axis=1)
        tilted = everyone * np.exp(spread * (by_word + rng.normal(0, np.sqrt(0.5), everyone.size)))
        if spread == FEW_DIFFER:
            tilted = everyone.copy()
            tilted[rng.choice(np.argsort(-everyone)[50:400], FEW, replace=False)] *= TIMES
        truth.append(tilted / tilted.sum())
    home = rng.choice(shares.size, users, p=shares)
    norm_histogram_sum = np.maximum(rng.lognormal(np.log(MEDIAN), SPREAD, users), 1).astype(int)
    abroad = np.where(rng.random(users) < ABROAD, rng.choice(shares.size, users, p=shares), home)
    there = np.where(abroad == home, 0, norm_histogram_sum // 3)
    columns, names = [], pa.array([f"{user}".encode() for user in range(users)], pa.large_binary())
    for segment, q in enumerate(truth):
        written = np.where(home == segment, norm_histogram_sum - there, 0) + np.where(
            abroad == segment, there, 0
        )
        ngrams = np.searchsorted(np.cumsum(q), rng.random(written.sum()) * (1 - 1e-12)).clip(
            0, q.size - 1
        )
        columns.append((np.repeat(np.arange(users), written), segment * q.size + ngrams))
    who, what = (np.concatenate(column).astype(np.int32) for column in zip(*columns, strict=True))
    flat = build_user_counts(
        names,
        who,
        what,
        np.ones(who.size, np.int32),
        vocabulary_size=shares.size * len(vocabulary),
        vocabulary_fingerprint=vocabulary.fingerprint,
    )
    listed = Segments("country", tuple(f"s{number}" for number in range(shares.size)))
    return People(SegmentedCounts(flat, listed), np.array(truth), shares)


def alone(people: People, segment: int, size: int) -> bg.UserCounts:
    """The people of one segment, and what they wrote there."""
    flat = people.counts.flat
    owners = np.repeat(np.arange(len(flat.users), dtype=np.int32), np.diff(flat.starts))
    here = flat.ngrams // size == segment
    return build_user_counts(
        flat.users,
        owners[here],
        flat.ngrams[here] % np.int32(size),
        flat.counts[here],
        vocabulary_size=size,
        vocabulary_fingerprint=flat.vocabulary_fingerprint,
    )


def everybody(people: People, size: int) -> bg.UserCounts:
    """All people, whatever the segment."""
    flat = people.counts.flat
    owners = np.repeat(np.arange(len(flat.users), dtype=np.int32), np.diff(flat.starts))
    told = {"vocabulary_size": size, "vocabulary_fingerprint": flat.vocabulary_fingerprint}
    return build_user_counts(flat.users, owners, flat.ngrams % np.int32(size), flat.counts, **told)


def kl(q: np.ndarray, release: bg.Release) -> float:
    """KL(q ‖ θ)."""
    seen = q > 0
    return float((q[seen] * np.log(q[seen] / release.probabilities[seen])).sum())


def compared(vocabulary: bg.Vocabulary, people: People, epsilon: float, seed: int) -> np.ndarray:
    """KL together and alone, of each segment and then of all people."""
    budget, size = bg.Budget(epsilon, 1e-7), len(vocabulary)
    made = bg.release(people.counts, vocabulary, bg.Posterior(), budget, seed=seed)
    rows = []
    for segment, (name, q) in enumerate(
        zip(people.counts.segments.names, people.truth, strict=True)
    ):
        by_itself = bg.release(
            alone(people, segment, size), vocabulary, bg.Posterior(), budget, seed=seed
        )
        rows.append((kl(q, made[name]), kl(q, by_itself)))
    flat = everybody(people, size)
    q = flat.totals / flat.totals.sum()
    rows.append(
        (kl(q, made.all), kl(q, bg.release(flat, vocabulary, bg.Posterior(), budget, seed=seed)))
    )
    return np.array(rows)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--users", type=int, default=50_000)
    parser.add_argument("--size", type=int, default=5_000)
    parser.add_argument("--runs", type=int, default=1)
    parser.add_argument("--epsilons", default="0.5,1,2")
    parser.add_argument("--spreads", default=",".join(map(str, SPREADS.values())))
    parser.add_argument(
        "--large",
        type=int,
        nargs="?",
        const=200,
        help="so many segments, 200 unless said otherwise",
    )
    given = parser.parse_args()
    if given.large:
        large(given.large, 1.0)
        return
    crowd = Crowd(users=50_000, size=given.size, sentences=200_000, personas=256, pool=64)
    vocabulary = crowd.vocabulary
    totals = crowd.counts().totals + 0.5
    everyone, shares = totals / totals.sum(), np.array([*SHARES.values()])
    names = {spread: name for name, spread in SPREADS.items()}
    print("| segments | ε | " + " | ".join(SHARES) + " | all people |")
    print("|---|---|" + "---|" * (len(SHARES) + 1))
    for spread in map(float, given.spreads.split(",")):
        for epsilon in map(float, given.epsilons.split(",")):
            found = [
                compared(
                    vocabulary,
                    made_up(vocabulary, everyone, shares, spread, given.users, run),
                    epsilon,
                    run,
                )
                for run in range(given.runs)
            ]
            mean = np.mean(found, axis=0)
            cells = [f"{one:.4f} / {by_itself:.4f}" for one, by_itself in mean]
            print(
                f"| {names.get(spread, spread)} (sd {spread:g}) | {epsilon:g} | "
                + " | ".join(cells)
                + " |",
                flush=True,
            )


def large(number: int, epsilon: float) -> None:
    """The largest that is promised, through the real command.

    How long it takes, and how much memory.
    """
    with tempfile.TemporaryDirectory() as name:
        maker = get_context("spawn").Process(target=prepare, args=(Path(name), number))
        maker.start()  # in a process of its own: a child's peak memory is never below its parent's
        maker.join()
        asked = [
            "counts",
            "--vocab",
            "vocab.parquet",
            "--epsilon",
            f"{epsilon:g}",
            "--delta",
            "1e-7",
        ]
        for week, more in (("week-1", []), ("week-2", ["--previous", f"{name}/week-1"])):
            paths = [
                f"{name}/{each}" if each in {"counts", "vocab.parquet"} else each for each in asked
            ]
            took = run(
                [
                    sys.executable,
                    "-m",
                    "bayesgram",
                    "release",
                    *paths,
                    *more,
                    "-o",
                    f"{name}/{week}",
                    "--quiet",
                ]
            )
            told = f"{took.seconds:.0f} s, {took.cpu:.0f} s of CPU, at most {took.peak_mb / 1000:.2f} GB"
            print(
                f"{number} segments × {LARGE:,} n-grams, ε = {epsilon:g}, {week}: {told}",
                flush=True,
            )


def prepare(folder: Path, number: int) -> None:
    """A vocabulary, and counts of made-up people in so many segments."""
    vocabulary = Crowd(users=1000, size=LARGE, sentences=20 * LARGE).vocabulary
    everyone = (vocabulary.counts + 1) / (vocabulary.counts + 1).sum()
    people = made_up(vocabulary, everyone, np.full(number, 1 / number), 0.3, 500 * number, 0)
    vocabulary.save(folder / "vocab.parquet")
    save_counts(people.counts, vocabulary, folder / "counts")


if __name__ == "__main__":
    main()
