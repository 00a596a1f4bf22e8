"""What every mechanism is: public knobs, and one way through the door."""

import secrets
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any, ClassVar, TypedDict, Unpack, overload

import numpy as np

from bayesgram.arguments import checked
from bayesgram.arrays import Floats
from bayesgram.errors import UsageError, whole_number
from bayesgram.files.segments import Segments
from bayesgram.privacy.accounting import Spend
from bayesgram.privacy.budget import Budget, Guarantee
from bayesgram.privacy.ledger import Ledger
from bayesgram.privacy.noise import ExactNoise, NoiseSource, SeededNoise
from bayesgram.privacy.unit import THESE_DATA, check_unit
from bayesgram.private.counts import SegmentedCounts
from bayesgram.private.over_users import PrivateCounts
from bayesgram.public.vocabulary import Vocabulary
from bayesgram.released.card import Card
from bayesgram.released.measurements import Measurements
from bayesgram.released.previous import Previous, PreviousSegments
from bayesgram.released.release import Release
from bayesgram.released.segmented import SegmentedRelease

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
        whole_number("seed", seed, 0, 2**63 - 1, "a seed")
        noise_seed, key_seed = np.random.SeedSequence(seed).generate_state(2, np.uint64)
        return cls(SeededNoise(int(noise_seed)), int(key_seed))


@dataclass(frozen=True, eq=False)
class Outcome:
    """What comes through a door. All of it is public or noisy."""

    theta: Floats
    details: dict[str, Any] = field(default_factory=dict)  # for the card
    deviation: Floats | None = None  # standard deviation of each probability, where it is known
    measured: Measurements | None = None  # the noisy answers, where they are counts


class Mechanism(ABC):
    """A frozen dataclass of public settings with one method that reads private counts."""

    name: ClassVar[str]
    guarantee: ClassVar[Guarantee]
    statement: ClassVar[str]
    several_orders: ClassVar[bool] = False  # whether a vocabulary may hold n-grams of several orders
    previous: Previous | PreviousSegments | None = None  # the release that this one follows
    usual_delta: ClassVar[float] = USUAL_DELTA  # where none is given; 0: it uses none
    shift_invariant: ClassVar[bool] = False  # softmax of noisy logs: their common level can't be seen

    @abstractmethod
    def distribution(
        self, counts: PrivateCounts, vocabulary: Vocabulary, budget: Budget | None, chance: Randomness
    ) -> Outcome:
        """θ and what the card says of it."""

    def measure(self, counts: PrivateCounts, vocabulary: Vocabulary, budget: Budget | None, chance: Randomness) -> Any:  # noqa: ANN401
        """The part of `distribution` that asks for noise, for audits: what only post-processes may be left out."""
        return self.distribution(counts, vocabulary, budget, chance)

    def spend(self, vocabulary: Vocabulary, budget: Budget) -> Spend:
        """What a ledger is charged for one release. Every PROVED mechanism says so."""
        raise NotImplementedError

    def by_segment(self, segments: Segments, on_progress: Callable[[float], None] = lambda _: None) -> Any:  # noqa: ANN401 - a `BySegment`
        """The mechanism for counts by segment."""
        raise UsageError(
            f"mechanism={self.name}: the counts are by {segments.by!r}; only posterior releases segments. Use it, or"
            " count again without `by`."
        )

    def settings(self) -> dict[str, Any]:
        """The public knobs, as the card shows them; what it follows has a place of its own there."""
        names = [each.name for each in fields(self) if each.name != "previous"]  # type: ignore[arg-type]
        return {name: getattr(self, name) for name in names}

    def after(self, previous: "Previous | Release | SegmentedRelease | str | Path | None") -> "Mechanism":
        """The same mechanism, with an earlier release as its prior."""
        if previous is None:
            return self
        raise UsageError(
            f"mechanism={self.name}: only posterior can follow another release; leave `previous` out, or use posterior."
        )

    def check_budget(self, budget: Budget | None) -> tuple[float | None, float | None]:
        """(ε, δ) as the card will claim it; a budget that won't do is refused here, before anything is read."""
        whole = need(budget, self.name)
        if whole.delta <= 0:
            raise UsageError(f"delta=0: {self.name} needs a delta above 0; 1e-7 is usual.")
        return whole.epsilon, whole.delta

    def check_inputs(self, counts: PrivateCounts, vocabulary: Vocabulary) -> None:
        """Counts and vocabulary belong together, and the mechanism knows what to do with them."""
        counts.check_vocabulary(len(vocabulary), vocabulary.fingerprint)
        if len(vocabulary.parts) > 1 and not self.several_orders:
            raise UsageError(
                f"mechanism={self.name}: needs a vocabulary of one order; make one with one `order`, or use posterior."
            )

    def release(
        self,
        counts: PrivateCounts,
        vocabulary: Vocabulary,
        budget: Budget | None = None,
        *,
        seed: int | None = None,
    ) -> Release:
        """Go through the door once."""
        self.check_budget(budget)
        self.check_inputs(counts, vocabulary)
        chance = Randomness.make(seed)
        outcome = self.distribution(counts, vocabulary, budget, chance)
        return made_release(self, outcome, vocabulary, budget, chance)


def made_release(
    mechanism: Mechanism, outcome: Outcome, vocabulary: Vocabulary, budget: Budget | None, chance: Randomness
) -> Release:
    """What came through a door, with its card."""
    epsilon, delta = mechanism.check_budget(budget)
    card = Card(
        mechanism=mechanism.name,
        guarantee=mechanism.guarantee,
        statement=mechanism.statement,
        epsilon=epsilon,
        delta=delta,
        settings=mechanism.settings(),
        details=outcome.details,
        vocabulary=vocabulary.described,
        seeded=chance.noise.seeded and epsilon is not None,
        measured=None if outcome.measured is None else outcome.measured.described,
    )
    if isinstance(mechanism.previous, Previous):
        card = replace(card, chain=mechanism.previous.followed_by(card))
    discovered = None if vocabulary.origins is None else vocabulary.origins.discovered
    return Release(vocabulary.ngrams, outcome.theta, card, outcome.deviation, discovered, outcome.measured)


class ReleaseOptions(TypedDict, total=False):
    """What `release` takes by name; the function says what each is."""

    epsilon: float | None
    delta: float | None
    seed: int | None
    ledger: Ledger | None
    output: str | None
    unit: str | None
    on_reserved: Callable[[int], None] | None
    previous: "Previous | Release | SegmentedRelease | str | Path | None"
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
@checked
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
    output: str | None = None,
    unit: str | None = None,
    on_reserved: Callable[[int], None] | None = None,
    previous: "Previous | Release | SegmentedRelease | str | Path | None" = None,
    on_progress: Callable[[float], None] = lambda _: None,
) -> Release | SegmentedRelease:
    """Private counts in, a distribution with its card out; a seed makes it repeatable, and not for publication.

    Without a mechanism it is `Posterior()`. The budget is `epsilon` and `delta` (1e-7 unless said otherwise, where the
    mechanism uses one), or a `Budget`. Counts by segment give a release for all people and one for each segment, in one
    budget. `unit` says what one user id stands for, where it is not all of a user's text. `previous` is a release that
    this one follows: its prior. It is public, and costs nothing more.

    With a ledger, the budget is reserved there, durably, before any noise is drawn; it stays spent whatever happens.
    `on_reserved` is told the number of the entry as soon as it is there; an error that comes later has it as a note.
    `on_progress` is told which share of the segments is done.
    """
    mechanism = _default() if mechanism is None else mechanism
    budget = budget_of(budget, epsilon, delta, usual=mechanism.usual_delta)
    door: Any = mechanism.after(previous)
    if isinstance(counts, SegmentedCounts):
        door = door.by_segment(counts.segments, on_progress)
    made: Release | SegmentedRelease = _released(
        counts, vocabulary, door, budget, seed=seed, ledger=ledger, output=output, unit=unit, on_reserved=on_reserved
    )
    return made


def _released(
    counts: Any,  # noqa: ANN401 - what the door takes
    vocabulary: Vocabulary,
    mechanism: Any,  # noqa: ANN401 - a Mechanism, or a BySegment
    budget: Budget | None,
    *,
    seed: int | None,
    ledger: Ledger | None,
    output: str | None,
    unit: str | None,
    on_reserved: Callable[[int], None] | None,
) -> Any:  # noqa: ANN401 - what it gives
    """What the door gives, and a ledger charged for it."""
    unit = checked_unit(mechanism, unit)
    if ledger is None:
        made = mechanism.release(counts, vocabulary, budget, seed=seed)
        return made.stated(unit=unit)
    spend, description = reservation(counts, vocabulary, mechanism, budget, seed=seed, output=output, unit=unit)
    number = ledger.reserve(spend, description)
    try:
        if on_reserved is not None:
            on_reserved(number)
        made = mechanism.release(counts, vocabulary, budget)
    except BaseException as error:
        error.add_note(f"The release is lost, and entry {number} of {ledger.path} stays spent.")
        raise
    return made.stated(ledger=ledger.as_charged(number), unit=unit)


def checked_unit(mechanism: Any, unit: str | None) -> str | None:  # noqa: ANN401 - a Mechanism, or a BySegment
    """The unit, if it is one; a release that follows another counts in the same one."""
    unit = None if unit is None else check_unit(unit)
    if mechanism.previous is not None:
        before = mechanism.previous.release.card.unit
        if (before or THESE_DATA) != (unit or THESE_DATA):
            raise UsageError(
                f"unit={unit or THESE_DATA!r}: the release before counts in {before or THESE_DATA!r}, and a chain has"
                " one unit; give the same, or leave `previous` out."
            )
    return unit


def reservation(
    counts: PrivateCounts | SegmentedCounts,
    vocabulary: Vocabulary,
    mechanism: Any,  # noqa: ANN401 - a Mechanism, or a BySegment
    budget: Budget | None,
    *,
    seed: int | None,
    output: str | None,
    unit: str | None,
) -> tuple[Spend, dict[str, Any]]:
    """What a ledger is charged for a release, and what its entry says; refused where none can be charged."""
    if seed is not None:
        raise UsageError(
            f"seed={seed}: a seeded release is not private, so no ledger is charged; leave one of them out."
        )
    if mechanism.guarantee is not Guarantee.PROVED:
        raise UsageError(
            f"mechanism={mechanism.name}: labelled {mechanism.guarantee.name}, so no ledger can be charged for it;"
            " use posterior, gaussian or laplace, or leave `ledger` out."
        )
    epsilon, delta = mechanism.check_budget(budget)
    spend = mechanism.spend(vocabulary, need(budget, mechanism.name))
    mechanism.check_inputs(counts, vocabulary)
    description = {"mechanism": mechanism.name, "epsilon": epsilon, "delta": delta, "output": output}
    return spend, {**description, "vocabulary": vocabulary.fingerprint, "unit": unit or THESE_DATA}


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
            raise UsageError(f"delta={delta}: means nothing without epsilon; give both, or a budget.")
        return budget
    if delta is not None and not usual:
        raise UsageError(f"delta={delta}: this mechanism needs none; leave it out.")
    return Budget(epsilon, usual if delta is None else delta)


def need(budget: Budget | None, mechanism: str) -> Budget:
    """The budget, or a clear word that there is none."""
    if budget is None:
        raise UsageError(f"`epsilon` is missing: {mechanism} needs a budget; 0.1 is strong, 1 is usual.")
    return budget


def normalised(noisy_counts: Floats) -> Floats:
    """Counts below 1 set to 1, so that every n-gram keeps some probability; then a distribution."""
    raised = np.maximum(noisy_counts, 1.0)
    theta: Floats = raised / raised.sum()
    return theta
