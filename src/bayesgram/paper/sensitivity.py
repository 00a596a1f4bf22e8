"""How far one user moves w⊙x̂: exactly (Corollary 1, leaving each user out) and by Claim 1's bound.

In: clipped counts. Out: a shift for each user, in one pass over the nonzeros; or γ, one number.
Both are read from the private data, so neither makes a differential-privacy guarantee (errata E1).

With ℓ = log(c + 1), without user n: Δℓ_i = log(c_i + 1) − log(c_i − Δcⁿ_i + 1), Δm = Σ Δℓ / V, and
    i not in n:  w_i x̂_i − w_i (x̂_i + Δm)                 = −w_i Δm
    i in n:      w_i x̂_i − w⁻_i (x̂_i − Δℓ_i + Δm)         = A_i − w⁻_i Δm,   A = (w − w⁻) x̂ + w⁻ Δℓ
so  ‖shift‖² = Σ A² − 2 Δm Σ A w⁻ + Δm² (Σ_all w² + Σ (w⁻² − w²)):
five sums over the user's own n-grams.
"""

from dataclasses import dataclass
from functools import cached_property, partial

import numpy as np

from bayesgram.arrays import Floats, Ids, Integers
from bayesgram.errors import UsageError
from bayesgram.kernels import inlined, kernel
from bayesgram.private.clipping import Clipped, ClippedCounts
from bayesgram.private.counts import UserRows
from bayesgram.public.vocabulary import centred_log

Terms = tuple[Floats, Floats, Floats, Floats]


def weights(users_per_ngram: Integers, *, slope: float, max_count: int) -> Floats:
    """Return w = min(1, S·N/C) (Eq. 5); 0 where N = 0.

    Args:
        users_per_ngram: N, the number of users of each n-gram.
        slope: S.
        max_count: C.
    """
    return np.minimum(1.0, slope * np.maximum(users_per_ngram, 0) / max_count)


@dataclass(frozen=True, eq=False)
class Statistics:
    """The counts c, users N and x̂ of clipped counts: what Algorithm 1 reads for every S and ρ."""

    clipped: Clipped

    @cached_property
    def x_hat(self) -> Floats:
        """x̂, the centred log counts (Eq. 2)."""
        return centred_log(self.clipped.totals)

    def weights(self, slope: float) -> Floats:
        """Return w, the trust in each n-gram (Eq. 5)."""
        return weights(self.clipped.users_per_ngram, slope=slope, max_count=self.clipped.max_count)

    def weights_without_one(self, slope: float) -> Floats:
        """Return w⁻, the weights once one of the n-gram's users has gone (errata E5, E6, E16)."""
        return weights(
            self.clipped.users_per_ngram - 1, slope=slope, max_count=self.clipped.max_count
        )

    def user_shifts(self, slope: float) -> Floats:
        """Return ‖w⊙x̂ − w₋ₙ⊙x̂₋ₙ‖₂ for every user n."""
        if not isinstance(self.clipped, ClippedCounts):
            raise UsageError(
                "user_shifts: a shift for every user is made on one machine only; ask for"
                " exact_gamma."
            )
        return np.concatenate(self.clipped.blocks(partial(_row_shifts, terms=self._terms(slope))))

    def exact_gamma(self, slope: float) -> float:
        """Return γ by brute force: the largest shift."""
        return float(
            self.clipped.aggregate(partial(_largest_shift, terms=self._terms(slope)), np.maximum)[0]
        )

    def _terms(self, slope: float) -> Terms:
        """Return what a user's shift is made of, for each n-gram: c + 1, (w − w⁻) x̂, w⁻ and w."""
        w = self.weights(slope)
        w_less = self.weights_without_one(slope)
        raised = self.clipped.totals.astype(np.float64) + 1
        return raised, (w - w_less) * self.x_hat, w_less, w

    def bounded_gamma(self, slope: float) -> float:
        """Return γ by Claim 1, with errata E5 and E6 repaired.

        It has w(N) − w(N − 1) in place of the indicator (E6), and no 1/N where N = 0 (E5).
        Holds for removing a user, with whole counts and N taken after clipping.
        """
        present = self.clipped.users_per_ngram > 0
        inverse = np.divide(
            1.0, self.clipped.users_per_ngram, out=np.zeros(present.size), where=present
        )
        share = 1 / present.size
        lipschitz = (1 - share) * inverse + share * (inverse.sum() - inverse)  # L
        w = self.weights(slope)
        w_less = self.weights_without_one(slope)
        return float(
            np.linalg.norm(
                w * lipschitz * self.clipped.max_count + (w - w_less) * np.abs(self.x_hat)
            )
        )


def _row_shifts(rows: UserRows, terms: Terms) -> Floats:
    return _shifts(rows.starts, rows.ngrams, rows.counts, terms, _terms_of_count_one(*terms))


def _largest_shift(rows: UserRows, terms: Terms) -> Floats:
    return np.array([_row_shifts(rows, terms).max(initial=0.0)])


@inlined
def _user_terms(
    count: float, raised: float, gap: float, w_less: float, w: float
) -> tuple[float, float, float, float]:
    """Return Δℓ, A², A·w⁻ and w⁻² − w² of one n-gram that the user has `count` times."""
    delta = -np.log1p(-count / raised)
    a = gap + w_less * delta
    return delta, a * a, a * w_less, w_less * w_less - w * w


@kernel
def _terms_of_count_one(raised: Floats, gap: Floats, w_less: Floats, w: Floats) -> Floats:
    """Return the terms of a single occurrence, side by side: nearly every nonzero is a 1."""
    terms = np.zeros((raised.size, 4))
    for ngram in range(raised.size):
        if raised[ngram] > 1:
            terms[ngram] = _user_terms(1.0, raised[ngram], gap[ngram], w_less[ngram], w[ngram])
    return terms


@kernel
def _shifts(
    starts: Integers,
    ngrams: Ids,
    counts: Ids,
    terms: Terms,
    unit_terms: Floats,
) -> Floats:
    shifts = np.empty(starts.size - 1)
    raised, gap, w_less, w = terms
    all_squares = (w * w).sum()
    for user in range(starts.size - 1):
        deltas = squares = products = others = 0.0
        for at in range(starts[user], starts[user + 1]):
            i = ngrams[at]
            if counts[at] == 1:
                d = unit_terms[i, 0]
                a2 = unit_terms[i, 1]
                ab = unit_terms[i, 2]
                b2 = unit_terms[i, 3]
            else:
                d, a2, ab, b2 = _user_terms(counts[at], raised[i], gap[i], w_less[i], w[i])
            deltas += d
            squares += a2
            products += ab
            others += b2
        mean = deltas / raised.size
        total = squares - 2 * mean * products + mean * mean * (all_squares + others)
        shifts[user] = np.sqrt(max(total, 0.0))
    return shifts
