"""How long a piece of work took, and the most memory the process held meanwhile.

What an experiment runs on: counts with their vocabulary, and smaller or worse versions of them.

In:  files, or a made-up crowd.   Out: `Data`; subsets of users, the head of the vocabulary, noisier public counts.
Subsets are nested and follow a keyed hash of the user's id, so they do not depend on the order of rows.

What the mechanisms read of users, without noise, made once and shared by every ε, seed and prior.

In:  counts.   Out: clipped totals for each W, w⊙x̂ and γ for each S; counts that remember their clipped sums.
All of it is private. The subsample to W is drawn once, with the first seed's key; seeds vary the noise, and the split
of Algorithm 2. So the first seed gives what `mechanism.release(..., seed=…)` gives, bit for bit, and a test says so.

Every mechanism on one dataset: mechanisms × ε × seeds → rows.

In:  `Data`, its `Exact` sums, a measure (KL, perplexity: lower is better).   Out: `Row`s, in a fixed order.
The noise is seeded: a figure is not a publication, and can be made again. What is marked * chooses W, or S and ρ, by
the measure itself, which looks at private data: an oracle that no release could ask.
Rows are computed side by side in threads; each depends on its own seed alone, so their number changes nothing.
"""

import resource
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import partial
from itertools import product
from os import cpu_count
from pathlib import Path
from statistics import median
from threading import RLock
from time import perf_counter
from typing import TypeVar

import numpy as np
import pyarrow as pa

from bayesgram.arrays import Bools, Floats, Ids, Integers
from bayesgram.choices import ScoreSensitivity, Suppressed
from bayesgram.errors import UsageError
from bayesgram.kernels import kernel
from bayesgram.mechanisms.base import Randomness
from bayesgram.mechanisms.laplace import Laplace, LaplacePublic
from bayesgram.mechanisms.posterior import Posterior
from bayesgram.paper.algorithm_1 import classical_sigma, paper_bounds
from bayesgram.paper.algorithm_2 import (
    FOR_RELEASE,
    FOR_TUNING,
    Grid,
    cross_entropy,
    held_out,
    lipschitz,
)
from bayesgram.paper.k_anonymity import KAnonymity
from bayesgram.paper.sensitivity import Statistics
from bayesgram.privacy.budget import Budget
from bayesgram.privacy.noise import NoiseSource, SeededNoise
from bayesgram.private.clipping import ClippedCounts, clip, user_keys
from bayesgram.private.counts import UserCounts
from bayesgram.private.counts_io import load_user_counts
from bayesgram.public.vocabulary import Vocabulary, centred_log, public_distribution, softmax
from bayesgram.synthetic.crowd import Crowd

STATUS, RESET = Path("/proc/self/status"), Path("/proc/self/clear_refs")


@dataclass
class Cost:
    """Filled in when the work is done."""

    seconds: float = 0.0
    peak_bytes: int = 0


@contextmanager
def metered() -> Iterator[Cost]:
    """Measure the block. Where the system can't start the peak anew, it is that of the process so far."""
    with suppress(OSError):
        RESET.write_text("5")  # Linux: the highest resident size starts again from now
    cost, start = Cost(), perf_counter()
    yield cost
    cost.seconds, cost.peak_bytes = perf_counter() - start, _peak()


def _peak() -> int:
    with suppress(OSError, StopIteration):
        line = next(line for line in STATUS.read_text().splitlines() if line.startswith("VmHWM:"))
        return int(line.split()[1]) * 1024
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit


SUBSET_KEY, HELD_OUT_KEY = (
    0x51AB5E7,
    0x4E1D007,
)  # sets these coins apart from those of the mechanisms
QUICK_SENTENCES, QUICK_PERSONAS, QUICK_POOL = (
    100_000,
    128,
    48,
)  # a smaller library for a smaller crowd


@dataclass(frozen=True, eq=False)
class Data:
    """Counts and vocabulary; `users` is the round figure that C and W follow (errata E10)."""

    counts: UserCounts
    vocabulary: Vocabulary
    users: int
    source: str
    public_noise: float = 0.0  # scale of the Laplace noise on the public counts

    def fewer_users(self, users: int) -> "Data":
        """About this share of the users, chosen by a coin each."""
        if users >= self.users:
            return self
        coins = user_keys(self.counts, key=SUBSET_KEY)
        chosen = coins < np.uint64(int(users / self.users * 2**64))
        return replace(self, counts=_part(self.counts, chosen, len(self.vocabulary)), users=users)

    def smaller_vocabulary(self, size: int) -> "Data":
        """The `size` n-grams that public text has most often, and what is counted of them."""
        if size >= len(self.vocabulary):
            return self
        everybody = np.ones(len(self.counts.users), np.bool_)
        whole = self.vocabulary
        head = whole.select(slice(size))
        return replace(self, counts=_part(self.counts, everybody, size), vocabulary=head)

    def noisier_public(self, scale: float) -> "Data":
        """Public counts with Laplace noise, rounded, below 0 set to 0; the n-grams stay. The seed is fixed."""
        whole = self.vocabulary
        noise = SeededNoise(20210426).laplace(np.zeros(len(whole)), scale=scale)
        noisy = np.maximum(np.rint(whole.counts + noise), 0).astype(np.int64)
        return replace(
            self,
            vocabulary=Vocabulary(whole.ngrams, noisy, whole.order, whole.tokenizer),
            public_noise=scale,
        )

    def split(self, share: float) -> tuple["Data", UserCounts]:
        """Data without a share of the users, and the counts of those: a coin each."""
        held = user_keys(self.counts, key=HELD_OUT_KEY) < np.uint64(int(share * 2**64))
        rest = _part(self.counts, ~held, len(self.vocabulary))
        users = round(self.users * (1 - share))
        return replace(self, counts=rest, users=users), _part(
            self.counts, held, len(self.vocabulary)
        )


def given(counts: Path, vocab: Path) -> Data:
    """Somebody's files."""
    vocabulary = Vocabulary.load(vocab)
    if len(vocabulary.by_order) > 1:
        raise UsageError(
            f"{vocab}: has n-grams of several orders; the paper's experiments take one, such as 3."
        )
    read = load_user_counts(counts, vocabulary_size=len(vocabulary))
    read.check_vocabulary(len(vocabulary), vocabulary.fingerprint)
    return Data(read, vocabulary, round_figure(len(read.users)), "given counts")


def generated(users: int, size: int, *, quick: bool) -> Data:
    """A made-up crowd."""
    small = (
        {"sentences": QUICK_SENTENCES, "personas": QUICK_PERSONAS, "pool": QUICK_POOL}
        if quick
        else {}
    )
    crowd = Crowd(users=users, size=size, **small)
    return Data(crowd.counts(), crowd.vocabulary, users, f"made-up crowd, seed {crowd.seed}")


def round_figure(number: int) -> int:
    """Two digits: what a curator would say in public.

    >>> round_figure(978_966), round_figure(57)
    (980000, 57)
    """
    digits = int(10 ** max(len(str(number)) - 2, 0))
    return round(number / digits) * digits


def _part(counts: UserCounts, users: Bools, size: int) -> UserCounts:
    """The rows of these users below this n-gram; who has nothing left is left out."""
    sizes, ngrams, numbers = _rows_of(counts.starts, counts.ngrams, counts.counts, users, size)
    present = np.flatnonzero(sizes)
    starts = np.concatenate([[0], np.cumsum(sizes[present])])
    fingerprint = counts.vocabulary_fingerprint if size == counts.vocabulary_size else None
    return UserCounts(
        counts.users.take(pa.array(present)), starts, ngrams, numbers, size, fingerprint
    )


@kernel
def _rows_of(
    starts: Integers, ngrams: Ids, counts: Ids, users: Bools, size: int
) -> tuple[Integers, Ids, Ids]:
    sizes = np.zeros(users.size, np.int64)
    for user in range(users.size):
        for at in range(starts[user], starts[user + 1] if users[user] else starts[user]):
            sizes[user] += ngrams[at] < size
    kept_ngrams = np.empty(sizes.sum(), np.int32)
    kept_counts = np.empty(sizes.sum(), np.int32)
    written = 0
    for user in range(users.size):
        for at in range(
            starts[user], starts[user] + sizes[user]
        ):  # ascending: those below `size` come first
            kept_ngrams[written] = ngrams[at]
            kept_counts[written] = counts[at]
            written += 1
    return sizes, kept_ngrams, kept_counts


GRID = Grid(score_sensitivity=ScoreSensitivity.PUBLISHED)  # Algorithm 2 as published
BEST_SLOPES = tuple(sorted({*(10.0 ** (power / 2) for power in range(-12, -1)), *GRID.slopes}))
BEST_RHOS = tuple(tenth / 10 for tenth in range(1, 11))

Made = TypeVar("Made")


@dataclass(frozen=True, eq=False)
class Weighted:
    """All that Algorithm 1 reads of users: x̂, and w and γ for each S. Prior, ρ and ε come later and cost little."""

    x_hat: Floats
    weights: dict[float, Floats]
    gamma: dict[float, float]

    @classmethod
    def of(cls, statistics: Statistics, slopes: Sequence[float]) -> "Weighted":
        """One pass over the users for each S."""
        weights = {slope: statistics.weights(slope) for slope in slopes}
        return cls(
            statistics.x_hat, weights, {slope: statistics.exact_gamma(slope) for slope in slopes}
        )

    def mean(self, prior_logs: Floats, *, slope: float, rho: float) -> Floats:
        """μ_ps = ρ w⊙x̂ + (1 − ρ) μ_p."""
        mu_ps: Floats = rho * self.weights[slope] * self.x_hat + (1 - rho) * prior_logs
        return mu_ps

    def theta(
        self, prior_logs: Floats, budget: Budget, noise: NoiseSource, *, slope: float, rho: float
    ) -> Floats:
        """Algorithm 1 from here on."""
        sigma = classical_sigma(self.gamma[slope], rho=rho, budget=budget)
        return softmax(noise.gaussian(self.mean(prior_logs, slope=slope, rho=rho), scale=sigma))


@dataclass(frozen=True, eq=False)
class HeldOutSplit:
    """Algorithm 2 up to its noise: the scoring users' totals, and the others."""

    scoring: Integers
    others: Weighted

    @classmethod
    def of(
        cls, clipped: ClippedCounts, scoring: np.ndarray[tuple[int], np.dtype[np.bool_]]
    ) -> "HeldOutSplit":
        """Split the users, then a pass over the others for each S of the grid."""
        return cls(
            clipped.select(scoring).totals,
            Weighted.of(Statistics(clipped.select(~scoring)), GRID.slopes),
        )

    def choose(self, prior_logs: Floats, epsilon: float, noise: NoiseSource) -> tuple[float, float]:
        """The (S, ρ) of the smallest noisy score, |Δq| by Claim 3 as published."""
        steepness = lipschitz(self.scoring, GRID.score_sensitivity)
        pairs = list(product(GRID.slopes, GRID.rhos))
        means = (self.others.mean(prior_logs, slope=slope, rho=rho) for slope, rho in pairs)
        scores = np.array([cross_entropy(self.scoring, mean) for mean in means])
        change = max(rho * steepness * self.others.gamma[slope] for slope, rho in pairs)
        return pairs[int(np.argmin(noise.laplace(scores, scale=2 * change / epsilon)))]


@dataclass(frozen=True, eq=False, repr=False)
class Cached(UserCounts):
    """Counts that keep their sums: a mechanism that asks again for the same clipped sum gets it at once."""

    _kept: dict[tuple[object, ...], Integers] = field(default_factory=dict)
    _lock: RLock = field(default_factory=RLock)

    @classmethod
    def of(cls, counts: UserCounts) -> "Cached":
        """The same counts."""
        size, fingerprint = counts.vocabulary_size, counts.vocabulary_fingerprint
        return cls(counts.users, counts.starts, counts.ngrams, counts.counts, size, fingerprint)

    def cached_sum(self, name: tuple[object, ...], make: Callable[[], Integers]) -> Integers:
        """Make it, or find it: threads that ask for the same thing wait for the first."""
        with self._lock:
            if name not in self._kept:
                self._kept[name] = make()
            return self._kept[name]


@dataclass(frozen=True, eq=False)
class Exact:
    """The exact sums of one dataset."""

    counts: Cached
    users: int  # the round figure that C and W follow
    seeds: tuple[int, ...]
    _made: dict[tuple[object, ...], object] = field(default_factory=dict)
    _lock: RLock = field(default_factory=RLock)

    @property
    def bounds(self) -> tuple[int, int]:
        """The paper's C and W."""
        return paper_bounds(self.users)

    @property
    def key(self) -> int:
        """Of the subsample to W."""
        return Randomness.from_seed(self.seeds[0]).key

    def laplace_totals(self, max_total: int) -> Integers:
        """Totals of counts clipped to W."""
        clipped = partial(clip, self.counts, max_count=None, max_total=max_total, key=self.key)
        return self.counts.cached_sum(("totals", max_total), lambda: clipped().totals)

    @property
    def weighted(self) -> Weighted:
        """Algorithm 1 for all users and every S."""
        return self._once(
            ("weighted",), lambda: Weighted.of(Statistics(self._clipped()), BEST_SLOPES)
        )

    @property
    def held_out_splits(self) -> dict[int, HeldOutSplit]:
        """Algorithm 2 for each seed's split."""
        return self._once(("rehearsals",), self._split)

    def _split(self) -> dict[int, HeldOutSplit]:
        clipped = self._clipped()
        splits = (
            (seed, held_out(self.counts, key=Randomness.from_seed(seed).key)) for seed in self.seeds
        )
        return {seed: HeldOutSplit.of(clipped, scoring) for seed, scoring in splits}

    def _clipped(self) -> ClippedCounts:
        """To C and W; as large as the counts, so it is not kept."""
        max_count, max_total = self.bounds
        return clip(self.counts, max_count=max_count, max_total=max_total, key=self.key)

    def _once(self, name: tuple[object, ...], make: Callable[[], Made]) -> Made:
        """Make it, or find it: threads that ask for the same thing wait for the first."""
        with self._lock:
            if name not in self._made:
                self._made[name] = make()
            return self._made[name]  # type: ignore[return-value]


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
        self,
        epsilons: Sequence[float],
        methods: Iterable[Method] = (*PUBLIC_AND_PRIVATE, *LAPLACES),
    ) -> list[Row]:
        """These mechanisms at these ε."""
        wanted = set(methods)
        found = [self._row(Method.PUBLIC, self._public, epsilon=epsilon) for epsilon in epsilons]
        if Method.POSTERIOR in wanted:
            found += self._each(self._posterior, product(epsilons, self.exact.seeds))
        if Method.PAPER_TUNED in wanted:
            found += self._each(self._tuned, product(epsilons, self.exact.seeds))
        if Method.PAPER_BEST in wanted:
            tried = self._each(
                self._paper, product(epsilons, self.exact.seeds, BEST_SLOPES, BEST_RHOS)
            )
            found += best(tried, ("slope", "rho"))
            in_range = [
                row for row in tried if row.slope is not None and row.slope >= min(GRID.slopes)
            ]
            found += [
                replace(row, method=Method.PAPER_RANGE) for row in best(in_range, ("slope", "rho"))
            ]
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
        return [
            self._row(method, self._k_anonymous(k, kind), k=k)
            for (method, kind), k in product(kinds, ks)
        ]

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
        tried = self._each(
            lambda *each: self._laplace(at_w, *each), product(epsilons, self.exact.seeds, totals)
        )
        yield from (row for row in tried if row.max_total == paper_total)
        yield from (replace(row, method=at_best) for row in best(tried, ("max_total",)))

    def _laplace(self, method: Method, epsilon: float, seed: int, max_total: int) -> Row:
        mechanism = (Laplace if method == Method.LAPLACE else LaplacePublic)(max_total)
        noise = Randomness.from_seed(seed).noise
        totals = self.exact.laplace_totals(max_total)
        theta = mechanism.sample(totals, self.data.vocabulary, Budget(epsilon), noise)
        return self._row(method, theta, epsilon=epsilon, delta=0.0, seed=seed, max_total=max_total)

    def _paper(self, epsilon: float, seed: int, slope: float, rho: float) -> Row:
        """Algorithm 1 at one (S, ρ)."""
        weighted, noise = self.exact.weighted, Randomness.from_seed(seed).noise
        prior_logs = centred_log(self.data.vocabulary.counts)
        theta = weighted.theta(prior_logs, Budget(epsilon, self.delta), noise, slope=slope, rho=rho)
        return self._paper_row(Method.PAPER_BEST, theta, epsilon, seed, slope, rho)

    def _tuned(self, epsilon: float, seed: int) -> Row:
        """Algorithm 2 end to end."""
        rehearsal, noise = self.exact.held_out_splits[seed], Randomness.from_seed(seed).noise
        prior_logs = centred_log(self.data.vocabulary.counts)
        for_release, for_tuning = Budget(epsilon, self.delta).split(FOR_RELEASE, FOR_TUNING)
        slope, rho = rehearsal.choose(prior_logs, for_tuning.epsilon, noise)
        budget = Budget(for_release.epsilon, self.delta)
        theta = rehearsal.others.theta(prior_logs, budget, noise, slope=slope, rho=rho)
        return self._paper_row(Method.PAPER_TUNED, theta, epsilon, seed, slope, rho)

    def _paper_row(
        self, method: Method, theta: Floats, epsilon: float, seed: int, slope: float, rho: float
    ) -> Row:
        max_count, max_total = self.exact.bounds
        bounds = {"max_count": max_count, "max_total": max_total, "slope": slope, "rho": rho}
        return self._row(method, theta, epsilon=epsilon, delta=self.delta, seed=seed, **bounds)

    def _posterior(self, epsilon: float, seed: int) -> Row:
        """`Posterior` itself; the counts remember its exact sums."""
        budget = Budget(epsilon, self.delta)
        made = Posterior().estimate(
            self.exact.counts, self.data.vocabulary, budget, Randomness.from_seed(seed)
        )
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
