"""The paper's experiments run on this: data, shared exact sums, and every mechanism on one dataset.

1. `measure_cost`: how long a piece of work took, and the most memory the process held meanwhile.
2. `ExperimentData`: counts with their vocabulary, from files or of a made-up crowd; subsets of
   users, the head of the vocabulary, noisier public counts.
3. `ExactSums`: what the mechanisms read of users, without noise, made once and shared by every ε,
   seed and prior. All of it is private.
4. `MechanismBench`: mechanisms × ε × seeds → `ResultRow`s, in a fixed order. The noise is seeded:
   a figure is not a publication, and can be made again. Rows are computed side by side in threads;
   each depends on its own seed alone, so the number of threads changes nothing.

Methods whose name ends with * choose W, or S and ρ, by the metric itself, which looks at private
data: an oracle that no release could ask.
"""

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
    RELEASE_SHARE,
    TUNING_SHARE,
    Grid,
    cross_entropy,
    score_lipschitz,
    scoring_users,
)
from bayesgram.paper.k_anonymity import KAnonymity
from bayesgram.paper.sensitivity import Statistics
from bayesgram.privacy.budget import Budget
from bayesgram.privacy.noise import NoiseSource, SeededNoise
from bayesgram.private.clipping import ClippedCounts, clip, user_keys
from bayesgram.private.counts import UserCounts
from bayesgram.private.counts_io import load_user_counts
from bayesgram.public.vocabulary import Vocabulary, centred_log, public_distribution, softmax
from bayesgram.releases.card_sections import order_details
from bayesgram.synthetic.crowd import Crowd

# --- Time and memory ---

PROCESS_STATUS = Path("/proc/self/status")
PEAK_RESET = Path("/proc/self/clear_refs")


@dataclass
class Cost:
    """What a piece of work took; filled in when it is done."""

    seconds: float = 0.0
    peak_bytes: int = 0


@contextmanager
def measure_cost() -> Iterator[Cost]:
    """Measure the block.

    Where the system can't start the peak of memory anew, it is that of the process so far.
    """
    with suppress(OSError):
        PEAK_RESET.write_text(
            "5", encoding="ascii"
        )  # Linux: the highest resident size starts again from now
    cost = Cost()
    start = perf_counter()
    yield cost
    cost.seconds = perf_counter() - start
    cost.peak_bytes = _peak_bytes()


def _peak_bytes() -> int:
    with suppress(OSError, StopIteration):
        lines = PROCESS_STATUS.read_text(encoding="utf-8").splitlines()
        line = next(line for line in lines if line.startswith("VmHWM:"))
        return int(line.split()[1]) * 1024
    if sys.platform == "win32":
        return 0  # not known
    import resource  # noqa: PLC0415 - POSIX alone has it

    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit


# --- Data ---

# Keys that set these coins apart from those of the mechanisms.
SUBSET_KEY = 0x51AB5E7
HELD_OUT_KEY = 0x4E1D007
PUBLIC_NOISE_SEED = 20210426
# A smaller library of messages, for a smaller crowd; chosen by hand, so that a run is quick.
QUICK_LIBRARY = {"sentences": 100_000, "personas": 128, "pool": 48}


@dataclass(frozen=True, eq=False)
class ExperimentData:
    """Counts with their vocabulary.

    Subsets of users are nested and follow a keyed hash of the user's id, so they do not depend on
    the order of rows.
    """

    counts: UserCounts
    vocabulary: Vocabulary
    users: int  # the public round figure that C and W follow (errata E10)
    source: str  # where the data are from, for charts
    public_noise: float = 0.0  # scale of the Laplace noise on the public counts

    def subsample_users(self, users: int) -> "ExperimentData":
        """Return the data of about this many users, chosen by a coin each."""
        if users >= self.users:
            return self
        coins = user_keys(self.counts, key=SUBSET_KEY)
        chosen = coins < np.uint64(int(users / self.users * 2**64))
        subset = _select_counts(self.counts, chosen, len(self.vocabulary))
        return replace(self, counts=subset, users=users)

    def truncate_vocabulary(self, size: int) -> "ExperimentData":
        """Return the data of the `size` n-grams that public text has most often."""
        if size >= len(self.vocabulary):
            return self
        everybody = np.ones(len(self.counts.users), np.bool_)
        return replace(
            self,
            counts=_select_counts(self.counts, everybody, size),
            vocabulary=self.vocabulary.select(slice(size)),
        )

    def add_public_noise(self, scale: float) -> "ExperimentData":
        """Return the data with Laplace noise on the public counts; the n-grams stay.

        Noisy counts are rounded, and those below 0 are set to 0. The seed is fixed.
        """
        vocabulary = self.vocabulary
        noise = SeededNoise(PUBLIC_NOISE_SEED).laplace(np.zeros(len(vocabulary)), scale=scale)
        noisy = np.maximum(np.rint(vocabulary.counts + noise), 0).astype(np.int64)
        return replace(
            self,
            vocabulary=Vocabulary(vocabulary.ngrams, noisy, vocabulary.order, vocabulary.tokenizer),
            public_noise=scale,
        )

    def hold_out_users(self, share: float) -> tuple["ExperimentData", UserCounts]:
        """Return the data without a share of the users, and the counts of these: a coin each."""
        held_out = user_keys(self.counts, key=HELD_OUT_KEY) < np.uint64(int(share * 2**64))
        size = len(self.vocabulary)
        training = replace(
            self,
            counts=_select_counts(self.counts, ~held_out, size),
            users=round(self.users * (1 - share)),
        )
        return training, _select_counts(self.counts, held_out, size)


def load_data(counts: Path, vocab: Path) -> ExperimentData:
    """Load data from files of counts and their vocabulary."""
    vocabulary = Vocabulary.load(vocab)
    if len(vocabulary.by_order) > 1:
        raise UsageError(
            f"{vocab}: has n-grams of several orders; the paper's experiments take one, such as 3."
        )
    user_counts = load_user_counts(counts, vocabulary_size=len(vocabulary)).listed_only
    user_counts.check_vocabulary(len(vocabulary), vocabulary.fingerprint)
    users = round_to_two_digits(len(user_counts.users))
    return ExperimentData(user_counts, vocabulary, users, "given counts")


def generate_data(users: int, size: int, *, quick: bool) -> ExperimentData:
    """Generate a made-up crowd with a vocabulary of `size` n-grams.

    Args:
        users: How many people.
        size: How many n-grams.
        quick: Whether the library of messages is small.
    """
    crowd = Crowd(users=users, size=size, **(QUICK_LIBRARY if quick else {}))
    source = f"made-up crowd, seed {crowd.seed}"
    return ExperimentData(crowd.counts(), crowd.vocabulary, users, source)


def round_to_two_digits(number: int) -> int:
    """Round to what a curator would say in public.

    >>> round_to_two_digits(978_966), round_to_two_digits(57)
    (980000, 57)
    """
    unit = int(10 ** max(len(str(number)) - 2, 0))
    return round(number / unit) * unit


def _select_counts(counts: UserCounts, users: Bools, size: int) -> UserCounts:
    """Return the counts of these users over the first `size` n-grams.

    Users who have nothing left are left out.
    """
    sizes, ngrams, values = _select_rows(counts.starts, counts.ngrams, counts.counts, users, size)
    present = np.flatnonzero(sizes)
    starts = np.concatenate([[0], np.cumsum(sizes[present])])
    fingerprint = counts.vocabulary_fingerprint if size == counts.vocabulary_size else None
    return UserCounts(
        counts.users.take(pa.array(present)), starts, ngrams, values, size, fingerprint
    )


@kernel
def _select_rows(
    starts: Integers, ngrams: Ids, counts: Ids, users: Bools, size: int
) -> tuple[Integers, Ids, Ids]:
    sizes = np.zeros(users.size, np.int64)
    for user in range(users.size):
        for at in range(starts[user], starts[user + 1] if users[user] else starts[user]):
            sizes[user] += ngrams[at] < size
    selected_ngrams = np.empty(sizes.sum(), np.int32)
    selected_counts = np.empty(sizes.sum(), np.int32)
    written = 0
    for user in range(users.size):
        # N-grams of a user are ascending: those below `size` come first.
        for at in range(starts[user], starts[user] + sizes[user]):
            selected_ngrams[written] = ngrams[at]
            selected_counts[written] = counts[at]
            written += 1
    return sizes, selected_ngrams, selected_counts


# --- Exact sums ---

GRID = Grid(score_sensitivity=ScoreSensitivity.PUBLISHED)  # Algorithm 2 as published
# The oracle's grid: S from 10⁻⁶, below the paper's range, in half powers of ten, and the paper's
# own. Not measured against finer ones.
BEST_SLOPES = tuple(sorted({*(10.0 ** (power / 2) for power in range(-12, -1)), *GRID.slopes}))
BEST_RHOS = tuple(tenth / 10 for tenth in range(1, 11))

Sums = TypeVar("Sums")


@dataclass(frozen=True, eq=False)
class WeightedStatistics:
    """All that Algorithm 1 reads of users: x̂, and w and γ for each S.

    Prior, ρ and ε come later and cost little.
    """

    x_hat: Floats
    weights: dict[float, Floats]  # w by S
    gamma: dict[float, float]  # γ by S

    @classmethod
    def from_statistics(
        cls, statistics: Statistics, slopes: Sequence[float]
    ) -> "WeightedStatistics":
        """Make one pass over the users for each S."""
        weights = {slope: statistics.weights(slope) for slope in slopes}
        gamma = {slope: statistics.exact_gamma(slope) for slope in slopes}
        return cls(statistics.x_hat, weights, gamma)

    def mean(self, prior_logs: Floats, *, slope: float, rho: float) -> Floats:
        """Return μ_ps = ρ w⊙x̂ + (1 − ρ) μ_p."""
        mu_ps: Floats = rho * self.weights[slope] * self.x_hat + (1 - rho) * prior_logs
        return mu_ps

    def sample(
        self, prior_logs: Floats, budget: Budget, noise: NoiseSource, *, slope: float, rho: float
    ) -> Floats:
        """Draw θ by Algorithm 1, with noise for this budget."""
        sigma = classical_sigma(self.gamma[slope], rho=rho, budget=budget)
        return softmax(noise.gaussian(self.mean(prior_logs, slope=slope, rho=rho), scale=sigma))


@dataclass(frozen=True, eq=False)
class HeldOutSplit:
    """Algorithm 2 up to its noise: the scoring users' totals, and the others."""

    scoring_totals: Integers
    others: WeightedStatistics

    @classmethod
    def from_clipped(cls, clipped: ClippedCounts, scoring: Bools) -> "HeldOutSplit":
        """Split the users, then make a pass over the others for each S of the grid."""
        others = Statistics(clipped.select(~scoring))
        return cls(
            clipped.select(scoring).totals, WeightedStatistics.from_statistics(others, GRID.slopes)
        )

    def choose_settings(
        self, prior_logs: Floats, epsilon: float, noise: NoiseSource
    ) -> tuple[float, float]:
        """Return the (S, ρ) of the smallest noisy score, with |Δq| by Claim 3 as published.

        Args:
            prior_logs: μ_p, the centred log counts of public text.
            epsilon: The part of ε that the choice costs.
            noise: The source of the noise on scores.
        """
        lipschitz = score_lipschitz(self.scoring_totals, GRID.score_sensitivity)
        candidates = list(product(GRID.slopes, GRID.rhos))
        means = (self.others.mean(prior_logs, slope=slope, rho=rho) for slope, rho in candidates)
        scores = np.array([cross_entropy(self.scoring_totals, mean) for mean in means])
        sensitivity = max(rho * lipschitz * self.others.gamma[slope] for slope, rho in candidates)
        noisy_scores = noise.laplace(scores, scale=2 * sensitivity / epsilon)
        return candidates[int(np.argmin(noisy_scores))]


@dataclass(frozen=True, eq=False, repr=False)
class CachedCounts(UserCounts):
    """Counts that remember their clipped sums: who asks again for the same sum gets it at once."""

    _sums: dict[tuple[object, ...], Integers] = field(default_factory=dict)
    _lock: RLock = field(default_factory=RLock)

    @classmethod
    def from_counts(cls, counts: UserCounts) -> "CachedCounts":
        """Return the same counts of listed n-grams, with an empty memory."""
        listed = counts.listed_only
        return cls(
            listed.users,
            listed.starts,
            listed.ngrams,
            listed.counts,
            listed.vocabulary_size,
            listed.vocabulary_fingerprint,
        )

    def cached_sum(self, name: tuple[object, ...], make: Callable[[], Integers]) -> Integers:
        """Return the sum of this name, made on first use.

        Threads that ask for the same sum wait for the first.
        """
        with self._lock:
            if name not in self._sums:
                self._sums[name] = make()
            return self._sums[name]


@dataclass(frozen=True, eq=False)
class ExactSums:
    """The exact sums of one dataset, each made on first use.

    The subsample to W is drawn once, with the first seed's key; seeds vary the noise, and the
    split of Algorithm 2. So the first seed gives what `mechanism.release(..., seed=…)` gives, bit
    for bit, and a test says so.
    """

    counts: CachedCounts
    users: int  # the round figure that C and W follow
    seeds: tuple[int, ...]
    _sums: dict[str, object] = field(default_factory=dict)
    _lock: RLock = field(default_factory=RLock)

    @property
    def bounds(self) -> tuple[int, int]:
        """The paper's bounds C and W for this number of users."""
        return paper_bounds(self.users)

    @property
    def key(self) -> int:
        """The key of the subsample to W."""
        return Randomness.from_seed(self.seeds[0]).key

    def laplace_totals(self, max_total: int) -> Integers:
        """Return the totals of counts clipped to W."""
        clipped = partial(clip, self.counts, max_count=None, max_total=max_total, key=self.key)
        return self.counts.cached_sum(("totals", max_total), lambda: clipped().totals)

    @property
    def weighted_statistics(self) -> WeightedStatistics:
        """Algorithm 1 for all users and every S."""
        return self._make_once(
            "weighted",
            lambda: WeightedStatistics.from_statistics(Statistics(self._clip()), BEST_SLOPES),
        )

    @property
    def held_out_splits(self) -> dict[int, HeldOutSplit]:
        """Algorithm 2 for each seed's split."""
        return self._make_once("held-out splits", self._split)

    def _split(self) -> dict[int, HeldOutSplit]:
        clipped = self._clip()
        splits = {}
        for seed in self.seeds:
            scoring = scoring_users(self.counts, key=Randomness.from_seed(seed).key)
            splits[seed] = HeldOutSplit.from_clipped(clipped, scoring)
        return splits

    def _clip(self) -> ClippedCounts:
        """Clip to C and W; the result is as large as the counts, so it is not kept."""
        max_count, max_total = self.bounds
        return clip(self.counts, max_count=max_count, max_total=max_total, key=self.key)

    def _make_once(self, name: str, make: Callable[[], Sums]) -> Sums:
        """Return the value of this name, made on first use; other threads wait for it."""
        with self._lock:
            if name not in self._sums:
                self._sums[name] = make()
            return self._sums[name]  # type: ignore[return-value]


# --- Every mechanism on one dataset ---

BEST_TOTALS = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000)  # W that the oracle tries; not measured
MIN_PROBABILITY = 1e-300  # a probability that vanished counts as this, so that every KL is finite

Metric = Callable[[Floats], float]  # of θ; lower is better


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
        """The label of its guarantee: PROVED, EMPIRICAL or NONE."""
        if self.value.startswith("paper"):
            return "EMPIRICAL"
        return "NONE" if self.value.startswith(("k-", "private")) else "PROVED"

    @property
    def is_oracle(self) -> bool:
        """Whether its settings were chosen by looking at private data."""
        return self.value.endswith("*")


PUBLIC_AND_PRIVATE = (Method.PUBLIC, Method.PAPER_TUNED, Method.PAPER_BEST, Method.POSTERIOR)
LAPLACES = (Method.LAPLACE, Method.LAPLACE_BEST, Method.LAPLACE_PUBLIC, Method.LAPLACE_PUBLIC_BEST)


@dataclass(frozen=True)
class ResultRow:
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
class MechanismBench:
    """One dataset, ready to be released by every mechanism."""

    data: ExperimentData
    sums: ExactSums
    metric: Metric
    delta: float
    workers: int = cpu_count() or 1

    def run(
        self,
        epsilons: Sequence[float],
        methods: Iterable[Method] = (*PUBLIC_AND_PRIVATE, *LAPLACES),
    ) -> list[ResultRow]:
        """Measure these methods at these ε, for every seed."""
        chosen = set(methods)
        seeds = self.sums.seeds
        public = public_distribution(self.data.vocabulary.counts)
        rows = [self._row(Method.PUBLIC, public, epsilon=epsilon) for epsilon in epsilons]
        if Method.POSTERIOR in chosen:
            rows += self._run_parallel(self._run_posterior, product(epsilons, seeds))
        if Method.PAPER_TUNED in chosen:
            rows += self._run_parallel(self._run_tuned_paper, product(epsilons, seeds))
        if Method.PAPER_BEST in chosen:
            candidate_rows = self._run_parallel(
                self._run_paper, product(epsilons, seeds, BEST_SLOPES, BEST_RHOS)
            )
            rows += best_settings(candidate_rows, ("slope", "rho"))
            in_range = [
                row
                for row in candidate_rows
                if row.slope is not None and row.slope >= min(GRID.slopes)
            ]
            rows += [
                replace(row, method=Method.PAPER_RANGE)
                for row in best_settings(in_range, ("slope", "rho"))
            ]
        for at_paper_total, at_best_total in (
            (Method.LAPLACE, Method.LAPLACE_BEST),
            (Method.LAPLACE_PUBLIC, Method.LAPLACE_PUBLIC_BEST),
        ):
            if at_paper_total in chosen:
                rows += self._laplace_rows(epsilons, at_paper_total, at_best_total)
        return [row for row in rows if row.method in chosen]

    def run_k_anonymity(self, ks: Sequence[int]) -> list[ResultRow]:
        """Measure both ways to spread what is suppressed, for each K."""
        kinds = ((Method.K_ADD_ONE, Suppressed.ADD_ONE), (Method.K_PUBLIC, Suppressed.PUBLIC))
        rows = []
        for (method, suppressed), k in product(kinds, ks):
            release = KAnonymity(k, suppressed).release(self.sums.counts, self.data.vocabulary)
            rows.append(self._row(method, release.probabilities, k=k))
        return rows

    def private_counts_row(self) -> ResultRow:
        """Measure the private counts themselves, add-one."""
        raised = self.sums.counts.totals + 1.0
        return self._row(Method.PRIVATE, raised / raised.sum())

    def _row(self, method: Method, theta: Floats, **settings: float | None) -> ResultRow:
        data = self.data
        value = self.metric(np.maximum(theta, MIN_PROBABILITY))
        return ResultRow(
            method,
            value,
            data.users,
            len(data.vocabulary),
            data.public_noise,
            **settings,  # type: ignore[arg-type]
        )

    def _run_parallel(
        self, task: Callable[..., ResultRow], arguments: Iterable[tuple[float, ...]]
    ) -> list[ResultRow]:
        with ThreadPoolExecutor(self.workers) as pool:
            return list(pool.map(lambda arguments_of_row: task(*arguments_of_row), list(arguments)))

    def _laplace_rows(
        self, epsilons: Sequence[float], at_paper_total: Method, at_best_total: Method
    ) -> Iterator[ResultRow]:
        """Yield rows at the paper's W, and at the best of the grid."""
        _, paper_total = self.sums.bounds
        totals = sorted({*BEST_TOTALS, paper_total})
        candidate_rows = self._run_parallel(
            partial(self._run_laplace, at_paper_total), product(epsilons, self.sums.seeds, totals)
        )
        yield from (row for row in candidate_rows if row.max_total == paper_total)
        best = best_settings(candidate_rows, ("max_total",))
        yield from (replace(row, method=at_best_total) for row in best)

    def _run_laplace(self, method: Method, epsilon: float, seed: int, max_total: int) -> ResultRow:
        mechanism = (Laplace if method == Method.LAPLACE else LaplacePublic)(max_total)
        noise = Randomness.from_seed(seed).noise
        totals = self.sums.laplace_totals(max_total)
        theta = mechanism.sample(totals, self.data.vocabulary, Budget(epsilon), noise)
        return self._row(method, theta, epsilon=epsilon, delta=0.0, seed=seed, max_total=max_total)

    def _run_paper(self, epsilon: float, seed: int, slope: float, rho: float) -> ResultRow:
        """Measure Algorithm 1 at one (S, ρ)."""
        noise = Randomness.from_seed(seed).noise
        prior_logs = centred_log(self.data.vocabulary.counts)
        budget = Budget(epsilon, self.delta)
        theta = self.sums.weighted_statistics.sample(
            prior_logs, budget, noise, slope=slope, rho=rho
        )
        return self._paper_row(Method.PAPER_BEST, theta, epsilon, seed, slope, rho)

    def _run_tuned_paper(self, epsilon: float, seed: int) -> ResultRow:
        """Measure Algorithm 2 end to end."""
        split = self.sums.held_out_splits[seed]
        noise = Randomness.from_seed(seed).noise
        prior_logs = centred_log(self.data.vocabulary.counts)
        for_release, for_tuning = Budget(epsilon, self.delta).split(RELEASE_SHARE, TUNING_SHARE)
        slope, rho = split.choose_settings(prior_logs, for_tuning.epsilon, noise)
        budget = Budget(for_release.epsilon, self.delta)
        theta = split.others.sample(prior_logs, budget, noise, slope=slope, rho=rho)
        return self._paper_row(Method.PAPER_TUNED, theta, epsilon, seed, slope, rho)

    def _paper_row(
        self, method: Method, theta: Floats, epsilon: float, seed: int, slope: float, rho: float
    ) -> ResultRow:
        max_count, max_total = self.sums.bounds
        return self._row(
            method,
            theta,
            epsilon=epsilon,
            delta=self.delta,
            seed=seed,
            max_count=max_count,
            max_total=max_total,
            slope=slope,
            rho=rho,
        )

    def _run_posterior(self, epsilon: float, seed: int) -> ResultRow:
        """Measure `Posterior` itself; the counts remember its exact sums."""
        outcome = Posterior().estimate(
            self.sums.counts,
            self.data.vocabulary,
            Budget(epsilon, self.delta),
            Randomness.from_seed(seed),
        )
        return self._row(
            Method.POSTERIOR,
            outcome.theta,
            epsilon=epsilon,
            delta=self.delta,
            seed=seed,
            clip_norm=order_details(outcome.details)["clip_norm_used"],
        )


def best_settings(
    candidate_rows: Sequence[ResultRow], settings: Sequence[str]
) -> Iterator[ResultRow]:
    """Yield, for each ε, the rows of the settings with the smallest median over seeds."""
    for epsilon in dict.fromkeys(row.epsilon for row in candidate_rows):
        groups: dict[tuple[float, ...], list[ResultRow]] = {}
        for row in candidate_rows:
            if row.epsilon == epsilon:
                values = tuple(getattr(row, name) for name in settings)
                groups.setdefault(values, []).append(row)
        yield from min(groups.values(), key=lambda rows: median(row.value for row in rows))
