"""The one module that draws privacy noise.

`ExactNoise` is OpenDP's sampler: exact arithmetic on integers, and the random numbers of OpenSSL.
`SeededNoise` repeats itself, for tests and figures; a release made with it says so on its card and
is never PROVED. `check_opendp` refuses an OpenDP whose sampler is known to be biased, before
anything is spent.

This module does not choose scales: mechanisms do, from public bounds. A scale of 0, which would
publish exact data, is refused.
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

# Entries that a core draws noise for at a time. Not measured against other sizes.
BLOCK = 1 << 12

# Steps per noise scale of the grid that real numbers are rounded to. Not measured against others.
GRID = 1 << 20

# The first OpenDP whose samplers have the law that they state. Earlier ones divide fractions
# wrongly (dashu#57, mended in opendp#2639): discrete Laplace noise of scale 1.5 is 0 with
# probability 0.304 instead of 0.3215 (measured in 0.14.1).
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
            f"OpenDP {version} is not a released version, so that the law of its noise is not"
            f" known; {upgrade}"
        )
    if tuple(map(int, match.groups())) < OLDEST_OPENDP:
        raise BayesgramError(
            f"OpenDP {version} draws noise that does not have the law it states (opendp#2638), so"
            f" that no guarantee would hold; {upgrade}"
        )


def opendp() -> ModuleType:
    """Return OpenDP, which is loaded when it is first needed (0.2 s).

    "contrib" is its switch for samplers whose proofs are still under review.
    """
    check_opendp()
    import opendp.prelude as dp  # noqa: PLC0415

    dp.enable_features("contrib")
    return dp


class NoiseSource(ABC):
    """A source of noise: exact on integers, and on real numbers by way of a fine grid.

    Attributes:
        seeded: Whether the noise repeats itself, so that nothing made with it may be published.
    """

    seeded: bool

    @abstractmethod
    def discrete_laplace(self, values: Integers, *, scale: float) -> Integers:
        """Return values + k, where P(k) ∝ exp(−|k|/scale), independently for each."""

    @abstractmethod
    def discrete_gaussian(self, values: Integers, *, scale: float) -> Integers:
        """Return values + k, where P(k) ∝ exp(−k²/(2·scale²)), independently for each."""

    def laplace(self, values: Floats, *, scale: float) -> Floats:
        """Return real values + Lap(scale), on a fine grid.

        Not for PROVED mechanisms: they work on integers.
        """
        step = _grid_step(values, check_scale(scale))
        noisy = self.discrete_laplace(_round_to_grid(values, step), scale=scale / step)
        return noisy.astype(np.float64) * step

    def gaussian(self, values: Floats, *, scale: float) -> Floats:
        """Return real values + N(0, scale²), on a fine grid.

        Not for PROVED mechanisms: they work on integers.
        """
        step = _grid_step(values, check_scale(scale))
        noisy = self.discrete_gaussian(_round_to_grid(values, step), scale=scale / step)
        return noisy.astype(np.float64) * step


def check_scale(scale: float) -> float:
    """Return the scale unchanged.

    Raises:
        BayesgramError: If it is not a finite number above 0.
    """
    if not 0 < scale < math.inf:
        raise BayesgramError.for_argument(
            "scale",
            scale,
            "noise of a finite scale above 0 is needed, or exact private data would come "
            "out; nothing was released.",
        )
    return float(scale)


def _grid_step(values: Floats, scale: float) -> float:
    """Return a small part of the scale, but so large that the values fit in 64 bits."""
    return max(scale / GRID, float(np.abs(values).max(initial=0.0)) / (1 << 60))


def _round_to_grid(values: Floats, step: float) -> Integers:
    return np.rint(values / step).astype(np.int64)


class ExactNoise(NoiseSource):
    """Noise by OpenDP's exact samplers; nobody can predict or repeat it.

    Mechanisms make their source of noise before they reserve a budget, so OpenDP is checked here.

    Raises:
        BayesgramError: If the installed OpenDP is refused (`check_opendp`).

    """

    seeded = False

    def __init__(self) -> None:
        check_opendp()

    def discrete_laplace(self, values: Integers, *, scale: float) -> Integers:
        """Return values with OpenDP's discrete Laplace noise."""
        dp = opendp()
        space = dp.vector_domain(dp.atom_domain(T="i64")), dp.l1_distance(T="i64")
        return _draw_in_blocks(dp.m.make_laplace(*space, scale=check_scale(scale)), values)

    def discrete_gaussian(self, values: Integers, *, scale: float) -> Integers:
        """Return values with OpenDP's discrete Gaussian noise."""
        dp = opendp()
        space = dp.vector_domain(dp.atom_domain(T="i64")), dp.l2_distance(T="f64")
        return _draw_in_blocks(dp.m.make_gaussian(*space, scale=check_scale(scale)), values)


def _draw_in_blocks(measurement: Callable[[Integers], list[int]], values: Integers) -> Integers:
    # Noise is independent from entry to entry, so blocks go to all cores: the sampler releases the
    # GIL.
    blocks = np.array_split(values, values.size // BLOCK + 1)
    noisy = parallel_map(lambda block: np.array(measurement(block), dtype=np.int64), blocks)
    return np.concatenate(noisy)


class SeededNoise(NoiseSource):
    """Repeatable noise of the same shape: for tests and figures, never for publication."""

    seeded = True

    def __init__(self, seed: int) -> None:
        self._rng = np.random.default_rng(seed)

    def discrete_laplace(self, values: Integers, *, scale: float) -> Integers:
        """Return values plus the difference of two geometric numbers."""
        p = -np.expm1(-1 / check_scale(scale))
        return values + self._rng.geometric(p, values.size) - self._rng.geometric(p, values.size)

    def discrete_gaussian(self, values: Integers, *, scale: float) -> Integers:
        """Return values plus a rounded normal number."""
        noise = np.rint(self._rng.normal(0, check_scale(scale), values.size))
        return values + noise.astype(np.int64)
