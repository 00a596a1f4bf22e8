"""bayesgram series: many releases about the same people that are paid for once."""

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from bayesgram.cli import console, options
from bayesgram.cli.options import (
    TYPER_SETTINGS,
    as_command,
    parse_float,
    parse_int,
    unwrap_help,
)
from bayesgram.errors import UsageError

if TYPE_CHECKING:
    from bayesgram.mechanisms.series import Series

series_app = typer.Typer(name="series", add_completion=False, **TYPER_SETTINGS)

Folder = Annotated[
    Path, typer.Argument(metavar="SERIES", help="The folder of the series.", show_default=False)
]
MovedLedger = Annotated[
    Path | None,
    typer.Option(
        "--ledger", help="The ledger that pays for the series, if it has moved.", show_default=False
    ),
]
KEEP_NOTE = (
    "Keep the folder: it knows what every user has used. Without it, or with an older copy of it,"
    " the series can't go on."
)


@series_app.callback()
@unwrap_help
def _series() -> None:
    """Make many releases about the same people, such as one every week, in one budget.

    Each user has an allowance for the whole series, so that a release has less noise than if
    everybody wrote a lot every time.

    Read about it with: bayesgram docs publish-every-week

    Example: bayesgram series show weekly.series
    """


@series_app.command()
@as_command
def create(
    series: Folder,
    ledger: Annotated[
        Path, typer.Option(help="The ledger that pays for the series.", show_default=False)
    ],
    epsilon: Annotated[
        float,
        typer.Option(
            parser=parse_float, help="ε of all its releases together.", show_default=False
        ),
    ],
    delta: Annotated[
        float,
        typer.Option(
            parser=parse_float, help="δ of all its releases together.", show_default=False
        ),
    ],
    releases: Annotated[
        int,
        typer.Option(parser=parse_int, help="The most releases that it has.", show_default=False),
    ] = 52,
    full_releases: Annotated[
        int,
        typer.Option(
            parser=parse_int,
            help="How many of them one user can contribute to in full. Fewer mean less noise, and"
            " more text of people who write much and often is left out.",
        ),
    ] = 4,
    discovery_share: Annotated[
        float,
        typer.Option(
            parser=parse_float,
            help="The share of the budget that discoveries take, such as 0.2; 0 if the series has"
            " none.",
        ),
    ] = 0.0,
    unit: options.Unit = None,
    coordinates: Annotated[
        int | None,
        typer.Option(
            parser=parse_int,
            help="How many noisy numbers all releases may have together.",
            show_default=False,
        ),
    ] = None,
    json: options.Json = False,
    verbose: options.Verbose = False,
) -> None:
    """Reserve a whole series of releases in a ledger, and make its folder.

    It is charged once, whatever is released later. `bayesgram release --series` draws on it, and so
    does `bayesgram discover --series`, if discoveries have a share.

    Example: bayesgram series create weekly.series --ledger year.ledger --epsilon 1 --delta 1e-7
    """
    from bayesgram.mechanisms.series import Series
    from bayesgram.privacy.ledger import Ledger

    made = Series.create(
        series,
        ledger=Ledger.open(ledger),
        epsilon=epsilon,
        delta=delta,
        releases=releases,
        full_releases=full_releases,
        unit=unit,
        coordinates=coordinates,
        discovery_share=discovery_share,
    )
    sentences = [
        (
            f"Wrote {series}: a series of at most {releases} releases, charged to {ledger} as entry"
            f" {made.reservation.number}."
        ),
        f"All of them together cost ε = {epsilon:g} and δ = {delta:g}.",
        *_noise_sentences(made),
        KEEP_NOTE,
        (
            f"Give it to {'`release` and `discover`' if discovery_share else '`release`'} with"
            " --series."
        ),
    ]
    console.print_summary(sentences, _report(made), json=json, verbose=verbose)


@series_app.command()
@as_command
def show(
    series: Folder,
    ledger: MovedLedger = None,
    json: options.Json = False,
    verbose: options.Verbose = False,
) -> None:
    """Show what was released in a series, what is left, and what a card of it promises.

    Nothing about users is shown.

    Example: bayesgram series show weekly.series
    """
    from bayesgram.mechanisms.series import DISCOVERY, RELEASE

    opened = open_series(series, ledger)
    state = opened.read_state()
    settings = opened.settings
    released = state.drawn(RELEASE)
    discovered = state.drawn(DISCOVERY)
    reservation = opened.reservation
    published = {
        RELEASE: reservation.published_releases,
        DISCOVERY: reservation.published_discoveries,
    }
    report = {
        **_report(opened),
        "released": released,
        "left": settings.releases - released,
        "discovered": discovered,
        "discoveries_left": settings.releases - discovered if settings.discovery_share else 0,
        "coordinates_left": opened.settings.coordinates - state.coordinates,
    }
    runs = [
        {
            "kind": run.kind,
            "number": str(run.number),
            "time": run.time,
            "state": _run_state(drawn=run.drawn, published=run.number in published[run.kind]),
            "output": os.path.normpath(series / run.output),
        }
        for run in state.runs
    ]
    if json:
        numbered = [{**run, "number": int(run["number"])} for run in runs]
        console.print_json({**report, "runs": numbered})
        return
    columns = ("kind", "number", "time (UTC)", "state", "output")
    rows = [
        (
            run["kind"],
            run["number"],
            run["time"][:16].replace("T", " "),
            run["state"],
            run["output"],
        )
        for run in runs
    ]
    console.print_table(f"Series {series}", columns, rows, right=("number",))
    made = f"{released} of at most {settings.releases} releases were made"
    if settings.discovery_share:
        made += f", and {discovered} of at most {settings.releases} discoveries"
    sentences = [
        f"{made}.",
        (
            f"Everything in the series together is (ε = {settings.epsilon:g},"
            f" δ = {settings.delta:g})-differentially private (PROVED) for {settings.unit}."
        ),
        *_noise_sentences(opened),
    ]
    console.print_summary(sentences, report, json=False, verbose=verbose)


@series_app.command()
@as_command
def publish(
    series: Folder,
    release: Annotated[
        int,
        typer.Argument(parser=parse_int, metavar="NUMBER", help="The release.", show_default=False),
    ],
    discovery: Annotated[
        bool, typer.Option("--discovery", help="The number is that of a discovery.")
    ] = False,
    ledger: MovedLedger = None,
    json: options.Json = False,
) -> None:
    """Note that a release of a series was published, where a run was stopped just before that.

    Only a release that was published can be followed. It costs nothing.

    Example: bayesgram series publish weekly.series 1
    """
    from bayesgram.mechanisms.series import DISCOVERY, RELEASE

    opened = open_series(series, ledger)
    kind = DISCOVERY if discovery else RELEASE
    runs = opened.read_state().runs
    drawn = {run.number for run in runs if run.drawn and run.kind == kind}
    if release not in drawn:
        raise UsageError.for_argument(
            "release", release, f"no {kind} of {series} with this number was drawn."
        )
    opened.ledger.note_published(opened.reservation.number, release, discovery=discovery)
    report = {"series": str(series), kind: release, "published": True}
    sentence = f"{kind.capitalize()} {release} of {series} is noted as published."
    console.print_summary([sentence], report, json=json, verbose=False)


def open_series(series: Path, ledger: Path | None) -> "Series":
    """Open a series.

    Args:
        series: The folder.
        ledger: The ledger that pays for it, if that has moved.
    """
    from bayesgram.mechanisms.series import Series
    from bayesgram.privacy.ledger import Ledger

    return Series.open(series, ledger=None if ledger is None else Ledger.open(ledger))


def _report(series: "Series") -> dict[str, Any]:
    """Return the public facts of a series."""
    settings = series.settings
    return {
        "series": str(series.path),
        "ledger": str(series.ledger.path),
        "entry": series.reservation.number,
        **settings.to_json(),
        "noise_multiplier": settings.release_noise(1).multiplier,
    }


def _noise_sentences(series: "Series") -> list[str]:
    settings = series.settings
    full = settings.full_releases
    narrower = (settings.releases / full) ** 0.5
    release_sentence = (
        f"The noise of each release is that of {full} releases in this budget: {narrower:.2g} times"
        f" narrower than if everybody could contribute in full to all {settings.releases}."
    )
    if not settings.discovery_share:
        return [release_sentence]
    wider = (1 - settings.discovery_share) ** -0.5
    level = settings.running_threshold().levels[-1]
    weekly = level / settings.releases
    share_sentence = (
        f"Discoveries take {settings.discovery_share:.0%} of the budget, which makes the noise of"
        f" releases {wider:.2g} times wider. All of them together publish what only one user wrote"
        f" with a probability of at most {settings.failure:g}."
    )
    level_sentence = (
        f"Weights add up from one discovery to the next. In discovery {settings.releases}, a sum"
        f" must exceed {level:,.0f}: {weekly:,.1f} users each time, if they write nothing else that"
        " is new."
    )
    return [release_sentence, share_sentence, level_sentence]


def _run_state(*, drawn: bool, published: bool) -> str:
    if published:
        return "published"
    return "drawn, not published" if drawn else "failed"
