"""How unsure the expected counts are: measured on a second view, not taken from the model that made them.

The shrinkage step knows what noise does to a count, but takes its own expectation μ and its mixture for true; where
noise hides an n-gram (t = E/noise is small) it is far too sure. Over made-up and real text alike the errors follow
    standard deviation of λ = E / (t + c),
which is the noise where counts are clear and E/c where noise hides them. c, the trust in what is expected, is fitted
to the squared errors on the judging view, which the expectation has not seen.

That is about clipped counts. What people wrote differs from them: clipping distorts by manner (those who write a lot
write differently) and by chance (an n-gram of few users is left or taken as they happen to write much or little).

Give back what clipping took away, as far as words tell.

Those who write a lot are clipped, and write differently: clipped counts are distorted. The words of the lost part were
measured; the lost n-grams are taken to be u_i exp(x_i·γ), u what is usual, x the words of an n-gram and their vectors,
γ fitted to the noisy lost words by ridge quasi-likelihood. Where noise hides them γ stays 0: what was lost is usual.

From noisy counts to a distribution: as Bayesian as we like, at no cost of privacy.

Answers of growing boldness: public text with its sources weighted, flat shrinkage toward it or toward a level
distribution, and pooling, from stiff to free, followed by shrinkage. How far to go is decided by the noisy counts:
thinning splits them into two independent views, one to fit and one to judge. The judge also says how far the weights
may leave equality and how much of public text to keep, so that the answer moves steadily as noise falls; without a
signal it is public text.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from bayesgram.arrays import Bools, Floats
from bayesgram.inference.mixing import PRIOR_DEVIATION, Weights, fitted_weights
from bayesgram.inference.noisy_counts import ClippedMass, Clipping, NoisyCounts, PublicNgrams
from bayesgram.inference.pooling import (
    STEPS,
    Pool,
    conjugate_gradients,
    learnt_ridges,
    pooled_means,
    word_vectors,
)
from bayesgram.inference.shrinkage import is_above_noise, posterior

TRUSTS = 0.25 * 2.0 ** np.arange(
    0, 8.01, 0.25
)  # c from ¼ (anything is possible) to 64 (public text is right)
USUAL = 0.5  # c of made-up and real text with Wikipedia or articles as the prior; weighs the n-grams in the fit
HIDDEN = 3.0  # noise deviations: only below it does c matter

# Of what people wrote, over posts and commits at ε from 0.1 to 4: within two deviations for 95% in every fifth.
BURST = 5.0  # how many of an n-gram come from one user together, roughly
WIDER = 1.15  # errors are not as regular as these formulas


def spread(expected: Floats, noise: Floats, trust: float) -> Floats:
    """E / (t + c)."""
    return expected / (expected / noise + trust)


def fitted_trust(expected: Floats, noise: Floats, judge: NoisyCounts) -> float:
    """The largest c whose expected squared errors reach those seen plus one standard error: rather too unsure.

    E (judge − E)² = judge.noise² + deviation², since the two views are independent.
    """
    hidden = expected < HIDDEN * noise
    weights = np.where(hidden, spread(expected, noise, USUAL) ** 2 / judge.noise**4, 0.0)
    seen = float((weights * ((judge.counts - expected) ** 2 - judge.noise**2)).sum())
    unsure = float(np.sqrt(2 * ((weights * judge.noise**2) ** 2).sum()))
    enough = [
        c for c in TRUSTS if (weights * spread(expected, noise, c) ** 2).sum() >= seen + unsure
    ]
    return float(max(enough, default=TRUSTS[0]))


def widen_for_clipping(
    deviation: Floats, theta: Floats, total: float, clipping: Clipping, total_rel_std: float
) -> Floats:
    """The deviation of θ from what people wrote, given that from clipped text; `total` n-grams were written."""
    written = np.maximum(theta * total, 1.0)
    relative = (
        clipping.bias_rel_std**2 + BURST * clipping.unevenness / written + total_rel_std**2
    )
    wider: Floats = WIDER * np.sqrt(deviation**2 + theta**2 * relative)
    return wider


SPREAD = 0.1  # τ: what words and vectors leave unexplained of the lost words' log-ratios
WORD_RIDGE, MEANING_RIDGE = 15.0, 7.0
LOST_STEPS = 8
LARGEST_EFFECT = 3.0
CLIPPED_SIGNAL = 2.0  # standard deviations by which the total of what was lost must exceed 0


@dataclass(frozen=True, eq=False)
class WordEffects:
    """X·γ and its transpose: a word, and words like it, lift all of their n-grams."""

    public: PublicNgrams
    vectors: Floats

    def times(self, gamma: Floats) -> Floats:
        """For every n-gram."""
        words, meanings = np.split(gamma, [self.public.word_total])
        return self.public.per_ngram(words + self.vectors @ meanings)

    def transposed(self, values: Floats, *, squared: bool = False) -> Floats:
        """Of a value of every n-gram; squared, for the diagonal of xᵀ diag(values) x."""
        words = self.public.per_word(values)
        return np.concatenate([words, words @ (self.vectors**2 if squared else self.vectors)])


def lost_counts(usual: Floats, lost: ClippedMass, public: PublicNgrams, vectors: Floats) -> Floats:
    """The n-grams that clipping took away, in the counts' own units; `usual` is in proportion to what it takes."""
    total = max(lost.total, 0.0)
    means: Floats = total * usual / usual.sum()
    if total < CLIPPED_SIGNAL * lost.total_noise:
        return means
    effects = WordEffects(public, vectors)
    ridge = np.repeat([WORD_RIDGE, MEANING_RIDGE], [public.word_total, vectors.shape[1]])
    gamma = np.zeros(ridge.size)
    for _ in range(LOST_STEPS):
        change = _gauss_newton(means, lost, effects, gamma, ridge)
        gamma += change
        means = usual * np.exp(np.clip(effects.times(gamma), -LARGEST_EFFECT, LARGEST_EFFECT))
        means *= total / means.sum()
        if float(np.abs(effects.times(change)).max()) < 0.02:
            break
    return means


def _gauss_newton(
    means: Floats, lost: ClippedMass, effects: WordEffects, gamma: Floats, ridge: Floats
) -> Floats:
    """One step for γ: (JᵀWJ + R) Δ = JᵀW(y − μ) − Rγ, with J the words of diag(μ) x."""
    public = effects.public
    said = public.per_word(means)
    weights, residual = np.zeros(said.size), np.zeros(said.size)
    weights[lost.which] = 1 / (lost.noise**2 + (SPREAD * said[lost.which]) ** 2)
    residual[lost.which] = (lost.counts - said[lost.which]) * weights[lost.which]

    def normal(vector: Floats) -> Floats:
        moved = public.per_word(means * effects.times(vector)) * weights
        return effects.transposed(means * public.per_ngram(moved)) + ridge * vector

    target = effects.transposed(means * public.per_ngram(residual)) - ridge * gamma
    diagonal = effects.transposed(means**2 * public.per_ngram(weights), squared=True) + ridge
    return conjugate_gradients(normal, target, 1 / diagonal)


SIGNAL = 2.0  # standard deviations by which the total must exceed 0 for anything to be fitted
MODEL_PENALTY = 1.0  # in log-likelihood, of an answer in place of public text
ACCEPT_LOG_EVIDENCE = 10.0  # log-likelihood by which learnt weights are believed as they are
UNIFORM_MODEL, LEVEL_PRICE = (
    "n-gram by n-gram, without public text",
    10.0,
)  # the model without public text, and its price
MIN_Z_GAIN = 2.5  # standard errors by which an answer must beat the likeliest in cross-entropy: some dozens are compared
PRIOR_TOTAL_REL_STD = 0.5  # the total may be off by so much, relatively, if it is taken from what public text has most of
JUDGE_SHARE = 0.2  # of the information judges, the rest fits
POOLED_MODEL = "words pooled"
PARTS = np.linspace(0, 1, 21)  # of an answer that is mixed with public text
APART = 5.0  # noise deviations from all people beyond which a segment's n-gram is as its own counts have it
LIFT_PARTS = np.linspace(0, 1.2, 25)  # of what shorter n-grams say that is believed,
USUAL_LIFT, LIFT_DEVIATION = 0.7, 0.25  # usually so much


@dataclass(frozen=True, eq=False)
class Inferred:
    """θ, how sure we are of it, and which model it comes from."""

    theta: Floats
    deviation: Floats
    model: str
    total: float  # of the expected counts that clipping leaves: the same part of every order; as noisy as they are
    weights: Weights  # of the sources
    kept: Floats  # θ of what clipping leaves


@dataclass(frozen=True, eq=False)
class Answer:
    """What one model expects of every count."""

    model: str
    expected: Floats
    deviation: Floats
    price: float  # in log-likelihood
    ridges: Floats | None = None  # of pooling
    start: Floats | None = None  # what it began with
    beta: Floats | None = None  # and what it has learnt of words
    apart: Bools | None = (
        None  # n-grams of a segment that noise can't have told apart from all people's
    )

    @property
    def theta(self) -> Floats:
        """As a distribution."""
        theta: Floats = self.expected / self.expected.sum()
        return theta

    def without(self, prior: Floats) -> Floats:
        """What stands where nothing of it is believed: the prior, but for n-grams that are told apart."""
        if self.apart is None or not self.apart.any():
            return prior
        base: Floats = np.where(self.apart, self.theta, prior)
        return base / float(base.sum())


def infer(
    measured: NoisyCounts,
    public: PublicNgrams,
    lifts: Floats | None = None,
    vectors: Floats | None = None,
) -> Inferred:
    """The posterior mean of θ by the model that predicts best; `lifts` are what shorter n-grams say of log θ/π.

    `vectors` are those of the words, where they are known already.
    """
    measured = _with_better_total(measured, public.prior)
    if measured.total < SIGNAL * measured.total_noise:
        return _public(measured, _lifted(measured, lifts, public)[0], _alike(public))
    vectors = word_vectors(public) if vectors is None else vectors
    fit, judge = thinned(measured)
    (judged, _), (public, weights) = _weighted(measured, fit, public)
    public, judged = _lifted(measured, lifts, public, judged)
    pool = Pool.of(measured, public, vectors)
    judged_pool = Pool.with_rows(judged, vectors, pool.telling)
    answers = _answers(measured, pool)
    best, part, trust = _best_of_splits(answers, measured, judged_pool)
    if best is None:
        return _public(measured, public, weights)
    answer = best
    kept = float(answer.expected.sum()) * _between(answer.without(public.prior), answer, part)
    believed = part if answer.apart is None else np.where(answer.apart, 1.0, part)
    deviation = np.maximum(believed * answer.deviation, spread(kept, measured.noise, trust))
    expected = _add_clipped_mass(kept, measured, public, vectors)
    total, theta = float(kept.sum()), expected / expected.sum()
    written = total / (1 - measured.clipping.lost)
    total_rel_std = min(measured.total_noise / max(measured.total, 1.0), 1.0)
    deviation = widen_for_clipping(
        deviation / total, theta, written, measured.clipping, total_rel_std
    )
    return Inferred(theta, deviation, best.model, total, weights, kept / total)


def _weighted(
    measured: NoisyCounts, fit: NoisyCounts, public: PublicNgrams
) -> list[tuple[PublicNgrams, Weights]]:
    """Public text with learnt weights, of the fitted view and of all: as far from equal ones as is likely."""
    learnt = [fitted_weights(each, public) for each in (fit, measured)]
    price = MODEL_PENALTY * (
        len(public.sources) - 1
    )  # so few numbers hardly fit noise: all that was measured may judge them
    score = _evidence(learnt[1].weights @ public.sources, public.prior, measured) - price * PARTS
    part = float(PARTS[np.argmax(score)]) if score.max() < ACCEPT_LOG_EVIDENCE else 1.0
    alike = _alike(public)
    if not part:
        return [(public, alike), (public, alike)]
    found = [
        replace(each, weights=(1 - part) * alike.weights + part * each.weights) for each in learnt
    ]
    return [(public.mixed(each.weights), each) for each in found]


def _lifted(
    measured: NoisyCounts, lifts: Floats | None, *publics: PublicNgrams
) -> list[PublicNgrams]:
    """Public text moved by what shorter n-grams say, as far as is likely: all by as much as the first."""
    if lifts is None or not lifts.any():
        return list(publics)
    priors = [publics[0].moved(part * lifts).prior for part in LIFT_PARTS]
    usual = -0.5 * ((LIFT_PARTS - USUAL_LIFT) / LIFT_DEVIATION) ** 2
    score = [_likelihood(prior, measured) for prior in priors] + usual
    part = float(LIFT_PARTS[np.argmax(score)])
    return [public.moved(part * lifts) for public in publics]


def _likelihood(theta: Floats, measured: NoisyCounts) -> float:
    """Log-likelihood of nθ over that of nothing, n as fits best."""
    weights = 1 / measured.noise**2
    seen = float((weights * measured.counts * theta).sum())
    return max(seen, 0.0) ** 2 / (2 * float((weights * theta * theta).sum()))


def _alike(public: PublicNgrams) -> Weights:
    """All sources weigh alike, or as they are said to, and nobody knows better."""
    number = len(public.sources)
    return Weights(public.start, np.full(number, PRIOR_DEVIATION if number > 1 else 0.0))


def _with_better_total(measured: NoisyCounts, prior: Floats) -> NoisyCounts:
    """The total as it was measured, and as the counts have it if public text is about right; each by its precision."""
    weights = 1 / measured.noise**2
    size = float((weights * prior**2).sum())
    total = float((weights * prior * measured.counts).sum()) / size
    doubt = PRIOR_TOTAL_REL_STD * max(
        total, measured.total
    )  # public text that is wrong finds too little
    own, other = 1 / measured.total_noise**2, 1 / (1 / size + doubt**2)
    better = (own * measured.total + other * total) / (own + other)
    return replace(measured, total=better, total_noise=float(1 / np.sqrt(own + other)))


def _add_clipped_mass(
    kept: Floats, measured: NoisyCounts, public: PublicNgrams, vectors: Floats
) -> Floats:
    """What was kept and what clipping took away: by the rarity of an n-gram, and by its words where they are known."""
    rarity_tells = measured.left is not None and bool((measured.left < 1).any())
    lost = kept * (1 / measured.left - 1) if measured.left is not None and rarity_tells else kept
    if measured.lost is None:
        return kept + lost if rarity_tells else kept
    return kept + lost_counts(lost, measured.lost, public, vectors)


def _answers(measured: NoisyCounts, pool: Pool) -> list[Answer]:
    """All models, from cautious to bold; each pooled one starts from the one before."""
    found = [_answer("n-gram by n-gram", measured, pool, MODEL_PENALTY)]
    if not pool.public.learnt:
        found.append(_answer(UNIFORM_MODEL, measured, pool, LEVEL_PRICE))
    if pool.public.words.shape[1] > 1:
        ridges, start = learnt_ridges(measured, pool)
        found.append(_answer(POOLED_MODEL, measured, pool, MODEL_PENALTY, ridges, start))
    return found


def _answer(
    model: str,
    measured: NoisyCounts,
    pool: Pool,
    price: float,
    ridges: Floats | None = None,
    start: Floats | None = None,
    steps: int = STEPS,
) -> Answer:
    """What a model makes of these measurements."""
    beta, prior = None, pool.public.prior
    if ridges is not None:
        means, beta = pooled_means(measured, pool, ridges, start, steps)
    else:
        means = flat_means(
            measured, np.full_like(prior, 1 / prior.size) if model == UNIFORM_MODEL else prior
        )
    expected, deviation = posterior(
        measured.counts, measured.noise, means, on_one_core=pool.public.on_one_core
    )
    expected = match_total(expected, measured)
    apart = _outliers(measured, expected, prior) if pool.public.learnt else None
    return Answer(model, expected, deviation, price, ridges, start, beta, apart)


# Relative standard deviation of the sum of what shrinkage expects of n-grams that noise hides.
HIDDEN_SUM_REL_STD = 0.5


def match_total(expected: Floats, measured: NoisyCounts) -> Floats:
    """Return expected counts whose sum agrees with the measured total.

    Shrinkage estimates every count by itself, and errs in the same direction for most of the n-grams
    that noise hides. Their sum is known much better, from the total that is measured as a coordinate
    of its own. All n-grams get a common factor, as far as noise hides them: an n-gram whose expected
    count is t noise deviations moves by 1/(1 + t²) of it.
    """
    movable = expected / (1 + (expected / measured.noise) ** 2)
    movable_sum = float(movable.sum())
    expected_sum = float(expected.sum())
    hidden_var = (HIDDEN_SUM_REL_STD * movable_sum) ** 2
    excess = (expected_sum - measured.total) * hidden_var / (hidden_var + measured.total_noise**2)
    factor = max(1 - excess / movable_sum, 0.05)
    return expected + (factor - 1) * movable


def _outliers(measured: NoisyCounts, expected: Floats, prior: Floats) -> Bools:
    """The n-grams of a segment whose counts noise and chance can't have moved so far from all people's."""
    usual = float(expected.sum()) * prior
    apart: Bools = (measured.counts - usual) ** 2 > APART**2 * (measured.noise**2 + usual)
    return apart


SPLITS = 2
REFIT_STEPS = 4
USE_GAIN = False


def _best_of_splits(
    answers: Sequence[Answer], measured: NoisyCounts, pool: Pool
) -> tuple[Answer | None, float, float]:
    """The model, and the part of it that replaces public text, by the evidence of several splits."""
    prior = pool.public.prior
    scores = [np.zeros(PARTS.size) for _ in answers]
    views = []
    for split in range(SPLITS):
        fit, judge = thinned(measured, split)
        refits = [
            _answer(each.model, fit, pool, each.price, each.ridges, each.beta, REFIT_STEPS)
            for each in answers
        ]
        views.append((fit, judge, refits))
        for score, refit in zip(scores, refits, strict=True):
            score += _evidence(refit.theta, prior, judge) / SPLITS
            score += _word_evidence(refit.theta, pool.public, judge) / SPLITS
    best, part, most = None, 0.0, 0.0
    for number, (answer, score) in enumerate(zip(answers, scores, strict=True)):
        net = score - answer.price * PARTS
        at = int(np.argmax(net))
        if net[at] > most:
            most, best, part = float(net[at]), number, float(PARTS[at])
    if best is None:
        fit, judge, refits = views[0]
        if not _tells_apart(refits[0], prior, judge):
            return None, 0.0, 0.0
        best = 0
    trusts = []
    for fit, judge, refits in views:
        refit = refits[best]
        kept = float(refit.expected.sum()) * _between(refit.without(prior), refit, part)
        trusts.append(fitted_trust(kept, fit.noise, judge))
    return answers[best], part, float(np.median(trusts))


def _best(
    answers: Sequence[Answer], prior: Floats, fit: NoisyCounts, judge: NoisyCounts
) -> tuple[Answer | None, float, float]:
    """The answer, the part of it that replaces public text, and the trust in it: as the second view has it.

    First by likelihood, which sees through noise; then by cross-entropy, which is what counts, where it is sure.
    """
    best, part = _likeliest(answers, prior, judge)
    base = prior if best is None else _between(prior, best, part)
    most = 0.0
    for answer in answers:
        for some in PARTS[1:]:
            gain, doubt = _gain(_between(prior, answer, some), base, judge)
            if gain > max(most, MIN_Z_GAIN * doubt):
                most, best, part = gain, answer, float(some)
    if best is None and _tells_apart(answers[0], prior, judge):
        best = answers[0]
    if best is None:
        return None, 0.0, 0.0
    kept = float(best.expected.sum()) * _between(best.without(prior), best, part)
    return best, part, fitted_trust(kept, fit.noise, judge)


def _tells_apart(answer: Answer, prior: Floats, judge: NoisyCounts) -> bool:
    """Whether single n-grams of a segment are worth telling apart where all others are as all people's."""
    return _likelihood(answer.without(prior), judge) - _likelihood(prior, judge) > MODEL_PENALTY


def _likeliest(
    answers: Sequence[Answer], prior: Floats, judge: NoisyCounts
) -> tuple[Answer | None, float]:
    """The answer, and the part of it, under which the second view is likeliest; each part of one has its price."""
    most, best, part = 0.0, None, 0.0
    for answer in answers:
        score = _evidence(answer.theta, prior, judge) - answer.price * PARTS
        at = int(np.argmax(score))
        if score[at] > most:
            most, best, part = float(score[at]), answer, float(PARTS[at])
    return best, part


def _evidence(theta: Floats, prior: Floats, judge: NoisyCounts) -> Floats:
    """Log-likelihood of the second view under n((1 − t)π + tθ) over that under nπ, for every part t; n as fits best."""
    weights = 1 / judge.noise**2
    seen_prior, seen_theta = (
        float((weights * judge.counts * each).sum()) for each in (prior, theta)
    )
    squares = [
        float((weights * one * other).sum())
        for one, other in ((prior, prior), (prior, theta), (theta, theta))
    ]
    seen = (1 - PARTS) * seen_prior + PARTS * seen_theta
    size = (
        (1 - PARTS) ** 2 * squares[0] + 2 * PARTS * (1 - PARTS) * squares[1] + PARTS**2 * squares[2]
    )
    likelihoods: Floats = np.maximum(seen, 0) ** 2 / (2 * size)
    gained: Floats = likelihoods - likelihoods[0]
    return gained


WORD_REL_STD = 0.3


def _word_evidence(theta: Floats, public: PublicNgrams, judge: NoisyCounts) -> Floats:
    """Log-likelihood of the words of the second view, over that under public text, for every part."""
    if judge.word_counts is None or judge.word_noise is None:
        return np.zeros(PARTS.size)
    total = max(judge.total, 1.0)
    prior_words = public.per_word(public.prior)
    theta_words = public.per_word(theta)
    scale = total * (prior_words + theta_words) / 2
    weights = 1 / (judge.word_noise**2 + (WORD_REL_STD * scale) ** 2)
    misfits = np.array(
        [
            float(
                (
                    weights
                    * (judge.word_counts - total * ((1 - t) * prior_words + t * theta_words)) ** 2
                ).sum()
            )
            for t in PARTS
        ]
    )
    gained: Floats = (misfits[0] - misfits) / 2
    return gained


def _between(prior: Floats, answer: Answer, part: float) -> Floats:
    """Public text with a part of an answer in it."""
    mixed: Floats = (1 - part) * prior + part * answer.expected / answer.expected.sum()
    return mixed


def _gain(theta: Floats, base: Floats, judge: NoisyCounts) -> tuple[float, float]:
    """By how much θ predicts the second view better than another does, and the standard deviation of that.

    What all n-grams have in common is taken from the total, which is measured far better than they are together.
    """
    log_ratio, variance = np.log(theta / base), judge.noise**2
    common = float((variance * log_ratio).sum() / variance.sum())
    own = log_ratio - common
    gain = float((judge.counts * own).sum()) + judge.total * common
    return gain, float(np.sqrt((variance * own**2).sum() + (judge.total_noise * common) ** 2))


def flat_means(measured: NoisyCounts, prior: Floats) -> Floats:
    """n·π, with n from the counts that noise hides: a few frequent n-grams must not raise all the others."""
    means = max(measured.total, 1.0) * prior
    for _ in range(3):
        clear = is_above_noise(measured.counts, measured.noise, means)
        total = measured.total - float(measured.counts[clear].sum())
        doubt = float(np.hypot(measured.total_noise, np.linalg.norm(measured.noise[clear])))
        if not clear.all() and total < float(means[~clear].sum()):
            means = max(total, doubt) / float(prior[~clear].sum()) * prior
    return means


def thinned(measured: NoisyCounts, split: int = 0) -> tuple[NoisyCounts, NoisyCounts]:
    """Two independent views of Gaussian measurements: y + cξ and y − ξ/c, ξ with the noise's own scale.

    ξ is drawn from a fixed seed: it hides nothing, it only splits, and the same measurements give the same answer.
    """
    c = np.sqrt(JUDGE_SHARE / (1 - JUDGE_SHARE))
    chance = np.random.default_rng(20210427 + split)
    wider, widest = np.sqrt(1 + c**2), np.sqrt(1 + 1 / c**2)

    def split(values: Floats, noise: Floats) -> tuple[Floats, Floats]:
        xi = noise * chance.standard_normal(np.shape(values))
        return values + c * xi, values - xi / c

    counts = split(measured.counts, measured.noise)
    totals = split(np.array(measured.total), np.array(measured.total_noise))
    views = [
        NoisyCounts(view, measured.noise * width, float(total), measured.total_noise * width)
        for view, total, width in zip(counts, totals, (wider, widest), strict=True)
    ]
    if measured.word_counts is not None and measured.word_noise is not None:
        words = split(measured.word_counts, measured.word_noise)
        views = [
            replace(view, word_counts=counts, word_noise=measured.word_noise * width)
            for view, counts, width in zip(views, words, (wider, widest), strict=True)
        ]
    return views[0], views[1]


def _public(measured: NoisyCounts, public: PublicNgrams, weights: Weights) -> Inferred:
    """As public text says, and as unsure as it is: a factor of e or so."""
    return Inferred(
        public.prior, public.prior, "public", max(measured.total, 1.0), weights, public.prior
    )


def models_told(found: Mapping[str, Inferred]) -> str:
    """How the n-grams of each order were inferred, for the card."""
    names = {order: each.model for order, each in found.items()}
    if len(set(names.values())) == 1:
        return next(iter(names.values()))
    return "; ".join(f"order {order}: {name}" for order, name in names.items())


def sources_told(names: Sequence[str], found: Mapping[str, Inferred]) -> dict[str, Any]:
    """The learnt weights of several sources, by order, for the card."""
    if len(names) == 1:
        return {}
    return {
        "source_weights": {
            order: {
                name: {"weight": round(float(weight), 4), "deviation": round(float(deviation), 4)}
                for name, weight, deviation in zip(
                    names, each.weights.weights, each.weights.deviations, strict=True
                )
            }
            for order, each in found.items()
        }
    }
