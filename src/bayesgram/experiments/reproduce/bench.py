"""Every mechanism on one dataset: mechanisms × ε × seeds → rows.

In:  `Data`, its `Exact` sums, a measure (KL, perplexity: lower is better).   Out: `Row`s, in a fixed order.
The noise is seeded: a figure is not a publication, and can be made again. What is marked * chooses W, or S and ρ, by
the measure itself, which looks at private data: an oracle that no release could ask.
Rows are computed side by side in threads; each depends on its own seed alone, so their number changes nothing.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from enum import StrEnum
from itertools import product
from os import cpu_count
from statistics import median

import numpy as np

from bayesgram.arrays import Floats
from bayesgram.experiments.reproduce.data import Data
from bayesgram.experiments.reproduce.exact import BEST_RHOS, BEST_SLOPES, GRID, Exact
from bayesgram.mechanisms.base import Randomness
from bayesgram.mechanisms.choices import Suppressed
from bayesgram.mechanisms.k_anonymity import KAnonymity
from bayesgram.mechanisms.laplace import Laplace, LaplacePublic
from bayesgram.mechanisms.posterior import Posterior
from bayesgram.mechanisms.tuning import FOR_RELEASE, FOR_TUNING
from bayesgram.privacy.budget import Budget
from bayesgram.public.prior import centred_log, public_distribution

BEST_TOTALS = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000)  # W
SMALLEST = 1e-300  # a probability that vanished counts as this, so that every KL is finite

Measure = Callable[[Floats], float]


class Method(StrEnum):
    """What is compared; * marks an oracle."""

    POSTERIOR = "posterior"
    PAPER_TUNED = "paper, tuned by Algorithm 2"
    PAPER_BEST = "paper, best S and ρ *"
    PAPER_RANGE = "paper, best S ≥ 0.001 and ρ *"  # S as far as the paper tries it
    LAPLACE = "Laplace, W = users/1000"
    LAPLACE_BEST = "Laplace, best W *"
    LAPLACE_PUBLIC = "Laplace + public, W = users/1000"
    LAPLACE_PUBLIC_BEST = "Laplace + public, best W *"
    PUBLIC = "public text alone"
    K_ADD_ONE = "k-anonymity, add-one"
    K_PUBLIC = "k-anonymity, public"
    PRIVATE = "private counts, add-one"
    AS_PRINTED = "paper, as printed"
    COROLLARY = "paper, Corollary 1"

    @property
    def guarantee(self) -> str:
        """What its ε is worth."""
        if self.value.startswith("paper"):
            return "EMPIRICAL"
        return "NONE" if self.value.startswith(("k-", "private")) else "PROVED"

    @property
    def oracle(self) -> bool:
        """Whether its settings were chosen by looking at private data."""
        return self.value.endswith("*")


PUBLIC_AND_PRIVATE = (Method.PUBLIC, Method.PAPER_TUNED, Method.PAPER_BEST, Method.POSTERIOR)
LAPLACES = (Method.LAPLACE, Method.LAPLACE_BEST, Method.LAPLACE_PUBLIC, Method.LAPLACE_PUBLIC_BEST)


@dataclass(frozen=True)
class Row:
    """One measured number with all its settings; None where a setting does not apply."""

    method: Method
    value: float
    users: int
    vocabulary_size: int
    public_noise: float
    epsilon: float | None = None
    delta: float | None = None
    seed: int | None = None
    k: int | None = None
    max_count: int | None = None  # C
    max_total: int | None = None  # W
    slope: float | None = None  # S
    rho: float | None = None
    clip_norm: float | None = None  # Λ, chosen inside the budget
    low: float | None = None  # an interval of the value, where it has one of its own
    high: float | None = None
    ceiling: float | None = None  # what no attack can pass if the claim is true


@dataclass(frozen=True, eq=False)
class Bench:
    """One dataset, ready to be released by everything."""

    data: Data
    exact: Exact
    measure: Measure
    delta: float
    workers: int = cpu_count() or 1

    def rows(
        self, epsilons: Sequence[float], methods: Iterable[Method] = (*PUBLIC_AND_PRIVATE, *LAPLACES)
    ) -> list[Row]:
        """These mechanisms at these ε."""
        wanted = set(methods)
        found = [self._row(Method.PUBLIC, self._public, epsilon=epsilon) for epsilon in epsilons]
        if Method.POSTERIOR in wanted:
            found += self._each(self._posterior, product(epsilons, self.exact.seeds))
        if Method.PAPER_TUNED in wanted:
            found += self._each(self._tuned, product(epsilons, self.exact.seeds))
        if Method.PAPER_BEST in wanted:
            tried = self._each(self._paper, product(epsilons, self.exact.seeds, BEST_SLOPES, BEST_RHOS))
            found += best(tried, ("slope", "rho"))
            in_range = [row for row in tried if row.slope is not None and row.slope >= min(GRID.slopes)]
            found += [replace(row, method=Method.PAPER_RANGE) for row in best(in_range, ("slope", "rho"))]
        for at_w, at_best in (
            (Method.LAPLACE, Method.LAPLACE_BEST),
            (Method.LAPLACE_PUBLIC, Method.LAPLACE_PUBLIC_BEST),
        ):
            if at_w in wanted:
                found += self._laplaces(epsilons, at_w, at_best)
        return [row for row in found if row.method in wanted]

    def k_anonymity(self, ks: Sequence[int]) -> list[Row]:
        """Both ways to spread what is suppressed, for each K."""
        kinds = ((Method.K_ADD_ONE, Suppressed.ADD_ONE), (Method.K_PUBLIC, Suppressed.PUBLIC))
        return [self._row(method, self._k_anonymous(k, kind), k=k) for (method, kind), k in product(kinds, ks)]

    def private(self) -> Row:
        """The private counts themselves, add-one."""
        raised = self.exact.counts.totals + 1.0
        return self._row(Method.PRIVATE, raised / raised.sum())

    @property
    def _public(self) -> Floats:
        return public_distribution(self.data.vocabulary.counts)

    def _k_anonymous(self, k: int, kind: Suppressed) -> Floats:
        return KAnonymity(k, kind).release(self.exact.counts, self.data.vocabulary).probabilities

    def _row(self, method: Method, theta: Floats, **settings: float | None) -> Row:
        data = self.data
        value = self.measure(np.maximum(theta, SMALLEST))
        return Row(method, value, data.users, len(data.vocabulary), data.public_noise, **settings)  # type: ignore[arg-type]

    def _each(self, task: Callable[..., Row], arguments: Iterable[tuple[float, ...]]) -> list[Row]:
        with ThreadPoolExecutor(self.workers) as pool:
            return list(pool.map(lambda each: task(*each), list(arguments)))

    def _laplaces(self, epsilons: Sequence[float], at_w: Method, at_best: Method) -> Iterator[Row]:
        """At the paper's W, and at the best of the grid."""
        paper_total = self.exact.bounds[1]
        totals = sorted({*BEST_TOTALS, paper_total})
        tried = self._each(lambda *each: self._laplace(at_w, *each), product(epsilons, self.exact.seeds, totals))
        yield from (row for row in tried if row.max_total == paper_total)
        yield from (replace(row, method=at_best) for row in best(tried, ("max_total",)))

    def _laplace(self, method: Method, epsilon: float, seed: int, max_total: int) -> Row:
        mechanism = (Laplace if method == Method.LAPLACE else LaplacePublic)(max_total)
        noise = Randomness.make(seed).noise
        totals = self.exact.laplace_totals(max_total)
        theta = mechanism.sample(totals, self.data.vocabulary, Budget(epsilon), noise)
        return self._row(method, theta, epsilon=epsilon, delta=0.0, seed=seed, max_total=max_total)

    def _paper(self, epsilon: float, seed: int, slope: float, rho: float) -> Row:
        """Algorithm 1 at one (S, ρ)."""
        weighted, noise = self.exact.weighted, Randomness.make(seed).noise
        prior_logs = centred_log(self.data.vocabulary.counts)
        theta = weighted.theta(prior_logs, Budget(epsilon, self.delta), noise, slope=slope, rho=rho)
        return self._paper_row(Method.PAPER_BEST, theta, epsilon, seed, slope, rho)

    def _tuned(self, epsilon: float, seed: int) -> Row:
        """Algorithm 2 end to end."""
        rehearsal, noise = self.exact.held_out_splits[seed], Randomness.make(seed).noise
        prior_logs = centred_log(self.data.vocabulary.counts)
        for_release, for_tuning = Budget(epsilon, self.delta).split(FOR_RELEASE, FOR_TUNING)
        slope, rho = rehearsal.choose(prior_logs, for_tuning.epsilon, noise)
        budget = Budget(for_release.epsilon, self.delta)
        theta = rehearsal.others.theta(prior_logs, budget, noise, slope=slope, rho=rho)
        return self._paper_row(Method.PAPER_TUNED, theta, epsilon, seed, slope, rho)

    def _paper_row(self, method: Method, theta: Floats, epsilon: float, seed: int, slope: float, rho: float) -> Row:
        max_count, max_total = self.exact.bounds
        bounds = {"max_count": max_count, "max_total": max_total, "slope": slope, "rho": rho}
        return self._row(method, theta, epsilon=epsilon, delta=self.delta, seed=seed, **bounds)

    def _posterior(self, epsilon: float, seed: int) -> Row:
        """`Posterior` itself; the counts remember its exact sums."""
        budget = Budget(epsilon, self.delta)
        made = Posterior().distribution(self.exact.counts, self.data.vocabulary, budget, Randomness.make(seed))
        clip_norm = made.details["clip_norm_used"]
        settings = {"epsilon": epsilon, "delta": self.delta, "seed": seed, "clip_norm": clip_norm}
        return self._row(Method.POSTERIOR, made.theta, **settings)


def best(tried: Sequence[Row], settings: Sequence[str]) -> Iterator[Row]:
    """For each ε the rows of the settings with the smallest median over seeds."""
    for epsilon in dict.fromkeys(row.epsilon for row in tried):
        groups: dict[tuple[float, ...], list[Row]] = {}
        for row in (row for row in tried if row.epsilon == epsilon):
            groups.setdefault(tuple(getattr(row, name) for name in settings), []).append(row)
        yield from min(groups.values(), key=lambda rows: median(row.value for row in rows))
