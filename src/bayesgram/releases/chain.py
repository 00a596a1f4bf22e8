"""Chains: releases that follow one another, and what is known of all of them together.

A release that follows another takes what that one published as its prior. Its card has a link for
each earlier release, the oldest first, and a hash for each link that covers all before it, so that
none can be changed or left out unnoticed.

What can be *promised* of a chain is the budget of the ledger that all of it was charged to: it was
fixed before the first release, so it holds also for a curator who looks at each release and then
decides whether to make another one. What was *spent* so far is another thing: it depends on when
the curator stops, and stopping may depend on the noise. It is shown as information, without the
word PROVED (docs/ledger.md). Everything here is public.
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
from bayesgram.releases.provenance import DiscoveryClaim, Ingredient, merge_claims

MAX_LINKS = 10_000
EPSILON_ROUNDING = 1 + 1e-6  # the factor by which an ε is rounded up: more than rounding loses


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
        """Read a commitment from the values of `asdict`."""
        discoveries = tuple(DiscoveryClaim(**claim) for claim in values.get("discoveries", ()))
        return cls(**{**values, "discoveries": discoveries})

    @property
    def ledger_entry(self) -> tuple[str | None, int | None]:
        """The identity of the ledger that was charged, and the number of its entry."""
        if self.ledger is None:
            return None, None
        return self.ledger.get("ledger"), self.ledger.get("entry")

    @property
    def series_release(self) -> int | None:
        """The number of the release in its series; None if it is in none."""
        series = (self.ledger or {}).get("series")
        return series.get("release") if isinstance(series, Mapping) else None

    @property
    def ledger_id(self) -> str | None:
        """The identity of the ledger that was charged; None if none was."""
        return self.ledger_entry[0]

    def chained_hash(self, previous_hash: str) -> str:
        """Return the SHA-256 of this and of the hash before it, which is "" for the first."""
        content = json.dumps([previous_hash, asdict(self)], sort_keys=True)
        return hashlib.sha256(content.encode()).hexdigest()


@dataclass(frozen=True)
class Link:
    """One earlier release of a chain.

    Attributes:
        name: The name of its folder, as it was given.
        commitment: What it says of its privacy.
        hash: The hash of its commitment and all before it.
    """

    name: str
    commitment: Commitment
    hash: str

    def __post_init__(self) -> None:
        if not all(isinstance(text, str) for text in (self.name, self.hash)):
            raise TypeError("a link has texts")
        if not self.name.isprintable():
            raise ValueError("the name of a release is printed")

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> "Link":
        """Read a link from the values of `to_json`."""
        if not isinstance(values, Mapping):
            raise TypeError("a link has names and values")
        commitment = {name: values[name] for name in values if name not in {"name", "hash"}}
        return cls(values["name"], Commitment.from_json(commitment), values["hash"])

    @property
    def ingredient(self) -> Ingredient:
        """The release as an ingredient of one that follows it."""
        release = self.commitment
        return Ingredient(
            self.name,
            release.guarantee,
            release.epsilon,
            release.delta,
            release.unit,
            *release.ledger_entry,
            release.series_release,
        )

    def to_json(self) -> dict[str, Any]:
        """Return plain values for a card."""
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
        """Read a chain from the values of `to_json` or `to_card_json`; `is_valid` checks hashes."""
        return cls(tuple(Link.from_json(link) for link in values["links"]))

    def to_json(self) -> dict[str, Any]:
        """Return plain values for a card in memory."""
        return {"links": [link.to_json() for link in self.links]}

    def to_card_json(self, commitment: Commitment) -> dict[str, Any]:
        """Return plain values for card.json, with a hash that also covers the release itself.

        Args:
            commitment: What the release that follows the chain says of its privacy.
        """
        return {**self.to_json(), "hash": commitment.chained_hash(self.links[-1].hash)}

    def append(self, name: str, commitment: Commitment) -> "Chain":
        """Return the chain of a release that follows one which follows this chain."""
        link = Link(name, commitment, commitment.chained_hash(self.links[-1].hash))
        return Chain((*self.links, link))

    def is_valid(self, commitment: Commitment, stated_hash: object) -> bool:
        """Return whether all hashes are right: of every link, and `stated_hash` of the release."""
        previous_hash = ""
        for link in self.links:
            if link.hash != link.commitment.chained_hash(previous_hash):
                return False
            previous_hash = link.hash
        return stated_hash == commitment.chained_hash(previous_hash)

    def describe(self, commitment: Commitment) -> str:
        """Say which releases it follows, and what is promised or known of all of them together."""
        last = self.links[-1].name
        number = len(self.links)
        names = last if number == 1 else f"{number} releases, the last of them {last}"
        commitments = [*(link.commitment for link in self.links), commitment]
        return f"follows {names}. {describe_composition(commitments)}"


def start_chain(name: str, commitment: Commitment) -> Chain:
    """Return the chain of a release that follows one which follows none."""
    return Chain((Link(name, commitment, commitment.chained_hash("")),))


def describe_composition(releases: Sequence[Commitment]) -> str:
    """Say what is promised of releases that follow one another, or what they have spent.

    Args:
        releases: All of them, including the last one. Their discoveries count, too.

    Returns:
        The budget of the ledger that all of them were charged to, if there is one; otherwise what
        was spent so far, as information. Both name the unit.

    >>> week = Commitment(0.1, 1e-7, "PROVED", seeded=False, measured="")
    >>> print(describe_composition([week, week]))
    Not a promise: the 2 releases have spent ε = 0.1442 at δ = 1e-07 so far, for everything one user
    wrote in these data. Only a budget that a ledger fixes before the first release can be promised.
    """
    unit = releases[-1].unit or DEFAULT_UNIT
    discoveries = _all_discoveries(releases)
    names = _count_phrase(len(releases), len(discoveries))
    labels = [release.guarantee for release in releases]
    labels += [claim.guarantee for claim in discoveries]
    if any(label != Guarantee.PROVED.name for label in labels):
        return f"No bound holds for the {names} together: not all of them are PROVED."
    ledger = _common_ledger(releases, discoveries)
    series = _common_series(releases, discoveries)
    if series is not None:
        return (
            f"The {names} belong to one series, and everything in it together"
            f" stays within ε = {releases[-1].epsilon:g}, δ = {releases[-1].delta:g} (PROVED) for"
            f" {unit}, whenever the curator stops."
        )
    if ledger is not None:
        return (
            f"Everything charged to the ledger of {ledger['population']!r}, these {names} included,"
            f" stays within ε = {ledger['epsilon']:g}, δ = {ledger['delta']:g} (PROVED) for {unit},"
            " whenever the curator stops."
        )
    epsilon, delta = composed_spend(releases)
    if math.isinf(epsilon):
        spent = f"what the {names} have spent together is not known"
    else:
        whose = unit if is_person(unit) else f"{unit}, if the same one is in all of them"
        spent = (
            f"the {names} have spent ε = {digits_up(epsilon)} at δ = {digits_up(delta)} so far,"
            f" for {whose}"
        )
    return (
        f"Not a promise: {spent}. Only a budget that a ledger fixes before the first release can be"
        " promised."
    )


def composed_spend(releases: Sequence[Commitment]) -> tuple[float, float]:
    """Return what releases of Gaussian noise have spent so far: (ε, δ), rounded up.

    The μ² of all noise, that of the discoveries behind them included, is added up, and ε is that of
    the largest δ. Each discovery may also fail, with a probability below its own δ, so those δ are
    added. It would be a bound if the number of releases had been fixed beforehand. Releases without
    a δ have no Gaussian noise to add up, and different units have no sum: then ε is infinite.
    """
    discoveries = _all_discoveries(releases)
    stated_units = [release.unit for release in releases] + [claim.unit for claim in discoveries]
    units = [unit or DEFAULT_UNIT for unit in stated_units]
    if not all(is_same_unit(unit, units[0]) for unit in units):
        return math.inf, 0.0
    # Releases and discoveries of a series are paid for together: their entry counts once.
    charges: dict[object, tuple[float, float]] = {}
    for number, release in enumerate(releases):
        is_in_series = release.series_release is not None
        key = release.ledger_entry if is_in_series else ("release", number)
        charges[key] = (release.epsilon, release.delta)
    for number, claim in enumerate(discoveries):
        is_in_series = claim.series_discovery is not None
        key = (claim.ledger, claim.entry) if is_in_series else ("discovery", number)
        charges[key] = (claim.epsilon, claim.delta)
    budgets = list(charges.values())
    if any(delta <= 0 for _, delta in budgets):
        return math.inf, 0.0
    largest_delta = max(delta for _, delta in budgets)
    spends = [_max_spend(*budget) for budget in budgets]
    epsilon = composed_epsilon(spends, largest_delta) * EPSILON_ROUNDING
    return epsilon, math.fsum([largest_delta, *(claim.delta for claim in discoveries)])


def _all_discoveries(releases: Sequence[Commitment]) -> tuple[DiscoveryClaim, ...]:
    """Return the discoveries of all releases, each once.

    Later releases go on with what was discovered before.
    """
    return merge_claims(release.discoveries for release in releases)


def _common_ledger(
    releases: Sequence[Commitment], discoveries: Sequence[DiscoveryClaim]
) -> dict[str, Any] | None:
    """Return the ledger that all were charged to, as the last card describes it; None if none."""
    ledger_id = releases[-1].ledger_id
    charged = [release.ledger_id for release in releases]
    charged += [claim.ledger for claim in discoveries]
    if ledger_id is None or any(charged_id != ledger_id for charged_id in charged):
        return None
    return releases[-1].ledger


def _common_series(
    releases: Sequence[Commitment], discoveries: Sequence[DiscoveryClaim]
) -> Mapping[str, Any] | None:
    """Return the series of everything, as the last card describes it; None if they have none."""
    entry = (releases[-1].ledger or {}).get("entry")
    ledger = releases[-1].ledger_id
    if any(
        claim.series_discovery is None or (claim.ledger, claim.entry) != (ledger, entry)
        for claim in discoveries
    ):
        return None
    series = [(release.ledger or {}).get("series") for release in releases]
    last = series[-1]
    if not isinstance(last, Mapping) or any(
        not isinstance(other, Mapping) or other.get("identity") != last.get("identity")
        for other in series
    ):
        return None
    return last


def _count_phrase(releases: int, discoveries: int) -> str:
    phrase = f"{releases} releases"
    if not discoveries:
        return phrase
    return f"{phrase} and {discoveries} discover{'y' if discoveries == 1 else 'ies'}"


@cache
def _max_spend(epsilon: float, delta: float) -> Spend:
    """Return the most that one release of Gaussian noise with this budget can have spent."""
    return Spend(Allowance.of(epsilon, delta).mu_squared)
