"""Time and peak memory of `release` and `evaluate`, for counts of more and more made-up users.

    python benchmarks/memory.py --users 500000 1000000 4400000
    python benchmarks/memory.py --users 1000000 --before ../older/src    # in turns with another tree

Counts are drawn straight into a counts folder, some users at a time: n-grams by Zipf's law, about
45 of 50,000 a user. Works in a folder of its own below --folder, which is removed at the end.
Prints a line of JSON for each size.
"""

import argparse
import json
import sys
import tempfile
from pathlib import Path
from typing import Any

from measure import Run, run

ROOT = Path(__file__).parent.parent
MAKER = Path(__file__).parent / "contestants" / "data.py"


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
    return {
        "seconds": round(took.seconds, 1),
        "cpu": round(took.cpu, 1),
        "peak_mb": round(took.peak_mb),
    }


def compared(folder: Path, trees: dict[str, Path], repeats: int) -> dict[str, Any]:
    """All commands of all trees, in turns; the least that each took."""
    found: dict[str, Any] = {}
    for _ in range(repeats):
        for tree, sources in trees.items():
            for name, command in commands(folder, folder / f"release-{tree}").items():
                took = _row(measured(sources, command))
                before = found.setdefault(f"{name}, {tree}", took)
                found[f"{name}, {tree}"] = {
                    key: min(value, before[key]) for key, value in took.items()
                }
    if len(trees) > 1:
        first, second = (
            (folder / f"release-{tree}" / "distribution.parquet").read_bytes() for tree in trees
        )
        found["same_bytes"] = first == second
    return found


def main() -> None:
    """Make counts of each size, and measure."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--users", type=int, nargs="+", default=[500_000])
    parser.add_argument(
        "--folder", type=Path, help="where to work; the system's temporary folder unless given"
    )
    parser.add_argument("--before", type=Path, help="src of another tree, to compare with")
    parser.add_argument("--repeats", type=int, default=1)
    options = parser.parse_args()
    trees = {"before": options.before.absolute()} if options.before else {}
    trees["now"] = ROOT / "src"
    for users in options.users:
        with tempfile.TemporaryDirectory(dir=options.folder) as name:
            maker = [sys.executable, str(MAKER), "drawn", name, "--users", str(users)]
            size = run(maker, {"PYTHONPATH": str(ROOT / "src")}).said
            print(json.dumps({**size, **compared(Path(name), trees, options.repeats)}), flush=True)


if __name__ == "__main__":
    main()
