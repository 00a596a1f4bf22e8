"""bayesgram demo and bayesgram generate: all commands on made-up people, and their text alone."""

import os
import sys
from dataclasses import replace
from pathlib import Path
from shutil import which
from typing import TYPE_CHECKING, Annotated

import typer

from bayesgram.cli import console, options
from bayesgram.cli.compare import print_changes
from bayesgram.cli.evaluate import print_divergences
from bayesgram.cli.options import parse_int
from bayesgram.errors import check_int

if TYPE_CHECKING:
    from bayesgram.demo.pipeline import DiscoveredNgrams

Users = Annotated[
    int, typer.Option(parser=parse_int, help="How many made-up users, up to 10,000,000.")
]
Sentences = Annotated[
    int,
    typer.Option(
        parser=parse_int,
        help="How many sentences of public articles. Public chat has a third of them.",
    ),
]
PopulationSeed = Annotated[
    int,
    typer.Option(
        parser=parse_int, help="Which made-up people: the same number gives the same text."
    ),
]

DIVERGENCES_NOTE = (
    "KL divergence measures how far a release is from the private text; 0 is perfect. It is"
    " computed from private data: not for publication.\n"
    "PROVED: ε is a guarantee for every user. EMPIRICAL: ε is the paper's claim, not a guarantee."
    " NONE: nothing is claimed.\n"
    "* Its settings were chosen by looking at the private text, so nobody could publish it."
)
CLOSING = (
    "The pictures ({pictures}) and results.csv are in {output}; the releases are in"
    " {output}/releases.\n"
    "To type with the releases, browse them and plan the next one, open them in a browser:\n"
    "  {command} serve {output}/releases --vocab {output}/vocab.parquet"
    " --vocab {output}/found/vocab.parquet --open"
)
PICTURES = "comparison.png, sources.png, moved.png, norms.png, found.png, weeks.png"
MAX_DISCOVERED = 12  # n-grams in the table of the discovery
MAX_WEEKS = 99  # of `generate`: their folders have two digits
MAX_CHANGES = 5  # rows in the tables over the weeks, and between countries


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
    """Run all steps on made-up people: text, vocabulary, counts, releases, comparison.

    The output begins with the three main results. Tables follow.

    Example: bayesgram demo --users 100000 --output demo
    """
    from bayesgram.charts import format_probability
    from bayesgram.demo import pipeline
    from bayesgram.io.atomic import check_writable
    from bayesgram.synthetic.population import Population

    check_writable(output, force=force, contents=pipeline.CONTENTS)
    population = Population(users=users, seed=seed)
    with console.steps(pipeline.number_of_steps(users)) as step:
        results = pipeline.run(output, population, sentences=sentences, step=step, force=force)
    if json:
        console.print_json({"output": str(output), **results.to_json()})
        return
    for number, headline in enumerate(results.headlines, start=1):
        console.write(f"{number}. {headline}")
    console.write("")
    print_divergences("Every mechanism on the same people", results.rows, with_mechanism=False)
    console.write(DIVERGENCES_NOTE)
    for title, items in (
        ("More frequent than in public text", results.lifted),
        ("Less frequent than in public text", results.lowered),
    ):
        cells = [
            (item.ngram, format_probability(item.before), format_probability(item.after))
            for item in items
        ]
        columns = ("n-gram", "public text", "release")
        console.print_table(f"{title} ({pipeline.SHOWN})", columns, cells, right=columns[1:])
    if results.sources:
        console.write(results.sources)
    _print_discovered(results.found)
    print_changes(results.followed.weeks.changes, MAX_CHANGES)
    console.write(results.followed.weeks.sentence)
    print_changes(results.followed.countries, MAX_CHANGES)
    console.write(CLOSING.format(command=_own_command(), output=output, pictures=PICTURES))


def _own_command() -> str:
    """Return what to type to run us: after `make demo`, we are not on the path."""
    if which("bayesgram"):
        return "bayesgram"
    beside_python = Path(sys.executable).with_name("bayesgram")
    if beside_python.exists():
        return os.path.relpath(beside_python)
    return f"{os.path.relpath(sys.executable)} -m bayesgram"


def _print_discovered(discovered: "DiscoveredNgrams") -> None:
    """Print what the discovery added, and how much more of what people write is listed then."""
    from bayesgram.releases.card_sections import order_name

    rows = [
        (ngram, str(order), f"{weight:.1f}")
        for ngram, order, weight in discovered.ngrams[:MAX_DISCOVERED]
    ]
    if rows:
        ngram_count = len(discovered.ngrams)
        title = f"Discovered: {ngram_count:,} n-grams that public text lacks, {discovered.claim}"
        columns = ("n-gram", "words", f"weight (threshold {discovered.level:.1f})")
        console.print_table(title, columns, rows, right=columns[1:])
    for coverage in discovered.covered:
        console.write(
            f"The vocabulary lists {coverage.before:.1%} of people's {order_name(coverage.order)};"
            f" with the discovered n-grams, {coverage.after:.1%}."
        )


def generate(
    output: options.Output,
    users: Users = 100_000,
    sentences: Sentences = 300_000,
    seed: PopulationSeed = 7,
    countries: Annotated[
        bool,
        typer.Option("--countries", help="Add a column country to the messages: de, fr, it or at."),
    ] = False,
    weeks: Annotated[
        int | None,
        typer.Option(
            parser=parse_int,
            help=f"Write the messages of so many weeks, up to {MAX_WEEKS}, into week-01, week-02, …"
            " User ids stay the same, about a third of the users write in a week, and what they"
            " write about drifts slowly.",
            show_default=False,
        ),
    ] = None,
    force: options.Force = False,
    json: options.Json = False,
    verbose: options.Verbose = False,
) -> None:
    """Write made-up text for trying things out.

    It writes private messages (Parquet with columns user and text) and public text: articles and
    chat.

    Example: bayesgram generate --users 10000 -o data
    """
    from bayesgram.demo.pipeline import SOURCES, write_public
    from bayesgram.io.atomic import write_folder_atomically
    from bayesgram.synthetic.population import Population, write_messages

    population = Population(users=users, seed=seed)
    if weeks is not None:
        check_int("weeks", weeks, 1, MAX_WEEKS, "the number of weeks")
    all_weeks = [f"week-{week:02}" for week in range(1, MAX_WEEKS + 1)]
    contents = (*SOURCES.values(), "messages", *all_weeks)
    written = {"messages": population}
    if weeks is not None:
        written = {
            name: replace(population, week=week)
            for week, name in enumerate(all_weeks[:weeks], start=1)
        }
    with write_folder_atomically(output, contents=contents, force=force) as folder:
        with console.step("Writing public text"):
            write_public(folder, population, sentences=sentences)
        for name, people in written.items():
            (folder / name).mkdir(mode=0o700)
            with console.step(f"Writing {'messages' if weeks is None else name}"):
                write_messages(folder / name, people, countries=countries)
    private = [str(output / name) for name in written]
    report = {
        **{name: str(output / file) for name, file in SOURCES.items()},
        "private": private[0] if weeks is None else private,
        "users": users,
        "seed": seed,
    }
    public = console.join_words([str(output / file) for file in SOURCES.values()])
    columns = "columns user, text and country" if countries else "columns user and text"
    folders = private[0] if len(private) == 1 else f"{private[0]} to {private[-1]}"
    made = f"made-up text of {users:,} users" + ("" if weeks is None else f" in {weeks} weeks")
    summary = [
        f"Wrote {output}: {made}, and made-up public text.",
        f"Private text: {folders} ({columns}). Public text: {public}.",
    ]
    console.print_summary(summary, report, json=json, verbose=verbose)
