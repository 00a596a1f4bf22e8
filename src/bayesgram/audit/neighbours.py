"""Datasets that differ in one user: without one who is there, or with one who could be.

Chooses the users that matter most. They are called by what makes them special, never by their ids.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bayesgram.arrays import Floats, Ids
from bayesgram.audit.target import Target
from bayesgram.mechanisms.base import Randomness
from bayesgram.mechanisms.paper import Paper
from bayesgram.privacy.noise import SeededNoise
from bayesgram.private.counts import UserCounts, with_users, without_user

HUGE = 1_000_000


@dataclass(frozen=True, eq=False)
class Neighbour:
    """One user less (`user` is a row), or one more (`row` holds n-grams and counts)."""

    label: str
    user: int | None = None
    row: tuple[Ids, Ids] | None = None

    def dataset(self, counts: UserCounts) -> UserCounts:
        """The neighbouring dataset."""
        if self.row is not None:
            return with_users(counts, [self.row])
        return counts if self.user is None else without_user(counts, self.user)

    def own(self, counts: UserCounts) -> tuple[Ids, Ids]:
        """The n-grams and counts of the user in question."""
        if self.row is not None or self.user is None:
            return self.row or (np.zeros(0, np.int32), np.zeros(0, np.int32))
        rows = slice(counts.starts[self.user], counts.starts[self.user + 1])
        return counts.ngrams[rows], counts.counts[rows]


def neighbours(target: Target, *, sample: int, key: int, rng: np.random.Generator) -> list[Neighbour]:
    """The users worth removing, some at random, and outliers worth adding."""
    users = target.counts.starts.size - 1
    removed: dict[int, str] = {}
    if users:
        for label, weights in _importance(target, key):
            removed.setdefault(int(np.argmax(weights)), f"without the user with {label}")
        for user in rng.choice(users, min(sample, users), replace=False):
            removed.setdefault(int(user), "without a user at random")
    return [*(Neighbour(label, user) for user, label in removed.items()), *_outliers(target)]


def _importance(target: Target, key: int) -> Iterator[tuple[str, Floats]]:
    counts, mechanism = target.counts, target.mechanism
    numbers = counts.counts.astype(np.float64)
    if isinstance(mechanism, Paper):
        statistics = mechanism.statistics(counts, Randomness(SeededNoise(0), key))
        yield "the largest shift", statistics.user_shifts(mechanism.slope)
    else:
        yield "the largest norm", per_user(counts, numbers**2)
    yield "the most counts", per_user(counts, numbers)
    rarity = 1 / counts.users_per_ngram[counts.ngrams]
    yield "the rarest n-grams", per_user(counts, rarity) / np.maximum(np.diff(counts.starts), 1)


def per_user(counts: UserCounts, values: Floats) -> Floats:
    """Sums over the rows of each user."""
    sums = np.concatenate([[0.0], np.cumsum(values)])
    return np.diff(sums[counts.starts])


def _outliers(target: Target) -> list[Neighbour]:
    size = len(target.vocabulary)
    rarest = np.argmin(target.counts.users_per_ngram)
    often = np.argmax(target.vocabulary.counts)
    return [
        _added("every n-gram once", np.arange(size), 1),
        _added("an n-gram of their own", np.array([rarest]), 1),
        _added(f"one n-gram {HUGE:,} times", np.array([often]), HUGE),
    ]


def _added(what: str, ngrams: NDArray[np.integer], number: int) -> Neighbour:
    row = ngrams.astype(np.int32), np.full(ngrams.size, number, np.int32)
    return Neighbour(f"with a user who has {what}", row=row)
