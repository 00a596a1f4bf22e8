"""Noise whose answers are written down, and given again to another dataset.

Everything after the noise is post-processing if, given the same noisy answers, two unrelated
datasets give the same release to the last byte: then nothing but the noisy answers has come through
the door.

As a program it is the command line itself, with the exact sampler's answers written to a file, or
read from it:

    python replaying.py record|replay FILE release counts --vocab …
"""

import pickle
import sys
from pathlib import Path

import numpy as np

from bayesgram.privacy.noise import ExactNoise, NoiseSource


class NoiseRecorder(NoiseSource):
    """Answers of the exact sampler, kept in `answers`."""

    seeded = False

    def __init__(self):
        self.answers = []

    def discrete_laplace(self, values, *, scale):
        return self._kept("laplace", ExactNoise().discrete_laplace(values, scale=scale), scale)

    def discrete_gaussian(self, values, *, scale):
        return self._kept("gaussian", ExactNoise().discrete_gaussian(values, scale=scale), scale)

    def _kept(self, law, answer, scale):
        self.answers.append((law, float(scale), answer.copy()))
        return answer


class NoiseReplayer(NoiseSource):
    """The same answers, whatever the values; another question than was asked then is an error."""

    seeded = False

    def __init__(self, answers):
        self.left = list(answers)

    def discrete_laplace(self, values, *, scale):
        return self._next("laplace", values, scale)

    def discrete_gaussian(self, values, *, scale):
        return self._next("gaussian", values, scale)

    def _next(self, law, values, scale):
        then, scale_then, answer = self.left.pop(0)
        assert (law, float(scale), np.shape(values)) == (then, scale_then, answer.shape)
        return answer.copy()


def main():
    from bayesgram.cli import main as bayesgram
    from bayesgram.mechanisms import base

    mode, file, *arguments = sys.argv[1:]
    source = (
        NoiseRecorder()
        if mode == "record"
        else NoiseReplayer(pickle.loads(Path(file).read_bytes()))
    )
    base.ExactNoise = lambda: source
    sys.argv = ["bayesgram", *arguments]
    try:
        bayesgram()
    finally:
        if mode == "record":
            Path(file).write_bytes(pickle.dumps(source.answers))
        else:
            assert not source.left, "fewer questions than then"


if __name__ == "__main__":
    main()
