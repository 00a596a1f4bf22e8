"""What is estimated of the quality of a release, from noisy counts alone."""

from dataclasses import replace

import numpy as np
import pytest

from bayesgram.inference.noisy_counts import Clipping, NoisyCounts
from bayesgram.inference.quality import estimate_coverage, estimate_error_removed
from bayesgram.releases.quality import Coverage


def noisy_totals(listed, unlisted, noise_std):
    return NoisyCounts(
        np.array([listed]),
        np.array([noise_std]),
        listed,
        noise_std,
        unlisted=unlisted,
        unlisted_noise=noise_std,
        clipping=Clipping(0.0, 0.0, 0.0),
    )


def test_coverage_is_the_listed_share_with_its_noise():
    rng = np.random.default_rng(1)
    share, std = estimate_coverage(noisy_totals(3000.0, 1000.0, 50.0))
    listed = 3000 + 50 * rng.standard_normal(10_000)
    unlisted = 1000 + 50 * rng.standard_normal(10_000)
    assert share == 0.75
    assert std == pytest.approx(np.std(listed / (listed + unlisted)), rel=0.05)


def test_coverage_of_counts_that_were_made_elsewhere_is_unknown():
    assert estimate_coverage(noisy_totals(3000.0, None, 50.0)) is None


@pytest.mark.parametrize(
    ("listed", "unlisted"), [(-10.0, -30.0), (0.0, 0.0), (-10.0, 40.0), (40.0, -10.0), (50.0, 50.0)]
)
def test_noise_that_is_as_large_as_the_counts_hides_the_coverage(listed, unlisted):
    assert Coverage(*estimate_coverage(noisy_totals(listed, unlisted, 50.0))).is_hidden


@pytest.mark.parametrize("share", [0.2, 0.5, 0.83, 1.0])
@pytest.mark.parametrize("size", [500.0, 2000.0, 20_000.0, 200_000.0])
def test_stated_intervals_of_the_coverage_hold_at_any_noise(share, size):
    rng = np.random.default_rng(3)
    noise_std, unlisted_noise = 300.0, 2700.0  # as for a vocabulary of a few thousand n-grams
    wrong_count = 0
    for _ in range(1000):
        noisy = replace(
            noisy_totals(
                share * size + noise_std * rng.standard_normal(),
                (1 - share) * size + unlisted_noise * rng.standard_normal(),
                noise_std,
            ),
            unlisted_noise=unlisted_noise,
        )
        coverage = Coverage(*estimate_coverage(noisy))
        is_wrong = abs(coverage.share - share) > coverage.half_width + 1e-9
        wrong_count += is_wrong and not coverage.is_hidden
    assert wrong_count <= 80  # 5% are expected, with a margin for chance


def test_everything_is_listed_up_to_the_noise():
    share, std = estimate_coverage(noisy_totals(5000.0, -10.0, 50.0))
    assert share == 1.0
    assert std == pytest.approx(0.01, rel=0.05)


def test_error_removed_is_between_nothing_and_everything():
    prior = np.array([0.5, 0.5])
    theta = np.array([0.8, 0.2])
    assert estimate_error_removed(prior, 0.1 * prior, prior) == 0.0
    assert estimate_error_removed(theta, 0 * theta, prior) == pytest.approx(1.0, abs=1e-6)
    errors = [estimate_error_removed(theta, rel * theta, prior) for rel in (0.1, 0.3, 1.0)]
    assert errors == sorted(errors, reverse=True)
