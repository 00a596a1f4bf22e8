"""What every mechanism is, and the function that publishes: reserve, draw noise, save, complete."""

import secrets
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any, ClassVar, TypedDict, Unpack, overload

import numpy as np

from bayesgram.arguments import check_arguments
from bayesgram.arrays import Floats
from bayesgram.errors import Argument, UsageError, check_int
from bayesgram.io.atomic import check_writable, written_paths
from bayesgram.io.segments import ALL, Segments
from bayesgram.privacy.accounting import Spend
from bayesgram.privacy.budget import Budget, Guarantee
from bayesgram.privacy.ledger import Ledger
from bayesgram.privacy.noise import ExactNoise, NoiseSource, SeededNoise
from bayesgram.privacy.unit import DEFAULT_UNIT, check_unit
from bayesgram.private.counts import PrivateCounts, SegmentedCounts
from bayesgram.public.vocabulary import Vocabulary
from bayesgram.releases.card import MAX_USERS, Card
from bayesgram.releases.measurements import Measurements
from bayesgram.releases.previous import PreviousRelease, PreviousSegmentedRelease
from bayesgram.releases.provenance import (
    Ingredient,
    unique_ingredients,
    unproved_sentence,
    weakest_label,
)
from bayesgram.releases.release import CONTENTS, Release, max_release_bytes
from bayesgram.releases.segmented import SegmentedRelease, folder_contents

USUAL_DELTA = 1e-7


@dataclass(frozen=True)
class Randomness:
    """Where a run's chance comes from: the noise, and the key of subsampling and splits."""

    noise: NoiseSource
    key: int

    @classmethod
    def make(cls, seed: int | None) -> "Randomness":
        """The operating system's, or repeatable from a seed (and then stamped)."""
        if seed is None:
            return cls(ExactNoise(), secrets.randbits(64))
        check_int("seed", seed, 0, 2**63 - 1, "a seed")
        noise_seed, key_seed = np.random.SeedSequence(seed).generate_state(2, np.uint64)
        return cls(SeededNoise(int(noise_seed)), int(key_seed))


@dataclass(frozen=True, eq=False)
class Outcome:
    """What a mechanism gives. All of it is public or noisy."""

    theta: Floats
    details: dict[str, Any] = field(default_factory=dict)  # for the card
    deviation: Floats | None = None  # standard deviation of each probability, where it is known
    measured: Measurements | None = None  # the noisy answers, where they are counts


class Mechanism(ABC):
    """A frozen dataclass of public settings with one method that reads private counts."""

    name: ClassVar[str]
    guarantee: ClassVar[Guarantee]
    statement: ClassVar[str]
    several_orders: ClassVar[bool] = (
        False  # whether a vocabulary may hold n-grams of several orders
    )
    previous: PreviousRelease | PreviousSegmentedRelease | None = (
        None  # the release that this one follows
    )
    usual_delta: ClassVar[float] = USUAL_DELTA  # where none is given; 0: it uses none
    shift_invariant: ClassVar[bool] = (
        False  # softmax of noisy logs: their common level can't be seen
    )
    audit_refusal: ClassVar[str | None] = None  # why an audit can't attack it, where it can't

    @abstractmethod
    def distribution(
        self,
        counts: PrivateCounts,
        vocabulary: Vocabulary,
        budget: Budget | None,
        chance: Randomness,
    ) -> Outcome:
        """θ and what the card says of it."""

    def measure(
        self,
        counts: PrivateCounts,
        vocabulary: Vocabulary,
        budget: Budget | None,
        chance: Randomness,
    ) -> Any:  # noqa: ANN401
        """The part of `distribution` that asks for noise, for audits: what only post-processes may be left out."""
        return self.distribution(counts, vocabulary, budget, chance)

    def spend(self, vocabulary: Vocabulary, budget: Budget) -> Spend:
        """What a ledger is charged for one release. Every PROVED mechanism says so."""
        raise NotImplementedError

    def by_segment(
        self, segments: Segments, on_progress: Callable[[float], None] = lambda _: None
    ) -> Any:  # noqa: ANN401 - a `BySegment`
        """The mechanism for counts by segment."""
        raise UsageError.for_argument(
            "mechanism",
            self.name,
            f"the counts are by {segments.by!r}; only posterior releases segments. Use "
            "it, or count again without ",
            Argument("by"),
            ".",
        )

    def settings(self) -> dict[str, Any]:
        """The public knobs, as the card shows them; what it follows has a place of its own there."""
        names = [each.name for each in fields(self) if each.name != "previous"]  # type: ignore[arg-type]
        return {name: getattr(self, name) for name in names}

    def after(
        self, previous: "PreviousRelease | Release | SegmentedRelease | str | Path | None"
    ) -> "Mechanism":
        """The same mechanism, with an earlier release as its prior."""
        if previous is None:
            return self
        raise UsageError.for_argument(
            "mechanism",
            self.name,
            "only posterior can follow another release; leave ",
            Argument("previous"),
            " out, or use posterior.",
        )

    def check_budget(self, budget: Budget | None) -> tuple[float | None, float | None]:
        """(ε, δ) as the card will claim it; a budget that won't do is refused here, before anything is read."""
        whole = need(budget, self.name)
        if whole.delta <= 0:
            raise UsageError.for_argument(
                "delta", "0", f"{self.name} needs a delta above 0; 1e-7 is usual."
            )
        return whole.epsilon, whole.delta

    def check_inputs(self, counts: PrivateCounts, vocabulary: Vocabulary) -> None:
        """Counts and vocabulary belong together, and the mechanism knows what to do with them."""
        counts.check_vocabulary(len(vocabulary), vocabulary.fingerprint)
        if len(vocabulary.by_order) > 1 and not self.several_orders:
            raise UsageError.for_argument(
                "mechanism",
                self.name,
                "needs a vocabulary of one order; make one with one ",
                Argument("order"),
                ", or use posterior.",
            )

    def release(
        self,
        counts: PrivateCounts,
        vocabulary: Vocabulary,
        budget: Budget | None = None,
        *,
        seed: int | None = None,
    ) -> Release:
        """Draw noise once."""
        self.check_budget(budget)
        self.check_inputs(counts, vocabulary)
        chance = Randomness.make(seed)
        outcome = self.distribution(counts, vocabulary, budget, chance)
        return made_release(self, outcome, vocabulary, budget, chance)


def made_release(
    mechanism: Mechanism,
    outcome: Outcome,
    vocabulary: Vocabulary,
    budget: Budget | None,
    chance: Randomness,
) -> Release:
    """What a mechanism gave, with its card."""
    epsilon, delta = mechanism.check_budget(budget)
    card = Card(
        mechanism=mechanism.name,
        guarantee=mechanism.guarantee,
        statement=mechanism.statement,
        epsilon=epsilon,
        delta=delta,
        settings=mechanism.settings(),
        details=outcome.details,
        vocabulary=vocabulary.card_details,
        seeded=chance.noise.seeded and epsilon is not None,
        measured=None if outcome.measured is None else outcome.measured.card_details,
    )
    if isinstance(mechanism.previous, PreviousRelease):
        card = replace(card, chain=mechanism.previous.chain.to_json())
    discovered = None if vocabulary.origins is None else vocabulary.origins.discovered
    return Release(
        vocabulary.ngrams, outcome.theta, card, outcome.deviation, discovered, outcome.measured
    )


class ReleaseOptions(TypedDict, total=False):
    """What `release` takes by name; the function says what each is."""

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
    on_progress: Callable[[float], None]


@overload
def release(
    counts: PrivateCounts,
    vocabulary: Vocabulary,
    mechanism: Mechanism | None = ...,
    budget: Budget | None = ...,
    **options: Unpack[ReleaseOptions],
) -> Release: ...
@overload
def release(
    counts: SegmentedCounts,
    vocabulary: Vocabulary,
    mechanism: Mechanism | None = ...,
    budget: Budget | None = ...,
    **options: Unpack[ReleaseOptions],
) -> SegmentedRelease: ...
@check_arguments
def release(
    counts: PrivateCounts | SegmentedCounts,
    vocabulary: Vocabulary,
    mechanism: Mechanism | None = None,
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
    on_progress: Callable[[float], None] = lambda _: None,
) -> Release | SegmentedRelease:
    """Release a distribution over the vocabulary, with its card: reserve, draw noise, save and complete.

    The label of the release is the weakest of everything that it is made from: the mechanism, the vocabulary and
    `previous`.

    Args:
        counts: Private counts; those by segment give a release for all people and one for each segment, in one budget.
        vocabulary: The vocabulary that the counts are over.
        mechanism: How the distribution is made; `Posterior()` if it is left out.
        budget: ε and δ; or give `epsilon` and `delta`.
        epsilon: ε, in place of `budget`.
        delta: δ, in place of `budget`; 1e-7 if it is left out and the mechanism uses one.
        seed: Makes the noise repeatable, for tests: such a release is labelled NONE.
        ledger: The budget is reserved there, durably, before any noise is drawn, and stays spent whatever happens.
            `output` is needed: the entry is marked as published once the release is saved.
        output: The folder to save the release in; if it is left out, the release is in memory alone.
        force: Whether a release that is already in that folder may be replaced.
        unit: What one user id stands for, where it is not all of a user's text.
        expected_users: A public bound on the number of users, by which the card judges δ.
        command: How the release was asked for; noted on the card.
        on_reserved: Is told the number of the ledger's entry as soon as it is there.
        previous: A release that this one follows: its prior. It is public, and costs nothing more.
        on_progress: Is told which share of the segments is done.

    Returns:
        The release, or one for each segment.

    Raises:
        UsageError: If something does not fit together, before anything is spent.
        BayesgramError: If the ledger has no room for it, or the release could not be saved. An error after the
            reservation has a note that names the entry which stays spent.

    """
    mechanism = _default() if mechanism is None else mechanism
    budget = budget_of(budget, epsilon, delta, usual=mechanism.usual_delta)
    chosen: Any = mechanism.after(previous)
    if isinstance(counts, SegmentedCounts):
        chosen = chosen.by_segment(counts.segments, on_progress)
    unit = checked_unit(chosen, unit)
    if expected_users is not None:
        check_int(
            "expected_users", expected_users, 1, MAX_USERS, "a public bound on the number of users"
        )
    saving = None if output is None else Output.of(output, vocabulary, counts, force=force)
    stated = {"unit": unit, "expected_users": expected_users, "command": command}
    if ledger is None:
        if saving is not None:
            saving.check()
        made: Release | SegmentedRelease = chosen.release(
            counts, vocabulary, budget, seed=seed
        ).with_card_values(**stated)
        if saving is not None:
            made.save(saving.path, force=force)
        return made
    spend, description = reservation(
        counts, vocabulary, chosen, budget, seed=seed, output=output, unit=unit
    )
    check_published(ledger, ingredients_of(chosen, vocabulary))
    if saving is None:
        raise UsageError(
            "ledger: a release that is charged to a ledger is saved by the same call, so "
            "that its entry can be marked as published; give ",
            Argument("output"),
            ", the folder to save it in.",
        )
    saving.check()
    number = ledger.reserve(spend, description)
    saved_before = len(written_paths)
    try:
        if on_reserved is not None:
            on_reserved(number)
        made = chosen.release(counts, vocabulary, budget).with_card_values(
            **stated, ledger=ledger.charge_details(number)
        )
        made.save(saving.path, force=force)
    except BaseException as error:
        error.add_note(
            failure_note(ledger, number, saving.path, saved=len(written_paths) > saved_before)
        )
        raise
    complete_entry(ledger, number, saving.path)
    return made


@dataclass(frozen=True)
class Output:
    """Where a release will be saved, and how much room it will take there."""

    path: str | Path
    contents: Sequence[str]
    room: int
    force: bool

    @classmethod
    def of(
        cls,
        path: str | Path,
        vocabulary: Vocabulary,
        counts: PrivateCounts | SegmentedCounts,
        *,
        force: bool,
    ) -> "Output":
        """The output of a release of these counts."""
        room = max_release_bytes(vocabulary.ngrams)
        if not isinstance(counts, SegmentedCounts):
            return cls(path, CONTENTS, room, force)
        return cls(path, folder_contents(counts.segments), (1 + len(counts.segments)) * room, force)

    def check(self) -> None:
        """Refuse a place that can't be written, or that has too little room: before any budget is spent."""
        check_writable(
            self.path, force=self.force, contents=self.contents, required_bytes=self.room
        )


def complete_entry(ledger: Ledger, number: int, path: str | Path) -> None:
    """Mark an entry as published, once what was charged there is saved."""
    try:
        ledger.complete(number)
    except BaseException as error:
        error.add_note(failure_note(ledger, number, path, saved=True))
        raise


def failure_note(
    ledger: Ledger, number: int, path: str | Path, *, saved: bool, what: str = "release"
) -> str:
    """What an error says that comes after the reservation: what became of the output, and of the budget."""
    if not saved:
        return f"The {what} is lost, and entry {number} of {ledger.path} stays spent."
    return (
        f"{path} is saved, and entry {number} of {ledger.path} is spent for it; only the note that it was published is"
        f" missing. `bayesgram ledger publish {ledger.path} {number}` writes it."
    )


def check_published(ledger: Ledger, ingredients: Iterable[Ingredient]) -> None:
    """Refuse to make something from releases or discoveries whose entries of this ledger are not marked as published.

    What a chain promises rests on all of it having been published: a release that was lost, or is kept back, is no
    public input.
    """
    charged = [each for each in ingredients if each.ledger == ledger.identity]
    published_entries = (
        {entry.number for entry in ledger.read().reservations if entry.published}
        if charged
        else set()
    )
    for each in charged:
        if each.entry not in published_entries:
            raise UsageError(
                f"{each.name}: its entry {each.entry} of {ledger.path} is not marked as published, and only what was"
                " published can be followed. If it was, say so with `bayesgram ledger publish"
                f" {ledger.path} {each.entry}`; else leave it out. Nothing was reserved."
            )


def checked_unit(mechanism: Any, unit: str | None) -> str | None:  # noqa: ANN401 - a Mechanism, or a BySegment
    """The unit, if it is one; a release that follows another counts in the same one."""
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


def reservation(
    counts: PrivateCounts | SegmentedCounts,
    vocabulary: Vocabulary,
    mechanism: Any,  # noqa: ANN401 - a Mechanism, or a BySegment
    budget: Budget | None,
    *,
    seed: int | None,
    output: str | Path | None,
    unit: str | None,
) -> tuple[Spend, dict[str, Any]]:
    """What a ledger is charged for a release, and what its entry says; refused where none can be charged."""
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
    spend = mechanism.spend(vocabulary, need(budget, mechanism.name))
    mechanism.check_inputs(counts, vocabulary)
    if label_of_release(mechanism, vocabulary) is not Guarantee.PROVED:
        weak = unproved_sentence(ingredients_of(mechanism, vocabulary))
        raise UsageError(
            f"{weak}, so no ledger is charged for it. Leave that out, or leave ",
            Argument("ledger"),
            " out.",
        )
    where = None if output is None else str(output)
    description = {"mechanism": mechanism.name, "epsilon": epsilon, "delta": delta, "output": where}
    return spend, {
        **description,
        "vocabulary": vocabulary.fingerprint,
        "unit": unit or DEFAULT_UNIT,
    }


def ingredients_of(
    mechanism: Any,  # noqa: ANN401 - a Mechanism, or a BySegment
    vocabulary: Vocabulary,
) -> tuple[Ingredient, ...]:
    """Everything published that a release will be made from: sources of its vocabulary, discoveries, `previous`."""
    if mechanism.previous is None:
        return vocabulary.ingredients
    previous = mechanism.previous
    before = (
        previous.previous_for(ALL) if isinstance(previous, PreviousSegmentedRelease) else previous
    )
    return unique_ingredients(
        [*vocabulary.ingredients, *before.release.provenance(before.name).ingredients]
    )


def label_of_release(
    mechanism: Any,  # noqa: ANN401 - a Mechanism, or a BySegment
    vocabulary: Vocabulary,
) -> Guarantee:
    """The label that the card of an unseeded release will have."""
    return weakest_label(
        mechanism.guarantee, [each.label for each in ingredients_of(mechanism, vocabulary)]
    )


def _default() -> Mechanism:
    from bayesgram.mechanisms.posterior import Posterior  # noqa: PLC0415 - it imports this module

    return Posterior()


def budget_of(
    budget: Budget | None, epsilon: float | None, delta: float | None, *, usual: float = USUAL_DELTA
) -> Budget | None:
    """The budget, given whole or as its two numbers."""
    if budget is not None and (epsilon is not None or delta is not None):
        raise UsageError("budget: holds ε and δ; give it, or epsilon and delta.")
    if epsilon is None:
        if delta is not None:
            raise UsageError.for_argument(
                "delta", delta, "means nothing without epsilon; give both, or a budget."
            )
        return budget
    if delta is not None and not usual:
        raise UsageError.for_argument("delta", delta, "this mechanism needs none; leave it out.")
    return Budget(epsilon, usual if delta is None else delta)


def need(budget: Budget | None, mechanism: str) -> Budget:
    """The budget, or a clear word that there is none."""
    if budget is None:
        raise UsageError(
            Argument("epsilon"),
            f" is missing: {mechanism} needs a budget; 0.1 is strong, 1 is usual.",
        )
    return budget


def normalised(noisy_counts: Floats) -> Floats:
    """Counts below 1 set to 1, so that every n-gram keeps some probability; then a distribution."""
    raised = np.maximum(noisy_counts, 1.0)
    theta: Floats = raised / raised.sum()
    return theta
