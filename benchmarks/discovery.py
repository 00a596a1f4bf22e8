"""How much `discover` finds, beside published methods, on the same candidates in one run.

    python benchmarks/discovery.py VOCAB PRIVATE [--model public.model] [--epsilons 1,3] [--runs 5] [--orders 1,2,3]
        [--user-column user] [--contestants all] [--most 300] [--json]

VOCAB: vocab.parquet. PRIVATE: a file with users and text; without --user-column a Parquet file
whose rows are users. Candidates are all n-grams of these orders that the vocabulary lacks, as
`discover` sees them. Of each contestant the median over runs with fresh (seeded) noise: how many
were found, of each order, and their mass, the share of all occurrences of candidates. Ours keeps
back n-grams with words that are neither public nor found, the peers (`partition_selection.py`)
don't. --most is Δ₀, the most candidates of a user that the peers take.
"""

import argparse
import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from partition_selection import PEERS, CountMinSketch, Lists

from bayesgram.arrays import Floats, Hashes, Ids, Integers, Singles
from bayesgram.io import Records, read_records
from bayesgram.io.atomic import spill_folder
from bayesgram.io.spill import SpillableChunks, SpillableColumn
from bayesgram.mechanisms import discovery as mechanism
from bayesgram.mechanisms.discovery import (
    DEFAULT_ROUNDS,
    DiscoveryMechanism,
    Settings,
    has_known_words,
)
from bayesgram.privacy.budget import Budget
from bayesgram.privacy.noise import SeededNoise
from bayesgram.private.candidates import (
    CandidateLists,
    UserCandidates,
    hash_windows,
    select_heaviest,
    single_round_units,
)
from bayesgram.private.streaming import read_user_text
from bayesgram.public.candidate_weights import (
    PublicTextModel,
    WeightCurve,
    window_log_probabilities,
)
from bayesgram.public.public_model import PublicModel
from bayesgram.public.vocabulary import Vocabulary
from bayesgram.text.ngram_tables import WindowNumbers

DELTA = 1e-7
MEMORY = 4 << 30
EVERYTHING = 1 << 30  # candidates of a user


@dataclass(frozen=True, eq=False)
class Listed:
    """Lists as `discover` makes them, in memory."""

    lists: CandidateLists
    sizes: Integers  # how many candidates each user has
    candidates: Integers  # of all users
    logs: Singles  # log weight of each candidate
    numbers: Integers  # of each candidate among those of all lists


@dataclass(frozen=True, eq=False)
class People:
    """Everybody's candidates, all of them."""

    lists: Lists
    logs: Floats  # log q of each candidate
    orders: Integers
    hashes: Hashes  # of its text
    occurrences: Integers
    rows: Sequence[Ids]  # the tokens of the candidates of each order
    tokens: pa.LargeBinaryArray
    curve: WeightCurve  # how weights follow from log q

    def weights(self) -> Floats:
        """Log weights of candidates by public text."""
        found = np.empty(self.logs.size)
        for order in np.unique(self.orders).tolist():
            found[self.orders == order] = self.curve.log_weights(
                self.logs[self.orders == order], order
            )
        return found

    def heaviest(self, weights: Floats, most: int) -> Listed:
        """Lists as `discover` makes them."""
        ranks = np.empty(weights.size)
        ranks[np.lexsort((self.hashes, weights))[::-1]] = np.arange(weights.size)
        kept = self.lists.cut(ranks[self.lists.candidates], most)
        some = np.flatnonzero(np.bincount(kept.candidates, minlength=kept.size))
        numbers = np.zeros(kept.size, np.int64)
        numbers[some] = np.arange(some.size)
        logs, candidates = weights[some].astype(np.float32), numbers[kept.candidates]
        users = SpillableChunks(None, columns=2)
        users.add([kept.lengths, candidates])
        columns = [in_memory(logs), in_memory(self.windows[some])]
        lists = CandidateLists(users, *columns, self.tokens, scratch=Path())
        return Listed(lists, kept.lengths, candidates, logs, some)

    @property
    def windows(self) -> Ids:
        """The tokens of candidates of all orders, as `CandidateLists` has them."""
        widest = max(rows.shape[1] for rows in self.rows)
        return np.concatenate(
            [np.pad(rows + 1, ((0, 0), (0, widest - rows.shape[1]))) for rows in self.rows]
        )


def in_memory(values: Singles | Ids) -> SpillableColumn:
    """A column that needs no file."""
    width = None if values.ndim == 1 else values.shape[1]
    column = SpillableColumn(Path(), values.dtype, width=width, kept_bytes=values.nbytes)
    column.add(values)
    return column


def read_users(private: str | Path | pa.Table, user_column: str | None) -> Iterable[Records]:
    """Users and text; every row of a Parquet file is a user where no column says whose it is."""
    if user_column is None:
        text = pq.read_table(private, columns=["text"])["text"]
        private, user_column = (
            pa.table({"user": pa.array(map(str, range(len(text)))), "text": text}),
            "user",
        )
    return read_records(private, text_column="text", user_column=user_column)


def read_people(
    private: str | pa.Table, public: PublicTextModel, orders: Sequence[int], user_column: str | None
) -> People:
    """All candidates of all users, as `discover` cuts text and tells what is new."""
    with spill_folder() as scratch:
        tokens = public.new_token_table()
        records = read_users(private, user_column)
        text = read_user_text(records, public.vocabulary.tokenizer, tokens, scratch, memory=MEMORY)
        novelty, hashes = public.candidate_weigher(tokens, orders), tokens.hashes()
        numbers = [WindowNumbers(order, tokens=len(tokens)) for order in orders]
        counts: list[list[tuple[Ids, Integers]]] = [[] for _ in orders]
        pairs, lengths = [], []
        for users in text:
            weights = novelty.log_weights(users.tokens)
            which, ends, sizes = select_heaviest(
                users.starts, users.tokens, np.array(orders), weights, hashes, EVERYTHING
            )
            kept, own = (
                UserCandidates(users.tokens, which, ends, weights[which, ends], sizes),
                np.empty(which.size, np.int32),
            )
            for number, known in enumerate(numbers):
                places, rows = kept.select(number, known.order)
                own[places] = known.add(rows)
                all_ends = np.flatnonzero(weights[number] > -np.inf)
                windows = users.tokens[all_ends[:, None] + np.arange(1 - known.order, 1)]
                counts[number].append(np.unique(known.add(windows), return_counts=True))
            pairs.append((which, own))
            lengths.append(sizes)
    found = [known.rows() for known in numbers]
    first = np.cumsum([0, *map(len, found)])
    candidates = np.concatenate([(first[which] + own).astype(np.int32) for which, own in pairs])
    return People(
        Lists(np.append(0, np.cumsum(np.concatenate(lengths))), candidates, int(first[-1])),
        np.concatenate(
            [log_probabilities(novelty, own, number) for number, own in enumerate(found)]
        ),
        np.repeat(np.array(orders), [len(own) for own in found]),
        np.concatenate([hash_windows(own, hashes) for own in found]),
        np.concatenate([total(some, len(own)) for some, own in zip(counts, found, strict=True)]),
        found,
        tokens.strings(),
        public.weights,
    )


def log_probabilities(novelty: Any, rows: Ids, number: int) -> Floats:
    """Log q of n-grams, given as rows of tokens."""
    order = novelty.orders[number]
    found = [np.zeros(0)]
    for some in np.array_split(rows, len(rows) // 100_000 + 1):
        stream = np.insert(some, order, -1, axis=1).ravel()
        steps = novelty.likelihood.conditional_log_probabilities(stream, order)
        found.append(window_log_probabilities(steps, order)[order - 1 :: order + 1])
    return np.concatenate(found)


def total(counts: Sequence[tuple[Ids, Integers]], size: int) -> Integers:
    """Occurrences of every n-gram."""
    found = np.zeros(size, np.int64)
    for numbers, times in counts:
        found[numbers] += times
    return found


def words_of(vocabulary: Vocabulary) -> Vocabulary:
    """All words in its n-grams, of all orders."""
    words = vocabulary.tokens
    return Vocabulary(words, np.ones(len(words), np.int64), 1, vocabulary.tokenizer)


def ours(
    people: People, known: Vocabulary, budget: Budget, rounds: int, listed: Listed | None = None
) -> Callable[[int], Integers]:
    """`discover` with so many rounds: from a seed to what comes out.

    `known` are the words of public text.
    """
    settings = Settings(tuple(np.unique(people.orders).tolist()), rounds=rounds)
    door = DiscoveryMechanism(settings, budget, settings.calibrate(budget))
    own = listed or people.heaviest(people.weights(), mechanism.MAX_CANDIDATES)

    def find(seed: int) -> Integers:
        noise = SeededNoise(seed)
        if rounds > 1:
            above, _ = door._find_all_above_level(door._run_rounds(own.lists, noise))  # noqa: SLF001 - as `measure` does
        else:
            units = single_round_units(
                own.sizes, own.logs[own.candidates].astype(np.float64), door.bound.min_units
            )
            sums = np.bincount(own.candidates, units, own.numbers.size).astype(np.int64)
            some = np.flatnonzero(sums >= door.bound.min_sum)
            noisy = noise.discrete_gaussian(sums[some], scale=door.threshold.scale)
            above = some[door._find_above_level(noisy)[0]]  # noqa: SLF001 - as there
        return own.numbers[above[has_known_words(own.lists.ngrams(above), known)]]

    return find


def contestants(
    people: People, known: Vocabulary, budget: Budget, most: int
) -> dict[str, Callable[[], Callable[[int], Integers]]]:
    """All of them by name: made ready when it is their turn, then run with a seed."""

    def peer(name: str) -> Callable[[], Callable[[int], Integers]]:
        bounds = CountMinSketch(budget.epsilon, budget.delta, most)
        return lambda: lambda seed: PEERS[name](people.lists, bounds, np.random.default_rng(seed))

    return {
        f"ours, {DEFAULT_ROUNDS} rounds": lambda: ours(people, known, budget, DEFAULT_ROUNDS),
        "ours, 1 round": lambda: ours(people, known, budget, 1),
        **{name: peer(name) for name in PEERS},
    }


def result(people: People, found: Sequence[Integers], seconds: Sequence[float]) -> dict[str, Any]:
    """Medians over runs."""
    whole, orders = people.occurrences.sum(), np.unique(people.orders)
    numbers = [[int((people.orders[some] == order).sum()) for order in orders] for some in found]
    return {
        "found": float(np.median([some.size for some in found])),
        "least": min(some.size for some in found),
        "largest": max(some.size for some in found),
        "by_order": dict(
            zip(map(str, orders.tolist()), np.median(numbers, axis=0).tolist(), strict=True)
        ),
        "mass": float(np.median([people.occurrences[some].sum() / whole for some in found])),
        "seconds": float(np.median(seconds)),
    }


def main(arguments: Sequence[str] | None = None) -> None:
    """Print a row for each contestant and ε."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("vocab", type=Path)
    parser.add_argument("private")
    parser.add_argument("--model", type=Path)
    parser.add_argument("--epsilons", default="1,3")
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--orders", default="1,2,3")
    parser.add_argument("--user-column")
    parser.add_argument(
        "--contestants", default="", help="parts of names, with commas between them; otherwise all"
    )
    parser.add_argument("--most", type=int, default=300)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args(arguments)
    model = None if options.model is None else PublicModel.load(options.model).mixture
    public = PublicTextModel.from_vocabulary(Vocabulary.load(options.vocab), model)
    people = read_people(
        options.private, public, list(map(int, options.orders.split(","))), options.user_column
    )
    known = words_of(public.vocabulary)
    if not options.json:
        lists = people.lists
        print(
            f"{lists.lengths.size:,} users, {lists.size:,} candidates, {lists.candidates.size:,} pairs of both"
        )
        print(
            f"{'contestant':20} {'ε':>4} {'found':>7} {'range':>13} {'by order':>20} {'mass':>7} {'seconds':>8}"
        )
    for epsilon in map(float, options.epsilons.split(",")):
        for name, ready in contestants(people, known, Budget(epsilon, DELTA), options.most).items():
            if not any(part in name for part in options.contestants.split(",")):
                continue
            find, found, seconds = ready(), [], []
            for seed in range(1, options.runs + 1):
                start = perf_counter()
                found.append(find(seed))
                seconds.append(perf_counter() - start)
            row = result(people, found, seconds)
            if options.json:
                told = {
                    "vocab": str(options.vocab),
                    "private": options.private,
                    "runs": options.runs,
                }
                print(
                    json.dumps({"contestant": name, "epsilon": epsilon, **row, **told}), flush=True
                )
                continue
            orders = " ".join(f"{number:.0f}" for number in row["by_order"].values())
            spread = f"{row['least']}–{row['largest']}"
            print(
                f"{name:20} {epsilon:4g} {row['found']:7.0f} {spread:>13} {orders:>20} {row['mass']:7.2%}"
                f" {row['seconds']:8.1f}",
                flush=True,
            )


if __name__ == "__main__":
    main()
