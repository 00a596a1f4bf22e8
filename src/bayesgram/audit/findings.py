"""What an audit attacks, what the attacks prove, and the verdict.

- `AuditTarget`: a mechanism, a dataset and the budget that is claimed.
- Confidence bounds: one-sided bounds from hits and misses, or from samples of a bounded number.
  They are wrong with at most the given probability, whatever the distribution behind them. They do
  not correct for several tests: callers divide their error among them.
- `AuditFinding` and `Audit`: the results, in words for a person and in numbers for a machine. A
  violation is a statement with a confidence. Finding none is reported as that: it proves nothing.
"""

import math
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
from scipy.special import betaincinv, ndtr, ndtri

from bayesgram.arrays import Floats
from bayesgram.audit.evaluation import DISCLOSURE
from bayesgram.errors import UsageError
from bayesgram.mechanisms.base import CountsMechanism
from bayesgram.privacy.budget import Budget, Guarantee
from bayesgram.private.counts import UserCounts
from bayesgram.public.vocabulary import Vocabulary
from bayesgram.version import VERSION

# --- What is attacked ---


@dataclass(frozen=True, eq=False, repr=False)
class AuditTarget:
    """A mechanism on a dataset. Attackers know all of it but one user.

    The dataset is counts of the vocabulary's n-grams: columns of unlisted ones are left out.
    """

    mechanism: CountsMechanism
    counts: UserCounts
    vocabulary: Vocabulary
    budget: Budget | None

    def __post_init__(self) -> None:
        object.__setattr__(self, "counts", self.counts.listed_only)
        self.mechanism.check_budget(self.budget)
        if self.mechanism.audit_refusal is not None:
            raise UsageError.for_argument(
                "mechanism", self.mechanism.name, self.mechanism.audit_refusal
            )
        self.counts.check_vocabulary(len(self.vocabulary), self.vocabulary.fingerprint)

    @property
    def claim(self) -> Budget:
        """(ε, δ) as the card claims it."""
        return claimed_budget(self.mechanism, self.budget)


def claimed_budget(mechanism: CountsMechanism, budget: Budget | None) -> Budget:
    """Return (ε, δ) as the card of a release will claim it.

    Raises:
        UsageError: If the mechanism claims no ε, so that no attack can refute it.
    """
    epsilon, delta = mechanism.check_budget(budget)
    if epsilon is None or delta is None:
        raise UsageError.for_argument(
            "mechanism", mechanism.name, "claims no ε, so no attack can refute it; try exposure."
        )
    return Budget(epsilon, delta)


# --- Confidence bounds ---


def check_confidence(confidence: float) -> float:
    """Return `confidence` unchanged.

    Raises:
        UsageError: If it is not from 0.5 to below 1.
    """
    if not 0.5 <= confidence < 1:
        raise UsageError.for_argument(
            "confidence", confidence, "give a number from 0.5 to below 1; 0.99 is usual."
        )
    return confidence


def binomial_lower_bound(wins: float, tries: int, *, error: float) -> float:
    """Return a lower bound on the probability of a win (Clopper and Pearson 1934).

    Args:
        wins: How often it was won; a tie may be half a win.
        tries: How often it was tried.
        error: The probability with which the bound may be wrong.

    >>> round(binomial_lower_bound(50, 100, error=0.025), 4)
    0.3983
    >>> binomial_lower_bound(0, 100, error=0.025)
    0.0
    """
    return 0.0 if wins <= 0 else float(betaincinv(wins, tries - wins + 1, error))


def binomial_upper_bound(wins: float, tries: int, *, error: float) -> float:
    """Return an upper bound on the probability of a win (Clopper and Pearson 1934).

    Args:
        wins: How often it was won; a tie may be half a win.
        tries: How often it was tried.
        error: The probability with which the bound may be wrong.

    >>> round(binomial_upper_bound(50, 100, error=0.025), 4)
    0.6017
    >>> binomial_upper_bound(100, 100, error=0.025)
    1.0
    """
    return 1.0 if wins >= tries else float(betaincinv(wins + 1, tries - wins, 1 - error))


@dataclass(frozen=True)
class DetectionCounts:
    """How often an attack said "this user is in"."""

    hits: int  # when the user was in
    false_alarms: int  # when the user was not
    tries: int  # of each

    def delta_lower_bound(self, epsilon: float, *, error: float) -> float:
        """Return a lower bound on δ at this ε, from P(hit) ≤ e^ε P(false alarm) + δ."""
        hit_rate, false_alarm_rate = self._rate_bounds(error)
        return max(0.0, hit_rate - math.exp(epsilon) * false_alarm_rate)

    def epsilon_lower_bound(self, delta: float, *, error: float) -> float:
        """Return a lower bound on ε at this δ."""
        hit_rate, false_alarm_rate = self._rate_bounds(error)
        if hit_rate <= delta:
            return 0.0
        return max(0.0, math.log((hit_rate - delta) / false_alarm_rate))

    def _rate_bounds(self, error: float) -> tuple[float, float]:
        """Return a lower bound on the rate of hits, an upper bound on that of false alarms."""
        hit_rate = binomial_lower_bound(self.hits, self.tries, error=error / 2)
        false_alarm_rate = binomial_upper_bound(self.false_alarms, self.tries, error=error / 2)
        return hit_rate, false_alarm_rate


def mean_lower_bound(samples: Floats, largest: float, *, error: float) -> float:
    """Return a lower bound on the mean of non-negative numbers, each capped at `largest`.

    The empirical Bernstein bound (Maurer and Pontil 2009, Theorem 4): tight when most samples are
    small.

    Args:
        samples: Independent draws.
        largest: The cap. It must not be computed from these samples.
        error: The probability with which the bound may be wrong.
    """
    size = samples.size
    log_term = math.log(2 / error)
    capped = np.minimum(samples, largest)
    variance_slack = math.sqrt(2 * float(capped.var(ddof=1)) * log_term / size)
    range_slack = 7 * largest * log_term / (3 * (size - 1))
    return max(0.0, float(capped.mean()) - (variance_slack + range_slack))


def format_rounded_down(value: float) -> str:
    """Format a lower bound with four digits, rounded down, so that it stays a lower bound.

    >>> format_rounded_down(0.99996), format_rounded_down(2.1987e-05), format_rounded_down(0.0)
    ('0.9999', '2.198e-05', '0')
    """
    digits, _, power = f"{value:.12e}".partition("e")
    return f"{float(digits[:5] + 'e' + power):g}"


# --- Results ---


@dataclass(frozen=True)
class TradeOffCurve:
    """An attack's rate of missed users who are in the data, for each rate of false alarms."""

    false_alarms: list[float]
    misses: list[float]

    @classmethod
    def from_gaussian(cls, distance: float) -> "TradeOffCurve":
        """Return the curve of Gaussian noise: Φ(Φ⁻¹(1 − x) − distance).

        Args:
            distance: Between the means of the two datasets, in standard deviations.
        """
        false_alarms = np.linspace(0, 1, 201)
        misses = ndtr(ndtri(1 - false_alarms) - distance)
        return cls(false_alarms.tolist(), misses.tolist())


@dataclass(frozen=True)
class AuditFinding:
    """What one attack gained from one pair of neighbouring datasets."""

    attack: str
    neighbour: str  # how the second dataset differs from the first
    refutes_claim: bool
    sentence: str
    delta: float | None = None  # at least this δ, at the claimed ε
    epsilon: float | None = None  # at least this ε, at the claimed δ
    samples: int = 0
    curve: TradeOffCurve | None = field(default=None, repr=False)

    @property
    def strength(self) -> tuple[bool, float, float]:
        """Sorts findings: those that refute the claim are strongest, then by δ, then by ε."""
        return self.refutes_claim, self.delta or 0.0, self.epsilon or 0.0

    def to_json(self) -> dict[str, Any]:
        """Return the finding without its curve, as audit.json has it."""
        return {
            "attack": self.attack,
            "neighbour": self.neighbour,
            "caught": self.refutes_claim,
            "sentence": self.sentence,
            "delta": self.delta,
            "epsilon": self.epsilon,
            "samples": self.samples,
        }


def no_noise_finding(attack: str) -> AuditFinding:
    """Return the finding about a mechanism that never asks its source of privacy noise."""
    return AuditFinding(
        attack,
        "any user",
        refutes_claim=True,
        sentence="it asks the source of privacy noise for none",
    )


@dataclass(frozen=True)
class Audit:
    """All findings about one mechanism on one dataset.

    Together they are wrong with a probability of at most 1 − `confidence`.
    """

    mechanism: str
    guarantee: Guarantee
    settings: dict[str, Any]
    epsilon: float | None  # as claimed; None if the mechanism claims no ε
    delta: float | None
    confidence: float
    findings: tuple[AuditFinding, ...]

    @property
    def refutes_claim(self) -> bool:
        """Whether any attack refuted the claim."""
        return any(finding.refutes_claim for finding in self.findings)

    @property
    def strongest(self) -> AuditFinding | None:
        """The finding that says most: one that refutes the claim, with the largest δ, then ε."""
        return max(self.findings, key=lambda finding: finding.strength, default=None)

    @property
    def findings_to_draw(self) -> list[AuditFinding]:
        """The strongest finding with a curve about a removed user, and that about an added one."""
        with_curves = sorted(
            (finding for finding in self.findings if finding.curve),
            key=lambda finding: finding.strength,
            reverse=True,
        )
        # The first word of a neighbour is "with" or "without"; the strongest is written last.
        by_kind = {finding.neighbour.split()[0]: finding for finding in reversed(with_curves)}
        return sorted(by_kind.values(), key=lambda finding: finding.strength, reverse=True)

    @property
    def verdict(self) -> str:
        """One line: the claim, and the most that an attacker provably gets."""
        if self.epsilon is None or self.delta is None:
            return (
                f"{self.mechanism} claims no ε ({self.guarantee.name}): there is nothing to refute"
            )
        claim = f"claimed ε = {self.epsilon:g} at δ = {self.delta:g} ({self.guarantee.name})"
        strongest = self.strongest
        if strongest is None or not strongest.refutes_claim:
            confidence = f"{100 * self.confidence:.15g}% confidence"
            return f"{claim}; no attack tried here found a violation ({confidence}): not a proof"
        if (strongest.delta or 0) > self.delta:
            gain = f"an attacker provably gets δ = {format_rounded_down(strongest.delta or 0)}"
        elif (strongest.epsilon or 0) > self.epsilon:
            gain = f"an attacker provably gets ε = {format_rounded_down(strongest.epsilon or 0)}"
        else:
            gain = strongest.sentence
        return f"{claim}; {gain}: NOT private"

    def to_json(self) -> dict[str, Any]:
        """Return plain values; of all curves only those that are drawn."""
        document = asdict(self) | {
            "guarantee": self.guarantee.name,
            "findings": [finding.to_json() for finding in self.findings],
            "software": f"bayesgram {VERSION}",
        }
        curves = {
            f"{finding.attack}, {finding.neighbour}": asdict(finding)["curve"]
            for finding in self.findings_to_draw
        }
        return {
            "verdict": self.verdict,
            "caught": self.refutes_claim,
            **document,
            "trade_offs": curves,
            "warning": DISCLOSURE,
        }
