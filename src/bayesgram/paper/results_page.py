"""One page for a person: each figure, what the paper says, what was found. Opens offline, prints, follows dark mode.

In:  results.   Out: HTML with the pictures inside it. Computes nothing but medians for its tables.

Make experiments: rows to NAME.csv, pictures to NAME.svg and NAME.png, and index.html over all of them.

The folder appears whole, or not at all. Every CSV carries its settings as columns, and the warning that it is private.
"""

import base64
import csv
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from html import escape
from pathlib import Path

from bayesgram.audit.evaluation import DISCLOSURE
from bayesgram.charts import save
from bayesgram.errors import Argument, UsageError, check_int
from bayesgram.io.atomic import write_folder_atomically
from bayesgram.pages import html_head
from bayesgram.paper.experiment import Experiment, Finding, Run
from bayesgram.paper.figure_1 import FIGURE_1
from bayesgram.paper.figure_2 import FIGURE_2
from bayesgram.paper.figure_3 import FIGURE_3
from bayesgram.paper.figure_4 import FIGURE_4
from bayesgram.paper.figure_5 import FIGURE_5
from bayesgram.paper.figure_6 import FIGURE_6
from bayesgram.paper.harness import Cost, Row, metered
from bayesgram.paper.line_charts import marks
from bayesgram.paper.table_1 import TABLE_1
from bayesgram.version import VERSION

READING = """
<p>Numbers are medians of {seeds} seed{s}; bands go from the smallest to the largest. The noise is seeded, so that the
page can be made again: it is not the noise of a release. The paper never states its δ. C = 1 below a million users and
10 from there on, W = users/1000, as in the paper. What is marked * chose W, or S and ρ, by looking at private data;
S is sought from 10⁻⁶, below the range of the paper (10⁻³ to 10⁴), which flatters its mechanism where that is best. The
ε of the paper’s mechanism is its claim, not a guarantee (EMPIRICAL); those of Laplace and the posterior mechanism are
PROVED.</p>
"""
MARKS = {True: ("✓", "reproduced", "holds"), False: ("✗", "not", "does not hold")}


@dataclass(frozen=True)
class Result:
    """What an experiment gave."""

    experiment: Experiment
    rows: list[Row]
    finding: Finding
    cost: Cost


def page(results: Sequence[Result], folder: Path, *, setting: str, seeds: int) -> str:
    """The whole document; pictures are read from the folder."""
    title = "The paper's experiments, made again"
    parts = [
        f"{html_head(title)}<body><h1>{title}</h1>",
        f'<p class="dim">Ramadan, Withers, Orr (2021), with bayesgram {escape(VERSION)}. {escape(setting)}.</p>',
        f'<p class="warning"><b>Private.</b> The numbers on this page are {escape(DISCLOSURE)}.</p>',
        READING.format(seeds=seeds, s="s" if seeds > 1 else ""),
        _summary(results),
        *(_section(result, folder) for result in results),
        "</body></html>\n",
    ]
    return "\n".join(parts)


def _summary(results: Sequence[Result]) -> str:
    lines = [
        f'<tr><td><a href="#{r.experiment.name}">{escape(r.experiment.title)}</a></td><td>{_verdict(r.finding)}</td>'
        f"<td>{seconds(r.cost.seconds)}</td><td>{r.cost.peak_bytes / 2**30:.1f} GiB</td></tr>"
        for r in results
    ]
    heading = "<tr><th>experiment</th><th>finding</th><th>time</th><th>peak memory</th></tr>"
    return f'<div class="scroll"><table>{heading}{"".join(lines)}</table></div>'


def _section(result: Result, folder: Path) -> str:
    experiment, name = result.experiment, result.experiment.name
    picture = base64.b64encode((folder / f"{name}.svg").read_bytes()).decode()
    checks = "".join(_check(check.found, holds=check.holds) for check in result.finding.checks)
    remarks = "".join(f"<li>{escape(remark)}</li>" for remark in result.finding.remarks)
    files = " · ".join(f'<a href="{name}.{end}">{name}.{end}</a>' for end in ("csv", "svg", "png"))
    cost = f"{seconds(result.cost.seconds)}, at most {result.cost.peak_bytes / 2**30:.1f} GiB"
    return "\n".join(
        [
            f'<section id="{name}"><h2>{escape(experiment.title)}</h2>',
            f"<p>{_verdict(result.finding)}</p>",
            f"<blockquote>{escape(experiment.statement)}</blockquote><ul>{checks}{remarks}</ul>",
            f'<figure><img alt="{escape(experiment.title)}" src="data:image/svg+xml;base64,{picture}">',
            f"<figcaption>{cost} · {files}</figcaption></figure>",
            f"<details><summary>Medians</summary>{_medians(result)}</details></section>",
        ]
    )


def _verdict(finding: Finding) -> str:
    return f'<span class="verdict {finding.verdict.split()[0]}">{finding.verdict}</span>'


def _check(found: str, *, holds: bool) -> str:
    sign, colour, words = MARKS[holds]
    return f'<li><span class="mark {colour}" title="{words}">{sign}</span>{escape(found)}</li>'


def _medians(result: Result) -> str:
    """Mechanisms down, places along the axis across; k-anonymity has its own axis."""
    tables = []
    axes = (
        (result.experiment.axis,) if result.experiment.published else (result.experiment.axis, "k")
    )
    for axis in axes:
        found = marks([row for row in result.rows if getattr(row, axis) is not None], axis)
        if found:
            columns = {
                (mark.method, f"{mark.x:,.10g}"): mark.value
                for mark in sorted(found, key=lambda mark: mark.x)
            }
            theirs = {
                (method.value, "the paper’s"): value
                for method, value in result.experiment.published.items()
            }
            tables.append(_table(axis, columns | theirs))
    return "".join(tables)


def _table(axis: str, values: dict[tuple[str, str], float]) -> str:
    places = list(dict.fromkeys(place for _, place in values))
    heading = (
        f"<tr><th>{axis.replace('_', ' ')}</th>"
        + "".join(f"<th>{place}</th>" for place in places)
        + "</tr>"
    )
    lines = [
        f"<tr><td>{escape(method)}</td>"
        + "".join(f"<td>{_cell(values.get((method, place)))}</td>" for place in places)
        for method in dict.fromkeys(method for method, _ in values)
    ]
    return f'<div class="scroll"><table>{heading}{"</tr>".join(lines)}</tr></table></div>'


def _cell(value: float | None) -> str:
    return "" if value is None else f"{value:.4g}"


def seconds(value: float) -> str:
    """For a person.

    >>> seconds(4.23), seconds(200)
    ('4.2 s', '3 min 20 s')
    """
    return f"{value:.1f} s" if value < 60 else f"{int(value // 60)} min {int(value % 60)} s"


EXPERIMENTS = {
    e.name: e for e in (FIGURE_1, FIGURE_2, FIGURE_3, FIGURE_4, FIGURE_5, FIGURE_6, TABLE_1)
}
INDEX = "index.html"
CONTENTS = (
    INDEX,
    *(f"{name}.{ending}" for name in EXPERIMENTS for ending in ("csv", "svg", "png")),
)
FEWEST_USERS, FEWEST_NGRAMS = 100, 50  # below, most figures are noise alone


def make(names: Sequence[str], run: Run, output: Path, *, force: bool = False) -> list[Result]:
    """Make these experiments into a folder, in the order of the paper."""
    if run.data.users < FEWEST_USERS or len(run.data.vocabulary) < FEWEST_NGRAMS:
        raise UsageError(
            Argument("users", str(run.data.users)),
            ", ",
            Argument("size", str(len(run.data.vocabulary))),
            f": the experiments need at least {FEWEST_USERS} users and {FEWEST_NGRAMS} "
            "n-grams; give more.",
        )
    with write_folder_atomically(output, contents=CONTENTS, force=force, private=True) as folder:
        results = [
            _made(experiment, run, folder)
            for name, experiment in EXPERIMENTS.items()
            if name in names
        ]
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
    about = {
        "source": run.data.source,
        "quick": run.quick,
        "software": f"bayesgram {VERSION}",
        "warning": DISCLOSURE,
    }
    with path.open("w", newline="", encoding="utf-8") as file:
        writer: csv.DictWriter[str] | None = None
        for row in result.rows:
            label = {
                "experiment": name,
                "guarantee": row.method.guarantee,
                "oracle": row.method.oracle,
            }
            line = {**label, "measure": measure, **asdict(row), "method": row.method.value, **about}
            if writer is None:
                writer = csv.DictWriter(file, line)
                writer.writeheader()
            writer.writerow(line)


def seeds_of(number: int) -> tuple[int, ...]:
    """1, 2, 3, …"""
    return tuple(range(1, 1 + check_int("seeds", number, 1, 1000, "the number of seeds")))
