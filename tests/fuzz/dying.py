"""Targets that end their process, for the runner's own test: `python -m fuzz.dying`, with the
options of a child.
"""

import ctypes
import sys
import time
from pathlib import Path
from random import Random

from bayesgram.errors import UsageError
from fuzz.runner import Board, Plan, child, watch
from fuzz.target import Target, must


def check(data: bytes, folder: Path) -> None:
    """Of ten inputs, one each is refused, wrong, fatal and endless."""
    match data:
        case b"1":
            raise UsageError("refused")
        case b"2":
            must(False, "wrong")
        case b"3":
            ctypes.string_at(0)
        case b"4":
            time.sleep(3600)


def digit(random: Random, seeds: object) -> bytes:
    """Any digit; the runner's test looks for all of them."""
    return str(random.randrange(10)).encode()


SEED = "104"  # of which the first ten inputs have one of each
TARGETS = [Target("dying", 10, lambda: [b"0"], check, digit)]


def main() -> None:
    """As a child, what `watch` says; else its parent, whose table goes to stdout."""
    given = dict(option.removeprefix("--").split("=", 1) for option in sys.argv[1:])
    plan = Plan(
        SEED, float(given.get("seconds", 300)), 10, Path(given["findings"]), still_seconds=4
    )
    if "child" in given:
        first = [int(part) for part in given["first"].split(",")]
        board = Board(Path(given["board"]), len(TARGETS), new=False)
        child(TARGETS, plan, board, first, int(given["child"]), int(given["of"]))
        return
    command = [sys.executable, "-m", "fuzz.dying", f"--findings={plan.findings}"]
    sys.stdout.write(f"{watch(TARGETS, plan, command, 1)}\n")


if __name__ == "__main__":
    main()
