"""How much a release gives away of a secret that one user tells again and again (Carlini and others 2019).

In:  a target.   Out: for each number of repetitions the exposure in bits, with an interval.
A secret is an n-gram of the public vocabulary that nobody uses, drawn at random among such n-grams of similar public
frequency. In the release its lift θ/π has a rank among all of these; exposure = log₂(how many) − log₂(rank). Where the
secret does not show, the rank is uniform and exposure is 1.44 bits on average; where ε, δ are true, at most
(1 + ε)/ln 2 + δ log₂(how many). Several secrets of different users are planted at once. Reported, not judged.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import stdtrit

from bayesgram.arrays import Floats, Ids
from bayesgram.audit.findings import Finding, Target
from bayesgram.choices import Attack
from bayesgram.errors import BayesgramError
from bayesgram.private.counts import add_users
from bayesgram.public.vocabulary import public_distribution

TIMES = (1, 10, 100, 1000)
SECRETS = 20
COMPARABLE = 1000  # n-grams that a secret is ranked among
CHANCE = 1 / math.log(2)  # bits, of a uniform rank


@dataclass(frozen=True)
class Exposure:
    """Bits that a secret told so many times gives away, on average over secrets."""

    times: int
    bits: float
    low: float
    high: float
    most: float  # log₂ of how many n-grams it is ranked among


def exposures(
    target: Target,
    rng: np.random.Generator,
    *,
    times: Sequence[int] = TIMES,
    error: float = 0.05,
    seeded: bool = False,
) -> list[Exposure]:
    """One release for each number of repetitions."""
    alike = comparable(target)
    found = []
    for number in times:
        chosen = rng.choice(alike, min(SECRETS, alike.size // 2), replace=False)
        rows = [(np.array([ngram], np.int32), np.array([number], np.int32)) for ngram in chosen]
        seed = int(rng.integers(2**62)) if seeded else None
        release = target.mechanism.release(
            add_users(target.counts, rows), target.vocabulary, target.budget, seed=seed
        )
        lifts = release.probabilities / public_distribution(target.vocabulary.counts)
        bits = math.log2(alike.size) - np.log2(_ranks(lifts[chosen], lifts[alike], rng))
        found.append(Exposure(number, *_interval(bits, error), math.log2(alike.size)))
    return found


def comparable(target: Target) -> Ids:
    """N-grams that nobody uses, of neighbouring public frequency: the least frequent ones."""
    unseen = np.flatnonzero(target.counts.users_per_ngram == 0)
    if unseen.size < 4:
        raise BayesgramError(
            "every n-gram of the vocabulary is in use, so no secret can be planted; use a larger vocabulary."
        )
    order = np.argsort(target.vocabulary.counts[unseen], kind="stable")
    return unseen[order[:COMPARABLE]].astype(np.int32)


def _ranks(secrets: Floats, all_lifts: Floats, rng: np.random.Generator) -> Floats:
    """1 for the highest lift; ties are broken by chance."""
    above = (all_lifts[None, :] > secrets[:, None]).sum(axis=1)
    equal = (all_lifts[None, :] == secrets[:, None]).sum(axis=1)
    ranks: Floats = 1.0 + above + np.floor(rng.random(secrets.size) * equal)
    return ranks


def _interval(bits: Floats, error: float) -> tuple[float, float, float]:
    """Mean, and Student's interval around it."""
    mean, size = float(bits.mean()), bits.size
    half = float(stdtrit(size - 1, 1 - error / 2) * bits.std(ddof=1) / math.sqrt(size))
    return mean, mean - half, mean + half


def attack(
    target: Target, rng: np.random.Generator, *, error: float, seeded: bool = False
) -> list[Finding]:
    """A line for each number of repetitions."""
    epsilon, _ = target.mechanism.check_budget(target.budget)
    promise = (
        "" if epsilon is None else f", at most {(1 + epsilon) * CHANCE:.2f} if the claim is true"
    )
    return [
        Finding(
            Attack.EXPOSURE,
            f"with users who tell a secret {found.times:,}×",
            caught=False,
            sentence=f"{found.bits:.2f} bits ({found.low:.2f} to {found.high:.2f}) of {found.most:.1f};"
            f" chance alone {CHANCE:.2f}{promise}",
            samples=SECRETS,
        )
        for found in exposures(target, rng, error=error / len(TIMES), seeded=seeded)
    ]
