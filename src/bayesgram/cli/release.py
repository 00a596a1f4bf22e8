"""What `release` and `infer` say of each segment, where there are some.

--dry-run: what a command would claim and charge, and what could be expected of it. Nothing here is private.

bayesgram release, tune and sensitivity: what goes through a door, and what a door would need.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from bayesgram.choices import EngineName, MechanismName
from bayesgram.cli import console, mechanisms, options, spark
from bayesgram.cli.typed import typed_command

if TYPE_CHECKING:
    from bayesgram.mechanisms.base import CountsMechanism
    from bayesgram.mechanisms.discovery import DiscoveryMechanism
    from bayesgram.mechanisms.publish import DryRun
    from bayesgram.planning.plan import Plan
    from bayesgram.privacy.accounting import Spend
    from bayesgram.privacy.ledger import Ledger
    from bayesgram.private.counts import PrivateCounts, SegmentedCounts
    from bayesgram.public.vocabulary import Vocabulary
    from bayesgram.releases.card import Card
    from bayesgram.releases.release import Release
    from bayesgram.releases.segmented import SegmentedRelease


def segments_told(made: "Release | SegmentedRelease", output: Path) -> dict[str, Any]:
    """For machines: the folder of each segment, and its card."""
    return (
        {"segments": found}
        if (
            found := {
                name: {"output": str(output / name), "card": one.card.to_json()}
                for name, one in _segments_of(made).items()
            }
        )
        else {}
    )


def show_segments(made: "Release | SegmentedRelease") -> None:
    """Each segment's share of what people write, from noisy counts, and which model its answer is from."""
    rows = [
        (name, f"{100 * [*one.card.details['share'].values()][-1]:.2f}%", one.card.details["model"])
        for name, one in _segments_of(made).items()
    ]
    if rows:
        console.print_table(
            "Segments", ("folder", "share (noisy)", "model"), rows, right=("share (noisy)",)
        )


def _segments_of(made: "Release | SegmentedRelease") -> "dict[str, Release]":
    """By name, without that of all people; none where it is not by segment."""
    from bayesgram.releases.segmented import SegmentedRelease

    if not isinstance(made, SegmentedRelease):
        return {}
    return {name: one for name, one in made.items() if one is not made.all}


USERS = 1_000_000  # assumed where nobody says how many there are: how many there are is private
FEWEST = 100  # users of a plan
NOTHING = "dry run: everything was checked; nothing was spent, drawn or written."


def show(
    checked: "DryRun", vocabulary: "Vocabulary", expected_users: int | None, *, json: bool
) -> None:
    """What a release would cost, and a plan of it by public numbers."""
    planned = _plan(checked, vocabulary, expected_users)
    if json:
        console.print_json(
            {**checked.to_json(), "plan": None if planned is None else planned.to_json()}
        )
        return
    claim = (
        "no ε"
        if checked.epsilon is None
        else f"ε = {checked.epsilon:g}, δ = {checked.delta or 0:g}"
    )
    claimed = f"{claim} for {checked.unit} ({checked.guarantee})"
    told = {"mechanism": checked.mechanism, "claim": claimed, "unit": checked.unit}
    told |= {} if checked.spend is None else {"charge": _charge(checked.spend)}
    if checked.ledger is not None and checked.epsilon_left is not None:
        told |= {
            "ledger": f"{checked.ledger.population}: {checked.ledger.describe_left()}",
            "left_then": _left(checked.epsilon_left),
        }
    console.report(told, json=False)
    _show_plan(planned, expected_users)
    console.say(NOTHING)


def show_discovery(
    mechanism: "DiscoveryMechanism", ledger: "Ledger | None", unit: str, label: str, *, json: bool
) -> None:
    """Noise and level of a discovery, and what it would cost."""
    threshold, budget = mechanism.threshold, mechanism.budget
    told: dict[str, Any] = {
        "mechanism": mechanism.name,
        "claim": f"ε = {budget.epsilon:g}, δ = {budget.delta:g} ({label})",
        "unit": unit,
        "noise_multiplier": threshold.multiplier,
        "threshold": threshold.level,
        "failure_probability": threshold.failure,
        "rounds": mechanism.settings.rounds,
    }
    spend = {**vars(threshold.spend), "mu_squared": threshold.spend.mu_squared}
    population = {} if ledger is None else {"ledger": ledger.population}
    if json:
        console.print_json({"dry_run": True, **told, **population, "spend": spend})
        return
    console.report({**told, **population, "charge": _charge(threshold.spend)}, json=False)
    console.say(NOTHING)


def _plan(checked: "DryRun", vocabulary: "Vocabulary", expected_users: int | None) -> "Plan | None":
    """Only of the mechanism that plans are made for."""
    from bayesgram.planning.plan import plan

    users = USERS if expected_users is None else expected_users
    if checked.mechanism != "posterior" or checked.epsilon is None or users < FEWEST:
        return None
    with console.step("Simulating a release"):
        return plan(vocabulary, users=users, epsilon=checked.epsilon, delta=checked.delta)


def _show_plan(planned: "Plan | None", expected_users: int | None) -> None:
    from bayesgram.cli import plan

    if planned is None:
        return
    if expected_users is None:
        console.say(
            f"note: {USERS:,} users are assumed; say how many, roughly, with --expected-users."
        )
    plan.show(planned)


def _charge(spend: "Spend") -> str:
    parts = {"μ²": spend.mu_squared, "1/σ²": spend.inverse_variance, "pure ε": spend.pure_epsilon}
    parts |= {"failure probability": spend.failure}
    return ", ".join(f"{name} = {value:.6g}" for name, value in parts.items() if value)


def _left(left: tuple[float, float]) -> str:
    gaussian, pure = left
    return (
        f"ε = {gaussian:g} for a Gaussian release, or {pure:g} for a pure-ε one"
        if gaussian or pure
        else "nothing"
    )


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
    from bayesgram.io.atomic import check_writable
    from bayesgram.mechanisms import base, publish
    from bayesgram.mechanisms.publish import dry_run as check_only
    from bayesgram.privacy.ledger import Ledger
    from bayesgram.privacy.unit import DEFAULT_UNIT, check_unit
    from bayesgram.private.counts_io import read_segments
    from bayesgram.releases.release import CONTENTS
    from bayesgram.releases.segmented import SegmentedRelease, folder_contents

    segments = read_segments(counts)
    contents = CONTENTS if segments is None else folder_contents(segments)
    check_writable(
        output,
        force=force,
        contents=contents,
        inputs=[counts, vocab, *([previous] if previous else [])],
    )
    base.Randomness.from_seed(seed)
    budget = mechanisms.resolve_budget(mechanism, epsilon, delta, expected_users)
    chosen = mechanisms.mechanism_of(
        mechanism,
        expected_users=expected_users,
        tune=tune or None,
        **vars(mechanism_options),
        **vars(grid),
    )
    chosen = chosen.follow(previous)
    chosen.check_budget(budget)  # what won't do is refused before anything is read
    told_unit = DEFAULT_UNIT if unit is None else check_unit(unit)
    with _opened(counts, vocab, chosen, engine, master) as (
        user_counts,
        vocabulary,
        mechanism_used,
    ):
        book = None if ledger is None else Ledger.open(ledger)
        if book is not None:
            book.check_unit(told_unit)
        if dry_run:
            publish.check_output(mechanism_used, vocabulary, output, force=force)
            checked = check_only(
                user_counts, vocabulary, mechanism_used, budget, seed=seed, ledger=book, unit=unit
            )
            show(checked, vocabulary, expected_users, json=json)
            return
        charged = None if ledger is None else console.begin(ledger, budget, output)
        with console.progress(f"Releasing by {mechanism}") as tell:
            made = publish.release(
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
    console.done()
    whole = made.all if isinstance(made, SegmentedRelease) else made
    if json:
        console.print_json(
            {"output": str(output), "card": whole.card.to_json(), **segments_told(made, output)}
        )
        return
    console.write(f"{whole.card}\nWritten to: {output}")
    show_segments(made)
    _draw_norms(whole.card)


@contextmanager
def _opened(
    counts: Path, vocab: Path, chosen: "CountsMechanism", engine: EngineName, master: str | None
) -> "Iterator[tuple[PrivateCounts | SegmentedCounts, Vocabulary, Any]]":
    """The private counts, by segment or not, the vocabulary they are over, and the door for them."""
    from bayesgram.private.counts_io import read_segments

    segments = read_segments(counts)
    if segments is not None:
        mechanism_used = chosen.by_segment(segments)
        spark.refuse_segments(engine, master, segments.by)
        yield *mechanisms.read_by_segment(counts, vocab), mechanism_used
        return
    clips_once = chosen.name.startswith(
        MechanismName.PAPER
    )  # it asks often, and would clip everybody each time
    with spark.opened(counts, vocab, engine, master, in_memory=clips_once) as (
        user_counts,
        vocabulary,
    ):
        yield user_counts, vocabulary, chosen


def _draw_norms(card: "Card") -> None:
    """Bars on standard error: how much users write, and from where on they are clipped."""
    from bayesgram.releases.card import norm_histogram

    bins = norm_histogram(card)
    if bins:
        console.say("Users by the norm of their counts (noisy; ░ clipped):")
    most = max((found.users for found in bins), default=1.0)
    for found in bins:
        bar = ("░" if found.clipped else "█") * round(40 * max(found.users, 0) / most)
        console.say(f"{found.low:8.2f} – {found.high:<8.2f} {bar} {max(found.users, 0):,.0f}")


def tune(
    counts: options.Counts,
    vocab: options.Vocab,
    epsilon: Annotated[
        float, typer.Option(help="ε spent on the choice alone.", show_default=False)
    ],
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
    from bayesgram.mechanisms.base import Randomness
    from bayesgram.paper import algorithm_2
    from bayesgram.paper.algorithm_1 import Paper
    from bayesgram.privacy.budget import Budget

    Budget(epsilon)
    randomness = Randomness.from_seed(seed)
    paper = mechanisms.paper_of(
        expected_users, max_count=max_count, max_total=max_total, sensitivity=sensitivity
    )
    settings = mechanisms.grid_of(**vars(grid))
    user_counts, vocabulary = mechanisms.load(counts, vocab)
    with console.step(f"Scoring {len(settings.slopes) * len(settings.rhos)} settings"):
        chosen: Paper = algorithm_2.tune(
            user_counts, vocabulary, epsilon, randomness, paper=paper, grid=settings
        ).paper
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

    from bayesgram.audit.evaluation import DISCLOSURE
    from bayesgram.mechanisms.base import Randomness

    paper = mechanisms.paper_of(
        expected_users, max_count=max_count, max_total=max_total, slope=slope
    )
    opened = spark.opened(counts, vocab, engine, master, in_memory=True)
    with opened as (user_counts, _), console.step("Leaving out each user"):
        statistics = paper.statistics(user_counts, Randomness.from_seed(seed))
        bound = statistics.bounded_gamma(paper.slope)
        if engine is EngineName.LOCAL:
            statistics.exact_gamma(
                paper.slope
            )  # compiles the kernel, so that the clock sees only work
        start = perf_counter()
        exact = statistics.exact_gamma(paper.slope)
        seconds = perf_counter() - start
    report = {"exact": exact, "bound": bound, "seconds": round(seconds, 4)}
    console.report({**report, "warning": DISCLOSURE}, json=json)
