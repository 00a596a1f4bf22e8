"""What every mechanism is: public knobs, and one way through the door."""

import secrets
from abc import ABC, abstractmethod
from dataclasses import dataclass, fields
from typing import Any, ClassVar

import numpy as np

from bayesgram.arrays import Floats
from bayesgram.errors import UsageError
from bayesgram.privacy.budget import Budget, Guarantee
from bayesgram.privacy.noise import ExactNoise, NoiseSource, SeededNoise
from bayesgram.private.counts import UserCounts
from bayesgram.public.vocabulary import Vocabulary
from bayesgram.released.card import Card
from bayesgram.released.release import Release

SEQUENTIAL = "with other releases about the same users, ε and δ add up (basic composition)"


@dataclass(frozen=True)
class Randomness:
    """Where a run's chance comes from: the noise, and the key of subsampling and splits."""

    noise: NoiseSource
    key: int

    @classmethod
    def make(cls, seed: int | None) -> "Randomness":
        """The operating system's, or repeatable from a seed (and then stamped)."""
        if seed is None:
            return cls(ExactNoise(), secrets.randbits(64))
        if not 0 <= seed < 1 << 63:
            raise UsageError(f"seed={seed}: give a whole number from 0 to 2^63 − 1, or leave it out.")
        noise_seed, key_seed = np.random.SeedSequence(seed).generate_state(2, np.uint64)
        return cls(SeededNoise(int(noise_seed)), int(key_seed))


class Mechanism(ABC):
    """A frozen dataclass of public settings with one method that reads private counts."""

    name: ClassVar[str]
    guarantee: ClassVar[Guarantee]
    statement: ClassVar[str]

    @abstractmethod
    def distribution(
        self, counts: UserCounts, vocabulary: Vocabulary, budget: Budget | None, chance: Randomness
    ) -> tuple[Floats, dict[str, Any]]:
        """θ, and what the card adds to the settings (public values only)."""

    def settings(self) -> dict[str, Any]:
        """The public knobs, as the card shows them."""
        return {name.name: getattr(self, name.name) for name in fields(self)}  # type: ignore[arg-type]

    def spent(self, budget: Budget | None) -> tuple[float | None, float | None]:
        """(ε, δ) as the card claims it."""
        return (budget.epsilon, budget.delta) if budget else (None, None)

    def release(
        self,
        counts: UserCounts,
        vocabulary: Vocabulary,
        budget: Budget | None = None,
        *,
        seed: int | None = None,
    ) -> Release:
        """Go through the door once."""
        counts.check_vocabulary(vocabulary)
        chance = Randomness.make(seed)
        theta, found = self.distribution(counts, vocabulary, budget, chance)
        epsilon, delta = self.spent(budget)
        card = Card(
            mechanism=self.name,
            guarantee=self.guarantee,
            statement=self.statement,
            epsilon=epsilon,
            delta=delta,
            composition=SEQUENTIAL if epsilon is not None else "does not compose: nothing is bounded",
            settings={**self.settings(), **found},
            vocabulary={
                "size": len(vocabulary),
                "order": vocabulary.order,
                "tokenizer": vocabulary.tokenizer.name,
                "fingerprint": vocabulary.fingerprint,
                "source": "public text only",
            },
            seeded=chance.noise.seeded,
        )
        return Release(vocabulary.ngrams, theta, card)


def release(
    counts: UserCounts,
    vocabulary: Vocabulary,
    mechanism: Mechanism,
    budget: Budget | None = None,
    *,
    seed: int | None = None,
) -> Release:
    """Private counts in, a distribution with its card out; a seed makes it repeatable, and not for publication."""
    return mechanism.release(counts, vocabulary, budget, seed=seed)


def need(budget: Budget | None, mechanism: str) -> Budget:
    """The budget, or a clear word that there is none."""
    if budget is None:
        raise UsageError(f"epsilon is missing: {mechanism} needs a budget; 0.1 is strong, 1 is usual.")
    return budget


def normalised(noisy_counts: Floats) -> Floats:
    """Counts below 1 set to 1, so that every n-gram keeps some probability; then a distribution."""
    raised = np.maximum(noisy_counts, 1.0)
    theta: Floats = raised / raised.sum()
    return theta
