"""From noisy counts of one order to a distribution. Post-processing: it costs no privacy.

`infer` goes through these steps, each a function below or a module of its own:

1. The total is measured as a coordinate of its own; counts and public text refine it.
2. Public sources get weights (`mixing`), and shorter n-grams move the prior (`orders`).
3. Three models are fitted: n-gram by n-gram, the same without public text, and word effects
   (`pooling`), each followed by shrinkage (`shrinkage`) and matched to the total.
4. Judging views decide which model, and which share of it, takes the place of public text
   (`model_choice`). Without a signal the answer is public text.
5. What clipping removed is added (`clipped_text`).
6. The standard deviation is put together from its parts (`deviations`).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from bayesgram.arrays import Bools, Floats
from bayesgram.inference.clipped_text import add_clipped_mass
from bayesgram.inference.deviations import fit_trust, hidden_std, probability_std, split_std
from bayesgram.inference.mixing import PRIOR_WEIGHT_STD, Weights, fit_weights
from bayesgram.inference.model_choice import (
    MODEL_SHARES,
    SPLITS,
    log_likelihood,
    ngram_evidence,
    thin,
    word_evidence,
)
from bayesgram.inference.noisy_counts import VAGUE_REL_STD, NoisyCounts, PublicNgrams
from bayesgram.inference.pooling import (
    MAX_STEPS,
    Pool,
    compute_word_vectors,
    fit_pooled_means,
    learn_ridges,
)
from bayesgram.inference.shrinkage import is_above_noise, shrink_counts

# Names of models, as cards show them.
PUBLIC_MODEL = "public"
PLAIN_MODEL = "n-gram by n-gram"
UNIFORM_MODEL = "n-gram by n-gram, without public text"
POOLED_MODEL = "words pooled"

# Standard deviations by which the total must exceed 0 for anything to be fitted. With 2, one of
# twenty releases of 1,000 users was 8% worse than public text (film reviews and commits, ε = 0.2):
# all of these had a total of 2 to 3 deviations. With 4, one of twenty releases of three orders of
# 5,000 reviews was 1.5% worse (ε = 0.05). Chosen by benchmarks/never_worse.py.
MIN_TOTAL_Z = 6.0

# Relative standard deviation of public text as a release. With it, a third of what people write is
# expected within a factor of 2 of public text; it was 26% for commits and 39% for film reviews.
PUBLIC_REL_STD = 1.5

# What noise hides is not scaled down by more than this factor to match the total.
MIN_TOTAL_FACTOR = 0.05

# Log-likelihood that a model must gain over public text: one for each number that is fitted to the
# judging view, as in Akaike's criterion. A model that ignores public text must gain more, because
# few n-grams that are much more frequent than in public text make it look good. Chosen by hand.
MODEL_PENALTY = 1.0
UNIFORM_PENALTY = 10.0

# Gauss–Newton steps on a fitting view; they start from the effects that all data gave.
REFIT_STEPS = 4

# Noise deviations from all people beyond which a segment's n-gram is as its own counts have it.
OUTLIER_Z = 5.0

# How much of what shorter n-grams say is believed: the shares that are tried, and the normal prior
# of the share. Chosen by benchmarks/orders.py.
LIFT_SHARES = np.linspace(0, 1.2, 25)
TYPICAL_LIFT_SHARE = 0.7
LIFT_SHARE_STD = 0.25


@dataclass(frozen=True, eq=False)
class Inferred:
    """The posterior of one order.

    Attributes:
        theta: Probabilities, of what people wrote.
        deviation: Their standard deviations.
        model: The name of the model.
        total: The expected number of n-grams that clipping keeps.
        weights: Of the public sources.
        kept: Probabilities of the text that clipping keeps.
        std_parts: Relative standard deviations of the n-grams that rank first, by their cause.
        coverage: The share of people's n-grams that is listed, and its standard deviation; None
            where it is unknown.
    """

    theta: Floats
    deviation: Floats
    model: str
    total: float
    weights: Weights
    kept: Floats
    std_parts: dict[str, float]
    coverage: tuple[float, float] | None = None


@dataclass(frozen=True, eq=False)
class ModelFit:
    """What one model expects of every count.

    Attributes:
        model: Its name.
        expected: Expected counts.
        std: Standard deviations, given the model.
        penalty: Log-likelihood that it must gain over public text.
        ridges: Of word effects, where it has any.
        effects: The word effects.
        outliers: For a segment: n-grams that are clearly not as all people's.
    """

    model: str
    expected: Floats
    std: Floats
    penalty: float
    ridges: Floats | None = None
    effects: Floats | None = None
    outliers: Bools | None = None

    @property
    def theta(self) -> Floats:
        """The expected counts as a distribution."""
        theta: Floats = self.expected / self.expected.sum()
        return theta

    def base_distribution(self, prior: Floats) -> Floats:
        """Return what stands where the model is not believed: the prior, except for outliers."""
        if self.outliers is None or not self.outliers.any():
            return prior
        base: Floats = np.where(self.outliers, self.theta, prior)
        return base / float(base.sum())

    def mix(self, prior: Floats, share: float) -> Floats:
        """Return expected counts where a share of the model takes the place of public text."""
        base = self.base_distribution(prior)
        return float(self.expected.sum()) * ((1 - share) * base + share * self.theta)


def infer(
    measured: NoisyCounts,
    public: PublicNgrams,
    lifts: Floats | None = None,
    vectors: Floats | None = None,
) -> Inferred:
    """Return the posterior of the n-grams of one order.

    Args:
        measured: Noisy counts.
        public: Public n-grams.
        lifts: What shorter n-grams say of log θ/π.
        vectors: Vectors of the words, where they are known already.
    """
    measured = refine_total(measured, public.prior)
    if measured.total < MIN_TOTAL_Z * measured.total_noise:
        lifted = _apply_lifts(measured, lifts, public)
        return _public_answer(measured, lifted, _equal_weights(public))
    vectors = compute_word_vectors(public) if vectors is None else vectors
    public, weights = _learn_weights(measured, public)
    public = _apply_lifts(measured, lifts, public)
    pool = Pool.from_measurements(measured, public, vectors)
    choice = choose_model(fit_models(measured, pool), measured, pool)
    if choice is None:
        return _public_answer(measured, public, weights)
    fit = choice.fit
    kept = fit.mix(public.prior, choice.share)
    total = float(kept.sum())
    believed = choice.share if fit.outliers is None else np.where(fit.outliers, 1.0, choice.share)
    kept_std = np.maximum(believed * fit.std, hidden_std(kept, measured.noise, choice.trust))
    expected = add_clipped_mass(kept, measured, public, vectors)
    theta = expected / expected.sum()
    written = total / (1 - measured.clipping.lost)
    total_rel_std = min(measured.total_noise / measured.total, 1.0)
    deviation = probability_std(theta, kept_std / total, written, total_rel_std, measured.clipping)
    parts = split_std(
        theta,
        kept_std / total,
        measured.noise / total,
        written,
        total_rel_std,
        measured.clipping,
    )
    return Inferred(theta, deviation, fit.model, total, weights, kept / total, parts)


# --- The total, and the prior ---


def refine_total(measured: NoisyCounts, prior: Floats) -> NoisyCounts:
    """Return the counts with a better total: as measured, and as counts and public text have it."""
    weights = 1 / measured.noise**2
    information = float((weights * prior**2).sum())
    total_by_counts = float((weights * prior * measured.counts).sum()) / information
    # Public text that is wrong finds too little.
    prior_std = VAGUE_REL_STD * max(total_by_counts, measured.total)
    measured_precision = 1 / measured.total_noise**2
    counts_precision = 1 / (1 / information + prior_std**2)
    precision = measured_precision + counts_precision
    total = measured_precision * measured.total + counts_precision * total_by_counts
    return replace(measured, total=total / precision, total_noise=float(1 / np.sqrt(precision)))


def _learn_weights(measured: NoisyCounts, public: PublicNgrams) -> tuple[PublicNgrams, Weights]:
    """Return public text with learnt weights of its sources, as far from equal ones as is likely.

    So few numbers hardly fit noise: all that was measured may judge them.
    """
    learnt = fit_weights(measured, public)
    penalty = MODEL_PENALTY * (len(public.sources) - 1)
    evidence = ngram_evidence(learnt.weights @ public.sources, public.prior, measured)
    score = evidence - penalty * MODEL_SHARES
    share = float(MODEL_SHARES[np.argmax(score)])
    equal = _equal_weights(public)
    if not share:
        return public, equal
    weights = replace(learnt, weights=(1 - share) * equal.weights + share * learnt.weights)
    return public.mixed(weights.weights), weights


def _equal_weights(public: PublicNgrams) -> Weights:
    """Return the weights before anything is learnt: equal, or as they are stated."""
    count = len(public.sources)
    return Weights(public.start, np.full(count, PRIOR_WEIGHT_STD if count > 1 else 0.0))


def _apply_lifts(measured: NoisyCounts, lifts: Floats | None, public: PublicNgrams) -> PublicNgrams:
    """Return public text moved by what shorter n-grams say, as far as is likely."""
    if lifts is None or not lifts.any():
        return public
    prior_score = -0.5 * ((LIFT_SHARES - TYPICAL_LIFT_SHARE) / LIFT_SHARE_STD) ** 2
    likelihoods = [
        log_likelihood(public.moved(share * lifts).prior, measured) for share in LIFT_SHARES
    ]
    share = float(LIFT_SHARES[np.argmax(likelihoods + prior_score)])
    return public.moved(share * lifts)


# --- Models ---


def fit_models(measured: NoisyCounts, pool: Pool) -> list[ModelFit]:
    """Fit every model to the counts, from cautious to bold."""
    fits = [_fit_model(PLAIN_MODEL, measured, pool)]
    if not pool.public.learnt:
        fits.append(_fit_model(UNIFORM_MODEL, measured, pool))
    if pool.public.words.shape[1] > 1:
        ridges, effects = learn_ridges(measured, pool)
        fits.append(_fit_model(POOLED_MODEL, measured, pool, ridges, effects))
    return fits


def _fit_model(
    model: str,
    measured: NoisyCounts,
    pool: Pool,
    ridges: Floats | None = None,
    start: Floats | None = None,
    steps: int = MAX_STEPS,
) -> ModelFit:
    """Fit one model: its means, then shrinkage towards them, then the total."""
    prior = pool.public.prior
    effects = None
    if ridges is not None:
        means, effects = fit_pooled_means(measured, pool, ridges, start, steps)
    elif model == UNIFORM_MODEL:
        means = flat_means(measured, np.full_like(prior, 1 / prior.size))
    else:
        means = flat_means(measured, prior)
    expected, std = shrink_counts(
        measured.counts, measured.noise, means, on_one_core=pool.public.on_one_core
    )
    expected = match_total(expected, measured)
    outliers = _outliers(measured, expected, prior) if pool.public.learnt else None
    penalty = UNIFORM_PENALTY if model == UNIFORM_MODEL else MODEL_PENALTY
    return ModelFit(model, expected, std, penalty, ridges, effects, outliers)


def flat_means(measured: NoisyCounts, prior: Floats) -> Floats:
    """Return n·π, with n from the counts that noise hides.

    A few n-grams that are much more frequent than in public text must not raise all the others.
    """
    means = max(measured.total, 1.0) * prior
    for _ in range(3):
        is_clear = is_above_noise(measured.counts, measured.noise, means)
        total = measured.total - float(measured.counts[is_clear].sum())
        total_std = float(np.hypot(measured.total_noise, np.linalg.norm(measured.noise[is_clear])))
        if not is_clear.all() and total < float(means[~is_clear].sum()):
            means = max(total, total_std) / float(prior[~is_clear].sum()) * prior
    return means


def match_total(expected: Floats, measured: NoisyCounts) -> Floats:
    """Return expected counts whose sum agrees with the measured total.

    Shrinkage estimates every count by itself, and errs in the same direction for most n-grams that
    noise hides. Their sum is known much better, from the total. All n-grams get a common factor, as
    far as noise hides them: one whose expected count is t noise deviations moves by 1/(1 + t²) of
    it.
    """
    movable = expected / (1 + (expected / measured.noise) ** 2)
    movable_sum = float(movable.sum())
    if movable_sum <= 0:
        return expected
    sum_var = (VAGUE_REL_STD * movable_sum) ** 2
    trust = sum_var / (sum_var + measured.total_noise**2)
    excess = trust * (float(expected.sum()) - measured.total)
    factor = max(1 - excess / movable_sum, MIN_TOTAL_FACTOR)
    return expected + (factor - 1) * movable


def _outliers(measured: NoisyCounts, expected: Floats, prior: Floats) -> Bools:
    """Return the n-grams of a segment that noise and chance can't have moved so far from all people's."""
    like_all = float(expected.sum()) * prior
    outliers: Bools = (measured.counts - like_all) ** 2 > OUTLIER_Z**2 * (
        measured.noise**2 + like_all
    )
    return outliers


# --- The choice of a model ---


@dataclass(frozen=True, eq=False)
class ModelChoice:
    """The chosen model.

    Attributes:
        fit: The model, fitted to all data.
        share: How much of it takes the place of public text.
        trust: c of `deviations`.
    """

    fit: ModelFit
    share: float
    trust: float


def choose_model(fits: Sequence[ModelFit], measured: NoisyCounts, pool: Pool) -> ModelChoice | None:
    """Return the model and its share with the largest evidence on judging views; None: public text.

    Args:
        fits: Models, fitted to all data.
        measured: Noisy counts.
        pool: Public n-grams and their features.
    """
    prior = pool.public.prior
    views = [thin(measured, split) for split in range(SPLITS)]
    refits = [
        [_fit_model(fit.model, view, pool, fit.ridges, fit.effects, REFIT_STEPS) for fit in fits]
        for view, _ in views
    ]
    best = None
    best_share = 0.0
    best_score = 0.0
    for number, fit in enumerate(fits):
        evidence = np.mean(
            [
                ngram_evidence(of_split[number].theta, prior, judge)
                + word_evidence(of_split[number].theta, pool.public, judge)
                for of_split, (_, judge) in zip(refits, views, strict=True)
            ],
            axis=0,
        )
        scores = evidence - fit.penalty * MODEL_SHARES
        place = int(np.argmax(scores))
        if scores[place] > best_score:
            best = number
            best_share = float(MODEL_SHARES[place])
            best_score = float(scores[place])
    if best is None:
        if not _has_likely_outliers(refits[0][0], prior, views[0][1]):
            return None
        best = 0
    trusts = [
        fit_trust(of_split[best].mix(prior, best_share), view.noise, judge)
        for of_split, (view, judge) in zip(refits, views, strict=True)
    ]
    return ModelChoice(fits[best], best_share, float(np.median(trusts)))


def _has_likely_outliers(fit: ModelFit, prior: Floats, judge: NoisyCounts) -> bool:
    """Return whether single n-grams of a segment differ from all people's, where the others do not."""
    gain = log_likelihood(fit.base_distribution(prior), judge) - log_likelihood(prior, judge)
    return gain > MODEL_PENALTY


def _public_answer(measured: NoisyCounts, public: PublicNgrams, weights: Weights) -> Inferred:
    """Return public text, as unsure as people may differ from it."""
    total = max(measured.total, 1.0)
    relative_std = estimate_difference(measured, public.prior)
    parts = {"noise": 0.0, "shrinkage": relative_std, "clipping": 0.0}
    std = relative_std * public.prior
    return Inferred(public.prior, std, PUBLIC_MODEL, total, weights, public.prior, parts)


def estimate_difference(measured: NoisyCounts, prior: Floats) -> float:
    """Return by how much, relatively, people may differ from the prior; `PUBLIC_REL_STD` at most.

    The mean of (y − nπ)² − noise² estimates the squared difference without bias. It is taken over
    n-grams with the weights that make its standard error least if all differ alike. Two standard
    errors are added: without a signal, the data only bound the difference.
    """
    if measured.total < MIN_TOTAL_Z * measured.total_noise:
        return PUBLIC_REL_STD
    expected = measured.total * prior
    weights = expected**2 / measured.noise**4
    scale = float((weights * expected**2).sum())
    squared = float((weights * ((measured.counts - expected) ** 2 - measured.noise**2)).sum())
    standard_error = float(np.sqrt(2 * ((weights * measured.noise**2) ** 2).sum()))
    bound = (max(squared, 0.0) + 2 * standard_error) / scale
    return float(min(np.sqrt(bound), PUBLIC_REL_STD))


# --- What cards say ---


def describe_models(inferred: Mapping[str, Inferred]) -> str:
    """Return how the n-grams of each order were inferred."""
    names = {order: posterior_of_order.model for order, posterior_of_order in inferred.items()}
    if len(set(names.values())) == 1:
        return next(iter(names.values()))
    return "; ".join(f"order {order}: {name}" for order, name in names.items())


def describe_sources(names: Sequence[str], inferred: Mapping[str, Inferred]) -> dict[str, Any]:
    """Return the learnt weights of several sources, by order."""
    if len(names) == 1:
        return {}
    return {
        "source_weights": {
            order: {
                name: {"weight": round(float(weight), 4), "deviation": round(float(deviation), 4)}
                for name, weight, deviation in zip(
                    names,
                    posterior_of_order.weights.weights,
                    posterior_of_order.weights.deviations,
                    strict=True,
                )
            }
            for order, posterior_of_order in inferred.items()
        }
    }
