"""From noisy counts to a distribution: as Bayesian as we like, at no cost of privacy.

Answers of growing boldness: the public distribution, the sources weighted, flat shrinkage toward them or toward a
level distribution, and pooling, from stiff to free, followed by shrinkage. How far to go is decided by the noisy
counts: thinning splits them into two independent views, one to fit and one to judge. The judge also says how much of
public text to keep, so that the answer moves steadily as noise falls; without a signal it is public text.
"""

from collections.abc import Sequence
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
SURE = 2.5  # standard errors by which an answer must beat public text on the judging view
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
    stiffness: float | None = None  # of pooling
    beta: Floats | None = None  # what pooling has learnt of words


def infer(measured: Measured, public: PublicNgrams) -> Inferred:
    """The posterior mean of θ by the model that predicts best."""
    if measured.total < SIGNAL * measured.total_noise:
        return _public(measured, public)
    vectors = word_vectors(public)
    fit, judge = thinned(measured)
    best, part, trust = _best(_answers(fit, public, vectors), public.prior, fit, judge)
    if best is None:
        return _public(measured, public)
    weights = fitted_weights(measured, public)
    answer = _answer(best.model, measured, public.mixed(weights.weights), vectors, best.stiffness, best.beta)
    kept = (1 - part) * float(answer.expected.sum()) * public.prior + part * answer.expected
    deviation = np.maximum(part * answer.deviation, spread(kept, measured.noise, trust))
    expected = kept if measured.lost is None else kept + lost_counts(kept, measured.lost, public, vectors)
    total = float(expected.sum())
    return Inferred(expected / total, deviation / float(kept.sum()), best.model, total, weights)


def _answers(measured: Measured, public: PublicNgrams, vectors: Floats) -> list[Answer]:
    """All models, from cautious to bold; each pooled one starts from the one before."""
    mixed = public.mixed(fitted_weights(measured, public).weights)
    names = ["mixture", "flat", "level"] if len(public.sources) > 1 else ["flat", "level"]
    found = [_answer(name, measured, mixed, vectors) for name in names]
    for stiffness in STIFFNESS if public.words.shape[1] > 1 else ():
        found.append(_answer(_pooled(stiffness), measured, mixed, vectors, stiffness, found[-1].beta))
    return found


def _answer(
    model: str,
    measured: Measured,
    mixed: PublicNgrams,
    vectors: Floats,
    stiffness: float | None = None,
    start: Floats | None = None,
) -> Answer:
    """What a model makes of these measurements."""
    beta = None
    if model == "mixture":
        means = max(measured.total, 1.0) * mixed.prior
        return Answer(model, means, means)
    if stiffness is not None:
        means, beta = pooled_means(measured, Features(mixed, vectors), stiffness=stiffness, start=start)
    else:
        level = np.full_like(mixed.prior, 1 / mixed.prior.size)
        means = flat_means(measured, level if model == "level" else mixed.prior)
    return Answer(model, *posterior(measured.counts, measured.noise, means), stiffness, beta)


def _pooled(stiffness: float) -> str:
    return "pooled" if stiffness == 1 else f"pooled, {stiffness:g} times as stiff"


def _best(
    answers: Sequence[Answer], prior: Floats, fit: Measured, judge: Measured
) -> tuple[Answer | None, float, float]:
    """The answer, the part of it and the trust in it that gain most on the second view, of those that surely gain."""
    gain, best, part = 0.0, None, 0.0
    for answer in answers:
        theta = answer.expected / answer.expected.sum()
        for some in PARTS[1:]:
            found, doubt = _gain((1 - some) * prior + some * theta, prior, judge)
            if found > max(gain, SURE * doubt):
                gain, best, part = found, answer, float(some)
    if best is None:
        return None, 0.0, 0.0
    kept = (1 - part) * best.expected.sum() * prior + part * best.expected
    return best, part, fitted_trust(kept, fit.noise, judge)


def _gain(theta: Floats, prior: Floats, judge: Measured) -> tuple[float, float]:
    """By how much θ predicts the second view better than π, and the standard deviation of that."""
    log_ratio = np.log(theta / prior)
    return float((judge.counts * log_ratio).sum()), float(np.sqrt(((judge.noise * log_ratio) ** 2).sum()))


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
