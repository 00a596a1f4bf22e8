"""A small crowd, and a run over it."""

from contextlib import nullcontext

import pytest

from bayesgram.paper.experiment import ExperimentRun
from bayesgram.paper.harness import ExperimentData
from bayesgram.synthetic.crowd import Crowd

USERS, SIZE = 4_000, 450


@pytest.fixture(scope="session")
def data():
    crowd = Crowd(users=USERS, size=SIZE, sentences=20_000, personas=32, pool=8)
    return ExperimentData(crowd.counts(), crowd.vocabulary, USERS, "a small crowd")


@pytest.fixture(scope="session")
def run(data):
    return ExperimentRun(data, (1, 2, 3), 1e-6, quick=True, step=nullcontext, workers=2)
