"""bayesgram release and bayesgram infer: publish a distribution, and infer it anew at no cost.

Also what a --dry-run says, which `discover` shares.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from bayesgram.choices import EngineName, MechanismName
from bayesgram.cli import console, engines, mechanism_options, options
from bayesgram.cli.budget_notice import BudgetNotice
from bayesgram.cli.series import open_series

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

# --- release ---


def release(
    context: typer.Context,
    counts: options.Counts,
    vocab: options.Vocab,
    output: options.Output,
    mechanism: Annotated[
        MechanismName,
        typer.Option(
            help="How the noise is added. Keep the default unless you compare methods (bayesgram"
            " docs promise)."
        ),
    ] = MechanismName.POSTERIOR,
    epsilon: options.Epsilon = None,
    delta: options.Delta = None,
    expected_users: mechanism_options.ExpectedUsers = None,
    seed: options.Seed = None,
    ledger: options.LedgerFile = None,
    previous: Annotated[
        Path | None,
        typer.Option(
            help="An earlier release, such as last week's, to start from. It costs no extra"
            " privacy (bayesgram docs publish-every-week).",
            show_default=False,
        ),
    ] = None,
    series: Annotated[
        Path | None,
        typer.Option(
            help="The series that this is a release of, which is paid for already; leave --epsilon"
            " and --delta out. --ledger is needed only if its ledger has moved (bayesgram docs"
            " publish-every-week).",
            show_default=False,
        ),
    ] = None,
    unit: options.Unit = None,
    dry_run: options.DryRun = False,
    engine: options.Engine = EngineName.LOCAL,
    master: options.Master = None,
    force: options.Force = False,
    json: options.Json = False,
    verbose: options.Verbose = False,
    settings: mechanism_options.MechanismOptions = mechanism_options.NO_OPTIONS,
    tune: mechanism_options.Tune = False,
    grid: mechanism_options.GridOptions = mechanism_options.NO_GRID,
) -> None:
    """Publish the probabilities of the vocabulary's n-grams, with noise that protects each user.

    It spends privacy budget. The result is a folder with the probabilities, the noisy measurements
    and a card, which says what is guaranteed and how good the release is. --verbose shows the whole
    card.

    Counts by segment (`bayesgram count --by`) give a folder for all people and one for each
    segment, in one budget.

    Example: bayesgram release counts --vocab vocab.parquet --epsilon 0.2 --delta 1e-7 -o out
    """
    from bayesgram.io.atomic import check_writable
    from bayesgram.mechanisms import base, publish
    from bayesgram.mechanisms.publish import dry_run as check_only
    from bayesgram.privacy.ledger import Ledger
    from bayesgram.privacy.unit import DEFAULT_UNIT, check_unit
    from bayesgram.private.counts_io import read_segments
    from bayesgram.releases.release import CONTENTS
    from bayesgram.releases.segmented import folder_contents

    # Whatever can't be right is refused before any private data is read.
    segments = read_segments(counts)
    contents = CONTENTS if segments is None else folder_contents(segments)
    inputs = [counts, vocab, *([previous] if previous else [])]
    check_writable(output, force=force, contents=contents, inputs=inputs)
    base.Randomness.from_seed(seed)
    opened_series = None if series is None else open_series(series, ledger)
    if opened_series is None:
        budget = mechanism_options.make_budget(mechanism, epsilon, delta, expected_users)
    else:
        engines.refuse_series_on_spark(engine, master)
        budget = None
    first_mechanism = mechanism_options.make_mechanism(
        mechanism, settings, expected_users=expected_users, tune=tune, grid=grid
    )
    chosen = first_mechanism.follow(previous)
    if opened_series is None:
        chosen.check_budget(budget)
    else:
        given = {
            "epsilon": epsilon,
            "delta": delta,
            "seed": seed,
            "dry_run": dry_run or None,
        }
        publish.check_series_options(opened_series, chosen, given, unit)
    checked_unit = DEFAULT_UNIT if unit is None else check_unit(unit)
    with _open_counts(counts, vocab, chosen, engine, master) as (
        user_counts,
        vocabulary,
        mechanism_used,
    ):
        # A series has its ledger already.
        open_ledger = None if ledger is None or opened_series else Ledger.open(ledger)
        if open_ledger is not None:
            open_ledger.check_unit(checked_unit)
        if dry_run:
            publish.check_output(mechanism_used, vocabulary, output, force=force)
            checked = check_only(
                user_counts,
                vocabulary,
                mechanism_used,
                budget,
                seed=seed,
                ledger=open_ledger,
                unit=unit,
            )
            print_dry_run(checked, vocabulary, expected_users, json=json)
            return
        notice = None
        if series is not None:
            notice = BudgetNotice.open_series(series, output)
        elif ledger is not None:
            notice = BudgetNotice.open(ledger, budget, output)
        with console.progress(f"Releasing by {mechanism}") as show_progress:
            result = publish.release(
                user_counts,
                vocabulary,
                chosen,
                budget,
                seed=seed,
                ledger=open_ledger,
                output=output,
                force=force,
                unit=unit,
                expected_users=expected_users,
                command=options.typed_command(context),
                on_reserved=None if notice is None else notice.set_entry,
                series=opened_series,
                on_progress=show_progress,
            )
    BudgetNotice.close()
    _print_release(result, output, json=json, verbose=verbose)
    if verbose and not json:
        _draw_norms(_all_people(result).card)


@contextmanager
def _open_counts(
    counts: Path, vocab: Path, chosen: "CountsMechanism", engine: EngineName, master: str | None
) -> "Iterator[tuple[PrivateCounts | SegmentedCounts, Vocabulary, Any]]":
    """Yield the private counts, by segment or not, their vocabulary, and the mechanism for them."""
    from bayesgram.private.counts_io import read_segments

    segments = read_segments(counts)
    if segments is not None:
        mechanism_by_segment = chosen.by_segment(segments)
        engines.refuse_segments_on_spark(engine, master, segments.by)
        user_counts, vocabulary = mechanism_options.open_counts_by_segment(counts, vocab)
        yield user_counts, vocabulary, mechanism_by_segment
        return
    # The paper's mechanism reads counts often, and would clip every user's each time.
    in_memory = chosen.name.startswith(MechanismName.PAPER)
    with engines.open_counts(counts, vocab, engine, master, in_memory=in_memory) as opened:
        yield *opened, chosen


# --- infer ---


def infer(
    context: typer.Context,
    release: Annotated[
        Path,
        typer.Argument(
            metavar="RELEASE",
            help="A release folder with measured.parquet, or a folder of them by segment.",
            show_default=False,
        ),
    ],
    vocab: options.Vocab,
    output: options.Output,
    force: options.Force = False,
    json: options.Json = False,
    verbose: options.Verbose = False,
) -> None:
    """Compute a release again from its noisy measurements, with other public text.

    It costs no privacy. N-grams are matched by their text. Those that were not measured get the
    probabilities of public text, corrected by their words.

    Example: bayesgram infer out --vocab other.parquet -o out-2
    """
    from bayesgram.inference import reinfer
    from bayesgram.io.atomic import check_writable
    from bayesgram.public.vocabulary import Vocabulary
    from bayesgram.releases.previous import PreviousSegmentedRelease, open_previous
    from bayesgram.releases.release import CONTENTS, max_release_bytes
    from bayesgram.releases.segmented import folder_contents

    previous = open_previous(release)
    contents: Sequence[str] = CONTENTS
    folder_count = 1
    if isinstance(previous, PreviousSegmentedRelease):
        contents = folder_contents(previous.segments)
        folder_count = 1 + len(previous.segments)
    check_writable(output, force=force, contents=contents, inputs=[release, vocab])
    vocabulary = Vocabulary.load(vocab)
    largest_bytes = folder_count * max_release_bytes(vocabulary.ngrams)
    check_writable(output, force=force, contents=contents, required_bytes=largest_bytes)
    with console.step("Inferring"):
        result = reinfer.infer(release, vocabulary).with_card_values(
            command=options.typed_command(context)
        )
    result.save(output, force=force)
    _print_release(result, output, json=json, verbose=verbose)


# --- What was released ---


# What a card says in one line that a stranger needs; --verbose shows all of them.
SHOWN_LINES = (
    *(
        "Warning",
        "A person",
        "Vocabulary",
        "Made from",
        "Sources",
        "Inferred",
        "Chain",
        "Series",
        "Segment",
    ),
    *("Ledger", "Noise", "Quality", "Advice"),
)


def summary_fields(card: "Card") -> list[tuple[str, str]]:
    """Return what a stranger needs to know of a card: what it promises, and how good it is."""
    shown = [(name, line) for name, line in card.summary_lines if name in SHOWN_LINES]
    return [("Privacy", _privacy_sentences(card)), *shown]


def _privacy_sentences(card: "Card") -> str:
    """Say what a release promises about one person."""
    from bayesgram.privacy.budget import Guarantee
    from bayesgram.releases.card_sections import format_odds_factor

    if card.guarantee is not Guarantee.PROVED or card.epsilon is None:
        return f"{card.claim}. {card.guarantee.name}: {card.promise_sentence}"
    # Not "except with probability δ": (ε, δ) does not imply that (docs/promise.md, "In odds").
    added = f", plus {card.delta:g}" if card.delta else ""
    # The claim names a unit that is less than a person's text itself.
    claim = f"{card.claim} for {card.unit_text}" if card.is_person else card.claim
    who = "user" if card.is_person else "such unit"
    return (
        f"{claim}. Whether any one {who} is in the data changes the probability of any conclusion"
        f" by at most a factor of {format_odds_factor(card.epsilon)}{added}."
    )


def _print_release(
    result: "Release | SegmentedRelease", output: Path, *, json: bool, verbose: bool
) -> None:
    """Print what a release promises and how good it is, and the shares of segments.

    Args:
        result: The release.
        output: Where it was written.
        json: Whether to print one JSON document.
        verbose: Whether to print the whole card, and the model of each segment.
    """
    card = _all_people(result).card
    segments = _releases_by_segment(result)
    if json:
        document: dict[str, Any] = {"output": str(output), "card": card.to_json()}
        if segments:
            document["segments"] = {
                name: {"output": str(output / name), "card": segment.card.to_json()}
                for name, segment in segments.items()
            }
        console.print_json(document)
        return
    lines = card.summary_lines if verbose else summary_fields(card)
    console.write_fields([*lines, ("Written to", str(output))])
    if segments:
        columns = ("folder", "share (noisy)", *(["model"] if verbose else []))
        rows = [
            (
                name,
                _share(segment.card),
                *([segment.card.details["model"]] if verbose else []),
            )
            for name, segment in segments.items()
        ]
        console.print_table("Segments", columns, rows, right=("share (noisy)",))


def _share(card: "Card") -> str:
    """Return a segment's share of what people write, from noisy counts of the longest n-grams."""
    return f"{100 * [*card.details['share'].values()][-1]:.2f}%"


def _all_people(result: "Release | SegmentedRelease") -> "Release":
    from bayesgram.releases.segmented import SegmentedRelease

    return result.all if isinstance(result, SegmentedRelease) else result


def _releases_by_segment(result: "Release | SegmentedRelease") -> "dict[str, Release]":
    """Return the release of each segment, without that of all people; none if not by segment."""
    from bayesgram.releases.segmented import SegmentedRelease

    if not isinstance(result, SegmentedRelease):
        return {}
    return {name: segment for name, segment in result.items() if segment is not result.all}


def _draw_norms(card: "Card") -> None:
    """Draw bars on standard error: how much users write, and from where on they are clipped."""
    from bayesgram.releases.card_sections import (
        LIMITED_NORMS_NOTE,
        has_limited_norms,
        measured_orders,
        norm_histogram,
        order_name,
    )
    from bayesgram.releases.quality import ROWS_DETAIL

    bins = norm_histogram(card.details)
    if bins:
        ngrams = order_name(
            measured_orders(card.details)[-1], is_rows=bool(card.details.get(ROWS_DETAIL))
        )
        console.print_note(f"Users by the norm of their {ngrams} (noisy; ░ clipped):")
        if has_limited_norms(card.details):
            console.print_note(LIMITED_NORMS_NOTE)
    largest = max((norm_bin.users for norm_bin in bins), default=1.0)
    for norm_bin in bins:
        users = max(norm_bin.users, 0)
        bar = ("░" if norm_bin.clipped else "█") * round(40 * users / largest)
        console.print_note(f"{norm_bin.low:8.2f} – {norm_bin.high:<8.2f} {bar} {users:,.0f}")


# --- --dry-run: what a command would claim and charge, from public numbers alone ---

ASSUMED_USERS = 1_000_000  # where nobody says how many there are: the exact number is private
NOTHING_SPENT = "dry run: everything was checked; nothing was spent, drawn or written."


def print_dry_run(
    checked: "DryRun", vocabulary: "Vocabulary", expected_users: int | None, *, json: bool
) -> None:
    """Print what a release would claim and cost, and a simulation of it by public numbers.

    Args:
        checked: The claim, and what the ledger would be charged.
        vocabulary: The public text that is simulated with.
        expected_users: A public round figure; a million is assumed if there is none.
        json: Whether to print one JSON document.
    """
    plan = _plan(checked, vocabulary, expected_users)
    if json:
        console.print_json({**checked.to_json(), "plan": None if plan is None else plan.to_json()})
        return
    claim = "no ε"
    if checked.epsilon is not None:
        claim = f"ε = {checked.epsilon:g}, δ = {checked.delta or 0:g}"
    details = {
        "mechanism": checked.mechanism,
        "claim": f"{claim} for {checked.unit} ({checked.guarantee})",
    }
    if checked.spend is not None:
        details["charge"] = f"{_format_spend(checked.spend)} (the units of a ledger)"
    if checked.ledger is not None and checked.remaining_epsilon is not None:
        details["ledger"] = f"{checked.ledger.population}: {checked.ledger.describe_remaining()}"
        details["left_then"] = _format_left(*checked.remaining_epsilon)
    console.print_report(details, json=False)
    if plan is not None:
        _print_plan(plan, expected_users)
    console.print_note(NOTHING_SPENT)


def print_discovery_dry_run(
    mechanism: "DiscoveryMechanism", ledger: "Ledger | None", unit: str, label: str, *, json: bool
) -> None:
    """Print the noise and the threshold of a discovery, and what it would cost.

    Args:
        mechanism: The discovery, calibrated.
        ledger: What would be charged, if anything.
        unit: What one user id stands for.
        label: What the guarantee would be called.
        json: Whether to print one JSON document.
    """
    threshold = mechanism.threshold
    budget = mechanism.budget
    details: dict[str, Any] = {
        "mechanism": mechanism.name,
        "claim": f"ε = {budget.epsilon:g}, δ = {budget.delta:g} ({label})",
        "unit": unit,
        "noise_multiplier": threshold.multiplier,
        "threshold": threshold.level,
        "failure_probability": threshold.failure,
        "rounds": mechanism.settings.rounds,
    }
    if ledger is not None:
        details["ledger"] = ledger.population
    if json:
        spend = {**vars(threshold.spend), "mu_squared": threshold.spend.mu_squared}
        console.print_json({"dry_run": True, **details, "spend": spend})
        return
    console.print_report({**details, "charge": _format_spend(threshold.spend)}, json=False)
    console.print_note(NOTHING_SPENT)


def _plan(checked: "DryRun", vocabulary: "Vocabulary", expected_users: int | None) -> "Plan | None":
    """Simulate the release, if it is by the mechanism that plans are made for."""
    from bayesgram.planning.plan import plan
    from bayesgram.planning.simulation import RANGES

    min_users, _ = RANGES["users"]
    users = ASSUMED_USERS if expected_users is None else expected_users
    if checked.mechanism != "posterior" or checked.epsilon is None or users < min_users:
        return None
    with console.progress("Simulating a release") as show_progress:
        return plan(
            vocabulary,
            users=users,
            epsilon=checked.epsilon,
            delta=checked.delta,
            on_progress=show_progress,
        )


def _print_plan(plan: "Plan", expected_users: int | None) -> None:
    from bayesgram.cli.plan import print_plan

    if expected_users is None:
        console.print_note(
            f"note: {ASSUMED_USERS:,} users are assumed; say how many, roughly, with"
            " --expected-users."
        )
    print_plan(plan)


def _format_spend(spend: "Spend") -> str:
    parts = {
        "μ²": spend.mu_squared,
        "1/σ²": spend.inverse_variance,
        "pure ε": spend.pure_epsilon,
        "failure probability": spend.failure,
    }
    return ", ".join(f"{name} = {value:.6g}" for name, value in parts.items() if value)


def _format_left(gaussian: float, pure: float) -> str:
    if not gaussian and not pure:
        return "nothing"
    return f"ε = {gaussian:g} for a Gaussian release, or {pure:g} for a pure-ε one"
