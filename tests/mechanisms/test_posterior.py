"""The door of the certified mechanism: what is measured, how far one user moves it, how much noise it gets."""

import math
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import reference
from bayesgram.audit.utility import kl_divergence
from bayesgram.errors import UsageError
from bayesgram.experiments.population import Population
from bayesgram.mechanisms.gaussian import Gaussian
from bayesgram.mechanisms.laplace import Laplace
from bayesgram.mechanisms.paper import Paper
from bayesgram.mechanisms.posterior import (
    HISTOGRAM_SHARE,
    NORM_EDGES,
    Posterior,
    best_clip_norm,
    coordinates,
    public_ngrams,
)
from bayesgram.privacy.budget import Budget, Guarantee
from bayesgram.privacy.calibration import calibrate_gaussian
from bayesgram.private.clip import UNITS, clipped_sum
from bayesgram.private.counts import count
from bayesgram.public.prior import public_distribution
from bayesgram.public.vocabulary import Vocabulary
from bayesgram.text.tokens import Tokenizer
from recording import asked_by
from strategies import matrices


def bigrams(size):
    ngrams = pa.array([f"w{i % 3} w{i}" for i in range(size)], pa.large_string())
    return Vocabulary(ngrams, np.arange(1, size + 1), 2, Tokenizer())


def without(matrix, user):
    names = [f"u{i}" for i in range(len(matrix)) if i != user]
    return reference.user_counts(np.delete(matrix, user, axis=0), names)


@settings(deadline=None, max_examples=60)
@given(matrices(users=(1, 5), ngrams=(2, 6), largest=50), st.floats(0.3, 30))
def test_one_user_moves_the_measured_sum_by_at_most_its_units(matrix, clip_norm):
    vocabulary, mechanism, budget = bigrams(matrix.shape[1]), Posterior(clip_norm), Budget(0.3, 1e-6)
    [(law, whole, scale)], _, _ = asked_by(mechanism, reference.user_counts(matrix), vocabulary, budget)
    size = matrix.shape[1] + vocabulary.words[1] + NORM_EDGES.size + 1
    noise = calibrate_gaussian(budget, coordinates=size, units=UNITS)
    assert (law, scale) == ("gaussian", noise.multiplier * UNITS)  # no histogram: the whole budget
    for user in range(len(matrix)):
        [(_, less, same)], _, _ = asked_by(mechanism, without(matrix, user), vocabulary, budget)
        assert same == scale
        assert sum(int(k) ** 2 for k in whole - less) <= UNITS**2


@settings(deadline=None, max_examples=60)
@given(matrices(users=(1, 5), ngrams=(2, 6), largest=50))
def test_the_histogram_and_the_counts_share_one_budget(matrix):
    vocabulary, budget = bigrams(matrix.shape[1]), Budget(0.3, 1e-6)
    asked, _, details = asked_by(Posterior(), reference.user_counts(matrix), vocabulary, budget)
    (_, histogram, histogram_scale), (_, _, scale) = asked
    size = matrix.shape[1] + vocabulary.words[1] + NORM_EDGES.size + 1
    whole = calibrate_gaussian(budget, coordinates=size, units=UNITS).multiplier
    spent = (UNITS / histogram_scale) ** 2 + (UNITS / scale) ** 2
    assert spent == pytest.approx(1 / whole**2)
    assert spent <= (1 + 1e-12) / whole**2
    assert (UNITS / histogram_scale) ** 2 == pytest.approx(HISTOGRAM_SHARE / whole**2)
    assert histogram.sum() == len(matrix) * UNITS
    for user in range(len(matrix)):
        (_, less, same), _ = asked_by(Posterior(), without(matrix, user), vocabulary, budget)[0]
        assert same == histogram_scale
        assert sum(int(k) ** 2 for k in histogram - less) <= UNITS**2
    assert details["clip_norm_used"] in NORM_EDGES


MIXED = ["w0", "w1", "w2", "w0 w1", "w1 w2", "w0 w1 w2", "w2 w1 w0"]


def mixed_orders():
    return Vocabulary(pa.array(MIXED, pa.large_string()), np.arange(7, 0, -1), 3, Tokenizer())


@settings(deadline=None, max_examples=60)
@given(matrices(users=(1, 4), ngrams=(7, 7), largest=50), st.floats(0.3, 30))
def test_several_orders_are_one_vector_that_a_user_moves_by_its_units(matrix, clip_norm):
    vocabulary, mechanism, budget = mixed_orders(), Posterior(clip_norm), Budget(0.3, 1e-6)
    [(_, whole, scale)], theta, details = asked_by(mechanism, reference.user_counts(matrix), vocabulary, budget)
    assert whole.size == 7 + 3  # the words of the trigrams, too
    size = whole.size + NORM_EDGES.size + 1
    assert scale == calibrate_gaussian(budget, coordinates=size, units=UNITS).multiplier * UNITS
    assert [theta[place].sum() for place, _ in vocabulary.parts] == pytest.approx([1, 1, 1])
    assert set(details["expected_counts"]) == {"1", "2", "3"}
    for user in range(len(matrix)):
        [(_, less, _)], _, _ = asked_by(mechanism, without(matrix, user), vocabulary, budget)
        assert sum(int(k) ** 2 for k in whole - less) <= UNITS**2


def test_weights_of_orders_and_words_share_the_norm():
    parts = [public_ngrams(part) for _, part in mixed_orders().parts]
    shape = np.split(coordinates(*parts).shape, [3, 5, 7])
    priors = [part.prior for part in parts] + [parts[-1].per_word(parts[-1].prior) / 3]
    weights = [1 / (s**2 * prior).sum() for s, prior in zip(shape, priors, strict=True)]
    assert weights == pytest.approx([0.99 * 2 / 14, 0.99 * 4 / 14, 0.99 * 8 / 14, 0.01])


@pytest.mark.parametrize("mechanism", [Gaussian(), Laplace(), Paper()])
def test_several_orders_are_refused_by_mechanisms_of_one(mechanism):
    counts = reference.user_counts(np.ones((2, 7), np.int64))
    budget = Budget(1.0, 0.0 if isinstance(mechanism, Laplace) else 1e-6)
    with pytest.raises(UsageError, match="needs a vocabulary of one order; make one with --order, or use posterior"):
        mechanism.release(counts, mixed_orders(), budget)


def test_shapes_and_word_coordinates():
    vocabulary = bigrams(4)
    public = public_ngrams(vocabulary)
    measured = coordinates(public)
    words, total = vocabulary.words
    assert words.shape == (4, 2)
    assert total == 4  # w0 to w3
    assert measured.shape.size == 4 + total
    assert (measured.words == words + 4).all()
    ngram_shape = measured.shape[:4] * math.sqrt(0.99)
    assert (ngram_shape**2 * public.prior).sum() == pytest.approx(1)


def test_a_unigram_vocabulary_measures_no_words_twice():
    assert coordinates(public_ngrams(reference.vocabulary([3, 2, 1]))).shape.size == 3


def test_clip_norms_follow_what_users_write():
    public = public_ngrams(bigrams(500))
    shape = coordinates(public).shape[:500]
    edges = np.concatenate([[0.2], NORM_EDGES])
    light = np.where(np.abs(edges - 1) < 0.1, 1e6, 0.0)
    heavy = np.where(np.abs(edges - 32) < 0.1, 1e6, 0.0)
    assert best_clip_norm(light, public, shape, 4.0) < best_clip_norm(heavy, public, shape, 4.0)
    assert best_clip_norm(heavy, public, shape, 400.0) <= best_clip_norm(heavy, public, shape, 4.0)
    assert best_clip_norm(np.zeros(edges.size), public, shape, 4.0) == 1.0  # nobody


@pytest.fixture(scope="module")
def population():
    """2,000 made-up users, and a vocabulary of 2,000 trigrams."""
    people = Population(users=2_000, seed=3)
    vocabulary = Vocabulary.from_public(list(people.public_text(20_000)), order=3, size=2_000)
    return count(list(people.messages()), vocabulary), vocabulary


def loss(counts, vocabulary, mechanism):
    release = mechanism.release(counts, vocabulary, Budget(1.0, 1e-6), seed=1)
    return kl_divergence(counts.totals, release.probabilities)


@pytest.mark.parametrize(
    ("share", "times"), [(0.0, 1), (0.05, 50), (1.0, 30)], ids=["plain", "a few heavy", "all heavy"]
)
def test_the_automatic_clip_norm_is_good(population, share, times):
    """ε = 1, also with users who say everything 50 times: within 10% of the best Λ of a grid (one noise draw each)."""
    counts, vocabulary = population
    heavy = np.random.default_rng(1).random(len(counts.users)) < share
    repeated = counts.counts * np.where(np.repeat(heavy, np.diff(counts.starts)), times, 1)
    counts = replace(counts, counts=repeated.astype(np.int32))
    chosen = loss(counts, vocabulary, Posterior())
    assert chosen < 0.7 * kl_divergence(counts.totals, public_distribution(vocabulary.counts))
    assert chosen < 1.1 * min(loss(counts, vocabulary, Posterior(norm)) for norm in (1.0, 2.0, 4.0, 8.0, 64.0, 256.0))


@pytest.mark.parametrize("epsilon", [0.3, 1.0, 10.0])
def test_deviations_cover_what_made_up_people_write(epsilon):
    """20,000 people, 5,000 trigrams, by fifths from frequent to rare: within two deviations for 95% or nearly so."""
    people = Population(users=20_000, seed=11)
    vocabulary = Vocabulary.from_public(list(people.public_text(60_000)), order=3, size=5_000)
    counts = count(list(people.messages()), vocabulary)
    release = Posterior().release(counts, vocabulary, Budget(epsilon, 1e-6), seed=2)
    shape = coordinates(public_ngrams(vocabulary))
    clipped = clipped_sum(counts, shape, clip_norm=release.card.details["clip_norm_used"]) * shape.shape
    truth = clipped[: len(vocabulary)] / clipped[: len(vocabulary)].sum()
    z = np.abs(release.probabilities - truth) / release.deviations
    for part in np.array_split(np.argsort(-release.probabilities), 5):
        assert (z[part] < 1).mean() > 0.55
        assert (z[part] < 2).mean() > 0.9
        assert 0.4 < np.sqrt((z[part] ** 2).mean()) < 1.6
    whole = np.abs(release.probabilities - counts.totals / counts.totals.sum()) / release.deviations
    assert (whole < 2).mean() > 0.85  # before clipping, whose cost the deviations do not know


@pytest.mark.parametrize("matrix", [np.zeros((0, 3), np.int64), np.array([[1, 0, 0]]), np.array([[2**31 - 1, 0, 1]])])
def test_nobody_somebody_and_a_user_with_two_billion_of_one_ngram(matrix):
    release = Posterior().release(reference.user_counts(matrix), bigrams(3), Budget(0.5, 1e-6))
    assert release.probabilities.sum() == pytest.approx(1)
    assert release.card.guarantee is Guarantee.PROVED
    assert release.deviations is not None


def test_bad_clip_norms():
    with pytest.raises(UsageError) as caught:
        Posterior(clip_norm=-1.0)
    assert str(caught.value) == (
        "clip_norm=-1.0: give a public number from 1e-6 to 1e9; 4 is usual, and posterior chooses one if it is left out."
    )


def test_unigrams_are_measured_once_and_not_again_as_words():
    vocabulary = Vocabulary(pa.array(["a", "b", "c"], pa.large_string()), np.array([9, 5, 1]), 1, Tokenizer())
    counts = reference.user_counts(np.array([[2, 0, 1], [0, 3, 0]]))
    assert coordinates(public_ngrams(vocabulary)).words.shape == (3, 0)
    made = Posterior(4.0).release(counts, vocabulary, Budget(50.0, 1e-6), seed=1)
    assert made.probabilities.sum() == pytest.approx(1)


def test_mechanisms_that_prove_nothing_have_no_spend():
    with pytest.raises(NotImplementedError):
        Paper().spend(bigrams(3), Budget(1.0, 1e-6))
