"""What a mechanism asks of its noise, with and without one user: the exact law of all that the noise touched.

In:  a target and a neighbouring dataset.   Out: pairs of questions (law, values, scale), one of each dataset.
The neighbour is given the answers that the dataset got, so a mechanism that asks in the light of earlier answers
(`posterior` chooses its clip norm so) asks both sides the same thing. Such a pair holds the later questions fixed:
for each clip norm it is a mechanism of its own with the same claim, and an attack on it is an attack on the claim.
Does not look at what happens after the noise: that is post-processing and tells no more.

Datasets that differ in one user: without one who is there, or with one who could be.

Chooses the users that matter most. They are called by what makes them special, never by their ids.

The best attacker there is: knows both datasets and the law of the noise, and takes the likelihood ratio.

In:  transcripts of two neighbouring datasets.   Out: δ at the claimed ε and ε at the claimed δ, as lower bounds.
With L = log p/p′ of what was noised, drawn under p:   δ(ε) = E[(1 − e^(ε − L))₊].
Where all noise is Gaussian and equally strong for both datasets this has a formula, and the answer is exact. Elsewhere
L is drawn from its own law, not from outputs: Gaussian noise on k coordinates has a part along the difference of the
means and a χ² of the rest; of Laplace noise only the moved coordinates matter, and a sum over the others.
`scale` is a weaker attacker who looks only across the difference: it sees how much noise there is, and nothing else.

Discrete Gaussian noise is taken as continuous; privacy/calibration.py bounds the difference (1e-17 and less). Of more
than 64 coordinates moved under Laplace noise those moved least are not looked at: bounds stay bounds.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from bayesgram.arrays import Floats, Ids, Integers
from bayesgram.audit.findings import (
    Curve,
    Finding,
    Target,
    mean_at_least,
    rounded_down,
    without_noise,
)
from bayesgram.choices import Attack
from bayesgram.errors import BayesgramError
from bayesgram.mechanisms.base import Randomness
from bayesgram.paper.algorithm_1 import Paper
from bayesgram.privacy.accounting import gaussian_delta
from bayesgram.privacy.budget import Budget
from bayesgram.privacy.noise import NoiseSource, SeededNoise
from bayesgram.private.counts import UserCounts, add_users, remove_user

Values = NDArray[np.int64] | Floats
Array = TypeVar("Array", Integers, Floats)


@dataclass(frozen=True, eq=False, repr=False)
class Query:
    """Values that get noise of a law and scale, and the noisy values that came back."""

    law: str  # "gaussian" or "laplace"
    whole: bool  # on integers
    values: Values
    scale: float
    answer: Values

    @property
    def noise(self) -> Values:
        """What was added."""
        return self.answer - self.values


Transcript = Sequence[Query]


class RecordingNoise(NoiseSource):
    """Answers as the inner source does, or as it is told, and notes everything."""

    seeded = True

    def __init__(self, inner: NoiseSource | None, told: Transcript = ()) -> None:
        self._inner, self._told = inner, told
        self.recorded: list[Query] = []

    def discrete_laplace(self, values: Integers, *, scale: float) -> Integers:
        """Noise on integers."""
        return self._answer(
            "laplace", values, scale, lambda inner: inner.discrete_laplace(values, scale=scale)
        )

    def discrete_gaussian(self, values: Integers, *, scale: float) -> Integers:
        """Noise on integers."""
        return self._answer(
            "gaussian", values, scale, lambda inner: inner.discrete_gaussian(values, scale=scale)
        )

    def laplace(self, values: Floats, *, scale: float) -> Floats:
        """Noise on real numbers."""
        return self._answer(
            "laplace", values, scale, lambda inner: inner.laplace(values, scale=scale)
        )

    def gaussian(self, values: Floats, *, scale: float) -> Floats:
        """Noise on real numbers."""
        return self._answer(
            "gaussian", values, scale, lambda inner: inner.gaussian(values, scale=scale)
        )

    def _answer(
        self, law: str, values: Array, scale: float, draw: Callable[[NoiseSource], Array]
    ) -> Array:
        answer = draw(self._inner) if self._inner else self._replayed(law, values)
        whole = np.issubdtype(values.dtype, np.integer)
        self.recorded.append(Query(law, whole, values.copy(), float(scale), answer.copy()))
        return answer

    def _replayed(self, law: str, values: Array) -> Array:
        told = self._told[len(self.recorded)] if len(self.recorded) < len(self._told) else None
        if told is None or (told.law, told.values.shape) != (law, values.shape):
            raise differing_queries()
        return told.answer.astype(values.dtype)


def differing_queries() -> BayesgramError:
    """Where one user changes what kind of noise is asked for, there is no pair to compare."""
    return BayesgramError(
        "with and without one user, this mechanism asks for different kinds of noise; the likelihood ratio can't be"
        " taken. Use the attack black-box."
    )


def record(target: Target, counts: UserCounts, noise: NoiseSource, key: int) -> Transcript:
    """What the mechanism asks about a dataset."""
    noting = RecordingNoise(noise)
    target.mechanism.measure(counts, target.vocabulary, target.budget, Randomness(noting, key))
    return noting.recorded


def replay(target: Target, counts: UserCounts, told: Transcript, key: int) -> Transcript:
    """What it asks about another dataset that gets the same answers."""
    noting = RecordingNoise(None, told)
    target.mechanism.measure(counts, target.vocabulary, target.budget, Randomness(noting, key))
    if len(noting.recorded) != len(told):
        raise differing_queries()
    return noting.recorded


HUGE = 1_000_000


@dataclass(frozen=True, eq=False)
class Neighbour:
    """One user less (`user` is a row), or one more (`row` holds n-grams and counts)."""

    label: str
    user: int | None = None
    row: tuple[Ids, Ids] | None = None

    def dataset(self, counts: UserCounts) -> UserCounts:
        """The neighbouring dataset."""
        if self.row is not None:
            return add_users(counts, [self.row])
        return counts if self.user is None else remove_user(counts, self.user)

    def own(self, counts: UserCounts) -> tuple[Ids, Ids]:
        """The n-grams and counts of the user in question."""
        if self.row is not None or self.user is None:
            return self.row or (np.zeros(0, np.int32), np.zeros(0, np.int32))
        rows = slice(counts.starts[self.user], counts.starts[self.user + 1])
        return counts.ngrams[rows], counts.counts[rows]


def neighbours(
    target: Target, *, sample: int, key: int, rng: np.random.Generator
) -> list[Neighbour]:
    """The users worth removing, some at random, and outliers worth adding."""
    users = target.counts.starts.size - 1
    removed: dict[int, str] = {}
    if users:
        for label, weights in _importance(target, key):
            removed.setdefault(int(np.argmax(weights)), f"without the user with {label}")
        for user in rng.choice(users, min(sample, users), replace=False):
            removed.setdefault(int(user), "without a user at random")
    return [*(Neighbour(label, user) for user, label in removed.items()), *_outliers(target)]


def _importance(target: Target, key: int) -> Iterator[tuple[str, Floats]]:
    counts, mechanism = target.counts, target.mechanism
    numbers = counts.counts.astype(np.float64)
    if isinstance(mechanism, Paper):
        statistics = mechanism.statistics(counts, Randomness(SeededNoise(0), key))
        yield "the largest shift", statistics.user_shifts(mechanism.slope)
    else:
        yield "the largest norm", per_user(counts, numbers**2)
    yield "the most counts", per_user(counts, numbers)
    rarity = 1 / counts.users_per_ngram[counts.ngrams]
    yield "the rarest n-grams", per_user(counts, rarity) / np.maximum(np.diff(counts.starts), 1)


def per_user(counts: UserCounts, values: Floats) -> Floats:
    """Sums over the rows of each user."""
    sums = np.concatenate([[0.0], np.cumsum(values)])
    return np.diff(sums[counts.starts])


def _outliers(target: Target) -> list[Neighbour]:
    size = len(target.vocabulary)
    rarest = np.argmin(target.counts.users_per_ngram)
    often = np.argmax(target.vocabulary.counts)
    return [
        _added("every n-gram once", np.arange(size), 1),
        _added("an n-gram of their own", np.array([rarest]), 1),
        _added(f"one n-gram {HUGE:,} times", np.array([often]), HUGE),
    ]


def _added(what: str, ngrams: NDArray[np.integer], number: int) -> Neighbour:
    row = ngrams.astype(np.int32), np.full(ngrams.size, number, np.int32)
    return Neighbour(f"with a user who has {what}", row=row)


MOVED = 64
ROUNDING = 1e-9  # how far floating point may put L off: counted for the claim
LARGEST = 100.0  # no ε above is looked for
STEPS = (1.0, 0.98, 0.95, 0.9, 0.75, 0.5)  # of the ε that the first half of the samples suggests
POINTS = 201
FEW = 20_000  # samples where only the picture needs them


@dataclass(frozen=True, eq=False, repr=False)
class NeighbourPair:
    """One question as the attacker compares it: p has these values and this scale, p′ the others."""

    law: str
    whole: bool
    moved: Floats  # values of p less those of p′, in the directions that can be seen
    coordinates: int  # how many these are
    scale: float
    other_scale: float

    @classmethod
    def of(cls, one: Query, other: Query, *, shift_invariant: bool) -> "NeighbourPair":
        """Two answers to compare; where a constant is hidden, only differences between coordinates show."""
        moved = (one.values - other.values).astype(np.float64)
        seen = moved - moved.mean() if shift_invariant else moved
        return cls(one.law, one.whole, seen, moved.size - shift_invariant, one.scale, other.scale)

    @property
    def swapped(self) -> "NeighbourPair":
        """As seen from the other dataset."""
        return replace(self, moved=-self.moved, scale=self.other_scale, other_scale=self.scale)

    @property
    def across(self) -> "NeighbourPair":
        """What shows where nothing moved: how much noise there is."""
        still = self.coordinates - (
            1 if self.law == "gaussian" else int(np.count_nonzero(self.moved))
        )
        return replace(self, moved=np.zeros(0), coordinates=max(still, 0))

    def losses(self, size: int, rng: np.random.Generator) -> Floats:
        """Samples of log p/p′ under p; infinite where p′ could not have given it."""
        if not self.coordinates:
            return np.zeros(size)
        if not (
            self.scale and self.other_scale
        ):  # a single look decides, unless there is nothing to see
            return np.full(
                size, np.inf if self.scale != self.other_scale or self.moved.any() else 0.0
            )
        return self._gaussian(size, rng) if self.law == "gaussian" else self._laplace(size, rng)

    def _gaussian(self, size: int, rng: np.random.Generator) -> Floats:
        """Is k log(σ′/σ) + (r² − 1)(z² + χ²)/2 + r u z + u²/2: r = σ/σ′, u = ‖moved‖/σ′, χ² over k − 1."""
        r, k = self.scale / self.other_scale, self.coordinates
        growth = (r - 1) * (r + 1) / 2
        z, u = rng.standard_normal(size), float(np.linalg.norm(self.moved)) / self.other_scale
        along: Floats = growth * z * z + r * u * z + u * u / 2 - math.log(r)
        if growth and k > 1:
            along += growth * rng.chisquare(k - 1, size) - (k - 1) * math.log(r)
        return along

    def _laplace(self, size: int, rng: np.random.Generator) -> Floats:
        """Σ log(c/c′) − |n|/b + |n + moved|/b′ over coordinates, n ~ Lap(b): one by one where they moved."""
        moved = self.moved[self.moved != 0]
        still = self.coordinates - moved.size
        constant = _log_height(self.scale, self.whole) - _log_height(self.other_scale, self.whole)
        growth = 1 / self.other_scale - 1 / self.scale
        total = np.zeros(size)
        if growth and still > 0:
            total += still * constant + growth * _absolute_sum(
                still, self.scale, self.whole, size, rng
            )
        for step in moved[np.argsort(-np.abs(moved))[:MOVED]]:
            n = _laplace_noise(self.scale, self.whole, size, rng)
            total += constant - np.abs(n) / self.scale + np.abs(n + step) / self.other_scale
        return total


def _log_height(scale: float, whole: bool) -> float:
    """Log P(0) of (discrete) Laplace noise."""
    return math.log(math.tanh(1 / (2 * scale))) if whole else -math.log(2 * scale)


def _laplace_noise(scale: float, whole: bool, size: int, rng: np.random.Generator) -> Floats:
    if not whole:
        return rng.laplace(0, scale, size)
    p = -math.expm1(-1 / scale)
    return (rng.geometric(p, size) - rng.geometric(p, size)).astype(np.float64)


def _absolute_sum(
    terms: int, scale: float, whole: bool, size: int, rng: np.random.Generator
) -> Floats:
    """Σ |n|: a sum of exponentials; on integers, of geometric numbers for those that are not 0."""
    if not whole:
        return scale * rng.standard_gamma(terms, size)
    p = -math.expm1(-1 / scale)
    nonzero = rng.binomial(terms, 1 - math.tanh(1 / (2 * scale)), size)
    more = rng.negative_binomial(np.maximum(nonzero, 1), p, size)
    return np.where(nonzero, nonzero + more, 0).astype(np.float64)


Pair = Sequence[NeighbourPair]


def paired(target: Target, first: Transcript, second: Transcript) -> Pair:
    """Two transcripts, question by question."""
    hidden = target.mechanism.shift_invariant
    return [
        NeighbourPair.of(one, other, shift_invariant=hidden)
        for one, other in zip(first, second, strict=True)
    ]


def losses(pairs: Sequence[Pair], size: int, rng: np.random.Generator) -> Floats:
    """Samples of L under p, an equal share from each pair, in random order."""
    share = math.ceil(size / len(pairs))
    parts = [sum(contrast.losses(share, rng) for contrast in pair) for pair in pairs]
    return rng.permutation(np.concatenate(parts))


def gains(loss: Floats, epsilon: float) -> Floats:
    """(1 − e^(ε − L))₊, whose mean is δ(ε)."""
    return np.maximum(-np.expm1(epsilon + ROUNDING - loss), 0.0)


def delta_at_least(loss: Floats, epsilon: float, *, error: float) -> float:
    """A lower bound on δ(ε): how large a gain can get is read off the first half, the second is judged."""
    first, second = np.array_split(gains(loss, epsilon), 2)
    return mean_at_least(second, float(first.max()), error=error)


def epsilon_at_least(loss: Floats, delta: float, *, error: float) -> float:
    """A lower bound on ε at this δ: the first half of the samples suggests it, the second is judged."""
    first, second = np.array_split(loss, 2)
    each = error / len(STEPS)

    def shows(samples: Floats, epsilon: float, largest: float) -> bool:
        return mean_at_least(gains(samples, epsilon), largest, error=each) > delta

    low, high = 0.0, min(LARGEST, max(float(first.max()), 0.0))
    while high - low > 1e-3 * high + 1e-6:
        middle = (low + high) / 2
        shown = shows(first, middle, float(gains(first, middle).max()))
        low, high = (middle, high) if shown else (low, middle)
    for epsilon in (low * step for step in STEPS if low):
        if shows(second, epsilon, float(gains(first, epsilon).max())):
            return epsilon
    return 0.0


def attack(
    target: Target,
    names: Sequence[Attack],
    rng: np.random.Generator,
    *,
    error: float,
    samples: int = 400_000,
    rounds: int = 1,
    others: int = 2,
) -> list[Finding]:
    """Both attackers on every neighbour, from both sides; `error` is shared among all these tests.

    `rounds`: transcripts of a mechanism that asks more than once. `others`: users removed at random.
    """
    key = int(rng.integers(2**63))
    tried = neighbours(target, sample=others, key=key, rng=rng)
    told = [record(target, target.counts, SeededNoise(int(rng.integers(2**63))), key)]
    if not told[0]:
        return [without_noise(name) for name in names]
    if len(told[0]) > 1:
        told += [
            record(target, target.counts, SeededNoise(int(rng.integers(2**63))), key)
            for _ in range(rounds - 1)
        ]
    each = error / (len(tried) * len(names) * 2 * 2)  # two directions, δ and ε
    found = []
    for neighbour in tried:
        dataset = neighbour.dataset(target.counts)
        pairs = [paired(target, one, replay(target, dataset, one, key)) for one in told]
        found += [
            judge(pairs, name, neighbour.label, target.claim, rng, samples, each) for name in names
        ]
    return found


@dataclass(frozen=True)
class Gain:
    """What an attacker gets: δ at the claimed ε, ε at the claimed δ; exact where there are no samples."""

    delta: float
    epsilon: float
    curve: Curve
    samples: int = 0


def judge(
    pairs: Sequence[Pair],
    name: Attack,
    neighbour: str,
    claim: Budget,
    rng: np.random.Generator,
    samples: int,
    error: float,
) -> Finding:
    """What one attacker gets out of one pair of datasets, from the better side."""
    seen = [
        [contrast.across if name is Attack.SCALE else contrast for contrast in pair]
        for pair in pairs
    ]
    drawn = rng, samples, error
    gain = (
        gaussian_gain(seen, claim)
        or pure_gain(seen, claim, *drawn)
        or sampled_gain(seen, claim, *drawn)
    )
    sentence = f"{'at least' if gain.samples else 'exactly'} δ = {rounded_down(gain.delta)} at ε = {claim.epsilon:g},"
    sentence += f" ε = {rounded_down(gain.epsilon)} at δ = {claim.delta:g}"
    caught = gain.delta > claim.delta or gain.epsilon > claim.epsilon
    return Finding(
        name, neighbour, caught, sentence, gain.delta, gain.epsilon, gain.samples, gain.curve
    )


def sampled_gain(
    pairs: Sequence[Pair], claim: Budget, rng: np.random.Generator, samples: int, error: float
) -> Gain:
    """Whatever the law: bounds that are wrong with at most this error each."""
    sides = _both_sides(pairs, rng, samples)
    delta = max(delta_at_least(loss, claim.epsilon, error=error) for loss in sides)
    epsilon = max(epsilon_at_least(loss, claim.delta, error=error) for loss in sides)
    return Gain(delta, epsilon, trade_off(*sides), samples)


def _both_sides(
    pairs: Sequence[Pair], rng: np.random.Generator, samples: int
) -> tuple[Floats, Floats]:
    back = [[contrast.swapped for contrast in pair] for pair in pairs]
    return losses(pairs, samples, rng), losses(back, samples, rng)


def gaussian_gain(pairs: Sequence[Pair], claim: Budget) -> Gain | None:
    """By the formula (docs/promise.md), where all noise is Gaussian and the same on both sides."""
    contrasts = [contrast for pair in pairs for contrast in pair]
    if not all(one.law == "gaussian" and one.scale == one.other_scale > 0 for one in contrasts):
        return None
    distance = max(
        math.sqrt(sum(float(one.moved @ one.moved) / one.scale**2 for one in pair))
        for pair in pairs
    )

    def delta(epsilon: float) -> float:
        return float(gaussian_delta(np.array([epsilon + ROUNDING]), distance)[0])

    low, high = 0.0, LARGEST
    while high - low > ROUNDING * high and high > ROUNDING:
        middle = (low + high) / 2
        low, high = (middle, high) if delta(middle) > claim.delta else (low, middle)
    return Gain(delta(claim.epsilon), low, Curve.gaussian(distance))


def pure_gain(
    pairs: Sequence[Pair], claim: Budget, rng: np.random.Generator, samples: int, error: float
) -> Gain | None:
    """Of Laplace noise that is the same on both sides, where no δ is claimed: the largest L is ‖moved‖₁/b."""
    contrasts = [contrast for pair in pairs for contrast in pair]
    if claim.delta or not all(
        one.law == "laplace" and one.scale == one.other_scale > 0 for one in contrasts
    ):
        return None
    sums = (sum(float(np.abs(one.moved).sum()) / one.scale for one in pair) for pair in pairs)
    epsilon = max(sums) * (1 - ROUNDING)
    if epsilon <= claim.epsilon:
        return Gain(0.0, epsilon, trade_off(*_both_sides(pairs, rng, FEW)))
    sides = _both_sides(pairs, rng, samples)
    delta = max(delta_at_least(loss, claim.epsilon, error=error) for loss in sides)
    return Gain(delta, epsilon, trade_off(*sides), samples)


def trade_off(under_first: Floats, under_second: Floats) -> Curve:
    """False alarms and misses of the test L > t, for every t; the second side's losses are −L under p′."""
    with_user, without = np.sort(under_first), np.sort(-under_second)
    places = np.unique(np.linspace(0, without.size - 1, POINTS).astype(np.int64))
    thresholds = np.concatenate([[-np.inf], without[places]])
    alarms = 1 - np.searchsorted(without, thresholds, side="right") / without.size
    misses = np.searchsorted(with_user, thresholds, side="right") / with_user.size
    return Curve(
        [1.0, *alarms.tolist(), 0.0], [0.0, *misses.tolist(), 1.0]
    )  # always or never crying wolf
