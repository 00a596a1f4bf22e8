"""A release that is checked and not made: what it would claim and cost.

In:  what a release takes.   Out: what would be charged, from public numbers alone. Private counts are asked whether
they fit the vocabulary, as a release asks them, and nothing else. Draws no noise, writes nothing, charges nothing.
"""

from dataclasses import dataclass
from typing import Any

from bayesgram.mechanisms.base import (
    Randomness,
    check_published,
    checked_unit,
    ingredients_of,
    label_of_release,
    need,
    reservation,
)
from bayesgram.privacy.accounting import Spend, gaussian_left, pure_left
from bayesgram.privacy.budget import Budget, Guarantee
from bayesgram.privacy.ledger import Ledger
from bayesgram.privacy.ledger_io import LedgerContents
from bayesgram.privacy.unit import DEFAULT_UNIT
from bayesgram.private.counts import PrivateCounts, SegmentedCounts
from bayesgram.public.vocabulary import Vocabulary


@dataclass(frozen=True)
class DryRun:
    """What a release would claim and cost."""

    mechanism: str
    guarantee: str
    epsilon: float | None
    delta: float | None
    unit: str
    spend: Spend | None  # where it is PROVED
    ledger: LedgerContents | None = None  # as it is now

    @property
    def left(self) -> tuple[float, float] | None:
        """What the ledger would have left for a Gaussian release, and for a pure-ε one."""
        if self.ledger is None or self.spend is None:
            return None
        spends, budget = [*self.ledger.spends, self.spend], self.ledger.budget
        return gaussian_left(spends, budget), pure_left(spends, budget)

    def to_json(self) -> dict[str, Any]:
        """Plain values."""
        told = {
            name: getattr(self, name)
            for name in ("mechanism", "guarantee", "epsilon", "delta", "unit")
        }
        spend = (
            None
            if self.spend is None
            else {**vars(self.spend), "mu_squared": self.spend.mu_squared}
        )
        return {"dry_run": True, **told, "spend": spend, "ledger": self._ledger()}

    def _ledger(self) -> dict[str, Any] | None:
        if self.ledger is None or self.left is None:
            return None
        held, (gaussian, pure) = self.ledger, self.left
        return {
            "population": held.population,
            "epsilon": held.budget.epsilon,
            "delta": held.budget.delta,
            "left_gaussian_epsilon": held.left_gaussian(),
            "left_then_gaussian_epsilon": gaussian,
            "left_then_pure_epsilon": pure,
        }


def dry_run(
    counts: PrivateCounts | SegmentedCounts,
    vocabulary: Vocabulary,
    mechanism: Any,  # noqa: ANN401 - a Mechanism, or a BySegment for counts by segment
    budget: Budget | None = None,
    *,
    seed: int | None = None,
    ledger: Ledger | None = None,
    unit: str | None = None,
) -> DryRun:
    """All that `release` checks before it spends; refused where it would be."""
    Randomness.make(seed)
    unit = checked_unit(mechanism, unit)
    epsilon, delta = mechanism.check_budget(budget)
    mechanism.check_inputs(counts, vocabulary)
    spend, contents = None, None
    if ledger is not None:
        spend, description = reservation(
            counts, vocabulary, mechanism, budget, seed=seed, output=None, unit=unit
        )
        contents = ledger.check(spend, description)
        check_published(ledger, ingredients_of(mechanism, vocabulary))
    elif label_of_release(mechanism, vocabulary) is Guarantee.PROVED:
        spend = mechanism.spend(vocabulary, need(budget, mechanism.name))
    seeded = seed is not None and epsilon is not None
    label = (Guarantee.NONE if seeded else label_of_release(mechanism, vocabulary)).name
    return DryRun(mechanism.name, label, epsilon, delta, unit or DEFAULT_UNIT, spend, contents)
