"""The one file that draws privacy noise.

`ExactNoise` is OpenDP's sampler: exact arithmetic on integers, randomness of OpenSSL's generator. `SeededNoise` repeats
itself, for tests and figures; a release made with it is stamped and never PROVED.
An OpenDP whose sampler is known to be biased is refused before anything is spent (`check_opendp`).
Does not choose scales: mechanisms do, from public bounds. A scale of 0, which would hand out exact data, is refused.
"""

import math
import re
from abc import ABC, abstractmethod
from collections.abc import Callable
from importlib import metadata
from types import ModuleType

import numpy as np

from bayesgram.arrays import Floats, Integers
from bayesgram.cores import parallel_map
from bayesgram.errors import BayesgramError

BLOCK = 1 << 12  # entries that a core takes at a time
GRID = 1 << 20  # steps per scale when real numbers are noised: as fine as anyone can see

# The first OpenDP whose samplers have the law that they state. Earlier ones divide fractions wrongly
# (dashu#57, mended in opendp#2639): discrete Laplace noise of scale 1.5 is 0 with probability 0.304
# instead of 0.3215 (measured in 0.14.1).
OLDEST_OPENDP = (0, 14, 2)
RELEASED_VERSION = re.compile(r"(\d+)\.(\d+)\.(\d+)(?:\.post\d+)?(?:\+[\w.]+)?", re.ASCII)


def check_opendp() -> None:
    """Check that the installed OpenDP draws noise of the law that it states. Does not load it.

    Development versions (`0.15.0.dev…`, `0.16.0a…`) are refused whatever their number, which does
    not say whether they were made before the sampler was mended.

    Raises:
        BayesgramError: If OpenDP is older than 0.14.2, a development version, or not installed.

    """
    oldest = ".".join(map(str, OLDEST_OPENDP))
    upgrade = f"nothing was released or spent. Run: pip install 'opendp>={oldest}'"
    try:
        version = metadata.version("opendp")
    except metadata.PackageNotFoundError:
        raise BayesgramError(
            f"OpenDP, which draws the noise, is not installed; {upgrade}"
        ) from None
    match = RELEASED_VERSION.fullmatch(version)
    if match is None:
        raise BayesgramError(
            f"OpenDP {version} is not a released version, so that the law of its noise is not known; {upgrade}"
        )
    if tuple(map(int, match.groups())) < OLDEST_OPENDP:
        raise BayesgramError(
            f"OpenDP {version} draws noise that does not have the law it states (opendp#2638), so that"
            f" no guarantee would hold; {upgrade}"
        )


def opendp() -> ModuleType:
    """OpenDP, loaded when it is needed (0.2 s). "contrib" is its switch for proofs that are still under review."""
    check_opendp()
    import opendp.prelude as dp  # noqa: PLC0415

    dp.enable_features("contrib")
    return dp


class NoiseSource(ABC):
    """Noise on integers, exact; on real numbers by way of a fine grid."""

    seeded: bool

    @abstractmethod
    def discrete_laplace(self, values: Integers, *, scale: float) -> Integers:
        """Values + k, P(k) ∝ exp(−|k|/scale)."""

    @abstractmethod
    def discrete_gaussian(self, values: Integers, *, scale: float) -> Integers:
        """Values + k, P(k) ∝ exp(−k²/(2·scale²))."""

    def laplace(self, values: Floats, *, scale: float) -> Floats:
        """Real values + Lap(scale), on a fine grid. Not for PROVED mechanisms: they work on integers."""
        step = _step(values, checked_scale(scale))
        return (
            self.discrete_laplace(_on_grid(values, step), scale=scale / step).astype(np.float64)
            * step
        )

    def gaussian(self, values: Floats, *, scale: float) -> Floats:
        """Real values + N(0, scale²), on a fine grid. Not for PROVED mechanisms: they work on integers."""
        step = _step(values, checked_scale(scale))
        return (
            self.discrete_gaussian(_on_grid(values, step), scale=scale / step).astype(np.float64)
            * step
        )


def checked_scale(scale: float) -> float:
    """The scale, if noise of it hides anything."""
    if not 0 < scale < math.inf:
        raise BayesgramError.for_argument(
            "scale",
            scale,
            "noise of a finite scale above 0 is needed, or exact private data would come "
            "out; nothing was released.",
        )
    return float(scale)


def _step(values: Floats, scale: float) -> float:
    """A fine part of the scale, but not so fine that the values leave 64 bits."""
    return max(scale / GRID, float(np.abs(values).max(initial=0.0)) / (1 << 60))


def _on_grid(values: Floats, step: float) -> Integers:
    return np.rint(values / step).astype(np.int64)


class ExactNoise(NoiseSource):
    """OpenDP's exact samplers; unpredictable.

    Mechanisms make their source of noise before they reserve a budget, so OpenDP is checked here.

    Raises:
        BayesgramError: If the installed OpenDP is refused (`check_opendp`).

    """

    seeded = False

    def __init__(self) -> None:
        check_opendp()

    def discrete_laplace(self, values: Integers, *, scale: float) -> Integers:
        """OpenDP's discrete Laplace."""
        dp = opendp()
        space = dp.vector_domain(dp.atom_domain(T="i64")), dp.l1_distance(T="i64")
        return _measured(dp.m.make_laplace(*space, scale=checked_scale(scale)), values)

    def discrete_gaussian(self, values: Integers, *, scale: float) -> Integers:
        """OpenDP's discrete Gaussian."""
        dp = opendp()
        space = dp.vector_domain(dp.atom_domain(T="i64")), dp.l2_distance(T="f64")
        return _measured(dp.m.make_gaussian(*space, scale=checked_scale(scale)), values)


def _measured(measurement: Callable[[Integers], list[int]], values: Integers) -> Integers:
    """Noise is independent from entry to entry, so blocks of them go to all cores: the sampler releases the GIL."""
    blocks = np.array_split(values, values.size // BLOCK + 1)
    noisy = parallel_map(lambda block: np.array(measurement(block), dtype=np.int64), blocks)
    return np.concatenate(noisy)


class SeededNoise(NoiseSource):
    """Repeatable noise of the same shape: for tests and figures, never for publication."""

    seeded = True

    def __init__(self, seed: int) -> None:
        self._rng = np.random.default_rng(seed)

    def discrete_laplace(self, values: Integers, *, scale: float) -> Integers:
        """The difference of two geometric numbers."""
        p = -np.expm1(-1 / checked_scale(scale))
        return values + self._rng.geometric(p, values.size) - self._rng.geometric(p, values.size)

    def discrete_gaussian(self, values: Integers, *, scale: float) -> Integers:
        """A rounded normal number."""
        return values + np.rint(self._rng.normal(0, checked_scale(scale), values.size)).astype(
            np.int64
        )
