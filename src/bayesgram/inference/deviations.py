"""How far a released probability may be from what people wrote.

The standard deviation of θ has four parts, which add up in squares:

- *noise and shrinkage*: of an n-gram whose expected count E is t noise deviations, E/(t + c): the
  noise where counts are clear, and E/c where noise hides them. c, the trust in what is expected, is
  fitted to squared errors on judging views, which the expectation has not seen.
- *total*: every probability is a count over the same noisy total.
- *clipping, systematic*: people who write much write differently and count for less. By how much
  follows from the norm histogram (`design.NormHistogram.describe_clipping`).
- *clipping, chance*: an n-gram of few users is kept or clipped as they happen to write little or
  much.
"""

import numpy as np

from bayesgram.arrays import Floats
from bayesgram.inference.noisy_counts import Clipping, NoisyCounts
from bayesgram.releases.quality import RANKED_FIRST

# c that is tried, from ¼ (anything is possible) to 64 (what is expected is right).
TRUSTS = 0.25 * 2.0 ** np.arange(0, 8.01, 0.25)

# c that weighs the n-grams in the fit of c. Not measured against other values.
TYPICAL_TRUST = 0.5

# Only n-grams whose expected count is below so many noise deviations tell something of c.
HIDDEN_Z = 3.0

# Standard errors that are added to the squared error on the judging view: rather too unsure than
# too sure. With 1, `known within a factor of 2` was 14 points below the truth on average, with 0
# it was 5 points below, and up to 40 points above at ε = 0.05 (commits, reviews, posts).
ADDED_STANDARD_ERRORS = 0.5

# How many occurrences of an n-gram come from one user together, on average over occurrences.
# Chosen with `WIDENING` by benchmarks/deviations.py on commits, reviews and posts.
BURST = 3.0

# Errors are not as regular as these formulas. Chosen by the same experiment.
WIDENING = 1.1


def hidden_std(expected: Floats, noise_std: Floats, trust: float) -> Floats:
    """Return E / (t + c), with t = E / noise."""
    return expected / (expected / noise_std + trust)


def fit_trust(expected: Floats, noise_std: Floats, judge: NoisyCounts) -> float:
    """Return the largest c whose expected squared errors reach those on the judging view.

    E (judge − E)² = judge.noise² + deviation², since the two views are independent. A part of a
    standard error is added to what is seen.

    Args:
        expected: Expected counts, fitted to the other view.
        noise_std: The noise of that view.
        judge: The judging view.
    """
    is_hidden = expected < HIDDEN_Z * noise_std
    typical = hidden_std(expected, noise_std, TYPICAL_TRUST)
    weights = np.where(is_hidden, typical**2 / judge.noise**4, 0.0)
    squared_error = float((weights * ((judge.counts - expected) ** 2 - judge.noise**2)).sum())
    standard_error = float(np.sqrt(2 * ((weights * judge.noise**2) ** 2).sum()))
    large_enough = [
        trust
        for trust in TRUSTS
        if (weights * hidden_std(expected, noise_std, trust) ** 2).sum()
        >= max(squared_error, 0.0) + ADDED_STANDARD_ERRORS * standard_error
    ]
    return float(max(large_enough, default=TRUSTS[0]))


def split_std(
    theta: Floats,
    kept_std: Floats,
    noise_std: Floats,
    written: float,
    total_rel_std: float,
    clipping: Clipping,
) -> dict[str, float]:
    """Return how much of the deviation of frequent n-grams is noise, shrinkage and clipping.

    Shrinkage that gives a noisy count the weight w leaves the variance w·noise². Of that, w²·noise²
    is noise, and the rest is how far the truth may be from what was expected.

    Args:
        theta: Probabilities.
        kept_std: Standard deviation by noise and shrinkage, as probabilities.
        noise_std: Standard deviation of the noise, as probabilities.
        written: About how many n-grams people wrote, before clipping.
        total_rel_std: Relative standard deviation of the total.
        clipping: What clipping does.

    Returns:
        Relative standard deviations, as root mean squares over the n-grams that rank first.
    """
    first = np.argsort(-theta, kind="stable")[:RANKED_FIRST]
    theta = theta[first]
    kept_var = kept_std[first] ** 2
    noise_var = noise_std[first] ** 2
    weight = np.minimum(kept_var / noise_var, 1.0)
    noise_part = weight**2 * noise_var / theta**2 + total_rel_std**2
    shrinkage_part = np.maximum(kept_var - weight**2 * noise_var, 0.0) / theta**2
    clipping_part = _clipping_rel_var(theta, written, clipping)
    parts = {"noise": noise_part, "shrinkage": shrinkage_part, "clipping": clipping_part}
    return {name: WIDENING * float(np.sqrt(np.mean(part))) for name, part in parts.items()}


def _clipping_rel_var(theta: Floats, written: float, clipping: Clipping) -> Floats:
    """Return the relative variance by clipping: systematic, and by chance for rare n-grams."""
    occurrences = np.maximum(theta * written, 1.0)
    variance: Floats = clipping.bias_rel_std**2 + BURST * clipping.unevenness / occurrences
    return variance


def probability_std(
    theta: Floats, kept_std: Floats, written: float, total_rel_std: float, clipping: Clipping
) -> Floats:
    """Return the standard deviation of θ as an estimate of what people wrote.

    Args:
        theta: Probabilities.
        kept_std: Standard deviation by noise and shrinkage, as probabilities.
        written: About how many n-grams people wrote, before clipping.
        total_rel_std: Relative standard deviation of the total.
        clipping: What clipping does.
    """
    relative_var = total_rel_std**2 + _clipping_rel_var(theta, written, clipping)
    std: Floats = WIDENING * np.sqrt(kept_std**2 + theta**2 * relative_var)
    return std
