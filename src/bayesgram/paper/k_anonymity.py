"""k-anonymity (§5.5 of the paper): n-grams of fewer than K users are suppressed.

For comparison only: it is not differentially private.
"""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from bayesgram.choices import Suppressed
from bayesgram.errors import UsageError, check_int
from bayesgram.mechanisms.base import CountsMechanism, Outcome, Randomness
from bayesgram.privacy.budget import Budget, Guarantee
from bayesgram.private.counts import PrivateCounts
from bayesgram.public.vocabulary import Vocabulary, public_distribution


@dataclass(frozen=True)
class KAnonymity(CountsMechanism):
    """Exact counts of n-grams with at least K users.

    >>> KAnonymity(k=50).guarantee.name
    'NONE'
    """

    name: ClassVar[str] = "k-anonymity"
    guarantee: ClassVar[Guarantee] = Guarantee.NONE
    statement: ClassVar[str] = (
        "no noise: exact counts of n-grams of at least K users; comparing two such releases can"
        " single a user out."
    )
    default_delta: ClassVar[float] = 0.0

    k: int = 50  # K: an n-gram of fewer users is suppressed
    suppressed: Suppressed = Suppressed.ADD_ONE  # where the mass of suppressed n-grams goes

    def __post_init__(self) -> None:
        object.__setattr__(
            self, "k", check_int("k", self.k, 1, 10**9, "K, the fewest users of an n-gram,")
        )
        if self.suppressed not in set(Suppressed):
            raise UsageError.for_argument(
                "suppressed", repr(self.suppressed), f"choose one of {', '.join(Suppressed)}."
            )

    def estimate(
        self,
        counts: PrivateCounts,
        vocabulary: Vocabulary,
        budget: Budget | None,
        randomness: Randomness,
    ) -> Outcome:
        """Return the counts that are shown, and the mass of the others spread.

        `add-one`: suppressed counts are 0, then 1 is added to all. `public`: their mass is spread
        as in public text.
        """
        shown = counts.users_per_ngram >= self.k
        shown_counts = np.where(shown, counts.totals, 0).astype(np.float64)
        if self.suppressed == Suppressed.ADD_ONE:
            return Outcome((shown_counts + 1) / (shown_counts + 1).sum())
        prior = np.where(shown, 0, public_distribution(vocabulary.counts))
        hidden_mass = counts.totals[~shown].sum() + 1.0
        spread = shown_counts
        if not shown.all():
            spread = shown_counts + hidden_mass * prior / prior.sum()
        return Outcome(spread / spread.sum())

    def check_budget(self, budget: Budget | None) -> tuple[float | None, float | None]:
        """Refuse a budget: there is no noise, so no ε is claimed."""
        if budget is not None:
            raise UsageError.for_argument(
                "epsilon",
                budget.epsilon,
                "k-anonymity adds no noise and can't use it; leave it out.",
            )
        return None, None
