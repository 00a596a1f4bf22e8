"""A noise source that notes what it is asked for: tests read scales and values off it."""

import numpy as np

from bayesgram.mechanisms.base import Randomness
from bayesgram.privacy.noise import NoiseSource


class RecordingNoise(NoiseSource):
    """Adds no noise; `asked` holds (law, values, scale) of every call."""

    seeded = True

    def __init__(self):
        self.asked = []

    def discrete_laplace(self, values, *, scale):
        self.asked.append(("laplace", np.array(values), scale))
        return np.array(values)

    def discrete_gaussian(self, values, *, scale):
        self.asked.append(("gaussian", np.array(values), scale))
        return np.array(values)

    def laplace(self, values, *, scale):
        self.asked.append(("real laplace", np.array(values), scale))
        return np.array(values)

    def gaussian(self, values, *, scale):
        self.asked.append(("real gaussian", np.array(values), scale))
        return np.array(values)


def asked_by(mechanism, counts, vocabulary, budget, key=11):
    """What a mechanism asks of its noise, and its output without noise."""
    noise = RecordingNoise()
    outcome = mechanism.distribution(counts, vocabulary, budget, Randomness(noise, key))
    return noise.asked, outcome.theta, outcome.details
