"""The interface of mechanisms, and what all of them share.

A mechanism is a frozen dataclass of public settings with one method, `draw`, that reads private
data and draws noise. It is generic in the private data that it takes and in what it makes of them:

| mechanism | private data | result |
|---|---|---|
| `CountsMechanism` (posterior, gaussian, laplace, …) | `PrivateCounts` | `Release` |
| `BySegment` | `SegmentedCounts` | `SegmentedRelease` |
| `DiscoveryMechanism` | `DiscoveryData` | `Discovery` |

`mechanisms.publish` is the other half of the interface: it reserves the budget, calls `draw`, saves
the result, and marks the ledger's entry as published.
"""

import secrets
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any, ClassVar, Generic, Protocol, TypeVar

import numpy as np

from bayesgram.arrays import Floats
from bayesgram.errors import Argument, UsageError, check_int
from bayesgram.io.segments import Segments
from bayesgram.privacy.accounting import Spend
from bayesgram.privacy.budget import Budget, Guarantee
from bayesgram.privacy.ledger import LedgerCharge
from bayesgram.privacy.noise import ExactNoise, NoiseSource, SeededNoise
from bayesgram.private.counts import PrivateCounts, SegmentedCounts
from bayesgram.public.vocabulary import Vocabulary
from bayesgram.releases.card import Card
from bayesgram.releases.measurements import Measurements
from bayesgram.releases.previous import PreviousRelease, PreviousSegmentedRelease
from bayesgram.releases.release import CONTENTS, Release, max_release_bytes
from bayesgram.releases.segmented import SegmentedRelease

# δ where none is given. It is below one over the number of users of all but the largest
# populations. A convention, not measured.
DEFAULT_DELTA = 1e-7


class Publishable(Protocol):
    """What a mechanism makes: something that can be saved as a folder."""

    def save(self, path: str | Path, *, force: bool = False) -> None:
        """Write the folder completely or not at all."""


Data = TypeVar("Data")
Result = TypeVar("Result", bound=Publishable)

# What the card says of the ledger's entry; None where no ledger is charged.
Charge = LedgerCharge | None
Reserve = Callable[[], Charge]


def reserve_nothing() -> Charge:
    """Stand for a reservation where no ledger is charged."""
    return None


@dataclass(frozen=True)
class Randomness:
    """Where the randomness of a run comes from.

    Attributes:
        noise: Draws the noise.
        key: Seeds subsampling and splits.
    """

    noise: NoiseSource
    key: int

    @classmethod
    def from_seed(cls, seed: int | None) -> "Randomness":
        """Return the operating system's randomness, or a repeatable one; the card says which."""
        if seed is None:
            return cls(ExactNoise(), secrets.randbits(64))
        check_int("seed", seed, 0, 2**63 - 1, "a seed")
        noise_seed, key_seed = np.random.SeedSequence(seed).generate_state(2, np.uint64)
        return cls(SeededNoise(int(noise_seed)), int(key_seed))


@dataclass(frozen=True)
class Statements:
    """What the curator states about a release; it is written on the card.

    Attributes:
        unit: What one user id stands for, where it is not all of a user's text.
        expected_users: A public bound on the number of users.
        command: How the release was asked for.
    """

    unit: str | None = None
    expected_users: int | None = None
    command: str | None = None


NO_STATEMENTS = Statements()


class Mechanism(ABC, Generic[Data, Result]):
    """Public settings, and one method that reads private data and draws noise."""

    name: ClassVar[str]
    guarantee: ClassVar[Guarantee]

    @property
    @abstractmethod
    def previous(self) -> PreviousRelease | PreviousSegmentedRelease | None:
        """The release that this one follows."""

    @abstractmethod
    def check_budget(self, budget: Budget | None) -> tuple[float | None, float | None]:
        """Return (ε, δ) as the card will claim it, before anything is read.

        Raises:
            UsageError: If the mechanism can't use this budget.
        """

    @abstractmethod
    def check_inputs(self, data: Data, vocabulary: Vocabulary) -> None:
        """Refuse data and a vocabulary that do not belong together."""

    @abstractmethod
    def spend(self, vocabulary: Vocabulary, budget: Budget) -> Spend:
        """Return what a ledger is charged. Every mechanism labelled PROVED implements it."""

    @abstractmethod
    def output_contents(self) -> tuple[str, ...]:
        """Return the names of the files in the folder that the result is saved in."""

    @abstractmethod
    def output_size(self, vocabulary: Vocabulary) -> int:
        """Return how many bytes the folder takes at most."""

    @abstractmethod
    def draw(
        self,
        data: Data,
        vocabulary: Vocabulary,
        budget: Budget | None,
        randomness: Randomness,
        *,
        statements: Statements = NO_STATEMENTS,
        reserve: Reserve = reserve_nothing,
    ) -> Result:
        """Read private data, draw noise once, and return the result with its card.

        Args:
            data: Private data.
            vocabulary: The public vocabulary.
            budget: ε and δ.
            randomness: Where noise comes from.
            statements: What the curator states, for the card.
            reserve: Called once, before any noise is drawn; returns what the card says of the
                ledger's entry.
        """

    def release(
        self,
        data: Data,
        vocabulary: Vocabulary,
        budget: Budget | None = None,
        *,
        seed: int | None = None,
    ) -> Result:
        """Check the inputs and draw noise once, without a ledger and without saving.

        Args:
            data: Private data.
            vocabulary: The public vocabulary.
            budget: ε and δ.
            seed: Makes the noise repeatable, for tests: the result is labelled NONE.
        """
        self.check_budget(budget)
        self.check_inputs(data, vocabulary)
        return self.draw(data, vocabulary, budget, Randomness.from_seed(seed))


@dataclass(frozen=True, eq=False)
class Outcome:
    """A distribution that a mechanism has estimated. All of it is public or noisy.

    Attributes:
        theta: The probability of each n-gram.
        details: What the card says of it.
        std: The standard deviation of each probability, where it is known.
        measurements: The noisy answers, where they are counts.
    """

    theta: Floats
    details: dict[str, Any] = field(default_factory=dict)
    std: Floats | None = None
    measurements: Measurements | None = None


class CountsMechanism(Mechanism[PrivateCounts, Release]):
    """A mechanism that makes a release of counts."""

    statement: ClassVar[str]  # what is guaranteed, in one sentence
    allows_several_orders: ClassVar[bool] = False
    default_delta: ClassVar[float] = DEFAULT_DELTA  # 0: the mechanism uses no δ
    shift_invariant: ClassVar[bool] = False  # softmax of noisy logs: their common level is hidden
    audit_refusal: ClassVar[str | None] = None  # why an audit can't attack it, where it can't
    previous: PreviousRelease | PreviousSegmentedRelease | None = None

    @abstractmethod
    def estimate(
        self,
        counts: PrivateCounts,
        vocabulary: Vocabulary,
        budget: Budget | None,
        randomness: Randomness,
    ) -> Outcome:
        """Draw noise, and estimate the distribution.

        Args:
            counts: Private counts.
            vocabulary: The public vocabulary.
            budget: ε and δ.
            randomness: Where noise comes from.
        """

    def measure(
        self,
        counts: PrivateCounts,
        vocabulary: Vocabulary,
        budget: Budget | None,
        randomness: Randomness,
    ) -> object:
        """Draw the noise of `estimate`. Audits call it; it may leave out the post-processing."""
        return self.estimate(counts, vocabulary, budget, randomness)

    def spend(self, vocabulary: Vocabulary, budget: Budget) -> Spend:
        """Return what a ledger is charged. Mechanisms that are not labelled PROVED have none."""
        raise NotImplementedError

    def by_segment(
        self, segments: Segments, on_progress: Callable[[float], None] = lambda _: None
    ) -> Mechanism[SegmentedCounts, SegmentedRelease]:
        """Return the mechanism for counts by segment."""
        raise UsageError.for_argument(
            "mechanism",
            self.name,
            f"the counts are by {segments.by!r}; only posterior releases segments. Use "
            "it, or count again without ",
            Argument("by"),
            ".",
        )

    def settings(self) -> dict[str, Any]:
        """Return the public settings, as the card shows them, without what the card has elsewhere.

        It says itself which release is followed, and which series pays for the noise.
        """
        names = [setting.name for setting in fields(self)]  # type: ignore[arg-type]
        elsewhere = {"previous", "series_noise"}
        return {name: getattr(self, name) for name in names if name not in elsewhere}

    def follow(
        self, previous: "PreviousRelease | Release | SegmentedRelease | str | Path | None"
    ) -> "CountsMechanism":
        """Return the same mechanism with an earlier release as its prior."""
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
        """Return (ε, δ) as the card will claim it, before anything is read.

        Raises:
            UsageError: If the mechanism can't use this budget.
        """
        checked_budget = require_budget(budget, self.name)
        if checked_budget.delta <= 0:
            raise UsageError.for_argument(
                "delta", "0", f"{self.name} needs a delta above 0; 1e-7 is usual."
            )
        return checked_budget.epsilon, checked_budget.delta

    def check_inputs(self, data: PrivateCounts, vocabulary: Vocabulary) -> None:
        """Refuse counts of another vocabulary, and several orders where the mechanism takes one."""
        data.check_vocabulary(len(vocabulary), vocabulary.fingerprint)
        if len(vocabulary.by_order) > 1 and not self.allows_several_orders:
            raise UsageError.for_argument(
                "mechanism",
                self.name,
                "needs a vocabulary of one order; make one with one ",
                Argument("order"),
                ", or use posterior.",
            )

    def output_contents(self) -> tuple[str, ...]:
        """Return the names of the files of a release."""
        return CONTENTS

    def output_size(self, vocabulary: Vocabulary) -> int:
        """Return how many bytes a release takes at most."""
        return max_release_bytes(vocabulary.ngrams)

    def draw(
        self,
        data: PrivateCounts,
        vocabulary: Vocabulary,
        budget: Budget | None,
        randomness: Randomness,
        *,
        statements: Statements = NO_STATEMENTS,
        reserve: Reserve = reserve_nothing,
    ) -> Release:
        """Read private counts, draw noise once, and return the release with its card."""
        charge = reserve()
        outcome = self.estimate(data, vocabulary, budget, randomness)
        return make_release(self, outcome, vocabulary, budget, randomness, statements, charge)


def make_release(
    mechanism: CountsMechanism,
    outcome: Outcome,
    vocabulary: Vocabulary,
    budget: Budget | None,
    randomness: Randomness,
    statements: Statements = NO_STATEMENTS,
    charge: Charge = None,
) -> Release:
    """Return what a mechanism has estimated as a release, with its card.

    Args:
        mechanism: Where the outcome is from; the card names its settings and its label.
        outcome: What it has estimated.
        vocabulary: The public vocabulary.
        budget: ε and δ.
        randomness: Where the noise came from.
        statements: What the curator states, for the card.
        charge: What the card says of the ledger's entry.
    """
    epsilon, delta = mechanism.check_budget(budget)
    measurements = outcome.measurements
    card = Card(
        mechanism=mechanism.name,
        guarantee=mechanism.guarantee,
        statement=mechanism.statement,
        epsilon=epsilon,
        delta=delta,
        settings=mechanism.settings(),
        details=outcome.details,
        vocabulary=vocabulary.card_details,
        seeded=randomness.noise.seeded and epsilon is not None,
        measured=None if measurements is None else measurements.card_details,
        unit=statements.unit,
        expected_users=statements.expected_users,
        command=statements.command,
        ledger=None if charge is None else dict(charge),
    )
    if isinstance(mechanism.previous, PreviousRelease):
        card = replace(card, chain=mechanism.previous.chain.to_json())
    discovered = None if vocabulary.origins is None else vocabulary.origins.discovered
    return Release(vocabulary.ngrams, outcome.theta, card, outcome.std, discovered, measurements)


def resolve_budget(
    budget: Budget | None,
    epsilon: float | None,
    delta: float | None,
    *,
    default_delta: float = DEFAULT_DELTA,
) -> Budget | None:
    """Return the budget, which is given as such or as its two numbers.

    Args:
        budget: The budget, or None.
        epsilon: ε, in place of `budget`.
        delta: δ, in place of `budget`.
        default_delta: δ where only ε is given; 0 if the mechanism uses none.

    Raises:
        UsageError: If both are given, δ without ε, or a δ that the mechanism does not use.
    """
    if budget is not None and (epsilon is not None or delta is not None):
        raise UsageError("budget: holds ε and δ; give it, or epsilon and delta.")
    if epsilon is None:
        if delta is not None:
            raise UsageError.for_argument(
                "delta", delta, "means nothing without epsilon; give both, or a budget."
            )
        return budget
    if delta is not None and not default_delta:
        raise UsageError.for_argument("delta", delta, "this mechanism needs none; leave it out.")
    return Budget(epsilon, default_delta if delta is None else delta)


def require_budget(budget: Budget | None, mechanism: str) -> Budget:
    """Return the budget unchanged; refuse None."""
    if budget is None:
        raise UsageError(
            Argument("epsilon"),
            f" is missing: {mechanism} needs a budget; 0.1 is strong, 1 is usual.",
        )
    return budget


def normalise_counts(noisy_counts: Floats) -> Floats:
    """Return a distribution; counts below 1 are raised to 1, so that no probability is 0."""
    raised = np.maximum(noisy_counts, 1.0)
    theta: Floats = raised / raised.sum()
    return theta
