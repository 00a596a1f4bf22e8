"""Algorithm 2 of the paper (EndToEndDP): choose (S, ρ) on held-out users, then release from the others.

Users are split by an independent coin each (errata E17): about 10% score, 90% are released. The score is the
cross-entropy of the scoring users' counts (Eq. 6) plus Laplace noise of scale 2|Δq|/ε₁ (E3), with one |Δq| for the
whole grid (E15). |Δq| is read from private data, so this is EMPIRICAL as well (E8).
"""

import math
from dataclasses import asdict, dataclass, field, replace
from fractions import Fraction
from itertools import product
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy.special import logsumexp

from bayesgram.arguments import check_fields
from bayesgram.arrays import Bools, Floats
from bayesgram.choices import ScoreSensitivity
from bayesgram.errors import Argument, UsageError
from bayesgram.mechanisms.base import Mechanism, Outcome, Randomness, need
from bayesgram.paper.algorithm_1 import Paper, posterior_mean
from bayesgram.paper.sensitivity import Statistics
from bayesgram.privacy.budget import Budget, Guarantee
from bayesgram.private.clipping import ClippedCounts, clip, user_keys
from bayesgram.private.counts import PrivateCounts, UserCounts, require_in_memory
from bayesgram.public.vocabulary import Vocabulary, centred_log

HELD_OUT = Fraction(1, 10)
FOR_RELEASE, FOR_TUNING = Fraction(2, 3), Fraction(1, 3)
SLOPES = tuple(10.0**power for power in range(-3, 5))  # S ∈ [10⁻³, 10⁴], as in the paper
RHOS = (0.1, 0.3, 0.5, 0.7, 0.9)  # the paper doesn't say
SPLIT_KEY = 0x5BD1E995  # sets the coin of the split apart from the subsampling to W


@dataclass(frozen=True)
class Grid:
    """The candidates, and how their scores are noised."""

    slopes: tuple[float, ...] = SLOPES
    rhos: tuple[float, ...] = RHOS
    score_sensitivity: ScoreSensitivity = ScoreSensitivity.CORRECTED

    def __post_init__(self) -> None:
        check_fields(self)
        for name, values in (("slopes", self.slopes), ("rhos", self.rhos)):
            if not values:
                raise UsageError.for_argument(name, "()", "give at least one value to choose from.")
        for slope, rho in product(self.slopes, self.rhos):
            Paper(slope=slope, rho=rho)  # refuses what can't be a setting
        if self.score_sensitivity not in set(ScoreSensitivity):
            raise UsageError.for_argument(
                "score_sensitivity",
                repr(self.score_sensitivity),
                f"choose one of {', '.join(ScoreSensitivity)}.",
            )


def held_out(counts: UserCounts, *, key: int) -> Bools:
    """Who scores: a coin a user, from the id and the run's key alone (errata E17)."""
    coins = user_keys(counts, key=key ^ SPLIT_KEY)
    return coins < np.uint64(int(HELD_OUT * 2**64))


def cross_entropy(counts: NDArray[np.integer] | Floats, logits: Floats) -> float:
    """q(c, μ) = −Σ c_i (μ_i − log Σ exp μ_j).   Eq. 6."""
    return float(-(counts * (logits - logsumexp(logits))).sum())


def lipschitz(counts: NDArray[np.integer] | Floats, kind: ScoreSensitivity) -> float:
    """How fast q moves with μ, in L2: ‖c‖₂ as published in Claim 3, or what is true (errata E8).

    ∂q/∂μ = ‖c‖₁θ − c, whose norm is largest where θ sits on the smallest count.
    """
    c = np.asarray(counts, np.float64)
    squares = float((c * c).sum())
    if kind == ScoreSensitivity.PUBLISHED:
        return math.sqrt(squares)
    return math.sqrt(squares + c.sum() ** 2 - 2 * c.sum() * c.min())


def largest_user_score(clipped: ClippedCounts, logits: Floats, kind: ScoreSensitivity) -> float:
    """max_n Σ Δcⁿ_i |log θ_i|: a scoring user's own part of q. As published, without |·|, it is ≤ 0 (errata E14)."""
    if kind == ScoreSensitivity.PUBLISHED or not clipped.ngrams.size:
        return 0.0
    losses = (logsumexp(logits) - logits)[clipped.ngrams] * clipped.counts
    sums = np.concatenate([[0.0], np.cumsum(losses)])
    return float(np.diff(sums[clipped.starts]).max())


@dataclass(frozen=True)
class Tuned:
    """What Algorithm 2 chose, and what it is chosen for: the users who do not score."""

    paper: Paper
    others: Statistics


def tune(
    counts: UserCounts,
    vocabulary: Vocabulary,
    epsilon: float,
    chance: Randomness,
    *,
    paper: Paper,
    grid: Grid,
) -> Tuned:
    """The (S, ρ) of the smallest noisy score. Only the choice may be told: the scores themselves are not covered."""
    clipped = clip(counts, max_count=paper.max_count, max_total=paper.max_total, key=chance.key)
    scoring = held_out(counts, key=chance.key)
    first, second = clipped.select(scoring), Statistics(clipped.select(~scoring))
    prior = centred_log(vocabulary.counts)
    slope_gamma = {
        slope: replace(paper, slope=slope).gamma(second) for slope in grid.slopes
    }  # ρ shares them
    steepness = lipschitz(first.totals, grid.score_sensitivity)
    scores, changes = [], []
    for slope, rho in product(grid.slopes, grid.rhos):
        mu_ps = posterior_mean(second, prior, slope=slope, rho=rho)
        scores.append(cross_entropy(first.totals, mu_ps))
        by_release = rho * steepness * slope_gamma[slope]  # ‖Δμ_ps‖ = ρ γ
        changes.append(max(by_release, largest_user_score(first, mu_ps, grid.score_sensitivity)))
    noisy = chance.noise.laplace(np.array(scores), scale=2 * max(changes) / epsilon)
    slope, rho = list(product(grid.slopes, grid.rhos))[int(np.argmin(noisy))]
    return Tuned(replace(paper, slope=slope, rho=rho), second)


@dataclass(frozen=True)
class TunedPaper(Mechanism):
    """Algorithm 2 end to end: ε/3 chooses (S, ρ), 2ε/3 releases; ε adds up (basic composition, errata E9)."""

    name: ClassVar[str] = "paper-tuned"
    guarantee: ClassVar[Guarantee] = Guarantee.EMPIRICAL
    statement: ClassVar[str] = Paper.statement

    paper: Paper = field(default_factory=Paper)
    grid: Grid = field(default_factory=Grid)

    def __post_init__(self) -> None:
        check_fields(self)

    def settings(self) -> dict[str, Any]:
        """Those of Algorithm 1 but S and ρ, which are chosen, and the grid they are chosen from."""
        knobs = self.paper.settings()
        grid = {**asdict(self.grid), "slopes": list(self.grid.slopes), "rhos": list(self.grid.rhos)}
        return {name: knobs[name] for name in knobs if name not in {"slope", "rho"}} | grid

    def check_inputs(self, counts: PrivateCounts, vocabulary: Vocabulary) -> None:
        """Algorithm 2 splits the users in memory."""
        require_in_memory(counts, Argument("mechanism", self.name))
        super().check_inputs(counts, vocabulary)

    def distribution(
        self,
        counts: PrivateCounts,
        vocabulary: Vocabulary,
        budget: Budget | None,
        chance: Randomness,
    ) -> Outcome:
        """Choose on the scoring users, release from the others."""
        here = require_in_memory(counts, Argument("mechanism", self.name))
        whole = need(budget, self.name)
        release_epsilon, tuning_epsilon = (
            part.epsilon for part in whole.split(FOR_RELEASE, FOR_TUNING)
        )
        tuned = tune(here, vocabulary, tuning_epsilon, chance, paper=self.paper, grid=self.grid)
        theta = tuned.paper.sample(
            tuned.others, vocabulary, Budget(release_epsilon, whole.delta), chance
        )
        found = {"slope": tuned.paper.slope, "rho": tuned.paper.rho}
        parts = {"epsilon_tuning": tuning_epsilon, "epsilon_release": release_epsilon}
        return Outcome(theta, {**found, **parts})
