"""`make faults`: every call of every command fails once, and every command is killed at many
instants.

Prints a table of what was tried and what was found, and exits with 1 if anything was.
"""

import argparse
import random
import sys
import tempfile
from collections import Counter, defaultdict
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

from faults.harness import COMPILER, ERRORS, Fault, open_laboratory
from faults.scenarios import SCENARIOS

KILL = "kill"
STICKY = (
    "write",
    "read",
    "fsync",
    "rename",
    "mkdir",
    "unlink",
)  # a disk that stays full, or is gone for good


def list_faults(scenario, reference, kinds, stride=1):
    """Yield a fault at every call of these kinds, or at every `stride`-th one."""
    for kind in kinds:
        for at in range(1, reference.counts["any" if kind == KILL else kind] + 1, stride):
            yield scenario, Fault("any", at, kills=True) if kind == KILL else Fault(kind, at)
            if kind in STICKY:
                yield scenario, Fault(kind, at, stays=True)


def kills_at_instants(references, number, rng):
    """Yield kills by the clock, spread over all commands."""
    for _ in range(number):
        scenario = rng.choice(SCENARIOS)
        yield scenario, Fault("clock", kill_after=rng.uniform(0, references[scenario.name].seconds))


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="", help="commands whose name begins so")
    parser.add_argument(
        "--kinds",
        default=",".join([*ERRORS, KILL]),
        help="what happens at a call, with commas between",
    )
    parser.add_argument("--kills", type=int, default=1000, help="kills by the clock")
    parser.add_argument("--stride", type=int, default=1, help="try every so many calls only")
    parser.add_argument("--seed", type=int, default=13)
    parser.add_argument("--jobs", type=int, default=2)
    options = parser.parse_args()
    if not COMPILER:
        sys.exit("faults need Linux and a C compiler (cc)")
    with tempfile.TemporaryDirectory() as folder:
        sys.exit(bool(try_all(options, Path(folder))))


def try_all(options, folder):
    """Run everything that the options name; return the number of runs with a problem."""
    runs = []

    def work(job):
        (folder / str(job)).mkdir()
        with open_laboratory(folder / str(job)) as lab:
            faults = list(plan(options, lab.references))[job :: options.jobs]
            for scenario, fault in faults:
                outcome = attempt(lab, scenario, fault)
                runs.append((scenario, fault, outcome))
                for problem in outcome.problems:
                    print(
                        f"{scenario.name}: {fault}: {problem}\n    exit {outcome.code}: {outcome.message}",
                        flush=True,
                    )

    with ThreadPoolExecutor(options.jobs) as pool:
        list(pool.map(work, range(options.jobs)))
    return print_table(runs)


def attempt(lab, scenario, fault):
    """One fault; a kill that came too late is tried again, earlier."""
    outcome = lab.attempt(scenario, fault)
    if fault.kill_after is None or outcome.crashed or outcome.problems:
        return outcome
    return attempt(lab, scenario, replace(fault, kill_after=0.7 * fault.kill_after))


def plan(options, references):
    kinds = [kind for kind in options.kinds.split(",") if kind]
    for scenario in SCENARIOS:
        if scenario.name.startswith(options.only):
            yield from list_faults(scenario, references[scenario.name], kinds, options.stride)
    yield from kills_at_instants(references, options.kills, random.Random(options.seed))


def print_table(runs):
    """Print what was tried and how it ended; return the number of runs with a problem."""
    run_counts = Counter()
    codes = defaultdict(Counter)
    findings = Counter()
    for scenario, fault, outcome in runs:
        key = scenario.name, "kill " * fault.is_kill + fault.kind + " for good" * fault.stays
        run_counts[key] += 1
        codes[key]["crashed" if outcome.crashed and not fault.is_kill else outcome.code] += 1
        findings[key] += bool(outcome.problems)
    print(f"\n{'command':<24}{'what fails':<18}{'runs':>6}{'findings':>10}  exit codes")
    order = [scenario.name for scenario in SCENARIOS]
    for key in sorted(run_counts, key=lambda key: (order.index(key[0]), key[1])):
        exit_codes = ", ".join(
            f"{code}: {number}" for code, number in sorted(codes[key].items(), key=str)
        )
        print(f"{key[0]:<24}{key[1]:<18}{run_counts[key]:>6}{findings[key]:>10}  {exit_codes}")
    kills = sum(number for key, number in run_counts.items() if key[1].startswith("kill"))
    print(f"\n{run_counts.total() - kills} faults, {kills} kills, {findings.total()} findings")
    return findings.total()


if __name__ == "__main__":
    main()
