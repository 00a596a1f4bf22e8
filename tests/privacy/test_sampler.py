"""The real sampler: how wide its noise is, that no two coordinates share any, and that none is left out.

Statistics allow 5 standard errors, 6 where there are many, or p = 10⁻⁶: each test is wrong about once in 10⁶ runs.
"""

import math

import numpy as np
import pytest
from scipy.stats import binom, chisquare, kstest

from bayesgram.privacy import noise as module
from bayesgram.privacy.noise import BLOCK, ExactNoise

pytestmark = pytest.mark.slow

WIDE = 4.75 * 2**30  # the scale of a release at ε = 1
SAMPLES = 400_000
LIMIT = 1e-6
LAWS = ["discrete_gaussian", "discrete_laplace"]


def drawn(law, size, scale, start=0):
    values = np.arange(size) * 1_000_003 + start
    return getattr(ExactNoise(), law)(values, scale=scale) - values


@pytest.fixture(scope="module")
def gaussian():
    return drawn("discrete_gaussian", SAMPLES, WIDE) / WIDE


@pytest.fixture(scope="module")
def laplace():
    return drawn("discrete_laplace", SAMPLES, WIDE) / WIDE


def test_the_spread_of_gaussian_noise(gaussian):
    """Its standard deviation to 0.6%, so 2% too little is seen; also block by block."""
    assert abs(gaussian.std() - 1) < 5 / math.sqrt(2 * SAMPLES)
    assert abs(gaussian.mean()) < 5 / math.sqrt(SAMPLES)
    for block in np.array_split(gaussian, 16):
        assert abs(block.std() - 1) < 6 / math.sqrt(2 * block.size)


def test_the_spread_of_laplace_noise(laplace):
    """The mean of |noise| is the scale, and so is its standard deviation."""
    assert abs(np.abs(laplace).mean() - 1) < 5 / math.sqrt(SAMPLES)
    for block in np.array_split(laplace, 16):
        assert abs(np.abs(block).mean() - 1) < 6 / math.sqrt(block.size)


def test_the_law_of_wide_noise(gaussian, laplace):
    for sample, law in ((gaussian, "norm"), (laplace, "laplace")):
        assert kstest(sample, law).pvalue > LIMIT
        for block in np.array_split(sample, 8):
            assert kstest(block, law).pvalue > LIMIT / 8


@pytest.mark.parametrize("law", LAWS)
@pytest.mark.parametrize("scale", [1.3, 4.0])
def test_the_law_of_narrow_noise(law, scale):
    """Every integer as often as the formula says; with fewer than 50 expected in a cell, p would be too small too often."""
    size, reach = 100_000, 80
    k = np.arange(-reach, reach + 1)
    weights = (
        np.exp(-(k**2) / (2 * scale**2))
        if law == "discrete_gaussian"
        else np.exp(-np.abs(k) / scale)
    )
    expected = size * weights / weights.sum()
    seen = np.bincount(np.clip(drawn(law, size, scale), -reach, reach) + reach, minlength=k.size)
    common = expected > 50
    seen = np.append(seen[common], seen[~common].sum())
    expected = np.append(expected[common], expected[~common].sum())
    assert chisquare(seen, expected * size / expected.sum()).pvalue > LIMIT


# Eight laws with eight exact binomial tests each, at 1.5·10⁻⁸: a sampler that is right fails with probability 9.6·10⁻⁷
# at most, all of them together. OpenDP before 0.14.2 is 16 standard errors off in the first of them.
SMALL = [("discrete_laplace", 1.5, 200_000)]
SMALL += [("discrete_laplace", scale, 40_000) for scale in (2.5, 3.0, 4.0)]
SMALL += [("discrete_gaussian", scale, 40_000) for scale in (1.5, 2.0, 2.5, 4.0)]
SMALL_LIMIT = 1e-6 / (8 * len(SMALL)) * 0.96


def probabilities(law, scale):
    """P(−3), …, P(3), and that of everything beyond; sums to 100 scales, of which e^(−100) is left out."""
    k = np.arange(-int(100 * scale), int(100 * scale) + 1)
    weights = (
        np.exp(-(k**2) / (2 * scale**2))
        if law == "discrete_gaussian"
        else np.exp(-np.abs(k) / scale)
    )
    middle = (weights / weights.sum())[np.abs(k) <= 3]
    return np.append(middle, 1 - middle.sum())


def two_sided(seen, size, probability):
    """The p-value of so many out of `size`, by the exact binomial law."""
    return 2 * np.minimum(binom.cdf(seen, size, probability), binom.sf(seen - 1, size, probability))


@pytest.mark.parametrize(("law", "scale", "size"), SMALL)
def test_the_law_of_noise_of_small_scales(law, scale, size):
    """How often each of −3 to 3 is drawn, and what is beyond."""
    noise = drawn(law, size, scale)
    near = np.bincount(noise[np.abs(noise) <= 3] + 3, minlength=7)
    seen = np.append(near, size - near.sum())
    assert two_sided(seen, size, probabilities(law, scale)).min() > SMALL_LIMIT


def test_the_fault_of_earlier_samplers_would_be_seen():
    """P(0) = 0.305 in place of 0.3215: but for a probability of 10⁻²⁰, the test above fails."""
    law, scale, size = SMALL[0]
    right = probabilities(law, scale)[3]
    assert right == pytest.approx(0.32151, abs=1e-5)
    highest = binom.isf(1e-20, size, 0.305)
    assert two_sided(highest, size, right) < SMALL_LIMIT


@pytest.mark.parametrize("sample", ["gaussian", "laplace"])
def test_coordinates_are_independent(sample, request):
    """Neighbours, and the same place in other blocks of work."""
    values = request.getfixturevalue(sample)
    values = (values - values.mean()) / values.std()
    for lag in (
        1,
        2,
        3,
        7,
        BLOCK - 1,
        BLOCK,
        BLOCK + 1,
        2 * BLOCK,
        values.size // 98,
        values.size // 2,
    ):
        shared = values[:-lag] @ values[lag:] / (values.size - lag)
        assert abs(shared) < 6 / math.sqrt(values.size - lag), lag


@pytest.mark.parametrize("law", LAWS)
def test_runs_and_blocks_share_nothing(law):
    first, second = drawn(law, 5 * BLOCK, WIDE), drawn(law, 5 * BLOCK, WIDE)
    blocks = [*np.array_split(first, 5 * BLOCK // 256), *np.array_split(second, 5 * BLOCK // 256)]
    assert len({block.tobytes() for block in blocks}) == len(blocks)
    assert (
        np.unique(np.concatenate([first, second])).size > 9.99 * BLOCK
    )  # numbers around 5e9: hardly any twice
    assert abs(np.corrcoef(first, second)[0, 1]) < 6 / math.sqrt(first.size)


@pytest.mark.parametrize("law", LAWS)
@pytest.mark.parametrize("size", [1, 2, 3, BLOCK - 1, BLOCK, BLOCK + 1, 2 * BLOCK, 3 * BLOCK + 7])
def test_every_coordinate_moves(law, size):
    """By nothing with probability 10⁻¹⁰ each."""
    moved = drawn(law, size, WIDE)
    assert moved.shape == (size,)
    assert (moved != 0).all()


def test_nothing_in_gives_nothing_out():
    for law in LAWS:
        assert drawn(law, 0, WIDE).shape == (0,)


@pytest.mark.parametrize("law", LAWS)
def test_the_low_bits_are_even(law, gaussian, laplace):
    """Noise on a coarser grid than the values would show them."""
    sample = {"discrete_gaussian": gaussian, "discrete_laplace": laplace}[law]
    low = np.rint(sample * WIDE).astype(np.int64) & 0xFF
    assert chisquare(np.bincount(low, minlength=256)).pvalue > LIMIT


@pytest.mark.parametrize(
    ("law", "maker"), [("discrete_gaussian", "make_gaussian"), ("discrete_laplace", "make_laplace")]
)
@pytest.mark.parametrize("scale", [0.1, 1 / 3, 36.3 * 2**30])
def test_opendp_is_asked_for_the_scale_to_its_last_digit(law, maker, scale, monkeypatch):
    """And for every value, once, in order."""
    seen, values = [], np.arange(3 * BLOCK + 7)
    dp = module.opendp()

    def make(*_space, scale):
        seen.append(scale)
        return lambda block: [int(value) for value in block]

    monkeypatch.setattr(dp.m, maker, make)
    assert getattr(ExactNoise(), law)(values, scale=scale).tolist() == values.tolist()
    assert seen == [scale]
