"""Where the paper is wrong: a counter-example or the repaired behaviour for each erratum of docs/errata.md."""

import math
from itertools import pairwise

import numpy as np
import pytest
from scipy.special import log_ndtr, ndtr

from bayesgram.choices import ScoreSensitivity
from bayesgram.errors import BayesgramError
from bayesgram.mechanisms.base import Randomness
from bayesgram.mechanisms.laplace import Laplace
from bayesgram.paper.algorithm_1 import Paper, classical_sigma, paper_bounds, posterior_mean
from bayesgram.paper.algorithm_2 import (
    RELEASE_SHARE,
    TUNING_SHARE,
    Grid,
    TunedPaper,
    cross_entropy,
    largest_user_score,
    score_lipschitz,
    scoring_users,
)
from bayesgram.paper.sensitivity import Statistics
from bayesgram.privacy.budget import Budget
from bayesgram.privacy.calibration import calibrate_gaussian
from bayesgram.private.clipping import clip
from bayesgram.public.vocabulary import centred_log, softmax
from helpers import reference_paper
from helpers.recording_noise import record_queries


def gaussian_delta(epsilon, multiplier):
    """δ of Gaussian noise with σ = multiplier × sensitivity (Balle and Wang 2018)."""
    half, tail = 1 / (2 * multiplier), epsilon * multiplier
    return float(ndtr(half - tail) - math.exp(epsilon + log_ndtr(-half - tail)))


def test_e1_one_user_or_none_decides_whether_there_is_noise_at_all():
    vocabulary, budget = reference_paper.make_vocabulary([5, 3, 1]), Budget(0.1, 1e-6)
    nobody = reference_paper.make_user_counts(np.zeros((0, 3), np.int64))
    somebody = reference_paper.make_user_counts(np.array([[1, 0, 0]]))
    with pytest.raises(
        BayesgramError, match=r"scale=0\.0: noise of a finite scale above 0 is needed"
    ):
        Paper().release(
            nobody, vocabulary, budget
        )  # γ = 0: no noise, so it is refused, which tells that nobody is there
    noisy = [
        Paper(slope=1.0).release(somebody, vocabulary, budget).probabilities.tolist()
        for _ in range(2)
    ]
    assert noisy[0] != noisy[1]


def test_e1_the_noise_scale_differs_between_neighbours_and_can_be_read_off_one_output():
    """The spread of h over V = 10,000 n-grams tells σ to 1/√(2V); 5 standard errors: wrong once in 10⁶ runs."""
    size = 10_000
    matrix = np.zeros((200, size), np.int64)
    matrix[:, 0] = 1
    matrix[0, 1:300] = 1  # one user with 299 n-grams of their own
    vocabulary, budget = reference_paper.make_vocabulary(np.ones(size)), Budget(0.5, 1e-6)
    paper = Paper(max_total=1000, slope=1.0, rho=0.02)
    scales = []
    for rows in (matrix, matrix[1:]):
        statistics = Statistics(reference_paper.make_clipped_counts(rows, max_count=1))
        sigma = classical_sigma(statistics.exact_gamma(1.0), rho=0.02, budget=budget)
        theta = paper.release(
            reference_paper.make_user_counts(rows), vocabulary, budget
        ).probabilities
        h = np.log(theta) - posterior_mean(
            statistics, centred_log(vocabulary.counts), slope=1.0, rho=0.02
        )
        assert abs(h.std() / sigma - 1) < 5 / math.sqrt(2 * size)
        scales.append(sigma)
    assert (
        scales[0] / scales[1] > 10
    )  # an attacker who sees the noise level knows that the user was there


def test_e2_the_mean_uses_the_weights():
    matrix = np.array([[1, 0, 0], [1, 1, 0], [1, 0, 0]])
    statistics = Statistics(reference_paper.make_clipped_counts(matrix))
    prior = np.zeros(3)
    found = posterior_mean(statistics, prior, slope=0.1, rho=1.0)
    assert found == pytest.approx(reference_paper.weighted_centred_log(matrix, 0.1, 1))
    assert found != pytest.approx(statistics.x_hat)  # what Algorithm 1 prints


def test_e3_the_scale_is_sensitivity_over_epsilon():
    """Lap(ε/Δ), read as a scale, would be 0.01 here: next to no noise. ε-DP needs Δ/ε = 100."""
    counts, vocabulary = (
        reference_paper.make_user_counts(np.eye(3, dtype=int)),
        reference_paper.make_vocabulary([1, 2, 3]),
    )
    [(_, _, scale)], _, _ = record_queries(Laplace(10), counts, vocabulary, Budget(0.1))
    assert scale == pytest.approx(100)


def test_e4_the_classical_sigma_is_wrong_for_large_epsilon_and_wasteful_for_small():
    def classical(epsilon):
        return math.sqrt(2 * math.log(1.25 / 1e-6)) / epsilon

    assert classical(0.1) == pytest.approx(52.99, abs=0.005)
    exact = calibrate_gaussian(Budget(0.1, 1e-6), coordinates=50_000, units=1 << 30).multiplier
    assert exact == pytest.approx(36.305, abs=0.01)
    assert classical(0.1) / exact == pytest.approx(1.46, abs=0.005)
    assert gaussian_delta(8.7, classical(8.7)) < 1e-6 < gaussian_delta(8.9, classical(8.9))


def test_e5_a_word_that_nobody_has_adds_nothing_to_the_bound():
    matrix = np.array([[1, 0], [1, 0]])
    bound = Statistics(reference_paper.make_clipped_counts(matrix)).bounded_gamma(1.0)
    assert math.isfinite(bound)
    assert bound >= max(reference_paper.removal_shift(matrix, user, 1.0, 1) for user in range(2))


def test_e6_the_indicator_misses_weights_that_move():
    matrix = np.zeros((1001, 2), np.int64)
    matrix[:1000, 0] = 1
    matrix[1000, 1] = 1
    true = reference_paper.removal_shift(matrix, 1000, 2.0, 1)
    statistics = Statistics(reference_paper.make_clipped_counts(matrix))
    assert true == pytest.approx(3.13, abs=0.005)
    assert statistics.exact_gamma(2.0) == pytest.approx(true)
    assert reference_paper.published_bound(matrix, 2.0, 1) == pytest.approx(
        0.71, abs=0.005
    )  # below the truth
    assert statistics.bounded_gamma(2.0) == pytest.approx(3.64, abs=0.005)


def test_e7_the_printed_brute_force_can_be_too_small():
    matrix = np.array([[0, 0, 1, 0, 0], [1, 0, 0, 0, 0]])  # after clamping (2, 0, 0, 0, 0) to C = 1
    true = max(reference_paper.removal_shift(matrix, user, 4.17, 1) for user in range(2))
    assert true == pytest.approx(0.438, abs=0.0005)
    assert reference_paper.printed_brute_force(matrix, 4.17, 1) == pytest.approx(0.141, abs=0.0005)
    assert Statistics(reference_paper.make_clipped_counts(matrix, max_count=1)).exact_gamma(
        4.17
    ) == pytest.approx(true)


def test_e8_the_published_lipschitz_constant_is_too_small():
    c, step = np.array([10, 0]), np.array([-1e-3, 1e-3])
    towards = np.array([-20.0, 20.0])  # θ → (0, 1)
    slope = abs(cross_entropy(c, towards + step) - cross_entropy(c, towards)) / np.linalg.norm(step)
    assert slope == pytest.approx(14.1, abs=0.05)
    assert score_lipschitz(c, ScoreSensitivity.PUBLISHED) == 10 < slope
    assert score_lipschitz(c, ScoreSensitivity.CORRECTED) == pytest.approx(math.sqrt(200))
    everywhere = np.array([3, 4])  # the smallest count matters too: √(25 + 49 − 42)
    assert score_lipschitz(everywhere, ScoreSensitivity.CORRECTED) == pytest.approx(math.sqrt(32))


def test_e9_tuning_and_release_add_up_to_the_whole_by_plain_composition():
    assert RELEASE_SHARE + TUNING_SHARE == 1
    counts, vocabulary = (
        reference_paper.make_user_counts(np.eye(400, dtype=int)),
        reference_paper.make_vocabulary(range(400)),
    )
    card = TunedPaper(grid=Grid((0.1,), (0.5,))).release(counts, vocabulary, Budget(0.3, 1e-6)).card
    assert (card.details["epsilon_release"], card.details["epsilon_tuning"]) == (0.2, 0.1)
    assert card.epsilon == 0.3


def test_e10_the_bounds_follow_a_public_figure_and_not_the_data():
    assert paper_bounds(1_000_000) == (10, 1000)
    assert (Paper().max_count, Paper().max_total) == (1, 1000)  # constants, whatever the population


def test_e11_the_prior_has_plus_one():
    assert centred_log(np.array([0, 0, 7])).tolist() == pytest.approx(
        reference_paper.centred_log([0, 0, 7]).tolist()
    )
    assert np.isfinite(centred_log(np.array([0, 5]))).all()


def test_e12_the_conjugate_weight_of_the_data_is_the_other_way_round():
    """Posterior mean of N(m, σ_p²) and one observation x with variance σ_l², by completing the square on a grid."""
    m, x, prior_variance, noise_variance = 0.0, 1.0, 4.0, 1.0
    grid = np.linspace(-20, 20, 200_001)
    density = np.exp(
        -((grid - m) ** 2) / (2 * prior_variance) - (grid - x) ** 2 / (2 * noise_variance)
    )
    posterior = float((grid * density).sum() / density.sum())
    assert posterior == pytest.approx(prior_variance / (prior_variance + noise_variance))  # 0.8
    assert posterior != pytest.approx(
        noise_variance / (prior_variance + noise_variance)
    )  # the paper's 0.2


def test_e13_no_attack_on_equal_gaussians_wins_more_than_its_ceiling():
    """The best attack compares two draws along the line between the means: Φ(d/√2), 0.75 at ε = 5, δ = 1e-6."""
    d = 5 / math.sqrt(2 * math.log(1.25 / 1e-6))
    ceiling = float(ndtr(d / math.sqrt(2)))
    assert ceiling == pytest.approx(0.75, abs=0.005)
    rng = np.random.default_rng(0)
    wins = (rng.normal(d, 1, 400_000) > rng.normal(0, 1, 400_000)).mean()
    assert wins == pytest.approx(ceiling, abs=5 * 0.5 / math.sqrt(400_000))


def test_e14_without_absolute_values_the_second_term_never_binds():
    matrix = np.array([[1, 0, 2], [0, 3, 0]])
    mu = np.array([0.3, -1.0, 0.2])
    log_theta = np.log(softmax(mu))
    assert max(float((row * log_theta).sum()) for row in matrix) <= 0  # as printed
    clipped = reference_paper.make_clipped_counts(matrix)
    assert largest_user_score(clipped, mu, ScoreSensitivity.PUBLISHED) == 0
    assert largest_user_score(clipped, mu, ScoreSensitivity.CORRECTED) == pytest.approx(
        max(float(-(row * log_theta).sum()) for row in matrix)
    )


def test_e15_one_noise_scale_for_the_whole_grid():
    """With a |Δq| of its own for each setting, setting 1 (γ large) would get more noise than setting 2."""
    matrix = (np.random.default_rng(1).random((80, 6)) < 0.4).astype(np.int64)
    counts, vocabulary = (
        reference_paper.make_user_counts(matrix),
        reference_paper.make_vocabulary(range(6)),
    )
    scales = {}
    for slopes in ((1.0,), (0.001,), (1.0, 0.001)):
        [(_, _, scale), _], _, _ = record_queries(
            TunedPaper(grid=Grid(slopes, (0.5,))), counts, vocabulary, Budget(1, 1e-6)
        )
        scales[slopes] = scale
    assert scales[1.0,] > scales[0.001,]
    assert scales[1.0, 0.001] == scales[1.0,]  # the largest, for both


def test_e16_words_that_the_user_does_not_have_keep_their_weight():
    """With S·N/C < 1 everywhere, the printed second term moves all n-grams; deleting the user moves only theirs."""
    matrix = np.array([[1, 0, 0], [0, 1, 0], [0, 1, 1]])
    statistics = Statistics(reference_paper.make_clipped_counts(matrix))
    true = [reference_paper.removal_shift(matrix, user, 0.1, 1) for user in range(3)]
    assert statistics.user_shifts(0.1) == pytest.approx(true)
    w, x_hat = statistics.weights(0.1), statistics.x_hat
    less = reference_paper.centred_log(matrix[1:].sum(axis=0))
    everywhere = np.linalg.norm(w * (x_hat - less) + 0.1 * less)
    assert everywhere != pytest.approx(true[0])


def test_e17_the_split_and_the_subsampling_do_not_move_when_somebody_leaves():
    rng = np.random.default_rng(4)
    matrix = rng.integers(0, 4, (60, 12))
    matrix[:, 0] += 1
    names = [f"user {i}" for i in range(60)]
    counts = reference_paper.make_user_counts(matrix, names)
    fewer = reference_paper.make_user_counts(matrix[1:], names[1:])
    assert scoring_users(counts, key=9)[1:].tolist() == scoring_users(fewer, key=9).tolist()
    whole, rest = (clip(c, max_count=2, max_total=5, key=9) for c in (counts, fewer))
    first = whole.starts[1]
    assert whole.ngrams[first:].tolist() == rest.ngrams.tolist()
    assert whole.counts[first:].tolist() == rest.counts.tolist()


def test_the_grid_of_algorithm_2_spans_the_paper_s_range():
    from bayesgram.paper.algorithm_2 import SLOPES

    assert (SLOPES[0], SLOPES[-1]) == pytest.approx((1e-3, 1e4))
    assert all(b / a == pytest.approx(10) for a, b in pairwise(SLOPES))
    assert Randomness.from_seed(1).noise.seeded
