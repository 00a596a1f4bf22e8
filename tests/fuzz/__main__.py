"""Search for bad input: `make fuzz`, or `PYTHONPATH=tests python -m fuzz --help`."""

import argparse
import secrets
import sys
from pathlib import Path

from fuzz.every import every_target
from fuzz.runner import Board, Plan, child, watch
from fuzz.target import scratch


def main() -> int:
    """Run, and tell; 1 if something was found."""
    asked = _parser().parse_args()
    known = every_target()
    targets = [
        target for target in known if target.name in (asked.targets or target.name).split(",")
    ]
    if asked.number is not None or asked.file:
        return _replay(targets[0], asked)
    plan = Plan(asked.seed, asked.seconds, asked.inputs, Path(asked.findings))
    if asked.child is not None:
        first = [int(part) for part in asked.first.split(",")]
        child(
            targets,
            plan,
            Board(Path(asked.board), len(targets), new=False),
            first,
            asked.child,
            asked.of,
        )
        return 0
    sys.stdout.write(f"seed {plan.seed}, {asked.processes} processes, at most {plan.seconds:g} s\n")
    sys.stdout.flush()
    options = [f"--seed={plan.seed}", f"--inputs={plan.inputs}", f"--findings={plan.findings}"]
    command = [
        sys.executable,
        "-m",
        "fuzz",
        *options,
        *([f"--targets={asked.targets}"] if asked.targets else []),
    ]
    table = watch(targets, plan, command, asked.processes)
    return _tell([target.name for target in targets], table)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser("fuzz", description=__doc__)
    parser.add_argument("--seconds", type=float, default=300, help="stop after so long")
    parser.add_argument("--inputs", type=int, default=10**9, help="or after about so many inputs")
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument(
        "--seed", default=secrets.token_hex(4), help="the same seed gives the same inputs"
    )
    parser.add_argument("--targets", help="names, separated by commas; all if left out")
    parser.add_argument(
        "--findings", default="fuzz-findings", help="the folder for inputs that led to something"
    )
    parser.add_argument(
        "--number", type=int, help="run this one input of the seed, in this process"
    )
    parser.add_argument("--file", help="run this input, in this process")
    for hidden in ("--child", "--of"):
        parser.add_argument(hidden, type=int, help=argparse.SUPPRESS)
    for hidden in ("--board", "--first"):
        parser.add_argument(hidden, help=argparse.SUPPRESS)
    return parser


def _replay(target, asked) -> int:
    data = Path(asked.file).read_bytes() if asked.file else target.input(asked.seed, asked.number)
    sys.stdout.write(f"{target.name}: {len(data)} bytes: {data[:300]!r}\n")
    with scratch() as folder:
        sys.stdout.write("read\n" if target.run(data, Path(folder)) else "refused\n")
    return 0


def _tell(names: list[str], table: list[list[int]]) -> int:
    sys.stdout.write(f"{'target':<14}{'inputs':>10}{'read':>10}{'refused':>10}{'findings':>10}\n")
    for name, row in zip(
        [*names, "all"], [*table, [sum(column) for column in zip(*table, strict=True)]], strict=True
    ):
        sys.stdout.write(
            f"{name:<14}{sum(row):>10,}" + "".join(f"{number:>10,}" for number in row) + "\n"
        )
    return int(
        any(row[2] for row in table) or not all(map(sum, table))
    )  # a target without an input proves nothing


if __name__ == "__main__":
    sys.exit(main())
