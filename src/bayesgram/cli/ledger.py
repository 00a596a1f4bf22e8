"""bayesgram ledger: the budget of a named population, kept in a file."""

from collections import Counter
from glob import glob, has_magic
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
from bayesgram.errors import BayesgramError, UsageError

if TYPE_CHECKING:
    from bayesgram.privacy.ledger_io import LedgerContents, Reservation

ledger_app = typer.Typer(name="ledger", add_completion=False, **TYPER_SETTINGS)

PERIOD_NOTE = (
    "a label: nothing renews; a new period is a new ledger, and what both spend adds up for the"
    " same people"
)
IF_MADE_ALREADY = (
    "note: nothing was recorded. If that release was made already, its cost is real all the same:"
    " this ledger no longer covers everything about these people. Write down the (ε, δ) of the"
    " release beside the ledger's; for the same people they add up."
)

File = Annotated[Path, typer.Argument(metavar="FILE", help="The ledger.", show_default=False)]


@ledger_app.callback()
@unwrap_help
def _ledger() -> None:
    """Keep the budget of a named population: what may be spent, and everything that was.

    Read about it with: bayesgram docs ledger

    Example: bayesgram ledger create --population "app users" --epsilon 1 --delta 1e-6 app.ledger
    """


@ledger_app.command()
@as_command
def create(
    file: File,
    population: Annotated[
        str,
        typer.Option(
            help="Whose text it is: a name that everybody in the team uses.", show_default=False
        ),
    ],
    epsilon: Annotated[
        float,
        typer.Option(parser=parse_float, help="ε of all releases together.", show_default=False),
    ],
    delta: Annotated[
        float,
        typer.Option(
            parser=parse_float,
            help="δ of all releases together; 0 allows pure-ε releases only.",
            show_default=False,
        ),
    ],
    period: Annotated[
        str | None,
        typer.Option(
            help="A label such as 2026. Nothing renews when the period ends.", show_default=False
        ),
    ] = None,
    json: options.Json = False,
    verbose: options.Verbose = False,
) -> None:
    """Make a ledger. The file must not exist; only its owner can read it.

    --period is a label that `ledger show` prints. A new period is a new ledger, and what both spend
    adds up for the same people.

    Example: bayesgram ledger create --population "app users" --epsilon 1 --delta 1e-6 app.ledger
    """
    from bayesgram.privacy.budget import Budget
    from bayesgram.privacy.ledger import Ledger
    from bayesgram.releases.card_sections import find_weaknesses

    ledger = Ledger.create(
        file, population=population, budget=Budget(epsilon, delta), period=period
    )
    contents = ledger.read()
    warnings = [str(weakness) for weakness in find_weaknesses(epsilon, delta)]
    report: dict[str, Any] = {
        "ledger": str(file),
        "population": population,
        "epsilon": epsilon,
        "delta": delta,
        **({} if period is None else {"period": period}),
        "identity": contents.identity,
        "last_hash": contents.last_hash,
    }
    if json:
        report["warnings"] = warnings
    sentences = [
        f"Wrote {file}: the ledger of {population!r}.",
        f"All releases about them together may cost ε = {epsilon:g} and δ = {delta:g}.",
    ]
    if period is not None:
        sentences.append(f"Period: {period} ({PERIOD_NOTE}).")
    sentences.append("Give it to `release` and `discover` with --ledger.")
    console.print_summary(sentences, report, json=json, verbose=verbose)
    for warning in warnings:
        console.print_note(f"warning: {warning}")


@ledger_app.command()
@as_command
def show(file: File, json: options.Json = False, verbose: options.Verbose = False) -> None:
    """Verify a ledger and show every reservation, what they cost together, and what is left.

    Example: bayesgram ledger show app.ledger
    """
    from bayesgram.privacy.ledger_io import read_ledger

    contents = read_ledger(file)
    summary = _summary(file, contents)
    if json:
        entries = [_entry_json(entry) for entry in contents.reservations]
        console.print_json({**summary, "entries": entries})
        return
    columns = ("number", "time (UTC)", "mechanism", "ε", "δ", "state", "output")
    rows = [_entry_cells(entry) for entry in contents.reservations]
    console.print_table(
        f"Ledger of {contents.population}", columns, rows, right=("number", "ε", "δ")
    )
    report = {"period": f"{contents.period} ({PERIOD_NOTE})"} if contents.period else {}
    if contents.unit:
        report["unit"] = contents.unit
    report["budget"] = f"ε = {contents.budget.epsilon:g}, δ = {contents.budget.delta:g}"
    report["spent"] = _format_spent(summary)
    report["left"] = contents.describe_remaining()
    if contents.spent_failure():
        report["failures"] = _format_failures(contents)
    report["promise"] = contents.promise
    if verbose:
        report["identity"] = contents.identity
        report["last_hash"] = contents.last_hash
    console.print_report(report, json=False)


@ledger_app.command()
@as_command
def charge(
    file: File,
    epsilon: Annotated[
        float,
        typer.Option(
            parser=parse_float,
            help="ε of the release, for adding or removing one unit.",
            show_default=False,
        ),
    ],
    delta: Annotated[
        float,
        typer.Option(
            parser=parse_float, help="δ of the release; 0 if it has none.", show_default=False
        ),
    ],
    by: Annotated[
        str,
        typer.Option(
            help='Which release it is and which tool makes it: "dashboard, other tool".',
            show_default=False,
        ),
    ],
    unit: options.Unit = None,
    json: options.Json = False,
    verbose: options.Verbose = False,
) -> None:
    """Record a release about the same people that another tool makes.

    It costs its pure ε and a failure probability δ. A release with δ above 0 is refused where the
    first entry of the ledger can't fail: then nothing of δ was set aside for failures.

    Charge it before the other tool runs. A release that was made already is charged in the same
    way; if the ledger refuses it, its cost is real all the same.

    Example: bayesgram ledger charge all.ledger --epsilon 0.5 --delta 1e-8 --by "dashboard, other
    tool"
    """
    from bayesgram.privacy.ledger import Ledger

    ledger = Ledger.open(file)
    try:
        number = ledger.charge(epsilon, delta, by=by, unit=unit)
    except BayesgramError as error:
        if error.exit_code == 1:
            console.print_note(IF_MADE_ALREADY)
        raise
    contents = ledger.read()
    report: dict[str, Any] = {
        "ledger": str(file),
        "entry": number,
        "by": by,
        "epsilon": epsilon,
        "delta": delta,
    }
    report |= {
        "spent_epsilon": contents.spent_epsilon(),
        "spent_failure": contents.spent_failure(),
        "left": contents.describe_remaining(),
    }
    sentences = [
        f"Recorded in {file} as entry {number}: {_printable(by)}, ε = {epsilon:g}, δ = {delta:g}.",
        f"Left: {report['left']}.",
    ]
    console.print_summary(sentences, report, json=json, verbose=verbose)


@ledger_app.command()
@as_command
def publish(
    file: File,
    entry: Annotated[
        int,
        typer.Argument(
            parser=parse_int,
            metavar="ENTRY",
            help="The number of a reservation.",
            show_default=False,
        ),
    ],
    json: options.Json = False,
) -> None:
    """Note that the release of a reservation was published.

    It costs nothing and gives nothing back.

    `release` and `discover` do this themselves. It is for a run that was stopped just before, when
    its output stands in its place and only the note is missing: a release can follow another one
    only if that one was published.

    Example: bayesgram ledger publish app.ledger 3
    """
    from bayesgram.privacy.ledger import Ledger

    ledger = Ledger.open(file)
    ledger.complete(entry)
    report = {"ledger": str(file), "entry": entry, "state": "published"}
    sentence = f"Entry {entry} of {file} is published."
    console.print_summary([sentence], report, json=json, verbose=False)


@ledger_app.command("list")
@as_command
def list_(
    files: Annotated[
        list[str],
        typer.Argument(
            metavar="FILE...", help="Ledgers, folders or quoted glob patterns.", show_default=False
        ),
    ],
    json: options.Json = False,
) -> None:
    """Verify ledgers and show each in a line. Fails if one of them is refused.

    Example: bayesgram ledger list ledgers/
    """
    from bayesgram.privacy.ledger_io import read_ledger

    rows: list[dict[str, Any]] = []
    for file in _find_ledgers(files):
        try:
            rows.append({**_summary(file, read_ledger(file)), "problem": None})
        except BayesgramError as error:
            problem = error.render(console.format_argument)
            rows.append({"ledger": str(file), "problem": problem})
    _mark_copies(rows)
    if json:
        console.print_json({"ledgers": rows})
    else:
        _print_list(rows)
    problems = [row["problem"] for row in rows if row["problem"]]
    if problems:
        raise BayesgramError(" ".join(problems))


def _find_ledgers(patterns: list[str]) -> list[Path]:
    """Return the files that are meant: of a folder or pattern, those which are ledgers."""
    from bayesgram.privacy.ledger_io import is_ledger

    ledgers: dict[Path, None] = {}  # in order, each once
    for pattern in patterns:
        path = Path(pattern)
        if path.is_dir():
            files = list(path.iterdir())
        elif has_magic(pattern) and not path.exists():
            matches = glob(pattern, recursive=True)  # noqa: PTH207 - may be absolute
            files = [Path(match) for match in matches]
        else:
            ledgers[path] = None
            continue
        inside = sorted(file for file in files if file.is_file() and is_ledger(file))
        if not inside:
            raise UsageError(f"{pattern}: holds no ledger; make one with: bayesgram ledger create")
        ledgers.update(dict.fromkeys(inside))
    return list(ledgers)


def _mark_copies(rows: list[dict[str, Any]]) -> None:
    """Note copies of one ledger as a problem: each of them could be spent."""
    sound = [row for row in rows if not row["problem"]]
    files_of_identity = Counter(row["identity"] for row in sound)
    for row in sound:
        copies = files_of_identity[row["identity"]]
        if copies > 1:
            row["problem"] = (
                f"{row['ledger']}: is one of {copies} copies of one ledger; keep the longest."
            )


def _print_list(rows: list[dict[str, Any]]) -> None:
    sound = sum(not row["problem"] for row in rows)
    console.write(f"{sound} of {len(rows)} ledgers are in order.")
    columns = ("ledger", "population", "ε", "δ", "spent", "left", "pure", "entries")
    console.print_table(
        "Ledgers: ε that is spent, and left for a Gaussian or a pure-ε release",
        columns,
        [_list_cells(row) for row in rows],
        right=columns[2:],
    )


def _list_cells(row: dict[str, Any]) -> tuple[str, ...]:
    from bayesgram.privacy.accounting import digits_up
    from bayesgram.privacy.unit import is_person

    if "population" not in row:
        return (row["ledger"], "refused", *"––––––")
    population = row["population"]
    if row["unit"] is not None and not is_person(row["unit"]):
        population = f"{population}: {row['unit']}"
    return (
        row["ledger"],
        population,
        f"{row['epsilon']:g}",
        f"{row['delta']:g}",
        f"{digits_up(row['spent_epsilon'])} ({row['spent_epsilon'] / row['epsilon']:.0%})",
        f"{row['left_gaussian_epsilon']:g}",
        f"{row['left_pure_epsilon']:g}",
        str(row["reservations"]),
    )


# --- A ledger as JSON, and as text ---


def _summary(file: Path, contents: "LedgerContents") -> dict[str, Any]:
    """Return what is known of a ledger as a whole."""
    failures = {}
    if contents.spent_failure():
        failures["spent_failure"] = contents.spent_failure()
    if contents.remaining_for_discovery().failure:
        failures["left_failure"] = contents.remaining_for_discovery().failure
    return {
        "ledger": str(file),
        "population": contents.population,
        "unit": contents.unit,
        "period": contents.period,
        "promise": contents.promise,
        "epsilon": contents.budget.epsilon,
        "delta": contents.budget.delta,
        "spent_epsilon": contents.spent_epsilon(),
        "left_gaussian_epsilon": contents.remaining_gaussian_epsilon(),
        "left_pure_epsilon": contents.remaining_pure_epsilon(),
        **failures,
        "reservations": len(contents.reservations),
        "unpublished": sum(not entry.published for entry in contents.reservations),
        "identity": contents.identity,
        "format": contents.format,
        "last_number": contents.last_number,
        "last_hash": contents.last_hash,
    }


def _entry_json(entry: "Reservation") -> dict[str, Any]:
    spend = dict(vars(entry.spend))
    failure = spend.pop("failure")
    if failure:  # only discoveries have one
        spend["failure"] = failure
    spend["mu_squared"] = entry.spend.mu_squared
    return {
        "number": entry.number,
        "time": entry.time,
        "state": _state(entry),
        "spend": spend,
        "description": entry.description,
        "hash": entry.hash,
    }


def _entry_cells(entry: "Reservation") -> tuple[str, ...]:
    """Return a row of the table; a description may lack anything, and hold anything."""
    description = entry.description
    return (
        str(entry.number),
        entry.time[:16].replace("T", " "),
        _printable(description.get("mechanism")),
        _printable(description.get("epsilon")),
        _printable(description.get("delta")),
        _state(entry),
        _printable(description.get("output")),
    )


def _printable(value: object) -> str:
    if isinstance(value, float):
        return console.format_number(value)
    return "–" if value is None else "".join(c if c.isprintable() else "�" for c in str(value))


def _state(entry: "Reservation") -> str:
    return "published" if entry.published else "reserved"


def _format_spent(summary: dict[str, Any]) -> str:
    from bayesgram.privacy.accounting import digits_up

    count = summary["reservations"]
    unpublished = summary["unpublished"]
    share = summary["spent_epsilon"] / summary["epsilon"]
    spent = f"ε = {digits_up(summary['spent_epsilon'])} ({share:.0%}) at δ = {summary['delta']:g}"
    spent += f" by {count} reservation{'' if count == 1 else 's'}"
    return f"{spent}, {unpublished} of them not published" if unpublished else spent


def _format_failures(contents: "LedgerContents") -> str:
    """Say how likely discoveries are to fail, and what is left of that."""
    from bayesgram.privacy.accounting import digits_up

    spent = digits_up(contents.spent_failure())
    left = contents.remaining_for_discovery().failure
    return (
        f"discoveries and other tools have used {spent} of δ; {left:g} of the quarter that is"
        " reserved for them is left"
    )
