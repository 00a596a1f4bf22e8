"""Noise: its laws, measured; and that there is no other source of it.

Each statistical check allows 5 standard errors: wrong about once in 10⁶ runs.
"""

import ast
import math
from pathlib import Path

import numpy as np
import pytest

import bayesgram
from bayesgram.errors import BayesgramError
from bayesgram.privacy.budget import Budget
from bayesgram.privacy.noise import ExactNoise, SeededNoise

SIZE = 20_000
SRC = Path(bayesgram.__file__).parent


@pytest.fixture(params=["ExactNoise", "SeededNoise"])
def source(request):
    """A new one each time: what a seeded one gives depends on what it was asked before."""
    return ExactNoise() if request.param == "ExactNoise" else SeededNoise(3)


@pytest.mark.parametrize("scale", [0.7, 50.0])
def test_discrete_laplace(source, scale):
    noise = source.discrete_laplace(np.full(SIZE, 7), scale=scale) - 7
    q = math.exp(-1 / scale)
    assert abs((noise == 0).mean() - (1 - q) / (1 + q)) < 5 * 0.5 / math.sqrt(SIZE)
    variance = 2 * q / (1 - q) ** 2
    assert abs(noise.mean()) < 5 * math.sqrt(variance / SIZE)
    assert abs(noise.var() / variance - 1) < 5 * math.sqrt((5.5 + 1 / variance) / SIZE)


@pytest.mark.parametrize("scale", [3.0, 36.3 * 2**30])
def test_discrete_gaussian(source, scale):
    noise = (source.discrete_gaussian(np.full(SIZE, -(10**15)), scale=scale) + 10**15) / scale
    assert abs(noise.mean()) < 5 / math.sqrt(SIZE)
    assert abs(noise.std() - 1) < 5 / math.sqrt(2 * SIZE) + 0.02 / scale
    assert abs((np.abs(noise) < 1).mean() - 0.6827) < 5 * 0.47 / math.sqrt(SIZE) + 0.5 / scale


def test_noise_on_real_numbers(source):
    values = np.linspace(-4, 9, SIZE)
    gaussian = (source.gaussian(values, scale=0.25) - values) / 0.25
    laplace = (source.laplace(values, scale=0.25) - values) / 0.25
    assert abs(gaussian.std() - 1) < 5 / math.sqrt(2 * SIZE)
    assert abs(np.abs(laplace).mean() - 1) < 5 / math.sqrt(SIZE)


@pytest.mark.parametrize("law", ["discrete_laplace", "discrete_gaussian", "laplace", "gaussian"])
@pytest.mark.parametrize("scale", [0.0, -1.0, math.nan, math.inf])
def test_noise_without_a_scale_is_refused(source, law, scale):
    """Scale 0 would hand out exact data. The message names the scale and no value."""
    values = np.array([123456]) if law.startswith("discrete") else np.array([123456.0])
    with pytest.raises(
        BayesgramError, match=r"or exact private data would come out; nothing was released\.$"
    ) as caught:
        getattr(source, law)(values, scale=scale)
    assert "123456" not in str(caught.value)


def test_large_integers_pass_untouched():
    values = np.array([2**62, -(2**62)])
    assert np.abs(ExactNoise().discrete_laplace(values, scale=1.0) - values).max() < 100


def test_exact_noise_never_repeats_and_seeded_noise_does():
    zeros = np.zeros(50, np.int64)
    assert (
        ExactNoise().discrete_gaussian(zeros, scale=1e6).tolist()
        != ExactNoise().discrete_gaussian(zeros, scale=1e6).tolist()
    )
    assert (
        SeededNoise(1).discrete_gaussian(zeros, scale=1e6).tolist()
        == SeededNoise(1).discrete_gaussian(zeros, scale=1e6).tolist()
    )
    assert (ExactNoise().seeded, SeededNoise(1).seeded) == (False, True)


def test_the_laplace_measurement_spends_at_most_epsilon_by_opendp_s_own_map():
    from bayesgram.mechanisms.laplace import laplace_scale
    from bayesgram.privacy.noise import opendp

    dp = opendp()
    space = dp.vector_domain(dp.atom_domain(T="i64")), dp.l1_distance(T="i64")
    for bound, epsilon in ((10, 0.1), (978, 0.1), (7, 0.3), (1, 1 / 3), (4400, 2.0)):
        scale = laplace_scale(bound, Budget(epsilon))
        assert dp.m.make_laplace(*space, scale=scale).map(bound) <= epsilon


def test_privacy_noise_has_one_source():
    """Nothing else draws privacy noise: calibration asks OpenDP for a privacy map, the run's key is the system's."""
    for path in SRC.rglob("*.py"):
        if path.relative_to(SRC).as_posix() == "privacy/noise.py":
            continue
        tree = ast.parse(path.read_text(encoding="utf-8"))
        imported = {
            alias.name
            for node in ast.walk(tree)
            if isinstance(node, ast.Import)
            for alias in node.names
        } | {str(node.module) for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
        assert not {name for name in imported if name.split(".")[0] in {"random", "opendp"}}, path
        calls = {node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
        drawing = {
            "default_rng",
            "normal",
            "standard_normal",
            "geometric",
            "integers",
            "make_laplace",
            "RandomState",
        }
        drawing |= {"make_gaussian"} if path.name != "calibration.py" else set()
        if {"inference", "planning"} & set(path.parts):  # splits what is noisy already
            drawing -= {"default_rng", "standard_normal"}
        if (
            "audit" in path.parts
        ):  # attackers guess and draw from laws; nothing they draw goes into a release
            drawing -= {"default_rng", "standard_normal", "geometric", "integers"}
        assert not calls & drawing, path
        secret = path.relative_to(SRC).as_posix() in {
            "mechanisms/base.py",
            "mechanisms/series.py",
            "privacy/ledger.py",
            "text/row_hashes.py",
            "web/server.py",
        }
        # a run's key, a series' key and tokens, a ledger's name, the salt of hashed rows, a page's token
        assert ("secrets" in imported) == secret, path
