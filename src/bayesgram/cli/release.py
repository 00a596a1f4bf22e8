"""bayesgram release, tune and sensitivity: what goes through a door, and what a door would need."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from bayesgram.cli import charge, console, dry_runs, mechanisms, options, spark
from bayesgram.cli.segments import segments_told, show_segments
from bayesgram.cli.typed import typed_command
from bayesgram.engines.choices import EngineName
from bayesgram.mechanisms.choices import MechanismName

if TYPE_CHECKING:
    from bayesgram.mechanisms.base import Mechanism
    from bayesgram.private.counts import SegmentedCounts
    from bayesgram.private.over_users import PrivateCounts
    from bayesgram.public.vocabulary import Vocabulary
    from bayesgram.released.card import Card


def release(
    context: typer.Context,
    counts: options.Counts,
    vocab: options.Vocab,
    output: options.Output,
    mechanism: Annotated[
        MechanismName, typer.Option(help="How the distribution is made (docs/promise.md).")
    ] = MechanismName.POSTERIOR,
    epsilon: options.Epsilon = None,
    delta: options.Delta = None,
    expected_users: mechanisms.ExpectedUsers = None,
    seed: options.Seed = None,
    ledger: options.LedgerFile = None,
    previous: Annotated[
        Path | None,
        typer.Option(
            help="A release that this one follows: its prior, at no cost (docs/howto, publish every week).",
            show_default=False,
        ),
    ] = None,
    unit: options.Unit = None,
    dry_run: options.DryRun = False,
    engine: options.Engine = EngineName.LOCAL,
    master: options.Master = None,
    force: options.Force = False,
    json: options.Json = False,
    mechanism_options: mechanisms.MechanismOptions = mechanisms.NOT_GIVEN,
    tune: mechanisms.Tune = False,
    grid: mechanisms.GridOptions = mechanisms.NO_GRID,
) -> None:
    """Release a distribution over the vocabulary, with a card that says what it is worth.

    Counts by segment (`bayesgram count --by`) give a folder for all people and one for each segment, in one budget.

    Example: bayesgram release counts --vocab vocab.parquet --epsilon 0.2 --delta 1e-7 -o out
    """
    from bayesgram.files.writing import check_writable
    from bayesgram.mechanisms import base
    from bayesgram.mechanisms.dry_run import dry_run as check_only
    from bayesgram.privacy.ledger import Ledger
    from bayesgram.privacy.unit import THESE_DATA, check_unit
    from bayesgram.private.store import segments_of
    from bayesgram.released.release import CONTENTS
    from bayesgram.released.segmented import SegmentedRelease, contents_of

    segments = segments_of(counts)
    contents = CONTENTS if segments is None else contents_of(segments)
    check_writable(output, force=force, contents=contents, inputs=[counts, vocab, *([previous] if previous else [])])
    base.Randomness.make(seed)
    budget = mechanisms.budget_of(mechanism, epsilon, delta, expected_users)
    chosen = mechanisms.mechanism_of(
        mechanism, expected_users=expected_users, tune=tune or None, **vars(mechanism_options), **vars(grid)
    )
    chosen = chosen.after(previous)
    chosen.check_budget(budget)  # what won't do is refused before anything is read
    told_unit = THESE_DATA if unit is None else check_unit(unit)
    with _opened(counts, vocab, chosen, engine, master) as (user_counts, vocabulary, mechanism_used):
        book = None if ledger is None else Ledger.open(ledger)
        if book is not None:
            book.check_unit(told_unit)
        if dry_run:
            base.Output.of(output, vocabulary, user_counts, force=force).check()
            checked = check_only(user_counts, vocabulary, mechanism_used, budget, seed=seed, ledger=book, unit=unit)
            dry_runs.show(checked, vocabulary, expected_users, json=json)
            return
        charged = None if ledger is None else charge.begin(ledger, budget, output)
        with console.progress(f"Releasing by {mechanism}") as tell:
            made = base.release(
                user_counts,
                vocabulary,
                chosen,
                budget,
                seed=seed,
                ledger=book,
                output=output,
                force=force,
                unit=unit,
                expected_users=expected_users,
                command=typed_command(context),
                on_reserved=None if charged is None else charged.reserved,
                on_progress=tell,
            )
    charge.done()
    whole = made.all if isinstance(made, SegmentedRelease) else made
    if json:
        console.print_json({"output": str(output), "card": whole.card.to_json(), **segments_told(made, output)})
        return
    console.write(f"{whole.card}\nWritten to: {output}")
    show_segments(made)
    _draw_norms(whole.card)


@contextmanager
def _opened(
    counts: Path, vocab: Path, chosen: "Mechanism", engine: EngineName, master: str | None
) -> "Iterator[tuple[PrivateCounts | SegmentedCounts, Vocabulary, Any]]":
    """The private counts, by segment or not, the vocabulary they are over, and the door for them."""
    from bayesgram.private.store import segments_of

    segments = segments_of(counts)
    if segments is not None:
        mechanism_used = chosen.by_segment(segments)
        spark.refuse_segments(engine, master, segments.by)
        yield *mechanisms.read_by_segment(counts, vocab), mechanism_used
        return
    clips_once = chosen.name.startswith(MechanismName.PAPER)  # it asks often, and would clip everybody each time
    with spark.opened(counts, vocab, engine, master, in_memory=clips_once) as (user_counts, vocabulary):
        yield user_counts, vocabulary, chosen


def _draw_norms(card: "Card") -> None:
    """Bars on standard error: how much users write, and from where on they are clipped."""
    from bayesgram.released.norms import norm_bins

    bins = norm_bins(card)
    if bins:
        console.say("Users by the norm of their counts (noisy; ░ clipped):")
    most = max((found.users for found in bins), default=1.0)
    for found in bins:
        bar = ("░" if found.clipped else "█") * round(40 * max(found.users, 0) / most)
        console.say(f"{found.low:8.2f} – {found.high:<8.2f} {bar} {max(found.users, 0):,.0f}")


def tune(
    counts: options.Counts,
    vocab: options.Vocab,
    epsilon: Annotated[float, typer.Option(help="ε spent on the choice alone.", show_default=False)],
    seed: options.Seed = None,
    json: options.Json = False,
    expected_users: mechanisms.ExpectedUsers = None,
    max_count: mechanisms.MaxCount = None,
    max_total: mechanisms.MaxTotal = None,
    sensitivity: mechanisms.SensitivityOption = None,
    grid: mechanisms.GridOptions = mechanisms.NO_GRID,
) -> None:
    """Choose S and ρ of the paper's mechanism by Algorithm 2: noisy scores on 10% of the users.

    The choice is EMPIRICAL, as the paper's mechanism is. `release --tune` does this and releases, in one ε.

    Example: bayesgram tune counts --vocab vocab.parquet --epsilon 0.1
    """
    from bayesgram.mechanisms import tuning
    from bayesgram.mechanisms.base import Randomness
    from bayesgram.mechanisms.paper import Paper
    from bayesgram.privacy.budget import Budget

    Budget(epsilon)
    chance = Randomness.make(seed)
    paper = mechanisms.paper_of(expected_users, max_count=max_count, max_total=max_total, sensitivity=sensitivity)
    settings = mechanisms.grid_of(**vars(grid))
    user_counts, vocabulary = mechanisms.load(counts, vocab)
    with console.step(f"Scoring {len(settings.slopes) * len(settings.rhos)} settings"):
        chosen: Paper = tuning.tune(user_counts, vocabulary, epsilon, chance, paper=paper, grid=settings).paper
    console.report(
        {
            "slope": chosen.slope,
            "rho": chosen.rho,
            "epsilon": epsilon,
            "guarantee": chosen.guarantee.name,
            "next": f"bayesgram release {counts} --vocab {vocab} --mechanism paper --max-count {chosen.max_count}"
            f" --max-total {chosen.max_total} --slope {chosen.slope:g} --rho {chosen.rho:g} … (its ε adds to this one)",
        },
        json=json,
    )


def sensitivity(
    counts: options.Counts,
    vocab: options.Vocab,
    slope: Annotated[float, typer.Option(help="S.")] = 1e-3,
    expected_users: mechanisms.ExpectedUsers = None,
    max_count: mechanisms.MaxCount = None,
    max_total: mechanisms.MaxTotal = None,
    seed: options.Seed = None,
    engine: options.Engine = EngineName.LOCAL,
    master: options.Master = None,
    json: options.Json = False,
) -> None:
    """Show γ, how far one user moves the paper's log counts: exactly, and by Claim 1's bound.

    Both are read from private data without noise: for its keeper only.

    Example: bayesgram sensitivity counts --vocab vocab.parquet --slope 0.001 --expected-users 100000
    """
    from time import perf_counter

    from bayesgram.audit.utility import DISCLOSURE
    from bayesgram.mechanisms.base import Randomness

    paper = mechanisms.paper_of(expected_users, max_count=max_count, max_total=max_total, slope=slope)
    opened = spark.opened(counts, vocab, engine, master, in_memory=True)
    with opened as (user_counts, _), console.step("Leaving out each user"):
        statistics = paper.statistics(user_counts, Randomness.make(seed))
        bound = statistics.bounded_gamma(paper.slope)
        if engine is EngineName.LOCAL:
            statistics.exact_gamma(paper.slope)  # compiles the kernel, so that the clock sees only work
        start = perf_counter()
        exact = statistics.exact_gamma(paper.slope)
        seconds = perf_counter() - start
    report = {"exact": exact, "bound": bound, "seconds": round(seconds, 4)}
    console.report({**report, "warning": DISCLOSURE}, json=json)
