"""An attacker who sees releases and nothing else: for any mechanism, through its public interface.

In:  a target and a neighbouring dataset.   Out: ε and δ as lower bounds, from many releases of both.
Each release becomes a few numbers: how likely it makes what the user wrote, how it spreads where nobody wrote anything,
how far it lies along the mean difference of the two datasets. Which number, which side of which threshold: chosen on
half of the releases, judged on the other half. With a few hundred releases ε above about 4 can't be shown.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from bayesgram.arrays import Floats
from bayesgram.audit.findings import Finding, Rates, Target, rounded_down
from bayesgram.audit.likelihood_ratio import Neighbour, neighbours
from bayesgram.choices import Attack
from bayesgram.errors import check_int
from bayesgram.privacy.budget import Budget
from bayesgram.private.counts import UserCounts
from bayesgram.public.vocabulary import public_distribution

Value = Callable[[Rates], float]


@dataclass(frozen=True)
class Rule:
    """Say "this user is in" where sign·score > threshold."""

    score: int
    sign: int
    threshold: float

    def rates(self, inside: Floats, outside: Floats) -> Rates:
        """How the rule does on scores (releases × kinds) with and without the user."""
        hits, alarms = (
            int((self.sign * side[:, self.score] > self.threshold).sum())
            for side in (inside, outside)
        )
        return Rates(hits, alarms, len(inside))


def attack(
    target: Target,
    rng: np.random.Generator,
    *,
    error: float,
    releases: int = 400,
    seeded: bool = False,
    neighbour: Neighbour | None = None,
) -> list[Finding]:
    """The attack on the user who matters most, or on a neighbour of choice; so many releases of each dataset."""
    check_int("releases", releases, 8, 10**6, "releases of each dataset")
    tried = neighbour or neighbours(target, sample=0, key=0, rng=rng)[0]
    datasets = target.counts, tried.dataset(target.counts)
    logs = [_releases(target, data, releases, rng if seeded else None) for data in datasets]
    inside, outside = _scores(target, tried, *logs)
    learn, judged = slice(releases // 4, releases // 2), slice(releases // 2, None)
    claim = target.claim
    delta, epsilon = proved(
        (inside[learn], outside[learn]), (inside[judged], outside[judged]), claim, error=error
    )
    sentence = f"from {releases // 2} releases of each: at least ε = {rounded_down(epsilon)} at δ = {claim.delta:g}"
    caught = delta > claim.delta or epsilon > claim.epsilon
    return [Finding(Attack.BLACK_BOX, tried.label, caught, sentence, delta, epsilon, releases)]


def _releases(
    target: Target, counts: UserCounts, how_many: int, rng: np.random.Generator | None
) -> Floats:
    """Log probabilities of many releases; with real noise unless a seed is asked for."""
    seeds = [None if rng is None else int(rng.integers(2**62)) for _ in range(how_many)]
    release = target.mechanism.release
    made = [
        release(counts, target.vocabulary, target.budget, seed=seed).probabilities for seed in seeds
    ]
    return np.log(np.maximum(np.stack(made), 1e-300))


def _scores(
    target: Target, neighbour: Neighbour, inside: Floats, outside: Floats
) -> tuple[Floats, Floats]:
    """Three numbers a release; what they need to learn they learn from the first quarter."""
    ngrams, numbers = neighbour.own(target.counts)
    unseen = target.counts.users_per_ngram == 0
    unseen |= unseen.sum() < 2  # too few: look at all
    prior = np.log(public_distribution(target.vocabulary.counts))
    quarter = slice(len(inside) // 4)
    along = inside[quarter].mean(axis=0) - outside[quarter].mean(axis=0)

    def numbers_of(logs: Floats) -> Floats:
        lift = logs[:, ngrams] @ (numbers / max(numbers.sum(), 1))
        spread = (logs - prior)[:, unseen].std(axis=1)
        return np.stack([lift, spread, logs @ along], axis=1)

    return numbers_of(inside), numbers_of(outside)


def proved(
    learn: tuple[Floats, Floats], judged: tuple[Floats, Floats], claim: Budget, *, error: float
) -> tuple[float, float]:
    """The δ at the claim's ε, and the ε at its δ, that rules learnt from some scores prove on others.

    Both are (inside, outside); together they are wrong with a chance of at most `error`.
    """
    half = error / 2
    values: list[Value] = [
        lambda rates: rates.delta_at_least(claim.epsilon, error=half),
        lambda rates: rates.epsilon_at_least(claim.delta, error=half),
    ]
    delta, epsilon = (value(best_rule(*learn, value).rates(*judged)) for value in values)
    return delta, epsilon


def best_rule(inside: Floats, outside: Floats, value: Value) -> Rule:
    """The rule that gets most out of these scores; ties go to the cleaner cut."""
    rules = [
        Rule(score, sign, float(threshold))
        for score in range(inside.shape[1])
        for sign in (1, -1)
        for threshold in sign * np.unique(np.concatenate([inside[:, score], outside[:, score]]))
    ]

    def worth(rule: Rule) -> tuple[float, float]:
        rates = rule.rates(inside, outside)
        return value(rates), math.log((rates.hits + 1) / (rates.alarms + 1))

    return max(rules, key=worth)
