"""The norm histogram: how much users write, and like which public source.

It is the first, small query of `posterior`.

In:  counts per user, users × 𝒱.
Out: an exact integer sum over users, by public bins of their norm.

What a user contributes is a function of that user alone, and of bounded norm. The bins are public;
this module does not choose them, and adds no noise.
"""

from dataclasses import dataclass
from functools import partial

import numpy as np

from bayesgram.arrays import Floats, Ids, Integers
from bayesgram.kernels import kernel, longest_row
from bayesgram.privacy.constants import SOURCE_UNITS, TOTAL_UNITS, UNITS, USER_UNITS
from bayesgram.private.clipping import Coordinates, user_norm
from bayesgram.private.counts import PrivateCounts, UserRows


@dataclass(frozen=True, eq=False)
class HistogramSpec:
    """How users are sorted into bins. All of it is public.

    Attributes:
        edges: Edges of the bins of norms.
        largest: For each bin, the largest number of n-grams that counts of one user.
        sources: For each n-gram, the public source that it is most frequent in; −1 if it does not
            count as text.
        source_count: Number of sources; 0 if they are not asked about.
    """

    edges: Floats
    largest: Floats
    sources: Ids
    source_count: int

    @property
    def cache_key(self) -> tuple[bytes | int, ...]:
        """The contents, which identify the histogram."""
        arrays = (self.edges, self.largest, self.sources)
        return *(array.tobytes() for array in arrays), self.source_count

    @property
    def sizes(self) -> tuple[int, int, int]:
        """The number of coordinates of users, of totals and of sources."""
        return self.largest.size, self.largest.size, self.source_count

    def split(self, noisy: Floats) -> tuple[Floats, Floats, Floats]:
        """Split a noisy sum into its three parts, each in units of users.

        Returns:
            Users by bin; totals by bin, over `largest`; users by source.
        """
        units = np.repeat((USER_UNITS, TOTAL_UNITS, SOURCE_UNITS), self.sizes)
        users, totals, sources = np.split(noisy / units, np.cumsum(self.sizes)[:-1])
        return users, totals, sources


def norm_histogram_sum(
    counts: PrivateCounts, coordinates: Coordinates, spec: HistogramSpec
) -> Integers:
    """Return the histogram of users by their norm ‖counts/shape‖₂.

    A user is in one bin. They contribute USER_UNITS there, and TOTAL_UNITS times the number of
    their n-grams that count, over the bin's largest; all of TOTAL_UNITS beyond it. SOURCE_UNITS are
    shared out among the sources of these n-grams.

    A user with a limit of cB, c < 1 (`Meter`), contributes at most c times each of these units.
    They are in the bin of their norm over c: clipping at Λ keeps as much of their text as of
    somebody of that norm without a limit. So the clip norm that is chosen by the histogram counts
    with limits.

    Formal guarantee: adding or removing one user moves the sum by at most B = UNITS in L2, exactly,
    in integers; and by no more than the limit of that user, where users have limits (`Meter`).

    Args:
        counts: Private counts.
        coordinates: The vector whose norm is taken.
        spec: The bins and sources. Public.
    """
    measure = partial(_norm_histogram_of_rows, coordinates=coordinates, spec=spec)
    return counts.cached_sum(
        ("amounts", *spec.cache_key, *coordinates.cache_key), lambda: counts.aggregate(measure)
    )


# Runs where the users' rows are, which may be on other machines: a plain function, so that it can
# be pickled.
def _norm_histogram_of_rows(
    rows: UserRows, coordinates: Coordinates, spec: HistogramSpec
) -> Integers:
    squares = np.zeros(rows.user_count, np.int64)
    histogram = _norm_histogram_sum(
        rows.starts,
        rows.ngrams,
        rows.counts,
        1 / coordinates.shape,
        coordinates.words,
        spec.edges,
        spec.largest,
        spec.sources,
        spec.source_count,
        rows.norm_limits(),
        squares,
    )
    rows.record_squares(squares)
    return histogram


@kernel
def _norm_histogram_sum(
    starts: Integers,
    ngrams: Ids,
    counts: Ids,
    weights: Floats,
    words: Ids,
    edges: Floats,
    largest: Floats,
    sources: Ids,
    source_count: int,
    limits: Integers,
    squared_norms: Integers,
) -> Integers:
    """Return the histogram, and write Σ z² of each user."""
    sources_at = 2 * largest.size
    histogram = np.zeros(sources_at + source_count, np.int64)
    word_counts = np.zeros(weights.size, np.int64)
    touched = np.empty(longest_row(starts) * words.shape[1], np.int64)
    by_source = np.zeros(source_count, np.int64)
    for user in range(starts.size - 1):
        norm = user_norm(
            ngrams, counts, starts[user], starts[user + 1], weights, words, word_counts, touched
        )
        written = np.int64(0)
        by_source[:] = 0
        for at in range(starts[user], starts[user + 1]):
            source = sources[ngrams[at]]
            if source >= 0:
                written += counts[at]
                if source < source_count:
                    by_source[source] += counts[at]
        part = limits[user] / UNITS
        if part <= 0:
            continue
        # Whose limit is below B is clipped at a part of Λ, as somebody of a larger norm is at Λ.
        place = np.searchsorted(edges, norm / part, side="right")
        unit = np.int64(USER_UNITS * part)
        histogram[place] += unit
        length = unit * unit
        unit = np.int64(TOTAL_UNITS * min(written / largest[place], part))
        histogram[largest.size + place] += unit
        length += unit * unit
        for source in range(source_count):
            share = by_source[source] / max(written, 1)
            unit = np.int64(SOURCE_UNITS * share * part)
            histogram[sources_at + source] += unit
            length += unit * unit
        squared_norms[user] = length
    return histogram
