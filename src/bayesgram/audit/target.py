"""What an audit attacks, and what is claimed for it."""

from dataclasses import dataclass

from bayesgram.errors import UsageError
from bayesgram.mechanisms.base import Mechanism
from bayesgram.mechanisms.tuning import TunedPaper
from bayesgram.privacy.budget import Budget
from bayesgram.private.counts import UserCounts
from bayesgram.public.vocabulary import Vocabulary


@dataclass(frozen=True, eq=False, repr=False)
class Target:
    """A mechanism on a dataset. Attackers know all of it but one user."""

    mechanism: Mechanism
    counts: UserCounts
    vocabulary: Vocabulary
    budget: Budget | None

    def __post_init__(self) -> None:
        self.mechanism.check_budget(self.budget)
        if isinstance(self.mechanism, TunedPaper):
            raise UsageError(
                "mechanism=paper-tuned: its noisy scores are never shown, so an attack can't read them;"
                " audit paper with the S and ρ that were chosen."
            )
        self.counts.check_vocabulary(len(self.vocabulary), self.vocabulary.fingerprint)

    @property
    def claim(self) -> Budget:
        """(ε, δ) as the card claims it."""
        return claim_of(self.mechanism, self.budget)


def claim_of(mechanism: Mechanism, budget: Budget | None) -> Budget:
    """(ε, δ) as the card will claim it."""
    epsilon, delta = mechanism.check_budget(budget)
    if epsilon is None or delta is None:
        raise UsageError(f"mechanism={mechanism.name}: claims no ε, so no attack can refute it; try exposure.")
    return Budget(epsilon, delta)
