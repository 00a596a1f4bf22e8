"""From noisy counts to a distribution: as Bayesian as we like, at no cost of privacy.

Answers of growing boldness: the public distribution, flat shrinkage toward it or toward a level one, and pooling (stiff
or free) followed by shrinkage. Which one to trust is decided by the noisy counts: thinning splits them into two
independent views, one to fit and one to judge. Where there is no signal the answer is the public distribution.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from bayesgram.arrays import Floats
from bayesgram.inference.features import Features, word_vectors
from bayesgram.inference.measured import Measured, PublicNgrams
from bayesgram.inference.pooling import pooled_means
from bayesgram.inference.shrinkage import is_clear, posterior
from bayesgram.inference.uncertainty import fitted_trust, spread

SIGNAL = 2.0  # standard deviations by which the total must exceed 0 for anything to be fitted
MARGIN = 2.0  # standard errors by which a model must beat public text on the judging view
JUDGE_SHARE = 0.2  # of the information judges, the rest fits
STIFFNESS = {"pooled": 1.0, "pooled, stiff": 8.0}


@dataclass(frozen=True, eq=False)
class Inferred:
    """θ, how sure we are of it, and which model it comes from."""

    theta: Floats
    deviation: Floats
    model: str
    total: float  # of the expected counts; as noisy as they are


Model = Callable[[Measured], tuple[Floats, Floats]]


def infer(measured: Measured, public: PublicNgrams) -> Inferred:
    """The posterior mean of θ by the model that predicts best."""
    total, doubt = float(measured.counts.sum()), float(np.linalg.norm(measured.noise))
    if total < SIGNAL * doubt:
        return _public(measured, public)
    models = _models(public)
    fit, judge = thinned(measured)
    fitted = {name: model(fit)[0] for name, model in models.items()} | {"public": public.prior}
    best = min(fitted, key=lambda name: _loss(fitted[name], judge))
    if best == "public" or not _clearly_better(fitted[best], public.prior, judge):
        return _public(measured, public)
    expected, deviation = models[best](measured)
    trust = fitted_trust(fitted[best], fit.noise, judge)
    return _from_counts(best, expected, np.maximum(deviation, spread(expected, measured.noise, trust)))


def _models(public: PublicNgrams) -> dict[str, Model]:
    """Flat always, also without the prior, which may be useless; pooled where n-grams have words in common."""

    def flat(prior: Floats) -> Model:
        return lambda measured: posterior(measured.counts, measured.noise, flat_means(measured, prior))

    level = np.full_like(public.prior, 1 / public.prior.size)
    models = {"flat": flat(public.prior), "level": flat(level)}
    if public.words.shape[1] == 1:
        return models
    features = Features(public, word_vectors(public))

    def pooled(stiffness: float) -> Model:
        def model(measured: Measured) -> tuple[Floats, Floats]:
            means = pooled_means(measured, features, stiffness=stiffness)
            return posterior(measured.counts, measured.noise, means)

        return model

    return models | {name: pooled(stiffness) for name, stiffness in STIFFNESS.items()}


def flat_means(measured: Measured, prior: Floats) -> Floats:
    """n·π, with n from the counts that noise hides: a few frequent n-grams must not raise all the others."""
    means = max(float(measured.counts.sum()), 1.0) * prior
    for _ in range(3):
        hidden = ~is_clear(measured.counts, measured.noise, means)
        total, doubt = float(measured.counts[hidden].sum()), float(np.linalg.norm(measured.noise[hidden]))
        if hidden.any() and total < float(means[hidden].sum()):
            means = max(total, doubt) / float(prior[hidden].sum()) * prior
    return means


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


def _clearly_better(expected: Floats, prior: Floats, judge: Measured) -> bool:
    """Whether the second view prefers θ to π by more than its noise explains: else public text has the last word."""
    log_ratio = np.log(expected / expected.sum()) - np.log(prior)
    gain, doubt = float(judge.counts @ log_ratio), float(np.linalg.norm(judge.noise * log_ratio))
    return gain > MARGIN * doubt


def _public(measured: Measured, public: PublicNgrams) -> Inferred:
    """As public text says, and as unsure as it is: a factor of e or so."""
    return Inferred(public.prior, public.prior, "public", max(float(measured.counts.sum()), 1.0))


def _from_counts(model: str, expected: Floats, deviation: Floats) -> Inferred:
    total = float(expected.sum())
    return Inferred(expected / total, deviation / total, model, total)
