"""What an experiment is: rows, a picture, and the paper's statement checked against the rows.

A verdict is computed from measured numbers: every check is a sentence with the numbers in it, and whether it holds.

Perplexity of a trigram model without back-off, on held-out users.

P(w₃ | w₁ w₂) = θ(w₁ w₂ w₃) / Σ_w θ(w₁ w₂ w), the sum over the n-grams of the vocabulary that share the context;
perplexity = exp(−Σ c log P / Σ c), c = the held-out counts. It is an average over covered n-grams; the paper averages
over words of sentences whose n-grams are all covered, which asks for the sentences themselves.
"""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from functools import cached_property, partial
from os import cpu_count
from statistics import median
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from bayesgram.arrays import Floats, Integers
from bayesgram.audit.evaluation import kl_divergence
from bayesgram.errors import BayesgramError
from bayesgram.paper.harness import Bench, Cached, Data, Exact, Measure, Method, Row
from bayesgram.paper.line_charts import shown
from bayesgram.public.vocabulary import Vocabulary

Step = Callable[[str], AbstractContextManager[None]]
Item = TypeVar("Item")


@dataclass(frozen=True, eq=False)
class Run:
    """The setting of all experiments of one run, and what they share."""

    data: Data
    seeds: tuple[int, ...]
    delta: float
    quick: bool
    step: Step
    workers: int = cpu_count() or 1

    @cached_property
    def whole(self) -> Exact:
        """The exact sums of all data: several experiments need them."""
        return Exact(Cached.of(self.data.counts), self.data.users, self.seeds)

    def bench(self, data: Data, measure: Measure | None = None) -> Bench:
        """A bench for these data; KL unless something else is measured."""
        whole = data.counts is self.data.counts
        exact = self.whole if whole else Exact(Cached.of(data.counts), data.users, self.seeds)
        return Bench(
            data,
            exact,
            measure or partial(kl_divergence, data.counts.totals),
            self.delta,
            self.workers,
        )

    def grid(self, full: Sequence[Item], quick: Sequence[Item]) -> Sequence[Item]:
        """The values to try."""
        return quick if self.quick else full

    def describe(self) -> str:
        """One line for pictures."""
        data = self.data
        return f"{data.source}: about {data.users:,} users, {len(data.vocabulary):,} n-grams; δ = {self.delta:g}"


@dataclass(frozen=True)
class Check:
    """One thing the paper says, and what was found."""

    found: str
    holds: bool


@dataclass(frozen=True)
class Finding:
    """Checks of the paper's statement, and remarks that do not count for it."""

    checks: list[Check]
    remarks: list[str]

    @property
    def verdict(self) -> str:
        """Reproduced, partly, or not."""
        held = sum(check.holds for check in self.checks)
        return (
            "reproduced"
            if held == len(self.checks)
            else "partly reproduced"
            if held
            else "not reproduced"
        )


@dataclass(frozen=True)
class Experiment:
    """A figure or table of the paper."""

    name: str
    title: str
    statement: str  # the paper's, quoted or put briefly
    measure: str  # what `value` is
    axis: str  # the column that the rows run along
    rows: Callable[[Run], list[Row]]
    draw: Callable[[Sequence[Row], str], Any]
    finding: Callable[[Sequence[Row]], Finding]
    published: dict[Method, float] = field(default_factory=dict)  # the paper's own numbers


def algorithm_2(tuned: float, best: float) -> list[str]:
    """Why Algorithm 2 does badly, where it does."""
    if tuned < 2 * best:
        return []
    why = (
        "Algorithm 2 as printed scores the mean μ_ps before noise is added, so it does not see what noise a large S"
        " and ρ cost; and the noise on its scores follows the largest γ of the whole grid"
    )
    return [f"{why}. It ends at {shown(tuned)}, where the best S and ρ reach {shown(best)}."]


def middle(rows: Sequence[Row], method: Method, **settings: float | None) -> float:
    """The median over seeds at these settings."""
    found = [row.value for row in rows if row.method == method and matches(row, settings)]
    return median(found)


def matches(row: Row, settings: dict[str, float | None]) -> bool:
    """Whether the row has these settings."""
    return all(getattr(row, name) == value for name, value in settings.items())


def along(rows: Sequence[Row], axis: str, method: Method) -> list[tuple[float, float]]:
    """(Position, median) of one method along an axis, ascending."""
    places = sorted({getattr(row, axis) for row in rows if row.method == method})
    return [(place, middle(rows, method, **{axis: place})) for place in places]


def smaller_by(value: float, other: float) -> str:
    """How much smaller, in words.

    >>> smaller_by(0.15, 1), smaller_by(1.5, 1), smaller_by(61, 1)
    ('85% smaller than', '50% larger than', '61 times')
    """
    change = 1 - value / other
    if change < -1:
        return f"{value / other:.3g} times"
    return f"{abs(change):.0%} {'smaller' if change >= 0 else 'larger'} than"


def contexts(vocabulary: Vocabulary) -> Integers:
    """The number of each n-gram's context: all of its words but the last."""
    words, total = vocabulary.word_ids
    numbers = np.zeros(len(vocabulary), np.int64)
    for column in words.T[
        :-1
    ]:  # after each word the numbers are made small again, so nothing overflows
        numbers = np.unique(numbers * total + column, return_inverse=True)[1]
    return numbers


def perplexity(held_out: NDArray[np.integer], theta: Floats, context: Integers) -> float:
    """Exp of the average −log P(last word | context) of the held-out counts.

    >>> perplexity(np.array([1, 1]), np.array([0.5, 0.5]), np.array([0, 0]))
    2.0
    """
    if not held_out.sum():
        raise BayesgramError(
            "nobody is held out, or they have no n-gram of the vocabulary; give more users."
        )
    seen = held_out > 0
    conditional = theta[seen] / np.bincount(context, theta)[context[seen]]
    loss = -(held_out[seen] * np.log(conditional)).sum() / held_out.sum()
    return float(np.exp(loss))
