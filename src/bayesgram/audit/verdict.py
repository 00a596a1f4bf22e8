"""What an audit found, in words for a person and in numbers for a machine.

A violation is a statement with a confidence. Finding none is said as that: it proves nothing.
"""

from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
from scipy.special import ndtr, ndtri

from bayesgram.audit.utility import DISCLOSURE
from bayesgram.privacy.budget import Guarantee
from bayesgram.version import VERSION


@dataclass(frozen=True)
class Curve:
    """An attack's trade-off: how often it misses a user who is there, for each rate of false alarms."""

    false_alarms: list[float]
    misses: list[float]

    @classmethod
    def gaussian(cls, distance: float) -> "Curve":
        """Of Gaussian noise with means so many standard deviations apart: Φ(Φ⁻¹(1 − x) − distance)."""
        alarms = np.linspace(0, 1, 201)
        return cls(alarms.tolist(), ndtr(ndtri(1 - alarms) - distance).tolist())


@dataclass(frozen=True)
class Finding:
    """What one attack got out of one pair of neighbouring datasets."""

    attack: str
    neighbour: str
    caught: bool  # the claim is refuted
    sentence: str
    delta: float | None = None  # at least this δ, at the claimed ε
    epsilon: float | None = None  # at least this ε, at the claimed δ
    samples: int = 0
    curve: Curve | None = field(default=None, repr=False)


def without_noise(attack: str) -> Finding:
    """Of a mechanism that never asks the one source of privacy noise."""
    return Finding(attack, "any user", caught=True, sentence="it asks the source of privacy noise for none")


@dataclass(frozen=True)
class Audit:
    """All findings about one mechanism on one dataset; together they are wrong with at most 1 − confidence."""

    mechanism: str
    guarantee: Guarantee
    settings: dict[str, Any]
    epsilon: float | None  # as claimed; None: nothing is
    delta: float | None
    confidence: float
    findings: tuple[Finding, ...]

    @property
    def caught(self) -> bool:
        """Whether any attack refuted the claim."""
        return any(finding.caught for finding in self.findings)

    @property
    def strongest(self) -> Finding | None:
        """The finding that says most: one that refutes the claim, with the largest δ, then ε."""
        return max(self.findings, key=_strength, default=None)

    @property
    def drawn(self) -> list[Finding]:
        """The findings worth a curve: the strongest about a user who is there, and about one who could be."""
        curves = sorted((found for found in self.findings if found.curve), key=_strength, reverse=True)
        kinds = {found.neighbour.split()[0]: found for found in reversed(curves)}
        return sorted(kinds.values(), key=_strength, reverse=True)

    @property
    def line(self) -> str:
        """The verdict."""
        if self.epsilon is None or self.delta is None:
            return f"{self.mechanism} claims no ε ({self.guarantee.name}): there is nothing to refute"
        claim = f"claimed ε = {self.epsilon:g} at δ = {self.delta:g} ({self.guarantee.name})"
        found = self.strongest
        if found is None or not found.caught:
            sure = f"{100 * self.confidence:.15g}% confidence"
            return f"{claim}; no attack tried here found a violation ({sure}): not a proof"
        if (found.delta or 0) > self.delta:
            return f"{claim}; an attacker provably gets δ = {rounded_down(found.delta or 0)}: NOT private"
        if (found.epsilon or 0) > self.epsilon:
            return f"{claim}; an attacker provably gets ε = {rounded_down(found.epsilon or 0)}: NOT private"
        return f"{claim}; {found.sentence}: NOT private"

    def to_json(self) -> dict[str, Any]:
        """For machines; of all curves only those that are drawn."""
        document = asdict(self) | {"guarantee": self.guarantee.name, "software": f"bayesgram {VERSION}"}
        for finding in document["findings"]:
            del finding["curve"]
        curves = {f"{found.attack}, {found.neighbour}": asdict(found)["curve"] for found in self.drawn}
        return {"verdict": self.line, "caught": self.caught, **document, "trade_offs": curves, "warning": DISCLOSURE}


def _strength(found: Finding) -> tuple[bool, float, float]:
    return found.caught, found.delta or 0.0, found.epsilon or 0.0


def rounded_down(value: float) -> str:
    """A lower bound stays one when it is printed.

    >>> rounded_down(0.99996), rounded_down(2.1987e-05), rounded_down(0.0)
    ('0.9999', '2.198e-05', '0')
    """
    digits = f"{value:.12e}"
    number, _, power = digits.partition("e")
    return f"{float(number[:5] + 'e' + power):g}"
