"""Why a ledger can't be charged, in words: what it holds, what was asked, and what can be done.

In:  a ledger's verified contents and a spend.   Out: an error, or None.   Does not read or write the file.
"""

import math
from collections.abc import Mapping
from typing import Any

from bayesgram.errors import BayesgramError, UsageError
from bayesgram.privacy.accounting import ASIDE, Spend, composed_epsilon, digits_up, fits, pure_mu_squared
from bayesgram.privacy.ledger_contents import Contents
from bayesgram.privacy.unit import is_same


def refusal(contents: Contents, spend: Spend, description: Mapping[str, Any]) -> BayesgramError | None:
    """Why nothing can be reserved, if so."""
    if "unit" in description and (refused := refusal_of_unit(contents, description["unit"])):
        return refused
    allowed = fits([*contents.spends, spend], contents.budget)
    return None if allowed else BayesgramError(_too_much(contents, spend))


def refusal_of_unit(contents: Contents, unit: str) -> UsageError | None:
    """(ε, δ) for one unit and for another don't add up."""
    if contents.unit is None or is_same(unit, contents.unit):
        return None
    return UsageError(
        f"unit={unit!r}: the ledger of population {contents.population!r} counts in another unit, {contents.unit!r}:"
        f' give unit="{contents.unit}" if that is what one user id of these data stands for, or use another ledger.'
        " Nothing was reserved."
    )


def _too_much(contents: Contents, spend: Spend) -> str:
    if spend.failure > contents.left_for_discovery().failure:
        return refusal_of_discovery(contents, spend.failure)
    budget, together = contents.budget, composed_epsilon([*contents.spends, spend], contents.budget.delta)
    would_be = f"it would be ε = {digits_up(together)}" if together < math.inf else "no ε would be enough at this δ"
    return (
        f"the budget of population {contents.population!r} is ε = {budget.epsilon:g} at δ = {budget.delta:g};"
        f" ε = {digits_up(contents.spent_epsilon())} of it is spent, and with this release {would_be}."
        f" Left: {contents.left()}. Nothing was reserved.{_cost_of_failures(contents, spend)}"
        f"{_cost_of_pure(contents, spend)}"
    )


def refusal_of_discovery(contents: Contents, failure: float | None = None) -> str:
    """Why a discovery can't be charged, and what can be done."""
    budget, first = contents.budget, contents.spends[:1]
    if not budget.delta:
        why = "it has δ = 0, and a discovery needs a δ. Use a ledger of δ > 0."
    elif first and not first[0].failure:
        why = (
            "its first entry was no discovery, so all of its δ belongs to noise and none was set aside for the chance"
            " that a discovery publishes what only one person wrote. Go on without a discovery, or charge it to a new"
            " ledger before anything else; if that is for the same people, what both ledgers spend adds up."
        )
    elif contents.spent_failure() < ASIDE * budget.delta and not contents.left_for_discovery().failure:
        why = "nothing of it is left for noise."
    else:
        asked = f"this one asks for {digits_up(failure)}: give it a smaller δ." if failure else "none is left."
        why = (
            f"discoveries may fail with probability {ASIDE * budget.delta:g} together (a quarter of its δ),"
            f" {digits_up(contents.spent_failure())} of that is spent, and {asked}"
        )
    who = f"the budget of population {contents.population!r}"
    return f"{who} has no room for this discovery: {why} Nothing was reserved."


def _cost_of_failures(contents: Contents, spend: Spend) -> str:
    """Why there is less room beside discoveries."""
    budget = contents.budget
    if not (budget.delta and contents.allowance(spend).failure):
        return ""
    return (
        f" As its first entry is a discovery, a quarter of δ is set aside for failures, and noise has δ ="
        f" {(1 - ASIDE) * budget.delta:g} (docs/ledger.md)."
    )


def _cost_of_pure(contents: Contents, spend: Spend) -> str:
    """Why a Laplace release takes more of a ledger than its ε says."""
    if not (spend.pure_epsilon and contents.budget.delta):
        return ""
    mu, limit = math.sqrt(pure_mu_squared(spend.pure_epsilon)), contents.allowance(spend)
    return (
        f" A ledger of δ > 0 charges a pure-ε release as Gaussian DP: ε = {spend.pure_epsilon:g} costs μ = {mu:.3g},"
        f" and the whole budget is μ = {math.sqrt(limit.mu_squared):.3g}. posterior and gaussian cost what their ε"
        " says; a ledger of δ = 0 adds up ε (docs/ledger.md)."
    )
