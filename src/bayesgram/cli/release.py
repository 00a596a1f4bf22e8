"""bayesgram release, tune and sensitivity: what goes through a door, and what a door would need."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from bayesgram.cli import charge, console, mechanisms, options, spark
from bayesgram.cli.typed import typed_command
from bayesgram.engines.choices import EngineName
from bayesgram.mechanisms.choices import MechanismName, ScoreSensitivity

if TYPE_CHECKING:
    from bayesgram.released.card import Card

TUNING = "Of Algorithm 2 (--tune)"

Slopes = Annotated[
    str | None,
    typer.Option(help="S values to try, comma-separated.", rich_help_panel=TUNING, show_default="0.001 … 10000"),
]
Rhos = Annotated[
    str | None,
    typer.Option(help="ρ values to try, comma-separated.", rich_help_panel=TUNING, show_default="0.1 … 0.9"),
]
ScoreOption = Annotated[
    ScoreSensitivity | None,
    typer.Option(
        help="The bound on |Δq|: Claim 3's, or the true one.",
        rich_help_panel=TUNING,
        show_default="corrected",
    ),
]


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
    ledger: Annotated[
        Path | None,
        typer.Option(help="Charge this ledger; refused if it would overspend (docs/ledger.md).", show_default=False),
    ] = None,
    engine: options.Engine = EngineName.LOCAL,
    master: options.Master = None,
    force: options.Force = False,
    json: options.Json = False,
    clip_norm: mechanisms.ClipNorm = None,
    max_count: mechanisms.MaxCount = None,
    max_total: mechanisms.MaxTotal = None,
    slope: mechanisms.Slope = None,
    rho: mechanisms.Rho = None,
    sensitivity: mechanisms.SensitivityOption = None,
    tune: Annotated[
        bool, typer.Option("--tune", help="Choose S and ρ by Algorithm 2, for ε/3.", rich_help_panel=TUNING)
    ] = False,
    slopes: Slopes = None,
    rhos: Rhos = None,
    score_sensitivity: ScoreOption = None,
    k: mechanisms.K = None,
    suppressed: mechanisms.SuppressedOption = None,
) -> None:
    """Release a distribution over the vocabulary, with a card that says what it is worth.

    Example: bayesgram release counts --vocab vocab.parquet --epsilon 0.2 --delta 1e-7 -o out
    """
    from dataclasses import replace

    from bayesgram.files.writing import check_free
    from bayesgram.mechanisms import base
    from bayesgram.privacy.ledger import Ledger
    from bayesgram.released.release import CONTENTS, largest_size

    check_free(output, force=force, contents=CONTENTS, inputs=[counts, vocab])
    base.Randomness.make(seed)
    budget = mechanisms.budget_of(mechanism, epsilon, delta, expected_users)
    chosen = mechanisms.mechanism_of(
        mechanism,
        expected_users=expected_users,
        max_count=max_count,
        max_total=max_total,
        slope=slope,
        rho=rho,
        sensitivity=sensitivity,
        tune=tune or None,
        slopes=slopes,
        rhos=rhos,
        score_sensitivity=score_sensitivity,
        clip_norm=clip_norm,
        k=k,
        suppressed=suppressed,
    )
    chosen.check_budget(budget)  # what won't do is refused before anything is read
    with spark.opened(counts, vocab, engine, master) as (user_counts, vocabulary):
        book = None if ledger is None else Ledger.open(ledger)
        check_free(output, force=force, contents=CONTENTS, room=largest_size(vocabulary.ngrams))
        charged = None if ledger is None else charge.begin(ledger, budget, output)
        with console.step(f"Releasing by {mechanism}"):
            made = base.release(
                user_counts,
                vocabulary,
                chosen,
                budget,
                seed=seed,
                ledger=book,
                output=str(output),
                on_reserved=None if charged is None else charged.reserved,
            )
    made = replace(made, card=replace(made.card, command=typed_command(context), expected_users=expected_users))
    made.save(output, force=force)
    if book is not None and charged is not None and charged.entry is not None:
        book.complete(charged.entry)
        charge.done()
    if json:
        console.print_json({"output": str(output), "card": made.card.to_json()})
    else:
        console.out.print(f"{made.card}\nWritten to: {output}", markup=False, soft_wrap=True)
        _draw_norms(made.card)


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
    slopes: Slopes = None,
    rhos: Rhos = None,
    score_sensitivity: ScoreOption = None,
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
    grid = mechanisms.grid_of(slopes, rhos, score_sensitivity)
    user_counts, vocabulary = mechanisms.load(counts, vocab)
    with console.step(f"Scoring {len(grid.slopes) * len(grid.rhos)} settings"):
        chosen: Paper = tuning.tune(user_counts, vocabulary, epsilon, chance, paper=paper, grid=grid).paper
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
    with spark.opened(counts, vocab, engine, master) as (user_counts, _), console.step("Leaving out each user"):
        statistics = paper.statistics(user_counts, Randomness.make(seed))
        bound = statistics.bounded_gamma(paper.slope)
        if engine is EngineName.LOCAL:
            statistics.exact_gamma(paper.slope)  # compiles the kernel, so that the clock sees only work
        start = perf_counter()
        exact = statistics.exact_gamma(paper.slope)
        seconds = perf_counter() - start
    report = {"exact": exact, "bound": bound, "seconds": round(seconds, 4)}
    console.report({**report, "warning": DISCLOSURE}, json=json)
