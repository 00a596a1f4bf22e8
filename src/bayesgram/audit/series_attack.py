"""An attacker of a series of releases: a user who takes part in chosen weeks.

In: what everybody else writes in every week, and the settings of a series. Out: findings about the
whole series, from the noisy answers of all its releases.

Every week is played twice with the code of a real release, with the user and without: `Series`
charges allowances, and `Posterior` asks its queries. One of the two worlds draws noise; the other
one gets the same noisy answers, so that both have the same past. Two attackers look at the answers:

- `likelihood-ratio` and `scale` take the exact law of all noisy answers, given those of one played
  series. It needs no samples, and a few percent too much show.
- `black-box` plays many series in both worlds. From each it takes L, the log-likelihood ratio of
  all noisy answers that came out. Thresholds of L are chosen on half of the series, and judged on
  the others.

A user may decide in each week by what came out before: `HABITS` has one who writes much while the
answers so far look as if the user were there.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from bayesgram.arrays import Floats
from bayesgram.audit.attacks import bounds_by_threshold
from bayesgram.audit.findings import AuditFinding, binomial_lower_bound, format_rounded_down
from bayesgram.audit.likelihood_ratio import (
    HUGE_COUNT,
    ROUNDING,
    Neighbour,
    NoiseQuery,
    QueryPair,
    RecordingNoise,
    Transcript,
    TranscriptPair,
    assess_pairs,
    differing_queries_error,
)
from bayesgram.choices import Attack
from bayesgram.errors import UsageError, check_int
from bayesgram.mechanisms.base import Randomness
from bayesgram.mechanisms.posterior import Posterior
from bayesgram.mechanisms.series import (
    DEFAULT_COORDINATES,
    FILES,
    RELEASES,
    Series,
    SeriesSettings,
    SeriesState,
    max_coordinates,
)
from bayesgram.privacy.budget import Budget
from bayesgram.privacy.constants import MAX_SERIES_RELEASES
from bayesgram.privacy.ledger import Ledger
from bayesgram.privacy.noise import ExactNoise, NoiseSource, SeededNoise
from bayesgram.private.allowances import Allowances
from bayesgram.private.counts import UserCounts
from bayesgram.private.keyed_hash import KEY_BYTES
from bayesgram.private.running_candidates import RunningCandidates
from bayesgram.public.vocabulary import Vocabulary

# --- What is attacked ---


@dataclass(frozen=True, eq=False, repr=False)
class SeriesTarget:
    """A series of releases, and what everybody but one user writes in each of its weeks.

    Attributes:
        counts: What the others write, every week the same. Columns of unlisted n-grams are left
            out.
        vocabulary: Of the counts.
        settings: The settings of the series.
        clip_norm: Λ; if it is None, every release chooses its own.
    """

    counts: UserCounts
    vocabulary: Vocabulary
    settings: SeriesSettings
    clip_norm: float | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "counts", self.counts.listed_only)
        self.counts.check_vocabulary(len(self.vocabulary), self.vocabulary.fingerprint)


def make_settings(budget: Budget, *, releases: int, full_releases: int) -> SeriesSettings:
    """Return the settings that `bayesgram series create` would choose.

    Args:
        budget: (ε, δ) of all releases together.
        releases: W, the most releases of the series.
        full_releases: k, how many of them one user can contribute to in full.

    Raises:
        UsageError: If a number is not allowed.
    """
    if not budget.delta:
        raise UsageError.for_argument("delta", "0", "a series needs a delta above 0.")
    check_int(
        "series_releases", releases, 2, MAX_SERIES_RELEASES, "the number of releases of a series"
    )
    what = "the number of full releases of a series"
    check_int("full_releases", full_releases, 1, releases, what)
    room = max_coordinates(budget, full_releases)
    return SeriesSettings(
        budget.epsilon, budget.delta, releases, full_releases, min(DEFAULT_COORDINATES, room)
    )


# --- Habits: when the user writes, and how much ---

# Returns how often the user writes their n-gram in a week; 0 if they don't take part. It gets the
# number of the week from 1, the settings, and the log-likelihood ratio of all answers so far.
WeeklyAmount = Callable[[int, SeriesSettings, float], int]


def _write_little_then_much(week: int, settings: SeriesSettings, _loss: float) -> int:
    return 1 if week <= settings.releases - settings.full_releases else HUGE_COUNT


HABITS: Mapping[str, WeeklyAmount] = {
    "in the first week only": lambda week, _settings, _loss: HUGE_COUNT if week == 1 else 0,
    "in every week": lambda _week, _settings, _loss: HUGE_COUNT,
    "in every other week": lambda week, _settings, _loss: HUGE_COUNT * (week % 2),
    "a little, and then a lot at the end": _write_little_then_much,
    "a lot while the answers look as if they were there": (
        lambda _week, _settings, loss: HUGE_COUNT if loss >= 0 else 1
    ),
}


# --- Playing a series ---


@dataclass
class _Memory:
    """What a series keeps between two releases."""

    state: SeriesState = field(default_factory=lambda: SeriesState("0", ""))
    allowances: Allowances = field(default_factory=lambda: Allowances(bytes(KEY_BYTES)))


@dataclass(frozen=True)
class SeriesInMemory(Series):
    """A series that is kept in memory and charged to no ledger: nothing of it is published.

    All but files and ledger is the code of a real series.
    """

    memory: _Memory = field(default_factory=_Memory)

    @classmethod
    def of(cls, settings: SeriesSettings) -> "SeriesInMemory":
        """Return a new series with these settings."""
        nowhere = Path("memory")
        ledger = Ledger(nowhere, "", "people of an audit", settings.budget, None)
        return cls(nowhere, "", ledger, settings)

    def read_state(self) -> SeriesState:
        """Return the state."""
        return self.memory.state

    def write_state(
        self,
        state: SeriesState,
        contents: Mapping[str, Allowances | RunningCandidates],
        *,
        on_charged: Callable[[int], None] | None = None,
    ) -> SeriesState:
        """Keep a state, and what users have used."""
        if set(contents) - {RELEASES}:
            raise AssertionError(f"only releases are played, not {', '.join(FILES)}")
        self.memory.state = state
        if on_charged is not None:
            on_charged(state.runs[-1].number)
        for allowances in contents.values():
            if isinstance(allowances, Allowances):
                self.memory.allowances = allowances
        return state

    def read_allowances(self, state: SeriesState, kind: str) -> Allowances:  # noqa: ARG002
        """Return what every user has used in releases."""
        return self.memory.allowances

    def _catch_up(self, state: SeriesState) -> None:
        """Do nothing: there is no ledger."""


def play_week(
    series: SeriesInMemory, target: SeriesTarget, counts: UserCounts, noise: RecordingNoise
) -> Transcript:
    """Make the next release of a series; return what it asked, and the noisy answers.

    Args:
        series: The series, which charges every user.
        target: The vocabulary and the clip norm.
        counts: What everybody writes in this week.
        noise: Where the answers come from.
    """
    begun = series.begin(counts, target.vocabulary, "audit")
    posterior = Posterior(clip_norm=target.clip_norm, series_noise=begun.noise)
    posterior.measure(
        begun.counts, target.vocabulary, series.settings.budget, Randomness(noise, key=0)
    )
    begun.finish()
    return noise.recorded


@dataclass(frozen=True, eq=False)
class PlayedSeries:
    """All noisy answers of a series, as the attacker sees them.

    Attributes:
        pairs: Every query with the user, beside the same query without.
        loss: log p/p′ of all noisy answers: p is their density with the user, p′ without.
    """

    pairs: TranscriptPair
    loss: float


def play_series(
    target: SeriesTarget, weekly_amount: WeeklyAmount, noise: NoiseSource, *, takes_part: bool
) -> PlayedSeries:
    """Play a series in two worlds, with one user and without, that get the same noisy answers.

    Args:
        target: What is attacked.
        weekly_amount: How much the user writes in each week.
        noise: The noise of the world that draws it.
        takes_part: Whether that is the world with the user.
    """
    settings = target.settings
    series = {with_user: SeriesInMemory.of(settings) for with_user in (True, False)}
    ngram = np.array([np.argmax(target.vocabulary.counts)], np.int32)
    pairs: list[QueryPair] = []
    loss = 0.0
    for week in range(1, settings.releases + 1):
        amount = weekly_amount(week, settings, loss)
        row = (ngram, np.array([amount], np.int32)) if amount else None
        datasets = {True: Neighbour("", row=row).apply(target.counts), False: target.counts}
        drawn = play_week(series[takes_part], target, datasets[takes_part], RecordingNoise(noise))
        replayed = play_week(
            series[not takes_part], target, datasets[not takes_part], RecordingNoise(None, drawn)
        )
        if len(drawn) != len(replayed):
            raise differing_queries_error()
        with_user, without = (drawn, replayed) if takes_part else (replayed, drawn)
        for query, other in zip(with_user, without, strict=True):
            pairs.append(QueryPair.from_queries(query, other, shift_invariant=False))
            loss += answer_loss(query, other)
    return PlayedSeries(pairs, loss)


def answer_loss(query: NoiseQuery, other: NoiseQuery) -> float:
    """Return log p/p′ of the noisy answer that two Gaussian queries have in common.

    >>> values, answer = np.array([3]), np.array([2])
    >>> answer_loss(
    ...     NoiseQuery("gaussian", True, values, 2.0, answer),
    ...     NoiseQuery("gaussian", True, values - 3, 2.0, answer),
    ... )
    0.375
    """
    squares = [
        float((((each.answer - each.values) / each.scale) ** 2).sum()) for each in (query, other)
    ]
    log_scales = query.values.size * math.log(other.scale / query.scale)
    return (squares[1] - squares[0]) / 2 + log_scales


# --- The attacks ---

SERIES_ATTACKS = (Attack.LIKELIHOOD_RATIO, Attack.SCALE, Attack.BLACK_BOX)
# Draws of the privacy loss, where there is no formula: with and without the user, noise differs.
SAMPLES = 400_000


def series_likelihood_ratio_attack(
    target: SeriesTarget, attacks: Sequence[Attack], rng: np.random.Generator, *, error: float
) -> list[AuditFinding]:
    """Attack a series by the law of all its noisy answers, for every habit.

    What a habit decides by the answers so far is decided by those of the played series, in which
    the user does not take part.

    Args:
        target: What is attacked.
        attacks: LIKELIHOOD_RATIO, SCALE or both.
        rng: Seeds the noise, and draws samples where there is no formula.
        error: The probability that any bound is wrong; it is shared among all tests.
    """
    directions = 2  # p against p′, and p′ against p
    bounds = 2  # δ and ε
    error_of_test = error / (len(HABITS) * len(attacks) * directions * bounds)
    findings = []
    for label, weekly_amount in HABITS.items():
        noise = SeededNoise(int(rng.integers(2**63)))
        played = play_series(target, weekly_amount, noise, takes_part=False)
        findings += [
            assess_pairs(
                [played.pairs],
                attack,
                _neighbour_label(label),
                target.settings.budget,
                rng,
                SAMPLES,
                error_of_test,
            )
            for attack in attacks
        ]
    return findings


def series_black_box_attack(
    target: SeriesTarget,
    rng: np.random.Generator,
    *,
    error: float,
    runs: int,
    seeded: bool = False,
    habits: Mapping[str, WeeklyAmount] = HABITS,
) -> list[AuditFinding]:
    """Attack a series by what comes out of many of them, with the user and without.

    Args:
        target: What is attacked.
        rng: Seeds the noise if `seeded`.
        error: The probability that any bound is wrong; it is shared among the habits.
        runs: How many series are played in each world.
        seeded: Whether the noise is seeded; else it is real.
        habits: When the user writes, by what it is called.
    """
    check_series_runs(runs)

    def draw_losses(weekly_amount: WeeklyAmount, *, takes_part: bool) -> Floats:
        losses = []
        for _ in range(runs):
            noise = SeededNoise(int(rng.integers(2**63))) if seeded else ExactNoise()
            played = play_series(target, weekly_amount, noise, takes_part=takes_part)
            losses.append(played.loss)
        return np.array(losses)

    claim = target.settings.budget
    error_of_habit = error / len(habits)
    findings = []
    for label, weekly_amount in habits.items():
        inside, outside = (
            draw_losses(weekly_amount, takes_part=takes_part) for takes_part in (True, False)
        )
        delta, epsilon = played_bounds(inside, outside, claim, error=error_of_habit)
        sentence = (
            f"from {runs - runs // 2} series of each: at least δ = {format_rounded_down(delta)} at"
            f" ε = {claim.epsilon:g}, ε = {format_rounded_down(epsilon)} at δ = {claim.delta:g}"
        )
        refutes_claim = delta > claim.delta or epsilon > claim.epsilon
        findings.append(
            AuditFinding(
                Attack.BLACK_BOX,
                _neighbour_label(label),
                refutes_claim,
                sentence,
                delta,
                epsilon,
                runs,
            )
        )
    return findings


def check_series_runs(runs: int) -> None:
    """Refuse too few series to choose thresholds from."""
    check_int("runs", runs, 2 * TAIL_HITS, 10**6, "the number of series in each world")


def played_bounds(
    inside: Floats, outside: Floats, claim: Budget, *, error: float
) -> tuple[float, float]:
    """Return the δ at the claim's ε, and the ε at its δ, that played series prove.

    It is the most that three tests prove: how often a threshold of L says "in" with the user and
    without, and how large L gets on either side.

    Args:
        inside: L = log p/p′ of series with the user.
        outside: L of series without.
        claim: The claimed ε and δ.
        error: The probability that either bound is wrong.
    """
    halves = [np.array_split(losses, 2) for losses in (inside, outside)]
    (inside_first, inside_second), (outside_first, outside_second) = halves
    error_of_test = error / 3
    bounds = [
        bounds_by_threshold(
            (inside_first[:, None], outside_first[:, None]),
            (inside_second[:, None], outside_second[:, None]),
            claim,
            error=error_of_test,
        ),
        loss_tail_bounds(inside_first, inside_second, claim, error=error_of_test),
        loss_tail_bounds(-outside_first, -outside_second, claim, error=error_of_test),
    ]
    return max(delta for delta, _ in bounds), max(epsilon for _, epsilon in bounds)


# Of the values of L from which a threshold is chosen, so many reach it at least: of as many others,
# none does with a probability of e^-5 only.
TAIL_HITS = 5


def loss_tail_bounds(
    learning: Floats, judging: Floats, claim: Budget, *, error: float
) -> tuple[float, float]:
    """Return the δ at the claim's ε, and the ε at its δ, that large values of L prove.

    δ(ε) = E[(1 − e^(ε − L))₊] ≥ (1 − e^(ε − t)) P(L ≥ t) for every t. A claim of a small δ allows
    hardly any L above ε, so a few of them refute it; the test of two rates would need many more.

    Args:
        learning: L = log p/p′ under p, from which t is chosen; at least TAIL_HITS of them.
        judging: Other values of L, on which it is judged.
        claim: The claimed ε and δ.
        error: The probability that either bound is wrong.
    """

    def tail_probability(losses: Floats, threshold: float) -> float:
        hits = int((losses >= threshold).sum())
        return binomial_lower_bound(hits, losses.size, error=error / 2)

    def delta_bound(losses: Floats, threshold: float) -> float:
        gain = max(0.0, -math.expm1(claim.epsilon + ROUNDING - threshold))
        return gain * tail_probability(losses, threshold)

    def epsilon_bound(losses: Floats, threshold: float) -> float:
        probability = tail_probability(losses, threshold)
        if probability <= claim.delta:
            return 0.0
        return max(0.0, threshold - ROUNDING + math.log1p(-claim.delta / probability))

    thresholds = np.sort(learning)[: 1 - TAIL_HITS].tolist()
    delta, epsilon = (
        bound(judging, max(thresholds, key=lambda threshold: bound(learning, threshold)))
        for bound in (delta_bound, epsilon_bound)
    )
    return delta, epsilon


def _neighbour_label(habit: str) -> str:
    return f"with a user who writes {habit}"


def describe_settings(target: SeriesTarget) -> dict[str, Any]:
    """Return the public settings of a series, as audit.json has them."""
    settings = target.settings
    return {
        "clip_norm": target.clip_norm,
        "releases": settings.releases,
        "full_releases": settings.full_releases,
    }
