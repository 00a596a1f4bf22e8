"""A pilot release instead of guesses: what its card says of the people, as assumptions of a plan.

In:  a published release by `posterior`, and its vocabulary.
Out: `Assumptions`: how many people write, how much, how unevenly, and how differently from public
     text. Everything is computed from what the release publishes, so it costs no privacy.

The number of people and their amounts come from the noisy histogram of norms, for the longest
n-grams. Bins that may be noise alone are left out, so people in small bins are missing. The
difference from public text is estimated from the KL divergence of the release: text π e^d with d
normal of standard deviation s has a divergence of s²/2 from π.
"""

import math

import numpy as np

from bayesgram.arrays import Floats
from bayesgram.errors import BayesgramError, UsageError
from bayesgram.inference.design import MIN_BIN_Z, NORMS, TypicalUser, order_shapes
from bayesgram.inference.noisy_counts import PublicNgrams
from bayesgram.planning.simulation import RANGES, Assumptions
from bayesgram.public.vocabulary import Vocabulary
from bayesgram.releases.release import Release, check_vocabulary

# Share of public text's error below which a pilot says too little about how different people
# write: its KL divergence is divided by at least this much. Chosen by hand.
MIN_ERROR_REMOVED = 0.2
DIGITS = 2  # of the numbers that are taken over: noise hides the rest


def assumptions_from_pilot(release: Release, vocabulary: Vocabulary) -> Assumptions:
    """Return what a pilot release says of the people.

    Args:
        release: The pilot release.
        vocabulary: The vocabulary that it was made with.

    Raises:
        UsageError: If the release is of another vocabulary, or has no histogram of norms.
        BayesgramError: If noise hides how many people there are.
    """
    check_vocabulary(release, vocabulary, name="the pilot release")
    rows, part = vocabulary.by_order[-1]
    by_order = release.card.details.get("by_order", {})
    histogram = by_order.get(str(part.order)) if isinstance(by_order, dict) else None
    if histogram is None or "noisy_users_by_norm" not in histogram:
        raise UsageError(
            "the pilot release has no histogram of norms, so it does not say how much people write;"
            " give a release by `posterior` with a clip norm that was chosen, or say what you"
            " assume with users and ngrams_a_user."
        )
    users_by_norm = _visible_users(histogram["noisy_users_by_norm"], histogram["users_noise"])
    if not users_by_norm.any():
        raise BayesgramError(
            "noise hides how many people the pilot release is about; make one with a larger ε or"
            " more people, or say what you assume with users and ngrams_a_user."
        )
    theta = release.probabilities[rows] / release.probabilities[rows].sum()
    public = PublicNgrams.of(part)
    user = TypicalUser.from_rates([theta, public.per_word(theta)], [*order_shapes(public)])
    amounts = np.maximum(user.amount(NORMS), 1.0)
    shares = users_by_norm / users_by_norm.sum()
    logs = np.log(amounts)
    mean_log = float(shares @ logs)
    return Assumptions(
        users=_within_range("users", users_by_norm.sum()),
        ngrams_a_user=_within_range("ngrams_a_user", shares @ amounts),
        unevenness=_within_range("unevenness", math.sqrt(shares @ (logs - mean_log) ** 2)),
        difference=_within_range("difference", _difference(release, theta, public, part.order)),
    )


def _visible_users(noisy_users: list[float], noise_std: float) -> Floats:
    """Return the users of each bin, 0 where they may be noise alone."""
    users = np.array(noisy_users, np.float64)
    return np.where(users > MIN_BIN_Z * noise_std, users, 0.0)


def _difference(release: Release, theta: Floats, public: PublicNgrams, order: int) -> float:
    """Return the standard deviation of log-ratios to public text, from the KL divergence."""
    occurs = theta > 0
    kl = float((theta[occurs] * np.log(theta[occurs] / public.prior[occurs])).sum())
    quality = release.card.details.get("quality", {}).get(str(order), {})
    # The release is nearer to public text than people are, by the part of the error that is left.
    removed = quality.get("error_removed") or 1.0
    return math.sqrt(2 * max(kl, 0.0) / min(max(removed, MIN_ERROR_REMOVED), 1.0))


def _within_range(name: str, value: float) -> float:
    low, high = RANGES[name]
    return min(max(float(f"{value:.{DIGITS}g}"), low), high)
