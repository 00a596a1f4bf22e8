"""From noisy counts to a distribution: as Bayesian as we like, at no cost of privacy.

Three answers of growing boldness: the public distribution, flat shrinkage toward it, and pooling (stiff or free)
followed by shrinkage. Which one to trust is decided by the noisy counts: thinning splits them into two independent
views, one to fit and one to judge. Where there is no signal the answer is the public distribution.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from bayesgram.arrays import Floats
from bayesgram.inference.features import Features, word_vectors
from bayesgram.inference.measured import Measured, PublicNgrams
from bayesgram.inference.pooling import pooled_means
from bayesgram.inference.shrinkage import posterior
from bayesgram.inference.uncertainty import fitted_trust, spread

SIGNAL = 4.0  # standard deviations by which the total must exceed 0
JUDGE_SHARE = 0.2  # of the information judges, the rest fits
STIFFNESS = {"pooled": 1.0, "pooled, stiff": 8.0}


@dataclass(frozen=True, eq=False)
class Inferred:
    """θ, how sure we are of it, and which model it comes from."""

    theta: Floats
    deviation: Floats
    model: str


Model = Callable[[Measured], tuple[Floats, Floats]]


def infer(measured: Measured, public: PublicNgrams) -> Inferred:
    """The posterior mean of θ by the model that predicts best."""
    total, doubt = float(measured.counts.sum()), float(np.linalg.norm(measured.noise))
    if total < SIGNAL * doubt:
        return _from_counts("public", public.prior, public.prior)  # as unsure as the prior is: a factor of e or so
    models = _models(public)
    fit, judge = thinned(measured)
    fitted = {name: model(fit)[0] for name, model in models.items()} | {"public": public.prior}
    best = min(fitted, key=lambda name: _loss(fitted[name], judge))
    if best == "public":
        return _from_counts(best, public.prior, public.prior)
    expected, deviation = models[best](measured)
    trust = fitted_trust(fitted[best], fit.noise, judge)
    return _from_counts(best, expected, np.maximum(deviation, spread(expected, measured.noise, trust)))


def _models(public: PublicNgrams) -> dict[str, Model]:
    """Flat always; pooled where n-grams have words in common."""

    def flat(measured: Measured) -> tuple[Floats, Floats]:
        return posterior(measured.counts, measured.noise, float(measured.counts.sum()) * public.prior)

    if public.words.shape[1] == 1:
        return {"flat": flat}
    features = Features(public, word_vectors(public))

    def pooled(stiffness: float) -> Model:
        def model(measured: Measured) -> tuple[Floats, Floats]:
            means = pooled_means(measured, features, stiffness=stiffness)
            return posterior(measured.counts, measured.noise, means)

        return model

    return {"flat": flat} | {name: pooled(stiffness) for name, stiffness in STIFFNESS.items()}


def thinned(measured: Measured) -> tuple[Measured, Measured]:
    """Two independent views of Gaussian measurements: y + cξ and y − ξ/c, ξ with the noise's own scale.

    ξ is drawn from a fixed seed: it hides nothing, it only splits, and the same measurements give the same answer.
    """
    c = np.sqrt(JUDGE_SHARE / (1 - JUDGE_SHARE))
    chance = np.random.default_rng(20210427)

    def split(values: Floats, noise: Floats) -> tuple[Floats, Floats]:
        xi = noise * chance.standard_normal(values.size)
        return values + c * xi, values - xi / c

    wider, widest = np.sqrt(1 + c**2), np.sqrt(1 + 1 / c**2)
    fit_counts, judge_counts = split(measured.counts, measured.noise)
    fit = replace(measured, counts=fit_counts, noise=measured.noise * wider)
    if measured.word_counts is not None and measured.word_noise is not None:
        fit_words, _ = split(measured.word_counts, measured.word_noise)
        fit = replace(fit, word_counts=fit_words, word_noise=measured.word_noise * wider)
    return fit, Measured(judge_counts, measured.noise * widest)


def _loss(expected: Floats, judge: Measured) -> float:
    """Cross-entropy of the second view under θ ∝ expected: unbiased up to what all models share."""
    return float(-(judge.counts * np.log(expected / expected.sum())).sum())


def _from_counts(model: str, expected: Floats, deviation: Floats) -> Inferred:
    total = expected.sum()
    return Inferred(expected / total, deviation / total, model)
