"""How much users write, and with which words they begin: the first, small question of `posterior`.

In:  users × 𝒱.   Out: an exact integer sum over users, by public bins of their norm.
What is kept of a user is a function of that user alone, and of bounded norm. Does not choose bins or kinds: they are
public. Does not add noise.
"""

from dataclasses import dataclass
from functools import partial

import numpy as np

from bayesgram.arrays import Floats, Ids, Integers
from bayesgram.kernels import kernel, longest_row
from bayesgram.private.clipping import UNITS, Coordinates, norm_of
from bayesgram.private.counts import PrivateCounts, UserRows

# Of a user, of how much they write, of what kind and with which first words: their squares add up to no more than B².
USER_UNITS, TOTAL_UNITS, KIND_UNITS, FIRST_WORD_UNITS = (
    part * UNITS // 100 for part in (48, 64, 28, 53)
)


@dataclass(frozen=True, eq=False)
class Bins:
    """How users are sorted, all of it public: by their norm over edges, and by kinds and first words of n-grams."""

    edges: Floats
    largest: Floats  # the most n-grams that count of a user, in each bin
    kinds: Ids  # of every n-gram; −1: doesn't count as text
    kind_total: int  # 0: kinds are not asked about
    groups: Ids  # of every bin: first words are asked by groups of bins
    first_words: Ids  # of every n-gram that counts
    first_word_total: int  # 0: first words are not asked about

    @property
    def content(self) -> tuple[bytes | int, ...]:
        """All of it, to tell one from another."""
        arrays = (self.edges, self.largest, self.kinds, self.groups, self.first_words)
        return *(array.tobytes() for array in arrays), self.kind_total, self.first_word_total

    @property
    def sizes(self) -> tuple[int, int, int, int]:
        """How many numbers there are of users, of totals, of kinds and of first words."""
        return (
            self.largest.size,
            self.largest.size,
            self.kind_total,
            (self.groups.max() + 1) * self.first_word_total,
        )

    def split(self, found: Floats) -> list[Floats]:
        """What was found of users, of totals, of kinds and, by groups of bins, of first words; in users."""
        units = np.repeat((USER_UNITS, TOTAL_UNITS, KIND_UNITS, FIRST_WORD_UNITS), self.sizes)
        users, totals, kinds, first_words = np.split(found / units, np.cumsum(self.sizes)[:-1])
        return [users, totals, kinds, first_words.reshape(-1, max(self.first_word_total, 1))]


def amounts(counts: PrivateCounts, measured: Coordinates, bins: Bins) -> Integers:
    """How much users write: by their norm ‖counts/shape‖₂ how many they are, then their totals, kinds and first words.

    A user is in one bin, with USER_UNITS there, and TOTAL_UNITS times the number of their n-grams that count over the
    bin's largest, or all of them beyond it. KIND_UNITS are shared out among the kinds of these n-grams, and
    FIRST_WORD_UNITS among their first words, in the group of that bin alone.
    Formal guarantee: adding or removing one user moves this by at most B = UNITS in L2, exactly, in integers.
    """
    summed = partial(_amounts_of_rows, measured=measured, bins=bins)
    return counts.cached_sum(
        ("amounts", *bins.content, *measured.content), lambda: counts.aggregate(summed)
    )


def _amounts_of_rows(rows: UserRows, measured: Coordinates, bins: Bins) -> Integers:
    """What travels to the users, who may be on other machines: a plain function, so that it travels as its name."""
    public = (
        1 / measured.shape,
        measured.words,
        bins.edges,
        bins.largest,
        bins.kinds,
        bins.kind_total,
    )
    first_words = (bins.groups, bins.first_words, bins.first_word_total)
    return _amounts(rows.starts, rows.ngrams, rows.counts, *public, *first_words)


@kernel
def _amounts(
    starts: Integers,
    ngrams: Ids,
    counts: Ids,
    weights: Floats,
    words: Ids,
    edges: Floats,
    largest: Floats,
    kinds: Ids,
    kind_total: int,
    groups: Ids,
    first_words: Ids,
    first_word_total: int,
) -> Integers:
    first_kind = 2 * largest.size
    first_words_at = first_kind + kind_total
    found = np.zeros(first_words_at + (groups.max() + 1) * first_word_total, np.int64)
    word_counts = np.zeros(weights.size, np.int64)
    touched = np.empty(longest_row(starts) * words.shape[1], np.int64)
    of_kind, of_first_word = np.zeros(kind_total, np.int64), np.zeros(first_word_total, np.int64)
    for user in range(starts.size - 1):
        norm = norm_of(
            ngrams, counts, starts[user], starts[user + 1], weights, words, word_counts, touched
        )
        written = np.int64(0)
        of_kind[:] = 0
        of_first_word[:] = 0
        for at in range(starts[user], starts[user + 1]):
            kind, first_word = kinds[ngrams[at]], first_words[ngrams[at]]
            if kind >= 0:
                written += counts[at]
                if kind < kind_total:
                    of_kind[kind] += counts[at]
                if 0 <= first_word < first_word_total:
                    of_first_word[first_word] += counts[at]
        place = np.searchsorted(edges, norm, side="right")
        found[place] += USER_UNITS
        found[largest.size + place] += np.int64(TOTAL_UNITS * min(written / largest[place], 1.0))
        for kind in range(kind_total):
            found[first_kind + kind] += np.int64(KIND_UNITS * (of_kind[kind] / max(written, 1)))
        at = first_words_at + groups[place] * first_word_total
        for first_word in range(first_word_total):
            found[at + first_word] += np.int64(
                FIRST_WORD_UNITS * (of_first_word[first_word] / max(written, 1))
            )
    return found
