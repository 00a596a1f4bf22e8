"""Time and memory of `bayesgram discover`, by the number of made-up people.

    python benchmarks/discovery_speed.py [--users 100000,1000000,4400000] [--rounds 1,10] [--memory 1GB] [--scratch DIR]

Makes the people of `bayesgram generate` and a vocabulary of orders 1 to 3 (10,000 n-grams each),
then runs the command in a process of its own. Prints bytes of text, seconds, processor seconds, MB
of text a second and peak memory.
"""

import argparse
import shutil
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

import measure


def bytes_of_text(messages: Path) -> int:
    """How much people wrote, in a process of its own, so that this one stays small."""
    script = """if True:
        import sys
        from pathlib import Path
        import pyarrow.compute as pc
        import pyarrow.parquet as pq
        files = map(pq.ParquetFile, Path(sys.argv[1]).iterdir())
        sizes = (pc.sum(pc.binary_length(batch["text"])).as_py() for file in files for batch in file.iter_batches())
        print('{"bytes":', sum(sizes), "}")
    """
    return int(measure.run([sys.executable, "-c", script, str(messages)]).said["bytes"])


def command(*arguments: object) -> list[str]:
    """A command of ours."""
    return [sys.executable, "-m", "bayesgram", *map(str, arguments)]


def main(arguments: Sequence[str] | None = None) -> None:
    """Print a row for each size and number of rounds."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--users", default="100000,1000000,4400000")
    parser.add_argument("--rounds", default="1,10")
    parser.add_argument("--memory", default="1GB")
    parser.add_argument("--scratch")
    options = parser.parse_args(arguments)
    for users in options.users.split(","):
        folder = Path(tempfile.mkdtemp(dir=options.scratch))
        try:
            measure.run(
                command("generate", "--users", users, "--sentences", 100_000, "-o", folder / "data")
            )
            sources = [f"{name}={folder}/data/{name}.txt.gz" for name in ("articles", "chat")]
            listed = ["--orders", "1,2,3", "--size", 10_000, "-o", folder / "vocab.parquet"]
            measure.run(command("vocab", *sources, *listed))
            written = bytes_of_text(folder / "data" / "messages")
            for rounds in options.rounds.split(","):
                given = [
                    folder / "data" / "messages",
                    "--vocab",
                    folder / "vocab.parquet",
                    "--epsilon",
                    1,
                ]
                more = [
                    "--rounds",
                    rounds,
                    "--memory",
                    options.memory,
                    "--force",
                    "-o",
                    folder / "found",
                ]
                try:
                    took = measure.run(command("discover", *given, *more))
                except measure.CommandFailedError as failure:
                    print(
                        f"{users} users, rounds {rounds}: {str(failure).splitlines()[-1]}",
                        flush=True,
                    )
                    continue
                speed, size = written / took.seconds / 1e6, written / 1e6
                told = f"{took.seconds:.1f} s, {took.cpu:.1f} s of processors, {speed:.1f} MB/s, {took.peak_mb:.0f} MB"
                print(
                    f"{int(users):,} users, {size:,.0f} MB of text, rounds {rounds}: {told}",
                    flush=True,
                )
        finally:
            shutil.rmtree(folder)


if __name__ == "__main__":
    main()
