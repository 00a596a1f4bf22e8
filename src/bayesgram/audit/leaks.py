"""Traces that an implementation leaves although the mathematics is right.

Repeated runs must have unrelated noise; the low bits of noisy integers must not show the input; how long a run takes
must not show one user. The first two are judged; the time is reported, since a clock is never quiet.
"""

import math
from collections.abc import Callable
from time import perf_counter

import numpy as np
from scipy.special import chdtrc, ndtri, stdtrit

from bayesgram.arrays import Floats, Integers
from bayesgram.audit.findings import Finding, Target, without_noise
from bayesgram.audit.likelihood_ratio import Query, Transcript, record
from bayesgram.audit.membership import most_counts
from bayesgram.choices import Attack
from bayesgram.mechanisms.base import Randomness
from bayesgram.privacy.noise import ExactNoise, NoiseSource
from bayesgram.private.counts import remove_user

GRID_STEP = 1 << 20
SECONDS, LEAST, MOST = 8.0, 3, 30  # of timing: about so long, so many runs of each dataset


def attack(
    target: Target,
    rng: np.random.Generator,
    *,
    error: float,
    make_noise: Callable[[], NoiseSource] = ExactNoise,
) -> list[Finding]:
    """All three, with the noise of a real run."""
    key = int(rng.integers(2**63))
    runs = [record(target, target.counts, make_noise(), key) for _ in range(2)]
    if not runs[0]:
        return [without_noise(Attack.LEAKS)]
    return [
        repeats(runs[0], runs[1], error=error / 2),
        low_bits(runs[0][-1], make_noise(), error=error / 2),
        *timing(target, rng, make_noise, key),
    ]


def repeats(first: Transcript, second: Transcript, *, error: float) -> Finding:
    """Whether the noise of two runs on the same input is the same or correlated."""
    noisy = [
        (one.noise, other.noise, one) for one, other in zip(first, second, strict=True) if one.scale
    ]
    same = [bool((a == b).all()) and chance_of_repeat(question) < error for a, b, question in noisy]
    limit = float(-ndtri(error / (2 * max(len(noisy), 1))))
    deviations = [correlation(a, b) * math.sqrt(a.size) for a, b, _ in noisy if a.size > 30]
    far = max((abs(value) for value in deviations), default=0.0)
    caught = any(same) or far > limit
    said = (
        "the same noise twice"
        if any(same)
        else f"noise correlated by {far:.1f} standard deviations"
    )
    sentence = f"two runs gave {said}" if caught else "two runs gave unrelated noise"
    return Finding(
        Attack.LEAKS, "no change", caught, sentence, samples=sum(a.size for a, _, _ in noisy)
    )


def chance_of_repeat(question: Query) -> float:
    """A bound on how probable it is that two honest runs add the same noise."""
    return float(min(1.0, 0.5 / question.scale) ** question.values.size) if question.whole else 0.0


def correlation(first: Floats | Integers, second: Floats | Integers) -> float:
    """Of two noises, whose means are 0."""
    a, b = first.astype(np.float64), second.astype(np.float64)
    lengths = float(np.linalg.norm(a) * np.linalg.norm(b))
    return float(a @ b) / lengths if lengths else 0.0


def low_bits(question: Query, noise: NoiseSource, *, error: float) -> Finding:
    """Whether the low bits of noisy integers are uniform when all inputs are multiples of 2²⁰ (a χ² test)."""
    bits = min(
        8, int(math.log2(max(question.scale, 1)) - 6)
    )  # noise spread over 64 residues and more hides the rest
    if not question.whole or bits < 1:
        return Finding(
            Attack.LEAKS,
            "no change",
            caught=False,
            sentence="low bits not looked at: there are none to hide",
        )
    grid = np.arange(question.values.size, dtype=np.int64) * GRID_STEP
    draw = noise.discrete_gaussian if question.law == "gaussian" else noise.discrete_laplace
    residues = np.bincount(
        draw(grid, scale=question.scale) & ((1 << bits) - 1), minlength=1 << bits
    )
    expected = grid.size / residues.size
    p = float(chdtrc(residues.size - 1, float(((residues - expected) ** 2 / expected).sum())))
    caught = p < error and expected >= 5  # below, χ² is not its law
    sentence = f"the low {bits} bits of noisy integers {'show' if caught else 'do not show'} the input's grid"
    return Finding(Attack.LEAKS, "inputs on a grid of 2²⁰", caught, sentence, samples=grid.size)


def timing(
    target: Target, rng: np.random.Generator, make_noise: Callable[[], NoiseSource], key: int
) -> list[Finding]:
    """How long a run takes with and without the user with the most counts, one right after the other."""
    if target.counts.starts.size == 1:
        return []
    datasets = target.counts, remove_user(target.counts, most_counts(target.counts))
    clocks: tuple[list[float], list[float]] = ([], [])
    begin = perf_counter()
    while len(clocks[0]) < LEAST or (perf_counter() - begin < SECONDS and len(clocks[0]) < MOST):
        for side in rng.permutation(2):
            randomness = Randomness(make_noise(), key)
            start = perf_counter()
            target.mechanism.measure(datasets[side], target.vocabulary, target.budget, randomness)
            clocks[side].append(perf_counter() - start)
    difference, low, high = relative_difference(np.array(clocks[0]), np.array(clocks[1]))
    sentence = (
        f"time differs by {difference:+.1%} ({low:+.1%} to {high:+.1%}): reported, not judged"
    )
    label = "without the user with the most counts"
    return [
        Finding(Attack.LEAKS, label, caught=False, sentence=sentence, samples=2 * len(clocks[0]))
    ]


def relative_difference(with_user: Floats, without: Floats) -> tuple[float, float, float]:
    """Of times side by side, with Student's 95% interval: wide when the machine has other things to do."""
    ratios = np.log(with_user / without)
    half = float(stdtrit(ratios.size - 1, 0.975) * ratios.std(ddof=1)) / math.sqrt(ratios.size)
    mean = float(ratios.mean())
    return math.expm1(mean), math.expm1(mean - half), math.expm1(mean + half)
