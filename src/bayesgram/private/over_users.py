"""What may be asked of counts per user, wherever they are: sums over users, or the largest of something.

A question is a function of some whole users (`Rows`) that gives an array; the answers for all users are merged by
`np.add` or `np.maximum`. So one machine and a cluster run the same kernels, and as sums of integers do not depend on
who was asked first, they give the same bits. Does not hold users: `UserCounts` and an engine's counts do.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from functools import cached_property, partial
from itertools import pairwise
from typing import Any, NamedTuple, TypeVar

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from bayesgram.arrays import Ids, Integers
from bayesgram.cores import CORES, parallel_map
from bayesgram.errors import UsageError
from bayesgram.kernels import kernel

Array = TypeVar("Array", bound=NDArray[Any])


class Rows(NamedTuple):
    """Some users, whole: user u has `ngrams[starts[u] : starts[u + 1]]`, ascending. `starts` may begin anywhere."""

    starts: Integers
    ngrams: Ids
    counts: Ids
    users: pa.LargeBinaryArray | None = None  # ids, where they are known


NOBODY = Rows(np.zeros(1, np.int64), np.zeros(0, np.int32), np.zeros(0, np.int32), pa.array([], pa.large_binary()))


class OverUsers(ABC):
    """Counts of users over a vocabulary, of which only answers about all of them together can be had."""

    vocabulary_size: int

    @abstractmethod
    def over_users(self, measure: Callable[[Rows], Array], merge: np.ufunc = np.add) -> Array:
        """Ask all users, some at a time, and merge the answers."""

    @cached_property
    def totals(self) -> Integers:
        """c: how often each n-gram occurs over all users."""
        return self.over_users(partial(_totals, size=self.vocabulary_size))

    @cached_property
    def users_per_ngram(self) -> Integers:
        """N: how many users have each n-gram."""
        return self.over_users(partial(_users_per_ngram, size=self.vocabulary_size))


class PrivateCounts(OverUsers):
    """What a mechanism is given: counts as people wrote them, not yet bounded."""

    vocabulary_fingerprint: str | None  # None: made elsewhere, and does not say

    def once(self, name: tuple[object, ...], make: Callable[[], Integers]) -> Integers:  # noqa: ARG002
        """A sum over these users. A subclass may remember it by its name, where many releases share it (figures)."""
        return make()

    def check_vocabulary(self, size: int, fingerprint: str) -> None:
        """Refuse a vocabulary that these counts were not made with."""
        if self.vocabulary_size != size or self.vocabulary_fingerprint not in {None, fingerprint}:
            mine = "unknown" if self.vocabulary_fingerprint is None else f"{self.vocabulary_fingerprint[:12]}…"
            raise UsageError(
                f"the counts belong to the vocabulary {mine} of {self.vocabulary_size:,} n-grams, and this one is"
                f" {fingerprint[:12]}… of {size:,}; give the one the counts were made with, or count again."
            )


def in_blocks(rows: Rows, measure: Callable[[Rows], Array]) -> list[Array]:
    """The answers of runs of users, in order, asked on all cores: kernels release the GIL."""

    def block(users: tuple[int, int]) -> Array:
        first, last = users
        ids = None if rows.users is None else rows.users[first:last]
        return measure(Rows(rows.starts[first : last + 1], rows.ngrams, rows.counts, ids))

    return parallel_map(block, user_blocks(rows.starts, CORES))


def user_blocks(starts: Integers, blocks: int) -> list[tuple[int, int]]:
    """Runs of whole users with about as many nonzeros each."""
    edges = np.searchsorted(starts, np.linspace(0, starts[-1], blocks + 1))
    edges[0], edges[-1] = 0, starts.size - 1
    return [(int(first), int(last)) for first, last in pairwise(edges)]


def _totals(rows: Rows, size: int) -> Integers:
    part = slice(rows.starts[0], rows.starts[-1])
    return totals_of(rows.ngrams[part], rows.counts[part], size)


def _users_per_ngram(rows: Rows, size: int) -> Integers:
    return np.bincount(rows.ngrams[rows.starts[0] : rows.starts[-1]], minlength=size)


@kernel
def totals_of(ngrams: Ids, counts: Ids, vocabulary_size: int) -> Integers:
    """How often each n-gram occurs."""
    totals = np.zeros(vocabulary_size, np.int64)
    for at in range(ngrams.size):
        totals[ngrams[at]] += counts[at]
    return totals
