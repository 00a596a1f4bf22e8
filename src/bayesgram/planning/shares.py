"""What each of several releases may spend: of a budget that they share, or of what a ledger has left.

In:  a budget or a ledger, and how many releases.   Out: the ε and δ of each, as `bayesgram release` would be asked.
They compose as a ledger composes them: 1/σ² adds up. Reads ledgers; charges none.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from bayesgram.errors import BayesgramError, UsageError, whole_number
from bayesgram.privacy.accounting import Spend, fits, gaussian_left
from bayesgram.privacy.budget import Budget
from bayesgram.privacy.calibration import GaussianNoise
from bayesgram.privacy.ledger_contents import Contents

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
            raise UsageError("delta=0: the mechanism needs a delta above 0, such as 1e-7.")
        whole_number("releases", self.releases, 1, MOST_RELEASES, "how many releases share the budget")

    @classmethod
    def of_ledger(cls, contents: Contents, releases: int = 1) -> "Shares":
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
        return LARGEST if self.limit is None else min(LARGEST, gaussian_left(self.spent, self.limit))

    def each(self, epsilon: float, noise_of: Callable[[Budget], GaussianNoise]) -> Budget:
        """The budget of one release where all together have this ε; `noise_of` says what a release adds."""
        whole = Budget(epsilon, self.delta)
        part = epsilon if self.releases == 1 else gaussian_left([], whole, self.releases)
        if not part:
            raise UsageError(f"releases={self.releases}: too many for epsilon={epsilon:g}; nothing is left for each.")
        each = Budget(part, self.delta)
        if not fits([*self.spent, *[noise_of(each).spend] * self.releases], self.limit or whole):
            raise UsageError(
                f"epsilon={epsilon:g}: more than there is; the largest that fits is about {self.largest:g}."
            )
        return each
