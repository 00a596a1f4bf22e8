"""Many canaries in one run: Steinke, Nasr, Jagielski, "Privacy Auditing with One (1) Training Run" (2023).

In:  a target.   Out: a lower bound on ε at the claimed δ, from a single run.
Each canary is a made-up user with a rare n-gram of their own, in or out by a coin. The attacker sees the noisy answers,
subtracts what they would be without any canary, and says "in" of the highest, "out" of the lowest, nothing of the rest.
If the run is (ε, δ)-private, each guess is right with at most the chance of randomised response (their Theorem 5.2).
Cheap, and weak: it shows noise that is far too small, not noise that is a little too small.
"""

import numpy as np
from scipy.special import bdtr, bdtrc, expit

from bayesgram.arrays import Bools, Floats
from bayesgram.audit.findings import Finding, Target, rounded_down, without_noise
from bayesgram.audit.likelihood_ratio import record, replay
from bayesgram.choices import Attack
from bayesgram.privacy.noise import NoiseSource, SeededNoise
from bayesgram.private.counts import add_users

CANARIES = 1000
SHARES = (0.02, 0.1, 0.5)  # of the canaries are guessed: the surest ones, more, half
LARGEST = 100.0
COUNT = 1_000_000  # whatever bound there is, a canary reaches it


def p_value(canaries: int, guesses: int, right: int, epsilon: float, delta: float) -> float:
    """The chance of so many right guesses if the run is (ε, δ)-private: β + 2 m δ α (their Corollary 5.4).

    β = P(X ≥ v), α = max over i of P(v > X ≥ v − i)/i, X ~ Binomial(r, e^ε/(1 + e^ε)).

    >>> round(p_value(1000, 100, 75, 0.0, 0.0), 9)
    2.82e-07
    """
    q = float(expit(epsilon))
    beta = bdtrc(right - 1, guesses, q) if right else 1.0
    if not delta or not right:
        return float(beta)
    steps = np.arange(1, right + 1)
    below = bdtr(right - 1, guesses, q) - np.where(
        steps < right, bdtr(right - 1 - steps, guesses, q), 0.0
    )
    return float(min(1.0, beta + 2 * canaries * delta * (below / steps).max()))


def epsilon_at_least(
    canaries: int, guesses: int, right: int, delta: float, *, error: float
) -> float:
    """The largest ε that so many right guesses rule out."""
    low, high = 0.0, LARGEST
    if p_value(canaries, guesses, right, low, delta) > error:
        return 0.0
    while high - low > 1e-6:
        middle = (low + high) / 2
        ruled_out = p_value(canaries, guesses, right, middle, delta) <= error
        low, high = (middle, high) if ruled_out else (low, middle)
    return low


def attack(
    target: Target, rng: np.random.Generator, *, error: float, noise: NoiseSource | None = None
) -> list[Finding]:
    """One run with canaries on the n-grams that fewest users have."""
    size = min(CANARIES, len(target.vocabulary))
    rarest = np.argsort(target.counts.users_per_ngram, kind="stable")[:size].astype(np.int32)
    inside = rng.random(size) < 0.5
    rows = [(rarest[at : at + 1], np.array([COUNT], np.int32)) for at in np.flatnonzero(inside)]
    key = int(rng.integers(2**63))
    told = record(
        target, add_users(target.counts, rows), noise or SeededNoise(int(rng.integers(2**63))), key
    )
    if not told:
        return [without_noise(Attack.ONE_RUN)]
    without = replay(target, target.counts, told, key)
    lifts = (told[-1].answer - without[-1].values)[
        rarest
    ]  # the last answer holds the n-grams, whatever comes before
    epsilon = guessing(lifts.astype(np.float64), inside, target.claim.delta, error=error)
    sentence = f"{size:,} canaries in one run: at least ε = {rounded_down(epsilon)} at δ = {target.claim.delta:g}"
    caught = epsilon > target.claim.epsilon
    return [
        Finding(
            Attack.ONE_RUN,
            "with made-up users, each by a coin",
            caught,
            sentence,
            None,
            epsilon,
            size,
        )
    ]


def guessing(lifts: Floats, inside: Bools, delta: float, *, error: float) -> float:
    """The best bound over a few numbers of guesses, which share the error."""
    order = np.argsort(lifts)
    bounds = []
    for share in SHARES:
        each = max(1, round(share * order.size / 2))
        right = int(inside[order[-each:]].sum() + (~inside[order[:each]]).sum())
        bounds.append(
            epsilon_at_least(order.size, 2 * each, right, delta, error=error / len(SHARES))
        )
    return max(bounds)
