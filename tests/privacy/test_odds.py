"""What (ε, δ) says about odds, and what it does not (docs/promise.md, "In odds")."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import brentq
from scipy.stats import norm

from bayesgram.privacy.accounting import gaussian_delta

WEIGHTS = st.lists(st.integers(0, 1000), min_size=5, max_size=5).filter(any)


def hockey_stick(p, q, epsilon):
    """The smallest δ for which P(E) ≤ e^ε Q(E) + δ for every event E."""
    return float(np.maximum(p - math.exp(epsilon) * q, 0).sum())


def corners(p, q):
    """The errors (α, β) of the best tests of P against Q: events by falling q/p."""
    order = np.argsort(-np.divide(q, p, out=np.full(p.size, np.inf), where=p > 0), kind="stable")
    false_alarms = np.concatenate([[0.0], np.cumsum(p[order])])
    misses = 1 - np.concatenate([[0.0], np.cumsum(q[order])])
    is_best = np.append(np.diff(false_alarms) > 0, True)  # the fewest misses at these false alarms
    return false_alarms[is_best], misses[is_best]


def curve(alpha, epsilon, delta):
    """The fewest misses that (ε, δ) leaves to a test with so many false alarms."""
    near = 1 - delta - math.exp(epsilon) * alpha
    far = math.exp(-epsilon) * (1 - delta - alpha)
    return np.maximum(0, np.maximum(near, far))


@given(WEIGHTS, WEIGHTS, st.floats(0.01, 3))
def test_an_epsilon_delta_release_tells_no_more_than_the_truth_with_probability_delta(
    weights, others, epsilon
):
    """The curve of any release is nowhere below that of the game, and the game reaches it."""
    p, q = (np.array(w) / sum(w) for w in (weights, others))
    delta = max(hockey_stick(p, q, epsilon), hockey_stick(q, p, epsilon))
    false_alarms, misses = corners(p, q)
    assert np.all(misses >= curve(false_alarms, epsilon, delta) - 1e-9)

    right = (1 - delta) * math.exp(epsilon) / (1 + math.exp(epsilon))
    wrong = (1 - delta) / (1 + math.exp(epsilon))
    game = np.array([delta, right, wrong, 0.0])
    false_alarms, misses = corners(game, game[::-1])
    assert misses == pytest.approx(curve(false_alarms, epsilon, delta), abs=1e-9)


def test_the_odds_exceed_the_factor_more_often_than_delta():
    """The privacy loss of a Gaussian release is N(μ²/2, μ²): the numbers of the documents."""
    mu = brentq(lambda m: float(gaussian_delta(np.array([1.0]), m)[0]) - 1e-7, 0.1, 1.0)
    assert mu == pytest.approx(0.214, abs=5e-4)
    loss = norm(mu**2 / 2, mu)
    assert loss.sf(1.0) == pytest.approx(norm.sf(1 / mu - mu / 2))
    assert loss.sf(1.0) == pytest.approx(2.4e-6, rel=0.02)
    assert math.exp(loss.isf(1e-7)) == pytest.approx(3.11, abs=5e-3)
