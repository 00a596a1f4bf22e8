"""The optimal attacker: knows both datasets and the noise distribution, takes the likelihood ratio.

In: a target. Out: findings with lower bounds on δ at the claimed ε and on ε at the claimed δ, for a
dozen neighbouring datasets.

1. Neighbours are datasets that differ in one user: without a user who is there, or with one who
   could be. They are described by what makes the user special, never by an id.
2. A transcript lists what a mechanism asks of its noise source. The neighbour gets the answers
   that the dataset got, so that a mechanism whose later queries depend on earlier answers
   (`posterior` chooses its clip norm so) asks both sides the same. Such a pair holds the later
   queries fixed: for each clip norm it is a mechanism of its own with the same claim, and an
   attack on it is an attack on the claim. What happens after the noise is post-processing and
   reveals no more.
3. With L = log p/p′ of what was noised, drawn under p:   δ(ε) = E[(1 − e^(ε − L))₊]. Where all
   noise is Gaussian and equally strong for both datasets this has a formula, and the answer is
   exact. Elsewhere L is drawn from its own distribution, not from outputs: Gaussian noise on k
   coordinates has a part along the difference of the means and a χ² of the rest; of Laplace noise
   only the shifted coordinates matter, and a sum over the others.

The attack `scale` is a weaker attacker who looks only across the difference: it sees how much noise
there is, and nothing else.

Discrete Gaussian noise is taken as continuous; privacy/calibration.py bounds the difference (1e-17
and less). If more than 64 coordinates are shifted under Laplace noise, those that are shifted
least are left out: bounds stay bounds.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from bayesgram.arrays import Floats, Ids, Integers
from bayesgram.audit.findings import (
    AuditFinding,
    AuditTarget,
    TradeOffCurve,
    format_rounded_down,
    mean_lower_bound,
    no_noise_finding,
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

# --- Transcripts: what a mechanism asks of its noise source ---


@dataclass(frozen=True, eq=False, repr=False)
class NoiseQuery:
    """Values that a mechanism gave to its noise source, and the noisy values that came back."""

    law: str  # "gaussian" or "laplace"
    is_integer: bool  # whether the noise is discrete
    values: Values
    scale: float
    answer: Values

    @property
    def noise(self) -> Values:
        """The noise that was added to the exact answer."""
        return self.answer - self.values


Transcript = Sequence[NoiseQuery]


class RecordingNoise(NoiseSource):
    """Records all queries; answers as an inner source does, or with the answers of a transcript."""

    seeded = True

    def __init__(self, inner: NoiseSource | None, replayed: Transcript = ()) -> None:
        self._inner = inner
        self._replayed = replayed
        self.recorded: list[NoiseQuery] = []

    def discrete_laplace(self, values: Integers, *, scale: float) -> Integers:
        """Add Laplace noise to integers."""
        return self._answer(
            "laplace", values, scale, lambda inner: inner.discrete_laplace(values, scale=scale)
        )

    def discrete_gaussian(self, values: Integers, *, scale: float) -> Integers:
        """Add Gaussian noise to integers."""
        return self._answer(
            "gaussian", values, scale, lambda inner: inner.discrete_gaussian(values, scale=scale)
        )

    def laplace(self, values: Floats, *, scale: float) -> Floats:
        """Add Laplace noise to real numbers."""
        return self._answer(
            "laplace", values, scale, lambda inner: inner.laplace(values, scale=scale)
        )

    def gaussian(self, values: Floats, *, scale: float) -> Floats:
        """Add Gaussian noise to real numbers."""
        return self._answer(
            "gaussian", values, scale, lambda inner: inner.gaussian(values, scale=scale)
        )

    def _answer(
        self, law: str, values: Array, scale: float, draw: Callable[[NoiseSource], Array]
    ) -> Array:
        answer = draw(self._inner) if self._inner else self._replay(law, values)
        is_integer = np.issubdtype(values.dtype, np.integer)
        self.recorded.append(
            NoiseQuery(law, is_integer, values.copy(), float(scale), answer.copy())
        )
        return answer

    def _replay(self, law: str, values: Array) -> Array:
        number = len(self.recorded)
        earlier = self._replayed[number] if number < len(self._replayed) else None
        if earlier is None or (earlier.law, earlier.values.shape) != (law, values.shape):
            raise differing_queries_error()
        return earlier.answer.astype(values.dtype)


def differing_queries_error() -> BayesgramError:
    """Return the error for a mechanism where one user changes the kind of noise it asks for."""
    return BayesgramError(
        "with and without one user, this mechanism asks for different kinds of noise; the"
        " likelihood ratio can't be taken. Use the attack black-box."
    )


def record_transcript(
    target: AuditTarget, counts: UserCounts, noise: NoiseSource, key: int
) -> Transcript:
    """Return what the target's mechanism asks about a dataset, with fresh noise.

    Args:
        target: The mechanism and its budget.
        counts: The dataset.
        noise: Where the answers come from.
        key: The key of the subsampling.
    """
    recorder = RecordingNoise(noise)
    target.mechanism.measure(counts, target.vocabulary, target.budget, Randomness(recorder, key))
    return recorder.recorded


def replay_transcript(
    target: AuditTarget, counts: UserCounts, transcript: Transcript, key: int
) -> Transcript:
    """Return what the mechanism asks about another dataset that gets the same answers.

    Args:
        target: The mechanism and its budget.
        counts: The other dataset.
        transcript: The answers that it gets.
        key: The key of the subsampling.
    """
    recorder = RecordingNoise(None, transcript)
    target.mechanism.measure(counts, target.vocabulary, target.budget, Randomness(recorder, key))
    if len(recorder.recorded) != len(transcript):
        raise differing_queries_error()
    return recorder.recorded


# --- Neighbours: datasets that differ in one user ---

# The count of an added user who writes one n-gram far more than anybody: above every clip bound.
HUGE_COUNT = 1_000_000


@dataclass(frozen=True, eq=False)
class Neighbour:
    """A neighbouring dataset: one user less, or one more."""

    label: str
    user: int | None = None  # the row of the user who is removed
    row: tuple[Ids, Ids] | None = None  # n-grams and counts of the user who is added

    def apply(self, counts: UserCounts) -> UserCounts:
        """Return the neighbour of these counts."""
        if self.row is not None:
            return add_users(counts, [self.row])
        return counts if self.user is None else remove_user(counts, self.user)

    def user_row(self, counts: UserCounts) -> tuple[Ids, Ids]:
        """Return the n-grams and counts of the user in question."""
        if self.row is not None:
            return self.row
        if self.user is None:
            return np.zeros(0, np.int32), np.zeros(0, np.int32)
        rows = slice(counts.starts[self.user], counts.starts[self.user + 1])
        return counts.ngrams[rows], counts.counts[rows]


def choose_neighbours(
    target: AuditTarget, *, random_users: int, key: int, rng: np.random.Generator
) -> list[Neighbour]:
    """Return the neighbours worth attacking.

    Args:
        target: What is attacked.
        random_users: How many users to remove at random, beside those who matter most.
        key: The key of the run, which decides how the paper's mechanism subsamples.
        rng: Draws the random users.

    Returns:
        Datasets without the most influential users, without some random users, and with an outlier.
    """
    user_count = target.counts.starts.size - 1
    removed: dict[int, str] = {}
    if user_count:
        for label, influence in _influence_measures(target, key):
            removed.setdefault(int(np.argmax(influence)), f"without the user with {label}")
        for user in rng.choice(user_count, min(random_users, user_count), replace=False):
            removed.setdefault(int(user), "without a user at random")
    return [*(Neighbour(label, user) for user, label in removed.items()), *_outliers(target)]


def _influence_measures(target: AuditTarget, key: int) -> Iterator[tuple[str, Floats]]:
    """Yield ways to say how much each user matters, as (label, value for each user)."""
    counts = target.counts
    mechanism = target.mechanism
    values = counts.counts.astype(np.float64)
    if isinstance(mechanism, Paper):
        statistics = mechanism.statistics(counts, Randomness(SeededNoise(0), key))
        yield "the largest shift", statistics.user_shifts(mechanism.slope)
    else:
        yield "the largest norm", sum_per_user(counts, values**2)
    yield "the most counts", sum_per_user(counts, values)
    rarity = 1 / counts.users_per_ngram[counts.ngrams]
    yield "the rarest n-grams", sum_per_user(counts, rarity) / np.maximum(np.diff(counts.starts), 1)


def sum_per_user(counts: UserCounts, values: Floats) -> Floats:
    """Return the sum of `values`, one for each nonzero count, over the rows of each user."""
    sums = np.concatenate([[0.0], np.cumsum(values)])
    return np.diff(sums[counts.starts])


def _outliers(target: AuditTarget) -> list[Neighbour]:
    size = len(target.vocabulary)
    rarest = np.argmin(target.counts.users_per_ngram)
    most_frequent = np.argmax(target.vocabulary.counts)
    return [
        _added_user("every n-gram once", np.arange(size), 1),
        _added_user("an n-gram of their own", np.array([rarest]), 1),
        _added_user(f"one n-gram {HUGE_COUNT:,} times", np.array([most_frequent]), HUGE_COUNT),
    ]


def _added_user(description: str, ngrams: NDArray[np.integer], count: int) -> Neighbour:
    row = ngrams.astype(np.int32), np.full(ngrams.size, count, np.int32)
    return Neighbour(f"with a user who has {description}", row=row)


# --- The privacy loss of a pair of queries ---

# Coordinates shifted under Laplace noise that are looked at: a limit on the work. Not measured.
MAX_SHIFTED = 64


@dataclass(frozen=True, eq=False, repr=False)
class QueryPair:
    """One query as the attacker sees it: p is the dataset's distribution, p′ the neighbour's."""

    law: str
    is_integer: bool
    shift: Floats  # values of p less those of p′, in the directions that can be seen
    coordinates: int  # how many directions these are
    scale: float
    other_scale: float

    @classmethod
    def from_queries(
        cls, query: NoiseQuery, other: NoiseQuery, *, shift_invariant: bool
    ) -> "QueryPair":
        """Compare a query with the neighbour's.

        Args:
            query: Of the dataset.
            other: Of the neighbour.
            shift_invariant: Whether the mechanism hides a constant that is added to all
                coordinates, so that only differences between them show.
        """
        shift = (query.values - other.values).astype(np.float64)
        visible_shift = shift - shift.mean() if shift_invariant else shift
        coordinates = shift.size - shift_invariant
        return cls(
            query.law, query.is_integer, visible_shift, coordinates, query.scale, other.scale
        )

    def swap(self) -> "QueryPair":
        """Return the pair as seen from the other dataset."""
        return replace(self, shift=-self.shift, scale=self.other_scale, other_scale=self.scale)

    def unshifted_part(self) -> "QueryPair":
        """Return what shows in directions that are not shifted: how much noise there is."""
        shifted = 1 if self.law == "gaussian" else int(np.count_nonzero(self.shift))
        return replace(self, shift=np.zeros(0), coordinates=max(self.coordinates - shifted, 0))

    def sample_losses(self, size: int, rng: np.random.Generator) -> Floats:
        """Draw log p/p′ under p; infinite where p′ could not have given the answer."""
        if not self.coordinates:
            return np.zeros(size)
        if not (self.scale and self.other_scale):
            # Without noise a single look decides, unless there is nothing to see.
            is_visible = self.scale != self.other_scale or self.shift.any()
            return np.full(size, np.inf if is_visible else 0.0)
        if self.law == "gaussian":
            return self._sample_gaussian_losses(size, rng)
        return self._sample_laplace_losses(size, rng)

    def _sample_gaussian_losses(self, size: int, rng: np.random.Generator) -> Floats:
        """Draw k log(σ′/σ) + (r² − 1)(z² + χ²)/2 + r u z + u²/2.

        Here r = σ/σ′, u = ‖shift‖/σ′, z is standard normal, and χ² has k − 1 degrees of freedom.
        """
        r = self.scale / self.other_scale
        k = self.coordinates
        growth = (r - 1) * (r + 1) / 2
        z = rng.standard_normal(size)
        u = float(np.linalg.norm(self.shift)) / self.other_scale
        losses: Floats = growth * z * z + r * u * z + u * u / 2 - math.log(r)
        if growth and k > 1:
            losses += growth * rng.chisquare(k - 1, size) - (k - 1) * math.log(r)
        return losses

    def _sample_laplace_losses(self, size: int, rng: np.random.Generator) -> Floats:
        """Draw Σ log(c/c′) − |n|/b + |n + shift|/b′ over coordinates, n ~ Lap(b).

        Shifted coordinates are drawn one by one, the others as a sum.
        """
        shifts = self.shift[self.shift != 0]
        unshifted = self.coordinates - shifts.size
        constant = _log_height(self.scale, self.is_integer) - _log_height(
            self.other_scale, self.is_integer
        )
        growth = 1 / self.other_scale - 1 / self.scale
        losses = np.zeros(size)
        if growth and unshifted > 0:
            absolute_sums = _sample_absolute_sums(unshifted, self.scale, self.is_integer, size, rng)
            losses += unshifted * constant + growth * absolute_sums
        for shift in shifts[np.argsort(-np.abs(shifts))[:MAX_SHIFTED]]:
            noise = _sample_laplace(self.scale, self.is_integer, size, rng)
            losses += (
                constant - np.abs(noise) / self.scale + np.abs(noise + shift) / self.other_scale
            )
        return losses


def _log_height(scale: float, is_integer: bool) -> float:
    """Return log P(0) of (discrete) Laplace noise."""
    return math.log(math.tanh(1 / (2 * scale))) if is_integer else -math.log(2 * scale)


def _sample_laplace(scale: float, is_integer: bool, size: int, rng: np.random.Generator) -> Floats:
    if not is_integer:
        return rng.laplace(0, scale, size)
    p = -math.expm1(-1 / scale)
    return (rng.geometric(p, size) - rng.geometric(p, size)).astype(np.float64)


def _sample_absolute_sums(
    terms: int, scale: float, is_integer: bool, size: int, rng: np.random.Generator
) -> Floats:
    """Draw Σ |n| over `terms` Laplace variables.

    It is a sum of exponentials; on integers, of geometric numbers for those that are not 0.
    """
    if not is_integer:
        return scale * rng.standard_gamma(terms, size)
    p = -math.expm1(-1 / scale)
    nonzero = rng.binomial(terms, 1 - math.tanh(1 / (2 * scale)), size)
    excess = rng.negative_binomial(np.maximum(nonzero, 1), p, size)
    return np.where(nonzero, nonzero + excess, 0).astype(np.float64)


TranscriptPair = Sequence[QueryPair]


def pair_transcripts(
    target: AuditTarget, transcript: Transcript, other: Transcript
) -> TranscriptPair:
    """Compare two transcripts, query by query."""
    shift_invariant = target.mechanism.shift_invariant
    return [
        QueryPair.from_queries(query, other_query, shift_invariant=shift_invariant)
        for query, other_query in zip(transcript, other, strict=True)
    ]


def sample_losses(pairs: Sequence[TranscriptPair], size: int, rng: np.random.Generator) -> Floats:
    """Draw L under p, an equal share from each pair of transcripts, in random order.

    Args:
        pairs: The pair of datasets, once for each transcript.
        size: How many to draw, at least.
        rng: Where they are drawn from.
    """
    share = math.ceil(size / len(pairs))
    parts = [sum(query.sample_losses(share, rng) for query in pair) for pair in pairs]
    return rng.permutation(np.concatenate(parts))


# --- Bounds from samples of the privacy loss ---

ROUNDING = 1e-9  # how far floating point may put L off: counted in favour of the claim
MAX_EPSILON_SEARCHED = 100.0  # no larger ε is looked for; not measured
# Of the ε that the first half of the samples suggests, the parts that the second half is tested
# for, largest first. They share the error. Not measured.
EPSILON_STEPS = (1.0, 0.98, 0.95, 0.9, 0.75, 0.5)


def loss_gains(losses: Floats, epsilon: float) -> Floats:
    """Return (1 − e^(ε − L))₊, whose mean is δ(ε)."""
    return np.maximum(-np.expm1(epsilon + ROUNDING - losses), 0.0)


def delta_lower_bound(losses: Floats, epsilon: float, *, error: float) -> float:
    """Return a lower bound on δ(ε).

    The first half of the samples says how large a gain can get; the second half is tested.

    Args:
        losses: L, drawn under p.
        epsilon: The claimed ε.
        error: The probability that the bound is wrong.
    """
    first, second = np.array_split(loss_gains(losses, epsilon), 2)
    return mean_lower_bound(second, float(first.max()), error=error)


def epsilon_lower_bound(losses: Floats, delta: float, *, error: float) -> float:
    """Return a lower bound on ε at this δ.

    The first half of the samples suggests an ε; the second half is tested for it and less.

    Args:
        losses: L, drawn under p.
        delta: The claimed δ.
        error: The probability that the bound is wrong.
    """
    first, second = np.array_split(losses, 2)
    error_of_step = error / len(EPSILON_STEPS)

    def exceeds_delta(samples: Floats, epsilon: float, largest_gain: float) -> bool:
        gains = loss_gains(samples, epsilon)
        return mean_lower_bound(gains, largest_gain, error=error_of_step) > delta

    low = 0.0
    high = min(MAX_EPSILON_SEARCHED, max(float(first.max()), 0.0))
    while high - low > 1e-3 * high + 1e-6:
        middle = (low + high) / 2
        if exceeds_delta(first, middle, float(loss_gains(first, middle).max())):
            low = middle
        else:
            high = middle
    for epsilon in (low * step for step in EPSILON_STEPS if low):
        if exceeds_delta(second, epsilon, float(loss_gains(first, epsilon).max())):
            return epsilon
    return 0.0


# --- The attack ---

# For the picture alone; chosen by eye.
CURVE_POINTS = 201
CURVE_SAMPLES = 20_000  # where nothing else needs samples


def likelihood_ratio_attack(
    target: AuditTarget,
    attacks: Sequence[Attack],
    rng: np.random.Generator,
    *,
    error: float,
    samples: int = 400_000,
    rounds: int = 1,
    random_users: int = 2,
) -> list[AuditFinding]:
    """Attack every neighbour, from both sides.

    Args:
        target: What is attacked.
        attacks: LIKELIHOOD_RATIO, SCALE or both.
        rng: Draws neighbours and samples.
        error: The probability that any bound is wrong; it is shared among all tests.
        samples: Draws of the privacy loss for each test.
        rounds: How many transcripts to draw of a mechanism that asks more than once.
        random_users: How many users to remove at random.
    """
    key = int(rng.integers(2**63))
    neighbours = choose_neighbours(target, random_users=random_users, key=key, rng=rng)

    def draw_transcript() -> Transcript:
        noise = SeededNoise(int(rng.integers(2**63)))
        return record_transcript(target, target.counts, noise, key)

    transcripts = [draw_transcript()]
    if not transcripts[0]:
        return [no_noise_finding(attack) for attack in attacks]
    if len(transcripts[0]) > 1:
        transcripts += [draw_transcript() for _ in range(rounds - 1)]
    directions = 2  # p against p′, and p′ against p
    bounds = 2  # δ and ε
    error_of_test = error / (len(neighbours) * len(attacks) * directions * bounds)
    findings = []
    for neighbour in neighbours:
        dataset = neighbour.apply(target.counts)
        pairs = [
            pair_transcripts(
                target, transcript, replay_transcript(target, dataset, transcript, key)
            )
            for transcript in transcripts
        ]
        findings += [
            assess_pairs(pairs, attack, neighbour.label, target.claim, rng, samples, error_of_test)
            for attack in attacks
        ]
    return findings


@dataclass(frozen=True)
class AttackGain:
    """What an attacker gets from one pair of datasets."""

    delta: float  # at the claimed ε
    epsilon: float  # at the claimed δ
    curve: TradeOffCurve
    samples: int = 0  # 0 where δ and ε are exact


def assess_pairs(
    pairs: Sequence[TranscriptPair],
    attack: Attack,
    neighbour: str,
    claim: Budget,
    rng: np.random.Generator,
    samples: int,
    error: float,
) -> AuditFinding:
    """Return what one attacker gets out of one pair of datasets, from the better side.

    Args:
        pairs: The pair of datasets, once for each transcript.
        attack: SCALE sees only the amount of noise, LIKELIHOOD_RATIO everything.
        neighbour: How the datasets differ.
        claim: The claimed ε and δ.
        rng: Draws samples where there is no formula.
        samples: How many.
        error: The probability that a sampled bound is wrong.
    """
    visible = [
        [query.unshifted_part() if attack is Attack.SCALE else query for query in pair]
        for pair in pairs
    ]
    gain = (
        exact_gaussian_gain(visible, claim)
        or pure_laplace_gain(visible, claim, rng, samples, error)
        or sampled_gain(visible, claim, rng, samples, error)
    )
    precision = "at least" if gain.samples else "exactly"
    sentence = (
        f"{precision} δ = {format_rounded_down(gain.delta)} at ε = {claim.epsilon:g},"
        f" ε = {format_rounded_down(gain.epsilon)} at δ = {claim.delta:g}"
    )
    refutes_claim = gain.delta > claim.delta or gain.epsilon > claim.epsilon
    return AuditFinding(
        attack,
        neighbour,
        refutes_claim,
        sentence,
        gain.delta,
        gain.epsilon,
        gain.samples,
        gain.curve,
    )


def sampled_gain(
    pairs: Sequence[TranscriptPair],
    claim: Budget,
    rng: np.random.Generator,
    samples: int,
    error: float,
) -> AttackGain:
    """Return bounds for any noise, each wrong with a probability of at most `error`.

    Args:
        pairs: The pair of datasets, once for each transcript.
        claim: The claimed ε and δ.
        rng: Draws the losses.
        samples: How many losses are drawn in each direction.
        error: The probability that a bound is wrong.
    """
    both_losses = _sample_both_directions(pairs, rng, samples)
    delta = max(delta_lower_bound(losses, claim.epsilon, error=error) for losses in both_losses)
    epsilon = max(epsilon_lower_bound(losses, claim.delta, error=error) for losses in both_losses)
    return AttackGain(delta, epsilon, sampled_trade_off(*both_losses), samples)


def _sample_both_directions(
    pairs: Sequence[TranscriptPair], rng: np.random.Generator, samples: int
) -> tuple[Floats, Floats]:
    """Draw log p/p′ under p, and log p′/p under p′."""
    swapped = [[query.swap() for query in pair] for pair in pairs]
    return sample_losses(pairs, samples, rng), sample_losses(swapped, samples, rng)


def exact_gaussian_gain(pairs: Sequence[TranscriptPair], claim: Budget) -> AttackGain | None:
    """Return δ and ε by the formula of docs/promise.md.

    None unless all noise is Gaussian and the same on both sides.
    """
    queries = [query for pair in pairs for query in pair]
    if not all(
        query.law == "gaussian" and query.scale == query.other_scale > 0 for query in queries
    ):
        return None
    distance = max(
        math.sqrt(sum(float(query.shift @ query.shift) / query.scale**2 for query in pair))
        for pair in pairs
    )

    def delta(epsilon: float) -> float:
        return float(gaussian_delta(np.array([epsilon + ROUNDING]), distance)[0])

    low = 0.0
    high = MAX_EPSILON_SEARCHED
    while high - low > ROUNDING * high and high > ROUNDING:
        middle = (low + high) / 2
        if delta(middle) > claim.delta:
            low = middle
        else:
            high = middle
    return AttackGain(delta(claim.epsilon), low, TradeOffCurve.from_gaussian(distance))


def pure_laplace_gain(
    pairs: Sequence[TranscriptPair],
    claim: Budget,
    rng: np.random.Generator,
    samples: int,
    error: float,
) -> AttackGain | None:
    """Return the gain where no δ is claimed: the largest L is ‖shift‖₁/b.

    None unless all noise is Laplace and the same on both sides.

    Args:
        pairs: The pair of datasets, once for each transcript.
        claim: The claimed ε and δ.
        rng: Draws the losses.
        samples: How many losses are drawn in each direction.
        error: The probability that a bound is wrong.
    """
    queries = [query for pair in pairs for query in pair]
    if claim.delta or not all(
        query.law == "laplace" and query.scale == query.other_scale > 0 for query in queries
    ):
        return None
    largest_losses = (
        sum(float(np.abs(query.shift).sum()) / query.scale for query in pair) for pair in pairs
    )
    epsilon = max(largest_losses) * (1 - ROUNDING)
    if epsilon <= claim.epsilon:
        both_losses = _sample_both_directions(pairs, rng, CURVE_SAMPLES)
        return AttackGain(0.0, epsilon, sampled_trade_off(*both_losses))
    both_losses = _sample_both_directions(pairs, rng, samples)
    delta = max(delta_lower_bound(losses, claim.epsilon, error=error) for losses in both_losses)
    return AttackGain(delta, epsilon, sampled_trade_off(*both_losses), samples)


def sampled_trade_off(losses: Floats, other_losses: Floats) -> TradeOffCurve:
    """Return false alarms and misses of the test L > t, for every t.

    Args:
        losses: L = log p/p′, drawn under p.
        other_losses: log p′/p = −L, drawn under p′.
    """
    under_p = np.sort(losses)
    under_other = np.sort(-other_losses)
    places = np.unique(np.linspace(0, under_other.size - 1, CURVE_POINTS).astype(np.int64))
    thresholds = np.concatenate([[-np.inf], under_other[places]])
    false_alarms = 1 - np.searchsorted(under_other, thresholds, side="right") / under_other.size
    misses = np.searchsorted(under_p, thresholds, side="right") / under_p.size
    # The ends: always saying "in", and never.
    return TradeOffCurve([1.0, *false_alarms.tolist(), 0.0], [0.0, *misses.tolist(), 1.0])
