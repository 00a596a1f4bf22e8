"""bayesgram discover and bayesgram review: strings that people write and public text lacks."""

import csv
import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from bayesgram.cli import console, options, release, spark
from bayesgram.cli.evaluate import check_picture, save_picture
from bayesgram.cli.options import several, whole
from bayesgram.cli.typed import typed_command
from bayesgram.errors import Argument, UsageError

if TYPE_CHECKING:
    from bayesgram.arrays import Bools
    from bayesgram.lm.language_model import LanguageModel
    from bayesgram.mechanisms.discovery import Settings
    from bayesgram.privacy.budget import Budget
    from bayesgram.public.discovered_ngrams import Discovery

SHOWN = 20  # n-grams, and those that look like secrets
BAR = 24  # letters
GIVEN = 0.1  # what somebody typically gives an n-gram, for a rule of thumb
KEEP, NGRAM, WEIGHT, WHY = "keep", "ngram", "weight", "looks_like"

Drop = Annotated[
    list[str] | None,
    typer.Option(
        help="Drop what matches this pattern (regular expression), and what contains it; may be repeated.",
        show_default=False,
    ),
]


def discover(
    context: typer.Context,
    private: options.Private,
    vocab: options.Vocab,
    output: options.Output,
    epsilon: options.Epsilon = None,
    delta: options.Delta = None,
    orders: Annotated[
        str | None,
        typer.Option(
            help="Orders to search, such as 1,2,3.", show_default="those of the vocabulary"
        ),
    ] = None,
    model: Annotated[
        Path | None,
        typer.Option(
            help="A public model (`vocab --model`): what it makes likely is found sooner.",
            show_default="made of the vocabulary's counts",
        ),
    ] = None,
    at_least: Annotated[
        int,
        typer.Option(
            help="What fewer people write does not come out (noise aside), whatever ε is."
        ),
    ] = 1,
    max_new: Annotated[
        int | None, typer.Option(help="Publish at most so many, the heaviest.", show_default=False)
    ] = None,
    rounds: Annotated[
        int,
        typer.Option(
            help="How often users are asked, within one budget: more rounds find more. On Spark, 1."
        ),
    ] = 10,
    open_: Annotated[
        bool,
        typer.Option(
            "--open", help="Let words out that are neither public nor found by themselves."
        ),
    ] = False,
    drop: Drop = None,
    plot: Annotated[
        Path | None,
        typer.Option(
            help="Draw what was found: by order, and how far above T. A .svg or .png.",
            show_default=False,
        ),
    ] = None,
    ledger: options.LedgerFile = None,
    unit: options.Unit = None,
    dry_run: options.DryRun = False,
    seed: options.Seed = None,
    user_column: options.UserColumn = "user",
    text_column: options.TextColumn = "text",
    skip_bad_rows: options.SkipBadRows = False,
    work: options.Work = options.HERE,
    force: options.Force = False,
    json: options.Json = False,
) -> None:
    """Find n-grams that many people write in PRIVATE text and the vocabulary lacks, and publish them.

    The result is a folder: what was found, a card, and vocab.parquet, the vocabulary with it, for count and release.

    Example: bayesgram discover messages/*.parquet --vocab vocab.parquet --epsilon 1 --delta 1e-7 -o found
    """
    from bayesgram.io import read_records
    from bayesgram.io.atomic import check_writable
    from bayesgram.mechanisms.base import Randomness
    from bayesgram.mechanisms.discovery import LocalText, Settings, discover_in, discovery_mechanism
    from bayesgram.privacy.budget import Guarantee
    from bayesgram.privacy.ledger import Ledger
    from bayesgram.privacy.unit import THESE_DATA, check_unit
    from bayesgram.public.candidate_weights import PublicText
    from bayesgram.public.discovered_ngrams import CONTENTS
    from bayesgram.public.vocabulary import Vocabulary

    patterns, on_spark = _patterns(drop), spark.chosen(work.engine, work.master)
    if on_spark:
        spark.check_rounds(rounds)
    check_writable(output, force=force, contents=CONTENTS, inputs=[*private, vocab])
    if plot is not None:
        check_picture(plot, force=force, inputs=[*map(str, private), str(vocab), str(output)])
    Randomness.make(seed)
    budget, room = _budget(epsilon, delta), work.room
    vocabulary = Vocabulary.load(vocab)
    settings = Settings.of(
        vocabulary, _orders(orders), at_least=at_least, max_new=max_new, open=open_, rounds=rounds
    )
    settings.calibrated(budget)  # what won't do is refused before anything is read
    book = None if ledger is None else Ledger.open(ledger)
    public = PublicText.of(vocabulary, _language_model(model))
    stated = None if unit is None else check_unit(unit)
    mechanism = discovery_mechanism(
        settings, budget, public.vocabulary, seed=seed, ledger=book, unit=stated
    )
    rows: dict[str, Any] = {
        "user_column": user_column,
        "text_column": text_column,
        "skip_bad_rows": skip_bad_rows,
    }
    if dry_run:
        read_records([*map(Path, private)], **rows)  # whether there are files, and columns in them
        label = mechanism.label(public.vocabulary).name if seed is None else Guarantee.NONE.name
        release.show_discovery(mechanism, book, unit or THESE_DATA, label, json=json)
        return
    charged = None if ledger is None else console.begin(ledger, budget, output)
    drop_matches = _DropMatches(patterns)
    told: dict[str, Any] = {
        "seed": seed,
        "ledger": book,
        "output": output,
        "force": force,
        "unit": unit,
        "command": typed_command(context),
        "edit": drop_matches,
        "on_reserved": None if charged is None else charged.reserved,
    }
    if on_spark:
        found = spark.discover(private, public, settings, budget, work.master, **rows, **told)
    else:
        with console.reading("Reading private text", then="Weighing what it holds") as bar:
            records = bar.records(private, refuse_nothing=True, **rows)
            found = discover_in(LocalText(records, room), public, settings, budget, **told)
    console.done()
    if plot is not None:
        _draw(found, plot, force=force)
    if json:
        told = {"output": str(output), "card": found.card.to_json(), "found": _rows(found)}
        console.print_json({**told, **(drop_matches.dropped.described if patterns else {})})
    else:
        _show(found, settings, budget, output, drop_matches.dropped.sentence if patterns else "")


def review(
    found: Annotated[
        Path, typer.Argument(metavar="FOUND", help="The folder of a discovery.", show_default=False)
    ],
    output: Annotated[
        Path | None,
        typer.Option(
            "--output", "-o", help="Where the reviewed discovery goes.", show_default=False
        ),
    ] = None,
    file: Annotated[
        Path | None,
        typer.Option(
            help="A table (CSV) to decide in: written if there is none, obeyed if there is.",
            show_default=False,
        ),
    ] = None,
    drop: Drop = None,
    force: options.Force = False,
    json: options.Json = False,
) -> None:
    """Drop some of what a discovery FOUND, before it is published. Costs nothing.

    What contains a dropped n-gram is dropped as well: with "typos" goes "fix typos".

    Without --output, what looks like a secret is listed. With --file, all of it is written to a table; say "no" in its
    column "keep" where a string must not be published, and run the command again with --output. Only then is the
    discovery called reviewed: --drop alone does not read the strings.

    Example: bayesgram review found --file review.csv
    """
    from bayesgram.io.atomic import check_writable
    from bayesgram.public.discovered_ngrams import CONTENTS, Discovery

    patterns = _patterns(drop)
    if output is not None:
        check_writable(output, force=force, contents=CONTENTS, inputs=[found])
    discovery = Discovery.load(found)
    if file is not None and not file.exists():
        if output is not None:
            raise UsageError(
                f"--file {file}: there is no such table; leave --output out, and it is written."
            )
        _write_table(discovery, file)
        console.report(
            {"written": str(file), "rows": len(discovery), "next": "edit it, then add -o PATH"},
            json=json,
        )
        return
    stays = None if file is None else _decided(discovery, file)
    kept, dropped = _without(discovery, patterns, stays)
    if output is None:
        _list_suspicious(discovery, json=json)
        return
    if stays is not None:  # a person has decided about each string
        kept = kept.reviewed()
    kept.save(output, force=force)
    console.report({"output": str(output), "kept": len(kept), **dropped.described}, json=json)


def _budget(epsilon: float | None, delta: float | None) -> "Budget":
    from bayesgram.privacy.budget import Budget

    if epsilon is None:
        raise UsageError("--epsilon is missing: a discovery needs a budget; 1 is usual.")
    return Budget(epsilon, 1e-7 if delta is None else delta)


def _orders(text: str | None) -> list[int] | None:
    if text is None:
        return None
    return several("orders", text, whole, "1,2,3")


def _patterns(drop: list[str] | None) -> list[re.Pattern[str]]:
    found = []
    for pattern in drop or []:
        try:
            found.append(re.compile(pattern))
        except re.error as error:
            raise UsageError(f"--drop {pattern}: not a regular expression ({error}).") from None
    return found


def _language_model(path: Path | None) -> "LanguageModel | None":
    if path is None:
        return None
    from bayesgram.public.public_model import PublicModel

    return PublicModel.load(path).mixture


@dataclass(frozen=True)
class _Dropped:
    """How many n-grams were dropped, and how many more because they contain one of these."""

    chosen: int
    containing: int

    @property
    def described(self) -> dict[str, int]:
        return {
            "kept_back": self.chosen + self.containing,
            "contain_a_dropped_one": self.containing,
        }

    @property
    def sentence(self) -> str:
        return (
            f"Dropped {self.chosen:,} n-grams that match --drop, and {self.containing:,} more because"
            " they contain one of them."
        )


class _DropMatches:
    """Drops what matches some patterns before a discovery is saved, and remembers how much that was."""

    def __init__(self, patterns: list[re.Pattern[str]]) -> None:
        self.patterns = patterns
        self.dropped = _Dropped(0, 0)

    def __call__(self, found: "Discovery") -> "Discovery":
        kept, self.dropped = _without(found, self.patterns)
        return kept


def _without(
    found: "Discovery", patterns: list[re.Pattern[str]], stays: "Bools | None" = None
) -> "tuple[Discovery, _Dropped]":
    """What is left of a discovery; `stays` says what a person keeps."""
    import numpy as np

    from bayesgram.public.discovered_ngrams import matching

    rows = ~np.array(matching(found.ngrams, patterns), bool)
    if stays is not None:
        rows &= stays
    chosen = int(np.count_nonzero(~rows))
    kept = found.kept(rows) if chosen else found
    return kept, _Dropped(chosen, len(found) - len(kept) - chosen)


def _rows(found: "Discovery") -> list[dict[str, Any]]:
    from bayesgram.public.discovered_ngrams import reasons

    columns = (
        found.ngrams.to_pylist(),
        found.orders.tolist(),
        found.weights.tolist(),
        reasons(found.ngrams),
    )
    return [
        {NGRAM: ngram, "order": order, WEIGHT: round(weight, 3), WHY: why}
        for ngram, order, weight, why in zip(*columns, strict=True)
    ]


def _show(
    found: "Discovery", settings: "Settings", budget: "Budget", output: Path, dropped: str
) -> None:
    """The card, a table with bars, and what a person should know."""
    if dropped:
        console.say(dropped)
    by_order = ", ".join(
        f"{int((found.orders == order).sum()):,} of order {order}" for order in settings.orders
    )
    told = f"Found:      {len(found):,} new n-grams ({by_order}), each with a noisy weight above T = {found.level:.1f}"
    console.write(f"{found.card}\n{told}\nWritten to: {output}")
    if not len(found):
        _say_why_nothing(found, settings, budget)
        return
    rows = [
        (row[NGRAM], str(row["order"]), f"{row[WEIGHT]:,.1f}", _bar(found, row[WEIGHT]))
        for row in _rows(found)[:SHOWN]
    ]
    title = "All of it" if len(found) <= SHOWN else f"The {SHOWN} heaviest"
    console.print_table(
        title, ["n-gram", "order", "weight", "above T"], rows, right=["order", "weight"]
    )
    _list_suspicious(found, json=False)


def _bar(found: "Discovery", weight: float) -> str:
    """How far above T, on a scale that ends at the heaviest."""
    most = float(found.weights.max()) - found.level
    return "█" * max(1, round(BAR * (weight - found.level) / most)) if most > 0 else "█"


def _draw(found: "Discovery", plot: Path, *, force: bool) -> None:
    """Write the picture; where nothing was found there is none."""
    from bayesgram.reports import figures

    if not len(found):
        console.say(f"Nothing to draw: {plot} was not written.")
        return
    rows = list(
        zip(found.ngrams.to_pylist(), found.orders.tolist(), found.weights.tolist(), strict=True)
    )
    told = f"{len(found):,} n-grams, {found.card.claim}, T = {found.level:.1f}"
    save_picture(
        lambda: figures.draw_discoveries(rows, found.level, found.deviation, subtitle=told),
        plot,
        force=force,
    )


def _list_suspicious(found: "Discovery", *, json: bool) -> None:
    """What looks like a secret, on standard error; or all of it as JSON."""
    odd = [row for row in _rows(found) if row[WHY]]
    if json:
        console.print_json({"found": len(found), "look_like_secrets": odd})
        return
    if not odd:
        console.say(
            "Nothing of it looks like a secret (digits, addresses, codes); read it before you publish it."
        )
        return
    listed = "; ".join(f"{row[NGRAM]!r} ({row[WHY]})" for row in odd[:SHOWN])
    console.say(
        f"warning: {len(odd)} of them look like secrets that many people share: {listed}. Look at them before you"
        " publish: `bayesgram review FOUND --file review.csv`, or --drop PATTERN."
    )


def _say_why_nothing(found: "Discovery", settings: "Settings", budget: "Budget") -> None:
    """What it would take, from public numbers alone."""
    from bayesgram.privacy.budget import Budget

    def people(level: float) -> str:
        return f"{round(level / GIVEN):,}"

    others = [epsilon for epsilon in (1.0, 2.0, 4.0, 8.0) if epsilon > budget.epsilon][:2]
    levels = [
        (epsilon, settings.calibrated(Budget(epsilon, budget.delta)).level) for epsilon in others
    ]
    told = "".join(f"; at ε = {epsilon:g} about {people(level)}" for epsilon, level in levels)
    console.say(
        f"Nothing was found: no n-gram that the vocabulary lacks has a noisy weight above T = {found.level:.1f}."
        f" Whoever writes many new n-grams gives each about {GIVEN:g}, so it takes about {people(found.level)} people"
        f" who write the same one{told}. Fewer --orders, or a --model of public text that is nearer, help too."
    )


def _write_table(found: "Discovery", file: Path) -> None:
    from bayesgram.io.atomic import write_file_atomically

    with (
        write_file_atomically(file, option=Argument("file")) as aside,
        aside.open("w", newline="", encoding="utf-8") as out,
    ):
        writer = csv.DictWriter(out, [KEEP, NGRAM, WEIGHT, WHY], extrasaction="ignore")
        writer.writeheader()
        writer.writerows({KEEP: "no" if row[WHY] else "yes", **row} for row in _rows(found))


def _decided(found: "Discovery", file: Path) -> "Bools":
    """Which n-grams a person keeps: every string of the discovery must be decided on."""
    import numpy as np

    try:
        with file.open(newline="", encoding="utf-8") as table:
            decided = {row[NGRAM]: row[KEEP].strip().lower() for row in csv.DictReader(table)}
    except (OSError, UnicodeDecodeError, KeyError, AttributeError, csv.Error):
        raise UsageError(
            f"--file {file}: not the table that this command wrote; remove it and begin again."
        ) from None
    answers = [decided.get(ngram, "") for ngram in found.ngrams.to_pylist()]
    if not set(answers) <= {"yes", "no"}:
        place = next(at for at, answer in enumerate(answers) if answer not in {"yes", "no"})
        raise UsageError(
            f"--file {file}: {found.ngrams[place].as_py()!r} has neither yes nor no in the column {KEEP!r}; decide."
        )
    stays: Bools = np.array(answers) == "yes"
    return stays
