"""A plan: the accuracy to expect at several ε, or the ε that reaches an accuracy.

In:  a vocabulary, assumptions about the people, and a budget (given, or what a ledger has left).
Out: a `Plan`. Everything is simulated (simulation.py): made-up people and noise. Reads no private
data and charges no ledger.

Several releases may share a budget (`Shares`); they compose as a ledger composes them: 1/σ² adds
up. The smallest ε that reaches a target is looked for by bisection over a public list: accuracy
grows with ε, nearly steadily, as the simulated people stay the same.
"""

from bisect import bisect_left
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Protocol, TypeVar

from bayesgram.arguments import check_arguments
from bayesgram.cores import parallel_map
from bayesgram.errors import Argument, BayesgramError, UsageError, check_int
from bayesgram.planning.simulation import (
    MOST_DRAWS,
    MOST_NGRAMS,
    RANGES,
    Assumed,
    Expected,
    Planner,
    PlanRequest,
)
from bayesgram.privacy.accounting import Spend, fits, gaussian_left
from bayesgram.privacy.budget import Budget
from bayesgram.privacy.calibration import GaussianNoise
from bayesgram.privacy.ledger import Ledger
from bayesgram.privacy.ledger_io import LedgerContents
from bayesgram.public.vocabulary import Vocabulary
from bayesgram.releases.card_sections import find_weaknesses

# Candidates of a decade, in tenths of its start; about 24, each at most 12% above the last.
# fmt: off
STEPS = (10, 11, 12, 13, 14, 15, 16, 18, 20, 22, 24, 26, 28, 30, 33, 36, 40, 45, 50, 55, 60,
         70, 80, 90)
# fmt: on
DECADES = (0.01, 0.1, 1.0, 10.0)


class HasEpsilon(Protocol):
    """A row of a plan."""

    @property
    def epsilon(self) -> float:
        """Of all releases together."""


SearchRow = TypeVar("SearchRow", bound=HasEpsilon)


def candidates(largest: float) -> list[float]:
    """About 24 values a decade from 0.01 up to the largest, and that itself.

    >>> candidates(0.0123), len(candidates(10.0))
    ([0.01, 0.011, 0.012, 0.0123], 73)
    """
    found = [round(decade * step / 10, 3) for decade in DECADES for step in STEPS]
    return [*(epsilon for epsilon in found if epsilon < largest), largest]


def first_that_reaches(
    reached: Callable[[SearchRow], bool], row_of: Callable[[float], SearchRow], largest: float
) -> tuple[float | None, list[SearchRow]]:
    """The smallest candidate that reaches it, None if the largest doesn't; and all rows that were made, by ε."""
    wanted = candidates(largest)
    rows: dict[float, SearchRow] = {}

    def is_enough(epsilon: float) -> bool:
        rows[epsilon] = row_of(epsilon)
        return reached(rows[epsilon])

    found = None
    if is_enough(largest):
        found = wanted[bisect_left(wanted, True, hi=len(wanted) - 1, key=is_enough)]
    return found, [rows[epsilon] for epsilon in sorted(rows)]


MOST_RELEASES = 10_000
LARGEST = 10.0  # ε from which on no promise protects: no plan is looked for above


@dataclass(frozen=True)
class Shares:
    """So many releases within one budget, beside what was spent before."""

    delta: float
    releases: int = 1
    limit: Budget | None = None  # of the ledger
    spent: Sequence[Spend] = ()  # on the ledger

    def __post_init__(self) -> None:
        if Budget(1.0, self.delta).delta == 0:
            raise UsageError.for_argument(
                "delta", "0", "the mechanism needs a delta above 0, such as 1e-7."
            )
        check_int("releases", self.releases, 1, MOST_RELEASES, "how many releases share the budget")

    @classmethod
    def from_ledger(cls, contents: LedgerContents, releases: int = 1) -> "Shares":
        """What a ledger has left; one that has nothing left is refused."""
        if not contents.budget.delta:
            raise UsageError(
                f"the ledger of {contents.population!r} has δ = 0, which only pure-ε releases fit, and a plan is of"
                " Gaussian ones; use a ledger of δ > 0."
            )
        found = cls(contents.budget.delta, releases, contents.budget, tuple(contents.spends))
        if not found.largest:
            raise BayesgramError(
                f"nothing is left of the ledger of {contents.population!r}: its budget is ε ="
                f" {contents.budget.epsilon:g} at δ = {contents.budget.delta:g}, and all of it is spent."
            )
        return found

    @property
    def largest(self) -> float:
        """The largest ε of all releases together that may be planned with; 0 if nothing is left."""
        return (
            LARGEST if self.limit is None else min(LARGEST, gaussian_left(self.spent, self.limit))
        )

    def each(self, epsilon: float, noise_of: Callable[[Budget], GaussianNoise]) -> Budget:
        """The budget of one release where all together have this ε; `noise_of` says what a release adds."""
        whole = Budget(epsilon, self.delta)
        part = epsilon if self.releases == 1 else gaussian_left([], whole, self.releases)
        if not part:
            raise UsageError.for_argument(
                "releases",
                self.releases,
                "too many for ",
                Argument("epsilon", f"{epsilon:g}"),
                "; nothing is left for each.",
            )
        each = Budget(part, self.delta)
        if not fits([*self.spent, *[noise_of(each).spend] * self.releases], self.limit or whole):
            raise UsageError.for_argument(
                "epsilon",
                f"{epsilon:g}",
                f"more than there is; the largest that fits is about {self.largest:g}.",
            )
        return each


EPSILONS = (0.1, 0.2, 0.5, 1.0, 2.0)
DELTA = 1e-7
DRAWS, FEW_DRAWS = 3, 1  # simulated releases for each ε, and where one of them takes seconds
SLOW = 20_000  # n-grams from which on one does
MOST_EPSILONS = 50
MOST_SEGMENTS = 10_000
SIMULATED = "Simulated: made-up people, and noise as the mechanism adds it. No private data is read, nothing is spent."
FIRST_IDEA = "Real people are not this simple: take it as a first idea, not as a promise."


@dataclass(frozen=True)
class PlanRow:
    """What to expect at one ε: means over simulated releases, and how far these lie apart."""

    epsilon: float  # of all releases together
    each: float  # of one release
    kl: float
    kl_low: float
    kl_high: float
    public_kl: float
    known: float  # share of what people write that is known within a factor of 2
    clipped: float  # share of the users who write more than counts in full
    hidden: bool  # noise hides everything: the answer is public text

    @classmethod
    def from_draws(cls, epsilon: float, each: float, draws: Sequence[Expected]) -> "PlanRow":
        """The draws of one ε as one row."""
        kls = [draw.kl for draw in draws]
        return cls(
            epsilon,
            each,
            _mean(kls),
            min(kls),
            max(kls),
            _mean([draw.public_kl for draw in draws]),
            _mean([draw.known for draw in draws]),
            _mean([draw.clipped for draw in draws]),
            all(draw.model == "public" for draw in draws),
        )

    @property
    def closed(self) -> float:
        """How much of the distance between public text and people is gone."""
        return max(0.0, 1 - self.kl / self.public_kl) if self.public_kl > 0 else 0.0


@dataclass(frozen=True)
class Target:
    """What a release should reach: a KL, or a share that is known within a factor of 2."""

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
        """Whether there is one."""
        return self.kl is not None or self.known is not None

    def reached_by(self, row: PlanRow) -> bool:
        """Whether this is good enough."""
        return row.kl <= self.kl if self.kl is not None else row.known >= (self.known or 0.0)

    def __str__(self) -> str:
        if self.kl is not None:
            return f"a KL of {self.kl:g}"
        return f"{100 * (self.known or 0):.3g}% of what people write known within a factor of 2"


@dataclass(frozen=True)
class Plan:
    """What to expect, and under which assumptions."""

    assumed: Assumed
    delta: float
    size: int  # n-grams of each order
    listed: int  # in the vocabulary, of the order of which it has most
    draws: int
    releases: int
    segments: int
    ledger: str | None  # its population
    rows: tuple[PlanRow, ...]  # by ε
    target: Target
    epsilon: float | None  # the smallest that reaches the target, where there is one
    largest: float  # ε up to which was looked

    @property
    def answer(self) -> str | None:
        """Which ε reaches the target, in a sentence."""
        if not self.target.is_given:
            return None
        if self.epsilon is None:
            best = self.rows[-1]
            return (
                f"No ε up to {self.largest:g} reaches {self.target}: there, expect a KL of {best.kl:.2g} and"
                f" {best.known:.0%} known. More users, a smaller vocabulary or nearer public text help."
            )
        together = (
            ""
            if self.releases == 1
            else f" for all {self.releases:,} releases, {self._each:g} for each,"
        )
        return f"ε = {self.epsilon:g}{together} reaches {self.target}, by this simulation."

    @property
    def _each(self) -> float:
        return next(row.each for row in self.rows if row.epsilon == self.epsilon)

    @property
    def assumptions(self) -> str:
        """What was assumed, in a sentence."""
        people = self.assumed
        return (
            f"Assumed: {people.users:,.0f} users who write {people.ngrams_a_user:g} of these n-grams on average"
            f" (unevenness {people.unevenness:g}), and differ from public text by {people.difference:g} (0.6: close;"
            f" 1.8: Reddit from Wikipedia); {self.size:,} n-grams an order, δ = {self.delta:g};"
            f" {self.draws} simulated release{'s' if self.draws > 1 else ''} for each ε."
        )

    @property
    def notes(self) -> list[str]:
        """What else must be said of the numbers."""
        found = [SIMULATED, self.assumptions]
        if self.size < self.listed:
            found.append(
                f"The vocabulary has {self.listed:,} n-grams of an order; the plan is of its {self.size:,} most"
                f" frequent ones{f' (more than {MOST_NGRAMS:,} take too long)' if self.size == MOST_NGRAMS else ''}."
            )
        if self.releases > 1:
            found.append(
                f"{self.releases:,} releases share each ε as a ledger composes them (1/σ² adds up); each is planned by"
                " itself, without what earlier ones have told."
            )
        if self.segments > 1:
            found.append(
                f"A segment of average size is planned as a release of its own: {self.assumed.users:,.0f} users, each"
                f" in one of {self.segments:,} segments, within one budget for all, and public text as its prior. An"
                " approximation: small segments come out worse, and what all people tell of each makes it better."
            )
        if any(row.hidden for row in self.rows):
            most = max(row.epsilon for row in self.rows if row.hidden)
            found.append(
                f"Noise hides what people write up to ε = {most:g}: there, the answer would be public text."
            )
        return [*found, FIRST_IDEA]

    @property
    def warnings(self) -> list[str]:
        """Where the promise would be weak."""
        epsilon = self.epsilon or min(row.epsilon for row in self.rows)
        return [
            str(weakness)
            for weakness in find_weaknesses(
                epsilon, self.delta, round(self.assumed.users * self.segments)
            )
        ]

    def to_json(self) -> dict[str, Any]:
        """Plain values."""
        told = {
            name: value
            for name, value in vars(self).items()
            if name not in {"assumed", "rows", "target"}
        }
        return {
            **asdict(self.assumed),
            **told,
            "target": asdict(self.target) if self.target.is_given else None,
            "answer": self.answer,
            "rows": [{**asdict(row), "closed": row.closed} for row in self.rows],
            "notes": self.notes,
            "warnings": self.warnings,
        }


@check_arguments
def plan(
    vocabulary: Vocabulary,
    *,
    users: float,
    ngrams_a_user: float = 8.0,
    unevenness: float = 1.2,
    difference: float = 1.8,
    epsilon: float | Sequence[float] | None = None,
    delta: float | None = None,
    kl: float | None = None,
    known: float | None = None,
    releases: int = 1,
    segments: int = 1,
    ledger: Ledger | None = None,
    size: int | None = None,
    draws: int | None = None,
) -> Plan:
    """What accuracy to expect of a release by `posterior`, from public text and assumptions alone.

    For each ε, or with `kl` or `known` (a share) the ε that reaches it. With several `releases` ε is for all of them
    together; with a `ledger` it is of what is left there, at its δ. `size` cuts the vocabulary to its most frequent
    n-grams.
    """
    target, wanted = Target(kl, known), _listed(epsilon)
    if target.is_given and wanted:
        raise UsageError("epsilon: leave it out with kl or known, which look for an ε.")
    shares, planner = _shares(delta, releases, ledger), Planner(vocabulary)
    assumed = Assumed(_in_a_segment(users, segments), ngrams_a_user, unevenness, difference)
    size = planner.largest if size is None else size
    draws = (DRAWS if size <= SLOW else FEW_DRAWS) if draws is None else draws
    check_int("draws", draws, 1, MOST_DRAWS, "how many releases are simulated for each ε")
    simulated = _Simulated(planner, shares, assumed, size, draws)
    if target.is_given:
        found, rows = first_that_reaches(target.reached_by, simulated.row, shares.largest)
    else:
        found, rows = None, simulated.rows(wanted or _default(shares))
    return Plan(
        assumed=assumed,
        delta=shares.delta,
        size=size,
        listed=planner.longest_list,
        draws=draws,
        releases=releases,
        segments=segments,
        ledger=None if ledger is None else ledger.population,
        rows=tuple(rows),
        target=target,
        epsilon=found,
        largest=shares.largest,
    )


@dataclass(frozen=True)
class _Simulated:
    """Makes the rows of a plan, one by one."""

    planner: Planner
    shares: Shares
    assumed: Assumed
    size: int
    draws: int

    def __post_init__(self) -> None:
        self.planner.check_size(self.size)

    def rows(self, epsilons: Sequence[float]) -> list[PlanRow]:
        """One for each ε; a budget that won't do is refused before the work."""
        for epsilon in epsilons:
            self._request(epsilon)
        return parallel_map(self.row, epsilons)

    def row(self, epsilon: float) -> PlanRow:
        """What to expect where all releases together have this ε."""
        request = self._request(epsilon)
        draws = [self.planner.expect(request, draw) for draw in range(self.draws)]
        return PlanRow.from_draws(epsilon, request.budget.epsilon, draws)

    def _request(self, epsilon: float) -> PlanRequest:
        each = self.shares.each(epsilon, lambda budget: self.planner.noise(budget, self.size))
        return PlanRequest(self.assumed, each, self.size)


def _shares(delta: float | None, releases: int, ledger: Ledger | None) -> Shares:
    if ledger is None:
        return Shares(DELTA if delta is None else delta, releases)
    if delta is not None:
        raise UsageError.for_argument(
            "delta", f"{delta:g}", "the ledger has a δ of its own; leave one of them out."
        )
    return Shares.from_ledger(ledger.read(), releases)


def _in_a_segment(users: float, segments: int) -> float:
    """How many users an average segment has; what is wrong is said of what was given."""
    check_int("segments", segments, 1, MOST_SEGMENTS, "how many segments share the budget")
    if segments > 1 and users / segments < RANGES["users"][0] <= users:
        raise UsageError.for_argument(
            "segments",
            segments,
            f"a segment would have {users / segments:.3g} users; give at most "
            f"{users / RANGES['users'][0]:.0f} segments of 100 users.",
        )
    return users / segments


def _listed(epsilon: float | Sequence[float] | None) -> tuple[float, ...]:
    """Every ε once, the smallest first; each is one that a budget can have."""
    given = (
        () if epsilon is None else tuple(epsilon) if isinstance(epsilon, Sequence) else (epsilon,)
    )
    if epsilon is not None and not given:
        raise UsageError("epsilon: give at least one, or leave it out.")
    if len(given) > MOST_EPSILONS:
        raise UsageError(f"epsilon: {len(given)} values; give at most {MOST_EPSILONS}.")
    return tuple(sorted({Budget(each).epsilon for each in given}))


def _default(shares: Shares) -> tuple[float, ...]:
    """Usual values; with a ledger those that are left, and all that is left."""
    left = shares.largest
    return EPSILONS if shares.limit is None else (*(each for each in EPSILONS if each < left), left)


def _mean(values: Sequence[float]) -> float:
    return float(sum(values) / len(values))
