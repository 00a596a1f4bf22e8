"""Make experiments: rows to NAME.csv, pictures to NAME.svg and NAME.png, and index.html over all of them.

The folder appears whole, or not at all. Every CSV carries its settings as columns, and the warning that it is private.
"""

import csv
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from bayesgram.audit.utility import DISCLOSURE
from bayesgram.charts import save
from bayesgram.errors import UsageError, whole_number
from bayesgram.experiments.reproduce.experiment import Experiment, Run
from bayesgram.experiments.reproduce.figure_1 import FIGURE_1
from bayesgram.experiments.reproduce.figure_2 import FIGURE_2
from bayesgram.experiments.reproduce.figure_3 import FIGURE_3
from bayesgram.experiments.reproduce.figure_4 import FIGURE_4
from bayesgram.experiments.reproduce.figure_5 import FIGURE_5
from bayesgram.experiments.reproduce.figure_6 import FIGURE_6
from bayesgram.experiments.reproduce.meter import metered
from bayesgram.experiments.reproduce.page import Result, page
from bayesgram.experiments.reproduce.table_1 import TABLE_1
from bayesgram.files.writing import write_folder_atomically
from bayesgram.version import VERSION

EXPERIMENTS = {e.name: e for e in (FIGURE_1, FIGURE_2, FIGURE_3, FIGURE_4, FIGURE_5, FIGURE_6, TABLE_1)}
INDEX = "index.html"
CONTENTS = (INDEX, *(f"{name}.{ending}" for name in EXPERIMENTS for ending in ("csv", "svg", "png")))
FEWEST_USERS, FEWEST_NGRAMS = 100, 50  # below, most figures are noise alone


def make(names: Sequence[str], run: Run, output: Path, *, force: bool = False) -> list[Result]:
    """Make these experiments into a folder, in the order of the paper."""
    if run.data.users < FEWEST_USERS or len(run.data.vocabulary) < FEWEST_NGRAMS:
        raise UsageError(
            f"users={run.data.users}, size={len(run.data.vocabulary)}: the experiments need at least {FEWEST_USERS}"
            f" users and {FEWEST_NGRAMS} n-grams; give more."
        )
    with write_folder_atomically(output, contents=CONTENTS, force=force, private=True) as folder:
        results = [_made(experiment, run, folder) for name, experiment in EXPERIMENTS.items() if name in names]
        document = page(results, folder, setting=run.describe(), seeds=len(run.seeds))
        (folder / INDEX).write_text(document, encoding="utf-8")
    return results


def _made(experiment: Experiment, run: Run, folder: Path) -> Result:
    with metered() as cost:
        rows = experiment.rows(run)
    result = Result(experiment, rows, experiment.finding(rows), cost)
    _write_rows(folder / f"{experiment.name}.csv", result, run)
    save(experiment.draw(rows, run.describe()), folder / experiment.name)
    return result


def _write_rows(path: Path, result: Result, run: Run) -> None:
    """One line a number, its settings beside it."""
    name, measure = result.experiment.name, result.experiment.measure
    about = {"source": run.data.source, "quick": run.quick, "software": f"bayesgram {VERSION}", "warning": DISCLOSURE}
    with path.open("w", newline="", encoding="utf-8") as file:
        writer: csv.DictWriter[str] | None = None
        for row in result.rows:
            label = {"experiment": name, "guarantee": row.method.guarantee, "oracle": row.method.oracle}
            line = {**label, "measure": measure, **asdict(row), "method": row.method.value, **about}
            if writer is None:
                writer = csv.DictWriter(file, line)
                writer.writeheader()
            writer.writerow(line)


def seeds_of(number: int) -> tuple[int, ...]:
    """1, 2, 3, …"""
    return tuple(range(1, 1 + whole_number("seeds", number, 1, 1000, "the number of seeds")))
