"""How fast Bayesgram is beside the tools one would otherwise take.

All in one run, in turns, each in its own process.

    make bench TEXT=posts.parquet                                    # the whole page, into docs/
    python benchmarks/speed.py vocabulary --megabytes 10 --repeats 2 # one task, to look at
    python benchmarks/speed.py vocabulary counts --text posts.parquet --label "Reddit posts" --docs docs

Tasks: vocabulary, counts, gamma, clip, noise, histogram, grid, growth, startup, scale; `all` is
every one but scale. `page` is the whole page in one run: all tasks, on 100 MB and 1 GB of generated
text, on 1 GB of random words, and on the real text of --text, if any. Works in --folder
(build/bench), where generated data stays for the next run.
With --docs FOLDER the results go to FOLDER/benchmarks.json, and FOLDER/benchmarks.md is written
anew: `page` replaces all results, other tasks stand beside the results that are there. Peers are
looked for in .venv-bench (make bench-peers); those that are missing are said to be.
"""

import argparse
import os
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import page
from bench import HERE, OPENDP, PIPELINEDP, ROOT, TABLES, Bench, Result
from machine import machine, versions
from measure import CommandFailedError
from tasks_of_counts import clip, gamma, grid, histogram, noise
from tasks_of_text import counts, growth, scale, startup, vocabulary

TASKS: dict[str, Callable[[Bench], Result]] = {
    task.__name__: task
    for task in (vocabulary, counts, gamma, clip, noise, histogram, grid, growth, startup, scale)
}


PAGE = "page"


class Measurement(NamedTuple):
    """A task, what it works on, and what its title says of that."""

    task: str
    bench: Bench
    label: str | None


def list_measurements(bench: Bench) -> list[Measurement]:
    """Return all measurements of the page."""
    text_tasks = ("vocabulary", "counts")
    generated = replace(bench, text=None, hostile=False)
    large = replace(generated, megabytes=1000, repeats=max(bench.repeats - 1, 1))
    random_words = replace(large, hostile=True)
    growing = replace(random_words, repeats=1)
    return [
        *(Measurement(task, generated, None) for task in TASKS if task != "scale"),
        *(Measurement(task, bench, "real text") for task in text_tasks if bench.text),
        *(Measurement(task, large, "1 GB, generated") for task in text_tasks),
        *(Measurement(task, random_words, "1 GB, random words") for task in text_tasks),
        Measurement("growth", growing, "random words, trigrams alone"),
        Measurement("scale", replace(generated, repeats=1), None),
    ]


def main() -> None:
    """Run tasks, show them, write the page."""
    options = _options()
    folder = options.folder.absolute()
    folder.mkdir(parents=True, exist_ok=True)
    bench = Bench(
        folder,
        options.megabytes,
        options.repeats,
        options.users,
        options.scale_users,
        options.text,
        options.hostile,
        (options.user_column, options.text_column),
        (options.counts, options.vocab) if options.counts else None,
        tuple(options.noise_sizes),
    )
    if PAGE in options.tasks:
        measurements = list_measurements(bench)
    else:
        is_all = "all" in options.tasks
        names = [name for name in TASKS if name != "scale"] if is_all else options.tasks
        if options.scale and "scale" not in names:
            names = [*names, "scale"]
        measurements = [Measurement(name, bench, options.label) for name in names]
    about = {
        "machine": machine(),
        "versions": versions(HERE / "python", TABLES, OPENDP, PIPELINEDP),
    }
    results: dict[str, Result] = {}
    for task, task_bench, label in measurements:
        key = f"{task}@{label}" if label else task
        print(f"{key} ...", file=sys.stderr, flush=True)
        before = os.getloadavg()[0]
        try:
            found = TASKS[task](task_bench)
        except CommandFailedError as failure:
            print(failure, file=sys.stderr)
            continue
        load = [round(before, 2), round(os.getloadavg()[0], 2)]
        text = "random" if task_bench.hostile else "real" if task_bench.text else "generated"
        measured = {"repeats": task_bench.repeats, "load": load, "text": text}
        results[key] = {**found, **about, **measured}
        print("\n".join(page.section(key, results[key])), flush=True)
        if options.docs:
            page.write(
                options.docs, results, drawn_by=HERE / "python", replace_all=PAGE in options.tasks
            )
    if len(results) < len(measurements):
        sys.exit(1)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("tasks", nargs="+", choices=[*TASKS, "all", PAGE], metavar="TASK")
    parser.add_argument(
        "--megabytes",
        type=float,
        default=100,
        help="of text; growth goes from an eighth of it to all",
    )
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument(
        "--text", type=Path, help="a Parquet file to read instead of generated text"
    )
    parser.add_argument(
        "--hostile", action="store_true", help="random words, so that most n-grams are new"
    )
    parser.add_argument(
        "--label", help="what to add to the titles, so that results stand beside others of the task"
    )
    parser.add_argument("--user-column", default="user")
    parser.add_argument("--text-column", default="text")
    parser.add_argument(
        "--users", type=int, default=1_200_000, help="of the made-up crowd (gamma, clip, grid)"
    )
    parser.add_argument(
        "--counts", type=Path, help="counts to take instead of the crowd; needs --vocab"
    )
    parser.add_argument("--vocab", type=Path)
    parser.add_argument("--noise-sizes", type=int, nargs="+", default=[50_000, 1_000_000])
    parser.add_argument(
        "--scale", action="store_true", help="also 4.4M users: ten minutes, 3 GB of disk"
    )
    parser.add_argument("--scale-users", type=int, default=4_400_000)
    parser.add_argument("--folder", type=Path, default=ROOT / "build" / "bench")
    parser.add_argument("--docs", type=Path, help="write benchmarks.md and benchmarks.json there")
    options = parser.parse_args()
    if bool(options.counts) != bool(options.vocab):
        parser.error("--counts and --vocab: give both or none.")
    return options


if __name__ == "__main__":
    main()
