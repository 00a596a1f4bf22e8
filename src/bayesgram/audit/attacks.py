"""Attacks on a mechanism: each takes a target and returns findings.

- `membership_attack`: the paper's own attack (its Section 5). Which of two outputs has seen the
  user with the most counts?
- `black_box_attack`: an attacker who sees releases and nothing else.
- `one_run_attack`: many made-up users (canaries) in a single run (Steinke and others 2023).
- `exposure_attack`: how much a release reveals of a secret that a user repeats (Carlini and others
  2019). Reported, not judged.
- `leaks_attack`: traces that an implementation leaves although the mathematics is right.
- `discovery_attack`: an attacker of `discover` who plants a phrase and sees what is published.

The strongest attack, by the likelihood ratio, is in `likelihood_ratio`. No attack proves privacy.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from time import perf_counter

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from scipy.special import bdtr, bdtrc, chdtrc, expit, ndtr, ndtri, stdtrit

from bayesgram.arrays import Bools, Floats, Ids, Integers
from bayesgram.audit.evaluation import kl_divergence
from bayesgram.audit.findings import (
    AuditFinding,
    AuditTarget,
    DetectionCounts,
    binomial_lower_bound,
    binomial_upper_bound,
    format_rounded_down,
    no_noise_finding,
)
from bayesgram.audit.likelihood_ratio import (
    MAX_EPSILON_SEARCHED,
    Neighbour,
    NoiseQuery,
    Transcript,
    choose_neighbours,
    record_transcript,
    replay_transcript,
)
from bayesgram.choices import Attack
from bayesgram.errors import BayesgramError, check_int
from bayesgram.inference.design import ClippingPlan
from bayesgram.inference.noisy_counts import PublicNgrams
from bayesgram.io import read_records
from bayesgram.mechanisms.base import CountsMechanism, Outcome, Randomness, normalise_counts
from bayesgram.mechanisms.discovery import DiscoveryMechanism, LocalText
from bayesgram.mechanisms.laplace import Laplace
from bayesgram.mechanisms.posterior import OrderDesign, Posterior
from bayesgram.paper.algorithm_1 import Paper, classical_sigma
from bayesgram.paper.sensitivity import Statistics
from bayesgram.privacy.budget import Budget
from bayesgram.privacy.constants import UNITS
from bayesgram.privacy.noise import ExactNoise, NoiseSource, SeededNoise
from bayesgram.private.clipping import clip, clipped_sum
from bayesgram.private.counts import PrivateCounts, UserCounts, add_users, remove_user
from bayesgram.private.order_counts import select_order
from bayesgram.public.candidate_weights import PublicTextModel
from bayesgram.public.vocabulary import Vocabulary, public_distribution, softmax

# --- Membership: the paper's attack ---

Sampler = Callable[[Budget, NoiseSource], Floats]  # draws θ at a budget


class PosteriorWithoutInference(Posterior):
    """`Posterior` with its noisy counts as output: inference after them can only take away."""

    def estimate(
        self,
        counts: PrivateCounts,
        vocabulary: Vocabulary,
        budget: Budget | None,
        randomness: Randomness,
    ) -> Outcome:
        """Return the noisy counts of the longest n-grams as a distribution."""
        return Outcome(
            normalise_counts(self.measure(counts, vocabulary, budget, randomness)[0][-1].counts)
        )


@dataclass(frozen=True)
class WinRate:
    """How often the membership attack won at one budget."""

    epsilon: float
    delta: float
    wins: float  # a tie is half a win
    pairs: int
    rate: float
    low: float  # Clopper–Pearson; both bounds together are wrong with the stated error
    high: float
    ceiling: float  # what no attack on pairs can pass if the claim is true


def membership_attack(
    target: AuditTarget, rng: np.random.Generator, *, error: float, pairs: int
) -> list[AuditFinding]:
    """Run the paper's attack at the claimed budget.

    An attacker who always loses has only to say the opposite: that refutes the claim as well.

    Args:
        target: What is attacked.
        rng: Seeds the outputs.
        error: The probability that the interval of the win rate is wrong.
        pairs: How many pairs of outputs are compared.
    """
    seed = int(rng.integers(2**62))
    [result] = win_rates(
        target.counts,
        target.vocabulary,
        target.mechanism,
        [target.claim],
        pairs=pairs,
        seed=seed,
        error=error,
    )
    refutes_claim = max(result.low, 1 - result.high) > result.ceiling
    sentence = (
        f"wins {result.rate:.3f} ({result.low:.3f} to {result.high:.3f}) of {pairs:,} pairs;"
        f" if the claim is true, at most {result.ceiling:.3f} and at least {1 - result.ceiling:.3f}"
    )
    neighbour = "without the user with the most counts"
    return [AuditFinding(Attack.MEMBERSHIP, neighbour, refutes_claim, sentence, samples=pairs)]


def win_rates(
    counts: UserCounts,
    vocabulary: Vocabulary,
    mechanism: CountsMechanism,
    budgets: Sequence[Budget],
    *,
    pairs: int,
    seed: int,
    error: float = 0.05,
) -> list[WinRate]:
    """Return how often KL(p_u ‖ θ_D) < KL(p_u ‖ θ_{D−u}), u being the user with the most counts.

    Args:
        counts: The dataset D.
        vocabulary: Of the counts.
        mechanism: What draws θ.
        budgets: The attack is run at each of them.
        pairs: How many pairs of outputs are compared at each budget.
        seed: Of the noise and of the subsampling.
        error: The probability that an interval is wrong.
    """
    check_int("pairs", pairs, 1, 10**7, "pairs of outputs")
    counts = counts.listed_only
    user = user_with_most_counts(counts)
    rows = slice(counts.starts[user], counts.starts[user + 1])
    user_counts = np.zeros(counts.vocabulary_size, np.int64)
    user_counts[counts.ngrams[rows]] = counts.counts[rows]
    noise_seed, key = (
        int(word) for word in np.random.SeedSequence(seed).generate_state(2, np.uint64)
    )
    noise = SeededNoise(noise_seed)
    samplers = [
        make_sampler(mechanism, dataset, vocabulary, key)
        for dataset in (counts, remove_user(counts, user))
    ]
    return [
        _win_rate(
            samplers,
            user_counts,
            budget,
            noise,
            pairs,
            error,
            win_rate_ceiling(mechanism, vocabulary, budget),
        )
        for budget in budgets
    ]


def _win_rate(
    samplers: Sequence[Sampler],
    user_counts: NDArray[np.int64],
    budget: Budget,
    noise: NoiseSource,
    pairs: int,
    error: float,
    ceiling: float,
) -> WinRate:
    wins = 0.0
    for _ in range(pairs):
        kl_with, kl_without = (
            kl_divergence(user_counts, sample(budget, noise)) for sample in samplers
        )
        wins += 0.5 * (kl_with <= kl_without) + 0.5 * (kl_with < kl_without)
    low = binomial_lower_bound(wins, pairs, error=error / 2)
    high = binomial_upper_bound(wins, pairs, error=error / 2)
    return WinRate(budget.epsilon, budget.delta, wins, pairs, wins / pairs, low, high, ceiling)


def user_with_most_counts(counts: UserCounts) -> int:
    """Return the row of the user with the most counts."""
    if counts.starts.size == 1:
        raise BayesgramError("the private counts are empty: there is nobody to look for.")
    sums = np.concatenate([[0], np.cumsum(counts.counts, dtype=np.int64)])
    return int(np.argmax(np.diff(sums[counts.starts])))


def win_rate_ceiling(mechanism: CountsMechanism, vocabulary: Vocabulary, budget: Budget) -> float:
    """Return the most that any attack on pairs wins if the claim is true (errata E13).

    Gaussian noise at a distance of d standard deviations: Φ(d/√2). Pure ε: randomised response wins
    e^ε/(1 + e^ε).

    Args:
        mechanism: What is attacked.
        vocabulary: The n-grams of the counts.
        budget: The claimed ε and δ.
    """
    if isinstance(mechanism, Paper):  # as if σ were the same for both datasets
        distance = budget.epsilon / math.sqrt(2 * math.log(1.25 / budget.delta))
        return float(ndtr(distance / math.sqrt(2)))
    spend = mechanism.spend(vocabulary, budget)
    if spend.pure_epsilon:
        return float(expit(spend.pure_epsilon))
    return float(ndtr(math.sqrt(spend.inverse_variance / 2)))


def make_sampler(
    mechanism: CountsMechanism, counts: UserCounts, vocabulary: Vocabulary, key: int
) -> Sampler:
    """Return a function that draws θ; what does not depend on the noise is computed once.

    Args:
        mechanism: What draws θ.
        counts: The dataset.
        vocabulary: The n-grams of the counts.
        key: The key of the subsampling.
    """
    if isinstance(mechanism, Paper):
        return _paper_sampler(mechanism, counts, vocabulary, key)
    if isinstance(mechanism, Laplace):
        totals = clip(counts, max_count=None, max_total=mechanism.max_total, key=key).totals
        return lambda budget, noise: mechanism.sample(totals, vocabulary, budget, noise)
    if isinstance(mechanism, PosteriorWithoutInference) and mechanism.clip_norm:
        return _noisy_counts_sampler(mechanism, counts, vocabulary, mechanism.clip_norm)
    return lambda budget, noise: (
        mechanism.estimate(counts, vocabulary, budget, Randomness(noise, key)).theta
    )


def _noisy_counts_sampler(
    mechanism: PosteriorWithoutInference,
    counts: UserCounts,
    vocabulary: Vocabulary,
    clip_norm: float,
) -> Sampler:
    """With a given clip norm, only the scale of the noise follows the budget."""
    designs = [OrderDesign(PublicNgrams.of(part)) for _, part in vocabulary.by_order]
    design = designs[-1]  # all orders are measured alike; the attack looks at the longest
    coordinates = design.coordinates(ClippingPlan.fixed(clip_norm))
    order_counts = select_order(counts, [each.size for each in designs], len(designs) - 1)
    total = clipped_sum(order_counts, coordinates, clip_norm=clip_norm)

    def sample(budget: Budget, noise: NoiseSource) -> Floats:
        sigma = mechanism.calibrate(vocabulary, budget).multiplier_for_share(1 / len(designs))
        noisy = noise.discrete_gaussian(total, scale=sigma * UNITS)
        return normalise_counts(
            design.decode_counts(noisy, coordinates, sigma, clip_norm)[0].counts
        )

    return sample


def _paper_sampler(paper: Paper, counts: UserCounts, vocabulary: Vocabulary, key: int) -> Sampler:
    statistics = Statistics(
        clip(counts, max_count=paper.max_count, max_total=paper.max_total, key=key)
    )
    gamma = paper.gamma(statistics)
    mean = paper.mean(statistics, vocabulary)

    def sample(budget: Budget, noise: NoiseSource) -> Floats:
        if paper.rho == 0:  # public text alone, as in `Paper.sample`
            return softmax(mean)
        sigma = classical_sigma(gamma, rho=paper.rho, budget=budget)
        return softmax(noise.gaussian(mean, scale=sigma))

    return sample


# --- Black box: an attacker who sees releases ---

Objective = Callable[[DetectionCounts], float]  # what a rule is chosen for


@dataclass(frozen=True)
class ThresholdRule:
    """Says "this user is in" where sign · score > threshold."""

    score: int  # the column of the scores
    sign: int
    threshold: float

    def count_detections(self, inside: Floats, outside: Floats) -> DetectionCounts:
        """Apply the rule to scores (releases × kinds) with and without the user."""
        hits, false_alarms = (
            int((self.sign * scores[:, self.score] > self.threshold).sum())
            for scores in (inside, outside)
        )
        return DetectionCounts(hits, false_alarms, len(inside))


def black_box_attack(
    target: AuditTarget,
    rng: np.random.Generator,
    *,
    error: float,
    releases: int = 400,
    seeded: bool = False,
    neighbour: Neighbour | None = None,
) -> list[AuditFinding]:
    """Attack any mechanism through its public interface, from many releases of two datasets.

    Each release becomes a few numbers: how likely it makes what the user wrote, how it spreads
    where nobody wrote anything, how far it lies along the mean difference of the two datasets.
    Which number, and which side of which threshold, is chosen on half of the releases and judged
    on the other half. With a few hundred releases no ε above about 4 can be shown.

    Args:
        target: What is attacked.
        rng: Chooses the neighbour, and seeds the releases if `seeded`.
        error: The probability that the bounds are wrong.
        releases: How many of each dataset.
        seeded: Whether the noise is seeded; else it is real.
        neighbour: The second dataset; by default without the most influential user.
    """
    check_int("releases", releases, 8, 10**6, "releases of each dataset")
    attacked = neighbour or choose_neighbours(target, random_users=0, key=0, rng=rng)[0]
    noise_rng = rng if seeded else None
    logs = [
        _release_log_probabilities(target, dataset, releases, noise_rng)
        for dataset in (target.counts, attacked.apply(target.counts))
    ]
    inside, outside = _release_scores(target, attacked, *logs)
    learning = slice(releases // 4, releases // 2)
    judging = slice(releases // 2, None)
    claim = target.claim
    delta, epsilon = bounds_by_threshold(
        (inside[learning], outside[learning]),
        (inside[judging], outside[judging]),
        claim,
        error=error,
    )
    sentence = (
        f"from {releases // 2} releases of each: at least ε = {format_rounded_down(epsilon)}"
        f" at δ = {claim.delta:g}"
    )
    refutes_claim = delta > claim.delta or epsilon > claim.epsilon
    return [
        AuditFinding(
            Attack.BLACK_BOX, attacked.label, refutes_claim, sentence, delta, epsilon, releases
        )
    ]


def _release_log_probabilities(
    target: AuditTarget, counts: UserCounts, releases: int, rng: np.random.Generator | None
) -> Floats:
    """Return the log probabilities of many releases; without a generator, of real noise."""
    seeds = [None if rng is None else int(rng.integers(2**62)) for _ in range(releases)]
    release = target.mechanism.release
    probabilities = [
        release(counts, target.vocabulary, target.budget, seed=seed).probabilities for seed in seeds
    ]
    return np.log(np.maximum(np.stack(probabilities), 1e-300))


def _release_scores(
    target: AuditTarget, neighbour: Neighbour, inside: Floats, outside: Floats
) -> tuple[Floats, Floats]:
    """Return three numbers for each release; what they must learn, they learn from a quarter."""
    ngrams, user_counts = neighbour.user_row(target.counts)
    unseen = target.counts.users_per_ngram == 0
    unseen |= unseen.sum() < 2  # too few: look at all
    prior_logs = np.log(public_distribution(target.vocabulary.counts))
    quarter = slice(len(inside) // 4)
    mean_difference = inside[quarter].mean(axis=0) - outside[quarter].mean(axis=0)

    def scores(logs: Floats) -> Floats:
        likelihood = logs[:, ngrams] @ (user_counts / max(user_counts.sum(), 1))
        spread = (logs - prior_logs)[:, unseen].std(axis=1)
        return np.stack([likelihood, spread, logs @ mean_difference], axis=1)

    return scores(inside), scores(outside)


def bounds_by_threshold(
    learning: tuple[Floats, Floats], judging: tuple[Floats, Floats], claim: Budget, *, error: float
) -> tuple[float, float]:
    """Return the δ at the claim's ε, and the ε at its δ, that threshold rules prove.

    Args:
        learning: Scores with and without the user, from which rules are chosen.
        judging: Other scores, on which they are judged.
        claim: The claimed ε and δ.
        error: The probability that either bound is wrong.
    """
    half = error / 2
    objectives: list[Objective] = [
        lambda detections: detections.delta_lower_bound(claim.epsilon, error=half),
        lambda detections: detections.epsilon_lower_bound(claim.delta, error=half),
    ]
    delta, epsilon = (
        objective(best_rule(*learning, objective).count_detections(*judging))
        for objective in objectives
    )
    return delta, epsilon


def best_rule(inside: Floats, outside: Floats, objective: Objective) -> ThresholdRule:
    """Return the rule with the largest objective; ties go to the cleaner cut.

    Args:
        inside: Scores of releases with the user (releases × kinds).
        outside: Scores of releases without the user.
        objective: What a rule is chosen for.
    """
    rules = [
        ThresholdRule(score, sign, float(threshold))
        for score in range(inside.shape[1])
        for sign in (1, -1)
        for threshold in sign * np.unique(np.concatenate([inside[:, score], outside[:, score]]))
    ]

    def rank(rule: ThresholdRule) -> tuple[float, float]:
        detections = rule.count_detections(inside, outside)
        log_ratio = math.log((detections.hits + 1) / (detections.false_alarms + 1))
        return objective(detections), log_ratio

    return max(rules, key=rank)


# --- One run: many canaries at once ---

MAX_CANARIES = 1000  # made-up users of one run; not measured
# Shares of the canaries that are guessed: the surest ones, more, all. Not measured.
GUESSED_SHARES = (0.02, 0.1, 0.5)
# Occurrences of a canary's n-gram: above every clip bound, so that a canary has the largest
# influence that is allowed.
CANARY_COUNT = 1_000_000


def one_run_attack(
    target: AuditTarget,
    rng: np.random.Generator,
    *,
    error: float,
    noise: NoiseSource | None = None,
) -> list[AuditFinding]:
    """Bound ε from one run (Steinke, Nasr, Jagielski, "Privacy Auditing with One Training Run").

    Each canary is a made-up user with an n-gram that few users have, in or out by a coin. The
    attacker sees the noisy answers, subtracts what they would be without any canary, and says "in"
    of the highest, "out" of the lowest, nothing of the rest. If the run is (ε, δ)-private, each
    guess is right with at most the probability of randomised response (their Theorem 5.2). Cheap,
    and weak: it shows noise that is far too small, not noise that is a little too small.

    Args:
        target: What is attacked.
        rng: Draws the coins, and the noise if none is given.
        error: The probability that the bound is wrong.
        noise: The source of the run's noise.
    """
    size = min(MAX_CANARIES, len(target.vocabulary))
    rarest = np.argsort(target.counts.users_per_ngram, kind="stable")[:size].astype(np.int32)
    is_in = rng.random(size) < 0.5
    canary_rows = [
        (rarest[at : at + 1], np.array([CANARY_COUNT], np.int32)) for at in np.flatnonzero(is_in)
    ]
    key = int(rng.integers(2**63))
    dataset = add_users(target.counts, canary_rows)
    transcript = record_transcript(
        target, dataset, noise or SeededNoise(int(rng.integers(2**63))), key
    )
    if not transcript:
        return [no_noise_finding(Attack.ONE_RUN)]
    without_canaries = replay_transcript(target, target.counts, transcript, key)
    # The last answer holds the n-grams, whatever comes before.
    lifts = (transcript[-1].answer - without_canaries[-1].values)[rarest]
    delta = target.claim.delta
    epsilon = epsilon_by_guessing(lifts.astype(np.float64), is_in, delta, error=error)
    sentence = (
        f"{size:,} canaries in one run: at least ε = {format_rounded_down(epsilon)}"
        f" at δ = {delta:g}"
    )
    refutes_claim = epsilon > target.claim.epsilon
    neighbour = "with made-up users, each by a coin"
    return [AuditFinding(Attack.ONE_RUN, neighbour, refutes_claim, sentence, None, epsilon, size)]


def epsilon_by_guessing(lifts: Floats, is_in: Bools, delta: float, *, error: float) -> float:
    """Return the best bound on ε over a few numbers of guesses, which share the error.

    Args:
        lifts: How much each canary's noisy answer exceeds what it would be without canaries.
        is_in: Which canaries are in the data.
        delta: The claimed δ.
        error: The probability that the bound is wrong.
    """
    order = np.argsort(lifts)
    bounds = []
    for share in GUESSED_SHARES:
        guesses_of_side = max(1, round(share * order.size / 2))
        right_in = is_in[order[-guesses_of_side:]].sum()
        right_out = (~is_in[order[:guesses_of_side]]).sum()
        bounds.append(
            one_run_epsilon(
                order.size,
                2 * guesses_of_side,
                int(right_in + right_out),
                delta,
                error=error / len(GUESSED_SHARES),
            )
        )
    return max(bounds)


def one_run_epsilon(
    canaries: int, guesses: int, right: int, delta: float, *, error: float
) -> float:
    """Return the largest ε that so many right guesses rule out.

    Args:
        canaries: How many there were, in and out together.
        guesses: Of how many of them the attacker said something.
        right: How many guesses were right.
        delta: The claimed δ.
        error: The probability that the bound is wrong.
    """
    if one_run_p_value(canaries, guesses, right, 0.0, delta) > error:
        return 0.0
    low = 0.0
    high = MAX_EPSILON_SEARCHED
    while high - low > 1e-6:
        middle = (low + high) / 2
        if one_run_p_value(canaries, guesses, right, middle, delta) <= error:
            low = middle
        else:
            high = middle
    return low


def one_run_p_value(canaries: int, guesses: int, right: int, epsilon: float, delta: float) -> float:
    """Return the probability of so many right guesses if the run is (ε, δ)-private.

    It is β + 2 m δ α (Steinke and others, Corollary 5.4), with β = P(X ≥ v), α = max over i of
    P(v > X ≥ v − i)/i, X ~ Binomial(r, e^ε/(1 + e^ε)).

    Args:
        canaries: m, in and out together.
        guesses: r, of how many canaries the attacker said something.
        right: v, how many of these guesses were right.
        epsilon: Of the claim.
        delta: Of the claim.

    >>> round(one_run_p_value(1000, 100, 75, 0.0, 0.0), 9)
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


# --- Exposure: a secret that one user repeats ---

# Chosen by hand; none of them was measured.
REPETITIONS = (1, 10, 100, 1000)  # how often a user tells their secret
SECRETS_PER_RELEASE = 20  # of different users, planted at once
MAX_COMPARABLE = 1000  # n-grams that a secret is ranked among
CHANCE_EXPOSURE = 1 / math.log(2)  # bits: the mean exposure of a secret that does not show


@dataclass(frozen=True)
class Exposure:
    """Bits that a release reveals of a secret, on average over secrets."""

    repetitions: int
    bits: float
    low: float
    high: float
    max_bits: float  # log₂ of how many n-grams the secret is ranked among


def exposure_attack(
    target: AuditTarget, rng: np.random.Generator, *, error: float, seeded: bool = False
) -> list[AuditFinding]:
    """Report the exposure for each number of repetitions; never refutes a claim.

    Args:
        target: What is attacked.
        rng: Draws the secrets, and seeds the releases if `seeded`.
        error: The probability that an interval is wrong, all together.
        seeded: Whether the noise is seeded; else it is real.
    """
    epsilon, _ = target.mechanism.check_budget(target.budget)
    promise = (
        ""
        if epsilon is None
        else f", at most {(1 + epsilon) * CHANCE_EXPOSURE:.2f} if the claim is true"
    )
    return [
        AuditFinding(
            Attack.EXPOSURE,
            f"with users who tell a secret {exposure.repetitions:,}×",
            refutes_claim=False,
            sentence=(
                f"{exposure.bits:.2f} bits ({exposure.low:.2f} to {exposure.high:.2f}) of"
                f" {exposure.max_bits:.1f}; chance alone {CHANCE_EXPOSURE:.2f}{promise}"
            ),
            samples=SECRETS_PER_RELEASE,
        )
        for exposure in measure_exposures(
            target, rng, error=error / len(REPETITIONS), seeded=seeded
        )
    ]


def measure_exposures(
    target: AuditTarget,
    rng: np.random.Generator,
    *,
    repetitions: Sequence[int] = REPETITIONS,
    error: float = 0.05,
    seeded: bool = False,
) -> list[Exposure]:
    """Make one release for each number of repetitions, and measure the exposure of planted secrets.

    A secret is an n-gram of the public vocabulary that nobody uses, drawn at random among such
    n-grams of similar public frequency. In the release its lift θ/π has a rank among all of these;
    exposure = log₂(how many) − log₂(rank). Where the secret does not show, the rank is uniform and
    the exposure is 1.44 bits on average; where ε and δ are true, it is at most
    (1 + ε)/ln 2 + δ log₂(how many).

    Args:
        target: What is attacked.
        rng: Draws the secrets, breaks ties, and seeds the releases if `seeded`.
        repetitions: How often a user tells their secret.
        error: The probability that an interval does not hold the mean.
        seeded: Whether the noise is seeded; else it is real.
    """
    comparable = comparable_ngrams(target)
    exposures = []
    for count in repetitions:
        secrets = rng.choice(
            comparable, min(SECRETS_PER_RELEASE, comparable.size // 2), replace=False
        )
        rows = [(np.array([ngram], np.int32), np.array([count], np.int32)) for ngram in secrets]
        seed = int(rng.integers(2**62)) if seeded else None
        release = target.mechanism.release(
            add_users(target.counts, rows), target.vocabulary, target.budget, seed=seed
        )
        lifts = release.probabilities / public_distribution(target.vocabulary.counts)
        ranks = _ranks(lifts[secrets], lifts[comparable], rng)
        bits = math.log2(comparable.size) - np.log2(ranks)
        mean, low, high = _student_interval(bits, error)
        exposures.append(Exposure(count, mean, low, high, math.log2(comparable.size)))
    return exposures


def comparable_ngrams(target: AuditTarget) -> Ids:
    """Return n-grams that nobody uses, of similar public frequency: the least frequent ones."""
    unseen = np.flatnonzero(target.counts.users_per_ngram == 0)
    if unseen.size < 4:
        raise BayesgramError(
            "every n-gram of the vocabulary is in use, so no secret can be planted; use a larger"
            " vocabulary."
        )
    order = np.argsort(target.vocabulary.counts[unseen], kind="stable")
    return unseen[order[:MAX_COMPARABLE]].astype(np.int32)


def _ranks(secret_lifts: Floats, all_lifts: Floats, rng: np.random.Generator) -> Floats:
    """Return 1 for the highest lift; ties are broken by chance."""
    above = (all_lifts[None, :] > secret_lifts[:, None]).sum(axis=1)
    equal = (all_lifts[None, :] == secret_lifts[:, None]).sum(axis=1)
    ranks: Floats = 1.0 + above + np.floor(rng.random(secret_lifts.size) * equal)
    return ranks


def _student_interval(values: Floats, error: float) -> tuple[float, float, float]:
    """Return the mean, and Student's interval around it."""
    mean = float(values.mean())
    size = values.size
    half_width = float(stdtrit(size - 1, 1 - error / 2) * values.std(ddof=1) / math.sqrt(size))
    return mean, mean - half_width, mean + half_width


# --- Leaks: traces of an implementation ---

# Chosen by hand; none of them was measured.
GRID_STEP = 1 << 20  # inputs are multiples of this when low bits are looked at
TIMING_SECONDS = 8.0  # the timing of runs stops after so long, but not before the fewest runs
MIN_TIMED_RUNS = 3  # of each dataset
MAX_TIMED_RUNS = 30  # of each dataset


def leaks_attack(
    target: AuditTarget,
    rng: np.random.Generator,
    *,
    error: float,
    make_noise: Callable[[], NoiseSource] = ExactNoise,
) -> list[AuditFinding]:
    """Look for repeated noise, for the input's low bits, and for a difference in time.

    The first two are judged. The time is reported, not judged: a clock is never quiet.

    Args:
        target: What is attacked.
        rng: Orders the timed runs.
        error: The probability that an honest mechanism is said to leak.
        make_noise: Makes the source of a run's noise.
    """
    key = int(rng.integers(2**63))
    runs = [record_transcript(target, target.counts, make_noise(), key) for _ in range(2)]
    if not runs[0]:
        return [no_noise_finding(Attack.LEAKS)]
    return [
        check_repeats(runs[0], runs[1], error=error / 2),
        check_low_bits(runs[0][-1], make_noise(), error=error / 2),
        *compare_times(target, rng, make_noise, key),
    ]


def check_repeats(first: Transcript, second: Transcript, *, error: float) -> AuditFinding:
    """Test whether the noise of two runs on the same input is the same or correlated.

    Args:
        first: The transcript of one run.
        second: The transcript of another run.
        error: The probability that honest noise is said to repeat.
    """
    noisy = [
        (query.noise, other.noise, query)
        for query, other in zip(first, second, strict=True)
        if query.scale
    ]
    is_repeated = any(
        bool((noise == other).all()) and repeat_probability(query) < error
        for noise, other, query in noisy
    )
    limit = float(-ndtri(error / (2 * max(len(noisy), 1))))
    deviations = [
        correlation(noise, other) * math.sqrt(noise.size)
        for noise, other, _ in noisy
        if noise.size > 30
    ]
    largest = max((abs(deviation) for deviation in deviations), default=0.0)
    refutes_claim = is_repeated or largest > limit
    if is_repeated:
        sentence = "two runs gave the same noise twice"
    elif refutes_claim:
        sentence = f"two runs gave noise correlated by {largest:.1f} standard deviations"
    else:
        sentence = "two runs gave unrelated noise"
    samples = sum(noise.size for noise, _, _ in noisy)
    return AuditFinding(Attack.LEAKS, "no change", refutes_claim, sentence, samples=samples)


def repeat_probability(query: NoiseQuery) -> float:
    """Return a bound on the probability that two honest runs add the same noise."""
    if not query.is_integer:
        return 0.0
    return float(min(1.0, 0.5 / query.scale) ** query.values.size)


def correlation(first: Floats | Integers, second: Floats | Integers) -> float:
    """Return the correlation of two noises, whose means are 0."""
    a = first.astype(np.float64)
    b = second.astype(np.float64)
    norms = float(np.linalg.norm(a) * np.linalg.norm(b))
    return float(a @ b) / norms if norms else 0.0


def check_low_bits(query: NoiseQuery, noise: NoiseSource, *, error: float) -> AuditFinding:
    """Test by χ² whether the low bits of noisy integers are uniform.

    All inputs are multiples of 2²⁰, so bits that are not uniform show the input's grid.

    Args:
        query: A query of a run: how many values, and how much noise.
        noise: The source of the noise.
        error: The probability that honest noise is said to leak.
    """
    # Noise that is spread over 64 residues and more hides the rest.
    bits = min(8, int(math.log2(max(query.scale, 1)) - 6))
    if not query.is_integer or bits < 1:
        return AuditFinding(
            Attack.LEAKS,
            "no change",
            refutes_claim=False,
            sentence="low bits not looked at: there are none to hide",
        )
    grid = np.arange(query.values.size, dtype=np.int64) * GRID_STEP
    draw = noise.discrete_gaussian if query.law == "gaussian" else noise.discrete_laplace
    noisy = draw(grid, scale=query.scale)
    histogram = np.bincount(noisy & ((1 << bits) - 1), minlength=1 << bits)
    expected = grid.size / histogram.size
    statistic = float(((histogram - expected) ** 2 / expected).sum())
    p_value = float(chdtrc(histogram.size - 1, statistic))
    refutes_claim = p_value < error and expected >= 5  # with fewer, χ² is not the distribution
    verb = "show" if refutes_claim else "do not show"
    sentence = f"the low {bits} bits of noisy integers {verb} the input's grid"
    return AuditFinding(
        Attack.LEAKS, "inputs on a grid of 2²⁰", refutes_claim, sentence, samples=grid.size
    )


def compare_times(
    target: AuditTarget, rng: np.random.Generator, make_noise: Callable[[], NoiseSource], key: int
) -> list[AuditFinding]:
    """Report how long runs take with and without the user with the most counts, in turn.

    Args:
        target: What is attacked.
        rng: Orders the runs.
        make_noise: Makes the source of a run's noise.
        key: The key of the subsampling.
    """
    if target.counts.starts.size == 1:
        return []
    user = user_with_most_counts(target.counts)
    datasets = target.counts, remove_user(target.counts, user)
    times: tuple[list[float], list[float]] = ([], [])
    begin = perf_counter()
    while len(times[0]) < MIN_TIMED_RUNS or (
        perf_counter() - begin < TIMING_SECONDS and len(times[0]) < MAX_TIMED_RUNS
    ):
        for side in rng.permutation(2):
            randomness = Randomness(make_noise(), key)
            start = perf_counter()
            target.mechanism.measure(datasets[side], target.vocabulary, target.budget, randomness)
            times[side].append(perf_counter() - start)
    difference, low, high = relative_difference(np.array(times[0]), np.array(times[1]))
    sentence = (
        f"time differs by {difference:+.1%} ({low:+.1%} to {high:+.1%}): reported, not judged"
    )
    return [
        AuditFinding(
            Attack.LEAKS,
            "without the user with the most counts",
            refutes_claim=False,
            sentence=sentence,
            samples=2 * len(times[0]),
        )
    ]


def relative_difference(with_user: Floats, without: Floats) -> tuple[float, float, float]:
    """Return the mean relative difference of paired times, with Student's 95% interval.

    The interval is wide when the machine has other things to do.
    """
    log_ratios = np.log(with_user / without)
    mean, low, high = _student_interval(log_ratios, error=0.05)
    return math.expm1(mean), math.expm1(low), math.expm1(high)


# --- Discovery: a planted phrase ---

USER_COLUMN = "user"
TEXT_COLUMN = "text"
MEMORY_BYTES = 1 << 28  # that one discovery may hold; not measured


@dataclass(frozen=True)
class Canary:
    """A phrase that is nowhere else, and how many people write it, each nothing else."""

    phrase: str
    writers: int

    def plant(self, people: pa.Table, *, with_last: bool) -> pa.Table:
        """Return the people and those who write the phrase, with or without the last of these."""
        writers = range(self.writers if with_last else self.writers - 1)
        users = pa.array([f"canary {writer}" for writer in writers], pa.string())
        texts = pa.array([self.phrase] * len(writers), pa.string())
        return pa.concat_tables([people, pa.table({USER_COLUMN: users, TEXT_COLUMN: texts})])


def discovery_attack(
    mechanism: DiscoveryMechanism,
    public: PublicTextModel,
    people: pa.Table,
    canary: Canary,
    rng: np.random.Generator,
    *,
    error: float,
    runs: int = 400,
    seeded: bool = False,
) -> AuditFinding:
    """Attack `discover` from what it publishes, in worlds that differ by one writer of a phrase.

    With one writer the phrase exists in one world alone; with as many as the threshold asks for,
    one writer more matters most. From each discovery the attacker takes the weight of the phrase,
    the weight of all that the user wrote, and how many n-grams came out altogether. Which number,
    and which side of which threshold, is chosen on half of the discoveries and judged on the other
    half.

    Args:
        mechanism: With its public settings.
        public: The public text.
        people: A table with the columns user and text.
        canary: The phrase, and how many write it.
        rng: Seeds the noise if `seeded`.
        error: The probability that the bounds are wrong.
        runs: How many discoveries of each world.
        seeded: Whether the noise is seeded; else it is real.
    """
    check_int("writers", canary.writers, 1, 10**6, "people who write the phrase")
    check_int("runs", runs, 8, 10**6, "discoveries of each dataset")
    noise_rng = rng if seeded else None
    inside, outside = (
        _discovery_scores(
            mechanism, public, canary.plant(people, with_last=with_last), canary, noise_rng, runs
        )
        for with_last in (True, False)
    )
    learning = slice(runs // 2)
    judging = slice(runs // 2, None)
    claim = mechanism.budget
    delta, epsilon = bounds_by_threshold(
        (inside[learning], outside[learning]),
        (inside[judging], outside[judging]),
        claim,
        error=error,
    )
    times_with, times_without = (int((scores[:, 0] > 0).sum()) for scores in (inside, outside))
    sentence = (
        f"the phrase came out of {times_with} of {runs} discoveries with the user and of"
        f" {times_without} without: at least ε = {format_rounded_down(epsilon)}"
        f" at δ = {claim.delta:g}"
    )
    label = f"one of {canary.writers:,} who write a phrase"
    refutes_claim = delta > claim.delta or epsilon > claim.epsilon
    return AuditFinding(Attack.BLACK_BOX, label, refutes_claim, sentence, delta, epsilon, runs)


def _discovery_scores(
    mechanism: DiscoveryMechanism,
    public: PublicTextModel,
    table: pa.Table,
    canary: Canary,
    rng: np.random.Generator | None,
    runs: int,
) -> Floats:
    """Return three numbers for each discovery (runs × kinds)."""
    scores = []
    for _ in range(runs):
        noise = ExactNoise() if rng is None else SeededNoise(int(rng.integers(2**62)))
        weights = _discovered_weights(mechanism, public, table, noise)
        scores.append(_phrase_scores(weights, canary.phrase))
    return np.array(scores)


def _discovered_weights(
    mechanism: DiscoveryMechanism, public: PublicTextModel, table: pa.Table, noise: NoiseSource
) -> dict[str, float]:
    """Run a discovery; return the noisy weight of each n-gram that came out."""
    records = read_records(table, user_column=USER_COLUMN, text_column=TEXT_COLUMN)
    text = LocalText(records, MEMORY_BYTES)
    ngrams, weights = mechanism.measure(text, public, noise, lambda: None)
    return dict(zip(ngrams.to_pylist(), weights.tolist(), strict=True))


def _phrase_scores(weights: dict[str, float], phrase: str) -> list[float]:
    words = phrase.split()
    phrase_ngrams = {
        " ".join(words[first:last])
        for first in range(len(words))
        for last in range(first + 1, len(words) + 1)
    }
    return [
        weights.get(phrase, 0.0),
        sum(weights.get(ngram, 0.0) for ngram in phrase_ngrams),
        float(len(weights)),
    ]
