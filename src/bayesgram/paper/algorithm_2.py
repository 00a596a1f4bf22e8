"""Algorithm 2 of the paper (EndToEndDP): choose (S, ρ) on held-out users, release from the others.

Users are split by an independent coin each (errata E17): about 10% score, 90% are released. The
score is the cross-entropy of the scoring users' counts (Eq. 6) plus Laplace noise of scale
2|Δq|/ε₁ (E3), with one |Δq| for the whole grid (E15). |Δq| is read from private data, so this is
EMPIRICAL as well (E8). Errata are numbered as in docs/errata.md.
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
from bayesgram.mechanisms.base import CountsMechanism, Outcome, Randomness, require_budget
from bayesgram.paper.algorithm_1 import Paper, posterior_mean
from bayesgram.paper.sensitivity import Statistics
from bayesgram.privacy.budget import Budget, Guarantee
from bayesgram.private.clipping import ClippedCounts, clip, user_keys
from bayesgram.private.counts import PrivateCounts, UserCounts, require_in_memory
from bayesgram.public.vocabulary import Vocabulary, centred_log

SCORING_SHARE = Fraction(1, 10)  # of the users, as in the paper
RELEASE_SHARE = Fraction(2, 3)  # of ε, as in the paper
TUNING_SHARE = Fraction(1, 3)
SLOPES = tuple(10.0**power for power in range(-3, 5))  # S ∈ [10⁻³, 10⁴], as in the paper
RHOS = (0.1, 0.3, 0.5, 0.7, 0.9)  # the paper does not say which it tries; not measured
SPLIT_KEY = 0x5BD1E995  # sets the coin of the split apart from the subsampling to W


@dataclass(frozen=True)
class Grid:
    """The candidates for S and ρ, and which sensitivity the noise on their scores follows.

    >>> len(Grid().slopes), len(Grid().rhos)
    (8, 5)
    """

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


# --- The score of a candidate ---


def scoring_users(counts: UserCounts, *, key: int) -> Bools:
    """Return who scores: a coin for each user, from the id and the run's key alone (errata E17)."""
    coins = user_keys(counts, key=key ^ SPLIT_KEY)
    return coins < np.uint64(int(SCORING_SHARE * 2**64))


def cross_entropy(counts: NDArray[np.integer] | Floats, logits: Floats) -> float:
    """Return q(c, μ) = −Σ c_i (μ_i − log Σ exp μ_j) (Eq. 6)."""
    return float(-(counts * (logits - logsumexp(logits))).sum())


def score_lipschitz(counts: NDArray[np.integer] | Floats, kind: ScoreSensitivity) -> float:
    """Return how fast q moves with μ, in L2: ‖c‖₂ as published in Claim 3, or what is true (E8).

    ∂q/∂μ = ‖c‖₁θ − c, whose norm is largest where θ sits on the smallest count.
    """
    c = np.asarray(counts, np.float64)
    squares = float((c * c).sum())
    if kind == ScoreSensitivity.PUBLISHED:
        return math.sqrt(squares)
    return math.sqrt(squares + c.sum() ** 2 - 2 * c.sum() * c.min())


def largest_user_score(clipped: ClippedCounts, logits: Floats, kind: ScoreSensitivity) -> float:
    """Return max_n Σ Δcⁿ_i |log θ_i|, the largest part of q that one scoring user has.

    As published, without |·|, it is ≤ 0 (errata E14).

    Args:
        clipped: The counts of the scoring users.
        logits: μ_ps of the candidate.
        kind: As published, or corrected.
    """
    if kind == ScoreSensitivity.PUBLISHED or not clipped.ngrams.size:
        return 0.0
    losses = (logsumexp(logits) - logits)[clipped.ngrams] * clipped.counts
    sums = np.concatenate([[0.0], np.cumsum(losses)])
    return float(np.diff(sums[clipped.starts]).max())


# --- Choosing, and releasing ---


@dataclass(frozen=True)
class TuningResult:
    """What Algorithm 2 chose, and what it is chosen for."""

    paper: Paper  # with the chosen S and ρ
    others: Statistics  # of the users who do not score


def tune(
    counts: UserCounts,
    vocabulary: Vocabulary,
    epsilon: float,
    randomness: Randomness,
    *,
    paper: Paper,
    grid: Grid,
) -> TuningResult:
    """Choose the (S, ρ) of the smallest noisy score.

    Only the choice may be published: the scores themselves are not covered.

    Args:
        counts: Of all users.
        vocabulary: With the public counts of the prior.
        epsilon: The part of the budget that the choice costs.
        randomness: The noise, and the key of the split and of the subsampling.
        paper: C, W and the kind of sensitivity; its S and ρ are ignored.
        grid: The candidates.
    """
    # `clip` has no row for users without a listed n-gram, so the split must not have one either.
    counts = counts.listed_only
    clipped = clip(counts, max_count=paper.max_count, max_total=paper.max_total, key=randomness.key)
    is_scoring = scoring_users(counts, key=randomness.key)
    scoring = clipped.select(is_scoring)
    others = Statistics(clipped.select(~is_scoring))
    prior_logs = centred_log(vocabulary.counts)
    gamma = {  # for each S; every ρ shares it
        slope: replace(paper, slope=slope).gamma(others) for slope in grid.slopes
    }
    lipschitz = score_lipschitz(scoring.totals, grid.score_sensitivity)
    candidates = list(product(grid.slopes, grid.rhos))
    scores = []
    sensitivities = []
    for slope, rho in candidates:
        mu_ps = posterior_mean(others, prior_logs, slope=slope, rho=rho)
        scores.append(cross_entropy(scoring.totals, mu_ps))
        by_other_user = rho * lipschitz * gamma[slope]  # ‖Δμ_ps‖ = ρ γ
        by_scoring_user = largest_user_score(scoring, mu_ps, grid.score_sensitivity)
        sensitivities.append(max(by_other_user, by_scoring_user))
    scale = 2 * max(sensitivities) / epsilon
    noisy_scores = randomness.noise.laplace(np.array(scores), scale=scale)
    slope, rho = candidates[int(np.argmin(noisy_scores))]
    return TuningResult(replace(paper, slope=slope, rho=rho), others)


@dataclass(frozen=True)
class TunedPaper(CountsMechanism):
    """Algorithm 2 end to end: ε/3 chooses (S, ρ), 2ε/3 releases.

    ε adds up (basic composition, errata E9).

    >>> TunedPaper(Paper(max_total=100)).name
    'paper-tuned'
    """

    name: ClassVar[str] = "paper-tuned"
    guarantee: ClassVar[Guarantee] = Guarantee.EMPIRICAL
    statement: ClassVar[str] = Paper.statement
    audit_refusal: ClassVar[str | None] = (
        "its noisy scores are never shown, so an attack can't read them;"
        " audit paper with the S and ρ that were chosen."
    )

    paper: Paper = field(default_factory=Paper)  # C and W; its S and ρ are ignored
    grid: Grid = field(default_factory=Grid)

    def __post_init__(self) -> None:
        check_fields(self)

    def settings(self) -> dict[str, Any]:
        """Return those of Algorithm 1 but S and ρ, and the grid that these are chosen from."""
        settings = self.paper.settings()
        grid = {**asdict(self.grid), "slopes": list(self.grid.slopes), "rhos": list(self.grid.rhos)}
        return {name: settings[name] for name in settings if name not in {"slope", "rho"}} | grid

    def check_inputs(self, counts: PrivateCounts, vocabulary: Vocabulary) -> None:
        """Refuse counts on disk: Algorithm 2 splits the users in memory."""
        require_in_memory(counts, Argument("mechanism", self.name))
        super().check_inputs(counts, vocabulary)

    def estimate(
        self,
        counts: PrivateCounts,
        vocabulary: Vocabulary,
        budget: Budget | None,
        randomness: Randomness,
    ) -> Outcome:
        """Choose on the scoring users, release from the others."""
        user_counts = require_in_memory(counts, Argument("mechanism", self.name))
        total_budget = require_budget(budget, self.name)
        for_release, for_tuning = total_budget.split(RELEASE_SHARE, TUNING_SHARE)
        tuned = tune(
            user_counts,
            vocabulary,
            for_tuning.epsilon,
            randomness,
            paper=self.paper,
            grid=self.grid,
        )
        release_budget = Budget(for_release.epsilon, total_budget.delta)
        theta = tuned.paper.sample(tuned.others, vocabulary, release_budget, randomness)
        details = {
            "slope": tuned.paper.slope,
            "rho": tuned.paper.rho,
            "epsilon_tuning": for_tuning.epsilon,
            "epsilon_release": for_release.epsilon,
        }
        return Outcome(theta, details)
