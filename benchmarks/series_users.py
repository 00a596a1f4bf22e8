"""What a series adds to the time, the memory and the disk of a release of many users.

    python benchmarks/series_users.py --users 4400000 --repeats 3
    python benchmarks/series_users.py --size 50000 --draws 47.6

Makes two weeks of counts on disk: about eight of 5,000 bigrams a user, by Zipf's law, or 45 of
50,000, as benchmarks/memory.py has them. In the second week a tenth of the users are gone and as
many are new. Then it releases both weeks through the real command, without a series and in one, in
turns, in processes of their own. Prints a line of JSON for each week: the least time of the
repeats, the peak memory, and the size of the state. Works in a folder of its own below --folder,
which is removed at the end.
"""

import argparse
import json
import shutil
import sys
import tempfile
from pathlib import Path

from measure import Run, run

ROOT = Path(__file__).parent.parent
BLOCK = 50_000  # users that are made in one go
NEW_SHARE = 0.1  # of the users of the second week


def make_counts(folder: Path, users: int, size: int, draws: float) -> None:
    """Write vocab.parquet, and counts-1 and counts-2, in the order of `bayesgram count`.

    Args:
        folder: Where they are written.
        users: Of each week.
        size: How many n-grams the vocabulary has.
        draws: How many a user writes in the mean, repeats included.
    """
    # Imported here: the process that measures must stay small.
    import numpy as np  # noqa: PLC0415
    import pyarrow as pa  # noqa: PLC0415

    from bayesgram.private.counts import (  # noqa: PLC0415
        build_user_counts,
        order_by_hash,
        unit_counts,
    )
    from bayesgram.private.counts_io import open_counts_writer  # noqa: PLC0415
    from bayesgram.public.vocabulary import Vocabulary  # noqa: PLC0415
    from bayesgram.text.strings import hash_rows  # noqa: PLC0415
    from bayesgram.text.tokenizer import Tokenizer, buffers  # noqa: PLC0415

    rng = np.random.default_rng(7)
    chances = 1 / np.arange(10, size + 10)
    edges = np.cumsum(chances) / chances.sum()
    words = rng.permutation(1000 * 1000)[:size]
    ngrams = pa.array([f"w{word // 1000} w{word % 1000}" for word in words], pa.large_string())
    frequencies = (1e9 * chances / chances.sum()).astype(np.int64)
    vocabulary = Vocabulary.from_counts(ngrams, [""], frequencies[None], Tokenizer())
    vocabulary.save(folder / "vocab.parquet")
    for week in (1, 2):
        first = int(NEW_SHARE * users) * (week - 1)
        numbers = np.arange(first, first + users) + 10**15
        ids = pa.array(numbers).cast(pa.large_string()).cast(pa.large_binary())
        ids = ids.take(pa.array(order_by_hash(ids, hash_rows(*buffers(ids)))))
        with open_counts_writer(vocabulary, folder / f"counts-{week}") as write:
            for start in range(0, users, BLOCK):
                block = ids[start : start + BLOCK]
                sizes = rng.lognormal(np.log(draws) - 0.5, 1.0, len(block)).astype(np.int64) + 1
                drawn = np.searchsorted(edges, rng.random(int(sizes.sum())))
                owners = np.repeat(np.arange(len(block), dtype=np.int32), sizes)
                columns = unit_counts(owners, drawn.clip(0, size - 1).astype(np.int32))
                write(build_user_counts(block, *columns, vocabulary_size=size))


def bayesgram(*words: str | Path) -> Run:
    """Run a command in a fresh process."""
    command = [sys.executable, "-m", "bayesgram", *map(str, words)]
    return run(command, {"PYTHONPATH": str(ROOT / "src")})


def measure(folder: Path, repeats: int, options: list[str]) -> list[dict[str, object]]:
    """Release both weeks with a series and without, in turns; return a row for each week."""
    ledger, series = folder / "year.ledger", folder / "weekly.series"
    rows: list[dict[str, object]] = []
    for week in (1, 2):
        release = ["release", folder / f"counts-{week}", "--vocab", folder / "vocab.parquet"]
        least: dict[str, Run] = {}
        for repeat in range(repeats):
            if week == 1:  # each repeat is the first release of a new series
                shutil.rmtree(series, ignore_errors=True)
                ledger.unlink(missing_ok=True)
                budget = ("--epsilon", "1", "--delta", "1e-7")
                bayesgram("ledger", "create", "--population", "people", *budget, ledger)
                bayesgram("series", "create", series, "--ledger", ledger, *budget)
            for name, budget in (
                ("alone", ["--epsilon", "0.12", "--delta", "1e-7"]),
                ("in_series", ["--series", str(series)]),
            ):
                output = folder / f"out-{name}-{week}-{repeat}"
                took = bayesgram(*release, *budget, *options, "-o", output)
                if name not in least or took.seconds < least[name].seconds:
                    least[name] = took
        alone, in_series = least["alone"], least["in_series"]
        state = sum(file.stat().st_size for file in series.iterdir())
        rows.append(
            {
                "week": week,
                "seconds_alone": round(alone.seconds, 1),
                "seconds_in_series": round(in_series.seconds, 1),
                "added_seconds": f"{in_series.seconds / alone.seconds - 1:+.0%}",
                "cpu_alone": round(alone.cpu, 1),
                "cpu_in_series": round(in_series.cpu, 1),
                "added_cpu": f"{in_series.cpu / alone.cpu - 1:+.0%}",
                "peak_mb_alone": round(alone.peak_mb),
                "peak_mb_in_series": round(in_series.peak_mb),
                "state_mb": round(state / 1e6, 1),
            }
        )
    return rows


def main() -> None:
    """Make counts, and measure."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--users", type=int, default=4_400_000)
    parser.add_argument("--size", type=int, default=5_000, help="n-grams of the vocabulary")
    parser.add_argument("--draws", type=float, default=9.0, help="n-grams that a user writes")
    parser.add_argument("--repeats", type=int, default=1)
    parser.add_argument("--clip-norm", help="Λ of the releases; else each chooses its own")
    parser.add_argument("--folder", type=Path, help="where to work")
    parser.add_argument("--make", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.make:
        make_counts(options.make, options.users, options.size, options.draws)
        return
    clip = ["--clip-norm", options.clip_norm] if options.clip_norm else []
    with tempfile.TemporaryDirectory(dir=options.folder) as name:
        numbers = {"--users": options.users, "--size": options.size, "--draws": options.draws}
        words = [str(word) for option in numbers.items() for word in option]
        run([sys.executable, __file__, "--make", name, *words], {"PYTHONPATH": str(ROOT / "src")})
        shown = {"users": options.users, "size": options.size, "draws": options.draws}
        for row in measure(Path(name), options.repeats, clip):
            print(json.dumps({**shown, **row}), flush=True)


if __name__ == "__main__":
    main()
