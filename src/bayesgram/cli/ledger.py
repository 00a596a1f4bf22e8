"""bayesgram ledger: the budget of a named population, kept in a file."""

from collections import Counter
from glob import glob, has_magic
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from bayesgram.cli import console, options
from bayesgram.cli.console import with_quiet
from bayesgram.errors import BayesgramError, UsageError

if TYPE_CHECKING:
    from bayesgram.privacy.ledger_io import LedgerContents, Reservation

ledger_app = typer.Typer(
    name="ledger",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)

File = Annotated[Path, typer.Argument(metavar="FILE", help="The ledger.", show_default=False)]


@ledger_app.callback()
def _ledger() -> None:
    """Keep the budget of a named population: what may be spent, and everything that was (docs/ledger.md).

    Example: bayesgram ledger create --population "app users" --epsilon 1 --delta 1e-6 app.ledger
    """


@ledger_app.command()
@with_quiet
def create(
    file: File,
    population: Annotated[
        str,
        typer.Option(
            help="Whose text it is: a name that everybody in the team uses.", show_default=False
        ),
    ],
    epsilon: Annotated[float, typer.Option(help="ε of all releases together.", show_default=False)],
    delta: Annotated[
        float,
        typer.Option(
            help="δ of all releases together; 0 allows pure-ε releases only.", show_default=False
        ),
    ],
    json: options.Json = False,
) -> None:
    """Make a ledger. The file must not exist; only its owner can read it.

    Example: bayesgram ledger create --population "app users" --epsilon 1 --delta 1e-6 app.ledger
    """
    from bayesgram.privacy.budget import Budget
    from bayesgram.privacy.ledger import Ledger
    from bayesgram.releases.card import find_weaknesses

    ledger = Ledger.create(file, population=population, budget=Budget(epsilon, delta))
    contents = ledger.read()
    warnings = [str(weakness) for weakness in find_weaknesses(epsilon, delta)]
    told = {"ledger": str(file), "population": population, "epsilon": epsilon, "delta": delta}
    told |= {"identity": contents.identity, "last_hash": contents.last_hash}
    console.report({**told, "warnings": warnings} if json else told, json=json)
    for warning in warnings:
        console.say(f"warning: {warning}")


@ledger_app.command()
@with_quiet
def show(file: File, json: options.Json = False) -> None:
    """Verify a ledger and show every reservation, what they cost together, and what is left.

    Example: bayesgram ledger show app.ledger
    """
    from bayesgram.privacy.ledger_io import read_ledger

    contents = read_ledger(file)
    if json:
        console.print_json(
            {
                **_summary(file, contents),
                "entries": [_told(entry) for entry in contents.reservations],
            }
        )
        return
    summary = _summary(file, contents)
    cells = [_cells(entry) for entry in contents.reservations]
    columns = ("number", "time (UTC)", "mechanism", "ε", "δ", "state", "output")
    console.print_table(
        f"Ledger of {contents.population}", columns, cells, right=("number", "ε", "δ")
    )
    console.report(
        {
            **({"unit": contents.unit} if contents.unit else {}),
            "budget": f"ε = {contents.budget.epsilon:g}, δ = {contents.budget.delta:g}",
            "spent": _spent(summary),
            "left": contents.describe_left(),
            **_failures(contents),
            "promise": contents.promise,
            "last_hash": contents.last_hash,
        },
        json=False,
    )


@ledger_app.command()
@with_quiet
def publish(
    file: File,
    entry: Annotated[
        int,
        typer.Argument(metavar="ENTRY", help="The number of a reservation.", show_default=False),
    ],
    json: options.Json = False,
) -> None:
    """Note that the release of a reservation was published. It costs nothing and gives nothing back.

    `release` and `discover` do this themselves. It is for a run that was stopped just before, when its output stands
    in its place and only the note is missing: a release can follow another one only if that one was published.

    Example: bayesgram ledger publish app.ledger 3
    """
    from bayesgram.privacy.ledger import Ledger

    ledger = Ledger.open(file)
    ledger.complete(entry)
    console.report({"ledger": str(file), "entry": entry, "state": "published"}, json=json)


@ledger_app.command("list")
@with_quiet
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
    for file in _found(files):
        try:
            rows.append({**_summary(file, read_ledger(file)), "problem": None})
        except BayesgramError as error:
            rows.append({"ledger": str(file), "problem": str(error)})
    _mark_copies(rows)
    if json:
        console.print_json({"ledgers": rows})
    else:
        _print_list(rows)
    broken = [row["problem"] for row in rows if row["problem"]]
    if broken:
        raise BayesgramError(" ".join(broken))


def _found(patterns: list[str]) -> list[Path]:
    """The files that are meant: of a folder, those which say that they are ledgers."""
    from bayesgram.privacy.ledger_io import is_ledger

    found: dict[Path, None] = {}
    for pattern in patterns:
        path = Path(pattern)
        if path.is_dir() or (has_magic(pattern) and not path.exists()):
            inside = path.iterdir() if path.is_dir() else map(Path, glob(pattern, recursive=True))  # noqa: PTH207 - may be absolute
            ledgers = sorted(file for file in inside if file.is_file() and is_ledger(file))
            if not ledgers:
                raise UsageError(
                    f"{pattern}: holds no ledger; make one with: bayesgram ledger create"
                )
            found.update(dict.fromkeys(ledgers))
        else:
            found[path] = None
    return list(found)


def _summary(file: Path, contents: "LedgerContents") -> dict[str, Any]:
    """A ledger in a few words, for people and machines."""
    return {
        "ledger": str(file),
        "population": contents.population,
        "unit": contents.unit,
        "promise": contents.promise,
        "epsilon": contents.budget.epsilon,
        "delta": contents.budget.delta,
        "spent_epsilon": contents.spent_epsilon(),
        "left_gaussian_epsilon": contents.left_gaussian(),
        "left_pure_epsilon": contents.left_pure(),
        **_unless_zero(
            {
                "spent_failure": contents.spent_failure(),
                "left_failure": contents.left_for_discovery().failure,
            }
        ),
        "reservations": len(contents.reservations),
        "unpublished": sum(not entry.published for entry in contents.reservations),
        "identity": contents.identity,
        "format": contents.format,
        "last_number": contents.last_number,
        "last_hash": contents.last_hash,
    }


def _told(entry: "Reservation") -> dict[str, Any]:
    return {
        "number": entry.number,
        "time": entry.time,
        "state": _state(entry),
        "spend": _spend(entry),
        "description": entry.description,
        "hash": entry.hash,
    }


def _spend(entry: "Reservation") -> dict[str, float]:
    numbers = dict(vars(entry.spend))
    failure = _unless_zero({"failure": numbers.pop("failure")})
    return {**numbers, **failure, "mu_squared": entry.spend.mu_squared}


def _unless_zero(numbers: dict[str, float]) -> dict[str, float]:
    """What only discoveries have is shown where there are some."""
    return {name: value for name, value in numbers.items() if value}


def _failures(contents: "LedgerContents") -> dict[str, str]:
    """For people: how likely discoveries are to fail, and what is left of that."""
    from bayesgram.privacy.accounting import digits_up

    spent = contents.spent_failure()
    left = f"{contents.left_for_discovery().failure:g} of a quarter of δ is left"
    return {"failures": f"with probability {digits_up(spent)} together; {left}"} if spent else {}


def _cells(entry: "Reservation") -> tuple[str, ...]:
    """A row of the table; a description may hold anything, so nothing in it is taken for granted."""
    mechanism, epsilon, delta, output = (
        _printable(entry.description.get(name))
        for name in ("mechanism", "epsilon", "delta", "output")
    )
    return (
        str(entry.number),
        entry.time[:16].replace("T", " "),
        mechanism,
        epsilon,
        delta,
        _state(entry),
        output,
    )


def _printable(value: object) -> str:
    if isinstance(value, float):
        return console.number(value)
    return "–" if value is None else "".join(c if c.isprintable() else "�" for c in str(value))


def _state(entry: "Reservation") -> str:
    return "published" if entry.published else "reserved"


def _spent(summary: dict[str, Any]) -> str:
    from bayesgram.privacy.accounting import digits_up

    count, unpublished = summary["reservations"], summary["unpublished"]
    told = f"ε = {digits_up(summary['spent_epsilon'])} at δ = {summary['delta']:g}"
    told += f" by {count} reservation{'' if count == 1 else 's'}"
    return f"{told}, {unpublished} of them not published" if unpublished else told


def _mark_copies(rows: list[dict[str, Any]]) -> None:
    """Two files of one ledger can both be spent: a person must see that."""
    sound = [row for row in rows if not row["problem"]]
    files = Counter(row["identity"] for row in sound)
    for row in sound:
        if files[row["identity"]] > 1:
            row["problem"] = (
                f"{row['ledger']}: is one of {files[row['identity']]} copies of one ledger; keep the longest."
            )


def _print_list(rows: list[dict[str, Any]]) -> None:
    from bayesgram.privacy.accounting import digits_up
    from bayesgram.privacy.unit import is_person

    cells = [
        (
            row["ledger"],
            row["population"]
            if row["unit"] is None or is_person(row["unit"])
            else f"{row['population']}: {row['unit']}",
            f"{row['epsilon']:g}",
            f"{row['delta']:g}",
            digits_up(row["spent_epsilon"]),
            f"{row['left_gaussian_epsilon']:g}",
            f"{row['left_pure_epsilon']:g}",
            str(row["reservations"]),
        )
        if "population" in row
        else (row["ledger"], "refused", *"––––––")
        for row in rows
    ]
    columns = ("ledger", "population", "ε", "δ", "spent", "left", "pure", "entries")
    console.print_table(
        "Ledgers: ε that is spent, and left for a Gaussian or a pure-ε release",
        columns,
        cells,
        right=columns[2:],
    )
