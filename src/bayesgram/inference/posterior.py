"""From noisy counts to a distribution: as Bayesian as we like, at no cost of privacy.

Answers of growing boldness: the public distribution, the sources weighted, flat shrinkage toward them or toward a
level distribution, and pooling, from stiff to free, followed by shrinkage. How far to go is decided by the noisy
counts: thinning splits them into two independent views, one to fit and one to judge. The judge also says how much of
public text to keep, so that the answer moves steadily as noise falls; without a signal it is public text.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from bayesgram.arrays import Floats
from bayesgram.inference.features import Features, word_vectors
from bayesgram.inference.measured import Measured, PublicNgrams
from bayesgram.inference.mixing import Weights, fitted_weights
from bayesgram.inference.pooling import pooled_means
from bayesgram.inference.shrinkage import is_clear, posterior
from bayesgram.inference.uncertainty import fitted_trust, spread
from bayesgram.inference.unclipping import lost_counts

SIGNAL = 2.0  # standard deviations by which the total must exceed 0 for anything to be fitted
CAUTION = 1.5  # standard errors that are taken off what an answer gains on the judging view
JUDGE_SHARE = 0.2  # of the information judges, the rest fits
STIFFNESS = (512.0, 64.0, 8.0, 1.0)  # of pooling, from hardly anything to all that is learnt of words
PARTS = np.linspace(0, 1, 21)  # of an answer that is mixed with public text


@dataclass(frozen=True, eq=False)
class Inferred:
    """θ, how sure we are of it, and which model it comes from."""

    theta: Floats
    deviation: Floats
    model: str
    total: float  # of the expected counts; as noisy as they are
    weights: Weights  # of the sources


@dataclass(frozen=True, eq=False)
class Answer:
    """What one model expects of every count."""

    model: str
    expected: Floats
    deviation: Floats


def infer(measured: Measured, public: PublicNgrams) -> Inferred:
    """The posterior mean of θ by the model that predicts best."""
    if measured.total < SIGNAL * measured.total_noise:
        return _public(measured, public)
    vectors = word_vectors(public)
    fit, judge = thinned(measured)
    best, part, trust = _best(list(_answers(fit, public, vectors)), public.prior, fit, judge)
    if best is None:
        return _public(measured, public)
    answer = next(each for each in _answers(measured, public, vectors, only=best) if each.model == best)
    kept = (1 - part) * float(answer.expected.sum()) * public.prior + part * answer.expected
    deviation = np.maximum(part * answer.deviation, spread(kept, measured.noise, trust))
    expected = kept if measured.lost is None else kept + lost_counts(kept, measured.lost, public, vectors)
    total = float(expected.sum())
    return Inferred(expected / total, deviation / float(kept.sum()), best, total, fitted_weights(measured, public))


def _answers(measured: Measured, public: PublicNgrams, vectors: Floats, only: str | None = None) -> Iterator[Answer]:
    """All models, from cautious to bold, each starting from the one before; or up to the one that is asked for."""
    weights = fitted_weights(measured, public)
    mixed = public.mixed(weights.weights)
    level = np.full_like(public.prior, 1 / public.prior.size)
    total = max(measured.total, 1.0)
    if len(public.sources) > 1:
        yield Answer("mixture", total * mixed.prior, total * mixed.prior)
    for name, prior in (("flat", mixed.prior), ("level", level)):
        if only in (None, name):
            yield Answer(name, *posterior(measured.counts, measured.noise, flat_means(measured, prior)))
    if only in ("mixture", "flat", "level"):
        return
    features, start = Features(mixed, vectors), None
    for stiffness in STIFFNESS if public.words.shape[1] > 1 else STIFFNESS[:0]:
        means, start = pooled_means(measured, features, stiffness=stiffness, start=start)
        if only in (None, _pooled(stiffness)):
            yield Answer(_pooled(stiffness), *posterior(measured.counts, measured.noise, means))


def _pooled(stiffness: float) -> str:
    return "pooled" if stiffness == 1 else f"pooled, {stiffness:g} times as stiff"


def _best(answers: list[Answer], prior: Floats, fit: Measured, judge: Measured) -> tuple[str | None, float, float]:
    """The model, the part of it and the trust in it that gain most over public text for sure, on the second view."""
    best: tuple[float, str | None, float] = (0.0, None, 0.0)
    for answer in answers:
        theta = answer.expected / answer.expected.sum()
        for part in PARTS[1:]:
            best = max(best, (_sure_gain((1 - part) * prior + part * theta, prior, judge), answer.model, part))
    _, model, part = best
    if model is None:
        return None, 0.0, 0.0
    expected = next(answer.expected for answer in answers if answer.model == model)
    kept = (1 - part) * expected.sum() * prior + part * expected
    return model, part, fitted_trust(kept, fit.noise, judge)


def _sure_gain(theta: Floats, prior: Floats, judge: Measured) -> float:
    """By how much θ predicts the second view better than π, less what its noise may have done."""
    log_ratio = np.log(theta / prior)
    gain, doubt = float(judge.counts @ log_ratio), float(np.linalg.norm(judge.noise * log_ratio))
    return gain - CAUTION * doubt


def flat_means(measured: Measured, prior: Floats) -> Floats:
    """n·π, with n from the counts that noise hides: a few frequent n-grams must not raise all the others."""
    means = max(measured.total, 1.0) * prior
    for _ in range(3):
        clear = is_clear(measured.counts, measured.noise, means)
        total = measured.total - float(measured.counts[clear].sum())
        doubt = float(np.hypot(measured.total_noise, np.linalg.norm(measured.noise[clear])))
        if not clear.all() and total < float(means[~clear].sum()):
            means = max(total, doubt) / float(prior[~clear].sum()) * prior
    return means


def thinned(measured: Measured) -> tuple[Measured, Measured]:
    """Two independent views of Gaussian measurements: y + cξ and y − ξ/c, ξ with the noise's own scale.

    ξ is drawn from a fixed seed: it hides nothing, it only splits, and the same measurements give the same answer.
    """
    c = np.sqrt(JUDGE_SHARE / (1 - JUDGE_SHARE))
    chance = np.random.default_rng(20210427)
    wider, widest = np.sqrt(1 + c**2), np.sqrt(1 + 1 / c**2)

    def split(values: Floats, noise: Floats) -> tuple[Floats, Floats]:
        xi = noise * chance.standard_normal(np.shape(values))
        return values + c * xi, values - xi / c

    counts = split(measured.counts, measured.noise)
    totals = split(np.array(measured.total), np.array(measured.total_noise))
    views = [
        Measured(view, measured.noise * width, float(total), measured.total_noise * width)
        for view, total, width in zip(counts, totals, (wider, widest), strict=True)
    ]
    if measured.word_counts is not None and measured.word_noise is not None:
        words, _ = split(measured.word_counts, measured.word_noise)
        views[0] = replace(views[0], word_counts=words, word_noise=measured.word_noise * wider)
    return views[0], views[1]


def _public(measured: Measured, public: PublicNgrams) -> Inferred:
    """As public text says, and as unsure as it is: a factor of e or so."""
    number = len(public.sources)
    weights = Weights(np.full(number, 1 / number), np.full(number, 0.5 if number > 1 else 0.0))
    return Inferred(public.prior, public.prior, "public", max(measured.total, 1.0), weights)
