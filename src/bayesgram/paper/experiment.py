"""What an experiment is: rows of numbers, a chart, and the paper's statement checked by the rows.

A verdict is computed from measured numbers: every check is a sentence with the numbers in it, and
whether it holds. Below are the helpers that the experiments of `figures` share, and the perplexity
of a trigram model without back-off, on held-out users.
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
from bayesgram.paper.harness import (
    CachedCounts,
    ExactSums,
    ExperimentData,
    MechanismBench,
    Method,
    Metric,
    ResultRow,
)
from bayesgram.paper.line_charts import format_value
from bayesgram.public.vocabulary import Vocabulary

Step = Callable[[str], AbstractContextManager[None]]
Item = TypeVar("Item")


@dataclass(frozen=True, eq=False)
class ExperimentRun:
    """The setting of all experiments of one run, and what they share."""

    data: ExperimentData
    seeds: tuple[int, ...]
    delta: float
    quick: bool  # whether to try fewer values
    step: Step  # called with a label; the context holds while that step runs
    workers: int = cpu_count() or 1

    @cached_property
    def sums_of_all_users(self) -> ExactSums:
        """The exact sums of all data: several experiments need them."""
        return ExactSums(CachedCounts.from_counts(self.data.counts), self.data.users, self.seeds)

    def make_bench(self, data: ExperimentData, metric: Metric | None = None) -> MechanismBench:
        """Return a bench for these data; by default it measures KL."""
        if data.counts is self.data.counts:
            sums = self.sums_of_all_users
        else:
            sums = ExactSums(CachedCounts.from_counts(data.counts), data.users, self.seeds)
        kl = partial(kl_divergence, data.counts.totals)
        return MechanismBench(data, sums, metric or kl, self.delta, self.workers)

    def choose_grid(self, full: Sequence[Item], quick: Sequence[Item]) -> Sequence[Item]:
        """Return the values to try: fewer of them in a quick run."""
        return quick if self.quick else full

    def describe(self) -> str:
        """Return a line about the data and δ, for charts."""
        data = self.data
        return (
            f"{data.source}: about {data.users:,} users, {len(data.vocabulary):,} n-grams;"
            f" δ = {self.delta:g}"
        )


@dataclass(frozen=True)
class StatementCheck:
    """One thing that the paper says, compared with what was measured."""

    sentence: str
    holds: bool


@dataclass(frozen=True)
class Assessment:
    """Checks of the paper's statement, and remarks that do not count for the verdict."""

    checks: list[StatementCheck]
    remarks: list[str]

    @property
    def verdict(self) -> str:
        """Whether the statement was reproduced, partly, or not."""
        held = sum(check.holds for check in self.checks)
        if held == len(self.checks):
            return "reproduced"
        return "partly reproduced" if held else "not reproduced"


@dataclass(frozen=True)
class Experiment:
    """A figure or table of the paper."""

    name: str
    title: str
    statement: str  # the paper's, quoted or put briefly
    measure: str  # what `ResultRow.value` is
    axis: str  # the column that the rows run along
    rows: Callable[[ExperimentRun], list[ResultRow]]
    draw: Callable[[Sequence[ResultRow], str], Any]  # rows and a line about the setting to a chart
    assess: Callable[[Sequence[ResultRow]], Assessment]
    published: dict[Method, float] = field(default_factory=dict)  # the paper's own numbers


# --- Helpers for assessments ---


def median_value(rows: Sequence[ResultRow], method: Method, **settings: float | None) -> float:
    """Return the median over seeds of one method at these settings."""
    return median(
        row.value
        for row in rows
        if row.method == method
        and all(getattr(row, name) == value for name, value in settings.items())
    )


def medians_along(rows: Sequence[ResultRow], axis: str, method: Method) -> dict[float, float]:
    """Return the median of one method at each position along an axis, ascending.

    Args:
        rows: The measured rows.
        axis: The field of a row that is the axis.
        method: The method.
    """
    positions = sorted({getattr(row, axis) for row in rows if row.method == method})
    return {position: median_value(rows, method, **{axis: position}) for position in positions}


def describe_ratio(value: float, other: float) -> str:
    """Say how much smaller `value` is than `other`.

    >>> describe_ratio(0.15, 1), describe_ratio(1.5, 1), describe_ratio(61, 1)
    ('85% smaller than', '50% larger than', '61 times')
    """
    change = 1 - value / other
    if change < -1:
        return f"{value / other:.3g} times"
    return f"{abs(change):.0%} {'smaller' if change >= 0 else 'larger'} than"


def tuning_remarks(tuned: float, best: float) -> list[str]:
    """Return the reason why Algorithm 2 does badly, where it does.

    Args:
        tuned: The value at the S and ρ that Algorithm 2 chose.
        best: The value at the best S and ρ.
    """
    if tuned < 2 * best:
        return []
    reason = (
        "Algorithm 2 as printed scores the mean μ_ps before noise is added, so it does not see what"
        " noise a large S and ρ cost; and the noise on its scores follows the largest γ of the"
        f" whole grid. It ends at {format_value(tuned)}, where the best S and ρ reach"
        f" {format_value(best)}."
    )
    return [reason]


# --- Perplexity ---


def context_ids(vocabulary: Vocabulary) -> Integers:
    """Return the number of each n-gram's context: all of its words but the last."""
    words, total = vocabulary.word_ids
    ids = np.zeros(len(vocabulary), np.int64)
    for column in words.T[:-1]:
        # After each word the numbers are made small again, so nothing overflows.
        ids = np.unique(ids * total + column, return_inverse=True)[1]
    return ids


def perplexity(held_out: NDArray[np.integer], theta: Floats, context: Integers) -> float:
    """Return exp(−Σ c log P(last word | context) / Σ c) of the held-out counts c.

    P(w₃ | w₁ w₂) = θ(w₁ w₂ w₃) / Σ_w θ(w₁ w₂ w), the sum over the n-grams of the vocabulary that
    share the context. It is an average over covered n-grams; the paper averages over words of
    sentences whose n-grams are all covered, which asks for the sentences themselves.

    Args:
        held_out: Counts of held-out users, one for each n-gram.
        theta: A probability for each n-gram.
        context: The number of each n-gram's context.

    >>> perplexity(np.array([1, 1]), np.array([0.5, 0.5]), np.array([0, 0]))
    2.0
    """
    if not held_out.sum():
        raise BayesgramError(
            "nobody is held out, or they have no n-gram of the vocabulary; give more users."
        )
    occurs = held_out > 0
    conditional = theta[occurs] / np.bincount(context, theta)[context[occurs]]
    loss = -(held_out[occurs] * np.log(conditional)).sum() / held_out.sum()
    return float(np.exp(loss))
