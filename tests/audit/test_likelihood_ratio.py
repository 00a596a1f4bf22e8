"""The optimal attacker: against laws with a known answer, against what is proved and against what is broken.

Chance: seeds are fixed; where a bound is statistical its error is 1e-6.
"""

import math

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.optimize import brentq
from scipy.stats import chi2, dlaplace, norm

from bayesgram.audit.findings import AuditTarget
from bayesgram.audit.likelihood_ratio import (
    QueryPair,
    RecordingNoise,
    assess_pairs,
    delta_lower_bound,
    epsilon_lower_bound,
    exact_gaussian_gain,
    likelihood_ratio_attack,
    record_transcript,
    replay_transcript,
    sample_losses,
    sampled_gain,
)
from bayesgram.choices import Attack
from bayesgram.errors import BayesgramError, UsageError
from bayesgram.mechanisms.base import Randomness
from bayesgram.mechanisms.gaussian import Gaussian
from bayesgram.mechanisms.laplace import Laplace, LaplacePublic
from bayesgram.mechanisms.posterior import Posterior
from bayesgram.paper.algorithm_1 import Paper
from bayesgram.paper.algorithm_2 import TunedPaper
from bayesgram.paper.k_anonymity import KAnonymity
from bayesgram.privacy.budget import Budget
from bayesgram.privacy.noise import SeededNoise
from helpers import attack_targets, reference_paper
from helpers.recording_noise import CLIPPING_PLANS, fixed_clipping_plan

BOTH = (Attack.LIKELIHOOD_RATIO, Attack.SCALE)
ERROR = 1e-6


def contrast(distance, scale, other_scale, coordinates, law="gaussian", *, whole=False):
    moved = np.zeros(coordinates)
    moved[0] = distance
    return QueryPair(law, whole, moved, coordinates, scale, other_scale)


def gaussian_delta(epsilon, mu):
    return float(
        norm.cdf(mu / 2 - epsilon / mu) - math.exp(epsilon) * norm.cdf(-mu / 2 - epsilon / mu)
    )


def two_scale_delta(epsilon, distance, scale, other_scale, coordinates):
    """P(L > ε) − e^ε P′(L > ε): an integral over the difference, χ² for the rest. Shares nothing with the package."""
    quadratic = 1 / other_scale**2 - 1 / scale**2  # of ‖x‖² in 2L, x measured from the first mean

    def above(z, own_scale, shift):
        """P(L > ε) given the coordinate along the difference, x₁ = shift + own_scale·z."""
        x = shift + own_scale * z
        rest = coordinates * math.log(other_scale / scale) - x**2 / (2 * scale**2)
        rest += (x + distance) ** 2 / (2 * other_scale**2)
        bound = 2 * (epsilon - rest) / quadratic / own_scale**2
        law = chi2(coordinates - 1)
        return law.sf(bound) if quadratic > 0 else law.cdf(bound)

    def probability(own_scale, shift):
        return quad(lambda z: norm.pdf(z) * above(z, own_scale, shift), -9, 9, limit=500)[0]

    return probability(scale, 0.0) - math.exp(epsilon) * probability(other_scale, -distance)


def found(mechanism, budget=attack_targets.CLAIM, matrix=None, **settings):
    settings = {"error": ERROR, "samples": 100_000, "rounds": 2, **settings}
    return likelihood_ratio_attack(
        attack_targets.make_target(mechanism, matrix, budget),
        BOTH,
        np.random.default_rng(1),
        **settings,
    )


@pytest.mark.parametrize(("mu", "delta"), [(1.0, 1e-2), (0.3, 1e-3), (3.0, 1e-2)])
def test_gaussian_noise_of_known_strength_is_bracketed(mu, delta):
    truth = brentq(lambda epsilon: gaussian_delta(epsilon, mu) - delta, 0, 60)
    pair = [contrast(mu, 1.0, 1.0, 40)]
    exact = exact_gaussian_gain([pair], Budget(1.0, delta))
    assert exact.epsilon == pytest.approx(truth, rel=1e-7)
    assert exact.epsilon <= truth
    assert exact.delta == pytest.approx(gaussian_delta(1.0, mu), rel=1e-6)
    sampled = sampled_gain([pair], Budget(1.0, delta), np.random.default_rng(5), 1_000_000, ERROR)
    assert sampled.epsilon <= truth <= sampled.epsilon * 1.1
    assert sampled.delta <= gaussian_delta(1.0, mu)


@pytest.mark.parametrize(
    ("distance", "scale", "other"), [(0.5, 1.0, 1.02), (0.5, 1.02, 1.0), (0.0, 1.0, 1.05)]
)
@pytest.mark.parametrize("coordinates", [2, 300])
def test_unequal_scales_agree_with_an_integral(distance, scale, other, coordinates):
    """Within 5 standard errors of 400,000 samples."""
    pair = [contrast(distance, scale, other, coordinates)]
    for side, arguments in ((pair, (scale, other)), ([pair[0].swap()], (other, scale))):
        truth = two_scale_delta(0.1, distance, *arguments, coordinates)
        loss = sample_losses([side], 400_000, np.random.default_rng(7))
        gain = np.maximum(-np.expm1(0.1 - loss), 0)
        assert abs(gain.mean() - truth) < 5 * gain.std() / math.sqrt(gain.size) + 1e-9
        assert delta_lower_bound(loss, 0.1, error=ERROR) <= truth


@pytest.mark.parametrize("scales", [(3.0, 3.0), (3.0, 4.0), (4.0, 3.0)])
@pytest.mark.parametrize("whole", [True, False])
def test_laplace_losses_are_those_of_whole_vectors(scales, whole):
    """Against vectors drawn and weighed coordinate by coordinate; means within 5 standard errors."""
    moved = np.array([2.0, 0, 0, -1.0, 0, 0, 0, 0])
    short = sample_losses(
        [[QueryPair("laplace", whole, moved, 8, *scales)]], 200_000, np.random.default_rng(3)
    )
    noise = SeededNoise(4)
    draw = noise.discrete_laplace if whole else noise.laplace
    vectors = np.stack(
        [draw(np.zeros(8, np.int64 if whole else float), scale=scales[0]) for _ in range(20_000)]
    )
    if whole:
        weighed = dlaplace.logpmf(vectors, 1 / scales[0]) - dlaplace.logpmf(
            vectors + moved.astype(int), 1 / scales[1]
        )
    else:
        weighed = (
            np.log(scales[1] / scales[0])
            - np.abs(vectors) / scales[0]
            + np.abs(vectors + moved) / scales[1]
        )
    long = weighed.sum(axis=1)
    for of in (
        np.mean,
        lambda x: np.exp(-x).mean(),
        lambda x: np.maximum(-np.expm1(0.3 - x), 0).mean(),
    ):
        assert of(short) == pytest.approx(of(long), abs=5 * long.std() / math.sqrt(long.size))
    assert np.exp(-short).mean() == pytest.approx(
        1, abs=5 * np.exp(-short).std() / math.sqrt(short.size)
    )


def test_pure_epsilon_is_found_exactly():
    pair = [contrast(7.0, 70.0, 70.0, 5, "laplace", whole=True)]
    finding = assess_pairs(
        [pair], BOTH[0], "", Budget(0.1), np.random.default_rng(1), 10_000, ERROR
    )
    assert not finding.refutes_claim
    assert finding.epsilon == pytest.approx(0.1, rel=1e-8)
    finding = assess_pairs(
        [pair], BOTH[0], "", Budget(0.099), np.random.default_rng(1), 200_000, ERROR
    )
    assert finding.refutes_claim
    assert 0 < finding.delta < 1e-3


def test_no_noise_on_one_side_is_seen_at_once():
    for scales in ((0.0, 1.0), (1.0, 0.0)):
        for name in BOTH:
            finding = assess_pairs(
                [[contrast(0.0, *scales, 5)]],
                name,
                "",
                attack_targets.CLAIM,
                np.random.default_rng(1),
                10**5,
                ERROR,
            )
            assert finding.refutes_claim
            assert finding.delta > 0.999
    silent = assess_pairs(
        [[contrast(0.0, 0.0, 0.0, 5)]],
        BOTH[0],
        "",
        attack_targets.CLAIM,
        np.random.default_rng(1),
        10**4,
        ERROR,
    )
    told = assess_pairs(
        [[contrast(1.0, 0.0, 0.0, 5)]],
        BOTH[0],
        "",
        attack_targets.CLAIM,
        np.random.default_rng(1),
        10**5,
        ERROR,
    )
    assert (silent.refutes_claim, told.refutes_claim) == (False, True)


def test_the_paper_is_caught_on_a_zipf_population_also_by_its_noise_alone():
    """Erratum E1."""
    findings = found(Paper(max_total=600, slope=1e-3))
    largest = [
        item for item in findings if item.neighbour == "without the user with the largest shift"
    ]
    assert [item.attack for item in largest] == list(BOTH)
    assert all(item.refutes_claim and item.delta > 0.1 and item.epsilon > 1 for item in largest)


def test_the_paper_is_caught_with_one_user_and_then_none():
    matrix = np.zeros((1, 50), np.int64)
    matrix[0, 3] = 2
    findings = found(Paper(slope=1.0), matrix=matrix)
    removed = [item for item in findings if item.neighbour.startswith("without")]
    assert [item.attack for item in removed] == list(
        BOTH
    )  # one user is the largest, the longest and the rarest
    assert all(item.delta > 0.999 for item in removed)


PROVED = [
    (Posterior(), attack_targets.CLAIM),
    (Posterior(2.0), attack_targets.CLAIM),
    (Gaussian(2.0), attack_targets.CLAIM),
    (Gaussian(2.0), Budget(8.0, 1e-5)),
    (Laplace(10), Budget(0.1)),
    (Laplace(1), Budget(3.0)),
    (LaplacePublic(10), Budget(0.1)),
]


@pytest.mark.parametrize(
    ("mechanism", "budget"), PROVED, ids=lambda value: getattr(value, "name", str(value))
)
def test_what_is_proved_survives_and_is_no_better_than_it_says(mechanism, budget):
    findings = found(mechanism, budget)
    assert not any(item.refutes_claim for item in findings)
    assert all(item.delta <= mechanism.check_budget(budget)[1] for item in findings)
    tight = (
        0.66 if isinstance(mechanism, LaplacePublic) else 0.97
    )  # the public part of its bound is not reached
    assert max(item.epsilon for item in findings) > tight * budget.epsilon


@pytest.mark.parametrize("choice", CLIPPING_PLANS.values(), ids=CLIPPING_PLANS)
@pytest.mark.parametrize("budget", [attack_targets.CLAIM, Budget(8.0, 1e-5)], ids=str)
def test_what_is_proved_survives_whatever_it_asks_next_and_is_no_better_than_it_says(
    choice, budget
):
    """All questions together: amounts, what clipping takes away, counts."""
    with fixed_clipping_plan(choice):
        findings = found(Posterior(), budget)
    assert not any(item.refutes_claim for item in findings)
    assert max(item.epsilon for item in findings) > 0.97 * budget.epsilon


@pytest.mark.parametrize("question", [0, 1, 2])
def test_too_little_noise_is_caught_whichever_question_gets_it(question):
    class Quiet(attack_targets.UndernoisedPosterior):
        pass

    Quiet.question = question
    with fixed_clipping_plan(CLIPPING_PLANS["lost words and counts"]):
        findings = found(Quiet())
    assert any(item.refutes_claim for item in findings)
    assert max(item.epsilon for item in findings) > 1.5 * attack_targets.CLAIM.epsilon


def test_too_little_noise_is_caught():
    assert any(item.refutes_claim for item in found(attack_targets.UndernoisedGaussian(2.0)))


def test_forgotten_clipping_is_caught():
    findings = found(attack_targets.UnclippedGaussian(2.0))
    assert max(item.delta for item in findings if item.neighbour.startswith("without")) > 0.3
    assert max(item.delta for item in findings if item.neighbour.startswith("with a user")) > 0.99


def test_noise_from_elsewhere_is_caught():
    findings = found(attack_targets.FixedNoiseGaussian(2.0))
    assert [item.refutes_claim for item in findings] == [True, True]
    assert findings[0].sentence == "it asks the source of privacy noise for none"


def test_too_little_laplace_noise_is_caught():
    class Quiet(Laplace):
        def sample(self, totals, vocabulary, budget, noise):
            return super().sample(
                totals, vocabulary, budget, attack_targets.ScaledNoise(noise, 0.99)
            )

    best = max(found(Quiet(10), Budget(0.1)), key=lambda item: item.epsilon)
    assert best.refutes_claim
    assert best.epsilon == pytest.approx(0.1 / 0.99)


@pytest.mark.parametrize("name", CLIPPING_PLANS)
def test_a_mechanism_that_asks_in_the_light_of_answers_is_asked_the_same_on_both_sides(name):
    attacked_posterior = attack_targets.make_target(
        Posterior(), attack_targets.zipf_counts(users=300, size=50)
    )
    counts = attacked_posterior.counts
    with fixed_clipping_plan(CLIPPING_PLANS[name]):
        told = record_transcript(attacked_posterior, counts, SeededNoise(1), 5)
        again = replay_transcript(attacked_posterior, counts, told, 5)
    assert [question.law for question in told] == ["gaussian"] * (2 + ("lost" in name))
    for one, other in zip(told, again, strict=True):
        assert (one.values == other.values).all()
        assert (one.answer == other.answer).all()
        assert (one.noise == one.answer - one.values).all()


def test_other_kinds_of_noise_for_a_neighbour_are_reported():
    noise = RecordingNoise(SeededNoise(1))
    noise.discrete_laplace(np.zeros(3, np.int64), scale=1.0)
    retold = RecordingNoise(None, noise.recorded)
    with pytest.raises(
        BayesgramError, match=r"asks for different kinds of noise.*Use the attack black-box\.$"
    ):
        retold.discrete_gaussian(np.zeros(3, np.int64), scale=1.0)

    class Moody(Gaussian):
        def estimate(self, counts, vocabulary, budget, randomness):
            if len(counts.users) % 2:
                randomness.noise.laplace(np.zeros(2), scale=1.0)
            return super().estimate(counts, vocabulary, budget, randomness)

    with pytest.raises(BayesgramError, match="different kinds of noise"):
        found(Moody(2.0), matrix=attack_targets.zipf_counts(users=20, size=10))


def test_measuring_is_the_part_of_a_release_that_asks_for_noise():
    posterior = attack_targets.make_target(
        Posterior(), attack_targets.zipf_counts(users=300, size=50)
    )
    both = []
    for method in (posterior.mechanism.measure, posterior.mechanism.estimate):
        noting = RecordingNoise(SeededNoise(2))
        method(posterior.counts, posterior.vocabulary, posterior.budget, Randomness(noting, 9))
        both.append(noting.recorded)
    assert len(both[0]) == len(both[1]) == 2
    assert all((one.answer == other.answer).all() for one, other in zip(*both, strict=True))


def test_bounds_use_the_half_that_did_not_choose():
    loss = np.concatenate(
        [np.full(500, 2.0), np.zeros(500)]
    )  # the first half promises what the second does not hold
    assert epsilon_lower_bound(loss, 1e-6, error=0.01) == 0
    assert delta_lower_bound(loss, 0.1, error=0.01) == 0


def test_what_can_not_be_attacked():
    counts, vocabulary = (
        reference_paper.make_user_counts(np.eye(3, dtype=np.int64)),
        reference_paper.make_vocabulary([3, 2, 1]),
    )
    with pytest.raises(
        UsageError,
        match=r"^mechanism=paper-tuned: .*; audit paper with the S and ρ that were chosen\.$",
    ):
        AuditTarget(TunedPaper(), counts, vocabulary, attack_targets.CLAIM)
    with pytest.raises(UsageError, match=r"^mechanism=k-anonymity: claims no ε"):
        _ = AuditTarget(KAnonymity(), counts, vocabulary, None).claim
    with pytest.raises(UsageError, match=r"^`epsilon` is missing"):
        AuditTarget(Gaussian(), counts, vocabulary, None)
