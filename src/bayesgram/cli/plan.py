"""bayesgram plan: what a release would be worth, before anything is spent."""

import re
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from bayesgram.cli import console, options
from bayesgram.cli.evaluate import check_picture, save_picture
from bayesgram.errors import UsageError

if TYPE_CHECKING:
    from bayesgram.planning.plan import Plan, Row

COLUMNS = (
    "KL: from what people write to the release, 0 is perfect. closed: of the distance that public text has. known: the"
    " share of what people write that the release would call known within a factor of 2: the roughest of these numbers."
    " clipped: users who write more than counts in full."
)
PEOPLE = "Assumed of the people"
Users = Annotated[
    int,
    typer.Option(
        help="How many people write: a public round figure.",
        rich_help_panel=PEOPLE,
        show_default=False,
    ),
]
NgramsAUser = Annotated[
    float,
    typer.Option(
        help="N-grams of the vocabulary that a user writes, on average.", rich_help_panel=PEOPLE
    ),
]
Unevenness = Annotated[
    float,
    typer.Option(
        help="0: all write the same; 0.6: rather evenly; 1.2: some little, some a lot; 2: a few very much.",
        rich_help_panel=PEOPLE,
    ),
]
Difference = Annotated[
    float,
    typer.Option(
        help="Of their text from public text. 0.6: close; 1.2: somewhat; 1.8: as Reddit from Wikipedia; 2.6: very.",
        rich_help_panel=PEOPLE,
    ),
]


def plan(
    vocab: options.Vocab,
    users: Users,
    epsilon: Annotated[
        str | None,
        typer.Option(help="ε to plan with, comma-separated.", show_default="0.1,0.2,0.5,1,2"),
    ] = None,
    delta: Annotated[
        float | None, typer.Option(help="δ.", show_default="1e-7, or the ledger's")
    ] = None,
    kl: Annotated[
        float | None, typer.Option(help="Find the ε that reaches this KL.", show_default=False)
    ] = None,
    known: Annotated[
        str | None,
        typer.Option(
            help="Find the ε at which this much of what people write is known within a factor of 2, such as 80%.",
            show_default=False,
        ),
    ] = None,
    releases: Annotated[
        int,
        typer.Option(
            help="So many releases share ε, as a ledger composes them: 52 for a week each."
        ),
    ] = 1,
    segments: Annotated[
        int,
        typer.Option(
            help="The people are in so many segments within one budget: plan an average one."
        ),
    ] = 1,
    ledger: Annotated[
        Path | None,
        typer.Option(
            help="Plan with what is left of this ledger; it is only read.", show_default=False
        ),
    ] = None,
    size: Annotated[
        int | None,
        typer.Option(
            help="Plan with the most frequent n-grams of each order.",
            show_default="all, up to 100,000 of an order",
        ),
    ] = None,
    draws: Annotated[
        int | None,
        typer.Option(
            help="Simulated releases for each ε.", show_default="3; 1 above 20,000 n-grams"
        ),
    ] = None,
    ngrams_a_user: NgramsAUser = 8.0,
    unevenness: Unevenness = 1.2,
    difference: Difference = 1.8,
    plot: Annotated[
        Path | None,
        typer.Option(help="Draw KL and what is known over ε. A .svg or .png.", show_default=False),
    ] = None,
    force: Annotated[
        bool, typer.Option("--force", help="Replace the picture if it exists.")
    ] = False,
    json: options.Json = False,
) -> None:
    """Simulate releases by `posterior`: what KL to expect at which ε, or which ε reaches a KL.

    Public text and assumptions go in; no private data is read and nothing is spent.

    Example: bayesgram plan --vocab vocab.parquet --users 1000000 --releases 52
    """
    from bayesgram.planning.plan import plan as make
    from bayesgram.privacy.ledger import Ledger
    from bayesgram.public.vocabulary import Vocabulary

    if kl is not None and known is not None:
        raise UsageError("--kl and --known: give one of them; each has an ε of its own.")
    epsilons, share = _epsilons(epsilon), _share(known)
    if plot is not None:
        check_picture(plot, force=force, inputs=[str(vocab)])
    book = None if ledger is None else Ledger.open(ledger)
    vocabulary = Vocabulary.load(vocab)
    with console.step("Simulating releases"):
        made = make(
            vocabulary,
            users=users,
            ngrams_a_user=ngrams_a_user,
            unevenness=unevenness,
            difference=difference,
            epsilon=epsilons,
            delta=delta,
            kl=kl,
            known=share,
            releases=releases,
            segments=segments,
            ledger=book,
            size=size,
            draws=draws,
        )
    if plot is not None:
        _draw(made, plot, force=force)
    if json:
        console.print_json(made.to_json())
    else:
        show(made)


def show(made: "Plan") -> None:
    """The table, the answer and what must be said of them."""
    cells = [_cells(row, made) for row in made.rows]
    columns = list(cells[0])
    title = f"What to expect (simulated); public text alone: KL {made.rows[0].public_kl:.3g}"
    console.print_table(title, columns, [list(row.values()) for row in cells], right=columns)
    console.say(COLUMNS)
    for line in [made.answer, *made.notes, *(f"warning: {warning}" for warning in made.warnings)]:
        if line:
            console.write_wrapped(line)


def _cells(row: "Row", made: "Plan") -> dict[str, str]:
    """A row of the table: 80 columns have room for all of it."""
    return {
        "ε": f"{'→ ' if row.epsilon == made.epsilon else ''}{row.epsilon:g}",
        **({"ε each": f"{row.each:g}"} if made.releases > 1 else {}),
        "KL": f"{row.kl:.3g}",
        **({"simulated": f"{row.kl_low:.2g} – {row.kl_high:.2g}"} if made.draws > 1 else {}),
        "closed": f"{row.closed:.0%}",
        "known": f"{row.known:.0%}",
        "clipped": f"{row.clipped:.0%}",
    }


def _draw(made: "Plan", plot: Path, *, force: bool) -> None:
    from bayesgram.reports import figures

    save_picture(lambda: figures.draw_plan(made), plot, force=force)


def _epsilons(text: str | None) -> list[float] | None:
    """Numbers with commas between them; 0,5 is no way to write one half."""
    if text is None:
        return None
    found = options.several("epsilon", text, options.real, "0.1,0.2,1")
    if 0 in found and len(found) > 1:
        raise UsageError(
            f"--epsilon {text}: commas separate several values, and ε = 0 is none; {options.DECIMAL}"
            f" ({'.'.join(text.split(',')) if re.fullmatch(r'0,[0-9]+', text) else '0.5'})."
        )
    return found


def _share(text: str | None) -> float | None:
    """80% or 0.8."""
    if text is None:
        return None
    found = re.fullmatch(r"([0-9]*\.?[0-9]+)\s*(%?)", text.strip())
    share = float(found[1]) / (100 if found[2] else 1) if found else 0.0
    if not 0 < share < 1:
        raise UsageError(
            f"--known {text}: give a share above 0% and below 100%, such as 80% or 0.8."
        )
    return share
