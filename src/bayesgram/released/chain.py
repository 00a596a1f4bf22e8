"""Releases that follow one another: which ones this one was made after, and what they promise a person together.

A release that follows another takes what that one published as its prior. On the card: a link for each earlier release,
the oldest first, and a hash for each that covers all before it, so that none can be changed or left out unnoticed.
Public alone: asks nothing of private data.
"""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cache
from typing import Any

from bayesgram.privacy.accounting import Allowance, Spend, composed_epsilon, digits_up
from bayesgram.privacy.budget import MAX_EPSILON, Guarantee

MOST_LINKS = 10_000
UNSURE = "no bound holds for them together"
EVERYTHING = "for everything one user ever wrote"  # what the budgets of all links add up for


@dataclass(frozen=True)
class Link:
    """One release of a chain."""

    name: str  # of its folder, as it was given
    epsilon: float
    delta: float
    guarantee: str
    seeded: bool
    measured: str  # SHA-256 of its measurements
    hash: str  # of this link, and of all before it

    def __post_init__(self) -> None:
        numbers = ((self.epsilon, MAX_EPSILON), (self.delta, 1.0))
        if not all(type(value) in {int, float} and 0 <= value <= most for value, most in numbers):
            raise ValueError("a link has an epsilon and a delta")
        if not all(isinstance(text, str) for text in (self.name, self.guarantee, self.measured, self.hash)):
            raise TypeError("a link has texts")
        if not self.name.isprintable():
            raise ValueError("the name of a release is printed")
        Guarantee[self.guarantee]  # a KeyError if it is none
        if not isinstance(self.seeded, bool):
            raise TypeError("seeded is yes or no")


def hashed(
    before: str, epsilon: float | None, delta: float | None, guarantee: str, *, seeded: bool, measured: str
) -> str:
    """SHA-256 of what a release promises and has measured, and of the hash before it; "" is before the first."""
    values = [before, epsilon, delta, guarantee, seeded, measured]
    return hashlib.sha256(json.dumps(values).encode()).hexdigest()


@dataclass(frozen=True)
class Chain:
    """The releases before this one, the oldest first, and this one's own hash."""

    links: tuple[Link, ...]
    hash: str

    def __post_init__(self) -> None:
        if not 1 <= len(self.links) <= MOST_LINKS:
            raise ValueError("a chain has links")

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> "Chain":
        """The inverse of `to_json`."""
        return cls(tuple(Link(**link) for link in values["links"]), str(values["hash"]))

    def to_json(self) -> dict[str, Any]:
        """For a card."""
        return {"links": [asdict(link) for link in self.links], "hash": self.hash}

    def fits(self, own: Mapping[str, Any]) -> bool:
        """Whether every hash is that of its link and all before; `own` is this release's, but for its hash."""
        before = ""
        for link in self.links:
            values = {name: getattr(link, name) for name in ("epsilon", "delta", "guarantee")}
            if link.hash != hashed(before, **values, seeded=link.seeded, measured=link.measured):
                return False
            before = link.hash
        return self.hash == hashed(before, **own)


def together(claims: Sequence[tuple[float, float, str]]) -> str:
    """What releases (ε, δ, label) promise one person together, if all are about the same people's whole text.

    >>> together([(0.1, 1e-7, "PROVED"), (0.1, 1e-7, "PROVED")])
    'ε = 0.1442, δ = 1e-07 (PROVED) for everything one user ever wrote'
    """
    if any(label != Guarantee.PROVED.name or delta <= 0 for _, delta, label in claims):  # Gaussian noise has a δ
        return UNSURE
    delta = max(delta for _, delta, _ in claims)
    epsilon = composed_epsilon([_spend(epsilon, own) for epsilon, own, _ in claims], delta) * (1 + 1e-6)
    return f"ε = {digits_up(epsilon)}, δ = {delta:g} (PROVED) {EVERYTHING}"


@cache
def _spend(epsilon: float, delta: float) -> Spend:
    """The most that one release of Gaussian noise with this budget can have spent."""
    return Spend(Allowance.of(epsilon, delta).mu_squared)
