"""Whole rows that many people write: `discover` beside weighted Gaussian and DP-SIPS.

In:  public text, and tables of private rows (`user`, `text`).
Out: how many rows each contestant finds at each ε (medians over runs), how many of them have fewer
users than PRECISE (so that they are hardly "what people ask"), and how many secrets.

    python benchmarks/rows.py public.parquet commits=messages.parquet --first-line
    python benchmarks/rows.py public.parquet --queries 1000000
    python benchmarks/rows.py public.parquet commits=messages.parquet lines=lines.parquet --curves

All contestants get the same rows: those of `--tokenizer rows`, of each user once. A table without
users is dealt to made-up ones, a lognormal number of rows each. `--queries N` are made-up queries
of N people (`made_up_queries`), with typing errors, and a secret of their own for one in 100,000.
`--curves` compares curves of weights (`WeightCurve`) instead of peers.
"""

import argparse
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from bayesgram.mechanisms import discovery as mechanism
from bayesgram.mechanisms.discovery import DEFAULT_ROUNDS
from bayesgram.privacy.budget import Budget
from bayesgram.public.candidate_weights import ROW_WEIGHTS, PublicTextModel, WeightCurve
from bayesgram.public.public_model import PublicModel
from bayesgram.public.vocabulary import Vocabulary
from bayesgram.text.tokenizer import Tokenizer

sys.path.insert(0, str(Path(__file__).parent))
from discovery import DELTA, People, ours, read_people, words_of
from partition_selection import PEERS, CountMinSketch

MOST = 100  # Δ₀ of the peers: as many rows of a user as `discover` takes
PRECISE = 10  # users
SECRETS = 100_000  # one in so many people has one
QUERY_WORDS = (  # of made-up queries: rank by rank, the words of a grammar of questions
    ["how to", "what is", "best", "buy", "cheap", "weather in", "near me", "why does", "where is"],
    ["cook", "fix", "learn", "find", "sell", "open", "clean", "watch", "build", "repair", "paint"],
    ["house", "river", "school", "music", "city", "water", "game", "film", "team", "car", "bridge"],
    ["", "", "today", "online", "at home", "for children", "in winter", "2024", "free", "quickly"],
)


def made_up_queries(people: int, seed: int = 1) -> tuple[pa.Table, set[str]]:
    """Return queries of people by Zipf's law with typing errors, and the secrets among them."""
    rng = np.random.default_rng(seed)
    parts = np.array(np.meshgrid(*map(np.arange, map(len, QUERY_WORDS)))).reshape(4, -1).T
    rng.shuffle(parts)
    queries = [
        " ".join(filter(None, (words[at] for words, at in zip(QUERY_WORDS, row, strict=True))))
        for row in parts.tolist()
    ]
    # The tail: a name and a number, which hardly two people share.
    tail = 2_000_000
    lengths = 1 + rng.poisson(2.0, people)
    owners = np.repeat(np.arange(people), lengths)
    ranks = 1 / np.arange(1, len(queries) + tail + 1)
    chosen = np.searchsorted(np.cumsum(ranks) / ranks.sum(), rng.random(owners.size))
    texts = [
        queries[number] if number < len(queries) else f"{queries[number % 97]} {number}"
        for number in chosen.tolist()
    ]
    for at in np.flatnonzero(rng.random(len(texts)) < 0.1).tolist():  # two letters change places
        text = texts[at]
        place = int(rng.integers(max(len(text) - 1, 1)))
        texts[at] = text[:place] + text[place : place + 2][::-1] + text[place + 2 :]
    holders = np.arange(0, people, SECRETS)
    secrets = [f"my password is {rng.integers(10**9)} {name}" for name in holders.tolist()]
    users = np.concatenate([owners, np.repeat(holders, 3)])
    texts += [secret for secret in secrets for _ in range(3)]
    return pa.table({"user": pc.cast(pa.array(users), pa.string()), "text": texts}), set(secrets)


def read_table(path: str, *, first_line: bool, sample: int | None) -> pa.Table:
    """Return users and rows; rows without a user are dealt to made-up ones."""
    table = pq.read_table(path)
    text = table["text"].combine_chunks()
    if first_line:
        text = pc.replace_substring_regex(text, r"(?s)\n.*$", "")
    text = text[:sample] if sample else text
    if "user" in table.column_names:
        return pa.table({"user": table["user"].combine_chunks()[: len(text)], "text": text})
    rng = np.random.default_rng(1)
    sizes = np.ceil(rng.lognormal(1.0, 1.2, len(text))).astype(np.int64)
    owners = np.repeat(np.arange(len(text)), sizes)[: len(text)]
    return pa.table({"user": pc.cast(pa.array(rng.permutation(owners)), pa.string()), "text": text})


def curves() -> dict[str, WeightCurve]:
    """Return curves of weights by what they change."""
    changed = {"chosen": ROW_WEIGHTS, "all alike": replace(ROW_WEIGHTS, exponent=0.0)}
    for name, values in {
        "likely": (-30.0, -25.0, -15.0, -10.0),
        "exponent": (0.05, 0.15, 0.2, 0.3),
    }.items():
        changed |= {f"{name} {value}": replace(ROW_WEIGHTS, **{name: value}) for value in values}
    for value in (1.0, 2.0, 4.0, 6.0):
        changed[f"unseen {value}"] = replace(ROW_WEIGHTS, unseen={1: value})
    return changed


def peer(name: str, people: People, bounds: CountMinSketch) -> Callable[[int], np.ndarray]:
    """Return a peer: from a seed to what it finds."""
    return lambda seed: PEERS[name](people.lists, bounds, np.random.default_rng(seed))


def describe(
    people: People, runs: Sequence[np.ndarray], users: np.ndarray, secret: np.ndarray
) -> str:
    """Return medians over runs."""
    found = np.median([run.size for run in runs])
    rare = np.median([(users[run] < PRECISE).sum() for run in runs])
    written = people.occurrences.sum()
    mass = np.median([people.occurrences[run].sum() / written for run in runs])
    leaked = max(int(secret[run].sum()) for run in runs)
    return f"{found:7.0f} {rare:6.0f} {mass:7.2%} {leaked:8}"


def main(arguments: Sequence[str] | None = None) -> None:
    """Print a table for each text."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("public")
    parser.add_argument("private", nargs="*", metavar="NAME=PATH")
    parser.add_argument("--queries", type=int, help="people of made-up queries")
    parser.add_argument("--first-line", action="store_true", help="of each text")
    parser.add_argument("--sample", type=int, help="rows of each table, at the most")
    parser.add_argument("--epsilons", default="1,3")
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--most", type=int, default=MOST, help="Δ₀ of the peers")
    parser.add_argument("--curves", action="store_true")
    options = parser.parse_args(arguments)
    vocabulary = Vocabulary.from_public(options.public, tokenizer=Tokenizer("rows"))
    model = PublicModel.from_public(vocabulary, options.public).mixture
    public = PublicTextModel.from_vocabulary(vocabulary, model)
    known = words_of(vocabulary)
    tables = {
        name: (read_table(path, first_line=options.first_line, sample=options.sample), set())
        for name, path in (each.split("=", 1) for each in options.private)
    }
    if options.queries:
        tables["queries"] = made_up_queries(options.queries)
    for name, (table, secrets) in tables.items():
        people = read_people(table, public, [1], "user")
        users = np.bincount(people.lists.candidates, minlength=people.lists.size)
        texts = people.tokens.take(pa.array(people.rows[0][:, 0]))
        secret_texts = pa.array(sorted(text.encode() for text in secrets), texts.type)
        secret = pc.is_in(texts, value_set=secret_texts).to_numpy(zero_copy_only=False)
        print(f"{name}: {people.lists.lengths.size:,} users, {people.lists.size:,} rows")
        print(f"{'':20} {'ε':>4} {'found':>7} {'rare':>6} {'mass':>7} {'secrets':>8}", flush=True)
        for epsilon in map(float, options.epsilons.split(",")):
            budget = Budget(epsilon, DELTA)
            finders = {}
            for title, curve in curves().items():
                if options.curves or title == "chosen":
                    weighed = replace(people, curve=curve)
                    listed = weighed.heaviest(weighed.weights(), mechanism.MAX_CANDIDATES)
                    finders[title] = ours(people, known, budget, DEFAULT_ROUNDS, listed)
            if not options.curves:
                bounds = CountMinSketch(epsilon, DELTA, options.most)
                for title in ("weighted Gaussian", "DP-SIPS"):
                    finders[title] = peer(title, people, bounds)
            for title, find in finders.items():
                runs = [find(seed) for seed in range(1, options.runs + 1)]
                print(
                    f"{title:20} {epsilon:4g} {describe(people, runs, users, secret)}", flush=True
                )


if __name__ == "__main__":
    main()
