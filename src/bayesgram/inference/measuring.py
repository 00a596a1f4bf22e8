"""How counts are to be measured: the shape of the noise and the clip norm, from public text and noisy numbers alone.

The public half of the certified mechanism, so that a plan can be made with the very same choices before there is any
private text. Does not count, clip or add noise: `mechanisms.posterior` does.
"""

import math
from collections.abc import Sequence

import numpy as np

from bayesgram.arrays import Floats
from bayesgram.inference.measured import PublicNgrams

SHAPE_POWER = 0.25  # a: rare n-grams get less noise, frequent ones more, as KL asks
WORD_WEIGHT = 0.01  # of a user's squared norm is spent on words
HISTOGRAM_SHARE = 0.03  # of the budget (of 1/σ²) measures the users' norms
NORM_EDGES = 2.0 ** np.arange(-2, 12.5, 0.5)  # public bins: half octaves from ¼ to 4096
# How clipping and noise cost accuracy, for choosing Λ: fitted to Reddit posts, then checked on generated populations.
BIAS_COST = 0.05  # KL when everything but a vanishing part of the text is clipped away
DISTINCT = 10  # different n-grams of a user, roughly
SPREAD = 0.8  # of the log-ratios of private to public frequencies that are left to learn


def shape_of(prior: Floats) -> Floats:
    """S = π^a, scaled so that Σ s²π = 1."""
    shape = prior**SHAPE_POWER
    scaled: Floats = shape / math.sqrt(float((shape**2 * prior).sum()))
    return scaled


def shapes(parts: Sequence[PublicNgrams]) -> list[Floats]:
    """The shape of every order, and after them that of the words of the longest, which have a small weight.

    Each order has twice the weight of the one below. Where the longest are unigrams, they are the words.
    """
    longest = parts[-1]
    order = longest.words.shape[1]
    word_weight = WORD_WEIGHT if order > 1 else 0.0
    weights = 2.0 ** np.array([public.words.shape[1] for public in parts])
    weights *= (1 - word_weight) / weights.sum()
    found = [shape_of(public.prior) / math.sqrt(weight) for public, weight in zip(parts, weights, strict=True)]
    if order == 1:
        return [*found, np.zeros(0)]
    return [*found, shape_of(longest.per_word(longest.prior) / order) / math.sqrt(word_weight)]


def best_clip_norm(noisy_users: Floats, public: PublicNgrams, shape: Floats, sigma: float) -> float:
    """The Λ with the smallest predicted error, from the noisy histogram and public data alone.

    A user of norm r with m different n-grams adds about min(r, Λ)·√(m/q) to the total, q = Σ π/s²; how often each is
    repeated shows in r alone. Too small a Λ distorts (a cost that grows with the square of the part lost), too large a
    one drowns in noise (the expected KL of shrinkage).
    """
    norms = np.concatenate([[NORM_EDGES[0] / math.sqrt(2)], NORM_EDGES * 2**0.25])
    users = noisy_users * (noisy_users > 3 * sigma / math.sqrt(HISTOGRAM_SHARE))  # not noise alone
    if not users.any():
        return 1.0
    worth = math.sqrt(DISTINCT / float((public.prior / shape**2).sum()))

    def error(clip_norm: float) -> float:
        kept = float((users * np.minimum(norms, clip_norm)).sum())
        lost = 1 - kept / float((users * norms).sum())
        signal = worth * kept * public.prior / (shape * clip_norm * sigma)
        noise = 0.5 * float((public.prior * SPREAD**2 / (1 + (SPREAD * signal) ** 2)).sum())
        return BIAS_COST * lost**2 + noise

    return float(min(NORM_EDGES, key=error))
