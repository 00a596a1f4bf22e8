"""bayesgram demo and bayesgram generate: made-up people, and the whole story about them."""

import os
import sys
from pathlib import Path
from shutil import which
from typing import TYPE_CHECKING, Annotated

import typer

from bayesgram.cli import console, options
from bayesgram.cli.compare import show_changes
from bayesgram.cli.evaluate import print_rows

if TYPE_CHECKING:
    from bayesgram.demo.pipeline import Found

Users = Annotated[int, typer.Option(help="How many made-up users, up to 10,000,000.")]
Sentences = Annotated[int, typer.Option(help="How many sentences of articles; of chat, a third.")]
PopulationSeed = Annotated[
    int, typer.Option(help="Which population: the same number gives the same text.")
]

CLOSING = """\
{sources}
* chosen by looking at the private text, so flattered; nobody could publish it.
KL: how far a release is from the private text; 0 is perfect. It is computed from private data: not for publication.
PROVED: ε is a guarantee for every user. EMPIRICAL: ε is the paper's claim, not a guarantee. NONE: nothing is claimed.
{leaked} of {secrets} planted secrets can be pieced together from a release or the discovery.
Open {pictures} and results.csv in {output}; the releases are in {output}/releases.
Type with them, look through them and plan the next one, on a page of your own:
  {command} serve {output}/releases --vocab {output}/vocab.parquet --vocab {output}/found/vocab.parquet --open"""
PICTURES = "comparison.png, sources.png, moved.png, norms.png, found.png, weeks.png"
MOST_FOUND = 12  # discovered n-grams
MOST_CHANGES = 5  # over the weeks, and between countries


def demo(
    users: Users = 100_000,
    sentences: Sentences = 300_000,
    seed: PopulationSeed = 7,
    output: Annotated[Path, typer.Option("--output", "-o", help="The folder to fill.")] = Path(
        "demo"
    ),
    force: options.Force = False,
    json: options.Json = False,
) -> None:
    """Run the whole story on made-up people: text, vocabulary, counts, releases, comparison.

    Example: bayesgram demo --users 100000 --output demo
    """
    from bayesgram.demo import pipeline as story
    from bayesgram.io.atomic import check_writable
    from bayesgram.synthetic.population import Population

    check_writable(output, force=force, contents=story.CONTENTS)
    population = Population(users=users, seed=seed)
    with console.steps(story.number_of_steps(users)) as step:
        told = story.run(output, population, sentences=sentences, step=step, force=force)
    if json:
        console.print_json({"output": str(output), **told.to_json()})
        return
    print_rows("Every mechanism on the same people", told.rows, mechanism=False)
    for title, items in (("Lifted most", told.lifted), ("Lowered most", told.lowered)):
        cells = [(item.ngram, f"{item.before:.1e}", f"{item.after:.1e}") for item in items]
        columns = ("n-gram", "public", "released")
        console.print_table(f"{title} ({story.SHOWN})", columns, cells, right=columns[1:])
    _show_found(told.found)
    show_changes(told.followed.weeks, MOST_CHANGES)
    show_changes(told.followed.countries, MOST_CHANGES)
    console.write(
        CLOSING.format(
            command=_command(),
            output=output,
            leaked=told.leaked,
            secrets=told.secrets,
            sources=told.sources,
            pictures=PICTURES,
        )
    )


def _command() -> str:
    """What to type to run us: after `make demo` we are beside the Python that runs, and not on the path."""
    if which("bayesgram"):
        return "bayesgram"
    beside = Path(sys.executable).with_name("bayesgram")
    return (
        os.path.relpath(beside)
        if beside.exists()
        else f"{os.path.relpath(sys.executable)} -m bayesgram"
    )


def _show_found(found: "Found") -> None:
    """What the discovery added, and how much more of what people write the vocabulary lists."""
    rows = [
        (ngram, str(order), f"{weight:.1f}") for ngram, order, weight in found.ngrams[:MOST_FOUND]
    ]
    title = f"Discovered: {len(found.ngrams):,} n-grams that public text lacks, {found.claim}"
    if rows:
        console.print_table(
            title, ("n-gram", "order", f"weight (T = {found.level:.1f})"), rows, right=("order",)
        )
    for each in found.covered:
        told = f"The vocabulary has {each.before:.1%} of what people write in n-grams of order {each.order}"
        console.write(f"{told}; with what was discovered, {each.after:.1%}.")


def generate(
    output: options.Output,
    users: Users = 100_000,
    sentences: Sentences = 300_000,
    seed: PopulationSeed = 7,
    countries: Annotated[
        bool, typer.Option("--countries", help="Messages have a column country: de, fr, it or at.")
    ] = False,
    force: options.Force = False,
    json: options.Json = False,
) -> None:
    """Write made-up private messages (Parquet: user, text) and public text, articles and chat, to try things on.

    Example: bayesgram generate --users 10000 -o data
    """
    from bayesgram.demo.pipeline import SOURCES, write_public
    from bayesgram.io.atomic import write_folder_atomically
    from bayesgram.synthetic.population import Population, write_messages

    population = Population(users=users, seed=seed)
    with write_folder_atomically(
        output, contents=(*SOURCES.values(), "messages"), force=force
    ) as folder:
        (folder / "messages").mkdir(mode=0o700)
        with console.step("Writing public text"):
            write_public(folder, population, sentences=sentences)
        with console.step("Writing messages"):
            write_messages(folder / "messages", population, countries=countries)
    report = {
        **{name: str(output / file) for name, file in SOURCES.items()},
        "private": str(output / "messages"),
        "users": users,
        "seed": seed,
    }
    console.report(report, json=json)
