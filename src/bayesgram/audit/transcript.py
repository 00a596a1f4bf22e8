"""What a mechanism asks of its noise, with and without one user: the exact law of all that the noise touched.

In:  a target and a neighbouring dataset.   Out: pairs of questions (law, values, scale), one of each dataset.
The neighbour is given the answers that the dataset got, so a mechanism that asks in the light of earlier answers
(`posterior` chooses its clip norm so) asks both sides the same thing. Such a pair holds the later questions fixed:
for each clip norm it is a mechanism of its own with the same claim, and an attack on it is an attack on the claim.
Does not look at what happens after the noise: that is post-processing and tells no more.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from bayesgram.arrays import Floats, Integers
from bayesgram.audit.target import Target
from bayesgram.errors import BayesgramError
from bayesgram.mechanisms.base import Randomness
from bayesgram.privacy.noise import NoiseSource
from bayesgram.private.counts import UserCounts

Values = NDArray[np.int64] | Floats
Array = TypeVar("Array", Integers, Floats)


@dataclass(frozen=True, eq=False, repr=False)
class Query:
    """Values that get noise of a law and scale, and the noisy values that came back."""

    law: str  # "gaussian" or "laplace"
    whole: bool  # on integers
    values: Values
    scale: float
    answer: Values

    @property
    def noise(self) -> Values:
        """What was added."""
        return self.answer - self.values


Transcript = Sequence[Query]


class RecordingNoise(NoiseSource):
    """Answers as the inner source does, or as it is told, and notes everything."""

    seeded = True

    def __init__(self, inner: NoiseSource | None, told: Transcript = ()) -> None:
        self._inner, self._told = inner, told
        self.recorded: list[Query] = []

    def discrete_laplace(self, values: Integers, *, scale: float) -> Integers:
        """Noise on integers."""
        return self._answer("laplace", values, scale, lambda inner: inner.discrete_laplace(values, scale=scale))

    def discrete_gaussian(self, values: Integers, *, scale: float) -> Integers:
        """Noise on integers."""
        return self._answer("gaussian", values, scale, lambda inner: inner.discrete_gaussian(values, scale=scale))

    def laplace(self, values: Floats, *, scale: float) -> Floats:
        """Noise on real numbers."""
        return self._answer("laplace", values, scale, lambda inner: inner.laplace(values, scale=scale))

    def gaussian(self, values: Floats, *, scale: float) -> Floats:
        """Noise on real numbers."""
        return self._answer("gaussian", values, scale, lambda inner: inner.gaussian(values, scale=scale))

    def _answer(self, law: str, values: Array, scale: float, draw: Callable[[NoiseSource], Array]) -> Array:
        answer = draw(self._inner) if self._inner else self._replayed(law, values)
        whole = np.issubdtype(values.dtype, np.integer)
        self.recorded.append(Query(law, whole, values.copy(), float(scale), answer.copy()))
        return answer

    def _replayed(self, law: str, values: Array) -> Array:
        told = self._told[len(self.recorded)] if len(self.recorded) < len(self._told) else None
        if told is None or (told.law, told.values.shape) != (law, values.shape):
            raise differing_queries()
        return told.answer.astype(values.dtype)


def differing_queries() -> BayesgramError:
    """Where one user changes what kind of noise is asked for, there is no pair to compare."""
    return BayesgramError(
        "with and without one user, this mechanism asks for different kinds of noise; the likelihood ratio can't be"
        " taken. Use the attack black-box."
    )


def record(target: Target, counts: UserCounts, noise: NoiseSource, key: int) -> Transcript:
    """What the mechanism asks about a dataset."""
    noting = RecordingNoise(noise)
    target.mechanism.measure(counts, target.vocabulary, target.budget, Randomness(noting, key))
    return noting.recorded


def replay(target: Target, counts: UserCounts, told: Transcript, key: int) -> Transcript:
    """What it asks about another dataset that gets the same answers."""
    noting = RecordingNoise(None, told)
    target.mechanism.measure(counts, target.vocabulary, target.budget, Randomness(noting, key))
    if len(noting.recorded) != len(told):
        raise differing_queries()
    return noting.recorded
