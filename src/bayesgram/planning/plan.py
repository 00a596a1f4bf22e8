"""A plan: the accuracy to expect at several ε, or the ε that reaches an accuracy.

In:  a vocabulary, assumptions about the people, and a budget (given, or what a ledger has left).
Out: a `Plan`. Everything is simulated (simulation.py): invented people and noise. Reads no private
data and charges no ledger.

Several releases may share a budget (`SharedBudget`); they compose as a ledger composes them: 1/σ²
adds up. The smallest ε that reaches a target is found by bisection over a public list: accuracy
grows with ε, nearly steadily, as the simulated people stay the same.
"""

import math
from bisect import bisect_left
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from threading import Lock
from typing import Any, Protocol, TypeVar

from bayesgram.arguments import check_arguments
from bayesgram.cores import CORES, parallel_map
from bayesgram.errors import Argument, BayesgramError, UsageError, check_int
from bayesgram.notebook import html
from bayesgram.planning.pilot import assumptions_from_pilot
from bayesgram.planning.simulation import (
    MAX_DRAWS,
    MAX_NGRAMS,
    RANGES,
    Assumptions,
    Planner,
    PlanRequest,
    SimulatedRelease,
)
from bayesgram.privacy.accounting import Spend, fits, remaining_gaussian_epsilon
from bayesgram.privacy.budget import Budget
from bayesgram.privacy.calibration import GaussianNoise
from bayesgram.privacy.ledger import Ledger
from bayesgram.privacy.ledger_io import LedgerContents
from bayesgram.public.vocabulary import Vocabulary
from bayesgram.releases.card_sections import find_weaknesses
from bayesgram.releases.release import Release

# --- Defaults and limits: conventions, none of them chosen by an experiment ---

DEFAULT_EPSILONS = (0.1, 0.2, 0.5, 1.0, 2.0)
DEFAULT_DELTA = 1e-7
# What is assumed about people where nothing is known: Reddit posts, by the text of `Assumptions`.
DEFAULT_ASSUMPTIONS = {"ngrams_a_user": 8.0, "unevenness": 1.2, "difference": 1.8}
DEFAULT_DRAWS = 3  # simulated releases for each ε
DRAWS_IF_SLOW = 1  # the same, above SLOW_SIZE
SLOW_SIZE = 20_000  # n-grams of an order above which one simulated release takes seconds
MAX_EPSILON = 10.0  # above, a guarantee protects nobody, and no plan is looked for
MAX_EPSILONS = 50  # values of ε in one plan
MAX_RELEASES = 10_000
MAX_SEGMENTS = 10_000

# --- The smallest ε that reaches a target ---

# The values of ε that are tried in each decade, in tenths of its start: 24 of them, each at most
# 17% above the last. A round number between them would claim more precision than a plan has.
# fmt: off
CANDIDATE_STEPS = (10, 11, 12, 13, 14, 15, 16, 18, 20, 22, 24, 26, 28, 30, 33, 36, 40, 45, 50, 55,
                   60, 70, 80, 90)
# fmt: on
CANDIDATE_DECADES = (0.01, 0.1, 1.0, 10.0)


# Rounds that guess where the target is, before the candidates are split in three again.
MAX_GUESSES = 4
USUAL_ROWS = 6  # that a search simulates, for the display of progress; it may need fewer or more
MAX_LOG_STEP = 10.0  # of a guess, in log ε: more than all candidates span


class HasEpsilon(Protocol):
    """A row of a plan, as far as the search for an ε needs it."""

    @property
    def epsilon(self) -> float:
        """The ε of all releases together."""


SearchRow = TypeVar("SearchRow", bound=HasEpsilon)


def candidate_epsilons(largest: float) -> list[float]:
    """Return the ε that are tried: 24 a decade from 0.01 up to the largest, and that itself.

    >>> candidate_epsilons(0.0123), len(candidate_epsilons(10.0))
    ([0.01, 0.011, 0.012, 0.0123], 73)
    """
    epsilons = [
        round(decade * step / 10, 3) for decade in CANDIDATE_DECADES for step in CANDIDATE_STEPS
    ]
    return [*(epsilon for epsilon in epsilons if epsilon < largest), largest]


def find_smallest_epsilon(
    is_reached: Callable[[SearchRow], bool],
    simulate_row: Callable[[float], SearchRow],
    largest: float,
    *,
    measure: Callable[[SearchRow], float] | None = None,
    cores: int = 1,
) -> tuple[float | None, list[SearchRow]]:
    """Find the smallest candidate ε that reaches a target.

    Each round simulates two ε side by side. The first two split the candidates in three; after
    that, a line through the nearest rows says which candidate is the first that reaches the target,
    and it is simulated with the one before it. Which rows are simulated does not depend on the
    number of cores.

    Args:
        is_reached: Whether a row is good enough; once it is, it is for every larger ε.
        simulate_row: Makes the row of an ε.
        largest: The largest ε to try.
        measure: How far a row is from the target, 0 or more if it is reached; it changes about
            evenly with log ε. Without it, every round splits the candidates in three.
        cores: How many rows to simulate side by side.

    Returns:
        The ε, None if the largest one does not reach the target; and all rows, by ε.
    """
    epsilons = candidate_epsilons(largest)
    rows: dict[float, SearchRow] = {}
    low = -1  # the largest candidate that is known not to reach the target
    high = len(epsilons)  # the smallest one that is known to
    guesses = 0
    while high - low > 1:
        wanted: list[int] = []
        if measure is not None and guesses < MAX_GUESSES:
            wanted = _guess_candidates(epsilons, rows, measure, low, high)
            guesses += bool(wanted)
        if not wanted:
            third = (high - low) / 3
            wanted = sorted({low + max(round(third), 1), high - max(round(third), 1)})
        new_rows = parallel_map(
            simulate_row, [epsilons[at] for at in wanted], cores=min(cores, len(wanted))
        )
        for at, row in zip(wanted, new_rows, strict=True):
            rows[epsilons[at]] = row
            if is_reached(row):
                high = min(high, at)
            elif at < high:
                low = at
    smallest = epsilons[high] if high < len(epsilons) else None
    return smallest, [rows[epsilon] for epsilon in sorted(rows)]


def _guess_candidates(
    epsilons: Sequence[float],
    rows: Mapping[float, SearchRow],
    measure: Callable[[SearchRow], float],
    low: int,
    high: int,
) -> list[int]:
    """Guess the first candidate that reaches the target; return it and the one before it.

    Args:
        epsilons: The candidates.
        rows: The rows that there are, by ε.
        measure: How far a row is from the target.
        low: The largest candidate that does not reach it, or -1.
        high: The smallest one that does, or how many candidates there are.

    Returns:
        Those of the two that are between `low` and `high`; none if there is nothing to go by.
    """
    if len(rows) < 2:
        return []
    known = sorted(rows)
    # The two rows around the target, or the two nearest to where it must be.
    right_at = min(max(bisect_left(known, epsilons[low]) + 1 if low >= 0 else 1, 1), len(known) - 1)
    left = known[right_at - 1]
    right = known[right_at]
    left_value = measure(rows[left])
    slope = (measure(rows[right]) - left_value) / math.log(right / left)
    if slope <= 0:  # noise hides everything at both
        return []
    step = min(max(-left_value / slope, -MAX_LOG_STEP), MAX_LOG_STEP)
    guess = min(bisect_left(epsilons, left * math.exp(step)), len(epsilons) - 1)
    guess = min(max(guess, low + 1), high)
    return [at for at in (guess - 1, guess) if low < at < high]


# --- The budget of one release among several ---


@dataclass(frozen=True)
class SharedBudget:
    """A budget for several equal releases, beside what a ledger has spent already.

    Attributes:
        delta: δ of all releases together.
        releases: Number of releases that share the budget.
        limit: The budget of the ledger, if there is one.
        spent: What has been spent on the ledger.
    """

    delta: float
    releases: int = 1
    limit: Budget | None = None
    spent: Sequence[Spend] = ()

    def __post_init__(self) -> None:
        if Budget(1.0, self.delta).delta == 0:
            raise UsageError.for_argument(
                "delta", "0", "the mechanism needs a delta above 0, such as 1e-7."
            )
        check_int("releases", self.releases, 1, MAX_RELEASES, "how many releases share the budget")

    @classmethod
    def from_ledger(cls, contents: LedgerContents, releases: int = 1) -> "SharedBudget":
        """Return what a ledger has left.

        Raises:
            UsageError: If the ledger has δ = 0.
            BayesgramError: If nothing is left.
        """
        budget = contents.budget
        if not budget.delta:
            raise UsageError(
                f"the ledger of {contents.population!r} has δ = 0, which only pure-ε releases fit,"
                " and a plan is of Gaussian ones; use a ledger of δ > 0."
            )
        shared = cls(budget.delta, releases, budget, tuple(contents.spends))
        if not shared.max_epsilon:
            raise BayesgramError(
                f"nothing is left of the ledger of {contents.population!r}: its budget is ε ="
                f" {budget.epsilon:g} at δ = {budget.delta:g}, and all of it is spent."
            )
        return shared

    @property
    def max_epsilon(self) -> float:
        """The largest ε of all releases together that a plan may have; 0 if nothing is left."""
        if self.limit is None:
            return MAX_EPSILON
        return min(MAX_EPSILON, remaining_gaussian_epsilon(self.spent, self.limit))

    def for_one_release(
        self, epsilon: float, calibrate: Callable[[Budget], GaussianNoise]
    ) -> Budget:
        """Return the budget of one release where all together have this ε.

        Args:
            epsilon: ε of all releases together.
            calibrate: Returns the noise of a release with a budget.

        Raises:
            UsageError: If nothing is left for one release, or if all do not fit into the ledger.
        """
        total = Budget(epsilon, self.delta)
        share = (
            epsilon if self.releases == 1 else remaining_gaussian_epsilon([], total, self.releases)
        )
        if not share:
            raise UsageError.for_argument(
                "releases",
                self.releases,
                "too many for ",
                Argument("epsilon", f"{epsilon:g}"),
                "; nothing is left for each.",
            )
        budget = Budget(share, self.delta)
        spends = [*self.spent, *[calibrate(budget).spend] * self.releases]
        if not fits(spends, self.limit or total):
            raise UsageError.for_argument(
                "epsilon",
                f"{epsilon:g}",
                f"more than there is; the largest that fits is about {self.max_epsilon:g}.",
            )
        return budget


# --- The plan ---

SIMULATED_NOTE = (
    "Simulated: made-up people, and noise as the mechanism adds it. No private data is read,"
    " nothing is spent."
)
CAVEAT = "Real people are not this simple: take it as a first idea, not as a promise."


@dataclass(frozen=True)
class PlanRow:
    """What to expect at one ε: means over simulated releases, and how far these lie apart.

    Attributes:
        epsilon: ε of all releases together.
        release_epsilon: ε of one release.
        kl: KL divergence from what people write to the release, in nats: the mean of the draws.
        kl_low: The smallest KL of the draws.
        kl_high: The largest KL of the draws.
        public_kl: KL divergence of public text alone.
        known_share: Share of what people write that is expected to lie within a factor of 2.
        clipped_share: Share of the users who write more than counts in full.
        is_hidden: Whether noise hides everything, so that the release would be public text.
    """

    epsilon: float
    release_epsilon: float
    kl: float
    kl_low: float
    kl_high: float
    public_kl: float
    known_share: float
    clipped_share: float
    is_hidden: bool

    @classmethod
    def from_draws(
        cls, epsilon: float, release_epsilon: float, draws: Sequence[SimulatedRelease]
    ) -> "PlanRow":
        """Summarise the simulated releases of one ε.

        Args:
            epsilon: ε of all releases together.
            release_epsilon: ε of one release.
            draws: The simulated releases.
        """
        kls = [draw.kl for draw in draws]
        return cls(
            epsilon,
            release_epsilon,
            kl=_mean(kls),
            kl_low=min(kls),
            kl_high=max(kls),
            public_kl=_mean([draw.public_kl for draw in draws]),
            known_share=_mean([draw.known_share for draw in draws]),
            clipped_share=_mean([draw.clipped_share for draw in draws]),
            is_hidden=all(draw.model == "public" for draw in draws),
        )

    @property
    def closed_share(self) -> float:
        """Share of the KL of public text that the release takes away."""
        return max(0.0, 1 - self.kl / self.public_kl) if self.public_kl > 0 else 0.0

    def to_json(self) -> dict[str, Any]:
        """Return the row by the names that `bayesgram plan --json` writes."""
        return {
            "epsilon": self.epsilon,
            "each": self.release_epsilon,
            "kl": self.kl,
            "kl_low": self.kl_low,
            "kl_high": self.kl_high,
            "public_kl": self.public_kl,
            "known": self.known_share,
            "clipped": self.clipped_share,
            "hidden": self.is_hidden,
            "closed": self.closed_share,
        }


@dataclass(frozen=True)
class Target:
    """What a release should reach: a KL, or a share expected to lie within a factor of 2."""

    kl: float | None = None
    known: float | None = None

    def __post_init__(self) -> None:
        if self.kl is not None and self.known is not None:
            raise UsageError("kl and known: give one of them; each has an ε of its own.")
        if self.kl is not None and not 0 < self.kl < float("inf"):
            raise UsageError.for_argument(
                "kl",
                f"{self.kl:g}",
                "give a number above 0, such as 0.05; public text alone has about 1.5.",
            )
        if self.known is not None and not 0 < self.known < 1:
            raise UsageError.for_argument(
                "known", f"{self.known:g}", "give a share above 0 and below 1, such as 0.8 (80%)."
            )

    @property
    def is_given(self) -> bool:
        """Whether there is a target at all."""
        return self.kl is not None or self.known is not None

    def is_reached_by(self, row: PlanRow) -> bool:
        """Whether a row is good enough."""
        if self.kl is not None:
            return row.kl <= self.kl
        return row.known_share >= (self.known or 0.0)

    def distance(self, row: PlanRow) -> float:
        """Return by how much a row is better than needed; below 0 if it does not reach it.

        It changes about evenly with log ε.
        """
        if self.kl is not None:
            return math.log(self.kl) - math.log(max(row.kl, 1e-12))
        return row.known_share - (self.known or 0.0)

    def __str__(self) -> str:
        if self.kl is not None:
            return f"a KL of {self.kl:g}"
        share = f"{100 * (self.known or 0):.3g}%"
        return f"{share} of what people write expected to lie within a factor of 2"


@dataclass(frozen=True, repr=False)
class Plan:
    """What to expect of releases, and under which assumptions.

    Attributes:
        assumptions: What is assumed about the people; of one segment, where there are several.
        delta: δ of all releases together.
        size: Number of n-grams of each order that the plan has.
        vocabulary_size: Number of n-grams of the order that the vocabulary has most of.
        draws: Number of simulated releases for each ε.
        releases: Number of releases that share each ε.
        segments: Number of segments.
        ledger: The population of the ledger, if there is one.
        rows: What to expect, by ε.
        target: What should be reached, if anything.
        epsilon: The smallest ε that reaches the target, if one does.
        max_epsilon: The largest ε that was allowed.
        from_pilot: The names of the assumptions that were taken from a pilot release.
    """

    assumptions: Assumptions
    delta: float
    size: int
    vocabulary_size: int
    draws: int
    releases: int
    segments: int
    ledger: str | None
    rows: tuple[PlanRow, ...]
    target: Target
    epsilon: float | None
    max_epsilon: float
    from_pilot: tuple[str, ...] = ()

    def __repr__(self) -> str:
        tried = ", ".join(f"{row.epsilon:g}" for row in self.rows)
        return f"Plan({self.assumptions.users:,.0f} users, ε = {tried}, δ = {self.delta:g})"

    def _repr_html_(self) -> str:
        """Show what to expect at each ε in a notebook."""
        rows = [
            (
                f"{row.epsilon:g}",
                f"{row.kl:.3g}",
                f"{row.closed_share:.0%}",
                f"{row.known_share:.0%}",
                f"{row.clipped_share:.0%}",
            )
            for row in self.rows
        ]
        facts = [("Answer", self.answer)] if self.answer else []
        facts += [("Assumed", self.assumptions_sentence.removeprefix("Assumed: "))]
        facts += [("Warning", warning) for warning in self.warnings]
        columns = ("ε", "KL", "public text's error removed", "known", "users clipped")
        return html("Plan (simulated)", facts, columns, rows)

    @property
    def answer(self) -> str | None:
        """Which ε reaches the target, in a sentence; None if there is no target."""
        if not self.target.is_given:
            return None
        if self.epsilon is None:
            best = self.rows[-1]
            return (
                f"No ε up to {self.max_epsilon:g} reaches {self.target}: there, expect a KL of"
                f" {best.kl:.2g} and {best.known_share:.0%} known. More users, a smaller"
                " vocabulary or nearer public text help."
            )
        shared = ""
        if self.releases > 1:
            row = next(row for row in self.rows if row.epsilon == self.epsilon)
            shared = f" for all {self.releases:,} releases, {row.release_epsilon:g} for each,"
        return f"ε = {self.epsilon:g}{shared} reaches {self.target}, by this simulation."

    @property
    def assumptions_sentence(self) -> str:
        """What was assumed, in a sentence."""
        people = self.assumptions
        return (
            f"Assumed: {people.users:,.0f} users who write {people.ngrams_a_user:g} of these"
            f" n-grams on average (unevenness {people.unevenness:g}), and differ from public text"
            f" by {people.difference:g} (0.6: close; 1.8: Reddit from Wikipedia);"
            f" {self.size:,} n-grams an order, δ = {self.delta:g};"
            f" {self.draws} simulated release{'s' if self.draws > 1 else ''} for each ε."
        )

    @property
    def notes(self) -> list[str]:
        """What a reader must know about the numbers, one sentence or two for each point."""
        notes = [SIMULATED_NOTE, self.assumptions_sentence]
        if self.from_pilot:
            names = ", ".join(name.replace("_", " ") for name in self.from_pilot)
            notes.append(
                f"From the pilot release: {names}. They are estimates from noisy numbers, of the"
                " people whom noise does not hide."
            )
        if self.size < self.vocabulary_size:
            reason = ""
            if self.size == MAX_NGRAMS:
                reason = f" (more than {MAX_NGRAMS:,} take too long)"
            notes.append(
                f"The vocabulary has {self.vocabulary_size:,} n-grams of an order; the plan is of"
                f" its {self.size:,} most frequent ones{reason}."
            )
        if self.releases > 1:
            notes.append(
                f"{self.releases:,} releases share each ε as a ledger composes them (1/σ² adds up);"
                " each is planned by itself, without starting from earlier ones."
            )
        if self.segments > 1:
            notes.append(
                "A segment of average size is planned as a release of its own:"
                f" {self.assumptions.users:,.0f} users, each in one of {self.segments:,} segments,"
                " within one budget for all, and public text as its prior. An approximation: small"
                " segments come out worse, and what all people tell of each makes it better."
            )
        hidden_epsilons = [row.epsilon for row in self.rows if row.is_hidden]
        if hidden_epsilons:
            notes.append(
                f"Noise hides what people write up to ε = {max(hidden_epsilons):g}: there, the"
                " answer would be public text."
            )
        return [*notes, CAVEAT]

    @property
    def warnings(self) -> list[str]:
        """Why the guarantee would be weak, of the smallest ε that the plan is about."""
        epsilon = self.epsilon or min(row.epsilon for row in self.rows)
        users = round(self.assumptions.users * self.segments)
        return [str(weakness) for weakness in find_weaknesses(epsilon, self.delta, users)]

    def to_json(self) -> dict[str, Any]:
        """Return the plan as `bayesgram plan --json` writes it."""
        return {
            **asdict(self.assumptions),
            "delta": self.delta,
            "size": self.size,
            "listed": self.vocabulary_size,
            "draws": self.draws,
            "releases": self.releases,
            "segments": self.segments,
            "ledger": self.ledger,
            "epsilon": self.epsilon,
            "largest": self.max_epsilon,
            "target": asdict(self.target) if self.target.is_given else None,
            "answer": self.answer,
            "rows": [row.to_json() for row in self.rows],
            "notes": self.notes,
            "warnings": self.warnings,
            "from_pilot": list(self.from_pilot),
        }


@check_arguments
def plan(
    vocabulary: Vocabulary,
    *,
    users: float | None = None,
    pilot: Release | None = None,
    ngrams_a_user: float | None = None,
    unevenness: float | None = None,
    difference: float | None = None,
    epsilon: float | Sequence[float] | None = None,
    delta: float | None = None,
    kl: float | None = None,
    known: float | None = None,
    releases: int = 1,
    segments: int = 1,
    ledger: Ledger | None = None,
    size: int | None = None,
    draws: int | None = None,
    on_progress: Callable[[float], None] | None = None,
) -> Plan:
    """Simulate releases by `posterior`: which accuracy to expect at which ε.

    Public text and assumptions go in; no private data is read and nothing is spent.

    Args:
        vocabulary: The public n-grams.
        users: How many people write: a public round figure. Needed without a pilot.
        pilot: A published release by `posterior` of the same vocabulary. What is not given of the
            four numbers about people is estimated from it, at no privacy cost.
        ngrams_a_user: N-grams of the vocabulary that a user writes, on average; 8 without a pilot.
        unevenness: Standard deviation of the logarithm of what users write; 0 if all write the
            same amount, 1.2 without a pilot.
        difference: How far private text is from public text: the standard deviation of the
            logarithm of their ratio. 1.8, without a pilot, is Reddit against Wikipedia.
        epsilon: One or several ε to plan with; of all releases together.
        delta: δ of all releases together; 1e-7 without it, or that of the ledger.
        kl: Find the smallest ε that reaches this KL divergence instead.
        known: Find the smallest ε at which this share of what people write is known within a
            factor of 2 instead.
        releases: Number of releases that share each ε, as a ledger composes them.
        segments: Number of segments within one budget; one of average size is planned.
        ledger: Plan with what is left of this ledger. It is only read.
        size: Number of n-grams of each order, the most frequent ones; all without it, up to
            100,000.
        draws: Number of simulated releases for each ε; 3 without it, and 1 above 20,000 n-grams.
        on_progress: Is called with the share of the work that is done, from 0 to 1; by several
            threads, but never by two at a time.

    Returns:
        One row for each ε. With `kl` or `known`, one for each ε that was tried, and the smallest
        that reaches it.

    Raises:
        UsageError: If a value is out of range, or if two of them exclude each other.
        BayesgramError: If nothing is left of the ledger.

    Example:
        >>> import bayesgram as bg
        >>> import pyarrow as pa
        >>> public = pa.table({"text": ["see you soon", "see you later", "it is late"]})
        >>> vocabulary = bg.Vocabulary.from_public(public, order=1, size=10)
        >>> simulated = bg.plan(vocabulary, users=10_000, epsilon=[0.5, 2.0], draws=1)
        >>> [row.epsilon for row in simulated.rows], simulated.rows[1].kl < simulated.rows[0].kl
        ([0.5, 2.0], True)
    """
    target = Target(kl, known)
    epsilons = _sort_epsilons(epsilon)
    if target.is_given and epsilons:
        raise UsageError("epsilon: leave it out with kl or known, which look for an ε.")
    budget = _make_shared_budget(delta, releases, ledger)
    planner = Planner(vocabulary)
    stated = {
        "users": users,
        "ngrams_a_user": ngrams_a_user,
        "unevenness": unevenness,
        "difference": difference,
    }
    people = _complete_assumptions(stated, pilot, vocabulary)
    assumptions = replace(people, users=_users_per_segment(people.users, segments))
    size = planner.max_size if size is None else size
    draws = (DEFAULT_DRAWS if size <= SLOW_SIZE else DRAWS_IF_SLOW) if draws is None else draws
    check_int("draws", draws, 1, MAX_DRAWS, "how many releases are simulated for each ε")
    chosen_epsilons = epsilons or _default_epsilons(budget)
    row_count = len(chosen_epsilons)
    if target.is_given:
        row_count = USUAL_ROWS
    progress = _Progress(row_count * draws, on_progress)
    simulator = _RowSimulator(planner, budget, assumptions, size, draws, progress)
    smallest = None
    if target.is_given:
        smallest, rows = find_smallest_epsilon(
            target.is_reached_by,
            simulator.simulate_row,
            budget.max_epsilon,
            measure=target.distance,
            cores=CORES,
        )
    else:
        rows = simulator.simulate_rows(chosen_epsilons)
    return Plan(
        assumptions=assumptions,
        delta=budget.delta,
        size=size,
        vocabulary_size=planner.vocabulary_size,
        draws=draws,
        releases=releases,
        segments=segments,
        ledger=None if ledger is None else ledger.population,
        rows=tuple(rows),
        target=target,
        epsilon=smallest,
        max_epsilon=budget.max_epsilon,
        from_pilot=tuple(name for name, value in stated.items() if pilot and value is None),
    )


class _Progress:
    """Counts simulated releases, and reports the share of them that is done."""

    def __init__(self, total: int, on_progress: Callable[[float], None] | None) -> None:
        self._total = total
        self._on_progress = on_progress
        self._done = 0
        self._lock = Lock()

    def add(self) -> None:
        """Count one."""
        with self._lock:
            self._done += 1
            if self._on_progress is not None:
                self._on_progress(min(1.0, self._done / self._total))


def _complete_assumptions(
    stated: Mapping[str, float | None], pilot: Release | None, vocabulary: Vocabulary
) -> Assumptions:
    """Return what is assumed about people: as stated, else by the pilot, else by default."""
    given = {name: value for name, value in stated.items() if value is not None}
    if pilot is not None:
        return replace(assumptions_from_pilot(pilot, vocabulary), **given)
    if "users" not in given:
        raise UsageError(
            "say how many people write, roughly, with ",
            Argument("users"),
            ", or give a release about them with ",
            Argument("pilot"),
            ".",
        )
    return Assumptions(**{**DEFAULT_ASSUMPTIONS, **given})


@dataclass(frozen=True)
class _RowSimulator:
    """Simulates the rows of a plan, which differ in ε alone."""

    planner: Planner
    budget: SharedBudget
    assumptions: Assumptions
    size: int
    draws: int
    progress: _Progress

    def __post_init__(self) -> None:
        self.planner.check_size(self.size)

    def simulate_rows(self, epsilons: Sequence[float]) -> list[PlanRow]:
        """Simulate several rows at once; refuse an ε that does not fit before simulating any."""
        for epsilon in epsilons:
            self._make_request(epsilon)
        return parallel_map(self.simulate_row, epsilons)

    def simulate_row(self, epsilon: float) -> PlanRow:
        """Simulate releases that have this ε together."""
        request = self._make_request(epsilon)
        draws = []
        for draw in range(self.draws):
            draws.append(self.planner.simulate(request, draw))
            self.progress.add()
        return PlanRow.from_draws(epsilon, request.budget.epsilon, draws)

    def _make_request(self, epsilon: float) -> PlanRequest:
        budget = self.budget.for_one_release(
            epsilon, lambda budget: self.planner.calibrate_noise(budget, self.size)
        )
        return PlanRequest(self.assumptions, budget, self.size)


def _make_shared_budget(delta: float | None, releases: int, ledger: Ledger | None) -> SharedBudget:
    if ledger is None:
        return SharedBudget(DEFAULT_DELTA if delta is None else delta, releases)
    if delta is not None:
        raise UsageError.for_argument(
            "delta", f"{delta:g}", "the ledger has a δ of its own; leave one of them out."
        )
    return SharedBudget.from_ledger(ledger.read(), releases)


def _users_per_segment(users: float, segments: int) -> float:
    check_int("segments", segments, 1, MAX_SEGMENTS, "how many segments share the budget")
    min_users = RANGES["users"][0]
    # Checked here, as the error of `Assumptions` would name a number of users that nobody gave.
    if segments > 1 and users / segments < min_users <= users:
        raise UsageError.for_argument(
            "segments",
            segments,
            f"a segment would have {users / segments:.3g} users; give at most "
            f"{users / min_users:.0f} segments of 100 users.",
        )
    return users / segments


def _sort_epsilons(epsilon: float | Sequence[float] | None) -> tuple[float, ...]:
    """Return every ε once, the smallest first, if a budget can have it."""
    if epsilon is None:
        return ()
    epsilons = tuple(epsilon) if isinstance(epsilon, Sequence) else (epsilon,)
    if not epsilons:
        raise UsageError("epsilon: give at least one, or leave it out.")
    if len(epsilons) > MAX_EPSILONS:
        raise UsageError(f"epsilon: {len(epsilons)} values; give at most {MAX_EPSILONS}.")
    return tuple(sorted({Budget(value).epsilon for value in epsilons}))


def _default_epsilons(budget: SharedBudget) -> tuple[float, ...]:
    """Return the usual ε; with a ledger those that still fit, and all that is left."""
    if budget.limit is None:
        return DEFAULT_EPSILONS
    largest = budget.max_epsilon
    return (*(epsilon for epsilon in DEFAULT_EPSILONS if epsilon < largest), largest)


def _mean(values: Sequence[float]) -> float:
    return float(sum(values) / len(values))
