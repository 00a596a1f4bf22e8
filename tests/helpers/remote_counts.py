"""Counts that only an engine can reach, without an engine."""

from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from bayesgram.private.counts import PrivateCounts, UserCounts, UserRows


@dataclass(frozen=True, eq=False)
class ChunkedCounts(PrivateCounts):
    """Counts that are not in this process, as an engine has them: some users at a time, in any
    order.
    """

    inner: UserCounts
    cuts: tuple[int, ...]

    @property
    def vocabulary_size(self):
        return self.inner.vocabulary_size

    @property
    def unlisted_size(self):
        return self.inner.unlisted_size

    def aggregate_all(self, measure, merge=np.add):
        edges = [0, *self.cuts, len(self.inner.users)]
        rows = [
            UserRows(
                self.inner.starts[first : last + 1],
                self.inner.ngrams,
                self.inner.counts,
                self.inner.users[first:last],
            )
            for first, last in pairwise(edges)
        ]
        return merge.reduce([measure(some) for some in reversed(rows)])
