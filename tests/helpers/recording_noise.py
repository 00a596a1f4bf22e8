"""A noise source that notes what it is asked for: tests read scales and values off it."""

from contextlib import contextmanager

import numpy as np
import pytest

from bayesgram.inference.design import ClippingPlan
from bayesgram.mechanisms import posterior
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


class FirstAnswerNoise(RecordingNoise):
    """Adds no noise, but for the first question, which has an answer already."""

    def __init__(self, answer):
        super().__init__()
        self.answer = answer

    def discrete_gaussian(self, values, *, scale):
        noisy = super().discrete_gaussian(values, scale=scale)
        return self.answer(noisy.size) if len(self.asked) == 1 else noisy


def record_queries(mechanism, counts, vocabulary, budget, key=11):
    """What a mechanism asks of its noise, and its output without noise."""
    noise = RecordingNoise()
    outcome = mechanism.estimate(counts, vocabulary, budget, Randomness(noise, key))
    return noise.asked, outcome.theta, outcome.details


def record_measurement(mechanism, counts, vocabulary, budget, key=11):
    """What a mechanism asks of its noise, what comes through the door without noise, and what its
    card says of it.
    """
    noise = RecordingNoise()
    measured, details = mechanism.measure(counts, vocabulary, budget, Randomness(noise, key))
    return noise.asked, measured, details


# Both ways in which `posterior` goes on when it has seen how much users write.
CLIPPING_PLANS = {
    "counts": ClippingPlan(2.0, heavy_user_norm=4.0),
    "lost words and counts": ClippingPlan(
        2.0, heavy_user_norm=4.0, clipped_mass_share=0.03, clipped_mass_norm=0.5
    ),
    "lost words first of all": ClippingPlan(
        0.5, heavy_user_norm=1.0, clipped_mass_share=0.7, clipped_mass_norm=8.0
    ),
}


@contextmanager
def fixed_clipping_plan(choice):
    """Make `posterior` go on like this, whatever noisy amounts say; None: as it likes."""
    with pytest.MonkeyPatch.context() as patch:
        if choice is not None:
            patch.setattr(posterior, "choose_clipping", lambda *_: choice)
        yield
