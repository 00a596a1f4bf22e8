"""Publish: reserve the budget in a ledger, draw noise, save the result, and complete the entry.

`release` does it for counts, `mechanisms.discovery.discover` for text; both end in `publish`.
`dry_run` makes all the checks of `release` and nothing else.

The budget is reserved, durably, before any noise is drawn, and stays spent whatever happens
afterwards.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypedDict, Unpack, cast, overload

from bayesgram.arguments import check_arguments
from bayesgram.errors import Argument, UsageError, check_int
from bayesgram.io.atomic import check_writable, written_paths
from bayesgram.io.segments import ALL
from bayesgram.mechanisms.base import (
    Charge,
    CountsMechanism,
    Data,
    Mechanism,
    Randomness,
    Result,
    Statements,
    require_budget,
    resolve_budget,
)
from bayesgram.mechanisms.gaussian import Gaussian
from bayesgram.mechanisms.laplace import Laplace, LaplacePublic
from bayesgram.mechanisms.posterior import Posterior
from bayesgram.mechanisms.series import Series
from bayesgram.privacy.accounting import Spend, remaining_gaussian_epsilon, remaining_pure_epsilon
from bayesgram.privacy.budget import Budget, Guarantee
from bayesgram.privacy.ledger import Ledger
from bayesgram.privacy.ledger_io import LedgerContents
from bayesgram.privacy.unit import DEFAULT_UNIT, check_unit, is_same_unit
from bayesgram.private.counts import PrivateCounts, SegmentedCounts
from bayesgram.public.vocabulary import Vocabulary
from bayesgram.releases.card import MAX_USERS
from bayesgram.releases.previous import PreviousRelease, PreviousSegmentedRelease
from bayesgram.releases.provenance import (
    Ingredient,
    unique_ingredients,
    unproved_sentence,
    weakest_label,
)
from bayesgram.releases.release import Release
from bayesgram.releases.segmented import SegmentedRelease


class ReleaseOptions(TypedDict, total=False):
    """The keyword arguments of `release`, which documents them."""

    epsilon: float | None
    delta: float | None
    seed: int | None
    ledger: Ledger | None
    output: str | Path | None
    force: bool
    unit: str | None
    expected_users: int | None
    command: str | None
    on_reserved: Callable[[int], None] | None
    previous: "PreviousRelease | Release | SegmentedRelease | str | Path | None"
    series: Series | None
    on_progress: Callable[[float], None]


# The mechanisms that can be given by name, with their default settings.
MECHANISMS: dict[str, type[CountsMechanism]] = {
    mechanism.name: mechanism for mechanism in (Posterior, Gaussian, Laplace, LaplacePublic)
}


def make_mechanism(mechanism: CountsMechanism | str | None) -> CountsMechanism:
    """Return a mechanism that was given by its name, or as it is; the default for None.

    Raises:
        UsageError: If no mechanism has this name.
    """
    if mechanism is None:
        return Posterior()
    if not isinstance(mechanism, str):
        return mechanism
    if mechanism not in MECHANISMS:
        raise UsageError.for_argument(
            "mechanism",
            repr(mechanism),
            f"give one of {', '.join(map(repr, MECHANISMS))}, or a mechanism with settings such as"
            " Gaussian(clip_norm=2); those of the paper are in bayesgram.paper.",
        )
    return MECHANISMS[mechanism]()


@overload
def release(
    counts: PrivateCounts,
    vocabulary: Vocabulary,
    mechanism: CountsMechanism | str | None = ...,
    budget: Budget | None = ...,
    **options: Unpack[ReleaseOptions],
) -> Release: ...
@overload
def release(
    counts: SegmentedCounts,
    vocabulary: Vocabulary,
    mechanism: CountsMechanism | str | None = ...,
    budget: Budget | None = ...,
    **options: Unpack[ReleaseOptions],
) -> SegmentedRelease: ...
@check_arguments
def release(
    counts: PrivateCounts | SegmentedCounts,
    vocabulary: Vocabulary,
    mechanism: CountsMechanism | str | None = None,
    budget: Budget | None = None,
    *,
    epsilon: float | None = None,
    delta: float | None = None,
    seed: int | None = None,
    ledger: Ledger | None = None,
    output: str | Path | None = None,
    force: bool = False,
    unit: str | None = None,
    expected_users: int | None = None,
    command: str | None = None,
    on_reserved: Callable[[int], None] | None = None,
    previous: "PreviousRelease | Release | SegmentedRelease | str | Path | None" = None,
    series: Series | None = None,
    on_progress: Callable[[float], None] = lambda _: None,
) -> Release | SegmentedRelease:
    """Release a distribution over the vocabulary, with its card.

    It reserves the budget, draws noise, saves the release, and marks the ledger's entry as
    published. The label of the release is the weakest of everything that it is made from: the
    mechanism, the vocabulary and `previous`.

    Args:
        counts: Private counts. Counts by segment give a release for all people and one for each
            segment, in one budget.
        vocabulary: The vocabulary that the counts are over.
        mechanism: How the distribution is made, by its name or as an object with settings:
            "gaussian" is `Gaussian()`. `Posterior()` if it is left out.
        budget: ε and δ; or give `epsilon` and `delta`.
        epsilon: ε, in place of `budget`.
        delta: δ, in place of `budget`; 1e-7 if it is left out and the mechanism uses one.
        seed: Makes the noise repeatable, for tests: such a release is labelled NONE.
        ledger: The budget is reserved there, durably, before any noise is drawn, and stays spent
            whatever happens. `output` is needed: the entry is marked as published once the release
            is saved.
        output: The folder to save the release in; if it is left out, the release is only in memory.
        force: Whether a release that is already in that folder may be replaced.
        unit: What one user id stands for, where it is not all of a user's text.
        expected_users: A public bound on the number of users, by which the card judges δ.
        command: How the release was asked for; noted on the card.
        on_reserved: Called with the number of the ledger's entry as soon as it is there; with the
            number of the release in its series.
        previous: A release that this one follows: its prior. It is public, and costs nothing more.
        series: The series that this is a release of, which is paid for already: give no budget, no
            ledger and no seed. `output` is needed.
        on_progress: Called with the share of the segments that is done.

    Returns:
        The release, or one for each segment.

    Raises:
        UsageError: If something does not fit together, before anything is spent.
        BayesgramError: If the ledger has no room for it, or the release could not be saved. An
            error after the reservation has a note that names the entry which stays spent.

    Example:
        >>> import bayesgram as bg
        >>> import pyarrow as pa
        >>> vocabulary = bg.Vocabulary.from_public(pa.table({"text": ["a b", "a c"]}), order=1)
        >>> counts = bg.count(pa.table({"user": ["ann"], "text": ["a b"]}), vocabulary)
        >>> bg.release(counts, vocabulary, epsilon=1, seed=1).card.claim
        'ε = 1, δ = 1e-07 (NONE)'
    """
    mechanism = make_mechanism(mechanism).follow(previous)
    if series is not None:
        given = {
            "budget": budget,
            "epsilon": epsilon,
            "delta": delta,
            "seed": seed,
            "ledger": ledger,
        }
        budget = check_series_options(series, mechanism, given, unit)
    else:
        budget = resolve_budget(budget, epsilon, delta, default_delta=mechanism.default_delta)
    if expected_users is not None:
        check_int(
            "expected_users", expected_users, 1, MAX_USERS, "a public bound on the number of users"
        )
    statements = Statements(unit, expected_users, command)
    options = PublishOptions(seed, ledger, output, force, on_reserved)
    if series is not None:
        return _release_in_series(
            series, counts, vocabulary, mechanism, statements, options, on_progress
        )
    if isinstance(counts, SegmentedCounts):
        by_segment = mechanism.by_segment(counts.segments, on_progress)
        return _check_and_publish(by_segment, counts, vocabulary, budget, statements, options)
    return _check_and_publish(mechanism, counts, vocabulary, budget, statements, options)


@dataclass(frozen=True)
class PublishOptions:
    """How something is published.

    Attributes:
        seed: Makes the noise repeatable; the result is labelled NONE.
        ledger: The ledger that is charged, if any.
        output: The folder that the result is saved in, if any.
        force: Whether what is already there may be replaced.
        on_reserved: Called with the number of the ledger's entry.
    """

    seed: int | None = None
    ledger: Ledger | None = None
    output: str | Path | None = None
    force: bool = False
    on_reserved: Callable[[int], None] | None = None


def _check_and_publish(
    mechanism: Mechanism[Data, Result],
    data: Data,
    vocabulary: Vocabulary,
    budget: Budget | None,
    statements: Statements,
    options: PublishOptions,
) -> Result:
    """Check everything that can be checked before anything is spent, then publish."""
    unit = check_chain_unit(mechanism, statements.unit)
    statements = replace(statements, unit=unit)
    reservation = None
    if options.ledger is not None:
        reservation = plan_reservation(
            mechanism,
            data,
            vocabulary,
            budget,
            seed=options.seed,
            output=options.output,
            unit=unit,
            ledger=options.ledger,
        )
        check_published(options.ledger, list_ingredients(mechanism, vocabulary))
        require_output(options.output, "release")
    else:
        mechanism.check_budget(budget)
        mechanism.check_inputs(data, vocabulary)
    return publish(mechanism, data, vocabulary, budget, statements, options, reservation)


# --- Releases of a series, which is paid for already ---


def check_series_options(
    series: Series,
    mechanism: CountsMechanism,
    given: Mapping[str, object],
    unit: str | None,
) -> Budget:
    """Return the budget of a series; refuse what a release of it can't have.

    Args:
        series: The series.
        mechanism: How the release is made.
        given: Options of other releases, by their names; each must be None.
        unit: What one user id stands for.
    """
    refuse_series_options(given)
    if not isinstance(mechanism, Posterior):
        raise UsageError.for_argument(
            "mechanism", mechanism.name, "a series is released by posterior; leave this out."
        )
    if unit is not None and not is_same_unit(unit, series.settings.unit):
        raise UsageError.for_argument(
            "unit", repr(unit), f"the unit of the series is {series.settings.unit!r}; leave it out."
        )
    return Budget(series.settings.epsilon, series.settings.delta)


def refuse_series_options(given: Mapping[str, object]) -> None:
    """Refuse options that a release or a discovery of a series can't have.

    Args:
        given: Options by their names; each must be None.
    """
    for name, value in given.items():
        if value is not None:
            raise UsageError.for_argument(
                name,
                value,
                "can't be used with a series, which has its budget and its noise already; leave"
                " this out, or leave ",
                Argument("series"),
                " out.",
            )


def _release_in_series(
    series: Series,
    counts: PrivateCounts | SegmentedCounts,
    vocabulary: Vocabulary,
    posterior: CountsMechanism,
    statements: Statements,
    options: PublishOptions,
    on_progress: Callable[[float], None],
) -> Release | SegmentedRelease:
    """Check everything, charge the users' allowances, draw noise, save, and note it."""
    require_output(options.output, "release")
    segments = counts.segments if isinstance(counts, SegmentedCounts) else None
    segment_count = 0 if segments is None else len(segments)
    flat = counts.flat if isinstance(counts, SegmentedCounts) else counts
    budget = Budget(series.settings.epsilon, series.settings.delta)
    unit = None if series.settings.unit == DEFAULT_UNIT else series.settings.unit
    statements = replace(statements, unit=unit)

    def for_counts(posterior: CountsMechanism) -> Mechanism[Any, Any]:
        return posterior if segments is None else posterior.by_segment(segments, on_progress)

    for_counts(posterior).check_inputs(counts, vocabulary)
    with series.locked():
        noise = series.check_release(vocabulary, segment_count)
        mechanism = for_counts(replace(cast("Posterior", posterior), series_noise=noise))
        check_chain_unit(mechanism, unit)
        ingredients = list_ingredients(mechanism, vocabulary)
        if release_label(mechanism, vocabulary) is not Guarantee.PROVED:
            raise UsageError(
                f"{unproved_sentence(ingredients)}, so no series pays for it. Leave that out, or"
                " leave ",
                Argument("series"),
                " out.",
            )
        check_published(series.ledger, ingredients)
        path = cast("str | Path", options.output)
        check_output(mechanism, vocabulary, path, force=options.force)
        begun = series.begin(flat, vocabulary, path, segment_count, options.on_reserved)
        saved_before = len(written_paths)
        try:
            result: Release | SegmentedRelease = mechanism.draw(
                begun.limit(counts),
                vocabulary,
                budget,
                Randomness.from_seed(None),
                statements=statements,
                reserve=lambda: series.card_details(begun.number),
            )
            begun.finish()
            result.save(path, force=options.force)
            begun.publish()
        except BaseException as error:
            saved = Path(path).absolute() in map(Path, written_paths[saved_before:])
            error.add_note(begun.failure_note(path, saved=saved))
            raise
    return result


# --- Reserve, draw, save, complete ---


@dataclass(frozen=True)
class PlannedReservation:
    """What a ledger will be charged, and what its entry will say.

    Attributes:
        ledger: The ledger that will be charged.
        spend: What it will be charged.
        description: What its entry says was released. All of it is public.
    """

    ledger: Ledger
    spend: Spend
    description: dict[str, Any]


def publish(
    mechanism: Mechanism[Data, Result],
    data: Data,
    vocabulary: Vocabulary,
    budget: Budget | None,
    statements: Statements,
    options: PublishOptions,
    reservation: PlannedReservation | None,
    *,
    edit: Callable[[Result], Result] = lambda result: result,
    kind: str = "release",
) -> Result:
    """Reserve, draw noise, save and complete.

    Args:
        mechanism: Reads private data and draws noise.
        data: Private data.
        vocabulary: The public vocabulary.
        budget: ε and δ.
        statements: What the curator states, for the card.
        options: Seed and output.
        reservation: What a ledger is charged; None if none is.
        edit: Changes the result before it is saved, such as dropping strings: post-processing.
        kind: What the result is called in messages.

    Returns:
        The result.

    Raises:
        BayesgramError: If the ledger has no room, or the result could not be saved. An error after
            the reservation has a note that names the entry which stays spent.
    """
    entry: int | None = None
    saved_before = len(written_paths)

    def reserve() -> Charge:
        nonlocal entry
        if options.output is not None:
            check_output(mechanism, vocabulary, options.output, force=options.force)
        if reservation is None:
            return None
        entry = reservation.ledger.reserve(reservation.spend, reservation.description)
        if options.on_reserved is not None:
            options.on_reserved(entry)
        return reservation.ledger.charge_details(entry)

    randomness = Randomness.from_seed(options.seed)
    try:
        result = edit(
            mechanism.draw(
                data, vocabulary, budget, randomness, statements=statements, reserve=reserve
            )
        )
        if options.output is not None:
            result.save(options.output, force=options.force)
        if reservation is not None and entry is not None:
            reservation.ledger.complete(entry)
    except BaseException as error:
        if reservation is not None and entry is not None:
            saved = len(written_paths) > saved_before
            path = options.output or ""
            error.add_note(failure_note(reservation.ledger, entry, path, saved=saved, kind=kind))
        raise
    return result


def check_output(
    mechanism: Mechanism[Data, Result], vocabulary: Vocabulary, path: str | Path, *, force: bool
) -> None:
    """Refuse a folder that can't be written, or a disk that has too little room for it.

    It is called before any budget is spent.

    Args:
        mechanism: Says which files the folder has, and how large it can be.
        vocabulary: The public vocabulary.
        path: The folder.
        force: Whether what is already there may be replaced.
    """
    check_writable(
        path,
        force=force,
        contents=mechanism.output_contents(),
        required_bytes=mechanism.output_size(vocabulary),
    )


def require_output(output: str | Path | None, kind: str) -> None:
    """Refuse to charge a ledger for something that is not saved by the same call."""
    if output is None:
        raise UsageError(
            f"a {kind} that a ledger or a series pays for is saved by the same call, so that it can"
            " be marked as published; give ",
            Argument("output"),
            ", the folder to save it in.",
        )


def failure_note(
    ledger: Ledger, number: int, path: str | Path, *, saved: bool, kind: str = "release"
) -> str:
    """Return the note of an error after the reservation: what became of output and budget.

    Args:
        ledger: The ledger that was charged.
        number: The number of its entry.
        path: Where the output was to be saved.
        saved: Whether it was.
        kind: What the result is called.
    """
    if not saved:
        return f"The {kind} is lost, and entry {number} of {ledger.path} stays spent."
    return (
        f"{path} is saved, and entry {number} of {ledger.path} is spent for it; only the note that"
        f" it was published is missing. `bayesgram ledger publish {ledger.path} {number}` writes"
        " it."
    )


# --- Checks before anything is spent ---


def check_chain_unit(mechanism: Mechanism[Data, Result], unit: str | None) -> str | None:
    """Return the unit, or refuse one that is not that of the release which this one follows."""
    unit = None if unit is None else check_unit(unit)
    if mechanism.previous is not None:
        before = mechanism.previous.release.card.unit
        if (before or DEFAULT_UNIT) != (unit or DEFAULT_UNIT):
            raise UsageError.for_argument(
                "unit",
                repr(unit or DEFAULT_UNIT),
                f"the release before counts in {before or DEFAULT_UNIT!r}, and a chain has one "
                "unit; give the same, or leave ",
                Argument("previous"),
                " out.",
            )
    return unit


def plan_reservation(
    mechanism: Mechanism[Data, Result],
    data: Data,
    vocabulary: Vocabulary,
    budget: Budget | None,
    *,
    seed: int | None,
    output: str | Path | None,
    unit: str | None,
    ledger: Ledger,
) -> PlannedReservation:
    """Return what the ledger is charged for a release, and what its entry says.

    Args:
        mechanism: How the release is made.
        data: Private data, which are asked only whether they fit the vocabulary.
        vocabulary: The public vocabulary.
        budget: ε and δ.
        seed: Must be None.
        output: Where the release will be saved.
        unit: What one user id stands for.
        ledger: The ledger to charge.

    Raises:
        UsageError: If the release would not be PROVED: no ledger is charged for it.
    """
    if seed is not None:
        raise UsageError.for_argument(
            "seed",
            seed,
            "a seeded release is not private, so no ledger is charged; leave one of them out.",
        )
    if mechanism.guarantee is not Guarantee.PROVED:
        raise UsageError.for_argument(
            "mechanism",
            mechanism.name,
            f"labelled {mechanism.guarantee.name}, so no ledger can be charged for it; "
            "use posterior, gaussian or laplace, or leave ",
            Argument("ledger"),
            " out.",
        )
    epsilon, delta = mechanism.check_budget(budget)
    spend = mechanism.spend(vocabulary, require_budget(budget, mechanism.name))
    mechanism.check_inputs(data, vocabulary)
    if release_label(mechanism, vocabulary) is not Guarantee.PROVED:
        weak = unproved_sentence(list_ingredients(mechanism, vocabulary))
        raise UsageError(
            f"{weak}, so no ledger is charged for it. Leave that out, or leave ",
            Argument("ledger"),
            " out.",
        )
    description = describe_entry(
        mechanism.name, epsilon, delta, output=output, vocabulary=vocabulary, unit=unit
    )
    return PlannedReservation(ledger, spend, description)


def describe_entry(
    mechanism: str,
    epsilon: float | None,
    delta: float | None,
    *,
    output: str | Path | None,
    vocabulary: Vocabulary,
    unit: str | None,
) -> dict[str, Any]:
    """Return what an entry of a ledger says of what it was charged for. All of it is public.

    Args:
        mechanism: The name of the mechanism.
        epsilon: ε.
        delta: δ.
        output: Where the result will be saved.
        vocabulary: The public vocabulary; the entry has its fingerprint.
        unit: What one user id stands for.
    """
    return {
        "mechanism": mechanism,
        "epsilon": epsilon,
        "delta": delta,
        "output": None if output is None else str(output),
        "vocabulary": vocabulary.fingerprint,
        "unit": unit or DEFAULT_UNIT,
    }


def check_published(ledger: Ledger, ingredients: Iterable[Ingredient]) -> None:
    """Refuse ingredients that this ledger was charged for and that were not published.

    The promise of a chain holds if all of it was published: a release that was lost, or is kept
    back, is no public input.

    Raises:
        UsageError: If an entry of this ledger is not marked as published.
    """
    charged = [ingredient for ingredient in ingredients if ingredient.ledger == ledger.identity]
    entries = {entry.number: entry for entry in ledger.read().reservations} if charged else {}
    for ingredient in charged:
        entry = entries.get(ingredient.entry or 0)
        if entry is not None and ingredient.series_discovery is not None:
            is_published = ingredient.series_discovery in entry.published_discoveries
        elif entry is not None and entry.series is not None:
            is_published = ingredient.series_release in entry.published_releases
        else:
            is_published = entry is not None and entry.published
        if not is_published:
            command = f"`bayesgram ledger publish {ledger.path} {ingredient.entry}`"
            if ingredient.series_release is not None:
                command = f"`bayesgram series publish SERIES {ingredient.series_release}`"
            if ingredient.series_discovery is not None:
                number = ingredient.series_discovery
                command = f"`bayesgram series publish SERIES {number} --discovery`"
            raise UsageError(
                f"{ingredient.name}: its entry {ingredient.entry} of {ledger.path} is not marked as"
                " published, and only what was published can be followed. If it was, say so with"
                f" {command}; else leave it out. Nothing was reserved."
            )


def list_ingredients(
    mechanism: Mechanism[Data, Result], vocabulary: Vocabulary
) -> tuple[Ingredient, ...]:
    """Return every source, discovery and earlier release that a release is made from."""
    previous = mechanism.previous
    if previous is None:
        return vocabulary.ingredients
    before = (
        previous.previous_for(ALL) if isinstance(previous, PreviousSegmentedRelease) else previous
    )
    return unique_ingredients(
        [*vocabulary.ingredients, *before.release.provenance(before.name).ingredients]
    )


def release_label(mechanism: Mechanism[Data, Result], vocabulary: Vocabulary) -> Guarantee:
    """Return the label that the card of an unseeded release will have."""
    ingredients = list_ingredients(mechanism, vocabulary)
    return weakest_label(mechanism.guarantee, [ingredient.label for ingredient in ingredients])


# --- Dry runs ---


@dataclass(frozen=True)
class DryRun:
    """What a release would claim and cost, from public numbers alone.

    Attributes:
        mechanism: Its name.
        guarantee: The label that the card would have.
        epsilon: ε.
        delta: δ.
        unit: What one user id stands for.
        spend: What a ledger would be charged, where the label is PROVED.
        ledger: The ledger as it is now, if one was given.
    """

    mechanism: str
    guarantee: str
    epsilon: float | None
    delta: float | None
    unit: str
    spend: Spend | None
    ledger: LedgerContents | None = None

    @property
    def remaining_epsilon(self) -> tuple[float, float] | None:
        """ε that would remain in the ledger for a Gaussian release, and for a pure-ε one."""
        if self.ledger is None or self.spend is None:
            return None
        spends = [*self.ledger.spends, self.spend]
        budget = self.ledger.budget
        return remaining_gaussian_epsilon(spends, budget), remaining_pure_epsilon(spends, budget)

    def to_json(self) -> dict[str, Any]:
        """Return the dry run as a JSON object."""
        spend = None
        if self.spend is not None:
            spend = {**vars(self.spend), "mu_squared": self.spend.mu_squared}
        return {
            "dry_run": True,
            "mechanism": self.mechanism,
            "guarantee": self.guarantee,
            "epsilon": self.epsilon,
            "delta": self.delta,
            "unit": self.unit,
            "spend": spend,
            "ledger": self._ledger_to_json(),
        }

    def _ledger_to_json(self) -> dict[str, Any] | None:
        if self.ledger is None or self.remaining_epsilon is None:
            return None
        gaussian, pure = self.remaining_epsilon
        return {
            "population": self.ledger.population,
            "epsilon": self.ledger.budget.epsilon,
            "delta": self.ledger.budget.delta,
            "left_gaussian_epsilon": self.ledger.remaining_gaussian_epsilon(),
            "left_then_gaussian_epsilon": gaussian,
            "left_then_pure_epsilon": pure,
        }


def dry_run(
    data: Data,
    vocabulary: Vocabulary,
    mechanism: Mechanism[Data, Result],
    budget: Budget | None = None,
    *,
    seed: int | None = None,
    ledger: Ledger | None = None,
    unit: str | None = None,
) -> DryRun:
    """Make all the checks of `release`, and refuse what it would refuse.

    It draws no noise, writes nothing and charges nothing. Private data are asked whether they fit
    the vocabulary, as a release asks them, and nothing else.

    Args:
        data: Private data.
        vocabulary: The public vocabulary.
        mechanism: How the release would be made.
        budget: ε and δ.
        seed: As for `release`.
        ledger: The ledger that would be charged.
        unit: What one user id stands for.

    Raises:
        BayesgramError: What `release` would raise before it draws noise.
    """
    Randomness.from_seed(seed)
    unit = check_chain_unit(mechanism, unit)
    epsilon, delta = mechanism.check_budget(budget)
    mechanism.check_inputs(data, vocabulary)
    label = release_label(mechanism, vocabulary)
    spend = None
    contents = None
    if ledger is not None:
        reservation = plan_reservation(
            mechanism, data, vocabulary, budget, seed=seed, output=None, unit=unit, ledger=ledger
        )
        spend = reservation.spend
        contents = ledger.check(spend, reservation.description)
        check_published(ledger, list_ingredients(mechanism, vocabulary))
    elif label is Guarantee.PROVED:
        spend = mechanism.spend(vocabulary, require_budget(budget, mechanism.name))
    if seed is not None and epsilon is not None:
        label = Guarantee.NONE
    return DryRun(mechanism.name, label.name, epsilon, delta, unit or DEFAULT_UNIT, spend, contents)
