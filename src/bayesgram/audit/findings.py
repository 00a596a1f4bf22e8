"""What an audit attacks, and what is claimed for it.

What attack results prove, at a stated chance of error.

In:  wins and losses, or samples of a bounded number.   Out: one-sided bounds that are wrong with at most the given
probability, whatever the law behind them. Does not correct for many tests: callers divide their error among them.

What an audit found, in words for a person and in numbers for a machine.

A violation is a statement with a confidence. Finding none is said as that: it proves nothing.
"""

import math
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
from scipy.special import betaincinv, ndtr, ndtri

from bayesgram.arrays import Floats
from bayesgram.audit.evaluation import DISCLOSURE
from bayesgram.errors import UsageError
from bayesgram.mechanisms.base import Mechanism
from bayesgram.paper.algorithm_2 import TunedPaper
from bayesgram.privacy.budget import Budget, Guarantee
from bayesgram.private.counts import UserCounts
from bayesgram.public.vocabulary import Vocabulary
from bayesgram.version import VERSION


@dataclass(frozen=True, eq=False, repr=False)
class Target:
    """A mechanism on a dataset. Attackers know all of it but one user."""

    mechanism: Mechanism
    counts: UserCounts
    vocabulary: Vocabulary
    budget: Budget | None

    def __post_init__(self) -> None:
        self.mechanism.check_budget(self.budget)
        if isinstance(self.mechanism, TunedPaper):
            raise UsageError.for_argument(
                "mechanism",
                "paper-tuned",
                "its noisy scores are never shown, so an attack can't read them; audit paper "
                "with the S and ρ that were chosen.",
            )
        self.counts.check_vocabulary(len(self.vocabulary), self.vocabulary.fingerprint)

    @property
    def claim(self) -> Budget:
        """(ε, δ) as the card claims it."""
        return claim_of(self.mechanism, self.budget)


def claim_of(mechanism: Mechanism, budget: Budget | None) -> Budget:
    """(ε, δ) as the card will claim it."""
    epsilon, delta = mechanism.check_budget(budget)
    if epsilon is None or delta is None:
        raise UsageError.for_argument(
            "mechanism", mechanism.name, "claims no ε, so no attack can refute it; try exposure."
        )
    return Budget(epsilon, delta)


def check_confidence(confidence: float) -> float:
    """The confidence, if it is one."""
    if not 0.5 <= confidence < 1:
        raise UsageError.for_argument(
            "confidence", confidence, "give a number from 0.5 to below 1; 0.99 is usual."
        )
    return confidence


def at_least(wins: float, tries: int, *, error: float) -> float:
    """A lower bound on the chance of a win (Clopper and Pearson 1934).

    >>> round(at_least(50, 100, error=0.025), 4), at_least(0, 100, error=0.025)
    (0.3983, 0.0)
    """
    return 0.0 if wins <= 0 else float(betaincinv(wins, tries - wins + 1, error))


def at_most(wins: float, tries: int, *, error: float) -> float:
    """An upper bound on the chance of a win.

    >>> round(at_most(50, 100, error=0.025), 4), at_most(100, 100, error=0.025)
    (0.6017, 1.0)
    """
    return 1.0 if wins >= tries else float(betaincinv(wins + 1, tries - wins, 1 - error))


@dataclass(frozen=True)
class Rates:
    """How often an attack said "this user is in": when it was so (hits) and when it was not (alarms)."""

    hits: int
    alarms: int
    tries: int  # of each

    def delta_at_least(self, epsilon: float, *, error: float) -> float:
        """A lower bound on δ at this ε: P(hit) ≤ e^ε P(alarm) + δ."""
        hit, alarm = self._bounds(error)
        return max(0.0, hit - math.exp(epsilon) * alarm)

    def epsilon_at_least(self, delta: float, *, error: float) -> float:
        """A lower bound on ε at this δ."""
        hit, alarm = self._bounds(error)
        return max(0.0, math.log((hit - delta) / alarm)) if hit > delta else 0.0

    def _bounds(self, error: float) -> tuple[float, float]:
        return at_least(self.hits, self.tries, error=error / 2), at_most(
            self.alarms, self.tries, error=error / 2
        )


def mean_at_least(samples: Floats, largest: float, *, error: float) -> float:
    """A lower bound on the mean of numbers from 0, those above `largest` being counted as `largest`.

    The empirical Bernstein bound (Maurer and Pontil 2009, Theorem 4): close when most samples are small. `largest` must
    not come from these samples.
    """
    size, log = samples.size, math.log(2 / error)
    held = np.minimum(samples, largest)
    slack = math.sqrt(2 * float(held.var(ddof=1)) * log / size) + 7 * largest * log / (
        3 * (size - 1)
    )
    return max(0.0, float(held.mean()) - slack)


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
    return Finding(
        attack, "any user", caught=True, sentence="it asks the source of privacy noise for none"
    )


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
        curves = sorted(
            (found for found in self.findings if found.curve), key=_strength, reverse=True
        )
        kinds = {found.neighbour.split()[0]: found for found in reversed(curves)}
        return sorted(kinds.values(), key=_strength, reverse=True)

    @property
    def line(self) -> str:
        """The verdict."""
        if self.epsilon is None or self.delta is None:
            return (
                f"{self.mechanism} claims no ε ({self.guarantee.name}): there is nothing to refute"
            )
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
        document = asdict(self) | {
            "guarantee": self.guarantee.name,
            "software": f"bayesgram {VERSION}",
        }
        for finding in document["findings"]:
            del finding["curve"]
        curves = {
            f"{found.attack}, {found.neighbour}": asdict(found)["curve"] for found in self.drawn
        }
        return {
            "verdict": self.line,
            "caught": self.caught,
            **document,
            "trade_offs": curves,
            "warning": DISCLOSURE,
        }


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
