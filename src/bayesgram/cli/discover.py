"""bayesgram discover and bayesgram review: strings that people write and public text lacks."""

import csv
import re
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from bayesgram.cli import console, engines, options, plots
from bayesgram.cli.budget_notice import BudgetNotice
from bayesgram.cli.options import parse_int, parse_list
from bayesgram.cli.release import print_discovery_dry_run, summary_fields
from bayesgram.cli.series import open_series as open_series_folder
from bayesgram.errors import Argument, UsageError

if TYPE_CHECKING:
    from bayesgram.lm.language_model import LanguageModel
    from bayesgram.mechanisms.discovery import Settings
    from bayesgram.mechanisms.series import Series
    from bayesgram.privacy.budget import Budget
    from bayesgram.public.discovered_ngrams import Discovery, Review
    from bayesgram.public.vocabulary import Vocabulary

MAX_ROWS = 20  # n-grams in the table, and of those that look like secrets
MAX_SHOWN = 200  # characters of an n-gram in a table; not measured
BAR_LENGTH = 24  # characters of the longest bar
# What a user who writes many new n-grams gives each of them: a rule of thumb, not measured.
TYPICAL_WEIGHT = 0.1

# Columns of the table that `review` writes and reads.
KEEP = "keep"
NGRAM = "ngram"
WEIGHT = "weight"
REASON = "looks_like"  # why an n-gram looks like a secret

Drop = Annotated[
    list[str] | None,
    typer.Option(
        help="Drop what matches this pattern (regular expression), and what contains it; may be"
        " repeated.",
        show_default=False,
    ),
]

# --- discover ---


def discover(  # noqa: PLR0915 - one step after another
    context: typer.Context,
    private: options.Private,
    vocab: options.Vocab,
    output: options.Output,
    epsilon: options.Epsilon = None,
    delta: options.Delta = None,
    orders: Annotated[
        str | None,
        typer.Option(
            help="Lengths of n-grams to search for, in tokens, such as 1,2,3.",
            show_default="those of the vocabulary",
        ),
    ] = None,
    model: Annotated[
        Path | None,
        typer.Option(
            help="A public model (`vocab --model`). What it makes likely is found sooner.",
            show_default="made of the vocabulary's counts",
        ),
    ] = None,
    at_least: Annotated[
        int,
        typer.Option(
            parser=parse_int,
            help="The least number of people who must write an n-gram (approximately, because of"
            " noise).",
        ),
    ] = 1,
    max_new: Annotated[
        int | None,
        typer.Option(
            parser=parse_int,
            help="The most n-grams to publish, such as 5k: those of the largest weight.",
            show_default="all above the threshold",
        ),
    ] = None,
    rounds: Annotated[
        int | None,
        typer.Option(
            parser=parse_int,
            help="How many rounds share the budget. More rounds find more and take longer.",
            show_default="10",
        ),
    ] = None,
    open_: Annotated[
        bool,
        typer.Option(
            "--open",
            help="Also find n-grams with words that are neither public nor found themselves.",
        ),
    ] = False,
    drop: Drop = None,
    plot: Annotated[
        Path | None,
        typer.Option(
            help="Draw what was found, as a .svg or .png.",
            show_default=False,
        ),
    ] = None,
    ledger: options.LedgerFile = None,
    series: Annotated[
        Path | None,
        typer.Option(
            help="The series that this is a discovery of, which is paid for already; leave"
            " --epsilon, --delta and --rounds out. --ledger is needed only if its ledger has moved."
            " Weights add up from one discovery to the next.",
            show_default=False,
        ),
    ] = None,
    unit: options.Unit = None,
    dry_run: options.DryRun = False,
    seed: options.Seed = None,
    user_column: options.UserColumn = "user",
    text_column: options.TextColumn = "text",
    dialect: options.DialectOptions = options.READ_AS_USUAL,
    skip_bad_rows: options.SkipBadRows = False,
    engine_options: options.EngineOptions = options.LOCAL,
    force: options.Force = False,
    json: options.Json = False,
    verbose: options.Verbose = False,
) -> None:
    """Find n-grams that many people write in PRIVATE text and the vocabulary lacks.

    It spends privacy budget. The result is a folder with the n-grams, a card, and vocab.parquet:
    the vocabulary together with them, for `bayesgram count` and `release`.

    Example: bayesgram discover messages/*.parquet --vocab vocab.parquet --epsilon 1 --delta
    1e-7 -o found
    """
    from bayesgram.io import read_records
    from bayesgram.io.atomic import check_writable
    from bayesgram.io.uris import to_input
    from bayesgram.mechanisms.base import Randomness
    from bayesgram.mechanisms.discovery import LocalText, Settings, discover_in_text, make_mechanism
    from bayesgram.mechanisms.running_discovery import check_series_discovery, discover_in_series
    from bayesgram.privacy.budget import Guarantee
    from bayesgram.privacy.ledger import Ledger
    from bayesgram.privacy.unit import DEFAULT_UNIT, check_unit
    from bayesgram.public.candidate_weights import PublicTextModel
    from bayesgram.public.discovered_ngrams import CONTENTS, compile_patterns
    from bayesgram.public.vocabulary import Vocabulary

    # Whatever can't be right is refused before any private data is read.
    patterns = compile_patterns(drop or [])
    on_spark = engines.is_spark(engine_options.engine, engine_options.master)
    check_writable(output, force=force, contents=CONTENTS, inputs=[*private, vocab])
    if plot is not None:
        plots.check_plot(plot, force=force, inputs=[*map(str, private), str(vocab), str(output)])
    Randomness.from_seed(seed)
    given = {"epsilon": epsilon, "delta": delta, "rounds": rounds, "seed": seed}
    open_series = _open_series(
        series, ledger, {**given, "dry_run": dry_run or None}, engine_options=engine_options
    )
    budget = _make_budget(epsilon, delta) if open_series is None else open_series.settings.budget
    vocabulary = Vocabulary.load(vocab)
    chosen_orders = None
    if orders is not None:
        chosen_orders = parse_list("--orders", orders, parse_int, "1,2,3")
    settings = Settings.for_vocabulary(
        vocabulary, chosen_orders, at_least=at_least, max_new=max_new, open=open_, rounds=rounds
    )
    # A series has its ledger already.
    open_ledger = None if ledger is None or open_series else Ledger.open(ledger)
    public = PublicTextModel.from_vocabulary(
        vocabulary, _load_public_model(model or _model_of_rows(vocabulary, vocab))
    )
    checked_unit = None if unit is None else check_unit(unit)
    if open_series is None:
        settings.calibrate(budget)
        mechanism = make_mechanism(
            settings, budget, public.vocabulary, seed=seed, ledger=open_ledger, unit=checked_unit
        )
    else:
        check_series_discovery(open_series, public, settings, checked_unit)
    columns: dict[str, Any] = {
        "user_column": user_column,
        "text_column": text_column,
        "skip_bad_rows": skip_bad_rows,
        **dialect.arguments,
    }
    if dry_run:
        read_records([*map(to_input, private)], **columns)  # are there files, with these columns?
        label = mechanism.label(public.vocabulary).name if seed is None else Guarantee.NONE.name
        print_discovery_dry_run(mechanism, open_ledger, unit or DEFAULT_UNIT, label, json=json)
        return
    notice = _open_notice(series, ledger, budget, output)
    drop_matches = _DropMatches(patterns)
    budget_arguments = {} if open_series else {"seed": seed, "ledger": open_ledger}
    arguments: dict[str, Any] = {
        **budget_arguments,
        "output": output,
        "force": force,
        "unit": unit,
        "command": options.typed_command(context),
        "edit": drop_matches,
        "on_reserved": None if notice is None else notice.set_entry,
    }
    if on_spark:
        discovery = engines.discover_on_spark(
            private, public, settings, budget, engine_options.master, **columns, **arguments
        )
    else:
        with console.reading("Reading private text", then="Weighing what it holds") as bar:
            records = bar.records(private, require_rows=True, **columns)
            text = LocalText(records, engine_options.memory_bytes)
            if open_series is None:
                discovery = discover_in_text(text, public, settings, budget, **arguments)
            else:
                discovery = discover_in_series(text, public, settings, open_series, **arguments)
    BudgetNotice.close()
    if plot is not None:
        _draw(discovery, plot, force=force)
    _print_result(discovery, settings, budget, output, drop_matches, json=json, verbose=verbose)


def _open_series(
    series: Path | None,
    ledger: Path | None,
    given: "dict[str, object]",
    *,
    engine_options: options.EngineOptions,
) -> "Series | None":
    """Return the series, if one was given; refuse options that a discovery of it can't have.

    Args:
        series: The folder of the series.
        ledger: Its ledger, if that has moved.
        given: Options of other discoveries, by their names; each must be None.
        engine_options: Where the discovery runs.
    """
    if series is None:
        return None
    from bayesgram.mechanisms.publish import refuse_series_options

    engines.refuse_series_on_spark(engine_options.engine, engine_options.master)
    refuse_series_options(given)
    return open_series_folder(series, ledger)


def _open_notice(
    series: Path | None, ledger: Path | None, budget: "Budget", output: Path
) -> BudgetNotice | None:
    """Expect that a series or a ledger is charged from here on, if there is one."""
    if series is not None:
        return BudgetNotice.open_series(series, output, kind="discovery")
    return None if ledger is None else BudgetNotice.open(ledger, budget, output)


def _make_budget(epsilon: float | None, delta: float | None) -> "Budget":
    from bayesgram.cli.mechanism_options import DEFAULT_DELTA
    from bayesgram.privacy.budget import Budget

    if epsilon is None:
        raise UsageError("--epsilon is missing: a discovery needs a budget; 1 is usual.")
    return Budget(epsilon, DEFAULT_DELTA if delta is None else delta)


def _model_of_rows(vocabulary: "Vocabulary", path: Path) -> Path | None:
    """Return the public model beside a vocabulary of rows, which need one; None if it has none."""
    from bayesgram.public.public_model import is_public_model
    from bayesgram.public.vocabulary_io import default_model_path

    beside = default_model_path(path)
    return beside if vocabulary.tokenizer.is_rows and is_public_model(beside) else None


def _load_public_model(path: Path | None) -> "LanguageModel | None":
    if path is None:
        return None
    from bayesgram.public.public_model import PublicModel

    return PublicModel.load(path).mixture


def _print_result(
    discovery: "Discovery",
    settings: "Settings",
    budget: "Budget",
    output: Path,
    drop_matches: "_DropMatches",
    *,
    json: bool,
    verbose: bool,
) -> None:
    """Print a discovery as JSON, or for people.

    Args:
        discovery: What was found.
        settings: What was searched for.
        budget: What it cost.
        output: Where it was written.
        drop_matches: What --drop has dropped.
        json: Whether to print JSON.
        verbose: Whether to print the whole card.
    """
    if json:
        document: dict[str, Any] = {
            "output": str(output),
            "card": discovery.card.to_json(),
            "found": _rows(discovery),
        }
        if drop_matches.patterns:
            document |= _count_dropped(drop_matches.review)
        console.print_json(document)
        return
    if drop_matches.patterns:
        console.print_note(_dropped_sentence(drop_matches.review, "match --drop"))
    _print_discovery(discovery, settings, budget, output, verbose=verbose)


def _print_discovery(
    discovery: "Discovery",
    settings: "Settings",
    budget: "Budget",
    output: Path,
    *,
    verbose: bool,
) -> None:
    """Print what was found, a table with bars, and what looks like a secret.

    Args:
        discovery: What was found.
        settings: What was searched for.
        budget: What it cost.
        output: Where it was written.
        verbose: Whether to print the whole card.
    """
    from bayesgram.releases.card_sections import order_name

    name = partial(order_name, is_rows=discovery.vocabulary.tokenizer.is_rows)
    by_order = [
        f"{int((discovery.orders == order).sum()):,} {name(order)}" for order in settings.orders
    ]
    summary = "no n-gram that the vocabulary lacks"
    if len(discovery):
        level = (
            f"Each has a noisy weight above the threshold T = {discovery.threshold:.1f}, so many"
            " people write it."
        )
        if discovery.found_in is not None:
            new = int(discovery.is_new.sum())
            level = (
                f"{new:,} of them are new. Their noisy weights of all discoveries so far add up to"
                f" more than the threshold T = {discovery.threshold:.1f}."
            )
        summary = (
            f"{len(discovery):,} n-grams that the vocabulary lacks: {console.join_words(by_order)}."
            f" {level}"
        )
    lines = discovery.card.summary_lines if verbose else summary_fields(discovery.card)
    console.write_fields([("Found", summary), *lines, ("Written to", str(output))])
    new_rows = [
        row for row, is_new in zip(_rows(discovery), discovery.is_new, strict=True) if is_new
    ]
    if not new_rows:
        if discovery.found_in is None:
            _explain_empty_discovery(discovery, settings, budget)
        else:
            console.print_note(
                "Nothing new was found. Weights add up, so the next discovery of the series may"
                " find what this one did not."
            )
        return
    rows = [
        (
            _shorten(row[NGRAM]),
            str(row["order"]),
            f"{row[WEIGHT]:,.1f}",
            _bar(discovery, row[WEIGHT]),
        )
        for row in new_rows[:MAX_ROWS]
    ]
    title = "All of it" if len(new_rows) <= MAX_ROWS else f"The {MAX_ROWS} heaviest"
    if discovery.found_in is not None:
        title += ", of what is new"
    columns = ["n-gram", "order", "weight", "above T"]
    console.print_table(title, columns, rows, right=["order", "weight"])
    _print_suspicious(discovery, json=False)


def _bar(discovery: "Discovery", weight: float) -> str:
    """Return a bar as long as a weight is above T, on a scale that ends at the heaviest."""
    largest = float(discovery.weights[discovery.is_new].max()) - discovery.threshold
    if largest <= 0:
        return "█"
    return "█" * max(1, round(BAR_LENGTH * (weight - discovery.threshold) / largest))


def _explain_empty_discovery(
    discovery: "Discovery", settings: "Settings", budget: "Budget"
) -> None:
    """Say how many people it takes that an n-gram is found, from public numbers alone."""
    from bayesgram.privacy.budget import Budget

    def people(level: float) -> str:
        return f"{round(level / TYPICAL_WEIGHT):,}"

    larger_epsilons = [epsilon for epsilon in (1.0, 2.0, 4.0, 8.0) if epsilon > budget.epsilon]
    with_more_budget = ""
    for epsilon in larger_epsilons[:2]:
        level = settings.calibrate(Budget(epsilon, budget.delta)).level
        with_more_budget += f"; at ε = {epsilon:g} about {people(level)}"
    console.print_note(
        "Nothing was found: no n-gram that the vocabulary lacks has a noisy weight above"
        f" T = {discovery.threshold:.1f}. Whoever writes many new n-grams gives each about"
        f" {TYPICAL_WEIGHT:g}, so it takes about {people(discovery.threshold)} people who write the"
        f" same one{with_more_budget}. Fewer --orders, or a --model of public text that is nearer,"
        " help too."
    )


def _draw(discovery: "Discovery", plot: Path, *, force: bool) -> None:
    """Write the picture of what is new, unless nothing is."""
    from bayesgram.reports import pictures

    if not discovery.is_new.any():
        console.print_note(f"Nothing to draw: {plot} was not written.")
        return
    level = discovery.threshold
    columns = (
        discovery.ngrams.to_pylist(),
        discovery.orders.tolist(),
        discovery.weights.tolist(),
    )
    rows = [
        row
        for row, is_new in zip(zip(*columns, strict=True), discovery.is_new, strict=True)
        if is_new
    ]
    subtitle = f"{len(rows):,} n-grams, {discovery.card.claim}, T = {level:.1f}"
    plots.save_plot(
        lambda: pictures.draw_discoveries(rows, level, discovery.noise_std, subtitle=subtitle),
        plot,
        force=force,
    )


# --- review ---


def review(
    folder: Annotated[
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
            help="A CSV table to decide in. It is written if it does not exist, and read if it"
            " does.",
            show_default=False,
        ),
    ] = None,
    drop: Drop = None,
    force: options.Force = False,
    json: options.Json = False,
    verbose: options.Verbose = False,
) -> None:
    """Look through what a discovery FOUND and drop n-grams, before you publish it.

    It costs no privacy. An n-gram that contains a dropped one is dropped, too: with "typos" goes
    "fix typos".

    Without --output, the command lists what looks like a secret. With --file, it writes all n-grams
    to a table: write "no" in its column "keep" where an n-gram must not be published, and run the
    command again with --output. Only then is the discovery marked as reviewed; --drop alone does
    not mark it, because nobody has read the n-grams.

    Example: bayesgram review found --file review.csv
    """
    from bayesgram.io.atomic import check_writable
    from bayesgram.public.discovered_ngrams import (
        CONTENTS,
        Discovery,
        apply_review,
        compile_patterns,
    )

    patterns = compile_patterns(drop or [])
    if output is not None:
        check_writable(output, force=force, contents=CONTENTS, inputs=[folder])
    discovery = Discovery.load(folder)
    if file is not None and not file.exists():
        if output is not None:
            raise UsageError(
                f"--file {file}: there is no such table; leave --output out, and it is written."
            )
        _write_table(discovery, file)
        sentences = [
            f"Wrote {file}: {len(discovery):,} n-grams, with a proposal for each.",
            f'Write "no" in its column "{KEEP}" where an n-gram must not be published.',
            "Then run the command again with -o PATH.",
        ]
        report: dict[str, Any] = {"written": str(file), "rows": len(discovery)}
        report["next"] = "edit it, then add -o PATH"
        console.print_summary(sentences, report, json=json, verbose=verbose)
        return
    decisions = None if file is None else _read_decisions(discovery, file)
    result = apply_review(discovery, decisions, patterns)
    if output is None:
        _print_suspicious(discovery, json=json)
        return
    result.kept.save(output, force=force)
    reviewed = "It is marked as reviewed."
    if decisions is None:
        reviewed = "It is not marked as reviewed: nobody has decided about each n-gram (--file)."
    report = {"output": str(output), "kept": len(result.kept), **_count_dropped(result)}
    sentences = [
        f"Wrote {output}: {len(result.kept):,} n-grams. {reviewed}",
        _dropped_sentence(result, "you decided against or that match --drop"),
    ]
    console.print_summary(sentences, report, json=json, verbose=verbose)


def _write_table(discovery: "Discovery", file: Path) -> None:
    """Write the table in which a person decides: what looks like a secret has "no"."""
    from bayesgram.io.atomic import write_file_atomically

    with (
        write_file_atomically(file, parameter=Argument("file")) as unfinished,
        unfinished.open("w", newline="", encoding="utf-8") as out,
    ):
        writer = csv.DictWriter(out, [KEEP, NGRAM, WEIGHT, REASON], extrasaction="ignore")
        writer.writeheader()
        for row in _rows(discovery):
            writer.writerow({KEEP: "no" if row[REASON] else "yes", **row})


def _read_decisions(discovery: "Discovery", file: Path) -> dict[str, bool]:
    """Return which n-grams a person keeps; every one must be decided on."""
    try:
        with file.open(newline="", encoding="utf-8") as table:
            decisions = {row[NGRAM]: row[KEEP].strip().lower() for row in csv.DictReader(table)}
    except (OSError, UnicodeDecodeError, KeyError, AttributeError, csv.Error):
        raise UsageError(
            f"--file {file}: not the table that this command wrote; remove it and begin again."
        ) from None
    ngrams = discovery.ngrams.to_pylist()
    for ngram in ngrams:
        if decisions.get(ngram) not in {"yes", "no"}:
            raise UsageError(
                f"--file {file}: {ngram!r} has neither yes nor no in the column {KEEP!r}; decide."
            )
    return {ngram: decisions[ngram] == "yes" for ngram in ngrams}


# --- Shared ---


class _DropMatches:
    """A callback that drops what matches patterns before a discovery is saved."""

    def __init__(self, patterns: list[re.Pattern[str]]) -> None:
        self.patterns = patterns
        self.review: Review | None = None  # what was dropped, if anything was found

    def __call__(self, discovery: "Discovery") -> "Discovery":
        from bayesgram.public.discovered_ngrams import apply_review

        self.review = apply_review(discovery, None, self.patterns)
        return self.review.kept


def _count_dropped(review: "Review | None") -> dict[str, int]:
    """Return how many n-grams were dropped, for JSON."""
    chosen = review.chosen if review else 0
    containing = review.containing if review else 0
    return {"kept_back": chosen + containing, "contain_a_dropped_one": containing}


def _dropped_sentence(review: "Review | None", why: str) -> str:
    chosen = review.chosen if review else 0
    containing = review.containing if review else 0
    more = f"{containing:,} more that contain one of these"
    return f"Dropped n-grams: {chosen:,} that {why}, and {more}."


def _rows(discovery: "Discovery") -> list[dict[str, Any]]:
    """Return the n-grams of a discovery as rows, with the reason why one looks like a secret."""
    from bayesgram.public.discovered_ngrams import suspicions_of

    columns = (
        discovery.ngrams.to_pylist(),
        discovery.orders.tolist(),
        discovery.weights.tolist(),
        suspicions_of(discovery.ngrams),
    )
    rows: list[dict[str, Any]] = [
        {NGRAM: ngram, "order": order, WEIGHT: round(weight, 3), REASON: reason}
        for ngram, order, weight, reason in zip(*columns, strict=True)
    ]
    if discovery.found_in is not None:
        for row, run in zip(rows, discovery.found_in.tolist(), strict=True):
            row["found_in"] = run
    return rows


def _shorten(ngram: str) -> str:
    """Return an n-gram for a terminal: a row can be longer than the screen.

    >>> _shorten("where are you"), len(_shorten("word " * 3000))
    ('where are you', 200)
    """
    return ngram if len(ngram) <= MAX_SHOWN else f"{ngram[: MAX_SHOWN - 1]}…"


def _print_suspicious(discovery: "Discovery", *, json: bool) -> None:
    """Print what looks like a secret, on standard error; or all of it as JSON."""
    suspicious = [row for row in _rows(discovery) if row[REASON]]
    if json:
        console.print_json({"found": len(discovery), "look_like_secrets": suspicious})
        return
    if not suspicious:
        console.print_note(
            "Nothing of it looks like a secret (digits, addresses, codes); read it before you"
            " publish it."
        )
        return
    listed = "; ".join(f"{_shorten(row[NGRAM])!r} ({row[REASON]})" for row in suspicious[:MAX_ROWS])
    console.print_note(
        f"warning: {len(suspicious)} of them look like secrets that many people share: {listed}."
        " Look at them before you publish: `bayesgram review FOUND --file review.csv`, or --drop"
        " PATTERN."
    )
