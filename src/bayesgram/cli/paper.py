"""bayesgram reproduce: the paper's figures and table."""

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from bayesgram.cli import console, options
from bayesgram.errors import UsageError

if TYPE_CHECKING:
    from bayesgram.paper.harness import ExperimentData
    from bayesgram.paper.results_page import ExperimentResult

PAPER_USERS, PAPER_SIZE, PAPER_SEEDS = 4_000_000, 50_000, 5
QUICK_USERS, QUICK_SIZE, QUICK_SEEDS = 100_000, 5_000, 3


class Name(StrEnum):
    """The figures and the table."""

    FIGURE_1 = "figure-1"
    FIGURE_2 = "figure-2"
    FIGURE_3 = "figure-3"
    FIGURE_4 = "figure-4"
    FIGURE_5 = "figure-5"
    FIGURE_6 = "figure-6"
    TABLE_1 = "table-1"
    ALL = "all"


def reproduce(
    names: Annotated[
        list[Name],
        typer.Argument(
            metavar="NAME...", help="figure-1 to figure-6, table-1, or all.", show_default=False
        ),
    ],
    output: options.Output,
    counts: Annotated[
        Path | None,
        typer.Option(
            help="Private counts to run on, with --vocab.", show_default="a made-up crowd"
        ),
    ] = None,
    vocab: Annotated[
        Path | None, typer.Option(help="The vocabulary of --counts.", show_default=False)
    ] = None,
    users: Annotated[
        int | None,
        typer.Option(help="How many made-up users.", show_default="4000000, with --quick 100000"),
    ] = None,
    size: Annotated[
        int | None,
        typer.Option(help="n-grams in the vocabulary.", show_default="50000, with --quick 5000"),
    ] = None,
    seeds: Annotated[
        int | None, typer.Option(help="How often each is run.", show_default="5, with --quick 3")
    ] = None,
    delta: Annotated[float, typer.Option(help="δ; the paper never states its own.")] = 1e-7,
    quick: Annotated[
        bool, typer.Option("--quick", help="About a minute for all: smaller everything.")
    ] = False,
    force: options.Force = False,
    json: options.Json = False,
) -> None:
    """Make the paper's figures and table again: a CSV and a picture each, and a page that says what was found.

    Private: not for publication. At the paper's scale `all` takes about half an hour and 10 GB on two cores.

    Example: bayesgram reproduce figure-1 table-1 --quick -o figures
    """
    from bayesgram.io.atomic import check_writable
    from bayesgram.paper import results_page
    from bayesgram.paper.experiment import ExperimentRun
    from bayesgram.paper.figures import EXPERIMENTS
    from bayesgram.privacy.budget import Budget

    check_writable(
        output,
        force=force,
        contents=results_page.CONTENTS,
        inputs=[path for path in (counts, vocab) if path],
    )
    if Budget(1.0, delta).delta == 0:
        raise UsageError(
            "delta=0: the paper's mechanism and `posterior` need a delta above 0; 1e-7 is usual."
        )
    number = results_page.make_seeds(
        (QUICK_SEEDS if quick else PAPER_SEEDS) if seeds is None else seeds
    )
    data = _data(counts, vocab, users, size, quick=quick)
    wanted = list(EXPERIMENTS) if Name.ALL in names else [name.value for name in names]
    results = results_page.run_experiments(
        wanted, ExperimentRun(data, number, delta, quick, console.step), output, force=force
    )
    _print(results, output, json=json)


def _data(
    counts: Path | None, vocab: Path | None, users: int | None, size: int | None, *, quick: bool
) -> "ExperimentData":
    """The given counts, cut to --size if it is given, or a crowd."""
    from bayesgram.paper.harness import generate_data, load_data

    if (counts is None) != (vocab is None):
        missing = "--vocab" if vocab is None else "--counts"
        raise UsageError(
            f"{missing} is missing: give both --counts and --vocab, or neither for a made-up crowd."
        )
    if counts is None or vocab is None:
        how_many = (QUICK_USERS if quick else PAPER_USERS) if users is None else users
        with console.step(f"Making a crowd of {how_many:,}"):
            return generate_data(
                how_many,
                (QUICK_SIZE if quick else PAPER_SIZE) if size is None else size,
                quick=quick,
            )
    if users is not None:
        raise UsageError(f"users={users}: the users are those of --counts; leave --users out.")
    with console.step("Reading counts"):
        data = load_data(counts, vocab)
        return data if size is None else data.truncate_vocabulary(size)


def _print(results: "list[ExperimentResult]", output: Path, *, json: bool) -> None:
    """What was found, in short."""
    from bayesgram.audit.evaluation import DISCLOSURE
    from bayesgram.paper.results_page import format_seconds

    if json:
        console.print_json(
            {
                "output": str(output),
                "warning": DISCLOSURE,
                "experiments": [_told(r) for r in results],
            }
        )
        return
    columns = ("experiment", "finding", "time", "peak memory")
    cells = [
        (
            r.experiment.name,
            r.assessment.verdict,
            format_seconds(r.cost.seconds),
            f"{r.cost.peak_bytes / 2**30:.1f} GiB",
        )
        for r in results
    ]
    console.print_table("The paper's experiments", columns, cells, right=columns[2:])
    console.write(f"Open {output}/index.html. The numbers there are {DISCLOSURE}.")


def _told(result: "ExperimentResult") -> dict[str, Any]:
    assessment = result.assessment
    return {
        "name": result.experiment.name,
        "verdict": assessment.verdict,
        "checks": [{"found": check.sentence, "holds": check.holds} for check in assessment.checks],
        "remarks": assessment.remarks,
        "seconds": round(result.cost.seconds, 2),
        "peak_bytes": result.cost.peak_bytes,
    }
