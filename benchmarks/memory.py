"""Time and peak memory of `release` and `evaluate`, for counts of more and more made-up users.

    python benchmarks/memory.py --users 500000 1000000 4400000
    python benchmarks/memory.py --users 1000000 --before ../older/src    # in turns with another tree

Counts are drawn straight into a counts folder, some users at a time: n-grams by Zipf's law, about 45 of 50,000 a user.
Works in a folder of its own below --folder, which is removed at the end. Prints a line of JSON for each size.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from measure import Run, run

ROOT = Path(__file__).parent.parent
NGRAMS, WORDS, SEED = 50_000, 8_000, 7
AT_ONCE = 20_000  # users that are drawn together
DRAWS = 47.6  # of a user, on average: 45 different n-grams


def make(out: Path, users: int) -> dict[str, Any]:
    """vocab.parquet and a counts folder."""
    import numpy as np
    import pyarrow as pa

    from bayesgram.private.counts import hash_order, once, user_counts
    from bayesgram.private.store import counts_folder
    from bayesgram.public.vocabulary import Vocabulary
    from bayesgram.text.strings import hash_rows
    from bayesgram.text.tokens import Tokenizer, buffers

    rng = np.random.default_rng(SEED)
    chances = 1 / np.arange(10, NGRAMS + 10)
    words = np.unique((WORDS * rng.random((2 * NGRAMS, 3)) ** 3).astype(np.int64), axis=0)
    chosen = rng.permutation(words)[:NGRAMS]
    ngrams = pa.array([" ".join(f"w{word}" for word in row) for row in chosen], pa.large_string())
    counts = (1e9 * chances / chances.sum()).astype(np.int64)
    vocabulary = Vocabulary.of_counts(ngrams, [""], counts[None], Tokenizer())
    out.mkdir(parents=True, exist_ok=True)
    vocabulary.save(out / "vocab.parquet", force=True)
    ids = pa.array(np.arange(users) + 10**15).cast(pa.large_string()).cast(pa.large_binary())
    ids = ids.take(pa.array(hash_order(ids, hash_rows(*buffers(ids)))))
    edges, nonzeros = np.cumsum(chances) / chances.sum(), 0
    with counts_folder(vocabulary, out / "counts", force=True) as write:
        for first in range(0, users, AT_ONCE):
            some = ids[first : first + AT_ONCE]
            sizes = rng.lognormal(np.log(DRAWS) - 0.5, 1.0, len(some)).astype(np.int64) + 1
            drawn = np.searchsorted(edges, rng.random(int(sizes.sum()))).astype(np.int32)
            owners = np.repeat(np.arange(len(some), dtype=np.int32), sizes)
            of = {"vocabulary_size": NGRAMS, "vocabulary_fingerprint": vocabulary.fingerprint}
            part = user_counts(some, *once(owners, drawn.clip(0, NGRAMS - 1)), **of)  # type: ignore[arg-type]
            write(part)
            nonzeros += part.ngrams.size
    disk = (out / "counts" / "counts.parquet").stat().st_size
    return {"users": users, "nonzeros": nonzeros, "disk_mb": round(disk / 1e6)}


def commands(folder: Path, release: Path) -> dict[str, list[str]]:
    """What is measured, for one tree of sources: each writes where no other does."""
    counts, vocab = str(folder / "counts"), str(folder / "vocab.parquet")
    budget = ["--epsilon", "1", "--delta", "1e-7", "--seed", "1"]
    return {
        "release": ["release", counts, "--vocab", vocab, *budget, "--force", "-o", str(release)],
        "evaluate": ["evaluate", str(release), "--against", counts, "--json"],
    }


def measured(sources: Path, command: list[str]) -> Run:
    """One command of one tree."""
    return run([sys.executable, "-m", "bayesgram", *command], {"PYTHONPATH": str(sources)})


def _row(took: Run) -> dict[str, float]:
    return {"seconds": round(took.seconds, 1), "cpu": round(took.cpu, 1), "peak_mb": round(took.peak_mb)}


def compared(folder: Path, trees: dict[str, Path], repeats: int) -> dict[str, Any]:
    """All commands of all trees, in turns; the least that each took."""
    found: dict[str, Any] = {}
    for _ in range(repeats):
        for tree, sources in trees.items():
            for name, command in commands(folder, folder / f"release-{tree}").items():
                took = _row(measured(sources, command))
                before = found.setdefault(f"{name}, {tree}", took)
                found[f"{name}, {tree}"] = {key: min(value, before[key]) for key, value in took.items()}
    if len(trees) > 1:
        first, second = ((folder / f"release-{tree}" / "distribution.parquet").read_bytes() for tree in trees)
        found["same_bytes"] = first == second
    return found


def main() -> None:
    """Make counts of each size, and measure."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--users", type=int, nargs="+", default=[500_000])
    parser.add_argument("--folder", type=Path, help="where to work; the system's temporary folder unless given")
    parser.add_argument("--before", type=Path, help="src of another tree, to compare with")
    parser.add_argument("--repeats", type=int, default=1)
    parser.add_argument("--make", type=Path, help="only make the counts, here")
    options = parser.parse_args()
    if options.make:
        print(json.dumps(make(options.make, options.users[0])))
        return
    trees = {"before": options.before.absolute()} if options.before else {}
    trees["now"] = ROOT / "src"
    for users in options.users:
        with tempfile.TemporaryDirectory(dir=options.folder) as name:  # made by a process of its own: this one is small
            again = [sys.executable, __file__, "--users", str(users), "--make", name]
            here = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
            size = json.loads(subprocess.check_output(again, env=here))  # noqa: S603 - ourselves
            print(json.dumps({**size, **compared(Path(name), trees, options.repeats)}), flush=True)


if __name__ == "__main__":
    main()
