"""bayesgram plan: what a release would be worth, before anything is spent."""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from bayesgram.cli import console, options, plots
from bayesgram.cli.options import parse_float, parse_int
from bayesgram.errors import UsageError

if TYPE_CHECKING:
    from bayesgram.planning.plan import Plan, PlanRow

DEFINITIONS = (
    "All numbers are about the longest n-grams of the vocabulary. error removed: the share of"
    " public text's error that the release removes; 0% is public text alone, 100% is perfect."
    " known: the share of what people write whose probability is expected to lie within a factor"
    " of 2 of the release's; the roughest of these numbers. clipped: the share of users who"
    " write more than is counted in full."
)
KL_DEFINITION = (
    " KL: the KL divergence in nats from what people write to the release; 0 is perfect."
)
PEOPLE_PANEL = "Assumed of the people"  # a heading in --help
SERIES_PANEL = "A series of releases"
SERIES_DEFINITIONS = (
    "k: how many of the releases a user can contribute to in full. noise: in % of that of separate"
    " releases in the same budget, at the same clip norm. left out: the share of the text that"
    " allowances leave out. error: the KL divergence to expect of a release, in % of that of"
    " separate releases; in the mean, and in the last release. The arrow: the smallest k whose"
    " error is within 2% of the least; a smaller k helps the first releases."
)
Users = Annotated[
    int | None,
    typer.Option(
        parser=parse_int,
        help="How many people write, with --series in one release. Give a public round figure, such"
        " as 100k. Needed without --pilot, and with --series.",
        rich_help_panel=PEOPLE_PANEL,
        show_default=False,
    ),
]
Pilot = Annotated[
    Path | None,
    typer.Option(
        help="A release about these people, of the same vocabulary: what is not given here is"
        " estimated from it, at no privacy cost.",
        rich_help_panel=PEOPLE_PANEL,
        show_default=False,
    ),
]
NgramsAUser = Annotated[
    float | None,
    typer.Option(
        parser=parse_float,
        help="How many n-grams of the vocabulary a user writes on average.",
        rich_help_panel=PEOPLE_PANEL,
        show_default="8, or by --pilot",
    ),
]
Unevenness = Annotated[
    float | None,
    typer.Option(
        parser=parse_float,
        help="How unevenly people write: 0 all the same, 0.6 rather evenly, 1.2 some little and"
        " some"
        " a lot, 2 a few very much.",
        rich_help_panel=PEOPLE_PANEL,
        show_default="1.2, or by --pilot",
    ),
]
Difference = Annotated[
    float | None,
    typer.Option(
        parser=parse_float,
        help="How far their text is from public text: 0.6 close, 1.2 somewhat, 1.8 as Reddit from"
        " Wikipedia, 2.6 very far.",
        rich_help_panel=PEOPLE_PANEL,
        show_default="1.8, or by --pilot",
    ),
]


def plan(
    vocab: options.Vocab,
    users: Users = None,
    pilot: Pilot = None,
    epsilon: Annotated[
        str | None,
        typer.Option(
            help="One or several ε to plan with, separated by commas.",
            show_default="0.1,0.2,0.5,1,2",
        ),
    ] = None,
    delta: Annotated[
        float | None,
        typer.Option(
            parser=parse_float,
            help="δ of all releases together.",
            show_default="1e-7, or that of the ledger",
        ),
    ] = None,
    kl: Annotated[
        float | None,
        typer.Option(
            parser=parse_float,
            help="Find the smallest ε at which the KL divergence (in nats) is at most this.",
            show_default=False,
        ),
    ] = None,
    known: Annotated[
        str | None,
        typer.Option(
            help="Find the smallest ε at which this share of what people write, such as 80%, is"
            " known"
            " within a factor of 2.",
            show_default=False,
        ),
    ] = None,
    releases: Annotated[
        int | None,
        typer.Option(
            parser=parse_int,
            help="How many releases share ε: 52 for one each week of a year.",
            show_default="1; 52 with --series",
        ),
    ] = None,
    segments: Annotated[
        int,
        typer.Option(
            parser=parse_int,
            help="How many segments (such as countries) share the budget. An average one is"
            " planned.",
        ),
    ] = 1,
    ledger: Annotated[
        Path | None,
        typer.Option(
            help="Plan with what is left of this ledger. Nothing is charged.", show_default=False
        ),
    ] = None,
    size: Annotated[
        int | None,
        typer.Option(
            parser=parse_int,
            help="How many n-grams of each order to plan with, such as 20k: the most frequent.",
            show_default="all, up to 100,000 of an order",
        ),
    ] = None,
    draws: Annotated[
        int | None,
        typer.Option(
            parser=parse_int,
            help="How many releases to simulate for each ε.",
            show_default="3; 1 above 20,000 n-grams",
        ),
    ] = None,
    ngrams_a_user: NgramsAUser = None,
    unevenness: Unevenness = None,
    difference: Difference = None,
    series: Annotated[
        bool,
        typer.Option(
            "--series",
            help="Plan a series with allowances: which number of full releases is best for users"
            " who write in some of the releases. One ε; 1 if it is left out.",
            rich_help_panel=SERIES_PANEL,
        ),
    ] = False,
    activity: Annotated[
        str | None,
        typer.Option(
            help="The share of the releases that a user writes in, on average, such as 20%. With"
            " --pilot and a release of an earlier series, what that measured.",
            rich_help_panel=SERIES_PANEL,
            show_default="25%",
        ),
    ] = None,
    plot: Annotated[
        Path | None,
        typer.Option(
            help="Draw the error and what is known over ε, as a .svg or .png.", show_default=False
        ),
    ] = None,
    force: Annotated[
        bool, typer.Option("--force", help="Replace the picture if it exists.")
    ] = False,
    json: options.Json = False,
    verbose: options.Verbose = False,
) -> None:
    """Estimate how good a release would be at several ε, before anything is spent.

    The command simulates releases from public text and from what you assume about the people. It
    reads no private data. --pilot takes the assumptions from a release that was published before.

    Example: bayesgram plan --vocab vocab.parquet --users 1000000 --releases 52
    """
    if series:
        refused = {
            "--kl": kl,
            "--known": known,
            "--ledger": ledger,
            "--draws": draws,
            "--plot": plot,
            "--segments": None if segments == 1 else segments,
        }
        _plan_series(
            vocab,
            _parse_epsilons(epsilon),
            refused,
            users=users,
            pilot=pilot,
            ngrams_a_user=ngrams_a_user,
            unevenness=unevenness,
            activity=_parse_share(activity, "--activity"),
            delta=delta,
            releases=releases,
            size=size,
            json=json,
        )
        return
    if activity is not None:
        raise UsageError("--activity: is for a series; add --series, or leave it out.")
    from bayesgram.planning.plan import plan as simulate
    from bayesgram.privacy.ledger import Ledger
    from bayesgram.public.vocabulary import Vocabulary
    from bayesgram.releases.release import Release

    if kl is not None and known is not None:
        raise UsageError("--kl and --known: give one of them; each has an ε of its own.")
    epsilons = _parse_epsilons(epsilon)
    known_share = _parse_share(known, "--known")
    if plot is not None:
        plots.check_plot(plot, force=force, inputs=[str(vocab)])
    open_ledger = None if ledger is None else Ledger.open(ledger)
    vocabulary = Vocabulary.load(vocab)
    pilot_release = None if pilot is None else Release.load(pilot)
    with console.progress("Simulating releases") as show_progress:
        simulated = simulate(
            vocabulary,
            users=users,
            pilot=pilot_release,
            ngrams_a_user=ngrams_a_user,
            unevenness=unevenness,
            difference=difference,
            epsilon=epsilons,
            delta=delta,
            kl=kl,
            known=known_share,
            releases=1 if releases is None else releases,
            segments=segments,
            ledger=open_ledger,
            size=size,
            draws=draws,
            on_progress=show_progress,
        )
    if plot is not None:
        from bayesgram.reports import pictures

        plots.save_plot(lambda: pictures.draw_plan(simulated), plot, force=force)
    if json:
        console.print_json(simulated.to_json())
    else:
        print_plan(simulated, verbose=verbose)


def print_plan(simulated: "Plan", *, verbose: bool = False) -> None:
    """Print the table of a plan, its answer, and notes and warnings about both.

    Args:
        simulated: The plan.
        verbose: Whether to show KL divergences; they are shown where one was asked for, too.
    """
    with_kl = verbose or simulated.target.kl is not None
    cells = [_cells(row, simulated, with_kl=with_kl) for row in simulated.rows]
    columns = list(cells[0])
    title = "What to expect of a release (simulated)"
    if with_kl:
        title += f"; public text alone: KL {simulated.rows[0].public_kl:.3g}"
    console.print_table(title, columns, [list(row.values()) for row in cells], right=columns)
    console.print_note(DEFINITIONS + (KL_DEFINITION if with_kl else ""))
    warnings = [f"warning: {warning}" for warning in simulated.warnings]
    for line in [simulated.answer, *simulated.notes, *warnings]:
        if line:
            console.write_wrapped(line)


def _cells(row: "PlanRow", simulated: "Plan", *, with_kl: bool) -> dict[str, str]:
    """Return a row of the table by its columns, all of which fit into a terminal of 80 columns."""
    cells = {"ε": f"{'→ ' if row.epsilon == simulated.epsilon else ''}{row.epsilon:g}"}
    if simulated.releases > 1:
        cells["ε each"] = f"{row.release_epsilon:g}"
    if with_kl:
        cells["KL"] = f"{row.kl:.3g}"
    if with_kl and simulated.draws > 1:
        cells["simulated"] = f"{row.kl_low:.2g} – {row.kl_high:.2g}"
    cells["error removed"] = f"{row.closed_share:.0%}"
    cells["known"] = f"{row.known_share:.0%}"
    cells["clipped"] = f"{row.clipped_share:.0%}"
    return cells


def _parse_epsilons(text: str | None) -> list[float] | None:
    """Parse numbers with commas between them; refuse 0,5 for one half."""
    if text is None:
        return None
    epsilons = options.parse_list("--epsilon", text, parse_float, "0.1,0.2,1")
    if 0 in epsilons and len(epsilons) > 1:
        example = text.replace(",", ".") if re.fullmatch(r"0,[0-9]+", text) else "0.5"
        raise UsageError(
            f"--epsilon {text}: commas separate several values, and ε = 0 is none;"
            f" {options.USE_DECIMAL_POINT} ({example})."
        )
    return epsilons


def _plan_series(
    vocab: Path,
    epsilons: list[float] | None,
    refused: Mapping[str, object],
    *,
    users: int | None,
    pilot: Path | None,
    delta: float | None,
    releases: int | None,
    json: bool,
    **assumptions: Any,  # noqa: ANN401 - numbers that plan_series checks
) -> None:
    """Print which number of full releases a series should have."""
    from bayesgram.planning.plan import DEFAULT_DELTA
    from bayesgram.planning.series_plan import DEFAULT_EPSILON, DEFAULT_RELEASES, plan_series
    from bayesgram.public.vocabulary import Vocabulary
    from bayesgram.releases.release import Release

    for option, value in refused.items():
        if value is not None:
            raise UsageError(f"{option} can't be used with --series; leave it out.")
    if users is None:
        raise UsageError("--users: say how many people write in one release, such as 100k.")
    if epsilons is not None and len(epsilons) != 1:
        raise UsageError("--epsilon: a series is planned for one ε, such as 1.")
    vocabulary = Vocabulary.load(vocab)
    earlier = None if pilot is None else Release.load(pilot)
    with console.progress("Simulating series") as show_progress:
        planned = plan_series(
            vocabulary,
            users=users,
            earlier=earlier,
            epsilon=epsilons[0] if epsilons else DEFAULT_EPSILON,
            delta=DEFAULT_DELTA if delta is None else delta,
            releases=DEFAULT_RELEASES if releases is None else releases,
            on_progress=show_progress,
            **assumptions,
        )
    if json:
        console.print_json(planned.to_json())
        return
    columns = ("k", "noise", "left out", "error", "error, last")
    rows = [
        (
            f"{'→ ' if row.full_releases == planned.full_releases else ''}{row.full_releases}",
            f"{row.noise_ratio:.0%}",
            f"{row.withheld_share:.0%}",
            f"{row.kl_ratio:.0%}",
            f"{row.last_kl_ratio:.0%}",
        )
        for row in planned.rows
    ]
    title = f"What to expect of a series of {planned.releases} releases (simulated)"
    console.print_table(title, columns, rows, right=columns)
    console.print_note(SERIES_DEFINITIONS)
    for line in (planned.answer, planned.assumptions_sentence):
        console.write_wrapped(line)


def _parse_share(text: str | None, option: str) -> float | None:
    """Parse a share such as 80% or 0.8."""
    if text is None:
        return None
    match = re.fullmatch(r"([0-9]*\.?[0-9]+)\s*(%?)", text.strip())
    share = float(match[1]) / (100 if match[2] else 1) if match else 0.0
    limit = 1.0 if option == "--known" else 1.0 + 1e-9
    if not 0 < share < limit:
        below = "below" if option == "--known" else "up to"
        raise UsageError(
            f"{option} {text}: give a share above 0% and {below} 100%, such as 80% or 0.8."
        )
    return share
