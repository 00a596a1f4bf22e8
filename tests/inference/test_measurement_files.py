"""What a release keeps is what inference had: the same answer, bit for bit, from the file alone."""

import numpy as np
import pyarrow as pa
import pytest

from bayesgram.inference.chaining import restore_noisy_counts
from bayesgram.inference.orders import infer_orders
from bayesgram.mechanisms.gaussian import Gaussian
from bayesgram.mechanisms.posterior import Posterior
from bayesgram.mechanisms.publish import release
from bayesgram.privacy.budget import Budget
from bayesgram.public.mixture import SourceCounts
from bayesgram.public.vocabulary import Vocabulary
from bayesgram.releases.card_sections import order_details
from bayesgram.releases.measurements import CLIPPED_WORD, NGRAM
from bayesgram.releases.release import Release
from bayesgram.text.tokenizer import Tokenizer
from helpers import reference_paper

SIZE = 60


def words():
    ngrams = pa.array([f"w{i}" for i in range(SIZE)], pa.large_string())
    return Vocabulary(ngrams, 10_000 // np.arange(1, SIZE + 1), 1, Tokenizer())


def triples():
    ngrams = pa.array([f"w{i % 7} w{i % 5} w{i}" for i in range(SIZE)], pa.large_string())
    return Vocabulary(ngrams, 10_000 // np.arange(1, SIZE + 1), 3, Tokenizer())


def several():
    ngrams = [f"w{i}" for i in range(10)] + [
        f"w{i % 10} w{i // 10} w{i % 3}" for i in range(SIZE - 10)
    ]
    sources = [
        SourceCounts("wiki", 10_000 // np.arange(1, SIZE + 1)),
        SourceCounts("talk", 50 * np.arange(1, SIZE + 1)),
    ]
    return Vocabulary.from_source_counts(
        pa.array(ngrams, pa.large_string()), sources, 3, Tokenizer()
    )


def crowd(vocabulary, users=3000):
    rng = np.random.default_rng(1)
    lengths = np.minimum(rng.pareto(1.1, users) * 4 + 1, 300).astype(int)
    rows = np.array(
        [rng.multinomial(length, rng.dirichlet(np.full(SIZE, 0.3))) for length in lengths]
    )
    return reference_paper.make_user_counts(
        rows, [f"u{i}" for i in range(users)], fingerprint=vocabulary.fingerprint
    )


@pytest.mark.parametrize("make", [words, triples, several])
@pytest.mark.parametrize(("epsilon", "clip_norm"), [(20.0, None), (0.5, None), (1.0, 2.0)])
def test_inference_from_the_file_alone_is_the_same_to_the_last_bit(
    make, epsilon, clip_norm, tmp_path
):
    vocabulary = make()
    made = release(
        crowd(vocabulary), vocabulary, Posterior(clip_norm), Budget(epsilon, 1e-6), seed=3
    )
    made.save(tmp_path / "out")
    found = Release.load(tmp_path / "out")
    parts = [part for _, part in vocabulary.by_order]
    again = infer_orders([restore_noisy_counts(found.measurements, part) for part in parts], parts)
    assert np.array_equal(np.concatenate([each.theta for each in again]), made.probabilities)
    assert np.array_equal(np.concatenate([each.deviation for each in again]), made.probability_std)
    for part in parts:
        lost = found.measurements.block(CLIPPED_WORD, part.order)
        assert (lost is not None) == ("lost_norm" in order_details(made.card.details, part.order))


def test_gaussian_keeps_its_counts():
    vocabulary = triples()
    made = release(crowd(vocabulary), vocabulary, Gaussian(), Budget(1.0, 1e-6), seed=3)
    _, counts, noise = made.measurements.ngrams(3)
    raised = np.maximum(counts, 1.0)
    assert np.array_equal(raised / raised.sum(), made.probabilities)
    assert (noise == made.card.details["noise_multiplier"] * 4.0).all()
    assert made.measurements.block(NGRAM, 3).texts.equals(vocabulary.ngrams)
