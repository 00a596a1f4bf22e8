"""How long commands take where nothing is compiled yet, beside how long they take from then on.

    python benchmarks/first_run.py [--repeats 5] [--users 20000] [--sentences 100000] [--commands vocab count ...]

Every command is run as a person would, on the data of `bayesgram generate`: first with an empty
cache of kernels of its own (what it takes if it is the first command ever), then again with that
cache. Python keeps what it compiled of modules, as it does for people, whatever
PYTHONDONTWRITEBYTECODE says here. Limit it to two cores with `taskset -c 0,1`.
"""

import argparse
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import median
from time import perf_counter

SOURCES = ["articles=data/articles.txt.gz", "chat=data/chat.txt.gz"]
BUDGET = ["--epsilon", "1", "--delta", "1e-7"]
COMMANDS = {
    "vocab": [
        "vocab",
        *SOURCES,
        "--orders",
        "1,2,3",
        "--size",
        "10000",
        "--force",
        "-o",
        "vocab.parquet",
    ],
    "count": ["count", "data/messages", "--vocab", "vocab.parquet", "--force", "-o", "counts"],
    "release": ["release", "counts", "--vocab", "vocab.parquet", *BUDGET, "--force", "-o", "out"],
    "report": ["report", "out", "--vocab", "vocab.parquet", "--force", "-o", "report.html"],
    "export": ["export", "out", "--format", "model", "--force", "-o", "model"],
    "predict": ["predict", "model", "thank you"],
    "predict of a release": ["predict", "out", "thank you"],
}


def seconds(words: list[str], folder: Path, cache: str) -> float:
    """How long one command takes."""
    begun = perf_counter()
    command = [sys.executable, "-m", "bayesgram", *words, "--quiet"]
    environment = {**os.environ, "NUMBA_CACHE_DIR": cache, "PYTHONDONTWRITEBYTECODE": ""}
    done = subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, check=False
    )
    if done.returncode:
        sys.exit(f"{words[0]}: {done.stderr}")
    return perf_counter() - begun


def line(name: str, folder: Path, repeats: int) -> str:
    """A row of the table: medians, and the ratio of first runs to later ones."""
    first, later = [], []
    for _ in range(repeats):
        with tempfile.TemporaryDirectory() as cache:
            first.append(seconds(COMMANDS[name], folder, cache))
            later += [seconds(COMMANDS[name], folder, cache) for _ in range(3)]
    ratio = median(first) / median(later)
    return f"| {name} | {median(first):.2f} s | {median(later):.2f} s | {ratio:.1f} |"


def main() -> None:
    """Print a table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--users", default="20000")
    parser.add_argument("--sentences", default="100000")
    parser.add_argument("--commands", nargs="+", choices=COMMANDS, default=list(COMMANDS))
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as name, tempfile.TemporaryDirectory() as cache:
        folder = Path(name)
        seconds(
            ["generate", "--users", asked.users, "--sentences", asked.sentences, "-o", "data"],
            folder,
            cache,
        )
        print("| command | first run | later runs | ratio |\n|---|---|---|---|")
        for command, words in COMMANDS.items():
            if command in asked.commands:
                print(line(command, folder, asked.repeats), flush=True)
            else:
                seconds(words, folder, cache)


if __name__ == "__main__":
    main()
