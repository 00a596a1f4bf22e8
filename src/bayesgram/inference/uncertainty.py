"""How unsure the expected counts are: measured on a second view, not taken from the model that made them.

The shrinkage step knows what noise does to a count, but takes its own expectation μ and its mixture for true; where
noise hides an n-gram (t = E/noise is small) it is far too sure. Over made-up and real text alike the errors follow
    standard deviation of λ = E / (t + c),
which is the noise where counts are clear and E/c where noise hides them. c, the trust in what is expected, is fitted
to the squared errors on the judging view, which the expectation has not seen.

That is about clipped counts. What people wrote differs from them: clipping distorts by manner (those who write a lot
write differently) and by chance (an n-gram of few users is left or taken as they happen to write much or little).
"""

import numpy as np

from bayesgram.arrays import Floats
from bayesgram.inference.measured import Clipping, Measured

TRUSTS = 0.25 * 2.0 ** np.arange(0, 8.01, 0.25)  # c from ¼ (anything is possible) to 64 (public text is right)
USUAL = 0.5  # c of made-up and real text with Wikipedia or articles as the prior; weighs the n-grams in the fit
HIDDEN = 3.0  # noise deviations: only below it does c matter

# Of what people wrote, over posts and commits at ε from 0.1 to 4: within two deviations for 95% in every fifth.
MANNER = 0.3  # relative deviation where everything is lost
BURST = 5.0  # how many of an n-gram come from one user together, roughly
WIDER = 1.15  # errors are not as regular as these formulas


def spread(expected: Floats, noise: Floats, trust: float) -> Floats:
    """E / (t + c)."""
    return expected / (expected / noise + trust)


def fitted_trust(expected: Floats, noise: Floats, judge: Measured) -> float:
    """The largest c whose expected squared errors reach those seen plus one standard error: rather too unsure.

    E (judge − E)² = judge.noise² + deviation², since the two views are independent.
    """
    hidden = expected < HIDDEN * noise
    weights = np.where(hidden, spread(expected, noise, USUAL) ** 2 / judge.noise**4, 0.0)
    seen = float((weights * ((judge.counts - expected) ** 2 - judge.noise**2)).sum())
    unsure = float(np.sqrt(2 * ((weights * judge.noise**2) ** 2).sum()))
    enough = [c for c in TRUSTS if (weights * spread(expected, noise, c) ** 2).sum() >= seen + unsure]
    return float(max(enough, default=TRUSTS[0]))


def of_what_was_written(deviation: Floats, theta: Floats, total: float, clipping: Clipping) -> Floats:
    """The deviation of θ from what people wrote, given that from clipped text; `total` n-grams were written."""
    written = np.maximum(theta * total, 1.0)
    relative = (MANNER * clipping.lost) ** 2 + BURST * clipping.unevenness / written
    wider: Floats = WIDER * np.sqrt(deviation**2 + theta**2 * relative)
    return wider
