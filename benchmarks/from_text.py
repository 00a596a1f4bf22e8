"""From private text to the perplexity of people's held-out text, through the command line.

    python benchmarks/from_text.py POSTS NAME=PUBLIC [NAME=PUBLIC ...] [--epsilons 0.2,1,8] [--held-out 9000]
        [--size 50000] [--users 20000,40000]

POSTS: Parquet with a column `text`, a row is a user. PUBLIC: a file for `bayesgram vocab`. Holds
out a random part of the posts (seed 20240607), counts orders 1 to 3 with sentence boundaries in the
others, once with the first public source alone and once with all; prints KL of the longest n-grams,
perplexity and how often the first suggestion is right. --users repeats the first ε with fewer
users.
"""

import argparse
import json
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq


def bayesgram(*arguments: object) -> dict[str, Any]:
    """What a command says as JSON."""
    command = [sys.executable, "-m", "bayesgram", *map(str, arguments), "--json"]
    said = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    found: dict[str, Any] = json.loads(said)
    return found


def split(posts: Path, held_out: int, folder: Path) -> tuple[pa.Table, Path]:
    """The posts that are counted, and a file of those that are held out."""
    table = pq.read_table(posts)
    order = np.random.default_rng(20240607).permutation(len(table))
    table = pa.table({"user": pa.array(map(str, range(len(table)))), "text": table["text"]})
    pq.write_table(table.take(order[:held_out]), folder / "held-out.parquet")
    return table.take(order[held_out:]), folder / "held-out.parquet"


def release(posts: pa.Table, vocab: Path, epsilon: str, held_out: Path, folder: Path) -> str:
    """Count, release and evaluate: a row of the table."""
    pq.write_table(posts, folder / "posts.parquet")
    columns = ["--user-column", "user", "--text-column", "text"]
    bayesgram(
        "count",
        folder / "posts.parquet",
        "--vocab",
        vocab,
        *columns,
        "-o",
        folder / "counts",
        "--force",
    )
    budget = ["--epsilon", epsilon, "--delta", "1e-7"]
    bayesgram(
        "release", folder / "counts", "--vocab", vocab, *budget, "-o", folder / "out", "--force"
    )
    text = ["--text", held_out, "--text-column", "text"]
    found = bayesgram("evaluate", folder / "out", "--against", folder / "counts", *text)
    exact, ours = ({key: row[key] for key in ("perplexity", "accuracy_1")} for row in found["text"])
    told = f"{ours['perplexity']:.0f}, {100 * ours['accuracy_1']:.1f}% (exact counts {exact['perplexity']:.0f})"
    return f"KL {found['releases'][0]['kl']:.3f}, perplexity and first suggestion {told}"


def main(arguments: Sequence[str] | None = None) -> None:
    """Print a row for each release."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("posts", type=Path)
    parser.add_argument("public", nargs="+")
    parser.add_argument("--epsilons", default="0.2,1,8")
    parser.add_argument("--held-out", type=int, default=9000)
    parser.add_argument("--size", default="50000")
    parser.add_argument("--users", default="")
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        posts, held_out = split(options.posts, options.held_out, folder)
        for sources in sorted({1, len(options.public)}):
            vocab = folder / f"vocab{sources}.parquet"
            shape = ["--orders", "1,2,3", "--boundaries", "--size", options.size]
            bayesgram("vocab", *options.public[:sources], *shape, "-o", vocab)
            for epsilon in options.epsilons.split(","):
                print(
                    sources,
                    "source(s), ε =",
                    epsilon,
                    release(posts, vocab, epsilon, held_out, folder),
                    flush=True,
                )
            for users in map(int, filter(None, options.users.split(","))):
                made = release(
                    posts.slice(0, users), vocab, options.epsilons.split(",")[0], held_out, folder
                )
                print(sources, "source(s),", users, "users", made, flush=True)


if __name__ == "__main__":
    main()
