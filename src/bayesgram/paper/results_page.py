"""Run experiments into a folder: NAME.csv, NAME.svg and NAME.png of each, and one page over all.

The folder appears whole, or not at all. Every CSV carries its settings as columns, and the warning
that it is private. The page shows each figure, what the paper says, and what was measured. It
holds its pictures, opens offline, prints, and follows dark mode.
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
from bayesgram.paper.experiment import Assessment, Experiment, ExperimentRun
from bayesgram.paper.figures import EXPERIMENTS
from bayesgram.paper.harness import Cost, ResultRow, measure_cost
from bayesgram.paper.line_charts import line_points
from bayesgram.version import VERSION

READING_NOTE = """
<p>Numbers are medians of {seeds} seed{s}; bands go from the smallest to the largest. The noise is
seeded, so that the page can be made again: it is not the noise of a release. The paper never
states its δ. C = 1 below a million users and 10 from there on, W = users/1000, as in the paper.
What is marked * chose W, or S and ρ, by looking at private data; S is sought from 10⁻⁶, below the
range of the paper (10⁻³ to 10⁴), which flatters its mechanism where that is best. The ε of the
paper’s mechanism is its claim, not a guarantee (EMPIRICAL); those of Laplace and the posterior
mechanism are PROVED.</p>
"""
# The sign of a check, its CSS class and its tooltip.
CHECK_SIGNS = {True: ("✓", "reproduced", "holds"), False: ("✗", "not", "does not hold")}


@dataclass(frozen=True)
class ExperimentResult:
    """What an experiment measured, and what it took."""

    experiment: Experiment
    rows: list[ResultRow]
    assessment: Assessment
    cost: Cost


# --- The folder ---

INDEX = "index.html"
CONTENTS = (
    INDEX,
    *(f"{name}.{ending}" for name in EXPERIMENTS for ending in ("csv", "svg", "png")),
)
# With fewer, most figures are noise alone. Not measured.
MIN_USERS = 100
MIN_NGRAMS = 50


def run_experiments(
    names: Sequence[str], run: ExperimentRun, output: Path, *, force: bool = False
) -> list[ExperimentResult]:
    """Run these experiments into a folder, in the order of the paper.

    Args:
        names: Of `figures.EXPERIMENTS`.
        run: The data and the setting.
        output: The folder to write; private.
        force: Whether to replace an earlier folder of results.
    """
    if run.data.users < MIN_USERS or len(run.data.vocabulary) < MIN_NGRAMS:
        raise UsageError(
            Argument("users", str(run.data.users)),
            ", ",
            Argument("size", str(len(run.data.vocabulary))),
            f": the experiments need at least {MIN_USERS} users and {MIN_NGRAMS} "
            "n-grams; give more.",
        )
    with write_folder_atomically(output, contents=CONTENTS, force=force, private=True) as folder:
        results = [
            _run_experiment(experiment, run, folder)
            for name, experiment in EXPERIMENTS.items()
            if name in names
        ]
        document = render_page(results, folder, setting=run.describe(), seeds=len(run.seeds))
        (folder / INDEX).write_text(document, encoding="utf-8", newline="\n")
    return results


def _run_experiment(experiment: Experiment, run: ExperimentRun, folder: Path) -> ExperimentResult:
    with measure_cost() as cost:
        rows = experiment.rows(run)
    result = ExperimentResult(experiment, rows, experiment.assess(rows), cost)
    _write_rows(folder / f"{experiment.name}.csv", result, run)
    save(experiment.draw(rows, run.describe()), folder / experiment.name)
    return result


def _write_rows(path: Path, result: ExperimentResult, run: ExperimentRun) -> None:
    """Write one line for each number, with its settings."""
    experiment = result.experiment
    provenance = {
        "source": run.data.source,
        "quick": run.quick,
        "software": f"bayesgram {VERSION}",
        "warning": DISCLOSURE,
    }
    with path.open("w", newline="", encoding="utf-8") as file:
        writer: csv.DictWriter[str] | None = None
        for row in result.rows:
            label = {
                "experiment": experiment.name,
                "guarantee": row.method.guarantee,
                "oracle": row.method.is_oracle,
            }
            line = {
                **label,
                "measure": experiment.measure,
                **asdict(row),
                "method": row.method.value,
                **provenance,
            }
            if writer is None:
                writer = csv.DictWriter(file, line)
                writer.writeheader()
            writer.writerow(line)


def make_seeds(number: int) -> tuple[int, ...]:
    """Return the seeds 1, 2, 3, … of so many repetitions."""
    return tuple(range(1, 1 + check_int("seeds", number, 1, 1000, "the number of seeds")))


# --- The page ---


def render_page(
    results: Sequence[ExperimentResult], folder: Path, *, setting: str, seeds: int
) -> str:
    """Return the whole document; charts are read from the folder.

    Args:
        results: What was measured.
        folder: Where the pictures are.
        setting: A line about the data.
        seeds: How many seeds the medians are over.
    """
    title = "The paper's experiments, made again"
    subtitle = f"Ramadan, Withers, Orr (2021), with bayesgram {escape(VERSION)}. {escape(setting)}."
    warning = f"The numbers on this page are {escape(DISCLOSURE)}."
    parts = [
        f"{html_head(title)}<body><h1>{title}</h1>",
        f'<p class="dim">{subtitle}</p>',
        f'<p class="warning"><b>Private.</b> {warning}</p>',
        READING_NOTE.format(seeds=seeds, s="s" if seeds > 1 else ""),
        _summary(results),
        *(_section(result, folder) for result in results),
        "</body></html>\n",
    ]
    return "\n".join(parts)


def _summary(results: Sequence[ExperimentResult]) -> str:
    lines = [
        f'<tr><td><a href="#{r.experiment.name}">{escape(r.experiment.title)}</a></td>'
        f"<td>{_verdict(r.assessment)}</td><td>{format_seconds(r.cost.seconds)}</td>"
        f"<td>{r.cost.peak_bytes / 2**30:.1f} GiB</td></tr>"
        for r in results
    ]
    head = "<tr><th>experiment</th><th>finding</th><th>time</th><th>peak memory</th></tr>"
    return f'<div class="scroll"><table>{head}{"".join(lines)}</table></div>'


def _section(result: ExperimentResult, folder: Path) -> str:
    experiment = result.experiment
    name = experiment.name
    svg = (folder / f"{name}.svg").read_bytes()
    picture = f"data:image/svg+xml;base64,{base64.b64encode(svg).decode()}"
    checks = "".join(
        _check(check.sentence, holds=check.holds) for check in result.assessment.checks
    )
    remarks = "".join(f"<li>{escape(remark)}</li>" for remark in result.assessment.remarks)
    files = " · ".join(f'<a href="{name}.{end}">{name}.{end}</a>' for end in ("csv", "svg", "png"))
    cost = (
        f"{format_seconds(result.cost.seconds)}, at most {result.cost.peak_bytes / 2**30:.1f} GiB"
    )
    return "\n".join(
        [
            f'<section id="{name}"><h2>{escape(experiment.title)}</h2>',
            f"<p>{_verdict(result.assessment)}</p>",
            f"<blockquote>{escape(experiment.statement)}</blockquote><ul>{checks}{remarks}</ul>",
            f'<figure><img alt="{escape(experiment.title)}" src="{picture}">',
            f"<figcaption>{cost} · {files}</figcaption></figure>",
            f"<details><summary>Medians</summary>{_medians(result)}</details></section>",
        ]
    )


def _verdict(assessment: Assessment) -> str:
    verdict = assessment.verdict
    return f'<span class="verdict {verdict.split()[0]}">{verdict}</span>'


def _check(sentence: str, *, holds: bool) -> str:
    sign, colour, words = CHECK_SIGNS[holds]
    return f'<li><span class="mark {colour}" title="{words}">{sign}</span>{escape(sentence)}</li>'


def _medians(result: ExperimentResult) -> str:
    """Return tables of medians: methods down, positions along the axis across.

    K-anonymity has its own axis.
    """
    tables = []
    axes = (
        (result.experiment.axis,) if result.experiment.published else (result.experiment.axis, "k")
    )
    for axis in axes:
        points = line_points([row for row in result.rows if getattr(row, axis) is not None], axis)
        if points:
            columns = {
                (point.method, f"{point.x:,.10g}"): point.value
                for point in sorted(points, key=lambda point: point.x)
            }
            published = {
                (method.value, "the paper’s"): value
                for method, value in result.experiment.published.items()
            }
            tables.append(_table(axis, columns | published))
    return "".join(tables)


def _table(axis: str, values: dict[tuple[str, str], float]) -> str:
    places = list(dict.fromkeys(place for _, place in values))
    head = (
        f"<tr><th>{axis.replace('_', ' ')}</th>"
        + "".join(f"<th>{place}</th>" for place in places)
        + "</tr>"
    )
    lines = [
        f"<tr><td>{escape(method)}</td>"
        + "".join(f"<td>{_cell(values.get((method, place)))}</td>" for place in places)
        for method in dict.fromkeys(method for method, _ in values)
    ]
    return f'<div class="scroll"><table>{head}{"</tr>".join(lines)}</tr></table></div>'


def _cell(value: float | None) -> str:
    return "" if value is None else f"{value:.4g}"


def format_seconds(value: float) -> str:
    """Format a duration.

    >>> format_seconds(4.23), format_seconds(200)
    ('4.2 s', '3 min 20 s')
    """
    return f"{value:.1f} s" if value < 60 else f"{int(value // 60)} min {int(value % 60)} s"
