"""Releases that follow one another: which ones this one was made after, and what is known of all of them together.

A release that follows another takes what that one published as its prior. On the card: a link for each earlier release,
the oldest first, and a hash for each that covers all before it, so that none can be changed or left out unnoticed.

What can be *promised* of a chain is the budget of the ledger that all of it was charged to: it was fixed before the
first release, so it holds also for a curator who looks at each release and then decides whether to make another one.
What was *spent* so far is another thing: it depends on when the curator stops, and stopping may depend on the noise. It
is shown as information, without the word PROVED (docs/ledger.md). Public alone: asks nothing of private data.
"""

import hashlib
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import cache
from typing import Any

from bayesgram.privacy.accounting import Allowance, Spend, composed_epsilon, digits_up
from bayesgram.privacy.budget import MAX_EPSILON, Guarantee
from bayesgram.privacy.unit import DEFAULT_UNIT, is_person, is_same_unit
from bayesgram.releases.provenance import DiscoveryClaim, merge_claims

MAX_LINKS = 10_000
EPSILON_ROUNDING = 1 + 1e-6  # what an ε is shown by: more than rounding loses


@dataclass(frozen=True)
class Commitment:
    """What one release says of its privacy, as the hash of a chain covers it.

    Attributes:
        epsilon: Its ε.
        delta: Its δ.
        guarantee: Its label, by name.
        seeded: Whether its noise can be repeated.
        measured: SHA-256 of its measurements.
        unit: What one unit of privacy is, as the curator stated it; None if nothing was stated.
        ledger: The ledger that was charged, as its card has it; None if none was.
        discoveries: Every discovery whose n-grams its vocabulary has.

    """

    epsilon: float
    delta: float
    guarantee: str
    seeded: bool
    measured: str
    unit: str | None = None
    ledger: dict[str, Any] | None = None
    discoveries: tuple[DiscoveryClaim, ...] = field(default=())

    def __post_init__(self) -> None:
        numbers = ((self.epsilon, MAX_EPSILON), (self.delta, 1.0))
        if not all(type(value) in {int, float} and 0 <= value <= most for value, most in numbers):
            raise ValueError("a link has an epsilon and a delta")
        if not all(isinstance(text, str | None) for text in (self.measured, self.unit)):
            raise TypeError("a link has texts")
        Guarantee[self.guarantee]  # a KeyError if it is none
        if not isinstance(self.seeded, bool):
            raise TypeError("seeded is yes or no")
        if not isinstance(self.ledger, dict | None):
            raise TypeError("a ledger is described by its population, its entry and its budget")

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> "Commitment":
        """The inverse of `asdict`."""
        discoveries = tuple(DiscoveryClaim(**claim) for claim in values.get("discoveries", ()))
        return cls(**{**values, "discoveries": discoveries})

    @property
    def ledger_entry(self) -> tuple[str | None, int | None]:
        """The identity of the ledger that was charged, and the number of its entry."""
        return (
            (None, None)
            if self.ledger is None
            else (self.ledger.get("ledger"), self.ledger.get("entry"))
        )

    @property
    def ledger_id(self) -> str | None:
        """Which ledger was charged."""
        return self.ledger_entry[0]

    def chained_hash(self, before: str) -> str:
        """SHA-256 of this, and of the hash before it; "" is before the first."""
        return hashlib.sha256(
            json.dumps([before, asdict(self)], sort_keys=True).encode()
        ).hexdigest()


@dataclass(frozen=True)
class Link:
    """One earlier release of a chain: its name, what it says of its privacy, and the hash of it and all before."""

    name: str  # of its folder, as it was given
    commitment: Commitment
    hash: str

    def __post_init__(self) -> None:
        if not all(isinstance(text, str) for text in (self.name, self.hash)):
            raise TypeError("a link has texts")
        if not self.name.isprintable():
            raise ValueError("the name of a release is printed")

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> "Link":
        """The inverse of `to_json`."""
        if not isinstance(values, Mapping):
            raise TypeError("a link has names and values")
        rest = {name: value for name, value in values.items() if name not in {"name", "hash"}}
        return cls(values["name"], Commitment.from_json(rest), values["hash"])

    def to_json(self) -> dict[str, Any]:
        """For a card."""
        discoveries = [asdict(claim) for claim in self.commitment.discoveries]
        return {
            "name": self.name,
            **asdict(self.commitment),
            "discoveries": discoveries,
            "hash": self.hash,
        }


@dataclass(frozen=True)
class Chain:
    """The releases before this one, the oldest first."""

    links: tuple[Link, ...]

    def __post_init__(self) -> None:
        if not 1 <= len(self.links) <= MAX_LINKS:
            raise ValueError("a chain has links")

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> "Chain":
        """The inverse of `to_json` and `sealed`; hashes are checked by `holds`."""
        return cls(tuple(Link.from_json(link) for link in values["links"]))

    def to_json(self) -> dict[str, Any]:
        """For a card in memory."""
        return {"links": [link.to_json() for link in self.links]}

    def to_card_json(self, own: Commitment) -> dict[str, Any]:
        """For card.json: with a hash that covers the links and what this release says of itself."""
        return {**self.to_json(), "hash": own.chained_hash(self.links[-1].hash)}

    def append(self, name: str, own: Commitment) -> "Chain":
        """The chain of a release that follows this one."""
        return Chain((*self.links, Link(name, own, own.chained_hash(self.links[-1].hash))))

    def is_valid(self, own: Commitment, stated: object) -> bool:
        """Whether every hash is that of its link and all before, and `stated` that of the release itself."""
        before = ""
        for link in self.links:
            if link.hash != link.commitment.chained_hash(before):
                return False
            before = link.hash
        return stated == own.chained_hash(before)

    def describe(self, own: Commitment) -> str:
        """Which releases it follows, and what is promised or known of all of them together."""
        last = self.links[-1].name
        number = len(self.links)
        named = last if number == 1 else f"{number} releases, the last of them {last}"
        return f"follows {named}. {describe_composition([*(link.commitment for link in self.links), own])}"


def start_chain(name: str, own: Commitment) -> Chain:
    """The chain of a release that follows one which follows none."""
    return Chain((Link(name, own, own.chained_hash("")),))


def describe_composition(releases: Sequence[Commitment]) -> str:
    """Say what is promised of releases that follow one another, discoveries included, or what they have spent.

    Args:
        releases: All of them, the last one included.

    Returns:
        The budget of the ledger that all of them were charged to, if there is one; otherwise what was spent so far,
        as information. Both name the unit.

    >>> week = Commitment(0.1, 1e-7, "PROVED", seeded=False, measured="")
    >>> print(describe_composition([week, week]))
    Not a promise: the 2 releases have spent ε = 0.1442 at δ = 1e-07 so far, for everything one user wrote in these
    data. Only a budget that a ledger fixes before the first release can be promised.

    """
    unit = releases[-1].unit or DEFAULT_UNIT
    discoveries = _all_discoveries(releases)
    what = _counted(len(releases), len(discoveries))
    labels = [release.guarantee for release in releases] + [
        claim.guarantee for claim in discoveries
    ]
    if any(label != Guarantee.PROVED.name for label in labels):
        return f"No bound holds for the {what} together: not all of them are PROVED."
    ledger = _common_ledger(releases, discoveries)
    if ledger is not None:
        return (
            f"Everything charged to the ledger of {ledger['population']!r}, these {what} included, stays within ε ="
            f" {ledger['epsilon']:g}, δ = {ledger['delta']:g} (PROVED) for {unit}, whenever the curator stops."
        )
    epsilon, delta = composed_spend(releases)
    if math.isinf(epsilon):
        so_far = f"what the {what} have spent together is not known"
    else:
        whose = unit if is_person(unit) else f"{unit}, if the same one is in all of them"
        so_far = f"the {what} have spent ε = {digits_up(epsilon)} at δ = {digits_up(delta)} so far, for {whose}"
    return f"Not a promise: {so_far}. Only a budget that a ledger fixes before the first release can be promised."


def composed_spend(releases: Sequence[Commitment]) -> tuple[float, float]:
    """What releases of Gaussian noise, and the discoveries behind them, have spent so far: (ε, δ), rounded up.

    The μ² of all noise is added up, and ε is that of the largest δ. Each discovery may also fail, with a probability
    below its own δ, so those δ are added. It would be a bound if the number of releases had been fixed beforehand.
    Releases without a δ have no Gaussian noise to add up, and neither have different units a sum: ε is infinite then.
    """
    discoveries = _all_discoveries(releases)
    stated = [release.unit for release in releases] + [claim.unit for claim in discoveries]
    units = [unit or DEFAULT_UNIT for unit in stated]
    if not all(is_same_unit(unit, units[0]) for unit in units):
        return math.inf, 0.0
    claims = [(release.epsilon, release.delta) for release in releases]
    claims += [(claim.epsilon, claim.delta) for claim in discoveries]
    if any(delta <= 0 for _, delta in claims):
        return math.inf, 0.0
    largest_delta = max(delta for _, delta in claims)
    epsilon = (
        composed_epsilon([_spend(*claim) for claim in claims], largest_delta) * EPSILON_ROUNDING
    )
    return epsilon, math.fsum([largest_delta, *(claim.delta for claim in discoveries)])


def _all_discoveries(releases: Sequence[Commitment]) -> tuple[DiscoveryClaim, ...]:
    """The discoveries of all releases, each once: later releases go on with what was discovered before."""
    return merge_claims(release.discoveries for release in releases)


def _common_ledger(
    releases: Sequence[Commitment], discoveries: Sequence[DiscoveryClaim]
) -> dict[str, Any] | None:
    """The ledger that all releases and discoveries were charged to, as the last card describes it."""
    own = releases[-1].ledger_id
    charged = [release.ledger_id for release in releases] + [claim.ledger for claim in discoveries]
    return (
        releases[-1].ledger
        if own is not None and all(ledger == own for ledger in charged)
        else None
    )


def _counted(releases: int, discoveries: int) -> str:
    named = f"{releases} releases"
    if not discoveries:
        return named
    return f"{named} and {discoveries} discover{'y' if discoveries == 1 else 'ies'}"


@cache
def _spend(epsilon: float, delta: float) -> Spend:
    """The most that one release of Gaussian noise with this budget can have spent."""
    return Spend(Allowance.of(epsilon, delta).mu_squared)
