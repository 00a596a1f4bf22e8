"""bayesgram paper: tune and study the 2021 paper's mechanism; make its figures and table again."""

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from bayesgram.choices import EngineName
from bayesgram.cli import console, engines, mechanism_options, options
from bayesgram.cli.options import (
    TYPER_SETTINGS,
    as_command,
    parse_float,
    parse_int,
    unwrap_help,
)
from bayesgram.errors import UsageError

if TYPE_CHECKING:
    from bayesgram.paper.harness import ExperimentData
    from bayesgram.paper.results_page import ExperimentResult

paper_app = typer.Typer(name="paper", add_completion=False, **TYPER_SETTINGS)


@paper_app.callback()
@unwrap_help
def _paper() -> None:
    """Tune and study the mechanism of the 2021 paper, and make its figures and table again.

    Its ε is EMPIRICAL, not a guarantee. For a release that you publish, use `bayesgram release`
    with its default mechanism.

    Example: bayesgram paper reproduce figure-1 --quick -o figures
    """


# --- tune ---


@paper_app.command()
@as_command
def tune(
    counts: options.Counts,
    vocab: options.Vocab,
    epsilon: Annotated[
        float,
        typer.Option(
            parser=parse_float, help="ε that the choice alone spends.", show_default=False
        ),
    ],
    seed: options.Seed = None,
    json: options.Json = False,
    verbose: options.Verbose = False,
    expected_users: mechanism_options.ExpectedUsers = None,
    max_count: mechanism_options.MaxCount = None,
    max_total: mechanism_options.MaxTotal = None,
    sensitivity: mechanism_options.SensitivityName = None,
    grid: mechanism_options.GridOptions = mechanism_options.NO_GRID,
) -> None:
    """Choose S and ρ of the paper's mechanism by Algorithm 2: noisy scores on 10% of the users.

    The choice is EMPIRICAL, as the paper's mechanism is. `release --tune` does this and releases,
    in one ε.

    Example: bayesgram paper tune counts --vocab vocab.parquet --epsilon 0.1
    """
    from bayesgram.mechanisms.base import Randomness
    from bayesgram.paper import algorithm_2
    from bayesgram.privacy.budget import Budget

    Budget(epsilon)
    randomness = Randomness.from_seed(seed)
    paper = mechanism_options.make_paper(
        expected_users, max_count=max_count, max_total=max_total, sensitivity=sensitivity
    )
    settings = grid.grid
    user_counts, vocabulary = mechanism_options.load_counts(counts, vocab)
    with console.step(f"Scoring {len(settings.slopes) * len(settings.rhos)} settings"):
        chosen = algorithm_2.tune(
            user_counts, vocabulary, epsilon, randomness, paper=paper, grid=settings
        ).paper
    next_command = (
        f"bayesgram release {counts} --vocab {vocab} --mechanism paper"
        f" --max-count {chosen.max_count} --max-total {chosen.max_total}"
        f" --slope {chosen.slope:g} --rho {chosen.rho:g} … (its ε adds to this one)"
    )
    report = {
        "slope": chosen.slope,
        "rho": chosen.rho,
        "epsilon": epsilon,
        "guarantee": chosen.guarantee.name,
        "next": next_command,
    }
    sentences = [
        f"Algorithm 2 chose S = {chosen.slope:g} and ρ = {chosen.rho:g}.",
        f"The choice cost ε = {epsilon:g} ({chosen.guarantee.name}).",
        f"Next: {next_command}",
    ]
    console.print_summary(sentences, report, json=json, verbose=verbose)


# --- sensitivity ---


@paper_app.command()
@as_command
def sensitivity(
    counts: options.Counts,
    vocab: options.Vocab,
    slope: Annotated[float, typer.Option(parser=parse_float, help="S of the paper.")] = 1e-3,
    expected_users: mechanism_options.ExpectedUsers = None,
    max_count: mechanism_options.MaxCount = None,
    max_total: mechanism_options.MaxTotal = None,
    seed: options.Seed = None,
    engine: options.Engine = EngineName.LOCAL,
    master: options.Master = None,
    json: options.Json = False,
    verbose: options.Verbose = False,
) -> None:
    """Show γ, how far one user moves the paper's log counts: exactly, and by Claim 1's bound.

    Both are read from private data without noise: for its keeper only.

    Example: bayesgram paper sensitivity counts --vocab vocab.parquet --slope 0.001 --expected-users
    100000
    """
    from time import perf_counter

    from bayesgram.audit.evaluation import DISCLOSURE
    from bayesgram.mechanisms.base import Randomness

    paper = mechanism_options.make_paper(
        expected_users, max_count=max_count, max_total=max_total, slope=slope
    )
    opened = engines.open_counts(counts, vocab, engine, master, in_memory=True)
    with opened as (user_counts, _), console.step("Leaving out each user"):
        statistics = paper.statistics(user_counts, Randomness.from_seed(seed))
        bound = statistics.bounded_gamma(paper.slope)
        if engine is EngineName.LOCAL:
            # Compiles the kernel, so that the clock sees only work.
            statistics.exact_gamma(paper.slope)
        start = perf_counter()
        exact = statistics.exact_gamma(paper.slope)
        seconds = perf_counter() - start
    report = {"exact": exact, "bound": bound, "seconds": round(seconds, 4), "warning": DISCLOSURE}
    sentences = [
        f"One user moves the paper's log counts by γ = {exact:.4g} at most.",
        f"The bound of Claim 1 is {bound:.4g}.",
        f"These numbers are {DISCLOSURE}.",
    ]
    console.print_summary(sentences, report, json=json, verbose=verbose)


# --- reproduce ---

# The scale of the paper's own experiments, and one that takes about a minute.
PAPER_USERS = 4_000_000
PAPER_SIZE = 50_000  # n-grams
PAPER_SEEDS = 5  # runs of each experiment
QUICK_USERS = 100_000
QUICK_SIZE = 5_000
QUICK_SEEDS = 3


class ExperimentName(StrEnum):
    """The figures and the table of the paper."""

    FIGURE_1 = "figure-1"
    FIGURE_2 = "figure-2"
    FIGURE_3 = "figure-3"
    FIGURE_4 = "figure-4"
    FIGURE_5 = "figure-5"
    FIGURE_6 = "figure-6"
    TABLE_1 = "table-1"
    ALL = "all"


@paper_app.command()
@as_command
def reproduce(
    names: Annotated[
        list[ExperimentName],
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
        typer.Option(
            parser=parse_int,
            help="How many made-up users.",
            show_default="4 million; with --quick 100k",
        ),
    ] = None,
    size: Annotated[
        int | None,
        typer.Option(
            parser=parse_int,
            help="How many n-grams the vocabulary has.",
            show_default="50k; with --quick 5k",
        ),
    ] = None,
    seeds: Annotated[
        int | None,
        typer.Option(
            parser=parse_int, help="How often each is run.", show_default="5; with --quick 3"
        ),
    ] = None,
    delta: Annotated[
        float, typer.Option(parser=parse_float, help="δ; the paper never states its own.")
    ] = 1e-7,
    quick: Annotated[
        bool,
        typer.Option("--quick", help="Use smaller numbers. All experiments take about a minute."),
    ] = False,
    force: options.Force = False,
    json: options.Json = False,
) -> None:
    """Make the paper's figures and table again.

    A CSV and a picture each, and a page that says what was found.

    Private: not for publication. At the paper's scale `all` takes about half an hour and 10 GB on
    two cores.

    Example: bayesgram paper reproduce figure-1 table-1 --quick -o figures
    """
    from bayesgram.io.atomic import check_writable
    from bayesgram.paper import results_page
    from bayesgram.paper.experiment import ExperimentRun
    from bayesgram.paper.figures import EXPERIMENTS
    from bayesgram.privacy.budget import Budget

    inputs = [path for path in (counts, vocab) if path]
    check_writable(output, force=force, contents=results_page.CONTENTS, inputs=inputs)
    if Budget(1.0, delta).delta == 0:
        raise UsageError(
            "--delta 0: the paper's mechanism and `posterior` need a delta above 0; 1e-7 is usual."
        )
    default_seeds = QUICK_SEEDS if quick else PAPER_SEEDS
    checked_seeds = results_page.make_seeds(default_seeds if seeds is None else seeds)
    data = _load_data(counts, vocab, users, size, quick=quick)
    experiments = [name.value for name in names]
    if ExperimentName.ALL in names:
        experiments = list(EXPERIMENTS)
    run = ExperimentRun(data, checked_seeds, delta, quick, console.step)
    results = results_page.run_experiments(experiments, run, output, force=force)
    _print_results(results, output, json=json)


def _load_data(
    counts: Path | None, vocab: Path | None, users: int | None, size: int | None, *, quick: bool
) -> "ExperimentData":
    """Load the given counts, with the most frequent `size` n-grams; or make up a crowd."""
    from bayesgram.paper.harness import generate_data, load_data

    if (counts is None) != (vocab is None):
        missing = "--vocab" if vocab is None else "--counts"
        raise UsageError(
            f"{missing} is missing: give both --counts and --vocab, or neither for a made-up crowd."
        )
    if counts is None or vocab is None:
        if users is None:
            users = QUICK_USERS if quick else PAPER_USERS
        if size is None:
            size = QUICK_SIZE if quick else PAPER_SIZE
        with console.step(f"Making a crowd of {users:,}"):
            return generate_data(users, size, quick=quick)
    if users is not None:
        raise UsageError(f"--users {users}: the users are those of --counts; leave --users out.")
    with console.step("Reading counts"):
        data = load_data(counts, vocab)
        return data if size is None else data.truncate_vocabulary(size)


def _print_results(results: "list[ExperimentResult]", output: Path, *, json: bool) -> None:
    from bayesgram.audit.evaluation import DISCLOSURE
    from bayesgram.paper.results_page import format_seconds

    if json:
        experiments = [_result_json(result) for result in results]
        console.print_json(
            {"output": str(output), "warning": DISCLOSURE, "experiments": experiments}
        )
        return
    columns = ("experiment", "finding", "time", "peak memory")
    cells = [
        (
            result.experiment.name,
            result.assessment.verdict,
            format_seconds(result.cost.seconds),
            f"{result.cost.peak_bytes / 2**30:.1f} GiB",
        )
        for result in results
    ]
    console.print_table("The paper's experiments", columns, cells, right=columns[2:])
    console.write(f"Open {output}/index.html. The numbers there are {DISCLOSURE}.")


def _result_json(result: "ExperimentResult") -> dict[str, Any]:
    assessment = result.assessment
    return {
        "name": result.experiment.name,
        "verdict": assessment.verdict,
        "checks": [{"found": check.sentence, "holds": check.holds} for check in assessment.checks],
        "remarks": assessment.remarks,
        "seconds": round(result.cost.seconds, 2),
        "peak_bytes": result.cost.peak_bytes,
    }
